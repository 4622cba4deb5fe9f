/*
** Shared inside ext/: one SQL call from arguments to result.
**
** Every SQL function of gx has this shape (<= 20 lines):
**
**     static void matmul(gx_fn *fn)
**     {
**         struct { bool is_set; gx_dest dest; ... } opt = {...};
**         gx_mat A, B;
**         if (gx_fn_options(fn, options, &opt) && gx_fn_matrix(fn, 0, "A", &A) &&
**             gx_fn_matrix(fn, 1, "B", &B) && gx_fn_dest(fn, 2, &opt.dest)) {
**             gx_sink_begin(&fn->run, &opt.dest, ..., &sink);
**             gx_alg_matmul(&fn->run, &A, &B, ..., &sink);
**             gx_fn_result_sink(fn, &sink);
**         }
**     }
**
** gx_fn_* helpers return false once the call has failed; the failure sits in fn->run.err and is
** turned into SQLite's result, with the function's name in front, by the one dispatcher in
** functions.c.  Memory that an argument needed belongs to the call (gx_fn_own): a body clears no
** operand and frees nothing that it did not allocate itself.
*/
#ifndef GX_EXT_H
#define GX_EXT_H

#include "../core/mat/mat.h"
#include "../core/run/run.h"

#include <sqlite3ext.h>

SQLITE_EXTENSION_INIT3

typedef struct gx_fn gx_fn;

/* One SQL function.  Registered with any number of arguments; the dispatcher checks the count. */
typedef struct gx_function {
    const char *name;
    int min_args, max_args; /* with destination and options; max_args -1: any */
    bool is_pure;           /* of its values: DETERMINISTIC | INNOCUOUS; else DIRECTONLY */
    void (*body)(gx_fn *fn);
} gx_function;

enum { GX_FN_LENT = 16 }; /* lent arrays in one call */

struct gx_fn {
    sqlite3_context *sql;
    const gx_function *def;
    gx_ctx *ctx;
    gx_run run;
    int argc; /* without the options object */
    sqlite3_value **argv;
    const char *dest_name; /* remembered by gx_fn_dest: what a stored result returns  */
    void **owned;          /* freed with gx_mem_free() when the call ends; gx_fn_own() */
    int owned_count, owned_capacity;
    void *owned_first[8];             /* where owned points as long as 8 suffice */
    struct gx_lent *lent[GX_FN_LENT]; /* arrays that arguments stand for, until the call ends */
    int lent_index[GX_FN_LENT];       /* which argument                                       */
    int lent_count;
    gx_landing place;          /* of the destination, where that is one of them            */
    bool has_place, is_placed; /* there is such a destination, and the result is in it */
    bool is_locked;            /* the dispatcher ends a gx_store_begin() after the body */
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
    GX_OPT_DTYPE,  /* gx_dtype                                               */
    GX_OPT_NAME,   /* const char *: a destination, as long as the call lives */
    GX_OPT_LIST,   /* const char *: "0,2,5:9", a number, or a list of these, as such a text */
    GX_OPT_TEXTS,  /* const char *: a text, a whole number, or a list of these, by lines        */
    GX_OPT_MATRIX, /* const char *: a name, or a list (of lists) of whole numbers as a literal   */
    GX_OPT_END
} gx_option_type;

enum { GX_OPT_STEPS_ALL = INT32_MAX };

typedef struct gx_option {
    const char *key;
    gx_option_type type;
    size_t offset;     /* of the field in the caller's struct                             */
    size_t set_offset; /* of a bool set true when the key is given; 0: none (so no such bool
                          at offset 0) */
} gx_option;

/*
** Take the trailing options object (TEXT starting with '{') off the arguments, if there is one,
** into out.  spec ends with GX_OPT_END; NULL spec: no options are known.  Call first, before the
** positional arguments are looked at.  Refused in words: bad JSON, an unknown key (with the known
** ones), a key given twice, a value of the wrong type; where there are options (spec) and all
** max_args arguments came, a last one that is no object.  null leaves the default.
*/
bool gx_fn_options(gx_fn *fn, const gx_option *spec, void *out);

/* What every destination takes, into the gx_dest `dest` of a struct. */
#define GX_DEST_KEYS(type, dest)                                                                   \
    {"dtype", GX_OPT_DTYPE, offsetof(type, dest.dtype), offsetof(type, dest.has_dtype)},           \
        {"saturate", GX_OPT_BOOL, offsetof(type, dest.saturate), 0},                               \
    {                                                                                              \
        "replace", GX_OPT_BOOL, offsetof(type, dest.replace), 0                                    \
    }

