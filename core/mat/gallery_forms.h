/*
** The formulas of the gallery, shared by gallery.c and gallery_forms.c only.
*/
#ifndef GX_GALLERY_FORMS_H
#define GX_GALLERY_FORMS_H

#include "gallery.h"

/* Element (i, j) of a family. */
typedef double gx_form(const gx_gallery *g, int64_t i, int64_t j);

gx_form gx_form_cauchy, gx_form_chow, gx_form_circul, gx_form_clement, gx_form_fiedler,
    gx_form_forsythe, gx_form_frank, gx_form_gfpp, gx_form_grcar, gx_form_hadamard, gx_form_hilb,
    gx_form_invhilb, gx_form_jordbloc, gx_form_kahan, gx_form_kms, gx_form_lehmer, gx_form_lesp,
    gx_form_lotkin, gx_form_magic, gx_form_minij, gx_form_moler, gx_form_orthog, gx_form_parter,
    gx_form_pascal, gx_form_pei, gx_form_poisson, gx_form_prolate, gx_form_redheff, gx_form_riemann,
    gx_form_ris, gx_form_rosser, gx_form_tridiag, gx_form_triw, gx_form_wilkinson;

/* C(n, k): the integer correctly rounded while it is below 2^63, then within n units of 2^-52. */
double gx_gallery_binomial(int64_t n, int64_t k);

#endif
