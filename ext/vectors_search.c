/*
** The nearest rows of a vector table: exactly, of those that conditions let through, or, of a table
** that has one, by its index (vectors_lists.c).
**
** Two searches, merged by (distance, rowid): one in the matrix, which has the rows that have
** settled and dead ones between them; one in NAME_new, of which the rows are in memory.  Conditions
** are SQLite's to evaluate, on NAME_row; which positions they leave is wanted in one of three ways:
**
**   few     a list: only these rows are scored (knn_listed.c)
**   many    bits: the others never enter a list
**   share   where a share of all rows is let through, more neighbours are asked for than are
**           wanted, and the conditions are asked about these alone, in their order.  A sample of
**           positions says how large the share is.  Where too few of them pass, the conditions are
**           asked about all rows after all, and the search is made once more.
**
** The last is the way of dead rows, too: no device needs to know of them, and without conditions no
** row of NAME_row is looked at but those of the result.  Asking conditions about every row of a
** million costs a tenth to a half of what a search costs.
**
** Of equal distances those of smaller rowids come first, also at the end of the list: as long as
** the last one asked for is as far as the last one wanted there may be more of these, and more are
** asked for.
**
** Memory: 16 bytes a neighbour that is asked for, 24 a hit, an eighth of a byte a row of the matrix
** where bits are wanted, and NAME_new.
*/
#include "vectors.h"

#include "../core/base/best.h"
#include "../core/mat/quantized.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_ASKED = 64,  /* more than are wanted: those at the end may be equal                  */
    AHEAD_MOST = 1024, /* of queries that are searched for together: more than are wanted      */
    LEAST_AHEAD = 6,   /* the same of many queries, to whose time a longer list adds           */
    GROWTH = 8,        /* times as many are asked for next                                     */
    SAMPLE = 1024,     /* positions, at most                                                   */
    SAMPLED = 12,      /* of them are let through: no more are looked at                       */
    LEAST_SAMPLED = 6, /* of them are let through: the share is known well enough              */
    SMALL = 16384,     /* rows: of fewer the conditions are asked about all                    */
    SHARE_MOST = 8,    /* no more of the rows than one in so many are asked for                */
    ASKED_MOST = 1000, /* the same beside conditions, which cost a row less than a neighbour   */
    FEW = 64           /* one row in so many: a list                                           */
};

typedef struct search {
    gx_fn *fn;
    gx_vec_table *t;
    const gx_vec_wish *wish;
    const gx_vec_column *column;
    gx_measure measure;
    gx_mat base, Q; /* the query as a column, as a row */
    gx_vec_hits *hits;
    sqlite3_stmt *test;  /* of a row: whether conditions let it through */
    gx_vec_ahead *ahead; /* queries that are searched for with this one; NULL: none           */
    double share;        /* of the rows that conditions let through; -1: not known             */
    int64_t entered;     /* rows of NAME_new up to this slot have been searched with the index */
} search;

static bool is_filtered(const search *s)
{
    return s->wish->count > 0;
}

// Hits --------------------------------------------------------------------------------------------

void gx_vec_hits_clear(gx_vec_hits *hits, gx_mem *mem)
{
    gx_mem_free(mem, hits->hit);
    *hits = (gx_vec_hits){0};
}

static bool add_hit(search *s, int64_t id, double merit)
{
    gx_vec_hits *hits = s->hits;
    if (hits->count == hits->capacity) {
        int64_t capacity = gx_max(LEAST_ASKED, 2 * hits->capacity);
        if (!gx_fn_check(s->fn, gx_mem_realloc(s->t->ctx->mem, (size_t)capacity * sizeof *hits->hit,
                                               "neighbours", &hits->hit, &s->fn->err))) {
            return false;
        }
        hits->capacity = capacity;
    }
    hits->hit[hits->count++] =
        (gx_vec_hit){.distance = gx_distance_of(&s->measure, merit),
                     .score = gx_score_of(&s->measure, merit, s->column->dims),
                     .id = id};
    return true;
}

static int compare_hits(const void *a, const void *b)
{
    const gx_vec_hit *x = a, *y = b;
    return x->distance != y->distance ? (x->distance < y->distance ? -1 : 1)
                                      : (x->id > y->id) - (x->id < y->id);
}

