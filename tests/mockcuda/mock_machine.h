/*
** A device that is not there: memory of its own, queues that run by themselves, and failures to
** order.  What the stand-ins for gx_cuda.so and for NVIDIA's libraries are made of.
**
** Set by environment, looked at when the machine is first used:
**
**   MOCK_DEVICES    how many (1)
**   MOCK_NAME       what each calls itself ("mock")
**   MOCK_MEMORY     bytes of each (4 GiB); "A,B": of the first, and of all others
**   MOCK_PEERS      "none": no device reaches another one's memory
**   MOCK_OTHERS     "BYTES" or "BYTES:N": other processes hold so much of each device, from the
**                   N-th call on (0)
**   MOCK_BANDWIDTH  copies, bytes per second; 0 = as fast as it goes (0)
**                   A call named "wrong" does not fail: the spectrum that it computed is wrong.
**   MOCK_SLOW       microseconds that every asynchronous action takes at least (0); "A,B" as above
**   MOCK_SERIAL     microseconds that a kernel takes at least, and each device runs one at a time,
**                   those of preferred queues first (0: every queue runs by itself; the stand-in
**                   for gx_cuda.so alone)
**   MOCK_FAIL       "CALL:N" or "CALL:N:MODE": the N-th call of that name fails, "*" any name;
**                   "CALL@D:N": of device D (the stand-in for gx_cuda.so alone).
**                   MODE, the stand-in for gx_cuda.so: once (default), always (that call and all
**                   later ones of the name), lost (every call of any name from then on).
**                   The stand-ins for NVIDIA's libraries: memory (default: there is none), launch
**                   (refused, once), status (an internal error, once), always (memory, and all
**                   later calls of the name); and what ends the process's context, so that every
**                   later call fails with the same code: sticky (an illegal address), later (a
**                   kernel or a copy that fails when its turn comes), lost (the device is gone)
*/
#ifndef MOCK_MACHINE_H
#define MOCK_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mock_counts {
    int64_t device_buffers, pinned_buffers, queues, marks, devices; /* alive     */
    int64_t device_bytes, pinned_bytes;                             /* alive     */
    int64_t device_peak, pinned_peak;
    int64_t calls;      /* of any function that may fail           */
    int64_t failures;   /* that were ordered and have happened     */
    int64_t violations; /* copies or kernels outside of a buffer, use of what is freed */
    int64_t kernels, uploads, downloads;
    int64_t handles;   /* alive: of cuBLAS, cuSOLVER, device code                  */
    int64_t uncleared; /* threads whose last error has not been asked for and cleared */
    int64_t vain;      /* calls after the context has ended                         */
    int64_t peers;     /* copies from one device to another                         */
    int64_t preferred; /* kernels of preferred queues                               */
    int64_t behind;    /* MOCK_SERIAL: the most others that one of them waited for  */
    int64_t depth;     /* the most kernels that a queue held at once                */
    int64_t halves;    /* products of f16 or bf16                                   */
} mock_counts;

typedef enum mock_failure {
    MOCK_FINE = 0,
    MOCK_MEMORY,
    MOCK_LAUNCH,
    MOCK_STATUS,
    MOCK_STICKY,
    MOCK_LATER,
    MOCK_LOST
} mock_failure;

void mock_note_halves(void); /* one more */

int mock_devices(void);
size_t mock_memory(void);
size_t mock_memory_of(int device);
bool mock_has_peers(void);

/* Does this call fail?  Counts it. */
bool mock_fails(const char *call);
bool mock_fails_on(int device, const char *call);

/* How this call fails, counted; and how the context has ended, MOCK_FINE while it lives. */
mock_failure mock_fate(const char *call);
mock_failure mock_end(void);

/* The context ends now: what is still in queues is not done. */
void mock_end_now(mock_failure how);

