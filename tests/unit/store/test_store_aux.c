/*
** Auxiliary data of stored factorisations (core/store/store_aux.c, core/store/aux_data.c).
**
** Plan:
**   1. life: written with the matrix, read back, kept by a rename, gone with drop and replace
**   2. cells written: the bits and the data go together
**   3. a file whose gx_meta has no such column: read as without, the column made by the first write
**   4. damage: every field of the header, the length, each end of a pivot's range; gx_store_check
**      says the same
**   5. the length limit, in words and before anything is written
*/
#include "store/aux_data.h"
#include "storekit.h"

#include <math.h>

/* F, 50 x 30, with pivots[j] = j + j % 3. */
static gx_meta make_factor(fixture *f, const char *name)
{
    gx_meta meta = shaped("main", 50, 30);
    meta.properties = GX_PROP_LU;
    gx_aux factor;
    ok(f, gx_aux_create(f->mem, GX_AUX_LU, 50, 30, GX_F64, 15, &factor, &f->err));
    assert_true(isnan(factor.norm1) && factor.tau == NULL && factor.count == 30);
    for (int64_t j = 0; j < 30; j++) {
        factor.pivots[j] = j + j % 3;
    }
    factor.info = 7;
    factor.norm1 = 2.5;
    gx_aux_seal(&factor);
    ok(f, gx_store_begin(f->store, "main", &f->err));
    ok(f, gx_store_create(f->store, &meta, NULL, &f->err));
    ok(f, write_all(f, &meta));
    ok(f, gx_store_write_aux(f->store, &meta, factor.blob, factor.bytes, &f->err));
    ok(f, gx_store_publish(f->store, &meta, name, true, &f->err));
    ok(f, gx_store_end(f->store, true, &f->err));
    gx_aux_clear(&factor, f->mem);
    return meta;
}

static gx_code load(fixture *f, const char *name, gx_aux *factor)
{
    gx_meta meta;
    ok(f, gx_store_find(f->store, name, &meta, &f->err));
    return gx_aux_load(f->store, f->mem, &meta, factor, &f->err);
}

static int lines;
static char last_line[600];

static void keep_line(void *arg, const char *line)
{
    (void)arg;
    lines++;
    snprintf(last_line, sizeof last_line, "%s", line);
}

/* What gx_check says of a matrix: "" or its last line. */
static const char *checked(fixture *f, const char *name)
{
    gx_meta meta;
    last_line[0] = '\0';
    ok(f, gx_store_find(f->store, name, &meta, &f->err));
    ok(f, gx_store_check(f->store, &meta, keep_line, NULL, &f->err));
    gx_store_release(f->store);
    return last_line;
}

// 1. ----------------------------------------------------------------------------------------------

static void life(void **state)
{
    fixture *f = *state;
    gx_aux factor;
    make_factor(f, "F");
    make(f, "main", "A");
    ok(f, load(f, "F", &factor));
    assert_true(factor.kind == GX_AUX_LU && factor.panel == 15 && factor.info == 7);
    assert_true(factor.norm1 == 2.5 && factor.rows == 50 && factor.cols == 30);
    assert_true(factor.pivots[0] == 0 && factor.pivots[29] == 31);
    gx_aux_clear(&factor, f->mem);
    ok(f, load(f, "A", &factor)); // an ordinary one
    assert_true(factor.kind == GX_AUX_NONE && factor.blob == NULL);
    assert_string_equal(checked(f, "F"), "");
    assert_string_equal(checked(f, "A"), "");

    gx_meta meta;
    ok(f, gx_store_find(f->store, "F", &meta, &f->err));
    ok(f, gx_store_rename(f->store, &meta, "G", &f->err));
    ok(f, load(f, "G", &factor));
    assert_int_equal(factor.pivots[28], 29);
    gx_aux_clear(&factor, f->mem);
    gx_store_release(f->store);
    run_sql(f->db, "UPDATE gx_meta SET name = 'H' WHERE name = 'G'"); // outside: nothing is cached
    ok(f, load(f, "H", &factor));
    gx_aux_clear(&factor, f->mem);
    ok(f, gx_store_drop(f->store, &(gx_meta){.id = meta.id, .schema = "main"}, &f->err));
    gx_store_release(f->store);
    assert_int_equal(number(f->db, "SELECT count(*) FROM gx_meta WHERE aux IS NOT NULL"), 0);
}

