/*
** The store through its own interface (core/store/store.h), on a SQLite library linked in: writing.
**
** Plan:
**   1. life of a matrix: begin, create, write, publish, end; nothing is open after release:
**      sqlite3_close
**   2. giving up: rollback, nested calls, release without end, writes inside a writing statement,
**      tables that come and go behind the connection's memory
**   3. interrupts: seen by the poll; a storing call unwinds although every statement is refused
**   4. what SQLite refuses: read-only, busy, full, too big; code and text
**   5. progress functions, flush
**   6. defensive mode and the commit that fails
*/
#include "gx.h"
#include "storekit.h"

// 1. ----------------------------------------------------------------------------------------------

static void life(void **state)
{
    fixture *f = *state;
    gx_meta meta = make(f, "main", "A"), found;
    assert_int_equal(meta.tile_rows, 17); // 50 in three pieces of at most 20
    assert_int_equal(meta.tile_cols, 15);
    ok(f, gx_store_find(f->store, "A", &found, &f->err));
    assert_memory_equal(&found, &meta, sizeof meta);
    gx_reader *reader;
    double x[3];
    ok(f, gx_reader_own(f->store, &reader, &f->err));
    ok(f, gx_reader_read(reader, &found, 4, 80, sizeof x, x, &f->err));
    assert_true(x[0] == 4010 && x[2] == 4012);
    gx_reader_close(reader);
    gx_store_release(f->store);
    assert_int_equal(number(f->db, "SELECT count(*) FROM gx_tile"), 6);
    assert_int_equal(number(f->other, "SELECT count(*) FROM gx_meta WHERE name = 'A'"), 1);
}

static void names(void **state)
{
    fixture *f = *state;
    gx_meta meta;
    bool found;
    ok(f, gx_store_lookup(f->store, "A", &meta, &found, &f->err));
    assert_false(found);
    is_error(f, gx_store_find(f->store, "aux.A", &meta, &f->err), GX_ARG,
             "no matrix named 'aux.A'");
    char schema[GX_NAME_MAX + 1], name[GX_NAME_MAX + 1];
    ok(f, gx_store_resolve(f->store, "A", schema, name, &f->err));
    assert_string_equal(schema, "main");
    assert_string_equal(name, "A");
    run_sql(f->db, "ATTACH ':memory:' AS \"Aux\"");
    ok(f, gx_store_resolve(f->store, "aUX.A.b", schema, name, &f->err));
    assert_string_equal(schema, "Aux"); // as the connection spells it
    assert_string_equal(name, "A.b");
}

// 2. ----------------------------------------------------------------------------------------------

static void rolled_back(void **state)
{
    fixture *f = *state;
    gx_meta meta;
    bool found;
    ok(f, gx_store_begin(f->store, "main", &f->err));
    ok(f, create_all(f, "main", "A", &meta));
    ok(f, gx_store_end(f->store, false, &f->err));
    ok(f, gx_store_lookup(f->store, "A", &meta, &found, &f->err));
    assert_false(found);
    gx_store_release(f->store);
    assert_int_equal(number(f->db, "SELECT count(*) FROM sqlite_master"), 0); // the tables too
    assert_true(sqlite3_get_autocommit(f->db));
}

static void rolled_back_in_a_transaction(void **state)
{
    fixture *f = *state;
    gx_meta meta;
    make(f, "main", "A");
    run_sql(f->db, "BEGIN; CREATE TABLE t(a); INSERT INTO t VALUES(1)");
    ok(f, gx_store_begin(f->store, "main", &f->err));
    ok(f, create_all(f, "main", "B", &meta));
    ok(f, gx_store_end(f->store, false, &f->err));
    gx_store_release(f->store);
    run_sql(f->db, "INSERT INTO t VALUES(2); COMMIT");
    assert_int_equal(number(f->db, "SELECT count(*) FROM t"), 2);
    assert_int_equal(number(f->db, "SELECT count(*) FROM gx_meta"), 1);
    assert_int_equal(number(f->db, "SELECT count(*) FROM gx_tile"), 6);
}

