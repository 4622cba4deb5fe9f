/*
** The store through its own interface (core/store/store.h): reading, and writing parts of tiles.
**
** Plan:
**   1. the read pin, in rollback and WAL mode
**   2. patches and the own reader; pieces of several matrices in turn
**   3. helper readers: refusals, agreement, disagreement, locks, attached databases, damage
**   4. counters
**   5. helpers map the file when the application's connection does, and only then
*/
#include "storekit.h"

// 1. ----------------------------------------------------------------------------------------------

static void pin_in_rollback_mode(void **state)
{
    fixture *f = *state;
    gx_meta meta;
    make(f, "main", "A");
    gx_store_release(f->store);
    ok(f, gx_store_find(f->store, "A", &meta, &f->err));
    assert_int_equal(sqlite3_exec(f->other, "DELETE FROM gx_tile", NULL, NULL, NULL), SQLITE_BUSY);
    gx_store_release(f->store);
    run_sql(f->other, "DELETE FROM gx_tile");
    ok(f, gx_store_find(f->store, "A", &meta, &f->err));
    gx_reader *reader;
    double x;
    ok(f, gx_reader_own(f->store, &reader, &f->err));
    is_error(f, gx_reader_read(reader, &meta, 1, 0, sizeof x, &x, &f->err), GX_CORRUPT,
             "tile 1 of A is missing");
    gx_reader_close(reader);
}

static void pin_in_wal_mode(void **state)
{
    fixture *f = *state;
    gx_meta meta, again;
    bool found;
    run_sql(f->db, "PRAGMA journal_mode = wal");
    make(f, "main", "A");
    gx_store_release(f->store);
    ok(f, gx_store_find(f->store, "A", &meta, &f->err));
    run_sql(f->other, "DELETE FROM gx_tile; DELETE FROM gx_meta");
    gx_reader *reader;
    double x;
    ok(f, gx_reader_own(f->store, &reader, &f->err));
    ok(f,
       gx_reader_read(reader, &meta, 1, 8, sizeof x, &x, &f->err)); // the state the call began with
    assert_true(x == 1001);
    ok(f, gx_store_find(f->store, "A", &again, &f->err));
    is_error(f, gx_store_begin(f->store, "main", &f->err), GX_BUSY,
             "writing to main: another connection has written since this call began to read");
    gx_reader_close(reader);
    gx_store_release(f->store);
    ok(f, gx_store_lookup(f->store, "A", &meta, &found, &f->err));
    assert_false(found);
}

/* Found in volumes; before the lock is had another connection brings all home. */
static void home_before_the_lock(void **state)
{
    fixture *f = *state;
    gx_store *second;
    gx_meta meta;
    int64_t freed;
    run_sql(f->db, "PRAGMA journal_mode = wal");
    gx_store_set_tile_bytes(f->store, 1600);
    ok(f, gx_store_set_volumes(f->store, "main", 1, NULL, &f->err));
    make(f, "main", "A");
    gx_store_release(f->store);
    ok(f, gx_store_find(f->store, "A", &meta, &f->err));
    assert_true(meta.is_spread);
    ok(f, gx_store_open(f->other, f->mem, &second, &f->err));
    ok(f, gx_store_set_volumes(second, "main", 0, NULL, &f->err));
    is_error(f, gx_store_begin(f->store, "main", &f->err), GX_BUSY,
             "another connection changed a matrix of main between finding it and locking the "
             "database: try again");
    gx_store_release(f->store);
    ok(f, gx_store_vacuum(second, "main", &freed, &f->err));
    gx_store_close(second);
    ok(f, gx_store_find(f->store, "A", &meta, &f->err));
    assert_false(meta.is_spread);
    gx_store_release(f->store);
}

static int commit_other(void *arg, int count)
{
    fixture *f = arg;
    run_sql(f->other, "COMMIT");
    return count == 0;
}

/* The tables of volumes go while gx_vacuum waits for the lock. */
static void given_up_before_the_lock(void **state)
{
    fixture *f = *state;
    int64_t freed;
    char path[128];
    run_sql(f->db, "PRAGMA journal_mode = wal");
    ok(f, gx_store_set_volumes(f->store, "main", 1, NULL, &f->err));
    gx_store_release(f->store);
    run_sql(f->other, "BEGIN IMMEDIATE; DROP TABLE gx_extent; DROP TABLE gx_volumes;"
                      "DELETE FROM gx_state WHERE key IN ('volume_key', 'volume_set')");
    sqlite3_busy_handler(f->db, commit_other, f);
    ok(f, gx_store_vacuum(f->store, "main", &freed, &f->err));
    assert_int_equal(freed, 0);
    gx_store_release(f->store);
    snprintf(path, sizeof path, "%s-gx1", f->path);
    assert_int_equal(unlink(path), 0);
}

