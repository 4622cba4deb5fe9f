/*
** GX_SPMM of the CPU backend beside the reference.
**
** Plan:
**   1. by hand: a panel of three rows, each op, alpha, small whole numbers
**   2. both backends against the sums written out, in every dtype and op: lines 0 to 5, 8, 16, 31
**      to 33, 64, 100; rows that are empty, full, long; leading dimensions longer than the lines;
**      indexes of 4 and of 8 bytes; cuts of a panel.  Within k eps of the sizes of what is added;
**      guards around c stay, and b is not written
*/
#include "block.h"

#include <math.h>

static uint64_t seed = 7;

typedef struct panel {
    uint32_t start[64];
    int64_t wide[512];
    int32_t narrow[512];
    double value[2 * 512];
    float single[2 * 512];
    gx_csr csr;
} panel;

/* rows x cols; every third row empty, every seventh full. */
static void panel_random(panel *p, gx_dtype dtype, int64_t rows, int64_t cols, bool is_wide)
{
    int64_t e = 0;
    p->start[0] = 0;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols && i % 3 != 2; j++) {
            if (i % 7 == 0 || random_bits(&seed) % 4 == 0) {
                p->wide[e] = p->narrow[e] = (int32_t)j;
                for (int part = 0; part < (gx_dtype_is_complex(dtype) ? 2 : 1); part++) {
                    int64_t at = (gx_dtype_is_complex(dtype) ? 2 : 1) * e + part;
                    p->value[at] = p->single[at] = (float)random_unit(&seed);
                }
                e++;
            }
        }
        p->start[i + 1] = (uint32_t)e;
    }
    assert_true(e < 512);
    p->csr = (gx_csr){.dtype = dtype,
                      .rows = rows,
                      .cols = cols,
                      .entries = e,
                      .index_bytes = is_wide ? 8 : 4,
                      .start = p->start,
                      .index = is_wide ? (const void *)p->wide : (const void *)p->narrow,
                      .value = gx_dtype_is_double(dtype) ? (const void *)p->value
                                                         : (const void *)p->single};
}

static block block_random(gx_dtype dtype, int64_t m, int64_t n)
{
    block b = block_make(dtype, m, n, gx_max(m, 1) + (int64_t)(random_bits(&seed) % 3));
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            double re = random_unit(&seed);
            block_set(&b, i, j, (gx_scalar){re, random_unit(&seed)});
        }
    }
    return b;
}

static void call(const gx_backend *backend, const gx_csr *csr, gx_trans op, gx_scalar alpha,
                 const block *b, const block *c)
{
    gx_err err = {.code = GX_OK};
    gx_args args = {.transa = op,
                    .m = c->m,
                    .n = c->n,
                    .k = b->n,
                    .alpha = alpha,
                    .sparse = csr,
                    .b = b->data,
                    .ldb = b->ld,
                    .c = c->data,
                    .ldc = c->ld};
    assert_int_equal(backend->kernel[GX_SPMM][c->dtype](NULL, NULL, &args, &err), GX_OK);
}

static void by_hand(void **state)
{
    (void)state;
    uint32_t start[] = {0, 2, 2, 3};
    int32_t index[] = {0, 3, 1};
    double value[] = {2, 3, 5};
    const gx_csr csr = {GX_F64, 3, 4, 3, 4, start, index, value}; // [2 0 0 3; 0; 0 5 0 0]
    const gx_backend *backends[] = {&gx_backend_ref, &gx_backend_cpu};
    for (int k = 0; k < 2; k++) {
        double b[] = {1, 10, 100}, c[] = {1, 1, 1, 1}, d[] = {1, 2, 3, 4}, e[] = {0, 0, 7};
        block B = {.dtype = GX_F64, .m = 1, .n = 3, .ld = 1, .data = b};
        block C = {.dtype = GX_F64, .m = 1, .n = 4, .ld = 1, .data = c};
        block D = {.dtype = GX_F64, .m = 1, .n = 4, .ld = 1, .data = d};
        block E = {.dtype = GX_F64, .m = 1, .n = 3, .ld = 1, .data = e};
        call(backends[k], &csr, GX_NO_TRANS, (gx_scalar){1, 0}, &B, &C);
        assert_true(c[0] == 3 && c[1] == 501 && c[2] == 1 && c[3] == 4);
        call(backends[k], &csr, GX_TRANS, (gx_scalar){2, 0}, &D, &E);
        assert_true(e[0] == 28 && e[1] == 0 && e[2] == 27);
    }
}

