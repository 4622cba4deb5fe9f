// The grammar of a program.  The build makes grammar.c and grammar.h of it with lemon, SQLite's parser generator.
//
// Statements are separated by ';', which may be left out after '}'.  Operators bind as in Python,
// but '&' and '|' bind less than comparisons: 0 < x & x < 1 is what it looks like.

%name gx_grammar
%token_prefix GX_TK_
%token_type {gx_token}
%default_type {gx_item *}
%extra_argument {gx_syntax *syntax}
%stack_size 1000
%include {
#include "syntax.h"
#include <assert.h>
#include <stdbool.h>
#define YYNOERRORRECOVERY 1
#define gx_grammar_ENGINEALWAYSONSTACK 1
}
%syntax_error { gx_syntax_unexpected(syntax, &TOKEN, yymajor == 0); }
%stack_overflow { gx_syntax_too_deep(syntax); }

%left OR.
%left AND.
%nonassoc LT LE GT GE EQ NE.
%left PLUS MINUS.
%left STAR SLASH AT.
%right SIGN NOT.
%right POWER.

program ::= statements(B). { syntax->program = B; }

statements(B) ::= list(L).                 { B = L; }
statements(B) ::= list(L) simple(S).       { B = gx_item_add(syntax, L, S); }
list(B) ::= .                              { B = gx_item_new(syntax, GX_FORM_BLOCK, NULL); }
list(B) ::= list(L) SEMICOLON.             { B = L; }
list(B) ::= list(L) simple(S) SEMICOLON.   { B = gx_item_add(syntax, L, S); }
list(B) ::= list(L) compound(S).           { B = gx_item_add(syntax, L, S); }

block(B) ::= LBRACE statements(L) RBRACE.  { B = L; }

simple(S) ::= expr(E). {
    S = E == NULL ? NULL
                  : gx_item_add(syntax, gx_item_new(syntax, GX_FORM_VALUE,
                        &(gx_token){.line = E->line, .column = E->column}), E);
}
simple(S) ::= targets(N) ASSIGN(A) expr(E). {
    gx_item *assign = gx_item_add(syntax, gx_item_new(syntax, GX_FORM_ASSIGN, &A), E);
    for (gx_item *name = N == NULL ? NULL : N->first, *next; name != NULL; name = next) {
        next = name->next;
        gx_item_add(syntax, assign, name);
    }
    S = assign;
}
simple(S) ::= name(N) STORE expr(E). {
    if (N != NULL) {
        N->form = GX_FORM_STORE;
    }
    S = gx_item_add(syntax, N, E);
}
targets(L) ::= name(N).                  { L = gx_item_add(syntax, gx_item_new(syntax, GX_FORM_LIST, NULL), N); }
targets(L) ::= targets(T) COMMA name(N). { L = gx_item_add(syntax, T, N); }
name(N) ::= NAME(T).                     { N = gx_item_text(syntax, GX_FORM_NAME, &T); }

compound(S) ::= REPEAT(T) expr(C) block(B). {
    S = gx_item_add(syntax, gx_item_add(syntax, gx_item_new(syntax, GX_FORM_REPEAT, &T), C), B);
}
compound(S) ::= WHILE(T) expr(C) block(B). {
    S = gx_item_add(syntax, gx_item_add(syntax, gx_item_new(syntax, GX_FORM_WHILE, &T), C), B);
}
compound(S) ::= choice(C). { S = C; }
choice(S) ::= IF(T) expr(C) block(B). {
    S = gx_item_add(syntax, gx_item_add(syntax, gx_item_new(syntax, GX_FORM_IF, &T), C), B);
}
choice(S) ::= IF(T) expr(C) block(B) ELSE block(E). {
    S = gx_item_add(syntax, gx_item_new(syntax, GX_FORM_IF, &T), C);
    S = gx_item_add(syntax, gx_item_add(syntax, S, B), E);
}
choice(S) ::= IF(T) expr(C) block(B) ELSE(X) choice(E). {
    gx_item *other = gx_item_add(syntax, gx_item_new(syntax, GX_FORM_BLOCK, &X), E);
    S = gx_item_add(syntax, gx_item_new(syntax, GX_FORM_IF, &T), C);
    S = gx_item_add(syntax, gx_item_add(syntax, S, B), other);
}
compound(S) ::= DEF name(N) LPAREN parameters(P) RPAREN block(B). {
    if (N != NULL) {
        N->form = GX_FORM_DEF;
    }
    gx_item_add(syntax, N, B);
    for (gx_item *name = P == NULL ? NULL : P->first, *next; name != NULL; name = next) {
        next = name->next;
        gx_item_add(syntax, N, name);
    }
    S = N;
}
parameters(L) ::= .           { L = NULL; }
parameters(L) ::= targets(T). { L = T; }

