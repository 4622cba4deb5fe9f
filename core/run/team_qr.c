/*
** Reflectors of one block by a team: QR, and the application of Q.
**
** Householder QR in blocks of BLOCK columns.  Each block's panel is factored by recursion (Elmroth
** & Gustavson 2000), which makes its T as it goes, and is then applied to the columns behind it:
**
**   panel(A, n):   n <= LEAF: kernels GEQRF (TPQRT) and LARFT
**                  else       panel(A1, n/2);  A2 = Q1^H A2;  panel(A2, n/2);
**                             T12 = -T11 (V1^H V2) T22
**   apply(C):      W = V^H C;  W = op(T) W;  C -= V W                (on the right: mirrored)
**
** Everything but the leaves is products over the team (gx_job_call).  The same code serves stacks
** [c; c2], whose reflectors have the unit matrix on top (TPQRT, TPMQRT): a reflector block is a
** unit triangle v1, or none, above a full part v2.
**
** ORGQR turns a block of V into columns of Q in place: Q = [I; 0] - V (T V1^H), where T V1^H is
** upper triangular, so the rows below are one TRMM.
**
** Memory: T of a block, BLOCK^2; W, BLOCK x CHUNK (lines of c are taken CHUNK at a time; LARFB's
** W has its caller's k); see gx_team_call_bytes().  The order of the work depends on sizes alone,
** so a fixed cut gives the same bits whatever the team.
*/
#include "team_int.h"

/*
** BLOCK: the rank of the updates: narrower ones make GEMM slower, wider ones T longer.  CHUNK:
** bounds W; wide enough for products at full speed.  LEAF: the panels that one thread factors.
*/
enum { BLOCK = 192, CHUNK = 2048, LEAF = 32, LARFT_LEAF = 64 };

/* Fewer multiply-adds than these are one kernel call on the caller's thread. */
static const double SMALL_PAIRS = 1e6;

/* k reflectors, the columns of [v1; v2]: v1 unit lower triangular, or NULL for the unit matrix. */
typedef struct reflectors {
    int64_t k, rows; /* rows: of v2 */
    const void *v1, *v2;
    int64_t ldv;
    void *tau;
} reflectors;

/* What they are applied to, line by line: [top; low] on the left, [top low] on the right. */
typedef struct target {
    gx_side side;
    int64_t lines; /* columns on the left, rows on the right */
    void *top;
    int64_t ld_top;
    void *low;
    int64_t ld_low;
} target;

static void *at(const gx_job *job, const void *x, int64_t ld, int64_t i, int64_t j)
{
    return x == NULL ? NULL : gx_at(x, job->dtype, ld, i, j);
}

static gx_code take(const gx_job *job, int64_t elements, void **ptr, gx_err *err)
{
    return gx_mem_alloc(job->team == NULL ? NULL : gx_team_mem(job->team),
                        (size_t)elements * gx_number_bytes(job->dtype), "reflectors", ptr, err);
}

static void give(const gx_job *job, void *ptr)
{
    gx_mem_free(job->team == NULL ? NULL : gx_team_mem(job->team), ptr);
}

// Applying ----------------------------------------------------------------------------------------

/* w = op(t) w on the left, w op(t) on the right. */
static gx_code times_triangle(const gx_job *job, gx_side side, gx_uplo uplo, gx_diag diag,
                              gx_trans trans, gx_scalar alpha, int64_t m, int64_t n, const void *t,
                              int64_t ldt, void *w, int64_t ldw, gx_err *err)
{
    return gx_job_triangular(job, GX_TRMM,
                             &(gx_args){.side = side,
                                        .uplo = uplo,
                                        .diag = diag,
                                        .transa = trans,
                                        .m = m,
                                        .n = n,
                                        .alpha = alpha,
                                        .a = t,
                                        .lda = ldt,
                                        .c = w,
                                        .ldc = ldw},
                             err);
}

