/*
** Neighbours of the CPU backend: GX_MERIT, GX_NEAREST.
**
** Merits of all pairs cost a product in double; most pairs are not near and need none.  So
** GX_NEAREST foretells merits in the block's own precision, by one product of the block with the
** queries (or takes what is given), and computes those alone that may be among the best, by the
** bounds of foretell.h: the rows wanted by any query are copied out of their columns, as doubles,
** one by one, while the block is in the cache, and their merits go into the lists.
**
** A block goes in panels of rows and of queries, so that what is foretold stays in the second
** cache.  Of n random rows a query wants about count * log(n / count).  Where numbers are so large
** or small that products might overflow or vanish every row is computed.
**
** Where the processor is fit for that, panels of f32 rows are packed, and what is foretold is
** looked at in registers (cpu_packed.c): only groups of rows in which a query may want one come to
** memory.
**
** Memory: `work`; see layout().
*/
#include "cpu.h"
#include "cpu_amx.h"
#include "cpu_merit.h"
#include "cpu_packed.h"
#include "foretell.h"

#include "../core/base/best.h"

#include <float.h>
#include <string.h>

/* A panel, at most; pairs that wait to be computed. */
enum { ROWS = GX_PACKED_MOST, QUERIES = 85 * GX_PACKED_QUERIES, PAIRS = 1 << 14 };

/* Rows that are looked at one by one if one of them is wanted: a bit of a query's mark. */
enum { GROUP = GX_PACKED_GROUP };

/* A row that is wanted for the query at hand. */
typedef struct found {
    double value;
    int64_t row;
} found;

/* A pair to be computed, in the list of its row. */
typedef struct pair {
    int64_t column;
    int32_t next;
} pair;

typedef struct hunt {
    const gx_args *p;
    const gx_nearest *w;
    double unit;     /* the error of v: so many times what it is made of                */
    bool is_packed;  /* panels are                                                      */
    int64_t i0, j0;  /* of the panel                                                    */
    int64_t rows;    /* of the panel                                                    */
    double *square;  /* of the panel's rows, shifted; then:                             */
    void *factor;    /* of dtype: 1 / |x| for COSINE, x . x for SQUARED                 */
    void *copy;      /* of dtype: the panel, packed; or SQUARED: without the shift      */
    void *value;     /* of dtype: rows (packed: whole groups) x queries                 */
    uint16_t *mark;  /* queries: bit g: group g of the values is to be looked at        */
    float *least;    /* queries: what is wanted of packed rows                          */
    double longest;  /* |x| of the panel's rows                                         */
    bool is_extreme; /* nothing can be foretold                                         */
    found *found;    /* ROWS                                                            */
    pair *pair;      /* PAIRS                                                           */
    int32_t pairs;
    int32_t head[ROWS]; /* of each row's list of pairs; -1: none                           */
    double *numbers;    /* k: a row                                                        */
} hunt;

// Merits ------------------------------------------------------------------------------------------

/* own: x . x, for COSINE. */
GX_INLINE double merit_of(const gx_nearest *w, const double *x, double own, int64_t k, int64_t j)
{
    return gx_merit_of(w->metric, x, own, w->query + j * k, w->square[j], k);
}

GX_INLINE double own_of(const gx_nearest *w, const double *x, int64_t k)
{
    return w->metric == GX_METRIC_COSINE ? gx_merit_lanes(GX_METRIC_DOT, x, x, k) : 0;
}

GX_INLINE void copy_row(gx_number dtype, const gx_args *p, int64_t i, double *x)
{
    if (p->nearest->given != NULL && !gx_dtype_is_number(p->from)) {
        gx_dtype_row(p->from, gx_dtype_at(p->a, p->from, p->lda, i, 0), p->lda, p->k, x);
        return;
    }
    for (int64_t l = 0; l < p->k; l++) {
        x[l] = get(gx_number_is_double(dtype), p->a, l * p->lda + i);
    }
}

