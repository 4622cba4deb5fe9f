/*
** The formulas of the gallery, shared by gallery.c and gallery_forms.c only.
*/
#ifndef GX_GALLERY_FORMS_H
#define GX_GALLERY_FORMS_H

#include "gallery.h"

double gx_form_cauchy(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_chow(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_circul(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_clement(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_fiedler(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_forsythe(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_frank(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_gfpp(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_grcar(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_hadamard(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_hilb(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_invhilb(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_jordbloc(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_kahan(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_kms(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_lehmer(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_lesp(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_lotkin(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_magic(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_minij(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_moler(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_orthog(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_parter(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_pascal(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_pei(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_poisson(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_prolate(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_redheff(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_riemann(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_ris(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_rosser(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_tridiag(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_triw(const gx_gallery *g, int64_t i, int64_t j);
double gx_form_wilkinson(const gx_gallery *g, int64_t i, int64_t j);

/* C(n, k): the integer correctly rounded while it is below 2^63, then within n units of 2^-52. */
double gx_gallery_binomial(int64_t n, int64_t k);

#endif
