/*
** Inside the products of Krylov methods on devices: krylov_share.c says which device has which
** columns of A and multiplies them with what, krylov_device.c brings them there and does it.
*/
#ifndef GX_KRYLOV_DEVICE_H
#define GX_KRYLOV_DEVICE_H

#include "../device/devcall.h"
#include "krylov.h"

/* Parts that x comes in, at most; a stretch of y is made in one, or in two. */
enum { GX_KRY_X_PARTS = 2 };

/* A part of a share's y. */
typedef struct gx_kry_part {
    int64_t row, rows;
    int64_t at, ld;   /* elements before it in the share's y; rows of its stretch */
    bool is_received; /* the next share has begun the sum        */
} gx_kry_part;

/*
** How a share makes its products of a pass: the rows of its columns; the rows of x, and of y, that
** they meet; parts of x; and parts of y in the order in which it makes them: the other shares'
** stretches, then its own, in one part or two, to bring down.  Stretches lie one behind the other
** in its memory.
*/
typedef struct gx_kry_layout {
    int64_t cols;     /* of vectors; 0: nothing is laid out yet                    */
    bool is_added;    /* by the devices: there is a stretch of y for each share    */
    bool is_turned;   /* A_c^H x                                                   */
    bool is_triangle; /* two products, each with all of x, into all of y           */
    int64_t rows, x0, x, y0, y;
    int64_t x_at[GX_KRY_X_PARTS + 1]; /* where parts of x begin, and the last one ends */
    int x_parts, y_parts;
    int own;                               /* the first part of y that is its own */
    gx_kry_part part[GX_DEVICES_MOST + 1]; /* of y                                */
    size_t work;                           /* that its products need              */
} gx_kry_layout;

/* A share's buffers.  Its columns of A are m x cols; Hermitian: from row first on; whole rows:
** cols x n.  OTHER, while they are made: what is turned. */
enum { GX_KRY_A, GX_KRY_X, GX_KRY_Y, GX_KRY_WORK, GX_KRY_OTHER };

/* Its marks: a part of x is there; part k of y is summed up so far, k % 2; a part of y has come
** from another share; the first part of y has come down. */
enum { GX_KRY_ARRIVED, GX_KRY_DONE, GX_KRY_RECEIVED = GX_KRY_DONE + 2, GX_KRY_DOWN, GX_KRY_MARKS };

/* What one device has; y comes down to the call's stage. */
typedef struct gx_kry_share {
    gx_devcall on;
    int64_t first, cols;     /* of A                                  */
    gx_kry_layout layout[2]; /* of the latest passes, adjoint or not  */
} gx_kry_share;

struct gx_kry_device {
    gx_oper *op;
    bool has_whole_rows; /* of a Hermitian A, not a triangle      */
    int shares;
    gx_kry_share share[GX_DEVICES_MOST];
    gx_devcalls calls;   /* of the shares, as they end            */
    gx_staging up;       /* of the first share's pool             */
    int64_t from, count; /* columns of vectors that are under way */
    const void *vectors; /* of this pass                          */
    void *y;
    int64_t all;
    bool is_adjoint, adds;
    bool is_added; /* each share brings a stretch of y down, the sum of all shares' */
    gx_err err;    /* the first failure; calls.culprit: whose it is */
};

/* The first row of A that a share of columns has. */
static inline int64_t gx_kry_top(const gx_oper *op, const gx_kry_share *s)
{
    return op->is_hermitian ? s->first : 0;
}

/* For so many columns of vectors; d->is_added says who adds up. */
gx_kry_layout gx_kry_lay_out(const struct gx_kry_device *d, const gx_kry_share *s, int share,
                             bool is_adjoint, int64_t cols);

/*
** The products of a pass with part part_x of x, into part part_y of y: one or two, none where the
** part of y is made with all of x at once; sizes alone where the buffers are not there yet.
*/
int gx_kry_products(const gx_oper *op, const gx_kry_share *s, const gx_kry_layout *l, int part_x,
                    int part_y, gx_args out[2]);

/* The first row of the strip of columns that a share's whole rows are made of: a block's. */
int64_t gx_kry_strip_top(const gx_oper *op, const gx_kry_share *s);

/* Do all shares' devices, several, reach each other's memory, and offer the kernel? */
bool gx_kry_are_linked(const struct gx_kry_device *d, gx_kernel_id kernel);

/* The first device where it is predicted to be worth it, or wanted, and does such products. */
gx_accel *gx_kry_candidate(const gx_oper *op, size_t *limit);

/* Does the device, and has it had room so far? */
bool gx_kry_serves(const gx_oper *op, const gx_accel *accel);

/* The first device and those that help it, with their shares.  is_asked: only to know. */
void gx_kry_choose(struct gx_kry_device *d, gx_accel *first, size_t limit, bool is_asked);

/* The shares' columns anew: all, so that the last device is done soonest, or those with room. */
void gx_kry_cut(struct gx_kry_device *d);

/* code, with the share whose failure it is. */
gx_code gx_kry_fail_of(struct gx_kry_device *d, int culprit, gx_code code);

/* All shares' columns, or rows, found or brought (krylov_bring.c). */
bool gx_kry_fill_all(struct gx_kry_device *d);

/* Columns of A that are on devices. */
int64_t gx_kry_columns(const struct gx_kry_device *d);

#endif
