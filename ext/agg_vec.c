/*
** gx_vec_sum(v), gx_vec_mean(v): sums and means of vectors in rows, element by element, with OVER
** too.
**
** A sum is kept as a pair of doubles, high and low (T. Dekker, "A floating-point technique for
** extending the available precision", 1971): adding loses nothing until 106 bits are full, so a row
** that leaves a window takes with it what it brought, and the order of rows hardly shows.
*/
#include "agg_fn.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct vec_options {
    gx_dtype dtype; /* of raw elements */
    bool has_dtype;
} vec_options;

static const gx_option vec_keys[] = {
    {"dtype", GX_OPT_DTYPE, offsetof(vec_options, dtype), offsetof(vec_options, has_dtype)},
    {NULL, GX_OPT_END, 0, 0}};

typedef struct vec_state {
    vec_options opt;
    int64_t rows, size; /* vectors in the sum; their elements, -1: none came yet */
    double *high, *low; /* one block; of ctx->mem                                 */
} vec_state;

static gx_code start(gx_ctx *ctx, void *state, int argc, const void *options, gx_err *err)
{
    vec_state *s = state;
    (void)ctx, (void)argc, (void)err;
    s->opt = *(const vec_options *)options;
    s->size = -1;
    return GX_OK;
}

static gx_code make_room(gx_ctx *ctx, vec_state *s, int64_t size, gx_err *err)
{
    void *block;
    size_t bytes = 2 * (size_t)size * sizeof(double);
    GX_TRY(gx_mem_alloc(ctx->mem, bytes, "a sum of vectors", &block, err));
    memset(block, 0, bytes);
    s->high = block;
    s->low = s->high + size;
    s->size = size;
    return GX_OK;
}

static void accumulate(vec_state *s, const double *x, double sign)
{
    for (int64_t k = 0; k < s->size; k++) {
        double term = sign * x[k], high = s->high[k], sum = high + term, part = sum - high;
        double low = s->low[k] + ((high - (sum - part)) + (term - part));
        s->high[k] = sum + low;
        s->low[k] = low - (s->high[k] - sum);
    }
}

static gx_code check(const vec_state *s, const double *x, int64_t count, gx_err *err)
{
    if (count != s->size) {
        return gx_fail(err, GX_ARG, "v has %" PRId64 " elements, expected %" PRId64, count,
                       s->size);
    }
    for (int64_t k = 0; k < count; k++) {
        if (!isfinite(x[k])) {
            return gx_fail(err, GX_ARG, "element %" PRId64 " of v is %s", k,
                           isnan(x[k]) ? "NaN" : "infinite");
        }
    }
    return GX_OK;
}

static gx_code take(gx_ctx *ctx, vec_state *s, sqlite3_value *value, int sign, gx_err *err)
{
    int64_t count;
    void *data;
    const gx_row_wish wish = {.dtype = s->opt.dtype,
                              .number = GX_F64,
                              .is_stated = s->opt.has_dtype,
                              .cols = s->size,
                              .how = ": option \"dtype\" says what they are"};
    if (sqlite3_value_type(value) == SQLITE_NULL) {
        return GX_OK;
    }
    GX_TRY(gx_arg_row(ctx, value, "v", &wish, &count, &data, err));
    gx_code rc = s->size < 0 ? make_room(ctx, s, count, err) : GX_OK;
    rc = rc == GX_OK ? check(s, data, count, err) : rc;
    if (rc == GX_OK) {
        accumulate(s, data, sign);
        s->rows += sign;
    }
    gx_mem_free(ctx->mem, data);
    return rc;
}

static gx_code add(gx_ctx *ctx, void *state, sqlite3_value **argv, gx_err *err)
{
    return take(ctx, state, argv[0], 1, err);
}

static gx_code drop(gx_ctx *ctx, void *state, sqlite3_value **argv, gx_err *err)
{
    return take(ctx, state, argv[0], -1, err);
}

/* The sums over a number, as a row; NULL of no vectors. */
static gx_code give(gx_ctx *ctx, const vec_state *s, double over, sqlite3_context *sql, gx_err *err)
{
    gx_value_buf buf;
    GX_TRY(gx_value_buf_create(ctx->mem, GX_DTYPE_F64, 1, s->size,
                               gx_store_length_limit(ctx->store), &buf, err));
    for (int64_t k = 0; k < s->size; k++) {
        double sum = (s->high[k] + s->low[k]) / over;
        if (!isfinite(sum)) {
            gx_value_buf_free(ctx->mem, &buf);
            return gx_fail(err, GX_NUMERIC, "the sum of element %" PRId64 " overflows", k);
        }
        memcpy((double *)buf.data + k, &sum, sizeof sum);
    }
    gx_result_value(sql, ctx->mem, &buf);
    return GX_OK;
}

static gx_code finish_sum(gx_ctx *ctx, void *state, sqlite3_context *sql, gx_err *err)
{
    const vec_state *s = state;
    return s == NULL || s->rows == 0 ? GX_OK : give(ctx, s, 1, sql, err);
}

static gx_code finish_mean(gx_ctx *ctx, void *state, sqlite3_context *sql, gx_err *err)
{
    const vec_state *s = state;
    return s == NULL || s->rows == 0 ? GX_OK : give(ctx, s, (double)s->rows, sql, err);
}

static void clear(gx_ctx *ctx, void *state)
{
    gx_mem_free(ctx->mem, ((vec_state *)state)->high);
}

const gx_agg_fn gx_agg_vec_sum = {.def = {"gx_vec_sum", 1, 2, GX_PURE, NULL, 0},
                                  .keys = vec_keys,
                                  .options_bytes = sizeof(vec_options),
                                  .state_bytes = sizeof(vec_state),
                                  .start = start,
                                  .add = add,
                                  .drop = drop,
                                  .finish = finish_sum,
                                  .clear = clear};

const gx_agg_fn gx_agg_vec_mean = {.def = {"gx_vec_mean", 1, 2, GX_PURE, NULL, 0},
                                   .keys = vec_keys,
                                   .options_bytes = sizeof(vec_options),
                                   .state_bytes = sizeof(vec_state),
                                   .start = start,
                                   .add = add,
                                   .drop = drop,
                                   .finish = finish_mean,
                                   .clear = clear};
