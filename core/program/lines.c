/*
** Lines: see lines.h.  The least, largest and median of what holds a NaN are NaN, as in NumPy.
*/
#include "lines.h"

#include "../base/convert.h"
#include "order.h"

#include <math.h>
#include <string.h>

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

/* Row i of a matrix: doubles at line. */
static void gather_row(const gx_type *t, const void *a, int64_t i, gx_dtype wide, double *line)
{
    int64_t ld = gx_max(1, t->rows);
    gx_convert(t->dtype, gx_at(a, t->dtype, ld, i, 0), ld, wide, line, 1, 1, t->cols);
}

void gx_line_gather(const gx_lines *lines, const void *a, int64_t k, double *line)
{
    const gx_type *t = &lines->type;
    gx_dtype wide = gx_dtype_wide(t->dtype);
    int64_t ld = gx_max(1, t->rows), parts = lines->is_complex ? 2 : 1;
    if (lines->axis == 0) {
        gx_convert(t->dtype, gx_at(a, t->dtype, ld, 0, k), ld, wide, line, ld, t->rows, 1);
    } else if (lines->axis == 1) {
        gather_row(t, a, k, wide, line);
    } else {
        for (int64_t i = 0; i < t->rows; i++) {
            gather_row(t, a, i, wide, line + i * t->cols * parts);
        }
    }
}

void gx_line_scatter(int64_t axis, const gx_type *t, void *c, int64_t k, const double *line,
                     bool is_complex)
{
    gx_dtype wide = is_complex ? GX_C128 : GX_F64;
    int64_t ld = gx_max(1, t->rows);
    if (axis == 0) {
        gx_convert(wide, line, ld, t->dtype, gx_at(c, t->dtype, ld, 0, k), ld, t->rows, 1);
    } else {
        gx_convert(wide, line, 1, t->dtype, gx_at(c, t->dtype, ld, k, 0), ld, 1, t->cols);
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
