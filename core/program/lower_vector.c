/*
** What is made of vectors: see lower.h.
*/
#include "../base/best.h"
#include "../base/convert.h"
#include "../base/special.h"
#include "../run/call.h"
#include "lines.h"
#include "lower.h"
#include "order.h"
#include "values.h"

#include <math.h>
#include <string.h>

/* A complex product. */
static void multiply(const double *a, const double *b, double *c)
{
    double re = a[0] * b[0] - a[1] * b[1];
    c[1] = a[0] * b[1] + a[1] * b[0];
    c[0] = re;
}

/* The cross product of vectors of 3 complex numbers. */
static void cross(const double *a, const double *b, double *c)
{
    for (int k = 0; k < 3; k++) {
        int u = (k + 1) % 3, v = (k + 2) % 3;
        double second[2];
        multiply(a + 2 * u, b + 2 * v, c + 2 * k);
        multiply(a + 2 * v, b + 2 * u, second);
        c[2 * k] -= second[0];
        c[2 * k + 1] -= second[1];
    }
}

/* power *= x, element by element. */
static void next_power(double *power, const double *x, int64_t count, bool is_complex)
{
    for (int64_t i = 0; i < count; i++) {
        if (is_complex) {
            multiply(power + 2 * i, x + 2 * i, power + 2 * i);
        } else {
            power[i] *= x[i];
        }
    }
}

/* Falling powers: from the last column, which is 1, to the first. */
static void form_vander(gx_exec *x, const gx_type *t, const double *a, double *power, void *c)
{
    gx_number wide = gx_number_wide(t->dtype);
    int64_t ld = gx_max(1, t->rows);
    for (int64_t i = 0; i < t->rows; i++) {
        gx_number_put(wide, power, i, GX_ONE);
    }
    for (int64_t j = t->cols - 1; j >= 0 && gx_run_poll(x->run) == GX_OK; j--) {
        gx_convert(wide, power, ld, t->dtype, gx_at(c, t->dtype, ld, 0, j), ld, t->rows, 1);
        next_power(power, a, t->rows, wide == GX_C128);
    }
}

/* Each column is a piece of one line: the first row from its end to its second, the column. */
static void form_toeplitz(gx_exec *x, const gx_type *t, const void *column, const void *row,
                          void *line, void *c)
{
    int64_t ld = gx_max(1, t->rows);
    size_t element = gx_number_bytes(t->dtype);
    for (int64_t j = 1; j < t->cols; j++) {
        memcpy(gx_at(line, t->dtype, 1, t->cols - 1 - j, 0), gx_at(row, t->dtype, 1, j, 0),
               element);
    }
    memcpy(gx_at(line, t->dtype, 1, t->cols - 1, 0), column, (size_t)t->rows * element);
    for (int64_t j = 0; j < t->cols && gx_run_poll(x->run) == GX_OK; j++) {
        memcpy(gx_at(c, t->dtype, ld, 0, j), gx_at(line, t->dtype, 1, t->cols - 1 - j, 0),
               (size_t)t->rows * element);
    }
}

void gx_lower_formed(gx_exec *x, const gx_node *node)
{
    const gx_type *t = &node->type;
    gx_op_id id = node->op->id;
    gx_number dtype = id == GX_OP_TOEPLITZ ? t->dtype
                      : id == GX_OP_VANDER ? gx_number_wide(t->dtype)
                                           : GX_C128;
    const void *a = gx_input_data(x, node, 0, dtype);
    const void *b = gx_input_data(x, node, node->count - 1, dtype);
    void *c = gx_result(x, node, 0);
    int64_t length = gx_max(3, t->rows) + (id == GX_OP_TOEPLITZ ? t->cols : 0);
    void *line = gx_temp(x, (size_t)length * sizeof(gx_scalar));
    if (t->rows == 0 || t->cols == 0 || a == NULL || b == NULL || c == NULL || line == NULL) {
        return;
    }
    if (id == GX_OP_TOEPLITZ) {
        form_toeplitz(x, t, a, b, line, c);
    } else if (id == GX_OP_VANDER) {
        form_vander(x, t, a, line, c);
    } else {
        cross(a, b, line);
        gx_convert(GX_C128, line, t->rows * t->cols, t->dtype, c, t->rows * t->cols,
                   t->rows * t->cols, 1);
    }
}

