/*
** Conditions of the queries of a join, all at once.
**
**     SELECT q.id, v.rowid FROM question q
**       JOIN note_vec v ON v.embedding MATCH q.embedding AND v.k = 10 AND v.lang = q.lang;
**
** The queries that are read ahead (vectors_ahead.c) come with values for the conditions.  Queries
** that have the same ones are a group; which rows each group is left with is told to one search for
** all of them, as bits for each query, or, where they are few, as lists.
**
** To ask each group's conditions about each row would take a walk over all rows for each group.
** But the conditions look at a few columns, and rows that have the same values there, to the byte,
** are of one kind: one walk says which kind each row is, and the conditions are asked about one row
** of each kind, by SQLite, in one statement for all groups.
**
** Memory: 8 bytes a row, the values of each kind once, a bit for each row and query.
*/
#include "vectors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    KINDS_MOST = 65536, /* and what their rows' rowids take as a text */
    KEY_DIGITS = 21
};

// Words -------------------------------------------------------------------------------------------

/* Room for `more` bytes. */
static gx_code make_room(gx_vec_words *w, gx_mem *mem, int64_t more, gx_err *err)
{
    if (w->used + more > w->room) {
        int64_t room = 2 * (w->used + more) + 1024;
        void *bytes = w->bytes;
        GX_TRY(gx_mem_realloc(mem, (size_t)room, "values", &bytes, err));
        w->bytes = bytes;
        w->room = room;
    }
    return GX_OK;
}

static gx_code put(gx_vec_words *w, gx_mem *mem, char type, const void *data, int64_t n,
                   gx_err *err)
{
    GX_TRY(make_room(w, mem, n + 1 + (int64_t)sizeof n, err));
    w->bytes[w->used] = type;
    memcpy(w->bytes + w->used + 1, &n, sizeof n);
    if (n > 0) {
        memcpy(w->bytes + w->used + 1 + sizeof n, data, (size_t)n);
    }
    w->used += 1 + (int64_t)sizeof n + n;
    return GX_OK;
}

gx_code gx_vec_put_value(gx_vec_words *w, gx_mem *mem, sqlite3_value *value, gx_err *err)
{
    int type = sqlite3_value_type(value);
    sqlite3_int64 whole;
    double real;
    const char *text;
    switch (type) {
    case SQLITE_INTEGER:
        whole = sqlite3_value_int64(value);
        return put(w, mem, 'i', &whole, sizeof whole, err);
    case SQLITE_FLOAT:
        real = sqlite3_value_double(value);
        return put(w, mem, 'r', &real, sizeof real, err);
    case SQLITE_NULL:
        return put(w, mem, '0', NULL, 0, err);
    case SQLITE_TEXT:
        text = (const char *)sqlite3_value_text(value);
        return text == NULL ? gx_fail_nomem(err, 0, "values")
                            : put(w, mem, 't', text, sqlite3_value_bytes(value), err);
    default:
        return put(w, mem, 'b', sqlite3_value_blob(value), sqlite3_value_bytes(value), err);
    }
}

gx_code gx_vec_put_term(gx_vec_words *w, gx_mem *mem, const gx_vectors_term *term, gx_err *err)
{
    return term->list == NULL ? gx_vec_put_value(w, mem, term->value, err)
                              : put(w, mem, 'l', term->list, (int64_t)strlen(term->list), err);
}

static gx_code make_slots(gx_vec_words *w, gx_mem *mem, gx_err *err)
{
    enum { FIRST = 256 };
    if (2 * w->count < w->slots) {
        return GX_OK;
    }
    int64_t slots = w->slots == 0 ? FIRST : 4 * w->slots;
    void *start = w->start, *hash = w->hash, *slot = NULL;
    GX_TRY(gx_mem_realloc(mem, (size_t)(slots / 2 + 2) * sizeof *w->start, "values", &start, err));
    w->start = start;
    GX_TRY(gx_mem_realloc(mem, (size_t)(slots / 2 + 2) * sizeof *w->hash, "values", &hash, err));
    w->hash = hash;
    GX_TRY(gx_mem_alloc(mem, (size_t)slots * sizeof *w->slot, "values", &slot, err));
    gx_mem_free(mem, w->slot);
    w->slot = slot;
    w->slots = slots;
    memset(w->slot, 0xff, (size_t)slots * sizeof *w->slot);
    for (int64_t k = 0; k < w->count; k++) {
        uint64_t at = w->hash[k] % (uint64_t)slots;
        while (w->slot[at] >= 0) {
            at = (at + 1) % (uint64_t)slots;
        }
        w->slot[at] = (int32_t)k;
    }
    w->start[0] = 0;
    return GX_OK;
}

