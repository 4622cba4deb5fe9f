/*
** Shapes of Fourier transforms (see shape.h), and what is made of them: transforms along both axes,
** convolutions, shifts.
**
** whole[] is the fields of gx_fft_args in their order.  Where a number may be left out, the word
** 'all' says so too.
*/
#include "../fft/fft.h"
#include "shape.h"

#include <string.h>

enum { KIND, LENGTH, AXIS, NORM, TYPE, INVERSE };

/* Argument k is there, and is not 'all'. */
static bool is_given(const gx_graph *g, const gx_ref *in, int count, int k)
{
    const char *word = k < count ? gx_graph_word(g, in[k]) : NULL;
    return k < count && (word == NULL || strcmp(word, "all") != 0);
}

/* A node of that operation; whole[LENGTH] 0: all of A. */
static gx_ref add_fft(gx_graph *g, gx_op_id id, gx_ref A, const int64_t whole[GX_WHOLES])
{
    const gx_type *t = &g->node[A].type;
    gx_node node = {.op = gx_op_row(id)};
    gx_err err = {0};
    memcpy(node.whole, whole, sizeof node.whole);
    gx_fft_kind kind = (gx_fft_kind)whole[KIND];
    int64_t length = whole[AXIS] == 0 ? t->rows : t->cols;
    if (whole[LENGTH] == 0) {
        node.whole[LENGTH] = kind == GX_FFT_REAL_INVERSE ? 2 * (length - 1) : length;
    }
    const gx_fft_args args = {kind,
                              node.whole[LENGTH],
                              whole[AXIS],
                              (gx_fft_norm)whole[NORM],
                              (int)whole[TYPE],
                              whole[INVERSE] != 0,
                              0};
    gx_number number;
    int64_t rows, cols;
    if (gx_fft_shape(&args, t->dtype, t->rows, t->cols, &number, &rows, &cols, &err) != GX_OK) {
        return gx_graph_fail(g, "%s", err.text);
    }
    node.type = (gx_type){.rows = rows, .cols = cols, .dtype = number};
    return gx_graph_add(g, &node, &A, 1);
}

/* An argument that is a length, where it is given. */
static bool take_length(gx_graph *g, const gx_ref *in, int count, int k, const char *what,
                        int64_t *out)
{
    if (!is_given(g, in, count, k)) {
        return true;
    }
    if (!gx_take_whole(g, in[k], what, out)) {
        return false;
    }
    if (*out < 1) {
        gx_graph_fail(g, "%s must be at least 1, not %lld", what, (long long)*out);
    }
    return gx_graph_ok(g);
}

/* The type of a cosine or sine transform, argument 1. */
static bool take_type(gx_graph *g, const gx_ref *in, int count, int64_t *type)
{
    if (is_given(g, in, count, 1) && !gx_take_whole(g, in[1], "type", type)) {
        return false;
    }
    if (*type < 1 || *type > 4) {
        gx_graph_fail(g, "type must be 1, 2, 3 or 4, not %lld", (long long)*type);
    }
    return gx_graph_ok(g);
}

/* Half of a line that is its own conjugate backwards: irfft and rfft with the signs exchanged. */
static gx_ref add_half(gx_graph *g, bool is_there, gx_ref A, int64_t whole[GX_WHOLES])
{
    const gx_scalar none = {0, 0};
    whole[NORM] = whole[NORM] == GX_FFT_BACKWARD ? GX_FFT_UNIT
                  : whole[NORM] == GX_FFT_UNIT   ? GX_FFT_BACKWARD
                                                 : whole[NORM];
    gx_ref from = is_there && gx_number_is_complex(g->node[A].type.dtype)
                      ? gx_graph_map(g, GX_MAP_CONJ, none, none, &A, 1)
                      : A;
    gx_ref done =
        from == GX_NO_NODE ? from : add_fft(g, is_there ? GX_OP_IRFFT : GX_OP_RFFT, from, whole);
    return done == GX_NO_NODE || is_there ? done
                                          : gx_graph_map(g, GX_MAP_CONJ, none, none, &done, 1);
}

