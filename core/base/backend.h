/*
** The interface between the core and a device: facts, memory, queues, and a table of kernels.
**
** A backend states facts and offers kernels; it never decides (plan.c does).  The reference
** backend (kernels/ref*.c, plain loops) fills every slot but those of spectra, and is the oracle of
** the tests.  The CPU backend fills all, with OpenBLAS and vector loops.  The CUDA backend is a
** separate shared object opened on first need; it exports one function returning its const
** gx_backend *.
**
** A new kernel: enum value here, slot in kernels/ref*.c, row in test_kernels.c; then
** kernels/cpu*.c; then CUDA.  See docs/how-to-add-a-kernel.md.
*/
#ifndef GX_BACKEND_H
#define GX_BACKEND_H

#include "constraints.h"
#include "csr.h"
#include "dtype.h"
#include "err.h"
#include "fused.h"
#include "grids.h"
#include "map.h"
#include "nearest.h"
#include "types.h"

#define GX_BACKEND_ABI 23

struct gx_random; /* random.h */

/* Private to each backend. */
typedef struct gx_dev gx_dev;
typedef struct gx_queue gx_queue;
typedef struct gx_mark gx_mark;
typedef struct gx_record gx_record;

/* Facts a backend reports. */
typedef struct gx_dev_info {
    char name[64];                      /* "cpu", "cuda:0 NVIDIA H200"                  */
    char driver[48];                    /* "CUDA 13.0, driver 13.0"; "" where there is none */
    char uuid[48];                      /* "GPU-6d6f636b-..." as nvidia-smi -L; "" likewise */
    bool is_host;                       /* kernels take host pointers                   */
    size_t free_bytes, total_bytes;     /* the device's memory                          */
    double upload_bytes_per_s;          /* host to device; 0 when is_host               */
    double download_bytes_per_s;        /* device to host; 0 when is_host               */
    double flops_per_s[GX_NUMBER_COUNT]; /* large gemm; 0 = not measured                 */
    double launch_s;                    /* fixed cost of one kernel call, seconds       */
} gx_dev_info;

