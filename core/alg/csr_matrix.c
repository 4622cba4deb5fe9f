/*
** Sparse matrices in memory: see csr_matrix.h.
**
** Loading is one pass over the panels.  Rows are cut into pieces of about equal weight once, so
** that a team shares them whatever the rows are like; a product sums each row by itself, in the
** order of its columns, so its bits depend on nobody.
**
** Is A Hermitian?  A cursor stands in each row; entry (i, j), taken row by row, must be met by the
** cursor of row j at column i, since columns ascend: one look at each entry, no transpose.
**
** What is read again and again is read once by the threads of a streamed pass, each of which puts
** what it has looked through to its place in one panel of all rows: where that is says the catalog,
** which counts each panel's entries.  When the call is over the copy stands by, within
** memory_limit, until the matrix or the file changes or somebody needs the memory.
*/
#include "csr_matrix.h"

#include "../exec/pass.h"
#include "../run/call.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { PIECE_WEIGHT = 1 << 16 /* rows and entries of a piece */ };

// Loading -----------------------------------------------------------------------------------------

static gx_code allocate(gx_csr_matrix *W, gx_err *err)
{
    const char *what = "a sparse matrix as a whole";
    size_t element = gx_number_bytes(W->dtype);
    W->pieces = gx_max(1, gx_ceil_div(W->rows + W->entries, PIECE_WEIGHT));
    GX_TRY(gx_mem_alloc(W->mem, ((size_t)W->rows + 1) * sizeof *W->start, what, &W->start, err));
    GX_TRY(gx_mem_alloc(W->mem, (size_t)W->entries * sizeof *W->index, what, &W->index, err));
    GX_TRY(gx_mem_alloc(W->mem, (size_t)W->entries * element, what, &W->value, err));
    GX_TRY(gx_mem_alloc(W->mem, ((size_t)W->pieces + 1) * sizeof *W->cut, what, &W->cut, err));
    return GX_OK;
}

static void cut_into_pieces(gx_csr_matrix *W)
{
    int64_t i = 0;
    for (int64_t p = 0; p < W->pieces; p++) {
        W->cut[p] = i;
        while (i < W->rows && W->start[i] + i < (p + 1) * PIECE_WEIGHT) {
            i++;
        }
    }
    W->cut[W->pieces] = W->rows;
}

/* Entries of a panel, whose first row is row0, to their places. */
static gx_code take_panel(void *arg, const gx_csr *csr, int64_t row0, gx_err *err)
{
    gx_csr_matrix *W = arg;
    int64_t base = W->start[row0], first = csr->start[0];
    size_t element = gx_number_bytes(W->dtype), from = gx_number_bytes(csr->dtype);
    for (int64_t i = 0; i < csr->rows; i++) {
        W->start[row0 + i + 1] = base + ((int64_t)csr->start[i + 1] - first);
    }
    if (csr->index_bytes == 4) {
        memcpy(W->index + base, (const int32_t *)csr->index + first,
               (size_t)csr->entries * sizeof *W->index);
    } else {
        for (int64_t e = 0; e < csr->entries; e++) {
            W->index[base + e] = (int32_t)gx_csr_column(csr, first + e);
        }
    }
    gx_convert(csr->dtype, (const char *)csr->value + (size_t)first * from, csr->entries, W->dtype,
               (char *)W->value + (size_t)base * element, csr->entries, csr->entries, 1);
    const double *x = (const double *)((const char *)W->value + (size_t)base * element);
    int64_t unit = (int64_t)(element / sizeof *x), bad = 0;
    while (bad < csr->entries * unit && isfinite(x[bad])) {
        bad++;
    }
    if (bad == csr->entries * unit) {
        return GX_OK;
    }
    int64_t i = 0, e = bad / unit;
    while (W->start[row0 + i + 1] <= base + e) {
        i++;
    }
    return gx_fail(err, GX_ARG, "%s[%" PRId64 ",%" PRId64 "] is %s", W->label, row0 + i,
                   (int64_t)W->index[base + e], isnan(x[bad]) ? "NaN" : "Inf");
}

