/*
** Exact arithmetic in SQL: gx_det, gx_rank, gx_solve, gx_inverse, gx_nullspace and gx_matmul of
** matrices of m31, with "mod":p of whole numbers modulo another prime, and with "exact":true of
** whole numbers as they are.
**
** Results modulo p are of m31, or of u32 where p is another prime.  Whole numbers that 64 bits do
** not hold are texts; fractions are texts as "3/7", in a JSON list of rows.
*/
#include "exact_fn.h"

#include "../core/alg/dense.h"
#include "../core/exact/exact.h"
#include "../core/exact/combine.h"
#include "../core/exact/transform.h"
#include "../core/program/constraint_text.h"

#include <string.h>

bool gx_fn_is_exact(const gx_exact_options *opt, const gx_mat *A, const gx_mat *B)
{
    return opt->has_mod || opt->is_exact || A->number == GX_M31 ||
           (B != NULL && B->number == GX_M31);
}

bool gx_exact_take_modulus(gx_fn *fn, const gx_exact_options *opt, const gx_mat *A, const gx_mat *B,
                           uint32_t *p)
{
    bool is_field = A->number == GX_M31 || (B != NULL && B->number == GX_M31);
    *p = opt->has_mod ? (uint32_t)opt->mod : is_field ? GX_M31_P : 0;
    if (A->is_sparse || (B != NULL && B->is_sparse)) {
        return gx_fn_fail(fn, "exact arithmetic is of dense matrices (gx_dense makes one)");
    }
    if (opt->is_exact && *p != 0) {
        return gx_fn_fail(fn, opt->has_mod
                                  ? "\"mod\" and \"exact\" exclude each other"
                                  : "\"exact\" is of whole numbers, and m31 is modulo 2^31 - 1");
    }
    if (is_field && *p != GX_M31_P) {
        return gx_fn_fail(fn, "m31 is modulo 2147483647, and \"mod\" is %u", (unsigned)*p);
    }
    return *p == 0 || gx_is_prime(*p) ||
           gx_fn_fail(fn, "\"mod\" must be a prime below 2^31, and %u is none", (unsigned)*p);
}

/* All of A modulo p; the call owns it.  NULL: it has failed. */
static uint32_t *load(gx_fn *fn, const gx_mat *A, uint32_t p)
{
    uint32_t *x;
    return gx_exact_load_mod(&fn->run, A, p, &x) == GX_OK && gx_fn_own(fn, x) ? x : NULL;
}

int64_t *gx_exact_load_whole(gx_fn *fn, const gx_mat *A)
{
    int64_t *x;
    return gx_exact_load(&fn->run, A, &x) == GX_OK && gx_fn_own(fn, x) ? x : NULL;
}

static uint32_t *room(gx_fn *fn, int64_t rows, int64_t cols)
{
    uint32_t *x;
    return gx_dense_alloc(&fn->run, GX_M31, rows, cols, "a result modulo p", &x) == GX_OK &&
                   gx_fn_own(fn, x)
               ? x
               : NULL;
}

void gx_exact_give(gx_fn *fn, uint32_t p, int64_t rows, int64_t cols, const uint32_t *x)
{
    gx_sink C;
    if (p != GX_M31_P && !fn->dest.has_dtype) {
        fn->dest.has_dtype = true;
        fn->dest.dtype = GX_DTYPE_U32;
    }
    gx_sink_begin(&fn->run, &fn->dest, rows, cols, GX_M31, 0, 0, 0, &C);
    if (gx_ok(&fn->run)) {
        gx_dense_write(&fn->run, &C, x, gx_max(1, rows));
    }
    gx_fn_result_sink(fn, &C);
}

/* They are written as the f64 of their bytes. */
void gx_exact_give_whole(gx_fn *fn, int64_t rows, int64_t cols, const int64_t *x)
{
    gx_sink C;
    if (fn->dest.has_dtype && fn->dest.dtype != GX_DTYPE_I64) {
        gx_fn_fail(fn, "the result is of i64 (gx_cast takes it to another dtype)");
        return;
    }
    fn->dest.has_dtype = fn->dest.is_verbatim = true;
    fn->dest.dtype = GX_DTYPE_I64;
    gx_sink_begin(&fn->run, &fn->dest, rows, cols, GX_F64, 0, 0, 0, &C);
    if (gx_ok(&fn->run)) {
        gx_dense_write(&fn->run, &C, x, gx_max(1, rows));
    }
    gx_fn_result_sink(fn, &C);
}

