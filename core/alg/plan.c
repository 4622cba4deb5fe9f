/*
** The planner: see plan.h.
**
** Product.  A call multiplies one block of A by one of B into one of C.  Blocks are whole tiles of
** C, at least about BLOCK_EDGE on a side, wider where memory allows (each thread then gets a piece
** of full speed).  A rectangle of super_m x super_n blocks of C stays in memory while A and B pass
** by; it is chosen by counting what would be read,
**
**     reads = |A| * ceil(grid_n / super_n) + |B| * ceil(grid_m / super_m),
**
** under super_m super_n + min(super_m, super_n) + 1 <= slots, less those of what comes after the
** product; among equals the smallest rectangle, because what is left keeps panels alive from one
** rectangle to the next (k runs back and forth).
**
** A product with few columns (or rows) on a device: memory bounds it, so the blocks of the large
** operand are whole tiles, each read and copied once and used for all columns, and so large that
** a launch costs little beside one.  Where one device holds the operand, and may keep it for the
** next product, they are strips as long as it is: three, and a short one whose part of the result
** is all that comes down when everything is computed.  Else a sixteenth of the operand, several
** times as long (along k) as high.  How many columns there are changes nothing, so that what is
** kept serves all.  C has strips as high as they are; where its own tiles are higher, the strips
** are copied together at the end.
**
** Deterministic mode: nothing above may depend on the budget or on threads, and need not: blocks
** are one tile of C, k blocks follow from the tile shapes, k always ascends, pieces have a fixed
** size.
*/
#include "plan.h"

#include "../device/fleet.h"

#include <math.h>
#include <string.h>

/* Edge of a block in elements: gemm reaches its full rate from here (docs/cost-model.md). */
static const int64_t BLOCK_EDGE = 1024;

/* A cache of fewer blocks than this has too little freedom: smaller blocks then. */
enum { ENOUGH_SLOTS = 24 };

/* Deterministic pieces: the largest that every thread count can share well. */
static const int64_t FIXED_PIECE = 512;

// What the planners share -------------------------------------------------------------------------

bool gx_plan_is_fixed(const gx_run *run)
{
    return run->ctx->config.number[GX_SET_DETERMINISTIC] != 0;
}

gx_cut gx_plan_cut(const gx_run *run)
{
    gx_cut fixed = {.m = FIXED_PIECE, .n = FIXED_PIECE, .k = FIXED_PIECE, .is_fixed = true};
    return gx_plan_is_fixed(run) ? fixed : (gx_cut){0};
}

int64_t gx_plan_lookahead(const gx_run *run)
{
    return gx_max(4, 2 * run->ctx->config.number[GX_SET_READERS]);
}

size_t gx_plan_memory(const gx_run *run)
{
    return run->target != NULL ? run->target_bytes : gx_mem_available(run->ctx->mem);
}

size_t gx_plan_reserve(const gx_run *run, size_t host_bytes)
{
    return run->target != NULL ? run->target_bytes / 32 : host_bytes;
}

int64_t gx_plan_slots(const gx_run *run, size_t block_bytes, size_t kept)
{
    size_t available = gx_plan_memory(run);
    return available > kept ? (int64_t)((available - kept) / block_bytes) : 0;
}

/* One kernel call at a time: from DEVICE_EDGE on a device computes at its full rate. */
static int64_t device_edge(int64_t most)
{
    const int64_t DEVICE_EDGE = 4096, SMALL_EDGE = 1024, ALONG = 4;
    int64_t edge = DEVICE_EDGE;
    while (edge > SMALL_EDGE && edge * ALONG > most) {
        edge /= 2;
    }
    return edge;
}

