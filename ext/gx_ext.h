/*
** Shared inside ext/: one SQL call from arguments to result.
**
** Every SQL function of gx has this shape (<= 20 lines):
**
**     static void matmul(gx_fn *fn)
**     {
**         matmul_options opt = {...};
**         gx_mat A, B;
**         gx_sink C;
**         if (gx_fn_options(fn, options, &opt) && gx_fn_matrix(fn, 0, "A", &A) &&
**             gx_fn_matrix(fn, 1, "B", &B)) {
**             gx_sink_begin(&fn->run, &fn->dest, ..., &C);
**             gx_alg_matmul(&fn->run, &A, &B, ..., &C);
**             gx_fn_result_sink(fn, &C);
**         }
**     }
**
** and one row of facts in the table of its file (gx_function).
**
** gx_fn_* helpers return false once the call has failed; the failure sits in fn->run.err and is
** turned into SQLite's result, with the function's name in front, by the one dispatcher in
** functions.c.  Memory that an argument needed belongs to the call (gx_fn_own): a body clears no
** operand and frees nothing that it did not allocate itself.
*/
#ifndef GX_EXT_H
#define GX_EXT_H

#include "../core/mat/mat.h"
#include "../core/program/program.h"
#include "../core/run/run.h"
#include "../core/stat/dist.h"

#include "gx.h"

#include <sqlite3ext.h>

SQLITE_EXTENSION_INIT3

/* Newer than the oldest headers; older libraries ignore it. */
#ifndef SQLITE_RESULT_SUBTYPE
#define SQLITE_RESULT_SUBTYPE 0x001000000
#endif

typedef struct gx_fn gx_fn;

/* What a function's row says of it beside its name and the number of its arguments. */
enum {
    GX_PURE = 1,      /* of its values alone: DETERMINISTIC | INNOCUOUS; else DIRECTONLY        */
    GX_DEST_KEYS = 2, /* its options are also those of a destination: dtype, saturate, replace  */
    GX_CHANGES = 4,   /* argument 0 names a stored matrix that it changes                       */
    GX_DEST_LATE = 8, /* the body finds its destination: arguments before it may be left out    */
    GX_EXACT = 128,   /* its arguments may be of m31 (field.h); else they are refused           */
};
#define GX_SPARSE(k) (16u << (k))    /* argument k, at most 2, may be sparse              */
#define GX_DEST(k) (((k) + 1u) << 8) /* argument k is the destination                     */
#define GX_MADE(k) (GX_DEST(k) | GX_DEST_KEYS) /* a new matrix, stored as argument k says       */

/* One SQL function.  Registered with any number of arguments; the dispatcher checks the count. */
typedef struct gx_function {
    const char *name;
    int min_args, max_args; /* with destination and options; max_args -1: any */
    uint32_t facts;
    void (*body)(gx_fn *fn);
    int variant; /* which of the functions that share the body */
} gx_function;

/* The argument that is the destination, in all of its places; -1: none. */
static inline int gx_dest_index(const gx_function *def)
{
    return (int)(def->facts >> 8) - 1;
}

enum { GX_FN_LENT = 16 }; /* lent arrays in one call */

struct gx_fn {
    sqlite3_context *sql;
    const gx_function *def;
    gx_ctx *ctx;
    gx_run run;
    int argc; /* without the options object */
    sqlite3_value **argv;
    gx_err err;            /* of a call below: gx_fn_check(fn, call(..., &fn->err))   */
    gx_dest dest;          /* of the function whose row has one: see gx_fn_options()  */
    const char *dest_name; /* remembered by gx_fn_dest: what a stored result returns  */
    void **owned;          /* freed with gx_mem_free() when the call ends; gx_fn_own() */
    int owned_count, owned_capacity;
    void *owned_first[8];             /* where owned points as long as 8 suffice */
    struct gx_lent *lent[GX_FN_LENT]; /* arrays that arguments stand for, until the call ends */
    int lent_index[GX_FN_LENT];       /* which argument                                       */
    int lent_count;
    struct sqlite3_stmt *use;   /* of the vector table that is worked with, until the call ends */
    int dest_at;                /* which argument is the destination: the latest; or -1 */
    gx_landing place;           /* of the destination, where that is one of them            */
    bool has_place, is_placed;  /* there is such a destination, and the result is in it */
    bool has_field, has_sparse; /* an argument is of m31, is sparse: never both */
    bool is_locked;             /* the dispatcher ends a gx_store_begin() after the body */
};

