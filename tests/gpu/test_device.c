/*
** A device itself, and every kernel of our own on it once: what make test-gpu adds to the tests of
** backends, and what compute-sanitizer runs.
**
** Plan:
**   1. memory: allocated, too much of it is GX_NOMEM and does no harm, pinned
**   2. copies of rectangles, both ways, from pinned and pageable memory
**   3. queues: what runs after another queue, or after a mark, sees its work
**   4. every kernel of our own against the reference, small, with gaps between the columns;
**      elementwise ones to the bit; twice, with the same bits
**   5. elements of random matrices and conversions, to the bit
**   6. products of a large matrix with a few columns: of small integers, so the CPU's bits in every
**      order of the sums; widths 1 to 16, N T H, ragged, with gaps, alpha and beta
**   7. f32 with 17 to 64 columns, which tensor cores multiply in pieces: small integers again; sums
**      of what is positive, to f32's errors; what is not finite or of another scale among them;
**      of ten orders on both sides; few columns that differ in size
**   8. the same as 6 of more than 2^31 elements, where a device has the memory: ones and threes
**   9. Fourier transforms of columns and rows, both ways, in place, of and to real numbers, of
**      powers, products and primes, more of them than plans are kept; that a plan is found again
**  10. a thousand calls: the device's free memory is where it was
** GX_TEST_SMALL leaves out 1 and 6 to 8 and 10.
*/
#include "../unit/kernels/factor.h"
#include "base/random.h"

#include <float.h>

enum { CUDA = RUNNERS - 1 };

static const uint64_t SEED = 20261121;

static const device *gpu(void)
{
    return &runners[CUDA].d;
}

static void must(gx_code code, const gx_err *err)
{
    if (code != GX_OK) {
        fail_msg("%s", err->text);
    }
}

static bool is_stand_in(void)
{
    gx_dev_info info;
    gx_err err = {.code = GX_OK};
    must(gpu()->backend->info(gpu()->dev, &info, &err), &err);
    return strstr(info.name, "Mock") != NULL;
}

// Memory, copies, queues --------------------------------------------------------------------------

static void memory(void **state)
{
    (void)state;
    const device *d = gpu();
    gx_dev_info info;
    gx_err err = {.code = GX_OK};
    void *ptr = NULL, *pinned = NULL;
    if (getenv("GX_TEST_SMALL") != NULL) {
        return;
    }
    must(d->backend->info(d->dev, &info, &err), &err);
    assert_int_equal(d->backend->alloc(d->dev, info.total_bytes * 4, &ptr, &err), GX_NOMEM);
    assert_null(ptr);
    assert_true(strstr(err.text, "out of memory on cuda:") == err.text);
    err.code = GX_OK;
    must(d->backend->alloc(d->dev, 0, &ptr, &err), &err);
    d->backend->free(d->dev, ptr);
    must(d->backend->pin(d->dev, 1 << 20, &pinned, &err), &err);
    memset(pinned, 1, 1 << 20);
    d->backend->unpin(d->dev, pinned);
    d->backend->free(d->dev, NULL);
    d->backend->unpin(d->dev, NULL);
}

typedef enum way { PAGEABLE, PINNED, WAYS } way;

/* Up with one leading dimension, down with another. */
static void copy_rectangle(size_t rows, size_t cols, way through)
{
    const device *d = gpu();
    const gx_backend *b = d->backend;
    gx_queue *queue = device_queue(d);
    gx_err err = {.code = GX_OK};
    size_t ld = rows + 5, ld_there = rows + 3, bytes = ld * cols + 1;
    unsigned char *host = malloc(2 * bytes), *back = host + bytes;
    void *there, *pinned = NULL;
    assert_non_null(host);
    for (size_t i = 0; i < bytes; i++) {
        host[i] = (unsigned char)random_bits(&seed);
        back[i] = GUARD;
    }
    unsigned char *from = host;
    if (through == PINNED) {
        must(b->pin(d->dev, bytes, &pinned, &err), &err);
        memcpy(pinned, host, bytes);
        from = pinned;
    }
    must(b->alloc(d->dev, ld_there * cols, &there, &err), &err);
    must(b->upload(d->dev, queue, there, ld_there, from, ld, rows, cols, &err), &err);
    must(b->download(d->dev, queue, back, ld, there, ld_there, rows, cols, &err), &err);
    must(b->queue_wait(d->dev, queue, &err), &err);
    for (size_t i = 0; i < ld * cols; i++) {
        assert_int_equal(back[i], i % ld < rows ? host[i] : GUARD);
    }
    b->free(d->dev, there);
    b->unpin(d->dev, pinned);
    free(host);
}

