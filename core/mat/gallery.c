/*
** The gallery: its catalog, parameters and limits (gallery.h); the formulas are in gallery_forms.c.
**
** A family is one row of the table below: its formula, its parameters with their defaults, the
** properties that hold for every order, and what has to be looked at before the first element is
** made.  Some families keep a table of n values (powers, the factors of invhilb), the only memory
** of a gallery matrix.
**
** Properties are those that the stored, rounded matrix has.  Families whose smallest eigenvalue
** drowns in the rounding of their elements or in a factorisation (hilb, cauchy, invhilb, pascal,
** prolate) are therefore not marked positive definite, though on paper they are.
**
** Infinite elements are refused: the largest one is computed beforehand (invhilb: order 204 and up
** in f64, pascal: 516 and up; orders in f32 end earlier).
*/
#include "gallery.h"

#include "gallery_forms.h"
#include "mat.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SYMMETRIC = GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN, POSITIVE = SYMMETRIC | GX_PROP_POSITIVE };

/* Checks order and parameters, fills tables, adds properties.  largest: OUT, max |element|. */
typedef gx_code (*gallery_prepare)(gx_gallery *g, gx_mem *mem, double *largest, gx_err *err);

typedef struct family {
    const char *kind;
    gx_gallery_form form;
    uint32_t properties;
    gallery_prepare prepare; /* NULL: any order, no limit            */
    int params;              /* of the arrays below                  */
    gx_gallery_param param[3];
    double initial[3];       /* defaults                             */
} family;

const char *gx_gallery_param_name(gx_gallery_param param)
{
#define NAME(ID, name) #name,
    static const char *const names[] = {GX_GALLERY_PARAMS(NAME)};
#undef NAME
    return names[param];
}

// Before the first element ------------------------------------------------------------------------

/* Room for count numbers. */
static gx_code make_table(gx_gallery *g, gx_mem *mem, int64_t count, gx_err *err)
{
    size_t bytes = 0;
    gx_matrix_bytes(count, 1, GX_F64, &bytes);
    GX_TRY(gx_mem_alloc(mem, bytes, "a table of the gallery", &g->table, err));
    return GX_OK;
}

/* table[i] = base^i. */
static gx_code make_powers(gx_gallery *g, gx_mem *mem, double base, int64_t count, gx_err *err)
{
    GX_TRY(make_table(g, mem, count, err));
    for (int64_t i = 0; i < count; i++) {
        g->table[i] = pow(base, (double)i);
    }
    return GX_OK;
}

/* k must be one of the count values. */
static gx_code check_k(const gx_gallery *g, const char *kind, const double *values, int count,
                       gx_err *err)
{
    double k = g->param[GX_GALLERY_K];
    char list[40] = "";
    for (int v = 0; v < count; v++) {
        if (k == values[v]) {
            return GX_OK;
        }
        size_t used = strlen(list);
        const char *join = v == 0 ? "" : v == count - 1 ? " or " : ", ";
        snprintf(list + used, sizeof list - used, "%s%g", join, values[v]);
    }
    return gx_fail(err, GX_ARG, "option 'k' of %s is %s, found %g", kind, list, k);
}

static gx_code prepare_chow(gx_gallery *g, gx_mem *mem, double *largest, gx_err *err)
{
    double alpha = g->param[GX_GALLERY_ALPHA], delta = g->param[GX_GALLERY_DELTA];
    *largest = fmax(fabs(pow(alpha, (double)g->n)), fabs(alpha) + fabs(delta));
    return make_powers(g, mem, alpha, g->n + 1, err);
}

static gx_code prepare_clement(gx_gallery *g, gx_mem *mem, double *largest, gx_err *err)
{
    (void)mem, (void)largest;
    if (g->param[GX_GALLERY_K] == 1) {
        g->properties |= SYMMETRIC;
    }
    return check_k(g, "clement", (const double[]){0, 1}, 2, err);
}

static gx_code prepare_frank(gx_gallery *g, gx_mem *mem, double *largest, gx_err *err)
{
    (void)mem, (void)largest;
    return check_k(g, "frank", (const double[]){0, 1}, 2, err);
}

