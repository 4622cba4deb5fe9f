/*
** Stand-in for the device code: what mock_nvidia.c does when a launch's turn comes.
**
** A launch is served from the kernel's name and its struct (kernels/cuda_kernels.h): elementwise
** ones go to the CPU backend, whose bits the device code has, what else backend.h names to the
** reference, and what is the CUDA backend's own (regions, parts of triangles, rows, partial
** reductions) to the loops below.
*/
#include "mock_near.h"
#include "mock_nvidia.h"

#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static gx_scalar get(gx_number dtype, const void *x, int64_t ld, int64_t i, int64_t j)
{
    double d[2] = {0, 0};
    float f[2] = {0, 0};
    const void *at = gx_at(x, dtype, ld, i, j);
    memcpy(gx_number_is_double(dtype) ? (void *)d : (void *)f, at, gx_number_bytes(dtype));
    return gx_number_is_double(dtype) ? (gx_scalar){d[0], d[1]}
                                      : (gx_scalar){(double)f[0], (double)f[1]};
}

static void put(gx_number dtype, void *x, int64_t ld, int64_t i, int64_t j, gx_scalar value)
{
    double d[2] = {value.re, value.im};
    float f[2] = {(float)value.re, (float)value.im};
    memcpy(gx_at(x, dtype, ld, i, j), gx_number_is_double(dtype) ? (void *)d : (void *)f,
           gx_number_bytes(dtype));
}

static gx_scalar product(gx_scalar x, gx_scalar y)
{
    return (gx_scalar){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

static bool is_inside(int uplo, int64_t i, int64_t j)
{
    return uplo == GX_LOWER ? i >= j : i <= j;
}

/* A backend's kernel on a call of ours. */
static void by_backend(const gx_backend *backend, gx_kernel_id kernel, gx_number dtype,
                       const gx_cuda_call *p, double *reduce)
{
    gx_args args = {.transa = (gx_trans)p->trans,
                    .uplo = (gx_uplo)p->uplo,
                    .diag = (gx_diag)p->diag,
                    .m = p->m,
                    .n = p->n,
                    .alpha = {p->alpha[0], p->alpha[1]},
                    .beta = {p->beta[0], p->beta[1]},
                    .a = p->a,
                    .lda = p->lda,
                    .b = p->b,
                    .ldb = p->ldb,
                    .b2 = p->tau,
                    .ldb2 = p->lines,
                    .c = p->c,
                    .ldc = p->ldc,
                    .map = (gx_map_kind)p->kind,
                    .reduce_kind = (gx_reduce_kind)p->kind,
                    .reduce = reduce};
    (void)backend->kernel[kernel][dtype](NULL, NULL, &args, NULL);
}

static void by_reference(gx_kernel_id kernel, gx_number dtype, const gx_cuda_call *p,
                         double *reduce)
{
    by_backend(&gx_oracle, kernel, dtype, p, reduce);
}

static void region(gx_number dtype, const gx_cuda_call *p)
{
    gx_scalar beta = {p->beta[0], gx_number_is_complex(dtype) ? p->beta[1] : 0};
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            bool is_only_diagonal = p->part == GX_CUDA_DIAGONAL;
            bool is_mine =
                is_only_diagonal ? i == j : p->part == GX_CUDA_ALL || is_inside(p->uplo, i, j);
            gx_scalar value = {0, 0};
            if (is_mine && (is_only_diagonal || beta.re != 0 || beta.im != 0)) {
                value = get(dtype, p->c, p->ldc, i, j);
                value = is_only_diagonal ? value : product(beta, value);
            }
            if (i == j && p->part >= GX_CUDA_REAL_DIAGONAL) {
                value.im = 0;
            }
            if (is_mine) {
                put(dtype, p->c, p->ldc, i, j, value);
            }
        }
    }
}

