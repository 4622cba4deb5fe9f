/*
** The CUDA backend: reflectors.  cuSOLVER factorises; what applies reflectors is made of products,
** because cuSOLVER has no 64-bit ormqr and orgqr, and because V is shared and must stay as it is.
**
**   GEQRF    cuSOLVER's Xgeqrf
**   LARFT    G = V^H V by gemm; with D = diag(tau) and U the part of G above the diagonal, the
**            recurrence T(:, j) = -tau_j T V^H v_j says T = (I + D U)^-1 D (C. Puglisi, SIAM J.
**            Sci. Stat. Comput. 13, 1992): one kernel of ours and one trsm, and tau_j = 0 is no
**            special case
**   LARFB    W = V^H C, W = op(T) W, C -= V W on the left; W = C V, W = W op(T), C -= W V^H on
**            the right
**   ORMQR    blocks of NB reflectors: T as LARFT, then LARFB
**   ORGQR    V is copied aside, c = I, and the blocks are applied from the last to the first, each
**            to the rows and columns that it reaches
**   TPQRT    Xgeqrf of the stack [R; c2] in `work`.  The reflectors of a stack whose upper part is
**            triangular have unit vectors as their upper parts, exactly, so V2 and tau are what the
**            contract asks for
**   TPMQRT   blocks of NB, with V = [I; V2]
**
** V is unit lower trapezoidal with something else above: its top k x k is copied to `work` clean,
** what is below is used where it lies.
**
** `work` is cut into parts aligned to 256 bytes; parts() gives their sizes in one place.
*/
#include "cuda.h"

enum { NB = 256, INFO_BYTES = 256 };

/* What every function here needs. */
typedef struct place {
    gx_dev *dev;
    gx_queue *queue;
    gx_number dtype;
    gx_err *err;
} place;

/* k reflectors: v with `rows` rows in all, or for a pentagon the rows below the unit matrix. */
typedef struct reflectors {
    int64_t k, rows;
    const void *v;
    int64_t ldv;
    const void *tau;
    bool is_pentagon;
} reflectors;

static gx_code times(const place *at, gx_trans transa, gx_trans transb, int64_t m, int64_t n,
                     int64_t k, double alpha, const void *a, int64_t lda, const void *b,
                     int64_t ldb, double beta, void *c, int64_t ldc)
{
    return gx_cuda_gemm(at->dev, at->queue, at->dtype, transa, transb, m, n, k, alpha, a, lda, b,
                        ldb, beta, c, ldc, at->err);
}

static gx_code by_triangle(const place *at, gx_kernel_id kernel, gx_side side, gx_trans trans,
                           gx_diag diag, int64_t m, int64_t n, const void *a, int64_t lda, void *c,
                           int64_t ldc)
{
    static const gx_kernel trsm[] = GX_SLOTS(gx_cuda_trsm), trmm[] = GX_SLOTS(gx_cuda_trmm);
    gx_args args = {.side = side,
                    .uplo = GX_UPPER,
                    .transa = trans,
                    .diag = diag,
                    .m = m,
                    .n = n,
                    .alpha = {1, 0},
                    .a = a,
                    .lda = lda,
                    .c = c,
                    .ldc = ldc};
    const gx_kernel *slots = kernel == GX_TRSM ? trsm : trmm;
    return slots[at->dtype](at->dev, at->queue, &args, at->err);
}

// Pieces ------------------------------------------------------------------------------------------

/* The top of V without what GEQRF keeps above the diagonal, k x k; nothing for a pentagon. */
static gx_code clean_top(const place *at, const reflectors *r, void *top)
{
    return r->is_pentagon ? GX_OK
                          : gx_cuda_triangle(at->dev, at->queue, at->dtype, GX_CUDA_ALL, GX_LOWER,
                                             GX_UNIT, r->k, r->k, r->v, r->ldv, top, r->k, at->err);
}

/* Rows of V that are used where they lie, below the top. */
static const void *below_top(const place *at, const reflectors *r, int64_t *rows)
{
    *rows = r->is_pentagon ? r->rows : r->rows - r->k;
    return gx_at(r->v, at->dtype, r->ldv, r->is_pentagon ? 0 : r->k, 0);
}