/* -1: the distance is before those that are wanted, 1: behind them. */
static int side_of(const gx_vec_wish *wish, double distance)
{
    bool is_before = distance < wish->low || (distance == wish->low && wish->is_above);
    bool is_behind = distance > wish->high || (distance == wish->high && wish->is_below);
    return is_before ? -1 : is_behind;
}

// Conditions --------------------------------------------------------------------------------------

/* *id of the row that `test` finds by what is bound first; false: none, or the call has failed. */
static bool find_row(search *s, int64_t by, int64_t *id)
{
    bool is_row = false;
    sqlite3_bind_int64(s->test, 1, by);
    gx_fn_check(s->fn, gx_vectors_step(s->t->rows, s->test, &is_row, &s->fn->err));
    *id = is_row ? sqlite3_column_int64(s->test, 0) : 0;
    sqlite3_reset(s->test);
    return is_row;
}

static bool open_test(search *s, gx_vectors_want want)
{
    sqlite3_finalize(s->test);
    s->test = NULL;
    return gx_fn_check(s->fn, gx_vectors_select(s->t->rows, want, s->wish->terms, s->wish->count,
                                                &s->test, &s->fn->err));
}

/*
** Positions spread over all rows, the same ones each time, the next one far from the last: how many
** of *count are let through.
*/
static int64_t sample(search *s, int64_t rows, int64_t *count)
{
    enum { STRIDE = 389 }; // prime to SAMPLE
    int64_t passed = 0, id, stretch = rows / SAMPLE;
    for (*count = 0; *count < SAMPLE && passed < SAMPLED && gx_ok(&s->fn->run); ++*count) {
        uint64_t jitter = (uint64_t)(*count + 1) * 0x9e3779b97f4a7c15u >> 32; // within its stretch
        int64_t first = *count * STRIDE % SAMPLE * stretch;
        passed += find_row(s, first + (int64_t)(jitter % (uint64_t)stretch), &id);
    }
    return passed;
}

/*
** The rows of the matrix that are let through, as bits, or as a list where they are few.  Between
** searches the block stands by, as NAME_new's rows do: the next one with the same conditions on the
** same state of the tables asks about no row.
*/
typedef struct chosen {
    int64_t *block; /* count, bits, text */
    uint64_t *bits;
    double *list;
    int64_t count;
    size_t bytes;   /* of the block                                             */
    char *text;     /* the statement that finds them; NULL: they are not kept   */
    gx_mem_key key; /* under which they are                                     */
} chosen;

static gx_code set_bits(search *s, int64_t rows, chosen *c)
{
    sqlite3_stmt *stmt;
    bool is_row;
    gx_err *err = &s->fn->err;
    GX_TRY(gx_vectors_select(s->t->rows, GX_VECTORS_SETTLED, s->wish->terms, s->wish->count, &stmt,
                             err));
    gx_code code = gx_vectors_step(s->t->rows, stmt, &is_row, err);
    while (code == GX_OK && is_row) {
        int64_t pos = sqlite3_column_int64(stmt, 0);
        if (pos >= rows || pos < 0) {
            code = gx_fail(err, GX_CORRUPT,
                           "%s_row has position %" PRId64 ", but %s has %" PRId64 " rows",
                           s->t->name, pos, s->column->matrix, rows);
            break;
        }
        c->count += (c->bits[pos / 64] >> pos % 64 & 1) == 0;
        c->bits[pos / 64] |= (uint64_t)1 << pos % 64;
        code = gx_vectors_step(s->t->rows, stmt, &is_row, err);
    }
    sqlite3_finalize(stmt);
    return code;
}

/*
** May the same conditions let through other rows next time, as LIKE does after a pragma, and
** collations of the application's?  Does the text of a value leave something out?
*/
static bool is_fixed(const gx_vectors_term *x)
{
    static const char *const own[] = {"BINARY", "NOCASE", "RTRIM"};
    bool is = x->collation == NULL;
    for (size_t k = 0; k < sizeof own / sizeof own[0] && !is; k++) {
        is = sqlite3_stricmp(x->collation, own[k]) == 0;
    }
    int type = x->list == NULL ? sqlite3_value_type(x->value) : SQLITE_NULL;
    is = is && type != SQLITE_FLOAT; // of 15 digits
    is = is && x->op != SQLITE_INDEX_CONSTRAINT_LIKE && x->op != SQLITE_INDEX_CONSTRAINT_GLOB;
    return is && (type != SQLITE_TEXT || memchr(sqlite3_value_text(x->value), 0,
                                                (size_t)sqlite3_value_bytes(x->value)) == NULL);
}