static void triangle(gx_number dtype, const gx_cuda_call *p)
{
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            bool is_unit = p->part == GX_CUDA_IDENTITY;
            gx_scalar value = {0, 0};
            if (i == j && (is_unit || p->diag == GX_UNIT)) {
                value.re = 1;
            } else if (!is_unit && is_inside(p->uplo, i, j)) {
                value = get(dtype, p->a, p->lda, i, j);
            } else if (p->part == GX_CUDA_TRIANGLE) {
                continue;
            }
            put(dtype, p->c, p->ldc, i, j, value);
        }
    }
}

/* Eigenvectors of a real matrix, conjugate pairs unpacked. */
static void pairs(gx_number dtype, const gx_cuda_call *p)
{
    gx_number wide = gx_number_promote(dtype, GX_C64);
    for (int64_t j = 0; j < p->n; j++) {
        double im = get(wide, p->tau, 1, 0, j).im;
        int64_t first = im < 0 ? j - 1 : j;
        for (int64_t i = 0; i < p->m; i++) {
            gx_scalar x = get(dtype, p->a, p->lda, i, first);
            x.im = im == 0 ? 0 : get(dtype, p->a, p->lda, i, first + 1).re;
            x.im = im < 0 ? -x.im : x.im;
            put(wide, p->c, p->ldc, i, j, x);
        }
    }
}

static void larft(gx_number dtype, const gx_cuda_call *p)
{
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->n; i++) {
            gx_scalar tau = get(dtype, p->tau, 1, 0, i), zero = {0, 0};
            if (i < j) {
                put(dtype, p->b, p->ldb, i, j, product(tau, get(dtype, p->b, p->ldb, i, j)));
            }
            put(dtype, p->c, p->ldc, i, j, i == j ? tau : zero);
        }
    }
}

static void definite(gx_number dtype, const gx_cuda_call *p)
{
    int32_t *info = p->b;
    if (p->kind == 1) {
        gx_scalar d = get(dtype, p->c, 1, 0, 0);
        *info = 0;
        put(dtype, p->c, 1, 0, 0, d.re > 0 ? (gx_scalar){sqrt(d.re), 0} : d);
    }
    for (int64_t j = 0; j < p->n; j++) {
        if (!(get(dtype, p->c, p->ldc, j, j).re > 0) && (*info == 0 || *info > j + 1)) {
            *info = (int32_t)j + 1;
        }
    }
}

static void poison(gx_number dtype, const gx_cuda_call *p)
{
    double measured = *(const double *)p->a;
    for (int64_t i = 0; i < p->m && isnan(measured); i++) {
        for (int64_t j = 0; j < p->n; j++) {
            put(dtype, p->c, p->ldc, i, j, (gx_scalar){measured, measured});
        }
        *(int32_t *)p->b = 0;
    }
}

static void rescale(gx_number dtype, const gx_cuda_call *p)
{
    double largest = *(const double *)p->a, limit = gx_number_is_double(dtype) ? 0x1p485 : 0x1p51;
    if (!(largest > 0) || (largest >= 1 / limit && largest <= limit)) {
        return;
    }
    int k = !isinf(largest) ? -ilogb(largest) : gx_number_is_double(dtype) ? -1023 : 0;
    k = p->kind == 1 ? -k : k;
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            gx_scalar x = get(dtype, p->c, p->ldc, i, j);
            put(dtype, p->c, p->ldc, i, j, (gx_scalar){scalbn(x.re, k), scalbn(x.im, k)});
        }
    }
}

/* A reduction of doubles as the first of its parts, the others being neutral. */
static void leave_parts(int kind, int64_t chunks, const double *of, double *partial)
{
    double neutral = kind == GX_REDUCE_MIN ? INFINITY : kind == GX_REDUCE_MAX ? -INFINITY : 0;
    for (int64_t q = 0; q < 3 * chunks; q++) {
        partial[q] = q % 3 == 0 ? neutral : 0;
    }
    if (kind == GX_REDUCE_SUMSQ) { // reported as it is by reduce_end
        partial[1] = of[0];
        partial[2] = of[1];
    } else {
        partial[0] = of[0];
        partial[1] = of[1];
    }
}