static gx_code prepare_gfpp(gx_gallery *g, gx_mem *mem, double *largest, gx_err *err)
{
    (void)mem, (void)largest;
    double c = g->param[GX_GALLERY_C];
    if (!(c >= 0 && c <= 1)) {
        return gx_fail(err, GX_ARG, "option 'c' of gfpp is between 0 and 1, found %g", c);
    }
    return GX_OK;
}

static gx_code prepare_grcar(gx_gallery *g, gx_mem *mem, double *largest, gx_err *err)
{
    (void)mem, (void)largest;
    double k = g->param[GX_GALLERY_K];
    if (!(k >= 0 && k == floor(k))) {
        return gx_fail(err, GX_ARG, "option 'k' of grcar is a number of diagonals, found %g", k);
    }
    if (k == 0) {
        g->properties |= GX_PROP_LOWER;
    }
    return GX_OK;
}

static gx_code prepare_hadamard(gx_gallery *g, gx_mem *mem, double *largest, gx_err *err)
{
    (void)mem, (void)largest;
    if (g->n > 0 && (g->n & (g->n - 1)) != 0) {
        return gx_fail(err, GX_ARG, "hadamard needs a power of two as order, found %lld",
                       (long long)g->n);
    }
    return GX_OK;
}

/* p(i) of the formula: as integers when all of them are below 2^63. */
static gx_code prepare_invhilb(gx_gallery *g, gx_mem *mem, double *largest, gx_err *err)
{
    __extension__ typedef unsigned __int128 u128;
    int64_t n = g->n;
    GX_TRY(make_table(g, mem, n, err));
    bool is_whole = n <= 25; // the largest p(i) of order 25 is below 2^63, of order 26 above
    if (is_whole) {
        GX_TRY(gx_mem_alloc(mem, (size_t)n * sizeof *g->whole, "a table of the gallery", &g->whole,
                            err));
    }
    uint64_t exact = (uint64_t)n;
    double p = (double)n;
    for (int64_t i = 0; i < n; i++) {
        if (i > 0 && is_whole) {
            u128 next = (u128)exact * (uint64_t)((n - i) * (n + i));
            exact = (uint64_t)(next / (uint64_t)(i * i));
        }
        if (i > 0) {
            p = p * ((double)(n - i) / (double)i) * ((double)(n + i) / (double)i);
        }
        g->table[i] = is_whole ? (double)exact : p;
        if (is_whole) {
            g->whole[i] = exact;
        }
        *largest = fmax(*largest, g->table[i] / (double)(2 * i + 1) * g->table[i]);
    }
    return GX_OK;
}

static gx_code prepare_kahan(gx_gallery *g, gx_mem *mem, double *largest, gx_err *err)
{
    double shift = fabs(g->param[GX_GALLERY_PERT]) * 0x1p-52 * (double)g->n;
    *largest = 1 + shift;
    g->param[GX_GALLERY_C] = cos(g->param[GX_GALLERY_THETA]);
    return make_powers(g, mem, sin(g->param[GX_GALLERY_THETA]), g->n, err);
}

static gx_code prepare_kms(gx_gallery *g, gx_mem *mem, double *largest, gx_err *err)
{
    double rho = g->param[GX_GALLERY_RHO];
    *largest = g->n > 0 ? fmax(1, fabs(pow(rho, (double)(g->n - 1)))) : 0;
    if (fabs(rho) < 1) {
        g->properties |= POSITIVE;
    }
    return make_powers(g, mem, rho, g->n, err);
}

static gx_code prepare_magic(gx_gallery *g, gx_mem *mem, double *largest, gx_err *err)
{
    (void)mem;
    *largest = (double)g->n * (double)g->n;
    return g->n != 2 ? GX_OK : gx_fail(err, GX_ARG, "there is no magic square of order 2");
}

static gx_code prepare_moler(gx_gallery *g, gx_mem *mem, double *largest, gx_err *err)
{
    (void)mem, (void)err;
    double alpha = g->param[GX_GALLERY_ALPHA];
    *largest = (double)g->n * alpha * alpha + 1 + fabs(alpha);
    return GX_OK;
}

