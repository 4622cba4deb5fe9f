/*
** Inside the stand-ins for NVIDIA's libraries: how a call begins, and how work gets into a stream.
**
**   mock_nvidia.c  libcudart without the launches: devices, memory, streams, events, copies
**   mock_launch.c  launches of gx's own kernels
**   mock_solver.c  libcublas and libcusolver
**   mock_fft.c     libcufft
**
** Below them is mock_machine.h, which counts calls and says which fail.
*/
#ifndef MOCK_NVIDIA_H
#define MOCK_NVIDIA_H

#include "../oracle/oracle.h"
#include "base/backend.h"
#include "mock_machine.h"

#define API __attribute__((visibility("default")))

/* cudaError_t */
enum {
    CUDA_INVALID = 1,
    CUDA_NO_MEMORY = 2,
    CUDA_OLD_DRIVER = 35,
    CUDA_NO_DEVICE = 100,
    CUDA_BAD_DEVICE = 101,
    CUDA_NO_IMAGE = 209,
    CUDA_NEWER_PTX = 222,
    CUDA_SYSTEM = 304,
    CUDA_NOT_FOUND = 500,
    CUDA_ILLEGAL_ADDRESS = 700,
    CUDA_BAD_LAUNCH = 701,
    CUDA_LAUNCH_FAILURE = 719,
    CUDA_UNKNOWN = 999
};

typedef enum mock_library { MOCK_RUNTIME, MOCK_BLAS, MOCK_SOLVER, MOCK_FFT } mock_library;

/*
** A call begins: counted; 0, or the library's status of its failure, which is the thread's last
** error from then on.  is_fatal: where the call only enqueues; set when what it enqueues is to end
** the context.
*/
int mock_begin(mock_library library, const char *call, bool *is_fatal);

/* The status becomes the thread's last error. */
int mock_keep(int status);

#define BEGIN_LATER(library, call, is_fatal)                                                       \
    do {                                                                                           \
        int failure_ = mock_begin(library, call, is_fatal);                                        \
        if (failure_ != 0) {                                                                       \
            return failure_;                                                                       \
        }                                                                                          \
    } while (0)
#define BEGIN(library, call) BEGIN_LATER(library, call, NULL)

/* action(copy of *arg) when the stream gets there, now for the default stream; cudaError_t. */
int mock_enqueue(void *stream, bool is_fatal, mock_action action, const void *arg, size_t bytes);

/* Wait for the stream; cudaError_t. */
int mock_drain(void *stream);

/* A handle of a library: *handle is not NULL, and remembers a stream. */
typedef struct mock_handle {
    int64_t magic;
    void *stream;
} mock_handle;

int mock_handle_make(void **handle);
void mock_handle_free(void *handle);
bool mock_handle_is(const void *handle); /* else a violation is counted */

#endif
