/*
** What was predicted and what happened: see ledger.h.
**
** The model's rates are measured on a quiet machine, in the best case; a call shares it with
** others, waits for a disk, runs kernels of shapes that were not measured.  So each call that has
** been predicted and measured leaves log(measured / model) in the row of its function, its place
** and its size:
**
**     f := f + w (log(measured / model) - f),     w = max(1 / calls, SMOOTHING) = 1, 1/2, 1/2, ...
**
** and a later prediction is the model's times exp(f), bounded to [1/4, 4].  A first call, which
** finds nothing ready, is soon forgotten; on a device, where it loads code, it raises no factor:
** the device might not be chosen again.  Sizes are logarithms of the edge of a square product of
** as many flops; between two known ones f is interpolated, beyond them it halves with each doubling
** of the edge, since the fixed costs that spoil small calls say nothing of large ones.
**
** A place that is not chosen is not measured, so a factor that was learnt in a bad moment would
** never be corrected: whenever the other place is chosen it moves towards 0 by AGEING.
**
** Memory: one table of GX_LEDGER_ROWS rows per connection; when it is full the row with the fewest
** calls makes room.  Threads: the one that runs the SQL call.  Not for calls that failed, were
** finished elsewhere than they began, or opened the device (run.c).
*/
#include "ledger.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double SMOOTHING = 0.5, AGEING = 0.02;

/* log2 of the edge n of a product of 2 n^3 flops. */
static double size_of(double work)
{
    return log2(cbrt(fmax(work, 2) / 2));
}

static bool is_of(const gx_ledger_row *row, const char *label, bool is_device)
{
    return row->is_device == is_device && strncmp(row->label, label, sizeof row->label - 1) == 0;
}

static double bounded(double log_factor)
{
    const double BOUND = log(GX_LEDGER_MOST);
    return fmax(-BOUND, fmin(BOUND, log_factor));
}

double gx_ledger_factor(const gx_ledger *ledger, const char *label, bool is_device, double work)
{
    const gx_ledger_row *below = NULL, *above = NULL;
    double size = size_of(work);
    for (int k = 0; k < ledger->rows; k++) {
        const gx_ledger_row *row = &ledger->row[k];
        if (!is_of(row, label, is_device)) {
            continue;
        }
        if (row->log_size <= size && (below == NULL || row->log_size > below->log_size)) {
            below = row;
        } else if (row->log_size > size && (above == NULL || row->log_size < above->log_size)) {
            above = row;
        }
    }
    double log_factor = 0;
    if (below != NULL && above != NULL) {
        double along = (size - below->log_size) / (above->log_size - below->log_size);
        log_factor = below->log_factor + along * (above->log_factor - below->log_factor);
    } else if (below != NULL || above != NULL) {
        const gx_ledger_row *near = below != NULL ? below : above;
        double away = fabs(size - near->log_size);
        log_factor = near->log_factor * exp2(-fmax(0, away - 0.5));
    }
    return exp(bounded(log_factor));
}

/* The row of such calls; NULL: none yet. */
static gx_ledger_row *find(gx_ledger *ledger, const char *label, bool is_device, int size)
{
    for (int k = 0; k < ledger->rows; k++) {
        gx_ledger_row *row = &ledger->row[k];
        if (row->size == size && is_of(row, label, is_device)) {
            return row;
        }
    }
    return NULL;
}

static gx_ledger_row *make(gx_ledger *ledger, const char *label, bool is_device, int size)
{
    int k = ledger->rows;
    if (k < GX_LEDGER_ROWS) {
        ledger->rows++;
    } else {
        k = 0;
        for (int i = 1; i < GX_LEDGER_ROWS; i++) {
            k = ledger->row[i].calls < ledger->row[k].calls ? i : k;
        }
    }
    gx_ledger_row *row = &ledger->row[k];
    *row = (gx_ledger_row){.is_device = is_device, .size = size};
    snprintf(row->label, sizeof row->label, "%s", label);
    return row;
}

void gx_ledger_add(gx_ledger *ledger, const char *label, bool is_device, double work,
                   double model_s, double predicted_s, double measured_s)
{
    if (!(model_s > 0) || !(predicted_s > 0) || !(measured_s > 0)) {
        return;
    }
    double log_size = size_of(work), ratio = measured_s / predicted_s;
    int size = (int)lround(log_size);
    gx_ledger_row *row = find(ledger, label, is_device, size);
    row = row != NULL ? row : make(ledger, label, is_device, size);
    row->calls++;
    double share = 1 / (double)row->calls, weight = fmax(share, SMOOTHING);
    double learnt = bounded(log(measured_s / model_s));
    row->log_size += weight * (log_size - row->log_size);
    row->log_factor += weight * (is_device && row->calls == 1 ? fmin(0, learnt) - row->log_factor
                                                              : learnt - row->log_factor);
    row->log_ratio += log(ratio);
    row->least = row->calls == 1 ? ratio : fmin(row->least, ratio);
    row->most = row->calls == 1 ? ratio : fmax(row->most, ratio);
    row->model_s = model_s;
    row->predicted_s = predicted_s;
    row->measured_s = measured_s;
}

void gx_ledger_age(gx_ledger *ledger, const char *label, bool is_device, double work)
{
    gx_ledger_row *row = find(ledger, label, is_device, (int)lround(size_of(work)));
    if (row != NULL) {
        row->log_factor *= 1 - AGEING;
    }
}

void gx_ledger_add_passes(gx_ledger *ledger, uint64_t key, int64_t passes)
{
    int place = (int)(ledger->searches++ % GX_LEDGER_SEARCHES);
    ledger->key[place] = key;
    ledger->passes[place] = key != 0 ? passes : 0;
}

int64_t gx_ledger_passes(const gx_ledger *ledger, uint64_t key)
{
    int64_t passes = 0;
    for (int64_t i = 0; i < GX_LEDGER_SEARCHES; i++) { // the latest one last
        int64_t place = (ledger->searches + i) % GX_LEDGER_SEARCHES;
        passes = ledger->key[place] == key ? ledger->passes[place] : passes;
    }
    return passes;
}