static gx_code prepare_orthog(gx_gallery *g, gx_mem *mem, double *largest, gx_err *err)
{
    static const double PI = 3.14159265358979323846;
    (void)largest;
    GX_TRY(check_k(g, "orthog", (const double[]){1, 2, 5}, 3, err));
    int k = (int)g->param[GX_GALLERY_K];
    double n = (double)g->n;
    int64_t period = k == 1 ? 2 * (g->n + 1) : k == 2 ? 2 * g->n + 1 : g->n;
    GX_TRY(make_table(g, mem, period, err));
    for (int64_t t = 0; t < period; t++) {
        double angle = 2 * PI * ((double)t / (double)period);
        g->table[t] = k == 1   ? sqrt(2 / (n + 1)) * sin(angle)
                      : k == 2 ? 2 / sqrt(2 * n + 1) * sin(angle)
                               : (sin(angle) + cos(angle)) / sqrt(n);
    }
    return GX_OK;
}

static gx_code prepare_pascal(gx_gallery *g, gx_mem *mem, double *largest, gx_err *err)
{
    (void)mem;
    GX_TRY(check_k(g, "pascal", (const double[]){0, 1, -1, 2}, 4, err));
    double k = g->param[GX_GALLERY_K];
    if (g->n == 0) {
        return GX_OK;
    }
    // From order 10000 on the largest element, about 2^order, is infinite in any case.
    int64_t top = gx_min(g->n, 10000) - 1;
    *largest = k == 0 ? gx_gallery_binomial(2 * top, top) : gx_gallery_binomial(top, top / 2);
    g->properties |= k == 0 ? SYMMETRIC : k == 2 ? 0 : GX_PROP_LOWER;
    if (k == -1) {
        g->properties |= GX_PROP_UNIT;
    }
    return GX_OK;
}

static gx_code prepare_pei(gx_gallery *g, gx_mem *mem, double *largest, gx_err *err)
{
    (void)mem, (void)err;
    double alpha = g->param[GX_GALLERY_ALPHA];
    *largest = fmax(1, fabs(alpha + 1));
    if (alpha > 0) {
        g->properties |= POSITIVE;
    }
    return GX_OK;
}

static gx_code prepare_poisson(gx_gallery *g, gx_mem *mem, double *largest, gx_err *err)
{
    (void)mem, (void)largest;
    g->root = (int64_t)(sqrt((double)g->n) + 0.5);
    if (g->root * g->root != g->n) {
        return gx_fail(err, GX_ARG, "poisson needs a square number as order, found %lld",
                       (long long)g->n);
    }
    return GX_OK;
}

static gx_code prepare_prolate(gx_gallery *g, gx_mem *mem, double *largest, gx_err *err)
{
    static const double PI = 3.14159265358979323846;
    double w = g->param[GX_GALLERY_W];
    *largest = 2 * fabs(w);
    GX_TRY(make_table(g, mem, g->n, err));
    for (int64_t t = 0; t < g->n; t++) {
        g->table[t] = t == 0 ? 2 * w : sin(2 * PI * w * (double)t) / (PI * (double)t);
    }
    return GX_OK;
}

static gx_code prepare_rosser(gx_gallery *g, gx_mem *mem, double *largest, gx_err *err)
{
    (void)mem, (void)largest;
    return g->n == 8 ? GX_OK
                     : gx_fail(err, GX_ARG, "rosser has order 8, found %lld", (long long)g->n);
}

static gx_code prepare_tridiag(gx_gallery *g, gx_mem *mem, double *largest, gx_err *err)
{
    (void)mem, (void)err;
    double c = g->param[GX_GALLERY_C], d = g->param[GX_GALLERY_D], e = g->param[GX_GALLERY_E];
    *largest = fmax(fabs(d), fmax(fabs(c), fabs(e)));
    if (c == e) {
        g->properties |= d > 0 && d >= 2 * fabs(c) ? POSITIVE : SYMMETRIC;
    }
    if (c == 0) {
        g->properties |= GX_PROP_UPPER;
    }
    if (e == 0) {
        g->properties |= GX_PROP_LOWER;
    }
    return GX_OK;
}

static gx_code prepare_plain(gx_gallery *g, gx_mem *mem, double *largest, gx_err *err)
{
    (void)mem, (void)err;
    for (int p = 0; p < GX_GALLERY_PARAM_COUNT; p++) {
        *largest = p == GX_GALLERY_K ? *largest : fmax(*largest, fabs(g->param[p]));
    }
    return GX_OK;
}

