/*
** Nearest neighbours among zeros and ones (is_binary): by bits that differ.
**
** A strip of E and the queries become packed bits, eight columns a byte, and GX_HAMMING counts for
** each pair in how many places they differ: a number that is exact, so it is the merit, and rows
** that may be on a list are few.  A matrix that is stored packed (core/mat/quantized.h) is not
** packed again; any other is as it is read, some columns at a time, and that is where others than
** 0 and 1 are found.
**
** The product of numbers would be the same, with 32 times the bytes.
*/
#include "knn_int.h"

#include "../base/best.h"
#include "../mat/quantized.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Rows of a block, and queries that meet it before the next: their counts stay in a cache. */
enum { BLOCK = 2048, GROUP = 16 };

/* Bytes of elements that are packed at once, or of eight columns. */
enum { PIECE = 1 << 20 };

/* Rows that are looked at together: most have none that is near enough. */
enum { STRETCH = 64 };

/* What is read of E: rows as packed bits, or as elements of `as`. */
typedef struct source {
    const gx_mat *mat;
    gx_dtype as;
    bool is_packed;
} source;

static source source_of(const gx_knn_search *s)
{
    const gx_leaf *bits = gx_mat_bits(s->args->E);
    source from = {.mat = bits != NULL ? &bits->base : s->args->E, .is_packed = bits != NULL};
    from.as = gx_mat_narrow(from.mat, from.mat->number);
    if (from.as != (from.is_packed ? GX_DTYPE_I8 : GX_DTYPE_BOOL)) {
        from.as = gx_dtype_of(from.mat->number);
    }
    return from;
}

const gx_mat *gx_knn_bits_source(const gx_knn_search *s)
{
    return source_of(s).mat;
}

static int64_t bytes_of_row(const gx_knn_search *s)
{
    return gx_ceil_div(s->args->E->cols, 8);
}

/* Columns of m rows that are read at once, those of some bytes; the memory for as many rows or
   fewer. */
static int64_t step_of(const source *from, int64_t m)
{
    int64_t cols = PIECE / (int64_t)gx_dtype_bytes(from->as) / gx_max(1, m);
    return gx_max(8, cols / 8 * 8);
}

static size_t elements_bytes(const source *from, int64_t m)
{
    return gx_whole_lines((size_t)gx_max(PIECE, 8 * m * (int64_t)gx_dtype_bytes(from->as)));
}

/* Of a thread, behind the floors. */
typedef struct room {
    uint8_t *bytes;   /* m x bytes_of_row(): the strip                       */
    uint8_t *refused; /* m: rows with others than 0 and 1                    */
    int32_t *counts;  /* BLOCK x GROUP                                       */
    char *elements;   /* what becomes bytes                                  */
} room;

static size_t lay_out(const gx_knn_search *s, int64_t m, char *at, room *r)
{
    source from = source_of(s);
    size_t strip = gx_whole_lines((size_t)(m * bytes_of_row(s))), rows = gx_whole_lines((size_t)m);
    size_t counts = BLOCK * GROUP * sizeof(int32_t);
    if (r != NULL) {
        *r = (room){.bytes = (uint8_t *)at,
                    .refused = (uint8_t *)at + strip,
                    .counts = (int32_t *)(void *)(at + strip + rows),
                    .elements = at + strip + rows + counts};
    }
    return strip + rows + counts + elements_bytes(&from, m);
}

size_t gx_knn_bits_bytes(const gx_knn_search *s, int64_t m)
{
    return lay_out(s, m, NULL, NULL);
}

// Bits --------------------------------------------------------------------------------------------

/* Bit `at` of m bytes from numbers: `refused` where one is neither 0 nor 1. */
#define DEFINE_PACK(real)                                                                          \
    static void pack_##real(const real *x, int64_t m, int at, uint8_t *to, uint8_t *refused)       \
    {                                                                                              \
        for (int64_t i = 0; i < m; i++) {                                                          \
            uint8_t bit = x[i] != 0;                                                               \
            to[i] = (uint8_t)(to[i] | bit << at);                                                  \
            refused[i] = (uint8_t)(refused[i] | (bit & (x[i] != 1)));                              \
        }                                                                                          \
    }
