/*
** Tests of hypotheses as aggregates: gx_t_test(x, g), gx_chi2_test(a, b), ..., and gx_test(result).
**
** A test is a row of TESTS: its name, how many arguments it takes, what a row of the query is to
** it, how its sample keeps that, its options, and its mathematics (core/stat/tests.h).  The result
** is an object of JSON, the same for all; gx_test() shows one as a row.
**
** A row with NULL in it is counted, and is in no test.  Which group a label stands for does not
** depend on the order of the rows: groups are in the order of their labels.
*/
#include "agg_fn.h"
#include "table_fn.h"

#include "../core/base/decimal.h"
#include "../core/stat/tests.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct state state; /* of a group */

/* What a row has: numbers, labels (the index among its set), or the distribution of x. */
typedef enum argument { NOTHING, NUMBER, LABEL, DISTRIBUTION } argument;

typedef struct row {
    double x, y;
    int64_t group, column;
} row;

typedef struct test_kind {
    argument first, second; /* second: where it is given */
    int groups;             /* at most so many; 0: any   */
    gx_code (*keep)(state *st, const row *r, gx_err *err);
    gx_test_fn *test;
} test_kind;

typedef struct test_options {
    const test_kind *kind;
    gx_test_options of;
    int missing; /* 0: skip, 1: error */
} test_options;

struct state {
    gx_sample sample;
    test_options opt;
    int argc;
    argument second;
};

// What is kept of a row ---------------------------------------------------------------------------

static gx_code keep_t(state *st, const row *r, gx_err *err)
{
    gx_sample *s = &st->sample;
    (void)err;
    if (st->second == NUMBER) {
        s->largest = fmax(s->largest, fmax(fabs(r->x), fabs(r->y)));
    }
    gx_moments_add(st->second == LABEL ? &s->group.of[r->group] : &s->all,
                   st->second == NUMBER ? r->x - r->y : r->x);
    return GX_OK;
}

static gx_code keep_four(state *st, const row *r, gx_err *err)
{
    (void)err;
    gx_moments_add_four(&st->sample.all, r->x);
    return GX_OK;
}

/* x, and its group. */
static gx_code keep_ranked(state *st, const row *r, gx_err *err)
{
    if (st->second == LABEL) {
        gx_moments_add(&st->sample.group.of[r->group], r->x);
    }
    return gx_sample_keep(&st->sample, (gx_pair){.x = r->x, .tag = r->group}, err);
}

static gx_code keep_difference(state *st, const row *r, gx_err *err)
{
    if (!isfinite(r->x - r->y)) {
        return gx_fail(err, GX_ARG, "x - y is infinite");
    }
    return gx_sample_keep(&st->sample, (gx_pair){.x = r->x - r->y}, err);
}

static gx_code keep_pair(state *st, const row *r, gx_err *err)
{
    if (st->opt.of.coefficient == GX_PEARSON) {
        gx_sample_add_cross(&st->sample, r->x, r->y);
        return GX_OK;
    }
    return gx_sample_keep(&st->sample, (gx_pair){.x = r->x, .y = r->y}, err);
}

static gx_code keep_counts(state *st, const row *r, gx_err *err)
{
    double expected = st->second == NUMBER ? r->y : (double)NAN;
    if (r->x < 0 || expected <= 0) {
        return gx_fail(err, GX_ARG, "%s must be %s, not %.10g", r->x < 0 ? "observed" : "expected",
                       r->x < 0 ? "0 or more" : "above 0", r->x < 0 ? r->x : expected);
    }
    return gx_sample_keep(&st->sample, (gx_pair){.x = r->x, .y = expected}, err);
}

static gx_code keep_cell(state *st, const row *r, gx_err *err)
{
    gx_sample *s = &st->sample;
    const int32_t cell[2] = {(int32_t)r->group, (int32_t)r->column}; // gx_levels has no more
    int64_t index = 0;
    GX_TRY(gx_sample_label(s, &s->cells, (const char *)cell, sizeof cell, &index, err));
    s->cells.of[index].n++;
    s->group.of[r->group].n++;
    s->column.of[r->column].n++;
    return GX_OK;
}