/*
** A call as the dispatcher makes it, for table-valued functions (table_fn.c): begin returns false
** where the count of arguments is wrong; end is called whatever begin returned, frees what the call
** owns, and returns the run's code.  sql may be NULL: then there is no result to put.
*/
bool gx_fn_begin(gx_fn *fn, sqlite3_context *sql, gx_ctx *ctx, const gx_function *def, int argc,
                 sqlite3_value **argv);
gx_code gx_fn_end(gx_fn *fn);

// Options (options.c) -----------------------------------------------------------------------------

typedef enum gx_option_type {
    GX_OPT_BOOL,   /* bool: JSON true/false or 0/1                          */
    GX_OPT_INT,    /* int64_t: an integer, at most 2^53                     */
    GX_OPT_STEPS,  /* int64_t: the same, or true (GX_OPT_STEPS_ALL), false (0) */
    GX_OPT_REAL,   /* double: number, or "nan", "inf", "-inf"               */
    GX_OPT_SCALAR, /* gx_scalar: number, [re, im] or "1+2i"                 */
    GX_OPT_TEXT,   /* char[64]                                              */
    GX_OPT_WORD,   /* int: the number of a word of the key's list           */
    GX_OPT_DTYPE,  /* gx_dtype                                               */
    GX_OPT_NAME,   /* const char *: a destination, as long as the call lives */
    GX_OPT_LIST,   /* const char *: "0,2,5:9", a number, or a list of these, as such a text */
    GX_OPT_TEXTS,  /* const char *: a text, a whole number, or a list of these, by lines        */
    GX_OPT_MATRIX, /* const char *: a name, or a list (of lists) of whole numbers as a literal   */
    GX_OPT_END
} gx_option_type;

enum { GX_OPT_STEPS_ALL = INT32_MAX };

/*
** All of the text as a tree of cJSON's, the caller's to delete.  NULL: *rest is where it stops
** being JSON; NULL where there is a NUL character in it, written out or escaped, which would cut a
** string short.
*/
struct cJSON *gx_json_parse(const char *text, size_t bytes, const char **rest);

/*
** The key of a number may say which numbers are taken: "tol=[0,1)", "k=[1,inf]"; that of a word has
** the list of them: "norm=one/1|inf", where names of one and the same stand on either side of '/'.
*/
typedef struct gx_option {
    const char *key;
    gx_option_type type;
    size_t offset;     /* of the field in the caller's struct                             */
    size_t set_offset; /* of a bool set true when the key is given; 0: none (so no such bool
                          at offset 0) */
} gx_option;

/*
** Take the trailing options object (TEXT starting with '{') off the arguments, if there is one,
** into out, and what the row says of a destination (GX_DEST_KEYS, GX_DEST) into fn->dest.  spec
** ends with GX_OPT_END; NULL: no options of the function's own.  Call first, before the positional
** arguments are looked at.  Refused in words: bad JSON, an unknown key (with the known ones), a key
** given twice, a value of the wrong type or out of its range; where there are options and all
** max_args arguments came, a last one that is no object.  null leaves the default.
*/
bool gx_fn_options(gx_fn *fn, const gx_option *spec, void *out);

/* The number of the text among "auto|none|jacobi", without regard to case; -1: it is none. */
int gx_word_of(const char *words, const char *text);

/* The same for a message, "one of auto, none, jacobi", without other names; returns it. */
enum { GX_WORDS_BYTES = 400 };
const char *gx_words_list(const char *words, char list[GX_WORDS_BYTES]);

/* A copy of A, sparse or not, as a sink that is the caller's to end (fn_store.c). */
void gx_copy_any(gx_run *run, const gx_mat *A, const gx_dest *dest, uint32_t properties,
                 gx_sink *C);

