/*
** core/file*.c without SQLite: readers on memory, outputs in a folder.
**
** Plan
**  1. Each call that a reader makes (read, begin, write, advance) fails once, the n-th for n =
**     1, 2, ... until none fails: the failure comes back as it was, all memory too.
**  2. Each budget from nothing to plenty: an answer, or the words of the governor.
**  3. A band is whole tiles, never more than asked for but for one tile, and covers what fits.
**  4. Output: nothing under the name before the end; nothing left after a failure; a file that
**     appears meanwhile is not overwritten; the expected size is reserved.
**  5. Text: lines of every length around the limits, both line ends, seeking.
**  6. Gzip: however little is packed, unpacking asks for interrupts.
*/
#include "file/file_int.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

// A target that can fail --------------------------------------------------------------------------

typedef struct probe {
    int64_t calls, fail_at; /* the fail_at-th call fails; 0 = none */
    int64_t tile_rows, tile_cols;
    int64_t written; /* elements */
} probe;

static gx_code count(probe *p, const char *what, gx_err *err)
{
    return ++p->calls == p->fail_at ? gx_fail(err, GX_DEVICE, "injected: %s", what) : GX_OK;
}

static probe *reading; /* of the input, whose callback has no argument of its own */
static gx_code (*read_memory)(const gx_input *, int64_t, size_t, void *, gx_err *);

static gx_code probe_read(const gx_input *in, int64_t offset, size_t bytes, void *dst, gx_err *err)
{
    assert_true(offset >= 0 && offset + (int64_t)bytes <= in->size);
    GX_TRY(count(reading, "read", err));
    return read_memory(in, offset, bytes, dst, err);
}

static gx_code probe_begin(void *arg, int64_t rows, int64_t cols, gx_number dtype,
                           gx_dtype stored, bool is_verbatim, uint32_t properties,
                           int64_t *tile_rows, int64_t *tile_cols, gx_err *err)
{
    (void)is_verbatim;
    (void)stored;
    probe *p = arg;
    (void)rows;
    (void)cols;
    (void)dtype;
    (void)properties;
    *tile_rows = p->tile_rows;
    *tile_cols = p->tile_cols;
    return count(p, "begin", err);
}

static gx_code probe_write(void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n, const void *src,
                           int64_t ld, gx_err *err)
{
    probe *p = arg;
    assert_true(i0 % p->tile_rows == 0 && j0 % p->tile_cols == 0 && ld >= m && src != NULL);
    p->written += m * n;
    return count(p, "write", err);
}

static gx_code probe_advance(void *arg, double bytes, double total, gx_err *err)
{
    assert_true(bytes >= 0 && total >= 0);
    return count(arg, "advance", err);
}

typedef gx_code (*reader)(gx_import *im, gx_err *err);

typedef struct sample {
    reader read;
    char *data;
    size_t bytes;
} sample;

static gx_code import(const sample *s, size_t limit, probe *p, gx_err *err)
{
    gx_input in;
    gx_mem *mem;
    assert_int_equal(gx_mem_create(limit, &mem, NULL), GX_OK);
    gx_input_memory(&in, "file", s->data, s->bytes);
    read_memory = in.read;
    in.read = probe_read;
    reading = p;
    gx_import im = {.in = &in,
                    .mem = mem,
                    .backend = &gx_backend_cpu,
                    .to = {p, probe_begin, probe_write, probe_advance}};
    gx_code rc = s->read(&im, err);
    assert_int_equal(gx_mem_used(mem), 0);
    gx_mem_free_all(mem);
    return rc;
}

// The files ---------------------------------------------------------------------------------------

enum { ROWS = 60, COLS = 35 };

static sample samples[6];
enum { SAMPLES = sizeof samples / sizeof samples[0] };

static void make_npy(sample *s, const char *order, const char *descr)
{
    s->read = gx_import_npy;
    s->data = calloc(1, 128 + (size_t)ROWS * COLS * 8);
    memcpy(s->data, "\x93NUMPY\x01\x00\x76\x00", 10);
    memset(s->data + 10, ' ', 118);
    int n = sprintf(s->data + 10, "{'descr': '%s', 'fortran_order': %s, 'shape': (%d, %d)}", descr,
                    order, ROWS, COLS);
    s->data[10 + n] = '\n';
    s->bytes = 128 + (size_t)ROWS * COLS * 8;
}

