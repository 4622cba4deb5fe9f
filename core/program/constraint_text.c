/*
** Constraints: see constraint_text.h.
**
** Steps are written down as they are met, each with a register of its own; of two operands the one
** with more levels comes first, so that few registers are wanted at the same time.  In the end they
** get registers, each from its step to the last one that reads it.
*/
#include "constraint_text.h"

#include "../run/call.h"
#include "syntax.h"

#include <math.h>
#include <string.h>

/* What an expression comes to: a number, or what a step reads. */
typedef struct value {
    bool is_number;
    uint32_t number;
    uint32_t from; /* with steps' numbers as registers */
} value;

typedef struct name {
    const char *text;
    value is;
} name;

typedef struct compiler {
    gx_run *run;
    gx_syntax *syntax;
    gx_err *err;
    int64_t columns;
    gx_constraint_step *step;
    int64_t steps, step_capacity;
    name *names;
    int64_t name_count, name_capacity;
    int64_t taken; /* constraints so far */
} compiler;

static bool refuse(compiler *c, const gx_item *at, const char *text)
{
    gx_syntax_fail(c->syntax, at->line, at->column, c->err, GX_ARG, "%s", text);
    return false;
}

static uint32_t from_of(gx_constraint_from kind, int64_t index)
{
    return (uint32_t)kind << GX_CONSTRAINT_KIND | (uint32_t)index;
}

/* Room for one more of a growing list. */
static bool grow(compiler *c, void **list, size_t bytes, int64_t count, int64_t *capacity)
{
    if (count < *capacity) {
        return true;
    }
    int64_t more = gx_max(64, 2 * *capacity);
    if (gx_mem_realloc(c->run->ctx->mem, (size_t)more * bytes, "constraints", list, c->err) !=
        GX_OK) {
        return false;
    }
    *capacity = more;
    return true;
}

static bool add_step(compiler *c, const gx_item *at, const gx_constraint_step *step)
{
    void *list = c->step;
    if (c->steps == GX_CONSTRAINT_STEPS) {
        return refuse(c, at, "these are more than 65536 steps");
    }
    bool is_there = grow(c, &list, sizeof *step, c->steps, &c->step_capacity);
    c->step = list;
    if (is_there) {
        c->step[c->steps++] = *step;
    }
    return is_there;
}

/* What a step reads of a value; a number goes into the step. */
static uint32_t read_by(gx_constraint_step *step, const value *v)
{
    if (v->is_number) {
        step->number = v->number;
        return from_of(GX_CONSTRAINT_NUMBER, 0);
    }
    return v->from;
}

static uint32_t folded(gx_constraint_op op, uint32_t a, uint32_t b)
{
    return op == GX_CONSTRAINT_ADD   ? gx_m31_add(a, b)
           : op == GX_CONSTRAINT_SUB ? gx_m31_sub(a, b)
                                     : gx_m31_mul(a, b);
}

static bool combine(compiler *c, const gx_item *at, gx_constraint_op op, const value *a,
                    const value *b, value *out)
{
    if (a->is_number && b->is_number) {
        *out = (value){.is_number = true, .number = folded(op, a->number, b->number)};
        return true;
    }
    gx_constraint_step step = {.op = (uint16_t)op};
    step.from[0] = read_by(&step, a);
    step.from[1] = read_by(&step, b);
    *out = (value){.from = from_of(GX_CONSTRAINT_REGISTER, c->steps)};
    return add_step(c, at, &step);
}

// Expressions -------------------------------------------------------------------------------------

static bool is_whole(const gx_item *item)
{
    double x = item->value.re;
    return item->form == GX_FORM_NUMBER && item->value.im == 0 && floor(x) == x && x <= 0x1p53;
}

static bool take_number(compiler *c, const gx_item *item, value *out)
{
    *out = (value){.is_number = true};
    if (!is_whole(item)) {
        return refuse(c, item, "constraints have whole numbers, up to 2^53");
    }
    out->number = gx_field_of((int64_t)item->value.re, GX_M31_P);
    return true;
}

static bool take_name(compiler *c, const gx_item *item, value *out)
{
    for (int64_t k = c->name_count - 1; k >= 0; k--) {
        if (strcmp(c->names[k].text, item->text) == 0) {
            *out = c->names[k].is;
            return true;
        }
    }
    gx_syntax_fail(c->syntax, item->line, item->column, c->err, GX_ARG,
                   "nothing is named %s here: columns are row[0], row[1], ..., those of the next "
                   "row next[0], next[1], ...",
                   item->text);
    return false;
}

