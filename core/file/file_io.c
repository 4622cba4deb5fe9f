/*
** Bytes in and out of files, for the readers and writers of matrices.
**
** Input    pread() at any offset, so that a reader can take a band of a file out of order.  Only
**          regular files: the readers need the size, and pass over parts of a file more than once.
** Text     one buffer (16 KiB to 1 MiB, an eighth of what the budget leaves) over an input.  The
**          bytes before `at` are dealt with; filling moves the rest to the front.
** Output   one buffer over write().  The file is made as .gx-<random>.tmp in the folder of its path
**          and renamed when it is whole and on the disk, so that nobody ever sees half a file and
**          an existing one stays until then.  A killed process leaves the .tmp behind, nothing else
**          does.
**
** No mmap: a file cut short by somebody else would be a SIGBUS in the host's process.  Offsets
** are 64-bit.  Threads: one per object.
*/
#include "file_int.h"

#include "../base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const size_t TEXT_LEAST = 2 * GX_TEXT_AHEAD;
static const size_t TEXT_MOST = (size_t)1 << 20;
static const size_t OUTPUT_LEAST = (size_t)16 << 10;
static const size_t OUTPUT_MOST = (size_t)1 << 20;

/* What errno says, in words: strerror() is not for threads. */
enum { REASON_BYTES = 128 };
static const char *reason(int number, char text[REASON_BYTES])
{
    return strerror_r(number, text, REASON_BYTES);
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static gx_code refuse_odd(const char *path, const char *oddity, gx_err *err)
{
    return gx_fail(err, GX_ARG, "'%.300s' is %s, not a regular file", path, oddity);
}

// Input -------------------------------------------------------------------------------------------

gx_code gx_input_fail(const gx_input *in, gx_err *err, int64_t line, const char *format, ...)
{
    char text[sizeof err->text], where[48] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (line > 0) {
        snprintf(where, sizeof where, "line %lld: ", (long long)line);
    }
    return gx_fail(err, GX_ARG, "%.200s: %s%s", in->name, where, text);
}

const char *gx_token_show(const char *token, int64_t bytes, char shown[GX_TOKEN_SHOWN])
{
    return gx_text_fit(token, (size_t)bytes, shown, GX_TOKEN_SHOWN);
}

static gx_code read_file(const gx_input *in, int64_t offset, size_t bytes, void *dst, gx_err *err)
{
    char why[REASON_BYTES];
    while (bytes > 0) {
        ssize_t got = pread(in->fd, dst, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return gx_input_fail(in, err, 0, "cannot read: %s", reason(errno, why));
        }
        if (got == 0) {
            return gx_input_fail(in, err, 0, "was cut to %lld bytes while it was being read",
                                 (long long)offset);
        }
        dst = (char *)dst + got;
        bytes -= (size_t)got;
        offset += got;
    }
    return GX_OK;
}

static gx_code read_memory(const gx_input *in, int64_t offset, size_t bytes, void *dst, gx_err *err)
{
    (void)err;
    if (bytes > 0) {
        memcpy(dst, in->data + offset, bytes);
    }
    return GX_OK;
}

void gx_input_memory(gx_input *in, const char *name, const void *data, size_t bytes)
{
    *in = (gx_input){
        .read = read_memory, .size = (int64_t)bytes, .name = name, .data = data, .fd = -1};
}

gx_code gx_input_open(const char *path, gx_input *in, gx_err *err)
{
    *in = (gx_input){.read = read_file, .name = file_name(path), .fd = -1};
    char why[REASON_BYTES];
    struct stat st;
    const char *oddity;
    in->fd = gx_open_regular(path, O_RDONLY, &st, &oddity);
    if (oddity != NULL) {
        return refuse_odd(path, oddity, err);
    }
    if (in->fd < 0) {
        return gx_fail(err, GX_ARG, "cannot open '%.300s': %s", path, reason(errno, why));
    }
    in->size = (int64_t)st.st_size;
    return GX_OK;
}

void gx_input_close(gx_input *in)
{
    if (in->fd >= 0) {
        close(in->fd);
        in->fd = -1;
    }
}

// What a file is ----------------------------------------------------------------------------------

enum { LOOKED_AT = 64, OTHER = -1, TEXT = -2 };

/* How files of other programs begin, and of formats read under another name. */
static const struct {
    const char *start;
    int bytes, format;
    const char *text;
} kinds[] = {
    {"\x93NUMPY", 6, GX_FILE_NPY, "is a NumPy array (.npy): '{\"format\":\"npy\"}' reads it"},
    {"PK\3\4", 4, GX_FILE_NPZ, NULL}, // what is in it says more
    {"%%MatrixMarket", 14, GX_FILE_MTX, "is a Matrix Market file: '{\"format\":\"mtx\"}' reads it"},
    {"\x1f\x8b", 2, OTHER, "is compressed twice (gzip): gunzip it"},
    {"BZh", 3, OTHER, "is compressed (bzip2): bunzip2 it first"},
    {"\xfd"
     "7zXZ",
     5, OTHER, "is compressed (xz): unxz it first"},
    {"\x28\xb5\x2f\xfd", 4, OTHER, "is compressed (Zstandard): unzstd it first"},
    {"PAR1", 4, OTHER,
     "is a Parquet file: read it with pandas or DuckDB, or save it as CSV or .npy"},
    {"ARROW1", 6, OTHER, "is an Arrow file: read it with pandas or pyarrow, or save it as CSV"},
    {"\x89HDF\r\n\x1a\n", 8, OTHER,
     "is an HDF5 file (.h5, .mat of MATLAB 7.3): save its array as .npy or CSV"},
    {"MATLAB 5.0", 10, OTHER, "is a MATLAB file (.mat): save its matrix as .npy, .mtx or CSV"},
    {"SQLite format 3", 16, OTHER, "is an SQLite database: ATTACH it"},
    {"\xd0\xcf\x11\xe0", 4, OTHER, "is an Office document (.xls, .doc): save the sheet as CSV"},
    {"%PDF-", 5, OTHER, "is a PDF document, not text"},
    {"\xff\xfe", 2, TEXT, "is UTF-16: save it as UTF-8"},
    {"\xfe\xff", 2, TEXT, "is UTF-16: save it as UTF-8"},
};

/* What a zip archive holds, by the name of its first member: lengths stand before it. */
static const char *zip_text(const char *start)
{
    static const char *const office[] = {"[Content_Types].xml", "xl/", "docProps/", "_rels/"};
    const int NAME = 30;
    for (size_t k = 0; k < sizeof office / sizeof *office; k++) {
        if (memcmp(start + NAME, office[k], strlen(office[k])) == 0) {
            return "is an Office document (.xlsx, .docx): save the sheet as CSV";
        }
    }
    if (memcmp(start + NAME, "mimetype", 8) == 0) {
        return "is an OpenDocument (.ods, .odt): save the sheet as CSV";
    }
    return memmem(start + NAME, LOOKED_AT - (size_t)NAME, ".npy", 4) != NULL
               ? "is an archive of NumPy arrays (.npz): '{\"format\":\"npz\"}' reads it"
               : "is a zip archive: unpack it first";
}

gx_code gx_input_check(const gx_input *in, gx_file_format format, gx_err *err)
{
    char start[LOOKED_AT] = {0};
    bool is_text = format == GX_FILE_CSV || format == GX_FILE_MTX;
    int64_t count = gx_min(in->size, LOOKED_AT);
    GX_TRY(in->read(in, 0, (size_t)count, start, err));
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (count >= kinds[k].bytes && memcmp(start, kinds[k].start, (size_t)kinds[k].bytes) == 0 &&
            kinds[k].format != (int)format && (kinds[k].format != TEXT || is_text)) {
            return gx_input_fail(in, err, 0, "%s",
                                 kinds[k].text != NULL ? kinds[k].text : zip_text(start));
        }
    }
    bool is_wide = count >= 4 && (start[0] == '\0') == (start[2] == '\0') &&
                   (start[1] == '\0') == (start[3] == '\0') &&
                   (start[0] == '\0') != (start[1] == '\0');
    return is_wide && is_text ? gx_input_fail(in, err, 0, "is UTF-16: save it as UTF-8") : GX_OK;
}