/* w += the part of V^H c (or c V) that v2 and low give; or low -= V w (or w V^H). */
static gx_code times_v2(const gx_job *job, const reflectors *r, const target *c, bool into_low,
                        void *w, int64_t ldw, gx_err *err)
{
    bool is_left = c->side == GX_LEFT;
    gx_args call = {.alpha = into_low ? GX_MINUS_ONE : GX_ONE, .beta = GX_ONE};
    call.c = into_low ? c->low : w;
    call.ldc = into_low ? c->ld_low : ldw;
    call.m = !is_left ? c->lines : into_low ? r->rows : r->k;
    call.n = is_left ? c->lines : into_low ? r->rows : r->k;
    call.k = into_low ? r->k : r->rows;
    const void *other = into_low ? w : c->low;
    int64_t ld_other = into_low ? ldw : c->ld_low;
    call.a = is_left ? r->v2 : other;
    call.lda = is_left ? r->ldv : ld_other;
    call.b = is_left ? other : r->v2;
    call.ldb = is_left ? ld_other : r->ldv;
    call.transa = is_left && !into_low ? GX_CONJ_TRANS : GX_NO_TRANS;
    call.transb = !is_left && into_low ? GX_CONJ_TRANS : GX_NO_TRANS;
    return r->rows == 0 ? GX_OK : gx_job_call(job, GX_GEMM, &call, err);
}

/* A chunk of lines through op(I - V T V^H); w: k x lines, or lines x k. */
static gx_code apply_chunk(const gx_job *job, const reflectors *r, gx_trans trans, const void *t,
                           int64_t ldt, const target *c, void *w, gx_err *err)
{
    bool is_left = c->side == GX_LEFT;
    int64_t m = is_left ? r->k : c->lines, n = is_left ? c->lines : r->k, ldw = gx_max(m, 1);
    gx_args copy = {
        .m = m, .n = n, .a = c->top, .lda = c->ld_top, .c = w, .ldc = ldw, .alpha = GX_ONE};
    GX_TRY(gx_job_call(job, GX_COPY, &copy, err));
    if (r->v1 != NULL) {
        GX_TRY(times_triangle(job, c->side, GX_LOWER, GX_UNIT,
                              is_left ? GX_CONJ_TRANS : GX_NO_TRANS, GX_ONE, m, n, r->v1, r->ldv, w,
                              ldw, err));
    }
    GX_TRY(times_v2(job, r, c, false, w, ldw, err));
    GX_TRY(times_triangle(job, c->side, GX_UPPER, GX_NON_UNIT, trans, GX_ONE, m, n, t, ldt, w, ldw,
                          err));
    GX_TRY(times_v2(job, r, c, true, w, ldw, err));
    if (r->v1 != NULL) {
        GX_TRY(times_triangle(job, c->side, GX_LOWER, GX_UNIT,
                              is_left ? GX_NO_TRANS : GX_CONJ_TRANS, GX_ONE, m, n, r->v1, r->ldv, w,
                              ldw, err));
    }
    gx_args add = {.map = GX_MAP_ADD,
                   .m = m,
                   .n = n,
                   .alpha = GX_ONE,
                   .a = c->top,
                   .lda = c->ld_top,
                   .beta = GX_MINUS_ONE,
                   .b = w,
                   .ldb = ldw,
                   .c = c->top,
                   .ldc = c->ld_top};
    return gx_job_call(job, GX_MAP, &add, err);
}

/* c = op(Q) c or c op(Q). */
static gx_code apply(const gx_job *job, const reflectors *r, gx_trans trans, const void *t,
                     int64_t ldt, const target *c, gx_err *err)
{
    if (c->lines <= 0 || r->k <= 0) {
        return GX_OK;
    }
    void *w;
    gx_code code = GX_OK;
    bool is_left = c->side == GX_LEFT;
    GX_TRY(take(job, r->k * gx_min(c->lines, CHUNK), &w, err));
    for (int64_t q = 0; q < c->lines && code == GX_OK; q += CHUNK) {
        target chunk = *c;
        chunk.lines = gx_min(CHUNK, c->lines - q);
        chunk.top = at(job, c->top, c->ld_top, is_left ? 0 : q, is_left ? q : 0);
        chunk.low = at(job, c->low, c->ld_low, is_left ? 0 : q, is_left ? q : 0);
        code = gx_team_poll_now(job->team, err);
        code = code != GX_OK ? code : apply_chunk(job, r, trans, t, ldt, &chunk, w, err);
    }
    give(job, w);
    return code;
}