DEFINE_PACK(uint8_t)
DEFINE_PACK(float)
DEFINE_PACK(double)

/* The same of eight columns that are stored as truth: no others than 0 and 1 are among them. */
static void pack_bytes(const uint8_t *restrict x, int64_t m, uint8_t *restrict to)
{
    for (int64_t i = 0; i < m; i++) {
        const uint8_t *at = x + i;
        to[i] = (uint8_t)((at[0] != 0) | (at[m] != 0) << 1 | (at[2 * m] != 0) << 2 |
                          (at[3 * m] != 0) << 3 | (at[4 * m] != 0) << 4 | (at[5 * m] != 0) << 5 |
                          (at[6 * m] != 0) << 6 | (at[7 * m] != 0) << 7);
    }
}

/* Columns of elements, m rows each, from a byte's first on. */
static void pack_columns(gx_dtype as, const void *x, int64_t m, int64_t cols, const room *r,
                         uint8_t *to)
{
    for (int64_t j = 0; j < cols; j++) {
        const void *column = gx_dtype_at(x, as, m, 0, j);
        uint8_t *byte = to + j / 8 * m;
        if (as == GX_DTYPE_BOOL && j % 8 == 0 && j + 8 <= cols) {
            pack_bytes(column, m, byte);
            j += 7;
            continue;
        }
        if (j % 8 == 0) {
            memset(byte, 0, (size_t)m);
        }
        if (as == GX_DTYPE_BOOL) {
            pack_uint8_t(column, m, (int)(j % 8), byte, r->refused);
        } else if (gx_dtype_is(as, GX_F32)) {
            pack_float(column, m, (int)(j % 8), byte, r->refused);
        } else {
            pack_double(column, m, (int)(j % 8), byte, r->refused);
        }
    }
}

/* Bytes that came as numbers, signed ones. */
static void bytes_of_numbers(const float *x, int64_t count, uint8_t *to)
{
    for (int64_t e = 0; e < count; e++) {
        to[e] = (uint8_t)(int8_t)x[e];
    }
}

/* The strip as bytes: *at, of *ld rows, in r or where it lies. */
static gx_code read_bits(gx_knn_search *s, gx_knn_strip strip, gx_pass_thread *thread,
                         const room *r, const uint8_t **at, int64_t *ld, gx_err *err)
{
    const source from = source_of(s);
    const void *lent;
    int64_t m = strip.m, cols = from.mat->cols, step = step_of(&from, m);
    if (from.is_packed && gx_mat_lend(from.mat, strip.i0, 0, m, cols, GX_DTYPE_I8, &lent, ld)) {
        *at = lent;
        return GX_OK;
    }
    *at = r->bytes;
    *ld = m;
    memset(r->refused, 0, (size_t)m);
    for (int64_t j = 0; j < cols && gx_ok(s->run); j += step) {
        int64_t w = gx_min(step, cols - j);
        bool is_there = from.is_packed && from.as == GX_DTYPE_I8;
        void *to = is_there ? (void *)(r->bytes + j * m) : r->elements;
        assert(is_there ||
               (size_t)(m * w) * gx_dtype_bytes(from.as) <= elements_bytes(&from, s->plan.strip));
        GX_TRY(gx_pass_read_as(thread, from.mat, strip.i0, j, m, w, from.as, to, m, err));
        if (!from.is_packed) {
            pack_columns(from.as, to, m, w, r, r->bytes + j / 8 * m);
        } else if (!is_there) {
            bytes_of_numbers(to, m * w, r->bytes + j * m);
        }
    }
    for (int64_t i = 0; i < m && !from.is_packed; i++) {
        if (r->refused[i] != 0 && gx_knn_has_listed(s, (gx_knn_strip){strip.i0 + i, 1})) {
            gx_knn_mark(s, strip.i0 + i);
            break;
        }
    }
    return GX_OK;
}

bool gx_knn_pack_queries(gx_knn_search *s)
{
    int64_t d = s->args->E->cols, wide = bytes_of_row(s), n = s->batch.n;
    uint8_t *packed = gx_run_calloc(s->run, (size_t)gx_max(1, n * wide), "queries");
    for (int64_t e = 0; e < n * d && packed != NULL; e++) {
        int64_t j = e / d, l = e % d;
        packed[j * wide + l / 8] |= (uint8_t)((s->batch.query[e] != 0) << l % 8);
    }
    s->packed = packed;
    return packed != NULL;
}

