/*
** Property: any bytes given as a CSV file are imported or refused in words, the same with much
** memory and with little (filekit.h), with everything found out and with each option; what gzip
** packed likewise.  What a file is said to be has a text.
*/
#include "filekit.h"

/* As core/file/file.c does it. */
static gx_code read_packed(gx_import *im, gx_err *err)
{
    const gx_input *file = im->in;
    gx_input unpacked;
    void *data;
    size_t bytes;
    GX_TRY(gx_gzip_read(im, &data, &bytes, err));
    gx_input_memory(&unpacked, "file", data, bytes);
    im->in = &unpacked;
    gx_code code = gx_import_csv(im, err);
    im->in = file;
    gx_mem_free(im->mem, data);
    return code;
}

static void check_kind(const uint8_t *data, size_t size)
{
    gx_input in;
    gx_err err = {.code = GX_OK};
    gx_input_memory(&in, "file", data, size);
    gx_code code = gx_input_check(&in, GX_FILE_CSV, &err);
    if (code != err.code || (code != GX_OK) != (err.text[0] != '\0')) {
        fuzz_fail("code and words do not agree", err.text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const gx_import_options options[] = {
        {.has_dtype = false},
        {.has_header = true, .header = true, .delimiter = ','},
        {.has_header = true, .header = false, .delimiter = ' '},
        {.columns = "1,3:", .skip = 1, .has_dtype = true, .dtype = GX_DTYPE_C64},
        {.columns = ":1", .delimiter = '\t', .has_dtype = true, .dtype = GX_DTYPE_F32},
        {.na = "?\n-\n1,5\nx y", .decimal = ','},
        {.na = "1", .delimiter = ';', .decimal = ',', .columns = "a,1"}};
    bool is_packed = size > 2 && data[0] == 0x1f && data[1] == 0x8b;
    check_kind(data, size);
    if (is_packed) {
        filekit_check(read_packed, data, size, &options[0]);
        return 0;
    }
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
