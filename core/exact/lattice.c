/*
** The nearest points of lattices, as a pass over rows, and E8: see lattice.h.
**
** Rows are taken ROWS at a time, their numbers as columns, so that loops run along the rows.
*/
#include "lattice.h"

#include "../exec/pass.h"

#include <math.h>
#include <string.h>

enum { ROWS = 128, EIGHT = 8, TILE_BYTES = 8 << 20 };

// Points of some rows -----------------------------------------------------------------------------

/* The nearest whole number of what is below 2^51, the even one of two; vectorised. */
static inline double rounded(double x)
{
    const double UNIT_IS_1 = 0x1.8p52;
    return x + UNIT_IS_1 - UNIT_IS_1;
}

/* What is known of ROWS rows when their numbers have been rounded. */
typedef struct rounding {
    double distance[ROWS]; /* squared                                          */
    double worst[ROWS];    /* the largest |x - rounded(x)|                     */
    double where[ROWS];    /* in which column                                  */
    double toward[ROWS];   /* 1 or -1: the other whole number beside it        */
    double sum[ROWS];      /* of the rounded ones modulo 2, as 0 or an odd one */
} rounding;

static void start(rounding *r)
{
    memset(r, 0, sizeof *r);
    for (int i = 0; i < ROWS; i++) {
        r->worst[i] = -1;
    }
}

/* Column j of the rows: x + shift rounded, less shift, into to. */
static inline void round_column(rounding *r, const double *restrict x, double shift, int j,
                                int count, double *restrict to)
{
    for (int i = 0; i < count; i++) {
        double y = x[i] - shift, whole = rounded(y), rest = y - whole;
        double size = fabs(rest), parity = whole - 2 * rounded(0.5 * whole);
        bool is_worse = size > r->worst[i];
        to[i] = whole + shift;
        r->distance[i] += rest * rest;
        r->sum[i] += parity;
        r->where[i] = is_worse ? j : r->where[i];
        r->toward[i] = is_worse ? (rest < 0 ? -1 : 1) : r->toward[i];
        r->worst[i] = is_worse ? size : r->worst[i];
    }
}

/* Rows of an odd sum: where it costs least, the other neighbour.  Their distances, too. */
static inline void make_even(rounding *r, int count)
{
    for (int i = 0; i < count; i++) {
        double parity = r->sum[i] - 2 * rounded(0.5 * r->sum[i]);
        bool is_odd = parity != 0;
        r->distance[i] += is_odd ? 1 - 2 * r->worst[i] : 0;
        r->toward[i] = is_odd ? r->toward[i] : 0;
    }
}

static inline void take_even(const rounding *r, int j, int count, double *restrict to)
{
    for (int i = 0; i < count; i++) {
        to[i] += r->where[i] == j ? r->toward[i] : 0;
    }
}

/* Eight columns, ld apart, in place. */
static inline __attribute__((always_inline)) void eight(double *x, int64_t ld, int count)
{
    double whole[EIGHT][ROWS], half[EIGHT][ROWS];
    rounding at_whole, at_half;
    start(&at_whole);
    start(&at_half);
    for (int j = 0; j < EIGHT; j++) {
        round_column(&at_whole, x + j * ld, 0, j, count, whole[j]);
        round_column(&at_half, x + j * ld, 0.5, j, count, half[j]);
    }
    make_even(&at_whole, count);
    make_even(&at_half, count);
    for (int j = 0; j < EIGHT; j++) {
        take_even(&at_whole, j, count, whole[j]);
        take_even(&at_half, j, count, half[j]);
        double *restrict to = x + j * ld;
        for (int i = 0; i < count; i++) {
            to[i] = at_half.distance[i] < at_whole.distance[i] ? half[j][i] : whole[j][i];
        }
    }
}

