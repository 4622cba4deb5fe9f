/*
** Circle transforms of columns: see transform.h.
**
** Layers are done in two steps, each within the nearest memory: the upper ones in strips (runs of
** elements from every block), the lower ones in blocks of 2^part elements, whose twiddles are made
** when they are wanted.  The same two steps, with strips and blocks as large as the memory has room
** for, are the two sweeps over a column that it does not hold.
*/
#include "transform.h"

#include "../alg/dense.h"
#include "../alg/plan.h"
#include "../device/fleet.h"
#include "../run/call.h"

#include <string.h>

/* A block of 256 KiB; elements of a strip; rows of a tile where a column is not one. */
enum { PART = 16, STRIP = 1 << 16, TILE_LOG = 16, WHOLE_LOG = 21 };

gx_code gx_circle_shape(const gx_circle_args *args, int *log, gx_err *err)
{
    const gx_mat *A = args->A;
    int rows_log = 0;
    while (rows_log < GX_CIRCLE_MOST && (int64_t)1 << rows_log < A->rows) {
        rows_log++;
    }
    *log = args->log < 0 ? rows_log : args->log;
    if (rows_log == 0 || (int64_t)1 << rows_log != A->rows) {
        return gx_fail(err, GX_ARG,
                       "%s has %lld rows, but a circle transform has 2, 4, 8, ... 2^%d", A->label,
                       (long long)A->rows, GX_CIRCLE_MOST);
    }
    if (*log > GX_CIRCLE_MOST || *log < rows_log || (args->is_inverse && *log != rows_log)) {
        return gx_fail(err, GX_ARG, "\"log\" must be %s %d, not %d",
                       args->is_inverse ? "that of the rows," : "from that of the rows to 30, from",
                       rows_log, *log);
    }
    return GX_OK;
}

void gx_circle_tiles(int log, int64_t *tile_rows, int64_t *tile_cols)
{
    *tile_rows = (int64_t)1 << (log <= WHOLE_LOG ? log : TILE_LOG);
    *tile_cols = log <= WHOLE_LOG ? (int64_t)1 << (WHOLE_LOG - log) : 1;
}

/* A transform of 2^log elements, cut at bit `part` of their indices. */
typedef struct transform {
    gx_run *run;
    const gx_backend *backend;
    gx_dev *dev;
    bool is_inverse;
    int log, part;
    uint32_t *upper; /* the twiddles of the layers from part on; NULL: there are none */
    uint32_t *room;  /* 2^part for each member: of a block */
    uint32_t scale;  /* 1 / 2^log */
    uint32_t *data;  /* cols columns, ld from one to the next */
    int64_t ld, cols;
    int64_t run_length; /* of a strip */
    int64_t block;      /* the first of data's blocks */
    int64_t blocks;
} transform;

static void clear(transform *t)
{
    gx_mem_free(t->run->ctx->mem, t->upper);
    gx_mem_free(t->run->ctx->mem, t->room);
}

/* members: how many do blocks at the same time. */
static gx_code begin(gx_run *run, const gx_circle_args *args, int log, int part, int members,
                     transform *t)
{
    *t = (transform){.run = run, .is_inverse = args->is_inverse, .log = log, .part = part};
    t->scale = gx_field_inverse(gx_field_pow(2, (uint64_t)log, GX_M31_P), GX_M31_P);
    gx_run_device(run, &t->backend, &t->dev);
    t->room = gx_run_alloc(run, ((size_t)members << part) * sizeof *t->room, "twiddles");
    if (log > part) {
        int upper = log - part + 1; // layer part is layer 1 of a transform of so many bits
        t->upper = gx_run_alloc(run, sizeof *t->upper << upper, "twiddles");
        if (t->upper != NULL) {
            gx_circle_twiddles(upper, upper, 0, args->is_inverse, t->upper);
        }
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

/* c = c / 2^log, m x n. */
static gx_code scale(const transform *t, uint32_t *c, int64_t ld, int64_t m, int64_t n, gx_err *err)
{
    gx_args args = {.map = GX_MAP_SCALE,
                    .alpha = {t->scale, 0},
                    .m = m,
                    .n = n,
                    .a = c,
                    .lda = ld,
                    .c = c,
                    .ldc = ld};
    return t->backend->kernel[GX_MAP][GX_M31](t->dev, NULL, &args, err);
}

/* The upper layers of runs of k elements, ld from one to the next. */
static gx_code do_strip(const transform *t, uint32_t *c, int64_t ld, int64_t k, gx_err *err)
{
    int upper = t->log - t->part + 1;
    gx_args args = {.n = 1,
                    .k = k,
                    .a = t->upper,
                    .ldb = ld,
                    .c = c,
                    .pivot_first = 1,
                    .pivot_last = upper,
                    .row_offset = upper,
                    .is_backward = t->is_inverse};
    GX_TRY(t->backend->kernel[GX_CIRCLE][GX_M31](t->dev, NULL, &args, err));
    return t->is_inverse ? scale(t, c, ld, k, (int64_t)1 << (t->log - t->part), err) : GX_OK;
}

/* Strips of columns, counted down each. */
static gx_code strip_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const transform *t = arg;
    int64_t block = (int64_t)1 << t->part, strips = block / t->run_length;
    (void)member;
    return do_strip(t, t->data + piece / strips * t->ld + piece % strips * t->run_length, block,
                    t->run_length, err);
}

/* A block of every column. */
static gx_code block_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const transform *t = arg;
    uint32_t *twiddles = t->room + ((int64_t)member << t->part);
    gx_circle_twiddles(t->log, t->part, t->block + piece, t->is_inverse, twiddles);
    gx_args args = {.n = t->cols,
                    .k = 1,
                    .a = twiddles,
                    .ldb = 1,
                    .c = t->data + (piece << t->part),
                    .ldc = t->ld,
                    .pivot_first = 0,
                    .pivot_last = t->part,
                    .row_offset = t->part,
                    .is_backward = t->is_inverse};
    GX_TRY(t->backend->kernel[GX_CIRCLE][GX_M31](t->dev, NULL, &args, err));
    return t->is_inverse && t->log == t->part
               ? scale(t, args.c, t->ld, (int64_t)1 << t->part, t->cols, err)
               : GX_OK;
}

