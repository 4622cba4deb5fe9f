/*
** What the host side of the CUDA backend and its device code share: the names of the kernels and
** the structs that they take.  Nothing else passes between them.
**
** Every kernel takes one struct by value, so that a stand-in for the CUDA runtime can serve a
** launch from its name and the bytes of the struct alone, whatever the grid: a launch always does
** the whole of what the struct says.  Names end in a dtype (_f64 _f32 _c128 _c64), but for those
** marked *.
**
**   gx_map          m x n by element, `kernel` FILL, COPY or MAP of core/base/backend.h, with alpha
**                   and beta; MAP by `kind`, a gx_map_kind; its third operand is tau, of leading
**                   dimension lines; c may be an operand
**   gx_transpose    c = op(a), m x n, op by trans
**   gx_symmetrize   triangle uplo of c, n x n, onto the other; conjugated for trans CONJ_TRANS
**   gx_region       c = beta c on `part` of the m x n block; beta = 0 writes zeros without reading
**   gx_triangle     triangle uplo of a into c, m x n, by `part`; diag UNIT: ones on the diagonal
**   gx_rows         see gx_cuda_rows
**   gx_larft        of the k x k (k = n) Gram matrix V^H V in b: b(i, j) = tau_i b(i, j) for i < j;
**                   c = diag(tau), zeros elsewhere.  T is then (I + b)^-1 c
**   gx_definite     b, 32 bits, is 0 or the order of a leading minor: b = the smaller of that and
**                   of 1 + the first j < n for which c(j, j) > 0 is false.  kind 1, for n = 1: b
**                   is 0 before, and a positive c becomes its square root
**   gx_poison       where the double at a is NaN, so is c, m x n, and the 32 bits at b are 0
**   gx_rescale      c = 2^k c, m x n (kind 1: 2^-k c); k is 0 where the double at a is between
**                   2^-485 and 2^485 (f32 and c64: 2^-51 and 2^51), 0 or NaN, else brings it to
**                   between 1 and 2; for Inf k is -1023 (f32 and c64: 0)
**   gx_pairs        c, complex, = the eigenvectors whose real columns are a's, n x n, by complex
**                   values at tau: of a conjugate pair (j, j + 1) a has the real part in column j
**                   and the imaginary one in column j + 1.  Real dtypes alone
**   gx_reduce       first stage of GX_REDUCE of a, m x n, to `partial` (below)
**   gx_reduce_end*  second stage, `partial` to `out`
**   gx_fused        see cuda_fused.h; a program that is compiled has the same name
**   gx_fold         out = the reduction `kind` (SUM, SUMSQ, MIN or MAX) of each row or column of a,
**                   m x n, by `part`, a gx_fold_of that is not OF_ALL; 256 threads
**   gx_pivots*      n 64-bit numbers at c, counted from 1, to be counted from 0
**   gx_convert*     c, of dtype `to`, = a, of stored dtype `from`; m x n; a real c drops imaginary
**                   parts
**   gx_random*      see gx_cuda_random
**   gx_parts        c = beta c + alpha (the sum of `chunks` matrices at a, m x n of leading
**                   dimension lda, a number of elements apart that `lines` says); c is transposed
**                   for trans TRANS; on `part`: ALL, or triangle uplo
**   gx_narrow       products with a few columns: see gx_cuda_narrow
**   gx_narrow_split the same with more columns, f32 alone; gx_narrow_image: what it reads of x
**   gx_field_...*   whole numbers modulo 2^31 - 1: see gx_cuda_field
**   gx_residues_... products of doubles by residues: see gx_cuda_residues
**   gx_circle_...*  see gx_cuda_circle
**   gx_one_hot*     c, m x n in place = 1 at the least c_ij + b_j of each row, else 0; b has ldb
**                   from one number to the next; 256 threads, a row each
**   gx_halve*       c, m x n, of the dtype `to` = a of f32, whose numbers are some of it
**   gx_combine*     see gx_cuda_combine
**   gx_grid*        see gx_cuda_grid
**   gx_near_...     neighbours, of real dtypes: see gx_cuda_near
**   gx_spmm_...     products with a sparse panel: see gx_cuda_spmm
**
** Reductions.  Kinds of one number (SUM SUMSQ MAX_ABS MIN MAX): `chunks` partial results of three
** doubles each, in any split: SUM re, im; SUMSQ the three sums of Blue's algorithm (see
** cuda_reduce.cu), the big, the middle and the small; else the extreme.  The neutral element is 0
** (MIN +Inf, MAX -Inf).  Kinds by line: chunks x lines results, a line's own `chunks` apart by
** `lines`; one double (ABS) or two (SUM).
*/
#ifndef GX_CUDA_KERNELS_H
#define GX_CUDA_KERNELS_H

