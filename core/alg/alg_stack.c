/*
** The triangle of a tall, narrow matrix in one streamed pass (pass.h): R of [A B].
**
** A unit is a tile of rows.  Its thread factors it alone, panel by panel of about PANEL_BYTES,
** which stay in the core's own cache, each stacked under the triangle of those before:
**
**   [R_u; P] = Q [R_u'; 0]       TPQRT, R_u = 0 at first
**
** and the units' triangles are folded in their order in the same way, R = the triangle of [R; R_u]:
** the sequential tree of Demmel, Grigori, Hoemmen & Langou 2012 over a flat one.  No Q is kept.  A
** panel of a few hundred rows and columns is too small to be shared by a team, and the panels of
** many units are many.
**
** With right-hand sides [A B] is factored as one matrix,
**
**   R = [ R_A  C ]     C = the first n rows of Q^H B
**       [ 0    E ]     the columns of E have the norms of the residuals
**
** Work 2 m (n + p)^2.  I/O: A and B once.  Memory: for each thread a piece of A as it is stored, a
** panel, and two triangles.  Pieces and panels follow from shapes: the same bits for every budget
** and number of threads.
*/
#include "alg_stack.h"

#include "dense.h"

#include <math.h>
#include <string.h>

/* Columns, at most: wider ones are worth a team. */
enum { MOST_COLUMNS = 320 };

/* A panel fits into half of a second-level cache, with the triangle. */
static const int64_t PANEL_BYTES = 256 << 10;

/* Stored rows that are read together; rows of a matrix in memory. */
static const int64_t PIECE_BYTES = 16 << 20, VALUE_BYTES = 1 << 20;

/* A unit's triangle is little beside its rows. */
enum { ROWS_PER_COLUMN = 4 };

/* The matrix under centred columns, or A itself. */
static const gx_mat *base_of(const gx_mat *A)
{
    return A->kind == GX_MAT_CENTRED ? A->base : A;
}

static void choose_heights(gx_stack *s)
{
    const gx_mat *base = base_of(s->A);
    int64_t element = (int64_t)gx_dtype_bytes(base->dtype), row = gx_max(1, base->cols) * element;
    int64_t least = ROWS_PER_COLUMN * s->cols;
    int64_t most = (base->kind == GX_MAT_VALUE ? VALUE_BYTES : PIECE_BYTES) / row / 64 * 64;
    int64_t tile = gx_max(1, gx_min(base->tile_rows, s->A->rows));
    s->height = tile < least ? tile * gx_ceil_div(least, tile) : tile;
    s->height = gx_min(gx_min(s->height, gx_max(most, least)), s->A->rows);
    int64_t panel = PANEL_BYTES / (s->cols * (int64_t)gx_dtype_bytes(s->dtype)) / 64 * 64;
    s->panel = gx_min(gx_max(panel, 2 * s->cols), s->height);
}

static size_t rounded(int64_t elements, gx_dtype dtype)
{
    return ((size_t)elements * gx_dtype_bytes(dtype) + 63) / 64 * 64;
}

/* Where the parts of a thread's memory begin; the last is its size. */
typedef struct layout {
    size_t rhs, panel, tau, kernel, end;
} layout;

static gx_args panel_args(const gx_stack *s, int64_t rows)
{
    return (gx_args){.m = rows, .n = s->cols, .ldc = s->cols, .ldc2 = rows};
}

static layout layout_of(const gx_stack *s)
{
    const gx_mat *base = base_of(s->A);
    gx_args largest = panel_args(s, gx_max(s->panel, s->cols));
    layout l = {.rhs = s->is_piecewise ? rounded(s->height * base->cols, base->dtype) : 0};
    l.panel = l.rhs + (s->B == NULL ? 0 : rounded(s->height * s->B->cols, s->dtype));
    l.tau = l.panel + rounded(s->panel * s->cols, s->dtype);
    l.kernel = l.tau + rounded(s->cols, s->dtype);
    l.end = l.kernel + s->backend->workspace(s->dev, GX_TPQRT, s->dtype, &largest);
    return l;
}

static gx_pass pass_of(const gx_stack *s)
{
    double bytes = (double)s->A->rows * (double)base_of(s->A)->cols;
    return (gx_pass){.units = gx_ceil_div(s->A->rows, s->height),
                     .bytes = bytes * (double)gx_dtype_bytes(base_of(s->A)->dtype),
                     .flops = s->flops,
                     .work_bytes = layout_of(s).end,
                     .part_bytes = rounded(s->cols * s->cols, s->dtype)};
}

bool gx_stack_plan(gx_run *run, const gx_mat *A, const gx_mat *B, gx_dtype dtype, gx_stack *s)
{
    *s = (gx_stack){.A = A, .B = B, .dtype = dtype, .cols = A->cols + (B == NULL ? 0 : B->cols)};
    double pairs = (double)A->rows * (double)s->cols * (double)s->cols;
    s->flops = pairs * (gx_dtype_is_complex(dtype) ? 8 : 2);
    if (!gx_ok(run) || gx_run_device(run, &s->backend, &s->dev) != GX_OK || s->cols == 0 ||
        s->cols > MOST_COLUMNS || A->rows < ROWS_PER_COLUMN * s->cols) {
        return false;
    }
    s->is_piecewise = base_of(A)->kind == GX_MAT_STORED;
    choose_heights(s);
    gx_pass pass = pass_of(s);
    size_t triangle = pass.part_bytes + layout_of(s).end - layout_of(s).tau;
    return triangle + gx_pass_least_bytes(&pass) + (16 << 10) <= gx_mem_available(run->ctx->mem);
}

