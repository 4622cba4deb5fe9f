/*
** Matrices in files: NumPy .npy, SciPy .npz, Matrix Market .mtx, and text with delimiters (CSV).
**
** Nothing here holds a whole matrix.  An import reads a file in bands of whole tiles and hands
** each to a sink; an export reads bands of a source and writes them one after the other.  A
** band is as large as memory_limit allows where that saves passes over the file, and small where
** it does not.
**
** Failures of files are GX_ARG, not GX_IO or GX_FULL: where a statement reads a table, SQLite
** answers those two by rolling back the caller's transaction, which a full disk under an
** exported file is no reason for.
*/
#ifndef GX_FILE_H
#define GX_FILE_H

#include "../mat/mat.h"

typedef enum gx_file_format {
    GX_FILE_NPY,
    GX_FILE_NPZ, /* of arrays; SciPy's of a sparse matrix */
    GX_FILE_MTX,
    GX_FILE_CSV
} gx_file_format;

/*
** By the name's ending, npy, npz, mtx, csv, tsv, txt; or option: one of these.  GX_ARG else.
** is_import: the ending may have .gz behind it, which is read and not written.
*/
gx_code gx_file_format_of(const char *path, const char *option, bool is_import,
                          gx_file_format *format, char *delimiter, gx_err *err);

typedef struct gx_import_options {
    bool has_dtype;
    gx_dtype dtype;         /* of the result; else what the file holds                 */
    bool has_header;
    bool header;            /* CSV: the first line is names; else found out            */
    char delimiter;         /* CSV: 0 = found out                                      */
    int64_t skip;           /* CSV: lines to leave out at the start                    */
    const char *columns;    /* CSV: "0,2,5:9", NULL = all                              */
    const char *na;         /* CSV: texts that mean NaN, a line end between; NULL      */
    char decimal;           /* CSV: the decimal mark: ',', else '.'                    */
    const char *member;     /* archives: the array wanted; NULL = the only one         */
    bool has_sparse;
    bool sparse;            /* Matrix Market coordinates: the result; else found out   */
} gx_import_options;

/*
** Coordinates become a sparse matrix where they are not told otherwise when at most a quarter of it
** is filled and it would take more than this dense: what few could have stored dense anyway.
*/
#define GX_IMPORT_DENSE_BYTES ((size_t)1 << 30)

/* Import into a new sink; the caller ends it, whatever the outcome. */
gx_code gx_file_import(gx_run *run, const char *path, gx_file_format format,
                       const gx_import_options *options, const gx_dest *dest, gx_sink *sink);

typedef struct gx_export_options {
    bool overwrite;
    bool has_dtype;
    gx_dtype dtype;       /* of the file; else the matrix's             */
    bool has_precision;
    int64_t precision;    /* significant digits of text, 0 = shortest   */
    char delimiter;       /* CSV; 0 = by the file's name                */
    bool has_header;
    bool header;          /* CSV: names of the columns first; else where there are some */
    bool is_coordinate;   /* Matrix Market: only the entries that are not 0 */
    bool is_general;      /* Matrix Market: both triangles, whatever the properties */
} gx_export_options;

gx_code gx_file_export(gx_run *run, const gx_mat *mat, const char *path, gx_file_format format,
                       const gx_export_options *options);

#endif
