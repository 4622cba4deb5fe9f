/*
** Samples: see sample.h.
**
** Moments follow B. P. Welford, Technometrics 4 (1962), and for the third and fourth P. Pebay,
** Sandia report SAND2008-6212: sums of powers of differences from the mean so far, which do not
** cancel when the mean is large beside the deviations.
**
** Labels are looked for from the latest on; from LINEAR labels on in a table of open addresses with
** linear probing that is at most half full.  Sorting is a merge from the bottom up, of runs that
** insertion has sorted; both count how many rows a row passes, which is Knight's way to Kendall's
** tau (Journal of the American Statistical Association 61, 1966).
*/
#include "sample.h"

#include <math.h>
#include <string.h>

enum { LINEAR = 8, FIRST_ROWS = 16, RUN = 8 };

void gx_moments_add(gx_moments *of, double x)
{
    double delta = x - of->mean;
    of->is_varied |= of->n > 0 && delta != 0;
    of->n++;
    of->mean += delta / (double)of->n;
    of->m2 += delta * (x - of->mean);
}

void gx_moments_add_four(gx_moments *of, double x)
{
    double n = (double)of->n + 1, delta = x - of->mean, part = delta / n, old = part * part;
    double term = delta * part * (double)of->n;
    if (of->n > 0) {
        of->m4 += term * old * (n * n - 3 * n + 3) + 6 * old * of->m2 - 4 * part * of->m3;
        of->m3 += term * part * (n - 2) - 3 * part * of->m2;
    }
    gx_moments_add(of, x);
}

void gx_sample_add_cross(gx_sample *s, double x, double y)
{
    double delta = x - s->all.mean;
    gx_moments_add(&s->all, x);
    gx_moments_add(&s->other, y);
    s->cross += delta * (y - s->other.mean);
}

// Labels ------------------------------------------------------------------------------------------

int gx_label_compare(const gx_label *a, const gx_label *b)
{
    if (a->kind == GX_LABEL_TEXT && b->kind == GX_LABEL_TEXT) {
        int order = memcmp(a->text, b->text, (size_t)gx_min(a->bytes, b->bytes));
        return order != 0 ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
    }
    if (a->kind == GX_LABEL_TEXT || b->kind == GX_LABEL_TEXT) {
        return a->kind == GX_LABEL_TEXT ? 1 : -1;
    }
    if (a->kind == GX_LABEL_INT && b->kind == GX_LABEL_INT) {
        return (a->integer > b->integer) - (a->integer < b->integer);
    }
    // A REAL here has a fraction, or is beyond all integers: rounding to double keeps the order.
    double x = a->kind == GX_LABEL_INT ? (double)a->integer : a->real;
    double y = b->kind == GX_LABEL_INT ? (double)b->integer : b->real;
    return (x > y) - (x < y);
}

static uint64_t hash_of(const gx_label *label)
{
    uint64_t hash = 0x9E3779B97F4A7C15ULL + (uint64_t)label->kind;
    if (label->kind != GX_LABEL_TEXT) {
        hash ^= (uint64_t)label->integer; // or the bits of the number
    }
    for (int64_t k = 0; label->kind == GX_LABEL_TEXT && k < label->bytes; k++) {
        hash = (hash ^ (unsigned char)label->text[k]) * 0x100000001B3ULL;
    }
    hash = (hash ^ hash >> 32) * 0xD6E8FEB86659FD93ULL;
    return hash ^ hash >> 32;
}

/* Where the label is, or could be put. */
static int64_t slot_of(const gx_groups *set, const gx_label *label)
{
    int64_t at = (int64_t)(hash_of(label) & (uint64_t)(set->slots - 1));
    while (set->slot[at] >= 0 &&
           gx_label_compare(&set->group[set->slot[at]].label, label) != 0) {
        at = (at + 1) & (set->slots - 1);
    }
    return at;
}

static bool find(const gx_groups *set, const gx_label *label, int64_t *index)
{
    *index = set->latest;
    if (set->count > 0 && gx_label_compare(&set->group[*index].label, label) == 0) {
        return true;
    }
    if (set->slots > 0) {
        *index = set->slot[slot_of(set, label)];
        return *index >= 0;
    }
    for (*index = 0; *index < set->count; ++*index) {
        if (gx_label_compare(&set->group[*index].label, label) == 0) {
            return true;
        }
    }
    return false;
}

/* Room for one label more, and from LINEAR labels on in the table. */
static gx_code grow(gx_groups *set, gx_mem *mem, gx_err *err)
{
    if (set->count == set->capacity) {
        int64_t capacity = set->capacity == 0 ? 2 : 2 * set->capacity;
        GX_TRY(gx_mem_realloc(mem, (size_t)capacity * sizeof *set->group, "groups", &set->group,
                              err));
        set->capacity = capacity;
    }
    if (set->count < LINEAR || 2 * (set->count + 1) <= set->slots) {
        return GX_OK;
    }
    int64_t slots = set->slots == 0 ? 4 * LINEAR : 2 * set->slots;
    GX_TRY(gx_mem_realloc(mem, (size_t)slots * sizeof *set->slot, "groups", &set->slot, err));
    set->slots = slots;
    memset(set->slot, 0xFF, (size_t)slots * sizeof *set->slot); // -1: free
    for (int64_t k = 0; k < set->count; k++) {
        set->slot[slot_of(set, &set->group[k].label)] = k;
    }
    return GX_OK;
}