// The catalog -------------------------------------------------------------------------------------

static const family families[] = {
    {"cauchy", gx_form_cauchy, SYMMETRIC, NULL, 0, {0}, {0}},
    {"chow", gx_form_chow, 0, prepare_chow, 2, {GX_GALLERY_ALPHA, GX_GALLERY_DELTA}, {1, 0}},
    {"circul", gx_form_circul, 0, NULL, 0, {0}, {0}},
    {"clement", gx_form_clement, 0, prepare_clement, 1, {GX_GALLERY_K}, {0}},
    {"fiedler", gx_form_fiedler, SYMMETRIC, NULL, 0, {0}, {0}},
    {"forsythe", gx_form_forsythe, 0, prepare_plain, 2, {GX_GALLERY_ALPHA, GX_GALLERY_LAMBDA},
     {0x1p-26, 0}}, // sqrt(2^-52), as the toolbox says
    {"frank", gx_form_frank, 0, prepare_frank, 1, {GX_GALLERY_K}, {0}},
    {"gfpp", gx_form_gfpp, 0, prepare_gfpp, 1, {GX_GALLERY_C}, {1}},
    {"grcar", gx_form_grcar, 0, prepare_grcar, 1, {GX_GALLERY_K}, {3}},
    {"hadamard", gx_form_hadamard, SYMMETRIC, prepare_hadamard, 0, {0}, {0}},
    {"hilb", gx_form_hilb, SYMMETRIC, NULL, 0, {0}, {0}},
    {"invhilb", gx_form_invhilb, SYMMETRIC, prepare_invhilb, 0, {0}, {0}},
    {"jordbloc", gx_form_jordbloc, GX_PROP_UPPER, prepare_plain, 1, {GX_GALLERY_LAMBDA}, {1}},
    {"kahan", gx_form_kahan, GX_PROP_UPPER, prepare_kahan, 2, {GX_GALLERY_THETA, GX_GALLERY_PERT},
     {1.2, 25}},
    {"kms", gx_form_kms, SYMMETRIC, prepare_kms, 1, {GX_GALLERY_RHO}, {0.5}},
    {"lehmer", gx_form_lehmer, POSITIVE, NULL, 0, {0}, {0}},
    {"lesp", gx_form_lesp, 0, NULL, 0, {0}, {0}},
    {"lotkin", gx_form_lotkin, 0, NULL, 0, {0}, {0}},
    {"magic", gx_form_magic, 0, prepare_magic, 0, {0}, {0}},
    {"minij", gx_form_minij, POSITIVE, NULL, 0, {0}, {0}},
    {"moler", gx_form_moler, POSITIVE, prepare_moler, 1, {GX_GALLERY_ALPHA}, {-1}},
    {"orthog", gx_form_orthog, SYMMETRIC | GX_PROP_ORTHOGONAL, prepare_orthog, 1, {GX_GALLERY_K},
     {1}},
    {"parter", gx_form_parter, 0, NULL, 0, {0}, {0}},
    {"pascal", gx_form_pascal, 0, prepare_pascal, 1, {GX_GALLERY_K}, {0}},
    {"pei", gx_form_pei, SYMMETRIC, prepare_pei, 1, {GX_GALLERY_ALPHA}, {1}},
    {"poisson", gx_form_poisson, POSITIVE, prepare_poisson, 0, {0}, {0}},
    {"prolate", gx_form_prolate, SYMMETRIC, prepare_prolate, 1, {GX_GALLERY_W}, {0.25}},
    {"redheff", gx_form_redheff, 0, NULL, 0, {0}, {0}},
    {"riemann", gx_form_riemann, 0, NULL, 0, {0}, {0}},
    {"ris", gx_form_ris, SYMMETRIC, NULL, 0, {0}, {0}},
    {"rosser", gx_form_rosser, SYMMETRIC, prepare_rosser, 0, {0}, {0}},
    {"tridiag", gx_form_tridiag, 0, prepare_tridiag, 3, {GX_GALLERY_C, GX_GALLERY_D, GX_GALLERY_E},
     {-1, 2, -1}},
    {"triw", gx_form_triw, GX_PROP_UPPER | GX_PROP_UNIT, prepare_plain, 2,
     {GX_GALLERY_ALPHA, GX_GALLERY_K}, {-1, INFINITY}},
    {"wilkinson", gx_form_wilkinson, SYMMETRIC, NULL, 0, {0}, {0}},
};
enum { FAMILIES = sizeof families / sizeof *families };