gx_code gx_csr_matrix_load(gx_run *run, const gx_mat *A, gx_number dtype, gx_csr_matrix *W)
{
    gx_err err = {0};
    *W = (gx_csr_matrix){.mem = run->ctx->mem,
                         .dtype = dtype,
                         .rows = A->rows,
                         .cols = A->cols,
                         .entries = gx_sparse_entries(A)};
    memcpy(W->label, A->label, sizeof W->label);
    if (!gx_ok(run)) {
        return run->err.code;
    }
    if (A->cols > INT32_MAX || A->rows > INT32_MAX) {
        return gx_run_failf(run, GX_ARG,
                            "%s is %" PRId64 "x%" PRId64
                            ", and sparse systems have below 2^31 rows and columns",
                            A->label, A->rows, A->cols);
    }
    if (allocate(W, &err) == GX_OK) {
        memset(W->start, 0, ((size_t)W->rows + 1) * sizeof *W->start);
        if (gx_sparse_each_panel(run, A, take_panel, W) == GX_OK) {
            cut_into_pieces(W);
        }
    }
    return gx_run_fail(run, &err);
}

void gx_csr_matrix_clear(gx_csr_matrix *W)
{
    gx_mem_free(W->mem, W->start);
    gx_mem_free(W->mem, W->index);
    gx_mem_free(W->mem, W->value);
    gx_mem_free(W->mem, W->cut);
    *W = (gx_csr_matrix){.mem = NULL};
}

// Looking -----------------------------------------------------------------------------------------

