/*
** How a search of a vector table would be made.
**
**     SELECT gx_plan FROM note_vec WHERE embedding MATCH :q AND k = 10 AND tag = 'home';
**
** The search is begun as any other one and ends where it has decided (gx_vec_plan_facts); what the
** matrix then costs is gx_knn's own prediction.  Few rows that conditions leave are not counted
** where that would be a walk over many: a sample's share of them is told.
*/
#include "vectors.h"

#include "plan_row.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void put_filter(gx_text *text, const gx_vec_plan_facts *f)
{
    static const char *const ways[] = {
        [GX_VEC_UNFILTERED] = NULL,
        [GX_VEC_ASKED_LATE] = "neighbours",
        [GX_VEC_LIST] = "list",
        [GX_VEC_BITS] = "bits",
    };
    if (ways[f->way] == NULL) {
        gx_text_puts(text, ",\"filter\":null");
        return;
    }
    gx_text_printf(text, ",\"filter\":\"%s\"", ways[f->way]);
    if (f->index == NULL) {
        gx_text_printf(text, ",\"left\":%" PRId64 ",\"estimated\":%s", f->left,
                       f->is_estimated ? "true" : "false");
    }
}

/* The centres, and the lists that are looked at, as long as lists are on average. */
static void put_index(gx_text *text, const gx_vec_plan_facts *f)
{
    const gx_vec_index *index = f->index;
    double share = (double)index->probe / (double)gx_max(1, index->lists);
    double list = (double)gx_ivf_panel_bytes(1, index->dims) * (double)index->entries;
    double bytes = (double)gx_ivf_centres_bytes(index->lists, index->dims) + share * list;
    gx_text_printf(text,
                   "\"driver\":\"index\",\"device\":\"cpu\",\"lists\":%" PRId64
                   ",\"probe\":%" PRId64 ",\"rows\":%" PRId64,
                   index->lists, index->probe, index->entries);
    put_filter(text, f);
    gx_text_printf(text, ",\"bytes_read\":%.0f", bytes);
}

/* The matrix, where it would be searched. */
static bool put_flat(gx_fn *fn, gx_vec_table *t, const gx_vec_wish *wish, gx_text *text)
{
    const gx_vec_plan_facts *f = wish->plan;
    const gx_vec_column *column = &t->shape.vector[wish->vector];
    const gx_measure *measure = &gx_measures[column->metric];
    gx_mat base, Q, E, C;
    plan_row row[2] = {{.is_chosen = false}};
    static const uint64_t bits = 0; // not looked at
    double none = -1;
    gx_mat_value(&base, "query", GX_F64, column->dims, 1, wish->query, column->dims);
    gx_mat_view(&Q, &base, GX_TRANS, 0, 0, 1, column->dims);
    if (!gx_fn_check(fn, gx_vec_matrix(t, wish->vector, &E, &fn->err))) {
        return false;
    }
    gx_knn_args args = {.Q = &Q,
                        .E = &E,
                        .metric = measure->metric,
                        .is_binary = measure->is_binary,
                        .k = f->asked,
                        .rows = f->way == GX_VEC_BITS ? &bits : NULL,
                        .last = 1};
    if (f->way == GX_VEC_LIST) {
        gx_mat_value(&C, "candidates", GX_F64, 1, gx_max(1, f->left), &none, 1);
        args.C = &C;
    }
    if (E.rows > 0) {
        gx_plan_search(&fn->run, "gx_vectors", &args, row);
    }
    gx_text_printf(text, "\"driver\":\"flat\",\"device\":");
    gx_text_json(text, E.rows > 0 ? row[0].device : "cpu");
    gx_text_printf(text, ",\"rows\":%" PRId64 ",\"dead\":%" PRId64, E.rows, f->dead);
    put_filter(text, f);
    gx_text_printf(text, ",\"neighbours\":%" PRId64 ",\"bytes_read\":%.0f,\"flops\":%.0f", f->asked,
                   row[0].cost.bytes_read, row[0].cost.flops);
    gx_text_printf(text, ",\"seconds\":%.6g", row[0].terms.seconds);
    return gx_ok(&fn->run);
}

bool gx_vec_explain(gx_fn *fn, gx_vec_table *t, const gx_vec_wish *given, char **out)
{
    gx_vec_plan_facts facts = {.index = NULL};
    gx_vec_wish wish = *given;
    gx_vec_hits hits = {0};
    gx_text text;
    int64_t before = 0;
    wish.plan = &facts;
    if (!gx_vec_search(fn, t, &wish, NULL, &hits) ||
        !gx_fn_check(fn,
                     gx_vec_count(t, GX_VECTORS_COUNT_NEW, INT64_MAX, &facts.fresh, &fn->err)) ||
        !gx_fn_check(fn, facts.index == NULL
                             ? gx_vec_count_dead(t, &facts.dead, &fn->err)
                             : gx_vec_count(t, GX_VECTORS_COUNT_NEW, facts.index->slot, &before,
                                            &fn->err))) {
        return false;
    }
    gx_text_begin(&text, &fn->run);
    gx_text_puts(&text, "{");
    if (facts.index != NULL) {
        put_index(&text, &facts);
    } else {
        put_flat(fn, t, &wish, &text);
    }
    gx_text_printf(&text, ",\"waiting\":%" PRId64 "}", facts.fresh - before);
    gx_text_put(&text, "", 1);
    *out = gx_ok(&fn->run) ? sqlite3_mprintf("%s", text.data) : NULL;
    gx_text_clear(&text);
    return *out != NULL || (gx_ok(&fn->run) && gx_fn_check(fn, gx_fail_nomem(&fn->err, 0, "plan")));
}