/* The order of all elements, descending, into order; NaN first. */
static void descending(gx_run *run, const double *line, int64_t length, double *order, void *work)
{
    for (int64_t k = 0; k < length; k++) {
        order[k] = -line[k];
    }
    gx_line_along(run, GX_OP_ARGSORT, order, length, false, work);
}

/* Is one of the next elements more than the worst of the best?  One that equals it is not. */
static inline bool has_better(const double *line, int64_t count, double worst)
{
    bool has = isnan(worst);
    for (int64_t i = 0; i < count; i++) {
        has |= line[i] > worst;
    }
    return has;
}

/* The k best elements' places, into order, by a heap in `work`; false: fewer are numbers. */
static bool find_best(gx_run *run, const double *line, int64_t length, int64_t k, double *order,
                      void *work)
{
    const int64_t POLL = 1 << 16, STEP = 32;
    double *value = work;
    int64_t *index = (int64_t *)(void *)(value + k);
    gx_best_begin(value, index, k, false);
    for (int64_t first = 0; first < length; first += STEP) {
        int64_t end = gx_min(first + STEP, length);
        bool looks = has_better(line + first, end - first, value[0]);
        for (int64_t i = first; i < end && looks; i++) {
            if (gx_best_is_worse(value[0], index[0], line[i], i)) {
                gx_best_sift(value, index, k, line[i], i);
            }
        }
        if (first % POLL == 0 && gx_run_poll(run) != GX_OK) {
            return false;
        }
    }
    if (index[0] == INT64_MAX) {
        return false;
    }
    gx_best_sort(value, index, k);
    for (int64_t i = 0; i < k; i++) {
        order[i] = (double)index[i];
    }
    return true;
}

/* How many different elements: sets of a member each, which are joined. */
typedef struct few_job {
    const void *a;
    gx_number dtype;
    int64_t count;
    double *line;
    gx_few *set;
    bool are_many;
} few_job;

enum { FEW_PIECE = 1 << 14 };

static gx_code few_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    few_job *job = arg;
    int64_t first = piece * FEW_PIECE, n = gx_min(FEW_PIECE, job->count - first);
    double *line = job->line + (int64_t)member * FEW_PIECE;
    (void)err;
    if (__atomic_load_n(&job->are_many, __ATOMIC_RELAXED)) {
        return GX_OK;
    }
    gx_convert(job->dtype, gx_at(job->a, job->dtype, 1, first, 0), n, GX_F64, line, n, n, 1);
    if (!gx_few_add(&job->set[member], line, n)) {
        __atomic_store_n(&job->are_many, true, __ATOMIC_RELAXED);
    }
    return GX_OK;
}

/* false: there are more, or no room for sets; or the run has failed. */
static bool count_few(gx_exec *x, const gx_node *node, const gx_type *from, const void *a)
{
    const double ELEMENTS = 4; // what one costs, as elements that are read
    few_job job = {.a = a, .dtype = from->dtype, .count = from->rows * from->cols};
    double work = (double)job.count * ELEMENTS;
    int members = gx_run_members(x->run, work);
    size_t each = GX_FEW_SLOTS * sizeof(uint64_t) + FEW_PIECE * sizeof(double) + sizeof(gx_few);
    if (job.count < FEW_PIECE || (size_t)members * each > gx_mem_available(x->run->ctx->mem) / 4) {
        return false;
    }
    job.line = gx_temp(x, (size_t)members * FEW_PIECE * sizeof(double));
    job.set = gx_temp(x, (size_t)members * sizeof(gx_few));
    uint64_t *slot = gx_temp(x, (size_t)members * GX_FEW_SLOTS * sizeof *slot);
    if (job.line == NULL || job.set == NULL || slot == NULL) {
        return false;
    }
    memset(slot, 0, (size_t)members * GX_FEW_SLOTS * sizeof *slot);
    for (int m = 0; m < members; m++) {
        job.set[m] = (gx_few){.slot = slot + (int64_t)m * GX_FEW_SLOTS};
    }
    gx_run_pieces(x->run, work, gx_ceil_div(job.count, FEW_PIECE), few_piece, &job);
    bool are_few = gx_ok(x->run) && !job.are_many;
    for (int m = 1; m < members && are_few; m++) {
        are_few = gx_few_join(job.set, &job.set[m]);
    }
    if (are_few) {
        gx_result_number(x, node, (gx_scalar){(double)job.set->count, 0});
    }
    return are_few;
}

