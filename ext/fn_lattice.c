/*
** Lattices, the golden ratio and recurrences in SQL.
**
**   gx_lattice_nearest(A, lattice[, destination][, options])   the nearest point of each row
**   gx_e8(what[, k][, destination][, options])                 its roots, a shell, the golden space
**   gx_phi_floor(A[, destination][, options])                  floor(phi n), exactly
**   gx_phi_mul(A, B[, ...]), gx_phi_pow(A, n[, ...])           numbers a + b phi, a row (a, b) each
**   gx_recur(A, x, n[, destination][, options])                A^n x
**
** What is exact is of i64, and refused where 64 bits do not hold it.
*/
#include "exact_fn.h"

#include "../core/alg/dense.h"
#include "../core/exact/exact.h"
#include "../core/exact/lattice.h"

#include <string.h>

static void lattice_nearest(gx_fn *fn)
{
    gx_mat A;
    gx_sink C;
    int lattice = 0;
    int64_t tile_rows, tile_cols;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_word(fn, 1, "lattice", "zn|dn|an|e8", &lattice) ||
        !gx_fn_check(fn, gx_lattice_fits(&A, (gx_lattice)lattice, &fn->err))) {
        return;
    }
    if (A.number == GX_F32 && !fn->dest.has_dtype) {
        fn->dest.has_dtype = true;
        fn->dest.dtype = GX_DTYPE_F32;
    }
    gx_lattice_tiles(&A, &tile_rows, &tile_cols);
    gx_sink_begin(&fn->run, &fn->dest, A.rows, A.cols, GX_F64, 0, tile_rows, tile_cols, &C);
    gx_alg_nearest_points(&fn->run, &A, (gx_lattice)lattice, &C);
    gx_fn_result_sink(fn, &C);
}

/* rows x cols f64 as the call's result. */
static void give_doubles(gx_fn *fn, int64_t rows, int64_t cols, const double *x)
{
    gx_sink C;
    gx_sink_begin(&fn->run, &fn->dest, rows, cols, GX_F64, 0, 0, 0, &C);
    if (gx_ok(&fn->run)) {
        gx_dense_write(&fn->run, &C, x, gx_max(1, rows));
    }
    gx_fn_result_sink(fn, &C);
}

static void e8(gx_fn *fn)
{
    enum { ROOTS, SHELL, GOLDEN };
    int what = ROOTS;
    int64_t k = 1;
    double basis[32];
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_has(fn, 0) ||
        !gx_fn_word(fn, 0, "what", "roots|shell|golden", &what) ||
        (gx_fn_has(fn, 1) && !gx_fn_int(fn, 1, "k", &k))) {
        if (gx_ok(&fn->run)) {
            gx_fn_fail(fn, "what must be one of roots, shell, golden");
        }
        return;
    }
    if (what == GOLDEN) {
        gx_e8_golden(basis);
        give_doubles(fn, 8, 4, basis);
        return;
    }
    if (k < 0 || k > GX_E8_SHELLS || (what == ROOTS && k != 1)) {
        gx_fn_fail(fn, what == ROOTS ? "roots are the shell of 1" : "k must be from 0 to %d",
                   GX_E8_SHELLS);
        return;
    }
    int64_t count = gx_e8_shell((int)k, NULL);
    double *points = gx_fn_alloc(fn, (size_t)count * 8 * sizeof *points, "a shell");
    if (points != NULL) {
        gx_e8_shell((int)k, points);
        give_doubles(fn, count, 8, points);
    }
}

// Whole numbers -----------------------------------------------------------------------------------

static void phi_floor(gx_fn *fn)
{
    gx_mat A;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_matrix(fn, 0, "A", &A)) {
        return;
    }
    int64_t *x = gx_exact_load_whole(fn, &A);
    for (int64_t k = 0; k < A.rows * A.cols && x != NULL; k++) {
        if (!gx_golden_floor(x[k], &x[k])) {
            gx_run_failf(&fn->run, GX_TOOBIG, "phi times %lld needs more than 64 bits",
                         (long long)x[k]);
            return;
        }
    }
    bool is_number = gx_fn_has(fn, 0) && sqlite3_value_type(fn->argv[0]) == SQLITE_INTEGER;
    if (x != NULL && is_number && fn->dest.name == NULL && !fn->dest.has_dtype) {
        sqlite3_result_int64(fn->sql, x[0]);
    } else if (x != NULL) {
        gx_exact_give_whole(fn, A.rows, A.cols, x);
    }
}