void gx_stack_predict(gx_run *run, const gx_stack *s, gx_cost *cost, gx_terms *terms)
{
    gx_pass pass = pass_of(s);
    bool is_read = gx_mat_base_stored(s->A) != NULL;
    *cost = (gx_cost){.flops = s->flops,
                      .bytes_up = pass.bytes,
                      .bytes_read = is_read ? pass.bytes : 0,
                      .calls = pass.units,
                      .loads = pass.units};
    gx_args all = panel_args(s, s->A->rows);
    cost->compute_s = gx_profile_kernel(gx_profile_get(run->ctx), GX_TPQRT, s->dtype, &all,
                                        (int)run->ctx->config.number[GX_SET_THREADS]);
    gx_predict_pass(run, cost, s->dtype, s->cols, terms);
}

// The pass ----------------------------------------------------------------------------------------

typedef struct stack {
    gx_run *run;
    const gx_stack *plan;
    void *r;      /* cols x cols, upper triangle */
    char *memory; /* of folding: tau, the kernel's */
} stack;

/* The triangle at r of [r; c2], rows x cols. */
static gx_code reduce(const gx_stack *s, void *r, void *c2, int64_t rows, char *tau, char *work,
                      gx_err *err)
{
    gx_args args = panel_args(s, rows);
    args.c = r;
    args.c2 = c2;
    args.tau = tau;
    args.work = work;
    return s->backend->kernel[GX_TPQRT][s->dtype](s->dev, NULL, &args, err);
}

/* A's rows of a unit, as a source in memory where they have been read in one piece. */
typedef struct source {
    gx_mat piece, centred;
    const gx_mat *A; /* to be read from row `first` on */
    int64_t first;
} source;

static gx_code open_source(const stack *x, int64_t i0, int64_t rows, gx_pass_thread *thread,
                           void *memory, source *from, gx_err *err)
{
    const gx_mat *A = x->plan->A, *base = base_of(A);
    from->A = A;
    from->first = i0;
    if (!x->plan->is_piecewise) {
        return GX_OK;
    }
    GX_TRY(gx_pass_read(thread, base, i0, 0, rows, base->cols, base->dtype, memory, rows, err));
    gx_mat_value(&from->piece, A->label, base->dtype, rows, base->cols, memory, rows);
    from->A = &from->piece;
    from->first = 0;
    if (A->kind == GX_MAT_CENTRED) {
        gx_mat_centred(&from->centred, &from->piece, A->dtype, A->shift, A->scale, A->has_ones);
        from->centred.is_conjugated = A->is_conjugated;
        from->A = &from->centred;
    }
    return GX_OK;
}

static gx_code factor_unit(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                           gx_err *err)
{
    const stack *x = arg;
    const gx_stack *s = x->plan;
    layout l = layout_of(s);
    char *memory = work, *panel = memory + l.panel, *rhs = memory + l.rhs;
    int64_t i0 = unit * s->height, rows = gx_min(s->height, s->A->rows - i0), n = s->A->cols;
    source from;
    memset(part, 0, rounded(s->cols * s->cols, s->dtype));
    GX_TRY(open_source(x, i0, rows, thread, memory, &from, err));
    // Column by column: its tiles are higher, and a read of several would take in what is between.
    for (int64_t j = 0; s->B != NULL && j < s->B->cols; j++) {
        void *column = gx_at(rhs, s->dtype, rows, 0, j);
        GX_TRY(gx_pass_read(thread, s->B, i0, j, rows, 1, s->dtype, column, rows, err));
    }
    for (int64_t i = 0; i < rows && gx_ok(x->run); i += s->panel) {
        int64_t m = gx_min(s->panel, rows - i);
        GX_TRY(gx_pass_read(thread, from.A, from.first + i, 0, m, n, s->dtype, panel, m, err));
        if (s->B != NULL) {
            gx_convert(s->dtype, gx_at(rhs, s->dtype, rows, i, 0), rows, s->dtype,
                       gx_at(panel, s->dtype, m, 0, n), m, m, s->B->cols);
        }
        GX_TRY(reduce(s, part, panel, m, memory + l.tau, memory + l.kernel, err));
    }
    return GX_OK;
}

static gx_code fold_unit(void *arg, int64_t unit, void *part, gx_err *err)
{
    stack *x = arg;
    const gx_stack *s = x->plan;
    layout l = layout_of(s);
    if (unit == 0) {
        memcpy(x->r, part, rounded(s->cols * s->cols, s->dtype));
        return GX_OK;
    }
    return reduce(s, x->r, part, s->cols, x->memory, x->memory + (l.kernel - l.tau), err);
}

gx_code gx_stack_run(gx_run *run, const gx_stack *s, void *r)
{
    stack x = {.run = run, .plan = s, .r = r};
    gx_cost cost;
    gx_terms terms;
    layout l = layout_of(s);
    void *memory = NULL;
    gx_err err = {0};
    gx_stack_predict(run, s, &cost, &terms);
    gx_predict_expect(run, &terms, false);
    if (gx_mem_alloc(run->ctx->mem, l.end - l.tau, "triangles", &memory, &err) == GX_OK) {
        const gx_mat *sources[] = {s->A, s->B};
        x.memory = memory;
        gx_pass pass = pass_of(s);
        pass.sources = sources;
        pass.source_count = 2;
        pass.work = factor_unit;
        pass.fold = fold_unit;
        pass.arg = &x;
        gx_pass_run(run, &pass);
        gx_stats_add(&run->ctx->stats, GX_STAT_KERNELS, pass.units);
        gx_stats_add(&run->ctx->stats, GX_STAT_FLOPS, (int64_t)s->flops);
    }
    gx_mem_free(run->ctx->mem, memory);
    return gx_run_fail(run, &err);
}