// T -----------------------------------------------------------------------------------------------

/* Columns j .. j+k-1 of a block of reflectors, as a block of their own. */
static reflectors columns(const gx_job *job, const reflectors *r, int64_t j, int64_t k)
{
    reflectors part = *r;
    part.k = k;
    part.tau = at(job, r->tau, 1, j, 0);
    if (r->v1 == NULL) {
        part.v2 = at(job, r->v2, r->ldv, 0, j);
        return part;
    }
    // The rows of v1 below the part's own triangle lie on top of v2: they are one matrix.
    part.v1 = at(job, r->v1, r->ldv, j, j);
    part.v2 = at(job, r->v1, r->ldv, j + k, j);
    part.rows = r->rows + r->k - j - k;
    return part;
}

/* T12 = -T11 (V1^H V2) T22, for the first k1 columns and the rest. */
static gx_code merge(const gx_job *job, const reflectors *r, int64_t k1, void *t, int64_t ldt,
                     gx_err *err)
{
    reflectors left = columns(job, r, 0, k1), right = columns(job, r, k1, r->k - k1);
    void *t12 = at(job, t, ldt, 0, k1);
    gx_args product = {.transa = GX_CONJ_TRANS,
                       .m = k1,
                       .n = right.k,
                       .k = right.rows,
                       .alpha = GX_ONE,
                       .a = left.v2,
                       .lda = r->ldv,
                       .b = right.v2,
                       .ldb = r->ldv,
                       .c = t12,
                       .ldc = ldt};
    if (r->v1 != NULL) {
        gx_args turn = {.transa = GX_CONJ_TRANS,
                        .m = k1,
                        .n = right.k,
                        .a = left.v2,
                        .lda = r->ldv,
                        .c = t12,
                        .ldc = ldt};
        GX_TRY(gx_job_call(job, GX_TRANSPOSE, &turn, err));
        GX_TRY(times_triangle(job, GX_RIGHT, GX_LOWER, GX_UNIT, GX_NO_TRANS, GX_ONE, k1, right.k,
                              right.v1, r->ldv, t12, ldt, err));
        product.a = at(job, left.v2, r->ldv, right.k, 0);
        product.beta = GX_ONE;
    }
    GX_TRY(gx_job_call(job, GX_GEMM, &product, err));
    GX_TRY(times_triangle(job, GX_LEFT, GX_UPPER, GX_NON_UNIT, GX_NO_TRANS, GX_MINUS_ONE, k1,
                          right.k, t, ldt, t12, ldt, err));
    return times_triangle(job, GX_RIGHT, GX_UPPER, GX_NON_UNIT, GX_NO_TRANS, GX_ONE, k1, right.k,
                          at(job, t, ldt, k1, k1), ldt, t12, ldt, err);
}

/* One kernel call for T. */
static gx_code small_t(const gx_job *job, const reflectors *r, void *t, int64_t ldt, gx_err *err)
{
    bool is_pentagon = r->v1 == NULL;
    gx_args args = {.m = r->rows + (is_pentagon ? 0 : r->k),
                    .n = r->k,
                    .k = r->k,
                    .a = is_pentagon ? r->v2 : r->v1,
                    .lda = r->ldv,
                    .tau = r->tau,
                    .is_pentagon = is_pentagon,
                    .c = t,
                    .ldc = ldt};
    return gx_job_whole(job, GX_LARFT, &args, err);
}

