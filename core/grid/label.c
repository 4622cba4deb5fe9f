/*
** Labels of one grid of any size, and tables of objects: see grid.h.
**
** The grid is cut into strips of rows.  A first pass labels each strip alone and keeps of it the
** colours and labels of its first and last row, where components may go on in the next strip: the
** components that reach these rows are *nodes*, numbered through the strips.  Folding joins nodes
** of neighbouring strips (union-find; the smaller number, which has the earlier first cell, is the
** root).  Labels of a strip ascend with the first cells, so a component's number is known from the
** strips before it and from how many of its strip's were joined to earlier ones.  A second pass
** labels each strip again, which costs less than keeping it, and renumbers; where labels lie in
** memory as they are, the first pass leaves the labels of a column's runs there, and the second
** spreads them.
**
** Memory: of a thread 17 bytes for each cell of a strip, and 8 more where the result is stored; of
** the call 16 bytes for each node, at most two for each column of a strip, and a third of a byte
** for each cell where labels lie in memory.
*/
#include "grid_int.h"

#include <string.h>

/* What is known of a strip when it has been folded. */
typedef struct strip {
    int64_t nodes;  /* the number of its first node                              */
    int64_t labels; /* components of it alone                                    */
    int64_t before; /* components that begin in earlier strips                   */
} strip;

typedef struct labelling {
    gx_run *run;
    const gx_mat *A;
    gx_component_rule rule;
    int64_t height, count; /* of a strip; strips                                        */
    strip *strips;         /* count + 1                                                 */
    char *bits;            /* of each strip: start, object and before of its runs; NULL: not kept */

    int64_t nodes, capacity;
    int64_t *parent;  /* of a node: a smaller one, or itself                          */
    int32_t *local;   /* its label in its strip, ascending there                      */
    uint32_t *number; /* its number in the result                                    */

    int32_t *last_colour; /* the last row that was folded                             */
    int64_t *last_node;   /* ... and its nodes, -1: none                              */

    int64_t *tally; /* of all colours, while the background is looked for      */
    gx_grid_out out;
    gx_grid_objects *objects; /* NULL: labels are written                             */
} labelling;

/* A thread's memory, for a strip. */
typedef struct room {
    int32_t *colour; /* then labels of cells */
    void *chunk;
    gx_runs runs;
} room;

/* Cut from memory, for so many rows; NULL: its bytes are counted. */
static size_t lay_out(const labelling *x, int64_t rows, char *memory, room *r)
{
    size_t cells = (size_t)((x->height * x->A->cols + 15) / 16 * 16) * sizeof(int32_t);
    size_t chunk = (gx_grid_chunk_bytes(x->height, x->A->cols) + 63) / 64 * 64;
    r->colour = (int32_t *)memory;
    r->chunk = memory == NULL ? NULL : memory + cells;
    return cells + chunk +
           gx_runs_lay_out(rows, x->A->cols, memory == NULL ? NULL : memory + cells + chunk,
                           &r->runs);
}

/* The bits of a strip's runs are those that are kept. */
static size_t bits_bytes(const gx_runs *runs)
{
    size_t words = (size_t)(runs->words * runs->cols);
    return (2 * words * sizeof(uint64_t) + (words + 1) * sizeof(int32_t) + 7) / 8 * 8;
}

static void keep_bits(const labelling *x, int64_t unit, gx_runs *runs)
{
    gx_runs whole;
    gx_runs_lay_out(x->height, x->A->cols, NULL, &whole);
    runs->start = (uint64_t *)(x->bits + (size_t)unit * bits_bytes(&whole));
    runs->object = runs->start + runs->words * runs->cols;
    runs->before = (int32_t *)(runs->object + runs->words * runs->cols);
}

static int64_t rows_of(const labelling *x, int64_t unit)
{
    return gx_min(x->height, x->A->rows - unit * x->height);
}

static gx_pass pass_of(const labelling *x, double flops)
{
    room r;
    double cells = (double)x->A->rows * (double)x->A->cols;
    return (gx_pass){.sources = &x->A,
                     .source_count = 1,
                     .units = x->count,
                     .bytes = cells * (double)gx_number_bytes(x->A->number),
                     .flops = flops * cells,
                     .work_bytes = lay_out(x, x->height, NULL, &r)};
}

// The background ----------------------------------------------------------------------------------