/* Columns alone: more of them than blocks. */
static gx_code column_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    transform one = *(const transform *)arg;
    (void)member;
    gx_args args = {.n = 1,
                    .k = 1,
                    .a = one.room,
                    .ldb = 1,
                    .c = one.data + piece * one.ld,
                    .ldc = one.ld,
                    .pivot_last = one.part,
                    .row_offset = one.part,
                    .is_backward = one.is_inverse};
    GX_TRY(one.backend->kernel[GX_CIRCLE][GX_M31](one.dev, NULL, &args, err));
    return one.is_inverse ? scale(&one, args.c, one.ld, (int64_t)1 << one.part, 1, err) : GX_OK;
}

static void do_strips(transform *t)
{
    int64_t block = (int64_t)1 << t->part, runs = (int64_t)1 << (t->log - t->part);
    t->run_length = gx_min(block, gx_max(16, STRIP / runs));
    gx_run_pieces(t->run, (double)t->cols * (double)block * (double)runs,
                  t->cols * (block / t->run_length), strip_piece, t);
}

static void do_blocks(transform *t)
{
    double work = (double)t->cols * (double)(t->blocks << t->part);
    if (t->blocks == 1 && t->log == t->part) {
        gx_circle_twiddles(t->log, t->part, 0, t->is_inverse, t->room);
        gx_run_pieces(t->run, work, t->cols, column_piece, t);
    } else {
        gx_run_pieces(t->run, work, t->blocks, block_piece, t);
    }
}

/* Columns that are in memory. */
static void do_columns(transform *t)
{
    t->block = 0;
    t->blocks = (int64_t)1 << (t->log - t->part);
    if (!t->is_inverse && t->log > t->part) {
        do_strips(t);
    }
    do_blocks(t);
    if (t->is_inverse && t->log > t->part) {
        do_strips(t);
    }
}

// On devices --------------------------------------------------------------------------------------

/* Pairs of elements a second through a layer, measured: of a thread. */
static const double HOST_PAIRS = 0.5e9;

/* Bytes of a block on a device, of several columns; rows of a part of a column, at least. */
static const int64_t DEVICE_BYTES = 64 << 20;
enum { DEVICE_PART = 20 };

typedef struct device_columns {
    const gx_circle_args *args;
    gx_sink *C;
    int log;
} device_columns;

/*
** Bits of a block's rows.  A column is one block, but where a device has no room for two, or where
** several devices are to share a few columns.
*/
static int choose_part(const gx_run *run, const device_columns *x)
{
    bool is_listed, is_shared = gx_fleet_is_wanted(run->ctx, &is_listed) && x->C->cols < 4;
    int part = x->log, least = (int)gx_min(x->log, DEVICE_PART);
    part = is_shared && x->log >= DEVICE_PART + 2 ? x->log - 2 : part;
    while (part > least && sizeof(uint32_t) << (part + 2) > run->target_bytes) {
        part--;
    }
    return part;
}

