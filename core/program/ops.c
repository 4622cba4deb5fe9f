/*
** The table of operations, and looking it up: see ops.h.
*/
#include "ops.h"

#include "../base/spelling.h"
#include "lower.h"
#include "shape.h"

#include <string.h>

/* Rows without a rule. */
#define gx_check_NULL NULL
#define gx_lower_NULL NULL

#define OP(ID, NAME, USAGE, LEAST, MOST, RESULTS, CHECK, RUN, HELP)                                \
    {GX_OP_##ID, NAME, USAGE, HELP, LEAST, MOST, RESULTS, false, gx_check_##CHECK, gx_lower_##RUN},
#define SAFE(ID, NAME, USAGE, LEAST, MOST, RESULTS, CHECK, RUN, HELP)                              \
    {GX_OP_##ID, NAME, USAGE, HELP, LEAST, MOST, RESULTS, true, gx_check_##CHECK, gx_lower_##RUN},

static const gx_op rows[] = {GX_OPS(OP, SAFE)};

const gx_op *gx_op_row(gx_op_id id)
{
    return &rows[id];
}

/*
** NumPy's names for what is here under another one; and words for what is here in another form,
** which are not taken, but told.
*/
static const struct {
    const char *word, *name;
    bool is_same;
} others[] = {
    {"inv", "inverse", true},
    {"absolute", "abs", true},
    {"power", "pow", true},
    {"conjugate", "conj", true},
    {"remainder", "mod", true},
    {"amax", "max", true},
    {"amin", "min", true},
    {"identity", "eye", true},
    {"matrix_power", "powm", true},
    {"matrix_rank", "rank", true},
    {"fractional_matrix_power", "powm", true},
    {"pinvh", "pinv", true},
    {"matrix_balance", "balance", true},
    {"solve_sylvester", "sylvester", true},
    {"solve_continuous_lyapunov", "lyapunov", true},
    {"solve_discrete_lyapunov", "discrete_lyapunov", true},
    {"solve_continuous_are", "riccati", true},
    {"solve_discrete_are", "discrete_riccati", true},
    {"orthogonal_procrustes", "procrustes", true},
    {"arcsin", "asin", true},
    {"arccos", "acos", true},
    {"arctan", "atan", true},
    {"arctan2", "atan2", true},
    {"arcsinh", "asinh", true},
    {"multiply", "mul", true},
    {"subtract", "sub", true},
    {"divide", "div", true},
    {"true_divide", "div", true},
    {"negative", "neg", true},
    {"angle", "arg", true},
    {"fix", "trunc", true},
    {"rint", "round", true},
    {"around", "round", true},
    {"fabs", "abs", true},
    {"float_power", "pow", true},
    {"fftn", "fft2", true},
    {"ifftn", "ifft2", true},
    {"rfftn", "rfft2", true},
    {"irfftn", "irfft2", true},
    {"dot", "matmul", false},
    {"concat", "vstack", false},
    {"concatenate", "vstack", false},
    {"row_stack", "vstack", false},
    {"column_stack", "hstack", false},
    {"corrcoef", "corr", false},
    {"ravel", "reshape", false},
    {"flatten", "reshape", false},
    {"percentile", "quantile", false},
    {"average", "mean", false},
    {"unique", "unique_count", false},
    {"len", "rows", false},
    {"shape", "rows", false},
    {"array", "block", false},
    {"rand", "random", false},
    {"uniform", "random", false},
    {"normal", "randn", false},
};

/* What a word stands for; NULL: nothing, or not exactly. */
static const char *other_name(const char *word, bool is_same)
{
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        if (others[k].is_same == is_same && strcmp(others[k].word, word) == 0) {
            return others[k].name;
        }
    }
    return NULL;
}

const char *gx_op_name(const char *word)
{
    const char *name = other_name(word, true);
    return name != NULL ? name : word;
}

const gx_op *gx_op_find(const char *name)
{
    for (int k = 0; k < GX_OP_COUNT; k++) {
        if (rows[k].name != NULL && strcmp(rows[k].name, name) == 0) {
            return &rows[k];
        }
    }
    return NULL;
}

bool gx_map_find(const char *name, gx_map_kind *kind)
{
    for (int k = 0; k < GX_MAP_KIND_COUNT; k++) {
        if (strcmp(gx_map_row((gx_map_kind)k)->name, name) == 0) {
            *kind = (gx_map_kind)k;
            return true;
        }
    }
    return false;
}

const char *gx_op_near(const char *name)
{
    const char *nearest = other_name(name, false);
    int least = GX_NEAR_FAR;
    size_t bytes = strlen(name);
    if (nearest != NULL) {
        return nearest;
    }
    for (int k = 0; k < GX_OP_COUNT + GX_MAP_KIND_COUNT; k++) {
        const char *other =
            k < GX_OP_COUNT ? rows[k].name : gx_map_row((gx_map_kind)(k - GX_OP_COUNT))->name;
        int distance =
            other == NULL ? GX_NEAR_FAR : gx_near_distance(name, bytes, other, strlen(other));
        if (distance < least) {
            least = distance;
            nearest = other;
        }
    }
    return gx_near_is_misspelt(least, bytes) ? nearest : NULL;
}