gx_ref gx_check_fft(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    gx_op_id id = node->op->id;
    bool is_trigonometric = id >= GX_OP_DCT && id <= GX_OP_IDST;
    bool is_half = id == GX_OP_HFFT || id == GX_OP_IHFFT;
    int k = is_trigonometric ? 2 : 1; // of n
    int64_t whole[GX_WHOLES] = {[TYPE] = 2};
    whole[KIND] = id == GX_OP_FFT                         ? GX_FFT_FORWARD
                  : id == GX_OP_IFFT                      ? GX_FFT_INVERSE
                  : id == GX_OP_RFFT || id == GX_OP_IHFFT ? GX_FFT_REAL
                  : id == GX_OP_IRFFT || id == GX_OP_HFFT ? GX_FFT_REAL_INVERSE
                  : id == GX_OP_DCT || id == GX_OP_IDCT   ? GX_FFT_COSINE
                                                          : GX_FFT_SINE;
    whole[INVERSE] = id == GX_OP_IDCT || id == GX_OP_IDST;
    if ((is_trigonometric && !take_type(g, in, count, &whole[TYPE])) ||
        !take_length(g, in, count, k, "n", &whole[LENGTH]) ||
        (is_given(g, in, count, k + 1) && !gx_take_axis(g, in, count, k + 1, 0, &whole[AXIS])) ||
        (count > k + 2 && !gx_take_word(g, in[k + 2], "norm", GX_FFT_NORMS, &whole[NORM]))) {
        return GX_NO_NODE;
    }
    return is_half ? add_half(g, id == GX_OP_HFFT, in[0], whole) : add_fft(g, id, in[0], whole);
}

/* rfft2 halves the rows, and irfft2 comes back along them last. */
gx_ref gx_check_fft2(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    static const struct {
        gx_op_id op, down, along;
        gx_fft_kind of_down, of_along;
    } both[] = {
        {GX_OP_FFT2, GX_OP_FFT, GX_OP_FFT, GX_FFT_FORWARD, GX_FFT_FORWARD},
        {GX_OP_IFFT2, GX_OP_IFFT, GX_OP_IFFT, GX_FFT_INVERSE, GX_FFT_INVERSE},
        {GX_OP_RFFT2, GX_OP_FFT, GX_OP_RFFT, GX_FFT_FORWARD, GX_FFT_REAL},
        {GX_OP_IRFFT2, GX_OP_IFFT, GX_OP_IRFFT, GX_FFT_INVERSE, GX_FFT_REAL_INVERSE},
        {GX_OP_DCTN, GX_OP_DCT, GX_OP_DCT, GX_FFT_COSINE, GX_FFT_COSINE},
        {GX_OP_IDCTN, GX_OP_IDCT, GX_OP_IDCT, GX_FFT_COSINE, GX_FFT_COSINE},
        {GX_OP_DSTN, GX_OP_DST, GX_OP_DST, GX_FFT_SINE, GX_FFT_SINE},
        {GX_OP_IDSTN, GX_OP_IDST, GX_OP_IDST, GX_FFT_SINE, GX_FFT_SINE},
    };
    int row = 0;
    while (both[row].op != node->op->id) {
        row++;
    }
    bool is_trigonometric = node->op->id >= GX_OP_DCTN;
    bool is_back = node->op->id == GX_OP_IDCTN || node->op->id == GX_OP_IDSTN;
    int k = is_trigonometric ? 2 : 1; // of m
    int64_t down[GX_WHOLES] = {[KIND] = both[row].of_down, [TYPE] = 2, [INVERSE] = is_back};
    int64_t along[GX_WHOLES] = {[KIND] = both[row].of_along, [AXIS] = 1, [INVERSE] = is_back};
    if ((is_trigonometric && !take_type(g, in, count, &down[TYPE])) ||
        !take_length(g, in, count, k, "m", &down[LENGTH]) ||
        !take_length(g, in, count, k + 1, "n", &along[LENGTH]) ||
        (count > k + 2 && !gx_take_word(g, in[k + 2], "norm", GX_FFT_NORMS, &down[NORM]))) {
        return GX_NO_NODE;
    }
    along[NORM] = down[NORM];
    along[TYPE] = down[TYPE];
    bool is_real_first = both[row].of_along == GX_FFT_REAL;
    const int64_t *first = is_real_first ? along : down, *second = is_real_first ? down : along;
    gx_ref half = add_fft(g, is_real_first ? both[row].along : both[row].down, in[0], first);
    return half == GX_NO_NODE
               ? half
               : add_fft(g, is_real_first ? both[row].down : both[row].along, half, second);
}

