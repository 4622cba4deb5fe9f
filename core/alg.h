/*
** The algorithms: every driver, with its formula, work, I/O and minimum memory.
**
** Operands are sources (mat.h), results sinks that the caller has begun.  All are sticky: a run
** that has failed does nothing.  The caller ends the sink.
*/
#ifndef GX_ALG_H
#define GX_ALG_H

#include "mat.h"

/* C = alpha op(A) op(B) + beta C0. */
typedef struct gx_matmul_args {
    const gx_mat *A, *B;
    const gx_mat *C0; /* NULL when beta is 0 */
    gx_trans transa, transb;
    gx_scalar alpha, beta;
} gx_matmul_args;

/* Shape and dtype of the result; GX_ARG "A is 300x20 but B is 30x5" when they do not fit. */
gx_code gx_matmul_shape(const gx_matmul_args *args, int64_t *m, int64_t *n, gx_dtype *dtype,
                        gx_err *err);

/*
** Product.  2 m n k flops (half when op(B) is op(A)^T of the same source: syrk).  Reads about 2 m n
** k / sqrt(S) words with S words of memory (algorithms: C block resident, A and B streamed over k),
** writes each tile of C once.  Minimum memory: three blocks.
*/
gx_code gx_alg_matmul(gx_run *run, const gx_matmul_args *args, gx_sink *C);

/* C = alpha A + beta B, A .* B, A ./ B elementwise (same shapes, or one of them 1 x 1). */
typedef enum gx_map_kind { GX_MAP_ADD, GX_MAP_MUL, GX_MAP_DIV } gx_map_kind;
gx_code gx_alg_map2(gx_run *run, gx_map_kind kind, gx_scalar alpha, const gx_mat *A, gx_scalar beta,
                    const gx_mat *B, gx_sink *C);

/* C = alpha A, |A|, conj(A). */
gx_code gx_alg_map1(gx_run *run, gx_kernel_id kernel, gx_scalar alpha, const gx_mat *A, gx_sink *C);

/* C = op(A), op being transpose or conjugate transpose. */
gx_code gx_alg_transpose(gx_run *run, const gx_mat *A, gx_trans trans, gx_sink *C);

/*
** Reductions: one pass over A, read by helper threads that reduce what they have just read while it
** is in cache.  The same bits whatever the number of threads: partial results are kept per tile and
** folded in tile order.  out: gx_reduce_width(kind, rows, cols) doubles.
*/
gx_code gx_alg_reduce(gx_run *run, const gx_mat *A, gx_reduce_kind kind, double *out);

/* ||A||: kind 'F' Frobenius, '1' max column sum, 'I' max row sum, 'M' max |a|. */
gx_code gx_alg_norm(gx_run *run, const gx_mat *A, char kind, double *norm);

/* Sum of the diagonal of a square matrix; touches the diagonal tiles only. */
gx_code gx_alg_trace(gx_run *run, const gx_mat *A, gx_scalar *trace);

#endif
