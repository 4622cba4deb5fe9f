/*
** CREATE VIRTUAL TABLE t USING gx_vectors(...): what its arguments declare.
**
**     embedding f32[384]                            a vector column: f64 f32 f16 bf16 i8 bit
**     embedding float[384] distance_metric=cosine   as vec0 says it: float is f32, int8 is i8
**     id INTEGER PRIMARY KEY | id TEXT PRIMARY KEY  what column 0 is called; without it: rowid
**     tag TEXT, +note TEXT, user TEXT partition key ordinary columns of NAME_row, all three
**     metric=cosine                                 of vector columns that have none of their own
**     index=ivf(lists=1000, probe=20, recall=0.9)   the first vector column is to have an index; in
**                                                   () numbers, or auto, or nothing
**     chunk_size=1024                               vec0's; tiles are as gx makes them
**
** A type goes into CREATE TABLE and is therefore made of known words alone; names are quoted there.
** All names and types are in one block, behind each other.
*/
#include "vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define METRICS GX_METRICS "|dot"

static const int64_t DIMS_MAX = 65536;

static const struct {
    const char *name;
    gx_dtype dtype;
    bool is_bit;
} vector_types[] = {
    {"f32", GX_DTYPE_F32, false}, {"float", GX_DTYPE_F32, false}, {"float32", GX_DTYPE_F32, false},
    {"f64", GX_DTYPE_F64, false}, {"f16", GX_DTYPE_F16, false},   {"bf16", GX_DTYPE_BF16, false},
    {"i8", GX_DTYPE_I8, false},   {"int8", GX_DTYPE_I8, false},   {"bit", GX_DTYPE_I8, true},
};

typedef struct parser {
    gx_vec_shape *shape;
    char *free;         /* where the next name goes                 */
    const char *text;   /* the argument                             */
    const char *at;     /* behind the token                         */
    gx_sql_token token; /* the one at hand                          */
    int metric;         /* of the table, -1: not given              */
    bool has_key;
    gx_err *err;
} parser;

static bool fail(parser *p, const char *what)
{
    gx_fail(p->err, GX_ARG, "'%.120s': %s", p->text, what);
    return false;
}

static void advance(parser *p)
{
    p->at = gx_sql_next(p->at, &p->token);
}

static bool is_at(const parser *p, const char *word)
{
    return gx_sql_is(&p->token, word);
}

static bool is_sign(const parser *p, char sign)
{
    return p->token.kind == sign;
}

/* The token's text, kept; doubled quotes become one. */
static const char *keep(parser *p)
{
    char *kept = p->free;
    const gx_sql_token *t = &p->token;
    for (size_t i = 0; i < t->bytes; i++) {
        *p->free++ = t->text[i];
        i += t->kind == '"' && i + 1 < t->bytes && strchr("\"`", t->text[i]) != NULL &&
             t->text[i + 1] == t->text[i];
    }
    *p->free++ = '\0';
    return kept;
}

static bool take_metric(parser *p, int *metric)
{
    char word[16] = "", list[GX_WORDS_BYTES], text[GX_WORDS_BYTES + 64];
    advance(p);
    if (!is_sign(p, '=')) {
        return fail(p, "expected '=' and a metric");
    }
    advance(p);
    snprintf(word, sizeof word, "%.*s", (int)gx_min(15, (int64_t)p->token.bytes), p->token.text);
    *metric = gx_word_of(METRICS, word);
    if (*metric < 0) {
        snprintf(text, sizeof text, "the metric must be %s", gx_words_list(METRICS, list));
        return fail(p, text);
    }
    advance(p);
    return true;
}

// Columns -----------------------------------------------------------------------------------------

static int vector_type(const gx_sql_token *token)
{
    for (size_t k = 0; k < sizeof vector_types / sizeof vector_types[0]; k++) {
        if (gx_sql_is(token, vector_types[k].name)) {
            return (int)k;
        }
    }
    return -1;
}

