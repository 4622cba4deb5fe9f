/*
** Systems and determinants of composites, part by part: by_parts.h.
**
** A square composite is a list of leaves.  gx_square_way() looks at their places and kinds alone;
** each way solves smaller squares the same way, or hands a matrix to the driver that factors it.
** Where a way may lose digits that the whole matrix would not (a small Schur complement, a base
** that is nearly singular) the solution is put into the system: it is refined, or the elements are
** factored after all.
*/
#include "../run/call.h"
#include "by_parts_int.h"
#include "dense.h"
#include "system.h"

#include <float.h>
#include <math.h>
#include <string.h>

static void solve(const gx_task *t, const gx_square *S);

/* The product so far times p^n. */
static void multiply_power(const gx_task *t, gx_product p, int64_t n)
{
    for (; t->det != NULL && n > 0; n >>= 1) {
        if (n & 1) {
            gx_product_times(t->det, p.re, p.im);
            t->det->power += p.power;
        }
        gx_product square_of = {.re = p.re, .im = p.im, .power = 2 * p.power};
        gx_product_times(&square_of, p.re, p.im);
        p = square_of;
    }
}

// One matrix --------------------------------------------------------------------------------------

static gx_product as_product(const gx_determinant *d)
{
    gx_product p = {.re = 1};
    bool is_there = isnormal(d->det.re) || isnormal(d->det.im) || d->log == -INFINITY;
    double power = is_there || !isfinite(d->log) ? 0 : floor(d->log / log(2.0));
    double size = is_there ? 1 : exp(d->log - power * log(2.0));
    gx_product_times(&p, is_there ? d->det.re : size * d->sign.re,
                     is_there ? d->det.im : size * d->sign.im);
    p.power += (int64_t)power;
    return p;
}

/* X = A^-1 X by the driver that factors A; X has no gaps. */
static void factor_and_solve(const gx_task *t, const gx_mat *A, bool is_turned, gx_vectors X)
{
    gx_run *run = t->p->run;
    gx_mat b;
    gx_sink to;
    gx_trans trans = is_turned ? GX_TRANS : GX_NO_TRANS;
    gx_vectors copy = gx_parts_columns(t->p, X.rows, X.cols);
    gx_landing place = {X.data, X.rows, X.cols, gx_dtype_of(t->p->dtype)};
    if (gx_ok(run)) {
        gx_parts_copy(t->p, X, copy);
        gx_mat_value(&b, "b", t->p->dtype, X.rows, X.cols, copy.data, copy.ld);
    }
    if (gx_ok(run) && gx_sink_begin_lent(run, &place, t->p->dtype, &to) == GX_OK) {
        if (A->is_sparse) {
            gx_alg_system(run, &(gx_system_args){.A = A, .B = &b, .trans = trans}, &to);
        } else {
            run->ctx->drivers->solve(run, &(gx_solve_args){.A = A, .B = &b, .trans = trans}, &to);
        }
        gx_sink_end(&to);
    }
    gx_parts_free(t->p, &copy);
}

static void solve_matrix(const gx_task *t, const gx_mat *A, bool is_turned)
{
    gx_run *run = t->p->run;
    bool has_gaps = t->X.data != NULL && t->X.ld != gx_max(1, t->X.rows);
    gx_vectors X = has_gaps ? gx_parts_columns(t->p, t->X.rows, t->X.cols) : t->X;
    if (t->X.data != NULL && gx_ok(run)) {
        if (has_gaps) {
            gx_parts_copy(t->p, t->X, X);
        }
        factor_and_solve(t, A, is_turned, X);
        if (has_gaps && gx_ok(run)) {
            gx_parts_copy(t->p, X, t->X);
        }
    }
    if (has_gaps) {
        gx_parts_free(t->p, &X);
    }
    gx_determinant d;
    gx_aux none = {.kind = GX_AUX_NONE};
    gx_leaf all = {.rows = A->rows, .cols = A->cols, .factor = GX_ONE};
    gx_mat wide;
    if (t->det != NULL && A->number != t->p->dtype) { // of its elements as they are computed with
        all.base = *A;
        gx_mat_composite(&wide, A->label, t->p->dtype, A->rows, A->cols);
        wide.leaf = &all;
        wide.leaves = 1;
        wide.is_whole = true;
        A = &wide;
    }
    if (t->det != NULL && gx_ok(run) &&
        run->ctx->drivers->determinant(run, A, &none, &d) == GX_OK) {
        multiply_power(t, as_product(&d), 1);
    }
}

