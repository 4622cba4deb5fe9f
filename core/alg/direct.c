/*
** Sparse factorisations by SuiteSparse: see csr_matrix.h.
**
** A library is opened by dlopen() when a call wants it, from the folder of the setting
** suitesparse_path (of the environment or the application) or, where that is empty, from where the
** loader looks; it stays in the process once it has been opened, so that opening it again costs
** microseconds.  Nothing of gx links to it, and none of its headers is needed: what is called is
** declared here.
**
** SuiteSparse allocates by malloc(), whose hooks are the process's and therefore not ours: memory
** is counted by what the symbolic analysis foretells, before it is taken.  Its routines cannot be
** left in the middle (they hold memory: no jump as in docs/decisions/021); an interrupt is seen
** between them.
**
** LU by UMFPACK (Davis 2004).  Its interface is arrays and numbers only, unchanged from version 4
** to 6, and reads the columns of a matrix; a CSR is the columns of A^T, so op(A) is solved with the
** factors of A^T, transposed.  Its "zl" routines take complex numbers packed where the second array
** is NULL.
**
** Memory.  UMFPACK's own bound allows for any pivots at all and is tens of times too large where
** pivots stay on the diagonal, which its symmetric strategy expects: there it is counted by the
** entries that L and U then have, 16 bytes each and as much again for growth; elsewhere by
** the bound.  After the factorisation what it took is counted.
**
** Cholesky by CHOLMOD (Chen, Davis, Hager and Rajamanickam 2008).  Its functions take a workspace,
** cholmod_common, of a few kilobytes, whose layout is its
** version's.  It is allocated here far larger than any version has it, and of its fields only the
** first, documented since version 1.7, are touched: before they are, each must have its documented
** default at its place, as cholmod_l_start() has just set it.  A version that puts them elsewhere
** is therefore seen, and left alone in words.  The small structures of matrices and factors have
** been the same from version 2 to 5; the number is asked.
**
** Memory is counted by what the analysis gives: the supernodes' sizes, or the columns' counts.
*/
#include "csr_matrix.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// Libraries ---------------------------------------------------------------------------------------

enum { PATH_BYTES = GX_SETTING_TEXT + 64 };

/* Each library's names, the newest first, and what installs it. */
static const struct {
    const char *name, *package;
    const char *soname[4];
} libraries[] = {
    [GX_DIRECT_UMFPACK] = {"UMFPACK",
                           "libumfpack5 or libumfpack6",
                           {"libumfpack.so.6", "libumfpack.so.5"}},
    [GX_DIRECT_CHOLMOD] = {"CHOLMOD",
                           "libcholmod3 or libcholmod5",
                           {"libcholmod.so.5", "libcholmod.so.4", "libcholmod.so.3"}},
};

/* *library is of dlopen(); GX_UNSUPPORTED names the package. */
static gx_code open_library(gx_run *run, gx_direct_kind kind, void **library, gx_err *err)
{
    const char *folder = run->ctx->config.text[GX_SET_SUITESPARSE_PATH];
    char path[PATH_BYTES];
    bool is_missing = true; // and not there but refused by the loader
    *library = NULL;
    for (int k = 0; libraries[kind].soname[k] != NULL; k++) {
        snprintf(path, sizeof path, "%s%s%s", folder, folder[0] == '\0' ? "" : "/",
                 libraries[kind].soname[k]);
        *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (*library != NULL) {
            run->ctx->is_suitesparse_open = true;
            return GX_OK;
        }
        const char *text = dlerror();
        is_missing = is_missing && text != NULL && strstr(text, "No such file") != NULL;
    }
    if (!is_missing) { // short of memory, mostly: another method is not what was asked for
        return gx_fail(err, GX_NOMEM,
                       "out of memory, or damaged: %s of SuiteSparse cannot be opened",
                       libraries[kind].name);
    }
    return gx_fail(err, GX_UNSUPPORTED,
                   "a sparse direct solve needs %s of SuiteSparse, and %s is not in %s: install "
                   "%s, set GX_SUITESPARSE_PATH, or take an iterative \"method\"",
                   libraries[kind].name, libraries[kind].soname[0],
                   folder[0] == '\0' ? "the usual places" : folder, libraries[kind].package);
}