/* cols columns of whole numbers; is_even: of even sum. */
static inline __attribute__((always_inline)) void whole_rows(double *x, int64_t ld, int64_t cols,
                                                             bool is_even, int count)
{
    rounding r;
    double to[ROWS];
    start(&r);
    for (int64_t j = 0; j < cols; j++) {
        round_column(&r, x + j * ld, 0, (int)j, count, to);
        memcpy(x + j * ld, to, (size_t)count * sizeof *to);
    }
    make_even(&r, count);
    for (int64_t j = 0; j < cols && is_even; j++) {
        take_even(&r, (int)j, count, x + j * ld);
    }
}

/* One row of sum 0, in numbers ld apart: the sum of what is rounded is taken off where it costs
** least.  rest: room for as many. */
static void zero_sum(double *x, int64_t ld, int64_t cols, double *rest)
{
    double mean = 0, sum = 0;
    for (int64_t j = 0; j < cols; j++) {
        mean += x[j * ld] / (double)cols;
    }
    for (int64_t j = 0; j < cols; j++) {
        double y = x[j * ld] - mean, whole = rounded(y);
        rest[j] = y - whole;
        x[j * ld] = whole;
        sum += whole;
    }
    for (; sum != 0; sum -= sum > 0 ? 1 : -1) {
        int64_t at = 0;
        for (int64_t j = 1; j < cols; j++) {
            at = sum > 0 ? (rest[j] < rest[at] ? j : at) : (rest[j] > rest[at] ? j : at);
        }
        x[at * ld] -= sum > 0 ? 1 : -1;
        rest[at] += sum > 0 ? 1 : -1;
    }
}

static inline __attribute__((always_inline)) void points(gx_lattice lattice, double *x, int64_t ld,
                                                         int64_t rows, int64_t cols, double *rest)
{
    for (int64_t i = 0; i < rows; i += ROWS) {
        int count = (int)gx_min(ROWS, rows - i);
        for (int64_t j = 0; j + EIGHT <= cols && lattice == GX_LATTICE_E8; j += EIGHT) {
            eight(x + i + j * ld, ld, count);
        }
        if (lattice == GX_LATTICE_ZN || lattice == GX_LATTICE_DN) {
            whole_rows(x + i, ld, cols, lattice == GX_LATTICE_DN, count);
        }
        for (int q = 0; q < count && lattice == GX_LATTICE_AN; q++) {
            zero_sum(x + i + q, ld, cols, rest);
        }
    }
}

#ifdef __x86_64__
static __attribute__((target("avx2"), noinline)) void points_avx2(gx_lattice lattice, double *x,
                                                                  int64_t ld, int64_t rows,
                                                                  int64_t cols, double *rest)
{
    points(lattice, x, ld, rows, cols, rest);
}
#endif

static void find_points(gx_lattice lattice, double *x, int64_t ld, int64_t rows, int64_t cols,
                        double *rest)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        points_avx2(lattice, x, ld, rows, cols, rest);
        return;
    }
#endif
    points(lattice, x, ld, rows, cols, rest);
}

// The pass ----------------------------------------------------------------------------------------

gx_code gx_lattice_fits(const gx_mat *A, gx_lattice lattice, gx_err *err)
{
    if (gx_number_is_complex(A->number)) {
        return gx_fail(err, GX_ARG, "%s is complex (%s): points are of real numbers", A->label,
                       gx_number_name(A->number));
    }
    if (lattice == GX_LATTICE_E8 && A->cols % EIGHT != 0) {
        return gx_fail(err, GX_ARG, "%s has %lld columns, but points of E8 have 8 numbers each",
                       A->label, (long long)A->cols);
    }
    if (A->cols > INT32_MAX) {
        return gx_fail(err, GX_TOOBIG, "%s has %lld columns, more than 2^31", A->label,
                       (long long)A->cols);
    }
    return GX_OK;
}

void gx_lattice_tiles(const gx_mat *A, int64_t *tile_rows, int64_t *tile_cols)
{
    int64_t rows = TILE_BYTES / ((int64_t)sizeof(double) * gx_max(1, A->cols));
    *tile_rows = gx_max(1, gx_min(gx_max(1, A->rows), rows));
    *tile_cols = gx_max(1, A->cols);
}