/* What its elements come to. */
static void solve_whole(const gx_task *t, const gx_square *S)
{
    gx_mat whole, all;
    gx_square_elements(t, S, 0, S->n, 0, S->n, &whole, &all);
    if (S->leaves == 0) {
        gx_run_failf(t->p->run, GX_NUMERIC, "a part is singular (it is zeros)");
    } else {
        solve_matrix(t, &whole, false);
    }
}

/* An operand of a leaf. */
static void solve_operand(const gx_task *t, const gx_mat *A, bool is_turned)
{
    gx_square S = {.leaf = NULL, .n = A->rows};
    if (A->kind != GX_MAT_COMPOSITE || A->is_whole) {
        solve_matrix(t, A, is_turned);
        return;
    }
    S.leaf = gx_square_leaves(t, A->leaves);
    for (int64_t k = 0; k < A->leaves && S.leaf != NULL; k++) {
        S.leaf[S.leaves++] = gx_parts_leaf(&A->leaf[k], is_turned, false);
    }
    if (gx_task_ok(t)) {
        solve(t, &S);
    }
    gx_square_free(t, &S);
}

/* (A kron B)^-1 x: of x as a matrix, B from the left, A from the right. */
static void solve_kron(const gx_task *t, const gx_leaf *leaf)
{
    const gx_parts *p = t->p;
    int64_t n1 = leaf->base.rows, n2 = leaf->second.rows;
    gx_product one = {.re = 1}, two = {.re = 1};
    gx_task b = {.p = p, .go = t->go, .det = t->det == NULL ? NULL : &two},
            a = {.p = p, .go = t->go, .det = t->det == NULL ? NULL : &one};
    gx_vectors x = {0}, y = {0};
    if (t->X.data != NULL) {
        x = gx_parts_columns(p, n1 * n2, t->X.cols);
        y = gx_parts_columns(p, n1 * n2, t->X.cols);
        b.X = (gx_vectors){n2, n1 * t->X.cols, n2, x.data};
        a.X = (gx_vectors){n1, n2 * t->X.cols, n1, y.data};
    }
    if (t->X.data != NULL && gx_task_ok(t)) {
        gx_parts_copy(p, t->X, x);
    }
    if (gx_task_ok(t)) {
        solve_operand(&b, &leaf->second, leaf->is_turned);
    }
    if (t->X.data != NULL && gx_task_ok(t)) {
        gx_parts_shuffle(p, n1, n2, x, y);
    }
    if (gx_task_ok(t)) {
        solve_operand(&a, &leaf->base, leaf->is_turned);
    }
    if (t->X.data != NULL && gx_task_ok(t)) {
        gx_parts_shuffle(p, n2, n1, y, t->X);
    }
    multiply_power(t, one, n2);
    multiply_power(t, two, n1);
    gx_parts_free(p, &x);
    gx_parts_free(p, &y);
}

