/*
** Residual probes: is what a driver has computed right?  Random vectors, O(n^2).
**
** Each compares two ways to the same n x GX_PROBE_VECTORS matrix and takes the largest
**
**     ratio = ||left - right|| / (n eps (||one factor||_F ||the other||_F + ||left||))
**
** of a column, which is about 1 for a backward stable algorithm; what underflows is allowed for.
** Above GX_PROBE_MOST the run fails with GX_DEVICE "the result failed its residual check (ratio
** 1e+09 of at most 100)".  The ratio of the latest probe is in gx_stats.  Where what is given has
** infinities or NaN there is nothing to compare; where there is no memory left a probe is passed
** over.
**
** Results are sources: gx_sink_source() of a sink that has not been ended yet.
*/
#ifndef GX_PROBE_H
#define GX_PROBE_H

#include "../store/aux_data.h"
#include "alg.h"

enum { GX_PROBE_VECTORS = 2, GX_PROBE_MOST = 100 };

/*
** Whether to probe: as the setting 'probe' says; auto: when reading `bytes` once more and 4 flops
** for each of `elements` take less than 3 % of the driver's predicted time.
*/
bool gx_probe_is_due(gx_run *run, gx_number dtype, double driver_flops, double driver_bytes,
                     double elements, double bytes);

/* C = alpha op(A) op(B) + beta C0. */
gx_code gx_probe_product(gx_run *run, const gx_matmul_args *args, const gx_mat *C);

/* A = F F^H (LOWER), F^H F (UPPER), of which A's lower triangle is read. */
gx_code gx_probe_cholesky(gx_run *run, const gx_mat *A, gx_uplo uplo, const gx_mat *F);

/*
** F, aux: the LU factorisation of a square A (others, and singular ones, are passed over): solves
** with it, A X = A W, are what is judged.
*/
gx_code gx_probe_lu(gx_run *run, const gx_mat *A, const gx_mat *F, const gx_aux *aux);

/* A^H A = R^H R, R being F's upper triangle, m >= n (else passed over); Q is not looked at. */
gx_code gx_probe_qr(gx_run *run, const gx_mat *A, const gx_mat *F);

/* op(A) X = B; part: which part of A is A.  A Hermitian part is its own adjoint, whatever trans. */
typedef enum gx_probe_part {
    GX_PART_WHOLE,
    GX_PART_LOWER,      /* the lower triangle, and zeros                */
    GX_PART_LOWER_UNIT, /* the same with ones on the diagonal           */
    GX_PART_UPPER,
    GX_PART_HERMITIAN /* the lower triangle, mirrored and conjugated  */
} gx_probe_part;
gx_code gx_probe_solve(gx_run *run, const gx_mat *A, gx_probe_part part, gx_trans trans,
                       const gx_mat *X, const gx_mat *B);

#endif
