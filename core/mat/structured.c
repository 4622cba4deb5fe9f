/*
** The elements of leaves that are made of others (composite.h): for who wants elements; products
** are made of the operands themselves (alg/by_parts.c).
**
**   diagonal, Toeplitz, circulant, permutation   told by vectors, of which the piece is read
**   product          L[i, :] R[:, j], the inner side in chunks, by kernels of the host
**   Kronecker        A[i / p, j / q] B[i mod p, j mod q], B being p x q: B is read once for all
**                    blocks that a rectangle crosses
*/
#include "quantized.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Sides of what is computed at once, and of the inner side of a product. */
enum { PIECE = 512, CHUNK = 64 };

/* What is read, and where it goes: m x n from (i0, j0). */
typedef struct reading {
    gx_run *run;
    const gx_leaf *leaf;
    gx_reader *reader;
    int64_t i0, j0, m, n;
    gx_number dtype;
    char *dst;
    int64_t ld;
} reading;

static reading piece_of(const reading *r, int64_t i, int64_t j, int64_t m, int64_t n)
{
    reading p = *r;
    p.i0 += i;
    p.j0 += j;
    p.m = m;
    p.n = n;
    p.dst = gx_at(r->dst, r->dtype, r->ld, i, j);
    return p;
}

static void clear(const reading *r)
{
    for (int64_t j = 0; j < r->n; j++) {
        memset(gx_at(r->dst, r->dtype, r->ld, 0, j), 0, (size_t)r->m * gx_number_bytes(r->dtype));
    }
}

void gx_leaf_turn(gx_leaf *leaf)
{
    int64_t i0 = leaf->i0, rows = leaf->rows;
    leaf->i0 = leaf->j0;
    leaf->j0 = i0;
    leaf->rows = leaf->cols;
    leaf->cols = rows;
    leaf->is_turned = !leaf->is_turned;
}

/* Memory of a thread that reads, which no budget counts: at most some 2 MiB. */
static gx_code take(const reading *r, int64_t count, void *ptr, gx_err *err)
{
    return gx_mem_alloc(NULL, (size_t)count * gx_number_bytes(r->dtype), "elements", ptr, err);
}

// Told by vectors ---------------------------------------------------------------------------------

/* Elements from .. from + count - 1 of a vector, whichever way it lies. */
static gx_code read_vector(const reading *r, const gx_mat *v, int64_t from, int64_t count,
                           gx_number dtype, void *dst, gx_err *err)
{
    bool is_row = v->rows == 1 && v->cols != 1;
    return gx_mat_read(r->run, v, r->reader, is_row ? 0 : from, is_row ? from : 0,
                       is_row ? 1 : count, is_row ? count : 1, dtype, dst, is_row ? 1 : count, err);
}

static gx_code read_diagonal(const reading *r, gx_err *err)
{
    int64_t shift = r->leaf->offset; // element k is at (k - min(shift, 0), k + max(shift, 0))
    int64_t below = shift < 0 ? -shift : 0, right = shift > 0 ? shift : 0;
    int64_t first = gx_max(r->i0 - below, r->j0 - right);
    int64_t end = gx_min(r->i0 + r->m - below, r->j0 + r->n - right);
    void *x;
    clear(r);
    first = gx_max(first, 0);
    end = gx_min(end, r->leaf->base.rows * r->leaf->base.cols);
    if (first >= end) {
        return GX_OK;
    }
    GX_TRY(take(r, end - first, &x, err));
    gx_code code = read_vector(r, &r->leaf->base, first, end - first, r->dtype, x, err);
    for (int64_t k = first; k < end && code == GX_OK; k++) {
        gx_number_put(r->dtype,
                      gx_at(r->dst, r->dtype, r->ld, k + below - r->i0, k + right - r->j0), 0,
                      gx_number_get(r->dtype, x, k - first));
    }
    gx_mem_free(NULL, x);
    return code;
}

