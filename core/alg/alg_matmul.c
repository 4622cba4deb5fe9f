/*
** Product, C = alpha op(A) op(B) + beta C0, of matrices of any size.
**
**   for each rectangle of blocks of C:                      (stays in memory)
**       for each k:                                         (A and B pass by)
**           C[i,j] += alpha op(A)[i,k] op(B)[k,j]           for all i, j of the rectangle
**
** Work 2 m n k flops.  Reads about 2 m n k / sqrt(S) words with S words of memory, the lower bound
** up to a constant (Hong & Kung 1981; Irony, Toledo & Tiskin 2004); each tile of C is written
** once.  Minimum memory: three blocks.  beta = 0 never reads C0.
**
** A times its own transpose computes the blocks on and below the diagonal only (syrk, herk), and
** mirrors them: half the flops.
**
** What is done to the product's elements (args->after) is done to each block as soon as it is
** finished, so the product itself is never written: one step more a block, which reads the other
** operands' blocks.
**
** Operands that are values in memory, with a value as result, go to the kernel as they are.
*/
#include "alg.h"
#include "by_parts.h"

#include "../run/call.h"
#include "narrow.h"
#include "plan.h"
#include "probe.h"

gx_code gx_matmul_shape(const gx_matmul_args *args, int64_t *m, int64_t *n, gx_number *dtype,
                        gx_err *err)
{
    const gx_mat *A = args->A, *B = args->B, *C0 = args->C0;
    int64_t ka = args->transa == GX_NO_TRANS ? A->cols : A->rows;
    int64_t kb = args->transb == GX_NO_TRANS ? B->rows : B->cols;
    *m = args->transa == GX_NO_TRANS ? A->rows : A->cols;
    *n = args->transb == GX_NO_TRANS ? B->cols : B->rows;
    if (ka != kb) {
        return gx_fail(err, GX_ARG,
                       "%s%s is %lldx%lld but %s%s is %lldx%lld: the inner sides %lld and %lld "
                       "differ",
                       A->label, args->transa == GX_NO_TRANS ? "" : " transposed", (long long)*m,
                       (long long)ka, B->label, args->transb == GX_NO_TRANS ? "" : " transposed",
                       (long long)kb, (long long)*n, (long long)ka, (long long)kb);
    }
    if (C0 != NULL && (C0->rows != *m || C0->cols != *n)) {
        return gx_fail(err, GX_ARG,
                       "%s to accumulate into is %lldx%lld but the product is %lldx%lld", C0->label,
                       (long long)C0->rows, (long long)C0->cols, (long long)*m, (long long)*n);
    }
    *dtype = gx_number_promote(A->number, B->number);
    if (C0 != NULL) {
        *dtype = gx_number_promote(*dtype, C0->number);
    }
    if (args->alpha.im != 0 || args->beta.im != 0) {
        *dtype = gx_number_promote(*dtype, GX_C64);
    }
    return GX_OK;
}

// Everything in memory ----------------------------------------------------------------------------

static bool is_in_memory(const gx_mat *X, gx_number dtype)
{
    return X->kind == GX_MAT_VALUE && X->number == dtype;
}

static void multiply_values(gx_run *run, const gx_matmul_args *args, gx_sink *C)
{
    const gx_mat *A = args->A, *B = args->B;
    gx_args call = {.transa = args->transa,
                    .transb = args->transb,
                    .m = C->rows,
                    .n = C->cols,
                    .k = args->transa == GX_NO_TRANS ? A->cols : A->rows,
                    .alpha = args->alpha,
                    .beta = args->C0 == NULL ? (gx_scalar){0, 0} : args->beta,
                    .a = A->data,
                    .lda = gx_max(1, A->ld),
                    .b = B->data,
                    .ldb = gx_max(1, B->ld),
                    .c = C->value.data,
                    .ldc = gx_max(1, C->rows)};
    gx_run_call(run, GX_GEMM, C->number, &call);
}

/*
** C0 is what lies where C goes: one call of the kernel, since what is made again, or looked through
** (probe.c), would find C0 gone.
*/
static gx_code multiply_onto(gx_run *run, const gx_matmul_args *args, gx_sink *C)
{
    if (!is_in_memory(args->A, C->number) || !is_in_memory(args->B, C->number)) {
        return gx_run_failf(run, GX_ARG,
                            "\"beta\" adds to a lent array products of such that are in memory "
                            "too, and of its dtype");
    }
    multiply_values(run, args, C);
    return gx_ok(run) ? GX_OK : run->err.code;
}

// The program -------------------------------------------------------------------------------------

