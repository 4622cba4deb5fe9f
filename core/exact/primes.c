/*
** Results over the whole numbers from those modulo many primes: see exact.h.
**
** Hadamard's inequality bounds what comes out, so many primes below 2^31 as pass the bound decide
** it (the Chinese remainder theorem), and nothing is left to chance.  A number is put together by
** Garner's digits: x = d[0] + d[1] p[0] + d[2] p[0] p[1] + ..., the digits modulo the primes, then
** the number by Horner's scheme.
*/
#include "exact.h"

#include "../alg/dense.h"

#include <math.h>
#include <string.h>

/* The largest primes below 2^31, from the top, and what Garner's digits take. */
typedef struct primes {
    gx_run *run;
    int64_t count;
    uint32_t *p;       /* count primes                              */
    uint32_t *inverse; /* of p[0] ... p[k - 1] modulo p[k]          */
    gx_whole product;  /* of all                                    */
} primes;

/* The next smaller prime. */
static uint32_t prime_below(uint32_t p)
{
    do {
        p -= p == 3 ? 1 : 2;
    } while (!gx_is_prime(p));
    return p;
}

static void clear_primes(primes *s)
{
    gx_mem_free(s->run->ctx->mem, s->p);
    gx_mem_free(s->run->ctx->mem, s->inverse);
    gx_whole_clear(&s->product);
}