/*
** The kernels.  All matrices are column-major blocks in the device's memory; op(X) is X, X^T or X^H
** by transa/transb.  "m x n" is the shape of c unless said otherwise.  m, n, k may be 0.  a and c
** may be the same block only where "in place" is said.  beta = 0 never reads c.
*/
typedef enum gx_kernel_id {
    GX_GEMM,      /* c = alpha op(a) op(b) + beta c         op(a) m x k, op(b) k x n              */
    GX_SYRK,      /* c = alpha op(a) op(a)^T + beta c       triangle uplo of c, n x n; op(a) n x k;
                     transa NO_TRANS: a a^T, TRANS: a^T a                                         */
    GX_HERK,      /* the same with ^H; alpha, beta real; transa NO_TRANS or CONJ_TRANS; the
                     diagonal's imaginary part becomes 0                                          */
    GX_FILL,      /* c = alpha                                                                    */
    GX_COPY,      /* c = a                                  in place allowed                      */
    GX_TRANSPOSE, /* c = op(a)                              a is n x m for TRANS, CONJ_TRANS      */
    GX_MAP,       /* c = map(a, b, b2), by element          in place allowed (c = a, b or b2);
                     the kinds of map, their operands, what each computes: map.h.  A kind that has
                     no meaning for complex numbers is refused.  An operand with a leading
                     dimension of 0 is one column for all                                         */
    GX_SYMMETRIZE, /* copy triangle uplo of c onto the other one; n x n; conjugated for transa
                     CONJ_TRANS                                                                   */
    GX_PAIR,       /* c += a b and c2 += a^H b2       a m x n, read once; b, c2 n x k; b2, c m x k;
                     b (with c) or b2 (with c2) may be NULL: only the other one                   */
    GX_REDUCE, /* fold the m x n block a into reduce (below); c is not used                    */

    /* Neighbours (nearest.h), of real dtypes alone.  a is m x k, b k x n.                        */
    GX_APART,   /* c += sum over k of (a_ik - b_kj)^2 for the metric SQUARED, |a_ik - b_kj| for
                     ABSOLUTE, a_ik b_kj for the others, which have one column more of c: n + 1
                     of them, the last += sum of a_ik^2; b is n x k for transb TRANS             */
    GX_MERIT,   /* nearest->merit: of pairs of a row of a and a query                            */
    GX_NEAREST, /* the best rows of a for each query.  info: 1 + the first row found that has
                     a NaN or an Inf; -1 where a device cannot tell the rows apart in its memory;
                     the lists are then undefined                                                 */
    GX_MUTUAL,  /* the pairs of columns of a and b of which either may be on the other's list; a is
                     k x m.  A device need not have it                                            */

    GX_WHOLE, /* GX_F32's slot alone: c += a b of whole numbers, exactly; a m x k of `from`, I8 or
                     U8, b k x n of int16_t, c m x n of int32_t, which holds whatever sums of
                     products there are on the way.  A device need not have it                   */
    GX_HAMMING, /* GX_F32's slot alone: c += how many bits of a_ik and b_kj differ, of all k; a, b
                     of bytes, c m x n of int32_t.  A device need not have it                    */

    GX_SPMM, /* c += alpha b op(sparse)       op(sparse) k x n, a panel (csr.h) of the same dtype;
                     b m x k; transa is op.  Columns of b and c are what an entry touches, so that
                     a product with sparse on the left is that of the transposes.  is_fresh: the
                     same without c, which is not read; not for transa NO_TRANS.  transb TRANS: b
                     and c are given turned, k x m and n x m; the same exception, and a device need
                     not have it                                                              */

    /* Triangles.  Of a only the triangle that uplo names is read, for diag UNIT without its
       diagonal.  TRSM, TRMM: a is m x m (LEFT) or n x n (RIGHT); alpha = 0 reads neither a nor c;
       a zero on the diagonal divides as IEEE says.                                               */
    GX_TRIANGLE, /* c = triangle uplo of a, zeros elsewhere; m x n; diag UNIT: ones on the
                     diagonal                               in place allowed                      */
    GX_TRSM,     /* c = alpha op(a)^-1 c (LEFT), alpha c op(a)^-1 (RIGHT)                        */
    GX_TRMM,     /* c = alpha op(a) c (LEFT), alpha c op(a) (RIGHT)                              */

    /* Factorisations, in place, as LAPACK leaves them.                                           */
    GX_POTRF, /* triangle uplo of c = its Cholesky factor, c = L L^H or U^H U; n x n; the other
                     triangle is untouched, the diagonal's imaginary part is not read and becomes 0.
                     info: order of the first leading minor that is not positive definite (or
                     has a NaN); what has been factored by then stays                             */
    GX_GETRF, /* c = L\U, P c = L U with partial pivoting; m x n; pivots: min(m, n) rows, row j
                     was exchanged with row pivots[j] >= j.  info: 1 + index of the first pivot
                     that is exactly zero; the factorisation is complete all the same             */
    GX_LASWP, /* rows row_offset + j and row_offset + pivots[j] of c exchanged, for j from
                     pivot_first to pivot_last - 1, or in the opposite order (is_backward)        */

    /* Reflectors: Q = H_1 H_2 ... H_k, H_i = I - tau_i v_i v_i^H, v_i the columns of V, which is
       unit lower trapezoidal, m x k: the ones and what is above them are not read, so that V may
       be what GEQRF left.  Q = I - V T V^H, T upper triangular k x k.  tau: k elements of dtype. */
    GX_GEQRF, /* c = V\R, c = Q R; m x n; tau: min(m, n)                                      */
    GX_LARFT, /* c = T (k x k, zeros below the diagonal); a = V, m x k, m >= k, or the V2 of
                     [I; V2] (is_pentagon, below); tau                                            */
    GX_LARFB, /* c = op(Q) c (LEFT), c op(Q) (RIGHT); a = V of k columns, b = T; transa
                     NO_TRANS or CONJ_TRANS (TRANS for real dtypes)                               */
    GX_ORMQR, /* the same, with tau instead of b: for many reflectors                         */
    GX_ORGQR, /* c = the first n columns of Q, of k reflectors; m x n, m >= n >= k; the first
                     k columns of c are V at entry                                                */

    /* The same of two blocks on top of each other: V = [I; V2], V2 a full block.  m x n is c2.   */
    GX_TPQRT,  /* [R; c2] = Q [R'; 0] of c = R (upper triangle, n x n; the rest untouched) and
                     c2, m x n; then c = R', c2 = V2; tau: n                                      */
    GX_TPMQRT, /* [c; c2] = op(Q) [c; c2] (LEFT: c k x n, c2 m x n), [c c2] op(Q) (RIGHT: c
                     m x k, c2 m x n); a = V2, m x k (LEFT), n x k (RIGHT); tau                   */

    /* Spectra.  One call on one block; it may take `threads` threads.  c holds neither NaN nor Inf
       at entry.  info: > 0 where the iteration did not converge; results are then undefined.     */
    GX_SYEV,  /* values: of the Hermitian matrix whose triangle uplo is c's, n x n, ascending;
                     wants_right: c = its eigenvectors, orthonormal; c is overwritten             */
    GX_GEEV,  /* values: of c, n x n, destroyed, in any order, those of real matrices real or
                     conjugate pairs side by side, the positive imaginary part first; right, left
                     = eigenvectors of length 1, n x n, of the complex dtype, where wanted: c x =
                     value x, y^H c = value y^H                                                   */
    GX_GEES,  /* c = T, upper triangular, zeros below; n x n; right = Q where wanted: c before =
                     Q T Q^H; values: of T, down its diagonal.  Real dtypes: T has 2 x 2 blocks on
                     its diagonal, one for each conjugate pair, the positive imaginary part first.
                     left = the eigenvectors of c before, of length 1, n x n, of the complex dtype,
                     where wanted.  sort: the values of that kind come first, and pivots[0] says
                     how many there are; info > n: two of them are too close to be exchanged      */
    GX_TREXC, /* c = T as GEES leaves it, right = Q: the value in row pivot_first moves up to row
                     pivot_last by exchanges with its neighbours, Q T Q^H stays.  pivots: the row
                     where it is, another one where two are too close to be parted                */
    GX_GESDD, /* c = U diag(values) V^H; m x n, destroyed; values: min(m, n), descending.  left
                     = U, m x min(m, n), right = V^H, min(m, n) x n; is_full: m x m and n x n.
                     wants_left and wants_right are the same                                      */
    GX_GGES,  /* the same of the pair c - lambda c2, n x n both: c = S, c2 = T, left = Q, right =
                     Z, all of them wanted: c before = Q S Z^H, c2 before = Q T Z^H; sort and
                     pivots as for GEES                                                           */
    GX_GEHRD, /* c = H, zero below its first subdiagonal; n x n; right = Q: c before = Q H Q^H   */
    GX_TRSYL, /* c = X with op(a) X + X op(b) = c; a, m x m, and b, n x n, as GEES leaves T; op
                     (transa, transb) is NO_TRANS or CONJ_TRANS.  info: 1 where a value of op(a)
                     and one of -op(b) are too close, and something near them was solved for      */
    GX_SYTRF, /* triangle uplo of c = its factors by Bunch and Kaufman, pivots as LAPACK leaves
                     them, counted from 1; n x n; c is symmetric, or Hermitian for transa
                     CONJ_TRANS.  info is 0: a D that is singular is an answer                    */
    GX_GEBAL, /* c = T^-1 c T, right = T, a permutation times powers of 2, so that rows and columns
                     are of the same size and what is triangular already stands aside; n x n      */
    GX_UNCSD, /* the CS decomposition of a unitary c, n x n, destroyed, whose upper left block is m
                     x k: c = left [C -S; S C] right, left and right of two blocks each, n x n;
                     values: the angles, min(m, n - m, k, n - k)                                  */
    GX_GEQP3, /* c = V\R, c(:, pivots) before = Q R, the diagonal of R descending; m x n; tau:
                     min(m, n); pivots: n, counted from 0                                         */

    /* For devices: what the host does by gx_convert() and gx_random_generate().                  */
    GX_CONVERT, /* c = a, whose elements are of the stored dtype `from`; m x n; a real c drops
                     imaginary parts.  a may be page-locked memory of the host                    */
    GX_RANDOM,  /* c = the m x n elements from (first_row, first_col) on of the matrix `random`  */

    GX_FUSED, /* the program `fused` over m x n elements: inputs `in`, outputs `out`, folds `fold`
                 (fused.h).  An output may be an input, element for element                       */

    GX_CIRCLE, /* GX_M31: layers pivot_first .. pivot_last - 1 of a circle transform (circle.h),
                     in place, the last one first; is_backward: of the inverse, the first one first,
                     not scaled.  c: n columns of 2^(pivot_last - pivot_first) runs of k elements,
                     ldb from one run to the next.  a: twiddles, layer i's from element
                     2^row_offset - 2^(row_offset - i) on.
                     What follows the reference and devices have.
                     a NULL: the kernel makes them in `work`; c is block pivot_first, of
                     2^pivot_last elements a column, of a transform of 2^row_offset, k = ldb = 1,
                     all of whose layers are done; in the end everything is scaled by alpha.
                     c2: one layer of pairs of elements of c and c2, m x n, whose twiddle is
                     pivot_first; side RIGHT: c2 has the first ones                               */
    GX_COMBINE, /* GX_M31: c, m x width = what rows first_row .. first_row + m - 1 of a come to by
                     `constraints`.  a, of k rows, has the matrix's columns; rows from k on, which
                     next ones may be, are those of b, which is as wide                           */
    GX_ONE_HOT, /* GX_F64: c, m x n in place = 1 where c_ij + b_j is least in its row, at the first
                     such j, else 0; b a row, ldb from one number to the next                     */
    GX_FFT, /* c, m x n, = Fourier transforms of length k of lines of a, not scaled: of columns
                     (side LEFT), of rows (RIGHT); is_backward: of exp(+2 pi i / k).  A complex slot
                     gives k numbers a line from k complex ones of `from`, in place allowed where
                     lda = ldc, or the first k / 2 + 1 from k real ones.  A real slot gives k
                     numbers a line, is_backward, from the first k / 2 + 1, complex, of a line whose
                     others are their conjugates: number 0, and k / 2 of an even k, are real; a is
                     lost.  A device need not have it                                             */
    GX_GRID, /* GX_F64's slot alone: grids, `grid` says how, of a, m x n, with b, and of each (first
                     row, rows, cols) in a row of b2, checked by the caller.  c is m x n, written
                     where there is a grid, or a column of f64, one for each grid of an operation of
                     numbers.  A device need not have it                                          */
    GX_KERNEL_COUNT
} gx_kernel_id;