/* [384]: to the tokenizer a name in quotes. */
static bool take_dims(parser *p, gx_vec_column *column)
{
    int64_t dims = 0;
    bool is_number = p->token.bytes > 0;
    for (size_t i = 0; i < p->token.bytes && is_number; i++) {
        is_number = p->token.text[i] >= '0' && p->token.text[i] <= '9' && dims <= DIMS_MAX;
        dims = 10 * dims + (p->token.text[i] - '0');
    }
    if (!is_number || dims < 1 || dims > DIMS_MAX) {
        return fail(p, "a vector has 1 to 65536 numbers, as in embedding f32[384]");
    }
    if (column->is_bit && dims % 8 != 0) {
        return fail(p, "bits come by eight: the number in [] must be a multiple of 8");
    }
    column->dims = dims;
    column->cells = column->is_bit ? dims / 8 : dims;
    column->bytes = (size_t)column->cells * gx_dtype_bytes(column->dtype);
    advance(p);
    return true;
}

static bool take_vector(parser *p, int type, const char *name)
{
    gx_vec_shape *shape = p->shape;
    if (shape->vectors == GX_VEC_VECTORS_MAX) {
        return fail(p, "a table has at most 8 vector columns");
    }
    gx_vec_column *column = &shape->vector[shape->vectors];
    *column = (gx_vec_column){.name = name,
                              .dtype = vector_types[type].dtype,
                              .is_bit = vector_types[type].is_bit,
                              .metric = -1};
    advance(p); // behind the type
    if (!take_dims(p, column)) {
        return false;
    }
    if ((is_at(p, "distance_metric") || is_at(p, "metric")) && !take_metric(p, &column->metric)) {
        return false;
    }
    shape->column[shape->columns].vector = shape->vectors++;
    return true;
}

static bool is_plain_type(const gx_sql_token *token)
{
    static const char *const words[] = {"TEXT", "INTEGER", "INT",     "BIGINT",  "FLOAT",
                                        "REAL", "DOUBLE",  "NUMERIC", "BOOLEAN", "BOOL",
                                        "BLOB", "ANY",     "DATE",    "DATETIME"};
    bool is = false;
    for (size_t k = 0; k < sizeof words / sizeof words[0] && !is; k++) {
        is = gx_sql_is(token, words[k]);
    }
    return is;
}

/* PRIMARY KEY behind a type: column 0 is called so. */
static bool take_key(parser *p, const char *name, bool is_text, bool is_integer)
{
    gx_vec_shape *shape = p->shape;
    advance(p);
    if (!is_at(p, "KEY")) {
        return fail(p, "expected PRIMARY KEY");
    }
    advance(p);
    if (p->has_key || !(is_text || is_integer)) {
        return fail(p, "a table has one key, INTEGER PRIMARY KEY or TEXT PRIMARY KEY");
    }
    p->has_key = true;
    shape->key = name;
    shape->is_text_key = is_text;
    return true;
}

/* tag TEXT COLLATE NOCASE, user TEXT PARTITION KEY, id INTEGER PRIMARY KEY. */
static bool take_plain(parser *p, const char *name, bool *is_key, const char **type)
{
    bool is_text = is_at(p, "TEXT"), is_integer = is_at(p, "INTEGER") || is_at(p, "INT");
    *type = "";
    *is_key = false;
    if (is_plain_type(&p->token)) {
        *type = keep(p);
        advance(p);
    }
    if (is_at(p, "COLLATE")) {
        advance(p);
        if (p->token.kind != 'a') {
            return fail(p, "expected a collation");
        }
        p->free[-1] = ' '; // behind the type
        p->free += snprintf(p->free, 9, "COLLATE ");
        (void)keep(p);
        advance(p);
    }
    if (is_at(p, "PRIMARY")) {
        *is_key = true;
        return take_key(p, name, is_text, is_integer);
    }
    if (is_at(p, "PARTITION")) {
        advance(p);
        if (!is_at(p, "KEY")) {
            return fail(p, "expected PARTITION KEY");
        }
        advance(p);
    }
    return true;
}

static bool is_taken(const gx_vec_shape *shape, const char *name)
{
    static const char *const own[] = {"distance", "score", "k",     "rowid",
                                      "_rowid_",  "oid",   "gx_pos"};
    bool is = false;
    for (size_t k = 0; k < sizeof own / sizeof own[0] && !is; k++) {
        is = sqlite3_stricmp(own[k], name) == 0;
    }
    for (int c = 0; c < shape->columns && !is; c++) {
        is = sqlite3_stricmp(shape->column[c].name, name) == 0;
    }
    return is || (shape->key != NULL && sqlite3_stricmp(shape->key, name) == 0);
}

