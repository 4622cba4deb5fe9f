/*
** Tiles read straight from the file (core/store/store_chain.c), against what SQLite reads of them.
**
** Plan:
**   1. pages of every size, behind each other and scattered: whole tiles, columns of them, a row,
**      from the b-tree's page on and behind it, all tiles in turn; it was this way that they were
**      read
**   2. the other way, with the same bytes: the caller's own connection, a log that the file lacks
**      something of, one whose index is not shared, a mapped file, bytes reserved on each page,
**      another VFS, records of another shape, short runs; a log that is all in the file: straight,
**      and it stays so while others write
**   3. a chain that ends, leads behind the file, in a circle or into another table: what SQLite
**      says, or reads; a file that is cut while it is read
**   4. another transaction finds other pages; what was known before is forgotten
**   5. what is read next is asked for where the system's memory has not got it: tiles and parts of
**      one at equal distances, not behind the last one, not backwards
**   6. readers without a connection: led by one that has begun, while nobody else may begin; small
**      pieces before and after they may; tiles that are missing; several at once
*/
#include "storekit.h"

#include "store/vfs_int.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/uio.h>

enum { SIDE = 300, TILES = 6, ELEMENTS = SIDE * SIDE }; /* 900 x 600 */

enum { PAGE = 32768 };

static double expected[TILES][ELEMENTS], got[ELEMENTS], plain[ELEMENTS];

static void fill(double add)
{
    for (int t = 0; t < TILES; t++) {
        for (int e = 0; e < ELEMENTS; e++) {
            expected[t][e] = (double)t * 1e6 + (double)e + add;
        }
    }
}

static gx_meta make_large(fixture *f, bool is_again, double add)
{
    gx_meta meta = shaped("main", 3 * (int64_t)SIDE, 2 * (int64_t)SIDE);
    meta.tile_rows = meta.tile_cols = SIDE;
    fill(add);
    gx_vfs_register();
    if (!is_again) {
        run_sql(f->db, "PRAGMA page_size = 32768; VACUUM");
    }
    ok(f, gx_store_begin(f->store, "main", &f->err));
    ok(f, gx_store_create(f->store, &meta, NULL, &f->err));
    for (int t = 0; t < TILES; t++) {
        ok(f, gx_store_write_tile(f->store, &meta, t, expected[t], &f->err));
    }
    ok(f, gx_store_publish(f->store, &meta, "A", is_again, &f->err));
    ok(f, gx_store_end(f->store, true, &f->err));
    gx_store_release(f->store);
    return meta;
}

static gx_reader *open_helper(fixture *f, const gx_meta *meta)
{
    gx_reader *helper;
    ok(f, gx_reader_open(f->store, "main", &helper, &f->err));
    ok(f, gx_reader_begin(helper, &meta, 1, &f->err));
    return helper;
}

/* Columns [j0, j0 + n) of a tile, rows [i0, i0 + m), into got with m rows; false: not this way. */
static bool columns(gx_reader *reader, const gx_meta *meta, int t, int i0, int j0, int m, int n)
{
    const gx_columns c = {.offset = (size_t)(j0 * SIDE + i0) * 8,
                          .bytes = (size_t)m * 8,
                          .step = (size_t)SIDE * 8,
                          .count = n,
                          .dst = got,
                          .dst_step = (size_t)m * 8};
    memset(got, 0xff, sizeof got);
    return gx_reader_columns(reader, meta, t, &c);
}

static void are_columns(gx_reader *reader, const gx_meta *meta, int t, int i0, int j0, int m, int n)
{
    assert_true(columns(reader, meta, t, i0, j0, m, n));
    for (int j = 0; j < n; j++) {
        assert_memory_equal(got + j * m, expected[t] + (j0 + j) * SIDE + i0, (size_t)m * 8);
    }
    if (m * n < ELEMENTS) { // nothing behind them
        assert_true(got[m * n] != got[m * n]);
    }
}

