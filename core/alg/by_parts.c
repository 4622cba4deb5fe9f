/*
** Products with composites, part by part: by_parts.h.
*/
#include "by_parts.h"

#include "../run/call.h"
#include "dense.h"
#include "spmm.h"

#include <math.h>
#include <string.h>

/* A composite of more is read as one matrix. */
enum { FEW_LEAVES = 64 };

// Columns -----------------------------------------------------------------------------------------

gx_vectors gx_parts_columns(const gx_parts *p, int64_t rows, int64_t cols)
{
    size_t bytes = 0;
    gx_vectors x = {.rows = rows, .cols = cols, .ld = gx_max(1, rows)};
    if (!gx_matrix_bytes(rows, cols, p->dtype, &bytes)) {
        gx_run_failf(p->run, GX_TOOBIG, "%lldx%lld numbers: " GX_SIZES_TEXT, (long long)rows,
                     (long long)cols);
        return x;
    }
    x.data = gx_run_alloc(p->run, bytes, "columns of a product by parts");
    return x;
}

static void clear(const gx_parts *p, gx_vectors x)
{
    gx_args args = {.m = x.rows, .n = x.cols, .c = x.data, .ldc = x.ld};
    gx_run_call(p->run, GX_FILL, p->dtype, &args);
}

gx_vectors gx_parts_zeros(const gx_parts *p, int64_t rows, int64_t cols)
{
    gx_vectors x = gx_parts_columns(p, rows, cols);
    if (gx_ok(p->run)) {
        clear(p, x);
    }
    return x;
}

void gx_parts_free(const gx_parts *p, gx_vectors *x)
{
    gx_mem_free(p->run->ctx->mem, x->data);
    x->data = NULL;
}

gx_vectors gx_parts_rows(const gx_parts *p, gx_vectors x, int64_t row, int64_t rows)
{
    x.data = gx_at(x.data, p->dtype, x.ld, row, 0);
    x.rows = rows;
    return x;
}

gx_vectors gx_parts_part(const gx_parts *p, gx_vectors x, int64_t col, int64_t cols)
{
    x.data = gx_at(x.data, p->dtype, x.ld, 0, col);
    x.cols = cols;
    return x;
}

gx_parts_steps gx_parts_choose(const gx_parts *p, int64_t cols, int64_t tile, double held,
                               double taken)
{
    double number = (double)gx_number_bytes(p->dtype);
    double room = (double)gx_mem_available(p->run->ctx->mem) / number;
    int64_t whole = gx_max(1, gx_min(tile, cols));
    if ((held + taken) * (double)cols <= room / 2) {
        return (gx_parts_steps){gx_max(1, cols), gx_max(1, cols)};
    }
    double groups = floor(room / 3 / fmax(1, held * (double)whole));
    gx_parts_steps s = {.group = whole * (int64_t)fmax(1, fmin(groups, (double)cols))};
    double left = room - held * (double)s.group;
    s.step = (int64_t)fmax(1, fmin(left * 2 / 3 / fmax(1, taken), (double)s.group));
    return s;
}

void gx_parts_begin_way(const gx_parts *p, gx_sink *C, double held, bool is_by_rows,
                        gx_parts_way *way)
{
    const int64_t LONG = 1 << 15, NARROW = 16;
    int64_t tile = is_by_rows ? gx_min(C->tile_rows, C->rows) : gx_min(C->tile_cols, C->cols);
    double bytes = held * (double)tile * (double)gx_number_bytes(p->dtype);
    size_t available = gx_mem_available(p->run->ctx->mem);
    *way = (gx_parts_way){.to = C};
    if (C->is_stored && tile > NARROW && bytes > (double)available / 2) {
        way->final = C;
        way->to = &way->narrow;
        gx_sink_begin_scratch_tiles(p->run, C->rows, C->cols, C->number, available,
                                    is_by_rows ? NARROW : gx_min(LONG, C->rows),
                                    is_by_rows ? gx_min(LONG, C->cols) : NARROW, &way->narrow);
    }
}

void gx_parts_end_way(const gx_parts *p, gx_parts_way *way)
{
    gx_mat made;
    if (way->final != NULL && gx_ok(p->run)) {
        gx_sink_source(&way->narrow, "the result", &made);
        gx_copy_to_sink(p->run, &made, way->final);
    }
    if (way->final != NULL) {
        gx_sink_drop(&way->narrow);
    }
}

