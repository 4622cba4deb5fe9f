/*
** Shared by alg_knn.c, knn_bits.c, knn_listed.c, knn_mutual.c, knn_device.c and knn_room.c: a batch
** of queries, and the strips of E.
*/
#ifndef GX_KNN_INT_H
#define GX_KNN_INT_H

#include "knn.h"

struct gx_knn_group; /* knn_device.h */

/* So many queries at most are compared while E is read, or looked at. */
enum { GX_KNN_FEW = 16 };

/* A batch of queries in memory. */
typedef struct gx_knn_batch {
    int64_t first, n;
    int64_t made, some; /* those that are ready, and how many next are being made so */
    double *query;      /* d x n: as they are                                     */
    void *rows;         /* some x d of Q's dtype, until they are turned; NULL     */
    double *square;     /* n: nearest.h                                           */
    double *length;     /* n: of b's columns                                      */
    void *b;            /* d x n of dtype: without the shift; may be query itself */
    void *shift;        /* d of dtype; NULL: none                                 */
    bool is_b_plain;    /* b is with the shift: devices take it off               */
} gx_knn_batch;

typedef struct gx_knn_search {
    gx_run *run;
    const gx_knn_args *args;
    const gx_backend *backend;
    gx_dev *dev;
    gx_number dtype; /* merits are foretold in it                             */
    gx_knn_plan plan;
    gx_knn_batch batch;
    gx_neighbours *out;
    int64_t most;            /* entries of a list that a strip gives                  */
    double *root;            /* n: the worst merit of each list                       */
    uint8_t *packed;         /* is_binary: n x bytes of the queries' bits             */
    const uint64_t *listed;  /* the batch's candidates (nearest.h); NULL: all rows    */
    uint64_t *bits;          /* made for it; NULL: listed are args->rows              */
    int64_t listed_words;    /* of a query; 0: all have the same candidates           */
    atomic_llong at;         /* the first row of E that cannot be compared; INT64_MAX    */
    atomic_bool has_refused; /* of the batch's queries one                            */
    bool is_beside;       /* helpers read E while the batch is made ready           */
    pthread_mutex_t lock; /* guards root                                      */
} gx_knn_search;

/* Memory for out->queries lists of out->count entries. */
bool gx_knn_make_lists(gx_run *run, gx_neighbours *out);

/* Is the mean taken off rows and queries? */
static inline bool gx_knn_is_shifted(const gx_knn_search *s)
{
    return s->args->metric == GX_METRIC_SQUARED && !s->plan.is_few && !s->args->is_binary;
}

/* What rows lie in the file as, where that is half an f32 or less: see gx_args.half. */
static inline gx_dtype gx_knn_half(const gx_knn_search *s)
{
    gx_dtype stored = gx_mat_narrow(s->args->E, s->dtype);
    return gx_dtype_half(stored, stored);
}

/* Rows i0 .. i0 + m - 1 of E: a unit of the pass.  m may be 0. */
typedef struct gx_knn_strip {
    int64_t i0, m;
} gx_knn_strip;

int64_t gx_knn_strips(const gx_knn_search *s);
gx_knn_strip gx_knn_strip_of(const gx_knn_search *s, int64_t unit);

/*
** Is the team to make the batch ready?  It costs a millisecond, and beside helpers it takes their
** processors.
*/
bool gx_knn_wants_team(const gx_knn_search *s);

/*
** The batch: queries first .. first + n - 1 of Q, of which none is ready yet; make the first `end`
** of them so, by whole tiles.
*/
gx_code gx_knn_begin(gx_knn_search *s, int64_t first, int64_t n);
gx_code gx_knn_make(gx_knn_search *s, int64_t end);
void gx_knn_unload(gx_knn_search *s);

/* Whether row i of a, rows of E as numbers, may be compared. */
bool gx_knn_takes(const gx_knn_search *s, const void *a, int64_t lda, int64_t i);

/* Row i of E cannot be compared: the unit's thread says so; the caller, after the pass, why. */
void gx_knn_mark(gx_knn_search *s, int64_t row);
bool gx_knn_is_marked(const gx_knn_search *s);
void gx_knn_explain(gx_knn_search *s);

/* A candidate of a query of the batch. */
typedef struct gx_knn_pair {
    int64_t row, query;
} gx_knn_pair;

/* All of the batch's candidates, each once, by row; *pair is the caller's to free. */
gx_code gx_knn_find_pairs(gx_knn_search *s, gx_knn_pair **pair, int64_t *pairs);

/* A pair's merit joins its list, which is a heap.  Not thread-safe. */
void gx_knn_take_merit(gx_knn_search *s, const gx_knn_pair *pair, double merit);

/*
** The queries of the batch by their candidates.  false: these are so many that the search among all
** rows is faster, and s->listed tells it which they are.
*/
bool gx_knn_listed(gx_knn_search *s);

/* Whether a row of the strip is a candidate; without s->listed all are. */
bool gx_knn_has_listed(const gx_knn_search *s, gx_knn_strip strip);

/*
** Zeros and ones as bits: what is read of E; what a thread takes for strips of m rows; s->packed of
** the batch, which the caller frees, false: no memory; the lists of all queries of the batch in a
** strip, the best first, as pick() of alg_knn.c gives them.
*/
const gx_mat *gx_knn_bits_source(const gx_knn_search *s);
size_t gx_knn_bits_bytes(const gx_knn_search *s, int64_t m);
bool gx_knn_pack_queries(gx_knn_search *s);
gx_code gx_knn_look_at_bits(gx_knn_search *s, gx_knn_strip strip, gx_pass_thread *thread,
                            const double *floor, char *work, double *part, gx_err *err);

/*
** The queries of the batch where they are E itself, all of it: whether they are, how many rows a
** block has then, what a thread takes with so many, and the search.
*/
bool gx_knn_is_mutual(const gx_knn_search *s);
int64_t gx_knn_mutual_height(const gx_knn_search *s);
size_t gx_knn_mutual_bytes(const gx_knn_search *s, int64_t height);
void gx_knn_mutual(gx_knn_search *s);

/*
** All queries on the device, where that is predicted to be faster than host->seconds, or wanted:
** lists are the best first then, but for candidates', which are heaps.  false: the host's turn.
*/
bool gx_knn_by_device(gx_knn_search *s, const gx_terms *host);

/* How that would be on the device run->target; terms->seconds 0: not at all. */
void gx_knn_foresee_device(gx_knn_search *s, gx_knn_plan *plan, gx_cost *cost, gx_terms *terms);

#endif
