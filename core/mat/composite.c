/*
** Composite matrices: their layout, how they are opened, read, stored and renamed (composite.h).
**
** Opened, a composite is a list of leaves: stored matrices and numbers on diagonals, each with its
** place; parts that are composites themselves have been looked through.  A rectangle is read leaf
** by leaf, straight to its place, and is zeros elsewhere.
**
** The bytes of a layout come from a file, and files lie: sizes, names and how deep composites are
** in one another are checked, and one that is a part of itself is refused.
*/
#include "composite.h"

#include "../run/call.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { AT_VERSION = 4, AT_DOWN = 8, AT_ACROSS = 16, HEADER = 64, VERSION = 1 };

/* Of a part: where its fields are, and the name behind them. */
enum { PART_KIND = 0, PART_OP = 1, PART_NAME = 2, PART_FACTOR = 8, PART_HEADER = 24 };

static const char MAGIC[4] = {'g', 'x', 'c', 'm'};

// Layouts -----------------------------------------------------------------------------------------

gx_code gx_layout_create(gx_mem *mem, int64_t down, int64_t across, gx_layout *layout, gx_err *err)
{
    *layout = (gx_layout){.down = down, .across = across};
    if (down < 1 || across < 1 || down > GX_LAYOUT_PARTS || across > GX_LAYOUT_PARTS / down) {
        return gx_fail(err, GX_ARG, "a composite has 1 to %d parts, not %lldx%lld", GX_LAYOUT_PARTS,
                       (long long)down, (long long)across);
    }
    size_t sizes = (size_t)(down + across) * sizeof(int64_t);
    size_t parts = (size_t)(down * across) * sizeof(gx_layout_part);
    GX_TRY(gx_mem_calloc(mem, sizes + parts, "a layout", &layout->memory, err));
    layout->height = layout->memory;
    layout->width = layout->height + down;
    layout->part = (void *)(layout->width + across);
    for (int64_t k = 0; k < down + across; k++) {
        layout->height[k] = -1;
    }
    return GX_OK;
}

void gx_layout_clear(gx_layout *layout, gx_mem *mem)
{
    gx_mem_free(mem, layout->memory);
    *layout = (gx_layout){0};
}

static size_t part_bytes(const gx_layout_part *part)
{
    return PART_HEADER + gx_round_up(strlen(part->name), 8);
}

static gx_code write_layout(gx_store *store, gx_mem *mem, const gx_meta *meta,
                            const gx_layout *layout, gx_err *err)
{
    size_t sizes = (size_t)(layout->down + layout->across) * sizeof(int64_t);
    size_t bytes = HEADER + sizes;
    void *memory;
    for (int64_t p = 0; p < layout->down * layout->across; p++) {
        bytes += part_bytes(&layout->part[p]);
    }
    GX_TRY(gx_store_allows_aux(store, bytes, err));
    GX_TRY(gx_mem_calloc(mem, bytes, "a layout", &memory, err));
    char *at = memory;
    memcpy(at, MAGIC, sizeof MAGIC);
    at[AT_VERSION] = VERSION;
    memcpy(at + AT_DOWN, &layout->down, sizeof layout->down);
    memcpy(at + AT_ACROSS, &layout->across, sizeof layout->across);
    memcpy(at + HEADER, layout->height, sizes); // widths lie behind heights
    at += HEADER + sizes;
    for (int64_t p = 0; p < layout->down * layout->across; p++) {
        const gx_layout_part *part = &layout->part[p];
        uint16_t length = (uint16_t)strlen(part->name);
        at[PART_KIND] = (char)part->kind;
        at[PART_OP] = (char)(part->is_turned | part->is_conjugated << 1);
        memcpy(at + PART_NAME, &length, sizeof length);
        memcpy(at + PART_FACTOR, &part->factor, sizeof part->factor);
        memcpy(at + PART_HEADER, part->name, length);
        at += part_bytes(part);
    }
    gx_code code = gx_store_write_aux(store, meta, memory, bytes, err);
    gx_mem_free(mem, memory);
    return code;
}

