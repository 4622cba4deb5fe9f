/*
** Sources and sinks: where a matrix comes from and where a result goes.
**
** A source (gx_mat) is anything that can fill a rectangle of a column-major buffer: a stored
** matrix, a value in memory, a generator, a slice or transpose of another source.  A sink is a
** stored matrix under construction, or a value.  Drivers see only these.
*/
#ifndef GX_MAT_H
#define GX_MAT_H

#include "../base/convert.h"
#include "../base/value.h"
#include "../run/run.h"
#include "../store/aux_data.h"

typedef struct gx_mat gx_mat;

/*
** A generator: the elements of the rectangle (i0, j0) m x n, as dtype, into dst (column-major, ld).
** Any thread; must not depend on how the matrix is cut into rectangles.
*/
typedef void (*gx_generate)(const void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n,
                            gx_number dtype, void *dst, int64_t ld);

/* Fills a rectangle as gx_mat_read() does: of a kind that mat.c knows nothing of. */
typedef gx_code (*gx_read)(gx_run *run, const gx_mat *mat, gx_reader *reader, int64_t i0,
                           int64_t j0, int64_t m, int64_t n, gx_number dtype, void *dst, int64_t ld,
                           gx_err *err);

struct gx_sink;
typedef gx_code (*gx_make)(gx_run *run, const void *arg, struct gx_sink *sink);

typedef enum gx_mat_kind {
    GX_MAT_STORED,
    GX_MAT_VALUE,
    GX_MAT_NARROW,    /* a value of a dtype that is only stored: widened as it is read */
    GX_MAT_GENERATED,
    GX_MAT_VIEW,      /* a rectangle of op(base)                                */
    GX_MAT_BROADCAST, /* a base of one row, one column or one element, repeated */
    GX_MAT_CENTRED,   /* (base - a row) * a row, with a column of ones in front or not */
    GX_MAT_REAL,      /* the real part of a base that is complex                */
    GX_MAT_COMPOSITE  /* blocks of other stored matrices: composite.h           */
} gx_mat_kind;

struct gx_mat {
    gx_mat_kind kind;
    int64_t rows, cols;
    gx_number number;             /* of its elements when they are read                     */
    gx_dtype dtype;               /* what they are kept as; a view's are its base's         */
    uint32_t properties;          /* GX_PROP_ bits                                          */
    int64_t tile_rows, tile_cols; /* natural pieces for reading                             */
    char label[GX_NAME_MAX + 1];  /* for messages: the stored name, or the argument's       */
    gx_meta meta;                 /* STORED                                                 */
    const void *data;             /* VALUE, NARROW: elements, aligned for their dtype       */
    int64_t ld;                   /* VALUE, NARROW                                          */
    bool is_rounded;              /* i64 that f64 does not hold are rounded, not refused    */
    bool is_sparse;               /* STORED, VALUE: sparse.h.  gx_mat_read() reads it dense */
    gx_csr csr;                   /* VALUE, is_sparse: all of it                            */
    void *owned;                  /* freed by gx_mat_clear() with gx_mem_free(); may be NULL */
    struct gx_kept *kept;         /* STORED: read through what is kept in memory (kept.h)   */
    gx_generate generate;         /* GENERATED                                              */
    const void *generate_arg;     /* GENERATED: borrowed, or == owned                       */
    const gx_mat *base;           /* VIEW, BROADCAST, CENTRED: borrowed                     */
    int64_t row0, col0;           /* VIEW: origin in op(base)                               */
    gx_trans trans;               /* VIEW: NO_TRANS, TRANS, CONJ_TRANS of base              */
    const gx_scalar *shift;       /* CENTRED: one a column of base, borrowed                */
    const gx_scalar *rest;        /* CENTRED: taken off after it; NULL unless set by hand   */
    const double *scale;          /* CENTRED: the same; NULL: ones                          */
    bool has_ones;                /* CENTRED: column 0 is ones, base's follow               */
    bool is_conjugated;           /* CENTRED: of all that; false unless set by hand         */
    const struct gx_leaf *leaf;   /* COMPOSITE: == owned                                    */
    int64_t leaves;
    bool is_whole;                /* COMPOSITE: taken by its elements, whatever its leaves are */
    gx_read read;                 /* COMPOSITE                                              */
    gx_make make;                 /* GENERATED: all of it, once, in rectangles, to a sink that takes
                                     them; it is not read then; NULL: it is                 */
    const void *make_arg;         /* borrowed                                               */
};