static bool take_column(parser *p, const char *name)
{
    gx_vec_shape *shape = p->shape;
    if (is_taken(shape, name)) {
        return fail(p, "the name is taken: by another column, or as rowid, distance, score and k "
                       "are by the table itself");
    }
    if (shape->columns == GX_VEC_COLUMNS_MAX) {
        return fail(p, "a table has at most 60 columns");
    }
    const char *type;
    bool is_key = false;
    int vector = vector_type(&p->token);
    gx_sql_token next;
    gx_sql_next(p->at, &next);
    bool is_vector = vector >= 0 && next.kind == '"' && next.text[-1] == '[';
    shape->column[shape->columns].name = name;
    shape->column[shape->columns].vector = -1;
    if (is_vector ? !take_vector(p, vector, name) : !take_plain(p, name, &is_key, &type)) {
        return false;
    }
    if (p->token.kind != '\0') {
        return fail(p, "expected a column, as in embedding f32[384] or tag TEXT, or "
                       "metric=cosine");
    }
    if (is_key && !shape->is_text_key) {
        return true; // the rowid
    }
    if (!is_vector) {
        gx_vectors_shape *tables = &shape->tables;
        shape->column[shape->columns].plain = tables->columns;
        shape->name[tables->columns] = name;
        shape->type[tables->columns] = type;
        tables->key = is_key ? name : tables->key;
        tables->columns++;
    }
    shape->columns += !is_key;
    return true;
}

/* chunk_size=8: how vec0 cuts its vectors. */
static bool take_chunks(parser *p)
{
    advance(p);
    advance(p);
    if (p->token.kind != 'a') {
        return fail(p, "expected a number");
    }
    advance(p);
    return true;
}

/* = 1000, = 0.9, = auto, at the '=': a number between 0 and most; 0: auto. */
static bool take_number(parser *p, double most, double *number)
{
    char word[32] = "", *end;
    advance(p);
    if (!is_sign(p, '=')) {
        return fail(p, "expected '=' and a number");
    }
    p->at = gx_sql_next(p->at, &p->token);
    const char *from = p->token.text;
    while (p->token.kind != '\0' && *p->at != '\0' && strchr(",) ", *p->at) == NULL) {
        p->at++; // what a number has that is no word
    }
    snprintf(word, sizeof word, "%.*s", (int)gx_min(31, p->at - from), from);
    *number = strtod(word, &end);
    bool is_auto = gx_sql_is(&p->token, "auto");
    bool is_number = end != word && *end == '\0' && *number > 0 && *number <= most;
    *number = is_auto ? 0 : *number;
    advance(p);
    return is_auto || is_number ||
           fail(p, "lists and probe are from 1 to 65536, recall is more than 0 and at most 1");
}

/* index=ivf, index=ivf(lists=1000, probe=20, recall=0.9) */
static bool take_index(parser *p)
{
    gx_vec_index_wish *index = &p->shape->index;
    advance(p);
    advance(p);
    if (!is_at(p, "ivf")) {
        return fail(p, "the index must be ivf, as in index=ivf(lists=1000, probe=20)");
    }
    p->shape->has_index = true;
    advance(p);
    bool is_listed = is_sign(p, '('), is_first = true;
    for (; is_listed && !is_sign(p, ')'); is_first = false) {
        double number = 0;
        if (is_first || is_sign(p, ',')) {
            advance(p);
        }
        bool is_lists = is_at(p, "lists"), is_probe = is_at(p, "probe");
        if (!is_lists && !is_probe && !is_at(p, "recall")) {
            return fail(p, "an index has lists, probe and recall");
        }
        if (!take_number(p, is_lists || is_probe ? GX_IVF_LISTS_MOST : 1, &number)) {
            return false;
        }
        index->lists = is_lists ? (int64_t)number : index->lists;
        index->probe = is_probe ? (int64_t)number : index->probe;
        index->recall = is_lists || is_probe ? index->recall : number;
    }
    if (is_listed) {
        advance(p);
    }
    return true;
}