GX_LOOP(merit)
{
    const gx_nearest *w = p->nearest;
    int64_t last = -1;
    double own = 0, *x = p->work;
    for (int64_t e = 0; e < w->count; e++) {
        if (w->row[e] != last) {
            last = w->row[e];
            copy_row(dtype, p, last, x);
            own = own_of(w, x, p->k);
        }
        w->merit[e] = merit_of(w, x, own, p->k, w->column[e]);
    }
    return GX_OK;
}
GX_SIMD_REAL_SLOTS_DEFINE(gx_cpu_merit, merit)

// Memory ------------------------------------------------------------------------------------------

/* A matrix unit is faster than packed rows are, and these than a BLAS. */
static bool wants_packed(gx_number dtype, const gx_args *p)
{
    const gx_nearest *w = p->nearest;
    return dtype == GX_F32 && w->given == NULL && w->metric != GX_METRIC_ABSOLUTE &&
           gx_cpu_packed_takes(p->k) && gx_cpu_amx_way() == GX_AMX_NONE;
}

/* Panels: as high as the block and as wide as the queries, at most; packed or not. */
static size_t layout(gx_number dtype, const gx_args *p, char *work, hunt **out)
{
    const gx_nearest *w = p->nearest;
    size_t es = gx_number_bytes(dtype), rows = (size_t)gx_min(ROWS, p->m), k = (size_t)p->k;
    size_t whole = (rows + GROUP - 1) / GROUP * GROUP, n = (size_t)gx_min(QUERIES, p->n);
    bool has_copy = wants_packed(dtype, p) || w->shift != NULL;
    hunt nowhere, *h = &nowhere;
    size_t used = gx_take(work, 0, sizeof *h, &h);
    used = gx_take(work, used, rows * sizeof(double), &h->square);
    used = gx_take(work, used, whole * es, &h->factor);
    used = gx_take(work, used, has_copy ? whole * k * es : 0, &h->copy);
    used = gx_take(work, used, w->given == NULL ? whole * n * es : 0, &h->value);
    used = gx_take(work, used, n * sizeof *h->mark, &h->mark);
    used = gx_take(work, used, n * sizeof *h->least, &h->least);
    used = gx_take(work, used, rows * sizeof(found), &h->found);
    used = gx_take(work, used, PAIRS * sizeof(pair), &h->pair);
    used = gx_take(work, used, k * sizeof(double), &h->numbers);
    *out = h;
    return used;
}

size_t gx_cpu_nearest_bytes(gx_number dtype, const gx_args *args)
{
    hunt *unused;
    return layout(dtype, args, NULL, &unused);
}

// Rows --------------------------------------------------------------------------------------------

/* A row whose squares vanish may be small numbers. */
static bool is_zeros(const double *x, int64_t k)
{
    bool all = true;
    for (int64_t l = 0; l < k; l++) {
        all = all && x[l] == 0;
    }
    return all;
}

GX_INLINE bool is_finite(const double *x, int64_t k)
{
    double sum = 0;
    for (int64_t l = 0; l < k; l++) {
        sum += x[l] * 0; // NaN where a number is none
    }
    return sum == 0;
}

