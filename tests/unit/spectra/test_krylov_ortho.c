/*
** Orthonormal blocks of Krylov methods (krylov_ortho.c, krylov_basis.c).
**
** Plan, in all four dtypes, for vectors of one panel of rows and of many, one column and many:
**   1. random blocks, nearly dependent ones (condition 10^2 to 10^17), graded columns, columns that
**      lie in the span of the basis but for 10^-3 to 10^-15, all of it together: Q^H Q = I,
**      V^H Q = 0 and Y = V h + Q s, each to a few roundings
**   2. which of them go as blocks and which column by column, by the counter
**   3. dependent columns, in the block and in the basis, zeros, too many and too few: replaced by
**      random ones, whose rows of s are zero
**   4. what is said of V's first columns, rightly (half of the work) and wrongly: the same result
**   5. blocks of tiny and of huge numbers; NaN is refused
**   6. the same bits for one thread and for four
**   7. bases rotated in place, by one thread and by four, with and without memory for the team
*/
#include "connection.h"
#include "spectra/krylov.h"

#include <sqlite3.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { M_MOST = 40, COLS_MOST = 33 };

typedef struct fixture {
    sqlite3 *db;
    gx_ctx *ctx;
} fixture;

static void set(gx_ctx *ctx, gx_setting setting, const char *value)
{
    gx_err err = {0};
    if (gx_ctx_configure(ctx, setting, value, &err) != GX_OK) {
        fail_msg("%s", err.text);
    }
}

static int set_up(void **state)
{
    static fixture f;
    gx_err err = {0};
    assert_int_equal(sqlite3_open(":memory:", &f.db), SQLITE_OK);
    assert_int_equal(gx_ctx_create(f.db, &f.ctx, &err), GX_OK);
    set(f.ctx, GX_SET_BACKEND, "cpu");
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    gx_ctx_free(f->ctx);
    assert_int_equal(sqlite3_close(f->db), SQLITE_OK);
    return 0;
}

// Blocks ------------------------------------------------------------------------------------------

/* One case: [V Y] of n rows, and what came of it. */
typedef struct trial {
    gx_number dtype, wide;
    int64_t n, m, cols, want;
    void *V;     /* n x (m + most of cols and want); Y and Q lie behind V */
    void *Y;     /* as it was                                            */
    void *h, *s; /* wide                                                 */
    gx_run run;
    gx_ortho ortho;
} trial;

static void *column(const trial *t, int64_t j)
{
    return gx_at(t->V, t->dtype, t->n, 0, j);
}

static void begin(trial *t, fixture *f, gx_number dtype, int64_t n, int64_t m, int64_t cols,
                  int64_t want)
{
    int64_t most = gx_max(cols, want);
    *t = (trial){.dtype = dtype, .n = n, .m = m, .cols = cols, .want = want};
    t->wide = gx_number_wide(dtype);
    gx_run_begin(&t->run, f->ctx, "ortho");
    t->V = malloc((size_t)(n * (m + most)) * 16);
    t->Y = malloc((size_t)(n * most) * 16);
    t->h = malloc((size_t)(gx_max(m, 1) * most) * 16);
    t->s = malloc((size_t)(most * most) * 16);
    int64_t wide = gx_max(most, M_MOST);
    t->ortho = (gx_ortho){.run = &t->run, .dtype = dtype, .n = n, .seed = 7};
    t->ortho.work = malloc((size_t)gx_ortho_work(dtype, n, gx_max(m, 1), wide) * 16);
    assert_true(t->V && t->Y && t->h && t->s && t->ortho.work);
    if (m > 0) {
        assert_int_equal(gx_ortho_block(&t->ortho, t->V, 0, t->V, 0, m, NULL, 0, NULL, 0), GX_OK);
    }
    gx_ortho_draw(&t->ortho, column(t, m), cols);
}

static void end(trial *t)
{
    gx_run_end(&t->run);
    free(t->V);
    free(t->Y);
    free(t->h);
    free(t->s);
    free(t->ortho.work);
}