// Text --------------------------------------------------------------------------------------------

/* A buffer's size: an eighth of what is left, between least and most. */
static size_t buffer_size(const gx_mem *mem, size_t least, size_t most)
{
    size_t share = mem != NULL ? gx_mem_available(mem) / 8 : most;
    return share < least ? least : share > most ? most : share;
}

gx_code gx_textin_open(gx_textin *text, gx_import *im, gx_err *err)
{
    *text = (gx_textin){.im = im, .ahead = GX_TEXT_AHEAD, .stop = im->in->size};
    text->capacity = buffer_size(im->mem, TEXT_LEAST, TEXT_MOST);
    if ((size_t)im->in->size < text->capacity) {
        text->capacity = (size_t)im->in->size < TEXT_LEAST ? TEXT_LEAST : (size_t)im->in->size;
    }
    void *buffer;
    GX_TRY(gx_mem_alloc(im->mem, text->capacity + 1, "a read buffer", &buffer, err));
    text->buffer = buffer;
    text->at = text->end = text->buffer;
    text->buffer[0] = '\0';
    return gx_textin_fill(text, err);
}

void gx_textin_close(gx_textin *text)
{
    if (text->im != NULL) {
        gx_mem_free(text->im->mem, text->buffer);
        text->buffer = NULL;
    }
}