static void make_text(sample *s, reader read, const char *head, char separator)
{
    s->read = read;
    s->data = calloc(1, 200 + (size_t)ROWS * COLS * 12);
    char *at = s->data + sprintf(s->data, "%s", head);
    for (int k = 0; k < ROWS * COLS; k++) {
        at += sprintf(at, "%d.5%c", k, (k + 1) % COLS == 0 ? '\n' : separator);
    }
    s->bytes = (size_t)(at - s->data);
}

/* Every element once, in an order that is none. */
static void make_coordinate(sample *s)
{
    s->read = gx_import_mtx;
    s->data = calloc(1, 200 + (size_t)ROWS * COLS * 24);
    char *at = s->data;
    at += sprintf(at, "%%%%MatrixMarket matrix coordinate real general\n%d %d %d\n", ROWS, COLS,
                  ROWS * COLS);
    for (int k = 0; k < ROWS * COLS; k++) {
        int e = k * 1009 % (ROWS * COLS);
        at += sprintf(at, "%d %d %d\n", e % ROWS + 1, e / ROWS + 1, e);
    }
    s->bytes = (size_t)(at - s->data);
}

static int make_samples(void **state)
{
    (void)state;
    char head[100];
    make_npy(&samples[0], "False", "<f8");
    make_npy(&samples[1], "True", "<f8");
    make_npy(&samples[2], "False", ">i8");
    sprintf(head, "%%%%MatrixMarket matrix array real general\n%d %d\n", ROWS, COLS);
    make_text(&samples[3], gx_import_mtx, head, '\n');
    make_text(&samples[4], gx_import_csv, "", ',');
    make_coordinate(&samples[5]);
    return 0;
}

static int free_samples(void **state)
{
    (void)state;
    for (int s = 0; s < SAMPLES; s++) {
        free(samples[s].data);
    }
    return 0;
}

// 1, 2. failures and budgets ----------------------------------------------------------------------

static void every_call_fails(void **state)
{
    (void)state;
    for (int s = 0; s < SAMPLES; s++) {
        int64_t failures = 0;
        for (int64_t n = 1;; n++) {
            probe p = {.fail_at = n, .tile_rows = 8, .tile_cols = 4};
            gx_err err = {0};
            gx_code rc = import(&samples[s], 40000, &p, &err);
            if (p.calls < n) {
                assert_int_equal(rc, GX_OK);
                assert_int_equal(p.written, ROWS * COLS);
                break;
            }
            assert_int_equal(rc, GX_DEVICE);
            assert_memory_equal(err.text, "injected: ", 10);
            assert_int_equal(p.calls, n); // nothing goes on behind a failure
            failures++;
        }
        assert_true(failures > 3);
    }
}

static void every_budget(void **state)
{
    (void)state;
    for (int s = 0; s < SAMPLES; s++) {
        bool was_good = false;
        for (size_t limit = 0; limit < 200000; limit += 1237) {
            probe p = {.tile_rows = 8, .tile_cols = 4};
            gx_err err = {0};
            gx_code rc = import(&samples[s], limit, &p, &err);
            assert_true(rc == GX_OK || (rc == GX_BUDGET && !was_good));
            was_good = rc == GX_OK;
        }
        assert_true(was_good);
    }
}

// 3. bands ----------------------------------------------------------------------------------------

static void bands(void **state)
{
    (void)state;
    for (size_t limit = 4096; limit < 400000; limit += 3001) {
        gx_mem *mem;
        assert_int_equal(gx_mem_create(limit, &mem, NULL), GX_OK);
        gx_import im = {.mem = mem, .rows = 1000, .cols = 77, .tile_rows = 16, .tile_cols = 8};
        for (int order = 0; order < 2; order++) {
            int64_t m, n;
            gx_import_band(&im, (gx_order)order, (size_t)-1, &m, &n);
            assert_true(m >= 1 && m <= 1000 && n >= 1 && n <= 77);
            assert_true((m % 16 == 0 || m == 1000) && (n % 8 == 0 || n == 77));
            assert_true(m * n * 8 <= (int64_t)limit || (m <= 16 && n <= 8));
            bool by_rows = order == GX_ORDER_ROWS;
            assert_true(by_rows ? n == 77 || m <= 16 : m == 1000 || n <= 8);
            gx_import_band(&im, (gx_order)order, 2000, &m, &n);
            assert_true(m * n * 8 <= 2000);
        }
        gx_mem_free_all(mem);
    }
}

// 4. output ---------------------------------------------------------------------------------------

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/gx-test-XXXXXX");
    return mkdtemp(folder) == NULL || chdir(folder) != 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink("a.txt");
    return chdir("/") != 0 || rmdir(folder) != 0; // fails when a test left something
}

