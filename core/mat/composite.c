/*
** Composite matrices: how they are opened and read (composite.h); their layouts: layout.c.
**
** Opened, a composite is a list of leaves, each with its place; parts that are composites
** themselves, blocks and sums have been looked through.  The operands of products and the like are
** sources of their own, opened the same way.  A rectangle is read leaf by leaf, straight to its
** place, or added to what others put there, and is zeros elsewhere.
**
** How deep composites are in one another is checked, and one that is a part of itself is refused.
*/
#include "layout.h"

#include "../run/call.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Elements of a strip that is read to be turned or added. */
static const int64_t STRIP = 1 << 16;

// Opening -----------------------------------------------------------------------------------------

/* Where a matrix goes in the composite that is opened, and what is done to it. */
typedef struct place {
    int64_t i0, j0;
    bool is_turned, is_conjugated, adds;
    gx_scalar factor;
} place;

/* What is known of the numbers of all parts. */
typedef struct kinds {
    bool is_complex, is_double, has_number, has_field;
} kinds;

static void join_number(kinds *all, gx_number number)
{
    all->has_number = true;
    all->has_field = all->has_field || number == GX_M31;
    all->is_double = all->is_double || gx_number_is_double(number);
    all->is_complex = all->is_complex || gx_number_is_complex(number);
}

/* The widest; of numbers on diagonals alone f64. */
static gx_number number_of(const kinds *all)
{
    bool is_double = all->is_double || !all->has_number;
    return all->is_complex ? is_double ? GX_C128 : GX_C64 : is_double ? GX_F64 : GX_F32;
}

/* What is open on the way to a part; shared by all that are opened there. */
typedef struct opening {
    gx_store *store;
    gx_mem *mem;
    int64_t id[GX_COMPOSITE_DEPTH]; /* of composites that are being looked through */
    int depth, operands;            /* ... and operands in operands                */
    int64_t total;                  /* leaves, of all                              */
    int64_t newest;                 /* generation of those                         */
} opening;

/* The leaves of one source. */
typedef struct leaves {
    gx_leaf *leaf;
    int64_t count, capacity;
    kinds kinds;
} leaves;

static void free_leaves(gx_mem *mem, gx_leaf *leaf, int64_t count);

/* An operand, whose leaves are its own until they are packed. */
static void free_operand(gx_mem *mem, gx_mat *mat)
{
    if (mat->kind == GX_MAT_COMPOSITE && mat->owned != NULL) {
        free_leaves(mem, mat->owned, mat->leaves);
        mat->owned = NULL;
    }
}

static void free_leaves(gx_mem *mem, gx_leaf *leaf, int64_t count)
{
    for (int64_t k = 0; k < count; k++) {
        free_operand(mem, &leaf[k].base);
        free_operand(mem, &leaf[k].second);
    }
    gx_mem_free(mem, leaf);
}

/* Its operands are the list's from now on, whatever this returns. */
static gx_code add_leaf(opening *o, leaves *l, gx_leaf *leaf, gx_err *err)
{
    gx_code code = GX_OK;
    if (o->total == GX_COMPOSITE_LEAVES) {
        code = gx_fail(err, GX_ARG, "the composite has more than %d parts in its parts",
                       GX_COMPOSITE_LEAVES);
    } else if (l->count == l->capacity) {
        int64_t capacity = gx_max(4, 2 * l->capacity);
        void *memory = l->leaf;
        code = gx_mem_realloc(o->mem, (size_t)capacity * sizeof *leaf, "parts of a composite",
                              &memory, err);
        l->leaf = memory;
        l->capacity = code == GX_OK ? capacity : l->capacity;
    }
    if (code != GX_OK) {
        free_operand(o->mem, &leaf->base);
        free_operand(o->mem, &leaf->second);
        return code;
    }
    l->leaf[l->count++] = *leaf;
    o->total++;
    l->kinds.is_complex = l->kinds.is_complex || leaf->factor.im != 0;
    return GX_OK;
}

