/*
** Iterative methods: inside.  Vectors shared by the team, and the methods between two looks at the
** true residual.
*/
#ifndef GX_ITERATE_INT_H
#define GX_ITERATE_INT_H

#include "iterate.h"

/* Elements of a piece of a vector; fixed, so that sums have the same bits for every team. */
enum { GX_VECTOR_PIECE = 1 << 14 };

static inline int64_t gx_vector_pieces(int64_t n)
{
    return gx_max(1, gx_ceil_div(n, GX_VECTOR_PIECE));
}

double gx_vector_dot(const gx_iterate *it, int64_t n, const double *x, const double *y);
double gx_vector_norm(const gx_iterate *it, int64_t n, const double *x);

/* out = a x + b y + c z; y, or y and z, may be NULL; out may be any of them. */
void gx_vector_sum(const gx_iterate *it, int64_t n, double *out, double a, const double *x,
                   double b, const double *y, double c, const double *z);

/* z = M^-1 r, z != r. */
void gx_iterate_precondition(const gx_iterate *it, const double *r, double *z);

/*
** Improve x, whose residual is r (destroyed), until |b - A x| <= goal by the recurrence, the
** iterations are spent, or the method can do no more.  it->work behind r is free.
*/
void gx_iterate_cg(gx_iterate *it, double goal, double *x, double *r);
void gx_iterate_minres(gx_iterate *it, double goal, double *x, double *r);
void gx_iterate_gmres(gx_iterate *it, double goal, double *x, double *r);
void gx_iterate_lsqr(gx_iterate *it, double goal, double *x, double *r);

#endif
