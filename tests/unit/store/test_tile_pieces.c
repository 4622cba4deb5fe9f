/*
** Tiles that are written in pieces (core/store/store_lay.c, in a file of the VFS "gx"), and what
** may happen between two of them: a progress report's function may use the connection.
**
** Plan: a matrix of three tiles, each in five pieces.  Between them, at every place: nothing; the
** tile itself is read, its beginning, its end, all of it; another tile; other tables are written;
** a storing call within it ends, or is undone; SQLite's cache is given up.  The matrix is what was
** put into it, for this connection and for another, and the file is sound; and the pages went past
** SQLite where nothing was in the way.  The row is deleted: an error.  The call is given up after
** any piece: nothing is left, and the file is as long as it was.
*/
#include "storekit.h"

#include "store/lay_int.h"

enum { TILES = 3, BYTES = 4500000, PIECES = 5, PAGE = 65536 };

static char *memory, *expected, *got;

static int setup_laid(void **state)
{
    setup(state);
    fixture *f = *state;
    char name[200];
    gx_vfs_register();
    gx_store_close(f->store);
    sqlite3_close(f->db);
    snprintf(name, sizeof name, "file:%s?vfs=gx", f->path);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI;
    assert_int_equal(sqlite3_open_v2(name, &f->db, flags, NULL), SQLITE_OK);
    gx_store_open(f->db, f->mem, &f->store, &f->err);
    run_sql(f->db, "PRAGMA page_size = 65536; PRAGMA cache_size = 8; PRAGMA synchronous = off; "
                   "CREATE TABLE t(a)");
    memory = aligned_alloc(64, (gx_image_bytes(PAGE, BYTES, GX_IMAGE_PIECE) + 63) / 64 * 64);
    expected = malloc((size_t)TILES * BYTES);
    got = malloc(BYTES);
    assert_true(memory != NULL && expected != NULL && got != NULL);
    for (size_t k = 0; k < (size_t)TILES * BYTES; k++) {
        expected[k] = (char)(k % 251 + k / 65000 + 1);
    }
    return 0;
}

static int teardown_laid(void **state)
{
    free(memory);
    free(expected);
    free(got);
    return teardown(state);
}

/* Between two pieces; ends_it: the pages that wait go to the file as SQLite has them. */
typedef struct between {
    void (*what)(fixture *f, const gx_meta *meta, int tile);
    bool ends_it;
} between;

static const between NOTHING = {NULL, false};

/* Do pages of the tile wait? */
static bool is_waiting(fixture *f)
{
    gx_schema *schema;
    ok(f, gx_store_schema(f->store, "main", &schema, &f->err));
    const gx_laying *laying = schema->laying;
    return laying->is_waiting && laying->lay.run_pages > 0;
}

static gx_code write_pieces(fixture *f, const gx_meta *meta, int tile, between b, int after)
{
    size_t page = gx_store_image_page(f->store, meta);
    bool may_wait = page > 0; // else pieces are taken all the same
    page = may_wait ? page : PAGE;
    assert_int_equal(gx_image_pieces(page, BYTES, GX_IMAGE_PIECE), PIECES);
    for (int k = 0; k < PIECES; k++) {
        gx_tile_image piece = gx_image_of(memory, page, BYTES, GX_IMAGE_PIECE, k);
        gx_image_put(&piece, 0, expected + (size_t)tile * BYTES, BYTES);
        GX_TRY(gx_store_write_image(f->store, meta, tile, &piece, &f->err));
        assert_int_equal(is_waiting(f), may_wait && k + 1 < PIECES);
        if (b.what != NULL && k == after) {
            b.what(f, meta, tile);
            may_wait = may_wait && !b.ends_it;
            assert_int_equal(is_waiting(f), may_wait && k + 1 < PIECES);
        }
    }
    return GX_OK;
}

static gx_meta begin(fixture *f)
{
    gx_meta meta = shaped("main", BYTES / 8, TILES);
    meta.tile_rows = BYTES / 8;
    meta.tile_cols = 1;
    ok(f, gx_store_begin(f->store, "main", &f->err));
    ok(f, gx_store_create(f->store, &meta, NULL, &f->err));
    assert_int_equal(gx_store_image_page(f->store, &meta), PAGE);
    return meta;
}

static void read_row(sqlite3 *db, const gx_meta *meta, int tile, size_t from, size_t bytes)
{
    sqlite3_blob *blob;
    assert_int_equal(
        sqlite3_blob_open(db, "main", "gx_tile", "data", gx_tile_rowid(meta->id, tile), 0, &blob),
        SQLITE_OK);
    assert_int_equal(sqlite3_blob_bytes(blob), BYTES);
    assert_int_equal(sqlite3_blob_read(blob, got, (int)bytes, (int)from), SQLITE_OK);
    sqlite3_blob_close(blob);
}

static void read_start(fixture *f, const gx_meta *meta, int tile)
{
    read_row(f->db, meta, tile, 0, 100000);
    assert_memory_equal(got, expected + (size_t)tile * BYTES, 100000); // it is there
}

static void read_end(fixture *f, const gx_meta *meta, int tile)
{
    read_row(f->db, meta, tile, BYTES - 1000, 1000);
}

static void read_all(fixture *f, const gx_meta *meta, int tile)
{
    read_row(f->db, meta, tile, 0, BYTES);
}