static gx_code tally_strip(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                           gx_err *err)
{
    const labelling *x = arg;
    int64_t rows = rows_of(x, unit);
    room r;
    gx_grid_cells cells;
    lay_out(x, rows, work, &r);
    memset(part, 0, GX_TALLY * sizeof(int32_t));
    GX_TRY(gx_grid_read(thread, x->A, unit * x->height, rows, r.chunk, r.colour, &cells, err));
    return gx_grid_tally(&cells, rows, x->A->cols, part, err);
}

static gx_code add_tally(void *arg, int64_t unit, void *part, gx_err *err)
{
    labelling *x = arg;
    (void)unit, (void)err;
    for (int64_t c = 0; c < GX_TALLY; c++) {
        x->tally[c] += ((const int32_t *)part)[c];
    }
    return GX_OK;
}

static void find_background(labelling *x)
{
    int64_t most = 0;
    gx_pass pass = pass_of(x, 4);
    x->tally = gx_run_calloc(x->run, GX_TALLY * sizeof *x->tally, "counts of colours");
    if (x->tally == NULL) {
        return;
    }
    pass.part_bytes = GX_TALLY * sizeof(int32_t);
    pass.work = tally_strip;
    pass.fold = add_tally;
    pass.arg = x;
    gx_pass_run(x->run, &pass);
    for (int64_t c = 0; c < GX_TALLY; c++) {
        most = x->tally[c] > x->tally[most] ? c : most;
    }
    x->rule.background = (int32_t)(most - GX_COLOUR_MOST);
    gx_mem_free(x->run->ctx->mem, x->tally);
}

// The first pass ----------------------------------------------------------------------------------

/*
** What a strip hands to the fold: its counts, then of cols entries each the first row's colours and
** labels, the last row's colours and nodes (-1: none; counted from the strip's first), and the
** labels of nodes that do not reach the first row.  Those that do are labels 1 to `top`.
*/
typedef struct edges {
    int64_t labels, top, below;
    int32_t *top_colour, *top_label, *last_colour, *last_node, *low;
} edges;

enum { EDGE_ROWS = 5 };

static size_t edge_bytes(const labelling *x)
{
    return sizeof(edges) + EDGE_ROWS * (size_t)x->A->cols * sizeof(int32_t);
}

static edges *edges_in(const labelling *x, void *part)
{
    edges *e = part;
    int32_t *rows = (int32_t *)(e + 1);
    int64_t cols = x->A->cols;
    e->top_colour = rows;
    e->top_label = rows + cols;
    e->last_colour = rows + 2 * cols;
    e->last_node = rows + 3 * cols;
    e->low = rows + 4 * cols;
    return e;
}

/* Read a strip and find its components. */
static gx_code label_strip(const labelling *x, int64_t unit, gx_pass_thread *thread, room *r,
                           gx_grid_cells *cells, int32_t *labels, gx_err *err)
{
    int64_t rows = rows_of(x, unit);
    GX_TRY(gx_grid_read(thread, x->A, unit * x->height, rows, r->chunk, r->colour, cells, err));
    *labels = gx_runs_find(&x->rule, cells, &r->runs);
    return GX_OK;
}

/* Row i of a strip: its colours, and its labels, 0 of the background. */
static void edge_of(const gx_runs *runs, const gx_grid_cells *cells, int64_t i, int32_t *colour,
                    int32_t *label)
{
    const gx_grid_cells row = gx_grid_cells_at(cells, i);
    gx_grid_colours(&row, 1, runs->cols, colour, 1);
    for (int64_t j = 0; j < runs->cols; j++) {
        const int64_t word = j * runs->words + i / 64;
        bool is_object = (runs->object[word] >> i % 64 & 1) != 0;
        // A column's first run holds its first cell, its last run the last one.
        int32_t run = i == 0 ? runs->before[word] : runs->before[word + 1] - 1;
        label[j] = is_object ? runs->label[run] : 0;
    }
}

/*
** Labels of a strip's runs to where those of its cells are to be, one column's place after the
** other: run k is in that of a column which none of the runs behind it is before.
*/
static void put_runs(const labelling *x, int64_t unit, const gx_runs *runs)
{
    int32_t *to = gx_grid_labels_in(&x->out) + unit * x->height;
    int64_t count = runs->before[runs->words * runs->cols];
    for (int64_t k = 0; k < count; k += runs->rows, to += x->A->rows) {
        memcpy(to, runs->label + k, (size_t)gx_min(runs->rows, count - k) * sizeof *to);
    }
}