// The table ---------------------------------------------------------------------------------------

#define KEY(key, type, field)                                                                      \
    {                                                                                              \
        key, type, offsetof(test_options, field), 0                                                \
    }
#define MISSING KEY("missing=skip|error", GX_OPT_WORD, missing)
#define ALTERNATIVE KEY("alternative=two-sided|less|greater", GX_OPT_WORD, of.alternative)
#define CONFIDENCE KEY("confidence=(0,1)", GX_OPT_REAL, of.confidence)
#define CORRECTION KEY("correction", GX_OPT_BOOL, of.correction)
#define KEYS(name, ...)                                                                            \
    static const gx_option name##_keys[] = {__VA_ARGS__, {NULL, GX_OPT_END, 0, 0}}

KEYS(plain, MISSING);
KEYS(sided, MISSING, ALTERNATIVE);
KEYS(rank, MISSING, ALTERNATIVE, CORRECTION);
KEYS(chi2, MISSING, CORRECTION);
KEYS(gof, MISSING, KEY("ddof=[0,inf]", GX_OPT_INT, of.ddof));
KEYS(levene, MISSING, KEY("center=median|mean", GX_OPT_WORD, of.from_mean));
KEYS(corr, MISSING, ALTERNATIVE, CONFIDENCE,
     KEY("method=pearson|spearman|kendall", GX_OPT_WORD, of.coefficient));
KEYS(t, MISSING, ALTERNATIVE, CONFIDENCE, KEY("mu", GX_OPT_REAL, of.mu),
     KEY("equal_var", GX_OPT_BOOL, of.equal_var), KEY("paired", GX_OPT_BOOL, of.paired));

/* A row each: name, arguments (the options included), kind, options, correction by default. */
#define TESTS(TEST)                                                                                \
    TEST(t_test, 1, 3, t, false, NUMBER, LABEL, 2, keep_t, gx_test_t)                              \
    TEST(anova, 2, 3, plain, false, NUMBER, LABEL, 0, keep_t, gx_test_anova)                       \
    TEST(levene, 2, 3, levene, false, NUMBER, LABEL, 0, keep_ranked, gx_test_levene)               \
    TEST(jarque_bera, 1, 2, plain, false, NUMBER, NOTHING, 0, keep_four, gx_test_jarque_bera)      \
    TEST(shapiro, 1, 2, plain, false, NUMBER, NOTHING, 0, keep_ranked, gx_test_shapiro)            \
    TEST(chi2_test, 2, 3, chi2, true, LABEL, LABEL, 0, keep_cell, gx_test_chi2)                    \
    TEST(chi2_gof, 1, 3, gof, false, NUMBER, NUMBER, 0, keep_counts, gx_test_chi2_gof)             \
    TEST(corr_test, 2, 3, corr, false, NUMBER, NUMBER, 0, keep_pair, gx_test_corr)                 \
    TEST(mann_whitney, 2, 3, rank, true, NUMBER, LABEL, 2, keep_ranked, gx_test_mann_whitney)      \
    TEST(wilcoxon, 1, 3, rank, false, NUMBER, NUMBER, 0, keep_difference, gx_test_wilcoxon)        \
    TEST(kruskal, 2, 3, plain, false, NUMBER, LABEL, 0, keep_ranked, gx_test_kruskal)              \
    TEST(ks_test, 2, 6, sided, false, NUMBER, LABEL, 2, keep_ranked, gx_test_ks)

// A row of the query ------------------------------------------------------------------------------