static place place_in(const place *outer, const gx_term *term, int64_t i, int64_t j, bool adds)
{
    gx_scalar own = term->factor;
    own.im = outer->is_conjugated ? -own.im : own.im;
    return (place){.i0 = outer->i0 + (outer->is_turned ? j : i),
                   .j0 = outer->j0 + (outer->is_turned ? i : j),
                   .is_turned = outer->is_turned != term->is_turned,
                   .is_conjugated = outer->is_conjugated != term->is_conjugated,
                   .adds = outer->adds || adds,
                   .factor = gx_scalar_times(outer->factor, own)};
}

/* A leaf there, which has rows x cols elements before it is turned. */
static gx_leaf leaf_at(const place *at, gx_leaf_kind kind, int64_t rows, int64_t cols)
{
    return (gx_leaf){.kind = kind,
                     .i0 = at->i0,
                     .j0 = at->j0,
                     .rows = at->is_turned ? cols : rows,
                     .cols = at->is_turned ? rows : cols,
                     .is_turned = at->is_turned,
                     .is_conjugated = at->is_conjugated,
                     .adds = at->adds,
                     .factor = at->factor};
}

static gx_code read_composite(gx_run *run, const gx_mat *mat, gx_reader *reader, int64_t i0,
                              int64_t j0, int64_t m, int64_t n, gx_number dtype, void *dst,
                              int64_t ld, gx_err *err);

/* A quantised matrix as a source of what its codes stand for: of one leaf, its own. */
static gx_code open_codes(gx_mem *mem, const gx_meta *meta, gx_mat *out, gx_err *err)
{
    const place whole = {.factor = {1, 0}};
    gx_leaf *leaf;
    GX_TRY(gx_mem_alloc(mem, sizeof *leaf, "codes", &leaf, err));
    *leaf = leaf_at(&whole, GX_LEAF_CODES, meta->rows, gx_meta_shown_cols(meta));
    leaf->offset = gx_meta_code_bits(meta);
    gx_mat_stored(&leaf->base, meta);
    gx_mat_stored(out, meta);
    out->kind = GX_MAT_COMPOSITE;
    out->read = read_composite;
    out->is_whole = true;
    out->cols = out->tile_cols = leaf->cols;
    out->dtype = GX_DTYPE_F32;
    out->properties = 0;
    out->leaf = out->owned = leaf;
    out->leaves = 1;
    return GX_OK;
}

static gx_code add_stored(opening *o, leaves *l, const gx_meta *meta, const place *at, gx_err *err)
{
    if (gx_aux_kind_of(meta->properties) != GX_AUX_NONE) {
        return gx_aux_refuse(meta->name, meta->properties, err);
    }
    gx_leaf leaf = leaf_at(at, GX_LEAF_MATRIX, meta->rows, gx_meta_shown_cols(meta));
    gx_mat_stored(&leaf.base, meta);
    if (gx_meta_code_bits(meta) != 0) {
        GX_TRY(open_codes(o->mem, meta, &leaf.base, err));
        o->total++;
    }
    join_number(&l->kinds, leaf.base.number);
    return add_leaf(o, l, &leaf, err);
}

gx_code gx_layout_find(gx_store *store, const gx_meta *of, const gx_term *term, gx_meta *meta,
                       gx_err *err)
{
    char full[2 * GX_NAME_MAX + 2];
    bool found;
    snprintf(full, sizeof full, "%s.%s", of->schema, term->name);
    GX_TRY(gx_store_lookup(store, full, meta, &found, err));
    return found ? GX_OK
                 : gx_fail(err, GX_ARG, "%s has the part '%s', and there is no such matrix in %s",
                           of->name, term->name, of->schema);
}

/* A term of the composite `of`, and its place. */
typedef struct part {
    const gx_meta *of;
    const gx_term *term;
    place at;
} part;

static gx_code add_part(opening *o, leaves *l, const part *p, gx_err *err);

