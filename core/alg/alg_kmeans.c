/*
** k-means: the centres of k clusters of rows.
**
** Seeds by k-means++ (Arthur & Vassilvitskii 2007): each next one is a row drawn with the square of
** its distance to the seeds before as its weight; among all rows where these are few, else among a
** sample, one row out of each of as many equal stretches.  Plain seeds are a sample of k rows.
** Then Lloyd's passes: each row goes to its nearest centre, ties to the smaller number, and centres
** become the means of their rows.  A centre without rows stays where it is.  It ends when no centre
** moves, when the sum of squares falls by less than its `tolerance`, or after `iterations`.
**
** A pass is streamed (pass.h): a unit is a strip of rows, which are the queries of GX_NEAREST among
** the centres, so that assignments are exact; what it gives, sums and counts, is added in the order
** of the strips.  Strips, the sample and the random numbers depend on the shape and the seed alone:
** the same bits for every budget and number of threads.
**
** Where a device is faster, a pass is a program of blocks of rows there: their products with the
** centres, a one at each row's least distance, and the product of that with the rows.  Rows as near
** to two centres as roundings are small may then go to either.
**
** Memory, in doubles: the sample, at most 4096 rows or 8 k; centres; for each thread a strip of
** 1024 rows and two parts of k rows.
*/
#include "dense.h"
#include "similar.h"

#include "../base/random.h"
#include "../device/fleet.h"
#include "../exec/pass.h"
#include "../run/call.h"
#include "plan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { SAMPLE = 4096, SAMPLE_A_SEED = 8, STRIP = 1024 };

typedef struct kmeans {
    gx_run *run;
    const gx_kmeans_args *args;
    const gx_backend *backend;
    gx_dev *dev;
    gx_mat columns;       /* A^T                                    */
    int64_t d, k, sample; /* sample: rows                           */
    double *picked;       /* sample x d                             */
    double *centre;       /* k x d: the block of GX_NEAREST         */
    double *sum;          /* d x k, k counts, and the sum of squares */
    int64_t strip;        /* rows of a unit                         */
    double squares;       /* the sum of all numbers' squares        */
    double noise;         /* what the sum of squares may be off by  */
} kmeans;

static int64_t numbers_of_part(const kmeans *x)
{
    return x->d * x->k + x->k + 1;
}

/* A tile's rows are cut into strips of one height. */
static int64_t per_tile(const kmeans *x)
{
    return gx_ceil_div(gx_min(x->args->A->tile_rows, x->args->A->rows), x->strip);
}

static int64_t units(const kmeans *x)
{
    return gx_ceil_div(x->args->A->rows, x->args->A->tile_rows) * per_tile(x);
}

/* Rows i0 .. i0 + m - 1; m may be 0. */
static int64_t rows_of(const kmeans *x, int64_t unit, int64_t *i0)
{
    const gx_mat *A = x->args->A;
    int64_t tile = unit / per_tile(x) * A->tile_rows, end = gx_min(tile + A->tile_rows, A->rows);
    *i0 = tile + unit % per_tile(x) * x->strip;
    return gx_max(0, gx_min(x->strip, end - *i0));
}

/* A strip by rows, d x m; rows with NaN or Inf are refused. */
static gx_code read_rows(const kmeans *x, gx_pass_thread *thread, int64_t i0, int64_t m, double *to,
                         gx_err *err)
{
    GX_TRY(gx_pass_read(thread, &x->columns, 0, i0, x->d, m, GX_F64, to, x->d, err));
    for (int64_t e = 0; e < x->d * m; e++) {
        if (!isfinite(to[e])) {
            return gx_fail(err, GX_ARG, "%s has %s at (%" PRId64 ", %" PRId64 ")",
                           x->args->A->label, isnan(to[e]) ? "NaN" : "Inf", i0 + e / x->d,
                           e % x->d);
        }
    }
    return GX_OK;
}

