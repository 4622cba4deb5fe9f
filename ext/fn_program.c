/*
** Functions that are programs of one operation (core/program/ops.h): gx_sort(A[, axis]) is
** gx_eval('sort(?1, ?2)', A, axis).
**
** A text behind the matrices is the destination: gx_sort('A', 'S'), gx_sort('A', 1, 'S').
*/
#include "eval.h"
#include "look.h"

#include "../core/alg/sparse_alg.h"
#include "../core/program/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct program_options {
    bool replace, has_ddof;
    int64_t ddof;
} program_options;

static const gx_option program_keys[] = {
    {"replace", GX_OPT_BOOL, offsetof(program_options, replace), 0}, {NULL, GX_OPT_END, 0, 0}};

/* Of gx_var and gx_std. */
static const gx_option spread_keys[] = {
    {"replace", GX_OPT_BOOL, offsetof(program_options, replace), 0},
    {"ddof", GX_OPT_INT, offsetof(program_options, ddof), offsetof(program_options, has_ddof)},
    {NULL, GX_OPT_END, 0, 0}};

/* How many arguments are matrices; the others are numbers. */
static int matrices_of(const gx_op *op)
{
    switch (op->id) {
    case GX_OP_KRON:
    case GX_OP_OUTER:
    case GX_OP_INNER:
    case GX_OP_CROSS:
    case GX_OP_TAKE:
    case GX_OP_POLYVAL:
    case GX_OP_TOEPLITZ:
        return 2;
    default:
        return 1;
    }
}

/* The destination, taken off the arguments. */
static bool take_destination(gx_fn *fn, const gx_op *op, const char **name)
{
    int last = fn->argc - 1;
    if (last < matrices_of(op) || sqlite3_value_type(fn->argv[last]) != SQLITE_TEXT) {
        return true;
    }
    const char *text = (const char *)sqlite3_value_text(fn->argv[last]);
    if (text != NULL && *text == '[') { // a literal where a number is wanted: no name begins so
        return true;
    }
    gx_dest dest = {.name = NULL};
    if (!gx_fn_dest(fn, last, &dest)) {
        return false;
    }
    *name = dest.name;
    fn->argc--;
    return true;
}

/* What the usage calls argument k, "axis" in "flip(A, axis)"; its length. */
static int argument_name(const gx_op *op, int k, const char **name)
{
    const char *from = strchr(op->usage, '(') + 1;
    for (; k > 0 && strchr(from, ',') != NULL; k--) {
        from = strchr(from, ',') + 2;
    }
    *name = from;
    return (int)strcspn(from, " ,)");
}

/*
** What a program of one call says of itself, as a function says it: without the place, in one line,
** its arguments by their names.
*/
static void say_plainly(gx_fn *fn, const gx_op *op)
{
    char *text = fn->run.err.text, said[sizeof fn->run.err.text];
    const char *from = strncmp(text, "line 1, ", 8) == 0 ? strstr(text, ": ") : NULL, *name;
    size_t used = 0;
    for (from = from != NULL ? from + 2 : text; *from != '\0' && *from != '\n'; from++) {
        int bytes = 1;
        name = from;
        if (from[0] == '?' && from[1] >= '1' && from[1] <= '9') {
            bytes = argument_name(op, from[1] - '1', &name);
            from++;
        }
        if (used + (size_t)bytes < sizeof said) {
            memcpy(said + used, name, (size_t)bytes);
            used += (size_t)bytes;
        }
    }
    memcpy(text, said, used);
    text[used] = '\0';
}

/* Behind the matrices are numbers, which are known before the program runs. */
static bool are_numbers(gx_fn *fn, const gx_op *op)
{
    for (int k = matrices_of(op); k < fn->argc; k++) {
        int type = sqlite3_value_type(fn->argv[k]);
        if (type == SQLITE_TEXT || type == SQLITE_BLOB) {
            const char *name;
            char shown[GX_SHOWN_BYTES];
            int bytes = argument_name(op, k, &name);
            return gx_fn_fail(fn, "%.*s must be a number, not %s", bytes, name,
                              gx_arg_show(fn->argv[k], shown));
        }
    }
    return true;
}