/* Of so many rows: those that stand by; where none do, under what they will. */
static gx_code recall_chosen(search *s, int64_t rows, chosen *c)
{
    gx_vec_table *t = s->t;
    sqlite3_stmt *stmt;
    bool is_kept;
    GX_TRY(gx_vec_state(t, &c->key.id, &c->key.generation, &is_kept, &s->fn->err));
    for (int k = 0; k < s->wish->count; k++) {
        is_kept = is_kept && is_fixed(&s->wish->terms[k]);
    }
    if (!is_kept) {
        return GX_OK;
    }
    GX_TRY(gx_vectors_select(t->rows, GX_VECTORS_SETTLED, s->wish->terms, s->wish->count, &stmt,
                             &s->fn->err));
    c->text = sqlite3_expanded_sql(stmt);
    sqlite3_finalize(stmt);
    size_t length = c->text == NULL ? 0 : strlen(c->text);
    size_t bits = (size_t)(1 + gx_ceil_div(rows, 64)) * sizeof *c->bits;
    uint64_t hash = 0;
    for (size_t k = 0; k < length; k++) {
        hash = (hash ^ (unsigned char)c->text[k]) * 0x100000001b3u;
    }
    c->key.file = (uint64_t)(uintptr_t)t;
    c->key.part[0] = rows;
    c->key.part[1] = INT64_MAX; // NAME_new's rows have INT64_MIN there
    c->key.part[2] = (int64_t)hash;
    c->key.part[3] = t->token;
    c->bytes = gx_round_up(bits + length + 1, GX_VEC_KEPT_BYTES);
    c->block = c->text == NULL ? NULL : gx_mem_claim(t->ctx->mem, &c->key, c->bytes);
    if (c->block != NULL && strcmp((char *)c->block + bits, c->text) != 0) {
        gx_mem_free(t->ctx->mem, c->block);
        c->block = NULL;
    }
    return GX_OK;
}

static bool find_chosen(search *s, int64_t rows, chosen *c)
{
    size_t bits = (size_t)(1 + gx_ceil_div(rows, 64)) * sizeof *c->bits;
    c->block = gx_run_calloc(&s->fn->run, c->text == NULL ? bits : c->bytes, "candidates");
    if (c->block == NULL) {
        return false;
    }
    c->bits = (uint64_t *)c->block + 1;
    if (!gx_fn_check(s->fn, set_bits(s, rows, c))) {
        gx_mem_free(s->t->ctx->mem, c->block);
        c->block = NULL;
        return false;
    }
    c->block[0] = c->count;
    if (c->text != NULL) {
        memcpy((char *)c->block + bits, c->text, strlen(c->text) + 1);
    }
    return true;
}

static bool choose(search *s, int64_t rows, chosen *c)
{
    bool is_known = c->block != NULL;
    if (!is_known && !find_chosen(s, rows, c)) {
        return false;
    }
    c->bits = (uint64_t *)c->block + 1;
    c->count = c->block[0];
    gx_stats_note(&s->t->ctx->stats, "vectors: conditions leave %" PRId64 " of %" PRId64 " rows%s",
                  c->count, rows, is_known ? ", as the last search found" : "");
    if (c->count > rows / FEW) {
        return true;
    }
    c->list =
        gx_run_alloc(&s->fn->run, (size_t)gx_max(1, c->count) * sizeof *c->list, "candidates");
    int64_t at = 0;
    for (int64_t pos = 0; pos < rows && c->list != NULL; pos++) {
        if ((c->bits[pos / 64] >> pos % 64 & 1) != 0) {
            c->list[at++] = (double)pos;
        }
    }
    return c->list != NULL;
}

static void clear_chosen(search *s, chosen *c)
{
    if (c->text != NULL) {
        gx_mem_keep(s->t->ctx->mem, c->block, &c->key);
    } else {
        gx_mem_free(s->t->ctx->mem, c->block);
    }
    gx_mem_free(s->t->ctx->mem, c->list);
    sqlite3_free(c->text);
}

// Neighbours --------------------------------------------------------------------------------------

