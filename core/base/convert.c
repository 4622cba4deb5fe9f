/*
** Conversion between numbers, and between numbers and stored elements: see convert.h.
**
** An element passes through complex doubles, which hold every number exactly.  The common cases
** (same number; f32 <-> f64) have loops of their own that the compiler vectorises.  Double to
** single rounds to nearest; overflow becomes Inf, as IEEE 754 says.
*/
#include "convert.h"

#include <math.h>
#include <string.h>

enum { STRIP = 256 };

static void convert_column(gx_number from, const void *src, gx_number to, void *dst, int64_t m)
{
    if (from == GX_F32 && to == GX_F64) {
        const float *f = src;
        double *d = dst;
        for (int64_t i = 0; i < m; i++) {
            d[i] = (double)f[i];
        }
        return;
    }
    if (from == GX_F64 && to == GX_F32) {
        const double *d = src;
        float *f = dst;
        for (int64_t i = 0; i < m; i++) {
            f[i] = (float)d[i];
        }
        return;
    }
    for (int64_t i = 0; i < m; i++) {
        gx_number_put(to, dst, i, gx_number_get(from, src, i));
    }
}

void gx_convert(gx_number from, const void *src, int64_t ld_src, gx_number to, void *dst,
                int64_t ld_dst, int64_t m, int64_t n)
{
    if (m == 0 || n == 0) {
        return;
    }
    size_t column_bytes = (size_t)m * gx_number_bytes(to);
    if (from == to && ld_src == m && ld_dst == m) {
        memcpy(dst, src, column_bytes * (size_t)n);
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        const void *x = gx_at(src, from, ld_src, 0, j);
        void *y = gx_at(dst, to, ld_dst, 0, j);
        if (from == to) {
            memcpy(y, x, column_bytes);
        } else {
            convert_column(from, x, to, y, m);
        }
    }
}

// The seam ----------------------------------------------------------------------------------------

static gx_code refuse_inexact(const void *from, gx_err *err)
{
    int64_t x;
    memcpy(&x, from, sizeof x);
    return gx_fail(err, GX_ARG,
                   "an element is %lld, an i64 that f64 does not hold: arithmetic would round it "
                   "(option \"round\":true of gx_cast does)",
                   (long long)x);
}

/* The first of count doubles that is no whole number; -1: all are. */
static int64_t first_fraction(const double *x, int64_t count)
{
    int64_t p = 0;
    while (p < count && isfinite(x[p]) && floor(x[p]) == x[p]) {
        p++;
    }
    return p < count ? p : -1;
}

static gx_code refuse_fraction(double x, gx_err *err)
{
    return gx_fail(err, GX_ARG, "an element is %.9g, and m31 has whole numbers alone", x);
}

/* Elements of another dtype modulo 2^31 - 1. */
static gx_code widen_to_field(gx_dtype from, const void *src, int64_t ld_src, uint32_t *dst,
                              int64_t ld_dst, int64_t m, int64_t n, gx_err *err)
{
    double strip[STRIP];
    const int64_t p = GX_M31_P;
    for (int64_t j = 0; j < n; j++) {
        const int64_t *whole = gx_dtype_at(src, from, ld_src, 0, j);
        for (int64_t i = 0; i < m && from == GX_DTYPE_I64; i++) {
            dst[j * ld_dst + i] = (uint32_t)((whole[i] % p + p) % p);
        }
        for (int64_t i = 0; i < m && from != GX_DTYPE_I64; i += STRIP) {
            int64_t count = gx_min(STRIP, m - i);
            GX_TRY(gx_widen(from, gx_dtype_at(src, from, ld_src, i, j), count, GX_F64, strip, count,
                            count, 1, err));
            int64_t bad = first_fraction(strip, count);
            if (bad >= 0) {
                return refuse_fraction(strip[bad], err);
            }
            for (int64_t q = 0; q < count; q++) {
                dst[j * ld_dst + i + q] = gx_m31_of(strip[q]);
            }
        }
    }
    return GX_OK;
}