static void nested(void **state)
{
    fixture *f = *state;
    gx_meta meta;
    ok(f, gx_store_begin(f->store, "main", &f->err));
    ok(f, create_all(f, "main", "outer", &meta));
    ok(f, gx_store_begin(f->store, "temp", &f->err));
    ok(f, create_all(f, "temp", "lost", &meta));
    ok(f, gx_store_end(f->store, false, &f->err));
    ok(f, gx_store_begin(f->store, "main", &f->err));
    ok(f, create_all(f, "main", "inner", &meta));
    ok(f, gx_store_end(f->store, true, &f->err));
    ok(f, gx_store_end(f->store, true, &f->err));
    gx_store_release(f->store);
    assert_int_equal(number(f->other, "SELECT count(*) FROM gx_meta WHERE name IS NOT NULL"), 2);
    assert_int_equal(number(f->db, "SELECT count(*) FROM sqlite_temp_master"), 0);
    for (int depth = 0; depth < 16; depth++) {
        ok(f, gx_store_begin(f->store, "main", &f->err));
    }
    is_error(f, gx_store_begin(f->store, "main", &f->err), GX_UNSUPPORTED,
             "storing calls nested deeper than 16");
}

static void given_up(void **state)
{
    fixture *f = *state;
    gx_meta meta;
    ok(f, gx_store_begin(f->store, "main", &f->err));
    ok(f, create_all(f, "main", "A", &meta));
    gx_store_release(f->store);
    assert_true(sqlite3_get_autocommit(f->db));
    assert_int_equal(number(f->db, "SELECT count(*) FROM sqlite_master"), 0);
}

static void old_one_stays_until_published(void **state)
{
    fixture *f = *state;
    gx_meta old = make(f, "main", "A"), meta, found;
    ok(f, gx_store_begin(f->store, "main", &f->err));
    is_error(f, create_all(f, "main", "A", &meta), GX_ARG,
             "matrix 'A' already exists (use '{\"replace\":true}')");
    ok(f, gx_store_find(f->store, "A", &found, &f->err));
    assert_int_equal(found.id, old.id);
    ok(f, gx_store_publish(f->store, &meta, "A", true, &f->err));
    ok(f, gx_store_find(f->store, "A", &found, &f->err));
    assert_int_equal(found.id, meta.id);
    ok(f, gx_store_end(f->store, true, &f->err));
    gx_store_release(f->store);
    assert_int_equal(number(f->db, "SELECT count(*) FROM gx_tile"), 6);
}

/*
** store_in_sql(name, how): a storing call as a SQL function; how: 'ok', 'fail' after writing, or
** 'interrupt' (sqlite3_interrupt() in the middle).
*/
static void store_in_sql(sqlite3_context *sql, int argc, sqlite3_value **argv)
{
    (void)argc;
    fixture *f = sqlite3_user_data(sql);
    const char *name = (const char *)sqlite3_value_text(argv[0]);
    const char *how = (const char *)sqlite3_value_text(argv[1]);
    gx_meta meta;
    gx_err err = {0};
    gx_code code = gx_store_begin(f->store, "main", &f->err);
    if (code == GX_OK) {
        code = create_all(f, "main", name, &meta);
        if (strcmp(how, "interrupt") == 0) {
            assert_false(gx_store_is_interrupted(f->store));
            sqlite3_interrupt(f->db);
            assert_true(gx_store_is_interrupted(f->store));
            code = gx_fail(&f->err, GX_INTERRUPT, "interrupted");
        }
        bool commit = code == GX_OK && strcmp(how, "ok") == 0;
        gx_code ended = gx_store_end(f->store, commit, &err);
        code = commit ? ended : GX_ARG;
        assert_int_equal(err.code, GX_OK);
    }
    gx_store_release(f->store);
    memset(&f->err, 0, sizeof f->err);
    if (strcmp(how, "interrupt") == 0) {
        sqlite3_result_error_code(sql, SQLITE_INTERRUPT);
    } else if (code != GX_OK) {
        sqlite3_result_error(sql, "refused", -1);
    } else {
        sqlite3_result_text(sql, name, -1, SQLITE_TRANSIENT);
    }
}