/* A modulo p, eliminated; *e is to be cleared, whatever is returned. */
static bool eliminate(gx_fn *fn, const gx_mat *A, uint32_t p, gx_echelon *e)
{
    *e = (gx_echelon){.run = &fn->run, .p = p, .rows = A->rows, .cols = A->cols};
    e->x = load(fn, A, p);
    return e->x != NULL && gx_exact_eliminate(e) == GX_OK;
}

// Numbers -----------------------------------------------------------------------------------------

/* An INTEGER, or its digits as a text. */
static void give_whole(gx_fn *fn, const gx_whole *x)
{
    int64_t value;
    char *text;
    if (gx_whole_fits(x, &value)) {
        sqlite3_result_int64(fn->sql, value);
    } else if (gx_fn_check(fn, gx_whole_text(x, &text, &fn->err))) {
        sqlite3_result_text(fn->sql, text, -1, SQLITE_TRANSIENT);
        gx_mem_free(fn->ctx->mem, text);
    }
}

void gx_exact_fn_det(gx_fn *fn, const gx_exact_options *opt, const gx_mat *A)
{
    uint32_t p;
    gx_echelon e;
    gx_whole det;
    if (!gx_exact_take_modulus(fn, opt, A, NULL, &p) || !gx_fn_is_square(fn, A)) {
        return;
    }
    if (p != 0) {
        if (eliminate(fn, A, p, &e)) {
            sqlite3_result_int64(fn->sql, gx_echelon_det(&e));
        }
        gx_echelon_clear(&e);
        return;
    }
    const int64_t *a = gx_exact_load_whole(fn, A);
    gx_whole_begin(&det, fn->ctx->mem);
    if (a != NULL && gx_exact_det(&fn->run, a, A->rows, &det) == GX_OK) {
        give_whole(fn, &det);
    }
    gx_whole_clear(&det);
}

void gx_exact_fn_rank(gx_fn *fn, const gx_exact_options *opt, const gx_mat *A)
{
    uint32_t p;
    int64_t rank = 0;
    gx_echelon e;
    if (!gx_exact_take_modulus(fn, opt, A, NULL, &p)) {
        return;
    }
    if (p != 0) {
        if (eliminate(fn, A, p, &e)) {
            sqlite3_result_int64(fn->sql, e.rank);
        }
        gx_echelon_clear(&e);
        return;
    }
    const int64_t *a = gx_exact_load_whole(fn, A);
    if (a != NULL && gx_exact_rank(&fn->run, a, A->rows, A->cols, &rank) == GX_OK) {
        sqlite3_result_int64(fn->sql, rank);
    }
}

void gx_exact_fn_nullspace(gx_fn *fn, const gx_exact_options *opt, const gx_mat *A)
{
    uint32_t p;
    gx_echelon e;
    if (!gx_exact_take_modulus(fn, opt, A, NULL, &p)) {
        return;
    }
    if (p == 0) {
        gx_fn_fail(fn, "a nullspace is of floating numbers, of m31, or modulo a prime (\"mod\")");
        return;
    }
    if (eliminate(fn, A, p, &e)) {
        uint32_t *x = room(fn, A->cols, A->cols - e.rank);
        if (x != NULL && gx_echelon_nullspace(&e, x) == GX_OK) {
            gx_exact_give(fn, p, A->cols, A->cols - e.rank, x);
        }
    }
    gx_echelon_clear(&e);
}

// Systems -----------------------------------------------------------------------------------------

static bool take_shapes(gx_fn *fn, const gx_mat *A, const gx_mat *B)
{
    return gx_fn_is_square(fn, A) &&
           (B == NULL || A->rows == B->rows ||
            gx_fn_fail(fn, "%s is %lldx%lld but %s has %lld rows", A->label, (long long)A->rows,
                       (long long)A->cols, B->label, (long long)B->rows));
}

