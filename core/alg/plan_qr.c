/*
** The planner of QR: panel widths, row blocks, and which of the two.  See alg_qr.h.
**
** Panels.  The cache holds `slots` panels of rows x width: the V that passes by, the triangles T of
** all panels (one block), one panel loaded ahead, and a group of panels of the result.  Panels of
** an earlier group are read again once for every later group, so
**
**     reads = |A| + sum over groups of the bytes of the panels before it,
**
** which does not depend on the width where the budget is small, but wide panels make faster
** kernels: the width is halved from its target until ENOUGH of them fit.
**
** TSQR.  R, a few row blocks of height >= cols, and the right-hand sides' top and blocks.
**
** Deterministic mode: widths and heights follow from the shape and the setting tile_bytes, so
** reflectors are grouped the same way whatever the budget; groups only change what is in memory
** when, never the order in which panels are applied to one panel.
*/
#include "alg_qr.h"
#include "dense.h"
#include "plan.h"

#include <string.h>

/* Panels reach the full rate of products from here. */
enum { WIDTH = 512 };

/* A panel of less than this many elements is not worth being one. */
static const int64_t PANEL_ELEMENTS = 1 << 20;

/* Row blocks of TSQR: large enough for the team, small enough to be read and worked on in turn. */
static const size_t ROW_BLOCK_BYTES = 32 << 20;

