/*
** A sparse matrix on a device: see sparse_device.h.
**
** How panels get there: sparse_bring.c.
**
**   whole   one buffer: row starts of all rows, indexes, values, and each panel's own starts.  The
**           first starts are counted on from panel to panel before they go up, so that a product is
**           one launch however many panels there are.  A stored matrix is kept in the pool under
**           the key that other blocks have, and found there while neither it nor the file has
**           changed.  Where a gathered product follows, each panel is multiplied as it is, behind
**           its copy, by its own starts.
**   ring    panels as they lie, in any order, through two buffers, each multiplied when it is
**           there
**
** Starts are numbers of 32 bits: a whole of more than 2^32 entries, 50 GB and more, goes by panels.
*/
#include "sparse_device.h"

#include <math.h>

// Sizes -------------------------------------------------------------------------------------------

/* S on the device, or one panel. */
static gx_csr sizes_of(const gx_sparse_device *d)
{
    const gx_mat *S = d->S;
    return (gx_csr){.dtype = d->dtype,
                    .rows = d->is_whole ? S->rows : gx_sparse_most_rows(S),
                    .cols = S->cols,
                    .entries = d->is_whole ? gx_sparse_entries(S) : gx_sparse_most_entries(S),
                    .index_bytes = gx_csr_index_bytes(S->cols)};
}

static size_t work_bytes(const gx_sparse_device *d, const gx_csr *sizes, int64_t lines)
{
    gx_args args = {
        .transa = GX_TRANS, .m = lines, .n = sizes->rows, .k = sizes->cols, .sparse = sizes};
    return gx_devcall_workspace(&d->on, GX_SPMM, d->dtype, &args);
}

bool gx_sparse_device_offers(const gx_accel *accel, const gx_mat *S, gx_number dtype)
{
    return gx_accel_offers(accel, GX_SPMM, dtype) && gx_accel_offers(accel, GX_TRANSPOSE, dtype) &&
           gx_accel_offers(accel, GX_FILL, dtype) && gx_sparse_pieces(S) > 0;
}

bool gx_sparse_device_fit(gx_sparse_device *d, int64_t lines, bool is_whole_only)
{
    gx_devcall *on = &d->on;
    d->is_whole = gx_sparse_entries(d->S) < (int64_t)UINT32_MAX;
    for (;; d->is_whole = false) {
        gx_csr sizes = sizes_of(d);
        gx_hold *block = on->hold;
        block->bytes = gx_sparse_lay_out(d->S, d->dtype, sizes.rows, sizes.entries).bytes;
        on->hold[1].bytes = d->is_whole ? 0 : block->bytes;
        on->hold[GX_SPARSE_WORK].bytes = work_bytes(d, &sizes, lines);
        on->key = gx_devcall_key(on->run, d->is_whole ? d->S : NULL, 0, d->S->rows, d->dtype);
        if ((d->is_whole || !is_whole_only) && gx_devcall_fits(on)) {
            return true;
        }
        if (!d->is_whole || is_whole_only || !gx_devcall_is_open(on)) {
            return false;
        }
    }
}

// The call ----------------------------------------------------------------------------------------

gx_code gx_sparse_device_begin(gx_sparse_device *d, gx_err *err)
{
    GX_TRY(gx_devcall_begin(&d->on, 0, err));
    d->csr = gx_sparse_panel_at(d, d->on.hold[0].data, d->S->rows, gx_sparse_entries(d->S));
    return gx_devcall_marks(&d->on, 0, d->is_whole ? 0 : GX_SPARSE_RING, err);
}

gx_code gx_sparse_device_bring(gx_sparse_device *d, const gx_sparse_follow *follow, gx_err *err)
{
    if (!d->is_whole || d->on.is_there) {
        return GX_OK;
    }
    GX_TRY(gx_sparse_load(d, NULL, follow, err));
    d->on.is_there = gx_ok(d->on.run);
    return GX_OK;
}

gx_code gx_sparse_device_multiply(gx_sparse_device *d, const gx_sparse_product *product,
                                  gx_err *err)
{
    return d->is_whole ? gx_sparse_call(d, &d->csr, product, 0, err)
                       : gx_sparse_load(d, product, NULL, err);
}

// Whether -----------------------------------------------------------------------------------------

/*
** Bytes that pass through memory: S, lines of both operands, lines that entries name, half of which
** a cache has.
*/
static double traffic(const gx_mat *S, gx_number dtype, int64_t lines)
{
    double line = (double)lines * (double)gx_number_bytes(dtype);
    return (double)gx_sparse_bytes(S) + line * (double)(S->rows + S->cols) +
           line * (double)gx_sparse_entries(S) / 2;
}

double gx_sparse_host_seconds(gx_run *run, const gx_mat *S, gx_number dtype, int64_t lines)
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
    const gx_device_profile *device = &d->on.accel->profile;
    return traffic(d->S, d->dtype, lines) / device->sweep_bytes_per_s + 2 * device->launch_s;
}