static void map(const gx_parts *p, gx_args *args, gx_vectors out)
{
    args->m = out.rows;
    args->n = out.cols;
    args->c = out.data;
    args->ldc = out.ld;
    gx_run_call(p->run, GX_MAP, p->dtype, args);
}

void gx_parts_copy(const gx_parts *p, gx_vectors from, gx_vectors to)
{
    gx_args args = {.m = to.rows, .n = to.cols, .a = from.data, .lda = from.ld};
    args.c = to.data;
    args.ldc = to.ld;
    gx_run_call(p->run, GX_COPY, p->dtype, &args);
}

void gx_parts_add(const gx_parts *p, gx_scalar factor, gx_vectors x, gx_vectors y)
{
    gx_args args = {.map = GX_MAP_ADD, .alpha = factor, .a = x.data, .lda = x.ld, .beta = GX_ONE};
    args.b = y.data;
    args.ldb = y.ld;
    map(p, &args, y);
}

void gx_parts_scale(const gx_parts *p, gx_scalar factor, gx_vectors x)
{
    if (factor.re != 1 || factor.im != 0) {
        gx_args args = {.map = GX_MAP_SCALE, .alpha = factor, .a = x.data, .lda = x.ld};
        map(p, &args, x);
    }
}

static void conjugate(const gx_parts *p, gx_vectors x)
{
    gx_args args = {.map = GX_MAP_CONJ, .a = x.data, .lda = x.ld};
    map(p, &args, x);
}

void gx_parts_load(const gx_parts *p, gx_turned A, gx_vectors to)
{
    gx_mat view;
    gx_mat_view(&view, A.A, A.is_turned ? GX_TRANS : GX_NO_TRANS, 0, 0, to.rows, to.cols);
    gx_dense_load(p->run, &view, p->dtype, to.data, to.ld);
    if (A.is_conjugated && gx_number_is_complex(p->dtype)) {
        conjugate(p, to);
    }
}

void gx_parts_write(const gx_parts *p, gx_sink *to, int64_t i0, int64_t j0, gx_vectors x)
{
    gx_err err = {0};
    int64_t high = gx_max(1, to->tile_rows), wide = gx_max(1, to->tile_cols);
    for (int64_t j = 0; j < x.cols && gx_ok(p->run); j += wide) {
        for (int64_t i = 0; i < x.rows && gx_ok(p->run); i += high) {
            gx_sink_write(to, i0 + i, j0 + j, gx_min(high, x.rows - i), gx_min(wide, x.cols - j),
                          gx_at(x.data, p->dtype, x.ld, i, j), x.ld, &err);
            gx_run_fail(p->run, &err);
        }
    }
}

void gx_parts_multiply_add(const gx_parts *p, gx_trans trans, gx_scalar alpha, gx_vectors a,
                           gx_vectors x, gx_scalar beta, gx_vectors y)
{
    gx_args args = {.transa = trans, .m = y.rows, .n = y.cols, .k = x.rows, .alpha = alpha};
    args.beta = beta;
    args.a = a.data;
    args.lda = a.ld;
    args.b = x.data;
    args.ldb = x.ld;
    args.c = y.data;
    args.ldc = y.ld;
    gx_run_call(p->run, GX_GEMM, p->dtype, &args);
}

void *gx_parts_vector(const gx_parts *p, const gx_mat *v, gx_number dtype)
{
    void *x = gx_dense_take(p->run, dtype, v->rows, v->cols, "a vector of a part");
    if (x != NULL) {
        gx_dense_load(p->run, v, dtype, x, gx_max(1, v->rows));
    }
    return x;
}

void gx_parts_shuffle(const gx_parts *p, int64_t n1, int64_t n2, gx_vectors X, gx_vectors Y)
{
    for (int64_t c = 0; c < X.cols; c++) {
        gx_args args = {.transa = GX_TRANS, .m = n1, .n = n2, .lda = gx_max(1, n2)};
        args.a = gx_at(X.data, p->dtype, X.ld, 0, c);
        args.c = gx_at(Y.data, p->dtype, Y.ld, 0, c);
        args.ldc = gx_max(1, n1);
        gx_run_call(p->run, GX_TRANSPOSE, p->dtype, &args);
    }
}

// Leaves ------------------------------------------------------------------------------------------

