/*
** Regressions in SQL: gx_lm and gx_glm over rows, gx_lm_fit and gx_glm_fit of stored matrices, and
** what one asks a model row by row.  The mathematics is in core/stat.
**
**     SELECT g, gx_lm(y, x1, x2) FROM t GROUP BY g
**
** An argument that is a text in the first whole row is a category; "categorical" makes one of
** numbers too.  Columns are called by "names", or x1, x2, ...; "weights", "cluster" and
** "categorical" say which by these names.
*/
#include "agg_fn.h"

#include "../core/stat/lm.h"
#include "../core/stat/multivariate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct lm_options {
    const char *names, *categorical;
    char weights[64], cluster[64];
    bool intercept, window;
    double ridge;
    int robust, family, missing;
} lm_options;

enum { MISSING_SKIP, MISSING_ERROR };

#define KEY(key, type, field)                                                                      \
    {                                                                                              \
        key, type, offsetof(lm_options, field), 0                                                  \
    }
#define ROW_KEYS                                                                                   \
    KEY("categorical", GX_OPT_TEXTS, categorical), KEY("missing=skip|error", GX_OPT_WORD, missing)
#define COMMON_KEYS                                                                                \
    KEY("names", GX_OPT_TEXTS, names), KEY("weights", GX_OPT_TEXT, weights),                       \
        KEY("intercept", GX_OPT_BOOL, intercept)
#define LM_KEYS KEY("ridge=[0,inf)", GX_OPT_REAL, ridge)
#define FAMILY_KEY KEY("family=logit|probit|poisson", GX_OPT_WORD, family)

static const gx_option lm_keys[] = {COMMON_KEYS,
                                    ROW_KEYS,
                                    LM_KEYS,
                                    KEY("cluster", GX_OPT_TEXT, cluster),
                                    KEY("robust=" GX_ROBUST_WORDS, GX_OPT_WORD, robust),
                                    KEY("window", GX_OPT_BOOL, window),
                                    {NULL, GX_OPT_END, 0, 0}};
static const gx_option glm_keys[] = {COMMON_KEYS,
                                     ROW_KEYS,
                                     FAMILY_KEY,
                                     KEY("window", GX_OPT_BOOL, window),
                                     {NULL, GX_OPT_END, 0, 0}};
static const gx_option lm_fit_keys[] = {COMMON_KEYS,
                                        LM_KEYS,
                                        KEY("robust=" GX_ROBUST_WORDS, GX_OPT_WORD, robust),
                                        {NULL, GX_OPT_END, 0, 0}};
static const gx_option glm_fit_keys[] = {COMMON_KEYS, FAMILY_KEY, {NULL, GX_OPT_END, 0, 0}};

static void defaults(void *options)
{
    *(lm_options *)options = (lm_options){.intercept = true};
}

static gx_lm_spec spec_of(const lm_options *opt, bool is_general)
{
    return (gx_lm_spec){.family = is_general ? (gx_family)(opt->family + 1) : GX_GAUSSIAN,
                        .no_intercept = !opt->intercept,
                        .is_window = opt->window,
                        .robust = opt->cluster[0] != '\0' ? GX_CLUSTERED : (gx_robust)opt->robust,
                        .ridge = opt->ridge};
}

// Names -------------------------------------------------------------------------------------------

/* Line k of a text of lines: where it begins, and its length; NULL: there is none. */
static const char *line_of(const char *lines, int k, size_t *length)
{
    for (; lines != NULL; k--) {
        *length = strcspn(lines, "\n");
        if (k == 0) {
            return lines;
        }
        lines = lines[*length] == '\0' ? NULL : lines + *length + 1;
    }
    return NULL;
}