/*
** The index of a label, which is the value's text: a REAL that is a whole number has that of the
** INTEGER.  The value is not NULL.
*/
static gx_code take_label(state *st, gx_groups *set, sqlite3_value *value, const char *what,
                          int64_t *index, gx_err *err)
{
    char shown[GX_SHOWN_BYTES], number[GX_DECIMAL_MAX];
    const char *text = number;
    size_t bytes = 0;
    int type = sqlite3_value_type(value), most = st->opt.kind->groups;
    double real = type == SQLITE_FLOAT ? sqlite3_value_double(value) : 0.5;
    if (type == SQLITE_INTEGER || (real == floor(real) && fabs(real) < 0x1p63)) {
        int64_t whole = type == SQLITE_INTEGER ? sqlite3_value_int64(value) : (int64_t)real;
        bytes = (size_t)snprintf(number, sizeof number, "%lld", (long long)whole);
    } else if (type == SQLITE_FLOAT) {
        bytes = (size_t)gx_decimal_format(real, number);
    } else if (type == SQLITE_TEXT) {
        GX_TRY(gx_arg_text(value, what, &text, err));
        bytes = (size_t)sqlite3_value_bytes(value);
    } else {
        return gx_fail(err, GX_ARG, "%s must be a number or a text, not %s", what,
                       gx_arg_show(value, shown));
    }
    GX_TRY(gx_sample_label(&st->sample, set, text, bytes, index, err));
    return most == 0 || set->levels.count <= most
               ? GX_OK
               : gx_fail(err, GX_ARG, "%s has a third value, %s, where two groups are compared",
                         what, gx_text_show(text, bytes, shown));
}

/* The distribution: the same in every row. */
static gx_code take_distribution(state *st, sqlite3_value **argv, gx_err *err)
{
    gx_test_options *of = &st->opt.of, now = {.parameters = st->argc - 2};
    GX_TRY(gx_arg_dist(argv[1], now.parameters, argv + 2, &now.dist, now.parameter, err));
    if (now.dist == GX_DIST_BINOMIAL || now.dist == GX_DIST_POISSON) {
        return gx_fail(err, GX_ARG,
                       "numbers are compared with a continuous distribution; "
                       "gx_chi2_gof compares counts");
    }
    bool is_same =
        of->dist == now.dist && memcmp(of->parameter, now.parameter, sizeof now.parameter) == 0;
    if (of->parameters > 0 && !is_same) {
        return gx_fail(err, GX_ARG, "the distribution differs from that of the first row");
    }
    of->dist = now.dist;
    of->parameters = now.parameters;
    memcpy(of->parameter, now.parameter, sizeof now.parameter);
    return GX_OK;
}

/* The second argument, which is not NULL. */
static gx_code take_second(state *st, sqlite3_value **argv, row *r, gx_err *err)
{
    gx_sample *s = &st->sample;
    bool is_cell = st->opt.kind->first == LABEL, is_there = true;
    return st->second == NUMBER ? gx_agg_real(argv[1], "y", &r->y, &is_there, err)
           : st->second == LABEL
               ? take_label(st, is_cell ? &s->column : &s->group, argv[1], is_cell ? "b" : "g",
                            is_cell ? &r->column : &r->group, err)
           : st->second == DISTRIBUTION ? take_distribution(st, argv, err)
                                        : GX_OK;
}

static gx_code add(gx_ctx *ctx, void *memory, sqlite3_value **argv, gx_err *err)
{
    state *st = memory;
    row r = {0};
    (void)ctx;
    for (int k = 0; k < (st->second == NOTHING ? 1 : 2); k++) {
        if (sqlite3_value_type(argv[k]) == SQLITE_NULL) {
            st->sample.missing++;
            return st->opt.missing == 0 ? GX_OK
                                        : gx_fail(err, GX_ARG, "the %s argument is NULL",
                                                  k == 0 ? "first" : "second");
        }
    }
    bool is_there = true;
    GX_TRY(st->opt.kind->first == LABEL
               ? take_label(st, &st->sample.group, argv[0], "a", &r.group, err)
               : gx_agg_real(argv[0], "x", &r.x, &is_there, err));
    GX_TRY(take_second(st, argv, &r, err));
    st->sample.n++;
    return st->opt.kind->keep(st, &r, err);
}

