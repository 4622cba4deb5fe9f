/*
** Systems (D + f L R) X = B, D diagonal and L of few columns, in two passes: by_parts.h.
**
**   C = I + f R D^-1 L,  g = R D^-1 B     a strip of rows of L and of R^T after the other
**   X = D^-1 (B - f L C^-1 g)             a strip of rows of L after the other
**
** (Woodbury 1950).  What is lost is about as many roundings as the conditions of D and of C are
** together: where that is much, the system is left to who looks at the residual.
*/
#include "../exec/pass.h"
#include "../run/call.h"
#include "by_parts_int.h"
#include "dense.h"

#include <math.h>
#include <string.h>

static const double MOST_CONDITION = 1e4;

/*
** Rows that are multiplied at once, in the cache, out of a chunk.  A chunk is read in runs as long
** as it is high: of a whole tile that is one run, which is half again as fast as pieces of it.
** Where memory is short, and under `deterministic`, for the same bits whatever memory there is, a
** chunk is small.
*/
enum { ROWS = 512, CHUNK_BYTES = 32 * GX_PASS_CHUNK_BYTES, SMALL_BYTES = CHUNK_BYTES / 4 };

/* Bytes between columns of a chunk beside them: a power of two apart they evict each other. */
enum { GAP_BYTES = 64 };

/* From so many columns on a packed product is faster (alg_narrow.c). */
enum { PACKED_COLUMNS = 24 };

typedef struct rank_task {
    const gx_task *t;
    gx_run *run;
    gx_number dtype;
    const gx_backend *backend;
    gx_dev *dev;
    gx_mat L, V;  /* n x r: L, and R transposed, as sources                */
    bool is_same; /* ... which are one                                     */
    gx_scalar f;
    bool is_gram;       /* D > 0 and L = V: the product of D^-1/2 L with itself  */
    gx_vectors d, X;    /* n, n x k: B, then X                                   */
    gx_vectors inverse; /* of D, or of its root                               */
    gx_vectors g;       /* r x (r + k): [R D^-1 L  g], then y = - f C^-1 g behind */
    int64_t n, r, k, height, chunk;
    int64_t width; /* columns that are read at once: they stay in the core's own cache */
} rank_task;

static gx_code call(const rank_task *x, gx_kernel_id kernel, const gx_args *args, gx_err *err)
{
    return x->backend->kernel[kernel][x->dtype](x->dev, NULL, args, err);
}

/* An operand that is a matrix, transposed or not, as that. */
static gx_turned unwrap(gx_turned A)
{
    while (A.A->kind == GX_MAT_COMPOSITE && A.A->leaves == 1) {
        const gx_leaf *l = A.A->leaf;
        bool is_plain = l->kind == GX_LEAF_MATRIX && l->factor.re == 1 && l->factor.im == 0 &&
                        l->rows == A.A->rows && l->cols == A.A->cols;
        if (!is_plain) {
            break;
        }
        A = (gx_turned){&l->base, A.is_turned != l->is_turned, A.is_conjugated != l->is_conjugated};
    }
    return A;
}

static bool is_one_matrix(gx_turned a, gx_turned b)
{
    return a.A->kind == GX_MAT_STORED && b.A->kind == GX_MAT_STORED && !a.A->is_sparse &&
           a.A->meta.id == b.A->meta.id && strcmp(a.A->meta.schema, b.A->meta.schema) == 0 &&
           a.is_turned == b.is_turned;
}

static void view_rows(gx_turned A, int64_t n, int64_t r, gx_mat *out)
{
    gx_mat_view(out, A.A, A.is_turned ? GX_TRANS : GX_NO_TRANS, 0, 0, n, r);
}

