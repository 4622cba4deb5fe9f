/*
** Several stored results of one call, all or none: see gx_ext.h.
**
** Savepoints nest: the one of begin stands around those of the sinks, which are begun and published
** one after the other.
*/
#include "gx_ext.h"

#include "../core/alg/dense.h"

#include <string.h>

static bool lock_one(gx_outputs *out, const gx_dest *dest)
{
    gx_fn *fn = out->fn;
    char schema[GX_NAME_MAX + 1], name[GX_NAME_MAX + 1];
    bool is_locked = gx_fn_is_free(fn, dest->name, dest->replace, schema, name) &&
                     gx_fn_check(fn, gx_store_begin(fn->ctx->store, schema, &fn->err));
    out->begun += is_locked;
    return is_locked;
}

bool gx_outputs_begin(gx_outputs *out, gx_fn *fn, const gx_dest *const *dests, int count)
{
    *out = (gx_outputs){.fn = fn};
    for (int i = 0; i < count && gx_ok(&fn->run); i++) {
        for (int j = 0; j < i && dests[i]->name != NULL; j++) {
            if (dests[j]->name != NULL && strcmp(dests[i]->name, dests[j]->name) == 0) {
                return gx_fn_fail(fn, "two results cannot both be stored as '%s'", dests[i]->name);
            }
        }
        if (dests[i]->name != NULL && !lock_one(out, dests[i])) {
            return false;
        }
    }
    return gx_ok(&fn->run);
}

void gx_outputs_store(gx_outputs *out, const gx_dest *dest, uint32_t properties, gx_number dtype,
                      int64_t rows, int64_t cols, const void *data, int64_t ld)
{
    gx_run *run = &out->fn->run;
    gx_sink sink;
    if (dest->name == NULL || !gx_ok(run)) {
        return;
    }
    gx_sink_begin(run, dest, rows, cols, dtype, properties, 0, 0, &sink);
    gx_dense_write(run, &sink, data, ld);
    gx_sink_end(&sink);
}

void gx_outputs_close(gx_outputs *out)
{
    gx_run *run = &out->fn->run;
    for (; out->begun > 0; out->begun--) {
        gx_err err = {0};
        gx_store_end(run->ctx->store, gx_ok(run), &err);
        gx_run_fail(run, &err);
    }
}

void gx_outputs_finish(gx_outputs *out, const gx_dest *first, uint32_t properties, gx_number dtype,
                       int64_t rows, int64_t cols, const void *data, int64_t ld)
{
    gx_fn *fn = out->fn;
    gx_outputs_store(out, first, properties, dtype, rows, cols, data, ld);
    gx_outputs_close(out);
    if (!gx_ok(&fn->run)) {
        return;
    }
    if (first->name != NULL) {
        sqlite3_result_text(fn->sql, first->name, -1, SQLITE_TRANSIENT);
        return;
    }
    gx_sink value;
    gx_sink_begin(&fn->run, NULL, rows, cols, dtype, 0, 0, 0, &value);
    gx_dense_write(&fn->run, &value, data, ld);
    gx_fn_result_sink(fn, &value);
}
