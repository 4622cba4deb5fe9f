/*
** Krylov methods: inside.  Operators, orthonormal blocks, and small projected problems, shared by
** krylov_eig.c (block Krylov-Schur) and krylov_svd.c (block Golub-Kahan-Lanczos, randomized).
*/
#ifndef GX_KRYLOV_H
#define GX_KRYLOV_H

#include "../mat/mat.h"

// Operators: y = Op x for blocks of vectors -------------------------------------------------------

typedef struct gx_oper gx_oper;

/* y (rows of op) = op(self) x, cols columns; x and y have leading dimensions of their lengths. */
typedef gx_code (*gx_oper_apply)(gx_oper *op, bool is_adjoint, const void *x, int64_t cols,
                                 void *y);

struct gx_oper {
    gx_run *run;
    int64_t m, n;   /* rows, columns                                            */
    gx_number dtype; /* of x and y                                               */
    gx_oper_apply apply;
    int64_t passes; /* over the stored matrix, so far                           */

    /* A source, part of it in memory (krylov_oper.c). */
    const gx_mat *A;
    bool is_hermitian;            /* only the lower triangle is looked at                     */
    int64_t edge_rows, edge_cols; /* of blocks                                      */
    void **strip;                 /* one a column of blocks, where it is in memory            */
    size_t keep_bytes;            /* memory that others will want                             */
    struct gx_kry_device *device; /* NULL: nothing is on a device (krylov_device.c)           */
    int64_t on_device;            /* columns of blocks that are: the first; then the resident */
    uint64_t avoided;             /* devices that had no room after all: bits by ordinal      */

    struct gx_kry_sparse *sparse; /* NULL: A is dense (krylov_sparse.c)                       */

    /* What is made of A: (A - sigma B)^-1, or A with B on both sides (krylov_inverse.c). */
    gx_oper *inner; /* A                                                          */
    bool has_b;     /* B = L L^H                                                  */
    bool is_inverse;
    gx_scalar sigma;            /* of the factor: near the one that was asked for             */
    struct gx_factors *factors; /* factors of any size; NULL: they are in memory:  */
    void *factor;               /* L\U of A - sigma B                                         */
    int64_t *pivots;
    void *chol; /* L                                                          */
};

/*
** Products with A.  keep_bytes: memory that others will want; what is left beyond it and a block
** cache holds the first columns of blocks, the others are streamed in every pass.  The bits of a
** product do not depend on that split.  To be ended whatever this returns.
*/
gx_code gx_oper_begin(gx_run *run, const gx_mat *A, gx_number dtype, bool is_hermitian,
                      size_t keep_bytes, gx_oper *op);

/*
** B given: L^-1 A L^-H of B = L L^H; is_inverse: (A - sigma I)^-1, or L^H (A - sigma B)^-1 L.  The
** factorisations are in memory where they fit beside keep_bytes, else in the temp database.
** GX_NUMERIC: B is not positive definite.  To be ended whatever this returns, and before what was
** begun earlier is dropped.
*/
gx_code gx_oper_begin_transformed(gx_run *run, gx_oper *inner, const gx_mat *B, bool is_inverse,
                                  gx_scalar sigma, size_t keep_bytes, gx_oper *op);
/* What the factors take where they are in memory. */
double gx_oper_transformed_bytes(int64_t n, gx_number dtype, bool has_b, bool is_inverse);
void gx_oper_end(gx_oper *op);
/* What gx_oper_begin_transformed() took; gx_oper_end() calls it. */
void gx_oper_end_transformed(gx_oper *op);

/*
** A sparse A: products with it, for gx_oper_begin(); (A - sigma I)^-1 by SuiteSparse, in place of
** gx_oper_begin_transformed().  GX_UNSUPPORTED: that is not installed, or sigma is complex and A
** real.
*/
gx_code gx_oper_begin_sparse(gx_run *run, const gx_mat *A, gx_number dtype, bool is_hermitian,
                             size_t keep_bytes, gx_oper *op);