/* T of reflectors that are there; below its diagonal zeros. */
static gx_code make_t(const gx_job *job, const reflectors *r, void *t, int64_t ldt, gx_err *err)
{
    if (r->k <= LARFT_LEAF) {
        return r->k <= 0 ? GX_OK : small_t(job, r, t, ldt, err);
    }
    int64_t k1 = gx_ceil_div(r->k / 2, LARFT_LEAF) * LARFT_LEAF;
    reflectors left = columns(job, r, 0, k1), right = columns(job, r, k1, r->k - k1);
    GX_TRY(make_t(job, &left, t, ldt, err));
    GX_TRY(make_t(job, &right, at(job, t, ldt, k1, k1), ldt, err));
    gx_args zeros = {.m = r->k - k1, .n = k1, .c = at(job, t, ldt, k1, 0), .ldc = ldt};
    GX_TRY(gx_job_call(job, GX_FILL, &zeros, err));
    return merge(job, r, k1, t, ldt, err);
}

// Factorising -------------------------------------------------------------------------------------

/* A matrix to factor: c m x n, or the stack of a triangle c and c2, m x n. */
typedef struct matrix {
    int64_t m, n;
    void *c;
    int64_t ldc;
    void *c2; /* NULL: no stack */
    int64_t ldc2;
    void *tau;
} matrix;

static matrix matrix_of(const gx_args *p, bool is_stack)
{
    return (matrix){.m = p->m,
                    .n = p->n,
                    .c = p->c,
                    .ldc = p->ldc,
                    .c2 = is_stack ? p->c2 : NULL,
                    .ldc2 = p->ldc2,
                    .tau = p->tau};
}

/* The columns from j on, without the rows that are done. */
static matrix behind(const gx_job *job, const matrix *a, int64_t j)
{
    matrix rest = *a;
    rest.n -= j;
    rest.m -= a->c2 == NULL ? j : 0;
    rest.c = at(job, a->c, a->ldc, j, j);
    rest.c2 = at(job, a->c2, a->ldc2, 0, j);
    rest.tau = at(job, a->tau, 1, j, 0);
    return rest;
}

/* The reflectors in the first k columns of a factored matrix. */
static reflectors reflectors_in(const gx_job *job, const matrix *a, int64_t k)
{
    if (a->c2 != NULL) {
        return (reflectors){.k = k, .rows = a->m, .v2 = a->c2, .ldv = a->ldc2, .tau = a->tau};
    }
    return (reflectors){.k = k,
                        .rows = a->m - k,
                        .v1 = a->c,
                        .v2 = at(job, a->c, a->ldc, k, 0),
                        .ldv = a->ldc,
                        .tau = a->tau};
}

/* Q^H of the first k columns to the rest. */
static gx_code update(const gx_job *job, const matrix *a, int64_t k, const void *t, int64_t ldt,
                      gx_err *err)
{
    reflectors r = reflectors_in(job, a, k);
    bool is_stack = a->c2 != NULL;
    target rest = {.side = GX_LEFT,
                   .lines = a->n - k,
                   .top = at(job, a->c, a->ldc, 0, k),
                   .ld_top = a->ldc,
                   .low = is_stack ? at(job, a->c2, a->ldc2, 0, k) : at(job, a->c, a->ldc, k, k),
                   .ld_low = is_stack ? a->ldc2 : a->ldc};
    return apply(job, &r, GX_CONJ_TRANS, t, ldt, &rest, err);
}

/* A panel of few columns, m >= n, and its T (upper triangle). */
static gx_code panel(const gx_job *job, const matrix *a, void *t, int64_t ldt, gx_err *err)
{
    reflectors r = reflectors_in(job, a, a->n);
    if (a->n <= LEAF) {
        gx_args leaf = {.m = a->m,
                        .n = a->n,
                        .c = a->c,
                        .ldc = a->ldc,
                        .c2 = a->c2,
                        .ldc2 = a->ldc2,
                        .tau = a->tau};
        GX_TRY(gx_job_whole(job, a->c2 == NULL ? GX_GEQRF : GX_TPQRT, &leaf, err));
        return small_t(job, &r, t, ldt, err);
    }
    matrix left = *a;
    left.n = gx_ceil_div(a->n / 2, LEAF) * LEAF;
    matrix right = behind(job, a, left.n);
    GX_TRY(panel(job, &left, t, ldt, err));
    GX_TRY(update(job, a, left.n, t, ldt, err));
    GX_TRY(panel(job, &right, at(job, t, ldt, left.n, left.n), ldt, err));
    return merge(job, &r, left.n, t, ldt, err);
}

