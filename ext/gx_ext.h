/*
** Shared inside ext/: one SQL call from arguments to result.
**
** Every SQL function of gx has this shape (<= 20 lines):
**
**     static void matmul(gx_fn *fn)
**     {
**         struct { gx_dest dest; ... } opt = {...};
**         gx_mat A, B;
**         if (gx_fn_options(fn, options, &opt) && gx_fn_matrix(fn, 0, "A", &A) &&
**             gx_fn_matrix(fn, 1, "B", &B) && gx_fn_dest(fn, 2, &opt.dest)) {
**             gx_alg_matmul(&fn->run, &A, &B, ..., &sink);
**             gx_fn_result_sink(fn, &sink);
**         }
**     }
**
** gx_fn_* helpers return false once the call has failed; the failure sits in fn->run.err and is
** turned into SQLite's result, with the function's name in front, by the one dispatcher in
** functions.c.
*/
#ifndef GX_EXT_H
#define GX_EXT_H

#include "../core/mat.h"
#include "../core/run.h"

#include <sqlite3ext.h>

typedef struct gx_fn gx_fn;

/* One SQL function.  Registered with any number of arguments; the dispatcher checks the count. */
typedef struct gx_function {
    const char *name;
    int min_args, max_args; /* with destination and options; max_args -1: any */
    bool is_pure;           /* of its values: DETERMINISTIC | INNOCUOUS; else DIRECTONLY */
    void (*body)(gx_fn *fn);
} gx_function;

struct gx_fn {
    sqlite3_context *sql;
    const gx_function *def;
    gx_ctx *ctx;
    gx_run run;
    int argc; /* without the options object */
    sqlite3_value **argv;
    gx_mat *operands; /* every matrix argument, cleared by the dispatcher */
    const char *dest_name; /* remembered by gx_fn_dest: what a stored result returns */
};

/* ---- arguments (args.c) ---------------------------------------------------------------------- */

typedef enum gx_option_type {
    GX_OPT_BOOL,   /* bool: JSON true/false or 0/1          */
    GX_OPT_INT,    /* int64_t                               */
    GX_OPT_REAL,   /* double                                */
    GX_OPT_SCALAR, /* gx_scalar: number or [re, im]         */
    GX_OPT_TEXT,   /* char[64]                              */
    GX_OPT_DTYPE,  /* gx_dtype                              */
    GX_OPT_END
} gx_option_type;

typedef struct gx_option {
    const char *key;
    gx_option_type type;
    size_t offset;     /* of the field in the caller's struct             */
    size_t set_offset; /* of a bool set true when the key is given; 0: none (never offset 0) */
} gx_option;

/*
** Take the trailing options object (TEXT starting with '{') off the arguments, if there is one,
** into out.  spec ends with GX_OPT_END; NULL spec: no options are known.  Unknown key: error naming
** it and the known ones.  Call first, before the positional arguments are looked at.
*/
bool gx_fn_options(gx_fn *fn, const gx_option *spec, void *out);

/* Argument index as a matrix, in any of its forms: name, JSON literal, matrix value, number. */
bool gx_fn_matrix(gx_fn *fn, int index, const char *label, gx_mat *out);

/*
** The same with an explicit sqlite3_value, for aggregates and table-valued functions.  mem: of
** owned data.
*/
gx_code gx_arg_matrix(gx_ctx *ctx, sqlite3_value *value, const char *label, gx_mat *out,
                      gx_err *err);

/*
** Argument index as the destination, when present and not NULL.  dest->name points into the
** argument.
*/
bool gx_fn_dest(gx_fn *fn, int index, gx_dest *dest);

bool gx_fn_has(const gx_fn *fn, int index); /* present and not NULL */
bool gx_fn_int(gx_fn *fn, int index, const char *label, int64_t *out); /* an integer, exactly */
bool gx_fn_real(gx_fn *fn, int index, const char *label, double *out);
bool gx_fn_scalar(gx_fn *fn, int index, const char *label, gx_scalar *out); /* or '[re,im]' */
bool gx_fn_text(gx_fn *fn, int index, const char *label, const char **out); /* borrowed */

/* Record a failure of this call: gx_run_failf with GX_ARG; returns false. */
bool gx_fn_fail(gx_fn *fn, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
** A row given as JSON array, matrix value or raw floats: count elements of dtype into *data (owned,
** mem).
*/
gx_code gx_arg_row(gx_ctx *ctx, sqlite3_value *value, const char *label, gx_dtype dtype,
                   int64_t *count, void **data, gx_err *err);

/* ---- results (functions.c) ------------------------------------------------------------------- */

/* Ends the sink (publishes or rolls back) and returns the stored name or the value. */
void gx_fn_result_sink(gx_fn *fn, gx_sink *sink);

/* A result that is one number; complex ones as a 1 x 1 matrix value. */
void gx_fn_result_scalar(gx_fn *fn, gx_scalar value, bool is_complex);

/* SQLITE_* for a gx_code. */
int gx_sqlite_code(gx_code code);

/* "gx_fn: text" into SQLite's result, for aggregates. */
void gx_result_error(sqlite3_context *sql, const char *function, const gx_err *err);

/* "gx_fn: text" as sqlite3_malloc'ed pzErr/zErrMsg of a virtual table; returns SQLITE_*. */
int gx_vtab_error(sqlite3_vtab *vtab, const char *table, const gx_err *err);

/* ---- registration (gx.c) --------------------------------------------------------------------- */

/* Each file of functions has one table, ended by a NULL name, listed in gx.c. */
extern const gx_function gx_functions_algebra[]; /* fn_algebra.c: matmul, add, norm, ...    */
extern const gx_function gx_functions_store[];   /* fn_store.c: store, copy, drop, ...      */
extern const gx_function gx_functions_make[];    /* fn_make.c: zeros, eye, random, ...      */
extern const gx_function gx_functions_look[];    /* fn_look.c: info, json, show, slice, ... */
extern const gx_function gx_functions_files[];   /* fn_files.c: import, export */
extern const gx_function gx_functions_control[]; /* fn_control.c: config, version, debug, ... */

/* Files that register modules or aggregates themselves.  Return SQLITE_*. */
int gx_register_functions(sqlite3 *db, gx_ctx *ctx, const gx_function *table);
int gx_register_aggregates(sqlite3 *db, gx_ctx *ctx); /* agg_cells.c: from_cells, store_rows, ... */
int gx_register_catalog(sqlite3 *db, gx_ctx *ctx);    /* vtab_catalog.c: gx                       */
int gx_register_cells(sqlite3 *db, gx_ctx *ctx);      /* vtab_cells.c: gx_cells, gx_rows          */
int gx_register_control(sqlite3 *db, gx_ctx *ctx);    /* vtab_control.c: gx_settings, ... */

#endif
