/*
** Where the leaves of a square lie, and which way it is solved: by_parts.h.
*/
#include "by_parts_int.h"

#include <stdlib.h>
#include <string.h>

void gx_square_free(const gx_task *t, gx_square *S)
{
    gx_mem_free(t->p->run->ctx->mem, S->leaf);
    S->leaf = NULL;
}

gx_leaf *gx_square_leaves(const gx_task *t, int64_t count)
{
    return gx_run_alloc(t->p->run, (size_t)gx_max(1, count) * sizeof(gx_leaf), "parts of a system");
}

// Where parts lie ---------------------------------------------------------------------------------

bool gx_leaf_is_diagonal(const gx_leaf *leaf)
{
    bool is_kind =
        leaf->kind == GX_LEAF_NUMBER || (leaf->kind == GX_LEAF_DIAGONAL && leaf->offset == 0);
    return is_kind && leaf->i0 == leaf->j0;
}

bool gx_leaf_covers(const gx_leaf *leaf, int64_t n)
{
    return leaf->i0 == 0 && leaf->j0 == 0 && leaf->rows == n && leaf->cols == n;
}

bool gx_leaf_is_low_rank(const gx_leaf *leaf, int64_t n)
{
    return leaf->kind == GX_LEAF_PRODUCT && gx_leaf_covers(leaf, n) && leaf->base.cols <= n / 4;
}

/* Does the line before row and column c go through no leaf but diagonals? */
static bool is_clean_cut(const gx_square *S, int64_t c)
{
    bool is_clean = true;
    for (int64_t k = 0; k < S->leaves && is_clean; k++) {
        const gx_leaf *l = &S->leaf[k];
        bool crosses = (l->i0 < c && c < l->i0 + l->rows) || (l->j0 < c && c < l->j0 + l->cols);
        is_clean = !crosses || gx_leaf_is_diagonal(l);
    }
    return is_clean;
}