/* t = T, k x k, zeros below; gram: room for k x k. */
static gx_code make_t(const place *at, const reflectors *r, const void *top, void *gram, void *t,
                      int64_t ldt)
{
    int64_t k = r->k, rows;
    const void *v2 = below_top(at, r, &rows);
    if (k <= 0) {
        return GX_OK;
    }
    if (!r->is_pentagon) {
        GX_TRY(times(at, GX_CONJ_TRANS, GX_NO_TRANS, k, k, k, 1, top, k, top, k, 0, gram, k));
    }
    GX_TRY(times(at, GX_CONJ_TRANS, GX_NO_TRANS, k, k, rows, 1, v2, r->ldv, v2, r->ldv,
                 r->is_pentagon ? 0 : 1, gram, k));
    gx_cuda_call call = {.m = k, .n = k, .b = gram, .ldb = k, .c = t, .ldc = ldt, .tau = r->tau};
    GX_TRY(gx_cuda_over_block(at->dev, at->queue, GX_CUDA_LARFT, at->dtype, &call, at->err));
    return by_triangle(at, GX_TRSM, GX_LEFT, GX_NO_TRANS, GX_UNIT, k, k, gram, k, t, ldt);
}

/* c, c2: what the top of V and what is below it work on; for a pentagon c is its own matrix. */
typedef struct target {
    gx_side side;
    gx_trans trans;
    int64_t lines; /* columns (LEFT) or rows (RIGHT) of both */
    void *c;
    int64_t ldc;
    void *c2;
    int64_t ldc2;
} target;

/* c -= (top) w or w (top)^H. */
static gx_code subtract_top(const place *at, const reflectors *r, const target *x, const void *top,
                            const void *w)
{
    bool is_left = x->side == GX_LEFT;
    if (!r->is_pentagon) {
        return is_left ? times(at, GX_NO_TRANS, GX_NO_TRANS, r->k, x->lines, r->k, -1, top, r->k, w,
                               r->k, 1, x->c, x->ldc)
                       : times(at, GX_NO_TRANS, GX_CONJ_TRANS, x->lines, r->k, r->k, -1, w,
                               x->lines, top, r->k, 1, x->c, x->ldc);
    }
    static const gx_kernel map[] = GX_SLOTS(gx_cuda_map);
    gx_args args = {.map = GX_MAP_ADD,
                    .m = is_left ? r->k : x->lines,
                    .n = is_left ? x->lines : r->k,
                    .alpha = {1, 0},
                    .beta = {-1, 0},
                    .a = x->c,
                    .lda = x->ldc,
                    .b = w,
                    .ldb = is_left ? r->k : x->lines,
                    .c = x->c,
                    .ldc = x->ldc};
    return map[at->dtype](at->dev, at->queue, &args, at->err);
}

/* w = top^H c or c top; for a pentagon, whose top is the unit matrix, c itself. */
static gx_code multiply_top(const place *at, const reflectors *r, const target *x, const void *top,
                            void *w)
{
    bool is_left = x->side == GX_LEFT;
    if (r->is_pentagon) {
        return gx_cuda_copy(at->dev, at->queue, at->dtype, GX_NO_TRANS, is_left ? r->k : x->lines,
                            is_left ? x->lines : r->k, x->c, x->ldc, w, is_left ? r->k : x->lines,
                            at->err);
    }
    return is_left ? times(at, GX_CONJ_TRANS, GX_NO_TRANS, r->k, x->lines, r->k, 1, top, r->k, x->c,
                           x->ldc, 0, w, r->k)
                   : times(at, GX_NO_TRANS, GX_NO_TRANS, x->lines, r->k, r->k, 1, x->c, x->ldc, top,
                           r->k, 0, w, x->lines);
}