/* y_j = a y_j + b x */
static void combine(const trial *t, int64_t j, double a, double b, const void *x)
{
    int64_t numbers = t->n * (gx_number_is_complex(t->dtype) ? 2 : 1);
    void *y = column(t, t->m + j);
    for (int64_t i = 0; i < numbers; i++) {
        if (gx_number_is_double(t->dtype)) {
            double *to = (double *)y + i;
            *to = a * *to + (x == NULL ? 0 : b * ((const double *)x)[i]);
        } else {
            float *to = (float *)y + i;
            *to = (float)(a * (double)*to + (x == NULL ? 0 : b * (double)((const float *)x)[i]));
        }
    }
}

/* As it comes; h and s with leading dimensions that are not tight. */
static gx_code orthonormalise(trial *t)
{
    memcpy(t->Y, column(t, t->m), (size_t)(t->n * t->cols) * gx_number_bytes(t->dtype));
    return gx_ortho_block(&t->ortho, t->V, t->m, column(t, t->m), t->cols, t->want, t->h,
                          gx_max(t->m, 1), t->s, gx_max(t->cols, t->want));
}

static gx_scalar at(gx_number dtype, const void *x, int64_t ld, int64_t i, int64_t j)
{
    gx_scalar value;
    gx_convert(dtype, gx_at(x, dtype, ld, i, j), 1, GX_C128, &value, 1, 1, 1);
    return value;
}

/* A copy in doubles. */
static gx_scalar *widened(const trial *t, const void *x, int64_t cols)
{
    gx_scalar *wide = malloc((size_t)(t->n * gx_max(cols, 1)) * sizeof *wide);
    assert_non_null(wide);
    gx_convert(t->dtype, x, t->n, GX_C128, wide, t->n, t->n, cols);
    return wide;
}

/* The largest element of [V Q]^H Q - [0; I]. */
static double departure(const trial *t)
{
    double worst = 0;
    gx_scalar *V = widened(t, t->V, t->m + t->want);
    for (int64_t j = t->m; j < t->m + t->want; j++) {
        for (int64_t i = 0; i <= j; i++) {
            const gx_scalar *x = V + i * t->n, *y = V + j * t->n;
            long double re = i == j ? -1 : 0, im = 0; // sums that add no rounding of their own
            for (int64_t k = 0; k < t->n; k++) {
                re += (long double)x[k].re * y[k].re + (long double)x[k].im * y[k].im;
                im += (long double)x[k].re * y[k].im - (long double)x[k].im * y[k].re;
            }
            worst = fmax(worst, hypot((double)re, (double)im));
        }
    }
    free(V);
    return worst;
}

static double length(const gx_scalar *x, int64_t n)
{
    double norm = 0;
    for (int64_t k = 0; k < n; k++) {
        norm = hypot(norm, hypot(x[k].re, x[k].im));
    }
    return norm;
}

/* The largest || y - V h - Q s || / || y ||; || y || of the largest where some may be left out. */
static double residual(const trial *t, bool is_of_largest)
{
    double worst = 0, largest = 0;
    gx_scalar *V = widened(t, t->V, t->m + t->want), *Y = widened(t, t->Y, t->cols);
    for (int64_t j = 0; j < t->cols; j++) {
        gx_scalar *r = Y + j * t->n;
        double of = length(r, t->n);
        for (int64_t i = 0; i < t->m + t->want; i++) {
            gx_scalar c = i < t->m ? at(t->wide, t->h, gx_max(t->m, 1), i, j)
                                   : at(t->wide, t->s, gx_max(t->cols, t->want), i - t->m, j);
            const gx_scalar *x = V + i * t->n;
            for (int64_t k = 0; k < t->n; k++) {
                r[k].re -= x[k].re * c.re - x[k].im * c.im;
                r[k].im -= x[k].re * c.im + x[k].im * c.re;
            }
        }
        largest = fmax(largest, of);
        worst = fmax(worst, length(r, t->n) / (is_of_largest ? 1 : of));
    }
    free(V);
    free(Y);
    return is_of_largest ? worst / largest : worst;
}

