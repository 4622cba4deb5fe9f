/*
** What exact arithmetic adds to functions that have a floating form: the options "mod" and "exact",
** and matrices of m31 (fn_exact.c).
*/
#ifndef GX_EXACT_FN_H
#define GX_EXACT_FN_H

#include "gx_ext.h"

typedef struct gx_exact_options {
    int64_t mod; /* a prime below 2^31 */
    bool has_mod, is_exact;
} gx_exact_options;

/* Rows for the keys of a function whose options have a field `exact`, which is not their first. */
#define GX_EXACT_KEYS(type)                                                                        \
    {"mod=[2,2147483647]", GX_OPT_INT, offsetof(type, exact.mod), offsetof(type, exact.has_mod)},  \
    {                                                                                              \
        "exact", GX_OPT_BOOL, offsetof(type, exact.is_exact), 0                                    \
    }

/* A factor of matrices of m31: a whole number, not larger than f64 holds them all. */
static inline bool gx_is_of_field(gx_scalar x)
{
    return x.im == 0 && floor(x.re) == x.re && fabs(x.re) <= 0x1p53;
}

/*
** Is the call one of exact arithmetic?  Then one of the functions below makes the result; they
** refuse what is not right.  B: NULL, or the other operand.
*/
bool gx_fn_is_exact(const gx_exact_options *opt, const gx_mat *A, const gx_mat *B);

/* The modulus; 0: there is none, whole numbers are meant.  false: the call has failed. */
bool gx_exact_take_modulus(gx_fn *fn, const gx_exact_options *opt, const gx_mat *A, const gx_mat *B,
                           uint32_t *p);

/* rows x cols numbers modulo p as the call's result: of m31, or of u32 where p is another prime. */
void gx_exact_give(gx_fn *fn, uint32_t p, int64_t rows, int64_t cols, const uint32_t *x);

/* All of A as whole numbers of 64 bits, the call's (NULL: it has failed); such a result. */
int64_t *gx_exact_load_whole(gx_fn *fn, const gx_mat *A);
void gx_exact_give_whole(gx_fn *fn, int64_t rows, int64_t cols, const int64_t *x);

void gx_exact_fn_det(gx_fn *fn, const gx_exact_options *opt, const gx_mat *A);
void gx_exact_fn_rank(gx_fn *fn, const gx_exact_options *opt, const gx_mat *A);
void gx_exact_fn_nullspace(gx_fn *fn, const gx_exact_options *opt, const gx_mat *A);

/* A X = B; B NULL: of the identity, A^-1. */
void gx_exact_fn_solve(gx_fn *fn, const gx_exact_options *opt, const gx_mat *A, const gx_mat *B);

/* op(A) op(B), of the options "mod" and "exact" alone: matrices of m31 go the way of all. */
void gx_exact_fn_matmul(gx_fn *fn, const gx_exact_options *opt, const gx_mat *A, gx_trans transa,
                        const gx_mat *B, gx_trans transb);

#endif
