/*
** Nearest neighbours where the queries are E itself, all of them, in memory: each pair of rows is
** looked at once, for both.
**
** The rows are cut into blocks.  A unit is a pair of blocks: GX_MUTUAL multiplies them, some
** columns at a time, and computes those merits that either row may want, which then join the lists
** of both.  First come the blocks by themselves, so that each list has something to compare with,
** then all pairs of two: block I with I + 1, for all I; with I + 2; and so on round the circle, so
** that threads seldom meet.
**
** A list belongs to its block's lock, which is held while roots are copied and entries added, never
** two at once.  A root may be out of date when it is compared with: lists only get better, so what
** it wants is too much and not too little.  Which entries a list ends up with does not depend on
** their order (best.h), so results are those of any other way, to the bit.
**
** Half of the products of a search among other rows, and E is read once, as the queries.
*/
#include "knn_int.h"

#include "../base/best.h"
#include "../run/call.h"

#include <math.h>
#include <string.h>

/* Rows of a block, at most and at least; bytes of a product, which stays in the second cache. */
enum { MOST = 512, LEAST = 128, PRODUCT_BYTES = 512 << 10 };

typedef struct mutual {
    gx_knn_search *s;
    int64_t blocks, first_unit;
    pthread_mutex_t *lock; /* of each block's lists */
} mutual;

// Whether -----------------------------------------------------------------------------------------

static bool is_same(const gx_mat *Q, const gx_mat *E)
{
    if (Q == E) {
        return true;
    }
    if (Q->kind != E->kind || Q->rows != E->rows || Q->cols != E->cols || Q->number != E->number) {
        return false;
    }
    if (Q->kind == GX_MAT_VALUE) {
        return Q->data == E->data && Q->ld == E->ld && !Q->is_sparse && !E->is_sparse;
    }
    return Q->kind == GX_MAT_STORED && Q->meta.id == E->meta.id &&
           strcmp(Q->meta.schema, E->meta.schema) == 0;
}

bool gx_knn_is_mutual(const gx_knn_search *s)
{
    const gx_knn_args *args = s->args;
    return args->C == NULL && args->rows == NULL && args->metric != GX_METRIC_ABSOLUTE &&
           is_same(args->Q, args->E) && args->first == 0 && args->last == args->E->rows &&
           args->E->cols > 0 && args->E->rows > GX_KNN_FEW &&
           s->backend->kernel[GX_MUTUAL][s->dtype] != NULL;
}

/* Some sixteen units a thread, of blocks as high as that leaves them. */
int64_t gx_knn_mutual_height(const gx_knn_search *s)
{
    int64_t rows = s->args->E->rows, threads = s->run->ctx->config.number[GX_SET_THREADS];
    int64_t blocks = (int64_t)ceil(sqrt(32 * (double)threads));
    return gx_min(rows, gx_max(LEAST, gx_min(MOST, gx_ceil_div(rows, blocks))));
}

static int64_t columns_of(const gx_knn_search *s, int64_t height)
{
    int64_t es = (int64_t)gx_number_bytes(s->dtype);
    return gx_min(height, gx_max(1, PRODUCT_BYTES / (height * es)));
}

static size_t kernel_bytes(const gx_knn_search *s, int64_t height)
{
    gx_nearest w = {.metric = s->args->metric};
    gx_args args = {.m = height, .n = columns_of(s, height), .k = s->args->E->cols, .nearest = &w};
    return s->backend->workspace(s->dev, GX_MUTUAL, s->dtype, &args);
}

/* Pairs, both sides' floors, the kernel's. */
size_t gx_knn_mutual_bytes(const gx_knn_search *s, int64_t height)
{
    size_t pairs = (size_t)(height * columns_of(s, height)) * sizeof(gx_found);
    return gx_whole_lines(pairs) + (size_t)gx_ceil_div(2 * height, 8) * 64 +
           kernel_bytes(s, height);
}

// A pair of blocks --------------------------------------------------------------------------------

/* Rows of a block. */
static gx_knn_strip block_of(const mutual *x, int64_t block)
{
    int64_t height = x->s->plan.strip, i0 = block * height;
    return (gx_knn_strip){i0, gx_min(height, x->s->args->E->rows - i0)};
}

static void copy_roots(mutual *x, gx_knn_strip rows, double *floor)
{
    const gx_neighbours *out = x->s->out;
    pthread_mutex_t *lock = &x->lock[rows.i0 / x->s->plan.strip];
    pthread_mutex_lock(lock);
    for (int64_t i = 0; i < rows.m; i++) {
        floor[i] = out->merit[(rows.i0 + i) * out->count];
    }
    pthread_mutex_unlock(lock);
}

/* To the lists of the pairs' queries, or of their rows; i0, j0: where these begin. */
static void add_pairs(mutual *x, const gx_found *found, int64_t pairs, int64_t i0, int64_t j0,
                      bool to_rows)
{
    const gx_neighbours *out = x->s->out;
    bool excludes_self = x->s->args->excludes_self;
    pthread_mutex_t *lock = &x->lock[(to_rows ? i0 : j0) / x->s->plan.strip];
    pthread_mutex_lock(lock);
    for (int64_t e = 0; e < pairs; e++) {
        int64_t i = i0 + found[e].row, j = j0 + found[e].column;
        int64_t list = (to_rows ? i : j) * out->count, other = to_rows ? j : i;
        double *best = out->merit + list;
        int64_t *index = out->index + list;
        if ((i != j || !excludes_self) &&
            gx_best_is_worse(best[0], index[0], found[e].merit, other)) {
            gx_best_sift(best, index, out->count, found[e].merit, other);
        }
    }
    pthread_mutex_unlock(lock);
}

