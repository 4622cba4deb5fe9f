/*
** Plans of transforms: see fft_int.h.
**
** Twiddles are products, in long double, of two numbers from tables of angles of at most pi / 4, so
** that each is the nearest number there is, but for a few, and takes no cosine of its own: those
** took ten times as long as one line's transform.  A transform in six steps has n twiddles: up to
** 2^12 all in a table, beyond in two tables whose entries are multiplied.
*/
#include "fft_int.h"

#include <math.h>
#include <string.h>

/* The longest whole table of twiddles; the longest line in passes, as lines lie. */
enum { TABLE_MOST = 1 << 12 };
static const int64_t PASSES_MOST[] = {64, 1 << 13, 1 << 14, INT64_MAX};

// Roots of 1 --------------------------------------------------------------------------------------

/* exp(-2 pi i k / n): cosine and sine of (low + high) pi / (4 n), from two tables of pairs. */
typedef struct roots {
    int64_t n;
    int shift; /* low < 1 << shift; high is a multiple of that, at most n */
    long double *low, *high;
} roots;

static void put_angle(long double *to, int64_t eighths, int64_t n)
{
    const long double pi = 3.14159265358979323846264338327950288L;
    long double angle = (long double)eighths / (long double)n * (pi / 4);
    to[0] = cosl(angle);
    to[1] = sinl(angle);
}

/* low is the caller's to free. */
static bool make_roots(gx_run *run, int64_t n, roots *r)
{
    *r = (roots){.n = n};
    while ((int64_t)1 << (2 * r->shift) < n) {
        r->shift++;
    }
    int64_t low = (int64_t)1 << r->shift, high = (n >> r->shift) + 1;
    r->low = gx_run_alloc(run, (size_t)(low + high) * 2 * sizeof *r->low, "roots of 1");
    if (r->low == NULL) {
        return false;
    }
    r->high = r->low + 2 * low;
    for (int64_t k = 0; k < low; k++) {
        put_angle(r->low + 2 * k, k, n);
    }
    for (int64_t k = 0; k < high; k++) {
        put_angle(r->high + 2 * k, k << r->shift, n);
    }
    return true;
}

/* 0 <= k < n */
static gx_scalar root(const roots *r, int64_t k)
{
    // eighths of the circle: 8 k = eighth n + rest
    int eighth = (int)(8 * k / r->n);
    int64_t rest = 8 * k % r->n;
    rest = eighth % 2 == 0 ? rest : r->n - rest;
    const long double *a = r->low + 2 * (rest & (((int64_t)1 << r->shift) - 1));
    const long double *b = r->high + 2 * (rest >> r->shift);
    double c = (double)(a[0] * b[0] - a[1] * b[1]), s = (double)(a[0] * b[1] + a[1] * b[0]);
    static const struct {
        int is_swapped, c, s;
    } of[8] = {{0, 1, 1},   {1, 1, 1},   {1, -1, 1}, {0, -1, 1},
               {0, -1, -1}, {1, -1, -1}, {1, 1, -1}, {0, 1, -1}};
    double x = of[eighth].is_swapped ? s : c, y = of[eighth].is_swapped ? c : s;
    return (gx_scalar){of[eighth].c * x, -of[eighth].s * y};
}

// Lengths -----------------------------------------------------------------------------------------

/* n as a product of passes, 8 and 4 before 2; how many, -1: it has a larger prime. */
static int factor(int64_t n, int radix[GX_FFT_RADICES])
{
    int count = 0, eights = 0;
    for (; n % 8 == 0 && n != 16; n /= 8) {
        eights++;
    }
    for (; n % 4 == 0; n /= 4) {
        radix[count++] = 4;
    }
    for (int p = 2; p <= GX_FFT_RADIX; p++) {
        for (; n % p == 0; n /= p) {
            radix[count++] = p;
        }
    }
    for (; eights > 0; eights--) {
        radix[count++] = 8;
    }
    return n == 1 ? count : -1;
}

