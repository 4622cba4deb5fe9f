/*
** A sparse matrix on a device: its panels brought there, kept, multiplied (GX_SPMM).
**
**     gx_sparse_device d = {.on = {.run = run, .accel = accel}, .S = S, .dtype = dtype};
**     d.on.hold[GX_SPARSE_BESIDE].bytes = ...; // and others that the call wants
**     if (gx_sparse_device_fit(&d, lines, false)) {
**         code = gx_sparse_device_begin(&d, &err);
**         code = gx_sparse_device_bring(&d, NULL, &err); // unless it is there
**         code = gx_sparse_device_multiply(&d, &product, &err);
**         ...
**         is_done = gx_devcall_end(&d.on, code, &err);
**     }
**
** Host errors (a read, an interrupt) fail the run; the device's are returned in *err, and the run
** is well.
*/
#ifndef GX_SPARSE_DEVICE_H
#define GX_SPARSE_DEVICE_H

#include "../device/devcall.h"
#include "../exec/place.h"
#include "../mat/sparse.h"

/* Of the call's buffers: S or two panels, the kernel's, then whatever the caller wants. */
enum { GX_SPARSE_RING = 2, GX_SPARSE_WORK = GX_SPARSE_RING, GX_SPARSE_BESIDE };

/* R = or += alpha L op(S) in the device's memory: GX_SPMM of the whole of S. */
typedef struct gx_sparse_product {
    gx_trans op;   /* NO_TRANS: R +=, in an order of chance; else R =   */
    int64_t lines; /* of L and R, whose leading dimension it is as well */
    gx_scalar alpha;
    const void *L; /* lines x S's rows; S's columns where op is not NO_TRANS */
    void *R;
} gx_sparse_product;

/*
** A gathered product that is done panel by panel while S is brought.  dense: what L is turned from
** goes up in front of S, by the same threads, dense->rows x dense->cols, to `at`; NULL: L is
** there.  R comes down to `result`, S's rows x lines, by the same threads, when these have nothing
** left to read, by way of `at`, which has room for both.
*/
typedef struct gx_sparse_follow {
    gx_sparse_product product;
    const gx_mat *dense;
    void *at, *result;
    int64_t ldr; /* of result */
} gx_sparse_follow;

typedef struct gx_sparse_device {
    gx_devcall on; /* marks: behind the products of the ring's panels         */
    const gx_mat *S;
    gx_number dtype; /* of the product; S's values are converted on the way   */
    bool is_whole;   /* S has a buffer; else its panels go through two        */
    gx_csr csr;      /* on the device                                         */
} gx_sparse_device;

/* Does the device have the kernel, and can S be multiplied there at all? */
bool gx_sparse_device_offers(const gx_accel *accel, const gx_mat *S, gx_number dtype);

/*
** Is there room for S, what the call wants beside it and what products of so many lines take?  As a
** whole, or, unless is_whole_only, for two panels.  See gx_devcall_fits().
*/
bool gx_sparse_device_fit(gx_sparse_device *d, int64_t lines, bool is_whole_only);

/* All buffers, and marks. */
gx_code gx_sparse_device_begin(gx_sparse_device *d, gx_err *err);

/* A whole S is brought, where it was not there, and its product done behind it; or follow NULL. */
gx_code gx_sparse_device_bring(gx_sparse_device *d, const gx_sparse_follow *follow, gx_err *err);

/* Enqueued on accel->run; where S is not whole it is read once, and has been when this returns. */
gx_code gx_sparse_device_multiply(gx_sparse_device *d, const gx_sparse_product *product,
                                  gx_err *err);

// Whether -----------------------------------------------------------------------------------------

/* Seconds of a product of so many lines on the host, S in memory; on the device, S there. */
double gx_sparse_host_seconds(gx_run *run, const gx_mat *S, gx_number dtype, int64_t lines);
double gx_sparse_device_seconds(const gx_sparse_device *d, int64_t lines);

// Inside (sparse_device.c, sparse_bring.c) --------------------------------------------------------

/* Where indexes, values and panels' own starts lie in a block, and what that comes to. */
typedef struct gx_sparse_layout {
    size_t index, value, own, bytes;
} gx_sparse_layout;

gx_sparse_layout gx_sparse_lay_out(const gx_mat *S, gx_number dtype, int64_t rows, int64_t entries);

/* The panel of a block that is laid out so. */
gx_csr gx_sparse_panel_at(const gx_sparse_device *d, void *block, int64_t rows, int64_t entries);

/* The product of S, or of its rows from row0 on, which are on the device. */
gx_code gx_sparse_call(gx_sparse_device *d, const gx_csr *csr, const gx_sparse_product *p,
                       int64_t row0, gx_err *err);

/*
** All panels, once.  product: through the ring; else to the whole's place, with `follow` or NULL.
** Has waited for all queues.
*/
gx_code gx_sparse_load(gx_sparse_device *d, const gx_sparse_product *product,
                       const gx_sparse_follow *follow, gx_err *err);

#endif
