/*
** Layouts of composites (composite.h): their terms, sizes and bytes.
**
** The bytes come from a file, and files lie: kinds, names, sizes, and how deep operands are in one
** another, are checked.
*/
#include "layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { AT_VERSION = 4, AT_TERMS = 8, HEADER = 64, VERSION = 2 };

/* Of a term: where its fields are, and the name behind them. */
enum {
    TERM_KIND = 0,
    TERM_OP = 1,
    TERM_NAME = 2,
    TERM_OPERANDS = 4,
    TERM_FACTOR = 8,
    TERM_SIZES = 24, /* rows, columns, down, across */
    TERM_HEADER = 56
};

static const char MAGIC[4] = {'g', 'x', 'c', 'm'};

/* Operands that a kind has; -1: any number, or as `down` and `across` say. */
static const int8_t OPERANDS[] = {
    [GX_TERM_ZERO] = 0,      [GX_TERM_NUMBER] = 0,      [GX_TERM_MATRIX] = 0,
    [GX_TERM_BLOCK] = -1,    [GX_TERM_SUM] = -1,        [GX_TERM_PRODUCT] = 2,
    [GX_TERM_KRON] = 2,      [GX_TERM_DIAGONAL] = 1,    [GX_TERM_TOEPLITZ] = 2,
    [GX_TERM_CIRCULANT] = 1, [GX_TERM_PERMUTATION] = 1,
};

gx_code gx_layout_add(gx_mem *mem, gx_layout *layout, gx_term_kind kind, gx_term **term,
                      gx_err *err)
{
    if (layout->terms == GX_LAYOUT_TERMS) {
        return gx_fail(err, GX_ARG, "a composite has at most %d terms", GX_LAYOUT_TERMS);
    }
    if (layout->terms == layout->capacity) {
        int64_t capacity = gx_max(8, 2 * layout->capacity);
        void *memory = layout->term;
        GX_TRY(gx_mem_realloc(mem, (size_t)capacity * sizeof **term, "a layout", &memory, err));
        layout->term = memory;
        layout->capacity = capacity;
    }
    *term = &layout->term[layout->terms++];
    **term = (gx_term){.kind = kind, .factor = {1, 0}, .rows = -1, .cols = -1};
    return GX_OK;
}

gx_code gx_layout_add_block(gx_mem *mem, gx_layout *layout, int64_t down, int64_t across,
                            gx_err *err)
{
    gx_term *block;
    if (down < 1 || across < 1 || down > GX_LAYOUT_PARTS || across > GX_LAYOUT_PARTS / down) {
        return gx_fail(err, GX_ARG, "a composite has 1 to %d parts, not %lldx%lld", GX_LAYOUT_PARTS,
                       (long long)down, (long long)across);
    }
    GX_TRY(gx_layout_add(mem, layout, GX_TERM_BLOCK, &block, err));
    block->down = down;
    block->across = across;
    block->operands = down * across;
    return GX_OK;
}

void gx_layout_clear(gx_layout *layout, gx_mem *mem)
{
    gx_mem_free(mem, layout->term);
    *layout = (gx_layout){0};
}

// Sizes -------------------------------------------------------------------------------------------

const char *gx_term_name(const gx_term *term)
{
    static const char *const words[] = {
        [GX_TERM_ZERO] = "zeros",
        [GX_TERM_NUMBER] = "a number",
        [GX_TERM_MATRIX] = "",
        [GX_TERM_BLOCK] = "the block",
        [GX_TERM_SUM] = "the sum",
        [GX_TERM_PRODUCT] = "the product",
        [GX_TERM_KRON] = "the Kronecker product",
        [GX_TERM_DIAGONAL] = "the diagonal matrix",
        [GX_TERM_TOEPLITZ] = "the Toeplitz matrix",
        [GX_TERM_CIRCULANT] = "the circulant matrix",
        [GX_TERM_PERMUTATION] = "the permutation",
    };
    return term->kind == GX_TERM_MATRIX ? term->name : words[term->kind];
}

/* What is known of a row's height, or a column's width, and what a part says. */
static gx_code agree(int64_t *known, int64_t said, const char *what, int64_t line,
                     const gx_term *part, gx_err *err)
{
    if (said >= 0 && *known >= 0 && *known != said) {
        return gx_fail(err, GX_ARG,
                       "the part '%s' has %" PRId64 " %ss where the others of its %s of parts, "
                       "number %" PRId64 ", have %" PRId64,
                       gx_term_name(part), said, what, what, line, *known);
    }
    *known = said >= 0 ? said : *known;
    return GX_OK;
}

/* The sizes of a block that is measured: of its rows of parts, then of its columns. */
typedef struct lines {
    gx_term *block;
    int64_t *size;
} lines;