/* X = P^-1 X = P' X; its sign is that of its cycles. */
static void solve_permutation(const gx_task *t, const gx_leaf *leaf)
{
    gx_err err = {0};
    int64_t n = leaf->rows, cycles = 0;
    double *place = gx_parts_vector(t->p, &leaf->base, GX_F64);
    bool is_twice = false;
    gx_leaf inverse = *leaf;
    gx_vectors x = {0};
    for (int64_t i = 0; i < n && gx_task_ok(t); i++) {
        int64_t at;
        if (gx_leaf_place(leaf, i, place[i], &at, &err) != GX_OK) {
            gx_run_fail(t->p->run, &err);
        }
    }
    for (int64_t i = 0; i < n && gx_task_ok(t);
         i++) { // a cycle that has been gone through is negative
        int64_t at = i;
        bool is_new = place[i] >= 0;
        while (place[at] >= 0) {
            int64_t next = (int64_t)place[at];
            place[at] = -1 - place[at];
            at = next;
        }
        is_twice = is_twice || (is_new && at != i);
        cycles += is_new;
    }
    gx_mem_free(t->p->run->ctx->mem, place);
    gx_task_det(t, (gx_scalar){is_twice ? 0 : (n - cycles) % 2 == 0 ? 1 : -1, 0});
    if (is_twice && t->X.data != NULL) {
        gx_run_failf(t->p->run, GX_NUMERIC, "the permutation %s has a place twice",
                     leaf->base.label);
    }
    if (t->X.data == NULL || !gx_task_ok(t)) {
        return;
    }
    gx_leaf_turn(&inverse);
    inverse.factor = GX_ONE;
    x = gx_parts_columns(t->p, n, t->X.cols);
    if (gx_task_ok(t)) {
        gx_parts_apply_leaf(t->p, &inverse, GX_ONE, false, t->X, x);
        gx_parts_copy(t->p, x, t->X);
    }
    gx_parts_free(t->p, &x);
}

static void solve_one(const gx_task *t, const gx_leaf *leaf)
{
    bool is_conjugated = leaf->is_conjugated && gx_number_is_complex(t->p->dtype);
    gx_args conj = {
        .map = GX_MAP_CONJ, .m = t->X.rows, .n = t->X.cols, .a = t->X.data, .lda = t->X.ld};
    gx_product own = {.re = 1};
    gx_task plain = *t;
    plain.det = t->det == NULL ? NULL : &own;
    conj.c = t->X.data;
    conj.ldc = t->X.ld;
    if (leaf->factor.re == 0 && leaf->factor.im == 0 && t->X.data != NULL) {
        gx_run_failf(t->p->run, GX_NUMERIC, "a part is singular (it is zero times %s)",
                     leaf->base.label);
        return;
    }
    if (is_conjugated && t->X.data != NULL) {
        gx_run_call(t->p->run, GX_MAP, t->p->dtype, &conj);
    }
    if (leaf->kind == GX_LEAF_KRON) {
        solve_kron(&plain, leaf);
    } else if (leaf->kind == GX_LEAF_PERMUTATION) {
        solve_permutation(&plain, leaf);
    } else if (leaf->kind == GX_LEAF_MATRIX) {
        solve_operand(&plain, &leaf->base, leaf->is_turned);
    } else { // (L R)^-1 = R^-1 L^-1
        solve_operand(&plain, leaf->is_turned ? &leaf->second : &leaf->base, leaf->is_turned);
        if (gx_task_ok(t)) {
            solve_operand(&plain, leaf->is_turned ? &leaf->base : &leaf->second, leaf->is_turned);
        }
    }
    if (t->X.data != NULL && gx_task_ok(t)) {
        if (is_conjugated) {
            gx_run_call(t->p->run, GX_MAP, t->p->dtype, &conj);
        }
        gx_parts_scale(t->p, gx_scalar_inverse(leaf->factor), t->X);
    }
    own.im = is_conjugated ? -own.im : own.im;
    multiply_power(t, own, 1);
    multiply_power(t, (gx_product){.re = leaf->factor.re, .im = leaf->factor.im}, leaf->rows);
}

// Diagonals and triangles -------------------------------------------------------------------------

static void solve_diagonal(const gx_task *t, const gx_square *S)
{
    gx_vectors d = gx_parts_zeros(t->p, S->n, 1);
    for (int64_t k = 0; k < S->leaves && gx_task_ok(t); k++) {
        gx_square_add_diagonal(t, &S->leaf[k], d);
    }
    for (int64_t i = 0; i < S->n && gx_task_ok(t); i++) {
        gx_scalar x = gx_number_get(t->p->dtype, d.data, i);
        gx_task_det(t, x);
        if (t->X.data != NULL && x.re == 0 && x.im == 0) {
            gx_run_failf(t->p->run, GX_NUMERIC, "a diagonal part is singular (element %lld is 0)",
                         (long long)i);
        }
    }
    gx_args divide = {.map = GX_MAP_DIV, .m = S->n, .n = t->X.cols, .a = t->X.data, .lda = t->X.ld};
    divide.b = d.data;
    divide.c = t->X.data;
    divide.ldc = t->X.ld;
    if (t->X.data != NULL && gx_task_ok(t)) {
        gx_run_call(t->p->run, GX_MAP, t->p->dtype, &divide);
    }
    gx_parts_free(t->p, &d);
}

