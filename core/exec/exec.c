/*
** What running a program takes on any device: making the schedule, helper threads, reading a block
** from its source, counting.  exec_host.c runs it on the processors, exec_device.c on an
** accelerator with memory of its own; place.c decides which.
*/
#include "../device/fleet.h"
#include "exec_int.h"
#include "predict.h"

#include <assert.h>
#include <string.h>

gx_code gx_exec_read(gx_run *run, const gx_opnd *op, const gx_load *item, int64_t i, int64_t m,
                     int64_t j, int64_t n, gx_dtype as, void *dst, gx_reader *reader, gx_err *err)
{
    gx_extent shape = gx_block_shape(op, item->block);
    gx_mat spilled;
    const gx_mat *source = op->source;
    assert(i >= 0 && m >= 0 && i + m <= shape.m && j >= 0 && n >= 0 && j + n <= shape.n);
    assert(item->is_spilled ? op->sink != NULL : source != NULL);
    if (item->is_spilled) {
        gx_sink_source(op->sink, "result", &spilled);
        source = &spilled;
    }
    int64_t i0 = shape.i0 + i, j0 = shape.j0 + j;
    int64_t rows = gx_max(0, gx_min(m, source->rows - i0));
    int64_t cols = gx_max(0, gx_min(n, source->cols - j0));
    if (rows < m || cols < n) {
        memset(dst, 0, (size_t)(m * n) * gx_dtype_bytes(as));
    }
    int64_t skip = gx_min(rows, gx_max(0, gx_load_skip(item, &shape) - i));
    return rows == skip || cols == 0
               ? GX_OK
               : gx_mat_read_as(run, source, reader, i0 + skip, j0, rows - skip, cols, as,
                                gx_dtype_at(dst, as, m, skip, 0), m, err);
}

bool gx_exec_stream(gx_prog *prog, const gx_schedule *plan, const bool *is_there, gx_helper_fn fn,
                    void *arg, gx_stream **stream)
{
    const double LEAST = 4 << 20; // the caller reads this while a helper's connection is opened
    gx_run *run = prog->run;
    const gx_mat *sources[GX_PROG_OPERANDS];
    int count = 0;
    int64_t loads = 0;
    double bytes = 0;
    for (int k = 0; k < prog->operands; k++) {
        if (prog->operand[k].source != NULL) {
            sources[count++] = prog->operand[k].source;
        }
    }
    for (int64_t k = 0; k < plan->load_count; k++) {
        const gx_load *item = &plan->loads[k];
        if (item->from == GX_NO_SLOT && (is_there == NULL || !is_there[k])) {
            bytes += (double)gx_block_shape(&prog->operand[item->operand], item->block).bytes;
            loads++;
        }
    }
    *stream = NULL;
    // A team of threads would take longer to start than what is kept to multiply.
    bool is_little = !prog->is_on_device && bytes < LEAST;
    if (loads == 0 || is_little) {
        return false;
    }
    int wanted = (int)gx_exec_helpers(prog, loads, bytes);
    gx_stream_start(run, sources, count, wanted, bytes, fn, arg, stream);
    bool is_exclusive = false;
    for (int k = 0; k < prog->operands; k++) {
        const gx_sink *sink = prog->operand[k].sink;
        is_exclusive |= sink != NULL && sink->is_stored &&
                        gx_stream_excludes_writer(*stream, sink->meta.schema);
    }
    return is_exclusive;
}

/*
** The schedule itself takes memory, and so does a byte for each of its loads (exec_host.c): with
** what they leave, fewer slots may fit on the host.
*/
int64_t gx_exec_schedule(gx_prog *prog, gx_schedule *plan)
{
    gx_run *run = prog->run;
    prog->is_on_device = false;
    int64_t slots = gx_prog_slots(prog);
    while (gx_ok(run)) {
        gx_slots all = gx_slots_of(slots);
        if (gx_schedule_make(prog, &all, plan) != GX_OK) {
            gx_run_failf(run, GX_BUDGET,
                         "%lld blocks of %zu bytes do not hold the intermediate results: raise "
                         "memory_limit with gx_config('memory_limit', ...)",
                         (long long)slots, prog->slot_bytes);
            break; // or the run has failed, and this is not said
        }
        gx_err err = {.code = GX_OK};
        size_t states = (size_t)plan->load_count;
        if (gx_mem_reserve(run->ctx->mem, states, "the schedule of blocks", &err) != GX_OK) {
            gx_run_fail(run, &err);
            break;
        }
        int64_t left = gx_prog_slots(prog);
        gx_mem_return(run->ctx->mem, states);
        if (left >= slots || !gx_ok(run)) {
            break;
        }
        gx_schedule_clear(prog, plan);
        slots = left;
    }
    return gx_ok(run) ? slots : 0;
}

void gx_exec_count(gx_prog *prog, const gx_slots *slots, const gx_schedule *plan,
                   const gx_fleet *fleet, const bool *is_there)
{
    gx_run *run = prog->run;
    gx_stats *stats = &run->ctx->stats;
    gx_terms terms;
    gx_growth growth[GX_DEVICES_MOST] = {{0}};
    for (int d = 0; d < fleet->count; d++) {
        growth[d] = *gx_pool_grown(fleet->accel[d]->pool);
    }
    gx_predict_schedule(prog, slots, plan, fleet, is_there, growth, &terms);
    gx_predict_expect(run, &terms, fleet->count > 0);
    gx_stats_add(stats, GX_STAT_CACHE_HITS, plan->hits);
    gx_stats_add(stats, GX_STAT_CACHE_MISSES, plan->load_count);
    gx_stats_add(stats, GX_STAT_SPILLS, plan->spills);
    gx_run_progress(run, 1.0);
}
