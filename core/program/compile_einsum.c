/*
** einsum('ij,jk->ik', A, B): one or two operands by letters, as other nodes.
**
** A matrix has two letters, a vector one, a number none; the result has at most two.  A letter
** twice in an operand takes its diagonal; a letter that only one operand has, and the result has
** not, is summed over there.  What is left is one of these, i and j being letters of the result:
**
**     no letter is summed        elements multiplied, spread:        i,j->ij  ij,i->ij  ij,ji->ij
**     one is, of both            a product of matrices               ik,kj->ij  ik,k->i  k,k->
**     one is, beside a letter    of both: sums along rows            ik,ik->i
**     two are                    a sum of everything                 kl,kl->  kl,lk->
*/
#include "compile.h"

#include "ops.h"
#include "shape.h"

#include <string.h>

enum { LETTERS = 2, OPERANDS = 2 };

/* An operand, or the result: letter[0] goes down, letter[1] across. */
typedef struct term {
    char letter[LETTERS + 1];
    int count;
    gx_ref ref; /* a vector is a column */
} term;

static bool has(const term *t, char letter)
{
    return memchr(t->letter, letter, (size_t)t->count) != NULL;
}

// Nodes -------------------------------------------------------------------------------------------

static gx_ref node_of(gx_compiler *c, gx_op_id id, const gx_ref *in, int count)
{
    const gx_op *op = gx_op_row(id);
    gx_node node = {.op = op};
    return gx_graph_ok(c->g) ? op->check(c->g, &node, in, count) : GX_NO_NODE;
}

static gx_ref one(gx_compiler *c, gx_op_id id, gx_ref ref)
{
    return node_of(c, id, &ref, 1);
}

/* Down the columns (0) or along the rows (1). */
static gx_ref sum_along(gx_compiler *c, gx_ref ref, int axis)
{
    gx_ref in[2] = {ref, gx_graph_number(c->g, (gx_scalar){axis, 0}, false)};
    return node_of(c, GX_OP_SUM, in, 2);
}

static gx_ref times(gx_compiler *c, gx_ref a, gx_ref b)
{
    const gx_scalar none = {0, 0};
    gx_ref in[2] = {a, b};
    return gx_graph_ok(c->g) ? gx_graph_map(c->g, GX_MAP_MUL, none, none, in, 2) : GX_NO_NODE;
}

/* With `down` down and `across` across; '\0': none.  Each letter of the term is one of them. */
static gx_ref turned(gx_compiler *c, const term *t, char down, char across)
{
    bool is_across = t->count == 1 && t->letter[0] == across && across != down;
    bool is_other = t->count == 2 && t->letter[0] == across;
    return is_across || is_other ? one(c, GX_OP_TRANSPOSE, t->ref) : t->ref;
}

// Letters -----------------------------------------------------------------------------------------

static bool fail(gx_compiler *c, const char *why, const char *text)
{
    gx_graph_fail(c->g, "einsum: %s in '%s'", why, text);
    return false;
}

