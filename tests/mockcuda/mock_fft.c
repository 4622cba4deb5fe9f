/*
** A stand-in for libcufft.
**
** A plan is what it was made of.  Calls only enqueue the reference's transform.  The last byte of
** the work area is written, the input of a transform to real numbers is lost, and where its first
** and middle numbers are not real so is the result: cuFFT promises nothing then.
*/
#include "mock_nvidia.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS = 64, WORK_BYTES = 1000, NOT_A_PLAN = 1, BAD_VALUE = 4, FAILED = 6 };

typedef struct plan {
    mock_handle *handle; /* NULL: free */
    gx_args args;
    gx_number to;
    int64_t in_step, in_next;
    bool is_made;
    void *work;
} plan;

static plan plans[PLANS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static plan *find(int number)
{
    bool is_one = number >= 0 && number < PLANS && plans[number].handle != NULL;
    if (!is_one) {
        mock_count(MOCK_VIOLATION);
    }
    return is_one ? &plans[number] : NULL;
}

API int cufftCreate(int *number);
API int cufftCreate(int *number)
{
    void *handle;
    BEGIN(MOCK_FFT, "cufftCreate");
    if (mock_handle_make(&handle) != 0) {
        return 2;
    }
    pthread_mutex_lock(&lock);
    *number = 0;
    while (plans[*number].handle != NULL) {
        ++*number;
    }
    plans[*number] = (plan){.handle = handle};
    pthread_mutex_unlock(&lock);
    return 0;
}

API int cufftDestroy(int number);
API int cufftDestroy(int number)
{
    int status = mock_begin(MOCK_FFT, "cufftDestroy", NULL);
    plan *p = find(number);
    if (mock_end() == MOCK_FINE && p != NULL) {
        mock_handle_free(p->handle);
        p->handle = NULL;
    }
    return status;
}

API int cufftSetAutoAllocation(int number, int is_automatic);
API int cufftSetAutoAllocation(int number, int is_automatic)
{
    BEGIN(MOCK_FFT, "cufftSetAutoAllocation");
    return find(number) == NULL ? NOT_A_PLAN : is_automatic ? BAD_VALUE : 0;
}

API int cufftSetStream(int number, void *stream);
API int cufftSetStream(int number, void *stream)
{
    BEGIN(MOCK_FFT, "cufftSetStream");
    plan *p = find(number);
    if (p != NULL) {
        p->handle->stream = stream;
    }
    return p == NULL ? NOT_A_PLAN : 0;
}

API int cufftSetWorkArea(int number, void *work);
API int cufftSetWorkArea(int number, void *work)
{
    BEGIN(MOCK_FFT, "cufftSetWorkArea");
    plan *p = find(number);
    if (p == NULL || !mock_is_on_device(work, WORK_BYTES)) {
        return NOT_A_PLAN;
    }
    p->work = work;
    return 0;
}

static int number_of(int type)
{
    return type == 0 ? GX_F32 : type == 1 ? GX_F64 : type == 4 ? GX_C64 : type == 5 ? GX_C128 : -1;
}

API int cufftXtMakePlanMany(int number, int rank, long long *n, long long *in_sides,
                            long long in_step, long long in_next, int in_type, long long *out_sides,
                            long long out_step, long long out_next, int out_type, long long count,
                            size_t *work_bytes, int compute);
API int cufftXtMakePlanMany(int number, int rank, long long *n, long long *in_sides,
                            long long in_step, long long in_next, int in_type, long long *out_sides,
                            long long out_step, long long out_next, int out_type, long long count,
                            size_t *work_bytes, int compute)
{
    BEGIN(MOCK_FFT, "cufftXtMakePlanMany");
    plan *p = find(number);
    int from = number_of(in_type), to = number_of(out_type), both = number_of(compute);
    if (p == NULL || rank != 1 || in_sides == NULL || out_sides == NULL || *n < 1 || count < 1 ||
        from < 0 || to < 0 || both < 0 ||
        gx_number_is_double((gx_number)from) != (both == GX_C128) ||
        gx_number_is_double((gx_number)to) != (both == GX_C128) ||
        (!gx_number_is_complex((gx_number)from) && !gx_number_is_complex((gx_number)to))) {
        return BAD_VALUE;
    }
    if (*n % 1019 == 0) {
        return 8; // a size that it has not got
    }
    bool is_column = in_step == 1 && out_step == 1;
    int64_t length = gx_number_is_complex((gx_number)from) ? *n : *n / 2 + 1;
    p->to = (gx_number)to;
    p->is_made = true;
    p->in_step = in_step;
    p->in_next = in_next;
    p->args = (gx_args){.side = is_column ? GX_LEFT : GX_RIGHT,
                        .m = is_column ? length : count,
                        .n = is_column ? count : length,
                        .k = *n,
                        .from = gx_dtype_of((gx_number)from),
                        .lda = is_column ? in_next : in_step,
                        .ldc = is_column ? out_next : out_step};
    *work_bytes = WORK_BYTES;
    return 0;
}

/* One number of what the plan reads. */
static void *input_at(const plan *p, int64_t i, int64_t line)
{
    return gx_at(p->args.a, (gx_number)p->args.from, 1, i * p->in_step + line * p->in_next, 0);
}

/* The halves of lines, as cuFFT takes them. */
static void take_halves(const plan *p)
{
    gx_number from = (gx_number)p->args.from;
    int64_t n = p->args.k, lines = p->args.side == GX_LEFT ? p->args.n : p->args.m;
    for (int64_t line = 0; line < lines; line++) {
        for (int64_t i = 0; i <= n / 2; i++) {
            bool is_real = gx_number_get(from, input_at(p, i, line), 0).im == 0;
            if (2 * i % n == 0 && !is_real) {
                gx_number_put(from, input_at(p, i, line), 0, (gx_scalar){NAN, 0});
            }
        }
    }
}

static int run(void *arg)
{
    plan *p = arg;
    bool is_real = !gx_number_is_complex(p->to);
    if (is_real) {
        take_halves(p);
    }
    p->args.work = malloc(gx_oracle.workspace(NULL, GX_FFT, p->to, &p->args) + 1);
    (void)gx_oracle.kernel[GX_FFT][p->to](NULL, NULL, &p->args, NULL);
    free(p->args.work);
    int64_t lines = p->args.side == GX_LEFT ? p->args.n : p->args.m;
    for (int64_t e = 0; is_real && e < lines * (p->args.k / 2 + 1); e++) {
        memset(input_at(p, e / lines, e % lines), 0xff, gx_number_bytes((gx_number)p->args.from));
    }
    ((char *)p->work)[WORK_BYTES - 1] = 1;
    return 0;
}

API int cufftXtExec(int number, void *in, void *out, int direction);
API int cufftXtExec(int number, void *in, void *out, int direction)
{
    bool is_fatal = false;
    BEGIN_LATER(MOCK_FFT, "cufftXtExec", &is_fatal);
    plan *p = find(number);
    if (p == NULL || !p->is_made || p->work == NULL || (direction != 1 && direction != -1) ||
        !mock_is_on_device(in, 1) || !mock_is_on_device(out, 1)) {
        return NOT_A_PLAN;
    }
    plan now = *p;
    now.args.a = in;
    now.args.c = out;
    now.args.is_backward = direction == 1;
    mock_count(MOCK_KERNEL);
    return mock_enqueue(p->handle->stream, is_fatal, run, &now, sizeof now) == 0 ? 0 : FAILED;
}