/* Constructors.  None allocates. */
void gx_mat_stored(gx_mat *mat, const gx_meta *meta);
void gx_mat_value(gx_mat *mat, const char *label, gx_number dtype, int64_t rows, int64_t cols,
                  const void *data, int64_t ld);
/* The same of stored elements, of any dtype: VALUE or NARROW. */
void gx_mat_array(gx_mat *mat, const char *label, gx_dtype dtype, int64_t rows, int64_t cols,
                  const void *data, int64_t ld);
void gx_mat_generated(gx_mat *mat, const char *label, gx_number dtype, int64_t rows, int64_t cols,
                      gx_generate generate, const void *arg);
/* rows x cols of op(base) from (row0, col0); base must outlive the view. */
void gx_mat_view(gx_mat *mat, const gx_mat *base, gx_trans trans, int64_t row0, int64_t col0,
                 int64_t rows, int64_t cols);
/* A 1 x cols, rows x 1 or 1 x 1 base repeated to rows x cols, as NumPy broadcasts. */
void gx_mat_broadcast(gx_mat *mat, const gx_mat *base, int64_t rows, int64_t cols);
/* The real part of a complex base. */
void gx_mat_real(gx_mat *mat, const gx_mat *base);
/*
** The matrix (base(i, j) - shift[j]) * scale[j], scale NULL: not scaled; has_ones: with a column of
** ones in front.  Centred columns without a centred copy.  dtype: complex where base is.
*/
void gx_mat_centred(gx_mat *mat, const gx_mat *base, gx_number dtype, const gx_scalar *shift,
                    const double *scale, bool has_ones);
void gx_mat_clear(gx_mat *mat, gx_mem *mem);

/*
** Fill dst (column-major, leading dimension ld, elements of dtype) with the rectangle (i0, j0) m x
** n.  Widens and converts; complex to real is refused (GX_ARG).  reader: serves the stored matrix
** under the source, NULL when there is none.  Any thread, with a reader of its own.
*/
gx_code gx_mat_read(gx_run *run, const gx_mat *mat, gx_reader *reader, int64_t i0, int64_t j0,
                    int64_t m, int64_t n, gx_number dtype, void *dst, int64_t ld, gx_err *err);

/*
** The same as the elements `as`: a number's dtype, or gx_mat_narrow(): mat's own dtype where that
** is none to compute with and its elements are read as they lie, else the number's.
*/
gx_dtype gx_mat_narrow(const gx_mat *mat, gx_number number);
gx_code gx_mat_read_as(gx_run *run, const gx_mat *mat, gx_reader *reader, int64_t i0, int64_t j0,
                       int64_t m, int64_t n, gx_dtype as, void *dst, int64_t ld, gx_err *err);

/*
** Do the elements lie in memory as `as`, in a value or in what is kept of a stored matrix?  Then
** *at is the rectangle, columns *ld elements apart, for as long as mat is open.  Any thread.
*/
bool gx_mat_lend(const gx_mat *mat, int64_t i0, int64_t j0, int64_t m, int64_t n, gx_dtype as,
                 const void **at, int64_t *ld);

/* Tiles of that shape, numbered down the columns: where one is, and its size at the edge. */
typedef struct gx_tile_place {
    int64_t i0, j0, m, n;
} gx_tile_place;

gx_tile_place gx_tile_at(int64_t rows, int64_t cols, int64_t tile_rows, int64_t tile_cols,
                         int64_t tile);

/* Is it read from the store as it is, by pieces that lie as tiles do? */
static inline bool gx_mat_is_tiled(const gx_mat *mat)
{
    return mat->kind == GX_MAT_STORED || mat->kind == GX_MAT_COMPOSITE;
}

/* Are all of these elements zeros that nobody reads?  Parts of a composite are. */
bool gx_mat_is_void(const gx_mat *mat, int64_t i0, int64_t j0, int64_t m, int64_t n);

/*
** The stored matrix under a source, or NULL; of several, which are of one schema, the first.  And
** number k of them.
*/
const gx_mat *gx_mat_base_stored(const gx_mat *mat);
const gx_mat *gx_mat_base_number(const gx_mat *mat, int64_t k);

/* Does reading it take a reader?  Not where all that is stored under it is kept in memory. */
bool gx_mat_wants_reader(const gx_mat *mat);

// Results -----------------------------------------------------------------------------------------

/* An array of the application's that elements go into: by columns, without gaps. */
typedef struct gx_landing {
    void *data;
    int64_t rows, cols;
    gx_dtype dtype;
} gx_landing;