static gx_code find_edges(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                          gx_err *err)
{
    const labelling *x = arg;
    int64_t cols = x->A->cols, rows = rows_of(x, unit);
    int32_t labels;
    gx_grid_cells cells;
    room r;
    lay_out(x, rows, work, &r);
    if (x->bits != NULL) {
        keep_bits(x, unit, &r.runs);
    }
    GX_TRY(label_strip(x, unit, thread, &r, &cells, &labels, err));
    edges *e = edges_in(x, part);
    e->labels = labels;
    e->top = e->below = 0;
    edge_of(&r.runs, &cells, 0, e->top_colour, e->top_label);
    edge_of(&r.runs, &cells, rows - 1, e->last_colour, e->last_node);
    int32_t *node = r.runs.parent; // of each label, -1: it is none
    memset(node, 0, ((size_t)labels + 1) * sizeof *node);
    for (int64_t j = 0; j < cols; j++) {
        e->top = gx_max(e->top, e->top_label[j]);
        node[e->last_node[j]] = 1;
    }
    for (int32_t l = 1; l <= labels; l++) {
        if (l <= e->top) {
            node[l] = l - 1;
        } else if (node[l] == 1) {
            e->low[e->below] = l;
            node[l] = (int32_t)(e->top + e->below++);
        }
    }
    node[0] = -1;
    for (int64_t j = 0; j < cols; j++) {
        e->last_node[j] = node[e->last_node[j]];
    }
    if (x->bits != NULL) {
        put_runs(x, unit, &r.runs);
    }
    return GX_OK;
}

/* A cell of the last row that was folded and one of the next strip's first row. */
static void meet(labelling *x, const edges *e, int64_t above, int64_t below, int64_t first)
{
    bool are_objects = x->last_node[above] >= 0 && e->top_label[below] > 0;
    bool are_alike = !x->rule.is_of_colour || x->last_colour[above] == e->top_colour[below];
    if (are_objects && are_alike) {
        int64_t a = gx_root_of(x->parent, x->last_node[above]);
        int64_t b = gx_root_of(x->parent, first + e->top_label[below] - 1);
        x->parent[gx_max(a, b)] = gx_min(a, b);
    }
}

static gx_code make_nodes(labelling *x, const edges *e, gx_err *err)
{
    gx_mem *mem = x->run->ctx->mem;
    int64_t count = e->top + e->below;
    if (x->nodes + count > x->capacity) {
        size_t capacity = (size_t)gx_max(2 * x->capacity, x->nodes + count);
        const char *what = "components at the edges of strips";
        GX_TRY(gx_mem_realloc(mem, capacity * sizeof *x->parent, what, &x->parent, err));
        GX_TRY(gx_mem_realloc(mem, capacity * sizeof *x->local, what, &x->local, err));
        x->capacity = (int64_t)capacity;
    }
    for (int64_t n = 0; n < count; n++) {
        x->parent[x->nodes + n] = x->nodes + n;
        x->local[x->nodes + n] = n < e->top ? (int32_t)(n + 1) : e->low[n - e->top];
    }
    x->nodes += count;
    return GX_OK;
}

static gx_code join_strip(void *arg, int64_t unit, void *part, gx_err *err)
{
    labelling *x = arg;
    const edges *e = edges_in(x, part);
    int64_t cols = x->A->cols, first = x->nodes;
    x->strips[unit] = (strip){.nodes = first, .labels = e->labels};
    GX_TRY(make_nodes(x, e, err));
    x->strips[unit + 1].nodes = x->nodes;
    for (int64_t j = 0; j < cols && unit > 0; j++) {
        meet(x, e, j, j, first);
        if (x->rule.is_eight && j > 0) {
            meet(x, e, j - 1, j, first);
            meet(x, e, j, j - 1, first);
        }
    }
    memcpy(x->last_colour, e->last_colour, (size_t)cols * sizeof *x->last_colour);
    for (int64_t j = 0; j < cols; j++) {
        x->last_node[j] = e->last_node[j] < 0 ? -1 : first + e->last_node[j];
    }
    return GX_OK;
}

