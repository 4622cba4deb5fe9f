/*
** From the database to the device and back: what large calls take beside the limits of the machine,
** measured in the same run.  JSON lines on standard output.
**
**     gpu_tests bench_core [N [FOLDER [PART...]]]
**
** N: side of the matrices, f64 (8192).  FOLDER: where the database file is made, N^2 * 32 bytes of
** it, half of that where no product is asked for, removed at the end (the current one).  PARTS, all
** by default: limits links stream product cholesky stored limited pinned xt; `links` says what a
** stream is measured against.  GX_BENCH_LIMIT: bytes of device memory of `limited` (2147483648).
** GX_BENCH_TILE: bytes of a tile.  GX_BENCH_TRACE=1: product and cholesky once more, what each
** device did when, and what it waited for (bench_trace.h).  GX_BENCH_KEEP=1: the file stays, and
** one that is there is used.
**
** GX_DEVICES (all, a number, a list; 1) works here as everywhere.
**
** `xt` is what a program without gx would call: cublasXtDgemm on three ordinary, pageable arrays of
** N^2 * 8 bytes in host memory, touched before the clock starts; the better of blocks of 4096 and
** 8192; `xt_pinned`, when it is named, the same on page-locked arrays.  Beside it stand the
** product's times of the same run.
**
** Plan: tiles are INSERTed with no journal, then the file is in WAL mode; A has 2 N on its
** diagonal, so that its lower triangle is positive definite.  Each time is that of one call as SQL
** makes it, gx_run_begin() to gx_run_end(), the device's buffers warm and its kept blocks
** forgotten, so that every call reads all it needs from the file; the least of three, of one where
** the result is stored.
**
** Results are looked at: some elements against their sums, and the limited ones against those.
** Exit status 1 when a call failed or an element is wrong.
*/
#include "../unit/kernels/block.h"

#include "connection.h"
#include "device/fleet.h"
#include "alg/alg.h"
#include "exec/exec_int.h"
#include "exec/place.h"
#include "base/random.h"
#include "mat/stream.h"

#include <dlfcn.h>
#include <math.h>
#include <sqlite3.h>
#include <time.h>
#include <unistd.h>

typedef struct bench {
    sqlite3 *db;
    gx_ctx *ctx;
    int64_t n;
    double bytes; /* of one matrix */
    gx_meta A, B;
    double read_s, copy_s, gemm_s, potrf_s, insert_s; /* limits; 0 = not measured */
    double links_s;                                   /* of a stream; the same */
    double dropped_s, stored_s;                       /* the product's times; the same */
    bool is_wrong;
} bench;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(gx_code code, const gx_err *err)
{
    if (code != GX_OK) {
        printf("{\"error\": \"%s\"}\n", err->text);
        exit(1);
    }
}

static void set(bench *b, gx_setting setting, const char *value)
{
    gx_err err = {0};
    must(gx_ctx_configure(b->ctx, setting, value, &err), &err);
}

static void execute(bench *b, const char *sql)
{
    char *text = NULL;
    if (sqlite3_exec(b->db, sql, NULL, NULL, &text) != SQLITE_OK) {
        printf("{\"error\": \"%s: %s\"}\n", sql, text);
        exit(1);
    }
}

/* A time beside its limit. */
static void print(const bench *b, const char *what, double seconds, double limit)
{
    gx_stats *stats = &b->ctx->stats;
    static const gx_counter shown[] = {
        GX_STAT_READ_NS,        GX_STAT_WRITE_NS,         GX_STAT_STALL_READ_NS,
        GX_STAT_STALL_WRITE_NS, GX_STAT_STALL_DEVICE_NS,  GX_STAT_READERS_IDLE_NS,
        GX_STAT_WRITER_IDLE_NS, GX_STAT_BYTES_READ,       GX_STAT_BYTES_WRITTEN,
        GX_STAT_UPLOADED,       GX_STAT_DOWNLOADED,       GX_STAT_DEVICE_HITS,
        GX_STAT_PINNED_HITS,    GX_STAT_PINNED_MISSES,    GX_STAT_PINNED_DENIED,
        GX_STAT_DEVICE_CALLS,   GX_STAT_DEVICE_FALLBACKS, GX_STAT_SPILLS,
        GX_STAT_SPREAD_CALLS,   GX_STAT_DEVICES_LOST,     GX_STAT_PEER_BYTES};
    printf("{\"what\": \"%s\", \"n\": %lld, \"seconds\": %.4f", what, (long long)b->n, seconds);
    if (limit > 0) {
        printf(", \"limit\": %.4f, \"ratio\": %.3f", limit, seconds / limit);
    }
    for (size_t k = 0; k < sizeof shown / sizeof *shown; k++) {
        const gx_counter_info *info = gx_stats_info(shown[k]);
        int64_t value = gx_stats_get(stats, shown[k]);
        bool is_time = strcmp(info->unit, "ns") == 0;
        if (value != 0) {
            printf(is_time ? ", \"%s\": %.3f" : ", \"%s\": %.0f", info->name,
                   is_time ? 1e-9 * (double)value : (double)value);
        }
    }
    struct gx_note note;
    for (int k = 0; gx_stats_note_get(stats, k, &note); k++) {
        printf(", \"note\": \"%s\"", note.text);
    }
    printf("}\n");
    fflush(stdout);
}