static void add_function(fixture *f)
{
    sqlite3_create_function(f->db, "store", 2, SQLITE_UTF8 | SQLITE_DIRECTONLY, f, store_in_sql,
                            NULL, NULL);
}

static void inside_a_writing_statement(void **state)
{
    fixture *f = *state;
    add_function(f);
    run_sql(f->db, "CREATE TABLE t(a); INSERT INTO t SELECT store('A', 'ok')");
    assert_int_equal(number(f->db, "SELECT count(*) FROM gx_meta WHERE name = 'A'"), 1);
    run_sql(f->db, "INSERT INTO t SELECT store('m' || value, 'ok') FROM json_each('[1,2,3]')");
    assert_int_equal(number(f->db, "SELECT count(*) FROM gx_meta"), 4);
    run_sql(f->db, "UPDATE t SET a = store('u' || a, 'ok')");
    run_sql(f->db, "CREATE TABLE c AS SELECT store('c', 'ok')");
    assert_int_equal(number(f->db, "SELECT count(*) FROM gx_meta"), 9);

    // In autocommit the failed statement is rolled back as a whole.
    assert_int_equal(sqlite3_exec(f->db,
                                  "INSERT INTO t SELECT store(column1, column2) "
                                  "FROM (VALUES('x', 'ok'), ('y', 'fail'))",
                                  NULL, NULL, NULL),
                     SQLITE_ERROR);
    assert_int_equal(number(f->db, "SELECT count(*) FROM gx_meta"), 9);
    assert_int_equal(number(f->db, "SELECT count(*) FROM gx_tile"), 9 * 6);

    // In a transaction a statement of one row has no journal: the store removes what it made.
    run_sql(f->db, "BEGIN");
    assert_int_equal(
        sqlite3_exec(f->db, "INSERT INTO t VALUES(store('y', 'fail'))", NULL, NULL, NULL),
        SQLITE_ERROR);
    run_sql(f->db, "COMMIT");
    assert_int_equal(number(f->db, "SELECT count(*) FROM gx_meta"), 9);
    assert_int_equal(number(f->db, "SELECT count(*) FROM gx_tile"), 9 * 6);
}

/*
** The tables are made by the first row and taken back with the statement, while the transaction and
** the connection's memory of them go on.
*/
static void tables_taken_back(void **state)
{
    fixture *f = *state;
    add_function(f);
    run_sql(f->db, "CREATE TABLE t(a); BEGIN; INSERT INTO t VALUES('mine')");
    assert_int_equal(sqlite3_exec(f->db,
                                  "INSERT INTO t SELECT store(column1, column2) "
                                  "FROM (VALUES('x', 'ok'), ('y', 'fail'))",
                                  NULL, NULL, NULL),
                     SQLITE_ERROR);
    gx_meta meta;
    bool found;
    ok(f, gx_store_lookup(f->store, "x", &meta, &found, &f->err));
    assert_false(found);
    gx_store_release(f->store);
    run_sql(f->db, "SELECT store('z', 'ok'); COMMIT");
    assert_int_equal(number(f->other, "SELECT count(*) FROM t"), 1);
    assert_int_equal(number(f->other, "SELECT count(*) FROM gx_meta"), 1);
}

