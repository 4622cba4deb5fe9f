/*
** gx_block and gx_lazy: matrices made of other stored matrices, which stay where they are
** (core/mat/composite.h): blocks as JSON, anything as an expression (layout_text.h).
*/
#include "layout_text.h"

#include "../core/base/decimal.h"

#include <cjson/cJSON.h>
#include <string.h>

// What a part is ----------------------------------------------------------------------------------

static gx_code none(int64_t r, int64_t c, gx_err *err)
{
    return gx_fail(err, GX_ARG,
                   "part (%lld, %lld) is none: a name as \"A\", \"A.T\", \"A.H\" or \"2*A\", an "
                   "object {\"name\", \"op\", \"factor\"}, or a number",
                   (long long)r, (long long)c);
}

static gx_code take_name(gx_term *part, const char *name, size_t bytes, gx_err *err)
{
    if (bytes == 0 || bytes > GX_NAME_MAX) {
        return gx_fail(err, GX_ARG, "the name of a part has %zu bytes, not 1 to %d", bytes,
                       GX_NAME_MAX);
    }
    part->kind = GX_TERM_MATRIX;
    memcpy(part->name, name, bytes);
    part->name[bytes] = '\0';
    return GX_OK;
}

/* ".T", ".H", "conj", or nothing. */
static bool take_op(gx_term *part, const char *op)
{
    part->is_turned = strcmp(op, "T") == 0 || strcmp(op, "H") == 0;
    part->is_conjugated = strcmp(op, "conj") == 0 || strcmp(op, "H") == 0;
    return part->is_turned || part->is_conjugated || op[0] == '\0';
}

/* A text that is a name, or says more: then no matrix may be called so. */
static gx_code take_text(gx_store *store, const char *text, gx_term *part, gx_err *err)
{
    const char *at = text, *star = strchr(text, '*'), *stop;
    size_t bytes = strlen(text);
    bool is_minus = text[0] == '-', found = false;
    double factor = 1;
    gx_meta meta;
    at += is_minus;
    if (star != NULL && gx_decimal_parse(at, star, &stop, &factor) && stop == star) {
        at = star + 1;
    } else {
        factor = 1;
    }
    part->factor.re = is_minus ? -factor : factor;
    bytes -= (size_t)(at - text);
    bool has_op =
        bytes > 2 && at[bytes - 2] == '.' && take_op(part, at + bytes - 1) && part->is_turned;
    GX_TRY(take_name(part, at, bytes - (has_op ? 2 : 0), err));
    if (at == text && !has_op) {
        return GX_OK;
    }
    GX_TRY(gx_store_lookup(store, text, &meta, &found, err));
    return !found ? GX_OK
                  : gx_fail(err, GX_ARG,
                            "'%s' is the name of a matrix, and made of the matrix '%s': write "
                            "{\"name\":\"%s\"} for the one, {\"name\":\"%s\", \"op\":\"T\", "
                            "\"factor\":2} and the like for the other",
                            text, part->name, text, part->name);
}

static bool take_factor(const cJSON *item, gx_scalar *factor)
{
    const cJSON *re = cJSON_GetArrayItem(item, 0), *im = cJSON_GetArrayItem(item, 1);
    if (cJSON_IsNumber(item)) {
        factor->re = item->valuedouble;
        return true;
    }
    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) != 2 || !cJSON_IsNumber(re) ||
        !cJSON_IsNumber(im)) {
        return false;
    }
    *factor = (gx_scalar){re->valuedouble, im->valuedouble};
    return true;
}