/* A check that has found something, which text says, is an event of damage. */
void gx_check_failed(gx_ctx *ctx, sqlite3_str *text);

/* "f32" or its like, of an argument. */
bool gx_fn_dtype(gx_fn *fn, int index, gx_dtype *dtype);

// Arguments (args.c) ------------------------------------------------------------------------------

/*
** Argument index as a matrix, in any of its forms: name, JSON literal, matrix value, number.  The
** elements are the argument's own bytes where these are aligned, else a copy that the call owns.
** A sparse one is refused in words, unless the function's row has GX_SPARSE(index); one of m31,
** unless it has GX_EXACT.
*/
bool gx_fn_matrix(gx_fn *fn, int index, const char *label, gx_mat *out);

/*
** A stored factorisation (gx_lu, gx_qr) is refused there in words.  Here one of that kind is
** welcome (GX_AUX_ANY: of every kind): gx_fn_factor also gives its pivots or tau, which the call
** owns (kind GX_AUX_NONE: an ordinary matrix); the other one is for looking and copying.
*/
enum { GX_AUX_ANY = -1 };
bool gx_fn_factor(gx_fn *fn, int index, const char *label, int kind, gx_mat *out, gx_aux *aux);
bool gx_fn_matrix_or_factor(gx_fn *fn, int index, const char *label, gx_mat *out);

/* What some functions ask of a matrix; they report. */
bool gx_fn_is_square(gx_fn *fn, const gx_mat *A);
bool gx_fn_is_ordered(gx_fn *fn, const gx_mat *A); /* real: complex numbers have no order */
bool gx_fn_refuse_sparse(gx_fn *fn, const gx_mat *A);
bool gx_fn_refuse_factor(gx_fn *fn, const gx_mat *A);

/*
** The same of a text in the options: a stored matrix's name, or a matrix written out, '[1,2]'.  No
** factorisation.
*/
bool gx_fn_option_matrix(gx_fn *fn, const char *label, const char *text, gx_mat *out);

/*
** The same with an explicit sqlite3_value, for aggregates and table-valued functions.  out never
** refers to the value afterwards; the caller clears it with gx_mat_clear(out, ctx->mem).
*/
gx_code gx_arg_matrix(gx_ctx *ctx, sqlite3_value *value, const char *label, gx_mat *out,
                      gx_err *err);
gx_code gx_arg_matrix_any(gx_ctx *ctx, sqlite3_value *value, const char *label, gx_mat *out,
                          gx_err *err); /* or a sparse one */

/*
** Argument index as the destination, when present and not NULL; else *dest stays as it is.
** dest->name points into the argument.  Also remembers a dest->name that an option set.
*/
bool gx_fn_dest(gx_fn *fn, int index, gx_dest *dest);

/* May a result be stored under that name?  Where, then: better known before the work than after. */
bool gx_fn_is_free(gx_fn *fn, const char *name, bool replace, char schema[GX_NAME_MAX + 1],
                   char bare[GX_NAME_MAX + 1]);

/*
** Argument index names a stored matrix that the call changes: within BEGIN its schema is locked
** here, before the matrix is looked at, since SQLite waits for the lock only then.  Where that
** fails the body goes on, and meets and tells the same; false: the transaction has been rolled
** back meanwhile, and the body must not store outside of it.
*/
bool gx_fn_changes(gx_fn *fn, int index);

bool gx_fn_has(const gx_fn *fn, int index);                             /* present and not NULL */
bool gx_fn_int(gx_fn *fn, int index, const char *label, int64_t *out);  /* an integer, exactly */
bool gx_fn_size(gx_fn *fn, int index, const char *label, int64_t *out); /* that, not negative */
bool gx_fn_axis(gx_fn *fn, int index, int64_t *out); /* 0 or 1; where it is not given, as it was */

/*
** Numbers of rows or columns (what: "row") of which there are `side`, a matrix of any shape; from
** the end where negative.  In memory of the call's.
*/
bool gx_fn_index(gx_fn *fn, int index, int64_t side, const char *what, int64_t **number,
                 int64_t *count);

