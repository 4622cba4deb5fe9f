/*
** Composite matrices: made of other stored matrices, of which the store has the names alone.
**
** A composite is a row of the catalog (gx_meta.is_composite) without tiles.  Its auxiliary data is
** a layout: an expression of stored matrices of the same schema, as blocks, sums, products,
** Kronecker products and matrices that a vector tells all of.  It is read through: what a part
** becomes, the composite is.  The sizes are those of when it was made; a part of another size is
** refused by name.
**
** The bytes of a layout are its terms, each followed by its operands:
**
**   offset  bytes  is
**        0      4  'gxcm'
**        4      1  version, 2
**        5      3  zero
**        8      8  terms
**       16     48  zero
**       64      .  terms, each: kind (1), op (1: bit 0 transposed, bit 1 conjugated), bytes of the
**                  name (2), operands (4), factor (two binary64), rows, columns, down (or the
**                  number of the diagonal), across (8 each), the name, zeros to a multiple of 8
*/
#ifndef GX_COMPOSITE_H
#define GX_COMPOSITE_H

#include "mat.h"

enum {
    GX_LAYOUT_TERMS = 8192,     /* of one composite                                     */
    GX_LAYOUT_PARTS = 4096,     /* of a block                                           */
    GX_COMPOSITE_LEAVES = 8192, /* of one, its parts' parts among them, but for zeros   */
    GX_COMPOSITE_DEPTH = 32     /* composites in composites, and operands in operands   */
};

/* What a term of a layout is, and its operands. */
typedef enum gx_term_kind {
    GX_TERM_ZERO,
    GX_TERM_NUMBER,     /* factor on the diagonal of a square                                  */
    GX_TERM_MATRIX,     /* a stored one, by its name                                           */
    GX_TERM_BLOCK,      /* down x across operands, by rows                                     */
    GX_TERM_SUM,        /* any number, all of one size                                         */
    GX_TERM_PRODUCT,    /* two                                                                 */
    GX_TERM_KRON,       /* the Kronecker product of two                                        */
    GX_TERM_DIAGONAL,   /* one vector, on diagonal number `down`, zeros elsewhere              */
    GX_TERM_TOEPLITZ,   /* two vectors: the first column, the first row (but for its first)    */
    GX_TERM_CIRCULANT,  /* one vector: the first column                                        */
    GX_TERM_PERMUTATION /* one vector p of 0 .. n - 1: row i has its one in column p[i]        */
} gx_term_kind;

typedef struct gx_term {
    gx_term_kind kind;
    bool is_turned, is_conjugated; /* transposed, conjugated: of all that it is          */
    gx_scalar factor;              /* times it                                           */
    int64_t rows, cols;            /* of all that; -1: not known yet                     */
    int64_t down, across;          /* BLOCK; DIAGONAL: its number in down                */
    int64_t operands;              /* they follow it, each followed by its own           */
    int64_t span;                  /* terms, it and its operands: gx_layout_measure()    */
    char name[GX_NAME_MAX + 1];    /* MATRIX, without its schema                         */
} gx_term;

typedef struct gx_layout {
    gx_term *term; /* the first is the whole                               */
    int64_t terms, capacity;
} gx_layout;

/* Another term, behind those that are there; of zeros but for kind and a factor of 1. */
gx_code gx_layout_add(gx_mem *mem, gx_layout *layout, gx_term_kind kind, gx_term **term,
                      gx_err *err);
/* A BLOCK, whose down x across operands follow.  GX_ARG: they are too many. */
gx_code gx_layout_add_block(gx_mem *mem, gx_layout *layout, int64_t down, int64_t across,
                            gx_err *err);
void gx_layout_clear(gx_layout *layout, gx_mem *mem);

/* Of a stored composite, all checked; GX_CORRUPT. */
gx_code gx_layout_load(gx_store *store, gx_mem *mem, const gx_meta *meta, gx_layout *layout,
                       gx_err *err);

/*
** Find the parts, size them up and store the composite as dest says.  GX_ARG in words: parts that
** are not there, do not fit, or are the composite itself; sizes that no part tells.
*/
gx_code gx_composite_store(gx_run *run, const gx_dest *dest, gx_layout *layout);

// Opened ------------------------------------------------------------------------------------------

/* What a leaf is. */
typedef enum gx_leaf_kind {
    GX_LEAF_MATRIX,      /* base                                                            */
    GX_LEAF_NUMBER,      /* factor on the diagonal of a square: there is no base            */
    GX_LEAF_DIAGONAL,    /* base, a vector, on diagonal number `offset`                     */
    GX_LEAF_TOEPLITZ,    /* base, a vector: the first column; second: the first row         */
    GX_LEAF_CIRCULANT,   /* base, a vector: the first column                                */
    GX_LEAF_PERMUTATION, /* base, a vector of places                                       */
    GX_LEAF_PRODUCT,     /* base times second                                               */
    GX_LEAF_KRON,        /* the Kronecker product of base and second                        */
    GX_LEAF_CODES        /* of base, codes of `offset` bits: quantized.h                    */
} gx_leaf_kind;

/* What lies somewhere in an opened composite. */
typedef struct gx_leaf {
    gx_leaf_kind kind;
    int64_t i0, j0, rows, cols;
    bool is_turned, is_conjugated; /* all that it is                              */
    bool adds;                     /* to the leaves before it, which lie there too */
    gx_scalar factor;              /* times it                                    */
    int64_t offset;                /* DIAGONAL; CODES: their bits                 */
    gx_mat base;                   /* STORED, or quantised; in one that is not stored: but
                                      GENERATED, any                                   */
    gx_mat second;                 /* as kind says                                */
} gx_leaf;

/*
** A stored matrix as a source: of any kind.  Of a composite out->owned is to be freed, by
** gx_mat_clear().  GX_ARG where a part is gone or of another size.
*/
gx_code gx_mat_open(gx_store *store, gx_mem *mem, const gx_meta *meta, gx_mat *out, gx_err *err);

/* One that is not stored; leaf and leaves are the caller's to set, and to keep. */
void gx_mat_composite(gx_mat *mat, const char *label, gx_number number, int64_t rows, int64_t cols);

/*
** A composite that is no blocks alone: reading its elements makes them, and products are made of
** those of its leaves (alg/by_parts.h).
*/
bool gx_mat_is_structured(const gx_mat *mat);

/* The leaf as op's transposition of the composite has it: place and flags; conjugation is not. */
void gx_leaf_turn(gx_leaf *leaf);

/* Elements m x n from (i0, j0) of a leaf that is no MATRIX and not turned, without its factor. */
gx_code gx_leaf_read(gx_run *run, const gx_leaf *leaf, gx_reader *reader, int64_t i0, int64_t j0,
                     int64_t m, int64_t n, gx_number dtype, void *dst, int64_t ld, gx_err *err);

/*
** The elements (i0 + k, j0 + k), count of them, of a structured composite as a column, which
** borrows its leaves.  What is a product is not made for what lies beside them.
*/
void gx_composite_diagonal(const gx_mat *mat, int64_t i0, int64_t j0, int64_t count, gx_mat *out);

/* Place i of a PERMUTATION's vector, checked: GX_ARG. */
gx_code gx_leaf_place(const gx_leaf *leaf, int64_t i, double p, int64_t *place, gx_err *err);

/*
** gx_store_rename(), and in all composites of the schema the old name becomes the new one.  Of meta
** the schema and the id are enough.
*/
gx_code gx_mat_rename(gx_store *store, gx_mem *mem, gx_meta *meta, const char *name, gx_err *err);

#endif
