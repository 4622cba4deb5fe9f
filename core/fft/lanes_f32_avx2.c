/*
** Groups of lines of f32 with AVX2 and fused multiply-adds: see lanes_of.h.
*/
#include "fft_int.h"

#ifdef GX_FFT_HAS_AVX2
#pragma GCC target("avx2,fma")
#define REAL float
#define LANES 8
#define NAME gx_fft_group_f32_avx2
#include "lanes_of.h"
#endif