/* The one product of few columns, its factors as sources; false: there is more than that. */
static bool take_factors(rank_task *x, const gx_square *S)
{
    const gx_leaf *low = NULL;
    int64_t count = 0;
    for (int64_t k = 0; k < S->leaves; k++) {
        bool is_low = gx_leaf_is_low_rank(&S->leaf[k], S->n);
        low = is_low ? &S->leaf[k] : low;
        count += is_low;
        if (!is_low && !gx_leaf_is_diagonal(&S->leaf[k])) {
            return false;
        }
    }
    if (count != 1 || low->is_conjugated) {
        return false;
    }
    gx_turned L =
        unwrap((gx_turned){low->is_turned ? &low->second : &low->base, low->is_turned, false});
    gx_turned V =
        unwrap((gx_turned){low->is_turned ? &low->base : &low->second, !low->is_turned, false});
    bool is_complex = gx_number_is_complex(x->dtype);
    if (is_complex && (L.is_conjugated || V.is_conjugated)) {
        return false;
    }
    x->r = low->base.cols;
    x->f = low->factor;
    view_rows(L, x->n, x->r, &x->L);
    view_rows(V, x->n, x->r, &x->V);
    x->is_same = is_one_matrix(L, V);
    int64_t tile = L.is_turned ? L.A->tile_cols : L.A->tile_rows;
    x->height = gx_max(1, gx_min(tile, x->n));
    int64_t number = (int64_t)gx_number_bytes(x->dtype), row = gx_max(1, x->r + x->k) * number;
    bool is_small = x->run->ctx->config.number[GX_SET_DETERMINISTIC] != 0 ||
                    gx_mem_available(x->run->ctx->mem) / 16 < CHUNK_BYTES;
    int64_t most = gx_max(1, (is_small ? SMALL_BYTES : CHUNK_BYTES) / row);
    x->chunk = gx_min(x->height, most > ROWS ? most / ROWS * ROWS : most);
    bool is_plain = L.A->kind == GX_MAT_STORED && !L.is_turned && x->k < PACKED_COLUMNS;
    x->width =
        gx_max(1, is_plain ? gx_min(x->r, 2 * GX_PASS_CHUNK_BYTES / number / x->chunk) : x->r);
    return true;
}

/* Elements from one column of a chunk to the next. */
static int64_t chunk_ld(const rank_task *x)
{
    return x->chunk + GAP_BYTES / (int64_t)gx_number_bytes(x->dtype);
}

/* Of a part: of a product with itself it has the rows of B, too. */
static int64_t part_ld(const rank_task *x)
{
    return x->r + (x->is_gram ? x->k : 0);
}

/* What a thread has: V, B as D^-1 scales it, and L so where that is not in the place of V. */
static size_t work_bytes(const rank_task *x)
{
    int64_t columns = x->r + x->k + (x->is_gram ? 0 : x->r);
    return (size_t)(chunk_ld(x) * columns) * gx_number_bytes(x->dtype);
}

/* to = D_i^-1 a, or a D_i^-1 by division, of rows from i. */
static gx_code over_d(const rank_task *x, gx_map_kind kind, gx_vectors d, int64_t i, gx_vectors a,
                      gx_vectors to, gx_err *err)
{
    gx_args args = {.map = kind, .m = a.rows, .n = a.cols, .a = a.data, .lda = a.ld};
    args.b = gx_at(d.data, x->dtype, d.ld, i, 0);
    args.c = to.data;
    args.ldc = to.ld;
    return call(x, GX_MAP, &args, err);
}

/* c += op(a) b: op is the transposition, or nothing. */
static gx_code add_product(const rank_task *x, gx_vectors a, bool is_turned, gx_vectors b, void *c,
                           int64_t ldc, gx_err *err)
{
    gx_args args = {.alpha = GX_ONE, .beta = GX_ONE, .a = a.data, .lda = a.ld};
    if (b.cols >= PACKED_COLUMNS || (is_turned && gx_number_is_complex(x->dtype))) {
        args.transa = is_turned ? GX_TRANS : GX_NO_TRANS;
        args.m = is_turned ? a.cols : a.rows;
        args.n = b.cols;
        args.k = b.rows;
        args.b = b.data;
        args.ldb = b.ld;
        args.c = c;
        args.ldc = ldc;
        return call(x, GX_GEMM, &args, err);
    }
    args.m = a.rows;
    args.n = a.cols;
    args.k = b.cols;
    *(is_turned ? &args.b2 : &args.b) = b.data;
    *(is_turned ? &args.ldb2 : &args.ldb) = b.ld;
    *(is_turned ? &args.c2 : &args.c) = c;
    *(is_turned ? &args.ldc2 : &args.ldc) = ldc;
    return b.cols == 0 ? GX_OK : call(x, GX_PAIR, &args, err);
}