static gx_accel *accel_of(const bench *b)
{
    gx_accel *accel = gx_accel_get(b->ctx);
    if (accel == NULL) {
        printf("SKIPPED: no device: %s%s\n", b->ctx->cuda_reason, b->ctx->accel_reason);
        exit(77);
    }
    return accel;
}

// The file ----------------------------------------------------------------------------------------

/* Every call reads all it needs. */
static void forget(const bench *b)
{
    for (gx_accel *accel = accel_of(b); accel != NULL; accel = accel->next) {
        gx_pool_forget(accel->pool);
    }
}

static double largest(double a, double b)
{
    return a > b ? a : b;
}

static int64_t tiles_of(const gx_meta *meta)
{
    return gx_meta_row_tiles(meta) * gx_meta_col_tiles(meta);
}

static size_t tile_bytes(const gx_meta *meta, int64_t tile)
{
    int64_t high = gx_meta_row_tiles(meta);
    return 8 *
           (size_t)(gx_meta_tile_height(meta, tile % high) * gx_meta_tile_width(meta, tile / high));
}

static void make_matrix(bench *b, const char *name, double diagonal, gx_meta *meta)
{
    enum { KINDS = 4 };
    gx_store *store = b->ctx->store;
    gx_err err = {0};
    gx_random random;
    must(gx_random_init(&random, GX_RANDOM_UNIFORM, GX_F64, 7, -1, 1, &err), &err);
    gx_ctx_hold(b->ctx);
    must(gx_store_begin(store, "main", &err), &err);
    *meta = (gx_meta){.rows = b->n, .cols = b->n, .dtype = GX_DTYPE_F64};
    snprintf(meta->schema, sizeof meta->schema, "main");
    must(gx_store_create(store, meta, NULL, &err), &err);
    size_t elements = (size_t)(meta->tile_rows * meta->tile_cols);
    double *tile[KINDS + 1];
    for (int k = 0; k <= KINDS; k++) {
        tile[k] = malloc(elements * sizeof(double));
        gx_random_generate(&random, k * 100000 + (diagonal > 0 ? 0 : 50000), 0, meta->tile_rows,
                           meta->tile_cols, GX_F64, tile[k], meta->tile_rows);
    }
    int64_t high = gx_meta_row_tiles(meta);
    for (int64_t t = 0; t < tiles_of(meta); t++) {
        int64_t ti = t % high, tj = t / high, m = gx_meta_tile_height(meta, ti);
        double *from = tile[(3 * ti + 5 * tj) % KINDS];
        if (ti == tj && diagonal > 0) {
            memcpy(tile[KINDS], from, elements * sizeof(double));
            from = tile[KINDS];
            for (int64_t k = 0; k < gx_min(m, gx_meta_tile_width(meta, tj)); k++) {
                from[k * m + k] = diagonal;
            }
        }
        must(gx_store_write_tile(store, meta, t, from, &err), &err);
    }
    must(gx_store_publish(store, meta, name, true, &err), &err);
    must(gx_store_end(store, true, &err), &err);
    must(gx_store_find(store, name, meta, &err), &err);
    gx_ctx_release(b->ctx);
    for (int k = 0; k <= KINDS; k++) {
        free(tile[k]);
    }
}

