/*
** The parts of a stored LU factorisation: L, U and P (alg_lu.h).
**
**   U   what is above the diagonal; rows there were final when their panel was finished
**   L   what is below, with ones on the diagonal; the rows of panel k are still to be exchanged by
**       the pivots of all later panels
**   P   the pivots one after the other, applied to 0, 1, 2, ...
**
** One pass over F: a block is a column strip as high as the matrix (exchanges reach from end to
** end), read, exchanged, cut and written.  Memory: two strips, which are a panel wide or as much of
** one as fits.
*/
#include "alg_lu.h"

/* A panel, or the largest half, quarter, ... of it of which two fit. */
static int64_t strip_width(gx_run *run, const gx_aux *aux)
{
    size_t available = gx_mem_available(run->ctx->mem);
    size_t column = (size_t)gx_max(1, aux->rows) * gx_number_bytes(aux->dtype);
    int64_t width = aux->panel;
    while (width > 1 && width % 2 == 0 && 4 * (size_t)width * column > available) {
        width /= 2;
    }
    return width;
}

void gx_lu_part_tiles(gx_run *run, const gx_aux *aux, int64_t rows, int64_t cols,
                      int64_t *tile_rows, int64_t *tile_cols)
{
    int64_t elements =
        (int64_t)(gx_store_max_tile_bytes(run->ctx->store) / gx_number_bytes(aux->dtype));
    int64_t wide = strip_width(run, aux);
    while (wide > 1 && wide > elements / gx_max(1, gx_min(wide, rows))) {
        wide = wide % 2 == 0 ? wide / 2 : 1;
    }
    *tile_cols = gx_max(1, gx_min(wide, cols));
    *tile_rows = gx_max(1, gx_min(elements / *tile_cols, rows));
}

/* Columns [first, first + cols) of L, which are one strip of C. */
static void make_lower(gx_prog *prog, const gx_aux *aux, gx_block from, gx_block to, int64_t first,
                       int64_t cols)
{
    int64_t m = aux->rows, last = (first / aux->panel + 1) * aux->panel;
    from.part = (gx_part){0, 0, m, cols};
    gx_prog_call(prog, &(gx_call){.kernel = GX_COPY, .a = from, .c = to});
    if (last < aux->count) {
        gx_prog_call(prog, &(gx_call){.kernel = GX_LASWP,
                                      .c = to,
                                      .keeps_c = true,
                                      .pivots = aux->pivots,
                                      .pivot_first = last,
                                      .pivot_last = aux->count});
    }
    gx_block triangle = to, above = to;
    triangle.part = (gx_part){first, 0, m - first, cols};
    above.part = (gx_part){0, 0, first, cols};
    gx_prog_call(prog, &(gx_call){.kernel = GX_TRIANGLE,
                                  .uplo = GX_LOWER,
                                  .diag = GX_UNIT,
                                  .a = triangle,
                                  .c = triangle,
                                  .keeps_c = true});
    if (first > 0) {
        gx_prog_call(prog, &(gx_call){.kernel = GX_FILL, .c = above, .keeps_c = true});
    }
}

/* The same of U. */
static void make_upper(gx_prog *prog, const gx_aux *aux, gx_block from, gx_block to, int64_t first,
                       int64_t cols)
{
    int64_t k = aux->count;
    from.part = (gx_part){0, 0, k, cols};
    gx_prog_call(prog, &(gx_call){.kernel = GX_COPY, .a = from, .c = to});
    if (first < k) {
        gx_block triangle = to;
        triangle.part = (gx_part){first, 0, k - first, cols};
        gx_prog_call(prog, &(gx_call){.kernel = GX_TRIANGLE,
                                      .uplo = GX_UPPER,
                                      .a = triangle,
                                      .c = triangle,
                                      .keeps_c = true});
    }
}

gx_code gx_alg_lu_part(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_lu_part part, gx_sink *C)
{
    gx_prog *prog;
    if (!gx_ok(run) || C->rows == 0 || C->cols == 0) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    int64_t width = strip_width(run, aux);
    if (C->is_stored && width % C->tile_cols != 0 && width < C->cols) {
        width = C->tile_cols; // the budget has changed since the sink was begun
    }
    int64_t strips = gx_ceil_div(C->cols, width);
    if (gx_prog_create(run, 4 * strips, &prog) != GX_OK) {
        return run->err.code;
    }
    const gx_opnd *from =
        gx_prog_operand(prog, F, NULL, C->number, F->rows, F->cols, F->rows, width);
    const gx_opnd *to = gx_prog_operand(prog, NULL, C, C->number, C->rows, C->cols, C->rows, width);
    for (int64_t s = 0; s < strips && gx_ok(run); s++) {
        int64_t first = s * width, cols = gx_min(width, C->cols - first);
        (part == GX_LU_LOWER ? make_lower : make_upper)(prog, aux, gx_blk(from, 0, s),
                                                        gx_blk(to, 0, s), first, cols);
    }
    gx_prog_run(prog);
    gx_prog_free(prog);
    return gx_ok(run) ? GX_OK : run->err.code;
}

void gx_lu_order(const gx_aux *aux, int64_t *order)
{
    for (int64_t i = 0; i < aux->rows; i++) {
        order[i] = i;
    }
    for (int64_t j = 0; j < aux->count; j++) {
        int64_t other = aux->pivots[j], moved = order[j];
        order[j] = order[other];
        order[other] = moved;
    }
}

bool gx_lu_is_odd(const gx_aux *aux)
{
    bool is_odd = false;
    for (int64_t j = 0; j < aux->count; j++) {
        is_odd ^= aux->pivots[j] != j;
    }
    return is_odd;
}