/* What blocks that are done have in the rows from `from` to before `to` is taken off. */
static void take_off(const gx_task *t, const gx_square *S, int64_t from, int64_t to)
{
    for (int64_t k = 0; k < S->leaves && t->X.data != NULL && gx_task_ok(t); k++) {
        const gx_leaf *l = &S->leaf[k];
        bool is_row = l->i0 >= from && l->i0 + l->rows <= to;
        bool is_beside = l->j0 >= to || l->j0 + l->cols <= from;
        if (is_row && is_beside) {
            gx_parts_apply_leaf(t->p, l, GX_MINUS_ONE, true,
                                gx_parts_rows(t->p, t->X, l->j0, l->cols),
                                gx_parts_rows(t->p, t->X, l->i0, l->rows));
        }
    }
}

static void solve_triangle(const gx_task *t, const gx_square *S, bool is_lower)
{
    int64_t *cut = gx_square_cuts(t, S);
    int64_t blocks = cut == NULL ? 0 : gx_square_triangle(S, is_lower, cut);
    for (int64_t b = 0; b < blocks && gx_task_ok(t); b++) {
        int64_t at = is_lower ? b : blocks - 1 - b;
        gx_square block = gx_square_part(t, S, cut[at], cut[at + 1]);
        gx_task one = *t;
        if (t->X.data != NULL) {
            one.X = gx_parts_rows(t->p, t->X, cut[at], cut[at + 1] - cut[at]);
        }
        take_off(t, S, cut[at], cut[at + 1]);
        if (gx_task_ok(t)) {
            solve(&one, &block);
        }
        gx_square_free(t, &block);
    }
    gx_mem_free(t->p->run->ctx->mem, cut);
}

// What may lose digits, checked -------------------------------------------------------------------

static double length_of(const gx_task *t, gx_vectors x)
{
    double out[2] = {0, 0};
    gx_args args = {.m = x.rows, .n = x.cols, .a = x.data, .lda = x.ld};
    args.reduce = out;
    args.reduce_kind = GX_REDUCE_SUMSQ;
    gx_run_call(t->p->run, GX_REDUCE, t->p->dtype, &args);
    return out[0] * sqrt(out[1]);
}

/* About the norm of a leaf: what its products with vectors are rounded by. */
static double size_of(const gx_task *t, const gx_leaf *l)
{
    gx_run *run = t->p->run;
    bool is_told = l->kind == GX_LEAF_TOEPLITZ || l->kind == GX_LEAF_CIRCULANT;
    double one = 1, two = 1;
    if (l->kind != GX_LEAF_NUMBER && l->kind != GX_LEAF_PERMUTATION) {
        run->ctx->drivers->norm(run, &l->base, l->kind == GX_LEAF_DIAGONAL ? 'M' : 'F', &one);
    }
    if (l->kind == GX_LEAF_KRON || l->kind == GX_LEAF_PRODUCT || l->kind == GX_LEAF_TOEPLITZ) {
        run->ctx->drivers->norm(run, &l->second, 'F', &two);
    }
    one = l->kind == GX_LEAF_TOEPLITZ ? one + two : one * two;
    return hypot(l->factor.re, l->factor.im) * one * (is_told ? sqrt((double)l->cols) : 1);
}

