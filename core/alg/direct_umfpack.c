/*
** LU of a sparse matrix by UMFPACK (Davis 2004): see direct.h.
**
** UMFPACK's interface is arrays and numbers only, unchanged from version 4 to 6, and reads the
** columns of a matrix; a CSR is the columns of A^T, so op(A) is solved with the factors of A^T,
** transposed.  Its "zl" routines take complex numbers packed where the second array is NULL.
**
** Memory.  UMFPACK's own bound allows for any pivots at all and is tens of times too large where
** pivots stay on the diagonal, which its symmetric strategy expects: there it is counted by the
** entries that L and U then have, 16 bytes each and as much again for growth; elsewhere by
** the bound.  After the factorisation what it took is counted.
*/
#include "direct_int.h"

#include <math.h>
#include <string.h>

// Of UMFPACK's documentation: lengths, places in Control and Info, numbers of systems.
enum {
    CONTROLS = 20,
    INFOS = 90,
    INFO_UNIT = 3,
    INFO_SYMBOLIC_PEAK = 13,
    INFO_STRATEGY = 18,
    INFO_PEAK_ESTIMATE = 21,
    INFO_SYMMETRIC_LUNZ = 36,
    INFO_PEAK = 41,
    STRATEGY_SYMMETRIC = 3,
    STATUS_SINGULAR = 1,
    STATUS_MEMORY = -1,
    SYSTEM_AS_IS = 0,
    SYSTEM_TRANSPOSED = 2
};

typedef int64_t (*real_symbolic)(int64_t, int64_t, const int64_t *, const int64_t *, const double *,
                                 void **, const double *, double *);
typedef int64_t (*real_numeric)(const int64_t *, const int64_t *, const double *, void *, void **,
                                const double *, double *);
typedef int64_t (*real_solve)(int64_t, const int64_t *, const int64_t *, const double *, double *,
                              const double *, void *, const double *, double *);
typedef int64_t (*complex_symbolic)(int64_t, int64_t, const int64_t *, const int64_t *,
                                    const double *, const double *, void **, const double *,
                                    double *);
typedef int64_t (*complex_numeric)(const int64_t *, const int64_t *, const double *, const double *,
                                   void *, void **, const double *, double *);
typedef int64_t (*complex_solve)(int64_t, const int64_t *, const int64_t *, const double *,
                                 const double *, double *, double *, const double *, const double *,
                                 void *, const double *, double *);

typedef struct umfpack {
    bool is_complex;
    real_symbolic symbolic;
    real_numeric numeric;
    real_solve solve;
    complex_symbolic symbolic_c;
    complex_numeric numeric_c;
    complex_solve solve_c;
    void (*defaults)(double *);
    void (*free_symbolic)(void **);
    void (*free_numeric)(void **);
    void *analysis, *factor;
    double control[CONTROLS], info[INFOS];
} umfpack;

static gx_code bind(gx_direct *F, umfpack *u, gx_err *err)
{
    const gx_direct_symbol real[] = {{"umfpack_dl_defaults", &u->defaults},
                                     {"umfpack_dl_symbolic", &u->symbolic},
                                     {"umfpack_dl_numeric", &u->numeric},
                                     {"umfpack_dl_solve", &u->solve},
                                     {"umfpack_dl_free_symbolic", &u->free_symbolic},
                                     {"umfpack_dl_free_numeric", &u->free_numeric},
                                     {NULL, NULL}};
    const gx_direct_symbol complex[] = {{"umfpack_zl_defaults", &u->defaults},
                                        {"umfpack_zl_symbolic", &u->symbolic_c},
                                        {"umfpack_zl_numeric", &u->numeric_c},
                                        {"umfpack_zl_solve", &u->solve_c},
                                        {"umfpack_zl_free_symbolic", &u->free_symbolic},
                                        {"umfpack_zl_free_numeric", &u->free_numeric},
                                        {NULL, NULL}};
    return gx_direct_bind(F->library, u->is_complex ? complex : real, err);
}