/* The same of all queries ahead, once; *found is the list of the one at hand, lent. */
static bool neighbours_ahead(search *s, int which, const gx_knn_args *given, gx_neighbours *found)
{
    gx_vec_ahead *a = s->ahead;
    gx_neighbours *all = &a->list[which];
    gx_mat base, Q, C;
    gx_knn_args args = *given;
    if (all->mem == NULL) {
        double *list = NULL;
        gx_mat_value(&base, "queries", GX_F64, s->column->dims, a->count, a->query,
                     s->column->dims);
        gx_mat_view(&Q, &base, GX_TRANS, 0, 0, a->count, s->column->dims);
        args.Q = &Q;
        args.last = a->count;
        bool is_good = !a->is_masked || gx_fn_check(s->fn, gx_vec_mask(s->t, a, which, &args, &C,
                                                                       &list, &s->fn->err));
        is_good = is_good && gx_knn_run(&s->fn->run, &args, all) == GX_OK;
        gx_mem_free(s->t->ctx->mem, list);
        if (!is_good) {
            gx_neighbours_clear(all);
            return false;
        }
        a->asked[which] = args.k;
        gx_stats_note(&s->t->ctx->stats, "vectors: %" PRId64 " queries of a join as one search",
                      a->count);
    }
    int64_t first = a->at * all->count;
    *found = (gx_neighbours){.queries = 1,
                             .count = all->count,
                             .merit = all->merit + first,
                             .index = all->index + first};
    return true;
}

/* The `asked` nearest rows of E: the matrix, or new rows. */
static bool neighbours(search *s, const gx_mat *E, bool is_fresh, const chosen *c, int64_t asked,
                       gx_neighbours *found)
{
    gx_mat C, numbers;
    gx_leaf leaf;
    if (s->column->is_bit) {
        gx_mat_of_bits(&numbers, &leaf, E);
        E = &numbers;
    }
    gx_knn_args args = {.Q = &s->Q,
                        .E = E,
                        .metric = s->measure.metric,
                        .is_binary = s->measure.is_binary,
                        .k = asked,
                        .last = 1};
    if (c != NULL && c->list != NULL) {
        gx_mat_value(&C, "candidates", GX_F64, 1, c->count, c->list, 1);
        args.C = &C;
    } else if (c != NULL) {
        args.rows = c->bits;
    } else if (s->ahead != NULL &&
               (s->ahead->list[is_fresh].mem == NULL || s->ahead->asked[is_fresh] == asked)) {
        return neighbours_ahead(s, is_fresh, &args, found);
    }
    return gx_knn_run(&s->fn->run, &args, found) == GX_OK;
}

/*
** Those of a list that are wanted become hits.  ids: of E's rows; NULL: `test` finds them.  true:
** there are as many as are wanted, and all that are equal to the last one; or none can come after.
*/
static bool take_list(search *s, const gx_neighbours *found, const int64_t *ids)
{
    const gx_vec_wish *wish = s->wish;
    int64_t before = s->hits->count;
    double last = (double)INFINITY;
    for (int64_t e = 0; e < found->count && found->index[e] != INT64_MAX; e++) {
        double merit = found->merit[e], distance = gx_distance_of(&s->measure, merit);
        int64_t row = found->index[e], id = 0;
        int side = side_of(wish, distance);
        bool is_enough = s->hits->count - before >= wish->k && distance > last;
        if (is_enough || side > 0) {
            return true;
        }
        bool is_tested = s->test != NULL;
        if (side < 0 || (is_tested && !find_row(s, ids == NULL ? row : ids[row], &id))) {
            if (!gx_ok(&s->fn->run)) {
                return false;
            }
            continue;
        }
        if (!add_hit(s, ids == NULL ? id : ids[row], merit)) {
            return false;
        }
        last = s->hits->count - before == wish->k ? distance : last;
    }
    return false;
}

/*
** The same of queries ahead whose rows are known: these are what the lists are of.  false: not all
** that are wanted, and equal ones, are in the list.
*/
static bool take_masked(search *s, const gx_mat *E, const int64_t *ids)
{
    gx_neighbours found = {0};
    int64_t before = s->hits->count,
            asked = gx_min(E->rows, gx_min(s->wish->k, E->rows) + LEAST_AHEAD);
    if (!neighbours(s, E, ids != NULL, NULL, asked, &found)) {
        return false;
    }
    bool is_enough = take_list(s, &found, ids);
    bool is_all = asked == E->rows || found.count < asked || found.index[asked - 1] == INT64_MAX;
    bool is_done = gx_ok(&s->fn->run) && (is_enough || is_all);
    s->hits->is_complete = s->hits->is_complete && (!is_done || !is_enough);
    s->hits->count = is_done ? s->hits->count : before;
    return is_done;
}