static void read_another(fixture *f, const gx_meta *meta, int tile)
{
    if (tile > 0) {
        read_row(f->db, meta, tile - 1, 0, BYTES);
        assert_memory_equal(got, expected + (size_t)(tile - 1) * BYTES, BYTES);
    }
}

static void write_other(fixture *f, const gx_meta *meta, int tile)
{
    (void)meta;
    (void)tile;
    run_sql(f->db, "INSERT INTO t VALUES(zeroblob(3000000)), (randomblob(900000))");
}

static void flush_cache(fixture *f, const gx_meta *meta, int tile)
{
    (void)meta;
    (void)tile;
    run_sql(f->db, "INSERT INTO t VALUES(zeroblob(3000000)); PRAGMA shrink_memory");
    assert_int_equal(sqlite3_db_cacheflush(f->db), SQLITE_OK);
}

static void store_within(fixture *f, bool is_kept)
{
    gx_meta meta = shaped("main", 20, 20);
    double data[400] = {1};
    ok(f, gx_store_begin(f->store, "main", &f->err));
    ok(f, gx_store_create(f->store, &meta, NULL, &f->err));
    ok(f, gx_store_write_tile(f->store, &meta, 0, data, &f->err));
    ok(f, gx_store_end(f->store, is_kept, &f->err));
}

static void store_and_keep(fixture *f, const gx_meta *meta, int tile)
{
    (void)meta;
    (void)tile;
    store_within(f, true);
}

static void store_and_undo(fixture *f, const gx_meta *meta, int tile)
{
    (void)meta;
    (void)tile;
    store_within(f, false);
}

static void is_what_was_put(fixture *f, const gx_meta *meta)
{
    sqlite3 *connections[] = {f->db, f->other};
    for (int c = 0; c < 2; c++) {
        for (int t = 0; t < TILES; t++) {
            read_row(connections[c], meta, t, 0, BYTES);
            assert_memory_equal(got, expected + (size_t)t * BYTES, BYTES);
        }
        assert_int_equal(number(connections[c], "SELECT count(*) FROM pragma_integrity_check WHERE "
                                                "integrity_check = 'ok'"),
                         1);
    }
}

/* A matrix whose second tile is interrupted, or whose first is, which is looked at more closely. */
static void one(fixture *f, between b, int tile, int after)
{
    gx_meta meta = begin(f);
    for (int t = 0; t < TILES; t++) {
        ok(f, write_pieces(f, &meta, t, t == tile ? b : NOTHING, after));
    }
    ok(f, gx_store_publish(f->store, &meta, "A", true, &f->err));
    ok(f, gx_store_end(f->store, true, &f->err));
    is_what_was_put(f, &meta);
    gx_store_release(f->store);
}

static void between_pieces(void **state)
{
    static const between things[] = {
        {NULL, false},        {read_start, false},    {read_end, true},
        {read_all, true},     {read_another, false},  {write_other, false},
        {flush_cache, false}, {store_and_keep, true}, {store_and_undo, true}};
    fixture *f = *state;
    for (size_t k = 0; k < sizeof things / sizeof *things; k++) {
        for (int after = 0; after < PIECES; after += 1 + (int)k % 2) {
            one(f, things[k], (after + (int)k) % 2, after);
            run_sql(f->db, "DELETE FROM t; DELETE FROM gx_tile; DELETE FROM gx_meta; VACUUM");
        }
    }
}

static void given_up(void **state)
{
    fixture *f = *state;
    one(f, NOTHING, 0, 0);
    int64_t pages = number(f->db, "PRAGMA page_count");
    for (int last = 0; last < 2 * PIECES; last++) {
        gx_meta meta = begin(f);
        for (int k = 0; k <= last; k++) {
            gx_tile_image piece = gx_image_of(memory, PAGE, BYTES, GX_IMAGE_PIECE, k % PIECES);
            gx_image_put(&piece, 0, expected + (size_t)(k / PIECES) * BYTES, BYTES);
            ok(f, gx_store_write_image(f->store, &meta, k / PIECES, &piece, &f->err));
        }
        ok(f, gx_store_end(f->store, false, &f->err));
        assert_int_equal(number(f->db, "PRAGMA page_count"), pages);
        assert_int_equal(number(f->other, "SELECT count(*) FROM gx_tile"), TILES);
        assert_int_equal(number(f->db, "SELECT count(*) FROM pragma_integrity_check WHERE "
                                       "integrity_check = 'ok'"),
                         1);
    }
}

static void delete_row(fixture *f, const gx_meta *meta, int tile)
{
    (void)meta;
    (void)tile;
    run_sql(f->db, "DELETE FROM gx_tile");
}

static void its_row_is_deleted(void **state)
{
    fixture *f = *state;
    gx_meta meta = begin(f);
    is_error(f, write_pieces(f, &meta, 0, (between){delete_row, true}, 1), GX_CORRUPT,
             "tile 0 of (id 1) is missing");
    ok(f, gx_store_end(f->store, false, &f->err));
    one(f, NOTHING, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(between_pieces, setup_laid, teardown_laid),
        cmocka_unit_test_setup_teardown(given_up, setup_laid, teardown_laid),
        cmocka_unit_test_setup_teardown(its_row_is_deleted, setup_laid, teardown_laid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
