/*
** Making matrices: gx_zeros, gx_ones, gx_full, gx_eye, gx_diag, gx_linspace, gx_arange, gx_random,
** gx_randn, gx_matrix_gallery.
**
** Each function is a generator of core/ (a formula for any rectangle) copied into a sink, so a
** stored result is made tile by tile, in parallel, and never held whole.  The elements do not
** depend on tiles or threads.
*/
#include "gx_ext.h"

#include "../core/alg/dense.h"
#include "../core/base/random.h"
#include "../core/mat/gallery.h"
#include "../core/mat/simple.h"

#include <math.h>

enum {
    SYMMETRIC = GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN,
    DIAGONAL = GX_PROP_LOWER | GX_PROP_UPPER,
};

/* What all of them take. */
typedef struct common {
    gx_dest dest;
    gx_number number; /* of the elements, where the destination's dtype is none itself */
} common;

#define COMMON_KEYS(options)                                                                       \
    GX_DEST_KEYS(options, base.dest),                                                              \
    {                                                                                              \
        NULL, GX_OPT_END, 0, 0                                                                     \
    }

typedef struct plain_options {
    common base;
} plain_options;

static const gx_option plain_keys[] = {COMMON_KEYS(plain_options)};

/* Positional arguments beyond what the function knows. */
static bool at_most(gx_fn *fn, int count)
{
    return fn->argc <= count ||
           gx_fn_fail(fn, "takes at most %d arguments before the options, not %d", count, fn->argc);
}

/* A dimension: an integer, not negative. */
static bool size_argument(gx_fn *fn, int index, const char *label, int64_t *size)
{
    if (!gx_fn_int(fn, index, label, size)) {
        return false;
    }
    return *size >= 0 || gx_fn_fail(fn, "%s must not be negative, not %lld", label,
                                    (long long)*size);
}

/*
** Where the destination stands when the number before it may be left out: gx_eye(n, 'I') and
** gx_eye(n, m, 'I').  A text in the number's place is the destination.
*/
static int destination_place(const gx_fn *fn, int number_place)
{
    bool has_number = fn->argc > number_place &&
                      sqlite3_value_type(fn->argv[number_place]) != SQLITE_TEXT;
    return has_number ? number_place + 1 : number_place;
}

/* Is what is made of complex numbers stored as such? */
static bool holds(gx_fn *fn, const common *base, const char *label)
{
    bool is_lost = base->dest.has_dtype && gx_number_is_complex(base->number) &&
                   !gx_number_is_complex(gx_dtype_number(base->dest.dtype));
    return !is_lost || gx_fn_fail(fn, "%s is complex but dtype is %s", label,
                                  gx_dtype_name(base->dest.dtype));
}

/* Copy the generator into the destination, or return it as a value. */
static void make(gx_fn *fn, common *base, int64_t rows, int64_t cols, uint32_t properties,
                 gx_generate generate, const void *arg)
{
    gx_mat source;
    gx_sink sink;
    gx_number number = gx_dest_number(&base->dest, base->number);
    base->dest.is_streamed = true;
    gx_mat_generated(&source, fn->def->name, number, rows, cols, generate, arg);
    gx_sink_begin(&fn->run, &base->dest, rows, cols, number, properties, 0, 0, &sink);
    gx_copy_to_sink(&fn->run, &source, &sink);
    gx_fn_result_sink(fn, &sink);
}

// Constants ---------------------------------------------------------------------------------------

static uint32_t constant_properties(int64_t rows, int64_t cols, gx_scalar value)
{
    uint32_t properties = 0;
    if (rows == cols) {
        properties |= GX_PROP_SYMMETRIC | (value.im == 0 ? GX_PROP_HERMITIAN : 0);
    }
    if (value.re == 0 && value.im == 0) {
        properties |= DIAGONAL;
    }
    return properties;
}

static void constant(gx_fn *fn, double value)
{
    plain_options opt = {0};
    int64_t m, n;
    if (!gx_fn_options(fn, plain_keys, &opt) || !at_most(fn, 3) ||
        !size_argument(fn, 0, "m", &m) || !size_argument(fn, 1, "n", &n) ||
        !gx_fn_dest(fn, 2, &opt.base.dest)) {
        return;
    }
    const gx_constant arg = {.value = {value, 0}};
    make(fn, &opt.base, m, n, constant_properties(m, n, arg.value), gx_constant_generate, &arg);
}

static void zeros(gx_fn *fn)
{
    constant(fn, 0);
}