static gx_code factor(const gx_job *job, const matrix *a, int64_t count, gx_err *err)
{
    void *t;
    gx_code code = GX_OK;
    GX_TRY(take(job, BLOCK * BLOCK, &t, err));
    for (int64_t j = 0; j < count && code == GX_OK; j += BLOCK) {
        matrix rest = behind(job, a, j), block = rest;
        block.n = gx_min(BLOCK, count - j);
        code = panel(job, &block, t, BLOCK, err);
        code = code != GX_OK ? code : update(job, &rest, block.n, t, BLOCK, err);
    }
    give(job, t);
    return code;
}

// Q -----------------------------------------------------------------------------------------------

/* c = op(Q) c of many reflectors, block by block in the order that op and side want. */
static gx_code apply_many(const gx_job *job, const gx_args *p, bool is_stack, gx_err *err)
{
    bool is_left = p->side == GX_LEFT, is_ascending = (p->transa == GX_NO_TRANS) != is_left;
    int64_t length = is_left ? p->m : p->n, blocks = gx_ceil_div(p->k, BLOCK);
    void *t;
    gx_code code = GX_OK;
    GX_TRY(take(job, BLOCK * BLOCK, &t, err));
    for (int64_t q = 0; q < blocks && code == GX_OK; q++) {
        int64_t i = (is_ascending ? q : blocks - 1 - q) * BLOCK, k = gx_min(BLOCK, p->k - i);
        int64_t low = is_stack ? 0 : i + k;
        reflectors r = {.k = k,
                        .rows = length - low,
                        .v1 = is_stack ? NULL : at(job, p->a, p->lda, i, i),
                        .v2 = at(job, p->a, p->lda, low, i),
                        .ldv = p->lda,
                        .tau = at(job, p->tau, 1, i, 0)};
        target c = {.side = p->side,
                    .lines = is_left ? p->n : p->m,
                    .top = at(job, p->c, p->ldc, is_left ? i : 0, is_left ? 0 : i),
                    .ld_top = p->ldc,
                    .low = at(job, is_stack ? p->c2 : p->c, is_stack ? p->ldc2 : p->ldc,
                              is_left ? low : 0, is_left ? 0 : low),
                    .ld_low = is_stack ? p->ldc2 : p->ldc};
        code = make_t(job, &r, t, BLOCK, err);
        code = code != GX_OK ? code : apply(job, &r, p->transa, t, BLOCK, &c, err);
    }
    give(job, t);
    return code;
}

static gx_code apply_given(const gx_job *job, const gx_args *p, gx_err *err)
{
    bool is_left = p->side == GX_LEFT;
    reflectors r = {.k = p->k,
                    .rows = (is_left ? p->m : p->n) - p->k,
                    .v1 = p->a,
                    .v2 = at(job, p->a, p->lda, p->k, 0),
                    .ldv = p->lda};
    target c = {.side = p->side,
                .lines = is_left ? p->n : p->m,
                .top = p->c,
                .ld_top = p->ldc,
                .low = at(job, p->c, p->ldc, is_left ? p->k : 0, is_left ? 0 : p->k),
                .ld_low = p->ldc};
    return apply(job, &r, p->transa, p->b, p->ldb, &c, err);
}

/* c = the unit matrix. */
static gx_code make_unit(const gx_job *job, int64_t m, int64_t n, void *c, int64_t ldc, gx_err *err)
{
    gx_args args = {.m = m, .n = n, .c = c, .ldc = ldc, .a = c, .lda = ldc, .diag = GX_UNIT};
    GX_TRY(gx_job_call(job, GX_FILL, &args, err));
    return gx_job_call(job, GX_TRIANGLE, &args, err);
}

