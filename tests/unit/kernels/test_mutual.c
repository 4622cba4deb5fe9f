/*
** GX_MUTUAL of the CPU backend beside the reference.
**
** Plan, for f64 and f32, every metric:
**   1. by hand: which pairs of two rows and three queries are found, and their merits
**   2. no pair is missing whose merit is at least a floor of its query or of its row, and each has
**      the reference's bits: shapes around lanes and groups, rows far from 0 with a shift off,
**      equal rows, zero rows; and of random ones few others are found
**   3. queries without a floor: their count best are there, and not much else; lists longer than
**      the block; rows that want all
**   4. numbers whose products overflow or vanish, all or of one row: nothing is missing
**   5. complex dtypes are refused
*/
#include "block.h"

#include "base/best.h"

#include <float.h>
#include <math.h>

static const uint64_t SEED = 20261123;
static const gx_metric metrics[] = {GX_METRIC_DOT, GX_METRIC_COSINE, GX_METRIC_SQUARED,
                                    GX_METRIC_ABSOLUTE};

/* Rows or queries: columns of k numbers. */
typedef struct side {
    int64_t n;
    block x; /* of dtype, without the shift */
    double *query, *square, *length, *floor;
} side;

typedef struct scene {
    gx_number dtype;
    gx_metric metric;
    int64_t k, count, pairs;
    side rows, cols;
    gx_found *found;
    double *merit; /* m x n: the reference's */
} scene;

static double *doubles(int64_t n)
{
    return test_malloc((size_t)(n + 1) * sizeof(double));
}

/* Lengths, and what is multiplied, of the queries as they are. */
static void finish_side(scene *s, side *x, double shift)
{
    for (int64_t j = 0; j < x->n; j++) {
        double sum = 0, largest = 0;
        for (int64_t l = 0; l < s->k; l++) {
            double number = x->query[j * s->k + l] - shift;
            block_set(&x->x, l, j, (gx_scalar){number, 0});
            sum += number * number;
            largest = fmax(largest, fabs(number));
        }
        x->square[j] = gx_merit_square(x->query + j * s->k, s->k);
        x->length[j] = sum == 0 && largest > 0 ? DBL_MIN : sqrt(sum);
    }
}

static void make_side(scene *s, side *x, int64_t n, double centre, double scale, uint64_t *seed)
{
    x->n = n;
    x->x = block_make(s->dtype, s->k, n, s->k + 2);
    x->query = doubles(n * s->k);
    x->square = doubles(n);
    x->length = doubles(n);
    x->floor = doubles(n);
    for (int64_t j = 0; j < n; j++) { // every seventh is the one before; one is nothing
        for (int64_t l = 0; l < s->k; l++) {
            double number = centre + scale * random_unit(seed);
            number = s->dtype == GX_F64 ? number : (double)(float)number;
            number = j % 7 == 3 ? x->query[(j - 1) * s->k + l] : j == 5 ? 0 : number;
            x->query[j * s->k + l] = number;
        }
    }
    finish_side(s, x, s->metric == GX_METRIC_SQUARED ? centre : 0);
}

static void set_floors(side *x, double floor)
{
    for (int64_t j = 0; j < x->n; j++) {
        x->floor[j] = floor;
    }
}

static gx_nearest look(const scene *s, const side *x)
{
    return (gx_nearest){.metric = s->metric,
                        .query = x->query,
                        .square = x->square,
                        .length = x->length,
                        .floor = x->floor,
                        .count = s->count};
}

static void call(const gx_backend *backend, scene *s)
{
    gx_err err = {.code = GX_OK};
    gx_nearest rows = look(s, &s->rows), w = look(s, &s->cols);
    gx_args args = {.m = s->rows.n, .n = s->cols.n, .k = s->k, .nearest = &w};
    args.a = s->rows.x.data;
    args.lda = s->rows.x.ld;
    args.b = s->cols.x.data;
    args.ldb = s->cols.x.ld;
    w.rows = &rows;
    w.found = s->found;
    w.pairs = &s->pairs;
    args.work = test_malloc(backend->workspace(NULL, GX_MUTUAL, s->dtype, &args) + 64);
    assert_int_equal(backend->kernel[GX_MUTUAL][s->dtype](NULL, NULL, &args, &err), GX_OK);
    test_free(args.work);
    assert_in_range(s->pairs, 0, s->rows.n * s->cols.n);
}

