/*
** The matrix store: one catalog row (table gx_meta), read and checked.
**
** A catalog row comes from a file, and files lie: every field of a row is checked before anybody
** computes with it (fields[] and check_shape() below), so whoever holds a gx_meta may multiply its
** numbers without looking.
**
** Memory: none.  Statements are the caller's.  Threads: any, with the statement's connection.
*/
#include <sqlite3ext.h>

#include "store_int.h"

#include <stdio.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

enum { PROPERTIES_SQUARE = GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN | GX_PROP_POSITIVE };

// Fields ------------------------------------------------------------------------------------------

enum {
    COL_ID,
    COL_NAME,
    COL_ROWS,
    COL_COLS,
    COL_DTYPE,
    COL_TILE_ROWS,
    COL_TILE_COLS,
    COL_PROPERTIES,
    COL_GENERATION,
    COL_COUNT
};

static const struct {
    const char *name;
    int64_t least, most;
} fields[COL_COUNT] = {
    [COL_ID] = {"id", 1, GX_ID_MAX},
    [COL_NAME] = {"name", 0, 0},
    [COL_ROWS] = {"rows", 0, GX_SIDE_MAX},
    [COL_COLS] = {"cols", 0, GX_SIDE_MAX},
    [COL_DTYPE] = {"dtype", 0, GX_DTYPE_COUNT - 1},
    [COL_TILE_ROWS] = {"tile_rows", 1, GX_SIDE_MAX},
    [COL_TILE_COLS] = {"tile_cols", 1, GX_SIDE_MAX},
    [COL_PROPERTIES] = {"properties", 0, INT64_MAX},
    [COL_GENERATION] = {"generation", 1, INT64_MAX},
};

const char *gx_meta_label(const gx_meta *meta, char buf[GX_LABEL_MAX])
{
    char number[32];
    const char *name = meta->name;
    if (name[0] == '\0') {
        snprintf(number, sizeof number, "(id %lld)", (long long)meta->id);
        name = number;
    }
    bool is_main = sqlite3_stricmp(meta->schema, "main") == 0;
    snprintf(buf, GX_LABEL_MAX, "%s%s%s", is_main ? "" : meta->schema, is_main ? "" : ".", name);
    return buf;
}

static gx_code read_field(sqlite3_stmt *stmt, int column, const char *label, int64_t *out,
                          gx_err *err)
{
    if (sqlite3_column_type(stmt, column) != SQLITE_INTEGER) {
        static const char *const types[] = {"?", "an integer", "a real", "text", "a blob", "NULL"};
        return gx_fail(err, GX_CORRUPT, "catalog row of %s: %s is %s, not an integer", label,
                       fields[column].name, types[sqlite3_column_type(stmt, column) % 6]);
    }
    *out = sqlite3_column_int64(stmt, column);
    if (*out < fields[column].least || *out > fields[column].most) {
        return gx_fail(err, GX_CORRUPT, "catalog row of %s: %s is %lld, expected %lld to %lld",
                       label, fields[column].name, (long long)*out, (long long)fields[column].least,
                       (long long)fields[column].most);
    }
    return GX_OK;
}