/* Layer i between blocks, whose twiddles are t; neighbours are taken in turns, for two devices. */
static void write_layer(gx_prog *prog, const gx_opnd *C, const device_columns *x, int part, int i,
                        const uint32_t *t, int64_t j)
{
    int64_t apart = (int64_t)1 << (i - part);
    for (int64_t pair = 0; pair < C->grid_rows / 2; pair++) {
        int64_t group = pair / apart, first = 2 * group * apart + pair % apart;
        bool is_turned = apart == 1 && pair % 2 == 1;
        gx_call call = {.kernel = GX_CIRCLE,
                        .side = is_turned ? GX_RIGHT : GX_LEFT,
                        .is_backward = x->args->is_inverse,
                        .keeps_c = true,
                        .pivot_first = t[group],
                        .row_offset = x->log,
                        .c = gx_blk(C, is_turned ? first + apart : first, j),
                        .c2 = gx_blk(C, is_turned ? first : first + apart, j)};
        gx_prog_call(prog, &call);
    }
}

/* All layers within blocks. */
static void write_blocks(gx_prog *prog, const gx_opnd *C, const device_columns *x, int part,
                         int64_t j)
{
    uint32_t scale = gx_field_inverse(gx_field_pow(2, (uint64_t)x->log, GX_M31_P), GX_M31_P);
    for (int64_t b = 0; b < C->grid_rows; b++) {
        gx_call call = {.kernel = GX_CIRCLE,
                        .is_backward = x->args->is_inverse,
                        .keeps_c = true,
                        .alpha = {x->args->is_inverse ? scale : 1, 0},
                        .pivot_first = b,
                        .pivot_last = part,
                        .row_offset = x->log,
                        .c = gx_blk(C, b, j)};
        gx_prog_call(prog, &call);
    }
}

static gx_prog *write_down(gx_run *run, void *arg)
{
    const device_columns *x = arg;
    int part = choose_part(run, x), upper = x->log - part + 1; // see begin()
    int64_t column = x->C->rows * (int64_t)sizeof(uint32_t);
    int64_t cols =
        gx_plan_whole_tiles(gx_max(1, DEVICE_BYTES / column), x->C->tile_cols, x->C->cols);
    bool is_inverse = x->args->is_inverse;
    gx_prog *prog;
    uint32_t *t = gx_run_alloc(run, sizeof *t << upper, "twiddles");
    if (t == NULL || gx_prog_create(run, x->C->cols, &prog) != GX_OK) {
        gx_mem_free(run->ctx->mem, t);
        return NULL;
    }
    gx_circle_twiddles(upper, upper, 0, is_inverse, t);
    const gx_opnd *C = gx_prog_operand(prog, x->args->A, x->C, GX_M31, x->C->rows, x->C->cols,
                                       (int64_t)1 << part, cols);
    for (int64_t j = 0; j < C->grid_cols && gx_ok(run); j++) {
        if (is_inverse) {
            write_blocks(prog, C, x, part, j);
        }
        for (int k = 0; k < x->log - part; k++) {
            int i = is_inverse ? part + k : x->log - 1 - k;
            write_layer(prog, C, x, part, i, t + gx_circle_layer(upper, i - part + 1), j);
        }
        if (!is_inverse) {
            write_blocks(prog, C, x, part, j);
        }
    }
    gx_mem_free(run->ctx->mem, t);
    if (!gx_ok(run)) {
        gx_prog_free(prog);
        return NULL;
    }
    return prog;
}

/* false: it is the host's turn. */
static bool do_on_device(gx_run *run, const gx_circle_args *args, int log, gx_sink *C)
{
    double pairs = (double)C->cols * (double)C->rows / 2 * log;
    gx_terms host = {.seconds =
                         pairs / (HOST_PAIRS * (double)run->ctx->config.number[GX_SET_THREADS])};
    device_columns x = {args, C, log};
    return args->order == GX_CIRCLE_BITREV &&
           gx_place_on_device(run, 3 * pairs, GX_M31, write_down, &x, &host);
}

// Orders ------------------------------------------------------------------------------------------

/* Where the value with index e in the order is in that of reversed bits. */
static int64_t place_of(gx_circle_order order, int log, int64_t e)
{
    int64_t half = (int64_t)1 << (log - 1), at = 0;
    if (order == GX_CIRCLE_COSET) {
        e = e % 2 == 0 ? e / 2 : half + (half - 1 - e / 2);
    }
    for (int k = 0; k < log; k++) {
        at |= (e >> k & 1) << (log - 1 - k);
    }
    return at;
}