// Seeds -------------------------------------------------------------------------------------------

/* Random numbers of a stream: count of them, uniform in [0, 1). */
static void draw(const kmeans *x, int64_t stream, int64_t first, int64_t count, double *to)
{
    gx_random random;
    gx_err ignored = {0};
    gx_random_init(&random, GX_RANDOM_UNIFORM, GX_F64, x->args->seed, 0, 1, &ignored);
    gx_random_generate(&random, first, stream, count, 1, GX_F64, to, gx_max(count, 1));
}

/* Row s of the sample. */
static int64_t sampled(const kmeans *x, int64_t s)
{
    int64_t rows = x->args->A->rows;
    if (x->sample == rows) {
        return s;
    }
    double at = 0, width = (double)rows / (double)x->sample;
    draw(x, 0, s, 1, &at);
    return gx_min(rows - 1, (int64_t)(((double)s + at) * width));
}

static gx_code pick_rows(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                         gx_err *err)
{
    const kmeans *x = arg;
    int64_t i0, m = rows_of(x, unit, &i0), rows = x->args->A->rows;
    const double *row = work;
    *(double *)part = 0;
    if (m == 0) {
        return GX_OK;
    }
    GX_TRY(read_rows(x, thread, i0, m, work, err));
    *(double *)part = gx_merit_square(row, x->d * m);
    int64_t s = gx_max(0, (int64_t)((double)i0 * (double)x->sample / (double)rows) - 2);
    for (; s < x->sample; s++) {
        int64_t at = sampled(x, s) - i0;
        if (at >= m) {
            break;
        }
        for (int64_t l = 0; at >= 0 && l < x->d; l++) {
            x->picked[l * x->sample + s] = row[at * x->d + l];
        }
    }
    return GX_OK;
}

/* The sample beside the centre just chosen. */
typedef struct nearer {
    const kmeans *x;
    int64_t chosen;
    double *nearest, *gap; /* of each row of the sample */
} nearer;

enum { NEARER_ROWS = 512 };

/* Squares of distances to that centre, where it is nearer. */
static gx_code come_nearer(void *arg, int64_t piece, int member, gx_err *err)
{
    const nearer *to = arg;
    const kmeans *x = to->x;
    int64_t first = piece * NEARER_ROWS, m = gx_min(NEARER_ROWS, x->sample - first);
    double *nearest = to->nearest + first, *gap = to->gap + first;
    gx_nearest sums = {.metric = GX_METRIC_SQUARED};
    gx_args call = {.m = m, .n = 1, .k = x->d, .transb = GX_TRANS, .nearest = &sums};
    (void)member;
    memset(gap, 0, (size_t)m * sizeof *gap);
    call.a = x->picked + first;
    call.lda = x->sample;
    call.b = x->centre + to->chosen;
    call.ldb = x->k;
    call.c = gap;
    call.ldc = m;
    GX_TRY(x->backend->kernel[GX_APART][GX_F64](x->dev, NULL, &call, err));
    for (int64_t s = 0; s < m; s++) {
        nearest[s] = to->chosen == 0 || gap[s] < nearest[s] ? gap[s] : nearest[s];
    }
    return GX_OK;
}

/* A row of the sample by weight; where all weights are 0 by number. */
static int64_t weighed(const kmeans *x, double at, const double *weight)
{
    double total = 0, sum = 0;
    int64_t last = 0;
    for (int64_t s = 0; s < x->sample; s++) {
        total += weight[s];
    }
    if (!(total > 0 && total < (double)INFINITY)) {
        return gx_min(x->sample - 1, (int64_t)(at * (double)x->sample));
    }
    for (int64_t s = 0; s < x->sample; s++) {
        sum += weight[s];
        last = weight[s] > 0 ? s : last;
        if (sum > at * total && weight[s] > 0) {
            return s;
        }
    }
    return last;
}

