/*
** What a statement has begun to read stays as it is until the statement ends.
**
** A call's read pin (store.c) ends with the call.  SELECT gx_min('A'), gx_max('A') is two calls of
** one statement that itself reads no table: between them another connection could store another A,
** and the row would be of two matrices.  So the pin is not finalized with the call but kept, in
** autocommit, until the statement around the call ends, which the caller learns from SQLite: the
** destructor of a function's auxiliary data, the closing of a table's cursor.  Within BEGIN the
** transaction does the same.
**
** A kept pin is a SELECT that stands on its row, and so holds what any SELECT of the application
** would that reads a table: the connection's read transaction.  Whoever of the connection begins to
** store gives the kept pins up first, since SQLite does not wait for a lock while it reads, and
** since the statement then reads what it writes itself.
**
** Memory: one gx_hold, and its statements, which are SQLite's.
*/
#include <sqlite3ext.h>

#include "store_int.h"

#include <assert.h>
#include <stdio.h>

SQLITE_EXTENSION_INIT3

enum { PINS_MAX = 16 }; /* databases of a statement; those beyond are not kept */

struct gx_hold {
    gx_store *store; /* NULL: closed before us */
    int owners;
    int count;
    struct {
        char schema[GX_NAME_MAX + 1];
        sqlite3_stmt *stmt;
    } pins[PINS_MAX];
};

void gx_store_give_up_pins(gx_store *store)
{
    gx_hold *hold = store->hold;
    while (hold != NULL && hold->count > 0) {
        hold->count--;
        gx_store_put_by(store, hold->pins[hold->count].schema, GX_SQL_PIN,
                        hold->pins[hold->count].stmt);
    }
}

void gx_store_leave_hold(gx_store *store)
{
    gx_store_give_up_pins(store);
    if (store->hold != NULL) {
        store->hold->store = NULL;
        store->hold = NULL;
    }
}

static bool has_pin(const gx_hold *hold, const char *schema)
{
    bool is_there = false;
    for (int k = 0; k < hold->count && !is_there; k++) {
        is_there = sqlite3_stricmp(hold->pins[k].schema, schema) == 0;
    }
    return is_there;
}

/* Nothing else changes hands: the schema pins itself again when it is looked at again. */
static void take_pin(gx_hold *hold, gx_schema *schema)
{
    if (schema->is_pinned && hold->count < PINS_MAX && !has_pin(hold, schema->name)) {
        snprintf(hold->pins[hold->count].schema, GX_NAME_MAX + 1, "%s", schema->name);
        hold->pins[hold->count++].stmt = schema->stmt[GX_SQL_PIN];
        schema->stmt[GX_SQL_PIN] = NULL;
        schema->is_pinned = false;
    }
}

gx_hold *gx_store_keep_pins(gx_store *store)
{
    if (store->has_committed || store->depth > 0 || !sqlite3_get_autocommit(store->db)) {
        return NULL;
    }
    bool is_pinned = store->hold != NULL && store->hold->count > 0;
    for (gx_schema *schema = store->schemas; schema != NULL; schema = schema->next) {
        is_pinned |= schema->is_pinned;
    }
    void *memory = store->hold;
    if (!is_pinned ||
        (memory == NULL &&
         gx_mem_calloc(NULL, sizeof(gx_hold), "pins of a statement", &memory, NULL) != GX_OK)) {
        return NULL;
    }
    store->hold = memory;
    store->hold->store = store;
    for (gx_schema *schema = store->schemas; schema != NULL; schema = schema->next) {
        take_pin(store->hold, schema);
    }
    store->hold->owners++;
    return store->hold;
}

void gx_hold_drop(void *ptr)
{
    gx_hold *hold = ptr;
    if (hold == NULL || --hold->owners > 0) {
        return;
    }
    assert(hold->owners == 0);
    if (hold->store != NULL) {
        gx_store_leave_hold(hold->store);
    }
    gx_mem_free(NULL, hold);
}
