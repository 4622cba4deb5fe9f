/*
** Products with a few columns, on both sides of a block, of the CPU backend: GX_PAIR.
**
**   c += a b  and  c2 += a^H b2,  a is m x n and read once, k columns beside it
**
** A general matrix product packs its operands into buffers first, which costs as much as the
** product itself where k is 1 .. 16.  Here a is used where it lies: rows go in panels, columns of a
** in groups of `wide` (some KiB: the first-level cache), columns of b in groups of `deep`; a group
** is multiplied in registers, for c2 as inner products and at once, out of the cache, for c as
** updates.
**
** A complex column a_j counts as two real ones, a_j and i a_j, whose coefficients are the real and
** imaginary parts of b; the real inner products of both with a column of b2 are the real and the
** imaginary part of a_j^H b2.  So there is one loop.
**
** Every element of c adds its n terms in ascending order.  An element of c2 adds, for each panel,
** LANES running sums that are then added as a tree.  Bits depend on m, n and the processor, neither
** on k nor on leading dimensions.  Multiplications and additions are fused where the processor has
** that (Makefile), in 512 bits where it has those, else in 256.
**
** Goto & van de Geijn 2008 for what packing is good for; Van Zee, van de Geijn & Quintana-Orti 2014
** (restructured QR) for fused pairs that read a matrix once.
*/
#include "cpu.h"
#include "cpu_element.h"

#include <string.h>

/* Bytes of a column in a panel: with DEEP columns of b2 and c and a group of a, 24-40 KiB. */
enum { PANEL_BYTES = 4096 };

/* Most columns in a group. */
enum { GROUP = 4 };

/* i times a vector of pairs: exchanged, and the first of each with the other sign. */
#define TURNED_half_f64 1, 0, 3, 2
#define TURNED_f64 1, 0, 3, 2, 5, 4, 7, 6
#define TURNED_half_f32 TURNED_f64
#define TURNED_f32 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14
#define SIGNS_half_f64 -1, 1, -1, 1
#define SIGNS_f64 -1, 1, -1, 1, -1, 1, -1, 1
#define SIGNS_half_f32 SIGNS_f64
#define SIGNS_f32 -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1
#ifdef __clang__
#define TURN_BY(v, ...) __builtin_shufflevector(v, v, __VA_ARGS__)
#define TURN(name, v) TURN_BY(v, TURNED_##name)
#else
#define TURN(name, v) __builtin_shuffle(v, (bits_##name){TURNED_##name})
#endif

/* One group: `wide` columns of a (parts), `deep` columns of the others, `rows` parts of a panel. */
typedef struct group {
    int64_t rows;
    const void *a; /* complex: every second column is i times the one before */
    int64_t lda;
    const void *b; /* wide x deep                */
    int64_t ldb;
    void *c; /* rows x deep                */
    int64_t ldc;
    const void *b2; /* rows x deep                */
    int64_t ldb2;
    void *c2; /* wide x deep                */
    int64_t ldc2;
} group;