/*
** The k columns of V at c, m x k, become [I; 0] - V T V1^H.  t: T at entry; x: k x k, both spoilt.
*/
static gx_code generate(const gx_job *job, const reflectors *r, void *c, void *t, void *x,
                        gx_err *err)
{
    int64_t k = r->k, ld = r->ldv;
    // x = V1^H, whose zeros are real; t = T V1^H; then x = V1.
    gx_args turn = {.transa = GX_CONJ_TRANS, .m = k, .n = k, .a = c, .lda = ld, .c = x, .ldc = k};
    gx_args upper = {.uplo = GX_UPPER, .m = k, .n = k, .a = t, .lda = BLOCK, .c = t, .ldc = BLOCK};
    gx_args v1 = {
        .uplo = GX_LOWER, .diag = GX_UNIT, .m = k, .n = k, .a = c, .lda = ld, .c = x, .ldc = k};
    gx_args top = {.m = k, .n = k, .a = t, .lda = BLOCK, .c = c, .ldc = ld};
    GX_TRY(gx_job_call(job, GX_TRIANGLE, &upper, err));
    GX_TRY(gx_job_call(job, GX_TRANSPOSE, &turn, err));
    GX_TRY(times_triangle(job, GX_RIGHT, GX_UPPER, GX_UNIT, GX_NO_TRANS, GX_ONE, k, k, x, k, t,
                          BLOCK, err));
    GX_TRY(gx_job_call(job, GX_TRIANGLE, &v1, err));
    // Below: -V2 (T V1^H).  On top: I - V1 (T V1^H).
    GX_TRY(times_triangle(job, GX_RIGHT, GX_UPPER, GX_NON_UNIT, GX_NO_TRANS, GX_MINUS_ONE, r->rows,
                          k, t, BLOCK, at(job, c, ld, k, 0), ld, err));
    GX_TRY(gx_job_call(job, GX_COPY, &top, err));
    GX_TRY(times_triangle(job, GX_LEFT, GX_LOWER, GX_UNIT, GX_NO_TRANS, GX_MINUS_ONE, k, k, x, k, c,
                          ld, err));
    GX_TRY(make_unit(job, k, k, x, k, err));
    gx_args add = {.map = GX_MAP_ADD,
                   .m = k,
                   .n = k,
                   .alpha = GX_ONE,
                   .a = c,
                   .lda = ld,
                   .beta = GX_ONE,
                   .b = x,
                   .ldb = k,
                   .c = c,
                   .ldc = ld};
    return gx_job_call(job, GX_MAP, &add, err);
}

/* One block of ORGQR, columns j .. j+k-1; those behind are done.  t, x: BLOCK^2 elements each. */
static gx_code generate_block(const gx_job *job, const gx_args *p, int64_t j, void *t, void *x,
                              gx_err *err)
{
    int64_t k = gx_min(BLOCK, p->k - j);
    void *c = at(job, p->c, p->ldc, j, j);
    reflectors r = {.k = k,
                    .rows = p->m - j - k,
                    .v1 = c,
                    .v2 = at(job, p->c, p->ldc, j + k, j),
                    .ldv = p->ldc,
                    .tau = at(job, p->tau, 1, j, 0)};
    target rest = {.side = GX_LEFT,
                   .lines = p->n - j - k,
                   .top = at(job, p->c, p->ldc, j, j + k),
                   .ld_top = p->ldc,
                   .low = at(job, p->c, p->ldc, j + k, j + k),
                   .ld_low = p->ldc};
    GX_TRY(make_t(job, &r, t, BLOCK, err));
    GX_TRY(apply(job, &r, GX_NO_TRANS, t, BLOCK, &rest, err));
    GX_TRY(generate(job, &r, c, t, x, err));
    gx_args zeros = {.m = j, .n = k, .c = at(job, p->c, p->ldc, 0, j), .ldc = p->ldc};
    return gx_job_call(job, GX_FILL, &zeros, err);
}

