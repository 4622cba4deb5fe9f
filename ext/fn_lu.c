/*
** LU in SQL.
**
**   gx_lu(A, F)                            stores the factorisation, as one matrix with its pivots
**   gx_lu(A, '{"l":"L","u":"U","p":"P"}')  stores its parts under names, with or without F
**   SELECT part, value FROM gx_lu(A)       rows P, L, U: the parts as matrix values
**
** Several results are stored in one savepoint: all or none (outputs.h).
*/
#include "outputs.h"
#include "parts.h"
#include "table_fn.h"

#include "../core/alg/alg_lu.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

// Parts -------------------------------------------------------------------------------------------

static void shape_lower(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_part_shape *out)
{
    (void)F;
    *out = (gx_part_shape){.rows = aux->rows,
                           .cols = aux->count,
                           .dtype = aux->dtype,
                           .properties = GX_PROP_LOWER | GX_PROP_UNIT};
    gx_lu_part_tiles(run, aux, out->rows, out->cols, &out->tile_rows, &out->tile_cols);
}

static void shape_upper(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_part_shape *out)
{
    (void)F;
    *out = (gx_part_shape){
        .rows = aux->count, .cols = aux->cols, .dtype = aux->dtype, .properties = GX_PROP_UPPER};
    gx_lu_part_tiles(run, aux, out->rows, out->cols, &out->tile_rows, &out->tile_cols);
}

static void shape_matrix(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_part_shape *out)
{
    (void)run;
    (void)F;
    *out = (gx_part_shape){.rows = aux->rows,
                           .cols = aux->rows,
                           .dtype = aux->dtype,
                           .properties = GX_PROP_ORTHOGONAL};
}

static void shape_vector(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_part_shape *out)
{
    (void)run;
    (void)F;
    *out = (gx_part_shape){.rows = aux->rows, .cols = 1, .dtype = GX_F64};
}

static gx_code compute_lower(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_sink *C)
{
    return gx_alg_lu_part(run, F, aux, GX_LU_LOWER, C);
}

