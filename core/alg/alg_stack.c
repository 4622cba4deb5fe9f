/*
** The triangle of a tall, narrow matrix in one streamed pass (pass.h): R of [A B].
**
** A unit is a tile of rows.  Its thread factors it alone, panel by panel of about PANEL_BYTES,
** which stay in the core's own cache, each stacked under the triangle of those before:
**
**   [R_u; P] = Q [R_u'; 0]       TPQRT, R_u = 0 at first
**
** A small QR runs at a third of the rate of products.  So where the triangle R_1 of the first rows
** has columns that are nearly orthogonal, up to their lengths, the unit's other rows P are squared,
** where they lie if they can be,
**
**   R_u^H R_u = R_1^H R_1 + sum of P^H P         SYRK, POTRF
**
** where the first column is one of ones and the others are nearly orthogonal without their parts
** along it, c, as they were in the first rows, P T^-1 is squared (PAIR takes those parts off), T
** the unit matrix with [1 c] as its first row: R_u = R T; and where columns are only not nearly
** dependent, Y = P R_1^-1 is, whose columns are nearly orthogonal then:
**
**   R_u = U R_1,   U^H U = I + sum of Y^H Y      TRSM, SYRK, POTRF
**
** Y R_1 = P holds to rounding, column by column.  What is squared costs rounding times the square
** of the condition of R_u, columns scaled to length 1, or of U; it is looked at afterwards: more
** than CONDITION (rows unlike the first ones), or a triangle that does not exist, and the unit's
** panels are taken again as above (Yamamoto, Nakatsukasa, Yanagisawa & Fukaya 2015 for Cholesky QR
** of what is nearly orthogonal).  Doubles made of floats have digits to spare: with a condition of
** NARROW_CONDITION their rounding is still a millionth of that of the floats.
**
** The units' triangles are folded in their order by TPQRT, R = the triangle of [R; R_u]:
** the sequential tree of Demmel, Grigori, Hoemmen & Langou 2012 over a flat one.  No Q is kept.  A
** panel of a few hundred rows and columns is too small to be shared by a team, and the panels of
** many units are many.
**
** With right-hand sides [A B] is factored as one matrix,
**
**   R = [ R_A  C ]     C = the first n rows of Q^H B
**       [ 0    E ]     the columns of E have the norms of the residuals
**
** Work 2 m (n + p)^2.  I/O: A and B once.  Memory: for each thread a piece of A as it is stored, a
** panel, and two triangles.  Pieces and panels follow from shapes: the same bits for every budget
** and number of threads.
*/
#include "narrow.h"

#include "small_r.h"

#include <math.h>
#include <string.h>

/* Columns, at most: wider ones are worth a team. */
enum { MOST_COLUMNS = 400 };

/* A panel fits into half of a second-level cache, with the triangle. */
static const int64_t PANEL_BYTES = 512 << 10;

/* Stored rows that are read together; rows of a matrix in memory. */
static const int64_t PIECE_BYTES = 16 << 20, VALUE_BYTES = 1 << 20;

/* A unit's triangle is little beside its rows. */
enum { ROWS_PER_COLUMN = 4 };

/*
** A unit's first rows that its others are squared after: so many a column, or a panel; a unit of
** FIRST_PARTS times as many is worth the inverse of their triangle.
*/
enum { FIRST_ROWS = 16, FIRST_PARTS = 4 };

/*
** The condition of what may be squared: rounding grows by that of the order of what Householder's
** reflectors make of it.  Beyond DEPENDENT a triangle tells nothing of the rows to come.
*/
static const double CONDITION = 4, NARROW_CONDITION = 32, DEPENDENT = 1e6;

/* The matrix under centred columns, or under a view of all of it, or A itself. */
static const gx_mat *base_of(const gx_mat *A)
{
    const gx_mat *B = A->base;
    bool is_whole = A->kind == GX_MAT_VIEW && A->trans == GX_NO_TRANS && A->row0 == 0 &&
                    A->col0 == 0 && A->rows == B->rows && A->cols == B->cols;
    return A->kind == GX_MAT_CENTRED || is_whole ? B : A;
}