gx_leaf gx_parts_leaf(const gx_leaf *leaf, bool is_turned, bool is_conjugated)
{
    gx_leaf out = *leaf;
    if (is_turned) {
        gx_leaf_turn(&out);
    }
    if (is_conjugated) {
        out.is_conjugated = !out.is_conjugated;
        out.factor.im = -out.factor.im;
    }
    return out;
}

/* Y = op(S) X of a matrix that is read, by the driver that knows where. */
static void multiply_plain(const gx_parts *p, gx_turned S, gx_vectors X, gx_vectors Y)
{
    gx_run *run = p->run;
    gx_mat x;
    gx_sink to;
    gx_trans trans = S.is_turned ? GX_TRANS : GX_NO_TRANS;
    if (S.A->is_sparse) {
        gx_sparse_apply(run, S.A, trans, p->dtype, X.cols, X.data, X.ld, Y.data, Y.ld);
        return;
    }
    gx_landing place = {Y.data, Y.rows, Y.cols, gx_dtype_of(p->dtype)};
    gx_mat_value(&x, "x", p->dtype, X.rows, X.cols, X.data, X.ld);
    if (gx_ok(run) && gx_sink_begin_lent(run, &place, p->dtype, &to) == GX_OK) {
        run->ctx->drivers->multiply(
            run, &(gx_matmul_args){.A = S.A, .B = &x, .transa = trans, .alpha = {1, 0}}, &to);
        gx_sink_end(&to);
    }
}

/* Y = (A kron B) X: B (as many matrices as X has columns), turned, A, turned back. */
static void multiply_kron(const gx_parts *p, gx_turned A, gx_turned B, gx_vectors X, gx_vectors Y)
{
    int64_t m1 = A.is_turned ? A.A->cols : A.A->rows, n1 = A.is_turned ? A.A->rows : A.A->cols;
    int64_t m2 = B.is_turned ? B.A->cols : B.A->rows, n2 = B.is_turned ? B.A->rows : B.A->cols;
    gx_vectors one = gx_parts_columns(p, m2 * n1, X.cols),
               two = gx_parts_columns(p, n1 * m2, X.cols);
    gx_vectors three = gx_parts_columns(p, m1 * m2, X.cols);
    for (int64_t c = 0; c < X.cols && gx_ok(p->run) && X.ld != X.rows; c++) {
        gx_vectors in = {n2, n1, n2, gx_at(X.data, p->dtype, X.ld, 0, c)};
        gx_vectors out = {m2, n1, m2, gx_at(one.data, p->dtype, one.ld, 0, c)};
        gx_parts_apply(p, B, GX_ONE, in, out);
    }
    if (gx_ok(p->run) && X.ld == X.rows) { // all columns at once
        gx_parts_apply(p, B, GX_ONE, (gx_vectors){n2, n1 * X.cols, n2, X.data},
                       (gx_vectors){m2, n1 * X.cols, m2, one.data});
    }
    if (gx_ok(p->run)) {
        gx_parts_shuffle(p, n1, m2, one, two);
        gx_parts_apply(p, A, GX_ONE, (gx_vectors){n1, m2 * X.cols, n1, two.data},
                       (gx_vectors){m1, m2 * X.cols, m1, three.data});
        gx_parts_shuffle(p, m2, m1, three, Y);
    }
    gx_parts_free(p, &one);
    gx_parts_free(p, &two);
    gx_parts_free(p, &three);
}

/* Y = (L R) X, turned: R' L' X. */
static void multiply_product(const gx_parts *p, const gx_leaf *leaf, gx_vectors X, gx_vectors Y)
{
    gx_turned L = {&leaf->base, leaf->is_turned, false},
              R = {&leaf->second, leaf->is_turned, false};
    gx_vectors between = gx_parts_columns(p, leaf->base.cols, X.cols);
    if (gx_ok(p->run)) {
        gx_parts_apply(p, leaf->is_turned ? L : R, GX_ONE, X, between);
        gx_parts_apply(p, leaf->is_turned ? R : L, GX_ONE, between, Y);
    }
    gx_parts_free(p, &between);
}

static void multiply_diagonal(const gx_parts *p, const gx_leaf *leaf, gx_vectors X, gx_vectors Y)
{
    int64_t shift = leaf->is_turned ? -leaf->offset : leaf->offset;
    int64_t count = leaf->base.rows * leaf->base.cols;
    void *d = gx_parts_vector(p, &leaf->base, p->dtype);
    gx_vectors x = gx_parts_rows(p, X, gx_max(shift, 0), count);
    gx_vectors y = gx_parts_rows(p, Y, gx_max(-shift, 0), count);
    gx_args args = {.map = GX_MAP_MUL, .a = x.data, .lda = x.ld, .b = d, .ldb = 0};
    if (gx_ok(p->run)) {
        map(p, &args, y);
    }
    gx_mem_free(p->run->ctx->mem, d);
}

