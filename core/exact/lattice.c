/*
** The nearest points of lattices, as a pass over rows, and E8: see lattice.h.
**
** Rows are taken LANES at a time, a vector for each of their numbers.
*/
#include "lattice.h"

#include "../exec/pass.h"

#include <math.h>
#include <string.h>

enum { LANES = 4, EIGHT = 8, TILE_BYTES = 8 << 20 };

/* Numbers that have a nearest point in doubles are below. */
static const double LARGEST = 0x1p50;

// Points of some rows -----------------------------------------------------------------------------

/* A number of LANES rows each. */
typedef double lane __attribute__((vector_size(LANES * sizeof(double))));
typedef int64_t mask __attribute__((vector_size(LANES * sizeof(double))));

static inline lane all(double x)
{
    return (lane){x, x, x, x};
}

static inline lane pick(mask which, lane a, lane b)
{
    return (lane)((which & (mask)a) | (~which & (mask)b));
}

static inline lane absolute(lane x)
{
    const int64_t SIGN = INT64_MIN;
    return (lane)((mask)x & ~(mask){SIGN, SIGN, SIGN, SIGN});
}

/* The nearest whole number of what is below 2^51, the even one of two. */
static inline double rounded(double x)
{
    const double UNIT_IS_1 = 0x1.8p52;
    return x + UNIT_IS_1 - UNIT_IS_1;
}

static inline lane rounded_all(lane x)
{
    return x + all(0x1.8p52) - all(0x1.8p52);
}

/* What is known of rows when their numbers have been rounded. */
typedef struct rounding {
    lane distance, sum; /* squared; of the whole numbers                        */
    lane worst, where;  /* the largest |x - rounded(x)|, and in which column    */
    lane toward;        /* 1 or -1: from there to the other whole number beside */
} rounding;

static const rounding NOTHING = {.worst = {-1, -1, -1, -1}};

/* A number of column j, rounded. */
static inline lane take(rounding *r, lane x, double j)
{
    lane whole = rounded_all(x), rest = x - whole, size = absolute(rest);
    mask is_worse = (mask)(size > r->worst);
    r->distance += rest * rest;
    r->sum += whole;
    r->toward = pick(is_worse, pick((mask)(rest < all(0)), all(-1), all(1)), r->toward);
    r->where = pick(is_worse, all(j), r->where);
    r->worst = pick(is_worse, size, r->worst);
    return whole;
}

/* Rows of an odd sum: the other neighbour where it costs least.  Else toward is 0 from now on. */
static inline void make_even(rounding *r)
{
    mask is_odd = (mask)(r->sum != all(2) * rounded_all(all(0.5) * r->sum));
    r->distance += pick(is_odd, all(1) - all(2) * r->worst, all(0));
    r->toward = pick(is_odd, r->toward, all(0));
}

static inline lane moved(const rounding *r, lane whole, double j)
{
    return whole + pick((mask)(r->where == all(j)), r->toward, all(0));
}

static inline lane load(const double *x)
{
    lane value;
    memcpy(&value, x, sizeof value);
    return value;
}

static inline void store(double *x, lane value)
{
    memcpy(x, &value, sizeof value);
}

static inline lane larger(lane a, lane b)
{
    return pick((mask)(a > b), a, b);
}

static inline lane signed_as(lane size, lane sign)
{
    const int64_t SIGN = INT64_MIN;
    return (lane)((mask)size | ((mask)sign & (mask){SIGN, SIGN, SIGN, SIGN}));
}

