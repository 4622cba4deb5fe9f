/*
** Values while a program runs, and what a lowering (lower_*.c) may ask for.
**
** A value is counted by those that refer to it: its node, and loops that hand it on.  It is in
** memory (column-major, leading dimension max(rows, 1)), or a source: a stored operand, or what a
** driver has spilled.  A lowering reads its inputs as memory or as sources, and puts its results.
** What several devices have (shares.h) is a value that holds their shares, each a value of its own.
** All are sticky: in a run that has failed they give NULL.
*/
#ifndef GX_VALUES_H
#define GX_VALUES_H

#include "../device/devcall.h"
#include "../exec/predict.h"
#include "../mat/mat.h"
#include "ops.h"

enum { GX_SMALL_BYTES = 128 };

/* A matrix so large is read where it lies rather than copied, where it is read once. */
enum { GX_LARGE_BYTES = 8 << 20 };

typedef struct gx_val {
    int32_t refs;
    gx_type type;
    void *data;        /* NULL: not in memory                                        */
    void *owned;       /* freed with the value                                       */
    gx_sink *sink;     /* what a driver wrote it to; owned                           */
    const gx_mat *mat; /* an operand's source; borrowed, but for ...                 */
    gx_mat *source;    /* ... blocks and views of other values (views.h); owned      */
    struct gx_val **held; /* what the source reads, in its memory, or the lanes' shares; counted */
    int holds;
    int64_t i0, j0;    /* a share: where it begins                                   */
    void *device;      /* a copy in the device's memory, packed; NULL: none           */
    size_t device_bytes;
    int lane;                 /* whose memory that is                                          */
    gx_block_key key;         /* the copy is kept for later calls; file 0: it is not           */
    const gx_node *product;   /* not computed yet: who uses it does (postponed); NULL: it is   */
    struct gx_val *factor[2]; /* ... and of what; counted                                    */
    bool is_delivered;        /* made where the program stores or returns it                 */
    struct gx_val *next;
    _Alignas(16) char small[GX_SMALL_BYTES]; /* the elements of a small matrix       */
} gx_val;

/* Columns or rows of a program's matrices that are dealt to its lanes (shares.h). */
typedef struct gx_shares {
    bool *has; /* by node: it is one of those matrices, if any is dealt; NULL: none        */
    int axis;  /* 0: columns are dealt, 1: rows                                            */
    int64_t lines;
    int64_t first[GX_DEVICES_MOST + 1]; /* of each lane's; then `lines`                    */
    bool is_dealt;                      /* ... to all lanes                                */
    bool is_one;                        /* a node is being run for the share of x->on alone */
} gx_shares;

/* Where the grids of a batch lie in a matrix of rows x cols, as far as a device has to know it. */
typedef struct gx_grid_facts {
    gx_ref table; /* GX_NO_NODE: none                                                */
    int64_t rows, cols;
    int64_t count, cells; /* of grids; of the largest one, or more than any may have */
    bool are_squares;
    bool are_all; /* each cell is one of a grid                                      */
} gx_grid_facts;

/* A device that the program runs on. */
typedef struct gx_lane {
    gx_devcall call;   /* accel NULL: everything on the host.  hold: what a node takes  */
    int holds;         /* ... beside operands and result, until it is enqueued        */
    size_t staged;     /* of the call's stage, for small copies: under way            */
    bool is_under_way; /* something has been enqueued that nobody has waited for      */
    gx_record *record; /* of a loop; goes when it is not under way any more           */
    void *refused;     /* there: not 0 where a kernel met what is no colour; NULL: none yet   */
} gx_lane;

typedef struct gx_exec {
    gx_run *run;
    const gx_graph *g;
    gx_val **val; /* of each node; NULL: none now                                    */
    gx_val *spare;
    gx_mat *operand; /* of each operand of the graph                                 */
    gx_sink *stores; /* of each output, then of the value; NULL: nothing is stored   */
    bool stores_value;
    gx_sink *value; /* where the value is made that the program returns              */
    int64_t rounds_most;
    void *temp[16]; /* of the node that runs                                         */
    int temps;
    void *work; /* kernels' */
    size_t work_bytes;
    int64_t steps, rounds, fused;
    double times; /* rounds that the one which goes stands for, with those to come; 0: none now */

    gx_terms foretold; /* where it runs, by on_device.c; seconds 0: too little to be learnt of */
    gx_lane lane[GX_DEVICES_MOST];
    gx_lane *on; /* the one that nodes run on now                                        */
    int lanes;
    int32_t *order;   /* by parts: the program's own nodes as they are run (lanes.h) ...   */
    int *lane_of;     /* ... and the lane of each                                          */
    gx_shares shares; /* by lines                                                          */
    gx_err fault;     /* of a device: the program is to be run again, without it           */
    int culprit;      /* its lane                                                          */
    uint64_t avoided; /* devices that had no room for it: bits by ordinal               */
    bool is_refused;  /* ... or the host is to say what is wrong with an operand       */
    bool is_spoilt;   /* ... or there, without records: the failure came while one was made */
    int64_t gpu_ops, cpu_ops, transfers;
    gx_grid_facts grids, table; /* of the node that runs; of the last table             */
} gx_exec;