/* op(I - V T V^H) from the side; w: lines x k. */
static gx_code apply_block(const place *at, const reflectors *r, const target *x, const void *top,
                           const void *t, int64_t ldt, void *w)
{
    int64_t k = r->k, rows, n = x->lines;
    const void *v2 = below_top(at, r, &rows);
    if (k <= 0 || n <= 0) {
        return GX_OK;
    }
    GX_TRY(multiply_top(at, r, x, top, w));
    if (x->side == GX_LEFT) {
        GX_TRY(times(at, GX_CONJ_TRANS, GX_NO_TRANS, k, n, rows, 1, v2, r->ldv, x->c2, x->ldc2, 1,
                     w, k));
        GX_TRY(by_triangle(at, GX_TRMM, GX_LEFT, x->trans, GX_NON_UNIT, k, n, t, ldt, w, k));
        GX_TRY(subtract_top(at, r, x, top, w));
        return times(at, GX_NO_TRANS, GX_NO_TRANS, rows, n, k, -1, v2, r->ldv, w, k, 1, x->c2,
                     x->ldc2);
    }
    GX_TRY(times(at, GX_NO_TRANS, GX_NO_TRANS, n, k, rows, 1, x->c2, x->ldc2, v2, r->ldv, 1, w, n));
    GX_TRY(by_triangle(at, GX_TRMM, GX_RIGHT, x->trans, GX_NON_UNIT, n, k, t, ldt, w, n));
    GX_TRY(subtract_top(at, r, x, top, w));
    return times(at, GX_NO_TRANS, GX_CONJ_TRANS, n, rows, k, -1, w, n, v2, r->ldv, 1, x->c2,
                 x->ldc2);
}

// Larft, larfb ------------------------------------------------------------------------------------

static gx_code refuse_plain(gx_kernel_id kernel, gx_number dtype, const gx_args *p, gx_err *err)
{
    return gx_number_is_complex(dtype) && p->transa == GX_TRANS
               ? gx_fail(err, GX_UNSUPPORTED, "%s has no plain transpose of complex reflectors",
                         gx_kernel_name(kernel))
               : GX_OK;
}

static gx_code larft(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    place at = {dev, queue, dtype, err};
    reflectors r = {.k = gx_max(p->k, 0),
                    .rows = p->m,
                    .v = p->a,
                    .ldv = p->lda,
                    .tau = p->tau,
                    .is_pentagon = p->is_pentagon};
    char *top = p->work, *gram = top + gx_cuda_area(dtype, r.k, r.k);
    GX_TRY(clean_top(&at, &r, top));
    return make_t(&at, &r, top, gram, p->c, p->ldc);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_larft, larft)

/* The rows (LEFT) or columns (RIGHT) of c from `first` on, cut after k of them. */
static target target_of(const place *at, const gx_args *p, int64_t first, int64_t k)
{
    bool is_left = p->side == GX_LEFT;
    return (target){
        .side = p->side,
        .trans = p->transa,
        .lines = is_left ? p->n : p->m,
        .c = gx_at(p->c, at->dtype, p->ldc, is_left ? first : 0, is_left ? 0 : first),
        .ldc = p->ldc,
        .c2 = gx_at(p->c, at->dtype, p->ldc, is_left ? first + k : 0, is_left ? 0 : first + k),
        .ldc2 = p->ldc};
}

static gx_code larfb(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    GX_TRY(refuse_plain(GX_LARFB, dtype, p, err));
    place at = {dev, queue, dtype, err};
    reflectors r = {
        .k = gx_max(p->k, 0), .rows = p->side == GX_LEFT ? p->m : p->n, .v = p->a, .ldv = p->lda};
    target x = target_of(&at, p, 0, r.k);
    char *top = p->work, *w = top + gx_cuda_area(dtype, r.k, r.k);
    if (x.lines <= 0) {
        return GX_OK;
    }
    GX_TRY(clean_top(&at, &r, top));
    return apply_block(&at, &r, &x, top, p->b, p->ldb, w);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_larfb, larfb)

// Many reflectors ---------------------------------------------------------------------------------

/* Blocks of up to NB of k reflectors; rooms of `work` for one of them. */
typedef struct rooms {
    char *top, *gram, *t, *w;
} rooms;

static size_t rooms_bytes(gx_number dtype, int64_t k, int64_t lines)
{
    int64_t nb = gx_min(NB, gx_max(k, 0));
    return 3 * gx_cuda_area(dtype, nb, nb) + gx_cuda_area(dtype, nb, lines);
}

static rooms rooms_of(gx_number dtype, int64_t k, void *work)
{
    int64_t nb = gx_min(NB, gx_max(k, 0));
    size_t square = gx_cuda_area(dtype, nb, nb);
    char *base = work;
    return (rooms){base, base + square, base + 2 * square, base + 3 * square};
}

/* T of a block, then the block to x. */
static gx_code apply_reflectors(const place *at, const reflectors *r, const target *x,
                                const rooms *room)
{
    GX_TRY(clean_top(at, r, room->top));
    GX_TRY(make_t(at, r, room->top, room->gram, room->t, r->k));
    return apply_block(at, r, x, room->top, room->t, r->k, room->w);
}

