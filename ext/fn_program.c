/*
** gx_eval(program[, arguments ...][, options]): programs of matrices (core/program).  Arguments are
** matrices in any of their forms; a number stays a plain number, which takes the precision of what
** it meets.  The result is a number where it is 1 x 1 and real, the name of the last matrix where
** the program ends with a store, else a matrix value.
**
** Functions that are programs of one operation (core/program/ops.h): gx_sort(A[, axis]) is
** gx_eval('sort(?1, ?2)', A, axis).
**
** A text behind the matrices is the destination: gx_sort('A', 'S'), gx_sort('A', 1, 'S').
*/
#include "gx_ext.h"

#include "../core/alg/sparse_alg.h"
#include "../core/fft/fft.h"
#include "../core/program/ops.h"
#include "measure.h"

#include <stdio.h>
#include <string.h>

// gx_eval -----------------------------------------------------------------------------------------

typedef struct eval_options {
    bool replace, optimize;
    int64_t limit;
} eval_options;

static const gx_option eval_keys[] = {
    {"replace", GX_OPT_BOOL, offsetof(eval_options, replace), 0},
    {"limit=[1,inf]", GX_OPT_INT, offsetof(eval_options, limit), 0},
    {"optimize", GX_OPT_BOOL, offsetof(eval_options, optimize), 0},
    {NULL, GX_OPT_END, 0, 0}};

/* ?(k + 1) of that argument. */
static bool take_argument(gx_fn *fn, int index, int k, gx_program_arg *arg)
{
    int type = sqlite3_value_type(fn->argv[index]);
    char label[16];
    sqlite3_snprintf(sizeof label, label, "?%d", k + 1);
    bool is_there = gx_fn_matrix(fn, index, label, &arg->mat);
    arg->is_number = is_there && (type == SQLITE_INTEGER || type == SQLITE_FLOAT) &&
                     arg->mat.dtype == GX_DTYPE_F64;
    arg->number = arg->is_number ? sqlite3_value_double(fn->argv[index]) : 0;
    return is_there;
}

