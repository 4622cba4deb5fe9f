/*
** Matchings and flows: see graphs.h.
*/
#include "graphs.h"

#include "node_heap.h"

#include <math.h>
#include <string.h>

enum { POLL = 1 << 10 };

// As many pairs as there can be -------------------------------------------------------------------

/*
** Hopcroft and Karp: in each round the search in breadth from the rows that are free gives levels,
** and paths along them that have no node in common exchange what is matched.
*/
typedef struct pairing {
    const gx_csr_matrix *M;
    int64_t *of_row, *of_col;
    int64_t *level, *next, *path; /* of rows */
} pairing;

/* Levels of all rows that can be reached; does one of them lead to a free column? */
static bool find_levels(const pairing *p, int64_t *queue)
{
    int64_t end = 0;
    bool is_open = false;
    for (int64_t i = 0; i < p->M->rows; i++) {
        p->level[i] = p->of_row[i] < 0 ? 0 : -1;
        p->next[i] = p->M->start[i];
        if (p->of_row[i] < 0) {
            queue[end++] = i;
        }
    }
    for (int64_t at = 0; at < end; at++) {
        int64_t i = queue[at];
        for (int64_t e = p->M->start[i]; e < p->M->start[i + 1]; e++) {
            int64_t other = p->of_col[p->M->index[e]];
            is_open = is_open || other < 0;
            if (other >= 0 && p->level[other] < 0) {
                p->level[other] = p->level[i] + 1;
                queue[end++] = other;
            }
        }
    }
    return is_open;
}

/* A path from row `from` to a free column, in depth, which is exchanged; false: there is none. */
static bool augment(const pairing *p, int64_t from)
{
    int64_t depth = 0;
    p->path[depth++] = from;
    while (depth > 0) {
        int64_t i = p->path[depth - 1];
        if (p->next[i] == p->M->start[i + 1]) {
            depth--;
            if (depth > 0) {
                p->next[p->path[depth - 1]]++;
            }
            continue;
        }
        int64_t other = p->of_col[p->M->index[p->next[i]]];
        if (other < 0) {
            while (depth-- > 0) {
                int64_t row = p->path[depth], col = p->M->index[p->next[row]++];
                p->of_row[row] = col;
                p->of_col[col] = row;
            }
            return true;
        }
        if (p->level[other] == p->level[i] + 1) {
            p->path[depth++] = other;
        } else {
            p->next[i]++;
        }
    }
    return false;
}

static void match_most(gx_run *run, const pairing *p, int64_t *queue)
{
    bool is_found = true;
    while (is_found && gx_run_poll(run) == GX_OK && find_levels(p, queue)) {
        is_found = false;
        for (int64_t i = 0; i < p->M->rows && gx_ok(run); i++) {
            is_found |= p->of_row[i] < 0 && augment(p, i);
            if (i % POLL == 0) {
                gx_run_poll(run);
            }
        }
    }
}

// By weight ---------------------------------------------------------------------------------------

/*
** For each row the shortest path to a free column, by weights that the potentials of rows and
** columns leave, which are 0 or more; each path is exchanged.
*/
typedef struct weighing {
    const pairing *p;
    double sign;
    double *of_row, *of_col; /* potentials                                   */
    int64_t *before;         /* the row from which a column was reached      */
    gx_node_heap heap;       /* of columns, by the length of the path there  */
    double nearest;          /* path to a free column so far                 */
} weighing;

/*
** Row i has been reached by a path so long.  Gives a free column that is no further, which no other
** path can better; -1: there is none.
*/
static int64_t look_from(weighing *w, int64_t i, double length)
{
    const gx_csr_matrix *M = w->p->M;
    for (int64_t e = M->start[i]; e < M->start[i + 1]; e++) {
        int64_t j = M->index[e];
        double step = w->sign * ((const double *)M->value)[e] - w->of_row[i] - w->of_col[j];
        double path = step > 0 ? length + step : length;
        bool is_free = w->p->of_col[j] < 0, is_end = is_free && path == length;
        if (!(path < w->nearest) && !is_end) {
            continue;
        }
        if (is_end || gx_heap_put(&w->heap, j, path)) {
            w->before[j] = i;
            w->nearest = is_free ? path : w->nearest;
        }
        if (is_end) {
            return j;
        }
    }
    return -1;
}