/* Diagonals i - j from first on, as many as m + n - 1, into x. */
static gx_code read_diagonals(const reading *r, int64_t first, char *x, gx_err *err)
{
    const gx_leaf *leaf = r->leaf;
    int64_t end = first + r->m + r->n - 1, n = leaf->base.rows * leaf->base.cols;
    for (int64_t d = first; d < end;) {
        bool is_circulant = leaf->kind == GX_LEAF_CIRCULANT;
        char *to = gx_at(x, r->dtype, 1, 0, d - first);
        int64_t count = d < 0 ? gx_min(end, 0) - d : end - d;
        if (d >= 0 || is_circulant) {
            GX_TRY(read_vector(r, &leaf->base, d < 0 ? d + n : d, count, r->dtype, to, err));
        } else { // of the row, backward
            GX_TRY(read_vector(r, &leaf->second, -(d + count - 1), count, r->dtype, to, err));
            for (int64_t a = 0, b = count - 1; a < b; a++, b--) {
                gx_scalar one = gx_number_get(r->dtype, to, a);
                gx_number_put(r->dtype, to, a, gx_number_get(r->dtype, to, b));
                gx_number_put(r->dtype, to, b, one);
            }
        }
        d += count;
    }
    return GX_OK;
}

static gx_code read_toeplitz(const reading *r, gx_err *err)
{
    void *x;
    GX_TRY(take(r, r->m + r->n - 1, &x, err));
    int64_t first = r->i0 - (r->j0 + r->n - 1);
    gx_code code = read_diagonals(r, first, x, err);
    for (int64_t j = 0; j < r->n && code == GX_OK; j++) {
        memcpy(gx_at(r->dst, r->dtype, r->ld, 0, j), gx_at(x, r->dtype, 1, 0, r->n - 1 - j),
               (size_t)r->m * gx_number_bytes(r->dtype));
    }
    gx_mem_free(NULL, x);
    return code;
}

gx_code gx_leaf_place(const gx_leaf *leaf, int64_t i, double p, int64_t *place, gx_err *err)
{
    int64_t n = leaf->base.rows * leaf->base.cols;
    if (!(p >= 0 && p < (double)n && p == floor(p))) {
        return gx_fail(err, GX_ARG,
                       "the permutation %s has %.17g at %" PRId64
                       ", and its places are 0 to %" PRId64,
                       leaf->base.label, p, i, n - 1);
    }
    *place = (int64_t)p;
    return GX_OK;
}

static gx_code read_permutation(const reading *r, gx_err *err)
{
    double *p;
    int64_t place;
    clear(r);
    GX_TRY(gx_mem_alloc(NULL, (size_t)r->m * sizeof *p, "places", &p, err));
    gx_code code = read_vector(r, &r->leaf->base, r->i0, r->m, GX_F64, p, err);
    for (int64_t i = 0; i < r->m && code == GX_OK; i++) {
        code = gx_leaf_place(r->leaf, r->i0 + i, p[i], &place, err);
        if (code == GX_OK && place >= r->j0 && place < r->j0 + r->n) {
            gx_number_put(r->dtype, gx_at(r->dst, r->dtype, r->ld, i, place - r->j0), 0, GX_ONE);
        }
    }
    gx_mem_free(NULL, p);
    return code;
}

// Products ----------------------------------------------------------------------------------------

/*
** dst += left right, left m x k.  GX_PAIR under `deterministic`: an element's bits depend on
** nothing but its row and column then.
*/
static gx_code add_product(const reading *r, int64_t k, const void *left, const void *right,
                           gx_err *err)
{
    const gx_backend *backend;
    gx_dev *dev;
    gx_args args = {.m = r->m, .n = r->n, .k = k, .alpha = GX_ONE, .beta = GX_ONE};
    bool is_fixed = r->run->ctx->config.number[GX_SET_DETERMINISTIC] != 0;
    // Opened by the caller of the call before there are other threads.
    if (gx_run_device(r->run, &backend, &dev) != GX_OK) {
        return gx_fail(err, r->run->err.code, "%s", r->run->err.text);
    }
    args.a = left;
    args.lda = r->m;
    args.b = right;
    args.ldb = k;
    args.c = r->dst;
    args.ldc = r->ld;
    if (is_fixed) {
        args.n = k;
        args.k = r->n;
    }
    return backend->kernel[is_fixed ? GX_PAIR : GX_GEMM][r->dtype](dev, NULL, &args, err);
}

