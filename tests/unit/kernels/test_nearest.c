/*
** GX_APART, GX_MERIT, GX_NEAREST of the CPU backend, or of a device (make test-gpu), beside the
** reference.
**
** Plan, for f64 and f32:
**   1. by hand: three rows, one query, every metric
**   2. merits and lists have the reference's bits: shapes around lanes and panels (1, 15, 17, 64,
**      1025 rows, 1 to 513 queries, rows of 1 to 4100 numbers), lists shorter and longer than the
**      block, with and without what is given, shifts, one's own row left out, rows far from 0,
**      equal rows
**   3. floors leave out nothing that is better
**   4. a NaN or an Inf is told by its row
**   5. numbers whose products overflow or vanish: still the reference's bits
**   6. sums of differences, and of products with squares beside them, within the rounding of the
**      reference, b transposed too
**   7. complex dtypes have no slots
**   8. merits of pairs have the reference's bits
**   9. lists that go on: a block in two halves is the block, in either order
**  10. many rows (9000): more than one panel, lane and sieve of a device holds; lists of 1 to 1000;
**      rows alike by the thousand are the right lists or, on a device, told to be too much alike
**  11. memory for some queries is enough for fewer, which have higher panels and more lanes
**  12. rows and queries whose numbers are of many orders
*/
#include "block.h"

#include <float.h>
#include <math.h>

static const uint64_t SEED = 20261122;
enum { MANY = 200 }; // queries that a device multiplies in another way than a few
static const gx_metric metrics[] = {GX_METRIC_DOT, GX_METRIC_COSINE, GX_METRIC_SQUARED,
                                    GX_METRIC_ABSOLUTE};

/* A call with all that it needs. */
typedef struct scene {
    gx_number dtype;
    int64_t m, n, k, count, info;
    int64_t most; /* queries that the workspace is asked for; 0: n */
    block a, b, given, shift;
    double *query, *square, *length, *merit, *floor;
    int64_t *index;
    gx_nearest w;
    gx_args args;
} scene;

static double get(const block *x, int64_t i, int64_t j)
{
    return block_get(x, i, j).re;
}

static void make(scene *s, gx_number dtype, gx_metric metric, int64_t m, int64_t n, int64_t k,
                 int64_t count, double centre, double scale)
{
    uint64_t seed = SEED;
    *s = (scene){.dtype = dtype, .m = m, .n = n, .k = k, .count = count};
    s->a = block_make(dtype, m, k, m + 3);
    s->b = block_make(dtype, k, n, k);
    s->query = test_malloc((size_t)(k * n + 1) * sizeof(double));
    s->square = test_malloc((size_t)n * sizeof(double));
    s->length = test_malloc((size_t)n * sizeof(double));
    s->merit = test_malloc((size_t)(n * count + 1) * sizeof(double));
    s->index = test_malloc((size_t)(n * count + 1) * sizeof(int64_t));
    for (int64_t l = 0; l < k; l++) {
        for (int64_t i = 0; i < m; i++) { // every seventh row is the one before
            double x = i % 7 == 3 ? get(&s->a, i - 1, l) : centre + scale * random_unit(&seed);
            block_set(&s->a, i, l, (gx_scalar){x, 0});
        }
        for (int64_t j = 0; j < n; j++) {
            block_set(&s->b, l, j, (gx_scalar){centre + scale * random_unit(&seed), 0});
        }
    }
    for (int64_t j = 0; j < n; j++) {
        for (int64_t l = 0; l < k; l++) {
            s->query[j * k + l] = get(&s->b, l, j);
        }
        s->square[j] = gx_merit_square(s->query + j * k, k);
        s->length[j] = sqrt(s->square[j]);
    }
    s->w = (gx_nearest){.metric = metric,
                        .query = s->query,
                        .square = s->square,
                        .length = s->length,
                        .count = count,
                        .merit = s->merit,
                        .index = s->index,
                        .first_index = 100,
                        .self = GX_NO_SELF};
    s->args = (gx_args){.m = m,
                        .n = n,
                        .k = k,
                        .a = s->a.data,
                        .lda = s->a.ld,
                        .b = s->b.data,
                        .ldb = s->b.ld,
                        .nearest = &s->w,
                        .info = &s->info};
}

static void clear(scene *s)
{
    assert_true(block_is_guarded(&s->a));
    block_free(&s->a);
    block_free(&s->b);
    if (s->given.data != NULL) {
        block_free(&s->given);
    }
    if (s->shift.data != NULL) {
        block_free(&s->shift);
    }
    test_free(s->query);
    test_free(s->square);
    test_free(s->length);
    test_free(s->merit);
    test_free(s->index);
}

