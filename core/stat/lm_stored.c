/*
** The model of stored matrices: see lm.h.
*/
#include "lm_int.h"

#include "triangle_of.h"

/* Numbers alone, and no weights: the triangle as it is. */
static gx_code fold_stored(gx_lm *lm, gx_err *err)
{
    const gx_lm_stored *from = lm->stored;
    int64_t cols;
    double *r;
    if (lm->spec.family != GX_GAUSSIAN || from->weights != NULL) {
        return GX_OK;
    }
    gx_code rc = gx_triangle_of(from->run, from->X, from->y, !lm->spec.no_intercept, &r, &cols);
    if (rc != GX_OK) {
        gx_mem_free(lm->mem, r);
        return gx_fail(err, rc, "%s", from->run->err.text);
    }
    lm->r = r;
    lm->cap = cols;
    lm->has_triangle = true;
    return GX_OK;
}

gx_code gx_lm_matrices(gx_run *run, const gx_lm_spec *spec, const gx_mat *X, const gx_mat *y,
                       const gx_mat *weights, const char *const *names, void **blob, size_t *bytes)
{
    gx_mem *mem = run->ctx->mem;
    gx_err err = {0};
    gx_lm lm;
    const gx_lm_stored stored = {.run = run, .X = X, .y = y, .weights = weights};
    int count = (int)gx_min(X->cols, GX_LM_ARGS + 1);
    bool has_weights = weights != NULL;
    gx_lm_role roles[GX_LM_ARGS + 2] = {GX_LM_NUMBER};
    const gx_mat *sides[] = {y, weights};
    for (int k = 0; k < 1 + has_weights; k++) {
        if (sides[k]->rows != X->rows || sides[k]->cols != 1) {
            gx_fail(&err, GX_ARG, "%s is %lldx%lld, and X has %lld rows", sides[k]->label,
                    (long long)sides[k]->rows, (long long)sides[k]->cols, (long long)X->rows);
            return gx_run_fail(run, &err);
        }
    }
    roles[count] = GX_LM_WEIGHT;
    gx_code rc = gx_lm_begin(&lm, mem, spec, count + has_weights, roles, &err);
    lm.stored = &stored;
    lm.n = X->rows;
    if (rc == GX_OK) {
        rc = fold_stored(&lm, &err);
    }
    if (rc == GX_OK) {
        rc = gx_lm_finish(&lm, names, blob, bytes, &err);
    }
    gx_lm_clear(&lm);
    return rc == GX_OK ? rc : gx_run_fail(run, &err);
}
