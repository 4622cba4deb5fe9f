/*
** The CUDA backend: fused programs.
**
** A program is launched as it is written down, as the struct that the interpreter goes through
** (cuda_fused.cu).  One that runs for long is compiled: NVRTC, where the toolkit has it, makes a
** kernel of the same name and struct from a text that is put together from the parts the
** interpreter is made of, with the steps written out.  How often and on how much a program runs is
** not known beforehand, so it is rented before it is bought: compiled when the interpreter has
** done so many steps of elements with it that what a compiled one would have saved comes to the
** time of compiling; a loop says how often it is going to (gx_args.more), since a record's replays
** do not pass here.  Never twice: what has failed stays interpreted.
**
** Compiled kernels are the device's, found by what their text depends on: dtype, steps, outputs.
** There is room for some; others are interpreted.
**
** An output that is folded as a whole is never stored: each thread block leaves what its elements
** come to in `work`, and the second stage of GX_REDUCE folds that.  One that is folded along lines
** is stored in `work` and folded by gx_fold.  What comes of it is copied to the caller.
**
** A compiled program has the loads of some elements under way before it computes the first.
*/
#include "cuda.h"

#include "../core/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)GX_CUDA_FUSED_INPUTS == (int)GX_FUSED_INPUTS &&
                   (int)GX_CUDA_FUSED_CONSTANTS == (int)GX_FUSED_CONSTANTS &&
                   (int)GX_CUDA_FUSED_STEPS == (int)GX_FUSED_STEPS &&
                   (int)GX_CUDA_FUSED_OUTPUTS == (int)GX_FUSED_OUTPUTS &&
                   (int)GX_CUDA_FUSED_REGISTERS == (int)GX_FUSED_REGISTERS,
               "cuda_fused.h says what fused.h says");

/*
** Steps of elements that are interpreted before a program is compiled: some 30 ms on an H200, of
** which a third would do, beside the 0.1 s that compiling takes.
*/
static const double COMPILE_AFTER = 1e10;

enum { PROGRAMS = 64, TEXT_BYTES = 96 << 10, CUBIN_BYTES = 1 << 20 };

/* All that a program's text depends on. */
typedef struct signature {
    uint8_t dtype, inputs, constants, steps, outputs;
    uint8_t step[GX_FUSED_STEPS][4]; /* map, from */
    uint8_t output[GX_FUSED_OUTPUTS][3]; /* value, is_real, fold */
} signature;

typedef struct program {
    signature is;
    double steps; /* of elements, so far              */
    bool is_tried;
    gx_cuda_handle library, kernel; /* NULL: interpreted */
} program;

struct gx_cuda_programs {
    int count;
    gx_nvrtc nvrtc;
    bool is_opened; /* NVRTC has been looked for */
    program program[PROGRAMS];
};

// Text --------------------------------------------------------------------------------------------

/* The parts, as they were when gx_cuda.so was made; each ends with a NUL. */
extern const char gx_cuda_text_struct[], gx_cuda_text_table[], gx_cuda_text_functions[],
    gx_cuda_text_folds[], gx_cuda_text_parts[];

typedef struct text {
    char *at;
    size_t bytes, used;
} text;

