/*
** Rows of a regression as they come: levels, blocks, the triangle.  See lm.h.
**
** Rows wait until a block of GX_LM_BLOCK of them is full, become columns of [X y], and are folded
** under the triangle; where they are gone through again, they are kept as they came.  A level that
** comes for the first time is a new column of R, which was 0 in all rows before: columns of R are
** in the order in which they came, and lm_finish.c puts them into the model's.
*/
#include "lm_int.h"

#include <math.h>
#include <string.h>

enum { FIRST_ROWS = 16 };

gx_code gx_lm_begin(gx_lm *lm, gx_mem *mem, const gx_lm_spec *spec, int count,
                    const gx_lm_role *roles, gx_err *err)
{
    *lm = (gx_lm){.mem = mem, .spec = *spec, .weight = -1, .cluster = -1};
    if (count > GX_LM_ARGS) {
        return gx_fail(err, GX_ARG, "there are %d columns, more than %d", count, GX_LM_ARGS);
    }
    GX_TRY(gx_mem_calloc(mem, (size_t)gx_max(count, 1) * sizeof *lm->arg, "a regression", &lm->arg,
                         err));
    lm->count = count;
    lm->keeps_rows = spec->is_window || spec->robust != GX_CLASSIC || spec->family != GX_GAUSSIAN;
    lm->cols = spec->no_intercept ? 0 : 1;
    for (int a = 0; a < count; a++) {
        gx_lm_arg *arg = &lm->arg[a];
        arg->role = roles[a];
        gx_levels_begin(&arg->levels, mem);
        arg->place = arg->role == GX_LM_NUMBER ? lm->cols++ : -1;
        lm->weight = arg->role == GX_LM_WEIGHT ? a : lm->weight;
        lm->cluster = arg->role == GX_LM_CLUSTER ? a : lm->cluster;
    }
    lm->y = lm->cols++;
    return GX_OK;
}

void gx_lm_clear(gx_lm *lm)
{
    for (int a = 0; a < lm->count; a++) {
        gx_levels_clear(&lm->arg[a].levels);
        gx_mem_free(lm->mem, lm->arg[a].places);
    }
    gx_mem_free(lm->mem, lm->arg);
    gx_mem_free(lm->mem, lm->rows);
    gx_mem_free(lm->mem, lm->r);
    gx_mem_free(lm->mem, lm->block);
    lm->count = 0;
}

gx_code gx_lm_level(gx_lm *lm, int a, const char *text, size_t bytes, double *number, gx_err *err)
{
    gx_lm_arg *arg = &lm->arg[a];
    int64_t found, before = arg->levels.count;
    GX_TRY(gx_levels_find(&arg->levels, text, bytes, &found, err));
    *number = (double)found;
    if (arg->role != GX_LM_CATEGORY || found < before) {
        return GX_OK;
    }
    if (lm->cols >= GX_LM_COLUMNS) {
        return gx_fail(err, GX_ARG, "numbers and levels of categories are more than %d columns",
                       GX_LM_COLUMNS);
    }
    if (found >= arg->places_room) {
        int64_t room = gx_max(8, 2 * arg->places_room);
        GX_TRY(gx_mem_realloc(lm->mem, (size_t)room * sizeof *arg->places, "levels", &arg->places,
                              err));
        arg->places_room = room;
    }
    arg->places[found] = (int32_t)lm->cols++;
    return GX_OK;
}

// Rows --------------------------------------------------------------------------------------------

/* Rows that wait, under the triangle. */
static gx_code fold_rows(gx_lm *lm, gx_err *err)
{
    const gx_lm_job job = {.what = GX_LM_FOLD, .lm = lm};
    gx_lm_sums sums = {0};
    GX_TRY(gx_lm_room(lm, err));
    GX_TRY(gx_lm_all(lm, &job, lm->r, lm->cap, &sums, err));
    lm->fill = 0;
    return GX_OK;
}

/* Room for one more row: of rows that are kept the ones that have left are given up. */
static gx_code make_room(gx_lm *lm, gx_err *err)
{
    size_t row = (size_t)(lm->count + 1) * sizeof *lm->rows;
    if (!lm->keeps_rows && lm->room >= GX_LM_BLOCK) {
        return fold_rows(lm, err);
    }
    if (lm->first > lm->fill / 2) {
        memmove(lm->rows, (char *)lm->rows + (size_t)lm->first * row,
                (size_t)(lm->fill - lm->first) * row);
        lm->fill -= lm->first;
        lm->first = 0;
        return GX_OK;
    }
    int64_t room = lm->room == 0            ? FIRST_ROWS
                   : lm->room < GX_LM_BLOCK ? 4 * lm->room
                                            : lm->room + lm->room / 2;
    GX_TRY(gx_mem_realloc(lm->mem, (size_t)room * row, "the rows of a regression", &lm->rows, err));
    lm->room = room;
    return GX_OK;
}

gx_code gx_lm_add(gx_lm *lm, const double *row, gx_err *err)
{
    double weight = lm->weight < 0 ? 1 : row[1 + lm->weight];
    if (weight < 0) {
        return gx_fail(err, GX_ARG, "a weight is negative: %g", weight);
    }
    GX_TRY(gx_lm_response(lm->spec.family, row, 1, err));
    if (lm->fill == lm->room) {
        GX_TRY(make_room(lm, err));
    }
    if (weight > 0 || lm->spec.is_window) {
        memcpy(lm->rows + lm->fill++ * (lm->count + 1), row, (size_t)(lm->count + 1) * sizeof *row);
    }
    if (weight > 0) {
        lm->n++;
        lm->log_weights += lm->weight < 0 ? 0 : log(weight);
    }
    return GX_OK;
}

void gx_lm_drop(gx_lm *lm)
{
    if (lm->first < lm->fill) {
        const double *row = lm->rows + lm->first++ * (lm->count + 1);
        double weight = lm->weight < 0 ? 1 : row[1 + lm->weight];
        lm->n -= weight > 0;
        lm->log_weights -= lm->weight >= 0 && weight > 0 ? log(weight) : 0;
    }
}