/* row[j], next[j]. */
static bool take_column(compiler *c, const gx_item *item, value *out)
{
    const gx_item *of = item->first, *j = of->next;
    bool is_next = of->form == GX_FORM_NAME && strcmp(of->text, "next") == 0;
    bool is_row = of->form == GX_FORM_NAME && strcmp(of->text, "row") == 0;
    if ((!is_next && !is_row) || j->next != NULL) {
        return refuse(c, item, "only row[j] and next[j] have a number in brackets");
    }
    if (!is_whole(j) || j->value.re >= (double)c->columns) {
        gx_syntax_fail(c->syntax, j->line, j->column, c->err, GX_ARG,
                       "a column is a whole number from 0 to %lld", (long long)c->columns - 1);
        return false;
    }
    *out = (value){
        .from = from_of(is_next ? GX_CONSTRAINT_NEXT : GX_CONSTRAINT_COLUMN, (int64_t)j->value.re)};
    return true;
}

static bool take_item(compiler *c, const gx_item *item, value *out);

/* a ** e by squaring. */
static bool take_power(compiler *c, const gx_item *item, value *out)
{
    const gx_item *e = item->first->next;
    value a;
    if (!is_whole(e) || e->value.re >= GX_M31_P) {
        return refuse(c, e, "an exponent is a whole number from 0 to 2147483646");
    }
    if (!take_item(c, item->first, &a)) {
        return false;
    }
    *out = (value){.is_number = true, .number = 1};
    bool is_one = true;
    for (uint32_t left = (uint32_t)e->value.re; left > 0; left >>= 1) {
        if (left & 1) {
            if (is_one) {
                *out = a;
            } else if (!combine(c, item, GX_CONSTRAINT_MUL, out, &a, out)) {
                return false;
            }
            is_one = false;
        }
        if (left > 1 && !combine(c, item, GX_CONSTRAINT_MUL, &a, &a, &a)) {
            return false;
        }
    }
    return true;
}

/* Both operands, the one with more levels first. */
static bool take_both(compiler *c, const gx_item *item, value *a, value *b)
{
    const gx_item *first = item->first, *second = first->next;
    return second->depth > first->depth ? take_item(c, second, b) && take_item(c, first, a)
                                        : take_item(c, first, a) && take_item(c, second, b);
}

static bool take_operator(compiler *c, const gx_item *item, value *out)
{
    static const struct {
        const char *name;
        gx_constraint_op op;
    } row[] = {{"add", GX_CONSTRAINT_ADD},
               {"sub", GX_CONSTRAINT_SUB},
               {"mul", GX_CONSTRAINT_MUL},
               {"div", GX_CONSTRAINT_MUL}};
    value a, b;
    if (item->is_infix && strcmp(item->text, "pow") == 0) {
        return take_power(c, item, out);
    }
    if (item->is_infix && strcmp(item->text, "neg") == 0) {
        const value zero = {.is_number = true};
        return take_item(c, item->first, &a) && combine(c, item, GX_CONSTRAINT_SUB, &zero, &a, out);
    }
    for (size_t k = 0; k < sizeof row / sizeof *row && item->is_infix; k++) {
        if (strcmp(item->text, row[k].name) != 0) {
            continue;
        }
        if (!take_both(c, item, &a, &b)) {
            return false;
        }
        if (strcmp(row[k].name, "div") == 0) {
            if (!b.is_number || b.number == 0) {
                return refuse(c, item, "constraints divide by numbers alone, not by 0");
            }
            b.number = gx_field_inverse(b.number, GX_M31_P);
        }
        return combine(c, item, row[k].op, &a, &b, out);
    }
    return refuse(c, item, "constraints are polynomials: + - * ** and / by a number");
}

static bool take_item(compiler *c, const gx_item *item, value *out)
{
    switch (item->form) {
    case GX_FORM_NUMBER:
        return take_number(c, item, out);
    case GX_FORM_NAME:
        return take_name(c, item, out);
    case GX_FORM_INDEX:
        return take_column(c, item, out);
    case GX_FORM_CALL:
        return take_operator(c, item, out);
    default:
        return refuse(c, item, "constraints are polynomials: + - * ** and / by a number");
    }
}

// Statements --------------------------------------------------------------------------------------

static bool assign(compiler *c, const gx_item *item)
{
    const gx_item *to = item->first->next;
    value v;
    if (to->next != NULL) {
        return refuse(c, item, "a value has one name");
    }
    if (!take_item(c, item->first, &v)) {
        return false;
    }
    void *list = c->names;
    bool is_there = grow(c, &list, sizeof *c->names, c->name_count, &c->name_capacity);
    c->names = list;
    if (is_there) {
        c->names[c->name_count++] = (name){to->text, v};
    }
    return is_there;
}

static bool take_constraint(compiler *c, const gx_item *item)
{
    value v;
    if (!take_item(c, item->first, &v)) {
        return false;
    }
    gx_constraint_step step = {.op = GX_CONSTRAINT_TAKE};
    step.from[0] = read_by(&step, &v);
    step.from[1] = (uint32_t)c->taken++;
    return add_step(c, item, &step);
}