/* The sums of squares of the panel's rows; SQUARED: of the rows without the shift, and these. */
GX_INLINE void square_rows(gx_number dtype, hunt *h)
{
    const gx_args *p = h->p;
    bool d = gx_number_is_double(dtype);
    if (h->is_packed) {
        gx_cpu_pack(gx_at(p->a, dtype, p->lda, h->i0, 0), p->lda, h->rows, p->k, h->w->shift,
                    h->copy, h->square);
        return;
    }
    memset(h->square, 0, (size_t)h->rows * sizeof(double));
    if (h->w->given != NULL) {
        const void *given = gx_at(h->w->given, dtype, p->m, h->i0, p->n);
        for (int64_t i = 0; i < h->rows; i++) {
            h->square[i] = get(d, given, i);
        }
        return;
    }
    for (int64_t l = 0; l < p->k; l++) {
        const void *column = gx_at(p->a, dtype, p->lda, h->i0, l);
        if (h->w->shift != NULL) {
            void *to = gx_at(h->copy, dtype, h->rows, 0, l);
            double shift = get(d, h->w->shift, l);
            for (int64_t i = 0; i < h->rows; i++) {
                double x = get(d, column, i) - shift;
                put(d, to, i, x);
                h->square[i] += x * x;
            }
        } else {
            for (int64_t i = 0; i < h->rows; i++) {
                double x = get(d, column, i);
                h->square[i] += x * x;
            }
        }
    }
}

/* Whether the rows can be foretold, and with what factors.  false: a row has a NaN or an Inf. */
GX_INLINE bool look_at_rows(gx_number dtype, hunt *h)
{
    double longest = 0;
    bool is_cosine = h->w->metric == GX_METRIC_COSINE;
    h->is_extreme = false;
    for (int64_t i = 0; i < h->rows; i++) {
        double x = h->square[i];
        if (x == 0) {
            copy_row(dtype, h->p, h->i0 + i, h->numbers);
            h->is_extreme = h->is_extreme || !is_zeros(h->numbers, h->p->k);
            put(gx_number_is_double(dtype), h->factor, i, 0);
            continue;
        }
        if (gx_is_extreme_square(gx_number_is_double(dtype), x)) {
            if (!gx_is_listed_at_all(h->w, h->i0 + i, h->p->n)) {
                put(gx_number_is_double(dtype), h->factor, i, 0);
                continue;
            }
            copy_row(dtype, h->p, h->i0 + i, h->numbers);
            if (!is_finite(h->numbers, h->p->k)) {
                *h->p->info = h->i0 + i + 1;
                return false;
            }
            h->is_extreme = true;
        }
        longest = x > longest ? x : longest;
        put(gx_number_is_double(dtype), h->factor, i, is_cosine ? 1 / sqrt(x) : x);
    }
    for (int64_t i = h->rows; i % GROUP != 0 && h->is_packed; i++) {
        put(gx_number_is_double(dtype), h->factor, i, 0);
    }
    h->longest = sqrt(longest) * (1 + h->unit);
    return true;
}

// Lists -------------------------------------------------------------------------------------------

GX_INLINE void add_to_list(const gx_nearest *w, int64_t j, double merit, int64_t index)
{
    double *best = w->merit + j * w->count;
    int64_t *number = w->index + j * w->count;
    if (gx_best_is_worse(best[0], number[0], merit, index)) {
        gx_best_sift(best, number, w->count, merit, index);
    }
}

/* The pairs that wait: row by row.  false: a row has a NaN or an Inf. */
GX_INLINE bool compute(gx_number dtype, hunt *h)
{
    const gx_nearest *w = h->w;
    int64_t k = h->p->k;
    for (int64_t i = 0; i < h->rows && h->pairs > 0; i++) {
        if (h->head[i] < 0) {
            continue;
        }
        copy_row(dtype, h->p, h->i0 + i, h->numbers);
        if (!is_finite(h->numbers, k)) {
            *h->p->info = h->i0 + i + 1;
            return false;
        }
        double own = own_of(w, h->numbers, k);
        for (int32_t e = h->head[i]; e >= 0; e = h->pair[e].next) {
            int64_t j = h->pair[e].column, index = w->first_index + h->i0 + i;
            if (w->self == GX_NO_SELF || index != w->self + j) {
                add_to_list(w, j, merit_of(w, h->numbers, own, k, j), index);
            }
        }
        h->head[i] = -1;
    }
    h->pairs = 0;
    return true;
}