static void run(gx_fn *fn)
{
    program_options opt = {.replace = false};
    const gx_op *op = gx_op_find(fn->def->name + strlen("gx_"));
    char text[1024];
    const char *name = NULL;
    gx_program *program;
    gx_program_arg *args;
    gx_program_result result;
    bool is_spread = op->id == GX_OP_VAR || op->id == GX_OP_STD;
    if (!gx_fn_options(fn, is_spread ? spread_keys : program_keys, &opt) ||
        !take_destination(fn, op, &name)) {
        return;
    }
    int most = is_spread ? 2 : op->most; // ddof is an option here
    int count = fn->argc, used = snprintf(text, sizeof text, "%s(", op->name);
    if (count < op->least || count > most) {
        bool are_few = count < op->least;
        int bound = are_few ? op->least : most;
        gx_fn_fail(fn, "takes at %s %d argument%s before the destination, not %d",
                   are_few ? "least" : "most", bound, bound == 1 ? "" : "s", count);
        return;
    }
    if (!are_numbers(fn, op)) {
        return;
    }
    for (int k = 0; k < count; k++) {
        used += snprintf(text + used, sizeof text - (size_t)used, k == 0 ? "?1" : ", ?%d", k + 1);
    }
    if (opt.has_ddof) {
        used += snprintf(text + used, sizeof text - (size_t)used, "%s, %lld", // var(A, 'all', 1)
                         count == 1 ? ", 'all'" : "", (long long)opt.ddof);
    }
    snprintf(text + used, sizeof text - (size_t)used, ")");
    const gx_program_how how = {.replace = opt.replace, .rounds_most = 1, .name = name};
    if (!gx_eval_prepare_text(fn, text, 0, false, &program, &args) ||
        gx_program_run(&fn->run, program, args, &how, &result) != GX_OK) {
        say_plainly(fn, op);
        return;
    }
    gx_eval_result(fn, &result);
}

// gx_take of a sparse matrix ----------------------------------------------------------------------

/* Is the first argument one?  false: the call has failed. */
static bool look_for_sparse(gx_fn *fn, bool *is_sparse)
{
    gx_err err = {0}, refusal = {0};
    gx_value value = {0};
    gx_meta meta = {0};
    bool found = false;
    *is_sparse = false;
    if (sqlite3_value_type(fn->argv[0]) == SQLITE_BLOB) {
        const void *bytes = sqlite3_value_blob(fn->argv[0]);
        size_t count = (size_t)sqlite3_value_bytes(fn->argv[0]);
        if (bytes != NULL) { // what is wrong with it will be said
            gx_value_parse_any(bytes, count, &value, &refusal);
        }
        *is_sparse = refusal.code == GX_OK && value.is_sparse;
        return true;
    }
    const char *name = (const char *)sqlite3_value_text(fn->argv[0]);
    if (name != NULL && *name != '[') {
        gx_store_lookup(fn->ctx->store, name, &meta, &found, &err);
        *is_sparse = err.code == GX_OK && found && meta.is_sparse;
    }
    return gx_run_fail(&fn->run, &err) == GX_OK;
}

/* Numbers of lines, from the end where negative, in memory of the call's. */
static bool take_index(gx_fn *fn, int64_t side, const char *what, int64_t **number, int64_t *count)
{
    gx_mat list;
    gx_reader *reader = NULL;
    void *memory = NULL, *numbers = NULL;
    if (!gx_fn_matrix(fn, 1, "index", &list)) {
        return false;
    }
    *count = list.rows * list.cols;
    const gx_mat like = {.number = GX_F64};
    bool is_read = gx_look_buffer(fn, &like, gx_max(1, *count), 1, &numbers) &&
                   gx_look_buffer(fn, &like, gx_max(1, *count), 1, &memory) &&
                   gx_look_open(fn, &list, &reader);
    gx_err err = {0};
    if (is_read && *count > 0) {
        gx_mat_read(&fn->run, &list, reader, 0, 0, list.rows, list.cols, GX_F64, memory, list.rows,
                    &err);
        is_read = gx_run_fail(&fn->run, &err) == GX_OK;
    }
    gx_reader_close(reader);
    *number = numbers;
    const double *given = memory;
    for (int64_t k = 0; is_read && k < *count; k++) {
        double from_end = given[k] < 0 ? given[k] + (double)side : given[k];
        if (!(from_end >= 0 && from_end < (double)side) || from_end != floor(from_end)) {
            return gx_fn_fail(fn, "there is no %s %g: there are %lld", what, given[k],
                              (long long)side);
        }
        (*number)[k] = (int64_t)from_end;
    }
    return is_read;
}

