/*
** Lines: see lines.h.  The least, largest and median of what holds a NaN are NaN, as in NumPy.
**
** A variance takes two passes.  The first sums x - offset, the offset being the first element:
** numbers far from zero and close to each other lose no digits, and a line that does not vary has
** exactly its value as the mean.  The second sums (x - mean)^2, and x - mean, whose square is what
** the mean's rounding has added (Chan, Golub & LeVeque 1983, the corrected two-pass formula).
*/
#include "lines.h"

#include "../base/convert.h"
#include "order.h"

#include <math.h>
#include <string.h>

enum {
    SQUARE = 32,      /* rows of what is turned at once ...                        */
    BESIDE = 8,       /* ... and columns                                           */
    CACHED = 1 << 15, /* elements of the lines that are gathered at once ...       */
    ROOM = 1 << 19    /* ... where they are long                                   */
};

gx_lines gx_lines_of(const gx_type *type, int64_t axis)
{
    return (gx_lines){.type = *type,
                      .axis = axis,
                      .count = axis == 0   ? type->cols
                               : axis == 1 ? type->rows
                                           : 1,
                      .length = axis == 0   ? type->rows
                                : axis == 1 ? type->cols
                                            : type->rows * type->cols,
                      .is_complex = gx_number_is_complex(type->dtype)};
}

int64_t gx_lines_at_once(const gx_lines *lines)
{
    int64_t length = gx_max(1, lines->length);
    int64_t n = gx_min(gx_max(CACHED / length, SQUARE), ROOM / length);
    return gx_max(1, gx_min(n, lines->count / 16));
}

size_t gx_lines_bytes(const gx_lines *lines, int64_t n)
{
    size_t parts = lines->is_complex ? 2 : 1;
    return (size_t)(gx_max(1, n) * gx_max(1, lines->length)) * parts * sizeof(double);
}

/*
** Rows i ... i + m - 1 of a matrix, to or from doubles one row after the other, `stride` apart.  In
** squares: what lies together in one of the two is far apart in the other.
*/
typedef struct turn {
    const gx_type *type;
    gx_number wide;
    int64_t i, m, stride;
} turn;

/* Columns are too far apart for the processor to see what comes next. */
static inline void fetch_ahead(const turn *t, const char *at, int64_t j, int64_t h)
{
    enum { AHEAD = 12, LINE = 64 };
    int64_t element = (int64_t)gx_number_bytes(t->type->dtype);
    const char *next = at + AHEAD * gx_max(1, t->type->rows) * element;
    for (int64_t k = 0; k < h * element && j + AHEAD < t->type->cols; k += LINE) {
        __builtin_prefetch(next + k);
    }
}

/*
** The pieces of w <= BESIDE columns from j on that begin h0 rows further, h <= SQUARE of them, in
** the wide dtype: what lies together in a row is written at once.
*/
static void to_rows(const turn *t, const void *a, int64_t j, int64_t w, int64_t h0, int64_t h,
                    double *line)
{
    double piece[2 * SQUARE * BESIDE];
    int64_t ld = gx_max(1, t->type->rows), parts = t->wide == GX_C128 ? 2 : 1;
    const double *from = gx_at(a, t->type->dtype, ld, t->i + h0, j);
    double *to = line + (h0 * t->stride + j) * parts;
    for (int64_t c = 0; c < w; c++) {
        fetch_ahead(t, gx_at(from, t->type->dtype, ld, 0, c), j + c, h);
    }
    if (t->type->dtype != t->wide) {
        gx_convert(t->type->dtype, from, ld, t->wide, piece, h, h, w);
        from = piece;
        ld = h;
    }
    if (parts == 1 && w == BESIDE) {
        for (int64_t r = 0; r < h; r++, to += t->stride) {
            for (int64_t c = 0; c < BESIDE; c++) {
                to[c] = from[r + c * ld];
            }
        }
        return;
    }
    for (int64_t r = 0; r < h; r++, to += t->stride * parts) {
        for (int64_t c = 0; c < w; c++) {
            to[c * parts] = from[(r + c * ld) * parts];
            to[(c + 1) * parts - 1] = from[(r + c * ld + 1) * parts - 1];
        }
    }
}