static gx_code add_matrix(opening *o, leaves *l, const gx_meta *meta, const place *at, gx_err *err)
{
    gx_layout layout;
    if (!meta->is_composite) {
        return add_stored(o, l, meta, at, err);
    }
    for (int k = 0; k < o->depth; k++) {
        if (o->id[k] == meta->id) {
            return gx_fail(err, GX_ARG, "the composite %s is a part of itself", meta->name);
        }
    }
    if (o->depth == GX_COMPOSITE_DEPTH) {
        return gx_fail(err, GX_ARG, "more than %d composites are parts of one another",
                       GX_COMPOSITE_DEPTH);
    }
    GX_TRY(gx_layout_load(o->store, o->mem, meta, &layout, err));
    o->id[o->depth++] = meta->id;
    part whole = {meta, layout.term, place_in(at, layout.term, 0, 0, false)};
    gx_code code = add_part(o, l, &whole, err);
    o->depth--;
    gx_layout_clear(&layout, o->mem);
    return code;
}

static gx_code add_named(opening *o, leaves *l, const part *p, gx_err *err)
{
    gx_meta meta;
    const gx_term *t = p->term;
    GX_TRY(gx_layout_find(o->store, p->of, t, &meta, err));
    o->newest = gx_max(o->newest, meta.generation);
    int64_t wide = gx_meta_shown_cols(&meta);
    int64_t rows = t->is_turned ? wide : meta.rows;
    int64_t cols = t->is_turned ? meta.rows : wide;
    if (rows != t->rows || cols != t->cols) {
        return gx_fail(err, GX_ARG,
                       "the part '%s' of %s is %" PRId64 "x%" PRId64 " and was %" PRId64 "x%" PRId64
                       " when %s was made: make it again",
                       t->name, p->of->name, meta.rows, wide, t->is_turned ? t->cols : t->rows,
                       t->is_turned ? t->rows : t->cols, p->of->name);
    }
    return rows == 0 || cols == 0 ? GX_OK : add_matrix(o, l, &meta, &p->at, err);
}

static gx_code add_block(opening *o, leaves *l, const part *p, gx_err *err)
{
    const gx_term *t = p->term, *operand = t + 1;
    int64_t i = 0, j = 0;
    for (int64_t k = 0; k < t->operands; k++, operand += operand->span) {
        part one = {p->of, operand, place_in(&p->at, operand, i, j, false)};
        GX_TRY(add_part(o, l, &one, err));
        bool is_end = (k + 1) % t->across == 0;
        j = is_end ? 0 : j + operand->cols;
        i += is_end ? operand->rows : 0;
    }
    return GX_OK;
}

static gx_code add_sum(opening *o, leaves *l, const part *p, gx_err *err)
{
    const gx_term *operand = p->term + 1;
    for (int64_t k = 0; k < p->term->operands; k++, operand += operand->span) {
        part one = {p->of, operand, place_in(&p->at, operand, 0, 0, k > 0)};
        GX_TRY(add_part(o, l, &one, err));
    }
    return GX_OK;
}

static void take_leaves(gx_mat *mat, const leaves *l)
{
    mat->kind = GX_MAT_COMPOSITE;
    mat->number = number_of(&l->kinds);
    mat->dtype = gx_dtype_of(mat->number);
    mat->read = read_composite;
    mat->leaf = mat->owned = l->leaf;
    mat->leaves = l->count;
}

/* A matrix that is stored, as it is? */
static bool is_plain(const leaves *l, int64_t rows, int64_t cols)
{
    const gx_leaf *one = l->leaf;
    return l->count == 1 && one->kind == GX_LEAF_MATRIX && !one->is_turned && !one->is_conjugated &&
           one->factor.re == 1 && one->factor.im == 0 && one->i0 == 0 && one->j0 == 0 &&
           one->rows == rows && one->cols == cols;
}

/* All leaves of a source, which are of floating numbers. */
static gx_code add_parts_of(opening *o, leaves *l, const part *p, const char *name, gx_err *err)
{
    GX_TRY(add_part(o, l, p, err));
    return !l->kinds.has_field
               ? GX_OK
               : gx_fail(err, GX_ARG,
                         "%s has parts of m31: matrices made of others are of floating numbers",
                         name);
}