// What must hold ----------------------------------------------------------------------------------

/*
** In roundings, which are 16 of its length where a column is left out.  Where the columns fill the
** space, the last one is what all others leave, with their roundings: LAPACK's threshold.
*/
static const double ORTHOGONAL = 15, FULL = 30, EXACT = 20;

static int64_t columns_so_far(const trial *t)
{
    return gx_stats_get(&t->run.ctx->stats, GX_STAT_ORTHO_COLUMNS);
}

/* went: 1: column by column, 0: as a block, -1: either. */
static void check(trial *t, int went, const char *what, double how)
{
    int64_t before = columns_so_far(t);
    double eps = gx_number_eps(t->dtype);
    if (orthonormalise(t) != GX_OK) {
        fail_msg("%s %g: %s", what, how, t->run.err.text);
    }
    int by_columns = columns_so_far(t) > before;
    double off = departure(t) / eps, left = residual(t, by_columns) / eps;
    if (getenv("SHOW") != NULL) {
        printf("%-10s %-8g %-4s n %-5lld m %-3lld cols %-3lld: %s, %6.2f %6.2f eps\n", what, how,
               gx_number_name(t->dtype), (long long)t->n, (long long)t->m, (long long)t->cols,
               by_columns ? "columns" : "block  ", off, left);
    }
    double most = t->m + t->cols >= t->n ? FULL : ORTHOGONAL;
    if (!(off <= most && left <= EXACT) || (went >= 0 && by_columns != went)) {
        fail_msg("%s %g %s, n %lld, m %lld, %lld columns, %s: Q^H Q off by %g eps, residual %g eps",
                 what, how, gx_number_name(t->dtype), (long long)t->n, (long long)t->m,
                 (long long)t->cols, by_columns ? "one by one" : "as a block", off, left);
    }
}

typedef enum kind { RANDOM, NEAR, GRADED, SPAN, ALL } kind;
static const char *const kinds[] = {"random", "near", "graded", "span", "all"};

static void make(trial *t, kind of, double how)
{
    for (int64_t j = 0; j < t->cols; j++) {
        double step = (double)j / (double)gx_max(1, t->cols - 1);
        if ((of == NEAR || of == ALL) && j > 0) {
            combine(t, j, how, 1, column(t, t->m));
        }
        if (of == SPAN || of == ALL) {
            for (int64_t i = 0; i < t->m; i++) {
                combine(t, j, i == 0 ? how : 1, sin((double)(i + 3 * j) + 1), column(t, i));
            }
        }
        if (of == GRADED || of == ALL) {
            combine(t, j, pow(how, step), 0, NULL);
        }
    }
}

static void blocks(void **state)
{
    fixture *f = *state;
    static const gx_number dtypes[] = {GX_F64, GX_F32, GX_C128, GX_C64};
    static const struct {
        int64_t n, m, cols;
    } shapes[] = {{90, 0, 1}, {300, 7, 4}, {1500, 20, 8}, {700, 12, COLS_MOST}, {5000, M_MOST, 5}};
    set(f->ctx, GX_SET_THREADS, "2");
    for (int d = 0; d < 4; d++) {
        bool is_double = gx_number_is_double(dtypes[d]);
        for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
            for (kind of = RANDOM; of <= ALL; of++) {
                for (int digits = 2; digits <= (of == RANDOM ? 2 : 17); digits += 3) {
                    trial t;
                    begin(&t, f, dtypes[d], shapes[k].n, shapes[k].m, shapes[k].cols,
                          shapes[k].cols);
                    make(&t, of, pow(10, -digits));
                    // Beyond that columns may be rounding.
                    int well = is_double ? (of == ALL ? 5 : 11) : (of == ALL ? 0 : 5);
                    check(&t, digits <= well ? 0 : -1, kinds[of], pow(10, -digits));
                    end(&t);
                }
            }
        }
    }
}