gx_code gx_textin_seek(gx_textin *text, int64_t offset, int64_t line, int64_t stop, gx_err *err)
{
    text->at = text->end = text->buffer;
    text->next = offset;
    text->stop = stop;
    text->line = line - 1;
    return gx_textin_fill(text, err);
}

gx_code gx_textin_fill(gx_textin *text, gx_err *err)
{
    size_t kept = (size_t)(text->end - text->at);
    memmove(text->buffer, text->at, kept);
    size_t room = text->capacity - kept;
    if ((int64_t)room > text->stop - text->next) {
        room = (size_t)(text->stop - text->next);
    }
    text->at = text->buffer;
    text->end = text->buffer + kept;
    text->buffer[kept] = '\0';
    const gx_import *im = text->im;
    GX_TRY(im->in->read(im->in, text->next, room, text->buffer + kept, err));
    text->end += room;
    text->buffer[kept + room] = '\0';
    text->next += (int64_t)room;
    return im->to.advance(im->to.arg, (double)room, im->total, err);
}

gx_code gx_textin_widen(gx_textin *text, bool *is_wider, gx_err *err)
{
    const gx_mem *mem = text->im->mem;
    size_t wanted = 4 * (size_t)text->ahead; // half of it is room to read into
    *is_wider = text->ahead < GX_TEXT_LONGEST &&
                (text->capacity >= wanted || buffer_size(mem, 0, wanted) == wanted);
    if (*is_wider && text->capacity < wanted) {
        ptrdiff_t at = text->at - text->buffer, end = text->end - text->buffer;
        void *buffer = text->buffer;
        GX_TRY(gx_mem_realloc(text->im->mem, wanted + 1, "a read buffer", &buffer, err));
        text->buffer = buffer;
        text->capacity = wanted;
        text->at = text->buffer + at;
        text->end = text->buffer + end;
    }
    text->ahead *= *is_wider ? 2 : 1;
    return GX_OK;
}

gx_code gx_textin_no_memory(const gx_textin *text, gx_err *err)
{
    return gx_fail(err, GX_BUDGET,
                   "a number of more than %lld bytes needs a larger window: raise memory_limit "
                   "with gx_config('memory_limit', ...)",
                   (long long)text->ahead);
}

/* Pass over the rest of a line of any length, its end included. */
static gx_code skip_line(gx_textin *text, gx_err *err)
{
    for (;;) {
        const char *newline = memchr(text->at, '\n', (size_t)(text->end - text->at));
        text->at = newline != NULL ? newline + 1 : text->end;
        if (newline != NULL || gx_textin_is_last(text)) {
            return GX_OK;
        }
        GX_TRY(gx_textin_fill(text, err));
    }
}