int64_t gx_plan_edge(const gx_run *run, size_t element, int64_t most, int64_t *wide)
{
    int64_t threads = run->ctx->config.number[GX_SET_THREADS];
    bool is_here = run->target == NULL;
    int64_t high = BLOCK_EDGE * gx_max(1, (int64_t)lround(sqrt((double)threads / 8.0)));
    high = is_here ? high : device_edge(most);
    int64_t cols = is_here && wide != NULL ? BLOCK_EDGE * gx_min(4, 2 * threads) : high;
    while (cols > 16 && gx_plan_memory(run) / ((size_t)(high * cols) * element) < ENOUGH_SLOTS) {
        if (cols <= high) {
            high /= 2;
        }
        cols = gx_max(cols / 2, high);
    }
    if (wide != NULL) {
        *wide = cols;
    }
    return high;
}

int64_t gx_plan_whole_tiles(int64_t edge, int64_t tile, int64_t side)
{
    tile = gx_max(1, tile);
    return gx_min(gx_max(1, edge / tile), gx_ceil_div(gx_max(1, side), tile)) * tile;
}

// Products ----------------------------------------------------------------------------------------

static bool is_same_source(const gx_mat *A, const gx_mat *B)
{
    if (A->kind != B->kind || A->rows != B->rows || A->cols != B->cols || A->number != B->number) {
        return false;
    }
    if (A->kind == GX_MAT_COMPOSITE && A->meta.id == 0) { // a program's
        return A->leaf == B->leaf;
    }
    if (gx_mat_is_tiled(A)) {
        return A->meta.id == B->meta.id && A->meta.generation == B->meta.generation &&
               strcmp(A->meta.schema, B->meta.schema) == 0;
    }
    if (A->kind == GX_MAT_CENTRED) {
        return A->base == B->base && A->shift == B->shift && A->rest == B->rest &&
               A->scale == B->scale && A->has_ones == B->has_ones &&
               A->is_conjugated == B->is_conjugated;
    }
    return A->kind == GX_MAT_VALUE && A->data == B->data && A->ld == B->ld;
}

bool gx_plan_is_gram(const gx_matmul_args *args, gx_number dtype, bool *is_hermitian)
{
    *is_hermitian = false;
    if (dtype == GX_M31) {
        return false; // there is no kernel for half of it
    }
    bool is_beta_zero = args->beta.re == 0 && args->beta.im == 0;
    bool is_one_plain = (args->transa == GX_NO_TRANS) != (args->transb == GX_NO_TRANS);
    if (!is_beta_zero || !is_one_plain || !is_same_source(args->A, args->B)) {
        return false;
    }
    gx_trans trans = args->transa == GX_NO_TRANS ? args->transb : args->transa;
    *is_hermitian = gx_number_is_complex(dtype) && trans == GX_CONJ_TRANS;
    return !*is_hermitian || args->alpha.im == 0;
}

/* How far op(X) reaches along k in one of X's tiles. */
static int64_t k_piece_of(const gx_mat *X, bool is_left, gx_trans trans)
{
    bool is_cols = is_left == (trans == GX_NO_TRANS);
    return gx_max(1, is_cols ? X->tile_cols : X->tile_rows);
}

/* Whole tiles along a side that is shared out among so many, as evenly as that goes. */
static int64_t share_tiles(int64_t size, int64_t tile, int64_t count)
{
    int64_t tiles = gx_ceil_div(size, tile);
    return gx_ceil_div(tiles, gx_max(1, gx_min(count, tiles))) * tile;
}

/* The large operand of a product with few columns, or rows, p x q as the result sees it. */
typedef struct strips {
    int64_t p, q;
    int64_t along_p, along_q; /* of its tiles                 */
    int64_t block_p, block_q;
    bool is_held; /* one device has all of them at once   */
} strips;

/* Over how many devices the program might be spread. */
static int64_t most_devices(const gx_run *run)
{
    bool is_listed;
    bool is_wanted = gx_fleet_is_wanted(run->ctx, &is_listed);
    int64_t asked = run->ctx->config.number[GX_SET_DEVICES];
    int64_t count = gx_max(1, run->target->backend->count());
    return !is_wanted ? 1 : asked > 0 ? gx_min(asked, count) : count;
}