static void copies(void **state)
{
    (void)state;
    for (way through = PAGEABLE; through < WAYS; through++) {
        copy_rectangle(1, 1, through);
        copy_rectangle(8, 1, through);
        copy_rectangle(1000, 33, through);
        copy_rectangle(4096, 17, through);
    }
}

/* Fills on one queue, a sum on another; rounds reuse the buffer. */
static void queues(void **state)
{
    (void)state;
    const device *d = gpu();
    const gx_backend *b = d->backend;
    gx_queue *first, *second;
    gx_mark *mark;
    gx_err err = {.code = GX_OK};
    void *there, *work;
    enum { N = 1 << 20 };
    gx_args fill = {.m = N, .n = 1, .ldc = N};
    gx_args sum = {.m = N, .n = 1, .lda = N, .reduce_kind = GX_REDUCE_SUM};
    must(b->queue_create(d->dev, &first, &err), &err);
    must(b->queue_create(d->dev, &second, &err), &err);
    must(b->mark_create(d->dev, &mark, &err), &err);
    must(b->mark_wait(d->dev, mark, &err), &err); // never set
    must(b->alloc(d->dev, N * sizeof(double), &there, &err), &err);
    must(b->alloc(d->dev, b->workspace(d->dev, GX_REDUCE, GX_F64, &sum), &work, &err), &err);
    for (int round = 1; round <= 20; round++) {
        double out[2];
        fill.alpha.re = round;
        fill.c = there;
        must(b->queue_prefer(d->dev, first, round % 4 == 1, &err), &err);
        must(b->kernel[GX_FILL][GX_F64](d->dev, first, &fill, &err), &err);
        must(b->queue_prefer(d->dev, first, round % 3 == 1, &err), &err); // in order all the same
        must(b->mark_set(d->dev, first, mark, &err), &err);
        must(b->queue_after_mark(d->dev, second, mark, &err), &err);
        sum.a = there;
        sum.work = work;
        sum.reduce = out;
        must(b->kernel[GX_REDUCE][GX_F64](d->dev, second, &sum, &err), &err);
        must(b->mark_set(d->dev, second, mark, &err), &err);
        must(b->mark_wait(d->dev, mark, &err), &err);
        must(b->queue_wait(d->dev, second, &err), &err);
        assert_true(out[0] == (double)round * N && out[1] == 0);
    }
    b->free(d->dev, there);
    b->free(d->dev, work);
    b->mark_free(d->dev, mark);
    b->queue_free(d->dev, first);
    b->queue_free(d->dev, second);
}

// Kernels -----------------------------------------------------------------------------------------

static void assert_same(gx_kernel_id kernel, const block *x, const block *y, const char *what)
{
    if (memcmp(x->raw, y->raw, x->bytes) != 0) {
        fail_msg("%s %s %dx%d: other bits than %s", gx_kernel_name(kernel),
                 gx_number_name(x->dtype), (int)x->m, (int)x->n, what);
    }
}

/* c by the device, twice, and by the reference or the CPU: the same bits. */
static void same_bits(gx_kernel_id kernel, const runner *like, gx_number dtype, gx_args args,
                      block *a, block *b, const block *c0)
{
    block c = block_copy(c0), again = block_copy(c0), want = block_copy(c0);
    run(&runners[CUDA], kernel, dtype, args, &(operands){.a = a, .b = b, .c = &c});
    run(&runners[CUDA], kernel, dtype, args, &(operands){.a = a, .b = b, .c = &again});
    run(like, kernel, dtype, args, &(operands){.a = a, .b = b, .c = &want});
    assert_same(kernel, &c, &again, "the first time");
    assert_same(kernel, &c, &want, like->name);
    block_free(&c);
    block_free(&again);
    block_free(&want);
}