// What is made of them ----------------------------------------------------------------------------

gx_ref gx_check_fftshift(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    int64_t axis = -1;
    bool is_back = node->op->id == GX_OP_IFFTSHIFT;
    gx_ref shifted = in[0];
    if (is_given(g, in, count, 1) && !gx_take_axis(g, in, count, 1, -1, &axis)) {
        return GX_NO_NODE;
    }
    for (int64_t k = 0; k < 2 && shifted != GX_NO_NODE; k++) {
        const gx_type t = g->node[shifted].type;
        int64_t by = (k == 0 ? t.rows : t.cols) / 2;
        if (axis < 0 || axis == k) {
            const gx_ref arguments[3] = {
                shifted, gx_graph_number(g, (gx_scalar){(double)(is_back ? -by : by), 0}, false),
                gx_graph_number(g, (gx_scalar){(double)k, 0}, false)};
            gx_node roll = {.op = gx_op_row(GX_OP_ROLL)};
            shifted = gx_check_roll(g, &roll, arguments, 3);
        }
    }
    return shifted;
}

/* alpha: 1 / (n d). */
gx_ref gx_check_fftfreq(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    double d = 1;
    int64_t n;
    if (!gx_take_whole(g, in[0], "n", &n) || (count > 1 && !gx_take_number(g, in[1], "d", &d))) {
        return GX_NO_NODE;
    }
    if (n < 1 || n > GX_SIDE_MAX || d == 0) {
        return gx_graph_fail(g, d == 0 ? "d must not be 0" : "n must be from 1 to 2^40, not %lld",
                             (long long)n);
    }
    bool is_half = node->op->id == GX_OP_RFFTFREQ;
    node->type = (gx_type){.rows = is_half ? n / 2 + 1 : n, .cols = 1, .dtype = GX_F64};
    node->alpha = (gx_scalar){1 / ((double)n * d), (double)(is_half ? n / 2 + 1 : (n + 1) / 2)};
    return gx_graph_add(g, node, NULL, 0);
}

/* The smallest 2^k, 3 2^k, or 5 2^k that is at least n, and even. */
static int64_t quick_length(int64_t n)
{
    int64_t best = INT64_MAX;
    for (int64_t odd = 1; odd <= 5; odd += 2) {
        int64_t m = 2 * odd;
        while (m < n) {
            m *= 2;
        }
        best = gx_min(best, m);
    }
    return best;
}

/* The backwards, conjugated B of a correlation. */
static gx_ref mirrored(gx_graph *g, gx_ref B)
{
    const gx_scalar none = {0, 0};
    const gx_ref arguments[2] = {B, gx_graph_number(g, none, false)};
    gx_node flip = {.op = gx_op_row(GX_OP_FLIP)};
    gx_ref turned = gx_check_flip(g, &flip, arguments, 2);
    return turned == GX_NO_NODE || !gx_number_is_complex(g->node[B].type.dtype)
               ? turned
               : gx_graph_map(g, GX_MAP_CONJ, none, none, &turned, 1);
}

