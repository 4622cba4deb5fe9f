/*
** gx_part(F, part[, destination]): a factor out of a stored factorisation.
*/
#include "parts.h"

#include <stdio.h>
#include <string.h>

/* One table a kind of factorisation, by gx_aux_kind. */
static const gx_part_def *const tables[] = {
    [GX_AUX_LU] = gx_parts_lu,
    [GX_AUX_QR] = gx_parts_qr,
};

enum { KINDS = sizeof tables / sizeof tables[0] };

static const gx_part_def *table_of(gx_aux_kind kind)
{
    return (int)kind < KINDS ? tables[kind] : NULL;
}

/* "part is 'X' but must be one of L, U, P, p" */
static void refuse_name(gx_fn *fn, gx_aux_kind kind, const char *name)
{
    char list[64] = "", shown[GX_SHOWN_BYTES];
    size_t n = 0;
    for (const gx_part_def *p = table_of(kind); p != NULL && p->name != NULL; p++) {
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n == 0 ? "" : ", ", p->name);
    }
    gx_fn_fail(fn, "part is '%s' but must be one of %s", gx_text_show(name, strlen(name), shown),
               list);
}

static void part(gx_fn *fn)
{
    gx_dest dest = {0};
    gx_mat F;
    gx_aux aux;
    const char *name;
    if (!gx_fn_options(fn, gx_dest_keys, &dest) || !gx_fn_factor(fn, 0, "F", &F, &aux) ||
        !gx_fn_text(fn, 1, "part", &name) || !gx_fn_dest(fn, 2, &dest)) {
        return;
    }
    if (aux.kind == GX_AUX_NONE) {
        gx_fn_fail(fn,
                   "%s is not a stored factorisation: gx_lu(A, 'F') and gx_qr(A, 'F') make them",
                   F.label);
        return;
    }
    const gx_part_def *found = gx_part_find(table_of(aux.kind), name);
    if (found == NULL) {
        refuse_name(fn, aux.kind, name);
        return;
    }
    gx_sink C;
    gx_part_make(&fn->run, found, &F, &aux, &dest, &C);
    gx_fn_result_sink(fn, &C);
}

const gx_function gx_functions_part[] = {
    {"gx_part", 2, 4, false, part},
    {NULL, 0, 0, false, NULL},
};
