/*
** Inside a program: shared by prog.c (writing it down), schedule.c (who is where when) and exec.c
** (running it).
*/
#ifndef GX_PROG_INT_H
#define GX_PROG_INT_H

#include "prog.h"

enum { GX_PROG_OPERANDS = 16, GX_CALL_KINDS = 32, GX_NO_BLOCK = -1, GX_NO_SLOT = -1 };

/* What calls have in common; a program has few kinds. */
typedef struct gx_call_kind {
    gx_kernel_id kernel;
    gx_trans transa, transb;
    gx_side side;
    gx_uplo uplo;
    gx_diag diag;
    gx_map_kind map;
    gx_dtype half;
    const gx_constraints *constraints;
    gx_scalar alpha, beta;
    bool keeps_c, is_backward, is_pentagon;
    bool has_c2; /* position 1 of a step is c2, not b */
} gx_call_kind;

/* What few calls have: parts of blocks, vectors, pivots. */
typedef struct gx_call_extra {
    gx_part part[3];
    gx_vector *tau;
    int64_t tau_at;
    int64_t *pivots;
    int64_t pivot_first, pivot_last, row_offset, reflectors, info_base;
    gx_reduce_kind reduce_kind;
    double *reduce;
    int64_t more; /* FUSED: where its places past the third begin */
} gx_call_extra;

/* A vector: see gx_prog_vector(). */
struct gx_vector {
    gx_number dtype;
    int64_t count;
    void *data;   /* the driver's, host                                  */
    void *device; /* where kernels find it while the program runs; data on a host */
};

/* One call, small because a program may have millions: block numbers and, once scheduled, slots. */
typedef struct gx_step {
    int32_t block[3];  /* a, b or c2, c; GX_NO_BLOCK       */
    int32_t slot[3];   /* where each is when the step runs */
    int32_t extra;     /* index into prog->extra; -1: none */
    int16_t kind;      /* index into prog->kind            */
    int8_t operand[3]; /* of a, b, c                       */
    int8_t device;     /* number in the fleet; 0 on a host */
} gx_step;

/* A block of a step, where it is when the step runs, its operand. */
typedef struct gx_place {
    int32_t block, slot;
    int32_t next; /* schedule: the next step that uses it; of the places past the third alone */
    int8_t operand;
} gx_place;

/* Bring a block into a slot. */
typedef struct gx_load {
    int32_t block, slot;
    int32_t after;   /* may start when the executor has reached this step        */
    int32_t need;    /* the step that uses it first                              */
    int32_t from;    /* the slot of another device that has it; GX_NO_SLOT: from its source */
    bool is_spilled; /* the result so far, not the source: its tile, through the caller */
    bool is_below;   /* from the diagonal down only: gx_prog_again_below()       */
    int8_t operand;
    int8_t device; /* of its slot */
} gx_load;

/* Write a block to its sink: once step ready - 1 has written it, before step `before` runs. */
typedef struct gx_flush {
    int32_t block, slot, ready, before;
    bool is_zero; /* what is written there is known: a device need not send it */
    int8_t operand;
    int8_t device; /* of its slot */
} gx_flush;

/* Slots of each device, which are numbered on from one device to the next. */
typedef struct gx_slots {
    int devices;
    int32_t first[GX_DEVICES_MOST + 1];
} gx_slots;

static inline gx_slots gx_slots_of(int64_t slots)
{
    return (gx_slots){.devices = 1, .first = {0, (int32_t)slots}};
}

/* Whose slot it is. */
static inline int gx_slots_device(const gx_slots *slots, int32_t slot)
{
    int d = 0;
    while (slot >= slots->first[d + 1]) {
        d++;
    }
    return d;
}

static inline int64_t gx_slots_all(const gx_slots *slots)
{
    return slots->first[slots->devices];
}

/* The schedule: a pure function of the program, the number of slots and the lookahead. */
typedef struct gx_schedule {
    gx_load *loads;    /* in the order they are to be started  */
    gx_flush *flushes; /* in order                             */
    int64_t load_count, load_capacity;
    int64_t flush_count, flush_capacity;
    int64_t hits, spills;
    bool is_roomy;                 /* every slot has one block from beginning to end */
    size_t *room; /* device: of each slot, its block's bytes; NULL: slot_bytes each */
    int64_t used[GX_DEVICES_MOST]; /* slots of each device, its first ones, that have any */
} gx_schedule;