/* A matrix of the file, made where it is not there. */
static void find_or_make(bench *b, const char *name, double diagonal, gx_meta *meta)
{
    bool is_found = false;
    gx_run run;
    gx_run_begin(&run, b->ctx, "look");
    gx_store_lookup(b->ctx->store, name, meta, &is_found, &run.err);
    must(gx_run_end(&run), &run.err);
    if (!is_found || meta->rows != b->n) {
        make_matrix(b, name, diagonal, meta);
    }
}

static bool keeps_file(void)
{
    return getenv("GX_BENCH_KEEP") != NULL;
}

static void make_file(bench *b, const char *path, bool has_b)
{
    gx_err err = {0};
    double start = now();
    if (!keeps_file()) {
        unlink(path);
    }
    if (sqlite3_open(path, &b->db) != SQLITE_OK) {
        printf("{\"error\": \"%s: %s\"}\n", path, sqlite3_errmsg(b->db));
        exit(1);
    }
    execute(b, "PRAGMA page_size = 65536; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF");
    must(gx_ctx_create(b->db, &b->ctx, &err), &err);
    if (getenv("GX_BENCH_TILE") != NULL) {
        set(b, GX_SET_TILE_BYTES, getenv("GX_BENCH_TILE"));
    }
    find_or_make(b, "A", 2.0 * (double)b->n, &b->A);
    if (has_b) {
        find_or_make(b, "B", 0, &b->B);
    }
    execute(b, "PRAGMA journal_mode = WAL");
    execute(b, "CREATE TABLE IF NOT EXISTS raw(id INTEGER PRIMARY KEY, data BLOB)");
    print(b, "made", now() - start, 0);
    set(b, GX_SET_BACKEND, "cuda");
    set(b, GX_SET_PROBE, "off");
}

// Limits ------------------------------------------------------------------------------------------

typedef struct reading {
    gx_mat source;
    _Atomic int64_t next;
} reading;

static void read_tiles(void *arg, gx_helper *helper)
{
    reading *r = arg;
    const gx_meta *meta = &r->source.meta;
    size_t most = (size_t)(meta->tile_rows * meta->tile_cols) * 8;
    void *tile = malloc(most);
    gx_err err = {0};
    for (int64_t t = r->next++; t < tiles_of(meta) && gx_ok(helper->run); t = r->next++) {
        gx_reader_read(gx_helper_reader(helper, &r->source), meta, t, 0, tile_bytes(meta, t), tile,
                       &err);
        gx_run_fail(helper->run, &err);
    }
    free(tile);
}

static void measure_reading(bench *b)
{
    for (int round = 0; round < 3; round++) {
        gx_run run;
        reading r = {.next = 0};
        gx_stream *stream;
        gx_mat_stored(&r.source, &b->A);
        const gx_mat *sources[] = {&r.source};
        gx_stats_reset(&b->ctx->stats);
        gx_run_begin(&run, b->ctx, "read");
        double start = now();
        gx_stream_start(&run, sources, 1, (int)b->ctx->config.number[GX_SET_READERS], b->bytes,
                        read_tiles, &r, &stream);
        gx_stream_stop(stream);
        double seconds = now() - start;
        must(gx_run_end(&run), &run.err);
        b->read_s = b->read_s == 0 || seconds < b->read_s ? seconds : b->read_s;
    }
    print(b, "limit: read one matrix", b->read_s, 0);
}

static void measure_copies(bench *b, gx_accel *accel)
{
    size_t bytes = (size_t)256 << 20, size = b->bytes < (double)bytes ? (size_t)b->bytes : bytes;
    void *host = NULL, *there = NULL;
    gx_err err = {0};
    must(accel->backend->pin(accel->dev, size, &host, &err), &err);
    must(accel->backend->alloc(accel->dev, size, &there, &err), &err);
    memset(host, 1, size);
    for (int round = 0; round < 5; round++) {
        double start = now();
        must(accel->backend->upload(accel->dev, accel->up, there, size, host, size, size, 1, &err),
             &err);
        must(accel->backend->queue_wait(accel->dev, accel->up, &err), &err);
        double seconds = (now() - start) * b->bytes / (double)size;
        b->copy_s = b->copy_s == 0 || seconds < b->copy_s ? seconds : b->copy_s;
    }
    accel->backend->free(accel->dev, there);
    accel->backend->unpin(accel->dev, host);
    gx_stats_reset(&b->ctx->stats);
    print(b, "limit: copy one matrix, pinned", b->copy_s, 0);
}

