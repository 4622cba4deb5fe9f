/*
** LU, QR and other decompositions in SQL.
**
**   gx_lu(A, F)                            stores the factorisation, as one matrix with its pivots
**   gx_lu(A, '{"l":"L","u":"U","p":"P"}')  stores its parts under names, with or without F
**   gx_qr(A, F), gx_qr(A, '{"q":"Q","r":"R"}')   the same; tau stands in the place of pivots
**   gx_part(F, part[, destination])        a part of a stored factorisation
**   SELECT part, value FROM gx_lu(A)       rows P, L, U: the parts as matrix values
**   SELECT part, value FROM gx_qr(A)       rows Q, R
**   gx_qr(A, '{"pivot":true,"q":"Q",...}') with columns exchanged: a part p more
**   gx_schur, gx_hessenberg, gx_polar, gx_ldl (A, '{"t":"T",...}'), and as such tables
**   gx_orth(A[, destination][, options])   a basis of the range
**
** Several results are stored in one savepoint: all or none (outputs.c).
*/
#include "table_fn.h"

#include "../core/alg/alg_lu.h"
#include "../core/alg/alg_qr.h"
#include "../core/alg/dense.h"
#include "../core/spectra/decomp.h"

#include <stdio.h>
#include <string.h>

// Parts -------------------------------------------------------------------------------------------

/* In this order gx_part() tells them: of LU, then of QR. */
typedef enum part { LOWER, UPPER, MATRIX, VECTOR, PART_Q, PART_R, PARTS } part;

static const struct {
    const char *name; /* 'L': case counts */
    gx_aux_kind kind; /* of the factorisation */
    uint32_t properties;
} parts[] = {
    [LOWER] = {"L", GX_AUX_LU, GX_PROP_LOWER | GX_PROP_UNIT},
    [UPPER] = {"U", GX_AUX_LU, GX_PROP_UPPER},
    [MATRIX] = {"P", GX_AUX_LU, GX_PROP_ORTHOGONAL},
    [VECTOR] = {"p", GX_AUX_LU, 0},                  /* the order of the rows, as a column */
    [PART_Q] = {"Q", GX_AUX_QR, GX_PROP_ORTHOGONAL}, /* economy: m x k */
    [PART_R] = {"R", GX_AUX_QR, GX_PROP_UPPER},
};

/* Row i of P has its one in column order[i]. */
static void generate_permutation(const void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n,
                                 gx_number dtype, void *dst, int64_t ld)
{
    const int64_t *order = arg;
    size_t element = gx_number_bytes(dtype);
    for (int64_t j = 0; j < n; j++) {
        memset(gx_at(dst, dtype, ld, 0, j), 0, (size_t)m * element);
    }
    for (int64_t i = 0; i < m; i++) {
        int64_t j = order[i0 + i] - j0;
        if (j >= 0 && j < n) {
            gx_number_put(dtype, dst, j * ld + i, GX_ONE);
        }
    }
}

/* The order of the rows, as a matrix or as a column of indexes. */
static void put_permutation(gx_run *run, const gx_aux *aux, bool is_vector, gx_sink *C)
{
    void *memory = gx_run_alloc(run, (size_t)aux->rows * sizeof(int64_t), "the order of rows");
    gx_mat P;
    if (memory == NULL) {
        return;
    }
    int64_t *order = memory;
    gx_lu_order(aux, order);
    if (is_vector) {
        double *numbers = memory; // of the same size: one after the other
        for (int64_t i = 0; i < aux->rows; i++) {
            double number = (double)order[i];
            memcpy(&numbers[i], &number, sizeof number);
        }
        gx_mat_value(&P, "P", GX_F64, aux->rows, 1, memory, gx_max(1, aux->rows));
    } else {
        gx_mat_generated(&P, "P", aux->dtype, aux->rows, aux->rows, generate_permutation, memory);
    }
    gx_copy_to_sink(run, &P, C);
    gx_mem_free(run->ctx->mem, memory);
}