static void from_rows(const turn *t, void *c, int64_t j, int64_t h0, int64_t h, const double *line)
{
    double piece[2 * SQUARE];
    int64_t ld = gx_max(1, t->type->rows), parts = t->wide == GX_C128 ? 2 : 1;
    const double *from = line + (h0 * t->stride + j) * parts;
    for (int64_t r = 0; r < h; r++, from += t->stride * parts) {
        piece[r * parts] = from[0];
        piece[r * parts + parts - 1] = from[parts - 1];
    }
    gx_convert(t->wide, piece, h, t->type->dtype, gx_at(c, t->type->dtype, ld, t->i + h0, j), h, h,
               1);
}

void gx_lines_gather(const gx_lines *lines, const void *a, int64_t k, int64_t n, double *line)
{
    const gx_type *type = &lines->type;
    gx_number wide = gx_number_wide(type->dtype);
    if (lines->axis == 0) {
        int64_t ld = gx_max(1, type->rows);
        gx_convert(type->dtype, gx_at(a, type->dtype, ld, 0, k), ld, wide, line, ld, type->rows, n);
        return;
    }
    if (type->cols == 1) { // its rows lie as they are wanted
        gx_convert(type->dtype, gx_at(a, type->dtype, type->rows, k, 0), n, wide, line, n, n, 1);
        return;
    }
    turn t = {type, wide, k, n, type->cols};
    for (int64_t i = 0; i < t.m; i += SQUARE) {
        for (int64_t j = 0; j < type->cols; j += BESIDE) {
            to_rows(&t, a, j, gx_min(BESIDE, type->cols - j), i, gx_min(SQUARE, t.m - i), line);
        }
    }
}

gx_lines gx_lines_of_whole(const gx_type *type)
{
    gx_type t = *type;
    if (t.rows == 1) { // the same elements as a column: many rows
        t.rows = t.cols;
        t.cols = 1;
    }
    return gx_lines_of(&t, 1);
}

int64_t gx_lines_of_part(const gx_lines *rows)
{
    int64_t n = 1;
    while (2 * n * gx_max(1, rows->length) <= CACHED) {
        n *= 2;
    }
    return n;
}

void gx_lines_gather_whole(gx_run *run, const gx_type *type, const void *a, double *line)
{
    gx_lines rows = gx_lines_of_whole(type);
    int64_t most = gx_lines_at_once(&rows), parts = rows.is_complex ? 2 : 1;
    for (int64_t k = 0; k < rows.count && gx_run_poll(run) == GX_OK; k += most) {
        gx_lines_gather(&rows, a, k, gx_min(most, rows.count - k), line + k * rows.length * parts);
    }
}

void gx_lines_scatter(const gx_lines *lines, const gx_type *type, void *c, int64_t k, int64_t n,
                      const double *line)
{
    gx_number wide = lines->is_complex ? GX_C128 : GX_F64;
    if (lines->axis == 0) {
        int64_t ld = gx_max(1, type->rows);
        gx_convert(wide, line, lines->length, type->dtype, gx_at(c, type->dtype, ld, 0, k), ld,
                   type->rows, n);
        return;
    }
    turn t = {type, wide, k, n, lines->length};
    for (int64_t i = 0; i < n; i += SQUARE) {
        for (int64_t j = 0; j < type->cols; j++) {
            from_rows(&t, c, j, i, gx_min(SQUARE, n - i), line);
        }
    }
}

// Order -------------------------------------------------------------------------------------------

static bool has_nan(const double *line, int64_t length)
{
    bool found = false;
    for (int64_t k = 0; k < length; k++) {
        found |= isnan(line[k]) != 0;
    }
    return found;
}

/*
** From pair[0] to pair[1] by a share of the way: next to an infinity that, between both infinities
** nothing (NaN).
*/
static double between(const double pair[2], double share)
{
    if (share == 0 || pair[0] == pair[1]) {
        return pair[0];
    }
    if (!isfinite(pair[0]) || !isfinite(pair[1])) {
        return pair[0] + pair[1];
    }
    double difference = pair[1] - pair[0];
    return isfinite(difference) ? pair[0] + difference * share
                                : pair[0] * (1 - share) + pair[1] * share;
}

static double quantile(gx_run *run, const double *line, int64_t length, double q, void *work)
{
    double place = q * (double)(length - 1), below = floor(place), pair[2];
    if (length == 0 || has_nan(line, length)) {
        return (double)NAN;
    }
    gx_order_pair(run, line, length, (int64_t)below, work, pair);
    return between(pair, place - below);
}

