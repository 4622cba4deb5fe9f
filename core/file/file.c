/*
** Imports and exports as a whole: which format, and the join to sources and sinks.
**
**   import   open -> reader (file_npy.c, file_npz.c, file_mtx.c, file_csv.c) -> gx_sink
**   export   gx_mat_read -> walk by bands -> writer (the same files) -> temporary file -> rename
**
** I/O: an export reads each element once.  How often an import passes over its file is said in
** the essays of the readers.
*/
#include "../mat/assembly.h"
#include "../mat/sparse.h"
#include "../mat/stream.h"
#include "file_int.h"

#include <stdio.h>
#include <string.h>

// Formats -----------------------------------------------------------------------------------------

static bool equals_word(const char *text, const char *word)
{
    for (; *text != '\0' && (*text | 0x20) == *word; text++, word++) {
    }
    return *text == *word;
}

/* Behind the last dot of the file's name, which ends at end; the end where there is none. */
static const char *find_ending(const char *path, const char *end)
{
    const char *at = end;
    while (at > path && at[-1] != '.' && at[-1] != '/') {
        at--;
    }
    return at > path && at[-1] == '.' ? at : end;
}

gx_code gx_file_format_of(const char *path, const char *option, bool is_import,
                          gx_file_format *format, char *delimiter, gx_err *err)
{
    static const struct {
        const char *word;
        gx_file_format format;
        char delimiter; /* 0: to be found out */
    } known[] = {{"npy", GX_FILE_NPY, 0}, {"npz", GX_FILE_NPZ, 0},    {"mtx", GX_FILE_MTX, 0},
                 {"csv", GX_FILE_CSV, 0}, {"tsv", GX_FILE_CSV, '\t'}, {"txt", GX_FILE_CSV, 0}};
    const char *end = path + strlen(path), *ending = find_ending(path, end);
    bool is_packed = equals_word(ending, "gz");
    char inner[8] = "";
    if (is_packed && is_import) { // a.csv.gz
        end = ending - 1;
        ending = find_ending(path, end);
        snprintf(inner, sizeof inner, "%.*s", (int)(end - ending), ending);
        ending = inner;
    }
    const char *word = option[0] != '\0' ? option : ending;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (equals_word(word, known[i].word)) {
            *format = known[i].format;
            *delimiter = known[i].delimiter;
            return GX_OK;
        }
    }
    if (option[0] != '\0') {
        return gx_fail(err, GX_ARG, "unknown format '%s' (npy, npz, mtx, csv, tsv, txt)", option);
    }
    if (is_packed && !is_import) {
        return gx_fail(err, GX_ARG, "'%.300s' would be compressed: gx writes plain files", path);
    }
    return gx_fail(err, GX_ARG,
                   "the ending of '%.300s' is none of npy, npz, mtx, csv, tsv, txt: say which it "
                   "is with '{\"format\":...}'",
                   path);
}

// Import ------------------------------------------------------------------------------------------

/* What a gx_import_target's arg is here. */
typedef struct sink_target {
    gx_run *run;
    const gx_dest *dest;
    gx_sink *sink;
    gx_scatter *cells; /* of a sparse result; NULL: none */
    gx_dtype stored;   /* of a sparse result             */
} sink_target;

/* A failure that a run has recorded, into err. */
static gx_code run_failure(gx_run *run, gx_err *err)
{
    return gx_ok(run) ? GX_OK : gx_fail(err, run->err.code, "%s", run->err.text);
}

static gx_code begin_sink(void *arg, int64_t rows, int64_t cols, gx_number dtype, gx_dtype stored,
                          bool is_verbatim, uint32_t properties, int64_t *tile_rows,
                          int64_t *tile_cols, gx_err *err)
{
    sink_target *target = arg;
    gx_dest dest = *target->dest;
    dest.has_dtype = dest.is_streamed = true;
    dest.dtype = stored;
    dest.is_verbatim = is_verbatim;
    gx_sink_begin(target->run, &dest, rows, cols, dtype, properties, *tile_rows, *tile_cols,
                  target->sink);
    *tile_rows = target->sink->tile_rows;
    *tile_cols = target->sink->tile_cols;
    return run_failure(target->run, err);
}

static gx_code write_sink(void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n, const void *src,
                          int64_t ld, gx_err *err)
{
    sink_target *target = arg;
    return gx_sink_write(target->sink, i0, j0, m, n, src, ld, err);
}