static void choose_heights(gx_stack *s)
{
    const gx_mat *base = base_of(s->A);
    int64_t element = (int64_t)gx_number_bytes(base->number), row = gx_max(1, base->cols) * element;
    int64_t least = ROWS_PER_COLUMN * s->cols;
    int64_t most = (base->kind == GX_MAT_VALUE ? VALUE_BYTES : PIECE_BYTES) / row / 64 * 64;
    int64_t tile = gx_max(1, gx_min(base->tile_rows, s->A->rows));
    s->height = tile < least ? tile * gx_ceil_div(least, tile) : tile;
    s->height = gx_min(gx_min(s->height, gx_max(most, least)), s->A->rows);
    int64_t panel = PANEL_BYTES / (s->cols * (int64_t)gx_number_bytes(s->dtype)) / 64 * 64;
    s->panel = gx_min(gx_max(panel, 2 * s->cols), s->height);
}

static int64_t first_rows(const gx_stack *s)
{
    return gx_min(s->panel, FIRST_ROWS * s->cols);
}

static size_t rounded(int64_t elements, gx_number dtype)
{
    return gx_whole_lines((size_t)elements * gx_number_bytes(dtype));
}

/* Columns of ones before those of the matrix under A. */
static int64_t count_ones(const gx_stack *s)
{
    return s->A->kind == GX_MAT_CENTRED && s->A->has_ones ? 1 : 0;
}

/* Is A what is read, but for a column of ones? */
static bool is_in_place(const gx_stack *s)
{
    const gx_mat *A = s->A, *base = base_of(A);
    bool is_plain = A->kind != GX_MAT_CENTRED || // a plan's shift is not known
                    (A->shift != NULL && A->scale == NULL && A->rest == NULL && !A->is_conjugated);
    for (int64_t j = 0; j < base->cols && is_plain && A->kind == GX_MAT_CENTRED; j++) {
        is_plain = A->shift[j].re == 0 && A->shift[j].im == 0;
    }
    return s->is_piecewise && base->number == s->dtype && is_plain;
}

/* Where the parts of a thread's memory begin; the last is its size. */
typedef struct layout {
    size_t rhs, panel, inverse, gram, along, tau, kernel, end;
} layout;

static gx_args panel_args(const gx_stack *s, int64_t rows)
{
    return (gx_args){.m = rows, .n = s->cols, .ldc = s->cols, .ldc2 = rows};
}

static layout layout_of(const gx_stack *s)
{
    static const gx_kernel_id kernels[] = {GX_TPQRT, GX_POTRF, GX_TRSM, GX_TRMM, GX_SYRK, GX_HERK};
    const gx_mat *base = base_of(s->A);
    gx_args largest = panel_args(s, gx_max(s->panel, s->cols));
    layout l = {.rhs = s->is_piecewise ? rounded(s->height * base->cols, base->number) : 0};
    l.panel = l.rhs + (s->B == NULL ? 0 : rounded(s->height * s->B->cols, s->dtype));
    l.panel = is_in_place(s) ? rounded(s->height * s->cols, s->dtype) : l.panel;
    l.inverse = l.panel + rounded(s->panel * s->cols, s->dtype);
    l.gram = l.inverse + rounded(s->cols * s->cols, s->dtype);
    l.along = l.gram + rounded(s->cols * s->cols, s->dtype);
    l.tau = l.along + rounded(s->cols, s->dtype);
    l.kernel = l.tau + rounded(s->cols, s->dtype);
    l.end = l.kernel;
    for (int k = 0; k < (int)(sizeof kernels / sizeof kernels[0]); k++) {
        size_t bytes = s->backend->workspace(s->dev, kernels[k], s->dtype, &largest);
        l.end = l.kernel + bytes > l.end ? l.kernel + bytes : l.end;
    }
    return l;
}

static gx_pass pass_of(const gx_stack *s)
{
    double bytes = (double)s->A->rows * (double)base_of(s->A)->cols;
    return (gx_pass){.units = gx_ceil_div(s->A->rows, s->height),
                     .bytes = bytes * (double)gx_number_bytes(base_of(s->A)->number),
                     .flops = s->flops,
                     .work_bytes = layout_of(s).end,
                     .part_bytes = rounded(s->cols * s->cols, s->dtype)};
}

bool gx_stack_plan(gx_run *run, const gx_mat *A, const gx_mat *B, gx_number dtype, gx_stack *s)
{
    *s = (gx_stack){.A = A, .B = B, .dtype = dtype, .cols = A->cols + (B == NULL ? 0 : B->cols)};
    double pairs = (double)A->rows * (double)s->cols * (double)s->cols;
    s->flops = pairs * (gx_number_is_complex(dtype) ? 8 : 2);
    if (!gx_ok(run) || gx_run_device(run, &s->backend, &s->dev) != GX_OK || s->cols == 0 ||
        s->cols > MOST_COLUMNS || A->rows < ROWS_PER_COLUMN * s->cols) {
        return false;
    }
    s->is_piecewise = gx_mat_is_tiled(base_of(A));
    choose_heights(s);
    gx_pass pass = pass_of(s);
    size_t triangle = pass.part_bytes + layout_of(s).end - layout_of(s).tau;
    return triangle + gx_pass_least_bytes(&pass) + (16 << 10) <= gx_mem_available(run->ctx->mem);
}

