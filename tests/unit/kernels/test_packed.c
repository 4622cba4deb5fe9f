/*
** Packed rows beside queries (kernels/cpu_packed.c), where the processor has what they need.
**
** Plan:
**   1. pack: numbers of every row, less a shift, where they belong, zeros behind the last row,
**      squares; of 1 row to more than one group, gaps between columns
**   2. look: every way to see a product, n around a batch of queries: groups with a row that is
**      wanted have a mark and their values, others have neither; what is no number is wanted
**   3. rows of nothing, and rows too long, are not taken
*/
#include "block.h"

#include "../../../kernels/cpu_packed.h"

#include <math.h>

enum { GROUP = GX_PACKED_GROUP, K = 37, LD = 205, QUERIES = 13 };

static const float UNTOUCHED = -7;

typedef struct scene {
    float *a, *x, *b, *factor, *least, *value;
    double *square;
    uint16_t *mark;
} scene;

static void make(scene *s)
{
    uint64_t seed = 20261123;
    s->a = test_malloc(LD * K * sizeof(float));
    s->b = test_malloc(K * QUERIES * sizeof(float));
    s->x = aligned_alloc(64, GX_PACKED_MOST * K * sizeof(float));
    s->factor = test_malloc(GX_PACKED_MOST * sizeof(float));
    s->least = test_malloc(QUERIES * sizeof(float));
    s->value = test_malloc(GX_PACKED_MOST * QUERIES * sizeof(float));
    s->square = test_malloc(GX_PACKED_MOST * sizeof(double));
    s->mark = test_malloc(QUERIES * sizeof(uint16_t));
    for (int e = 0; e < LD * K; e++) {
        s->a[e] = (float)random_unit(&seed);
    }
    for (int e = 0; e < K * QUERIES; e++) {
        s->b[e] = (float)random_unit(&seed);
    }
    for (int i = 0; i < GX_PACKED_MOST; i++) {
        s->factor[i] = (float)(1 + fabs(random_unit(&seed)));
    }
}

static void clear(scene *s)
{
    free(s->x);
    test_free(s->a);
    test_free(s->b);
    test_free(s->factor);
    test_free(s->least);
    test_free(s->value);
    test_free(s->square);
    test_free(s->mark);
}

static void packs(void **state)
{
    static const int heights[] = {1, 63, 64, 65, 130, 200};
    scene s;
    (void)state;
    if (!gx_cpu_packed_takes(K)) {
        skip();
    }
    make(&s);
    for (int e = 0; e < 12; e++) {
        int rows = heights[e / 2], groups = (rows + GROUP - 1) / GROUP;
        const float *shift = e % 2 == 0 ? NULL : s.b;
        gx_cpu_pack(s.a, LD, rows, K, shift, s.x, s.square);
        for (int i = 0; i < groups * GROUP; i++) {
            double sum = 0;
            for (int l = 0; l < K; l++) {
                float want = i < rows ? s.a[l * LD + i] - (shift == NULL ? 0 : shift[l]) : 0;
                assert_true(s.x[i / GROUP * GROUP * K + l * GROUP + i % GROUP] == want);
                sum += (double)want * (double)want;
            }
            assert_true(i >= rows || fabs(s.square[i] - sum) <= 1e-13 * sum);
        }
    }
    clear(&s);
}

/* alpha x . y, and what is seen of it. */
static double seen(const scene *s, gx_sight how, double alpha, int i, int j, double *value)
{
    *value = 0;
    for (int l = 0; l < K; l++) {
        *value += alpha * (double)s->a[l * LD + i] * (double)s->b[j * K + l];
    }
    return gx_seen_f64(how, *value, (double)s->factor[i]);
}

