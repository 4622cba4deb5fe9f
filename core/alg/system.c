/*
** Sparse linear systems: see system.h.
**
** A is loaded as a whole, as is B, whose columns become X.  What A is decides how it is solved:
** its properties, what the caller says, else a look (symmetric with a positive diagonal: perhaps
** positive definite, which the Cholesky factorisation finds out).  With trans, A^T takes A's
** place; where it is A^H, B and X are conjugated around A^T.
*/
#include "system.h"

#include "dense.h"
#include "csr_matrix.h"
#include "probe.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static const double TOL = 1e-8;

static const char *const precond_words[] = {"auto", "none", "jacobi", "ilu0", "ic0"};

// What goes together ------------------------------------------------------------------------------

/* Which preconditioners a method takes, as bits of gx_precond_kind. */
static unsigned takes(gx_system_method method, bool is_sparse)
{
    unsigned none = 1U << GX_PRECOND_AUTO | 1U << GX_PRECOND_NONE;
    unsigned simple = none | 1U << GX_PRECOND_JACOBI;
    if (!is_sparse && method > GX_SYSTEM_DIRECT) { // rows are not looked at one by one
        return method == GX_SYSTEM_LSQR ? none : simple;
    }
    switch (method) {
    case GX_SYSTEM_CG:
    case GX_SYSTEM_MINRES:
        return simple | 1U << GX_PRECOND_IC0;
    case GX_SYSTEM_GMRES:
        return simple | 1U << GX_PRECOND_ILU0;
    case GX_SYSTEM_LSQR:
        return simple;
    default:
        return 1U << GX_PRECOND_AUTO;
    }
}

static gx_code check_options(const gx_system_args *args, gx_err *err)
{
    const char *word = gx_system_methods[args->method];
    bool is_iterative = args->method > GX_SYSTEM_DIRECT;
    if ((takes(args->method, args->A->is_sparse) >> args->precond & 1) == 0) {
        return gx_fail(err, GX_ARG, "\"precond\":\"%s\" is not for \"method\":\"%s\"%s",
                       precond_words[args->precond], word,
                       args->A->is_sparse ? "" : " of a matrix that is not sparse");
    }
    if (!is_iterative && (args->tol != 0 || args->most != 0 || args->x0 != NULL)) {
        return gx_fail(err, GX_ARG,
                       "\"tol\", \"maxiter\" and \"x0\" are for iterative methods: name one by "
                       "\"method\"");
    }
    if (args->restart != 0 && args->method != GX_SYSTEM_GMRES) {
        return gx_fail(err, GX_ARG, "\"restart\" is for \"method\":\"gmres\"");
    }
    if (is_iterative &&
        (gx_number_is_complex(args->A->number) || gx_number_is_complex(args->B->number))) {
        const gx_mat *mat = gx_number_is_complex(args->A->number) ? args->A : args->B;
        return gx_fail(err, GX_UNSUPPORTED,
                       "\"method\":\"%s\" is for real systems and %s is %s: \"direct\" takes it",
                       word, mat->label, gx_number_name(mat->number));
    }
    return GX_OK;
}

gx_code gx_system_shape(const gx_system_args *args, int64_t *rows, int64_t *cols, gx_number *dtype,
                        gx_err *err)
{
    const gx_mat *A = args->A, *B = args->B;
    bool is_turned = args->trans != GX_NO_TRANS;
    int64_t m = is_turned ? A->cols : A->rows, n = is_turned ? A->rows : A->cols;
    if (m != n && args->method != GX_SYSTEM_LSQR) {
        return gx_fail(err, GX_ARG,
                       "%s is %" PRId64 "x%" PRId64
                       ", not square: gx_lstsq and \"method\":\"lsqr\" solve by least squares",
                       A->label, A->rows, A->cols);
    }
    if (B->rows != m) {
        return gx_fail(err, GX_ARG, "%s is %" PRId64 "x%" PRId64 " but %s is %" PRId64 "x%" PRId64,
                       A->label, A->rows, A->cols, B->label, B->rows, B->cols);
    }
    const gx_mat *x0 = args->x0;
    if (x0 != NULL && (x0->rows != n || x0->cols != B->cols || gx_number_is_complex(x0->number))) {
        return gx_fail(err, GX_ARG,
                       "\"x0\" is %" PRId64 "x%" PRId64 " %s but X is %" PRId64 "x%" PRId64
                       " and real",
                       x0->rows, x0->cols, gx_number_name(x0->number), n, B->cols);
    }
    *rows = n;
    *cols = B->cols;
    *dtype = gx_number_promote(A->number, B->number);
    return check_options(args, err);
}

