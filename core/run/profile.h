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

#include "../base/backend.h"
#include "../base/err.h"
#include "../base/types.h"

struct gx_ctx;
struct gx_run;

enum { GX_PROFILE_SIZES = 4 };

/* Kernels whose rates are not a product's.  Measured in f64; other dtypes in a product's ratio. */
typedef enum gx_rate {
    GX_RATE_POTRF,
    GX_RATE_GETRF,
    GX_RATE_GEQRF,
    GX_RATE_SYEV, /* with vectors */
    GX_RATE_COUNT
} gx_rate;

/* Storing: one tile of 8 MiB, some, many.  Small ones stay in caches, large ones do not. */
enum { GX_STORE_SIZES = 3 };

typedef struct gx_store_rates {
    double write_bytes_per_s[GX_STORE_SIZES];  /* tiles inserted                        */
    double commit_bytes_per_s[GX_STORE_SIZES]; /* and committed: what that takes more   */
} gx_store_rates;

/* Columns of the blocks of vectors that iterative methods multiply by. */
enum { GX_SWEEP_COLS = 8 };

typedef struct gx_profile {
    /* First all that is one number, in the order of profile.c's list. */
    double memcpy_bytes_per_s;      /* one thread, out of cache                           */
    double db_read_bytes_per_s;     /* sqlite3_blob_read, one connection, warm page cache */
    double db_write_bytes_per_s;    /* tiles inserted                                     */
    double touch_bytes_per_s;       /* one thread, the first write to fresh memory        */
    double db_readers;              /* connections that together read                     */
    double db_read_all_bytes_per_s; /* so fast                                            */
    double db_open_s;               /* opening one of them                                */
    double db_commit_bytes_per_s;   /* and committed: what that takes more                */
    double db_commit_s;             /* committing next to nothing                         */
    double sweep_bytes_per_s;       /* of a matrix out of cache, through products with GX_SWEEP_COLS
                                 columns, by all threads                                       */
    double core_flops_per_s; /* one thread's f64 product: what small ones run at               */
    double thread_s;         /* starting a thread of the team, waking it and joining it        */
    bool is_measured;        /* false: the built-in figures                        */
    int threads;             /* that the gemm rates are for                        */
    double store_bytes[GX_STORE_SIZES];  /* matrices of so many bytes, ascending:              */
    gx_store_rates store_new;            /* stored where the file has to grow for them         */
    gx_store_rates store_again;          /* where others have been: log and free pages         */
    int64_t gemm_size[GX_PROFILE_SIZES]; /* n of the n x n products, ascending                 */
    double gemm_flops_per_s[GX_FLOATS][GX_PROFILE_SIZES];
    double rate_flops_per_s[GX_RATE_COUNT][GX_PROFILE_SIZES]; /* f64, of the same n            */
} gx_profile;

/* What a device does per second.  Every figure is positive in a profile that is valid. */
enum { GX_DEVICE_SIZES = 5 };

/* An n that no product has, and a figure that the file may have (below 1e18). */
#define GX_RESIDUES_NEVER 1e15

typedef struct gx_device_profile {
    /* First all that is one number, as in gx_profile. */
    double upload_bytes_per_s, download_bytes_per_s; /* page-locked copies               */
    double pageable_up_bytes_per_s, pageable_down_bytes_per_s;
    double pin_bytes_per_s;             /* allocating page-locked memory               */
    double launch_s;                    /* one small kernel, in a row of them          */
    double wait_s;                      /* one small kernel and waiting for it         */
    double open_s;                      /* opening it in a new process                 */
    double alloc_s;                     /* allocating device memory, little of it      */
    double alloc_bytes_per_s;           /* and for each byte                           */
    double sweep_bytes_per_s;           /* as in gx_profile                            */
    double residues_from; /* products of f64 from this n on are faster by residues     */
    int64_t gemm_size[GX_DEVICE_SIZES]; /* n of the n x n products, ascending          */
    double gemm_flops_per_s[GX_FLOATS][GX_DEVICE_SIZES];
    double rate_flops_per_s[GX_RATE_COUNT][GX_DEVICE_SIZES]; /* f64, of the same n     */
} gx_device_profile;

/*
** The saved profile of the device, for this machine, the device's name, its driver and this version
** of gx; false where there is none, and *profile is unchanged.  gx_profile_keep_device() puts it in
** force and saves it, as gx_profile_keep() does.
*/
bool gx_profile_device(struct gx_ctx *ctx, const gx_dev_info *info, gx_device_profile *profile);
void gx_profile_keep_device(struct gx_ctx *ctx, const gx_dev_info *info,
                            const gx_device_profile *profile);

/* A device that nobody has measured: copies over PCI Express 3, arithmetic for nothing. */
void gx_profile_guess_device(gx_device_profile *profile);