/* KERNEL(backend, ID, name): those that every backend has, and the others. */
#define GX_KERNELS_OF_ALL(KERNEL, backend)                                                         \
    KERNEL(backend, GEMM, gemm) KERNEL(backend, SYRK, syrk) KERNEL(backend, HERK, herk)            \
    KERNEL(backend, FILL, fill) KERNEL(backend, COPY, copy) KERNEL(backend, TRANSPOSE, transpose)  \
    KERNEL(backend, MAP, map) KERNEL(backend, SYMMETRIZE, symmetrize)                              \
    KERNEL(backend, REDUCE, reduce) KERNEL(backend, SPMM, spmm)                                    \
    KERNEL(backend, TRIANGLE, triangle) KERNEL(backend, TRSM, trsm) KERNEL(backend, TRMM, trmm)    \
    KERNEL(backend, POTRF, potrf) KERNEL(backend, GETRF, getrf) KERNEL(backend, LASWP, laswp)      \
    KERNEL(backend, GEQRF, geqrf) KERNEL(backend, LARFT, larft) KERNEL(backend, LARFB, larfb)      \
    KERNEL(backend, ORMQR, ormqr) KERNEL(backend, ORGQR, orgqr) KERNEL(backend, TPQRT, tpqrt)      \
    KERNEL(backend, TPMQRT, tpmqrt) KERNEL(backend, FUSED, fused)
