/*
** Least squares, rank and pseudo-inverse in SQL.
**
** Each function reads its arguments, lets core/alg/alg_lstsq.c do the mathematics into a sink, and
** returns the stored name or the value.
**
**     SELECT x, rank, residual, rcond FROM gx_lstsq('A', 'B');   one row
*/
#include "exact_fn.h"
#include "table_fn.h"

#include "../core/alg/alg_qr.h"
#include "../core/alg/system.h"

// gx_lstsq ----------------------------------------------------------------------------------------

typedef struct lstsq_options {
    double rcond;
    bool has_precond, has_tol, has_maxiter; /* of a sparse A */
    int precond;
    double tol;
    int64_t maxiter;
} lstsq_options;

#define RCOND_KEY {"rcond=[0,1)", GX_OPT_REAL, offsetof(lstsq_options, rcond), 0}

static const gx_option lstsq_keys[] = {
    RCOND_KEY,
    {"precond=auto|none|jacobi", GX_OPT_WORD, offsetof(lstsq_options, precond),
     offsetof(lstsq_options, has_precond)},
    {"tol=(0,1)", GX_OPT_REAL, offsetof(lstsq_options, tol), offsetof(lstsq_options, has_tol)},
    {"maxiter=[1,inf]", GX_OPT_INT, offsetof(lstsq_options, maxiter),
     offsetof(lstsq_options, has_maxiter)},
    {NULL, GX_OPT_END, 0, 0}};
static const gx_option rcond_keys[] = {RCOND_KEY, {NULL, GX_OPT_END, 0, 0}};

/* Of a sparse A: by LSQR (core/alg/system.c). */
static void lstsq_sparse(gx_fn *fn, const lstsq_options *opt, const gx_mat *A, const gx_mat *B)
{
    gx_system_args args = {.A = A,
                           .B = B,
                           .method = GX_SYSTEM_LSQR,
                           .precond = (gx_precond_kind)opt->precond,
                           .tol = opt->tol,
                           .most = opt->maxiter};
    int64_t rows, cols;
    gx_number dtype;
    gx_sink X;
    if (opt->rcond != -1) {
        gx_fn_fail(fn, "\"rcond\" is for dense matrices, and %s is sparse", A->label);
        return;
    }
    if (gx_fn_check(fn, gx_system_shape(&args, &rows, &cols, &dtype, &fn->err))) {
        gx_sink_begin(&fn->run, &fn->dest, rows, cols, dtype, 0, 0, 0, &X);
        gx_alg_system(&fn->run, &args, &X);
        gx_fn_result_sink(fn, &X);
    }
}

/* X of a dense A, into a sink that the caller ends; false: it has not begun. */
static bool solve_dense(gx_fn *fn, gx_lstsq_args *args, const gx_aux *aux, gx_sink *X,
                        gx_lstsq_result *result)
{
    int64_t rows, cols, tile_rows, tile_cols;
    gx_number dtype;
    args->is_factored = aux->kind == GX_AUX_QR;
    args->tau = aux->tau;
    if (!gx_fn_check(fn, gx_lstsq_shape(args, &rows, &cols, &dtype, &fn->err))) {
        return false;
    }
    gx_lstsq_tiles(&fn->run, args, &tile_rows, &tile_cols);
    gx_sink_begin(&fn->run, &fn->dest, rows, cols, dtype, 0, tile_rows, tile_cols, X);
    gx_alg_lstsq(&fn->run, args, X, result);
    return true;
}

/* gx_lstsq(A, B[, destination][, options]) */
static void lstsq(gx_fn *fn)
{
    lstsq_options opt = {.rcond = -1};
    gx_mat A, B;
    gx_aux aux;
    gx_sink X;
    gx_lstsq_result result;
    if (!gx_fn_options(fn, lstsq_keys, &opt) || !gx_fn_factor(fn, 0, "A", GX_AUX_QR, &A, &aux) ||
        !gx_fn_matrix(fn, 1, "B", &B)) {
        return;
    }
    if (A.is_sparse) {
        lstsq_sparse(fn, &opt, &A, &B);
        return;
    }
    if (opt.has_precond || opt.has_tol || opt.has_maxiter) {
        gx_fn_fail(fn,
                   "\"precond\", \"tol\" and \"maxiter\" are for sparse matrices, and %s is dense",
                   A.label);
        return;
    }
    gx_lstsq_args args = {.A = &A, .B = &B, .rcond = opt.rcond};
    if (solve_dense(fn, &args, &aux, &X, &result)) {
        gx_fn_result_sink(fn, &X);
    }
}

