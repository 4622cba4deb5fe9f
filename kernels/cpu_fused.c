/*
** Fused programs on the CPU: rectangle by rectangle, each small enough that its values stay in the
** first-level cache (BLOCK_BYTES a register), each step a vectorised loop over it (cpu_block.c).
**
** A rectangle is a piece of one column, or some whole short columns, and its values are next to
** each other.  Inputs and outputs that are so in memory, too, are used where they are; others pass
** through a register of their own: rows, columns and numbers that spread, matrices with a leading
** dimension in the way, transposed ones, outputs that lose their imaginary parts.  Where nothing
** lies between any columns the block is one long column.
**
** An output that is written where an input is waits in its register until the rectangle's last step
** has run: later steps may read that input.
*/
#include "cpu.h"

#include <math.h>
#include <string.h>

enum { BLOCK_BYTES = 4096 };

static const gx_kernel reducing[] = {[GX_F64] = gx_cpu_reduce_f64,
                                     [GX_F32] = gx_cpu_reduce_f32,
                                     [GX_C128] = gx_cpu_reduce_c128,
                                     [GX_C64] = gx_cpu_reduce_c64,
                                     [GX_M31] = gx_cpu_reduce_m31};

typedef struct rectangle {
    int64_t i, j, m, n; /* from (i, j); m n elements next to each other */
} rectangle;

typedef struct machine {
    const gx_args *args;
    const gx_fused *f;
    gx_number dtype;
    size_t bytes;                    /* of an element */
    char *room;                      /* registers, constants, inputs, outputs; BLOCK_BYTES each */
    double *part;                    /* of a fold: the lines of one rectangle                 */
    bool is_filled[GX_FUSED_INPUTS]; /* a number, which needs no second filling */
    bool is_aliased;                 /* an output is written where an input is  */
} machine;

/* Register of a value, of an input's copy, of an output's. */
static char *register_of(const machine *x, int number)
{
    return x->room + (size_t)number * BLOCK_BYTES;
}

static char *constant_of(const machine *x, int k)
{
    return register_of(x, x->f->registers + k);
}

static char *copy_of(const machine *x, int input)
{
    return register_of(x, x->f->registers + x->f->constants + input);
}

static char *result_of(const machine *x, int output)
{
    return register_of(x, x->f->registers + x->f->constants + x->f->inputs + output);
}

size_t gx_cpu_fused_bytes(const gx_args *args)
{
    const gx_fused *f = args->fused;
    int registers = f->registers + f->constants + f->inputs + f->outputs;
    size_t lines = BLOCK_BYTES / gx_number_bytes(f->dtype);
    return (size_t)registers * BLOCK_BYTES + 2 * lines * sizeof(double);
}

// Moving ------------------------------------------------------------------------------------------

/* count times the element at src; bytes: of an element. */
static void repeat(const char *src, size_t bytes, int64_t count, char *dst)
{
    if (bytes == sizeof(double)) {
        double value;
        memcpy(&value, src, sizeof value);
        for (int64_t i = 0; i < count; i++) {
            memcpy(dst + (size_t)i * sizeof value, &value, sizeof value);
        }
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        memcpy(dst + (size_t)i * bytes, src, bytes);
    }
}

/* Every second part of count pairs. */
static void drop_imaginary(bool is_double, const char *src, int64_t count, char *dst)
{
    size_t part = is_double ? sizeof(double) : sizeof(float);
    for (int64_t i = 0; i < count; i++) {
        memcpy(dst + (size_t)i * part, src + 2 * (size_t)i * part, part);
    }
}

/* Elements of a column that are step apart, to or from where they are next to each other. */
static void gather(const char *src, int64_t step, size_t bytes, int64_t count, char *dst)
{
    if (step == 1) {
        memcpy(dst, src, (size_t)count * bytes);
    } else if (step == 0) {
        repeat(src, bytes, count, dst);
    } else {
        for (int64_t i = 0; i < count; i++) {
            memcpy(dst + (size_t)i * bytes, src + (size_t)(i * step) * bytes, bytes);
        }
    }
}

static void scatter(const char *src, int64_t step, size_t bytes, int64_t count, char *dst)
{
    for (int64_t i = 0; i < count; i++) {
        memcpy(dst + (size_t)(i * step) * bytes, src + (size_t)i * bytes, bytes);
    }
}

/* Are the rectangle's elements next to each other there? */
static bool is_packed(const gx_fused_place *at, const rectangle *r)
{
    return at->row == 1 && (r->n == 1 || at->col == r->m);
}

static char *address(const gx_fused_place *at, size_t bytes, int64_t i, int64_t j)
{
    return (char *)at->data + (size_t)(i * at->row + j * at->col) * bytes;
}

/* Where the rectangle of an input is next to each other. */
static const void *fetch(machine *x, int input, const rectangle *r)
{
    const gx_fused_place *at = &x->args->in[input];
    if (is_packed(at, r)) {
        return address(at, x->bytes, r->i, r->j);
    }
    char *copy = copy_of(x, input);
    if (at->row == 0 && at->col == 0) {
        if (!x->is_filled[input]) {
            repeat(at->data, x->bytes, BLOCK_BYTES / (int64_t)x->bytes, copy);
            x->is_filled[input] = true;
        }
        return copy;
    }
    for (int64_t j = 0; j < r->n; j++) {
        gather(address(at, x->bytes, r->i, r->j + j), at->row, x->bytes, r->m,
               copy + (size_t)(j * r->m) * x->bytes);
    }
    return copy;
}

