/*
** The index of a vector table, searched.
**
** The centres' codes rank the lists.  The lists that are nearest are looked at: products of codes
** bound the merits of their rows from above, and the rows wait in a heap by that bound.  The first
** of the heap are looked up in NAME_full, one by one: a row that is not there, or with another
** round, has been deleted or has moved since; a condition may not let it through; else its merit is
** computed from its vector.  When the k-th best merit is more than the next bound, no other row of
** these lists can be among the best: within its lists a search is exact.
**
** With conditions it goes on behind its lists until as many lists have brought nothing; and it
** always goes on until k rows are found, or there are no lists left.
**
** What has been read of NAME_list and NAME_full stays in memory for the next search in one block of
** the governor (gx_mem_keep()), as long as the index is in the same state and the block is not
** larger than a half of what may stand idle.  Lists lie in it from its start on, vectors from its
** end on, where lists leave room; what there is no room for is read each time.
**
** Memory: the block; 24 bytes for each row that waits, 24 for each list, 16 k.
*/
#include "vectors.h"

#include "../core/base/best.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/*
** Conditions that let fewer pass than one row in SHARE, of at least FEW that have been asked about,
** or that have been asked about one row in TESTS of all, are better asked about all rows.
*/
enum { SHARE = 50, FEW = 400, TESTS = 64, TESTS_LEAST = 4096 };

/*
** A row that waits, or a list: upper is its bound.  kept: where the block says what NAME_full has
** of the row: the place of its vector in the block, UNKNOWN or GONE; NULL where nothing is kept.
*/
enum { UNKNOWN = 0, GONE = -1 };

typedef struct waiting {
    float upper;
    int32_t round;
    int64_t id;
    int64_t *kept;
} waiting;

enum { FIRST_ROWS = 1024, LISTS_MORE = 8, LIKELY = 3 };

typedef struct heap {
    gx_mem *mem;
    waiting *of; /* the largest bound first */
    int64_t count, room;
} heap;

/*
** Panels of a list in the block: one behind the other, each after its number of rows and what is
** kept of each row.
*/
typedef struct place {
    size_t at;
    int64_t panels;
    bool is_there;
} place;

typedef struct block {
    gx_mem_key key;
    size_t used, room; /* of lists       */
    size_t vectors;    /* where they end: they begin at the end of the block */
    size_t lists;      /* all lists together need so much: vectors end behind it */
    place list[];      /* the centres, then the lists */
} block;

typedef struct prober {
    gx_run *run;
    gx_vec_table *t;
    const gx_vec_index *index;
    gx_vec_probing *p;
    gx_ivf_query query;
    block *kept; /* NULL: nothing is kept */
    void *spare; /* a panel that is not   */
    size_t spare_bytes;
    float *bound; /* of each list */
    int64_t centres;
    heap lists, rows; /* lists: those that are left when all that are near have been looked at */
    double *row;      /* a vector, as numbers  */
    int64_t *near;    /* lists, the nearest first: so many; how many of all have been looked at */
    int64_t nears, looked;
    double floor; /* a bound below it is of none of the best */
    int64_t tested, scored;
    int64_t brought; /* how many lists had been looked at when one brought something */
} prober;

// The heap ----------------------------------------------------------------------------------------

static bool is_before(const waiting *a, const waiting *b)
{
    return a->upper != b->upper ? a->upper > b->upper : a->id < b->id;
}

static gx_code push(heap *h, waiting w, gx_err *err)
{
    if (h->count == h->room) {
        int64_t room = 2 * h->room;
        GX_TRY(gx_mem_realloc(h->mem, (size_t)room * sizeof *h->of, "rows of lists", &h->of, err));
        h->room = room;
    }
    int64_t at = h->count++;
    for (int64_t up = (at - 1) / 2; at > 0 && is_before(&w, &h->of[up]); up = (at - 1) / 2) {
        h->of[at] = h->of[up];
        at = up;
    }
    h->of[at] = w;
    return GX_OK;
}

