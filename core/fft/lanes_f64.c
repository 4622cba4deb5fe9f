/*
** Groups of lines of f64 on any processor: see lanes_of.h.
*/
#define REAL double
#define REAL_IS_DOUBLE
#define LANES 2
#define NAME gx_fft_group_f64
#include "lanes_of.h"