/*
** Where one device holds all of it, LONG strips for each that may have a share, and what is left,
** at least a LAST of it.  false: the strips have to come and go, or are too short to be shared.
*/
static bool choose_long_strips(const gx_run *run, int64_t element, strips *s)
{
    const int64_t LONG = 3, LAST = 16;
    const double BESIDE = 1.5; // with x, C, workspace, and what buffers are rounded to
    double bytes = BESIDE * (double)element * (double)s->p * (double)s->q;
    int64_t devices = most_devices(run), last = s->p / (LAST * devices);
    if (last < s->along_p || bytes > (double)gx_plan_memory(run)) {
        return false;
    }
    s->block_p = (s->p - last) / (LONG * devices * s->along_p) * s->along_p;
    s->block_q = s->q;
    s->is_held = true;
    return true;
}

/* Strips of `part` elements, of several blocks along k where that is longer than they are high. */
static void choose_equal_strips(int64_t part, int64_t room, strips *s)
{
    int64_t side_q = gx_min(s->q, 2 * (int64_t)sqrt((double)part) + 1);
    s->block_q = share_tiles(s->q, s->along_q, gx_ceil_div(s->q, side_q));
    s->block_p = share_tiles(s->p, s->along_p, gx_ceil_div(s->p, gx_max(1, part / s->block_q)));
    if (s->block_p * s->block_q > room) {
        s->block_q = gx_plan_whole_tiles(side_q, s->along_q, s->q);
        s->block_p = gx_plan_whole_tiles(part / s->block_q, s->along_p, s->p);
    }
}

/* Few columns, or rows, on a device.  false: not few, or strips and C's tiles do not meet. */
static bool choose_strips(const gx_run *run, const gx_matmul_args *args, int64_t tile_m,
                          int64_t tile_n, gx_matmul_plan *plan)
{
    const int64_t FEW = 256, RATIO = 16, PARTS = 16, SEVERAL = 4;
    const int64_t LEAST_BYTES = 128 << 20, MOST_BYTES = 1 << 30;
    bool is_right = plan->m < plan->n; // the large operand is B
    const gx_mat *S = is_right ? args->B : args->A;
    bool is_plain = (is_right ? args->transb : args->transa) == GX_NO_TRANS;
    strips s = {.p = gx_max(plan->m, plan->n), .q = plan->k};
    int64_t few = gx_min(plan->m, plan->n), all;
    if (few > FEW || few * RATIO > gx_min(s.p, s.q) || plan->is_syrk ||
        !gx_mul_i64(s.p, s.q, &all)) {
        return false;
    }
    bool has_tiles = S->kind != GX_MAT_VALUE, is_down = is_plain != is_right;
    s.along_p = !has_tiles ? 1 : gx_max(1, is_down ? S->tile_rows : S->tile_cols);
    s.along_q = !has_tiles ? 1 : gx_max(1, is_down ? S->tile_cols : S->tile_rows);
    int64_t element = (int64_t)gx_number_bytes(plan->dtype);
    int64_t room = (int64_t)(gx_plan_memory(run) / (size_t)(ENOUGH_SLOTS * element));
    int64_t part = gx_max(LEAST_BYTES / element, gx_min(MOST_BYTES / element, all / PARTS));
    part = gx_max(1, gx_min(part, room));
    if (all / SEVERAL < part || !choose_long_strips(run, element, &s)) {
        choose_equal_strips(part, room, &s);
    }
    int64_t tile = gx_max(1, is_right ? tile_n : tile_m);
    plan->is_gathered = s.block_p % tile != 0 && s.block_p < s.p;
    if (plan->is_gathered && few * s.p > room) {
        plan->is_gathered = false;
        return false;
    }
    plan->block_m = is_right ? few : s.block_p;
    plan->block_n = is_right ? s.block_p : few;
    plan->block_k = gx_min(s.block_q, s.q);
    plan->is_held = s.is_held;
    return true;
}