static bool is_letter(char x)
{
    return (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z');
}

/* One term of the text, up to a comma, an arrow or the end. */
static bool read_term(gx_compiler *c, const char *text, const char **at, term *t)
{
    *t = (term){.ref = GX_NO_NODE};
    for (; **at != '\0' && **at != ',' && **at != '-'; ++*at) {
        if (**at == ' ') {
            continue;
        }
        if (!is_letter(**at)) {
            return fail(c, "letters, commas and one -> are expected", text);
        }
        if (t->count == LETTERS) {
            return fail(c, "a term has at most two letters", text);
        }
        t->letter[t->count++] = **at;
    }
    return true;
}

/* Without an arrow: the letters that come once, in their order. */
static bool choose_result(gx_compiler *c, const char *text, const term *in, int count, term *out)
{
    *out = (term){.ref = GX_NO_NODE};
    for (int letter = 'A'; letter <= 'z'; letter++) {
        int seen = 0;
        for (int k = 0; k < count; k++) {
            for (int i = 0; i < in[k].count; i++) {
                seen += in[k].letter[i] == letter;
            }
        }
        if (seen == 1 && out->count == LETTERS) {
            return fail(c, "the result would have more than two letters", text);
        }
        if (seen == 1) {
            out->letter[out->count++] = (char)letter;
        }
    }
    return true;
}

static bool read_text(gx_compiler *c, const char *text, int count, term *in, term *out)
{
    const char *at = text;
    for (int k = 0; k < count; k++) {
        if (!read_term(c, text, &at, &in[k])) {
            return false;
        }
        if (*at == ',' ? k + 1 == count : k + 1 < count) {
            return fail(c, "there are not as many terms as operands", text);
        }
        at += *at == ',';
    }
    if (*at == '\0') {
        return choose_result(c, text, in, count, out);
    }
    if (at[0] != '-' || at[1] != '>') {
        return fail(c, "letters, commas and one -> are expected", text);
    }
    at += 2;
    if (!read_term(c, text, &at, out) || *at != '\0') {
        return gx_graph_ok(c->g) && fail(c, "one result is expected", text);
    }
    for (int i = 0; i < out->count; i++) {
        bool is_there = false;
        for (int k = 0; k < count; k++) {
            is_there = is_there || has(&in[k], out->letter[i]);
        }
        if (!is_there || (i == 1 && out->letter[0] == out->letter[1])) {
            return fail(c, "each letter of the result comes once, and is an operand's", text);
        }
    }
    return true;
}

// Operands ----------------------------------------------------------------------------------------

/* Does the operand have as many sides as letters?  A vector becomes a column. */
static bool fit(gx_compiler *c, term *t)
{
    const gx_type *type = &gx_at_node(c->g, t->ref)->type;
    bool is_vector = type->rows == 1 || type->cols == 1, is_number = type->rows * type->cols == 1;
    if (t->count == 1 && !is_vector) {
        gx_shape_fail(c->g, t->ref, "one letter is a vector's");
    } else if (t->count == 0 && !is_number) {
        gx_shape_fail(c->g, t->ref, "no letter is a number's");
    } else if (t->count == 1 && type->cols != 1) {
        t->ref = one(c, GX_OP_TRANSPOSE, t->ref);
    }
    if (gx_graph_ok(c->g) && t->count == 2 && t->letter[0] == t->letter[1]) {
        if (type->rows != type->cols) {
            gx_shape_fail(c->g, t->ref, "a letter twice is a square matrix's");
        } else {
            t->ref = type->rows == 1 ? t->ref : one(c, GX_OP_DIAG, t->ref);
            t->count = 1;
        }
    }
    return gx_graph_ok(c->g);
}

/* Letters that nobody else has are summed over. */
static void sum_alone(gx_compiler *c, term *t, const term *other, const term *out)
{
    for (int i = t->count - 1; i >= 0; i--) {
        char letter = t->letter[i];
        if (!has(out, letter) && (other == NULL || !has(other, letter))) {
            t->ref = sum_along(c, t->ref, i);
            t->letter[0] = i == 0 ? t->letter[1] : t->letter[0];
            t->count--;
            if (i == 0 && t->count == 1) { // what was across
                t->ref = one(c, GX_OP_TRANSPOSE, t->ref);
            }
        }
    }
}

/* The sides that a letter has in both. */
static bool agree(gx_compiler *c, const term *a, const term *b)
{
    for (int i = 0; i < a->count; i++) {
        for (int j = 0; j < b->count; j++) {
            const gx_type *s = &gx_at_node(c->g, a->ref)->type;
            const gx_type *t = &gx_at_node(c->g, b->ref)->type;
            int64_t m = i == 0 ? s->rows : s->cols, n = j == 0 ? t->rows : t->cols;
            if (a->letter[i] == b->letter[j] && m != n) {
                gx_graph_fail(c->g,
                              "einsum: %c is %lld in the first operand and %lld in the second",
                              a->letter[i], (long long)m, (long long)n);
                return false;
            }
        }
    }
    return true;
}

/* Two operands of which each letter is shared or the result's. */
static gx_ref joined(gx_compiler *c, const term *a, const term *b, const term *out)
{
    char summed[LETTERS], down = out->count > 0 ? out->letter[0] : '\0';
    char across = out->count > 1 ? out->letter[1] : '\0';
    int sums = 0;
    for (int i = 0; i < a->count; i++) {
        if (!has(out, a->letter[i])) {
            summed[sums++] = a->letter[i];
        }
    }
    if (sums == 0) {
        return times(c, turned(c, a, down, across), turned(c, b, down, across));
    }
    if (sums == 2) {
        gx_ref all = times(c, a->ref, turned(c, b, a->letter[0], a->letter[1]));
        return one(c, GX_OP_SUM, all);
    }
    if (a->count == 2 && b->count == 2 && has(a, down) && has(b, down)) {
        return sum_along(
            c, times(c, turned(c, a, down, summed[0]), turned(c, b, down, summed[0])), 1);
    }
    bool is_swapped = (down != '\0' && has(b, down)) || (across != '\0' && has(a, across));
    const term *left = is_swapped ? b : a, *right = is_swapped ? a : b;
    char outer = left->count == 2 ? left->letter[left->letter[0] == summed[0]] : '\0';
    char other = right->count == 2 ? right->letter[right->letter[0] == summed[0]] : '\0';
    gx_ref in[2] = {turned(c, left, outer, summed[0]), turned(c, right, summed[0], other)};
    return node_of(c, GX_OP_MATMUL, in, 2);
}

gx_ref gx_compile_einsum(gx_compiler *c, const gx_item *call)
{
    term in[OPERANDS], out;
    const gx_item *text = call->first, *item = text->next;
    int count = call->count - 1;
    gx_compile_at(c, text);
    if (text->form != GX_FORM_TEXT) {
        return gx_graph_fail(c->g, "einsum begins with a text: einsum('ij,jk->ik', A, B)");
    }
    if (!read_text(c, text->text, count, in, &out)) {
        return GX_NO_NODE;
    }
    for (int k = 0; k < count; k++, item = item->next) {
        in[k].ref = gx_compile_expression(c, item);
        if (in[k].ref == GX_NO_NODE || !fit(c, &in[k])) {
            return GX_NO_NODE;
        }
    }
    gx_compile_at(c, call);
    if (count == 2 && !agree(c, &in[0], &in[1])) {
        return GX_NO_NODE;
    }
    for (int k = 0; k < count && gx_graph_ok(c->g); k++) {
        sum_alone(c, &in[k], count == 2 ? &in[1 - k] : NULL, &out);
    }
    if (!gx_graph_ok(c->g)) {
        return GX_NO_NODE;
    }
    char down = out.count > 0 ? out.letter[0] : '\0', across = out.count > 1 ? out.letter[1] : '\0';
    return count == 2 ? joined(c, &in[0], &in[1], &out) : turned(c, &in[0], down, across);
}