static void ones(gx_fn *fn)
{
    constant(fn, 1);
}

static void full(gx_fn *fn)
{
    plain_options opt = {0};
    gx_constant arg;
    int64_t m, n;
    if (!gx_fn_options(fn, plain_keys, &opt) || !at_most(fn, 4) ||
        !size_argument(fn, 0, "m", &m) || !size_argument(fn, 1, "n", &n) ||
        !gx_fn_scalar(fn, 2, "value", &arg.value) || !gx_fn_dest(fn, 3, &opt.base.dest)) {
        return;
    }
    opt.base.number = arg.value.im != 0 ? GX_C128 : GX_F64;
    if (!holds(fn, &opt.base, "value")) {
        return;
    }
    make(fn, &opt.base, m, n, constant_properties(m, n, arg.value), gx_constant_generate, &arg);
}

// Diagonals ---------------------------------------------------------------------------------------

typedef struct diag_options {
    common base;
    int64_t k;
} diag_options;

static const gx_option diag_keys[] = {{"k", GX_OPT_INT, offsetof(diag_options, k), 0},
                                      COMMON_KEYS(diag_options)};

/* Of a matrix that is zero off diagonal number k. */
static uint32_t diagonal_properties(int64_t k, int64_t rows, int64_t cols)
{
    uint32_t properties = k > 0 ? GX_PROP_UPPER : k < 0 ? GX_PROP_LOWER : DIAGONAL;
    return k == 0 && rows == cols ? properties | GX_PROP_SYMMETRIC : properties;
}

static void eye(gx_fn *fn)
{
    diag_options opt = {0};
    int64_t n, m;
    if (!gx_fn_options(fn, diag_keys, &opt) || !size_argument(fn, 0, "n", &n)) {
        return;
    }
    int place = destination_place(fn, 1);
    m = n;
    if (!at_most(fn, place + 1) ||
        (place == 2 && gx_fn_has(fn, 1) && !size_argument(fn, 1, "m", &m)) ||
        !gx_fn_dest(fn, place, &opt.base.dest)) {
        return;
    }
    uint32_t properties = diagonal_properties(opt.k, n, m);
    if (opt.k == 0) {
        properties |= GX_PROP_UNIT;
        properties |= n >= m ? GX_PROP_ORTHOGONAL : 0;
        properties |= n == m ? SYMMETRIC | GX_PROP_POSITIVE : 0;
    }
    const gx_diagonal arg = {.offset = opt.k};
    make(fn, &opt.base, n, m, properties, gx_diagonal_generate, &arg);
}

/* The matrix with vector v on diagonal k. */
static void diag_of_vector(gx_fn *fn, const gx_mat *v, diag_options *opt)
{
    int64_t count = v->rows * v->cols, distance = opt->k < 0 ? -opt->k : opt->k;
    void *data;
    if (gx_dense_alloc(&fn->run, v->number, v->rows, v->cols, "a vector", &data) != GX_OK ||
        !gx_fn_own(fn, data) ||
        gx_dense_load(&fn->run, v, v->number, data, gx_max(v->rows, 1)) != GX_OK) {
        return;
    }
    int64_t n = count + distance;
    uint32_t properties = diagonal_properties(opt->k, n, n);
    if (opt->k == 0 && !gx_number_is_complex(v->number)) {
        properties |= GX_PROP_HERMITIAN;
    }
    const gx_diagonal arg = {.offset = opt->k, .dtype = v->number, .data = data};
    make(fn, &opt->base, n, n, properties, gx_diagonal_generate, &arg);
}

/* Diagonal k of the matrix A as a column. */
static void diag_of_matrix(gx_fn *fn, const gx_mat *A, diag_options *opt)
{
    int64_t count = gx_diagonal_count(A->rows, A->cols, opt->k);
    void *data;
    if (gx_gather_diagonal(&fn->run, A, opt->k, count, A->number, &data) != GX_OK ||
        !gx_fn_own(fn, data)) {
        return;
    }
    gx_mat column;
    gx_sink sink;
    gx_mat_value(&column, fn->def->name, A->number, count, 1, data, gx_max(count, 1));
    opt->base.dest.is_streamed = true;
    gx_sink_begin(&fn->run, &opt->base.dest, count, 1,
                  gx_dest_number(&opt->base.dest, A->number), 0, 0, 0, &sink);
    gx_copy_to_sink(&fn->run, &column, &sink);
    gx_fn_result_sink(fn, &sink);
}