static double median(gx_run *run, const double *line, int64_t length, void *work)
{
    double pair[2];
    if (length == 0 || has_nan(line, length)) {
        return (double)NAN;
    }
    gx_order_pair(run, line, length, (length - 1) / 2, work, pair);
    return length % 2 == 1 || pair[0] == pair[1] ? pair[0] : (pair[0] + pair[1]) / 2;
}

// Reductions --------------------------------------------------------------------------------------

bool gx_tally_can(gx_op_id op)
{
    return op != GX_OP_MEDIAN && op != GX_OP_QUANTILE;
}

/* The least (sign 1) or largest (-1), the first NaN where there is one; and its place. */
static void fold_extreme(gx_tally *f, const double *piece, int64_t length, double sign)
{
    double most = f->length == 0 && length > 0 ? piece[0] : f->most;
    int64_t place = f->place - f->length;
    for (int64_t k = 0; k < length && !isnan(most); k++) {
        if (sign * piece[k] < sign * most || isnan(piece[k])) {
            most = piece[k];
            place = k;
        }
    }
    f->most = most;
    f->place = f->length + place;
}

/* What is taken off before adding up: 0 where differences could overflow. */
static double offset_of(double first)
{
    return fabs(first) < 0x1p1000 ? first : 0;
}

/* The first pass finds where the offset is. */
static void find_offset(gx_tally *f, const double *piece, int64_t length)
{
    if (f->pass == 0 && f->length == 0 && length > 0) {
        f->offset = (gx_scalar){offset_of(piece[0]), f->is_complex ? offset_of(piece[1]) : 0};
    }
}

/* Two lanes: what every processor adds at once. */
typedef double pair __attribute__((vector_size(2 * sizeof(double)), aligned(8), may_alias));

/* Part k of what is added: lane l. */
static void fold_part(gx_tally *f, double x, int l)
{
    double d = x - (l % 2 == 1 && f->is_complex ? f->offset.im : f->offset.re);
    f->sum[l] += d;
    f->squares[l] += d * d;
}

/* Whole rounds of all lanes; squares in the second pass alone. */
static void fold_rounds(gx_tally *f, const double *piece, int64_t rounds)
{
    const pair off = {f->offset.re, f->is_complex ? f->offset.im : f->offset.re};
    pair a = {f->sum[0], f->sum[1]}, b = {f->sum[2], f->sum[3]};
    pair aa = {f->squares[0], f->squares[1]}, bb = {f->squares[2], f->squares[3]};
    const pair *x = (const void *)piece, *end = x + 2 * rounds;
    for (; f->pass == 0 && x < end; x += 2) {
        a += x[0] - off;
        b += x[1] - off;
    }
    for (; x < end; x += 2) {
        pair d = x[0] - off, e = x[1] - off;
        a += d;
        b += e;
        aa += d * d;
        bb += e * e;
    }
    for (int l = 0; l < 2; l++) {
        f->sum[l] = a[l];
        f->sum[2 + l] = b[l];
        f->squares[l] = aa[l];
        f->squares[2 + l] = bb[l];
    }
}

/*
** Sums of x - offset and, in the second pass, of its squares: of part k of the line in lane k mod
** GX_TALLY_LANES, however it is cut into pieces.  Real and imaginary parts fall into lanes of their
** own.
*/
static void fold_deviations(gx_tally *f, const double *piece, int64_t length)
{
    find_offset(f, piece, length);
    int64_t parts = f->is_complex ? 2 : 1, count = length * parts, k = 0;
    for (int64_t l = f->length * parts % GX_TALLY_LANES; l % GX_TALLY_LANES != 0 && k < count;
         l++) {
        fold_part(f, piece[k++], (int)l);
    }
    int64_t rounds = (count - k) / GX_TALLY_LANES;
    fold_rounds(f, piece + k, rounds);
    k += rounds * GX_TALLY_LANES;
    for (int l = 0; k < count; l++) {
        fold_part(f, piece[k++], l);
    }
}

/* The lanes together. */
static gx_scalar sum_of(const gx_tally *f)
{
    double even = f->sum[0] + f->sum[2], odd = f->sum[1] + f->sum[3];
    return f->is_complex ? (gx_scalar){even, odd} : (gx_scalar){even + odd, 0};
}

static double squares_of(const gx_tally *f)
{
    return (f->squares[0] + f->squares[2]) + (f->squares[1] + f->squares[3]);
}

static void fold_exponentials(gx_tally *f, const double *piece, int64_t length)
{
    double sum = f->squares[0], most = f->most;
    for (int64_t k = 0; k < length && isfinite(most); k++) {
        sum += exp(piece[k] - most);
    }
    f->squares[0] = sum;
}

