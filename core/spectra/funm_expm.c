/*
** The exponential of a matrix, and its whole powers.
**
** Exponential: scaling and squaring with Pade approximants of degree 3, 5, 7 or 13 (Higham 2005),
** the scaling chosen by ||A^4||^(1/4) and ||A^6||^(1/6) instead of ||A|| (Al-Mohy & Higham 2009),
** which never scales more than the norm would, and far less where A is far from normal:
**
**   r(X) = (V - U)^-1 (V + U),  exp(A) = r(A / 2^s)^(2^s)
**
** Powers: by squaring, 2 n^3 flops for each bit and each bit that is set; negative ones of the
** inverse.
*/
#include "funm_matrix.h"

#include <math.h>

/* Of degrees 3, 5, 7, 13: the largest eta, and the coefficients b_0 .. b_m (Higham 2005). */
typedef struct pade {
    int degree;
    double theta;
    double b[14];
} pade;

static const pade pades[] = {
    {3, 1.495585217958292e-2, {120, 60, 12, 1}},
    {5, 2.539398330063230e-1, {30240, 15120, 3360, 420, 30, 1}},
    {7, 9.504178996162932e-1, {17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1}},
    {13,
     4.25, // Al-Mohy & Higham's, for eta in place of the norm
     {64764752532480000., 32382376266240000., 7771770303897600., 1187353796428800.,
      129060195264000., 10559470521600., 670442572800., 33522128640., 1323241920., 40840800.,
      960960., 16380., 182., 1.}},
};

enum { PADES = sizeof pades / sizeof pades[0], LAST_DEGREE = 13 };

// Scaling -----------------------------------------------------------------------------------------

/*
** More halvings that rounding asks for: |c| || |A|^(2m+1) || / ||A|| beside the unit roundoff, c
** the first coefficient of the error; a already scaled by 2^-s (Al-Mohy & Higham 2009, (5.1)).
*/
static int more_halvings(const gx_funm_work *w, const void *a, int degree, int s)
{
    double c = 1; // 1 / (binomial(2m, m) (2m + 1)!)
    for (int i = 1; i <= degree; i++) {
        c *= (double)i / (double)(degree + i);
    }
    for (int i = 2; i <= 2 * degree + 1; i++) {
        c /= i;
    }
    double norm = ldexp(gx_funm_norm1(w, a), -s);
    double power = gx_funm_norm_of_power(w, a, 2 * degree + 1);
    double log2_alpha = log2(c) + log2(power) - (2.0 * degree + 1) * s - log2(norm);
    double wanted = ceil((log2_alpha + 53) / (2 * degree));
    return norm > 0 && power > 0 && wanted > 0 && wanted < 1100 ? (int)wanted : 0;
}

// One approximant ---------------------------------------------------------------------------------

/* The powers of A, and room for U and V. */
typedef struct parts {
    void *a2, *a4, *a6, *u, *v;
} parts;

/* x = the sum of b[first], b[first + 2] .. times I, A2, A4, A6; top: how many of them. */
static void combine(const gx_funm_work *w, const parts *p, const double *b, int first, int top,
                    void *x)
{
    const void *powers[] = {NULL, p->a2, p->a4, p->a6};
    gx_funm_unit(w, x);
    gx_funm_add(w, b[first], x, 0, x, x);
    for (int k = 1; k < top; k++) {
        gx_funm_add(w, 1, x, b[first + 2 * k], powers[k], x);
    }
}

/* x += A6 (b[first] A2 + b[first + 2] A4 + b[first + 4] A6); room: another matrix. */
static void add_high(const gx_funm_work *w, const parts *p, const double *b, int first, void *x,
                     void *room)
{
    gx_funm_add(w, b[first], p->a2, b[first + 2], p->a4, room);
    gx_funm_add(w, 1, room, b[first + 4], p->a6, room);
    gx_funm_multiply(w, 1, GX_NO_TRANS, p->a6, GX_NO_TRANS, room, 1, x);
}

/* a = r(a), a of its scaled powers. */
static void approximate(const gx_funm_work *w, const parts *p, const pade *r, void *a)
{
    void *room = gx_funm_matrix(w);
    int low = r->degree == LAST_DEGREE ? 4 : (r->degree + 1) / 2;
    if (room == NULL) {
        return;
    }
    combine(w, p, r->b, 1, low, p->v); // U / A
    if (r->degree == LAST_DEGREE) {
        add_high(w, p, r->b, 9, p->v, room);
    }
    gx_funm_multiply(w, 1, GX_NO_TRANS, a, GX_NO_TRANS, p->v, 0, p->u);
    combine(w, p, r->b, 0, low, p->v);
    if (r->degree == LAST_DEGREE) {
        add_high(w, p, r->b, 8, p->v, room);
    }
    gx_funm_add(w, 1, p->v, 1, p->u, a);
    gx_funm_add(w, 1, p->v, -1, p->u, p->v);
    gx_funm_solve(w, p->v, a, "the exponential's denominator is");
    gx_funm_free(w, room);
}