/* Where a result may be made at once; NULL: in its register. */
static char *place_at_once(const machine *x, int output, const rectangle *r)
{
    const gx_fused_result *result = &x->f->output[output];
    const gx_fused_place *at = &x->args->out[output];
    bool is_plain = result->fold == GX_FOLD_NONE && !result->is_real && !x->is_aliased;
    return is_plain && is_packed(at, r) ? address(at, x->bytes, r->i, r->j) : NULL;
}

/* The elements of an output, next to each other at src, to where they belong. */
static void deliver(const machine *x, int output, const rectangle *r, const char *src)
{
    const gx_fused_place *at = &x->args->out[output];
    size_t bytes = x->bytes;
    if (x->f->output[output].is_real && gx_number_is_complex(x->dtype)) {
        drop_imaginary(gx_number_is_double(x->dtype), src, r->m * r->n, result_of(x, output));
        src = result_of(x, output);
        bytes /= 2;
    }
    for (int64_t j = 0; j < r->n; j++) {
        char *dst = address(at, bytes, r->i, r->j + j);
        const char *column = src + (size_t)(j * r->m) * bytes;
        if (dst == column) {
            continue; // it was made there
        }
        if (at->row == 1) {
            memcpy(dst, column, (size_t)r->m * bytes);
        } else {
            scatter(column, at->row, bytes, r->m, dst);
        }
    }
}

// Folds -------------------------------------------------------------------------------------------

static gx_code reduce(const machine *x, gx_reduce_kind kind, int64_t m, int64_t n, const void *a,
                      double *out, gx_err *err)
{
    gx_args args = {
        .m = m, .n = n, .a = a, .lda = gx_max(m, 1), .reduce_kind = kind, .reduce = out};
    return reducing[x->dtype](NULL, NULL, &args, err);
}

static const gx_reduce_kind whole[] = {[GX_FOLD_SUM] = GX_REDUCE_SUM,
                                       [GX_FOLD_NORM] = GX_REDUCE_SUMSQ,
                                       [GX_FOLD_MIN] = GX_REDUCE_MIN,
                                       [GX_FOLD_MAX] = GX_REDUCE_MAX};

/* Each element to the line of its row. */
static void fold_rows_plainly(const machine *x, gx_fold fold, const rectangle *r, const void *a,
                              double *acc)
{
    int width = gx_fold_width(fold);
    bool is_complex = gx_number_is_complex(x->dtype);
    for (int64_t k = 0; k < r->m * r->n; k++) {
        gx_scalar e = gx_number_get(x->dtype, a, k);
        double part[2] = {e.re, 1};
        if (fold == GX_FOLD_NORM) {
            double abs = is_complex ? hypot(e.re, e.im) : fabs(e.re);
            double size = isnan(e.re) || isnan(e.im) ? NAN : abs;
            part[0] = isfinite(size) && size > 0 ? size : 1;
            part[1] = isfinite(size) && size > 0 ? 1 : size;
        }
        gx_fold_add(fold, 1, acc + (r->i + k % r->m) * width, part);
    }
}

/* Sums of elements of GX_M31 stay exact. */
static void keep_whole(const machine *x, int64_t lines, double *acc)
{
    for (int64_t l = 0; l < 2 * lines && x->dtype == GX_M31; l++) {
        acc[l] = acc[l] > 0x1p52 ? fmod(acc[l], GX_M31_P) : acc[l];
    }
}

/* A rectangle of an output into its lines. */
static gx_code fold_in(const machine *x, int output, const rectangle *r, const char *a, gx_err *err)
{
    gx_fold fold = (gx_fold)x->f->output[output].fold;
    gx_fold_of of = (gx_fold_of)x->f->output[output].fold_of;
    double *acc = x->args->fold[output];
    int width = gx_fold_width(fold);
    if (of == GX_FOLD_OF_ALL) {
        GX_TRY(reduce(x, whole[fold], r->m * r->n, 1, a, x->part, err));
        gx_fold_add(fold, 1, acc, x->part);
        keep_whole(x, 1, acc);
    } else if (of == GX_FOLD_OF_COLS) {
        for (int64_t j = 0; j < r->n; j++) {
            const char *column = a + (size_t)(j * r->m) * x->bytes;
            GX_TRY(reduce(x, whole[fold], r->m, 1, column, x->part, err));
            gx_fold_add(fold, 1, acc + (r->j + j) * width, x->part);
        }
    } else if (fold == GX_FOLD_SUM) {
        GX_TRY(reduce(x, GX_REDUCE_ROW_SUM, r->m, r->n, a, x->part, err));
        gx_fold_add(fold, r->m, acc + r->i * width, x->part);
        keep_whole(x, r->m, acc + r->i * width);
    } else {
        fold_rows_plainly(x, fold, r, a, acc);
    }
    return GX_OK;
}

