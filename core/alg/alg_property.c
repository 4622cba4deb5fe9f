/*
** Properties: what follows from what, and a look at the elements (property.h).
**
** The look is one pass over pairs of blocks (i, j), (j, i), i >= j, of edge b:
**
**     symmetric   |a_ij - a_ji|        <= tol max|a|       both blocks against each other
**     lower       |a_ij|, i < j        <= tol max|a|       each block by itself
**     unit        |a_ii - 1|           <= tol max|a|
**
** and ends at the first element that does not fit.  Orthogonal is the same pass over G = A^H A,
** with "G is the identity" as the question.  Positive definite is Hermitian and has a Cholesky
** factorisation, which is tried: the only test that is both certain and as cheap.
**
** I/O: A once; tol > 0 takes one more pass for max|a|.  Memory: two blocks, of at most half of what
** the governor has left.  G and the factor are intermediates (gx_sink_begin_scratch).  One thread,
** the caller's, but for the product and the factorisation.
*/
#include "property.h"

#include "alg.h"
#include "alg_qr.h"
#include "factoring.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

// Words and implications --------------------------------------------------------------------------

static bool parse_word(const char *word, uint32_t *bit)
{
    if (strcmp(word, "diagonal") == 0) {
        *bit = GX_PROPS_DIAGONAL;
        return true;
    }
    if (strcmp(word, "unitary") == 0) {
        *bit = GX_PROP_ORTHOGONAL;
        return true;
    }
    return gx_property_parse(word, bit) && (*bit & ~(uint32_t)GX_PROPS_SETTABLE) == 0;
}

gx_code gx_properties_parse(const char *list, uint32_t *bits, gx_err *err)
{
    *bits = 0;
    const char *at = list;
    do {
        while (isspace((unsigned char)*at)) {
            at++;
        }
        const char *end = at;
        while (*end != '\0' && *end != ',') {
            end++;
        }
        size_t length = (size_t)(end - at);
        while (length > 0 && isspace((unsigned char)at[length - 1])) {
            length--;
        }
        char word[32] = "";
        uint32_t bit = 0;
        if (length < sizeof word) {
            memcpy(word, at, length);
            word[length] = '\0';
        }
        if (length >= sizeof word || !parse_word(word, &bit)) {
            return gx_fail(err, GX_ARG,
                           "no property '%.*s' (symmetric, hermitian, positive, lower, upper, "
                           "unit, diagonal, orthogonal, unitary)",
                           (int)gx_min((int64_t)length, 40), at);
        }
        *bits |= bit;
        at = *end == ',' ? end + 1 : end;
        if (*end == '\0') {
            break;
        }
    } while (true);
    return GX_OK;
}

static bool has_all(uint32_t bits, uint32_t wanted)
{
    return (bits & wanted) == wanted;
}

uint32_t gx_properties_closed(uint32_t bits, gx_number dtype, int64_t rows, int64_t cols)
{
    bool is_real = !gx_number_is_complex(dtype);
    if (rows == cols && has_all(bits, GX_PROPS_DIAGONAL)) {
        bits |= GX_PROP_SYMMETRIC;
        if ((bits & GX_PROP_UNIT) != 0) {
            bits |= GX_PROP_POSITIVE | GX_PROP_ORTHOGONAL;
        }
    }
    if ((bits & GX_PROP_POSITIVE) != 0) {
        bits |= GX_PROP_HERMITIAN;
    }
    if (is_real && (bits & (GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN)) != 0) {
        bits |= GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN;
    }
    return bits;
}

uint32_t gx_properties_without(uint32_t bits, uint32_t gone, gx_number dtype, int64_t rows,
                               int64_t cols)
{
    bits &= ~gone;
    uint32_t back = gx_properties_closed(bits, dtype, rows, cols) & gone;
    // The premises of what came back: positive, a twin, a diagonal, in this order.
    const uint32_t premises[] = {GX_PROP_POSITIVE, GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN,
                                 GX_PROPS_DIAGONAL};
    for (size_t k = 0; k < sizeof premises / sizeof premises[0] && back != 0; k++) {
        bits &= ~premises[k];
        back = gx_properties_closed(bits, dtype, rows, cols) & gone;
    }
    return bits;
}

// The look ----------------------------------------------------------------------------------------

