/*
** Systems of sums: by what is left without products of few columns, by the eigenvectors of a
** Kronecker product's factors, by a Schur complement; and their determinants: by_parts.h.
*/
#include "../run/call.h"
#include "by_parts_int.h"
#include "dense.h"

// Sums --------------------------------------------------------------------------------------------

void gx_solve_dense(const gx_task *t, gx_vectors a, gx_vectors x)
{
    gx_run *run = t->p->run;
    int64_t info = 0,
            *pivots = gx_run_alloc(run, (size_t)gx_max(1, a.rows) * sizeof *pivots, "pivots");
    gx_args args = {.m = a.rows, .n = a.rows, .c = a.data, .ldc = a.ld, .pivots = pivots};
    args.info = &info;
    if (gx_ok(run)) {
        gx_dense_call(run, GX_GETRF, t->p->dtype, &args);
    }
    for (int64_t i = 0; i < a.rows && gx_ok(run); i++) {
        gx_task_det(t, gx_number_get(t->p->dtype, a.data, i + i * a.ld));
        if (pivots[i] != i) {
            gx_task_det(t, GX_MINUS_ONE);
        }
    }
    if (gx_ok(run) && info > 0 && x.data != NULL) {
        gx_run_failf(run, GX_NUMERIC,
                     "the composite is singular (pivot %lld of what its parts leave "
                     "is exactly zero)",
                     (long long)info - 1);
    }
    if (gx_ok(run) && x.data != NULL) {
        gx_dense_lu_solve(run, t->p->dtype, a.rows, a.data, pivots, x.cols, x.data);
    }
    gx_mem_free(run->ctx->mem, pivots);
}

/* The factors of the products of few columns, and what is left without them. */
typedef struct low_rank {
    gx_square rest, low;
    int64_t order; /* columns of all */
} low_rank;

static low_rank part_low(const gx_task *t, const gx_square *S)
{
    low_rank r = {.rest = {gx_square_leaves(t, S->leaves), 0, S->n}, .low = {NULL, 0, S->n}};
    r.low.leaf = gx_square_leaves(t, S->leaves);
    for (int64_t k = 0; k < S->leaves && gx_task_ok(t); k++) {
        gx_square *to = gx_leaf_is_low_rank(&S->leaf[k], S->n) ? &r.low : &r.rest;
        to->leaf[to->leaves++] = S->leaf[k];
        r.order += to == &r.low ? S->leaf[k].base.cols : 0;
    }
    return r;
}

/* The left factors, times what each is times, side by side. */
static void load_left(const gx_task *t, const low_rank *r, gx_vectors to)
{
    int64_t at = 0;
    for (int64_t k = 0; k < r->low.leaves && gx_task_ok(t); k++) {
        const gx_leaf *l = &r->low.leaf[k];
        gx_turned U = {l->is_turned ? &l->second : &l->base, l->is_turned, l->is_conjugated};
        gx_vectors part = gx_parts_part(t->p, to, at, l->base.cols);
        gx_parts_load(t->p, U, part);
        gx_parts_scale(t->p, l->factor, part);
        at += l->base.cols;
    }
}

/* The right factors, one below the other, times x. */
static void apply_right(const gx_task *t, const low_rank *r, gx_vectors x, gx_vectors y)
{
    int64_t at = 0;
    for (int64_t k = 0; k < r->low.leaves && gx_task_ok(t); k++) {
        const gx_leaf *l = &r->low.leaf[k];
        gx_turned V = {l->is_turned ? &l->base : &l->second, l->is_turned, l->is_conjugated};
        gx_parts_apply(t->p, V, GX_ONE, x, gx_parts_rows(t->p, y, at, l->base.cols));
        at += l->base.cols;
    }
}

/* (M + U V)^-1 x = z - W (I + V W)^-1 V z,  W = M^-1 U, z = M^-1 x;  det M det(I + V W). */
void gx_solve_low_rank(const gx_task *t, const gx_square *S)
{
    const gx_parts *p = t->p;
    low_rank r = part_low(t, S);
    int64_t k = t->X.data == NULL ? 0 : t->X.cols, order = r.order;
    gx_vectors both = gx_parts_columns(p, S->n, order + k),
               g = gx_parts_columns(p, order, order + k);
    if (gx_task_ok(t)) {
        gx_task rest = {p, both, t->det, t->go};
        load_left(t, &r, gx_parts_part(p, both, 0, order));
        if (k > 0) {
            gx_parts_copy(p, t->X, gx_parts_part(p, both, order, k));
        }
        t->go(&rest, &r.rest);
        apply_right(t, &r, both, g);
    }
    for (int64_t i = 0; i < order && gx_task_ok(t); i++) {
        gx_scalar x = gx_number_get(p->dtype, g.data, i + i * g.ld);
        gx_number_put(p->dtype, g.data, i + i * g.ld, (gx_scalar){x.re + 1, x.im});
    }
    if (gx_task_ok(t)) {
        gx_vectors y = gx_parts_part(p, g, order, k), z = gx_parts_part(p, both, order, k);
        y.data = k == 0 ? NULL : y.data;
        gx_solve_dense(t, gx_parts_part(p, g, 0, order), y);
        if (k > 0 && gx_task_ok(t)) {
            gx_parts_multiply_add(p, GX_NO_TRANS, GX_MINUS_ONE, both, y, GX_ONE, z);
            gx_parts_copy(p, z, t->X);
        }
    }
    gx_parts_free(p, &both);
    gx_parts_free(p, &g);
    gx_square_free(t, &r.rest);
    gx_square_free(t, &r.low);
}

