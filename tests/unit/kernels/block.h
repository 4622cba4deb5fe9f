/*
** Shared by the tests of backends: random numbers, matrices with guard cells, and a kernel call
** on any device.
**
** A block is an m x n matrix with leading dimension ld whose every byte outside the rectangle (in
** front, behind, between the columns) holds GUARD; block_is_guarded() looks at all of them.
** Elements are read and written as complex doubles.
**
** device_run() gives a kernel the blocks where its device wants them: host backends the memory
** itself, others a copy that is uploaded, worked on and downloaded again, guard cells and all.
*/
#ifndef GX_TEST_BLOCK_H
#define GX_TEST_BLOCK_H

#include "../../oracle/oracle.h"
#include "base/backend.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GUARD = 0xA5, GUARD_BYTES = 64 };

// Random numbers ----------------------------------------------------------------------------------

/* splitmix64: the same numbers everywhere. */
static inline uint64_t random_bits(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

/* Uniform in [-1, 1). */
static inline double random_unit(uint64_t *state)
{
    return (double)(int64_t)random_bits(state) * 0x1p-63;
}

// Blocks ------------------------------------------------------------------------------------------

typedef struct block {
    gx_number dtype;
    int64_t m, n, ld;
    size_t bytes;       /* of raw */
    unsigned char *raw; /* guard, columns, guard */
    void *data;         /* element (0, 0); aligned to 64 */
} block;

static inline block block_make(gx_number dtype, int64_t m, int64_t n, int64_t ld)
{
    block b = {.dtype = dtype, .m = m, .n = n, .ld = ld};
    b.bytes = 2 * GUARD_BYTES + (size_t)(ld * n) * gx_number_bytes(dtype);
    b.raw = aligned_alloc(GUARD_BYTES, (b.bytes + GUARD_BYTES - 1) / GUARD_BYTES * GUARD_BYTES);
    assert_non_null(b.raw);
    memset(b.raw, GUARD, b.bytes);
    b.data = b.raw + GUARD_BYTES;
    return b;
}

static inline void block_free(block *b)
{
    free(b->raw);
    b->raw = NULL;
}

static inline block block_copy(const block *from)
{
    block b = block_make(from->dtype, from->m, from->n, from->ld);
    memcpy(b.raw, from->raw, from->bytes);
    return b;
}

static inline gx_scalar block_get(const block *b, int64_t i, int64_t j)
{
    const void *x = gx_at(b->data, b->dtype, b->ld, i, j);
    double d[2] = {0, 0};
    float f[2] = {0, 0};
    memcpy(gx_number_is_double(b->dtype) ? (void *)d : (void *)f, x, gx_number_bytes(b->dtype));
    return gx_number_is_double(b->dtype) ? (gx_scalar){d[0], d[1]}
                                        : (gx_scalar){(double)f[0], (double)f[1]};
}

/* Rounded to the block's dtype; a real block drops the imaginary part. */
static inline void block_set(const block *b, int64_t i, int64_t j, gx_scalar value)
{
    double d[2] = {value.re, value.im};
    float f[2] = {(float)value.re, (float)value.im};
    memcpy(gx_at(b->data, b->dtype, b->ld, i, j),
           gx_number_is_double(b->dtype) ? (void *)d : (void *)f, gx_number_bytes(b->dtype));
}

static inline bool holds_guard(const unsigned char *from, const unsigned char *to)
{
    for (; from < to; from++) {
        if (*from != GUARD) {
            return false;
        }
    }
    return true;
}

static inline bool block_is_guarded(const block *b)
{
    size_t es = gx_number_bytes(b->dtype), column = (size_t)b->ld * es, used = (size_t)b->m * es;
    const unsigned char *x = b->raw + GUARD_BYTES, *end = b->raw + b->bytes;
    if (!holds_guard(b->raw, x) || !holds_guard(end - GUARD_BYTES, end)) {
        return false;
    }
    for (int64_t j = 0; j < b->n; j++, x += column) {
        if (!holds_guard(x + used, x + column)) {
            return false;
        }
    }
    return true;
}

// Devices -----------------------------------------------------------------------------------------

typedef struct device {
    const gx_backend *backend;
    gx_dev *dev;
} device;

#ifdef GX_TEST_GPU
/* The device under test, through gx_cuda.so of the environment GX_CUDA_SO; ends without one. */
static inline device device_on_demand(void)
{
    const char *path = getenv("GX_CUDA_SO");
    void *object = dlopen(path == NULL ? "./gx_cuda.so" : path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = object == NULL ? NULL : dlsym(object, "gx_cuda_backend");
    gx_backend_entry get = NULL;
    gx_err err = {.code = GX_OK};
    device d = {NULL, NULL};
    memcpy(&get, &symbol, sizeof get);
    d.backend = get == NULL ? NULL : get("", &err);
    if (d.backend == NULL || d.backend->open(0, &d.dev, &err) != GX_OK) {
        printf("SKIPPED: %s\n", get == NULL ? dlerror() : err.text);
        exit(77);
    }
    if (getenv("GX_TEST_ONLY") != NULL) {
        cmocka_set_test_filter(getenv("GX_TEST_ONLY"));
    }
    return d;
}
#else
static inline device device_on_demand(void)
{
    return (device){NULL, NULL};
}
#endif

/* The one queue that the tests of a device share, made on the first call; NULL for a host. */
static inline gx_queue *device_queue(const device *d)
{
    static gx_dev *dev;
    static gx_queue *queue;
    gx_err err = {.code = GX_OK};
    if (d->backend->queue_create != NULL && dev != d->dev) {
        assert_int_equal(d->backend->queue_create(d->dev, &queue, &err), GX_OK);
        dev = d->dev;
    }
    return d->backend->queue_create == NULL ? NULL : queue;
}

/* The device's copy of a block's bytes; the block itself on a host. */
static inline unsigned char *device_place(const device *d, gx_queue *queue, const block *b)
{
    gx_err err = {.code = GX_OK};
    void *there = NULL;
    if (b == NULL || d->backend->alloc == NULL) {
        return b == NULL ? NULL : b->raw;
    }
    assert_int_equal(d->backend->alloc(d->dev, b->bytes, &there, &err), GX_OK);
    assert_int_equal(
        d->backend->upload(d->dev, queue, there, b->bytes, b->raw, b->bytes, b->bytes, 1, &err),
        GX_OK);
    return there;
}

static inline void device_fetch(const device *d, gx_queue *queue, const block *b,
                                unsigned char *there)
{
    gx_err err = {.code = GX_OK};
    if (b == NULL || d->backend->alloc == NULL) {
        return;
    }
    assert_int_equal(
        d->backend->download(d->dev, queue, b->raw, b->bytes, there, b->bytes, b->bytes, 1, &err),
        GX_OK);
}

static inline void device_drop(const device *d, const block *b, unsigned char *there)
{
    if (b != NULL && d->backend->alloc != NULL) {
        d->backend->free(d->dev, there);
    }
}

/* args with a, b, b2, c and leading dimensions from the blocks; c may be one of the others. */
static inline gx_code device_run3(const device *d, gx_kernel_id kernel, gx_number dtype,
                                  gx_args args, block *a, block *b, block *b2, block *c,
                                  gx_err *err)
{
    gx_queue *queue = device_queue(d);
    size_t bytes =
        d->backend->workspace == NULL ? 0 : d->backend->workspace(d->dev, kernel, dtype, &args);
    block work = block_make(GX_F32, (int64_t)(bytes + 3) / 4, 1, (int64_t)(bytes + 3) / 4);
    unsigned char *at_work = device_place(d, queue, &work);
    args.work = at_work + GUARD_BYTES;
    unsigned char *at_a = device_place(d, queue, a), *at_b = device_place(d, queue, b);
    unsigned char *at_b2 = device_place(d, queue, b2);
    bool is_own = c != a && c != b && c != b2;
    unsigned char *at_c = c == a ? at_a : c == b ? at_b : c == b2 ? at_b2 : NULL;
    at_c = is_own ? device_place(d, queue, c) : at_c;
    args.a = a == NULL ? NULL : at_a + GUARD_BYTES;
    args.b = b == NULL ? NULL : at_b + GUARD_BYTES;
    args.b2 = b2 == NULL ? NULL : at_b2 + GUARD_BYTES;
    args.c = c == NULL ? NULL : at_c + GUARD_BYTES;
    args.lda = a == NULL ? 0 : a->ld;
    args.ldb = b == NULL ? 0 : b->ld;
    args.ldb2 = b2 == NULL ? 0 : b2->ld;
    args.ldc = c == NULL ? 0 : c->ld;
    gx_code code = d->backend->kernel[kernel][dtype](d->dev, queue, &args, err);
    device_fetch(d, queue, c, at_c);
    device_fetch(d, queue, &work, at_work);
    if (queue != NULL) {
        gx_err late = {.code = GX_OK};
        assert_int_equal(d->backend->queue_wait(d->dev, queue, &late), GX_OK);
    }
    assert_true(block_is_guarded(&work));
    device_drop(d, &work, at_work);
    block_free(&work);
    device_drop(d, a, at_a);
    device_drop(d, b, at_b);
    device_drop(d, b2, at_b2);
    device_drop(d, is_own ? c : NULL, at_c);
    return code;
}

/* The same of kernels without a third operand. */
static inline gx_code device_run(const device *d, gx_kernel_id kernel, gx_number dtype,
                                 gx_args args, block *a, block *b, block *c, gx_err *err)
{
    return device_run3(d, kernel, dtype, args, a, b, NULL, c, err);
}

#endif
