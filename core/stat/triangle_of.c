/*
** The triangle of matrices of any size: by products where they are long enough (alg/narrow.h), by
** reflectors where they are short or wide.  See triangle_of.h.
*/
#include "triangle_of.h"

#include "../alg/narrow.h"
#include "small_triangle.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 256, LD = BLOCK + 8, STRIP_BYTES = 2 << 20, VALUE_ROWS = 4096 };

typedef struct pass {
    const gx_mat *X, *Y;
    int64_t ones, cols, height;
    double *r;
} pass;

static gx_code work(void *arg, int64_t unit, gx_pass_thread *thread, void *memory, void *part,
                    gx_err *err)
{
    const pass *p = arg;
    int64_t row0 = unit * p->height, rows = gx_min(p->height, p->X->rows - row0);
    double *strip = memory, *block = strip + p->cols * p->height;
    double *y = strip + (p->ones + p->X->cols) * p->height;
    memset(part, 0, (size_t)(p->cols * p->cols) * sizeof(double));
    GX_TRY(gx_pass_read(thread, p->X, row0, 0, rows, p->X->cols, GX_F64,
                        strip + p->ones * p->height, p->height, err));
    if (p->Y != NULL) {
        GX_TRY(gx_pass_read(thread, p->Y, row0, 0, rows, p->Y->cols, GX_F64, y, p->height, err));
    }
    for (int64_t i = 0; i < rows && p->ones > 0; i++) {
        strip[i] = 1;
    }
    for (int64_t i = 0; i < rows; i += BLOCK) {
        int64_t count = gx_min(BLOCK, rows - i);
        for (int64_t j = 0; j < p->cols; j++) {
            memcpy(block + j * LD, strip + i + j * p->height, (size_t)count * sizeof *block);
        }
        gx_triangle_fold(part, p->cols, p->cols, block, LD, count);
    }
    return GX_OK;
}

static gx_code fold(void *arg, int64_t unit, void *part, gx_err *err)
{
    const pass *p = arg;
    (void)unit, (void)err;
    gx_triangle_fold(p->r, p->cols, p->cols, part, p->cols, p->cols);
    return GX_OK;
}

static gx_code by_reflectors(gx_run *run, pass *p)
{
    const gx_mat *sources[] = {p->X, p->Y};
    int64_t most = gx_max(1, STRIP_BYTES / 8 / p->cols);
    int64_t tile = gx_mat_is_tiled(p->X) ? p->X->tile_rows : VALUE_ROWS;
    double rows = (double)p->X->rows, cols = (double)p->cols;
    p->height = gx_max(1, gx_min(p->X->rows, tile > most ? most : most / tile * tile));
    const gx_pass reading = {
        .sources = sources,
        .source_count = 2,
        .units = gx_ceil_div(p->X->rows, p->height),
        .bytes = rows * cols * 8,
        .flops = 2 * rows * cols * cols,
        .work_bytes = (size_t)(p->cols * (p->height + LD)) * sizeof(double),
        .part_bytes = (size_t)(p->cols * p->cols) * sizeof(double),
        .work = work,
        .fold = fold,
        .arg = p,
    };
    memset(p->r, 0, (size_t)(p->cols * p->cols) * sizeof(double));
    return gx_pass_run(run, &reading);
}

/* Whether that was the way; it may have failed. */
static bool by_products(gx_run *run, const pass *p)
{
    gx_mat with_ones;
    gx_stack plan;
    size_t bytes = (size_t)gx_max(1, p->X->cols) * sizeof(gx_scalar);
    gx_scalar *zeros = gx_run_calloc(run, bytes, "shifts"); // nothing is taken off the columns
    if (zeros == NULL) {
        return true;
    }
    gx_mat_centred(&with_ones, p->X, GX_F64, zeros, NULL, true);
    bool is_planned = gx_stack_plan(run, p->ones > 0 ? &with_ones : p->X, p->Y, GX_F64, &plan);
    if (is_planned) {
        gx_stack_run(run, &plan, p->r);
    }
    gx_mem_free(run->ctx->mem, zeros);
    return is_planned;
}

gx_code gx_triangle_of(gx_run *run, const gx_mat *X, const gx_mat *Y, bool has_ones, double **r,
                       int64_t *cols)
{
    pass p = {.X = X, .Y = Y, .ones = has_ones};
    p.cols = *cols = p.ones + X->cols + (Y == NULL ? 0 : Y->cols);
    *r = NULL;
    if (Y != NULL && Y->rows != X->rows) {
        return gx_run_failf(run, GX_ARG, "X has %lld rows, and Y has %lld", (long long)X->rows,
                            (long long)Y->rows);
    }
    size_t bytes;
    if (!gx_matrix_bytes(p.cols, p.cols, GX_F64, &bytes)) {
        return gx_run_failf(run, GX_ARG, "there are too many columns: %lld", (long long)p.cols);
    }
    *r = p.r = gx_run_alloc(run, bytes + 64, "a triangle");
    if (p.r != NULL && !by_products(run, &p)) {
        by_reflectors(run, &p);
    }
    for (int64_t k = 0; k < p.cols * p.cols && gx_ok(run); k++) {
        if (!isfinite(p.r[k])) {
            gx_run_failf(run, GX_NUMERIC, "there are numbers that are NaN, infinite or too large");
        }
    }
    return run->err.code;
}
