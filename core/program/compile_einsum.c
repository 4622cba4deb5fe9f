/*
** einsum('ij,jk->ik', A, B): operands by letters, as other nodes.
**
** A matrix has two letters, a vector one, a number none; the result has at most two.  A letter
** twice in an operand takes its diagonal; a letter that only one operand has, and the result has
** not, is summed over there.  What is left of two operands is one of these, i and j being letters
** of the result:
**
**     no letter is summed        elements multiplied, spread:        i,j->ij  ij,i->ij  ij,ji->ij
**     one is, of both            a product of matrices               ik,kj->ij  ik,k->i  k,k->
**     one is, beside a letter    of both: sums along rows            ik,ik->i
**     two are                    a sum of everything                 kl,kl->  kl,lk->
**
** More operands are joined two by two, in the order that takes the fewest multiplications: of each
** set of operands the cheapest last step is found from those of smaller sets.  What a set comes to
** has the letters that the result or an operand outside has, too; a set with more than two of them
** is passed by, and a text of which all orders meet one is refused.
*/
#include "compile.h"

#include "ops.h"
#include "shape.h"

#include <math.h>
#include <string.h>

enum { LETTERS = 2, OPERANDS = GX_EINSUM_MOST, ALPHABET = 'z' - 'A' + 1 };

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

/* A letter is a bit. */
static uint64_t bit_of(char letter)
{
    return UINT64_C(1) << (letter - 'A');
}

static uint64_t letters_of(const term *t)
{
    uint64_t letters = 0;
    for (int i = 0; i < t->count; i++) {
        letters |= bit_of(t->letter[i]);
    }
    return letters;
}

/* Letters that nobody else wants are summed over. */
static void sum_alone(gx_compiler *c, term *t, uint64_t wanted)
{
    for (int i = t->count - 1; i >= 0; i--) {
        if ((bit_of(t->letter[i]) & wanted) == 0) {
            t->ref = sum_along(c, t->ref, i);
            t->letter[0] = i == 0 ? t->letter[1] : t->letter[0];
            t->count--;
            if (i == 0 && t->count == 1) { // what was across
                t->ref = one(c, GX_OP_TRANSPOSE, t->ref);
            }
        }
    }
}

