/*
** Rows become codes (core/mat/quantized.h), in one pass: a unit is a tile of codes, all columns of
** some rows, of which a thread reads some at a time.  Tiles are written by the caller, in order.
**
** The residual is a bound that holds for the elements as they are stored.  A code times its scale,
** of 8 and 16 bits, is a double exactly, and so is its difference from x but for one rounding; the
** squares are summed in double, and the root is raised by more than these roundings may come to,
** and then to an f32.  Squares below 1e-308 vanish: LEAST is more than the roots of all of them.
*/
#include "quantize.h"

#include "../exec/pass.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Bytes of a tile of codes, and of the numbers that a thread reads at once: about. */
enum { TILE_BYTES = 2 << 20, CHUNK_BYTES = 4 << 20 };

/* Numbers of a row in front of its elements: struct rows. */
enum { FACTS = 5 };

static const double LEAST = 0x1p-126;

typedef struct quantizing {
    gx_run *run;
    const gx_mat *A;
    gx_sink C;
    int bits, per; /* of a code; codes of a byte        */
    int64_t codes; /* bytes of a row's codes            */
    int64_t chunk; /* rows that are read at once        */
} quantizing;

/* Of the rows that are read at once. */
typedef struct rows {
    double *x;                      /* m x columns                     */
    double *largest, *sum, *square; /* of |x|, of |x|, of x^2          */
    double *scale, *rest;           /* rest: the squares of what is off */
    int64_t m;
} rows;

size_t gx_quantize_bytes(int64_t m, int64_t cols)
{
    return (size_t)((FACTS + cols) * m) * sizeof(double);
}

double *gx_quantize_rows_at(void *work, int64_t m)
{
    return (double *)work + FACTS * m;
}

static rows rows_in(void *work, int64_t room, int64_t m)
{
    double *at = work;
    return (rows){.x = gx_quantize_rows_at(work, room),
                  .largest = at,
                  .sum = at + room,
                  .square = at + 2 * room,
                  .scale = at + 3 * room,
                  .rest = at + 4 * room,
                  .m = m};
}

/* The first number of a column that cannot be quantised is named. */
static gx_code refuse(const quantizing *q, const rows *r, int64_t i0, int64_t j, gx_err *err)
{
    for (int64_t i = 0; i < r->m; i++) {
        double x = r->x[j * r->m + i];
        if (!isfinite(x)) {
            return gx_fail(err, GX_ARG,
                           "%s has %s at (%" PRId64 ", %" PRId64 "): only numbers have codes",
                           q->A->label, isnan(x) ? "NaN" : "Inf", i0 + i, j);
        }
    }
    return GX_OK;
}

static bool is_extreme(const rows *r, int64_t i)
{
    double most = r->largest[i];
    return most != 0 && !(most >= GX_QUANTIZED_LEAST && most <= GX_QUANTIZED_MOST);
}

static gx_code measure(const quantizing *q, rows *r, int64_t i0, gx_err *err)
{
    for (int64_t i = 0; i < r->m; i++) {
        r->largest[i] = r->sum[i] = r->square[i] = 0;
    }
    for (int64_t j = 0; j < q->A->cols; j++) {
        const double *x = r->x + j * r->m;
        double odd = 0;
        for (int64_t i = 0; i < r->m; i++) {
            double size = fabs(x[i]);
            odd += x[i] * 0; // NaN where a number is none
            r->largest[i] = size > r->largest[i] ? size : r->largest[i];
            r->sum[i] += size;
            r->square[i] += x[i] * x[i];
        }
        if (odd != 0) {
            return refuse(q, r, i0, j, err);
        }
    }
    return GX_OK;
}

static gx_code refuse_extremes(const quantizing *q, const rows *r, int64_t i0, gx_err *err)
{
    for (int64_t i = 0; i < r->m; i++) {
        if (is_extreme(r, i)) {
            return gx_fail(err, GX_ARG,
                           "row %" PRId64 " of %s has numbers of %.3g and less: the largest of a "
                           "row must be between 2^-100 and 2^100, or 0",
                           i0 + i, q->A->label, r->largest[i]);
        }
    }
    return GX_OK;
}