/* Begin its sink, compute it; the caller ends the sink. */
static void make_part(gx_run *run, part which, const gx_mat *F, const gx_aux *aux,
                      const gx_dest *dest, gx_sink *C)
{
    bool is_wide = which == UPPER || which == PART_R, is_tall = which == LOWER || which == PART_Q;
    int64_t rows = is_wide ? aux->count : aux->rows, tile_rows = 0, tile_cols = 0;
    int64_t cols = is_wide ? aux->cols : is_tall ? aux->count : which == MATRIX ? aux->rows : 1;
    if (which == LOWER || which == UPPER) {
        gx_lu_part_tiles(run, aux, rows, cols, &tile_rows, &tile_cols);
    } else if (which == PART_Q) {
        gx_plan_q_tiles(run, F->rows, F->cols, cols, aux->dtype, &tile_rows, &tile_cols);
    }
    gx_sink_begin(run, dest, rows, cols, which == VECTOR ? GX_F64 : aux->dtype,
                  parts[which].properties, tile_rows, tile_cols, C);
    if (which == MATRIX || which == VECTOR) {
        put_permutation(run, aux, which == VECTOR, C);
    } else if (parts[which].kind == GX_AUX_LU) {
        gx_alg_lu_part(run, F, aux, which == LOWER ? GX_LU_LOWER : GX_LU_UPPER, C);
    } else {
        gx_alg_qr_parts_of(run, F, aux->tau, which == PART_Q ? C : NULL,
                           which == PART_R ? C : NULL);
    }
}

// gx_part -----------------------------------------------------------------------------------------

/* gx_part(F, part[, destination][, options]) */
static void get_part(gx_fn *fn)
{
    gx_mat F;
    gx_aux aux;
    gx_sink C;
    const char *name;
    char list[64] = "", shown[GX_SHOWN_BYTES];
    size_t n = 0;
    if (!gx_fn_options(fn, NULL, NULL) || !gx_fn_factor(fn, 0, "F", GX_AUX_ANY, &F, &aux) ||
        !gx_fn_text(fn, 1, "part", &name)) {
        return;
    }
    if (aux.kind == GX_AUX_NONE) {
        gx_fn_fail(fn,
                   "%s is not a stored factorisation: gx_lu(A, 'F') and gx_qr(A, 'F') make them",
                   F.label);
        return;
    }
    for (part p = LOWER; p < PARTS; p++) {
        if (parts[p].kind == aux.kind && strcmp(parts[p].name, name) == 0) {
            make_part(&fn->run, p, &F, &aux, &fn->dest, &C);
            gx_fn_result_sink(fn, &C);
            return;
        }
        if (parts[p].kind == aux.kind) {
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n == 0 ? "" : ", ",
                                  parts[p].name);
        }
    }
    gx_fn_fail(fn, "part is '%s' but must be one of %s", gx_text_show(name, strlen(name), shown),
               list);
}

// gx_lu -------------------------------------------------------------------------------------------

/* The parts in the order in which they are stored and shown. */
enum { LU_PARTS = 3 };
static const part lu_parts[LU_PARTS] = {MATRIX, LOWER, UPPER};

typedef struct lu_options {
    const char *name[LU_PARTS];
    int is_vector;
} lu_options;

#define PERMUTATION_KEY                                                                            \
    {                                                                                              \
        "permutation=matrix|vector", GX_OPT_WORD, offsetof(lu_options, is_vector), 0               \
    }

static const gx_option lu_keys[] = {
    {"l", GX_OPT_NAME, offsetof(lu_options, name[1]), 0},
    {"u", GX_OPT_NAME, offsetof(lu_options, name[2]), 0},
    {"p", GX_OPT_NAME, offsetof(lu_options, name[0]), 0},
    PERMUTATION_KEY,
    {NULL, GX_OPT_END, 0, 0},
};

static const gx_option lu_table_keys[] = {PERMUTATION_KEY, {NULL, GX_OPT_END, 0, 0}};

static part lu_part(const lu_options *opt, int p)
{
    return p == 0 && opt->is_vector ? VECTOR : lu_parts[p];
}