/* Who is tested: the CPU backend; with GX_TEST_GPU the device. */
static const device *tested(void)
{
    static device d;
    gx_err err = {.code = GX_OK};
    if (d.backend == NULL) {
        d = device_on_demand();
    }
    if (d.backend == NULL) {
        d.backend = &gx_backend_cpu;
        assert_int_equal(d.backend->open(0, &d.dev, &err), GX_OK);
    }
    return &d;
}

static const device *reference(void)
{
    static device d = {.backend = &gx_oracle};
    gx_err err = {.code = GX_OK};
    if (d.dev == NULL) {
        assert_int_equal(d.backend->open(0, &d.dev, &err), GX_OK);
    }
    return &d;
}

static bool is_device(const device *d)
{
    return d->backend->alloc != NULL;
}

/* Where the device wants it: a copy of host memory, or that itself.  kept: to be given back. */
typedef struct placed {
    void *host, *there;
    size_t bytes;
} placed;

static void *place(const device *d, placed *list, int *count, const void *host, size_t bytes)
{
    gx_err err = {.code = GX_OK};
    void *there = (void *)(uintptr_t)host;
    if (host != NULL && is_device(d)) {
        assert_int_equal(d->backend->alloc(d->dev, bytes, &there, &err), GX_OK);
        assert_int_equal(
            d->backend->upload(d->dev, device_queue(d), there, bytes, host, bytes, bytes, 1, &err),
            GX_OK);
        list[(*count)++] = (placed){(void *)(uintptr_t)host, there, bytes};
    }
    return there;
}

static void call(const device *d, gx_kernel_id kernel, scene *s)
{
    gx_err err = {.code = GX_OK};
    placed list[16];
    int count = 0;
    gx_nearest w = s->w;
    gx_args args = s->args;
    size_t es = gx_number_bytes(s->dtype), n = (size_t)s->n, k = (size_t)s->k;
    size_t entries = (size_t)(kernel == GX_MERIT ? w.count : s->n * w.count);
    args.nearest = &w;
    size_t left = (size_t)(s->a.raw + s->a.bytes - (const unsigned char *)s->args.a);
    args.a = place(d, list, &count, s->args.a, left);
    size_t lines = s->args.transb == GX_NO_TRANS ? n : k;
    args.b = place(d, list, &count, s->args.b, lines * (size_t)s->args.ldb * es + 1);
    args.c = place(d, list, &count, s->args.c, (size_t)s->args.ldc * (n + 1) * es);
    w.query = place(d, list, &count, w.query, (k * n + 1) * sizeof(double));
    w.square = place(d, list, &count, w.square, n * sizeof(double));
    w.length = place(d, list, &count, w.length, n * sizeof(double));
    w.merit = place(d, list, &count, w.merit, entries * sizeof(double) + 1);
    w.index = place(d, list, &count, w.index, entries * sizeof(int64_t) + 1);
    w.shift = place(d, list, &count, w.shift, k * es);
    w.row = place(d, list, &count, w.row, entries * sizeof(int64_t));
    w.column = place(d, list, &count, w.column, entries * sizeof(int64_t));
    w.given = is_device(d) ? NULL : w.given;
    w.floor = is_device(d) ? NULL : w.floor;
    if (is_device(d) && w.metric == GX_METRIC_SQUARED && s->w.given != NULL) {
        w.given = NULL; // by differences, without the shift
    }
    gx_args largest = args;
    largest.n = s->most > 0 ? s->most : args.n;
    size_t bytes = d->backend->workspace(d->dev, kernel, s->dtype, &largest);
    gx_queue *queue = device_queue(d);
    void *work = NULL;
    if (is_device(d)) {
        assert_int_equal(d->backend->alloc(d->dev, bytes, &work, &err), GX_OK);
    } else {
        work = test_malloc(bytes + 64);
    }
    args.work = work;
    if (d->backend->kernel[kernel][s->dtype](d->dev, queue, &args, &err) != GX_OK) {
        fail_msg("%s", err.text);
    }
    for (int e = 0; e < count; e++) {
        bool is_result =
            list[e].host == s->merit || list[e].host == s->index || list[e].host == s->args.c;
        if (is_result) {
            assert_int_equal(d->backend->download(d->dev, queue, list[e].host, list[e].bytes,
                                                  list[e].there, list[e].bytes, list[e].bytes, 1,
                                                  &err),
                             GX_OK);
        }
    }
    if (is_device(d)) {
        assert_int_equal(d->backend->queue_wait(d->dev, queue, &err), GX_OK);
        d->backend->free(d->dev, work);
    } else {
        test_free(work);
    }
    for (int e = 0; e < count; e++) {
        d->backend->free(d->dev, list[e].there);
    }
}