// A system ----------------------------------------------------------------------------------------

typedef struct system {
    gx_run *run;
    const gx_system_args *args;
    gx_csr_matrix A; /* op(A), but for conjugation; not of one that is not sparse */
    gx_number dtype;
    int64_t m, n, cols;
    bool is_hermitian, is_positive; /* found, told, or (positive) perhaps         */
    bool is_told;                   /* positive: not perhaps                      */
    void *b, *x;                    /* m x cols and n x cols of dtype             */
} system_t;

/* op(A), in b's dtype: a complex B makes A complex. */
static void load_matrix(system_t *s)
{
    gx_csr_matrix loaded;
    if (!s->args->A->is_sparse) {
        return;
    }
    gx_csr_matrix_load(s->run, s->args->A, s->dtype, &loaded);
    if (gx_ok(s->run) && s->args->trans != GX_NO_TRANS) {
        gx_csr_matrix_transpose(s->run, &loaded, &s->A);
        gx_csr_matrix_clear(&loaded);
    } else {
        s->A = loaded;
    }
}

/* What A is: told, known, or looked for. */
static void look(system_t *s)
{
    uint32_t known = s->args->A->properties;
    gx_system_method method = s->args->method;
    if (!gx_ok(s->run) || !s->args->A->is_sparse || s->m != s->n ||
        s->args->assume == GX_FACTOR_LU || method == GX_SYSTEM_GMRES || method == GX_SYSTEM_LSQR) {
        return;
    }
    s->is_told = s->args->assume == GX_FACTOR_CHOLESKY || (known & GX_PROP_POSITIVE) != 0;
    s->is_hermitian = gx_csr_matrix_is_hermitian(s->run, &s->A);
    if (gx_ok(s->run) && s->is_told && !s->is_hermitian) {
        gx_run_failf(s->run, GX_ARG, "%s is said to be positive definite but is not %s", s->A.label,
                     gx_number_is_complex(s->dtype) ? "Hermitian" : "symmetric");
    }
    s->is_positive = s->is_hermitian && (s->is_told || gx_csr_matrix_has_positive_diagonal(&s->A));
}

static void *column(const system_t *s, void *base, int64_t rows, int64_t j)
{
    return (char *)base + (size_t)(rows * j) * gx_number_bytes(s->dtype);
}

// Direct ------------------------------------------------------------------------------------------

/* |b - A x| in units of n eps (|A| |x| + |b|), the worst column's; b is destroyed. */
static void check_residual(system_t *s)
{
    int64_t length = s->n * (gx_number_is_complex(s->dtype) ? 2 : 1);
    double norm_a = gx_csr_matrix_norm(&s->A), worst = 0;
    gx_err err = {0};
    double *r;
    if (!gx_ok(s->run) || s->run->ctx->config.number[GX_SET_PROBE] == GX_PROBE_OFF) {
        return;
    }
    if (gx_mem_alloc(s->run->ctx->mem, (size_t)length * sizeof(double), "a residual", &r, &err) !=
        GX_OK) {
        return; // as in probe.c: without memory it is passed over
    }
    for (int64_t j = 0; j < s->cols && gx_ok(s->run); j++) {
        const double *b = column(s, s->b, s->m, j), *x = column(s, s->x, s->n, j);
        double rr = 0, bb = 0, xx = 0;
        gx_csr_matrix_times(s->run, &s->A, x, r);
        for (int64_t i = 0; i < length; i++) {
            rr += (b[i] - r[i]) * (b[i] - r[i]);
            bb += b[i] * b[i];
            xx += x[i] * x[i];
        }
        double unit = (double)s->n * DBL_EPSILON * (norm_a * sqrt(xx) + sqrt(bb));
        if (isfinite(unit) && unit > 0) {
            worst = fmax(worst, sqrt(rr) / unit);
        }
    }
    gx_mem_free(s->run->ctx->mem, r);
    gx_stats_add(&s->run->ctx->stats, GX_STAT_PROBES, 1);
    gx_stats_set(&s->run->ctx->stats, GX_STAT_PROBE_RATIO, (int64_t)fmin(worst * 1000, 9e15));
    if (gx_ok(s->run) && !(worst <= GX_PROBE_MOST)) {
        gx_run_failf(s->run, GX_NUMERIC,
                     "the result failed its residual check (ratio %.3g of at most %d)", worst,
                     GX_PROBE_MOST);
    }
}

