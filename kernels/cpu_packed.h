/*
** Rows of f32 beside queries, of whose products only what may matter is kept: see cpu_packed.c.
*/
#ifndef GX_CPU_PACKED_H
#define GX_CPU_PACKED_H

#include "foretell.h"

/*
** Rows lie in groups, columns of so many numbers; a group has one bit of a mark, of 16 at most.
** Queries are looked at so many at a time: multiples of that are best.
*/
enum { GX_PACKED_GROUP = 64, GX_PACKED_MOST = 16 * GX_PACKED_GROUP, GX_PACKED_QUERIES = 6 };

/* Whether the processor has what makes this faster than a BLAS, and k is not too long for it. */
bool gx_cpu_packed_takes(int64_t k);

/*
** Rows of a, rows x k, less a shift of k numbers (NULL: none), and the sums of their squares; `to`
** has whole groups, with 0 behind the last row.
*/
void gx_cpu_pack(const float *a, int64_t lda, int64_t rows, int64_t k, const float *shift,
                 float *to, double *square);

/* Products of packed rows with n queries: alpha x . y, as more being nearer. */
typedef struct gx_packed {
    int64_t rows, k, n;
    const float *x;
    const float *b; /* k x n                                                    */
    int64_t ldb;
    float alpha;
    gx_sight how;
    const float *factor; /* of each row and those behind the last                    */
    const float *least;  /* n: what is less is not wanted                            */
    float *value;        /* OUT: alpha x . y of groups with a mark; ld is whole groups */
    uint16_t *mark;      /* n, OUT: bit g: group g may have what is wanted, or is no number */
} gx_packed;

void gx_cpu_packed_look(const gx_packed *p);

#endif
