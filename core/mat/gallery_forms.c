/*
** The gallery's formulas.
**
** Each function is the element (i, j), 0-based, of one family.  The formulas in the comments are
** the literature's, with i, j = 1 .. n and order n.
**
** Exactness: integers below 2^53 are exact.  Larger binomials (pascal) and products of them
** (invhilb) are computed as integers and rounded once as long as these fit 63 and 126 bits; beyond,
** in double arithmetic with a relative error of at most n / 2^52.  Quotients are rounded once.
** sin, cos and pow come from libm: kahan, kms, chow, orthog and prolate may differ in their last
** bit from one libm to another, all others are the same everywhere.
*/
#include "gallery_forms.h"

#include <math.h>

__extension__ typedef unsigned __int128 u128;

static int64_t distance(int64_t i, int64_t j)
{
    return i < j ? j - i : i - j;
}

// Quotients of small integers ---------------------------------------------------------------------

/* 1 / (i + j - 1). */
double gx_form_hilb(const gx_gallery *g, int64_t i, int64_t j)
{
    (void)g;
    return 1.0 / (double)(i + j + 1);
}

/* Hilbert's matrix with a first row of ones. */
double gx_form_lotkin(const gx_gallery *g, int64_t i, int64_t j)
{
    return i == 0 ? 1.0 : gx_form_hilb(g, i, j);
}

/* 1 / (i + j). */
double gx_form_cauchy(const gx_gallery *g, int64_t i, int64_t j)
{
    (void)g;
    return 1.0 / (double)(i + j + 2);
}

/* 1 / (i - j + 0.5). */
double gx_form_parter(const gx_gallery *g, int64_t i, int64_t j)
{
    (void)g;
    return 1.0 / ((double)(i - j) + 0.5);
}

/* 0.5 / (n - i - j + 1.5). */
double gx_form_ris(const gx_gallery *g, int64_t i, int64_t j)
{
    return 0.5 / ((double)(g->n - i - j) - 0.5);
}

/* min(i, j) / max(i, j). */
double gx_form_lehmer(const gx_gallery *g, int64_t i, int64_t j)
{
    (void)g;
    return (double)(gx_min(i, j) + 1) / (double)(gx_max(i, j) + 1);
}

/*
** (-1)^(i+j) p(i) p(j) / (i + j - 1) with p(i) = (n + i - 1)! / ((i - 1)!^2 (n - i)!): the inverse
** of the Hilbert matrix, all integers.
*/
double gx_form_invhilb(const gx_gallery *g, int64_t i, int64_t j)
{
    double value;
    if (g->whole != NULL) {
        value = (double)((u128)g->whole[i] * g->whole[j] / (u128)(i + j + 1));
    } else {
        value = g->table[gx_max(i, j)] / (double)(i + j + 1) * g->table[gx_min(i, j)];
    }
    return (i + j) % 2 == 0 ? value : -value;
}

// Integers ----------------------------------------------------------------------------------------

/* min(i, j). */
double gx_form_minij(const gx_gallery *g, int64_t i, int64_t j)
{
    (void)g;
    return (double)(gx_min(i, j) + 1);
}

/* |i - j|. */
double gx_form_fiedler(const gx_gallery *g, int64_t i, int64_t j)
{
    (void)g;
    return (double)distance(i, j);
}

/* The circulant with first row 1, 2, ..., n. */
double gx_form_circul(const gx_gallery *g, int64_t i, int64_t j)
{
    int64_t shift = j - i;
    return (double)((shift < 0 ? shift + g->n : shift) + 1);
}

/*
** k = 0: n + 1 - max(i, j) for j >= i - 1, else 0.  k = 1: that, reflected about the
** anti-diagonal (n+1-j, n+1-i).
*/
double gx_form_frank(const gx_gallery *g, int64_t i, int64_t j)
{
    bool is_reflected = g->param[GX_GALLERY_K] != 0;
    int64_t row = is_reflected ? g->n - 1 - j : i, col = is_reflected ? g->n - 1 - i : j;
    return col >= row - 1 ? (double)(g->n - gx_max(row, col)) : 0.0;
}

