/*
** Steps that make transforms of real lines of complex ones (Sorensen, Jones, Heideman, Burrus,
** 1987; cosines by Makhoul, 1980): see fft_int.h.
**
** A real line of even length n is n / 2 complex numbers, which are transformed and taken apart.
** Each step goes over all lines, and within them first along whatever is next to each other.
*/
#include "fft_int.h"

#include <string.h>

/* Elements of a line, and lines, of a piece. */
enum { PIECE = 1 << 14, LINES = 16 };

GX_FFT_FORCED gx_scalar conjugate(gx_scalar a)
{
    return (gx_scalar){a.re, -a.im};
}

/* Twiddle e. */
GX_FFT_FORCED gx_scalar root(bool wide, const gx_fft_turn *t, int64_t e)
{
    return gx_scalar_times(gx_fft_get(wide, t->low, 2 * (e & t->mask), 1),
                           gx_fft_get(wide, t->high, 2 * (e >> t->shift), 1));
}

/* Element k of line l. */
GX_FFT_FORCED gx_scalar at(bool wide, const gx_fft_place *p, int64_t l, int64_t k)
{
    return gx_fft_get(wide, p->data, k * p->step + l * p->next, p->part);
}

GX_FFT_FORCED void set(bool wide, const gx_fft_place *p, int64_t l, int64_t k, gx_scalar v)
{
    gx_fft_put(wide, p->data, k * p->step + l * p->next, p->part, v);
}

// Of pairs ----------------------------------------------------------------------------------------

/* w: twiddle k, which is the same for all lines. */
GX_FFT_FORCED void halves(bool wide, const gx_fft_step *s, int64_t l, int64_t k, gx_scalar w)
{
    int64_t h = s->n / 2;
    gx_scalar a = at(wide, &s->y, l, k), b = conjugate(at(wide, &s->y, l, k == 0 ? 0 : h - k));
    gx_scalar even = gx_scalar_plus(a, b), odd = gx_scalar_minus(a, b);
    odd = gx_scalar_times((gx_scalar){odd.im / 2, -odd.re / 2}, w);
    even = (gx_scalar){even.re / 2, even.im / 2};
    set(wide, &s->y, l, k, gx_scalar_plus(even, odd));
    set(wide, &s->y, l, h - k, conjugate(gx_scalar_minus(even, odd)));
}

GX_FFT_FORCED void pairs(bool wide, const gx_fft_step *s, int64_t l, int64_t k, gx_scalar w)
{
    int64_t h = s->n / 2;
    gx_scalar a = at(wide, &s->y, l, k), b = conjugate(at(wide, &s->y, l, h - k));
    a.im = k == 0 ? 0 : a.im;
    b.im = k == 0 ? 0 : b.im;
    gx_scalar even = gx_scalar_plus(a, b),
              odd = gx_scalar_times(gx_scalar_minus(a, b), conjugate(w));
    odd = (gx_scalar){-odd.im, odd.re};
    set(wide, &s->y, l, k, gx_scalar_plus(even, odd));
    if (k > 0) {
        set(wide, &s->y, l, h - k, conjugate(gx_scalar_minus(even, odd)));
    }
}

GX_FFT_FORCED void hermitian(bool wide, const gx_fft_step *s, int64_t l, int64_t k)
{
    gx_scalar v = at(wide, &s->y, l, k);
    if (k == 0) {
        v.im = 0;
    } else {
        set(wide, &s->y, l, s->n - k, v);
    }
    set(wide, &s->y, l, k, conjugate(v));
}

// Of sines and cosines ----------------------------------------------------------------------------

GX_FFT_FORCED void cosines(bool wide, const gx_fft_step *s, int64_t l, int64_t k)
{
    gx_scalar v = gx_scalar_times(at(wide, &s->x, l, k), root(wide, s->turn, k));
    set(wide, &s->y, l, k, (gx_scalar){2 * v.re, 0});
    if (k > 0 && 2 * k < s->n) {
        set(wide, &s->y, l, s->n - k, (gx_scalar){-2 * v.im, 0});
    }
}

