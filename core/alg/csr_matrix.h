/*
** A sparse matrix in memory.
**
** gx_csr_matrix is what systems are solved on: all rows as one CSR, in f64 or c128, entries counted
** in 64 bits, columns in 32.  gx_sparse_held is a source that is read again and again: in memory
** where it fits, else where it is.
*/
#ifndef GX_CSR_MATRIX_H
#define GX_CSR_MATRIX_H

#include "../mat/sparse.h"

typedef struct gx_csr_matrix {
    gx_mem *mem;
    char label[GX_NAME_MAX + 1];
    gx_number dtype; /* f64 or c128                        */
    int64_t rows, cols, entries;
    int64_t *start; /* rows + 1                                */
    int32_t *index; /* ascending in each row                   */
    void *value;
    int64_t *cut;   /* pieces + 1 rows, where pieces of equal weight begin, whoever works on them */
    int64_t pieces; /* at least 1                              */
} gx_csr_matrix;

/*
** All of A as f64 or c128; GX_ARG "S[3,1] is NaN" where an element is not finite.  *W is to be
** cleared whatever this returns.
*/
gx_code gx_csr_matrix_load(gx_run *run, const gx_mat *A, gx_number dtype, gx_csr_matrix *W);

/* T = A^T, not conjugated.  *T is to be cleared. */
gx_code gx_csr_matrix_transpose(gx_run *run, const gx_csr_matrix *A, gx_csr_matrix *T);
void gx_csr_matrix_clear(gx_csr_matrix *W); /* of zeros: a no-op */

/* A = A - sigma I; square.  sigma real where A is. */
gx_code gx_csr_matrix_shift(gx_run *run, gx_csr_matrix *A, gx_scalar sigma);

/* A = A^H to the bit; takes 8 bytes a row, and what it fails with is the run's. */
bool gx_csr_matrix_is_hermitian(gx_run *run, const gx_csr_matrix *A);

/* Are all diagonal elements there, real and above 0? */
bool gx_csr_matrix_has_positive_diagonal(const gx_csr_matrix *A);

/* Entry number of A[i,i]; -1 where there is none. */
int64_t gx_csr_matrix_diagonal(const gx_csr_matrix *A, int64_t i);

/* The Frobenius norm. */
double gx_csr_matrix_norm(const gx_csr_matrix *A);

/* y = A x, one column: the team shares the pieces.  The bits do not depend on the team. */
gx_code gx_csr_matrix_times(gx_run *run, const gx_csr_matrix *A, const void *x, void *y);

// Read again and again ----------------------------------------------------------------------------

typedef struct gx_sparse_held {
    const gx_mat *A; /* what to read: the copy, or the matrix itself */
    gx_mat copy;
    void *memory;
    bool is_kept; /* for a later call, under the key */
    gx_mem_key key;
} gx_sparse_held;

/*
** held->A is A, or a copy of a stored A where memory has room for it beside so many bytes, looked
** through once.  The copy stays, while nothing changes, for later calls of the connection
** (gx_mem_keep()).  is_read_once: this call needs no copy, and makes one only where it will stay.
** held stays where it is; to be ended whatever this returns.
*/
gx_code gx_sparse_held_begin(gx_run *run, const gx_mat *A, size_t beside, bool is_read_once,
                             gx_sparse_held *held);
void gx_sparse_held_end(gx_run *run, gx_sparse_held *held);

/*
** The key of A, or of `count` columns from `first` on in some form of the caller's, for
** gx_mem_keep().  false: it cannot be kept.
*/
bool gx_sparse_held_key(gx_run *run, const gx_mat *A, int64_t first, int64_t count, int64_t form,
                        gx_mem_key *key);

// Factored by SuiteSparse, which is never needed (direct.c) ---------------------------------------

/*
**     gx_direct F;
**     gx_direct_make(run, GX_DIRECT_UMFPACK, &A, &F);
**     gx_direct_solve(&F, false, cols, b, x);           any number of times
**     gx_direct_clear(&F);                              on every path
*/
typedef enum gx_direct_kind {
    GX_DIRECT_UMFPACK, /* P R A Q = L U, any square A                                */
    GX_DIRECT_CHOLMOD  /* P A P^T = L L^T, real; of A the lower triangle is read     */
} gx_direct_kind;

typedef struct gx_direct {
    gx_run *run;
    gx_direct_kind kind;
    const gx_csr_matrix *A; /* borrowed; UMFPACK refines with it     */
    void *library;          /* of dlopen()                           */
    int64_t *index;         /* A's columns in 64 bits                */
    size_t reserved;        /* of the budget, for SuiteSparse's own  */
    void *state;            /* of the library's, in direct.c */
} gx_direct;

/* Is it installed?  GX_UNSUPPORTED with a line that names the package. */
gx_code gx_direct_look(gx_run *run, gx_direct_kind kind, gx_err *err);

/*
** A square.  GX_NUMERIC: singular, or not positive definite; GX_BUDGET: the factor does not fit.
** An interrupt is seen between analysis, factorisation and solves.
*/
gx_code gx_direct_make(gx_run *run, gx_direct_kind kind, const gx_csr_matrix *A, gx_direct *F);

/* x = A^-1 b, or A^-T b, not conjugated: n x cols of A's dtype, leading dimensions n. */
gx_code gx_direct_solve(gx_direct *F, bool is_transposed, int64_t cols, const void *b, void *x);
void gx_direct_clear(gx_direct *F); /* of zeros: a no-op */

#endif