static bool take_argument(parser *p, const char *text)
{
    p->text = p->at = text;
    advance(p);
    if (is_sign(p, '+')) {
        advance(p); // vec0's auxiliary columns
    }
    if (p->token.kind != 'a' && p->token.kind != '"') {
        return fail(p, "expected a column, as in embedding f32[384]");
    }
    gx_sql_token next;
    gx_sql_next(p->at, &next);
    if (next.kind == '=') {
        bool is_metric = is_at(p, "metric") || is_at(p, "distance_metric");
        bool is_chunks = is_at(p, "chunk_size"), is_index = is_at(p, "index");
        if (!is_metric && !is_chunks && !is_index) {
            return fail(p, "no such option: there are metric, index and chunk_size");
        }
        bool is_good = is_metric ? take_metric(p, &p->metric) : true;
        is_good = is_index ? take_index(p) : is_chunks ? take_chunks(p) : is_good;
        if (!is_good) {
            return false;
        }
        return p->token.kind == '\0' || fail(p, "something stands behind the option's value");
    }
    const char *name = keep(p);
    advance(p);
    return take_column(p, name);
}

// The whole ---------------------------------------------------------------------------------------

/* What is known when all arguments are: metrics, and how matrices are called. */
static bool finish(parser *p, const char *table)
{
    gx_vec_shape *shape = p->shape;
    for (int c = 0; c < shape->vectors; c++) {
        gx_vec_column *column = &shape->vector[c];
        p->text = column->name;
        if (column->metric < 0) {
            column->metric = p->metric >= 0 ? p->metric : GX_METRIC_NAME_L2;
            bool is_given = p->metric >= 0;
            column->metric = column->is_bit && !is_given ? GX_METRIC_NAME_HAMMING : column->metric;
        }
        if (column->is_bit != gx_measures[column->metric].is_binary) {
            return fail(p, "bits have the metric hamming, and other numbers do not");
        }
        if (snprintf(column->matrix, sizeof column->matrix, "%s_%s", table, column->name) >=
            (int)sizeof column->matrix) {
            return fail(p, "the names of table and column have more than 254 bytes");
        }
    }
    p->text = table;
    shape->has_probe = true;
    shape->has_plan = shape->columns < GX_VEC_PLAN_COLUMNS;
    for (int c = 0; c < shape->columns; c++) { // a table of an earlier gx may have one
        shape->has_probe &= sqlite3_stricmp(shape->column[c].name, "probe") != 0;
        shape->has_plan &= sqlite3_stricmp(shape->column[c].name, "gx_plan") != 0;
    }
    return shape->vectors > 0 || fail(p, "there is no vector column, as embedding f32[384] is one");
}

gx_code gx_vec_declare(gx_vec_shape *shape, int argc, const char *const *argv, gx_err *err)
{
    enum { FIRST = 3, SPARE = 16 };
    size_t bytes = 1;
    *shape = (gx_vec_shape){.key = NULL};
    for (int k = FIRST; k < argc; k++) {
        bytes += 2 * strlen(argv[k]) + SPARE;
    }
    shape->text = sqlite3_malloc64(bytes);
    if (shape->text == NULL) {
        return gx_fail_nomem(err, bytes, "declaration");
    }
    parser p = {.shape = shape, .free = shape->text, .metric = -1, .err = err};
    for (int k = FIRST; k < argc; k++) {
        if (!take_argument(&p, argv[k])) {
            return GX_ARG;
        }
    }
    if (!finish(&p, argv[2])) {
        return GX_ARG;
    }
    shape->key = shape->key == NULL ? "rowid" : shape->key;
    shape->tables.column = shape->name;
    shape->tables.type = shape->type;
    shape->tables.vectors = shape->vectors;
    return GX_OK;
}

void gx_vec_shape_clear(gx_vec_shape *shape)
{
    sqlite3_free(shape->text);
    shape->text = NULL;
}

char *gx_vec_declaration(const gx_vec_shape *shape)
{
    sqlite3_str *out = sqlite3_str_new(NULL);
    sqlite3_str_appendf(out, "CREATE TABLE x(\"%w\" %s", shape->key,
                        shape->is_text_key ? "TEXT" : "INTEGER");
    for (int c = 0; c < shape->columns; c++) {
        bool is_vector = shape->column[c].vector >= 0;
        sqlite3_str_appendf(out, ", \"%w\" %s", shape->column[c].name,
                            is_vector ? "" : shape->type[shape->column[c].plain]);
    }
    sqlite3_str_appendf(out, ", distance REAL HIDDEN, score REAL HIDDEN, k INTEGER HIDDEN%s%s)",
                        shape->has_probe ? ", probe INTEGER HIDDEN" : "",
                        shape->has_plan ? ", gx_plan TEXT HIDDEN" : "");
    return sqlite3_str_finish(out);
}