/* Numbers of all nodes, and how many components begin before each strip. */
static void number_nodes(labelling *x)
{
    int64_t before = 0;
    x->number = gx_run_alloc(x->run, (size_t)gx_max(1, x->nodes) * sizeof *x->number,
                             "components at the edges of strips");
    for (int64_t u = 0; u < x->count && x->number != NULL; u++) {
        int64_t joined = 0;
        x->strips[u].before = before;
        for (int64_t n = x->strips[u].nodes; n < x->strips[u + 1].nodes; n++) {
            bool is_first = x->parent[n] == n;
            int64_t own = before + x->local[n] - joined;
            x->number[n] = is_first ? (uint32_t)own : x->number[gx_root_of(x->parent, n)];
            joined += !is_first;
        }
        before += x->strips[u].labels - joined;
    }
    if (before > UINT32_MAX) {
        gx_run_failf(x->run, GX_TOOBIG, "%s has %lld components, more than 2^32 - 1", x->A->label,
                     (long long)before);
    }
}

// The second pass ---------------------------------------------------------------------------------

/* number[l] = what the strip's label l is among those of all. */
static void numbers_of(const labelling *x, int64_t unit, uint32_t *number)
{
    int64_t end = x->strips[unit + 1].nodes, joined = 0, l = 1;
    number[0] = 0;
    for (int64_t n = x->strips[unit].nodes; n <= end; n++) {
        int64_t next = n < end ? x->local[n] : x->strips[unit].labels + 1;
        uint32_t before = (uint32_t)(x->strips[unit].before - joined);
        for (; l < next; l++) {
            number[l] = before + (uint32_t)l;
        }
        if (n < end) {
            number[l++] = x->number[n];
            joined += x->parent[n] != n;
        }
    }
}

/* From the last column on, so that runs are read before cells are written where they lie. */
static gx_code spread_strip(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                            gx_err *err)
{
    const labelling *x = arg;
    int64_t rows = rows_of(x, unit);
    room r;
    (void)thread, (void)part, (void)err;
    lay_out(x, rows, work, &r);
    keep_bits(x, unit, &r.runs);
    uint32_t *number = (uint32_t *)r.runs.parent;
    int32_t *labels = gx_grid_labels_in(&x->out) + unit * x->height, *own = r.runs.label;
    numbers_of(x, unit, number);
    for (int64_t j = x->A->cols - 1; j >= 0; j--) {
        const int32_t *first = r.runs.before + j * r.runs.words;
        int64_t k = *first, end = first[r.runs.words];
        for (int32_t *to = own; k < end;) {
            const int32_t *from = labels + k / rows * x->A->rows + k % rows;
            for (int64_t stop = gx_min(end, (k / rows + 1) * rows); k < stop; k++) {
                *to++ = (int32_t)number[*from++];
            }
        }
        gx_runs_spread(&r.runs, j, own, labels + j * x->A->rows);
    }
    return GX_OK;
}

static gx_code write_strip(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                           gx_err *err)
{
    const labelling *x = arg;
    int64_t rows = rows_of(x, unit), cells = rows * x->A->cols;
    int32_t labels;
    gx_grid_cells lie;
    room r;
    lay_out(x, rows, work, &r);
    GX_TRY(label_strip(x, unit, thread, &r, &lie, &labels, err));
    uint32_t *number = (uint32_t *)r.runs.parent;
    numbers_of(x, unit, number);
    for (int32_t k = 0; k < r.runs.before[r.runs.words * r.runs.cols]; k++) {
        r.runs.label[k] = (int32_t)number[r.runs.label[k]];
    }
    if (x->objects != NULL) {
        gx_grid_colours(&lie, rows, x->A->cols, part, rows);
        gx_runs_labels(&r.runs, (int32_t *)part + cells, rows);
        return GX_OK;
    }
    gx_runs_labels(&r.runs, r.colour, rows);
    return gx_grid_give(&x->out, unit * x->height, rows, r.colour, r.chunk, part, err);
}

static gx_code put_strip(void *arg, int64_t unit, void *part, gx_err *err)
{
    labelling *x = arg;
    return gx_grid_put(&x->out, rows_of(x, unit), part, err);
}

// Objects -----------------------------------------------------------------------------------------

/* Objects that nobody had yet, up to number `count`. */
static gx_code add_objects(gx_mem *mem, gx_grid_objects *o, gx_grid_object fresh, int64_t base,
                           int64_t count, gx_err *err)
{
    if (count > o->capacity) {
        size_t capacity = (size_t)gx_max(gx_max(64, 2 * o->capacity), count);
        GX_TRY(gx_mem_realloc(mem, capacity * sizeof *o->object, "objects", &o->object, err));
        o->capacity = (int64_t)capacity;
    }
    for (; o->count < count; o->count++) {
        fresh.label = o->count - base + 1;
        o->object[o->count] = fresh;
    }
    return GX_OK;
}

