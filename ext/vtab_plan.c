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
** The text is read by gx_eval's grammar (core/program/grammar.y), in which a name with blanks or
** signs stands in double quotes.  What an operation would do is plan_steps.c's; the figures come
** from a dry run of the very program that would be executed (core/exec/schedule.c).
*/
#include "plan_row.h"
#include "table_fn.h"

#include "../core/mat/composite.h"
#include "../core/program/syntax.h"

#include <stdio.h>
#include <string.h>

/* Texts from the device to the block, whole numbers to the bytes written, then numbers. */
enum {
    COL_CHOSEN = 0,
    COL_DEVICE,
    COL_BLOCK = 4,
    COL_CACHE_BLOCKS,
    COL_BYTES_WRITTEN = 8,
    COL_FLOPS,
    COL_SHARES = 19,
    PLAN_COLUMNS /* the arguments are hidden */
};

typedef struct plan_rows {
    plan_row *row;
    int64_t rows, capacity;
} plan_rows;

// The expression ----------------------------------------------------------------------------------

/* A name, which may be transposed. */
static gx_code read_operand(const gx_syntax *syntax, const gx_item *item, operand *out, gx_err *err)
{
    if (item->form == GX_FORM_CALL && item->is_infix && item->count == 1) {
        out->trans = strcmp(item->text, "transpose") == 0 ? GX_TRANS
                     : strcmp(item->text, "adjoint") == 0 ? GX_CONJ_TRANS
                                                          : GX_NO_TRANS;
        item = out->trans == GX_NO_TRANS ? item : item->first;
    }
    out->name = item->text;
    return item->form == GX_FORM_NAME
               ? GX_OK
               : gx_syntax_fail(syntax, item->line, item->column, err, GX_ARG,
                                "expression is one operation on stored matrices, whose names "
                                "stand here");
}

/* What the operation is of: matrices, and a number where it takes one. */
static gx_code read_items(const gx_syntax *syntax, const gx_item *call, expression *e, gx_err *err)
{
    const double MOST = 1e15;
    const plan_rule *rule = e->rule;
    const gx_item *item = call->first;
    int most = rule->matrices + (rule->counts == NO_COUNT ? 0 : 1);
    if (call->count < (rule->counts == MUST_COUNT ? most : rule->matrices) || call->count > most) {
        return gx_syntax_fail(syntax, call->line, call->column, err, GX_ARG, "%s is of %s%s%s",
                              call->text, rule->matrices == 1 ? "one matrix" : "two matrices",
                              rule->counts == NO_COUNT ? "" : " and a count",
                              rule->counts == MAY_COUNT ? ", which may be left out" : "");
    }
    GX_TRY(read_operand(syntax, item, &e->a, err));
    item = item->next;
    if (rule->matrices == 2) {
        GX_TRY(read_operand(syntax, item, &e->b, err));
        item = item->next;
    }
    if (!rule->takes_transposed && (e->a.trans != GX_NO_TRANS || e->b.trans != GX_NO_TRANS)) {
        return gx_fail(err, GX_ARG, "expression has a transpose in an operation that plans none");
    }
    if (item == NULL) {
        return GX_OK;
    }
    if (item->form != GX_FORM_NUMBER || !(item->value.re >= 1 && item->value.re < MOST)) {
        return gx_syntax_fail(syntax, item->line, item->column, err, GX_ARG,
                              "expression has no count here");
    }
    e->k = (int64_t)item->value.re;
    return GX_OK;
}