#define GX_KERNELS_OF_SOME(KERNEL, backend)                                                        \
    KERNEL(backend, PAIR, pair) KERNEL(backend, APART, apart) KERNEL(backend, MERIT, merit)        \
    KERNEL(backend, NEAREST, nearest) KERNEL(backend, MUTUAL, mutual)                              \
    KERNEL(backend, WHOLE, whole) KERNEL(backend, HAMMING, hamming) KERNEL(backend, SYEV, syev)    \
    KERNEL(backend, GEEV, geev) KERNEL(backend, GEES, gees) KERNEL(backend, TREXC, trexc)          \
    KERNEL(backend, GESDD, gesdd) KERNEL(backend, GGES, gges) KERNEL(backend, GEHRD, gehrd)        \
    KERNEL(backend, TRSYL, trsyl) KERNEL(backend, SYTRF, sytrf) KERNEL(backend, GEBAL, gebal)      \
    KERNEL(backend, UNCSD, uncsd) KERNEL(backend, GEQP3, geqp3)      \
    KERNEL(backend, CONVERT, convert)                                                              \
    KERNEL(backend, RANDOM, random) KERNEL(backend, CIRCLE, circle)                       \
    KERNEL(backend, COMBINE, combine)                     \
    KERNEL(backend, ONE_HOT, one_hot) KERNEL(backend, FFT, fft) KERNEL(backend, GRID, grid)