static void choose_seeds(kmeans *x)
{
    double *nearest, at;
    if (x->args->has_plain_seeds) {
        memcpy(x->centre, x->picked, (size_t)(x->d * x->k) * sizeof *x->centre);
        return;
    }
    gx_dense_alloc(x->run, GX_F64, x->sample, 2, "seeds", &nearest);
    for (int64_t c = 0; c < x->k && gx_ok(x->run); c++) {
        draw(x, 1, c, 1, &at);
        int64_t s = c == 0 ? gx_min(x->sample - 1, (int64_t)(at * (double)x->sample))
                           : weighed(x, at, nearest);
        for (int64_t l = 0; l < x->d; l++) {
            x->centre[l * x->k + c] = x->picked[l * x->sample + s];
        }
        if (c + 1 < x->k) {
            nearer to = {x, c, nearest, nearest + x->sample};
            gx_run_pieces(x->run, 3 * (double)(x->sample * x->d),
                          gx_ceil_div(x->sample, NEARER_ROWS), come_nearer, &to);
        }
        gx_run_poll(x->run);
    }
    gx_mem_free(x->run->ctx->mem, nearest);
}

// Lloyd -------------------------------------------------------------------------------------------

/* What GX_NEAREST is told of a strip of m rows; no operands. */
static gx_args call_of(const kmeans *x, gx_nearest *w, int64_t m)
{
    *w = (gx_nearest){.metric = GX_METRIC_SQUARED, .count = 1, .self = GX_NO_SELF};
    gx_args call = {.m = x->k, .n = m, .k = x->d, .a = x->centre, .lda = x->k, .ldb = x->d};
    call.nearest = w;
    return call;
}

/* Of a thread: a strip; of its rows merit, index, squares, lengths; the kernel's. */
static size_t strip_bytes(const kmeans *x)
{
    return gx_whole_lines((size_t)(x->d * x->strip) * sizeof(double));
}

static size_t work_bytes(const kmeans *x)
{
    gx_nearest w;
    gx_args call = call_of(x, &w, x->strip);
    return strip_bytes(x) + 4 * gx_whole_lines((size_t)x->strip * sizeof(double)) +
           x->backend->workspace(x->dev, GX_NEAREST, GX_F64, &call);
}

static gx_code assign_rows(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                           gx_err *err)
{
    const kmeans *x = arg;
    int64_t i0, m = rows_of(x, unit, &i0), info = 0;
    size_t step = gx_whole_lines((size_t)x->strip * sizeof(double));
    double *row = work, *sum = part, *count = sum + x->d * x->k;
    char *behind = (char *)work + strip_bytes(x);
    double *merit = (double *)(void *)behind, *square = (double *)(void *)(behind + step);
    double *length = (double *)(void *)(behind + 2 * step);
    int64_t *index = (int64_t *)(void *)(behind + 3 * step);
    memset(part, 0, (size_t)numbers_of_part(x) * sizeof(double));
    if (m == 0) {
        return GX_OK;
    }
    GX_TRY(read_rows(x, thread, i0, m, row, err));
    for (int64_t i = 0; i < m; i++) {
        square[i] = gx_merit_square(row + i * x->d, x->d);
        length[i] = sqrt(square[i]);
    }
    gx_nearest w;
    gx_args call = call_of(x, &w, m);
    call.b = w.query = row;
    w.square = square;
    w.length = length;
    w.merit = merit;
    w.index = index;
    call.work = behind + 4 * step;
    call.info = &info;
    GX_TRY(x->backend->kernel[GX_NEAREST][GX_F64](x->dev, NULL, &call, err));
    for (int64_t i = 0; i < m; i++) {
        double *to = sum + index[i] * x->d;
        for (int64_t l = 0; l < x->d; l++) {
            to[l] += row[i * x->d + l];
        }
        count[index[i]]++;
        count[x->k] -= merit[i];
    }
    return GX_OK;
}