/* The tree of one operation, whose names *e has from now on. */
static gx_code read(const gx_syntax *syntax, expression *e, gx_err *err)
{
    const gx_item *statement = syntax->program->first;
    const gx_item *item = statement == NULL ? NULL : statement->first;
    if (syntax->program->count != 1 || statement->form != GX_FORM_VALUE) {
        return gx_fail(err, GX_ARG, "expression is one operation on stored matrices");
    }
    e->rule = item->form == GX_FORM_CALL ? gx_plan_rule(item->text) : NULL;
    if (e->rule == NULL) {
        return gx_fail(err, GX_ARG,
                       "expression names a matrix but no operation (@ + - * / .T .H norm sum "
                       "cholesky lu qr solve lstsq inverse det svd eig cov corr pca topk knn)");
    }
    bool is_turned = item->is_infix && item->count == 1;
    return is_turned ? read_operand(syntax, item, &e->a, err) : read_items(syntax, item, e, err);
}

static bool find_operand(gx_fn *fn, bool takes_sparse, operand *x)
{
    gx_meta meta;
    gx_ctx *ctx = fn->ctx;
    return gx_fn_check(fn, gx_store_find_source(ctx->store, x->name, &meta, &fn->err)) &&
           gx_fn_check(fn, gx_mat_open(ctx->store, ctx->mem, &meta, &x->mat, &fn->err)) &&
           (x->mat.owned == NULL || gx_fn_own(fn, x->mat.owned)) &&
           (takes_sparse || !meta.is_sparse || gx_fn_refuse_sparse(fn, &x->mat));
}

static bool find_operands(gx_fn *fn, expression *e)
{
    bool takes_sparse = strcmp(e->rule->word, "matmul") == 0;
    return find_operand(fn, takes_sparse, &e->a) &&
           (e->rule->matrices == 1 || find_operand(fn, takes_sparse, &e->b));
}

/* What the options object says of the operation; those of the others have none. */
static bool take_options(gx_fn *fn, expression *e)
{
    bool is_eig = e->rule->options == gx_eig_table_keys;
    void *out = is_eig ? (void *)&e->eig_options : (void *)&e->svd_options;
    if (!gx_fn_options(fn, e->rule->options, out)) {
        return false;
    }
    bool is_given = is_eig ? e->eig_options.has_k : e->svd_options.has_k;
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
    if (e->rule->options == gx_svd_table_keys) {
        return gx_svd_args_of(fn, &e->svd_options, &e->a.mat, true, &e->svd);
    }
    if (e->rule->options == gx_eig_table_keys) {
        bool is_right = gx_eig_args_of(fn, &e->eig_options, &e->a.mat, e->mats, &e->eig);
        e->eig.wants_right = true; // as where vectors have a destination
        return is_right;
    }
    return true;
}

// The rows ----------------------------------------------------------------------------------------

/* Room for one more; NULL: the run has failed. */
static plan_row *add_row(gx_run *run, plan_rows *plan)
{
    gx_err err = {0};
    if (plan->rows == plan->capacity) {
        int64_t capacity = 2 * plan->capacity + 2;
        void *rows = plan->row;
        if (gx_mem_realloc(NULL, (size_t)capacity * sizeof *plan->row, "a plan", &rows, &err) !=
            GX_OK) {
            gx_run_fail(run, &err);
            return NULL;
        }
        plan->row = rows;
        plan->capacity = capacity;
    }
    plan_row *row = &plan->row[plan->rows++];
    *row = (plan_row){.is_step = true, .is_chosen = true};
    return row;
}

typedef struct listing {
    gx_run *run;
    plan_rows *plan;
} listing;

static bool add_step(void *arg, const gx_program_step *step)
{
    listing *l = arg;
    plan_row *row = add_row(l->run, l->plan);
    if (row != NULL) {
        snprintf(row->device, sizeof row->device, "%s", step->is_on_device ? "cuda" : "cpu");
        snprintf(row->driver, sizeof row->driver, "%s", step->op);
        snprintf(row->detail, sizeof row->detail, "%s", step->detail);
        snprintf(row->block, sizeof row->block, "%lldx%lld %s", (long long)step->rows,
                 (long long)step->cols, gx_number_name(step->dtype));
        row->cost.bytes_written = step->bytes;
        row->cost.flops = step->flops;
    }
    return row != NULL;
}