static int64_t *height(const lines *l, int64_t p)
{
    return &l->size[p / l->block->across];
}

static int64_t *width(const lines *l, int64_t p)
{
    return &l->size[l->block->down + p % l->block->across];
}

/* Numbers are in square parts: one side tells the other.  false: nothing new. */
static bool tell_squares(const lines *l)
{
    bool is_told = false;
    gx_term *part = l->block + 1;
    for (int64_t p = 0; p < l->block->operands; p++, part += part->span) {
        int64_t *h = height(l, p), *w = width(l, p);
        if (part->kind == GX_TERM_NUMBER && (*h < 0) != (*w < 0)) {
            *h = *w = gx_max(*h, *w);
            is_told = true;
        }
    }
    return is_told;
}

static gx_code settle(const lines *l, gx_err *err)
{
    gx_term *part = l->block + 1;
    for (int64_t p = 0; p < l->block->operands; p++, part += part->span) {
        GX_TRY(agree(height(l, p), part->rows, "row", p / l->block->across, part, err));
        GX_TRY(agree(width(l, p), part->cols, "column", p % l->block->across, part, err));
    }
    while (tell_squares(l)) {
    }
    part = l->block + 1;
    for (int64_t p = 0; p < l->block->operands; p++, part += part->span) {
        int64_t h = *height(l, p), w = *width(l, p), r = p / l->block->across,
                c = p % l->block->across;
        if (h < 0 || w < 0) {
            return gx_fail(err, GX_ARG, "no part tells how many %s number %" PRId64 " of parts has",
                           h < 0 ? "rows row" : "columns column", h < 0 ? r : c);
        }
        if (part->kind == GX_TERM_NUMBER && h != w) {
            return gx_fail(err, GX_ARG,
                           "part (%" PRId64 ", %" PRId64 ") is a number, which stands on the "
                           "diagonal of a square, but its place is %" PRId64 "x%" PRId64,
                           r, c, h, w);
        }
        part->rows = h;
        part->cols = w;
    }
    return GX_OK;
}

static gx_code too_large(gx_err *err)
{
    return gx_fail(err, GX_TOOBIG, "a composite of too many elements: " GX_SIZES_TEXT);
}

static gx_code measure_block(gx_mem *mem, gx_term *t, gx_err *err)
{
    lines l = {.block = t};
    int64_t count = t->down + t->across;
    GX_TRY(gx_mem_alloc(mem, (size_t)count * sizeof *l.size, "a layout", &l.size, err));
    for (int64_t k = 0; k < count; k++) {
        l.size[k] = -1;
    }
    gx_code code = settle(&l, err);
    t->rows = t->cols = 0;
    for (int64_t k = 0; k < count && code == GX_OK; k++) {
        int64_t *sum = k < t->down ? &t->rows : &t->cols;
        code = l.size[k] > INT64_MAX - *sum ? too_large(err) : GX_OK;
        *sum += code == GX_OK ? l.size[k] : 0;
    }
    gx_mem_free(mem, l.size);
    return code;
}

static gx_code do_not_fit(const char *verb, const gx_term *a, const gx_term *b, gx_err *err)
{
    return gx_fail(err, GX_ARG,
                   "%s is %" PRId64 "x%" PRId64 " and %s is %" PRId64 "x%" PRId64
                   ": they are not %s",
                   gx_term_name(a), a->rows, a->cols, gx_term_name(b), b->rows, b->cols, verb);
}

static gx_code measure_vector(const gx_term *v, int64_t *count, gx_err *err)
{
    *count = v->rows == 1 ? v->cols : v->rows;
    return v->rows == 1 || v->cols == 1
               ? GX_OK
               : gx_fail(err, GX_ARG, "%s is %" PRId64 "x%" PRId64 ", but a vector is wanted",
                         gx_term_name(v), v->rows, v->cols);
}

/* Of a matrix that vectors tell. */
static gx_code measure_told(gx_term *t, const gx_term *first, const gx_term *second, gx_err *err)
{
    int64_t n, shift = t->kind == GX_TERM_DIAGONAL ? t->down < 0 ? -t->down : t->down : 0;
    GX_TRY(measure_vector(first, &n, err));
    if (t->down == INT64_MIN || shift > INT64_MAX - n) {
        return too_large(err);
    }
    t->rows = t->cols = n + shift;
    if (t->kind == GX_TERM_TOEPLITZ) {
        GX_TRY(measure_vector(second, &t->cols, err));
    }
    return GX_OK;
}