void gx_stack_predict(gx_run *run, const gx_stack *s, gx_cost *cost, gx_terms *terms)
{
    gx_pass pass = pass_of(s);
    bool is_read = gx_mat_base_stored(s->A) != NULL;
    *cost = (gx_cost){.flops = s->flops,
                      .bytes_up = pass.bytes,
                      .bytes_read = is_read ? pass.bytes : 0,
                      .calls = pass.units,
                      .loads = pass.units};
    // A unit's first rows by QR; the others, where there are some, are squared as a rule.
    const gx_profile *profile = gx_profile_get(run->ctx);
    int threads = (int)run->ctx->config.number[GX_SET_THREADS];
    double parts = (double)s->height / (double)first_rows(s),
           qr = parts < FIRST_PARTS ? 1 : 1 / parts;
    gx_args all = panel_args(s, s->A->rows);
    cost->compute_s =
        qr * gx_profile_kernel(profile, GX_TPQRT, s->dtype, &all, threads) +
        (1 - qr) * s->flops / 2 / gx_profile_flops(profile, s->dtype, s->cols, threads);
    gx_predict_pass(run, cost, s->dtype, s->cols, terms);
}

void gx_tsqr_foresee(gx_run *run, const gx_mat *A, const gx_mat *B, gx_number dtype, double bytes,
                     gx_tsqr_plan *plan, gx_cost *cost, gx_terms *terms)
{
    gx_stack stack;
    gx_args factor = {.m = A->rows, .n = A->cols};
    gx_args apply = {.m = A->rows, .n = B == NULL ? 0 : B->cols, .k = A->cols};
    if (gx_stack_plan(run, A, B, dtype, &stack)) {
        gx_stack_predict(run, &stack, cost, terms);
        cost->bytes_read = bytes;
        plan->height = stack.height;
        return;
    }
    *cost = (gx_cost){.flops = gx_kernel_flops(GX_TPQRT, dtype, &factor) +
                               gx_kernel_flops(GX_TPMQRT, dtype, &apply),
                      .bytes_read = bytes,
                      .slots = plan->slots,
                      .calls = plan->blocks};
    gx_predict_cost(run, NULL, cost, dtype, gx_max(1, A->cols), terms);
}

// The pass ----------------------------------------------------------------------------------------

typedef struct stack {
    gx_run *run;
    const gx_stack *plan;
    void *r;      /* cols x cols, upper triangle */
    char *memory; /* of folding: tau, the kernel's */
} stack;

/* The triangle at r of [r; c2], rows x cols. */
static gx_code reduce(const gx_stack *s, void *r, void *c2, int64_t rows, char *tau, char *work,
                      gx_err *err)
{
    gx_args args = panel_args(s, rows);
    args.c = r;
    args.c2 = c2;
    args.tau = tau;
    args.work = work;
    return s->backend->kernel[GX_TPQRT][s->dtype](s->dev, NULL, &args, err);
}

/* A's rows of a unit, as a source in memory where they have been read in one piece. */
typedef struct source {
    gx_mat piece, centred;
    const gx_mat *A; /* to be read from row `first` on */
    int64_t first;
} source;

static gx_code open_source(const stack *x, int64_t i0, int64_t rows, gx_pass_thread *thread,
                           void *memory, source *from, gx_err *err)
{
    const gx_mat *A = x->plan->A, *base = base_of(A);
    from->A = A;
    from->first = i0;
    if (!x->plan->is_piecewise) {
        return GX_OK;
    }
    GX_TRY(gx_pass_read(thread, base, i0, 0, rows, base->cols, base->number, memory, rows, err));
    gx_mat_value(&from->piece, A->label, base->number, rows, base->cols, memory, rows);
    from->A = &from->piece;
    from->first = 0;
    if (A->kind == GX_MAT_CENTRED) {
        gx_mat_centred(&from->centred, &from->piece, A->number, A->shift, A->scale, A->has_ones);
        from->centred.rest = A->rest;
        from->centred.is_conjugated = A->is_conjugated;
        from->A = &from->centred;
    }
    return GX_OK;
}