/* What a driver gives with few queries. */
static void give(scene *s)
{
    bool is_apart = s->w.metric >= GX_METRIC_SQUARED;
    s->given = block_make(s->dtype, s->m, s->n + 1, s->m);
    for (int64_t j = 0; j <= s->n; j++) {
        for (int64_t i = 0; i < s->m; i++) {
            double sum = 0;
            for (int64_t l = 0; l < s->k; l++) {
                double x = get(&s->a, i, l), y = j < s->n ? get(&s->b, l, j) : x;
                sum += !is_apart                          ? x * y
                       : s->w.metric == GX_METRIC_SQUARED ? (x - y) * (x - y)
                                                          : fabs(x - y);
            }
            block_set(&s->given, i, j, (gx_scalar){sum, 0});
        }
    }
    s->w.given = s->given.data;
}

/* The same shift off the queries. */
static void move(scene *s, double by)
{
    s->shift = block_make(s->dtype, s->k, 1, s->k);
    for (int64_t l = 0; l < s->k; l++) {
        block_set(&s->shift, l, 0, (gx_scalar){by, 0});
    }
    for (int64_t j = 0; j < s->n; j++) {
        double sum = 0;
        for (int64_t l = 0; l < s->k; l++) {
            double x = s->query[j * s->k + l] - get(&s->shift, l, 0);
            block_set(&s->b, l, j, (gx_scalar){x, 0});
            sum += x * x;
        }
        s->length[j] = sqrt(sum);
    }
    s->w.shift = s->shift.data;
}

/*
** The reference's lists, then the other's: the same bits.  may_fail: a device may say that it
** cannot tell.
*/
static void same_or_told(scene *s, bool may_fail)
{
    size_t numbers = (size_t)(s->n * s->count);
    double *merit = test_malloc((numbers + 1) * sizeof(double));
    int64_t *index = test_malloc((numbers + 1) * sizeof(int64_t));
    call(reference(), GX_NEAREST, s);
    memcpy(merit, s->merit, numbers * sizeof(double));
    memcpy(index, s->index, numbers * sizeof(int64_t));
    call(tested(), GX_NEAREST, s);
    bool is_told = may_fail && is_device(tested()) && s->info == -1;
    assert_true(is_told || s->info == 0);
    for (size_t e = 0; e < numbers && !is_told; e++) {
        if (merit[e] != s->merit[e] || index[e] != s->index[e]) {
            fail_msg("%s, metric %d, %lld x %lld, %lld queries, entry %zu: %.17g of %lld, not "
                     "%.17g of %lld",
                     gx_number_name(s->dtype), (int)s->w.metric, (long long)s->m, (long long)s->k,
                     (long long)s->n, e, s->merit[e], (long long)s->index[e], merit[e],
                     (long long)index[e]);
        }
    }
    test_free(merit);
    test_free(index);
}

static void same_lists(scene *s)
{
    same_or_told(s, false);
}

static void by_hand(void **state)
{
    (void)state;
    const double want[4][3] = {{10, 5, 0}, {1, 1, 0}, {-0.0, -5, -25}, {-0.0, -3, -7}};
    const int64_t order[3] = {101, 100, 102}, alike[3] = {100, 101, 102};
    for (int d = 0; d < 2; d++) {
        for (int t = 0; t < 4; t++) {
            scene s;
            make(&s, (gx_number)d, metrics[t], 3, 1, 2, 3, 0, 1);
            const double rows[3][2] = {{1, 2}, {2, 4}, {-2, 1}}, y[2] = {2, 4};
            for (int l = 0; l < 2; l++) {
                for (int i = 0; i < 3; i++) {
                    block_set(&s.a, i, l, (gx_scalar){rows[i][l], 0});
                }
                s.query[l] = y[l];
                block_set(&s.b, l, 0, (gx_scalar){y[l], 0});
            }
            s.square[0] = 20;
            s.length[0] = sqrt(20);
            for (int b = 0; b < 2; b++) {
                call(b == 0 ? reference() : tested(), GX_NEAREST, &s);
                for (int e = 0; e < 3; e++) {
                    assert_int_equal(s.index[e], t == 1 ? alike[e] : order[e]);
                    double x = t == 0 && e == 0 ? 20 : t == 0 && e == 1 ? 10 : want[t][e];
                    assert_true(s.merit[e] == x);
                }
            }
            clear(&s);
        }
    }
}