static gx_code find_family(const char *kind, const family **found, gx_err *err)
{
    char list[400] = "";
    for (int f = 0; f < FAMILIES; f++) {
        if (strcmp(kind, families[f].kind) == 0) {
            *found = &families[f];
            return GX_OK;
        }
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", f == 0 ? "" : ", ", families[f].kind);
    }
    return gx_fail(err, GX_ARG, "unknown kind '%.40s' (known: %s)", kind, list);
}

/* The family's defaults, overridden by what was given. */
static gx_code take_params(gx_gallery *g, const family *f, const gx_gallery_given *given,
                           gx_err *err)
{
    char list[60] = "";
    bool is_known[GX_GALLERY_PARAM_COUNT] = {false};
    for (int p = 0; p < f->params; p++) {
        is_known[f->param[p]] = true;
        g->param[f->param[p]] = f->initial[p];
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", p == 0 ? "it has " : ", ",
                 gx_gallery_param_name(f->param[p]));
    }
    for (int p = 0; p < GX_GALLERY_PARAM_COUNT; p++) {
        if (!given->is_set[p]) {
            continue;
        }
        if (!is_known[p]) {
            return gx_fail(err, GX_ARG, "kind '%s' has no option '%s' (%s)", f->kind,
                           gx_gallery_param_name((gx_gallery_param)p),
                           f->params == 0 ? "it has none" : list);
        }
        if (!isfinite(given->param[p])) {
            return gx_fail(err, GX_ARG, "option '%s' must be finite, found %g",
                           gx_gallery_param_name((gx_gallery_param)p), given->param[p]);
        }
        g->param[p] = given->param[p];
    }
    return GX_OK;
}

gx_code gx_gallery_init(gx_gallery *g, gx_mem *mem, const char *kind, int64_t n, gx_number dtype,
                        const gx_gallery_given *given, gx_err *err)
{
    memset(g, 0, sizeof *g);
    const family *f;
    GX_TRY(find_family(kind, &f, err));
    // Indexes are added and doubled in the formulas; no matrix of that order fits anywhere.
    if (n < 0 || n > INT32_MAX) {
        return gx_fail(err, GX_ARG, "the order is %lld but must be between 0 and %lld",
                       (long long)n, (long long)INT32_MAX);
    }
    g->n = n;
    g->form = f->form;
    g->properties = f->properties;
    GX_TRY(take_params(g, f, given, err));
    if (f->prepare == NULL) {
        return GX_OK;
    }
    double largest = 0, limit = gx_number_is_double(dtype) ? DBL_MAX : FLT_MAX;
    gx_code rc = f->prepare(g, mem, &largest, err);
    if (rc == GX_OK && !(largest <= limit)) {
        rc = gx_fail(err, GX_ARG, "%s of order %lld has elements past the largest number of %s",
                     kind, (long long)n, gx_number_name(dtype));
    }
    if (rc != GX_OK) {
        gx_gallery_clear(g, mem);
    }
    return rc;
}

void gx_gallery_clear(gx_gallery *g, gx_mem *mem)
{
    gx_mem_free(mem, g->table);
    gx_mem_free(mem, g->whole);
    g->table = NULL;
    g->whole = NULL;
}

void gx_gallery_generate(const void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n,
                         gx_number dtype, void *dst, int64_t ld)
{
    enum { PIECE = 256 }; // elements of a column made at a time
    const gx_gallery *g = arg;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t first = 0; first < m; first += PIECE) {
            double piece[PIECE];
            int64_t count = gx_min(PIECE, m - first);
            for (int64_t i = 0; i < count; i++) {
                piece[i] = g->form(g, i0 + first + i, j0 + j);
            }
            gx_convert(GX_F64, piece, count, dtype, gx_at(dst, dtype, ld, first, j), count, count,
                       1);
        }
    }
}
