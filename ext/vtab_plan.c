/*
** gx_plan(expression): what gx would do, without doing it.
**
**     SELECT driver, block, calls, bytes_read, flops, seconds FROM gx_plan('A.T @ B');
**
** One row a candidate, the chosen one first.  An expression is one operation on stored matrices:
**
**     A @ B     product, one may be sparse; A.T and A.H are the transpose, the conjugate transpose
**     A + B     A - B    A * B    A / B     elementwise
**     A.T       A.H                         transpose
**     norm(A)   sum(A)                      reductions
**     cholesky(A)  lu(A)  qr(A)             factorisations
**     solve(A, B)  lstsq(A, B)  inverse(A)  what stands on them; det(A)
**     svd(A)  svd(A, 10)                    all singular values and vectors, or the largest
**     eig(A)  eig(A, 10)                    the same of eigenvalues
**     cov(A)  corr(A)  pca(A)  pca(A, 10)   statistics of columns
**     topk(A, 10)                           the largest of each row
**     knn(Q, E, 10)                         the nearest rows, by cosine
**
**     gx_plan('eval', program, ...)         a row a step, in the order in which they run
**
** svd and eig take the options of gx_svd and gx_eig as a second argument.
**
** A name with other characters than letters, digits, '_' and one dot is written in double quotes.
** What an operation would do is plan_steps.c's; the figures come from a dry run of the very program
** that would be executed (core/exec/schedule.c).
*/
#include "plan_row.h"
#include "table_fn.h"

#include "../core/device/accel.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum {
    COL_CHOSEN = 0,
    COL_DEVICE,
    COL_DRIVER,
    COL_DETAIL,
    COL_BLOCK,
    COL_CACHE_BLOCKS,
    COL_CALLS,
    COL_BYTES_READ,
    COL_BYTES_WRITTEN,
    COL_FLOPS,
    COL_SECONDS,
    COL_START,
    COL_READ,
    COL_UP,
    COL_COMPUTE,
    COL_DOWN,
    COL_WRITE,
    COL_COMMIT,
    COL_FACTOR,
    COL_SHARES,
    PLAN_COLUMNS /* the arguments are hidden */
};

/* The chosen one first. */
typedef struct plan_rows {
    plan_row row[2];
    int64_t rows;
    gx_program_step *step; /* of gx_plan('eval', ...): NULL: the rows above */
    int64_t capacity;
} plan_rows;

// The expression ----------------------------------------------------------------------------------

static void skip_blanks(expression *e)
{
    while (isspace((unsigned char)*e->at)) {
        e->at++;
    }
}

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static gx_code take(expression *e, char wanted, gx_err *err)
{
    if (*e->at != wanted) {
        return gx_fail(err, GX_ARG, "expression has no '%c' at '%.20s'", wanted, e->at);
    }
    e->at++;
    return GX_OK;
}

/* "quoted", or letters with at most one schema dot; then .T or .H. */
static gx_code parse_operand(expression *e, operand *out, gx_err *err)
{
    skip_blanks(e);
    size_t length = 0;
    const char *start = e->at;
    if (*e->at == '"') {
        start = ++e->at;
        while (*e->at != '\0' && *e->at != '"') {
            e->at++;
        }
        length = (size_t)(e->at - start);
        GX_TRY(take(e, '"', err));
    } else {
        while (is_name_char(*e->at) ||
               (*e->at == '.' && is_name_char(e->at[1]) &&
                !((e->at[1] == 'T' || e->at[1] == 'H') && !is_name_char(e->at[2])))) {
            e->at++;
        }
        length = (size_t)(e->at - start);
    }
    if (length == 0 || length >= sizeof out->name) {
        return gx_fail(err, GX_ARG, "expression has no matrix name at '%.20s'", start);
    }
    memcpy(out->name, start, length);
    out->name[length] = '\0';
    if (e->at[0] == '.' && (e->at[1] == 'T' || e->at[1] == 'H')) {
        out->trans = e->at[1] == 'T' ? GX_TRANS : GX_CONJ_TRANS;
        e->at += 2;
    }
    skip_blanks(e);
    return GX_OK;
}

