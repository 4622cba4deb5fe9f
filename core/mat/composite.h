/*
** Composite matrices: blocks of other stored matrices, of which the store has the names alone.
**
** A composite is a row of the catalog (gx_meta.is_composite) without tiles.  Its auxiliary data is
** a layout: a grid of parts, each a stored matrix of the same schema (as it is, transposed, times a
** number), a number on the diagonal, or zeros.  It is read through: what a part becomes, the
** composite is.  The sizes are those of when it was made; a part of another size is refused by
** name.
**
**   offset  bytes  is
**        0      4  'gxcm'
**        4      1  version, 1
**        5      3  zero
**        8      8  down: rows of parts
**       16      8  across: columns of parts
**       24     40  zero
**       64      .  heights, then widths: down + across numbers of 64 bits
**        .      .  parts by rows, each: kind (1), op (1: bit 0 transposed, bit 1 conjugated), bytes
**                  of the name (2), zero (4), factor (two binary64), the name, zeros to a multiple
**                  of 8
*/
#ifndef GX_COMPOSITE_H
#define GX_COMPOSITE_H

#include "mat.h"

enum {
    GX_LAYOUT_PARTS = 4096,     /* of one composite                                    */
    GX_COMPOSITE_LEAVES = 8192, /* of one, its parts' parts among them, but for zeros  */
    GX_COMPOSITE_DEPTH = 32     /* composites in composites                            */
};

typedef enum gx_part_kind { GX_PART_ZERO, GX_PART_NUMBER, GX_PART_MATRIX } gx_part_kind;

typedef struct gx_layout_part {
    gx_part_kind kind;
    bool is_turned, is_conjugated; /* MATRIX: A^T, conj(A), A^H                   */
    gx_scalar factor;              /* MATRIX: times it; NUMBER: on the diagonal   */
    char name[GX_NAME_MAX + 1];    /* MATRIX, without its schema                  */
} gx_layout_part;

typedef struct gx_layout {
    int64_t down, across;
    int64_t *height, *width; /* -1: not known yet                  */
    gx_layout_part *part;    /* down x across, by rows             */
    void *memory;            /* of all of that: gx_layout_clear()  */
} gx_layout;

/* A stored matrix, or a number on a diagonal, where it lies in an opened composite. */
typedef struct gx_leaf {
    int64_t i0, j0, rows, cols;
    bool is_number;                /* factor on the diagonal: there is no base  */
    bool is_turned, is_conjugated; /* base is                                   */
    gx_scalar factor;              /* times it                                  */
    gx_mat base;                   /* STORED; of one that is not stored any source but GENERATED */
} gx_leaf;

/* down x across parts that are zeros of unknown size.  GX_ARG: they are too many. */
gx_code gx_layout_create(gx_mem *mem, int64_t down, int64_t across, gx_layout *layout, gx_err *err);
void gx_layout_clear(gx_layout *layout, gx_mem *mem);

/* Of a stored composite, all checked; GX_CORRUPT. */
gx_code gx_layout_load(gx_store *store, gx_mem *mem, const gx_meta *meta, gx_layout *layout,
                       gx_err *err);

/*
** Find the parts, size them up and store the composite as dest says.  GX_ARG in words: parts that
** are not there, do not fit, or are the composite itself; sizes that no part tells.
*/
gx_code gx_composite_store(gx_run *run, const gx_dest *dest, gx_layout *layout);

/*
** A stored matrix as a source: of any kind.  Of a composite out->owned is to be freed, by
** gx_mat_clear().  GX_ARG where a part is gone or of another size.
*/
gx_code gx_mat_open(gx_store *store, gx_mem *mem, const gx_meta *meta, gx_mat *out, gx_err *err);

/* One that is not stored; leaf and leaves are the caller's to set, and to keep. */
void gx_mat_composite(gx_mat *mat, const char *label, gx_number number, int64_t rows, int64_t cols);

/*
** gx_store_rename(), and in all composites of the schema the old name becomes the new one.  Of meta
** the schema and the id are enough.
*/
gx_code gx_mat_rename(gx_store *store, gx_mem *mem, gx_meta *meta, const char *name, gx_err *err);

#endif