static bool take_statements(compiler *c)
{
    for (const gx_item *item = c->syntax->program->first; item != NULL; item = item->next) {
        bool is_good = item->form == GX_FORM_VALUE    ? take_constraint(c, item)
                       : item->form == GX_FORM_ASSIGN ? assign(c, item)
                                                      : refuse(c, item,
                                                               "constraints are expressions, and "
                                                               "names for them: name = expression");
        if (!is_good) {
            return false;
        }
    }
    if (c->taken == 0) {
        gx_fail(c->err, GX_ARG, "there is no constraint in the text");
    }
    return c->taken > 0;
}

// Registers ---------------------------------------------------------------------------------------

/* The step that a value comes from; -1: none. */
static int64_t step_read(const gx_constraint_step *step, int k)
{
    bool is_result = step->from[k] >> GX_CONSTRAINT_KIND == GX_CONSTRAINT_REGISTER &&
                     (k == 0 || step->op != GX_CONSTRAINT_TAKE);
    return is_result ? (int64_t)(step->from[k] & ((1u << GX_CONSTRAINT_KIND) - 1)) : -1;
}

/* A register is free from the last step that reads it: that step may leave its own result there. */
static bool give_registers(compiler *c, gx_constraints *p)
{
    int64_t *last = gx_run_alloc(c->run, (size_t)(c->steps + 1) * sizeof *last, "constraints");
    int64_t until[GX_CONSTRAINT_REGISTERS];
    for (int64_t s = 0; s < c->steps && last != NULL; s++) {
        last[s] = s; // what nothing reads is overwritten at once
        for (int k = 0; k < 2; k++) {
            int64_t from = step_read(&c->step[s], k);
            if (from >= 0) {
                last[from] = s;
            }
        }
    }
    p->registers = 0;
    for (int64_t s = 0; s < c->steps && last != NULL; s++) {
        gx_constraint_step *step = &c->step[s];
        for (int k = 0; k < 2; k++) {
            int64_t from = step_read(step, k);
            step->from[k] =
                from < 0 ? step->from[k] : from_of(GX_CONSTRAINT_REGISTER, c->step[from].dst);
        }
        int r = 0;
        while (step->op != GX_CONSTRAINT_TAKE && r < p->registers && until[r] > s) {
            r++;
        }
        if (r == GX_CONSTRAINT_REGISTERS) {
            gx_fail(c->err, GX_ARG,
                    "the constraints need more than %d values at the same time: fewer names, or "
                    "use them sooner",
                    GX_CONSTRAINT_REGISTERS);
            break;
        }
        if (step->op != GX_CONSTRAINT_TAKE) {
            p->registers = (int)gx_max(p->registers, r + 1);
            until[r] = last[s];
            step->dst = (uint16_t)r;
        }
    }
    gx_mem_free(c->run->ctx->mem, last);
    return last != NULL && c->err->code == GX_OK;
}

/* Powers of the coefficient: the last constraint's is 1. */
static bool make_powers(compiler *c, int width, const uint32_t *coefficient, gx_constraints *p)
{
    size_t bytes = (size_t)c->taken * GX_CONSTRAINT_WIDTH * sizeof(uint32_t);
    uint32_t *power = gx_run_calloc(c->run, bytes, "constraints");
    p->power = power;
    p->powers = c->taken;
    p->width = width;
    for (int64_t k = c->taken - 1; k >= 0 && power != NULL; k--) {
        uint32_t *to = power + GX_CONSTRAINT_WIDTH * k;
        if (k == c->taken - 1) {
            to[0] = 1;
        } else {
            gx_extension_mul(width, to + GX_CONSTRAINT_WIDTH, coefficient, to);
        }
    }
    return power != NULL;
}

gx_code gx_constraints_compile(gx_run *run, const char *text, size_t bytes, int64_t columns,
                               int width, const uint32_t *coefficient, gx_constraints *p)
{
    gx_err err = {0};
    compiler c = {.run = run, .err = &err, .columns = columns};
    *p = (gx_constraints){.columns = columns};
    if (!gx_ok(run)) {
        return run->err.code;
    }
    if (gx_syntax_parse(run->ctx->mem, text, bytes, &c.syntax, &err) == GX_OK &&
        take_statements(&c) && give_registers(&c, p)) {
        make_powers(&c, width, coefficient, p);
    }
    p->step = c.step;
    p->steps = c.steps;
    gx_syntax_free(c.syntax);
    gx_mem_free(run->ctx->mem, c.names);
    gx_run_fail(run, &err);
    if (!gx_ok(run)) {
        gx_constraints_clear(run, p);
    }
    return gx_ok(run) ? GX_OK : run->err.code;
}

void gx_constraints_clear(gx_run *run, gx_constraints *p)
{
    gx_mem_free(run->ctx->mem, (void *)(uintptr_t)p->step);
    gx_mem_free(run->ctx->mem, (void *)(uintptr_t)p->power);
    *p = (gx_constraints){0};
}