void gx_lower_topk(gx_exec *x, const gx_node *node)
{
    gx_type from = gx_input_node(x->g, node, 0)->type;
    gx_lines lines = gx_lines_of(&from, -1);
    const void *a = gx_input_data(x, node, 0, from.dtype);
    bool is_count = node->op->id == GX_OP_UNIQUE_COUNT;
    if (a == NULL || (is_count && count_few(x, node, &from, a)) || !gx_ok(x->run)) {
        return;
    }
    bool is_line = from.dtype == GX_F64 && gx_min(from.rows, from.cols) == 1; // as it lies
    double *own = is_line ? NULL : gx_temp(x, gx_lines_bytes(&lines, 1));
    const double *line = is_line ? a : own;
    double *order = is_count ? NULL : gx_temp(x, gx_lines_bytes(&lines, 1));
    void *work =
        gx_temp(x, is_count ? gx_order_distinct_bytes(lines.length) : gx_order_bytes(lines.length));
    if (line == NULL || (order == NULL && !is_count) || work == NULL) {
        return;
    }
    if (own != NULL) {
        gx_lines_gather_whole(x->run, &from, a, own);
    }
    if (is_count) {
        int64_t count = gx_order_distinct(x->run, line, lines.length, work);
        gx_result_number(x, node, (gx_scalar){(double)count, 0});
        return;
    }
    const int64_t FEW = 64; // of the elements: a heap of them is quicker than sorting all
    int64_t few = node->type.rows;
    if (few < 1 || few > lines.length / FEW ||
        !find_best(x->run, line, lines.length, few, order, work)) {
        descending(x->run, line, lines.length, order, work);
    }
    void *values = gx_wants(x, node, 0) ? gx_result(x, node, 0) : NULL;
    void *places = gx_wants(x, node, 1) ? gx_result(x, node, 1) : NULL;
    for (int64_t k = 0; k < node->type.rows && gx_ok(x->run); k++) {
        if (values != NULL) {
            gx_number_put(node->type.dtype, values, k, (gx_scalar){line[(int64_t)order[k]], 0});
        }
        if (places != NULL) {
            memcpy(gx_at(places, GX_F64, 1, k, 0), &order[k], sizeof order[k]);
        }
    }
}

typedef struct log_gammas {
    const double *a;
    void *c;
    gx_number dtype;
    int64_t count;
} log_gammas;

enum { GAMMAS = 1 << 12 /* of a piece */ };

static gx_code log_gamma_piece(void *arg, int64_t piece, int member, gx_err *err)
{
    const log_gammas *job = arg;
    int64_t end = gx_min(job->count, (piece + 1) * GAMMAS);
    (void)member, (void)err;
    for (int64_t i = piece * GAMMAS; i < end; i++) {
        double z[2] = {job->a[2 * i], job->a[2 * i + 1]};
        gx_log_gamma(z);
        gx_number_put(job->dtype, job->c, i, (gx_scalar){z[0], z[1]});
    }
    return GX_OK;
}

void gx_lower_loggamma(gx_exec *x, const gx_node *node)
{
    const double ELEMENTS = 64; // what one costs, as elements that are read
    const gx_type *t = &node->type;
    log_gammas job = {
        .a = gx_input_data(x, node, 0, GX_C128), .dtype = t->dtype, .count = t->rows * t->cols};
    job.c = gx_result(x, node, 0);
    if (job.a != NULL && job.c != NULL) {
        gx_run_pieces(x->run, (double)job.count * ELEMENTS, gx_ceil_div(job.count, GAMMAS),
                      log_gamma_piece, &job);
    }
}
