/*
** gx_eval(program[, arguments ...][, options]): programs of matrices (core/program).
**
** Arguments are matrices in any of their forms; a number stays a plain number, which takes the
** precision of what it meets.  The result is a number where it is 1 x 1 and real, the name of the
** last matrix where the program ends with a store, else a matrix value.
*/
#include "eval.h"

#include <string.h>

typedef struct eval_options {
    bool has_limit; /* first: a set_offset of 0 means none */
    bool replace;
    int64_t limit;
    bool has_optimize, optimize;
} eval_options;

static const gx_option eval_keys[] = {{"replace", GX_OPT_BOOL, offsetof(eval_options, replace), 0},
                                      {"limit", GX_OPT_INT, offsetof(eval_options, limit), 0},
                                      {"optimize", GX_OPT_BOOL, offsetof(eval_options, optimize),
                                       offsetof(eval_options, has_optimize)},
                                      {NULL, GX_OPT_END, 0, 0}};

/* ?(k + 1) of that argument. */
static bool take_argument(gx_fn *fn, int index, int k, gx_program_arg *arg)
{
    int type = sqlite3_value_type(fn->argv[index]);
    char label[16];
    sqlite3_snprintf(sizeof label, label, "?%d", k + 1);
    arg->is_number = type == SQLITE_INTEGER || type == SQLITE_FLOAT;
    arg->number = arg->is_number ? sqlite3_value_double(fn->argv[index]) : 0;
    return gx_fn_matrix(fn, index, label, &arg->mat);
}

bool gx_eval_prepare_text(gx_fn *fn, const char *text, int first, bool is_plain,
                          gx_program **program, gx_program_arg **args)
{
    gx_err err = {.code = GX_OK};
    void *memory;
    int count = fn->argc - first;
    if (gx_mem_alloc(fn->ctx->mem, (size_t)(count + 1) * sizeof **args, "arguments", &memory,
                     &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
        return false;
    }
    *args = memory;
    if (!gx_fn_own(fn, memory)) {
        return false;
    }
    for (int k = 0; k < count; k++) {
        if (!take_argument(fn, first + k, k, &(*args)[k])) {
            return false;
        }
    }
    return gx_program_prepare(&fn->run, text, strlen(text), *args, count, is_plain, program) ==
           GX_OK;
}

void gx_eval_result(gx_fn *fn, gx_program_result *result)
{
    if (result->kind == GX_GIVES_NUMBER) {
        sqlite3_result_double(fn->sql, result->number);
    } else if (result->kind == GX_GIVES_NAME) {
        sqlite3_result_text(fn->sql, result->name, -1, SQLITE_TRANSIENT);
    } else {
        gx_fn_result_sink(fn, &result->sink);
    }
}

static void eval(gx_fn *fn)
{
    eval_options opt = {.limit = GX_ROUNDS_MOST, .optimize = true};
    gx_program *program;
    gx_program_arg *args;
    gx_program_result result;
    const char *text;
    if (!gx_fn_options(fn, eval_keys, &opt)) {
        return;
    }
    if (opt.limit < 1) {
        gx_fn_fail(fn, "\"limit\" must be at least 1, not %lld", (long long)opt.limit);
        return;
    }
    if (!gx_fn_text(fn, 0, "the program", &text) ||
        !gx_eval_prepare_text(fn, text, 1, !opt.optimize, &program, &args)) {
        return;
    }
    const gx_program_how how = {.replace = opt.replace, .rounds_most = opt.limit};
    if (gx_program_run(&fn->run, program, args, &how, &result) != GX_OK) {
        return;
    }
    gx_eval_result(fn, &result);
}

const gx_function gx_functions_eval[] = {{"gx_eval", 1, -1, false, eval},
                                         {NULL, 0, 0, false, NULL}};