gx_code gx_oper_begin_sparse_inverse(gx_run *run, gx_oper *inner, gx_scalar sigma, gx_oper *op);
void gx_oper_end_sparse(gx_oper *op); /* gx_oper_end() calls it */

/* A = A^H to the bit; false where the run has failed.  GX_BUDGET: A does not fit in memory. */
bool gx_oper_sparse_is_hermitian(gx_run *run, const gx_mat *A);

/* x = L^-H x, and y = L L^H x: from transformed vectors to those of A X = B X diag(values). */
gx_code gx_oper_back(gx_oper *op, void *x, int64_t cols);
gx_code gx_oper_times_b(gx_oper *op, const void *x, int64_t cols, void *y);

/* Blocks down and across, and the first row of a resident column of them. */
static inline int64_t gx_oper_grid_rows(const gx_oper *op)
{
    return gx_ceil_div(op->m, op->edge_rows);
}

static inline int64_t gx_oper_grid_cols(const gx_oper *op)
{
    return gx_ceil_div(op->n, op->edge_cols);
}

static inline int64_t gx_oper_strip_row(const gx_oper *op, int64_t j)
{
    return op->is_hermitian ? j * op->edge_cols : 0;
}

/*
** y += A x (adjoint: A^H x) of the columns of blocks from `first` on, in memory or streamed; x and
** y have leading dimensions of their lengths (krylov_pass.c).  Returns how often A was gone
** through: once, where memory holds the partial results of all columns of x.  bytes: what it takes
** for some columns; what is less makes it slower.
*/
int64_t gx_oper_pass(gx_oper *op, bool is_adjoint, const void *x, int64_t cols, void *y,
                     int64_t first);
size_t gx_oper_pass_bytes(gx_oper *op, bool streams);

/*
** The part of devices (krylov_device.c).  begin: the first columns of A go there where that is
** predicted to pay or asked for; returns their number, 0: none.  start: y = A x for those columns,
** or y += A x (adds), is under way, and y, where it does not add, the devices' alone; finish: it is
** there.  finish returns false where a device has failed: y is of no use, op->device NULL, nothing
** is on devices any more, and begin would do without that one.  bytes: of A that such a product
** reads.
*/
int64_t gx_oper_device_begin(gx_oper *op);
void gx_oper_device_start(gx_oper *op, bool is_adjoint, const void *x, int64_t cols, bool adds,
                          void *y);
bool gx_oper_device_finish(gx_oper *op);
double gx_oper_device_bytes(const gx_oper *op);
void gx_oper_device_end(gx_oper *op);

/*
** What gx_oper_begin() would do where the run is planning for: on the host, or on run->target.
** once: bytes of A that are read at the beginning and stay on the host or the device; each: those
** that each pass reads.  up: of `once`, what goes to the device.  pass_s: seconds of a pass over
** what is in memory, for `cols` columns.  is_faster: the device would be chosen.  up is 0 where no
** column fits there.
*/
typedef struct gx_oper_plan {
    double once, each, up;
    double pass_s;
    bool is_faster;
} gx_oper_plan;
void gx_oper_foresee(gx_run *run, const gx_mat *A, gx_number dtype, bool is_hermitian,
                     size_t keep_bytes, int64_t cols, gx_oper_plan *plan);

/* Of that, the device's part (krylov_device.c): up, pass_s, is_faster; returns its columns of A. */
int64_t gx_oper_device_foresee(gx_oper *op, int64_t cols, gx_oper_plan *plan);

/* What decides how many passes a search makes, for the ledger: A as it is stored, what is asked. */
uint64_t gx_oper_search_key(const gx_mat *A, int kind, int64_t k, int64_t ncv, int64_t block,
                            double tol);