/* Row `from` gets a column; false: it cannot. */
static bool match_row(weighing *w, int64_t from)
{
    const pairing *p = w->p;
    double length = 0;
    gx_heap_clear(&w->heap, p->M->cols);
    w->nearest = HUGE_VAL;
    int64_t free = look_from(w, from, 0);
    while (free < 0 && w->heap.size > 0) {
        int64_t j = gx_heap_take(&w->heap);
        length = w->heap.key[j];
        if (p->of_col[j] < 0) {
            free = j;
        } else {
            free = look_from(w, p->of_col[j], length);
        }
    }
    if (free < 0) {
        return false;
    }
    w->of_row[from] += length;
    for (int64_t j = 0; j < p->M->cols; j++) { // of columns that are done, and their rows
        if (w->heap.place[j] == GX_HEAP_TAKEN && j != free) {
            w->of_col[j] -= length - w->heap.key[j];
            w->of_row[p->of_col[j]] += length - w->heap.key[j];
        }
    }
    for (int64_t j = free; j >= 0;) {
        int64_t row = w->before[j], other = p->of_row[row];
        p->of_row[row] = j;
        p->of_col[j] = row;
        j = row == from ? -1 : other;
    }
    return true;
}

/* Of a row's weights less the columns' potentials the least and the next, and where: -1: none. */
typedef struct two_least {
    double first, second;
    int64_t j1, j2;
} two_least;

static two_least look_along(const weighing *w, int64_t i)
{
    const gx_csr_matrix *M = w->p->M;
    two_least least = {HUGE_VAL, HUGE_VAL, -1, -1};
    for (int64_t e = M->start[i]; e < M->start[i + 1]; e++) {
        int64_t j = M->index[e];
        double rest = w->sign * ((const double *)M->value)[e] - w->of_col[j];
        if (rest < least.first || least.j1 < 0) {
            least = (two_least){rest, least.first, j, least.j1};
        } else if (rest < least.second || least.j2 < 0) {
            least.second = rest;
            least.j2 = j;
        }
    }
    return least;
}

/* Row i gets its best column, and takes it from whom it has; gives that row, -1: nobody. */
static int64_t take_best(const weighing *w, int64_t i, two_least least, bool *is_dearer)
{
    const pairing *p = w->p;
    int64_t j = least.j1, other;
    *is_dearer = least.j2 >= 0 && least.first < least.second;
    if (*is_dearer) {
        w->of_col[j] -= least.second - least.first;
    } else if (p->of_col[j] >= 0 && least.j2 >= 0) {
        j = least.j2;
    }
    w->of_row[i] = *is_dearer ? least.second : least.first;
    other = p->of_col[j];
    p->of_row[i] = j;
    p->of_col[j] = i;
    if (other >= 0) {
        p->of_row[other] = -1;
    }
    return other;
}

/*
** Most rows by themselves: a row takes its best column, whose potential falls until the next best
** is as good, and who had it looks again (Jonker & Volgenant 1987, augmenting row reduction).  A
** column that nobody has keeps potential 0.  The others' potentials: of the best that is left.
*/
static void match_by_rows(gx_run *run, const weighing *w)
{
    enum { ROUNDS = 2, TURNS = 8 /* a row, at most */ };
    const pairing *p = w->p;
    int64_t *list = p->level, count = p->M->rows, turns = TURNS * count;
    for (int64_t i = 0; i < count; i++) {
        list[i] = i;
    }
    for (int round = 0; round < ROUNDS; round++) {
        int64_t left = 0, k = 0;
        for (; k < count && turns > 0 && (turns % POLL != 0 || gx_run_poll(run) == GX_OK);
             turns--) {
            int64_t i = list[k++];
            two_least least = look_along(w, i);
            if (least.j1 < 0 || (least.j2 < 0 && p->of_col[least.j1] >= 0)) {
                list[left++] = i;
                continue;
            }
            bool is_dearer;
            int64_t other = take_best(w, i, least, &is_dearer);
            if (other >= 0 && is_dearer) {
                list[--k] = other;
            } else if (other >= 0) {
                list[left++] = other;
            }
        }
        for (; k < count; k++) {
            list[left++] = list[k];
        }
        count = left;
    }
    for (int64_t k = 0; k < count; k++) {
        w->of_row[list[k]] = look_along(w, list[k]).first; // so that no weight less it is below 0
    }
}