/*
** Rows of a grid from its row i0 on, whose labels begin with object `base`; columns of both arrays,
** of which `width` are the grid's, are ld apart.
*/
static gx_code take_objects(gx_mem *mem, gx_grid_objects *o, int64_t grid, int64_t base, int64_t i0,
                            int64_t rows, int64_t width, int64_t ld, const int32_t *colour,
                            const int32_t *label, gx_err *err)
{
    const gx_grid_object fresh = {.grid = grid, .top = INT64_MAX, .left = INT64_MAX};
    for (int64_t j = 0; j < width; j++, colour += ld, label += ld) {
        for (int64_t i = 0, end; i < rows; i = end) { // cells that are alike
            end = i + 1;
            while (end < rows && label[end] == label[i] && colour[end] == colour[i]) {
                end++;
            }
            int64_t k = base + (int64_t)(uint32_t)label[i] - 1, count = end - i;
            if (label[i] == 0) {
                continue;
            }
            if (k >= o->count) {
                GX_TRY(add_objects(mem, o, fresh, base, k + 1, err));
            }
            gx_grid_object *at = &o->object[k];
            at->colour = at->cells == 0 ? colour[i] : at->colour;
            at->is_mixed |= at->colour != colour[i];
            at->cells += count;
            at->row_sum += count * (i0 + i) + count * (count - 1) / 2;
            at->col_sum += count * j;
            at->top = gx_min(at->top, i0 + i);
            at->bottom = gx_max(at->bottom, i0 + end - 1);
            at->left = gx_min(at->left, j);
            at->right = gx_max(at->right, j);
        }
    }
    return GX_OK;
}

static gx_code take_strip(void *arg, int64_t unit, void *part, gx_err *err)
{
    labelling *x = arg;
    int64_t rows = rows_of(x, unit), cols = x->A->cols;
    const int32_t *colour = part, *label = colour + rows * cols;
    return take_objects(x->run->ctx->mem, x->objects, 0, 0, unit * x->height, rows, cols, rows,
                        colour, label, err);
}

// One grid ----------------------------------------------------------------------------------------

void gx_label_tiles(gx_run *run, const gx_mat *A, int64_t *tile_rows, int64_t *tile_cols)
{
    // Tall strips: a column's part of one is then more than a cache line or two.
    enum { CELLS = 1 << 22, LEAST = 1 << 18, MOST = 8 << 20, THREAD_BYTES = 28, SHARES = 3 };
    enum { STRIPS = 8 }; // of little, so that all threads have some
    int64_t most_bytes = (int64_t)gx_store_max_tile_bytes(run->ctx->store);
    int64_t cols = gx_max(1, A->cols), rows = gx_max(1, A->rows);
    int64_t height = gx_min(CELLS / cols, gx_max(LEAST / cols, rows / STRIPS));
    int64_t fit = (int64_t)(gx_mem_available(run->ctx->mem) / SHARES / THREAD_BYTES) / cols;
    if (gx_mat_base_stored(A) != NULL && A->tile_rows > height) {
        // All of a tile is read for a part of it: as large a part as memory allows.
        height = A->tile_rows;
        while (height > 1 && (height > fit || height * cols > MOST)) {
            height = gx_ceil_div(height, 2);
        }
    }
    *tile_rows = gx_max(1, gx_min(gx_min(height, fit), rows));
    *tile_rows = gx_min(*tile_rows, most_bytes / (int64_t)sizeof(double));
    *tile_cols = gx_min(cols, gx_max(1, most_bytes / (int64_t)sizeof(double) / *tile_rows));
}