static gx_code measure_sum(gx_term *t, gx_err *err)
{
    gx_term *one = t + 1;
    for (int64_t k = 1; k < t->operands; k++) {
        gx_term *next = one + one->span;
        if (next->rows != t[1].rows || next->cols != t[1].cols) {
            return do_not_fit("added", t + 1, next, err);
        }
        one = next;
    }
    t->rows = t[1].rows;
    t->cols = t[1].cols;
    return GX_OK;
}

static gx_code measure_pair(gx_term *t, const gx_term *a, const gx_term *b, gx_err *err)
{
    if (t->kind == GX_TERM_PRODUCT) {
        t->rows = a->rows;
        t->cols = b->cols;
        return a->cols == b->rows ? GX_OK : do_not_fit("multiplied", a, b, err);
    }
    return __builtin_mul_overflow(a->rows, b->rows, &t->rows) ||
                   __builtin_mul_overflow(a->cols, b->cols, &t->cols)
               ? too_large(err)
               : GX_OK;
}

/* Of a term whose operands are known; but in a block all of them are. */
static gx_code measure_term(gx_mem *mem, gx_term *t, gx_err *err)
{
    gx_term *first = t + 1, *second = t->operands > 1 ? first + first->span : NULL;
    gx_term *operand = first;
    for (int64_t k = 0; k < t->operands && t->kind != GX_TERM_BLOCK;
         k++, operand += operand->span) {
        if (operand->rows < 0) {
            return gx_fail(err, GX_ARG, "%s has no size outside of a block: write eye(n)",
                           gx_term_name(operand));
        }
    }
    if (t->kind == GX_TERM_BLOCK) {
        GX_TRY(measure_block(mem, t, err));
    } else if (t->kind == GX_TERM_SUM) {
        GX_TRY(measure_sum(t, err));
    } else if (t->kind == GX_TERM_PRODUCT || t->kind == GX_TERM_KRON) {
        GX_TRY(measure_pair(t, first, second, err));
    } else {
        GX_TRY(measure_told(t, first, second, err));
    }
    if (t->is_turned) {
        int64_t rows = t->rows;
        t->rows = t->cols;
        t->cols = rows;
    }
    return GX_OK;
}

static gx_code cut_short(gx_err *err)
{
    return gx_fail(err, GX_ARG, "terms without operands");
}

/* Term k; *next: the one behind it and its operands. */
static gx_code measure(gx_mem *mem, gx_layout *l, int64_t k, int depth, int64_t *next, gx_err *err)
{
    if (k >= l->terms) {
        return cut_short(err);
    }
    if (depth == GX_COMPOSITE_DEPTH) {
        return gx_fail(err, GX_ARG, "more than %d operands are in one another", depth);
    }
    gx_term *t = &l->term[k];
    bool is_leaf = OPERANDS[t->kind] == 0;
    if ((OPERANDS[t->kind] >= 0 && t->operands != OPERANDS[t->kind]) ||
        (t->kind == GX_TERM_SUM && t->operands < 1) ||
        (t->kind == GX_TERM_BLOCK && t->operands != t->down * t->across)) {
        return cut_short(err);
    }
    *next = k + 1;
    for (int64_t o = 0; o < t->operands; o++) {
        GX_TRY(measure(mem, l, *next, depth + 1, next, err));
    }
    t->span = *next - k;
    return is_leaf ? GX_OK : measure_term(mem, t, err);
}

gx_code gx_layout_measure(gx_mem *mem, gx_layout *layout, gx_err *err)
{
    int64_t end;
    GX_TRY(measure(mem, layout, 0, 0, &end, err));
    return end == layout->terms ? GX_OK : gx_fail(err, GX_ARG, "terms that are no operands");
}

// Bytes -------------------------------------------------------------------------------------------

static size_t term_bytes(const gx_term *term)
{
    return TERM_HEADER + gx_round_up(strlen(term->name), 8);
}

static void put_term(char *at, const gx_term *t)
{
    uint16_t length = (uint16_t)strlen(t->name);
    uint32_t operands = (uint32_t)t->operands;
    const int64_t sizes[] = {t->rows, t->cols, t->down, t->across};
    at[TERM_KIND] = (char)t->kind;
    at[TERM_OP] = (char)(t->is_turned | t->is_conjugated << 1);
    memcpy(at + TERM_NAME, &length, sizeof length);
    memcpy(at + TERM_OPERANDS, &operands, sizeof operands);
    memcpy(at + TERM_FACTOR, &t->factor, sizeof t->factor);
    memcpy(at + TERM_SIZES, sizes, sizeof sizes);
    memcpy(at + TERM_HEADER, t->name, length);
}