/* Which of count columns is called so; -1: none. */
static int column_called(const char *names, int count, const char *name, size_t bytes)
{
    for (int k = 0; k < count; k++) {
        char usual[16];
        size_t length;
        const char *at = names == NULL ? usual : line_of(names, k, &length);
        if (names == NULL) {
            length = (size_t)snprintf(usual, sizeof usual, "x%d", k + 1);
        }
        if (at != NULL && length == bytes && memcmp(at, name, bytes) == 0) {
            return k;
        }
    }
    return -1;
}

/* As many names as columns. */
static gx_code check_names(const char *names, int count, gx_err *err)
{
    size_t length;
    int found = 0;
    for (; names != NULL && line_of(names, found, &length) != NULL; found++) {
    }
    return names == NULL || found == count
               ? GX_OK
               : gx_fail(err, GX_ARG, "option \"names\" has %d names for %d columns behind y",
                         found, count);
}

/* Pointers to the lines of text, which become texts of their own; NULL: no names. */
static gx_code split_names(gx_mem *mem, char *text, int count, const char ***names, gx_err *err)
{
    *names = NULL;
    if (text == NULL) {
        return GX_OK;
    }
    GX_TRY(gx_mem_alloc(mem, (size_t)gx_max(count, 1) * sizeof **names, "names", names, err));
    for (int k = 0; k < count; k++) {
        size_t length = strcspn(text, "\n");
        (*names)[k] = text;
        text += length;
        text += *text == '\n';
        text[-1] = k + 1 < count ? '\0' : text[-1];
    }
    return GX_OK;
}

// Rows --------------------------------------------------------------------------------------------

typedef struct lm_state {
    gx_lm lm;
    gx_lm_spec spec;
    char *names; /* by lines; owned; NULL: x1, ... */
    int count;   /* columns behind y               */
    int behind;  /* where the first of them stands: 1; 0 where there is no y */
    int missing; /* what is done with rows that have NULLs */
    bool has_begun;
    int64_t skipped;              /* such rows                              */
    int8_t role[GX_LM_ARGS];      /* gx_lm_role                             */
    bool is_declared[GX_LM_ARGS]; /* a category by the options              */
} lm_state;

static gx_code take_role(lm_state *s, const char *key, const char *name, size_t bytes,
                         gx_lm_role role, gx_err *err)
{
    char shown[80];
    int column = column_called(s->names, s->count, name, bytes);
    if (column < 0) {
        return gx_fail(err, GX_ARG, "option \"%s\": no column is called '%s' (%s)", key,
                       gx_text_fit(name, bytes, shown, sizeof shown),
                       s->names == NULL ? "they are x1, x2, ...; option \"names\" calls them"
                                        : "see option \"names\"");
    }
    if (s->role[column] != GX_LM_NUMBER) {
        return gx_fail(err, GX_ARG, "column '%s' has two parts to play",
                       gx_text_fit(name, bytes, shown, sizeof shown));
    }
    s->role[column] = (int8_t)role;
    s->is_declared[column] = true;
    return GX_OK;
}

static gx_code take_options(lm_state *s, gx_ctx *ctx, const lm_options *opt, gx_err *err)
{
    GX_TRY(check_names(opt->names, s->count, err));
    if (opt->names != NULL) {
        size_t bytes = strlen(opt->names) + 1;
        GX_TRY(gx_mem_alloc(ctx->mem, bytes, "names", &s->names, err));
        memcpy(s->names, opt->names, bytes);
    }
    size_t length;
    const char *name;
    for (int k = 0; (name = line_of(opt->categorical, k, &length)) != NULL; k++) {
        GX_TRY(take_role(s, "categorical", name, length, GX_LM_CATEGORY, err));
    }
    if (opt->weights[0] != '\0') {
        GX_TRY(take_role(s, "weights", opt->weights, strlen(opt->weights), GX_LM_WEIGHT, err));
    }
    if (opt->cluster[0] != '\0') {
        GX_TRY(take_role(s, "cluster", opt->cluster, strlen(opt->cluster), GX_LM_CLUSTER, err));
    }
    if (opt->cluster[0] != '\0' && opt->robust != GX_CLASSIC) {
        return gx_fail(err, GX_ARG, "errors are by \"robust\" or by \"cluster\", not by both");
    }
    if (opt->ridge > 0 && (opt->robust != GX_CLASSIC || opt->cluster[0] != '\0')) {
        return gx_fail(err, GX_ARG, "there are no standard errors with \"ridge\"");
    }
    return GX_OK;
}

