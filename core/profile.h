/*
** The hardware profile: what this machine does per second, for the planner.
**
** A profile is measured by gx_benchmark() and kept in a file; a connection loads it when the
** planner first asks.  Where there is none, built-in figures stand in: cautious ones, for a
** processor of the last ten years and a disk whose files are in the page cache.  Nothing is
** measured unasked.
*/
#ifndef GX_PROFILE_H
#define GX_PROFILE_H

#include "err.h"
#include "types.h"

struct gx_ctx;
struct gx_run;

enum { GX_PROFILE_SIZES = 3 };

typedef struct gx_profile {
    bool is_measured;                    /* false: the built-in figures                        */
    int threads;                         /* that the gemm rates are for                        */
    double memcpy_bytes_per_s;           /* one thread, out of cache                           */
    double db_read_bytes_per_s;          /* sqlite3_blob_read, one connection, warm page cache */
    double db_write_bytes_per_s;         /* tiles inserted and committed                       */
    int64_t gemm_size[GX_PROFILE_SIZES]; /* n of the n x n products, ascending                 */
    double gemm_flops_per_s[GX_DTYPE_COUNT][GX_PROFILE_SIZES];
} gx_profile;

/* What a device does per second.  Every figure is positive in a profile that is valid. */
enum { GX_DEVICE_SIZES = 4 };

typedef struct gx_device_profile {
    double upload_bytes_per_s, download_bytes_per_s; /* page-locked copies               */
    double launch_s;                                 /* one small kernel, in a row of them */
    int64_t gemm_size[GX_DEVICE_SIZES];              /* n of the n x n products, ascending */
    double gemm_flops_per_s[GX_DTYPE_COUNT][GX_DEVICE_SIZES];
} gx_device_profile;

/*
** The saved profile of the device of that name; false where there is none, and *profile is
** unchanged.  gx_profile_keep_device() puts it in force and saves it, as gx_profile_keep() does.
*/
bool gx_profile_device(struct gx_ctx *ctx, const char *name, gx_device_profile *profile);
void gx_profile_keep_device(struct gx_ctx *ctx, const char *name, const gx_device_profile *profile);

/* Flop/s of a product whose smallest side is n. */
double gx_profile_device_flops(const gx_device_profile *profile, gx_dtype dtype, int64_t n);

/*
** The connection's profile: the saved one, loaded on the first call, else the built-in figures.
** Lent.
*/
const gx_profile *gx_profile_get(struct gx_ctx *ctx);

/* The built-in figures. */
void gx_profile_built_in(gx_profile *profile);

/*
** Flop/s of a product whose smallest side is n, with so many threads: interpolated between the
** measured sizes, and in proportion to the threads up to those of the profile.  Always > 0.
*/
double gx_profile_flops(const gx_profile *profile, gx_dtype dtype, int64_t n, int threads);

/*
** Measure products and memcpy on the CPU backend with the run's team, in about two seconds; the
** rates of the database stay as they are in *profile.  A size that the memory limit does not
** allow takes the rate of the one before.  Polls.  (core/profile_measure.c)
*/
gx_code gx_profile_measure(struct gx_run *run, gx_profile *profile);

/*
** Put a profile in force on the connection, and save it where the setting 'profile' allows:
** under this machine's key, beside the profiles of other machines.  A file that cannot be read,
** parsed or written is a remark in gx_stats.
*/
void gx_profile_keep(struct gx_ctx *ctx, const gx_profile *profile);

/* The profile as one line of JSON; false when bytes (2048 are plenty) or memory do not suffice. */
bool gx_profile_print(const gx_profile *profile, char *text, size_t bytes);

/* Path of the file; false where there is no folder for it (neither XDG_CACHE_HOME nor HOME). */
bool gx_profile_path(char *path, size_t bytes);

#endif