static void maps_of(gx_number dtype, int64_t m, int64_t n)
{
    enum { MOVES = 2 }; // FILL and COPY, then the rows of map.h
    for (int k = 0; k < MOVES + GX_MAP_KIND_COUNT; k++) {
        gx_kernel_id kernel = k == 0 ? GX_FILL : k == 1 ? GX_COPY : GX_MAP;
        gx_map_kind kind = (gx_map_kind)gx_max(k - MOVES, 0);
        gx_number result;
        if (kernel == GX_MAP && (!gx_map_row(kind)->has_bits || gx_map_row(kind)->operands > 2 ||
                                 gx_map_dtype(kind, dtype, &result, NULL) != GX_OK)) {
            continue; // near the reference, or refused: test_kernels.c, test_fused.c
        }
        block a = random_block(dtype, m, n), b = random_block(dtype, m, n);
        block c = random_block(dtype, m, n);
        gx_args args = {.m = m, .n = n, .map = kind, .alpha = {0.75, 0}, .beta = {-1.25, 0}};
        same_bits(kernel, &runners[1], dtype, args, &a, &b, &c);
        args.alpha.im = 0.3;
        args.beta.im = -2;
        same_bits(kernel, &runners[1], dtype, args, &a, &b, &c);
        block_free(&a);
        block_free(&b);
        block_free(&c);
    }
}

static void moves_of(gx_number dtype, int64_t m, int64_t n)
{
    block a = random_block(dtype, n, m), c = random_block(dtype, m, n),
          s = random_block(dtype, n, n);
    for (int bits = 0; bits < 4; bits++) {
        gx_uplo uplo = (gx_uplo)(bits & 1);
        gx_trans trans = bits & 2 ? GX_CONJ_TRANS : GX_TRANS;
        gx_diag diag = bits & 2 ? GX_UNIT : GX_NON_UNIT;
        same_bits(GX_TRANSPOSE, &runners[0], dtype, (gx_args){.transa = trans, .m = m, .n = n}, &a,
                  NULL, &c);
        same_bits(GX_SYMMETRIZE, &runners[0], dtype,
                  (gx_args){.transa = trans, .uplo = uplo, .m = n, .n = n}, NULL, NULL, &s);
        block from = random_block(dtype, m, n);
        same_bits(GX_TRIANGLE, &runners[0], dtype,
                  (gx_args){.uplo = uplo, .diag = diag, .m = m, .n = n}, &from, NULL, &c);
        // alpha = 0: c = beta c, on the block and on a triangle
        gx_args scaled = {.uplo = uplo, .m = n, .n = n, .k = n, .beta = {bits, 0}};
        same_bits(GX_GEMM, &runners[0], dtype, scaled, &s, &s, &s);
        same_bits(GX_HERK, &runners[0], dtype, scaled, &s, NULL, &s);
        block_free(&from);
    }
    block_free(&a);
    block_free(&c);
    block_free(&s);
}

static void rows_of(gx_number dtype, int64_t m, int64_t n)
{
    int64_t *pivots = malloc((size_t)m * sizeof *pivots);
    for (int64_t i = 0; i < m; i++) {
        pivots[i] = i + (int64_t)(random_bits(&seed) % (uint64_t)(m - i));
    }
    block c = random_block(dtype, m, n);
    for (int is_backward = 0; is_backward < 2; is_backward++) {
        gx_args args = {
            .m = m, .n = n, .pivots = pivots, .pivot_last = m, .is_backward = is_backward};
        same_bits(GX_LASWP, &runners[0], dtype, args, NULL, NULL, &c);
    }
    block_free(&c);
    free(pivots);
}

static void kernels(void **state)
{
    (void)state;
    for (int d = 0; d < GX_FLOATS; d++) {
        maps_of((gx_number)d, 37, 5);
        maps_of((gx_number)d, 300, 9);
        moves_of((gx_number)d, 37, 70);
        moves_of((gx_number)d, 129, 33);
        rows_of((gx_number)d, 9, 3);
        rows_of((gx_number)d, 500, 7);
    }
}

/* Rectangles of random matrices of every kind and dtype, and conversions between all dtypes. */
static void made(void **state)
{
    (void)state;
    for (int q = 0; q < 2 * GX_FLOATS * GX_FLOATS; q++) {
        gx_number from = (gx_number)(q % GX_FLOATS);
        gx_number to = (gx_number)(q / GX_FLOATS % GX_FLOATS);
        gx_random random;
        gx_err err = {.code = GX_OK};
        must(gx_random_init(&random, (gx_random_kind)(q / 16), from, 77 + q, -1.5, 2.5, &err),
             &err);
        block a = random_block(from, 301, 7), c = random_block(to, 301, 7);
        gx_args args = {.m = 301, .n = 7, .from = gx_dtype_of(from), .random = &random};
        same_bits(GX_CONVERT, &runners[0], to, args, &a, NULL, &c);
        args.first_row = 1000001 + q % 2;
        args.first_col = 17;
        if (!gx_number_is_complex(from) || gx_number_is_complex(to)) {
            same_bits(GX_RANDOM, &runners[0], to, args, NULL, NULL, &c);
        }
        block_free(&a);
        block_free(&c);
    }
}

