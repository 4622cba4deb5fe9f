/*
** How a score comes of a merit (core/base/nearest.h): the metrics of gx_knn and of vector tables.
*/
#ifndef GX_MEASURE_H
#define GX_MEASURE_H

#include "../core/base/nearest.h"

typedef struct gx_measure {
    gx_metric metric;
    bool is_root;     /* l2: the root of it                          */
    bool is_binary;   /* hamming: of zeros and ones, a share of cols */
    bool is_distance; /* less is nearer                              */
} gx_measure;

/* Words for an option, and what each of them is, in their order; behind them "dot", no distance. */
#define GX_METRICS "cosine|l2/euclidean|sqeuclidean|l1/cityblock|hamming"
enum { GX_METRIC_NAME_L2 = 1, GX_METRIC_NAME_HAMMING = 4 };

static const gx_measure gx_measures[] = {
    {.metric = GX_METRIC_COSINE},
    [GX_METRIC_NAME_L2] = {.metric = GX_METRIC_SQUARED, .is_root = true, .is_distance = true},
    {.metric = GX_METRIC_SQUARED, .is_distance = true},
    {.metric = GX_METRIC_ABSOLUTE, .is_distance = true},
    [GX_METRIC_NAME_HAMMING] = {.metric = GX_METRIC_SQUARED,
                                .is_binary = true,
                                .is_distance = true},
    {.metric = GX_METRIC_DOT},
};

static inline double gx_score_of(const gx_measure *measure, double merit, int64_t cols)
{
    double score = measure->is_distance ? -merit : merit;
    score = measure->is_binary && cols > 0 ? score / (double)cols : score;
    return measure->is_root ? sqrt(score) : score;
}

/*
** The distance of a vector table, which orders as merits do, from the least on: the score where
** that is a distance, 1 - cosine, - x . y; of hamming the places that differ.
*/
static inline double gx_distance_of(const gx_measure *measure, double merit)
{
    bool is_cosine = measure->metric == GX_METRIC_COSINE;
    return measure->is_root ? sqrt(-merit) : is_cosine ? 1 - merit : -merit;
}

#endif
