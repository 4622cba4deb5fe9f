/*
** A sparse matrix on a device: see sparse_device.h.
**
** Panels are read and looked through on the host (sparse.h), by the threads of a streamed pass
** (exec/pass.h), into page-locked buffers, and go up from there; so no index that lies outside of
** the matrix ever gets to the device.
**
**   whole   one buffer: row starts of all rows, indexes, values.  The starts are counted on from
**           panel to panel before they go up, so that a product is one launch however many panels
**           there are.  A stored matrix is kept in the pool under the key that other blocks have,
**           and found there while neither it nor the file has changed.
**           Where a gathered product follows, each panel is multiplied as it is, behind its copy:
**           it goes up with a second set of starts, its own.
**   ring    panels as they lie, in any order, through two buffers, each multiplied when it is
**           there
**
** Starts are numbers of 32 bits: a whole of more than 2^32 entries, 50 GB and more, goes by panels.
**
** Memory: on the host up to STAGES buffers of a panel, page-locked within pinning_budget.
*/
#include "sparse_device.h"

#include "../exec/pass.h"
#include "../run/call.h"

#include <math.h>
#include <string.h>

enum { STAGES = 16, AHEAD = 2, ALIGN = 256 };

// Sizes -------------------------------------------------------------------------------------------

typedef struct layout {
    size_t index, value, bytes;
} layout;

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static layout lay_out(const gx_mat *S, gx_dtype dtype, int64_t rows, int64_t entries)
{
    layout l = {.index = aligned((size_t)(rows + 1) * sizeof(uint32_t))};
    l.value = l.index + aligned((size_t)entries * (size_t)gx_csr_index_bytes(S->cols));
    l.bytes = l.value + aligned((size_t)entries * gx_dtype_bytes(dtype));
    return l;
}

/* The panel of a block that is laid out so. */
static gx_csr panel_at(const gx_sparse_device *d, void *block, int64_t rows, int64_t entries)
{
    layout l = lay_out(d->S, d->dtype, rows, entries);
    return (gx_csr){.dtype = d->dtype,
                    .rows = rows,
                    .cols = d->S->cols,
                    .entries = entries,
                    .index_bytes = gx_csr_index_bytes(d->S->cols),
                    .start = block,
                    .index = (char *)block + l.index,
                    .value = (char *)block + l.value};
}

size_t gx_sparse_device_bytes(const gx_sparse_device *d)
{
    const gx_mat *S = d->S;
    return d->is_whole
               ? lay_out(S, d->dtype, S->rows, gx_sparse_entries(S)).bytes
               : lay_out(S, d->dtype, gx_sparse_most_rows(S), gx_sparse_most_entries(S)).bytes;
}

static size_t work_bytes(const gx_sparse_device *d, int64_t lines)
{
    const gx_backend *backend = d->accel->backend;
    const gx_mat *S = d->S;
    gx_csr sizes = {.dtype = d->dtype,
                    .rows = d->is_whole ? S->rows : gx_sparse_most_rows(S),
                    .cols = S->cols,
                    .entries = d->is_whole ? gx_sparse_entries(S) : gx_sparse_most_entries(S),
                    .index_bytes = gx_csr_index_bytes(S->cols)};
    gx_args args = {
        .transa = GX_TRANS, .m = lines, .n = sizes.rows, .k = S->cols, .sparse = &sizes};
    return backend->workspace == NULL
               ? 0
               : backend->workspace(d->accel->dev, GX_SPMM, d->dtype, &args);
}

bool gx_sparse_device_offers(const gx_accel *accel, const gx_mat *S, gx_dtype dtype)
{
    return gx_accel_offers(accel, GX_SPMM, dtype) && gx_accel_offers(accel, GX_TRANSPOSE, dtype) &&
           gx_accel_offers(accel, GX_FILL, dtype) && gx_sparse_pieces(S) > 0;
}

static bool key_of(const gx_sparse_device *d, gx_block_key *key)
{
    *key = (gx_block_key){.file = d->stamp, .m = d->S->rows, .n = d->S->cols, .dtype = d->dtype};
    if (d->stamp != 0) {
        key->id = d->S->meta.id;
        key->generation = d->S->meta.generation;
    }
    return d->stamp != 0;
}

/* Of a whole: the panels' own starts, which a product that follows them wants. */
static size_t own_starts_bytes(const gx_sparse_device *d)
{
    return (size_t)(d->S->rows + gx_sparse_pieces(d->S)) * sizeof(uint32_t);
}