static gx_code start(gx_ctx *ctx, void *memory, int argc, const void *options, gx_err *err)
{
    state *st = memory;
    memcpy(&st->opt, options, sizeof st->opt);
    gx_test_options *of = &st->opt.of;
    gx_sample_begin(&st->sample, ctx);
    st->argc = argc;
    st->second = argc < 2 ? NOTHING : of->paired ? NUMBER : st->opt.kind->second;
    of->has_groups = st->second == LABEL;
    if (of->paired && (argc < 2 || of->equal_var)) {
        return gx_fail(err, GX_ARG,
                       argc < 2 ? "option \"paired\" needs two numbers a row"
                                : "options \"paired\" and \"equal_var\" exclude "
                                  "each other");
    }
    if (argc > 2 && st->opt.kind->test == gx_test_ks) {
        st->second = DISTRIBUTION;
    }
    return isfinite(of->mu) ? GX_OK : gx_fail(err, GX_ARG, "option \"mu\" must be finite");
}

static void clear(gx_ctx *ctx, void *memory)
{
    (void)ctx;
    gx_sample_clear(&((state *)memory)->sample);
}

// The result --------------------------------------------------------------------------------------

static char *put_key(char *at, const char *key)
{
    at = stpcpy(at, at[-1] == '{' ? "\"" : ",\"");
    return stpcpy(stpcpy(at, key), "\":");
}

static char *put_number(char *at, const char *key, double value)
{
    at = put_key(at, key);
    return isfinite(value) ? at + gx_decimal_format(value, at) : stpcpy(at, "null");
}

static char *put_count(char *at, const char *key, int64_t count)
{
    at = put_key(at, key);
    return at + snprintf(at, GX_DECIMAL_MAX, "%lld", (long long)count);
}

/* A string of JSON, which has no more than six bytes for one. */
static char *put_text(char *at, const char *text)
{
    *at++ = '"';
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            *at++ = '\\';
            *at++ = *text;
        } else if ((unsigned char)*text < ' ') {
            at += snprintf(at, 8, "\\u%04x", (unsigned char)*text);
        } else {
            *at++ = *text;
        }
    }
    *at++ = '"';
    return at;
}

static char *put_test(char *at, const gx_sample *s, const gx_test *test)
{
    *at++ = '{';
    at = put_number(at, "statistic", test->statistic);
    at = put_number(at, "df", test->df);
    at = put_number(at, "p_value", test->p_value);
    at = put_number(at, "effect", test->effect);
    at = put_number(at, "ci_low", test->ci_low);
    at = put_number(at, "ci_high", test->ci_high);
    at = put_count(at, "n", s->n);
    at = put_count(at, "n_missing", s->missing);
    at = put_key(at, "method");
    at = put_text(at, test->method);
    for (int k = 0; k < test->owns; k++) {
        at = test->own[k].is_count ? put_count(at, test->own[k].key, (int64_t)test->own[k].value)
                                   : put_number(at, test->own[k].key, test->own[k].value);
    }
    if (test->note != NULL) {
        at = put_key(at, "note");
        at = put_text(at, test->note);
    }
    if (test->has_groups) {
        int64_t order[2];
        gx_test_order(s, order);
        at = stpcpy(put_key(at, "groups"), "[");
        for (int64_t k = 0; k < s->group.levels.count; k++) {
            const char *label = gx_levels_text(&s->group.levels, order[k]);
            at = put_text(k > 0 ? stpcpy(at, ",") : at, label);
        }
        *at++ = ']';
    }
    *at++ = '}';
    return at;
}

static gx_code result(const gx_sample *s, const gx_test *test, sqlite3_context *sql, gx_err *err)
{
    enum { FIXED = 1200 }; // of all but texts of labels
    char line[2048], *text = line;
    const gx_levels *levels = &s->group.levels;
    size_t room = FIXED;
    if (test->has_groups && levels->count > 0) {
        room += 6 * levels->offset[levels->count];
    }
    if (room > sizeof line) {
        GX_TRY(gx_mem_alloc(s->ctx->mem, room, "text", &text, err));
    }
    char *end = put_test(text, s, test);
    sqlite3_result_text64(sql, text, (sqlite3_uint64)(end - text), SQLITE_TRANSIENT, SQLITE_UTF8);
    sqlite3_result_subtype(sql, 'J');
    gx_mem_free(s->ctx->mem, text == line ? NULL : text);
    return GX_OK;
}