/* The parts of a product's program. */
typedef struct product {
    gx_run *run;
    gx_prog *prog;
    const gx_matmul_args *args;
    const gx_matmul_plan *plan;
    const gx_opnd *A, *B, *C;
    const gx_opnd *whole; /* what blocks of C are copied together in; NULL: they are the result */
    const gx_opnd *other[GX_FUSED_INPUTS]; /* what comes after the product: its operands        */
    int64_t grid_k;
    bool has_c0;
    gx_dtype half; /* of both factors (gx_dtype_half()) */
} product;

static gx_block left(const product *p, int64_t i, int64_t k)
{
    return p->args->transa == GX_NO_TRANS ? gx_blk(p->A, i, k) : gx_blk(p->A, k, i);
}

static gx_block right(const product *p, int64_t k, int64_t j)
{
    return p->args->transb == GX_NO_TRANS ? gx_blk(p->B, k, j) : gx_blk(p->B, j, k);
}

/* A block of C is finished: what comes after the product, in its place. */
static void finish_block(const product *p, int64_t i, int64_t j)
{
    const gx_after *after = p->args->after;
    gx_block in[GX_FUSED_INPUTS] = {{0}};
    for (int k = 0; after != NULL && k < after->f->inputs; k++) {
        const gx_opnd *m = k == after->product ? p->C : p->other[k];
        in[k] = gx_blk(m, m->grid_rows == 1 ? 0 : i, m->grid_cols == 1 ? 0 : j);
    }
    if (after != NULL) {
        gx_prog_call(p->prog, &(gx_call){.kernel = GX_FUSED,
                                         .a = in[0],
                                         .b = in[1],
                                         .more = in + 2,
                                         .c = gx_blk(p->C, i, j),
                                         .keeps_c = true});
    }
}

/* Zeros of a composite, which are no numbers: whatever they are multiplied by is zero. */
static bool is_void(const gx_opnd *m, gx_block b)
{
    int64_t i0 = b.i * m->block_rows, j0 = b.j * m->block_cols;
    return m->source != NULL &&
           gx_mat_is_void(m->source, i0, j0, gx_min(m->block_rows, m->rows - i0),
                          gx_min(m->block_cols, m->cols - j0));
}

/* Nothing is added: a block of C that begins so is zero, or what it begins from. */
static void begin_block(const product *p, gx_block c)
{
    gx_call scale = {.kernel = GX_MAP, .map = GX_MAP_SCALE, .alpha = p->args->beta, .a = c, .c = c};
    gx_call fill = {.kernel = GX_FILL, .c = c};
    scale.keeps_c = true;
    gx_prog_call(p->prog, p->has_c0 ? &scale : &fill);
}

/* C[i,j] += alpha op(A)[i,k] op(B)[k,j]; the first k of a block starts it. */
static void multiply_block(const product *p, int64_t i, int64_t j, int64_t k, bool is_first)
{
    if (is_void(p->A, left(p, i, k)) || is_void(p->B, right(p, k, j))) {
        if (is_first) {
            begin_block(p, gx_blk(p->C, i, j));
        }
        return;
    }
    gx_call call = {.kernel = GX_GEMM,
                    .transa = p->args->transa,
                    .transb = p->args->transb,
                    .half = p->half,
                    .alpha = p->args->alpha,
                    .a = left(p, i, k),
                    .b = right(p, k, j),
                    .c = gx_blk(p->C, i, j),
                    .beta = GX_ONE,
                    .keeps_c = true};
    if (is_first) {
        call.beta = p->has_c0 ? p->args->beta : (gx_scalar){0, 0};
        call.keeps_c = p->has_c0;
    }
    if (p->plan->is_syrk && i == j) {
        call.kernel = p->plan->is_hermitian ? GX_HERK : GX_SYRK;
        call.b = (gx_block){0};
        call.transb = GX_NO_TRANS;
        call.uplo = GX_LOWER;
    }
    gx_prog_call(p->prog, &call);
}

/* A rectangle of blocks [i0, i1) x [j0, j1) of C, k once through in the given direction. */
static void multiply_rectangle(const product *p, int64_t i0, int64_t i1, int64_t j0, int64_t j1,
                               bool is_backward)
{
    bool is_tall = i1 - i0 > j1 - j0;
    for (int64_t q = 0; q < p->grid_k; q++) {
        int64_t k = is_backward ? p->grid_k - 1 - q : q;
        // The shorter side's panel stays; the longer side's blocks pass one at a time.
        int64_t outer0 = is_tall ? i0 : j0, outer1 = is_tall ? i1 : j1;
        int64_t inner0 = is_tall ? j0 : i0, inner1 = is_tall ? j1 : i1;
        for (int64_t o = outer0; o < outer1; o++) {
            for (int64_t n = inner0; n < inner1; n++) {
                int64_t i = is_tall ? o : n, j = is_tall ? n : o;
                if (!p->plan->is_syrk || i >= j) {
                    multiply_block(p, i, j, k, q == 0);
                }
                if (!p->plan->is_syrk && q == p->grid_k - 1) {
                    finish_block(p, i, j);
                }
            }
        }
    }
}

