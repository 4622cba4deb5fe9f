/*
** The algorithms: every driver, with its formula, work, I/O and minimum memory.
**
** Operands are sources (mat.h), results sinks that the caller has begun.  All are sticky: a run
** that has failed does nothing.  The caller ends the sink.
*/
#ifndef GX_ALG_H
#define GX_ALG_H

#include "../base/fused.h"
#include "../mat/mat.h"

/* What is done to each element of a product before it is written: one output, no fold. */
typedef struct gx_after {
    const gx_fused *f;           /* of the product's dtype                                   */
    int product;                 /* the input that is the product                            */
    const gx_mat *const *source; /* one an input, as for gx_alg_fused(); [product]: not used */
} gx_after;

/* C = alpha op(A) op(B) + beta C0, or what becomes of that. */
typedef struct gx_matmul_args {
    const gx_mat *A, *B;
    const gx_mat *C0; /* NULL when beta is 0 */
    gx_trans transa, transb;
    gx_scalar alpha, beta;
    const gx_after *after; /* NULL: it is the result */
} gx_matmul_args;

/* Shape and dtype of the result; GX_ARG "A is 300x20 but B is 30x5" when they do not fit. */
gx_code gx_matmul_shape(const gx_matmul_args *args, int64_t *m, int64_t *n, gx_number *dtype,
                        gx_err *err);

/*
** Product.  2 m n k flops (half when op(B) is op(A)^T of the same source: syrk).  Reads about 2 m n
** k / sqrt(S) words with S words of memory (algorithms: C block resident, A and B streamed over k),
** writes each tile of C once.  Minimum memory: three blocks.  With `after` its sources are read
** once, block by block as those of C are finished; the result is not probed.
*/
gx_code gx_alg_matmul(gx_run *run, const gx_matmul_args *args, gx_sink *C);

/* C = f(A, B) elementwise, of the kinds in map.h; operands with a single row or column spread. */
gx_code gx_alg_map2(gx_run *run, gx_map_kind kind, gx_scalar alpha, const gx_mat *A, gx_scalar beta,
                    const gx_mat *B, gx_sink *C);

/* C = f(A), for a kind of one operand. */
gx_code gx_alg_map1(gx_run *run, gx_map_kind kind, gx_scalar alpha, const gx_mat *A, gx_sink *C);

/*
** A fused program over rows x cols elements, in one pass: every block of the sources is read once,
** every result written once.  sources: one an input, each rows x cols, or with one row or column
** (or both), which spread.  sinks: one an output, of the program's dtype (its real one where
** is_real); a fold's is 1 x 1, rows x 1 or 1 x cols, and gets its number: a norm, not its square.
** Memory: for each thread a block of each source and result; on a device the blocks of one step.
*/
gx_code gx_alg_fused(gx_run *run, const gx_fused *program, int64_t rows, int64_t cols,
                     const gx_mat *const sources[], gx_sink *const sinks[]);

/* C = op(A), op being transpose or conjugate transpose. */
gx_code gx_alg_transpose(gx_run *run, const gx_mat *A, gx_trans trans, gx_sink *C);

/*
** Reductions: one pass over A, read by helper threads that reduce what they have just read while it
** is in cache.  The same bits whatever the number of threads: partial results are kept per tile and
** folded in tile order.  out: gx_reduce_width(kind, rows, cols) doubles.
*/
gx_code gx_alg_reduce(gx_run *run, const gx_mat *A, gx_reduce_kind kind, double *out);

/* Sums down the columns, or along the rows, over divisor: as many of gx_number_wide(A->dtype). */
gx_code gx_alg_sums(gx_run *run, const gx_mat *A, bool is_by_row, double divisor, double *out);

/* ||A||: kind 'F' Frobenius, '1' max column sum, 'I' max row sum, 'M' max |a|. */
gx_code gx_alg_norm(gx_run *run, const gx_mat *A, char kind, double *norm);

/* Sum of the diagonal of a square matrix; touches the diagonal tiles only. */
gx_code gx_alg_trace(gx_run *run, const gx_mat *A, gx_scalar *trace);

// Triangles and Cholesky --------------------------------------------------------------------------

/*
** Cholesky, A = L L^H (uplo LOWER) or A = R^H R (UPPER): n^3/3 flops.  Of A only the lower triangle
** is read, for both, and of its diagonal only the real part.  F: n x n, A's dtype; each tile is
** written once, the other triangle as zeros.  Reads the lower triangle of A once and, with S words
** of memory, about n^3/(3 sqrt(S)) words of the factor again (n^4/(6 S) where that is less);
** nothing when all fits.  Minimum memory: three blocks.
**
** GX_ARG      A is not square, or the lower triangle has a NaN or an Inf, which is named.
** GX_NUMERIC  A is not positive definite: "(leading minor of order 4711)".
*/
gx_code gx_alg_cholesky(gx_run *run, const gx_mat *A, gx_uplo uplo, gx_sink *F);

/* op(A) and B on its right (side LEFT) or left (RIGHT); A triangular, diag UNIT: ones on it. */
typedef struct gx_tri_args {
    const gx_mat *A, *B;
    gx_side side;
    gx_uplo uplo; /* of A as it is stored; the other triangle is not read into the result */
    gx_trans trans;
    gx_diag diag;
    gx_scalar alpha;
} gx_tri_args;

/* Dtype of the result (its shape is B's); GX_ARG "A is 300x300 but B is 30x5", "... square". */
gx_code gx_tri_shape(const gx_tri_args *args, gx_number *dtype, gx_err *err);

