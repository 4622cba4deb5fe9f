/*
** Products of small whole numbers, as i8 and u8 have them: GX_WHOLE, 8 bits by 16, instead of a
** product for each of three primes.
**
** The inner side is cut where sums of 32 bits might overflow.  The team shares the panels of the
** result.
*/
#include "exact.h"

#include "../run/call.h"

#include <string.h>

/* A panel of the result; less than LEAST terms of a sum at once are not worth it. */
enum { ROWS = 256, COLUMNS = 128, LEAST = 64 };

typedef struct product {
    gx_run *run;
    const gx_backend *backend;
    gx_dev *dev;
    int64_t m, n, k, deep, down; /* deep: of k at once; down: panels in a column */
    gx_dtype from;
    uint8_t *a;
    int16_t *b;
    int32_t *sums; /* a panel for each member */
    int64_t *c;
} product;

typedef struct range {
    int64_t least, most;
} range;

static range range_of(const int64_t *x, int64_t count)
{
    range r = {0, 0};
    for (int64_t e = 0; e < count; e++) {
        r.least = x[e] < r.least ? x[e] : r.least;
        r.most = x[e] > r.most ? x[e] : r.most;
    }
    return r;
}

static gx_code multiply_panel(void *arg, int64_t piece, int member, gx_err *err)
{
    const product *p = arg;
    int64_t i0 = piece % p->down * ROWS, j0 = piece / p->down * COLUMNS;
    int64_t m = gx_min(ROWS, p->m - i0), n = gx_min(COLUMNS, p->n - j0);
    int32_t *sums = p->sums + (int64_t)member * ROWS * COLUMNS;
    for (int64_t l = 0; l < p->k && gx_ok(p->run); l += p->deep) {
        gx_args args = {.m = m, .n = n, .k = gx_min(p->deep, p->k - l), .lda = p->m, .ldb = p->k};
        args.a = p->a + l * p->m + i0;
        args.b = p->b + j0 * p->k + l;
        args.c = sums;
        args.ldc = m;
        args.from = p->from;
        memset(sums, 0, (size_t)(m * n) * sizeof *sums);
        GX_TRY(p->backend->kernel[GX_WHOLE][GX_F32](p->dev, NULL, &args, err));
        for (int64_t j = 0; j < n; j++) {
            int64_t *c = p->c + (j0 + j) * p->m + i0;
            for (int64_t i = 0; i < m; i++) {
                c[i] = sums[j * m + i] + (l == 0 ? 0 : c[i]);
            }
        }
    }
    return GX_OK;
}

static void multiply(product *p, const int64_t *a, const int64_t *b)
{
    double work = 2 * (double)p->m * (double)p->n * (double)p->k;
    size_t panel = (size_t)(ROWS * COLUMNS) * sizeof *p->sums;
    p->a = gx_run_alloc(p->run, (size_t)(p->m * p->k) + 1, "a matrix of bytes");
    p->b = gx_run_alloc(p->run, (size_t)(p->k * p->n) * sizeof *p->b + 1, "a matrix of 16 bits");
    p->sums = gx_run_alloc(p->run, (size_t)gx_run_members(p->run, work) * panel, "sums");
    for (int64_t e = 0; e < p->m * p->k && gx_ok(p->run); e++) {
        p->a[e] = (uint8_t)a[e];
    }
    for (int64_t e = 0; e < p->k * p->n && gx_ok(p->run); e++) {
        p->b[e] = (int16_t)b[e];
    }
    gx_run_pieces(p->run, work, p->down * gx_ceil_div(p->n, COLUMNS), multiply_panel, p);
    gx_mem_free(p->run->ctx->mem, p->a);
    gx_mem_free(p->run->ctx->mem, p->b);
    gx_mem_free(p->run->ctx->mem, p->sums);
}

bool gx_exact_small_product(gx_run *run, int64_t m, int64_t n, int64_t k, const int64_t *a,
                            const int64_t *b, int64_t *c)
{
    product p = {.run = run, .m = m, .n = n, .k = k, .down = gx_ceil_div(m, ROWS), .c = c};
    range x = range_of(a, m * k), y = range_of(b, k * n);
    bool has_sign = x.least < 0;
    bool is_small = x.least >= INT8_MIN && x.most <= (has_sign ? INT8_MAX : UINT8_MAX) &&
                    y.least >= INT16_MIN && y.most <= INT16_MAX;
    if (!is_small || k == 0 || gx_run_device(run, &p.backend, &p.dev) != GX_OK) {
        return false;
    }
    int64_t largest = gx_max(1, gx_max(-x.least, x.most)) * gx_max(1, gx_max(-y.least, y.most));
    p.deep = gx_min(k, INT32_MAX / largest);
    p.from = has_sign ? GX_DTYPE_I8 : GX_DTYPE_U8;
    if (p.deep < gx_min(k, LEAST)) {
        return false;
    }
    multiply(&p, a, b);
    return true;
}
