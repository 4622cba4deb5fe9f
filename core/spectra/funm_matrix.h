/*
** Functions of matrices: inside.  What funm.c (choice, Hermitian matrices), funm_schur.c
** (triangular matrices), funm_expm.c (exponential, whole powers) and funm_device.c (these on a
** device) share.
*/
#ifndef GX_FUNM_MATRIX_H
#define GX_FUNM_MATRIX_H

#include "../device/devcall.h"
#include "funm.h"

/* The buffers of a work there: matrices, A's among them; two rows of numbers; the kernels' own. */
enum { GX_FUNM_MATRICES = 8, GX_FUNM_ROWS = GX_FUNM_MATRICES, GX_FUNM_WORK };

/* Work matrices on a device (funm_there.c). */
typedef struct gx_funm_device {
    gx_devcall on;
    gx_err err;      /* the device's first failure           */
    uint32_t used;   /* bit k: hold[k] is a matrix in use    */
    int64_t *pivots; /* n, in the host's memory              */
} gx_funm_device;

/* What one evaluation works on: matrices of n x n, leading dimension max(n, 1). */
typedef struct gx_funm_work {
    gx_run *run;
    const char *label; /* of A, for messages         */
    int64_t n;
    gx_number dtype;        /* GX_F64 or GX_C128                                */
    gx_funm_device *device; /* where the matrices are; NULL: in host memory     */
} gx_funm_work;

/* Neither the run nor the device has failed: else nothing happens any more. */
static inline bool gx_funm_ok(const gx_funm_work *w)
{
    return gx_ok(w->run) && (w->device == NULL || w->device->err.code == GX_OK);
}

void *gx_funm_matrix(const gx_funm_work *w); /* undefined contents; NULL: the run has failed */
void gx_funm_free(const gx_funm_work *w, void *x);
void gx_funm_copy(const gx_funm_work *w, const void *from, void *to);
void gx_funm_unit(const gx_funm_work *w, void *x);

/* Of a kernel call on such matrices: sizes and leading dimensions. */
gx_args gx_funm_square_args(const gx_funm_work *w);

/* c = alpha op(a) op(b) + beta c. */
void gx_funm_multiply(const gx_funm_work *w, double alpha, gx_trans transa, const void *a,
                      gx_trans transb, const void *b, double beta, void *c);

/* c = alpha a + beta b; c may be one of them. */
void gx_funm_add(const gx_funm_work *w, double alpha, const void *a, double beta, const void *b,
                 void *c);

/* || |x|^p ||_1, the largest of the numbers ones^T |x| ... |x|; 0 where something has failed. */
double gx_funm_norm_of_power(const gx_funm_work *w, const void *x, int p);
double gx_funm_norm1(const gx_funm_work *w, const void *x);

/* x = a^-1 x, by another matrix.  GX_NUMERIC "LABEL is singular: WHY" where a pivot is zero. */
void gx_funm_solve(const gx_funm_work *w, const void *a, void *x, const char *why);

/* funm_expm.c: a becomes its exponential, its p-th power (any whole p). */
void gx_funm_exponential(const gx_funm_work *w, void *a);
void gx_funm_whole_power(const gx_funm_work *w, void *a, int64_t p);

/*
** funm_device.c.  Exponentials and whole powers there: true: a has become the result, or the run
** has failed; false: it is the host's turn, and a is as it was.
*/
bool gx_funm_on_device(const gx_funm_work *w, const gx_funm_args *args, void *a);

/* funm_there.c.  A kernel call on work matrices, wherever they are; the workspace is seen to. */
void gx_funm_call(const gx_funm_work *w, gx_kernel_id kernel, gx_number dtype, gx_args *args);

/* Of a work whose matrices are on a device. */
void *gx_funm_device_matrix(gx_funm_device *d); /* NULL: all are in use */
void gx_funm_device_free(gx_funm_device *d, const void *x);
void *gx_funm_device_rows(const gx_funm_device *d); /* two rows of n numbers, there */
void gx_funm_device_wait(const gx_funm_work *w);
void gx_funm_device_get(const gx_funm_work *w, int64_t m, int64_t n, const void *from,
                        void *to); /* when all is done; to: no gaps */

/*
** funm_schur.c, complex: t, upper triangular, becomes its square root, logarithm, sign, power (-1 <
** p < 1).
*/
void gx_funm_root_of_triangle(const gx_funm_work *w, gx_scalar *t);
void gx_funm_log_of_triangle(const gx_funm_work *w, gx_scalar *t);
void gx_funm_sign_of_triangle(const gx_funm_work *w, gx_scalar *t);
void gx_funm_power_of_triangle(const gx_funm_work *w, gx_scalar *t, double p);

#endif
