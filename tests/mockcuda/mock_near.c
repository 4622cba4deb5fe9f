/*
** Stand-in for the device code of neighbours (kernels/cuda_nearest.cu): the same stages, between
** the same buffers.  What is foretold is rounded to the block's dtype number by number; lanes share
** the rows as the device's do, and hold no more; merits are the reference's.
*/
#include "mock_near.h"

#include "../../kernels/foretell.h"
#include "../oracle/oracle.h"
#include "base/best.h"

#include <stdlib.h>
#include <string.h>

static double get(gx_number dtype, const void *x, int64_t at)
{
    return dtype == GX_F64 ? ((const double *)x)[at] : (double)((const float *)x)[at];
}

static void put(gx_number dtype, void *x, int64_t at, double value)
{
    if (dtype == GX_F64) {
        ((double *)x)[at] = value;
    } else {
        ((float *)x)[at] = (float)value;
    }
}

/* The number that the dtype makes of it. */
static double rounded(gx_number dtype, double x)
{
    return dtype == GX_F64 ? x : (double)(float)x;
}

static double sum_of(gx_number dtype, const gx_cuda_near *p, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t l = 0; l < p->k; l++) {
        double x = get(dtype, p->a, l * p->lda + p->i0 + i);
        double y = get(dtype, p->b, p->is_turned ? l * p->ldb + j : j * p->ldb + l);
        double gap = rounded(dtype, x - y);
        double term = !p->has_gaps ? x * y : p->metric == GX_METRIC_SQUARED ? gap * gap : fabs(gap);
        sum = rounded(dtype, sum + term);
    }
    return sum;
}

/* Looks at row i: the sum of its squares, without the shift. */
static double square_of(gx_number dtype, const gx_cuda_near *p, int64_t i, bool *is_finite)
{
    double square = 0;
    *is_finite = true;
    for (int64_t l = 0; l < p->k; l++) {
        double x = get(dtype, p->a, l * p->lda + p->i0 + i);
        *is_finite = *is_finite && isfinite(x);
        x -= p->is_shifted ? get(dtype, p->shift, l) : 0;
        square += x * x;
        square = square == 0 && x != 0 ? 0x1p-1074 : square; // small, not zeros
    }
    return square;
}

static void keep_row(gx_number dtype, const gx_cuda_near *p, int64_t i)
{
    bool is_finite, is_cosine = p->metric == GX_METRIC_COSINE;
    double square = square_of(dtype, p, i, &is_finite);
    uint32_t bad = (uint32_t)(INT32_MAX - (p->i0 + i));
    if (!is_finite) {
        p->state->bad = p->state->bad > bad ? p->state->bad : bad;
    } else if (!p->has_gaps) {
        p->state->vague |= gx_is_extreme_square(dtype == GX_F64, square);
        p->state->longest = fmax(p->state->longest, square);
        put(dtype, p->factor, i, !is_cosine ? square : square == 0 ? 0 : 1 / sqrt(square));
    }
}

void mock_near_rows(gx_number dtype, const gx_cuda_near *p)
{
    for (int64_t i = 0; i < p->rows; i++) {
        for (int64_t l = 0; l < p->k && p->is_shifted; l++) {
            double x = get(dtype, p->a, l * p->lda + p->i0 + i);
            put(dtype, p->shifted, l * p->rows + i, x - get(dtype, p->shift, l));
        }
        for (int64_t q = 0; q < p->few; q++) {
            put(dtype, p->value, i + q * p->ldv, sum_of(dtype, p, i, q));
        }
        keep_row(dtype, p, i);
    }
}

// Pieces ------------------------------------------------------------------------------------------

double mock_of_half(uint16_t bits)
{
    int exponent = bits >> 10 & 31, digits = bits & 1023;
    double x = exponent == 0 ? ldexp(digits, -24) : ldexp(1024 + digits, exponent - 25);
    return (bits & 0x8000) != 0 ? -x : x;
}

uint16_t mock_half_of(double x)
{
    int exponent;
    frexp(x, &exponent);
    int unit = exponent - 11 > -24 ? exponent - 11 : -24;
    double digits = nearbyint(ldexp(fabs(x), -unit)); // a carry goes to the exponent
    uint32_t bits = x == 0        ? 0
                    : isfinite(x) ? (uint32_t)(unit + 24) * 1024 + (uint32_t)digits
                                  : 0x7c00;
    return (uint16_t)((bits < 0x7c00 ? bits : 0x7c00) | (signbit(x) ? 0x8000 : 0));
}

/* The power of two that brings the largest of k numbers to 2^14 or a little more. */
static float scale_of(double most)
{
    int exponent;
    frexp(isfinite(most) ? most : 0, &exponent);
    return ldexpf(1, 15 - (exponent > 101 ? 101 : exponent < -99 ? -99 : exponent));
}

