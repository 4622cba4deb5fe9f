/*
** The connection is put together here: see connection.h.
**
** core/run has the type gx_ctx but must not know the devices above it; this file knows every room
** up to core/device, and is known to ext/ alone.
*/
#include "connection.h"

#include "device/accel.h"
#include "device/device.h"
#include "run/totals.h"

#include <string.h>

static void warn(void *arg, const char *text)
{
    gx_stats_note(arg, "%s", text);
}

/* A backend that the environment asks for and the machine lacks is a remark, not a failure. */
static void check_environment_backend(gx_ctx *ctx)
{
    const gx_backend *backend;
    gx_err err = {0};
    gx_config *config = &ctx->config;
    if (gx_device_choose(ctx, &backend, &err) != GX_OK) {
        gx_stats_tell(&ctx->stats, &(gx_about){.kind = GX_EVENT_FALLBACK_ABSENT},
                      "GX_BACKEND ignored: %s", err.text);
        memcpy(config->default_text[GX_SET_BACKEND], "auto", sizeof "auto");
        (void)gx_config_set(config, GX_SET_BACKEND, "auto", NULL);
    }
}

gx_code gx_ctx_create(struct sqlite3 *db, gx_ctx **out, gx_err *err)
{
    *out = NULL;
    void *memory;
    gx_device_locate();
    GX_TRY(gx_mem_calloc(NULL, sizeof(gx_ctx), "connection", &memory, err));
    gx_ctx *ctx = memory;
    gx_config_init(&ctx->config, warn, &ctx->stats);
    atomic_store(&ctx->stats.level, (int)ctx->config.number[GX_SET_EVENTS]);
    gx_code rc = gx_mem_create((size_t)ctx->config.number[GX_SET_MEMORY_LIMIT], &ctx->mem, err);
    if (rc == GX_OK) {
        gx_totals_enter(ctx);
        check_environment_backend(ctx);
        rc = gx_store_open(db, ctx->mem, &ctx->store, err);
    }
    if (rc != GX_OK) {
        gx_ctx_free(ctx);
        return rc;
    }
    gx_store_set_tile_bytes(ctx->store, (size_t)ctx->config.number[GX_SET_TILE_BYTES]);
    gx_store_set_volumes_anywhere(ctx->store, ctx->config.number[GX_SET_VOLUMES_ANYWHERE] != 0);
    gx_store_set_stats(ctx->store, &ctx->stats);
    *out = ctx;
    return GX_OK;
}

static void close_host(gx_ctx *ctx)
{
    if (ctx->dev != NULL) {
        ctx->backend->close(ctx->dev);
    }
    ctx->dev = NULL;
    ctx->backend = NULL;
}

void gx_ctx_free(gx_ctx *ctx)
{
    if (ctx == NULL) {
        return;
    }
    if (ctx->programs_free != NULL) {
        ctx->programs_free(ctx->programs);
    }
    close_host(ctx);
    gx_accel_close(ctx);
    gx_ctx_log(ctx);
    gx_totals_leave(ctx);
    gx_store_close(ctx->store);
    gx_mem_free_all(ctx->mem);
    gx_mem_free(NULL, ctx);
}

/* Code that is loaded stays, and so does what says where it came from. */
static gx_code check_folder(const gx_ctx *ctx, gx_setting setting, const char *value, gx_err *err)
{
    bool is_open = (setting == GX_SET_CUDA_PATH && ctx->cuda != NULL) ||
                   (setting == GX_SET_SUITESPARSE_PATH && ctx->is_suitesparse_open);
    if (is_open && strcmp(value, ctx->config.text[setting]) != 0) {
        return gx_fail(err, GX_ARG, "%s cannot be set: a library from there is open",
                       gx_config_info(setting)->key);
    }
    return GX_OK;
}

gx_code gx_ctx_configure_by_sql(gx_ctx *ctx, gx_setting setting, const char *value, gx_err *err)
{
    GX_TRY(gx_config_allow(&ctx->config, setting, value, err));
    return gx_ctx_configure(ctx, setting, value, err);
}

gx_code gx_ctx_configure(gx_ctx *ctx, gx_setting setting, const char *value, gx_err *err)
{
    if (ctx->runs > 1 && setting != GX_SET_PROGRESS) {
        return gx_fail(err, GX_ARG, "%s cannot be set while another call of gx is running",
                       gx_config_info(setting)->key);
    }
    gx_config *config = &ctx->config;
    GX_TRY(check_folder(ctx, setting, value, err));
    char before[sizeof config->text[0]];
    memcpy(before, config->text[setting], sizeof before);
    GX_TRY(gx_config_set(config, setting, value, err));
    int64_t number = config->number[setting];
    if (setting == GX_SET_EVENTS) {
        atomic_store(&ctx->stats.level, (int)number);
    } else if (setting == GX_SET_MEMORY_LIMIT) {
        gx_mem_set_limit(ctx->mem, (size_t)number);
    } else if (setting == GX_SET_TILE_BYTES) {
        gx_store_set_tile_bytes(ctx->store, (size_t)number);
    } else if (setting == GX_SET_VOLUMES_ANYWHERE) {
        gx_store_set_volumes_anywhere(ctx->store, number != 0);
    } else if (setting == GX_SET_FILES && number == 0) {
        (void)gx_config_set(config, GX_SET_VOLUMES_ANYWHERE, "off", NULL);
        gx_store_set_volumes_anywhere(ctx->store, false);
    } else if (setting == GX_SET_CUDA_PATH) {
        ctx->is_cuda_tried = ctx->cuda != NULL; // what is open stays; else look again
    } else if (setting == GX_SET_DEVICE || setting == GX_SET_DEVICES) {
        gx_accel_close(ctx);
        ctx->is_accel_off = false;
    } else if (setting == GX_SET_BACKEND) {
        const gx_backend *backend;
        gx_code rc = gx_device_choose(ctx, &backend, err);
        if (rc != GX_OK) {
            (void)gx_config_set(config, setting, before, NULL);
            return rc;
        }
        close_host(ctx);
        if (number != GX_BACKEND_AUTO && number != GX_BACKEND_CUDA) {
            gx_accel_close(ctx); // else it is still wanted, with what it keeps
        }
        ctx->is_accel_off = false; // whoever sets it wants it tried again
        ctx->devices_lost = 0;
    }
    return GX_OK; // the other settings are looked up where they are used
}