static void match_weights(gx_run *run, const pairing *p, double sign, const char *label)
{
    int64_t m = p->M->rows, n = p->M->cols;
    double *work = gx_nodes_take(run, m + 5 * n);
    if (work == NULL) {
        return;
    }
    weighing w = {.p = p, .sign = sign, .of_row = work, .of_col = work + m};
    w.heap.key = work + m + n;
    w.before = (int64_t *)(void *)(work + m + 2 * n);
    w.heap.node = w.before + n;
    w.heap.place = w.heap.node + n;
    memset(w.of_col, 0, (size_t)n * sizeof(double));
    match_by_rows(run, &w);
    for (int64_t i = 0; i < m && gx_run_poll(run) == GX_OK; i++) {
        if (p->of_row[i] < 0 && !match_row(&w, i)) {
            gx_run_failf(run, GX_NUMERIC,
                         "%s has no matching of all its %s: leave \"weights\" out for as many as "
                         "there can be",
                         label, "rows or columns");
        }
    }
    gx_mem_free(run->ctx->mem, work);
}

gx_code gx_graph_match(gx_run *run, const gx_mat *G, gx_matching how, double *column)
{
    gx_edges edges;
    bool is_turned = how != GX_MATCH_MOST && G->rows > G->cols;
    int64_t *work = NULL, m = is_turned ? G->cols : G->rows, n = is_turned ? G->rows : G->cols;
    if (gx_edges_load(run, G, true, is_turned, &edges) == GX_OK) {
        work = gx_nodes_take(run, 5 * m + n);
    }
    if (work != NULL) {
        pairing p = {.M = is_turned ? &edges.from : &edges.to,
                     .of_row = work,
                     .of_col = work + 5 * m,
                     .level = work + m,
                     .next = work + 2 * m,
                     .path = work + 3 * m};
        memset(p.of_row, -1, (size_t)m * sizeof *work);
        memset(p.of_col, -1, (size_t)n * sizeof *work);
        if (how == GX_MATCH_MOST) {
            match_most(run, &p, work + 4 * m);
        } else {
            match_weights(run, &p, how == GX_MATCH_LEAST_WEIGHT ? 1 : -1, G->label);
        }
        for (int64_t i = 0; i < G->rows; i++) {
            column[i] = (double)(is_turned ? p.of_col[i] : p.of_row[i]);
        }
    }
    gx_mem_free(run->ctx->mem, work);
    gx_edges_clear(&edges);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Flows -------------------------------------------------------------------------------------------

/*
** Dinic: levels by a search in breadth along what is left of the edges, forwards and backwards, and
** paths along the levels until none is left.
*/
typedef struct streams {
    gx_run *run;
    const gx_csr_matrix *M;
    double *flow;           /* of each entry                                  */
    int64_t *row;           /* of each entry                                  */
    int64_t *start, *entry; /* the entries by columns                         */
    int64_t *level, *next, *queue;
    int64_t *path; /* edges: an entry, or -1 - entry backwards       */
    int64_t source, target;
    int64_t steps;
} streams;

static double capacity(const streams *s, int64_t e)
{
    return ((const double *)s->M->value)[e];
}

/* Edge k of node v: an entry, or -1 - entry backwards; where it leads, and how much fits. */
static bool edge_of(const streams *s, int64_t v, int64_t k, int64_t *edge, int64_t *to,
                    double *left)
{
    int64_t out = s->M->start[v + 1] - s->M->start[v], in = s->start[v + 1] - s->start[v];
    if (k < out) {
        int64_t e = s->M->start[v] + k;
        *edge = e;
        *to = s->M->index[e];
        *left = capacity(s, e) - s->flow[e];
    } else if (k < out + in) {
        int64_t e = s->entry[s->start[v] + k - out];
        *edge = -1 - e;
        *to = s->row[e];
        *left = s->flow[e];
    }
    return k < out + in;
}

static bool flow_levels(streams *s)
{
    int64_t n = s->M->rows, end = 0, edge, to;
    double left;
    for (int64_t v = 0; v < n; v++) {
        s->level[v] = -1;
        s->next[v] = 0;
    }
    s->level[s->source] = 0;
    s->queue[end++] = s->source;
    for (int64_t at = 0; at < end; at++) {
        int64_t v = s->queue[at];
        for (int64_t k = 0; edge_of(s, v, k, &edge, &to, &left); k++) {
            if (left > 0 && s->level[to] < 0) {
                s->level[to] = s->level[v] + 1;
                s->queue[end++] = to;
            }
        }
    }
    return s->level[s->target] >= 0;
}

static void push_along(streams *s, int64_t depth)
{
    double least = HUGE_VAL;
    for (int64_t k = 0; k < depth; k++) {
        int64_t e = s->path[k];
        least = fmin(least, e >= 0 ? capacity(s, e) - s->flow[e] : s->flow[-1 - e]);
    }
    for (int64_t k = 0; k < depth; k++) { // what is full is so to the bit
        int64_t e = s->path[k], back = -1 - e;
        if (e >= 0) {
            bool is_full = capacity(s, e) - s->flow[e] == least;
            s->flow[e] = is_full ? capacity(s, e) : fmin(capacity(s, e), s->flow[e] + least);
        } else {
            s->flow[back] = fmax(0, s->flow[back] - least);
        }
    }
}

/* Paths along the levels, until none is left. */
static void push_all(streams *s)
{
    int64_t v = s->source, depth = 0, edge, to;
    double left;
    while (++s->steps % POLL != 0 || gx_run_poll(s->run) == GX_OK) {
        if (v == s->target) {
            push_along(s, depth);
            v = s->source;
            depth = 0;
        } else if (!edge_of(s, v, s->next[v], &edge, &to, &left)) {
            if (depth == 0) {
                return;
            }
            edge = s->path[--depth];
            v = edge >= 0 ? s->row[edge] : s->M->index[-1 - edge];
            s->next[v]++;
        } else if (left > 0 && s->level[to] == s->level[v] + 1) {
            s->path[depth++] = edge;
            v = to;
        } else {
            s->next[v]++;
        }
    }
}

/* Rows of entries, entries by columns. */
static void index_entries(const streams *s)
{
    int64_t n = s->M->rows;
    memset(s->start, 0, ((size_t)n + 1) * sizeof *s->start);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t e = s->M->start[i]; e < s->M->start[i + 1]; e++) {
            s->row[e] = i;
            s->flow[e] = 0;
            s->start[s->M->index[e] + 1]++;
        }
    }
    for (int64_t j = 0; j < n; j++) {
        s->start[j + 1] += s->start[j];
        s->next[j] = s->start[j];
    }
    for (int64_t e = 0; e < s->M->entries; e++) {
        s->entry[s->next[s->M->index[e]]++] = e;
    }
}