/* All of the result in the first chunk; the others are neutral. */
static void reduce_first(gx_number dtype, const gx_cuda_call *p)
{
    int64_t width = gx_reduce_width((gx_reduce_kind)p->kind, p->m, p->n);
    if (p->kind >= GX_REDUCE_COL_ABS) {
        memset(p->partial, 0, (size_t)(p->chunks * width) * sizeof(double));
        by_reference(GX_REDUCE, dtype, p, p->partial);
        return;
    }
    double out[2] = {0, 0};
    by_reference(GX_REDUCE, dtype, p, out);
    leave_parts(p->kind, p->chunks, out, p->partial);
}

static void reduce_end(const gx_cuda_call *p)
{
    int64_t width = gx_reduce_width((gx_reduce_kind)p->kind, p->m, p->n);
    if (p->kind >= GX_REDUCE_COL_ABS) {
        memcpy(p->out, p->partial, (size_t)width * sizeof(double));
    } else if (p->kind == GX_REDUCE_SUMSQ) {
        memcpy(p->out, p->partial + 1, 2 * sizeof(double));
    } else {
        memcpy(p->out, p->partial, (size_t)width * sizeof(double));
    }
}

static void move_rows(gx_number dtype, const gx_cuda_rows *p)
{
    gx_scalar held[GX_CUDA_ROWS];
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->count; i++) {
            held[i] = get(dtype, p->c, p->ldc, p->source[i], j);
        }
        for (int64_t i = 0; i < p->count; i++) {
            put(dtype, p->c, p->ldc, p->target[i], j, held[i]);
        }
    }
}

static void make_random(const gx_cuda_random *p)
{
    gx_random random = {.kind = (gx_random_kind)p->kind,
                        .dtype = (gx_number)p->dtype,
                        .seed = p->seed,
                        .offset = p->offset,
                        .scale = p->scale,
                        .largest = p->largest};
    gx_random_generate(&random, p->i0, p->j0, p->m, p->n, (gx_number)p->to, p->c, p->ldc);
}

static void convert(const gx_cuda_call *p)
{
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            const void *at = gx_dtype_at(p->a, (gx_dtype)p->from, p->lda, i, j);
            put((gx_number)p->to, p->c, p->ldc, i, j, gx_dtype_get((gx_dtype)p->from, at));
        }
    }
}

static void halve(const gx_cuda_call *p)
{
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            uint32_t bits;
            float x = ((const float *)p->a)[j * p->lda + i];
            memcpy(&bits, &x, sizeof bits);
            ((uint16_t *)p->c)[j * p->ldc + i] =
                p->to == GX_DTYPE_F16 ? mock_half_of((double)x) : (uint16_t)(bits >> 16);
        }
    }
}

static const gx_fold fold_as[] = {[GX_REDUCE_SUM] = GX_FOLD_SUM,
                                  [GX_REDUCE_SUMSQ] = GX_FOLD_NORM,
                                  [GX_REDUCE_MIN] = GX_FOLD_MIN,
                                  [GX_REDUCE_MAX] = GX_FOLD_MAX};