static double time_kernel(gx_accel *accel, gx_kernel_id kernel, gx_args *args, void *diagonal)
{
    const gx_backend *backend = accel->backend;
    gx_err err = {0};
    gx_random random;
    double best = 0;
    size_t n = (size_t)args->m, bytes = backend->workspace(accel->dev, kernel, GX_F64, args);
    int64_t info = 0;
    must(backend->alloc(accel->dev, bytes + 64, &args->work, &err), &err);
    must(gx_random_init(&random, GX_RANDOM_UNIFORM, GX_F64, 7, -1, 1, &err), &err);
    for (int round = 0; round < 3; round++) {
        gx_args fill = {
            .m = args->m, .n = args->m, .c = args->c, .ldc = args->m, .random = &random};
        must(backend->kernel[GX_RANDOM][GX_F64](accel->dev, accel->run, &fill, &err), &err);
        for (size_t k = 0; diagonal != NULL && k < n; k++) {
            must(backend->upload(accel->dev, accel->run, (double *)args->c + k * (n + 1), 8,
                                 diagonal, 8, 8, 1, &err),
                 &err);
        }
        must(backend->queue_wait(accel->dev, accel->run, &err), &err);
        args->info = &info;
        double start = now();
        must(backend->kernel[kernel][GX_F64](accel->dev, accel->run, args, &err), &err);
        must(backend->queue_wait(accel->dev, accel->run, &err), &err);
        double seconds = now() - start;
        best = round == 1 || (round > 1 && seconds < best) ? seconds : best;
    }
    backend->free(accel->dev, args->work);
    return best;
}

static void measure_kernels(bench *b, gx_accel *accel)
{
    const gx_backend *backend = accel->backend;
    gx_err err = {0};
    gx_random random;
    void *x[3];
    double diagonal = 2.0 * (double)b->n;
    must(gx_random_init(&random, GX_RANDOM_UNIFORM, GX_F64, 9, -1, 1, &err), &err);
    gx_pool_trim(accel->pool);
    for (int k = 0; k < 3; k++) {
        must(backend->alloc(accel->dev, (size_t)b->bytes, &x[k], &err), &err);
        gx_args fill = {.m = b->n, .n = b->n, .c = x[k], .ldc = b->n, .random = &random};
        must(backend->kernel[GX_RANDOM][GX_F64](accel->dev, accel->run, &fill, &err), &err);
    }
    gx_args gemm = {.m = b->n,
                    .n = b->n,
                    .k = b->n,
                    .alpha = {1, 0},
                    .a = x[0],
                    .lda = b->n,
                    .b = x[1],
                    .ldb = b->n,
                    .c = x[2],
                    .ldc = b->n};
    b->gemm_s = time_kernel(accel, GX_GEMM, &gemm, NULL);
    gx_args potrf = {.uplo = GX_LOWER, .m = b->n, .n = b->n, .c = x[2], .ldc = b->n};
    b->potrf_s = time_kernel(accel, GX_POTRF, &potrf, &diagonal);
    for (int k = 0; k < 3; k++) {
        backend->free(accel->dev, x[k]);
    }
    gx_stats_reset(&b->ctx->stats);
    print(b, "limit: dgemm, resident", b->gemm_s, 0);
    print(b, "limit: potrf, resident", b->potrf_s, 0);
}

static void measure_insert(bench *b)
{
    size_t bytes = (size_t)8 << 20;
    void *tile = malloc(bytes);
    sqlite3_stmt *stmt;
    memset(tile, 1, bytes);
    double start = now();
    execute(b, "BEGIN IMMEDIATE");
    sqlite3_prepare_v2(b->db, "INSERT INTO raw(data) VALUES(?1)", -1, &stmt, NULL);
    for (double left = b->bytes; left > 0; left -= (double)bytes) {
        size_t size = left < (double)bytes ? (size_t)left : bytes;
        sqlite3_bind_blob64(stmt, 1, tile, size, SQLITE_STATIC);
        if (sqlite3_step(stmt) != SQLITE_DONE) {
            printf("{\"error\": \"%s\"}\n", sqlite3_errmsg(b->db));
            exit(1);
        }
        sqlite3_reset(stmt);
    }
    sqlite3_finalize(stmt);
    execute(b, "COMMIT");
    b->insert_s = now() - start;
    free(tile);
    execute(b, "DELETE FROM raw; PRAGMA wal_checkpoint(TRUNCATE)");
    gx_stats_reset(&b->ctx->stats);
    print(b, "limit: INSERT the bytes of one matrix", b->insert_s, 0);
}