static void solve_modulo(gx_fn *fn, uint32_t p, const gx_mat *A, const gx_mat *B)
{
    int64_t n = A->rows, cols = B == NULL ? n : B->cols;
    bool is_solved = false;
    gx_echelon e;
    if (eliminate(fn, A, p, &e)) {
        if (e.rank < n) {
            gx_run_failf(&fn->run, GX_NUMERIC, "%s is singular modulo %u: its rank is %lld",
                         A->label, (unsigned)p, (long long)e.rank);
        }
        uint32_t *b = B == NULL ? room(fn, n, n) : load(fn, B, p), *x = room(fn, n, cols);
        for (int64_t k = 0; k < n * n && B == NULL && b != NULL; k++) {
            b[k] = k % (n + 1) == 0;
        }
        if (b != NULL && x != NULL && gx_ok(&fn->run) &&
            gx_echelon_solve(&e, b, cols, x, &is_solved) == GX_OK) {
            gx_exact_give(fn, p, n, cols, x);
        }
    }
    gx_echelon_clear(&e);
}

/* numerator / det in lowest terms, the sign in front: 3, "-12345678901234567890", "1/3". */
static gx_code add_fraction(sqlite3_str *to, gx_whole *numerator, const gx_whole *det, gx_err *err)
{
    gx_whole g, below;
    char *above_text = NULL, *below_text = NULL;
    int64_t value;
    gx_whole_begin(&g, numerator->mem);
    gx_whole_begin(&below, numerator->mem);
    bool is_negative = numerator->is_negative != det->is_negative;
    gx_code code = gx_whole_gcd(numerator, det, &g, err);
    code = code == GX_OK ? gx_whole_copy(&below, det, err) : code;
    code = code == GX_OK ? gx_whole_divide_exactly(numerator, &g, err) : code;
    code = code == GX_OK ? gx_whole_divide_exactly(&below, &g, err) : code;
    if (code == GX_OK) {
        numerator->is_negative = is_negative && !gx_whole_is_zero(numerator);
        below.is_negative = false;
        bool is_one = gx_whole_fits(&below, &value) && value == 1;
        bool is_small = is_one && gx_whole_fits(numerator, &value);
        code = gx_whole_text(numerator, &above_text, err);
        code = code == GX_OK ? gx_whole_text(&below, &below_text, err) : code;
        if (code == GX_OK) {
            sqlite3_str_appendf(to,
                                is_small ? "%s"
                                : is_one ? "\"%s\""
                                         : "\"%s/%s\"",
                                above_text, below_text);
        }
    }
    gx_mem_free(g.mem, above_text);
    gx_mem_free(g.mem, below_text);
    gx_whole_clear(&g);
    gx_whole_clear(&below);
    return code;
}

/* n x cols fractions as '[[1,"1/2"],...]', row by row. */
static void give_fractions(gx_fn *fn, int64_t n, int64_t cols, gx_whole *numerators,
                           const gx_whole *det)
{
    gx_code code = GX_OK;
    sqlite3_str *to = sqlite3_str_new(sqlite3_context_db_handle(fn->sql));
    sqlite3_str_appendchar(to, 1, '[');
    for (int64_t i = 0; i < n && code == GX_OK && gx_run_poll(&fn->run) == GX_OK; i++) {
        sqlite3_str_appendall(to, i > 0 ? ",[" : "[");
        for (int64_t j = 0; j < cols && code == GX_OK; j++) {
            sqlite3_str_appendall(to, j > 0 ? "," : "");
            code = add_fraction(to, &numerators[i + j * n], det, &fn->err);
        }
        sqlite3_str_appendchar(to, 1, ']');
    }
    sqlite3_str_appendchar(to, 1, ']');
    int failed = sqlite3_str_errcode(to);
    char *text = sqlite3_str_finish(to);
    if (failed != SQLITE_OK && code == GX_OK) {
        code = gx_fail(&fn->err, failed == SQLITE_TOOBIG ? GX_TOOBIG : GX_NOMEM,
                       "the fractions are longer than a text may be");
    }
    if (gx_fn_check(fn, code) && gx_ok(&fn->run)) {
        sqlite3_result_text(fn->sql, text, -1, SQLITE_TRANSIENT);
    }
    sqlite3_free(text);
}

