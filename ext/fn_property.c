/*
** Properties in SQL: gx_set_property, gx_check_property, gx_is_symmetric (core/alg/alg_property.c).
*/
#include "gx_ext.h"

#include "../core/alg/alg.h"

// Setting -----------------------------------------------------------------------------------------

static const gx_option set_keys[] = {{"check", GX_OPT_BOOL, 0, 0}, {NULL, GX_OPT_END, 0, 0}};

static bool parse_properties(gx_fn *fn, int index, uint32_t *bits)
{
    const char *list;
    return gx_fn_text(fn, index, "property", &list) &&
           gx_fn_check(fn, gx_properties_parse(list, bits, &fn->err));
}

/* Properties of square matrices, and Q with orthonormal columns, need such a shape. */
static bool check_shape(gx_fn *fn, const gx_mat *A, uint32_t bits)
{
    const uint32_t SQUARE = GX_PROP_SYMMETRIC | GX_PROP_HERMITIAN | GX_PROP_POSITIVE;
    char text[GX_PROPERTIES_MAX];
    if ((bits & SQUARE) != 0 && A->rows != A->cols) {
        return gx_fn_fail(fn, "%s is %lldx%lld, but only a square matrix can be %s", A->label,
                          (long long)A->rows, (long long)A->cols,
                          gx_properties_text(bits & SQUARE, text));
    }
    if ((bits & GX_PROP_ORTHOGONAL) != 0 && A->rows < A->cols) {
        return gx_fn_fail(fn,
                          "%s is %lldx%lld, and %lld columns of %lld elements cannot be "
                          "orthonormal",
                          A->label, (long long)A->rows, (long long)A->cols, (long long)A->cols,
                          (long long)A->rows);
    }
    return true;
}

static bool look(gx_fn *fn, const gx_mat *A, uint32_t bits)
{
    bool holds = false;
    char text[GX_PROPERTIES_MAX];
    if (gx_alg_check_property(&fn->run, A, bits, -1, &holds) != GX_OK) {
        return false;
    }
    return holds || gx_fn_fail(fn, "%s is not %s", A->label, gx_properties_text(bits, text));
}

static void store_properties(gx_fn *fn, gx_meta *meta, uint32_t bits)
{
    gx_store *store = fn->ctx->store;
    gx_err err = {0};
    char text[GX_PROPERTIES_MAX];
    if (gx_store_begin(store, meta->schema, &err) == GX_OK) {
        gx_store_end(store, gx_store_touch(store, meta, bits, &err) == GX_OK, &err);
    }
    if (gx_run_fail(&fn->run, &err) == GX_OK) {
        sqlite3_result_text(fn->sql, gx_properties_text(bits, text), -1, SQLITE_TRANSIENT);
    }
}

/* gx_set_property(A, properties[, on][, options]): the properties A has now */
static void set_property(gx_fn *fn)
{
    bool is_checked = false;
    gx_mat A;
    uint32_t bits;
    int64_t is_on = 1;
    if (!gx_fn_options(fn, set_keys, &is_checked) || !gx_fn_matrix(fn, 0, "A", &A) ||
        !parse_properties(fn, 1, &bits) || (gx_fn_has(fn, 2) && !gx_fn_int(fn, 2, "on", &is_on))) {
        return;
    }
    if (A.kind != GX_MAT_STORED && !A.meta.is_composite) {
        gx_fn_fail(fn, "A must be the name of a stored matrix: a value has no properties");
        return;
    }
    if (is_on != 0 && is_on != 1) {
        gx_fn_fail(fn, "on must be 1 or 0, not %lld", (long long)is_on);
        return;
    }
    if (is_on == 0) {
        store_properties(fn, &A.meta,
                         gx_properties_without(A.properties, bits, A.number, A.rows, A.cols));
        return;
    }
    if (!check_shape(fn, &A, bits) || (is_checked && !look(fn, &A, bits))) {
        return;
    }
    store_properties(fn, &A.meta,
                     gx_properties_closed(A.properties | bits, A.number, A.rows, A.cols));
}

// Looking -----------------------------------------------------------------------------------------

static void check(gx_fn *fn, const gx_mat *A, uint32_t bits, int tol_index)
{
    double tol = -1;
    bool holds = false;
    if (gx_fn_has(fn, tol_index)) {
        if (!gx_fn_real(fn, tol_index, "tolerance", &tol)) {
            return;
        }
        if (!(tol >= 0)) {
            gx_fn_fail(fn, "tolerance must be 0 or more, not %g", tol);
            return;
        }
    }
    if (gx_alg_check_property(&fn->run, A, bits, tol, &holds) == GX_OK) {
        sqlite3_result_int(fn->sql, holds);
    }
}

/* gx_check_property(A, properties[, tolerance]): 1 or 0 */
static void check_property(gx_fn *fn)
{
    gx_mat A;
    uint32_t bits;
    if (gx_fn_options(fn, NULL, NULL) && gx_fn_matrix(fn, 0, "A", &A) &&
        parse_properties(fn, 1, &bits)) {
        check(fn, &A, bits, 2);
    }
}

/* gx_is_symmetric(A[, tolerance]): 1 or 0 */
static void is_symmetric(gx_fn *fn)
{
    gx_mat A;
    if (gx_fn_options(fn, NULL, NULL) && gx_fn_matrix(fn, 0, "A", &A)) {
        check(fn, &A, GX_PROP_SYMMETRIC, 1);
    }
}

const gx_function gx_functions_property[] = {
    {"gx_set_property", 2, 4, GX_CHANGES, set_property, 0},
    {"gx_check_property", 2, 3, 0, check_property, 0},
    {"gx_is_symmetric", 1, 2, 0, is_symmetric, 0},
    {.name = NULL},
};