/* Every kind, twice with the same bits, near the reference. */
static void reductions(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{1, 1}, {37, 5}, {3, 700}, {2500, 4}, {129, 65}};
    for (int q = 0; q < 5 * GX_FLOATS * GX_REDUCE_KIND_COUNT; q++) {
        gx_number dtype = (gx_number)(q % GX_FLOATS);
        int64_t m = shapes[q / GX_FLOATS % 5][0], n = shapes[q / GX_FLOATS % 5][1];
        gx_reduce_kind kind = (gx_reduce_kind)(q / GX_FLOATS / 5);
        if (gx_number_is_complex(dtype) && (kind == GX_REDUCE_MIN || kind == GX_REDUCE_MAX)) {
            continue;
        }
        block a = random_block(dtype, m, n);
        size_t width = (size_t)gx_reduce_width(kind, m, n);
        double *out[3];
        for (int i = 0; i < 3; i++) {
            gx_args args = {.m = m, .n = n, .reduce_kind = kind};
            args.reduce = out[i] = calloc(width, sizeof(double));
            run(&runners[i == 2 ? 0 : CUDA], GX_REDUCE, dtype, args, &(operands){.a = &a});
        }
        assert_memory_equal(out[0], out[1], width * sizeof(double));
        for (size_t i = 0; i < width && kind != GX_REDUCE_SUMSQ; i++) {
            assert_true(fabs(out[0][i] - out[2][i]) <= 1e-12 * (double)(m * n));
        }
        double norm = out[0][0] * sqrt(out[0][width > 1]);
        double want = out[2][0] * sqrt(out[2][width > 1]);
        assert_true(kind != GX_REDUCE_SUMSQ || fabs(norm - want) <= 1e-13 * want);
        for (int i = 0; i < 3; i++) {
            free(out[i]);
        }
        block_free(&a);
    }
}

/* Columns that are not aligned to one another, unless m is a multiple of four. */
static block whole_numbers(gx_number dtype, int64_t m, int64_t n)
{
    block b = block_make(dtype, m, n, m % 4 == 0 ? m + 4 : m + 3);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            uint64_t bits = random_bits(&seed);
            gx_scalar x = {(double)(bits % 5) - 2, (double)((bits >> 32) % 3) - 1};
            block_set(&b, i, j, x);
        }
    }
    return b;
}

/* Twice with the same bits, and the CPU's numbers, of which only the sign of a zero may differ. */
static void same_product(gx_number dtype, gx_args args, block *a, block *b, const block *c0)
{
    block c = block_copy(c0), again = block_copy(c0), want = block_copy(c0);
    run(&runners[CUDA], GX_GEMM, dtype, args, &(operands){.a = a, .b = b, .c = &c});
    run(&runners[CUDA], GX_GEMM, dtype, args, &(operands){.a = a, .b = b, .c = &again});
    run(&runners[1], GX_GEMM, dtype, args, &(operands){.a = a, .b = b, .c = &want});
    assert_same(GX_GEMM, &c, &again, "the first time");
    assert_true(block_is_guarded(&c));
    for (int64_t j = 0; j < c.n; j++) {
        for (int64_t i = 0; i < c.m; i++) {
            gx_scalar x = block_get(&c, i, j), y = block_get(&want, i, j);
            if (!(x.re == y.re && x.im == y.im)) {
                fail_msg("gemm %s %d %dx%dx%d at (%d, %d): %g, %g, not %g, %g",
                         gx_number_name(dtype), (int)args.transa, (int)c.m, (int)c.n, (int)args.k,
                         (int)i, (int)j, x.re, x.im, y.re, y.im);
            }
        }
    }
    block_free(&c);
    block_free(&again);
    block_free(&want);
}

static void narrow_product(gx_number dtype, gx_trans trans, int64_t m, int64_t k, int64_t n)
{
    bool is_plain = trans == GX_NO_TRANS;
    gx_args args = {.transa = trans, .m = m, .n = n, .k = k, .alpha = {2, 1}, .beta = {-3, 2}};
    block a = whole_numbers(dtype, is_plain ? m : k, is_plain ? k : m);
    block b = whole_numbers(dtype, k, n), c = whole_numbers(dtype, m, n);
    same_product(dtype, args, &a, &b, &c);
    args.beta = (gx_scalar){0, 0}; // then c is not read
    for (int64_t j = 0; j < n; j++) {
        block_set(&c, m / 2, j, (gx_scalar){NAN, NAN});
    }
    same_product(dtype, args, &a, &b, &c);
    block_free(&a);
    block_free(&b);
    block_free(&c);
}

