/*
** gx_benchmark([force]): measures the machine for the planner and keeps the figures.
**
** Products and memcpy are measured by the core (core/profile_measure.c).  The database's rates
** come from a private database in a temporary file: a matrix of 8 MiB tiles is stored and
** committed, then read twice through one connection, the second time from a warm cache, as a
** scan finds it.  Temporary databases are not synced to the disk; a storing call that is, is
** slower by what the disk takes.
**
** Takes about three seconds, one matrix of 64 MiB on the disk, and memory within memory_limit.
** With force not given or 0, figures that were measured before are returned as they are.
*/
#include "control.h"

#include <stdio.h>
#include <string.h>

enum { TILES = 8, PASSES = 2 };

static const size_t TILE_BYTES = (size_t)8 << 20;

/* Store one matrix of TILES tiles, each of tile_rows f64, from data. */
static gx_code write_matrix(gx_run *run, gx_ctx *ctx, const void *data, int64_t tile_rows,
                            gx_meta *meta, gx_err *err)
{
    *meta = (gx_meta){.schema = "main", .rows = tile_rows, .cols = TILES, .dtype = GX_F64};
    meta->tile_rows = tile_rows;
    meta->tile_cols = 1;
    gx_store *store = ctx->store;
    GX_TRY(gx_store_begin(store, "main", err));
    gx_code rc = gx_store_create(store, meta, err);
    for (int64_t tile = 0; tile < TILES && rc == GX_OK; tile++) {
        rc = gx_store_write_tile(store, meta, tile, data, err);
        if (rc == GX_OK) {
            rc = gx_run_poll(run);
        }
    }
    if (rc == GX_OK) {
        rc = gx_store_publish(store, meta, "benchmark", false, err);
    }
    gx_code ended = gx_store_end(store, rc == GX_OK, err);
    return rc != GX_OK ? rc : ended;
}

static gx_code read_matrix(gx_run *run, gx_ctx *ctx, const gx_meta *meta, void *data, gx_err *err)
{
    gx_reader *reader;
    size_t bytes = (size_t)meta->tile_rows * sizeof(double);
    GX_TRY(gx_reader_own(ctx->store, &reader, err));
    gx_code rc = GX_OK;
    for (int64_t tile = 0; tile < TILES && rc == GX_OK; tile++) {
        rc = gx_reader_read(reader, meta, tile, 0, bytes, data, err);
        if (rc == GX_OK) {
            rc = gx_run_poll(run);
        }
    }
    gx_reader_close(reader);
    return rc;
}

static double rate(double bytes, int64_t ns)
{
    return bytes / ((double)gx_max(ns, 1) * 1e-9);
}

/* Both rates, in a database that ctx has to itself. */
static gx_code measure_store(gx_run *run, gx_ctx *ctx, gx_profile *profile, gx_err *err)
{
    size_t spare = gx_mem_available(run->ctx->mem) / 2;
    int64_t tile_rows = (int64_t)((spare < TILE_BYTES ? spare : TILE_BYTES) / sizeof(double));
    tile_rows = gx_max(1, gx_min(tile_rows, gx_store_length_limit(run->ctx->store) / 16));
    size_t bytes = (size_t)tile_rows * sizeof(double);
    void *data;
    GX_TRY(gx_mem_calloc(run->ctx->mem, bytes, "gx_benchmark", &data, err));
    gx_meta meta;
    int64_t start = gx_now_ns();
    gx_code rc = write_matrix(run, ctx, data, tile_rows, &meta, err);
    profile->db_write_bytes_per_s = rate((double)bytes * TILES, gx_now_ns() - start);
    for (int pass = 0; pass < PASSES && rc == GX_OK; pass++) {
        start = gx_now_ns();
        rc = read_matrix(run, ctx, &meta, data, err);
        profile->db_read_bytes_per_s = rate((double)bytes * TILES, gx_now_ns() - start);
    }
    gx_mem_free(run->ctx->mem, data);
    return rc;
}

static void measure_database(gx_fn *fn, gx_profile *profile)
{
    char text[300];
    sqlite3 *db = NULL;
    if (gx_open_private("", &db, text, sizeof text) != SQLITE_OK) {
        gx_run_failf(&fn->run, GX_IO, "%s", text);
        return;
    }
    gx_err err = {0};
    gx_ctx *ctx = NULL; // of its own: the one that was registered belongs to db
    gx_code rc = gx_ctx_create(db, &ctx, &err);
    if (rc == GX_OK) {
        gx_ctx_hold(ctx);
        rc = measure_store(&fn->run, ctx, profile, &err);
        gx_ctx_release(ctx);
    }
    if (rc != GX_OK) {
        gx_run_fail(&fn->run, &err);
    }
    gx_ctx_free(ctx);
    sqlite3_close_v2(db);
}

void gx_fn_benchmark(gx_fn *fn)
{
    int64_t force = 0;
    if (gx_fn_has(fn, 0) && !gx_fn_int(fn, 0, "force", &force)) {
        return;
    }
    gx_profile profile = *gx_profile_get(fn->ctx);
    if (force != 0 || !profile.is_measured) {
        gx_profile_built_in(&profile); // what memory_limit keeps from being measured
        measure_database(fn, &profile);
        if (gx_ok(&fn->run) && gx_profile_measure(&fn->run, &profile) == GX_OK) {
            gx_profile_keep(fn->ctx, &profile);
        }
    }
    char text[4096];
    if (gx_ok(&fn->run) && !gx_profile_print(&profile, text, sizeof text)) {
        gx_run_failf(&fn->run, GX_NOMEM, "out of memory");
    }
    if (gx_ok(&fn->run)) {
        sqlite3_result_text(fn->sql, text, -1, SQLITE_TRANSIENT);
    }
}