void gx_plan_matmul_result(const gx_sink *C, gx_matmul_plan *plan)
{
    const double SMALL = 1 << 20;
    bool is_in_memory = !C->is_stored && C->value.data != NULL;
    double bytes = (double)C->rows * (double)C->cols * (double)gx_number_bytes(C->number);
    plan->is_gathered = plan->is_gathered && !(is_in_memory && bytes > SMALL);
}

static void choose_blocks(gx_run *run, const gx_matmul_args *args, int64_t tile_m, int64_t tile_n,
                          gx_matmul_plan *plan)
{
    bool is_fixed = gx_plan_is_fixed(run);
    if (!is_fixed && run->target != NULL && choose_strips(run, args, tile_m, tile_n, plan)) {
        return;
    }
    size_t element = gx_number_bytes(plan->dtype);
    int64_t edge_m = 1, edge_n = 1;
    if (!is_fixed) {
        edge_m = gx_plan_edge(run, element, gx_max(plan->m, plan->n), &edge_n);
    }
    plan->block_m = gx_plan_whole_tiles(edge_m, tile_m, plan->m);
    plan->block_n = gx_plan_whole_tiles(edge_n, tile_n, plan->n);
    if (plan->is_syrk) {
        plan->block_m = plan->block_n = gx_max(plan->block_m, plan->block_n);
    }
    // Along k: what the operands' tiles offer, within the bytes of the largest tile or block.
    int64_t ka = k_piece_of(args->A, true, args->transa);
    int64_t kb = k_piece_of(args->B, false, args->transb);
    int64_t most =
        gx_max(plan->block_m * plan->block_n, gx_max(args->A->tile_rows * args->A->tile_cols,
                                                     args->B->tile_rows * args->B->tile_cols));
    if (!is_fixed) {
        int64_t third = (int64_t)(gx_plan_memory(run) / (4 * element));
        most = gx_max(plan->block_m * plan->block_n, gx_min(most, third));
    }
    int64_t limit = gx_max(1, most / gx_max(plan->block_m, plan->block_n));
    int64_t piece = gx_plan_whole_tiles(edge_m, gx_max(ka, kb), plan->k);
    if (piece > limit) {
        piece = limit >= 64 ? limit / 64 * 64 : limit;
    }
    plan->block_k = gx_max(1, gx_min(piece, plan->k));
    plan->is_snake = !is_fixed;
    plan->cut = gx_plan_cut(run);
}

/* Bytes read with such a rectangle, if nothing survived from one rectangle to the next. */
static double reads_of(const gx_matmul_plan *plan, int64_t super_m, int64_t super_n)
{
    double element = (double)gx_number_bytes(plan->dtype);
    int64_t grid_m = gx_ceil_div(plan->m, plan->block_m),
            grid_n = gx_ceil_div(plan->n, plan->block_n);
    return element * (double)plan->k *
           ((double)plan->m * (double)gx_ceil_div(grid_n, super_n) +
            (double)plan->n * (double)gx_ceil_div(grid_m, super_m));
}

int64_t gx_plan_matmul_calls(const gx_matmul_plan *plan)
{
    int64_t grid_m = gx_ceil_div(plan->m, plan->block_m),
            grid_n = gx_ceil_div(plan->n, plan->block_n);
    int64_t grid_k = gx_max(1, gx_ceil_div(plan->k, plan->block_k));
    int64_t half = plan->is_syrk ? (grid_m * (grid_m + 1)) / 2 : grid_m * grid_n;
    return half * grid_k + (plan->is_syrk || plan->is_gathered ? half : 0) +
           (plan->joined > 0 ? grid_m * grid_n : 0);
}