/* The largest divisor of n that is at most its root, of the primes in its passes. */
static int64_t half_of(int64_t n)
{
    int64_t best = 1;
    for (int64_t d = 1; d * d <= n; d++) {
        best = n % d == 0 ? d : best;
    }
    return best;
}

/* The smallest 2^a, 3 2^a, 5 2^a, 9 2^a or 15 2^a that is at least n. */
static int64_t smooth_above(int64_t n)
{
    static const int odd[] = {1, 3, 5, 9, 15};
    int64_t best = INT64_MAX;
    for (int k = 0; k < 5; k++) {
        int64_t m = odd[k];
        while (m < n) {
            m *= 2;
        }
        best = gx_min(best, m);
    }
    return best;
}

// Tables ------------------------------------------------------------------------------------------

static void *take(gx_run *run, const gx_fft_plan *plan, int64_t count)
{
    return gx_run_alloc(run, (size_t)count * gx_number_bytes(plan->number), "twiddles");
}

static void fill_twiddles(gx_fft_plan *plan, const roots *w)
{
    int64_t m = plan->n, at = 0;
    for (int k = 0; k < plan->radices; k++) {
        int64_t r = plan->radix[k], whole = m;
        m /= r;
        for (int64_t j = 0; j < r; j++) {
            gx_scalar of_radix = root(w, plan->n / r * j);
            of_radix.im = -of_radix.im;
            gx_number_put(plan->number, plan->twiddles, at++, of_radix);
        }
        for (int64_t p = 0; p < m; p++) {
            for (int64_t j = 1; j < r; j++) {
                gx_number_put(plan->number, plan->twiddles, at++, root(w, plan->n / whole * p * j));
            }
        }
    }
}

static bool make_passes(gx_run *run, gx_fft_plan *plan)
{
    int64_t m = plan->n, count = 0;
    for (int k = 0; k < plan->radices; k++) {
        m /= plan->radix[k];
        count += plan->radix[k] + m * (plan->radix[k] - 1);
    }
    roots w = {.low = NULL};
    plan->twiddles = take(run, plan, count);
    if (gx_ok(run) && make_roots(run, plan->n, &w)) {
        fill_twiddles(plan, &w);
    }
    gx_mem_free(run->ctx->mem, w.low);
    return gx_ok(run);
}

gx_code gx_fft_turn_make(gx_run *run, gx_number number, int64_t n, gx_fft_turn *turn)
{
    const gx_fft_plan plan = {.number = number};
    int64_t low = n, high = 1;
    *turn = (gx_fft_turn){.n = n, .mask = -1, .shift = 62};
    if (n > TABLE_MOST) {
        for (turn->shift = 6; (int64_t)1 << (2 * turn->shift) < n;) {
            turn->shift++;
        }
        low = (int64_t)1 << turn->shift;
        high = gx_ceil_div(n, low);
        turn->mask = low - 1;
    }
    turn->low = take(run, &plan, low);
    turn->high = take(run, &plan, high);
    roots w = {.low = NULL};
    if (gx_ok(run)) {
        make_roots(run, n, &w);
    }
    for (int64_t k = 0; k < low && gx_ok(run); k++) {
        gx_number_put(number, turn->low, k, root(&w, k));
    }
    for (int64_t k = 0; k < high && gx_ok(run); k++) {
        gx_number_put(number, turn->high, k, root(&w, k * low % n));
    }
    gx_mem_free(run->ctx->mem, w.low);
    return gx_ok(run) ? GX_OK : run->err.code;
}

/* What a group of lines is turned by, but for its first. */
static bool make_lanes(gx_run *run, gx_fft_plan *plan)
{
    int64_t lanes = gx_fft_lanes(plan->number), n1 = plan->first->n;
    gx_number real = plan->number == GX_C128 ? GX_F64 : GX_F32;
    void *to = plan->turn.lanes = take(run, plan, n1 * lanes);
    roots r = {.low = NULL};
    if (gx_ok(run)) {
        make_roots(run, plan->n, &r);
    }
    for (int64_t k = 0; k < n1 && gx_ok(run); k++) {
        for (int64_t l = 0; l < lanes; l++) {
            gx_scalar w = root(&r, k * l % plan->n);
            gx_number_put(real, to, 2 * k * lanes + l, (gx_scalar){w.re, 0});
            gx_number_put(real, to, (2 * k + 1) * lanes + l, (gx_scalar){w.im, 0});
        }
    }
    gx_mem_free(run->ctx->mem, r.low);
    return gx_ok(run);
}