/* One of the words of a list, as in an option; *out stays as it is where it is not given. */
bool gx_fn_word(gx_fn *fn, int index, const char *label, const char *words, int *out);
bool gx_fn_real(gx_fn *fn, int index, const char *label, double *out); /* or 'nan', 'inf', '-inf' */

/* A number, '[re,im]', '1+2i', or a 1 x 1 matrix value. */
bool gx_fn_scalar(gx_fn *fn, int index, const char *label, gx_scalar *out);

/* Borrowed from the argument, which gx_fn_matrix or others may not look at as another type. */
bool gx_fn_text(gx_fn *fn, int index, const char *label, const char **out);

/* The same of an explicit sqlite3_value: NUL-terminated text without a NUL inside. */
gx_code gx_arg_text(sqlite3_value *value, const char *label, const char **out, gx_err *err);
bool gx_arg_begins(sqlite3_value *value, char first); /* a text, behind blanks */
gx_code gx_arg_int(sqlite3_value *value, const char *label, int64_t *out, gx_err *err);

/* A number as a double; GX_ARG where it is an INTEGER that a double does not hold. */
gx_code gx_arg_real(sqlite3_value *value, const char *label, double *out, gx_err *err);

/* The same of any value, as gx_fn_real() takes it. */
gx_code gx_arg_number(sqlite3_value *value, const char *label, double *out, gx_err *err);

/* A distribution by its name, with its parameters, all of them (fn_dist.c). */
gx_code gx_arg_dist(sqlite3_value *name, int count, sqlite3_value **values, gx_dist_kind *kind,
                    double parameters[3], gx_err *err);

/* Give the call a block of ctx->mem to free at its end; on failure it is freed at once. */
bool gx_fn_own(gx_fn *fn, void *block);

/* Memory that the call owns; NULL: the call has failed. */
void *gx_fn_alloc(gx_fn *fn, size_t bytes, const char *what);

/* Whether a call below went well that had &fn->err for its words; else they become this call's. */
bool gx_fn_check(gx_fn *fn, gx_code code);

/* Fails where the setting files is off: asked by all that opens a file for SQL. */
bool gx_fn_may_use_files(gx_fn *fn);

/* Is the function of that name, gx_function's, called by the statement? else a schema calls it. */
bool gx_is_direct(sqlite3_context *sql, const char *name);

