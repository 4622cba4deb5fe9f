/*
** Composites by their parts: products, systems and determinants that are made of those of the
** leaves (mat/composite.h), which nobody multiplies out.
**
** Columns of vectors are in memory, column-major.  A Kronecker product times x costs two products
** (Van Loan 2000); a product of matrices is applied factor by factor; a diagonal scales, a
** permutation moves, an identity adds, zeros cost nothing; a stored part is multiplied where it is
** best multiplied, on the device that keeps it.
*/
#ifndef GX_BY_PARTS_H
#define GX_BY_PARTS_H

#include "../mat/composite.h"
#include "alg.h"
#include "alg_lu.h"
#include "factoring.h"

/* rows x cols numbers of gx_parts.dtype. */
typedef struct gx_vectors {
    int64_t rows, cols, ld;
    void *data;
} gx_vectors;

/*
** What matrices inside a composite are handed to: gx_ctx.drivers, since a driver that works part by
** part is asked by the driver that it asks.
*/
typedef struct gx_drivers {
    gx_code (*multiply)(gx_run *run, const gx_matmul_args *args, gx_sink *C);
    gx_code (*solve)(gx_run *run, const gx_solve_args *args, gx_sink *X);
    gx_code (*determinant)(gx_run *run, const gx_mat *A, const gx_aux *aux, gx_determinant *out);
    gx_code (*norm)(gx_run *run, const gx_mat *A, char kind, double *norm);
} gx_drivers;

extern const gx_drivers gx_drivers_all; /* drivers.c */

typedef struct gx_parts {
    gx_run *run;
    gx_number dtype;
} gx_parts;

/* A matrix, transposed and conjugated or not. */
typedef struct gx_turned {
    const gx_mat *A;
    bool is_turned, is_conjugated;
} gx_turned;

static inline gx_turned gx_turned_by(const gx_mat *A, gx_trans trans)
{
    return (gx_turned){A, trans != GX_NO_TRANS, trans == GX_CONJ_TRANS};
}

/*
** Is a product of A with GX_PARTS_FEW columns or fewer made of its parts?  Always where elements
** would have to be made, and where the parts are large; but under `deterministic` blocks of stored
** matrices are read as one stored matrix is, which gives the same bits.
*/
enum { GX_PARTS_FEW = 64 }; /* of more columns the parts' own products are no faster */
bool gx_parts_pay(gx_run *run, const gx_mat *A);

/* Y = alpha A X. */
gx_code gx_parts_apply(const gx_parts *p, gx_turned A, gx_scalar alpha, gx_vectors X, gx_vectors Y);

/* The whole product, of which one factor is such a composite; false: this is not the way. */
bool gx_parts_multiply(gx_run *run, const gx_matmul_args *args, gx_sink *C);

/*
** op(A) X = B by A's parts; false: there is no way that saves anything.
**
**   block diagonal, block triangular   block by block
**   a Kronecker product of squares     by both factors; plus a number on the diagonal, where both
**                                      are Hermitian: by their eigenvectors
**   a product of squares               by one after the other
**   M + U V, U with few columns        by M, and a system of that order (Woodbury 1950)
**   [[A, B], [C, D]]                   by A and D - C A^-1 B, where A is positive definite
**
** GX_NUMERIC: a part is singular.
*/
bool gx_parts_solve(gx_run *run, const gx_solve_args *args, gx_sink *X);

/* The same of det A, and of A^-1, all columns of the identity. */
bool gx_parts_determinant(gx_run *run, const gx_mat *A, gx_product *product);
bool gx_parts_inverse(gx_run *run, const gx_mat *A, gx_sink *C);

/*
** The blocks of a block diagonal composite, as sources, from the first on; NULL: it is none, or is
** not to be taken apart, or the run has failed.  Freed by gx_parts_free_blocks().
*/
gx_mat *gx_parts_blocks(gx_run *run, const gx_mat *A, int64_t *count);
void gx_parts_free_blocks(gx_run *run, gx_mat *block, int64_t count);

/* ||A|| where it is the product of those of a Kronecker product's factors. */
bool gx_parts_norm(gx_run *run, const gx_mat *A, char kind, double *norm);

