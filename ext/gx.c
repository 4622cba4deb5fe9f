/*
** The entry point: gx on one connection.
**
** A connection has one gx_ctx.  Its owner is one SQL function, gx_context(): SQLite calls the
** function's destructor when the connection closes, after all statements and virtual tables are
** gone, and that frees the ctx.  Everything else that is registered borrows it.
**
** gx_context() is registered first, so that a load that fails half-way leaks nothing: what was
** registered works and is freed with the connection.  It also answers "is gx here already?": called
** with a pointer of ours it fills in the owner.  A second load then does nothing, or finishes what
** an earlier one left undone; settings and counters stay.
**
** SQLite's functions are called through one table of pointers, sqlite3_api, of the library that
** loads gx.  A process may have several libraries (Python's own and apsw's): the table changes
** while gx has no connection, and where it has one a load from another library is refused.
**
** Threads: SQLite holds the connection's mutex in every call.  gx.so stays loaded until the process
** ends (SQLITE_OK_LOAD_PERMANENTLY), because the threads of BLAS outlive a connection; also where
** the load fails, because what was registered before is called until the connection closes.
*/
#include "gx_ext.h"

#include "../core/alg/by_parts.h"
#include "../core/base/signal.h"
#include "../core/connection.h"
#include "gx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

SQLITE_EXTENSION_INIT1

/* Whose sqlite3_api is. */
static struct {
    pthread_mutex_t lock;
    int users; /* connections that have gx, and loads under way */
} library = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void count_user(int more)
{
    pthread_mutex_lock(&library.lock);
    library.users += more;
    pthread_mutex_unlock(&library.lock);
}

/* SQLITE_DIRECTONLY came with 3.30, SQLITE_INNOCUOUS and SQLITE_VTAB_DIRECTONLY with 3.31. */
enum { OLDEST_SQLITE = 3031000 };

/* Of SQLite's virtual machine: between two looks for a signal, a millisecond or less. */
enum { STEPS_A_LOOK = 20000 };

static atomic_bool all_end_by_signal; // gx_on_signal(): of the connections that come next

/* Only a gx of this very version may look into the owner. */
static const char POINTER_TYPE[] = "gx owner " GX_VERSION;
static const char OWNER_FUNCTION[] = "gx_context";

/* The one owner of a connection's ctx: user data of gx_context(). */
typedef struct owner {
    gx_ctx *ctx;
    bool is_complete; /* everything has been registered */
} owner;

static void owner_free(void *ptr)
{
    owner *own = ptr;
    gx_ctx_free(own->ctx);
    sqlite3_free(own);
    count_user(-1);
}

/* gx_context(pointer): fill in the owner where the pointer is ours; the result is NULL. */
static void lend_owner(sqlite3_context *sql, int argc, sqlite3_value **argv)
{
    (void)argc;
    owner **out = sqlite3_value_pointer(argv[0], POINTER_TYPE);
    if (out != NULL) {
        *out = sqlite3_user_data(sql);
    }
}

/* is_present: a gx is loaded; *own NULL then means that it is of another version. */
static int find_owner(sqlite3 *db, bool *is_present, owner **own)
{
    *own = NULL;
    *is_present = false;
    if (gx_store_has_function(db, OWNER_FUNCTION) == GX_ABSENT) {
        return SQLITE_OK;
    }
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(db, "SELECT gx_context(?1)", -1, &stmt, NULL);
    if (rc != SQLITE_OK) {
        return rc == SQLITE_ERROR ? SQLITE_OK : rc; // no such function
    }
    *is_present = true;
    rc = sqlite3_bind_pointer(stmt, 1, own, POINTER_TYPE, NULL);
    if (rc == SQLITE_OK) {
        sqlite3_step(stmt);
    }
    int finalized = sqlite3_finalize(stmt);
    return rc != SQLITE_OK ? rc : finalized;
}

static int load_another(sqlite3 *db, gx_ctx **made, char **message);

/* What sqlite3_gx_safe_init() adds. */
static int restrict_sql(gx_ctx *ctx, gx_err *err)
{
    gx_code code = gx_ctx_configure(ctx, GX_SET_FILES, "off", err);
    if (code == GX_OK) {
        code = gx_ctx_configure(ctx, GX_SET_LOCKED, "on", err);
    }
    return gx_sqlite_code(code);
}