/*
** The half that syrk did not compute: C[j,i] = C[i,j]^T, and the diagonal blocks' upper triangles.
*/
static void mirror_rectangle(const product *p, int64_t i0, int64_t i1, int64_t j0, int64_t j1)
{
    gx_trans trans = p->plan->is_hermitian ? GX_CONJ_TRANS : GX_TRANS;
    for (int64_t j = j0; j < j1; j++) {
        for (int64_t i = gx_max(i0, j); i < i1; i++) {
            gx_call call = {.kernel = i == j ? GX_SYMMETRIZE : GX_TRANSPOSE,
                            .transa = trans,
                            .uplo = GX_LOWER,
                            .c = gx_blk(p->C, j, i),
                            .keeps_c = i == j};
            if (i != j) {
                call.a = gx_blk(p->C, i, j);
            }
            gx_prog_call(p->prog, &call);
            finish_block(p, j, i);
            if (i != j) {
                finish_block(p, i, j);
            }
        }
    }
}

/* The finished blocks of C into their places. */
static void gather_rectangle(const product *p, int64_t i0, int64_t i1, int64_t j0, int64_t j1)
{
    for (int64_t j = j0; j < j1; j++) {
        for (int64_t i = i0; i < i1; i++) {
            int64_t row = i * p->C->block_rows, col = j * p->C->block_cols;
            int64_t rows = gx_min(p->C->block_rows, p->C->rows - row);
            int64_t cols = gx_min(p->C->block_cols, p->C->cols - col);
            gx_prog_call(p->prog, &(gx_call){.kernel = GX_COPY,
                                             .a = gx_blk(p->C, i, j),
                                             .c = gx_blk_part(p->whole, 0, 0, row, col, rows, cols),
                                             .keeps_c = true});
        }
    }
}

static void multiply_all(const product *p)
{
    const gx_matmul_plan *plan = p->plan;
    bool is_backward = false;
    bool goes_up = false;
    for (int64_t j0 = 0; j0 < p->C->grid_cols; j0 += plan->super_n) {
        int64_t j1 = gx_min(j0 + plan->super_n, p->C->grid_cols);
        int64_t count = gx_ceil_div(p->C->grid_rows, plan->super_m);
        for (int64_t q = 0; q < count && gx_ok(p->run); q++) {
            int64_t i0 = (goes_up ? count - 1 - q : q) * plan->super_m;
            int64_t i1 = gx_min(i0 + plan->super_m, p->C->grid_rows);
            if (plan->is_syrk && i1 <= j0) {
                continue;
            }
            multiply_rectangle(p, i0, i1, j0, j1, is_backward);
            if (plan->is_syrk) {
                mirror_rectangle(p, i0, i1, j0, j1);
            } else if (plan->is_gathered) {
                gather_rectangle(p, i0, i1, j0, j1);
            }
            is_backward = plan->is_snake ? !is_backward : false;
        }
        goes_up = !goes_up;
    }
}

/* k = 0: nothing to multiply, but C is still beta C0 or zero. */
static void scale_all(const product *p)
{
    for (int64_t j = 0; j < p->C->grid_cols; j++) {
        for (int64_t i = 0; i < p->C->grid_rows; i++) {
            begin_block(p, gx_blk(p->C, i, j));
            finish_block(p, i, j);
        }
    }
}

/* The operands of what comes after: blocks as C's, or one where they spread. */
static void name_others(product *p)
{
    const gx_after *after = p->args->after;
    gx_prog_fuse(p->prog, after->f);
    for (int k = 0; k < after->f->inputs; k++) {
        const gx_mat *s = k == after->product ? NULL : after->source[k];
        if (s != NULL) {
            p->other[k] = gx_prog_operand(p->prog, s, NULL, p->plan->dtype, s->rows, s->cols,
                                          gx_min(p->plan->block_m, s->rows),
                                          gx_min(p->plan->block_n, s->cols));
        }
    }
}