static void make(scene *s, gx_number dtype, gx_metric metric, int64_t m, int64_t n, int64_t k,
                 int64_t count, double centre, double scale)
{
    uint64_t seed = SEED;
    *s = (scene){.dtype = dtype, .metric = metric, .k = k, .count = count};
    make_side(s, &s->rows, m, centre, scale, &seed);
    make_side(s, &s->cols, n, centre, scale, &seed);
    s->found = test_malloc((size_t)(m * n + 1) * sizeof *s->found);
    s->merit = doubles(m * n);
}

/* All merits, by the reference. */
static void learn(scene *s)
{
    set_floors(&s->rows, -(double)INFINITY);
    set_floors(&s->cols, -(double)INFINITY);
    for (int64_t e = 0; e < s->rows.n * s->cols.n; e++) {
        s->merit[e] = NAN;
    }
    call(&gx_oracle, s);
    for (int64_t e = 0; e < s->pairs; e++) {
        s->merit[s->found[e].column * s->rows.n + s->found[e].row] = s->found[e].merit;
    }
}

static void clear(scene *s)
{
    side *sides[] = {&s->rows, &s->cols};
    for (int k = 0; k < 2; k++) {
        assert_true(block_is_guarded(&sides[k]->x));
        block_free(&sides[k]->x);
        test_free(sides[k]->query);
        test_free(sides[k]->square);
        test_free(sides[k]->length);
        test_free(sides[k]->floor);
    }
    test_free(s->found);
    test_free(s->merit);
}

/* The best of a query (or a row) at place `at`, of all pairs. */
static double nth(const scene *s, bool of_row, int64_t line, int64_t at)
{
    int64_t m = s->rows.n, n = of_row ? s->cols.n : m, count = gx_min(at + 1, n);
    double best[64];
    int64_t index[64];
    gx_best_begin(best, index, count, false);
    for (int64_t e = 0; e < n; e++) {
        double x = s->merit[of_row ? e * m + line : line * m + e];
        if (gx_best_is_worse(best[0], index[0], x, e)) {
            gx_best_sift(best, index, count, x, e);
        }
    }
    return best[0];
}

/* Each pair that is found has its merit, and no other than these is missing. */
static void nothing_is_missing(scene *s)
{
    int64_t m = s->rows.n, n = s->cols.n;
    bool *is_found = test_calloc((size_t)(m * n + 1), sizeof *is_found);
    call(&gx_backend_cpu, s);
    for (int64_t e = 0; e < s->pairs; e++) {
        int64_t at = s->found[e].column * m + s->found[e].row;
        double want = s->merit[at];
        assert_false(is_found[at]);
        is_found[at] = true;
        if (!isnan(want)) {
            assert_memory_equal(&s->found[e].merit, &want, sizeof want);
        }
    }
    for (int64_t j = 0; j < n; j++) {
        double floor = s->cols.floor[j];
        bool is_first = floor == -(double)INFINITY && s->count < m;
        floor = is_first ? nth(s, false, j, s->count - 1) : floor;
        for (int64_t i = 0; i < m; i++) {
            double x = s->merit[j * m + i];
            if ((x >= floor || x >= s->rows.floor[i]) && !is_found[j * m + i]) {
                fail_msg("%s, metric %d, %lld x %lld x %lld: (%lld, %lld) is missing: %.17g",
                         gx_number_name(s->dtype), (int)s->metric, (long long)m, (long long)n,
                         (long long)s->k, (long long)i, (long long)j, x);
            }
        }
    }
    test_free(is_found);
}

/* Floors that let about `at` pairs of each line in. */
static void floors_at(scene *s, int64_t at)
{
    for (int64_t j = 0; j < s->cols.n; j++) {
        s->cols.floor[j] = nth(s, false, j, at);
    }
    for (int64_t i = 0; i < s->rows.n; i++) {
        s->rows.floor[i] = nth(s, true, i, at);
    }
}

static void by_hand(void **state)
{
    (void)state;
    const double rows[2][2] = {{1, 0}, {0, 2}}, cols[3][2] = {{3, 1}, {1, 1}, {-1, 4}};
    for (int d = 0; d < 2; d++) {
        for (int b = 0; b < 2; b++) {
            scene s;
            make(&s, (gx_number)d, GX_METRIC_DOT, 2, 3, 2, 1, 0, 1);
            memcpy(s.rows.query, rows, sizeof rows);
            memcpy(s.cols.query, cols, sizeof cols);
            finish_side(&s, &s.rows, 0);
            finish_side(&s, &s.cols, 0);
            set_floors(&s.cols, 5); // (1, 2) is 8
            s.rows.floor[0] = 3;    // (0, 0) is 3
            s.rows.floor[1] = (double)INFINITY;
            call(b == 0 ? &gx_oracle : &gx_backend_cpu, &s);
            assert_int_equal(s.pairs, 2);
            assert_true(s.found[0].row == 0 && s.found[0].column == 0 && s.found[0].merit == 3);
            assert_true(s.found[1].row == 1 && s.found[1].column == 2 && s.found[1].merit == 8);
            clear(&s);
        }
    }
}

