/*
** The least that a first call on a device can take: bytes of a file, in the page cache, to the device's memory, without a database.
**
**     nvcc -O2 -o stream bench/stream.cu && yes '' | head -11 | ./stream FILE THREADS
**
** Threads, started and waiting before the clock runs, take pieces of the file in turn: each reads one into page-locked memory that was
** touched before, lets it go up in a stream of its own, and reads the next.  Pieces of 1 to 4 MiB, 2 to 4 buffers a thread, all of the threads
** or three quarters.  The first line of output says the ways; each line of input asks for a round of them, answered by a line of seconds:
** knn.py asks between its searches, so that both meet the same machine.
*/
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const int MOST_BUFFERS = 4;

struct way {
    long piece;
    int buffers;
    bool is_all; /* of the threads, else three quarters */
};

static int file;
static long bytes;
static char *device, *staging;
static std::atomic<long> next_piece;
static std::atomic<int> ready;
static std::atomic<bool> begun;

static void check(cudaError_t error, const char *what)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
        exit(1);
    }
}

static void work(const way &w, int thread, cudaStream_t stream, cudaEvent_t *done)
{
    bool waits[MOST_BUFFERS] = {};
    check(cudaSetDevice(0), "cudaSetDevice");
    ready++;
    while (!begun) {
    }
    for (int b = 0;; b = (b + 1) % w.buffers) {
        long at = w.piece * next_piece++, size = std::min(w.piece, bytes - at);
        if (size <= 0) {
            break;
        }
        char *to = staging + (thread * w.buffers + b) * w.piece;
        if (waits[b]) {
            check(cudaEventSynchronize(done[b]), "cudaEventSynchronize");
        }
        if (pread(file, to, size, at) != size) {
            perror("pread");
            exit(1);
        }
        check(cudaMemcpyAsync(device + at, to, size, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
        check(cudaEventRecord(done[b], stream), "cudaEventRecord");
        waits[b] = true;
    }
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

static double seconds_of(const way &w, int threads, cudaStream_t *stream, cudaEvent_t *done)
{
    std::vector<std::thread> team;
    next_piece = 0;
    ready = 0;
    begun = false;
    for (int t = 0; t < threads; t++) {
        team.emplace_back(work, std::cref(w), t, stream[t], done + t * MOST_BUFFERS);
    }
    while (ready < threads) {
    }
    auto start = std::chrono::steady_clock::now();
    begun = true;
    for (std::thread &t : team) {
        t.join();
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

static int team_of(const way &w, int threads)
{
    return w.is_all ? threads : std::max(1, threads * 3 / 4);
}

int main(int argc, char **argv)
{
    static const way ways[] = {{2 << 20, 2, true}, {2 << 20, 3, true}, {2 << 20, 3, false}, {1 << 20, 4, true}, {4 << 20, 2, true}};
    if (argc != 3) {
        fprintf(stderr, "stream FILE THREADS < lines\n");
        return 2;
    }
    int threads = atoi(argv[2]);
    struct stat about;
    file = open(argv[1], O_RDONLY);
    if (file < 0 || fstat(file, &about) != 0 || threads < 1) {
        perror(argv[1]);
        return 1;
    }
    bytes = about.st_size;
    size_t room = (size_t)threads * 8 << 20; /* the largest pieces times their buffers */
    check(cudaMalloc(&device, bytes), "cudaMalloc");
    check(cudaHostAlloc(&staging, room, cudaHostAllocDefault), "cudaHostAlloc");
    std::fill(staging, staging + room, 1);
    std::vector<cudaStream_t> stream(threads);
    std::vector<cudaEvent_t> done(threads * MOST_BUFFERS);
    for (cudaStream_t &s : stream) {
        check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    }
    for (cudaEvent_t &e : done) {
        check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    }
    for (const way &w : ways) {
        printf("%ld KiB x %d, %d threads;", w.piece >> 10, w.buffers, team_of(w, threads));
        seconds_of(w, team_of(w, threads), stream.data(), done.data()); /* warms up */
    }
    printf("\n");
    fflush(stdout);
    for (int c = getchar(); c != EOF; c = getchar()) {
        if (c == '\n') {
            for (const way &w : ways) {
                printf("%.6f ", seconds_of(w, team_of(w, threads), stream.data(), done.data()));
            }
            printf("\n");
            fflush(stdout);
        }
    }
    return 0;
}