/* The program that the struct was written from, by the CPU, which has the device's bits. */
static void run_fused(gx_number dtype, const gx_cuda_fused *p)
{
    gx_fused f = {.dtype = dtype,
                  .inputs = p->inputs,
                  .constants = p->constants,
                  .steps = p->steps,
                  .outputs = p->outputs,
                  .registers = GX_FUSED_REGISTERS};
    gx_fused_place in[GX_FUSED_INPUTS], out[GX_FUSED_OUTPUTS];
    double folded[GX_FUSED_OUTPUTS][2] = {{0}}, *fold[GX_FUSED_OUTPUTS];
    gx_args args = {.m = p->m, .n = p->n, .fused = &f, .in = in, .out = out, .fold = fold};
    for (int k = 0; k < p->inputs; k++) {
        in[k] = (gx_fused_place){p->in[k].data, p->in[k].row, p->in[k].col};
    }
    for (int k = 0; k < p->constants; k++) {
        f.constant[k] = (gx_scalar){p->constant[k][0], p->constant[k][1]};
    }
    for (int s = 0; s < p->steps; s++) {
        const gx_cuda_step *code = &p->step[s];
        f.step[s] = (gx_fused_code){.map = code->map,
                                    .dst = code->dst,
                                    .alpha = {code->alpha[0], code->alpha[1]},
                                    .beta = {code->beta[0], code->beta[1]}};
        memcpy(f.step[s].from, code->from, sizeof f.step[s].from);
    }
    for (int k = 0; k < p->outputs; k++) {
        out[k] = (gx_fused_place){p->out[k].data, p->out[k].row, p->out[k].col};
        f.output[k] = (gx_fused_result){.value = p->value[k],
                                        .is_real = p->is_real[k],
                                        .fold = p->fold[k] == 0 ? GX_FOLD_NONE
                                                                : (uint8_t)fold_as[p->fold[k] - 1]};
        fold[k] = folded[k];
    }
    args.work = aligned_alloc(64, (gx_backend_cpu.workspace(NULL, GX_FUSED, dtype, &args) + 63) &
                                      ~(size_t)63);
    (void)gx_backend_cpu.kernel[GX_FUSED][dtype](NULL, NULL, &args, NULL);
    free(args.work);
    for (int k = 0; k < p->outputs; k++) {
        if (p->fold[k] != 0) {
            leave_parts(p->fold[k] - 1, p->blocks, folded[k], p->out[k].data);
        }
    }
}

static void fold_lines(gx_number dtype, const gx_cuda_call *p)
{
    double *fold[1] = {p->out};
    gx_fused f = {.dtype = dtype, .inputs = 1, .outputs = 1};
    gx_fused_place in = {(void *)(uintptr_t)p->a, 1, p->lda}, out = {NULL, 1, 1};
    f.output[0] = (gx_fused_result){.fold = (uint8_t)fold_as[p->kind], .fold_of = (uint8_t)p->part};
    gx_args args = {.m = p->m, .n = p->n, .fused = &f, .in = &in, .out = &out, .fold = fold};
    (void)gx_oracle.kernel[GX_FUSED][dtype](NULL, NULL, &args, NULL);
}

/* All rows at once: none is left to gx_spmm_join. */
static void spmm(gx_number dtype, const gx_cuda_spmm *p, bool is_gathered)
{
    const gx_csr csr = {.dtype = dtype,
                        .rows = p->rows,
                        .cols = p->cols,
                        .entries = p->entries,
                        .index_bytes = p->is_wide ? 8 : 4,
                        .start = p->start,
                        .index = p->index,
                        .value = p->value};
    gx_args args = {.transa = !is_gathered ? GX_NO_TRANS
                              : p->is_conj ? GX_CONJ_TRANS
                                           : GX_TRANS,
                    .m = p->m,
                    .n = is_gathered ? p->rows : p->cols,
                    .k = is_gathered ? p->cols : p->rows,
                    .alpha = {p->alpha[0], p->alpha[1]},
                    .sparse = &csr,
                    .is_fresh = p->is_fresh,
                    .b = p->b,
                    .ldb = p->ldb,
                    .c = p->c,
                    .ldc = p->ldc};
    (void)gx_oracle.kernel[GX_SPMM][dtype](NULL, NULL, &args, NULL);
    for (int64_t t = 0; is_gathered && t < p->parts; t++) { // the room must be there
        memset((char *)p->slot + (size_t)(2 * t * p->m) * gx_number_bytes(dtype), 0,
               (size_t)(2 * p->m) * gx_number_bytes(dtype));
        p->ended[t] = -1;
    }
}

/* Where a split product's number k of column r of x is: the stand-in's pieces are whole numbers. */
static float *piece_of(const gx_cuda_narrow *p, int64_t k, int64_t r)
{
    char *step = (char *)p->image + k / GX_CUDA_SPLIT_STEP * GX_CUDA_SPLIT_IMAGE;
    return (float *)step + r * GX_CUDA_SPLIT_STEP + k % GX_CUDA_SPLIT_STEP;
}