/* Of at most PIECE x PIECE elements. */
static gx_code read_product(const reading *r, gx_err *err)
{
    const gx_mat *L = &r->leaf->base, *R = &r->leaf->second;
    void *left;
    gx_code code = GX_OK;
    clear(r);
    GX_TRY(take(r, (r->m + r->n) * CHUNK, &left, err));
    void *right = gx_at(left, r->dtype, 1, 0, r->m * CHUNK);
    for (int64_t p = 0; p < L->cols && code == GX_OK; p += CHUNK) {
        int64_t k = gx_min(CHUNK, L->cols - p);
        code = gx_mat_read(r->run, L, r->reader, r->i0, p, r->m, k, r->dtype, left, r->m, err);
        code = code != GX_OK
                   ? code
                   : gx_mat_read(r->run, R, r->reader, p, r->j0, k, r->n, r->dtype, right, k, err);
        code = code != GX_OK ? code : add_product(r, k, left, right, err);
    }
    gx_mem_free(NULL, left);
    return code;
}

/* Elements of A, and of B, that a Kronecker product's piece wants. */
typedef struct factors {
    int64_t p, q;           /* rows and columns of B       */
    int64_t a0, b0, am, an; /* of A, from (a0, b0)         */
    int64_t i, j, bm, bn;   /* of B, from (i, j)           */
    const void *a, *b;
} factors;

static void fill_kron(const reading *r, const factors *f)
{
    for (int64_t j = 0; j < r->n; j++) {
        int64_t col = r->j0 + j;
        for (int64_t i = 0; i < r->m; i++) {
            int64_t row = r->i0 + i;
            gx_scalar a =
                gx_number_get(r->dtype, f->a, row / f->p - f->a0 + (col / f->q - f->b0) * f->am);
            gx_scalar b =
                gx_number_get(r->dtype, f->b, row % f->p - f->i + (col % f->q - f->j) * f->bm);
            gx_number_put(r->dtype, gx_at(r->dst, r->dtype, r->ld, i, j), 0, gx_scalar_times(a, b));
        }
    }
}

/* A side that crosses more blocks than one is within one size of B, or is cut at a block's end. */
static int64_t cut_of(int64_t from, int64_t count, int64_t size)
{
    bool is_crossed = from / size != (from + count - 1) / size;
    return is_crossed && size > count ? size - from % size : 0;
}

static gx_code read_kron(const reading *r, gx_err *err)
{
    const gx_mat *A = &r->leaf->base, *B = &r->leaf->second;
    int64_t rows = cut_of(r->i0, r->m, B->rows), cols = cut_of(r->j0, r->n, B->cols);
    if (rows > 0 || cols > 0) {
        reading one = rows > 0 ? piece_of(r, 0, 0, rows, r->n) : piece_of(r, 0, 0, r->m, cols);
        reading two = rows > 0 ? piece_of(r, rows, 0, r->m - rows, r->n)
                               : piece_of(r, 0, cols, r->m, r->n - cols);
        GX_TRY(read_kron(&one, err));
        return read_kron(&two, err);
    }
    factors f = {.p = B->rows, .q = B->cols, .a0 = r->i0 / B->rows, .b0 = r->j0 / B->cols};
    f.am = (r->i0 + r->m - 1) / f.p - f.a0 + 1;
    f.an = (r->j0 + r->n - 1) / f.q - f.b0 + 1;
    f.i = f.am > 1 ? 0 : r->i0 % f.p;
    f.j = f.an > 1 ? 0 : r->j0 % f.q;
    f.bm = f.am > 1 ? f.p : r->m;
    f.bn = f.an > 1 ? f.q : r->n;
    void *a;
    GX_TRY(take(r, f.am * f.an + f.bm * f.bn, &a, err));
    void *b = gx_at(a, r->dtype, 1, 0, f.am * f.an);
    gx_code code =
        gx_mat_read(r->run, A, r->reader, f.a0, f.b0, f.am, f.an, r->dtype, a, f.am, err);
    code = code != GX_OK
               ? code
               : gx_mat_read(r->run, B, r->reader, f.i, f.j, f.bm, f.bn, r->dtype, b, f.bm, err);
    f.a = a;
    f.b = b;
    if (code == GX_OK) {
        fill_kron(r, &f);
    }
    gx_mem_free(NULL, a);
    return code;
}