/* The same with few rows: large op(B) on the right. */
static void flat_product(gx_number dtype, gx_trans trans, int64_t m, int64_t k, int64_t n)
{
    bool is_plain = trans == GX_NO_TRANS;
    for (int t = 0; t < 2; t++) {
        gx_args args = {.transa = t == 0 ? GX_NO_TRANS : GX_TRANS,
                        .transb = trans,
                        .m = m,
                        .n = n,
                        .k = k,
                        .alpha = {2, 0},
                        .beta = {t, 0}};
        block a = whole_numbers(dtype, t == 0 ? m : k, t == 0 ? k : m);
        block b = whole_numbers(dtype, is_plain ? k : n, is_plain ? n : k);
        block c = whole_numbers(dtype, m, n);
        same_product(dtype, args, &a, &b, &c);
        block_free(&a);
        block_free(&b);
        block_free(&c);
    }
}

/* A stand-in's products are plain loops: it gets some of the widths, of smaller matrices. */
static void narrow_products(void **state)
{
    (void)state;
    static const int64_t widths[] = {8, 1, 16, 3, 2, 5, 10, 4, 9, 7, 6};
    enum { WIDTHS = sizeof widths / sizeof *widths };
    bool is_mock = is_stand_in();
    int64_t side = is_mock ? 1027 : 2051;
    if (getenv("GX_TEST_SMALL") != NULL) {
        return;
    }
    for (int d = 0, q = 0; d < GX_FLOATS; d++) {
        bool is_complex = gx_number_is_complex((gx_number)d);
        int some = is_mock ? (is_complex ? 1 : 2) : is_complex ? 3 : WIDTHS;
        for (int t = 0; t < (is_complex ? 3 : 2); t++) {
            for (int w = 0; w < some; w++, q++) {
                int64_t n = widths[q % WIDTHS];
                narrow_product((gx_number)d, (gx_trans)t, side, side + 2, n);
                narrow_product((gx_number)d, (gx_trans)t, 516, 2052, n);
                flat_product((gx_number)d, (gx_trans)t, n, 2052, 516);
                flat_product((gx_number)d, (gx_trans)t, n, 515, 2053);
                if (!is_mock && w < 3) {
                    narrow_product((gx_number)d, (gx_trans)t, 19, 30007, n);
                    narrow_product((gx_number)d, (gx_trans)t, 30007, 17, n);
                    narrow_product((gx_number)d, (gx_trans)t, 71, 30004, n);
                    narrow_product((gx_number)d, (gx_trans)t, 30004, 68, n);
                }
            }
        }
    }
}

/* Widths that tensor cores take where there are some, f32. */
static void split_products(void **state)
{
    (void)state;
    static const int64_t widths[] = {17, 64};
    bool is_mock = is_stand_in();
    if (getenv("GX_TEST_SMALL") != NULL) {
        return;
    }
    for (int t = 0; t < (is_mock ? 1 : 2); t++) {
        for (int w = 0; w < (is_mock ? 1 : 2); w++) {
            narrow_product(GX_F32, (gx_trans)t, 2066, 2054, widths[w]);
            if (!is_mock) {
                narrow_product(GX_F32, (gx_trans)t, 2068, 2056, widths[w]);
                flat_product(GX_F32, (gx_trans)t, widths[w], 2053, 2065);
                narrow_product(GX_F32, (gx_trans)t, 71, 60007, widths[w]);
                narrow_product(GX_F32, (gx_trans)t, 60007, 70, widths[w]);
            }
        }
    }
}

/* Between 0 and 1, whose products only add up: what is cut off would, too. */
static block positive_numbers(int64_t m, int64_t n)
{
    block b = block_make(GX_F32, m, n, m + 4);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            block_set(&b, i, j, (gx_scalar){(double)(random_bits(&seed) >> 40) / 0x1p24, 0});
        }
    }
    return b;
}

