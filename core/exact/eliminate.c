/*
** Elimination modulo a prime: see exact.h.
**
** By halves of the columns (Dumas, Giorgi, Pernet: Dense linear algebra over prime fields, 2008):
** the left half gives pivots and L, the right half's rows of pivots are solved for, the rows below
** lose L times them by a product, and then the right half is done.  Nearly all work is products
** (GX_GEMM of GX_M31), shared by the team.  Any element but 0 is as good a pivot as another:
** nothing is rounded.
**
** LEAF columns are done one by one.  A row or column is multiplied by one number x by Shoup's
** method: with w = floor(x 2^32 / p), y x - floor(y w / 2^32) p is below 2 p.
*/
#include "exact.h"

#include "../alg/dense.h"
#include "../run/call.h"

#include <string.h>

enum { LEAF = 32 };

// Rows of numbers ---------------------------------------------------------------------------------

/* A number that many others are multiplied by. */
typedef struct factor {
    uint32_t x, w, p;
} factor;

static factor factor_of(uint32_t x, uint32_t p)
{
    return (factor){x, (uint32_t)(((uint64_t)x << 32) / p), p};
}

static inline uint32_t times(const factor *f, uint32_t y)
{
    uint32_t q = (uint32_t)((uint64_t)y * f->w >> 32);
    uint32_t rest = y * f->x - q * f->p;
    return rest >= f->p ? rest - f->p : rest;
}

static void scale(const factor *f, int64_t count, uint32_t *y)
{
    for (int64_t i = 0; i < count; i++) {
        y[i] = times(f, y[i]);
    }
}

/* y -= f x */
static void subtract(const factor *f, int64_t count, const uint32_t *restrict x,
                     uint32_t *restrict y)
{
    const factor g = *f;
    for (int64_t i = 0; i < count; i++) {
        uint32_t product = times(&g, x[i]);
        y[i] = y[i] >= product ? y[i] - product : y[i] + g.p - product;
    }
}

/* c -= a b */
static void subtract_product(gx_run *run, uint32_t p, int64_t m, int64_t n, int64_t k,
                             const uint32_t *a, int64_t lda, const uint32_t *b, int64_t ldb,
                             uint32_t *c, int64_t ldc)
{
    gx_args args = {.m = m,
                    .n = n,
                    .k = k,
                    .alpha = GX_MINUS_ONE,
                    .beta = GX_ONE,
                    .a = a,
                    .lda = lda,
                    .b = b,
                    .ldb = ldb,
                    .c = c,
                    .ldc = ldc,
                    .modulus = p};
    if (m > 0 && n > 0 && k > 0 && gx_ok(run)) {
        gx_run_call(run, GX_GEMM, GX_M31, &args);
    }
}

void gx_exact_multiply(gx_run *run, uint32_t p, int64_t m, int64_t n, int64_t k, const uint32_t *a,
                       const uint32_t *b, uint32_t *c)
{
    gx_args args = {.m = m,
                    .n = n,
                    .k = k,
                    .alpha = GX_ONE,
                    .a = a,
                    .lda = gx_max(1, m),
                    .b = b,
                    .ldb = gx_max(1, k),
                    .c = c,
                    .ldc = gx_max(1, m),
                    .modulus = p};
    if (m > 0 && n > 0 && gx_ok(run)) {
        gx_run_call(run, GX_GEMM, GX_M31, &args);
    }
}

// Triangles ---------------------------------------------------------------------------------------

/* A triangle t, k x k, and the columns x, k x n, that t x' = x is solved for in place. */
typedef struct triangle {
    gx_run *run;
    uint32_t p;
    const uint32_t *t;
    int64_t ldt;
    bool is_upper; /* with its diagonal; a lower one has ones there */
    uint32_t *x;
    int64_t ldx, n;
} triangle;

static void solve_leaf(const triangle *s, int64_t k0, int64_t k1)
{
    uint32_t inverse[LEAF];
    for (int64_t k = k0; k < k1 && s->is_upper; k++) {
        inverse[k - k0] = gx_field_inverse(s->t[k + k * s->ldt], s->p);
    }
    for (int64_t j = 0; j < s->n; j++) {
        uint32_t *x = s->x + j * s->ldx;
        for (int64_t q = 0; q < k1 - k0; q++) {
            int64_t k = s->is_upper ? k1 - 1 - q : k0 + q;
            if (s->is_upper) {
                x[k] = gx_field_mul(x[k], inverse[k - k0], s->p);
            }
            factor f = factor_of(x[k], s->p);
            int64_t i0 = s->is_upper ? k0 : k + 1, i1 = s->is_upper ? k : k1;
            subtract(&f, i1 - i0, s->t + i0 + k * s->ldt, x + i0);
        }
    }
}