static gx_code generate_all(const gx_job *job, const gx_args *p, gx_err *err)
{
    void *t;
    int64_t extra = p->n - p->k;
    gx_args zeros = {.m = p->k, .n = extra, .c = at(job, p->c, p->ldc, 0, p->k), .ldc = p->ldc};
    GX_TRY(gx_job_call(job, GX_FILL, &zeros, err));
    GX_TRY(make_unit(job, p->m - p->k, extra, at(job, p->c, p->ldc, p->k, p->k), p->ldc, err));
    GX_TRY(take(job, 2 * BLOCK * BLOCK, &t, err));
    void *x = at(job, t, 1, BLOCK * BLOCK, 0);
    gx_code code = GX_OK;
    int64_t last = gx_ceil_div(p->k, BLOCK) - 1;
    for (int64_t q = last; q >= 0 && code == GX_OK; q--) {
        code = generate_block(job, p, q * BLOCK, t, x, err);
    }
    give(job, t);
    return code;
}

// The calls ---------------------------------------------------------------------------------------

/* One kernel call is best, or all there is. */
static bool is_small(const gx_job *job, gx_kernel_id kernel, const gx_args *p)
{
    double flops = gx_kernel_flops(kernel, job->dtype, p);
    bool is_complex = gx_number_is_complex(job->dtype);
    return p->m <= 0 || p->n <= 0 || flops / (is_complex ? 8 : 2) < SMALL_PAIRS ||
           (is_complex && p->transa == GX_TRANS); // which the kernel refuses
}

gx_code gx_job_reflectors(const gx_job *job, gx_kernel_id kernel, const gx_args *p, gx_err *err)
{
    if (is_small(job, kernel, p)) {
        return gx_job_whole(job, kernel, p, err);
    }
    matrix a = matrix_of(p, kernel == GX_TPQRT);
    reflectors r = {.k = p->k,
                    .rows = p->is_pentagon ? p->m : p->m - p->k,
                    .v1 = p->is_pentagon ? NULL : p->a,
                    .v2 = p->is_pentagon ? p->a : at(job, p->a, p->lda, p->k, 0),
                    .ldv = p->lda,
                    .tau = p->tau};
    switch (kernel) {
    case GX_GEQRF:
        return factor(job, &a, gx_min(p->m, p->n), err);
    case GX_TPQRT:
        return factor(job, &a, p->n, err);
    case GX_LARFT:
        return make_t(job, &r, p->c, p->ldc, err);
    case GX_LARFB:
        return apply_given(job, p, err);
    case GX_ORGQR:
        return generate_all(job, p, err);
    default:
        return apply_many(job, p, kernel == GX_TPMQRT, err);
    }
}

/* At most: T, ORGQR's spare, W, and what a leaf wants; or what the one small call wants. */
size_t gx_team_call_bytes(const gx_backend *backend, gx_dev *dev, gx_kernel_id kernel,
                          gx_number dtype, const gx_args *p)
{
    const size_t ROUNDING = 4096; // of several small allocations
    backend = gx_team_backend(backend, kernel, dtype);
    int64_t lines = p->side == GX_LEFT ? p->n : p->m, k = BLOCK;
    size_t leaf = backend->workspace == NULL ? 0 : backend->workspace(dev, kernel, dtype, p);
    gx_args narrow = *p;
    switch (kernel) {
    case GX_LARFB:
        k = gx_max(p->k, BLOCK);
        break;
    case GX_GEQRF:
    case GX_ORGQR:
    case GX_TPQRT:
        lines = p->n;
        narrow.n = gx_min(p->n, LEAF);
        break;
    case GX_ORMQR:
    case GX_TPMQRT:
        break;
    default:
        return leaf + ROUNDING;
    }
    gx_job job = {.backend = backend, .dev = dev, .dtype = dtype};
    if (is_small(&job, kernel, p) || backend->workspace == NULL) {
        return leaf + ROUNDING;
    }
    bool has_leaf = kernel == GX_GEQRF || kernel == GX_TPQRT;
    leaf = has_leaf ? backend->workspace(dev, kernel, dtype, &narrow) : 0;
    int64_t triangles = kernel == GX_ORGQR ? 2 : 1;
    int64_t elements = triangles * BLOCK * BLOCK + k * gx_min(gx_max(lines, 0), CHUNK);
    return (size_t)elements * gx_number_bytes(dtype) + leaf + ROUNDING;
}
