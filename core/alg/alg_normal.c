/*
** Norms of rows or columns, and matrices divided by them.
**
** A streamed pass (pass.h): a tile gives the sums of its lines, which are added in the order of the
** tiles.  Beside each sum goes the largest element: lines whose squares overflow or vanish are
** summed once more, in a second pass, in units of it.
**
** The quotient is no copy but a source (GX_MAT_CENTRED without a shift) that multiplies as it is
** read.
**
** Memory: 24 bytes a line, for each thread a chunk of a tile and 16 bytes for each of its lines.
*/
#include "dense.h"
#include "similar.h"

#include "../exec/pass.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Units are at most 2^UNIT_MOST: the inverse of the least number would overflow. */
enum { UNIT_MOST = 1000 };

typedef struct norms {
    gx_run *run;
    const gx_mat *A;
    bool by_row;
    gx_line_norm kind;
    int64_t chunk_cols;
    double *sum, *most;
    const double *unit; /* of each line's elements; NULL: 1 */
} norms;

typedef struct tile {
    gx_tile_place at;
    int64_t line, lines;
} tile;

static tile tile_of(const norms *x, int64_t unit)
{
    const gx_mat *A = x->A;
    gx_tile_place at = gx_tile_at(A->rows, A->cols, A->tile_rows, A->tile_cols, unit);
    return (tile){at, x->by_row ? at.i0 : at.j0, x->by_row ? at.m : at.n};
}

/* An element more of each of count lines that are `next` apart: of the same line, 0. */
static inline void add_elements(const norms *x, const double *a, const double *unit, int64_t count,
                                int64_t next, double *sum, double *most)
{
    bool is_square = x->kind == GX_LINE_L2;
    for (int64_t i = 0; i < count; i++, sum += next, most += next) {
        double size = fabs(a[i]), part = unit == NULL ? size : size * unit[i * next];
        *sum += is_square ? part * part : size;
        *most = size > *most || isnan(size) ? size : *most;
    }
}

/* m x n doubles at a, of columns j .. of the tile. */
static void add_chunk(const norms *x, const tile *t, int64_t j, int64_t n, const double *a,
                      double *sum, double *most)
{
    const double *unit = x->unit == NULL ? NULL : x->unit + t->line;
    for (int64_t c = 0; c < n; c++, a += t->at.m) {
        if (x->by_row) {
            add_elements(x, a, unit, t->at.m, 1, sum, most);
        } else {
            add_elements(x, a, unit == NULL ? NULL : unit + j + c, t->at.m, 0, sum + j + c,
                         most + j + c);
        }
    }
}

static gx_code look_at_tile(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                            gx_err *err)
{
    const norms *x = arg;
    tile t = tile_of(x, unit);
    double *sum = part, *most = sum + t.lines;
    memset(part, 0, (size_t)t.lines * 2 * sizeof(double));
    for (int64_t j = 0; j < t.at.n && gx_ok(x->run); j += x->chunk_cols) {
        int64_t n = gx_min(x->chunk_cols, t.at.n - j);
        GX_TRY(
            gx_pass_read(thread, x->A, t.at.i0, t.at.j0 + j, t.at.m, n, GX_F64, work, t.at.m, err));
        add_chunk(x, &t, j, n, work, sum, most);
    }
    return GX_OK;
}

static gx_code fold_tile(void *arg, int64_t unit, void *part, gx_err *err)
{
    norms *x = arg;
    tile t = tile_of(x, unit);
    const double *sum = part, *most = sum + t.lines;
    (void)err;
    for (int64_t l = 0; l < t.lines; l++) {
        double known = x->most[t.line + l];
        x->sum[t.line + l] += sum[l];
        x->most[t.line + l] = most[l] > known || isnan(most[l]) ? most[l] : known;
    }
    return GX_OK;
}