gx_prog *gx_matmul_program(gx_run *run, const gx_matmul_args *args, const gx_matmul_plan *plan,
                           gx_sink *C)
{
    product p = {.run = run, .args = args, .plan = plan};
    p.half = gx_dtype_half(gx_mat_narrow(args->A, C->number), gx_mat_narrow(args->B, C->number));
    if (gx_prog_create(run, gx_plan_matmul_calls(plan), &p.prog) != GX_OK) {
        return NULL;
    }
    const gx_mat *A = args->A, *B = args->B;
    bool is_a_plain = args->transa == GX_NO_TRANS, is_b_plain = args->transb == GX_NO_TRANS;
    p.A = gx_prog_operand(p.prog, A, NULL, plan->dtype, A->rows, A->cols,
                          is_a_plain ? plan->block_m : plan->block_k,
                          is_a_plain ? plan->block_k : plan->block_m);
    // syrk has one operand: a block is loaded once; block_m == block_n cuts both the same way.
    p.B = plan->is_syrk ? p.A
                        : gx_prog_operand(p.prog, B, NULL, plan->dtype, B->rows, B->cols,
                                          is_b_plain ? plan->block_k : plan->block_n,
                                          is_b_plain ? plan->block_n : plan->block_k);
    p.has_c0 = args->C0 != NULL && (args->beta.re != 0 || args->beta.im != 0);
    p.C = gx_prog_operand(p.prog, p.has_c0 ? args->C0 : NULL, plan->is_gathered ? NULL : C,
                          plan->dtype, plan->m, plan->n, plan->block_m, plan->block_n);
    p.whole = !plan->is_gathered ? NULL
                                 : gx_prog_operand(p.prog, NULL, C, plan->dtype, plan->m, plan->n,
                                                   plan->m, plan->n);
    if (args->after != NULL) {
        name_others(&p);
    }
    p.grid_k = gx_ceil_div(plan->k, plan->block_k);
    gx_prog_cut(p.prog, &plan->cut);
    gx_prog_lookahead(p.prog, plan->lookahead);
    if (p.grid_k == 0) {
        scale_all(&p);
    } else if (gx_ok(run)) {
        multiply_all(&p);
    }
    return p.prog;
}

/* What was written, against what it was made from (probe.c). */
static void check_product(gx_run *run, const gx_matmul_args *args, int64_t inner, const gx_sink *C)
{
    double m = (double)C->rows, n = (double)C->cols, k = (double)inner;
    double elements = m * k + k * n + m * n;
    double bytes = elements * (double)gx_number_bytes(C->number);
    gx_mat result;
    if (gx_ok(run) && args->after == NULL &&
        gx_probe_is_due(run, C->number, 2 * m * n * k, bytes, elements, bytes)) {
        gx_sink_source(C, "C", &result);
        gx_probe_product(run, args, &result);
    }
}

/* What build_product() is told. */
typedef struct build_args {
    const gx_matmul_args *args;
    gx_sink *C;
} build_args;

static gx_prog *build_product(gx_run *run, void *arg)
{
    const build_args *b = arg;
    gx_matmul_plan plan;
    gx_plan_matmul(run, b->args, b->C->tile_rows, b->C->tile_cols, &plan);
    gx_plan_matmul_result(b->C, &plan);
    return gx_matmul_program(run, b->args, &plan, b->C);
}

/*
** With few columns, or rows: by a streamed pass, unless a device is faster.  false: not narrow.
** Centred columns are made by the processor that reads them, and stay with it unless the settings
** say otherwise.
*/
static bool multiply_narrow(gx_run *run, const gx_matmul_args *args, double flops, gx_sink *C)
{
    gx_narrow plan;
    gx_cost cost;
    gx_terms terms;
    if (args->after != NULL || !gx_narrow_plan(run, args, C, &plan)) {
        return false;
    }
    gx_narrow_predict(run, &plan, C, &cost, &terms);
    bool is_hosts = plan.S->kind == GX_MAT_CENTRED &&
                    run->ctx->config.number[GX_SET_BACKEND] != GX_BACKEND_CUDA;
    build_args build = {args, C};
    if (is_hosts || !gx_place_on_device(run, flops, C->number, build_product, &build, &terms)) {
        gx_narrow_run(run, &plan, C);
    }
    return true;
}

gx_code gx_alg_matmul(gx_run *run, const gx_matmul_args *args, gx_sink *C)
{
    if (!gx_ok(run)) {
        return run->err.code;
    }
    int64_t k = args->transa == GX_NO_TRANS ? args->A->cols : args->A->rows;
    if (args->C0 != NULL && C->is_lent) {
        return multiply_onto(run, args, C);
    }
    if (gx_parts_multiply(run, args, C)) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    gx_args size = {.m = C->rows, .n = C->cols, .k = k};
    double flops = gx_kernel_flops(GX_GEMM, C->number, &size);
    if (multiply_narrow(run, args, flops, C)) {
        check_product(run, args, k, C);
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    // A value times its own transpose goes the long way, so that it is symmetric to the last bit.
    bool is_in_values = !C->is_stored && args->C0 == NULL && args->after == NULL &&
                        args->A->data != args->B->data && is_in_memory(args->A, C->number) &&
                        is_in_memory(args->B, C->number);
    size_t device_bytes;
    if (is_in_values && gx_place_candidate(run, flops, C->number, &device_bytes) == NULL) {
        gx_place_owe(run, flops, C->number);
        multiply_values(run, args, C);
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    gx_place_run(run, flops, C->number, build_product, &(build_args){args, C});
    check_product(run, args, k, C);
    return gx_ok(run) ? GX_OK : run->err.code;
}
