/*
** What a program finds on the device: blocks and buffers of earlier calls, and how it is cut into
** pieces to be copied.
**
** The executor claims them (exec_device.c) and the planner asks for them beforehand: a block that
** is there is neither read nor copied.  Both go by the same key: database and its state, matrix,
** generation, rectangle, dtype (pool.h).  Page-locking and device memory take their time, so what
** the pool has not is foreseen, too: slots to the buffer, staging buffers as the blocks' bytes come
** in pieces, whose number the executor then counts exactly.
*/
#include "exec_device.h"

#include <math.h>

/* Pieces of little work are smaller than GX_PIECE_BYTES, but not smaller than this. */
static const size_t PIECE_LEAST = (size_t)1 << 20;

void gx_exec_keys(const gx_prog *prog, gx_block_key whole[GX_PROG_OPERANDS])
{
    for (int k = 0; k < prog->operands; k++) {
        const gx_opnd *op = &prog->operand[k];
        const gx_mat *source = op->source;
        bool is_whole = source != NULL && source->rows == op->rows && source->cols == op->cols;
        whole[k] = gx_devcall_key(prog->run, is_whole ? source : NULL, 0, op->rows, op->dtype);
    }
}

gx_block_key gx_exec_block_key(const gx_prog *prog, const gx_block_key whole[], const gx_load *item)
{
    gx_block_key key = whole[item->operand];
    gx_extent shape = gx_block_shape(&prog->operand[item->operand], item->block);
    key.file = item->is_spilled ? 0 : key.file;
    key.i0 = shape.i0;
    key.j0 = shape.j0;
    key.m = shape.m;
    key.n = shape.n;
    return key;
}

bool *gx_exec_find_kept(const gx_prog *prog, const gx_fleet *fleet, const gx_schedule *plan)
{
    void *memory = NULL;
    int kept = 0;
    for (int d = 0; d < fleet->count; d++) {
        kept += gx_pool_kept(fleet->accel[d]->pool);
    }
    if (kept == 0 || !plan->is_roomy || plan->load_count == 0 ||
        gx_mem_calloc(prog->run->ctx->mem, (size_t)plan->load_count, "the schedule of blocks",
                      &memory, NULL) != GX_OK) {
        return NULL;
    }
    bool *is_there = memory;
    gx_block_key whole[GX_PROG_OPERANDS];
    gx_exec_keys(prog, whole);
    for (int64_t k = 0; k < plan->load_count; k++) {
        const gx_load *item = &plan->loads[k];
        gx_block_key key = gx_exec_block_key(prog, whole, item);
        is_there[k] = key.file != 0 && gx_pool_holds(fleet->accel[item->device]->pool, &key,
                                                     gx_slot_bytes(prog, plan, item->slot));
    }
    return is_there;
}

// Pieces and buffers ------------------------------------------------------------------------------

static double load_bytes(const gx_prog *prog, const gx_load *item)
{
    return (double)gx_block_shape(&prog->operand[item->operand], item->block).bytes;
}

/*
** On a device helpers share the blocks, of which there may be few; eight fill a link from memory,
** and who reads little is not worth being started.  None where the setting 'readers' is 0.
*/
int64_t gx_exec_helpers(const gx_prog *prog, int64_t loads, double bytes)
{
    const double WORTH_ONE = 8 << 20, WORTH_MORE = 64 << 20;
    const int64_t FEW = 8;
    if (prog->is_on_device) {
        loads = gx_max(loads, gx_min(FEW, (int64_t)(bytes / WORTH_ONE)));
        loads = gx_max(loads, (int64_t)(bytes / WORTH_MORE));
    }
    return gx_min(gx_exec_readers(prog), loads);
}

/* What is to be read, where nothing is on the device yet. */
static double read_bytes(const gx_prog *prog, const gx_schedule *plan)
{
    double bytes = 0;
    for (int64_t k = 0; k < plan->load_count; k++) {
        bytes += plan->loads[k].from == GX_NO_SLOT ? load_bytes(prog, &plan->loads[k]) : 0;
    }
    return bytes;
}

/*
** Large enough for the full speed of a copy, small enough that reading, copying up, computing,
** copying down and writing are all under way for most of the time.
*/
size_t gx_exec_piece(const gx_prog *prog, const gx_schedule *plan, bool is_down)
{
    const double PIECES = 64;
    double share = read_bytes(prog, plan) / PIECES;
    size_t size = PIECE_LEAST;
    size_t most = is_down ? GX_PIECE_BYTES : GX_PIECE_UP_BYTES;
    while (size < most && (double)size < share) {
        size *= 2;
    }
    return size;
}

int64_t gx_exec_readers(const gx_prog *prog)
{
    const int64_t *setting = prog->run->ctx->config.number;
    int64_t most = gx_max(setting[GX_SET_READERS], setting[GX_SET_THREADS] / 4 * 3);
    return gx_min(setting[GX_SET_READERS] * prog->devices, most);
}

