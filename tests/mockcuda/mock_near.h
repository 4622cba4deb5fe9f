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

/* Those of whole numbers modulo a prime, and c = a^T b of bytes into 32 bits (mock_field.c). */
void mock_field_map(const gx_cuda_field *p);
void mock_field_transpose(const gx_cuda_field *p);
void mock_field_pack(const gx_cuda_field *p);
void mock_field_join(const gx_cuda_field *p);
void mock_bytes_product(const gx_args *p);
void mock_circle_first(const gx_cuda_circle *p);
void mock_circle_up(const gx_cuda_circle *p);
void mock_circle_invert(const gx_cuda_circle *p);
void mock_circle_pass(const gx_cuda_circle *p);
void mock_circle_pair(const gx_cuda_circle *p);
void mock_residues_begin(const gx_cuda_residues *p);
void mock_residues_scan(const gx_cuda_residues *p);
void mock_residues_pack(const gx_cuda_residues *p);
void mock_residues_join(const gx_cuda_residues *p);
void mock_combine(const gx_cuda_combine *p);

#endif