/* Pairs (a, b) in rows. */
static bool takes_pairs(gx_fn *fn, const gx_mat *A)
{
    return A->cols == 2 ||
           gx_fn_fail(fn, "%s has %lld columns, but numbers a + b phi are rows of 2", A->label,
                      (long long)A->cols);
}

static bool refuse_long(gx_fn *fn, int64_t row)
{
    gx_run_failf(&fn->run, GX_TOOBIG, "row %lld of the result needs more than 64 bits",
                 (long long)row);
    return false;
}

static void phi_mul(gx_fn *fn)
{
    gx_mat A, B;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_matrix(fn, 1, "B", &B) || !takes_pairs(fn, &A) || !takes_pairs(fn, &B)) {
        return;
    }
    int64_t rows = A.rows == 1 ? B.rows : A.rows;
    if (B.rows != rows && B.rows != 1) {
        gx_fn_fail(fn, "A has %lld rows but B has %lld", (long long)A.rows, (long long)B.rows);
        return;
    }
    const int64_t *a = gx_exact_load_whole(fn, &A), *b = gx_exact_load_whole(fn, &B);
    int64_t *c = gx_fn_alloc(fn, (size_t)rows * 2 * sizeof *c, "products");
    for (int64_t i = 0; i < rows && a != NULL && b != NULL && c != NULL; i++) {
        int64_t p = A.rows == 1 ? 0 : i, q = B.rows == 1 ? 0 : i, product[2];
        const int64_t x[2] = {a[p], a[p + A.rows]}, y[2] = {b[q], b[q + B.rows]};
        if (!gx_golden_times(x, y, product) && !refuse_long(fn, i)) {
            return;
        }
        c[i] = product[0];
        c[i + rows] = product[1];
    }
    if (gx_ok(&fn->run)) {
        gx_exact_give_whole(fn, rows, 2, c);
    }
}

/* x^n by squaring, which stops before a square that is not wanted. */
static bool golden_power(int64_t x[2], int64_t n)
{
    int64_t result[2] = {1, 0};
    for (; n > 0; n >>= 1) {
        if ((n & 1) != 0 && !gx_golden_times(result, x, result)) {
            return false;
        }
        if (n > 1 && !gx_golden_times(x, x, x)) {
            return false;
        }
    }
    memcpy(x, result, sizeof result);
    return true;
}

static void phi_pow(gx_fn *fn)
{
    gx_mat A;
    int64_t n;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_size(fn, 1, "n", &n) || !takes_pairs(fn, &A)) {
        return;
    }
    int64_t *a = gx_exact_load_whole(fn, &A);
    for (int64_t i = 0; i < A.rows && a != NULL; i++) {
        int64_t x[2] = {a[i], a[i + A.rows]};
        if (!golden_power(x, n) && !refuse_long(fn, i)) {
            return;
        }
        a[i] = x[0];
        a[i + A.rows] = x[1];
    }
    if (a != NULL) {
        gx_exact_give_whole(fn, A.rows, 2, a);
    }
}

// Recurrences -------------------------------------------------------------------------------------

typedef struct recur_options {
    bool is_given; /* first: an offset of 0 means none */
    gx_exact_options exact;
} recur_options;

static const gx_option recur_keys[] = {GX_EXACT_KEYS(recur_options), {NULL, GX_OPT_END, 0, 0}};

/* A recurrence in numbers of one kind: a is n x n, x is n x cols; c and y have room for as many. */
typedef struct recurrence {
    gx_fn *fn;
    gx_number number; /* of floating ones, or GX_M31 modulo p */
    uint32_t p;       /* 0: floating, or (is_whole) 64 bits   */
    bool is_whole;
    int64_t n, cols;
    size_t element;
    void *a, *x, *square, *next;
} recurrence;

/* to = left right, n x n and n x cols. */
static void multiply(const recurrence *r, const void *left, const void *right, int64_t cols,
                     void *to)
{
    gx_run *run = &r->fn->run;
    if (r->is_whole) {
        gx_exact_product(run, r->n, cols, r->n, left, right, to);
    } else if (r->p != 0) {
        gx_exact_multiply(run, r->p, r->n, cols, r->n, left, right, to);
    } else {
        int64_t ld = gx_max(1, r->n);
        gx_dense_gemm(run, r->number, GX_NO_TRANS, GX_NO_TRANS, r->n, cols, r->n, 1, left, ld,
                      right, ld, 0, to, ld);
    }
}