/* Make the ctx and its owner, which belongs to the connection; NULL on failure. */
static int create_owner(sqlite3 *db, owner **own, gx_err *err)
{
    *own = NULL;
    owner *made = sqlite3_malloc64(sizeof *made);
    if (made == NULL) {
        gx_fail_nomem(err, sizeof *made, "connection");
        return SQLITE_NOMEM;
    }
    *made = (owner){0};
    count_user(1);
    if (gx_ctx_create(db, &made->ctx, err) != GX_OK) {
        owner_free(made);
        return gx_sqlite_code(err->code);
    }
    made->ctx->load = load_another;
    made->ctx->drivers = &gx_drivers_all;
    made->ctx->version = GX_VERSION;
    int rc = sqlite3_create_function_v2(db, OWNER_FUNCTION, 1, SQLITE_UTF8 | SQLITE_DIRECTONLY,
                                        made, lend_owner, NULL, NULL, owner_free);
    if (rc == SQLITE_OK) { // else it has been freed
        *own = made;
    }
    return rc;
}

static int register_all(sqlite3 *db, gx_ctx *ctx)
{
#define TABLE(name) gx_functions_##name,
    static const gx_function *const tables[] = {GX_FUNCTION_TABLES(TABLE)};
#undef TABLE
    static int (*const modules[])(sqlite3 *, gx_ctx *) = {
        gx_register_aggregates,
        gx_register_agg_fns,
        gx_register_catalog,
        gx_register_guard,
        gx_register_cells,
        gx_register_vectors,
        gx_register_table_fns,
    };
    int rc = SQLITE_OK;
    for (size_t t = 0; t < sizeof tables / sizeof tables[0] && rc == SQLITE_OK; t++) {
        rc = gx_register_functions(db, ctx, tables[t]);
    }
    for (size_t m = 0; m < sizeof modules / sizeof modules[0] && rc == SQLITE_OK; m++) {
        rc = modules[m](db, ctx);
    }
    return rc;
}

/* *made: the connection's, where it has one. */
static int register_once(sqlite3 *db, bool is_safe, gx_ctx **made, gx_err *err)
{
    *made = NULL;
    if (sqlite3_libversion_number() < OLDEST_SQLITE) {
        gx_fail(err, GX_UNSUPPORTED, "needs SQLite 3.31 or newer, this is %s",
                sqlite3_libversion());
        return SQLITE_ERROR;
    }
    pthread_mutex_lock(&library.lock);
    gx_vfs_register();
    pthread_mutex_unlock(&library.lock);
    owner *own;
    bool is_present;
    int rc = find_owner(db, &is_present, &own);
    if ((rc & 0xff) == SQLITE_LOCKED) {
        gx_fail(err, GX_BUSY, "another connection of the shared cache is changing the schema; "
                              "load gx again when it has ended its transaction");
    }
    if (rc == SQLITE_OK && is_present && own == NULL) {
        gx_fail(err, GX_UNSUPPORTED, "another version of gx is loaded on this connection");
        return SQLITE_ERROR;
    }
    if (rc == SQLITE_OK && !is_present) {
        rc = create_owner(db, &own, err);
    }
    if (rc == SQLITE_OK && is_safe) { // before any function is there
        rc = restrict_sql(own->ctx, err);
    }
    if (rc == SQLITE_OK && !own->is_complete) {
        rc = register_all(db, own->ctx);
        own->is_complete = rc == SQLITE_OK;
        if (rc == SQLITE_OK) {
            gx_store_reread_schemas(db);
        }
    }
    *made = own == NULL ? NULL : own->ctx;
    return rc;
}

static int told(int rc, const gx_err *err, char **message)
{
    if (rc != SQLITE_OK && message != NULL) {
        *message = sqlite3_mprintf("gx: %s", err->code != GX_OK ? err->text : sqlite3_errstr(rc));
    }
    return rc;
}

static int load_another(sqlite3 *db, gx_ctx **made, char **message)
{
    gx_err err = {0};
    int rc = register_once(db, false, made, &err);
    return told(rc, &err, message);
}