static void make_pieces(const gx_cuda_narrow *p)
{
    for (int64_t r = 0; r < p->few; r++) {
        for (int64_t k = 0; k < (p->is_trans ? p->rows : p->cols); k++) {
            *piece_of(p, k, r) = (float)get(GX_F32, p->x, p->x_across, k * p->x_down, r).re;
        }
    }
}

/* Every part by itself, whatever the grid. */
static void narrow(gx_number dtype, const gx_cuda_narrow *p, bool is_split)
{
    int64_t side = p->is_trans ? p->cols : p->rows, k = p->is_trans ? p->rows : p->cols;
    for (int64_t t = 0; t < p->parts; t++) {
        for (int64_t r = 0; r < p->few; r++) {
            for (int64_t i = 0; i < side; i++) {
                double sum = 0;
                for (int64_t q = t * p->chunk; q < k && q < (t + 1) * p->chunk; q++) {
                    int64_t row = p->is_trans ? q : i, col = p->is_trans ? i : q;
                    double s = get(dtype, p->s, p->lds, row, col).re;
                    sum += s * (is_split ? *piece_of(p, q, r)
                                         : get(dtype, p->x, p->x_across, q * p->x_down, r).re);
                }
                put(dtype, p->partial, side, i, t * p->few + r, (gx_scalar){sum, 0});
            }
        }
    }
}

static void add_parts(gx_number dtype, const gx_cuda_call *p)
{
    gx_scalar alpha = {p->alpha[0], p->alpha[1]}, beta = {p->beta[0], p->beta[1]};
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            int64_t row = p->trans == GX_NO_TRANS ? i : j, col = p->trans == GX_NO_TRANS ? j : i;
            gx_scalar sum = {0, 0};
            for (int64_t t = 0; t < p->chunks; t++) {
                const void *part = gx_at(p->a, dtype, p->lines, 0, t);
                gx_scalar x = get(dtype, part, p->lda, i, j);
                sum = (gx_scalar){sum.re + x.re, sum.im + x.im};
            }
            sum = product(alpha, sum);
            if (beta.re != 0 || beta.im != 0) {
                gx_scalar c = product(beta, get(dtype, p->c, p->ldc, row, col));
                sum = (gx_scalar){sum.re + c.re, sum.im + c.im};
            }
            sum.im = p->part == GX_CUDA_REAL_DIAGONAL && i == j ? 0 : sum.im;
            if (p->part == GX_CUDA_ALL || is_inside(p->uplo, i, j)) {
                put(dtype, p->c, p->ldc, row, col, sum);
            }
        }
    }
}

typedef enum served {
    MAP,
    TRANSPOSE,
    SYMMETRIZE,
    REGION,
    TRIANGLE,
    LARFT,
    PAIRS,
    DEFINITE,
    POISON,
    RESCALE,
    ROWS,
    REDUCE,
    REDUCE_END,
    PIVOTS,
    CONVERT,
    ONE_HOT,
    HALVE,
    RANDOM,
    FIELD_MAP,
    FIELD_TRANSPOSE,
    FIELD_PACK,
    FIELD_JOIN,
    RESIDUES_BEGIN,
    RESIDUES_SCAN,
    RESIDUES_PACK,
    RESIDUES_JOIN,
    CIRCLE_FIRST,
    CIRCLE_UP,
    CIRCLE_INVERT,
    CIRCLE_PASS,
    CIRCLE_PAIR,
    COMBINE,
    GRID,
    NARROW,
    NARROW_IMAGE,
    NARROW_SPLIT,
    PARTS,
    FUSED,
    FOLD,
    SPMM_GATHER,
    SPMM_LINE,
    SPMM_JOIN,
    SPMM_SCATTER,
    SPMM_SCATTER_LINE,
    NEAR_ROWS,
    NEAR_PIECES,
    NEAR_IMAGE,
    NEAR_APART,
    NEAR_SELECT,
    NEAR_FINISH,
    NEAR_MERIT,
    SERVED
} served;

