/*
** Properties of matrices: what follows from what, and whether they hold.
*/
#ifndef GX_PROPERTY_H
#define GX_PROPERTY_H

#include "../mat/mat.h"

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

#endif