int gx_exec_stages_up(const gx_prog *prog, const gx_schedule *plan, int64_t pieces)
{
    int64_t most = GX_XD_STAGES - GX_XD_STAGES_DOWN;
    int64_t helpers = gx_exec_helpers(prog, plan->load_count, read_bytes(prog, plan));
    int64_t wanted = gx_max(4, 2 * helpers);
    return (int)gx_min(gx_min(wanted, most), pieces);
}

/*
** Pieces come down in order, a block's behind each other: several devices come down at once when
** there are buffers for a block of each.
*/
int gx_exec_stages_down(const gx_prog *prog, int64_t pieces)
{
    int64_t wanted = prog->devices == 1 ? 16 : gx_min(16 * prog->devices, GX_XD_STAGES_DOWN);
    return (int)gx_min(wanted, pieces);
}

/* Pieces each way, and the bytes of the largest. */
static void foresee_pieces(const gx_prog *prog, const gx_schedule *plan, const bool *is_there,
                           double pieces[2], size_t bytes[2])
{
    double up = (double)gx_exec_piece(prog, plan, false);
    double down = (double)gx_exec_piece(prog, plan, true);
    for (int64_t k = 0; k < plan->load_count; k++) {
        double block = load_bytes(prog, &plan->loads[k]);
        bool is_read = plan->loads[k].from == GX_NO_SLOT && (is_there == NULL || !is_there[k]);
        pieces[0] += is_read ? ceil(block / up) : 0;
        bytes[0] = (size_t)fmax((double)bytes[0], is_read ? fmin(block, up) : 0);
    }
    for (int64_t k = 0; k < plan->flush_count; k++) {
        const gx_opnd *op = &prog->operand[plan->flushes[k].operand];
        double block = (double)gx_block_shape(op, plan->flushes[k].block).bytes;
        double tile = op->sink->is_stored ? (double)(op->sink->tile_rows * op->sink->tile_cols) *
                                                (double)gx_number_bytes(op->dtype)
                                          : 0; // a stored one goes down in whole tiles
        double each = fmin(block, fmax(down, tile));
        pieces[1] += ceil(block / each);
        bytes[1] = (size_t)fmax((double)bytes[1], each);
    }
}

/* Slots of sizes of their own, but those of blocks that are there. */
static void foresee_own(const gx_prog *prog, const gx_fleet *fleet, const gx_schedule *plan,
                        const bool *is_there, gx_growth *growth)
{
    enum { SIZES = 4 * GX_PROG_OPERANDS }; // an operand's: inside, at its edges, in its corner
    struct {
        size_t bytes;
        int64_t count;
    } of[SIZES];
    int sizes = 0;
    int64_t loads = is_there == NULL ? 0 : plan->load_count;
    for (int64_t k = 0; k < plan->used[0] + loads; k++) {
        bool is_slot = k < plan->used[0];
        int64_t load = k - plan->used[0];
        int32_t slot = is_slot ? (int32_t)k : plan->loads[load].slot;
        size_t bytes = gx_pool_rounded(gx_slot_bytes(prog, plan, slot));
        int at = 0;
        while (at < sizes && of[at].bytes != bytes) {
            at++;
        }
        if (at == sizes) {
            of[sizes++].bytes = bytes;
            of[at].count = 0;
        }
        of[at].count += is_slot ? 1 : -(int64_t)is_there[load];
    }
    for (int k = 0; k < sizes; k++) {
        gx_pool_foresee(fleet->accel[0]->pool, of[k].bytes, of[k].count, growth);
    }
}

void gx_exec_foresee(const gx_prog *prog, const gx_fleet *fleet, const gx_schedule *plan,
                     const bool *is_there, gx_growth growth[])
{
    const double many = 1 << 20;
    double pieces[2] = {0, 0};
    size_t bytes[2] = {0, 0};
    int64_t kept[GX_DEVICES_MOST] = {0};
    foresee_pieces(prog, plan, is_there, pieces, bytes);
    int64_t count[2] = {gx_exec_stages_up(prog, plan, (int64_t)fmin(pieces[0], many)),
                        gx_exec_stages_down(prog, (int64_t)fmin(pieces[1], many))};
    size_t budget = (size_t)prog->run->ctx->config.number[GX_SET_PINNING_BUDGET];
    for (int64_t k = 0; k < plan->load_count && is_there != NULL; k++) {
        kept[plan->loads[k].device] += is_there[k];
    }
    for (int d = 0; d < fleet->count; d++) {
        growth[d] = (gx_growth){0};
        if (plan->room == NULL) {
            gx_pool_foresee(fleet->accel[d]->pool, prog->slot_bytes, plan->used[d] - kept[d],
                            &growth[d]);
        } else {
            foresee_own(prog, fleet, plan, is_there, &growth[d]);
        }
    }
    gx_pool_foresee_stages(fleet->accel[0]->pool, bytes, count, budget, &growth[0]);
}
