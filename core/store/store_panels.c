/*
** The matrix store: the directory of a sparse matrix, which panel has which rows and how many
** entries.
**
** It stands in gx_meta.aux, 16 bytes a panel of about 8 MiB, and is loaded with the catalog row, so
** that whoever has a gx_meta knows how many bytes each panel must have before he reads it, and no
** reader of panels trusts a length that it finds.  Directories of one state of a matrix are loaded
** once, and stay until the call lets go of the store: copies of a gx_meta point to them.
**
**   offset  bytes  is
**        0      4  'gxsp'
**        4      1  version, 1
**        5      1  zero
**        6      1  dtype of the matrix
**        7      1  bytes of a column index, 4 or 8
**        8      8  panels
**       16      8  entries of all
**       24      8  zero
**       32      .  for each panel the row behind its last one and its entries, 64 bits each
*/
#include <sqlite3ext.h>

#include "store_int.h"

#include <stdio.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

enum { HEADER = 32, VERSION = 1 };

static const char MAGIC[4] = {'g', 'x', 's', 'p'};

struct gx_panel_list {
    gx_panel_list *next;
    char schema[GX_NAME_MAX + 1];
    int64_t id, generation;
    gx_panels panels;
    void *blob; /* what place points into */
};

void gx_store_forget_panels(gx_store *store)
{
    while (store->panels != NULL) {
        gx_panel_list *item = store->panels;
        store->panels = item->next;
        gx_mem_free(store->mem, item->blob);
        gx_mem_free(store->mem, item);
    }
}

static int64_t number_at(const void *blob, size_t offset)
{
    int64_t number;
    memcpy(&number, (const char *)blob + offset, sizeof number);
    return number;
}

/* Who the directory is for, and how long it is. */
static gx_code check_head(const gx_meta *meta, const char *label, const unsigned char *blob,
                          size_t bytes, gx_err *err)
{
    if (bytes < HEADER || memcmp(blob, MAGIC, sizeof MAGIC) != 0) {
        return gx_fail(err, GX_CORRUPT,
                       "%s is sparse but has no directory of its panels (%zu bytes of auxiliary "
                       "data)",
                       label, bytes);
    }
    if (blob[4] != VERSION) {
        return gx_fail(err, GX_UNSUPPORTED,
                       "the directory of %s is of version %d; this gx reads version %d", label,
                       blob[4], VERSION);
    }
    if (blob[5] != 0 || blob[6] != meta->dtype || blob[7] != gx_csr_index_bytes(meta->cols) ||
        number_at(blob, 24) != 0) {
        return gx_fail(err, GX_CORRUPT,
                       "the directory of %s is for dtype %d and indexes of %d bytes, expected %d "
                       "and %d",
                       label, blob[6], blob[7], meta->dtype, gx_csr_index_bytes(meta->cols));
    }
    int64_t count = number_at(blob, 8);
    bool is_empty = meta->rows == 0 || meta->cols == 0;
    if (count < 0 || count > GX_TILES_MAX || (count == 0) != is_empty ||
        (uint64_t)(bytes - HEADER) != (uint64_t)count * sizeof(gx_panel_place)) {
        return gx_fail(err, GX_CORRUPT, "the directory of %s has %zu bytes for %lld panels", label,
                       bytes, (long long)count);
    }
    return GX_OK;
}

/* Rows and entries, panel after panel. */
static gx_code check_places(const gx_meta *meta, const char *label, const gx_panels *panels,
                            gx_err *err)
{
    int64_t row = 0, entries = 0;
    gx_csr_layout layout;
    for (int64_t p = 0; p < panels->count; p++) {
        const gx_panel_place *place = &panels->place[p];
        int64_t height = place->end - row, most = 0;
        if (place->end <= row || place->end > meta->rows || place->entries < 0 ||
            !gx_csr_lay_out(height, meta->cols, place->entries, gx_dtype_of(gx_meta_number(meta)),
                            &layout) ||
            (gx_mul_i64(height, meta->cols, &most) && place->entries > most)) {
            return gx_fail(err, GX_CORRUPT,
                           "the directory of %s has panel %lld from row %lld to %lld of %lld with "
                           "%lld entries",
                           label, (long long)p, (long long)row, (long long)place->end,
                           (long long)meta->rows, (long long)place->entries);
        }
        row = place->end;
        entries += place->entries;
    }
    bool is_empty = panels->count == 0;
    if ((!is_empty && row != meta->rows) || entries != panels->entries) {
        return gx_fail(err, GX_CORRUPT,
                       "the directory of %s has %lld rows and %lld entries, expected %lld and %lld",
                       label, (long long)row, (long long)entries, (long long)meta->rows,
                       (long long)panels->entries);
    }
    return GX_OK;
}