/* S, or two panels, and what a product takes, within the limit beside others. */
static bool is_within(const gx_sparse_device *d, int64_t lines, size_t others)
{
    size_t work = work_bytes(d, lines), blocks = gx_pool_rounded(gx_sparse_device_bytes(d));
    blocks += d->is_whole ? gx_pool_rounded(own_starts_bytes(d)) : blocks;
    return work < GX_NO_WORKSPACE && blocks <= d->limit && others <= d->limit - blocks &&
           gx_pool_rounded(work) <= d->limit - blocks - others;
}

/* S is there: does the pool have all that is wanted beside it? */
static bool has_all(const gx_sparse_device *d, int64_t lines, const size_t *beside, int count)
{
    gx_growth growth = {0};
    size_t work = work_bytes(d, lines);
    gx_pool_foresee(d->accel->pool, work, work > 0 && work < GX_NO_WORKSPACE, &growth);
    for (int k = 0; k < count; k++) {
        gx_pool_foresee(d->accel->pool, beside[k], beside[k] > 0, &growth);
    }
    return d->is_there && work < GX_NO_WORKSPACE && growth.device_bytes == 0;
}

bool gx_sparse_device_fit(gx_sparse_device *d, int64_t lines, const size_t *beside, int count,
                          bool is_whole_only)
{
    gx_block_key key;
    gx_err err = {0};
    gx_ctx *ctx = d->run->ctx;
    size_t others = 0;
    d->stamp = d->S->kind == GX_MAT_STORED ? gx_store_stamp(ctx->store, d->S->meta.schema) : 0;
    d->is_whole = gx_sparse_entries(d->S) < (int64_t)UINT32_MAX;
    d->is_there = d->is_whole && key_of(d, &key) &&
                  gx_pool_holds(d->accel->pool, &key, gx_sparse_device_bytes(d));
    if (has_all(d, lines, beside, count)) {
        d->limit = SIZE_MAX / 4;
        return true;
    }
    if (gx_accel_limit(ctx, d->accel, &d->limit, &err) != GX_OK) {
        gx_accel_fail(ctx, &err);
        return false;
    }
    for (int k = 0; k < count; k++) {
        others += gx_pool_rounded(beside[k]);
    }
    if (d->is_whole && is_within(d, lines, others)) {
        return true;
    }
    d->is_whole = d->is_there = false;
    return !is_whole_only && is_within(d, lines, others);
}

// Bringing it -------------------------------------------------------------------------------------

/* A page-locked buffer, and what is in it. */
typedef struct stage {
    gx_staging memory;
    gx_mark *mark; /* behind its copies */
    bool is_busy;
    int64_t turn;  /* of the copies, ascending; 0: none */
    gx_csr csr;    /* as it goes up */
} stage;

typedef struct loading {
    gx_sparse_device *d;
    const gx_sparse_product *product; /* of the ring; NULL: to the whole's place */
    const gx_sparse_product *follow;  /* of the whole, or NULL: starts behind the values */
    stage stage[STAGES];
    int stages;
    size_t block_bytes;   /* of a stage: a panel as it is read; behind it values in dtype */
    int64_t *first;       /* entries before each piece */
    pthread_mutex_t lock; /* over what follows, the stages' states, and the queues */
    int64_t turn;
    gx_err fault;         /* of the device */
} loading;

/* The one that has been leaving longest; there are as many as threads, at least. */
static stage *take_stage(loading *l)
{
    stage *best = NULL;
    pthread_mutex_lock(&l->lock);
    for (int k = 0; k < l->stages && l->fault.code == GX_OK; k++) {
        stage *s = &l->stage[k];
        if (!s->is_busy && (best == NULL || s->turn < best->turn)) {
            best = s;
        }
    }
    if (best != NULL) {
        best->is_busy = true;
    }
    pthread_mutex_unlock(&l->lock);
    return best;
}

static void give_stage(loading *l, stage *s, const gx_err *fault)
{
    pthread_mutex_lock(&l->lock);
    s->is_busy = false;
    if (fault->code != GX_OK && l->fault.code == GX_OK) {
        l->fault = *fault;
    }
    pthread_mutex_unlock(&l->lock);
}

/* Where a stage has a panel's own starts, beside those of the whole. */
static size_t own_starts(const loading *l)
{
    const gx_sparse_device *d = l->d;
    bool has_values = d->S->kind != GX_MAT_STORED || d->S->dtype != d->dtype;
    size_t values = (size_t)gx_sparse_most_entries(d->S) * gx_dtype_bytes(d->dtype);
    return l->block_bytes + (has_values ? aligned(values) : 0);
}

