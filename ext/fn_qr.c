/*
** QR in SQL: factorisations, least squares, rank, pseudo-inverse.
**
** Each function reads its arguments, lets core/alg/alg_qr.c, alg_tsqr.c and alg_lstsq.c do the
** mathematics into sinks, and returns the stored name or the value.
*/
#include "parts.h"

#include "../core/alg/alg_qr.h"
#include "../core/alg/system.h"

#include <string.h>

// gx_qr -------------------------------------------------------------------------------------------

typedef struct qr_options {
    gx_dest dest; /* first: a set_offset of 0 means none */
    const char *q, *r;
    char mode[64];
} qr_options;

static const gx_option qr_keys[] = {{"q", GX_OPT_NAME, offsetof(qr_options, q), 0},
                                    {"r", GX_OPT_NAME, offsetof(qr_options, r), 0},
                                    {"mode", GX_OPT_TEXT, offsetof(qr_options, mode), 0},
                                    GX_DEST_KEYS(qr_options, dest),
                                    {NULL, GX_OPT_END, 0, 0}};

/* What the options say, before anything is looked at. */
static bool check_qr_options(gx_fn *fn, const qr_options *opt)
{
    bool has_parts = opt->q != NULL || opt->r != NULL;
    if (strcmp(opt->mode, "economy") != 0 && strcmp(opt->mode, "full") != 0) {
        return gx_fn_fail(fn, "\"mode\" must be \"economy\" or \"full\", not \"%s\"", opt->mode);
    }
    if (opt->dest.name == NULL && !has_parts) {
        return gx_fn_fail(fn,
                          "give a destination for the factorisation, or \"q\" and \"r\" for its "
                          "parts; the table gx_qr(A) has them as values");
    }
    if (opt->dest.name != NULL && has_parts) {
        return gx_fn_fail(fn, "a destination takes the packed factorisation: \"q\" and \"r\" go "
                              "without one");
    }
    if (opt->dest.name != NULL && strcmp(opt->mode, "economy") != 0) {
        return gx_fn_fail(fn, "\"mode\" is of the parts: a packed factorisation has both");
    }
    if (opt->q != NULL && opt->r != NULL && strcmp(opt->q, opt->r) == 0) {
        return gx_fn_fail(fn, "\"q\" and \"r\" are both '%s'", opt->q);
    }
    return true;
}