static void diag(gx_fn *fn)
{
    diag_options opt = {0};
    gx_mat A;
    if (!gx_fn_options(fn, diag_keys, &opt) || !at_most(fn, 2) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_dest(fn, 1, &opt.base.dest)) {
        return;
    }
    opt.base.number = A.number;
    if (!holds(fn, &opt.base, A.label)) {
        return;
    }
    if (A.rows == 1 || A.cols == 1) {
        diag_of_vector(fn, &A, &opt);
    } else {
        diag_of_matrix(fn, &A, &opt);
    }
}

// Ramps -------------------------------------------------------------------------------------------

static bool finite_argument(gx_fn *fn, int index, const char *label, double *out)
{
    if (!gx_fn_real(fn, index, label, out)) {
        return false;
    }
    return isfinite(*out) || gx_fn_fail(fn, "%s must be finite, not %g", label, *out);
}

static void linspace(gx_fn *fn)
{
    plain_options opt = {0};
    gx_ramp ramp = {0};
    if (!gx_fn_options(fn, plain_keys, &opt) || !at_most(fn, 4) ||
        !finite_argument(fn, 0, "a", &ramp.start) || !finite_argument(fn, 1, "b", &ramp.last) ||
        !size_argument(fn, 2, "n", &ramp.count) || !gx_fn_dest(fn, 3, &opt.base.dest)) {
        return;
    }
    ramp.step = ramp.count > 1 ? (ramp.last - ramp.start) / (double)(ramp.count - 1) : 0;
    if (!isfinite(ramp.step)) {
        gx_fn_fail(fn, "the range from %g to %g overflows", ramp.start, ramp.last);
        return;
    }
    make(fn, &opt.base, ramp.count, 1, 0, gx_ramp_generate, &ramp);
}

static void arange(gx_fn *fn)
{
    plain_options opt = {0};
    gx_ramp ramp = {.step = 1};
    double stop = 0;
    if (!gx_fn_options(fn, plain_keys, &opt) || !at_most(fn, 4) ||
        !finite_argument(fn, 0, "start", &ramp.start) || !finite_argument(fn, 1, "stop", &stop)) {
        return;
    }
    int place = destination_place(fn, 2);
    if (!at_most(fn, place + 1) ||
        (place == 3 && gx_fn_has(fn, 2) && !finite_argument(fn, 2, "step", &ramp.step)) ||
        !gx_fn_dest(fn, place, &opt.base.dest)) {
        return;
    }
    if (ramp.step == 0) {
        gx_fn_fail(fn, "step must not be 0");
        return;
    }
    double count = ceil((stop - ramp.start) / ramp.step);
    if (!(count < 0x1p53)) {
        gx_fn_fail(fn, "from %g to %g in steps of %g are too many elements", ramp.start, stop,
                   ramp.step);
        return;
    }
    ramp.count = count > 0 ? (int64_t)count : 0;
    ramp.last = ramp.start + (double)(ramp.count - 1) * ramp.step;
    make(fn, &opt.base, ramp.count, 1, 0, gx_ramp_generate, &ramp);
}

// Random ------------------------------------------------------------------------------------------

typedef struct random_options {
    common base;
    int64_t seed;
    double a, b; /* low and high, or mean and standard deviation */
    bool has_density;
    double density; /* of a sparse result */
} random_options;

static const gx_option uniform_keys[] = {
    {"seed", GX_OPT_INT, offsetof(random_options, seed), 0},
    {"low", GX_OPT_REAL, offsetof(random_options, a), 0},
    {"high", GX_OPT_REAL, offsetof(random_options, b), 0},
    {"density", GX_OPT_REAL, offsetof(random_options, density),
     offsetof(random_options, has_density)},
    COMMON_KEYS(random_options)};

static const gx_option normal_keys[] = {
    {"seed", GX_OPT_INT, offsetof(random_options, seed), 0},
    {"mean", GX_OPT_REAL, offsetof(random_options, a), 0},
    {"std", GX_OPT_REAL, offsetof(random_options, b), 0},
    {"density", GX_OPT_REAL, offsetof(random_options, density),
     offsetof(random_options, has_density)},
    COMMON_KEYS(random_options)};

