/*
** A statement that fails half-way must not leave a matrix of the rows before the failure.
**
** SQLite calls an aggregate's final function for two reasons: all rows have been seen, or the
** statement is being torn down after a failure somewhere else (another function of the row, a full
** disk, a progress handler), and nothing tells the two apart.  So gx_store_cells stores in both
** cases, and takes it back in the second:
**
**   - In a statement that writes (INSERT ... SELECT gx_store_cells(...)) SQLite itself undoes what
**     its functions wrote.
**   - In a SELECT, the step function leaves a note as SQLite's "auxiliary data" of the statement,
**     whose destructor is called when the statement ends, however it ends: after a failure it comes
**     right behind the final function, and SQLite has run nothing in between; after success at
**     least one row has been returned.  SQLite's own counters of executed instructions
**     (SQLITE_STMTSTATUS_VM_STEP of every statement), which move when sqlite3_step() returns, tell
**     whether anything happened in between.  If not, what was stored is dropped.
**
** A statement that ends well without ever returning a row, which only a query that throws the
** result away can do, stores nothing either.  A matrix that was replaced does not come back.
*/
#include "agg.h"

#include <string.h>

/* A matrix that was stored by a statement which has not returned a row since. */
typedef struct stored {
    struct stored *next;
    uint64_t mark; /* of the moment                */
    int64_t id;    /* of the matrix                */
    char name[];   /* as the statement calls it    */
} stored;

struct gx_agg_undo {
    gx_ctx *ctx;
    sqlite3 *db;
    stored *first;
};

/* A number that changes whenever a statement of the connection has come back from SQLite. */
static uint64_t mark_now(sqlite3 *db)
{
    static const uint64_t PRIME = 0x100000001B3u; // FNV-1a
    uint64_t mark = 0xCBF29CE484222325u;
    for (sqlite3_stmt *s = sqlite3_next_stmt(db, NULL); s != NULL; s = sqlite3_next_stmt(db, s)) {
        mark = (mark ^ (uint64_t)(uintptr_t)s) * PRIME;
        mark = (mark ^ (uint64_t)sqlite3_stmt_status(s, SQLITE_STMTSTATUS_VM_STEP, 0)) * PRIME;
    }
    return mark;
}

static bool is_writer_busy(sqlite3 *db)
{
    for (sqlite3_stmt *s = sqlite3_next_stmt(db, NULL); s != NULL; s = sqlite3_next_stmt(db, s)) {
        if (sqlite3_stmt_busy(s) && !sqlite3_stmt_readonly(s)) {
            return true;
        }
    }
    return false;
}

/* Forget the matrices whose statement has returned since. */
static void forget(gx_agg_undo *undo, uint64_t kept)
{
    for (stored **at = &undo->first; *at != NULL;) {
        stored *it = *at;
        if (it->mark == kept) {
            at = &it->next;
        } else {
            *at = it->next;
            gx_mem_free(NULL, it);
        }
    }
}

/* Drop one matrix, if it is still what was stored then. */
static gx_code take_back(gx_store *store, const stored *it, gx_err *err)
{
    gx_meta meta;
    bool is_found = false;
    char schema[GX_NAME_MAX + 1], name[GX_NAME_MAX + 1];
    GX_TRY(gx_store_resolve(store, it->name, schema, name, err));
    GX_TRY(gx_store_begin(store, schema, err));
    gx_code rc = gx_store_lookup(store, it->name, &meta, &is_found, err);
    if (rc == GX_OK && is_found && meta.id == it->id) {
        rc = gx_store_drop(store, &meta, err);
    }
    gx_code ended = gx_store_end(store, rc == GX_OK, err);
    return rc != GX_OK ? rc : ended;
}

/* Drop all of them, within one storing call. */
static void take_all_back(gx_agg_undo *undo)
{
    gx_ctx *ctx = undo->ctx;
    gx_run run;
    gx_err err = {0};
    char schema[GX_NAME_MAX + 1], name[GX_NAME_MAX + 1];
    gx_run_begin(&run, ctx, "undo");
    gx_code rc = gx_store_resolve(ctx->store, undo->first->name, schema, name, &err);
    if (rc == GX_OK) {
        rc = gx_store_begin(ctx->store, schema, &err);
    }
    if (rc == GX_OK) {
        for (const stored *it = undo->first; it != NULL; it = it->next) {
            gx_err one = {0};
            if (take_back(ctx->store, it, &one) != GX_OK) {
                gx_stats_note(&ctx->stats, "matrix of a failed statement kept: %s", one.text);
            }
        }
        rc = gx_store_end(ctx->store, true, &err);
    }
    if (rc != GX_OK) {
        gx_stats_note(&ctx->stats, "matrices of a failed statement kept: %s", err.text);
    }
    gx_run_end(&run);
}

/* The destructor of the note: the statement ends. */
static void statement_ends(void *ptr)
{
    gx_agg_undo *undo = ptr;
    if (undo->first != NULL) {
        forget(undo, mark_now(undo->db));
    }
    if (undo->first != NULL) {
        take_all_back(undo);
    }
    while (undo->first != NULL) {
        stored *it = undo->first;
        undo->first = it->next;
        gx_mem_free(NULL, it);
    }
    gx_mem_free(NULL, undo);
}

gx_code gx_agg_undo_note(sqlite3_context *sql, gx_ctx *ctx, gx_agg_undo **undo, gx_err *err)
{
    *undo = sqlite3_get_auxdata(sql, 0);
    if (*undo != NULL) {
        return GX_OK;
    }
    void *memory;
    GX_TRY(gx_mem_calloc(NULL, sizeof(gx_agg_undo), "the statement's note", &memory, err));
    gx_agg_undo *made = memory;
    made->ctx = ctx;
    made->db = sqlite3_context_db_handle(sql);
    sqlite3_set_auxdata(sql, 0, made, statement_ends);
    *undo = sqlite3_get_auxdata(sql, 0);
    return *undo != NULL ? GX_OK : gx_fail_nomem(err, sizeof(gx_agg_undo), "the statement's note");
}

void gx_agg_undo_stored(gx_agg_undo *undo, const char *name, int64_t id)
{
    if (is_writer_busy(undo->db)) {
        return; // SQLite undoes it
    }
    uint64_t mark = mark_now(undo->db);
    forget(undo, mark);
    size_t bytes = strlen(name) + 1;
    void *memory;
    if (gx_mem_alloc(NULL, sizeof(stored) + bytes, "the statement's note", &memory, NULL) !=
        GX_OK) {
        return; // the statement is about to fail for lack of memory, or succeeds
    }
    stored *it = memory;
    it->next = undo->first;
    it->mark = mark;
    it->id = id;
    memcpy(it->name, name, bytes);
    undo->first = it;
}
