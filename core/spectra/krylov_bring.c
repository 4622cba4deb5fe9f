/*
** Bringing the shares of a matrix to devices for the passes of a Krylov method (krylov_device.c).
**
** Columns are read, copied and, of a Hermitian matrix, mirrored at the top.
**
** Whole rows of a Hermitian matrix are made from the triangle, which goes up once in all: of the
** share's columns from the diagonal on, turned; what lies before them, turned again, from the rows
** of the shares before it, whose devices' memory it reaches.  So shares are made in their order.
*/
#include "../exec/load.h"
#include "krylov_device.h"

/* The lower triangle of n x n elements, mirrored. */
static gx_code mirror(const gx_kry_share *s, gx_number dtype, int64_t n, void *c, int64_t ldc,
                      gx_err *err)
{
    gx_args args = {.uplo = GX_LOWER, .transa = gx_adjoint(dtype), .m = n, .n = n};
    args.c = c;
    args.ldc = ldc;
    return gx_devcall_kernel(&s->on, GX_SYMMETRIZE, dtype, &args, err);
}

/* c (m x n) = a^H, or a. */
static gx_code move(const gx_kry_share *s, gx_number dtype, bool is_turned, int64_t m, int64_t n,
                    const void *a, int64_t lda, void *c, int64_t ldc, gx_err *err)
{
    gx_args args = {.transa = is_turned ? gx_adjoint(dtype) : GX_NO_TRANS, .m = m, .n = n};
    args.a = a;
    args.lda = lda;
    args.c = c;
    args.ldc = ldc;
    return m == 0 || n == 0
               ? GX_OK
               : gx_devcall_kernel(&s->on, is_turned ? GX_TRANSPOSE : GX_COPY, dtype, &args, err);
}

/* What lies before a share's square in its rows: turned, from those who have it in theirs. */
static gx_code take_over(struct gx_kry_device *d, int share, gx_err *err)
{
    const gx_oper *op = d->op;
    const gx_kry_share *s = &d->share[share];
    const gx_hold *other = &s->on.hold[GX_KRY_OTHER];
    size_t element = gx_number_bytes(op->dtype);
    for (int k = 0; k < share; k++) {
        const gx_kry_share *from = &d->share[k];
        GX_TRY(gx_devcall_check_open(&from->on, err));
        size_t column = (size_t)from->cols * element;
        int64_t most = (int64_t)(other->bytes / column);
        for (int64_t j = 0; j < s->cols; j += most) {
            int64_t cols = gx_min(most, s->cols - j);
            size_t bytes = (size_t)cols * column;
            GX_TRY(s->on.accel->backend->copy_from(
                s->on.accel->dev, s->on.accel->run, other->data, from->on.accel->dev,
                gx_at(from->on.hold[GX_KRY_A].data, op->dtype, from->cols, 0, s->first + j), bytes,
                err));
            GX_TRY(move(s, op->dtype, true, cols, from->cols, other->data, from->cols,
                        gx_at(s->on.hold[GX_KRY_A].data, op->dtype, s->cols, j, from->first),
                        s->cols, err));
            gx_stats_add(&op->run->ctx->stats, GX_STAT_PEER_BYTES, (int64_t)bytes);
        }
    }
    return GX_OK;
}