static gx_code damaged(const gx_meta *meta, const char *what, gx_err *err)
{
    return gx_fail(err, GX_CORRUPT, "layout of %s: %s", meta->name, what);
}

/* One part at *at, of what ends at end. */
static gx_code parse_part(const gx_meta *meta, const char **at, const char *end,
                          gx_layout_part *part, gx_err *err)
{
    uint16_t length;
    const char *from = *at;
    if (end - from < PART_HEADER) {
        return damaged(meta, "it ends within a part", err);
    }
    memcpy(&length, from + PART_NAME, sizeof length);
    unsigned kind = (unsigned char)from[PART_KIND], op = (unsigned char)from[PART_OP];
    bool is_named = kind == GX_PART_MATRIX;
    if (kind > GX_PART_MATRIX || op > 3 || length > GX_NAME_MAX || is_named != (length > 0) ||
        (size_t)(end - from) < PART_HEADER + gx_round_up(length, 8) ||
        memchr(from + PART_HEADER, '\0', length) != NULL) {
        return damaged(meta, "a part is none", err);
    }
    part->kind = (gx_part_kind)kind;
    part->is_turned = (op & 1) != 0;
    part->is_conjugated = (op & 2) != 0;
    memcpy(&part->factor, from + PART_FACTOR, sizeof part->factor);
    memcpy(part->name, from + PART_HEADER, length);
    part->name[length] = '\0';
    *at = from + PART_HEADER + gx_round_up(length, 8);
    return GX_OK;
}

/* Heights come to rows, widths to columns. */
static gx_code check_sizes(const gx_meta *meta, const gx_layout *layout, gx_err *err)
{
    int64_t rows = 0, cols = 0;
    for (int64_t k = 0; k < layout->down + layout->across; k++) {
        int64_t *sum = k < layout->down ? &rows : &cols;
        int64_t most = k < layout->down ? meta->rows : meta->cols, size = layout->height[k];
        if (size < 0 || size > most - *sum) {
            return damaged(meta, "its parts have other sizes than it", err);
        }
        *sum += size;
    }
    return rows == meta->rows && cols == meta->cols
               ? GX_OK
               : damaged(meta, "its parts have other sizes than it", err);
}

static gx_code parse(gx_mem *mem, const gx_meta *meta, const char *blob, size_t bytes,
                     gx_layout *layout, gx_err *err)
{
    int64_t down, across;
    if (bytes < HEADER || memcmp(blob, MAGIC, sizeof MAGIC) != 0) {
        return damaged(meta, "bytes that are none", err);
    }
    if (blob[AT_VERSION] != VERSION) {
        return gx_fail(err, GX_UNSUPPORTED, "layout of %s: version %d, this gx knows version %d",
                       meta->name, blob[AT_VERSION], VERSION);
    }
    memcpy(&down, blob + AT_DOWN, sizeof down);
    memcpy(&across, blob + AT_ACROSS, sizeof across);
    if (down < 1 || across < 1 || down > GX_LAYOUT_PARTS || across > GX_LAYOUT_PARTS / down) {
        return damaged(meta, "too many parts", err);
    }
    size_t sizes = (size_t)(down + across) * sizeof(int64_t);
    if (bytes - HEADER < sizes) {
        return damaged(meta, "it ends within its sizes", err);
    }
    GX_TRY(gx_layout_create(mem, down, across, layout, err));
    memcpy(layout->height, blob + HEADER, sizes);
    GX_TRY(check_sizes(meta, layout, err));
    const char *at = blob + HEADER + sizes, *end = blob + bytes;
    for (int64_t p = 0; p < down * across; p++) {
        GX_TRY(parse_part(meta, &at, end, &layout->part[p], err));
    }
    return at == end ? GX_OK : damaged(meta, "bytes behind its parts", err);
}