/*
** Blocks that the cache will hold beside the program itself; at least the three that a call needs.
*/
static int64_t count_slots(gx_run *run, const gx_matmul_args *args, const gx_matmul_plan *plan)
{
    int64_t grid_m = gx_ceil_div(plan->m, plan->block_m),
            grid_n = gx_ceil_div(plan->n, plan->block_n);
    int64_t grid_k = gx_ceil_div(plan->k, plan->block_k);
    int64_t m = gx_min(plan->block_m, plan->m), n = gx_min(plan->block_n, plan->n);
    int64_t largest = gx_max(1, gx_max(m * n, plan->block_k * gx_max(m, n)));
    size_t slot_bytes = (size_t)largest * gx_number_bytes(plan->dtype);
    size_t overhead = gx_prog_overhead(gx_plan_matmul_calls(plan),
                                       grid_m * grid_k + grid_k * grid_n + grid_m * grid_n);
    if (args->after != NULL) {
        overhead += gx_prog_fused_overhead(grid_m * grid_n, args->after->f);
    }
    return gx_max(3, gx_plan_slots(run, slot_bytes, run->target != NULL ? 0 : overhead));
}

static void choose_rectangle(gx_matmul_plan *plan, int64_t slots)
{
    int64_t grid_m = gx_max(1, gx_ceil_div(plan->m, plan->block_m));
    int64_t grid_n = gx_max(1, gx_ceil_div(plan->n, plan->block_n));
    plan->super_m = plan->super_n = 1;
    slots = gx_max(3, slots - gx_max(0, plan->joined - 1));
    double best = reads_of(plan, 1, 1);
    for (int64_t p = 1; p <= grid_m && p < slots; p++) {
        // The widest that fits, then the narrowest that reads no more.
        int64_t q = gx_min(grid_n, (slots - 1) / p);
        while (q > 0 && p * q + gx_min(p, q) + 1 > slots) {
            q--;
        }
        if (q == 0) {
            break;
        }
        q = gx_ceil_div(grid_n, gx_ceil_div(grid_n, q));
        double reads = reads_of(plan, p, q);
        bool is_equal = reads == best;
        if (reads < best || (is_equal && p * q < plan->super_m * plan->super_n)) {
            best = reads;
            plan->super_m = p;
            plan->super_n = q;
        }
    }
}

/*
** Everything fits: then each block of C is finished before the next is begun, so that it is written
** while that one computes, and the operands are loaded as early as they can be.
*/
static bool fits(const gx_matmul_plan *plan, int64_t slots)
{
    int64_t grid_m = gx_ceil_div(plan->m, plan->block_m);
    int64_t grid_n = gx_ceil_div(plan->n, plan->block_n);
    int64_t grid_k = gx_ceil_div(plan->k, plan->block_k);
    double results = (double)gx_max(1, plan->joined) * (double)(grid_m * grid_n);
    return (double)(grid_m * grid_k + grid_k * grid_n) + results <= (double)slots;
}

void gx_plan_matmul(gx_run *run, const gx_matmul_args *args, int64_t tile_m, int64_t tile_n,
                    gx_matmul_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    const gx_mat *A = args->A, *B = args->B;
    plan->m = args->transa == GX_NO_TRANS ? A->rows : A->cols;
    plan->k = args->transa == GX_NO_TRANS ? A->cols : A->rows;
    plan->n = args->transb == GX_NO_TRANS ? B->cols : B->rows;
    plan->dtype = gx_number_promote(A->number, B->number);
    if (args->C0 != NULL) {
        plan->dtype = gx_number_promote(plan->dtype, args->C0->number);
    }
    if (gx_number_is_complex(plan->dtype) == false && (args->alpha.im != 0 || args->beta.im != 0)) {
        plan->dtype = gx_number_promote(plan->dtype, GX_C64);
    }
    plan->joined = args->after == NULL ? 0 : args->after->f->inputs;
    if (tile_m == tile_n) {
        plan->is_syrk = gx_plan_is_gram(args, plan->dtype, &plan->is_hermitian);
    }
    choose_blocks(run, args, tile_m, tile_n, plan);
    int64_t slots = count_slots(run, args, plan);
    if (plan->is_held || fits(plan, slots)) {
        plan->super_m = plan->super_n = 1;
        plan->lookahead = INT32_MAX / 2;
    } else {
        choose_rectangle(plan, slots);
        plan->lookahead = gx_plan_lookahead(run);
    }
}
