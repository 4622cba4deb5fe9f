/*
** gx_benchmark([force]): measures the machine for the planner and keeps the figures.
**
** The core measures products, factorisations and memcpy (profile_measure.c), and an open or allowed
** device (profile_device.c).  The database's rates come from a private database beside the
** connection's own, on the same disk, with the same page size, journal mode and synchronous.  Next
** to nothing is stored and committed some times; then matrices of one, eight and many tiles of 8
** MiB, while the file grows and again where they have been: rates depend on that and on what fits
** into caches.  The one of eight tiles is read through one connection, the second time from a warm
** cache, and by as many helper connections as 'readers' says.  Where there is no place for a file
** the database is a temporary one of SQLite's, without helpers.  What a killed process left is
** removed by a measurement an hour later.
**
** Takes four seconds, six with a device; on the disk 328 MiB, 200 on a slow one (MANY_S), and as
** long a log; memory within memory_limit.  Without force, figures that are there are returned.
*/
#include "gx_ext.h"

#include "../core/alg/plan.h"
#include "../core/connection.h"
#include "../core/device/accel.h"
#include "../core/device/device.h"
#include "../core/mat/stream.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TILES = 8, PASSES = 2, COMMITS = 10, READERS_MOST = 64, CROWDS = 3, PATH_BYTES = 1024 };

/* Many tiles: as many as are stored in this time, within bounds. */
enum { MANY_LEAST = 16, MANY_MOST = 32 };
static const double MANY_S = 0.25;

static const size_t PIECE_BYTES = (size_t)1 << 20;

/* Of a database's file and of what SQLite keeps beside it. */
static const char *const endings[] = {"", "-journal", "-wal", "-shm"};

/* One transaction: tiles [from, to) of meta; the first one makes the matrix, the last names it. */
static gx_code write_tiles(gx_run *run, gx_store *store, const char *name, const void *data,
                           int64_t from, int64_t to, gx_meta *meta, gx_err *err)
{
    if (from == 0) {
        GX_TRY(gx_store_create(store, meta, NULL, err));
    }
    for (int64_t tile = from; tile < to; tile++) {
        GX_TRY(gx_store_write_tile(store, meta, tile, data, err));
        GX_TRY(gx_run_poll(run));
    }
    return to == meta->cols ? gx_store_publish(store, meta, name, false, err) : GX_OK;
}

/*
** Store a matrix of tiles of tile_rows f64 from data; *committed_ns: the commits' part.  A commit
** writes TILES of them at most, since nothing interrupts it.
*/
static gx_code write_matrix(gx_run *run, gx_ctx *ctx, const char *name, const void *data,
                            int64_t tiles, int64_t tile_rows, gx_meta *meta, int64_t *committed_ns,
                            gx_err *err)
{
    *meta = (gx_meta){.schema = "main", .rows = tile_rows, .cols = tiles, .dtype = GX_DTYPE_F64};
    meta->tile_rows = tile_rows;
    meta->tile_cols = 1;
    gx_store *store = ctx->store;
    *committed_ns = 0;
    for (int64_t tile = 0; tile < tiles; tile += TILES) {
        GX_TRY(gx_store_begin(store, "main", err));
        int64_t end = gx_min(tile + TILES, tiles);
        gx_code rc = write_tiles(run, store, name, data, tile, end, meta, err);
        int64_t start = gx_now_ns();
        gx_code ended = gx_store_end(store, rc == GX_OK, err);
        *committed_ns += gx_now_ns() - start;
        GX_TRY(rc);
        GX_TRY(ended);
        GX_TRY(gx_run_poll(run));
    }
    return GX_OK;
}

static gx_code read_matrix(gx_run *run, gx_ctx *ctx, const gx_meta *meta, void *data, gx_err *err)
{
    gx_reader *reader;
    size_t bytes = (size_t)meta->tile_rows * sizeof(double);
    GX_TRY(gx_reader_own(ctx->store, &reader, err));
    gx_code rc = GX_OK;
    for (int64_t tile = 0; tile < TILES && rc == GX_OK; tile++) {
        rc = gx_reader_read(reader, meta, tile, 0, bytes, data, err);
        if (rc == GX_OK) {
            rc = gx_run_poll(run);
        }
    }
    gx_reader_close(reader);
    return rc;
}

