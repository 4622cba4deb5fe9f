/*
** Operations that are programs themselves: rows of ops.h whose shape and computation are written
** in the language.  A call becomes the nodes of its definition, so sharing, fusion and devices
** treat them as if the user had written them out.
**
** A definition sees its parameters and what it assigns, never the user's functions, and its errors
** have the call's place.  An operation with several results has a definition for each: what they
** share is computed once, since equal nodes are one.
**
**   kinds   a letter for each argument
**             v   a vector, which the definition gets as a column       w   of two elements or more
**             s   a square matrix       m   any matrix
**             =   one with the first argument's number of columns       h   of rows
**             t   one of its shape      r   with a row for each element of the first, a vector
**             S   a square one of that order
**             f   a number
**             n   a whole number, 0 or more       p   one of 1 or more
**   numbers whether it is for real arguments, for those of which one is complex, or for both
*/
#include "compile.h"
#include "shape.h"

#include <string.h>

typedef enum numbers { ANY, REAL, COMPLEX } numbers;

typedef struct definition {
    gx_op_id id;
    const char *kinds;
    numbers numbers;
    int result;
    const char *text;
} definition;

/* The coefficients u of a Hankel transform of n numbers; h: the last one's k. */
#define HANKEL                                                                                     \
    " h = floor(n / 2); k = arange(h + 1); y = k * (pi / (n * dln));"                              \
    " P = loggamma((mu + 1 + bias) / 2 + 1i * y); M = loggamma((mu + 1 - bias) / 2 + 1i * y);"     \
    " u = exp(real(P) - real(M) + log(2) * bias +"                                                 \
    " 1i * (imag(P) + imag(M) + 2 * (log(2) - offset) * y));"

