/*
** Matrices to and from device memory: see device_copy.h; those in the database: exec/load.c.
**
** Memory from malloc is copied into page-locked buffers by the team; ordinary memory that is copied
** from directly goes at a fraction of the speed.  So does what many processors have just written
** and still hold in their caches: the team writes past them.
**
** Memory: three buffers of GX_PIECE_BYTES at most, page-locked within pinning_budget.
*/
#include "device_copy.h"
#include "upload.h"

#include "../base/copy.h"

#include <string.h>

// Failing -----------------------------------------------------------------------------------------

void gx_device_give_up(gx_run *run, gx_accel *accel, const gx_err *err)
{
    gx_ctx *ctx = run->ctx;
    const gx_about about = {
        .kind = gx_fallback_after(err->code), .device = accel->info.name, .bytes = err->bytes};
    gx_stats_add(&ctx->stats, GX_STAT_DEVICE_FALLBACKS, 1);
    if (err->code == GX_DEVICE) {
        gx_stats_event(&ctx->stats, about.kind, about.device, err);
        gx_accel_leave_out(ctx, accel, err);
        return;
    }
    gx_stats_tell(&ctx->stats, &about, "computed on the CPU: %s", err->text);
    if (err->code == GX_NOMEM) {
        gx_stats_event(&ctx->stats, GX_EVENT_NOMEM_DEVICE, about.device, err);
        gx_pool_trim(accel->pool);
    }
}

// From and to memory ------------------------------------------------------------------------------

typedef struct shares {
    char *to;
    const char *from;
    size_t to_ld, from_ld, column, cols, share;
    bool is_staged;
} shares;

static int64_t shares_of_column(const shares *s)
{
    return (int64_t)((s->column + s->share - 1) / s->share);
}

static gx_code copy_share(void *arg, int64_t piece, int member, gx_err *err)
{
    const shares *s = arg;
    size_t col = (size_t)(piece / shares_of_column(s));
    size_t at = (size_t)(piece % shares_of_column(s)) * s->share;
    size_t bytes = s->column - at < s->share ? s->column - at : s->share;
    char *to = s->to + col * s->to_ld + at;
    const char *from = s->from + col * s->from_ld + at;
    (void)member, (void)err;
    if (s->is_staged) {
        gx_copy_past(to, from, bytes);
        gx_copy_past_end();
    } else {
        memcpy(to, from, bytes);
    }
    return GX_OK;
}

gx_dtype gx_device_form(const gx_accel *accel, const gx_staging *stage, const gx_mat *mat,
                        gx_number number)
{
    bool widens = stage->is_pinned && gx_accel_offers(accel, GX_CONVERT, number) &&
                  mat->dtype != GX_DTYPE_I64; // some of them are refused
    return widens ? gx_mat_narrow(mat, number) : gx_dtype_of(number);
}

gx_code gx_device_send(gx_run *run, const gx_accel *accel, gx_dtype as, const void *from,
                       gx_number number, void *c, int64_t ldc, int64_t m, int64_t n, gx_err *err)
{
    const gx_backend *backend = accel->backend;
    size_t column = (size_t)m * gx_dtype_bytes(as), ld = (size_t)ldc * gx_number_bytes(number);
    gx_args args = {.m = m, .n = n, .from = as, .a = from, .lda = m, .c = c, .ldc = ldc};
    GX_TRY(gx_dtype_is(as, number)
               ? backend->upload(accel->dev, accel->up, c, ld, from, column, column, (size_t)n, err)
               : backend->kernel[GX_CONVERT][number](accel->dev, accel->up, &args, err));
    gx_stats_add(&run->ctx->stats, GX_STAT_UPLOADED, (int64_t)column * n);
    return GX_OK;
}

gx_team *gx_device_copiers(gx_run *run, size_t bytes, bool is_once)
{
    const size_t WORTH_A_TEAM = (size_t)1 << 20;
    bool must_pay = is_once && run->team == NULL;
    size_t threads = must_pay ? (size_t)run->ctx->config.number[GX_SET_THREADS] : 1;
    return bytes / WORTH_A_TEAM < threads ? NULL : gx_run_team(run);
}

static void copy_by(gx_run *run, gx_team *team, shares *s)
{
    const size_t SHARE = (size_t)128 << 10;
    if (s->to_ld == s->column && s->from_ld == s->column) {
        s->column *= s->cols;
        s->cols = 1;
    }
    s->share = SHARE;
    gx_err err = {0};
    if (team == NULL || gx_team_threads(team) == 1) {
        for (size_t col = 0; col < s->cols; col++) {
            memcpy(s->to + col * s->to_ld, s->from + col * s->from_ld, s->column);
        }
        return;
    }
    gx_team_run(team, shares_of_column(s) * (int64_t)s->cols, copy_share, s, &err);
    gx_run_fail(run, &err); // an interrupt: what was copied is not looked at any more
}

void gx_device_memcpy(gx_run *run, void *to, const void *from, size_t bytes)
{
    shares s = {.to = to, .from = from, .column = bytes, .cols = 1};
    s.to_ld = s.from_ld = bytes;
    copy_by(run, gx_device_copiers(run, bytes, false), &s);
}

void gx_device_stage(gx_run *run, void *to, size_t to_ld_bytes, const void *from,
                     size_t from_ld_bytes, size_t col_bytes, size_t cols)
{
    shares s = {.to = to, .from = from, .column = col_bytes, .cols = cols, .is_staged = true};
    s.to_ld = to_ld_bytes;
    s.from_ld = from_ld_bytes;
    copy_by(run, gx_device_copiers(run, col_bytes * cols, false), &s);
}

