/*
** The shape of a storage tile: see gx_tile_shape() in store.h.
**
** A tile holds up to E = max_tile_bytes / element size elements.  Where both sides of the matrix
** are longer than s = sqrt(E), a tile is about s x s.  Where one side is shorter, a tile takes all
** of it and as much of the other as fits: a scan reads long pieces, and a column of tiles is a
** panel.
**
** A long side is cut into equal pieces rather than into full ones and a remainder: 1100 = 576 +
** 524, not 1024 + 76, so that no tile is a sliver.  Cuts are multiples of 64 elements where they
** are longer than that, so that they suit every kernel's register block and cache line.
*/
#include "store_int.h"

static const int64_t MULTIPLE = 64;

/* Largest r with r * r <= n, n >= 0. */
static int64_t square_root(int64_t n)
{
    int64_t low = 0, high = (int64_t)1 << 31;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (middle <= n / middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The longest piece of at most `most`, in multiples of 64 unless all of the side fits. */
static int64_t cut(int64_t side, int64_t most)
{
    if (side <= most) {
        return side;
    }
    return most > MULTIPLE ? most / MULTIPLE * MULTIPLE : most;
}

/* The same, with the side cut into pieces of nearly one length. */
static int64_t cut_evenly(int64_t side, int64_t most)
{
    int64_t full = cut(side, most);
    int64_t piece = gx_ceil_div(side, gx_ceil_div(side, full));
    return gx_min(full, full > MULTIPLE ? gx_ceil_div(piece, MULTIPLE) * MULTIPLE : piece);
}

static bool is_countable(int64_t rows, int64_t cols, int64_t tile_rows, int64_t tile_cols)
{
    int64_t tiles;
    return gx_mul_i64(gx_ceil_div(rows, tile_rows), gx_ceil_div(cols, tile_cols), &tiles) &&
           tiles <= GX_TILES_MAX;
}

gx_code gx_tile_shape(int64_t rows, int64_t cols, gx_dtype dtype, size_t max_tile_bytes,
                      int64_t *tile_rows, int64_t *tile_cols, gx_err *err)
{
    size_t bytes;
    if (!gx_dtype_matrix_bytes(rows, cols, dtype, &bytes)) {
        return gx_fail(err, GX_TOOBIG, "a result of %lldx%lld %s: " GX_SIZES_TEXT,
                       (long long)rows, (long long)cols, gx_dtype_name(dtype));
    }
    int64_t element = (int64_t)gx_dtype_bytes(dtype);
    int64_t most_bytes = max_tile_bytes < (size_t)GX_TILE_BYTES_MAX ? (int64_t)max_tile_bytes
                                                                    : GX_TILE_BYTES_MAX;
    int64_t elements = most_bytes / element;
    if (elements < 1) {
        return gx_fail(err, GX_TOOBIG, "an element of %lld bytes does not fit a tile of %lld",
                       (long long)element, (long long)most_bytes);
    }

    // An empty side counts as one, so that the shape is at least 1 x 1.
    int64_t m = gx_max(rows, 1), n = gx_max(cols, 1);
    if (m <= elements / n) { // one tile: at once, because every small value comes by here
        *tile_rows = m;
        *tile_cols = n;
        return GX_OK;
    }
    int64_t side = square_root(elements);
    int64_t p, q;
    if (n <= side) {
        q = n;
        p = cut(m, elements / q);
    } else if (m <= side) {
        p = m;
        q = cut(n, elements / p);
    } else {
        p = cut_evenly(m, side);
        q = cut_evenly(n, side);
    }

    // Too many tiles to number: fill each one to the last element.
    if (!is_countable(m, n, p, q)) {
        q = gx_min(n, side);
        p = gx_min(m, elements / q);
    }
    if (!is_countable(m, n, p, q)) {
        return gx_fail(
            err, GX_TOOBIG,
            "a matrix of %lldx%lld %s has more than 2^32 - 1 tiles of %lld bytes: raise it "
            "with gx_config('tile_bytes', ...)",
            (long long)rows, (long long)cols, gx_dtype_name(dtype), (long long)most_bytes);
    }
    *tile_rows = p;
    *tile_cols = q;
    return GX_OK;
}