static gx_code start(gx_ctx *ctx, lm_state *s, int argc, const lm_options *opt, bool is_general,
                     gx_err *err)
{
    if (argc - 1 > GX_LM_ARGS) {
        return gx_fail(err, GX_ARG, "there are %d columns, more than %d", argc - 1, GX_LM_ARGS);
    }
    s->behind = 1;
    s->count = argc - 1;
    s->missing = opt->missing;
    s->spec = spec_of(opt, is_general);
    return take_options(s, ctx, opt, err);
}

static gx_code start_lm(gx_ctx *ctx, void *state, int argc, const void *options, gx_err *err)
{
    return start(ctx, state, argc, options, false, err);
}

static gx_code start_glm(gx_ctx *ctx, void *state, int argc, const void *options, gx_err *err)
{
    return start(ctx, state, argc, options, true, err);
}

/* gx_lda: a regression of nothing on the group and the columns: its triangle has all it takes. */
static gx_code start_lda(gx_ctx *ctx, void *state, int argc, const void *options, gx_err *err)
{
    lm_state *s = state;
    const lm_options *opt = options;
    (void)ctx;
    if (argc > GX_LM_ARGS) {
        return gx_fail(err, GX_ARG, "there are %d columns, more than %d", argc, GX_LM_ARGS);
    }
    s->count = argc;
    s->missing = opt->missing;
    s->spec = (gx_lm_spec){.no_intercept = true, .is_discriminant = true};
    s->role[0] = GX_LM_CATEGORY;
    s->is_declared[0] = true;
    return GX_OK;
}

/* The first whole row says which columns are categories. */
static gx_code begin(gx_ctx *ctx, lm_state *s, sqlite3_value **argv, gx_err *err)
{
    gx_lm_role roles[GX_LM_ARGS + 1];
    for (int a = 0; a < s->count; a++) {
        bool is_text = s->behind > 0 && sqlite3_value_type(argv[1 + a]) == SQLITE_TEXT;
        s->role[a] = s->role[a] == GX_LM_NUMBER && is_text ? GX_LM_CATEGORY : s->role[a];
        roles[a] = (gx_lm_role)s->role[a];
    }
    s->has_begun = true;
    return gx_lm_begin(&s->lm, ctx->mem, &s->spec, s->count, roles, err);
}

static gx_code take_level(lm_state *s, int a, sqlite3_value *value, double *number, gx_err *err)
{
    char shown[GX_SHOWN_BYTES];
    int type = sqlite3_value_type(value);
    if (type == SQLITE_BLOB || (type != SQLITE_TEXT && !s->is_declared[a])) {
        return gx_fail(
            err, GX_ARG, "x%d was a text and is now %s%s", a + 1, gx_arg_show(value, shown),
            type == SQLITE_BLOB ? "" : ": option \"categorical\" takes numbers as levels");
    }
    const char *text = (const char *)sqlite3_value_text(value);
    size_t bytes = (size_t)sqlite3_value_bytes(value);
    if (text == NULL) {
        return gx_fail_nomem(err, bytes, "a level");
    }
    if (memchr(text, '\0', bytes) != NULL) {
        return gx_fail(err, GX_ARG, "x%d is a text with a NUL character", a + 1);
    }
    return gx_lm_level(&s->lm, a, text, bytes, number, err);
}

/* Does the row have a NULL? */
static bool is_missing(const lm_state *s, sqlite3_value **argv)
{
    for (int a = 0; a < s->behind + s->count; a++) {
        if (sqlite3_value_type(argv[a]) == SQLITE_NULL) {
            return true;
        }
    }
    return false;
}

