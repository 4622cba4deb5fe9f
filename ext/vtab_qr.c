/*
** Table-valued QR and least squares:
**
**     SELECT part, value FROM gx_qr('A');                      Q, then R, as matrix values
**     SELECT x, rank, residual, rcond FROM gx_lstsq('A', 'B'); one row
**
** What a scan shows is computed when it begins and kept, within memory_limit, until it ends.
*/
#include "table_fn.h"

#include "../core/mat/sparse.h"
#include "../core/alg/alg_qr.h"

#include <math.h>
#include <string.h>

/* A result of a scan: what a value sink left. */
typedef struct kept {
    gx_mem *mem;
    gx_value_buf value;
    gx_number dtype;
    int64_t rows, cols;
} kept;

static bool keep(gx_fn *fn, gx_sink *sink, kept *out)
{
    if (gx_sink_end(sink) != GX_OK) {
        return false;
    }
    *out = (kept){fn->ctx->mem, sink->value, sink->number, sink->rows, sink->cols};
    return true;
}

static void forget(kept *item)
{
    if (item->mem != NULL) {
        gx_value_buf_free(item->mem, &item->value);
    }
}

static void show(const kept *item, gx_ctx *ctx, const char *name, sqlite3_context *sql)
{
    gx_table_result_matrix(sql, ctx, name, item->dtype, item->rows, item->cols, item->value.data, 1,
                           gx_max(1, item->rows));
}

// gx_qr -------------------------------------------------------------------------------------------

enum { QR_PART, QR_VALUE, QR_COLUMNS };

typedef struct qr_state {
    kept part[2]; /* Q, R; empty where values are not asked for */
} qr_state;

typedef struct qr_table_options {
    bool unused; /* first: a set_offset of 0 means none */
    char mode[64];
} qr_table_options;

static const gx_option qr_table_keys[] = {
    {"mode", GX_OPT_TEXT, offsetof(qr_table_options, mode), 0}, {NULL, GX_OPT_END, 0, 0}};

static bool qr_compute(gx_fn *fn, const gx_mat *A, const gx_aux *aux, bool is_full, qr_state *s)
{
    gx_run *run = &fn->run;
    gx_sink Q, R;
    int64_t inner = is_full ? A->rows : gx_min(A->rows, A->cols), tile_rows, tile_cols;
    gx_plan_q_tiles(run, A->rows, A->cols, inner, A->number, &tile_rows, &tile_cols);
    gx_sink_begin(run, NULL, A->rows, inner, A->number, 0, tile_rows, tile_cols, &Q);
    gx_sink_begin(run, NULL, inner, A->cols, A->number, 0, 0, 0, &R);
    if (aux->kind == GX_AUX_QR) {
        gx_alg_qr_parts_of(run, A, aux->tau, &Q, &R);
    } else {
        gx_alg_qr_parts(run, A, &Q, &R);
    }
    bool is_kept = keep(fn, &Q, &s->part[0]); // both are ended
    return keep(fn, &R, &s->part[1]) && is_kept;
}

static bool qr_begin(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    qr_table_options opt = {.mode = "economy"};
    gx_mat A;
    gx_aux aux;
    gx_err err = {0};
    if (!gx_fn_options(fn, qr_table_keys, &opt) || !gx_fn_factor(fn, 0, "A", &A, &aux)) {
        return false;
    }
    bool is_full = strcmp(opt.mode, "full") == 0;
    if (!is_full && strcmp(opt.mode, "economy") != 0) {
        return gx_fn_fail(fn, "\"mode\" must be \"economy\" or \"full\", not \"%s\"", opt.mode);
    }
    if (aux.kind == GX_AUX_LU) {
        gx_aux_refuse(A.label, A.properties, &err);
        gx_run_fail(&fn->run, &err);
        return false;
    }
    *rows = 2;
    return (used & 1 << QR_VALUE) == 0 || qr_compute(fn, &A, &aux, is_full, state);
}

static void qr_column(void *state, gx_ctx *ctx, int64_t row, int column, sqlite3_context *sql)
{
    const qr_state *s = state;
    if (column == QR_PART) {
        sqlite3_result_text(sql, row == 0 ? "Q" : "R", 1, SQLITE_STATIC);
    } else if (s->part[row].mem != NULL) {
        show(&s->part[row], ctx, "gx_qr", sql);
    }
}

static void qr_clear(void *state)
{
    qr_state *s = state;
    forget(&s->part[0]);
    forget(&s->part[1]);
}