/* Rows of A times rows of B as polynomials, all of them. */
static gx_ref multiply_lines(gx_graph *g, gx_ref A, gx_ref B, int64_t n, bool is_complex)
{
    const gx_scalar none = {0, 0};
    int64_t whole[GX_WHOLES] = {
        [KIND] = is_complex ? GX_FFT_FORWARD : GX_FFT_REAL, [LENGTH] = n, [TYPE] = 2};
    gx_op_id there = is_complex ? GX_OP_FFT : GX_OP_RFFT,
             back = is_complex ? GX_OP_IFFT : GX_OP_IRFFT;
    gx_ref pair[2];
    pair[0] = add_fft(g, there, A, whole);
    pair[1] = pair[0] == GX_NO_NODE ? GX_NO_NODE : add_fft(g, there, B, whole);
    gx_ref product =
        pair[1] == GX_NO_NODE ? GX_NO_NODE : gx_graph_map(g, GX_MAP_MUL, none, none, pair, 2);
    whole[KIND] = is_complex ? GX_FFT_INVERSE : GX_FFT_REAL_INVERSE;
    return product == GX_NO_NODE ? product : add_fft(g, back, product, whole);
}

gx_ref gx_check_convolve(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    enum { FULL, SAME, VALID };
    bool is_correlation = node->op->id == GX_OP_CORRELATE;
    const gx_type a = g->node[in[0]].type, b = g->node[in[1]].type;
    int64_t mode = is_correlation ? VALID : FULL;
    if (count > 2 && !gx_take_word(g, in[2], "mode", "full|same|valid", &mode)) {
        return GX_NO_NODE;
    }
    if (a.rows < 1 || b.rows < 1 || (a.cols != b.cols && a.cols != 1 && b.cols != 1)) {
        return gx_shape_fail(g, in[1],
                             "columns go with as many columns, or one, and are not empty");
    }
    int64_t all = a.rows + b.rows - 1, least = gx_min(a.rows, b.rows);
    int64_t length = mode == FULL ? all : gx_max(a.rows, b.rows) - (mode == VALID ? least - 1 : 0);
    int64_t first = mode == FULL ? 0 : mode == SAME ? (least - 1) / 2 : least - 1;
    if (is_correlation && mode == SAME && b.rows > a.rows) {
        first = all - length - first; // as NumPy, which exchanges them
    }
    bool is_complex = gx_number_is_complex(a.dtype) || gx_number_is_complex(b.dtype);
    gx_ref B = is_correlation ? mirrored(g, in[1]) : in[1];
    gx_ref product =
        B == GX_NO_NODE ? B : multiply_lines(g, in[0], B, quick_length(all), is_complex);
    if (product == GX_NO_NODE) {
        return product;
    }
    const gx_type t = g->node[product].type;
    gx_node slice = {.op = gx_op_row(GX_OP_SLICE),
                     .type = {.rows = length, .cols = t.cols, .dtype = t.dtype},
                     .whole = {first, length, 1, 0, t.cols, 1}};
    return gx_graph_add(g, &slice, &product, 1);
}

/* A product of 2, 3 and 5: the smallest that is at least n. */
gx_ref gx_check_next_fast_len(gx_graph *g, gx_node *node, const gx_ref *in, int count)
{
    int64_t n, best = INT64_MAX;
    (void)node, (void)count;
    if (!gx_take_whole(g, in[0], "n", &n)) {
        return GX_NO_NODE;
    }
    if (n < 1 || n > GX_SIDE_MAX) {
        return gx_graph_fail(g, "n must be from 1 to 2^40, not %lld", (long long)n);
    }
    for (int64_t five = 1; five < 5 * n; five *= 5) {
        for (int64_t three = five; three < 3 * n; three *= 3) {
            int64_t m = three;
            while (m < n) {
                m *= 2;
            }
            best = gx_min(best, m);
        }
    }
    return gx_graph_number(g, (gx_scalar){(double)best, 0}, false);
}
