/*
** Products of a stored or given sparse matrix with a dense one, from sources to a sink: what feeds
** the engine of spmm.c.
**
** Rounds of as many lines as memory holds.  In each, the lines of the dense operand are brought by
** a streamed pass, the engine runs, and what is to be stored is written.
**
** What has been read stays: the panels of S as one (csr_matrix.h), and, where all lines are one
** round, the lines of D as the engine wants them.  They stand by in memory that would stand idle
** anyhow, and while neither matrix nor the file changes the next product reads nothing.
*/
#include "spmm_int.h"

#include "../exec/pass.h"
#include "csr_matrix.h"
#include "spmm_device.h"

#include <string.h>

enum { LOAD_BYTES = 4 << 20 /* of L, by one thread, where nothing is turned */ };

typedef gx_spmm_engine engine;

/* A product on its way. */
typedef struct product {
    engine x;
    const gx_mat *dense;
    gx_trans op;
    gx_mat D;         /* op(dense), as a view                                */
    bool is_left;     /* S is                                                */
    int64_t lines;    /* of R: columns of op(D) where S is on the left, else rows */
    int64_t round;    /* lines at a time                                     */
    gx_sink *sink;
    bool is_stored;   /* the result is                                       */
    gx_sparse_held held;
    void *L, *block;  /* what it has allocated                               */
    bool has_lines;   /* all of D is in L                                    */
    bool is_kept;     /* L is, under the key, for a later call               */
    gx_mem_key key;
    int64_t l0;       /* the round's first line                              */
    int64_t width;    /* of what is loaded at once: columns of L             */
} product;

/* Are lines of D in memory as they are wanted? */
static bool is_in_place(const product *p)
{
    const gx_mat *D = &p->D;
    return (!p->is_left || p->x.is_columnwise) && D->kind == GX_MAT_VALUE &&
           D->number == p->x.dtype;
}

/* One stretch of columns of L. */
static gx_code load_stretch(void *arg, int64_t unit, gx_pass_thread *thread, void *memory,
                            void *part, gx_err *err)
{
    product *p = arg;
    engine *x = &p->x;
    int64_t j = unit * p->width, n = gx_min(p->width, gx_spmm_inner(x) - j);
    char *to = (char *)p->L + (size_t)(x->is_columnwise ? j : j * x->m) * x->element;
    (void)part;
    if (x->is_columnwise) {
        return gx_pass_read(thread, &p->D, j, p->l0, n, x->m, x->dtype, to, x->ldl, err);
    }
    if (!p->is_left) {
        return gx_pass_read(thread, &p->D, p->l0, j, x->m, n, x->dtype, to, x->m, err);
    }
    char *rows = x->m == 1 ? to : memory;
    GX_TRY(gx_pass_read(thread, &p->D, j, p->l0, n, x->m, x->dtype, rows, n, err));
    gx_args args = {
        .transa = GX_TRANS, .m = x->m, .n = n, .a = rows, .lda = n, .c = to, .ldc = x->m};
    return x->m == 1 ? GX_OK
                     : x->backend->kernel[GX_TRANSPOSE][x->dtype](x->dev, NULL, &args, err);
}

/* Lines [l0, l0 + m) of the dense operand. */
static void load_lines(product *p)
{
    engine *x = &p->x;
    const gx_mat *const sources[1] = {&p->D};
    if (is_in_place(p)) {
        x->L = p->is_left ? gx_at(p->D.data, x->dtype, p->D.ld, 0, p->l0)
                          : gx_at(p->D.data, x->dtype, p->D.ld, p->l0, 0);
        x->ldl = p->D.ld;
        return;
    }
    bool is_worked_on = p->is_left && x->m > 1 && !x->is_columnwise;
    size_t column = (size_t)x->m * x->element, room = gx_mem_available(x->run->ctx->mem) / 4;
    p->width = is_worked_on ? gx_min(GX_PASS_CHUNK_BYTES, (int64_t)room) : LOAD_BYTES;
    p->width = gx_max(1, p->width / (int64_t)column);
    gx_pass pass = {.sources = sources,
                    .source_count = 1,
                    .units = gx_ceil_div(gx_spmm_inner(x), p->width),
                    .bytes = (double)column * (double)gx_spmm_inner(x),
                    .work_bytes = is_worked_on ? (size_t)p->width * column : 0,
                    .work = load_stretch,
                    .arg = p};
    x->L = p->L;
    x->ldl = x->is_columnwise ? gx_spmm_inner(x) : x->m;
    if (!p->has_lines) {
        gx_pass_run(x->run, &pass);
        p->has_lines = p->is_kept && gx_ok(x->run);
    }
}

