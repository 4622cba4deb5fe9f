/*
** The limits that gx is measured against, in plain SQLite and plain OpenBLAS; bench.py runs them
** in the same run as gx.  Each command prints one number: seconds.
**
**   peer dgemm N THREADS              C = A B, N x N doubles already in RAM
**   peer potrf N THREADS              Cholesky of A, likewise; getrf: LU, geqrf: QR
**   peer insert FILE BYTES BLOB PAGE  a new database of PAGE-byte pages gets BYTES as blobs of
**                                     BLOB bytes, one INSERT each, commit included
**   peer scan FILE ID CONNECTIONS     every tile of matrix ID by sqlite3_blob_read into a reused
**                                     buffer, one thread a connection
*/
#include <cblas.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void openblas_set_num_threads(int threads);

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "peer: %s\n", what);
    exit(1);
}

static double *random_matrix(size_t n)
{
    double *x = malloc(n * n * sizeof *x);
    if (x == NULL) {
        die("no memory");
    }
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i < n * n; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        x[i] = (double)(state >> 11) * 0x1p-53 - 0.5;
    }
    return x;
}

static double dgemm(int n, int threads)
{
    openblas_set_num_threads(threads);
    double *a = random_matrix((size_t)n), *b = random_matrix((size_t)n),
           *c = random_matrix((size_t)n);
    int small = n < 512 ? n : 512; // wake the threads
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, small, small, small, 1, a, n, b, n, 0, c,
                n);
    double start = now();
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a, n, b, n, 0, c, n);
    return now() - start;
}

// LAPACK as OpenBLAS has it, by its Fortran names.
void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info, size_t length);
void dgetrf_(const int *m, const int *n, double *a, const int *lda, int *pivots, int *info);
void dgeqrf_(const int *m, const int *n, double *a, const int *lda, double *tau, double *work,
             const int *work_size, int *info);

static void *take(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL) {
        die("no memory");
    }
    memset(memory, 0, bytes);
    return memory;
}

/* Seconds of one factorisation, after a small one that wakes the threads. */
static double factor(const char *name, int n, int threads)
{
    openblas_set_num_threads(threads);
    double *a = random_matrix((size_t)n), seconds = 0;
    for (size_t i = 0; i < (size_t)n; i++) {
        a[i * (size_t)n + i] += n; // positive definite where only a triangle is read
    }
    double *b = take((size_t)n * (size_t)n * sizeof *b), *tau = take((size_t)n * sizeof *tau);
    int *pivots = take((size_t)n * sizeof *pivots), work_size = 256 * n, info = 0;
    double *work = take((size_t)work_size * sizeof *work);
    for (int turn = 0; turn < 2; turn++) {
        int size = turn == 0 && n > 512 ? 512 : n;
        memcpy(b, a, (size_t)n * (size_t)n * sizeof *b);
        double start = now();
        if (strcmp(name, "potrf") == 0) {
            dpotrf_("L", &size, b, &n, &info, 1);
        } else if (strcmp(name, "getrf") == 0) {
            dgetrf_(&size, &size, b, &n, pivots, &info);
        } else {
            dgeqrf_(&size, &size, b, &n, tau, work, &work_size, &info);
        }
        seconds = now() - start;
        if (info != 0) {
            die("the factorisation failed");
        }
    }
    return seconds;
}

static bool is_factor(const char *name)
{
    return strcmp(name, "potrf") == 0 || strcmp(name, "getrf") == 0 || strcmp(name, "geqrf") == 0;
}

static void must(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        die(sqlite3_errmsg(db));
    }
}