/* part += V_i^T [left right] of rows in memory; is_gram: left is V_i, and right beside it. */
static gx_code fold_rows(const rank_task *x, gx_vectors v, gx_vectors left, gx_vectors right,
                         void *part, gx_err *err)
{
    int64_t ld = part_ld(x);
    gx_args half = {.transa = GX_TRANS, .uplo = GX_UPPER, .n = x->r + x->k, .k = left.rows};
    half.alpha = half.beta = GX_ONE;
    half.a = left.data;
    half.lda = left.ld;
    half.c = part;
    half.ldc = ld;
    if (x->is_gram) {
        return call(x, GX_SYRK, &half, err);
    }
    GX_TRY(add_product(x, v, true, left, part, ld, err));
    return add_product(x, v, true, right, gx_at(part, x->dtype, ld, 0, x->r), ld, err);
}

/* The same of m rows from i, which are read first; is_gram: L_i becomes D_i^-1/2 L_i in place. */
static gx_code fold_chunk(const rank_task *x, int64_t i, int64_t m, gx_pass_thread *thread,
                          void *work, void *part, gx_err *err)
{
    const gx_parts *p = x->t->p;
    int64_t ld = chunk_ld(x);
    gx_vectors v = {m, x->r, ld, work}, b = {m, x->k, ld, gx_at(work, x->dtype, ld, 0, x->r)};
    gx_vectors l = v, scaled = v, from = {m, x->k, x->X.ld, x->X.data};
    GX_TRY(gx_pass_read(thread, &x->V, i, 0, m, x->r, x->dtype, v.data, ld, err));
    if (!x->is_same) {
        l.data = gx_at(b.data, x->dtype, ld, 0, x->k);
        GX_TRY(gx_pass_read(thread, &x->L, i, 0, m, x->r, x->dtype, l.data, ld, err));
        scaled = l;
    } else if (!x->is_gram) {
        scaled.data = gx_at(b.data, x->dtype, ld, 0, x->k);
    }
    for (int64_t row = 0; row < m; row += ROWS) {
        int64_t rows = gx_min(ROWS, m - row), at = i + row;
        gx_vectors left = gx_parts_rows(p, scaled, row, rows);
        gx_vectors right = gx_parts_rows(p, b, row, rows);
        GX_TRY(over_d(x, GX_MAP_MUL, x->inverse, at, gx_parts_rows(p, l, row, rows), left, err));
        if (x->k > 0) {
            GX_TRY(over_d(x, GX_MAP_MUL, x->inverse, at, gx_parts_rows(p, from, at, rows), right,
                          err));
        }
        GX_TRY(fold_rows(x, gx_parts_rows(p, v, row, rows), left, right, part, err));
    }
    return GX_OK;
}

static gx_code fold_unit(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                         gx_err *err)
{
    const rank_task *x = arg;
    int64_t end = gx_min(x->n, (unit + 1) * x->height);
    memset(part, 0, (size_t)(part_ld(x) * (x->r + x->k)) * gx_number_bytes(x->dtype));
    for (int64_t i = unit * x->height; i < end && gx_ok(x->run); i += x->chunk) {
        GX_TRY(fold_chunk(x, i, gx_min(x->chunk, end - i), thread, work, part, err));
    }
    return GX_OK;
}

static gx_code add_unit(void *arg, int64_t unit, void *part, gx_err *err)
{
    const rank_task *x = arg;
    (void)unit;
    gx_args args = {.map = GX_MAP_ADD, .m = x->r, .n = x->r + x->k, .alpha = GX_ONE, .a = part};
    args.lda = part_ld(x);
    args.beta = GX_ONE;
    args.b = args.c = x->g.data;
    args.ldb = args.ldc = x->g.ld;
    return call(x, GX_MAP, &args, err);
}

