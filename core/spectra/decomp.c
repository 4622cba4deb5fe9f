/*
** Decompositions of a matrix in memory: see decomp.h.
**
** A is loaded as the first part, which the kernel then overwrites; POLAR and ORTH stand on the
** singular value decomposition of alg_svd.c.
*/
#include "decomp.h"

#include "../alg/alg.h"
#include "../alg/alg_qr.h"
#include "../alg/dense.h"
#include "alg_eig.h"

#include <math.h>
#include <string.h>

const char *const gx_decomp_names[GX_DECOMP_KINDS][GX_DECOMP_PARTS] = {
    [GX_DECOMP_SCHUR] = {"T", "Z"},           [GX_DECOMP_HESSENBERG] = {"H", "Q"},
    [GX_DECOMP_POLAR] = {"U", "P"},           [GX_DECOMP_LDL] = {"L", "D", "p"},
    [GX_DECOMP_PIVOTED_QR] = {"Q", "R", "p"}, [GX_DECOMP_ORTH] = {"Q"},
    [GX_DECOMP_QZ] = {"S", "T", "Q", "Z"},    [GX_DECOMP_BALANCE] = {"B", "T"},
    [GX_DECOMP_COSSIN] = {"U", "C", "V"},
};

typedef struct work {
    gx_run *run;
    const gx_decomp_args *args;
    gx_decomp *result;
    gx_number dtype;
    int64_t m, n, least;
} work;

/* Memory of part k; NULL: the run has failed. */
static void *part(const work *w, int k, int64_t rows, int64_t cols, gx_number number,
                  uint32_t properties)
{
    void *data = gx_dense_take(w->run, number, rows, cols, gx_decomp_names[w->args->kind][k]);
    w->result->part[k] = (struct gx_decomp_part){data, rows, cols, number, properties};
    return data;
}

/* Refuses what memory_limit does not allow: so many elements, and one call. */
static void refuse_what_is_too_large(const work *w, double elements, gx_kernel_id kernel,
                                     const gx_args *args)
{
    double bytes = elements * (double)gx_number_bytes(w->dtype) + 64 * (double)w->n + 4096 +
                   (double)gx_dense_call_bytes(w->run, kernel, w->dtype, args);
    gx_dense_fits(w->run, bytes < 1e18 ? (size_t)bytes : SIZE_MAX, "the parts", w->args->A,
                  "raise it with gx_config('memory_limit', ...)");
}

/* All of a matrix of A's shape, whose elements must be finite. */
static void load_one(const work *w, const gx_mat *mat, void *to)
{
    int64_t ld = gx_max(1, w->m);
    gx_dense_load(w->run, mat, w->dtype, to, ld);
    gx_dense_finite(w->run, mat->label, w->dtype, to, ld, w->m, w->n);
}

static void load(const work *w, void *to)
{
    load_one(w, w->args->A, to);
}

static gx_args square_args(const work *w)
{
    int64_t ld = gx_max(1, w->n);
    return (gx_args){.m = w->n, .n = w->n, .ldc = ld, .ldright = ld, .wants_right = true};
}

// Similar to A ------------------------------------------------------------------------------------

static void keep_values(const work *w, const void *values)
{
    int64_t n = w->n, ld = gx_max(1, n);
    gx_number wide = gx_number_is_double(w->dtype) ? GX_C128 : GX_C64;
    w->result->values = gx_dense_take(w->run, GX_C128, n, 1, "eigenvalues");
    if (gx_ok(w->run)) {
        gx_convert(wide, values, ld, GX_C128, w->result->values, ld, n, 1);
    }
}

/* What gees and gges say. */
static void say_unsorted(const work *w, int64_t info)
{
    if (gx_ok(w->run) && info > w->n) {
        gx_run_failf(w->run, GX_NUMERIC,
                     "%s has eigenvalues too close to each other to be sorted: leave \"sort\" out",
                     w->args->A->label);
    } else if (gx_ok(w->run) && info > 0) {
        gx_run_failf(w->run, GX_NUMERIC, "the iteration for %s did not converge",
                     w->args->A->label);
    }
}