static const char *const names[SERVED] = {
    [MAP] = "gx_map",
    [TRANSPOSE] = "gx_transpose",
    [SYMMETRIZE] = "gx_symmetrize",
    [REGION] = "gx_region",
    [TRIANGLE] = "gx_triangle",
    [LARFT] = "gx_larft",
    [PAIRS] = "gx_pairs",
    [ROWS] = "gx_rows",
    [REDUCE] = "gx_reduce",
    [REDUCE_END] = "gx_reduce_end",
    [DEFINITE] = "gx_definite",
    [POISON] = "gx_poison",
    [RESCALE] = "gx_rescale",
    [PIVOTS] = "gx_pivots",
    [CONVERT] = "gx_convert",
    [ONE_HOT] = "gx_one_hot",
    [HALVE] = "gx_halve",
    [RANDOM] = "gx_random",
    [FIELD_MAP] = "gx_field_map",
    [FIELD_TRANSPOSE] = "gx_field_transpose",
    [FIELD_PACK] = "gx_field_pack",
    [FIELD_JOIN] = "gx_field_join",
    [RESIDUES_BEGIN] = "gx_residues_begin",
    [RESIDUES_SCAN] = "gx_residues_scan",
    [RESIDUES_PACK] = "gx_residues_pack",
    [RESIDUES_JOIN] = "gx_residues_join",
    [CIRCLE_FIRST] = "gx_circle_first",
    [CIRCLE_UP] = "gx_circle_up",
    [CIRCLE_INVERT] = "gx_circle_invert",
    [CIRCLE_PASS] = "gx_circle_pass",
    [CIRCLE_PAIR] = "gx_circle_pair",
    [COMBINE] = "gx_combine",
    [GRID] = "gx_grid",
    [NARROW] = "gx_narrow",
    [NARROW_IMAGE] = "gx_narrow_image",
    [NARROW_SPLIT] = "gx_narrow_split",
    [PARTS] = "gx_parts",
    [FUSED] = "gx_fused",
    [FOLD] = "gx_fold",
    [SPMM_GATHER] = "gx_spmm_gather",
    [SPMM_LINE] = "gx_spmm_line",
    [SPMM_JOIN] = "gx_spmm_join",
    [SPMM_SCATTER] = "gx_spmm_scatter",
    [SPMM_SCATTER_LINE] = "gx_spmm_scatter_line",
    [NEAR_ROWS] = "gx_near_rows",
    [NEAR_PIECES] = "gx_near_pieces",
    [NEAR_IMAGE] = "gx_near_image",
    [NEAR_APART] = "gx_near_apart",
    [NEAR_SELECT] = "gx_near_select",
    [NEAR_FINISH] = "gx_near_finish",
    [NEAR_MERIT] = "gx_near_merit",
};

/* A kernel's handle: its number and dtype, plus one. */
API int cudaLibraryGetKernel(void **kernel, void *library, const char *name)
{
    static const char *const suffix[GX_FLOATS] = {"_f64", "_f32", "_c128", "_c64"};
    (void)library;
    BEGIN(MOCK_RUNTIME, "cudaLibraryGetKernel");
    for (int i = 0; i < SERVED; i++) {
        size_t length = strlen(names[i]);
        for (int d = 0; d < GX_FLOATS; d++) {
            bool is_one = i >= REDUCE_END && i <= GRID && name[length] == '\0';
            if (strncmp(name, names[i], length) == 0 &&
                (is_one || strcmp(name + length, suffix[d]) == 0)) {
                *kernel = (void *)(uintptr_t)(i * GX_FLOATS + d + 1);
                return 0;
            }
        }
    }
    return mock_keep(CUDA_NOT_FOUND);
}

API int cudaFuncSetAttribute(const void *kernel, int attribute, int value)
{
    const int ROOM = 8, MOST = 227 << 10;
    BEGIN(MOCK_RUNTIME, "cudaFuncSetAttribute");
    bool is_there = (uintptr_t)kernel - 1 < SERVED * GX_FLOATS;
    return is_there && attribute == ROOM && value <= MOST ? 0 : mock_keep(CUDA_INVALID);
}