/* Tiles of that shape, or panels of any. */
static gx_code check_tiles(const gx_meta *meta, const char *label, gx_err *err)
{
    size_t bytes;
    int64_t tiles;
    bool is_whole = meta->tile_rows == gx_max(meta->rows, 1) &&
                    meta->tile_cols == gx_max(meta->cols, 1);
    if (meta->tile_rows > gx_max(meta->rows, 1) || meta->tile_cols > gx_max(meta->cols, 1) ||
        (meta->is_sparse && !is_whole)) {
        return gx_fail(err, GX_CORRUPT,
                       "catalog row of %s: tiles of %lldx%lld in a %smatrix of %lldx%lld", label,
                       (long long)meta->tile_rows, (long long)meta->tile_cols,
                       meta->is_sparse ? "sparse " : "", (long long)meta->rows,
                       (long long)meta->cols);
    }
    if (!meta->is_sparse &&
        (!gx_dtype_matrix_bytes(meta->tile_rows, meta->tile_cols, meta->dtype, &bytes) ||
         bytes > (size_t)GX_TILE_BYTES_MAX ||
         !gx_mul_i64(gx_meta_row_tiles(meta), gx_meta_col_tiles(meta), &tiles) ||
         tiles > GX_TILES_MAX)) {
        return gx_fail(err, GX_CORRUPT,
                       "catalog row of %s: tiles of %lldx%lld %s cannot hold %lldx%lld", label,
                       (long long)meta->tile_rows, (long long)meta->tile_cols,
                       gx_dtype_name(meta->dtype), (long long)meta->rows, (long long)meta->cols);
    }
    return GX_OK;
}

/* The fields are fine one by one; now together. */
static gx_code check_shape(const gx_meta *meta, const char *label, gx_err *err)
{
    size_t bytes;
    if (!gx_dtype_matrix_bytes(meta->rows, meta->cols, meta->dtype, &bytes)) {
        return gx_fail(err, GX_CORRUPT, "catalog row of %s: %lldx%lld %s, but " GX_SIZES_TEXT,
                       label, (long long)meta->rows, (long long)meta->cols,
                       gx_dtype_name(meta->dtype));
    }
    GX_TRY(check_tiles(meta, label, err));
    bool has_along = meta->down_tiles < gx_meta_row_tiles(meta) && gx_meta_col_tiles(meta) > 1;
    if (meta->down_tiles != 0 && (!has_along || meta->is_sparse || meta->is_composite)) {
        return gx_fail(err, GX_CORRUPT,
                       "catalog row of %s: %lld tile rows numbered down the columns in a matrix of "
                       "%lldx%lld tiles",
                       label, (long long)meta->down_tiles, (long long)gx_meta_row_tiles(meta),
                       (long long)gx_meta_col_tiles(meta));
    }
    if (!gx_dtype_is_number(meta->dtype) && (meta->properties & GX_PROP_FACTOR) != 0) {
        return gx_fail(err, GX_CORRUPT, "catalog row of %s: a factorisation of %s", label,
                       gx_dtype_name(meta->dtype));
    }
    bool is_quantised = (meta->properties & GX_PROP_QUANTIZED) != 0;
    if (is_quantised && (gx_meta_code_bits(meta) == 0 || gx_meta_shown_cols(meta) < 1 ||
                         meta->dtype != GX_DTYPE_I8 || meta->is_sparse || meta->is_composite ||
                         (meta->properties & (GX_PROP_QUANTIZED - 1)) != 0)) {
        return gx_fail(err, GX_CORRUPT,
                       "catalog row of %s: %lldx%lld %s with properties %lu are no codes", label,
                       (long long)meta->rows, (long long)meta->cols, gx_dtype_name(meta->dtype),
                       (unsigned long)meta->properties);
    }
    bool is_square_only = (meta->properties & PROPERTIES_SQUARE) != 0;
    bool is_both = (meta->properties & GX_PROP_FACTOR) == GX_PROP_FACTOR ||
                   (meta->is_sparse && (meta->properties & GX_PROP_FACTOR) != 0) ||
                   (meta->is_composite && (meta->properties >= GX_PROP_LU || meta->is_sparse));
    if (is_both || (is_square_only && meta->rows != meta->cols)) {
        return gx_fail(err, GX_CORRUPT, "catalog row of %s: properties is %lu but it is %lldx%lld",
                       label, (unsigned long)meta->properties, (long long)meta->rows,
                       (long long)meta->cols);
    }
    return GX_OK;
}