static void say(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(text *t, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    size_t room = t->bytes > t->used ? t->bytes - t->used : 0;
    int length = vsnprintf(t->at + t->used, room, format, list);
    t->used += length > 0 ? (size_t)length : 0;
    va_end(list);
}

static const char *const suffix[GX_FLOATS] = {"f64", "f32", "c128", "c64"};
static const char *const element[GX_FLOATS] = {"double", "float", "double2", "float2"};

/* A value's name in the text. */
static const char *name_of(int value, char room[16])
{
    const char *format = value < GX_FUSED_CONSTANT ? "x%d"
                         : value < GX_FUSED_RESULT ? "c%d"
                                                   : "r%d";
    int first = value < GX_FUSED_CONSTANT ? 0
                : value < GX_FUSED_RESULT ? (int)GX_FUSED_CONSTANT
                                          : (int)GX_FUSED_RESULT;
    snprintf(room, 16, format, value - first);
    return room;
}

static void write_step(text *t, const gx_fused *f, int s)
{
    char room[3][16];
    const char *from[3] = {"none", "none", "none"};
    const gx_fused_code *code = &f->step[s];
    for (int k = 0; k < gx_map_row((gx_map_kind)code->map)->operands; k++) {
        from[k] = name_of(code->from[k], room[k]);
    }
    say(t, "number r%d = stepped<T>(p, %d, %d, %s, %s, %s);\n", s, code->map, s, from[0], from[1],
        from[2]);
}

/* The reduction that a fold is. */
static gx_reduce_kind reduction(const gx_fused_result *r)
{
    static const gx_reduce_kind kind[] = {[GX_FOLD_SUM] = GX_REDUCE_SUM,
                                          [GX_FOLD_NORM] = GX_REDUCE_SUMSQ,
                                          [GX_FOLD_MIN] = GX_REDUCE_MIN,
                                          [GX_FOLD_MAX] = GX_REDUCE_MAX};
    return kind[r->fold];
}

/* 0, or 1 + the reduction that an output goes into as a whole. */
static int reduced(const gx_fused_result *r)
{
    return r->fold == GX_FOLD_NONE || r->fold_of != GX_FOLD_OF_ALL ? 0 : 1 + (int)reduction(r);
}

/* What comes before the kernel. */
static void write_head(text *t)
{
#define KIND(NAME, ...) "GX_MAP_" #NAME ",\n"
    say(t, "enum gx_map_kind {\n%s};\n", GX_MAPS(KIND));
    say(t,
        "enum { GX_REDUCE_SUM = %d, GX_REDUCE_SUMSQ = %d, GX_REDUCE_MAX_ABS = %d,\n"
        "GX_REDUCE_MIN = %d, GX_REDUCE_MAX = %d, GX_REDUCE_COL_ABS = %d,\n"
        "GX_REDUCE_ROW_ABS = %d };\n",
        GX_REDUCE_SUM, GX_REDUCE_SUMSQ, GX_REDUCE_MAX_ABS, GX_REDUCE_MIN, GX_REDUCE_MAX,
        GX_REDUCE_COL_ABS, GX_REDUCE_ROW_ABS);
    say(t, "%s\n%s\n%s\n%s\n%s\n", gx_cuda_text_struct, gx_cuda_text_table,
        gx_cuda_text_functions, gx_cuda_text_folds, gx_cuda_text_parts);
}

/* Of one element: its inputs are there already. */
static void write_element(text *t, const gx_fused *f)
{
    char room[16];
    for (int k = 0; k < f->inputs; k++) {
        say(t, "number x%d = in[%d][q];\n", k, k);
    }
    for (int s = 0; s < f->steps; s++) {
        write_step(t, f, s);
    }
    for (int k = 0; k < f->outputs; k++) {
        const char *value = name_of(f->output[k].value, room);
        int kind = reduced(&f->output[k]) - 1;
        if (kind < 0) {
            say(t, "output<T>(p, %d, i, j, %s);\n", k, value);
        } else {
            say(t, "lane_add(%d, &s%d, term<T>(%d, %s));\n", kind, k, kind, value);
        }
    }
}

/* Elements whose inputs are loaded together; of a long program each one is compiled as often. */
static int batch_of(const gx_fused *f)
{
    return f->inputs <= 4 && f->steps <= 12 ? 4 : 1;
}

/* false: there is no room for it. */
static bool write_text(text *t, const gx_fused *f)
{
    int batch = batch_of(f);
    write_head(t);
    say(t,
        "typedef %s T;\n"
        "extern \"C\" __global__ void gx_fused_%s(const GX_GRID_CONSTANT gx_cuda_fused p)\n"
        "{\n"
        "const number none = {0, 0};\n",
        element[f->dtype], suffix[f->dtype]);
    for (int k = 0; k < f->constants; k++) {
        say(t, "number c%d = constant<T>(p, %d);\n", k, k);
    }
    for (int k = 0; k < f->outputs; k++) {
        if (reduced(&f->output[k]) > 0) {
            say(t, "lane s%d = lane_of(%d);\n", k, reduced(&f->output[k]) - 1);
        }
    }
    say(t,
        "for_batches<T, %d, %d>(p, [&](const number (*in)[%d], int q, long long i, long long j) "
        "{\n",
        f->inputs, batch, batch);
    write_element(t, f);
    say(t, "});\n");
    for (int k = 0; k < f->outputs; k++) {
        if (reduced(&f->output[k]) > 0) {
            say(t, "leave_part(%d, &s%d, (double *)p.out[%d].data);\n",
                reduced(&f->output[k]) - 1, k, k);
        }
    }
    say(t, "}\n");
    return t->used < t->bytes;
}

// Compiling ---------------------------------------------------------------------------------------

/* The machine code of a text, at most CUBIN_BYTES of it. */
static bool compile(const gx_dev *dev, const gx_nvrtc *nvrtc, const char *source, char *cubin)
{
    char architecture[48];
    gx_cuda_handle made = NULL;
    size_t bytes = 0;
    snprintf(architecture, sizeof architecture, "--gpu-architecture=sm_%d", dev->capability);
    const char *options[] = {architecture, "--fmad=false", "--std=c++17"};
    if (nvrtc->create(&made, source, "gx_fused.cu", 0, NULL, NULL) != 0) {
        return false;
    }
    bool is_made = nvrtc->compile(made, 3, options) == 0 && nvrtc->cubin_bytes(made, &bytes) == 0 &&
                   bytes <= CUBIN_BYTES && nvrtc->cubin(made, cubin) == 0;
    (void)nvrtc->destroy(&made);
    return is_made;
}

/* From the machine code to a kernel; the runtime's last error does not stay behind. */
static void load_kernel(gx_dev *dev, program *p, const char *cubin)
{
    const gx_cuda_api *api = dev->api;
    char name[32];
    snprintf(name, sizeof name, "gx_fused_%s", suffix[p->is.dtype]);
    if (api->library_load(&p->library, cubin, NULL, NULL, 0, NULL, NULL, 0) != 0) {
        (void)api->last_error();
        p->library = NULL;
    } else if (api->library_kernel(&p->kernel, p->library, name) != 0) {
        (void)api->last_error();
        p->kernel = NULL;
    }
}

/* Once for a program, under the lock. */
static void buy(gx_dev *dev, program *p, const gx_fused *f)
{
    struct gx_cuda_programs *all = dev->programs;
    void *source = NULL, *cubin = NULL;
    p->is_tried = true;
    if (!all->is_opened) {
        all->is_opened = true;
        gx_cuda_api_nvrtc(dev->api, &all->nvrtc);
    }
    if (all->nvrtc.create != NULL &&
        gx_mem_alloc(NULL, TEXT_BYTES, "NVRTC", &source, NULL) == GX_OK &&
        gx_mem_alloc(NULL, CUBIN_BYTES, "NVRTC", &cubin, NULL) == GX_OK) {
        text t = {.at = source, .bytes = TEXT_BYTES};
        if (write_text(&t, f) && compile(dev, &all->nvrtc, source, cubin)) {
            load_kernel(dev, p, cubin);
        }
    }
    gx_mem_free(NULL, source);
    gx_mem_free(NULL, cubin);
}

// Finding -----------------------------------------------------------------------------------------

static signature signature_of(const gx_fused *f)
{
    signature is;
    memset(&is, 0, sizeof is);
    is.dtype = (uint8_t)f->dtype;
    is.inputs = (uint8_t)f->inputs;
    is.constants = (uint8_t)f->constants;
    is.steps = (uint8_t)f->steps;
    is.outputs = (uint8_t)f->outputs;
    for (int s = 0; s < f->steps; s++) {
        is.step[s][0] = f->step[s].map;
        memcpy(&is.step[s][1], f->step[s].from, 3);
    }
    for (int k = 0; k < f->outputs; k++) {
        is.output[k][0] = f->output[k].value;
        is.output[k][1] = f->output[k].is_real;
        is.output[k][2] = (uint8_t)reduced(&f->output[k]);
    }
    return is;
}

/* Known from earlier, or new; NULL: there is no room for it. */
static program *find(gx_dev *dev, const gx_fused *f)
{
    signature is = signature_of(f);
    void *room = NULL;
    if (dev->programs == NULL &&
        gx_mem_calloc(NULL, sizeof *dev->programs, "programs", &room, NULL) == GX_OK) {
        dev->programs = room;
    }
    struct gx_cuda_programs *all = dev->programs;
    for (int k = 0; all != NULL && k < all->count; k++) {
        if (memcmp(&all->program[k].is, &is, sizeof is) == 0) {
            return &all->program[k];
        }
    }
    if (all == NULL || all->count == PROGRAMS) {
        return NULL;
    }
    all->program[all->count].is = is;
    return &all->program[all->count++];
}

/* For tests another number than COMPILE_AFTER. */
static double compile_after(void)
{
    const char *said = getenv("GX_COMPILE_AFTER");
    return said == NULL ? COMPILE_AFTER : atof(said);
}

/* The kernel for a program that is to run on so many elements, now and later. */
static gx_cuda_handle kernel_for(gx_dev *dev, const gx_fused *f, double elements)
{
    gx_cuda_handle kernel = dev->function[GX_CUDA_FUSED][f->dtype];
    pthread_mutex_lock(&dev->lock);
    program *p = find(dev, f);
    if (p != NULL) {
        p->steps += elements * f->steps;
        if (!p->is_tried && p->steps > compile_after()) {
            buy(dev, p, f);
        }
        kernel = p->kernel != NULL ? p->kernel : kernel;
    }
    pthread_mutex_unlock(&dev->lock);
    return kernel;
}

void gx_cuda_forget_programs(gx_dev *dev)
{
    struct gx_cuda_programs *all = dev->programs;
    for (int k = 0; all != NULL && k < all->count; k++) {
        gx_cuda_release(dev, all->program[k].library, dev->api->library_unload,
                        "cudaLibraryUnload");
    }
    gx_mem_free(NULL, all);
    dev->programs = NULL;
}

// Folds -------------------------------------------------------------------------------------------

/* Thread blocks of a program that is folded as a whole, at most; three doubles of each. */
enum { FOLD_BLOCKS = 2048 };
static const size_t FOLD_BYTES = FOLD_BLOCKS * 3 * sizeof(double);

static size_t matrix_bytes(const gx_args *p)
{
    return gx_cuda_round((size_t)(p->m * p->n) * gx_number_bytes(p->fused->dtype));
}

/* What a folded output takes of `work`: before what it comes to, and altogether. */
static size_t before_bytes(const gx_args *p, const gx_fused_result *r)
{
    return reduced(r) > 0 ? FOLD_BYTES : matrix_bytes(p);
}

static size_t fold_bytes(const gx_args *p, const gx_fused_result *r)
{
    int64_t doubles = gx_fold_doubles((gx_fold)r->fold, (gx_fold_of)r->fold_of, p->m, p->n);
    return before_bytes(p, r) + gx_cuda_round((size_t)doubles * sizeof(double));
}

size_t gx_cuda_fused_bytes(const gx_args *p)
{
    size_t bytes = 0;
    for (int k = 0; k < p->fused->outputs; k++) {
        const gx_fused_result *r = &p->fused->output[k];
        bytes += r->fold == GX_FOLD_NONE ? 0 : fold_bytes(p, r);
    }
    return bytes == 0 ? 0 : bytes + 256;
}

/* Output k, of which `blocks` thread blocks have left something at `work`, to the caller. */
static gx_code fold_output(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, int k,
                           int blocks, char *work, gx_err *err)
{
    const gx_fused_result *r = &p->fused->output[k];
    gx_fold fold = (gx_fold)r->fold;
    gx_fold_of of = (gx_fold_of)r->fold_of;
    int64_t doubles = gx_fold_doubles(fold, of, p->m, p->n);
    double *out = (double *)(work + before_bytes(p, r));
    if (doubles == 0 || p->m <= 0 || p->n <= 0) {
        gx_fold_start(fold, doubles / gx_fold_width(fold), p->fold[k]);
        return GX_OK;
    }
    if (reduced(r) > 0) {
        GX_TRY(gx_cuda_reduce_end(dev, queue, reduction(r), blocks, (double *)work, out, err));
    } else {
        gx_cuda_call call = {.kind = (int32_t)reduction(r), .part = (int32_t)of};
        call.m = p->m;
        call.n = p->n;
        call.a = work;
        call.lda = p->m;
        call.out = out;
        gx_cuda_dim block = {256, 1, 1}, grid = {1, 1, 1};
        int64_t count = of == GX_FOLD_OF_ROWS ? gx_ceil_div(p->m, 256) : p->n;
        grid.x = (unsigned)gx_min(count, 16384);
        GX_TRY(gx_cuda_launch(dev, queue, GX_CUDA_FOLD, dtype, grid, block, &call, err));
    }
    return gx_cuda_fetch(dev, queue, p->fold[k], out, (size_t)doubles * sizeof(double), err);
}

// Launching ---------------------------------------------------------------------------------------

/* Nothing lies between the columns of anything. */
static bool is_flat(const gx_cuda_fused *call)
{
    bool is_one = true;
    for (int k = 0; k < call->inputs; k++) {
        const gx_cuda_place *at = &call->in[k];
        is_one = is_one && ((at->row == 0 && at->col == 0) || (at->row == 1 && at->col == call->m));
    }
    for (int k = 0; k < call->outputs; k++) {
        bool is_stored = call->fold[k] == 0;
        is_one = is_one && (!is_stored || (call->out[k].row == 1 && call->out[k].col == call->m));
    }
    return is_one;
}

static void write_call(const gx_args *p, gx_cuda_fused *call)
{
    const gx_fused *f = p->fused;
    char *work = p->work;
    *call = (gx_cuda_fused){.m = p->m,
                            .n = p->n,
                            .inputs = f->inputs,
                            .constants = f->constants,
                            .steps = f->steps,
                            .outputs = f->outputs};
    for (int k = 0; k < f->inputs; k++) {
        call->in[k] = (gx_cuda_place){p->in[k].data, p->in[k].row, p->in[k].col};
    }
    for (int k = 0; k < f->constants; k++) {
        call->constant[k][0] = f->constant[k].re;
        call->constant[k][1] = f->constant[k].im;
    }
    for (int s = 0; s < f->steps; s++) {
        const gx_fused_code *code = &f->step[s];
        int operands = gx_map_row((gx_map_kind)code->map)->operands;
        call->step[s] = (gx_cuda_step){.map = code->map,
                                       .operands = (uint8_t)operands,
                                       .dst = code->dst,
                                       .alpha = {code->alpha.re, code->alpha.im},
                                       .beta = {code->beta.re, code->beta.im}};
        memcpy(call->step[s].from, code->from, 3);
    }
    for (int k = 0; k < f->outputs; k++) {
        const gx_fused_result *r = &f->output[k];
        bool is_folded = r->fold != GX_FOLD_NONE;
        call->value[k] = r->value;
        call->is_real[k] = r->is_real && !is_folded;
        call->out[k] = is_folded ? (gx_cuda_place){work, 1, p->m}
                                 : (gx_cuda_place){p->out[k].data, p->out[k].row, p->out[k].col};
        call->fold[k] = (unsigned char)reduced(r);
        work += is_folded ? fold_bytes(p, r) : 0;
    }
}

/* A thread for some elements; so many thread blocks that folding them is little work. */
static void shape_call(gx_cuda_fused *call, gx_cuda_dim *grid, gx_cuda_dim *block)
{
    bool is_reduced = false;
    gx_cuda_shape(call->m, call->n, grid, block);
    for (int k = 0; k < call->outputs; k++) {
        is_reduced = is_reduced || call->fold[k] != 0;
    }
    if (is_reduced) {
        grid->x = (unsigned)gx_min(grid->x, FOLD_BLOCKS);
        grid->y = (unsigned)gx_min(grid->y, FOLD_BLOCKS / grid->x);
    }
    call->blocks = (int)(grid->x * grid->y);
}

static gx_code fused(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    gx_cuda_fused call;
    gx_cuda_dim block, grid;
    void *list[] = {&call};
    write_call(p, &call);
    if (is_flat(&call)) {
        call.m *= call.n;
        call.n = gx_min(call.n, 1);
    }
    if (call.m > 0 && call.n > 0) {
        double elements = (double)call.m * (double)call.n;
        gx_cuda_handle kernel = kernel_for(dev, p->fused, elements * (1 + p->more));
        shape_call(&call, &grid, &block);
        int status = dev->api->launch(kernel, grid, block, list, 0, queue->stream);
        GX_TRY(gx_cuda_check(dev, status, "cudaLaunchKernel", err));
    }
    char *work = p->work;
    for (int k = 0; k < p->fused->outputs; k++) {
        if (p->fused->output[k].fold != GX_FOLD_NONE) {
            GX_TRY(fold_output(dev, queue, dtype, p, k, call.blocks, work, err));
            work += fold_bytes(p, &p->fused->output[k]);
        }
    }
    return GX_OK;
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_fused, fused)