/* The count-th best of the first n that were found, which change places. */
GX_INLINE double nth_best(found *f, int64_t n, int64_t count)
{
    int64_t low = 0, high = n - 1, at = count - 1;
    while (low < high) {
        double pivot = f[low + (high - low) / 2].value;
        int64_t i = low, j = high;
        while (i <= j) {
            while (f[i].value > pivot) {
                i++;
            }
            while (f[j].value < pivot) {
                j--;
            }
            if (i <= j) {
                found x = f[i];
                f[i++] = f[j];
                f[j--] = x;
            }
        }
        if (at <= j) {
            high = j;
        } else if (at >= i) {
            low = i;
        } else {
            break;
        }
    }
    return f[at].value;
}

/* Of the n found, those that can be among the count best of them; gives their number. */
GX_INLINE int64_t thin_out(found *f, int64_t n, int64_t count, const gx_errors *e, double *least)
{
    if (n <= count) {
        return n;
    }
    double other = nth_best(f, n, count);
    if (!isfinite(other)) { // rows that are no numbers here are wanted, and tell nothing of others
        return n;
    }
    other = gx_lowered(gx_lowered(other, e), e);
    *least = other > *least ? other : *least;
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        if (f[i].value >= *least) {
            f[kept++] = f[i];
        }
    }
    return kept;
}

// One query ---------------------------------------------------------------------------------------

#define DEFINE_SCAN(name, real)                                                                    \
    /* Of groups with a mark: rows of at least `least`; those that are no numbers too. */          \
    GX_INLINE int64_t scan_##name(gx_sight how, const hunt *h, int64_t j, const real *x,           \
                                  const real *factor, unsigned mark, int64_t count,                \
                                  const gx_errors *e, double least, found *f)                      \
    {                                                                                              \
        int64_t n = 0, full = 2 * count + GROUP, rows = h->rows;                                   \
        for (int64_t i0 = 0; i0 < rows; i0 += GROUP) {                                             \
            if ((mark >> i0 / GROUP & 1) == 0) {                                                   \
                continue;                                                                          \
            }                                                                                      \
            int64_t end = gx_min(i0 + GROUP, rows);                                                \
            real bound = (real)least; /* errors are generous: it may be rounded */                 \
            int any = 0;                                                                           \
            for (int64_t i = i0; i < end; i++) {                                                   \
                real v = (real)gx_seen_##name(how, x[i], factor[i]);                               \
                any |= !(v < bound) | (v < -(real)(FLT_MAX));                                      \
            }                                                                                      \
            for (int64_t i = i0; any && i < end; i++) {                                            \
                real v = (real)gx_seen_##name(how, x[i], factor[i]);                               \
                if ((!(v < bound) || v < -(real)(FLT_MAX)) && gx_is_listed(h->w, h->i0 + i, j)) {  \
                    bool is_number = v > -(real)INFINITY && v < (real)INFINITY;                    \
                    f[n++] = (found){is_number ? (double)v : (double)INFINITY, i};                 \
                }                                                                                  \
            }                                                                                      \
            if (n >= full) {                                                                       \
                n = thin_out(f, n, count, e, &least);                                              \
                full = 2 * n + GROUP;                                                              \
            }                                                                                      \
        }                                                                                          \
        return thin_out(f, n, count, e, &least);                                                   \
    }                                                                                              \
    GX_INLINE int64_t look_##name(gx_sight how, const hunt *h, int64_t j, const void *x,           \
                                  unsigned mark, int64_t count, const gx_errors *e, double least,  \
                                  found *f)                                                        \
    {                                                                                              \
        const real *factor = h->factor;                                                            \
        switch (how) {                                                                             \
        case GX_SEEN_TIMES_FACTOR:                                                                 \
            return scan_##name(GX_SEEN_TIMES_FACTOR, h, j, x, factor, mark, count, e, least, f);   \
        case GX_SEEN_LESS_FACTOR:                                                                  \
            return scan_##name(GX_SEEN_LESS_FACTOR, h, j, x, factor, mark, count, e, least, f);    \
        case GX_SEEN_NEGATIVE:                                                                     \
            return scan_##name(GX_SEEN_NEGATIVE, h, j, x, factor, mark, count, e, least, f);       \
        default:                                                                                   \
            return scan_##name(GX_SEEN_AS_IT_IS, h, j, x, factor, mark, count, e, least, f);       \
        }                                                                                          \
    }