// Lists -------------------------------------------------------------------------------------------

/* The list of a query of the batch, which is a heap, and rows that may enter it. */
typedef struct list {
    double *merit;
    int64_t *index;
    int64_t count, query;
} list;

/* The most places of a row that may be on the list. */
static int32_t limit_of(const list *l, double floor)
{
    double least = fmax(l->merit[0], floor);
    return least == -(double)INFINITY ? INT32_MAX : (int32_t)-least;
}

static bool is_looked_for(const gx_knn_search *s, const list *l, int64_t row)
{
    const gx_knn_args *args = s->args;
    const uint64_t *bits =
        s->listed == NULL ? NULL : s->listed + l->query * s->listed_words + row / 64;
    return !(args->excludes_self && row == s->batch.first + l->query) &&
           (bits == NULL || (*bits >> row % 64 & 1) != 0);
}

/* Rows row0 .. row0 + m - 1 and their counts. */
static void enter(const gx_knn_search *s, const list *l, double floor, int64_t row0, int64_t m,
                  const int32_t *counts)
{
    int32_t limit = limit_of(l, floor);
    for (int64_t i0 = 0; i0 < m; i0 += STRETCH) {
        int64_t end = gx_min(m, i0 + STRETCH);
        int32_t least = INT32_MAX;
        for (int64_t i = i0; i < end; i++) {
            least = counts[i] < least ? counts[i] : least;
        }
        for (int64_t i = i0; i < end && least <= limit; i++) {
            double merit = -(double)counts[i];
            if (counts[i] <= limit && is_looked_for(s, l, row0 + i) &&
                gx_best_is_worse(l->merit[0], l->index[0], merit, row0 + i)) {
                gx_best_sift(l->merit, l->index, l->count, merit, row0 + i);
                limit = limit_of(l, floor);
            }
        }
    }
}

/* A block of rows and some queries. */
static gx_code count_block(const gx_knn_search *s, const uint8_t *a, int64_t lda, int64_t m,
                           int64_t j0, int64_t n, int32_t *counts, gx_err *err)
{
    int64_t wide = bytes_of_row(s);
    gx_args args = {.m = m, .n = n, .k = wide, .a = a, .lda = lda, .ldb = wide, .ldc = m};
    args.b = s->packed + j0 * wide;
    args.c = counts;
    memset(counts, 0, (size_t)(m * n) * sizeof *counts);
    return s->backend->kernel[GX_HAMMING][GX_F32](s->dev, NULL, &args, err);
}

gx_code gx_knn_look_at_bits(gx_knn_search *s, gx_knn_strip strip, gx_pass_thread *thread,
                            const double *floor, char *work, double *part, gx_err *err)
{
    int64_t n = s->batch.n, most = gx_min(s->out->count, strip.m), ld;
    int64_t *index = (int64_t *)(part + n * most);
    const uint8_t *bytes;
    room r;
    lay_out(s, s->plan.strip, work, &r);
    GX_TRY(read_bits(s, strip, thread, &r, &bytes, &ld, err));
    gx_best_begin(part, index, n * most, false);
    for (int64_t i = 0; i < strip.m && gx_ok(s->run) && !gx_knn_is_marked(s); i += BLOCK) {
        int64_t m = gx_min(BLOCK, strip.m - i);
        for (int64_t j = 0; j < n && gx_ok(s->run); j += GROUP) {
            int64_t some = gx_min(GROUP, n - j);
            GX_TRY(count_block(s, bytes + i, ld, m, j, some, r.counts, err));
            for (int64_t q = j; q < j + some; q++) {
                const list l = {part + q * most, index + q * most, most, q};
                enter(s, &l, floor[q], strip.i0 + i, m, r.counts + (q - j) * m);
            }
        }
    }
    for (int64_t q = 0; q < n; q++) {
        gx_best_sort(part + q * most, index + q * most, most);
    }
    return GX_OK;
}