/* (-1)^(number of common one bits of i - 1 and j - 1): Sylvester's construction. */
double gx_form_hadamard(const gx_gallery *g, int64_t i, int64_t j)
{
    (void)g;
    return __builtin_parityll((unsigned long long)(i & j)) ? -1.0 : 1.0;
}

/* 1 if j = 1 or i divides j, else 0. */
double gx_form_redheff(const gx_gallery *g, int64_t i, int64_t j)
{
    (void)g;
    return j == 0 || (j + 1) % (i + 1) == 0 ? 1.0 : 0.0;
}

/* B(2:n+1, 2:n+1) of B(i, j) = i - 1 if i divides j, else -1. */
double gx_form_riemann(const gx_gallery *g, int64_t i, int64_t j)
{
    (void)g;
    return (j + 2) % (i + 2) == 0 ? (double)(i + 1) : -1.0;
}

double gx_gallery_binomial(int64_t n, int64_t k)
{
    k = gx_min(k, n - k);
    uint64_t c = 1;
    int64_t t = 1;
    for (; t <= k; t++) {
        u128 next = (u128)c * (uint64_t)(n - k + t); // divisible by t: C(n-k+t, t) is an integer
        next = next >> 64 == 0 ? (uint64_t)next / (uint64_t)t : next / (uint64_t)t;
        if (next >> 63 != 0) {
            break;
        }
        c = (uint64_t)next;
    }
    double value = (double)c;
    for (; t <= k; t++) {
        value *= (double)(n - k + t) / (double)t;
    }
    return value;
}

/*
** k = 0: C(i + j - 2, i - 1).  k = -1: its Cholesky factor L(i, j) = C(i - 1, j - 1).
** k = 1: L with column j multiplied by (-1)^(j-1), which is its own inverse.
** k = 2: that, turned by 270 degrees, times -1 for even n, a cube root of the identity.
*/
double gx_form_pascal(const gx_gallery *g, int64_t i, int64_t j)
{
    double k = g->param[GX_GALLERY_K];
    if (k == 0) {
        return gx_gallery_binomial(i + j, i);
    }
    int64_t row = k == 2 ? g->n - 1 - j : i, col = k == 2 ? i : j;
    double value = row < col ? 0.0 : gx_gallery_binomial(row, col);
    bool is_negative = k > 0 && col % 2 != 0;
    if (k == 2 && g->n % 2 == 0) {
        is_negative = !is_negative;
    }
    return is_negative && value != 0 ? -value : value;
}

/* Odd order p, row i and column j = 1 .. p: the siamese method in closed form. */
static int64_t magic_odd(int64_t p, int64_t i, int64_t j)
{
    int64_t a = (i + j - (p + 3) / 2 + p) % p, b = (i + 2 * j - 2) % p;
    return p * a + b + 1;
}

/* Order n = 4k + 2: four odd squares, with some elements of upper and lower half exchanged. */
static int64_t magic_singly_even(int64_t n, int64_t i, int64_t j)
{
    int64_t p = n / 2, k = (n - 2) / 4, row = (i - 1) % p + 1;
    bool is_exchanged = j <= k || j >= n - k + 2;
    if (row == k + 1 && (j == 1 || j == k + 1)) {
        is_exchanged = !is_exchanged;
    }
    bool is_lower = (i > p) != is_exchanged, is_right = j > p;
    static const int64_t added[2][2] = {{0, 2}, {3, 1}}; // in units of p^2
    return magic_odd(p, row, is_right ? j - p : j) + added[is_lower][is_right] * p * p;
}