static void quotients(void **state)
{
    fixture *f = *state;
    gx_aux factor;
    ok(f, gx_aux_create(f->mem, GX_AUX_QR, 3, 5, GX_C64, 2, &factor, &f->err));
    assert_true(factor.pivots == NULL && factor.tau != NULL);
    assert_int_equal(factor.bytes, GX_AUX_HEADER + 3 * 8);
    gx_aux_seal(&factor);
    gx_meta meta = {.rows = 3, .cols = 5, .dtype = GX_DTYPE_C64, .properties = GX_PROP_QR};
    ok(f, gx_aux_check(&meta, "F", factor.blob, factor.bytes, &f->err));
    meta.properties = GX_PROP_LU;
    is_error(f, gx_aux_check(&meta, "F", factor.blob, factor.bytes, &f->err), GX_CORRUPT,
             "auxiliary data of F: kind 2 of dtype 3, expected 1 of dtype 3");
    gx_aux_clear(&factor, f->mem);
    is_error(f, gx_aux_refuse("F", GX_PROP_QR, &f->err), GX_ARG,
             "F is a stored QR factorisation: gx_part('F', 'R') gives its factor");
    is_error(f, gx_aux_refuse("F", GX_PROP_LU, &f->err), GX_ARG,
             "F is a stored LU factorisation: gx_part('F', 'L') gives its factor");
}

// 2. ----------------------------------------------------------------------------------------------

static void touched(void **state)
{
    fixture *f = *state;
    gx_meta meta = make_factor(f, "F");
    ok(f, gx_store_begin(f->store, "main", &f->err));
    ok(f, gx_store_touch(f->store, &meta, 0, &f->err));
    ok(f, gx_store_end(f->store, true, &f->err));
    gx_store_release(f->store);
    assert_int_equal(number(f->db, "SELECT count(*) FROM gx_meta WHERE aux IS NULL"), 1);
    assert_string_equal(checked(f, "F"), "");
}

// 3. ----------------------------------------------------------------------------------------------

static void older_file(void **state)
{
    fixture *f = *state;
    gx_aux factor;
    make(f, "main", "A");
    gx_store_release(f->store);
    run_sql(f->db, "CREATE TABLE m(id INTEGER PRIMARY KEY, -- as it was\n name TEXT UNIQUE, rows, "
                   "cols, dtype, tile_rows, tile_cols, properties,\n generation -- a comment\n);"
                   "INSERT INTO m SELECT id, name, rows, cols, dtype, tile_rows, tile_cols, "
                   "properties, generation FROM gx_meta; DROP TABLE gx_meta;"
                   "ALTER TABLE m RENAME TO gx_meta");
    assert_string_equal(checked(f, "A"), "");
    gx_meta meta;
    ok(f, gx_store_find(f->store, "A", &meta, &f->err));
    void *data = &meta;
    size_t bytes = 1;
    ok(f, gx_store_read_aux(f->store, &meta, &data, &bytes, &f->err));
    assert_true(data == NULL && bytes == 0);
    ok(f, gx_store_begin(f->store, "main", &f->err)); // nothing to forget: no column for that
    ok(f, gx_store_write_aux(f->store, &meta, NULL, 0, &f->err));
    ok(f, gx_store_end(f->store, true, &f->err));
    gx_store_release(f->store);
    assert_int_equal(
        number(f->db, "SELECT count(*) FROM pragma_table_info('gx_meta') WHERE name = 'aux'"), 0);
    make_factor(f, "F");
    ok(f, load(f, "F", &factor));
    assert_int_equal(factor.pivots[2], 4);
    gx_aux_clear(&factor, f->mem);
    gx_store_release(f->store);
    assert_int_equal(number(f->other, "SELECT length(aux) FROM gx_meta WHERE name = 'F'"),
                     GX_AUX_HEADER + 30 * 8);
    assert_string_equal(checked(f, "A"), "");
}

// 4. ----------------------------------------------------------------------------------------------