/* Memory of a device (0 where it is not said), filled with NaNs; NULL when it is full. */
void *mock_device_alloc(size_t bytes);
void *mock_device_alloc_on(int device, size_t bytes);
void mock_device_free(void *ptr); /* waits for all queues, as cudaFree() does */
size_t mock_device_free_bytes(void);
size_t mock_device_free_bytes_on(int device);
bool mock_is_pinned(const void *ptr, size_t bytes);
void *mock_pin(size_t bytes);
void mock_unpin(void *ptr);

/* All of [ptr, ptr + bytes) lies in one living device buffer; else a violation is counted. */
bool mock_is_on_device(const void *ptr, size_t bytes);

/* The same of this device. */
bool mock_is_there(int device, const void *ptr, size_t bytes);

/* What is alive is known, so that what a lost device keeps is no leak to a sanitizer. */
void mock_know(void *thing);
void mock_forget(const void *thing);

typedef struct mock_queue mock_queue;
typedef struct mock_mark mock_mark;

/* What a queue does later: returns 0, or an error that the queue keeps. */
typedef int (*mock_action)(void *arg);

/* Run a kernel of a queue of the device; so many are in one queue (mock_kernels.c). */
int mock_run_kernel(mock_action action, void *arg, bool is_preferred, int device);
void mock_hold_kernels(int64_t count);

/* Actions in queues, more or fewer; wait until there are none: as CUDA does before memory goes. */
void mock_add_work(int more);
void mock_wait_for_work(void);
void mock_read_kernels(mock_counts *counts); /* what counts of kernels there is */

/* NULL: the system refused a thread. */
mock_queue *mock_queue_create(void);
mock_queue *mock_queue_create_on(int device);
void mock_queue_free(mock_queue *queue); /* runs what is left first */
/* arg: malloc'ed, freed when the action has run. */
void mock_push(mock_queue *queue, mock_action action, void *arg);
void mock_push_kernel(mock_queue *queue, mock_action action, void *arg);
void mock_queue_prefer(mock_queue *queue, bool is_preferred); /* what is pushed from now on */
int mock_queue_wait(mock_queue *queue); /* its first error so far */

/*
** What is pushed from begin to end is kept, to be pushed again by mock_replay(), as often as
** wanted; waiting for the queue in between is an error, of the wait and of the end (NULL).
*/
typedef struct mock_recording mock_recording;
void mock_record_begin(mock_queue *queue);
mock_recording *mock_record_end(mock_queue *queue);
void mock_replay(mock_queue *queue, mock_recording *recording);
void mock_recording_free(mock_recording *recording); /* once it is not under way any more */

mock_mark *mock_mark_create(void);
void mock_mark_free(mock_mark *mark);
void mock_mark_set(mock_mark *mark, mock_queue *queue);
int mock_mark_wait(mock_mark *mark);                      /* error of the queue it was set in */
double mock_mark_seconds(mock_mark *from, mock_mark *to); /* from one to the other */
void mock_queue_after(mock_queue *queue, mock_mark *mark);

/* Copy of bytes, at the bandwidth; used inside actions. */
void mock_copy(void *dst, const void *src, size_t bytes);

/* For tests, by ctypes. */
#define MOCK_API __attribute__((visibility("default")))
MOCK_API void mock_read(mock_counts *counts);
MOCK_API void mock_order(const char *failure); /* as MOCK_FAIL; "" = none; counts calls anew */
MOCK_API void mock_calm(void); /* preferred, behind and depth count anew */
MOCK_API void mock_share(const char *others);  /* as MOCK_OTHERS; counts calls anew */

/* Add to one of the counts of what was done. */
typedef enum mock_done {
    MOCK_KERNEL,
    MOCK_UPLOAD,
    MOCK_DOWNLOAD,
    MOCK_HANDLE_MADE,
    MOCK_HANDLE_GONE,
    MOCK_ERROR_KEPT,
    MOCK_ERROR_CLEARED,
    MOCK_VIOLATION,
    MOCK_PEER
} mock_done;
void mock_count(mock_done what);

#endif
