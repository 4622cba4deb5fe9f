/*
** The text of constraints, in the grammar of programs, as a list of steps.
**
**     a = row[0] * row[1]          a name for a value
**     a - row[2]                   a constraint: it is to be 0
**     next[0] - row[1]             of the next row
*/
#ifndef GX_CONSTRAINT_TEXT_H
#define GX_CONSTRAINT_TEXT_H

#include "../base/constraints.h"
#include "../mat/mat.h"

/*
** Of rows of so many columns, with the coefficient, `width` elements of it: constraint k of n goes
** with its power n - 1 - k, so that they come to ((c0 x + c1) x + c2) ... .  Errors (GX_ARG) have
** line, column and caret.  *p is cleared whatever it returns.
*/
gx_code gx_constraints_compile(gx_run *run, const char *text, size_t bytes, int64_t columns,
                               int width, const uint32_t *coefficient, gx_constraints *p);
void gx_constraints_clear(gx_run *run, gx_constraints *p);

#endif