/* The round's lines of the result, from the block into the sink. */
static void write_round(product *p)
{
    gx_sink *sink = p->sink;
    gx_err err = {0};
    int64_t length = p->is_left ? sink->rows : sink->cols;
    int64_t step = p->is_left ? sink->tile_rows : sink->tile_cols;
    for (int64_t k = 0; k < length && gx_run_poll(p->x.run) == GX_OK && err.code == GX_OK;
         k += step) {
        int64_t n = gx_min(step, length - k);
        if (p->is_left) {
            gx_sink_write(sink, k, p->l0, n, p->x.m, gx_at(p->block, p->x.dtype, p->x.ldr, k, 0),
                          p->x.ldr, &err);
        } else {
            gx_sink_write(sink, p->l0, k, p->x.m, n, gx_at(p->block, p->x.dtype, p->x.ldr, 0, k),
                          p->x.ldr, &err);
        }
    }
    gx_run_fail(p->x.run, &err);
}

/* All rounds; the sink has been begun. */
static void run_rounds(product *p)
{
    engine *x = &p->x;
    gx_sink *sink = p->sink;
    for (p->l0 = 0; p->l0 < p->lines && gx_ok(x->run); p->l0 += p->round) {
        x->m = gx_min(p->round, p->lines - p->l0);
        if (p->is_stored) {
            x->result = p->block;
            x->ldr = p->is_left ? sink->rows : x->m;
        } else {
            x->result = gx_at(sink->value.data, x->dtype, sink->rows, p->is_left ? 0 : p->l0,
                              p->is_left ? p->l0 : 0);
            x->ldr = sink->rows;
        }
        load_lines(p);
        gx_spmm_run(x);
        if (p->is_stored && gx_ok(x->run)) {
            write_round(p);
        }
    }
}

/* Bytes of one line: of L, of the block, of `lanes` lanes. */
static size_t bytes_of_line(const product *p, int64_t lanes)
{
    const engine *x = &p->x;
    int64_t numbers = is_in_place(p) ? 0 : gx_spmm_inner(x);
    numbers += p->is_stored ? x->n : 0;
    numbers += x->op == GX_NO_TRANS ? lanes * x->n : 0;
    return (size_t)gx_max(1, numbers) * x->element;
}

/* As many lines a round as memory holds beside the threads' panels: for all threads, or for one. */
static gx_code plan_rounds(product *p, size_t beside, gx_err *err)
{
    engine *x = &p->x;
    gx_run *run = x->run;
    enum { FEW = 8 }; // lines from which on another round costs less than a thread
    size_t available = gx_mem_available(run->ctx->mem), slack = 64 << 10;
    available = available > beside + slack ? available - beside - slack : 0;
    int64_t most = gx_spmm_lines_most(x, p->lines), fit = 0;
    int64_t threads = gx_max(1, run->ctx->config.number[GX_SET_THREADS]);
    for (; threads > 0 && fit < gx_min(most, FEW); threads--) {
        x->m = most;
        size_t fixed = (size_t)threads * gx_spmm_thread_bytes(x);
        fit = available <= fixed ? 0
                                 : (int64_t)((available - fixed) /
                                             bytes_of_line(p, gx_min(threads, 2)));
    }
    if (fit == 0) {
        x->m = 1;
        size_t wanted = gx_spmm_thread_bytes(x) + bytes_of_line(p, 1);
        if (available < wanted) {
            return gx_fail(err, GX_BUDGET,
                           "a product with sparse %s needs %zu bytes but memory_limit leaves %zu: "
                           "raise it with gx_config('memory_limit', ...)",
                           x->S->label, wanted + beside + slack,
                           gx_mem_available(run->ctx->mem));
        }
        fit = 1;
    }
    int64_t rounds = gx_ceil_div(gx_max(1, p->lines), gx_min(fit, most));
    p->round = gx_max(1, gx_ceil_div(p->lines, rounds));
    return GX_OK;
}