/* Of every fourth column the elements [i, i + m): short runs that are far apart. */
static void are_rows(gx_reader *reader, const gx_meta *meta, int t, int i, int m)
{
    const gx_columns c = {.offset = (size_t)i * 8,
                          .bytes = (size_t)m * 8,
                          .step = (size_t)SIDE * 8 * 4,
                          .count = SIDE / 4,
                          .dst = got,
                          .dst_step = (size_t)m * 8};
    memset(got, 0xff, sizeof got);
    assert_true(gx_reader_columns(reader, meta, t, &c));
    for (int j = 0; j < SIDE / 4; j++) {
        assert_memory_equal(got + j * m, expected[t] + j * 4 * SIDE + i, (size_t)m * 8);
    }
}

static void all_ways(gx_reader *helper, const gx_meta *meta)
{
    for (int t = 0; t < TILES; t++) { // of pages not known yet, then of known ones
        are_rows(helper, meta, t, 7, 1);
        are_columns(helper, meta, t, 0, 0, SIDE, SIDE);
        are_rows(helper, meta, t, 100, 3);
        are_rows(helper, meta, t, SIDE - 1, 1);
    }
    for (int j = 0; j < SIDE; j += 50) { // tiles in turn, from the last columns on
        for (int t = 0; t < TILES; t++) {
            are_columns(helper, meta, t, 0, SIDE - 50 - j, SIDE, 50);
            are_columns(helper, meta, t, 1, j, SIDE - 1, 50);
            are_columns(helper, meta, t, 60, j, 180, 33);
        }
    }
}

/* Another way, and the same bytes. */
static void is_not_straight(fixture *f, gx_reader *reader, const gx_meta *meta)
{
    for (int t = 0; t < TILES; t++) {
        assert_false(columns(reader, meta, t, 0, 0, SIDE, SIDE));
        ok(f, gx_reader_read(reader, meta, t, 0, sizeof got, got, &f->err));
        assert_memory_equal(got, expected[t], sizeof got);
    }
    gx_reader_close(reader);
}

// 1. ----------------------------------------------------------------------------------------------

static void pages_of_every_size(void **state)
{
    fixture *f = *state;
    gx_meta first = make_large(f, false, 0);
    assert_int_equal(first.tile_rows, SIDE);
    for (int page = 512; page <= 65536; page *= 2) {
        char sql[100];
        snprintf(sql, sizeof sql, "PRAGMA page_size = %d; VACUUM", page);
        run_sql(f->db, sql);
        gx_meta meta = make_large(f, true, page);
        assert_int_equal(number(f->db, "PRAGMA page_size"), page);
        gx_reader *helper = open_helper(f, &meta);
        all_ways(helper, &meta);
        gx_reader_close(helper);
    }
}