gx_code gx_vec_end_word(gx_vec_words *w, gx_mem *mem, bool adds, int64_t *number, gx_err *err)
{
    GX_TRY(make_slots(w, mem, err));
    const char *word = w->bytes + w->start[w->count];
    int64_t n = w->used - w->start[w->count];
    uint64_t hash = 0xcbf29ce484222325u;
    for (int64_t k = 0; k < n; k++) {
        hash = (hash ^ (unsigned char)word[k]) * 0x100000001b3u;
    }
    hash ^= hash >> 29;
    uint64_t at = hash % (uint64_t)w->slots;
    for (; w->slot[at] >= 0; at = (at + 1) % (uint64_t)w->slots) {
        int64_t k = w->slot[at];
        if (w->hash[k] == hash && w->start[k + 1] - w->start[k] == n &&
            memcmp(w->bytes + w->start[k], word, (size_t)n) == 0) {
            break;
        }
    }
    *number = w->slot[at];
    if (*number >= 0 || !adds) {
        w->used = w->start[w->count];
        return GX_OK;
    }
    *number = w->count;
    w->slot[at] = (int32_t)w->count;
    w->hash[w->count] = hash;
    w->start[++w->count] = w->used;
    return GX_OK;
}

void gx_vec_words_clear(gx_vec_words *w, gx_mem *mem)
{
    gx_mem_free(mem, w->bytes);
    gx_mem_free(mem, w->start);
    gx_mem_free(mem, w->hash);
    gx_mem_free(mem, w->slot);
    *w = (gx_vec_words){.count = 0};
}

// Kinds -------------------------------------------------------------------------------------------

/* A row that has not settled. */
typedef struct waiting {
    int64_t id, kind;
} waiting;

typedef struct walk {
    gx_vec_table *t;
    gx_vec_kinds *kinds;
    int count;     /* of the terms' columns                        */
    int32_t *kind; /* of each row; -1: it is none                  */
    waiting *waiting;
    int64_t waits;
    int64_t ids; /* of kinds there is room for                   */
} walk;

/* The row at hand. */
static gx_code take_row(walk *w, sqlite3_stmt *stmt, gx_err *err)
{
    enum { ID, POS, FIRST };
    gx_mem *mem = w->t->ctx->mem;
    gx_vec_kinds *kinds = w->kinds;
    int64_t id = sqlite3_column_int64(stmt, ID), pos = sqlite3_column_int64(stmt, POS), kind;
    for (int c = 0; c < w->count; c++) {
        GX_TRY(gx_vec_put_value(&kinds->words, mem, sqlite3_column_value(stmt, FIRST + c), err));
    }
    GX_TRY(gx_vec_end_word(&kinds->words, mem, true, &kind, err));
    if (kind == w->ids) {
        void *ids = kinds->id;
        w->ids = 2 * w->ids + 64;
        GX_TRY(gx_mem_realloc(mem, (size_t)w->ids * sizeof *kinds->id, "values", &ids, err));
        kinds->id = ids;
    }
    if (kind == kinds->words.count - 1) {
        kinds->id[kind] = id;
    }
    if (pos >= 0 && pos < kinds->rows[0]) {
        w->kind[pos] = (int32_t)kind;
    } else if (pos < 0 && w->waits < kinds->rows[1]) {
        w->waiting[w->waits++] = (waiting){id, kind};
    }
    return GX_OK;
}

