/*
** Property: any bytes given as a CSV file are imported or refused in words, the same with much
** memory and with little (filekit.h), with everything found out and with each option.
*/
#include "filekit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const gx_import_options options[] = {
        {.has_dtype = false},
        {.has_header = true, .header = true, .delimiter = ','},
        {.has_header = true, .header = false, .delimiter = ' '},
        {.columns = "1,3:", .skip = 1, .has_dtype = true, .dtype = GX_C64},
        {.columns = ":1", .delimiter = '\t', .has_dtype = true, .dtype = GX_F32}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        filekit_check(gx_import_csv, data, size, &options[i]);
    }
    // The data as the list of columns.
    char columns[64];
    size_t length = size < sizeof columns - 1 ? size : sizeof columns - 1;
    if (length > 0) {
        memcpy(columns, data, length);
    }
    columns[length] = '\0';
    const gx_import_options listed = {.columns = columns};
    static const uint8_t table[] = "0,1,2,3,4\n5,6,7,8,9\n";
    filekit_check(gx_import_csv, table, sizeof table - 1, &listed);
    return 0;
}
