/*
** A connection to a file with a device that is not there (tests/mockcuda), for tests of programs.
**
** Matrices have small integers for elements, so every product is exact, in whatever order it is
** summed, on the device as on the host.
*/
#ifndef DEVICEKIT_H
#define DEVICEKIT_H

#include "../../mockcuda/mock_machine.h"
#include "connection.h"
#include "exec/exec_device.h"
#include "exec/place.h"
#include "exec/spread.h"

#include <sqlite3.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { TILE = 32 };   /* edge of the stored tiles             */
enum { PERIOD = 13 }; /* of elements, in rows and in columns  */

const gx_backend *gx_cuda_backend(const char *cuda_path, gx_err *err);

typedef struct kit {
    char folder[64], path[96];
    sqlite3 *db;
    gx_ctx *ctx;
} kit;

/* What a product of blocks needs: set up by kit_begin(). */
typedef struct job {
    kit *f;
    gx_run run;
    gx_mat A, B;
    gx_sink C;
    int64_t edge;
} job;

static inline void kit_set(kit *f, gx_setting setting, const char *value)
{
    gx_err err = {0};
    if (gx_ctx_configure(f->ctx, setting, value, &err) != GX_OK) {
        fail_msg("%s", err.text);
    }
}

static inline mock_counts kit_counts(void)
{
    mock_counts now;
    mock_read(&now);
    return now;
}

static inline int64_t kit_stat(const kit *f, gx_counter counter)
{
    return gx_stats_get(&f->ctx->stats, counter);
}

/* The device's rates: so many times those of a machine of a thousand flops a byte. */
static inline void kit_rate(kit *f, double speed)
{
    gx_dev_info info = {.name = "cuda:0 mock"};
    gx_device_profile p = {.upload_bytes_per_s = 1e10 * speed,
                           .download_bytes_per_s = 1e10 * speed,
                           .pageable_up_bytes_per_s = 5e9 * speed,
                           .pageable_down_bytes_per_s = 5e9 * speed,
                           .pin_bytes_per_s = 1e10,
                           .launch_s = 1e-6,
                           .wait_s = 1e-5,
                           .open_s = 0.01,
                           .alloc_s = 1e-6,
                           .alloc_bytes_per_s = 1e12,
                           .sweep_bytes_per_s = 1e11 * speed};
    for (int k = 0; k < GX_DEVICE_SIZES; k++) {
        p.gemm_size[k] = (int64_t)128 << k;
        for (int dtype = 0; dtype < GX_FLOATS; dtype++) {
            p.gemm_flops_per_s[dtype][k] = 1e13 * speed;
        }
        for (int rate = 0; rate < GX_RATE_COUNT; rate++) {
            p.rate_flops_per_s[rate][k] = 1e12 * speed;
        }
    }
    gx_profile_keep_device(f->ctx, &info, &p);
}

static inline int kit_up(void **state)
{
    static kit f;
    gx_err err = {0};
    snprintf(f.folder, sizeof f.folder, "/tmp/gx_device_XXXXXX");
    assert_non_null(mkdtemp(f.folder));
    snprintf(f.path, sizeof f.path, "%s/t.db", f.folder);
    assert_int_equal(sqlite3_open(f.path, &f.db), SQLITE_OK);
    assert_int_equal(gx_ctx_create(f.db, &f.ctx, &err), GX_OK);
    mock_order("");
    f.ctx->is_cuda_tried = true;
    f.ctx->cuda = gx_cuda_backend(NULL, &err);
    kit_set(&f, GX_SET_PROFILE, "off");
    kit_set(&f, GX_SET_BACKEND, "auto");
    kit_set(&f, GX_SET_THREADS, "2");
    kit_rate(&f, 1);
    *state = &f;
    return 0;
}

static inline int kit_down(void **state)
{
    kit *f = *state;
    gx_ctx_free(f->ctx);
    assert_int_equal(sqlite3_close(f->db), SQLITE_OK);
    unlink(f->path);
    rmdir(f->folder);
    mock_counts now = kit_counts();
    assert_int_equal(now.device_buffers + now.pinned_buffers + now.queues + now.marks, 0);
    assert_int_equal(now.violations, 0);
    return 0;
}

/* Element (i, j) of the matrix called A or B. */
static inline double kit_element(char name, int64_t i, int64_t j)
{
    return (double)((i * 7 + j * (name == 'A' ? 11 : 5)) % PERIOD) - 6;
}

static inline void kit_store_tiles(kit *f, char name, int64_t m, int64_t n, int64_t tile)
{
    gx_run run;
    gx_sink sink;
    gx_err err = {0};
    char text[2] = {name, '\0'};
    double *data = malloc((size_t)(m * n) * sizeof *data);
    assert_non_null(data);
    for (int64_t k = 0; k < m * n; k++) {
        data[k] = kit_element(name, k % m, k / m);
    }
    gx_run_begin(&run, f->ctx, "store");
    gx_sink_begin(&run, &(gx_dest){.name = text, .replace = true}, m, n, GX_F64, 0, gx_min(tile, m),
                  gx_min(tile, n), &sink);
    assert_int_equal(gx_sink_write(&sink, 0, 0, m, n, data, m, &err), GX_OK);
    gx_sink_end(&sink);
    assert_int_equal(gx_run_end(&run), GX_OK);
    free(data);
}