/* An operand as a source of its own, whatever is done to what it is an operand of. */
static gx_code open_operand(opening *o, const gx_meta *of, const gx_term *term, gx_mat *out,
                            gx_err *err)
{
    leaves l = {.leaf = NULL};
    const place nowhere = {.factor = {1, 0}};
    part p = {of, term, place_in(&nowhere, term, 0, 0, false)};
    if (o->operands == GX_COMPOSITE_DEPTH) {
        return gx_fail(err, GX_ARG, "more than %d operands are in one another", o->operands);
    }
    o->operands++;
    gx_code code = add_parts_of(o, &l, &p, of->name, err);
    o->operands--;
    if (code != GX_OK) {
        free_leaves(o->mem, l.leaf, l.count);
        return code;
    }
    if (is_plain(&l, term->rows, term->cols)) {
        *out = l.leaf->base;
        gx_mem_free(o->mem, l.leaf);
        return GX_OK;
    }
    gx_mat_generated(out, of->name, GX_F64, term->rows, term->cols, NULL, NULL);
    take_leaves(out, &l);
    return GX_OK;
}

static const gx_leaf_kind LEAF_OF[] = {
    [GX_TERM_PRODUCT] = GX_LEAF_PRODUCT,     [GX_TERM_KRON] = GX_LEAF_KRON,
    [GX_TERM_DIAGONAL] = GX_LEAF_DIAGONAL,   [GX_TERM_TOEPLITZ] = GX_LEAF_TOEPLITZ,
    [GX_TERM_CIRCULANT] = GX_LEAF_CIRCULANT, [GX_TERM_PERMUTATION] = GX_LEAF_PERMUTATION,
};

/* A leaf that has operands. */
static gx_code add_made(opening *o, leaves *l, const part *p, gx_err *err)
{
    const gx_term *t = p->term, *first = t + 1;
    int64_t rows = t->is_turned ? t->cols : t->rows, cols = t->is_turned ? t->rows : t->cols;
    gx_leaf leaf = leaf_at(&p->at, LEAF_OF[t->kind], rows, cols);
    leaf.offset = t->kind == GX_TERM_DIAGONAL ? t->down : 0;
    GX_TRY(open_operand(o, p->of, first, &leaf.base, err));
    if (leaf.kind != GX_LEAF_PERMUTATION) { // its places are no numbers of the matrix
        join_number(&l->kinds, leaf.base.number);
    }
    if (t->operands > 1) {
        gx_code code = open_operand(o, p->of, first + first->span, &leaf.second, err);
        if (code != GX_OK) {
            free_operand(o->mem, &leaf.base);
            return code;
        }
        join_number(&l->kinds, leaf.second.number);
    }
    return add_leaf(o, l, &leaf, err);
}

static gx_code add_part(opening *o, leaves *l, const part *p, gx_err *err)
{
    const gx_term *t = p->term;
    gx_leaf number = leaf_at(&p->at, GX_LEAF_NUMBER, t->rows, t->cols);
    switch (t->kind) {
    case GX_TERM_ZERO:
        return GX_OK;
    case GX_TERM_NUMBER:
        return t->rows != t->cols
                   ? gx_fail(err, GX_CORRUPT, "layout of %s: a number in a part that is not square",
                             p->of->name)
               : t->rows == 0 ? GX_OK
                              : add_leaf(o, l, &number, err);
    case GX_TERM_MATRIX:
        return add_named(o, l, p, err);
    case GX_TERM_BLOCK:
        return add_block(o, l, p, err);
    case GX_TERM_SUM:
        return add_sum(o, l, p, err);
    default:
        return t->rows == 0 || t->cols == 0 ? GX_OK : add_made(o, l, p, err);
    }
}

/* Leaves, and those of their operands, into one block of memory, which frees the others. */
static gx_leaf *pack(gx_mem *mem, gx_leaf *leaf, int64_t count, gx_leaf *pool, int64_t *used)
{
    gx_leaf *to = pool + *used;
    *used += count;
    for (int64_t k = 0; k < count; k++) {
        to[k] = leaf[k];
        gx_mat *const operand[] = {&to[k].base, &to[k].second};
        for (int o = 0; o < 2; o++) {
            if (operand[o]->kind == GX_MAT_COMPOSITE && operand[o]->owned != NULL) {
                operand[o]->leaf = pack(mem, operand[o]->owned, operand[o]->leaves, pool, used);
                operand[o]->owned = NULL;
            }
        }
    }
    gx_mem_free(mem, leaf);
    return to;
}