typedef struct look {
    gx_run *run;
    const gx_mat *A;
    uint32_t bits;
    bool is_identity;   /* the question is instead: is A the identity? */
    double bound;       /* of a difference                             */
    gx_number wide;      /* f64 or c128: elements as they are compared  */
    int64_t edge;       /* of a block                                  */
    double *low, *high; /* blocks (i, j) and (j, i)                  */
    gx_reader *reader;
    bool holds;
} look;

/* a - b within the bound; equal infinities are equal, and NaN is nothing. */
static bool is_near(const look *l, const double *a, const double *b, double sign)
{
    bool is_complex = l->wide == GX_C128;
    double im_a = is_complex ? a[1] : 0, im_b = is_complex ? sign * b[1] : 0;
    if (a[0] == b[0] && im_a == im_b) {
        return true;
    }
    double off = a[0] - b[0];
    return (is_complex ? hypot(off, im_a - im_b) : fabs(off)) <= l->bound;
}

/*
** The block at (i0, j0), m x n, by itself: zeros where the property wants them, ones on a diagonal.
*/
static bool look_at_block(const look *l, const double *block, int64_t i0, int64_t j0, int64_t m,
                          int64_t n)
{
    static const double ZERO[2] = {0, 0}, ONE[2] = {1, 0};
    int64_t step = l->wide == GX_C128 ? 2 : 1;
    bool wants_lower = l->is_identity || (l->bits & GX_PROP_LOWER) != 0;
    bool wants_upper = l->is_identity || (l->bits & GX_PROP_UPPER) != 0;
    bool wants_unit = l->is_identity || (l->bits & GX_PROP_UNIT) != 0;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            const double *x = block + (j * m + i) * step;
            int64_t below = i0 + i - j0 - j;
            bool wants_zero = (below < 0 && wants_lower) || (below > 0 && wants_upper);
            if ((wants_zero && !is_near(l, x, ZERO, 1)) ||
                (below == 0 && wants_unit && !is_near(l, x, ONE, 1))) {
                return false;
            }
        }
    }
    return true;
}

/* Block (i0, j0), m x n, against its mirror, n x m. */
static bool look_at_pair(const look *l, const double *low, const double *high, int64_t m, int64_t n)
{
    enum { EDGE = 32 };
    int64_t step = l->wide == GX_C128 ? 2 : 1;
    bool wants_symmetric = (l->bits & GX_PROP_SYMMETRIC) != 0;
    bool wants_hermitian = (l->bits & GX_PROP_HERMITIAN) != 0;
    for (int64_t jb = 0; jb < n; jb += EDGE) {
        for (int64_t ib = 0; ib < m; ib += EDGE) {
            for (int64_t j = jb; j < gx_min(jb + EDGE, n); j++) {
                for (int64_t i = ib; i < gx_min(ib + EDGE, m); i++) {
                    const double *a = low + (j * m + i) * step, *b = high + (i * n + j) * step;
                    if ((wants_symmetric && !is_near(l, a, b, 1)) ||
                        (wants_hermitian && !is_near(l, a, b, -1))) {
                        return false;
                    }
                }
            }
        }
    }
    return true;
}

static bool read_block(look *l, int64_t i0, int64_t j0, int64_t m, int64_t n, double *block)
{
    gx_err err = {0};
    gx_mat_read(l->run, l->A, l->reader, i0, j0, m, n, l->wide, block, m, &err);
    return gx_run_fail(l->run, &err) == GX_OK;
}

/* Blocks (i0, j0) and (j0, i0), i0 >= j0; a wide or tall matrix has some of them only in part. */
static void look_at(look *l, int64_t i0, int64_t j0)
{
    const gx_mat *A = l->A;
    const uint32_t PAIRS = GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN;
    bool has_pairs = !l->is_identity && (l->bits & PAIRS) != 0;
    int64_t m = gx_min(l->edge, A->rows - i0), n = gx_min(l->edge, A->cols - j0);
    int64_t m2 = gx_min(l->edge, A->rows - j0), n2 = gx_min(l->edge, A->cols - i0);
    if (m > 0 && n > 0) {
        if (!read_block(l, i0, j0, m, n, l->low)) {
            return;
        }
        l->holds = look_at_block(l, l->low, i0, j0, m, n);
    }
    bool is_diagonal = i0 == j0;
    if (l->holds && !is_diagonal && m2 > 0 && n2 > 0) {
        if (!read_block(l, j0, i0, m2, n2, l->high)) {
            return;
        }
        l->holds = look_at_block(l, l->high, j0, i0, m2, n2);
    }
    if (l->holds && has_pairs) {
        l->holds = look_at_pair(l, l->low, is_diagonal ? l->low : l->high, m, n);
    }
}