void gx_square_add_diagonal(const gx_task *t, const gx_leaf *l, gx_vectors d)
{
    gx_vectors to = gx_parts_rows(t->p, d, l->i0, l->rows), ones = {0};
    if (l->kind == GX_LEAF_NUMBER) {
        ones = gx_parts_columns(t->p, l->rows, 1);
        gx_args fill = {.m = l->rows, .n = 1, .alpha = GX_ONE, .c = ones.data, .ldc = ones.ld};
        gx_run_call(t->p->run, GX_FILL, t->p->dtype, &fill);
    } else {
        ones = (gx_vectors){l->rows, 1, l->rows, gx_parts_vector(t->p, &l->base, t->p->dtype)};
    }
    if (l->is_conjugated && gx_task_ok(t)) {
        gx_dense_conj(t->p->run, t->p->dtype, l->rows, 1, ones.data);
    }
    if (gx_task_ok(t)) {
        gx_parts_add(t->p, l->factor, ones, to);
    }
    gx_parts_free(t->p, &ones);
}

// A Kronecker product and a number ----------------------------------------------------------------

/* A Hermitian factor: its eigenvectors, by columns, and its values. */
typedef struct spectrum {
    gx_vectors q;
    void *values; /* of the real dtype */
    bool is_hermitian;
} spectrum;

static spectrum spectrum_of(const gx_task *t, const gx_mat *A, bool is_turned)
{
    gx_number real = gx_number_real(t->p->dtype);
    spectrum s = {.q = gx_parts_columns(t->p, A->rows, A->rows)};
    gx_args args = {.uplo = GX_LOWER, .n = A->rows, .m = A->rows, .wants_right = true};
    s.values = gx_dense_take(t->p->run, real, A->rows, 1, "eigenvalues");
    if (!gx_task_ok(t)) {
        return s;
    }
    gx_parts_load(t->p, (gx_turned){A, is_turned, false}, s.q);
    gx_dense_finite(t->p->run, A->label, t->p->dtype, s.q.data, s.q.ld, A->rows, A->rows);
    s.is_hermitian =
        gx_task_ok(t) && gx_dense_is_hermitian(t->p->run, t->p->dtype, s.q.data, s.q.ld, A->rows);
    args.c = s.q.data;
    args.ldc = s.q.ld;
    args.values = s.values;
    if (s.is_hermitian) {
        gx_dense_call(t->p->run, GX_SYEV, t->p->dtype, &args);
    }
    return s;
}

static void free_spectrum(const gx_task *t, spectrum *s)
{
    gx_parts_free(t->p, &s->q);
    gx_mem_free(t->p->run->ctx->mem, s->values);
}

/* y = op(Q) x, in another place. */
static void rotate(const gx_task *t, const spectrum *s, gx_trans trans, gx_vectors x, gx_vectors y)
{
    gx_parts_multiply_add(t->p, trans, GX_ONE, s->q, x, (gx_scalar){0, 0}, y);
}

/* One column of both: over f a_i b_j + shift; the determinant is their product. */
static void divide_by_values(const gx_task *t, const spectrum *a, const spectrum *b, gx_scalar f,
                             gx_scalar shift, gx_vectors x)
{
    gx_number dtype = t->p->dtype, real = gx_number_real(dtype);
    for (int64_t i = 0; i < a->q.rows && gx_task_ok(t); i++) {
        for (int64_t j = 0; j < b->q.rows && gx_task_ok(t); j++) {
            double ab = gx_number_get(real, a->values, i).re * gx_number_get(real, b->values, j).re;
            gx_scalar d = {f.re * ab + shift.re, f.im * ab + shift.im};
            gx_task_det(t, d);
            if (x.data != NULL && d.re == 0 && d.im == 0) {
                gx_run_failf(t->p->run, GX_NUMERIC,
                             "the composite is singular (an eigenvalue is 0)");
            }
            for (int64_t c = 0; c < x.cols && x.data != NULL; c++) {
                int64_t at = i + j * a->q.rows + c * x.ld;
                gx_number_put(
                    dtype, x.data, at,
                    gx_scalar_times(gx_number_get(dtype, x.data, at), gx_scalar_inverse(d)));
            }
        }
    }
}