typedef struct transfer {
    gx_team *team; /* or NULL */
    gx_span span;
    size_t column, ld;  /* bytes of a column, and from one to the next in memory */
    int64_t cols, step; /* columns; of a piece */
    gx_upload up;
} transfer;

static gx_code begin_transfer(transfer *t, gx_err *err)
{
    t->span = gx_stats_open(&t->up.run->ctx->stats);
    t->team = gx_device_copiers(t->up.run, t->column * (size_t)t->cols, true);
    // A quarter: one is copied here while another one travels.
    int64_t quarter = (int64_t)t->column * t->cols / 4;
    int64_t most = gx_min(GX_PIECE_BYTES, gx_max(GX_PIECE_UP_BYTES, quarter));
    t->step = gx_min(t->cols, gx_max(1, most / ((int64_t)t->column + 1)));
    return gx_upload_open(&t->up, t->column * (size_t)t->step, 0, gx_ceil_div(t->cols, t->step),
                          err);
}

static gx_code end_transfer(transfer *t, gx_code rc, gx_err *err)
{
    rc = gx_upload_close(&t->up, false, rc, err);
    gx_stats_close(&t->up.run->ctx->stats, GX_STAT_COPY_NS, t->span);
    return rc;
}

/* Columns [j, j + n) between a buffer and memory. */
static void copy_piece(const transfer *t, bool is_up, void *stage, char *memory, int64_t n)
{
    shares s = {.column = t->column, .cols = (size_t)n, .is_staged = is_up};
    s.to = is_up ? stage : memory;
    s.from = is_up ? memory : stage;
    s.to_ld = is_up ? t->column : t->ld;
    s.from_ld = is_up ? t->ld : t->column;
    copy_by(t->up.run, t->team, &s);
}

gx_code gx_device_put(gx_run *run, gx_accel *accel, gx_number dtype, int64_t m, int64_t n,
                      const void *a, int64_t lda, void *b, gx_err *err)
{
    size_t element = gx_number_bytes(dtype);
    transfer t = {.up = {.run = run, .accel = accel}, .column = (size_t)m * element, .cols = n};
    t.ld = (size_t)lda * element;
    if (m <= 0 || n <= 0) {
        return GX_OK;
    }
    gx_code rc = begin_transfer(&t, err);
    gx_stage *s = NULL;
    char *from = (char *)(uintptr_t)a; // read only
    for (int64_t j = 0; rc == GX_OK && gx_ok(run) && j < n; j += t.step) {
        int64_t cols = gx_min(t.step, n - j);
        gx_err fault = {0};
        if ((s = gx_upload_take(&t.up)) == NULL) {
            break; // the device has failed
        }
        copy_piece(&t, true, s->memory.data, from + (size_t)j * t.ld, cols);
        size_t bytes = t.column * (size_t)cols;
        if (gx_upload_begin(&t.up, s, GX_OK) &&
            gx_upload_send(&t.up, (char *)b + (size_t)j * t.column, bytes, s->memory.data, bytes, 1,
                           &fault) == GX_OK) {
            (void)gx_upload_mark(&t.up, s, &fault);
        }
        gx_upload_end(&t.up, s, &fault);
        gx_run_poll(run);
    }
    return end_transfer(&t, rc, err);
}

/* Piece k on its way to its stage. */
static gx_code fetch(const transfer *t, int64_t k, const void *b, gx_err *err)
{
    const gx_accel *accel = t->up.accel;
    const gx_stage *s = &t->up.stage[k % t->up.stages];
    int64_t j = k * t->step;
    size_t bytes = t->column * (size_t)gx_min(t->step, t->cols - j);
    GX_TRY(accel->backend->download(accel->dev, accel->down, s->memory.data, bytes,
                                    (const char *)b + (size_t)j * t->column, bytes, bytes, 1, err));
    gx_stats_add(&t->up.run->ctx->stats, GX_STAT_DOWNLOADED, (int64_t)bytes);
    return accel->backend->mark_set(accel->dev, accel->down, s->mark, err);
}

gx_code gx_device_get(gx_run *run, gx_accel *accel, gx_number dtype, int64_t m, int64_t n,
                      const void *b, void *a, int64_t lda, gx_err *err)
{
    size_t element = gx_number_bytes(dtype);
    transfer t = {.up = {.run = run, .accel = accel}, .column = (size_t)m * element, .cols = n};
    t.ld = (size_t)lda * element;
    if (m <= 0 || n <= 0) {
        return GX_OK;
    }
    gx_code rc = begin_transfer(&t, err);
    int64_t pieces = gx_ceil_div(n, t.step), ahead = 0;
    for (int64_t k = 0; rc == GX_OK && gx_ok(run) && k < pieces; k++) {
        const gx_stage *s = &t.up.stage[k % t.up.stages];
        for (; rc == GX_OK && ahead < gx_min(pieces, k + t.up.stages); ahead++) {
            rc = fetch(&t, ahead, b, err);
        }
        rc = rc == GX_OK ? accel->backend->mark_wait(accel->dev, s->mark, err) : rc;
        if (rc == GX_OK) {
            int64_t j = k * t.step;
            copy_piece(&t, false, s->memory.data, (char *)a + (size_t)j * t.ld,
                       gx_min(t.step, n - j));
        }
        gx_run_poll(run);
    }
    return end_transfer(&t, rc, err);
}