static double insert(const char *file, int64_t bytes, int64_t blob, int page)
{
    unlink(file);
    sqlite3 *db;
    if (sqlite3_open(file, &db) != SQLITE_OK) {
        die("cannot open");
    }
    char sql[100];
    snprintf(sql, sizeof sql, "PRAGMA page_size=%d", page);
    must(db, sql);
    must(db, "CREATE TABLE t(id INTEGER PRIMARY KEY, data BLOB)");
    char *data = malloc((size_t)blob);
    memset(data, 7, (size_t)blob);
    sqlite3_stmt *st;
    double start = now();
    must(db, "BEGIN");
    sqlite3_prepare_v2(db, "INSERT INTO t VALUES(?1, ?2)", -1, &st, NULL);
    for (int64_t k = 0; k * blob < bytes; k++) {
        sqlite3_bind_int64(st, 1, k);
        sqlite3_bind_blob64(st, 2, data, (sqlite3_uint64)blob, SQLITE_STATIC);
        if (sqlite3_step(st) != SQLITE_DONE || sqlite3_reset(st) != SQLITE_OK) {
            die(sqlite3_errmsg(db));
        }
    }
    sqlite3_finalize(st);
    must(db, "COMMIT");
    double seconds = now() - start;
    sqlite3_close(db);
    unlink(file);
    return seconds;
}

// Scan --------------------------------------------------------------------------------------------

static const char *scan_file;
static int64_t scan_first, scan_count;
static atomic_llong scan_next;

static void *scan_some(void *unused)
{
    sqlite3 *db;
    sqlite3_blob *blob = NULL;
    char *buffer = NULL;
    if (sqlite3_open_v2(scan_file, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK) {
        die("cannot open");
    }
    must(db, "BEGIN");
    long long k;
    while ((k = atomic_fetch_add(&scan_next, 1)) < scan_count) {
        int rc = blob == NULL
                     ? sqlite3_blob_open(db, "main", "gx_tile", "data", scan_first + k, 0, &blob)
                     : sqlite3_blob_reopen(blob, scan_first + k);
        if (rc != SQLITE_OK) {
            die(sqlite3_errmsg(db));
        }
        int bytes = sqlite3_blob_bytes(blob);
        if (buffer == NULL) {
            buffer = malloc((size_t)bytes);
        }
        if (sqlite3_blob_read(blob, buffer, bytes, 0) != SQLITE_OK) {
            die(sqlite3_errmsg(db));
        }
    }
    sqlite3_blob_close(blob);
    must(db, "COMMIT");
    sqlite3_close(db);
    free(buffer);
    return unused;
}

static double scan(const char *file, int64_t id, int connections)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    char sql[200];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM gx_tile WHERE id >> 32 = %lld", (long long)id);
    if (sqlite3_open(file, &db) != SQLITE_OK ||
        sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK || sqlite3_step(st) != SQLITE_ROW) {
        die(sqlite3_errmsg(db));
    }
    scan_count = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    scan_file = file;
    scan_first = id << 32;
    pthread_t thread[64];
    double start = now();
    for (int t = 0; t < connections && t < 64; t++) {
        pthread_create(&thread[t], NULL, scan_some, NULL);
    }
    for (int t = 0; t < connections && t < 64; t++) {
        pthread_join(thread[t], NULL);
    }
    return now() - start;
}

int main(int argc, char **argv)
{
    double seconds = -1;
    if (argc == 4 && strcmp(argv[1], "dgemm") == 0) {
        seconds = dgemm(atoi(argv[2]), atoi(argv[3]));
    } else if (argc == 4 && is_factor(argv[1])) {
        seconds = factor(argv[1], atoi(argv[2]), atoi(argv[3]));
    } else if (argc == 6 && strcmp(argv[1], "insert") == 0) {
        seconds = insert(argv[2], atoll(argv[3]), atoll(argv[4]), atoi(argv[5]));
    } else if (argc == 5 && strcmp(argv[1], "scan") == 0) {
        seconds = scan(argv[2], atoll(argv[3]), atoi(argv[4]));
    } else {
        die("usage: peer dgemm|potrf|getrf|geqrf N THREADS | insert FILE BYTES BLOB PAGE | "
            "scan FILE ID CONNECTIONS");
    }
    printf("%.6f\n", seconds);
    return 0;
}