/* Its panels are read once, and stay what they are; anything else as programs do it. */
static void take(gx_fn *fn)
{
    program_options opt = {.replace = false};
    gx_dest dest = {.name = NULL};
    gx_mat A;
    gx_sink C;
    int64_t axis = 0, count, *number;
    bool is_sparse;
    if (!look_for_sparse(fn, &is_sparse)) {
        return;
    }
    if (!is_sparse) {
        run(fn);
        return;
    }
    if (!gx_fn_options(fn, program_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A)) {
        return;
    }
    bool has_axis = gx_fn_has(fn, 2) && sqlite3_value_type(fn->argv[2]) != SQLITE_TEXT;
    dest.replace = opt.replace;
    if ((has_axis && !gx_fn_int(fn, 2, "axis", &axis)) ||
        !gx_fn_dest(fn, has_axis ? 3 : 2, &dest)) {
        return;
    }
    if (axis != 0 && axis != 1) {
        gx_fn_fail(fn, "axis must be 0 or 1, not %lld", (long long)axis);
        return;
    }
    bool is_rows = axis == 0;
    if (take_index(fn, is_rows ? A.rows : A.cols, is_rows ? "row" : "column", &number, &count)) {
        gx_sparse_pick(&fn->run, &A, is_rows, number, count, &dest, &C);
        gx_fn_result_sink(fn, &C);
    }
}

/* gx_argmin and gx_argmax: of a sparse matrix by its entries; anything else as programs do it. */
static void arg_extreme(gx_fn *fn)
{
    program_options opt = {.replace = false};
    const gx_op *op = gx_op_find(fn->def->name + strlen("gx_"));
    gx_dest dest = {.name = NULL};
    gx_mat A;
    int64_t axis = -1;
    bool is_sparse;
    if (!look_for_sparse(fn, &is_sparse)) {
        return;
    }
    if (!is_sparse) {
        run(fn);
        return;
    }
    if (!gx_fn_options(fn, program_keys, &opt) || !take_destination(fn, op, &dest.name) ||
        !gx_fn_matrix(fn, 0, "A", &A) || (fn->argc > 1 && !gx_fn_int(fn, 1, "axis", &axis))) {
        return;
    }
    dest.replace = opt.replace;
    if (fn->argc > 1 && axis != 0 && axis != 1) {
        gx_fn_fail(fn, "axis must be 0 or 1, not %lld", (long long)axis);
    } else if (gx_number_is_complex(A.number)) {
        gx_fn_fail(fn, "%s is complex (%s): complex numbers have no order", A.label,
                   gx_number_name(A.number));
    } else if ((A.rows == 0 && axis != 1) || (A.cols == 0 && axis != 0)) {
        gx_fn_fail(fn, "%s is %lldx%lld, but this is of at least one element", A.label,
                   (long long)A.rows, (long long)A.cols);
    } else {
        gx_fn_sparse_extremes(fn, &A, op->id == GX_OP_ARGMAX, axis, &dest, true);
    }
}

/* Least and most with destination and options. */
const gx_function gx_functions_program[] = {
    {"gx_prod", 1, 4, false, run},         {"gx_var", 1, 4, false, run},
    {"gx_std", 1, 4, false, run},          {"gx_any", 1, 4, false, run},
    {"gx_all", 1, 4, false, run},          {"gx_argmin", 1, 4, false, arg_extreme},
    {"gx_argmax", 1, 4, false, arg_extreme},       {"gx_median", 1, 4, false, run},
    {"gx_logsumexp", 1, 4, false, run},    {"gx_quantile", 2, 5, false, run},
    {"gx_triu", 1, 4, false, run},         {"gx_tril", 1, 4, false, run},
    {"gx_reshape", 3, 5, false, run},      {"gx_flip", 1, 4, false, run},
    {"gx_roll", 2, 5, false, run},         {"gx_tile", 3, 5, false, run},
    {"gx_repeat", 2, 5, false, run},       {"gx_take", 2, 5, false, take},
    {"gx_kron", 2, 4, false, run},         {"gx_outer", 2, 4, false, run},
    {"gx_inner", 2, 4, false, run},        {"gx_cross", 2, 4, false, run},
    {"gx_polyval", 2, 4, false, run},      {"gx_vander", 1, 4, false, run},
    {"gx_toeplitz", 1, 4, false, run},     {"gx_unique_count", 1, 3, false, run},
    {"gx_cumsum", 1, 4, false, run},       {"gx_cumprod", 1, 4, false, run},
    {"gx_diff", 1, 4, false, run},         {"gx_sort", 1, 4, false, run},
    {"gx_argsort", 1, 4, false, run},      {"gx_softmax", 1, 4, false, run},
    {NULL, 0, 0, false, NULL}};
