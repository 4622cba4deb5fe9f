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

static bool take_raw(gx_fn *fn, sqlite3_value *value, const char *label, int64_t cols, gx_rows *out)
{
    const void *data = sqlite3_value_blob(value);
    size_t bytes = (size_t)sqlite3_value_bytes(value), row = (size_t)cols * sizeof(float);
    if (row == 0 || bytes % row != 0) {
        return gx_fn_fail(fn,
                          "%s is a blob of %zu bytes, neither a matrix value nor rows of %" PRId64
                          " f32 numbers (%zu bytes each)",
                          label, bytes, cols, row);
    }
    int64_t rows = (int64_t)(bytes / row);
    gx_mat_value(&out->base, label, GX_F32, cols, rows, data, cols);
    if ((uintptr_t)data % sizeof(float) != 0) {
        void *copy;
        if (!gx_look_buffer(fn, &out->base, cols, rows, &copy)) {
            return false;
        }
        out->base.data = memcpy(copy, data, bytes);
    }
    gx_mat_view(&out->turned, &out->base, GX_TRANS, 0, 0, rows, cols);
    out->mat = &out->turned;
    return true;
}

bool gx_fn_rows(gx_fn *fn, int index, const char *label, int64_t cols, gx_rows *out)
{
    sqlite3_value *value = fn->argv[index];
    if (sqlite3_value_type(value) == SQLITE_BLOB) {
        const void *blob = sqlite3_value_blob(value);
        size_t bytes = (size_t)sqlite3_value_bytes(value);
        if (bytes > 0 && blob == NULL) {
            gx_err err = {0};
            gx_fail_nomem(&err, bytes, "argument");
            gx_run_fail(&fn->run, &err);
            return false;
        }
        if (bytes > 0 && !gx_value_is(blob, bytes)) {
            return take_raw(fn, value, label, cols, out);
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
