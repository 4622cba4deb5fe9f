/*
** The kernels of neighbours, as mock_launch.c serves them.
*/
#ifndef MOCK_NEAR_H
#define MOCK_NEAR_H

#include "../../kernels/cuda_kernels.h"

/* Numbers of IEEE 754's binary16. */
double mock_of_half(uint16_t bits);
uint16_t mock_half_of(double x);

void mock_near_rows(gx_number dtype, const gx_cuda_near *p);
void mock_near_pieces(gx_number dtype, const gx_cuda_near *p);
void mock_near_image(gx_number dtype, const gx_cuda_near *p);
void mock_near_apart(gx_number dtype, const gx_cuda_near *p);
void mock_near_select(gx_number dtype, const gx_cuda_near *p);
void mock_near_finish(gx_number dtype, const gx_cuda_near *p);
void mock_near_merit(gx_number dtype, const gx_cuda_near *p);

#endif