/*
** Row i of Y is row p[i] of X; turned, row i of X is added to row p[i] of Y, where a place may come
** twice.
*/
static void multiply_permutation(const gx_parts *p, const gx_leaf *leaf, gx_vectors X, gx_vectors Y)
{
    gx_err err = {0};
    double *place = gx_parts_vector(p, &leaf->base, GX_F64);
    for (int64_t i = 0; i < X.rows && gx_ok(p->run); i++) {
        int64_t k = 0;
        if (gx_leaf_place(leaf, i, place[i], &k, &err) != GX_OK) {
            gx_run_fail(p->run, &err);
        }
        int64_t from = leaf->is_turned ? i : k, to = leaf->is_turned ? k : i;
        for (int64_t c = 0; c < X.cols; c++) {
            void *y = gx_at(Y.data, p->dtype, Y.ld, to, c);
            gx_scalar x = gx_number_get(p->dtype, X.data, from + c * X.ld);
            gx_scalar old = gx_number_get(p->dtype, y, 0);
            gx_number_put(p->dtype, y, 0, (gx_scalar){old.re + x.re, old.im + x.im});
        }
    }
    gx_mem_free(p->run->ctx->mem, place);
}

/* Y = leaf X, but for its factor and conjugation. */
static void multiply_leaf(const gx_parts *p, const gx_leaf *leaf, gx_vectors X, gx_vectors Y)
{
    gx_turned A = {&leaf->base, leaf->is_turned, false},
              B = {&leaf->second, leaf->is_turned, false};
    gx_mat alone;
    switch (leaf->kind) {
    case GX_LEAF_NUMBER:
        gx_parts_copy(p, X, Y);
        break;
    case GX_LEAF_DIAGONAL:
        multiply_diagonal(p, leaf, X, Y);
        break;
    case GX_LEAF_PERMUTATION:
        multiply_permutation(p, leaf, X, Y);
        break;
    case GX_LEAF_KRON:
        multiply_kron(p, A, B, X, Y);
        break;
    case GX_LEAF_PRODUCT:
        multiply_product(p, leaf, X, Y);
        break;
    case GX_LEAF_MATRIX:
        if (gx_mat_is_structured(A.A)) {
            gx_parts_apply(p, A, GX_ONE, X, Y);
        } else {
            multiply_plain(p, A, X, Y);
        }
        break;
    default: { // told by vectors: elements are made as they are multiplied
        gx_leaf only = *leaf;
        only.i0 = only.j0 = 0;
        only.factor = GX_ONE;
        only.is_conjugated = only.adds = false;
        gx_mat_composite(&alone, "a part", p->dtype, leaf->rows, leaf->cols);
        alone.leaf = &only;
        alone.leaves = 1;
        multiply_plain(p, (gx_turned){&alone, false, false}, X, Y);
    }
    }
}

/* Y = leaf X, but for its factor, in place: a vector, or columns without gaps. */
static void multiply_in_place(const gx_parts *p, const gx_leaf *leaf, gx_vectors X, gx_vectors Y)
{
    bool is_conjugated = leaf->is_conjugated && gx_number_is_complex(p->dtype);
    bool has_holes =
        leaf->kind == GX_LEAF_PERMUTATION || (leaf->kind == GX_LEAF_DIAGONAL && leaf->offset != 0);
    gx_vectors x = {0};
    if (has_holes) {
        clear(p, Y);
    }
    if (is_conjugated) { // conj(A) x = conj(A conj(x))
        x = gx_parts_columns(p, X.rows, X.cols);
        if (gx_ok(p->run)) {
            gx_parts_copy(p, X, x);
            conjugate(p, x);
        }
    }
    if (gx_ok(p->run)) {
        multiply_leaf(p, leaf, is_conjugated ? x : X, Y);
    }
    if (is_conjugated && gx_ok(p->run)) {
        conjugate(p, Y);
    }
    gx_parts_free(p, &x);
}

