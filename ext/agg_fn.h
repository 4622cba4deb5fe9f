/*
** Aggregates whose result is a value: gx_lm(y, x1, x2), gx_t_test(x, g).
**
** Such an aggregate gives a gx_agg_fn: its name and counts of arguments, and a few callbacks on the
** state of one group.  Its line in GX_AGG_FNS registers it, and agg_fn.c does the rest: the
** options are taken off the first row (which alone they are read from), the rows are counted, a
** failure is reported once with the number of the row, and the state is freed, also when the
** statement fails half-way.  A row is one call: callbacks allocate nothing for a row that
** gx_mem_alloc() does not count.
*/
#ifndef GX_AGG_FN_H
#define GX_AGG_FN_H

#include "gx_ext.h"

typedef struct gx_agg_fn {
    gx_function def;       /* name, min_args, max_args (the options included, -1: any), facts   */
    const gx_option *keys; /* NULL: no options                                                   */
    size_t options_bytes;  /* of the struct that the keys are of: at most GX_AGG_OPTIONS_BYTES   */
    size_t state_bytes;    /* of the state of a group, zeroed before start                       */

    /*
    ** Before the first row: argc arguments without the options; options zeroed where there are none
    ** but for what `defaults` (NULL: nothing) put there.  A text among the options lives as long as
    ** this call.  clear is called also after a start that failed.
    */
    void (*defaults)(void *options);
    gx_code (*start)(gx_ctx *ctx, void *state, int argc, const void *options, gx_err *err);
    gx_code (*add)(gx_ctx *ctx, void *state, sqlite3_value **argv, gx_err *err);

    /* With OVER: a row leaves the window.  NULL: it is no window function. */
    gx_code (*drop)(gx_ctx *ctx, void *state, sqlite3_value **argv, gx_err *err);

    /*
    ** Put the result; the state stays as it is.  state NULL: there was no row, which is the result
    ** NULL where `finish` puts nothing.
    */
    gx_code (*finish)(gx_ctx *ctx, void *state, sqlite3_context *sql, gx_err *err);
    void (*clear)(gx_ctx *ctx, void *state); /* NULL: nothing is to be freed */
} gx_agg_fn;

enum { GX_AGG_OPTIONS_BYTES = 512 };

/* All of them: gx_agg_NAME stands in the file named beside it. */
#define GX_AGG_FNS(AGG)                                                                            \
    AGG(t_test) /* fn_tests.c */                                                                   \
    AGG(anova)                                                                                     \
    AGG(levene)                                                                                    \
    AGG(jarque_bera)                                                                               \
    AGG(shapiro)                                                                                   \
    AGG(chi2_test)                                                                                 \
    AGG(chi2_gof)                                                                                  \
    AGG(corr_test)                                                                                 \
    AGG(mann_whitney)                                                                              \
    AGG(wilcoxon)                                                                                  \
    AGG(kruskal)                                                                                   \
    AGG(ks_test)                                                                                   \
    AGG(lm) /* fn_lm.c */                                                                          \
    AGG(glm)                                                                                       \
    AGG(lda)                                                                                       \
    AGG(vec_sum) /* agg_vec.c */                                                                   \
    AGG(vec_mean)

#define GX_AGG_DECLARE(name) extern const gx_agg_fn gx_agg_##name;
GX_AGG_FNS(GX_AGG_DECLARE)
#undef GX_AGG_DECLARE

/* A number of a row: false where it is NULL; what is no number, or infinite, fails in words. */
gx_code gx_agg_real(sqlite3_value *value, const char *label, double *number, bool *is_there,
                    gx_err *err);

#endif