static void tables_dropped_by_another(void **state)
{
    fixture *f = *state;
    gx_meta meta;
    bool found;
    make(f, "main", "A");
    gx_store_release(f->store);
    run_sql(f->other, "DROP TABLE gx_meta; DROP TABLE gx_tile; DROP TABLE gx_state");
    ok(f, gx_store_lookup(f->store, "A", &meta, &found, &f->err));
    assert_false(found);
    gx_store_release(f->store);
    make(f, "main", "A");
    gx_store_release(f->store);

    // And made by another: this connection remembers that there are none.
    run_sql(f->db, "DROP TABLE gx_meta; DROP TABLE gx_tile; DROP TABLE gx_state");
    assert_int_equal(number(f->db, "SELECT count(*) FROM sqlite_master"), 0);
    run_sql(f->other, "CREATE TABLE gx_state(key TEXT PRIMARY KEY, value); "
                      "INSERT INTO gx_state VALUES('format', 1); "
                      "CREATE TABLE gx_meta(id, name); CREATE TABLE gx_tile(id, data)");
    is_error(f, gx_store_lookup(f->store, "A", &meta, &found, &f->err), GX_CORRUPT,
             "tables of gx in main: no such column: rows");
}

// 3. ----------------------------------------------------------------------------------------------

static void interrupted_in_autocommit(void **state)
{
    fixture *f = *state;
    add_function(f);
    make(f, "main", "A");
    gx_store_release(f->store);
    run_sql(f->db, "CREATE TABLE t(a); INSERT INTO t VALUES(1), (2)");
    static const char *const statements[] = {
        "SELECT store('B', 'interrupt')",
        "SELECT store('B', 'interrupt') FROM t",
        "INSERT INTO t SELECT store('B', 'interrupt')",
    };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sqlite3_exec(f->db, statements[i], NULL, NULL, NULL), SQLITE_INTERRUPT);
        assert_true(sqlite3_get_autocommit(f->db));
        assert_int_equal(number(f->db, "SELECT count(*) FROM gx_meta"), 1);
        assert_int_equal(number(f->db, "SELECT count(*) FROM gx_tile"), 6);
        assert_int_equal(number(f->db, "SELECT count(*) FROM t"), 2);
        run_sql(f->other, "CREATE TABLE free(a); DROP TABLE free"); // no lock is left
    }
    run_sql(f->db, "SELECT store('B', 'ok')");
    assert_int_equal(number(f->other, "SELECT count(*) FROM gx_meta"), 2);
}

/* The first storing call of a file also makes the tables: the schema changes under the rollback. */
static void interrupted_first_call(void **state)
{
    fixture *f = *state;
    add_function(f);
    run_sql(f->db, "CREATE TABLE t(a); INSERT INTO t VALUES(1), (2)");
    assert_int_equal(sqlite3_exec(f->db, "SELECT store('B', 'interrupt') FROM t", NULL, NULL, NULL),
                     SQLITE_INTERRUPT);
    assert_true(sqlite3_get_autocommit(f->db));
    assert_int_equal(number(f->db, "SELECT count(*) FROM sqlite_master"), 1);
}

/* As an interrupted INSERT does, the call ends the user's transaction: nothing of it is left. */
static void interrupted_in_a_transaction(void **state)
{
    fixture *f = *state;
    add_function(f);
    run_sql(f->db, "CREATE TABLE t(a); BEGIN; INSERT INTO t VALUES(1)");
    assert_int_equal(sqlite3_exec(f->db, "SELECT store('B', 'interrupt')", NULL, NULL, NULL),
                     SQLITE_INTERRUPT);
    assert_true(sqlite3_get_autocommit(f->db));
    assert_int_equal(number(f->db, "SELECT count(*) FROM t"), 0);
    assert_int_equal(number(f->db, "SELECT count(*) FROM sqlite_master"), 1);
}

// 4. ----------------------------------------------------------------------------------------------