/* Starts from `from` on instead of from the piece's own; values in dtype, behind the panel. */
static void prepare(const loading *l, stage *s, const gx_csr *csr, int64_t from)
{
    const gx_sparse_device *d = l->d;
    char *memory = s->memory.data;
    bool is_stored = d->S->kind == GX_MAT_STORED; // then it lies in the stage already
    int64_t first = csr->start[0];
    size_t index = aligned((size_t)(csr->rows + 1) * sizeof(uint32_t));
    size_t own = (size_t)csr->index_bytes, element = gx_dtype_bytes(csr->dtype);
    uint32_t *start = (uint32_t *)(void *)memory;
    s->csr = *csr;
    if (l->follow != NULL) {
        uint32_t *own_start = (uint32_t *)(void *)(memory + own_starts(l));
        for (int64_t i = 0; i <= csr->rows; i++) {
            own_start[i] = csr->start[i] - (uint32_t)first;
        }
    }
    for (int64_t i = 0; i <= csr->rows; i++) {
        start[i] = (uint32_t)((int64_t)csr->start[i] - first + from);
    }
    s->csr.start = start;
    const char *values = (const char *)csr->value + (size_t)first * element;
    if (!is_stored) {
        memcpy(memory + index, (const char *)csr->index + (size_t)first * own,
               (size_t)csr->entries * own);
        s->csr.index = memory + index;
    }
    if (!is_stored || csr->dtype != d->dtype) {
        int64_t ld = gx_max(1, csr->entries);
        gx_convert(csr->dtype, values, ld, d->dtype, memory + l->block_bytes, ld, csr->entries, 1);
        s->csr.value = memory + l->block_bytes;
        s->csr.dtype = d->dtype;
    }
}

static gx_code send_bytes(gx_sparse_device *d, const void *to, size_t at, const void *from,
                          size_t bytes, gx_err *err)
{
    const gx_accel *accel = d->accel;
    if (bytes == 0) {
        return GX_OK;
    }
    gx_stats_add(&d->run->ctx->stats, GX_STAT_UPLOADED, (int64_t)bytes);
    return accel->backend->upload(accel->dev, accel->up, (char *)(uintptr_t)to + at, bytes, from,
                                  bytes, bytes, 1, err);
}

static gx_code send_panel(gx_sparse_device *d, const stage *s, const gx_csr *to, int64_t row,
                          int64_t entry, gx_err *err)
{
    const gx_csr *csr = &s->csr;
    size_t own = (size_t)csr->index_bytes, element = gx_dtype_bytes(d->dtype);
    GX_TRY(send_bytes(d, to->start, (size_t)row * sizeof(uint32_t), csr->start,
                      (size_t)(csr->rows + 1) * sizeof(uint32_t), err));
    GX_TRY(send_bytes(d, to->index, (size_t)entry * own, csr->index, (size_t)csr->entries * own,
                      err));
    GX_TRY(send_bytes(d, to->value, (size_t)entry * element, csr->value,
                      (size_t)csr->entries * element, err));
    return d->accel->backend->mark_set(d->accel->dev, d->accel->up, s->mark, err);
}

static gx_code call(gx_sparse_device *d, const gx_csr *csr, const gx_sparse_product *p,
                    int64_t row0, gx_err *err)
{
    const gx_accel *accel = d->accel;
    bool is_gathered = p->op != GX_NO_TRANS;
    gx_args args = {.transa = p->op,
                    .m = p->lines,
                    .n = is_gathered ? csr->rows : csr->cols,
                    .k = is_gathered ? csr->cols : csr->rows,
                    .alpha = p->alpha,
                    .is_fresh = is_gathered,
                    .b = is_gathered ? p->L : gx_at(p->L, d->dtype, p->lines, 0, row0),
                    .ldb = p->lines,
                    .c = is_gathered ? gx_at(p->R, d->dtype, p->lines, 0, row0) : p->R,
                    .ldc = p->lines,
                    .sparse = csr,
                    .work = d->work.data};
    GX_TRY(accel->backend->kernel[GX_SPMM][d->dtype](accel->dev, accel->run, &args, err));
    gx_stats_kernel(&d->run->ctx->stats, gx_kernel_flops(GX_SPMM, d->dtype, &args), 0);
    return GX_OK;
}