static void solve_part(const triangle *s, int64_t k0, int64_t k1)
{
    if (k1 - k0 <= LEAF) {
        if (gx_ok(s->run) && gx_run_poll(s->run) == GX_OK) {
            solve_leaf(s, k0, k1);
        }
        return;
    }
    int64_t mid = k0 + gx_round_up((size_t)(k1 - k0) / 2, LEAF);
    int64_t a0 = s->is_upper ? mid : k0, a1 = s->is_upper ? k1 : mid;
    int64_t b0 = s->is_upper ? k0 : mid, b1 = s->is_upper ? mid : k1;
    solve_part(s, a0, a1);
    subtract_product(s->run, s->p, b1 - b0, s->n, a1 - a0, s->t + b0 + a0 * s->ldt, s->ldt,
                     s->x + a0, s->ldx, s->x + b0, s->ldx);
    solve_part(s, b0, b1);
}

// Elimination -------------------------------------------------------------------------------------

static uint32_t *at(const gx_echelon *e, int64_t i, int64_t j)
{
    return e->x + i + j * e->rows;
}

static void exchange_rows(uint32_t *x, int64_t ld, int64_t cols, int64_t a, int64_t b)
{
    for (int64_t j = 0; j < cols && a != b; j++) {
        uint32_t *column = x + j * ld, kept = column[a];
        column[a] = column[b];
        column[b] = kept;
    }
}

static void eliminate_leaf(gx_echelon *e, int64_t c0, int64_t c1)
{
    for (int64_t c = c0; c < c1 && e->rank < e->rows; c++) {
        int64_t r = e->rank, i = r;
        while (i < e->rows && *at(e, i, c) == 0) {
            i++;
        }
        if (i == e->rows) {
            continue;
        }
        exchange_rows(e->x, e->rows, e->cols, r, i);
        e->is_odd ^= i != r;
        e->swap[r] = i;
        e->column[r] = c;
        e->rank++;
        factor inverse = factor_of(gx_field_inverse(*at(e, r, c), e->p), e->p);
        scale(&inverse, e->rows - r - 1, at(e, r, c) + 1);
        for (int64_t j = c + 1; j < c1; j++) {
            factor f = factor_of(*at(e, r, j), e->p);
            subtract(&f, e->rows - r - 1, at(e, r, c) + 1, at(e, r, j) + 1);
        }
    }
}

/*
** Pivots r0 .. r1 - 1 were found on the left: their columns of L from row r0 on, next to each other
** (copy: to be freed).
*/
static const uint32_t *columns_of(gx_echelon *e, int64_t r0, int64_t r1, int64_t *ld,
                                  uint32_t **copy)
{
    int64_t k = r1 - r0, rows = e->rows - r0;
    *copy = NULL;
    *ld = e->rows;
    if (e->column[r1 - 1] - e->column[r0] == k - 1) {
        return at(e, r0, e->column[r0]);
    }
    *ld = rows;
    if (gx_dense_alloc(e->run, GX_M31, rows, k, "columns of pivots", copy) != GX_OK) {
        return NULL;
    }
    for (int64_t q = 0; q < k; q++) {
        memcpy(*copy + q * rows, at(e, r0, e->column[r0 + q]), (size_t)rows * sizeof **copy);
    }
    return *copy;
}

static void eliminate(gx_echelon *e, int64_t c0, int64_t c1)
{
    if (!gx_ok(e->run) || gx_run_poll(e->run) != GX_OK || e->rank == e->rows) {
        return;
    }
    if (c1 - c0 <= LEAF) {
        eliminate_leaf(e, c0, c1);
        return;
    }
    int64_t mid = c0 + gx_round_up((size_t)(c1 - c0) / 2, LEAF), r0 = e->rank, ld;
    eliminate(e, c0, mid);
    int64_t r1 = e->rank;
    uint32_t *copy = NULL;
    const uint32_t *L = r1 > r0 && gx_ok(e->run) ? columns_of(e, r0, r1, &ld, &copy) : NULL;
    if (L != NULL) {
        triangle s = {e->run, e->p, L, ld, false, at(e, r0, mid), e->rows, c1 - mid};
        solve_part(&s, 0, r1 - r0);
        subtract_product(e->run, e->p, e->rows - r1, c1 - mid, r1 - r0, L + (r1 - r0), ld, s.x,
                         e->rows, at(e, r1, mid), e->rows);
    }
    gx_mem_free(e->run->ctx->mem, copy);
    eliminate(e, mid, c1);
}

gx_code gx_exact_eliminate(gx_echelon *e)
{
    int64_t most = gx_max(1, gx_min(e->rows, e->cols));
    e->rank = 0;
    e->is_odd = false;
    e->swap = gx_run_alloc(e->run, (size_t)most * sizeof *e->swap, "pivots");
    e->column = gx_run_alloc(e->run, (size_t)most * sizeof *e->column, "pivots");
    if (e->swap != NULL && e->column != NULL) {
        eliminate(e, 0, e->cols);
    }
    return gx_ok(e->run) ? GX_OK : e->run->err.code;
}

void gx_echelon_clear(gx_echelon *e)
{
    gx_mem_free(e->run->ctx->mem, e->swap);
    gx_mem_free(e->run->ctx->mem, e->column);
    e->swap = e->column = NULL;
}