static void random_sparse(gx_fn *fn, random_options *opt, int64_t m, int64_t n,
                          const gx_random *random)
{
    gx_sink sink;
    if (!(opt->density >= 0 && opt->density <= 1)) {
        gx_fn_fail(fn, "option \"density\" must be from 0 to 1, not %g", opt->density);
        return;
    }
    gx_sparse_random(&fn->run, random, m, n, opt->density, &opt->base.dest, &sink);
    gx_fn_result_sink(fn, &sink);
}

static void random_matrix(gx_fn *fn, gx_random_kind kind)
{
    random_options opt = {.a = 0, .b = 1};
    int64_t m, n;
    if (!gx_fn_options(fn, kind == GX_RANDOM_NORMAL ? normal_keys : uniform_keys, &opt) ||
        !at_most(fn, 3) || !size_argument(fn, 0, "m", &m) || !size_argument(fn, 1, "n", &n) ||
        !gx_fn_dest(fn, 2, &opt.base.dest)) {
        return;
    }
    gx_random random;
    gx_err err = {0};
    if (gx_random_init(&random, kind, gx_dest_number(&opt.base.dest, GX_F64), opt.seed, opt.a,
                       opt.b, &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
        return;
    }
    if (opt.has_density) {
        random_sparse(fn, &opt, m, n, &random);
        return;
    }
    make(fn, &opt.base, m, n, 0, gx_random_generate, &random);
}

static void random_uniform(gx_fn *fn)
{
    random_matrix(fn, GX_RANDOM_UNIFORM);
}

static void random_normal(gx_fn *fn)
{
    random_matrix(fn, GX_RANDOM_NORMAL);
}

// The gallery -------------------------------------------------------------------------------------

typedef struct gallery_options {
    common base;
    bool sparse;
    gx_gallery_given given;
} gallery_options;

enum { GALLERY_KEYS = GX_GALLERY_PARAM_COUNT + 5 };

static void fill_gallery_keys(gx_option keys[GALLERY_KEYS])
{
    static const gx_option tail[] = {
        {"sparse", GX_OPT_BOOL, offsetof(gallery_options, sparse), 0},
        COMMON_KEYS(gallery_options)};
    for (int p = 0; p < GX_GALLERY_PARAM_COUNT; p++) {
        keys[p] = (gx_option){
            .key = gx_gallery_param_name((gx_gallery_param)p),
            .type = GX_OPT_REAL,
            .offset = offsetof(gallery_options, given.param) + (size_t)p * sizeof(double),
            .set_offset = offsetof(gallery_options, given.is_set) + (size_t)p * sizeof(bool)};
    }
    for (int t = 0; t < GALLERY_KEYS - GX_GALLERY_PARAM_COUNT; t++) {
        keys[GX_GALLERY_PARAM_COUNT + t] = tail[t];
    }
}

static void matrix_gallery(gx_fn *fn)
{
    gx_option keys[GALLERY_KEYS];
    gallery_options opt = {0};
    const char *kind;
    int64_t n;
    fill_gallery_keys(keys);
    if (!gx_fn_options(fn, keys, &opt) || !at_most(fn, 3) || !gx_fn_text(fn, 0, "kind", &kind) ||
        !size_argument(fn, 1, "n", &n) || !gx_fn_dest(fn, 2, &opt.base.dest)) {
        return;
    }
    gx_gallery gallery;
    gx_err err = {0};
    gx_number number = gx_dest_number(&opt.base.dest, GX_F64);
    if (gx_gallery_init(&gallery, fn->ctx->mem, kind, n, number, &opt.given, &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
        return;
    }
    if (opt.sparse) {
        gx_sink sink;
        gx_sparse_gallery(&fn->run, &gallery, kind, number, &opt.base.dest, &sink);
        gx_fn_result_sink(fn, &sink);
    } else {
        make(fn, &opt.base, n, n, gallery.properties, gx_gallery_generate, &gallery);
    }
    gx_gallery_clear(&gallery, fn->ctx->mem);
}

const gx_function gx_functions_make[] = {
    {"gx_zeros", 2, 4, false, zeros},
    {"gx_ones", 2, 4, false, ones},
    {"gx_full", 3, 5, false, full},
    {"gx_eye", 1, 4, false, eye},
    {"gx_diag", 1, 3, false, diag},
    {"gx_linspace", 3, 5, false, linspace},
    {"gx_arange", 2, 5, false, arange},
    {"gx_random", 2, 4, false, random_uniform},
    {"gx_randn", 2, 4, false, random_normal},
    {"gx_matrix_gallery", 2, 4, false, matrix_gallery},
    {NULL, 0, 0, false, NULL}};