static gx_code compute_upper(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_sink *C)
{
    return gx_alg_lu_part(run, F, aux, GX_LU_UPPER, C);
}

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
static gx_code put_permutation(gx_run *run, const gx_aux *aux, bool is_vector, gx_sink *C)
{
    gx_err err = {0};
    void *memory = NULL;
    gx_mat P;
    if (!gx_ok(run)) {
        return run->err.code;
    }
    if (gx_mem_alloc(run->ctx->mem, (size_t)aux->rows * sizeof(int64_t), "the order of rows",
                     &memory, &err) != GX_OK) {
        return gx_run_fail(run, &err);
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
    return gx_ok(run) ? GX_OK : run->err.code;
}

static gx_code compute_matrix(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_sink *C)
{
    (void)F;
    return put_permutation(run, aux, false, C);
}

static gx_code compute_vector(gx_run *run, const gx_mat *F, const gx_aux *aux, gx_sink *C)
{
    (void)F;
    return put_permutation(run, aux, true, C);
}

const gx_part_def gx_parts_lu[] = {
    {"L", GX_AUX_LU, shape_lower, compute_lower},
    {"U", GX_AUX_LU, shape_upper, compute_upper},
    {"P", GX_AUX_LU, shape_matrix, compute_matrix},
    {"p", GX_AUX_LU, shape_vector, compute_vector},
    {NULL, GX_AUX_NONE, NULL, NULL},
};

// gx_lu -------------------------------------------------------------------------------------------

enum { PERMUTATION, LOWER, UPPER, PARTS };

typedef struct lu_options {
    gx_dest dest; /* first: a set_offset of 0 means none */
    const char *name[PARTS];
    char permutation[64];
} lu_options;

static const gx_option lu_keys[] = {
    {"l", GX_OPT_NAME, offsetof(lu_options, name[LOWER]), 0},
    {"u", GX_OPT_NAME, offsetof(lu_options, name[UPPER]), 0},
    {"p", GX_OPT_NAME, offsetof(lu_options, name[PERMUTATION]), 0},
    {"permutation", GX_OPT_TEXT, offsetof(lu_options, permutation), 0},
    GX_DEST_KEYS(lu_options, dest),
    {NULL, GX_OPT_END, 0, 0},
};

static const gx_option table_keys[] = {
    {"permutation", GX_OPT_TEXT, offsetof(lu_options, permutation), 0},
    {NULL, GX_OPT_END, 0, 0},
};

/* The parts in the order of the table's rows. */
static bool find_parts(gx_fn *fn, const lu_options *opt, const gx_part_def *part[PARTS])
{
    bool is_vector = strcmp(opt->permutation, "vector") == 0;
    if (!is_vector && opt->permutation[0] != '\0' && strcmp(opt->permutation, "matrix") != 0) {
        return gx_fn_fail(fn, "\"permutation\" is '%s' but must be matrix or vector",
                          opt->permutation);
    }
    part[PERMUTATION] = gx_part_find(gx_parts_lu, is_vector ? "p" : "P");
    part[LOWER] = gx_part_find(gx_parts_lu, "L");
    part[UPPER] = gx_part_find(gx_parts_lu, "U");
    return true;
}

/* A = P^T L U into a stored factorisation: F becomes the source of what was stored. */
static void factor_stored(gx_fn *fn, const gx_mat *A, const gx_dest *dest, gx_aux *aux, gx_mat *F)
{
    gx_run *run = &fn->run;
    gx_lu_plan plan;
    gx_sink sink;
    gx_err err = {0};
    gx_plan_lu(run, A->rows, A->cols, A->number, &plan);
    gx_sink_begin(run, dest, A->rows, A->cols, A->number, GX_PROP_LU, plan.tile_rows,
                  plan.tile_cols, &sink);
    if (gx_ok(run)) {
        gx_aux_create(fn->ctx->mem, GX_AUX_LU, A->rows, A->cols, A->number, plan.panel, aux, &err);
        gx_run_fail(run, &err);
    }
    gx_sink_aux(&sink, aux);
    gx_alg_lu(run, A, &sink, aux);
    if (gx_sink_end(&sink) == GX_OK) {
        gx_mat_stored(F, &sink.meta);
    }
}

static void store_parts(gx_fn *fn, const gx_part_def *const part[PARTS], const gx_mat *F,
                        const gx_aux *aux, const gx_dest dest[PARTS])
{
    for (int p = 0; p < PARTS && gx_ok(&fn->run); p++) {
        gx_sink sink;
        if (dest[p].name != NULL) {
            gx_part_make(&fn->run, part[p], F, aux, &dest[p], &sink);
            gx_sink_end(&sink);
        }
    }
}

/* gx_lu(A[, destination][, options]): the name of the first result */
static void lu(gx_fn *fn)
{
    lu_options opt = {.dest = {0}};
    const gx_part_def *part[PARTS];
    gx_dest dest[PARTS];
    gx_mat A, F;
    if (!gx_fn_options(fn, lu_keys, &opt) || !find_parts(fn, &opt, part) ||
        !gx_fn_matrix(fn, 0, "A", &A) || !gx_fn_dest(fn, 1, &opt.dest)) {
        return;
    }
    const char *first = opt.dest.name;
    for (int p = 0; p < PARTS; p++) {
        dest[p] = (gx_dest){.name = opt.name[p], .replace = opt.dest.replace};
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
    const gx_dest *const all[] = {&opt.dest, &dest[0], &dest[1], &dest[2]};
    if (gx_outputs_begin(&out, fn, all, PARTS + 1)) {
        if (opt.dest.name != NULL) {
            factor_stored(fn, &A, &opt.dest, &aux, &F);
        } else if (gx_alg_lu_scratch(&fn->run, &A, A.number, &scratch, &aux) == GX_OK) {
            gx_sink_source(&scratch, A.label, &F);
        }
        store_parts(fn, part, &F, &aux, dest);
    }
    gx_sink_drop(&scratch);
    gx_aux_clear(&aux, fn->ctx->mem);
    gx_outputs_close(&out);
    if (gx_ok(&fn->run)) {
        sqlite3_result_text(fn->sql, first, -1, SQLITE_TRANSIENT);
    }
}

// The table ---------------------------------------------------------------------------------------

typedef struct lu_state {
    void *blob[PARTS]; /* of gx_value_buf_move() */
    size_t bytes[PARTS];
} lu_state;

enum { COL_PART, COL_VALUE, COLUMNS };

static bool begin_table(gx_fn *fn, uint32_t used, void *state, int64_t *rows)
{
    lu_state *s = state;
    lu_options opt = {.dest = {0}};
    const gx_part_def *part[PARTS];
    gx_mat A, F;
    gx_aux aux;
    gx_sink scratch;
    if (!gx_fn_options(fn, table_keys, &opt) || !find_parts(fn, &opt, part) ||
        !gx_fn_matrix(fn, 0, "A", &A)) {
        return false;
    }
    *rows = PARTS;
    if ((used & 1 << COL_VALUE) == 0) {
        return true;
    }
    if (gx_alg_lu_scratch(&fn->run, &A, A.number, &scratch, &aux) == GX_OK) {
        gx_sink_source(&scratch, A.label, &F);
    }
    for (int p = 0; p < PARTS && gx_ok(&fn->run); p++) {
        gx_sink sink;
        gx_part_make(&fn->run, part[p], &F, &aux, NULL, &sink);
        if (gx_sink_end(&sink) == GX_OK) {
            s->blob[p] = gx_value_buf_move(fn->ctx->mem, &sink.value, &s->bytes[p]);
        }
    }
    gx_sink_drop(&scratch);
    gx_aux_clear(&aux, fn->ctx->mem);
    return gx_ok(&fn->run);
}

static void put_column(void *state, gx_ctx *ctx, int64_t row, int column, sqlite3_context *sql)
{
    static const char *const names[] = {"P", "L", "U"};
    const lu_state *s = state;
    (void)ctx;
    if (column == COL_PART) {
        sqlite3_result_text(sql, names[row], -1, SQLITE_STATIC);
    } else if (s->blob[row] != NULL) {
        sqlite3_result_blob64(sql, s->blob[row], s->bytes[row], SQLITE_TRANSIENT);
    }
}

static void clear_table(void *state)
{
    lu_state *s = state;
    for (int p = 0; p < PARTS; p++) {
        gx_value_release(s->blob[p]);
    }
}

const gx_table_fn gx_table_lu = {
    .def = {"gx_lu", 1, 2, false, NULL},
    .shape = "CREATE TABLE x(part TEXT, value BLOB, a HIDDEN, options HIDDEN)",
    .columns = COLUMNS,
    .state_bytes = sizeof(lu_state),
    .begin = begin_table,
    .column = put_column,
    .clear = clear_table,
};

const gx_function gx_functions_lu[] = {
    {"gx_lu", 1, 3, false, lu},
    {NULL, 0, 0, false, NULL},
};