// By products -------------------------------------------------------------------------------------

/* One thread's work on a unit. */
typedef struct desk {
    const stack *x;
    gx_pass_thread *thread;
    source from;
    int64_t rows; /* of the unit */
    char *rhs, *panel, *inverse, *gram, *along, *tau, *work;
    void *r;       /* R_u */
    char *all;     /* the unit's rows of [A B], columns d->rows apart; NULL: to be read    */
    bool is_plain; /* the rows are squared as they are, or without what is along the ones */
    bool is_along; /* the latter: `along` holds - c                                       */
} desk;

/* What the columns' condition may be for that. */
static double plain_condition(const gx_stack *s)
{
    bool is_widened = gx_number_is_double(s->dtype) && !gx_number_is_double(base_of(s->A)->number);
    return is_widened ? NARROW_CONDITION : CONDITION;
}

static gx_code call(const desk *d, gx_kernel_id kernel, gx_args args, gx_err *err)
{
    const gx_stack *s = d->x->plan;
    args.work = d->work;
    args.alpha = (gx_scalar){1, 0};
    args.uplo = GX_UPPER;
    return s->backend->kernel[kernel][s->dtype](s->dev, NULL, &args, err);
}

static void make_unit(const gx_stack *s, void *c)
{
    const double one[2] = {1, 0};
    memset(c, 0, rounded(s->cols * s->cols, s->dtype));
    for (int64_t j = 0; j < s->cols; j++) {
        gx_convert(gx_number_is_complex(s->dtype) ? GX_C128 : GX_F64, one, 1, s->dtype,
                   gx_at(c, s->dtype, s->cols, j, j), 1, 1, 1);
    }
}

/*
** inverse = r^-1, and about the condition of r with columns of length 1: 1 where they are
** orthogonal; NaN or Inf where there is none.
*/
static gx_code invert(const desk *d, const void *r, double *condition, gx_err *err)
{
    const gx_stack *s = d->x->plan;
    int64_t n = s->cols;
    double sum = 0;
    make_unit(s, d->inverse);
    GX_TRY(call(
        d, GX_TRSM,
        (gx_args){.side = GX_LEFT, .m = n, .n = n, .a = r, .lda = n, .c = d->inverse, .ldc = n},
        err));
    for (int64_t i = 0; i < n; i++) {
        double length = gx_small_norm(s->dtype, gx_at(r, s->dtype, n, 0, i), n, i + 1, 1);
        double row = gx_small_norm(s->dtype, gx_at(d->inverse, s->dtype, n, i, 0), n, 1, n);
        sum += length * row * length * row;
    }
    *condition = sqrt(sum / (double)n);
    return GX_OK;
}

/* Rows [i, i + m) of the unit, into the panel. */
static gx_code take_panel(const desk *d, int64_t i, int64_t m, gx_err *err)
{
    const gx_stack *s = d->x->plan;
    int64_t n = s->A->cols;
    if (d->all != NULL) {
        const void *from = gx_at(d->all, s->dtype, d->rows, i, 0);
        gx_convert(s->dtype, from, d->rows, s->dtype, d->panel, m, m, s->cols);
        return GX_OK;
    }
    GX_TRY(
        gx_pass_read(d->thread, d->from.A, d->from.first + i, 0, m, n, s->dtype, d->panel, m, err));
    if (s->B != NULL) {
        gx_convert(s->dtype, gx_at(d->rhs, s->dtype, d->rows, i, 0), d->rows, s->dtype,
                   gx_at(d->panel, s->dtype, m, 0, n), m, m, s->B->cols);
    }
    return GX_OK;
}

/* gram = beta gram + X^H X, m rows of X. */
static gx_code add_squares(const desk *d, const void *X, int64_t ldx, int64_t m, double beta,
                           gx_err *err)
{
    const gx_stack *s = d->x->plan;
    bool is_complex = gx_number_is_complex(s->dtype);
    return call(d, is_complex ? GX_HERK : GX_SYRK,
                (gx_args){.transa = is_complex ? GX_CONJ_TRANS : GX_TRANS,
                          .m = s->cols,
                          .n = s->cols,
                          .k = m,
                          .beta = {beta, 0},
                          .a = X,
                          .lda = ldx,
                          .c = d->gram,
                          .ldc = s->cols},
                err);
}