/* "solve(A, B)": the operation and its arguments; false: it is no such word. */
static bool take_word(expression *e, bool *takes_two)
{
    static const struct {
        const char *word;
        plan_op op;
        bool takes_two;
    } words[] = {{"norm(", PLAN_NORM, false},
                 {"sum(", PLAN_SUM, false},
                 {"cholesky(", PLAN_CHOLESKY, false},
                 {"lu(", PLAN_LU, false},
                 {"qr(", PLAN_QR, false},
                 {"solve(", PLAN_SOLVE, true},
                 {"lstsq(", PLAN_LSTSQ, true},
                 {"inverse(", PLAN_INVERSE, false},
                 {"det(", PLAN_DET, false},
                 {"svd(", PLAN_SVD, false},
                 {"eig(", PLAN_EIG, false},
                 {"cov(", PLAN_COV, false},
                 {"corr(", PLAN_CORR, false},
                 {"pca(", PLAN_PCA, false},
                 {"topk(", PLAN_TOPK, false},
                 {"knn(", PLAN_KNN, true}};
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        size_t length = strlen(words[k].word);
        if (strncmp(e->at, words[k].word, length) == 0) {
            e->at += length;
            e->op = words[k].op;
            *takes_two = words[k].takes_two;
            return true;
        }
    }
    return false;
}

/* A number of at most 15 digits. */
static gx_code parse_count(expression *e, gx_err *err)
{
    const char *start = e->at;
    skip_blanks(e);
    for (int digits = 0; isdigit((unsigned char)*e->at) && digits < 15; digits++) {
        e->k = 10 * e->k + (*e->at++ - '0');
    }
    skip_blanks(e);
    return e->k > 0 ? GX_OK : gx_fail(err, GX_ARG, "expression has no count at '%.20s'", start);
}

static gx_code parse_call(expression *e, bool takes_two, gx_err *err)
{
    GX_TRY(parse_operand(e, &e->a, err));
    bool may_count = e->op >= PLAN_SVD && e->op != PLAN_COV && e->op != PLAN_CORR && !takes_two;
    if (e->op == PLAN_TOPK || (may_count && *e->at == ',')) {
        GX_TRY(take(e, ',', err));
        GX_TRY(parse_count(e, err));
    }
    if (takes_two) {
        GX_TRY(take(e, ',', err));
        GX_TRY(parse_operand(e, &e->b, err));
        e->has_b = true;
    }
    if (e->op == PLAN_KNN) {
        GX_TRY(take(e, ',', err));
        GX_TRY(parse_count(e, err));
    }
    GX_TRY(take(e, ')', err));
    if (e->op >= PLAN_CHOLESKY && (e->a.trans != GX_NO_TRANS || e->b.trans != GX_NO_TRANS)) {
        return gx_fail(err, GX_ARG, "expression has a transpose in an operation that plans none");
    }
    return GX_OK;
}

/* A, or A and B with a sign between. */
static gx_code parse_infix(expression *e, gx_err *err)
{
    GX_TRY(parse_operand(e, &e->a, err));
    e->op = PLAN_TRANSPOSE;
    if (*e->at != '\0' && strchr("@+-*/", *e->at) != NULL) {
        e->op = *e->at++ == '@' ? PLAN_PRODUCT : PLAN_MAP;
        e->has_b = true;
        GX_TRY(parse_operand(e, &e->b, err));
    }
    return GX_OK;
}