static void same_bits(void **state)
{
    (void)state;
    const int64_t shapes[][4] = {{1, 1, 1, 1},       {15, 3, 5, 4},      {17, 16, 33, 20},
                                 {64, 5, 16, 1},     {65, 9, 17, 7},     {1025, 2, 20, 5},
                                 {90, 513, 7, 3},    {300, 40, 100, 10}, {1100, 201, 100, 10},
                                 {400, 20, 1000, 9}, {70, 7, 4100, 5}};
    const double centres[] = {0, 1, 1e4};
    for (size_t e = 0; e < sizeof shapes / sizeof *shapes; e++) {
        for (int t = 0; t < 4 * 2 * 3; t++) {
            gx_metric metric = metrics[t % 4];
            scene s;
            make(&s, (gx_number)(t / 4 % 2), metric, shapes[e][0], shapes[e][1], shapes[e][2],
                 shapes[e][3], centres[t / 8], 1);
            same_lists(&s);
            s.w.self = 102;
            same_lists(&s);
            if (metric == GX_METRIC_SQUARED) {
                move(&s, centres[t / 8]);
            } else {
                give(&s);
            }
            same_lists(&s);
            clear(&s);
        }
    }
}

static void given_squares(void **state)
{
    (void)state;
    for (int t = 0; t < 4; t++) {
        scene s;
        make(&s, (gx_number)(t % 2), GX_METRIC_SQUARED, 200, 3, 40, 5, t < 2 ? 0 : 1e4, 1);
        give(&s);
        same_lists(&s);
        clear(&s);
    }
}

static void floors(void **state)
{
    (void)state;
    for (int t = 0; t < 8; t++) {
        scene s;
        make(&s, (gx_number)(t / 4), metrics[t % 4], 200, 6, 30, 8, 0, 1);
        call(reference(), GX_NEAREST, &s);
        double floor[6], best[6][8];
        for (int j = 0; j < 6; j++) {
            floor[j] = s.merit[j * 8 + 3];
            memcpy(best[j], s.merit + j * 8, sizeof best[j]);
        }
        s.w.floor = floor;
        call(tested(), GX_NEAREST, &s);
        for (int j = 0; j < 6; j++) {
            assert_memory_equal(s.merit + j * 8, best[j], 4 * sizeof(double));
        }
        clear(&s);
    }
}

static void not_finite(void **state)
{
    (void)state;
    const double odd[] = {NAN, INFINITY, -INFINITY};
    for (int t = 0; t < 4 * 2 * 3; t++) {
        for (int g = 0; g < 3; g++) {
            scene s;
            int64_t n = g == 2 ? MANY : 3, k = g == 2 ? 64 : 20;
            make(&s, (gx_number)(t / 4 % 2), metrics[t % 4], 1100, n, k, 2, 0, 1);
            block_set(&s.a, 1050, 19, (gx_scalar){odd[t / 8], 0});
            if (g == 1) {
                give(&s);
            }
            call(tested(), GX_NEAREST, &s);
            assert_int_equal(s.info, 1051);
            call(reference(), GX_NEAREST, &s);
            assert_int_equal(s.info, 1051);
            clear(&s);
        }
    }
}

static void extremes(void **state)
{
    (void)state;
    const double scales[2][4] = {{1e160, 1e-160, 1e-310, 1e300}, {1e25, 1e-25, 1e-42, 1e38}};
    for (int t = 0; t < 4 * 2 * 4 * 2; t++) {
        scene s;
        int64_t n = t / 32 == 0 ? 3 : MANY, k = t / 32 == 0 ? 20 : 64;
        make(&s, (gx_number)(t / 4 % 2), metrics[t % 4], 50, n, k, 5, 0,
             scales[t / 4 % 2][t / 8 % 4]);
        if (s.w.metric != GX_METRIC_ABSOLUTE || t / 8 % 4 != 3) {
            same_or_told(&s, true);
        }
        clear(&s);
    }
}