/* That alone, into a gx_dest. */
extern const gx_option gx_dest_keys[];

/* A copy of A, sparse or not, as a sink that is the caller's to end (fn_store.c). */
void gx_copy_any(gx_run *run, const gx_mat *A, const gx_dest *dest, uint32_t properties,
                 gx_sink *C);

/* "f32" or its like, of an argument. */
bool gx_fn_dtype(gx_fn *fn, int index, gx_dtype *dtype);

// Arguments (args.c) ------------------------------------------------------------------------------

/*
** Argument index as a matrix, in any of its forms: name, JSON literal, matrix value, number.  The
** elements are the argument's own bytes where these are aligned, else a copy that the call owns.
** A sparse one is refused in words, unless gx_takes_sparse() says otherwise.
*/
bool gx_fn_matrix(gx_fn *fn, int index, const char *label, gx_mat *out);

/* Does the body look at gx_mat.is_sparse of that argument?  The table of sparse_args.c. */
bool gx_takes_sparse(const char *function, int index);

/*
** A stored factorisation (gx_lu, gx_qr) is refused there in words.  Here it is welcome:
** gx_fn_factor also gives its pivots or tau, which the call owns (kind GX_AUX_NONE: an ordinary
** matrix); the other one is for looking and copying.
*/
bool gx_fn_factor(gx_fn *fn, int index, const char *label, gx_mat *out, gx_aux *aux);
bool gx_fn_matrix_or_factor(gx_fn *fn, int index, const char *label, gx_mat *out);

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

/*
** Argument index names a stored matrix that the call changes: within BEGIN its schema is locked
** here, before the matrix is looked at, since SQLite waits for the lock only then.  Where that
** fails the body goes on, and meets and tells the same; false: the transaction has been rolled
** back meanwhile, and the body must not store outside of it.
*/
bool gx_fn_changes(gx_fn *fn, int index);

bool gx_fn_has(const gx_fn *fn, int index);                            /* present and not NULL */
bool gx_fn_int(gx_fn *fn, int index, const char *label, int64_t *out); /* an integer, exactly */
bool gx_fn_real(gx_fn *fn, int index, const char *label, double *out); /* or 'nan', 'inf', '-inf' */

/* A number, '[re,im]', '1+2i', or a 1 x 1 matrix value. */
bool gx_fn_scalar(gx_fn *fn, int index, const char *label, gx_scalar *out);

/* Borrowed from the argument, which gx_fn_matrix or others may not look at as another type. */
bool gx_fn_text(gx_fn *fn, int index, const char *label, const char **out);

/* The same of an explicit sqlite3_value: NUL-terminated text without a NUL inside. */
gx_code gx_arg_text(sqlite3_value *value, const char *label, const char **out, gx_err *err);
gx_code gx_arg_int(sqlite3_value *value, const char *label, int64_t *out, gx_err *err);

/* Give the call a block of ctx->mem to free at its end; on failure it is freed at once. */
bool gx_fn_own(gx_fn *fn, void *block);

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
    const char *how; /* the end of a refusal: what states the dtype of raw ones */
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
    int64_t cols;     /* -1: not known, which no reading fits */
    bool is_one_row;
    bool may_complex; /* c64 and c128 are readings as well    */
    gx_dtype own;     /* a reading as well, where it is no number: of one row */
    const char *how;  /* as in gx_row_wish                    */
} gx_raw;

gx_code gx_raw_dtype(const gx_raw *raw, gx_dtype *dtype, gx_err *err);

/*
** A JSON literal (literal.c): '[[1,2],[3,"1+2i"]]', a flat list being a column.  dtype: GX_F64, or
** GX_C128 when an element is complex.  *data: column-major, owned by the caller, of ctx->mem; NULL
** on failure.
*/
gx_code gx_literal_parse(gx_ctx *ctx, const char *label, const char *text, size_t bytes,
                         gx_number *dtype, int64_t *rows, int64_t *cols, void **data, gx_err *err);

/* A text that begins as PostgreSQL's arrays do, '{0.1' or '{{1', is refused as what it is. */
gx_code gx_literal_braces(const char *label, const char *text, size_t bytes, gx_err *err);