/* c + alpha b op(csr), element by element. */
static gx_scalar expected(const gx_csr *csr, gx_trans op, gx_scalar alpha, const block *b,
                          gx_scalar c, int64_t l, int64_t j, double *size)
{
    for (int64_t i = 0; i < csr->rows; i++) {
        for (int64_t e = csr->start[i]; e < csr->start[i + 1]; e++) {
            int64_t at = gx_csr_column(csr, e);
            if ((op == GX_NO_TRANS ? at : i) != j) {
                continue;
            }
            gx_scalar v = gx_csr_value(csr, e), x = block_get(b, l, op == GX_NO_TRANS ? i : at);
            v.im = op == GX_CONJ_TRANS ? -v.im : v.im;
            gx_scalar w = {alpha.re * v.re - alpha.im * v.im, alpha.re * v.im + alpha.im * v.re};
            c.re += w.re * x.re - w.im * x.im;
            c.im += w.re * x.im + w.im * x.re;
            *size += 4 * (fabs(w.re) + fabs(w.im)) * (fabs(x.re) + fabs(x.im));
        }
    }
    return c;
}

static void compare(const gx_csr *csr, gx_trans op, int64_t m)
{
    gx_dtype dtype = csr->dtype;
    gx_scalar alpha = {-1.5, gx_dtype_is_complex(dtype) ? 0.5 : 0};
    block b = block_random(dtype, m, op == GX_NO_TRANS ? csr->rows : csr->cols);
    block c = block_random(dtype, m, op == GX_NO_TRANS ? csr->cols : csr->rows);
    block before = block_copy(&c), ref = block_copy(&c), same = block_copy(&b);
    call(&gx_backend_cpu, csr, op, alpha, &b, &c);
    call(&gx_backend_ref, csr, op, alpha, &b, &ref);
    assert_true(block_is_guarded(&c) && block_is_guarded(&ref));
    assert_memory_equal(b.raw, same.raw, b.bytes);
    for (int64_t j = 0; j < c.n; j++) {
        for (int64_t l = 0; l < m; l++) {
            double size = 4;
            gx_scalar want = expected(csr, op, alpha, &b, block_get(&before, l, j), l, j, &size);
            double most = 40 * gx_dtype_eps(dtype) * size;
            gx_scalar x = block_get(&c, l, j), y = block_get(&ref, l, j);
            assert_true(hypot(x.re - want.re, x.im - want.im) <= most);
            assert_true(hypot(y.re - want.re, y.im - want.im) <= most);
        }
    }
    block_free(&b), block_free(&c), block_free(&before), block_free(&ref), block_free(&same);
}

static void beside_the_reference(void **state)
{
    (void)state;
    static const int64_t lines[] = {0, 1, 2, 3, 4, 5, 8, 16, 31, 32, 33, 64, 100};
    static panel p;
    for (int dtype = 0; dtype < GX_DTYPE_COUNT; dtype++) {
        for (int wide = 0; wide < 2; wide++) {
            panel_random(&p, (gx_dtype)dtype, 23, 29, wide != 0);
            const gx_csr cut = gx_csr_cut(&p.csr, 4, 11), none = gx_csr_cut(&p.csr, 5, 0);
            for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
                for (int op = GX_NO_TRANS; op <= GX_CONJ_TRANS; op++) {
                    compare(&p.csr, (gx_trans)op, lines[k]);
                    compare(&cut, (gx_trans)op, lines[k]);
                    compare(&none, (gx_trans)op, lines[k]);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand),
                                       cmocka_unit_test(beside_the_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
