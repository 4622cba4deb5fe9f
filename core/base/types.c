/*
** Numbers and checked sizes: see types.h.
*/
#include "types.h"

#include <stdio.h>
#include <string.h>

const char *gx_number_name(gx_number dtype)
{
    static const char *const names[GX_NUMBER_COUNT] = {"f64", "f32", "c128", "c64", "m31"};
    return (unsigned)dtype < GX_NUMBER_COUNT ? names[dtype] : "?";
}

double gx_number_eps(gx_number dtype)
{
    return gx_number_is_double(dtype) ? 0x1p-52 : 0x1p-23;
}

double gx_number_least(gx_number dtype)
{
    return gx_number_is_double(dtype) ? 0x1p-1022 : 0x1p-126;
}

gx_number gx_number_promote(gx_number a, gx_number b)
{
    if (a == GX_M31 || b == GX_M31) {
        return GX_M31; // a whole number has an element; others are refused when they are read
    }
    bool is_complex = gx_number_is_complex(a) || gx_number_is_complex(b);
    bool is_double = gx_number_is_double(a) || gx_number_is_double(b);
    if (is_complex) {
        return is_double ? GX_C128 : GX_C64;
    }
    return is_double ? GX_F64 : GX_F32;
}

gx_number gx_number_wide(gx_number dtype)
{
    return gx_number_is_complex(dtype) ? GX_C128 : GX_F64;
}

gx_number gx_number_real(gx_number dtype)
{
    return dtype == GX_M31 ? GX_M31 : gx_number_is_double(dtype) ? GX_F64 : GX_F32;
}

gx_trans gx_adjoint(gx_number dtype)
{
    return gx_number_is_complex(dtype) ? GX_CONJ_TRANS : GX_TRANS;
}

/* By bit number. */
static const char *const property_names[] = {"symmetric", "hermitian", "positive",   "lower",
                                             "upper",     "unit",      "orthogonal", "lu",
                                             "qr",        "quantized"};

enum { PROPERTIES = sizeof property_names / sizeof property_names[0] };

const char *gx_properties_text(uint32_t properties, char text[GX_PROPERTIES_MAX])
{
    size_t n = 0;
    text[0] = '\0';
    for (int bit = 0; bit < PROPERTIES; bit++) {
        if ((properties >> bit & 1) != 0) {
            n += (size_t)snprintf(text + n, GX_PROPERTIES_MAX - n, "%s%s", n == 0 ? "" : ",",
                                  property_names[bit]);
        }
    }
    return text;
}

bool gx_property_parse(const char *name, uint32_t *bit)
{
    for (int b = 0; b < PROPERTIES; b++) {
        if (strcmp(name, property_names[b]) == 0 &&
            ((GX_PROP_FACTOR | GX_PROP_QUANTIZED) >> b & 1) == 0) {
            *bit = (uint32_t)1 << b;
            return true;
        }
    }
    return false;
}

bool gx_mul_size(size_t a, size_t b, size_t *out)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product)) {
        return false;
    }
    *out = product;
    return true;
}

bool gx_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product)) {
        return false;
    }
    *out = product;
    return true;
}

bool gx_matrix_bytes(int64_t rows, int64_t cols, gx_number dtype, size_t *bytes)
{
    return gx_elements_bytes(rows, cols, gx_number_bytes(dtype), bytes);
}

bool gx_elements_bytes(int64_t rows, int64_t cols, size_t element, size_t *bytes)
{
    size_t elements, total;
    bool is_possible = rows >= 0 && cols >= 0 && rows <= GX_SIDE_MAX && cols <= GX_SIDE_MAX &&
                       gx_mul_size((size_t)rows, (size_t)cols, &elements) &&
                       gx_mul_size(elements, element, &total) &&
                       total <= GX_BYTES_MAX;
    *bytes = is_possible ? total : SIZE_MAX / 16;
    return is_possible;
}