#include "../core/base/backend.h"
#include "cuda_fused.h"

typedef enum gx_cuda_part {
    GX_CUDA_ALL,           /* region: the block.  triangle: zeros outside the triangle  */
    GX_CUDA_TRIANGLE,      /* region: triangle uplo.  triangle: the outside is left alone */
    GX_CUDA_REAL_DIAGONAL, /* region: triangle uplo, and the diagonal's imaginary part = 0 */
    GX_CUDA_DIAGONAL,      /* region: only that: the diagonal's imaginary part = 0      */
    GX_CUDA_IDENTITY       /* triangle: c = the unit matrix, a is not read              */
} gx_cuda_part;

typedef struct gx_cuda_call {
    int32_t kernel; /* map: GX_FILL, GX_COPY, GX_MAP         */
    int32_t trans;  /* gx_trans                              */
    int32_t uplo;   /* gx_uplo                               */
    int32_t diag;   /* gx_diag                               */
    int32_t part;   /* gx_cuda_part                          */
    int32_t kind;   /* gx_map_kind, gx_reduce_kind; definite, rescale */
    int32_t from;   /* convert: gx_dtype of a                 */
    int32_t to;     /* convert: gx_number of c                */
    int64_t m, n;
    double alpha[2], beta[2]; /* re, im                      */
    const void *a;
    int64_t lda;
    void *b; /* written by larft, definite and poison alone  */
    int64_t ldb;
    void *c;
    int64_t ldc;
    const void *tau; /* larft, pairs; map: the third operand  */
    double *partial; /* reduce: between the two stages       */
    int64_t chunks;  /* reduce: partial results for each line */
    int64_t lines;   /* reduce: 1, or the rows or columns; map: leading dimension of tau */
    double *out;     /* reduce: gx_reduce_width() doubles    */
} gx_cuda_call;

/*
** Rows of c moved at once: row target[i] = what row source[i] held before the launch, for
** i < count, in n columns.  No target twice.
*/
enum { GX_CUDA_ROWS = 160 };

typedef struct gx_cuda_rows {
    void *c;
    int64_t ldc, n;
    int64_t count;
    int64_t source[GX_CUDA_ROWS], target[GX_CUDA_ROWS];
} gx_cuda_rows;

/*
** GX_GRID, `job` with what gx_args have of it.  Blocks of threads, a power of two of them, have a
** grid each, and then the next ones; a grid's numbers, so many, are in the block's shared memory,
** or in its part of `work`.
*/
typedef struct gx_cuda_grid {
    gx_grid_job job;
    int64_t m, n;
    const void *a;
    int64_t lda;
    const void *b;
    int64_t ldb;
    const double *table;
    int64_t ld_table;
    void *c;
    int64_t ldc;
    int32_t *work;
    int64_t numbers;
} gx_cuda_grid;