/* What that takes, for gx_plan; false: it is not done so.  way: static. */
typedef struct gx_parts_cost {
    double bytes, flops; /* of stored parts that are read; about so many */
    const char *way;
    char detail[96];     /* "2 stored, 1 Kronecker"                      */
} gx_parts_cost;
bool gx_parts_foresee_product(const gx_mat *A, int64_t cols, gx_parts_cost *cost);
bool gx_parts_foresee_solve(gx_run *run, const gx_mat *A, int64_t cols, gx_parts_cost *cost);

// Between by_parts.c and by_parts_solve.c ---------------------------------------------------------

/* Columns, undefined or of zeros; data NULL: the run has failed. */
gx_vectors gx_parts_columns(const gx_parts *p, int64_t rows, int64_t cols);
gx_vectors gx_parts_zeros(const gx_parts *p, int64_t rows, int64_t cols);
void gx_parts_free(const gx_parts *p, gx_vectors *x);
gx_vectors gx_parts_rows(const gx_parts *p, gx_vectors x, int64_t row, int64_t rows);

/* to = from; y += factor x; x = x * factor. */
void gx_parts_copy(const gx_parts *p, gx_vectors from, gx_vectors to);
void gx_parts_add(const gx_parts *p, gx_scalar factor, gx_vectors x, gx_vectors y);
void gx_parts_scale(const gx_parts *p, gx_scalar factor, gx_vectors x);

/*
** Columns of a result that are written together, whole tiles of it, and how many of them are
** computed at once: as many as memory holds, where each takes so many numbers for the one and for
** the other.
*/
typedef struct gx_parts_steps {
    int64_t group, step;
} gx_parts_steps;
gx_parts_steps gx_parts_choose(const gx_parts *p, int64_t cols, int64_t tile, double held,
                               double taken);

/*
** A result whose tiles are too wide for memory to hold a column of them: another one of narrow
** tiles, an intermediate, takes its place, and becomes it at the end.
*/
typedef struct gx_parts_way {
    gx_sink *to, narrow; /* where columns go        */
    gx_sink *final;      /* NULL: there is no other */
} gx_parts_way;
void gx_parts_begin_way(const gx_parts *p, gx_sink *C, double held, bool is_by_rows,
                        gx_parts_way *way);
void gx_parts_end_way(const gx_parts *p, gx_parts_way *way);

/* Columns col .. col + cols - 1. */
gx_vectors gx_parts_part(const gx_parts *p, gx_vectors x, int64_t col, int64_t cols);

/* Columns into a sink, from (i0, j0) on, tile by tile. */
void gx_parts_write(const gx_parts *p, gx_sink *to, int64_t i0, int64_t j0, gx_vectors x);

/* y = alpha op(a) x + beta y, all in memory. */
void gx_parts_multiply_add(const gx_parts *p, gx_trans trans, gx_scalar alpha, gx_vectors a,
                           gx_vectors x, gx_scalar beta, gx_vectors y);

/* All of a source, turned or not, into columns of that size. */
void gx_parts_load(const gx_parts *p, gx_turned A, gx_vectors to);

/*
** X of n1 n2 rows, each column an n2 x n1 matrix: Y, of n2 n1 rows, has its transpose.
*/
void gx_parts_shuffle(const gx_parts *p, int64_t n1, int64_t n2, gx_vectors X, gx_vectors Y);

/*
** Y = alpha times one leaf times X, or added to Y; the leaf is turned as it says.  X and Y are its
** columns and rows.
*/
void gx_parts_apply_leaf(const gx_parts *p, const gx_leaf *leaf, gx_scalar alpha, bool adds,
                         gx_vectors X, gx_vectors Y);

/* A vector that a leaf has, of so many elements; NULL: the run has failed. */
void *gx_parts_vector(const gx_parts *p, const gx_mat *v, gx_number dtype);

/* The leaf as the transpose or the conjugate of its composite has it. */
gx_leaf gx_parts_leaf(const gx_leaf *leaf, bool is_turned, bool is_conjugated);

#endif