static int64_t file_size(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (int64_t)st.st_size : -1;
}

static void output_commits(void **state)
{
    (void)state;
    gx_output out;
    gx_err err = {0};
    unlink("a.txt");
    assert_int_equal(gx_output_begin(&out, "a.txt", false, 100000, NULL, &err), GX_OK);
    for (int i = 0; i < 100000; i++) {
        char *to = gx_output_room(&out);
        *to++ = 'x';
        gx_output_used(&out, to);
    }
    assert_int_equal(file_size("a.txt"), -1);
    assert_int_equal(gx_output_end(&out, true, &err), GX_OK);
    assert_int_equal(file_size("a.txt"), 100000);
}

static void output_leaves_nothing(void **state)
{
    (void)state;
    gx_output out;
    gx_err err = {0};
    unlink("a.txt");
    assert_int_equal(gx_output_begin(&out, "a.txt", false, 0, NULL, &err), GX_OK);
    gx_output_text(&out, "half");
    gx_output_end(&out, false, &err);
    assert_int_equal(file_size("a.txt"), -1);

    gx_err no_folder = {0};
    assert_int_equal(gx_output_begin(&out, "none/a.txt", false, 0, NULL, &no_folder), GX_ARG);
    assert_string_equal(no_folder.text, "cannot write 'none/a.txt': No such file or directory");

    gx_mem *mem;
    for (size_t limit = 0; limit < 20000; limit += 97) {
        gx_err budget = {0};
        assert_int_equal(gx_mem_create(limit, &mem, NULL), GX_OK);
        if (gx_output_begin(&out, "a.txt", false, 0, mem, &budget) == GX_OK) {
            gx_output_end(&out, false, &budget);
        } else {
            assert_int_equal(budget.code, GX_BUDGET);
        }
        assert_int_equal(gx_mem_used(mem), 0);
        gx_mem_free_all(mem);
    }
}

/* Somebody else writes the file while ours is being made. */
static void output_respects_others(void **state)
{
    (void)state;
    gx_output out;
    gx_err err = {0};
    unlink("a.txt");
    assert_int_equal(gx_output_begin(&out, "a.txt", false, 0, NULL, &err), GX_OK);
    gx_output_text(&out, "ours");
    int fd = open("a.txt", O_CREAT | O_WRONLY, 0644);
    assert_int_equal(write(fd, "theirs", 6), 6);
    close(fd);
    assert_int_equal(gx_output_end(&out, true, &err), GX_ARG);
    assert_string_equal(err.text, "cannot write 'a.txt': File exists (after 4 bytes)");
    assert_int_equal(file_size("a.txt"), 6);

    gx_err refused = {0};
    assert_int_equal(gx_output_begin(&out, "a.txt", false, 0, NULL, &refused), GX_ARG);
    assert_string_equal(refused.text, "'a.txt' already exists (use '{\"overwrite\":true}')");
    gx_err fine = {0};
    assert_int_equal(gx_output_begin(&out, "a.txt", true, 0, NULL, &fine), GX_OK);
    gx_output_text(&out, "ours");
    assert_int_equal(gx_output_end(&out, true, &fine), GX_OK);
    assert_int_equal(file_size("a.txt"), 4);
}

// 5. text -----------------------------------------------------------------------------------------

static void text_lines(void **state)
{
    (void)state;
    enum { LONGEST = GX_TEXT_LONGEST - 1 };
    for (int length = LONGEST - 3; length <= LONGEST + 2; length++) {
        char *data = malloc(8 * (size_t)LONGEST);
        memset(data, 'a', 8 * (size_t)LONGEST);
        data[length] = '\n';
        memcpy(data + length + 1, "b\r\n#c\n\nd", 8);
        probe p = {0};
        gx_err err = {0};
        gx_input in;
        gx_input_memory(&in, "file", data, (size_t)length + 9);
        gx_import im = {.in = &in, .to = {&p, probe_begin, probe_write, probe_advance}};
        gx_textin text;
        const char *line, *end;
        assert_int_equal(gx_textin_open(&text, &im, &err), GX_OK);
        gx_code rc = gx_textin_line(&text, '#', &line, &end, &err);
        if (length > LONGEST) {
            assert_int_equal(rc, GX_ARG);
            assert_string_equal(err.text, "file: line 1: longer than 1048576 bytes");
        } else {
            assert_int_equal(end - line, length);
            static const char *const rest[] = {"b", "", "d"};
            static const int64_t number[] = {2, 4, 5};
            for (int i = 0; i < 3; i++) {
                assert_int_equal(gx_textin_line(&text, '#', &line, &end, &err), GX_OK);
                assert_int_equal(end - line, strlen(rest[i]));
                assert_memory_equal(line, rest[i], strlen(rest[i]));
                assert_int_equal(text.line, number[i]);
            }
            assert_int_equal(gx_textin_line(&text, '#', &line, &end, &err), GX_OK);
            assert_null(line);
            assert_int_equal(gx_textin_seek(&text, length + 1, 2, length + 4, &err), GX_OK);
            assert_int_equal(gx_textin_line(&text, '#', &line, &end, &err), GX_OK);
            assert_true(end - line == 1 && *line == 'b' && text.line == 2);
            assert_int_equal(gx_textin_line(&text, '#', &line, &end, &err), GX_OK);
            assert_null(line);
        }
        gx_textin_close(&text);
        free(data);
    }
}

