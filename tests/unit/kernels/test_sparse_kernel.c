/*
** GX_SPMM of the CPU backend, or of a device (make test-gpu), beside the reference.
**
** Plan:
**   1. by hand: a panel of three rows, each op, alpha, small whole numbers
**   2. both backends against the sums written out, in every dtype and op: lines 0 to 5, 8, 16, 31
**      to 33, 64, 100; rows that are empty, full, long; leading dimensions longer than the lines;
**      indexes of 4 and of 8 bytes; cuts of a panel.  Within k eps of the sizes of what is added;
**      guards around c stay, and b is not written
**   3. is_fresh: a c of NaNs is not read
**   4. rows of 20 000 entries among short and empty ones, first, last and side by side, beside the
**      reference; gathered twice gives the same bits
**   5. with b and c turned, for the ops that allow it, c fresh or not: what they are without
**   6. with b and c turned, rows that run along: a grid, beside the same product row by row, bit by
**      bit, in every dtype, small and past the caches; with a row that does not, at every distance
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
static void panel_random(panel *p, gx_number dtype, int64_t rows, int64_t cols, bool is_wide)
{
    int64_t e = 0;
    p->start[0] = 0;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols && i % 3 != 2; j++) {
            if (i % 7 == 0 || random_bits(&seed) % 4 == 0) {
                p->wide[e] = p->narrow[e] = (int32_t)j;
                for (int part = 0; part < (gx_number_is_complex(dtype) ? 2 : 1); part++) {
                    int64_t at = (gx_number_is_complex(dtype) ? 2 : 1) * e + part;
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
                      .value = gx_number_is_double(dtype) ? (const void *)p->value
                                                         : (const void *)p->single};
}

static block block_random(gx_number dtype, int64_t m, int64_t n)
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

/* Who is tested: the CPU backend; with GX_TEST_GPU the device. */
static const device *tested(void)
{
    static device d;
    if (d.backend == NULL) {
        d = device_on_demand();
    }
    if (d.backend == NULL) {
        d.backend = &gx_backend_cpu;
    }
    return &d;
}

static const device *reference(void)
{
    static const device d = {.backend = &gx_oracle};
    return &d;
}

/* The device's copy of a stretch of a panel; on a host that itself. */
static const void *place(const device *d, const void *host, size_t bytes)
{
    gx_err err = {.code = GX_OK};
    void *there = NULL;
    if (d->backend->alloc == NULL) {
        return host;
    }
    assert_int_equal(d->backend->alloc(d->dev, bytes + 1, &there, &err), GX_OK);
    assert_int_equal(
        d->backend->upload(d->dev, device_queue(d), there, bytes, host, bytes, bytes, 1, &err),
        GX_OK);
    return there;
}

static void drop(const device *d, const void *there)
{
    if (d->backend->alloc != NULL) {
        d->backend->free(d->dev, (void *)(uintptr_t)there);
    }
}

static void call_fresh(const device *d, const gx_csr *csr, gx_trans op, gx_scalar alpha,
                       bool is_fresh, block *b, block *c)
{
    gx_err err = {.code = GX_OK};
    gx_csr there = *csr;
    size_t end = csr->start[csr->rows];
    there.start = place(d, csr->start, (size_t)(csr->rows + 1) * sizeof *csr->start);
    there.index = place(d, csr->index, end * (size_t)csr->index_bytes);
    there.value = place(d, csr->value, end * gx_number_bytes(csr->dtype));
    gx_args args = {.transa = op,
                    .m = c->m,
                    .n = c->n,
                    .k = b->n,
                    .alpha = alpha,
                    .is_fresh = is_fresh,
                    .ldb = b->ld,
                    .ldc = c->ld,
                    .sparse = &there};
    if (device_run(d, GX_SPMM, c->dtype, args, NULL, b, c, &err) != GX_OK) {
        fail_msg("%s", err.text);
    }
    drop(d, there.start);
    drop(d, there.index);
    drop(d, there.value);
}

static void call(const device *d, const gx_csr *csr, gx_trans op, gx_scalar alpha, block *b,
                 block *c)
{
    call_fresh(d, csr, op, alpha, false, b, c);
}