/*
** What GX_REDUCE computes.  NaN goes through: a block with a NaN has NaN sums and a NaN max_abs,
** unless it is the other part of an Inf: |Inf + NaN i| is Inf.
*/
typedef enum gx_reduce_kind {
    GX_REDUCE_SUM,     /* sum of the elements: out[0] = re, out[1] = im                          */
    GX_REDUCE_SUMSQ,   /* sum |a|^2 as scale^2 * ssq, no overflow: out[0] = scale, out[1] = ssq  */
    GX_REDUCE_MAX_ABS, /* out[0] = max |a|                                                       */
    GX_REDUCE_MIN,     /* real only: out[0] = smallest                                           */
    GX_REDUCE_MAX,     /* real only: out[0] = largest                                            */
    GX_REDUCE_COL_ABS, /* out[0..n-1] = sum of |a| down each column                              */
    GX_REDUCE_ROW_ABS, /* out[0..m-1] = sum of |a| along each row                                */
    GX_REDUCE_COL_SUM, /* out[0..2n-1] = sum down each column, (re, im) pairs                    */
    GX_REDUCE_ROW_SUM, /* out[0..2m-1] = sum along each row, (re, im) pairs                      */
    GX_REDUCE_KIND_COUNT
} gx_reduce_kind;

/* Doubles that GX_REDUCE writes for an m x n block. */
int64_t gx_reduce_width(gx_reduce_kind kind, int64_t m, int64_t n);

/* How what two blocks come to becomes one; GX_FOLD_NONE: they are sums of lines. */
gx_fold gx_reduce_fold(gx_reduce_kind kind);

/*
** Which values of a Schur form come first: those of the left or the right half plane (the imaginary
** axis is of the right one), inside (and on) the unit circle or outside.
*/
typedef enum gx_sort {
    GX_SORT_NONE,
    GX_SORT_LEFT,
    GX_SORT_RIGHT,
    GX_SORT_INSIDE,
    GX_SORT_OUTSIDE
} gx_sort;