static gx_code open_part(gx_store *store, gx_mem *mem, const part *p, opening *o, gx_mat *out,
                         gx_err *err)
{
    leaves l = {.leaf = NULL};
    o->store = store;
    o->mem = mem;
    gx_mat_stored(out, p->of);
    out->properties = 0;
    gx_code code = add_parts_of(o, &l, p, p->of->name, err);
    void *pool = NULL;
    code = code != GX_OK
               ? code
               : gx_mem_alloc(mem, (size_t)o->total * sizeof(gx_leaf), "parts", &pool, err);
    if (code != GX_OK) {
        free_leaves(mem, l.leaf, l.count);
        return code;
    }
    int64_t used = 0;
    take_leaves(out, &l);
    out->leaf = pack(mem, l.leaf, l.count, pool, &used);
    out->owned = pool;
    return GX_OK;
}

gx_code gx_layout_open(gx_store *store, gx_mem *mem, const gx_meta *meta, const gx_layout *layout,
                       gx_mat *out, gx_err *err)
{
    opening o = {.depth = 0};
    const place whole = {.factor = {1, 0}};
    part p = {meta, layout->term, place_in(&whole, layout->term, 0, 0, false)};
    return open_part(store, mem, &p, &o, out, err);
}

gx_code gx_mat_open(gx_store *store, gx_mem *mem, const gx_meta *meta, gx_mat *out, gx_err *err)
{
    opening o = {.id = {meta->id}, .depth = 1};
    const place whole = {.factor = {1, 0}};
    gx_layout layout;
    gx_mat_stored(out, meta);
    if (!meta->is_composite) {
        return gx_meta_code_bits(meta) == 0 ? GX_OK : open_codes(mem, meta, out, err);
    }
    GX_TRY(gx_layout_load(store, mem, meta, &layout, err));
    part p = {meta, layout.term, place_in(&whole, layout.term, 0, 0, false)};
    gx_code code = open_part(store, mem, &p, &o, out, err);
    out->properties =
        o.newest < meta->generation ? meta->properties : 0; // said of what is there now
    gx_layout_clear(&layout, mem);
    return code;
}

void gx_mat_composite(gx_mat *mat, const char *label, gx_number number, int64_t rows, int64_t cols)
{
    gx_mat_generated(mat, label, number, rows, cols, NULL, NULL);
    mat->kind = GX_MAT_COMPOSITE;
    mat->read = read_composite;
}

bool gx_mat_is_structured(const gx_mat *mat)
{
    bool is_it = false, has_parts = mat->kind == GX_MAT_COMPOSITE && !mat->is_whole;
    bool is_diagonal = has_parts && mat->leaves > 0;
    for (int64_t k = 0; has_parts && k < mat->leaves && !is_it; k++) {
        const gx_leaf *leaf = &mat->leaf[k];
        is_diagonal = is_diagonal && leaf->kind == GX_LEAF_NUMBER;
        is_it = leaf->adds || (leaf->kind != GX_LEAF_MATRIX && leaf->kind != GX_LEAF_NUMBER &&
                               leaf->kind != GX_LEAF_TOEPLITZ && leaf->kind != GX_LEAF_CIRCULANT);
    }
    return is_it || is_diagonal;
}

// Reading -----------------------------------------------------------------------------------------

/* A rectangle, from (i0, j0) to before (i1, j1). */
typedef struct rect {
    int64_t i0, j0, i1, j1;
} rect;

static rect common(const rect *r, const gx_leaf *leaf)
{
    return (rect){gx_max(r->i0, leaf->i0), gx_max(r->j0, leaf->j0),
                  gx_min(r->i1, leaf->i0 + leaf->rows), gx_min(r->j1, leaf->j0 + leaf->cols)};
}

static bool is_empty(const rect *r)
{
    return r->i0 >= r->i1 || r->j0 >= r->j1;
}