/* p * x: a real product has no imaginary parts, which 0 * inf would make NaN. */
static inline gx_scalar times(bool is_complex, gx_scalar p, gx_scalar x)
{
    return is_complex ? (gx_scalar){p.re * x.re - p.im * x.im, p.re * x.im + p.im * x.re}
                      : (gx_scalar){p.re * x.re, 0};
}

static void fold_product(gx_tally *f, const double *piece, int64_t length)
{
    gx_scalar p = f->length == 0 ? GX_ONE : f->product;
    for (int64_t k = 0; k < length; k++) {
        gx_scalar x = {piece[f->is_complex ? 2 * k : k], f->is_complex ? piece[2 * k + 1] : 0};
        p = times(f->is_complex, p, x);
    }
    f->product = p;
}

/* How many are not zero. */
static void fold_count(gx_tally *f, const double *piece, int64_t length)
{
    for (int64_t k = 0; k < length; k++) {
        bool is_zero = f->is_complex ? piece[2 * k] == 0 && piece[2 * k + 1] == 0 : piece[k] == 0;
        f->count += !is_zero;
    }
}

void gx_tally_add(gx_tally *f, const double *piece, int64_t length)
{
    switch (f->op) {
    case GX_OP_PROD:
        fold_product(f, piece, length);
        break;
    case GX_OP_MIN:
    case GX_OP_ARGMIN:
        fold_extreme(f, piece, length, 1);
        break;
    case GX_OP_MAX:
    case GX_OP_ARGMAX:
        fold_extreme(f, piece, length, -1);
        break;
    case GX_OP_ANY:
    case GX_OP_ALL:
        fold_count(f, piece, length);
        break;
    case GX_OP_VAR:
    case GX_OP_STD:
        fold_deviations(f, piece, length);
        break;
    default: // LOGSUMEXP
        if (f->pass == 0) {
            fold_extreme(f, piece, length, -1);
        } else {
            fold_exponentials(f, piece, length);
        }
    }
    f->length += length;
}

gx_tally gx_tally_part(const gx_tally *f)
{
    // The second pass looks at what the first has found, and finds nothing else.
    gx_tally part = *f;
    part.length = part.count = part.place = 0;
    memset(part.sum, 0, sizeof part.sum);
    memset(part.squares, 0, sizeof part.squares);
    return part;
}

/* Sums of both, each with an offset of its own. */
static void join_deviations(gx_tally *f, const gx_tally *part)
{
    double count = (double)part->length;
    gx_scalar sum = sum_of(part);
    f->offset = f->length == 0 && f->pass == 0 ? part->offset : f->offset;
    f->sum[0] += sum.re + count * (part->offset.re - f->offset.re);
    f->sum[1] += sum.im + count * (part->offset.im - f->offset.im);
    f->squares[0] += squares_of(part);
}

/* Is the extreme of what comes later the one of both? */
static bool is_more(const gx_tally *f, const gx_tally *part)
{
    double sign = f->op == GX_OP_MIN || f->op == GX_OP_ARGMIN ? 1 : -1;
    return f->length == 0 ||
           (!isnan(f->most) && (isnan(part->most) || sign * part->most < sign * f->most));
}

void gx_tally_join(gx_tally *f, const gx_tally *part)
{
    if (part->length == 0) {
        return;
    }
    if (f->pass == 0 && is_more(f, part)) {
        f->most = part->most;
        f->place = f->length + part->place;
    }
    if (f->op == GX_OP_PROD) {
        f->product =
            f->length == 0 ? part->product : times(f->is_complex, f->product, part->product);
    } else {
        join_deviations(f, part);
    }
    f->count += part->count;
    f->length += part->length;
}

bool gx_tally_next(gx_tally *f)
{
    bool has_two = f->op == GX_OP_VAR || f->op == GX_OP_STD || f->op == GX_OP_LOGSUMEXP;
    if (!has_two || f->pass == 1) {
        return false;
    }
    double length = (double)f->length;
    gx_scalar sum = sum_of(f);
    f->offset.re += sum.re / length;
    f->offset.im += sum.im / length;
    memset(f->sum, 0, sizeof f->sum);
    memset(f->squares, 0, sizeof f->squares);
    f->length = 0;
    f->pass = 1;
    return true;
}

