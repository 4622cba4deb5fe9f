/*
** Rows beside rows: norms of lines, normalised matrices, matrices of distances, clusters.
*/
#ifndef GX_SIMILAR_H
#define GX_SIMILAR_H

#include "../base/nearest.h"
#include "../mat/mat.h"

// Lines (alg_normal.c) ----------------------------------------------------------------------------

typedef enum gx_line_norm { GX_LINE_L2, GX_LINE_L1, GX_LINE_MAX } gx_line_norm;

/*
** A with each row (by_row) or column divided by its norm; lines of zeros stay.  One pass over A for
** the norms, two where squares overflow or vanish; then a source that reads A.
*/
typedef struct gx_normal {
    gx_mat turned, scaled, as_a; /* scaled: its columns are divided; A's rows, by_row      */
    const gx_mat *mat;           /* in A's shape                                           */
    double *scale;
    gx_scalar *zeros;
} gx_normal;

gx_code gx_normal_make(gx_run *run, const gx_mat *A, bool by_row, gx_line_norm kind,
                       gx_normal *normal);
void gx_normal_clear(gx_run *run, gx_normal *normal); /* also of zeros */

// Distances (alg_distance.c) ----------------------------------------------------------------------

typedef struct gx_distance_args {
    const gx_mat *A, *B; /* of one number of columns                     */
    gx_metric metric;    /* COSINE: 1 - it; DOT: not                     */
    bool is_root;        /* SQUARED: the root of it                      */
    bool is_binary;      /* zeros and ones alone; a share of the columns */
} gx_distance_args;

/* The longest side of a tile of distances: what one thread computes at a time. */
enum { GX_DISTANCE_TILE = 512 };

/* The tiles of distances in numbers of dtype; 0: the default. */
void gx_distance_tiles(gx_run *run, const gx_distance_args *args, gx_number dtype, int64_t *rows,
                       int64_t *cols);

/*
** C: rows of A x rows of B, each row of A beside each of B.  Differences are summed in double and
** rounded once; 3 m n d flops; m n d / 256 numbers are read.  COSINE is a product of normalised
** rows.
*/
gx_code gx_alg_distance(gx_run *run, const gx_distance_args *args, gx_sink *C);

/* C: the cosine of each row of A and each of B. */
gx_code gx_alg_cosine(gx_run *run, const gx_mat *A, const gx_mat *B, gx_sink *C);

// Clusters (alg_kmeans.c) -------------------------------------------------------------------------

typedef struct gx_kmeans_args {
    const gx_mat *A;
    int64_t k; /* 1 .. rows of A */
    int64_t seed;
    int64_t iterations;   /* at most                                                         */
    double tolerance;     /* enough, where the sum of squares falls by less than this share  */
    bool has_plain_seeds; /* rows at random: of many centres, where k-means++ takes longer    */
} gx_kmeans_args;

/*
** The centres of k clusters of A's rows, k x columns, into C.  Seeds by k-means++ among (a sample
** of) the rows, then Lloyd's passes.  The same bits for every budget and number of threads.
*/
gx_code gx_alg_kmeans(gx_run *run, const gx_kmeans_args *args, gx_sink *C);

#endif