#ifndef SQLITE_CORE
/* SQLite closes an object whose load has failed; what that has registered is still called. */
static void stay_loaded(void)
{
    Dl_info self;
    if (dladdr(POINTER_TYPE, &self) != 0 && self.dli_fname != NULL) {
        (void)dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    }
}

/* The caller is a user then; false: another library is in use. */
static bool enter_library(const sqlite3_api_routines *api)
{
    pthread_mutex_lock(&library.lock);
    bool may = library.users == 0 || sqlite3_api == api;
    if (may) {
        SQLITE_EXTENSION_INIT2(api);
        library.users++;
    }
    pthread_mutex_unlock(&library.lock);
    return may;
}
#endif

static int end_by_signal(void *unused)
{
    (void)unused;
    return gx_signal_ends_statement();
}

static int load(sqlite3 *db, bool is_safe, char **message)
{
    gx_ctx *made;
    gx_err err = {0};
    int rc = register_once(db, is_safe, &made, &err);
    if (rc == SQLITE_OK && atomic_load(&all_end_by_signal)) {
        sqlite3_progress_handler(db, STEPS_A_LOOK, end_by_signal, NULL);
    }
    return told(rc, &err, message);
}

/* The same for the library that asks. */
static int enter(sqlite3 *db, char **message, const sqlite3_api_routines *api, bool is_safe)
{
#ifdef SQLITE_CORE
    (void)api;
    return load(db, is_safe, message);
#else
    if (!enter_library(api)) {
        if (message != NULL) {
            *message = api->mprintf("gx: another SQLite library of this process uses this gx.so: "
                                    "close its connections, or load a copy of gx.so from "
                                    "another folder");
        }
        return SQLITE_ERROR;
    }
    stay_loaded();
    int rc = load(db, is_safe, message);
    count_user(-1);
    return rc == SQLITE_OK ? SQLITE_OK_LOAD_PERMANENTLY : rc;
#endif
}

// What applications call --------------------------------------------------------------------------

#define GX_PUBLIC __attribute__((visibility("default")))

GX_PUBLIC int sqlite3_gx_init(sqlite3 *db, char **message, const sqlite3_api_routines *api)
{
    return enter(db, message, api, false);
}

GX_PUBLIC int sqlite3_gx_safe_init(sqlite3 *db, char **message, const sqlite3_api_routines *api)
{
    return enter(db, message, api, true);
}

GX_PUBLIC int gx_on_signal(const gx_signal *signal, int is_all)
{
    gx_signal_watched watched = {
        .number = signal->number,
        .thread = (pthread_t)signal->thread,
        .may_end = signal->may_end,
        .take = signal->take,
        .ending = signal->ending,
        .again = signal->again,
    };
    bool is_watched = gx_signal_watch(&watched);
    atomic_store(&all_end_by_signal, is_watched && is_all != 0);
    return is_watched ? 0 : 1;
}

static int configure(sqlite3 *db, const char *key, const char *value, gx_err *err)
{
    owner *own;
    bool is_present;
    gx_setting setting;
    int rc = find_owner(db, &is_present, &own);
    if (rc != SQLITE_OK) {
        return rc;
    }
    if (own == NULL) {
        gx_fail(err, GX_ARG, "gx_configure: the connection has no gx of this version");
        return SQLITE_MISUSE;
    }
    if (own->ctx->runs > 0) {
        gx_fail(err, GX_ARG, "gx_configure: %s cannot be set while a call of gx is running", key);
        return SQLITE_MISUSE;
    }
    gx_code code = gx_config_find(key, &setting, err);
    if (code == GX_OK) {
        code = gx_ctx_configure(own->ctx, setting, value, err);
    }
    return gx_sqlite_code(code);
}

GX_PUBLIC int gx_configure(sqlite3 *db, const char *key, const char *value, char **message)
{
    gx_err err = {0};
    pthread_mutex_lock(&library.lock);
    bool has_library = library.users > 0;
    pthread_mutex_unlock(&library.lock);
    if (!has_library || db == NULL || key == NULL || value == NULL) {
        return SQLITE_MISUSE; // no SQLite to ask for a text's memory
    }
    sqlite3_mutex *mutex = sqlite3_db_mutex(db);
    sqlite3_mutex_enter(mutex);
    int rc = configure(db, key, value, &err);
    sqlite3_mutex_leave(mutex);
    return told(rc, &err, message);
}
