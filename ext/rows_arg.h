/*
** What the functions that compare rows share: rows as an argument, and the names of metrics.
*/
#ifndef GX_ROWS_ARG_H
#define GX_ROWS_ARG_H

#include "gx_ext.h"

#include "../core/base/nearest.h"

/* An argument as rows of numbers. */
typedef struct gx_rows {
    gx_mat base, turned;
    const gx_mat *mat; /* one of the two; as long as this struct stays where it is */
} gx_rows;

/*
** A matrix in any of its forms, or a blob of raw numbers, `cols` of them a row, as the vector
** extensions keep them: of the dtype that is stated, or (GX_DTYPE_COUNT) of f32 or f64, where one
** of them alone makes whole rows.  A list (a column) of `cols` numbers is one row.
*/
bool gx_fn_rows(gx_fn *fn, int index, const char *label, int64_t cols, gx_dtype stated,
                gx_rows *out);

/* How a score comes of a merit (nearest.h). */
typedef struct gx_measure {
    gx_metric metric;
    bool is_root;     /* l2: the root of it                          */
    bool is_binary;   /* hamming: of zeros and ones, a share of cols */
    bool is_distance; /* less is nearer                              */
} gx_measure;

/* Which names a function knows. */
typedef enum gx_measures { GX_MEASURES_KNN, GX_MEASURES_DISTANCE } gx_measures;

bool gx_measure_parse(gx_fn *fn, const char *name, gx_measures known, gx_measure *out);
double gx_measure_score(const gx_measure *measure, double merit, int64_t cols);

#endif