static void solve_by(system_t *s, gx_direct_kind kind)
{
    gx_direct F;
    gx_direct_make(s->run, kind, &s->A, &F);
    gx_direct_solve(&F, false, s->cols, s->b, s->x);
    gx_direct_clear(&F);
    check_residual(s);
}

static void solve_direct(system_t *s)
{
    gx_err err = {0};
    if (s->is_positive && !gx_number_is_complex(s->dtype)) {
        gx_code code = gx_direct_look(s->run, GX_DIRECT_CHOLMOD, &err);
        if (code == GX_OK) {
            solve_by(s, GX_DIRECT_CHOLMOD);
        } else if (code != GX_UNSUPPORTED) {
            gx_run_fail(s->run, &err);
        }
        bool is_refused =
            code == GX_UNSUPPORTED || (!s->is_told && gx_run_forgive(s->run, GX_NUMERIC));
        if (!is_refused) {
            return;
        }
    }
    solve_by(s, GX_DIRECT_UMFPACK);
}

// Iterative ---------------------------------------------------------------------------------------

static gx_precond_kind usual_precond(gx_system_method method, bool is_sparse)
{
    return method == GX_SYSTEM_CG                   ? GX_PRECOND_JACOBI
           : method == GX_SYSTEM_GMRES && is_sparse ? GX_PRECOND_ILU0
                                                    : GX_PRECOND_NONE;
}

/* The usual preconditioner, or a simpler one where it breaks down and nobody asked for it. */
static void begin(system_t *s, gx_iterate *it)
{
    gx_precond_kind asked = s->args->precond;
    bool is_sparse = s->args->A->is_sparse;
    gx_iterate_begin(s->run,
                     asked == GX_PRECOND_AUTO ? usual_precond(it->method, is_sparse) : asked, it);
    if (asked == GX_PRECOND_AUTO && is_sparse && gx_run_forgive(s->run, GX_NUMERIC)) {
        gx_iterate_end(it);
        gx_stats_note(&s->run->ctx->stats, "sparse systems: ilu0 breaks down: jacobi");
        gx_iterate_begin(s->run, GX_PRECOND_JACOBI, it);
    }
}

static void want_symmetric(system_t *s, gx_system_method method, bool is_symmetric)
{
    if (gx_ok(s->run) && !is_symmetric) {
        gx_run_failf(s->run, GX_ARG, "%s is not symmetric, and %s is for symmetric matrices",
                     s->args->A->label, gx_system_methods[method]);
    }
}

static void solve_iterative(system_t *s, gx_system_method method)
{
    const gx_system_args *args = s->args;
    gx_csr_matrix T = {.mem = NULL};
    int64_t usual = gx_max(100, s->n <= INT64_MAX / 10 ? 10 * s->n : INT64_MAX);
    gx_iterate it = {.method = method,
                     .A = args->A->is_sparse ? &s->A : NULL,
                     .mat = args->A,
                     .is_turned = args->trans != GX_NO_TRANS,
                     .tol = args->tol > 0 ? args->tol : TOL,
                     .most = args->most > 0 ? args->most : usual,
                     .restart = args->restart > 0 ? args->restart : GX_ITERATE_RESTART};
    it.restart = gx_min(it.restart, gx_max(s->n, 1));
    if (method == GX_SYSTEM_LSQR && args->A->is_sparse &&
        gx_csr_matrix_transpose(s->run, &s->A, &T) == GX_OK) {
        it.T = &T;
        it.norm = gx_csr_matrix_norm(&s->A);
    }
    // Of a sparse A it is known; any other is multiplied, which takes the method's memory.
    bool is_of_symmetric = method == GX_SYSTEM_CG || method == GX_SYSTEM_MINRES;
    if (is_of_symmetric && args->A->is_sparse) {
        want_symmetric(s, method, s->is_hermitian);
    }
    begin(s, &it);
    if (is_of_symmetric && !args->A->is_sparse && gx_ok(s->run)) {
        want_symmetric(s, method, gx_iterate_is_symmetric(&it));
    }
    gx_span span = gx_stats_open(&s->run->ctx->stats);
    for (int64_t j = 0; j < s->cols && gx_ok(s->run); j++) {
        gx_iterate_solve(&it, column(s, s->b, s->m, j), column(s, s->x, s->n, j));
    }
    gx_stats_close(&s->run->ctx->stats, GX_STAT_COMPUTE_NS, span);
    gx_iterate_end(&it);
    gx_csr_matrix_clear(&T);
}