static gx_code add(gx_ctx *ctx, void *state, sqlite3_value **argv, gx_err *err)
{
    lm_state *s = state;
    double row[GX_LM_ARGS + 1];
    bool is_there;
    if (is_missing(s, argv)) {
        s->skipped++;
        return s->missing == MISSING_SKIP
                   ? GX_OK
                   : gx_fail(err, GX_ARG,
                             "the row has a NULL, and option \"missing\" is \"error\"");
    }
    if (!s->has_begun) {
        GX_TRY(begin(ctx, s, argv, err));
    }
    row[0] = 0;
    if (s->behind > 0) {
        GX_TRY(gx_agg_real(argv[0], "y", &row[0], &is_there, err));
    }
    for (int a = 0; a < s->count; a++) {
        sqlite3_value *value = argv[s->behind + a];
        if (s->role[a] == GX_LM_CATEGORY || s->role[a] == GX_LM_CLUSTER) {
            GX_TRY(take_level(s, a, value, &row[1 + a], err));
            continue;
        }
        int type = sqlite3_value_type(value);
        row[1 + a] = sqlite3_value_double(value);
        if ((type != SQLITE_FLOAT && type != SQLITE_INTEGER) || !isfinite(row[1 + a])) {
            char label[24];
            snprintf(label, sizeof label, "x%d", s->behind + a);
            return gx_agg_real(value, label, &row[1 + a], &is_there, err);
        }
    }
    return gx_lm_add(&s->lm, row, err);
}

static gx_code drop(gx_ctx *ctx, void *state, sqlite3_value **argv, gx_err *err)
{
    lm_state *s = state;
    (void)ctx;
    if (!s->spec.is_window) {
        return gx_fail(err, GX_ARG, "rows leave this window: option \"window\": true keeps them");
    }
    if (is_missing(s, argv)) {
        s->skipped--;
    } else {
        gx_lm_drop(&s->lm);
    }
    return GX_OK;
}

/* The model as SQLite's result; blob is given away. */
static void put_model(sqlite3_context *sql, gx_mem *mem, void *blob, size_t bytes)
{
    if (blob == NULL) {
        sqlite3_result_null(sql);
        return;
    }
    gx_mem_disown(mem, blob);
    sqlite3_result_blob64(sql, blob, bytes, gx_value_release);
}

/* The model; of rows that are kept within a run, which notices interrupts. */
static gx_code make_model(gx_ctx *ctx, lm_state *s, void **blob, size_t *bytes, gx_err *err)
{
    const char **names = NULL;
    char *text = NULL;
    gx_run run;
    if (s->lm.keeps_rows) {
        gx_run_begin(&run, ctx, "gx_lm");
        s->lm.run = &run;
    }
    s->lm.missing = s->skipped;
    gx_code rc = GX_OK;
    if (s->names != NULL) { // split a copy: another window may follow
        size_t length = strlen(s->names) + 1;
        rc = gx_mem_alloc(ctx->mem, length, "names", &text, err);
        if (rc == GX_OK) {
            memcpy(text, s->names, length);
            rc = split_names(ctx->mem, text, s->count, &names, err);
        }
    }
    rc = rc == GX_OK ? gx_lm_finish(&s->lm, names, blob, bytes, err) : rc;
    gx_mem_free(ctx->mem, names);
    gx_mem_free(ctx->mem, text);
    if (s->lm.run != NULL) {
        gx_run_end(&run);
        s->lm.run = NULL;
    }
    return rc;
}

static gx_code finish(gx_ctx *ctx, void *state, sqlite3_context *sql, gx_err *err)
{
    lm_state *s = state;
    void *blob = NULL;
    size_t bytes = 0;
    if (s != NULL && s->has_begun) {
        GX_TRY(make_model(ctx, s, &blob, &bytes, err));
    }
    put_model(sql, ctx->mem, blob, bytes);
    return GX_OK;
}

