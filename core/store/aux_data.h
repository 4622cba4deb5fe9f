/*
** What a stored factorisation has beside its elements: gx_meta.aux (docs/format.md).
**
** A factorisation is one stored matrix of A's shape that holds the packed factor as LAPACK leaves
** it, a bit in its properties that says which (GX_PROP_LU, GX_PROP_QR), and in the column aux:
**
**   offset  bytes  is
**        0      4  'gxfa'
**        4      1  version, 1
**        5      1  kind: 1 LU, 2 QR
**        6      1  dtype of the matrix
**        7      1  zero
**        8      8  panel: columns that were factored together
**       16      8  count of what follows: min(rows, cols)
**       24      8  LU: 1 + index of the first pivot that is exactly zero, 0: none.  QR: 0
**       32      8  1-norm of the matrix that was factored, NaN: not computed; IEEE 754 binary64
**       40     24  zero
**       64      .  LU: count pivots, 64 bits each, counted from 0; QR: count elements of dtype, tau
*/
#ifndef GX_AUX_DATA_H
#define GX_AUX_DATA_H

#include "store.h"

typedef enum gx_aux_kind {
    GX_AUX_NONE = 0, /* an ordinary matrix */
    GX_AUX_LU = 1,
    GX_AUX_QR = 2
} gx_aux_kind;

enum { GX_AUX_HEADER = 64 }; /* bytes before the pivots or tau */

typedef struct gx_aux {
    gx_aux_kind kind;
    gx_number dtype;
    int64_t rows, cols; /* of the matrix                                                 */
    int64_t panel;      /* columns factored together                                     */
    int64_t count;      /* min(rows, cols)                                               */
    int64_t info;       /* LU: 1 + index of the first zero pivot, 0: none                */
    double norm1;       /* of what was factored; NaN: not computed                       */
    int64_t *pivots;    /* LU: row j was exchanged with row pivots[j] >= j; in blob      */
    void *tau;          /* QR: count elements of dtype; in blob                          */
    void *blob;         /* what gx_meta.aux holds; of gx_mem, freed by gx_aux_clear() */
    size_t bytes;       /* of blob                                                       */
} gx_aux;

/* A new one of zeros: the driver fills pivots or tau, info and norm1.  norm1 begins as NaN. */
gx_code gx_aux_create(gx_mem *mem, gx_aux_kind kind, int64_t rows, int64_t cols, gx_number dtype,
                      int64_t panel, gx_aux *aux, gx_err *err);
void gx_aux_clear(gx_aux *aux, gx_mem *mem); /* of zeros: a no-op */

/* The header into blob, from the fields; before blob is written. */
void gx_aux_seal(gx_aux *aux);

/*
** The factorisation that a stored matrix is, with pivots or tau checked: kind GX_AUX_NONE and
** nothing else where its properties name none.  GX_CORRUPT where aux is not what they say.
*/
gx_code gx_aux_load(gx_store *store, gx_mem *mem, const gx_meta *meta, gx_aux *aux, gx_err *err);

/* Check bytes of aux (any alignment) against the matrix; GX_CORRUPT "auxiliary data of F ...". */
gx_code gx_aux_check(const gx_meta *meta, const char *label, const void *aux, size_t bytes,
                     gx_err *err);

/* By the properties of a matrix; NONE for an ordinary one. */
gx_aux_kind gx_aux_kind_of(uint32_t properties);

/* "F is a stored LU factorisation: gx_part(F, 'L') gives its factor" into err; GX_ARG. */
gx_code gx_aux_refuse(const char *label, uint32_t properties, gx_err *err);

#endif