/* Tiles of a stored result: whole rounds. */
static void choose_tiles(const product *p, int64_t *tile_rows, int64_t *tile_cols)
{
    *tile_rows = *tile_cols = 0;
    if (p->round < p->lines) {
        size_t bytes = gx_store_max_tile_bytes(p->x.run->ctx->store);
        int64_t fit = (int64_t)(bytes / ((size_t)p->round * p->x.element));
        fit = gx_max(1, gx_min(p->x.n, fit > 64 ? fit / 64 * 64 : fit));
        *tile_rows = p->is_left ? fit : p->round;
        *tile_cols = p->is_left ? p->round : fit;
    }
}

static gx_code reserve_block(product *p, gx_err *err)
{
    const engine *x = &p->x;
    return !p->is_stored
               ? GX_OK
               : gx_mem_alloc(x->run->ctx->mem, (size_t)(p->round * x->n) * x->element,
                              "lines of a product", &p->block, err);
}

/* L: as an earlier call has left it, where all of D is one round. */
static gx_code reserve_lines(product *p, gx_err *err)
{
    engine *x = &p->x;
    gx_mem *mem = x->run->ctx->mem;
    size_t bytes = (size_t)(p->round * gx_spmm_inner(x)) * x->element;
    int64_t form = (((int64_t)x->dtype * 8 + p->op) * 2 + p->is_left) * 2 + x->is_columnwise;
    if (is_in_place(p)) {
        return GX_OK;
    }
    p->is_kept = p->round >= p->lines && bytes <= gx_mem_keeps(mem) / 2 &&
                 gx_sparse_held_key(x->run, p->dense, 0, p->lines, 1 + form, &p->key);
    p->L = p->is_kept ? gx_mem_claim(mem, &p->key, bytes) : NULL;
    p->has_lines = p->L != NULL;
    return p->has_lines ? GX_OK : gx_mem_alloc(mem, bytes, "lines of a dense block", &p->L, err);
}

static void give_lines(product *p)
{
    if (p->is_kept && p->has_lines) {
        gx_mem_keep(p->x.run->ctx->mem, p->L, &p->key);
    } else {
        gx_mem_free(p->x.run->ctx->mem, p->L);
    }
}

/* S in memory, where it will stay for later calls: beside what the round is to take. */
static gx_code hold(product *p)
{
    engine *x = &p->x;
    gx_run *run = x->run;
    x->m = p->round;
    size_t lines = (size_t)(p->round * gx_spmm_inner(x)) * x->element;
    size_t lanes = x->op == GX_NO_TRANS ? (size_t)(p->round * x->n) * x->element : 0;
    int64_t threads = gx_max(1, run->ctx->config.number[GX_SET_THREADS]);
    size_t beside = lines + (size_t)threads * (lanes + gx_spmm_thread_bytes(x));
    gx_sparse_held_begin(run, x->S, beside, true, &p->held);
    if (gx_ok(run)) {
        gx_spmm_read_from(x, p->held.A);
    }
    return run->err.code;
}

/* The device's round is in the block. */
static void write_lines(void *arg, int64_t line, int64_t count)
{
    product *p = arg;
    p->l0 = line;
    p->x.m = count;
    p->x.ldr = p->is_left ? p->sink->rows : count;
    write_round(p);
}