static void clear(gx_ctx *ctx, void *state)
{
    lm_state *s = state;
    gx_mem_free(ctx->mem, s->names);
    if (s->has_begun) {
        gx_lm_clear(&s->lm);
    }
}

const gx_agg_fn gx_agg_lm = {.def = {"gx_lm", 1, -1, GX_PURE, NULL, 0},
                             .keys = lm_keys,
                             .options_bytes = sizeof(lm_options),
                             .state_bytes = sizeof(lm_state),
                             .defaults = defaults,
                             .start = start_lm,
                             .add = add,
                             .drop = drop,
                             .finish = finish,
                             .clear = clear};

const gx_agg_fn gx_agg_glm = {.def = {"gx_glm", 1, -1, GX_PURE, NULL, 0},
                              .keys = glm_keys,
                              .options_bytes = sizeof(lm_options),
                              .state_bytes = sizeof(lm_state),
                              .defaults = defaults,
                              .start = start_glm,
                              .add = add,
                              .drop = drop,
                              .finish = finish,
                              .clear = clear};

static const gx_option lda_keys[] = {KEY("missing=skip|error", GX_OPT_WORD, missing),
                                     {NULL, GX_OPT_END, 0, 0}};

const gx_agg_fn gx_agg_lda = {.def = {"gx_lda", 2, -1, GX_PURE, NULL, 0},
                              .keys = lda_keys,
                              .options_bytes = sizeof(lm_options),
                              .state_bytes = sizeof(lm_state),
                              .start = start_lda,
                              .add = add,
                              .finish = finish,
                              .clear = clear};

// Stored matrices ---------------------------------------------------------------------------------

/* gx_lm_fit(X, y[, options]), gx_glm_fit(X, y[, options]): the model */
static void fit(gx_fn *fn)
{
    bool is_general = fn->def->variant != 0;
    lm_options opt = {.intercept = true};
    gx_mat X, y, weights;
    char *text = NULL;
    const char **names = NULL;
    void *blob = NULL;
    size_t bytes = 0;
    if (!gx_fn_options(fn, is_general ? glm_fit_keys : lm_fit_keys, &opt) ||
        !gx_fn_matrix(fn, 0, "X", &X) || !gx_fn_matrix(fn, 1, "y", &y) ||
        !gx_fn_is_ordered(fn, &X) || !gx_fn_is_ordered(fn, &y) ||
        (opt.weights[0] != '\0' && (!gx_fn_option_matrix(fn, "weights", opt.weights, &weights) ||
                                    !gx_fn_is_ordered(fn, &weights)))) {
        return;
    }
    gx_mem *mem = fn->ctx->mem;
    int count = (int)gx_min(X.cols, GX_LM_ARGS + 1);
    gx_lm_spec spec = spec_of(&opt, is_general);
    spec.robust = (gx_robust)opt.robust;
    if (opt.ridge > 0 && opt.robust != GX_CLASSIC) {
        gx_fn_fail(fn, "there are no standard errors with \"ridge\"");
        return;
    }
    if (!gx_fn_check(fn, check_names(opt.names, count, &fn->err))) {
        return;
    }
    if (opt.names != NULL) {
        size_t length = strlen(opt.names) + 1;
        if (!gx_fn_check(fn, gx_mem_alloc(mem, length, "names", &text, &fn->err)) ||
            memcpy(text, opt.names, length) == NULL ||
            !gx_fn_check(fn, split_names(mem, text, count, &names, &fn->err))) {
            gx_mem_free(mem, text);
            return;
        }
    }
    if (gx_lm_matrices(&fn->run, &spec, &X, &y, opt.weights[0] != '\0' ? &weights : NULL, names,
                       &blob, &bytes) == GX_OK) {
        put_model(fn->sql, mem, blob, bytes);
    }
    gx_mem_free(mem, names);
    gx_mem_free(mem, text);
}

