/*
** Inverted lists: rows in lists around centres, as codes of 8 bits (core/mat/quantized.h).
**
** What an index of vectors computes, in memory: who stores lists is above (ext/vectors_index.c).
** Centres come of k-means; a row is in the list of its nearest centre; a search looks at the lists
** whose centres are nearest to the query, and bounds the merits of their rows by products of codes
** (knn_codes.h).
**
** A panel is rows of one list that lie together, m of d numbers, in little-endian order without
** gaps:
**
**     m i64 ids    m i32 rounds    m f32 scales    m f32 residuals    m f32 norms    m x d codes
**
** An id is the row's; what a round is whoever stores the list says.  The centres are codes, too:
** panels whose ids are the numbers of their lists.
*/
#ifndef GX_IVF_H
#define GX_IVF_H

#include "knn_codes.h"
#include "similar.h"

/* Rows of a panel at most. */
enum { GX_IVF_PANEL_ROWS = 1024, GX_IVF_LISTS_MOST = 65536 };

typedef struct gx_ivf_panel {
    int64_t m, d;
    int64_t *id;
    int32_t *round;
    gx_row_facts facts;
    int8_t *codes; /* m x d, by columns */
} gx_ivf_panel;

size_t gx_ivf_panel_bytes(int64_t m, int64_t d);
int64_t gx_ivf_panel_rows(size_t bytes, int64_t d); /* 0: so many bytes are no panel */

/* m rows at bytes, aligned to 8. */
gx_ivf_panel gx_ivf_panel_at(void *bytes, int64_t m, int64_t d);

/*
** The same of so many bytes as they were stored.  GX_CORRUPT: they are no panel of d columns; what
** of: names it.
*/
gx_code gx_ivf_panel_check(void *bytes, size_t size, int64_t d, const char *of, gx_ivf_panel *out,
                           gx_err *err);

/*
** The centres of `lists` clusters of a sample, n rows of d, n >= lists, whose first rows are a
** sample of it, as panels one behind the other, each of GX_IVF_PANEL_ROWS but the last.  COSINE: of
** the rows' directions.  bytes: gx_ivf_centres_bytes().  Memory: the centres, 8 bytes a row.
*/
gx_code gx_ivf_make_centres(gx_run *run, const float *rows, int64_t n, int64_t d, gx_metric metric,
                            int64_t lists, void *bytes);
size_t gx_ivf_centres_bytes(int64_t lists, int64_t d);

/* The numbers that they stand for, lists x d. */
void gx_ivf_centre_numbers(void *bytes, int64_t lists, int64_t d, float *to);

/* list[i]: of row i of Q.  C: the centres, of gx_ivf_centre_numbers(). */
gx_code gx_ivf_assign(gx_run *run, const gx_mat *Q, const gx_mat *C, gx_metric metric,
                      int32_t *list);

/* m rows of Q from i0 on, as codes: their facts, and d codes of each row, row after row. */
gx_code gx_ivf_code(gx_run *run, const gx_mat *Q, int64_t i0, int64_t m, const gx_row_facts *facts,
                    int8_t *codes, gx_err *err);

// Searching ---------------------------------------------------------------------------------------

typedef struct gx_ivf_query {
    gx_metric metric;
    int64_t d;
    const double *query;
    double square;
    gx_query_code code;
    gx_run *run;
    const gx_backend *backend;
    gx_dev *dev;
    void *work; /* of GX_MERIT; owned */
    int16_t *b;
} gx_ivf_query;

/*
** query: d numbers, the caller's.  false: the query has no bounds, or the run has failed.  Ended
** whatever it returns.
*/
bool gx_ivf_begin(gx_run *run, gx_metric metric, const double *query, int64_t d, gx_ivf_query *out);
void gx_ivf_end(gx_ivf_query *q);

/* What v (knn_codes.h) of each row of the panel is at most; is_exact false: about what it is. */
gx_code gx_ivf_bound(const gx_ivf_query *q, const gx_ivf_panel *panel, bool is_exact, float *upper,
                     gx_err *err);

/* The merit of a row of doubles, as nearest.h says. */
gx_code gx_ivf_merit(const gx_ivf_query *q, const double *row, double *merit, gx_err *err);

#endif