/* A = P^T L U into a stored factorisation: F becomes the source of what was stored. */
static void factor_stored(gx_fn *fn, const gx_mat *A, gx_aux *aux, gx_mat *F)
{
    gx_run *run = &fn->run;
    gx_lu_plan plan;
    gx_sink sink;
    gx_plan_lu(run, A->rows, A->cols, A->number, &plan);
    gx_sink_begin(run, &fn->dest, A->rows, A->cols, A->number, GX_PROP_LU, plan.tile_rows,
                  plan.tile_cols, &sink);
    if (gx_ok(run)) {
        gx_fn_check(fn, gx_aux_create(fn->ctx->mem, GX_AUX_LU, A->rows, A->cols, A->number,
                                      plan.panel, aux, &fn->err));
    }
    gx_sink_aux(&sink, aux);
    gx_alg_lu(run, A, &sink, aux);
    if (gx_sink_end(&sink) == GX_OK) {
        gx_mat_stored(F, &sink.meta);
    }
}

/* gx_lu(A[, destination][, options]): the name of the first result */
static void lu(gx_fn *fn)
{
    lu_options opt = {.name = {NULL}};
    gx_dest dest[LU_PARTS];
    gx_mat A, F;
    if (!gx_fn_options(fn, lu_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A)) {
        return;
    }
    const char *first = fn->dest.name;
    for (int p = 0; p < LU_PARTS; p++) {
        dest[p] = (gx_dest){.name = opt.name[p], .replace = fn->dest.replace};
        first = first == NULL ? opt.name[p] : first;
    }
    if (first == NULL) {
        gx_fn_fail(fn, "the factorisation needs a destination, as in gx_lu(A, 'F'); "
                       "as a table, gx_lu(A) has its parts as values");
        return;
    }
    gx_outputs out;
    gx_aux aux = {.kind = GX_AUX_NONE};
    gx_sink scratch = {.run = NULL};
    const gx_dest *const all[] = {&fn->dest, &dest[0], &dest[1], &dest[2]};
    if (gx_outputs_begin(&out, fn, all, LU_PARTS + 1)) {
        if (fn->dest.name != NULL) {
            factor_stored(fn, &A, &aux, &F);
        } else if (gx_alg_lu_scratch(&fn->run, &A, A.number, &scratch, &aux) == GX_OK) {
            gx_sink_source(&scratch, A.label, &F);
        }
        for (int p = 0; p < LU_PARTS && gx_ok(&fn->run); p++) {
            gx_sink sink;
            if (dest[p].name != NULL) {
                make_part(&fn->run, lu_part(&opt, p), &F, &aux, &dest[p], &sink);
                gx_sink_end(&sink);
            }
        }
    }
    gx_sink_drop(&scratch);
    gx_aux_clear(&aux, fn->ctx->mem);
    gx_outputs_close(&out);
    if (gx_ok(&fn->run)) {
        sqlite3_result_text(fn->sql, first, -1, SQLITE_TRANSIENT);
    }
}

// Decompositions in memory ------------------------------------------------------------------------

typedef struct decomp_options {
    const char *name[GX_DECOMP_PARTS];
    bool replace;
    int output, sort, is_left;
} decomp_options;

enum { OUTPUT_AUTO, OUTPUT_REAL, OUTPUT_COMPLEX };

#define DECOMP(field) offsetof(decomp_options, field)
#define DECOMP_REPLACE                                                                             \
    {                                                                                              \
        "replace", GX_OPT_BOOL, DECOMP(replace), 0                                                 \
    }
#define DECOMP_END                                                                                 \
    {                                                                                              \
        NULL, GX_OPT_END, 0, 0                                                                     \
    }

/* What the scalar function takes; the table, what stands behind "replace". */
static const gx_option schur_keys[] = {{"t", GX_OPT_NAME, DECOMP(name[0]), 0},
                                       {"z", GX_OPT_NAME, DECOMP(name[1]), 0},
                                       DECOMP_REPLACE,
                                       {"output=auto|real|complex", GX_OPT_WORD, DECOMP(output), 0},
                                       {"sort=none|lhp|rhp|iuc|ouc", GX_OPT_WORD, DECOMP(sort), 0},
                                       DECOMP_END};