static void pass_over(norms *x)
{
    const gx_mat *A = x->A;
    int64_t lines = x->by_row ? A->tile_rows : A->tile_cols;
    x->chunk_cols = GX_PASS_CHUNK_BYTES / (int64_t)sizeof(double) / A->tile_rows;
    x->chunk_cols = gx_max(1, gx_min(x->chunk_cols, A->tile_cols));
    gx_pass pass = {.sources = &x->A,
                    .source_count = 1,
                    .units =
                        gx_ceil_div(A->rows, A->tile_rows) * gx_ceil_div(A->cols, A->tile_cols),
                    .flops = 2 * (double)A->rows * (double)A->cols,
                    .work_bytes = (size_t)(A->tile_rows * x->chunk_cols) * sizeof(double),
                    .part_bytes = (size_t)lines * 2 * sizeof(double),
                    .work = look_at_tile,
                    .fold = fold_tile,
                    .arg = x};
    pass.bytes = (double)A->rows * (double)A->cols * (double)gx_number_bytes(A->number);
    gx_pass_run(x->run, &pass);
}

static bool is_lost(const norms *x, int64_t line)
{
    return x->kind == GX_LINE_L2 && x->most[line] > 0 && x->most[line] < (double)INFINITY &&
           !(x->sum[line] > 0x1p-900 && x->sum[line] < (double)INFINITY);
}

/* 1 / norm of each line, 1 for lines of zeros, into scale. */
static void finish(norms *x, int64_t lines, double *scale)
{
    bool any = false;
    for (int64_t l = 0; l < lines; l++) {
        any = any || is_lost(x, l);
    }
    if (any) { // units are powers of 2
        for (int64_t l = 0; l < lines; l++) {
            int e = is_lost(x, l) ? -ilogb(x->most[l]) : 0;
            scale[l] = ldexp(1, e < UNIT_MOST ? e : UNIT_MOST);
            x->sum[l] = 0;
        }
        x->unit = scale;
        pass_over(x);
    }
    for (int64_t l = 0; l < lines; l++) {
        double norm = x->kind == GX_LINE_L1    ? x->sum[l]
                      : x->kind == GX_LINE_MAX ? x->most[l]
                                               : sqrt(x->sum[l]);
        double inverse = norm == 0 ? 1 : any ? scale[l] / norm : 1 / norm; // norm may overflow
        scale[l] = isinf(inverse) ? DBL_MAX : inverse;
    }
}

gx_code gx_normal_make(gx_run *run, const gx_mat *A, bool by_row, gx_line_norm kind,
                       gx_normal *normal)
{
    norms x = {.run = run, .A = A, .by_row = by_row, .kind = kind};
    int64_t lines = by_row ? A->rows : A->cols;
    *normal = (gx_normal){0};
    gx_dense_alloc(run, GX_F64, lines, 2, "norms", &x.sum);
    gx_dense_alloc(run, GX_F64, lines, 1, "norms", &normal->scale);
    gx_dense_alloc(run, GX_C128, lines, 1, "norms", &normal->zeros);
    if (gx_ok(run)) {
        memset(x.sum, 0, (size_t)lines * 2 * sizeof(double));
        memset(normal->zeros, 0, (size_t)lines * sizeof(gx_scalar));
        x.most = x.sum + lines;
        if (A->rows > 0 && A->cols > 0) {
            pass_over(&x);
        }
        finish(&x, lines, normal->scale);
    }
    gx_mem_free(run->ctx->mem, x.sum);
    gx_mat_view(&normal->turned, A, by_row ? GX_TRANS : GX_NO_TRANS, 0, 0,
                by_row ? A->cols : A->rows, by_row ? A->rows : A->cols);
    gx_mat_centred(&normal->scaled, &normal->turned, A->number, normal->zeros, normal->scale,
                   false);
    gx_mat_view(&normal->as_a, &normal->scaled, by_row ? GX_TRANS : GX_NO_TRANS, 0, 0, A->rows,
                A->cols);
    normal->mat = &normal->as_a;
    return gx_ok(run) ? GX_OK : run->err.code;
}

void gx_normal_clear(gx_run *run, gx_normal *normal)
{
    gx_mem_free(run->ctx->mem, normal->scale);
    gx_mem_free(run->ctx->mem, normal->zeros);
    *normal = (gx_normal){0};
}