/* The packed factorisation with its tau. */
static void store_packed(gx_fn *fn, const gx_mat *A, const gx_dest *dest)
{
    int64_t tile_rows, tile_cols, k = gx_min(A->rows, A->cols);
    gx_aux aux;
    gx_err err = {0};
    gx_sink F;
    gx_plan_panel_tiles(&fn->run, A->rows, A->cols, k, A->number, &tile_rows, &tile_cols);
    if (gx_aux_create(fn->ctx->mem, GX_AUX_QR, A->rows, A->cols, A->number, tile_cols, &aux,
                      &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
        return;
    }
    if (!gx_fn_own(fn, aux.blob)) {
        return;
    }
    gx_sink_begin(&fn->run, dest, A->rows, A->cols, A->number, GX_PROP_QR, tile_rows, tile_cols,
                  &F);
    gx_sink_aux(&F, &aux);
    gx_alg_qr(&fn->run, A, &F, aux.tau);
    gx_fn_result_sink(fn, &F);
}

/* Shape of the parts. */
static int64_t parts_inner(const gx_mat *A, const qr_options *opt)
{
    return strcmp(opt->mode, "full") == 0 ? A->rows : gx_min(A->rows, A->cols);
}

static void begin_q(gx_run *run, const gx_mat *A, int64_t inner, const gx_dest *dest, gx_sink *Q)
{
    int64_t tile_rows, tile_cols;
    gx_plan_q_tiles(run, A->rows, A->cols, inner, A->number, &tile_rows, &tile_cols);
    gx_sink_begin(run, dest, A->rows, inner, A->number, GX_PROP_ORTHOGONAL, tile_rows, tile_cols,
                  Q);
}

static void compute_parts(gx_run *run, const gx_mat *A, const gx_aux *aux, gx_sink *Q, gx_sink *R)
{
    if (aux->kind == GX_AUX_QR) {
        gx_alg_qr_parts_of(run, A, aux->tau, Q, R);
    } else {
        gx_alg_qr_parts(run, A, Q, R);
    }
}

/* Either both are stored or none: R's savepoint is inside Q's. */
static void store_parts(gx_fn *fn, const gx_mat *A, const gx_aux *aux, const qr_options *opt)
{
    gx_run *run = &fn->run;
    int64_t inner = parts_inner(A, opt);
    gx_dest q = {.name = opt->q, .replace = opt->dest.replace};
    gx_dest r = {.name = opt->r, .replace = opt->dest.replace};
    gx_sink Q, R;
    if (opt->q != NULL) {
        begin_q(run, A, inner, &q, &Q);
    }
    if (opt->r != NULL) {
        gx_sink_begin(run, &r, inner, A->cols, A->number, GX_PROP_UPPER, 0, 0, &R);
    }
    compute_parts(run, A, aux, opt->q == NULL ? NULL : &Q, opt->r == NULL ? NULL : &R);
    if (opt->r != NULL) {
        gx_sink_end(&R);
    }
    if (opt->q != NULL) {
        gx_sink_end(&Q);
    }
    if (gx_ok(run)) {
        sqlite3_result_text(fn->sql, opt->q != NULL ? opt->q : opt->r, -1, SQLITE_TRANSIENT);
    }
}

static void qr(gx_fn *fn)
{
    qr_options opt = {.mode = "economy"};
    gx_mat A;
    gx_aux aux;
    gx_err err = {0};
    if (!gx_fn_options(fn, qr_keys, &opt) || !gx_fn_dest(fn, 1, &opt.dest) ||
        !check_qr_options(fn, &opt) || !gx_fn_factor(fn, 0, "A", &A, &aux)) {
        return;
    }
    if (aux.kind != GX_AUX_NONE && (aux.kind != GX_AUX_QR || opt.dest.name != NULL)) {
        gx_aux_refuse(A.label, A.properties, &err);
        gx_run_fail(&fn->run, &err);
    } else if (opt.dest.name != NULL) {
        store_packed(fn, &A, &opt.dest);
    } else {
        store_parts(fn, &A, &aux, &opt);
    }
}

// gx_part(F, ...) ---------------------------------------------------------------------------------

/* Economy: Q m x k and R k x n. */
static void shape_q(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_part_shape *out)
{
    *out = (gx_part_shape){.rows = aux->rows,
                           .cols = aux->count,
                           .dtype = aux->dtype,
                           .properties = GX_PROP_ORTHOGONAL};
    gx_plan_q_tiles(run, F->rows, F->cols, aux->count, aux->dtype, &out->tile_rows,
                    &out->tile_cols);
}

static void shape_r(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_part_shape *out)
{
    (void)run;
    *out = (gx_part_shape){
        .rows = aux->count, .cols = F->cols, .dtype = aux->dtype, .properties = GX_PROP_UPPER};
}

static gx_code compute_q(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_sink *C)
{
    return gx_alg_qr_parts_of(run, F, aux->tau, C, NULL);
}

static gx_code compute_r(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_sink *C)
{
    return gx_alg_qr_parts_of(run, F, aux->tau, NULL, C);
}

const gx_part_def gx_parts_qr[] = {
    {"Q", GX_AUX_QR, shape_q, compute_q},
    {"R", GX_AUX_QR, shape_r, compute_r},
    {NULL, GX_AUX_NONE, NULL, NULL},
};

// gx_lstsq ----------------------------------------------------------------------------------------

typedef struct lstsq_options {
    gx_dest dest; /* first: a set_offset of 0 means none */
    double rcond;
    bool has_precond, has_tol, has_maxiter; /* of a sparse A */
    char precond[64];
    double tol;
    int64_t maxiter;
} lstsq_options;

static const gx_option lstsq_keys[] = {
    {"rcond", GX_OPT_REAL, offsetof(lstsq_options, rcond), 0},
    {"precond", GX_OPT_TEXT, offsetof(lstsq_options, precond),
     offsetof(lstsq_options, has_precond)},
    {"tol", GX_OPT_REAL, offsetof(lstsq_options, tol), offsetof(lstsq_options, has_tol)},
    {"maxiter", GX_OPT_INT, offsetof(lstsq_options, maxiter), offsetof(lstsq_options, has_maxiter)},
    GX_DEST_KEYS(lstsq_options, dest),
    {NULL, GX_OPT_END, 0, 0}};
static const gx_option pinv_keys[] = {
    {"rcond", GX_OPT_REAL, offsetof(lstsq_options, rcond), 0},
    GX_DEST_KEYS(lstsq_options, dest),
    {NULL, GX_OPT_END, 0, 0}};

/* rcond: -1 (the default) or a number in [0, 1). */
static bool check_rcond(gx_fn *fn, double rcond)
{
    return rcond == -1 || (rcond >= 0 && rcond < 1) ||
           gx_fn_fail(fn, "\"rcond\" must be at least 0 and below 1, not %g", rcond);
}

/* Of a sparse A: by LSQR (core/alg/system.c). */
static void lstsq_sparse(gx_fn *fn, lstsq_options *opt, const gx_mat *A, const gx_mat *B)
{
    gx_system_args args = {.A = A, .B = B, .method = GX_SYSTEM_LSQR};
    int64_t rows, cols;
    gx_number dtype;
    gx_err err = {0};
    gx_sink X;
    if (opt->rcond != -1) {
        gx_fn_fail(fn, "\"rcond\" is for dense matrices, and %s is sparse", A->label);
        return;
    }
    if (opt->has_precond && !gx_precond_of(opt->precond, &args.precond)) {
        gx_fn_fail(fn, "\"precond\" is '%s' but must be one of auto, none, jacobi", opt->precond);
        return;
    }
    if ((opt->has_tol && !(opt->tol > 0 && opt->tol < 1)) ||
        (opt->has_maxiter && opt->maxiter < 1)) {
        gx_fn_fail(fn, "\"tol\" must be above 0 and below 1, and \"maxiter\" 1 or more");
        return;
    }
    args.tol = opt->tol;
    args.most = opt->maxiter;
    if (gx_system_shape(&args, &rows, &cols, &dtype, &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
        return;
    }
    gx_sink_begin(&fn->run, &opt->dest, rows, cols, dtype, 0, 0, 0, &X);
    gx_alg_system(&fn->run, &args, &X);
    gx_fn_result_sink(fn, &X);
}

static void lstsq(gx_fn *fn)
{
    lstsq_options opt = {.rcond = -1};
    gx_mat A, B;
    gx_aux aux;
    if (!gx_fn_options(fn, lstsq_keys, &opt) || !check_rcond(fn, opt.rcond) ||
        !gx_fn_factor(fn, 0, "A", &A, &aux) || !gx_fn_matrix(fn, 1, "B", &B) ||
        !gx_fn_dest(fn, 2, &opt.dest)) {
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
    gx_lstsq_args args = {.A = &A, .B = &B, .rcond = opt.rcond, .tau = aux.tau};
    args.is_factored = aux.kind == GX_AUX_QR;
    gx_lstsq_result result;
    int64_t rows, cols, tile_rows, tile_cols;
    gx_number dtype;
    gx_err err = {0};
    if (aux.kind == GX_AUX_LU) {
        gx_aux_refuse(A.label, A.properties, &err);
        gx_run_fail(&fn->run, &err);
        return;
    }
    if (gx_lstsq_shape(&args, &rows, &cols, &dtype, &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
        return;
    }
    gx_sink X;
    gx_lstsq_tiles(&fn->run, &args, &tile_rows, &tile_cols);
    gx_sink_begin(&fn->run, &opt.dest, rows, cols, dtype, 0, tile_rows, tile_cols, &X);
    gx_alg_lstsq(&fn->run, &args, &X, &result);
    gx_fn_result_sink(fn, &X);
}

// gx_rank, gx_pinv --------------------------------------------------------------------------------

static void rank(gx_fn *fn)
{
    gx_mat A;
    double tol = -1;
    int64_t result;
    if (!gx_fn_matrix(fn, 0, "A", &A) || (gx_fn_has(fn, 1) && !gx_fn_real(fn, 1, "tol", &tol))) {
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
    if (!gx_fn_options(fn, pinv_keys, &opt) || !check_rcond(fn, opt.rcond) ||
        !gx_fn_matrix(fn, 0, "A", &A) || !gx_fn_dest(fn, 1, &opt.dest)) {
        return;
    }
    int64_t tile_rows, tile_cols, found;
    gx_sink P;
    gx_pinv_tiles(&fn->run, &A, &tile_rows, &tile_cols);
    gx_sink_begin(&fn->run, &opt.dest, A.cols, A.rows, A.number, 0, tile_rows, tile_cols, &P);
    gx_alg_pinv(&fn->run, &A, opt.rcond, &P, &found);
    gx_fn_result_sink(fn, &P);
}

const gx_function gx_functions_qr[] = {{"gx_qr", 1, 3, false, qr},
                                       {"gx_lstsq", 2, 4, false, lstsq},
                                       {"gx_rank", 1, 2, false, rank},
                                       {"gx_pinv", 1, 3, false, pinv},
                                       {NULL, 0, 0, false, NULL}};