/* w at `at`, or below. */
static void sink(heap *h, int64_t at, waiting w)
{
    for (int64_t child = 2 * at + 1; child < h->count; child = 2 * at + 1) {
        child += child + 1 < h->count && is_before(&h->of[child + 1], &h->of[child]);
        if (!is_before(&h->of[child], &w)) {
            break;
        }
        h->of[at] = h->of[child];
        at = child;
    }
    h->of[at] = w;
}

static waiting pop(heap *h)
{
    waiting first = h->of[0], last = h->of[--h->count];
    sink(h, 0, last);
    return first;
}

// What is kept ------------------------------------------------------------------------------------

static const gx_vec_column *column_of(const prober *x)
{
    return &x->t->shape.vector[x->index->vector];
}

static size_t head_bytes(const gx_vec_index *index)
{
    return gx_whole_lines(sizeof(block) + (size_t)(index->lists + 1) * sizeof(place));
}

static size_t panel_head(int64_t m)
{
    return (size_t)(1 + m) * sizeof(int64_t);
}

static size_t panel_room(int64_t m, int64_t d)
{
    return gx_whole_lines(panel_head(m) + gx_ivf_panel_bytes(m, d));
}

/* In the place of a file: the state says which index it is, whatever the file. */
static const uint64_t KEY = 0x76697867;

/* The block of earlier searches, or a new one. */
static void claim(prober *x)
{
    const gx_vec_index *index = x->index;
    gx_mem *mem = x->run->ctx->mem;
    gx_err ignored = {.code = GX_OK};
    size_t head = head_bytes(index), most = gx_mem_keeps(mem) / 2;
    double rows = (double)index->entries, lists = (double)head;
    lists += (double)panel_room(1, index->dims) * (double)(index->panels + index->lists + 1);
    lists += (double)(gx_ivf_panel_bytes(1, index->dims) + sizeof(int64_t)) *
             (rows + (double)index->lists);
    double all = lists + rows * (double)gx_whole_lines(column_of(x)->bytes);
    gx_mem_key key = {
        .file = KEY, .id = index->state, .generation = index->entries, .part = {index->vector}};
    key.part[1] = index->lists;
    key.part[2] = index->dims;
    key.part[3] = (int64_t)column_of(x)->bytes;
    x->t->is_marked = false;
    most = all < (double)most ? (size_t)all : most;
    if (most < head || gx_mem_has_lent(mem, &key)) {
        return;
    }
    x->kept = gx_mem_claim(mem, &key, most);
    if (x->kept == NULL && gx_mem_alloc(mem, most, "lists", &x->kept, &ignored) == GX_OK) {
        memset(x->kept, 0, head);
        x->kept->key = key;
        x->kept->used = head;
        x->kept->room = x->kept->vectors = most;
        x->kept->lists = lists < (double)most ? (size_t)lists : most;
    }
    if (x->kept != NULL) {
        gx_mem_keep_freed(mem, x->kept, &x->kept->key);
    }
}

/* Memory for a panel of m rows: in the block, or what the next one overwrites. */
static int64_t *panel_memory(prober *x, int64_t m, bool *is_kept, gx_err *err)
{
    block *b = x->kept;
    size_t room = panel_room(m, x->index->dims);
    *is_kept = *is_kept && b != NULL && room <= b->vectors - b->used;
    if (*is_kept) {
        char *at = (char *)b + b->used;
        b->used += room;
        return (int64_t *)(void *)at;
    }
    if (room > x->spare_bytes) {
        x->spare_bytes = 0;
        if (gx_mem_realloc(x->run->ctx->mem, room, "a list", &x->spare, err) != GX_OK) {
            return NULL;
        }
        x->spare_bytes = room;
    }
    return x->spare;
}

/* What NAME_full has of a row, NULL: nothing any more, is kept, if there is room. */
static void keep_vector(prober *x, const waiting *w, const void *data)
{
    block *b = x->kept;
    size_t bytes = column_of(x)->bytes, room = gx_whole_lines(bytes);
    if (w->kept == NULL) {
        return;
    }
    if (data == NULL) {
        *w->kept = GONE;
    } else if (b->vectors >= b->lists + room && b->vectors >= b->used + room) {
        b->vectors -= room;
        memcpy((char *)b + b->vectors, data, bytes);
        *w->kept = (int64_t)b->vectors;
    }
}