static gx_code finish(gx_ctx *ctx, void *memory, sqlite3_context *sql, gx_err *err)
{
    (void)ctx;
    state *st = memory;
    const double none = (double)NAN;
    if (st == NULL) {
        return GX_OK;
    }
    gx_test test = {none, none, none, none, none, none, .method = ""};
    GX_TRY(st->opt.kind->test(&st->sample, &st->opt.of, &test, err));
    if (test.note == NULL && !(isfinite(test.statistic) && isfinite(test.p_value))) {
        return gx_fail(err, GX_NUMERIC,
                       "the numbers are too large or too small for the range of a double: scale "
                       "them");
    }
    return result(&st->sample, &test, sql, err);
}

#define TEST(name, min, max, options, corrected, first, second, groups, keep, fn)                  \
    static void defaults_##name(void *memory)                                                      \
    {                                                                                              \
        static const test_kind kind = {first, second, groups, keep, fn};                           \
        test_options *opt = memory;                                                                \
        opt->kind = &kind;                                                                         \
        opt->of.confidence = 0.95;                                                                 \
        opt->of.correction = corrected;                                                            \
    }                                                                                              \
    const gx_agg_fn gx_agg_##name = {                                                              \
        .def = {"gx_" #name, min, max, GX_PURE, NULL, 0},                                          \
        .keys = options##_keys,                                                                    \
        .options_bytes = sizeof(test_options),                                                     \
        .state_bytes = sizeof(state),                                                              \
        .defaults = defaults_##name,                                                               \
        .start = start,                                                                            \
        .add = add,                                                                                \
        .finish = finish,                                                                          \
        .clear = clear,                                                                            \
    };
TESTS(TEST)

// A result as a row -------------------------------------------------------------------------------

enum { COLUMNS = 8 };

typedef struct shown {
    cJSON *object;
    const cJSON *item[COLUMNS];
} shown;

/* No rows where the result is NULL: there were no rows to test. */
static bool begin(gx_fn *fn, uint32_t used, void *memory, int64_t *rows)
{
    static const char *const keys[COLUMNS] = {"statistic", "df",      "p_value", "effect",
                                              "ci_low",    "ci_high", "n",       "method"};
    shown *one = memory;
    const char *text = NULL, *rest = NULL;
    (void)used;
    *rows = 0;
    if (!gx_fn_has(fn, 0)) {
        return true;
    }
    if (!gx_fn_text(fn, 0, "result", &text)) {
        return false;
    }
    one->object = gx_json_parse(text, strlen(text), &rest);
    for (int k = 0; k < COLUMNS; k++) {
        one->item[k] = cJSON_GetObjectItemCaseSensitive(one->object, keys[k]);
        if (one->item[k] == NULL) {
            return gx_fn_fail(fn, "result is not what a test of hypothesis gives: no \"%s\" in it",
                              keys[k]);
        }
    }
    *rows = 1;
    return true;
}

static gx_cell cell(void *memory, gx_ctx *ctx, int64_t at, int column)
{
    const cJSON *item = ((shown *)memory)->item[column];
    (void)ctx, (void)at;
    return cJSON_IsString(item)    ? gx_cell_text(item->valuestring, -1)
           : !cJSON_IsNumber(item) ? (gx_cell){0}
           : column == 6           ? gx_cell_int((int64_t)item->valuedouble)
                                   : gx_cell_real(item->valuedouble);
}

static void clear_shown(void *memory)
{
    cJSON_Delete(((shown *)memory)->object);
}

const gx_table_fn gx_table_test = {
    .def = {"gx_test", 1, 1, 0, NULL, 0},
    .shape = "CREATE TABLE x(statistic REAL, df REAL, p_value REAL, effect REAL, ci_low REAL, "
             "ci_high REAL, n INTEGER, method TEXT, result HIDDEN)",
    .columns = COLUMNS,
    .state_bytes = sizeof(shown),
    .begin = begin,
    .cell = cell,
    .clear = clear_shown,
};
