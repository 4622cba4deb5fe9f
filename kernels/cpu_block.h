/*
** The elementwise functions over runs of elements: what GX_MAP and GX_FUSED of the CPU backend have
** in common.  See cpu_block.c.
*/
#ifndef GX_CPU_BLOCK_H
#define GX_CPU_BLOCK_H

#include "slots.h"

/*
** dst = f(from[0], from[1], from[2]) for count elements next to each other; dst may be one of them.
** An element's bits depend neither on count nor on its place.  gx_cpu_block_open() comes first.
*/
void gx_cpu_block(gx_map_kind kind, gx_number dtype, int64_t count, gx_scalar alpha, gx_scalar beta,
                  const void *const from[3], void *dst);
void gx_cpu_block_open(void);

#endif