uint32_t gx_echelon_det(const gx_echelon *e)
{
    uint32_t det = e->is_odd ? e->p - 1 : 1 % e->p;
    for (int64_t k = 0; k < e->rows; k++) {
        det = e->rank == e->rows ? gx_field_mul(det, *at(e, k, k), e->p) : 0;
    }
    return det;
}

/* The square of pivots: rows and columns of them; *copy is to be freed where it is one. */
static const uint32_t *square_of(const gx_echelon *e, bool is_lower, int64_t *ld, uint32_t **copy)
{
    int64_t r = e->rank;
    *copy = NULL;
    *ld = e->rows;
    if (r == 0 || e->column[r - 1] == r - 1) {
        return e->x;
    }
    *ld = is_lower ? e->rows : r;
    if (gx_dense_alloc(e->run, GX_M31, *ld, r, "columns of pivots", copy) != GX_OK) {
        return NULL;
    }
    for (int64_t k = 0; k < r; k++) {
        memcpy(*copy + k * *ld, at(e, 0, e->column[k]), (size_t)*ld * sizeof **copy);
    }
    return *copy;
}

gx_code gx_echelon_solve(const gx_echelon *e, uint32_t *b, int64_t n, uint32_t *x, bool *is_solved)
{
    gx_run *run = e->run;
    int64_t r = e->rank, m = e->rows, ld;
    uint32_t *copy;
    *is_solved = true;
    if (m == 0) {
        memset(x, 0, (size_t)(e->cols * n) * sizeof *x);
        return GX_OK;
    }
    for (int64_t k = 0; k < r; k++) {
        exchange_rows(b, m, n, k, e->swap[k]);
    }
    const uint32_t *t = square_of(e, true, &ld, &copy);
    if (t != NULL) {
        triangle lower = {run, e->p, t, ld, false, b, m, n};
        triangle upper = {run, e->p, t, ld, true, b, m, n};
        solve_part(&lower, 0, r);
        subtract_product(run, e->p, m - r, n, r, t + r, ld, b, m, b + r, m);
        solve_part(&upper, 0, r);
    }
    gx_mem_free(run->ctx->mem, copy);
    if (!gx_ok(run)) {
        return run->err.code;
    }
    memset(x, 0, (size_t)(e->cols * n) * sizeof *x);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = r; i < m; i++) {
            *is_solved = *is_solved && b[i + j * m] == 0;
        }
        for (int64_t k = 0; k < r; k++) {
            x[e->column[k] + j * e->cols] = b[k + j * m];
        }
    }
    return GX_OK;
}

gx_code gx_echelon_nullspace(const gx_echelon *e, uint32_t *x)
{
    gx_run *run = e->run;
    int64_t r = e->rank, free_columns = e->cols - r, ld, q = 0;
    uint32_t *copy, *b = NULL;
    const uint32_t *t = square_of(e, false, &ld, &copy);
    gx_dense_alloc(run, GX_M31, r, free_columns, "columns without a pivot", &b);
    if (t != NULL && b != NULL) {
        memset(x, 0, (size_t)(e->cols * free_columns) * sizeof *x);
        for (int64_t j = 0, k = 0; j < e->cols; j++) {
            if (k < r && e->column[k] == j) {
                k++;
                continue;
            }
            for (int64_t i = 0; i < r; i++) { // E is 0 left of its pivots: L lies there
                uint32_t value = e->column[i] < j ? *at(e, i, j) : 0;
                b[i + q * r] = value == 0 ? 0 : e->p - value;
            }
            x[j + q++ * e->cols] = 1;
        }
        triangle upper = {run, e->p, t, ld, true, b, gx_max(1, r), free_columns};
        solve_part(&upper, 0, r);
        for (q = 0; q < free_columns; q++) {
            for (int64_t k = 0; k < r; k++) {
                x[e->column[k] + q * e->cols] = b[k + q * r];
            }
        }
    }
    gx_mem_free(run->ctx->mem, copy);
    gx_mem_free(run->ctx->mem, b);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Parts -------------------------------------------------------------------------------------------

void gx_echelon_order(const gx_echelon *e, int64_t *order)
{
    for (int64_t i = 0; i < e->rows; i++) {
        order[i] = i;
    }
    for (int64_t k = 0; k < e->rank; k++) {
        int64_t kept = order[k];
        order[k] = order[e->swap[k]];
        order[e->swap[k]] = kept;
    }
}

void gx_echelon_lower(const gx_echelon *e, uint32_t *lower)
{
    int64_t m = e->rows;
    for (int64_t k = 0; k < gx_min(m, e->cols); k++) {
        for (int64_t i = 0; i < m; i++) {
            bool is_there = i > k && k < e->rank;
            lower[i + k * m] = is_there ? *at(e, i, e->column[k]) : i == k;
        }
    }
}

void gx_echelon_upper(const gx_echelon *e, uint32_t *upper)
{
    int64_t k = gx_min(e->rows, e->cols);
    for (int64_t j = 0; j < e->cols; j++) {
        for (int64_t i = 0; i < k; i++) {
            bool is_there = i < e->rank && j >= e->column[i];
            upper[i + j * k] = is_there ? *at(e, i, j) : 0;
        }
    }
}
