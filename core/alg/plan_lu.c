/*
** The planner of LU: see alg_lu.h.
**
** A panel is a block as high as the matrix.  A group of panels stays in memory while the finished
** panels to its left pass by, so with room for s panels s - 2 are in the group (one passes by, one
** is on its way) and what is read again is
**
**     sum over groups of the panels before it, from their diagonals down   = n^4 / (3 (s - 2) n w)
**
** For a given memory that hardly depends on w, once s is not too small; gemm's rate does, since w
** is its inner dimension.  So w is the largest of 512, 256, 128, 64 that leaves ENOUGH_PANELS, and
** falls below LEAST_WIDTH, where gemm becomes slow, only when not even three panels would fit.
**
** Tiles of the result are one panel wide (or a whole part of one, where tiles are small) and a
** whole multiple of w high, so that the blocks of a solve are whole tiles.
**
** On a device the panels are those that the result's tiles have, and the group is what its memory
** holds.
**
** Deterministic mode: w follows from the height of the matrix alone; the order in which a panel is
** changed does not depend on the group.
*/
#include "alg_lu.h"
#include "plan.h"

#include "dense.h"

enum {
    WIDTH = 512,      /* gemm's full rate, and one panel is 5 % of the flops at n = 8192 */
    LEAST_WIDTH = 64, /* gemm at about 85 %                                              */
    ENOUGH_PANELS = 12,
    CALLS_EACH = 3 /* for a panel and one to its left */
};

/* A deterministic panel: at most this much. */
static const size_t FIXED_PANEL_BYTES = (size_t)16 << 20;

static const double TILES_MAX = 4294967295.0; // as tile_shape.c

/* Pairs of a panel and one to its left that has pivots. */
static int64_t count_pairs(const gx_lu_plan *plan, int64_t panels)
{
    int64_t factored = gx_min(panels, gx_ceil_div(gx_min(plan->m, plan->n), plan->panel));
    return factored * (factored - 1) / 2 + (panels - factored) * factored;
}

/* What the hungriest kernel wants beside its blocks. */
static size_t workspace_bytes(gx_run *run, const gx_lu_plan *plan)
{
    gx_args args = {
        .m = plan->m, .n = gx_min(plan->panel, plan->n), .lda = plan->m, .ldc = plan->m};
    return gx_dense_call_bytes(run, GX_GETRF, plan->dtype, &args);
}

static size_t panel_bytes(const gx_lu_plan *plan)
{
    size_t elements = (size_t)(plan->m * gx_min(plan->panel, plan->n));
    return gx_max(1, elements * gx_number_bytes(plan->dtype));
}

/* What the program takes beside its panels. */
static size_t overhead_bytes(gx_run *run, const gx_lu_plan *plan)
{
    int64_t panels = gx_ceil_div(plan->n, plan->panel);
    int64_t calls = CALLS_EACH * count_pairs(plan, panels) + 2 * panels;
    size_t tile = (size_t)(plan->tile_rows * plan->tile_cols) * gx_number_bytes(plan->dtype);
    return gx_prog_overhead(calls, panels) + gx_prog_parts_overhead(calls) + tile +
           workspace_bytes(run, plan);
}

/* Panels that the cache will hold. */
static int64_t count_slots(gx_run *run, const gx_lu_plan *plan)
{
    return gx_plan_slots(run, panel_bytes(plan), gx_plan_reserve(run, overhead_bytes(run, plan)));
}

/* About the bytes that tiles have, one panel or a whole part of it wide. */
static void choose_tiles(gx_run *run, gx_lu_plan *plan)
{
    int64_t element = (int64_t)gx_number_bytes(plan->dtype), w = plan->panel;
    int64_t elements = gx_max(1, (int64_t)gx_store_max_tile_bytes(run->ctx->store) / element);
    int64_t wide = w;
    while (wide > 1 && wide > elements / gx_max(1, gx_min(wide, plan->m))) {
        wide = wide % 2 == 0 ? wide / 2 : 1;
    }
    int64_t high = gx_max(1, elements / wide);
    if (high < plan->m && high > w) {
        high = high / w * w;
    }
    plan->tile_cols = gx_max(1, gx_min(wide, plan->n));
    plan->tile_rows = gx_max(1, gx_min(high, plan->m));
    double tiles = (double)gx_ceil_div(plan->m, plan->tile_rows) *
                   (double)gx_ceil_div(plan->n, plan->tile_cols);
    if (tiles > TILES_MAX) {
        gx_run_failf(run, GX_TOOBIG,
                     "a matrix of %lldx%lld %s has more than 2^32 - 1 tiles of %lld bytes: raise "
                     "it with gx_config('tile_bytes', ...)",
                     (long long)plan->m, (long long)plan->n, gx_number_name(plan->dtype),
                     (long long)(elements * element));
    }
}

static void set_width(gx_run *run, gx_lu_plan *plan, int64_t width)
{
    plan->panel = gx_max(1, gx_min(width, plan->n));
    choose_tiles(run, plan);
}

static void choose_width(gx_run *run, gx_lu_plan *plan)
{
    size_t column_bytes = (size_t)gx_max(1, plan->m) * gx_number_bytes(plan->dtype);
    int64_t width = WIDTH;
    if (gx_plan_is_fixed(run)) {
        width /= 2;
        while (width > 1 && (size_t)width * column_bytes > FIXED_PANEL_BYTES) {
            width /= 2;
        }
        set_width(run, plan, width);
        return;
    }
    // Narrower panels are more calls, whose list takes memory too: where no width leaves enough
    // panels, the one that needs the least.
    int64_t best = width;
    size_t least = SIZE_MAX;
    for (; width > 0; width /= 2) {
        set_width(run, plan, width);
        int64_t wanted =
            gx_min(width > LEAST_WIDTH ? ENOUGH_PANELS : 3, gx_ceil_div(plan->n, plan->panel));
        size_t need = overhead_bytes(run, plan) + 2 * panel_bytes(plan);
        bool is_enough = count_slots(run, plan) >= wanted;
        if (is_enough || need < least) {
            best = width;
            least = need;
        }
        if (is_enough) {
            break;
        }
    }
    set_width(run, plan, best);
}

/* The group, now that the panel is known. */
static void choose_group(gx_run *run, gx_lu_plan *plan)
{
    int64_t panels = gx_max(1, gx_ceil_div(plan->n, plan->panel));
    int64_t slots = count_slots(run, plan);
    plan->is_in_memory = slots >= panels;
    // One place for the panel that passes by, one for the next.
    plan->group = plan->is_in_memory ? 1 : gx_max(1, slots - 2);
    plan->lookahead = plan->is_in_memory ? INT32_MAX / 2 : CALLS_EACH * (plan->group + 1);
}

void gx_plan_lu(gx_run *run, int64_t m, int64_t n, gx_number dtype, gx_lu_plan *plan)
{
    *plan = (gx_lu_plan){.m = m, .n = n, .dtype = dtype, .cut = gx_plan_cut(run)};
    choose_width(run, plan);
    choose_group(run, plan);
}

void gx_plan_lu_again(gx_run *run, const gx_aux *aux, const gx_sink *F, gx_lu_plan *plan)
{
    *plan = (gx_lu_plan){.m = F->rows,
                         .n = F->cols,
                         .dtype = F->number,
                         .panel = aux->panel,
                         .tile_rows = F->tile_rows,
                         .tile_cols = F->tile_cols,
                         .cut = gx_plan_cut(run)};
    choose_group(run, plan);
}