/* clang-format off */
static const definition definitions[] = {
    // Structured matrices
    {GX_OP_CIRCULANT, "v", ANY, 0, "def circulant(c) { toeplitz(c, roll(flip(c), 1)) }"},
    {GX_OP_HANKEL, "v", ANY, 0,
     "def hankel(c) { hankel(c, vstack(c[-1, 0], zeros(size(c) - 1, 1))) }"},
    {GX_OP_HANKEL, "vv", ANY, 0,
     "def hankel(c, r) { flip(toeplitz(flip(c), vstack(c[-1, 0], r[1:, 0])), 0) }"},
    {GX_OP_COMPANION, "w", ANY, 0,
     "def companion(a) { n = size(a) - 1; a0 = require(a[0, 0], a[0, 0] != 0, 'the first"
     " coefficient is 0'); vstack(-a[1:, 0].T / a0, hstack(eye(n - 1), zeros(n - 1, 1))) }"},
    {GX_OP_FIEDLER, "v", ANY, 0, "def fiedler(a) { abs(a - a.T) }"},
    {GX_OP_FIEDLER_COMPANION, "w", ANY, 0,
     "def fiedler_companion(a) { n = size(a) - 1; i = arange(n); d = arange(n).T - i;"
     " e = mod(i, 2) == 0; b = vstack(a / require(a[0, 0], a[0, 0] != 0, 'the first"
     " coefficient is 0'), zeros(2, 1)); where(d == 0 & i == 0, -b[1, 0], 0) + where(d == -1"
     " & i == 1 | d == 2 & e | d == -2 & !e, 1, 0) - where(d == 1 & e, take(b, i + 2), 0) -"
     " where(d == -1 & e, take(b, i + 1), 0) }"},
    {GX_OP_LESLIE, "vv", ANY, 0,
     "def leslie(f, s) { vstack(f.T, hstack(diag(s), zeros(size(s), 1))) }"},
    {GX_OP_CONVOLUTION_MATRIX, "vp", ANY, 0,
     "def convolution_matrix(a, n) { z = zeros(n - 1, 1);"
     " toeplitz(vstack(a, z), vstack(a[0, 0], z)) }"},
    {GX_OP_DFT, "p", ANY, 0, "def dft(n) { fft(eye(n)) }"},
    {GX_OP_HILBERT, "n", ANY, 0, "def hilbert(n) { 1 / (arange(n) + arange(1, n + 1).T) }"},
    {GX_OP_HELMERT, "p", ANY, 0,
     "def helmert(n) { k = arange(1, n); j = arange(n).T;"
     " (where(j < k, 1, 0) - where(j == k, k, 0)) / sqrt(k * (k + 1)) }"},
    {GX_OP_KHATRI_RAO, "m=", ANY, 0,
     "def khatri_rao(A, B) { repeat(A, rows(B), 0) * tile(B, rows(A), 1) }"},

    // Functions of matrices
    {GX_OP_COSM, "s", REAL, 0, "def cosm(A) { real(expm(1i * A)) }"},
    {GX_OP_COSM, "s", COMPLEX, 0, "def cosm(A) { (expm(1i * A) + expm(-1i * A)) / 2 }"},
    {GX_OP_SINM, "s", REAL, 0, "def sinm(A) { imag(expm(1i * A)) }"},
    {GX_OP_SINM, "s", COMPLEX, 0, "def sinm(A) { -0.5i * (expm(1i * A) - expm(-1i * A)) }"},
    {GX_OP_TANM, "s", ANY, 0, "def tanm(A) { solve(cosm(A), sinm(A)) }"},
    {GX_OP_COSHM, "s", ANY, 0, "def coshm(A) { (expm(A) + expm(-A)) / 2 }"},
    {GX_OP_SINHM, "s", ANY, 0, "def sinhm(A) { (expm(A) - expm(-A)) / 2 }"},
    {GX_OP_TANHM, "s", ANY, 0, "def tanhm(A) { solve(coshm(A), sinhm(A)) }"},
    {GX_OP_EXPM_FRECHET, "st", ANY, 0,
     "def expm_frechet(A, E) { n = rows(A); expm(block([[A, E], [zeros(n, n), A]]))[0:n, n:2"
     " * n] }"},
    {GX_OP_EXPM_COND, "s", ANY, 0,
     "def expm_cond(A) { n = rows(A); m = n * n; L = kron(eye(n), A); R = kron(A.T, eye(n));"
     " norm(expm(block([[L, eye(m)], [zeros(m, m), R]]))[0:m, m:2 * m], 2) * norm(A) /"
     " norm(expm(A)) }"},

    // Equations, angles, factors
    {GX_OP_SOLVE_CIRCULANT, "vr", REAL, 0,
     "def solve_circulant(c, b) { real(solve_circulant(c + 0i, b)) }"},
    {GX_OP_SOLVE_CIRCULANT, "vr", COMPLEX, 0,
     "def solve_circulant(c, b) { f = fft(c); s = abs(f);"
     " ifft(fft(b) / require(f, min(s) > 2.3e-16 * size(c) * max(s), 'the circulant matrix is"
     " singular')) }"},
    {GX_OP_SUBSPACE_ANGLES, "mh", ANY, 0,
     "def subspace_angles(A, B) { Q, R = qr(A); P, S = qr(B); M = Q.H @ P;"
     " c = clip(flip(svdvals(M)), 0, 1); s = svdvals(P - Q @ M);"
     " where(c * c < 0.5, acos(c), asin(clip(s[size(s) - size(c):, 0], 0, 1))) }"},
    {GX_OP_PROCRUSTES, "mt", ANY, 0, "def procrustes(A, B) { U, P = polar(A.H @ B); U }"},
    {GX_OP_PROCRUSTES, "mt", ANY, 1,
     "def procrustes(A, B) { U, P = polar(A.H @ B); real(trace(P)) }"},
    {GX_OP_FHT, "vff", REAL, 0, "def fht(a, dln, mu) { fht(a, dln, mu, 0, 0) }"},
    {GX_OP_FHT, "vfff", REAL, 0, "def fht(a, dln, mu, offset) { fht(a, dln, mu, offset, 0) }"},
    {GX_OP_FHT, "vffff", REAL, 0,
     "def fht(a, dln, mu, offset, bias) { n = size(a); j = (arange(n) - (n - 1) / 2) * dln;" HANKEL
     " flip(irfft(rfft(a * exp(-bias * j)) * where(k == h, real(u), u), n)) * exp(-bias * (j"
     " + offset)) }"},
    {GX_OP_IFHT, "vff", REAL, 0, "def ifht(a, dln, mu) { ifht(a, dln, mu, 0, 0) }"},
    {GX_OP_IFHT, "vfff", REAL, 0, "def ifht(a, dln, mu, offset) { ifht(a, dln, mu, offset, 0) }"},
    {GX_OP_IFHT, "vffff", REAL, 0,
     "def ifht(a, dln, mu, offset, bias) { n = size(a); j = (arange(n) - (n - 1) / 2) * dln;" HANKEL
     " flip(irfft(rfft(a * exp(bias * (j + offset))) / conj(where(k == h, real(u), u)), n)) *"
     " exp(bias * j) }"},
    {GX_OP_FHTOFFSET, "ff", REAL, 0, "def fhtoffset(dln, mu) { fhtoffset(dln, mu, 0, 0) }"},
    {GX_OP_FHTOFFSET, "fff", REAL, 0,
     "def fhtoffset(dln, mu, initial) { fhtoffset(dln, mu, initial, 0) }"},
    {GX_OP_FHTOFFSET, "ffff", REAL, 0,
     "def fhtoffset(dln, mu, initial, bias) { y = 1i * pi / (2 * dln);"
     " x = (log(2) - initial) / dln + imag(loggamma((mu + 1 + bias) / 2 + y) + loggamma((mu +"
     " 1 - bias) / 2 + y)) / pi; initial + (x - round(x)) * dln }"},
    {GX_OP_RQ, "m", ANY, 0, "def rq(A) { Q, R = qr(flip(A, 0).H); flip(flip(R.H, 0), 1) }"},
    {GX_OP_RQ, "m", ANY, 1, "def rq(A) { Q, R = qr(flip(A, 0).H); flip(Q.H, 0) }"},
    {GX_OP_RSF2CSF, "st", ANY, 0, "def rsf2csf(T, Z) { C, U = schur(T + 0i); C }"},
    {GX_OP_RSF2CSF, "st", ANY, 1, "def rsf2csf(T, Z) { C, U = schur(T + 0i); Z @ U }"},
    {GX_OP_CDF2RDF, "vS", COMPLEX, 0,
     "def cdf2rdf(w, V) { d = arange(size(w)).T - arange(size(w)); y = imag(w); c = y != 0;"
     " s = c & mod(cumsum(c * 1), 2) == 1; x = require(y, !s[-1, 0] & max(where(s, 0,"
     " abs(cumsum(y)))) <= 1e-9 * max(abs(w)), 'conjugate values are not beside each other');"
     " diag(real(w)) + where(d == 1 & s | d == -1 & c & !s, x, 0) }"},
    {GX_OP_CDF2RDF, "vS", COMPLEX, 1,
     "def cdf2rdf(w, V) { c = imag(w) != 0; where((c & mod(cumsum(c * 1), 2) == 1).T,"
     " -imag(V), real(V)) }"},
};
/* clang-format on */

