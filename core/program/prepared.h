/*
** A prepared program: inside.
*/
#ifndef GX_PREPARED_H
#define GX_PREPARED_H

#include "graph.h"

struct gx_program {
    struct gx_program *next; /* of the connection's, the latest first */
    gx_syntax *syntax;
    gx_graph *graph; /* NULL: not for these operands          */
    bool is_plain;
    int users; /* calls that run it now                       */
};

#endif
