/*
** The scanner: the text of a program as tokens.
**
** Names are letters, digits, '_' and whatever is not ASCII, with at most one dot between schema and
** matrix; .T and .H after an operand are operators, so a matrix that is called T in a schema is
** written in double quotes: "aux.T".  Comments go from -- or # to the end of the line.
*/
#include "grammar.h"
#include "syntax.h"

#include "../base/decimal.h"
#include "../base/spelling.h"

#include <string.h>

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

/* The character k places on; NUL past the end. */
static char peek(const gx_scanner *s, int64_t k)
{
    return s->end - s->at > k ? s->at[k] : '\0';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f';
}

static void skip(gx_scanner *s)
{
    while (s->at < s->end) {
        if (*s->at == '#' || (*s->at == '-' && peek(s, 1) == '-')) { // a comment
            while (s->at < s->end && *s->at != '\n') {
                s->at++;
            }
        } else if (!is_blank(*s->at)) {
            return;
        } else {
            if (*s->at == '\n') {
                s->line++;
                s->column = 1;
                s->counted = s->at + 1;
            }
            s->at++;
        }
    }
}

/* Of the scanner's place, counted on from the last one: UTF-8 characters. */
static int column_of(gx_scanner *s)
{
    for (; s->counted < s->at; s->counted++) {
        s->column += ((unsigned char)*s->counted & 0xc0) != 0x80;
    }
    return s->column;
}

/* .T or .H that no letter follows. */
static int transposition(const gx_scanner *s)
{
    char letter = peek(s, 1), after = peek(s, 2);
    if (peek(s, 0) != '.' || is_letter(after) || gx_is_digit(after)) {
        return 0;
    }
    return letter == 'T' ? GX_TK_DOT_T : letter == 'H' ? GX_TK_DOT_H : 0;
}

static int scan_name(gx_scanner *s)
{
    static const struct {
        const char *word;
        int kind;
    } words[] = {{"repeat", GX_TK_REPEAT},
                 {"while", GX_TK_WHILE},
                 {"if", GX_TK_IF},
                 {"else", GX_TK_ELSE},
                 {"def", GX_TK_DEF}};
    const char *start = s->at;
    while (is_letter(peek(s, 0)) || gx_is_digit(peek(s, 0)) ||
           (peek(s, 0) == '.' && is_letter(peek(s, 1)) && transposition(s) == 0)) {
        s->at++;
    }
    size_t bytes = (size_t)(s->at - start);
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        if (strlen(words[k].word) == bytes && memcmp(words[k].word, start, bytes) == 0) {
            return words[k].kind;
        }
    }
    return GX_TK_NAME;
}

/* 1.5e3, and 2i; -1 where there is none. */
static int scan_number(gx_scanner *s)
{
    double value;
    const char *stop;
    if (!gx_decimal_parse(s->at, s->end, &stop, &value)) {
        return -1;
    }
    s->at = stop;
    if ((peek(s, 0) == 'i' || peek(s, 0) == 'j') && !is_letter(peek(s, 1)) &&
        !gx_is_digit(peek(s, 1))) {
        s->at++;
    }
    return GX_TK_NUMBER;
}

/* 'text' or "name": to the next mark of the kind, in one line. */
static int scan_quoted(gx_scanner *s, int kind, const char **why)
{
    char mark = *s->at;
    const char *close = s->at + 1;
    while (close < s->end && *close != mark && *close != '\n') {
        close++;
    }
    if (close == s->end || *close != mark || close == s->at + 1) {
        *why = close < s->end && *close == mark ? "there is nothing between the quotes"
               : mark == '\'' ? "the quote is not closed; a transpose is A.T or A.H"
                              : "the quote is not closed";
        return -1;
    }
    s->at = close + 1;
    return kind;
}

static int scan_sign(gx_scanner *s)
{
    static const struct {
        char text[3];
        int kind;
    } signs[] = {
        {":=", GX_TK_STORE},   {"**", GX_TK_POWER}, {"<=", GX_TK_LE},      {">=", GX_TK_GE},
        {"==", GX_TK_EQ},      {"!=", GX_TK_NE},    {"<>", GX_TK_NE},      {"&&", GX_TK_AND},
        {"||", GX_TK_OR},      {"=", GX_TK_ASSIGN}, {"<", GX_TK_LT},       {">", GX_TK_GT},
        {"+", GX_TK_PLUS},     {"-", GX_TK_MINUS},  {"*", GX_TK_STAR},     {"/", GX_TK_SLASH},
        {"@", GX_TK_AT},       {"&", GX_TK_AND},    {"|", GX_TK_OR},       {"!", GX_TK_NOT},
        {"(", GX_TK_LPAREN},   {")", GX_TK_RPAREN}, {"[", GX_TK_LBRACKET}, {"]", GX_TK_RBRACKET},
        {"{", GX_TK_LBRACE},   {"}", GX_TK_RBRACE}, {",", GX_TK_COMMA},    {":", GX_TK_COLON},
        {";", GX_TK_SEMICOLON}};
    for (size_t k = 0; k < sizeof signs / sizeof signs[0]; k++) {
        size_t bytes = strlen(signs[k].text);
        if (peek(s, 0) == signs[k].text[0] && (bytes == 1 || peek(s, 1) == signs[k].text[1])) {
            s->at += bytes;
            return signs[k].kind;
        }
    }
    return -1;
}

static int scan_argument(gx_scanner *s, const char **why)
{
    s->at++;
    if (!gx_is_digit(peek(s, 0))) {
        *why = "an argument is ?1, ?2, ...";
        return -1;
    }
    while (gx_is_digit(peek(s, 0))) {
        s->at++;
    }
    return GX_TK_ARGUMENT;
}

gx_token gx_scan(gx_scanner *s, const char **why)
{
    skip(s);
    gx_token token = {.at = s->at, .line = s->line, .column = column_of(s)};
    char c = peek(s, 0);
    *why = c == '^'                        ? "a power is **, of a matrix powm(A, k)"
           : c == '%' && peek(s, 1) == '*' ? "the matrix product is A @ B"
           : c == '%'                      ? "the remainder of A divided by B is mod(A, B)"
           : c == '\\'                     ? "the solution of A X = B is solve(A, B)"
           : c == '.' ? "* / ** are by element without a dot, @ is the matrix product"
                      : "no operand or operator begins with this character";
    if (s->at == s->end) {
        token.kind = 0;
    } else if (is_letter(c)) {
        token.kind = scan_name(s);
    } else if (gx_is_digit(c) || (c == '.' && gx_is_digit(peek(s, 1)))) {
        token.kind = scan_number(s);
    } else if (c == '"') {
        token.kind = scan_quoted(s, GX_TK_NAME, why);
    } else if (c == '\'') {
        token.kind = scan_quoted(s, GX_TK_STRING, why);
    } else if (c == '?') {
        token.kind = scan_argument(s, why);
    } else if (transposition(s) != 0) {
        token.kind = transposition(s);
        s->at += 2;
    } else {
        token.kind = scan_sign(s);
    }
    token.bytes = (size_t)(s->at - token.at);
    return token;
}
