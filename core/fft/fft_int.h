/*
** Private to core/fft: plans, groups of lines, lines of any length.
**
** A complex transform of lines is one of three, by its length n:
**
**   in passes     n is a product of primes up to 61, and short: groups of lines, a line a lane
**   in six steps  the same, long: n = n1 n2, transforms of n1 with twiddles, then of n2
**   by a chirp    Bluestein's: as a convolution, by transforms of a smooth m >= 2 n - 1
**
** The inverse is the transform with real and imaginary parts exchanged on both sides, which a place
** says: there are no other twiddles and no other loops.
*/
#ifndef GX_FFT_INT_H
#define GX_FFT_INT_H

#include "../run/call.h"

#if defined __x86_64__ && !defined __clang__
#define GX_FFT_HAS_AVX2 /* clang has no pragma for an instruction set of a file */
#endif

/* The largest prime that passes take; passes of one plan. */
enum { GX_FFT_RADIX = 61, GX_FFT_RADICES = 64 };

/* w^e, w = exp(-2 pi i / n), e < n: low[e & mask] * high[e >> shift]. */
typedef struct gx_fft_turn {
    int64_t n, mask;
    int shift;
    void *low, *high; /* complex */
    void *lanes;      /* w^(k l) of the lanes l, a vector of real parts, one of imaginary ones */
} gx_fft_turn;

typedef struct gx_fft_plan {
    int64_t n;
    gx_number number; /* complex: of all its tables                                     */
    int radices, radix[GX_FFT_RADICES];
    void *twiddles; /* of each pass: the roots of its radix, then those between passes  */
    struct gx_fft_plan *first, *second; /* six steps: of n1, of n2; a chirp: of m, NULL   */
    gx_fft_turn turn;                   /* six steps                                      */
    void *chirp, *filter;               /* n complex; m complex, divided by m             */
} gx_fft_plan;

/*
** Where lines are: element i of line l at data[i step + l next], its imaginary part `part` behind
** it.  Counted in real numbers.  part 0: there is none, 0 is read and nothing is written.
*/
typedef struct gx_fft_place {
    void *data;
    int64_t step, next, part;
} gx_fft_place;

/* Lines that are transformed together. */
typedef struct gx_fft_group {
    gx_fft_place from, to;
    int count; /* lines, at most gx_fft_lanes() */
    double scale;
    const gx_fft_turn *turn; /* element k of line l is turned by k (first + l); NULL: none */
    int64_t first;
} gx_fft_group;

/* room: 4 n gx_fft_lanes() real numbers, aligned to 64. */
void gx_fft_group_f64(const gx_fft_plan *plan, const gx_fft_group *group, void *room);
void gx_fft_group_f32(const gx_fft_plan *plan, const gx_fft_group *group, void *room);
void gx_fft_group_f64_avx2(const gx_fft_plan *plan, const gx_fft_group *group, void *room);
void gx_fft_group_f32_avx2(const gx_fft_plan *plan, const gx_fft_group *group, void *room);

// One element -------------------------------------------------------------------------------------

#define GX_FFT_FORCED static inline __attribute__((always_inline))

GX_FFT_FORCED gx_scalar gx_fft_get(bool is_wide, const void *x, int64_t k, int64_t part)
{
    return is_wide ? (gx_scalar){((const double *)x)[k], part ? ((const double *)x)[k + part] : 0}
                   : (gx_scalar){((const float *)x)[k], part ? ((const float *)x)[k + part] : 0};
}

GX_FFT_FORCED void gx_fft_put(bool is_wide, void *x, int64_t k, int64_t part, gx_scalar v)
{
    if (is_wide) {
        ((double *)x)[k] = v.re;
        if (part != 0) {
            ((double *)x)[k + part] = v.im;
        }
    } else {
        ((float *)x)[k] = (float)v.re;
        if (part != 0) {
            ((float *)x)[k + part] = (float)v.im;
        }
    }
}

// Plans (fft_plan.c) ------------------------------------------------------------------------------

/*
** How lines lie: a length up to which they go in passes.  ALONE: a few lines, next to nothing that
** fills lanes.  BY_LINES: one behind the other.  ABREAST: element by element, lanes side by
** side.  ALWAYS: whatever the length.
*/
typedef enum gx_fft_lie { GX_FFT_ALONE, GX_FFT_BY_LINES, GX_FFT_ABREAST, GX_FFT_ALWAYS } gx_fft_lie;