// 2. ----------------------------------------------------------------------------------------------

static void patches(void **state)
{
    fixture *f = *state;
    gx_meta meta = make(f, "main", "A");
    int64_t generation = meta.generation;
    double data[400] = {0}, x[4];
    const double patch[2] = {-1, -2};
    gx_reader *reader;
    ok(f, gx_reader_own(f->store, &reader, &f->err));
    ok(f, gx_reader_read(reader, &meta, 3, 0, sizeof x, x, &f->err));

    ok(f, gx_store_begin(f->store, "main", &f->err));
    ok(f, gx_store_patch_tile(f->store, &meta, 3, 8, sizeof patch, patch, &f->err));
    ok(f, gx_store_patch_tile(f->store, &meta, 3, 24, 8, patch, &f->err));
    ok(f, gx_store_patch_tile(f->store, &meta, 4, 0, 8, patch, &f->err));
    ok(f, gx_reader_read(reader, &meta, 3, 0, sizeof x, x, &f->err));
    assert_true(x[0] == 3000 && x[1] == -1 && x[2] == -2 && x[3] == -1);

    // The whole tile is replaced under both handles.
    ok(f, gx_store_patch_tile(f->store, &meta, 3, 0, 8, patch, &f->err));
    data[1] = 7;
    ok(f, gx_store_write_tile(f->store, &meta, 3, data, &f->err));
    ok(f, gx_reader_read(reader, &meta, 3, 0, sizeof x, x, &f->err));
    assert_true(x[0] == 0 && x[1] == 7);
    ok(f, gx_store_patch_tile(f->store, &meta, 3, 16, 8, patch, &f->err));
    ok(f, gx_reader_read(reader, &meta, 3, 0, sizeof x, x, &f->err));
    assert_true(x[1] == 7 && x[2] == -1);
    ok(f, gx_store_touch(f->store, &meta, GX_PROP_ORTHOGONAL, &f->err));
    assert_true(meta.generation > generation);
    ok(f, gx_store_end(f->store, true, &f->err));

    gx_meta found;
    ok(f, gx_store_find(f->store, "A", &found, &f->err));
    assert_memory_equal(&found, &meta, sizeof meta);
    ok(f, gx_reader_read(reader, &meta, 3, 0, sizeof x, x, &f->err));
    assert_true(x[1] == 7);

    ok(f, gx_store_begin(f->store, "main", &f->err));
    run_sql(f->db, "DELETE FROM gx_tile WHERE id & 0xffffffff = 5");
    is_error(f, gx_store_patch_tile(f->store, &meta, 5, 0, 8, patch, &f->err), GX_CORRUPT,
             "tile 5 of A is missing");
    ok(f, gx_store_end(f->store, false, &f->err));
    ok(f, gx_reader_read(reader, &meta, 5, 0, 8, x, &f->err)); // rolled back, and read again
    gx_reader_close(reader);
}

static void own_reader_changes_schemas(void **state)
{
    fixture *f = *state;
    run_sql(f->db, "ATTACH ':memory:' AS aux");
    gx_meta a = make(f, "main", "A"), b = make(f, "aux", "A");
    assert_int_equal(a.id, b.id);
    double x = 5;
    ok(f, gx_store_begin(f->store, "aux", &f->err));
    ok(f, gx_store_patch_tile(f->store, &b, 0, 0, 8, &x, &f->err));
    ok(f, gx_store_end(f->store, true, &f->err));
    gx_reader *reader;
    ok(f, gx_reader_own(f->store, &reader, &f->err));
    for (int i = 0; i < 4; i++) {
        ok(f, gx_reader_read(reader, i % 2 ? &b : &a, 0, 0, 8, &x, &f->err));
        assert_true(x == (i % 2 ? 5 : 0));
    }
    gx_reader_close(reader);
}

/* Each tile is found once, where as many matrices have handles of their own. */
static void matrices_in_turn(void **state)
{
    enum { MOST = 15 };
    fixture *f = *state;
    static gx_stats stats;
    gx_meta meta[MOST];
    gx_reader *reader;
    double x;
    gx_stats_reset(&stats);
    for (int k = 0; k < MOST; k++) {
        char name[8];
        snprintf(name, sizeof name, "A%d", k);
        meta[k] = make(f, "main", name);
    }
    ok(f, gx_reader_own(f->store, &reader, &f->err));
    gx_store_set_stats(f->store, &stats);
    for (int count = 3; count <= MOST; count += MOST - 3) {
        for (int i = 0; i < 5 * count; i++) {
            size_t piece = (size_t)(i / count);
            ok(f, gx_reader_read(reader, &meta[i % count], 2, 8 * piece, 8, &x, &f->err));
            assert_true(x == 2000 + (double)piece);
        }
        if (count == 3) {
            assert_int_equal(gx_stats_get(&stats, GX_STAT_TILES_READ), 3);
        }
    }
    gx_store_set_stats(f->store, NULL);
    gx_reader_close(reader);
}

