/*
** How long a call takes: predictions, and what is learnt from calls that have been measured.
**
** predict.c predicts one program, on the host or on a device, by running its schedule on clocks of
** a model; its rates are those of the hardware profile.  ledger.c keeps what was predicted beside
** what happened, call by call, and corrects later predictions by it.
*/
#ifndef GX_PREDICT_H
#define GX_PREDICT_H

#include "prog.h"

/* What a program takes on a device besides: marks and buffers. */
#define GX_PREDICT_DEVICE_S 350e-6

struct gx_accel;
struct gx_devcall;
struct gx_fleet;
struct gx_growth;
struct gx_schedule;
struct gx_slots;

/* What a program's time is made of, in seconds.  The terms up to commit overlap in part. */
typedef struct gx_terms {
    double start_s;      /* threads, helper connections, memory on and for the device         */
    double once_s;       /* the part of it that later calls need not: that memory             */
    double read_s;       /* from the database, by all readers                                 */
    double up_s, down_s; /* copies to the device and back                                     */
    double compute_s;    /* kernels, launches included                                        */
    double write_s;      /* tiles into the database                                           */
    double commit_s;     /* their commit; 0 inside an open transaction                        */
    double model_s;      /* what these come to, overlapped as the executor overlaps them      */
    double factor;       /* measured / model_s of earlier calls like this one; 1 = none       */
    double seconds;      /* the prediction: model_s * factor                                  */
    double work;         /* flops, or those of a product as large as the bytes of a pass */
} gx_terms;

/*
** Dry run on the host (NULL, or a fleet of none), or on the devices that the program is spread
** over; there cost->slots is 0 where their memory is too little.  Nothing is read, allocated for
** blocks, or computed.
*/
gx_code gx_predict_program(gx_prog *prog, const struct gx_fleet *fleet, gx_cost *cost,
                           gx_terms *terms);

/*
** The same of a schedule that is made.  On devices, is_there: loads that cost nothing, NULL: none;
** growth: what is, or was, to be allocated for it.
*/
void gx_predict_schedule(gx_prog *prog, const struct gx_slots *slots,
                         const struct gx_schedule *plan, const struct gx_fleet *fleet,
                         const bool *is_there, const struct gx_growth *growth, gx_terms *terms);

/* From counts alone, for work that has no program.  edge: smallest side of its blocks. */
void gx_predict_cost(gx_run *run, const struct gx_accel *accel, const gx_cost *cost,
                     gx_number dtype, int64_t edge, gx_terms *terms);

/*
** A streamed pass (pass.h) on the host: cost->bytes_up are gone through, bytes_read of them read,
** and multiplied by `cols` columns, or worked on in cost->compute_s.
*/
void gx_predict_pass(gx_run *run, const gx_cost *cost, gx_number dtype, int64_t cols,
                     gx_terms *terms);

/* One after the other, in one call. */
void gx_terms_add(gx_terms *sum, const gx_terms *more);

/* The run is about to take so long: for gx_stats and the ledger. */
void gx_predict_expect(gx_run *run, const gx_terms *terms, bool is_on_device);

/* Add what comes first: others_s, and memory for what the call wants on its device. */
void gx_predict_begin(const struct gx_devcall *call, double others_s, gx_terms *terms);

/* Helpers that bring so many stored bytes to a device: one a tile, and none for little. */
double gx_predict_helpers_s(gx_run *run, double bytes);

/* Bytes per second that so many helpers, 0: all of them, read from the database. */
double gx_predict_read_rate(gx_run *run, int64_t readers);

#endif
