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

/* An object text: the first character that is no blank is '{'. */
static bool is_object(sqlite3_value *value, const char **text, size_t *bytes)
{
    if (sqlite3_value_type(value) != SQLITE_TEXT) {
        return false;
    }
    *text = (const char *)sqlite3_value_text(value);
    *bytes = *text == NULL ? 0 : (size_t)sqlite3_value_bytes(value);
    size_t i = 0;
    while (i < *bytes && strchr(" \t\n\r", (*text)[i]) != NULL && (*text)[i] != '\0') {
        i++;
    }
    return i < *bytes && (*text)[i] == '{';
}

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

/* Memory that lives as long as the call; NULL when there is none. */
static char *own_text(gx_fn *fn, size_t bytes)
{
    gx_err err = {0};
    void *text;
    if (gx_mem_alloc(fn->ctx->mem, bytes, "options", &text, &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
        return NULL;
    }
    return gx_fn_own(fn, text) ? text : NULL;
}

/* A destination outlives the JSON tree: the call owns a copy. */
static bool take_name(gx_fn *fn, const cJSON *item, const char **out)
{
    if (!cJSON_IsString(item)) {
        return false;
    }
    size_t bytes = strlen(item->valuestring) + 1;
    char *copy = own_text(fn, bytes);
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

/* [0,2,"5:9"] as the text 0,2,5:9; a number or a text alone is a list of one. */
static bool take_list(gx_fn *fn, const cJSON *item, char separator, const char **out)
{
    bool is_list = cJSON_IsArray(item);
    const cJSON *first = is_list ? item->child : item;
    size_t bytes = 1;
    for (const cJSON *part = first; part != NULL; part = is_list ? part->next : NULL) {
        int64_t number;
        if (!cJSON_IsString(part) && !take_int(part, &number)) {
            return false;
        }
        bytes += cJSON_IsString(part) ? strlen(part->valuestring) + 1 : NUMBER_BYTES;
    }
    char *text = own_text(fn, bytes), *at = text;
    if (text == NULL) {
        return false;
    }
    for (const cJSON *part = first; part != NULL; part = is_list ? part->next : NULL) {
        if (part != first) {
            *at++ = separator;
        }
        if (cJSON_IsString(part)) {
            size_t length = strlen(part->valuestring);
            memcpy(at, part->valuestring, length);
            at += length;
        } else {
            at = put_whole(at, (int64_t)part->valuedouble);
        }
    }
    *at = '\0';
    *out = text;
    return true;
}

/* A name; or a list of whole numbers, or of such lists, as the matrix literal that it is. */
static bool take_matrix(gx_fn *fn, const cJSON *item, const char **out)
{
    size_t bytes = 3;
    int64_t number;
    if (!cJSON_IsArray(item)) {
        return take_name(fn, item, out);
    }
    for (const cJSON *row = item->child; row != NULL; row = row->next) {
        const cJSON *part = cJSON_IsArray(row) ? row->child : row;
        bytes += NUMBER_BYTES;
        for (; part != NULL; part = part == row ? NULL : part->next) {
            bytes += NUMBER_BYTES;
            if (!take_int(part, &number)) {
                return false;
            }
        }
    }
    char *text = own_text(fn, bytes), *at = text;
    if (text == NULL) {
        return false;
    }
    *at++ = '[';
    for (const cJSON *row = item->child; row != NULL; row = row->next) {
        bool is_list = cJSON_IsArray(row);
        const cJSON *part = is_list ? row->child : row;
        if (is_list) {
            *at++ = '[';
        }
        for (; part != NULL; part = is_list ? part->next : NULL) {
            at = put_whole(at, (int64_t)part->valuedouble);
            if (is_list && part->next != NULL) {
                *at++ = ',';
            }
        }
        if (is_list) {
            *at++ = ']';
        }
        if (row->next != NULL) {
            *at++ = ',';
        }
    }
    memcpy(at, "]", 2);
    *out = text;
    return true;
}

/* Write the value to its field; where it has not the type, say which it must be. */
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
    void *field = out + option->offset;
    bool is_good = false;
    switch (option->type) {
    case GX_OPT_BOOL:
        is_good = take_bool(item, field);
        break;
    case GX_OPT_INT:
        is_good = take_int(item, field);
        break;
    case GX_OPT_STEPS:
        is_good = take_steps(item, field);
        break;
    case GX_OPT_REAL:
        is_good = take_real(item, field);
        break;
    case GX_OPT_SCALAR:
        is_good = take_scalar(item, field);
        break;
    case GX_OPT_TEXT:
        is_good = take_text(item, field);
        break;
    case GX_OPT_DTYPE:
        is_good = cJSON_IsString(item) && gx_dtype_parse(item->valuestring, field);
        break;
    case GX_OPT_NAME:
        is_good = take_name(fn, item, field);
        break;
    case GX_OPT_LIST:
        is_good = take_list(fn, item, ',', field);
        break;
    case GX_OPT_TEXTS:
        is_good = take_list(fn, item, '\n', field);
        break;
    case GX_OPT_MATRIX:
        is_good = take_matrix(fn, item, field);
        break;
    case GX_OPT_END:
        break;
    }
    if (!is_good && gx_ok(&fn->run)) {
        char shown[GX_SHOWN_BYTES];
        bool is_dtype = option->type == GX_OPT_DTYPE;
        gx_fn_fail(fn, "option \"%s\" must be %s%s, not %s", option->key, wanted[option->type],
                   is_dtype ? gx_dtype_names() : "", show(item, shown));
    }
    if (is_good && option->set_offset != 0) {
        *(bool *)(out + option->set_offset) = true;
    }
    return is_good;
}

// The object --------------------------------------------------------------------------------------

static bool refuse_key(gx_fn *fn, const gx_option *spec, const char *key)
{
    char known[256], shown[GX_SHOWN_BYTES];
    size_t n = 0;
    known[0] = '\0';
    for (const gx_option *o = spec; o->type != GX_OPT_END && n < sizeof known; o++) {
        const char *comma = o == spec ? "" : (o + 1)->type == GX_OPT_END ? " and " : ", ";
        n += (size_t)snprintf(known + n, sizeof known - n, "%s\"%s\"", comma, o->key);
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
    for (const gx_option *o = spec; o->type != GX_OPT_END; o++) {
        if (strcmp(o->key, item->string) == 0) {
            return cJSON_IsNull(item) || take(fn, o, item, out);
        }
    }
    return refuse_key(fn, spec, item->string);
}

/* The tree of the text, or NULL with the failure reported. */
static cJSON *parse(gx_fn *fn, const char *text, size_t bytes)
{
    // cJSON's strings end at a NUL, written out or escaped: refused before it could cut one short.
    static const char escaped_nul[] = "\\u0000";
    if (memchr(text, '\0', bytes) != NULL ||
        memmem(text, bytes, escaped_nul, strlen(escaped_nul)) != NULL) {
        gx_fn_fail(fn, "options have a NUL character in them");
        return NULL;
    }
    const char *stop = text, *end = text + bytes;
    cJSON *object = cJSON_ParseWithLengthOpts(text, bytes, &stop, false);
    if (object == NULL) { // the text, or no memory: cJSON does not say, but memory may be back
        object = cJSON_ParseWithLengthOpts(text, bytes, &stop, false);
    }
    const char *rest = stop + (object == NULL ? 0 : strspn(stop, " \t\n\r"));
    if (object != NULL && rest == end) {
        return object;
    }
    cJSON_Delete(object);
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
    if (spec == NULL || fn->argc != fn->def->max_args) {
        return true;
    }
    sqlite3_value *last = fn->argv[--fn->argc];
    char shown[GX_SHOWN_BYTES];
    if (sqlite3_value_type(last) == SQLITE_NULL) {
        return true;
    }
    gx_arg_show(last, shown);
    for (const gx_option *o = spec; o->type != GX_OPT_END; o++) {
        if (strcmp(o->key, "k") == 0 && sqlite3_value_type(last) == SQLITE_INTEGER) {
            return gx_fn_fail(fn, "options must be a JSON object, '{\"k\":%s}', not %s", shown,
                              shown);
        }
    }
    return gx_fn_fail(fn, "options must be a JSON object '{...}', not %s", shown);
}

const gx_option gx_dest_keys[] = {
    {"dtype", GX_OPT_DTYPE, offsetof(gx_dest, dtype), offsetof(gx_dest, has_dtype)},
    {"saturate", GX_OPT_BOOL, offsetof(gx_dest, saturate), 0},
    {"replace", GX_OPT_BOOL, offsetof(gx_dest, replace), 0},
    {NULL, GX_OPT_END, 0, 0},
};

bool gx_fn_options(gx_fn *fn, const gx_option *spec, void *out)
{
    static const gx_option none[] = {{.type = GX_OPT_END}};
    const char *text;
    size_t bytes;
    if (fn->argc == 0 || !is_object(fn->argv[fn->argc - 1], &text, &bytes)) {
        return gx_ok(&fn->run) && leave_no_rest(fn, spec);
    }
    fn->argc--;
    cJSON *object = parse(fn, text, bytes);
    if (object == NULL) {
        return false;
    }
    bool is_good = true;
    for (const cJSON *item = object->child; item != NULL && is_good; item = item->next) {
        is_good = take_member(fn, spec == NULL ? none : spec, object->child, item, out);
    }
    cJSON_Delete(object);
    return is_good;
}