// Asking a model ----------------------------------------------------------------------------------

/* The bytes of argument 0; false: NULL, or failed. */
static bool take_blob(gx_fn *fn, const void **blob, size_t *bytes)
{
    char shown[GX_SHOWN_BYTES];
    int type = sqlite3_value_type(fn->argv[0]);
    if (type == SQLITE_NULL) {
        return false;
    }
    *blob = sqlite3_value_blob(fn->argv[0]);
    *bytes = (size_t)sqlite3_value_bytes(fn->argv[0]);
    return type == SQLITE_BLOB ||
           gx_fn_fail(fn, "model must be what gx_lm or its like made, not %s",
                      gx_arg_show(fn->argv[0], shown));
}

/* "(Intercept)", "x1" or "region=north". */
static void term_name(const gx_model *model, int64_t column, char *name, size_t room)
{
    int64_t arg, level;
    char a[24], b[24];
    gx_model_column(model, column, &arg, &level);
    if (arg < 0) {
        snprintf(name, room, "(Intercept)");
    } else if (level < 0) {
        snprintf(name, room, "%s", gx_model_name(model, arg, -1, a));
    } else {
        snprintf(name, room, "%s=%s", gx_model_name(model, arg, -1, a),
                 gx_model_name(model, arg, level, b));
    }
}

/* gx_coef(model[, term]): all estimates as a column, or one. */
static void coef(gx_fn *fn)
{
    enum { NAME_BYTES = 1000 };
    gx_model model;
    gx_fit f = {0};
    const char *term = NULL;
    const void *blob;
    size_t bytes;
    if (!gx_fn_options(fn, NULL, NULL) || (fn->argc > 1 && !gx_fn_text(fn, 1, "term", &term)) ||
        !take_blob(fn, &blob, &bytes) ||
        !gx_fn_check(fn, gx_model_of_kind(blob, bytes, false, &model, &fn->err)) ||
        !gx_fn_check(fn, gx_fit_estimates(&model, fn->ctx->mem, &f, &fn->err))) {
        gx_fit_clear(&f);
        return;
    }
    int64_t found = -1;
    for (int64_t j = 0; j < f.columns && term != NULL && found < 0; j++) {
        char name[NAME_BYTES];
        term_name(&model, j, name, sizeof name);
        found = strcmp(name, term) == 0 ? j : -1;
    }
    if (term != NULL && found < 0) {
        gx_fn_fail(fn, "the model has no term '%s'", term);
    } else if (term != NULL && !isnan(f.estimate[found])) {
        sqlite3_result_double(fn->sql, f.estimate[found]);
    } else if (term == NULL) {
        gx_mat column;
        gx_sink C;
        gx_mat_value(&column, "estimates", GX_F64, f.columns, 1, f.estimate, gx_max(1, f.columns));
        gx_copy_any(&fn->run, &column, &fn->dest, 0, &C);
        gx_fn_result_sink(fn, &C);
    }
    gx_fit_clear(&f);
}

/* The estimate that goes with a level; a level that is not the model's is refused. */
static bool add_level(gx_fn *fn, const gx_model *model, const gx_fit *f, int64_t arg,
                      sqlite3_value *value, double *eta)
{
    const char *text = (const char *)sqlite3_value_text(value);
    char name[24], shown[GX_SHOWN_BYTES];
    int32_t levels = gx_model_levels(model, arg);
    for (int32_t k = 0; k < levels && text != NULL; k++) {
        if (strcmp(gx_model_name(model, arg, k, name), text) != 0) {
            continue;
        }
        for (int64_t j = 0; j < f->columns; j++) {
            int64_t of, level;
            gx_model_column(model, j, &of, &level);
            *eta += of == arg && level == k && !isnan(f->estimate[j]) ? f->estimate[j] : 0;
        }
        return true;
    }
    return gx_fn_fail(fn, "%s has no level %s", gx_model_name(model, arg, -1, name),
                      gx_arg_show(value, shown));
}