/* Both passes; out.sink or objects is set. */
static void run_passes(labelling *x)
{
    int64_t cols = x->A->cols;
    bool is_direct = x->objects == NULL && gx_grid_is_direct(&x->out);
    room r;
    lay_out(x, x->height, NULL, &r);
    size_t bits = (size_t)x->count * bits_bytes(&r.runs),
           spared = gx_mem_available(x->run->ctx->mem);
    if (x->objects == NULL && gx_grid_labels_in(&x->out) != NULL && bits < spared / 4) {
        x->bits = gx_run_alloc(x->run, bits, "runs of cells");
    }
    gx_pass first = pass_of(x, 40), second = pass_of(x, 40);
    first.part_bytes = edge_bytes(x);
    first.work = find_edges;
    first.fold = join_strip;
    first.arg = second.arg = x;
    if (gx_pass_run(x->run, &first) == GX_OK) {
        number_nodes(x);
    }
    second.part_bytes = is_direct            ? 0
                        : x->objects != NULL ? (size_t)(x->height * cols) * 2 * sizeof(int32_t)
                                             : (size_t)(x->height * cols) * sizeof(double);
    second.work = write_strip;
    second.fold = is_direct ? NULL : x->objects != NULL ? take_strip : put_strip;
    second.is_callers = !is_direct && x->objects == NULL;
    if (x->bits != NULL) {
        second.work = spread_strip;
        second.source_count = 0;
    }
    second.writes = second.is_callers ? x->out.sink->meta.schema : NULL;
    if (second.is_callers) { // the sink takes a tile beside the threads
        const gx_sink *C = x->out.sink;
        size_t tile = (size_t)(C->tile_rows * C->tile_cols) * sizeof(double);
        size_t left = gx_mem_available(x->run->ctx->mem);
        size_t fit = left > tile ? (left - tile) / gx_pass_thread_bytes(&second) : 0;
        second.threads = fit > 0 ? (int64_t)fit : 1;
    }
    if (gx_ok(x->run)) {
        gx_pass_run(x->run, &second);
    }
}

/* Of A alone. */
static void label_one(gx_run *run, const gx_mat *A, const gx_label_rule *rule, int64_t height,
                      gx_sink *C, gx_grid_objects *objects)
{
    gx_err err = {0};
    labelling *x = NULL;
    if (gx_grid_is_of_colours(A, &err) == GX_OK && A->cols > 0 &&
        height > INT32_MAX / 2 / A->cols) {
        gx_fail(&err, GX_TOOBIG, "%s has %lld columns, more than 2^30", A->label,
                (long long)A->cols);
    }
    gx_run_fail(run, &err);
    if (!gx_ok(run) || A->rows == 0 || A->cols == 0 ||
        (x = gx_run_calloc(run, sizeof *x, "labels")) == NULL) {
        return;
    }
    x->run = run;
    x->A = A;
    x->rule = gx_component_rule_of(rule, 0);
    x->height = height;
    x->count = gx_ceil_div(A->rows, height);
    x->out = (gx_grid_out){.run = run, .sink = C, .is_unsigned = true};
    x->objects = objects;
    x->strips = gx_run_calloc(run, (size_t)(x->count + 1) * sizeof *x->strips, "strips");
    x->last_colour = gx_run_alloc(run, (size_t)A->cols * sizeof *x->last_colour, "a row");
    x->last_node = gx_run_alloc(run, (size_t)A->cols * sizeof *x->last_node, "a row");
    if (gx_ok(run) && gx_looks_for_background(rule)) {
        find_background(x);
    }
    if (gx_ok(run)) {
        run_passes(x);
    }
    void *owned[] = {x->strips,    x->parent,   x->local, x->number, x->last_colour,
                     x->last_node, x->out.rows, x->bits,  x};
    for (size_t k = 0; k < sizeof owned / sizeof *owned; k++) {
        gx_mem_free(run->ctx->mem, owned[k]);
    }
}