static gx_code add_part(void *arg, int64_t unit, void *part, gx_err *err)
{
    kmeans *x = arg;
    const double *more = part;
    (void)unit;
    (void)err;
    for (int64_t e = 0; e < numbers_of_part(x); e++) {
        x->sum[e] += more[e];
    }
    return GX_OK;
}

static gx_code add_squares(void *arg, int64_t unit, void *part, gx_err *err)
{
    (void)unit, (void)err;
    ((kmeans *)arg)->squares += *(double *)part;
    return GX_OK;
}

static void pass_over(kmeans *x, gx_pass_work work, bool adds)
{
    const gx_mat *A = x->args->A, *source = &x->columns;
    double numbers = (double)A->rows * (double)x->d;
    gx_pass pass = {.sources = &source,
                    .source_count = 1,
                    .units = units(x),
                    .bytes = numbers * (double)gx_number_bytes(A->number),
                    .flops = adds ? 2 * numbers * (double)x->k : numbers,
                    .work_bytes = adds ? work_bytes(x) : strip_bytes(x),
                    .part_bytes = (size_t)(adds ? numbers_of_part(x) : 1) * sizeof(double),
                    .work = work,
                    .fold = adds ? add_part : add_squares,
                    .arg = x};
    gx_pass_run(x->run, &pass);
    gx_stats_add(&x->run->ctx->stats, GX_STAT_KERNELS, adds ? pass.units : 0);
    gx_stats_add(&x->run->ctx->stats, GX_STAT_FLOPS, adds ? (int64_t)pass.flops : 0);
}

// On devices --------------------------------------------------------------------------------------

/* Bytes of a block of rows and of its products; sums: two or four devices have their own. */
static const int64_t DEVICE_BYTES = 64 << 20;
enum { SHARED_SUMS = 4 };

/* Of a sum of squares that is a difference of larger ones, relative to these. */
static const double ROUNDING = 0x1p-44;

/* A pass there: what goes up, and what comes down of it. */
typedef struct device_round {
    kmeans *x;
    double *turned, *square; /* the centres, d x k; squares of their lengths            */
    double *counts;          /* of a block 2 k: GX_REDUCE_COL_SUM                       */
    int64_t blocks, parts;
    gx_mat centres, squares; /* turned and square as operands                           */
    gx_sink sums;            /* parts of k x d, one under the other                     */
} device_round;

/* Rows of a block. */
static int64_t block_rows(const kmeans *x, size_t memory)
{
    int64_t row = gx_max(x->d, x->k) * (int64_t)sizeof(double);
    int64_t bytes = gx_min(DEVICE_BYTES, (int64_t)(memory / 8));
    return gx_plan_whole_tiles(gx_max(1, bytes / row),
                               gx_min(x->args->A->tile_rows, x->args->A->rows), x->args->A->rows);
}