static gx_code failed(const gx_direct *F, int64_t status, const char *step, gx_err *err)
{
    switch (status) {
    case STATUS_MEMORY:
        return gx_fail(err, GX_NOMEM, "out of memory (UMFPACK's %s of %s)", step, F->A->label);
    case STATUS_SINGULAR:
        return gx_fail(err, GX_NUMERIC, "%s is singular (a pivot of its sparse LU is 0)",
                       F->A->label);
    default:
        return gx_fail(err, GX_NUMERIC, "UMFPACK's %s of %s failed (status %lld)", step,
                       F->A->label, (long long)status);
    }
}

static double forecast(const umfpack *u)
{
    double element = u->is_complex ? 24 : 16, bound = u->info[INFO_PEAK_ESTIMATE];
    double likely = u->info[INFO_SYMMETRIC_LUNZ] * element * 2;
    bound *= u->info[INFO_UNIT];
    return u->info[INFO_STRATEGY] == STRATEGY_SYMMETRIC && likely > 0 ? fmin(bound, likely) : bound;
}

gx_code gx_umfpack_make(gx_direct *F, gx_err *err)
{
    const gx_whole *A = F->A;
    void *memory;
    GX_TRY(gx_mem_calloc(F->run->ctx->mem, sizeof(umfpack), "a factorisation", &memory, err));
    umfpack *u = F->state = memory;
    u->is_complex = gx_number_is_complex(A->dtype);
    GX_TRY(bind(F, u, err));
    u->defaults(u->control);
    // For the analysis: some 20 numbers a row and 3 an entry.
    GX_TRY(gx_direct_reserve(F, 8 * (20.0 * (double)A->rows + 3.0 * (double)A->entries), err));
    int64_t status = u->is_complex ? u->symbolic_c(A->rows, A->rows, A->start, F->index, A->value,
                                                   NULL, &u->analysis, u->control, u->info)
                                   : u->symbolic(A->rows, A->rows, A->start, F->index, A->value,
                                                 &u->analysis, u->control, u->info);
    if (status != 0) {
        return failed(F, status, "analysis", err);
    }
    GX_TRY(gx_run_poll(F->run));
    double expected = forecast(u);
    GX_TRY(gx_direct_reserve(F, expected, err));
    status = u->is_complex ? u->numeric_c(A->start, F->index, A->value, NULL, u->analysis,
                                          &u->factor, u->control, u->info)
                           : u->numeric(A->start, F->index, A->value, u->analysis, &u->factor,
                                        u->control, u->info);
    if (status != 0) {
        return failed(F, status, "factorisation", err);
    }
    double taken = u->info[INFO_PEAK] * u->info[INFO_UNIT];
    if (taken > expected) {
        GX_TRY(gx_direct_reserve(F, taken - expected, err));
    }
    return gx_run_poll(F->run);
}

/* The factors are of A^T. */
gx_code gx_umfpack_solve(gx_direct *F, bool is_transposed, int64_t cols, const double *b, double *x)
{
    const gx_whole *A = F->A;
    umfpack *u = F->state;
    gx_err err = {0};
    int64_t system = is_transposed ? SYSTEM_AS_IS : SYSTEM_TRANSPOSED;
    int64_t step = A->rows * (u->is_complex ? 2 : 1);
    for (int64_t j = 0; j < cols && gx_ok(F->run); j++) {
        const double *bj = b + j * step;
        double *xj = x + j * step;
        int64_t status = u->is_complex ? u->solve_c(system, A->start, F->index, A->value, NULL, xj,
                                                    NULL, bj, NULL, u->factor, u->control, u->info)
                                       : u->solve(system, A->start, F->index, A->value, xj, bj,
                                                  u->factor, u->control, u->info);
        if (status != 0) {
            failed(F, status, "solve", &err);
            return gx_run_fail(F->run, &err);
        }
        gx_run_poll(F->run);
    }
    return gx_ok(F->run) ? GX_OK : F->run->err.code;
}

void gx_umfpack_clear(gx_direct *F)
{
    umfpack *u = F->state;
    if (u->analysis != NULL) {
        u->free_symbolic(&u->analysis);
    }
    if (u->factor != NULL) {
        u->free_numeric(&u->factor);
    }
    gx_mem_free(F->run->ctx->mem, u);
    F->state = NULL;
}