/* The linear predictor of the arguments. */
static bool add_up(gx_fn *fn, const gx_model *model, const gx_fit *f, double *eta)
{
    int at = 1, terms = 0;
    int64_t column = model->head.has_intercept;
    for (int64_t a = 0; a < model->head.args; a++) {
        terms += gx_model_levels(model, a) >= 0;
    }
    if (fn->argc != 1 + terms) {
        return gx_fn_fail(fn, "the model has %d arguments behind y, not %d", terms, fn->argc - 1);
    }
    *eta = column > 0 && !isnan(f->estimate[0]) ? f->estimate[0] : 0;
    for (int64_t a = 0; a < model->head.args; a++) {
        int32_t levels = gx_model_levels(model, a);
        double x = 0;
        bool is_there;
        if (levels > 0 && !add_level(fn, model, f, a, fn->argv[at++], eta)) {
            return false;
        }
        if (levels != 0) {
            continue;
        }
        if (!gx_fn_check(fn, gx_agg_real(fn->argv[at++], "x", &x, &is_there, &fn->err))) {
            return false;
        }
        for (int64_t of, level; column < f->columns; column++) { // those before are of categories
            gx_model_column(model, column, &of, &level);
            if (of == a) {
                break;
            }
        }
        *eta += column < f->columns && !isnan(f->estimate[column]) ? x * f->estimate[column] : 0;
    }
    return true;
}

/* The name of the group that the arguments belong to. */
static void predict_group(gx_fn *fn, const gx_model *model)
{
    gx_discriminant d;
    double x[2 * GX_LM_ARGS];
    char name[24];
    bool is_sound =
        gx_fn_check(fn, gx_discriminant_make(model, fn->ctx->mem, &d, &fn->err)) &&
        (fn->argc == 1 + d.columns ||
         gx_fn_fail(fn, "the model has %lld columns, not %d", (long long)d.columns, fn->argc - 1));
    for (int64_t j = 0; j < d.columns && is_sound; j++) {
        bool is_there;
        is_sound = d.columns <= GX_LM_ARGS &&
                   gx_fn_check(fn, gx_agg_real(fn->argv[1 + j], "x", &x[j], &is_there, &fn->err));
    }
    if (is_sound) {
        int64_t group = gx_discriminant_group(&d, x, x + GX_LM_ARGS);
        sqlite3_result_text(fn->sql, gx_model_name(model, 0, group, name), -1, SQLITE_TRANSIENT);
    }
    gx_discriminant_clear(&d);
}

/* gx_predict(model, x1, ..., xk): the mean of y, or of gx_lda's the group */
static void predict(gx_fn *fn)
{
    gx_model model;
    gx_fit f = {0};
    const void *blob;
    size_t bytes;
    double eta = 0;
    for (int k = 0; k < fn->argc; k++) {
        if (sqlite3_value_type(fn->argv[k]) == SQLITE_NULL) {
            return;
        }
    }
    if (!take_blob(fn, &blob, &bytes) ||
        !gx_fn_check(fn, gx_model_parse(blob, bytes, &model, &fn->err))) {
        return;
    }
    if (model.head.family == GX_DISCRIMINANT) {
        predict_group(fn, &model);
        return;
    }
    if (gx_fn_check(fn, gx_fit_estimates(&model, fn->ctx->mem, &f, &fn->err)) &&
        add_up(fn, &model, &f, &eta)) {
        sqlite3_result_double(fn->sql, gx_family_mean((gx_family)model.head.family, eta));
    }
    gx_fit_clear(&f);
}

const gx_function gx_functions_lm[] = {
    {"gx_lm_fit", 2, 3, 0, fit, 0},
    {"gx_glm_fit", 2, 3, 0, fit, 1},
    {"gx_coef", 1, 2, GX_PURE, coef, 0},
    {"gx_predict", 1, -1, GX_PURE, predict, 0},
    {.name = NULL},
};