GX_FFT_FORCED void angles(bool wide, const gx_fft_step *s, int64_t l, int64_t k)
{
    gx_scalar v = {at(wide, &s->x, l, k).re, k == 0 ? 0 : -at(wide, &s->x, l, s->n - k).re};
    set(wide, &s->y, l, k, gx_scalar_times(v, conjugate(root(wide, s->turn, k))));
}

/* Of a line that goes on behind n with its mirror, negative where it is odd. */
GX_FFT_FORCED void extended(bool wide, const gx_fft_step *s, int64_t l, int64_t k, bool is_odd)
{
    gx_scalar v = at(wide, &s->x, l, k), zero = {0, 0};
    int64_t place = k + is_odd, length = 2 * (s->n + (is_odd ? 1 : -1));
    set(wide, &s->y, l, place, v);
    if (is_odd || (k > 0 && k < s->n - 1)) {
        set(wide, &s->y, l, length - place, is_odd ? gx_scalar_minus(zero, v) : v);
    }
    if (is_odd && k == 0) {
        set(wide, &s->y, l, 0, zero);
        set(wide, &s->y, l, s->n + 1, zero);
    }
}

GX_FFT_FORCED void scaled(bool wide, const gx_fft_step *s, int64_t l, int64_t k)
{
    gx_scalar v = at(wide, &s->x, l, s->is_backward ? s->n - 1 - k : k);
    double by = s->scale * (k == 0 ? s->first : 1) * (k == s->n - 1 ? s->last : 1);
    by = s->is_by_turns && k % 2 == 1 ? -by : by;
    set(wide, &s->y, l, k, (gx_scalar){v.re * by, v.im * by});
}

GX_FFT_FORCED void quarters(bool wide, const gx_fft_step *s, int64_t l, int64_t k)
{
    const gx_scalar zero = {0, 0};
    set(wide, &s->y, l, k, gx_scalar_times(at(wide, &s->x, l, k), root(wide, s->turn, 2 * k)));
    set(wide, &s->y, l, s->n + k, zero);
}

/* Where element k of a line lies when those with even numbers come first, the others backwards. */
GX_FFT_FORCED int64_t folded(int64_t n, int64_t k)
{
    return k % 2 == 0 ? k / 2 : n - 1 - k / 2;
}

GX_FFT_FORCED void one(gx_fft_step_id id, bool wide, const gx_fft_step *s, int64_t l, int64_t k,
                       gx_scalar w)
{
    gx_scalar v;
    switch (id) {
    case GX_FFT_HALVES:
        halves(wide, s, l, k, w);
        break;
    case GX_FFT_PAIRS:
        pairs(wide, s, l, k, w);
        break;
    case GX_FFT_MIRROR:
        set(wide, &s->y, l, s->n - 1 - k, conjugate(at(wide, &s->y, l, k + 1)));
        break;
    case GX_FFT_CONJUGATE:
        set(wide, &s->y, l, k, conjugate(at(wide, &s->y, l, k)));
        break;
    case GX_FFT_HERMITIAN:
        hermitian(wide, s, l, k);
        break;
    case GX_FFT_FOLD:
        set(wide, &s->y, l, folded(s->n, k), at(wide, &s->x, l, k));
        break;
    case GX_FFT_UNFOLD:
        set(wide, &s->y, l, k, at(wide, &s->x, l, folded(s->n, k)));
        break;
    case GX_FFT_COSINES:
        cosines(wide, s, l, k);
        break;
    case GX_FFT_ANGLES:
        angles(wide, s, l, k);
        break;
    case GX_FFT_EVEN:
    case GX_FFT_ODD:
        extended(wide, s, l, k, id == GX_FFT_ODD);
        break;
    case GX_FFT_TAKE_EVEN:
        set(wide, &s->y, l, k, at(wide, &s->x, l, k));
        break;
    case GX_FFT_TAKE_ODD:
        v = at(wide, &s->x, l, k + 1);
        set(wide, &s->y, l, k, (gx_scalar){-v.im, 0});
        break;
    case GX_FFT_QUARTERS:
        quarters(wide, s, l, k);
        break;
    case GX_FFT_TAKE_QUARTERS:
        v = gx_scalar_times(at(wide, &s->x, l, k), root(wide, s->turn, 2 * k + 1));
        set(wide, &s->y, l, k, (gx_scalar){2 * v.re, 0});
        break;
    case GX_FFT_SCALE:
        scaled(wide, s, l, k);
        break;
    }
}

