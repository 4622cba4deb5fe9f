/*
** Preconditioners: see system.h.
**
**   ILU(0)  Gaussian elimination by rows that keeps the entries of A and drops all others
**           (Meijerink and van der Vorst 1977): row i less multiples of the rows k < i that it
**           has an entry for; a table of row i's places makes each update one look.
**   IC(0)   the same for L L^T: L[i,k] = (A[i,k] - L[i,:k] L[k,:k]^T) / L[k,k], each product a
**           merge of two rows.
**
** Both solves are sweeps over rows, each of which waits for those before it: one thread.
*/
#include "alg.h"
#include "system.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { POLL_ROWS = 1 << 14 };

// The diagonal ------------------------------------------------------------------------------------

/* A diagonal element's absolute value is divided by, or, where that cannot be, 1. */
static double inverse_of(double d)
{
    return d > 0 && isfinite(1 / d) ? 1 / d : 1;
}

static gx_code make_jacobi(const gx_csr_matrix *A, bool is_by_column, gx_precond *M, gx_err *err)
{
    const double *value = A->value;
    GX_TRY(gx_mem_calloc(M->mem, (size_t)A->cols * sizeof *M->inverse, "a preconditioner",
                         &M->inverse, err));
    for (int64_t e = 0; is_by_column && e < A->entries; e++) {
        M->inverse[A->index[e]] += value[e] * value[e];
    }
    for (int64_t j = 0; j < A->cols; j++) {
        int64_t e = is_by_column ? -1 : gx_csr_matrix_diagonal(A, j);
        double d = is_by_column ? sqrt(M->inverse[j]) : e < 0 ? 0 : fabs(value[e]);
        M->inverse[j] = inverse_of(d);
    }
    return GX_OK;
}

// ILU(0) ------------------------------------------------------------------------------------------

static gx_code breaks_down(const char *which, const gx_csr_matrix *A, int64_t i, gx_err *err)
{
    return gx_fail(err, GX_NUMERIC,
                   "%s of %s breaks down at row %" PRId64 ": take another \"precond\"", which,
                   A->label, i);
}

static gx_code poll(gx_run *run, int64_t i, gx_err *err)
{
    return i % POLL_ROWS != 0 || gx_run_poll(run) == GX_OK
               ? GX_OK
               : gx_fail(err, run->err.code, "%s", run->err.text);
}

/* place: of each column the entry of row i, or -1; all -1 between rows. */
static gx_code eliminate(gx_run *run, gx_precond *M, int64_t *place, gx_err *err)
{
    const gx_csr_matrix *A = M->A;
    double *value = M->value;
    for (int64_t i = 0; i < A->rows; i++) {
        M->diagonal[i] = gx_csr_matrix_diagonal(A, i);
        if (M->diagonal[i] < 0) {
            return breaks_down("ilu0", A, i, err);
        }
        for (int64_t e = A->start[i]; e < A->start[i + 1]; e++) {
            place[A->index[e]] = e;
        }
        for (int64_t e = A->start[i]; e < M->diagonal[i]; e++) {
            int64_t k = A->index[e];
            double factor = value[e] /= value[M->diagonal[k]];
            for (int64_t f = M->diagonal[k] + 1; f < A->start[k + 1]; f++) {
                int64_t at = place[A->index[f]];
                if (at >= 0) {
                    value[at] -= factor * value[f];
                }
            }
        }
        for (int64_t e = A->start[i]; e < A->start[i + 1]; e++) {
            place[A->index[e]] = -1;
        }
        if (value[M->diagonal[i]] == 0 || !isfinite(value[M->diagonal[i]])) {
            return breaks_down("ilu0", A, i, err);
        }
        GX_TRY(poll(run, i, err));
    }
    return GX_OK;
}

static gx_code make_ilu0(gx_run *run, const gx_csr_matrix *A, gx_precond *M, gx_err *err)
{
    const char *what = "a preconditioner";
    GX_TRY(gx_mem_alloc(M->mem, (size_t)A->entries * sizeof *M->value, what, &M->value, err));
    memcpy(M->value, A->value, (size_t)A->entries * sizeof *M->value);
    GX_TRY(gx_mem_alloc(M->mem, (size_t)A->rows * sizeof *M->diagonal, what, &M->diagonal, err));
    int64_t *place;
    GX_TRY(gx_mem_alloc(M->mem, (size_t)A->rows * sizeof(int64_t), what, &place, err));
    for (int64_t j = 0; j < A->rows; j++) {
        place[j] = -1;
    }
    gx_code code = eliminate(run, M, place, err);
    gx_mem_free(M->mem, place);
    return code;
}

static void apply_ilu0(const gx_precond *M, const double *r, double *z)
{
    const gx_csr_matrix *A = M->A;
    for (int64_t i = 0; i < A->rows; i++) {
        double sum = r[i];
        for (int64_t e = A->start[i]; e < M->diagonal[i]; e++) {
            sum -= M->value[e] * z[A->index[e]];
        }
        z[i] = sum;
    }
    for (int64_t i = A->rows - 1; i >= 0; i--) {
        double sum = z[i];
        for (int64_t e = M->diagonal[i] + 1; e < A->start[i + 1]; e++) {
            sum -= M->value[e] * z[A->index[e]];
        }
        z[i] = sum / M->value[M->diagonal[i]];
    }
}

// IC(0) -------------------------------------------------------------------------------------------