/* A piece of the whole, which is multiplied where it lies, by starts of its own. */
static gx_code send_followed(loading *l, const stage *s, int64_t piece, int64_t row0, gx_err *err)
{
    gx_sparse_device *d = l->d;
    const gx_accel *accel = d->accel;
    gx_csr there = s->csr;
    int64_t first = l->first[piece];
    there.start = (const uint32_t *)d->block[1].data + row0 + piece;
    there.index = (const char *)d->csr.index + first * there.index_bytes;
    there.value = (const char *)d->csr.value + (size_t)first * gx_dtype_bytes(d->dtype);
    GX_TRY(send_bytes(d, there.start, 0, (const char *)s->memory.data + own_starts(l),
                      (size_t)(there.rows + 1) * sizeof(uint32_t), err));
    GX_TRY(send_panel(d, s, &d->csr, row0, first, err));
    GX_TRY(accel->backend->queue_after_mark(accel->dev, accel->run, s->mark, err));
    return call(d, &there, l->follow, row0, err);
}

/* Under the lock: a piece goes up; through the ring it is multiplied behind that. */
static gx_code send(loading *l, stage *s, int64_t piece, gx_err *err)
{
    gx_sparse_device *d = l->d;
    const gx_accel *accel = d->accel;
    int64_t row0 = gx_sparse_piece_row(d->S, piece);
    s->turn = ++l->turn;
    if (l->follow != NULL) {
        return send_followed(l, s, piece, row0, err);
    }
    if (l->product == NULL) {
        return send_panel(d, s, &d->csr, row0, l->first[piece], err);
    }
    int64_t slot = l->turn % GX_SPARSE_RING;
    gx_csr there = panel_at(d, d->block[slot].data, s->csr.rows, s->csr.entries);
    GX_TRY(accel->backend->queue_after_mark(accel->dev, accel->up, d->used[slot], err));
    GX_TRY(send_panel(d, s, &there, 0, 0, err));
    GX_TRY(accel->backend->queue_after_mark(accel->dev, accel->run, s->mark, err));
    GX_TRY(call(d, &there, l->product, row0, err));
    return accel->backend->mark_set(accel->dev, accel->run, d->used[slot], err);
}

/* A unit of the pass.  What the device fails at ends it without a word; load() looks. */
static gx_code bring(void *arg, int64_t unit, gx_pass_thread *thread, void *memory, void *part,
                     gx_err *err)
{
    loading *l = arg;
    gx_sparse_device *d = l->d;
    gx_err fault = {0};
    gx_csr csr;
    stage *s = take_stage(l);
    (void)memory, (void)part;
    if (s == NULL) {
        return GX_OK;
    }
    gx_code code = GX_OK;
    if (s->turn == 0 ||
        d->accel->backend->mark_wait(d->accel->dev, s->mark, &fault) == GX_OK) {
        code = gx_pass_read_piece(thread, d->S, unit, s->memory.data, &csr, err);
    }
    if (code == GX_OK && fault.code == GX_OK) {
        prepare(l, s, &csr, l->product == NULL ? l->first[unit] : 0);
        pthread_mutex_lock(&l->lock);
        if (l->fault.code == GX_OK) {
            send(l, s, unit, &fault);
        }
        pthread_mutex_unlock(&l->lock);
    }
    give_stage(l, s, &fault);
    return code;
}

static gx_code take_stages(loading *l, gx_err *err)
{
    gx_sparse_device *d = l->d;
    gx_run *run = d->run;
    const gx_mat *S = d->S;
    size_t budget = (size_t)run->ctx->config.number[GX_SET_PINNING_BUDGET], most, bytes;
    int64_t wanted = gx_max(run->ctx->config.number[GX_SET_READERS],
                            run->ctx->config.number[GX_SET_THREADS]);
    wanted = gx_min(gx_min(wanted + AHEAD, STAGES), gx_sparse_pieces(S));
    most = lay_out(S, d->dtype, gx_sparse_most_rows(S), gx_sparse_most_entries(S)).value;
    l->block_bytes = aligned(gx_max(most, gx_sparse_block_bytes(S)));
    bytes = own_starts(l);
    if (l->follow != NULL) {
        bytes += (size_t)(gx_sparse_most_rows(S) + 1) * sizeof(uint32_t);
    }
    for (int64_t k = 0; k < wanted; k++) {
        gx_err refusal = {0};
        stage *s = &l->stage[k];
        if (k > 0 && !l->stage[k - 1].memory.is_pinned && k > AHEAD) {
            break; // they come out of memory_limit: a few will do
        }
        if (gx_pool_stage(d->accel->pool, bytes, budget, &s->memory, &refusal) != GX_OK) {
            return k > 0 ? GX_OK : gx_fail(err, refusal.code, "%s", refusal.text);
        }
        l->stages++;
        GX_TRY(d->accel->backend->mark_create(d->accel->dev, &s->mark, err));
    }
    return GX_OK;
}

