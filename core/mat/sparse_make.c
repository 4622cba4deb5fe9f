/*
** Sparse matrices by formula: see gallery.h.
**
** Random places are drawn with integers alone (Philox words, halves of products), so that they are
** the same bits everywhere: with k entries in a row of n columns, number s lies in the columns from
** floor(s n / k) to floor((s + 1) n / k), which come in ascending order by themselves.
*/
#include "gallery_forms.h"

#include <math.h>
#include <string.h>

__extension__ typedef unsigned __int128 u128;

enum { POLL_ROWS = 4096 };

static const uint64_t PLACES = 0x9e3779b97f4a7c15u; // a key of its own: places are not values

/* Rows [0, rows) by fn, polling. */
typedef gx_code (*row_fn)(void *arg, int64_t i, gx_sparse_out *out, gx_err *err);

static gx_code make_rows(gx_run *run, row_fn fn, void *arg, gx_sparse_out *out, gx_err *err)
{
    gx_run_progress(run, (double)out->sink->rows);
    for (int64_t i = 0; i < out->sink->rows; i++) {
        GX_TRY(fn(arg, i, out, err));
        if (i % POLL_ROWS == 0) {
            gx_run_advance(run, POLL_ROWS);
            if (gx_run_poll(run) != GX_OK) {
                return gx_fail(err, run->err.code, "%s", run->err.text);
            }
        }
    }
    return GX_OK;
}

static gx_code make(gx_run *run, row_fn fn, void *arg, const gx_dest *dest, int64_t rows,
                    int64_t cols, gx_number dtype, uint32_t properties, gx_sink *sink)
{
    gx_sparse_out out;
    gx_err err = {0};
    if (gx_sparse_out_begin(run, dest, rows, cols, dtype, properties, sink, &out) == GX_OK &&
        make_rows(run, fn, arg, &out, &err) == GX_OK) {
        gx_sparse_out_end(&out);
    }
    gx_sparse_out_clear(&out);
    return gx_run_fail(run, &err);
}

// Random ------------------------------------------------------------------------------------------

typedef struct drawing {
    const gx_random *random;
    int64_t cols, least; /* entries of a row, at least                          */
    uint64_t rest;       /* one more where a word is below this; UINT64_MAX: all */
    int count;           /* places that have been drawn and have no values yet  */
    int64_t i[GX_RANDOM_SINGLES], j[GX_RANDOM_SINGLES];
} drawing;

/* A number below n, of a random word. */
static int64_t below(uint64_t word, int64_t n)
{
    return (int64_t)((u128)word * (uint64_t)n >> 64);
}

static int64_t stretch_start(const drawing *d, int64_t s, int64_t count)
{
    if (d->cols <= INT32_MAX) { // so is s: the product has 64 bits
        return s * d->cols / count;
    }
    return (int64_t)((u128)s * (uint64_t)d->cols / (uint64_t)count);
}

/* The places that have been drawn get their values. */
static gx_code put_drawn(drawing *d, gx_sparse_out *out, gx_err *err)
{
    double x[2 * GX_RANDOM_SINGLES];
    bool is_complex = gx_number_is_complex(d->random->dtype);
    gx_random_singles(d->random, d->count, d->i, d->j, x);
    for (int k = 0; k < d->count; k++) {
        gx_scalar value = is_complex ? (gx_scalar){x[2 * k], x[2 * k + 1]} : (gx_scalar){x[k], 0};
        GX_TRY(gx_sparse_put(out, d->i[k], d->j[k], value, err));
    }
    d->count = 0;
    return GX_OK;
}

static gx_code random_row(void *arg, int64_t i, gx_sparse_out *out, gx_err *err)
{
    drawing *d = arg;
    uint64_t word[2], key = d->random->seed ^ PLACES;
    gx_philox((const uint64_t[2]){(uint64_t)i, UINT64_MAX}, key, word);
    int64_t count = gx_min(d->cols, d->least + (word[0] < d->rest)), end = 0;
    for (int64_t s = 0; s < count; s++) {
        if (s % 2 == 0) {
            gx_philox((const uint64_t[2]){(uint64_t)i, (uint64_t)s}, key, word);
        }
        int64_t first = end;
        end = stretch_start(d, s + 1, count);
        d->i[d->count] = i;
        d->j[d->count++] = first + below(word[s % 2], end - first);
        if (d->count == GX_RANDOM_SINGLES) {
            GX_TRY(put_drawn(d, out, err));
        }
    }
    return i == out->sink->rows - 1 ? put_drawn(d, out, err) : GX_OK;
}

gx_code gx_sparse_random(gx_run *run, const gx_random *random, int64_t rows, int64_t cols,
                         double density, const gx_dest *dest, gx_sink *sink)
{
    double wanted = density * (double)cols;
    drawing d = {.random = random, .cols = cols, .least = (int64_t)floor(wanted)};
    d.rest = (uint64_t)ldexp(wanted - floor(wanted), 63) * 2;
    return make(run, random_row, &d, dest, rows, cols, random->dtype, 0, sink);
}

// The gallery -------------------------------------------------------------------------------------

/* Families whose entries lie on a few diagonals: how far from the main one. */
static const struct {
    gx_gallery_form form;
    bool has_root; /* poisson: also a side of the grid away */
} banded[] = {{gx_form_poisson, true},
              {gx_form_tridiag, false},
              {gx_form_clement, false},
              {gx_form_lesp, false},
              {gx_form_wilkinson, false}};

typedef struct family {
    const gx_gallery *g;
    int64_t offset[5];
    int offsets;
} family;

static gx_code gallery_row(void *arg, int64_t i, gx_sparse_out *out, gx_err *err)
{
    const family *f = arg;
    for (int k = 0; k < f->offsets; k++) {
        int64_t j = i + f->offset[k];
        if (j < 0 || j >= f->g->n || (k > 0 && f->offset[k] <= f->offset[k - 1])) {
            continue;
        }
        double x = f->g->form(f->g, i, j);
        if (x != 0) {
            GX_TRY(gx_sparse_put(out, i, j, (gx_scalar){x, 0}, err));
        }
    }
    return GX_OK;
}

gx_code gx_sparse_gallery(gx_run *run, const gx_gallery *g, const char *kind, gx_number dtype,
                          const gx_dest *dest, gx_sink *sink)
{
    family f = {.g = g};
    *sink = (gx_sink){.run = run};
    for (size_t k = 0; k < sizeof banded / sizeof *banded && f.offsets == 0; k++) {
        if (banded[k].form == g->form) {
            const int64_t far[5] = {-g->root, -1, 0, 1, g->root}, near[3] = {-1, 0, 1};
            f.offsets = banded[k].has_root ? 5 : 3;
            memcpy(f.offset, f.offsets == 5 ? far : near, (size_t)f.offsets * sizeof *near);
        }
    }
    if (f.offsets == 0) {
        return gx_run_failf(run, GX_ARG,
                            "%s has no sparse form (poisson, tridiag, clement, lesp, wilkinson)",
                            kind);
    }
    return make(run, gallery_row, &f, dest, g->n, g->n, dtype, g->properties, sink);
}