static void readonly(void **state)
{
    fixture *f = *state;
    make(f, "main", "A");
    gx_store_release(f->store);
    run_sql(f->db, "PRAGMA query_only = 1");
    is_error(f, gx_store_begin(f->store, "main", &f->err), GX_READONLY,
             "writing to main: attempt to write a readonly database");
    run_sql(f->db, "ATTACH ':memory:' AS empty");
    is_error(f, gx_store_begin(f->store, "empty", &f->err), GX_READONLY,
             "making the tables of gx in empty: attempt to write a readonly database");
    gx_store_release(f->store);
    run_sql(f->db, "PRAGMA query_only = 0");
    assert_true(sqlite3_get_autocommit(f->db));
}

static void busy(void **state)
{
    fixture *f = *state;
    gx_meta meta;
    make(f, "main", "A");
    gx_store_release(f->store);
    run_sql(f->other, "BEGIN IMMEDIATE");
    is_error(f, gx_store_begin(f->store, "main", &f->err), GX_BUSY,
             "writing to main: database is locked");
    ok(f, gx_store_find(f->store, "A", &meta, &f->err)); // reading goes on
    gx_store_release(f->store);
    run_sql(f->other, "COMMIT; BEGIN EXCLUSIVE");
    is_error(f, gx_store_find(f->store, "A", &meta, &f->err), GX_BUSY,
             "reading main: database is locked");
    gx_store_release(f->store);
    run_sql(f->other, "COMMIT");
}

/* A reader that came meanwhile keeps the commit from happening: all is rolled back. */
static void busy_at_commit(void **state)
{
    fixture *f = *state;
    gx_meta meta;
    make(f, "main", "A");
    gx_store_release(f->store);
    ok(f, gx_store_begin(f->store, "main", &f->err));
    ok(f, create_all(f, "main", "B", &meta));
    run_sql(f->other, "BEGIN; SELECT * FROM gx_meta");
    is_error(f, gx_store_end(f->store, true, &f->err), GX_BUSY, "committing: database is locked");
    assert_true(sqlite3_get_autocommit(f->db));
    gx_store_release(f->store);
    run_sql(f->other, "COMMIT");
    assert_int_equal(number(f->db, "SELECT count(*) FROM gx_meta"), 1);
    make(f, "main", "B");
}

static void full(void **state)
{
    fixture *f = *state;
    gx_meta meta;
    make(f, "main", "A");
    gx_store_release(f->store);
    run_sql(f->db, "PRAGMA max_page_count = 1"); // as a disk that is full
    ok(f, gx_store_begin(f->store, "main", &f->err));
    is_error(f, create_all(f, "main", "B", &meta), GX_FULL,
             "writing tile 0 of (id 2) to main: database or disk is full");
    ok(f, gx_store_end(f->store, false, &f->err));
    gx_store_release(f->store);
    assert_true(sqlite3_get_autocommit(f->db));
    assert_int_equal(number(f->db, "SELECT count(*) FROM gx_meta"), 1);
    assert_int_equal(number(f->db, "SELECT count(*) FROM gx_tile"), 6);
}

static void too_big(void **state)
{
    fixture *f = *state;
    sqlite3_limit(f->db, SQLITE_LIMIT_LENGTH, 3000);
    assert_int_equal(gx_store_length_limit(f->store), 3000);
    assert_int_equal(gx_store_max_tile_bytes(f->store), 3000 - 64);
    gx_meta meta = shaped("main", 1000, 1);
    double data[400] = {0};
    ok(f, gx_store_begin(f->store, "main", &f->err));
    ok(f, gx_store_create(f->store, &meta, NULL, &f->err));
    assert_int_equal(meta.tile_rows, 320); // (3000 - 64) / 8 = 367, down to a multiple of 64
    meta.tile_rows = 400;
    is_error(f, gx_store_write_tile(f->store, &meta, 0, data, &f->err), GX_TOOBIG,
             "a tile of 3200 bytes is past SQLite's length limit of 3000");
    ok(f, gx_store_end(f->store, false, &f->err));
}

