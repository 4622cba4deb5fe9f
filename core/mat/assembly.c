/*
** A matrix put together from sorted runs, tile by tile: see assembly.h.
**
** Memory: the list of runs; one tile, unless the result is a value, which is filled in place, and
** its marks.  The caller's thread does everything.
*/
#include "assembly.h"

#include <assert.h>
#include <string.h>

// Sorted runs -------------------------------------------------------------------------------------

void gx_sorted_runs_begin(gx_sorted_runs *runs, gx_ctx *ctx, const gx_scatter_spec *spec)
{
    size_t share = gx_mem_available(ctx->mem) / 2;
    *runs = (gx_sorted_runs){.ctx = ctx, .spec = *spec, .share = share};
}

void gx_sorted_runs_free(gx_sorted_runs *runs)
{
    gx_spill_free(runs->spill);
    gx_mem_free(runs->ctx->mem, runs->list);
}

gx_code gx_sorted_runs_add(gx_sorted_runs *runs, const gx_sorted_run *info, gx_err *err)
{
    assert((info->memory != NULL) == (info->stream[0] == 0));
    if (runs->count == runs->capacity) {
        int64_t capacity = gx_max(8, 2 * runs->capacity);
        GX_TRY(gx_mem_realloc(runs->ctx->mem, (size_t)capacity * sizeof *runs->list, "sorted runs",
                              &runs->list, err));
        runs->capacity = capacity;
    }
    runs->list[runs->count++] = *info;
    return GX_OK;
}

gx_code gx_sorted_runs_spill(gx_sorted_runs *runs, gx_err *err)
{
    gx_stats_add(&runs->ctx->stats, GX_STAT_SPILLS, 1);
    if (runs->spill != NULL) {
        return GX_OK;
    }
    // Large enough that rows of the temporary database cost nothing, small beside the share.
    int64_t piece = gx_max(1024, gx_min((int64_t)(runs->share / 64), 256 << 10));
    return gx_spill_create(runs->ctx->mem, (size_t)piece, &runs->spill, err);
}

// Tiles -------------------------------------------------------------------------------------------

bool gx_assembly_begin(gx_assembly *a)
{
    *a->sink = (gx_sink){.run = a->run};
    return gx_ok(a->run);
}

gx_code gx_assembly_shape(gx_assembly *a, int64_t max_i, int64_t max_j, gx_err *err)
{
    const gx_scatter_spec *spec = &a->runs->spec;
    a->rows = spec->rows >= 0 ? spec->rows : max_i + 1;
    a->cols = spec->cols >= 0 ? spec->cols : max_j + 1;
    a->tile_rows = gx_max(a->rows, 1);
    a->tile_cols = gx_max(a->cols, 1);
    if (a->dest == NULL || a->dest->name == NULL) {
        return GX_OK;
    }
    gx_dtype dtype = a->dest->has_dtype ? a->dest->dtype : gx_dtype_of(spec->dtype);
    return gx_tile_shape(a->rows, a->cols, dtype,
                         gx_store_max_tile_bytes(a->runs->ctx->store), &a->tile_rows, &a->tile_cols,
                         err);
}

static size_t tile_bytes(const gx_assembly *a)
{
    size_t bytes = 0;
    gx_matrix_bytes(a->tile_rows, a->tile_cols, a->runs->spec.dtype, &bytes);
    return bytes;
}

bool gx_assembly_is_tight(const gx_assembly *a)
{
    size_t bytes = tile_bytes(a);
    return bytes + bytes / 8 + (64 << 10) > gx_mem_available(a->runs->ctx->mem);
}

gx_code gx_assembly_open(gx_assembly *a, int64_t marks, gx_err *err)
{
    gx_mem *mem = a->runs->ctx->mem;
    const gx_scatter_spec *spec = &a->runs->spec;
    GX_TRY(gx_sink_begin(a->run, a->dest, a->rows, a->cols, spec->dtype, 0, a->tile_rows,
                         a->tile_cols, a->sink));
    a->is_tile_owned = a->sink->is_stored || a->sink->narrow != NULL;
    a->tile = a->sink->value.data;
    if (a->is_tile_owned) {
        GX_TRY(gx_mem_alloc(mem, tile_bytes(a), "a tile", &a->tile, err));
    }
    if (spec->duplicates == GX_DUPLICATES_ERROR || spec->gaps == GX_GAPS_NAN) {
        a->mark_bytes = (size_t)marks / 8 + 1;
        GX_TRY(gx_mem_alloc(mem, a->mark_bytes, "marks of a tile", &a->marks, err));
    }
    return GX_OK;
}

gx_code gx_assembly_tiles(gx_assembly *a, gx_code (*column)(gx_assembly *a, gx_err *err),
                          gx_code (*take)(gx_assembly *a, gx_err *err), gx_err *err)
{
    size_t size = gx_number_bytes(a->runs->spec.dtype);
    gx_run_progress(a->run, (double)a->rows * (double)a->cols);
    for (a->j0 = 0; a->rows > 0 && a->j0 < a->cols; a->j0 += a->tile_cols) {
        a->n = gx_min(a->tile_cols, a->cols - a->j0);
        GX_TRY(column(a, err));
        for (a->i0 = 0; a->i0 < a->rows; a->i0 += a->tile_rows) {
            a->m = gx_min(a->tile_rows, a->rows - a->i0);
            memset(a->tile, 0, (size_t)(a->m * a->n) * size);
            if (a->marks != NULL) {
                memset(a->marks, 0, a->mark_bytes);
            }
            GX_TRY(take(a, err));
            if (a->is_tile_owned) {
                GX_TRY(gx_sink_write(a->sink, a->i0, a->j0, a->m, a->n, a->tile, a->m, err));
            }
            gx_run_advance(a->run, (double)a->m * (double)a->n);
            GX_TRY(gx_run_poll(a->run));
        }
    }
    return GX_OK;
}

gx_code gx_assembly_end(gx_assembly *a, const gx_err *err)
{
    if (a->is_tile_owned) {
        gx_mem_free(a->runs->ctx->mem, a->tile);
    }
    gx_mem_free(a->runs->ctx->mem, a->marks);
    return gx_run_fail(a->run, err);
}

void gx_assembly_put(const gx_assembly *a, int64_t k, gx_scalar value, bool is_sum)
{
    gx_number number = a->runs->spec.dtype;
    gx_scalar old = is_sum ? gx_number_get(number, a->tile, k) : (gx_scalar){0, 0};
    gx_number_put(number, a->tile, k,
                  is_sum ? (gx_scalar){old.re + value.re, old.im + value.im} : value);
}