/*
** The plan of n >= 1; *plan is the caller's, to be given to gx_fft_plan_free().  NULL where the run
** has failed.
*/
gx_fft_plan *gx_fft_plan_make(gx_run *run, gx_number number, int64_t n, gx_fft_lie lie);
void gx_fft_plan_free(gx_mem *mem, gx_fft_plan *plan); /* NULL is a no-op */

/* Tables of those of order n; both are the caller's, in memory of the run, whatever is returned. */
gx_code gx_fft_turn_make(gx_run *run, gx_number number, int64_t n, gx_fft_turn *turn);

// Lines (fft_lines.c) -----------------------------------------------------------------------------

/* Lines of a matrix; gx_fft_group's fields. */
typedef struct gx_fft_lines {
    gx_fft_place from, to;
    int64_t count;
    double scale;
    void *room; /* gx_fft_own_room() bytes of a thread by itself; NULL: the team does them */
} gx_fft_lines;

int gx_fft_lanes(gx_number number);

/* Bytes that gx_fft_transform() takes for so many lines. */
size_t gx_fft_room(gx_run *run, const gx_fft_plan *plan, int64_t lines);
size_t gx_fft_own_room(const gx_fft_plan *plan);

/*
** The transform of all lines, by the run's team.  from and to are the same, or do not overlap; of a
** long line (room) they must not be the same.
*/
gx_code gx_fft_transform(gx_run *run, const gx_fft_plan *plan, const gx_fft_lines *lines);

/* The same place for the inverse transform: on both sides. */
gx_fft_place gx_fft_inverse_of(gx_number number, gx_fft_place place);

// Real lines (real.c) -----------------------------------------------------------------------------

/* A step before or after a complex transform, of all lines, element by element: STEPS in real.c. */
typedef enum gx_fft_step_id {
    GX_FFT_HALVES,    /* y: n / 2 + 1 of a real line from its n / 2 as pairs, in place; n even */
    GX_FFT_PAIRS,     /* y: the other way, twice                                             */
    GX_FFT_MIRROR,    /* y[n - k] = conj(y[k])                                                */
    GX_FFT_CONJUGATE, /* y[k] = conj(y[k]), of n                                              */
    GX_FFT_HERMITIAN, /* y[n - k] = y[k], y[k] = conj(y[k]), k <= n / 2; y[0] real            */
    GX_FFT_FOLD,      /* y: x[0], x[2], x[4] ... x[5], x[3], x[1]                             */
    GX_FFT_UNFOLD,    /* back                                                                 */
    GX_FFT_COSINES,   /* y[k], y[n - k] = 2 re, -2 im of x[k] turned by k                     */
    GX_FFT_ANGLES,    /* y[k] = x[k] - i x[n - k], turned back by k                           */
    GX_FFT_EVEN,      /* y: an even line of 2 (n - 1) whose first half is x                   */
    GX_FFT_ODD,       /* y: an odd one of 2 (n + 1)                                           */
    GX_FFT_TAKE_EVEN, /* y[k] = re x[k]                                                       */
    GX_FFT_TAKE_ODD,  /* y[k] = -im x[k + 1]                                                  */
    GX_FFT_QUARTERS,  /* y[k] = x[k] turned by 2 k, zeros up to 2 n                           */
    GX_FFT_TAKE_QUARTERS, /* y[k] = 2 re of x[k] turned by 2 k + 1                                */
    GX_FFT_SCALE          /* y[k] = x[k] scale, and see below                                     */
} gx_fft_step_id;

typedef struct gx_fft_step {
    gx_fft_step_id id;
    gx_number number; /* complex                                                                 */
    int64_t n, lines;
    gx_fft_place x, y;
    const gx_fft_turn *turn;
    double scale, first, last; /* SCALE: of all; besides of k = 0, of k = n - 1                  */
    bool is_backward;          /* SCALE: x from its end                                          */
    bool is_by_turns;          /* SCALE: every other one negative                                */
    bool is_alone;             /* by this thread, not by the team                                */
} gx_fft_step;

gx_code gx_fft_do_step(gx_run *run, const gx_fft_step *step);

#endif