// Calls -------------------------------------------------------------------------------------------

typedef enum keep { KEEP_STORED, KEEP_NOTHING } keep;

/* Element (i, j) of a source. */
static double element(bench *b, gx_run *run, const gx_mat *m, int64_t i, int64_t j)
{
    gx_reader *own = NULL;
    gx_err err = {0};
    double x = NAN;
    must(gx_reader_own(b->ctx->store, &own, &err), &err);
    must(gx_mat_read(run, m, own, i, j, 1, 1, GX_F64, &x, 1, &err), &err);
    gx_reader_close(own);
    return x;
}

/* Rows [0, count) of column j, or columns of row i (is_row), into x. */
static void line(bench *b, gx_run *run, const gx_mat *m, bool is_row, int64_t at, int64_t count,
                 double *x)
{
    gx_reader *own = NULL;
    gx_err err = {0};
    must(gx_reader_own(b->ctx->store, &own, &err), &err);
    for (int64_t k = 0; k < count; k += is_row ? 1 : count) {
        must(is_row ? gx_mat_read(run, m, own, at, k, 1, 1, GX_F64, x + k, 1, &err)
                    : gx_mat_read(run, m, own, 0, at, count, 1, GX_F64, x, count, &err),
             &err);
    }
    gx_reader_close(own);
}

/* Some elements of the result against the sums that they are. */
static void look(bench *b, gx_run *run, const gx_mat *result, bool is_product)
{
    double *x = malloc((size_t)b->n * 8), *y = malloc((size_t)b->n * 8), worst = 0;
    gx_mat A, B;
    gx_mat_stored(&A, &b->A);
    gx_mat_stored(&B, &b->B);
    for (int q = 0; q < 3; q++) {
        int64_t i = (b->n - 1) * (q + 1) / 3, j = is_product ? b->n * q / 4 : i * q / 3;
        int64_t count = is_product ? b->n : j + 1;
        line(b, run, is_product ? &A : result, true, i, count, x);
        line(b, run, is_product ? &B : result, !is_product, j, count, y);
        double sum = 0, scale = 0;
        for (int64_t k = 0; k < count; k++) {
            sum += x[k] * y[k];
            scale += fabs(x[k] * y[k]);
        }
        double wrong = fabs(sum - element(b, run, is_product ? result : &A, i, j));
        worst = largest(worst, wrong / (scale + 1));
    }
    free(x);
    free(y);
    if (!(worst < 1e-11)) {
        b->is_wrong = true;
        printf("{\"error\": \"an element is wrong by %.3g\"}\n", worst);
    }
}

#include "bench_trace.h"

static double call_once(bench *b, bool is_product, keep where, bool is_traced)
{
    gx_run run;
    gx_mat A, B;
    gx_sink C = {0};
    gx_dest dest = {.name = "C", .replace = true};
    gx_mat_stored(&A, &b->A);
    gx_mat_stored(&B, &b->B);
    forget(b);
    gx_stats_reset(&b->ctx->stats);
    is_traced = is_traced && trace_on(b);
    double start = now();
    gx_run_begin(&run, b->ctx, is_product ? "gx_matmul" : "gx_cholesky");
    if (where == KEEP_STORED) {
        gx_sink_begin(&run, &dest, b->n, b->n, GX_F64, 0, 0, 0, &C);
    } else {
        gx_sink_begin_nowhere(&run, b->n, b->n, GX_F64, b->A.tile_rows, b->A.tile_cols, &C);
    }
    gx_matmul_args args = {.A = &A, .B = &B, .alpha = {1, 0}};
    is_product ? gx_alg_matmul(&run, &args, &C) : gx_alg_cholesky(&run, &A, GX_LOWER, &C);
    double seconds = now() - start;
    if (is_traced) {
        trace_off(start, seconds);
    }
    if (where == KEEP_STORED) {
        gx_sink_end(&C);
        seconds = now() - start;
    }
    must(gx_run_end(&run), &run.err);
    return seconds;
}

static void look_at_stored(bench *b, bool is_product)
{
    gx_run run;
    gx_mat result;
    gx_meta meta;
    gx_err err = {0};
    gx_run_begin(&run, b->ctx, "look");
    must(gx_store_find(b->ctx->store, "C", &meta, &err), &err);
    gx_mat_stored(&result, &meta);
    look(b, &run, &result, is_product);
    must(gx_run_end(&run), &run.err);
    execute(b, "PRAGMA wal_checkpoint(TRUNCATE)");
}