/*
** Eight columns, ld apart, in place.  With w the whole number nearest to x and e = x - w, the
** nearest of the others is w + 1/2 or w - 1/2, to the side of e, and 1/2 - |e| away: so both points
** come from the same sums.  false: a number is too large, and nothing has been changed.
*/
static inline __attribute__((always_inline)) bool eight(double *x, int64_t ld)
{
    lane squares = all(0), sizes = all(0), sum = all(0), below = all(0);
    lane most = all(-1), least = all(2), at_most = all(0), at_least = all(0);
    mask is_well = (mask)(all(0) == all(0));
    for (int j = 0; j < EIGHT; j++) {
        lane number = load(x + j * ld), whole = rounded_all(number), rest = number - whole;
        lane size = absolute(rest);
        is_well &= (mask)(absolute(number) < all(LARGEST));
        squares += rest * rest;
        sizes += size;
        sum += whole;
        below += pick((mask)(rest < all(0)), all(1), all(0));
        at_most = pick((mask)(size > most), all(j), at_most);
        most = larger(size, most);
        at_least = pick((mask)(size < least), all(j), at_least);
        least = pick((mask)(size < least), size, least);
    }
    // The sum of the points with halves: w + 1/2 or w - 1/2, eight of them, is sum + 4 - below.
    lane other = sum - below;
    mask is_odd = (mask)(sum != all(2) * rounded_all(all(0.5) * sum));
    mask is_odd_there = (mask)(other != all(2) * rounded_all(all(0.5) * other));
    lane distance = squares + pick(is_odd, all(1) - all(2) * most, all(0));
    lane distance_there = squares - sizes + all(2) + pick(is_odd_there, all(2) * least, all(0));
    mask is_there = (mask)(distance_there < distance);
    at_most = pick(is_odd, at_most, all(-1));
    at_least = pick(is_odd_there, at_least, all(-1));
    for (int k = 0; k < LANES; k++) {
        if (is_well[k] == 0) {
            return false;
        }
    }
    for (int j = 0; j < EIGHT; j++) {
        lane number = load(x + j * ld), whole = rounded_all(number), rest = number - whole;
        lane half = signed_as(all(0.5), rest);
        lane here = whole + pick((mask)(at_most == all(j)), half + half, all(0));
        lane there = whole + pick((mask)(at_least == all(j)), all(0) - half, half);
        store(x + j * ld, pick(is_there, there, here));
    }
    return true;
}

/* cols columns of whole numbers; is_even: of even sum. */
static inline __attribute__((always_inline)) void whole_rows(double *x, int64_t ld, int64_t cols,
                                                             bool is_even)
{
    rounding r = NOTHING;
    for (int64_t j = 0; j < cols; j++) {
        store(x + j * ld, take(&r, load(x + j * ld), (double)j));
    }
    make_even(&r);
    for (int64_t j = 0; j < cols && is_even; j++) {
        store(x + j * ld, moved(&r, load(x + j * ld), (double)j));
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

/* LANES rows.  false: there is a number that is too large. */
static inline __attribute__((always_inline)) bool some_rows(gx_lattice lattice, double *x,
                                                            int64_t ld, int64_t cols, double *rest)
{
    bool is_well = true;
    for (int64_t j = 0; j + EIGHT <= cols && lattice == GX_LATTICE_E8 && is_well; j += EIGHT) {
        is_well = eight(x + j * ld, ld);
    }
    for (int64_t k = 0; k < LANES * cols && lattice != GX_LATTICE_E8; k++) {
        is_well &= fabs(x[k % LANES + k / LANES * ld]) < LARGEST;
    }
    if (is_well && (lattice == GX_LATTICE_ZN || lattice == GX_LATTICE_DN)) {
        whole_rows(x, ld, cols, lattice == GX_LATTICE_DN);
    }
    for (int q = 0; q < LANES && lattice == GX_LATTICE_AN && is_well; q++) {
        zero_sum(x + q, ld, cols, rest);
    }
    return is_well;
}

/* rest: room for LANES + 1 rows. */
static inline __attribute__((always_inline)) bool points(gx_lattice lattice, double *x, int64_t ld,
                                                         int64_t rows, int64_t cols, double *rest)
{
    int64_t i = 0;
    bool is_well = true;
    for (; i + LANES <= rows && is_well; i += LANES) {
        is_well = some_rows(lattice, x + i, ld, cols, rest);
    }
    if (i == rows || !is_well) {
        return is_well;
    }
    double *last = rest + cols; // fewer rows: between zeros
    memset(last, 0, (size_t)(LANES * cols) * sizeof *last);
    for (int64_t j = 0; j < cols; j++) {
        memcpy(last + j * LANES, x + i + j * ld, (size_t)(rows - i) * sizeof *last);
    }
    is_well = some_rows(lattice, last, LANES, cols, rest);
    for (int64_t j = 0; j < cols && is_well; j++) {
        memcpy(x + i + j * ld, last + j * LANES, (size_t)(rows - i) * sizeof *last);
    }
    return is_well;
}

#ifdef __x86_64__
static __attribute__((target("avx2"), noinline)) bool
points_avx2(gx_lattice lattice, double *x, int64_t ld, int64_t rows, int64_t cols, double *rest)
{
    return points(lattice, x, ld, rows, cols, rest);
}
#endif

static bool find_points(gx_lattice lattice, double *x, int64_t ld, int64_t rows, int64_t cols,
                        double *rest)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        return points_avx2(lattice, x, ld, rows, cols, rest);
    }
#endif
    return points(lattice, x, ld, rows, cols, rest);
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
    int64_t strip; /* rows of a unit                                */
    double *value; /* where the result is made at once; NULL: in parts */
} search;

