/*
** What comes of what: a rule for each operation of the table, which looks at its operands' shapes
** and dtypes, refuses in words, and adds the node.
**
** node has its op; the rule sets type and whole[], and calls gx_graph_add() with the operands that
** are matrices: sizes, axes and kinds are known before the program runs and are no operands.
** `in` has count entries, as many as the row of the table allows.
*/
#pragma once

#include "ops.h"

/* An argument that is a whole number known before the program runs. */
bool gx_take_whole(gx_graph *g, gx_ref ref, const char *what, int64_t *out);

/* An axis: 0 or 1; k >= count: fallback. */
bool gx_take_axis(gx_graph *g, const gx_ref *in, int count, int k, int64_t fallback, int64_t *axis);

/* A word of the list "one|two": its number, from 0. */
bool gx_take_word(gx_graph *g, gx_ref ref, const char *what, const char *words, int64_t *out);

bool gx_take_number(gx_graph *g, gx_ref ref, const char *what, double *out);

/* "LABEL is 3x4, but WHAT" */
gx_ref gx_shape_fail(gx_graph *g, gx_ref ref, const char *what);

bool gx_is_vector(const gx_type *type);
gx_ref gx_as_column(gx_graph *g, gx_ref ref); /* a row, transposed */

/* The rules, each gx_check_NAME for the name in GX_OPS. */
#define GX_CHECKS(CHECK)                                                                           \
    CHECK(rows)                                                                                    \
    CHECK(cols)                                                                                    \
    CHECK(size)                                                                                    \
    CHECK(matmul)                                                                                  \
    CHECK(transpose) CHECK(eye) CHECK(filled) CHECK(random) CHECK(linspace) CHECK(arange)          \
        CHECK(reduce) CHECK(reduce_order) CHECK(reduce_truth) CHECK(reduce_real)                   \
            CHECK(reduce_index) CHECK(quantile) CHECK(norm) CHECK(trace) CHECK(diag) CHECK(same_k) \
                CHECK(reshape) CHECK(flip) CHECK(roll) CHECK(tile) CHECK(repeated) CHECK(inner)    \
                    CHECK(polyval) CHECK(vander) CHECK(toeplitz) CHECK(cross) CHECK(topk)          \
                        CHECK(unique) CHECK(take) CHECK(stack) CHECK(kron) CHECK(outer)            \
                            CHECK(distance)                                                        \
                            CHECK(along) CHECK(diff) CHECK(along_order) CHECK(solve) CHECK(lstsq)  \
                                CHECK(square) CHECK(pinv) CHECK(square_number) CHECK(square_real)  \
                                    CHECK(real_number) CHECK(cholesky) CHECK(lu) CHECK(qr)         \
                                        CHECK(eig) CHECK(similar) CHECK(polar) CHECK(ldl)          \
                                            CHECK(qz) CHECK(cossin) CHECK(equation) CHECK(eigh)    \
                                                CHECK(svd) CHECK(powm) CHECK(cov) CHECK(grid)      \
                                                    CHECK(fft) CHECK(fft2) CHECK(convolve)         \
                                                        CHECK(fftshift) CHECK(fftfreq)             \
                                                            CHECK(require) CHECK(loggamma)         \
                                                                CHECK(block_diag) CHECK(slogdet)   \
                                                                    CHECK(bands)                   \
                                                                        CHECK(solve_banded)        \
                                                                            CHECK(next_fast_len)

#define GX_CHECK_DECLARE(NAME)                                                                     \
    gx_ref gx_check_##NAME(gx_graph *g, gx_node *node, const gx_ref *in, int count);
GX_CHECKS(GX_CHECK_DECLARE)
#undef GX_CHECK_DECLARE
