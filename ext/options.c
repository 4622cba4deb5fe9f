/*
** Options: the trailing JSON object of a call, '{"replace":true,"dtype":"f32"}'.
**
** cJSON reads the object; a function's table (gx_option) says which keys there are, of what type,
** and where in the body's struct each goes.  The object is small and lives for the call's beginning
** only. Nothing is written to the struct before the key is known and the value has its type, but
** earlier keys have been written when a later one is refused: the call has failed then.
*/
#include "gx_ext.h"

#include "../core/base/decimal.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A value as it stands in messages: 3, "text", true, a list. */
static const char *show(const cJSON *item, char shown[GX_SHOWN_BYTES])
{
    char part[GX_SHOWN_BYTES];
    if (cJSON_IsNumber(item)) {
        gx_decimal_format(item->valuedouble, part);
        size_t length = strlen(part);
        bool is_whole = length > 2 && strcmp(part + length - 2, ".0") == 0;
        snprintf(shown, GX_SHOWN_BYTES, "%.*s", (int)(is_whole ? length - 2 : length), part);
    } else if (cJSON_IsString(item)) {
        gx_text_show(item->valuestring, strlen(item->valuestring), part);
        snprintf(shown, GX_SHOWN_BYTES, "\"%.60s\"", part);
    } else {
        const char *word = cJSON_IsTrue(item)    ? "true"
                           : cJSON_IsFalse(item) ? "false"
                           : cJSON_IsArray(item) ? "a list"
                                                 : "an object";
        snprintf(shown, GX_SHOWN_BYTES, "%s", word);
    }
    return shown;
}

// Ranges ------------------------------------------------------------------------------------------

/* What stands behind the name in a key, "[0,1)" of "tol=[0,1)"; "": nothing. */
static const char *behind_name(const gx_option *option)
{
    const char *at = option->key + strcspn(option->key, "=");
    return *at == '=' ? at + 1 : at;
}

/* Is x in the range "[0,1)"?  A bracket: the end is in it.  Else words: what must be. */
static bool is_within(const char *range, double x, char words[GX_WORDS_BYTES])
{
    const char *end = range + strlen(range), *at = end;
    double least = 0, most = 0;
    if (*range == '\0') {
        return true;
    }
    gx_decimal_parse(range + 1, end, &at, &least);
    gx_decimal_parse(at + 1, end, &at, &most);
    bool is_above = *range == '(', is_below = *at == ')';
    if ((is_above ? x > least : x >= least) && (is_below ? x < most : x <= most)) {
        return true;
    }
    if (!isfinite(least)) {
        snprintf(words, GX_WORDS_BYTES, "finite");
    } else if (!is_above && !is_below && isfinite(most)) {
        snprintf(words, GX_WORDS_BYTES, "%.10g to %.10g", least, most);
    } else {
        int used = snprintf(words, GX_WORDS_BYTES, "%s %.10g", is_above ? "above" : "at least",
                            least);
        snprintf(words + used, (size_t)(GX_WORDS_BYTES - used),
                 isfinite(most) ? " and below %.10g" : is_below ? " and finite" : "", most);
    }
    return false;
}

// One value ---------------------------------------------------------------------------------------

static bool take_bool(const cJSON *item, bool *out)
{
    if (cJSON_IsBool(item)) {
        *out = cJSON_IsTrue(item);
        return true;
    }
    *out = item->valuedouble != 0;
    return cJSON_IsNumber(item) && (item->valuedouble == 0 || item->valuedouble == 1);
}

static bool take_int(const cJSON *item, int64_t *out)
{
    double number = item->valuedouble;
    if (!cJSON_IsNumber(item) || !(fabs(number) <= 0x1p53) || number != floor(number)) {
        return false;
    }
    *out = (int64_t)number;
    return true;
}

static bool take_steps(const cJSON *item, int64_t *out)
{
    if (cJSON_IsBool(item)) {
        *out = cJSON_IsTrue(item) ? GX_OPT_STEPS_ALL : 0;
        return true;
    }
    return take_int(item, out);
}

static bool take_real(const cJSON *item, double *out)
{
    if (cJSON_IsNumber(item)) {
        *out = item->valuedouble;
        return true;
    }
    if (!cJSON_IsString(item)) {
        return false;
    }
    const char *end = item->valuestring + strlen(item->valuestring), *stop;
    return gx_decimal_parse(item->valuestring, end, &stop, out) && stop == end;
}

