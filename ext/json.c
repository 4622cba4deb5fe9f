/*
** gx_json(A): a matrix as a JSON text that reads back as the same matrix.
**
** Numbers have the fewest digits that read back exactly (f32: exactly as f32).  JSON has neither
** NaN nor infinities nor complex numbers: they are null, 9.0e999 and strings "1.0+2.0i", which a
** literal takes.  Elements of a dtype of whole numbers have no point, and all their digits.
**
** The text goes row by row, a stored matrix lies in tiles: a strip of rows, as tall as a tile where
** the memory allows, is read at a time, so each tile is read once.  Memory: the strip (see
** gx_look_strip_rows()) and the text.  Checked against the length limit before the first read,
** by the shortest text that there can be.
*/
#include "gx_ext.h"

#include "../core/base/decimal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the longest element: two numbers, a sign, quotes, unit, comma. */
enum { ELEMENT_MAX = 2 * GX_DECIMAL_MAX + 8 };

static char *put_real(char *to, double value, bool is_f32)
{
    if (isnan(value)) {
        return stpcpy(to, "null");
    }
    if (isinf(value)) {
        return stpcpy(to, value < 0 ? "-9.0e999" : "9.0e999");
    }
    return to + (is_f32 ? gx_decimal_format_f32((float)value, to) : gx_decimal_format(value, to));
}

static char *put_complex(char *to, gx_scalar value, bool is_f32)
{
    char im[GX_DECIMAL_MAX];
    *to++ = '"';
    if (is_f32) {
        to += gx_decimal_format_f32((float)value.re, to);
        gx_decimal_format_f32((float)value.im, im);
    } else {
        to += gx_decimal_format(value.re, to);
        gx_decimal_format(value.im, im);
    }
    if (im[0] != '-') {
        *to++ = '+';
    }
    to = stpcpy(to, im);
    return stpcpy(to, "i\"");
}

static char *put_element(char *to, gx_dtype dtype, const void *strip, int64_t k)
{
    gx_number number = gx_dtype_number(dtype);
    if (gx_dtype_is_whole(dtype)) {
        return to + snprintf(to, ELEMENT_MAX, "%" PRId64, gx_look_whole(dtype, strip, k));
    }
    gx_scalar value = gx_number_get(number, strip, k);
    bool is_f32 = !gx_number_is_double(number);
    return gx_number_is_complex(number) ? put_complex(to, value, is_f32)
                                        : put_real(to, value.re, is_f32);
}

/* Row i of the strip. */
static void put_row(gx_text *text, gx_dtype dtype, const void *strip, int64_t ld, int64_t i,
                    int64_t cols)
{
    gx_text_put(text, "[", 1);
    for (int64_t j = 0; j < cols; j++) {
        char *room = gx_text_room(text, ELEMENT_MAX);
        if (room == NULL || (j % 4096 == 4095 && gx_run_poll(text->run) != GX_OK)) {
            return;
        }
        char *to = room;
        if (j > 0) {
            *to++ = ',';
        }
        to = put_element(to, dtype, strip, j * ld + i);
        text->used += (size_t)(to - room);
    }
    gx_text_put(text, "]", 1);
}

/* No text of that shape is shorter: "0,", "0.0," or "1.0+0.0i", brackets and commas. */
static size_t shortest_text(const gx_mat *A)
{
    int64_t element = gx_number_is_complex(A->number) ? 11 : gx_dtype_is_whole(A->dtype) ? 2 : 4;
    return (size_t)(A->rows * A->cols * element + (A->cols == 0 ? 3 : 2) * A->rows);
}

static void write_text(gx_fn *fn, gx_mat *A, gx_reader *reader, gx_text *text)
{
    gx_dtype dtype = gx_look_exactly(A);
    int64_t height = gx_look_strip_rows(fn, A);
    void *strip;
    if (!gx_look_buffer(fn, A, height, A->cols, &strip)) {
        return;
    }
    gx_text_put(text, "[", 1);
    for (int64_t i0 = 0; i0 < A->rows && gx_ok(&fn->run); i0 += height) {
        int64_t m = gx_min(height, A->rows - i0);
        if (!gx_look_read(fn, A, reader, i0, 0, m, A->cols, strip, m)) {
            return;
        }
        for (int64_t i = 0; i < m && gx_ok(&fn->run); i++) {
            if (i0 + i > 0) {
                gx_text_put(text, ",", 1);
            }
            put_row(text, dtype, strip, m, i, A->cols);
            if (i % 64 == 63) {
                gx_run_poll(&fn->run);
            }
        }
        gx_run_poll(&fn->run);
    }
    gx_text_put(text, "]", 1);
}

void gx_look_json(gx_fn *fn)
{
    gx_mat A;
    gx_reader *reader;
    gx_text text;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_matrix(fn, 0, "A", &A)) {
        return;
    }
    gx_text_begin(&text, &fn->run);
    if (gx_text_expect(&text, shortest_text(&A)) && gx_look_open(fn, &A, &reader)) {
        write_text(fn, &A, reader, &text);
        gx_reader_close(reader);
    }
    gx_fn_result_text(fn, &text);
    gx_fn_result_is_json(fn);
}
