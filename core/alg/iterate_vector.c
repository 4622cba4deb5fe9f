/*
** Vectors of iterative methods: see iterate_int.h.
**
** Vectors are cut into pieces of fixed length, which the team shares: each piece's part of a sum is
** one number, and these are added in order by the caller.
*/
#include "iterate_int.h"

#include "../run/call.h"

#include <math.h>
#include <string.h>

typedef struct vector_job {
    int64_t n;
    const double *x, *y, *z;
    double a, b, c;
    double *out;
} vector_job;

static int64_t piece_end(int64_t n, int64_t piece)
{
    return gx_min(n, (piece + 1) * GX_VECTOR_PIECE);
}

/* Four sums, so that additions need not wait for each other. */
static gx_code dot_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const vector_job *job = arg;
    const double *x = job->x, *y = job->y;
    int64_t i = piece * GX_VECTOR_PIECE, end = piece_end(job->n, piece);
    double sum[4] = {0, 0, 0, 0};
    (void)member;
    (void)err;
    for (; i + 4 <= end; i += 4) {
        for (int k = 0; k < 4; k++) {
            sum[k] += x[i + k] * y[i + k];
        }
    }
    for (; i < end; i++) {
        sum[0] += x[i] * y[i];
    }
    job->out[piece] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    return GX_OK;
}

double gx_vector_dot(const gx_iterate *it, int64_t n, const double *x, const double *y)
{
    vector_job job = {.n = n, .x = x, .y = y, .out = it->part};
    double sum = 0;
    if (gx_run_pieces(it->run, (double)n, gx_vector_pieces(n), dot_piece, &job) == GX_OK) {
        for (int64_t p = 0; p < gx_vector_pieces(n); p++) {
            sum += it->part[p];
        }
    }
    return sum;
}

double gx_vector_norm(const gx_iterate *it, int64_t n, const double *x)
{
    return sqrt(gx_vector_dot(it, n, x, x));
}

static gx_code sum_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const vector_job *job = arg;
    const double *x = job->x, *y = job->y, *z = job->z;
    int64_t i = piece * GX_VECTOR_PIECE, end = piece_end(job->n, piece);
    double a = job->a, b = job->b, c = job->c, *out = job->out;
    (void)member;
    (void)err;
    if (y == NULL) {
        for (; i < end; i++) {
            out[i] = a * x[i];
        }
    } else if (z == NULL) {
        for (; i < end; i++) {
            out[i] = a * x[i] + b * y[i];
        }
    } else {
        for (; i < end; i++) {
            out[i] = a * x[i] + b * y[i] + c * z[i];
        }
    }
    return GX_OK;
}

void gx_vector_sum(const gx_iterate *it, int64_t n, double *out, double a, const double *x,
                   double b, const double *y, double c, const double *z)
{
    vector_job job = {.n = n, .x = x, .y = y, .z = z, .a = a, .b = b, .c = c, .out = out};
    gx_run_pieces(it->run, (double)n, gx_vector_pieces(n), sum_piece, &job);
}

static gx_code product_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const vector_job *job = arg;
    (void)member;
    (void)err;
    for (int64_t i = piece * GX_VECTOR_PIECE; i < piece_end(job->n, piece); i++) {
        job->out[i] = job->x[i] * job->y[i];
    }
    return GX_OK;
}

void gx_iterate_precondition(const gx_iterate *it, const double *r, double *z)
{
    int64_t n = it->A->cols;
    vector_job job = {.n = n, .x = r, .y = it->M.inverse, .out = z};
    if (!gx_ok(it->run)) {
        return;
    }
    switch (it->M.kind) {
    case GX_PRECOND_JACOBI:
        gx_run_pieces(it->run, (double)n, gx_vector_pieces(n), product_piece, &job);
        break;
    case GX_PRECOND_ILU0:
    case GX_PRECOND_IC0:
        gx_precond_apply(&it->M, r, z);
        gx_run_poll(it->run);
        break;
    case GX_PRECOND_AUTO:
    case GX_PRECOND_NONE:
        memcpy(z, r, (size_t)n * sizeof *z);
        break;
    }
}