/* The rounds, for a device and for who foretells them. */
static gx_spmm_rounds rounds_of(product *p)
{
    const engine *x = &p->x;
    return (gx_spmm_rounds){.S = x->S,
                            .D = &p->D,
                            .is_left = p->is_left,
                            .op = x->op,
                            .alpha = x->alpha,
                            .dtype = x->dtype,
                            .lines = p->lines,
                            .round = p->round,
                            .inner = gx_spmm_inner(x),
                            .length = x->n,
                            .write = p->is_stored ? write_lines : NULL,
                            .arg = p};
}

/* All rounds on a device; false: here. */
static bool is_elsewhere(product *p)
{
    gx_spmm_rounds rounds = rounds_of(p);
    rounds.result = p->is_stored ? p->block : p->sink->value.data;
    rounds.ldr = p->sink->rows;
    return !p->x.is_conjugated && gx_spmm_by_device(p->x.run, &rounds);
}

/* The product, and how many lines a round has; bytes: of the result where it is a value. */
static gx_code set_up(product *p, gx_run *run, const gx_spmm_args *args, int64_t m, int64_t n,
                      gx_number dtype, size_t bytes, gx_err *err)
{
    p->is_left = args->A->is_sparse;
    p->dense = p->is_left ? args->B : args->A;
    p->op = p->is_left ? args->transb : args->transa;
    p->D = *p->dense;
    if (p->op != GX_NO_TRANS) {
        gx_mat_view(&p->D, p->dense, p->op, 0, 0, p->dense->cols, p->dense->rows);
    }
    gx_spmm_set_up(&p->x, run, p->is_left ? args->A : args->B,
                   p->is_left ? args->transa : args->transb, p->is_left, dtype);
    p->x.alpha = args->alpha;
    p->lines = p->is_left ? n : m;
    GX_TRY(gx_run_device(run, &p->x.backend, &p->x.dev));
    return plan_rounds(p, bytes, err);
}

void gx_spmm_foresee(gx_run *run, const gx_spmm_args *args, int64_t m, int64_t n, gx_number dtype,
                     gx_spmm_plan *plan, gx_cost *cost, gx_terms *terms)
{
    product p = {.is_stored = true};
    gx_err err = {0};
    *terms = (gx_terms){0};
    if (!gx_ok(run) || set_up(&p, run, args, m, n, dtype, 0, &err) != GX_OK) {
        gx_run_fail(run, &err);
        return;
    }
    gx_spmm_rounds rounds = rounds_of(&p);
    *plan = (gx_spmm_plan){p.lines, p.round, gx_sparse_pieces(p.x.S)};
    if (run->target == NULL || !p.x.is_conjugated) {
        gx_spmm_foresee_rounds(run, &rounds, cost, terms);
    }
}

gx_code gx_alg_spmm(gx_run *run, const gx_spmm_args *args, int64_t m, int64_t n, gx_number dtype,
                    const gx_dest *dest, gx_sink *sink)
{
    product p = {.sink = sink, .is_stored = dest != NULL && dest->name != NULL};
    gx_err err = {0};
    size_t value = 0;
    int64_t tile_rows, tile_cols;
    *sink = (gx_sink){.run = run};
    if (!gx_ok(run)) {
        return run->err.code;
    }
    gx_matrix_bytes(m, n, dtype, &value);
    if (set_up(&p, run, args, m, n, dtype, p.is_stored ? 0 : value, &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    choose_tiles(&p, &tile_rows, &tile_cols);
    gx_sink_begin(run, dest, m, n, dtype, 0, tile_rows, tile_cols, sink);
    if (gx_ok(run) && reserve_block(&p, &err) == GX_OK && !is_elsewhere(&p) && hold(&p) == GX_OK &&
        gx_spmm_choose_order(&p.x, p.lines, &err) == GX_OK && reserve_lines(&p, &err) == GX_OK) {
        run_rounds(&p);
    }
    give_lines(&p);
    gx_sparse_held_end(run, &p.held);
    gx_mem_free(run->ctx->mem, p.block);
    return gx_run_fail(run, &err);
}