static void by_hand(void **state)
{
    (void)state;
    uint32_t start[] = {0, 2, 2, 3};
    int32_t index[] = {0, 3, 1};
    double value[] = {2, 3, 5};
    const gx_csr csr = {GX_F64, 3, 4, 3, 4, start, index, value}; // [2 0 0 3; 0; 0 5 0 0]
    const double in[4] = {1, 10, 100}, on[4] = {1, 1, 1, 1}, d[4] = {1, 2, 3, 4}, e[4] = {0, 0, 7};
    for (int k = 0; k < 2; k++) {
        const device *who = k == 0 ? reference() : tested();
        block B = block_make(GX_F64, 1, 3, 1), C = block_make(GX_F64, 1, 4, 1);
        block D = block_make(GX_F64, 1, 4, 1), E = block_make(GX_F64, 1, 3, 1);
        for (int64_t j = 0; j < 4; j++) {
            block_set(&C, 0, j, (gx_scalar){on[j], 0});
            block_set(&D, 0, j, (gx_scalar){d[j], 0});
            if (j < 3) {
                block_set(&B, 0, j, (gx_scalar){in[j], 0});
                block_set(&E, 0, j, (gx_scalar){e[j], 0});
            }
        }
        call(who, &csr, GX_NO_TRANS, (gx_scalar){1, 0}, &B, &C);
        const double *c = C.data, *f = E.data;
        assert_true(c[0] == 3 && c[1] == 501 && c[2] == 1 && c[3] == 4);
        call(who, &csr, GX_TRANS, (gx_scalar){2, 0}, &D, &E);
        assert_true(f[0] == 28 && f[1] == 0 && f[2] == 27);
        block_free(&B), block_free(&C), block_free(&D), block_free(&E);
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

static block turned(const block *b)
{
    block t = block_make(b->dtype, b->n, b->m, gx_max(b->n, 1) + (int64_t)(random_bits(&seed) % 3));
    for (int64_t j = 0; j < b->n; j++) {
        for (int64_t i = 0; i < b->m; i++) {
            block_set(&t, j, i, block_get(b, i, j));
        }
    }
    return t;
}

/* c += alpha b op(csr) with b and c turned, beside what it is: want. */
static void compare_turned(const gx_csr *csr, gx_trans op, gx_scalar alpha, const block *b,
                           const block *before, const block *want)
{
    const gx_backend *backends[] = {&gx_oracle, &gx_backend_cpu};
    for (int k = 0; k < 4; k++) {
        gx_err err = {.code = GX_OK};
        bool is_fresh = k >= 2;
        block B = turned(b), C = turned(before);
        for (int64_t e = 0; is_fresh && e < C.m * C.n; e++) {
            block_set(&C, e % C.m, e / C.m, (gx_scalar){NAN, NAN});
        }
        gx_args args = {.transa = op,
                        .transb = GX_TRANS,
                        .m = C.n,
                        .n = C.m,
                        .k = B.m,
                        .alpha = alpha,
                        .is_fresh = is_fresh,
                        .sparse = csr,
                        .b = B.data,
                        .ldb = B.ld,
                        .c = C.data,
                        .ldc = C.ld};
        assert_int_equal(backends[k % 2]->kernel[GX_SPMM][C.dtype](NULL, NULL, &args, &err), GX_OK);
        assert_true(block_is_guarded(&C));
        for (int64_t j = 0; j < C.n; j++) {
            for (int64_t i = 0; i < C.m; i++) {
                gx_scalar x = block_get(&C, i, j), y = block_get(want, j, i);
                gx_scalar c = block_get(before, j, i);
                double most = 400 * gx_number_eps(C.dtype) * (4 + hypot(y.re, y.im));
                y = is_fresh ? (gx_scalar){y.re - c.re, y.im - c.im} : y;
                assert_true(hypot(x.re - y.re, x.im - y.im) <= most);
            }
        }
        block_free(&B), block_free(&C);
    }
}

static void compare(const gx_csr *csr, gx_trans op, int64_t m)
{
    gx_number dtype = csr->dtype;
    gx_scalar alpha = {-1.5, gx_number_is_complex(dtype) ? 0.5 : 0};
    block b = block_random(dtype, m, op == GX_NO_TRANS ? csr->rows : csr->cols);
    block c = block_random(dtype, m, op == GX_NO_TRANS ? csr->cols : csr->rows);
    block before = block_copy(&c), ref = block_copy(&c), same = block_copy(&b);
    call(tested(), csr, op, alpha, &b, &c);
    call(reference(), csr, op, alpha, &b, &ref);
    assert_true(block_is_guarded(&c) && block_is_guarded(&ref));
    assert_memory_equal(b.raw, same.raw, b.bytes);
    for (int64_t j = 0; j < c.n; j++) {
        for (int64_t l = 0; l < m; l++) {
            double size = 4;
            gx_scalar want = expected(csr, op, alpha, &b, block_get(&before, l, j), l, j, &size);
            double most = 40 * gx_number_eps(dtype) * size;
            gx_scalar x = block_get(&c, l, j), y = block_get(&ref, l, j);
            assert_true(hypot(x.re - want.re, x.im - want.im) <= most);
            assert_true(hypot(y.re - want.re, y.im - want.im) <= most);
        }
    }
    if (op != GX_NO_TRANS) {
        compare_turned(csr, op, alpha, &b, &before, &ref);
    }
    block_free(&b), block_free(&c), block_free(&before), block_free(&ref), block_free(&same);
}

static void beside_the_reference(void **state)
{
    (void)state;
    static const int64_t lines[] = {0, 1, 2, 3, 4, 5, 8, 16, 31, 32, 33, 64, 100};
    static panel p;
    for (int dtype = 0; dtype < GX_FLOATS; dtype++) {
        for (int wide = 0; wide < 2; wide++) {
            panel_random(&p, (gx_number)dtype, 23, 29, wide != 0);
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

static void fresh(void **state)
{
    (void)state;
    static const int64_t lines[] = {1, 3, 4, 32, 40};
    static panel p;
    for (int dtype = 0; dtype < GX_FLOATS; dtype++) {
        panel_random(&p, (gx_number)dtype, 23, 29, false);
        for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
            block b = block_random((gx_number)dtype, lines[k], 29);
            block c = block_make((gx_number)dtype, lines[k], 23, lines[k]);
            block added = block_make((gx_number)dtype, lines[k], 23, lines[k]);
            for (int64_t e = 0; e < lines[k] * 23; e++) {
                block_set(&c, e % lines[k], e / lines[k], (gx_scalar){NAN, NAN});
                block_set(&added, e % lines[k], e / lines[k], (gx_scalar){0, 0});
            }
            call_fresh(tested(), &p.csr, GX_TRANS, (gx_scalar){2, 0}, true, &b, &c);
            call(tested(), &p.csr, GX_TRANS, (gx_scalar){2, 0}, &b, &added);
            assert_memory_equal(c.raw, added.raw, c.bytes);
            block_free(&b), block_free(&c), block_free(&added);
        }
    }
}

/* LONG_ROWS rows of up to 6 entries, but for some of all columns: what a power law gives. */
enum { LONG_ROWS = 3000, LONG_COLS = 20000 };

typedef struct long_panel {
    uint32_t *start;
    int32_t *index;
    void *value;
    gx_csr csr;
} long_panel;

static int64_t long_row(int64_t i)
{
    bool is_long = i == 0 || i == 1700 || i == 1701 || i == LONG_ROWS - 1;
    return is_long ? LONG_COLS : i % 5 == 0 ? 0 : (int64_t)(random_bits(&seed) % 6);
}

static void long_make(long_panel *p, gx_number dtype)
{
    enum { MOST = 5 * LONG_COLS + 6 * LONG_ROWS };
    p->start = test_malloc((LONG_ROWS + 1) * sizeof *p->start);
    p->index = test_malloc(MOST * sizeof *p->index);
    block values = {.dtype = dtype, .ld = 1};
    values.data = p->value = test_malloc(MOST * gx_number_bytes(dtype));
    int64_t e = 0;
    p->start[0] = 0;
    for (int64_t i = 0; i < LONG_ROWS; i++) {
        int64_t count = long_row(i), step = LONG_COLS / gx_max(1, count);
        for (int64_t k = 0; k < count; k++, e++) {
            p->index[e] = (int32_t)(k * step + (int64_t)(random_bits(&seed) % (uint64_t)step));
            double re = random_unit(&seed);
            block_set(&values, 0, e, (gx_scalar){re, random_unit(&seed)});
        }
        p->start[i + 1] = (uint32_t)e;
    }
    p->csr = (gx_csr){dtype, LONG_ROWS, LONG_COLS, e, 4, p->start, p->index, p->value};
}

static void long_compare(const gx_csr *csr, gx_trans op, int64_t lines)
{
    gx_number dtype = csr->dtype;
    const gx_scalar alpha = {0.5, 0};
    block b = block_random(dtype, lines, op == GX_NO_TRANS ? csr->rows : csr->cols);
    block c = block_random(dtype, lines, op == GX_NO_TRANS ? csr->cols : csr->rows);
    block want = block_copy(&c), again = block_copy(&c);
    call(tested(), csr, op, alpha, &b, &c);
    call(reference(), csr, op, alpha, &b, &want);
    assert_true(block_is_guarded(&c));
    double most = 100 * gx_number_eps(dtype) * LONG_COLS;
    for (int64_t j = 0; j < c.n; j++) {
        for (int64_t l = 0; l < lines; l++) {
            gx_scalar x = block_get(&c, l, j), y = block_get(&want, l, j);
            if (!(hypot(x.re - y.re, x.im - y.im) <= most)) {
                fail_msg("%s, op %d, %lld lines, (%lld, %lld): %.17g, not %.17g",
                         gx_number_name(dtype), (int)op, (long long)lines, (long long)l,
                         (long long)j, x.re, y.re);
            }
        }
    }
    if (op != GX_NO_TRANS) {
        call(tested(), csr, op, alpha, &b, &again);
        assert_memory_equal(c.raw, again.raw, c.bytes);
    }
    block_free(&b), block_free(&c), block_free(&want), block_free(&again);
}

static void long_rows(void **state)
{
    (void)state;
    static const int64_t lines[] = {1, 3, 8, 32, 36};
    for (int dtype = 0; dtype < GX_FLOATS; dtype++) {
        long_panel p;
        long_make(&p, (gx_number)dtype);
        const gx_csr cut = gx_csr_cut(&p.csr, 1, 1700);
        for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
            for (int op = GX_NO_TRANS; op <= GX_CONJ_TRANS; op++) {
                long_compare(&p.csr, (gx_trans)op, lines[k]);
            }
            long_compare(&cut, GX_TRANS, lines[k]);
        }
        test_free(p.start), test_free(p.index), test_free(p.value);
    }
}

/* The five-point grid of GRID_SIDE^2 points; one entry of row `bent` names another column. */
enum { GRID_SIDE = 190, GRID_ROWS = GRID_SIDE * GRID_SIDE };

static void grid_make(long_panel *p, gx_number dtype, int64_t bent, bool is_wide)
{
    static const int64_t step[5] = {-GRID_SIDE, -1, 0, 1, GRID_SIDE};
    p->start = test_malloc((GRID_ROWS + 1) * sizeof *p->start);
    p->index = test_malloc((size_t)(5 * GRID_ROWS) * sizeof(int64_t));
    block values = {.dtype = dtype, .ld = 1};
    values.data = p->value = test_malloc((size_t)(5 * GRID_ROWS) * gx_number_bytes(dtype));
    int64_t e = 0;
    p->start[0] = 0;
    for (int64_t i = 0; i < GRID_ROWS; i++) {
        for (int k = 0; k < 5; k++) {
            int64_t j = i + step[k];
            if (j < 0 || j >= GRID_ROWS) {
                continue;
            }
            j = i == bent && k == 4 ? j + 1 : j;
            if (is_wide) {
                ((int64_t *)(void *)p->index)[e] = j;
            } else {
                p->index[e] = (int32_t)j;
            }
            double re = random_unit(&seed);
            block_set(&values, 0, e++, (gx_scalar){re, random_unit(&seed)});
        }
        p->start[i + 1] = (uint32_t)e;
    }
    p->csr =
        (gx_csr){dtype, GRID_ROWS, GRID_ROWS, e, is_wide ? 8 : 4, p->start, p->index, p->value};
}

/* c = (c +) alpha op(rows [first, first + count) of csr) b, `most` rows a call. */
static void call_rows(const gx_csr *csr, int64_t first, int64_t count, int64_t most, bool is_fresh,
                      const block *b, block *c)
{
    gx_err err = {.code = GX_OK};
    for (int64_t i = 0; i < count; i += most) {
        const gx_csr part = gx_csr_cut(csr, first + i, gx_min(most, count - i));
        gx_args args = {.transa = GX_TRANS,
                        .transb = GX_TRANS,
                        .m = c->n,
                        .n = part.rows,
                        .k = b->m,
                        .alpha = {-1.25, 0},
                        .is_fresh = is_fresh,
                        .sparse = &part,
                        .b = b->data,
                        .ldb = b->ld,
                        .c = gx_at(c->data, c->dtype, c->ld, i, 0),
                        .ldc = c->ld};
        assert_int_equal(gx_backend_cpu.kernel[GX_SPMM][c->dtype](NULL, NULL, &args, &err), GX_OK);
    }
}

static void grid_compare(const gx_csr *csr, int64_t first, int64_t count, int64_t lines)
{
    block b = block_random(csr->dtype, GRID_ROWS, lines);
    block c = block_random(csr->dtype, count, lines), want = block_copy(&c);
    for (int is_fresh = 0; is_fresh < 2; is_fresh++) {
        call_rows(csr, first, count, count, is_fresh != 0, &b, &c);
        call_rows(csr, first, count, 1, is_fresh != 0, &b, &want);
        assert_memory_equal(c.raw, want.raw, c.bytes);
    }
    block_free(&b), block_free(&c), block_free(&want);
}

static void rows_that_run_along(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < GX_FLOATS; dtype++) {
        for (int bent = 0; bent < 20; bent++) {
            long_panel p;
            grid_make(&p, (gx_number)dtype, GRID_ROWS / 2 + bent, bent % 2 != 0);
            grid_compare(&p.csr, GRID_ROWS / 2 - 5, 40, 13);
            if (bent < 2) {
                grid_compare(&p.csr, 0, GRID_ROWS, 13);
            }
            test_free(p.start), test_free(p.index), test_free(p.value);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand), cmocka_unit_test(beside_the_reference), cmocka_unit_test(fresh),
        cmocka_unit_test(long_rows), cmocka_unit_test(rows_that_run_along)};
    (void)tested(); // a filter of tests, where one is asked for
    return cmocka_run_group_tests(tests, NULL, NULL);
}
