/*
** LU with partial pivoting and what stands on it.  See alg_lu.c, alg_lu_solve.c.
**
**     gx_lu_plan plan;
**     gx_plan_lu(run, m, n, dtype, &plan);                            panel width, tiles
**     gx_sink_begin(run, &dest, m, n, dtype, GX_PROP_LU, plan.tile_rows, plan.tile_cols, &F);
**     gx_aux_create(mem, GX_AUX_LU, m, n, dtype, plan.panel, &aux, &err);
**     gx_sink_aux(&F, &aux);
**     gx_alg_lu(run, &A, &F, &aux);
**     gx_sink_end(&F);
**
** or, for an intermediate, gx_alg_lu_scratch() and gx_sink_source().
*/
#ifndef GX_ALG_LU_H
#define GX_ALG_LU_H

#include "plan.h"

#include <math.h>

/* How an LU factorisation is cut. */
typedef struct gx_lu_plan {
    int64_t m, n; /* elements */
    gx_number dtype;
    int64_t panel;     /* columns of a panel, which is as high as the matrix; 1 .. n    */
    int64_t group;     /* panels that stay in memory while the finished ones pass by    */
    bool is_in_memory; /* everything fits                                               */
    int64_t tile_rows,
        tile_cols; /* for the sink: whole numbers of them make a panel              */
    gx_cut cut;
    int64_t lookahead; /* calls */
} gx_lu_plan;

/* Chooses all of it; deterministic mode: panel by the shape alone. */
void gx_plan_lu(gx_run *run, int64_t m, int64_t n, gx_number dtype, gx_lu_plan *plan);

/* The group and the rest for a panel and a sink that are given. */
void gx_plan_lu_again(gx_run *run, const gx_aux *aux, const gx_sink *F, gx_lu_plan *plan);

/* The program (alg_lu.c); NULL when the run has failed.  Freed by the caller. */
gx_prog *gx_lu_program(gx_run *run, const gx_mat *A, const gx_lu_plan *plan, gx_sink *F,
                       gx_aux *aux, double *sums);

/*
** P A = L U, A m x n: m n k - (m + n) k^2 / 2 + k^3 / 3 multiply-adds, k = min(m, n).  F: L below
** the diagonal (its columns interleaved, docs/format.md), U above; aux, created with the panel of
** gx_plan_lu(): pivots, info, the 1-norm of A.  Reads A once and, with S words of memory, about
** n^4 / (3 S) words of F again (n x n); nothing when all fits.  Each tile of F is written once.
** Minimum memory: two panels of one column, else GX_BUDGET.  A zero pivot is no failure: aux->info.
*/
gx_code gx_alg_lu(gx_run *run, const gx_mat *A, gx_sink *F, gx_aux *aux);

/*
** The same into an intermediate of dtype.  F is to be dropped with gx_sink_drop() and aux to be
** cleared, whatever this returns.
*/
gx_code gx_alg_lu_scratch(gx_run *run, const gx_mat *A, gx_number dtype, gx_sink *F, gx_aux *aux);
/* Its first half, for an A that is an intermediate itself, which is begun after F. */
gx_code gx_alg_lu_begin_scratch(gx_run *run, int64_t m, int64_t n, gx_number dtype, gx_sink *F,
                                gx_aux *aux);

/*
** op(A) X = B with F = LU of A, in X's dtype: 2 n^2 flops a right-hand side.  Reads each tile of F
** once, those on the diagonal twice, where X fits in memory beside two of its blocks, else once for
** each strip of X's columns that does.  Each tile of X is written once.
**
** GX_ARG      F is not square, or B has another number of rows.
** GX_NUMERIC  "F is singular (pivot 17 is exactly zero)", before anything is read.
*/
gx_code gx_alg_lu_solve(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_trans trans,
                        const gx_mat *B, gx_sink *X);

typedef enum gx_lu_part { GX_LU_LOWER, GX_LU_UPPER } gx_lu_part;

/*
** L (m x k, rows in their final order, ones on the diagonal) or U (k x n), k = min(m, n).  One
** pass over F.  tile_cols of the sink: gx_lu_part_tiles().
*/
gx_code gx_alg_lu_part(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_lu_part part,
                       gx_sink *C);

/* The tile shape for the sink of a part, which has rows rows. */
void gx_lu_part_tiles(gx_run *run, const gx_aux *aux, int64_t rows, int64_t cols,
                      int64_t *tile_rows, int64_t *tile_cols);

/* (P A)[i, :] = A[order[i], :]: m numbers. */
void gx_lu_order(const gx_aux *aux, int64_t *order);

/* Whether P is an odd permutation: det P = -1. */
bool gx_lu_is_odd(const gx_aux *aux);

/*
** The LU of a square matrix in memory by one kernel call.  load puts the matrix at the place that
** it returns (leading dimension max(n, 1)), where the factors are afterwards; it is called again
** where a pivot is subnormal.  *info: as GETRF's.
*/
gx_code gx_lu_in_memory(gx_run *run, gx_number dtype, int64_t n, void *(*load)(void *arg),
                        void *arg, int64_t *pivots, int64_t *info);

// Determinants and inverses: what A's properties allow, else by LU (alg_det.c) --------------------

/* (re + im i) 2^power, the first factor near 1, or 0, or no number: a product that fits always. */
typedef struct gx_product {
    double re, im;
    int64_t power;
} gx_product;

static inline void gx_product_times(gx_product *p, double re, double im)
{
    double x = p->re * re - (im == 0 ? 0 : p->im * im);
    double y = (im == 0 ? 0 : p->re * im) + (p->im == 0 ? 0 : p->im * re);
    int power = 0;
    double size = fmax(fabs(x), fabs(y));
    if (size > 0 && isfinite(size)) {
        (void)frexp(size, &power);
        x = ldexp(x, -power);
        y = ldexp(y, -power);
    }
    p->re = x;
    p->im = y;
    p->power += power;
}

/* det A = sign exp(log), |sign| = 1; a singular A has sign 0 and log -inf. */
typedef struct gx_determinant {
    gx_scalar det;  /* inf or 0 where it is too large or small for a double */
    gx_scalar sign; /* real dtypes: 1, -1, 0                                */
    double log;     /* log |det A|                                          */
} gx_determinant;

/*
** aux: of A, when A is a stored LU factorisation, of which this is the determinant of what was
** factored; else kind GX_AUX_NONE.  Triangular: the product of the diagonal.  Positive: Cholesky.
** Else LU into an intermediate.  0 x 0: 1.  GX_ARG "A is 3x4 but must be square".
*/
gx_code gx_alg_determinant(gx_run *run, const gx_mat *A, const gx_aux *aux, gx_determinant *out);

/*
** C = A^-1, C's dtype is A's.  Diagonal: the reciprocals.  Triangular: a triangular solve.
** Positive: Cholesky.  Else LU, and then all columns of the identity are solved for: 8/3 n^3 flops.
** The intermediate is in memory where it fits, else in the temp database.
** GX_NUMERIC "A is singular (pivot 17 is exactly zero)", "... (A[7,7] = 0)".
*/
gx_code gx_alg_inverse(gx_run *run, const gx_mat *A, const gx_aux *aux, gx_sink *C);

#endif