// All of them -------------------------------------------------------------------------------------

static gx_code read_piece(const reading *r, gx_err *err)
{
    switch (r->leaf->kind) {
    case GX_LEAF_DIAGONAL:
        return read_diagonal(r, err);
    case GX_LEAF_PERMUTATION:
        return read_permutation(r, err);
    case GX_LEAF_PRODUCT:
        return read_product(r, err);
    case GX_LEAF_KRON:
        return read_kron(r, err);
    default:
        return read_toeplitz(r, err);
    }
}

gx_code gx_leaf_read(gx_run *run, const gx_leaf *leaf, gx_reader *reader, int64_t i0, int64_t j0,
                     int64_t m, int64_t n, gx_number dtype, void *dst, int64_t ld, gx_err *err)
{
    if (leaf->kind == GX_LEAF_CODES || leaf->kind == GX_LEAF_BITS) {
        return (leaf->kind == GX_LEAF_CODES ? gx_codes_read : gx_bits_read)(
            run, leaf, reader, i0, j0, m, n, dtype, dst, ld, err);
    }
    const reading all = {run, leaf, reader, i0, j0, m, n, dtype, dst, ld};
    for (int64_t j = 0; j < n; j += PIECE) {
        for (int64_t i = 0; i < m; i += PIECE) {
            reading piece = piece_of(&all, i, j, gx_min(PIECE, m - i), gx_min(PIECE, n - j));
            GX_TRY(read_piece(&piece, err));
        }
    }
    return GX_OK;
}

// Diagonals ---------------------------------------------------------------------------------------

/* x[k] += (L R)(i + k, j + k), a chunk of the inner side. */
static gx_code add_dots(const reading *r, int64_t p, int64_t inner, gx_scalar *left,
                        gx_scalar *right, gx_scalar *x, gx_err *err)
{
    GX_TRY(gx_mat_read(r->run, &r->leaf->base, r->reader, r->i0, p, r->m, inner, GX_C128, left,
                       r->m, err));
    GX_TRY(gx_mat_read(r->run, &r->leaf->second, r->reader, p, r->j0, inner, r->m, GX_C128, right,
                       inner, err));
    for (int64_t k = 0; k < r->m; k++) {
        for (int64_t q = 0; q < inner; q++) {
            x[k] = gx_scalar_plus(x[k], gx_scalar_times(left[k + q * r->m], right[q + k * inner]));
        }
    }
    return GX_OK;
}

static gx_code product_diagonal(const reading *r, gx_scalar *x, gx_err *err)
{
    gx_scalar *left;
    gx_code code = GX_OK;
    GX_TRY(gx_mem_alloc(NULL, (size_t)(2 * r->m * CHUNK) * sizeof *left, "rows", &left, err));
    for (int64_t p = 0; p < r->leaf->base.cols && code == GX_OK; p += CHUNK) {
        code = add_dots(r, p, gx_min(CHUNK, r->leaf->base.cols - p), left, left + r->m * CHUNK, x,
                        err);
    }
    gx_mem_free(NULL, left);
    return code;
}

