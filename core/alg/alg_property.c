/*
** Properties: what follows from what, and a look at the elements (alg.h).
**
** The look is one pass over pairs of blocks (i, j), (j, i), i >= j:
**
**     symmetric   |a_ij - a_ji|        <= tol max|a|       both blocks against each other
**     lower       |a_ij|, i < j        <= tol max|a|       each block by itself
**     unit        |a_ii - 1|           <= tol max|a|
**
** (gx_alg_look) and ends at the first element that does not fit.  Orthogonal is the same pass over
** G = A^H A, with "G is the identity" as the question.  Positive definite is Hermitian and has a
** Cholesky factorisation, which is tried: the only test that is both certain and as cheap.
**
** I/O: A once; tol > 0 takes one more pass for max|a|.  G and the factor are intermediates
** (gx_sink_begin_scratch).
*/
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

typedef struct question {
    uint32_t bits;
    bool is_identity; /* the question is instead: is A the identity? */
    double bound;     /* of a difference                             */
} question;

/* a - b within the bound; equal infinities are equal, and NaN is nothing. */
static bool is_near(const question *q, gx_scalar a, gx_scalar b)
{
    return (a.re == b.re && a.im == b.im) || hypot(a.re - b.re, a.im - b.im) <= q->bound;
}

/*
** The block at (i0, j0), m x n, by itself: zeros where the property wants them, ones on a diagonal.
*/
static bool block_holds(const question *q, const gx_scalar *block, int64_t i0, int64_t j0,
                        int64_t m, int64_t n)
{
    const gx_scalar ZERO = {0, 0};
    bool wants_lower = q->is_identity || (q->bits & GX_PROP_LOWER) != 0;
    bool wants_upper = q->is_identity || (q->bits & GX_PROP_UPPER) != 0;
    bool wants_unit = q->is_identity || (q->bits & GX_PROP_UNIT) != 0;
    for (int64_t j = 0; j < n && (wants_lower || wants_upper || wants_unit); j++) {
        for (int64_t i = 0; i < m; i++) {
            int64_t below = i0 + i - j0 - j;
            bool wants_zero = (below < 0 && wants_lower) || (below > 0 && wants_upper);
            if ((wants_zero && !is_near(q, block[j * m + i], ZERO)) ||
                (below == 0 && wants_unit && !is_near(q, block[j * m + i], GX_ONE))) {
                return false;
            }
        }
    }
    return true;
}

/* A block against its mirror, in squares that stay in the cache. */
static bool pair_holds(const question *q, const gx_look_block *b)
{
    enum { EDGE = 32 };
    bool wants_symmetric = (q->bits & GX_PROP_SYMMETRIC) != 0;
    bool wants_hermitian = (q->bits & GX_PROP_HERMITIAN) != 0;
    int64_t down = gx_ceil_div(b->m, EDGE), squares = down * gx_ceil_div(b->n, EDGE);
    for (int64_t s = 0; s < squares && (wants_symmetric || wants_hermitian); s++) {
        gx_tile_place t = gx_tile_at(b->m, b->n, EDGE, EDGE, s);
        for (int64_t j = t.j0; j < t.j0 + t.n; j++) {
            for (int64_t i = t.i0; i < t.i0 + t.m; i++) {
                gx_scalar x = b->low[j * b->m + i], y = b->high[i * b->n + j];
                if ((wants_symmetric && !is_near(q, x, y)) ||
                    (wants_hermitian && !is_near(q, x, (gx_scalar){y.re, -y.im}))) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* What a block says that has not the property: no read fails so, and the run is forgiven. */
static const gx_code REFUTED = GX_NUMERIC;

static void ask(const void *arg, const gx_look_block *b, gx_err *found)
{
    const question *q = arg;
    if (!block_holds(q, b->low, b->i0, b->j0, b->m, b->n) ||
        (b->high != b->low && !block_holds(q, b->high, b->j0, b->i0, b->m_high, b->n_high)) ||
        !pair_holds(q, b)) {
        gx_fail(found, REFUTED, "%s has not the property", b->A->label);
    }
}

static bool holds_for(gx_run *run, const gx_mat *A, const question *q)
{
    gx_alg_look(run, A, true, ask, q);
    return !gx_run_forgive(run, REFUTED) && gx_ok(run);
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
        *holds = holds_for(run, &gram, &(question){.is_identity = true, .bound = bound});
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
    question q = {.bits = bits};
    bool is_so = true;
    if ((bits & GX_PROP_POSITIVE) != 0) {
        q.bits |= GX_PROP_HERMITIAN;
    }
    if (tol > 0) {
        double largest = 0;
        gx_alg_norm(run, A, 'M', &largest);
        q.bound = isfinite(largest) ? tol * largest : 0;
    }
    bool is_empty = A->rows == 0 || A->cols == 0;
    if (gx_ok(run) && !is_empty && (q.bits & ~(uint32_t)GX_PROP_ORTHOGONAL) != 0) {
        is_so = holds_for(run, A, &q);
    }
    if (gx_ok(run) && is_so && !is_empty && (bits & GX_PROP_ORTHOGONAL) != 0) {
        double bound = tol >= 0 ? tol : 10 * gx_rank_rcond(A->number, A->rows, A->cols);
        look_at_gram(run, A, bound, &is_so);
    }
    if (gx_ok(run) && is_so && !is_empty && (bits & GX_PROP_POSITIVE) != 0) {
        gx_factor_try_cholesky(run, A, &is_so);
    }
    *holds = is_so;
    return gx_ok(run) ? GX_OK : run->err.code;
}