gx_code gx_layout_write(gx_store *store, gx_mem *mem, const gx_meta *meta, const gx_layout *layout,
                        gx_err *err)
{
    size_t bytes = HEADER;
    void *memory;
    for (int64_t k = 0; k < layout->terms; k++) {
        bytes += term_bytes(&layout->term[k]);
    }
    GX_TRY(gx_store_allows_aux(store, bytes, err));
    GX_TRY(gx_mem_calloc(mem, bytes, "a layout", &memory, err));
    char *at = memory;
    memcpy(at, MAGIC, sizeof MAGIC);
    at[AT_VERSION] = VERSION;
    memcpy(at + AT_TERMS, &layout->terms, sizeof layout->terms);
    at += HEADER;
    for (int64_t k = 0; k < layout->terms; k++) {
        put_term(at, &layout->term[k]);
        at += term_bytes(&layout->term[k]);
    }
    gx_code code = gx_store_write_aux(store, meta, memory, bytes, err);
    gx_mem_free(mem, memory);
    return code;
}

static gx_code damaged(const gx_meta *meta, const char *what, gx_err *err)
{
    return gx_fail(err, GX_CORRUPT, "layout of %s: %s", meta->name, what);
}

/* One term at *at, of what ends at end. */
static gx_code parse_term(const gx_meta *meta, const char **at, const char *end, gx_term *t,
                          gx_err *err)
{
    uint16_t length;
    uint32_t operands;
    int64_t sizes[4];
    const char *from = *at;
    if (end - from < TERM_HEADER) {
        return damaged(meta, "it ends within a part", err);
    }
    memcpy(&length, from + TERM_NAME, sizeof length);
    memcpy(&operands, from + TERM_OPERANDS, sizeof operands);
    memcpy(sizes, from + TERM_SIZES, sizeof sizes);
    unsigned kind = (unsigned char)from[TERM_KIND], op = (unsigned char)from[TERM_OP];
    if (kind > GX_TERM_PERMUTATION || op > 3 || length > GX_NAME_MAX ||
        (kind == GX_TERM_MATRIX) != (length > 0) ||
        (size_t)(end - from) < TERM_HEADER + gx_round_up(length, 8) ||
        memchr(from + TERM_HEADER, '\0', length) != NULL || operands > GX_LAYOUT_TERMS ||
        sizes[0] < 0 || sizes[1] < 0) {
        return damaged(meta, "a part is none", err);
    }
    t->kind = (gx_term_kind)kind;
    t->is_turned = (op & 1) != 0;
    t->is_conjugated = (op & 2) != 0;
    t->operands = operands;
    memcpy(&t->factor, from + TERM_FACTOR, sizeof t->factor);
    t->rows = sizes[0];
    t->cols = sizes[1];
    t->down = sizes[2];
    t->across = sizes[3];
    memcpy(t->name, from + TERM_HEADER, length);
    t->name[length] = '\0';
    *at = from + TERM_HEADER + gx_round_up(length, 8);
    bool is_grid = t->down >= 1 && t->across >= 1 && t->down <= GX_LAYOUT_PARTS &&
                   t->across <= GX_LAYOUT_PARTS / t->down;
    return kind != GX_TERM_BLOCK || is_grid ? GX_OK : damaged(meta, "too many parts", err);
}

static gx_code parse(gx_mem *mem, const gx_meta *meta, const char *blob, size_t bytes,
                     gx_layout *layout, gx_err *err)
{
    int64_t terms;
    gx_err odd = {0};
    if (bytes < HEADER || memcmp(blob, MAGIC, sizeof MAGIC) != 0) {
        return damaged(meta, "bytes that are none", err);
    }
    if (blob[AT_VERSION] != VERSION) {
        return gx_fail(err, GX_UNSUPPORTED, "layout of %s: version %d, this gx knows version %d",
                       meta->name, blob[AT_VERSION], VERSION);
    }
    memcpy(&terms, blob + AT_TERMS, sizeof terms);
    if (terms < 1 || terms > GX_LAYOUT_TERMS) {
        return damaged(meta, "too many parts", err);
    }
    const char *at = blob + HEADER, *end = blob + bytes;
    for (int64_t k = 0; k < terms; k++) {
        gx_term *term;
        GX_TRY(gx_layout_add(mem, layout, GX_TERM_ZERO, &term, err));
        GX_TRY(parse_term(meta, &at, end, term, err));
    }
    if (at != end) {
        return damaged(meta, "bytes behind its parts", err);
    }
    gx_code code = gx_layout_measure(mem, layout, &odd);
    if (code == GX_OK) {
        bool is_right = layout->term->rows == meta->rows && layout->term->cols == meta->cols;
        return is_right ? GX_OK : damaged(meta, "its parts have other sizes than it", err);
    }
    return code == GX_ARG || code == GX_TOOBIG ? damaged(meta, odd.text, err)
                                               : gx_fail(err, code, "%s", odd.text);
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
