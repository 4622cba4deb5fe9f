/*
** Private to core/alg: squares of leaves, as by_parts_solve.c, by_parts_cut.c and by_parts_sums.c
** share them.
*/
#ifndef GX_BY_PARTS_INT_H
#define GX_BY_PARTS_INT_H

#include "by_parts.h"

/* Leaves of an n x n matrix, from (0, 0) on; none is turned by who solves. */
typedef struct gx_square {
    gx_leaf *leaf;
    int64_t leaves, n;
    uint32_t properties; /* those of all its main blocks, too: positive, hermitian, symmetric */
} gx_square;

typedef enum gx_way {
    GX_WAY_WHOLE,      /* its elements                                           */
    GX_WAY_DIAGONAL,   /* all is on the diagonal                                 */
    GX_WAY_ONE,        /* one leaf                                               */
    GX_WAY_LOWER,      /* block lower triangular: top down                       */
    GX_WAY_UPPER,      /* block upper triangular: bottom up                      */
    GX_WAY_LOW_RANK,   /* a matrix and products of few columns                   */
    GX_WAY_KRON_SHIFT, /* a Kronecker product and numbers on the diagonal        */
    GX_WAY_SCHUR       /* two by two                                             */
} gx_way;

/* What is solved: X in place (data NULL: nothing), *det multiplied (NULL: not asked for). */
typedef struct gx_task {
    const gx_parts *p;
    gx_vectors X;
    gx_product *det;
    void (*go)(const struct gx_task *t, const gx_square *S); /* for squares inside this one */
} gx_task;

static inline bool gx_task_ok(const gx_task *t)
{
    return gx_ok(t->p->run);
}

/* The determinant, where it is asked for, times x. */
static inline void gx_task_det(const gx_task *t, gx_scalar x)
{
    if (t->det != NULL) {
        gx_product_times(t->det, x.re, x.im);
    }
}

static inline gx_scalar gx_scalar_inverse(gx_scalar x)
{
    double size = x.re * x.re + x.im * x.im;
    return x.im == 0 ? (gx_scalar){1 / x.re, 0} : (gx_scalar){x.re / size, -x.im / size};
}

/*
** The leaves of op(A), as they stand there, to be freed; false: A is no composite that is solved by
** parts, or the run has failed.
*/
bool gx_parts_begin(const gx_parts *p, const gx_mat *A, gx_trans trans, gx_square *S);

// Where leaves lie (by_parts_cut.c) ---------------------------------------------------------------

/* Room for so many leaves; NULL: the run has failed. */
gx_leaf *gx_square_leaves(const gx_task *t, int64_t count);
void gx_square_free(const gx_task *t, gx_square *S);

/* On the main diagonal of the square?  All of it?  A product of few columns that is all of it? */
bool gx_leaf_is_diagonal(const gx_leaf *leaf);
bool gx_leaf_covers(const gx_leaf *leaf, int64_t n);
bool gx_leaf_is_low_rank(const gx_leaf *leaf, int64_t n);

/* Room for 2 numbers a leaf, and 2. */
int64_t *gx_square_cuts(const gx_task *t, const gx_square *S);

/* The cuts of a block triangle, its two ends among them; returns the blocks, 1: it is none. */
int64_t gx_square_triangle(const gx_square *S, bool is_lower, int64_t *cuts);

/* The leaves from `from` to before `to`, both ways; those on the diagonal are cut. */
gx_square gx_square_part(const gx_task *t, const gx_square *S, int64_t from, int64_t to);

/* The elements of rows from i and columns from j on; part reads whole, which is in the square. */
void gx_square_elements(const gx_task *t, const gx_square *S, int64_t i, int64_t rows, int64_t j,
                        int64_t cols, gx_mat *whole, gx_mat *part);

/* A first block that is safe to divide by, as far as can be seen: its order; 0: there is none. */
int64_t gx_square_schur_cut(const gx_square *S, int64_t *cuts);
gx_way gx_square_way(const gx_square *S, int64_t *cuts);

// Sums (by_parts_sums.c) --------------------------------------------------------------------------

/* (M + U V)^-1 x = z - W (I + V W)^-1 V z,  W = M^-1 U, z = M^-1 x;  det M det(I + V W). */
void gx_solve_low_rank(const gx_task *t, const gx_square *S);

/*
** The same with a diagonal M and one product, in two passes.  false: this is not so, or digits
** would be lost, or (the run has failed, GX_NUMERIC) a part is singular; X is as it was.
*/
bool gx_solve_diagonal_rank(const gx_task *t, const gx_square *S);

/* d += what a leaf has on the diagonal: d is all of that, a vector. */
void gx_square_add_diagonal(const gx_task *t, const gx_leaf *leaf, gx_vectors d);

/* x = a^-1 x of numbers in memory; a is destroyed, x has no gaps. */
void gx_solve_dense(const gx_task *t, gx_vectors a, gx_vectors x);

/* By the eigenvectors of both factors; false: these are not Hermitian. */
bool gx_solve_kron_shift(const gx_task *t, const gx_square *S);

/* E = A^-1 [B b1];  S = D - C E;  x2 = S^-1 (b2 - C A^-1 b1);  x1 = A^-1 b1 - E x2. */
void gx_solve_schur(const gx_task *t, const gx_square *S, int64_t cut);

#endif
