/*
** Lines: see lines.h.  The least, largest and median of what holds a NaN are NaN, as in NumPy.
*/
#include "lines.h"

#include "../base/convert.h"
#include "order.h"

#include <math.h>
#include <string.h>

enum {
    SQUARE = 32,      /* rows and columns of what is turned at once                */
    CACHED = 1 << 15, /* elements of the lines that are gathered at once ...       */
    ROOM = 1 << 19    /* ... where they are long                                   */
};

gx_lines gx_lines_of(const gx_type *type, int64_t axis)
{
    return (gx_lines){.type = *type,
                      .axis = axis,
                      .count = axis == 0   ? type->cols
                               : axis == 1 ? type->rows
                                           : 1,
                      .length = axis == 0   ? type->rows
                                : axis == 1 ? type->cols
                                            : type->rows * type->cols,
                      .is_complex = gx_dtype_is_complex(type->dtype)};
}

int64_t gx_lines_at_once(const gx_lines *lines)
{
    int64_t length = gx_max(1, lines->length);
    int64_t n = gx_min(gx_max(CACHED / length, SQUARE), ROOM / length);
    return gx_max(1, gx_min(n, lines->count / 16));
}

size_t gx_lines_bytes(const gx_lines *lines, int64_t n)
{
    size_t parts = lines->is_complex ? 2 : 1;
    return (size_t)(gx_max(1, n) * gx_max(1, lines->length)) * parts * sizeof(double);
}

/*
** Rows i ... i + m - 1 of a matrix, to or from doubles one row after the other, `stride` apart.  In
** squares: what lies together in one of the two is far apart in the other.
*/
typedef struct turn {
    const gx_type *type;
    gx_dtype wide;
    int64_t i, m, stride;
} turn;

/* The piece of column j that begins h0 rows further, h <= SQUARE of them, in the wide dtype. */
static void to_rows(const turn *t, const void *a, int64_t j, int64_t h0, int64_t h, double *line)
{
    double piece[2 * SQUARE];
    int64_t ld = gx_max(1, t->type->rows), parts = t->wide == GX_C128 ? 2 : 1;
    gx_convert(t->type->dtype, gx_at(a, t->type->dtype, ld, t->i + h0, j), h, t->wide, piece, h, h,
               1);
    double *to = line + (h0 * t->stride + j) * parts;
    for (int64_t r = 0; r < h; r++, to += t->stride * parts) {
        to[0] = piece[r * parts];
        to[parts - 1] = piece[r * parts + parts - 1];
    }
}

static void from_rows(const turn *t, void *c, int64_t j, int64_t h0, int64_t h, const double *line)
{
    double piece[2 * SQUARE];
    int64_t ld = gx_max(1, t->type->rows), parts = t->wide == GX_C128 ? 2 : 1;
    const double *from = line + (h0 * t->stride + j) * parts;
    for (int64_t r = 0; r < h; r++, from += t->stride * parts) {
        piece[r * parts] = from[0];
        piece[r * parts + parts - 1] = from[parts - 1];
    }
    gx_convert(t->wide, piece, h, t->type->dtype, gx_at(c, t->type->dtype, ld, t->i + h0, j), h, h,
               1);
}

void gx_lines_gather(const gx_lines *lines, const void *a, int64_t k, int64_t n, double *line)
{
    const gx_type *type = &lines->type;
    gx_dtype wide = gx_dtype_wide(type->dtype);
    if (lines->axis == 0) {
        int64_t ld = gx_max(1, type->rows);
        gx_convert(type->dtype, gx_at(a, type->dtype, ld, 0, k), ld, wide, line, ld, type->rows, n);
        return;
    }
    turn t = {type, wide, k, lines->axis == 1 ? n : type->rows, type->cols};
    for (int64_t i = 0; i < t.m; i += SQUARE) {
        for (int64_t j = 0; j < type->cols; j++) {
            to_rows(&t, a, j, i, gx_min(SQUARE, t.m - i), line);
        }
    }
}

void gx_lines_scatter(const gx_lines *lines, const gx_type *type, void *c, int64_t k, int64_t n,
                      const double *line)
{
    gx_dtype wide = lines->is_complex ? GX_C128 : GX_F64;
    if (lines->axis == 0) {
        int64_t ld = gx_max(1, type->rows);
        gx_convert(wide, line, lines->length, type->dtype, gx_at(c, type->dtype, ld, 0, k), ld,
                   type->rows, n);
        return;
    }
    turn t = {type, wide, k, n, lines->length};
    for (int64_t i = 0; i < n; i += SQUARE) {
        for (int64_t j = 0; j < type->cols; j++) {
            from_rows(&t, c, j, i, gx_min(SQUARE, n - i), line);
        }
    }
}

// Order -------------------------------------------------------------------------------------------

static bool has_nan(const double *line, int64_t length)
{
    bool found = false;
    for (int64_t k = 0; k < length; k++) {
        found |= isnan(line[k]) != 0;
    }
    return found;
}

static double quantile(gx_run *run, const double *line, int64_t length, double q, void *work)
{
    double place = q * (double)(length - 1), below = floor(place), pair[2];
    if (has_nan(line, length)) {
        return (double)NAN;
    }
    gx_order_pair(run, line, length, (int64_t)below, work, pair);
    bool is_one = place == below || pair[0] == pair[1];
    return is_one ? pair[0] : pair[0] + (pair[1] - pair[0]) * (place - below);
}

static double median(gx_run *run, const double *line, int64_t length, void *work)
{
    double pair[2];
    if (has_nan(line, length)) {
        return (double)NAN;
    }
    gx_order_pair(run, line, length, (length - 1) / 2, work, pair);
    return length % 2 == 1 || pair[0] == pair[1] ? pair[0] : (pair[0] + pair[1]) / 2;
}