/* Rows of s of columns that were drawn. */
static int64_t zero_rows(const trial *t)
{
    int64_t count = 0;
    for (int64_t i = 0; i < t->want; i++) {
        bool is_zero = true;
        for (int64_t j = 0; j < t->cols; j++) {
            gx_scalar x = at(t->wide, t->s, gx_max(t->cols, t->want), i, j);
            is_zero = is_zero && x.re == 0 && x.im == 0;
        }
        count += is_zero ? 1 : 0;
    }
    return count;
}

static void dependent(void **state)
{
    fixture *f = *state;
    static const gx_number dtypes[] = {GX_F64, GX_F32, GX_C128, GX_C64};
    for (int d = 0; d < 4; d++) {
        trial t;
        begin(&t, f, dtypes[d], 1300, 9, 6, 6);
        combine(&t, 2, 0, 3, column(&t, 9));  // a multiple of the first
        combine(&t, 4, 0, 0, NULL);           // zeros
        combine(&t, 5, 0, -2, column(&t, 3)); // of the basis
        check(&t, 1, "dependent", 3);
        assert_int_equal(zero_rows(&t), 3);
        end(&t);
        begin(&t, f, dtypes[d], 1300, 9, 4, 7); // three are missing
        check(&t, 0, "missing", 3);
        assert_int_equal(zero_rows(&t), 3);
        end(&t);
        begin(&t, f, dtypes[d], 1300, 9, 4, 7); // and one of those there is dependent
        combine(&t, 1, 0, 1, column(&t, 9));
        check(&t, 1, "missing", 4);
        assert_int_equal(zero_rows(&t), 4);
        end(&t);
        begin(&t, f, dtypes[d], 20, 14, 8, 6); // the space is full
        check(&t, 1, "full", 6);
        end(&t);
        begin(&t, f, dtypes[d], 20, 20, 3, 0);
        check(&t, 1, "nothing left", 0);
        end(&t);
    }
}

/* Y has nothing of V's first columns, or much. */
static void first_columns(void **state)
{
    fixture *f = *state;
    static const gx_number dtypes[] = {GX_F64, GX_F32, GX_C128, GX_C64};
    enum { LAST = 3 };
    for (int d = 0; d < 4; d++) {
        int64_t flops[4];
        for (int k = 0; k < 4; k++) { // unsaid, said: of such a Y, and of another
            trial t;
            begin(&t, f, dtypes[d], 1500, M_MOST, 6, 6);
            void *y = column(&t, M_MOST);
            gx_ortho_block(&t.ortho, t.V, M_MOST, y, 6, 6, NULL, 0, NULL, 0);
            for (int64_t j = 0; j < 6; j++) {
                combine(&t, j, 0.5, 2, column(&t, M_MOST - LAST + j % LAST));
                combine(&t, j, 1, k >= 2 ? 3 : 0, column(&t, j));
            }
            t.ortho.first = k % 2 == 1 ? M_MOST - LAST : 0;
            flops[k] = gx_stats_get(&f->ctx->stats, GX_STAT_FLOPS);
            check(&t, 0, "first", k);
            flops[k] = gx_stats_get(&f->ctx->stats, GX_STAT_FLOPS) - flops[k];
            end(&t);
        }
        assert_true((double)flops[1] < 0.7 * (double)flops[0]);
        assert_true(flops[3] > flops[2]);
    }
}

static void sizes(void **state)
{
    fixture *f = *state;
    static const gx_number dtypes[] = {GX_F64, GX_F32, GX_C128, GX_C64};
    for (int d = 0; d < 4; d++) {
        bool is_double = gx_number_is_double(dtypes[d]);
        for (int sign = -1; sign <= 1; sign += 2) {
            trial t;
            double how = pow(10, sign * (is_double ? 160 : 22));
            begin(&t, f, dtypes[d], 800, 0, 5, 5);
            for (int64_t j = 0; j < 5; j++) {
                combine(&t, j, how, 0, NULL);
            }
            check(&t, 1, "size", how);
            end(&t);
        }
        trial t;
        begin(&t, f, dtypes[d], 800, 3, 5, 5);
        combine(&t, 3, NAN, 0, NULL);
        assert_int_equal(orthonormalise(&t), GX_NUMERIC);
        assert_non_null(strstr(t.run.err.text, "NaN or Inf"));
        end(&t);
    }
}