/*
** For one real type: turn() is i times a vector of pairs; load() and store() of `count` lanes, with
** zeros behind them; inner() and update() of one group.
*/
#define DEFINE_GROUPS(real, name)                                                                  \
    enum { LANES_##name = sizeof(vec_##name) / sizeof(real) };                                     \
                                                                                                   \
    GX_INLINE void load_##name(const real *x, int64_t count, vec_##name *v)                        \
    {                                                                                              \
        if (count >= LANES_##name) {                                                               \
            *v = *(const vec_##name *)x;                                                           \
        } else {                                                                                   \
            *v = (vec_##name){0};                                                                  \
            memcpy(v, x, (size_t)count * sizeof *x);                                               \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    GX_INLINE void load_group_##name(const group *g, bool is_complex, int wide, int64_t i,         \
                                     int64_t count, vec_##name *v)                                 \
    {                                                                                              \
        const vec_##name signs = {SIGNS_##name};                                                   \
        for (int t = 0; t < wide; t++) {                                                           \
            if (is_complex && t % 2 == 1) {                                                        \
                v[t] = TURN(name, v[t - 1]) * signs;                                               \
            } else {                                                                               \
                int64_t j = is_complex ? t / 2 : t;                                                \
                load_##name((const real *)g->a + j * g->lda + i, count, &v[t]);                    \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    GX_INLINE void inner_step_##name(const group *g, bool is_complex, int wide, int deep,          \
                                     int64_t i, int64_t count, vec_##name acc[GROUP][GROUP])       \
    {                                                                                              \
        vec_##name v[GROUP], z;                                                                    \
        load_group_##name(g, is_complex, wide, i, count, v);                                       \
        for (int c = 0; c < deep; c++) {                                                           \
            load_##name((const real *)g->b2 + c * g->ldb2 + i, count, &z);                         \
            for (int t = 0; t < wide; t++) {                                                       \
                acc[t][c] += v[t] * z;                                                             \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    GX_INLINE void inner_##name(const group *g, bool is_complex, int wide, int deep)               \
    {                                                                                              \
        vec_##name acc[GROUP][GROUP] = {{{0}}};                                                    \
        int64_t i = 0;                                                                             \
        for (; i + LANES_##name <= g->rows; i += LANES_##name) {                                   \
            inner_step_##name(g, is_complex, wide, deep, i, LANES_##name, acc);                    \
        }                                                                                          \
        if (i < g->rows) {                                                                         \
            inner_step_##name(g, is_complex, wide, deep, i, g->rows - i, acc);                     \
        }                                                                                          \
        for (int t = 0; t < wide; t++) {                                                           \
            for (int c = 0; c < deep; c++) {                                                       \
                real lane[LANES_##name];                                                           \
                memcpy(lane, &acc[t][c], sizeof lane);                                             \
                for (int half = LANES_##name / 2; half > 0; half /= 2) {                           \
                    for (int l = 0; l < half; l++) {                                               \
                        lane[l] += lane[l + half];                                                 \
                    }                                                                              \
                }                                                                                  \
                ((real *)g->c2)[c * g->ldc2 + t] += lane[0];                                       \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    GX_INLINE void update_step_##name(const group *g, bool is_complex, int wide, int deep,         \
                                      int64_t i, int64_t count, vec_##name x[GROUP][GROUP])        \
    {                                                                                              \
        vec_##name v[GROUP], w;                                                                    \
        load_group_##name(g, is_complex, wide, i, count, v);                                       \
        for (int c = 0; c < deep; c++) {                                                           \
            real *at = (real *)g->c + c * g->ldc + i;                                              \
            load_##name(at, count, &w);                                                            \
            for (int t = 0; t < wide; t++) {                                                       \
                w += v[t] * x[t][c];                                                               \
            }                                                                                      \
            if (count >= LANES_##name) {                                                           \
                *(vec_##name *)at = w;                                                             \
            } else {                                                                               \
                memcpy(at, &w, (size_t)count * sizeof *at);                                        \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    GX_INLINE void update_##name(const group *g, bool is_complex, int wide, int deep)              \
    {                                                                                              \
        vec_##name x[GROUP][GROUP] = {{{0}}};                                                      \
        for (int t = 0; t < wide; t++) {                                                           \
            for (int c = 0; c < deep; c++) {                                                       \
                real one = ((const real *)g->b)[c * g->ldb + t];                                   \
                x[t][c] += one;                                                                    \
            }                                                                                      \
        }                                                                                          \
        int64_t i = 0;                                                                             \
        for (; i + LANES_##name <= g->rows; i += LANES_##name) {                                   \
            update_step_##name(g, is_complex, wide, deep, i, LANES_##name, x);                     \
        }                                                                                          \
        if (i < g->rows) {                                                                         \
            update_step_##name(g, is_complex, wide, deep, i, g->rows - i, x);                      \
        }                                                                                          \
    }

#define DEFINE_MULTIPLY(real, name)                                                                \
    DEFINE_GROUPS(real, name)                                                                      \
    GX_INLINE void multiply_##name(const group *g, bool is_complex, int wide, int deep)            \
    {                                                                                              \
        if (g->b2 != NULL) {                                                                       \
            inner_##name(g, is_complex, wide, deep);                                               \
        }                                                                                          \
        if (g->b != NULL) {                                                                        \
            update_##name(g, is_complex, wide, deep);                                              \
        }                                                                                          \
    }

DEFINE_MULTIPLY(double, f64)
DEFINE_MULTIPLY(float, f32)
DEFINE_MULTIPLY(double, half_f64)
DEFINE_MULTIPLY(float, half_f32)

/* A form of the loop: columns of a and of b in a group, in vectors of half the length or not. */
typedef struct form {
    int wide, deep;
    bool is_half;
} form;

GX_INLINE void multiply_group(gx_number dtype, form f, const group *g, int wide, int deep)
{
    bool is_complex = gx_number_is_complex(dtype), is_double = gx_number_is_double(dtype);
    if (f.is_half && is_double) {
        multiply_half_f64(g, is_complex, wide, deep);
    } else if (f.is_half) {
        multiply_half_f32(g, is_complex, wide, deep);
    } else if (is_double) {
        multiply_f64(g, is_complex, wide, deep);
    } else {
        multiply_f32(g, is_complex, wide, deep);
    }
}

/* Columns of b from c0 on, `deep` of them, against all of a's columns, in one panel. */
GX_INLINE void multiply_columns(gx_number dtype, const gx_args *p, int64_t i0, int64_t rows,
                                int64_t c0, form f, int deep)
{
    int64_t parts = gx_number_is_complex(dtype) ? 2 : 1, lines = parts * p->n;
    size_t part = gx_number_is_double(dtype) ? 8 : 4;
    for (int64_t t = 0; t < lines;) {
        bool is_whole = t + f.wide <= lines;
        const char *a = (const char *)p->a + (size_t)(t / parts * p->lda * parts + i0) * part;
        group g = {.rows = rows, .a = a, .lda = parts * p->lda};
        if (p->b != NULL) {
            g.ldb = parts * p->ldb;
            g.ldc = parts * p->ldc;
            g.b = (const char *)p->b + (size_t)(c0 * g.ldb + t) * part;
            g.c = (char *)p->c + (size_t)(c0 * g.ldc + i0) * part;
        }
        if (p->b2 != NULL) {
            g.ldb2 = parts * p->ldb2;
            g.ldc2 = parts * p->ldc2;
            g.b2 = (const char *)p->b2 + (size_t)(c0 * g.ldb2 + i0) * part;
            g.c2 = (char *)p->c2 + (size_t)(c0 * g.ldc2 + t) * part;
        }
        if (is_whole) {
            multiply_group(dtype, f, &g, f.wide, deep);
            t += f.wide;
        } else {
            multiply_group(dtype, f, &g, (int)parts, deep);
            t += parts;
        }
    }
}

GX_INLINE gx_code pair(gx_number dtype, const gx_args *p, form f)
{
    int64_t parts = gx_number_is_complex(dtype) ? 2 : 1;
    int64_t panel = PANEL_BYTES / (gx_number_is_double(dtype) ? 8 : 4);
    for (int64_t i = 0; i < parts * p->m; i += panel) {
        int64_t rows = gx_min(panel, parts * p->m - i), c = 0;
        for (; c + f.deep <= p->k; c += f.deep) {
            multiply_columns(dtype, p, i, rows, c, f, f.deep);
        }
        for (; c + 2 <= p->k; c += 2) {
            multiply_columns(dtype, p, i, rows, c, f, 2);
        }
        for (; c < p->k; c++) {
            multiply_columns(dtype, p, i, rows, c, f, 1);
        }
    }
    return GX_OK;
}

/* The groups that the registers of a processor hold beside a's: 16 of 512 bits, 12 or 8 of 256. */
GX_LOOP(pair_wide)
{
    return pair(dtype, p, (form){4, 4, false});
}

GX_LOOP(pair_half)
{
    return pair(dtype, p, (form){4, 3, true});
}

GX_LOOP(pair_base)
{
    return pair(dtype, p, (form){2, 2, true});
}
GX_WIDTHS_SLOT(gx_cpu_pair, f64, GX_F64, pair_wide, pair_half, pair_base)
GX_WIDTHS_SLOT(gx_cpu_pair, f32, GX_F32, pair_wide, pair_half, pair_base)
GX_WIDTHS_SLOT(gx_cpu_pair, c128, GX_C128, pair_wide, pair_half, pair_base)
GX_WIDTHS_SLOT(gx_cpu_pair, c64, GX_C64, pair_wide, pair_half, pair_base)
