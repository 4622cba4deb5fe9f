/*
** Shared by the files of this room; file.h is what the others see.
**
**   file_io.c    bytes in and out: inputs, text through a buffer, files under construction
**   file_band.c  a matrix band by band: how large, from where, to where
**   file_zip.c   members of an archive, and gzip
**   file_npy.c, file_npz.c  the formats, a reader and a writer each
**   file_mtx.c, file_csv.c with file_csv_field.c  readers of text; file_text_out.c: their writers
**   file.c       an import and an export as a whole
**
** Each leans on those above it.  The readers know neither SQLite nor files: bytes come from a
** gx_input, matrices go to a gx_import_target, so that the tests run them on memory.  file.c joins
** them to the store.
*/
#ifndef GX_FILE_INT_H
#define GX_FILE_INT_H

#include "file.h"

// Input (file_io.c) -------------------------------------------------------------------------------

/* Bytes that can be read at any offset: a file, or memory in the tests. */
typedef struct gx_input {
    /* Exactly bytes from offset on, all of them before size.  NULL: memory. */
    gx_code (*read)(const struct gx_input *in, int64_t offset, size_t bytes, void *dst,
                    gx_err *err);
    int64_t size;      /* bytes                                          */
    const char *name;  /* for messages: the path without its folders      */
    const char *data;  /* memory: the bytes                               */
    int fd;            /* file                                            */
} gx_input;

/* A regular file.  path is borrowed for the input's life. */
gx_code gx_input_open(const char *path, gx_input *in, gx_err *err);
void gx_input_memory(gx_input *in, const char *name, const void *data, size_t bytes);
void gx_input_close(gx_input *in);