// Of one line -------------------------------------------------------------------------------------

/* The place of the least (sign 1) or largest (-1), of the first NaN where there is one. */
static int64_t extreme(const double *line, int64_t length, double sign)
{
    int64_t best = 0;
    for (int64_t k = 1; k < length && !isnan(line[best]); k++) {
        if (sign * line[k] < sign * line[best] || isnan(line[k])) {
            best = k;
        }
    }
    return best;
}

static double log_sum_exp(const double *line, int64_t length)
{
    double most = line[extreme(line, length, -1)], sum = 0;
    if (!isfinite(most)) {
        return most;
    }
    for (int64_t k = 0; k < length; k++) {
        sum += exp(line[k] - most);
    }
    return most + log(sum);
}

/* The mean of |x - mean|^2, in two passes. */
static double variance(const double *line, int64_t length, int64_t parts)
{
    double mean[2] = {0, 0}, sum = 0;
    for (int64_t k = 0; k < length * parts; k++) {
        mean[k % parts] += line[k];
    }
    for (int64_t k = 0; k < length * parts; k++) {
        double off = line[k] - mean[k % parts] / (double)length;
        sum += off * off;
    }
    return sum / (double)length;
}

static gx_scalar product(const double *line, int64_t length, bool is_complex)
{
    gx_scalar p = {1, 0};
    for (int64_t k = 0; k < length; k++) {
        double re = line[is_complex ? 2 * k : k], im = is_complex ? line[2 * k + 1] : 0;
        p = is_complex ? (gx_scalar){p.re * re - p.im * im, p.re * im + p.im * re}
                       : (gx_scalar){p.re * re, 0};
    }
    return p;
}

/* How many are not zero. */
static int64_t count_true(const double *line, int64_t length, bool is_complex)
{
    int64_t count = 0;
    for (int64_t k = 0; k < length; k++) {
        count += is_complex ? line[2 * k] != 0 || line[2 * k + 1] != 0 : line[k] != 0;
    }
    return count;
}

size_t gx_line_work_bytes(gx_op_id op, int64_t length)
{
    bool has_keys = op == GX_OP_MEDIAN || op == GX_OP_QUANTILE;
    bool sorts = op == GX_OP_SORT || op == GX_OP_ARGSORT;
    return sorts      ? gx_order_bytes(length)
           : has_keys ? gx_order_pair_bytes(length)
                      : sizeof(double); // not looked at
}

gx_scalar gx_line_reduce(gx_run *run, gx_op_id op, const double *line, int64_t length,
                         bool is_complex, double q, void *work)
{
    double value = 0;
    switch (op) {
    case GX_OP_PROD:
        return product(line, length, is_complex);
    case GX_OP_MIN:
        value = line[extreme(line, length, 1)];
        break;
    case GX_OP_MAX:
        value = line[extreme(line, length, -1)];
        break;
    case GX_OP_ARGMIN:
        value = (double)extreme(line, length, 1);
        break;
    case GX_OP_ARGMAX:
        value = (double)extreme(line, length, -1);
        break;
    case GX_OP_ANY:
        value = count_true(line, length, is_complex) > 0;
        break;
    case GX_OP_ALL:
        value = count_true(line, length, is_complex) == length;
        break;
    case GX_OP_VAR:
        value = variance(line, length, is_complex ? 2 : 1);
        break;
    case GX_OP_STD:
        value = sqrt(variance(line, length, is_complex ? 2 : 1));
        break;
    case GX_OP_MEDIAN:
        value = median(run, line, length, work);
        break;
    case GX_OP_QUANTILE:
        value = quantile(run, line, length, q, work);
        break;
    default:
        value = log_sum_exp(line, length);
    }
    return (gx_scalar){value, 0};
}

// Along one line ----------------------------------------------------------------------------------

static void running(gx_op_id op, double *line, int64_t length, bool is_complex)
{
    int64_t parts = is_complex ? 2 : 1;
    for (int64_t k = 1; k < length; k++) {
        double *at = line + k * parts;
        const double *before = at - parts;
        if (op == GX_OP_CUMSUM) {
            at[0] += before[0];
            at[parts - 1] += is_complex ? before[1] : 0;
        } else if (is_complex) {
            double re = at[0] * before[0] - at[1] * before[1];
            at[1] = at[0] * before[1] + at[1] * before[0];
            at[0] = re;
        } else {
            at[0] *= before[0];
        }
    }
}

static void softmax(double *line, int64_t length)
{
    double most = length > 0 ? line[extreme(line, length, -1)] : 0, sum = 0;
    for (int64_t k = 0; k < length; k++) {
        line[k] = exp(line[k] - most);
        sum += line[k];
    }
    for (int64_t k = 0; k < length; k++) {
        line[k] /= sum;
    }
}

void gx_line_along(gx_run *run, gx_op_id op, double *line, int64_t length, bool is_complex,
                   void *work)
{
    int64_t parts = is_complex ? 2 : 1;
    if (op == GX_OP_CUMSUM || op == GX_OP_CUMPROD) {
        running(op, line, length, is_complex);
    } else if (op == GX_OP_DIFF) {
        for (int64_t k = 0; k + parts < length * parts; k++) {
            line[k] = line[k + parts] - line[k];
        }
    } else if (op == GX_OP_SOFTMAX) {
        softmax(line, length);
    } else {
        const gx_ranked *sorted = gx_order_line(run, line, length, work);
        for (int64_t k = 0; k < length; k++) {
            line[k] = op == GX_OP_SORT ? sorted[k].value : (double)sorted[k].index;
        }
    }
}
