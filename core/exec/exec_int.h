/*
** Inside the executor: what running a program on the host (exec_host.c) and on a device
** (exec_device.c) have in common (exec.c).
*/
#ifndef GX_EXEC_INT_H
#define GX_EXEC_INT_H

#include "../device/fleet.h"
#include "../mat/stream.h"
#include "prog_int.h"

/*
** On the host, after each so many bytes written the caller waits for the disk while others compute,
** unless they may need it to load: gx_store_settle().
*/
enum { GX_EXEC_SETTLE_BYTES = 16 << 20 };

/* Run the program on the host.  What it comes to is in the run. */
void gx_exec_host(gx_prog *prog);

/*
** Run the program on the devices that it is spread over.  true: it has run, or the run has failed.
** false: one of them, *culprit, had no room for it (err->code GX_NOMEM) or cannot do it
** (GX_UNSUPPORTED) or has failed; nothing is lost, the program can be run again elsewhere.
*/
bool gx_exec_device(gx_prog *prog, const gx_fleet *fleet, int *culprit, gx_err *err);

/*
** Make the schedule for the host, with what the governor leaves, less the schedule's own memory.
** Returns the slots; 0 when the run has failed.
*/
int64_t gx_exec_schedule(gx_prog *prog, gx_schedule *plan);

/*
** The counters of the schedule that is about to be run, its prediction, and the start of progress.
** is_there: loads whose blocks are on their device already; NULL: none.
*/
void gx_exec_count(gx_prog *prog, const gx_slots *slots, const gx_schedule *plan,
                   const gx_fleet *fleet, const bool *is_there);

/*
** Start the helpers for a schedule, as many as have something to read; is_there as above.  true:
** writing to one of the sinks ends their reading.
*/
bool gx_exec_stream(gx_prog *prog, const gx_schedule *plan, const bool *is_there, gx_helper_fn fn,
                    void *arg, gx_stream **stream);

/*
** Fill dst, packed, with the rectangle (i, j) m x n of a load's block, as gx_mat_read_as() does;
** zeros where the operand reaches past its source.  A spilled block comes from its own sink: by the
** caller's reader only.
*/
gx_code gx_exec_read(gx_run *run, const gx_opnd *op, const gx_load *item, int64_t i, int64_t m,
                     int64_t j, int64_t n, gx_dtype as, void *dst, gx_reader *reader, gx_err *err);

/* What later calls find each operand by; file 0: they cannot. */
void gx_exec_keys(const gx_prog *prog, gx_block_key whole[GX_PROG_OPERANDS]);

/* The same of a block that is loaded. */
gx_block_key gx_exec_block_key(const gx_prog *prog, const gx_block_key whole[],
                               const gx_load *item);

/*
** Loads of the schedule whose blocks are in their device's memory from earlier calls, one flag
** each, to be freed by gx_mem_free(); NULL: none are.
*/
bool *gx_exec_find_kept(const gx_prog *prog, const gx_fleet *fleet, const gx_schedule *plan);

/*
** What the program would have to allocate for each device: staging buffers, which the first lends
** to all, and slots that their pools do not have.  is_there: as of gx_exec_find_kept().
*/
void gx_exec_foresee(const gx_prog *prog, const gx_fleet *fleet, const gx_schedule *plan,
                     const bool *is_there, gx_growth growth[]);

/* Size of the pieces in which blocks of so many bytes altogether are copied. */
size_t gx_exec_piece(const gx_prog *prog, const gx_schedule *plan, bool is_down);

/* Helpers that the program is to have: as the settings say, for each device, within the threads. */
int64_t gx_exec_readers(const gx_prog *prog);

/* Helpers that are worth starting for so many blocks and bytes; 0 where there are to be none. */
int64_t gx_exec_helpers(const gx_prog *prog, int64_t loads, double bytes);

/* How many staging buffers there are to be for so many pieces: up; down. */
int gx_exec_stages_up(const gx_prog *prog, const gx_schedule *plan, int64_t pieces);
int gx_exec_stages_down(const gx_prog *prog, int64_t pieces);

#endif