// Lists -------------------------------------------------------------------------------------------

/* Bounds of lists: each comes once, by its number.  is_kept: they have been looked at. */
static gx_code take_centres(prober *x, const gx_ivf_panel *panel, bool is_kept, gx_err *err)
{
    bool is_good = panel->m <= x->index->lists - x->centres;
    for (int64_t i = 0; i < panel->m && is_good && !is_kept; i++) {
        is_good = panel->id[i] == x->centres + i;
    }
    if (!is_good) {
        return gx_fail(err, GX_CORRUPT, "%s_list has other centres", x->t->name);
    }
    x->centres += panel->m;
    return gx_ivf_bound(&x->query, panel, false, x->bound + x->centres - panel->m, err);
}

/* Bounds of a panel's rows: those that may be among the best wait.  kept: of each; NULL: none. */
static gx_code take_rows(prober *x, const gx_ivf_panel *panel, int64_t *kept, gx_err *err)
{
    float upper[GX_IVF_PANEL_ROWS], floor = (float)x->floor;
    floor = (double)floor > x->floor ? nextafterf(floor, -INFINITY) : floor;
    GX_TRY(gx_ivf_bound(&x->query, panel, true, upper, err));
    for (int64_t i = 0; i < panel->m; i++) {
        if (!(upper[i] < floor)) {
            int64_t *of = kept == NULL ? NULL : kept + i;
            GX_TRY(push(&x->rows, (waiting){upper[i], panel->round[i], panel->id[i], of}, err));
        }
    }
    return GX_OK;
}

/*
** The block's room from `before` on is given up: rows that wait have their places there, which the
** next list's panels overwrite.
*/
static void give_up_panels(prober *x, size_t before)
{
    const char *from = (const char *)x->kept + before;
    for (int64_t k = 0; k < x->rows.count && x->kept->used > before; k++) {
        const char *at = (const char *)x->rows.of[k].kept;
        bool is_there = at != NULL && at >= from && at < (const char *)x->kept + x->kept->used;
        x->rows.of[k].kept = is_there ? NULL : x->rows.of[k].kept;
    }
    x->kept->used = before;
}

/* Panels as NAME_list has them, into the block where it has room. */
static gx_code read_panels(prober *x, int64_t list, sqlite3_stmt *stmt, place *to, gx_err *err)
{
    bool is_row, keeps = x->kept != NULL;
    const int64_t d = x->index->dims;
    size_t before = x->kept == NULL ? 0 : x->kept->used;
    place read = {.at = before};
    gx_code code = gx_vectors_step(x->t->rows, stmt, &is_row, err);
    while (code == GX_OK && is_row) {
        gx_ivf_panel panel;
        const void *data = sqlite3_column_blob(stmt, 1);
        size_t bytes = (size_t)sqlite3_column_bytes(stmt, 1);
        int64_t m = gx_ivf_panel_rows(bytes, d);
        int64_t *memory = panel_memory(x, m, &keeps, err);
        if (memory == NULL) {
            return err->code;
        }
        char *at = (char *)memory + panel_head(m);
        if (m > 0) {
            memcpy(at, data, bytes);
        }
        GX_TRY(gx_ivf_panel_check(at, bytes, d, x->t->name, &panel, err));
        memset(memory, 0, panel_head(m));
        memory[0] = m;
        read.panels++;
        GX_TRY(list < 0 ? take_centres(x, &panel, false, err)
                        : take_rows(x, &panel, keeps ? memory + 1 : NULL, err));
        code = gx_vectors_step(x->t->rows, stmt, &is_row, err);
    }
    if (code == GX_OK && keeps) {
        read.is_there = true;
        *to = read;
    } else if (x->kept != NULL) {
        give_up_panels(x, before);
    }
    return code;
}

