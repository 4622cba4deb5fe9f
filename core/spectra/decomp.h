/*
** Decompositions of a matrix in memory, each a LAPACK call or two (decomp.c).
**
**   SCHUR        A = T, Z with A = Z T Z^H: n x n; T upper triangular, or, of a real A as a real
**                one, with 2 x 2 blocks on its diagonal, one for each conjugate pair (gees)
**   HESSENBERG   H, Q with A = Q H Q^H: n x n; H zero below its first subdiagonal (gehrd)
**   POLAR        U, P: A = U P, or P U where is_left; A m x n, U too, U^H U = I where m >= n, else
**                U U^H = I; P Hermitian and positive semidefinite (by the singular values)
**   LDL          L, D, p: A = L D L^H of a Hermitian A, L D L^T of a complex symmetric one; n x n;
**                L(p, :) unit lower triangular, D of 1 x 1 and 2 x 2 blocks (Bunch and Kaufman;
**                sytrf, hetrf), p a column of row numbers from 0
**   PIVOTED_QR   Q, R, p: A(:, p) = Q R; A m x n, Q m x k, R k x n, k = min(m, n), or m where
**                is_full; |r_11| >= |r_22| >= ..., which tells the rank (geqp3)
**   ORTH         Q: an orthonormal basis of A's range, m x rank: left vectors of the singular
**                values above rcond times the largest
**
**   QZ           S, T, Q, Z of a pair: A = Q S Z^H, B = Q T Z^H; n x n; T upper triangular, S too,
**                or, of real matrices as real ones, with 2 x 2 blocks on its diagonal (gges)
**   BALANCE      B, T: B = T^-1 A T, T a permutation times powers of 2; n x n; B's rows and columns
**                are of about the same size (gebal)
**   COSSIN       U, C, V: A = U C V of a unitary A, n x n, U and V of a block of the first rows
**                (columns) and one of the others, C of cosines and sines (uncsd)
**
** A part is column-major, its leading dimension max(1, rows).  Memory: A, the parts, and LAPACK's
** work space.
*/
#ifndef GX_DECOMP_H
#define GX_DECOMP_H

#include "../mat/mat.h"

typedef enum gx_decomp_kind {
    GX_DECOMP_SCHUR,
    GX_DECOMP_HESSENBERG,
    GX_DECOMP_POLAR,
    GX_DECOMP_LDL,
    GX_DECOMP_PIVOTED_QR,
    GX_DECOMP_ORTH,
    GX_DECOMP_QZ,
    GX_DECOMP_BALANCE,
    GX_DECOMP_COSSIN,
    GX_DECOMP_KINDS
} gx_decomp_kind;

enum { GX_DECOMP_PARTS = 4 };

/* What the parts of a kind are called, NULL where there are fewer. */
extern const char *const gx_decomp_names[GX_DECOMP_KINDS][GX_DECOMP_PARTS];

typedef struct gx_decomp_args {
    const gx_mat *A;
    const gx_mat *B; /* QZ: the other one of the pair                       */
    gx_decomp_kind kind;
    gx_number number;   /* of the parts: A's, or one that A's is converted to  */
    gx_sort sort;       /* SCHUR, QZ: which values come first                  */
    int64_t rows, cols; /* COSSIN: of the upper left block, between 0 and n  */
    bool is_left;       /* POLAR                                               */
    bool is_full;       /* PIVOTED_QR                                          */
    double rcond;       /* ORTH; < 0: gx_rank_rcond()                          */
} gx_decomp_args;

typedef struct gx_decomp {
    gx_mem *mem;
    struct gx_decomp_part {
        void *data;
        int64_t rows, cols;
        gx_number number;
        uint32_t properties;
    } part[GX_DECOMP_PARTS];
    gx_scalar *values; /* SCHUR: the eigenvalues, down the diagonal */
} gx_decomp;

/*
** Refuses, in words: A not square, B not of its shape, not symmetric (LDL), not unitary (COSSIN),
** NaN and Inf, more memory than there is, what has not converged or could not be sorted.  *result
** is to be cleared whatever this returns.
*/
gx_code gx_alg_decompose(gx_run *run, const gx_decomp_args *args, gx_decomp *result);
void gx_decomp_clear(gx_decomp *result);

#endif
