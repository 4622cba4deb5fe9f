/*
** Files in SQL: gx_import and gx_export.
**
** The bodies read options and paths; core/file/file.c does the work.  The functions are DIRECTONLY,
** so no view or trigger of a database from elsewhere can touch files, and the setting 'files'
** switches them off for a connection.
*/
#include "gx_ext.h"

#include "../core/file/file.h"

#include <string.h>

static bool get_path(gx_fn *fn, const char **path)
{
    if (!gx_fn_text(fn, 1, "path", path)) {
        return false;
    }
    return **path != '\0' || gx_fn_fail(fn, "path must not be empty");
}

/* One character, or the word for one. */
static bool get_delimiter(gx_fn *fn, const char *text, char *delimiter)
{
    static const struct {
        const char *word;
        char delimiter;
    } words[] = {{"comma", ','}, {"semicolon", ';'}, {"tab", '\t'}, {"space", ' '}, {"pipe", '|'}};
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        if (strcmp(text, words[w].word) == 0) {
            *delimiter = words[w].delimiter;
            return true;
        }
    }
    if (text[0] != '\0' && text[1] == '\0' && strchr(",;\t |:/!&@^_~", text[0]) != NULL) {
        *delimiter = text[0];
        return true;
    }
    char shown[GX_SHOWN_BYTES];
    return gx_fn_fail(fn,
                      "option \"delimiter\" must be one of , ; | : / ! & @ ^ _ ~ or comma, "
                      "semicolon, tab, space, pipe, not \"%s\"",
                      gx_text_show(text, strlen(text), shown));
}

// gx_import(name, path[, options]) ----------------------------------------------------------------

typedef struct import_options {
    char format[64], delimiter[64];
    int decimal;
    bool saturate, replace, has_decimal, dense, has_dense;
    gx_import_options file;
} import_options;

static const gx_option import_keys[] = {
    {"format", GX_OPT_TEXT, offsetof(import_options, format), 0},
    {"dtype", GX_OPT_DTYPE, offsetof(import_options, file.dtype),
     offsetof(import_options, file.has_dtype)},
    {"saturate", GX_OPT_BOOL, offsetof(import_options, saturate), 0},
    {"replace", GX_OPT_BOOL, offsetof(import_options, replace), 0},
    {"header", GX_OPT_BOOL, offsetof(import_options, file.header),
     offsetof(import_options, file.has_header)},
    {"delimiter", GX_OPT_TEXT, offsetof(import_options, delimiter), 0},
    {"skip=[0,inf]", GX_OPT_INT, offsetof(import_options, file.skip), 0},
    {"columns", GX_OPT_LIST, offsetof(import_options, file.columns), 0},
    {"na", GX_OPT_TEXTS, offsetof(import_options, file.na), 0},
    {"decimal=.|,", GX_OPT_WORD, offsetof(import_options, decimal),
     offsetof(import_options, has_decimal)},
    {"member", GX_OPT_NAME, offsetof(import_options, file.member), 0},
    {"sparse", GX_OPT_BOOL, offsetof(import_options, file.sparse),
     offsetof(import_options, file.has_sparse)},
    {"dense", GX_OPT_BOOL, offsetof(import_options, dense), offsetof(import_options, has_dense)},
    {NULL, GX_OPT_END, 0, 0}};

/* Options that only text has are refused for the other formats. */
static bool check_import(gx_fn *fn, const import_options *opt, gx_file_format format)
{
    const char *key = opt->file.has_header        ? "header"
                      : opt->delimiter[0] != '\0' ? "delimiter"
                      : opt->file.skip != 0       ? "skip"
                      : opt->file.columns != NULL ? "columns"
                      : opt->file.na != NULL      ? "na"
                      : opt->has_decimal          ? "decimal"
                                                  : NULL;
    if (format != GX_FILE_CSV && key != NULL) {
        return gx_fn_fail(fn, "option \"%s\" is for csv, tsv and txt", key);
    }
    if (format != GX_FILE_NPZ && opt->file.member != NULL) {
        return gx_fn_fail(fn, "option \"member\" is for npz");
    }
    bool may_be_sparse = format == GX_FILE_MTX || format == GX_FILE_NPZ;
    return may_be_sparse || !opt->file.has_sparse || !opt->file.sparse ||
           gx_fn_fail(fn, "option \"sparse\" is for mtx: gx_sparse makes one of a dense matrix");
}

/* The delimiter and the decimal mark, which are not the same. */
static bool get_marks(gx_fn *fn, import_options *opt)
{
    gx_import_options *file = &opt->file;
    if (opt->delimiter[0] != '\0' && !get_delimiter(fn, opt->delimiter, &file->delimiter)) {
        return false;
    }
    file->decimal = opt->decimal == 1 ? ',' : '.';
    return file->decimal != file->delimiter ||
           gx_fn_fail(fn, "options \"delimiter\" and \"decimal\" are both \",\"");
}

/* No format is known for the path; where the name looks like one, they are the other way round. */
static void fail_format(gx_fn *fn, const import_options *opt)
{
    gx_file_format format;
    gx_err ignored = {0};
    char delimiter, shown[GX_SHOWN_BYTES];
    if (opt->format[0] == '\0' && fn->dest.name != NULL &&
        gx_file_format_of(fn->dest.name, "", true, &format, &delimiter, &ignored) == GX_OK) {
        gx_fn_fail(fn, "%s looks like the path, but the name comes first: gx_import(name, path)",
                   gx_arg_show(fn->argv[0], shown));
        return;
    }
    gx_run_fail(&fn->run, &fn->err);
}