static gx_code parse(expression *e, const char *text, gx_err *err)
{
    e->at = text;
    skip_blanks(e);
    bool takes_two;
    if (take_word(e, &takes_two)) {
        GX_TRY(parse_call(e, takes_two, err));
    } else {
        GX_TRY(parse_infix(e, err));
    }
    skip_blanks(e);
    if (*e->at != '\0') {
        return gx_fail(err, GX_ARG,
                       "expression is one operation on stored matrices, but goes on with '%.20s'",
                       e->at);
    }
    if (e->op == PLAN_TRANSPOSE && e->a.trans == GX_NO_TRANS) {
        return gx_fail(err, GX_ARG,
                       "expression names a matrix but no operation (@ + - * / .T .H norm sum "
                       "cholesky lu qr solve lstsq inverse det svd eig cov corr pca topk knn)");
    }
    return GX_OK;
}

// The row -----------------------------------------------------------------------------------------

static bool find_operand(gx_run *run, bool takes_sparse, operand *x)
{
    gx_meta meta;
    gx_err err = {0};
    gx_store *store = run->ctx->store;
    if ((takes_sparse ? gx_store_find_any(store, x->name, &meta, &err)
                      : gx_store_find(store, x->name, &meta, &err)) != GX_OK) {
        gx_run_fail(run, &err);
        return false;
    }
    gx_mat_stored(&x->mat, &meta);
    return true;
}

/* The operations that are programs, which may run on a device; not the passes over one matrix. */
static bool may_leave_host(plan_op op)
{
    return op == PLAN_KNN ||
           (op != PLAN_NORM && op != PLAN_SUM && op != PLAN_LSTSQ && op < PLAN_COV);
}

/* The same on the device, where there is one; the row that would be used is first. */
static void add_device(gx_run *run, expression *e, plan_rows *plan)
{
    size_t bytes = 0;
    gx_accel *accel = may_leave_host(e->op) ? gx_place_look(run, &bytes) : NULL;
    if (accel == NULL || !gx_ok(run)) {
        return;
    }
    run->target = accel;
    run->target_bytes = bytes;
    gx_plan_expression(run, e, &plan->row[1]);
    run->target = NULL;
    plan->rows = plan->row[1].terms.seconds > 0 ? 2 : 1; // else it has no room
    bool is_forced = run->ctx->config.number[GX_SET_BACKEND] == GX_BACKEND_CUDA;
    const plan_row *host = &plan->row[0], *device = &plan->row[1];
    bool is_faster = e->op >= PLAN_SVD && e->op != PLAN_KNN
                         ? device->is_chosen
                         : gx_place_is_faster(host->cost.flops, &host->terms, &device->terms);
    if (plan->rows == 2 && (is_forced || is_faster)) {
        plan_row swapped = plan->row[0];
        plan->row[0] = plan->row[1];
        plan->row[1] = swapped;
    }
}

// The table ---------------------------------------------------------------------------------------

/* What the options object says of the operation; those of the others have none. */
static bool take_options(gx_fn *fn, expression *e)
{
    const gx_option *keys = e->op == PLAN_EIG   ? gx_eig_table_keys
                            : e->op == PLAN_SVD ? gx_svd_table_keys
                                                : NULL;
    void *out = e->op == PLAN_EIG ? (void *)&e->eig_options : (void *)&e->svd_options;
    if (!gx_fn_options(fn, keys, out)) {
        return false;
    }
    bool is_given = e->op == PLAN_EIG ? e->eig_options.has_k : e->svd_options.has_k;
    if (is_given && e->k > 0) {
        return gx_fn_fail(fn, "k is in the expression and in the options: give it once");
    }
    if (e->k > 0) {
        e->eig_options.has_k = e->svd_options.has_k = true;
        e->eig_options.k = e->svd_options.k = e->k;
    }
    return true;
}

static bool take_spectrum(gx_fn *fn, expression *e)
{
    if (e->op == PLAN_SVD) {
        return gx_svd_args_of(fn, &e->svd_options, &e->a.mat, true, &e->svd);
    }
    if (e->op == PLAN_EIG) {
        bool is_right = gx_eig_args_of(fn, &e->eig_options, &e->a.mat, e->mats, &e->eig);
        e->eig.wants_right = true; // as where vectors have a destination
        return is_right;
    }
    return true;
}

