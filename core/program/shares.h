/*
** Columns, or rows, of a program's matrices on several devices, where each is worked on alone:
** those of Fourier transforms and of elementwise functions before and after them.
*/
#ifndef GX_SHARES_H
#define GX_SHARES_H

#include "values.h"

/*
** What of the program could be dealt, before it is known where it runs: x->shares.has.  To be ended
** in any case.
*/
void gx_shares_find(gx_exec *x);
void gx_shares_end(gx_exec *x);

/* For a program that runs on one device: deal the lines to others, too, where that pays. */
void gx_shares_choose(gx_exec *x);

/*
** Run a node that is dealt, or that reads a part of one device's share; false: it is neither, and
** nothing has been done.
*/
bool gx_shares_run(gx_exec *x, gx_ref ref);

#endif
