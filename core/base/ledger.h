/*
** The ledger: what calls were predicted to take beside what they took, shown by the table
** gx_predictions, and the corrections that follow from it.  And the passes that searches for
** eigenvalues made, which depend on the values and so are known of matrices seen before only.
**
** A row stands for calls of one function, on the host or on the device, of about one size.
*/
#ifndef GX_LEDGER_H
#define GX_LEDGER_H

#include "types.h"

enum { GX_LEDGER_ROWS = 96, GX_LEDGER_LABEL = 32, GX_LEDGER_SEARCHES = 16 };

/* The largest correction; the smallest is as far below 1. */
#define GX_LEDGER_MOST 4.0

typedef struct gx_ledger_row {
    char label[GX_LEDGER_LABEL]; /* "gx_matmul"                                             */
    bool is_device;
    int size;           /* class: log2 of the edge of a product of as many flops, rounded  */
    int64_t calls;      /* that were counted                                               */
    double log_size;    /* mean of that logarithm                                          */
    double model_s;     /* of the latest call: predicted without a correction,             */
    double predicted_s; /* predicted,                                                      */
    double measured_s;  /* and measured                                                    */
    double log_factor;  /* smoothed log(measured / model)                                  */
    double log_ratio;   /* sum of log(measured / predicted)                                */
    double least, most; /* measured / predicted                                            */
} gx_ledger_row;

typedef struct gx_ledger {
    int rows;
    gx_ledger_row row[GX_LEDGER_ROWS];
    int64_t searches;                   /* so far; of the latest ones:     */
    uint64_t key[GX_LEDGER_SEARCHES];   /* of the matrix and what is asked */
    int64_t passes[GX_LEDGER_SEARCHES]; /* over it                         */
} gx_ledger;

/* The correction for a call of so much work: between 1/4 and 4; 1 where nothing is known. */
double gx_ledger_factor(const gx_ledger *ledger, const char *label, bool is_device, double work);

/* A call has been measured. */
void gx_ledger_add(gx_ledger *ledger, const char *label, bool is_device, double work,
                   double model_s, double predicted_s, double measured_s);

/*
** The other place was chosen: what is known of this one ages, so that one bad day does not keep it
** from being chosen for ever.
*/
void gx_ledger_age(gx_ledger *ledger, const char *label, bool is_device, double work);

/* A search has made so many passes; those of the latest with the key, 0: not known. */
void gx_ledger_add_passes(gx_ledger *ledger, uint64_t key, int64_t passes);
int64_t gx_ledger_passes(const gx_ledger *ledger, uint64_t key);

#endif
