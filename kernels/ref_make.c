/*
** The reference backend: conversion between dtypes, and random matrices.  See ref.c for the manner.
**
** Random numbers are random.c's own: it is their definition.  Host code calls gx_convert()
** and gx_random_generate() itself, so that the CPU backend has no such slots.
*/
#include "ref.h"

#include "../core/base/random.h"

GX_INLINE gx_code convert(gx_number dtype, const gx_args *p, gx_err *err)
{
    (void)err;
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            store(dtype, p->c, p->ldc, i, j, gx_dtype_get(p->from, gx_dtype_at(p->a, p->from, p->lda, i, j)));
        }
    }
    return GX_OK;
}
GX_SLOTS_DEFINE(, gx_ref_convert, convert)

GX_INLINE gx_code make_random(gx_number dtype, const gx_args *p, gx_err *err)
{
    (void)err;
    gx_random_generate(p->random, p->first_row, p->first_col, p->m, p->n, dtype, p->c, p->ldc);
    return GX_OK;
}
GX_SLOTS_DEFINE(, gx_ref_random, make_random)