/* All of the file, to be freed. */
static char *contents(const fixture *f, size_t *bytes)
{
    FILE *file = fopen(f->path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    char *all = malloc(*bytes);
    rewind(file);
    assert_int_equal(fread(all, 1, *bytes, file), *bytes);
    fclose(file);
    return all;
}

/* The page, of so many bytes, that has an element of a tile. */
static int64_t page_with(const char *all, size_t bytes, int t, int element, int page_bytes)
{
    const char *at = memmem(all, bytes, &expected[t][element], 8);
    if (at == NULL) { // the end of one page and the beginning of another
        at = memmem(all, bytes, &expected[t][element + 1], 8);
    }
    assert_non_null(at);
    return (at - all) / page_bytes + 1;
}

static int64_t middle_page(const fixture *f, int t)
{
    size_t bytes;
    char *all = contents(f, &bytes);
    int64_t page = page_with(all, bytes, t, ELEMENTS / 2, PAGE);
    free(all);
    return page;
}

/* Free pages, one by one and in no order, for the next matrix. */
static void scatter(fixture *f, int page)
{
    char sql[300];
    snprintf(sql, sizeof sql,
             "PRAGMA page_size = %d; VACUUM; CREATE TABLE filler(id INTEGER PRIMARY KEY, data);"
             "WITH c(k) AS (VALUES(1) UNION ALL SELECT k + 1 FROM c WHERE k < %d)"
             "INSERT INTO filler SELECT k, zeroblob(%d) FROM c;"
             "DELETE FROM filler WHERE id * 7919 %% 5 < 2",
             page, 20000000 / page, page - 100);
    run_sql(f->db, sql);
}

/* Whether elements of a page are not in the page behind the one of those before them. */
static bool is_scattered(const fixture *f, int page)
{
    int count = 0;
    size_t bytes;
    char *all = contents(f, &bytes);
    int64_t before = page_with(all, bytes, 2, ELEMENTS / 4, page);
    for (int e = ELEMENTS / 4; e < ELEMENTS / 2 && count == 0; e += page / 8) {
        int64_t next = page_with(all, bytes, 2, e + page / 8, page);
        count += next != before + 1;
        before = next;
    }
    free(all);
    return count > 0;
}

static void pages_anywhere(void **state)
{
    fixture *f = *state;
    make_large(f, false, 0);
    for (int page = 1024; page <= 65536; page *= 4) {
        scatter(f, page);
        gx_meta meta = make_large(f, true, page + 0.5);
        assert_true(is_scattered(f, page));
        gx_reader *helper = open_helper(f, &meta);
        all_ways(helper, &meta);
        gx_reader_close(helper);
        run_sql(f->db, "DROP TABLE filler");
    }
}

static void pages_with_a_map(void **state)
{
    fixture *f = *state;
    run_sql(f->db, "PRAGMA auto_vacuum = full; PRAGMA page_size = 32768");
    gx_meta meta = make_large(f, false, 0.5);
    gx_reader *helper = open_helper(f, &meta);
    all_ways(helper, &meta);
    gx_reader_close(helper);
}

// 2. ----------------------------------------------------------------------------------------------

static void the_callers_connection(void **state)
{
    fixture *f = *state;
    gx_reader *own;
    gx_meta meta = make_large(f, false, 0.5);
    ok(f, gx_reader_own(f->store, &own, &f->err));
    is_not_straight(f, own, &meta);
}

static void a_log(void **state)
{
    fixture *f = *state;
    gx_meta meta = make_large(f, false, 0.5);
    run_sql(f->db, "PRAGMA journal_mode = wal; CREATE TABLE t(a)");
    is_not_straight(f, open_helper(f, &meta), &meta);
    run_sql(f->db, "PRAGMA wal_checkpoint(full)");
    gx_reader *helper = open_helper(f, &meta);
    all_ways(helper, &meta);
    run_sql(f->other, "UPDATE gx_tile SET data = zeroblob(length(data)); "
                      "PRAGMA wal_checkpoint(passive)"); // which does not touch the file
    all_ways(helper, &meta);
    gx_reader_end(helper);
    memset(expected, 0, sizeof expected);
    const gx_meta *metas = &meta;
    ok(f, gx_reader_begin(helper, &metas, 1, &f->err));
    is_not_straight(f, helper, &meta);
    run_sql(f->other, "PRAGMA wal_checkpoint(truncate)");
    helper = open_helper(f, &meta);
    all_ways(helper, &meta);
    gx_reader_close(helper);
}

/* What a connection of ours in a transaction is told of the log. */
static bool skips_log(const char *path, const char *options)
{
    char name[200];
    sqlite3 *db;
    gx_watch watch = {.key = &gx_watch_key};
    snprintf(name, sizeof name, "file:%s?vfs=gx%s", path, options);
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
    assert_int_equal(sqlite3_open_v2(name, &db, flags, NULL), SQLITE_OK);
    run_sql(db, "BEGIN");
    assert_int_equal(number(db, "SELECT count(*) FROM gx_meta"), 1);
    assert_int_equal(sqlite3_file_control(db, "main", GX_FCNTL_WATCH, &watch), SQLITE_OK);
    sqlite3_close(db);
    return watch.skips_log;
}

static void an_index_of_the_log(void **state)
{
    static const char *const parts[] = {"", "-wal", "-shm"};
    fixture *f = *state;
    char copy[100], command[400];
    make_large(f, false, 0.5);
    assert_false(skips_log(f->path, "")); // there is none
    run_sql(f->db, "PRAGMA journal_mode = wal; CREATE TABLE t(a)");
    assert_false(skips_log(f->path, ""));
    run_sql(f->db, "PRAGMA wal_checkpoint(full)");
    assert_true(skips_log(f->path, ""));
    snprintf(copy, sizeof copy, "%s/u.db", f->folder);
    for (int k = 0; k < 3; k++) {
        snprintf(command, sizeof command, "cp %s%s %s%s", f->path, parts[k], copy, parts[k]);
        assert_int_equal(system(command), 0);
    }
    assert_false(skips_log(copy, "&readonly_shm=1")); // SQLite makes an index of its own
    for (int k = 0; k < 3; k++) {
        snprintf(command, sizeof command, "%s%s", copy, parts[k]);
        unlink(command);
    }
}

static void a_map(void **state)
{
    fixture *f = *state;
    gx_meta meta = make_large(f, false, 0.5);
    run_sql(f->db, "PRAGMA mmap_size = 100000000");
    is_not_straight(f, open_helper(f, &meta), &meta);
}

static void reserved_bytes(void **state)
{
    fixture *f = *state;
    int bytes = 8;
    assert_int_equal(sqlite3_file_control(f->db, "main", SQLITE_FCNTL_RESERVE_BYTES, &bytes),
                     SQLITE_OK);
    run_sql(f->db, "VACUUM");
    gx_meta meta = make_large(f, false, 0.5);
    is_not_straight(f, open_helper(f, &meta), &meta);
}

static void another_vfs(void **state)
{
    fixture *f = *state;
    sqlite3 *db;
    gx_store *store;
    gx_reader *helper;
    gx_meta meta = make_large(f, false, 0.5);
    const gx_meta *metas = &meta;
    assert_int_equal(sqlite3_open_v2(f->path, &db, SQLITE_OPEN_READWRITE, "unix-dotfile"),
                     SQLITE_OK);
    ok(f, gx_store_open(db, f->mem, &store, &f->err));
    ok(f, gx_reader_open(store, "main", &helper, &f->err));
    ok(f, gx_reader_begin(helper, &metas, 1, &f->err));
    is_not_straight(f, helper, &meta);
    gx_store_close(store);
    sqlite3_close(db);
}

static void records_of_another_shape(void **state)
{
    fixture *f = *state;
    fill(0);
    gx_meta meta = make_large(f, false, 0);
    run_sql(f->db, "ALTER TABLE gx_tile ADD COLUMN more; UPDATE gx_tile SET more = 'x'");
    is_not_straight(f, open_helper(f, &meta), &meta);
}

static void short_runs(void **state)
{
    fixture *f = *state;
    gx_meta meta = make_large(f, false, 0.5);
    gx_reader *helper = open_helper(f, &meta);
    assert_false(columns(helper, &meta, 2, 0, 0, 100, SIDE));
    assert_false(columns(helper, &meta, 2, 0, 0, SIDE, 3));
    is_not_straight(f, (gx_reader_end(helper), helper), &meta); // no transaction, no pages
}

// 3. ----------------------------------------------------------------------------------------------

static void point(const fixture *f, int64_t page, int64_t next)
{
    const unsigned char pointer[4] = {(unsigned char)(next >> 24), (unsigned char)(next >> 16),
                                      (unsigned char)(next >> 8), (unsigned char)next};
    int descriptor = open(f->path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(descriptor, pointer, 4, (page - 1) * PAGE), 4);
    close(descriptor); // nothing of this process is locked
}

static void damaged_chains(void **state)
{
    fixture *f = *state;
    gx_meta meta = make_large(f, false, 0.5);
    int64_t page = middle_page(f, 3), pages = number(f->db, "PRAGMA page_count");
    const int64_t nexts[] = {0, page, 2, 1, pages, pages + 1, 1 << 20, 0x7fffffff, 0xffffffff};
    for (size_t k = 0; k < sizeof nexts / sizeof nexts[0]; k++) {
        gx_reader *own;
        point(f, page, nexts[k]);
        run_sql(f->other, "CREATE TABLE t(a); DROP TABLE t"); // so that caches are given up
        ok(f, gx_reader_own(f->store, &own, &f->err));
        gx_reader *helper = open_helper(f, &meta);
        bool is_straight = columns(helper, &meta, 3, 0, 0, SIDE, SIDE);
        gx_code theirs = gx_reader_read(own, &meta, 3, 0, sizeof plain, plain, &f->err);
        memset(&f->err, 0, sizeof f->err);
        assert_true(is_straight || nexts[k] != page);
        if (theirs == GX_OK && is_straight) {
            assert_memory_equal(got, plain, sizeof got);
        } else if (theirs != GX_OK) {
            assert_false(is_straight);
            is_error(f, gx_reader_read(helper, &meta, 3, 0, sizeof got, got, &f->err), GX_CORRUPT,
                     "tile 3 of A: database disk image is malformed");
        }
        are_columns(helper, &meta, 2, 0, 0, SIDE, SIDE); // and the others are whole
        gx_reader_close(helper);
        gx_reader_close(own);
        gx_store_release(f->store);
    }
}

static void cut_while_it_is_read(void **state)
{
    fixture *f = *state;
    gx_meta meta = make_large(f, false, 0.5);
    gx_reader *helper = open_helper(f, &meta);
    are_columns(helper, &meta, 5, 0, 0, SIDE, 50);
    assert_int_equal(truncate(f->path, (middle_page(f, 5) - 1) * PAGE + 100), 0);
    assert_false(columns(helper, &meta, 5, 0, 0, SIDE, SIDE));
    gx_code s = gx_reader_read(helper, &meta, 5, 0, sizeof got, got, &f->err);
    // what a page that ends too early is depends on SQLite's release
    is_error(f, s, s == GX_IO ? GX_IO : GX_CORRUPT,
             s == GX_IO ? "tile 5 of A: disk I/O error"
                        : "tile 5 of A: database disk image is malformed");
    are_columns(helper, &meta, 4, 0, 0, SIDE, SIDE);
    gx_reader_close(helper);
}

// 4. ----------------------------------------------------------------------------------------------

static void another_transaction(void **state)
{
    fixture *f = *state;
    gx_meta meta = make_large(f, false, 0.5);
    gx_reader *helper = open_helper(f, &meta);
    all_ways(helper, &meta);
    gx_reader_end(helper);
    for (int round = 0; round < 3; round++) {
        run_sql(f->other, "BEGIN; CREATE TABLE copy AS SELECT * FROM gx_tile ORDER BY -id;"
                          "DELETE FROM gx_tile; INSERT INTO gx_tile SELECT * FROM copy;"
                          "DROP TABLE copy; COMMIT");
        const gx_meta *metas = &meta;
        ok(f, gx_reader_begin(helper, &metas, 1, &f->err));
        all_ways(helper, &meta);
        gx_reader_end(helper);
    }
    gx_reader_close(helper);
}

// 5. ----------------------------------------------------------------------------------------------

static bool is_on_disk; /* what preadv2() says */
static int64_t hint_at, hint_end;
static int hints;

ssize_t preadv2(int descriptor, const struct iovec *part, int parts, off_t at, int flags)
{
    assert_int_equal(flags, RWF_NOWAIT);
    if (is_on_disk) {
        errno = EAGAIN;
        return -1;
    }
    return preadv(descriptor, part, parts, at);
}

int posix_fadvise(int descriptor, off_t at, off_t bytes, int what)
{
    assert_true(descriptor >= 0 && what == POSIX_FADV_WILLNEED);
    hint_at = at;
    hint_end = at + bytes;
    return hints++ < 0; // 0: success
}

/* How many hints since the latest call; of the last one, whether it has the element's page. */
static int hints_for(const fixture *f, int t, int element)
{
    size_t bytes;
    char *all = contents(f, &bytes);
    int64_t at = PAGE * (page_with(all, bytes, t, element, PAGE) - 1);
    int count = hints;
    assert_true(count == 0 || (hint_at <= at && at + PAGE <= hint_end));
    hints = 0;
    free(all);
    return count;
}

static void asked_for_ahead(void **state)
{
    fixture *f = *state;
    gx_meta meta = make_large(f, false, 0.25);
    gx_reader *helper = open_helper(f, &meta);
    are_columns(helper, &meta, 1, 0, 0, SIDE, SIDE);
    is_on_disk = true;
    hints = 0;
    are_columns(helper, &meta, 2, 0, 0, SIDE, SIDE);
    assert_int_equal(hints_for(f, 3, ELEMENTS / 2), 1);
    are_columns(helper, &meta, 4, 0, 0, SIDE, SIDE); // 6 is not there
    are_columns(helper, &meta, 3, 0, 0, SIDE, SIDE); // backwards
    assert_int_equal(hints, 0);
    are_columns(helper, &meta, 5, 0, 10, SIDE, 50); // the last one, part by part
    are_columns(helper, &meta, 5, 0, 110, SIDE, 50);
    assert_int_equal(hints_for(f, 5, 235 * SIDE), 1);
    are_columns(helper, &meta, 5, 0, 210, SIDE, 50); // behind its end
    are_columns(helper, &meta, 5, 0, 10, SIDE, 50);
    are_columns(helper, &meta, 5, 0, 20, SIDE, 20); // little
    assert_int_equal(hints, 0);
    is_on_disk = false;
    are_columns(helper, &meta, 5, 0, 60, SIDE, 50);
    assert_int_equal(hints, 0);
    gx_reader_close(helper);
    gx_store_release(f->store);
}

// 6. ----------------------------------------------------------------------------------------------

static gx_reader *open_led(fixture *f, gx_reader *guide, const gx_meta *meta)
{
    gx_reader *led;
    ok(f, gx_reader_another(guide, &led, &f->err));
    ok(f, gx_reader_begin(led, &meta, 1, &f->err));
    return led;
}

static void are_small_pieces(fixture *f, gx_reader *reader, const gx_meta *meta, int count)
{
    for (int k = 0; k < count; k++) {
        int t = k * 7 % TILES, e = k * 7919 % ELEMENTS;
        double x = -1;
        ok(f, gx_reader_read(reader, meta, t, (size_t)e * 8, sizeof x, &x, &f->err));
        assert_true(x == expected[t][e]);
    }
}

static void led(void **state)
{
    fixture *f = *state;
    gx_reader *stranger;
    gx_meta meta = make_large(f, false, 0.5);
    const gx_meta *metas = &meta;
    gx_reader *guide = open_helper(f, &meta);
    run_sql(f->other, "BEGIN IMMEDIATE; CREATE TABLE t(a)");
    assert_int_equal(sqlite3_exec(f->other, "COMMIT", NULL, NULL, NULL), SQLITE_BUSY);
    ok(f, gx_reader_open(f->store, "main", &stranger, &f->err)); // now nobody else may begin
    is_error(f, gx_reader_begin(stranger, &metas, 1, &f->err), GX_UNSUPPORTED,
             "second connection: database is locked");
    gx_reader *reader = open_led(f, guide, &meta);
    for (int round = 0; round < 2; round++) {
        all_ways(reader, &meta);
        all_ways(guide, &meta);
        are_small_pieces(f, reader, &meta, 20);
    }
    run_sql(f->other, "ROLLBACK");
    for (int round = 0; round < 2; round++) {
        are_small_pieces(f, reader, &meta, 20);
        all_ways(reader, &meta);
        all_ways(guide, &meta);
    }
    gx_reader_close(reader);
    gx_reader_close(guide);
    gx_reader_close(stranger);
    run_sql(f->other, "CREATE TABLE t(a)");
}

/* In WAL mode others may write: who wants a connection of its own stays with the guide. */
static void led_beside_a_writer(void **state)
{
    fixture *f = *state;
    gx_meta A = make_large(f, false, 0.5), B = shaped("main", 2, 2);
    const gx_meta *metas[] = {&B, &A};
    gx_reader *guide, *reader;
    double x = 0, small[] = {1, 2, 3, 4};
    ok(f, gx_store_begin(f->store, "main", &f->err));
    ok(f, gx_store_create(f->store, &B, NULL, &f->err));
    ok(f, gx_store_write_tile(f->store, &B, 0, small, &f->err));
    ok(f, gx_store_publish(f->store, &B, "B", false, &f->err));
    ok(f, gx_store_end(f->store, true, &f->err));
    gx_store_release(f->store);
    run_sql(f->db, "PRAGMA journal_mode = wal");
    ok(f, gx_reader_open(f->store, "main", &guide, &f->err));
    ok(f, gx_reader_begin(guide, metas, 2, &f->err));
    ok(f, gx_reader_another(guide, &reader, &f->err));
    ok(f, gx_reader_begin(reader, metas, 2, &f->err));
    run_sql(f->other, "UPDATE gx_tile SET data = zeroblob(length(data)) WHERE length(data) > 99; "
                      "UPDATE gx_meta SET generation = generation + 1 WHERE name = 'A'");
    for (int k = 0; k < 20; k++) {
        ok(f, gx_reader_read(reader, &B, 0, 8, sizeof x, &x, &f->err));
        assert_true(x == 2);
    }
    are_small_pieces(f, reader, &A, 20);
    all_ways(reader, &A);
    gx_reader_close(reader);
    gx_reader_close(guide);
}

/* What is wrong with a tile the guide's connection says, or one of the reader's own. */
static void led_to_damage(void **state)
{
    fixture *f = *state;
    gx_meta meta = make_large(f, false, 0.5);
    run_sql(f->db, "DELETE FROM gx_tile WHERE id & 0xffffffff = 2; "
                   "UPDATE gx_tile SET data = x'0011' WHERE id & 0xffffffff = 3");
    gx_reader *guide = open_helper(f, &meta), *reader = open_led(f, guide, &meta);
    for (int round = 0; round < 4; round++) {
        is_error(f, gx_reader_read(reader, &meta, 2, 0, sizeof got, got, &f->err), GX_CORRUPT,
                 "tile 2 of A is missing");
        is_error(f, gx_reader_read(reader, &meta, 3, 0, sizeof got, got, &f->err), GX_CORRUPT,
                 "tile 3 of A has 2 bytes, expected 720000");
        are_columns(reader, &meta, 4, 0, 0, SIDE, SIDE);
    }
    gx_reader_close(reader);
    gx_reader_close(guide);
}

typedef struct follower {
    gx_reader *reader;
    const gx_meta *meta;
    int number, wrong;
} follower;

static void *follow(void *arg)
{
    follower *w = arg;
    double *tile = malloc(sizeof expected[0]), x;
    gx_err err = {0};
    for (int k = 0; k < 10 * TILES; k++) {
        int t = (k * 5 + w->number) % TILES, e = (k * 7919 + w->number) % ELEMENTS;
        w->wrong += gx_reader_read(w->reader, w->meta, t, 0, sizeof expected[0], tile, &err) ||
                    memcmp(tile, expected[t], sizeof expected[0]) != 0;
        w->wrong += gx_reader_read(w->reader, w->meta, t, (size_t)e * 8, sizeof x, &x, &err) ||
                    x != expected[t][e];
    }
    free(tile);
    return NULL;
}

static void several_led(void **state)
{
    enum { READERS = 4 };
    fixture *f = *state;
    follower w[READERS] = {{0}};
    pthread_t thread[READERS];
    for (int is_wal = 0; is_wal < 2; is_wal++) {
        run_sql(f->db, is_wal ? "PRAGMA journal_mode = wal; PRAGMA wal_checkpoint(truncate)"
                              : "PRAGMA journal_mode = delete");
        gx_meta meta = make_large(f, is_wal, is_wal);
        run_sql(f->db, is_wal ? "PRAGMA wal_checkpoint(truncate)" : "SELECT 1");
        for (int k = 0; k < READERS; k++) {
            w[k] = (follower){.meta = &meta, .number = k};
            w[k].reader = k == 0 ? open_helper(f, &meta) : open_led(f, w[0].reader, &meta);
        }
        for (int k = 0; k < READERS; k++) {
            assert_int_equal(pthread_create(&thread[k], NULL, follow, &w[k]), 0);
        }
        for (int k = 0; k < READERS; k++) {
            pthread_join(thread[k], NULL);
            assert_int_equal(w[k].wrong, 0);
        }
        for (int k = READERS - 1; k >= 0; k--) {
            gx_reader_close(w[k].reader);
        }
        gx_store_release(f->store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pages_of_every_size),
        TEST(pages_anywhere),
        TEST(pages_with_a_map),
        TEST(the_callers_connection),
        TEST(a_log),
        TEST(an_index_of_the_log),
        TEST(a_map),
        TEST(reserved_bytes),
        TEST(another_vfs),
        TEST(records_of_another_shape),
        TEST(short_runs),
        TEST(damaged_chains),
        TEST(cut_while_it_is_read),
        TEST(another_transaction),
        TEST(asked_for_ahead),
        TEST(led),
        TEST(led_beside_a_writer),
        TEST(led_to_damage),
        TEST(several_led),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