/* x as n2 x n1 matrices: Qb^H x conj(Qa), over the values, and back; turned in between. */
static void solve_in_spectra(const gx_task *t, const spectrum *a, const spectrum *b, gx_scalar f,
                             gx_scalar shift)
{
    const gx_parts *p = t->p;
    int64_t n1 = a->q.rows, n2 = b->q.rows, k = t->X.data == NULL ? 0 : t->X.cols;
    gx_vectors x = gx_parts_columns(p, n1 * n2, k), y = gx_parts_columns(p, n1 * n2, k);
    gx_vectors xb = {n2, n1 * k, n2, x.data}, yb = {n2, n1 * k, n2, y.data};
    gx_vectors xa = {n1, n2 * k, n1, x.data}, ya = {n1, n2 * k, n1, y.data};
    if (gx_task_ok(t) && k > 0) {
        gx_parts_copy(p, t->X, x);
        rotate(t, b, GX_CONJ_TRANS, xb, yb);
        gx_parts_shuffle(p, n1, n2, y, x);
        rotate(t, a, GX_CONJ_TRANS, xa, ya);
    }
    gx_vectors none = {0};
    if (gx_task_ok(t)) {
        divide_by_values(t, a, b, f, shift, k > 0 ? y : none);
    }
    if (gx_task_ok(t) && k > 0) {
        rotate(t, a, GX_NO_TRANS, ya, xa);
        gx_parts_shuffle(p, n2, n1, x, y);
        rotate(t, b, GX_NO_TRANS, yb, xb);
        gx_parts_copy(p, x, t->X);
    }
    gx_parts_free(p, &x);
    gx_parts_free(p, &y);
}

/* false: its factors are not Hermitian. */
bool gx_solve_kron_shift(const gx_task *t, const gx_square *S)
{
    const gx_leaf *kron = NULL;
    gx_scalar shift = {0, 0};
    for (int64_t k = 0; k < S->leaves; k++) {
        kron = S->leaf[k].kind == GX_LEAF_KRON ? &S->leaf[k] : kron;
        shift.re += S->leaf[k].kind == GX_LEAF_NUMBER ? S->leaf[k].factor.re : 0;
        shift.im += S->leaf[k].kind == GX_LEAF_NUMBER ? S->leaf[k].factor.im : 0;
    }
    bool is_turned = kron->is_turned != kron->is_conjugated; // of a Hermitian one the same
    spectrum a = spectrum_of(t, &kron->base, is_turned),
             b = spectrum_of(t, &kron->second, is_turned);
    bool is_it = a.is_hermitian && b.is_hermitian;
    if (is_it && gx_task_ok(t)) {
        solve_in_spectra(t, &a, &b, kron->factor, shift);
    }
    free_spectrum(t, &a);
    free_spectrum(t, &b);
    return is_it || !gx_task_ok(t);
}

// Two by two --------------------------------------------------------------------------------------

/* E = A^-1 [B b1];  S = D - C E;  x2 = S^-1 (b2 - C A^-1 b1);  x1 = A^-1 b1 - E x2. */
void gx_solve_schur(const gx_task *t, const gx_square *S, int64_t cut)
{
    const gx_parts *p = t->p;
    int64_t m = S->n - cut, k = t->X.data == NULL ? 0 : t->X.cols;
    gx_square A = gx_square_part(t, S, 0, cut);
    gx_mat whole, part;
    gx_vectors e = gx_parts_columns(p, cut, m + k), s = gx_parts_columns(p, m, m + k);
    gx_vectors e1 = e, e2 = e, s2 = s;
    if (gx_task_ok(t)) {
        e1 = gx_parts_part(p, e, 0, m);
        e2 = gx_parts_part(p, e, m, k);
        s2 = gx_parts_part(p, s, m, k);
        gx_square_elements(t, S, 0, cut, cut, m, &whole, &part);
        gx_parts_load(p, (gx_turned){&part, false, false}, e1);
        gx_square_elements(t, S, cut, m, cut, m, &whole, &part);
        gx_parts_load(p, (gx_turned){&part, false, false}, gx_parts_part(p, s, 0, m));
        if (k > 0) {
            gx_parts_copy(p, gx_parts_rows(p, t->X, 0, cut), e2);
            gx_parts_copy(p, gx_parts_rows(p, t->X, cut, m), s2);
        }
        gx_task first = {p, e, t->det, t->go};
        t->go(&first, &A);
    }
    for (int64_t l = 0; l < S->leaves && gx_task_ok(t); l++) { // C
        const gx_leaf *leaf = &S->leaf[l];
        if (leaf->i0 >= cut && leaf->j0 + leaf->cols <= cut) {
            gx_parts_apply_leaf(p, leaf, GX_MINUS_ONE, true,
                                gx_parts_rows(p, e, leaf->j0, leaf->cols),
                                gx_parts_rows(p, s, leaf->i0 - cut, leaf->rows));
        }
    }
    if (gx_task_ok(t)) {
        s2.data = k == 0 ? NULL : s2.data;
        gx_solve_dense(t, gx_parts_part(p, s, 0, m), s2);
    }
    if (k > 0 && gx_task_ok(t)) {
        gx_parts_multiply_add(p, GX_NO_TRANS, GX_MINUS_ONE, e1, s2, GX_ONE, e2);
        gx_parts_copy(p, e2, gx_parts_rows(p, t->X, 0, cut));
        gx_parts_copy(p, s2, gx_parts_rows(p, t->X, cut, m));
    }
    gx_parts_free(p, &e);
    gx_parts_free(p, &s);
    gx_square_free(t, &A);
}
