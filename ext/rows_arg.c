/*
** Rows as an argument, and the names of metrics: see rows_arg.h.
**
** Raw numbers are used where they lie when their address fits, else copied once.
*/
#include "rows_arg.h"

#include "look.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* stated: GX_DTYPE_COUNT where the statement does not say. */
static bool take_raw(gx_fn *fn, const gx_raw *raw, const void *data, gx_dtype stated, gx_rows *out)
{
    gx_dtype dtype = stated;
    gx_err err = {0};
    if (stated == GX_DTYPE_COUNT && gx_raw_dtype(raw, &dtype, &err) != GX_OK) {
        gx_run_fail(&fn->run, &err);
        return false;
    }
    int64_t cols = raw->cols;
    size_t row = (size_t)cols * gx_dtype_bytes(dtype);
    if (row == 0 || raw->bytes % row != 0) {
        return gx_fn_fail(fn,
                          "%s is a blob of %zu bytes, no rows of %" PRId64
                          " %s numbers (%zu bytes each)",
                          raw->label, raw->bytes, cols, gx_dtype_name(dtype), row);
    }
    int64_t rows = (int64_t)(raw->bytes / row);
    gx_mat_array(&out->base, raw->label, dtype, cols, rows, data, cols);
    if ((uintptr_t)data % gx_dtype_alignment(dtype) != 0) {
        void *copy;
        if (!gx_look_buffer(fn, &out->base, cols, rows, &copy)) {
            return false;
        }
        out->base.data = memcpy(copy, data, raw->bytes);
    }
    gx_mat_view(&out->turned, &out->base, GX_TRANS, 0, 0, rows, cols);
    out->mat = &out->turned;
    return true;
}

bool gx_fn_rows(gx_fn *fn, int index, const char *label, int64_t cols, gx_dtype stated,
                gx_rows *out)
{
    sqlite3_value *value = fn->argv[index];
    if (sqlite3_value_type(value) == SQLITE_BLOB) {
        const void *blob = sqlite3_value_blob(value);
        const gx_raw raw = {.label = label,
                            .bytes = (size_t)sqlite3_value_bytes(value),
                            .cols = cols,
                            .how = ": option \"dtype\" says which"};
        if (raw.bytes > 0 && blob == NULL) {
            gx_err err = {0};
            gx_fail_nomem(&err, raw.bytes, "argument");
            gx_run_fail(&fn->run, &err);
            return false;
        }
        if (raw.bytes > 0 && !gx_value_is(blob, raw.bytes)) {
            return take_raw(fn, &raw, blob, stated, out);
        }
    }
    if (!gx_fn_matrix(fn, index, label, &out->base)) {
        return false;
    }
    out->mat = &out->base;
    if (out->base.cols == 1 && cols != 1 && out->base.rows == cols) {
        gx_mat_view(&out->turned, &out->base, GX_TRANS, 0, 0, 1, cols);
        out->mat = &out->turned;
    }
    return true;
}

typedef struct name_row {
    const char *name;
    gx_measure measure;
    bool is_product; /* no distance */
} name_row;

static const name_row names[] = {
    {"cosine", {.metric = GX_METRIC_COSINE}, false},
    {"dot", {.metric = GX_METRIC_DOT}, true},
    {"l2", {.metric = GX_METRIC_SQUARED, .is_root = true, .is_distance = true}, false},
    {"sqeuclidean", {.metric = GX_METRIC_SQUARED, .is_distance = true}, false},
    {"l1", {.metric = GX_METRIC_ABSOLUTE, .is_distance = true}, false},
    {"hamming", {.metric = GX_METRIC_SQUARED, .is_binary = true, .is_distance = true}, false},
    {"euclidean", {.metric = GX_METRIC_SQUARED, .is_root = true, .is_distance = true}, false},
    {"cityblock", {.metric = GX_METRIC_ABSOLUTE, .is_distance = true}, false},
};

bool gx_measure_parse(gx_fn *fn, const char *name, gx_measures known, gx_measure *out)
{
    char shown[GX_SHOWN_BYTES];
    bool takes_products = known == GX_MEASURES_KNN;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        if (strcmp(names[k].name, name) == 0 && (takes_products || !names[k].is_product)) {
            *out = names[k].measure;
            return true;
        }
    }
    return gx_fn_fail(fn, "metric '%s' is not known (cosine, %sl2, sqeuclidean, l1, hamming)",
                      gx_text_show(name, strlen(name), shown), takes_products ? "dot, " : "");
}

double gx_measure_score(const gx_measure *measure, double merit, int64_t cols)
{
    double score = measure->is_distance ? -merit : merit;
    score = measure->is_binary && cols > 0 ? score / (double)cols : score;
    return measure->is_root ? sqrt(score) : score;
}