/* Numbers of sixteen orders in a row, and in a query; one far beyond all others. */
static void uneven(void **state)
{
    (void)state;
    for (int t = 0; t < 4 * 2; t++) {
        scene s;
        uint64_t seed = SEED + (uint64_t)t;
        make(&s, GX_F32, metrics[t % 4], 1100, MANY, 100, 10, 0, 1);
        for (int64_t l = 0; l < s.k; l++) {
            for (int64_t i = 0; i < s.m; i++) {
                double by = t < 4 ? exp2(27 * random_unit(&seed)) : l == 3 ? 0x1p40 : 1;
                block_set(&s.a, i, l, (gx_scalar){get(&s.a, i, l) * by, 0});
            }
            for (int64_t j = 0; j < s.n; j++) {
                double by = t < 4 ? exp2(27 * random_unit(&seed)) : l == 4 ? 0x1p40 : 1;
                block_set(&s.b, l, j, (gx_scalar){get(&s.b, l, j) * by, 0});
                s.query[j * s.k + l] = get(&s.b, l, j);
            }
        }
        for (int64_t j = 0; j < s.n; j++) {
            s.square[j] = gx_merit_square(s.query + j * s.k, s.k);
            s.length[j] = sqrt(s.square[j]);
        }
        if (s.w.metric == GX_METRIC_SQUARED) {
            move(&s, 0.5);
        }
        same_lists(&s);
        clear(&s);
    }
}

static void apart(void **state)
{
    (void)state;
    const int64_t shapes[][3] = {{1, 1, 1}, {16, 4, 4}, {33, 5, 7}, {1030, 9, 3}, {8, 17, 64}};
    for (size_t e = 0; e < sizeof shapes / sizeof *shapes; e++) {
        for (int t = 0; t < 16; t++) {
            scene s;
            gx_number dtype = (gx_number)(t % 2);
            int64_t m = shapes[e][0], n = shapes[e][1], k = shapes[e][2];
            if (is_device(tested()) && t / 4 % 4 < 2) {
                continue; // a product there
            }
            make(&s, dtype, metrics[t / 4 % 4], m, n, k, 1, 0, 1);
            block turned = block_make(dtype, n, k, n + 1);
            for (int64_t j = 0; j < n; j++) {
                for (int64_t l = 0; l < k; l++) {
                    block_set(&turned, j, l, block_get(&s.b, l, j));
                }
            }
            if (t / 2 % 2 == 1) {
                s.args.transb = GX_TRANS;
                s.args.b = turned.data;
                s.args.ldb = turned.ld;
            }
            block c[2];
            for (int b = 0; b < 2; b++) {
                c[b] = block_make(dtype, m, n + 1, m + 2);
                for (int64_t x = 0; x < m * (n + 1); x++) {
                    block_set(&c[b], x % m, x / m, (gx_scalar){1, 0});
                }
                s.args.c = c[b].data;
                s.args.ldc = c[b].ld;
                call(b == 0 ? reference() : tested(), GX_APART, &s);
                assert_true(block_is_guarded(&c[b]));
            }
            double eps = dtype == GX_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
            double worst = (double)(k + 2) * eps * (double)(4 * k + 1);
            for (int64_t x = 0; x < m * (n + 1); x++) {
                double want = get(&c[0], x % m, x / m);
                double error = fabs(get(&c[1], x % m, x / m) - want);
                assert_true(error <= (t / 4 % 4 >= 2 ? (double)(k + 2) * eps * want : worst));
            }
            block_free(&c[0]);
            block_free(&c[1]);
            block_free(&turned);
            clear(&s);
        }
    }
}

static void merits(void **state)
{
    (void)state;
    enum { PAIRS = 77 };
    int64_t row[PAIRS], column[PAIRS];
    double want[PAIRS];
    for (int t = 0; t < 8; t++) {
        scene s;
        make(&s, (gx_number)(t / 4), metrics[t % 4], 50, 6, 33, PAIRS, 0.5, 1);
        for (int e = 0; e < PAIRS; e++) {
            row[e] = e * 7 % 50;
            column[e] = e % 6;
        }
        s.w.row = row;
        s.w.column = column;
        call(reference(), GX_MERIT, &s);
        memcpy(want, s.merit, sizeof want);
        memset(s.merit, 0, sizeof want);
        call(tested(), GX_MERIT, &s);
        assert_memory_equal(s.merit, want, sizeof want);
        clear(&s);
    }
}

/* Rows [from, from + m) of a scene, into its lists as they are. */
static void call_part(scene *s, int64_t from, int64_t m, bool goes_on)
{
    scene part = *s;
    part.args.m = m;
    part.args.a = gx_at(s->a.data, s->dtype, s->a.ld, from, 0);
    part.a.ld = s->a.ld;
    part.w.first_index = s->w.first_index + from;
    part.w.goes_on = goes_on;
    part.args.nearest = &part.w;
    part.args.info = &s->info;
    call(tested(), GX_NEAREST, &part);
    assert_int_equal(s->info, 0);
}