/* The product of what rows [e, e_end) and [f, f_end) of L have in common. */
static double common(const gx_precond *M, int64_t e, int64_t e_end, int64_t f, int64_t f_end)
{
    double sum = 0;
    while (e < e_end && f < f_end) {
        int32_t a = M->index[e], b = M->index[f];
        if (a == b) {
            sum += M->value[e] * M->value[f];
        }
        e += a <= b;
        f += b <= a;
    }
    return sum;
}

/* A's lower triangle: rows that end with their diagonal. */
static gx_code copy_lower(const gx_csr_matrix *A, gx_precond *M, gx_err *err)
{
    const char *what = "a preconditioner";
    const double *value = A->value;
    int64_t count = 0;
    GX_TRY(
        gx_mem_alloc(M->mem, ((size_t)A->rows + 1) * sizeof *M->diagonal, what, &M->diagonal, err));
    for (int64_t i = 0; i < A->rows; i++) {
        int64_t d = gx_csr_matrix_diagonal(A, i);
        M->diagonal[i] = count;
        if (d < 0) {
            return breaks_down("ic0", A, i, err);
        }
        count += d - A->start[i] + 1;
    }
    M->diagonal[A->rows] = count;
    GX_TRY(gx_mem_alloc(M->mem, (size_t)count * sizeof *M->index, what, &M->index, err));
    GX_TRY(gx_mem_alloc(M->mem, (size_t)count * sizeof *M->value, what, &M->value, err));
    for (int64_t i = 0; i < A->rows; i++) {
        size_t length = (size_t)(M->diagonal[i + 1] - M->diagonal[i]);
        memcpy(M->index + M->diagonal[i], A->index + A->start[i], length * sizeof *M->index);
        memcpy(M->value + M->diagonal[i], value + A->start[i], length * sizeof *M->value);
    }
    return GX_OK;
}

static gx_code make_ic0(gx_run *run, const gx_csr_matrix *A, gx_precond *M, gx_err *err)
{
    GX_TRY(copy_lower(A, M, err));
    const int64_t *start = M->diagonal;
    for (int64_t i = 0; i < A->rows; i++) {
        int64_t last = start[i + 1] - 1;
        for (int64_t e = start[i]; e < last; e++) {
            int64_t k = M->index[e], k_last = start[k + 1] - 1;
            M->value[e] =
                (M->value[e] - common(M, start[i], e, start[k], k_last)) / M->value[k_last];
        }
        double pivot = M->value[last] - common(M, start[i], last, start[i], last);
        if (!(pivot > 0) || !isfinite(pivot)) {
            return breaks_down("ic0", A, i, err);
        }
        M->value[last] = sqrt(pivot);
        GX_TRY(poll(run, i, err));
    }
    return GX_OK;
}

static void apply_ic0(const gx_precond *M, const double *r, double *z)
{
    const int64_t *start = M->diagonal;
    int64_t n = M->A->rows;
    for (int64_t i = 0; i < n; i++) {
        int64_t last = start[i + 1] - 1;
        double sum = r[i];
        for (int64_t e = start[i]; e < last; e++) {
            sum -= M->value[e] * z[M->index[e]];
        }
        z[i] = sum / M->value[last];
    }
    for (int64_t i = n - 1; i >= 0; i--) {
        int64_t last = start[i + 1] - 1;
        double x = z[i] /= M->value[last];
        for (int64_t e = start[i]; e < last; e++) {
            z[M->index[e]] -= M->value[e] * x;
        }
    }
}

// Any ---------------------------------------------------------------------------------------------

static gx_code take_diagonal(void *arg, int64_t i, gx_scalar x, gx_err *err)
{
    (void)err;
    ((double *)arg)[i] = inverse_of(fabs(x.re));
    return GX_OK;
}

gx_code gx_precond_make_dense(gx_run *run, gx_precond_kind kind, const gx_mat *A, gx_precond *M)
{
    *M = (gx_precond){.kind = kind, .mem = run->ctx->mem};
    if (kind == GX_PRECOND_JACOBI) {
        M->inverse = gx_run_calloc(run, (size_t)A->cols * sizeof *M->inverse, "a preconditioner");
    }
    return M->inverse == NULL ? run->err.code
                              : gx_alg_each_diagonal(run, A, 0, A->cols, take_diagonal, M->inverse);
}

gx_code gx_precond_make(gx_run *run, gx_precond_kind kind, const gx_csr_matrix *A,
                        bool is_by_column, gx_precond *M)
{
    gx_err err = {0};
    *M = (gx_precond){.kind = kind, .mem = run->ctx->mem, .A = A};
    if (!gx_ok(run)) {
        return run->err.code;
    }
    switch (kind) {
    case GX_PRECOND_JACOBI:
        make_jacobi(A, is_by_column, M, &err);
        break;
    case GX_PRECOND_ILU0:
        make_ilu0(run, A, M, &err);
        break;
    case GX_PRECOND_IC0:
        make_ic0(run, A, M, &err);
        break;
    case GX_PRECOND_AUTO:
    case GX_PRECOND_NONE:
        break;
    }
    return gx_run_fail(run, &err);
}

void gx_precond_apply(const gx_precond *M, const double *r, double *z)
{
    if (M->kind == GX_PRECOND_ILU0) {
        apply_ilu0(M, r, z);
    } else if (M->kind == GX_PRECOND_IC0) {
        apply_ic0(M, r, z);
    }
}

void gx_precond_clear(gx_precond *M)
{
    gx_mem_free(M->mem, M->inverse);
    gx_mem_free(M->mem, M->diagonal);
    gx_mem_free(M->mem, M->index);
    gx_mem_free(M->mem, M->value);
    *M = (gx_precond){.mem = NULL};
}