const gx_table_fn gx_table_qr = {
    .def = {"gx_qr", 1, 2, false, NULL},
    .shape = "CREATE TABLE x(part TEXT, value BLOB, a HIDDEN, options HIDDEN)",
    .columns = QR_COLUMNS,
    .state_bytes = sizeof(qr_state),
    .begin = qr_begin,
    .column = qr_column,
    .clear = qr_clear,
};

// gx_lstsq ----------------------------------------------------------------------------------------

enum { LSTSQ_X, LSTSQ_RANK, LSTSQ_RESIDUAL, LSTSQ_RCOND, LSTSQ_COLUMNS };

typedef struct lstsq_state {
    kept x;
    gx_lstsq_result result;
} lstsq_state;

typedef struct lstsq_table_options {
    bool unused;
    double rcond;
} lstsq_table_options;

static const gx_option lstsq_table_keys[] = {
    {"rcond", GX_OPT_REAL, offsetof(lstsq_table_options, rcond), 0}, {NULL, GX_OPT_END, 0, 0}};

static bool lstsq_compute(gx_fn *fn, const gx_lstsq_args *args, lstsq_state *s)
{
    gx_sink X;
    gx_err err = {0};
    int64_t rows, cols, tile_rows, tile_cols;
    gx_number dtype;
    if (gx_lstsq_shape(args, &rows, &cols, &dtype, &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
        return false;
    }
    gx_lstsq_tiles(&fn->run, args, &tile_rows, &tile_cols);
    gx_sink_begin(&fn->run, NULL, rows, cols, dtype, 0, tile_rows, tile_cols, &X);
    gx_alg_lstsq(&fn->run, args, &X, &s->result);
    return keep(fn, &X, &s->x);
}

static bool lstsq_begin(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    lstsq_table_options opt = {.rcond = -1};
    gx_mat A, B;
    gx_aux aux;
    gx_err err = {0};
    if (!gx_fn_options(fn, lstsq_table_keys, &opt) || !gx_fn_factor(fn, 0, "A", &A, &aux) ||
        !gx_fn_matrix(fn, 1, "B", &B)) {
        return false;
    }
    if (opt.rcond != -1 && !(opt.rcond >= 0 && opt.rcond < 1)) {
        return gx_fn_fail(fn, "\"rcond\" must be at least 0 and below 1, not %g", opt.rcond);
    }
    if (aux.kind == GX_AUX_LU) {
        gx_aux_refuse(A.label, A.properties, &err);
        gx_run_fail(&fn->run, &err);
        return false;
    }
    if (A.is_sparse) { // the function takes it
        gx_csr_refuse(A.label, A.rows, A.cols, gx_sparse_entries(&A), A.number, &err);
        gx_run_fail(&fn->run, &err);
        return false;
    }
    gx_lstsq_args args = {.A = &A,
                          .is_factored = aux.kind == GX_AUX_QR,
                          .tau = aux.tau,
                          .B = &B,
                          .rcond = opt.rcond,
                          .wants_rcond = (used & 1 << LSTSQ_RCOND) != 0,
                          .wants_residual = (used & 1 << LSTSQ_RESIDUAL) != 0};
    *rows = 1;
    return lstsq_compute(fn, &args, state);
}

static void lstsq_column(void *state, gx_ctx *ctx, int64_t row, int column, sqlite3_context *sql)
{
    const lstsq_state *s = state;
    (void)row;
    switch (column) {
    case LSTSQ_X:
        show(&s->x, ctx, "gx_lstsq", sql);
        break;
    case LSTSQ_RANK:
        if (s->result.rank >= 0) {
            sqlite3_result_int64(sql, s->result.rank);
        }
        break;
    case LSTSQ_RESIDUAL:
        sqlite3_result_double(sql, s->result.residual);
        break;
    default:
        sqlite3_result_double(sql, s->result.rcond);
    }
}

static void lstsq_clear(void *state)
{
    lstsq_state *s = state;
    forget(&s->x);
}

const gx_table_fn gx_table_lstsq = {
    .def = {"gx_lstsq", 2, 3, false, NULL},
    .shape = "CREATE TABLE x(x BLOB, rank INTEGER, residual REAL, rcond REAL, a HIDDEN, b HIDDEN, "
             "options HIDDEN)",
    .columns = LSTSQ_COLUMNS,
    .state_bytes = sizeof(lstsq_state),
    .begin = lstsq_begin,
    .column = lstsq_column,
    .clear = lstsq_clear,
};