/* The lists have not been of use for this query. */
static void leave_ahead(search *s)
{
    s->ahead->used--;
    s->ahead = NULL;
}

static int64_t least_more(const search *s, int64_t dead)
{
    return s->ahead != NULL && dead == 0 ? LEAST_AHEAD : LEAST_ASKED;
}

/* How many to ask for at first, and whether conditions must be asked about all rows before. */
static int64_t first_asked(search *s, int64_t rows, int64_t dead, bool is_chosen, bool *must_choose)
{
    double share = 1;
    const int64_t k = s->wish->k, most = is_filtered(s) ? ASKED_MOST : SHARE_MOST;
    int64_t more = least_more(s, dead);
    *must_choose = false;
    if (is_filtered(s)) {
        int64_t count = 1, passed = rows < SMALL || is_chosen ? 0 : sample(s, rows, &count);
        *must_choose = passed < LEAST_SAMPLED;
        s->share = rows < SMALL || is_chosen ? -1 : (double)gx_max(1, passed) / (double)count;
        share = (double)passed / (double)count; // there may be fewer, and fewer that are near
        share = fmax(share - sqrt(share / (double)count), 1e-9);
        more = 2 + 2 * (int64_t)(sqrt((double)k) / share);
    } else if (dead > 0) {
        *must_choose = dead >= rows;
        share = fmax(0.9 * (double)(rows - dead) / (double)rows, 1e-9);
    }
    double asked = (double)k / share + (double)more;
    *must_choose = *must_choose || (share < 1 && asked > (double)(rows / most));
    return *must_choose || asked > (double)rows ? gx_min(rows, gx_min(k, rows) + LEAST_ASKED)
                                                : (int64_t)asked;
}

// The index ---------------------------------------------------------------------------------------

static bool passes(void *arg, int64_t id)
{
    int64_t same;
    return find_row(arg, id, &same);
}

/*
** Is a search of the lists wanted?  Not where the table has no index of the column, where the
** statement says so, where a good part of all rows is asked for, or rows from some distance on.
** Where conditions leave few rows the search of the lists finds that out.
*/
static bool is_for_index(search *s, gx_vec_index *index, bool *is)
{
    const gx_vec_wish *wish = s->wish;
    *is = false;
    if (wish->probe == 0 || wish->low > -(double)INFINITY) {
        return true;
    }
    if (!gx_fn_check(s->fn, gx_vec_read_index(s->t, index, is, &s->fn->err))) {
        return false;
    }
    *is = *is && index->vector == wish->vector && wish->k <= index->entries / SHARE_MOST;
    return true;
}

/* The hits of the index; *is_done false: there are none, the matrix is searched. */
static bool search_index(search *s, bool *is_done)
{
    gx_vec_index index;
    gx_mem *mem = s->t->ctx->mem;
    const gx_vec_wish *wish = s->wish;
    *is_done = false;
    if (!is_for_index(s, &index, is_done) || !*is_done) {
        return gx_ok(&s->fn->run);
    }
    gx_vec_probing p = {.index = &index, .query = wish->query, .k = wish->k, .passes = passes};
    p.probe = gx_min(index.lists, wish->probe > 0 ? wish->probe : index.probe);
    if (wish->plan != NULL) {
        *wish->plan = (gx_vec_plan_facts){.found = index, .index = &wish->plan->found};
        wish->plan->found.probe = p.probe;
        wish->plan->way = is_filtered(s) ? GX_VEC_ASKED_LATE : GX_VEC_UNFILTERED;
        return true;
    }
    p.arg = s;
    p.is_filtered = is_filtered(s);
    p.merit = gx_run_alloc(&s->fn->run, (size_t)p.k * sizeof *p.merit, "neighbours");
    p.id = gx_run_alloc(&s->fn->run, (size_t)p.k * sizeof *p.id, "neighbours");
    bool is_good = p.merit != NULL && p.id != NULL;
    is_good = is_good && (!p.is_filtered || open_test(s, GX_VECTORS_IS_ROW));
    is_good = is_good && gx_vec_search_lists(s->fn, s->t, &p);
    for (int64_t e = 0; e < p.count && p.is_done && is_good; e++) {
        bool is_near = side_of(wish, gx_distance_of(&s->measure, p.merit[e])) == 0;
        is_good = !is_near || add_hit(s, p.id[e], p.merit[e]);
    }
    *is_done = p.is_done;
    s->entered = p.is_done ? index.slot : 0;
    s->hits->is_complete = false;
    gx_mem_free(mem, p.merit);
    gx_mem_free(mem, p.id);
    return is_good;
}