static void schur(const work *w)
{
    bool is_complex = gx_number_is_complex(w->dtype);
    int64_t n = w->n, info = 0, sorted = 0;
    gx_args args = square_args(w);
    args.sort = w->args->sort;
    args.pivots = &sorted;
    args.info = &info;
    refuse_what_is_too_large(w, 2 * (double)n * (double)n, GX_GEES, &args);
    args.c = part(w, 0, n, n, w->dtype, is_complex ? GX_PROP_UPPER : 0);
    args.right = part(w, 1, n, n, w->dtype, GX_PROP_ORTHOGONAL);
    args.values = gx_dense_take(w->run, GX_C128, n, 1, "eigenvalues");
    load(w, args.c);
    gx_dense_call(w->run, GX_GEES, w->dtype, &args);
    say_unsorted(w, info);
    keep_values(w, args.values);
    gx_mem_free(w->run->ctx->mem, args.values);
}

static void qz(const work *w)
{
    bool is_complex = gx_number_is_complex(w->dtype);
    int64_t n = w->n, info = 0, sorted = 0;
    gx_args args = square_args(w);
    args.ldc2 = args.ldleft = args.ldc;
    args.wants_left = true;
    args.sort = w->args->sort;
    args.pivots = &sorted;
    args.info = &info;
    refuse_what_is_too_large(w, 4 * (double)n * (double)n, GX_GGES, &args);
    args.c = part(w, 0, n, n, w->dtype, is_complex ? GX_PROP_UPPER : 0);
    args.c2 = part(w, 1, n, n, w->dtype, GX_PROP_UPPER);
    args.left = part(w, 2, n, n, w->dtype, GX_PROP_ORTHOGONAL);
    args.right = part(w, 3, n, n, w->dtype, GX_PROP_ORTHOGONAL);
    load(w, args.c);
    load_one(w, w->args->B, args.c2);
    gx_dense_call(w->run, GX_GGES, w->dtype, &args);
    say_unsorted(w, info);
}

/* GEHRD, GEBAL: A becomes part 0, what it is transformed by, of those properties, part 1. */
static void transform(const work *w, gx_kernel_id kernel, uint32_t properties)
{
    gx_args args = square_args(w);
    refuse_what_is_too_large(w, 2 * (double)w->n * (double)w->n, kernel, &args);
    args.c = part(w, 0, w->n, w->n, w->dtype, 0);
    args.right = part(w, 1, w->n, w->n, w->dtype, properties);
    load(w, args.c);
    gx_dense_call(w->run, kernel, w->dtype, &args);
}

// Cosines and sines -------------------------------------------------------------------------------

/* Refuses an x whose columns are not orthonormal, but for rounding; product: n x n. */
static void refuse_what_is_not_unitary(const work *w, const void *x, void *product)
{
    int64_t n = w->n;
    double most = 0;
    gx_dense_gemm(w->run, w->dtype, GX_CONJ_TRANS, GX_NO_TRANS, n, n, n, 1, x, n, x, n, 0, product,
                  n);
    for (int64_t k = 0; k < n * n && gx_ok(w->run); k++) {
        gx_scalar y = gx_number_get(w->dtype, product, k);
        most = fmax(most, hypot(y.re - (k % (n + 1) == 0), y.im));
    }
    if (gx_ok(w->run) && most > 100 * (double)n * gx_number_eps(w->dtype)) {
        gx_run_failf(w->run, GX_ARG,
                     "%s is not unitary (orthogonal): its columns times themselves are off by %.3g",
                     w->args->A->label, most);
    }
}

/* `count` numbers down a diagonal of c from (i, j) on: value, or cosines or sines of the angles. */
static void put_down(const work *w, void *c, int64_t i, int64_t j, int64_t count, double value,
                     const void *angles, bool is_sine)
{
    for (int64_t k = 0; k < count; k++) {
        double angle = angles == NULL ? 0 : gx_number_get(gx_number_real(w->dtype), angles, k).re;
        double x = angles == NULL ? value : value * (is_sine ? sin(angle) : cos(angle));
        gx_number_put(w->dtype, c, (j + k) * w->n + i + k, (gx_scalar){x, 0});
    }
}