DEFINE_SCAN(f64, double)
DEFINE_SCAN(f32, float)

/* Is nothing foretold of the query j? */
GX_INLINE bool is_blind(gx_number dtype, const hunt *h, int64_t j)
{
    return h->is_extreme || gx_is_extreme_length(gx_number_is_double(dtype), h->w->length[j]);
}

/* What query j wants of the panel's values. */
GX_INLINE double least_of(const hunt *h, int64_t j, gx_sight *how, gx_errors *e)
{
    const gx_nearest *w = h->w;
    double worst = w->merit[j * w->count];
    double bound = w->floor != NULL && w->floor[j] > worst ? w->floor[j] : worst;
    gx_prospect p = {.metric = w->metric,
                     .has_gaps = w->given != NULL,
                     .k = (double)h->p->k,
                     .unit = h->unit,
                     .length = w->length[j],
                     .longest = h->longest};
    return gx_foretell(&p, bound, how, e);
}

/* The rows of the panel that query j wants, by values of groups with a mark. */
GX_INLINE bool hunt_query(gx_number dtype, hunt *h, int64_t j, const void *value, unsigned mark)
{
    const gx_nearest *w = h->w;
    int64_t count = w->count + (w->self != GX_NO_SELF), n = 0;
    if (is_blind(dtype, h, j)) {
        for (int64_t i = 0; i < h->rows; i++) {
            if (gx_is_listed(w, h->i0 + i, j)) {
                h->found[n++].row = i;
            }
        }
    } else if (mark != 0) {
        gx_sight how;
        gx_errors e;
        double least = least_of(h, j, &how, &e);
        n = dtype == GX_F64 ? look_f64(how, h, j, value, mark, count, &e, least, h->found)
                            : look_f32(how, h, j, value, mark, count, &e, least, h->found);
    }
    if (h->pairs + n > PAIRS && !compute(dtype, h)) {
        return false;
    }
    for (int64_t f = 0; f < n; f++) {
        int64_t i = h->found[f].row;
        h->pair[h->pairs] = (pair){j, h->head[i]};
        h->head[i] = h->pairs++;
    }
    return true;
}

// The block ---------------------------------------------------------------------------------------

/* Values of packed rows and n queries from j0 on, as far as they are wanted. */
GX_INLINE void look_at_packed(hunt *h, int64_t n)
{
    const gx_args *p = h->p;
    gx_packed q = {.rows = h->rows, .k = p->k, .n = n, .x = h->copy, .ldb = p->ldb};
    q.b = gx_at(p->b, GX_F32, p->ldb, 0, h->j0);
    q.alpha = h->w->metric == GX_METRIC_SQUARED ? 2 : 1;
    q.factor = h->factor;
    q.least = h->least;
    q.value = h->value;
    q.mark = h->mark;
    for (int64_t j = 0; j < n; j++) {
        gx_errors e;
        h->least[j] = is_blind(GX_F32, h, h->j0 + j) // wants none of its values
                          ? INFINITY
                          : (float)least_of(h, h->j0 + j, &q.how, &e);
    }
    gx_cpu_packed_look(&q);
}