// For lowerings -----------------------------------------------------------------------------------

/* Does anybody want result k? */
bool gx_wants(const gx_exec *x, const gx_node *node, int k);

const gx_type *gx_result_type(const gx_node *node, int k);

/* Memory for result k, uninitialised, which becomes it. */
void *gx_result(gx_exec *x, const gx_node *node, int k);

/*
** A sink for result k: where the program returns it, or stores what does not fit in memory, when
** nobody else wants it; else an intermediate, in memory where keep_bytes more are left, or spilled.
** tiles 0: the default shape.  A driver writes all of it.
*/
gx_sink *gx_result_sink(gx_exec *x, const gx_node *node, int k, size_t keep_bytes,
                        int64_t tile_rows, int64_t tile_cols);

/*
** A sink for result 0 that is written in strips of *lines whole columns (axis 0) or rows, from the
** first to the last, of which each takes so many bytes of memory: of whole tiles of where it is
** stored, if memory holds them; else of its own.
*/
gx_sink *gx_result_strips(gx_exec *x, const gx_node *node, int64_t axis, size_t bytes,
                          int64_t *lines);

/* Where the program stores result k, whatever its tiles; NULL: it does not. */
const gx_sink *gx_result_store(const gx_exec *x, const gx_node *node, int k);

/* An intermediate of that type in any case, which need not be the node's where its user knows. */
gx_sink *gx_result_scratch(gx_exec *x, const gx_node *node, int k, const gx_type *type,
                           size_t keep_bytes, int64_t tile_rows, int64_t tile_cols);

/*
** For drivers that begin the sink: a sink for the result, which becomes a value in memory when the
** driver is done; NULL: failed.
*/
gx_sink *gx_result_made(gx_exec *x, const gx_node *node);
void gx_result_is_made(gx_exec *x, const gx_node *node);

/* Input k in memory as dtype; valid until the lowering returns. */
const void *gx_input_data(gx_exec *x, const gx_node *node, int k, gx_number dtype);

/* Input k as a source; space is the caller's and may be what is returned. */
const gx_mat *gx_input_mat(gx_exec *x, const gx_node *node, int k, gx_mat *space);

/* A reader of A's by this thread, where A is stored; closed by the caller; else NULL. */
gx_reader *gx_source_reader(gx_exec *x, const gx_mat *A);

/* The setting: the same bits for every number of threads and memory limit. */
bool gx_is_deterministic(const gx_exec *x);

/* Is input k in memory, as far as that is known? */
bool gx_input_at_hand(const gx_exec *x, const gx_node *node, int k);

/* Is it, or does it fit there, with as much again? */
bool gx_input_fits(const gx_exec *x, const gx_node *node, int k);

/*
** Is the product left to the group that uses it, which finishes its blocks (lower_product.c)?
** Where nothing runs (x->val NULL): would it be, with the memory that there is now?
*/
bool gx_is_postponed(const gx_exec *x, const gx_node *node);

/* Is the group one kernel call of this thread, and no driver's (lower_map.c)? */
bool gx_fused_is_small(const gx_exec *x, const gx_node *node);

/* Memory until the lowering returns. */
void *gx_temp(gx_exec *x, size_t bytes);

/* The same for a kernel's workspace, kept from node to node. */
void *gx_work(gx_exec *x, size_t bytes);

/* A 1 x 1 input. */
gx_scalar gx_input_number(gx_exec *x, const gx_node *node, int k);

/* A 1 x 1 result. */
void gx_result_number(gx_exec *x, const gx_node *node, gx_scalar value);

// For the runner ----------------------------------------------------------------------------------

gx_val *gx_val_of(gx_exec *x, const gx_type *type);   /* without elements */
void gx_val_release(gx_exec *x, gx_val *val);         /* NULL is a no-op */
void gx_val_put(gx_exec *x, gx_ref ref, gx_val *val); /* takes over one reference */
const void *gx_val_data(gx_exec *x, gx_val *val);     /* loads it; NULL: failed */
const gx_mat *gx_val_mat(gx_exec *x, gx_val *val, const char *label, gx_mat *space);
gx_ref gx_result_ref(const gx_exec *x, const gx_node *node, int k);
/* What the node is to make now: its result, or the share of the lane. */
gx_type gx_type_now(const gx_exec *x, const gx_node *node);
/* Is it in the memory of devices, in one's or in shares, and in no other? */
static inline bool gx_val_is_there(const gx_val *val)
{
    bool is_shared = val->holds > 0 && val->mat == NULL;
    return val->data == NULL && (val->device != NULL || is_shared);
}
/* Does this node use input k last, in the program's own memory of the result's shape? */
bool gx_may_overwrite(const gx_exec *x, const gx_node *node, int k);
void gx_temps_free(gx_exec *x);
void gx_spares_free(gx_exec *x);

#endif
