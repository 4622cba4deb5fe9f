/*
** Quantised matrices as they are stored and read: see quantized.h.
*/
#include "quantized.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { AT_VERSION = 4, AT_ID = 8, AT_GENERATION = 16, HEADER = 64, VERSION = 1 };

static const char MAGIC[4] = {'g', 'x', 'q', 'z'};

/* Elements that are made of codes at once. */
enum { PIECE = 1 << 18 };

const gx_leaf *gx_mat_codes(const gx_mat *mat)
{
    bool is_one = mat->kind == GX_MAT_COMPOSITE && mat->leaves == 1 &&
                  mat->leaf->kind == GX_LEAF_CODES && mat->leaf->base.meta.id == mat->meta.id;
    return is_one ? mat->leaf : NULL;
}

// Whose rows they are -----------------------------------------------------------------------------

gx_code gx_quantized_read_of(gx_store *store, gx_mem *mem, const gx_meta *meta, gx_quantized_of *of,
                             gx_err *err)
{
    void *blob;
    size_t bytes;
    GX_TRY(gx_store_read_aux(store, meta, &blob, &bytes, err));
    const char *at = blob;
    gx_code code = GX_OK;
    if (bytes != HEADER || memcmp(at, MAGIC, sizeof MAGIC) != 0) {
        code = gx_fail(err, GX_CORRUPT,
                       "auxiliary data of %s: %zu bytes that are not those of a quantised matrix",
                       meta->name, bytes);
    } else if (at[AT_VERSION] != VERSION) {
        code = gx_fail(err, GX_UNSUPPORTED,
                       "auxiliary data of %s: version %d, this gx knows version %d", meta->name,
                       at[AT_VERSION], VERSION);
    } else {
        memcpy(&of->id, at + AT_ID, sizeof of->id);
        memcpy(&of->generation, at + AT_GENERATION, sizeof of->generation);
    }
    gx_mem_free(mem, blob);
    return code;
}

gx_code gx_quantized_write_of(gx_store *store, const gx_meta *meta, const gx_quantized_of *of,
                              gx_err *err)
{
    char blob[HEADER] = {0};
    memcpy(blob, MAGIC, sizeof MAGIC);
    blob[AT_VERSION] = VERSION;
    memcpy(blob + AT_ID, &of->id, sizeof of->id);
    memcpy(blob + AT_GENERATION, &of->generation, sizeof of->generation);
    return gx_store_write_aux(store, meta, blob, sizeof blob, err);
}

// Rows --------------------------------------------------------------------------------------------

gx_code gx_row_facts_of(const gx_leaf *codes, int64_t i0, int64_t m, const uint8_t *bytes,
                        const gx_row_facts *facts, gx_err *err)
{
    static const char *const words[] = {"scale", "residual", "norm"};
    float *const to[] = {facts->scale, facts->residual, facts->norm};
    for (int f = 0; f < 3; f++, bytes += 4 * m) {
        int odd = 0;
        for (int64_t i = 0; i < m; i++) {
            uint32_t bits = bytes[i] | (uint32_t)bytes[m + i] << 8 |
                            (uint32_t)bytes[2 * m + i] << 16 | (uint32_t)bytes[3 * m + i] << 24;
            float x;
            memcpy(&x, &bits, sizeof x);
            odd |= !(x >= 0 && x <= GX_ROW_FACT_MOST);
            to[f][i] = x;
        }
        for (int64_t i = 0; i < m && odd != 0; i++) {
            if (!(to[f][i] >= 0 && to[f][i] <= GX_ROW_FACT_MOST)) {
                return gx_fail(err, GX_CORRUPT, "the %s of row %" PRId64 " of %s is %g", words[f],
                               i0 + i, codes->base.label, (double)to[f][i]);
            }
        }
    }
    return GX_OK;
}