/*
** The file as it was before the stored call: no C, nothing in the log, and pages free for a result,
** into which the same bytes are INSERTed raw for a limit in the same state.
*/
static void prepare_stored(bench *b)
{
    gx_run run;
    gx_meta meta;
    bool is_found = false;
    gx_run_begin(&run, b->ctx, "drop");
    gx_store_lookup(b->ctx->store, "C", &meta, &is_found, &run.err);
    must(gx_run_end(&run), &run.err);
    if (is_found) {
        char sql[160];
        snprintf(sql, sizeof sql,
                 "DELETE FROM gx_tile WHERE id >> 32 = %lld; DELETE FROM gx_meta WHERE id = %lld",
                 (long long)meta.id, (long long)meta.id);
        execute(b, sql);
    }
    measure_insert(b);
}

static double call(bench *b, const char *what, bool is_product, keep where)
{
    if (where == KEEP_STORED) {
        prepare_stored(b);
    }
    double limit = largest(largest(b->read_s, b->copy_s) * (is_product ? 2 : 0.5),
                           is_product ? b->gemm_s : b->potrf_s);
    if (where == KEEP_STORED) {
        limit = largest(limit, b->insert_s);
    }
    double best = 0;
    for (int round = 0; round < (where == KEEP_STORED ? 1 : 3); round++) {
        double seconds = call_once(b, is_product, where, false);
        best = round == 0 || seconds < best ? seconds : best;
        if (round == 0 && where != KEEP_STORED) {
            char first[100];
            snprintf(first, sizeof first, "%s, first call", what);
            print(b, first, seconds, limit);
        }
    }
    print(b, what, best, limit);
    if (where == KEEP_STORED) {
        look_at_stored(b, is_product);
    } else if (trace_is_wanted()) {
        call_once(b, is_product, where, true);
    }
    return best;
}

// Streaming ---------------------------------------------------------------------------------------

/* All blocks of A, each brought in by a call without a kernel. */
static double stream_once(bench *b)
{
    gx_run run;
    gx_mat A;
    gx_prog *prog;
    gx_accel *accel = accel_of(b);
    size_t bytes = 0;
    int64_t edge = gx_min(4096, gx_max(b->A.tile_rows, b->n / 4));
    gx_mat_stored(&A, &b->A);
    forget(b);
    gx_stats_reset(&b->ctx->stats);
    double start = now();
    gx_run_begin(&run, b->ctx, "stream");
    must(gx_accel_limit(b->ctx, accel, 0, &bytes, &run.err), &run.err);
    must(gx_prog_create(&run, 64, &prog), &run.err);
    const gx_opnd *op = gx_prog_operand(prog, &A, NULL, GX_F64, b->n, b->n, edge, edge);
    for (int64_t k = 0; k < op->grid_rows * op->grid_cols; k++) {
        gx_prog_call(prog, &(gx_call){.kernel = GX_KERNEL_COUNT,
                                      .a = gx_blk(op, k % op->grid_rows, k / op->grid_rows),
                                      .c = gx_blk(op, k % op->grid_rows, k / op->grid_rows),
                                      .keeps_c = true});
    }
    gx_prog_lookahead(prog, INT32_MAX / 2);
    gx_fleet fleet;
    gx_cost cost;
    gx_terms terms;
    gx_fleet_single(&fleet, accel, bytes);
    gx_place_predict(prog, &fleet, &cost, &terms); // on as many as 'devices' allows and pay
    gx_prog_run_spread(prog, &fleet);
    gx_prog_free(prog);
    double seconds = now() - start;
    must(gx_run_end(&run), &run.err);
    return seconds;
}

static double stream(bench *b, const char *what, int rounds)
{
    double best = 0, limit = b->links_s > 0 ? b->links_s : largest(b->read_s, b->copy_s);
    int64_t hits = 0, all = 0;
    for (int round = 0; round < rounds; round++) {
        double seconds = stream_once(b);
        best = round == 0 || seconds < best ? seconds : best;
        if (round > 0) {
            hits += gx_stats_get(&b->ctx->stats, GX_STAT_PINNED_HITS);
            all += gx_stats_get(&b->ctx->stats, GX_STAT_PINNED_MISSES);
        }
    }
    print(b, what, best, limit);
    printf("{\"what\": \"%s: rate\", \"GB_per_s\": %.2f, \"of_limit\": %.3f, "
           "\"pinned_hit_rate\": %.3f}\n",
           what, b->bytes / best / 1e9, limit / best,
           hits + all == 0 ? 0 : (double)hits / (double)(hits + all));
    return best;
}

