/*
** The reference inside gx: the pages of docs/reference/ and docs/recipes.md, as they were when gx
** was built.
**
** An entry is a heading of such a page and the text under it: a function or table ("## gx_..."),
** or a topic (any other heading, the page's own too).  Two functions in one heading are two
** entries.
*/
#ifndef GX_HELP_H
#define GX_HELP_H

#include <stdbool.h>
#include <stddef.h>

/* A piece of the pages; not NUL-terminated. */
typedef struct gx_piece {
    const char *text;
    size_t bytes;
} gx_piece;

typedef struct gx_help_entry {
    gx_piece name;    /* gx_matmul; of a topic the heading               */
    gx_piece heading; /* gx_matmul(A, B[, destination][, options])       */
    gx_piece body;    /* Markdown, without blank lines around it         */
    gx_piece page;    /* reference/algebra.md                            */
    bool is_topic;    /* not a function or table                         */
    bool is_page;     /* the heading of a page, with what stands before its entries */
} gx_help_entry;

/* *at: NULL at first.  The next entry; false at the end. */
bool gx_help_next(const char **at, gx_help_entry *entry);

/* The first sentence of an entry as plain text, at most size - 1 bytes of it; returns out. */
const char *gx_help_summary(const gx_help_entry *entry, char *out, size_t size);

/*
** A line, or a table's cell, of an entry as plain text: links without their targets, "\|" as a bar;
** at most size - 1 bytes.  Returns their number.
*/
size_t gx_help_plain(gx_piece piece, char *out, size_t size);

/*
** How well an entry answers a word, which may lack the "gx_": 4 it is its name or heading, or the
** heading's first part, 3 the word is in the name or one of those of its line "Also called: ...",
** 2 in such a one, the heading or the first sentence, 1 in the text, 0 nowhere.  Of several words
** that do not stand together: 2 where each has 2 or more, 1 where all are somewhere.
*/
int gx_help_grade(const gx_help_entry *entry, const char *word);

/* A misspelling away from the entry's name: at most a third of the word is wrong. */
bool gx_help_is_near(const gx_help_entry *entry, const char *word);

/*
** ": gx_matmul(A, B[, destination][, options])" for the function, after an error about its
** arguments; "" where it has no entry.
*/
enum { GX_USAGE_BYTES = 128 };
const char *gx_help_usage(const char *function, char out[GX_USAGE_BYTES]);

#endif