/* All values of the panel and n queries from j0 on. */
GX_INLINE gx_code fill_values(gx_number dtype, hunt *h, int64_t n, gx_err *err)
{
    const gx_args *p = h->p;
    bool is_shifted = h->w->shift != NULL, is_apart = h->w->metric == GX_METRIC_ABSOLUTE;
    gx_args q = {.m = h->rows, .n = n, .k = p->k, .alpha = {1, 0}, .ldb = p->ldb};
    q.alpha.re = h->w->metric == GX_METRIC_SQUARED ? 2 : 1;
    q.a = is_shifted ? h->copy : gx_at(p->a, dtype, p->lda, h->i0, 0);
    q.lda = is_shifted ? h->rows : p->lda;
    q.b = gx_at(p->b, dtype, p->ldb, 0, h->j0);
    q.c = h->value;
    q.ldc = h->rows;
    q.nearest = h->w;
    if (is_apart) {
        memset(h->value, 0, (size_t)(h->rows * n) * gx_number_bytes(dtype));
        return dtype == GX_F64 ? gx_cpu_apart_f64(NULL, NULL, &q, err)
                               : gx_cpu_apart_f32(NULL, NULL, &q, err);
    }
    return dtype == GX_F64 ? gx_cpu_gemm_f64(NULL, NULL, &q, err)
                           : gx_cpu_gemm_f32(NULL, NULL, &q, err);
}

/* The panel's rows for all queries.  false: it has failed, or a row has a NaN or an Inf. */
GX_INLINE bool hunt_panel(gx_number dtype, hunt *h, gx_err *err)
{
    const gx_args *p = h->p;
    const gx_nearest *w = h->w;
    bool is_apart =
        w->metric == GX_METRIC_ABSOLUTE || (w->metric == GX_METRIC_SQUARED && w->given != NULL);
    if (!is_apart) {
        square_rows(dtype, h);
        if (!look_at_rows(dtype, h)) {
            return false;
        }
    }
    memset(h->head, -1, sizeof h->head);
    int64_t ld = h->is_packed ? gx_ceil_div(h->rows, GROUP) * GROUP : h->rows;
    for (h->j0 = 0; h->j0 < p->n; h->j0 += QUERIES) {
        int64_t n = gx_min(QUERIES, p->n - h->j0);
        if (h->is_packed) {
            look_at_packed(h, n);
        } else if (w->given == NULL && fill_values(dtype, h, n, err) != GX_OK) {
            return false;
        }
        for (int64_t j = 0; j < n; j++) {
            const void *value = w->given != NULL ? gx_at(w->given, dtype, p->m, h->i0, h->j0 + j)
                                                 : gx_at(h->value, dtype, ld, 0, j);
            if (!hunt_query(dtype, h, h->j0 + j, value, h->mark[j])) {
                return false;
            }
        }
    }
    return compute(dtype, h);
}

GX_INLINE gx_code nearest(gx_number dtype, const gx_args *p, gx_err *err)
{
    const gx_nearest *w = p->nearest;
    hunt *h;
    layout(dtype, p, p->work, &h);
    h->p = p;
    h->w = w;
    h->unit = gx_unit_of(gx_number_is_double(dtype), p->k);
    h->is_extreme = false;
    h->pairs = 0;
    h->is_packed = wants_packed(dtype, p);
    memset(h->mark, UINT8_MAX, (size_t)gx_min(QUERIES, p->n) * sizeof *h->mark);
    *p->info = 0;
    for (int64_t j = 0; j < p->n; j++) {
        gx_best_begin(w->merit + j * w->count, w->index + j * w->count, w->count, w->goes_on);
    }
    for (h->i0 = 0; h->i0 < p->m && p->n > 0 && w->count > 0; h->i0 += ROWS) {
        h->rows = gx_min(ROWS, p->m - h->i0);
        if (!hunt_panel(dtype, h, err)) {
            return err->code;
        }
    }
    for (int64_t j = 0; j < p->n; j++) {
        gx_best_sort(w->merit + j * w->count, w->index + j * w->count, w->count);
    }
    return GX_OK;
}
GX_SIMD_REAL_SLOTS_DEFINE(gx_cpu_nearest, nearest)