gx_code gx_layout_load(gx_store *store, gx_mem *mem, const gx_meta *meta, gx_layout *layout,
                       gx_err *err)
{
    void *blob;
    size_t bytes;
    *layout = (gx_layout){0};
    GX_TRY(gx_store_read_aux(store, meta, &blob, &bytes, err));
    gx_code code = parse(mem, meta, blob == NULL ? "" : blob, bytes, layout, err);
    gx_mem_free(mem, blob);
    if (code != GX_OK) {
        gx_layout_clear(layout, mem);
    }
    return code;
}

// Opening -----------------------------------------------------------------------------------------

/* Where a matrix goes in the composite that is opened, and what is done to it. */
typedef struct place {
    int64_t i0, j0;
    bool is_turned, is_conjugated;
    gx_scalar factor;
} place;

/* What is known of the numbers of all parts. */
typedef struct kinds {
    bool is_complex, is_double, has_number;
} kinds;

static void join_number(kinds *all, gx_number number)
{
    all->has_number = true;
    all->is_double = all->is_double || gx_number_is_double(number);
    all->is_complex = all->is_complex || gx_number_is_complex(number);
}

/* The widest; of numbers on diagonals alone f64. */
static gx_number number_of(const kinds *all)
{
    bool is_double = all->is_double || !all->has_number;
    return all->is_complex ? is_double ? GX_C128 : GX_C64 : is_double ? GX_F64 : GX_F32;
}

typedef struct opening {
    gx_store *store;
    gx_mem *mem;
    gx_leaf *leaf;
    int64_t leaves, capacity;
    int64_t id[GX_COMPOSITE_DEPTH]; /* of composites that are being looked through */
    int depth;
    kinds kinds;
} opening;

static gx_code add_leaf(opening *o, const gx_leaf *leaf, gx_err *err)
{
    if (o->leaves == GX_COMPOSITE_LEAVES) {
        return gx_fail(err, GX_ARG, "the composite has more than %d parts in its parts",
                       GX_COMPOSITE_LEAVES);
    }
    if (o->leaves == o->capacity) {
        int64_t capacity = gx_max(8, 2 * o->capacity);
        void *memory = o->leaf;
        GX_TRY(gx_mem_realloc(o->mem, (size_t)capacity * sizeof *leaf, "parts of a composite",
                              &memory, err));
        o->leaf = memory;
        o->capacity = capacity;
    }
    o->leaf[o->leaves++] = *leaf;
    o->kinds.is_complex = o->kinds.is_complex || leaf->factor.im != 0;
    return GX_OK;
}

static place place_in(const place *outer, const gx_layout_part *part, int64_t i, int64_t j)
{
    gx_scalar own = part->factor;
    own.im = outer->is_conjugated ? -own.im : own.im;
    return (place){.i0 = outer->i0 + (outer->is_turned ? j : i),
                   .j0 = outer->j0 + (outer->is_turned ? i : j),
                   .is_turned = outer->is_turned != part->is_turned,
                   .is_conjugated = outer->is_conjugated != part->is_conjugated,
                   .factor = gx_scalar_times(outer->factor, own)};
}

static gx_code add_number(opening *o, const place *at, int64_t order, gx_err *err)
{
    gx_leaf leaf = {.i0 = at->i0,
                    .j0 = at->j0,
                    .rows = order,
                    .cols = order,
                    .is_number = true,
                    .factor = at->factor};
    return add_leaf(o, &leaf, err);
}

