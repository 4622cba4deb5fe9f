/*
** The gallery: classical test matrices, each a closed form (i, j) -> value.
**
** Definitions are those of N. J. Higham's Test Matrix Toolbox (MATLAB's gallery, Octave's gallery)
** where it has the matrix.  The catalog is the table in gallery.c; the formulas are in
** gallery_forms.c.
*/
#ifndef GX_GALLERY_H
#define GX_GALLERY_H

#include "../base/random.h"
#include "sparse.h"

/* Parameters of the families; each family has a few of them. */
/* clang-format off */
#define GX_GALLERY_PARAMS(PARAM)                                                                   \
    PARAM(ALPHA, alpha) PARAM(C, c) PARAM(D, d) PARAM(DELTA, delta) PARAM(E, e) PARAM(K, k)        \
    PARAM(LAMBDA, lambda) PARAM(PERT, pert) PARAM(RHO, rho) PARAM(THETA, theta) PARAM(W, w)

#define GX_GALLERY_ENUM(ID, name) GX_GALLERY_##ID,
typedef enum gx_gallery_param {
    GX_GALLERY_PARAMS(GX_GALLERY_ENUM) GX_GALLERY_PARAM_COUNT
} gx_gallery_param;
#undef GX_GALLERY_ENUM
/* clang-format on */

typedef struct gx_gallery gx_gallery;

/* The element (i, j), 0-based. */
typedef double (*gx_gallery_form)(const gx_gallery *g, int64_t i, int64_t j);

struct gx_gallery {
    gx_gallery_form form;
    int64_t n;                            /* order                                              */
    double param[GX_GALLERY_PARAM_COUNT]; /* given, or the family's default                     */
    uint32_t properties;                  /* GX_PROP_ bits                                      */
    int64_t root;                         /* poisson: sqrt(n)                                   */
    double *table;                        /* values of one index (powers, ...); NULL: none      */
    uint64_t *whole;                      /* invhilb: the table as integers, where they fit     */
};

/* What a caller gave. */
typedef struct gx_gallery_given {
    double param[GX_GALLERY_PARAM_COUNT];
    bool is_set[GX_GALLERY_PARAM_COUNT];
} gx_gallery_given;

/*
** Prepare a family.  GX_ARG: unknown kind (the text lists the known ones), a parameter the family
** does not have, an order or a parameter it does not take, values past the largest number of dtype.
** On success the caller clears g with gx_gallery_clear(); on failure nothing is held.
*/
gx_code gx_gallery_init(gx_gallery *g, gx_mem *mem, const char *kind, int64_t n, gx_number dtype,
                        const gx_gallery_given *given, gx_err *err);
void gx_gallery_clear(gx_gallery *g, gx_mem *mem);

/* The elements: a gx_generate; arg is a gx_gallery. */
void gx_gallery_generate(const void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n,
                         gx_number dtype, void *dst, int64_t ld);

/* "alpha", "c", ... */
const char *gx_gallery_param_name(gx_gallery_param param);

// Sparse ones, never dense (sparse_make.c) --------------------------------------------------------

/*
** A random matrix: each row has density * cols entries, or one more with the probability that makes
** this exact in the mean; their columns lie one in each of as many equal stretches, so that they
** spread over the row; an entry has the value that the dense matrix of that seed has there.
*/
gx_code gx_sparse_random(gx_run *run, const gx_random *random, int64_t rows, int64_t cols,
                         double density, const gx_dest *dest, gx_sink *sink);

/* A family of the gallery that has few entries a row: poisson, tridiag, ...; GX_ARG for others. */
gx_code gx_sparse_gallery(gx_run *run, const gx_gallery *g, const char *kind, gx_number dtype,
                          const gx_dest *dest, gx_sink *sink);

#endif