/* X_i = D_i^-1 (B_i + L_i y): y is - f C^-1 g. */
static gx_code finish_unit(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                           gx_err *err)
{
    const rank_task *x = arg;
    int64_t end = gx_min(x->n, (unit + 1) * x->height);
    (void)part;
    for (int64_t i = unit * x->height; i < end && gx_ok(x->run); i += x->chunk) {
        int64_t m = gx_min(x->chunk, end - i);
        gx_vectors to = {m, x->k, x->X.ld, gx_at(x->X.data, x->dtype, x->X.ld, i, 0)};
        for (int64_t j = 0; j < x->r; j += x->width) {
            gx_vectors some = {m, gx_min(x->width, x->r - j), m, work}, y = x->g;
            y.rows = some.cols;
            y.cols = x->k;
            y.data = gx_at(y.data, x->dtype, y.ld, j, x->r);
            GX_TRY(gx_pass_read(thread, &x->L, i, j, m, some.cols, x->dtype, work, m, err));
            GX_TRY(add_product(x, some, false, y, to.data, to.ld, err));
        }
        GX_TRY(over_d(x, GX_MAP_DIV, x->d, i, to, to, err));
    }
    return GX_OK;
}

static void pass_over(rank_task *x, bool is_first)
{
    const gx_mat *sources[] = {&x->L, &x->V};
    double bytes = (double)x->n * (double)x->r * (double)gx_number_bytes(x->dtype);
    gx_pass pass = {.sources = sources, .source_count = 2, .units = gx_ceil_div(x->n, x->height)};
    pass.bytes = bytes;
    pass.flops = 2.0 * (double)x->n * (double)x->r * (double)(is_first ? x->r + x->k : x->k);
    pass.work_bytes = gx_whole_lines(work_bytes(x));
    pass.part_bytes =
        is_first ? gx_whole_lines((size_t)(part_ld(x) * (x->r + x->k)) * gx_number_bytes(x->dtype))
                 : 64;
    pass.work = is_first ? fold_unit : finish_unit;
    pass.fold = is_first ? add_unit : NULL;
    pass.arg = x;
    gx_pass_run(x->run, &pass);
}

static double look_at(const rank_task *x, gx_reduce_kind kind, gx_vectors v)
{
    double out[1] = {0};
    gx_args args = {.m = v.rows, .n = 1, .a = v.data, .lda = v.ld, .reduce = out};
    args.reduce_kind = kind;
    gx_run_call(x->run, GX_REDUCE, x->dtype, &args);
    return out[0];
}

/* C = I + f R D^-1 L and its inverse times [I  -f g]; returns C's condition (1-norm). */
static double solve_small(const rank_task *x, gx_product *det)
{
    const gx_parts *p = x->t->p;
    gx_vectors c = gx_parts_columns(p, x->r, x->r), y = gx_parts_zeros(p, x->r, x->r + x->k);
    gx_task own = {.p = p, .det = det};
    double of_c = 0, of_y = 0;
    for (int64_t j = 0; j < x->r && gx_ok(x->run); j++) {
        double sum = 0;
        for (int64_t i = 0; i < x->r; i++) {
            gx_scalar v =
                gx_scalar_times(x->f, gx_number_get(x->dtype, x->g.data, i + j * x->g.ld));
            v.re += i == j;
            gx_number_put(x->dtype, c.data, i + j * c.ld, v);
            sum += hypot(v.re, v.im);
        }
        gx_number_put(x->dtype, y.data, j + j * y.ld, GX_ONE);
        of_c = fmax(of_c, sum);
    }
    gx_vectors g = x->g, to = y;
    g.data = gx_at(g.data, x->dtype, g.ld, 0, x->r);
    to.data = gx_at(to.data, x->dtype, to.ld, 0, x->r);
    g.cols = to.cols = x->k;
    if (gx_ok(x->run)) {
        gx_parts_add(p, (gx_scalar){-x->f.re, -x->f.im}, g, to);
        gx_solve_dense(&own, c, y);
        gx_parts_copy(p, to, g);
    }
    for (int64_t j = 0; j < x->r && gx_ok(x->run); j++) {
        double sum = 0;
        for (int64_t i = 0; i < x->r; i++) {
            gx_scalar v = gx_number_get(x->dtype, y.data, i + j * y.ld);
            sum += hypot(v.re, v.im);
        }
        of_y = fmax(of_y, sum);
    }
    gx_parts_free(p, &c);
    gx_parts_free(p, &y);
    return of_c * of_y;
}