gx_code gx_csr_matrix_transpose(gx_run *run, const gx_csr_matrix *A, gx_csr_matrix *T)
{
    gx_err err = {0};
    *T = (gx_csr_matrix){
        .mem = A->mem, .dtype = A->dtype, .rows = A->cols, .cols = A->rows, .entries = A->entries};
    memcpy(T->label, A->label, sizeof T->label);
    if (!gx_ok(run) || allocate(T, &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    size_t bytes = gx_number_bytes(A->dtype);
    memset(T->start, 0, ((size_t)T->rows + 1) * sizeof *T->start);
    for (int64_t e = 0; e < A->entries; e++) {
        T->start[A->index[e] + 1]++;
    }
    for (int64_t j = 0; j < T->rows; j++) {
        T->start[j + 1] += T->start[j];
    }
    for (int64_t i = 0; i < A->rows; i++) {
        for (int64_t e = A->start[i]; e < A->start[i + 1]; e++) {
            int64_t place = T->start[A->index[e]]++;
            T->index[place] = (int32_t)i;
            memcpy((char *)T->value + (size_t)place * bytes,
                   (const char *)A->value + (size_t)e * bytes, bytes);
        }
    }
    memmove(T->start + 1, T->start, (size_t)T->rows * sizeof *T->start);
    T->start[0] = 0;
    cut_into_pieces(T);
    return gx_run_poll(run);
}

/* B gets A with a diagonal entry in each row: 0 where there was none. */
static void fill_diagonal(const gx_csr_matrix *A, gx_csr_matrix *B)
{
    size_t bytes = gx_number_bytes(A->dtype);
    int64_t to = 0;
    for (int64_t i = 0; i < A->rows; i++) {
        bool is_there = gx_csr_matrix_diagonal(A, i) >= 0;
        B->start[i] = to;
        for (int64_t e = A->start[i]; e <= A->start[i + 1]; e++) {
            bool is_end = e == A->start[i + 1];
            if (!is_there && (is_end || A->index[e] > i)) {
                B->index[to] = (int32_t)i;
                memset((char *)B->value + (size_t)to++ * bytes, 0, bytes);
                is_there = true;
            }
            if (!is_end) {
                B->index[to] = A->index[e];
                memcpy((char *)B->value + (size_t)to++ * bytes,
                       (const char *)A->value + (size_t)e * bytes, bytes);
            }
        }
    }
    B->start[A->rows] = to;
    cut_into_pieces(B);
}

gx_code gx_csr_matrix_shift(gx_run *run, gx_csr_matrix *A, gx_scalar sigma)
{
    gx_err err = {0};
    int64_t missing = 0, step = gx_number_is_complex(A->dtype) ? 2 : 1;
    for (int64_t i = 0; gx_ok(run) && i < A->rows; i++) {
        missing += gx_csr_matrix_diagonal(A, i) < 0;
    }
    if (gx_ok(run) && missing > 0) {
        gx_csr_matrix filled = {.mem = A->mem,
                                .dtype = A->dtype,
                                .rows = A->rows,
                                .cols = A->cols,
                                .entries = A->entries + missing};
        memcpy(filled.label, A->label, sizeof filled.label);
        if (allocate(&filled, &err) == GX_OK) {
            fill_diagonal(A, &filled);
            gx_csr_matrix old = *A;
            *A = filled;
            filled = old;
        }
        gx_csr_matrix_clear(&filled);
        gx_run_fail(run, &err);
    }
    double *x = A->value;
    for (int64_t i = 0; gx_ok(run) && i < A->rows; i++) {
        int64_t e = gx_csr_matrix_diagonal(A, i);
        x[step * e] -= sigma.re;
        if (step == 2) {
            x[2 * e + 1] -= sigma.im;
        }
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

bool gx_csr_matrix_is_hermitian(gx_run *run, const gx_csr_matrix *A)
{
    if (!gx_ok(run) || A->rows != A->cols) {
        return false;
    }
    int64_t *cursor = gx_run_alloc(run, (size_t)A->rows * sizeof(int64_t), "a look for symmetry");
    if (cursor == NULL) {
        return false;
    }
    bool is_hermitian = true;
    memcpy(cursor, A->start, (size_t)A->rows * sizeof *cursor);
    for (int64_t i = 0; i < A->rows && is_hermitian; i++) {
        for (int64_t e = A->start[i]; e < A->start[i + 1] && is_hermitian; e++) {
            int64_t j = A->index[e], other = cursor[j]++;
            gx_scalar a = gx_number_get(A->dtype, A->value, e);
            is_hermitian = other < A->start[j + 1] && A->index[other] == i;
            if (is_hermitian) {
                gx_scalar b = gx_number_get(A->dtype, A->value, other);
                is_hermitian = a.re == b.re && a.im == -b.im;
            }
        }
    }
    gx_mem_free(A->mem, cursor);
    return is_hermitian;
}

int64_t gx_csr_matrix_diagonal(const gx_csr_matrix *A, int64_t i)
{
    int64_t low = A->start[i], high = A->start[i + 1];
    GX_BISECT(low, high, middle, A->index[middle] < i)
    return low < high && A->index[low] == i ? low : -1;
}

bool gx_csr_matrix_has_positive_diagonal(const gx_csr_matrix *A)
{
    for (int64_t i = 0; i < A->rows; i++) {
        int64_t e = gx_csr_matrix_diagonal(A, i);
        if (e < 0 || !(gx_number_get(A->dtype, A->value, e).re > 0) ||
            gx_number_get(A->dtype, A->value, e).im != 0) {
            return false;
        }
    }
    return true;
}

double gx_csr_matrix_norm(const gx_csr_matrix *A)
{
    const double *x = A->value;
    int64_t count = A->entries * (gx_number_is_complex(A->dtype) ? 2 : 1);
    double most = 0, sum = 0;
    for (int64_t e = 0; e < count; e++) {
        most = fmax(most, fabs(x[e]));
    }
    for (int64_t e = 0; e < count && most > 0; e++) {
        sum += x[e] / most * (x[e] / most);
    }
    return most * sqrt(sum);
}

// Products ----------------------------------------------------------------------------------------

typedef struct product {
    const gx_csr_matrix *A;
    const double *x;
    double *y;
} product;

static gx_code times_real(void *arg, int64_t piece, int member, gx_err *err)
{
    const product *p = arg;
    const gx_csr_matrix *A = p->A;
    const double *value = A->value;
    (void)member;
    (void)err;
    for (int64_t i = A->cut[piece]; i < A->cut[piece + 1]; i++) {
        double sum = 0;
        for (int64_t e = A->start[i]; e < A->start[i + 1]; e++) {
            sum += value[e] * p->x[A->index[e]];
        }
        p->y[i] = sum;
    }
    return GX_OK;
}

static gx_code times_complex(void *arg, int64_t piece, int member, gx_err *err)
{
    const product *p = arg;
    const gx_csr_matrix *A = p->A;
    const double *value = A->value;
    (void)member;
    (void)err;
    for (int64_t i = A->cut[piece]; i < A->cut[piece + 1]; i++) {
        double re = 0, im = 0;
        for (int64_t e = A->start[i]; e < A->start[i + 1]; e++) {
            const double *a = value + 2 * e, *x = p->x + 2 * (int64_t)A->index[e];
            re += a[0] * x[0] - a[1] * x[1];
            im += a[0] * x[1] + a[1] * x[0];
        }
        p->y[2 * i] = re;
        p->y[2 * i + 1] = im;
    }
    return GX_OK;
}

gx_code gx_csr_matrix_times(gx_run *run, const gx_csr_matrix *A, const void *x, void *y)
{
    product p = {.A = A, .x = x, .y = y};
    return gx_run_pieces(run, (double)(A->rows + A->entries), A->pieces,
                         gx_number_is_complex(A->dtype) ? times_complex : times_real, &p);
}

// Read again and again ----------------------------------------------------------------------------

typedef struct loading {
    const gx_mat *A;
    gx_csr_layout layout;
    char *to;
} loading;

/* Entries before a piece, of which there are few. */
static int64_t entries_before(const gx_mat *A, int64_t piece)
{
    int64_t entries = 0;
    for (int64_t p = 0; p < piece; p++) {
        entries += gx_sparse_piece_entries(A, p);
    }
    return entries;
}

/* One piece, to its place. */
static gx_code place_piece(void *arg, int64_t unit, gx_pass_thread *thread, void *memory,
                           void *part, gx_err *err)
{
    const loading *l = arg;
    const gx_mat *A = l->A;
    size_t index_bytes = (size_t)gx_csr_index_bytes(A->cols), element = gx_number_bytes(A->number);
    gx_csr csr;
    (void)part;
    GX_TRY(gx_pass_read_piece(thread, A, unit, memory, &csr, err));
    int64_t before = entries_before(A, unit);
    uint32_t *start = (uint32_t *)(void *)l->to + gx_sparse_piece_row(A, unit);
    for (int64_t i = 0; i < csr.rows; i++) {
        start[i + 1] = (uint32_t)before + csr.start[i + 1];
    }
    memcpy(l->to + l->layout.index + (size_t)before * index_bytes, csr.index,
           (size_t)csr.entries * index_bytes);
    memcpy(l->to + l->layout.value + (size_t)before * element, csr.value,
           (size_t)csr.entries * element);
    return GX_OK;
}

/* Into memory; what fails is the run's. */
static void load(gx_run *run, const gx_mat *A, const gx_csr_layout *layout, gx_sparse_held *held)
{
    const gx_mat *const sources[1] = {A};
    held->memory = gx_run_alloc(run, layout->bytes, "a sparse matrix");
    if (held->memory == NULL) {
        return;
    }
    loading l = {.A = A, .layout = *layout, .to = held->memory};
    gx_pass pass = {.sources = sources,
                    .source_count = 1,
                    .units = gx_sparse_pieces(A),
                    .bytes = (double)gx_sparse_bytes(A),
                    .work_bytes = gx_sparse_block_bytes(A),
                    .work = place_piece,
                    .arg = &l};
    *(uint32_t *)held->memory = 0;
    gx_pass_run(run, &pass);
}

bool gx_sparse_held_key(gx_run *run, const gx_mat *A, int64_t first, int64_t count, int64_t form,
                        gx_mem_key *key)
{
    bool is_stored = A->kind == GX_MAT_STORED;
    *key = (gx_mem_key){.file = is_stored ? gx_store_stamp(run->ctx->store, A->meta.schema) : 0};
    if (key->file != 0) {
        key->id = A->meta.id;
        key->generation = A->meta.generation;
        key->part[0] = first;
        key->part[1] = count;
        key->part[2] = form;
    }
    return key->file != 0;
}

gx_code gx_sparse_held_begin(gx_run *run, const gx_mat *A, size_t beside, bool is_read_once,
                             gx_sparse_held *held)
{
    gx_mem *mem = run->ctx->mem;
    gx_csr_layout layout;
    *held = (gx_sparse_held){.A = A};
    if (!gx_ok(run) || !A->is_sparse || A->kind != GX_MAT_STORED || A->rows == 0 || A->cols == 0 ||
        !gx_csr_lay_out(A->rows, A->cols, gx_sparse_entries(A), gx_dtype_of(A->number), &layout)) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    held->is_kept = gx_sparse_held_key(run, A, 0, A->cols, 0, &held->key);
    double wanted = (double)beside + (double)gx_sparse_block_bytes(A) + (double)layout.bytes;
    bool has_room = wanted <= (double)gx_mem_available(mem);
    if (has_room && held->is_kept) {
        held->memory = gx_mem_claim(mem, &held->key, layout.bytes);
    }
    bool is_worth_it = !is_read_once || (held->is_kept && layout.bytes <= gx_mem_keeps(mem) / 2);
    if (has_room && held->memory == NULL && is_worth_it) {
        load(run, A, &layout, held);
    }
    if (held->memory != NULL && gx_ok(run)) {
        gx_csr csr;
        gx_csr_map(&csr, A->rows, A->cols, gx_sparse_entries(A), A->number, held->memory);
        gx_mat_sparse_value(&held->copy, A->label, &csr);
        held->copy.properties = A->properties;
        held->A = &held->copy;
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

void gx_sparse_held_end(gx_run *run, gx_sparse_held *held)
{
    bool is_whole = held->A == &held->copy;
    if (is_whole && held->is_kept) {
        gx_mem_keep(run->ctx->mem, held->memory, &held->key);
    } else {
        gx_mem_free(run->ctx->mem, held->memory);
    }
    *held = (gx_sparse_held){.A = NULL};
}