/* Entries given twice are added (file_mtx.c). */
static gx_code begin_cells(void *arg, int64_t rows, int64_t cols, gx_dtype dtype,
                           uint32_t properties, gx_err *err)
{
    sink_target *target = arg;
    const gx_scatter_spec spec = {.rows = rows,
                                  .cols = cols,
                                  .dtype = gx_dtype_number(dtype),
                                  .duplicates = GX_DUPLICATES_SUM,
                                  .is_sparse = true,
                                  .properties = properties};
    char schema[GX_NAME_MAX + 1], name[GX_NAME_MAX + 1];
    gx_store *store = target->run->ctx->store;
    target->stored = dtype;
    if (target->dest->name != NULL) { // before all of the file is read
        GX_TRY(gx_store_resolve(store, target->dest->name, schema, name, err));
        GX_TRY(gx_store_check_free(store, schema, name, target->dest->replace, err));
    }
    return gx_scatter_create(target->run->ctx, &spec, &target->cells, err);
}

static gx_code take_cell(void *arg, int64_t i, int64_t j, gx_scalar value, gx_err *err)
{
    return gx_scatter_add(((sink_target *)arg)->cells, i, j, value, err);
}

static gx_code advance_run(void *arg, double bytes, double total, gx_err *err)
{
    gx_run *run = ((sink_target *)arg)->run;
    if (run->total != total) { // a reader has found out how often it will pass over the file
        double done = run->done;
        gx_run_progress(run, total);
        gx_run_advance(run, done);
    }
    gx_run_advance(run, bytes);
    gx_run_poll(run);
    return run_failure(run, err);
}

static void note_run(void *arg, const char *text)
{
    gx_run *run = ((sink_target *)arg)->run;
    const gx_about about = {.kind = GX_EVENT_REMARK, .instead = "a remark on a file, in gx_stats"};
    gx_stats_tell(&run->ctx->stats, &about, "%s: %s", run->label, text);
}

static void name_sink(void *arg, char *names)
{
    gx_sink_names(((sink_target *)arg)->sink, 1, names);
}

static gx_code read_format(gx_import *im, gx_file_format format, gx_err *err)
{
    switch (format) {
    case GX_FILE_NPY:
        return gx_import_npy(im, err);
    case GX_FILE_NPZ:
        return gx_import_npz(im, err);
    case GX_FILE_MTX:
        return gx_import_mtx(im, err);
    default:
        return gx_import_csv(im, err);
    }
}

/* What the file is packed in is taken off first, under whatever name it comes. */
static gx_code read_file(gx_import *im, gx_file_format format, gx_err *err)
{
    const gx_input *file = im->in;
    gx_input unpacked;
    bool is_gzip;
    void *data = NULL;
    size_t bytes;
    im->total = (double)file->size;
    GX_TRY(gx_gzip_is(file, &is_gzip, err));
    if (is_gzip) {
        GX_TRY(gx_gzip_read(im, &data, &bytes, err));
        gx_input_memory(&unpacked, file->name, data, bytes);
        im->in = &unpacked;
        im->total = (double)bytes;
    }
    gx_code rc = gx_input_check(im->in, format, err);
    rc = rc == GX_OK ? read_format(im, format, err) : rc;
    im->in = file;
    gx_mem_free(im->mem, data);
    return rc;
}

gx_code gx_file_import(gx_run *run, const char *path, gx_file_format format,
                       const gx_import_options *options, const gx_dest *dest, gx_sink *sink)
{
    *sink = (gx_sink){.run = run};
    gx_err err = {0};
    gx_input in;
    sink_target target = {.run = run, .dest = dest, .sink = sink};
    gx_import im = {
        .in = &in,
        .options = *options,
        .mem = run->ctx->mem,
        .to = {&target, begin_sink, write_sink, advance_run, begin_cells, take_cell, note_run,
               name_sink}};
    if (!gx_ok(run) || gx_run_device(run, &im.backend, &im.dev) != GX_OK) {
        return run->err.code;
    }
    gx_code rc = gx_input_open(path, &in, &err);
    if (rc == GX_OK) {
        im.team = in.size < GX_STREAM_LEAST_BYTES ? NULL : gx_run_team(run);
        rc = read_file(&im, format, &err);
    }
    gx_input_close(&in);
    if (rc == GX_OK && target.cells != NULL) {
        gx_dest as = *dest;
        as.has_dtype = true;
        as.dtype = target.stored;
        rc = gx_scatter_finish(target.cells, run, &as, sink);
    }
    gx_scatter_free(target.cells);
    return rc == GX_OK ? GX_OK : gx_run_fail(run, &err);
}

// Export ------------------------------------------------------------------------------------------

