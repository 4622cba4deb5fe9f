/*
** What a node takes and enqueues on a device: see device_node.h.
*/
#include "device_node.h"

#include "device_memory.h"

// Operands and results ----------------------------------------------------------------------------

void *gx_node_take(gx_exec *x, size_t bytes)
{
    gx_devcall *on = &x->on->call;
    gx_hold *h = &on->hold[x->on->holds];
    gx_err err = {.code = GX_OK};
    if (!gx_ok(x->run)) {
        return NULL;
    }
    h->bytes = bytes == 0 ? 1 : bytes;
    if (gx_devcall_take(on, x->on->holds, &err) != GX_OK) {
        gx_device_lost(x, &err);
        return NULL;
    }
    x->on->holds++;
    return h->data;
}

void gx_node_give(gx_exec *x)
{
    while (x->on->holds > 0) {
        gx_hold *h = &x->on->call.hold[--x->on->holds];
        gx_pool_give(x->on->call.accel->pool, h->data, h->bytes);
        h->data = NULL;
    }
}

bool gx_node_call(gx_exec *x, gx_kernel_id kernel, gx_number dtype, gx_args *args)
{
    const gx_devcall *on = &x->on->call;
    gx_err err = {.code = GX_OK};
    if (!gx_ok(x->run)) {
        return false;
    }
    size_t bytes = gx_devcall_workspace(on, kernel, dtype, args);
    if (bytes >= GX_NO_WORKSPACE) {
        gx_fail(&err, GX_DEVICE, "%s cannot say what a kernel needs", on->accel->backend->name);
        return gx_device_lost(x, &err);
    }
    args->work = bytes == 0 ? NULL : gx_node_take(x, bytes);
    x->on->is_under_way = true;
    return gx_ok(x->run) &&
           (gx_devcall_kernel(on, kernel, dtype, args, &err) == GX_OK || gx_device_lost(x, &err));
}

const void *gx_node_input(gx_exec *x, const gx_node *node, int k, gx_number dtype)
{
    gx_val *val = x->val[gx_input(x->g, node, k)];
    if (gx_device_val_is_away(x, val)) { // small, or seldom
        gx_val_data(x, val);
    }
    const void *data = gx_ok(x->run) ? gx_device_val_send(x, val) : NULL;
    size_t bytes = 0;
    if (data == NULL || val->type.dtype == dtype) {
        return data;
    }
    gx_matrix_bytes(val->type.rows, val->type.cols, dtype, &bytes);
    void *copy = gx_node_take(x, bytes);
    int64_t ld = gx_max(1, val->type.rows);
    gx_args args = {.m = val->type.rows,
                    .n = val->type.cols,
                    .from = gx_dtype_of(val->type.dtype),
                    .a = data,
                    .lda = ld,
                    .c = copy,
                    .ldc = ld};
    return copy != NULL && gx_node_call(x, GX_CONVERT, dtype, &args) ? copy : NULL;
}

void *gx_node_result(gx_exec *x, const gx_node *node)
{
    const gx_type type = gx_type_now(x, node);
    gx_val *val = gx_val_of(x, &type);
    if (val == NULL) {
        return NULL;
    }
    if (!gx_device_val_make(x, val)) {
        gx_val_release(x, val);
        return NULL;
    }
    gx_val_put(x, gx_result_ref(x, node, 0), val);
    return val->device;
}

bool gx_node_offers(const gx_exec *x, gx_kernel_id kernel, gx_number dtype)
{
    return gx_accel_offers(x->on->call.accel, kernel, dtype);
}