enum { MOST = 5 };

static bool is_complex(const gx_graph *g, const gx_ref *in, int count)
{
    bool is = false;
    for (int k = 0; k < count; k++) {
        is |= gx_number_is_complex(g->node[in[k]].type.dtype);
    }
    return is;
}

bool gx_op_is_defined(const gx_op *op)
{
    return op->id >= GX_OP_CIRCULANT && op->id <= GX_OP_CDF2RDF;
}

/* NULL: there is none for such arguments, and the graph has failed. */
static const definition *find(gx_graph *g, const gx_op *op, const gx_ref *in, int count, int result)
{
    bool is_wide = is_complex(g, in, count);
    for (size_t k = 0; k < sizeof definitions / sizeof *definitions; k++) {
        const definition *d = &definitions[k];
        if (d->id == op->id && (int)strlen(d->kinds) == count && d->result == result &&
            (d->numbers == ANY || (d->numbers == COMPLEX) == is_wide)) {
            return d;
        }
    }
    gx_graph_fail(g, "%s is of %s numbers", op->name, is_wide ? "real" : "complex");
    return NULL;
}

/* The tree of a definition, made once for a graph; NULL: the graph has failed. */
static gx_item *tree_of(gx_graph *g, const char *text)
{
    for (gx_syntax *tree = g->defined; tree != NULL; tree = tree->next) {
        if (strcmp(tree->source, text) == 0) {
            return tree->program->first;
        }
    }
    gx_syntax *made;
    if (gx_syntax_parse(g->mem, text, strlen(text), &made, &g->err) != GX_OK) {
        return NULL;
    }
    made->next = g->defined;
    g->defined = made;
    return made->program->first;
}