/* Where a result goes: what the SQL call said. */
typedef struct gx_dest {
    const char *name; /* NULL: a matrix value.  Else "name" or "schema.name" */
    bool replace;
    bool has_dtype;   /* dtype: what the elements are stored as; else as they are computed */
    bool saturate;    /* what dtype has not becomes the nearest that it has                */
    bool round;       /* gx_cast alone: i64 that f64 does not hold are rounded             */
    bool is_verbatim; /* f64 are written whose bytes are the elements: gx_dest_like()      */
    gx_dtype dtype;
    bool is_streamed; /* who makes the result writes it once, and never reads it           */
    bool is_blocked;  /* tiles have as many elements as those of the numbers would have     */
    bool is_asked_for; /* a function of the application gives the elements: it may COMMIT */
    const gx_landing *place; /* not NULL: the elements go there, and name is NULL */
} gx_dest;

/*
** What a copy of `natural` numbers to there is best made of: what it is stored as, where it can.
** Of m31 only what is of m31: other numbers are looked at when they are written.
*/
static inline gx_number gx_dest_number(const gx_dest *dest, gx_number natural)
{
    bool is_number = dest->has_dtype && gx_dtype_is_number(dest->dtype);
    bool is_field = is_number && dest->dtype == GX_DTYPE_M31;
    return is_number && (!is_field || natural == GX_M31) ? gx_dtype_number(dest->dtype) : natural;
}

/* Truth values are stored as bool where nothing else is asked for, and written once. */
static inline void gx_dest_takes_truth(gx_dest *dest)
{
    if (dest->name != NULL && !dest->has_dtype) {
        dest->has_dtype = dest->is_streamed = dest->is_blocked = true;
        dest->dtype = GX_DTYPE_BOOL;
    }
}

/*
** A copy of A, or of a part of it, is stored as A is where nothing else is asked for.  Of i64, of
** which f64 does not hold all, the bytes are moved as if they were f64 (is_verbatim); A and what it
** is a view of are read so from now on.
*/
gx_dest gx_dest_like(const gx_dest *dest, gx_mat *A);

/* An i64 matrix is read as the f64 of the same bytes: to be moved, not to be computed with. */
void gx_mat_verbatim(gx_mat *A);

/*
** A result under construction.  Begin, write every rectangle once (any order), then finish; or
** abandon.  For a stored result: a savepoint is open in between, and nothing is visible before
** finish.
*/
typedef gx_code (*gx_sink_taker)(void *arg, int64_t i0, int64_t j0, int64_t m, int64_t n,
                                 const void *src, int64_t ld, gx_err *err);

typedef struct gx_sink {
    gx_run *run;
    struct gx_sink *final;        /* all of this one becomes that one when it ends; NULL: none   */
    int64_t rows, cols;
    gx_number number;             /* of what is written                                         */
    gx_dtype dtype;               /* what it becomes                                            */
    bool saturate;                /* what dtype has not becomes the nearest that it has         */
    int64_t tile_rows, tile_cols; /* writes start on multiples of these, end there or at an edge */
    bool is_stored;
    gx_meta meta;               /* stored                                                      */
    char name[GX_NAME_MAX + 1]; /* stored: bare name                                           */
    bool replace;               /* stored                                                      */
    bool is_begun;              /* stored: gx_store_begin() is to be ended                     */
    gx_aux *aux;                /* stored: what goes with the elements, borrowed; NULL: nothing */
    char *names[2];             /* stored: of rows and columns (gx_sink_names()); or NULL       */
    gx_value_buf value;         /* value: the blob under construction; moved out by the caller.
                                   data NULL: to be written by gx_sink_write() alone            */
    void *narrow;               /* value: its elements where they are not of number: value.data is
                                   NULL then                                                    */
    bool is_verbatim;           /* the bytes that are written are the elements                 */
    bool is_sparse;             /* of panels: see gx_sink_begin_sparse()                        */
    gx_panels *panels;          /* stored, is_sparse: those written; meta points to it          */
    int64_t panel_capacity;     /* places that it has room for                                  */
    bool is_scratch;            /* an intermediate: see gx_sink_begin_scratch()                 */
    bool is_lent;               /* a value in memory that is the caller's                       */
    bool is_dropped;            /* what is written is dropped: see gx_sink_begin_nowhere() ...  */
    gx_sink_taker take;         /* ... when this has taken it; NULL: at once                   */
    void *take_arg;
    void *bounce;               /* stored: one tile, when a block has to be packed; lazily     */
} gx_sink;

static inline bool gx_mat_is_value(const gx_mat *mat)
{
    return mat->kind == GX_MAT_VALUE || mat->kind == GX_MAT_NARROW;
}