static void by_floors(void **state)
{
    (void)state;
    const int64_t shapes[][3] = {{1, 1, 1},   {15, 3, 5},    {17, 16, 33},   {64, 5, 16},
                                 {65, 9, 17}, {130, 70, 64}, {257, 129, 100}};
    const double centres[] = {0, 1, 1e4};
    for (size_t e = 0; e < sizeof shapes / sizeof *shapes; e++) {
        for (int t = 0; t < 4 * 2 * 3; t++) {
            scene s;
            int64_t m = shapes[e][0], n = shapes[e][1];
            make(&s, (gx_number)(t / 4 % 2), metrics[t % 4], m, n, shapes[e][2], 1, centres[t / 8],
                 1);
            learn(&s);
            for (int64_t at = 0; at < 12; at += 3) {
                floors_at(&s, at);
                nothing_is_missing(&s);
                if (e == 6 && t < 8 && s.metric != GX_METRIC_ABSOLUTE) { // but for ties
                    assert_in_range(s.pairs, 1, (at + 1) * (m + n) * 2 + 2 * (m + n));
                }
            }
            clear(&s);
        }
    }
}

static void without_floors(void **state)
{
    (void)state;
    for (int t = 0; t < 4 * 2 * 3; t++) {
        const int64_t counts[] = {1, 10, 500};
        scene s;
        int64_t m = 200, n = 90;
        make(&s, (gx_number)(t / 4 % 2), metrics[t % 4], m, n, 48, counts[t / 8], 0, 1);
        learn(&s);
        set_floors(&s.rows, (double)INFINITY);
        nothing_is_missing(&s);
        if (s.count < m && s.metric != GX_METRIC_ABSOLUTE) { // but for ties, and what is nothing
            assert_in_range(s.pairs, n * s.count, 2 * n * (s.count + 1) + 2 * m);
        } else {
            assert_int_equal(s.pairs, m * n);
        }
        set_floors(&s.cols, (double)INFINITY);
        s.rows.floor[17] = -(double)INFINITY;
        nothing_is_missing(&s);
        clear(&s);
    }
}

static void extremes(void **state)
{
    (void)state;
    const double scales[2][4] = {{1e160, 1e-160, 1e-310, 1e300}, {1e25, 1e-25, 1e-42, 1e38}};
    for (int t = 0; t < 4 * 2 * 4 * 2; t++) {
        scene s;
        double scale = scales[t / 4 % 2][t / 8 % 4];
        make(&s, (gx_number)(t / 4 % 2), metrics[t % 4], 80, 30, 20, 4, 0, t < 32 ? scale : 1);
        for (int64_t l = 0; t >= 32 && l < s.k; l++) { // of each side one
            s.rows.query[9 * s.k + l] *= scale;
            s.cols.query[9 * s.k + l] *= scale;
        }
        finish_side(&s, &s.rows, 0);
        finish_side(&s, &s.cols, 0);
        learn(&s);
        set_floors(&s.rows, (double)INFINITY);
        nothing_is_missing(&s);
        floors_at(&s, 3);
        nothing_is_missing(&s);
        clear(&s);
    }
}

static void no_complex(void **state)
{
    (void)state;
    for (int d = 0; d < GX_FLOATS; d++) {
        bool is_there = !gx_number_is_complex((gx_number)d);
        assert_int_equal(gx_backend_cpu.kernel[GX_MUTUAL][d] != NULL, is_there);
        assert_int_equal(gx_oracle.kernel[GX_MUTUAL][d] != NULL, is_there);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),  cmocka_unit_test(by_floors),  cmocka_unit_test(without_floors),
        cmocka_unit_test(extremes), cmocka_unit_test(no_complex),
    };
    gx_err err = {.code = GX_OK};
    gx_dev *dev;
    if (gx_backend_cpu.open(0, &dev, &err) != GX_OK) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