/* The saved profile of any device of this machine, without asking one; false: it is guessed. */
bool gx_profile_saved_device(struct gx_ctx *ctx, gx_device_profile *profile);

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
** (core/run/profile_rates.c)
*/
double gx_profile_flops(const gx_profile *profile, gx_number dtype, int64_t n, int threads);

/* Getting so many helpers that read: one connection leads them all. */
double gx_profile_helpers_s(const gx_profile *profile, int64_t readers);

/* Bytes of a matrix per second that so many threads multiply by a few columns. */
double gx_profile_sweep_rate(const gx_profile *profile, int threads);

/* Flop/s on a device. */
double gx_profile_device_flops(const gx_device_profile *profile, gx_number dtype, int64_t n);

/*
** Seconds a byte of inserting a matrix of so many bytes, and of committing it; what share of it
** (0 to 1) goes to the disk where there was nothing before, while it is inserted and committed.
*/
void gx_profile_store(const gx_profile *profile, double bytes, double new_written,
                      double new_committed, double *write_s, double *commit_s);

/*
** Seconds of elementwise work on what memory holds: so many bytes read and written, with so many
** flops; on a device.
*/
double gx_profile_pass(const gx_profile *profile, double bytes, double flops, int threads);
double gx_profile_device_pass(const gx_device_profile *profile, double bytes, double flops);

/* Seconds of one kernel call, with so many threads; on a device.  Sizes in args are enough. */
double gx_profile_kernel(const gx_profile *profile, gx_kernel_id kernel, gx_number dtype,
                         const gx_args *args, int threads);
double gx_profile_device_kernel(const gx_device_profile *profile, gx_kernel_id kernel,
                                gx_number dtype, const gx_args *args);

/* Name of a rate: "potrf", ...; its kernel. */
const char *gx_rate_name(gx_rate rate);
gx_kernel_id gx_rate_kernel(gx_rate rate);

/*
** Measure products, factorisations and memcpy on the CPU backend with the run's team, in about two
** seconds; the rates of the database stay as they are in *profile.  A size that the memory limit
** does not allow takes the rate of the one before.  Polls.  (core/run/profile_measure.c)
*/
gx_code gx_profile_measure(struct gx_run *run, gx_profile *profile);

/* What is measured with kernels, on the host or on a device, and with what. */
typedef struct gx_bench {
    const gx_backend *backend;
    gx_dev *dev;
    gx_queue *queue;      /* of a device                                                     */
    struct gx_run *run;   /* the host's; NULL: a device                                      */
    struct gx_team *team; /* its team; NULL: the caller alone                                */
    char *memory;         /* where the kernels work                                          */
    size_t bytes;
    int64_t *pivots;           /* room for one more than the largest size has                     */
    int repeats;               /* of a product, at most                                           */
    double enough_s;           /* or until these have passed                                      */
    double slow_s;             /* what would take longer is not measured                          */
    int64_t until_ns;          /* nothing is begun later                                          */
    const double *share;       /* of a product's rate, of a factorisation that is not measured    */
    int sizes;                 /* of the lists that follow                                        */
    const int64_t *size;       /* n of the n x n matrices                                         */
    double *gemm;              /* [GX_FLOATS][sizes]                                        */
    double *rate;              /* [GX_RATE_COUNT][sizes]                                          */
    double *sweep_bytes_per_s; /* as it is where it is not measured                         */
} gx_bench;

double gx_bench_seconds(int64_t start_ns);

/* Arguments of the n x n product of three matrices in b->memory. */
gx_args gx_bench_product(const gx_bench *b, gx_number dtype, int64_t n);

/* Enqueue a kernel on the device, or run it; wait for it. */
gx_code gx_bench_launch(gx_bench *b, gx_kernel_id kernel, gx_number dtype, const gx_args *args,
                        gx_err *err);
gx_code gx_bench_call(gx_bench *b, gx_kernel_id kernel, gx_number dtype, const gx_args *args,
                      gx_err *err);

/* All of it. */
gx_code gx_bench_run(gx_bench *b, gx_err *err);

/*
** Put a profile in force on the connection, and save it where the setting 'profile' allows:
** under this machine's key, beside the profiles of other machines.  A file that cannot be read,
** parsed or written is a remark in gx_stats.
*/
void gx_profile_keep(struct gx_ctx *ctx, const gx_profile *profile);

/*
** The profile as one line of JSON, with the device's under "device" where that is not NULL; false
** when bytes (8192 are plenty) or memory do not suffice.
*/
bool gx_profile_print(const gx_profile *profile, const char *name, const gx_device_profile *device,
                      char *text, size_t bytes);

/* The same of a device's alone. */
bool gx_profile_print_device(const gx_device_profile *device, char *text, size_t bytes);

/* Path of the file; false where there is no folder for it (neither XDG_CACHE_HOME nor HOME). */
bool gx_profile_path(char *path, size_t bytes);

#endif