// 3. ----------------------------------------------------------------------------------------------

static void refusals(void **state)
{
    fixture *f = *state;
    gx_reader *reader;
    char sql[200];
    assert_null(gx_reader_refusal(f->store, "main"));
    assert_string_equal(gx_reader_refusal(f->store, "temp"), "temporary database");
    run_sql(f->db, "ATTACH ':memory:' AS mem");
    assert_string_equal(gx_reader_refusal(f->store, "mem"), "in-memory database");
    is_error(f, gx_reader_open(f->store, "mem", &reader, &f->err), GX_UNSUPPORTED,
             "in-memory database");
    assert_null(reader);
    run_sql(f->db, "ATTACH '' AS anonymous");
    assert_string_equal(gx_reader_refusal(f->store, "anonymous"), "in-memory database");
    run_sql(f->db, "PRAGMA main.locking_mode = exclusive");
    assert_string_equal(gx_reader_refusal(f->store, "main"), "exclusive locking mode");
    run_sql(f->db, "PRAGMA main.locking_mode = normal; SELECT * FROM sqlite_master");
    assert_null(gx_reader_refusal(f->store, "main"));
    snprintf(sql, sizeof sql, "%s/moved.db", f->folder);
    rename(f->path, sql);
    assert_string_equal(gx_reader_refusal(f->store, "main"), "database file was moved");
    rename(sql, f->path);
}

/* Helper and caller read the same; the helper is opened on schema. */
static void agree(fixture *f, const char *schema, const gx_meta *meta)
{
    gx_reader *helper;
    double x, y[2];
    ok(f, gx_reader_open(f->store, schema, &helper, &f->err));
    for (int round = 0; round < 2; round++) {
        ok(f, gx_reader_begin(helper, &meta, 1, &f->err));
        ok(f, gx_reader_read(helper, meta, 5, 16, 8, &x, &f->err));
        ok(f, gx_reader_read(helper, meta, 2, 8, 16, y, &f->err));
        assert_true(x == 5002 && y[0] == 2001 && y[1] == 2002);
        gx_reader_end(helper);
    }
    gx_reader_close(helper);
}

static void helpers(void **state)
{
    fixture *f = *state;
    char sql[200];
    gx_meta meta = make(f, "main", "A");
    gx_store_release(f->store);
    ok(f, gx_store_find(f->store, "A", &meta, &f->err)); // with the pin, as in a call
    agree(f, "main", &meta);
    gx_store_release(f->store);
    snprintf(sql, sizeof sql, "ATTACH '%s/u.db' AS \"odd name\"", f->folder);
    run_sql(f->db, sql);
    meta = make(f, "odd name", "B");
    agree(f, "odd name", &meta);
    gx_store_release(f->store);
    run_sql(f->db, "PRAGMA main.journal_mode = wal");
    meta = make(f, "main", "C");
    agree(f, "main", &meta);
}

static void helpers_disagree(void **state)
{
    fixture *f = *state;
    gx_meta meta = make(f, "main", "A");
    const gx_meta *metas[] = {&meta};
    double x = 9;
    gx_reader *helper;
    gx_store_release(f->store);

    // Uncommitted changes are invisible to the helper: another generation.
    ok(f, gx_store_begin(f->store, "main", &f->err));
    ok(f, gx_store_patch_tile(f->store, &meta, 0, 0, 8, &x, &f->err));
    ok(f, gx_store_touch(f->store, &meta, 0, &f->err));
    ok(f, gx_reader_open(f->store, "main", &helper, &f->err));
    is_error(f, gx_reader_begin(helper, metas, 1, &f->err), GX_UNSUPPORTED,
             "A has changes that are not committed");
    ok(f, gx_store_end(f->store, true,
                       &f->err)); // and holds no lock that would keep this from happening
    ok(f, gx_reader_begin(helper, metas, 1, &f->err));
    ok(f, gx_reader_read(helper, &meta, 0, 0, 8, &x, &f->err));
    assert_true(x == 9);

    // While it reads, in rollback mode, nobody commits.
    gx_store_release(f->store);
    assert_int_equal(sqlite3_exec(f->db, "CREATE TABLE t(a)", NULL, NULL, NULL), SQLITE_BUSY);
    gx_reader_end(helper);
    run_sql(f->db, "CREATE TABLE t(a)");

    // A writer that has the file to itself stops the helper, at once.
    run_sql(f->other, "BEGIN EXCLUSIVE");
    is_error(f, gx_reader_begin(helper, metas, 1, &f->err), GX_UNSUPPORTED, "database is locked");
    run_sql(f->other, "COMMIT");
    ok(f, gx_reader_begin(helper, metas, 1, &f->err));
    gx_reader_end(helper);

    // A matrix that is not there any more.
    run_sql(f->other, "DELETE FROM gx_meta");
    is_error(f, gx_reader_begin(helper, metas, 1, &f->err), GX_UNSUPPORTED,
             "A has changes that are not committed");
    gx_reader_close(helper);
}