static const gx_option hessenberg_keys[] = {{"h", GX_OPT_NAME, DECOMP(name[0]), 0},
                                            {"q", GX_OPT_NAME, DECOMP(name[1]), 0},
                                            DECOMP_REPLACE,
                                            DECOMP_END};
static const gx_option polar_keys[] = {{"u", GX_OPT_NAME, DECOMP(name[0]), 0},
                                       {"p", GX_OPT_NAME, DECOMP(name[1]), 0},
                                       DECOMP_REPLACE,
                                       {"side=right|left", GX_OPT_WORD, DECOMP(is_left), 0},
                                       DECOMP_END};
static const gx_option ldl_keys[] = {{"l", GX_OPT_NAME, DECOMP(name[0]), 0},
                                     {"d", GX_OPT_NAME, DECOMP(name[1]), 0},
                                     {"p", GX_OPT_NAME, DECOMP(name[2]), 0},
                                     DECOMP_REPLACE,
                                     DECOMP_END};
static const gx_option qz_keys[] = {{"s", GX_OPT_NAME, DECOMP(name[0]), 0},
                                    {"t", GX_OPT_NAME, DECOMP(name[1]), 0},
                                    {"q", GX_OPT_NAME, DECOMP(name[2]), 0},
                                    {"z", GX_OPT_NAME, DECOMP(name[3]), 0},
                                    DECOMP_REPLACE,
                                    {"output=auto|real|complex", GX_OPT_WORD, DECOMP(output), 0},
                                    {"sort=none|lhp|rhp|iuc|ouc", GX_OPT_WORD, DECOMP(sort), 0},
                                    DECOMP_END};
static const gx_option *const decomp_keys[] = {[GX_DECOMP_QZ] = qz_keys,
                                               [GX_DECOMP_SCHUR] = schur_keys,
                                               [GX_DECOMP_HESSENBERG] = hessenberg_keys,
                                               [GX_DECOMP_POLAR] = polar_keys,
                                               [GX_DECOMP_LDL] = ldl_keys};

/* Options and A of a call, and QZ's B: what is computed. */
static bool take_decomp(gx_fn *fn, bool is_table, decomp_options *opt, gx_mat pair[2],
                        gx_decomp_args *args)
{
    gx_mat *A = &pair[0];
    gx_decomp_kind kind = (gx_decomp_kind)fn->def->variant;
    const gx_option *keys = decomp_keys[kind];
    while (is_table && keys->offset != DECOMP(replace)) {
        keys++;
    }
    if (!gx_fn_options(fn, keys + is_table, opt) || !gx_fn_matrix(fn, 0, "A", A) ||
        (kind == GX_DECOMP_QZ && !gx_fn_matrix(fn, 1, "B", &pair[1]))) {
        return false;
    }
    gx_number number = kind == GX_DECOMP_QZ ? gx_number_promote(A->number, pair[1].number)
                                            : A->number;
    bool is_complex = gx_number_is_complex(number);
    if (opt->output == OUTPUT_REAL && is_complex) {
        return gx_fn_fail(fn,
                          "%s is complex, and its Schur form with it: \"output\" cannot be "
                          "\"real\"",
                          A->label);
    }
    *args = (gx_decomp_args){
        .A = A,
        .B = &pair[1],
        .kind = kind,
        .number = opt->output == OUTPUT_COMPLEX ? gx_number_promote(number, GX_C64) : number,
        .sort = (gx_sort)opt->sort,
        .is_left = opt->is_left};
    return true;
}