/* GX_ARG names a number that is too large to have a nearest point, or none. */
static gx_code refuse(const search *s, const double *x, int64_t ld, int64_t i0, int64_t rows,
                      gx_err *err)
{
    int64_t k = 0;
    while (k < rows * s->A->cols - 1 && fabs(x[k % rows + k / rows * ld]) < LARGEST) {
        k++;
    }
    return gx_fail(err, GX_ARG, "%s has %g at (%lld, %lld): no point is nearest to it", s->A->label,
                   x[k % rows + k / rows * ld], (long long)(i0 + k % rows), (long long)(k / rows));
}

static gx_code search_strip(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                            gx_err *err)
{
    const search *s = arg;
    int64_t i = unit * s->strip, rows = gx_min(s->strip, s->A->rows - i);
    double *x = s->value == NULL ? part : s->value + i;
    int64_t ld = s->value == NULL ? rows : s->A->rows;
    GX_TRY(gx_pass_read(thread, s->A, i, 0, rows, s->A->cols, GX_F64, x, ld, err));
    return find_points(s->lattice, x, ld, rows, s->A->cols, work) ? GX_OK
                                                                  : refuse(s, x, ld, i, rows, err);
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
    s.value = !C->is_stored && C->value.data != NULL && gx_sink_is_plain(C) ? C->value.data : NULL;
    s.strip = gx_min(C->tile_rows, A->rows);
    if (s.value != NULL) {
        // Whole tiles: one of which strips are cut is looked for once for each of them.
        int64_t rows = 4 * GX_PASS_CHUNK_BYTES / ((int64_t)sizeof(double) * A->cols);
        bool has_tiles = gx_mat_base_stored(A) != NULL && A->tile_rows >= rows;
        s.strip = has_tiles ? A->tile_rows : gx_max(LANES, rows / LANES * LANES);
    }
    double elements = (double)A->rows * (double)A->cols;
    gx_pass pass = {.sources = &A,
                    .source_count = 1,
                    .units = gx_ceil_div(A->rows, s.strip),
                    .bytes = elements * sizeof(double),
                    .flops = FLOPS * elements,
                    .work_bytes = (size_t)((LANES + 1) * A->cols) * sizeof(double),
                    .part_bytes =
                        s.value != NULL ? 0 : (size_t)(s.strip * A->cols) * sizeof(double),
                    .work = search_strip,
                    .fold = s.value != NULL ? NULL : write_strip,
                    .is_callers = s.value == NULL,
                    .writes = C->is_stored ? C->meta.schema : NULL,
                    .arg = &s};
    gx_pass_run(run, &pass);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// E8 ----------------------------------------------------------------------------------------------

/* Points below: twice their numbers, all even or all odd, of a sum that is 0 modulo 4. */
typedef struct shell {
    int left; /* of four times the squared norm */
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
static const double simple[EIGHT][EIGHT] = {{0.5, -0.5, -0.5, -0.5, -0.5, -0.5, -0.5, 0.5},
                                            {1, 1, 0, 0, 0, 0, 0, 0},
                                            {-1, 1, 0, 0, 0, 0, 0, 0},
                                            {0, -1, 1, 0, 0, 0, 0, 0},
                                            {0, 0, -1, 1, 0, 0, 0, 0},
                                            {0, 0, 0, -1, 1, 0, 0, 0},
                                            {0, 0, 0, 0, -1, 1, 0, 0},
                                            {0, 0, 0, 0, 0, -1, 1, 0}};

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
    bool fits =
        !__builtin_mul_overflow(a[1], b[1], &both) && !__builtin_mul_overflow(a[0], b[0], &one) &&
        !__builtin_add_overflow(one, both, &first) && !__builtin_mul_overflow(a[0], b[1], &one) &&
        !__builtin_mul_overflow(a[1], b[0], &other) &&
        !__builtin_add_overflow(one, other, &second) &&
        !__builtin_add_overflow(second, both, &second);
    if (fits) {
        result[0] = first;
        result[1] = second;
    }
    return fits;
}