static void looks_at(scene *s, gx_sight how, float alpha, int rows, int n)
{
    int groups = (rows + GROUP - 1) / GROUP;
    double v;
    gx_packed p = {.rows = rows, .k = K, .n = n, .x = s->x, .b = s->b, .ldb = K, .alpha = alpha};
    p.how = how;
    p.factor = s->factor;
    p.least = s->least;
    p.value = s->value;
    p.mark = s->mark;
    gx_cpu_pack(s->a, LD, rows, K, NULL, s->x, s->square);
    for (int j = 0; j < n; j++) { // the query wants its nearest row
        double best = -INFINITY;
        for (int i = 0; i < rows; i++) {
            best = fmax(best, seen(s, how, (double)alpha, i, j, &v));
        }
        s->least[j] = (float)(best - 1e-4);
    }
    for (int e = 0; e < groups * GROUP * n; e++) {
        s->value[e] = UNTOUCHED;
    }
    gx_cpu_packed_look(&p);
    int marked = 0;
    for (int j = 0; j < n; j++) {
        assert_int_equal(s->mark[j] >> groups, 0);
        for (int i = 0; i < rows; i++) {
            bool has_mark = (s->mark[j] >> i / GROUP & 1) != 0;
            float value = s->value[j * groups * GROUP + i];
            bool is_wanted = seen(s, how, (double)alpha, i, j, &v) > (double)s->least[j] + 1e-5;
            assert_true(has_mark || !is_wanted);
            assert_true(has_mark ? fabs((double)value - v) < 1e-5 : value == UNTOUCHED);
        }
        for (int g = 0; g < groups; g++) {
            bool any = (g + 1) * GROUP > rows; // rows of zeros may be wanted
            for (int i = g * GROUP; i < gx_min(rows, (g + 1) * GROUP); i++) {
                any |= seen(s, how, (double)alpha, i, j, &v) > (double)s->least[j] - 1e-5;
            }
            assert_true(any || (s->mark[j] >> g & 1) == 0);
            marked += (s->mark[j] >> g & 1) != 0;
        }
    }
    assert_true(marked >= n && (rows < 3 * GROUP || marked < n * groups));
}

static void looks(void **state)
{
    static const gx_sight sights[] = {GX_SEEN_AS_IT_IS, GX_SEEN_TIMES_FACTOR, GX_SEEN_LESS_FACTOR};
    static const int heights[] = {1, 64, 100, 192, 200};
    scene s;
    (void)state;
    if (!gx_cpu_packed_takes(K)) {
        skip();
    }
    make(&s);
    for (int e = 0; e < 15; e++) {
        for (int n = 1; n <= QUERIES; n++) {
            looks_at(&s, sights[e % 3], e % 3 == 2 ? 2 : 1, heights[e / 3], n);
        }
    }
    clear(&s);
}

static void not_finite(void **state)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    scene s;
    (void)state;
    if (!gx_cpu_packed_takes(K)) {
        skip();
    }
    make(&s);
    for (int e = 0; e < 3; e++) {
        gx_packed p = {.rows = 130, .k = K, .n = 2, .x = s.x, .b = s.b, .ldb = K, .alpha = 1};
        s.a[3 * LD + 70] = odd[e];
        s.least[0] = s.least[1] = 1e30F;
        p.factor = s.factor;
        p.least = s.least;
        p.value = s.value;
        p.mark = s.mark;
        gx_cpu_pack(s.a, LD, 130, K, NULL, s.x, s.square);
        gx_cpu_packed_look(&p);
        assert_true(s.mark[0] == 2 && s.mark[1] == 2);
        assert_false(isfinite(s.value[70]));
    }
    clear(&s);
}

static void long_rows(void **state)
{
    (void)state;
    assert_false(gx_cpu_packed_takes(0));
    assert_true(gx_cpu_packed_takes(4096) == gx_cpu_packed_takes(1));
    assert_false(gx_cpu_packed_takes(4097));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packs),
        cmocka_unit_test(looks),
        cmocka_unit_test(not_finite),
        cmocka_unit_test(long_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
