/*
** gx_show(A, '{"colours":true}'): a grid, each cell two blanks on its colour, by ANSI's escape
** sequences (ECMA-48, SGR 48;5;n: 256 colours).
**
** 0 to 9 have colours that are told apart well; other whole numbers one of 216 each, with the
** number in it where two characters hold that.
*/
#include "gx_ext.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_CELLS = 1 << 20, CELL_BYTES = 10, NAMED = 10 };

/* Black, blue, red, green, yellow, grey, magenta, orange, sky blue, maroon. */
static const int named[NAMED] = {16, 27, 196, 34, 226, 246, 200, 208, 117, 88};

static void put_cell(gx_text *text, double value)
{
    char shown[8] = "  ";
    bool is_named = value >= 0 && value < NAMED;
    if (!is_named && value > -10 && value < 100) {
        snprintf(shown, sizeof shown, "%2d", (int)value);
    }
    int colour = is_named ? named[(int)value] : 16 + (int)fmod(fabs(value), 216);
    gx_text_printf(text, "\x1b[48;5;%dm%s", colour, shown);
}

/* All of A, at x. */
static bool put_rows(gx_fn *fn, const gx_mat *A, const double *x, gx_text *text)
{
    for (int64_t i = 0; i < A->rows && gx_ok(&fn->run); i++) {
        for (int64_t j = 0; j < A->cols; j++) {
            double value = x[i + j * A->rows];
            if (floor(value) != value || !isfinite(value)) {
                return gx_fn_fail(fn, "%s has %g at (%lld, %lld), but colours are whole numbers",
                                  A->label, value, (long long)i, (long long)j);
            }
            put_cell(text, value);
        }
        gx_text_puts(text, i + 1 < A->rows ? "\x1b[0m\n" : "\x1b[0m");
        gx_run_poll(&fn->run);
    }
    return gx_ok(&fn->run);
}

bool gx_show_colours(gx_fn *fn, const gx_mat *A, gx_text *text)
{
    gx_reader *reader;
    if (gx_number_is_complex(A->number) || A->number == GX_M31 || A->is_sparse) {
        return gx_fn_fail(fn, "colours are of dense matrices of real numbers, and %s is %s%s",
                          A->label, A->is_sparse ? "sparse, of " : "", gx_dtype_name(A->dtype));
    }
    if (A->rows > 0 && A->cols > MOST_CELLS / A->rows) {
        return gx_fn_fail(fn, "%s is %lldx%lld: colours are shown of at most %d cells (gx_slice)",
                          A->label, (long long)A->rows, (long long)A->cols, MOST_CELLS);
    }
    double *x = gx_fn_alloc(fn, (size_t)(A->rows * A->cols) * sizeof *x, "a grid");
    if (x == NULL || !gx_text_expect(text, (size_t)(A->rows * A->cols) * CELL_BYTES) ||
        !gx_look_open(fn, A, &reader)) {
        return false;
    }
    gx_fn_check(fn, gx_mat_read(&fn->run, A, reader, 0, 0, A->rows, A->cols, GX_F64, x,
                                gx_max(1, A->rows), &fn->err));
    gx_reader_close(reader);
    return gx_ok(&fn->run) && put_rows(fn, A, x, text);
}