static void advance(recurrence *r, int64_t steps)
{
    gx_run *run = &r->fn->run;
    for (; steps > 0 && gx_ok(run) && gx_run_poll(run) == GX_OK; steps >>= 1) {
        if ((steps & 1) != 0) {
            multiply(r, r->a, r->x, r->cols, r->next);
            void *kept = r->x;
            r->x = r->next;
            r->next = kept;
        }
        if (steps > 1) {
            multiply(r, r->a, r->a, r->n, r->square);
            void *kept = r->a;
            r->a = r->square;
            r->square = kept;
        }
    }
}

static bool load_all(recurrence *r, const gx_mat *A, const gx_mat *x)
{
    gx_fn *fn = r->fn;
    gx_run *run = &fn->run;
    size_t square = 0, columns = 0;
    gx_elements_bytes(r->n, r->n, r->element, &square);
    gx_elements_bytes(r->n, r->cols, r->element, &columns);
    if (r->is_whole) {
        r->a = gx_exact_load_whole(fn, A);
        r->x = gx_exact_load_whole(fn, x);
    } else {
        uint32_t *a = NULL, *b = NULL;
        if (r->p != 0) {
            gx_exact_load_mod(run, A, r->p, &a);
            gx_exact_load_mod(run, x, r->p, &b);
            r->a = a;
            r->x = b;
        } else {
            gx_dense_alloc(run, r->number, r->n, r->n, "a matrix", &r->a);
            gx_dense_alloc(run, r->number, r->n, r->cols, "columns", &r->x);
        }
        bool is_owned =
            (r->a == NULL || gx_fn_own(fn, r->a)) & (r->x == NULL || gx_fn_own(fn, r->x));
        if (is_owned && r->p == 0 && gx_ok(run)) {
            gx_dense_load(run, A, r->number, r->a, gx_max(1, r->n));
            gx_dense_load(run, x, r->number, r->x, gx_max(1, r->n));
        }
    }
    r->square = gx_fn_alloc(fn, square, "a square");
    r->next = gx_fn_alloc(fn, columns, "columns");
    return gx_ok(run);
}

/* gx_recur(A, x, n[, destination][, options]) */
static void recur(gx_fn *fn)
{
    recur_options opt = {0};
    gx_mat A, x;
    int64_t steps;
    if (!gx_fn_options(fn, recur_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !gx_fn_matrix(fn, 1, "x", &x) || !gx_fn_size(fn, 2, "n", &steps) ||
        !gx_fn_is_square(fn, &A)) {
        return;
    }
    if (x.rows != A.rows) {
        gx_fn_fail(fn, "A is %lldx%lld but x has %lld rows", (long long)A.rows, (long long)A.cols,
                   (long long)x.rows);
        return;
    }
    recurrence r = {.fn = fn, .n = A.rows, .cols = x.cols};
    r.number = gx_number_promote(A.number, x.number);
    bool is_exact = gx_fn_is_exact(&opt.exact, &A, &x);
    r.is_whole = opt.exact.is_exact || (!is_exact && A.dtype == GX_DTYPE_I64);
    if (is_exact && !gx_exact_take_modulus(fn, &opt.exact, &A, &x, &r.p)) {
        return;
    }
    r.element = r.is_whole ? sizeof(int64_t)
                : r.p != 0 ? sizeof(uint32_t)
                           : gx_number_bytes(r.number);
    if (!load_all(&r, &A, &x)) {
        return;
    }
    advance(&r, steps);
    if (!gx_ok(&fn->run)) {
        return;
    }
    if (r.is_whole) {
        gx_exact_give_whole(fn, r.n, r.cols, r.x);
    } else if (r.p != 0) {
        gx_exact_give(fn, r.p, r.n, r.cols, r.x);
    } else {
        gx_sink C;
        gx_sink_begin(&fn->run, &fn->dest, r.n, r.cols, r.number, 0, 0, 0, &C);
        if (gx_ok(&fn->run)) {
            gx_dense_write(&fn->run, &C, r.x, gx_max(1, r.n));
        }
        gx_fn_result_sink(fn, &C);
    }
}

const gx_function gx_functions_lattice[] = {
    {"gx_lattice_nearest", 2, 4, GX_MADE(2), lattice_nearest, 0},
    {"gx_e8", 1, 4, GX_MADE(2), e8, 0},
    {"gx_phi_floor", 1, 3, GX_MADE(1), phi_floor, 0},
    {"gx_phi_mul", 2, 4, GX_MADE(2), phi_mul, 0},
    {"gx_phi_pow", 2, 4, GX_MADE(2), phi_pow, 0},
    {"gx_recur", 3, 5, GX_MADE(3) | GX_EXACT, recur, 0},
    {.name = NULL},
};