static const void *tau_at(gx_number dtype, const void *tau, int64_t i)
{
    return (const char *)tau + (size_t)i * gx_number_bytes(dtype);
}

/* c = op(Q) c or c op(Q), v = a, whatever transa. */
static gx_code apply_all(const place *at, const gx_args *p, bool is_pentagon)
{
    bool is_left = p->side == GX_LEFT;
    bool is_ascending = (p->transa == GX_NO_TRANS) != is_left;
    int64_t blocks = gx_ceil_div(gx_max(p->k, 0), NB), length = is_left ? p->m : p->n;
    rooms room = rooms_of(at->dtype, p->k, p->work);
    for (int64_t q = 0; q < blocks; q++) {
        int64_t i = (is_ascending ? q : blocks - 1 - q) * NB, k = gx_min(NB, p->k - i);
        reflectors r = {.k = k,
                        .rows = is_pentagon ? length : length - i,
                        .v = gx_at(p->a, at->dtype, p->lda, is_pentagon ? 0 : i, i),
                        .ldv = p->lda,
                        .tau = tau_at(at->dtype, p->tau, i),
                        .is_pentagon = is_pentagon};
        target x = target_of(at, p, i, k);
        if (is_pentagon) {
            x.c2 = p->c2;
            x.ldc2 = p->ldc2;
        }
        GX_TRY(apply_reflectors(at, &r, &x, &room));
    }
    return GX_OK;
}

static gx_code ormqr(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    GX_TRY(refuse_plain(GX_ORMQR, dtype, p, err));
    place at = {dev, queue, dtype, err};
    return p->m <= 0 || p->n <= 0 ? GX_OK : apply_all(&at, p, false);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_ormqr, ormqr)

static gx_code tpmqrt(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    GX_TRY(refuse_plain(GX_TPMQRT, dtype, p, err));
    place at = {dev, queue, dtype, err};
    return p->m <= 0 || p->n <= 0 ? GX_OK : apply_all(&at, p, true); // no V2: all tau are 0
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_tpmqrt, tpmqrt)

static gx_code orgqr(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    if (p->m <= 0 || p->n <= 0) {
        return GX_OK;
    }
    place at = {dev, queue, dtype, err};
    char *v = p->work;
    rooms room = rooms_of(dtype, p->k, v + gx_cuda_area(dtype, p->m, p->k));
    GX_TRY(gx_cuda_copy(dev, queue, dtype, GX_NO_TRANS, p->m, p->k, p->c, p->ldc, v, p->m, err));
    GX_TRY(gx_cuda_triangle(dev, queue, dtype, GX_CUDA_IDENTITY, GX_LOWER, GX_UNIT, p->m, p->n,
                            NULL, 0, p->c, p->ldc, err));
    for (int64_t q = gx_ceil_div(gx_max(p->k, 0), NB) - 1; q >= 0; q--) {
        int64_t i = q * NB, k = gx_min(NB, p->k - i);
        reflectors r = {.k = k,
                        .rows = p->m - i,
                        .v = gx_at(v, dtype, p->m, i, i),
                        .ldv = p->m,
                        .tau = tau_at(dtype, p->tau, i)};
        target x = {.side = GX_LEFT,
                    .trans = GX_NO_TRANS,
                    .lines = p->n - i, // the columns before are unit vectors in other rows
                    .c = gx_at(p->c, dtype, p->ldc, i, i),
                    .ldc = p->ldc,
                    .c2 = gx_at(p->c, dtype, p->ldc, i + k, i),
                    .ldc2 = p->ldc};
        GX_TRY(apply_reflectors(&at, &r, &x, &room));
    }
    return GX_OK;
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_orgqr, orgqr)

// Factorising -------------------------------------------------------------------------------------

static gx_code ask(gx_dev *dev, gx_cuda_handle solver, gx_cuda_handle params, gx_number dtype,
                   int64_t m, int64_t n, const void *c, int64_t ldc, gx_cuda_appetite *a,
                   gx_err *err)
{
    int type = gx_cuda_type(dtype);
    *a = (gx_cuda_appetite){0, 0};
    int status = dev->api->geqrf_bytes(solver, params, m, n, type, c, gx_max(ldc, gx_max(m, 1)),
                                       type, NULL, type, &a->device, &a->host);
    return gx_cusolver_check(dev, status, "Xgeqrf_bufferSize", err);
}

