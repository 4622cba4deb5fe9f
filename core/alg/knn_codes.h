/*
** Queries beside rows that are codes (core/mat/quantized.h): bounds on merits.
**
** Codes times their scale are x^ = x - e, |e| <= r, the residual that is kept of each row, and by
** Cauchy and Schwarz |q.x - q.x^| <= |q| r.  So a product of codes with a query bounds each row's
** merit from above and from below.
**
** Queries become whole numbers of 16 bits, and GX_WHOLE multiplies exactly.  With t q = b + t d, in
** terms of p = c.b, and of s, r and |x| of a row:
**
**   DOT      v = s p / t                     within |q| e
**   COSINE   v = s p / (t |q| |x|)           within e / |x|
**   SQUARED  v = 2 s p / t - |x|^2           within 2 |q| e + |x|^2 u;  the merit is v - |q|^2
**
** e = r + (|x| + r) (|d| / |q| + u).  u, GX_CODES_ROUNDING, is more than all roundings: of v,
** computed in f32, of the facts of a row, which are f32, and of merits, in double.  Numbers whose
** products f32 might not hold have no bounds: such rows are always scored, such queries are not
** coded.
*/
#ifndef GX_KNN_CODES_H
#define GX_KNN_CODES_H

#include "../base/nearest.h"
#include "../mat/quantized.h"

#define GX_CODES_ROUNDING 0x1p-20

/* Of a query: v = alpha A p + B within gamma E + F, with A, B, E and F of a row. */
typedef struct gx_query_code {
    double length; /* |q|                 */
    double off;    /* |d| / |q| + u       */
    float alpha, gamma;
} gx_query_code;

/*
** d numbers as whole ones, into b; codes of so many bits will be multiplied with them, `padded` a
** row.  false: nothing is foretold of this query.
*/
bool gx_code_query(const double *q, int64_t d, int bits, int64_t padded, gx_metric metric,
                   int16_t *b, gx_query_code *code);

/* A, B, E and F of m rows from their facts, where no query's off is more; !is_exact: E, F are 0. */
typedef struct gx_row_weights {
    float *a, *b, *e, *f;
} gx_row_weights;

void gx_weigh_rows(const gx_row_facts *facts, int64_t m, gx_metric metric, double off,
                   bool is_exact, const gx_row_weights *to);

/* What v a row must reach for its merit to be `merit` or more. */
double gx_code_wanted(gx_metric metric, double length, double merit);

#endif