void gx_parts_apply_leaf(const gx_parts *p, const gx_leaf *leaf, gx_scalar alpha, bool adds,
                         gx_vectors X, gx_vectors Y)
{
    gx_scalar factor = gx_scalar_times(alpha, leaf->factor);
    Y.ld = Y.cols == 1 ? gx_max(1, Y.rows) : Y.ld;
    if (leaf->kind == GX_LEAF_NUMBER && adds) {
        gx_parts_add(p, factor, X, Y);
    } else if (!adds && Y.ld == gx_max(1, Y.rows)) {
        multiply_in_place(p, leaf, X, Y);
        gx_parts_scale(p, factor, Y);
    } else {
        gx_vectors y = gx_parts_columns(p, Y.rows, Y.cols);
        if (gx_ok(p->run)) {
            multiply_in_place(p, leaf, X, y);
        }
        if (gx_ok(p->run) && adds) {
            gx_parts_add(p, factor, y, Y);
        } else if (gx_ok(p->run)) {
            gx_parts_copy(p, y, Y);
            gx_parts_scale(p, factor, Y);
        }
        gx_parts_free(p, &y);
    }
}

/* Rows of Y from `from` to before `to` become zeros. */
static void clear_rows(const gx_parts *p, gx_vectors Y, int64_t from, int64_t to)
{
    if (from < to) {
        clear(p, gx_parts_rows(p, Y, from, to - from));
    }
}

gx_code gx_parts_apply(const gx_parts *p, gx_turned A, gx_scalar alpha, gx_vectors X, gx_vectors Y)
{
    gx_leaf whole = {.rows = A.A->rows, .cols = A.A->cols, .factor = GX_ONE};
    bool has_parts = A.A->kind == GX_MAT_COMPOSITE && !A.A->is_whole && A.A->leaves <= FEW_LEAVES;
    bool is_parts = has_parts || gx_mat_is_structured(A.A);
    int64_t done = 0; // rows of Y that have something
    if (!is_parts) {
        whole.base = *A.A;
    }
    for (int64_t k = 0; k < (is_parts ? A.A->leaves : 1) && gx_ok(p->run); k++) {
        gx_leaf leaf =
            gx_parts_leaf(is_parts ? &A.A->leaf[k] : &whole, A.is_turned, A.is_conjugated);
        int64_t end = leaf.i0 + leaf.rows;
        bool adds = leaf.i0 < done;
        clear_rows(p, Y, done, adds ? end : leaf.i0);
        gx_parts_apply_leaf(p, &leaf, alpha, adds, gx_parts_rows(p, X, leaf.j0, leaf.cols),
                            gx_parts_rows(p, Y, leaf.i0, leaf.rows));
        done = gx_max(done, end);
        gx_run_poll(p->run);
    }
    if (gx_ok(p->run)) {
        clear_rows(p, Y, done, Y.rows);
    }
    return gx_ok(p->run) ? GX_OK : p->run->err.code;
}

bool gx_parts_pay(gx_run *run, const gx_mat *A)
{
    const double LARGE = 1 << 18; // elements of a part
    if (A->kind != GX_MAT_COMPOSITE || A->is_whole || gx_mat_is_structured(A)) {
        return A->kind == GX_MAT_COMPOSITE && !A->is_whole;
    }
    return A->leaves > 0 && A->leaves <= FEW_LEAVES &&
           (double)A->rows * (double)A->cols >= LARGE * (double)A->leaves &&
           run->ctx->config.number[GX_SET_DETERMINISTIC] == 0;
}

// The whole product -------------------------------------------------------------------------------

/* op(A) X = Y of a factor that is a composite; the other factor, and the result, in chunks. */
typedef struct making {
    gx_parts p;
    const gx_matmul_args *args;
    bool is_right; /* C = op(B) A: C^T = A^T op(B)^T         */
    gx_turned A;   /* as it stands on the left               */
    gx_sink *C;
} making;

/* The other factor's columns j .. j + n - 1, as they stand on the right. */
static void load_x(const making *m, int64_t j, gx_vectors x)
{
    const gx_mat *B = m->is_right ? m->args->A : m->args->B;
    gx_trans trans = m->is_right ? m->args->transa : m->args->transb;
    bool is_turned = (trans != GX_NO_TRANS) != m->is_right;
    gx_mat part;
    gx_mat_view(&part, B, is_turned ? GX_TRANS : GX_NO_TRANS, 0, j, x.rows, x.cols);
    gx_parts_load(&m->p, (gx_turned){&part, false, trans == GX_CONJ_TRANS}, x);
}