/* What the search of the matrix would be, as far as it is known without asking about all rows. */
static bool plan_settled(search *s, int64_t rows, int64_t asked, bool must_choose, chosen *c)
{
    gx_vec_plan_facts *plan = s->wish->plan;
    if (must_choose && (c->block != NULL || s->share < 0) && is_filtered(s)) {
        if (!choose(s, rows, c)) {
            return false;
        }
        plan->left = c->count;
    } else {
        plan->is_estimated = is_filtered(s);
        plan->left = is_filtered(s) ? (int64_t)(s->share * (double)rows) : rows;
    }
    plan->asked = gx_min(asked, rows);
    plan->way = !must_choose ? (is_filtered(s) ? GX_VEC_ASKED_LATE : GX_VEC_UNFILTERED)
                             : (plan->left > rows / FEW ? GX_VEC_BITS : GX_VEC_LIST);
    return true;
}

/* The hits of the matrix. */
static bool search_settled(search *s)
{
    gx_mat E;
    int64_t dead = 0;
    bool must_choose, is_done = false;
    chosen c = {.bits = NULL};
    if (!gx_fn_check(s->fn, gx_vec_matrix(s->t, s->wish->vector, &E, &s->fn->err)) || E.rows == 0) {
        return gx_ok(&s->fn->run);
    }
    if (!gx_fn_check(s->fn, gx_vec_count_dead(s->t, &dead, &s->fn->err)) ||
        !open_test(s, GX_VECTORS_IS_AT)) {
        return false;
    }
    if (s->ahead != NULL && s->ahead->is_masked) {
        if (take_masked(s, &E, NULL) || !gx_ok(&s->fn->run)) {
            return gx_ok(&s->fn->run);
        }
        leave_ahead(s);
    }
    if (is_filtered(s) && !gx_fn_check(s->fn, recall_chosen(s, E.rows, &c))) {
        clear_chosen(s, &c);
        return false;
    }
    bool is_listed = is_filtered(s) && s->ahead != NULL && s->ahead->list[0].mem != NULL;
    int64_t asked = is_listed ? s->ahead->asked[0] : 0, before = s->hits->count;
    must_choose = false;
    if (!is_listed) {
        asked = first_asked(s, E.rows, dead, c.block != NULL, &must_choose);
        if (is_filtered(s) && s->ahead != NULL) { // others' conditions may leave fewer
            bool is_alone = must_choose || asked > gx_min(E.rows, AHEAD_MOST + s->wish->k) / 2;
            s->ahead = is_alone ? NULL : s->ahead;
            asked = is_alone ? asked : 2 * asked;
        }
    }
    if (s->wish->plan != NULL) {
        is_done = plan_settled(s, E.rows, asked, must_choose, &c);
    }
    while (!is_done && gx_ok(&s->fn->run)) {
        gx_neighbours found = {0};
        if (must_choose && c.bits == NULL && !choose(s, E.rows, &c)) {
            break;
        }
        const chosen *among = c.bits != NULL ? &c : NULL;
        int64_t all = among != NULL ? c.count : E.rows;
        s->hits->count = before;
        if (all > 0 && neighbours(s, &E, false, among, gx_min(asked, all), &found)) {
            is_done = take_list(s, &found, NULL);
        }
        gx_neighbours_clear(&found);
        s->hits->is_complete = s->hits->is_complete && !is_done;
        is_done = is_done || asked >= all;
        if (!is_done && is_filtered(s) && s->ahead != NULL) {
            leave_ahead(s);
        }
        bool is_first = c.bits == NULL && (is_filtered(s) || dead > 0);
        must_choose = must_choose || is_first;
        asked = is_first ? gx_min(s->wish->k, E.rows) + LEAST_ASKED
                         : (asked > INT64_MAX / GROWTH ? INT64_MAX : asked * GROWTH);
    }
    clear_chosen(s, &c);
    return gx_ok(&s->fn->run);
}

// Rows that have not settled ----------------------------------------------------------------------