gx_code gx_widen(gx_dtype from, const void *src, int64_t ld_src, gx_number to, void *dst,
                 int64_t ld_dst, int64_t m, int64_t n, gx_err *err)
{
    if (to == GX_M31 && from != GX_DTYPE_M31) {
        return widen_to_field(from, src, ld_src, dst, ld_dst, m, n, err);
    }
    gx_number wide = gx_dtype_number(from);
    if (gx_dtype_is_number(from)) {
        gx_convert(wide, src, ld_src, to, dst, ld_dst, m, n);
        return GX_OK;
    }
    for (int64_t j = 0; j < n; j++) {
        const void *column = gx_dtype_at(src, from, ld_src, 0, j);
        int64_t bad = err == NULL ? -1 : gx_dtype_inexact(from, column, m);
        if (bad >= 0) {
            return refuse_inexact(gx_dtype_at(column, from, m, bad, 0), err);
        }
        if (wide == to) {
            gx_dtype_widen(from, gx_dtype_at(src, from, ld_src, 0, j), m,
                           gx_at(dst, to, ld_dst, 0, j));
            continue;
        }
        double strip[STRIP];
        for (int64_t i = 0; i < m; i += STRIP) {
            int64_t count = gx_min(STRIP, m - i);
            gx_dtype_widen(from, gx_dtype_at(src, from, ld_src, i, j), count, strip);
            gx_convert(wide, strip, count, to, gx_at(dst, to, ld_dst, i, j), count, count, 1);
        }
    }
    return GX_OK;
}

gx_code gx_widen_in_place(gx_dtype from, gx_number to, void *at, int64_t count, gx_err *err)
{
    enum { FEW = 512 };
    _Alignas(64) char few[FEW * sizeof(gx_scalar)];
    size_t wide = gx_number_bytes(to), narrow = gx_dtype_bytes(from);
    const char *elements = (const char *)at + (size_t)count * (wide - narrow);
    for (int64_t e = 0; e < count && !gx_dtype_is(from, to); e += FEW) {
        int64_t n = gx_min(FEW, count - e);
        memcpy(few, elements + (size_t)e * narrow, (size_t)n * narrow);
        GX_TRY(gx_widen(from, few, n, to, (char *)at + (size_t)e * wide, n, n, 1, err));
    }
    return GX_OK;
}

static gx_code refuse(const gx_narrowing *to, int64_t i, int64_t j, double x, gx_err *err)
{
    return gx_fail(err, GX_ARG, "element (%lld, %lld) is %.9g, and %s holds %s%s",
                   (long long)(to->i0 + i), (long long)(to->j0 + j), x, gx_dtype_name(to->dtype),
                   gx_dtype_range(to->dtype),
                   to->saturate || x != x ? "" : " (option \"saturate\":true clips)");
}

gx_code gx_narrow_to(gx_number from, const void *src, int64_t ld_src, const gx_narrowing *to,
                     void *dst, int64_t ld_dst, int64_t m, int64_t n, gx_err *err)
{
    if (to->dtype == GX_DTYPE_M31) {
        return gx_widen(gx_dtype_of(from), src, ld_src, GX_M31, dst, ld_dst, m, n, err);
    }
    if (gx_dtype_is_number(to->dtype)) {
        gx_convert(from, src, ld_src, gx_dtype_number(to->dtype), dst, ld_dst, m, n);
        return GX_OK;
    }
    double strip[STRIP];
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i += STRIP) {
            int64_t count = gx_min(STRIP, m - i);
            gx_convert(from, gx_at(src, from, ld_src, i, j), count, GX_F64, strip, count, count, 1);
            int64_t bad = gx_dtype_narrow(to->dtype, strip, count, to->saturate,
                                          gx_dtype_at(dst, to->dtype, ld_dst, i, j));
            if (bad >= 0) {
                return refuse(to, i + bad, j, strip[bad], err);
            }
        }
    }
    return GX_OK;
}