/* What GX_MUTUAL is told of some rows, of which floor begins with the first. */
static gx_nearest side_of(const mutual *x, int64_t i0, const double *floor)
{
    const gx_knn_batch *b = &x->s->batch;
    return (gx_nearest){.metric = x->s->args->metric,
                        .query = b->query + i0 * x->s->args->E->cols,
                        .square = b->square + i0,
                        .length = b->length + i0,
                        .floor = floor,
                        .count = x->s->out->count + x->s->args->excludes_self};
}

/* Rows and n queries from j0 on. */
static gx_code look_at(mutual *x, gx_knn_strip rows, int64_t j0, int64_t n, const double *row_floor,
                       double *floor, gx_found *found, void *work, gx_err *err)
{
    const gx_knn_search *s = x->s;
    const gx_knn_batch *b = &s->batch;
    int64_t d = s->args->E->cols, pairs = 0;
    bool is_own = j0 >= rows.i0 && j0 < rows.i0 + rows.m;
    copy_roots(x, (gx_knn_strip){j0, n}, floor);
    gx_nearest a = side_of(x, rows.i0, row_floor), w = side_of(x, j0, floor);
    w.rows = &a;
    w.found = found;
    w.pairs = &pairs;
    gx_args args = {.m = rows.m, .n = n, .k = d, .lda = d, .ldb = d, .nearest = &w, .work = work};
    args.a = gx_at(b->b, s->dtype, d, 0, rows.i0);
    args.b = gx_at(b->b, s->dtype, d, 0, j0);
    GX_TRY(s->backend->kernel[GX_MUTUAL][s->dtype](s->dev, NULL, &args, err));
    add_pairs(x, found, pairs, rows.i0, j0, false);
    if (!is_own) {
        add_pairs(x, found, pairs, rows.i0, j0, true);
    }
    return GX_OK;
}

/* Unit u is block u % blocks and the one u / blocks after it. */
static gx_code look_at_pair(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                            gx_err *err)
{
    mutual *x = arg;
    int64_t height = x->s->plan.strip, columns = columns_of(x->s, height);
    int64_t u = x->first_unit + unit, I = u % x->blocks, J = (I + u / x->blocks) % x->blocks;
    gx_knn_strip rows = block_of(x, I), cols = block_of(x, J);
    double *row_floor = work, *floor = row_floor + gx_ceil_div(height, 8) * 8;
    gx_found *found = (gx_found *)(void *)(floor + gx_ceil_div(height, 8) * 8);
    size_t pairs = (size_t)(height * columns) * sizeof(gx_found);
    char *own = (char *)found + gx_whole_lines(pairs);
    (void)thread, (void)part;
    for (int64_t j = 0; j < cols.m && gx_ok(x->s->run); j += columns) {
        if (I == J) { // only queries want: the others have their turn as such
            for (int64_t i = 0; i < rows.m; i++) {
                row_floor[i] = (double)INFINITY;
            }
        } else {
            copy_roots(x, rows, row_floor);
        }
        GX_TRY(look_at(x, rows, cols.i0 + j, gx_min(columns, cols.m - j), row_floor, floor, found,
                       own, err));
    }
    return GX_OK;
}

// The whole ---------------------------------------------------------------------------------------

static void look_at_units(mutual *x, int64_t first, int64_t units)
{
    const gx_knn_search *s = x->s;
    double d = (double)s->args->E->cols, rows = (double)s->args->E->rows;
    double height = (double)s->plan.strip;
    gx_pass pass = {.units = units,
                    .bytes = rows * d * (double)gx_number_bytes(s->dtype),
                    .flops = first == 0 ? 2 * rows * height * d : rows * (rows - height) * d,
                    .work_bytes = gx_knn_mutual_bytes(s, s->plan.strip),
                    .work = look_at_pair,
                    .arg = x};
    x->first_unit = first;
    gx_pass_run(s->run, &pass);
    gx_stats_add(&s->run->ctx->stats, GX_STAT_KERNELS, units);
    gx_stats_add(&s->run->ctx->stats, GX_STAT_FLOPS, (int64_t)pass.flops);
}

void gx_knn_mutual(gx_knn_search *s)
{
    mutual x = {.s = s, .blocks = gx_ceil_div(s->args->E->rows, s->plan.strip)};
    x.lock = gx_run_alloc(s->run, (size_t)x.blocks * sizeof *x.lock, "results");
    if (x.lock == NULL) {
        return;
    }
    for (int64_t block = 0; block < x.blocks; block++) {
        pthread_mutex_init(&x.lock[block], NULL);
    }
    look_at_units(&x, 0, x.blocks);
    if (x.blocks > 1) {
        look_at_units(&x, x.blocks, x.blocks * (x.blocks - 1) / 2);
    }
    for (int64_t block = 0; block < x.blocks; block++) {
        pthread_mutex_destroy(&x.lock[block]);
    }
    gx_mem_free(s->run->ctx->mem, x.lock);
}