/* Arguments of every kernel: LAPACK names, sizes and leading dimensions in elements. */
typedef struct gx_args {
    gx_trans transa, transb;
    gx_side side;
    gx_uplo uplo;
    gx_diag diag;
    int64_t m, n, k;
    gx_scalar alpha, beta;
    const void *a;
    int64_t lda;
    const void *b;
    int64_t ldb;
    void *c;
    int64_t ldc;
    const void *b2; /* PAIR: the operand of c2; MAP: the third operand       */
    int64_t ldb2;
    void *c2; /* the lower (or right) block of TPQRT and TPMQRT; PAIR's second result; CIRCLE */
    int64_t ldc2;
    void *tau;                       /* OUT of GEQRF, GEQP3, TPQRT, elements of dtype, in the
                                        device's memory                                       */
    int64_t *pivots;                 /* OUT of GETRF, TREXC, GEQP3, SYTRF, sorted GEES, GGES: host
                                        memory; counted from 0                                */
    int64_t pivot_first, pivot_last; /* LASWP: which of them; TREXC: from where to where; CIRCLE */
    int64_t row_offset;              /* LASWP: row of c that pivots count as 0; CIRCLE        */
    bool is_backward;                /* LASWP: the last pivot first; CIRCLE, FFT: the inverse */
    bool is_pentagon;                /* LARFT: reflectors as TPQRT makes them                 */
    void *values;                    /* OUT of the spectra: in the device's memory, of dtype's
                                        precision, real for SYEV, GESDD, complex for GEEV, GEES */
    void *left;                      /* OUT of the spectra: left vectors, where wanted        */
    int64_t ldleft;
    void *right; /* OUT of the spectra: right vectors, where wanted       */
    int64_t ldright;
    bool wants_left, wants_right;
    bool is_full; /* GESDD: square U and V^H                               */
    gx_sort sort; /* GEES, GGES: which values come first                   */
    int threads;  /* spectra: how many the kernel may use; 0 = 1           */
    gx_code (*poll)(void *arg, gx_err *err); /* spectra: asked now and then, on the calling
                                       thread; its failure ends the call.  NULL: nobody is */
    void *poll_arg;
    gx_dtype from; /* CONVERT, WHOLE, FFT: of a; NEAREST whose products are given, too */
    const struct gx_random *random; /* RANDOM: see random.h                              */
    int64_t first_row, first_col;   /* RANDOM: where c begins; COMBINE                   */
    const gx_constraints *constraints; /* COMBINE                                        */
    gx_map_kind map;                /* MAP: which function                               */
    const gx_fused *fused;          /* FUSED: see fused.h                                */
    const gx_fused_place *in, *out; /* FUSED: one an input, one an output                */
    double *const *fold;            /* OUT of FUSED, host memory: one an output that is
                                       folded, gx_fold_doubles(), overwritten            */
    double more;                    /* FUSED: of a loop's first round, the rounds after it; of
                                       those -1.  A hint                                 */
    const struct gx_nearest *nearest; /* APART, MERIT, NEAREST, MUTUAL                   */
    const gx_csr *sparse;             /* SPMM; in the device's memory                    */
    const gx_grid_job *grid;          /* GRID                                            */
    bool is_fresh;                    /* SPMM: c = ..., not c += ...                     */
    gx_dtype half;    /* GEMM of f32: all elements of a and b are numbers of F16, of BF16
                         (gx_dtype_half()); NEAREST: those of a; F64: nobody says so         */
    bool by_residues; /* GEMM of f64, on a device: by products of bytes, to f64's accuracy       */
    uint32_t modulus; /* GEMM of GX_M31: of the elements, another prime; 0: 2^31 - 1           */
    gx_reduce_kind reduce_kind;
    double *reduce; /* OUT of GX_REDUCE, host memory, overwritten                      */
    void *work;     /* workspace() bytes, aligned to 64; kernels never allocate        */
    int64_t *info;  /* OUT of POTRF, GETRF, NEAREST, spectra, valid after queue_wait(); 0 = good */
} gx_args;

/* What workspace() gives where it cannot say: more than any device has. */
#define GX_NO_WORKSPACE ((size_t)1 << 60)

typedef gx_code (*gx_kernel)(gx_dev *dev, gx_queue *queue, const gx_args *args, gx_err *err);