/* Element k of those: of any kind but a product. */
static gx_code one_element(const reading *r, int64_t k, gx_scalar *x, gx_err *err)
{
    int64_t i = r->i0 + k, j = r->j0 + k;
    if (r->leaf->kind == GX_LEAF_NUMBER) {
        *x = (gx_scalar){i == j ? 1 : 0, 0};
        return GX_OK;
    }
    return r->leaf->kind == GX_LEAF_MATRIX
               ? gx_mat_read(r->run, &r->leaf->base, r->reader, i, j, 1, 1, GX_C128, x, 1, err)
               : gx_leaf_read(r->run, r->leaf, r->reader, i, j, 1, 1, GX_C128, x, 1, err);
}

/* Of a leaf that is turned to where it is not: elements from (i, j) of it on. */
static gx_code leaf_diagonal(gx_run *run, const gx_leaf *leaf, gx_reader *reader, int64_t i,
                             int64_t j, int64_t count, gx_scalar *x, gx_err *err)
{
    gx_leaf plain = *leaf;
    if (leaf->is_turned) {
        gx_leaf_turn(&plain);
    }
    plain.i0 = plain.j0 = 0;
    plain.adds = plain.is_conjugated = false;
    plain.factor = GX_ONE;
    reading r = {.run = run, .leaf = &plain, .reader = reader, .m = count};
    r.i0 = leaf->is_turned ? j : i;
    r.j0 = leaf->is_turned ? i : j;
    if (leaf->kind == GX_LEAF_PRODUCT) {
        return product_diagonal(&r, x, err);
    }
    for (int64_t k = 0; k < count; k++) {
        GX_TRY(one_element(&r, k, &x[k], err));
    }
    return GX_OK;
}

/* x = elements (i0 + k, j0 + k) of all leaves; own: room for as many. */
static gx_code sum_diagonal(gx_run *run, const gx_mat *mat, gx_reader *reader, int64_t i0,
                            int64_t j0, int64_t count, gx_scalar *own, gx_scalar *x, gx_err *err)
{
    for (int64_t l = 0; l < mat->leaves; l++) {
        const gx_leaf *leaf = &mat->leaf[l];
        int64_t first = gx_max(0, gx_max(leaf->i0 - i0, leaf->j0 - j0));
        int64_t end = gx_min(count, gx_min(leaf->i0 + leaf->rows - i0, leaf->j0 + leaf->cols - j0));
        if (first >= end) {
            continue;
        }
        memset(own, 0, (size_t)count * sizeof *own);
        GX_TRY(leaf_diagonal(run, leaf, reader, i0 + first - leaf->i0, j0 + first - leaf->j0,
                             end - first, own, err));
        for (int64_t k = first; k < end; k++) {
            gx_scalar value = own[k - first];
            value.im = leaf->is_conjugated ? -value.im : value.im;
            x[k] = gx_scalar_plus(x[k], gx_scalar_times(value, leaf->factor));
        }
    }
    return GX_OK;
}

static gx_code read_diagonals_of(gx_run *run, const gx_mat *mat, gx_reader *reader, int64_t i0,
                                 int64_t j0, int64_t m, int64_t n, gx_number dtype, void *dst,
                                 int64_t ld, gx_err *err)
{
    gx_scalar *x;
    gx_code code = GX_OK;
    (void)j0, (void)ld;
    GX_TRY(gx_mem_calloc(NULL, (size_t)(2 * m) * sizeof *x, "a diagonal", &x, err));
    if (n > 0) {
        code = sum_diagonal(run, mat, reader, mat->row0 + i0, mat->col0 + i0, m, x + m, x, err);
    }
    for (int64_t k = 0; k < m && n > 0 && code == GX_OK; k++) {
        gx_number_put(dtype, dst, k, x[k]);
    }
    gx_mem_free(NULL, x);
    return code;
}

void gx_composite_diagonal(const gx_mat *mat, int64_t i0, int64_t j0, int64_t count, gx_mat *out)
{
    gx_mat_generated(out, mat->label, mat->number, count, 1, NULL, NULL);
    out->kind = GX_MAT_COMPOSITE;
    out->read = read_diagonals_of;
    out->is_whole = true;
    out->row0 = i0;
    out->col0 = j0;
    out->leaf = mat->leaf;
    out->leaves = mat->leaves;
}