static gx_code count_entries(loading *l, gx_err *err)
{
    const gx_mat *S = l->d->S;
    void *memory = NULL;
    int64_t pieces = gx_sparse_pieces(S), entries = 0;
    GX_TRY(gx_mem_alloc(l->d->run->ctx->mem, (size_t)pieces * sizeof *l->first,
                        "the schedule of panels", &memory, err));
    l->first = memory;
    for (int64_t p = 0; p < pieces; p++) {
        l->first[p] = entries;
        entries += gx_sparse_piece_entries(S, p);
    }
    return GX_OK;
}

/* All panels, once. */
static gx_code load(gx_sparse_device *d, const gx_sparse_product *product,
                    const gx_sparse_product *follow, gx_err *err)
{
    gx_run *run = d->run;
    loading l = {.d = d, .product = product, .follow = follow};
    const gx_mat *const sources[1] = {d->S};
    gx_err refusal = {0};
    if (count_entries(&l, &refusal) != GX_OK) {
        return gx_run_fail(run, &refusal);
    }
    pthread_mutex_init(&l.lock, NULL);
    gx_code code = take_stages(&l, err);
    if (code == GX_OK) {
        gx_pass pass = {.sources = sources,
                        .source_count = 1,
                        .units = gx_sparse_pieces(d->S),
                        .bytes = (double)gx_sparse_bytes(d->S),
                        .threads = gx_max(1, l.stages - AHEAD),
                        .work = bring,
                        .arg = &l};
        gx_pass_run(run, &pass);
        code = l.fault.code;
        if (code != GX_OK) {
            gx_fail(err, code, "%s", l.fault.text);
        }
    }
    gx_err late = {0};
    // The marks are awaited by kernels of the ring, too.
    gx_code settled = gx_device_settle(d->accel, code == GX_OK ? err : &late);
    code = code == GX_OK ? settled : code;
    for (int k = 0; k < l.stages; k++) {
        gx_pool_unstage(d->accel->pool, &l.stage[k].memory);
        d->accel->backend->mark_free(d->accel->dev, l.stage[k].mark);
    }
    pthread_mutex_destroy(&l.lock);
    gx_mem_free(run->ctx->mem, l.first);
    return code;
}

// The whole ---------------------------------------------------------------------------------------

static gx_code take(gx_sparse_device *d, gx_sparse_hold *hold, size_t bytes, gx_err *err)
{
    hold->bytes = bytes;
    return bytes == 0 || hold->data != NULL
               ? GX_OK
               : gx_pool_take(d->accel->pool, bytes, d->limit, &hold->data, err);
}

gx_code gx_sparse_device_begin(gx_sparse_device *d, int64_t lines, gx_err *err)
{
    const gx_backend *backend = d->accel->backend;
    size_t bytes = gx_sparse_device_bytes(d), work = work_bytes(d, lines);
    gx_block_key key;
    if (work >= GX_NO_WORKSPACE) {
        return gx_fail(err, GX_DEVICE, "%s does not say how much memory a kernel needs",
                       d->accel->info.name);
    }
    d->is_there = false;
    if (d->is_whole && key_of(d, &key)) {
        d->block[0] = (gx_sparse_hold){gx_pool_claim(d->accel->pool, &key, bytes), bytes};
        d->is_there = d->block[0].data != NULL;
        gx_stats_add(&d->run->ctx->stats, GX_STAT_DEVICE_HITS, d->is_there);
    }
    GX_TRY(take(d, &d->work, work, err));
    GX_TRY(take(d, &d->block[0], bytes, err));
    d->csr = panel_at(d, d->block[0].data, d->S->rows, gx_sparse_entries(d->S));
    if (d->is_whole) {
        return GX_OK;
    }
    GX_TRY(take(d, &d->block[1], bytes, err));
    for (int k = 0; k < GX_SPARSE_RING; k++) {
        GX_TRY(backend->mark_create(d->accel->dev, &d->used[k], err));
    }
    return GX_OK;
}