gx_code gx_textin_line(gx_textin *text, char comment, const char **line, const char **end,
                       gx_err *err)
{
    *line = *end = NULL;
    for (;;) {
        GX_TRY(gx_textin_need(text, err));
        int64_t ahead = gx_min(text->end - text->at, text->ahead);
        if (ahead == 0) {
            return GX_OK;
        }
        if (comment != '\0' && *text->at == comment) {
            text->line++;
            GX_TRY(skip_line(text, err));
            continue;
        }
        const char *newline = memchr(text->at, '\n', (size_t)ahead);
        if (newline == NULL && !(gx_textin_is_last(text) && text->end - text->at == ahead)) {
            bool is_wider;
            GX_TRY(gx_textin_widen(text, &is_wider, err));
            if (is_wider) {
                continue;
            }
            return text->ahead < GX_TEXT_LONGEST
                       ? gx_textin_no_memory(text, err)
                       : gx_input_fail(text->im->in, err, text->line + 1,
                                       "longer than %lld bytes", (long long)text->ahead);
        }
        text->line++;
        *line = text->at;
        *end = newline != NULL ? newline : text->end;
        text->at = newline != NULL ? newline + 1 : text->end;
        *end -= *end > *line && (*end)[-1] == '\r';
        return GX_OK;
    }
}

// Output ------------------------------------------------------------------------------------------

static gx_code copy_text(gx_mem *mem, const char *text, size_t bytes, size_t more, char **copy,
                         gx_err *err)
{
    void *block;
    GX_TRY(gx_mem_alloc(mem, bytes + more + 1, "a file name", &block, err));
    memcpy(block, text, bytes);
    ((char *)block)[bytes] = '\0';
    *copy = block;
    return GX_OK;
}

/* Overwriting a database, the open one above all, is never what was meant. */
static bool is_database(const char *path)
{
    static const char magic[16] = "SQLite format 3";
    char start[sizeof magic];
    struct stat st;
    const char *oddity;
    int fd = gx_open_regular(path, O_RDONLY, &st, &oddity);
    if (fd < 0) {
        return false;
    }
    bool is_same = pread(fd, start, sizeof start, 0) == (ssize_t)sizeof start &&
                   memcmp(start, magic, sizeof magic) == 0;
    close(fd);
    return is_same;
}

/* Where the file will be: the path, or what a link there leads to.  Refuses what is in the way. */
static gx_code find_place(gx_output *out, const char *path, mode_t *mode, gx_err *err)
{
    struct stat st;
    char resolved[PATH_MAX];
    *mode = 0;
    if (lstat(path, &st) == 0 && !out->overwrite) {
        return gx_fail(err, GX_ARG, "'%.300s' already exists (use '{\"overwrite\":true}')", path);
    }
    const char *oddity = gx_file_oddity(path, true);
    if (oddity != NULL) {
        return refuse_odd(path, oddity, err);
    }
    if (stat(path, &st) == 0) {
        if (is_database(path)) {
            return gx_fail(err, GX_ARG, "'%.300s' is an SQLite database", path);
        }
        *mode = st.st_mode & 07777;
        path = realpath(path, resolved) != NULL ? resolved : path;
    }
    GX_TRY(copy_text(out->mem, path, strlen(path), 0, &out->path, err));
    out->name = file_name(out->path);
    return GX_OK;
}