static void helper_finds_damage(void **state)
{
    fixture *f = *state;
    gx_meta meta = make(f, "main", "A");
    const gx_meta *metas[] = {&meta};
    gx_reader *helper;
    double x;
    gx_store_release(f->store);
    run_sql(f->db, "DELETE FROM gx_tile WHERE id & 0xffffffff = 2; "
                   "UPDATE gx_tile SET data = x'0011' WHERE id & 0xffffffff = 3");
    ok(f, gx_reader_open(f->store, "main", &helper, &f->err));
    ok(f, gx_reader_begin(helper, metas, 1, &f->err));
    is_error(f, gx_reader_read(helper, &meta, 2, 0, 8, &x, &f->err), GX_CORRUPT,
             "tile 2 of A is missing");
    is_error(f, gx_reader_read(helper, &meta, 3, 0, 8, &x, &f->err), GX_CORRUPT,
             "tile 3 of A has 2 bytes, expected 2040");
    ok(f, gx_reader_read(helper, &meta, 4, 0, 8, &x, &f->err));
    gx_reader_close(helper);
}

// 4. ----------------------------------------------------------------------------------------------

static void counters(void **state)
{
    fixture *f = *state;
    static gx_stats stats;
    gx_stats_reset(&stats);
    gx_store_set_stats(f->store, &stats);
    gx_meta meta = make(f, "main", "A");
    assert_int_equal(gx_stats_get(&stats, GX_STAT_TILES_WRITTEN), 6);
    assert_int_equal(gx_stats_get(&stats, GX_STAT_BYTES_WRITTEN), 50 * 30 * 8);
    gx_reader *reader;
    double x[2];
    ok(f, gx_reader_own(f->store, &reader, &f->err));
    for (int i = 0; i < 3; i++) {
        ok(f, gx_reader_read(reader, &meta, 2, 0, sizeof x, x, &f->err));
    }
    ok(f, gx_reader_read(reader, &meta, 1, 0, sizeof x, x, &f->err));
    assert_int_equal(gx_stats_get(&stats, GX_STAT_TILES_READ), 2);
    assert_int_equal(gx_stats_get(&stats, GX_STAT_BYTES_READ), 4 * 16);
    assert_int_equal(gx_stats_get(&stats, GX_STAT_HELPER_READS), 0);
    gx_reader_close(reader);
    gx_store_release(f->store);
    agree(f, "main", &meta);
    assert_int_equal(gx_stats_get(&stats, GX_STAT_HELPER_READS), 4);
    gx_store_set_stats(f->store, NULL);
}

// 5. ----------------------------------------------------------------------------------------------

/* How often the file is mapped into this process. */
static int mappings(const char *path)
{
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        count += strstr(line, path) != NULL;
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return count;
}

static void helpers_map(void **state)
{
    fixture *f = *state;
    double x;
    gx_meta meta = make(f, "main", "A");
    const gx_meta *metas[] = {&meta};
    gx_store_release(f->store);
    if (access("/proc/self/maps", R_OK) != 0) {
        skip(); // not Linux
    }
    for (int is_mapped = 0; is_mapped < 2; is_mapped++) {
        gx_reader *reader;
        run_sql(f->db, is_mapped ? "PRAGMA mmap_size = 1000000" : "PRAGMA mmap_size = 0");
        int before = mappings(f->path);
        ok(f, gx_reader_open(f->store, "main", &reader, &f->err));
        ok(f, gx_reader_begin(reader, metas, 1, &f->err));
        ok(f, gx_reader_read(reader, &meta, 1, 8, sizeof x, &x, &f->err));
        assert_true(x == 1001);
        assert_int_equal(mappings(f->path) > before, is_mapped);
        gx_reader_close(reader);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pin_in_rollback_mode),
        TEST(pin_in_wal_mode), TEST(home_before_the_lock), TEST(given_up_before_the_lock),
        TEST(patches),
        TEST(own_reader_changes_schemas),
        TEST(matrices_in_turn),
        TEST(refusals),
        TEST(helpers),
        TEST(helpers_disagree),
        TEST(helper_finds_damage),
        TEST(counters),
        TEST(helpers_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
