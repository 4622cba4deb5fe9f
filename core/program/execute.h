/*
** Running a program's graph.
*/
#ifndef GX_EXECUTE_H
#define GX_EXECUTE_H

#include "values.h"

/*
** Run all of g.  operand: a source for each operand of the graph.  x is to be ended with
** gx_exec_end() whatever this returns; until then the outputs' and the result's values are there.
*/
gx_code gx_exec_begin(gx_exec *x, gx_run *run, const gx_graph *g, gx_mat *operand,
                      int64_t rounds_most);
void gx_exec_end(gx_exec *x);

#endif