/* The middle factor, where LAPACK has each block's cosines, sines, ones. */
static void put_cosines(const work *w, const void *angles, void *c)
{
    int64_t m = w->n, p = w->args->rows, q = w->args->cols;
    int64_t r = gx_min(gx_min(p, q), gx_min(m - p, m - q));
    int64_t n11 = gx_min(p, q) - r, n12 = gx_min(p, m - q) - r;
    int64_t n21 = gx_min(m - p, q) - r, n22 = gx_min(m - p, m - q) - r;
    memset(c, 0, (size_t)(m * m) * gx_number_bytes(w->dtype));
    put_down(w, c, 0, 0, n11, 1, NULL, false);
    put_down(w, c, n11 + r, n11 + n21 + n22 + 2 * r, n12, -1, NULL, false);
    put_down(w, c, p + n22 + r, n11 + r, n21, 1, NULL, false);
    put_down(w, c, p, q, n22, 1, NULL, false);
    put_down(w, c, n11, n11, r, 1, angles, false);
    put_down(w, c, p + n22, r + n21 + n22 + n11, r, 1, angles, false);
    put_down(w, c, n11, n11 + n21 + n22 + r, r, -1, angles, true);
    put_down(w, c, p + n22, n11, r, 1, angles, true);
}

static void cossin(const work *w)
{
    gx_run *run = w->run;
    int64_t n = w->n;
    size_t bytes = (size_t)(n * n) * gx_number_bytes(w->dtype);
    gx_args args = square_args(w);
    args.m = w->args->rows;
    args.k = w->args->cols;
    args.ldleft = args.ldc;
    args.wants_left = true;
    refuse_what_is_too_large(w, 4 * (double)n * (double)n, GX_UNCSD, &args);
    args.left = part(w, 0, n, n, w->dtype, GX_PROP_ORTHOGONAL);
    void *c = part(w, 1, n, n, w->dtype, GX_PROP_ORTHOGONAL);
    args.right = part(w, 2, n, n, w->dtype, GX_PROP_ORTHOGONAL);
    args.values = gx_dense_take(run, gx_number_real(w->dtype), n, 1, "angles");
    args.c = gx_dense_take(run, w->dtype, n, n, w->args->A->label);
    load(w, args.c);
    refuse_what_is_not_unitary(w, args.c, c);
    if (gx_ok(run)) {
        memset(args.left, 0, bytes);
        memset(args.right, 0, bytes);
        gx_dense_call(run, GX_UNCSD, w->dtype, &args);
    }
    if (gx_ok(run)) {
        put_cosines(w, args.values, c);
    }
    gx_mem_free(run->ctx->mem, args.c);
    gx_mem_free(run->ctx->mem, args.values);
}

// Bunch and Kaufman -------------------------------------------------------------------------------

static bool is_symmetric(const work *w, const void *x)
{
    for (int64_t j = 0; j < w->n; j++) {
        for (int64_t i = j + 1; i < w->n; i++) {
            gx_scalar a = gx_number_get(w->dtype, x, j * w->n + i);
            gx_scalar b = gx_number_get(w->dtype, x, i * w->n + j);
            if (a.re != b.re || a.im != b.im) {
                return false;
            }
        }
    }
    return true;
}