// Gzip --------------------------------------------------------------------------------------------

static void put_bits(unsigned char *to, size_t *at, uint32_t bits, int count)
{
    for (int k = 0; k < count; k++, ++*at) {
        to[*at / 8] |= (unsigned char)((bits >> k & 1) << *at % 8);
    }
}

/* 1 + 258 n zeros in 13 n bits: a zero, and copies of the byte before. */
static size_t pack_zeros(unsigned char *to, int64_t copies)
{
    static const unsigned char head[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    size_t at = 8 * sizeof head;
    memcpy(to, head, sizeof head);
    put_bits(to, &at, 3, 3);      // the last block, with the codes that all know
    put_bits(to, &at, 0x0c, 8);   // 0
    for (int64_t k = 0; k < copies; k++) {
        put_bits(to, &at, 0xa3, 8); // 258 bytes, from
        put_bits(to, &at, 0, 5);    // 1 before
    }
    put_bits(to, &at, 0, 7);
    size_t bytes = (at + 7) / 8, count = (size_t)(1 + 258 * copies);
    uint32_t crc = 0;
    for (size_t k = 0; k < count; k++) {
        crc = gx_crc32(crc, "", 1);
    }
    for (int k = 0; k < 4; k++) {
        to[bytes + (size_t)k] = (unsigned char)(crc >> 8 * k);
        to[bytes + 4 + (size_t)k] = (unsigned char)(count >> 8 * k);
    }
    return bytes + 8;
}

/* However little is packed: every mebibyte that comes out is asked about, and may end it. */
static void what_is_packed_is_polled(void **state)
{
    (void)state;
    enum { COPIES = 16300, MEBIBYTES = 4 };
    unsigned char *file = calloc(1, 65536);
    size_t size = pack_zeros(file, COPIES);
    assert_true(size < 32768); // one read
    int64_t calls = 0;
    for (int64_t fail_at = 0; fail_at <= calls; fail_at++) {
        gx_input in;
        gx_mem *mem;
        gx_err err = {.code = GX_OK};
        probe p = {.fail_at = fail_at};
        void *data = NULL;
        size_t bytes = 0;
        assert_int_equal(gx_mem_create((size_t)16 << 20, &mem, NULL), GX_OK);
        gx_input_memory(&in, "file", file, size);
        gx_import im = {.in = &in, .mem = mem, .to = {.arg = &p, .advance = probe_advance}};
        gx_code rc = gx_gzip_read(&im, &data, &bytes, &err);
        if (fail_at == 0) {
            assert_int_equal(rc, GX_OK);
            assert_int_equal(bytes, 1 + 258 * COPIES);
            calls = p.calls;
            assert_true(calls >= 2 * MEBIBYTES); // unpacked, and summed up
            gx_mem_free(mem, data);
        } else {
            assert_int_equal(rc, GX_DEVICE);
            assert_string_equal(err.text, "injected: advance");
        }
        assert_int_equal(gx_mem_used(mem), 0);
        gx_mem_free_all(mem);
    }
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_fails),
        cmocka_unit_test(every_budget),
        cmocka_unit_test(what_is_packed_is_polled),
        cmocka_unit_test(bands),
        cmocka_unit_test_setup_teardown(output_commits, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(output_leaves_nothing, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(output_respects_others, make_folder, remove_folder),
        cmocka_unit_test(text_lines),
    };
    return cmocka_run_group_tests(tests, make_samples, free_samples);
}
