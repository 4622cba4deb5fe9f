/*
** The kernels of whole numbers modulo a prime, as mock_launch.c serves them: in plain loops, the
** residues put together in 128 bits.
*/
#include "mock_near.h"

#include "../../core/base/circle.h"

#include <string.h>

__extension__ typedef __int128 wide;

static const int moduli[GX_CUDA_PLANES] = {GX_CUDA_MODULI_LIST};

void mock_field_map(const gx_cuda_field *p)
{
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            uint32_t a = p->a == NULL ? 0 : p->a[i + j * p->lda];
            uint32_t b = p->b == NULL ? 0 : p->b[i + j * p->ldb];
            uint32_t c = p->b2 == NULL ? 0 : p->b2[i + j * p->ldb2];
            p->c[i + j * p->ldc] =
                p->kernel == GX_FILL ? p->alpha
                : p->kernel == GX_COPY
                    ? a
                    : gx_field_map((gx_map_kind)p->kind, p->alpha, p->beta, a, b, c);
        }
    }
}

void mock_field_transpose(const gx_cuda_field *p)
{
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            p->c[i + j * p->ldc] = p->a[j + i * p->lda];
        }
    }
}

void mock_field_pack(const gx_cuda_field *p)
{
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t l = 0; l < p->m; l++) {
            int64_t x = 0;
            if (l < p->rows && j < p->cols) {
                uint32_t y = p->is_turned ? p->a[j + l * p->lda] : p->a[l + j * p->lda];
                x = gx_field_mul(p->alpha, y, p->p);
                x -= x > p->p / 2 ? p->p : 0;
            }
            for (int q = 0; q < GX_CUDA_PLANES; q++) {
                int64_t r = (x % moduli[q] + moduli[q]) % moduli[q];
                r -= r > (moduli[q] - 1) / 2 ? moduli[q] : 0;
                ((int8_t *)p->planes)[l + j * p->ldp + q * p->plane] = (int8_t)r;
            }
        }
    }
}

void mock_field_join(const gx_cuda_field *p)
{
    for (int64_t e = 0; e < p->m * p->n; e++) {
        int64_t i = e % p->m, j = e / p->m;
        wide x = 0, product = 1; // x is right modulo product
        for (int q = 0; q < GX_CUDA_PLANES; q++) {
            int64_t r = ((const int32_t *)p->planes)[i + j * p->ldp + q * p->plane];
            r = (r % moduli[q] + moduli[q]) % moduli[q];
            while (x % moduli[q] != r) {
                x += product;
            }
            product *= moduli[q];
        }
        x -= x > product / 2 ? product : 0;
        uint32_t rest = (uint32_t)((x % p->p + p->p) % p->p), *c = p->c + i + j * p->ldc;
        *c = p->beta == 0 ? rest : gx_field_add(rest, gx_field_mul(p->beta, *c, p->p), p->p);
    }
}

void mock_bytes_product(const gx_args *p)
{
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            int32_t sum = 0;
            const int8_t *a = (const int8_t *)p->a + i * p->lda,
                         *b = (const int8_t *)p->b + j * p->ldb;
            for (int64_t l = 0; l < p->k; l++) {
                sum += a[l] * b[l];
            }
            ((int32_t *)p->c)[i + j * p->ldc] = sum;
        }
    }
}

// Circle transforms -------------------------------------------------------------------------------

void mock_circle_first(const gx_cuda_circle *p)
{
    gx_circle_twiddles(p->whole, p->log, p->block, false, p->t);
}

void mock_circle_up(const gx_cuda_circle *p)
{
    (void)p; // all were made at once
}

void mock_circle_invert(const gx_cuda_circle *p)
{
    gx_circle_twiddles(p->whole, p->log, p->block, true, p->t);
}

void mock_circle_pass(const gx_cuda_circle *p)
{
    for (int64_t block = 0; block < (int64_t)1 << (p->log - p->first - p->count); block++) {
        for (int64_t j = 0; j < p->n; j++) {
            uint32_t *c = p->c + j * p->ldc + (block << (p->first + p->count));
            for (int q = 0; q < p->count; q++) {
                int layer = p->is_back ? q : p->count - 1 - q;
                const uint32_t *t = p->t + gx_circle_layer(p->log, p->first + layer) +
                                    (block << (p->count - 1 - layer));
                gx_args args = {.n = 1,
                                .k = (int64_t)1 << (p->first + layer),
                                .a = t,
                                .ldb = (int64_t)1 << (p->first + layer),
                                .c = c,
                                .pivot_last = 1,
                                .row_offset = 1,
                                .is_backward = p->is_back};
                for (int64_t g = 0; g < (int64_t)1 << (p->count - 1 - layer); g++) {
                    args.a = t + g;
                    args.c = c + (g << (p->first + layer + 1));
                    (void)gx_backend_ref.kernel[GX_CIRCLE][GX_M31](NULL, NULL, &args, NULL);
                }
            }
            for (int64_t e = 0; e < (int64_t)1 << (p->first + p->count); e++) {
                c[e] = gx_field_mul(c[e], p->scale, GX_M31_P);
            }
        }
    }
}

void mock_circle_pair(const gx_cuda_circle *p)
{
    const gx_args args = {.m = p->m,
                          .n = p->n,
                          .c = p->c,
                          .ldc = p->ldc,
                          .c2 = p->c2,
                          .ldc2 = p->ldc2,
                          .pivot_first = p->scale,
                          .is_backward = p->is_back};
    (void)gx_backend_ref.kernel[GX_CIRCLE][GX_M31](NULL, NULL, &args, NULL);
}

// Constraints -------------------------------------------------------------------------------------

void mock_combine(const gx_cuda_combine *p)
{
    const gx_constraints constraints = {.step = p->step,
                                        .power = p->power,
                                        .steps = p->steps,
                                        .next = p->next,
                                        .width = p->width};
    const gx_args args = {.m = p->m,
                          .k = p->rows,
                          .first_row = p->first,
                          .a = p->a,
                          .lda = p->lda,
                          .b = p->b,
                          .ldb = p->ldb,
                          .c = p->c,
                          .ldc = p->ldc,
                          .constraints = &constraints};
    (void)gx_backend_ref.kernel[GX_COMBINE][GX_M31](NULL, NULL, &args, NULL);
}
