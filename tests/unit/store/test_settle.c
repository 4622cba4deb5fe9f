/*
** Waiting for the disk while others compute (gx_store_settle() in store_pragma.c, and the host
** executor that calls it).
**
** Plan, over a VFS that counts xSync of the database's file and can make it fail:
**   1. who waits: a rollback journal with synchronous on; not: off, temp, in memory
**   2. the disk refuses: the error, and a call that stores fails with it and leaves nothing
**   3. a stored product waits before its commit, and only where the commit will
*/
#include "connection.h"
#include "alg/alg.h"
#include "store/store.h"

#include <sqlite3.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 3200 }; // the first block of a product has 16 MiB, and much is left when it is stored

static sqlite3_vfs *below, shim;
static const sqlite3_io_methods *real_methods;
static sqlite3_io_methods shim_methods;
static atomic_int syncs;
static atomic_bool refuses;

static int count_sync(sqlite3_file *file, int flags)
{
    atomic_fetch_add(&syncs, 1);
    return atomic_load(&refuses) ? SQLITE_IOERR_FSYNC : real_methods->xSync(file, flags);
}

/* The database's file itself gets methods that count; its journal and log do not. */
static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    (void)vfs;
    int rc = below->xOpen(below, name, file, flags, out);
    if (rc == SQLITE_OK && (flags & SQLITE_OPEN_MAIN_DB) != 0) {
        real_methods = file->pMethods;
        shim_methods = *file->pMethods;
        shim_methods.xSync = count_sync;
        file->pMethods = &shim_methods;
    }
    return rc;
}

typedef struct fixture {
    char folder[64], path[96];
    sqlite3 *db;
    gx_ctx *ctx;
} fixture;

static void run_sql(sqlite3 *db, const char *sql)
{
    char *message = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
        fail_msg("%s: %s", sql, message);
    }
}

static int setup(void **state)
{
    static fixture f;
    gx_err err = {0};
    below = sqlite3_vfs_find(NULL);
    shim = *below;
    shim.zName = "counting";
    shim.xOpen = open_file;
    sqlite3_vfs_register(&shim, 0);
    snprintf(f.folder, sizeof f.folder, "/tmp/gx_settle_XXXXXX");
    assert_non_null(mkdtemp(f.folder));
    snprintf(f.path, sizeof f.path, "%s/t.db", f.folder);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    assert_int_equal(sqlite3_open_v2(f.path, &f.db, flags, "counting"), SQLITE_OK);
    assert_int_equal(gx_ctx_create(f.db, &f.ctx, &err), GX_OK);
    atomic_store(&refuses, false);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    gx_ctx_free(f->ctx);
    assert_int_equal(sqlite3_close(f->db), SQLITE_OK);
    static const char *const names[] = {"t.db", "t.db-journal", "t.db-wal", "t.db-shm"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", f->folder, names[i]);
        unlink(path);
    }
    rmdir(f->folder);
    sqlite3_vfs_unregister(&shim);
    return 0;
}

/* How often settling the schema waits. */
static int settled(fixture *f, const char *schema)
{
    gx_err err = {0};
    int before = atomic_load(&syncs);
    assert_int_equal(gx_store_settle(f->ctx->store, schema, &err), GX_OK);
    return atomic_load(&syncs) - before;
}

static void test_who_waits(void **state)
{
    fixture *f = *state;
    run_sql(f->db, "CREATE TABLE t(x); ATTACH ':memory:' AS m");
    assert_int_equal(settled(f, "main"), 1);
    assert_int_equal(settled(f, "temp"), 0);
    assert_int_equal(settled(f, "m"), 0);
    run_sql(f->db, "PRAGMA synchronous = normal");
    assert_int_equal(settled(f, "main"), 1);
    run_sql(f->db, "PRAGMA synchronous = off");
    assert_int_equal(settled(f, "main"), 0);
}

/* C = random * random, n x n, stored as C. */
static gx_code product(fixture *f, int64_t n, gx_err *err)
{
    gx_run run;
    gx_sink sink;
    gx_mat A, B;
    size_t bytes = (size_t)(n * n) * sizeof(double);
    double *data = malloc(2 * bytes);
    assert_non_null(data);
    for (int64_t i = 0; i < 2 * n * n; i++) {
        data[i] = (double)(i % 7);
    }
    gx_mat_value(&A, "A", GX_F64, n, n, data, n);
    gx_mat_value(&B, "B", GX_F64, n, n, data + n * n, n);
    gx_run_begin(&run, f->ctx, "gx_matmul");
    gx_matmul_args args = {.A = &A, .B = &B, .alpha = {1, 0}};
    gx_sink_begin(&run, &(gx_dest){.name = "C", .replace = true}, n, n, GX_F64, 0, 0, 0, &sink);
    gx_alg_matmul(&run, &args, &sink);
    gx_sink_end(&sink);
    *err = run.err;
    gx_run_end(&run);
    free(data);
    return err->code;
}

static void test_product(void **state)
{
    fixture *f = *state;
    gx_err err = {0};
    run_sql(f->db, "PRAGMA page_size = 65536");
    atomic_store(&syncs, 0);
    assert_int_equal(product(f, 10, &err), GX_OK);
    int commit = atomic_load(&syncs); // of a call that does not settle
    atomic_store(&syncs, 0);
    assert_int_equal(product(f, N, &err), GX_OK);
    assert_true(atomic_load(&syncs) > commit);
    run_sql(f->db, "PRAGMA synchronous = off");
    atomic_store(&syncs, 0);
    assert_int_equal(product(f, N, &err), GX_OK);
    assert_int_equal(atomic_load(&syncs), 0);
}

static void test_refused(void **state)
{
    fixture *f = *state;
    gx_err err = {0};
    assert_int_equal(product(f, 10, &err), GX_OK);
    atomic_store(&refuses, true);
    assert_int_equal(gx_store_settle(f->ctx->store, "main", &err), GX_IO);
    assert_string_equal(err.text, "waiting for the disk of main: disk I/O error");
    assert_int_equal(product(f, N, &err), GX_IO);
    assert_string_equal(err.text, "waiting for the disk of main: disk I/O error");
    atomic_store(&refuses, false);
    gx_meta meta;
    assert_int_equal(gx_store_find(f->ctx->store, "C", &meta, &err), GX_OK);
    assert_int_equal(meta.rows, 10); // as it was
    assert_true(sqlite3_get_autocommit(f->db));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_who_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_product, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
