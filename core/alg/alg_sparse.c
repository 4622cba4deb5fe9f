/*
** A value of compressed rows from a dense matrix, by all threads.
**
** Two passes over A.  The first counts the entries of each row in each unit, a tile or a part of
** one; the sums of the counts say how large the value is and where each unit's entries of a row
** begin.  The second writes them there: nothing grows, and nothing is moved.
**
** A is read twice.  Memory beside the result: 4 bytes for each row and column of units; of each
** thread a piece of a unit.
*/
#include "../exec/pass.h"
#include "../mat/sparse.h"
#include "alg.h"

#include <math.h>
#include <string.h>

typedef struct sifting {
    const gx_mat *A;
    double threshold;
    int64_t height, width, bands; /* of a unit; columns of units                           */
    uint32_t *place; /* of each row in each column of units: its entries, then where they begin */
    size_t element;  /* bytes of one as it is stored, in A and in the result           */
    char *index, *value; /* of the result; NULL: they are counted                          */
} sifting;

/* is[k] = 1 where element k is an entry. */
static void sift(const sifting *s, const void *x, int64_t count, uint8_t *is)
{
    const double *f64 = x;
    const float *f32 = x;
    const double threshold = s->threshold;
    gx_csr one = {.dtype = s->A->number, .value = x};
    if (gx_number_is_complex(s->A->number)) {
        for (int64_t k = 0; k < count; k++) {
            is[k] = gx_sparse_is_above(gx_csr_value(&one, k), threshold);
        }
        return;
    }
    bool is_double = gx_number_is_double(s->A->number);
    for (int64_t k = 0; k < count && is_double; k++) {
        is[k] = !(fabs(f64[k]) <= threshold); // a NaN is one
    }
    for (int64_t k = 0; k < count && !is_double; k++) {
        is[k] = !(fabs((double)f32[k]) <= threshold);
    }
}

/* Element k of x becomes element e of to. */
static inline void put_element(char *to, size_t e, const char *x, size_t k, size_t bytes)
{
    switch (bytes) {
    case 1:
        to[e] = x[k];
        break;
    case sizeof(float):
        memcpy(to + e * sizeof(float), x + k * sizeof(float), sizeof(float));
        break;
    case sizeof(double):
        memcpy(to + e * sizeof(double), x + k * sizeof(double), sizeof(double));
        break;
    default:
        memcpy(to + e * bytes, x + k * bytes, bytes);
    }
}

/* The entries of a part of column j to where their rows' next ones belong. */
static void put_column(const sifting *s, const char *x, int64_t j, int64_t count, const uint8_t *is,
                       uint32_t *place)
{
    const bool is_short = gx_csr_index_bytes(s->A->cols) == sizeof(int32_t);
    const size_t bytes = s->element;
    char *index = s->index, *value = s->value;
    for (int64_t k = 0; k < count; k++) {
        if (is[k] == 0) {
            continue;
        }
        size_t e = place[k]++;
        if (is_short) {
            ((int32_t *)(void *)index)[e] = (int32_t)j;
        } else {
            ((int64_t *)(void *)index)[e] = j;
        }
        put_element(value, e, x, (size_t)k, bytes);
    }
}

/* Columns of a unit's rows that are read together. */
static int64_t chunk_cols(const sifting *s)
{
    int64_t column = s->height * (int64_t)gx_number_bytes(s->A->number);
    return gx_max(1, gx_min(s->width, GX_PASS_CHUNK_BYTES / column));
}

/* A unit's thread works in numbers, elements as they are stored, and which are entries. */
static size_t work_bytes(const sifting *s)
{
    size_t most = (size_t)(chunk_cols(s) * s->height);
    return most * (gx_number_bytes(s->A->number) + s->element) + (size_t)s->height;
}