static void bits(void **state)
{
    fixture *f = *state;
    static const int64_t widths[] = {1, 8, COLS_MOST};
    for (int w = 0; w < 3; w++) {
        trial t[2];
        for (int k = 0; k < 2; k++) {
            set(f->ctx, GX_SET_THREADS, k == 0 ? "1" : "4");
            begin(&t[k], f, w == 1 ? GX_F32 : GX_F64, 40000, 25, widths[w], widths[w]);
            make(&t[k], ALL, 1e-2);
            assert_int_equal(orthonormalise(&t[k]), GX_OK);
        }
        size_t bytes = (size_t)(t[0].n * widths[w]) * gx_number_bytes(t[0].dtype);
        assert_memory_equal(column(&t[0], 25), column(&t[1], 25), bytes);
        assert_memory_equal(t[0].h, t[1].h, (size_t)(25 * widths[w]) * 8);
        assert_memory_equal(t[0].s, t[1].s, (size_t)(widths[w] * widths[w]) * 8);
        end(&t[0]);
        end(&t[1]);
    }
}

static void rotations(void **state)
{
    fixture *f = *state;
    enum { N = 30000, WIDTH = 24, KEPT = 10 };
    static double W[WIDTH * KEPT];
    static const char *const threads[] = {"1", "4", "4"};
    float *result[3];
    for (int64_t k = 0; k < WIDTH * KEPT; k++) {
        W[k] = (double)(k * k % 11) - 5;
    }
    for (int k = 0; k < 3; k++) {
        trial t;
        set(f->ctx, GX_SET_THREADS, threads[k]);
        begin(&t, f, GX_F32, N, 0, WIDTH, WIDTH);
        size_t left = gx_mem_available(f->ctx->mem);
        size_t panel = (size_t)GX_KRY_PANEL * KEPT * 4, taken = left - 3 * panel;
        if (k == 2) { // for two panels and W, not for four
            gx_team *team = gx_run_team(&t.run);
            assert_int_equal(gx_team_threads(team), 4);
            taken = gx_mem_available(f->ctx->mem) - 3 * panel;
            assert_int_equal(gx_mem_reserve(f->ctx->mem, taken, "the rest", &t.run.err), GX_OK);
        }
        assert_int_equal(gx_kry_rotate(&t.run, GX_F32, t.V, N, WIDTH, W, WIDTH, KEPT), GX_OK);
        if (k == 2) {
            gx_mem_return(f->ctx->mem, taken);
        }
        result[k] = malloc((size_t)N * KEPT * 4);
        memcpy(result[k], t.V, (size_t)N * KEPT * 4);
        trial again;
        begin(&again, f, GX_F32, N, 0, WIDTH, WIDTH); // the same draws
        for (int64_t i = 0; i < N && k == 0; i += 997) {
            for (int64_t j = 0; j < KEPT; j++) {
                double sum = 0, size = 0;
                for (int64_t l = 0; l < WIDTH; l++) {
                    double term = (double)((float *)again.V)[l * N + i] * W[j * WIDTH + l];
                    sum += term;
                    size += fabs(term);
                }
                assert_true(fabs((double)result[0][j * N + i] - sum) <= 1e-6 * size);
            }
        }
        end(&again);
        end(&t);
    }
    assert_memory_equal(result[0], result[1], (size_t)N * KEPT * 4);
    assert_memory_equal(result[0], result[2], (size_t)N * KEPT * 4);
    for (int k = 0; k < 3; k++) {
        free(result[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(blocks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(dependent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(first_columns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sizes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rotations, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
