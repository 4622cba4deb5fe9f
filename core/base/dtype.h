/*
** Stored elements: the dtypes of dtype.def, and how their elements become numbers and come back.
**
** A gx_number (types.h) is what kernels compute with; a gx_dtype is what lies in a tile, a value, a
** file or an array of the application's.  The first GX_FLOATS dtypes, and m31, are the numbers
** themselves.  The compiler refuses one enum where the other belongs: the functions here are the
** only ways across.
*/
#ifndef GX_DTYPE_H
#define GX_DTYPE_H

#include "err.h"
#include "types.h"

typedef enum gx_dtype {
#define GX_COMPUTED(id, NAME, ...) GX_DTYPE_##NAME = (id),
#define GX_WIDENED GX_COMPUTED
#define GX_FIELD GX_COMPUTED
#include "dtype.def"
#undef GX_COMPUTED
#undef GX_WIDENED
#undef GX_FIELD
    GX_DTYPE_COUNT
} gx_dtype;

/*
** What a product may take both factors for without loss, their elements being of a and of b: F16 or
** BF16, of whose numbers the products are f32 numbers; F64: neither.
*/
gx_dtype gx_dtype_half(gx_dtype a, gx_dtype b);

/* What numbers are stored as where nothing else is asked for. */
static inline gx_dtype gx_dtype_of(gx_number number)
{
    return number == GX_M31 ? GX_DTYPE_M31 : (gx_dtype)number;
}

/* Stored as it is computed: no conversion comes between. */
static inline bool gx_dtype_is_number(gx_dtype dtype)
{
    return (unsigned)dtype < GX_FLOATS || dtype == GX_DTYPE_M31;
}

static inline bool gx_dtype_is(gx_dtype dtype, gx_number number)
{
    return dtype == gx_dtype_of(number);
}

gx_number gx_dtype_number(gx_dtype dtype); /* what its elements are computed as, without loss */
size_t gx_dtype_bytes(gx_dtype dtype);     /* of one element                                  */
size_t gx_dtype_alignment(gx_dtype dtype); /* of one element                                  */
const char *gx_dtype_name(gx_dtype dtype); /* "f64"; "?" for anything else.  Static string    */
const char *gx_dtype_npy(gx_dtype dtype);  /* "f8": what stands behind the byte order         */

/* gx's names and NumPy's; false when unknown, for a message with gx_dtype_names() in it. */
bool gx_dtype_parse(const char *name, gx_dtype *dtype);
const char *gx_dtype_names(void); /* "f64, f32, ..." */

/* The dtype that is called so in a .npy file, without its byte order. */
bool gx_dtype_of_npy(const char *name, size_t length, gx_dtype *dtype);

/* gx_matrix_bytes() of elements as they are stored. */
bool gx_dtype_matrix_bytes(int64_t rows, int64_t cols, gx_dtype dtype, size_t *bytes);

/* GX_ARG "A is c64 and f16 would lose the imaginary part", where it would. */
gx_code gx_dtype_takes(gx_dtype dtype, gx_number number, const char *label, gx_err *err);

static inline void *gx_dtype_at(const void *base, gx_dtype dtype, int64_t ld, int64_t i, int64_t j)
{
    return (char *)(uintptr_t)base + ((size_t)(j * ld + i)) * gx_dtype_bytes(dtype);
}

/* One element, wherever it lies, as a complex number. */
gx_scalar gx_dtype_get(gx_dtype dtype, const void *at);

/* count elements of a dtype that is no number's, ld apart, as doubles one after another. */
void gx_dtype_row(gx_dtype dtype, const void *at, int64_t ld, int64_t count, double *to);

/* bool, and the integers: its elements have no fractions and no NaN. */
bool gx_dtype_is_whole(gx_dtype dtype);

/* The first element that its number does not hold; -1: all are.  Of i64 alone there are some. */
int64_t gx_dtype_inexact(gx_dtype dtype, const void *from, int64_t count);

/* What a message says of an INTEGER of SQL that is inexact. */
#define GX_ROUNDS_TEXT "which f64 does not hold: CAST(x AS REAL) rounds it"

/* count elements to numbers of gx_dtype_number(); of a dtype that is no number.  Inexact ones are
** rounded. */
void gx_dtype_widen(gx_dtype dtype, const void *from, int64_t count, void *to);

/* count doubles to elements.  The first that is none, -1: all are.  saturate: clips but for NaN. */
int64_t gx_dtype_narrow(gx_dtype dtype, const double *from, int64_t count, bool saturate, void *to);

/* Are these elements of the dtype?  Not all of 32 bits are of m31. */
bool gx_dtype_is_sound(gx_dtype dtype, const void *from, int64_t count);

/* "0 to 255": what numbers it holds. */
const char *gx_dtype_range(gx_dtype dtype);

#endif