/* Rounded up to 16 bits. */
static double short_scale(double scale)
{
    int exponent;
    double fraction = frexp(scale, &exponent);
    return ldexp(ceil(ldexp(fraction, 16)), exponent - 16);
}

static void choose_scales(const quantizing *q, rows *r)
{
    double most = q->bits == 8 ? 127 : 7;
    for (int64_t i = 0; i < r->m; i++) {
        double scale = q->bits == 1 ? r->sum[i] / (double)q->A->cols : r->largest[i] / most;
        r->scale[i] = scale == 0 ? 0 : short_scale(scale);
        r->rest[i] = 0;
    }
}

/* Column j in codes, and what they are off. */
static void code_column(const quantizing *q, rows *r, int64_t j, uint8_t *bytes)
{
    const double *x = r->x + j * r->m;
    const double UNIT_IS_1 = 0x1.8p52; // adding and taking it off rounds
    int within = (int)(j % q->per);
    for (int64_t i = 0; i < r->m; i++) {
        double scale = r->scale[i], code = scale == 0 ? 0 : x[i] / scale;
        code = q->bits == 1 ? x[i] < 0 ? -1 : 1 : code + UNIT_IS_1 - UNIT_IS_1;
        double off = x[i] - code * scale;
        r->rest[i] += off * off;
        int whole = (int)code;
        bytes[i] |= (uint8_t)(q->bits == 8   ? whole
                              : q->bits == 4 ? (whole + 8) << 4 * within
                                             : (whole > 0) << within);
    }
}

/* A number as f32, not rounded down. */
static float raised(double x)
{
    float y = (float)x;
    return (double)y < x ? nextafterf(y, INFINITY) : y;
}

/* Scale, residual and norm of a row. */
static void facts_of(const rows *r, int64_t i, int64_t d, float facts[3])
{
    double slack = 1 + (double)(d + 16) * DBL_EPSILON;
    double off = sqrt(r->rest[i]) * slack, norm = sqrt(r->square[i]);
    facts[0] = (float)r->scale[i];
    facts[1] = norm == 0 ? 0 : raised(off + LEAST);
    facts[2] = (float)norm;
}

/* They, byte by byte, into columns of a tile of ld rows. */
static void put_facts(const rows *r, int64_t d, uint8_t *to, int64_t ld)
{
    for (int64_t i = 0; i < r->m; i++) {
        float facts[3];
        uint8_t bytes[sizeof facts];
        facts_of(r, i, d, facts);
        memcpy(bytes, facts, sizeof facts);
        for (size_t b = 0; b < sizeof facts; b++) {
            to[(int64_t)b * ld + i] = bytes[b];
        }
    }
}

gx_code gx_quantize_rows(const gx_mat *A, int64_t i0, int64_t m, void *work,
                         const gx_row_facts *facts, int8_t *codes, gx_err *err)
{
    const quantizing q = {.A = A, .bits = 8, .per = 1, .chunk = m};
    rows r = rows_in(work, m, m);
    GX_TRY(measure(&q, &r, i0, err));
    choose_scales(&q, &r);
    for (int64_t i = 0; i < m; i++) {
        r.scale[i] = is_extreme(&r, i) ? 0 : r.scale[i];
    }
    memset(codes, 0, (size_t)(m * A->cols));
    for (int64_t j = 0; j < A->cols; j++) {
        code_column(&q, &r, j, (uint8_t *)codes + j * m);
    }
    for (int64_t i = 0; i < m; i++) {
        float of[3] = {0, GX_ROW_FACT_MOST, GX_ROW_FACT_MOST}; // there are no bounds
        if (!is_extreme(&r, i)) {
            facts_of(&r, i, A->cols, of);
        }
        facts->scale[i] = of[0];
        facts->residual[i] = of[1];
        facts->norm[i] = of[2];
    }
    return GX_OK;
}