static int compare_waiting(const void *a, const void *b)
{
    const waiting *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* The kinds of the rows of NAME_new. */
static void take_waiting(walk *w)
{
    const gx_vec_fresh *fresh = &w->t->fresh;
    qsort(w->waiting, (size_t)w->waits, sizeof *w->waiting, compare_waiting);
    for (int64_t k = 0; k < fresh->count && w->waits > 0; k++) {
        waiting key = {fresh->ids[k], 0}, *at;
        at = bsearch(&key, w->waiting, (size_t)w->waits, sizeof key, compare_waiting);
        w->kind[w->kinds->rows[0] + k] = at == NULL ? -1 : (int32_t)at->kind;
    }
}

/* Rows by their kinds. */
static gx_code sort_rows(walk *w, gx_err *err)
{
    gx_vec_kinds *kinds = w->kinds;
    gx_mem *mem = w->t->ctx->mem;
    int64_t all = kinds->rows[0] + kinds->rows[1], count = kinds->words.count;
    void *row, *first;
    GX_TRY(gx_mem_calloc(mem, (size_t)(count + 2) * sizeof *kinds->first, "values", &first, err));
    kinds->first = first;
    GX_TRY(gx_mem_alloc(mem, (size_t)(all + 1) * sizeof *kinds->row, "values", &row, err));
    kinds->row = row;
    for (int64_t k = 0; k < all; k++) {
        kinds->first[w->kind[k] < 0 ? 0 : w->kind[k] + 2]++;
    }
    kinds->first[0] = 0;
    for (int64_t k = 2; k <= count; k++) {
        kinds->first[k] += kinds->first[k - 1];
    }
    for (int64_t k = 0; k < all; k++) {
        if (w->kind[k] >= 0) {
            kinds->row[kinds->first[w->kind[k] + 1]++] = (int32_t)k;
        }
    }
    return GX_OK;
}

static gx_code walk_rows(walk *w, const gx_vectors_term *terms, gx_err *err)
{
    sqlite3_stmt *stmt;
    bool is_row;
    GX_TRY(gx_vectors_columns(w->t->rows, terms, w->count, &stmt, err));
    gx_code code = gx_vectors_step(w->t->rows, stmt, &is_row, err);
    while (code == GX_OK && is_row && w->kinds->words.count <= KINDS_MOST) {
        code = take_row(w, stmt, err);
        code = code == GX_OK ? gx_vectors_step(w->t->rows, stmt, &is_row, err) : code;
    }
    sqlite3_finalize(stmt);
    return code;
}

gx_code gx_vec_find_kinds(gx_vec_table *t, const gx_vectors_term *terms, int count,
                          gx_vec_kinds *kinds, gx_err *err)
{
    gx_mem *mem = t->ctx->mem;
    walk w = {.t = t, .kinds = kinds, .count = count};
    void *kind = NULL, *waits = NULL;
    GX_TRY(gx_vec_height(t, &kinds->rows[0], err));
    GX_TRY(gx_vec_know_fresh(t, 0, err));
    kinds->rows[1] = t->fresh.count;
    int64_t all = kinds->rows[0] + kinds->rows[1];
    if (all >= INT32_MAX) {
        return GX_OK;
    }
    gx_code code = gx_mem_alloc(mem, (size_t)(all + 1) * sizeof *w.kind, "values", &kind, err);
    if (code == GX_OK) {
        memset(kind, 0xff, (size_t)(all + 1) * sizeof *w.kind);
        code = gx_mem_alloc(mem, (size_t)(kinds->rows[1] + 1) * sizeof *w.waiting, "values", &waits,
                            err);
    }
    w.kind = kind;
    w.waiting = waits;
    code = code == GX_OK ? walk_rows(&w, terms, err) : code;
    if (code == GX_OK && kinds->words.count <= KINDS_MOST) {
        take_waiting(&w);
        code = sort_rows(&w, err);
        kinds->is_known = code == GX_OK;
    }
    gx_mem_free(mem, kind);
    gx_mem_free(mem, waits);
    return code;
}

void gx_vec_kinds_clear(gx_vec_kinds *kinds, gx_mem *mem)
{
    gx_vec_words_clear(&kinds->words, mem);
    gx_mem_free(mem, kinds->id);
    gx_mem_free(mem, kinds->first);
    gx_mem_free(mem, kinds->row);
    *kinds = (gx_vec_kinds){.is_known = false};
}

// Masks -------------------------------------------------------------------------------------------

/* Where there is one group its bits are all queries'. */
static int64_t step_of(const gx_vec_ahead *a, int which)
{
    return a->groups.count == 1 ? 0 : a->words[which];
}

static uint64_t *mask_of(const gx_vec_ahead *a, int which, int64_t query)
{
    return a->bits[which] + query * step_of(a, which);
}

/* Rows of a kind are let through for a query. */
static void set_kind(gx_vec_ahead *a, int64_t query, int64_t kind)
{
    const gx_vec_kinds *kinds = &a->kinds;
    uint64_t *settled = mask_of(a, 0, query), *fresh = mask_of(a, 1, query);
    for (int64_t k = kinds->first[kind]; k < kinds->first[kind + 1]; k++) {
        int64_t row = kinds->row[k], other = row - kinds->rows[0];
        if (other < 0) {
            settled[row / 64] |= (uint64_t)1 << row % 64;
        } else {
            fresh[other / 64] |= (uint64_t)1 << other % 64;
        }
    }
}

/* The rowids of one row of each kind, as JSON: sqlite3_free(). */
static char *put_rowids(const gx_vec_kinds *kinds)
{
    sqlite3_str *out = sqlite3_str_new(NULL);
    for (int64_t k = 0; k < kinds->words.count; k++) {
        sqlite3_str_appendf(out, "%s%lld", k == 0 ? "[" : ",", (long long)kinds->id[k]);
    }
    sqlite3_str_appendall(out, kinds->words.count == 0 ? "[]" : "]");
    return sqlite3_str_finish(out);
}

/* The bits of each group's first query. */
static gx_code ask_groups(gx_vec_table *t, gx_vec_ahead *a, const gx_vec_wish *wish,
                          const int64_t *leader, gx_err *err)
{
    bool varies[GX_VEC_TERMS_MAX], is_row;
    sqlite3_stmt *stmt;
    for (int k = 0; k < wish->count; k++) {
        varies[k] = a->from[k] > 0;
    }
    char *rowids = put_rowids(&a->kinds);
    gx_code code = rowids == NULL
                       ? gx_fail_nomem(err, (size_t)a->kinds.words.count * KEY_DIGITS, "values")
                       : gx_vectors_groups(t->rows, wish->terms, wish->count, varies, rowids,
                                           a->value, a->groups.count, &stmt, err);
    if (code == GX_OK) {
        code = gx_vectors_step(t->rows, stmt, &is_row, err);
        while (code == GX_OK && is_row) {
            int64_t group = sqlite3_column_int64(stmt, 0), kind = sqlite3_column_int64(stmt, 1);
            set_kind(a, leader[group], kind);
            code = gx_vectors_step(t->rows, stmt, &is_row, err);
        }
        sqlite3_finalize(stmt);
    }
    sqlite3_free(rowids);
    return code;
}

gx_code gx_vec_make_masks(gx_vec_table *t, gx_vec_ahead *a, const gx_vec_wish *wish, gx_err *err)
{
    gx_mem *mem = t->ctx->mem;
    void *memory;
    for (int which = 0; which < 2; which++) {
        a->words[which] = gx_ceil_div(a->kinds.rows[which], 64);
        int64_t words = a->words[which] + (a->count - 1) * step_of(a, which);
        GX_TRY(
            gx_mem_calloc(mem, (size_t)(words + 1) * sizeof(uint64_t), "candidates", &memory, err));
        a->bits[which] = memory;
    }
    GX_TRY(
        gx_mem_alloc(mem, (size_t)a->groups.count * sizeof(int64_t), "candidates", &memory, err));
    int64_t *leader = memory;
    for (int64_t q = a->count - 1; q >= 0; q--) {
        leader[a->group[q]] = q;
    }
    gx_code code = ask_groups(t, a, wish, leader, err);
    for (int64_t q = 0; q < a->count && a->groups.count > 1 && code == GX_OK; q++) {
        for (int which = 0; which < 2 && leader[a->group[q]] != q; which++) {
            memcpy(mask_of(a, which, q), mask_of(a, which, leader[a->group[q]]),
                   (size_t)a->words[which] * sizeof(uint64_t));
        }
    }
    gx_mem_free(mem, leader);
    return code;
}

static int64_t count_bits(const uint64_t *bits, int64_t words)
{
    int64_t count = 0;
    for (int64_t k = 0; k < words; k++) {
        count += __builtin_popcountll(bits[k]);
    }
    return count;
}

gx_code gx_vec_mask(gx_vec_table *t, const gx_vec_ahead *a, int which, gx_knn_args *args, gx_mat *C,
                    double **list, gx_err *err)
{
    enum { FEW = 64 }; /* one row in so many: lists */
    int64_t most = 1, words = a->words[which];
    for (int64_t q = 0; q < a->count; q++) {
        most = gx_max(most, count_bits(mask_of(a, which, q), words));
    }
    *list = NULL;
    args->rows = a->bits[which];
    args->row_words = step_of(a, which);
    if (most > args->E->rows / FEW) {
        return GX_OK;
    }
    void *memory;
    GX_TRY(gx_mem_alloc(t->ctx->mem, (size_t)(a->count * most) * sizeof(double), "candidates",
                        &memory, err));
    *list = memory;
    for (int64_t q = 0; q < a->count; q++) {
        const uint64_t *bits = mask_of(a, which, q);
        int64_t at = 0;
        for (int64_t k = 0; k < words; k++) {
            for (uint64_t word = bits[k]; word != 0; word &= word - 1) {
                (*list)[at++ * a->count + q] = (double)(64 * k + __builtin_ctzll(word));
            }
        }
        for (; at < most; at++) {
            (*list)[at * a->count + q] = -1;
        }
    }
    gx_mat_value(C, "candidates", GX_F64, a->count, most, *list, a->count);
    args->rows = NULL;
    args->C = C;
    return GX_OK;
}