/* Whole rows: from the share's columns on the diagonal and below, and from shares before it. */
static gx_code make_rows(struct gx_kry_device *d, int share, gx_err *err)
{
    gx_oper *op = d->op;
    gx_kry_share *s = &d->share[share];
    gx_hold *other = &s->on.hold[GX_KRY_OTHER];
    gx_number dtype = op->dtype;
    int64_t top = gx_kry_strip_top(op, s), rows = op->m - top, end = s->first + s->cols;
    int64_t elements = rows * s->cols;
    gx_mat view;
    for (int k = 0; k < share; k++) { // a column of theirs has room
        elements = gx_max(elements, d->share[k].cols);
    }
    GX_TRY(gx_devcall_grow(&s->on, GX_KRY_OTHER, (size_t)elements * gx_number_bytes(dtype), err));
    gx_mat_view(&view, op->A, GX_NO_TRANS, top, s->first, rows, s->cols);
    GX_TRY(gx_device_load(op->run, s->on.accel, &view, s->cols, dtype, true, other->data, err));
    if (!gx_ok(op->run)) {
        return GX_OK;
    }
    void *square = gx_at(other->data, dtype, rows, s->first - top, 0);
    GX_TRY(mirror(s, dtype, s->cols, square, rows, err));
    GX_TRY(move(s, dtype, false, s->cols, s->cols, square, rows,
                gx_at(s->on.hold[GX_KRY_A].data, dtype, s->cols, 0, s->first), s->cols, err));
    GX_TRY(move(s, dtype, true, s->cols, op->m - end, gx_at(other->data, dtype, rows, end - top, 0),
                rows, gx_at(s->on.hold[GX_KRY_A].data, dtype, s->cols, 0, end), s->cols, err));
    GX_TRY(take_over(d, share, err));
    GX_TRY(s->on.accel->backend->queue_wait(s->on.accel->dev, s->on.accel->run, err));
    gx_pool_give(s->on.accel->pool, other->data, other->bytes);
    *other = (gx_hold){NULL, 0};
    return GX_OK;
}

/* A share's columns: read, copied and mirrored. */
static gx_code make_columns(struct gx_kry_device *d, gx_kry_share *s, gx_err *err)
{
    gx_oper *op = d->op;
    int64_t top = gx_kry_top(op, s), rows = op->m - top;
    gx_mat view;
    gx_mat_view(&view, op->A, GX_NO_TRANS, top, s->first, rows, s->cols);
    GX_TRY(gx_device_load(op->run, s->on.accel, &view, s->cols, op->dtype, op->is_hermitian,
                          s->on.hold[GX_KRY_A].data, err));
    if (op->is_hermitian && gx_ok(op->run)) {
        GX_TRY(mirror(s, op->dtype, s->cols, s->on.hold[GX_KRY_A].data, rows, err));
        GX_TRY(s->on.accel->backend->queue_wait(s->on.accel->dev, s->on.accel->run, err));
    }
    return GX_OK;
}

/* A share's buffer: found, or made.  It is kept where all of A is on devices. */
static gx_code fill(struct gx_kry_device *d, int share, gx_err *err)
{
    gx_oper *op = d->op;
    gx_kry_share *s = &d->share[share];
    int64_t rows = d->has_whole_rows ? op->n : op->m - gx_kry_top(op, s);
    s->on.hold[GX_KRY_A].bytes = (size_t)(rows * s->cols) * gx_number_bytes(op->dtype);
    int64_t form = d->has_whole_rows ? -2 : op->is_hermitian ? -1 : 0; // mirrored: not as stored
    const gx_mat *kept = gx_kry_columns(d) == op->n ? op->A : NULL;
    s->on.key = gx_devcall_key(op->run, kept, form, rows, op->dtype);
    s->on.key.j0 = s->first;
    s->on.key.n = s->cols;
    GX_TRY(gx_devcall_check_open(&s->on, err));
    GX_TRY(gx_devcall_begin(&s->on, GX_DEVCALL_HOLDS, err));
    if (s->on.is_there) {
        return GX_OK;
    }
    GX_TRY(gx_devcall_take(&s->on, GX_KRY_A, err));
    GX_TRY(d->has_whole_rows ? make_rows(d, share, err) : make_columns(d, s, err));
    s->on.is_there = gx_ok(op->run);
    return GX_OK;
}

bool gx_kry_fill_all(struct gx_kry_device *d)
{
    bool is_good = true;
    d->err = (gx_err){0};
    for (int k = 0; k < d->shares && is_good; k++) {
        is_good = gx_kry_fail_of(d, k, fill(d, k, &d->err)) == GX_OK && gx_ok(d->op->run);
    }
    return is_good;
}
