/*
** Inside the search on a device: knn_room.c says how much of it fits and whether it is worth it,
** knn_device.c does it, knn_order.c in which order, knn_up.c sends queries, and knn_lists.c brings
** the lists down.
*/
#ifndef GX_KNN_DEVICE_H
#define GX_KNN_DEVICE_H

#include "../device/device_copy.h"
#include "../device/fleet.h"
#include "../exec/place.h"
#include "knn_int.h"

/* Queries of one GX_NEAREST at most; pairs of one GX_MERIT; buffers that panels share. */
enum { GX_KNN_QUERIES = 2560, GX_KNN_PAIRS = 1 << 18, GX_KNN_RING = 2 };

/* Calls of a turn at most, where all rows of a device have memory. */
enum { GX_KNN_CALLS = 64 };

/* What of a batch goes up, one behind the other, and the lists that come down. */
typedef enum gx_knn_piece {
    GX_KNN_QUERY,
    GX_KNN_SQUARE,
    GX_KNN_LENGTH,
    GX_KNN_SHIFT,
    GX_KNN_PLAIN, /* with the shift, in f32, where the device makes b, and doubles, of them */
    GX_KNN_B,
    GX_KNN_MERIT,
    GX_KNN_INDEX,
    GX_KNN_OUTCOME, /* of GX_KNN_CALLS calls of each turn, where there are several */
    GX_KNN_PIECES
} gx_knn_piece;

typedef struct gx_knn_hold {
    void *data;
    size_t bytes;
} gx_knn_hold;

/* A call of GX_NEAREST. */
typedef struct gx_knn_call {
    int64_t i0;   /* its first row, of the device's               */
    int64_t info; /* 0; 1 + a row of these that is no number; < 0 */
} gx_knn_call;

/* `each` queries of the batch, or the last of them, on a device. */
typedef struct gx_knn_turn {
    int64_t rows;  /* of the device's, from the first on: they have met    */
    int64_t calls; /* so many it took                                      */
    gx_mark *made; /* behind the last one; NULL: all turns are waited for  */
} gx_knn_turn;

typedef struct gx_knn_group gx_knn_group;

typedef struct gx_knn_device {
    gx_knn_group *group;
    gx_knn_search *s;
    gx_run *run;
    gx_accel *accel;
    size_t limit;
    int64_t first, height;      /* of the rows of E that it searches    */
    uint64_t stamp;             /* of the file; 0: E is not kept        */
    int64_t rows, panels;       /* of a panel; how many                 */
    int64_t batch, batches;     /* of queries                           */
    bool is_whole, is_there;    /* its rows have memory, and are in it  */
    bool *came;                 /* of each panel: it is there; NULL     */
    int64_t there;              /* rows that are there, without a gap   */
    gx_knn_hold e[GX_KNN_RING]; /* its rows, or two panels              */
    gx_knn_hold part, work;     /* the batch; the kernels'              */
    gx_knn_hold pairs;          /* of GX_MERIT                          */
    size_t at[GX_KNN_PIECES];   /* in part                              */
    gx_staging stage;
    bool is_flying;      /* stage is being copied from           */
    size_t sent, filled; /* bytes of part; of these in stage     */
    gx_mark *loaded, *used[GX_KNN_RING];
    gx_knn_turn *turn;
    int64_t turns;
    gx_knn_call *call; /* most_calls of each turn               */
    int64_t most_calls;
} gx_knn_device;

/* Devices that search the same queries among rows of their own. */
struct gx_knn_group {
    gx_knn_device part[GX_DEVICES_MOST];
    int parts;
    int64_t first, count; /* queries of the batch                                  */
    int64_t each;         /* of a turn, but for the last one                       */
    int64_t sent;         /* of these, how many have been sent to all parts        */
    int64_t taken;        /* and whose lists have come down                        */
    int culprit;          /* whose a failure is                                    */
    double *merit;        /* the lists of a part behind the first, and their index */
    int64_t *index;
};

static inline bool gx_knn_is_listed(const gx_knn_device *d)
{
    return d->s->args->C != NULL;
}

