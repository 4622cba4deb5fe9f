/*
** What OpenBLAS is told when it is loaded: which of its kernels to use on an x86 processor that is
** younger than it, and to start no threads.
**
** OpenBLAS chooses by the processor's model number, when it is loaded.  A model that it does not
** know gets kernels of 2004 (Prescott: SSE3), a quarter to a fifth of the speed: measured on a Xeon
** of 2024 with OpenBLAS 0.3.21, 21 instead of 82 GFLOP/s a core.  What matters is not the model but
** the instructions, which the processor tells; so, unless the user has set it, OpenBLAS is told by
** OPENBLAS_CORETYPE, the variable that it reads for this:
**
**     AVX-512 (F, BW, DQ, VL, CD)     SkylakeX
**     AVX2 and FMA                    Haswell, where the vendor is Intel
**     else                            its own choice
**
** (AMD's processors without AVX-512 are all known to it.)
**
** Threads it starts as it is loaded, one for each processor, and raises SIGINT where the system
** refuses one: so it starts with one, and gets more when a call is worth them (cpu_threads.c).
**
** The environment of a process that gx is loaded into is not gx's to change, so the private copy of
** OpenBLAS has its getenv() replaced at link time (ld --wrap); the table above is in no one else's
** way.  With OPENBLAS=shared, and in libgx.a, the library is the application's, and so is its
** choice.
*/
#include <stddef.h>
#include <string.h>
#include <unistd.h>

char *gx_cpu_getenv(const char *name);

static char *find(const char *name)
{
    size_t length = strlen(name);
    for (char **line = environ; line != NULL && *line != NULL; line++) {
        if (strncmp(*line, name, length) == 0 && (*line)[length] == '=') {
            return *line + length + 1;
        }
    }
    return NULL;
}

/* NULL: OpenBLAS's own choice. */
static char *best_core(void)
{
#if defined(__x86_64__)
    static char skylake_x[] = "SkylakeX", haswell[] = "Haswell";
    __builtin_cpu_init(); // constructors may come here before the compiler's own
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512cd")) {
        return skylake_x;
    }
    if (__builtin_cpu_is("intel") && __builtin_cpu_supports("avx2") &&
        __builtin_cpu_supports("fma")) {
        return haswell;
    }
#endif
    return NULL;
}

/* getenv() for everything that is linked into gx.so. */
char *gx_cpu_getenv(const char *name)
{
    static char one[] = "1";
    if (strcmp(name, "OPENBLAS_NUM_THREADS") == 0) {
        return one;
    }
    char *value = find(name);
    return value == NULL && strcmp(name, "OPENBLAS_CORETYPE") == 0 ? best_core() : value;
}