/* Record a failure of this call: gx_run_failf with GX_ARG; returns false. */
bool gx_fn_fail(gx_fn *fn, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What a value is, for "must be ..., not %s": NULL, 3, 'text...', a blob of 12 bytes. */
enum { GX_SHOWN_BYTES = 64 };
const char *gx_arg_show(sqlite3_value *value, char text[GX_SHOWN_BYTES]);

/* A piece of text for a message, as gx_text_fit() shows it: at most 27 bytes. */
const char *gx_text_show(const char *text, size_t bytes, char shown[GX_SHOWN_BYTES]);

/*
** A row given as JSON list, matrix value (1 x n or n x 1), number, or raw elements as NumPy's
** tobytes() writes them: count numbers into *data (owned, ctx->mem).  Complex elements where the
** numbers are real are refused, and raw ones that can be read in two ways (gx_raw_dtype).
*/
typedef struct gx_row_wish {
    gx_dtype dtype;   /* of the matrix, and of raw elements that are said to be of it */
    gx_number number; /* what comes out                                         */
    bool is_stated;   /* raw elements are of dtype, the statement says          */
    int64_t cols;     /* of the rows; -1: not known                             */
    const char *how;  /* the end of a refusal: what states the dtype of raw ones */
} gx_row_wish;

gx_code gx_arg_row(gx_ctx *ctx, sqlite3_value *value, const char *label, const gx_row_wish *wish,
                   int64_t *count, void **data, gx_err *err);

/*
** A BLOB without a header does not say what its numbers are (raw.c).  Their dtype, where one
** alone makes whole rows of `cols` (one row, or any number of them); else they are refused, with
** every reading named.  No bytes are no elements of any dtype.
*/
typedef struct gx_raw {
    const char *label;
    size_t bytes;
    int64_t cols; /* -1: not known, which no reading fits */
    bool is_one_row;
    bool may_complex; /* c64 and c128 are readings as well    */
    gx_dtype own;     /* a reading as well, where it is no number: of one row */
    const char *how;  /* as in gx_row_wish                    */
} gx_raw;

gx_code gx_raw_dtype(const gx_raw *raw, gx_dtype *dtype, gx_err *err);

/*
** A JSON literal (literal.c): '[[1,2],[3,"1+2i"]]', a flat list being a column.  dtype: f64; c128
** when an element is complex; i64 when all are whole and f64 does not hold one of them.  *data:
** column-major, owned by the caller, of ctx->mem; NULL on failure.
*/
gx_code gx_literal_parse(gx_ctx *ctx, const char *label, const char *text, size_t bytes,
                         gx_dtype *dtype, int64_t *rows, int64_t *cols, void **data, gx_err *err);

/* A text that begins as PostgreSQL's arrays do, '{0.1' or '{{1', is refused as what it is. */
gx_code gx_literal_braces(const char *label, const char *text, size_t bytes, gx_err *err);

/* A comparison of SQLITE_INDEX_CONSTRAINT_* in a plan's text: = < l(<=) > g(>=); 0: another. */
char gx_comparison_letter(int op);

/*
** Cut [*lo, *hi) to the indexes that compare so with a value, as SQLite compares an INTEGER column
** with it.  Indexes are 0 or more and below GX_INDEX_END (cells_plan.c).
*/
static const int64_t GX_INDEX_END = (int64_t)1 << 62;
void gx_cut_by_value(char op, sqlite3_value *value, int64_t *lo, int64_t *hi);

// Results (functions.c) ---------------------------------------------------------------------------

/* Ends the sink (publishes or rolls back) and returns the stored name or the value. */
void gx_fn_result_sink(gx_fn *fn, gx_sink *sink);

/*
** A result that is one number; complex ones as a 1 x 1 matrix value of dtype c128.  SQLite has no
** NaN: a real NaN arrives as NULL.
*/
void gx_fn_result_scalar(gx_fn *fn, gx_scalar value, bool is_complex);

/* Extremes of a sparse A along an axis (-1: of all), or their places; fn_algebra.c. */
void gx_fn_sparse_extremes(gx_fn *fn, const gx_mat *A, bool is_max, int64_t axis,
                           const gx_dest *dest, bool has_places);

/*
** A text result under construction (text.c): counted by the governor, bounded by SQLite's length
** limit.  Sticky: once the run has failed nothing more is written.
*/
typedef struct gx_text {
    gx_run *run;
    char *data; /* of sqlite3_malloc64(); not NUL-terminated */
    size_t used, capacity, limit;
} gx_text;

void gx_text_begin(gx_text *text, gx_run *run);
/* Refuse before the work when the result will have at least that many bytes and may not. */
bool gx_text_expect(gx_text *text, size_t bytes);
/* Room for bytes more, at data + used; NULL when there is none.  The caller adds to used. */
char *gx_text_room(gx_text *text, size_t bytes);
void gx_text_put(gx_text *text, const char *content, size_t bytes);
void gx_text_puts(gx_text *text, const char *content);
void gx_text_repeat(gx_text *text, const char *content, int64_t times);
void gx_text_printf(gx_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gx_text_json(gx_text *text, const char *content); /* as a string of JSON, in quotes */
void gx_text_clear(gx_text *text);
/* Give the text to SQLite as the result, or free it where the call has failed. */
void gx_fn_result_text(gx_fn *fn, gx_text *text);

/* Call after a text result that is JSON: SQLite's JSON functions then take it as it is. */
void gx_fn_result_is_json(gx_fn *fn);

/* SQLITE_* for a gx_code. */
int gx_sqlite_code(gx_code code);

/* "gx_fn: text" into SQLite's result, for aggregates. */
void gx_result_error(sqlite3_context *sql, const char *function, const gx_err *err);

/* Hand the finished value to SQLite without a copy. */
void gx_result_value(sqlite3_context *sql, gx_mem *mem, gx_value_buf *value);

/* "gx_fn: text" as sqlite3_malloc'ed zErrMsg of a virtual table; returns SQLITE_*. */
int gx_vtab_error(sqlite3_vtab *vtab, const char *table, const gx_err *err);

// Looking at matrices (look.c) --------------------------------------------------------------------

/* A reader for A through the caller's connection; NULL where no stored matrix is under it. */
bool gx_look_open(gx_fn *fn, const gx_mat *A, gx_reader **reader);

/* A block of m x n elements of A's dtype that the call owns. */
bool gx_look_buffer(gx_fn *fn, const gx_mat *A, int64_t m, int64_t n, void **buffer);

/* Read a rectangle of A, in its dtype; reports. */
bool gx_look_read(gx_fn *fn, const gx_mat *A, gx_reader *reader, int64_t i0, int64_t j0, int64_t m,
                  int64_t n, void *dst, int64_t ld);

/*
** Whole numbers are shown exactly: A's dtype, and i64 are read by gx_look_read() as the f64 of the
** same bytes from now on.  Element k of what was read then.
*/
gx_dtype gx_look_exactly(gx_mat *A);
int64_t gx_look_whole(gx_dtype dtype, const void *data, int64_t k);

/*
** Rows of A to read at a time by what goes through A row by row: tile rows where memory allows, at
** most 64 MiB and a quarter of what is free, at least one.
*/
int64_t gx_look_strip_rows(const gx_fn *fn, const gx_mat *A);

/* The bodies of json.c, show.c, heatmap.c, for the table in fn_look.c. */
void gx_look_json(gx_fn *fn);
void gx_look_show(gx_fn *fn);
void gx_look_heatmap(gx_fn *fn);

/* A as a picture of cells with ANSI's colours (show_colours.c), which has its text so far. */
bool gx_show_colours(gx_fn *fn, const gx_mat *A, gx_text *text);

// Several results (outputs.c) ---------------------------------------------------------------------

/*
** Functions with several results: gx_eig(A, 'values', 'vectors'), gx_svd(A, 's', 'u', 'vt').
**
** begin takes the write lock of every destination and opens one savepoint around them all, so that
** what would refuse a result refuses it before the work, and either all are stored or none.  Then
** come the work, one store for each destination that is named, and finish.
*/
typedef struct gx_outputs {
    gx_fn *fn;
    int begun; /* gx_store_begin() to be ended */
} gx_outputs;

/* dests with name NULL are passed over.  finish must be called whatever begin returns. */
bool gx_outputs_begin(gx_outputs *out, gx_fn *fn, const gx_dest *const *dests, int count);

/* Store a matrix; nothing where dest has no name, or the run has failed. */
void gx_outputs_store(gx_outputs *out, const gx_dest *dest, uint32_t properties, gx_number dtype,
                      int64_t rows, int64_t cols, const void *data, int64_t ld);

/*
** The first result, then commit, or roll back where the run has failed; then the call's own result:
** the name of the first destination, or that matrix itself as a value.
*/
void gx_outputs_finish(gx_outputs *out, const gx_dest *first, uint32_t properties, gx_number dtype,
                       int64_t rows, int64_t cols, const void *data, int64_t ld);

/* Commit, or roll back where the run has failed, without a result; finish does it too. */
void gx_outputs_close(gx_outputs *out);

// Arrays lent under a token (lent.c; gx_lend() in gx.h) -------------------------------------------

typedef struct gx_lent {
    char token[GX_TOKEN_BYTES]; /* "": this place is free */
    void *data;
    gx_dtype dtype;
    int64_t rows, cols, step; /* from column to column, or by_rows from row to row */
    bool by_rows, is_writable;
    int users; /* calls that are at it */
} gx_lent;

/* The array of that token, which stays until gx_lent_give_up(); NULL: it is none. */
gx_lent *gx_lent_take(const char *token);
void gx_lent_give_up(gx_lent *array);

// Control (fn_control.c) --------------------------------------------------------------------------

/* A setting's value as SQLite's result: sizes and counts as integers, words as text. */
void gx_result_setting(sqlite3_context *sql, gx_setting setting, const char *text, int64_t number);

/*
** A connection of our own with gx on it, as it is on ctx's: ":memory:", or "" for a database in a
** temporary file.  *made is what it has, freed with it.  On failure *db is NULL and text says why.
** Closed by sqlite3_close().
*/
int gx_open_private(gx_ctx *ctx, const char *path, sqlite3 **db, gx_ctx **made, char *text,
                    size_t bytes);

/* The bodies of gx_metrics([scope]), gx_selftest() and gx_benchmark([force]). */
void gx_fn_metrics(gx_fn *fn);
void gx_fn_selftest(gx_fn *fn);
void gx_fn_benchmark(gx_fn *fn);

// Programs (fn_program.c), for gx_plan('eval', ...) too -------------------------------------------

/* The arguments ?1, ?2 ... are the call's from number `first` on; *args belongs to the call. */
bool gx_eval_prepare_text(gx_fn *fn, const char *text, int first, bool is_plain,
                          gx_program **program, gx_program_arg **args);

// Registration (gx.c) -----------------------------------------------------------------------------

/* gx_functions_NAME is the table of the file fn_ NAME .c, ended by a NULL name. */
#define GX_FUNCTION_TABLES(TABLE)                                                                  \
    TABLE(algebra)                                                                                 \
    TABLE(map)                                                                                     \
    TABLE(store)                                                                                   \
    TABLE(make)                                                                                    \
    TABLE(look) TABLE(files) TABLE(control) TABLE(property) TABLE(solve) TABLE(chol) TABLE(factor) \
        TABLE(lstsq) TABLE(eig) TABLE(pca) TABLE(det) TABLE(help) TABLE(similar) TABLE(sparse)     \
            TABLE(graph) TABLE(volumes) TABLE(program) TABLE(from) TABLE(composite) TABLE(exact)   \
                TABLE(lattice) TABLE(dist) TABLE(quantize) TABLE(grid) TABLE(lm) TABLE(multi)      \
                    TABLE(equation) TABLE(rows) TABLE(labels) TABLE(vectors)                       \
                        TABLE(tables) /* table_fn.c */

#define GX_FUNCTIONS_DECLARE(name) extern const gx_function gx_functions_##name[];
GX_FUNCTION_TABLES(GX_FUNCTIONS_DECLARE)
#undef GX_FUNCTIONS_DECLARE

/*
** xIntegrity came with SQLite 3.44 as a fourth version of sqlite3_module: the same structure with
** one member more.  Older libraries do not look behind what they know, whatever iVersion says, so
** the structure may be as long as the newest one, whichever header gx is built with.
*/
#if SQLITE_VERSION_NUMBER >= 3044000
typedef sqlite3_module gx_module_v4;
#define GX_MODULE(field) .field
#define GX_MODULE_OF(module) (&(module))
#else
typedef struct gx_module_v4 {
    sqlite3_module base;
    int (*xIntegrity)(sqlite3_vtab *, const char *, const char *, int, char **);
} gx_module_v4;
#define GX_MODULE(field) .base.field
#define GX_MODULE_OF(module) (&(module).base)
#endif

/* Files that register modules or aggregates themselves.  Return SQLITE_*. */
int gx_register_functions(sqlite3 *db, gx_ctx *ctx, const gx_function *table);
int gx_register_aggregates(sqlite3 *db, gx_ctx *ctx); /* agg.c: from_cells, store_rows, ... */
int gx_register_agg_fns(sqlite3 *db, gx_ctx *ctx);    /* agg_fn.c: gx_lm, ...                    */
int gx_register_catalog(sqlite3 *db, gx_ctx *ctx);    /* vtab_catalog.c: gx                       */
int gx_register_guard(sqlite3 *db, gx_ctx *ctx);      /* vtab_guard.c                             */
int gx_register_cells(sqlite3 *db, gx_ctx *ctx);      /* vtab_cells.c: gx_cells, gx_rows          */
int gx_register_vectors(sqlite3 *db, gx_ctx *ctx);    /* vtab_vectors.c: gx_vectors               */
int gx_register_table_fns(sqlite3 *db, gx_ctx *ctx);  /* table_fn.c: gx_eig, gx_topk, ...        */

#endif
