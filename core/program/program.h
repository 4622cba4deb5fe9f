/*
** Programs of matrices: text in, results out.
**
**     gx_program *p;
**     gx_program_prepare(run, text, bytes, args, count, false, &p);   parsed, checked, planned
**     gx_program_run(run, p, args, &how, &result);
**
** Prepared programs are kept by the connection, by their text and the shapes of what they read, and
** found again: a program belongs to the connection and is not freed by its user.
*/
#ifndef GX_PROGRAM_H
#define GX_PROGRAM_H

#include "../mat/mat.h"

typedef struct gx_program gx_program;

/* ?1, ?2 ...: a matrix, or a plain number, which mat has as 1 x 1 too. */
typedef struct gx_program_arg {
    gx_mat mat;
    bool is_number;
    double number;
} gx_program_arg;

enum { GX_ROUNDS_MOST = 1000000 };

typedef struct gx_program_how {
    bool replace;        /* existing destinations                                  */
    int64_t rounds_most; /* of one loop                                            */
    const char *name;    /* the value is stored so; NULL: it is the result         */
    bool is_matrix;      /* a value of one number is a matrix like any other       */
} gx_program_how;

typedef enum gx_program_kind { GX_GIVES_NUMBER, GX_GIVES_MATRIX, GX_GIVES_NAME } gx_program_kind;

typedef struct gx_program_result {
    gx_program_kind kind;
    double number;
    gx_sink sink;     /* MATRIX: a finished value, the caller's                     */
    const char *name; /* NAME: as the program spells it                             */
} gx_program_result;

/*
** Parse, find operands, check everything, plan.  is_plain: without any pass, for the tests.  Errors
** have line, column and caret.
*/
gx_code gx_program_prepare(gx_run *run, const char *text, size_t bytes, const gx_program_arg *args,
                           int count, bool is_plain, gx_program **out);

gx_code gx_program_run(gx_run *run, gx_program *program, const gx_program_arg *args,
                       const gx_program_how *how, gx_program_result *result);

/* One step, for gx_plan. */
typedef struct gx_program_step {
    int64_t number, depth; /* depth: of loops around it                             */
    char op[32];
    char detail[256]; /* v3 = v1 @ v2                                               */
    int64_t rows, cols;
    gx_number dtype;
    double flops, bytes; /* bytes: of its result                                    */
    bool is_on_device;   /* where the program is                                    */
} gx_program_step;

/* fn(arg, step) for each step in order, until it returns false. */
void gx_program_steps(gx_run *run, const gx_program *program,
                      bool (*fn)(void *arg, const gx_program_step *step), void *arg);

#endif