/* Parts of x, in three pieces `next` apart: high; and the two in this order. */
static void split(float x, uint16_t *piece, int64_t next, int64_t low, int64_t high_again)
{
    piece[0] = piece[high_again * next] = mock_half_of((double)x);
    if (low > 0) {
        piece[low * next] = mock_half_of((double)(x - (float)mock_of_half(piece[0])));
    }
}

void mock_near_pieces(gx_number dtype, const gx_cuda_near *p)
{
    for (int64_t i = 0; i < p->rows; i++) {
        uint16_t *piece = (uint16_t *)p->pieces + i;
        double most = 0;
        for (int pass = 0; pass < 2; pass++) {
            float scale = scale_of(most);
            for (int64_t l = 0; l < (pass == 0 ? p->k : p->deep); l++) {
                double x = l < p->k ? get(dtype, p->a, l * p->lda + p->i0 + i) : 0;
                x -= l < p->k && p->is_shifted ? get(dtype, p->shift, l) : 0;
                most = fmax(most, fabs((double)(float)x));
                if (pass == 1) {
                    split((float)x * scale, piece + l * p->ldp, p->deep * p->ldp, p->parts - 2,
                          p->parts - 1);
                }
            }
            p->row_scale[i] = 1 / scale;
        }
        keep_row(dtype, p, i);
    }
}

void mock_near_image(gx_number dtype, const gx_cuda_near *p)
{
    for (int64_t j = 0; j < p->n; j++) {
        uint16_t *piece = (uint16_t *)p->image + j * p->parts * p->deep;
        double most = 0;
        for (int64_t l = 0; l < p->k; l++) {
            most = fmax(most, fabs(get(dtype, p->b, j * p->ldb + l)));
        }
        for (int64_t l = 0; l < p->deep; l++) {
            float x = l < p->k ? (float)get(dtype, p->b, j * p->ldb + l) : 0;
            split(x * scale_of(most), piece + l, p->deep, p->parts - 1, p->parts - 2);
        }
        p->b_scale[j] = 1 / scale_of(most);
    }
}

// Sums of magnitudes ------------------------------------------------------------------------------

void mock_near_apart(gx_number dtype, const gx_cuda_near *p)
{
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->rows; i++) {
            double before = p->adds ? get(dtype, p->value, i + j * p->ldv) : 0;
            put(dtype, p->value, i + j * p->ldv, before + sum_of(dtype, p, i, j));
        }
    }
}

// Sieves ------------------------------------------------------------------------------------------

typedef struct sieve {
    gx_number dtype;
    double value[GX_CUDA_NEAR_ROOM], least;
    int32_t row[GX_CUDA_NEAR_ROOM];
    int32_t count, room, wanted;
    gx_sight how;
    gx_errors errors;
} sieve;

static int descending(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a < b) - (a > b);
}

static void thin_out(sieve *s)
{
    double sorted[GX_CUDA_NEAR_ROOM];
    int32_t kept = 0;
    memcpy(sorted, s->value, (size_t)s->count * sizeof *sorted);
    qsort(sorted, (size_t)s->count, sizeof *sorted, descending);
    if (s->count <= s->wanted || !isfinite(sorted[s->wanted - 1])) {
        return;
    }
    double other = gx_lowered(gx_lowered(sorted[s->wanted - 1], &s->errors), &s->errors);
    s->least = fmax(s->least, other);
    for (int32_t e = 0; e < s->count; e++) {
        if (s->value[e] >= s->least) {
            s->value[kept] = s->value[e];
            s->row[kept++] = s->row[e];
        }
    }
    s->count = kept;
}

/* false: it stays full. */
static bool add(sieve *s, double value, int32_t row)
{
    const int32_t STEP = 1024; // what the device keeps free
    if (s->count == s->room - STEP) {
        thin_out(s);
    }
    if (s->count == s->room - STEP) {
        return false;
    }
    if (value >= s->least) {
        s->value[s->count] = value;
        s->row[s->count++] = row;
    }
    return true;
}

/* Of query j, empty. */
static void begin(gx_number dtype, const gx_cuda_near *p, int64_t j, sieve *s)
{
    double unit = gx_unit_of(dtype == GX_F64, p->k);
    gx_prospect q = {.metric = (gx_metric)p->metric,
                     .has_gaps = p->has_gaps,
                     .k = (double)p->k,
                     .unit = unit,
                     .length = p->length[j],
                     .longest = sqrt(p->state->longest) * (1 + unit)};
    double bound = p->goes_on ? p->merit[(j + 1) * p->count - 1] : -(double)INFINITY;
    s->dtype = dtype;
    s->count = 0;
    s->room = dtype == GX_F64 ? GX_CUDA_NEAR_ROOM_F64 : GX_CUDA_NEAR_ROOM;
    s->wanted = (int32_t)p->count + (p->self != GX_NO_SELF);
    s->least = gx_foretell(&q, bound, &s->how, &s->errors);
}