/* All parts that have a name; the call's result is the first one. */
static void store_parts(gx_fn *fn, const gx_decomp_args *args, const char *const *name,
                        bool replace)
{
    gx_decomp found = {.mem = NULL};
    gx_dest dest[GX_DECOMP_PARTS];
    const gx_dest *all[GX_DECOMP_PARTS];
    const char *first = NULL;
    gx_outputs out;
    for (int k = 0; k < GX_DECOMP_PARTS; k++) {
        dest[k] = (gx_dest){.name = name[k], .replace = replace};
        all[k] = &dest[k];
        first = first == NULL ? name[k] : first;
    }
    if (first == NULL) {
        gx_fn_fail(fn, "no part has a name to be stored under; the table %s(A) has them as values",
                   fn->def->name);
        return;
    }
    if (gx_outputs_begin(&out, fn, all, GX_DECOMP_PARTS)) {
        gx_alg_decompose(&fn->run, args, &found);
    }
    for (int k = 0; k < GX_DECOMP_PARTS; k++) {
        const struct gx_decomp_part *p = &found.part[k];
        gx_outputs_store(&out, &dest[k], p->properties, p->number, p->rows, p->cols, p->data,
                         gx_max(1, p->rows));
    }
    gx_outputs_close(&out);
    gx_decomp_clear(&found);
    if (gx_ok(&fn->run)) {
        sqlite3_result_text(fn->sql, first, -1, SQLITE_TRANSIENT);
    }
}

/* gx_schur and its like (A, options) */
static void decompose(gx_fn *fn)
{
    decomp_options opt = {.name = {NULL}};
    gx_mat pair[2];
    gx_decomp_args args;
    if (take_decomp(fn, false, &opt, pair, &args)) {
        store_parts(fn, &args, opt.name, opt.replace);
    }
}

typedef struct orth_options {
    double rcond;
    bool has_rcond;
} orth_options;

static const gx_option orth_keys[] = {
    {"rcond=[0,1)", GX_OPT_REAL, offsetof(orth_options, rcond), offsetof(orth_options, has_rcond)},
    DECOMP_END};

/* gx_orth(A[, destination][, options]) */
static void orth(gx_fn *fn)
{
    orth_options opt = {0};
    gx_mat A;
    gx_decomp found = {.mem = NULL};
    gx_outputs out;
    const gx_dest *all[] = {&fn->dest};
    if (!gx_fn_options(fn, orth_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A)) {
        return;
    }
    gx_decomp_args args = {.A = &A, .kind = GX_DECOMP_ORTH, .number = A.number};
    args.rcond = opt.has_rcond ? opt.rcond : -1;
    if (gx_outputs_begin(&out, fn, all, 1)) {
        gx_alg_decompose(&fn->run, &args, &found);
    }
    const struct gx_decomp_part *q = &found.part[0];
    gx_outputs_finish(&out, &fn->dest, q->properties, q->number, q->rows, q->cols, q->data,
                      gx_max(1, q->rows));
    gx_decomp_clear(&found);
}

// gx_qr -------------------------------------------------------------------------------------------

typedef struct qr_options {
    const char *q, *r, *p; // in the order of a decomposition's parts
    int is_full;
    bool is_pivoted;
} qr_options;

#define MODE_KEY                                                                                   \
    {"mode=economy|full", GX_OPT_WORD, offsetof(qr_options, is_full), 0},                          \
    {                                                                                              \
        "pivot", GX_OPT_BOOL, offsetof(qr_options, is_pivoted), 0                                  \
    }

static const gx_option qr_keys[] = {{"q", GX_OPT_NAME, offsetof(qr_options, q), 0},
                                    {"r", GX_OPT_NAME, offsetof(qr_options, r), 0},
                                    {"p", GX_OPT_NAME, offsetof(qr_options, p), 0},
                                    MODE_KEY,
                                    {NULL, GX_OPT_END, 0, 0}};

static const gx_option qr_table_keys[] = {MODE_KEY, {NULL, GX_OPT_END, 0, 0}};