static gx_code add_stored(opening *o, const gx_meta *meta, const place *at, gx_err *err)
{
    if (gx_aux_kind_of(meta->properties) != GX_AUX_NONE) {
        return gx_aux_refuse(meta->name, meta->properties, err);
    }
    gx_leaf leaf = {.i0 = at->i0,
                    .j0 = at->j0,
                    .rows = at->is_turned ? meta->cols : meta->rows,
                    .cols = at->is_turned ? meta->rows : meta->cols,
                    .is_turned = at->is_turned,
                    .is_conjugated = at->is_conjugated,
                    .factor = at->factor};
    gx_mat_stored(&leaf.base, meta);
    join_number(&o->kinds, leaf.base.number);
    return add_leaf(o, &leaf, err);
}

static gx_code find_part(gx_store *store, const gx_meta *of, const gx_layout_part *part,
                         gx_meta *meta, gx_err *err)
{
    char full[2 * GX_NAME_MAX + 2];
    bool found;
    snprintf(full, sizeof full, "%s.%s", of->schema, part->name);
    GX_TRY(gx_store_lookup(store, full, meta, &found, err));
    return found ? GX_OK
                 : gx_fail(err, GX_ARG, "%s has the part '%s', and there is no such matrix in %s",
                           of->name, part->name, of->schema);
}

static gx_code add_matrix(opening *o, const gx_meta *meta, const place *at, gx_err *err);

/* A part of `of`, h x w, whose place there is (i, j). */
static gx_code add_part(opening *o, const gx_meta *of, const gx_layout_part *part, int64_t i,
                        int64_t j, int64_t h, int64_t w, const place *outer, gx_err *err)
{
    gx_meta meta;
    place at = place_in(outer, part, i, j);
    if (part->kind == GX_PART_ZERO) {
        return GX_OK;
    }
    if (part->kind == GX_PART_NUMBER) {
        return h == w ? add_number(o, &at, h, err)
                      : damaged(of, "a number in a part that is not square", err);
    }
    GX_TRY(find_part(o->store, of, part, &meta, err));
    int64_t rows = part->is_turned ? meta.cols : meta.rows;
    int64_t cols = part->is_turned ? meta.rows : meta.cols;
    if (rows != h || cols != w) {
        return gx_fail(err, GX_ARG,
                       "the part '%s' of %s is %" PRId64 "x%" PRId64 " and was %" PRId64 "x%" PRId64
                       " when %s was made: make it again with gx_block",
                       part->name, of->name, meta.rows, meta.cols, part->is_turned ? w : h,
                       part->is_turned ? h : w, of->name);
    }
    return h == 0 || w == 0 ? GX_OK : add_matrix(o, &meta, &at, err);
}

static gx_code add_parts(opening *o, const gx_meta *meta, const gx_layout *l, const place *at,
                         gx_err *err)
{
    gx_code code = GX_OK;
    int64_t i = 0;
    for (int64_t r = 0; r < l->down; i += l->height[r++]) {
        int64_t j = 0;
        for (int64_t c = 0; c < l->across && code == GX_OK; j += l->width[c++]) {
            code = add_part(o, meta, &l->part[r * l->across + c], i, j, l->height[r], l->width[c],
                            at, err);
        }
    }
    return code;
}

