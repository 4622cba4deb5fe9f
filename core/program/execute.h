/*
** Running a program's graph.
*/
#ifndef GX_EXECUTE_H
#define GX_EXECUTE_H

#include "values.h"

/*
** Run all of g, on a device where may_leave and that is the place; x->fault tells of its failure:
** then the program is to be run again without.  operand: a source for each operand of g.  x is to
** be ended with gx_exec_end() whatever this returns; until then the outputs' and the result's
** values are there.
*/
gx_code gx_exec_begin(gx_exec *x, gx_run *run, const gx_graph *g, gx_mat *operand,
                      int64_t rounds_most, bool may_leave);
void gx_exec_end(gx_exec *x);

#endif