/* All panels of a list; -1: of the centres. */
static gx_code look_at_list(prober *x, int64_t list, gx_err *err)
{
    place none, *at = x->kept == NULL ? &none : &x->kept->list[list + 1];
    if (x->kept != NULL && at->is_there) {
        char *from = (char *)x->kept + at->at;
        for (int64_t k = 0; k < at->panels; k++) {
            int64_t *head = (int64_t *)(void *)from, m = head[0], d = x->index->dims;
            gx_ivf_panel panel = gx_ivf_panel_at(from + panel_head(m), m, d);
            GX_TRY(list < 0 ? take_centres(x, &panel, true, err)
                            : take_rows(x, &panel, head + 1, err));
            from += panel_room(m, d);
        }
        return GX_OK;
    }
    sqlite3_stmt *stmt;
    GX_TRY(gx_vectors_stmt(x->t->rows, GX_VECTORS_LISTS, &stmt, err));
    sqlite3_bind_int64(stmt, 1, gx_vec_list_key(list, 1));
    sqlite3_bind_int64(stmt, 2, gx_vec_list_key(list + 1, 0) - 1);
    gx_code code = read_panels(x, list, stmt, at, err);
    sqlite3_reset(stmt);
    return code;
}

/* The lists that are left wait. */
static gx_code heap_lists(prober *x, gx_err *err)
{
    heap *h = &x->lists;
    int64_t lists = x->index->lists, near = x->nears > 0 ? x->near[x->nears - 1] : 0;
    const waiting last = {.upper = x->nears > 0 ? x->bound[near] : INFINITY, .id = near};
    GX_TRY(gx_mem_alloc(x->run->ctx->mem, (size_t)lists * sizeof *h->of, "lists", &h->of, err));
    for (int64_t l = 0; l < lists; l++) {
        waiting w = {.upper = x->bound[l], .id = l};
        if (x->nears == 0 || is_before(&last, &w)) {
            h->of[h->count++] = w;
        }
    }
    for (int64_t k = h->count / 2 - 1; k >= 0; k--) {
        sink(h, k, h->of[k]);
    }
    return GX_OK;
}

/* Bytes of the next list that are asked for. */
enum { AHEAD = 4096 };

/* The nearest list that has not been looked at; there is one. */
static gx_code next_list(prober *x, int64_t *list, gx_err *err)
{
    GX_TRY(x->looked == x->nears ? heap_lists(x, err) : GX_OK);
    *list = x->looked < x->nears ? x->near[x->looked] : pop(&x->lists).id;
    x->looked++;
    if (x->kept != NULL && x->looked < x->nears) { // where the one behind it begins is asked for
        const place *next = &x->kept->list[x->near[x->looked] + 1];
        for (size_t k = 0; k < AHEAD && next->is_there; k += 64) {
            __builtin_prefetch((const char *)x->kept + next->at + k);
        }
    }
    return GX_OK;
}

/* Bounds of all lists, as many as the head says, and those that are near. */
static gx_code rank(prober *x, gx_err *err)
{
    double *upper = x->row + x->index->dims; // nears of them
    GX_TRY(look_at_list(x, -1, err));
    if (x->centres != x->index->lists) {
        return gx_fail(err, GX_CORRUPT, "%s_list has other centres", x->t->name);
    }
    gx_best_begin(upper, x->near, x->nears, false);
    float least = -INFINITY;
    for (int64_t l = 0; l < x->centres && x->nears > 0; l++) {
        if (x->bound[l] >= least &&
            gx_best_is_worse(upper[0], x->near[0], (double)x->bound[l], l)) {
            gx_best_sift(upper, x->near, x->nears, (double)x->bound[l], l);
            least = (float)upper[0];
        }
    }
    gx_best_sort(upper, x->near, x->nears);
    return GX_OK;
}

// Rows --------------------------------------------------------------------------------------------

/* A vector as NAME_full has it, where SQLite holds it at any address, or the block, as numbers. */
static gx_code widen(prober *x, const void *data, gx_err *err)
{
    const gx_vec_column *column = column_of(x);
    memcpy((char *)(x->row + column->dims) - column->bytes, data, column->bytes);
    return gx_widen_in_place(column->dtype, GX_F64, x->row, column->dims, err);
}