/* The blob with `bytes` (in hexadecimal) at an offset is refused, by loading and by the check. */
static void damaged(fixture *f, int offset, const char *hex, const char *text)
{
    char sql[600];
    snprintf(sql, sizeof sql,
             "CREATE TEMP TABLE IF NOT EXISTS kept AS SELECT aux FROM gx_meta WHERE name = 'F';"
             "UPDATE gx_meta SET aux = (SELECT CAST(substr(aux, 1, %d) || x'%s' || "
             "substr(aux, %d) AS BLOB) FROM kept) WHERE name = 'F'",
             offset, hex, offset + (int)strlen(hex) / 2 + 1);
    run_sql(f->db, sql);
    gx_aux factor;
    is_error(f, load(f, "F", &factor), GX_CORRUPT, text);
    assert_true(factor.kind == GX_AUX_NONE && factor.blob == NULL);
    gx_store_release(f->store);
    assert_string_equal(checked(f, "F"), text);
}

static void damage(void **state)
{
    fixture *f = *state;
    make_factor(f, "F");
    gx_store_release(f->store);
    damaged(f, 0, "00", "auxiliary data of F: 304 bytes that are no factorisation");
    damaged(f, 5, "02", "auxiliary data of F: kind 2 of dtype 0, expected 1 of dtype 0");
    damaged(f, 6, "01", "auxiliary data of F: kind 1 of dtype 1, expected 1 of dtype 0");
    damaged(f, 8, "00", "auxiliary data of F: panel is 0, expected 1 to 30");
    damaged(f, 8, "1f", "auxiliary data of F: panel is 31, expected 1 to 30");
    damaged(f, 16, "1d", "auxiliary data of F: count is 29, expected 30 to 30");
    damaged(f, 24, "1f", "auxiliary data of F: zero pivot is 31, expected 0 to 30");
    damaged(f, 31, "80",
            "auxiliary data of F: zero pivot is -9223372036854775801, expected 0 to 30");
    damaged(f, 64 + 8 * 5, "04", "auxiliary data of F: pivot 5 is row 4, expected 5 to 49");
    damaged(f, 64 + 8 * 29, "32", "auxiliary data of F: pivot 29 is row 50, expected 29 to 49");
    run_sql(f->db, "UPDATE gx_meta SET aux = (SELECT substr(aux, 1, 300) FROM kept)");
    assert_string_equal(checked(f, "F"), "auxiliary data of F has 300 bytes, expected 304");
    run_sql(f->db, "UPDATE gx_meta SET aux = NULL");
    assert_string_equal(checked(f, "F"), "auxiliary data of F: 0 bytes that are no factorisation");
    run_sql(f->db, "UPDATE gx_meta SET aux = 'x'");
    assert_string_equal(checked(f, "F"), "auxiliary data of F is not a blob");
    run_sql(f->db, "UPDATE gx_meta SET aux = x'00', properties = 0");
    assert_string_equal(checked(f, "F"), "F has auxiliary data but is no factorisation");
    run_sql(f->db, "UPDATE gx_meta SET aux = x'00', properties = 32768"); // of a gx to come
    assert_string_equal(checked(f, "F"), "");
    run_sql(f->db, "UPDATE gx_meta SET properties = 384");
    gx_meta meta;
    is_error(f, gx_store_find(f->store, "F", &meta, &f->err), GX_CORRUPT,
             "catalog row of F: properties is 384 but it is 50x30");
    run_sql(f->db, "UPDATE gx_meta SET properties = 128, aux = (SELECT CAST(substr(aux, 1, 4) || "
                   "x'02' || substr(aux, 6) AS BLOB) FROM kept)");
    assert_string_equal(checked(f, "F"), "auxiliary data of F: version 2, this gx knows version 1");
}

// 5. ----------------------------------------------------------------------------------------------

static void limited(void **state)
{
    fixture *f = *state;
    sqlite3_limit(f->db, SQLITE_LIMIT_LENGTH, 4000);
    ok(f, gx_store_allows_aux(f->store, 3000, &f->err));
    is_error(f, gx_store_allows_aux(f->store, 3600, &f->err), GX_TOOBIG,
             "auxiliary data of 3600 bytes is past SQLite's length limit of 4000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(life),       TEST(quotients), TEST(touched),
                                       TEST(older_file), TEST(damage),    TEST(limited)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