/* r = b - S x; returns |r| over |b| + |S| |x|, in roundings. */
static double residual(const gx_task *t, const gx_square *S, gx_vectors b, gx_vectors x,
                       gx_vectors r)
{
    double unit = gx_number_is_double(t->p->dtype) ? DBL_EPSILON : FLT_EPSILON;
    double scale = length_of(t, b), size = length_of(t, x);
    gx_parts_copy(t->p, b, r);
    for (int64_t k = 0; k < S->leaves && gx_task_ok(t); k++) {
        const gx_leaf *l = &S->leaf[k];
        scale += size_of(t, l) * size;
        if (gx_task_ok(t)) {
            gx_parts_apply_leaf(t->p, l, GX_MINUS_ONE, true, gx_parts_rows(t->p, x, l->j0, l->cols),
                                gx_parts_rows(t->p, r, l->i0, l->rows));
        }
    }
    double error = gx_task_ok(t) ? length_of(t, r) : 0;
    return error == 0 ? 0 : error / (unit * scale);
}

static bool go(const gx_task *t, const gx_square *S, gx_way w, int64_t cut)
{
    if (w == GX_WAY_KRON_SHIFT) {
        return gx_solve_kron_shift(t, S);
    }
    if (w == GX_WAY_LOW_RANK) {
        gx_solve_low_rank(t, S);
    } else {
        gx_solve_schur(t, S, cut);
    }
    return true;
}

/* As many roundings as n steps of a factorisation may leave, and refinement may mend. */
static bool is_exact(const gx_square *S, double error)
{
    return error <= 10 * sqrt((double)S->n) + 100;
}

/* Solve, look, refine; false: not this way. */
static bool solve_and_look(const gx_task *t, const gx_square *S, gx_way w, int64_t cut)
{
    const gx_parts *p = t->p;
    gx_vectors b = gx_parts_columns(p, S->n, t->X.cols), r = gx_parts_columns(p, S->n, t->X.cols);
    bool is_done = false, is_it = true;
    if (gx_task_ok(t)) {
        gx_parts_copy(p, t->X, b);
        is_it = go(t, S, w, cut);
    }
    for (int step = 0; step < 3 && !is_done && is_it && gx_task_ok(t); step++) {
        gx_task again = {.p = p, .X = r, .go = t->go};
        double error = residual(t, S, b, t->X, r);
        is_done = is_exact(S, error) || isnan(error);
        if (!is_done && gx_task_ok(t)) {
            gx_stats_add(&p->run->ctx->stats, GX_STAT_REFINEMENTS, 1);
            go(&again, S, w, cut);
            gx_parts_add(p, GX_ONE, r, t->X);
        }
    }
    if (gx_run_forgive(p->run, GX_NUMERIC) || (gx_task_ok(t) && !is_done)) {
        gx_parts_copy(p, b, t->X);
        is_it = false;
    }
    gx_parts_free(p, &b);
    gx_parts_free(p, &r);
    return is_it;
}

static void solve_checked(const gx_task *t, const gx_square *S, gx_way w, int64_t cut)
{
    gx_product before = t->det == NULL ? (gx_product){0} : *t->det;
    if (w == GX_WAY_LOW_RANK && gx_solve_diagonal_rank(t, S)) {
        return;
    }
    gx_run_forgive(t->p->run, GX_NUMERIC);
    bool is_it = t->X.data == NULL ? go(t, S, w, cut) : solve_and_look(t, S, w, cut);
    is_it = !gx_run_forgive(t->p->run, GX_NUMERIC) && is_it;
    if (!is_it && gx_task_ok(t)) {
        gx_stats_note(&t->p->run->ctx->stats,
                      "a composite's parts do not give its inverse: factored");
        if (t->det != NULL) {
            *t->det = before;
        }
        solve_whole(t, S);
    }
}

static void solve(const gx_task *t, const gx_square *S)
{
    int64_t *at = gx_square_cuts(t, S), cut = 0;
    gx_way w = GX_WAY_WHOLE;
    if (at != NULL) {
        w = gx_square_way(S, at);
        cut = w == GX_WAY_SCHUR ? gx_square_schur_cut(S, at) : 0;
    }
    gx_mem_free(t->p->run->ctx->mem, at);
    if (!gx_task_ok(t)) {
        return;
    }
    switch (w) {
    case GX_WAY_WHOLE:
        solve_whole(t, S);
        break;
    case GX_WAY_DIAGONAL:
        solve_diagonal(t, S);
        break;
    case GX_WAY_ONE:
        solve_one(t, S->leaf);
        break;
    case GX_WAY_LOWER:
    case GX_WAY_UPPER:
        solve_triangle(t, S, w == GX_WAY_LOWER);
        break;
    default:
        solve_checked(t, S, w, cut);
    }
    gx_run_poll(t->p->run);
}

