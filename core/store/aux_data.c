/*
** Auxiliary data of a stored factorisation: its bytes and their checks (see aux_data.h).
**
** The bytes come from a file, and files lie: whoever holds a gx_aux from gx_aux_load() may
** exchange rows by its pivots without looking.
*/
#include "aux_data.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    AT_VERSION = 4,
    AT_KIND = 5,
    AT_DTYPE = 6,
    AT_PANEL = 8,
    AT_COUNT = 16,
    AT_INFO = 24,
    AT_NORM1 = 32,
    VERSION = 1
};

static const char MAGIC[4] = {'g', 'x', 'f', 'a'};

gx_aux_kind gx_aux_kind_of(uint32_t properties)
{
    return (properties & GX_PROP_LU) != 0   ? GX_AUX_LU
           : (properties & GX_PROP_QR) != 0 ? GX_AUX_QR
                                            : GX_AUX_NONE;
}

gx_code gx_aux_refuse(const char *label, uint32_t properties, gx_err *err)
{
    bool is_lu = gx_aux_kind_of(properties) == GX_AUX_LU;
    return gx_fail(err, GX_ARG,
                   "%s is a stored %s factorisation: gx_part('%s', '%s') gives its factor", label,
                   is_lu ? "LU" : "QR", label, is_lu ? "L" : "R");
}

/* Bytes of one entry behind the header. */
static size_t entry_bytes(gx_aux_kind kind, gx_number dtype)
{
    return kind == GX_AUX_LU ? sizeof(int64_t) : gx_number_bytes(dtype);
}

static void point_into_blob(gx_aux *aux)
{
    void *entries = (char *)aux->blob + GX_AUX_HEADER;
    aux->pivots = aux->kind == GX_AUX_LU ? entries : NULL;
    aux->tau = aux->kind == GX_AUX_QR ? entries : NULL;
}

gx_code gx_aux_create(gx_mem *mem, gx_aux_kind kind, int64_t rows, int64_t cols, gx_number dtype,
                      int64_t panel, gx_aux *aux, gx_err *err)
{
    *aux = (gx_aux){.kind = kind,
                    .dtype = dtype,
                    .rows = rows,
                    .cols = cols,
                    .panel = panel,
                    .count = gx_min(rows, cols),
                    .norm1 = (double)NAN};
    if (!gx_mul_size((size_t)aux->count, entry_bytes(kind, dtype), &aux->bytes)) {
        return gx_fail(err, GX_TOOBIG, "%lld pivots are too many", (long long)aux->count);
    }
    aux->bytes += GX_AUX_HEADER;
    GX_TRY(gx_mem_calloc(mem, aux->bytes, "pivots", &aux->blob, err));
    point_into_blob(aux);
    return GX_OK;
}

void gx_aux_clear(gx_aux *aux, gx_mem *mem)
{
    gx_mem_free(mem, aux->blob);
    *aux = (gx_aux){.kind = GX_AUX_NONE};
}

void gx_aux_seal(gx_aux *aux)
{
    char *to = aux->blob;
    memset(to, 0, GX_AUX_HEADER);
    memcpy(to, MAGIC, sizeof MAGIC);
    to[AT_VERSION] = VERSION;
    to[AT_KIND] = (char)aux->kind;
    to[AT_DTYPE] = (char)aux->dtype;
    memcpy(to + AT_PANEL, &aux->panel, sizeof aux->panel);
    memcpy(to + AT_COUNT, &aux->count, sizeof aux->count);
    memcpy(to + AT_INFO, &aux->info, sizeof aux->info);
    memcpy(to + AT_NORM1, &aux->norm1, sizeof aux->norm1);
}

// Reading -----------------------------------------------------------------------------------------

/* Row j was exchanged with row pivots[j], j <= pivots[j] < rows. */
static gx_code check_pivots(const gx_meta *meta, const char *label, const char *at, int64_t count,
                            gx_err *err)
{
    for (int64_t j = 0; j < count; j++) {
        int64_t pivot;
        memcpy(&pivot, at + (size_t)j * sizeof pivot, sizeof pivot);
        if (pivot < j || pivot >= meta->rows) {
            return gx_fail(err, GX_CORRUPT,
                           "auxiliary data of %s: pivot %lld is row %lld, expected %lld to %lld",
                           label, (long long)j, (long long)pivot, (long long)j,
                           (long long)meta->rows - 1);
        }
    }
    return GX_OK;
}