static bool search_fresh(search *s)
{
    gx_vec_fresh *fresh = &s->t->fresh;
    gx_mat base, E;
    if (!gx_fn_check(s->fn, gx_vec_know_fresh(s->t, s->entered, &s->fn->err)) ||
        fresh->count == 0) {
        return gx_ok(&s->fn->run);
    }
    sqlite3_finalize(s->test);
    s->test = NULL;
    if (is_filtered(s) && !open_test(s, GX_VECTORS_IS_ROW)) {
        return false;
    }
    int64_t cells = s->column->cells, n = fresh->count, asked = n, before = s->hits->count;
    gx_mat_array(&base, s->t->name, s->column->dtype, cells, n, fresh->data[s->wish->vector],
                 cells);
    gx_mat_view(&E, &base, GX_TRANS, 0, 0, n, cells);
    gx_neighbours found = {0};
    if (s->ahead != NULL && s->ahead->is_masked) {
        if (take_masked(s, &E, fresh->ids) || !gx_ok(&s->fn->run)) {
            return gx_ok(&s->fn->run);
        }
    }
    s->ahead = is_filtered(s) ? NULL : s->ahead;
    if (!is_filtered(s) && s->wish->low == -(double)INFINITY) {
        asked = gx_min(n, gx_min(s->wish->k, n) + least_more(s, 0));
    }
    bool is_done = neighbours(s, &E, true, NULL, asked, &found) && take_list(s, &found, fresh->ids);
    gx_neighbours_clear(&found);
    if (!is_done && asked < n && gx_ok(&s->fn->run)) { // many are equal
        s->hits->count = before;
        is_done = neighbours(s, &E, true, NULL, n, &found) && take_list(s, &found, fresh->ids);
        gx_neighbours_clear(&found);
    }
    s->hits->is_complete = s->hits->is_complete && !is_done;
    return gx_ok(&s->fn->run);
}

// The whole ---------------------------------------------------------------------------------------

bool gx_vec_search(gx_fn *fn, gx_vec_table *t, const gx_vec_wish *wish, gx_vec_ahead *ahead,
                   gx_vec_hits *hits)
{
    search s = {
        .fn = fn, .t = t, .wish = wish, .column = &t->shape.vector[wish->vector], .hits = hits};
    s.measure = gx_measures[s.column->metric];
    hits->count = 0;
    hits->is_complete = true;
    if (wish->k <= 0) {
        return true;
    }
    gx_mat_value(&s.base, "query", GX_F64, s.column->dims, 1, wish->query, s.column->dims);
    gx_mat_view(&s.Q, &s.base, GX_TRANS, 0, 0, 1, s.column->dims);
    bool is_done = false, is_good = search_index(&s, &is_done);
    if (is_good && !is_done) {
        bool is_ahead = ahead != NULL && gx_vec_look_ahead(t, ahead, wish);
        s.ahead = is_ahead ? ahead : NULL;
        bool is_stopped = ahead != NULL && ahead->is_stopped;
        is_good =
            gx_fn_check(fn, is_stopped ? gx_fail(&fn->err, GX_INTERRUPT, "interrupted") : GX_OK) &&
            search_settled(&s);
    }
    is_good = is_good && (wish->plan != NULL || search_fresh(&s));
    sqlite3_finalize(s.test);
    if (is_good && hits->count > 0) {
        qsort(hits->hit, (size_t)hits->count, sizeof *hits->hit, compare_hits);
        hits->is_complete = hits->is_complete && hits->count <= wish->k;
        hits->count = gx_min(hits->count, wish->k);
    }
    return is_good;
}

// Many queries ------------------------------------------------------------------------------------

/* Numbers of rows become ids; entries that have none go behind the others. */
static bool name_rows(gx_fn *fn, gx_vec_table *t, const int64_t *ids, gx_neighbours *found)
{
    sqlite3_stmt *stmt;
    if (!gx_fn_check(fn, gx_vectors_stmt(t->rows, GX_VECTORS_AT, &stmt, &fn->err))) {
        return false;
    }
    for (int64_t e = 0; e < found->queries * found->count; e++) {
        bool is_row = false;
        if (found->index[e] == INT64_MAX || ids != NULL) {
            found->index[e] = found->index[e] == INT64_MAX ? INT64_MAX : ids[found->index[e]];
            continue;
        }
        sqlite3_bind_int64(stmt, 1, found->index[e]);
        gx_code code = gx_vectors_step(t->rows, stmt, &is_row, &fn->err);
        int64_t id = is_row ? sqlite3_column_int64(stmt, 0) : 0;
        sqlite3_reset(stmt);
        if (code == GX_OK && !is_row) {
            code = gx_fail(&fn->err, GX_CORRUPT, "%s_row has no row at position %" PRId64, t->name,
                           found->index[e]);
        }
        if (!gx_fn_check(fn, code)) {
            return false;
        }
        found->index[e] = id;
    }
    for (int64_t e = 0; e < found->queries * found->count; e++) {
        if (found->index[e] == INT64_MAX && found->merit[e] > -(double)INFINITY) {
            return gx_fn_fail(fn, "a row of %s has the rowid %" PRId64 ", which means none here",
                              t->name, INT64_MAX);
        }
    }
    return true;
}

