/*
** Writing a fused program down, and folding what its outputs come to (fused.h).
**
** Results are given registers from the last step to the first: one is taken where its result is
** wanted last, and is free again above the step that makes it.  A step may write the register that
** it reads, since kernels work element by element.  Results that nobody wants have no register;
** their steps are taken out.
*/
#include "fused.h"

#include <math.h>
#include <string.h>

enum { UNWANTED = 255 };

// Writing it down ---------------------------------------------------------------------------------

void gx_fused_begin(gx_fused *f, gx_number dtype)
{
    memset(f, 0, sizeof *f);
    f->dtype = dtype;
}

static int no_room(gx_fused *f)
{
    f->is_full = true;
    return GX_FUSED_NONE;
}

int gx_fused_input(gx_fused *f)
{
    return f->inputs < GX_FUSED_INPUTS ? f->inputs++ : no_room(f);
}

int gx_fused_constant(gx_fused *f, gx_scalar value)
{
    for (int k = 0; k < f->constants; k++) {
        if (memcmp(&f->constant[k], &value, sizeof value) == 0) {
            return GX_FUSED_CONSTANT + k;
        }
    }
    if (f->constants == GX_FUSED_CONSTANTS) {
        return no_room(f);
    }
    f->constant[f->constants] = value;
    return GX_FUSED_CONSTANT + f->constants++;
}

static bool is_there(const gx_fused *f, int value)
{
    return value >= GX_FUSED_RESULT     ? value < GX_FUSED_RESULT + f->steps
           : value >= GX_FUSED_CONSTANT ? value < GX_FUSED_CONSTANT + f->constants
                                        : value >= 0 && value < f->inputs;
}

static int append(gx_fused *f, gx_map_kind map, gx_scalar alpha, gx_scalar beta, const int from[3])
{
    gx_fused_code code = {.map = (uint8_t)map, .alpha = alpha, .beta = beta};
    int operands = gx_map_row(map)->operands;
    for (int k = 0; k < operands; k++) {
        if (!is_there(f, from[k])) {
            return no_room(f);
        }
        code.from[k] = (uint8_t)from[k];
    }
    if (f->steps == GX_FUSED_STEPS) {
        return no_room(f);
    }
    f->step[f->steps] = code;
    return GX_FUSED_RESULT + f->steps++;
}

int gx_fused_step(gx_fused *f, gx_map_kind map, int a, int b, int c)
{
    const gx_scalar one = {1, 0};
    return append(f, map, one, one, (int[]){a, b, c});
}

int gx_fused_scaled(gx_fused *f, gx_map_kind map, gx_scalar alpha, int a, gx_scalar beta, int b)
{
    return append(f, map, alpha, beta, (int[]){a, b, GX_FUSED_NONE});
}

int gx_fused_output(gx_fused *f, int value, gx_fold fold, gx_fold_of of)
{
    bool is_ordered = fold == GX_FOLD_MIN || fold == GX_FOLD_MAX;
    if (f->outputs == GX_FUSED_OUTPUTS || !is_there(f, value) ||
        (is_ordered && gx_number_is_complex(f->dtype))) {
        return no_room(f);
    }
    f->output[f->outputs] =
        (gx_fused_result){.value = (uint8_t)value, .fold = (uint8_t)fold, .fold_of = (uint8_t)of};
    return f->outputs++;
}

// Registers ---------------------------------------------------------------------------------------

/* Which steps' results are wanted, from the outputs back. */
static void look_back(const gx_fused *f, bool wanted[GX_FUSED_STEPS])
{
    memset(wanted, 0, GX_FUSED_STEPS * sizeof *wanted);
    for (int k = 0; k < f->outputs; k++) {
        if (f->output[k].value >= GX_FUSED_RESULT) {
            wanted[f->output[k].value - GX_FUSED_RESULT] = true;
        }
    }
    for (int s = f->steps - 1; s >= 0; s--) {
        int operands = wanted[s] ? gx_map_row((gx_map_kind)f->step[s].map)->operands : 0;
        for (int k = 0; k < operands; k++) {
            if (f->step[s].from[k] >= GX_FUSED_RESULT) {
                wanted[f->step[s].from[k] - GX_FUSED_RESULT] = true;
            }
        }
    }
}

/* Take the others out. */
static void drop_unwanted(gx_fused *f)
{
    bool wanted[GX_FUSED_STEPS];
    uint8_t now[GX_FUSED_STEPS];
    int kept = 0;
    look_back(f, wanted);
    for (int s = 0; s < f->steps; s++) {
        gx_fused_code *code = &f->step[s];
        for (int k = 0; wanted[s] && k < gx_map_row((gx_map_kind)code->map)->operands; k++) {
            if (code->from[k] >= GX_FUSED_RESULT) {
                code->from[k] = now[code->from[k] - GX_FUSED_RESULT];
            }
        }
        now[s] = (uint8_t)(GX_FUSED_RESULT + kept);
        if (wanted[s]) {
            f->step[kept++] = *code;
        }
    }
    for (int k = 0; k < f->outputs; k++) {
        if (f->output[k].value >= GX_FUSED_RESULT) {
            f->output[k].value = now[f->output[k].value - GX_FUSED_RESULT];
        }
    }
    f->steps = kept;
}