typedef struct search {
    gx_run *run;
    const gx_mat *A;
    gx_lattice lattice;
    gx_sink *C;
    int64_t strip; /* rows of a unit */
} search;

static gx_code search_strip(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                            gx_err *err)
{
    const search *s = arg;
    int64_t i = unit * s->strip, rows = gx_min(s->strip, s->A->rows - i);
    double *x = part;
    GX_TRY(gx_pass_read(thread, s->A, i, 0, rows, s->A->cols, GX_F64, x, rows, err));
    for (int64_t k = 0; k < rows * s->A->cols; k++) {
        if (!(fabs(x[k]) < 0x1p50)) {
            return gx_fail(err, GX_ARG, "%s has %g at (%lld, %lld): no point is nearest to it",
                           s->A->label, x[k], (long long)(i + k % rows), (long long)(k / rows));
        }
    }
    find_points(s->lattice, x, rows, rows, s->A->cols, work);
    return GX_OK;
}

static gx_code write_strip(void *arg, int64_t unit, void *part, gx_err *err)
{
    const search *s = arg;
    int64_t i = unit * s->strip, rows = gx_min(s->strip, s->A->rows - i);
    return gx_sink_write(s->C, i, 0, rows, s->A->cols, part, rows, err);
}

gx_code gx_alg_nearest_points(gx_run *run, const gx_mat *A, gx_lattice lattice, gx_sink *C)
{
    search s = {.run = run, .A = A, .lattice = lattice, .C = C};
    if (!gx_ok(run) || A->rows == 0 || A->cols == 0) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    const double FLOPS = 40; // of a number
    s.strip = gx_min(C->tile_rows, A->rows);
    double elements = (double)A->rows * (double)A->cols;
    gx_pass pass = {.sources = &A,
                    .source_count = 1,
                    .units = gx_ceil_div(A->rows, s.strip),
                    .bytes = elements * sizeof(double),
                    .flops = FLOPS * elements,
                    .work_bytes = (size_t)A->cols * sizeof(double),
                    .part_bytes = (size_t)(s.strip * A->cols) * sizeof(double),
                    .work = search_strip,
                    .fold = write_strip,
                    .is_callers = true,
                    .writes = C->is_stored ? C->meta.schema : NULL,
                    .arg = &s};
    gx_pass_run(run, &pass);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// E8 ----------------------------------------------------------------------------------------------

/* Points below: twice their numbers, all even or all odd, of a sum that is 0 modulo 4. */
typedef struct shell {
    int left;      /* of four times the squared norm */
    int x[EIGHT];
    int64_t count, ld;
    double *points;
} shell;

static void add_numbers(shell *s, int j, int parity)
{
    if (j == EIGHT) {
        int sum = 0;
        for (int k = 0; k < EIGHT; k++) {
            sum += s->x[k];
        }
        if (s->left != 0 || sum % 4 != 0) {
            return;
        }
        for (int k = 0; k < EIGHT && s->points != NULL; k++) {
            s->points[s->count + k * s->ld] = 0.5 * s->x[k];
        }
        s->count++;
        return;
    }
    int most = 0;
    while ((most + 1) * (most + 1) <= s->left) {
        most++;
    }
    for (int x = -most; x <= most; x++) {
        if ((x & 1) == parity) {
            s->x[j] = x;
            s->left -= x * x;
            add_numbers(s, j + 1, parity);
            s->left += x * x;
        }
    }
}

int64_t gx_e8_shell(int k, double *points)
{
    shell s = {.left = 8 * k};
    if (points != NULL) {
        s.ld = gx_e8_shell(k, NULL);
        s.points = points;
    }
    add_numbers(&s, 0, 0);
    add_numbers(&s, 0, 1);
    return s.count;
}

/* E8's simple roots, of squared norm 2: seven of a chain, and one beside it. */
static const double simple[EIGHT][EIGHT] = {
    {0.5, -0.5, -0.5, -0.5, -0.5, -0.5, -0.5, 0.5}, {1, 1, 0, 0, 0, 0, 0, 0},
    {-1, 1, 0, 0, 0, 0, 0, 0},                      {0, -1, 1, 0, 0, 0, 0, 0},
    {0, 0, -1, 1, 0, 0, 0, 0},                      {0, 0, 0, -1, 1, 0, 0, 0},
    {0, 0, 0, 0, -1, 1, 0, 0},                      {0, 0, 0, 0, 0, -1, 1, 0}};

/* The Coxeter element of x: all reflections, one after the other. */
static void turn(double x[EIGHT])
{
    for (int r = 0; r < EIGHT; r++) {
        double along = 0;
        for (int k = 0; k < EIGHT; k++) {
            along += x[k] * simple[r][k];
        }
        for (int k = 0; k < EIGHT; k++) {
            x[k] -= along * simple[r][k];
        }
    }
}

/*
** The projector onto the planes that are turned by m / 30: a mean over the group of order 30,
** 2 / 30 sum of cos(2 pi m k / 30) w^k.  Its columns are made orthonormal one by one.
*/
void gx_e8_golden(double basis[32])
{
    enum { ORDER = 30, FOUR = 4 };
    const double PI = 3.14159265358979323846;
    int found = 0;
    for (int c = 0; c < EIGHT && found < FOUR; c++) {
        double x[EIGHT] = {0}, y[EIGHT] = {0}, norm = 0;
        x[c] = 1;
        for (int k = 0; k < ORDER; k++) {
            double weight = cos(2 * PI * k / ORDER) + cos(2 * PI * 11 * k / ORDER);
            for (int i = 0; i < EIGHT; i++) {
                y[i] += 2.0 / ORDER * weight * x[i];
            }
            turn(x);
        }
        for (int pass = 0; pass < 2 * found; pass++) { // twice is enough
            const double *b = basis + EIGHT * (pass % found);
            double along = 0;
            for (int i = 0; i < EIGHT; i++) {
                along += b[i] * y[i];
            }
            for (int i = 0; i < EIGHT; i++) {
                y[i] -= along * b[i];
            }
        }
        for (int i = 0; i < EIGHT; i++) {
            norm += y[i] * y[i];
        }
        for (int i = 0; i < EIGHT && norm > 1e-6; i++) {
            basis[EIGHT * found + i] = y[i] / sqrt(norm);
        }
        found += norm > 1e-6;
    }
}

// The golden ratio --------------------------------------------------------------------------------

__extension__ typedef unsigned __int128 wide;

static uint64_t root_of(wide x)
{
    uint64_t root = (uint64_t)sqrtl((long double)x);
    while ((wide)root * root > x) {
        root--;
    }
    while ((wide)(root + 1) * (root + 1) <= x) {
        root++;
    }
    return root;
}

bool gx_golden_floor(int64_t n, int64_t *result)
{
    uint64_t size = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    const uint64_t MOST = 5700357409661599242; // phi times it is below 2^63, times the next is not
    if (size > MOST) {
        return false;
    }
    uint64_t whole = (uint64_t)(((wide)size + root_of((wide)size * size * 5)) / 2);
    *result = n < 0 ? -(int64_t)whole - 1 : (int64_t)whole; // phi n is no whole number
    return n >= 0 || whole < (uint64_t)1 << 63;
}

bool gx_golden_times(const int64_t a[2], const int64_t b[2], int64_t result[2])
{
    int64_t both, one, other, first, second; // result may be a or b
    bool fits = !__builtin_mul_overflow(a[1], b[1], &both) &&
                !__builtin_mul_overflow(a[0], b[0], &one) &&
                !__builtin_add_overflow(one, both, &first) &&
                !__builtin_mul_overflow(a[0], b[1], &one) &&
                !__builtin_mul_overflow(a[1], b[0], &other) &&
                !__builtin_add_overflow(one, other, &second) &&
                !__builtin_add_overflow(second, both, &second);
    if (fits) {
        result[0] = first;
        result[1] = second;
    }
    return fits;
}
