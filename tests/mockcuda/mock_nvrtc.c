/*
** A stand-in for NVRTC: what it "compiles" is a fused program's text, and the machine code it gives
** is a few bytes, for cudaLibraryLoadData(), whose kernels are those of mock_launch.c by name.
**
** It counts calls as the others do, and fails where that is ordered; a text that does not define
** one of gx's kernels, or is not closed, is refused as a compiler would.
*/
#include "mock_nvidia.h"

#include <string.h>

enum { OUT_OF_MEMORY = 1, COMPILATION = 6 }; // nvrtcResult

API int nvrtcCreateProgram(void **program, const char *source, const char *name, int headers,
                           const char *const *sources, const char *const *names)
{
    (void)name, (void)headers, (void)sources, (void)names;
    *program = NULL;
    if (mock_begin(MOCK_BLAS, "nvrtcCreateProgram", NULL) != 0) {
        return OUT_OF_MEMORY;
    }
    bool is_one = strstr(source, "__global__ void gx_fused_") != NULL &&
                  strcmp(source + strlen(source) - 2, "}\n") == 0;
    return is_one ? mock_handle_make(program) : COMPILATION;
}

API int nvrtcCompileProgram(void *program, int options, const char *const *option)
{
    if (mock_begin(MOCK_BLAS, "nvrtcCompileProgram", NULL) != 0 || !mock_handle_is(program)) {
        return COMPILATION;
    }
    bool is_exact = false; // the bits of the CPU
    for (int k = 0; k < options; k++) {
        is_exact |= strcmp(option[k], "--fmad=false") == 0;
    }
    return is_exact ? 0 : COMPILATION;
}

API int nvrtcGetCUBINSize(void *program, size_t *bytes)
{
    *bytes = 64;
    return mock_handle_is(program) ? 0 : COMPILATION;
}

API int nvrtcGetCUBIN(void *program, char *cubin)
{
    memset(cubin, 0, 64);
    return mock_handle_is(program) ? 0 : COMPILATION;
}

API int nvrtcDestroyProgram(void **program)
{
    mock_handle_free(*program);
    *program = NULL;
    return 0;
}