static double rate(double bytes, int64_t ns)
{
    return bytes / ((double)gx_max(ns, 1) * 1e-9);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/*
** Storing and committing next to nothing, the median; the first one, which makes gx's tables, is
** not counted.
*/
static gx_code measure_commits(gx_run *run, gx_ctx *ctx, gx_profile *profile, gx_err *err)
{
    const double one = 1;
    double seconds[COMMITS];
    for (int k = 0; k < COMMITS; k++) {
        gx_meta meta;
        char name[16];
        snprintf(name, sizeof name, "c%d", k);
        int64_t committed_ns, start = gx_now_ns();
        GX_TRY(write_matrix(run, ctx, name, &one, 1, 1, &meta, &committed_ns, err));
        seconds[k] = (double)(gx_now_ns() - start) * 1e-9;
    }
    qsort(seconds + 1, COMMITS - 1, sizeof seconds[0], by_size);
    profile->db_commit_s = seconds[COMMITS / 2];
    return GX_OK;
}

/* What the helpers share. */
typedef struct crowd {
    gx_run *run;
    const gx_mat *source;
    char *data; /* PIECE_BYTES of each helper's */
    size_t piece;
    int64_t pieces;
    atomic_llong next;
    int64_t began_ns[READERS_MOST], ended_ns[READERS_MOST];
} crowd;

static void help(void *arg, gx_helper *helper)
{
    crowd *c = arg;
    gx_err err = {0};
    const gx_meta *meta = &c->source->meta;
    gx_reader *reader = gx_helper_reader(helper, c->source);
    char *mine = c->data + (size_t)helper->index * c->piece;
    int64_t in_tile = c->pieces / TILES;
    c->began_ns[helper->index] = gx_now_ns();
    for (int64_t k = atomic_fetch_add(&c->next, 1); k < c->pieces && gx_ok(c->run);
         k = atomic_fetch_add(&c->next, 1)) {
        size_t at = (size_t)(k % in_tile) * c->piece;
        if (gx_reader_read(reader, meta, k / in_tile, at, c->piece, mine, &err) != GX_OK) {
            gx_run_fail(c->run, &err);
        }
    }
    c->ended_ns[helper->index] = gx_now_ns();
}

/* All helpers at once, and what opening one takes: the best of the times this is called. */
static void measure_helpers(gx_run *run, gx_ctx *ctx, const gx_meta *meta, gx_profile *profile)
{
    size_t tile = (size_t)meta->tile_rows * sizeof(double);
    crowd c = {.run = run, .piece = tile < PIECE_BYTES ? tile : PIECE_BYTES};
    int wanted = (int)gx_min(run->ctx->config.number[GX_SET_READERS], READERS_MOST);
    gx_mat source;
    const gx_mat *sources[1] = {&source};
    gx_mat_stored(&source, meta);
    c.source = &source;
    c.pieces = TILES * (int64_t)(tile / c.piece);
    atomic_init(&c.next, 0);
    void *data;
    gx_run own;
    gx_stream *stream = NULL;
    if (gx_mem_alloc(run->ctx->mem, (size_t)wanted * c.piece, "gx_benchmark", &data, NULL) !=
        GX_OK) {
        return; // memory_limit: as many times the first as the usual scaling says
    }
    c.data = data;
    memset(data, 0, (size_t)wanted * c.piece);
    gx_run_begin(&own, ctx, "gx_benchmark");
    c.run = &own;
    int64_t start = gx_now_ns(), first = INT64_MAX, last = 0;
    gx_stream_start(&own, sources, 1, wanted, (double)tile * TILES, help, &c, &stream);
    double open_s = (double)(gx_now_ns() - start) * 1e-9;
    int helpers = gx_stream_helpers(stream);
    gx_stream_stop(stream);
    for (int k = 0; k < helpers; k++) {
        if (c.began_ns[k] > 0) { // it got a connection
            first = gx_min(first, c.began_ns[k]);
            last = gx_max(last, c.ended_ns[k]);
        }
    }
    if (helpers > 0 && gx_run_end(&own) == GX_OK) {
        double all = rate((double)tile * TILES, last - first);
        bool is_first = profile->db_readers != helpers;
        profile->db_readers = helpers;
        double threads_s = helpers * profile->thread_s;
        open_s = open_s > threads_s ? open_s - threads_s : 0;
        if (is_first || open_s < profile->db_open_s) {
            profile->db_open_s = open_s;
        }
        if (is_first || all > profile->db_read_all_bytes_per_s) {
            profile->db_read_all_bytes_per_s = all;
        }
    } else if (helpers == 0) {
        gx_run_end(&own);
    }
    gx_mem_free(run->ctx->mem, data);
}

/* What is stored in: one row of tiles of f64. */
typedef struct storing {
    gx_run *run;
    gx_ctx *ctx;
    gx_profile *profile;
    const void *data; /* a tile's */
    int64_t tile_rows;
    int64_t tiles[GX_STORE_SIZES];
    gx_meta meta[GX_STORE_SIZES];
} storing;

/*
** One matrix of the given size; its rates, or the better of those and the ones that are there.  A
** commit that takes no longer than that of next to nothing shows no rate: TOO_FAST stands for it.
*/
static gx_code store_one(storing *s, int size, bool is_better_kept, gx_store_rates *rates,
                         gx_err *err)
{
    const double TOO_FAST = 1e11;
    char name[16];
    snprintf(name, sizeof name, "s%d", size);
    double bytes = (double)s->tiles[size] * (double)s->tile_rows * sizeof(double);
    int64_t committed_ns = 0, start = gx_now_ns();
    GX_TRY(write_matrix(s->run, s->ctx, name, s->data, s->tiles[size], s->tile_rows, &s->meta[size],
                        &committed_ns, err));
    double written = rate(bytes, gx_now_ns() - start - committed_ns);
    double least_s = s->profile->db_commit_s * (double)gx_ceil_div(s->tiles[size], TILES);
    double committed = rate(bytes, committed_ns - (int64_t)(1e9 * least_s));
    committed = committed < TOO_FAST ? committed : TOO_FAST;
    double *write = &rates->write_bytes_per_s[size], *commit = &rates->commit_bytes_per_s[size];
    *write = is_better_kept && *write > written ? *write : written;
    *commit = is_better_kept && *commit > committed ? *commit : committed;
    return GX_OK;
}

static gx_code drop_one(storing *s, int size, gx_err *err)
{
    gx_store *store = s->ctx->store;
    GX_TRY(gx_store_begin(store, "main", err));
    gx_code rc = gx_store_drop(store, &s->meta[size], err);
    gx_code ended = gx_store_end(store, rc == GX_OK, err);
    return rc != GX_OK ? rc : ended;
}

/* Storing by size, where the file grows and where it does not; that of TILES tiles stays. */
static gx_code measure_sizes(storing *s, gx_err *err)
{
    enum { ONE = 0, SOME = 1, MANY = 2, AGAIN = 3 };
    gx_profile *p = s->profile;
    double tile = (double)s->tile_rows * sizeof(double);
    s->tiles[ONE] = 1;
    s->tiles[SOME] = TILES;
    GX_TRY(store_one(s, ONE, false, &p->store_new, err));
    GX_TRY(store_one(s, SOME, false, &p->store_new, err));
    p->db_write_bytes_per_s = p->store_new.write_bytes_per_s[SOME];
    p->db_commit_bytes_per_s = p->store_new.commit_bytes_per_s[SOME];
    double each_s = tile / p->db_write_bytes_per_s + tile / p->db_commit_bytes_per_s;
    double many = MANY_S / each_s;
    s->tiles[MANY] = many < MANY_LEAST ? MANY_LEAST : many > MANY_MOST ? MANY_MOST : (int)many;
    GX_TRY(store_one(s, MANY, false, &p->store_new, err));
    for (int size = 0; size < GX_STORE_SIZES; size++) {
        p->store_bytes[size] = (double)s->tiles[size] * tile;
        GX_TRY(drop_one(s, size, err));
    }
    GX_TRY(store_one(s, MANY, false, &p->store_again, err));
    GX_TRY(drop_one(s, MANY, err));
    for (int k = 0; k < AGAIN; k++) {
        GX_TRY(store_one(s, ONE, k > 0, &p->store_again, err));
        GX_TRY(drop_one(s, ONE, err));
    }
    return store_one(s, SOME, false, &p->store_again, err);
}

/* The rates of a database that ctx has to itself. */
static gx_code measure_store(gx_run *run, gx_ctx *ctx, gx_profile *profile, gx_err *err)
{
    size_t spare = gx_mem_available(run->ctx->mem) / 2;
    int64_t tile_rows = (int64_t)((spare < GX_TILE_BYTES ? spare : GX_TILE_BYTES) / sizeof(double));
    tile_rows = gx_max(1, gx_min(tile_rows, gx_store_length_limit(run->ctx->store) / 16));
    size_t bytes = (size_t)tile_rows * sizeof(double);
    void *data;
    GX_TRY(measure_commits(run, ctx, profile, err));
    GX_TRY(gx_mem_alloc(run->ctx->mem, bytes, "gx_benchmark", &data, err));
    memset(data, 0x3f, bytes); // pages of its own, not the system's one page of zeros
    storing s = {.run = run, .ctx = ctx, .profile = profile, .data = data, .tile_rows = tile_rows};
    gx_code rc = measure_sizes(&s, err);
    gx_meta meta = s.meta[1];
    double all = (double)bytes * TILES;
    for (int pass = 0; pass < PASSES && rc == GX_OK; pass++) {
        int64_t start = gx_now_ns();
        rc = read_matrix(run, ctx, &meta, data, err);
        profile->db_read_bytes_per_s = rate(all, gx_now_ns() - start);
    }
    profile->db_readers = 0; // not measured yet
    gx_mem_free(run->ctx->mem, data);
    for (int k = 0; k < CROWDS && rc == GX_OK; k++) {
        measure_helpers(run, ctx, &meta, profile);
    }
    if (profile->db_readers == 0) {
        profile->db_readers = 1;
        profile->db_read_all_bytes_per_s = profile->db_read_bytes_per_s;
    }
    return rc;
}

/* Is it what choose_path() names, or the journal, log or index of such a database? */
static bool is_private_name(const char *name)
{
    long pid;
    long long ns;
    int length = 0, found = sscanf(name, "gx-benchmark-%ld-%lld.db%n", &pid, &ns, &length);
    bool is_its = false;
    for (size_t k = 0; found == 2 && length > 0 && k < sizeof endings / sizeof endings[0]; k++) {
        is_its = is_its || strcmp(name + length, endings[k]) == 0;
    }
    return is_its;
}

/*
** Remove private databases of processes that ended before they could: regular files that nobody has
** written for an hour.  A benchmark takes seconds.
*/
static void remove_leftovers(const char *place)
{
    static const time_t OLD_S = 3600;
    DIR *folder = opendir(place);
    time_t now = time(NULL);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        char name[2 * PATH_BYTES];
        struct stat seen;
        int length = snprintf(name, sizeof name, "%.1000s/%.900s", place, entry->d_name);
        if (length > 0 && is_private_name(entry->d_name) && lstat(name, &seen) == 0 &&
            S_ISREG(seen.st_mode) && now - seen.st_mtime > OLD_S) {
            (void)unlink(name);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
}

/* Where a private database may go: beside the connection's own.  false: no such place. */
static bool choose_path(sqlite3 *db, char path[PATH_BYTES])
{
    const char *file = sqlite3_db_filename(db, "main"), *folder = getenv("TMPDIR");
    const char *slash = file == NULL ? NULL : strrchr(file, '/');
    char place[PATH_BYTES];
    snprintf(place, sizeof place, "%s", folder != NULL && folder[0] == '/' ? folder : "/tmp");
    if (slash != NULL && slash - file < PATH_BYTES - 100) {
        snprintf(place, sizeof place, "%.*s", (int)gx_max(1, slash - file), file);
    }
    remove_leftovers(place);
    int length = snprintf(path, PATH_BYTES, "%s/gx-benchmark-%ld-%lld.db", place, (long)getpid(),
                          (long long)gx_now_ns());
    return length > 0 && length < PATH_BYTES - 16 && access(place, W_OK) == 0;
}

static void remove_database(const char *path)
{
    char name[PATH_BYTES];
    for (size_t k = 0; k < sizeof endings / sizeof endings[0] && path[0] != '\0'; k++) {
        snprintf(name, sizeof name, "%.1000s%s", path, endings[k]);
        (void)unlink(name);
    }
}

/* The private connection's statements end with the call: a matrix that is dropped takes seconds. */
static int has_ended(void *run)
{
    return gx_run_poll(run) != GX_OK;
}

/* In a private database at path; "": in a temporary file. */
static void measure_database(gx_fn *fn, const char *path, gx_profile *profile, gx_err *err)
{
    char text[300];
    sqlite3 *db = NULL;
    gx_ctx *loaded;
    if (gx_open_private(fn->ctx, path, &db, &loaded, text, sizeof text) != SQLITE_OK) {
        gx_fail(err, GX_IO, "%s", text);
        return;
    }
    gx_store_imitate(sqlite3_context_db_handle(fn->sql), db);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL); // the log is thrown away
    sqlite3_progress_handler(db, 8, has_ended, &fn->run);
    gx_ctx *ctx = NULL; // of its own: the one that was registered belongs to db
    gx_code rc = gx_ctx_create(db, &ctx, err);
    if (rc == GX_OK) {
        gx_ctx_hold(ctx);
        rc = measure_store(&fn->run, ctx, profile, err);
        gx_ctx_release(ctx);
    }
    gx_ctx_free(ctx);
    sqlite3_close_v2(db);
    remove_database(path);
}

/* The device's figures: measured anew where it may be used. */
static void measure_device(gx_fn *fn)
{
    size_t bytes;
    gx_err err = {0};
    if (gx_place_look(&fn->run, &bytes) != NULL && gx_accel_remeasure(fn->ctx, &err) != GX_OK) {
        gx_stats_note(&fn->ctx->stats, "the device was not measured: %s", err.text);
    }
}

static void measure(gx_fn *fn, gx_profile *profile)
{
    char path[PATH_BYTES];
    gx_err err = {0};
    gx_profile_built_in(profile); // what memory_limit keeps from being measured
    bool has_place = choose_path(sqlite3_context_db_handle(fn->sql), path);
    measure_database(fn, has_place ? path : "", profile, &err);
    if (has_place && gx_ok(&fn->run) && (err.code == GX_IO || err.code == GX_UNSUPPORTED)) {
        err = (gx_err){0}; // a folder that takes no databases, a full disk
        measure_database(fn, "", profile, &err);
    }
    gx_run_fail(&fn->run, &err);
    if (gx_ok(&fn->run) && gx_profile_measure(&fn->run, profile) == GX_OK) {
        gx_profile_keep(fn->ctx, profile);
        measure_device(fn);
    }
}

void gx_fn_benchmark(gx_fn *fn)
{
    int64_t force = 0;
    if (gx_fn_has(fn, 0) && !gx_fn_int(fn, 0, "force", &force)) {
        return;
    }
    gx_profile profile = *gx_profile_get(fn->ctx);
    if (force != 0 || !profile.is_measured) {
        if (!gx_fn_may_use_files(fn)) {
            return;
        }
        measure(fn, &profile);
    }
    char text[8192];
    const gx_accel *accel = gx_accel_opened(fn->ctx);
    if (gx_ok(&fn->run) &&
        !gx_profile_print(&profile, accel == NULL ? "" : accel->info.name,
                          accel == NULL ? NULL : &accel->profile, text, sizeof text)) {
        gx_run_failf(&fn->run, GX_NOMEM, "out of memory");
    }
    if (gx_ok(&fn->run)) {
        sqlite3_result_text(fn->sql, text, -1, SQLITE_TRANSIENT);
    }
}