static gx_code load(gx_store *store, const gx_meta *meta, gx_panel_list *item, gx_err *err)
{
    char label[GX_LABEL_MAX];
    size_t bytes;
    gx_meta_label(meta, label);
    GX_TRY(gx_store_read_aux(store, meta, &item->blob, &bytes, err));
    GX_TRY(check_head(meta, label, item->blob == NULL ? (const void *)"" : item->blob, bytes, err));
    item->panels = (gx_panels){.count = number_at(item->blob, 8),
                               .entries = number_at(item->blob, 16),
                               .place = (gx_panel_place *)(void *)((char *)item->blob + HEADER)};
    return check_places(meta, label, &item->panels, err);
}

gx_code gx_store_load_panels(gx_store *store, gx_meta *meta, gx_err *err)
{
    for (gx_panel_list *item = store->panels; item != NULL; item = item->next) {
        if (item->id == meta->id && item->generation == meta->generation &&
            strcmp(item->schema, meta->schema) == 0) {
            meta->panels = &item->panels;
            return GX_OK;
        }
    }
    void *memory;
    GX_TRY(gx_mem_calloc(store->mem, sizeof(gx_panel_list), "directory of panels", &memory, err));
    gx_panel_list *item = memory;
    snprintf(item->schema, sizeof item->schema, "%s", meta->schema);
    item->id = meta->id;
    item->generation = meta->generation;
    gx_code code = load(store, meta, item, err);
    if (code != GX_OK) {
        gx_mem_free(store->mem, item->blob);
        gx_mem_free(store->mem, item);
        return code;
    }
    item->next = store->panels;
    store->panels = item;
    meta->panels = &item->panels;
    return GX_OK;
}

bool gx_store_measure_sparse(gx_store *store, const gx_meta *meta, int64_t *entries, size_t *bytes)
{
    gx_meta found = *meta;
    if ((unsigned)meta->dtype >= GX_DTYPE_COUNT || meta->rows < 0 || meta->rows > GX_SIDE_MAX ||
        meta->cols < 0 || meta->cols > GX_SIDE_MAX ||
        gx_store_load_panels(store, &found, NULL) != GX_OK) {
        return false;
    }
    *entries = found.panels->entries;
    *bytes = 0;
    for (int64_t p = 0; p < found.panels->count; p++) {
        *bytes += gx_meta_tile_bytes(&found, p);
    }
    return true;
}

gx_code gx_store_write_panels(gx_store *store, const gx_meta *meta, gx_err *err)
{
    const gx_panels *panels = meta->panels;
    size_t list = (size_t)panels->count * sizeof *panels->place;
    void *memory;
    GX_TRY(gx_store_allows_aux(store, HEADER + list, err));
    GX_TRY(gx_mem_calloc(store->mem, HEADER + list, "directory of panels", &memory, err));
    unsigned char *blob = memory;
    memcpy(blob, MAGIC, sizeof MAGIC);
    blob[4] = VERSION;
    blob[6] = (unsigned char)meta->dtype;
    blob[7] = (unsigned char)gx_csr_index_bytes(meta->cols);
    memcpy(blob + 8, &panels->count, sizeof panels->count);
    memcpy(blob + 16, &panels->entries, sizeof panels->entries);
    if (list > 0) {
        memcpy(blob + HEADER, panels->place, list);
    }
    gx_code code = gx_store_write_aux(store, meta, blob, HEADER + list, err);
    gx_mem_free(store->mem, blob);
    return code;
}