/* What kernels take beside the blocks, for reflectors of m x k applied to n columns. */
static size_t kernel_bytes(gx_run *run, int64_t m, int64_t n, int64_t k, gx_number dtype,
                           bool is_tree)
{
    static const gx_kernel_id panel[] = {GX_GEQRF, GX_LARFT, GX_LARFB, GX_ORMQR};
    static const gx_kernel_id tree[] = {GX_GEQRF, GX_TPQRT, GX_ORMQR, GX_TPMQRT};
    size_t most = 0;
    for (int i = 0; i < 4; i++) {
        gx_kernel_id kernel = is_tree ? tree[i] : panel[i];
        bool is_made = kernel == GX_GEQRF || kernel == GX_TPQRT;
        gx_args args = {
            .side = GX_LEFT, .transa = GX_CONJ_TRANS, .m = m, .n = is_made ? k : n, .k = k};
        size_t bytes = gx_dense_call_bytes(run, kernel, dtype, &args);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Blocks of that many elements that fit beside the program, its kernels and one tile to pack. */
static int64_t count_slots(gx_run *run, int64_t elements, int64_t calls, int64_t blocks,
                           size_t kernel, gx_number dtype)
{
    const size_t EXTRA = 512; // a call's parts and vectors, while their list grows
    size_t slot = gx_whole_lines((size_t)elements * gx_number_bytes(dtype));
    size_t tile = gx_store_max_tile_bytes(run->ctx->store);
    size_t other = gx_prog_overhead(calls, blocks) + (size_t)calls * EXTRA + kernel +
                   (tile < slot ? tile : slot);
    return gx_plan_slots(run, slot, gx_plan_reserve(run, other));
}

// Panels ------------------------------------------------------------------------------------------

/* Multiples of 64 where there is more than that. */
static int64_t round_width(int64_t width, int64_t cols)
{
    width = width > 64 ? width / 64 * 64 : width;
    return gx_max(1, gx_min(width, cols));
}

/* The width that the shape alone asks for; a panel's row of a tile must fit into a tile. */
static int64_t target_width(gx_run *run, int64_t rows, int64_t cols, gx_number dtype)
{
    size_t tile = gx_store_max_tile_bytes(run->ctx->store);
    int64_t most = gx_max(1, (int64_t)(tile / gx_number_bytes(dtype))); // elements of a tile
    int64_t height = gx_max(1, rows);
    if (gx_plan_is_fixed(run)) {
        int64_t width = gx_max(1, gx_min(gx_max(most / 2 / height, 16), most));
        return round_width(width, gx_max(1, cols));
    }
    return round_width(gx_min(gx_max(WIDTH, PANEL_ELEMENTS / height), most), gx_max(1, cols));
}

static int64_t panel_calls(int64_t panels, int64_t reflector_panels)
{
    return panels * (gx_min(panels, reflector_panels) + 2) + 2;
}

/* How many panels should fit, so that groups save reads and loads run ahead. */
static int64_t enough_slots(int64_t width)
{
    return width > 64 ? 8 : width > 8 ? 6 : 3;
}

static int64_t panel_slots(gx_run *run, int64_t rows, int64_t cols, int64_t k, gx_number dtype,
                           int64_t width)
{
    int64_t panels = gx_ceil_div(cols, width), height = gx_max(rows, gx_min(k, width));
    size_t kernel = kernel_bytes(run, height, width, gx_min(k, width), dtype, false);
    return count_slots(run, gx_max(1, height) * width, panel_calls(panels, gx_ceil_div(k, width)),
                       2 * panels + 1, kernel, dtype);
}

/*
** The widest panel, from the shape's own on by halves, of which enough fit; else the one of which
** most do (narrow panels make long programs, which take memory too).
*/
static int64_t choose_width(gx_run *run, int64_t rows, int64_t cols, int64_t k, gx_number dtype,
                            int64_t *slots)
{
    int64_t best = 0;
    *slots = -1;
    for (int64_t width = target_width(run, rows, cols, dtype);;) {
        int64_t fit = panel_slots(run, rows, cols, k, dtype, width);
        int64_t all = gx_ceil_div(cols, width) + 2;
        if (fit > *slots || (fit == 0 && width >= 32)) {
            best = width;
            *slots = fit;
        }
        if (width == 1 || fit >= gx_min(all, gx_plan_is_fixed(run) ? 3 : enough_slots(width))) {
            return best;
        }
        width = round_width(width / 2, gx_max(1, cols));
    }
}

void gx_plan_panels(gx_run *run, int64_t rows, int64_t cols, int64_t k, gx_number dtype,
                    int64_t width, gx_panel_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->rows = rows;
    plan->cols = cols;
    int64_t slots;
    if (width > 0) {
        width = gx_min(width, gx_max(1, cols));
        slots = panel_slots(run, rows, cols, k, dtype, width);
    } else {
        width = choose_width(run, rows, cols, k, dtype, &slots);
    }
    plan->width = width;
    plan->slots = slots;
    int64_t panels = gx_ceil_div(gx_max(1, cols), width);
    bool fits = slots >= panels + 1;
    plan->group = fits ? panels : gx_max(1, slots - 3);
    plan->lookahead = fits ? INT32_MAX / 2 : gx_plan_lookahead(run);
    plan->cut = gx_plan_cut(run);
}

/* The tallest tile of that width, in multiples of 64 where it is not the whole height. */
static int64_t tile_height(gx_run *run, int64_t rows, int64_t width, gx_number dtype)
{
    size_t tile = gx_store_max_tile_bytes(run->ctx->store);
    int64_t most = (int64_t)(tile / ((size_t)width * gx_number_bytes(dtype)));
    most = most > 64 ? most / 64 * 64 : gx_max(1, most);
    return gx_max(1, gx_min(most, rows));
}

void gx_plan_panel_tiles(gx_run *run, int64_t rows, int64_t cols, int64_t k, gx_number dtype,
                         int64_t *tile_rows, int64_t *tile_cols)
{
    gx_panel_plan plan;
    gx_plan_panels(run, rows, cols, k, dtype, 0, &plan);
    *tile_cols = plan.width;
    *tile_rows = tile_height(run, rows, plan.width, dtype);
}

// TSQR --------------------------------------------------------------------------------------------

/* Blocks that must stay in memory: R, the tops and strips of right-hand sides. */
static int64_t resident_blocks(int64_t cols, int64_t extra_cols)
{
    return 1 + (extra_cols == 0 ? 0 : gx_ceil_div(extra_cols, gx_max(1, cols)) + 1);
}

static int64_t tsqr_slots(gx_run *run, const gx_tsqr_plan *plan, int64_t height, int64_t extra_cols,
                          gx_number dtype)
{
    int64_t cols = gx_max(1, plan->cols), blocks = gx_ceil_div(gx_max(1, plan->rows), height);
    int64_t groups = 1 + gx_ceil_div(extra_cols, cols);
    int64_t strip = gx_min(GX_TSQR_STRIP, gx_max(1, extra_cols));
    int64_t elements = gx_max(height * cols, extra_cols > 0 ? strip * extra_cols : 0);
    size_t kernel =
        kernel_bytes(run, height, gx_min(gx_max(1, extra_cols), cols), cols, dtype, true);
    return count_slots(run, elements, blocks * 3 * groups + 4, (blocks + 2) * (groups + 1), kernel,
                       dtype);
}

/* Row blocks are multiples of this, whatever the budget: the height of tiles that hold them. */
static int64_t tsqr_step(gx_run *run, int64_t rows, int64_t cols, gx_number dtype)
{
    int64_t element = (int64_t)gx_number_bytes(dtype);
    int64_t tile = (int64_t)gx_store_max_tile_bytes(run->ctx->store);
    int64_t step = tile / (gx_max(1, cols) * element);
    step = step > 64 ? step / 64 * 64 : gx_min(64, gx_max(1, tile / element));
    return gx_max(1, gx_min(step, rows));
}

/* Whole steps, at least as many rows as columns. */
static int64_t round_height(int64_t height, int64_t step, int64_t cols)
{
    return gx_max(gx_ceil_div(gx_max(1, cols), step), height / step) * step;
}

void gx_plan_tsqr(gx_run *run, int64_t rows, int64_t cols, int64_t extra_cols, gx_number dtype,
                  gx_tsqr_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->rows = rows;
    plan->cols = cols;
    plan->lookahead = gx_plan_lookahead(run);
    plan->cut = gx_plan_cut(run);
    const int64_t WANTED = 5;
    int64_t resident = resident_blocks(cols, extra_cols), row = gx_max(1, cols);
    int64_t step = tsqr_step(run, rows, cols, dtype);
    int64_t least = round_height(0, step, cols), height = least;
    if (!gx_plan_is_fixed(run)) {
        int64_t bytes = (int64_t)ROW_BLOCK_BYTES / (row * (int64_t)gx_number_bytes(dtype));
        height = round_height(bytes, step, cols);
    }
    plan->slots = tsqr_slots(run, plan, gx_min(height, gx_max(1, rows)), extra_cols, dtype);
    while (height > least && plan->slots < resident + WANTED) {
        height = round_height(height / 2, step, cols);
        plan->slots = tsqr_slots(run, plan, gx_min(height, gx_max(1, rows)), extra_cols, dtype);
    }
    plan->height = gx_min(height, gx_max(1, rows));
    plan->blocks = gx_ceil_div(rows, plan->height);
    plan->is_possible = rows >= cols && plan->slots >= resident + 2;
}

/* Panels of Q that fit into what is free before its intermediates are begun. */
static const double PANELS_BESIDE = 10;

/* Rows to columns from which the tree is looked at where Q is wanted. */
static const int64_t TALL = 4;

bool gx_plan_prefers_tsqr(gx_run *run, int64_t rows, int64_t cols, gx_number dtype)
{
    const int64_t NARROW = 32;
    if (rows < TALL * cols || cols == 0) {
        return false;
    }
    gx_panel_plan panels;
    gx_tsqr_plan tsqr;
    gx_plan_panels(run, rows, cols, cols, dtype, 0, &panels);
    if (panels.width >= gx_min(cols, NARROW) && panels.slots >= 3) {
        return false;
    }
    gx_plan_tsqr(run, rows, cols, 0, dtype, &tsqr);
    return tsqr.is_possible;
}

void gx_plan_q_tiles(gx_run *run, int64_t rows, int64_t cols, int64_t width, gx_number dtype,
                     int64_t *tile_rows, int64_t *tile_cols)
{
    gx_plan_panel_tiles(run, rows, width, gx_min(rows, cols), dtype, tile_rows, tile_cols);
    // An intermediate will take its part of the memory, and three such panels must fit in the rest.
    double panel = (double)rows * (double)gx_number_bytes(dtype);
    double most_bytes = (double)gx_mem_available(run->ctx->mem) / PANELS_BESIDE;
    while (!gx_plan_is_fixed(run) && *tile_cols > 1 && panel * (double)*tile_cols > most_bytes) {
        *tile_cols = round_width(*tile_cols / 2, *tile_cols);
        *tile_rows = tile_height(run, rows, *tile_cols, dtype);
    }
    if (rows >= TALL * cols) {
        size_t tile = gx_store_max_tile_bytes(run->ctx->store);
        int64_t step = tsqr_step(run, rows, cols, dtype);
        int64_t most = (int64_t)(tile / ((size_t)step * gx_number_bytes(dtype)));
        *tile_rows = step;
        *tile_cols = gx_max(1, gx_min(most, *tile_cols));
    }
}