/* D and, below its diagonal, the multipliers in L, of what sytrf left in L; pivots < 0: a block. */
static void part_factors(const work *w, bool is_hermitian, const int64_t *pivots, void *l, void *d)
{
    int64_t n = w->n;
    gx_number dtype = w->dtype;
    size_t es = gx_number_bytes(dtype);
    memset(d, 0, (size_t)(n * n) * es);
    for (int64_t j = 0; j < n; j++) {
        gx_number_put(dtype, d, j * n + j, gx_number_get(dtype, l, j * n + j));
        memset(gx_at(l, dtype, n, 0, j), 0, (size_t)j * es);
        gx_number_put(dtype, l, j * n + j, GX_ONE);
    }
    for (int64_t j = 0; j + 1 < n; j++) {
        if (pivots[j] < 0) {
            gx_scalar x = gx_number_get(dtype, l, j * n + j + 1);
            gx_number_put(dtype, l, j * n + j + 1, (gx_scalar){0, 0});
            gx_number_put(dtype, d, j * n + j + 1, x);
            x.im = is_hermitian ? -x.im : x.im;
            gx_number_put(dtype, d, (j + 1) * n + j, x);
            j++;
        }
    }
}

/*
** L = P_1 L_1 P_2 L_2 ...: from the last step on, the rows that each step exchanged are exchanged
** in its columns and later ones.  order: the row of the triangle that is in each row of L; out: p.
*/
static void permute(const work *w, const int64_t *pivots, void *l, int64_t *order, double *p)
{
    int64_t n = w->n;
    for (int64_t i = 0; i < n; i++) {
        order[i] = i;
    }
    for (int64_t j = n - 1; j >= 0; j--) {
        bool is_block = pivots[j] < 0;
        int64_t first = is_block ? j - 1 : j, with = (is_block ? -pivots[j] : pivots[j]) - 1;
        int64_t kept = order[j];
        order[j] = order[with];
        order[with] = kept;
        for (int64_t k = first; k < n && with != j; k++) {
            gx_scalar a = gx_number_get(w->dtype, l, k * n + j);
            gx_number_put(w->dtype, l, k * n + j, gx_number_get(w->dtype, l, k * n + with));
            gx_number_put(w->dtype, l, k * n + with, a);
        }
        j = first;
    }
    for (int64_t i = 0; i < n; i++) {
        p[order[i]] = (double)i;
    }
}

static void ldl(const work *w)
{
    gx_run *run = w->run;
    int64_t n = w->n;
    gx_args args = square_args(w);
    args.uplo = GX_LOWER;
    refuse_what_is_too_large(w, 2 * (double)n * (double)n, GX_SYTRF, &args);
    void *l = part(w, 0, n, n, w->dtype, 0), *d = part(w, 1, n, n, w->dtype, 0);
    void *p = part(w, 2, n, 1, GX_F64, 0);
    int64_t *order = gx_dense_take(run, GX_F64, n, 1, "pivots");
    args.pivots = gx_dense_take(run, GX_F64, n, 1, "pivots");
    args.c = l;
    load(w, l);
    bool is_hermitian = gx_ok(run) && gx_dense_is_hermitian(run, w->dtype, l, gx_max(1, n), n);
    if (gx_ok(run) && !is_hermitian && !is_symmetric(w, l)) {
        gx_alg_refuse_asymmetric(run, w->args->A);
    }
    args.transa = is_hermitian ? GX_CONJ_TRANS : GX_TRANS;
    gx_dense_call(run, GX_SYTRF, w->dtype, &args);
    if (gx_ok(run)) {
        part_factors(w, is_hermitian, args.pivots, l, d);
        permute(w, args.pivots, l, order, p);
        w->result->part[1].properties = is_hermitian ? GX_PROP_HERMITIAN : GX_PROP_SYMMETRIC;
    }
    gx_mem_free(run->ctx->mem, order);
    gx_mem_free(run->ctx->mem, args.pivots);
}

// QR with pivoting --------------------------------------------------------------------------------

static void give_triangle(const work *w, int64_t inner, const void *a)
{
    size_t es = gx_number_bytes(w->dtype);
    char *r = part(w, 1, inner, w->n, w->dtype, GX_PROP_UPPER);
    for (int64_t j = 0; j < w->n && gx_ok(w->run); j++, r += (size_t)inner * es) {
        size_t bytes = (size_t)gx_min(j + 1, w->least) * es;
        memcpy(r, gx_at(a, w->dtype, w->m, 0, j), bytes);
        memset(r + bytes, 0, (size_t)inner * es - bytes);
    }
}