bool gx_eval_prepare_text(gx_fn *fn, const char *text, int first, bool is_plain,
                          gx_program **program, gx_program_arg **args)
{
    int count = fn->argc - first;
    *args = gx_fn_alloc(fn, (size_t)(count + 1) * sizeof **args, "arguments");
    if (*args == NULL) {
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

static void result_of(gx_fn *fn, gx_program_result *result)
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
    const char *text;
    eval_options opt = {.limit = GX_ROUNDS_MOST, .optimize = true};
    gx_program *program;
    gx_program_arg *args;
    gx_program_result result;
    if (!gx_fn_options(fn, eval_keys, &opt) ||
        !gx_fn_text(fn, 0, "the program", &text) ||
        !gx_eval_prepare_text(fn, text, 1, !opt.optimize, &program, &args)) {
        return;
    }
    const gx_program_how how = {.replace = opt.replace, .rounds_most = opt.limit};
    if (gx_program_run(&fn->run, program, args, &how, &result) == GX_OK) {
        result_of(fn, &result);
    }
}

#define MODES "full|same|valid"

// Programs of one operation -----------------------------------------------------------------------

typedef struct program_options {
    bool replace, has_ddof, has_word;
    int64_t ddof;
    int word;
} program_options;

#define WORD(key)                                                                                  \
    {                                                                                              \
        key, GX_OPT_WORD, offsetof(program_options, word), offsetof(program_options, has_word)     \
    }
#define REPLACE                                                                                    \
    {"replace", GX_OPT_BOOL, offsetof(program_options, replace), 0}, {NULL, GX_OPT_END, 0, 0}

/* The first is of gx_var and gx_std alone. */
static const gx_option program_keys[] = {
    {"ddof", GX_OPT_INT, offsetof(program_options, ddof), offsetof(program_options, has_ddof)},
    REPLACE};
static const gx_option norm_keys[] = {WORD("norm=" GX_FFT_NORMS), REPLACE};
static const gx_option mode_keys[] = {WORD("mode=" MODES), REPLACE};
static const gx_option metric_keys[] = {WORD("metric=" GX_METRICS), REPLACE};

/* The destination, taken off the arguments. */
static bool take_destination(gx_fn *fn)
{
    int last = fn->argc - 1;
    if (last < fn->def->variant || sqlite3_value_type(fn->argv[last]) != SQLITE_TEXT) {
        return true;
    }
    const char *text = (const char *)sqlite3_value_text(fn->argv[last]);
    if (text != NULL && *text == '[') { // a literal where a number is wanted: no name begins so
        return true;
    }
    bool is_taken = gx_fn_dest(fn, last, &fn->dest);
    fn->argc--;
    return is_taken;
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
    for (int k = fn->def->variant; k < fn->argc; k++) {
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

static bool is_fourier(gx_op_id id)
{
    return id >= GX_OP_FFT && id <= GX_OP_IFFTSHIFT;
}

static const gx_option *keys_of(gx_op_id id)
{
    bool is_spread = id == GX_OP_VAR || id == GX_OP_STD;
    return id >= GX_OP_FFT && id <= GX_OP_IDST                ? norm_keys
           : id == GX_OP_CONVOLVE || id == GX_OP_CORRELATE ? mode_keys
           : id == GX_OP_DISTANCE                          ? metric_keys
                                                            : program_keys + !is_spread;
}

/* The text that writes the option's word behind the arguments: ", 'ortho'"; empty: it has none. */
static void write_word(gx_op_id id, const program_options *opt, char text[32])
{
    const gx_option *keys = keys_of(id);
    const char *word = keys == metric_keys ? GX_METRICS : keys == mode_keys ? MODES : GX_FFT_NORMS;
    for (int k = 0; opt->has_word && k < opt->word; k++) {
        word = strchr(word, '|') + 1;
    }
    snprintf(text, 32, opt->has_word ? ", '%.*s'" : "", (int)strcspn(word, "|/"), word);
}

/*
** The call of a Fourier transform: "fft(?1, 'all', ?2, 'ortho')".  An argument that is NULL, or is
** left out before a word, is written as what it stands for, and taken off the call's.
*/
static bool write_fourier(gx_fn *fn, const gx_op *op, const program_options *opt, char text[256])
{
    bool is_pair = op->id == GX_OP_CONVOLVE || op->id == GX_OP_CORRELATE;
    int count = opt->has_word ? op->most - 1 : fn->argc, kept = 0, used;
    sqlite3_value **given = gx_fn_alloc(fn, 8 * sizeof *given, "arguments");
    used = snprintf(text, 256, "%s(", op->name);
    for (int k = 0; k < count && given != NULL; k++) {
        const char *name, *separator = k == 0 ? "" : ", ";
        argument_name(op, k, &name);
        if (k < fn->argc && (k <= is_pair || gx_fn_has(fn, k))) {
            given[kept++] = fn->argv[k];
            used += snprintf(text + used, 256 - (size_t)used, "%s?%d", separator, kept);
        } else {
            bool is_shift = op->id == GX_OP_FFTSHIFT || op->id == GX_OP_IFFTSHIFT;
            used += snprintf(text + used, 256 - (size_t)used, "%s%s", separator,
                             *name == 't'                ? "2"
                             : *name == 'a' && !is_shift ? "0"
                                                         : "'all'");
        }
    }
    char word[32];
    write_word(op->id, opt, word);
    snprintf(text + used, 256 - (size_t)used, "%s)", word);
    fn->argv = given;
    fn->argc = kept;
    return given != NULL;
}

static void run(gx_fn *fn)
{
    program_options opt = {.replace = false};
    const gx_op *op = gx_op_find(fn->def->name + strlen("gx_"));
    char text[1024];
    gx_program *program;
    gx_program_arg *args;
    gx_program_result result;
    bool is_spread = op->id == GX_OP_VAR || op->id == GX_OP_STD;
    if (!gx_fn_options(fn, keys_of(op->id), &opt) ||
        !take_destination(fn)) {
        return;
    }
    bool is_distance = op->id == GX_OP_DISTANCE;
    bool has_word = is_distance || keys_of(op->id) == norm_keys || keys_of(op->id) == mode_keys;
    int most = is_spread || has_word ? op->most - 1 : op->most; // ddof and words are options here
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
    char word[32];
    write_word(op->id, &opt, word);
    snprintf(text + used, sizeof text - (size_t)used, "%s)", word);
    if (is_fourier(op->id) && !write_fourier(fn, op, &opt, text)) {
        return;
    }
    const gx_program_how how = {.replace = opt.replace,
                                .rounds_most = 1,
                                .name = fn->dest.name,
                                .is_matrix = is_distance};
    if (!gx_eval_prepare_text(fn, text, 0, false, &program, &args) ||
        gx_program_run(&fn->run, program, args, &how, &result) != GX_OK) {
        say_plainly(fn, op);
        return;
    }
    result_of(fn, &result);
}

// gx_take of a sparse matrix ----------------------------------------------------------------------

/* Is the first argument one?  Else the program runs, or the call has failed. */
static bool is_sparse_call(gx_fn *fn)
{
    gx_err refusal = {0};
    gx_value value = {0};
    gx_meta meta = {0};
    bool found = false, is_sparse = false;
    if (sqlite3_value_type(fn->argv[0]) == SQLITE_BLOB) {
        const void *bytes = sqlite3_value_blob(fn->argv[0]);
        size_t count = (size_t)sqlite3_value_bytes(fn->argv[0]);
        if (bytes != NULL) { // what is wrong with it will be said
            gx_value_parse_any(bytes, count, &value, &refusal);
        }
        is_sparse = refusal.code == GX_OK && value.is_sparse;
    }
    const char *name = sqlite3_value_type(fn->argv[0]) == SQLITE_TEXT
                           ? (const char *)sqlite3_value_text(fn->argv[0])
                           : NULL;
    if (name != NULL && *name != '[') {
        gx_fn_check(fn, gx_store_lookup(fn->ctx->store, name, &meta, &found, &fn->err));
        is_sparse = gx_ok(&fn->run) && found && meta.is_sparse;
    }
    if (!is_sparse && gx_ok(&fn->run)) {
        run(fn);
    }
    return is_sparse;
}

/* Its panels are read once, and stay what they are; anything else as programs do it. */
static void take(gx_fn *fn)
{
    program_options opt = {.replace = false};
    gx_mat A;
    gx_sink C;
    int64_t axis = 0, count, *number;
    if (!is_sparse_call(fn) || !gx_fn_options(fn, program_keys + 1, &opt) ||
        !gx_fn_matrix(fn, 0, "A", &A)) {
        return;
    }
    bool has_axis = gx_fn_has(fn, 2) && sqlite3_value_type(fn->argv[2]) != SQLITE_TEXT;
    fn->dest.replace = opt.replace;
    if ((has_axis && !gx_fn_axis(fn, 2, &axis)) ||
        !gx_fn_dest(fn, has_axis ? 3 : 2, &fn->dest)) {
        return;
    }
    bool is_rows = axis == 0;
    if (gx_fn_index(fn, 1, is_rows ? A.rows : A.cols, is_rows ? "row" : "column", &number,
                    &count)) {
        gx_sparse_pick(&fn->run, &A, is_rows, number, count, &fn->dest, &C);
        gx_fn_result_sink(fn, &C);
    }
}

/* gx_argmin and gx_argmax: of a sparse matrix by its entries; anything else as programs do it. */
static void arg_extreme(gx_fn *fn)
{
    program_options opt = {.replace = false};
    const gx_op *op = gx_op_find(fn->def->name + strlen("gx_"));
    gx_mat A;
    int64_t axis = -1;
    if (!is_sparse_call(fn) || !gx_fn_options(fn, program_keys + 1, &opt) ||
        !take_destination(fn) ||
        !gx_fn_matrix(fn, 0, "A", &A) || !gx_fn_axis(fn, 1, &axis) || !gx_fn_is_ordered(fn, &A)) {
        return;
    }
    fn->dest.replace = opt.replace;
    if ((A.rows == 0 && axis != 1) || (A.cols == 0 && axis != 0)) {
        gx_fn_fail(fn, "%s is %lldx%lld, but this is of at least one element", A.label,
                   (long long)A.rows, (long long)A.cols);
    } else {
        gx_fn_sparse_extremes(fn, &A, op->id == GX_OP_ARGMAX, axis, &fn->dest, true);
    }
}

/*
** Least and most with destination and options, which are the last two.  So many of the arguments
** before are matrices, the others numbers.
*/
#define PROGRAM(name, least, most, matrices)                                                      \
    {name, least, most, GX_DEST((most) - 2) | GX_DEST_LATE, run, matrices}
#define SPARSE_TOO GX_DEST_LATE | GX_SPARSE(0)

const gx_function gx_functions_program[] = {
    PROGRAM("gx_prod", 1, 4, 1),
    PROGRAM("gx_var", 1, 4, 1),
    PROGRAM("gx_std", 1, 4, 1),
    PROGRAM("gx_any", 1, 4, 1),
    PROGRAM("gx_all", 1, 4, 1),
    PROGRAM("gx_median", 1, 4, 1),
    PROGRAM("gx_logsumexp", 1, 4, 1),
    PROGRAM("gx_quantile", 2, 5, 1),
    PROGRAM("gx_triu", 1, 4, 1),
    PROGRAM("gx_tril", 1, 4, 1),
    PROGRAM("gx_reshape", 3, 5, 1),
    PROGRAM("gx_flip", 1, 4, 1),
    PROGRAM("gx_roll", 2, 5, 1),
    PROGRAM("gx_tile", 3, 5, 1),
    PROGRAM("gx_repeat", 2, 5, 1),
    PROGRAM("gx_kron", 2, 4, 2),
    PROGRAM("gx_distance", 2, 4, 2),
    PROGRAM("gx_outer", 2, 4, 2),
    PROGRAM("gx_inner", 2, 4, 2),
    PROGRAM("gx_cross", 2, 4, 2),
    PROGRAM("gx_polyval", 2, 4, 2),
    PROGRAM("gx_vander", 1, 4, 1),
    PROGRAM("gx_toeplitz", 1, 4, 2),
    PROGRAM("gx_circulant", 1, 3, 1),
    PROGRAM("gx_hankel", 1, 4, 2),
    PROGRAM("gx_companion", 1, 3, 1),
    PROGRAM("gx_khatri_rao", 2, 4, 2),
    PROGRAM("gx_signm", 1, 3, 1),
    PROGRAM("gx_cosm", 1, 3, 1),
    PROGRAM("gx_sinm", 1, 3, 1),
    PROGRAM("gx_tanm", 1, 3, 1),
    PROGRAM("gx_coshm", 1, 3, 1),
    PROGRAM("gx_sinhm", 1, 3, 1),
    PROGRAM("gx_tanhm", 1, 3, 1),
    PROGRAM("gx_expm_frechet", 2, 4, 2),
    PROGRAM("gx_expm_cond", 1, 3, 1),
    PROGRAM("gx_subspace_angles", 2, 4, 2),
    PROGRAM("gx_solve_circulant", 2, 4, 2),
    PROGRAM("gx_solve_banded", 4, 6, 4),
    PROGRAM("gx_cumsum", 1, 4, 1),
    PROGRAM("gx_cumprod", 1, 4, 1),
    PROGRAM("gx_diff", 1, 4, 1),
    PROGRAM("gx_sort", 1, 4, 1),
    PROGRAM("gx_argsort", 1, 4, 1),
    PROGRAM("gx_softmax", 1, 4, 1),
    PROGRAM("gx_unique_count", 1, 3, 1),
    PROGRAM("gx_fft", 1, 5, 1),
    PROGRAM("gx_ifft", 1, 5, 1),
    PROGRAM("gx_rfft", 1, 5, 1),
    PROGRAM("gx_irfft", 1, 5, 1),
    PROGRAM("gx_fft2", 1, 5, 1),
    PROGRAM("gx_ifft2", 1, 5, 1),
    PROGRAM("gx_hfft", 1, 5, 1),
    PROGRAM("gx_ihfft", 1, 5, 1),
    PROGRAM("gx_rfft2", 1, 5, 1),
    PROGRAM("gx_irfft2", 1, 5, 1),
    PROGRAM("gx_dctn", 1, 6, 1),
    PROGRAM("gx_idctn", 1, 6, 1),
    PROGRAM("gx_dstn", 1, 6, 1),
    PROGRAM("gx_idstn", 1, 6, 1),
    PROGRAM("gx_dct", 1, 6, 1),
    PROGRAM("gx_idct", 1, 6, 1),
    PROGRAM("gx_dst", 1, 6, 1),
    PROGRAM("gx_idst", 1, 6, 1),
    PROGRAM("gx_convolve", 2, 4, 2),
    PROGRAM("gx_correlate", 2, 4, 2),
    PROGRAM("gx_fftshift", 1, 4, 1),
    PROGRAM("gx_ifftshift", 1, 4, 1),
    PROGRAM("gx_fftfreq", 1, 4, 0),
    PROGRAM("gx_rfftfreq", 1, 4, 0),
    {"gx_argmin", 1, 4, GX_DEST(2) | SPARSE_TOO, arg_extreme, 1},
    {"gx_argmax", 1, 4, GX_DEST(2) | SPARSE_TOO, arg_extreme, 1},
    {"gx_take", 2, 5, GX_DEST(3) | SPARSE_TOO | GX_EXACT, take, 2},
    {"gx_eval", 1, -1, GX_EXACT, eval, 0},
    {.name = NULL}};