static bool take_scalar(const cJSON *item, gx_scalar *out)
{
    if (cJSON_IsArray(item)) {
        const cJSON *re = item->child, *im = re == NULL ? NULL : re->next;
        return im != NULL && im->next == NULL && take_real(re, &out->re) && take_real(im, &out->im);
    }
    if (cJSON_IsString(item)) {
        bool is_complex;
        return gx_decimal_parse_complex(
            item->valuestring, item->valuestring + strlen(item->valuestring), out, &is_complex);
    }
    out->im = 0;
    return take_real(item, &out->re);
}

static bool take_text(const cJSON *item, char out[64])
{
    if (!cJSON_IsString(item) || strlen(item->valuestring) >= 64) {
        return false;
    }
    memcpy(out, item->valuestring, strlen(item->valuestring) + 1);
    return true;
}

/* A destination outlives the JSON tree: the call owns a copy. */
static bool take_name(gx_fn *fn, const cJSON *item, const char **out)
{
    if (!cJSON_IsString(item)) {
        return false;
    }
    size_t bytes = strlen(item->valuestring) + 1;
    char *copy = gx_fn_alloc(fn, bytes, "options");
    if (copy != NULL) {
        memcpy(copy, item->valuestring, bytes);
    }
    *out = copy;
    return copy != NULL;
}

enum { NUMBER_BYTES = 24 }; /* of a whole number as text, with what stands around it */