/* The chirp exp(-pi i k^2 / n), and the transform of its conjugate, repeated, divided by m. */
static bool make_chirp(gx_run *run, gx_fft_plan *plan)
{
    int64_t n = plan->n, m = plan->first->n;
    plan->chirp = take(run, plan, n);
    plan->filter = take(run, plan, m);
    roots w = {.low = NULL};
    if (!gx_ok(run) || !make_roots(run, 2 * n, &w)) {
        return false;
    }
    memset(plan->filter, 0, (size_t)m * gx_number_bytes(plan->number));
    int64_t square = 0; // k^2 modulo 2 n
    for (int64_t k = 0; k < n && gx_run_poll(run) == GX_OK; k++) {
        gx_scalar c = root(&w, square);
        square = (square + 2 * k + 1) % (2 * n);
        gx_number_put(plan->number, plan->chirp, k, c);
        c.im = -c.im;
        gx_number_put(plan->number, plan->filter, k, c);
        if (k > 0) {
            gx_number_put(plan->number, plan->filter, m - k, c);
        }
    }
    gx_mem_free(run->ctx->mem, w.low);
    void *room = take(run, plan, m);
    gx_fft_lines lines = {
        {plan->filter, 2, 2 * m, 1}, {room, 2, 2 * m, 1}, 1, 1.0 / (double)m, NULL};
    gx_fft_transform(run, plan->first, &lines);
    gx_mem_free(run->ctx->mem, plan->filter);
    plan->filter = room;
    return gx_ok(run);
}

// Plans -------------------------------------------------------------------------------------------

static bool fill_plan(gx_run *run, gx_fft_plan *plan, gx_fft_lie lie)
{
    int64_t n = plan->n, n1 = half_of(n);
    plan->radices = factor(n, plan->radix);
    if (plan->radices < 0) {
        plan->first = gx_fft_plan_make(run, plan->number, smooth_above(2 * n - 1), GX_FFT_ALONE);
        return plan->first != NULL && make_chirp(run, plan);
    }
    if (n <= PASSES_MOST[lie] || n1 * n1 * 16 < n) {
        return make_passes(run, plan);
    }
    plan->first = gx_fft_plan_make(run, plan->number, n1, GX_FFT_ALWAYS);
    plan->second = gx_fft_plan_make(run, plan->number, n / n1, GX_FFT_ALWAYS);
    return gx_ok(run) && gx_fft_turn_make(run, plan->number, n, &plan->turn) == GX_OK &&
           make_lanes(run, plan);
}

gx_fft_plan *gx_fft_plan_make(gx_run *run, gx_number number, int64_t n, gx_fft_lie lie)
{
    gx_fft_plan *plan = gx_run_calloc(run, sizeof *plan, "a plan");
    if (plan == NULL) {
        return NULL;
    }
    plan->n = n;
    plan->number = number;
    if (!fill_plan(run, plan, lie)) {
        gx_fft_plan_free(run->ctx->mem, plan);
        return NULL;
    }
    return plan;
}

void gx_fft_plan_free(gx_mem *mem, gx_fft_plan *plan)
{
    if (plan == NULL) {
        return;
    }
    gx_fft_plan_free(mem, plan->first);
    gx_fft_plan_free(mem, plan->second);
    void *const tables[] = {plan->twiddles,   plan->turn.low, plan->turn.high,
                            plan->turn.lanes, plan->chirp,    plan->filter};
    for (int k = 0; k < 6; k++) {
        gx_mem_free(mem, tables[k]);
    }
    gx_mem_free(mem, plan);
}