/* A whole number as the definition wants it. */
static bool take_count(gx_graph *g, gx_ref ref, const char *name, int64_t least)
{
    int64_t n;
    if (gx_take_whole(g, ref, name, &n) && (n < least || n > GX_SIDE_MAX)) {
        gx_graph_fail(g, "%s must be from %lld to 2^40, not %lld", name, (long long)least,
                      (long long)n);
    }
    return gx_graph_ok(g);
}

/* Does the shape go with the first argument's? */
static bool fits(char kind, const gx_type *t, const gx_type *first)
{
    switch (kind) {
    case '=':
        return t->cols == first->cols;
    case 'h':
    case 'r':
        return t->rows == first->rows;
    case 't':
        return t->rows == first->rows && t->cols == first->cols;
    case 'S':
        return t->rows == first->rows && t->cols == first->rows;
    default:
        return true;
    }
}

/* An argument as its kind says; first: what the first one has become.  GX_NO_NODE: refused. */
static gx_ref argument(gx_graph *g, char kind, const char *name, gx_ref ref, gx_ref first)
{
    const gx_type *t = &g->node[ref].type;
    if (kind == 'n' || kind == 'p') {
        return take_count(g, ref, name, kind == 'p') ? ref : GX_NO_NODE;
    }
    if (!gx_graph_is_dense(g, ref)) {
        return GX_NO_NODE;
    }
    if (kind == 'f' && (t->rows != 1 || t->cols != 1)) {
        return gx_graph_fail(g, "%s is %lldx%lld, but a number is wanted",
                             gx_graph_label(g, ref, name), (long long)t->rows, (long long)t->cols);
    }
    if (kind == 'v' || kind == 'w') {
        bool is_long = t->rows * t->cols >= (kind == 'w' ? 2 : 1);
        return !gx_is_vector(t) ? gx_shape_fail(g, ref, "this is of a vector")
               : !is_long       ? gx_shape_fail(g, ref, "this is of a longer vector")
                                : gx_as_column(g, ref);
    }
    if (kind == 's' && t->rows != t->cols) {
        return gx_shape_fail(g, ref, "this is for square matrices");
    }
    if (!fits(kind, t, &g->node[first].type)) {
        const gx_type *f = &g->node[first].type;
        return gx_graph_fail(g, "%s is %lldx%lld but %s is %lldx%lld",
                             gx_graph_label(g, first, "the first"), (long long)f->rows,
                             (long long)f->cols, gx_graph_label(g, ref, name), (long long)t->rows,
                             (long long)t->cols);
    }
    return ref;
}

gx_ref gx_compile_defined(gx_compiler *c, const gx_op *op, const gx_ref *in, int count, int k)
{
    gx_graph *g = c->g;
    gx_ref taken[MOST] = {in[0]};
    const definition *d = find(g, op, in, count, k);
    gx_item *def = d == NULL ? NULL : tree_of(g, d->text);
    if (def == NULL) {
        return GX_NO_NODE;
    }
    const gx_item *param = def->first->next;
    for (int a = 0; a < count; a++, param = param->next) {
        taken[a] = argument(g, d->kinds[a], param->text, in[a], taken[0]);
        if (taken[a] == GX_NO_NODE) {
            return GX_NO_NODE;
        }
    }
    const gx_item *functions = c->first;
    c->first = NULL;
    c->within++;
    gx_ref value = gx_compile_body(c, def, taken);
    c->within--;
    c->first = functions;
    return value;
}
