/*
** Tables that are called like functions: SELECT gx_knn(Q, E, k).  Of a name that it knows as a
** table alone SQLite says "no such function", which is true and sends its reader to look for a
** spelling; here it is said where such rows come from.
*/
#include "gx_ext.h"
#include "help.h"

static void refuse(gx_fn *fn)
{
    char usage[GX_USAGE_BYTES];
    gx_help_usage(fn->def->name, usage);
    gx_fn_fail(fn, "is a table, not a function: its rows come FROM %s",
               usage[0] == ':' ? usage + sizeof ": " - 1 : fn->def->name);
}

const gx_function gx_functions_tables[] = {
    {"gx_cells", 0, -1, false, refuse},    {"gx_rows", 0, -1, false, refuse},
    {"gx_topk", 0, -1, false, refuse},     {"gx_histogram", 0, -1, false, refuse},
    {"gx_knn", 0, -1, false, refuse},      {"gx_spread", 0, -1, false, refuse},
    {"gx_plan", 0, -1, false, refuse},     {"gx_volume", 0, -1, false, refuse},
    {"gx_settings", 0, -1, false, refuse}, {"gx_stats", 0, -1, false, refuse},
    {"gx_devices", 0, -1, false, refuse},  {"gx_predictions", 0, -1, false, refuse},
    {NULL, 0, 0, false, NULL}};
