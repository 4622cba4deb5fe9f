/*
** A sparse matrix that is worked on as a whole: all rows as one CSR in memory, in f64 or c128.
**
** Sparse systems are solved on it: factored once, or gone through again and again.  Entries are
** counted in 64 bits, columns fit 32.  What does not fit memory_limit is refused in words.
*/
#ifndef GX_WHOLE_H
#define GX_WHOLE_H

#include "../mat/sparse.h"

typedef struct gx_whole {
    gx_mem *mem;
    char label[GX_NAME_MAX + 1];
    gx_number dtype; /* gx_number_wide() of the matrix's */
    int64_t rows, cols, entries;
    int64_t *start; /* rows + 1                                */
    int32_t *index; /* ascending in each row                   */
    void *value;
    int64_t *cut;   /* pieces + 1 rows, where pieces of equal weight begin, whoever works on them */
    int64_t pieces; /* at least 1                              */
} gx_whole;

/*
** All of A; GX_ARG "S[3,1] is NaN" where an element is not finite.  *W is to be cleared whatever
** this returns.
*/
gx_code gx_whole_load(gx_run *run, const gx_mat *A, gx_whole *W);

/* T = A^T, not conjugated.  *T is to be cleared. */
gx_code gx_whole_transpose(gx_run *run, const gx_whole *A, gx_whole *T);
void gx_whole_clear(gx_whole *W); /* of zeros: a no-op */

/* A = A - sigma I; square.  sigma real where A is. */
gx_code gx_whole_shift(gx_run *run, gx_whole *A, gx_scalar sigma);

/* A = A^H to the bit; takes 8 bytes a row, and what it fails with is the run's. */
bool gx_whole_is_hermitian(gx_run *run, const gx_whole *A);

/* Are all diagonal elements there, real and above 0? */
bool gx_whole_has_positive_diagonal(const gx_whole *A);

/* Entry number of A[i,i]; -1 where there is none. */
int64_t gx_whole_diagonal(const gx_whole *A, int64_t i);

/* The Frobenius norm. */
double gx_whole_norm(const gx_whole *A);

/* y = A x, one column: the team shares the pieces.  The bits do not depend on the team. */
gx_code gx_whole_times(gx_run *run, const gx_whole *A, const void *x, void *y);

#endif