static gx_code sift_unit(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                         gx_err *err)
{
    enum { ROWS = 32 }; // so that what is written of each row's entries stays in the cache
    const sifting *s = arg;
    const gx_mat *A = s->A;
    gx_tile_place t = gx_tile_at(A->rows, A->cols, s->height, s->width, unit);
    uint32_t *place = s->place + t.j0 / s->width * A->rows + t.i0;
    int64_t most = chunk_cols(s), ld, stored_ld;
    char *own = (char *)work + (size_t)(most * s->height) * gx_number_bytes(A->number);
    uint8_t *is = (uint8_t *)own + (size_t)(most * s->height) * s->element;
    const bool is_number = gx_dtype_is(A->dtype, A->number);
    const void *from, *stored;
    (void)part;
    for (int64_t j0 = t.j0; j0 < t.j0 + t.n; j0 += most) {
        int64_t n = gx_min(most, t.j0 + t.n - j0);
        GX_TRY(gx_pass_take(thread, A, t.i0, j0, t.m, n, gx_dtype_of(A->number), work, &from, &ld,
                            err));
        stored = from;
        stored_ld = ld;
        if (s->value != NULL && !is_number) {
            GX_TRY(
                gx_pass_take(thread, A, t.i0, j0, t.m, n, A->dtype, own, &stored, &stored_ld, err));
        }
        for (int64_t k = 0; k < n * gx_ceil_div(t.m, ROWS); k++) {
            int64_t i = k / n * ROWS, j = k % n, m = gx_min(ROWS, t.m - i);
            uint32_t *rows = place + i;
            sift(s, gx_at(from, A->number, ld, i, j), m, is);
            for (int64_t r = 0; r < m && s->value == NULL; r++) {
                rows[r] += is[r];
            }
            if (s->value != NULL) {
                const char *x = (const char *)stored + (size_t)(i + j * stored_ld) * s->element;
                put_column(s, x, j0 + j, m, is, rows);
            }
        }
    }
    return GX_OK;
}

static gx_code sift_all(gx_run *run, sifting *s)
{
    const gx_mat *A = s->A;
    double elements = (double)A->rows * (double)A->cols;
    gx_pass pass = {.sources = &s->A,
                    .source_count = 1,
                    .units = gx_ceil_div(A->rows, s->height) * s->bands,
                    .bytes = elements * (double)gx_number_bytes(A->number),
                    .flops = 10 * elements,
                    .work_bytes = work_bytes(s),
                    .work = sift_unit,
                    .arg = s};
    return gx_pass_run(run, &pass);
}

/* Counts become places; all of the rows' entries, or what start[] holds of them. */
static int64_t add_up(const sifting *s, uint32_t *start)
{
    int64_t entries = 0, rows = s->A->rows;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t band = 0; band < s->bands; band++) {
            uint32_t *at = &s->place[band * rows + i], count = *at;
            *at = start == NULL ? count : (uint32_t)entries;
            entries += count;
        }
        if (start != NULL) {
            start[i + 1] = (uint32_t)entries;
        }
    }
    return entries;
}

/* The value's parts, with what is between them 0. */
static void lay_out(sifting *s, int64_t entries, char *block)
{
    gx_csr_layout layout = {0};
    (void)gx_csr_lay_out(s->A->rows, s->A->cols, entries, s->A->dtype, &layout);
    memset(block + layout.index - 8, 0, 8);
    if (entries > 0) {
        memset(block + layout.value - 8, 0, 8);
        memset(block + layout.bytes - 8, 0, 8);
    }
    memset(block, 0, sizeof *s->place); // the first row begins with entry 0
    s->index = block + layout.index;
    s->value = block + layout.value;
}

gx_code gx_alg_sparse(gx_run *run, const gx_mat *A, const gx_dest *dest, gx_number dtype,
                      uint32_t properties, double threshold, gx_sink *C)
{
    enum { UNIT_CELLS = 1 << 18 };
    sifting s = {.A = A, .threshold = threshold, .element = gx_dtype_bytes(A->dtype)};
    gx_err err = {0};
    bool is_like = dest == NULL ? gx_dtype_is(A->dtype, A->number)
                                : dest->name == NULL && dest->place == NULL && dest->has_dtype &&
                                      dest->dtype == A->dtype;
    if (!is_like || dtype != A->number || A->number == GX_M31 || A->rows == 0 || A->cols == 0) {
        return gx_sparse_of_dense(run, A, dest, dtype, properties, threshold, C);
    }
    GX_TRY(gx_sink_begin_sparse(run, dest, A->rows, A->cols, dtype, properties, C));
    s.height = gx_max(1, gx_min(A->rows, A->tile_rows));
    s.width = gx_max(1, gx_min(A->cols, A->tile_cols));
    if (gx_mat_base_stored(A) == NULL) {
        s.height = gx_min(s.height, UNIT_CELLS / 64);
        s.width = gx_max(1, gx_min(s.width, UNIT_CELLS / s.height));
    }
    s.bands = gx_ceil_div(A->cols, s.width);
    s.place = gx_run_calloc(run, (size_t)(s.bands * A->rows) * sizeof *s.place, "rows' entries");
    if (s.place != NULL && sift_all(run, &s) == GX_OK) {
        int64_t entries = add_up(&s, NULL);
        if (gx_sink_sparse_value(C, entries, &err) == GX_OK) {
            lay_out(&s, entries, C->value.data);
            add_up(&s, C->value.data);
            sift_all(run, &s);
        }
        gx_run_fail(run, &err);
    }
    gx_mem_free(run->ctx->mem, s.place);
    return gx_ok(run) ? GX_OK : run->err.code;
}
