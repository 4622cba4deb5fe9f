/*
** Queries beside rows that are codes: see knn_codes.h.
*/
#include "knn_codes.h"

#include <math.h>
#include <string.h>

bool gx_code_query(const double *q, int64_t d, int bits, int64_t padded, gx_metric metric,
                   int16_t *b, gx_query_code *code)
{
    static const double MOST_CODE[] = {[8] = 128, [4] = 8, [1] = 1};
    double square = 0, sum = 0, most = 0, rest = 0;
    for (int64_t l = 0; l < d; l++) {
        square += q[l] * q[l];
        sum += fabs(q[l]);
        most = fabs(q[l]) > most ? fabs(q[l]) : most;
    }
    double length = sqrt(square);
    if (!(length == 0 || (length >= 0x1p-50 && length <= 0x1p50))) {
        return false;
    }
    // Sums of products fit 32 bits, numbers 16.
    double room = ((double)INT32_MAX / MOST_CODE[bits] - (double)padded - 1) / (sum == 0 ? 1 : sum);
    double t = fmin(INT16_MAX / (most == 0 ? 1 : most), room);
    if (!(t > 0)) {
        return false;
    }
    for (int64_t l = 0; l < d; l++) {
        double whole = rint(q[l] * t), off = q[l] - whole / t;
        b[l] = (int16_t)whole;
        rest += off * off;
    }
    bool is_cosine = metric == GX_METRIC_COSINE;
    code->length = length;
    code->alpha = (float)(length == 0 ? 0 : is_cosine ? 1 / (t * length) : 1 / t);
    code->gamma = (float)(is_cosine ? 1 : length);
    code->off = length == 0 ? 0 : sqrt(rest) / length + GX_CODES_ROUNDING;
    return true;
}

/* Norms that f32 holds the squares of, none of them 0. */
static bool are_plain(const float *norm, int64_t m)
{
    int is = 1;
    for (int64_t i = 0; i < m; i++) {
        is &= (norm[i] >= 0x1p-50f) & (norm[i] <= 0x1p50f);
    }
    return is != 0;
}

/* The same of such rows as gx_weigh_rows() makes, without a branch; no COSINE. */
static void weigh_plain(const gx_row_facts *facts, int64_t m, bool has_square, double off,
                        bool is_exact, const gx_row_weights *to)
{
    const float *restrict scale = facts->scale, *restrict norm = facts->norm;
    float *restrict a = to->a, *restrict b = to->b, *restrict e = to->e, *restrict f = to->f;
    const float by = has_square ? 2 : 1, square = has_square ? -1 : 0;
    for (int64_t i = 0; i < m; i++) {
        a[i] = scale[i] * by;
        b[i] = norm[i] * norm[i] * square;
    }
    if (!is_exact) {
        memset(e, 0, (size_t)m * sizeof *e);
        memset(f, 0, (size_t)m * sizeof *f);
        return;
    }
    const double rounding = has_square ? GX_CODES_ROUNDING : 0;
    for (int64_t i = 0; i < m; i++) {
        double rest = (double)facts->residual[i], x = (double)norm[i];
        e[i] = (float)((rest + (x + rest) * off) * (double)by);
        f[i] = (float)(x * x * rounding);
    }
}

void gx_weigh_rows(const gx_row_facts *facts, int64_t m, gx_metric metric, double off,
                   bool is_exact, const gx_row_weights *to)
{
    if (metric != GX_METRIC_COSINE && are_plain(facts->norm, m)) {
        weigh_plain(facts, m, metric == GX_METRIC_SQUARED, off, is_exact, to);
        return;
    }
    for (int64_t i = 0; i < m; i++) {
        double scale = (double)facts->scale[i], rest = (double)facts->residual[i];
        double x = (double)facts->norm[i];
        bool is_extreme = x != 0 && !(x >= 0x1p-50 && x <= 0x1p50);
        double e = is_extreme ? INFINITY : rest + (x + rest) * off;
        double two = metric == GX_METRIC_SQUARED ? 2 : 1;
        double by = metric == GX_METRIC_COSINE ? x == 0 ? 0 : 1 / x : two;
        bool has_square = metric == GX_METRIC_SQUARED;
        to->a[i] = is_extreme ? 0 : (float)(scale * by);
        to->b[i] = has_square && !is_extreme ? (float)-(x * x) : 0;
        to->e[i] = !is_exact || x == 0 ? 0 : (float)(e * by);
        to->f[i] = has_square && is_exact && !is_extreme ? (float)(x * x * GX_CODES_ROUNDING) : 0;
    }
}

double gx_code_wanted(gx_metric metric, double length, double merit)
{
    double square = length * length;
    return metric != GX_METRIC_SQUARED || !isfinite(merit)
               ? merit
               : merit + square - (square - merit) * GX_CODES_ROUNDING * GX_CODES_ROUNDING;
}
