/*
** Fourier, cosine and sine transforms of the columns or rows of a matrix, with NumPy's and SciPy's
** definitions.
*/
#ifndef GX_FFT_H
#define GX_FFT_H

#include "../mat/mat.h"

typedef enum gx_fft_kind {
    GX_FFT_FORWARD, /* to complex numbers; of real ones with half of the work     */
    GX_FFT_INVERSE,
    GX_FFT_REAL,         /* of real numbers, to n / 2 + 1 complex ones                 */
    GX_FFT_REAL_INVERSE, /* back                                                       */
    GX_FFT_COSINE,       /* of real numbers, types 1 to 4                              */
    GX_FFT_SINE,
    GX_FFT_KINDS
} gx_fft_kind;

/* By which a transform is divided: nothing where it goes forward, n back; its root; the reverse. */
typedef enum gx_fft_norm { GX_FFT_BACKWARD, GX_FFT_ORTHO, GX_FFT_UNIT } gx_fft_norm;
#define GX_FFT_NORMS "backward|ortho|forward"

typedef struct gx_fft_args {
    gx_fft_kind kind;
    int64_t n;    /* length of a line, of REAL_INVERSE of a result: what is longer is cut, what is
                     shorter has zeros behind it */
    int64_t axis; /* 0: columns; 1: rows */
    gx_fft_norm norm;
    int type;        /* of COSINE and SINE                     */
    bool is_inverse; /* of these: what leads back from the type */
    int64_t whole;   /* of FORWARD along rows: A is the first half of so many rows, of which each of
                        the others is the conjugate of one, as columns of real numbers have it: the
                        result has all of them; 0: A is all there is */
} gx_fft_args;

/*
** Of a matrix of numbers of a kind: what comes out.  GX_ARG in words: n < 1, one that a type has
** not, complex numbers where real ones are wanted, m31.
*/
gx_code gx_fft_shape(const gx_fft_args *args, gx_number from, int64_t rows, int64_t cols,
                     gx_number *number, int64_t *to_rows, int64_t *to_cols, gx_err *err);

/* By which sums are multiplied: 1, 1 / n or its root, as the norm has it. */
double gx_fft_scale(const gx_fft_args *args);

/*
** Tiles for a result of that shape: strips of lines along either axis hold whole ones of them.
** wanted: where it is to be stored, whose tiles are taken where a strip holds them; or NULL.
*/
void gx_fft_tiles(gx_run *run, const gx_fft_args *args, const gx_mat *A, const gx_sink *wanted,
                  int64_t *tile_rows, int64_t *tile_cols);

/*
** C = the transform of A.  Lines in strips, as many at a time as memory holds; A is read once.
** GX_BUDGET where it does not hold one line.
*/
gx_code gx_alg_fft(gx_run *run, const gx_fft_args *args, const gx_mat *A, gx_sink *C);

#endif