static void solve_whole(gx_fn *fn, const gx_mat *A, const gx_mat *B)
{
    int64_t n = A->rows, cols = B == NULL ? n : B->cols;
    gx_whole det, *numerators;
    if (fn->dest.name != NULL || fn->dest.has_dtype) {
        gx_fn_fail(fn, "\"exact\" gives fractions as a text, which no matrix holds");
        return;
    }
    const int64_t *a = gx_exact_load_whole(fn, A);
    int64_t *b = B == NULL ? gx_fn_alloc(fn, (size_t)(n * n) * sizeof *b, "an identity")
                           : gx_exact_load_whole(fn, B);
    for (int64_t k = 0; k < n * n && B == NULL && b != NULL; k++) {
        b[k] = k % (n + 1) == 0;
    }
    numerators = gx_fn_alloc(fn, (size_t)(n * cols) * sizeof *numerators, "numerators");
    if (a == NULL || b == NULL || numerators == NULL) {
        return;
    }
    gx_whole_begin(&det, fn->ctx->mem);
    for (int64_t k = 0; k < n * cols; k++) {
        gx_whole_begin(&numerators[k], fn->ctx->mem);
    }
    if (gx_exact_solve(&fn->run, A->label, a, n, b, cols, numerators, &det) == GX_OK) {
        give_fractions(fn, n, cols, numerators, &det);
    }
    for (int64_t k = 0; k < n * cols; k++) {
        gx_whole_clear(&numerators[k]);
    }
    gx_whole_clear(&det);
}

void gx_exact_fn_solve(gx_fn *fn, const gx_exact_options *opt, const gx_mat *A, const gx_mat *B)
{
    uint32_t p;
    if (!gx_exact_take_modulus(fn, opt, A, B, &p) || !take_shapes(fn, A, B)) {
        return;
    }
    if (p != 0) {
        solve_modulo(fn, p, A, B);
    } else {
        solve_whole(fn, A, B);
    }
}

// Products ----------------------------------------------------------------------------------------

static void multiply_whole(gx_fn *fn, const gx_mat *A, const gx_mat *B)
{
    int64_t m = A->rows, n = B->cols, k = A->cols;
    const int64_t *a = gx_exact_load_whole(fn, A), *b = gx_exact_load_whole(fn, B);
    int64_t *c = gx_fn_alloc(fn, (size_t)(m * n) * sizeof *c, "a product");
    if (a != NULL && b != NULL && c != NULL &&
        gx_exact_product(&fn->run, m, n, k, a, b, c) == GX_OK) {
        gx_exact_give_whole(fn, m, n, c);
    }
}

void gx_exact_fn_matmul(gx_fn *fn, const gx_exact_options *opt, const gx_mat *A, gx_trans transa,
                        const gx_mat *B, gx_trans transb)
{
    uint32_t p;
    gx_mat left, right;
    bool is_left = transa != GX_NO_TRANS, is_right = transb != GX_NO_TRANS;
    gx_mat_view(&left, A, is_left ? GX_TRANS : GX_NO_TRANS, 0, 0, is_left ? A->cols : A->rows,
                is_left ? A->rows : A->cols);
    gx_mat_view(&right, B, is_right ? GX_TRANS : GX_NO_TRANS, 0, 0, is_right ? B->cols : B->rows,
                is_right ? B->rows : B->cols);
    if (!gx_exact_take_modulus(fn, opt, A, B, &p)) {
        return;
    }
    if (p == 0) {
        multiply_whole(fn, &left, &right);
        return;
    }
    int64_t m = left.rows, n = right.cols, k = left.cols;
    const uint32_t *a = load(fn, &left, p), *b = load(fn, &right, p);
    uint32_t *c = room(fn, m, n);
    if (a != NULL && b != NULL && c != NULL) {
        gx_exact_multiply(&fn->run, p, m, n, k, a, b, c);
        gx_exact_give(fn, p, m, n, c);
    }
}

// Circle transforms -------------------------------------------------------------------------------

typedef struct circle_options {
    bool is_given; /* first: an offset of 0 means none */
    bool has_log;
    int order;
    int64_t log;
} circle_options;

static const gx_option circle_keys[] = {
    {"order=bitrev|domain|coset", GX_OPT_WORD, offsetof(circle_options, order), 0},
    {"log=[1,30]", GX_OPT_INT, offsetof(circle_options, log), offsetof(circle_options, has_log)},
    {NULL, GX_OPT_END, 0, 0}};