static int deny_inserts(void *arg, int action, const char *a, const char *b, const char *c,
                        const char *d)
{
    (void)arg, (void)b, (void)c, (void)d;
    return action == SQLITE_INSERT && strcmp(a, "gx_tile") == 0 ? SQLITE_DENY : SQLITE_OK;
}

static void not_authorized(void **state)
{
    fixture *f = *state;
    gx_meta meta;
    sqlite3_set_authorizer(f->db, deny_inserts, NULL);
    ok(f, gx_store_begin(f->store, "main", &f->err));
    is_error(f, create_all(f, "main", "A", &meta), GX_AUTH,
             "not authorized: tables of gx in main");
    ok(f, gx_store_end(f->store, false, &f->err));
    sqlite3_set_authorizer(f->db, NULL, NULL);
}

// 5. ----------------------------------------------------------------------------------------------

/* progress(label, fraction, seconds): the number in its user data; 2 makes it fail. */
static void progress_fn(sqlite3_context *sql, int argc, sqlite3_value **argv)
{
    (void)argc;
    const int *answer = sqlite3_user_data(sql);
    assert_string_equal((const char *)sqlite3_value_text(argv[0]), "gx_test");
    assert_true(sqlite3_value_double(argv[1]) == 0.5);
    if (*answer == 2) {
        sqlite3_result_error(sql, "no thanks", -1);
    } else {
        sqlite3_result_int(sql, *answer);
    }
}

static void progress(void **state)
{
    fixture *f = *state;
    int answer = 0;
    gx_store *s = f->store;
    sqlite3_create_function(f->db, "odd \"fn", 3, SQLITE_UTF8, &answer, progress_fn, NULL, NULL);
    ok(f, gx_store_call_progress(s, "odd \"fn", "gx_test", 0.5, 1, &f->err));
    ok(f, gx_store_call_progress(s, "odd \"fn", "gx_test", 0.5, 1, &f->err));
    answer = 1;
    is_error(f, gx_store_call_progress(s, "odd \"fn", "gx_test", 0.5, 1, &f->err), GX_INTERRUPT,
             "interrupted by progress function odd \"fn");
    answer = 2;
    is_error(f, gx_store_call_progress(s, "odd \"fn", "gx_test", 0.5, 1, &f->err), GX_ARG,
             "progress function odd \"fn: no thanks");
    is_error(f, gx_store_call_progress(s, "nobody", "gx_test", 0.5, 1, &f->err), GX_ARG,
             "progress function nobody: no such function: nobody");
}

typedef struct flushing {
    gx_store *store;
    int calls;
    gx_code code;
} flushing;

static gx_code flush(void *arg, gx_err *err)
{
    flushing *flushed = arg;
    gx_meta meta;
    bool found;
    flushed->calls++;
    if (flushed->code != GX_OK) {
        return gx_fail(err, flushed->code, "flush fails");
    }
    return gx_store_lookup(flushed->store, "A", &meta, &found, err); // does not come back here
}

static void flushes(void **state)
{
    fixture *f = *state;
    flushing flushed = {.store = f->store};
    gx_meta meta;
    bool found;
    char schema[GX_NAME_MAX + 1], name[GX_NAME_MAX + 1];
    gx_store_set_flush(f->store, flush, &flushed);
    ok(f, gx_store_lookup(f->store, "A", &meta, &found, &f->err));
    assert_int_equal(flushed.calls, 1);
    ok(f, gx_store_resolve(f->store, "A", schema, name, &f->err));
    ok(f, gx_store_begin(f->store, "main", &f->err));
    assert_int_equal(flushed.calls, 3);
    ok(f, gx_store_end(f->store, true, &f->err));
    flushed.code = GX_FULL;
    is_error(f, gx_store_find(f->store, "A", &meta, &f->err), GX_FULL, "flush fails");
    is_error(f, gx_store_begin(f->store, "main", &f->err), GX_FULL, "flush fails");
    gx_store_set_flush(f->store, NULL, NULL);
}