/* A's: of other scales than their row, beside large ones of x and beside none; not finite. */
static void put_special(block *a, block *b, bool is_turned)
{
    const double of_a[][3] = {{3, 5, INFINITY},    {7, 6, -INFINITY},    {11, 9, NAN},
                              {13, 2, FLT_MAX},    {15, 20, 0},          {900, 519, -FLT_MAX},
                              {901, 20, -0.125},   {902, 21, 0x1p-100},  {20, 99, 0x1p60},
                              {21, 40, 0},         {22, 1001, 0x1p-140}, {23, 1000, 0x1p-45},
                              {2067, 2055, 0x1p40}};
    const double of_b[][3] = {{20, 4, INFINITY}, {30, 5, NAN}, {40, 7, 0x1p50}, {1000, 8, 0x1p-80}};
    for (size_t q = 0; q < sizeof of_a / sizeof *of_a; q++) {
        int64_t i = (int64_t)of_a[q][0], j = (int64_t)of_a[q][1];
        block_set(a, is_turned ? j : i, is_turned ? i : j, (gx_scalar){of_a[q][2], 0});
    }
    for (int64_t k = 0; k < b->m; k++) { // a column that picks one number of A's rows
        block_set(b, k, 6, (gx_scalar){k == 100 ? 0.75 : 0, 0});
    }
    for (size_t q = 0; q < sizeof of_b / sizeof *of_b; q++) {
        block_set(b, (int64_t)of_b[q][0], (int64_t)of_b[q][1], (gx_scalar){of_b[q][2], 0});
    }
}

static void assert_near(double x, double want, double magnitudes)
{
    const double MOST = 16 * 0x1p-24;
    bool is_near = isnan(want)            ? isnan(x)
                   : fabs(want) > FLT_MAX ? x == want
                                          : fabs(x - want) <= MOST * magnitudes;
    if (!is_near) {
        fail_msg("%g, not %g (%g)", x, want, magnitudes);
    }
}

/* op(A) B on the device, beside the sums of doubles. */
static void multiply_near(block *a, block *b, gx_trans trans)
{
    bool is_plain = trans == GX_NO_TRANS;
    int64_t m = is_plain ? a->m : a->n, k = b->m, n = b->n;
    block c = block_make(GX_F32, m, n, m);
    gx_args args = {.transa = trans, .m = m, .n = n, .k = k, .alpha = {1, 0}};
    run(&runners[CUDA], GX_GEMM, GX_F32, args, &(operands){.a = a, .b = b, .c = &c});
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            const float *x = (const float *)a->data + i * (is_plain ? 1 : a->ld);
            const float *y = (const float *)b->data + j * b->ld;
            double sum = 0, magnitudes = 0;
            for (int64_t q = 0; q < k; q++) {
                double product = (double)x[q * (is_plain ? a->ld : 1)] * y[q];
                sum += product;
                magnitudes += fabs(product);
            }
            assert_near(block_get(&c, i, j).re, sum, magnitudes);
        }
    }
    block_free(&c);
}

/* Each number 2^`binades` times smaller at most; column j 2^`step` times as the one before it. */
static void spread(block *b, int binades, int step)
{
    for (int64_t j = 0; j < b->n; j++) {
        for (int64_t i = 0; i < b->m; i++) {
            int down = (int)(random_bits(&seed) % (uint64_t)binades);
            block_set(b, i, j, (gx_scalar){ldexp(block_get(b, i, j).re, (int)j * step - down), 0});
        }
    }
}

/*
** Errors of f32, of each sum's magnitudes: of the device's code alone, so a stand-in has none.
** Numbers of one size, some special; all of ten orders; few columns of sizes of their own.
*/
static void split_errors(void **state)
{
    (void)state;
    enum { M = 2068, K = 2056, N = 33, SETS = 3 };
    for (int q = 0; q < 2 * SETS && !is_stand_in() && getenv("GX_TEST_SMALL") == NULL; q++) {
        int set = q / 2, is_turned = q % 2;
        block a = positive_numbers(is_turned ? K : M, is_turned ? M : K);
        block b = positive_numbers(K, N);
        if (set == 0) {
            put_special(&a, &b, is_turned);
        } else {
            spread(&a, set == 1 ? 34 : 1, 0);
            spread(&b, set == 1 ? 34 : 1, set == 1 ? 0 : -2);
        }
        multiply_near(&a, &b, (gx_trans)is_turned);
        block_free(&a);
        block_free(&b);
    }
}