/* What is asked of a basis of vectors of n elements for k values: 0 where nothing is. */
gx_code gx_kry_check_sizes(gx_run *run, int64_t n, int64_t k, int64_t ncv, int64_t block);
static inline int64_t gx_kry_chosen(int64_t asked, int64_t otherwise)
{
    return asked > 0 ? asked : otherwise;
}

/*
** Bytes that passes take at least, for refusals: one thread's, and what readers have of tiles.
** Its part in krylov_pass.c: one thread's and the list of pieces.
*/
size_t gx_oper_least_bytes(const gx_mat *A, gx_number dtype);
size_t gx_oper_pass_least(const gx_oper *op);

/* Four blocks of one tile each: for a step of a factorisation, or of eigenvalues. */
size_t gx_oper_floor_bytes(const gx_mat *A, gx_number dtype);

// Blocks of vectors (krylov_ortho.c, krylov_basis.c) ----------------------------------------------

/* Columns of a block, at most. */
enum { GX_KRY_BLOCK_MOST = 64 };

typedef struct gx_ortho {
    gx_run *run;
    gx_number dtype;
    int64_t n;   /* length of vectors                                            */
    double norm; /* estimate of ||Op||: what is small beside it is rounding      */
    uint64_t seed;
    int64_t drawn; /* random columns so far                                        */
    void *work;    /* gx_ortho_work() elements                                     */
    void *scratch; /* of it, for products of V with a block                        */
    int64_t first; /* the next blocks have little of V's columns before it: faster */
} gx_ortho;

/* Elements of dtype, for blocks of so many columns of n beside `most` at most. */
int64_t gx_ortho_work(gx_number dtype, int64_t n, int64_t most, int64_t block);

/*
** y (n x cols) = V h + Q s: Q, n x want, replaces y's first columns, orthonormal and orthogonal to
** V (n x m); h is m x cols, s want x cols, in doubles (wide: f64 or c128), leading dimensions ldh,
** lds.  Columns of y that are dependent are replaced by random ones, whose rows of s are zero, and
** so are missing ones (want > cols).  y has room for max(cols, want) columns; h, s may be NULL.
*/
gx_code gx_ortho_block(gx_ortho *o, const void *V, int64_t m, void *y, int64_t cols, int64_t want,
                       void *h, int64_t ldh, void *s, int64_t lds);

/* What is left of a column is nothing below so many roundings of what it was, or of ||Op||. */
#define GX_ORTHO_ROUNDING 16.0

typedef struct gx_ortho_lengths {
    double before[GX_KRY_BLOCK_MOST]; /* of the columns as they were given             */
    double now[GX_KRY_BLOCK_MOST];    /* as they are: columns of what was, times scale */
    double scale[GX_KRY_BLOCK_MOST];
} gx_ortho_lengths;

/*
** The same for a block that is left to go column by column, with l's before and scale; h, of m
** rows, and s are not NULL.
*/
void gx_ortho_columns(gx_ortho *o, const void *V, int64_t m, void *y, int64_t cols, int64_t want,
                      gx_ortho_lengths *l, void *h, int64_t ldh, void *s, int64_t lds);

/* Random columns, by the seed and how many were drawn before. */
void gx_ortho_draw(gx_ortho *o, void *columns, int64_t count);

/* y (rows x cols, leading dimension ldy) += x (rows x cols). */
void gx_kry_add(gx_number dtype, int64_t rows, int64_t cols, const void *x, void *y, int64_t ldy);

/* Rows of a basis that are rotated at once. */
enum { GX_KRY_PANEL = 256 };

/*
** V (n x m) = V W, W m x p of doubles, in place panel by panel of rows; p <= m.  Takes W in dtype
** and a panel x p for each thread, where there is memory, else for one.
*/
gx_code gx_kry_rotate(gx_run *run, gx_number dtype, void *V, int64_t n, int64_t m, const void *W,
                      int64_t ldw, int64_t p);

double gx_kry_norm(gx_number dtype, const void *x, int64_t n);

#endif