/* One number of the header, which has to be within bounds. */
static gx_code check_number(const char *label, const char *name, const char *at, int64_t least,
                            int64_t most, int64_t *out, gx_err *err)
{
    memcpy(out, at, sizeof *out);
    if (*out < least || *out > most) {
        return gx_fail(err, GX_CORRUPT, "auxiliary data of %s: %s is %lld, expected %lld to %lld",
                       label, name, (long long)*out, (long long)least, (long long)most);
    }
    return GX_OK;
}

/* The header's fields into aux, all checked; then the entries. */
static gx_code parse(const gx_meta *meta, const char *label, const char *blob, size_t bytes,
                     gx_aux *aux, gx_err *err)
{
    gx_aux_kind kind = gx_aux_kind_of(meta->properties);
    int64_t most = gx_min(meta->rows, meta->cols);
    *aux = (gx_aux){
        .kind = kind, .dtype = gx_meta_number(meta), .rows = meta->rows, .cols = meta->cols};
    if (bytes < GX_AUX_HEADER || memcmp(blob, MAGIC, sizeof MAGIC) != 0) {
        return gx_fail(err, GX_CORRUPT, "auxiliary data of %s: %zu bytes that are no factorisation",
                       label, bytes);
    }
    if (blob[AT_VERSION] != VERSION) {
        return gx_fail(err, GX_UNSUPPORTED,
                       "auxiliary data of %s: version %d, this gx knows version %d", label,
                       blob[AT_VERSION], VERSION);
    }
    if (blob[AT_KIND] != (char)kind || blob[AT_DTYPE] != (char)meta->dtype) {
        return gx_fail(err, GX_CORRUPT,
                       "auxiliary data of %s: kind %d of dtype %d, expected %d of dtype %d", label,
                       blob[AT_KIND], blob[AT_DTYPE], (int)kind, (int)meta->dtype);
    }
    GX_TRY(
        check_number(label, "panel", blob + AT_PANEL, 1, gx_max(1, meta->cols), &aux->panel, err));
    GX_TRY(check_number(label, "count", blob + AT_COUNT, most, most, &aux->count, err));
    GX_TRY(check_number(label, "zero pivot", blob + AT_INFO, 0, kind == GX_AUX_LU ? most : 0,
                        &aux->info, err));
    memcpy(&aux->norm1, blob + AT_NORM1, sizeof aux->norm1);
    size_t expected = 0;
    gx_mul_size((size_t)aux->count, entry_bytes(kind, aux->dtype), &expected);
    if (bytes - GX_AUX_HEADER != expected) {
        return gx_fail(err, GX_CORRUPT, "auxiliary data of %s has %zu bytes, expected %zu", label,
                       bytes, expected + GX_AUX_HEADER);
    }
    return kind == GX_AUX_LU ? check_pivots(meta, label, blob + GX_AUX_HEADER, aux->count, err)
                             : GX_OK;
}

gx_code gx_aux_check(const gx_meta *meta, const char *label, const void *blob, size_t bytes,
                     gx_err *err)
{
    gx_aux aux;
    return parse(meta, label, blob, bytes, &aux, err);
}

gx_code gx_aux_load(gx_store *store, gx_mem *mem, const gx_meta *meta, gx_aux *aux, gx_err *err)
{
    *aux = (gx_aux){.kind = GX_AUX_NONE};
    if (gx_aux_kind_of(meta->properties) == GX_AUX_NONE) {
        return GX_OK;
    }
    void *blob;
    size_t bytes;
    GX_TRY(gx_store_read_aux(store, meta, &blob, &bytes, err));
    gx_code code = parse(meta, meta->name, blob == NULL ? "" : blob, bytes, aux, err);
    if (code != GX_OK) {
        gx_mem_free(mem, blob);
        *aux = (gx_aux){.kind = GX_AUX_NONE};
        return code;
    }
    aux->blob = blob;
    aux->bytes = bytes;
    point_into_blob(aux);
    return GX_OK;
}
