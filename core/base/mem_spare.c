/*
** Memory for a library that does not look whether it got any.
**
** OpenBLAS's kernels for small products (0.3.17 and later, processors with AVX-512) ask malloc()
** for a few rows of an operand and write there without a look at the pointer: a process that is out
** of memory dies in them.  When OpenBLAS is linked into gx.so, these kernels call the two functions
** below instead (the Makefile renames malloc and free in their object files).  Where malloc() has
** nothing they get the one spare buffer of the process, and wait for their turn: a kernel holds it
** for microseconds and calls nothing meanwhile, so the wait is short and no circle can form.
**
** The largest request: such a product has m n k <= 10^6 (gemm_small_matrix_permit), and what is
** copied is part of A, m k elements of 8 bytes.
*/
#include "mem.h"

#include <pthread.h>
#include <stdlib.h>

enum { SPARE_BYTES = 1000 * 1000 * 8 + 4096 };

static _Alignas(64) char spare[SPARE_BYTES];
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

void *gx_spare_alloc(size_t bytes)
{
    void *p = malloc(bytes);
    if (p != NULL || bytes > sizeof spare) {
        return p;
    }
    pthread_mutex_lock(&turn);
    return spare;
}

void gx_spare_free(void *p)
{
    if (p == spare) {
        pthread_mutex_unlock(&turn);
    } else {
        free(p);
    }
}