struct gx_prog {
    gx_run *run;
    gx_opnd operand[GX_PROG_OPERANDS];
    int operands;
    int32_t blocks; /* of all operands                        */
    int devices;    /* that its steps are spread over (spread.c); 1 on a host */
    gx_call_kind kind[GX_CALL_KINDS];
    int kinds;
    gx_step *steps;
    int64_t step_count, step_capacity;
    int more_places; /* of a FUSED step, past the third */
    gx_place *more;
    int64_t more_count, more_capacity;
    const gx_fused *fused;                   /* FUSED calls: their program, the driver's */
    gx_fused_place in[GX_FUSED_INPUTS];      /* what gx_step_args() last said of them    */
    gx_fused_place out[GX_FUSED_OUTPUTS];
    double *fold[GX_FUSED_OUTPUTS];
    gx_call_extra *extra;
    int64_t extra_count, extra_capacity;
    gx_vector vector[GX_PROG_VECTORS];
    int vectors;
    gx_info_fn on_info; /* may be NULL */
    void *on_info_arg;
    gx_cut cut;
    int64_t lookahead;
    bool is_on_device;      /* the schedule is for a device: a resident result stays in its slots */
    size_t workspace_bytes; /* that the hungriest call takes           */
    size_t slot_bytes;      /* of the largest block, rounded up to 64 */
    double flops;
};

/* Rows, columns, bytes of a block by its number. */
typedef struct gx_extent {
    int64_t i0, j0, m, n;
    size_t bytes;
} gx_extent;

gx_extent gx_block_shape(const gx_opnd *operand, int32_t block);

/* Rows at the top of a block that a load passes over. */
static inline int64_t gx_load_skip(const gx_load *item, const gx_extent *shape)
{
    return item->is_below ? gx_max(0, gx_min(shape->m, shape->j0 - shape->i0)) : 0;
}

/* Little work: on the host the caller does it alone, without a team or helpers. */
bool gx_prog_is_small(const gx_prog *prog);

/*
** Slots that fit into the cache; 0 when fewer than the program's calls need (and the run has
** failed).
*/
int64_t gx_prog_slots(gx_prog *prog);

/*
** Do so many bytes of device memory hold all blocks, each in a buffer of its size?  Of one device,
** and not where results stay there, whose buffers are all alike.
*/
bool gx_prog_fits(const gx_prog *prog, size_t device_bytes);

/* Slots within so many bytes of device memory; 0 when they do not hold what one step needs. */
int64_t gx_prog_slots_within(const gx_prog *prog, size_t device_bytes);

/* The same of each of the program's devices; false: one of them does not hold that. */
bool gx_prog_slots_on(const gx_prog *prog, const size_t bytes[], gx_slots *slots);

/*
** Make the schedule; also fills step.slot.  Freed by gx_schedule_clear() whatever it returns.
** GX_NOMEM, with the run as good as before: intermediate results need more slots than that.
*/
gx_code gx_schedule_make(gx_prog *prog, const gx_slots *slots, gx_schedule *s);

/*
** Within so many bytes of each device's memory; false when the run has failed or they do
** not hold what one step needs.
*/
bool gx_schedule_make_on(gx_prog *prog, const size_t bytes[], gx_slots *slots, gx_schedule *plan);
void gx_schedule_cost(const gx_prog *prog, int64_t slots, const gx_schedule *s, gx_cost *cost);
void gx_schedule_clear(gx_prog *prog, gx_schedule *s);

/* A device's slots: as large as their blocks where each has one, else all alike. */
static inline size_t gx_slot_bytes(const gx_prog *prog, const gx_schedule *plan, int32_t slot)
{
    return plan->room != NULL ? plan->room[slot] : prog->slot_bytes;
}

static inline bool gx_step_is_fused(const gx_prog *prog, const gx_step *st)
{
    return prog->kind[st->kind].kernel == GX_FUSED;
}

/* How many blocks a step may have. */
static inline int gx_step_places(const gx_prog *prog, const gx_step *st)
{
    return gx_step_is_fused(prog, st) ? 3 + prog->more_places : 3;
}

/* Position p of a step: 0 a, 1 b or c2, 2 c; a fused program's inputs 2 ..., then outputs 1 ... */
static inline gx_place *gx_step_more(const gx_prog *prog, const gx_step *st, int p)
{
    return &prog->more[prog->extra[st->extra].more + p - 3];
}

static inline gx_place gx_step_place(const gx_prog *prog, const gx_step *st, int p)
{
    return p < 3 ? (gx_place){.block = st->block[p], .slot = st->slot[p], .operand = st->operand[p]}
                 : *gx_step_more(prog, st, p);
}

/* Does the step write the block in that position? */
static inline bool gx_step_writes(const gx_prog *prog, const gx_step *st, int p)
{
    return p == 2 || (p == 1 && prog->kind[st->kind].has_c2) ||
           (p > 2 && p - 1 >= prog->fused->inputs);
}

/* The dtype that a step's kernel is asked for. */
static inline gx_number gx_step_dtype(const gx_prog *prog, const gx_step *st)
{
    return gx_step_is_fused(prog, st) ? prog->fused->dtype : prog->operand[st->operand[2]].dtype;
}

/*
** Arguments of a step's kernel; pointers by slot from base, or from each slot's own place (both
** NULL: sizes only).  Those of a fused program refer to the prog's: one thread at a time.
*/
void gx_step_args(gx_prog *prog, const gx_step *st, char *base, void *const *place,
                  gx_args *args);

#endif