/* c = V\R; work: info, then cuSOLVER's. */
static gx_code factorise(const place *at, int64_t m, int64_t n, void *c, int64_t ldc, void *tau,
                         void *work)
{
    gx_dev *dev = at->dev;
    gx_queue *queue = at->queue;
    gx_err *err = at->err;
    gx_cuda_appetite a;
    void *host;
    int type = gx_cuda_type(at->dtype);
    GX_TRY(gx_cuda_solver(dev, queue, err));
    GX_TRY(ask(dev, queue->solver, queue->params, at->dtype, m, n, c, ldc, &a, err));
    GX_TRY(gx_cuda_host_work(dev, queue, a.host, &host, err));
    int status = dev->api->geqrf(queue->solver, queue->params, m, n, type, c, ldc, type, tau, type,
                                 (char *)work + INFO_BYTES, a.device, host, a.host, work);
    return gx_cusolver_check(dev, status, "Xgeqrf", err);
}

static gx_code geqrf(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    place at = {dev, queue, dtype, err};
    return p->m <= 0 || p->n <= 0 ? GX_OK
                                  : factorise(&at, p->m, p->n, p->c, p->ldc, p->tau, p->work);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_geqrf, geqrf)

static gx_code tpqrt(gx_dev *dev, gx_queue *queue, gx_number dtype, const gx_args *p, gx_err *err)
{
    place at = {dev, queue, dtype, err};
    int64_t m = p->m, n = p->n, ld = n + gx_max(m, 0);
    if (n <= 0) {
        return GX_OK;
    }
    if (m <= 0) {
        return gx_cuda_region(dev, queue, dtype, GX_CUDA_ALL, GX_LOWER, n, 1, (gx_scalar){0, 0},
                              p->tau, n, err);
    }
    char *stack = p->work, *rest = stack + gx_cuda_area(dtype, ld, n);
    void *low = gx_at(stack, dtype, ld, n, 0);
    GX_TRY(gx_cuda_triangle(dev, queue, dtype, GX_CUDA_ALL, GX_UPPER, GX_NON_UNIT, n, n, p->c,
                            p->ldc, stack, ld, err));
    GX_TRY(gx_cuda_copy(dev, queue, dtype, GX_NO_TRANS, m, n, p->c2, p->ldc2, low, ld, err));
    GX_TRY(factorise(&at, ld, n, stack, ld, p->tau, rest));
    GX_TRY(gx_cuda_triangle(dev, queue, dtype, GX_CUDA_TRIANGLE, GX_UPPER, GX_NON_UNIT, n, n, stack,
                            ld, p->c, p->ldc, err));
    return gx_cuda_copy(dev, queue, dtype, GX_NO_TRANS, m, n, low, ld, p->c2, p->ldc2, err);
}
GX_CUDA_SLOTS_DEFINE(gx_cuda_tpqrt, tpqrt)

// Workspaces --------------------------------------------------------------------------------------

static size_t factorise_bytes(gx_dev *dev, gx_number dtype, int64_t m, int64_t n)
{
    gx_cuda_appetite a;
    if (m <= 0 || n <= 0) {
        return INFO_BYTES;
    }
    GX_CUDA_ASK(dev, ask(dev, dev->solver, dev->params, dtype, m, n, NULL, m, &a, NULL));
    return INFO_BYTES + gx_cuda_round(a.device);
}

size_t gx_cuda_qr_bytes(gx_dev *dev, gx_kernel_id kernel, gx_number dtype, const gx_args *p)
{
    int64_t m = gx_max(p->m, 0), n = gx_max(p->n, 0), k = gx_max(p->k, 0);
    int64_t lines = p->side == GX_LEFT ? n : m;
    switch (kernel) {
    case GX_GEQRF:
        return factorise_bytes(dev, dtype, m, n);
    case GX_LARFT:
        return 2 * gx_cuda_area(dtype, k, k);
    case GX_LARFB:
        return gx_cuda_area(dtype, k, k) + gx_cuda_area(dtype, k, lines);
    case GX_ORGQR:
        return gx_cuda_area(dtype, m, k) + rooms_bytes(dtype, k, n);
    case GX_TPQRT:
        return gx_cuda_area(dtype, n + m, n) + factorise_bytes(dev, dtype, n + m, n);
    default: // ORMQR, TPMQRT
        return rooms_bytes(dtype, k, lines);
    }
}