static gx_code take_object(const cJSON *object, gx_term *part, gx_err *err)
{
    const cJSON *item, *name = NULL;
    cJSON_ArrayForEach(item, object)
    {
        bool is_right = false;
        if (strcmp(item->string, "name") == 0) {
            name = item;
            is_right = cJSON_IsString(item);
        } else if (strcmp(item->string, "op") == 0) {
            is_right = cJSON_IsString(item) && take_op(part, item->valuestring);
        } else if (strcmp(item->string, "factor") == 0) {
            is_right = take_factor(item, &part->factor);
        }
        if (!is_right) {
            return gx_fail(err, GX_ARG,
                           "a part is {\"name\":\"A\", \"op\":\"T\", \"H\" or \"conj\", "
                           "\"factor\":2 or [re, im]}: its '%.40s' is not that",
                           item->string);
        }
    }
    return name == NULL ? gx_fail(err, GX_ARG, "a part has no \"name\"")
                        : take_name(part, name->valuestring, strlen(name->valuestring), err);
}

static gx_code take_part(gx_store *store, const cJSON *item, int64_t r, int64_t c, gx_term *part,
                         gx_err *err)
{
    if (cJSON_IsNumber(item)) {
        part->kind = item->valuedouble == 0 ? GX_TERM_ZERO : GX_TERM_NUMBER;
        part->factor.re = item->valuedouble;
        return GX_OK;
    }
    return cJSON_IsString(item)   ? take_text(store, item->valuestring, part, err)
           : cJSON_IsObject(item) ? take_object(item, part, err)
                                  : none(r, c, err);
}

// The layout, as JSON -----------------------------------------------------------------------------

static gx_code take_layout(gx_ctx *ctx, const cJSON *rows, gx_layout *layout, gx_err *err)
{
    const cJSON *row, *item;
    int64_t across = cJSON_GetArraySize(cJSON_GetArrayItem(rows, 0)), r = 0;
    gx_term *part;
    cJSON_ArrayForEach(row, rows)
    {
        if (!cJSON_IsArray(row) || cJSON_GetArraySize(row) != across) {
            return gx_fail(err, GX_ARG,
                           "layout is a list of rows of parts, all of one length, as in "
                           "[[\"A\",\"B\"],[\"C\",0]]");
        }
    }
    GX_TRY(gx_layout_add_block(ctx->mem, layout, cJSON_GetArraySize(rows), across, err));
    cJSON_ArrayForEach(row, rows)
    {
        int64_t c = 0;
        cJSON_ArrayForEach(item, row)
        {
            GX_TRY(gx_layout_add(ctx->mem, layout, GX_TERM_ZERO, &part, err));
            GX_TRY(take_part(ctx->store, item, r, c++, part, err));
        }
        r++;
    }
    return GX_OK;
}

static gx_code read_json(gx_ctx *ctx, const char *text, gx_layout *layout, gx_err *err)
{
    const char *rest;
    cJSON *rows = gx_json_parse(text, strlen(text), &rest);
    gx_code code = cJSON_IsArray(rows)
                       ? take_layout(ctx, rows, layout, err)
                       : gx_fail(err, GX_ARG, "layout is no JSON list: [[\"A\",\"B\"],[\"C\",0]]");
    cJSON_Delete(rows);
    return code;
}

static void put_number(gx_text *text, double x)
{
    char shown[GX_DECIMAL_MAX];
    gx_decimal_format(x, shown);
    gx_text_puts(text, shown);
}

static void put_part(gx_text *text, const gx_term *part)
{
    if (part->kind != GX_TERM_MATRIX) {
        put_number(text, part->kind == GX_TERM_ZERO ? 0 : part->factor.re);
        return;
    }
    gx_text_puts(text, "{\"name\":");
    gx_text_json(text, part->name);
    if (part->is_turned || part->is_conjugated) {
        gx_text_printf(text, ",\"op\":\"%s\"",
                       !part->is_turned      ? "conj"
                       : part->is_conjugated ? "H"
                                             : "T");
    }
    if (part->factor.re != 1 || part->factor.im != 0) {
        gx_text_puts(text, ",\"factor\":[");
        put_number(text, part->factor.re);
        gx_text_puts(text, ",");
        put_number(text, part->factor.im);
        gx_text_puts(text, "]");
    }
    gx_text_puts(text, "}");
}