/*
** Products of a large real matrix s, rows x cols, with few columns, 1 to GX_CUDA_NARROW (split: to
** GX_CUDA_SPLIT), whose element (k, r) is x[k x_down + r x_across].  The sum, over columns
** (is_trans: rows) of s, is cut into `parts` of `chunk`; what each comes to is few columns, one
** after the other, in `partial`.  A thread block has a part of `span` rows (is_trans: columns) of
** s.  Split: thread blocks have `chunk` steps each, of GX_CUDA_SPLIT_STEP of the sum, of all those
** of `span` rows, then of the next ones; part q is from the q-th block that has steps of the rows,
** or zeros; `image` is what gx_narrow_image makes of x, GX_CUDA_SPLIT_IMAGE bytes a step: pieces,
** and then x as it is.
*/
enum {
    GX_CUDA_NARROW = 16,
    GX_CUDA_NARROW_ROWS = 512,      /* plain: span                                         */
    GX_CUDA_NARROW_STEP = 256,      /* is_trans: chunks are multiples of it                */
    GX_CUDA_NARROW_ROOM = 32 << 10, /* bytes of a chunk of x, of 16 columns, of 8 if fewer */
    GX_CUDA_SPLIT = 64,             /* columns of a split product, at most                 */
    GX_CUDA_SPLIT_STEP = 64,
    GX_CUDA_SPLIT_IMAGE = 33 << 10,
    GX_CUDA_SPLIT_THREADS = 512,
    GX_CUDA_SPLIT_ROWS = GX_CUDA_SPLIT_THREADS / 2, /* span                           */
    GX_CUDA_SPLIT_SHARED = 212 << 10                /* bytes of shared memory of a block */
};

typedef struct gx_cuda_narrow {
    int32_t is_trans;
    int32_t is_aligned; /* sixteen bytes of a column can be loaded at once */
    int32_t few, unused;
    int64_t rows, cols;
    const void *s;
    int64_t lds;
    const void *x;
    int64_t x_down, x_across;
    int64_t chunk, parts, span;
    void *partial, *image;
} gx_cuda_narrow;

/*
** Whole numbers modulo p, 2^31 - 1 or another prime (field.h).
**
**   gx_field_map        c = FILL, COPY or MAP `kernel` of a, b, b2; m x n
**   gx_field_transpose  c = a^T, m x n
**   gx_field_pack       plane q, k x n of bytes, of which rows and columns beyond `rows` and `cols`
**                       are zeros, = alpha a (is_turned: alpha a^T) between -p/2 and p/2,
**                       modulo number q of GX_CUDA_MODULI_LIST, to the nearest to 0.  Columns are
**                       ldp apart, planes `plane` bytes
**   gx_field_join       of planes of 32-bit numbers, ldp and `plane` apart: the whole number
**                       that has these residues and is nearest to 0, modulo p; c = that + beta c
**
** The moduli are pairwise coprime; the product of the first GX_CUDA_PLANES is above 2^79, so that
** sums of 2^18 products of numbers below 2^30 are known by their residues (Ozaki scheme II, arXiv
** 2504.08009).  Products of doubles have all GX_CUDA_RESIDUES.
*/
enum { GX_CUDA_PLANES = 10, GX_CUDA_RESIDUES = 16 };
#define GX_CUDA_MODULI_LIST                                                                        \
    256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193

typedef struct gx_cuda_field {
    int32_t kernel, kind, is_turned;
    uint32_t p, alpha, beta;
    int64_t m, n, k;
    int64_t rows, cols;
    const uint32_t *a;
    int64_t lda;
    const uint32_t *b;
    int64_t ldb;
    const uint32_t *b2;
    int64_t ldb2;
    uint32_t *c;
    int64_t ldc;
    void *planes;
    int64_t ldp, plane;
} gx_cuda_field;

/*
** Products of doubles by residues (Ozaki scheme II): operands as whole numbers below 2^56, modulo
** GX_CUDA_RESIDUES numbers up to 256, whose product M is above 2^125, so sums of 2^12 products are
** known.  An operand is k x n, a column of steps of the sum for each row of op(a) or column of
** op(b); is_turned: it is stored the other way.  Exponents are those of ilogb(), the largest of
** each step of op(a), then of op(b), `steps` of each, in inner, and of each column in outer.
**
**   gx_residues_begin  n exponents at inner = those of zeros
**   gx_residues_scan   is_inner: the operand's (is_b: op(b)'s) exponents of steps; else, these
**                      taken into account, of its columns; the largest of what is there and they
**   gx_residues_pack   plane q, rows x cols of bytes with zeros beyond k x n, = the operand modulo
**                      number q of GX_CUDA_MODULI_LIST, nearest to 0.  Columns are ldp apart,
**                      planes `plane` bytes
**   gx_residues_join   c = alpha (the product) + beta c, m x n, of planes of 32-bit sums; outer: of
**                      op(a), then, `cols` further on, of op(b); x and y, turned for is_turned
**                      and is_b: the operands, for rows and columns with what is not finite
*/