/* y = op(a) x on the device, x and y full columns; y comes down. */
static void multiply_there(void *a, int64_t m, int64_t k, gx_trans trans, int64_t n, float *y)
{
    const device *d = gpu();
    const gx_backend *b = d->backend;
    gx_queue *queue;
    void *x, *out, *work;
    gx_err err = {.code = GX_OK};
    int64_t rows = trans == GX_NO_TRANS ? m : k, inner = trans == GX_NO_TRANS ? k : m;
    size_t bytes = (size_t)(rows * n) * sizeof *y;
    must(b->queue_create(d->dev, &queue, &err), &err);
    must(b->alloc(d->dev, (size_t)(inner * n) * sizeof *y, &x, &err), &err);
    must(b->alloc(d->dev, bytes, &out, &err), &err);
    gx_args fill = {.m = inner, .n = n, .alpha = {1, 0}, .c = x, .ldc = inner};
    must(b->kernel[GX_FILL][GX_F32](d->dev, queue, &fill, &err), &err);
    gx_args args = {.transa = trans,
                    .m = rows,
                    .n = n,
                    .k = inner,
                    .alpha = {1, 0},
                    .a = a,
                    .lda = m,
                    .b = x,
                    .ldb = inner,
                    .c = out,
                    .ldc = rows};
    must(b->alloc(d->dev, b->workspace(d->dev, GX_GEMM, GX_F32, &args), &work, &err), &err);
    args.work = work;
    must(b->kernel[GX_GEMM][GX_F32](d->dev, queue, &args, &err), &err);
    must(b->download(d->dev, queue, y, bytes, out, bytes, bytes, 1, &err), &err);
    must(b->queue_wait(d->dev, queue, &err), &err);
    b->free(d->dev, x);
    b->free(d->dev, out);
    b->free(d->dev, work);
    b->queue_free(d->dev, queue);
}

/* More than 2^31 elements: ones, and threes in the last column. */
static void narrow_and_long(void **state)
{
    (void)state;
    enum { M = 65540, K = 33003, MOST = 8 };
    static const int64_t widths[] = {1, 3, MOST};
    const device *d = gpu();
    const gx_backend *b = d->backend;
    size_t bytes = (size_t)M * K * sizeof(float);
    gx_dev_info info;
    gx_queue *queue;
    gx_err err = {.code = GX_OK};
    void *a;
    must(b->info(d->dev, &info, &err), &err);
    if (is_stand_in() || getenv("GX_TEST_SMALL") != NULL || info.free_bytes < bytes / 2 * 3) {
        return;
    }
    float *y = malloc((size_t)M * MOST * sizeof *y);
    assert_non_null(y);
    must(b->queue_create(d->dev, &queue, &err), &err);
    must(b->alloc(d->dev, bytes, &a, &err), &err);
    gx_args fill = {.m = M, .n = K - 1, .alpha = {1, 0}, .c = a, .ldc = M};
    must(b->kernel[GX_FILL][GX_F32](d->dev, queue, &fill, &err), &err);
    fill = (gx_args){
        .m = M, .n = 1, .alpha = {3, 0}, .c = gx_at(a, GX_F32, M, 0, K - 1), .ldc = M};
    must(b->kernel[GX_FILL][GX_F32](d->dev, queue, &fill, &err), &err);
    must(b->queue_wait(d->dev, queue, &err), &err);
    for (int w = 0; w < 3; w++) {
        multiply_there(a, M, K, GX_NO_TRANS, widths[w], y);
        for (int64_t i = 0; i < M * widths[w]; i++) {
            assert_true(y[i] == (float)(K + 2));
        }
        multiply_there(a, M, K, GX_TRANS, widths[w], y);
        for (int64_t i = 0; i < K * widths[w]; i++) {
            assert_true(y[i] == (float)(i % K == K - 1 ? 3 * M : M));
        }
    }
    b->free(d->dev, a);
    b->queue_free(d->dev, queue);
    free(y);
}