// Programs ----------------------------------------------------------------------------------------

typedef struct listing {
    gx_run *run;
    plan_rows *plan;
} listing;

static bool add_step(void *arg, const gx_program_step *step)
{
    listing *l = arg;
    plan_rows *plan = l->plan;
    gx_err err = {0};
    if (plan->rows == plan->capacity) {
        int64_t capacity = 2 * plan->capacity + 16;
        void *steps = plan->step;
        if (gx_mem_realloc(NULL, (size_t)capacity * sizeof *step, "a plan", &steps, &err) !=
            GX_OK) {
            gx_run_fail(l->run, &err);
            return false;
        }
        plan->step = steps;
        plan->capacity = capacity;
    }
    plan->step[plan->rows++] = *step;
    return true;
}

/* gx_plan('eval', program, arguments ...): a row a step. */
static bool plan_program(gx_fn *fn, plan_rows *plan, int64_t *rows)
{
    gx_program *program;
    gx_program_arg *args;
    gx_fn inner = *fn;
    if (!gx_fn_options(fn, NULL, NULL)) {
        return false;
    }
    fn->argc--; // the word
    fn->argv++;
    bool is_right = gx_eval_prepare(fn, false, &program, &args);
    fn->argc = inner.argc;
    fn->argv = inner.argv;
    if (is_right) {
        gx_program_steps(&fn->run, program, add_step, &(listing){&fn->run, plan});
    }
    *rows = plan->rows;
    return gx_ok(&fn->run);
}

static void step_column(const gx_program_step *step, int column, sqlite3_context *sql)
{
    switch (column) {
    case COL_CHOSEN:
        sqlite3_result_int(sql, 1);
        break;
    case COL_DEVICE:
        sqlite3_result_text(sql, step->is_on_device ? "cuda" : "cpu", -1, SQLITE_STATIC);
        break;
    case COL_DRIVER:
        sqlite3_result_text(sql, step->op, -1, SQLITE_TRANSIENT);
        break;
    case COL_DETAIL:
        sqlite3_result_text(sql, step->detail, -1, SQLITE_TRANSIENT);
        break;
    case COL_BLOCK: {
        char shape[64];
        sqlite3_snprintf(sizeof shape, shape, "%lldx%lld %s", (long long)step->rows,
                         (long long)step->cols, gx_number_name(step->dtype));
        sqlite3_result_text(sql, shape, -1, SQLITE_TRANSIENT);
        break;
    }
    case COL_BYTES_WRITTEN:
        sqlite3_result_int64(sql, (int64_t)step->bytes);
        break;
    case COL_FLOPS:
        sqlite3_result_double(sql, step->flops);
        break;
    default:
        break; // NULL
    }
}

// The rows ----------------------------------------------------------------------------------------