/* gram = R_1^H R_1, or I. */
static gx_code start_gram(const desk *d, gx_err *err)
{
    const gx_stack *s = d->x->plan;
    make_unit(s, d->gram);
    return d->is_plain ? add_squares(d, d->r, s->cols, s->cols, 0, err) : GX_OK;
}

/* Rows [i, i + m) of the unit go into the gram: they, without what is along the ones, or Y. */
static gx_code add_panel(const desk *d, int64_t i, int64_t m, gx_err *err)
{
    const gx_stack *s = d->x->plan;
    int64_t n = s->cols;
    if (d->all != NULL && d->is_plain && !d->is_along) {
        return add_squares(d, gx_at(d->all, s->dtype, d->rows, i, 0), d->rows, m, 1, err);
    }
    GX_TRY(take_panel(d, i, m, err));
    if (d->is_along) {
        gx_args less = {.m = m, .n = 1, .k = n - 1, .a = d->panel, .lda = m, .ldb = 1, .ldc = m};
        less.b = gx_at(d->along, s->dtype, 1, 0, 1);
        less.c = gx_at(d->panel, s->dtype, m, 0, 1);
        GX_TRY(call(d, GX_PAIR, less, err));
    } else if (!d->is_plain) {
        gx_args solve = {
            .side = GX_RIGHT, .m = m, .n = n, .a = d->r, .lda = n, .c = d->panel, .ldc = m};
        GX_TRY(call(d, GX_TRSM, solve, err));
    }
    return add_squares(d, d->panel, m, m, 1, err);
}

/* R_1 without its first row, but for the diagonal (which is real): R_1 T^-1. */
static void take_along(desk *d)
{
    const gx_stack *s = d->x->plan;
    double head = gx_number_get(s->dtype, d->r, 0).re;
    for (int64_t j = 1; j < s->cols; j++) {
        gx_scalar x = gx_number_get(s->dtype, d->r, j * s->cols);
        gx_number_put(s->dtype, d->along, j, (gx_scalar){-x.re / head, -x.im / head});
        gx_number_put(s->dtype, d->r, j * s->cols, (gx_scalar){0, 0});
    }
    d->is_along = true;
}

/* R T. */
static void give_along(desk *d)
{
    const gx_stack *s = d->x->plan;
    double head = gx_number_get(s->dtype, d->r, 0).re;
    for (int64_t j = 1; j < s->cols && d->is_along; j++) {
        gx_scalar c = gx_number_get(s->dtype, d->along, j);
        gx_scalar x = gx_number_get(s->dtype, d->r, j * s->cols);
        x = (gx_scalar){x.re - c.re * head, x.im - c.im * head};
        gx_number_put(s->dtype, d->r, j * s->cols, x);
    }
    d->is_along = false;
}

/* R_u from its gram, or U from its.  *is_done false: R_1 is as it was, the panels come again. */
static gx_code conclude(const desk *d, bool *is_done, gx_err *err)
{
    const gx_stack *s = d->x->plan;
    int64_t n = s->cols, info = 0;
    double condition;
    gx_args args = {.m = n, .n = n, .c = d->gram, .ldc = n, .info = &info};
    GX_TRY(call(d, GX_POTRF, args, err));
    GX_TRY(invert(d, d->gram, &condition, err));
    *is_done = info == 0 && condition <= (d->is_plain ? plain_condition(s) : CONDITION);
    if (*is_done && d->is_plain) {
        memcpy(d->r, d->gram, rounded(n * n, s->dtype));
        return GX_OK;
    }
    args = (gx_args){.side = GX_LEFT, .m = n, .n = n, .a = d->gram, .lda = n, .c = d->r, .ldc = n};
    return *is_done ? call(d, GX_TRMM, args, err) : GX_OK;
}

/* How rows are squared: as they are, without what is along the ones, or times R_1^-1. */
static gx_code choose_way(desk *d, bool *is_way, gx_err *err)
{
    const gx_stack *s = d->x->plan;
    double condition, plain = plain_condition(s);
    GX_TRY(invert(d, d->r, &condition, err));
    *is_way = condition <= DEPENDENT;
    d->is_plain = condition <= plain;
    if (*is_way && !d->is_plain && count_ones(s) > 0) {
        take_along(d);
        GX_TRY(invert(d, d->r, &condition, err));
        d->is_plain = condition <= plain;
        if (!d->is_plain) {
            give_along(d);
        }
    }
    return GX_OK;
}