/* The vector of a row that waits; *is_alive false: it is not there any more. */
static gx_code look_up(prober *x, const waiting *w, bool *is_alive, gx_err *err)
{
    sqlite3_stmt *stmt;
    bool is_row;
    int64_t kept = w->kept == NULL ? UNKNOWN : *w->kept;
    *is_alive = kept != GONE;
    if (kept != UNKNOWN) {
        return *is_alive ? widen(x, (const char *)x->kept + kept, err) : GX_OK;
    }
    GX_TRY(gx_vectors_stmt(x->t->rows, GX_VECTORS_FULL, &stmt, err));
    sqlite3_bind_int64(stmt, 1, w->id);
    gx_code code = gx_vectors_step(x->t->rows, stmt, &is_row, err);
    *is_alive = code == GX_OK && is_row && sqlite3_column_int64(stmt, 0) == w->round;
    const void *data = *is_alive ? sqlite3_column_blob(stmt, 1) : NULL;
    int bytes = *is_alive ? sqlite3_column_bytes(stmt, 1) : 0;
    if (*is_alive && (data == NULL || (size_t)bytes != column_of(x)->bytes)) {
        code = gx_fail(err, GX_CORRUPT, "%s_full has %d bytes for row %" PRId64, x->t->name, bytes,
                       w->id);
    }
    if (code == GX_OK) {
        keep_vector(x, w, data);
        code = *is_alive ? widen(x, data, err) : GX_OK;
    }
    sqlite3_reset(stmt);
    return code;
}

/* Its merit goes into the list, if it is among the k best. */
static gx_code score(prober *x, const waiting *w, gx_err *err)
{
    gx_vec_probing *p = x->p;
    double merit;
    GX_TRY(gx_ivf_merit(&x->query, x->row, &merit, err));
    x->scored++;
    if (gx_best_is_worse(p->merit[0], p->id[0], merit, w->id)) {
        gx_best_sift(p->merit, p->id, p->k, merit, w->id);
        x->floor = gx_code_wanted(x->query.metric, x->query.code.length, p->merit[0]);
        x->brought = -1; // now
    }
    return GX_OK;
}

/* Few pass, or none of those that are near. */
static bool is_better_without(const prober *x)
{
    bool is_rare = x->tested >= FEW && x->scored < x->tested / SHARE;
    return is_rare || x->tested > gx_max(TESTS_LEAST, x->index->entries / TESTS);
}

/* The rows that are likely to be next come from memory meanwhile. */
static void fetch_next(const prober *x)
{
    for (int64_t k = 0; k < gx_min(x->rows.count, LIKELY); k++) {
        const int64_t *kept = x->rows.of[k].kept;
        const char *at = (const char *)x->kept + (kept == NULL ? 0 : *kept);
        for (size_t b = 0; b < column_of(x)->bytes && kept != NULL && *kept > 0; b += 64) {
            __builtin_prefetch(at + b);
        }
    }
}

/* Rows that wait and may be among the best. */
static gx_code settle_rows(prober *x, gx_err *err)
{
    gx_vec_probing *p = x->p;
    while (x->rows.count > 0 && !((double)x->rows.of[0].upper < x->floor)) {
        waiting w = pop(&x->rows);
        fetch_next(x);
        bool is_alive, is_tested = p->is_filtered;
        GX_TRY(look_up(x, &w, &is_alive, err));
        x->tested += is_alive && is_tested;
        bool is_one = is_alive && (!is_tested || p->passes(p->arg, w.id));
        if (!gx_ok(x->run) || (is_tested && is_better_without(x))) {
            p->is_done = false;
            return GX_OK;
        }
        GX_TRY(is_one ? score(x, &w, err) : GX_OK);
    }
    return GX_OK;
}

/* Behind the lists that a search looks at anyway: whether another one is looked at. */
static bool goes_on(const prober *x, int64_t at)
{
    const gx_vec_probing *p = x->p;
    bool is_short = p->merit[0] == -(double)INFINITY;
    return is_short || (p->is_filtered && at - x->brought < p->probe);
}