static void put_json(gx_text *text, const gx_layout *layout)
{
    const gx_term *block = layout->term;
    for (int64_t p = 0; p < block->operands; p++) {
        gx_text_puts(text, p == 0 ? "[[" : p % block->across == 0 ? "],[" : ",");
        put_part(text, &block[1 + p]);
    }
    gx_text_puts(text, "]]");
}

// The functions -----------------------------------------------------------------------------------

/* Can gx_block() say it: one block, of matrices and numbers? */
static bool is_blocks(const gx_layout *layout)
{
    const gx_term *t = layout->term;
    bool is_it = t->kind == GX_TERM_BLOCK && !t->is_turned && t->factor.re == 1 &&
                 t->factor.im == 0 && layout->terms == 1 + t->operands;
    for (int64_t k = 1; k < layout->terms && is_it; k++) {
        is_it = t[k].kind == GX_TERM_MATRIX || t[k].kind == GX_TERM_ZERO ||
                (t[k].kind == GX_TERM_NUMBER && t[k].factor.im == 0);
    }
    return is_it;
}

static void show(gx_fn *fn, const char *name, bool is_json)
{
    gx_meta meta;
    gx_layout l = {0};
    gx_ctx *ctx = fn->ctx;
    if (!gx_fn_check(fn, gx_store_find_all(ctx->store, name, &meta, &fn->err))) {
        return;
    }
    if (!meta.is_composite) {
        gx_fn_fail(fn, "'%s' is a matrix of its own, not a composite", name);
        return;
    }
    if (!gx_fn_check(fn, gx_layout_load(ctx->store, ctx->mem, &meta, &l, &fn->err))) {
        return;
    }
    if (is_json && !is_blocks(&l)) {
        gx_fn_fail(fn, "'%s' is more than blocks: gx_lazy('%s') shows it", name, name);
    } else {
        gx_text text;
        gx_text_begin(&text, &fn->run);
        (is_json ? put_json : gx_layout_put_text)(&text, &l);
        gx_fn_result_text(fn, &text);
        if (is_json) {
            gx_fn_result_is_json(fn);
        }
    }
    gx_layout_clear(&l, ctx->mem);
}

static const gx_option composite_keys[] = {
    {"replace", GX_OPT_BOOL, offsetof(gx_dest, replace), 0},
    {NULL, GX_OPT_END, 0, 0},
};

/* Store what the second argument says, or show what is stored. */
static void composite(gx_fn *fn, bool is_json)
{
    const char *name, *text;
    gx_layout layout = {0};
    if (!gx_fn_options(fn, composite_keys, &fn->dest) || !gx_fn_text(fn, 0, "name", &name)) {
        return;
    }
    if (!gx_fn_has(fn, 1)) {
        show(fn, name, is_json);
        return;
    }
    fn->dest.name = name;
    if (gx_fn_text(fn, 1, is_json ? "layout" : "expression", &text) && gx_fn_changes(fn, 0) &&
        gx_fn_check(
            fn, (is_json ? read_json : gx_layout_read_text)(fn->ctx, text, &layout, &fn->err)) &&
        gx_fn_check(fn, gx_composite_store(&fn->run, &fn->dest, &layout))) {
        sqlite3_result_text(fn->sql, name, -1, SQLITE_TRANSIENT);
    }
    gx_layout_clear(&layout, fn->ctx->mem);
}

/* gx_block(name, layout[, options]): the name.  gx_block(name): the layout. */
static void block(gx_fn *fn)
{
    composite(fn, true);
}

/* gx_lazy(name, expression[, options]): the name.  gx_lazy(name): the expression. */
static void lazy(gx_fn *fn)
{
    composite(fn, false);
}

const gx_function gx_functions_composite[] = {
    {"gx_block", 1, 3, 0, block, 0},
    {"gx_lazy", 1, 3, 0, lazy, 0},
    {.name = NULL},
};