gx_code gx_grid_label(gx_run *run, const gx_mat *A, const gx_label_rule *rule, gx_sink *C)
{
    int64_t height, width;
    gx_label_tiles(run, A, &height, &width);
    if (gx_ok(run) && A->rows <= GX_GRID_SMALL / gx_max(1, A->cols)) {
        gx_grid_call call = {.id = GX_GRID_LABEL, .in = {A}, .rule = *rule};
        if (gx_grid_batch_one(run, A, &call.batch) == GX_OK) {
            gx_grid_run(run, &call, C);
        }
        gx_mem_free(run->ctx->mem, call.batch.place);
    } else if (gx_ok(run)) {
        label_one(run, A, rule, C->is_stored ? C->tile_rows : height, C, NULL);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

// All grids of a batch ----------------------------------------------------------------------------

typedef struct finding {
    gx_run *run;
    const gx_mat *A;
    const gx_grid_batch *batch;
    const gx_label_rule *rule;
    gx_grid_units units;
    size_t runs_at; /* in a thread's memory, behind the chunk */
    gx_grid_objects *found;
} finding;

/* The part: colours and labels of the unit's rows. */
static gx_code find_in_unit(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                            gx_err *err)
{
    const finding *f = arg;
    const gx_grid_units *u = &f->units;
    int64_t i0 = u->row[unit], rows = u->row[unit + 1] - i0, cols = f->A->cols;
    char *memory = (char *)work + gx_grid_chunk_bytes(u->most_rows, cols);
    int32_t *wide = (int32_t *)memory;
    bool is_asked = gx_looks_for_background(f->rule);
    int32_t *colour = part, *label = colour + rows * cols;
    gx_grid_cells lie;
    if (u->grid[unit] == u->grid[unit + 1]) {
        return GX_OK;
    }
    GX_TRY(gx_grid_read(thread, f->A, i0, rows, work, label, &lie, err));
    gx_grid_colours(&lie, rows, cols, colour, rows);
    lie = (gx_grid_cells){.at = colour, .ld = rows, .end = colour + rows * cols};
    for (int64_t k = u->grid[unit]; k < u->grid[unit + 1] && gx_ok(f->run); k++) {
        const gx_grid_place *place = &f->batch->place[k];
        gx_grid_piece p = {.run = f->run,
                           .rows = place->rows,
                           .cols = place->cols,
                           .g = is_asked ? gx_grid_take(place, i0, &lie, wide) : NULL,
                           .cells = gx_grid_cells_at(&lie, place->row - i0),
                           .rule = f->rule,
                           .out = label + (place->row - i0),
                           .ld = rows,
                           .work = wide + u->most_cells,
                           .runs = memory + f->runs_at};
        GX_TRY(gx_grid_labelled(&p, err));
    }
    return GX_OK;
}

static gx_code take_unit(void *arg, int64_t unit, void *part, gx_err *err)
{
    const finding *f = arg;
    const gx_grid_units *u = &f->units;
    int64_t i0 = u->row[unit], rows = u->row[unit + 1] - i0, cols = f->A->cols;
    const int32_t *colour = part, *label = colour + rows * cols;
    for (int64_t k = u->grid[unit]; k < u->grid[unit + 1]; k++) {
        const gx_grid_place *place = &f->batch->place[k];
        int64_t at = place->row - i0;
        GX_TRY(take_objects(f->run->ctx->mem, f->found, k, f->found->count, 0, place->rows,
                            place->cols, rows, colour + at, label + at, err));
    }
    return GX_OK;
}

gx_code gx_grid_find_objects(gx_run *run, const gx_mat *A, const gx_grid_batch *batch,
                             const gx_label_rule *rule, gx_grid_objects *found)
{
    enum { UNIT_CELLS = 1 << 16 };
    bool is_alone =
        batch->count == 1 && batch->place[0].rows == A->rows && batch->place[0].cols == A->cols;
    *found = (gx_grid_objects){0};
    if (is_alone) {
        int64_t height, width;
        gx_label_tiles(run, A, &height, &width);
        label_one(run, A, rule, height, NULL, found);
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    if (batch->count == 0) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    finding f = {.run = run, .A = A, .batch = batch, .rule = rule, .found = found};
    GX_TRY(gx_grid_cut(run, batch, UNIT_CELLS, &f.units));
    double cells = (double)A->rows * (double)A->cols;
    size_t most = (size_t)(f.units.most_rows * A->cols);
    gx_runs runs;
    f.runs_at = (size_t)(3 * f.units.most_cells + 1 + 15) / 16 * 16 * sizeof(int32_t);
    gx_pass pass = {.sources = &f.A,
                    .source_count = 1,
                    .units = f.units.count,
                    .bytes = cells * (double)gx_number_bytes(A->number),
                    .flops = 60 * cells,
                    .work_bytes = gx_grid_chunk_bytes(f.units.most_rows, A->cols) + f.runs_at +
                                  gx_runs_lay_out(f.units.most_rows, A->cols, NULL, &runs),
                    .part_bytes = 2 * most * sizeof(int32_t),
                    .work = find_in_unit,
                    .fold = take_unit,
                    .arg = &f};
    gx_pass_run(run, &pass);
    gx_mem_free(run->ctx->mem, f.units.row);
    return gx_ok(run) ? GX_OK : run->err.code;
}