/* The squares that MATLAB's magic(n) gives. */
double gx_form_magic(const gx_gallery *g, int64_t i, int64_t j)
{
    int64_t n = g->n, col = j + 1;
    int64_t row = i + 1, value;
    if (n % 2 != 0) {
        value = magic_odd(n, row, col);
    } else if (n % 4 != 0) {
        value = magic_singly_even(n, row, col);
    } else {
        value = (row - 1) * n + col;
        value = row % 4 / 2 == col % 4 / 2 ? n * n + 1 - value : value;
    }
    return (double)value;
}

double gx_form_rosser(const gx_gallery *g, int64_t i, int64_t j)
{
    static const double rosser[8][8] = {
        {611, 196, -192, 407, -8, -52, -49, 29}, {196, 899, 113, -192, -71, -43, -8, -44},
        {-192, 113, 899, 196, 61, 49, 8, 52},    {407, -192, 196, 611, 8, 44, 59, -23},
        {-8, -71, 61, 8, 411, -599, 208, 208},   {-52, -43, 49, 44, -599, 411, 208, 208},
        {-49, -8, 8, 59, 208, 208, 99, -911},    {29, -44, 52, -23, 208, 208, -911, 99},
    };
    (void)g;
    return rosser[j][i];
}

// With parameters ---------------------------------------------------------------------------------

/* U^T U, U unit upper triangular with alpha above the diagonal; alpha = -1: min(i, j) - 2, i. */
double gx_form_moler(const gx_gallery *g, int64_t i, int64_t j)
{
    double alpha = g->param[GX_GALLERY_ALPHA];
    return (double)gx_min(i, j) * alpha * alpha + (i == j ? 1.0 : alpha);
}

/* alpha I + ones. */
double gx_form_pei(const gx_gallery *g, int64_t i, int64_t j)
{
    return i == j ? g->param[GX_GALLERY_ALPHA] + 1.0 : 1.0;
}

/* rho^|i - j|. */
double gx_form_kms(const gx_gallery *g, int64_t i, int64_t j)
{
    return g->table[distance(i, j)];
}

/* sin(2 pi w |i - j|) / (pi |i - j|), 2 w on the diagonal. */
double gx_form_prolate(const gx_gallery *g, int64_t i, int64_t j)
{
    return gx_form_kms(g, i, j);
}

/* alpha^(i - j + 1) for i >= j - 1 (lower Hessenberg), plus delta I. */
double gx_form_chow(const gx_gallery *g, int64_t i, int64_t j)
{
    int64_t power = i - j + 1;
    double delta = power == 1 ? g->param[GX_GALLERY_DELTA] : 0.0;
    return power < 0 ? 0.0 : g->table[power] + delta;
}

/*
** s^(i-1) on the diagonal, -c s^(i-1) above it, s = sin(theta), c = cos(theta); the diagonal is
** increased by pert 2^-52 (n - i + 1), so that pivoting does not exchange columns.
*/
double gx_form_kahan(const gx_gallery *g, int64_t i, int64_t j)
{
    double c = g->param[GX_GALLERY_C]; // of theta, by gallery.c
    double shift = g->param[GX_GALLERY_PERT] * 0x1p-52 * (double)(g->n - i);
    return i > j ? 0.0 : i == j ? g->table[i] + shift : g->table[i] * -c;
}

/*
** Orthogonal.  k = 1: sqrt(2/(n+1)) sin(i j pi / (n+1)).  k = 2: 2/sqrt(2n+1) sin(2 i j pi /
** (2n+1)).  k = 5 (Hartley): (sin + cos)(2 pi (i-1) (j-1) / n) / sqrt(n).  The product i j is
** reduced as an integer, so that large orders stay accurate; the table holds one period.
*/
double gx_form_orthog(const gx_gallery *g, int64_t i, int64_t j)
{
    int k = (int)g->param[GX_GALLERY_K];
    int64_t period = k == 1 ? 2 * (g->n + 1) : k == 2 ? 2 * g->n + 1 : g->n;
    int64_t first = k == 5 ? 0 : 1;
    int64_t row = i + first, col = j + first;
    return g->table[(int64_t)((u128)row * (u128)col % (u128)period)];
}