/* Two lists of each query become one, by merit and id. */
static bool merge_lists(gx_fn *fn, const gx_neighbours *a, const gx_neighbours *b, int64_t k,
                        gx_neighbours *out)
{
    out->queries = gx_max(a->queries, b->queries);
    out->count = gx_min(k, a->count + b->count);
    out->mem = fn->ctx->mem;
    size_t bytes = (size_t)(out->queries * out->count) * sizeof(double);
    out->merit = gx_run_alloc(&fn->run, bytes, "neighbours");
    out->index = gx_run_alloc(&fn->run, bytes, "neighbours");
    for (int64_t j = 0; j < out->queries && gx_ok(&fn->run); j++) {
        double *merit = out->merit + j * out->count;
        int64_t *index = out->index + j * out->count;
        gx_best_begin(merit, index, out->count, false);
        for (int64_t e = 0; e < a->count + b->count; e++) {
            const gx_neighbours *from = e < a->count ? a : b;
            int64_t at = e < a->count ? j * a->count + e : j * b->count + e - a->count;
            if (gx_best_is_worse(merit[0], index[0], from->merit[at], from->index[at])) {
                gx_best_sift(merit, index, out->count, from->merit[at], from->index[at]);
            }
        }
        gx_best_sort(merit, index, out->count);
    }
    return gx_ok(&fn->run);
}

/* The lists of the matrix and of the new rows; bits: of the matrix's rows, the caller's to free. */
static bool search_both(gx_fn *fn, gx_vec_table *t, int vector, const gx_knn_args *given,
                        uint64_t **bits, gx_neighbours list[2])
{
    gx_mat E, base, fresh, numbers;
    gx_leaf leaf;
    gx_knn_args args = *given;
    const gx_vec_column *column = &t->shape.vector[vector];
    if (!gx_fn_check(fn, gx_vec_matrix(t, vector, &E, &fn->err)) ||
        !gx_fn_check(fn, gx_vec_know_fresh(t, 0, &fn->err)) ||
        !gx_fn_check(fn, gx_vec_alive(&fn->run, t, E.rows, bits, &fn->err))) {
        return false;
    }
    args.E = &E;
    if (column->is_bit) {
        gx_mat_of_bits(&numbers, &leaf, &E);
        args.E = &numbers;
    }
    args.rows = *bits;
    if (E.rows > 0 &&
        (gx_knn_run(&fn->run, &args, &list[0]) != GX_OK || !name_rows(fn, t, NULL, &list[0]))) {
        return false;
    }
    int64_t n = t->fresh.count;
    gx_mat_array(&base, t->name, column->dtype, column->cells, gx_max(n, 1), t->fresh.data[vector],
                 column->cells);
    gx_mat_view(&fresh, &base, GX_TRANS, 0, 0, n, column->cells);
    args.E = &fresh;
    if (column->is_bit) {
        gx_mat_of_bits(&numbers, &leaf, &fresh);
        args.E = &numbers;
    }
    args.rows = NULL;
    return n == 0 || (gx_knn_run(&fn->run, &args, &list[1]) == GX_OK &&
                      name_rows(fn, t, t->fresh.ids, &list[1]));
}

bool gx_vec_search_all(gx_fn *fn, gx_vec_table *t, int vector, const gx_knn_args *args,
                       gx_neighbours *out)
{
    gx_neighbours list[2] = {{0}, {0}};
    uint64_t *bits = NULL;
    bool is_good = search_both(fn, t, vector, args, &bits, list) &&
                   merge_lists(fn, &list[0], &list[1], args->k, out);
    gx_mem_free(fn->ctx->mem, bits);
    gx_neighbours_clear(&list[0]);
    gx_neighbours_clear(&list[1]);
    gx_vec_forget_fresh(t);
    return is_good;
}
