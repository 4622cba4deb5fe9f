/*
** The parser of programs, without a database.
**
** Plan:
**   1  trees: operators bind as said, in every pair of neighbours; postfix, subscripts, statements
**   2  places: line and column of items and failures, the caret, characters that are not ASCII
**   3  limits: nesting, stack, text, arguments; every prefix of a program parses or fails in words
**   4  memory: each allocation failed once leaves nothing
**   5  lines: order, quantiles, running sums of one line
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "program/lines.h"
#include "program/order.h"
#include "program/syntax.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Trees as text -----------------------------------------------------------------------------------

static void print(const gx_item *item, char *out, size_t room)
{
    size_t used = strlen(out);
    if (item->form == GX_FORM_NUMBER) {
        snprintf(out + used, room - used, "%g", item->value.re);
        return;
    }
    static const char *const forms[] = {
        "number", "text", "",   "?",      "list",  "",   "index", "range", "-",
        "value",  "=",    ":=", "repeat", "while", "if", "def",   "block"};
    snprintf(out + used, room - used, "%s%s", forms[item->form], item->text);
    if (item->first == NULL) {
        return;
    }
    strncat(out, "(", room - strlen(out) - 1);
    for (const gx_item *part = item->first; part != NULL; part = part->next) {
        print(part, out, room);
        strncat(out, part->next == NULL ? ")" : " ", room - strlen(out) - 1);
    }
}

static gx_code parse(const char *text, char *out, size_t room, gx_err *err)
{
    gx_syntax *syntax;
    out[0] = '\0';
    memset(err, 0, sizeof *err);
    gx_code code = gx_syntax_parse(NULL, text, strlen(text), &syntax, err);
    if (code == GX_OK) {
        print(syntax->program, out, room);
        gx_syntax_free(syntax);
    } else {
        assert_null(syntax);
    }
    return code;
}

static void check_tree(const char *text, const char *want)
{
    char got[4096];
    gx_err err;
    if (parse(text, got, sizeof got, &err) != GX_OK) {
        fail_msg("%s: %s", text, err.text);
    }
    assert_string_equal(got, want);
}

static void test_trees(void **state)
{
    (void)state;
    check_tree("a + b * c", "block(value(add(a mul(b c))))");
    check_tree("a @ b @ c", "block(value(matmul(matmul(a b) c)))");
    check_tree("-a ** b", "block(value(neg(pow(a b))))");
    check_tree("a ** -b ** c", "block(value(pow(a neg(pow(b c)))))");
    check_tree("a < b & c < d | e", "block(value(logical_or(logical_and(less(a b) less(c d)) e)))");
    check_tree("a.T[0, :].H", "block(value(adjoint(index(transpose(a) 0 range(- -)))))");
    check_tree("f(a)[1:2:3]", "block(value(index(f(a) range(1 2 3))))");
    check_tree("x = y; z", "block(=(y x) value(z))");
    check_tree("q, r = f(x);", "block(=(f(x) q r))");
    check_tree("C := a", "block(:=C(a))");
    check_tree("repeat 3 { x = 1 } y", "block(repeat(3 block(=(1 x))) value(y))");
    check_tree("if a { } else if b { } else { c }",
               "block(if(a block block(if(b block block(value(c))))))");
    check_tree("def f(a, b) { a }", "block(def"
                                    "f(block(value(a)) a b))");
    check_tree("[[1, 2], [3, 4]]", "block(value(list(list(1 2) list(3 4))))");
    check_tree("temp.A.T", "block(value(transpose(temp.A)))");
    check_tree("\"odd name\" # comment\n + 'x' -- more", "block(value(add(odd name textx)))");
}

// Places ------------------------------------------------------------------------------------------

static void check_error(const char *text, const char *want)
{
    char got[4096];
    gx_err err;
    assert_int_equal(parse(text, got, sizeof got, &err), GX_ARG);
    assert_string_equal(err.text, want);
}

static void test_places(void **state)
{
    (void)state;
    check_error("a +\n * b", "line 2, column 2: '*' is not expected here\n   * b\n   ^");
    check_error("\xc3\xa9 = $",
                "line 1, column 5: no operand or operator begins with this character"
                "\n  \xc3\xa9 = $\n      ^");
    check_error("a; b }", "line 1, column 6: '}' is not expected here\n  a; b }\n       ^");
    check_error("f(",
                "line 1, column 3: the program ends in the middle of a statement\n  f(\n    ^");
    check_error("?0", "line 1, column 1: arguments are ?1 to ?100\n  ?0\n  ^");
    check_error("'a\nb'", "line 1, column 1: the quote is not closed; a transpose is A.T or A.H\n"
                          "  'a\n  ^");
}

// Limits ------------------------------------------------------------------------------------------

static void test_limits(void **state)
{
    static char text[GX_TEXT_MAX + 2], got[64];
    gx_err err;
    (void)state;
    memset(text, '(', 100000);
    assert_int_equal(parse(text, got, sizeof got, &err), GX_ARG);
    memset(text, ' ', sizeof text - 1);
    assert_int_equal(parse(text, got, sizeof got, &err), GX_ARG); // too long
    memset(text, 0, sizeof text);
    for (int k = 0; k < GX_NESTING_MAX + 10; k++) {
        memcpy(text + 2 * k, "1+", 2);
    }
    assert_int_equal(parse(text, got, sizeof got, &err), GX_ARG);
}

static const char LONG[] = "x = ?1; def f(a) { a @ a.T + 2i } Q, R = f([[1, 2], [3, x[0, ::-1]]]);"
                           "repeat 3 { while x < 1 { if !x { y = 'fro' } else { z := -x ** 2 } } }";

static void test_prefixes(void **state)
{
    char text[sizeof LONG], got[4096];
    gx_err err;
    (void)state;
    for (size_t n = 0; n < sizeof LONG; n++) {
        memcpy(text, LONG, n);
        text[n] = '\0';
        gx_code code = parse(text, got, sizeof got, &err);
        assert_true(code == GX_OK || (code == GX_ARG && strncmp(err.text, "line 1", 6) == 0));
    }
}

// Memory ------------------------------------------------------------------------------------------

static void test_memory(void **state)
{
    gx_err err = {0};
    gx_mem *mem;
    (void)state;
    assert_int_equal(gx_mem_create(1 << 20, &mem, &err), GX_OK);
    size_t before = gx_mem_used(mem);
    for (size_t limit = before; limit < before + 40000; limit += 500) {
        gx_syntax *syntax;
        gx_err failed = {0};
        gx_mem_set_limit(mem, limit);
        if (gx_syntax_parse(mem, LONG, sizeof LONG - 1, &syntax, &failed) == GX_OK) {
            gx_syntax_free(syntax);
        } else {
            assert_int_equal(failed.code, GX_BUDGET);
        }
        assert_int_equal(gx_mem_used(mem), before);
    }
    gx_mem_free_all(mem);
}

// Lines -------------------------------------------------------------------------------------------

static void test_lines(void **state)
{
    double work[64], line[5] = {3, 1, 2, 1, 5};
    (void)state;
    assert_true(gx_order_bytes(5) <= sizeof work * 4);
    assert_true(gx_line_reduce(NULL, GX_OP_MEDIAN, line, 5, false, 0, work).re == 2);
    assert_true(gx_line_reduce(NULL, GX_OP_QUANTILE, line, 5, false, 0.875, work).re == 4);
    assert_true(gx_line_reduce(NULL, GX_OP_ARGMIN, line, 5, false, 0, work).re == 1);
    assert_true(gx_line_reduce(NULL, GX_OP_PROD, line, 5, false, 0, work).re == 30);
    gx_line_along(NULL, GX_OP_ARGSORT, line, 5, false, work);
    const double order[5] = {1, 3, 2, 0, 4};
    assert_memory_equal(line, order, sizeof order);
    line[2] = (double)NAN;
    assert_true(isnan(gx_line_reduce(NULL, GX_OP_MAX, line, 5, false, 0, work).re));
    gx_line_along(NULL, GX_OP_SORT, line, 5, false, work);
    assert_true(isnan(line[4]) && line[0] == 0);
    double pairs[4] = {1, 1, 0, 1};
    gx_line_along(NULL, GX_OP_CUMPROD, pairs, 2, true, work);
    assert_true(pairs[2] == -1 && pairs[3] == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trees),  cmocka_unit_test(test_places),
        cmocka_unit_test(test_limits), cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_memory), cmocka_unit_test(test_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