// All elements ------------------------------------------------------------------------------------

/* How many k a step has. */
static int64_t length_of(const gx_fft_step *s)
{
    switch (s->id) {
    case GX_FFT_HALVES:
    case GX_FFT_PAIRS:
        return s->n / 4 + 1;
    case GX_FFT_MIRROR:
        return (s->n - 1) / 2;
    case GX_FFT_HERMITIAN:
    case GX_FFT_COSINES:
    case GX_FFT_ANGLES:
        return s->n / 2 + 1;
    default:
        return s->n;
    }
}

typedef struct part {
    int64_t l0, l1, k0, k1;
} part;

GX_FFT_FORCED void sweep(gx_fft_step_id id, bool wide, const gx_fft_step *s, const part *p)
{
    bool is_turned = id == GX_FFT_HALVES || id == GX_FFT_PAIRS;
    if (s->y.next < s->y.step) {
        for (int64_t k = p->k0; k < p->k1; k++) {
            gx_scalar w = is_turned ? root(wide, s->turn, k) : GX_ONE;
            for (int64_t l = p->l0; l < p->l1; l++) {
                one(id, wide, s, l, k, w);
            }
        }
    } else {
        for (int64_t l = p->l0; l < p->l1; l++) {
            for (int64_t k = p->k0; k < p->k1; k++) {
                one(id, wide, s, l, k, is_turned ? root(wide, s->turn, k) : GX_ONE);
            }
        }
    }
}

static gx_code step_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const gx_fft_step *s = arg;
    int64_t length = length_of(s), parts = gx_ceil_div(length, PIECE);
    int64_t k0 = piece % parts * PIECE, l0 = piece / parts * LINES;
    const part p = {l0, gx_min(s->lines, l0 + LINES), k0, gx_min(length, k0 + PIECE)};
    (void)member, (void)err;
    switch (s->id) {
#define CASE(ID)                                                                                   \
    case GX_FFT_##ID:                                                                              \
        if (s->number == GX_C128) {                                                                \
            sweep(GX_FFT_##ID, true, s, &p);                                                       \
        } else {                                                                                   \
            sweep(GX_FFT_##ID, false, s, &p);                                                      \
        }                                                                                          \
        break;
        CASE(HALVES)
        CASE(PAIRS)
        CASE(MIRROR)
        CASE(CONJUGATE)
        CASE(HERMITIAN)
        CASE(FOLD)
        CASE(UNFOLD)
        CASE(COSINES)
        CASE(ANGLES)
        CASE(EVEN)
        CASE(ODD)
        CASE(TAKE_EVEN)
        CASE(TAKE_ODD)
        CASE(QUARTERS)
        CASE(TAKE_QUARTERS)
        CASE(SCALE)
#undef CASE
    }
    return GX_OK;
}

gx_code gx_fft_do_step(gx_run *run, const gx_fft_step *step)
{
    gx_fft_step s = *step;
    int64_t length = length_of(&s);
    int64_t pieces = length > 0 ? gx_ceil_div(length, PIECE) * gx_ceil_div(s.lines, LINES) : 0;
    for (int64_t k = 0; s.is_alone && k < pieces && gx_ok(run); k++) {
        step_piece(&s, k, 0, NULL);
    }
    if (gx_ok(run) && pieces > 0 && !s.is_alone) {
        gx_run_pieces(run, 4 * (double)length * (double)s.lines, pieces, step_piece, &s);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}