/* The numbers of m x n that are on the leaf's diagonal. */
static void put_diagonal(const gx_leaf *leaf, const rect *r, gx_number dtype, void *dst, int64_t ld)
{
    int64_t first = gx_max(r->i0 - leaf->i0, r->j0 - leaf->j0);
    int64_t end = gx_min(r->i1 - leaf->i0, r->j1 - leaf->j0);
    for (int64_t d = first; d < end; d++) {
        void *at = gx_at(dst, dtype, ld, leaf->i0 + d - r->i0, leaf->j0 + d - r->j0);
        gx_scalar x = leaf->factor;
        if (leaf->adds) {
            gx_scalar old = gx_number_get(dtype, at, 0);
            x = (gx_scalar){x.re + old.re, x.im + old.im};
        }
        gx_number_put(dtype, at, 0, x);
    }
}

/* m numbers, conjugated where the leaf is, times its factor. */
static void scale(const gx_leaf *leaf, gx_number dtype, void *x, int64_t m)
{
    for (int64_t i = 0; i < m; i++) {
        gx_scalar value = gx_number_get(dtype, x, i);
        value.im = leaf->is_conjugated ? -value.im : value.im;
        gx_number_put(dtype, x, i, gx_scalar_times(value, leaf->factor));
    }
}

/* Elements m x n from (i, j) of the leaf, which is no NUMBER: but for conjugation and factor. */
static gx_code read_elements(gx_run *run, const gx_leaf *leaf, gx_reader *reader, int64_t i,
                             int64_t j, int64_t m, int64_t n, gx_number dtype, void *dst,
                             int64_t ld, gx_err *err)
{
    gx_mat view;
    if (leaf->kind != GX_LEAF_MATRIX) {
        return gx_leaf_read(run, leaf, reader, i, j, m, n, dtype, dst, ld, err);
    }
    if (!leaf->is_turned) {
        return gx_mat_read(run, &leaf->base, reader, i, j, m, n, dtype, dst, ld, err);
    }
    gx_mat_view(&view, &leaf->base, GX_TRANS, 0, 0, leaf->rows, leaf->cols);
    return gx_mat_read(run, &view, reader, i, j, m, n, dtype, dst, ld, err);
}

static gx_code read_straight(gx_run *run, const gx_leaf *leaf, gx_reader *reader, const rect *r,
                             gx_number dtype, void *dst, int64_t ld, gx_err *err)
{
    int64_t m = r->i1 - r->i0, n = r->j1 - r->j0;
    GX_TRY(read_elements(run, leaf, reader, r->i0 - leaf->i0, r->j0 - leaf->j0, m, n, dtype, dst,
                         ld, err));
    bool is_conjugated = leaf->is_conjugated && gx_number_is_complex(dtype);
    bool is_scaled = leaf->factor.re != 1 || leaf->factor.im != 0;
    for (int64_t j = 0; j < n && (is_conjugated || is_scaled); j++) {
        scale(leaf, dtype, gx_at(dst, dtype, ld, 0, j), m);
    }
    return GX_OK;
}

/* m x n of x, turned where the leaf is, to dst or added there. */
static void lay(const gx_leaf *leaf, bool is_turned, gx_number dtype, int64_t m, int64_t n,
                const void *x, void *dst, int64_t ld)
{
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            void *at = gx_at(dst, dtype, ld, i, j);
            gx_scalar value = gx_number_get(dtype, x, is_turned ? j + i * n : i + j * m);
            if (leaf->adds) {
                gx_scalar old = gx_number_get(dtype, at, 0);
                value = (gx_scalar){value.re + old.re, value.im + old.im};
            }
            gx_number_put(dtype, at, 0, value);
        }
    }
}

/* The same of a leaf that is turned or added: strip by strip.  x: room for one. */
static gx_code read_strips(gx_run *run, const gx_leaf *leaf, gx_reader *reader, const rect *all,
                           gx_number dtype, void *dst, int64_t ld, void *x, gx_err *err)
{
    bool is_turned = leaf->is_turned && leaf->kind != GX_LEAF_MATRIX;
    int64_t high = gx_min(STRIP, all->i1 - all->i0), wide = STRIP / high;
    gx_leaf plain = *leaf;
    if (is_turned) {
        gx_leaf_turn(&plain);
    }
    for (int64_t j = all->j0; j < all->j1; j += wide) {
        for (int64_t i = all->i0; i < all->i1; i += high) {
            rect r = {i, j, gx_min(i + high, all->i1), gx_min(j + wide, all->j1)};
            int64_t m = r.i1 - r.i0, n = r.j1 - r.j0;
            rect own = is_turned ? (rect){r.j0, r.i0, r.j1, r.i1} : r;
            GX_TRY(read_straight(run, &plain, reader, &own, dtype, x, is_turned ? n : m, err));
            lay(leaf, is_turned, dtype, m, n, x,
                gx_at(dst, dtype, ld, r.i0 - all->i0, r.j0 - all->j0), ld);
        }
    }
    return GX_OK;
}