/* The columns of Q from the reflectors in a. */
static void give_q(const work *w, int64_t inner, const void *a, void *tau)
{
    void *q = part(w, 0, w->m, inner, w->dtype, GX_PROP_ORTHOGONAL);
    if (gx_ok(w->run) && w->m > 0) {
        memcpy(q, a, (size_t)(w->m * w->least) * gx_number_bytes(w->dtype));
        gx_args args = {
            .m = w->m, .n = inner, .k = w->least, .c = q, .ldc = gx_max(1, w->m), .tau = tau};
        gx_dense_call(w->run, GX_ORGQR, w->dtype, &args);
    }
}

static void pivoted_qr(const work *w)
{
    gx_run *run = w->run;
    gx_mem *mem = run->ctx->mem;
    int64_t inner = w->args->is_full ? w->m : w->least, ld = gx_max(1, w->m);
    gx_args args = {.m = w->m, .n = w->n, .ldc = ld};
    double m = (double)w->m, n = (double)w->n, k = (double)inner;
    refuse_what_is_too_large(w, m * n + k * (m + n), GX_GEQP3, &args);
    double *p = part(w, 2, w->n, 1, GX_F64, 0);
    args.c = gx_dense_take(run, w->dtype, w->m, w->n, w->args->A->label);
    args.tau = gx_dense_take(run, w->dtype, w->least, 1, "reflectors");
    args.pivots = gx_dense_take(run, GX_F64, w->n, 1, "pivots");
    load(w, args.c);
    gx_dense_call(run, GX_GEQP3, w->dtype, &args);
    for (int64_t j = 0; j < w->n && gx_ok(run); j++) {
        p[j] = (double)args.pivots[j];
    }
    give_triangle(w, inner, args.c);
    give_q(w, inner, args.c, args.tau);
    gx_mem_free(mem, args.c);
    gx_mem_free(mem, args.tau);
    gx_mem_free(mem, args.pivots);
}

// By singular values ------------------------------------------------------------------------------

/* U's columns (is_left) or V^H's rows times the roots of the singular values. */
static void scale(const work *w, const gx_svd_result *s, bool is_left)
{
    int64_t rows = is_left ? s->m : s->count, cols = is_left ? s->count : s->n;
    void *x = is_left ? s->u : s->vt;
    for (int64_t j = 0; j < cols; j++) {
        for (int64_t i = 0; i < rows; i++) {
            gx_scalar value = gx_number_get(w->dtype, x, j * rows + i);
            double root = sqrt(s->sigma[is_left ? j : i]);
            gx_number_put(w->dtype, x, j * rows + i, (gx_scalar){value.re * root, value.im * root});
        }
    }
}

/* U = W V^H; P = V diag(sigma) V^H, or W diag(sigma) W^H, as a product with itself. */
static void polar(const work *w, const gx_svd_result *s)
{
    bool is_left = w->args->is_left;
    int64_t m = w->m, n = w->n, k = s->count, order = is_left ? m : n;
    int64_t ldm = gx_max(1, m), ldk = gx_max(1, k), ldp = gx_max(1, order);
    uint32_t real = gx_number_is_complex(w->dtype) ? 0 : GX_PROP_SYMMETRIC;
    void *u = part(w, 0, m, n, w->dtype, m >= n ? GX_PROP_ORTHOGONAL : 0);
    void *p = part(w, 1, order, order, w->dtype, GX_PROP_HERMITIAN | real);
    gx_dense_gemm(w->run, w->dtype, GX_NO_TRANS, GX_NO_TRANS, m, n, k, 1, s->u, ldm, s->vt, ldk, 0,
                  u, ldm);
    if (gx_ok(w->run)) {
        const void *x = is_left ? s->u : s->vt;
        int64_t ld = is_left ? ldm : ldk;
        scale(w, s, is_left);
        gx_dense_gemm(w->run, w->dtype, is_left ? GX_NO_TRANS : GX_CONJ_TRANS,
                      is_left ? GX_CONJ_TRANS : GX_NO_TRANS, order, order, k, 1, x, ld, x, ld, 0, p,
                      ldp);
        gx_dense_mirror(w->run, w->dtype, p, ldp, order);
    }
}

