/*
** The text of a program as a tree.
**
** A tree belongs to its gx_syntax and is freed with it.  Everything in it has the line and the
** column (from 1, in characters) where it begins; what fails later says so with gx_syntax_fail().
*/
#ifndef GX_SYNTAX_H
#define GX_SYNTAX_H

#include "../base/err.h"
#include "../base/mem.h"
#include "../base/types.h"

enum {
    GX_TEXT_MAX = 1 << 20, /* bytes of a program                                       */
    GX_NESTING_MAX = 400,  /* of expressions and blocks; terms of one sum count as well */
    GX_ARGUMENT_MAX = 100, /* ?100                                                     */
    GX_ITEMS_MAX = 1 << 20 /* elements, statements, nodes of all kinds                 */
};

typedef enum gx_form {
    /* expressions */
    GX_FORM_NUMBER,   /* value                                                  */
    GX_FORM_TEXT,     /* text: 'fro'                                            */
    GX_FORM_NAME,     /* text: a local name, a stored matrix or a constant      */
    GX_FORM_ARGUMENT, /* index: ?3 is 3                                         */
    GX_FORM_LIST,     /* items                                                  */
    GX_FORM_CALL,     /* text: the function's name, or the operator's; items    */
    GX_FORM_INDEX,    /* items: the matrix, then one or two subscripts          */
    GX_FORM_RANGE,    /* items: start, stop, step, each perhaps ABSENT          */
    GX_FORM_ABSENT,
    /* statements */
    GX_FORM_VALUE,  /* items: an expression                                     */
    GX_FORM_ASSIGN, /* items: the expression, then the names                    */
    GX_FORM_STORE,  /* text: the destination; items: the expression             */
    GX_FORM_REPEAT, /* items: the count, the block                              */
    GX_FORM_WHILE,  /* items: the condition, the block                          */
    GX_FORM_IF,     /* items: the condition, the block, and perhaps another     */
    GX_FORM_DEF,    /* text: the name; items: the block, then the parameters    */
    GX_FORM_BLOCK   /* items: statements                                        */
} gx_form;

typedef struct gx_item {
    gx_form form;
    bool is_quoted; /* NAME: it was in double quotes                             */
    bool is_infix;  /* CALL: an operator, whose place is its own                 */
    int line, column;
    int depth; /* of the tree under it                                           */
    int index, count;
    gx_scalar value;
    const char *text;             /* NUL-terminated, of the tree                 */
    struct gx_item *first, *last; /* items                                       */
    struct gx_item *next;         /* in whoever it is an item of                 */
} gx_item;

typedef struct gx_syntax {
    gx_mem *mem;
    const char *source; /* the whole text, a copy                                */
    size_t bytes;
    gx_item *program;       /* a BLOCK; NULL where it failed                     */
    struct gx_chunk *chunk; /* memory of the items                               */
    int64_t items;
    int arguments; /* the largest ?n                                             */
    gx_err *err;   /* while it is being parsed                                   */
    struct gx_syntax *next; /* of whoever keeps several                          */
} gx_syntax;

/* A piece of the text. */
typedef struct gx_token {
    int kind; /* of grammar.y                                                    */
    const char *at;
    size_t bytes;
    int line, column;
} gx_token;

/*
** Parse.  mem may be NULL.  GX_ARG with line, column and caret.  *out is NULL on failure, else
** freed with gx_syntax_free().
*/
gx_code gx_syntax_parse(gx_mem *mem, const char *text, size_t bytes, gx_syntax **out, gx_err *err);
void gx_syntax_free(gx_syntax *syntax); /* NULL is a no-op */

/*
** Fail with "line 2, column 7: TEXT", then the line and a caret under that column, as lines of
** their own.
*/
gx_code gx_syntax_fail(const gx_syntax *syntax, int line, int column, gx_err *err, gx_code code,
                       const char *format, ...) __attribute__((format(printf, 6, 7)));

// For the grammar's actions -----------------------------------------------------------------------

/* A failed tree makes NULL of everything; a NULL item is added to nothing. */
gx_item *gx_item_new(gx_syntax *syntax, gx_form form, const gx_token *at);
gx_item *gx_item_text(gx_syntax *syntax, gx_form form, const gx_token *at);
gx_item *gx_item_number(gx_syntax *syntax, const gx_token *at);
gx_item *gx_item_argument(gx_syntax *syntax, const gx_token *at);
/* The function `name` of one or two items; second NULL: of one. */
gx_item *gx_item_infix(gx_syntax *syntax, const char *name, const gx_token *at, gx_item *first,
                       gx_item *second);
gx_item *gx_item_add(gx_syntax *syntax, gx_item *parent, gx_item *child); /* returns parent */
void gx_syntax_unexpected(gx_syntax *syntax, const gx_token *at, bool is_end);
void gx_syntax_too_deep(gx_syntax *syntax);

/* The parser: all of syntax->source into syntax->program. */
void gx_grammar_run(gx_syntax *syntax);

// The scanner (scan.c) ----------------------------------------------------------------------------

typedef struct gx_scanner {
    const char *at, *end;
    const char *counted; /* up to here the line has `column` - 1 characters              */
    int line, column;
} gx_scanner;

/* The next token; kind 0 at the end, -1 where no token begins: *why says why. */
gx_token gx_scan(gx_scanner *scanner, const char **why);

#endif