/* gx_circle_fft(A[, inverse][, destination][, options]) */
static void circle_fft(gx_fn *fn)
{
    circle_options opt = {0};
    gx_mat A;
    gx_sink C;
    int64_t inverse = 0, tile_rows, tile_cols;
    int log;
    if (!gx_fn_options(fn, circle_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A) ||
        (gx_fn_has(fn, 1) && !gx_fn_int(fn, 1, "inverse", &inverse))) {
        return;
    }
    if (A.number != GX_M31 || (inverse != 0 && inverse != 1)) {
        gx_fn_fail(fn, A.number != GX_M31
                           ? "A must be of m31, whole numbers modulo 2^31 - 1 (gx_cast)"
                           : "inverse must be 0 or 1");
        return;
    }
    gx_circle_args args = {.A = &A,
                           .is_inverse = inverse != 0,
                           .order = (gx_circle_order)opt.order,
                           .log = opt.has_log ? (int)opt.log : -1};
    if (!gx_fn_check(fn, gx_circle_shape(&args, &log, &fn->err))) {
        return;
    }
    gx_circle_tiles(log, &tile_rows, &tile_cols);
    tile_cols = gx_min(tile_cols, gx_max(1, A.cols));
    gx_sink_begin(&fn->run, &fn->dest, (int64_t)1 << log, A.cols, GX_M31, 0, tile_rows, tile_cols,
                  &C);
    gx_alg_circle(&fn->run, &args, &C);
    gx_fn_result_sink(fn, &C);
}

// Constraints -------------------------------------------------------------------------------------

/* A number of m31 or an extension of it: 1, 2 or 4 elements in a row or column. */
static bool take_coefficient(gx_fn *fn, int index, int *width,
                             uint32_t coefficient[GX_CONSTRAINT_WIDTH])
{
    gx_mat x;
    uint32_t *loaded;
    if (!gx_fn_matrix(fn, index, "coefficient", &x)) {
        return false;
    }
    int64_t count = x.rows == 1 ? x.cols : x.rows;
    if ((x.rows != 1 && x.cols != 1) || (count != 1 && count != 2 && count != 4)) {
        return gx_fn_fail(fn, "coefficient is a number of 1, 2 or 4 elements, not %lld x %lld",
                          (long long)x.rows, (long long)x.cols);
    }
    if (gx_exact_load_mod(&fn->run, &x, GX_M31_P, &loaded) == GX_OK) {
        memcpy(coefficient, loaded, (size_t)count * sizeof *loaded);
        gx_mem_free(fn->run.ctx->mem, loaded);
    }
    *width = (int)count;
    return gx_ok(&fn->run);
}

typedef struct constraints_options {
    bool is_given; /* first: an offset of 0 means none */
    int64_t step;
} constraints_options;

static const gx_option constraints_keys[] = {
    {"step=[1,inf]", GX_OPT_INT, offsetof(constraints_options, step), 0}, {NULL, GX_OPT_END, 0, 0}};

/* gx_constraints(T, constraints, coefficient[, destination][, options]) */
static void constraints(gx_fn *fn)
{
    constraints_options opt = {.step = 1};
    gx_mat T;
    gx_sink C;
    const char *text;
    uint32_t coefficient[GX_CONSTRAINT_WIDTH];
    int width = 1;
    gx_constraints p;
    if (!gx_fn_options(fn, constraints_keys, &opt) || !gx_fn_matrix(fn, 0, "T", &T) ||
        !gx_fn_text(fn, 1, "constraints", &text) || !take_coefficient(fn, 2, &width, coefficient)) {
        return;
    }
    if (T.number != GX_M31) {
        gx_fn_fail(fn, "T must be of m31, whole numbers modulo 2^31 - 1 (gx_cast)");
        return;
    }
    if (T.cols == 0) {
        gx_fn_fail(fn, "T has no columns");
        return;
    }
    if (gx_constraints_compile(&fn->run, text, strlen(text), T.cols, width, coefficient, &p) !=
        GX_OK) {
        return;
    }
    p.next = T.rows == 0 ? 0 : opt.step % T.rows;
    gx_sink_begin(&fn->run, &fn->dest, T.rows, width, GX_M31, 0,
                  gx_combine_tile_rows(&fn->run, &T, width), width, &C);
    gx_alg_combine(&fn->run, &T, &p, &C);
    gx_constraints_clear(&fn->run, &p);
    gx_fn_result_sink(fn, &C);
}