/*
** Are the queries as doubles, which their merits come from, made on the device, of exact ones, and
** with a shift what is multiplied, too?
*/
static inline bool gx_knn_is_made_there(const gx_knn_device *d)
{
    return d->s->dtype == GX_F32 && d->s->args->Q->number == GX_F32 && !gx_knn_is_listed(d) &&
           gx_accel_offers(d->accel, GX_CONVERT, GX_F64) &&
           (!gx_knn_is_shifted(d->s) || gx_accel_offers(d->accel, GX_MAP, GX_F32));
}

/* Do they go up with the shift, which the device takes off? */
static inline bool gx_knn_are_plain(const gx_knn_device *d)
{
    return gx_knn_is_shifted(d->s) && gx_knn_is_made_there(d);
}

/* Do lists come down by turns, each behind a mark of its own? */
static inline bool gx_knn_is_by_turns(const gx_knn_device *d)
{
    return d->turns > 0 && d->turn[0].made != NULL;
}

/* Where a piece lies in the device's memory. */
static inline void *gx_knn_place(const gx_knn_device *d, gx_knn_piece which, size_t offset)
{
    return (char *)d->part.data + d->at[which] + offset;
}

/* Another call, one of a progress report, may have lost the device meanwhile. */
static inline bool gx_knn_is_open(const gx_knn_device *d)
{
    return gx_fleet_has(d->run->ctx, d->accel);
}

static inline gx_code gx_knn_check_open(const gx_knn_device *d, gx_err *err)
{
    return gx_knn_is_open(d) ? GX_OK : gx_fail(err, GX_DEVICE, "the device was lost");
}

/* Until the stage, from which queries go up, may be written to. */
static inline gx_code gx_knn_wait_for_stage(gx_knn_device *d, gx_err *err)
{
    bool is_flying = d->is_flying;
    d->is_flying = false;
    return is_flying ? d->accel->backend->queue_wait(d->accel->dev, d->accel->up, err) : GX_OK;
}

/* Bytes of so many rows of E; of the kernels' workspace; of the pairs that go up at a time. */
size_t gx_knn_rows_bytes(const gx_knn_device *d, int64_t rows);
size_t gx_knn_work_bytes(const gx_knn_device *d, int64_t n);
size_t gx_knn_pairs_bytes(const gx_knn_device *d);

/* Where the pieces of a batch of n queries lie; bytes of all. */
size_t gx_knn_lay_out(gx_knn_device *d, int64_t n);

/*
** Bytes go up to the place `at` of a buffer, most often right behind what was put before; when all
** has been put, kernels wait for it.
*/
gx_code gx_knn_put(gx_knn_device *d, char *to, size_t at, const void *from, size_t bytes,
                   gx_err *err);
gx_code gx_knn_put_end(gx_knn_device *d, char *to, gx_err *err);

/*
** The batch's queries up to `end`, which are ready, are sent, where they have not been: to the
** first device, and from there to the others.  Leaves the culprit as it was, unless it fails.
*/
gx_code gx_knn_send(gx_knn_group *g, int64_t end, gx_err *err);

/*
** Turns of n queries, at most, and queries of each.  The rows of the last turn are handed out when
** devices have nothing left to do, so of several it has the fewest, about a third; a turn more
** would cost more than it saves.
*/
int64_t gx_knn_turns(int64_t n);
int64_t gx_knn_each(int64_t n);

/* Have all rows memory, to be met by some queries after the others? */
bool gx_knn_has_turns(const gx_knn_group *g);

/*
** All of the batch's queries meet all rows, which are brought where they are not there: enqueued.
** Candidates meet nobody: only queries are ready and rows there.
*/
gx_code gx_knn_enqueue(gx_knn_group *g, gx_err *err);

/* What is in E's buffer; false: nothing that a later call could find again. */
bool gx_knn_key(const gx_knn_device *d, gx_block_key *key);

/*
** Are devices to do it, and which: none whose ordinal's bit is in `avoided`.  Reserves nothing.
*/
bool gx_knn_prepare(gx_knn_group *g, gx_knn_search *s, const gx_terms *host, uint64_t avoided,
                    gx_terms *terms);

/* From device memory, behind what is in the queue. */
gx_code gx_knn_fetch(gx_knn_device *d, gx_queue *queue, const char *from, void *to, size_t bytes,
                     gx_err *err);

/*
** The next lists of the batch come down from all devices, and join: those of a group of queries, or
** all.  Waits for them alone.
*/
gx_code gx_knn_take(gx_knn_group *g, gx_err *err);

#endif