// 6. ----------------------------------------------------------------------------------------------

static void is_protected(sqlite3 *db)
{
    static const char *const forbidden[] = {
        "DELETE FROM gx_tile",
        "UPDATE gx_meta SET rows = 1",
        "DROP TABLE gx_state",
        "INSERT INTO gx_tile VALUES(1, x'')",
    };
    assert_int_equal(sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL), SQLITE_OK);
    for (size_t i = 0; i < sizeof forbidden / sizeof forbidden[0]; i++) {
        assert_int_equal(sqlite3_exec(db, forbidden[i], NULL, NULL, NULL), SQLITE_ERROR);
    }
    assert_int_equal(number(db, "SELECT count(*) FROM gx_tile"), 1); // reading is allowed
}

/* The whole of gx, linked in, on a connection in defensive mode. */
static void defensive(void **state)
{
    fixture *f = *state;
    assert_int_equal(sqlite3_gx_init(f->db, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_db_config(f->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL), SQLITE_OK);
    run_sql(f->db, "CREATE VIRTUAL TABLE gx USING gx_catalog"); // protects the others
    run_sql(f->db, "SELECT gx_store('A', '[1,2]'), gx_copy('A', 'B'), gx_drop('A')");
    run_sql(f->db,
            "INSERT INTO gx(name, value) VALUES('C', '[3]'); DELETE FROM gx WHERE name = 'B'");
    is_protected(f->db);
    assert_int_equal(number(f->db, "SELECT gx_check() = 'ok'"), 1);

    // Another connection has read the schema before gx came.
    assert_int_equal(number(f->other, "SELECT count(*) FROM gx_tile"), 1);
    run_sql(f->other, "CREATE TEMP TABLE mine(a); INSERT INTO mine VALUES(1)");
    assert_int_equal(sqlite3_gx_init(f->other, NULL, NULL), SQLITE_OK);
    is_protected(f->other);
    assert_int_equal(number(f->other, "SELECT count(*) FROM mine"), 1);

    run_sql(f->db, "DROP TABLE gx"); // and no matrix
    assert_int_equal(number(f->db, "SELECT count(*) FROM gx_tile"), 1);
    assert_int_equal(number(f->db, "SELECT gx_check() = 'ok'"), 1);
}

static int refuse_commit(void *arg)
{
    (void)arg;
    return 1;
}

static void commit_hook_refuses(void **state)
{
    fixture *f = *state;
    gx_meta meta;
    make(f, "main", "A");
    gx_store_release(f->store);
    sqlite3_commit_hook(f->db, refuse_commit, NULL);
    ok(f, gx_store_begin(f->store, "main", &f->err));
    ok(f, create_all(f, "main", "B", &meta));
    is_error(f, gx_store_end(f->store, true, &f->err), GX_CORRUPT, "committing: constraint failed");
    sqlite3_commit_hook(f->db, NULL, NULL);
    gx_store_release(f->store);
    assert_true(sqlite3_get_autocommit(f->db));
    assert_int_equal(number(f->db, "SELECT count(*) FROM gx_meta"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(life),
        TEST(names),
        TEST(rolled_back),
        TEST(rolled_back_in_a_transaction),
        TEST(nested),
        TEST(given_up),
        TEST(old_one_stays_until_published),
        TEST(inside_a_writing_statement),
        TEST(tables_taken_back),
        TEST(tables_dropped_by_another),
        TEST(interrupted_in_autocommit),
        TEST(interrupted_first_call),
        TEST(interrupted_in_a_transaction),
        TEST(readonly),
        TEST(busy),
        TEST(busy_at_commit),
        TEST(full),
        TEST(too_big),
        TEST(not_authorized),
        TEST(progress),
        TEST(flushes),
        TEST(defensive),
        TEST(commit_hook_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
