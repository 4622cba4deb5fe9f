/*
** The gallery's formulas.
**
** Each function writes rows i0 .. i0 + m - 1 of column j (0-based) of one family.  The formulas in
** the comments are the literature's, with i, j = 1 .. n and order n.  Nothing depends on i0 and m:
** however a matrix is cut, each element is computed by the same operations.
**
** Exactness: integers below 2^53 are exact.  Larger binomials (pascal) and products of them
** (invhilb) are computed as integers and rounded once as long as these fit 63 and 126 bits; beyond,
** in double arithmetic with a relative error of at most n / 2^52.  Quotients are rounded once.
** sin, cos and pow come from libm: kahan, kms, chow, orthog and prolate may differ in their last
** bit from one libm to another, all others are the same everywhere.
*/
#include "gallery_forms.h"

#include <math.h>
#include <string.h>

__extension__ typedef unsigned __int128 u128;

/* Element i of the column, when it is among the rows asked for. */
static void put(int64_t i0, int64_t m, double *out, int64_t i, double value)
{
    if (i >= i0 && i < i0 + m) {
        out[i - i0] = value;
    }
}

static void clear(int64_t m, double *out)
{
    memset(out, 0, (size_t)m * sizeof *out);
}

static int64_t distance(int64_t i, int64_t j)
{
    return i < j ? j - i : i - j;
}

// ---- quotients of small integers ----------------------------------------------------------------

/* 1 / (i + j - 1). */
void gx_form_hilb(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    (void)g;
    for (int64_t l = 0; l < m; l++) {
        out[l] = 1.0 / (double)(i0 + l + j + 1);
    }
}

/* Hilbert's matrix with a first row of ones. */
void gx_form_lotkin(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    gx_form_hilb(g, i0, m, j, out);
    put(i0, m, out, 0, 1.0);
}

/* 1 / (i + j). */
void gx_form_cauchy(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    (void)g;
    for (int64_t l = 0; l < m; l++) {
        out[l] = 1.0 / (double)(i0 + l + j + 2);
    }
}

/* 1 / (i - j + 0.5). */
void gx_form_parter(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    (void)g;
    for (int64_t l = 0; l < m; l++) {
        out[l] = 1.0 / ((double)(i0 + l - j) + 0.5);
    }
}

/* 0.5 / (n - i - j + 1.5). */
void gx_form_ris(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    for (int64_t l = 0; l < m; l++) {
        out[l] = 0.5 / ((double)(g->n - (i0 + l) - j) - 0.5);
    }
}

/* min(i, j) / max(i, j). */
void gx_form_lehmer(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    (void)g;
    for (int64_t l = 0; l < m; l++) {
        int64_t i = i0 + l;
        out[l] = (double)(gx_min(i, j) + 1) / (double)(gx_max(i, j) + 1);
    }
}

/*
** (-1)^(i+j) p(i) p(j) / (i + j - 1) with p(i) = (n + i - 1)! / ((i - 1)!^2 (n - i)!): the inverse
** of the Hilbert matrix, all integers.
*/
void gx_form_invhilb(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    for (int64_t l = 0; l < m; l++) {
        int64_t i = i0 + l;
        double value;
        if (g->whole != NULL) {
            value = (double)((u128)g->whole[i] * g->whole[j] / (u128)(i + j + 1));
        } else {
            value = g->table[gx_max(i, j)] / (double)(i + j + 1) * g->table[gx_min(i, j)];
        }
        out[l] = (i + j) % 2 == 0 ? value : -value;
    }
}

// ---- integers -----------------------------------------------------------------------------------

/* min(i, j). */
void gx_form_minij(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    (void)g;
    for (int64_t l = 0; l < m; l++) {
        out[l] = (double)(gx_min(i0 + l, j) + 1);
    }
}

/* |i - j|. */
void gx_form_fiedler(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    (void)g;
    for (int64_t l = 0; l < m; l++) {
        out[l] = (double)distance(i0 + l, j);
    }
}

/* The circulant with first row 1, 2, ..., n. */
void gx_form_circul(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    for (int64_t l = 0; l < m; l++) {
        int64_t shift = j - (i0 + l);
        out[l] = (double)((shift < 0 ? shift + g->n : shift) + 1);
    }
}

/*
** k = 0: n + 1 - max(i, j) for j >= i - 1, else 0.  k = 1: that, reflected about the
** anti-diagonal (n+1-j, n+1-i).
*/
void gx_form_frank(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    bool is_reflected = g->param[GX_GALLERY_K] != 0;
    for (int64_t l = 0; l < m; l++) {
        int64_t i = i0 + l;
        int64_t row = is_reflected ? g->n - 1 - j : i, col = is_reflected ? g->n - 1 - i : j;
        out[l] = col >= row - 1 ? (double)(g->n - gx_max(row, col)) : 0.0;
    }
}