// The exponential ---------------------------------------------------------------------------------

static void square(const gx_funm_work *w, void *a, int times, void *room)
{
    for (int i = 0; i < times && gx_funm_ok(w); i++) {
        gx_funm_multiply(w, 1, GX_NO_TRANS, a, GX_NO_TRANS, a, 0, room);
        gx_funm_copy(w, room, a);
    }
}

/* Which approximant, and how often A is halved before it; the powers are A's. */
static const pade *choose(const gx_funm_work *w, const parts *p, const void *a, int *halvings)
{
    double eta = fmax(pow(gx_funm_norm1(w, p->a4), 0.25), pow(gx_funm_norm1(w, p->a6), 1.0 / 6));
    *halvings = 0;
    for (int i = 0; i + 1 < PADES; i++) {
        if (eta <= pades[i].theta && more_halvings(w, a, pades[i].degree, 0) == 0) {
            return &pades[i];
        }
    }
    const pade *last = &pades[PADES - 1];
    double wanted = ceil(log2(eta / last->theta));
    *halvings = wanted > 0 && wanted < 1100 ? (int)wanted : 0;
    *halvings += more_halvings(w, a, last->degree, *halvings);
    return last;
}

/* a = 2^-s a, and its powers. */
static void halve(const gx_funm_work *w, const parts *p, void *a, int s)
{
    void *scaled[] = {a, p->a2, p->a4, p->a6};
    static const int degree[] = {1, 2, 4, 6};
    for (int i = 0; i < 4 && s > 0; i++) {
        gx_funm_add(w, ldexp(1, -s * degree[i]), scaled[i], 0, scaled[i], scaled[i]);
    }
}

void gx_funm_exponential(const gx_funm_work *w, void *a)
{
    // Powers of a huge A would overflow, as its norm itself may: it is halved first, to a norm that
    // cannot.
    int first = 0;
    for (double norm = gx_funm_norm1(w, a); norm > 0x1p61 && gx_funm_ok(w);) {
        int halvings = isinf(norm) ? 60 : ilogb(norm) - 60;
        gx_funm_add(w, ldexp(1, -halvings), a, 0, a, a);
        norm = gx_funm_norm1(w, a);
        first += halvings;
    }
    parts p = {gx_funm_matrix(w), gx_funm_matrix(w), gx_funm_matrix(w), gx_funm_matrix(w),
               gx_funm_matrix(w)};
    if (gx_funm_ok(w)) {
        gx_funm_multiply(w, 1, GX_NO_TRANS, a, GX_NO_TRANS, a, 0, p.a2);
        gx_funm_multiply(w, 1, GX_NO_TRANS, p.a2, GX_NO_TRANS, p.a2, 0, p.a4);
        gx_funm_multiply(w, 1, GX_NO_TRANS, p.a2, GX_NO_TRANS, p.a4, 0, p.a6);
        int halvings;
        const pade *r = choose(w, &p, a, &halvings);
        halve(w, &p, a, halvings);
        approximate(w, &p, r, a);
        square(w, a, halvings + first, p.u);
    }
    void *all[] = {p.a2, p.a4, p.a6, p.u, p.v};
    for (int i = 0; i < 5; i++) {
        gx_funm_free(w, all[i]);
    }
}

// Whole powers ------------------------------------------------------------------------------------

/* a = a^p, p >= 1. */
static void power_of(const gx_funm_work *w, void *a, int64_t p)
{
    void *result = gx_funm_matrix(w), *room = gx_funm_matrix(w);
    bool has_result = false;
    for (int64_t bits = p; bits > 0 && gx_funm_ok(w); bits >>= 1) {
        if ((bits & 1) != 0 && !has_result) {
            gx_funm_copy(w, a, result);
            has_result = true;
        } else if ((bits & 1) != 0) {
            gx_funm_multiply(w, 1, GX_NO_TRANS, result, GX_NO_TRANS, a, 0, room);
            gx_funm_copy(w, room, result);
        }
        if (bits > 1) {
            square(w, a, 1, room);
        }
    }
    if (gx_funm_ok(w)) {
        gx_funm_copy(w, result, a);
    }
    gx_funm_free(w, result);
    gx_funm_free(w, room);
}

void gx_funm_whole_power(const gx_funm_work *w, void *a, int64_t p)
{
    if (p < 0) {
        void *inverse = gx_funm_matrix(w);
        if (inverse != NULL) {
            gx_funm_unit(w, inverse);
            gx_funm_solve(w, a, inverse, "it has no negative power");
            gx_funm_copy(w, inverse, a);
        }
        gx_funm_free(w, inverse);
        p = -p;
    }
    if (p == 0) {
        gx_funm_unit(w, a);
    } else if (p > 1) {
        power_of(w, a, p);
    }
}
