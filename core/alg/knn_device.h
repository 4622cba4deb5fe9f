/*
** Inside the search on a device: knn_room.c says how much of it fits and whether it is worth it,
** knn_device.c does it, knn_order.c in which order, and knn_copy.c sends queries and brings the
** lists down.
*/
#ifndef GX_KNN_DEVICE_H
#define GX_KNN_DEVICE_H

#include "../device/devcall.h"
#include "../exec/place.h"
#include "knn_int.h"

/* Queries of one GX_NEAREST at most; pairs of one GX_MERIT; buffers that panels share. */
enum { GX_KNN_QUERIES = 2560, GX_KNN_PAIRS = 1 << 18, GX_KNN_RING = 2 };

/* Calls of a turn at most, where all rows of a device have memory. */
enum { GX_KNN_CALLS = 64 };

/*
** Of the call's buffers: the device's rows, or two panels; the turns of queries, behind the shift;
** the kernels'; pairs of GX_MERIT.  Marks: behind the calls that read a panel; behind queries.
*/
enum { GX_KNN_ROWS, GX_KNN_PART = GX_KNN_RING, GX_KNN_WORK, GX_KNN_LISTED };
enum { GX_KNN_LOADED = GX_KNN_RING };

/* What a turn of queries has on the device: what goes up comes first, the lists come down. */
typedef enum gx_knn_piece {
    GX_KNN_SQUARE,
    GX_KNN_LENGTH,
    GX_KNN_PLAIN, /* with the shift, in f32, where the device makes b, and doubles, of them */
    GX_KNN_B,
    GX_KNN_QUERY,
    GX_KNN_MERIT,
    GX_KNN_INDEX,
    GX_KNN_OUTCOME, /* of each call */
    GX_KNN_PIECES
} gx_knn_piece;

/* Bytes in front of each piece of a turn, and of all; what goes up, of the first ones. */
typedef struct gx_knn_layout {
    size_t at[GX_KNN_PIECES + 1], sent;
} gx_knn_layout;

/* `each` queries of the batch, or the last of them, on a device. */
typedef struct gx_knn_turn {
    int64_t rows;  /* of the device's, from the first on: they have met   */
    int64_t calls; /* so many it took                                     */
    gx_mark *made; /* behind the last one; NULL: of the only turn         */
} gx_knn_turn;

typedef struct gx_knn_group gx_knn_group;

typedef struct gx_knn_device {
    gx_knn_group *group;
    gx_knn_search *s;
    gx_devcall on;
    int64_t first, height;  /* of the rows of E that it searches   */
    int64_t rows, panels;   /* of a panel; how many                */
    int64_t batch, batches; /* of queries                          */
    bool is_whole;          /* its rows have memory                */
    int64_t there;          /* rows that are there, without a gap  */
    bool is_flying;         /* on.stage is being copied from       */
    char *to;               /* where its first byte goes           */
    size_t filled;          /* bytes in it                         */
    int64_t most_calls;     /* of a turn                           */
    gx_knn_turn *turn;
    int64_t turns;
    int64_t *call;    /* first row of each call: most_calls of each turn */
    int32_t *outcome; /* of a turn's: 0; 1 + a row that is no number; < 0 */
    bool *came;       /* of each panel: it is there                      */
} gx_knn_device;

/* Devices that search the same queries among rows of their own. */
struct gx_knn_group {
    gx_knn_device part[GX_DEVICES_MOST];
    int parts;
    gx_devcalls calls;    /* of the parts, once their number is known              */
    int64_t first, count; /* queries of the batch                                  */
    int64_t each;         /* of a turn, but for the last one                       */
    int64_t sent;         /* turns that have been sent to all parts                */
    double *merit;        /* a turn's lists of a part behind the first, their index */
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
           gx_accel_offers(d->on.accel, GX_CONVERT, GX_F64) &&
           (!gx_knn_is_shifted(d->s) || gx_accel_offers(d->on.accel, GX_MAP, GX_F32));
}

/* Queries of turn t. */
static inline int64_t gx_knn_turn_queries(const gx_knn_group *g, int64_t t)
{
    return gx_min(g->each, g->count - t * g->each);
}

/* A turn of n queries; where turn t of the batch lies. */
gx_knn_layout gx_knn_lay_out(const gx_knn_device *d, int64_t n);
char *gx_knn_turn_at(const gx_knn_device *d, int64_t t);

/*
** Turns of n queries, at most, and queries of each; those of candidates are one turn.  The rows of
** the last turn are handed out when devices have nothing left to do, so of several it has the
** fewest, about a third; a turn more would cost more than it saves.
*/
int64_t gx_knn_turns(const gx_knn_device *d, int64_t n);
int64_t gx_knn_each(const gx_knn_device *d, int64_t n);

/*
** All of the batch's queries meet all rows, which are brought where they are not there: enqueued.
** Candidates meet nobody: only queries are ready and rows there.
*/
gx_code gx_knn_enqueue(gx_knn_group *g, gx_err *err);

/*
** Are devices to do it, and which: none whose ordinal's bit is in `avoided`.  Reserves nothing.
*/
bool gx_knn_prepare(gx_knn_group *g, gx_knn_search *s, const gx_terms *host, uint64_t avoided,
                    gx_terms *terms);

// Copies (knn_copy.c) -----------------------------------------------------------------------------

/*
** Bytes go up to a place on the device, most often right behind what was put before; when all has
** been put, kernels wait for it.
*/
gx_code gx_knn_put(gx_knn_device *d, char *to, const void *from, size_t bytes, gx_err *err);
gx_code gx_knn_put_end(gx_knn_device *d, gx_err *err);

/* From device memory, behind what is in the queue. */
gx_code gx_knn_fetch(gx_knn_device *d, gx_queue *queue, const char *from, void *to, size_t bytes,
                     gx_err *err);

/*
** The next turn's queries, which are ready, are sent: to the first device, and from there to the
** others.  Leaves the culprit as it was, unless it fails.
*/
gx_code gx_knn_send(gx_knn_group *g, gx_err *err);

/* A turn's lists come down from all devices, and join.  Waits for them alone. */
gx_code gx_knn_take(gx_knn_group *g, int64_t turn, gx_err *err);

#endif