/* "name: text" or, with a line > 0, "name: line 7: text". */
gx_code gx_input_fail(const gx_input *in, gx_err *err, int64_t line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A piece of the file for a message (gx_text_show()), cut when long.  Returns shown. */
enum { GX_TOKEN_SHOWN = 36 };
const char *gx_token_show(const char *token, int64_t bytes, char shown[GX_TOKEN_SHOWN]);

/*
** Is it of another kind than format, as its first bytes say (a workbook named .csv)?  Then it is
** refused: what it is, and what to do.  A text may begin with anything else.
*/
gx_code gx_input_check(const gx_input *in, gx_file_format format, gx_err *err);

// Where an import goes ----------------------------------------------------------------------------

typedef struct gx_import_target {
    void *arg;
    /* Called once, before any write.  tile shape: in 0, out what bands are cut by. */
    gx_code (*begin)(void *arg, int64_t rows, int64_t cols, gx_number dtype, gx_dtype stored,
                     bool is_verbatim, uint32_t properties, int64_t *tile_rows,
                     int64_t *tile_cols, gx_err *err);
    /* Whole tiles, each once, any order. */
    gx_code (*write)(void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n, const void *src,
                     int64_t ld, gx_err *err);
    /* Called often: bytes of the file dealt with since the last call, of total in all. */
    gx_code (*advance)(void *arg, double bytes, double total, gx_err *err);
    /* Instead of begin and write, for a sparse result; NULL: the target takes none.  Any order. */
    gx_code (*begin_cells)(void *arg, int64_t rows, int64_t cols, gx_dtype dtype,
                           uint32_t properties, gx_err *err);
    gx_code (*cell)(void *arg, int64_t i, int64_t j, gx_scalar value, gx_err *err);
    /* What the caller should know of a guess; NULL: nobody wants to. */
    void (*note)(void *arg, const char *text);
    /* Names of the columns (base/names.h), after begin, of im->mem and the target's; NULL: none. */
    void (*names)(void *arg, char *names);
} gx_import_target;

/* One import on its way. */
typedef struct gx_import {
    const gx_input *in;
    gx_import_options options;
    gx_mem *mem;
    const gx_backend *backend;    /* whose kernels turn rows to columns       */
    gx_dev *dev;
    gx_team *team;                /* who read a large file; NULL: the caller  */
    gx_import_target to;
    double total;                 /* progress: bytes of the file times passes */
    int64_t rows, cols;           /* the rest is set by gx_import_begin()     */
    gx_number dtype;              /* of what is written to the target         */
    gx_dtype stored;              /* what it becomes there                    */
    bool is_verbatim;             /* i64 whose bytes are written as f64       */
    int64_t tile_rows, tile_cols;
} gx_import;

/* Between two pieces of work, some milliseconds each: is the caller to stop? */
static inline gx_code gx_import_poll(const gx_import *im, gx_err *err)
{
    return im->to.advance(im->to.arg, 0, im->total, err);
}

// Text (file_io.c) --------------------------------------------------------------------------------

/* Bytes that can be looked at in one piece: a line of numbers, a field. */
enum {
    GX_TEXT_AHEAD = 8192,     /* at first                                       */
    GX_TEXT_LONGEST = 1 << 20 /* after as many gx_textin_widen() as that takes */
};

/* Text read through a buffer. */
typedef struct gx_textin {
    gx_import *im;
    char *buffer;       /* capacity + 1 bytes, of im->mem                     */
    size_t capacity;
    int64_t ahead;      /* bytes that can be looked at in one piece            */
    const char *at;     /* the next byte                                      */
    const char *end;    /* behind the bytes in the buffer; *end is NUL         */
    int64_t next;       /* offset in the file of the byte at end               */
    int64_t stop;       /* offset where reading ends                           */
    int64_t line;       /* number of the latest line returned, from 1          */
} gx_textin;

gx_code gx_textin_open(gx_textin *text, gx_import *im, gx_err *err);
void gx_textin_close(gx_textin *text);

/* Go to an offset that starts a line, and read up to stop. */
gx_code gx_textin_seek(gx_textin *text, int64_t offset, int64_t line, int64_t stop, gx_err *err);

/*
** Keep the bytes from at on and read more behind them, until the buffer is full or the file
** ends.
*/
gx_code gx_textin_fill(gx_textin *text, gx_err *err);

static inline int64_t gx_textin_offset(const gx_textin *text)
{
    return text->next - (text->end - text->at);
}

static inline bool gx_textin_is_last(const gx_textin *text)
{
    return text->next >= text->stop;
}

/*
** Twice as many bytes can be looked at from now on, and all that points into the buffer has moved.
** *is_wider false: no, as many as ever; more would be too long, or more than the memory takes.
*/
gx_code gx_textin_widen(gx_textin *text, bool *is_wider, gx_err *err);

/* GX_BUDGET: what stands there is longer than the window that memory allows. */
gx_code gx_textin_no_memory(const gx_textin *text, gx_err *err);

/* At least text->ahead bytes at hand, or all that are left. */
static inline gx_code gx_textin_need(gx_textin *text, gx_err *err)
{
    if (text->end - text->at >= text->ahead || gx_textin_is_last(text)) {
        return GX_OK;
    }
    return gx_textin_fill(text, err);
}

/*
** The next line that does not start with comment ('\0': any), without its end (\n or \r\n);
** *line NULL at the end of the file.  Lines longer than that are refused, comments may
** have any length.
*/
gx_code gx_textin_line(gx_textin *text, char comment, const char **line, const char **end,
                       gx_err *err);

// Output (file_io.c) ------------------------------------------------------------------------------

/*
** A file under construction: written under another name beside path, and renamed to path when
** whole. Sticky: after a failure the rest does nothing, and gx_output_end() reports it.
*/
typedef struct gx_output {
    gx_mem *mem;
    gx_err err;        /* the first failure                                     */
    char *path;        /* where it goes, links followed; of mem                 */
    char *temp;        /* what is being written; of mem; NULL = none            */
    const char *name;  /* of path, without folders                              */
    bool overwrite;
    int fd;
    char *buffer;      /* of mem                                                */
    size_t used, capacity;
    int64_t written;   /* bytes that left the buffer                            */
} gx_output;

/* expected_bytes: reserved on the disk where the system can, 0 = not known. */
gx_code gx_output_begin(gx_output *out, const char *path, bool overwrite, int64_t expected_bytes,
                        gx_mem *mem, gx_err *err);

/* Room for bytes <= GX_OUTPUT_ROOM; then gx_output_used() says how many were put there. */
enum { GX_OUTPUT_ROOM = 256 };
char *gx_output_room(gx_output *out);
static inline void gx_output_used(gx_output *out, const char *end)
{
    out->used = (size_t)(end - out->buffer);
}

void gx_output_put(gx_output *out, const void *bytes, size_t count);
void gx_output_text(gx_output *out, const char *text);

/*
** commit: flush, sync, rename.  Else, or when anything failed: nothing is left.  Call exactly
** once.
*/
gx_code gx_output_end(gx_output *out, bool commit, gx_err *err);

// Bands (file_band.c) -----------------------------------------------------------------------------

/*
** For the readers: announce the shape.  dtype is what the file holds; options.dtype overrides
** it, where complex to real is refused.
*/
gx_code gx_import_begin(gx_import *im, int64_t rows, int64_t cols, gx_dtype dtype,
                        uint32_t properties, gx_err *err);

/* What a sparse result is stored as, of what the file has. */
gx_code gx_import_sparse_dtype(const gx_import *im, gx_dtype from, gx_dtype *to, gx_err *err);

/* How a file's elements follow each other. */
typedef enum gx_order { GX_ORDER_ROWS, GX_ORDER_COLUMNS } gx_order;

/*
** The band to read at a time: whole tiles, at most most_bytes and what the budget leaves (one
** tile at the least), first along the file's order.
*/
void gx_import_band(const gx_import *im, gx_order order, size_t most_bytes, int64_t *m, int64_t *n);

/* A band of whole tiles at (i0, j0) to the target, with a poll now and then. */
gx_code gx_import_write(const gx_import *im, int64_t i0, int64_t j0, int64_t m, int64_t n,
                        const void *band, gx_err *err);

/* One export on its way. */
typedef struct gx_export {
    gx_run *run;
    const gx_mat *mat;
    gx_reader *reader;    /* NULL when no stored matrix is under mat */
    gx_export_options options;
    gx_number dtype;      /* of the elements read, and of text       */
    gx_dtype stored;      /* of the elements written, in .npy        */
    bool is_verbatim;     /* i64 whose bytes are read as f64         */
    const char *names;    /* CSV: of the columns (base/names.h); NULL: none */
    gx_output out;
    int64_t printed; /* elements, as text                       */
} gx_export;

/*
** Walk over the matrix in the file's order: fn gets bands of whole lines (rows or columns), or
** pieces of one line where the budget holds no whole one.  is_lower: only what lies on or below
** the diagonal is wanted (columns: from row j0 on).  src: column-major, ld = m.
*/
typedef gx_code (*gx_export_band)(void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n,
                                  const void *src);
gx_code gx_export_walk(gx_export *ex, gx_order order, bool is_lower, gx_export_band fn, void *arg);

/* One element as text: "1", "0.5", "nan"; complex parts are two elements. */
char *gx_export_number(const gx_export *ex, const void *element, char *to);

// Packed files (file_zip.c) -----------------------------------------------------------------------

/* What the directory says of a member. */
typedef struct gx_zip_member {
    bool is_secret;
    int method; /* 0 stored, 8 deflated */
    uint32_t crc;
    int64_t packed, bytes; /* in the file; unpacked */
    int64_t local;         /* where its own header is */
} gx_zip_member;

/* Each member in turn, until *is_done.  name: NUL-terminated, cut when very long. */
typedef void (*gx_zip_visit)(void *arg, const char *name, const gx_zip_member *member,
                             bool *is_done);
gx_code gx_zip_each(const gx_import *im, gx_zip_visit fn, void *arg, gx_err *err);

gx_code gx_zip_find(const gx_import *im, const char *name, gx_zip_member *member, bool *found,
                    gx_err *err);

/* Its bytes, unpacked and compared with the checksum, in memory of im->mem: the caller's. */
gx_code gx_zip_read(const gx_import *im, const char *name, const gx_zip_member *member, void **data,
                    gx_err *err);

/* Does the file begin as gzip's do? */
gx_code gx_gzip_is(const gx_input *in, bool *is_gzip, gx_err *err);

/* All that is packed in im->in, unpacked and compared with the checksums: the caller's. */
gx_code gx_gzip_read(const gx_import *im, void **data, size_t *bytes, gx_err *err);

/* Of bytes behind others whose checksum is crc; 0 at first. */
uint32_t gx_crc32(uint32_t crc, const void *bytes, size_t count);

// Formats (file_npy.c, file_npz.c, file_mtx.c, file_csv.c) ----------------------------------------

/* What the header of a .npy file says. */
typedef struct gx_npy {
    const gx_input *in;
    char kind;       /* f c i u b                        */
    int item;        /* bytes of an element              */
    bool is_swapped; /* big-endian                       */
    gx_dtype stored; /* what an element is, if is_dtype  */
    bool is_dtype;   /* false: an integer that is none   */
    gx_number dtype; /* what it is without loss          */
    bool is_fortran;
    int dims;
    int64_t rows, cols;
    int64_t start; /* offset of the first element      */
} gx_npy;

/* Read and checked: the elements follow, and nothing else. */
gx_code gx_npy_open(const gx_input *in, gx_npy *file, gx_err *err);

/* count elements as the file has them to file->dtype; raw is changed where the order differs. */
gx_code gx_npy_decode(const gx_npy *file, unsigned char *raw, int64_t count, void *to,
                      gx_err *err);

gx_code gx_import_npy(gx_import *im, gx_err *err);
gx_code gx_import_npz(gx_import *im, gx_err *err);
gx_code gx_import_mtx(gx_import *im, gx_err *err);
gx_code gx_import_csv(gx_import *im, gx_err *err);

/* Bytes of the .npy file, header included. */
int64_t gx_export_npy_bytes(const gx_export *ex);
gx_code gx_export_npy(gx_export *ex);
gx_code gx_export_npz(gx_export *ex);
gx_code gx_export_mtx(gx_export *ex);
gx_code gx_export_csv(gx_export *ex);

#endif