static gx_code take_primes(gx_run *run, int64_t most, primes *s)
{
    *s = (primes){.run = run};
    gx_whole_begin(&s->product, run->ctx->mem);
    s->p = gx_run_alloc(run, (size_t)most * sizeof *s->p, "primes");
    s->inverse = gx_run_alloc(run, (size_t)most * sizeof *s->inverse, "primes");
    gx_err err = {0};
    if (s->inverse != NULL && gx_whole_set(&s->product, 1, &err) != GX_OK) {
        gx_run_fail(run, &err);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

/* One more, which is smaller than those before. */
static void add_prime(primes *s, uint32_t p)
{
    uint32_t product = 1;
    gx_err err = {0};
    for (int64_t k = 0; k < s->count; k++) {
        product = gx_field_mul(product, s->p[k] % p, p);
    }
    s->p[s->count] = p;
    s->inverse[s->count++] = gx_field_inverse(product, p);
    if (gx_whole_times(&s->product, p, 0, &err) != GX_OK) {
        gx_run_fail(s->run, &err);
    }
}

/* So many primes pass 2^bits. */
static int64_t primes_for(double bits)
{
    const double BITS = 30.99; // of the first two million primes below 2^31
    return (int64_t)(bits / BITS) + 2;
}

/* Residues to digits, in their place; they are `apart`. */
static void digits_of(const primes *s, uint32_t *x, int64_t apart)
{
    for (int64_t k = 1; k < s->count; k++) {
        uint32_t p = s->p[k];
        uint64_t sum = x[(k - 1) * apart] % p;
        for (int64_t j = k - 2; j >= 0; j--) {
            sum = (sum * s->p[j] + x[j * apart]) % p;
        }
        x[k * apart] = gx_field_mul(gx_field_sub(x[k * apart], (uint32_t)sum, p), s->inverse[k], p);
    }
}

/* The number between -product / 2 and product / 2 that has these residues, which are destroyed. */
static gx_code unite(const primes *s, uint32_t *x, int64_t apart, gx_whole *to, gx_err *err)
{
    gx_whole twice = {.mem = to->mem};
    digits_of(s, x, apart);
    GX_TRY(gx_whole_set(to, 0, err));
    for (int64_t k = s->count - 1; k >= 0; k--) {
        GX_TRY(gx_whole_times(to, s->p[k], x[k * apart], err));
    }
    gx_code code = gx_whole_copy(&twice, to, err);
    code = code == GX_OK ? gx_whole_times(&twice, 2, 0, err) : code;
    if (code == GX_OK && gx_whole_compare(&twice, &s->product) > 0) {
        code = gx_whole_from(to, &s->product, err);
        to->is_negative = code == GX_OK;
    }
    gx_whole_clear(&twice);
    return code;
}

// Bounds ------------------------------------------------------------------------------------------

/* log2 of the product of the lengths of the rows or columns, those below 1 counted as 1. */
static double bits_along(const int64_t *a, int64_t rows, int64_t cols, bool by_row)
{
    double bits = 0;
    for (int64_t l = 0; l < (by_row ? rows : cols); l++) {
        double sum = 0;
        for (int64_t k = 0; k < (by_row ? cols : rows); k++) {
            double x = (double)(by_row ? a[l + k * rows] : a[k + l * rows]);
            sum += x * x;
        }
        bits += sum > 1 ? 0.5 * log2(sum) + 1e-9 : 0;
    }
    return bits;
}

/* No minor of the matrix has more. */
static double bits_of(const int64_t *a, int64_t rows, int64_t cols)
{
    return fmin(bits_along(a, rows, cols, true), bits_along(a, rows, cols, false));
}

// Determinants, ranks -----------------------------------------------------------------------------

/* A modulo p, eliminated; x: room for it. */
static bool eliminate(gx_run *run, const int64_t *a, int64_t rows, int64_t cols, uint32_t p,
                      uint32_t *x, gx_echelon *e)
{
    *e = (gx_echelon){.run = run, .p = p, .rows = rows, .cols = cols, .x = x};
    gx_exact_residues(a, rows * cols, p, x);
    return gx_exact_eliminate(e) == GX_OK;
}

gx_code gx_exact_det(gx_run *run, const int64_t *a, int64_t n, gx_whole *det)
{
    int64_t count = primes_for(bits_of(a, n, n) + 2);
    primes s;
    uint32_t *x = NULL, *residue = NULL, p = GX_M31_P;
    take_primes(run, count, &s);
    gx_dense_alloc(run, GX_M31, n, n, "a matrix modulo p", &x);
    gx_dense_alloc(run, GX_M31, count, 1, "residues", &residue);
    gx_run_progress(run, (double)count);
    for (int64_t k = 0; k < count && gx_ok(run); k++) {
        gx_echelon e;
        if (eliminate(run, a, n, n, p, x, &e)) {
            residue[k] = gx_echelon_det(&e);
            add_prime(&s, p);
            p = prime_below(p);
            gx_run_advance(run, 1);
        }
        gx_echelon_clear(&e);
    }
    gx_err err = {0};
    if (gx_ok(run) && unite(&s, residue, 1, det, &err) != GX_OK) {
        gx_run_fail(run, &err);
    }
    gx_mem_free(run->ctx->mem, x);
    gx_mem_free(run->ctx->mem, residue);
    clear_primes(&s);
    return gx_ok(run) ? GX_OK : run->err.code;
}

gx_code gx_exact_rank(gx_run *run, const int64_t *a, int64_t rows, int64_t cols, int64_t *rank)
{
    int64_t most = gx_min(rows, cols);
    uint32_t *x, p = GX_M31_P;
    *rank = 0;
    if (most == 0) {
        return gx_ok(run) ? GX_OK : run->err.code; // whose other side may be endless
    }
    int64_t count = primes_for(bits_of(a, rows, cols) + 1);
    gx_dense_alloc(run, GX_M31, rows, cols, "a matrix modulo p", &x);
    gx_run_progress(run, (double)count);
    // A minor that is 0 modulo all of them is 0.
    for (int64_t k = 0; k < count && *rank < most && gx_ok(run); k++) {
        gx_echelon e;
        if (eliminate(run, a, rows, cols, p, x, &e)) {
            *rank = gx_max(*rank, e.rank);
            p = prime_below(p);
            gx_run_advance(run, 1);
        }
        gx_echelon_clear(&e);
    }
    gx_mem_free(run->ctx->mem, x);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Systems -----------------------------------------------------------------------------------------

/* det A and det A times the solution modulo each of s: residues + k (n cols + 1), det the last. */
typedef struct system {
    gx_run *run;
    const int64_t *a, *b;
    int64_t n, cols;
    uint32_t *x, *rhs, *residues;
} system_of;

/* false: p divides the determinant, or the run has failed. */
static bool solve_once(const system_of *s, uint32_t p, uint32_t *residues)
{
    gx_echelon e;
    bool is_solved = false;
    int64_t count = s->n * s->cols;
    if (eliminate(s->run, s->a, s->n, s->n, p, s->x, &e) && e.rank == s->n) {
        gx_exact_residues(s->b, count, p, s->rhs);
        uint32_t det = gx_echelon_det(&e);
        if (gx_echelon_solve(&e, s->rhs, s->cols, residues, &is_solved) == GX_OK) {
            for (int64_t q = 0; q < count; q++) {
                residues[q] = gx_field_mul(residues[q], det, p);
            }
            residues[count] = det;
        }
    }
    gx_echelon_clear(&e);
    return is_solved && gx_ok(s->run);
}

static void unite_all(const system_of *s, const primes *all, gx_whole *numerators, gx_whole *det)
{
    gx_err err = {0};
    int64_t count = s->n * s->cols, apart = count + 1;
    for (int64_t q = 0; q <= count && gx_ok(s->run) && gx_run_poll(s->run) == GX_OK; q++) {
        if (unite(all, s->residues + q, apart, q == count ? det : &numerators[q], &err) != GX_OK) {
            gx_run_fail(s->run, &err);
        }
    }
}

gx_code gx_exact_solve(gx_run *run, const char *label, const int64_t *a, int64_t n,
                       const int64_t *b, int64_t cols, gx_whole *numerators, gx_whole *det)
{
    double longest = 0;
    for (int64_t j = 0; j < cols && n > 0; j++) {
        longest = fmax(longest, bits_along(b + j * n, n, 1, false));
    }
    double bits = bits_along(a, n, n, false);
    int64_t count = primes_for(bits + longest + 2), spare = primes_for(bits), zeros = 0;
    uint32_t p = GX_M31_P;
    primes all;
    system_of s = {.run = run, .a = a, .b = b, .n = n, .cols = cols};
    take_primes(run, count, &all);
    gx_dense_alloc(run, GX_M31, n, n, "a matrix modulo p", &s.x);
    gx_dense_alloc(run, GX_M31, n, cols, "right-hand sides modulo p", &s.rhs);
    gx_dense_alloc(run, GX_M31, n * cols + 1, count, "residues", &s.residues);
    gx_run_progress(run, (double)count);
    while (all.count < count && gx_ok(run)) {
        if (solve_once(&s, p,
                       s.residues == NULL ? NULL : s.residues + all.count * (n * cols + 1))) {
            add_prime(&all, p);
            gx_run_advance(run, 1);
        } else if (gx_ok(run) && ++zeros > spare) { // 0 modulo more primes than it has bits for
            gx_run_failf(run, GX_NUMERIC, "%s is singular", label);
        }
        p = prime_below(p);
    }
    unite_all(&s, &all, numerators, det);
    gx_mem_free(run->ctx->mem, s.x);
    gx_mem_free(run->ctx->mem, s.rhs);
    gx_mem_free(run->ctx->mem, s.residues);
    clear_primes(&all);
    return gx_ok(run) ? GX_OK : run->err.code;
}

__extension__ typedef unsigned __int128 wide;

// Products ----------------------------------------------------------------------------------------

static double size_of(const int64_t *x, int64_t count)
{
    double most = 1;
    for (int64_t k = 0; k < count; k++) {
        most = fmax(most, fabs((double)x[k]));
    }
    return most;
}

/*
** The residues of x + 2^63, K of them m n apart, as a number of 64 bits.  false: x is none.
*/
static bool join(const primes *s, uint32_t *x, int64_t apart, int64_t *to)
{
    digits_of(s, x, apart);
    wide sum = 0;
    bool fits = true;
    for (int64_t k = s->count - 1; k >= 3; k--) {
        fits = fits && x[k * apart] == 0;
    }
    for (int64_t k = 2; k >= 0; k--) {
        sum = sum * s->p[k] + x[k * apart];
    }
    *to = (int64_t)((uint64_t)sum - ((uint64_t)1 << 63));
    return fits && sum >> 64 == 0;
}

gx_code gx_exact_product(gx_run *run, int64_t m, int64_t n, int64_t k, const int64_t *a,
                         const int64_t *b, int64_t *c)
{
    double most = (double)k * size_of(a, m * k) * size_of(b, k * n) + 0x1p63;
    int64_t count = gx_max(3, primes_for(log2(most) + 1)), elements = m * n;
    primes s;
    uint32_t p = GX_M31_P, *x = NULL, *y = NULL, *residues = NULL;
    if (gx_exact_small_product(run, m, n, k, a, b, c)) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    take_primes(run, count, &s);
    gx_dense_alloc(run, GX_M31, m, k, "a matrix modulo p", &x);
    gx_dense_alloc(run, GX_M31, k, n, "a matrix modulo p", &y);
    gx_dense_alloc(run, GX_M31, elements, count, "residues", &residues);
    for (int64_t q = 0; q < count && gx_ok(run); q++) {
        uint32_t *z = residues + q * elements, shift = gx_field_pow(2, 63, p);
        gx_exact_residues(a, m * k, p, x);
        gx_exact_residues(b, k * n, p, y);
        gx_exact_multiply(run, p, m, n, k, x, y, z);
        for (int64_t e = 0; e < elements; e++) {
            z[e] = gx_field_add(z[e], shift, p);
        }
        add_prime(&s, p);
        p = prime_below(p);
    }
    for (int64_t e = 0; e < elements && gx_ok(run); e++) {
        if (!join(&s, residues + e, elements, &c[e])) {
            gx_run_failf(run, GX_TOOBIG,
                         "element (%lld, %lld) of the product needs more than 64 bits",
                         (long long)(e % m), (long long)(e / m));
        }
    }
    gx_mem_free(run->ctx->mem, x);
    gx_mem_free(run->ctx->mem, y);
    gx_mem_free(run->ctx->mem, residues);
    clear_primes(&s);
    return gx_ok(run) ? GX_OK : run->err.code;
}