/* A function of a library: its name and the pointer that it fills. */
typedef struct symbol {
    const char *name;
    void *place; /* of a function pointer */
} symbol;

/* All of them; GX_UNSUPPORTED names the first that is missing. */
static gx_code bind_all(void *library, const symbol *symbols, gx_err *err)
{
    for (; symbols->name != NULL; symbols++) {
        void *found = dlsym(library, symbols->name);
        if (found == NULL) {
            return gx_fail(err, GX_UNSUPPORTED, "the SuiteSparse found here has no %s",
                           symbols->name);
        }
        memcpy(symbols->place, &found, sizeof found); // ISO C casts no object to a function
    }
    return GX_OK;
}

/* So many bytes more of the budget for SuiteSparse's own, given back by gx_direct_clear(). */
static gx_code reserve(gx_direct *F, double bytes, gx_err *err)
{
    size_t size = bytes < 9e18 ? (size_t)bytes : SIZE_MAX / 2;
    GX_TRY(gx_mem_reserve(F->run->ctx->mem, size, "a sparse factorisation", err));
    F->reserved += size;
    return GX_OK;
}

// UMFPACK -----------------------------------------------------------------------------------------

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

static gx_code bind_umfpack(gx_direct *F, umfpack *u, gx_err *err)
{
    const symbol real[] = {{"umfpack_dl_defaults", &u->defaults},
                           {"umfpack_dl_symbolic", &u->symbolic},
                           {"umfpack_dl_numeric", &u->numeric},
                           {"umfpack_dl_solve", &u->solve},
                           {"umfpack_dl_free_symbolic", &u->free_symbolic},
                           {"umfpack_dl_free_numeric", &u->free_numeric},
                           {NULL, NULL}};
    const symbol complex[] = {{"umfpack_zl_defaults", &u->defaults},
                              {"umfpack_zl_symbolic", &u->symbolic_c},
                              {"umfpack_zl_numeric", &u->numeric_c},
                              {"umfpack_zl_solve", &u->solve_c},
                              {"umfpack_zl_free_symbolic", &u->free_symbolic},
                              {"umfpack_zl_free_numeric", &u->free_numeric},
                              {NULL, NULL}};
    return bind_all(F->library, u->is_complex ? complex : real, err);
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

static gx_code umfpack_make(gx_direct *F, gx_err *err)
{
    const gx_csr_matrix *A = F->A;
    void *memory;
    GX_TRY(gx_mem_calloc(F->run->ctx->mem, sizeof(umfpack), "a factorisation", &memory, err));
    umfpack *u = F->state = memory;
    u->is_complex = gx_number_is_complex(A->dtype);
    GX_TRY(bind_umfpack(F, u, err));
    u->defaults(u->control);
    // For the analysis: some 20 numbers a row and 3 an entry.
    GX_TRY(reserve(F, 8 * (20.0 * (double)A->rows + 3.0 * (double)A->entries), err));
    int64_t status = u->is_complex ? u->symbolic_c(A->rows, A->rows, A->start, F->index, A->value,
                                                   NULL, &u->analysis, u->control, u->info)
                                   : u->symbolic(A->rows, A->rows, A->start, F->index, A->value,
                                                 &u->analysis, u->control, u->info);
    if (status != 0) {
        return failed(F, status, "analysis", err);
    }
    GX_TRY(gx_run_poll(F->run));
    double expected = forecast(u);
    GX_TRY(reserve(F, expected, err));
    status = u->is_complex ? u->numeric_c(A->start, F->index, A->value, NULL, u->analysis,
                                          &u->factor, u->control, u->info)
                           : u->numeric(A->start, F->index, A->value, u->analysis, &u->factor,
                                        u->control, u->info);
    if (status != 0) {
        return failed(F, status, "factorisation", err);
    }
    double taken = u->info[INFO_PEAK] * u->info[INFO_UNIT];
    if (taken > expected) {
        GX_TRY(reserve(F, taken - expected, err));
    }
    return gx_run_poll(F->run);
}

/* The factors are of A^T. */
static gx_code umfpack_solve(gx_direct *F, bool is_transposed, int64_t cols, const double *b,
                             double *x)
{
    const gx_csr_matrix *A = F->A;
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

static void umfpack_clear(gx_direct *F)
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

// CHOLMOD -----------------------------------------------------------------------------------------

enum { COMMON_BYTES = 1 << 16, LONG = 2, REAL = 1, SOLVE_A = 0, TOGETHER = 16 /* columns */ };

/* The beginning of cholmod_common. */
typedef struct common_head {
    double dbound, grow0, grow1;
    size_t grow2, maxrank;
    double supernodal_switch;
    int supernodal, final_asis, final_super, final_ll, final_pack, final_monotonic, final_resymbol;
    double zrelax[3];
    size_t nrelax[3];
    int prefer_zomplex, prefer_upper, quick_return_if_not_posdef, prefer_binary, print, precise,
        try_catch;
} common_head;

typedef struct sparse {
    size_t rows, cols, most;
    const void *start, *index;
    void *counts;
    const void *value;
    void *imag;
    int stype, itype, xtype, dtype, sorted, packed;
} sparse;

typedef struct dense {
    size_t rows, cols, most, ld;
    void *x, *z;
    int xtype, dtype;
} dense;

typedef struct factor {
    size_t n, minor;
    void *perm;
    const int64_t *col_count;
    void *inverse_perm;
    size_t most;
    void *p, *i, *x, *z, *nz, *next, *prev;
    size_t nsuper, ssize, xsize, maxcsize, maxesize;
    void *super, *pi, *px, *s;
    int ordering, is_ll, is_super, is_monotonic, itype, xtype, dtype;
} factor;

typedef struct cholmod {
    int (*version)(int[3]);
    int (*start)(void *);
    int (*finish)(void *);
    factor *(*analyze)(sparse *, void *);
    int (*factorize)(sparse *, factor *, void *);
    dense *(*solve)(int, factor *, dense *, void *);
    int (*free_factor)(factor **, void *);
    int (*free_dense)(dense **, void *);
    bool is_started;
    factor *factor;
    _Alignas(64) char common[COMMON_BYTES];
} cholmod;

static gx_code bind_cholmod(gx_direct *F, cholmod *c, gx_err *err)
{
    const symbol symbols[] = {{"cholmod_l_version", &c->version},
                              {"cholmod_l_start", &c->start},
                              {"cholmod_l_finish", &c->finish},
                              {"cholmod_l_analyze", &c->analyze},
                              {"cholmod_l_factorize", &c->factorize},
                              {"cholmod_l_solve", &c->solve},
                              {"cholmod_l_free_factor", &c->free_factor},
                              {"cholmod_l_free_dense", &c->free_dense},
                              {NULL, NULL}};
    return bind_all(F->library, symbols, err);
}

/* Are the first fields where they are expected, with the defaults that they are documented with? */
static bool is_as_documented(const common_head *h)
{
    return h->dbound == 0 && h->grow0 == 1.2 && h->grow1 == 1.2 && h->grow2 == 5 &&
           h->maxrank == 8 && h->supernodal_switch == 40 && h->supernodal == 1 &&
           h->final_asis == 1 && h->final_super == 1 && h->final_ll == 0 && h->final_pack == 1 &&
           h->final_monotonic == 1 && h->final_resymbol == 0 && h->zrelax[0] == 0.8 &&
           h->zrelax[1] == 0.1 && h->zrelax[2] == 0.05 && h->nrelax[0] == 4 && h->nrelax[1] == 16 &&
           h->nrelax[2] == 48 && h->prefer_zomplex == 0 && h->prefer_upper == 1 &&
           h->quick_return_if_not_posdef == 0 && h->prefer_binary == 0 && h->print == 3 &&
           h->precise == 0 && h->try_catch == 0;
}

/* A workspace that says nothing and leaves at the first pivot that is not positive. */
static gx_code start(cholmod *c, gx_err *err)
{
    enum { OLDEST = 3, NEWEST = 5 };
    int version[3] = {0, 0, 0};
    c->version(version);
    if (version[0] >= OLDEST && version[0] <= NEWEST) {
        c->is_started = c->start(c->common) != 0;
        if (!c->is_started) {
            return gx_fail(err, GX_NOMEM, "out of memory (CHOLMOD's workspace)");
        }
        common_head head;
        memcpy(&head, c->common, sizeof head);
        if (is_as_documented(&head)) {
            head.quick_return_if_not_posdef = 1;
            head.print = 0;
            head.final_ll = 1; // else a small indefinite matrix would pass as L D L^T
            memcpy(c->common, &head, sizeof head);
            return GX_OK;
        }
    }
    return gx_fail(err, GX_UNSUPPORTED,
                   "CHOLMOD %d.%d.%d is not a version that gx knows (%d to %d)", version[0],
                   version[1], version[2], OLDEST, NEWEST);
}

static double factor_bytes(const factor *L)
{
    if (L->is_super) {
        return 8 * ((double)L->xsize + (double)L->ssize + (double)L->maxcsize);
    }
    double entries = 0;
    for (size_t j = 0; j < L->n; j++) {
        entries += (double)L->col_count[j];
    }
    return 8 * (1.2 * 2 * entries + 10 * (double)L->n);
}

static gx_code cholmod_make(gx_direct *F, gx_err *err)
{
    const gx_csr_matrix *A = F->A;
    size_t n = (size_t)A->rows;
    void *memory;
    GX_TRY(gx_mem_calloc(F->run->ctx->mem, sizeof(cholmod), "a factorisation", &memory, err));
    cholmod *c = F->state = memory;
    GX_TRY(bind_cholmod(F, c, err));
    GX_TRY(start(c, err));
    // For the analysis, and the permuted triangle of A: some 20 numbers a row and 2 an entry.
    GX_TRY(reserve(F, 8 * (20.0 * (double)A->rows + 2.0 * (double)A->entries), err));
    // Columns of A^T: their upper triangle is A's lower one.
    sparse a = {.rows = n,
                .cols = n,
                .most = (size_t)A->entries,
                .start = A->start,
                .index = F->index,
                .value = A->value,
                .stype = 1,
                .itype = LONG,
                .xtype = REAL,
                .sorted = 1,
                .packed = 1};
    c->factor = c->analyze(&a, c->common);
    if (c->factor == NULL) {
        return gx_fail(err, GX_NOMEM, "out of memory (CHOLMOD's analysis of %s)", A->label);
    }
    GX_TRY(gx_run_poll(F->run));
    GX_TRY(reserve(F, factor_bytes(c->factor), err));
    int is_good = c->factorize(&a, c->factor, c->common);
    if (c->factor->minor < n) {
        return gx_fail(err, GX_NUMERIC, "%s is not positive definite", A->label);
    }
    if (!is_good) {
        return gx_fail(err, GX_NOMEM, "out of memory (CHOLMOD's factor of %s)", A->label);
    }
    return gx_run_poll(F->run);
}

static gx_code cholmod_solve(gx_direct *F, int64_t cols, const double *b, double *x)
{
    cholmod *c = F->state;
    gx_run *run = F->run;
    gx_err err = {0};
    int64_t n = F->A->rows, together = gx_min(cols, TOGETHER);
    size_t bytes = (size_t)(2 * n * together) * sizeof *x; // the solution and its workspace
    if (gx_mem_reserve(run->ctx->mem, bytes, "a sparse solve", &err) != GX_OK) {
        return gx_run_fail(run, &err);
    }
    for (int64_t j = 0; j < cols && gx_ok(run); j += together) {
        size_t count = (size_t)gx_min(together, cols - j), rows = (size_t)n;
        dense right = {
            .rows = rows, .cols = count, .most = rows * count, .ld = rows, .xtype = REAL};
        const double *column = b + j * n;
        memcpy(&right.x, &column, sizeof column); // it is not written to
        dense *solution = c->solve(SOLVE_A, c->factor, &right, c->common);
        if (solution == NULL) {
            gx_run_failf(run, GX_NOMEM, "out of memory (CHOLMOD's solve)");
            break;
        }
        memcpy(x + j * n, solution->x, rows * count * sizeof *x);
        c->free_dense(&solution, c->common);
        gx_run_poll(run);
    }
    gx_mem_return(run->ctx->mem, bytes);
    return gx_ok(run) ? GX_OK : run->err.code;
}

static void cholmod_clear(gx_direct *F)
{
    cholmod *c = F->state;
    if (c->factor != NULL) {
        c->free_factor(&c->factor, c->common);
    }
    if (c->is_started) {
        c->finish(c->common);
    }
    gx_mem_free(F->run->ctx->mem, c);
    F->state = NULL;
}

// Any ---------------------------------------------------------------------------------------------

gx_code gx_direct_look(gx_run *run, gx_direct_kind kind, gx_err *err)
{
    void *library;
    GX_TRY(open_library(run, kind, &library, err));
    dlclose(library); // the reference that asking took
    return GX_OK;
}

/* Columns in 64 bits, which SuiteSparse's long variants want. */
static gx_code widen(gx_direct *F, gx_err *err)
{
    GX_TRY(gx_mem_alloc(F->run->ctx->mem, (size_t)F->A->entries * sizeof *F->index,
                        "column numbers", &F->index, err));
    for (int64_t e = 0; e < F->A->entries; e++) {
        F->index[e] = F->A->index[e];
    }
    return GX_OK;
}

gx_code gx_direct_make(gx_run *run, gx_direct_kind kind, const gx_csr_matrix *A, gx_direct *F)
{
    gx_err err = {0};
    *F = (gx_direct){.run = run, .kind = kind, .A = A};
    if (!gx_ok(run)) {
        return run->err.code;
    }
    gx_span span = gx_stats_open(&run->ctx->stats);
    if (open_library(run, kind, &F->library, &err) == GX_OK && widen(F, &err) == GX_OK) {
        kind == GX_DIRECT_CHOLMOD ? cholmod_make(F, &err) : umfpack_make(F, &err);
    }
    gx_stats_close(&run->ctx->stats, GX_STAT_COMPUTE_NS, span);
    return gx_run_fail(run, &err);
}

gx_code gx_direct_solve(gx_direct *F, bool is_transposed, int64_t cols, const void *b, void *x)
{
    if (!gx_ok(F->run)) {
        return F->run->err.code;
    }
    gx_span span = gx_stats_open(&F->run->ctx->stats);
    gx_code code = F->kind == GX_DIRECT_CHOLMOD ? cholmod_solve(F, cols, b, x)
                                                : umfpack_solve(F, is_transposed, cols, b, x);
    gx_stats_close(&F->run->ctx->stats, GX_STAT_COMPUTE_NS, span);
    return code;
}

void gx_direct_clear(gx_direct *F)
{
    if (F->run == NULL) {
        return;
    }
    if (F->state != NULL) {
        F->kind == GX_DIRECT_CHOLMOD ? cholmod_clear(F) : umfpack_clear(F);
    }
    gx_mem_free(F->run->ctx->mem, F->index);
    gx_mem_return(F->run->ctx->mem, F->reserved);
    if (F->library != NULL) {
        dlclose(F->library);
    }
    *F = (gx_direct){.run = NULL};
}