static gx_code read_leaf(gx_run *run, const gx_leaf *leaf, gx_reader *reader, const rect *r,
                         gx_number dtype, void *dst, int64_t ld, gx_err *err)
{
    void *x;
    if (leaf->kind == GX_LEAF_NUMBER) {
        put_diagonal(leaf, r, dtype, dst, ld);
        return GX_OK;
    }
    if (!leaf->adds && (!leaf->is_turned || leaf->kind == GX_LEAF_MATRIX)) {
        return read_straight(run, leaf, reader, r, dtype, dst, ld, err);
    }
    int64_t count = gx_min(STRIP, (r->i1 - r->i0) * (r->j1 - r->j0));
    GX_TRY(gx_mem_alloc(NULL, (size_t)count * gx_number_bytes(dtype), "a strip", &x, err));
    gx_code code = read_strips(run, leaf, reader, r, dtype, dst, ld, x, err);
    gx_mem_free(NULL, x);
    return code;
}

static gx_code read_composite(gx_run *run, const gx_mat *mat, gx_reader *reader, int64_t i0,
                              int64_t j0, int64_t m, int64_t n, gx_number dtype, void *dst,
                              int64_t ld, gx_err *err)
{
    const rect all = {i0, j0, i0 + m, j0 + n};
    bool is_covered = false;
    for (int64_t k = 0; k < mat->leaves && !is_covered; k++) {
        rect r = common(&all, &mat->leaf[k]);
        is_covered = mat->leaf[k].kind != GX_LEAF_NUMBER && !mat->leaf[k].adds &&
                     memcmp(&r, &all, sizeof r) == 0;
    }
    for (int64_t j = 0; j < n && !is_covered; j++) {
        memset(gx_at(dst, dtype, ld, 0, j), 0, (size_t)m * gx_number_bytes(dtype));
    }
    for (int64_t k = 0; k < mat->leaves; k++) {
        rect r = common(&all, &mat->leaf[k]);
        if (!is_empty(&r)) {
            GX_TRY(read_leaf(run, &mat->leaf[k], reader, &r, dtype,
                             gx_at(dst, dtype, ld, r.i0 - i0, r.j0 - j0), ld, err));
        }
    }
    return GX_OK;
}

/* Does the leaf, which lies there, have nothing there? */
static bool is_off_diagonal(const gx_leaf *leaf, const rect *r)
{
    int64_t shift = leaf->is_turned ? -leaf->offset : leaf->offset;
    int64_t first = gx_max(r->i0 - leaf->i0 + shift, r->j0 - leaf->j0);
    int64_t end = gx_min(r->i1 - leaf->i0 + shift, r->j1 - leaf->j0);
    return (leaf->kind == GX_LEAF_NUMBER || leaf->kind == GX_LEAF_DIAGONAL) && first >= end;
}

bool gx_mat_is_void(const gx_mat *mat, int64_t i0, int64_t j0, int64_t m, int64_t n)
{
    while (mat->kind == GX_MAT_VIEW) {
        bool is_turned = mat->trans != GX_NO_TRANS;
        int64_t i = i0, rows = m;
        i0 = mat->row0 + (is_turned ? j0 : i0);
        j0 = mat->col0 + (is_turned ? i : j0);
        m = is_turned ? n : m;
        n = is_turned ? rows : n;
        mat = mat->base;
    }
    const rect all = {i0, j0, i0 + m, j0 + n};
    bool is_void = mat->kind == GX_MAT_COMPOSITE;
    for (int64_t k = 0; k < mat->leaves && is_void; k++) {
        rect r = common(&all, &mat->leaf[k]);
        is_void = is_empty(&r) || is_off_diagonal(&mat->leaf[k], &r);
    }
    return is_void;
}