/* What the column properties says. */
static void set_bits(gx_meta *meta, int64_t properties)
{
    meta->down_tiles = properties >> GX_META_DOWN_AT;
    meta->properties =
        (uint32_t)properties & ~(GX_META_SPREAD | GX_META_SPARSE | GX_META_COMPOSITE);
    meta->is_spread = (properties & GX_META_SPREAD) != 0;
    meta->is_sparse = (properties & GX_META_SPARSE) != 0;
    meta->is_composite = (properties & GX_META_COMPOSITE) != 0;
}

gx_code gx_store_meta(sqlite3_stmt *stmt, const char *schema, gx_meta *meta, gx_err *err)
{
    memset(meta, 0, sizeof *meta);
    snprintf(meta->schema, sizeof meta->schema, "%s", schema);
    meta->id = sqlite3_column_int64(stmt, COL_ID);
    int name_type = sqlite3_column_type(stmt, COL_NAME);
    if (name_type == SQLITE_TEXT) {
        const char *name = (const char *)sqlite3_column_text(stmt, COL_NAME);
        if (name == NULL) {
            return gx_fail_nomem(err, GX_NAME_MAX, "name of a matrix");
        }
        size_t bytes = strlen(name);
        if (bytes <= GX_NAME_MAX && (int)bytes == sqlite3_column_bytes(stmt, COL_NAME)) {
            memcpy(meta->name, name, bytes + 1);
        }
    }
    char label[GX_LABEL_MAX];
    gx_meta_label(meta, label);
    if (name_type != SQLITE_NULL && meta->name[0] == '\0') {
        return gx_fail(err, GX_CORRUPT, "catalog row of %s: name is not a text of 1 to %d bytes",
                       label, GX_NAME_MAX);
    }
    int64_t value[COL_COUNT] = {0};
    for (int column = 0; column < COL_COUNT; column++) {
        if (column != COL_NAME) {
            GX_TRY(read_field(stmt, column, label, &value[column], err));
        }
    }
    meta->rows = value[COL_ROWS];
    meta->cols = value[COL_COLS];
    meta->dtype = (gx_dtype)value[COL_DTYPE];
    meta->tile_rows = value[COL_TILE_ROWS];
    meta->tile_cols = value[COL_TILE_COLS];
    set_bits(meta, value[COL_PROPERTIES]);
    meta->generation = value[COL_GENERATION];
    return check_shape(meta, label, err);
}

size_t gx_meta_tile_bytes(const gx_meta *meta, int64_t tile)
{
    if (meta->is_sparse) {
        gx_csr_layout layout = {0};
        (void)gx_csr_lay_out(gx_meta_panel_rows(meta, tile), meta->cols,
                             meta->panels->place[tile].entries, meta->dtype, &layout);
        return layout.bytes;
    }
    int64_t ti, tj;
    gx_meta_tile_place(meta, tile, &ti, &tj);
    int64_t height = gx_meta_tile_height(meta, ti), width = gx_meta_tile_width(meta, tj);
    return (size_t)(height * width) * gx_dtype_bytes(meta->dtype);
}

void gx_store_meta_raw(sqlite3_stmt *stmt, const char *schema, gx_meta *meta)
{
    memset(meta, 0, sizeof *meta);
    const char *name = (const char *)sqlite3_column_text(stmt, COL_NAME);
    snprintf(meta->schema, sizeof meta->schema, "%s", schema);
    snprintf(meta->name, sizeof meta->name, "%s", name != NULL ? name : "");
    meta->id = sqlite3_column_int64(stmt, COL_ID);
    meta->rows = sqlite3_column_int64(stmt, COL_ROWS);
    meta->cols = sqlite3_column_int64(stmt, COL_COLS);
    meta->dtype = (gx_dtype)sqlite3_column_int(stmt, COL_DTYPE);
    meta->tile_rows = sqlite3_column_int64(stmt, COL_TILE_ROWS);
    meta->tile_cols = sqlite3_column_int64(stmt, COL_TILE_COLS);
    set_bits(meta, sqlite3_column_int64(stmt, COL_PROPERTIES));
    meta->generation = sqlite3_column_int64(stmt, COL_GENERATION);
}