// The calls ---------------------------------------------------------------------------------------

bool gx_parts_begin(const gx_parts *p, const gx_mat *A, gx_trans trans, gx_square *S)
{
    gx_turned op = gx_turned_by(A, trans);
    bool is_fixed = p->run->ctx->config.number[GX_SET_DETERMINISTIC] != 0;
    gx_task t = {.p = p};
    *S = (gx_square){.n = A->rows};
    S->properties = A->properties & (GX_PROP_POSITIVE | GX_PROP_HERMITIAN | GX_PROP_SYMMETRIC);
    if (A->kind != GX_MAT_COMPOSITE || A->is_whole || A->rows != A->cols || A->rows == 0 ||
        (is_fixed && !gx_mat_is_structured(A)) || !gx_ok(p->run)) {
        return false;
    }
    S->leaf = gx_square_leaves(&t, A->leaves);
    for (int64_t k = 0; k < A->leaves && S->leaf != NULL; k++) {
        S->leaf[S->leaves++] = gx_parts_leaf(&A->leaf[k], op.is_turned, op.is_conjugated);
    }
    int64_t *at = gx_square_cuts(&t, S);
    bool is_way = at != NULL && gx_square_way(S, at) != GX_WAY_WHOLE;
    gx_mem_free(p->run->ctx->mem, at);
    if (!is_way) {
        gx_square_free(&t, S);
    }
    return is_way;
}

/* All columns of B, as many at once as memory holds: what is factored is factored for each time. */
static void solve_columns(const gx_parts *p, const gx_square *S, const gx_mat *B, gx_sink *X)
{
    gx_run *run = p->run;
    gx_parts_way way;
    gx_parts_begin_way(p, X, (double)S->n, false, &way);
    X = way.to;
    gx_parts_steps s = gx_parts_choose(p, X->cols, X->tile_cols, (double)S->n, 7 * (double)S->n);
    for (int64_t j = 0; j < X->cols && gx_ok(run); j += s.group) {
        gx_mat part;
        gx_vectors x = gx_parts_columns(p, S->n, gx_min(s.group, X->cols - j));
        gx_mat_view(&part, B, GX_NO_TRANS, 0, j, S->n, x.cols);
        if (gx_ok(run)) {
            gx_parts_load(p, (gx_turned){&part, false, false}, x);
        }
        for (int64_t c = 0; c < x.cols && gx_ok(run); c += s.step) {
            gx_vectors some = gx_parts_part(p, x, c, gx_min(s.step, x.cols - c));
            solve(&(gx_task){.p = p, .X = some, .go = solve}, S);
        }
        if (gx_ok(run)) {
            gx_parts_write(p, X, 0, j, x);
        }
        gx_parts_free(p, &x);
    }
    gx_parts_end_way(p, &way);
}

bool gx_parts_solve(gx_run *run, const gx_solve_args *args, gx_sink *X)
{
    gx_parts p = {run, X->number};
    gx_square S;
    if (!gx_parts_begin(&p, args->A, args->trans, &S)) {
        return !gx_ok(run);
    }
    solve_columns(&p, &S, args->B, X);
    gx_mem_free(run->ctx->mem, S.leaf);
    return true;
}

bool gx_parts_inverse(gx_run *run, const gx_mat *A, gx_sink *C)
{
    gx_parts p = {run, C->number};
    gx_leaf ones = {.kind = GX_LEAF_NUMBER, .rows = A->rows, .cols = A->rows, .factor = GX_ONE};
    gx_square S;
    gx_mat identity;
    if (!gx_parts_begin(&p, A, GX_NO_TRANS, &S)) {
        return !gx_ok(run);
    }
    gx_mat_composite(&identity, "the identity", C->number, A->rows, A->rows);
    identity.leaf = &ones;
    identity.leaves = 1;
    solve_columns(&p, &S, &identity, C);
    gx_mem_free(run->ctx->mem, S.leaf);
    return true;
}