static double variance(const gx_tally *f)
{
    double length = (double)f->length, divisor = fmax(length - f->ddof, 0);
    gx_scalar rest = sum_of(f);
    double squares = squares_of(f), excess = (rest.re * rest.re + rest.im * rest.im) / length;
    // Rounding leaves an excess that is small; of infinities and NaN there is none to be taken off.
    return (excess <= squares && excess < INFINITY ? squares - excess : squares) / divisor;
}

gx_scalar gx_tally_value(const gx_tally *f)
{
    switch (f->op) {
    case GX_OP_PROD:
        return f->length == 0 ? GX_ONE : f->product;
    case GX_OP_ARGMIN:
    case GX_OP_ARGMAX:
        return (gx_scalar){(double)f->place, 0};
    case GX_OP_ANY:
        return (gx_scalar){f->count > 0, 0};
    case GX_OP_ALL:
        return (gx_scalar){f->count == f->length, 0};
    case GX_OP_VAR:
        return (gx_scalar){variance(f), 0};
    case GX_OP_STD:
        return (gx_scalar){sqrt(variance(f)), 0};
    case GX_OP_LOGSUMEXP:
        return (gx_scalar){isfinite(f->most) ? f->most + log(f->squares[0]) : f->most, 0};
    default: // MIN, MAX
        return (gx_scalar){f->most, 0};
    }
}

size_t gx_line_work_bytes(gx_op_id op, int64_t length)
{
    bool has_keys = op == GX_OP_MEDIAN || op == GX_OP_QUANTILE;
    bool sorts = op == GX_OP_SORT || op == GX_OP_ARGSORT;
    return sorts      ? gx_order_bytes(length)
           : has_keys ? gx_order_pair_bytes(length)
                      : sizeof(double); // not looked at
}

gx_scalar gx_line_reduce(gx_run *run, gx_op_id op, const double *line, int64_t length,
                         bool is_complex, double number, void *work)
{
    if (op == GX_OP_MEDIAN) {
        return (gx_scalar){median(run, line, length, work), 0};
    }
    if (op == GX_OP_QUANTILE) {
        return (gx_scalar){quantile(run, line, length, number, work), 0};
    }
    gx_tally f = {.op = op, .is_complex = is_complex, .ddof = number};
    do {
        gx_tally_add(&f, line, length);
    } while (gx_tally_next(&f));
    return gx_tally_value(&f);
}

// Along one line ----------------------------------------------------------------------------------

/* What has been added up stays in a register: through memory an addition would wait for a store. */
static void running_sum(double *line, int64_t length, int64_t parts)
{
    for (int64_t part = 0; part < parts; part++) {
        double sum = length > 0 ? line[part] : 0;
        for (int64_t k = parts + part; k < length * parts; k += parts) {
            line[k] = sum += line[k];
        }
    }
}

static void running_product(double *line, int64_t length)
{
    double product = length > 0 ? line[0] : 1;
    for (int64_t k = 1; k < length; k++) {
        line[k] = product *= line[k];
    }
}

static void running_complex_product(double *line, int64_t length)
{
    for (int64_t k = 1; k < length; k++) {
        double *at = line + 2 * k;
        double re = at[0] * at[-2] - at[1] * at[-1];
        at[1] = at[0] * at[-1] + at[1] * at[-2];
        at[0] = re;
    }
}

static void softmax(double *line, int64_t length)
{
    gx_tally f = {.op = GX_OP_MAX};
    double sum = 0;
    gx_tally_add(&f, line, length);
    for (int64_t k = 0; k < length; k++) {
        line[k] = exp(line[k] - f.most);
        sum += line[k];
    }
    for (int64_t k = 0; k < length; k++) {
        line[k] /= sum;
    }
}

void gx_line_along(gx_run *run, gx_op_id op, double *line, int64_t length, bool is_complex,
                   void *work)
{
    int64_t parts = is_complex ? 2 : 1;
    if (op == GX_OP_CUMSUM) {
        running_sum(line, length, parts);
    } else if (op == GX_OP_CUMPROD) {
        (is_complex ? running_complex_product : running_product)(line, length);
    } else if (op == GX_OP_DIFF) {
        for (int64_t k = 0; k + parts < length * parts; k++) {
            line[k] = line[k + parts] - line[k];
        }
    } else if (op == GX_OP_SOFTMAX) {
        softmax(line, length);
    } else {
        const gx_ranked *sorted = gx_order_line(run, line, length, work);
        for (int64_t k = 0; k < length; k++) {
            line[k] = op == GX_OP_SORT ? sorted[k].value : (double)sorted[k].index;
        }
    }
}