static inline void kit_store(kit *f, char name, int64_t m, int64_t n)
{
    kit_store_tiles(f, name, m, n, TILE);
}

/* C = A B is to be computed in blocks of edge x edge, which is a multiple of TILE. */
static inline void kit_begin(job *x, kit *f, int64_t edge)
{
    gx_meta a, b;
    *x = (job){.f = f, .edge = edge};
    gx_run_begin(&x->run, f->ctx, "product");
    assert_int_equal(gx_store_find(f->ctx->store, "A", &a, &x->run.err), GX_OK);
    assert_int_equal(gx_store_find(f->ctx->store, "B", &b, &x->run.err), GX_OK);
    gx_mat_stored(&x->A, &a);
    gx_mat_stored(&x->B, &b);
    gx_sink_begin(&x->run, &(gx_dest){.name = "C", .replace = true}, a.rows, b.cols, GX_F64, 0,
                  TILE, TILE, &x->C);
}

/*
** The program, by blocks of C; where is_outer, by blocks of the inner side, so that every block of
** C is unfinished until the last: with few slots they are spilled.
*/
static inline gx_prog *kit_product(job *x, bool is_outer)
{
    gx_prog *prog;
    int64_t m = x->A.rows, k = x->A.cols, n = x->B.cols, e = x->edge;
    int64_t grid_m = gx_ceil_div(m, e), grid_n = gx_ceil_div(n, e), grid_k = gx_ceil_div(k, e);
    gx_prog_create(&x->run, grid_m * grid_n * grid_k, &prog);
    const gx_opnd *A = gx_prog_operand(prog, &x->A, NULL, GX_F64, m, k, e, e);
    const gx_opnd *B = gx_prog_operand(prog, &x->B, NULL, GX_F64, k, n, e, e);
    const gx_opnd *C = gx_prog_operand(prog, NULL, &x->C, GX_F64, m, n, e, e);
    for (int64_t t = 0; t < grid_m * grid_n * grid_k; t++) {
        int64_t block = is_outer ? t % (grid_m * grid_n) : t / grid_k;
        int64_t l = is_outer ? t / (grid_m * grid_n) : t % grid_k;
        int64_t i = block % grid_m, j = block / grid_m;
        gx_prog_call(prog, &(gx_call){.kernel = GX_GEMM,
                                      .alpha = {1, 0},
                                      .beta = {l > 0, 0},
                                      .keeps_c = l > 0,
                                      .a = gx_blk(A, i, l),
                                      .b = gx_blk(B, l, j),
                                      .c = gx_blk(C, i, j)});
    }
    return prog;
}

/* The call ends well, and C is the product. */
static inline void kit_end(job *x)
{
    gx_run run;
    gx_meta meta;
    gx_mat C;
    gx_reader *own = NULL;
    gx_err err = {0};
    int64_t m = x->A.rows, n = x->B.cols;
    gx_sink_end(&x->C);
    if (gx_run_end(&x->run) != GX_OK) {
        fail_msg("%s", x->run.err.text);
    }
    double *found = calloc((size_t)(m * n), sizeof *found);
    assert_non_null(found);
    gx_run_begin(&run, x->f->ctx, "read");
    assert_int_equal(gx_store_find(x->f->ctx->store, "C", &meta, &run.err), GX_OK);
    gx_mat_stored(&C, &meta);
    assert_int_equal(gx_reader_own(x->f->ctx->store, &own, &err), GX_OK);
    assert_int_equal(gx_mat_read(&run, &C, own, 0, 0, m, n, GX_F64, found, m, &err), GX_OK);
    gx_reader_close(own);
    assert_int_equal(gx_run_end(&run), GX_OK);
    double sum[PERIOD][PERIOD] = {{0}};
    for (int64_t l = 0; l < x->A.cols; l++) {
        for (int64_t p = 0; p < PERIOD * PERIOD; p++) {
            sum[p / PERIOD][p % PERIOD] +=
                kit_element('A', p % PERIOD, l) * kit_element('B', l, p / PERIOD);
        }
    }
    for (int64_t p = 0; p < m * n; p++) {
        assert_true(found[p] == sum[p / m % PERIOD][p % m % PERIOD]);
    }
    free(found);
}

/* The connection's device, and the memory it may take there. */
static inline gx_accel *kit_device(job *x, size_t *bytes)
{
    gx_accel *accel = gx_place_look(&x->run, bytes);
    assert_non_null(accel);
    return accel;
}

/* On the device within so many bytes of its memory, NULL: on the host; false: it could not. */
static inline bool kit_run_on(gx_prog *prog, gx_accel *accel, size_t bytes)
{
    gx_fleet fleet;
    gx_fleet_single(&fleet, accel, bytes);
    if (accel != NULL) {
        return gx_prog_run_spread(prog, &fleet);
    }
    gx_prog_spread(prog, &fleet);
    gx_exec_host(prog);
    return true;
}

#endif