/*
** Triangular solve, op(A) X = alpha B (side LEFT) or X op(A) = alpha B (RIGHT), and triangular
** product, X = alpha op(A) B or alpha B op(A): n^2 flops a right-hand side.  A's triangle is read
** once, whatever the number of right-hand sides, where X fits in memory beside two of its blocks,
** else once for each strip of X that does.  Each tile of X is written once.  Minimum memory: three
** blocks.
**
** GX_NUMERIC  solve: "A is singular (A[7,7] = 0)".
*/
gx_code gx_alg_trsm(gx_run *run, const gx_tri_args *args, gx_sink *X);
gx_code gx_alg_trmm(gx_run *run, const gx_tri_args *args, gx_sink *X);

/*
** A X = B with the Cholesky factor of A: F = L (uplo LOWER) or R (UPPER).  Both sweeps are one
** program; the second goes backward, so that it begins with what the first has left in memory.
** Reads the factor twice, less what memory keeps; failures and memory as gx_alg_trsm().
*/
gx_code gx_alg_cholesky_solve(gx_run *run, const gx_mat *F, gx_uplo uplo, const gx_mat *B,
                              gx_sink *X);

/* Elements 0 to count - 1 of diagonal number `offset`, above the main one where positive. */
typedef gx_code (*gx_diagonal_visit)(void *arg, int64_t i, gx_scalar x, gx_err *err);
gx_code gx_alg_each_diagonal(gx_run *run, const gx_mat *A, int64_t offset, int64_t count,
                             gx_diagonal_visit fn, void *arg);

/*
** Every block on and below the diagonal, m x n at (i0, j0), and, has_mirror, the one at (j0, i0)
** that mirrors it, m_high x n_high (on the diagonal it is the same); both column-major, without
** gaps, and smaller or empty at the edges of a matrix that is not square.  Any thread looks, and
** what it puts into `found` fails the run: the first in the order of the blocks.  Reads A once.
*/
typedef struct gx_look_block {
    const gx_mat *A;
    int64_t i0, j0, m, n, m_high, n_high;
    const gx_scalar *low, *high;
} gx_look_block;
typedef void (*gx_look_fn)(const void *arg, const gx_look_block *block, gx_err *found);
gx_code gx_alg_look(gx_run *run, const gx_mat *A, bool has_mirror, gx_look_fn fn, const void *arg);

/* GX_ARG "A is 3x4 but must be square". */
gx_code gx_alg_need_square(gx_run *run, const gx_mat *A);

/*
** Look at the diagonal of A (min(m, n) elements) before the work.  GX_NUMERIC "A is singular
** (A[7,7] = 0)" for the first element that is exactly zero; GX_ARG "A[7,7] is Inf" for the first
** whose real part is not finite.
*/
gx_code gx_alg_refuse_zero_pivot(gx_run *run, const gx_mat *A);
gx_code gx_alg_refuse_nonfinite_diagonal(gx_run *run, const gx_mat *A);

/*
** After the run has failed: a NaN or an Inf in the lower triangle of A's first `order` rows and
** columns takes the place of the run's failure, as GX_ARG "A[3,1] is NaN".  Reads what it looks at,
** a piece at a time.
*/
void gx_alg_explain_nonfinite(gx_run *run, const gx_mat *A, int64_t order);

/*
** A = A^H exactly (A = A^T for real dtypes): else GX_ARG "A is not symmetric (A[3,1] = 2, A[1,3] =
** 2.5)" ("Hermitian" for complex dtypes).  Pairs with a NaN pass.  Reads A once.
*/
gx_code gx_alg_refuse_asymmetric(gx_run *run, const gx_mat *A);

// Properties: what follows from what, and whether they hold ---------------------------------------

/* The bits that a user may set: all that say something of the elements. */
enum {
    GX_PROPS_SETTABLE = GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN | GX_PROP_POSITIVE | GX_PROP_LOWER |
                        GX_PROP_UPPER | GX_PROP_UNIT | GX_PROP_ORTHOGONAL,
    GX_PROPS_DIAGONAL = GX_PROP_LOWER | GX_PROP_UPPER
};

/*
** A list such as "positive, symmetric" to bits.  Words: those of gx_property_parse() that are
** settable, "diagonal" (lower and upper), "unitary" (orthogonal).  GX_ARG for an unknown or no
** word.
*/
gx_code gx_properties_parse(const char *list, uint32_t *bits, gx_err *err);

/*
** bits and what follows from them for a matrix of that dtype and shape: positive is Hermitian;
** symmetric and Hermitian are the same for a real one; a diagonal square one is symmetric; one with
** ones on the diagonal and zeros elsewhere is the identity: positive and orthogonal.
*/
uint32_t gx_properties_closed(uint32_t bits, gx_number dtype, int64_t rows, int64_t cols);

/* bits without `gone`, and without whatever implies one of those. */
uint32_t gx_properties_without(uint32_t bits, uint32_t gone, gx_number dtype, int64_t rows,
                               int64_t cols);

/*
** Do all of the properties hold?  Reads the elements once (orthogonal: also A^H A, positive: a
** Cholesky factorisation, both thrown away).
**
** tol   Symmetric, Hermitian, lower, upper, unit: differences up to tol * max|a| are passed over;
**       0: none.  Orthogonal: the largest element of |A^H A - I| allowed.  Negative: 0, and for
**       orthogonal 10 max(m, n) eps.
** *holds is false where the shape forbids the property.  NaN has no property.
*/
gx_code gx_alg_check_property(gx_run *run, const gx_mat *A, uint32_t bits, double tol, bool *holds);

// Sparse ------------------------------------------------------------------------------------------

/*
** gx_sparse_of_dense() by all threads, where the result is a value of A's own dtype, in which
** case A is read twice; else that itself.
*/
gx_code gx_alg_sparse(gx_run *run, const gx_mat *A, const gx_dest *dest, gx_number dtype,
                      uint32_t properties, double threshold, gx_sink *C);

#endif