static gx_prog *write_round(gx_run *run, void *arg)
{
    device_round *r = arg;
    const kmeans *x = r->x;
    gx_prog *prog;
    int64_t n = x->args->A->rows, d = x->d, k = x->k, rows = block_rows(x, run->target_bytes);
    r->blocks = gx_ceil_div(n, rows);
    gx_mem_free(run->ctx->mem, r->counts);
    r->counts = gx_run_calloc(run, (size_t)(r->blocks * 2 * k) * sizeof(double), "counts");
    if (r->counts == NULL || gx_prog_create(run, 4 * r->blocks, &prog) != GX_OK) {
        return NULL;
    }
    gx_mat_value(&r->centres, "centres", GX_F64, d, k, r->turned, d);
    gx_mat_value(&r->squares, "centres", GX_F64, 1, k, r->square, 1);
    const gx_opnd *A = gx_prog_operand(prog, x->args->A, NULL, GX_F64, n, d, rows, d);
    const gx_opnd *C = gx_prog_operand(prog, &r->centres, NULL, GX_F64, d, k, d, k);
    const gx_opnd *Q = gx_prog_operand(prog, &r->squares, NULL, GX_F64, 1, k, 1, k);
    const gx_opnd *V = gx_prog_operand(prog, NULL, NULL, GX_F64, n, k, rows, k);
    const gx_opnd *S = gx_prog_operand(prog, NULL, &r->sums, GX_F64, r->parts * k, d, k, d);
    for (int64_t i = 0; i < r->blocks && gx_ok(run); i++) {
        double *counts = r->counts + i * 2 * k;
        gx_block a = gx_blk(A, i, 0), v = gx_blk(V, i, 0), s = gx_blk(S, i % r->parts, 0);
        const gx_call calls[] = {
            {.kernel = GX_GEMM, .alpha = {-2, 0}, .a = a, .b = gx_blk(C, 0, 0), .c = v},
            {.kernel = GX_ONE_HOT, .b = gx_blk(Q, 0, 0), .c = v, .keeps_c = true},
            {.kernel = GX_REDUCE,
             .reduce_kind = GX_REDUCE_COL_SUM,
             .a = v,
             .c = v,
             .keeps_c = true,
             .reduce = counts},
            {.kernel = GX_GEMM,
             .transa = GX_TRANS,
             .alpha = {1, 0},
             .a = v,
             .b = a,
             .c = s,
             .beta = {i < r->parts ? 0 : 1, 0},
             .keeps_c = i >= r->parts}};
        for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
            gx_prog_call(prog, &calls[c]);
        }
    }
    if (!gx_ok(run)) {
        gx_prog_free(prog);
        return NULL;
    }
    return prog;
}

/*
** What has come down as the sums of a pass: the sum of squares is |x|^2 - 2 c s + n |c|^2 over all
** clusters.  false: something is not finite, an overflow.
*/
static bool take_sums(device_round *r)
{
    kmeans *x = r->x;
    const double *sums = r->sums.value.data;
    double *count = x->sum + x->d * x->k, *left = count + x->k, all = x->squares;
    memset(x->sum, 0, (size_t)numbers_of_part(x) * sizeof(double));
    for (int64_t i = 0; i < r->blocks; i++) {
        for (int64_t c = 0; c < x->k; c++) {
            count[c] += r->counts[2 * (i * x->k + c)];
        }
    }
    for (int64_t c = 0; c < x->k; c++) {
        double along = 0;
        for (int64_t l = 0; l < x->d; l++) {
            for (int64_t q = 0; q < gx_min(r->parts, r->blocks); q++) {
                x->sum[c * x->d + l] += sums[q * x->k + c + l * r->parts * x->k];
            }
            along += x->sum[c * x->d + l] * r->turned[c * x->d + l];
        }
        all += count[c] * r->square[c] - 2 * along;
    }
    *left = fmax(all, 0);
    x->noise = ROUNDING * x->squares;
    return isfinite(all);
}

/* A pass on a device; false: it is the host's turn. */
static bool pass_on_device(kmeans *x)
{
    gx_run *run = x->run;
    const gx_mat *A = x->args->A, *base = gx_mat_base_stored(A);
    double numbers = (double)A->rows * (double)x->d, flops = 4 * numbers * (double)x->k;
    gx_cost cost = {.flops = 2 * numbers * (double)x->k, .bytes_up = numbers * sizeof(double)};
    cost.bytes_read = base == NULL ? 0 : numbers * (double)gx_dtype_bytes(base->dtype);
    cost.calls = cost.loads = units(x);
    gx_terms host;
    bool is_listed, is_done = false;
    device_round r = {.x = x, .parts = gx_fleet_is_wanted(run->ctx, &is_listed) ? SHARED_SUMS : 1};
    gx_predict_pass(run, &cost, GX_F64, x->k, &host);
    if (!gx_ok(run) || !gx_place_comes_into_question(run, flops)) {
        return false;
    }
    gx_dense_alloc(run, GX_F64, x->d + 1, x->k, "centres", &r.turned);
    r.square = r.turned == NULL ? NULL : r.turned + x->d * x->k;
    for (int64_t c = 0; c < x->k && gx_ok(run); c++) {
        for (int64_t l = 0; l < x->d; l++) {
            r.turned[c * x->d + l] = x->centre[l * x->k + c];
        }
        r.square[c] = gx_merit_square(r.turned + c * x->d, x->d);
    }
    gx_dest none = {0};
    if (gx_sink_begin(run, &none, r.parts * x->k, x->d, GX_F64, 0, x->k, x->d, &r.sums) == GX_OK) {
        is_done = gx_place_on_device(run, flops, GX_F64, write_round, &r, &host) && gx_ok(run) &&
                  take_sums(&r);
        gx_sink_drop(&r.sums);
    }
    gx_mem_free(run->ctx->mem, r.counts);
    gx_mem_free(run->ctx->mem, r.turned);
    return is_done;
}