static bool is_narrow(served kernel)
{
    return kernel >= NARROW && kernel <= NARROW_SPLIT;
}

static bool is_spmm(served kernel)
{
    return kernel >= SPMM_GATHER && kernel <= SPMM_SCATTER_LINE;
}

typedef struct launch {
    served kernel;
    gx_number dtype;
    union {
        gx_cuda_call call;
        gx_cuda_rows rows;
        gx_cuda_random random;
        gx_cuda_field field;
        gx_cuda_circle circle;
        gx_cuda_residues residues;
        gx_cuda_combine combine;
        gx_cuda_grid grid;
        gx_cuda_fused fused;
        gx_cuda_near near;
        gx_cuda_spmm spmm;
        gx_cuda_narrow narrow;
    } p;
} launch;

/* Split: the same sums, in as many parts. */
static void serve_narrow(launch *l)
{
    gx_cuda_narrow *p = &l->p.narrow;
    if (l->kernel == NARROW_SPLIT) {
        p->chunk = gx_ceil_div(p->is_trans ? p->rows : p->cols, p->parts);
    }
    if (l->kernel == NARROW_IMAGE) {
        make_pieces(p);
    } else {
        narrow(l->dtype, p, l->kernel == NARROW_SPLIT);
    }
}

/* By the reference, in as much memory as a block of threads has. */
static void serve_grid(const gx_cuda_grid *p)
{
    gx_args args = {.m = p->m,
                    .n = p->n,
                    .a = p->a,
                    .lda = p->lda,
                    .b = p->b,
                    .ldb = p->ldb,
                    .b2 = p->table,
                    .ldb2 = p->ld_table,
                    .c = p->c,
                    .ldc = p->ldc,
                    .grid = &p->job};
    args.work = p->work != NULL ? p->work : malloc((size_t)p->numbers * sizeof(int32_t));
    (void)gx_backend_ref.kernel[GX_GRID][GX_F64](NULL, NULL, &args, NULL);
    free(p->work != NULL ? NULL : args.work);
}

/* Products with few columns, neighbours and sparse products. */
static void serve_family(launch *l)
{
    static void (*const near[])(gx_number, const gx_cuda_near *) = {
        mock_near_rows,   mock_near_pieces, mock_near_image, mock_near_apart,
        mock_near_select, mock_near_finish, mock_near_merit};
    static void (*const field[])(const gx_cuda_field *) = {mock_field_map, mock_field_transpose,
                                                           mock_field_pack, mock_field_join};
    static void (*const residues[])(const gx_cuda_residues *) = {
        mock_residues_begin, mock_residues_scan, mock_residues_pack, mock_residues_join};
    static void (*const circle[])(const gx_cuda_circle *) = {
        mock_circle_first, mock_circle_up, mock_circle_invert, mock_circle_pass, mock_circle_pair};
    if (l->kernel == GRID) {
        serve_grid(&l->p.grid);
    } else if (l->kernel == COMBINE) {
        mock_combine(&l->p.combine);
    } else if (l->kernel >= CIRCLE_FIRST && l->kernel <= CIRCLE_PAIR) {
        circle[l->kernel - CIRCLE_FIRST](&l->p.circle);
    } else if (l->kernel >= RESIDUES_BEGIN && l->kernel <= RESIDUES_JOIN) {
        residues[l->kernel - RESIDUES_BEGIN](&l->p.residues);
    } else if (l->kernel >= FIELD_MAP && l->kernel <= FIELD_JOIN) {
        field[l->kernel - FIELD_MAP](&l->p.field);
    } else if (is_narrow(l->kernel)) {
        serve_narrow(l);
    } else if (!is_spmm(l->kernel)) {
        near[l->kernel - NEAR_ROWS](l->dtype, &l->p.near);
    } else if (l->kernel != SPMM_JOIN) { // nothing was left to that
        spmm(l->dtype, &l->p.spmm, l->kernel < SPMM_JOIN);
    }
}

