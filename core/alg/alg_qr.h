/*
** QR factorisations and what stands on them: the drivers' contracts.
**
** Reflectors are LAPACK's: A = Q R, Q = H_1 .. H_k, H_i = I - tau_i v_i v_i^H, and R's diagonal is
** real, of either sign.  There are two drivers, with one choice between them (plan_qr.c):
**
**   panels   left-looking blocked Householder by column panels of full height (alg_qr.c): any
**            shape; gives the packed factor F (V below the diagonal, R on and above it) and tau
**   TSQR     one pass over the rows with R resident (alg_tsqr.c): m >= n; its V is a tree of
**            its own, not LAPACK's packed one
**
** All are sticky; sinks are begun and ended by the caller.
*/
#ifndef GX_ALG_QR_H
#define GX_ALG_QR_H

#include "../exec/prog.h"
#include "alg.h"

// Plans: pure functions of shapes, budget and settings --------------------------------------------

/* How a matrix of full-height column panels is worked on.  All in elements unless said so. */
typedef struct gx_panel_plan {
    int64_t rows, cols;
    int64_t width; /* of a panel: a block is rows x width                                      */
    int64_t group; /* panels of the result that stay in memory while earlier ones pass by      */
    int64_t slots; /* blocks that the cache is expected to hold                                */
    int64_t lookahead;
    gx_cut cut;
} gx_panel_plan;

/* How a tall matrix is cut into row blocks for TSQR. */
typedef struct gx_tsqr_plan {
    bool is_possible; /* rows >= cols, and R and three blocks fit                               */
    int64_t rows, cols;
    int64_t height; /* of a row block, >= cols                                                  */
    int64_t blocks;
    int64_t slots; /* blocks that the cache is expected to hold                                 */
    int64_t lookahead;
    gx_cut cut;
} gx_tsqr_plan;

/*
** k: reflectors.  width: 0, or the panel width that tiles dictate.  Deterministic mode: the width
** follows from the shape and tile_bytes alone, unless not even three such panels fit.
*/
void gx_plan_panels(gx_run *run, int64_t rows, int64_t cols, int64_t k, gx_number dtype,
                    int64_t width, gx_panel_plan *plan);

/* extra_cols: the right-hand sides that pass by with A, or what Q is applied to. */
void gx_plan_tsqr(gx_run *run, int64_t rows, int64_t cols, int64_t extra_cols, gx_number dtype,
                  gx_tsqr_plan *plan);

/* Is TSQR better than panels where Q is wanted too: R fits, and panels of full height do badly? */
bool gx_plan_prefers_tsqr(gx_run *run, int64_t rows, int64_t cols, gx_number dtype);

/*
** The tile shapes that sinks want, for gx_sink_begin().  panel: the packed F of a rows x cols
** matrix with k reflectors, or what such a Q is applied to; q: a rows x width matrix that either
** driver's Q (of cols columns) is applied to, and V of the tree.
*/
void gx_plan_panel_tiles(gx_run *run, int64_t rows, int64_t cols, int64_t k, gx_number dtype,
                         int64_t *tile_rows, int64_t *tile_cols);
void gx_plan_q_tiles(gx_run *run, int64_t rows, int64_t cols, int64_t width, gx_number dtype,
                     int64_t *tile_rows, int64_t *tile_cols);

// Panels ------------------------------------------------------------------------------------------

/*
** F = the packed QR of A, m x n; tau: min(m, n) elements of F's dtype, the caller's memory.
** 2 m n^2 - 2 n^3 / 3 flops (m >= n).  Reads A once and, with groups of g columns resident, about
** m n^2 / (2 g) words of finished panels again; writes each tile of F once.  Minimum memory: three
** panels of one column.
*/
gx_code gx_alg_qr(gx_run *run, const gx_mat *A, gx_sink *F, void *tau);

/* The program that gx_alg_qr() runs, for gx_plan; NULL when the run has failed. */
gx_prog *gx_qr_program(gx_run *run, const gx_mat *A, const gx_panel_plan *plan, gx_sink *F,
                       void *tau);

/*
** C = op(Q) B with the packed F and its tau (k elements); trans: NO_TRANS or CONJ_TRANS (TRANS for
** real dtypes).  C: F's rows x p; B may have fewer rows (the rest is zero).  4 m k p flops; reads F
** once for each group of C's panels that fits.
*/
gx_code gx_alg_qr_apply(gx_run *run, const gx_mat *F, const void *tau, int64_t k, gx_trans trans,
                        const gx_mat *B, gx_sink *C);

/* R itself, min(m, n) x n (or, full, m x n by R->rows): the upper triangle of the packed F. */
gx_code gx_alg_qr_r(gx_run *run, const gx_mat *F, gx_sink *R);