static void halves(void **state)
{
    (void)state;
    for (int t = 0; t < 4 * 2 * 2; t++) {
        scene s;
        make(&s, (gx_number)(t / 4 % 2), metrics[t % 4], 300, 7, 20, 40, 0, 1);
        call(reference(), GX_NEAREST, &s);
        double *merit = test_malloc(7 * 40 * sizeof(double));
        int64_t *index = test_malloc(7 * 40 * sizeof(int64_t));
        memcpy(merit, s.merit, 7 * 40 * sizeof(double));
        memcpy(index, s.index, 7 * 40 * sizeof(int64_t));
        int64_t first = t / 8 == 0 ? 0 : 20, m = t / 8 == 0 ? 20 : 280;
        call_part(&s, first, m, false);
        call_part(&s, first == 0 ? m : 0, 300 - m, true);
        assert_memory_equal(s.merit, merit, 7 * 40 * sizeof(double));
        assert_memory_equal(s.index, index, 7 * 40 * sizeof(int64_t));
        test_free(merit);
        test_free(index);
        clear(&s);
    }
}

static void many_rows(void **state)
{
    (void)state;
    const int64_t lists[][2] = {{1, 10}, {3, 1000}, {6, 100}, {40, 1}};
    for (int e = 0; e < 4; e++) {
        for (int t = 0; t < 4 * 2; t++) {
            scene s;
            gx_number dtype = (gx_number)(t / 4 % 2);
            if (e > 0 && (t + e) % 4 != 0) { // a share of them
                continue;
            }
            make(&s, dtype, metrics[t % 4], 9000, lists[e][0], 19, lists[e][1], 0, 1);
            same_lists(&s);
            s.w.self = 100 + 4500;
            same_lists(&s);
            for (int64_t l = 0; l < s.k; l++) { // rows alike
                for (int64_t i = 0; i < 6000; i++) {
                    block_set(&s.a, i, l, (gx_scalar){s.query[l], 0});
                }
            }
            same_or_told(&s, true);
            clear(&s);
        }
    }
}

static void fewer_queries(void **state)
{
    (void)state;
    const int64_t many = 1025, counts[] = {1024, 513, 3}; // lanes: one; one, two, and as there are
    const device *d = tested();
    for (int e = 0; e < 3; e++) {
        scene s;
        make(&s, GX_F32, GX_METRIC_SQUARED, 2100, counts[e], 6, 3, 0, 1);
        s.most = many;
        move(&s, 0.5);
        same_lists(&s);
        gx_args args = s.args;
        for (int64_t k = 6; k < 1000; k *= 5) {
            size_t bytes[2];
            args.k = k;
            for (int c = 0; c < 2; c++) {
                args.m = 100000;
                args.n = c == 0 ? counts[e] : many;
                bytes[c] = d->backend->workspace(d->dev, GX_NEAREST, GX_F32, &args);
            }
            assert_true(bytes[0] <= bytes[1]);
        }
        clear(&s);
    }
}

static void no_complex(void **state)
{
    (void)state;
    const gx_kernel_id kernels[] = {GX_APART, GX_MERIT, GX_NEAREST};
    for (int t = 0; t < 3 * GX_FLOATS; t++) {
        gx_kernel_id kernel = kernels[t / GX_FLOATS];
        gx_number dtype = (gx_number)(t % GX_FLOATS);
        bool is_there = !gx_number_is_complex(dtype);
        assert_int_equal(gx_backend_cpu.kernel[kernel][dtype] != NULL, is_there);
        assert_int_equal(gx_oracle.kernel[kernel][dtype] != NULL, is_there);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand), cmocka_unit_test(same_bits),  cmocka_unit_test(given_squares),
        cmocka_unit_test(floors),  cmocka_unit_test(not_finite), cmocka_unit_test(extremes),
        cmocka_unit_test(apart),   cmocka_unit_test(no_complex), cmocka_unit_test(merits),
        cmocka_unit_test(halves),  cmocka_unit_test(many_rows),  cmocka_unit_test(fewer_queries),
        cmocka_unit_test(uneven),
    };
    (void)tested(); // a filter of tests, where one is asked for
    return cmocka_run_group_tests(tests, NULL, NULL);
}