/* Solved by elimination with partial pivoting its growth factor is (1 + c)^(n-1). */
double gx_form_gfpp(const gx_gallery *g, int64_t i, int64_t j)
{
    double c = g->param[GX_GALLERY_C];
    return i == j || j == g->n - 1 ? 1.0 : i > j ? -c : 0.0;
}

/* 1 on the diagonal, alpha on the first k superdiagonals. */
double gx_form_triw(const gx_gallery *g, int64_t i, int64_t j)
{
    int64_t up = j - i;
    return up == 0                                          ? 1.0
           : up > 0 && (double)up <= g->param[GX_GALLERY_K] ? g->param[GX_GALLERY_ALPHA]
                                                            : 0.0;
}

/* -1 below the diagonal, 1 on it and on k superdiagonals. */
double gx_form_grcar(const gx_gallery *g, int64_t i, int64_t j)
{
    int64_t up = j - i;
    return up == -1 ? -1.0 : up >= 0 && (double)up <= g->param[GX_GALLERY_K] ? 1.0 : 0.0;
}

// Bands -------------------------------------------------------------------------------------------

static double band(int64_t i, int64_t j, double above, double on, double below)
{
    return i == j ? on : i == j - 1 ? above : i == j + 1 ? below : 0.0;
}

/* lambda on the diagonal, 1 above it. */
double gx_form_jordbloc(const gx_gallery *g, int64_t i, int64_t j)
{
    return band(i, j, 1.0, g->param[GX_GALLERY_LAMBDA], 0.0);
}

/* The Jordan block with alpha in the corner (n, 1). */
double gx_form_forsythe(const gx_gallery *g, int64_t i, int64_t j)
{
    bool is_corner = j == 0 && i == g->n - 1;
    return is_corner ? g->param[GX_GALLERY_ALPHA] : gx_form_jordbloc(g, i, j);
}

/* c below, d on, e above the diagonal. */
double gx_form_tridiag(const gx_gallery *g, int64_t i, int64_t j)
{
    const double *param = g->param;
    return band(i, j, param[GX_GALLERY_E], param[GX_GALLERY_D], param[GX_GALLERY_C]);
}

/*
** Zero diagonal; k = 0: i above it, n - i below it; k = 1: the square root of their product on
** both sides.
*/
double gx_form_clement(const gx_gallery *g, int64_t i, int64_t j)
{
    int64_t k = gx_min(i, j) + 1;
    double above = (double)k, below = (double)(g->n - k);
    if (g->param[GX_GALLERY_K] != 0 && distance(i, j) == 1) {
        above = below = sqrt(above * below);
    }
    return band(i, j, above, 0.0, below);
}

/* 1 / (i + 1) below, -(2 i + 3) on, i + 1 above the diagonal. */
double gx_form_lesp(const gx_gallery *g, int64_t i, int64_t j)
{
    (void)g;
    return band(i, j, (double)(j + 1), -(double)(2 * j + 5), 1.0 / (double)(j + 2));
}

/* |(n + 1) / 2 - i| on the diagonal, ones beside it: W_n^+. */
double gx_form_wilkinson(const gx_gallery *g, int64_t i, int64_t j)
{
    return band(i, j, 1.0, fabs((double)(g->n - 1) / 2 - (double)j), 1.0);
}

/* The 5-point Laplacian of a root x root grid: 4, and -1 for each neighbour. */
double gx_form_poisson(const gx_gallery *g, int64_t i, int64_t j)
{
    int64_t apart = distance(i, j);
    bool is_beside = apart == 1 && i / g->root == j / g->root;
    return i == j ? 4.0 : is_beside || apart == g->root ? -1.0 : 0.0;
}