typedef struct gx_cuda_residues {
    int32_t is_inner, is_turned, is_b, unused;
    int64_t m, n, k;
    int64_t rows, cols, steps;
    const double *x;
    int64_t ldx;
    const double *y;
    int64_t ldy;
    double *c;
    int64_t ldc;
    double alpha, beta;
    int *inner, *outer;
    void *planes;
    int64_t ldp, plane;
} gx_cuda_residues;

/*
** Circle transforms (core/base/circle.h): twiddles t of the layers of block `block` of 2^log
** elements, of a transform of 2^whole, in the places of gx_circle_layer(log, i), and passes over n
** columns of c.
**
**   gx_circle_first   layers 0 and 1, of the powers of the generator (x, y)
**   gx_circle_up      the others, of layer 1
**   gx_circle_invert  all of them: 1 / t
**   gx_circle_pass    layers first .. first + count - 1 in place, is_back: of the inverse; all
**                     elements times scale
**   gx_circle_pair    one layer, of pairs of elements of c and c2, m x n, whose twiddle is scale
*/
enum { GX_CUDA_CIRCLE_TILE = 4096, GX_CUDA_CIRCLE_RUN = 32, GX_CUDA_CIRCLE_THREADS = 256 };

typedef struct gx_cuda_circle {
    int32_t log, whole, first, count, is_back;
    uint32_t scale;
    int64_t block;
    uint32_t *t, *c, *c2;
    int64_t m, n, ldc, ldc2;
    uint32_t x[32], y[32];
} gx_cuda_circle;

/*
** Constraints (core/base/constraints.h) of rows first .. first + m - 1 of a, which has `rows` of
** them, into c; rows beyond are those of b.  step, power: the program's lists, in the device's
** memory.  A thread has GX_CUDA_COMBINE_ROWS rows, GX_CUDA_COMBINE_THREADS apart; registers are in
** shared memory.
*/
enum { GX_CUDA_COMBINE_THREADS = 64, GX_CUDA_COMBINE_ROWS = 4 };

typedef struct gx_cuda_combine {
    int32_t steps, width;
    int64_t m, rows, first, next;
    const uint32_t *a;
    int64_t lda;
    const uint32_t *b;
    int64_t ldb;
    uint32_t *c;
    int64_t ldc;
    const gx_constraint_step *step;
    const uint32_t *power;
} gx_cuda_combine;

/*
** Random numbers of random.h: c(i, j) = the element (i0 + i, j0 + j) of the matrix that the
** fields of gx_random name, m x n of dtype `to`.
*/
typedef struct gx_cuda_random {
    int32_t kind, dtype; /* gx_random_kind, gx_number of the matrix */
    int32_t to, unused;
    uint64_t seed;
    double offset, scale, largest;
    int64_t i0, j0, m, n;
    void *c;
    int64_t ldc;
} gx_cuda_random;

/*
** Neighbours (core/base/nearest.h): the stages of GX_NEAREST on rows i0 .. i0 + rows - 1 of a, and
** GX_MERIT.  State is all of the call's.
**
**   gx_near_rows    value = sums of the `few` queries, at most GX_CUDA_FEW, with the rows: of
**                   products, or, by has_gaps, of squares or magnitudes of differences.  factor =
**                   what the metric's sight needs (foretell.h).  is_shifted: shifted = the rows
**                   without the shift.  state: the longest row; the first that is not finite; those
**                   that foretell nothing
**   gx_near_pieces  factor and state as gx_near_rows has them, of no queries; and `pieces`: a row
**                   times a power of two, 1 / scale, that brings its largest number to 2^14 or a
**                   little more, each number as the sum of two of f16: high, low, high again
**   gx_near_image   the same of the queries: their high, high, low, one above the other, in `image`
**   gx_near_apart   value = (adds: +=) sums of magnitudes or of squares of differences, of n
**                   queries; is_turned: b is n x k
**   gx_near_select  the rows of `value`, times their scales, that may be among the best join those
**                   of the panels before (i0 = 0: there are none), each lane's of its own share of
**                   the rows
**   gx_near_finish  of all lanes' those that may be among the best; their merits join the lists.
**                   state: the outcome
**   gx_near_merit   merit of n pairs (row, column)
*/
enum {
    GX_CUDA_FEW = 4,
    GX_CUDA_NEAR_ROOM = 4096, /* rows that a lane holds, f32                */
    GX_CUDA_NEAR_ROOM_F64 = 3072,
    GX_CUDA_NEAR_SLICES = 32, /* warps of a block of gx_near_pieces      */
    GX_CUDA_NEAR_LAST = 2048 /* rows whose merits are computed for a query */
};