gx_code gx_sample_label(gx_sample *s, gx_groups *set, const gx_label *label, int64_t *index,
                        gx_err *err)
{
    if (find(set, label, index)) {
        set->latest = *index;
        return GX_OK;
    }
    GX_TRY(grow(set, s->ctx->mem, err));
    gx_group added = {.label = *label};
    if (label->kind == GX_LABEL_TEXT) {
        char *copy = NULL;
        GX_TRY(gx_mem_alloc(s->ctx->mem, (size_t)label->bytes, "groups", &copy, err));
        memcpy(copy, label->text, (size_t)label->bytes);
        added.label.text = copy;
    }
    *index = set->latest = set->count++;
    set->group[*index] = added;
    if (set->slots > 0) {
        set->slot[slot_of(set, label)] = *index;
    }
    return GX_OK;
}

static void clear_groups(gx_groups *set, gx_mem *mem)
{
    for (int64_t k = 0; k < set->count; k++) {
        if (set->group[k].label.kind == GX_LABEL_TEXT) {
            gx_mem_free(mem, (void *)set->group[k].label.text);
        }
    }
    gx_mem_free(mem, set->group);
    gx_mem_free(mem, set->slot);
}

void gx_sample_clear(gx_sample *s)
{
    if (s->ctx == NULL) {
        return; // not begun
    }
    clear_groups(&s->group, s->ctx->mem);
    clear_groups(&s->column, s->ctx->mem);
    clear_groups(&s->cells, s->ctx->mem);
    gx_mem_free(s->ctx->mem, s->row);
    memset(s, 0, sizeof *s);
}

// Rows --------------------------------------------------------------------------------------------

gx_code gx_sample_poll(const gx_sample *s, gx_err *err)
{
    return gx_store_is_interrupted(s->ctx->store) ? gx_fail(err, GX_INTERRUPT, "interrupted")
                                                  : GX_OK;
}

gx_code gx_sample_keep(gx_sample *s, gx_pair row, gx_err *err)
{
    if (s->rows == s->capacity) {
        int64_t capacity = s->capacity == 0 ? FIRST_ROWS : 2 * s->capacity;
        GX_TRY(gx_mem_realloc(s->ctx->mem, (size_t)capacity * sizeof row, "rows of a test",
                              &s->row, err));
        s->capacity = capacity;
    }
    s->row[s->rows++] = row;
    return GX_OK;
}

void gx_sample_swap(gx_sample *s)
{
    for (int64_t k = 0; k < s->rows; k++) {
        s->row[k] = (gx_pair){.x = s->row[k].y, .y = s->row[k].x};
    }
}

static int64_t insert(gx_pair *row, int64_t n)
{
    int64_t passed = 0;
    for (int64_t k = 1; k < n; k++) {
        gx_pair one = row[k];
        int64_t at = k;
        for (; at > 0 && row[at - 1].x > one.x; at--) {
            row[at] = row[at - 1];
        }
        row[at] = one;
        passed += k - at;
    }
    return passed;
}

static int64_t merge(const gx_pair *left, int64_t lefts, const gx_pair *right, int64_t rights,
                     gx_pair *out)
{
    int64_t passed = 0, i = 0, j = 0;
    while (i < lefts && j < rights) {
        bool is_right = right[j].x < left[i].x;
        *out++ = is_right ? right[j] : left[i];
        passed += is_right ? lefts - i : 0;
        i += !is_right;
        j += is_right;
    }
    memcpy(out, left + i, (size_t)(lefts - i) * sizeof *out);
    memcpy(out + (lefts - i), right + j, (size_t)(rights - j) * sizeof *out);
    return passed;
}

gx_code gx_sample_sort(gx_sample *s, int64_t *inversions, gx_err *err)
{
    int64_t n = s->rows, passed = 0;
    gx_pair *other = NULL;
    for (int64_t k = 0; k < n; k += RUN) {
        passed += insert(s->row + k, gx_min(RUN, n - k));
    }
    if (n > RUN) {
        GX_TRY(gx_mem_alloc(s->ctx->mem, (size_t)s->capacity * sizeof *other, "sorting", &other,
                            err));
    }
    gx_code code = GX_OK;
    for (int64_t run = RUN; run < n && code == GX_OK; run *= 2) {
        for (int64_t k = 0; k < n; k += 2 * run) {
            int64_t lefts = gx_min(run, n - k), rights = gx_min(run, n - k - lefts);
            passed += merge(s->row + k, lefts, s->row + k + lefts, rights, other + k);
        }
        gx_pair *sorted = other;
        other = s->row;
        s->row = sorted;
        code = gx_sample_poll(s, err);
    }
    gx_mem_free(s->ctx->mem, other);
    if (inversions != NULL) {
        *inversions = passed;
    }
    return code;
}

gx_ties gx_sample_rank(gx_sample *s)
{
    gx_ties ties = {0};
    int64_t n = s->rows;
    for (int64_t k = 0, end; k < n; k = end) {
        for (end = k + 1; end < n && s->row[end].x == s->row[k].x; end++) {
        }
        double length = (double)(end - k), rank = 0.5 * (double)(k + end + 1);
        ties.squares += length * length;
        ties.cubes += length * length * length;
        for (int64_t i = k; i < end; i++) {
            s->row[i].x = rank;
        }
    }
    return ties;
}