// Results (functions.c) ---------------------------------------------------------------------------

/* Ends the sink (publishes or rolls back) and returns the stored name or the value. */
void gx_fn_result_sink(gx_fn *fn, gx_sink *sink);

/*
** A result that is one number; complex ones as a 1 x 1 matrix value of dtype c128.  SQLite has no
** NaN: a real NaN arrives as NULL.
*/
void gx_fn_result_scalar(gx_fn *fn, gx_scalar value, bool is_complex);

/* Extremes of a sparse A along an axis (-1: of all), or their places; sparse_args.c. */
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

// Registration (gx.c) -----------------------------------------------------------------------------

/* Each file of functions has one table, ended by a NULL name, listed in gx.c. */
extern const gx_function gx_functions_algebra[];  /* fn_algebra.c: matmul, add, norm, ...    */
extern const gx_function gx_functions_map[];      /* fn_map.c: add, mul, abs, exp, ... */
extern const gx_function gx_functions_store[];    /* fn_store.c: store, copy, drop, ...      */
extern const gx_function gx_functions_graph[];    /* fn_graph.c: pagerank, components, ... */
extern const gx_function gx_functions_sparse[];   /* fn_sparse.c: sparse, dense, nnz */
extern const gx_function gx_functions_make[];     /* fn_make.c: zeros, eye, random, ...      */
extern const gx_function gx_functions_look[];     /* fn_look.c: info, json, show, slice, ... */
extern const gx_function gx_functions_files[];    /* fn_files.c: import, export */
extern const gx_function gx_functions_property[]; /* fn_property.c: set_property, ... */
extern const gx_function gx_functions_solve[];    /* fn_solve.c: solve, cond, rcond */
extern const gx_function gx_functions_lu[];       /* fn_lu.c: lu */
extern const gx_function gx_functions_part[];     /* fn_part.c: part */
extern const gx_function gx_functions_det[];      /* fn_det.c: det, logdet, inverse */
extern const gx_function gx_functions_cells[];    /* fn_cells.c: set */
extern const gx_function gx_functions_cholesky[]; /* fn_chol.c: cholesky, trsm, trmm, syrk */
extern const gx_function gx_functions_qr[];       /* fn_qr.c: qr, lstsq, rank, pinv */
extern const gx_function gx_functions_control[];  /* fn_control.c: config, version, debug, ... */

extern const gx_function gx_functions_eig[];      /* fn_eig.c: eig, eigvals, svd, nullspace */
extern const gx_function gx_functions_pca[];      /* fn_pca.c: cov, corr, pca, ...       */
extern const gx_function gx_functions_funm[];     /* fn_funm.c: sqrtm, expm, logm, powm */
extern const gx_function gx_functions_volumes[];  /* fn_volumes.c: volumes, vacuum, backup */
extern const gx_function gx_functions_help[];     /* fn_help.c: help */
extern const gx_function gx_functions_bytes[];    /* fn_bytes.c: from_bytes, to_bytes */
extern const gx_function gx_functions_similar[];  /* fn_similar.c: distance, kmeans, ... */
extern const gx_function gx_functions_function[]; /* fn_function.c: from_function */
extern const gx_function gx_functions_table[];    /* fn_table.c: from_table */
extern const gx_function gx_functions_memory[];   /* fn_memory.c: from_memory, to_memory */
extern const gx_function gx_functions_eval[];     /* fn_eval.c: eval */
extern const gx_function gx_functions_program[];  /* fn_program.c: sort, cumsum, ... */
extern const gx_function gx_functions_tables[];   /* fn_tables.c: knn, cells, ..., refused */

/* Files that register modules or aggregates themselves.  Return SQLITE_*. */
int gx_register_functions(sqlite3 *db, gx_ctx *ctx, const gx_function *table);
int gx_register_aggregates(sqlite3 *db, gx_ctx *ctx); /* agg_cells.c: from_cells, store_rows, ... */
int gx_register_catalog(sqlite3 *db, gx_ctx *ctx);    /* vtab_catalog.c: gx                       */
int gx_register_cells(sqlite3 *db, gx_ctx *ctx);      /* vtab_cells.c: gx_cells, gx_rows          */
int gx_register_table_fns(sqlite3 *db, gx_ctx *ctx);  /* table_fn.c: gx_eig, gx_topk, ...        */

#endif
