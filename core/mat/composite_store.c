/*
** Composites stored and renamed: composite.h.
*/
#include "layout.h"

#include <stdio.h>
#include <string.h>

// Making ------------------------------------------------------------------------------------------

/* The names without their schema, which is the composite's own; the sizes that they tell. */
static gx_code look_at_parts(gx_store *store, const gx_meta *meta, gx_layout *l, gx_err *err)
{
    for (int64_t k = 0; k < l->terms; k++) {
        gx_term *t = &l->term[k];
        gx_meta found;
        char head[GX_NAME_MAX + 1];
        const char *bare;
        if (t->kind != GX_TERM_MATRIX) {
            continue;
        }
        GX_TRY(gx_store_split(store, t->name, head, &bare, err));
        if (head[0] != '\0' && strcmp(head, meta->schema) != 0) {
            return gx_fail(err, GX_ARG,
                           "the part '%s' is of another database: those of a composite in %s are "
                           "in %s",
                           t->name, meta->schema, meta->schema);
        }
        memmove(t->name, bare, strlen(bare) + 1);
        GX_TRY(gx_layout_find(store, meta, t, &found, err));
        int64_t wide = gx_meta_shown_cols(&found);
        t->rows = t->is_turned ? wide : found.rows;
        t->cols = t->is_turned ? found.rows : wide;
    }
    return GX_OK;
}

/* What the elements are: opened for it. */
static gx_code find_number(gx_run *run, gx_meta *meta, const gx_layout *layout, gx_err *err)
{
    gx_mat opened;
    size_t bytes;
    GX_TRY(gx_layout_open(run->ctx->store, run->ctx->mem, meta, layout, &opened, err));
    meta->dtype = gx_dtype_of(opened.number);
    gx_mat_clear(&opened, run->ctx->mem);
    return gx_dtype_matrix_bytes(meta->rows, meta->cols, meta->dtype, &bytes)
               ? GX_OK
               : gx_fail(err, GX_TOOBIG, "a composite of too many elements: " GX_SIZES_TEXT);
}

/* Opened once: what is a part of itself shows now. */
static gx_code write_row(gx_run *run, const gx_dest *dest, gx_meta *meta, const gx_layout *layout,
                         gx_err *err)
{
    gx_store *store = run->ctx->store;
    gx_mat opened;
    char name[GX_NAME_MAX + 1];
    memcpy(name, meta->name, sizeof name);
    GX_TRY(gx_store_create(store, meta, NULL, err));
    GX_TRY(gx_layout_write(store, run->ctx->mem, meta, layout, err));
    GX_TRY(gx_store_publish(store, meta, name, dest->replace, err));
    GX_TRY(gx_mat_open(store, run->ctx->mem, meta, &opened, err));
    gx_mat_clear(&opened, run->ctx->mem);
    return GX_OK;
}

static gx_code make(gx_run *run, const gx_dest *dest, gx_layout *layout, gx_err *err)
{
    gx_store *store = run->ctx->store;
    gx_meta meta = {.is_composite = true};
    GX_TRY(gx_store_resolve(store, dest->name, meta.schema, meta.name, err));
    GX_TRY(gx_store_check_free(store, meta.schema, meta.name, dest->replace, err));
    GX_TRY(look_at_parts(store, &meta, layout, err));
    GX_TRY(gx_layout_measure(run->ctx->mem, layout, err));
    if (layout->term->rows < 0) {
        return gx_fail(err, GX_ARG, "%s alone has no size", gx_term_name(layout->term));
    }
    meta.rows = layout->term->rows;
    meta.cols = layout->term->cols;
    GX_TRY(find_number(run, &meta, layout, err));
    GX_TRY(gx_store_begin(store, meta.schema, err));
    gx_code code = write_row(run, dest, &meta, layout, err);
    gx_code ended = gx_store_end(store, code == GX_OK, err);
    return code == GX_OK ? ended : code;
}

gx_code gx_composite_store(gx_run *run, const gx_dest *dest, gx_layout *layout)
{
    gx_err err = {0};
    if (gx_ok(run) && make(run, dest, layout, &err) != GX_OK) {
        gx_run_fail(run, &err);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Names that change -------------------------------------------------------------------------------

/* The composites of a schema, and how the matrix of an id is called there. */
typedef struct found {
    gx_mem *mem;
    int64_t id;
    char name[GX_NAME_MAX + 1];
    gx_meta *meta;
    int64_t count, capacity;
    gx_err *err;
} found;

static bool collect(void *arg, const gx_meta *meta)
{
    found *f = arg;
    if (meta->id == f->id) {
        memcpy(f->name, meta->name, sizeof f->name);
    }
    if (!meta->is_composite) {
        return true;
    }
    if (f->count == f->capacity) {
        int64_t capacity = gx_max(8, 2 * f->capacity);
        void *memory = f->meta;
        if (gx_mem_realloc(f->mem, (size_t)capacity * sizeof *meta, "composites", &memory,
                           f->err) != GX_OK) {
            return false;
        }
        f->meta = memory;
        f->capacity = capacity;
    }
    f->meta[f->count++] = *meta;
    return true;
}

/* A damaged layout stays as it is: gx_check says so. */
static gx_code rename_in(gx_store *store, gx_mem *mem, gx_meta *meta, const char *from,
                         const char *to, gx_err *err)
{
    gx_layout layout;
    gx_err damage = {0};
    bool has_it = false;
    gx_code code = gx_layout_load(store, mem, meta, &layout, &damage);
    if (code != GX_OK) {
        return code == GX_CORRUPT || code == GX_UNSUPPORTED ? GX_OK
                                                            : gx_fail(err, code, "%s", damage.text);
    }
    for (int64_t k = 0; k < layout.terms; k++) {
        gx_term *term = &layout.term[k];
        if (term->kind == GX_TERM_MATRIX && strcmp(term->name, from) == 0) {
            snprintf(term->name, sizeof term->name, "%s", to);
            has_it = true;
        }
    }
    if (has_it) {
        code = gx_layout_write(store, mem, meta, &layout, err);
    }
    if (has_it && code == GX_OK) {
        code = gx_store_touch(store, meta, 0, err);
    }
    gx_layout_clear(&layout, mem);
    return code;
}

static gx_code rename_all(gx_store *store, gx_meta *meta, const char *name, found *f, gx_err *err)
{
    gx_code code = gx_store_list(store, meta->schema, NULL, collect, f, err);
    code = code == GX_OK ? err->code : code;
    if (code == GX_OK) {
        code = gx_store_rename(store, meta, name, err);
    }
    for (int64_t k = 0; k < f->count && code == GX_OK; k++) {
        code = rename_in(store, f->mem, &f->meta[k], f->name, meta->name, err);
    }
    return code;
}

gx_code gx_mat_rename(gx_store *store, gx_mem *mem, gx_meta *meta, const char *name, gx_err *err)
{
    found f = {.mem = mem, .id = meta->id, .err = err};
    GX_TRY(gx_store_begin(store, meta->schema, err));
    gx_code code = rename_all(store, meta, name, &f, err);
    gx_mem_free(mem, f.meta);
    gx_code ended = gx_store_end(store, code == GX_OK, err);
    return code == GX_OK ? ended : code;
}