static bool plan_begin(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    (void)used;
    plan_rows *plan = state;
    const char *text = (const char *)sqlite3_value_text(fn->argv[0]);
    if (text != NULL && strcmp(text, "eval") == 0 && fn->argc > 1) {
        return plan_program(fn, plan, rows);
    }
    if (fn->argc > 2) {
        return gx_fn_fail(fn, "takes one expression and options, or 'eval', a program and its "
                              "arguments");
    }
    expression e = {.op = PLAN_TRANSPOSE};
    gx_err err = {0};
    if (text == NULL) {
        return gx_fn_fail(fn, "takes one expression, such as gx_plan('A @ B')");
    }
    if (parse(&e, text, &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
        return false;
    }
    if (!take_options(fn, &e)) {
        return false;
    }
    if (gx_fn_has(fn, 1)) {
        char shown[GX_SHOWN_BYTES];
        return gx_fn_fail(fn, "options must be a JSON object '{...}', not %s",
                          gx_arg_show(fn->argv[1], shown));
    }
    bool takes_sparse = e.op == PLAN_PRODUCT;
    if (find_operand(&fn->run, takes_sparse, &e.a) &&
        (!e.has_b || find_operand(&fn->run, takes_sparse, &e.b)) && take_spectrum(fn, &e)) {
        gx_plan_expression(&fn->run, &e, &plan->row[0]);
        plan->rows = 1;
        add_device(&fn->run, &e, plan);
    }
    *rows = plan->rows;
    return gx_ok(&fn->run);
}

/* The prediction and what it is made of. */
static void result_term(sqlite3_context *sql, const gx_terms *terms, int column)
{
    const double term[] = {terms->seconds, terms->start_s,   terms->read_s,
                           terms->up_s,    terms->compute_s, terms->down_s,
                           terms->write_s, terms->commit_s,  terms->factor};
    sqlite3_result_double(sql, term[column - COL_SECONDS]);
}

static void plan_column(void *state, gx_ctx *ctx, int64_t at, int column, sqlite3_context *sql)
{
    (void)ctx;
    const plan_rows *plan = state;
    if (plan->step != NULL) {
        step_column(&plan->step[at], column, sql);
        return;
    }
    const plan_row *row = &plan->row[at];
    const gx_cost *cost = &row->cost;
    switch (column) {
    case COL_CHOSEN:
        sqlite3_result_int(sql, at == 0);
        break;
    case COL_DEVICE:
        sqlite3_result_text(sql, row->device, -1, SQLITE_TRANSIENT);
        break;
    case COL_DRIVER:
        sqlite3_result_text(sql, row->driver, -1, SQLITE_TRANSIENT);
        break;
    case COL_DETAIL:
        sqlite3_result_text(sql, row->detail, -1, SQLITE_TRANSIENT);
        break;
    case COL_BLOCK:
        sqlite3_result_text(sql, row->block, -1, SQLITE_TRANSIENT);
        break;
    case COL_CACHE_BLOCKS:
        sqlite3_result_int64(sql, cost->slots);
        break;
    case COL_CALLS:
        sqlite3_result_int64(sql, cost->calls);
        break;
    case COL_BYTES_READ:
        sqlite3_result_int64(sql, (int64_t)cost->bytes_read);
        break;
    case COL_BYTES_WRITTEN:
        sqlite3_result_int64(sql, (int64_t)cost->bytes_written);
        break;
    case COL_FLOPS:
        sqlite3_result_double(sql, cost->flops);
        break;
    case COL_SHARES:
        if (row->shares[0] != '\0') {
            sqlite3_result_text(sql, row->shares, -1, SQLITE_TRANSIENT);
        }
        break;
    default:
        result_term(sql, &row->terms, column);
        break;
    }
}

static void plan_clear(void *state)
{
    gx_mem_free(NULL, ((plan_rows *)state)->step);
}

const gx_table_fn gx_table_plan = {
    .def = {"gx_plan", 1, GX_TABLE_ARGS_MAX, false, NULL},
    .shape = "CREATE TABLE x(chosen INTEGER, device TEXT, driver TEXT, detail TEXT, "
             "block TEXT, cache_blocks INTEGER, calls INTEGER, bytes_read INTEGER, "
             "bytes_written INTEGER, flops REAL, seconds REAL, start_s REAL, read_s REAL, "
             "up_s REAL, compute_s REAL, down_s REAL, write_s REAL, commit_s REAL, factor REAL, "
             "shares TEXT, "
             "expression HIDDEN, options HIDDEN, c HIDDEN, d HIDDEN, e HIDDEN, f HIDDEN, "
             "g HIDDEN, h HIDDEN)",
    .columns = PLAN_COLUMNS,
    .state_bytes = sizeof(plan_rows),
    .begin = plan_begin,
    .column = plan_column,
    .clear = plan_clear,
};
