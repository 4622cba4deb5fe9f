/*
** The kernels of whole numbers modulo a prime, as mock_launch.c serves them: in plain loops, the
** residues put together in 128 bits.
*/
#include "mock_near.h"

#include "../../core/base/circle.h"

#include <math.h>
#include <string.h>

__extension__ typedef __int128 wide;

static const int moduli[GX_CUDA_RESIDUES] = {GX_CUDA_MODULI_LIST};

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

// Products of doubles by residues -----------------------------------------------------------------

enum { NOTHING = -(1 << 20), INFINITE = 1 << 20, MOST = 55 };

static int exponent_of(double x)
{
    return !isfinite(x) ? INFINITE : x == 0 ? NOTHING : ilogb(x);
}

static int balance(const gx_cuda_residues *p, int64_t l)
{
    int a = p->inner[l], b = p->inner[p->steps + l];
    bool is_plain = a > NOTHING && a < INFINITE && b > NOTHING && b < INFINITE;
    int moved = is_plain ? (b - a) >> 1 : 0;
    return p->is_b ? -moved : moved;
}

static double residues_element(const gx_cuda_residues *p, int64_t l, int64_t j)
{
    return p->is_turned ? p->x[j + l * p->ldx] : p->x[l + j * p->ldx];
}

void mock_residues_begin(const gx_cuda_residues *p)
{
    for (int64_t i = 0; i < p->n; i++) {
        p->inner[i] = NOTHING;
    }
}

void mock_residues_scan(const gx_cuda_residues *p)
{
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t l = 0; l < p->k; l++) {
            int e = exponent_of(residues_element(p, l, j));
            int *most = p->is_inner ? &p->inner[l + (p->is_b ? p->steps : 0)] : &p->outer[j];
            e += p->is_inner || e <= NOTHING || e >= INFINITE ? 0 : balance(p, l);
            *most = e > *most ? e : *most;
        }
    }
}

void mock_residues_pack(const gx_cuda_residues *p)
{
    for (int64_t j = 0; j < p->cols; j++) {
        for (int64_t l = 0; l < p->rows; l++) {
            int64_t x = 0;
            if (l < p->k && j < p->n && p->outer[j] < INFINITE && p->outer[j] > NOTHING) {
                double y = residues_element(p, l, j);
                x = llrint(scalbn(y, MOST - p->outer[j] + balance(p, l)));
            }
            for (int q = 0; q < GX_CUDA_RESIDUES; q++) {
                int64_t r = (x % moduli[q] + moduli[q]) % moduli[q];
                r -= r > (moduli[q] - 1) / 2 ? moduli[q] : 0;
                ((int8_t *)p->planes)[l + j * p->ldp + q * p->plane] = (int8_t)r;
            }
        }
    }
}

static double plain(const gx_cuda_residues *p, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t l = 0; l < p->k; l++) {
        double a = p->is_turned ? p->x[i + l * p->ldx] : p->x[l + i * p->ldx];
        sum += a * (p->is_b ? p->y[j + l * p->ldy] : p->y[l + j * p->ldy]);
    }
    return sum;
}

void mock_residues_join(const gx_cuda_residues *p)
{
    const int *of_rows = p->outer, *of_cols = p->outer + p->cols;
    for (int64_t e = 0; e < p->m * p->n; e++) {
        int64_t i = e % p->m, j = e / p->m;
        double x, *c = p->c + i + j * p->ldc;
        wide sum = 0, product = 1;
        for (int q = 0; q < GX_CUDA_RESIDUES; q++) { // sum is right modulo product
            int64_t r = ((const int32_t *)p->planes)[i + j * p->ldp + q * p->plane];
            r = (r % moduli[q] + moduli[q]) % moduli[q];
            while (sum % moduli[q] != r) {
                sum += product;
            }
            product *= moduli[q];
        }
        sum -= sum > product / 2 ? product : 0;
        x = scalbn((double)sum, of_rows[i] + of_cols[j] - 2 * MOST);
        x = of_rows[i] >= INFINITE || of_cols[j] >= INFINITE ? plain(p, i, j) : x;
        *c = p->alpha * x + (p->beta == 0 ? 0 : p->beta * *c);
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
    const gx_constraints constraints = {
        .step = p->step, .power = p->power, .steps = p->steps, .next = p->next, .width = p->width};
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