typedef struct gx_cuda_near_state {
    double longest;  /* |x|^2 */
    uint32_t bad;    /* INT32_MAX - row, of the first row that is not finite; 0: none */
    uint32_t vague;  /* 1: there are rows, or lists, of which nothing can be foretold  */
    int32_t outcome; /* 0; 1 + that row; -1                                            */
    int32_t unused;
} gx_cuda_near_state;

typedef struct gx_cuda_near {
    int32_t metric; /* gx_metric                     */
    int32_t few;
    int32_t has_gaps, is_shifted, goes_on, lanes;
    int32_t is_turned, adds;
    int64_t n, k; /* queries (merit: pairs), numbers of a row */
    int64_t i0, rows;
    const void *a; /* of dtype: row 0 */
    int64_t lda;
    const void *b; /* of dtype */
    int64_t ldb;
    void *value; /* rows x n of dtype */
    int64_t ldv;
    void *factor;  /* rows of dtype      */
    void *shifted; /* rows x k, ld rows  */
    const void *shift;
    void *pieces, *image; /* of f16: ldp x parts deep, parts deep x n */
    int64_t parts;        /* of a sum: 3; 2 where rows need no second piece */
    int64_t deep, ldp;    /* k, and the rows, rounded up      */
    float *row_scale, *b_scale; /* NULL: value is as it is    */
    const double *query, *square, *length;
    double *merit;
    int64_t *index;
    int64_t count, first_index, self;
    const int64_t *row, *column; /* merit */
    gx_cuda_near_state *state;
    void *held_value; /* n x lanes x room of dtype */
    int32_t *held_row;
    int32_t *held;      /* n x lanes: how many       */
    double *held_least; /* n x lanes                 */
} gx_cuda_near;

/*
** Products with a sparse panel, GX_SPMM.  A panel is cut into `parts` of `chunk` rows and entries.
**
**   gx_spmm_gather        c = (is_fresh) or += alpha b op^T: rows that end in the part that they
**                         begin in.  lanes: 8, 16, 32 a team; side_by_side: numbers that a lane
**                         loads at once.  Longer rows leave sums in `slot`, and in `ended` where
**   gx_spmm_line          the same; a thread block a part, y of the grid: a line
**   gx_spmm_join          the rows that have left sums; a stand-in whose gather does all rows has
**                         none
**   gx_spmm_scatter       c += alpha b op, lanes as above
**   gx_spmm_scatter_line  the same, few lines
*/
enum { GX_CUDA_SPARSE_THREADS = 256 };

typedef struct gx_cuda_spmm {
    int32_t is_wide; /* indexes of 64 bits          */
    int32_t is_conj, is_fresh;
    int32_t lanes, side_by_side;
    int32_t unused;
    int64_t m, rows, cols, entries; /* of the panel: rows, cols */
    double alpha[2];
    const uint32_t *start;
    const void *index, *value;
    const void *b;
    int64_t ldb;
    void *c;
    int64_t ldc;
    int64_t chunk, parts;
    void *slot;     /* parts x 2 x m of dtype: of the row before, of the row behind */
    int64_t *ended; /* parts: the row whose end alone is in the part; -1: none       */
} gx_cuda_spmm;

#endif
