/*
** Cholesky of a sparse matrix by CHOLMOD (Chen, Davis, Hager and Rajamanickam 2008): see direct.h.
**
** CHOLMOD's functions take a workspace, cholmod_common, of a few kilobytes, whose layout is its
** version's.  It is allocated here far larger than any version has it, and of its fields only the
** first, documented since version 1.7, are touched: before they are, each must have its documented
** default at its place, as cholmod_l_start() has just set it.  A version that puts them elsewhere
** is therefore seen, and left alone in words.  The small structures of matrices and factors have
** been the same from version 2 to 5; the number is asked.
**
** Memory is counted by what the analysis gives: the supernodes' sizes, or the columns' counts.
*/
#include "direct_int.h"

#include <string.h>

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

static gx_code bind(gx_direct *F, cholmod *c, gx_err *err)
{
    const gx_direct_symbol symbols[] = {{"cholmod_l_version", &c->version},
                                        {"cholmod_l_start", &c->start},
                                        {"cholmod_l_finish", &c->finish},
                                        {"cholmod_l_analyze", &c->analyze},
                                        {"cholmod_l_factorize", &c->factorize},
                                        {"cholmod_l_solve", &c->solve},
                                        {"cholmod_l_free_factor", &c->free_factor},
                                        {"cholmod_l_free_dense", &c->free_dense},
                                        {NULL, NULL}};
    return gx_direct_bind(F->library, symbols, err);
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

gx_code gx_cholmod_make(gx_direct *F, gx_err *err)
{
    const gx_whole *A = F->A;
    size_t n = (size_t)A->rows;
    void *memory;
    GX_TRY(gx_mem_calloc(F->run->ctx->mem, sizeof(cholmod), "a factorisation", &memory, err));
    cholmod *c = F->state = memory;
    GX_TRY(bind(F, c, err));
    GX_TRY(start(c, err));
    // For the analysis, and the permuted triangle of A: some 20 numbers a row and 2 an entry.
    GX_TRY(gx_direct_reserve(F, 8 * (20.0 * (double)A->rows + 2.0 * (double)A->entries), err));
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
    GX_TRY(gx_direct_reserve(F, factor_bytes(c->factor), err));
    int is_good = c->factorize(&a, c->factor, c->common);
    if (c->factor->minor < n) {
        return gx_fail(err, GX_NUMERIC, "%s is not positive definite", A->label);
    }
    if (!is_good) {
        return gx_fail(err, GX_NOMEM, "out of memory (CHOLMOD's factor of %s)", A->label);
    }
    return gx_run_poll(F->run);
}

gx_code gx_cholmod_solve(gx_direct *F, int64_t cols, const double *b, double *x)
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

void gx_cholmod_clear(gx_direct *F)
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
