/*
** The operations on grids, of all grids of a batch in one pass: see grid.h.
**
** A unit of the pass is some grids that stand below each other.  A thread reads its rows as
** colours, hands each grid to the operation's kernel, and gives the results' rows to the sink.
** Memory of a thread: five to ten numbers of 32 bits for each cell of a unit, and 8 bytes more
** where the result is stored.  One large grid is no pass: a team shares what its kernel does.
*/
#include "grid_int.h"

#include <assert.h>
#include <string.h>

typedef struct grid_op {
    const char *name, *kinds;
    gx_grid_result result;
    gx_grid_kernel kernel;
} grid_op;

static const grid_op ops[GX_GRID_COUNT] = {{"label", "G", GX_GRID_LABELS, gx_grid_labelled},
#define ROW(X, ID, NAME, ARGUMENTS, KINDS, RESULT, KERNEL, HELP)                                   \
    {NAME, KINDS, GX_GRID_##RESULT, gx_grid_##KERNEL},
                                           GX_GRID_OPS(ROW, )
#undef ROW
};

const char *gx_grid_kinds(gx_grid_id id)
{
    return ops[id].kinds;
}

gx_grid_result gx_grid_result_of(gx_grid_id id)
{
    return ops[id].result;
}

// What is taken -----------------------------------------------------------------------------------

static gx_code check_numbers(const gx_grid_call *call, gx_err *err)
{
    const int64_t *n = call->number;
    const gx_mat *A = call->in[0];
    bool is_step = n[2] >= -1 && n[2] <= 1 && n[3] >= -1 && n[3] <= 1 && (n[2] != 0 || n[3] != 0);
    int64_t down = n[2] - n[0], right = n[3] - n[1];
    int64_t neighbours = call->id == GX_GRID_FLOOD ? n[3] : n[0];
    switch (call->id) {
    case GX_GRID_FLOOD:
    case GX_GRID_BESIDE:
        if (neighbours != 4 && neighbours != 8) {
            return gx_fail(err, GX_ARG, "a cell has 4 or 8 neighbours, not %lld",
                           (long long)neighbours);
        }
        break;
    case GX_GRID_TURN:
        if (n[0] != 90 && n[0] != 180 && n[0] != 270) {
            return gx_fail(err, GX_ARG, "degrees must be 90, 180 or 270 (clockwise), not %lld",
                           (long long)n[0]);
        }
        break;
    case GX_GRID_MIRROR:
        if (n[0] != 0 && n[0] != 1) {
            return gx_fail(err, GX_ARG, "axis must be 0 (rows) or 1 (columns), not %lld",
                           (long long)n[0]);
        }
        break;
    case GX_GRID_SHOOT:
        if (!is_step) {
            return gx_fail(err, GX_ARG, "di and dj must be -1, 0 or 1, and not both 0");
        }
        break;
    case GX_GRID_CONNECT:
        if (down != 0 && right != 0 && down != right && down != -right) {
            return gx_fail(err, GX_ARG,
                           "(%lld, %lld) and (%lld, %lld) are in no row, column or diagonal",
                           (long long)n[0], (long long)n[1], (long long)n[2], (long long)n[3]);
        }
        break;
    default:
        break;
    }
    bool is_outside = n[0] < 0 || n[0] >= A->rows || n[1] < 0 || n[1] >= A->cols;
    if (call->id == GX_GRID_FLOOD && is_outside) {
        return gx_fail(err, GX_ARG, "(%lld, %lld) is not in %s, which is %lldx%lld",
                       (long long)n[0], (long long)n[1], A->label, (long long)A->rows,
                       (long long)A->cols);
    }
    return GX_OK;
}

gx_code gx_grid_check(const gx_grid_call *call, gx_err *err)
{
    const grid_op *op = &ops[call->id];
    const gx_mat *A = call->in[0], *B = call->in[1];
    int numbers = 0;
    for (const char *kind = op->kinds; *kind != '\0'; kind++) {
        if (*kind == 'i') {
            int64_t x = call->number[numbers++];
            if (x <= INT32_MIN || x > INT32_MAX) {
                return gx_fail(err, GX_ARG, "%lld is no number of 32 bits", (long long)x);
            }
            if (op->result == GX_GRID_COLOURS && A->number == GX_F32 && (int64_t)(float)x != x) {
                return gx_fail(err, GX_ARG, "%lld is no number that %s holds", (long long)x,
                               gx_dtype_name(A->dtype));
            }
        }
        if ((*kind == 'M' || *kind == 'T') && gx_grid_is_of_colours(B, err) != GX_OK) {
            return err->code;
        }
        if (*kind == 'M' && (B->rows != A->rows || B->cols != A->cols)) {
            return gx_fail(err, GX_ARG, "%s is %lldx%lld but %s %lldx%lld", A->label,
                           (long long)A->rows, (long long)A->cols, B->label, (long long)B->rows,
                           (long long)B->cols);
        }
        if (*kind == 'T' && (B->rows == 0 || B->cols == 0)) {
            return gx_fail(err, GX_ARG, "%s is %lldx%lld and has no cell", B->label,
                           (long long)B->rows, (long long)B->cols);
        }
    }
    if (op->result == GX_GRID_NUMBER && (A->rows == 0 || A->cols == 0)) {
        return gx_fail(err, GX_ARG, "%s is %lldx%lld and has no cell", A->label, (long long)A->rows,
                       (long long)A->cols);
    }
    return check_numbers(call, err);
}

// The pass ----------------------------------------------------------------------------------------

typedef struct scan {
    gx_run *run;
    pthread_t caller;
    const gx_grid_call *call;
    const grid_op *op;
    const gx_mat *sources[2];
    int64_t cols;
    gx_grid_units units;
    gx_grid_out out;
    double *value;    /* of NUMBER: one for each grid */
    int32_t *pattern; /* T                            */
} scan;

/* A thread's memory. */
typedef struct room {
    int32_t *g, *m, *out;        /* of a unit's rows                   */
    int32_t *grid, *mask, *made; /* of a grid, where it lies elsewhere */
    int32_t *work;
    void *chunk, *runs;
    gx_grid_cells cells, marks; /* G and M as they lie                */
    int64_t ld;                 /* of out                             */
} room;

/* Cut from memory; NULL: its bytes are counted. */
static size_t lay_out(const scan *s, char *memory, room *r)
{
    enum { ALIGNED = 64 };
    bool is_masked = strchr(s->op->kinds, 'M') != NULL;
    bool is_grid = s->op->result != GX_GRID_NUMBER, is_label = s->call->id == GX_GRID_LABEL;
    gx_runs runs;
    size_t strip = (size_t)(s->units.most_rows * s->cols), cells = (size_t)s->units.most_cells;
    const struct {
        void *place;
        size_t bytes;
    } parts[] = {
        {&r->g, strip * sizeof(int32_t)},
        {&r->m, is_masked ? strip * sizeof(int32_t) : 0},
        {&r->out, is_grid ? strip * sizeof(int32_t) : 0},
        {&r->grid, cells * sizeof(int32_t)},
        {&r->mask, is_masked ? cells * sizeof(int32_t) : 0},
        {&r->made, is_grid ? cells * sizeof(int32_t) : 0},
        {&r->work, (size_t)GX_GRID_WORK(cells) * sizeof(int32_t)},
        {&r->chunk, gx_grid_chunk_bytes(s->units.most_rows, s->cols)},
        {&r->runs, is_label ? gx_runs_lay_out(s->units.most_rows, s->cols, NULL, &runs) : 0},
    };
    size_t used = 0;
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        char *at = memory == NULL ? NULL : memory + used;
        memcpy(parts[k].place, &at, sizeof at);
        used += (parts[k].bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
    }
    return used;
}

/* Grid k, or labels of so many from it on. */
static gx_code work_on(const scan *s, int64_t k, int64_t count, int64_t i0, const room *r,
                       gx_err *err)
{
    const gx_grid_call *call = s->call;
    const gx_grid_place *place = &call->batch.place[k];
    bool is_grid = s->op->result != GX_GRID_NUMBER, is_label = call->id == GX_GRID_LABEL;
    gx_grid_piece p = {.run = s->run,
                       .caller = s->caller,
                       .id = call->id,
                       .rows = place[count - 1].row + place[count - 1].rows - place->row,
                       .cols = place->cols,
                       .cells = gx_grid_cells_at(&r->cells, place->row - i0),
                       .number = call->number,
                       .rule = &call->rule,
                       .place = place,
                       .count = count,
                       .ld = r->ld,
                       .work = r->work,
                       .runs = r->runs};
    if (!is_label || gx_looks_for_background(&call->rule)) {
        p.g = gx_grid_take(place, i0, &r->cells, r->grid);
    }
    if (s->pattern != NULL) {
        p.m = s->pattern;
        p.m_rows = call->in[1]->rows;
        p.m_cols = call->in[1]->cols;
    } else if (s->sources[1] != NULL) {
        p.m = gx_grid_take(place, i0, &r->marks, r->mask);
    }
    if (is_grid) {
        p.out = is_label || place->rows == r->ld ? r->out + (place->row - i0) : r->made;
    }
    gx_err own;
    own.code = GX_OK; // its text comes with a failure
    if (s->op->kernel(&p, &own) != GX_OK) {
        return call->batch.count == 1
                   ? gx_fail(err, own.code, "%s", own.text)
                   : gx_fail(err, own.code, "grid %lld: %s", (long long)k, own.text);
    }
    if (is_grid && !is_label) {
        gx_grid_return(place, i0, r->ld, p.out, r->out);
    } else if (!is_grid) {
        s->value[k] = p.value;
    }
    return GX_OK;
}

/* Is each cell of the unit one of a grid? */
static bool is_covered(const scan *s, int64_t unit)
{
    const gx_grid_units *u = &s->units;
    int64_t cells = (u->row[unit + 1] - u->row[unit]) * s->cols;
    for (int64_t k = u->grid[unit]; k < u->grid[unit + 1]; k++) {
        cells -= s->call->batch.place[k].rows * s->call->batch.place[k].cols;
    }
    return cells == 0;
}

static gx_code work_on_unit(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                            gx_err *err)
{
    const scan *s = arg;
    const gx_grid_units *u = &s->units;
    int64_t i0 = u->row[unit], rows = u->row[unit + 1] - i0;
    room r;
    lay_out(s, work, &r);
    bool has_grids = u->grid[unit] < u->grid[unit + 1], is_masked = s->sources[1] != NULL;
    bool has_gaps = s->value == NULL && !is_covered(s, unit);
    int32_t *labels = s->value == NULL && s->call->id == GX_GRID_LABEL && !has_gaps
                          ? gx_grid_labels_in(&s->out)
                          : NULL;
    r.ld = rows;
    if (labels != NULL) {
        r.out = labels + i0;
        r.ld = s->out.sink->rows;
    } else if (has_gaps) {
        memset(r.out, 0, (size_t)(rows * s->cols) * sizeof *r.out);
    }
    if (has_grids) {
        GX_TRY(gx_grid_read(thread, s->call->in[0], i0, rows, r.chunk, r.g, &r.cells, err));
    }
    if (has_grids && is_masked) {
        GX_TRY(gx_grid_read(thread, s->call->in[1], i0, rows, r.chunk, r.m, &r.marks, err));
    }
    int64_t count = u->grid[unit + 1] - u->grid[unit], step = 1;
    if (s->call->id == GX_GRID_LABEL && !has_gaps && !gx_looks_for_background(&s->call->rule)) {
        step = count; // all of them in one go
    }
    for (int64_t k = 0; k < count && gx_ok(s->run); k += step) {
        GX_TRY(work_on(s, u->grid[unit] + k, step, i0, &r, err));
    }
    return s->value != NULL || labels != NULL
               ? GX_OK
               : gx_grid_give(&s->out, i0, rows, r.out, r.chunk, part, err);
}

static gx_code put_unit(void *arg, int64_t unit, void *part, gx_err *err)
{
    scan *s = arg;
    return gx_grid_put(&s->out, s->units.row[unit + 1] - s->units.row[unit], part, err);
}

static void run_pass(scan *s, gx_sink *C)
{
    gx_run *run = s->run;
    room r;
    double cells = (double)s->call->in[0]->rows * (double)s->cols;
    bool is_direct = s->value != NULL || gx_grid_is_direct(&s->out);
    size_t part = (size_t)(s->units.most_rows * s->cols) * gx_number_bytes(C->number);
    gx_pass pass = {.sources = s->sources,
                    .source_count = 2,
                    .units = s->units.count,
                    .bytes = cells * (double)gx_number_bytes(s->call->in[0]->number),
                    .flops = GX_GRID_FLOPS * cells,
                    .work_bytes = lay_out(s, NULL, &r),
                    .part_bytes = is_direct ? 0 : part,
                    .work = work_on_unit,
                    .fold = is_direct ? NULL : put_unit,
                    .is_callers = !is_direct,
                    .writes = is_direct ? NULL : C->meta.schema,
                    .arg = s};
    gx_pass_run(run, &pass);
}

/* Is there one grid, all of G, which is worth a team of its own? */
static bool is_large(const gx_grid_call *call)
{
    const gx_mat *G = call->in[0];
    const gx_grid_place *place = call->batch.place;
    return call->id != GX_GRID_LABEL && call->batch.count == 1 && place->rows == G->rows &&
           place->cols == G->cols && G->rows > GX_GRID_SMALL / G->cols;
}

/*
** A large grid: read by a team, and the kernel is the caller's, whose steps the team shares.
** Memory: 16 bytes for each cell, and 4 for those of a mask.
*/
static void run_alone(scan *s)
{
    gx_run *run = s->run;
    gx_mem *mem = run->ctx->mem;
    const gx_grid_call *call = s->call;
    size_t cells = (size_t)(call->in[0]->rows * s->cols);
    gx_err err = {0};
    int32_t *g = gx_grid_load(run, call->in[0]), *mask = NULL, *made = NULL, *work = NULL;
    gx_grid_piece p = {.run = run,
                       .caller = s->caller,
                       .id = call->id,
                       .rows = call->in[0]->rows,
                       .cols = s->cols,
                       .g = g,
                       .m = s->pattern,
                       .number = call->number,
                       .is_alone = true,
                       .out = s->value == NULL ? gx_grid_labels_in(&s->out) : NULL};
    if (s->pattern != NULL) {
        p.m_rows = call->in[1]->rows;
        p.m_cols = call->in[1]->cols;
    } else if (s->sources[1] != NULL && gx_ok(run)) {
        p.m = mask = gx_grid_load(run, s->sources[1]);
    }
    if (gx_ok(run) && s->value == NULL && p.out == NULL) {
        p.out = made = gx_run_alloc(run, cells * sizeof *made, "a grid");
    }
    if (gx_ok(run)) {
        p.work = work = gx_run_alloc(run, GX_GRID_WORK(cells) * sizeof *work, "a grid");
    }
    if (gx_ok(run) && gx_run_fail(run, (s->op->kernel(&p, &err), &err)) == GX_OK) {
        if (s->value != NULL) {
            s->value[0] = p.value;
        } else {
            gx_grid_give_all(&p, &s->out);
        }
    }
    gx_mem_free(mem, g);
    gx_mem_free(mem, mask);
    gx_mem_free(mem, made);
    gx_mem_free(mem, work);
}

gx_code gx_grid_run(gx_run *run, const gx_grid_call *call, gx_sink *C)
{
    gx_err err = {0};
    scan s = {.run = run,
              .caller = pthread_self(),
              .call = call,
              .op = &ops[call->id],
              .cols = call->in[0]->cols,
              .out = {.run = run, .sink = C}};
    s.out.is_unsigned = s.op->result == GX_GRID_LABELS;
    if (gx_ok(run) && (C->rows == 0 || C->cols == 0)) {
        return GX_OK;
    }
    if (!gx_ok(run) || gx_grid_check(call, &err) != GX_OK ||
        gx_grid_cut(run, &call->batch, GX_GRID_UNIT, &s.units) != GX_OK) {
        return gx_ok(run) ? gx_run_fail(run, &err) : run->err.code;
    }
    bool has_pattern = strchr(s.op->kinds, 'T') != NULL;
    s.sources[0] = call->in[0];
    s.sources[1] = has_pattern ? NULL : call->in[1];
    s.pattern = has_pattern ? gx_grid_load(run, call->in[1]) : NULL;
    if (s.op->result == GX_GRID_NUMBER) {
        s.value = gx_run_alloc(run, (size_t)gx_max(1, C->rows) * sizeof(double), "results");
    }
    if (gx_ok(run) && is_large(call)) {
        run_alone(&s);
    } else if (gx_ok(run)) {
        run_pass(&s, C);
    }
    if (gx_ok(run) && s.value != NULL && C->rows > 0) {
        assert(C->number == GX_F64 && C->rows == call->batch.count);
        gx_sink_write(C, 0, 0, C->rows, 1, s.value, C->rows, &err);
        gx_run_fail(run, &err);
    }
    gx_mem_free(run->ctx->mem, s.value);
    gx_mem_free(run->ctx->mem, s.pattern);
    gx_mem_free(run->ctx->mem, s.units.row);
    gx_mem_free(run->ctx->mem, s.out.rows);
    return gx_ok(run) ? GX_OK : run->err.code;
}