static gx_code code_tile(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                         gx_err *err)
{
    const quantizing *q = arg;
    int64_t i0 = unit * q->C.tile_rows, high = gx_min(q->C.tile_rows, q->C.rows - i0);
    uint8_t *bytes = part;
    memset(bytes, 0, (size_t)(high * q->C.cols));
    for (int64_t i = 0; i < high; i += q->chunk) {
        rows r = rows_in(work, q->chunk, gx_min(q->chunk, high - i));
        GX_TRY(gx_pass_read(thread, q->A, i0 + i, 0, r.m, q->A->cols, GX_F64, r.x, r.m, err));
        GX_TRY(measure(q, &r, i0 + i, err));
        GX_TRY(refuse_extremes(q, &r, i0 + i, err));
        choose_scales(q, &r);
        for (int64_t j = 0; j < q->A->cols; j++) {
            code_column(q, &r, j, bytes + (GX_ROW_FACTS + j / q->per) * high + i);
        }
        put_facts(&r, q->A->cols, bytes + i, high);
    }
    return GX_OK;
}

static gx_code write_tile(void *arg, int64_t unit, void *part, gx_err *err)
{
    quantizing *q = arg;
    return gx_store_write_tile(q->run->ctx->store, &q->C.meta, unit, part, err);
}

static void pass_over(quantizing *q)
{
    gx_err err = {0};
    const gx_mat *sources[] = {q->A};
    const gx_mat *stored = gx_mat_base_stored(q->A);
    double numbers = (double)q->A->rows * (double)q->A->cols;
    gx_pass pass = {.sources = sources,
                    .source_count = 1,
                    .units = gx_ceil_div(q->C.rows, q->C.tile_rows),
                    .bytes = numbers * (double)gx_dtype_bytes(q->A->dtype),
                    .flops = 8 * numbers,
                    .work_bytes = gx_quantize_bytes(q->chunk, q->A->cols),
                    .part_bytes = (size_t)(q->C.tile_rows * q->C.cols),
                    .work = code_tile,
                    .fold = write_tile,
                    .is_callers = true,
                    .writes = q->C.meta.schema,
                    .arg = q};
    gx_pass_run(q->run, &pass);
    gx_quantized_of of = {0};
    if (q->A->kind == GX_MAT_STORED && stored != NULL &&
        strcmp(stored->meta.schema, q->C.meta.schema) == 0) {
        of = (gx_quantized_of){stored->meta.id, stored->meta.generation};
    }
    if (gx_ok(q->run)) {
        gx_quantized_write_of(q->run->ctx->store, &q->C.meta, &of, &err);
        gx_run_fail(q->run, &err);
    }
}

gx_code gx_alg_quantize(gx_run *run, const gx_mat *A, int bits, const gx_dest *dest)
{
    quantizing q = {.run = run, .A = A, .bits = bits, .per = 8 / bits};
    gx_dest bytes = *dest;
    if (!gx_ok(run)) {
        return run->err.code;
    }
    if (gx_number_is_complex(A->number)) {
        return gx_run_failf(run, GX_ARG, "%s is complex (%s): only real numbers have codes",
                            A->label, gx_number_name(A->number));
    }
    if (A->rows == 0 || A->cols == 0) {
        return gx_run_failf(run, GX_ARG, "%s is %" PRId64 "x%" PRId64 ": there is nothing to code",
                            A->label, A->rows, A->cols);
    }
    q.codes = gx_ceil_div(A->cols, q.per);
    int64_t tile = (int64_t)gx_store_max_tile_bytes(run->ctx->store);
    int64_t high = gx_max(1, gx_min(tile, TILE_BYTES) / (q.codes + GX_ROW_FACTS));
    q.chunk = gx_max(1, gx_min(tile, CHUNK_BYTES) / (int64_t)sizeof(double) / A->cols);
    high = gx_min(A->rows, high > 64 ? high / 64 * 64 : high);
    q.chunk = gx_min(q.chunk, high);
    uint32_t properties = GX_PROP_QUANTIZED |
                          (bits == 8   ? 0u
                           : bits == 4 ? 1u
                                       : 2u)
                              << GX_PROP_CODES_AT |
                          (uint32_t)(q.codes * q.per - A->cols) << GX_PROP_UNUSED_AT;
    bytes.has_dtype = bytes.is_streamed = true;
    bytes.dtype = GX_DTYPE_I8;
    gx_sink_begin(run, &bytes, A->rows, q.codes + GX_ROW_FACTS, GX_F32, properties, high,
                  q.codes + GX_ROW_FACTS, &q.C);
    if (gx_ok(run)) {
        pass_over(&q);
    }
    return gx_sink_end(&q.C);
}
