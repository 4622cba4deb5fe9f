/*
** Eigenvalues, singular values, functions of matrices, covariances: see lower.h.
**
** Shapes and dtypes are known before elements are: eig() of a real matrix is complex whatever its
** values, eigh() takes its operand as Hermitian, and a function of a real matrix is real or fails.
*/
#include "../spectra/alg_eig.h"
#include "../spectra/alg_pca.h"
#include "../spectra/decomp.h"
#include "../spectra/equation.h"
#include "../spectra/funm.h"
#include "lower.h"
#include "values.h"

/* rows x cols elements of dtype `from` as result k. */
static void put(gx_exec *x, const gx_node *node, int k, gx_number from, const void *data)
{
    const gx_type *t = gx_result_type(node, k);
    void *c = gx_wants(x, node, k) ? gx_result(x, node, k) : NULL;
    int64_t ld = gx_max(1, t->rows);
    if (c != NULL) {
        gx_convert(from, data, ld, t->dtype, c, ld, t->rows, t->cols);
    }
}

void gx_lower_eig(gx_exec *x, const gx_node *node)
{
    gx_mat a;
    gx_op_id id = node->op->id;
    bool is_hermitian = id == GX_OP_EIGH || id == GX_OP_EIGVALSH;
    bool has_vectors = id == GX_OP_EIGH || id == GX_OP_EIG;
    gx_eig_result found = {.mem = x->run->ctx->mem};
    gx_eig_args args = {.A = gx_input_mat(x, node, 0, &a),
                        .is_hermitian = is_hermitian,
                        .is_general = !is_hermitian,
                        .wants_right = has_vectors && gx_wants(x, node, 1)};
    if (gx_alg_eig(x->run, &args, &found) == GX_OK) {
        put(x, node, 0, GX_C128, found.values);
        if (args.wants_right) {
            put(x, node, 1, found.dtype, found.right);
        }
    }
    found.mem = x->run->ctx->mem;
    gx_eig_clear(&found);
}

void gx_lower_svd(gx_exec *x, const gx_node *node)
{
    gx_mat a;
    bool is_values = node->op->id == GX_OP_SVDVALS;
    bool has_vectors = !is_values && (gx_wants(x, node, 0) || gx_wants(x, node, 2));
    gx_svd_result found = {.mem = x->run->ctx->mem};
    gx_svd_args args = {.A = gx_input_mat(x, node, 0, &a),
                        .mode = has_vectors ? GX_SVD_ECONOMY : GX_SVD_VALUES};
    if (gx_alg_svd(x->run, &args, &found) == GX_OK) {
        put(x, node, is_values ? 0 : 1, GX_F64, found.sigma);
        if (has_vectors) {
            put(x, node, 0, found.dtype, found.u);
            put(x, node, 2, found.dtype, found.vt);
        }
    }
    found.mem = x->run->ctx->mem;
    gx_svd_clear(&found);
}

void gx_lower_decomp(gx_exec *x, const gx_node *node)
{
    gx_mat a, b;
    gx_op_id id = node->op->id;
    gx_decomp found = {.mem = NULL};
    gx_decomp_args args = {.A = gx_input_mat(x, node, 0, &a),
                           .B = id == GX_OP_QZ ? gx_input_mat(x, node, 1, &b) : NULL,
                           .kind = id == GX_OP_SCHUR        ? GX_DECOMP_SCHUR
                                   : id == GX_OP_HESSENBERG ? GX_DECOMP_HESSENBERG
                                   : id == GX_OP_POLAR      ? GX_DECOMP_POLAR
                                   : id == GX_OP_QZ         ? GX_DECOMP_QZ
                                   : id == GX_OP_BALANCE    ? GX_DECOMP_BALANCE
                                   : id == GX_OP_COSSIN     ? GX_DECOMP_COSSIN
                                                            : GX_DECOMP_LDL,
                           .number = node->type.dtype,
                           .rows = node->whole[0],
                           .cols = node->whole[1]};
    gx_alg_decompose(x->run, &args, &found);
    for (int k = 0; k < node->op->results && gx_ok(x->run); k++) {
        put(x, node, k, found.part[k].number, found.part[k].data);
    }
    gx_decomp_clear(&found);
}

void gx_lower_equation(gx_exec *x, const gx_node *node)
{
    gx_mat mat[GX_EQUATION_MATS];
    gx_solution X = {.data = NULL};
    gx_equation_args args = {
        .equation = (gx_equation)((int)node->op->id - (int)GX_OP_SYLVESTER + (int)GX_SYLVESTER)};
    for (int k = 0; gx_equation_letters[args.equation][k] != 0; k++) {
        args.mat[k] = gx_input_mat(x, node, k, &mat[k]);
    }
    if (gx_alg_equation(x->run, &args, &X) == GX_OK) {
        put(x, node, 0, X.number, X.data);
    }
    gx_mem_free(x->run->ctx->mem, X.data);
}

void gx_lower_funm(gx_exec *x, const gx_node *node)
{
    gx_mat a;
    gx_op_id id = node->op->id;
    gx_funm_result found = {.data = NULL};
    gx_funm_args args = {.A = gx_input_mat(x, node, 0, &a),
                         .function = id == GX_OP_EXPM    ? GX_FUNM_EXP
                                     : id == GX_OP_LOGM  ? GX_FUNM_LOG
                                     : id == GX_OP_SQRTM ? GX_FUNM_SQRT
                                     : id == GX_OP_SIGNM ? GX_FUNM_SIGN
                                                         : GX_FUNM_POWER,
                         .power = node->alpha.re};
    if (gx_alg_funm(x->run, &args, &found) == GX_OK) {
        if (gx_number_is_complex(found.dtype) && !gx_number_is_complex(node->type.dtype)) {
            gx_run_failf(x->run, GX_NUMERIC, "%s of this real matrix is complex: write %s(A + 0i)",
                         node->op->name, node->op->name);
        } else {
            put(x, node, 0, found.dtype, found.data);
        }
    }
    gx_mem_free(x->run->ctx->mem, found.data);
}

void gx_lower_cov(gx_exec *x, const gx_node *node)
{
    gx_mat a;
    gx_sink *C = gx_result_sink(x, node, 0, 0, 0, 0);
    if (C != NULL) {
        gx_alg_cov(x->run,
                   &(gx_cov_args){.A = gx_input_mat(x, node, 0, &a),
                                  .ddof = node->whole[0],
                                  .is_correlation = node->op->id == GX_OP_CORR},
                   C);
    }
}