/* What the options say, before anything is looked at. */
static bool check_qr_options(gx_fn *fn, const qr_options *opt)
{
    bool has_parts = opt->q != NULL || opt->r != NULL;
    if (opt->p != NULL && !opt->is_pivoted) {
        return gx_fn_fail(fn, "\"p\" is the order of the columns of a QR with \"pivot\":true");
    }
    if (opt->is_pivoted && fn->dest.name != NULL) {
        return gx_fn_fail(fn, "a QR with \"pivot\" is stored as its parts \"q\", \"r\" and "
                              "\"p\", without a destination");
    }
    if (opt->is_pivoted) {
        return true;
    }
    if (fn->dest.name == NULL && !has_parts) {
        return gx_fn_fail(fn,
                          "give a destination for the factorisation, or \"q\" and \"r\" for its "
                          "parts; the table gx_qr(A) has them as values");
    }
    if (fn->dest.name != NULL && has_parts) {
        return gx_fn_fail(fn, "a destination takes the packed factorisation: \"q\" and \"r\" go "
                              "without one");
    }
    if (fn->dest.name != NULL && opt->is_full) {
        return gx_fn_fail(fn, "\"mode\" is of the parts: a packed factorisation has both");
    }
    if (opt->q != NULL && opt->r != NULL && strcmp(opt->q, opt->r) == 0) {
        return gx_fn_fail(fn, "\"q\" and \"r\" are both '%s'", opt->q);
    }
    return true;
}

static gx_decomp_args pivoted_args(const gx_mat *A, const qr_options *opt)
{
    return (gx_decomp_args){
        .A = A, .kind = GX_DECOMP_PIVOTED_QR, .number = A->number, .is_full = opt->is_full != 0};
}

/* The packed factorisation with its tau. */
static void store_packed(gx_fn *fn, const gx_mat *A)
{
    int64_t tile_rows, tile_cols, k = gx_min(A->rows, A->cols);
    gx_aux aux;
    gx_sink F;
    gx_plan_panel_tiles(&fn->run, A->rows, A->cols, k, A->number, &tile_rows, &tile_cols);
    if (!gx_fn_check(fn, gx_aux_create(fn->ctx->mem, GX_AUX_QR, A->rows, A->cols, A->number,
                                       tile_cols, &aux, &fn->err)) ||
        !gx_fn_own(fn, aux.blob)) {
        return;
    }
    gx_sink_begin(&fn->run, &fn->dest, A->rows, A->cols, A->number, GX_PROP_QR, tile_rows,
                  tile_cols, &F);
    gx_sink_aux(&F, &aux);
    gx_alg_qr(&fn->run, A, &F, aux.tau);
    gx_fn_result_sink(fn, &F);
}

/* Both parts, or the one whose destination is not NULL; the caller ends their sinks, R's first. */
static void make_qr(gx_run *run, const gx_mat *A, const gx_aux *aux, bool is_full,
                    const gx_dest *const dest[2], gx_sink sink[2])
{
    int64_t inner = is_full ? A->rows : gx_min(A->rows, A->cols), tile_rows, tile_cols;
    gx_sink *Q = dest[0] == NULL ? NULL : &sink[0], *R = dest[1] == NULL ? NULL : &sink[1];
    if (Q != NULL) {
        gx_plan_q_tiles(run, A->rows, A->cols, inner, A->number, &tile_rows, &tile_cols);
        gx_sink_begin(run, dest[0], A->rows, inner, A->number, GX_PROP_ORTHOGONAL, tile_rows,
                      tile_cols, Q);
    }
    if (R != NULL) {
        gx_sink_begin(run, dest[1], inner, A->cols, A->number, GX_PROP_UPPER, 0, 0, R);
    }
    if (aux->kind == GX_AUX_QR) {
        gx_alg_qr_parts_of(run, A, aux->tau, Q, R);
    } else {
        gx_alg_qr_parts(run, A, Q, R);
    }
}