/* gx_plan('eval', program, arguments ...): a row a step. */
static void plan_program(gx_fn *fn, plan_rows *plan)
{
    gx_program *program;
    gx_program_arg *args;
    const char *text;
    if (gx_fn_options(fn, NULL, NULL) && gx_fn_text(fn, 1, "the program", &text) &&
        gx_eval_prepare_text(fn, text, 2, false, &program, &args)) {
        gx_program_steps(&fn->run, program, add_step, &(listing){&fn->run, plan});
    }
}

/* One operation: its candidates. */
static void plan_operation(gx_fn *fn, const gx_syntax *syntax, plan_rows *plan)
{
    expression e = {.rule = NULL};
    gx_err err = {0};
    if (read(syntax, &e, &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
        return;
    }
    if (!take_options(fn, &e)) {
        return;
    }
    if (gx_fn_has(fn, 1)) {
        char shown[GX_SHOWN_BYTES];
        gx_fn_fail(fn, "options must be a JSON object '{...}', not %s",
                   gx_arg_show(fn->argv[1], shown));
        return;
    }
    if (find_operands(fn, &e) && take_spectrum(fn, &e) && add_row(&fn->run, plan) != NULL &&
        add_row(&fn->run, plan) != NULL) {
        memset(plan->row, 0, 2 * sizeof *plan->row);
        plan->rows = gx_plan_expression(&fn->run, &e, plan->row);
    }
}

static bool plan_begin(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    (void)used;
    plan_rows *plan = state;
    const char *text = (const char *)sqlite3_value_text(fn->argv[0]);
    gx_syntax *syntax = NULL;
    gx_err err = {0};
    if (text != NULL && strcmp(text, "eval") == 0 && fn->argc > 1) {
        plan_program(fn, plan);
    } else if (fn->argc > 2) {
        gx_fn_fail(fn, "takes one expression and options, or 'eval', a program and its arguments");
    } else if (text == NULL) {
        gx_fn_fail(fn, "takes one expression, such as gx_plan('A @ B')");
    } else if (gx_syntax_parse(NULL, text, strlen(text), &syntax, &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
    } else {
        plan_operation(fn, syntax, plan);
    }
    gx_syntax_free(syntax);
    *rows = plan->rows;
    return gx_ok(&fn->run);
}

static void plan_column(void *state, gx_ctx *ctx, int64_t at, int column, sqlite3_context *sql)
{
    (void)ctx;
    const plan_row *row = &((const plan_rows *)state)->row[at];
    const gx_cost *cost = &row->cost;
    const gx_terms *terms = &row->terms;
    const char *const text[] = {row->device, row->driver, row->detail, row->block};
    const double number[] = {(double)cost->slots, (double)cost->calls, cost->bytes_read,
                             cost->bytes_written, cost->flops,         terms->seconds,
                             terms->start_s,      terms->read_s,       terms->up_s,
                             terms->compute_s,    terms->down_s,       terms->write_s,
                             terms->commit_s,     terms->factor};
    if (column == COL_CHOSEN) {
        sqlite3_result_int(sql, row->is_chosen);
    } else if (column <= COL_BLOCK) {
        sqlite3_result_text(sql, text[column - COL_DEVICE], -1, SQLITE_TRANSIENT);
    } else if (column == COL_SHARES && row->shares[0] != '\0') {
        sqlite3_result_text(sql, row->shares, -1, SQLITE_TRANSIENT);
    } else if (column == COL_SHARES ||
               (row->is_step && column != COL_BYTES_WRITTEN && column != COL_FLOPS)) {
        sqlite3_result_null(sql);
    } else if (column <= COL_BYTES_WRITTEN) {
        sqlite3_result_int64(sql, (int64_t)number[column - COL_CACHE_BLOCKS]);
    } else {
        sqlite3_result_double(sql, number[column - COL_CACHE_BLOCKS]);
    }
}

static void plan_clear(void *state)
{
    gx_mem_free(NULL, ((plan_rows *)state)->row);
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