/* The reference's transform, to a few roundings; twice with the same bits. */
static void same_transform(gx_number from, gx_number to, gx_side side, int64_t k, int64_t lines,
                           bool is_backward, bool is_in_place)
{
    bool is_half = !gx_number_is_complex(to), is_row = side == GX_RIGHT;
    int64_t have = is_half ? k / 2 + 1 : k;
    int64_t want = gx_number_is_complex(from) ? k : k / 2 + 1;
    block a = random_block(from, is_row ? lines : have, is_row ? have : lines);
    for (int64_t line = 0; line < lines && is_half; line++) { // what is real at both ends
        for (int64_t i = 0; i <= k / 2; i += gx_max(1, k / 2)) {
            int64_t row = is_row ? line : i, col = is_row ? i : line;
            double re = block_get(&a, row, col).re;
            block_set(&a, row, col, (gx_scalar){re, 2 * i % k == 0 ? 0 : 0.5});
        }
    }
    block c[3], from_a[3];
    gx_args args = {.side = side, .k = k, .from = gx_dtype_of(from), .is_backward = is_backward};
    args.m = is_row ? lines : want;
    args.n = is_row ? want : lines;
    block c0 = is_in_place ? block_copy(&a) : random_block(to, args.m, args.n);
    for (int q = 0; q < 3; q++) {
        from_a[q] = block_copy(&a);
        c[q] = block_copy(&c0);
        bool is_shared = is_in_place && q > 0;
        run(&runners[q == 0 ? 0 : CUDA], GX_FFT, to, args,
            &(operands){.a = is_shared ? &c[q] : &from_a[q], .c = &c[q]});
    }
    assert_same(GX_FFT, &c[1], &c[2], "the first time");
    double difference = 0, all = 0;
    for (int64_t e = 0; e < args.m * args.n; e++) {
        gx_scalar x = block_get(&c[0], e % args.m, e / args.m);
        gx_scalar y = block_get(&c[1], e % args.m, e / args.m);
        difference += (x.re - y.re) * (x.re - y.re) + (x.im - y.im) * (x.im - y.im);
        all += x.re * x.re + x.im * x.im;
    }
    double unit = gx_number_is_double(to) ? DBL_EPSILON : FLT_EPSILON;
    if (!(sqrt(difference) <= 4 * unit * log2((double)k + 2) * sqrt(all))) {
        fail_msg("fft %s to %s, %lld x %lld, side %d: off by %g", gx_number_name(from),
                 gx_number_name(to), (long long)k, (long long)lines, (int)side,
                 sqrt(difference / all));
    }
    for (int q = 0; q < 3; q++) {
        block_free(&c[q]);
        block_free(&from_a[q]);
    }
    block_free(&a);
    block_free(&c0);
}

static void transforms(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 2, 3, 8, 60, 97, 128, 1000, 1009, 4096, 5005, 65536};
    const device *d = gpu();
    if (d->backend->kernel[GX_FFT][GX_C128] == NULL) {
        printf("no cuFFT: transforms are not tested\n");
        return;
    }
    for (int q = 0; q < 12 * 2 * 2 * 2; q++) {
        int64_t k = lengths[q / 8], lines = k > 10000 ? 2 : k > 1000 ? 3 : 17;
        gx_side side = q & 1 ? GX_RIGHT : GX_LEFT;
        bool is_single = (q & 2) != 0, is_backward = (q & 4) != 0;
        gx_number complex = is_single ? GX_C64 : GX_C128, real = is_single ? GX_F32 : GX_F64;
        same_transform(complex, complex, side, k, lines, is_backward, false);
        same_transform(complex, complex, side, k, 1, is_backward, true);
        same_transform(is_backward ? complex : real, is_backward ? real : complex, side, k, lines,
                       is_backward, false);
    }
}

static void flat_memory(void **state)
{
    (void)state;
    const device *d = gpu();
    gx_dev_info before, after;
    gx_err err = {.code = GX_OK};
    if (getenv("GX_TEST_SMALL") != NULL) {
        return;
    }
    for (int round = 0; round < 1000; round++) {
        int64_t m = 1 + (int64_t)(random_bits(&seed) % 200);
        block a = random_block(GX_F64, m, m), b = random_block(GX_F64, m, m);
        block c = random_block(GX_F64, m, m);
        gx_args args = {.m = m, .n = m, .k = m, .alpha = {1, 0}};
        run(&runners[CUDA], GX_GEMM, GX_F64, args, &(operands){.a = &a, .b = &b, .c = &c});
        block_free(&a);
        block_free(&b);
        block_free(&c);
        if (round == 20) {
            must(d->backend->info(d->dev, &before, &err), &err);
        }
    }
    must(d->backend->info(d->dev, &after, &err), &err);
    assert_true(after.free_bytes + ((size_t)8 << 20) >= before.free_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory),
        cmocka_unit_test(copies),
        cmocka_unit_test(queues),
        cmocka_unit_test(kernels),
        cmocka_unit_test(made),
        cmocka_unit_test(reductions),
        cmocka_unit_test(narrow_products),
        cmocka_unit_test(split_products),
        cmocka_unit_test(split_errors),
        cmocka_unit_test(narrow_and_long),
        cmocka_unit_test(transforms),
        cmocka_unit_test(flat_memory),
    };
    seed = SEED;
    printf("seed %llu\n", (unsigned long long)SEED);
    open_runners();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
