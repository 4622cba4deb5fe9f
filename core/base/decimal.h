/*
** Numbers as text: exact both ways, whatever the process's locale.
**
** Parsing rounds correctly (the nearest double, ties to even); printing gives the fewest digits
** that read back as the same number, spelled as Python's repr() does: 0.1, 1.0, 1e-05, 1.5e+300.
*/
#ifndef GX_DECIMAL_H
#define GX_DECIMAL_H

#include "types.h"

enum {
    GX_DECIMAL_MAX = 32, /* bytes that any number printed here fits in, NUL included */
    GX_POW10_MIN = -342, /* the powers of ten of decimal_table.c                     */
    GX_POW10_MAX = 324
};

/*
** Read one number from [text, end): optional sign; digits with an optional point and exponent,
** as JSON, C, Python, Octave and NumPy write them ("1", "-1.5e3", "5.", ".5"); or nan, inf,
** infinity in any case.  Past the range of a double it is infinite or 0.  *stop: first byte not
** read. Returns false, with nothing changed, when there is no number at text.  No white space is
** skipped, no hexadecimal read.
*/
bool gx_decimal_parse(const char *text, const char *end, const char **stop, double *value);

/*
** Read a complex number: "1.5", "2i", "-j", "1+2i", "(1-2.5e3j)", "nan - infi"; white space
** around signs and at the ends is skipped; all of [text, end) must be used.  *is_complex: an
** imaginary part was written.
*/
bool gx_decimal_parse_complex(const char *text, const char *end, gx_scalar *value,
                              bool *is_complex);

/* An integer in decimal, all of [text, end); false when it is none or does not fit. */
bool gx_decimal_parse_i64(const char *text, const char *end, int64_t *value);

/* Print; returns the length.  Not finite: "nan", "inf", "-inf". */
int gx_decimal_format(double value, char text[GX_DECIMAL_MAX]);

/* The same with the fewest digits that read back as the same binary32: 0.1f is "0.1". */
int gx_decimal_format_f32(float value, char text[GX_DECIMAL_MAX]);

/* The same with at most that many significant digits (1 .. 17), correctly rounded. */
int gx_decimal_format_places(double value, int places, char text[GX_DECIMAL_MAX]);

/*
** The shortest digits of a finite value > 0: value ~ 0.d1d2d3... x 10^point.  digits holds up to
** 17 characters '0'..'9' without leading or trailing zeros; returns their count.  is_f32: see
** format_f32.
*/
int gx_decimal_digits(double value, bool is_f32, char digits[GX_DECIMAL_MAX], int *point);

/* 10^k as 128 bits, rounded up, high word first, for k = GX_POW10_MIN .. GX_POW10_MAX. */
const uint64_t *gx_decimal_pow10(int64_t k);

#endif
