/*
** Groups of lines of f64 with AVX2 and fused multiply-adds: see lanes_of.h.
*/
#include "fft_int.h"

#ifdef GX_FFT_HAS_AVX2
#pragma GCC target("avx2,fma")
#define REAL double
#define REAL_IS_DOUBLE
#define LANES 4
#define NAME gx_fft_group_f64_avx2
#include "lanes_of.h"
#endif