static gx_code add_matrix(opening *o, const gx_meta *meta, const place *at, gx_err *err)
{
    gx_layout layout;
    if (!meta->is_composite) {
        return add_stored(o, meta, at, err);
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
    gx_code code = add_parts(o, meta, &layout, at, err);
    o->depth--;
    gx_layout_clear(&layout, o->mem);
    return code;
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
        gx_number_put(dtype, gx_at(dst, dtype, ld, leaf->i0 + d - r->i0, leaf->j0 + d - r->j0), 0,
                      leaf->factor);
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

static gx_code read_leaf(gx_run *run, const gx_leaf *leaf, gx_reader *reader, const rect *r,
                         gx_number dtype, void *dst, int64_t ld, gx_err *err)
{
    gx_mat view;
    const gx_mat *source = &leaf->base;
    int64_t m = r->i1 - r->i0, n = r->j1 - r->j0;
    if (leaf->is_number) {
        put_diagonal(leaf, r, dtype, dst, ld);
        return GX_OK;
    }
    if (leaf->is_turned) {
        gx_mat_view(&view, &leaf->base, GX_TRANS, 0, 0, leaf->rows, leaf->cols);
        source = &view;
    }
    GX_TRY(gx_mat_read(run, source, reader, r->i0 - leaf->i0, r->j0 - leaf->j0, m, n, dtype, dst,
                       ld, err));
    bool is_conjugated = leaf->is_conjugated && gx_number_is_complex(dtype);
    bool is_scaled = leaf->factor.re != 1 || leaf->factor.im != 0;
    for (int64_t j = 0; j < n && (is_conjugated || is_scaled); j++) {
        scale(leaf, dtype, gx_at(dst, dtype, ld, 0, j), m);
    }
    return GX_OK;
}

static gx_code read_composite(gx_run *run, const gx_mat *mat, gx_reader *reader, int64_t i0,
                              int64_t j0, int64_t m, int64_t n, gx_number dtype, void *dst,
                              int64_t ld, gx_err *err)
{
    const rect all = {i0, j0, i0 + m, j0 + n};
    bool is_covered = false;
    for (int64_t k = 0; k < mat->leaves && !is_covered; k++) {
        rect r = common(&all, &mat->leaf[k]);
        is_covered = !mat->leaf[k].is_number && memcmp(&r, &all, sizeof r) == 0;
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

gx_code gx_mat_open(gx_store *store, gx_mem *mem, const gx_meta *meta, gx_mat *out, gx_err *err)
{
    gx_mat_stored(out, meta);
    if (!meta->is_composite) {
        return GX_OK;
    }
    opening o = {.store = store, .mem = mem};
    const place whole = {.factor = {1, 0}};
    gx_code code = add_matrix(&o, meta, &whole, err);
    if (code != GX_OK) {
        gx_mem_free(mem, o.leaf);
        return code;
    }
    out->kind = GX_MAT_COMPOSITE;
    out->number = number_of(&o.kinds);
    out->dtype = gx_dtype_of(out->number);
    out->read = read_composite;
    out->leaf = out->owned = o.leaf;
    out->leaves = o.leaves;
    return GX_OK;
}

void gx_mat_composite(gx_mat *mat, const char *label, gx_number number, int64_t rows, int64_t cols)
{
    gx_mat_generated(mat, label, number, rows, cols, NULL, NULL);
    mat->kind = GX_MAT_COMPOSITE;
    mat->read = read_composite;
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
        is_void = is_empty(&r);
    }
    return is_void;
}

// Making ------------------------------------------------------------------------------------------

/* What is known of a row's height, or a column's width, and what a part says. */
static gx_code agree(int64_t *known, int64_t said, const char *what, int64_t line,
                     const gx_layout_part *part, gx_err *err)
{
    if (*known >= 0 && *known != said) {
        return gx_fail(err, GX_ARG,
                       "the part '%s' has %" PRId64 " %ss where the others of its %s of parts, "
                       "number %" PRId64 ", have %" PRId64,
                       part->name, said, what, what, line, *known);
    }
    *known = said;
    return GX_OK;
}

/* The names without their schema, which is the composite's own; the sizes that they tell. */
static gx_code look_at_parts(gx_store *store, gx_meta *meta, gx_layout *l, gx_err *err)
{
    kinds all = {.is_complex = false};
    for (int64_t p = 0; p < l->down * l->across; p++) {
        gx_layout_part *part = &l->part[p];
        gx_meta found;
        char head[GX_NAME_MAX + 1];
        const char *bare;
        all.is_complex = all.is_complex || part->factor.im != 0;
        if (part->kind != GX_PART_MATRIX) {
            continue;
        }
        GX_TRY(gx_store_split(store, part->name, head, &bare, err));
        if (head[0] != '\0' && strcmp(head, meta->schema) != 0) {
            return gx_fail(err, GX_ARG,
                           "the part '%s' is of another database: those of a composite in %s are "
                           "in %s",
                           part->name, meta->schema, meta->schema);
        }
        memmove(part->name, bare, strlen(bare) + 1);
        GX_TRY(find_part(store, meta, part, &found, err));
        join_number(&all, gx_meta_number(&found));
        int64_t r = p / l->across, c = p % l->across;
        GX_TRY(
            agree(&l->height[r], part->is_turned ? found.cols : found.rows, "row", r, part, err));
        GX_TRY(
            agree(&l->width[c], part->is_turned ? found.rows : found.cols, "column", c, part, err));
    }
    meta->dtype = gx_dtype_of(number_of(&all));
    return GX_OK;
}

/* Numbers are in square parts: one side tells the other.  false: nothing new. */
static bool tell_squares(gx_layout *l)
{
    bool is_told = false;
    for (int64_t p = 0; p < l->down * l->across; p++) {
        int64_t *h = &l->height[p / l->across], *w = &l->width[p % l->across];
        if (l->part[p].kind == GX_PART_NUMBER && (*h < 0) != (*w < 0)) {
            *h = *w = gx_max(*h, *w);
            is_told = true;
        }
    }
    return is_told;
}

static gx_code settle_sizes(gx_meta *meta, gx_layout *l, gx_err *err)
{
    while (tell_squares(l)) {
    }
    for (int64_t p = 0; p < l->down * l->across; p++) {
        int64_t h = l->height[p / l->across], w = l->width[p % l->across];
        if (h < 0 || w < 0) {
            return gx_fail(err, GX_ARG, "no part tells how many %s number %" PRId64 " of parts has",
                           h < 0 ? "rows row" : "columns column",
                           h < 0 ? p / l->across : p % l->across);
        }
        if (l->part[p].kind == GX_PART_NUMBER && h != w) {
            return gx_fail(err, GX_ARG,
                           "part (%" PRId64 ", %" PRId64 ") is a number, which stands on the "
                           "diagonal of a square, but its place is %" PRId64 "x%" PRId64,
                           p / l->across, p % l->across, h, w);
        }
    }
    for (int64_t k = 0; k < l->down + l->across; k++) {
        int64_t *sum = k < l->down ? &meta->rows : &meta->cols;
        if (l->height[k] > INT64_MAX - *sum) {
            return gx_fail(err, GX_TOOBIG, "a composite of too many elements: " GX_SIZES_TEXT);
        }
        *sum += l->height[k];
    }
    size_t bytes;
    return gx_dtype_matrix_bytes(meta->rows, meta->cols, meta->dtype, &bytes)
               ? GX_OK
               : gx_fail(err, GX_TOOBIG, "a composite of %lldx%lld elements: " GX_SIZES_TEXT,
                         (long long)meta->rows, (long long)meta->cols);
}

/* Opened once: what is a part of itself shows now. */
static gx_code write_row(gx_run *run, const gx_dest *dest, gx_meta *meta, const gx_layout *layout,
                         gx_err *err)
{
    gx_store *store = run->ctx->store;
    gx_mat opened;
    char name[GX_NAME_MAX + 1];
    memcpy(name, meta->name, sizeof name);
    GX_TRY(gx_store_create(store, meta, NULL, err));
    GX_TRY(write_layout(store, run->ctx->mem, meta, layout, err));
    GX_TRY(gx_store_publish(store, meta, name, dest->replace, err));
    GX_TRY(gx_mat_open(store, run->ctx->mem, meta, &opened, err));
    gx_mat_clear(&opened, run->ctx->mem);
    return GX_OK;
}

static gx_code make(gx_run *run, const gx_dest *dest, gx_layout *layout, gx_err *err)
{
    gx_store *store = run->ctx->store;
    gx_meta meta = {.is_composite = true};
    GX_TRY(gx_store_resolve(store, dest->name, meta.schema, meta.name, err));
    GX_TRY(gx_store_check_free(store, meta.schema, meta.name, dest->replace, err));
    GX_TRY(look_at_parts(store, &meta, layout, err));
    GX_TRY(settle_sizes(&meta, layout, err));
    GX_TRY(gx_store_begin(store, meta.schema, err));
    gx_code code = write_row(run, dest, &meta, layout, err);
    gx_code ended = gx_store_end(store, code == GX_OK, err);
    return code == GX_OK ? ended : code;
}

gx_code gx_composite_store(gx_run *run, const gx_dest *dest, gx_layout *layout)
{
    gx_err err = {0};
    if (gx_ok(run) && make(run, dest, layout, &err) != GX_OK) {
        gx_run_fail(run, &err);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

// Names that change -------------------------------------------------------------------------------

/* The composites of a schema, and how the matrix of an id is called there. */
typedef struct found {
    gx_mem *mem;
    int64_t id;
    char name[GX_NAME_MAX + 1];
    gx_meta *meta;
    int64_t count, capacity;
    gx_err *err;
} found;

static bool collect(void *arg, const gx_meta *meta)
{
    found *f = arg;
    if (meta->id == f->id) {
        memcpy(f->name, meta->name, sizeof f->name);
    }
    if (!meta->is_composite) {
        return true;
    }
    if (f->count == f->capacity) {
        int64_t capacity = gx_max(8, 2 * f->capacity);
        void *memory = f->meta;
        if (gx_mem_realloc(f->mem, (size_t)capacity * sizeof *meta, "composites", &memory,
                           f->err) != GX_OK) {
            return false;
        }
        f->meta = memory;
        f->capacity = capacity;
    }
    f->meta[f->count++] = *meta;
    return true;
}

/* A damaged layout stays as it is: gx_check says so. */
static gx_code rename_in(gx_store *store, gx_mem *mem, gx_meta *meta, const char *from,
                         const char *to, gx_err *err)
{
    gx_layout layout;
    gx_err damage = {0};
    bool has_it = false;
    gx_code code = gx_layout_load(store, mem, meta, &layout, &damage);
    if (code != GX_OK) {
        return code == GX_CORRUPT || code == GX_UNSUPPORTED ? GX_OK
                                                            : gx_fail(err, code, "%s", damage.text);
    }
    for (int64_t p = 0; p < layout.down * layout.across; p++) {
        gx_layout_part *part = &layout.part[p];
        if (part->kind == GX_PART_MATRIX && strcmp(part->name, from) == 0) {
            snprintf(part->name, sizeof part->name, "%s", to);
            has_it = true;
        }
    }
    if (has_it) {
        code = write_layout(store, mem, meta, &layout, err);
    }
    if (has_it && code == GX_OK) {
        code = gx_store_touch(store, meta, meta->properties, err);
    }
    gx_layout_clear(&layout, mem);
    return code;
}

static gx_code rename_all(gx_store *store, gx_meta *meta, const char *name, found *f, gx_err *err)
{
    gx_code code = gx_store_list(store, meta->schema, NULL, collect, f, err);
    code = code == GX_OK ? err->code : code;
    if (code == GX_OK) {
        code = gx_store_rename(store, meta, name, err);
    }
    for (int64_t k = 0; k < f->count && code == GX_OK; k++) {
        code = rename_in(store, f->mem, &f->meta[k], f->name, meta->name, err);
    }
    return code;
}

gx_code gx_mat_rename(gx_store *store, gx_mem *mem, gx_meta *meta, const char *name, gx_err *err)
{
    found f = {.mem = mem, .id = meta->id, .err = err};
    GX_TRY(gx_store_begin(store, meta->schema, err));
    gx_code code = rename_all(store, meta, name, &f, err);
    gx_mem_free(mem, f.meta);
    gx_code ended = gx_store_end(store, code == GX_OK, err);
    return code == GX_OK ? ended : code;
}