typedef struct gx_backend {
    int abi;          /* GX_BACKEND_ABI; checked at registration    */
    const char *name; /* static string: "reference", "cpu", "cuda"  */

    /* Devices.  count() may return 0.  open() gives *dev to the caller; NULL on failure. */
    int (*count)(void);
    gx_code (*open)(int ordinal, gx_dev **dev, gx_err *err);
    void (*close)(gx_dev *dev); /* NULL is a no-op */
    gx_code (*info)(gx_dev *dev, gx_dev_info *info, gx_err *err);

    /*
    ** Memory of the device; NULL for a host backend, whose memory is mem.c's.  GX_NOMEM: there
    ** is not so much free now, and nothing else is wrong.
    */
    gx_code (*alloc)(gx_dev *dev, size_t bytes, void **ptr, gx_err *err);
    void (*free)(gx_dev *dev, void *ptr);
    gx_code (*pin)(gx_dev *dev, size_t bytes, void **host, gx_err *err); /* optional */
    void (*unpin)(gx_dev *dev, void *host);                              /* optional */

    /* Queues.  All NULL: a synchronous device, the queue argument of kernels is NULL. */
    gx_code (*queue_create)(gx_dev *dev, gx_queue **queue, gx_err *err);
    void (*queue_free)(gx_dev *dev, gx_queue *queue);
    gx_code (*queue_wait)(gx_dev *dev, gx_queue *queue, gx_err *err); /* async errors show here */

    /*
    ** What is enqueued from now on is done before what other queues hold, or (false, as a queue
    ** begins) among it; what the queue holds already comes first in any case.  NULL: no difference.
    */
    gx_code (*queue_prefer)(gx_dev *dev, gx_queue *queue, bool is_preferred, gx_err *err);

    /*
    ** Marks: points in queues, for a device with queues.  mark_set() puts the mark behind what has
    ** been enqueued so far, and moves one that was set before; a mark never set has passed.
    ** mark_wait(): the host waits until it has passed; failures of the work before it show here
    ** too, but what kernels leave in host memory is there only after queue_wait().
    ** Any thread; a queue or mark is used by one thread at a time.
    */
    gx_code (*mark_create)(gx_dev *dev, gx_mark **mark, gx_err *err);
    void (*mark_free)(gx_dev *dev, gx_mark *mark); /* NULL is a no-op */
    gx_code (*mark_set)(gx_dev *dev, gx_queue *queue, gx_mark *mark, gx_err *err);
    gx_code (*mark_wait)(gx_dev *dev, gx_mark *mark, gx_err *err);
    gx_code (*queue_after_mark)(gx_dev *dev, gx_queue *queue, gx_mark *mark, gx_err *err);

    /*
    ** Records; all NULL: there are none.  From record_begin() on kernels in the queue are noted and
    ** not run, and nothing may be waited for in it, until record_end(), which ends that whether it
    ** succeeds or not.  replay() enqueues all of them again, with the arguments that they had.  A
    ** record is freed when the queue has been waited for.
    */
    gx_code (*record_begin)(gx_dev *dev, gx_queue *queue, gx_err *err);
    gx_code (*record_end)(gx_dev *dev, gx_queue *queue, gx_record **record, gx_err *err);
    gx_code (*replay)(gx_dev *dev, gx_queue *queue, gx_record *record, gx_err *err);
    void (*record_free)(gx_dev *dev, gx_record *record); /* NULL is a no-op */

    /*
    ** Several devices of the backend at once; NULL: they are used one at a time.  A queue may wait
    ** for a mark of another device.  reaches(): dev copies from other's memory without the host
    ** between them, from now on.  copy_from(): bytes of other's memory to dev's, in a queue of
    ** dev's, whichever way there is.
    */
    bool (*reaches)(gx_dev *dev, gx_dev *other);
    gx_code (*copy_from)(gx_dev *dev, gx_queue *queue, void *dst, gx_dev *other, const void *src,
                         size_t bytes, gx_err *err);

    /* Copies of col_bytes x cols; the host side must live until queue_wait().  NULL for a host. */
    gx_code (*upload)(gx_dev *dev, gx_queue *queue, void *dst, size_t dst_ld_bytes, const void *src,
                      size_t src_ld_bytes, size_t col_bytes, size_t cols, gx_err *err);
    gx_code (*download)(gx_dev *dev, gx_queue *queue, void *dst, size_t dst_ld_bytes,
                        const void *src, size_t src_ld_bytes, size_t col_bytes, size_t cols,
                        gx_err *err);

    /* Compute.  A NULL slot means "not supported"; that is the whole query. */
    gx_kernel kernel[GX_KERNEL_COUNT][GX_NUMBER_COUNT];
    size_t (*workspace)(gx_dev *dev, gx_kernel_id kernel, gx_number dtype, const gx_args *args);
    /*
    ** NULL: no kernel wants any; only sizes and flags of args are looked at.  GX_NO_WORKSPACE: it
    ** cannot be said, the device has failed; the kernel must not be called then.
    */
} gx_backend;

/* The backends that are linked in. */
extern const gx_backend gx_backend_ref;

/*
** The CPU backend's kernels are single-threaded and may be called from any number of threads at
** once: team.h cuts a call into pieces and spreads them.  Only the spectra thread inside, in
** args->threads: gx_cpu_wide() of kernels/cpu.h gives them the BLAS threads.
*/
extern const gx_backend gx_backend_cpu;

/*
** What a backend on demand exports, as "gx_cuda_backend": it opens the libraries that it needs,
** looking first in the folder cuda_path ("" = only the usual places; the setting cuda_path), and
** returns its table, or NULL with one line that names what is missing.  Called once or more.
*/
typedef const gx_backend *(*gx_backend_entry)(const char *cuda_path, gx_err *err);

/* Static name of a kernel: "gemm", "syrk", ... */
const char *gx_kernel_name(gx_kernel_id kernel);

/* Flops of one call, LAPACK's counting (complex multiply-add = 8). */
double gx_kernel_flops(gx_kernel_id kernel, gx_number dtype, const gx_args *args);

#endif