/*
** Q and R of A, or one of them (the other NULL).  Their shapes say economy (m x k and k x n, k the
** smaller of m and n) or full (m x m, m x n); Q has tiles of gx_plan_q_tiles().
*/
gx_code gx_alg_qr_parts(gx_run *run, const gx_mat *A, gx_sink *Q, gx_sink *R);

/* The same of a packed F. */
gx_code gx_alg_qr_parts_of(gx_run *run, const gx_mat *F, const void *tau, gx_sink *Q, gx_sink *R);

/* Intermediates: in memory only where the work on them finds as much again, and keep_bytes more. */
gx_code gx_qr_begin_scratch(gx_run *run, int64_t rows, int64_t cols, gx_number dtype,
                            int64_t tile_rows, int64_t tile_cols, size_t keep_bytes, gx_sink *sink);

// TSQR --------------------------------------------------------------------------------------------

/* What one pass computes.  NULL: not wanted. */
typedef struct gx_tsqr_args {
    const gx_mat *A; /* m x n, m >= n                                                         */
    const gx_mat *B; /* m x p                                                                 */
    gx_sink *R;      /* n x n, a value                                                        */
    gx_sink *C;      /* n x p, a value: the first n rows of Q^H B                             */
    gx_sink *E;      /* GX_TSQR_STRIP x p, a value: column j's norm is that of the rest of
                            Q^H b_j, the least-squares residual                                  */
    gx_sink *V;      /* m x n: the tree's reflectors, with tiles of gx_plan_q_tiles()      */
    void *tau;       /* with V: plan.blocks * n elements                                      */
} gx_tsqr_args;

enum { GX_TSQR_STRIP = 32 };

/* Reads A (and B) once.  2 m n^2 flops. */
gx_code gx_alg_tsqr(gx_run *run, const gx_tsqr_args *args, const gx_tsqr_plan *plan);

/* C = Q X of a tree, X n x p; C m x p with tiles of gx_plan_q_tiles(). */
gx_code gx_alg_tsqr_apply(gx_run *run, const gx_mat *V, const void *tau, const gx_tsqr_plan *plan,
                          const gx_mat *X, gx_sink *C);

// Least squares -----------------------------------------------------------------------------------

typedef struct gx_lstsq_args {
    const gx_mat *A; /* m x n, or the packed QR of such a one (with tau)                       */
    bool is_factored;
    const void *tau;  /* is_factored: min(m, n) elements of A's dtype */
    const gx_mat *B;  /* m x p                                                                  */
    double rcond;     /* singular values <= rcond * the largest are 0; < 0: gx_rank_rcond() */
    bool wants_rcond; /* the exact ratio of singular values                                */
    bool wants_residual;
} gx_lstsq_args;

typedef struct gx_lstsq_result {
    int64_t rank;    /* -1: not known, R or its SVD does not fit into memory                 */
    double rcond;    /* smallest / largest singular value of A; a lower bound of it unless
                        wants_rcond; NaN: does not fit into memory                            */
    double residual; /* ||B - A X||_F; NaN: not asked                                          */
} gx_lstsq_result;

/*
** X = the minimum-norm least-squares solution, n x p.  Shape and dtype of X by gx_lstsq_shape();
** X's tiles by gx_lstsq_tiles().  GX_NUMERIC where A holds NaN or Inf.
*/
gx_code gx_alg_lstsq(gx_run *run, const gx_lstsq_args *args, gx_sink *X, gx_lstsq_result *result);

/* GX_ARG "A is 300x20 but B is 30x5" when they do not fit. */
gx_code gx_lstsq_shape(const gx_lstsq_args *args, int64_t *rows, int64_t *cols, gx_number *dtype,
                       gx_err *err);
void gx_lstsq_tiles(gx_run *run, const gx_lstsq_args *args, int64_t *tile_rows, int64_t *tile_cols);

/*
** What counts as zero beside the largest singular value of an m x n matrix: eps max(m, n), as in
** NumPy, but at most sqrt(eps).  (Rounding errors grow with the root of a long side at most; eps
** times it passes 1 at 8.4 million rows of single precision.)
*/
double gx_rank_rcond(gx_number dtype, int64_t m, int64_t n);

/* Number of singular values above tol; < 0: the largest times gx_rank_rcond(). */
gx_code gx_alg_rank(gx_run *run, const gx_mat *A, double tol, int64_t *rank);

/* P = the Moore-Penrose inverse, n x m, with tiles of gx_pinv_tiles().  rcond as above. */
gx_code gx_alg_pinv(gx_run *run, const gx_mat *A, double rcond, gx_sink *P, int64_t *rank);
void gx_pinv_tiles(gx_run *run, const gx_mat *A, int64_t *tile_rows, int64_t *tile_cols);

#endif