/* gx_qr(A[, destination][, options]): the name of the first result */
static void qr(gx_fn *fn)
{
    qr_options opt = {0};
    gx_mat A;
    gx_aux aux;
    if (!gx_fn_options(fn, qr_keys, &opt) || !check_qr_options(fn, &opt) ||
        !gx_fn_factor(fn, 0, "A",
                      fn->dest.name == NULL && !opt.is_pivoted ? GX_AUX_QR : GX_AUX_NONE, &A,
                      &aux)) {
        return;
    }
    if (opt.is_pivoted) {
        const char *const names[GX_DECOMP_PARTS] = {opt.q, opt.r, opt.p};
        gx_decomp_args args = pivoted_args(&A, &opt);
        store_parts(fn, &args, names, fn->dest.replace);
        return;
    }
    if (fn->dest.name != NULL) {
        store_packed(fn, &A);
        return;
    }
    // Either both are stored or none: R's savepoint is inside Q's.
    const gx_dest dest[2] = {{.name = opt.q, .replace = fn->dest.replace},
                             {.name = opt.r, .replace = fn->dest.replace}};
    const gx_dest *const wanted[2] = {opt.q == NULL ? NULL : &dest[0],
                                      opt.r == NULL ? NULL : &dest[1]};
    gx_sink sink[2];
    make_qr(&fn->run, &A, &aux, opt.is_full, wanted, sink);
    for (int p = 1; p >= 0; p--) {
        if (wanted[p] != NULL) {
            gx_sink_end(&sink[p]);
        }
    }
    if (gx_ok(&fn->run)) {
        sqlite3_result_text(fn->sql, opt.q != NULL ? opt.q : opt.r, -1, SQLITE_TRANSIENT);
    }
}

// The tables --------------------------------------------------------------------------------------

enum { COL_PART, COL_VALUE, COLUMNS };

typedef struct part_rows {
    const char *const *names;
    gx_kept value[GX_DECOMP_PARTS];
} part_rows;

static bool begin_lu(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    static const char *const names[] = {"P", "L", "U"};
    part_rows *s = state;
    lu_options opt = {.name = {NULL}};
    gx_mat A, F;
    gx_aux aux;
    gx_sink scratch;
    if (!gx_fn_options(fn, lu_table_keys, &opt) || !gx_fn_matrix(fn, 0, "A", &A)) {
        return false;
    }
    s->names = names;
    *rows = LU_PARTS;
    if ((used & 1 << COL_VALUE) == 0) {
        return true;
    }
    if (gx_alg_lu_scratch(&fn->run, &A, A.number, &scratch, &aux) == GX_OK) {
        gx_sink_source(&scratch, A.label, &F);
    }
    for (int p = 0; p < LU_PARTS && gx_ok(&fn->run); p++) {
        gx_sink sink;
        make_part(&fn->run, lu_part(&opt, p), &F, &aux, NULL, &sink);
        gx_keep(fn, &sink, &s->value[p]);
    }
    gx_sink_drop(&scratch);
    gx_aux_clear(&aux, fn->ctx->mem);
    return gx_ok(&fn->run);
}

/* The parts of a decomposition in memory as rows. */
static bool keep_parts(gx_fn *fn, uint32_t used, const gx_decomp_args *args, part_rows *s,
                       int64_t *rows)
{
    gx_decomp found = {.mem = NULL};
    s->names = gx_decomp_names[args->kind];
    *rows = 0;
    while (*rows < GX_DECOMP_PARTS && s->names[*rows] != NULL) {
        ++*rows;
    }
    if ((used & 1 << COL_VALUE) != 0) {
        gx_alg_decompose(&fn->run, args, &found);
    }
    for (int k = 0; k < *rows && gx_ok(&fn->run) && found.mem != NULL; k++) {
        const struct gx_decomp_part *p = &found.part[k];
        gx_sink sink;
        gx_sink_begin(&fn->run, NULL, p->rows, p->cols, p->number, 0, 0, 0, &sink);
        gx_dense_write(&fn->run, &sink, p->data, gx_max(1, p->rows));
        gx_keep(fn, &sink, &s->value[k]);
    }
    gx_decomp_clear(&found);
    return gx_ok(&fn->run);
}

static bool begin_decomp(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    decomp_options opt = {.name = {NULL}};
    gx_mat pair[2];
    gx_decomp_args args;
    return take_decomp(fn, true, &opt, pair, &args) && keep_parts(fn, used, &args, state, rows);
}