/* (-1)^(number of common one bits of i - 1 and j - 1): Sylvester's construction. */
void gx_form_hadamard(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    (void)g;
    for (int64_t l = 0; l < m; l++) {
        out[l] = __builtin_parityll((unsigned long long)((i0 + l) & j)) ? -1.0 : 1.0;
    }
}

/* 1 if j = 1 or i divides j, else 0. */
void gx_form_redheff(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    (void)g;
    for (int64_t l = 0; l < m; l++) {
        out[l] = j == 0 || (j + 1) % (i0 + l + 1) == 0 ? 1.0 : 0.0;
    }
}

/* B(2:n+1, 2:n+1) of B(i, j) = i - 1 if i divides j, else -1. */
void gx_form_riemann(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    (void)g;
    for (int64_t l = 0; l < m; l++) {
        int64_t i = i0 + l + 2;
        out[l] = (j + 2) % i == 0 ? (double)(i - 1) : -1.0;
    }
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
void gx_form_pascal(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    double k = g->param[GX_GALLERY_K];
    for (int64_t l = 0; l < m; l++) {
        int64_t i = i0 + l;
        if (k == 0) {
            out[l] = gx_gallery_binomial(i + j, i);
            continue;
        }
        int64_t row = k == 2 ? g->n - 1 - j : i, col = k == 2 ? i : j;
        double value = row < col ? 0.0 : gx_gallery_binomial(row, col);
        bool is_negative = k > 0 && col % 2 != 0;
        if (k == 2 && g->n % 2 == 0) {
            is_negative = !is_negative;
        }
        out[l] = is_negative && value != 0 ? -value : value;
    }
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
void gx_form_magic(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    int64_t n = g->n, col = j + 1;
    for (int64_t l = 0; l < m; l++) {
        int64_t row = i0 + l + 1, value;
        if (n % 2 != 0) {
            value = magic_odd(n, row, col);
        } else if (n % 4 != 0) {
            value = magic_singly_even(n, row, col);
        } else {
            value = (row - 1) * n + col;
            value = row % 4 / 2 == col % 4 / 2 ? n * n + 1 - value : value;
        }
        out[l] = (double)value;
    }
}

void gx_form_rosser(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    static const double rosser[8][8] = {
        {611, 196, -192, 407, -8, -52, -49, 29},   {196, 899, 113, -192, -71, -43, -8, -44},
        {-192, 113, 899, 196, 61, 49, 8, 52},      {407, -192, 196, 611, 8, 44, 59, -23},
        {-8, -71, 61, 8, 411, -599, 208, 208},     {-52, -43, 49, 44, -599, 411, 208, 208},
        {-49, -8, 8, 59, 208, 208, 99, -911},      {29, -44, 52, -23, 208, 208, -911, 99},
    };
    (void)g;
    memcpy(out, &rosser[j][i0], (size_t)m * sizeof *out);
}

// ---- with parameters ----------------------------------------------------------------------------

/* U^T U, U unit upper triangular with alpha above the diagonal; alpha = -1: min(i, j) - 2, i. */
void gx_form_moler(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    double alpha = g->param[GX_GALLERY_ALPHA];
    for (int64_t l = 0; l < m; l++) {
        int64_t i = i0 + l;
        out[l] = (double)gx_min(i, j) * alpha * alpha + (i == j ? 1.0 : alpha);
    }
}

/* alpha I + ones. */
void gx_form_pei(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    for (int64_t l = 0; l < m; l++) {
        out[l] = 1.0;
    }
    put(i0, m, out, j, g->param[GX_GALLERY_ALPHA] + 1.0);
}

/* rho^|i - j|. */
void gx_form_kms(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    for (int64_t l = 0; l < m; l++) {
        out[l] = g->table[distance(i0 + l, j)];
    }
}

/* sin(2 pi w |i - j|) / (pi |i - j|), 2 w on the diagonal. */
void gx_form_prolate(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    gx_form_kms(g, i0, m, j, out);
}

/* alpha^(i - j + 1) for i >= j - 1 (lower Hessenberg), plus delta I. */
void gx_form_chow(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    for (int64_t l = 0; l < m; l++) {
        int64_t power = i0 + l - j + 1;
        out[l] = power < 0 ? 0.0 : g->table[power];
        if (power == 1) {
            out[l] += g->param[GX_GALLERY_DELTA];
        }
    }
}

/*
** s^(i-1) on the diagonal, -c s^(i-1) above it, s = sin(theta), c = cos(theta); the diagonal is
** increased by pert 2^-52 (n - i + 1), so that pivoting does not exchange columns.
*/
void gx_form_kahan(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    double c = cos(g->param[GX_GALLERY_THETA]);
    for (int64_t l = 0; l < m; l++) {
        int64_t i = i0 + l;
        double shift = g->param[GX_GALLERY_PERT] * 0x1p-52 * (double)(g->n - i);
        out[l] = i > j ? 0.0 : i == j ? g->table[i] + shift : g->table[i] * -c;
    }
}

/*
** Orthogonal.  k = 1: sqrt(2/(n+1)) sin(i j pi / (n+1)).  k = 2: 2/sqrt(2n+1) sin(2 i j pi /
** (2n+1)).  k = 5 (Hartley): (sin + cos)(2 pi (i-1) (j-1) / n) / sqrt(n).  The product i j is
** reduced as an integer, so that large orders stay accurate; the table holds one period.
*/
void gx_form_orthog(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    int k = (int)g->param[GX_GALLERY_K];
    int64_t period = k == 1 ? 2 * (g->n + 1) : k == 2 ? 2 * g->n + 1 : g->n;
    int64_t first = k == 5 ? 0 : 1;
    for (int64_t l = 0; l < m; l++) {
        int64_t row = i0 + l + first, col = j + first;
        out[l] = g->table[(int64_t)((u128)row * (u128)col % (u128)period)];
    }
}

/* Solved by elimination with partial pivoting its growth factor is (1 + c)^(n-1). */
void gx_form_gfpp(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    double c = g->param[GX_GALLERY_C];
    for (int64_t l = 0; l < m; l++) {
        int64_t i = i0 + l;
        out[l] = i == j || j == g->n - 1 ? 1.0 : i > j ? -c : 0.0;
    }
}

/* 1 on the diagonal, alpha on the first k superdiagonals. */
void gx_form_triw(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    for (int64_t l = 0; l < m; l++) {
        int64_t up = j - (i0 + l);
        out[l] = up == 0 ? 1.0
                 : up > 0 && (double)up <= g->param[GX_GALLERY_K] ? g->param[GX_GALLERY_ALPHA]
                                                                  : 0.0;
    }
}

/* -1 below the diagonal, 1 on it and on k superdiagonals. */
void gx_form_grcar(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    for (int64_t l = 0; l < m; l++) {
        int64_t up = j - (i0 + l);
        out[l] = up == -1 ? -1.0 : up >= 0 && (double)up <= g->param[GX_GALLERY_K] ? 1.0 : 0.0;
    }
}

// ---- bands --------------------------------------------------------------------------------------

/* lambda on the diagonal, 1 above it. */
void gx_form_jordbloc(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    clear(m, out);
    put(i0, m, out, j - 1, 1.0);
    put(i0, m, out, j, g->param[GX_GALLERY_LAMBDA]);
}

/* The Jordan block with alpha in the corner (n, 1). */
void gx_form_forsythe(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    gx_form_jordbloc(g, i0, m, j, out);
    if (j == 0) {
        put(i0, m, out, g->n - 1, g->param[GX_GALLERY_ALPHA]);
    }
}

/* c below, d on, e above the diagonal. */
void gx_form_tridiag(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    clear(m, out);
    put(i0, m, out, j - 1, g->param[GX_GALLERY_E]);
    put(i0, m, out, j, g->param[GX_GALLERY_D]);
    put(i0, m, out, j + 1, g->param[GX_GALLERY_C]);
}

/*
** Zero diagonal; k = 0: i above it, n - i below it; k = 1: the square root of their product on
** both sides.
*/
void gx_form_clement(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    double above = (double)j, below = (double)(g->n - 1 - j);
    if (g->param[GX_GALLERY_K] != 0) {
        above = sqrt((double)j * (double)(g->n - j));
        below = sqrt((double)(j + 1) * (double)(g->n - 1 - j));
    }
    clear(m, out);
    put(i0, m, out, j - 1, above);
    put(i0, m, out, j + 1, below);
}

/* 1 / (i + 1) below, -(2 i + 3) on, i + 1 above the diagonal. */
void gx_form_lesp(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    (void)g;
    clear(m, out);
    put(i0, m, out, j - 1, (double)(j + 1));
    put(i0, m, out, j, -(double)(2 * j + 5));
    put(i0, m, out, j + 1, 1.0 / (double)(j + 2));
}

/* |(n + 1) / 2 - i| on the diagonal, ones beside it: W_n^+. */
void gx_form_wilkinson(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    clear(m, out);
    put(i0, m, out, j - 1, 1.0);
    put(i0, m, out, j, fabs((double)(g->n - 1) / 2 - (double)j));
    put(i0, m, out, j + 1, 1.0);
}

/* The 5-point Laplacian of a root x root grid: 4, and -1 for each neighbour. */
void gx_form_poisson(const gx_gallery *g, int64_t i0, int64_t m, int64_t j, double *out)
{
    int64_t root = g->root, place = j % root;
    clear(m, out);
    put(i0, m, out, j - root, -1.0);
    if (place > 0) {
        put(i0, m, out, j - 1, -1.0);
    }
    put(i0, m, out, j, 4.0);
    if (place < root - 1) {
        put(i0, m, out, j + 1, -1.0);
    }
    put(i0, m, out, j + root, -1.0);
}