/* How long the side of each letter is; false: it is not the same everywhere. */
static bool measure(gx_compiler *c, const term *in, int count, double side[ALPHABET])
{
    int first[ALPHABET] = {0};
    for (int k = 0; k < count; k++) {
        const gx_type *type = &gx_at_node(c->g, in[k].ref)->type;
        for (int i = 0; i < in[k].count; i++) {
            int letter = in[k].letter[i] - 'A';
            double length = (double)(i == 0 ? type->rows : type->cols);
            if (first[letter] != 0 && side[letter] != length) {
                gx_graph_fail(c->g, "einsum: %c is %.0f in operand %d and %.0f in operand %d",
                              in[k].letter[i], side[letter], first[letter], length, k + 1);
                return false;
            }
            first[letter] = k + 1;
            side[letter] = length;
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
        return sum_along(c, times(c, turned(c, a, down, summed[0]), turned(c, b, down, summed[0])),
                         1);
    }
    bool is_swapped = (down != '\0' && has(b, down)) || (across != '\0' && has(a, across));
    const term *left = is_swapped ? b : a, *right = is_swapped ? a : b;
    char outer = left->count == 2 ? left->letter[left->letter[0] == summed[0]] : '\0';
    char other = right->count == 2 ? right->letter[right->letter[0] == summed[0]] : '\0';
    gx_ref in[2] = {turned(c, left, outer, summed[0]), turned(c, right, summed[0], other)};
    return node_of(c, GX_OP_MATMUL, in, 2);
}

// Order -------------------------------------------------------------------------------------------

/* Of sets of operands, each a mask of bits: how they are best joined. */
typedef struct order {
    const term *in;
    term out;
    double side[ALPHABET];
    int all;                         /* the mask of all operands                                */
    uint64_t letters[1 << OPERANDS]; /* of what the set comes to                              */
    double cost[1 << OPERANDS];      /* multiplications; infinite: more than two letters      */
    int16_t left[1 << OPERANDS];     /* the part of the set that is on the left of its last step */
} order;

static double size_of(const order *o, uint64_t letters)
{
    double size = 1;
    for (; letters != 0; letters &= letters - 1) {
        size *= o->side[__builtin_ctzll(letters)];
    }
    return size;
}

static void find_letters(order *o)
{
    for (int set = 1; set <= o->all; set++) {
        uint64_t inside = 0, outside = letters_of(&o->out);
        for (int k = 0; 1 << k <= o->all; k++) {
            *((set >> k & 1) != 0 ? &inside : &outside) |= letters_of(&o->in[k]);
        }
        o->letters[set] = inside & outside;
    }
}

static void find_order(order *o)
{
    find_letters(o);
    for (int set = 1; set <= o->all; set++) {
        int first = set & -set, others = set ^ first;
        o->cost[set] = others == 0 ? 0 : (double)INFINITY;
        if (others == 0 || __builtin_popcountll(o->letters[set]) > LETTERS) {
            continue;
        }
        for (int more = (others - 1) & others;; more = (more - 1) & others) { // others' parts
            int left = first | more, right = set ^ left;
            double cost =
                o->cost[left] + o->cost[right] + size_of(o, o->letters[left] | o->letters[right]);
            if (cost < o->cost[set]) {
                o->cost[set] = cost;
                o->left[set] = (int16_t)left;
            }
            if (more == 0) {
                break;
            }
        }
    }
}

/* What a set comes to. */
static term join(gx_compiler *c, const order *o, int set)
{
    if ((set & (set - 1)) == 0) {
        return o->in[__builtin_ctz((unsigned)set)];
    }
    term a = join(c, o, o->left[set]), b = join(c, o, set ^ o->left[set]);
    term out = {.ref = GX_NO_NODE};
    for (int i = 0; i < a.count + b.count; i++) {
        char letter = i < a.count ? a.letter[i] : b.letter[i - a.count];
        if ((bit_of(letter) & o->letters[set]) != 0 && !has(&out, letter)) {
            out.letter[out.count++] = letter;
        }
    }
    out = set == o->all ? o->out : out;
    out.ref = gx_graph_ok(c->g) ? joined(c, &a, &b, &out) : GX_NO_NODE;
    return out;
}

/* All operands, two by two. */
static gx_ref join_all(gx_compiler *c, const char *text, order *o)
{
    find_order(o);
    if (isinf(o->cost[o->all])) {
        fail(c, "joined two by two the operands come to more than two letters", text);
        return GX_NO_NODE;
    }
    return join(c, o, o->all).ref;
}

/* The operands, each letter of which somebody else wants, as the result. */
static gx_ref contract(gx_compiler *c, const char *text, term *in, int count, order *o)
{
    for (int k = 0; k < count && gx_graph_ok(c->g); k++) {
        uint64_t wanted = letters_of(&o->out);
        for (int other = 0; other < count; other++) {
            wanted |= other == k ? 0 : letters_of(&in[other]);
        }
        sum_alone(c, &in[k], wanted);
    }
    if (!gx_graph_ok(c->g)) {
        return GX_NO_NODE;
    }
    const term *out = &o->out;
    char down = out->count > 0 ? out->letter[0] : '\0';
    char across = out->count > 1 ? out->letter[1] : '\0';
    return count == 1 ? turned(c, &in[0], down, across) : join_all(c, text, o);
}

static gx_ref of_terms(gx_compiler *c, const char *text, term *in, int count, const term *out)
{
    void *memory;
    if (gx_mem_alloc(c->g->mem, sizeof(order), "einsum", &memory, &c->g->err) != GX_OK) {
        return GX_NO_NODE;
    }
    order *o = memory;
    o->in = in;
    o->out = *out;
    o->all = (1 << count) - 1;
    gx_ref ref = measure(c, in, count, o->side) ? contract(c, text, in, count, o) : GX_NO_NODE;
    gx_mem_free(c->g->mem, memory);
    return ref;
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
    return of_terms(c, text->text, in, count, &out);
}
