/*
** Exact arithmetic: linear algebra of whole numbers, modulo a prime below 2^31 or as they are.
**
** All matrices here are in memory, column-major, without gaps.  A call that does not fit
** memory_limit is refused.  The run carries the failures.
*/
#ifndef GX_EXACT_H
#define GX_EXACT_H

#include "../base/field.h"
#include "../mat/mat.h"

#include "whole.h"

/* Deterministic (Miller and Rabin's test with the bases 2, 3, 5, 7). */
bool gx_is_prime(uint32_t p);

// Loading -----------------------------------------------------------------------------------------

/*
** All of A as 64-bit whole numbers (*x is the caller's, of run->ctx->mem; NULL on failure).  GX_ARG
** names an element that has a fraction, or that f64 does not hold exactly.
*/
gx_code gx_exact_load(gx_run *run, const gx_mat *A, int64_t **x);

/* All of A modulo p. */
gx_code gx_exact_load_mod(gx_run *run, const gx_mat *A, uint32_t p, uint32_t **x);

/* count whole numbers modulo p. */
void gx_exact_residues(const int64_t *x, int64_t count, uint32_t p, uint32_t *to);

// Elimination modulo p ----------------------------------------------------------------------------

/*
** P A = L E, E in echelon form.  L's column k, below its unit diagonal, lies under pivot k; E's row
** k from there on to the right.
*/
typedef struct gx_echelon {
    gx_run *run;
    uint32_t p;
    int64_t rows, cols, rank;
    uint32_t *x;     /* rows x cols: A, then L and E.  Borrowed                          */
    int64_t *swap;   /* row k was exchanged with row swap[k].  gx_echelon_clear() frees it */
    int64_t *column; /* of pivot k.  The same                                             */
    bool is_odd;     /* det P = -1                                                       */
} gx_echelon;

/* e->run, p, rows, cols and x are set. */
gx_code gx_exact_eliminate(gx_echelon *e);
void gx_echelon_clear(gx_echelon *e);

/* Of a square matrix. */
uint32_t gx_echelon_det(const gx_echelon *e);

/*
** A X = B.  b: rows x n, destroyed; x: cols x n, what is free is 0.  *is_solved: there is a
** solution.
*/
gx_code gx_echelon_solve(const gx_echelon *e, uint32_t *b, int64_t n, uint32_t *x, bool *is_solved);

/* x: cols x (cols - rank), A x = 0: a basis, the identity in the rows that have no pivot. */
gx_code gx_echelon_nullspace(const gx_echelon *e, uint32_t *x);

/*
** A = P L U of all of it: row order[i] of A is row i of L U (order: rows numbers); lower: rows x
** min(rows, cols), ones on its diagonal; upper: min(rows, cols) x cols, E and zeros.
*/
void gx_echelon_order(const gx_echelon *e, int64_t *order);
void gx_echelon_lower(const gx_echelon *e, uint32_t *lower);
void gx_echelon_upper(const gx_echelon *e, uint32_t *upper);

/* c = a b modulo p: m x k, k x n. */
void gx_exact_multiply(gx_run *run, uint32_t p, int64_t m, int64_t n, int64_t k, const uint32_t *a,
                       const uint32_t *b, uint32_t *c);

// Whole numbers by many primes --------------------------------------------------------------------

/* det A of n x n whole numbers; the result is *det's, cleared by the caller. */
gx_code gx_exact_det(gx_run *run, const int64_t *a, int64_t n, gx_whole *det);

/* The rank over the rational numbers. */
gx_code gx_exact_rank(gx_run *run, const int64_t *a, int64_t rows, int64_t cols, int64_t *rank);

/*
** A X = B with X = N / *det: numerators[i + j n] of the n x cols matrix N, each to be cleared by
** the caller, as *det.  GX_NUMERIC "A is singular".
*/
gx_code gx_exact_solve(gx_run *run, const char *label, const int64_t *a, int64_t n,
                       const int64_t *b, int64_t cols, gx_whole *numerators, gx_whole *det);

/*
** c = a b where the numbers of a are of 8 bits, with a sign or without, and those of b of 16: then
** all of c fits.  false: they are not; else the run tells whether it went well.  3 bytes a number
** of both beside them.
*/
bool gx_exact_small_product(gx_run *run, int64_t m, int64_t n, int64_t k, const int64_t *a,
                            const int64_t *b, int64_t *c);

/* c = a b in 64 bits; GX_TOOBIG names the first element that 64 bits do not hold. */
gx_code gx_exact_product(gx_run *run, int64_t m, int64_t n, int64_t k, const int64_t *a,
                         const int64_t *b, int64_t *c);

#endif
