/*
** Groups of lines of f32 on any processor: see lanes_of.h.
*/
#define REAL float
#define LANES 4
#define NAME gx_fft_group_f32
#include "lanes_of.h"