// Extensions of m31 -------------------------------------------------------------------------------

/* A as rows of numbers of 2 or 4 elements. */
static bool load_numbers(gx_fn *fn, int index, const char *label, gx_mat *A, uint32_t **x)
{
    if (!gx_fn_matrix(fn, index, label, A)) {
        return false;
    }
    if (A->cols != 2 && A->cols != 4) {
        return gx_fn_fail(fn,
                          "%s has %lld columns, but a row of it is a number of cm31, 2 "
                          "elements, or of qm31, 4",
                          A->label, (long long)A->cols);
    }
    uint32_t *loaded;
    if (gx_exact_load_mod(&fn->run, A, GX_M31_P, &loaded) != GX_OK) {
        return false;
    }
    *x = gx_fn_alloc(fn, (size_t)(A->rows * A->cols) * sizeof **x, "numbers");
    for (int64_t e = 0; e < A->rows * A->cols && *x != NULL; e++) {
        (*x)[e % A->rows * A->cols + e / A->rows] = loaded[e];
    }
    gx_mem_free(fn->run.ctx->mem, loaded);
    return *x != NULL;
}

/* Numbers next to each other as the call's result, a row each. */
static void give_numbers(gx_fn *fn, int64_t rows, int64_t width, const uint32_t *x)
{
    uint32_t *c = gx_fn_alloc(fn, (size_t)(rows * width) * sizeof *c, "numbers");
    for (int64_t e = 0; e < rows * width && c != NULL; e++) {
        c[e] = x[e % rows * width + e / rows];
    }
    if (c != NULL) {
        gx_exact_give(fn, GX_M31_P, rows, width, c);
    }
}

/* gx_m31_mul(A, B[, destination][, options]) */
static void m31_mul(gx_fn *fn)
{
    gx_mat A, B;
    uint32_t *a, *b;
    if (!gx_fn_options(fn, NULL, NULL) || !load_numbers(fn, 0, "A", &A, &a) ||
        !load_numbers(fn, 1, "B", &B, &b)) {
        return;
    }
    int64_t rows = A.rows == 1 ? B.rows : A.rows, width = A.cols;
    if ((B.rows != rows && B.rows != 1) || B.cols != width) {
        gx_fn_fail(fn, "A is %lld x %lld but B is %lld x %lld", (long long)A.rows,
                   (long long)A.cols, (long long)B.rows, (long long)B.cols);
        return;
    }
    uint32_t *c = gx_fn_alloc(fn, (size_t)(rows * width) * sizeof *c, "products");
    for (int64_t i = 0; i < rows && c != NULL; i++) {
        gx_extension_mul((int)width, a + (A.rows == 1 ? 0 : i) * width,
                         b + (B.rows == 1 ? 0 : i) * width, c + i * width);
    }
    if (c != NULL) {
        give_numbers(fn, rows, width, c);
    }
}

/* gx_m31_inverse(A[, destination][, options]) */
static void m31_inverse(gx_fn *fn)
{
    gx_mat A;
    uint32_t *a;
    if (!gx_fn_options(fn, NULL, NULL) || !load_numbers(fn, 0, "A", &A, &a)) {
        return;
    }
    for (int64_t i = 0; i < A.rows; i++) {
        uint32_t *x = a + i * A.cols, any = 0;
        for (int64_t k = 0; k < A.cols; k++) {
            any |= x[k];
        }
        if (any == 0) {
            gx_run_failf(&fn->run, GX_NUMERIC, "row %lld of %s is 0, which has no inverse",
                         (long long)i, A.label);
            return;
        }
        gx_extension_inverse((int)A.cols, x, x);
    }
    give_numbers(fn, A.rows, A.cols, a);
}

const gx_function gx_functions_exact[] = {
    {"gx_circle_fft", 1, 4, GX_MADE(2) | GX_EXACT, circle_fft, 0},
    {"gx_constraints", 3, 5, GX_MADE(3) | GX_EXACT, constraints, 0},
    {"gx_m31_mul", 2, 4, GX_MADE(2) | GX_EXACT, m31_mul, 0},
    {"gx_m31_inverse", 1, 3, GX_MADE(1) | GX_EXACT, m31_inverse, 0},
    {.name = NULL},
};
