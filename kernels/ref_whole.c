/*
** The reference backend: products of whole numbers, term by term, and bits that differ, one by one.
*/
#include "ref.h"

GX_LOOP(whole)
{
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            int64_t sum = ((int32_t *)p->c)[j * p->ldc + i];
            for (int64_t l = 0; l < p->k; l++) {
                double a = gx_dtype_get(p->from, gx_dtype_at(p->a, p->from, p->lda, i, l)).re;
                sum += (int64_t)a * ((const int16_t *)p->b)[j * p->ldb + l];
            }
            ((int32_t *)p->c)[j * p->ldc + i] = (int32_t)sum;
        }
    }
    return GX_OK;
}
GX_SLOT_DEFINE(, gx_ref_whole, f32, GX_F32, whole)

GX_LOOP(hamming)
{
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            for (int64_t l = 0; l < p->k * 8; l++) {
                int a = ((const uint8_t *)p->a)[l / 8 * p->lda + i] >> l % 8 & 1;
                int b = ((const uint8_t *)p->b)[j * p->ldb + l / 8] >> l % 8 & 1;
                ((int32_t *)p->c)[j * p->ldc + i] += a != b;
            }
        }
    }
    return GX_OK;
}
GX_SLOT_DEFINE(, gx_ref_hamming, f32, GX_F32, hamming)
