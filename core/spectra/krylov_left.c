/*
** Left eigenvectors of a part of a general spectrum: y^H A = value y^H.
**
** They are the eigenvectors of A^H, whose eigenvalues are the conjugate ones: the driver runs once
** more, over a conjugate transposed view of A (for values nearest to a sigma, to its conjugate),
** and each right pair gets the left vector whose value is nearest to its own, the best match first
** come, no vector twice.  Of a real A a left vector of the conjugate value is the conjugate one, so
** that a pair that k parts does no harm.
**
** Where values are so ill-conditioned that the two runs do not agree on them, or where several have
** the same rank and each run found others, that is said: a left vector of another value is none.
**
** I/O and memory: those of a second run; the first one's result stays meanwhile.
*/
#include "../alg/dense.h"
#include "krylov_eig.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct matching {
    gx_run *run;
    const gx_eig_args *args;
    gx_eig_result *right;
    gx_eig_result left; /* of A^H                        */
    bool *is_taken;     /* left.count                    */
    double most;        /* distance of values that match */
} matching;

static double distance(gx_scalar a, gx_scalar b)
{
    return hypot(a.re - b.re, a.im - b.im);
}

/*
** The left pair for a value, -1: there is none.  *is_conjugate: its vector is to be conjugated.
*/
static int64_t find_left(const matching *m, gx_scalar value, bool *is_conjugate)
{
    int64_t best = -1;
    double nearest = m->most;
    bool is_real = !gx_number_is_complex(m->args->A->number) && m->args->sigma.im == 0;
    *is_conjugate = false;
    for (int64_t j = 0; j < m->left.count; j++) {
        gx_scalar x = m->left.values[j], conjugate = {x.re, -x.im};
        double d = distance(value, conjugate);
        if (!m->is_taken[j] && d < nearest) {
            best = j;
            nearest = d;
        }
    }
    for (int64_t j = 0; is_real && best < 0 && j < m->left.count; j++) {
        if (distance(value, m->left.values[j]) < nearest) {
            best = j;
            *is_conjugate = true;
        }
    }
    return best;
}

/* Column j of the left run as column i of the result, in its dtype. */
static void take_vector(const matching *m, int64_t j, bool is_conjugate, int64_t i)
{
    const gx_eig_result *from = &m->left;
    gx_eig_result *to = m->right;
    int64_t n = to->n, ld = gx_max(1, n);
    void *column = gx_at(to->left, to->dtype, n, 0, i);
    gx_convert(from->dtype, gx_at(from->right, from->dtype, n, 0, j), ld, to->dtype, column, ld, n,
               1);
    if (is_conjugate) {
        gx_dense_conj(m->run, to->dtype, n, 1, column);
    }
}

static void match(matching *m)
{
    const gx_eig_result *r = m->right;
    double largest = 0;
    for (int64_t i = 0; i < r->count; i++) {
        largest = fmax(largest, hypot(r->values[i].re, r->values[i].im));
    }
    const double SHARE = 1e-6, NARROW = 1e-3; // of the largest value
    m->most = (gx_number_is_double(r->dtype) ? SHARE : NARROW) * fmax(largest, DBL_MIN);
    for (int64_t i = 0; i < r->count && gx_ok(m->run); i++) {
        bool is_conjugate;
        int64_t j = find_left(m, r->values[i], &is_conjugate);
        if (j < 0) {
            gx_run_failf(m->run, GX_NUMERIC,
                         "no left eigenvector of %s was found for the value %g%+gi: its values are "
                         "too ill-conditioned, or several stand at the same place; ask for more, "
                         "or use {\"method\":\"dense\"}",
                         m->args->A->label, r->values[i].re, r->values[i].im);
            return;
        }
        m->is_taken[j] = true;
        take_vector(m, j, is_conjugate, i);
    }
}

/* result->left for a general matrix, from a second run over A^H. */
static void find_left_vectors(gx_run *run, const gx_eig_args *args, gx_eig_result *result)
{
    gx_mat adjoint;
    const gx_mat *A = args->A;
    gx_mat_view(&adjoint, A, gx_adjoint(A->number), 0, 0, A->cols, A->rows);
    gx_eig_args again = *args;
    again.A = &adjoint;
    again.sigma.im = -args->sigma.im;
    again.start = NULL;
    again.wants_left = again.wants_residuals = false;
    again.wants_right = true;
    matching m = {.run = run, .args = args, .right = result};
    gx_kry_find_right(run, &again, &m.left);
    m.is_taken = gx_dense_take(run, GX_F64, gx_max(1, m.left.count), 1, "a matching");
    result->left =
        gx_dense_take(run, result->dtype, result->n, result->count, "left eigenvectors");
    if (gx_ok(run)) {
        memset(m.is_taken, 0, (size_t)m.left.count * sizeof *m.is_taken);
        match(&m);
    }
    result->passes += m.left.passes;
    gx_mem_free(run->ctx->mem, m.is_taken);
    m.left.mem = run->ctx->mem;
    gx_eig_clear(&m.left);
}

gx_code gx_eig_krylov(gx_run *run, const gx_eig_args *args, gx_eig_result *result)
{
    gx_kry_find_right(run, args, result);
    if (gx_ok(run) && args->wants_left && !args->is_hermitian) {
        find_left_vectors(run, args, result);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}