static void put_flow(const streams *s, const gx_dest *dest, double *value, gx_sink *sink)
{
    const gx_csr_matrix *M = s->M;
    gx_sparse_out out;
    gx_err err = {0};
    *value = 0;
    if (gx_sparse_out_begin(s->run, dest, M->rows, M->rows, GX_F64, 0, sink, &out) == GX_OK) {
        for (int64_t e = 0; e < M->entries && err.code == GX_OK; e++) {
            int64_t i = s->row[e], j = M->index[e];
            *value += (j == s->target ? s->flow[e] : 0) - (i == s->target ? s->flow[e] : 0);
            if (s->flow[e] > 0) {
                gx_sparse_put(&out, i, j, (gx_scalar){s->flow[e], 0}, &err);
            }
        }
        if (gx_run_fail(s->run, &err) == GX_OK) {
            gx_sparse_out_end(&out);
        }
    }
    gx_sparse_out_clear(&out);
}

gx_code gx_graph_flow(gx_run *run, const gx_mat *G, int64_t source, int64_t target, double *value,
                      const gx_dest *dest, gx_sink *sink)
{
    gx_edges edges;
    int64_t n = G->rows;
    int64_t *work = NULL;
    *sink = (gx_sink){.run = run};
    if (gx_graph_load(run, G, true, false, &edges) == GX_OK) {
        work = gx_nodes_take(run, 3 * edges.to.entries + 5 * n + 1);
    }
    int64_t entries = edges.to.entries;
    for (int64_t e = 0; e < entries && work != NULL && gx_ok(run); e++) {
        if (((const double *)edges.to.value)[e] < 0) {
            gx_run_failf(run, GX_ARG, "%s has a weight of %g, but a capacity is 0 or more",
                         G->label, ((const double *)edges.to.value)[e]);
        }
    }
    if (gx_ok(run)) {
        streams s = {.run = run, .M = &edges.to, .source = source, .target = target};
        s.flow = (double *)(void *)work;
        s.row = work + entries;
        s.entry = s.row + entries;
        s.start = s.entry + entries;
        s.level = s.start + n + 1;
        s.next = s.level + n;
        s.queue = s.next + n;
        s.path = s.queue + n;
        index_entries(&s);
        while (gx_run_poll(run) == GX_OK && flow_levels(&s)) {
            push_all(&s);
        }
        if (gx_ok(run)) {
            put_flow(&s, dest, value, sink);
        }
    }
    gx_mem_free(run->ctx->mem, work);
    gx_edges_clear(&edges);
    return gx_ok(run) ? GX_OK : run->err.code;
}