gx_code gx_sparse_device_bring(gx_sparse_device *d, const gx_sparse_product *follow, gx_err *err)
{
    if (!d->is_whole || d->is_there) {
        return GX_OK;
    }
    if (follow != NULL) { // each panel's own starts
        GX_TRY(take(d, &d->block[1], own_starts_bytes(d), err));
    }
    GX_TRY(load(d, NULL, follow, err));
    d->is_there = gx_ok(d->run);
    return GX_OK;
}

gx_code gx_sparse_device_multiply(gx_sparse_device *d, const gx_sparse_product *product,
                                  gx_err *err)
{
    return d->is_whole ? call(d, &d->csr, product, 0, err) : load(d, product, NULL, err);
}

/* Everything back to the pool, where a sound S is kept. */
static void give_back(gx_sparse_device *d, bool is_sound)
{
    gx_pool *pool = d->accel->pool;
    gx_block_key key;
    if (is_sound && d->is_there && key_of(d, &key)) {
        gx_pool_keep(pool, &key, d->block[0].data, d->block[0].bytes);
    } else {
        gx_pool_give(pool, d->block[0].data, d->block[0].bytes);
    }
    gx_pool_give(pool, d->block[1].data, d->block[1].bytes);
    gx_pool_give(pool, d->work.data, d->work.bytes);
    for (int k = 0; k < GX_SPARSE_RING; k++) {
        d->accel->backend->mark_free(d->accel->dev, d->used[k]);
        d->block[k] = (gx_sparse_hold){NULL, 0};
        d->used[k] = NULL;
    }
    d->work = (gx_sparse_hold){NULL, 0};
    d->is_there = false;
}

bool gx_sparse_device_finish(gx_sparse_device *d, void *const *buffers, const size_t *bytes,
                             int count, gx_code code, const gx_err *err)
{
    gx_run *run = d->run;
    bool is_well = code == GX_OK && gx_ok(run);
    if (gx_accel_opened(run->ctx) == d->accel) { // a progress report may have lost it
        gx_err late = {0};
        gx_code settled = is_well ? GX_OK : gx_device_settle(d->accel, &late);
        for (int k = 0; k < count; k++) {
            gx_pool_give(d->accel->pool, buffers[k], bytes[k]);
        }
        give_back(d, settled == GX_OK && code != GX_DEVICE);
        if (code != GX_OK && gx_ok(run)) {
            gx_device_give_up(run, d->accel, err);
        }
    }
    bool is_done = code == GX_OK || !gx_ok(run);
    gx_stats_add(&run->ctx->stats, GX_STAT_DEVICE_CALLS, is_done);
    return is_done;
}

// Whether -----------------------------------------------------------------------------------------

/*
** Bytes that pass through memory: S, lines of both operands, lines that entries name, half of which
** a cache has.
*/
static double traffic(const gx_mat *S, gx_dtype dtype, int64_t lines)
{
    double line = (double)lines * (double)gx_dtype_bytes(dtype);
    return (double)gx_sparse_bytes(S) + line * (double)(S->rows + S->cols) +
           line * (double)gx_sparse_entries(S) / 2;
}

double gx_sparse_host_seconds(gx_run *run, const gx_mat *S, gx_dtype dtype, int64_t lines)
{
    const double ENTRY_S = 1.5e-9, PASS_S = 20e-6; // of a thread: an entry of one line; a pass
    int64_t threads = run->ctx->config.number[GX_SET_THREADS];
    double rate = gx_profile_sweep_rate(gx_profile_get(run->ctx), (int)threads);
    double entries = (double)gx_sparse_entries(S) * ENTRY_S;
    return PASS_S + fmax(traffic(S, dtype, lines) / rate,
                         entries / (double)gx_max(1, gx_min(threads, gx_sparse_pieces(S))));
}

double gx_sparse_device_seconds(const gx_sparse_device *d, int64_t lines)
{
    const gx_device_profile *device = &d->accel->profile;
    return traffic(d->S, d->dtype, lines) / device->sweep_bytes_per_s + 2 * device->launch_s;
}

bool gx_sparse_device_is_worth_it(gx_sparse_device *d, double host_s, double now_s,
                                  double later_s)
{
    if (d->run->ctx->config.number[GX_SET_BACKEND] == GX_BACKEND_CUDA || now_s < host_s) {
        return true;
    }
    gx_block_key key;
    bool is_kept = d->is_whole && key_of(d, &key);
    return is_kept && !d->is_there &&
           gx_place_owe_copy(d->run, d->stamp, d->S->meta.id, d->S->meta.generation,
                             host_s - later_s) >= now_s - later_s;
}