// Running -----------------------------------------------------------------------------------------

static gx_code run_rectangle(machine *x, const rectangle *r, gx_err *err)
{
    const gx_fused *f = x->f;
    const void *at[GX_FUSED_RESULT + GX_FUSED_STEPS] = {NULL};
    char *dst[GX_FUSED_STEPS];
    for (int k = 0; k < f->inputs; k++) {
        at[k] = fetch(x, k, r);
    }
    for (int k = 0; k < f->constants; k++) {
        at[GX_FUSED_CONSTANT + k] = constant_of(x, k);
    }
    for (int s = 0; s < f->steps; s++) {
        dst[s] = register_of(x, f->step[s].dst);
    }
    for (int k = 0; k < f->outputs; k++) {
        int s = f->output[k].value - GX_FUSED_RESULT;
        char *there = place_at_once(x, k, r);
        if (s >= 0 && there != NULL) {
            dst[s] = there;
        }
    }
    for (int s = 0; s < f->steps; s++) {
        const gx_fused_code *code = &f->step[s];
        const void *from[3] = {at[code->from[0]], at[code->from[1]], at[code->from[2]]};
        GX_TRY(gx_cpu_block((gx_map_kind)code->map, x->dtype, r->m * r->n, code->alpha, code->beta,
                            from, dst[s], err));
        at[GX_FUSED_RESULT + s] = dst[s];
    }
    for (int k = 0; k < f->outputs; k++) {
        if (f->output[k].fold != GX_FOLD_NONE) {
            GX_TRY(fold_in(x, k, r, at[f->output[k].value], err));
        }
    }
    for (int k = 0; k < f->outputs; k++) {
        if (f->output[k].fold == GX_FOLD_NONE) {
            deliver(x, k, r, at[f->output[k].value]);
        }
    }
    return GX_OK;
}

/* Nothing lies between any columns, and no line of a fold ends within. */
static bool is_flat(const gx_args *p)
{
    const gx_fused *f = p->fused;
    bool is_one = true;
    for (int k = 0; k < f->inputs; k++) {
        bool is_number = p->in[k].row == 0 && p->in[k].col == 0;
        is_one = is_one && (is_number || (p->in[k].row == 1 && p->in[k].col == p->m));
    }
    for (int k = 0; k < f->outputs; k++) {
        bool is_whole = f->output[k].fold != GX_FOLD_NONE
                            ? f->output[k].fold_of == GX_FOLD_OF_ALL
                            : p->out[k].row == 1 && p->out[k].col == p->m;
        is_one = is_one && is_whole;
    }
    return is_one;
}

static bool is_aliased(const gx_args *p)
{
    for (int k = 0; k < p->fused->outputs; k++) {
        for (int i = 0; i < p->fused->inputs; i++) {
            if (p->fused->output[k].fold == GX_FOLD_NONE && p->out[k].data == p->in[i].data) {
                return true;
            }
        }
    }
    return false;
}

static void begin(machine *x)
{
    const gx_fused *f = x->f;
    gx_cpu_block_open();
    for (int k = 0; k < f->constants; k++) {
        double value[2]; // room for any number
        gx_number_put(x->dtype, value, 0, f->constant[k]);
        repeat((const char *)value, x->bytes, BLOCK_BYTES / (int64_t)x->bytes, constant_of(x, k));
    }
    for (int k = 0; k < f->outputs; k++) {
        gx_fold fold = (gx_fold)f->output[k].fold;
        if (fold != GX_FOLD_NONE) {
            gx_fold_of of = (gx_fold_of)f->output[k].fold_of;
            int64_t doubles = gx_fold_doubles(fold, of, x->args->m, x->args->n);
            gx_fold_start(fold, doubles / gx_fold_width(fold), x->args->fold[k]);
        }
    }
}

static gx_code fused(gx_number dtype, const gx_args *p, gx_err *err)
{
    machine x = {.args = p, .f = p->fused, .dtype = dtype, .bytes = gx_number_bytes(dtype)};
    int registers = x.f->registers + x.f->constants + x.f->inputs + x.f->outputs;
    int64_t m = p->m, n = p->n, most = BLOCK_BYTES / (int64_t)x.bytes;
    x.room = p->work;
    x.part = (double *)(x.room + (size_t)registers * BLOCK_BYTES);
    x.is_aliased = is_aliased(p);
    begin(&x);
    if (m > 0 && n > 0 && is_flat(p)) {
        m *= n;
        n = 1;
    }
    int64_t wide = m > 0 && m <= most / 2 ? most / m : 1; // columns at once
    for (int64_t j = 0; j < n; j += wide) {
        for (int64_t i = 0; i < m; i += most) {
            rectangle r = {i, j, gx_min(most, m - i), gx_min(wide, n - j)};
            GX_TRY(run_rectangle(&x, &r, err));
        }
    }
    return GX_OK;
}
GX_SLOTS_DEFINE(, gx_cpu_fused, fused)
GX_FIELD_SLOT_DEFINE(gx_cpu_fused, fused)