/* alpha y + beta C0, to the result: its columns, or rows, from j on. */
static void write_y(const making *m, int64_t j, gx_vectors y)
{
    const gx_matmul_args *args = m->args;
    gx_run *run = m->p.run;
    gx_vectors turned = {0};
    if (m->is_right) {
        turned = gx_parts_columns(&m->p, y.cols, y.rows);
        gx_args turn = {.transa = GX_TRANS, .m = y.cols, .n = y.rows, .a = y.data, .lda = y.ld};
        turn.c = turned.data;
        turn.ldc = turned.ld;
        if (gx_ok(run)) {
            gx_run_call(run, GX_TRANSPOSE, m->p.dtype, &turn);
        }
        y = turned;
    }
    if (gx_ok(run) && args->C0 != NULL && (args->beta.re != 0 || args->beta.im != 0)) {
        gx_mat part;
        gx_vectors old = gx_parts_columns(&m->p, y.rows, y.cols);
        gx_mat_view(&part, args->C0, GX_NO_TRANS, m->is_right ? j : 0, m->is_right ? 0 : j, y.rows,
                    y.cols);
        if (gx_ok(run)) {
            gx_parts_load(&m->p, (gx_turned){&part, false, false}, old);
            gx_parts_add(&m->p, args->beta, old, y);
        }
        gx_parts_free(&m->p, &old);
    }
    if (gx_ok(run)) {
        gx_parts_write(&m->p, m->C, m->is_right ? j : 0, m->is_right ? 0 : j, y);
    }
    gx_parts_free(&m->p, &turned);
}

/* Columns j .. j + y.cols - 1 of op(A) X, some at a time. */
static void multiply_group(const making *m, int64_t j, int64_t step, gx_vectors y)
{
    int64_t inner = m->A.is_turned ? m->A.A->rows : m->A.A->cols;
    for (int64_t c = 0; c < y.cols && gx_ok(m->p.run); c += step) {
        int64_t n = gx_min(step, y.cols - c);
        gx_vectors x = gx_parts_columns(&m->p, inner, n);
        if (gx_ok(m->p.run)) {
            load_x(m, j + c, x);
            gx_parts_apply(&m->p, m->A, m->args->alpha, x, gx_parts_part(&m->p, y, c, n));
        }
        gx_parts_free(&m->p, &x);
    }
}

static void multiply(making *m)
{
    gx_run *run = m->p.run;
    int64_t rows = m->A.is_turned ? m->A.A->cols : m->A.A->rows;
    int64_t inner = m->A.is_turned ? m->A.A->rows : m->A.A->cols;
    int64_t cols = m->is_right ? m->C->rows : m->C->cols;
    double copies = 1 + (m->is_right ? 1 : 0) + (m->args->C0 != NULL ? 1 : 0);
    gx_parts_way way;
    gx_parts_begin_way(&m->p, m->C, copies * (double)rows, m->is_right, &way);
    m->C = way.to;
    gx_parts_steps s = gx_parts_choose(&m->p, cols, m->is_right ? m->C->tile_rows : m->C->tile_cols,
                                       copies * (double)rows, 4 * ((double)rows + (double)inner));
    for (int64_t j = 0; j < cols && gx_ok(run); j += s.group) {
        gx_vectors y = gx_parts_columns(&m->p, rows, gx_min(s.group, cols - j));
        if (gx_ok(run)) {
            multiply_group(m, j, s.step, y);
        }
        if (gx_ok(run)) {
            write_y(m, j, y);
        }
        gx_parts_free(&m->p, &y);
    }
    gx_parts_end_way(&m->p, &way);
}

bool gx_parts_multiply(gx_run *run, const gx_matmul_args *args, gx_sink *C)
{
    making m = {.p = {run, C->number}, .args = args, .C = C};
    bool is_left =
        gx_mat_is_structured(args->A) || (C->cols <= GX_PARTS_FEW && gx_parts_pay(run, args->A));
    bool is_right =
        gx_mat_is_structured(args->B) || (C->rows <= GX_PARTS_FEW && gx_parts_pay(run, args->B));
    if (args->after != NULL || (!is_left && !is_right)) {
        return false;
    }
    m.is_right = !is_left;
    m.A = is_left ? gx_turned_by(args->A, args->transa) : gx_turned_by(args->B, args->transb);
    m.A.is_turned = m.A.is_turned != m.is_right;
    multiply(&m);
    return true;
}