/* U's columns of singular values that count as more than zero: they become the part. */
static void orth(const work *w, gx_svd_result *s)
{
    double rcond = w->args->rcond;
    double least = (rcond < 0 ? gx_rank_rcond(w->dtype, w->m, w->n) : rcond) *
                   (s->count > 0 ? s->sigma[0] : 0);
    int64_t rank = 0;
    while (rank < s->count && s->sigma[rank] > least) {
        rank++;
    }
    if (s->u == NULL) {
        part(w, 0, w->m, 0, w->dtype, 0);
        return;
    }
    w->result->part[0] =
        (struct gx_decomp_part){s->u, w->m, rank, w->dtype, rank > 0 ? GX_PROP_ORTHOGONAL : 0};
    s->u = NULL;
}

static void by_singular_values(const work *w)
{
    gx_svd_result s = {0};
    gx_svd_args args = {.A = w->args->A, .mode = GX_SVD_ECONOMY, .method = GX_SVD_DENSE};
    bool is_empty = w->least == 0; /* no singular values: nothing runs over 2^40 columns */
    if (is_empty || gx_alg_svd(w->run, &args, &s) == GX_OK) {
        if (w->args->kind == GX_DECOMP_POLAR) {
            polar(w, &s);
        } else {
            orth(w, &s);
        }
    }
    s.mem = w->run->ctx->mem;
    gx_svd_clear(&s);
}

// The driver --------------------------------------------------------------------------------------

gx_code gx_alg_decompose(gx_run *run, const gx_decomp_args *args, gx_decomp *result)
{
    const gx_mat *A = args->A;
    work w = {run, args, result, args->number, A->rows, A->cols, gx_min(A->rows, A->cols)};
    bool is_square = args->kind == GX_DECOMP_SCHUR || args->kind == GX_DECOMP_HESSENBERG ||
                     args->kind == GX_DECOMP_LDL || args->kind >= GX_DECOMP_QZ;
    *result = (gx_decomp){.mem = run->ctx->mem};
    if (is_square && A->rows != A->cols) {
        return gx_run_failf(run, GX_ARG, "%s is %lldx%lld, but this is for square matrices",
                            A->label, (long long)A->rows, (long long)A->cols);
    }
    if (args->kind == GX_DECOMP_QZ && (args->B->rows != A->rows || args->B->cols != A->cols)) {
        return gx_run_failf(run, GX_ARG, "%s is %lldx%lld but %s is %lldx%lld", A->label,
                            (long long)A->rows, (long long)A->cols, args->B->label,
                            (long long)args->B->rows, (long long)args->B->cols);
    }
    switch (args->kind) {
    case GX_DECOMP_QZ:
        qz(&w);
        break;
    case GX_DECOMP_BALANCE:
        transform(&w, GX_GEBAL, 0);
        break;
    case GX_DECOMP_COSSIN:
        cossin(&w);
        break;
    case GX_DECOMP_SCHUR:
        schur(&w);
        break;
    case GX_DECOMP_HESSENBERG:
        transform(&w, GX_GEHRD, GX_PROP_ORTHOGONAL);
        break;
    case GX_DECOMP_LDL:
        ldl(&w);
        break;
    case GX_DECOMP_PIVOTED_QR:
        pivoted_qr(&w);
        break;
    default:
        by_singular_values(&w);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

void gx_decomp_clear(gx_decomp *result)
{
    for (int k = 0; k < GX_DECOMP_PARTS && result->mem != NULL; k++) {
        gx_mem_free(result->mem, result->part[k].data);
        result->part[k].data = NULL;
    }
    gx_mem_free(result->mem, result->values);
    result->values = NULL;
}