static void look_at_all(look *l)
{
    int64_t longest = gx_max(l->A->rows, l->A->cols);
    for (int64_t j0 = 0; j0 < longest && l->holds; j0 += l->edge) {
        for (int64_t i0 = j0; i0 < longest && l->holds && gx_ok(l->run); i0 += l->edge) {
            look_at(l, i0, j0);
            gx_run_poll(l->run);
        }
    }
}

/* Two blocks of at most half of the memory that is left; tiles where they fit. */
static int64_t choose_edge(const look *l)
{
    size_t element = gx_number_bytes(l->wide);
    double elements = (double)(gx_mem_available(l->run->ctx->mem) / 4 / element);
    int64_t fits = (int64_t)sqrt(elements);
    int64_t tile = gx_max(l->A->tile_rows, l->A->tile_cols);
    return gx_max(1, gx_min(tile, fits));
}

static void take_look(look *l)
{
    gx_mem *mem = l->run->ctx->mem;
    void *low = NULL, *high = NULL;
    gx_err err = {0};
    l->wide = gx_number_wide(l->A->number);
    l->edge = choose_edge(l);
    size_t bytes = (size_t)(l->edge * l->edge) * gx_number_bytes(l->wide);
    if (gx_mem_alloc(mem, bytes, "a block to look at", &low, &err) == GX_OK &&
        gx_mem_alloc(mem, bytes, "a block to look at", &high, &err) == GX_OK &&
        gx_reader_own(l->run->ctx->store, &l->reader, &err) == GX_OK) {
        l->low = low;
        l->high = high;
        look_at_all(l);
    }
    gx_run_fail(l->run, &err);
    gx_reader_close(l->reader);
    gx_mem_free(mem, low);
    gx_mem_free(mem, high);
}

/* G = A^H A, an intermediate, against the identity. */
static void look_at_gram(gx_run *run, const gx_mat *A, double bound, bool *holds)
{
    gx_trans trans = gx_adjoint(A->number);
    gx_matmul_args args = {.A = A, .B = A, .transa = trans, .alpha = {1, 0}};
    gx_sink G = {0};
    gx_sink_begin_scratch(run, A->cols, A->cols, A->number, gx_mem_available(run->ctx->mem) / 2,
                          &G);
    gx_alg_matmul(run, &args, &G);
    gx_mat gram;
    if (gx_ok(run)) {
        gx_sink_source(&G, "A^H A", &gram);
        look l = {.run = run, .A = &gram, .is_identity = true, .bound = bound, .holds = true};
        take_look(&l);
        *holds = l.holds;
    }
    gx_sink_drop(&G);
}

gx_code gx_alg_check_property(gx_run *run, const gx_mat *A, uint32_t bits, double tol, bool *holds)
{
    const uint32_t SQUARE = GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN | GX_PROP_POSITIVE;
    *holds = false;
    bool is_possible = (A->rows == A->cols || (bits & SQUARE) == 0) &&
                       (A->rows >= A->cols || (bits & GX_PROP_ORTHOGONAL) == 0);
    if (!gx_ok(run) || !is_possible) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    look l = {.run = run, .A = A, .bits = bits, .holds = true};
    if ((bits & GX_PROP_POSITIVE) != 0) {
        l.bits |= GX_PROP_HERMITIAN;
    }
    if (tol > 0) {
        double largest = 0;
        gx_alg_norm(run, A, 'M', &largest);
        l.bound = isfinite(largest) ? tol * largest : 0;
    }
    bool is_empty = A->rows == 0 || A->cols == 0;
    if (gx_ok(run) && !is_empty && (l.bits & ~(uint32_t)GX_PROP_ORTHOGONAL) != 0) {
        take_look(&l);
    }
    if (gx_ok(run) && l.holds && !is_empty && (bits & GX_PROP_ORTHOGONAL) != 0) {
        double bound = tol >= 0 ? tol : 10 * gx_rank_rcond(A->number, A->rows, A->cols);
        look_at_gram(run, A, bound, &l.holds);
    }
    if (gx_ok(run) && l.holds && !is_empty && (bits & GX_PROP_POSITIVE) != 0) {
        gx_factor_try_cholesky(run, A, &l.holds);
    }
    *holds = l.holds;
    return gx_ok(run) ? GX_OK : run->err.code;
}