/* Direct, else what suits A: said in gx_stats. */
static void solve_auto(system_t *s)
{
    gx_run *run = s->run;
    solve_direct(s);
    bool is_real = !gx_number_is_complex(s->dtype);
    bool is_missing = is_real && gx_run_forgive(run, GX_UNSUPPORTED);
    if (!is_missing && !(is_real && gx_run_forgive(run, GX_BUDGET))) {
        return;
    }
    gx_system_method method = s->is_positive    ? GX_SYSTEM_CG
                              : s->is_hermitian ? GX_SYSTEM_MINRES
                                                : GX_SYSTEM_GMRES;
    gx_stats_note(&run->ctx->stats, "sparse systems: %s, since %s", gx_system_methods[method],
                  is_missing ? "SuiteSparse is not installed"
                             : "the factor does not fit memory_limit");
    size_t bytes = (size_t)(s->n * s->cols) * gx_number_bytes(s->dtype);
    memset(s->x, 0, bytes);
    solve_iterative(s, method);
    if (method == GX_SYSTEM_CG && !s->is_told && gx_run_forgive(run, GX_NUMERIC)) {
        gx_stats_note(&run->ctx->stats,
                      "sparse systems: minres, since cg finds no positive definite matrix");
        memset(s->x, 0, bytes);
        solve_iterative(s, GX_SYSTEM_MINRES);
    }
}

static void solve(system_t *s)
{
    gx_system_method method = s->args->method;
    if (method > GX_SYSTEM_DIRECT) {
        solve_iterative(s, method);
    } else if (method == GX_SYSTEM_DIRECT) {
        solve_direct(s);
    } else {
        solve_auto(s);
    }
}

gx_code gx_alg_system(gx_run *run, const gx_system_args *args, gx_sink *X)
{
    bool is_turned = args->trans != GX_NO_TRANS;
    gx_mat x;
    system_t s = {.run = run,
                  .args = args,
                  .dtype = gx_number_wide(X->number),
                  .m = is_turned ? args->A->cols : args->A->rows,
                  .n = X->rows,
                  .cols = X->cols};
    if (!gx_ok(run) || s.n == 0 || s.cols == 0) {
        return gx_ok(run) ? GX_OK : run->err.code;
    }
    load_matrix(&s);
    look(&s);
    gx_dense_alloc(run, s.dtype, s.m, s.cols, "B", &s.b);
    gx_dense_alloc(run, s.dtype, s.n, s.cols, "X", &s.x);
    gx_dense_load(run, args->B, s.dtype, s.b, gx_max(1, s.m));
    if (args->x0 != NULL) {
        gx_dense_load(run, args->x0, s.dtype, s.x, s.n);
    } else if (gx_ok(run)) {
        memset(s.x, 0, (size_t)(s.n * s.cols) * gx_number_bytes(s.dtype));
    }
    bool is_conjugated = args->trans == GX_CONJ_TRANS && gx_number_is_complex(s.dtype);
    if (is_conjugated) {
        gx_dense_conj(run, s.dtype, s.m, s.cols, s.b);
    }
    if (gx_ok(run)) {
        solve(&s);
    }
    if (is_conjugated) {
        gx_dense_conj(run, s.dtype, s.n, s.cols, s.x);
    }
    if (gx_ok(run)) {
        gx_mat_value(&x, "X", s.dtype, s.n, s.cols, s.x, s.n);
        gx_copy_to_sink(run, &x, X);
    }
    gx_mem_free(run->ctx->mem, s.b);
    gx_mem_free(run->ctx->mem, s.x);
    gx_csr_matrix_clear(&s.A);
    return gx_ok(run) ? GX_OK : run->err.code;
}