/* A column from the order of reversed bits, or (to_bitrev) to it; room: as many elements. */
static void arrange(gx_circle_order order, int log, bool to_bitrev, uint32_t *x, uint32_t *room)
{
    int64_t count = (int64_t)1 << log;
    memcpy(room, x, (size_t)count * sizeof *x);
    for (int64_t e = 0; e < count; e++) {
        int64_t at = place_of(order, log, e);
        x[to_bitrev ? at : e] = room[to_bitrev ? e : at];
    }
}

static void arrange_all(const gx_circle_args *args, transform *t)
{
    uint32_t *room = NULL;
    if (args->order == GX_CIRCLE_BITREV || !gx_ok(t->run)) {
        return;
    }
    room = gx_run_alloc(t->run, sizeof *room << t->log, "a column in another order");
    for (int64_t j = 0; j < t->cols && room != NULL && gx_run_poll(t->run) == GX_OK; j++) {
        arrange(args->order, t->log, args->is_inverse, t->data + j * t->ld, room);
    }
    gx_mem_free(t->run->ctx->mem, room);
}

// Columns in memory -------------------------------------------------------------------------------

/* So many columns at once, the result's tiles whole. */
static int64_t columns_at_once(gx_run *run, const gx_sink *C)
{
    int64_t column = C->rows * (int64_t)sizeof(uint32_t);
    int64_t most = (int64_t)(gx_mem_available(run->ctx->mem) / 2) / column;
    return most >= C->cols ? C->cols : most / C->tile_cols * C->tile_cols;
}

/* Columns j .. of A, in the order of reversed bits, with zeros behind them. */
static void load_columns(const gx_circle_args *args, int64_t j, transform *t)
{
    int64_t rows = args->A->rows, count = (int64_t)1 << t->log;
    gx_mat part;
    gx_mat_view(&part, args->A, GX_NO_TRANS, 0, j, rows, t->cols);
    gx_dense_load(t->run, &part, GX_M31, t->data, count);
    for (int64_t q = 0; q < t->cols && rows < count; q++) {
        memset(t->data + q * count + rows, 0, (size_t)(count - rows) * sizeof *t->data);
    }
    if (args->is_inverse) {
        arrange_all(args, t);
    }
}

static void transform_columns(gx_run *run, const gx_circle_args *args, int log, int64_t at_once,
                              gx_sink *C)
{
    int64_t count = C->rows;
    int part = log <= PART + 1 ? log : PART;
    transform t;
    uint32_t *own = NULL;
    gx_err err = {0};
    bool is_there = !C->is_stored && C->value.data != NULL && at_once == C->cols;
    if (!is_there) {
        gx_dense_alloc(run, GX_M31, count, at_once, "columns", &own);
    }
    begin(run, args, log, part, gx_run_members(run, (double)count * (double)at_once), &t);
    t.data = is_there ? C->value.data : own;
    t.ld = count;
    for (int64_t j = 0; j < C->cols && gx_ok(run); j += at_once) {
        t.cols = gx_min(at_once, C->cols - j);
        load_columns(args, j, &t);
        if (gx_ok(run)) {
            do_columns(&t);
        }
        if (!args->is_inverse) {
            arrange_all(args, &t);
        }
        if (gx_ok(run) && !is_there && gx_sink_write(C, 0, j, count, t.cols, own, count, &err)) {
            gx_run_fail(run, &err);
        }
    }
    clear(&t);
    gx_mem_free(run->ctx->mem, own);
}

// A column that is larger than memory -------------------------------------------------------------

/* Both sweeps, and what is between them. */
typedef struct sweeps {
    gx_run *run;
    const gx_circle_args *args;
    transform t;
    uint32_t *buffer;
    int64_t width; /* of a strip */
} sweeps;

static void load_rows(const sweeps *s, const gx_mat *from, int64_t i, int64_t count, uint32_t *to)
{
    int64_t there = gx_max(0, gx_min(count, from->rows - i));
    if (there > 0 && gx_ok(s->run)) {
        gx_dense_load_rows(s->run, from, i, there, GX_M31, to, count);
    }
    memset(to + there, 0, (size_t)(count - there) * sizeof *to);
}

static void write_rows(const sweeps *s, gx_sink *to, int64_t i, int64_t j, int64_t count,
                       const uint32_t *from)
{
    gx_err err = {0};
    if (gx_ok(s->run) && gx_sink_write(to, i, j, count, 1, from, count, &err) != GX_OK) {
        gx_run_fail(s->run, &err);
    }
}

