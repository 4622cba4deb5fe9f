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

/* Positional arguments beyond what the function knows. */
static bool at_most(gx_fn *fn, int count)
{
    return fn->argc <= count ||
           gx_fn_fail(fn, "takes at most %d arguments before the options, not %d", count, fn->argc);
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
static bool holds(gx_fn *fn, gx_number number, const char *label)
{
    bool is_lost = fn->dest.has_dtype && gx_number_is_complex(number) &&
                   !gx_number_is_complex(gx_dtype_number(fn->dest.dtype));
    return !is_lost || gx_fn_fail(fn, "%s is complex but dtype is %s", label,
                                  gx_dtype_name(fn->dest.dtype));
}

/* Copy the source into the destination, or return it as a value. */
static void copy_source(gx_fn *fn, const gx_mat *source, uint32_t properties)
{
    gx_sink sink;
    fn->dest.is_streamed = true;
    gx_sink_begin(&fn->run, &fn->dest, source->rows, source->cols,
                  gx_dest_number(&fn->dest, source->number), properties, 0, 0, &sink);
    gx_copy_to_sink(&fn->run, source, &sink);
    gx_fn_result_sink(fn, &sink);
}

/* The same of what a generator makes: of `natural` numbers, or of the destination's dtype. */
static void make(gx_fn *fn, gx_number natural, int64_t rows, int64_t cols, uint32_t properties,
                 gx_generate generate, const void *arg)
{
    gx_mat source;
    gx_mat_generated(&source, fn->def->name, gx_dest_number(&fn->dest, natural), rows, cols,
                     generate, arg);
    copy_source(fn, &source, properties);
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

/* gx_zeros, gx_ones, gx_full */
static void constant(gx_fn *fn)
{
    bool is_given = fn->def->min_args == 3;
    gx_constant arg = {.value = {fn->def->variant, 0}};
    int64_t m, n;
    if (!gx_fn_options(fn, NULL, NULL) || !at_most(fn, fn->def->min_args + 1) ||
        !gx_fn_size(fn, 0, "m", &m) || !gx_fn_size(fn, 1, "n", &n) ||
        (is_given && !gx_fn_scalar(fn, 2, "value", &arg.value))) {
        return;
    }
    gx_number number = arg.value.im != 0 ? GX_C128 : GX_F64;
    if (holds(fn, number, "value")) {
        make(fn, number, m, n, constant_properties(m, n, arg.value), gx_constant_generate, &arg);
    }
}

// Diagonals ---------------------------------------------------------------------------------------

/* Which diagonal: an int64_t. */
static const gx_option diag_keys[] = {{"k", GX_OPT_INT, 0, 0}, {NULL, GX_OPT_END, 0, 0}};

/* Of a matrix that is zero off diagonal number k. */
static uint32_t diagonal_properties(int64_t k, int64_t rows, int64_t cols)
{
    uint32_t properties = k > 0 ? GX_PROP_UPPER : k < 0 ? GX_PROP_LOWER : DIAGONAL;
    return k == 0 && rows == cols ? properties | GX_PROP_SYMMETRIC : properties;
}

static void eye(gx_fn *fn)
{
    int64_t k = 0, n, m;
    if (!gx_fn_options(fn, diag_keys, &k) || !gx_fn_size(fn, 0, "n", &n)) {
        return;
    }
    int place = destination_place(fn, 1);
    m = n;
    if (!at_most(fn, place + 1) ||
        (place == 2 && gx_fn_has(fn, 1) && !gx_fn_size(fn, 1, "m", &m)) ||
        !gx_fn_dest(fn, place, &fn->dest)) {
        return;
    }
    uint32_t properties = diagonal_properties(k, n, m);
    if (k == 0) {
        properties |= GX_PROP_UNIT;
        properties |= n >= m ? GX_PROP_ORTHOGONAL : 0;
        properties |= n == m ? SYMMETRIC | GX_PROP_POSITIVE : 0;
    }
    const gx_diagonal arg = {.offset = k};
    make(fn, GX_F64, n, m, properties, gx_diagonal_generate, &arg);
}

/* The matrix with vector v on diagonal k. */
static void diag_of_vector(gx_fn *fn, const gx_mat *v, int64_t k)
{
    int64_t count = v->rows * v->cols, distance = k < 0 ? -k : k;
    void *data;
    if (gx_dense_alloc(&fn->run, v->number, v->rows, v->cols, "a vector", &data) != GX_OK ||
        !gx_fn_own(fn, data) ||
        gx_dense_load(&fn->run, v, v->number, data, gx_max(v->rows, 1)) != GX_OK) {
        return;
    }
    int64_t n = count + distance;
    uint32_t properties = diagonal_properties(k, n, n);
    if (k == 0 && !gx_number_is_complex(v->number)) {
        properties |= GX_PROP_HERMITIAN;
    }
    const gx_diagonal arg = {.offset = k, .dtype = v->number, .data = data};
    make(fn, v->number, n, n, properties, gx_diagonal_generate, &arg);
}

/* Diagonal k of the matrix A as a column. */
static void diag_of_matrix(gx_fn *fn, const gx_mat *A, int64_t k)
{
    int64_t count = gx_diagonal_count(A->rows, A->cols, k);
    void *data;
    if (gx_gather_diagonal(&fn->run, A, k, count, A->number, &data) != GX_OK ||
        !gx_fn_own(fn, data)) {
        return;
    }
    gx_mat column;
    gx_mat_value(&column, fn->def->name, A->number, count, 1, data, gx_max(count, 1));
    copy_source(fn, &column, 0);
}

static void diag(gx_fn *fn)
{
    int64_t k = 0;
    gx_mat A;
    if (!gx_fn_options(fn, diag_keys, &k) || !at_most(fn, 2) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !holds(fn, A.number, A.label)) {
        return;
    }
    if (A.rows == 1 || A.cols == 1) {
        diag_of_vector(fn, &A, k);
    } else {
        diag_of_matrix(fn, &A, k);
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
    gx_ramp ramp = {0};
    if (!gx_fn_options(fn, NULL, NULL) || !at_most(fn, 4) ||
        !finite_argument(fn, 0, "a", &ramp.start) || !finite_argument(fn, 1, "b", &ramp.last) ||
        !gx_fn_size(fn, 2, "n", &ramp.count)) {
        return;
    }
    ramp.step = ramp.count > 1 ? (ramp.last - ramp.start) / (double)(ramp.count - 1) : 0;
    if (!isfinite(ramp.step)) {
        gx_fn_fail(fn, "the range from %g to %g overflows", ramp.start, ramp.last);
        return;
    }
    make(fn, GX_F64, ramp.count, 1, 0, gx_ramp_generate, &ramp);
}

static void arange(gx_fn *fn)
{
    gx_ramp ramp = {.step = 1};
    double stop = 0;
    if (!gx_fn_options(fn, NULL, NULL) || !at_most(fn, 4) ||
        !finite_argument(fn, 0, "start", &ramp.start) || !finite_argument(fn, 1, "stop", &stop)) {
        return;
    }
    int place = destination_place(fn, 2);
    if (!at_most(fn, place + 1) ||
        (place == 3 && gx_fn_has(fn, 2) && !finite_argument(fn, 2, "step", &ramp.step)) ||
        !gx_fn_dest(fn, place, &fn->dest)) {
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
    make(fn, GX_F64, ramp.count, 1, 0, gx_ramp_generate, &ramp);
}

// Random ------------------------------------------------------------------------------------------

typedef struct random_options {
    int64_t seed;
    double a, b; /* low and high, or mean and standard deviation */
    bool has_density;
    double density; /* of a sparse result */
} random_options;

#define RANDOM_KEYS(a_name, b_name)                                                                \
    {                                                                                              \
        {"seed", GX_OPT_INT, offsetof(random_options, seed), 0},                                   \
            {a_name, GX_OPT_REAL, offsetof(random_options, a), 0},                                 \
            {b_name, GX_OPT_REAL, offsetof(random_options, b), 0},                                 \
            {"density=[0,1]", GX_OPT_REAL, offsetof(random_options, density),                      \
             offsetof(random_options, has_density)},                                               \
        {                                                                                          \
            NULL, GX_OPT_END, 0, 0                                                                 \
        }                                                                                          \
    }

static const gx_option uniform_keys[] = RANDOM_KEYS("low", "high");
static const gx_option normal_keys[] = RANDOM_KEYS("mean", "std");

/* gx_random, gx_randn */
static void random_matrix(gx_fn *fn)
{
    gx_random_kind kind = (gx_random_kind)fn->def->variant;
    random_options opt = {.a = 0, .b = 1};
    int64_t m, n;
    gx_random random;
    gx_sink sink;
    if (!gx_fn_options(fn, kind == GX_RANDOM_NORMAL ? normal_keys : uniform_keys, &opt) ||
        !at_most(fn, 3) || !gx_fn_size(fn, 0, "m", &m) || !gx_fn_size(fn, 1, "n", &n) ||
        !gx_fn_check(fn, gx_random_init(&random, kind, gx_dest_number(&fn->dest, GX_F64), opt.seed,
                                        opt.a, opt.b, &fn->err))) {
        return;
    }
    if (opt.has_density) {
        gx_sparse_random(&fn->run, &random, m, n, opt.density, &fn->dest, &sink);
        gx_fn_result_sink(fn, &sink);
    } else {
        make(fn, GX_F64, m, n, 0, gx_random_generate, &random);
    }
}

// The gallery -------------------------------------------------------------------------------------

typedef struct gallery_options {
    bool sparse; /* first: a set_offset of 0 means none */
    gx_gallery_given given;
} gallery_options;

enum { GALLERY_KEYS = GX_GALLERY_PARAM_COUNT + 2 };

static void fill_gallery_keys(gx_option keys[GALLERY_KEYS])
{
    for (int p = 0; p < GX_GALLERY_PARAM_COUNT; p++) {
        keys[p] = (gx_option){
            .key = gx_gallery_param_name((gx_gallery_param)p),
            .type = GX_OPT_REAL,
            .offset = offsetof(gallery_options, given.param) + (size_t)p * sizeof(double),
            .set_offset = offsetof(gallery_options, given.is_set) + (size_t)p * sizeof(bool)};
    }
    keys[GX_GALLERY_PARAM_COUNT] =
        (gx_option){"sparse", GX_OPT_BOOL, offsetof(gallery_options, sparse), 0};
    keys[GX_GALLERY_PARAM_COUNT + 1] = (gx_option){NULL, GX_OPT_END, 0, 0};
}

static void matrix_gallery(gx_fn *fn)
{
    gx_option keys[GALLERY_KEYS];
    gallery_options opt = {0};
    const char *kind;
    int64_t n;
    fill_gallery_keys(keys);
    if (!gx_fn_options(fn, keys, &opt) || !at_most(fn, 3) || !gx_fn_text(fn, 0, "kind", &kind) ||
        !gx_fn_size(fn, 1, "n", &n)) {
        return;
    }
    gx_gallery gallery;
    gx_number number = gx_dest_number(&fn->dest, GX_F64);
    if (!gx_fn_check(fn, gx_gallery_init(&gallery, fn->ctx->mem, kind, n, number, &opt.given,
                                         &fn->err))) {
        return;
    }
    if (opt.sparse) {
        gx_sink sink;
        gx_sparse_gallery(&fn->run, &gallery, kind, number, &fn->dest, &sink);
        gx_fn_result_sink(fn, &sink);
    } else {
        make(fn, GX_F64, n, n, gallery.properties, gx_gallery_generate, &gallery);
    }
    gx_gallery_clear(&gallery, fn->ctx->mem);
}

const gx_function gx_functions_make[] = {
    {"gx_zeros", 2, 4, GX_MADE(2), constant, 0},
    {"gx_ones", 2, 4, GX_MADE(2), constant, 1},
    {"gx_full", 3, 5, GX_MADE(3), constant, 0},
    {"gx_eye", 1, 4, GX_MADE(2) | GX_DEST_LATE, eye, 0},
    {"gx_diag", 1, 3, GX_MADE(1) | GX_EXACT, diag, 0},
    {"gx_linspace", 3, 5, GX_MADE(3), linspace, 0},
    {"gx_arange", 2, 5, GX_MADE(3) | GX_DEST_LATE, arange, 0},
    {"gx_random", 2, 4, GX_MADE(2), random_matrix, GX_RANDOM_UNIFORM},
    {"gx_randn", 2, 4, GX_MADE(2), random_matrix, GX_RANDOM_NORMAL},
    {"gx_matrix_gallery", 2, 4, GX_MADE(2), matrix_gallery, 0},
    {.name = NULL}};