static gx_code write_format(gx_export *ex, gx_file_format format)
{
    switch (format) {
    case GX_FILE_NPY:
        return gx_export_npy(ex);
    case GX_FILE_NPZ:
        return gx_export_npz(ex);
    case GX_FILE_MTX:
        return gx_export_mtx(ex);
    default:
        return gx_export_csv(ex);
    }
}

static gx_code write_file(gx_export *ex, const char *path, gx_file_format format)
{
    gx_run *run = ex->run;
    gx_err err = {0};
    // The file is begun before anything is read: what stands in its way is known at once.
    int64_t expected = format == GX_FILE_NPY ? gx_export_npy_bytes(ex) : 0;
    if (gx_output_begin(&ex->out, path, ex->options.overwrite, expected, run->ctx->mem, &err) !=
        GX_OK) {
        return gx_run_fail(run, &err);
    }
    gx_code rc = GX_OK;
    if (gx_mat_base_stored(ex->mat) != NULL) {
        rc = gx_reader_own(run->ctx->store, &ex->reader, &err);
    }
    if (rc == GX_OK) {
        rc = write_format(ex, format);
    }
    gx_output_end(&ex->out, rc == GX_OK && gx_ok(run), &err);
    gx_reader_close(ex->reader);
    return gx_run_fail(run, &err);
}

/* A header, of a matrix that has names: unless the options say that there is none. */
static gx_code find_names(gx_export *ex, gx_file_format format, char **names, gx_err *err)
{
    const gx_mat *mat = ex->mat;
    const gx_export_options *options = &ex->options;
    size_t bytes = 0;
    bool is_wanted = format == GX_FILE_CSV && (!options->has_header || options->header);
    *names = NULL;
    if (is_wanted && mat->kind == GX_MAT_STORED) {
        GX_TRY(gx_store_read_labels(ex->run->ctx->store, &mat->meta, 1, names, &bytes, err));
    }
    ex->names = *names;
    return *names == NULL && options->has_header && options->header
               ? gx_fail(err, GX_ARG, "the columns of %s have no names: gx_set_labels gives some",
                         mat->label)
               : GX_OK;
}

gx_code gx_file_export(gx_run *run, const gx_mat *mat, const char *path, gx_file_format format,
                       const gx_export_options *options)
{
    gx_export ex = {.run = run, .mat = mat, .options = *options};
    gx_err err = {0};
    size_t bytes = 0;
    char *names;
    if (!gx_ok(run)) {
        return run->err.code;
    }
    ex.stored = options->has_dtype ? options->dtype : mat->dtype;
    ex.dtype = gx_dtype_is_number(ex.stored) ? gx_dtype_number(ex.stored) : mat->number;
    if (gx_number_is_complex(mat->number) && !gx_number_is_complex(gx_dtype_number(ex.stored))) {
        return gx_run_failf(run, GX_ARG, "%s is complex (%s), but dtype %s is real", mat->label,
                            gx_number_name(mat->number), gx_dtype_name(ex.stored));
    }
    if (format != GX_FILE_NPY && format != GX_FILE_NPZ && options->has_dtype &&
        !gx_dtype_is_number(ex.stored)) {
        return gx_run_failf(run, GX_ARG, "dtype %s is for .npy and .npz: texts have numbers",
                            gx_dtype_name(ex.stored));
    }
    if (format == GX_FILE_NPZ && !mat->is_sparse) {
        return gx_run_failf(run, GX_ARG, "%s is dense: .npy is for that, or gx_sparse of it",
                            mat->label);
    }
    if (mat->is_sparse && format != GX_FILE_NPZ &&
        !(format == GX_FILE_MTX && options->is_coordinate)) {
        gx_csr_refuse(mat->label, mat->rows, mat->cols, gx_sparse_entries(mat), mat->number, &err);
        return gx_run_fail(run, &err);
    }
    gx_mat bytes_of = *mat;
    ex.is_verbatim = ex.stored == GX_DTYPE_I64 && mat->dtype == GX_DTYPE_I64 && mat->base == NULL &&
                     format == GX_FILE_NPY;
    if (ex.is_verbatim) {
        gx_mat_verbatim(&bytes_of);
        ex.mat = &bytes_of;
    }
    gx_matrix_bytes(mat->rows, mat->cols, ex.dtype, &bytes);
    bool is_twice = format == GX_FILE_MTX && options->is_coordinate;
    gx_run_progress(run, (double)bytes * (is_twice ? 2 : 1));

    gx_code rc = find_names(&ex, format, &names, &err);
    rc = rc == GX_OK ? write_file(&ex, path, format) : gx_run_fail(run, &err);
    gx_mem_free(run->ctx->mem, names);
    return rc;
}