static double seen(const gx_cuda_near *p, const sieve *s, int64_t i, int64_t j)
{
    double x = get(s->dtype, p->value, i + j * p->ldv);
    x = p->row_scale != NULL ? x * (double)p->row_scale[i] * (double)p->b_scale[j] : x;
    double factor = p->has_gaps ? 1 : get(s->dtype, p->factor, i);
    x = s->dtype == GX_F64 ? gx_seen_f64(s->how, x, factor)
                           : (double)gx_seen_f32(s->how, (float)x, (float)factor);
    return isfinite(x) ? x : (double)INFINITY;
}

static void select_lane(const gx_cuda_near *p, int64_t j, int64_t lane, sieve *s)
{
    gx_number dtype = s->dtype;
    int64_t slot = j * p->lanes + lane, width = gx_ceil_div(p->rows, p->lanes);
    bool is_vague = gx_is_extreme_length(dtype == GX_F64, p->length[j]);
    s->count = p->i0 > 0 ? p->held[slot] : 0;
    s->least = p->i0 > 0 ? fmax(s->least, p->held_least[slot]) : s->least;
    for (int32_t e = 0; e < s->count; e++) {
        s->value[e] = get(dtype, p->held_value, slot * s->room + e);
        s->row[e] = p->held_row[slot * s->room + e];
    }
    for (int64_t i = lane * width; i < gx_min(p->rows, (lane + 1) * width) && !is_vague; i++) {
        is_vague = !add(s, seen(p, s, i, j), (int32_t)(p->i0 + i));
    }
    thin_out(s);
    p->state->vague |= is_vague;
    for (int32_t e = 0; e < s->count; e++) {
        put(dtype, p->held_value, slot * s->room + e, s->value[e]);
        p->held_row[slot * s->room + e] = s->row[e];
    }
    p->held[slot] = s->count;
    p->held_least[slot] = s->least;
}

void mock_near_select(gx_number dtype, const gx_cuda_near *p)
{
    sieve *s = malloc(sizeof *s);
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t lane = 0; lane < p->lanes; lane++) {
            begin(dtype, p, j, s);
            select_lane(p, j, lane, s);
        }
    }
    free(s);
}

// Merits ------------------------------------------------------------------------------------------

void mock_near_merit(gx_number dtype, const gx_cuda_near *p)
{
    gx_nearest w = {.metric = (gx_metric)p->metric,
                    .query = p->query,
                    .square = p->square,
                    .count = p->n,
                    .merit = p->merit,
                    .row = p->row,
                    .column = p->column};
    gx_args args = {.k = p->k, .a = p->a, .lda = p->lda, .nearest = &w};
    (void)gx_oracle.kernel[GX_MERIT][dtype](NULL, NULL, &args, NULL);
}

/* All lanes' of query j; false: they stay too many. */
static bool gather(const gx_cuda_near *p, int64_t j, sieve *s)
{
    bool has_room = true;
    for (int64_t slot = j * p->lanes; slot < (j + 1) * p->lanes && has_room; slot++) {
        for (int32_t e = 0; e < p->held[slot] && has_room; e++) {
            int64_t at = slot * s->room + e;
            has_room = add(s, get(s->dtype, p->held_value, at), p->held_row[at]);
        }
    }
    thin_out(s);
    return has_room && s->count <= GX_CUDA_NEAR_LAST;
}

static void finish_query(const gx_cuda_near *p, int64_t j, sieve *s)
{
    double *list = p->merit + j * p->count, merit[GX_CUDA_NEAR_LAST];
    int64_t *index = p->index + j * p->count, row[GX_CUDA_NEAR_LAST], column[GX_CUDA_NEAR_LAST];
    for (int32_t e = 0; e < s->count; e++) {
        row[e] = s->row[e];
        column[e] = j;
    }
    gx_cuda_near pairs = *p;
    pairs.n = s->count;
    pairs.row = row;
    pairs.column = column;
    pairs.merit = merit;
    mock_near_merit(s->dtype, &pairs);
    gx_best_begin(list, index, p->count, p->goes_on);
    for (int32_t e = 0; e < s->count; e++) {
        int64_t number = p->first_index + row[e];
        bool is_own = p->self != GX_NO_SELF && number == p->self + j;
        if (!is_own && gx_best_is_worse(list[0], index[0], merit[e], number)) {
            gx_best_sift(list, index, p->count, merit[e], number);
        }
    }
    gx_best_sort(list, index, p->count);
}

void mock_near_finish(gx_number dtype, const gx_cuda_near *p)
{
    sieve *s = malloc(sizeof *s);
    for (int64_t j = 0; j < p->n; j++) {
        begin(dtype, p, j, s);
        if (p->state->bad != 0) {
            p->state->outcome = INT32_MAX - (int32_t)p->state->bad + 1;
        } else if (p->state->vague != 0 || !gather(p, j, s)) {
            p->state->outcome = -1;
        } else {
            finish_query(p, j, s);
        }
    }
    free(s);
}
