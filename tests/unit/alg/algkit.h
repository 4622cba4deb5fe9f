/*
** Shared by the tests of drivers: a connection in memory with gx's context, small tiles and a team
** of two.
*/
#ifndef GX_ALGKIT_H
#define GX_ALGKIT_H

enum { TILE = 20, TILE_BYTES = TILE * TILE * 8 };

typedef struct fixture {
    sqlite3 *db;
    gx_ctx *ctx;
    gx_run run;
    uint64_t random; /* state of the test's own numbers; 1 at first */
} fixture;

static inline void set(gx_ctx *ctx, gx_setting setting, size_t value)
{
    char text[32];
    gx_err err = {0};
    snprintf(text, sizeof text, "%zu", value);
    if (gx_ctx_configure(ctx, setting, text, &err) != GX_OK) {
        fail_msg("%s", err.text);
    }
}

static inline int set_up(void **state)
{
    static fixture f;
    gx_err err = {0};
    f.random = 1;
    assert_int_equal(sqlite3_open(":memory:", &f.db), SQLITE_OK);
    assert_int_equal(gx_ctx_create(f.db, &f.ctx, &err), GX_OK);
    set(f.ctx, GX_SET_TILE_BYTES, TILE_BYTES);
    set(f.ctx, GX_SET_THREADS, 2);
    *state = &f;
    return 0;
}

static inline int tear_down(void **state)
{
    fixture *f = *state;
    gx_ctx_free(f->ctx);
    assert_int_equal(sqlite3_close(f->db), SQLITE_OK);
    return 0;
}

#endif
