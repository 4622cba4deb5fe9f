/*
** Tiles of small stored matrices that stay in memory: see kept.h.
**
** A block holds the tiles one behind the other, each filled from its beginning on.  Who wants
** bytes of a tile that are not there yet fills it up to them, unless another thread is at it: then
** it reads for itself, as if nothing were kept.
*/
#include "kept.h"

#include <string.h>

/* Bytes that are read in vain at most for one that has been wanted, and besides. */
enum { SHARE = 8, SLACK = 64 << 10 };

typedef struct tile_state {
    atomic_size_t filled;
    atomic_size_t asked;  /* bytes that were wanted and were not there */
    atomic_flag is_taken; /* a thread is filling it */
    size_t start, bytes;
} tile_state;

struct gx_kept {
    gx_stats *stats;
    gx_mem_key key;
    int64_t tiles;
    atomic_llong missing; /* tiles that are not all there */
    char *data;
    tile_state tile[];
};

static size_t head_bytes(int64_t tiles)
{
    return gx_whole_lines(sizeof(gx_kept) + (size_t)tiles * sizeof(tile_state));
}

/* Of a block that is new: nothing is there. */
static void lay_out(gx_kept *kept, const gx_meta *meta)
{
    size_t start = 0;
    kept->tiles = gx_meta_tiles(meta);
    atomic_init(&kept->missing, kept->tiles);
    for (int64_t k = 0; k < kept->tiles; k++) {
        tile_state *t = &kept->tile[k];
        atomic_init(&t->filled, 0);
        atomic_init(&t->asked, 0);
        atomic_flag_clear(&t->is_taken);
        t->start = start;
        t->bytes = gx_meta_tile_bytes(meta, k);
        start += t->bytes;
    }
}

/* Is the matrix such a one?  *bytes: of its elements. */
static bool is_small(const gx_mat *mat, size_t *bytes)
{
    const gx_meta *meta = &mat->meta;
    size_t element = gx_dtype_bytes(meta->dtype);
    if (mat->kind != GX_MAT_STORED || meta->is_sparse || meta->is_composite || meta->is_spread ||
        gx_meta_code_bits(meta) != 0 || meta->rows > (int64_t)GX_KEPT_MOST ||
        meta->cols > (int64_t)GX_KEPT_MOST) {
        return false;
    }
    *bytes = (size_t)meta->rows * (size_t)meta->cols * element;
    return *bytes >= (size_t)GX_KEPT_LEAST && *bytes <= (size_t)GX_KEPT_MOST;
}

void gx_mat_keep(gx_ctx *ctx, gx_mat *mat)
{
    size_t bytes = 0;
    gx_err ignored = {0};
    void *block = NULL;
    if (!is_small(mat, &bytes)) {
        return;
    }
    gx_mem_key key = {.file = gx_store_stamp(ctx->store, mat->meta.schema),
                      .id = mat->meta.id,
                      .generation = mat->meta.generation,
                      .part = {mat->meta.rows, mat->meta.cols, GX_MAT_STORED, INT64_MIN}};
    size_t head = head_bytes(gx_meta_tiles(&mat->meta)), all = head + bytes;
    if (key.file == 0 || all > gx_mem_keeps(ctx->mem) / 16 || gx_mem_has_lent(ctx->mem, &key)) {
        return;
    }
    gx_kept *kept = gx_mem_claim(ctx->mem, &key, all);
    if (kept == NULL && gx_mem_alloc(ctx->mem, all, "what is kept", &block, &ignored) == GX_OK) {
        kept = block;
        lay_out(kept, &mat->meta);
    }
    if (kept != NULL) {
        kept->stats = &ctx->stats;
        kept->key = key;
        kept->data = (char *)kept + head;
        gx_mem_keep_freed(ctx->mem, kept, &kept->key);
        mat->kept = kept;
        mat->owned = kept;
    }
}

bool gx_kept_is_whole(const gx_kept *kept)
{
    return atomic_load_explicit(&kept->missing, memory_order_acquire) == 0;
}

/* Up to `end`; the tile is this thread's. */
static gx_code fill(gx_kept *kept, gx_reader *reader, const gx_meta *meta, int64_t tile, size_t end,
                    gx_err *err)
{
    tile_state *t = &kept->tile[tile];
    size_t filled = atomic_load_explicit(&t->filled, memory_order_acquire);
    if (filled < end) {
        GX_TRY(gx_reader_read(reader, meta, tile, filled, end - filled,
                              kept->data + t->start + filled, err));
        atomic_store_explicit(&t->filled, end, memory_order_release);
        if (end == t->bytes) {
            atomic_fetch_sub_explicit(&kept->missing, 1, memory_order_acq_rel);
        }
    }
    return GX_OK;
}

const void *gx_kept_there(gx_kept *kept, int64_t tile, size_t offset, size_t bytes, size_t wanted)
{
    const tile_state *t = &kept->tile[tile];
    if (offset + bytes > atomic_load_explicit(&t->filled, memory_order_acquire)) {
        return NULL;
    }
    gx_stats_add(kept->stats, GX_STAT_KEPT_BYTES, (int64_t)wanted);
    return kept->data + t->start + offset;
}

const void *gx_kept_find(gx_kept *kept, gx_reader *reader, const gx_meta *meta, int64_t tile,
                         size_t offset, size_t bytes, size_t wanted, gx_code *code, gx_err *err)
{
    tile_state *t = &kept->tile[tile];
    size_t end = offset + bytes;
    size_t filled = atomic_load_explicit(&t->filled, memory_order_acquire);
    *code = GX_OK;
    if (end <= filled) {
        return gx_kept_there(kept, tile, offset, bytes, wanted);
    }
    size_t asked = wanted + atomic_fetch_add_explicit(&t->asked, wanted, memory_order_relaxed);
    bool is_worth_it = end - filled <= SHARE * asked + SLACK;
    if (!is_worth_it || atomic_flag_test_and_set_explicit(&t->is_taken, memory_order_acquire)) {
        return NULL;
    }
    *code = fill(kept, reader, meta, tile, end, err);
    atomic_flag_clear_explicit(&t->is_taken, memory_order_release);
    return *code == GX_OK ? kept->data + t->start + offset : NULL;
}
