/*
** Spectra on a device: one kernel call of the backend on a matrix in host memory.
*/
#ifndef GX_DENSE_DEVICE_H
#define GX_DENSE_DEVICE_H

#include "../mat/mat.h"

/*
** gx_dense_call() for SYEV, GEEV and GESDD, on a device where one is chosen: predicted to be
** faster, or asked for.  For the whole of a problem; the small ones inside of drivers are the
** host's.
*/
gx_code gx_dense_spectrum(gx_run *run, gx_kernel_id kernel, gx_number dtype, const gx_args *args);

/*
** Seconds that such a call takes where the run is planning for (run->target, or the host), copies
** included; 0: the device does not offer it or has no room.  *is_chosen: it would be the place.
*/
double gx_dense_spectrum_seconds(gx_run *run, gx_kernel_id kernel, gx_number dtype,
                                 const gx_args *args, bool *is_chosen);

/* ||error|| / (n eps scale) of the results of such a call; about 1 where they are right. */
double gx_dense_ratio(gx_run *run, gx_kernel_id kernel, gx_number dtype, const gx_args *args);

#endif
