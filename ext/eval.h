/*
** A program and its arguments out of SQL values, for gx_eval and gx_plan('eval', ...).
*/
#ifndef GX_EVAL_H
#define GX_EVAL_H

#include "gx_ext.h"

#include "../core/program/program.h"

/* The arguments ?1, ?2 ... are the call's from number `first` on; *args belongs to the call. */
bool gx_eval_prepare_text(gx_fn *fn, const char *text, int first, bool is_plain,
                          gx_program **program, gx_program_arg **args);

/* What a program that has run gives, as the call's result. */
void gx_eval_result(gx_fn *fn, gx_program_result *result);

#endif