static void import(gx_fn *fn)
{
    import_options opt = {.decimal = 0};
    const char *path;
    gx_file_format format;
    if (!gx_fn_options(fn, import_keys, &opt) || !gx_fn_may_use_files(fn)) {
        return;
    }
    if (fn->argc != 2) {
        gx_fn_fail(fn, "takes a name, a path and options");
        return;
    }
    fn->dest.saturate = opt.saturate;
    fn->dest.replace = opt.replace;
    if (!get_path(fn, &path)) {
        return;
    }
    if (gx_file_format_of(path, opt.format, true, &format, &opt.file.delimiter, &fn->err) !=
        GX_OK) {
        fail_format(fn, &opt);
        return;
    }
    if (!check_import(fn, &opt, format) || !get_marks(fn, &opt)) {
        return;
    }
    if (opt.has_dense) {
        if (opt.file.has_sparse && opt.file.sparse == opt.dense) {
            gx_fn_fail(fn, "options \"sparse\" and \"dense\" contradict each other");
            return;
        }
        opt.file.has_sparse = true;
        opt.file.sparse = !opt.dense;
    }
    gx_sink sink;
    gx_file_import(&fn->run, path, format, &opt.file, &fn->dest, &sink);
    gx_fn_result_sink(fn, &sink);
}

// gx_export(A, path[, options]) -------------------------------------------------------------------

typedef struct export_options {
    gx_export_options file; /* first: a set_offset of 0 means none */
    char format[64], delimiter[64];
    bool has_symmetry;
    int symmetry;
} export_options;

static const gx_option export_keys[] = {
    {"format", GX_OPT_TEXT, offsetof(export_options, format), 0},
    {"overwrite", GX_OPT_BOOL, offsetof(export_options, file.overwrite), 0},
    {"dtype", GX_OPT_DTYPE, offsetof(export_options, file.dtype),
     offsetof(export_options, file.has_dtype)},
    {"precision=[1,17]", GX_OPT_INT, offsetof(export_options, file.precision),
     offsetof(export_options, file.has_precision)},
    {"delimiter", GX_OPT_TEXT, offsetof(export_options, delimiter), 0},
    {"header", GX_OPT_BOOL, offsetof(export_options, file.header),
     offsetof(export_options, file.has_header)},
    {"symmetry=auto|general", GX_OPT_WORD, offsetof(export_options, symmetry),
     offsetof(export_options, has_symmetry)},
    {NULL, GX_OPT_END, 0, 0}};

/* "array" and "coordinate" are formats of their own here: both are Matrix Market's. */
static bool find_format(gx_fn *fn, const char *path, export_options *opt, gx_file_format *format)
{
    opt->file.is_coordinate = strcmp(opt->format, "coordinate") == 0;
    if (opt->file.is_coordinate || strcmp(opt->format, "array") == 0) {
        *format = GX_FILE_MTX;
        return true;
    }
    return gx_fn_check(fn, gx_file_format_of(path, opt->format, false, format,
                                             &opt->file.delimiter, &fn->err));
}

static bool check_export(gx_fn *fn, export_options *opt, gx_file_format format)
{
    if (opt->file.has_precision && (format == GX_FILE_NPY || format == GX_FILE_NPZ)) {
        return gx_fn_fail(fn, "option \"precision\" is for mtx, csv, tsv and txt");
    }
    if (opt->delimiter[0] != '\0' && format != GX_FILE_CSV) {
        return gx_fn_fail(fn, "option \"delimiter\" is for csv, tsv and txt");
    }
    if (opt->file.has_header && format != GX_FILE_CSV) {
        return gx_fn_fail(fn, "option \"header\" is for csv, tsv and txt");
    }
    if (opt->has_symmetry && format != GX_FILE_MTX) {
        return gx_fn_fail(fn, "option \"symmetry\" is for mtx");
    }
    opt->file.is_general = opt->symmetry == 1;
    return opt->delimiter[0] == '\0' || get_delimiter(fn, opt->delimiter, &opt->file.delimiter);
}

static void export(gx_fn *fn)
{
    export_options opt = {.file = {.overwrite = false}};
    gx_mat A;
    const char *path;
    gx_file_format format;
    if (!gx_fn_options(fn, export_keys, &opt) || !gx_fn_may_use_files(fn)) {
        return;
    }
    if (fn->argc != 2) {
        gx_fn_fail(fn, "takes a matrix, a path and options");
        return;
    }
    if (!gx_fn_matrix(fn, 0, "A", &A) || !get_path(fn, &path) ||
        !find_format(fn, path, &opt, &format) || !check_export(fn, &opt, format)) {
        return;
    }
    if (A.is_sparse && format == GX_FILE_MTX && strcmp(opt.format, "array") != 0) {
        opt.file.is_coordinate = true;
    }
    opt.file.delimiter = opt.file.delimiter == '\0' ? ',' : opt.file.delimiter;
    if (gx_file_export(&fn->run, &A, path, format, &opt.file) == GX_OK) {
        sqlite3_result_text(fn->sql, path, -1, SQLITE_TRANSIENT);
    }
}

const gx_function gx_functions_files[] = {{"gx_import", 2, 3, GX_DEST(0), import, 0},
                                          {"gx_export", 2, 3, GX_SPARSE(0) | GX_EXACT, export, 0},
                                          {.name = NULL}};