static bool begin_qr(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    static const char *const names[] = {"Q", "R"};
    const gx_dest value = {.name = NULL}, *const dest[2] = {&value, &value};
    part_rows *s = state;
    qr_options opt = {0};
    gx_mat A;
    gx_aux aux;
    gx_sink sink[2];
    if (!gx_fn_options(fn, qr_table_keys, &opt) ||
        !gx_fn_factor(fn, 0, "A", opt.is_pivoted ? GX_AUX_NONE : GX_AUX_QR, &A, &aux)) {
        return false;
    }
    if (opt.is_pivoted) {
        gx_decomp_args args = pivoted_args(&A, &opt);
        return keep_parts(fn, used, &args, s, rows);
    }
    s->names = names;
    *rows = 2;
    if ((used & 1 << COL_VALUE) != 0) {
        make_qr(&fn->run, &A, &aux, opt.is_full, dest, sink);
        gx_keep(fn, &sink[0], &s->value[0]); // both are ended
        gx_keep(fn, &sink[1], &s->value[1]);
    }
    return gx_ok(&fn->run);
}

static gx_cell part_cell(void *state, gx_ctx *ctx, int64_t row, int column)
{
    const part_rows *s = state;
    (void)ctx;
    return column == COL_PART ? gx_cell_text(s->names[row], -1) : gx_kept_cell(&s->value[row]);
}

static void clear_parts(void *state)
{
    for (int p = 0; p < GX_DECOMP_PARTS; p++) {
        gx_kept_clear(&((part_rows *)state)->value[p]);
    }
}

#define PART_TABLE(name, start, variant)                                                           \
    {                                                                                              \
        .def = {name, 1, 2, 0, NULL, variant},                                                     \
        .shape = "CREATE TABLE x(part TEXT, value BLOB, a HIDDEN, options HIDDEN)",                \
        .columns = COLUMNS, .state_bytes = sizeof(part_rows), .begin = (start), .cell = part_cell, \
        .clear = clear_parts,                                                                      \
    }

const gx_table_fn gx_table_lu = PART_TABLE("gx_lu", begin_lu, 0);
const gx_table_fn gx_table_qr = PART_TABLE("gx_qr", begin_qr, 0);
const gx_table_fn gx_table_schur = PART_TABLE("gx_schur", begin_decomp, GX_DECOMP_SCHUR);
const gx_table_fn gx_table_hessenberg =
    PART_TABLE("gx_hessenberg", begin_decomp, GX_DECOMP_HESSENBERG);
const gx_table_fn gx_table_polar = PART_TABLE("gx_polar", begin_decomp, GX_DECOMP_POLAR);
const gx_table_fn gx_table_qz = {
    .def = {"gx_qz", 2, 3, 0, NULL, GX_DECOMP_QZ},
    .shape = "CREATE TABLE x(part TEXT, value BLOB, a HIDDEN, b HIDDEN, options HIDDEN)",
    .columns = COLUMNS,
    .state_bytes = sizeof(part_rows),
    .begin = begin_decomp,
    .cell = part_cell,
    .clear = clear_parts,
};
const gx_table_fn gx_table_ldl = PART_TABLE("gx_ldl", begin_decomp, GX_DECOMP_LDL);

const gx_function gx_functions_factor[] = {
    {"gx_lu", 1, 3, GX_MADE(1), lu, 0},
    {"gx_qr", 1, 3, GX_MADE(1), qr, 0},
    {"gx_schur", 1, 2, 0, decompose, GX_DECOMP_SCHUR},
    {"gx_hessenberg", 1, 2, 0, decompose, GX_DECOMP_HESSENBERG},
    {"gx_polar", 1, 2, 0, decompose, GX_DECOMP_POLAR},
    {"gx_ldl", 1, 2, 0, decompose, GX_DECOMP_LDL},
    {"gx_qz", 2, 3, 0, decompose, GX_DECOMP_QZ},
    {"gx_orth", 1, 3, GX_MADE(1), orth, 0},
    {"gx_part", 2, 4, GX_MADE(2), get_part, 0},
    {.name = NULL},
};