/* Is nothing right of (and above) the cut, or below (and left of) it? */
static bool is_void_beside(const gx_square *S, int64_t c, bool is_lower)
{
    bool is_void = true;
    for (int64_t k = 0; k < S->leaves && is_void; k++) {
        const gx_leaf *l = &S->leaf[k];
        bool is_there =
            is_lower ? l->i0 < c && l->j0 + l->cols > c : l->j0 < c && l->i0 + l->rows > c;
        is_void = !is_there || gx_leaf_is_diagonal(l);
    }
    return is_void;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Where leaves begin, inside, ascending, each once; returns how many.  at: room for 2 a leaf. */
static int64_t boundaries(const gx_square *S, int64_t *at)
{
    int64_t count = 0, kept = 0;
    for (int64_t k = 0; k < S->leaves; k++) {
        at[count++] = S->leaf[k].i0;
        at[count++] = S->leaf[k].i0 + S->leaf[k].rows;
    }
    qsort(at, (size_t)count, sizeof *at, by_size);
    for (int64_t k = 0; k < count; k++) {
        if (at[k] > 0 && at[k] < S->n && (kept == 0 || at[kept - 1] != at[k])) {
            at[kept++] = at[k];
        }
    }
    return kept;
}

/* The cuts of a block triangle, its two ends among them; returns the blocks, 1: it is none. */
int64_t gx_square_triangle(const gx_square *S, bool is_lower, int64_t *at)
{
    int64_t count = boundaries(S, at), kept = 0;
    for (int64_t k = 0; k < count; k++) {
        if (is_clean_cut(S, at[k]) && is_void_beside(S, at[k], is_lower)) {
            at[kept++] = at[k];
        }
    }
    memmove(at + 1, at, (size_t)kept * sizeof *at);
    at[0] = 0;
    at[kept + 1] = S->n;
    return kept + 1;
}

int64_t *gx_square_cuts(const gx_task *t, const gx_square *S)
{
    return gx_run_alloc(t->p->run, (size_t)(2 * S->leaves + 2) * sizeof(int64_t), "cuts");
}

/* The leaves from `from` to before `to`, both ways; those on the diagonal are cut. */
gx_square gx_square_part(const gx_task *t, const gx_square *S, int64_t from, int64_t to)
{
    gx_square out = {.leaf = gx_square_leaves(t, S->leaves), .n = to - from};
    out.properties = S->properties;
    for (int64_t k = 0; k < S->leaves && out.leaf != NULL; k++) {
        const gx_leaf *l = &S->leaf[k];
        int64_t first = gx_max(from, l->i0), end = gx_min(to, l->i0 + l->rows);
        bool is_in = first < end && l->j0 < to && l->j0 + l->cols > from;
        if (!is_in) {
            continue;
        }
        gx_leaf *o = &out.leaf[out.leaves++];
        *o = *l;
        if (gx_leaf_is_diagonal(l)) {
            bool is_row = l->base.rows == 1;
            o->rows = o->cols = end - first;
            o->i0 = o->j0 = first - from;
            if (l->kind == GX_LEAF_DIAGONAL) {
                gx_mat_view(&o->base, &l->base, GX_NO_TRANS, is_row ? 0 : first - l->i0,
                            is_row ? first - l->i0 : 0, is_row ? 1 : o->rows, is_row ? o->rows : 1);
            }
        } else {
            o->i0 -= from;
            o->j0 -= from;
        }
    }
    return out;
}

/* The elements of leaves with rows from i and columns from j on, as a matrix of its own. */
void gx_square_elements(const gx_task *t, const gx_square *S, int64_t i, int64_t rows, int64_t j,
                        int64_t cols, gx_mat *whole, gx_mat *part)
{
    gx_mat_composite(whole, "the composite", t->p->dtype, S->n, S->n);
    whole->leaf = S->leaf;
    whole->leaves = S->leaves;
    whole->is_whole = true;
    whole->properties = S->properties;
    gx_mat_view(part, whole, GX_NO_TRANS, i, j, rows, cols);
}

// Ways --------------------------------------------------------------------------------------------

static gx_way choose_one(const gx_leaf *leaf)
{
    bool is_kron = leaf->kind == GX_LEAF_KRON && leaf->base.rows == leaf->base.cols;
    bool is_product = leaf->kind == GX_LEAF_PRODUCT && leaf->base.rows == leaf->base.cols;
    return leaf->kind == GX_LEAF_MATRIX || leaf->kind == GX_LEAF_PERMUTATION || is_kron ||
                   is_product
               ? GX_WAY_ONE
               : GX_WAY_WHOLE;
}

/* A first block that is safe to divide by, as far as can be seen; 0: there is none. */
int64_t gx_square_schur_cut(const gx_square *S, int64_t *at)
{
    int64_t cut = 0;
    for (int64_t k = boundaries(S, at) - 1; k >= 0 && cut == 0; k--) {
        bool is_safe = is_clean_cut(S, at[k]), is_all = (S->properties & GX_PROP_POSITIVE) != 0;
        for (int64_t l = 0; l < S->leaves && is_safe && !is_all; l++) {
            const gx_leaf *leaf = &S->leaf[l];
            bool is_in = leaf->i0 < at[k] && leaf->j0 < at[k];
            bool is_definite = leaf->kind == GX_LEAF_MATRIX && gx_leaf_covers(leaf, at[k]) &&
                               (leaf->base.properties & GX_PROP_POSITIVE) != 0;
            is_safe = !is_in || gx_leaf_is_diagonal(leaf) || is_definite;
        }
        cut = is_safe && at[k] >= S->n - at[k] ? at[k] : 0;
    }
    return cut;
}

/* at: room for 2 numbers a leaf, and 2. */
gx_way gx_square_way(const gx_square *S, int64_t *at)
{
    int64_t diagonals = 0, low = 0, krons = 0, numbers = 0;
    for (int64_t k = 0; k < S->leaves; k++) {
        const gx_leaf *l = &S->leaf[k];
        diagonals += gx_leaf_is_diagonal(l);
        numbers += l->kind == GX_LEAF_NUMBER && gx_leaf_covers(l, S->n);
        low += gx_leaf_is_low_rank(l, S->n);
        krons += l->kind == GX_LEAF_KRON && gx_leaf_covers(l, S->n) && l->base.rows == l->base.cols;
    }
    if (diagonals == S->leaves) {
        return GX_WAY_DIAGONAL;
    }
    if (S->leaves == 1 && gx_leaf_covers(S->leaf, S->n)) {
        return choose_one(S->leaf);
    }
    if (gx_square_triangle(S, true, at) > 1) {
        return GX_WAY_LOWER;
    }
    if (gx_square_triangle(S, false, at) > 1) {
        return GX_WAY_UPPER;
    }
    if (low > 0 && low < S->leaves) {
        return GX_WAY_LOW_RANK;
    }
    if (krons == 1 && numbers == S->leaves - 1) {
        return GX_WAY_KRON_SHIFT;
    }
    return gx_square_schur_cut(S, at) > 0 ? GX_WAY_SCHUR : GX_WAY_WHOLE;
}