static int serve(void *arg)
{
    launch *l = arg;
    const gx_cuda_call *p = &l->p.call;
    switch (l->kernel) {
    case MAP:
        by_backend(&gx_backend_cpu, (gx_kernel_id)p->kernel, l->dtype, p, NULL);
        break;
    case TRANSPOSE:
        by_reference(GX_TRANSPOSE, l->dtype, p, NULL);
        break;
    case SYMMETRIZE:
        by_reference(GX_SYMMETRIZE, l->dtype, p, NULL);
        break;
    case REGION:
        region(l->dtype, p);
        break;
    case TRIANGLE:
        triangle(l->dtype, p);
        break;
    case PAIRS:
        pairs(l->dtype, p);
        break;
    case LARFT:
        larft(l->dtype, p);
        break;
    case DEFINITE:
    case POISON:
    case RESCALE:
        (l->kernel == RESCALE ? rescale : l->kernel == POISON ? poison : definite)(l->dtype, p);
        break;
    case ROWS:
        move_rows(l->dtype, &l->p.rows);
        break;
    case REDUCE:
        reduce_first(l->dtype, p);
        break;
    case REDUCE_END:
        reduce_end(p);
        break;
    case PIVOTS:
        for (int64_t i = 0; i < p->n; i++) {
            ((int64_t *)p->c)[i] -= 1;
        }
        break;
    case CONVERT:
    case HALVE:
        (l->kernel == HALVE ? halve : convert)(p);
        break;
    case ONE_HOT:
        by_backend(&gx_backend_ref, GX_ONE_HOT, GX_F64, p, NULL);
        break;
    case RANDOM:
        make_random(&l->p.random);
        break;
    case PARTS:
        add_parts(l->dtype, p);
        break;
    case FUSED:
        run_fused(l->dtype, &l->p.fused);
        break;
    case FOLD:
        fold_lines(l->dtype, p);
        break;
    default:
        serve_family(l);
        break;
    }
    return 0;
}

typedef struct dim {
    unsigned x, y, z;
} dim;

API int cudaLaunchKernel(const void *kernel, dim grid, dim block, void **args, size_t bytes,
                         void *stream)
{
    bool is_fatal = false;
    (void)bytes;
    BEGIN_LATER(MOCK_RUNTIME, "cudaLaunchKernel", &is_fatal);
    int number = (int)((uintptr_t)kernel - 1);
    if (kernel == NULL || number / GX_FLOATS >= SERVED) {
        return mock_keep(CUDA_NOT_FOUND);
    }
    if (grid.x * grid.y * grid.z * block.x * block.y * block.z == 0 || block.x * block.y > 1024) {
        return mock_keep(CUDA_BAD_LAUNCH);
    }
    launch l = {.kernel = (served)(number / GX_FLOATS), .dtype = (gx_number)(number % GX_FLOATS)};
    size_t size = l.kernel == ROWS                                          ? sizeof l.p.rows
                  : l.kernel == RANDOM                                      ? sizeof l.p.random
                  : l.kernel >= CIRCLE_FIRST && l.kernel <= CIRCLE_PAIR     ? sizeof l.p.circle
                  : l.kernel == COMBINE                                     ? sizeof l.p.combine
                  : l.kernel == GRID                                        ? sizeof l.p.grid
                  : l.kernel >= RESIDUES_BEGIN && l.kernel <= RESIDUES_JOIN ? sizeof l.p.residues
                  : l.kernel >= FIELD_MAP && l.kernel <= FIELD_JOIN         ? sizeof l.p.field
                  : is_narrow(l.kernel)                                     ? sizeof l.p.narrow
                  : l.kernel == FUSED                                       ? sizeof l.p.fused
                  : l.kernel >= NEAR_ROWS                                   ? sizeof l.p.near
                  : is_spmm(l.kernel)                                       ? sizeof l.p.spmm
                                                                            : sizeof l.p.call;
    memcpy(&l.p, args[0], size);
    mock_count(MOCK_KERNEL);
    return mock_enqueue(stream, is_fatal, serve, &l, sizeof l);
}
