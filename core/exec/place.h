/*
** Where a program runs: on the host or on the connection's device, and running it there.
*/
#ifndef GX_PLACE_H
#define GX_PLACE_H

#include "../device/pool.h"
#include "predict.h"

/*
** The accelerator that a call of so many flops may use, opened if that is worth it; NULL: the host.
** *device_bytes: the memory it may take there.
*/
struct gx_accel *gx_place_candidate(gx_run *run, double flops, gx_number dtype,
                                    size_t *device_bytes);

/*
** The same of a call that would save so many seconds; where the device is not opened for it, what
** it would have saved is remembered, as gx_place_owe() does.
*/
struct gx_accel *gx_place_saving(gx_run *run, double saving_s, size_t *device_bytes);

/* May a device come into question for so many flops?  Else no program is written down for one. */
bool gx_place_comes_into_question(const gx_run *run, double flops);

/*
** The device that comes into question for what takes the host so many seconds: the open one, or one
** that is opened because it would save half of that.  *device_bytes: the memory that it may take
** there; NULL: that is not asked, nor anything of a device that is open.
*/
struct gx_accel *gx_place_for(gx_run *run, double host_s, size_t *device_bytes);

/*
** A copy of a matrix in the device's memory would save so many seconds of this call: with what it
** would have saved in earlier ones.
*/
double gx_place_owe_copy(gx_run *run, const gx_block_key *key, double saving_s);

/* The setting 'backend' is cuda: the device, where it can. */
bool gx_place_is_forced(const gx_run *run);

/* So many seconds on the device, or on the host: is it the device? */
bool gx_place_is_less(const gx_run *run, double device_s, double host_s);

/*
** Is the device to do what takes the host host_s seconds, and the device *now, memory that later
** calls find left out?  Where it is slower: would a copy that is kept have saved by now what it
** costs?  foresee: seconds there; call->is_there then says that the copy is.
*/
typedef double (*gx_place_foresee)(void *arg);
bool gx_place_is_worth_it(struct gx_devcall *call, double host_s, const gx_terms *now,
                          gx_place_foresee foresee, void *arg);

/* The device has no room, or, where it is not open any more, has not answered: false, a remark. */
bool gx_place_has_no_room(const struct gx_devcall *call, const char *what, const char *label);

/*
** Others that may help the fleet's first device with what takes it so many seconds alone: those
** that are open, or, where halves of what it took alone so far come to the price of opening, all.
** is_asked: only to know (gx_plan).  false: there are none; is_listed: they are to be used always.
*/
bool gx_place_gather(gx_run *run, struct gx_fleet *fleet, double alone_s, bool is_asked,
                     bool *is_listed);

/* What was begun on a device is done again elsewhere: the predictions so far do not count. */
void gx_place_restart(gx_run *run);

/* The device however little there is to do: for gx_plan, which shows both. */
struct gx_accel *gx_place_look(gx_run *run, size_t *device_bytes);

/*
** So many flops are being done on the host while the device is not open: what it would have saved
** is remembered, and when that comes to the cost of opening it, the next call does.
*/
void gx_place_owe(gx_run *run, double flops, gx_number dtype);

/* Is the device, once open, the place for so many flops? */
bool gx_place_is_faster(double flops, const gx_terms *host, const gx_terms *device);

/*
** Execute a program that is written down: on the accelerator when that is predicted to be faster,
** or when the setting 'backend' is cuda and the device can; else, and where the device could not
** finish it, on the host.  Returns the run's code.
*/
gx_code gx_prog_run(gx_prog *prog);

/*
** The same where the host has another way than the program, predicted to take host->seconds; false:
** it is the host's turn.
*/
bool gx_prog_run_beside(gx_prog *prog, const gx_terms *host);

/*
** Execute on all devices of the fleet, without those that fail on the way, which *fleet then lacks.
** false: no device had room for it, or all have failed, which gx_stats tells; nothing is lost, the
** program can be run again on the host.
*/
bool gx_prog_run_spread(gx_prog *prog, struct gx_fleet *fleet);

/*
** How a program would run: on the host (a fleet of none), or from its first device on, on as many
** as are best, which *fleet then has.  false: it would not, or the run has failed.
*/
bool gx_place_predict(gx_prog *prog, struct gx_fleet *fleet, gx_cost *cost, gx_terms *terms);

/* What part of the work of a program each of the fleet's devices has, as it is spread. */
void gx_prog_shares(gx_prog *prog, const struct gx_fleet *fleet, double share[]);

/*
** A driver whose blocks depend on where it runs: build() plans and writes the program down, for the
** device run->target with run->target_bytes of memory, or for the host where that is NULL; it
** returns NULL when the run has failed.  Called once for the host and, where a device comes into
** question, again for it, with less memory when that runs out.  flops: of the whole.
*/
typedef gx_prog *(*gx_place_build)(gx_run *run, void *arg);
gx_code gx_place_run(gx_run *run, double flops, gx_number dtype, gx_place_build build, void *arg);

/*
** The same where the host has another way than a program, which is predicted to take host->seconds.
** false: it is the host's turn.
*/
bool gx_place_on_device(gx_run *run, double flops, gx_number dtype, gx_place_build build, void *arg,
                        const gx_terms *host);

#endif