#include "bench_links.h"
#include "bench_xt.h"

// The parts ---------------------------------------------------------------------------------------

static bool is_wanted(const char *const *part, const char *name)
{
    bool is_any = part == NULL || *part == NULL;
    for (; !is_any && *part != NULL; part++) {
        is_any = strcmp(*part, name) == 0;
        if (is_any) {
            break;
        }
    }
    return is_any;
}

/* Is B asked for? */
static bool has_product(const char *const *part)
{
    return is_wanted(part, "product") || is_wanted(part, "stored") || is_wanted(part, "limited");
}

static void limited(bench *b, double cholesky_s)
{
    const char *limit = getenv("GX_BENCH_LIMIT");
    set(b, GX_SET_DEVICE_MEMORY_LIMIT, limit == NULL ? "2147483648" : limit);
    double product = call(b, "product, limited, result dropped", true, KEEP_NOTHING);
    double stored = call(b, "cholesky, limited, stored", false, KEEP_STORED);
    printf("{\"what\": \"limited speed of unlimited\", \"product\": %.3f, \"cholesky\": %.3f}\n",
           b->dropped_s / product, cholesky_s / stored);
    call(b, "product, limited, stored", true, KEEP_STORED);
    set(b, GX_SET_DEVICE_MEMORY_LIMIT, "0");
}

static void run_parts(bench *b, const char *const *part)
{
    double cholesky_s = 0;
    gx_accel *accel = accel_of(b);
    if (is_wanted(part, "limits")) {
        measure_reading(b);
        measure_copies(b, accel);
        measure_kernels(b, accel);
        measure_insert(b);
    }
    if (is_wanted(part, "links")) {
        b->links_s = measure_links(b);
    }
    if (is_wanted(part, "stream")) {
        stream(b, "stream one matrix", 5);
    }
    if (is_wanted(part, "pinned")) {
        double pinned = stream(b, "stream, ten calls", 10);
        char usual[32];
        snprintf(usual, sizeof usual, "%lld",
                 (long long)b->ctx->config.number[GX_SET_PINNING_BUDGET]);
        gx_pool_trim(accel->pool);
        set(b, GX_SET_PINNING_BUDGET, "0");
        double pageable = stream(b, "stream, pageable", 3);
        set(b, GX_SET_PINNING_BUDGET, usual);
        printf("{\"what\": \"pinned speed of pageable\", \"ratio\": %.3f}\n", pageable / pinned);
    }
    if (is_wanted(part, "product")) {
        b->dropped_s = call(b, "product, result dropped", true, KEEP_NOTHING);
    }
    if (is_wanted(part, "cholesky")) {
        call(b, "cholesky, result dropped", false, KEEP_NOTHING);
    }
    if (is_wanted(part, "stored")) {
        b->stored_s = call(b, "product, stored", true, KEEP_STORED);
        cholesky_s = call(b, "cholesky, stored", false, KEEP_STORED);
    }
    if (is_wanted(part, "limited")) {
        limited(b, cholesky_s);
    }
    if (is_wanted(part, "xt")) {
        compare_xt(b, false);
    }
    if (part != NULL && *part != NULL && is_wanted(part, "xt_pinned")) { // when it is asked for
        compare_xt(b, true);
    }
}

int bench_core(int argc, char **argv);

int bench_core(int argc, char **argv)
{
    bench b = {.n = argc > 0 ? atoll(argv[0]) : 8192};
    char path[4096];
    snprintf(path, sizeof path, "%s/gx_bench_core.db", argc > 1 ? argv[1] : ".");
    b.bytes = 8.0 * (double)b.n * (double)b.n;
    const char *const *part = argc > 2 ? (const char *const *)argv + 2 : NULL;
    make_file(&b, path, has_product(part));
    run_parts(&b, part);
    gx_ctx_free(b.ctx);
    sqlite3_close(b.db);
    if (!keeps_file()) {
        unlink(path);
    }
    return b.is_wrong ? 1 : 0;
}