void gx_codes_unpack(int bits, int within, const uint8_t *bytes, int64_t m, int8_t *codes)
{
    if (bits == 8) {
        memcpy(codes, bytes, (size_t)m);
    } else if (bits == 4) {
        for (int64_t i = 0; i < m; i++) {
            codes[i] = (int8_t)((bytes[i] >> 4 * within & 15) - 8);
        }
    } else {
        uint8_t bit = (uint8_t)(1 << within);
        for (int64_t i = 0; i < m; i++) {
            codes[i] = (bytes[i] & bit) == 0 ? -1 : 1;
        }
    }
}

// Elements ----------------------------------------------------------------------------------------

/* What is read, and where it goes. */
typedef struct reading {
    const gx_leaf *codes;
    gx_number dtype;
    void *dst;
    int64_t ld;
} reading;

/* Column j of m rows from their bytes: where it lies within a byte. */
static void put_column(const reading *r, int64_t j, int within, const uint8_t *bytes, int64_t m,
                       const float *scale)
{
    int8_t codes[256];
    for (int64_t i = 0; i < m; i++) {
        int64_t at = i % (int64_t)sizeof codes;
        if (at == 0) {
            int64_t count = gx_min((int64_t)sizeof codes, m - i);
            gx_codes_unpack(gx_codes_bits(r->codes), within, bytes + i, count, codes);
        }
        float x = (float)codes[at] * scale[i];
        if (r->dtype == GX_F32) {
            ((float *)r->dst)[j * r->ld + i] = x;
        } else {
            gx_number_put(r->dtype, gx_at(r->dst, r->dtype, r->ld, i, j), 0, (gx_scalar){x, 0});
        }
    }
}

/* m rows, whose facts are read with them; room for a piece of bytes, and for the facts. */
static gx_code read_rows(gx_run *run, const reading *r, gx_reader *reader, int64_t i0, int64_t j0,
                         int64_t m, int64_t n, uint8_t *bytes, const gx_row_facts *facts,
                         gx_err *err)
{
    const gx_leaf *codes = r->codes;
    int per = 8 / gx_codes_bits(codes);
    int64_t end = (j0 + n - 1) / per + 1, step = gx_max(1, PIECE / m);
    GX_TRY(gx_mat_read_as(run, &codes->base, reader, i0, 0, m, GX_ROW_FACTS, GX_DTYPE_I8, bytes, m,
                          err));
    GX_TRY(gx_row_facts_of(codes, i0, m, bytes, facts, err));
    for (int64_t b0 = j0 / per; b0 < end; b0 += step) {
        int64_t w = gx_min(step, end - b0);
        GX_TRY(gx_mat_read_as(run, &codes->base, reader, i0, GX_ROW_FACTS + b0, m, w, GX_DTYPE_I8,
                              bytes, m, err));
        for (int64_t j = gx_max(j0, b0 * per); j < gx_min(j0 + n, (b0 + w) * per); j++) {
            put_column(r, j - j0, (int)(j % per), bytes + (j / per - b0) * m, m, facts->scale);
        }
    }
    return GX_OK;
}

gx_code gx_codes_read(gx_run *run, const gx_leaf *codes, gx_reader *reader, int64_t i0, int64_t j0,
                      int64_t m, int64_t n, gx_number dtype, void *dst, int64_t ld, gx_err *err)
{
    const int64_t HIGHEST = PIECE / GX_ROW_FACTS;
    int64_t high = gx_min(m, HIGHEST);
    float *facts;
    GX_TRY(gx_mem_alloc(NULL, (size_t)high * 3 * sizeof *facts + PIECE, "codes", &facts, err));
    const gx_row_facts of = {facts, facts + high, facts + 2 * high};
    gx_code code = GX_OK;
    for (int64_t i = 0; i < m && code == GX_OK; i += high) {
        const reading r = {codes, dtype, gx_at(dst, dtype, ld, i, 0), ld};
        code = read_rows(run, &r, reader, i0 + i, j0, gx_min(high, m - i), n,
                         (uint8_t *)(facts + 3 * high), &of, err);
    }
    gx_mem_free(NULL, facts);
    return code;
}
