/*
** Rows and fields of text with delimiters: what file_csv_field.c offers to file_csv.c.
*/
#ifndef GX_FILE_CSV_H
#define GX_FILE_CSV_H

#include "file_int.h"

/* Columns [start, stop) of the file; stop < 0: to the last.  Or the one of that name. */
typedef struct gx_csv_range {
    int64_t start, stop;
    const char *name; /* of the options' text; NULL: by number */
    int64_t name_bytes;
} gx_csv_range;

/* A file that is being read. */
typedef struct gx_csv {
    gx_import *im;
    gx_textin text;
    char delimiter;
    bool is_stop[256];    /* ends a field: the delimiter, \n, \r               */
    bool is_blank[256];   /* is left out around fields                         */
    bool is_at_comment;   /* the row ended at a comment, whose text comes next */
    gx_csv_range *ranges; /* the columns wanted; NULL = all.  Of im->mem       */
    int64_t range_count;
    bool has_names;     /* a range is a name                                 */
    bool has_header;    /* the first line is names                           */
    bool has_words;     /* it is none, but has fields that are no numbers    */
    int64_t *map;       /* field to column of the matrix or -1; NULL = itself */
    int64_t fields;     /* in a row of the file                               */
    int64_t first_line; /* number of the first row of numbers                 */
    int64_t rows, cols; /* of the matrix                                      */
    bool is_complex;    /* a field is                                         */
    int64_t looks;      /* at ranges and fields, since the last poll          */
} gx_csv;

/* A field.  Valid until the next one is read. */
typedef struct gx_csv_field {
    const char *at, *end; /* without quotes and blanks around                   */
    bool is_long;         /* too long to be looked at: at and end say nothing   */
} gx_csv_field;

/* '\0' is none: lines of one field. */
void gx_csv_set_delimiter(gx_csv *c, char delimiter);

/* The first byte in [at, end) that is no blank. */
const char *gx_csv_skip_blanks(const gx_csv *c, const char *at, const char *end);

/* Pass over the rest of a line of any length, its end included: \n, \r\n or \r. */
gx_code gx_csv_skip_line(gx_csv *c, gx_err *err);

/* Go to the next row, past blank lines and comments; *found false at the end of the file. */
gx_code gx_csv_begin_row(gx_csv *c, bool *found, gx_err *err);

/* *more: another field follows in the row. */
gx_code gx_csv_read_field(gx_csv *c, gx_csv_field *f, bool *more, gx_err *err);

/* Does the # at p, in the field that begins at first, begin a comment? */
bool gx_csv_is_comment(const gx_csv *c, const char *first, const char *p, const char *end);

/* The field's number, NaN where it says that there is none; false: it is something else. */
bool gx_csv_parse(const gx_csv *c, const gx_csv_field *f, gx_scalar *value, bool *is_complex);

/* Could the field be complex?  Then it ends with its unit or a parenthesis. */
bool gx_csv_may_be_complex(const gx_csv_field *f);

/* A name, as columns have: its first letter comes before its first digit, if it has any. */
bool gx_csv_is_name(const gx_csv_field *f);

/* The failure for a field that is no number, with what can be done about it. */
gx_code gx_csv_bad_field(const gx_csv *c, const gx_csv_field *f, int64_t column, int64_t line,
                         gx_err *err);

#endif
