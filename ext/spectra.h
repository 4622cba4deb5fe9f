/*
** The options of gx_eig and gx_svd, shared by the scalar functions and the tables (spectra.c).
*/
#ifndef GX_SPECTRA_H
#define GX_SPECTRA_H

#include "gx_ext.h"

#include "../core/spectra/alg_eig.h"

/* What the options object may say, as it came; a 0 where it is silent. */
typedef struct gx_eig_options {
    gx_dest values, vectors, left; /* scalar function; first: a set_offset of 0 means none */
    bool replace, wants_left;
    bool is_symmetric, has_symmetric, has_k, has_sigma, partial;
    int64_t k, ncv, block, maxiter, seed;
    double tol;
    gx_scalar sigma;
    int which, method; /* gx_eig_which, gx_eig_method */
    const char *b, *start;
} gx_eig_options;

typedef struct gx_svd_options {
    gx_dest s, u, vt;
    bool replace, has_k, has_power, has_oversample, partial;
    int64_t k, power, oversample, ncv, block, maxiter, seed;
    double tol;
    int mode, method, which; /* gx_svd_mode, gx_svd_method; 1: the smallest */
} gx_svd_options;

/* How the vectors are found, into the gx_svd_options `svd.` of a struct (or itself: ''). */
#define GX_SVD_HOW(type, svd)                                                                      \
    {"method=auto|dense|krylov|randomized", GX_OPT_WORD, offsetof(type, svd method), 0},           \
        {"tol=[0,1)", GX_OPT_REAL, offsetof(type, svd tol), 0},                                    \
        {"ncv=[0,inf]", GX_OPT_INT, offsetof(type, svd ncv), 0},                                   \
        {"block=[0,inf]", GX_OPT_INT, offsetof(type, svd block), 0},                               \
        {"maxiter=[0,inf]", GX_OPT_INT, offsetof(type, svd maxiter), 0},                           \
        {"power=[0,inf]", GX_OPT_INT, offsetof(type, svd power), offsetof(type, svd has_power)},   \
        {"oversample=[0,inf]", GX_OPT_INT, offsetof(type, svd oversample),                         \
         offsetof(type, svd has_oversample)},                                                      \
    {                                                                                              \
        "seed", GX_OPT_INT, offsetof(type, svd seed), 0                                            \
    }

extern const gx_option gx_eig_keys[];       /* of the scalar function */
extern const gx_option gx_eig_table_keys[]; /* of the table           */
extern const gx_option gx_eigvals_keys[];
extern const gx_option gx_svd_keys[];
extern const gx_option gx_svd_table_keys[];

/*
** What was said as what is computed.  mats[2]: where B and the start live, as long as args.  What
** they own belongs to the call.  false: refused in words.
*/
bool gx_eig_args_of(gx_fn *fn, const gx_eig_options *opt, const gx_mat *A, gx_mat mats[2],
                    gx_eig_args *args);
bool gx_svd_args_of(gx_fn *fn, const gx_svd_options *opt, const gx_mat *A, bool wants_vectors,
                    gx_svd_args *args);

/* count numbers at x, which has room for them as `from`, become dtype in place (a narrower one). */
void gx_narrow_in_place(gx_number from, void *x, int64_t count, gx_number dtype);

#endif