/* The rows behind the first ones.  *is_done false: they are to be factored. */
static gx_code multiply_panels(desk *d, int64_t first, bool *is_done, gx_err *err)
{
    const gx_stack *s = d->x->plan;
    bool is_way = false;
    *is_done = false;
    if (d->rows < FIRST_PARTS * first_rows(s)) {
        return GX_OK;
    }
    GX_TRY(choose_way(d, &is_way, err));
    if (!is_way) {
        return GX_OK;
    }
    GX_TRY(start_gram(d, err));
    for (int64_t i = first; i < d->rows && gx_ok(d->x->run); i += s->panel) {
        GX_TRY(add_panel(d, i, gx_min(s->panel, d->rows - i), err));
    }
    GX_TRY(conclude(d, is_done, err));
    give_along(d);
    return GX_OK;
}

static gx_code factor_unit(void *arg, int64_t unit, gx_pass_thread *thread, void *work, void *part,
                           gx_err *err)
{
    const stack *x = arg;
    const gx_stack *s = x->plan;
    layout l = layout_of(s);
    char *memory = work;
    int64_t i0 = unit * s->height;
    desk d = {.x = x,
              .thread = thread,
              .rows = gx_min(s->height, s->A->rows - i0),
              .rhs = memory + l.rhs,
              .all = is_in_place(s) ? memory : NULL,
              .panel = memory + l.panel,
              .inverse = memory + l.inverse,
              .gram = memory + l.gram,
              .along = memory + l.along,
              .tau = memory + l.tau,
              .work = memory + l.kernel,
              .r = part};
    int64_t m = d.rows < FIRST_PARTS * first_rows(s) ? s->panel : first_rows(s);
    memset(part, 0, rounded(s->cols * s->cols, s->dtype));
    for (int64_t i = 0; d.all != NULL && i < d.rows * count_ones(s); i++) {
        gx_number_put(s->dtype, d.all, i, GX_ONE);
    }
    if (d.all != NULL) {
        memory = gx_at(d.all, s->dtype, d.rows, 0, count_ones(s));
        d.rhs = gx_at(d.all, s->dtype, d.rows, 0, s->A->cols);
    }
    GX_TRY(open_source(x, i0, d.rows, thread, memory, &d.from, err));
    // Column by column: its tiles are higher, and a read of several would take in what is between.
    for (int64_t j = 0; s->B != NULL && j < s->B->cols; j++) {
        void *column = gx_at(d.rhs, s->dtype, d.rows, 0, j);
        GX_TRY(gx_pass_read(thread, s->B, i0, j, d.rows, 1, s->dtype, column, d.rows, err));
    }
    bool is_done = false;
    for (int64_t i = 0; i < d.rows && !is_done && gx_ok(x->run); i += m, m = s->panel) {
        m = gx_min(m, d.rows - i);
        GX_TRY(take_panel(&d, i, m, err));
        GX_TRY(reduce(s, part, d.panel, m, d.tau, d.work, err));
        if (i == 0) {
            GX_TRY(multiply_panels(&d, m, &is_done, err));
        }
    }
    return GX_OK;
}

static gx_code fold_unit(void *arg, int64_t unit, void *part, gx_err *err)
{
    stack *x = arg;
    const gx_stack *s = x->plan;
    layout l = layout_of(s);
    if (unit == 0) {
        memcpy(x->r, part, rounded(s->cols * s->cols, s->dtype));
        return GX_OK;
    }
    return reduce(s, x->r, part, s->cols, x->memory, x->memory + (l.kernel - l.tau), err);
}

gx_code gx_stack_run(gx_run *run, const gx_stack *s, void *r)
{
    stack x = {.run = run, .plan = s, .r = r};
    gx_cost cost;
    gx_terms terms;
    layout l = layout_of(s);
    gx_err err = {0};
    gx_stack_predict(run, s, &cost, &terms);
    gx_predict_expect(run, &terms, false);
    if (gx_mem_alloc(run->ctx->mem, l.end - l.tau, "triangles", &x.memory, &err) == GX_OK) {
        const gx_mat *sources[] = {s->A, s->B};
        gx_pass pass = pass_of(s);
        pass.sources = sources;
        pass.source_count = 2;
        pass.work = factor_unit;
        pass.fold = fold_unit;
        pass.arg = &x;
        gx_pass_run(run, &pass);
        gx_stats_add(&run->ctx->stats, GX_STAT_KERNELS, pass.units);
        gx_stats_add(&run->ctx->stats, GX_STAT_FLOPS, (int64_t)s->flops);
    }
    gx_mem_free(run->ctx->mem, x.memory);
    return gx_run_fail(run, &err);
}