bool gx_parts_determinant(gx_run *run, const gx_mat *A, gx_product *product)
{
    gx_parts p = {run, A->number};
    gx_square S;
    if (!gx_parts_begin(&p, A, GX_NO_TRANS, &S)) {
        return !gx_ok(run);
    }
    solve(&(gx_task){.p = &p, .det = product, .go = solve}, &S);
    gx_mem_free(run->ctx->mem, S.leaf);
    return true;
}

/* Cuts that have nothing on either side; returns the blocks. */
static int64_t diagonal_cuts(const gx_square *S, int64_t *lower, int64_t *upper)
{
    int64_t of_lower = gx_square_triangle(S, true, lower);
    int64_t of_upper = gx_square_triangle(S, false, upper), count = 0;
    for (int64_t l = 0, u = 0; l <= of_lower && u <= of_upper;) {
        if (lower[l] == upper[u]) {
            lower[count++] = lower[l];
        }
        bool is_less = lower[l] <= upper[u], is_more = lower[l] >= upper[u];
        l += is_less;
        u += is_more;
    }
    return count - 1;
}

gx_mat *gx_parts_blocks(gx_run *run, const gx_mat *A, int64_t *count)
{
    gx_parts p = {run, A->number};
    gx_task t = {.p = &p};
    gx_square S;
    gx_mat *block = NULL;
    *count = 0;
    if (!gx_parts_begin(&p, A, GX_NO_TRANS, &S)) {
        return NULL;
    }
    int64_t *lower = gx_square_cuts(&t, &S), *upper = gx_square_cuts(&t, &S);
    int64_t blocks = gx_ok(run) ? diagonal_cuts(&S, lower, upper) : 0;
    bool has_views = false; // of S, which is freed
    for (int64_t k = 0; k < S.leaves; k++) {
        has_views = has_views || S.leaf[k].kind == GX_LEAF_DIAGONAL;
    }
    if (blocks > 1 && !has_views) {
        block = gx_run_calloc(run, (size_t)blocks * sizeof *block, "blocks");
    }
    for (int64_t b = 0; b < blocks && block != NULL && gx_ok(run); b++) {
        gx_square part = gx_square_part(&t, &S, lower[b], lower[b + 1]);
        gx_mat_composite(&block[b], A->label, A->number, part.n, part.n);
        block[b].leaf = block[b].owned = part.leaf;
        block[b].leaves = part.leaves;
        block[b].properties = part.properties;
        *count = b + 1;
    }
    gx_mem_free(run->ctx->mem, lower);
    gx_mem_free(run->ctx->mem, upper);
    gx_mem_free(run->ctx->mem, S.leaf);
    if (!gx_ok(run)) {
        gx_parts_free_blocks(run, block, *count);
        block = NULL;
    }
    return block;
}

void gx_parts_free_blocks(gx_run *run, gx_mat *block, int64_t count)
{
    for (int64_t b = 0; b < count && block != NULL; b++) {
        gx_mat_clear(&block[b], run->ctx->mem);
    }
    gx_mem_free(run->ctx->mem, block);
}

bool gx_parts_norm(gx_run *run, const gx_mat *A, char kind, double *norm)
{
    const gx_leaf *l = A->leaf;
    double one = 0, two = 0;
    bool is_it = A->kind == GX_MAT_COMPOSITE && !A->is_whole && A->leaves == 1 &&
                 l->kind == GX_LEAF_KRON && l->rows == A->rows && l->cols == A->cols;
    if (is_it) {
        char own = !l->is_turned ? kind : kind == '1' ? 'I' : kind == 'I' ? '1' : kind;
        run->ctx->drivers->norm(run, &l->base, own, &one);
        run->ctx->drivers->norm(run, &l->second, own, &two);
        *norm = hypot(l->factor.re, l->factor.im) * one * two;
    }
    return is_it;
}