/* The lowest register that is free, for the result of step s; false: there is none. */
static bool take_register(gx_fused *f, int s, bool busy[GX_FUSED_REGISTERS])
{
    for (int r = 0; r < GX_FUSED_REGISTERS; r++) {
        if (!busy[r]) {
            busy[r] = true;
            f->step[s].dst = (uint8_t)r;
            f->registers = f->registers > r ? f->registers : r + 1;
            return true;
        }
    }
    return false;
}

/* Results from value on, as many as there are, that have no register yet get one. */
static bool want(gx_fused *f, int value, bool busy[GX_FUSED_REGISTERS])
{
    int s = value - GX_FUSED_RESULT;
    return s < 0 || f->step[s].dst != UNWANTED || take_register(f, s, busy);
}

bool gx_fused_end(gx_fused *f)
{
    bool busy[GX_FUSED_REGISTERS] = {false};
    bool is_good = !f->is_full && f->outputs > 0;
    if (!is_good) {
        return false;
    }
    drop_unwanted(f);
    f->registers = 0;
    for (int s = 0; s < f->steps; s++) {
        f->step[s].dst = UNWANTED;
    }
    for (int k = 0; k < f->outputs; k++) {
        is_good = is_good && want(f, f->output[k].value, busy);
    }
    for (int s = f->steps - 1; s >= 0 && is_good; s--) {
        const gx_fused_code *code = &f->step[s];
        busy[code->dst] = false;
        for (int k = 0; k < gx_map_row((gx_map_kind)code->map)->operands; k++) {
            is_good = is_good && want(f, code->from[k], busy);
        }
    }
    f->is_full = !is_good;
    return is_good;
}

double gx_fused_flops(const gx_fused *f)
{
    double flops = 0;
    for (int s = 0; s < f->steps; s++) {
        const gx_map_facts *row = gx_map_row((gx_map_kind)f->step[s].map);
        flops += gx_number_is_complex(f->dtype) ? row->complex_flops : row->flops;
    }
    for (int k = 0; k < f->outputs; k++) {
        flops += f->output[k].fold == GX_FOLD_NONE ? 0 : 1;
    }
    return flops;
}

// Folds -------------------------------------------------------------------------------------------

int gx_fold_width(gx_fold fold)
{
    return fold == GX_FOLD_NONE ? 0 : fold == GX_FOLD_SUM || fold == GX_FOLD_NORM ? 2 : 1;
}

int64_t gx_fold_doubles(gx_fold fold, gx_fold_of of, int64_t m, int64_t n)
{
    int64_t lines = of == GX_FOLD_OF_ALL ? 1 : of == GX_FOLD_OF_ROWS ? m : n;
    return lines * gx_fold_width(fold);
}

void gx_fold_start(gx_fold fold, int64_t lines, double *acc)
{
    for (int64_t l = 0; l < lines; l++) {
        switch (fold) {
        case GX_FOLD_SUM:
            acc[2 * l] = acc[2 * l + 1] = 0;
            break;
        case GX_FOLD_NORM:
            acc[2 * l] = 1;
            acc[2 * l + 1] = 0;
            break;
        case GX_FOLD_MIN:
            acc[l] = (double)INFINITY;
            break;
        case GX_FOLD_MAX:
            acc[l] = -(double)INFINITY;
            break;
        case GX_FOLD_NONE:
            break;
        }
    }
}

/* scale^2 * ssq (acc) += scale^2 * ssq (part), as LAPACK's lassq does. */
static void add_squares(double *acc, const double *part)
{
    if (part[1] == 0) {
        return;
    }
    if (acc[1] == 0 || isnan(part[0]) || isnan(part[1])) {
        acc[1] = isnan(acc[1]) ? acc[1] : part[1];
        acc[0] = part[0];
    } else if (acc[0] < part[0]) {
        double ratio = acc[0] / part[0];
        acc[1] = part[1] + acc[1] * ratio * ratio;
        acc[0] = part[0];
    } else {
        double ratio = part[0] / acc[0];
        acc[1] += part[1] * ratio * ratio;
    }
}

void gx_fold_add(gx_fold fold, int64_t lines, double *acc, const double *part)
{
    for (int64_t l = 0; l < lines; l++) {
        switch (fold) {
        case GX_FOLD_SUM:
            acc[2 * l] += part[2 * l];
            acc[2 * l + 1] += part[2 * l + 1];
            break;
        case GX_FOLD_NORM:
            add_squares(acc + 2 * l, part + 2 * l);
            break;
        case GX_FOLD_MIN:
            acc[l] = isnan(part[l]) || part[l] < acc[l] ? part[l] : acc[l];
            break;
        case GX_FOLD_MAX:
            acc[l] = isnan(part[l]) || part[l] > acc[l] ? part[l] : acc[l];
            break;
        case GX_FOLD_NONE:
            break;
        }
    }
}

gx_scalar gx_fold_value(gx_fold fold, const double *line)
{
    switch (fold) {
    case GX_FOLD_SUM:
        return (gx_scalar){line[0], line[1]};
    case GX_FOLD_NORM:
        return (gx_scalar){line[1] == 0 ? 0 : line[0] * sqrt(line[1]), 0};
    default:
        return (gx_scalar){line[0], 0};
    }
}