/* D: a vector as it is stored, mostly. */
static void load_diagonal(rank_task *x, const gx_square *S)
{
    const gx_leaf *first = NULL;
    for (int64_t k = 0; k < S->leaves && first == NULL; k++) {
        const gx_leaf *l = &S->leaf[k];
        bool is_plain = l->kind == GX_LEAF_DIAGONAL && gx_leaf_covers(l, x->n) &&
                        l->factor.re == 1 && l->factor.im == 0 && !l->is_conjugated;
        first = is_plain && gx_leaf_is_diagonal(l) ? l : NULL;
    }
    x->d = first == NULL ? gx_parts_zeros(x->t->p, x->n, 1) : gx_parts_columns(x->t->p, x->n, 1);
    if (first != NULL && gx_ok(x->run)) {
        gx_dense_load(x->run, &first->base, x->dtype, x->d.data, gx_max(1, first->base.rows));
    }
    for (int64_t k = 0; k < S->leaves && gx_ok(x->run); k++) {
        if (gx_leaf_is_diagonal(&S->leaf[k]) && &S->leaf[k] != first) {
            gx_square_add_diagonal(x->t, &S->leaf[k], x->d);
        }
    }
}

bool gx_solve_diagonal_rank(const gx_task *t, const gx_square *S)
{
    gx_run *run = t->p->run;
    rank_task x = {.t = t, .run = run, .dtype = t->p->dtype, .n = S->n, .X = t->X};
    gx_product det = {.re = 1};
    x.k = t->X.data == NULL ? 0 : t->X.cols;
    if (!take_factors(&x, S) || gx_run_device(run, &x.backend, &x.dev) != GX_OK) {
        return false;
    }
    load_diagonal(&x, S);
    x.g = gx_parts_zeros(t->p, x.r, x.r + x.k);
    x.inverse = gx_parts_columns(t->p, x.n, 1);
    gx_args invert = {.map = GX_MAP_RECIPROCAL, .m = x.n, .n = 1, .a = x.d.data, .lda = x.d.ld};
    invert.c = x.inverse.data;
    invert.ldc = x.inverse.ld;
    gx_run_call(run, GX_MAP, x.dtype, &invert);
    double condition =
        look_at(&x, GX_REDUCE_MAX_ABS, x.d) * look_at(&x, GX_REDUCE_MAX_ABS, x.inverse);
    x.is_gram = x.is_same && x.k <= x.r && !gx_number_is_complex(x.dtype) &&
                look_at(&x, GX_REDUCE_MIN, x.d) > 0;
    if (x.is_gram) {
        invert.map = GX_MAP_SQRT;
        invert.a = x.inverse.data;
        gx_run_call(run, GX_MAP, x.dtype, &invert);
    }
    bool is_it = condition <= MOST_CONDITION;
    if (is_it && gx_ok(run)) {
        pass_over(&x, true);
        if (x.is_gram) {
            gx_args mirror = {.uplo = GX_UPPER, .m = x.r, .n = x.r, .c = x.g.data, .ldc = x.g.ld};
            gx_run_call(run, GX_SYMMETRIZE, x.dtype, &mirror);
        }
        condition *= gx_ok(run) ? solve_small(&x, t->det == NULL ? NULL : &det) : 0;
        is_it = condition <= MOST_CONDITION;
    }
    if (is_it && gx_ok(run) && x.k > 0) {
        pass_over(&x, false);
    }
    for (int64_t i = 0; i < x.n && is_it && gx_ok(run) && t->det != NULL; i++) {
        gx_task_det(t, gx_number_get(x.dtype, x.d.data, i));
    }
    if (is_it) {
        gx_task_det(t, (gx_scalar){det.re, det.im});
        if (t->det != NULL) {
            t->det->power += det.power;
        }
    }
    gx_parts_free(t->p, &x.d);
    gx_parts_free(t->p, &x.inverse);
    gx_parts_free(t->p, &x.g);
    return is_it || (!gx_ok(run) && run->err.code != GX_NUMERIC);
}