/* All strips of a column, from -> column j of to. */
static void sweep_strips(sweeps *s, const gx_mat *from, int64_t j, gx_sink *to)
{
    transform *t = &s->t;
    int64_t block = (int64_t)1 << t->part, runs = (int64_t)1 << (t->log - t->part);
    for (int64_t e = 0; e < block && gx_ok(s->run); e += s->width) {
        for (int64_t r = 0; r < runs; r++) {
            load_rows(s, from, r * block + e, s->width, s->buffer + r * s->width);
        }
        int64_t step = gx_min(s->width, gx_max(16, STRIP / runs));
        for (int64_t q = 0; q < s->width && gx_ok(s->run); q += step) {
            gx_err err = {0};
            if (do_strip(t, s->buffer + q, s->width, step, &err) != GX_OK) {
                gx_run_fail(s->run, &err);
            }
        }
        gx_run_poll(s->run);
        for (int64_t r = 0; r < runs; r++) {
            write_rows(s, to, r * block + e, j, s->width, s->buffer + r * s->width);
        }
    }
}

static void sweep_blocks(sweeps *s, const gx_mat *from, int64_t j, gx_sink *to)
{
    transform *t = &s->t;
    int64_t block = (int64_t)1 << t->part, runs = (int64_t)1 << (t->log - t->part);
    for (int64_t b = 0; b < runs && gx_ok(s->run); b++) {
        load_rows(s, from, b * block, block, s->buffer);
        t->data = s->buffer;
        t->ld = block;
        t->cols = 1;
        t->block = b;
        t->blocks = 1;
        gx_err err = {0};
        if (gx_ok(s->run) && block_piece(t, 0, 0, &err) != GX_OK) {
            gx_run_fail(s->run, &err);
        }
        gx_run_poll(s->run);
        write_rows(s, to, b * block, j, block, s->buffer);
    }
}

static void sweep_column(sweeps *s, const gx_mat *from, int64_t j, gx_sink *C)
{
    gx_sink between;
    gx_mat source;
    bool is_inverse = s->args->is_inverse;
    if (gx_sink_begin_scratch_tiles(s->run, C->rows, 1, GX_M31, (size_t)1 << 60,
                                    gx_min(s->width, (int64_t)1 << s->t.part), 1,
                                    &between) != GX_OK) {
        return;
    }
    if (is_inverse) {
        sweep_blocks(s, from, 0, &between);
    } else {
        sweep_strips(s, from, 0, &between);
    }
    if (gx_ok(s->run)) {
        gx_sink_source(&between, s->args->A->label, &source);
        if (is_inverse) {
            sweep_strips(s, &source, j, C);
        } else {
            sweep_blocks(s, &source, j, C);
        }
    }
    gx_sink_drop(&between);
}

static void transform_large(gx_run *run, const gx_circle_args *args, int log, gx_sink *C)
{
    sweeps s = {.run = run, .args = args};
    size_t room = gx_mem_available(run->ctx->mem) / 4;
    int part = TILE_LOG;
    while (part < log && sizeof(uint32_t) << (part + 1) <= room) {
        part++;
    }
    int width = part;
    while (width > TILE_LOG && sizeof(uint32_t) << (width + log - part) > room) {
        width--;
    }
    size_t most = sizeof(uint32_t) << gx_max(part, width + log - part);
    if (args->order != GX_CIRCLE_BITREV || most > room) {
        gx_run_failf(
            run, GX_BUDGET,
            args->order != GX_CIRCLE_BITREV
                ? "a column of 2^%d elements in another order than bitrev is brought into it "
                  "in memory, of which there is too little"
                : "columns of 2^%d elements need more memory: memory_limit",
            log);
        return;
    }
    s.width = (int64_t)1 << width;
    s.buffer = gx_run_alloc(run, most, "a part of a column");
    if (begin(run, args, log, part, 1, &s.t) == GX_OK && s.buffer != NULL) {
        for (int64_t j = 0; j < C->cols && gx_ok(run); j++) {
            gx_mat column;
            gx_mat_view(&column, args->A, GX_NO_TRANS, 0, j, args->A->rows, 1);
            sweep_column(&s, &column, j, C);
        }
    }
    clear(&s.t);
    gx_mem_free(run->ctx->mem, s.buffer);
}

gx_code gx_alg_circle(gx_run *run, const gx_circle_args *args, gx_sink *C)
{
    int log;
    gx_err err = {0};
    if (!gx_ok(run)) {
        return run->err.code;
    }
    if (gx_circle_shape(args, &log, &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    if (C->cols == 0 || do_on_device(run, args, log, C)) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    bool is_value = !C->is_stored && C->value.data != NULL;
    int64_t at_once = is_value ? C->cols : columns_at_once(run, C);
    if (at_once > 0) {
        transform_columns(run, args, log, at_once, C);
    } else {
        transform_large(run, args, log, C);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}