/* A file of a new name in the folder of out->path. */
static gx_code open_temp(gx_output *out, gx_err *err)
{
    enum { TRIES = 100 };
    char why[REASON_BYTES];
    size_t bytes = strlen(out->path) + GX_NEWFILE_NAME;
    GX_TRY(copy_text(out->mem, "", 0, bytes, &out->temp, err));
    for (int i = 0; i < TRIES && out->fd < 0; i++) {
        (void)gx_newfile_name(out->path, out->temp, bytes);
        out->fd = open(out->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (out->fd < 0 && errno != EEXIST) {
            break;
        }
    }
    if (out->fd < 0) {
        int number = errno;
        gx_mem_free(out->mem, out->temp);
        out->temp = NULL;
        return gx_fail(err, GX_ARG, "cannot write '%.300s': %s", out->path, reason(number, why));
    }
    return GX_OK;
}

static void fail_write(gx_output *out, int number)
{
    char why[REASON_BYTES];
    gx_fail(&out->err, GX_ARG, "cannot write '%.300s': %s (after %lld bytes)", out->path,
            reason(number, why), (long long)out->written);
}

/* Ask for the space now: a full disk is better known before the work. */
static void reserve_space(gx_output *out, int64_t bytes)
{
#ifdef __linux__
    if (bytes > 0 && fallocate(out->fd, 0, 0, (off_t)bytes) != 0 &&
        (errno == ENOSPC || errno == EFBIG || errno == EDQUOT)) {
        char why[REASON_BYTES];
        gx_fail(&out->err, GX_ARG, "cannot write the %lld bytes of '%.300s': %s", (long long)bytes,
                out->path, reason(errno, why));
    }
#else
    (void)out;
    (void)bytes;
#endif
}

gx_code gx_output_begin(gx_output *out, const char *path, bool overwrite, int64_t expected_bytes,
                        gx_mem *mem, gx_err *err)
{
    *out = (gx_output){.mem = mem, .overwrite = overwrite, .fd = -1};
    mode_t mode = 0;
    void *buffer = NULL;
    out->capacity = buffer_size(mem, OUTPUT_LEAST, OUTPUT_MOST);
    gx_code rc = find_place(out, path, &mode, err);
    if (rc == GX_OK) {
        rc = gx_mem_alloc(mem, out->capacity, "a write buffer", &buffer, err);
        out->buffer = buffer;
    }
    if (rc == GX_OK) {
        rc = open_temp(out, err);
    }
    if (rc == GX_OK) {
        if (mode != 0) {
            (void)fchmod(out->fd, mode); // as the file had that it replaces; not vital
        }
        reserve_space(out, expected_bytes);
        rc = out->err.code;
    }
    if (rc != GX_OK) {
        gx_output_end(out, false, err);
    }
    return rc;
}

static void flush(gx_output *out)
{
    size_t done = 0;
    while (done < out->used && out->err.code == GX_OK) {
        ssize_t count = write(out->fd, out->buffer + done, out->used - done);
        if (count < 0 && errno != EINTR) {
            fail_write(out, errno);
        } else if (count > 0) {
            done += (size_t)count;
            out->written += count;
        }
    }
    out->used = 0;
}

char *gx_output_room(gx_output *out)
{
    if (out->capacity - out->used < GX_OUTPUT_ROOM) {
        flush(out);
    }
    return out->buffer + out->used;
}

void gx_output_put(gx_output *out, const void *bytes, size_t count)
{
    while (count > 0) {
        if (out->used == out->capacity) {
            flush(out);
        }
        size_t room = out->capacity - out->used;
        size_t part = count < room ? count : room;
        memcpy(out->buffer + out->used, bytes, part);
        out->used += part;
        bytes = (const char *)bytes + part;
        count -= part;
    }
}

void gx_output_text(gx_output *out, const char *text)
{
    gx_output_put(out, text, strlen(text));
}

gx_code gx_output_end(gx_output *out, bool commit, gx_err *err)
{
    if (commit) {
        flush(out);
    }
    if (commit && out->err.code == GX_OK && fsync(out->fd) != 0 && errno != EINVAL) {
        fail_write(out, errno);
    }
    if (out->fd >= 0 && close(out->fd) != 0 && commit) {
        fail_write(out, errno);
    }
    bool is_done = commit && out->err.code == GX_OK;
    if (is_done && !gx_newfile_publish(out->temp, out->path, out->overwrite)) {
        fail_write(out, errno);
        is_done = false;
    }
    if (!is_done && out->temp != NULL) {
        unlink(out->temp);
    }
    if (out->err.code != GX_OK) {
        gx_fail(err, out->err.code, "%s", out->err.text);
    }
    gx_mem_free(out->mem, out->temp);
    gx_mem_free(out->mem, out->buffer);
    gx_mem_free(out->mem, out->path);
    out->fd = -1;
    out->temp = out->buffer = out->path = NULL;
    return err->code;
}