static gx_code probe(prober *x, gx_err *err)
{
    gx_vec_probing *p = x->p;
    GX_TRY(rank(x, err));
    int64_t lists = x->index->lists;
    for (int64_t at = 0, next = 1; at < lists && p->is_done; next = 1) {
        // The first list alone, for a floor; then all that are due.
        next = at > 0 && at < p->probe ? p->probe - at : gx_max(1, at / 8 * (at > 0));
        for (int64_t k = 0; k < next && at < lists; k++, at++) {
            int64_t list;
            GX_TRY(next_list(x, &list, err));
            GX_TRY(look_at_list(x, list, err));
        }
        GX_TRY(settle_rows(x, err));
        x->brought = x->brought < 0 ? at : x->brought;
        if (gx_run_poll(x->run) != GX_OK || (at >= p->probe && !goes_on(x, at))) {
            break;
        }
    }
    return GX_OK;
}

/* An index that cannot be asked: the query has no bounds, or is unfit. */
static bool begin(prober *x, gx_run *run, gx_vec_table *t, const gx_vec_index *index,
                  const double *query, int64_t nears)
{
    *x = (prober){.run = run, .t = t, .index = index, .floor = -(double)INFINITY};
    x->rows.mem = t->ctx->mem;
    x->nears = gx_min(nears, index->lists);
    x->row = gx_run_alloc(run, (size_t)(index->dims + 2 * x->nears) * sizeof *x->row, "a vector");
    gx_metric metric = gx_measures[index->metric].metric;
    if (x->row == NULL || !gx_ivf_begin(run, metric, query, index->dims, &x->query)) {
        return false;
    }
    x->near = (int64_t *)(void *)(x->row + index->dims + x->nears);
    x->rows.room = FIRST_ROWS;
    x->bound = gx_run_alloc(run, (size_t)index->lists * sizeof *x->bound, "lists");
    x->rows.of = gx_run_alloc(run, (size_t)x->rows.room * sizeof *x->rows.of, "rows of lists");
    claim(x);
    return gx_ok(run);
}

static void end(prober *x)
{
    gx_mem *mem = x->t->ctx->mem;
    gx_mem_free(mem, x->kept);
    gx_mem_free(mem, x->spare);
    gx_mem_free(mem, x->row);
    gx_mem_free(mem, x->bound);
    gx_mem_free(mem, x->lists.of);
    gx_mem_free(mem, x->rows.of);
    gx_ivf_end(&x->query);
}

bool gx_vec_search_lists(gx_fn *fn, gx_vec_table *t, gx_vec_probing *p)
{
    prober x;
    p->is_done = false;
    p->count = 0;
    if (begin(&x, &fn->run, t, p->index, p->query, 2 * p->probe + LISTS_MORE)) {
        x.p = p;
        p->is_done = true;
        gx_best_begin(p->merit, p->id, p->k, false);
        gx_fn_check(fn, probe(&x, &fn->err));
        gx_best_sort(p->merit, p->id, p->k);
        while (p->count < p->k && p->id[p->count] != INT64_MAX) {
            p->count++;
        }
        gx_stats_note(&fn->run.ctx->stats,
                      p->is_done ? "vectors: an index of %" PRId64 " lists, %" PRId64 " looked at"
                                 : "vectors: few rows pass, an index of %" PRId64
                                   " lists is left after %" PRId64,
                      p->index->lists, x.looked);
    }
    end(&x);
    return gx_ok(&fn->run);
}

gx_code gx_vec_rank_lists(gx_run *run, gx_vec_table *t, const gx_vec_index *index,
                          const double *query, int32_t *order, gx_err *err)
{
    prober x;
    gx_code code = GX_OK;
    bool is_begun = begin(&x, run, t, index, query, 0);
    if (is_begun) {
        code = rank(&x, err);
        for (int64_t k = 0; k < index->lists && code == GX_OK; k++) {
            int64_t list = 0;
            code = next_list(&x, &list, err);
            order[k] = (int32_t)list;
        }
    }
    end(&x);
    return is_begun ? code : gx_fail(err, GX_ARG, "a row has no codes");
}
