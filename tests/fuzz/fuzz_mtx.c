/*
** Property: any bytes given as a Matrix Market file are imported or refused in words, the same
** with much memory and with little (filekit.h: many passes over the file), as they are, as f32
** and as c64.
*/
#include "filekit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const gx_import_options options[] = {{.has_dtype = false},
                                                {.has_dtype = true, .dtype = GX_DTYPE_F32},
                                                {.has_dtype = true, .dtype = GX_DTYPE_C64}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        filekit_check(gx_import_mtx, data, size, &options[i]);
    }
    return 0;
}