/* A whole number's digits; returns their end.  Lists have thousands, and printf is slow. */
static char *put_whole(char *at, int64_t number)
{
    char digit[NUMBER_BYTES];
    int count = 0;
    uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
    do {
        digit[count++] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (number < 0) {
        *at++ = '-';
    }
    while (count > 0) {
        *at++ = digit[--count];
    }
    return at;
}

/* Bytes that a text, a whole number, or a list of these takes as a text; 0: it is none of them. */
static size_t list_bytes(const cJSON *item, bool takes_texts)
{
    int64_t number;
    if (!cJSON_IsArray(item)) {
        return cJSON_IsString(item) && takes_texts ? strlen(item->valuestring) + 1
               : take_int(item, &number)           ? NUMBER_BYTES
                                                   : 0;
    }
    size_t sum = 3; // brackets, and a separator
    for (const cJSON *part = item->child; part != NULL; part = part->next) {
        size_t bytes = list_bytes(part, takes_texts);
        if (bytes == 0 || (takes_texts && cJSON_IsArray(part))) {
            return 0;
        }
        sum += bytes;
    }
    return sum;
}

/* The text; returns its end.  Lists have brackets where these are not texts. */
static char *put_list(char *at, const cJSON *item, char separator, bool has_brackets)
{
    if (cJSON_IsString(item)) {
        size_t length = strlen(item->valuestring);
        memcpy(at, item->valuestring, length);
        return at + length;
    }
    if (!cJSON_IsArray(item)) {
        return put_whole(at, (int64_t)item->valuedouble);
    }
    if (has_brackets) {
        *at++ = '[';
    }
    for (const cJSON *part = item->child; part != NULL; part = part->next) {
        at = put_list(at, part, separator, has_brackets);
        if (part->next != NULL) {
            *at++ = separator;
        }
    }
    if (has_brackets) {
        *at++ = ']';
    }
    return at;
}

/*
** [0,2,"5:9"] as the text 0,2,5:9, a number or a text alone being a list of one; or a list of whole
** numbers, or of lists of these, as the matrix literal that it is.
*/
static bool take_list(gx_fn *fn, const cJSON *item, char separator, bool is_matrix,
                      const char **out)
{
    size_t bytes = list_bytes(item, !is_matrix);
    char *text = bytes == 0 ? NULL : gx_fn_alloc(fn, bytes + 1, "options");
    if (text != NULL) {
        *put_list(text, item, separator, is_matrix) = '\0';
    }
    *out = text;
    return text != NULL;
}

/* Write the value to its field; false: it has not the type, or is out of its range. */
static bool take_field(gx_fn *fn, const gx_option *option, const cJSON *item, void *field,
                       char range[GX_WORDS_BYTES])
{
    const char *more = behind_name(option);
    switch (option->type) {
    case GX_OPT_BOOL:
        return take_bool(item, field);
    case GX_OPT_INT:
        return take_int(item, field) && is_within(more, (double)*(int64_t *)field, range);
    case GX_OPT_STEPS:
        return take_steps(item, field);
    case GX_OPT_REAL:
        return take_real(item, field) && is_within(more, *(double *)field, range);
    case GX_OPT_SCALAR:
        return take_scalar(item, field);
    case GX_OPT_TEXT:
        return take_text(item, field);
    case GX_OPT_WORD:
        *(int *)field = cJSON_IsString(item) ? gx_word_of(more, item->valuestring) : -1;
        gx_words_list(more, range);
        return *(int *)field >= 0;
    case GX_OPT_DTYPE:
        return cJSON_IsString(item) && gx_dtype_parse(item->valuestring, field);
    case GX_OPT_NAME:
        return take_name(fn, item, field);
    case GX_OPT_LIST:
        return take_list(fn, item, ',', false, field);
    case GX_OPT_TEXTS:
        return take_list(fn, item, '\n', false, field);
    case GX_OPT_MATRIX:
        return cJSON_IsArray(item) ? take_list(fn, item, ',', true, field)
                                   : take_name(fn, item, field);
    case GX_OPT_END:
        break;
    }
    return false;
}

/* The same, and where that fails words for what it must be. */
static bool take(gx_fn *fn, const gx_option *option, const cJSON *item, char *out)
{
    static const char *const wanted[GX_OPT_END] = {
        [GX_OPT_BOOL] = "true or false",
        [GX_OPT_INT] = "an integer",
        [GX_OPT_STEPS] = "true, false or an integer",
        [GX_OPT_REAL] = "a number",
        [GX_OPT_SCALAR] = "a number, [re,im] or \"1+2i\"",
        [GX_OPT_TEXT] = "a text of at most 63 bytes",
        [GX_OPT_DTYPE] = "one of ",
        [GX_OPT_NAME] = "a name",
        [GX_OPT_LIST] = "a list of whole numbers",
        [GX_OPT_TEXTS] = "a text or a list of texts",
        [GX_OPT_MATRIX] = "a name or a list of whole numbers",
    };
    char range[GX_WORDS_BYTES] = "", shown[GX_SHOWN_BYTES];
    bool is_good = take_field(fn, option, item, out + option->offset, range);
    if (!is_good && gx_ok(&fn->run)) {
        gx_fn_fail(fn, "option \"%.*s\" must be %s%s, not %s", (int)strcspn(option->key, "="),
                   option->key, range[0] != '\0' ? range : wanted[option->type],
                   option->type == GX_OPT_DTYPE ? gx_dtype_names() : "", show(item, shown));
    }
    if (is_good && option->set_offset != 0) {
        *(bool *)(out + option->set_offset) = true;
    }
    return is_good;
}

// The object --------------------------------------------------------------------------------------

/* What every destination takes, into fn->dest. */
static const gx_option dest_keys[] = {
    {"dtype", GX_OPT_DTYPE, offsetof(gx_dest, dtype), offsetof(gx_dest, has_dtype)},
    {"saturate", GX_OPT_BOOL, offsetof(gx_dest, saturate), 0},
    {"replace", GX_OPT_BOOL, offsetof(gx_dest, replace), 0},
    {NULL, GX_OPT_END, 0, 0},
};

static const gx_option *const no_keys = &dest_keys[3];

/* The option of that number: the function's own, then those of its destination; NULL: no more. */
static const gx_option *option_of(const gx_fn *fn, const gx_option *spec, int index)
{
    const gx_option *more = (fn->def->facts & GX_DEST_KEYS) != 0 ? dest_keys : no_keys;
    const gx_option *o = spec == NULL ? no_keys : spec;
    for (; o->type != GX_OPT_END && index > 0; o++) {
        index--;
    }
    o = o->type == GX_OPT_END ? more + index : o;
    return o->type == GX_OPT_END ? NULL : o;
}

static bool refuse_key(gx_fn *fn, const gx_option *spec, const char *key)
{
    char known[256], shown[GX_SHOWN_BYTES];
    size_t n = 0;
    const gx_option *o = option_of(fn, spec, 0);
    known[0] = '\0';
    for (int k = 1; o != NULL && n < sizeof known; k++) {
        const gx_option *next = option_of(fn, spec, k);
        const char *comma = k == 1 ? "" : next == NULL ? " and " : ", ";
        n += (size_t)snprintf(known + n, sizeof known - n, "%s\"%.*s\"", comma,
                              (int)strcspn(o->key, "="), o->key);
        o = next;
    }
    return gx_fn_fail(fn, "unknown option \"%s\": %s%s", gx_text_show(key, strlen(key), shown),
                      n == 0 ? "there are none" : "the known ones are ", known);
}

static bool take_member(gx_fn *fn, const gx_option *spec, const cJSON *first, const cJSON *item,
                        void *out)
{
    for (const cJSON *earlier = first; earlier != item; earlier = earlier->next) {
        if (strcmp(earlier->string, item->string) == 0) {
            char shown[GX_SHOWN_BYTES];
            return gx_fn_fail(fn, "option \"%s\" is given twice",
                              gx_text_show(item->string, strlen(item->string), shown));
        }
    }
    size_t bytes = strlen(item->string);
    const gx_option *o;
    for (int k = 0; (o = option_of(fn, spec, k)) != NULL; k++) {
        if (strncmp(o->key, item->string, bytes) == 0 && strchr("=", o->key[bytes]) != NULL) {
            bool is_dest = o >= dest_keys && o < no_keys;
            return cJSON_IsNull(item) || take(fn, o, item, is_dest ? (void *)&fn->dest : out);
        }
    }
    return refuse_key(fn, spec, item->string);
}

cJSON *gx_json_parse(const char *text, size_t bytes, const char **rest)
{
    // cJSON's strings end at a NUL, written out or escaped: refused before it could cut one short.
    static const char escaped_nul[] = "\\u0000";
    const char *stop = text, *end = text + bytes;
    *rest = NULL;
    if (memchr(text, '\0', bytes) != NULL ||
        memmem(text, bytes, escaped_nul, strlen(escaped_nul)) != NULL) {
        return NULL;
    }
    cJSON *tree = cJSON_ParseWithLengthOpts(text, bytes, &stop, false);
    if (tree == NULL) { // the text, or no memory: cJSON does not say, but memory may be back
        tree = cJSON_ParseWithLengthOpts(text, bytes, &stop, false);
    }
    *rest = stop + (tree == NULL ? 0 : strspn(stop, " \t\n\r"));
    if (tree != NULL && *rest == end) {
        return tree;
    }
    cJSON_Delete(tree);
    return NULL;
}

/* The tree of the text, or NULL with the failure reported. */
static cJSON *parse(gx_fn *fn, const char *text, size_t bytes)
{
    const char *rest, *end = text + bytes;
    cJSON *object = gx_json_parse(text, bytes, &rest);
    if (object != NULL) {
        return object;
    }
    if (rest == NULL) {
        gx_fn_fail(fn, "options have a NUL character in them");
        return NULL;
    }
    gx_err err = {0};
    if (gx_literal_braces("the last argument", text, bytes, &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
        return NULL;
    }
    const char *near = rest - text > 8 ? rest - 8 : text; // with what stands before it
    while (near > text && ((unsigned char)*near & 0xC0) == 0x80) {
        near--;
    }
    char shown[GX_SHOWN_BYTES];
    gx_fn_fail(fn, "options are not valid JSON near '%s'",
               gx_text_show(near, (size_t)(end - near), shown));
    return NULL;
}

/* The last place that a function has is for options: NULL means none, other things are mistakes. */
static bool leave_no_rest(gx_fn *fn, const gx_option *spec)
{
    if (option_of(fn, spec, 0) == NULL || fn->argc != fn->def->max_args) {
        return true;
    }
    sqlite3_value *last = fn->argv[--fn->argc];
    char shown[GX_SHOWN_BYTES];
    if (sqlite3_value_type(last) == SQLITE_NULL) {
        return true;
    }
    gx_arg_show(last, shown);
    for (const gx_option *o = spec == NULL ? no_keys : spec; o->type != GX_OPT_END; o++) {
        if (o->key[0] == 'k' && strcspn(o->key, "=") == 1 &&
            sqlite3_value_type(last) == SQLITE_INTEGER) {
            return gx_fn_fail(fn, "options must be a JSON object, '{\"k\":%s}', not %s", shown,
                              shown);
        }
    }
    return gx_fn_fail(fn, "options must be a JSON object '{...}', not %s", shown);
}

/* The destination of a function whose row says which argument that is. */
static bool take_dest(gx_fn *fn)
{
    int index = gx_dest_index(fn->def);
    return index < 0 || (fn->def->facts & GX_DEST_LATE) != 0 || gx_fn_dest(fn, index, &fn->dest);
}

bool gx_fn_options(gx_fn *fn, const gx_option *spec, void *out)
{
    if (fn->argc == 0 || !gx_arg_begins(fn->argv[fn->argc - 1], '{')) {
        return gx_ok(&fn->run) && leave_no_rest(fn, spec) && take_dest(fn);
    }
    sqlite3_value *last = fn->argv[--fn->argc];
    const char *text = (const char *)sqlite3_value_text(last);
    cJSON *object = parse(fn, text, (size_t)sqlite3_value_bytes(last));
    if (object == NULL) {
        return false;
    }
    bool is_good = true;
    for (const cJSON *item = object->child; item != NULL && is_good; item = item->next) {
        is_good = take_member(fn, spec, object->child, item, out);
    }
    cJSON_Delete(object);
    return is_good && take_dest(fn);
}