enum { LSTSQ_X, LSTSQ_RANK, LSTSQ_RESIDUAL, LSTSQ_RCOND, LSTSQ_COLUMNS };

typedef struct lstsq_state {
    gx_kept x;
    gx_lstsq_result result;
} lstsq_state;

static bool lstsq_begin(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    lstsq_state *s = state;
    lstsq_options opt = {.rcond = -1};
    gx_mat A, B;
    gx_aux aux;
    gx_sink X;
    if (!gx_fn_options(fn, rcond_keys, &opt) || !gx_fn_factor(fn, 0, "A", GX_AUX_QR, &A, &aux) ||
        !gx_fn_matrix(fn, 1, "B", &B)) {
        return false;
    }
    gx_lstsq_args args = {.A = &A,
                          .B = &B,
                          .rcond = opt.rcond,
                          .wants_rcond = (used & 1 << LSTSQ_RCOND) != 0,
                          .wants_residual = (used & 1 << LSTSQ_RESIDUAL) != 0};
    *rows = 1;
    return solve_dense(fn, &args, &aux, &X, &s->result) && gx_keep(fn, &X, &s->x);
}

static gx_cell lstsq_cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    const lstsq_state *s = state;
    (void)ctx, (void)row;
    switch (column) {
    case LSTSQ_X:
        return gx_kept_cell(&s->x);
    case LSTSQ_RANK:
        return s->result.rank >= 0 ? gx_cell_int(s->result.rank) : (gx_cell){0};
    default:
        return gx_cell_real(column == LSTSQ_RCOND ? s->result.rcond : s->result.residual);
    }
}

static void lstsq_clear(void *state)
{
    gx_kept_clear(&((lstsq_state *)state)->x);
}

const gx_table_fn gx_table_lstsq = {
    .def = {"gx_lstsq", 2, 3, 0, NULL, 0},
    .shape = "CREATE TABLE x(x BLOB, rank INTEGER, residual REAL, rcond REAL, a HIDDEN, b HIDDEN, "
             "options HIDDEN)",
    .columns = LSTSQ_COLUMNS,
    .state_bytes = sizeof(lstsq_state),
    .begin = lstsq_begin,
    .cell = lstsq_cell,
    .clear = lstsq_clear,
};

// gx_rank, gx_pinv --------------------------------------------------------------------------------

typedef struct rank_options {
    bool is_given; /* first: an offset of 0 means none */
    gx_exact_options exact;
} rank_options;

static const gx_option rank_keys[] = {GX_EXACT_KEYS(rank_options), {NULL, GX_OPT_END, 0, 0}};

/* gx_rank(A[, tol][, options]) */
static void rank(gx_fn *fn)
{
    gx_mat A;
    double tol = -1;
    int64_t result;
    rank_options opt = {0};
    if (!gx_fn_options(fn, rank_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A)) {
        return;
    }
    if (gx_fn_is_exact(&opt.exact, &A, NULL)) {
        if (gx_fn_has(fn, 1)) {
            gx_fn_fail(fn, "an exact rank has no tolerance");
        }
        gx_exact_fn_rank(fn, &opt.exact, &A);
        return;
    }
    if (gx_fn_has(fn, 1) && !gx_fn_real(fn, 1, "tol", &tol)) {
        return;
    }
    if (gx_fn_has(fn, 1) && !(tol >= 0)) {
        gx_fn_fail(fn, "tol must not be negative, not %g", tol);
        return;
    }
    if (gx_alg_rank(&fn->run, &A, tol, &result) == GX_OK) {
        sqlite3_result_int64(fn->sql, result);
    }
}

static void pinv(gx_fn *fn)
{
    lstsq_options opt = {.rcond = -1};
    gx_mat A;
    if (!gx_fn_options(fn, rcond_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A)) {
        return;
    }
    int64_t tile_rows, tile_cols, found;
    gx_sink P;
    gx_pinv_tiles(&fn->run, &A, &tile_rows, &tile_cols);
    gx_sink_begin(&fn->run, &fn->dest, A.cols, A.rows, A.number, 0, tile_rows, tile_cols, &P);
    gx_alg_pinv(&fn->run, &A, opt.rcond, &P, &found);
    gx_fn_result_sink(fn, &P);
}

const gx_function gx_functions_lstsq[] = {{"gx_lstsq", 2, 4, GX_MADE(2) | GX_SPARSE(0), lstsq, 0},
                                          {"gx_rank", 1, 3, GX_EXACT, rank, 0},
                                          {"gx_pinv", 1, 3, GX_MADE(1), pinv, 0},
                                          {.name = NULL}};