expr(X) ::= expr(A) OR(O) expr(B).    { X = gx_item_infix(syntax, "logical_or", &O, A, B); }
expr(X) ::= expr(A) AND(O) expr(B).   { X = gx_item_infix(syntax, "logical_and", &O, A, B); }
expr(X) ::= expr(A) LT(O) expr(B).    { X = gx_item_infix(syntax, "less", &O, A, B); }
expr(X) ::= expr(A) LE(O) expr(B).    { X = gx_item_infix(syntax, "less_equal", &O, A, B); }
expr(X) ::= expr(A) GT(O) expr(B).    { X = gx_item_infix(syntax, "greater", &O, A, B); }
expr(X) ::= expr(A) GE(O) expr(B).    { X = gx_item_infix(syntax, "greater_equal", &O, A, B); }
expr(X) ::= expr(A) EQ(O) expr(B).    { X = gx_item_infix(syntax, "equal", &O, A, B); }
expr(X) ::= expr(A) NE(O) expr(B).    { X = gx_item_infix(syntax, "not_equal", &O, A, B); }
expr(X) ::= expr(A) PLUS(O) expr(B).  { X = gx_item_infix(syntax, "add", &O, A, B); }
expr(X) ::= expr(A) MINUS(O) expr(B). { X = gx_item_infix(syntax, "sub", &O, A, B); }
expr(X) ::= expr(A) STAR(O) expr(B).  { X = gx_item_infix(syntax, "mul", &O, A, B); }
expr(X) ::= expr(A) SLASH(O) expr(B). { X = gx_item_infix(syntax, "div", &O, A, B); }
expr(X) ::= expr(A) AT(O) expr(B).    { X = gx_item_infix(syntax, "matmul", &O, A, B); }
expr(X) ::= expr(A) POWER(O) expr(B). { X = gx_item_infix(syntax, "pow", &O, A, B); }
expr(X) ::= MINUS(O) expr(A). [SIGN]  { X = gx_item_infix(syntax, "neg", &O, A, NULL); }
expr(X) ::= PLUS expr(A). [SIGN]      { X = A; }
expr(X) ::= NOT(O) expr(A).           { X = gx_item_infix(syntax, "logical_not", &O, A, NULL); }
expr(X) ::= primary(A).               { X = A; }

primary(X) ::= NUMBER(T).             { X = gx_item_number(syntax, &T); }
primary(X) ::= STRING(T).             { X = gx_item_text(syntax, GX_FORM_TEXT, &T); }
primary(X) ::= ARGUMENT(T).           { X = gx_item_argument(syntax, &T); }
primary(X) ::= name(N).               { X = N; }
primary(X) ::= LPAREN expr(A) RPAREN. { X = A; }
primary(X) ::= primary(A) DOT_T(O).   { X = gx_item_infix(syntax, "transpose", &O, A, NULL); }
primary(X) ::= primary(A) DOT_H(O).   { X = gx_item_infix(syntax, "adjoint", &O, A, NULL); }
primary(X) ::= name(N) LPAREN arguments(L) RPAREN. {
    if (N != NULL) {
        N->form = GX_FORM_CALL;
    }
    for (gx_item *item = L == NULL ? NULL : L->first, *next; item != NULL; item = next) {
        next = item->next;
        gx_item_add(syntax, N, item);
    }
    X = N;
}
primary(X) ::= REPEAT(T) LPAREN expr(A) COMMA items(L) RPAREN. {
    X = gx_item_add(syntax, gx_item_text(syntax, GX_FORM_CALL, &T), A);
    for (gx_item *item = L == NULL ? NULL : L->first, *next; item != NULL; item = next) {
        next = item->next;
        gx_item_add(syntax, X, item);
    }
}
primary(X) ::= LBRACKET(T) arguments(L) RBRACKET. {
    if (L != NULL) {
        L->line = T.line;
        L->column = T.column;
    }
    X = L;
}
primary(X) ::= primary(A) LBRACKET(T) subscript(I) RBRACKET. {
    X = gx_item_add(syntax, gx_item_add(syntax, gx_item_new(syntax, GX_FORM_INDEX, &T), A), I);
}
primary(X) ::= primary(A) LBRACKET(T) subscript(I) COMMA subscript(J) RBRACKET. {
    X = gx_item_add(syntax, gx_item_add(syntax, gx_item_new(syntax, GX_FORM_INDEX, &T), A), I);
    X = gx_item_add(syntax, X, J);
}
arguments(L) ::= .                             { L = gx_item_new(syntax, GX_FORM_LIST, NULL); }
arguments(L) ::= items(T).                     { L = T; }
items(L) ::= expr(E).                          { L = gx_item_add(syntax, gx_item_new(syntax, GX_FORM_LIST, NULL), E); }
items(L) ::= items(T) COMMA expr(E).           { L = gx_item_add(syntax, T, E); }

subscript(S) ::= expr(E).                      { S = E; }
subscript(S) ::= bound(A) COLON(T) bound(B). {
    S = gx_item_add(syntax, gx_item_add(syntax, gx_item_new(syntax, GX_FORM_RANGE, &T), A), B);
}
subscript(S) ::= bound(A) COLON(T) bound(B) COLON bound(C). {
    S = gx_item_add(syntax, gx_item_add(syntax, gx_item_new(syntax, GX_FORM_RANGE, &T), A), B);
    S = gx_item_add(syntax, S, C);
}
bound(B) ::= .        { B = gx_item_new(syntax, GX_FORM_ABSENT, NULL); }
bound(B) ::= expr(E). { B = E; }

%code {
void gx_grammar_run(gx_syntax *syntax)
{
    yyParser parser;
    gx_scanner scanner = {.at = syntax->source,
                          .end = syntax->source + syntax->bytes,
                          .counted = syntax->source,
                          .line = 1,
                          .column = 1};
    gx_grammarInit(&parser);
    for (gx_token token = {.kind = 1}; token.kind > 0 && syntax->err->code == GX_OK;) {
        const char *why;
        token = gx_scan(&scanner, &why);
        if (token.kind < 0) {
            gx_syntax_fail(syntax, token.line, token.column, syntax->err, GX_ARG, "%s", why);
        } else {
            gx_grammar(&parser, token.kind, token, syntax);
        }
    }
    gx_grammarFinalize(&parser);
}
}