/* What is written is what is stored. */
static inline bool gx_sink_is_plain(const gx_sink *sink)
{
    return sink->is_verbatim || gx_dtype_is(sink->dtype, sink->number);
}

/* Do threads write to it at once, each rectangles of its own? */
static inline bool gx_sink_is_shared(const gx_sink *sink)
{
    return sink->is_stored ? sink->meta.scratch != NULL
                           : sink->narrow == NULL && sink->take == NULL;
}

/*
** Refuses, before anything is computed: a name in use, a value past SQLite's length limit, a
** read-only database.  tile_rows/tile_cols 0: the default shape.
*/
gx_code gx_sink_begin(gx_run *run, const gx_dest *dest, int64_t rows, int64_t cols, gx_number dtype,
                      uint32_t properties, int64_t tile_rows, int64_t tile_cols, gx_sink *sink);

/*
** A stored result, begun with the property bit of its kind, is a factorisation (aux_data.h): the
** fields and pivots or tau that factor has when the sink ends go with it.  Refuses, before anything
** is computed, what SQLite's length limit would.
*/
gx_code gx_sink_aux(gx_sink *sink, gx_aux *aux);

/*
** Names of the rows (axis 0) or columns of the result: a text of base/names.h, of the context's
** governor, the sink's from now on.  A value has none: they are freed.
*/
void gx_sink_names(gx_sink *sink, int axis, char *names);

/* Those of A, where it is stored and has the shape of the result.  What fails is the run's. */
gx_code gx_sink_take_names(gx_sink *sink, const gx_mat *A);

/*
** A sparse result: panels in ascending order of their rows, the last one ending at the last row, or
** a value, whose panel is made room for when its entries are known (sink->value.data) and is the
** caller's to fill.  sparse.h has the writer of rows that does all this.
*/
gx_code gx_sink_begin_sparse(gx_run *run, const gx_dest *dest, int64_t rows, int64_t cols,
                             gx_number dtype, uint32_t properties, gx_sink *sink);
gx_code gx_sink_panel(gx_sink *sink, int64_t end, int64_t entries, const void *block, gx_err *err);
gx_code gx_sink_sparse_value(gx_sink *sink, int64_t entries, gx_err *err);

gx_code gx_sink_write(gx_sink *sink, int64_t i0, int64_t j0, int64_t m, int64_t n, const void *src,
                      int64_t ld, gx_err *err);
/* All of it from a source of its shape, tile by tile, by the caller's thread. */
gx_code gx_sink_fill(gx_sink *sink, const gx_mat *from, gx_err *err);

/*
** Publish, or roll back when the run has failed.  Frees all but a finished value.  Call exactly
** once.
*/
gx_code gx_sink_end(gx_sink *sink);

/*
** An intermediate result: in memory where keep_bytes more than its own size are left of the budget,
** else in a file, or in the temp database and never visible there.  Written like any sink (blocks
** of its tiles, or the whole); gx_sink_source() reads what has been written.  Begun after and
** dropped before the sinks around it.
*/
gx_code gx_sink_begin_scratch(gx_run *run, int64_t rows, int64_t cols, gx_number dtype,
                              size_t keep_bytes, gx_sink *sink);
/* Would it be in memory? */
bool gx_scratch_fits(gx_run *run, int64_t rows, int64_t cols, gx_number dtype, size_t keep_bytes);
/* The same with tiles of that shape; 0: the default. */
gx_code gx_sink_begin_scratch_tiles(gx_run *run, int64_t rows, int64_t cols, gx_number dtype,
                                    size_t keep_bytes, int64_t tile_rows, int64_t tile_cols,
                                    gx_sink *sink);
/* A result in memory that is the caller's, column-major without gaps; gx_sink_end() leaves it. */
gx_code gx_sink_begin_lent(gx_run *run, const gx_landing *place, gx_number dtype, gx_sink *sink);

/* A result that nobody wants: for measuring, or for whoever sets take.  Tiles of that shape. */
void gx_sink_begin_nowhere(gx_run *run, int64_t rows, int64_t cols, gx_number dtype,
                           int64_t tile_rows, int64_t tile_cols, gx_sink *sink);

void gx_sink_source(const gx_sink *sink, const char *label, gx_mat *mat);
void gx_sink_drop(gx_sink *sink); /* leaves nothing; a sink of zeros is a no-op */

/*
** Store or return a source as it is (optionally converted): store, copy, cast, generators, slices,
** transposes.
*/
gx_code gx_copy_to_sink(gx_run *run, const gx_mat *src, gx_sink *sink);

#endif