/* The means of the rows of each; whether any moved. */
static bool move_centres(kmeans *x)
{
    const double *count = x->sum + x->d * x->k;
    bool has_moved = false;
    for (int64_t c = 0; c < x->k; c++) {
        for (int64_t l = 0; l < x->d && count[c] > 0; l++) {
            double mean = x->sum[c * x->d + l] / count[c];
            has_moved = has_moved || mean != x->centre[l * x->k + c];
            x->centre[l * x->k + c] = mean;
        }
    }
    return has_moved;
}

static void iterate(kmeans *x)
{
    double before = (double)INFINITY;
    for (int64_t pass = 0; pass < x->args->iterations && gx_ok(x->run); pass++) {
        if (!pass_on_device(x) && gx_ok(x->run)) {
            x->noise = 0;
            memset(x->sum, 0, (size_t)numbers_of_part(x) * sizeof(double));
            pass_over(x, assign_rows, true);
        }
        double now = x->sum[x->d * x->k + x->k];
        bool is_level = before - now < x->args->tolerance * before - x->noise;
        if (!gx_ok(x->run) || !move_centres(x) || is_level) {
            break;
        }
        before = now;
    }
}

gx_code gx_alg_kmeans(gx_run *run, const gx_kmeans_args *args, gx_sink *C)
{
    const gx_mat *A = args->A;
    kmeans x = {.run = run, .args = args, .d = A->cols, .k = args->k};
    if (!gx_ok(run) || gx_run_device(run, &x.backend, &x.dev) != GX_OK) {
        return run->err.code;
    }
    if (x.d == 0) { // however many rows there are of nothing, so are the centres
        return GX_OK;
    }
    gx_mat_view(&x.columns, A, GX_TRANS, 0, 0, A->cols, A->rows);
    int64_t tile = gx_min(A->tile_rows, A->rows);
    x.strip = gx_ceil_div(tile, gx_ceil_div(tile, STRIP));
    x.sample = gx_min(A->rows, gx_max(SAMPLE, SAMPLE_A_SEED * x.k));
    x.sample = args->has_plain_seeds ? x.k : x.sample;
    gx_dense_alloc(run, GX_F64, x.sample, x.d, "a sample of rows", &x.picked);
    gx_dense_alloc(run, GX_F64, x.k, x.d, "centres", &x.centre);
    gx_dense_alloc(run, GX_F64, x.d + 2, x.k, "sums of rows", &x.sum);
    if (gx_ok(run)) {
        pass_over(&x, pick_rows, false);
        choose_seeds(&x);
    }
    gx_mem_free(run->ctx->mem, x.picked);
    iterate(&x);
    if (gx_ok(run)) {
        gx_mat centres;
        gx_mat_value(&centres, "centres", GX_F64, x.k, x.d, x.centre, x.k);
        gx_copy_to_sink(run, &centres, C);
    }
    gx_mem_free(run->ctx->mem, x.centre);
    gx_mem_free(run->ctx->mem, x.sum);
    return gx_ok(run) ? GX_OK : run->err.code;
}
