#!/usr/bin/env python3
"""What a kernel gains by reading page-locked memory over the link instead of a copy on the device: `bench/zero_copy.py`.

Needs CuPy.  Three cases, each as gx does it today (copied, then read on the device) and with a kernel that reads the page-locked
memory itself; medians, by turns:

- the sum of 2 GiB that go through buffers of 4 to 64 MiB: copies and kernels overlap, as pieces of tiles do;
- a small operand (4 KiB to 1 MiB) that one kernel reads once: a copy is a step of the queue more;
- the same operand read by eight kernels, one after the other.
"""
import statistics
import time

import cupy as cp

SOURCE = r"""
extern "C" __global__ void add_up(const double *x, long long n, double *out)
{
    double s = 0;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
        s += x[i];
    for (int k = 16; k > 0; k /= 2)
        s += __shfl_down_sync(~0u, s, k);
    if ((threadIdx.x & 31) == 0)
        atomicAdd(out, s);
}
"""
ADD_UP = cp.RawKernel(SOURCE, "add_up")
OUT = cp.zeros(1)


def add_up(pointer, n, blocks=528):
    ADD_UP((min(blocks, max(1, n // 256)),), (256,), (pointer, cp.int64(n), OUT.data.ptr))


def by_turns(calls, rounds=9):
    taken = [[] for _ in calls]
    for _ in range(rounds + 2):
        for call, seconds in zip(calls, taken):
            cp.cuda.Device().synchronize()
            start = time.perf_counter()
            call()
            cp.cuda.Device().synchronize()
            seconds.append(time.perf_counter() - start)
    return [statistics.median(seconds[2:]) for seconds in taken]


def streamed(piece, total=1 << 31):
    host = cp.cuda.alloc_pinned_memory(total)
    slots = [cp.empty(piece // 8) for _ in range(4)]
    up, run = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    free = [cp.cuda.Event(disable_timing=True) for _ in slots]

    def copied():
        for k in range(total // piece):
            slot = slots[k % 4]
            up.wait_event(free[k % 4])
            slot.data.copy_from_host_async(host.ptr + k * piece, piece, up)
            there = up.record()
            run.wait_event(there)
            with run:
                add_up(slot.data.ptr, piece // 8)
            free[k % 4].record(run)

    def direct():
        with run:
            for k in range(total // piece):
                add_up(host.ptr + k * piece, piece // 8)

    a, b = by_turns([copied, direct], 5)
    print(f"2 GiB in pieces of {piece >> 20} MiB: copied {total / a / 1e9:.1f} GB/s, read over the link {total / b / 1e9:.1f} GB/s, ratio of times {b / a:.2f}", flush=True)


def small(size, kernels):
    host, slot = cp.cuda.alloc_pinned_memory(size), cp.empty(size // 8)
    stream = cp.cuda.Stream(non_blocking=True)

    def copied():
        slot.data.copy_from_host_async(host.ptr, size, stream)
        with stream:
            for _ in range(kernels):
                add_up(slot.data.ptr, size // 8)

    def direct():
        with stream:
            for _ in range(kernels):
                add_up(host.ptr, size // 8)

    a, b = by_turns([copied, direct], 200)
    print(f"{size >> 10} KiB, {kernels} kernel(s): copied {1e6 * a:.1f} us, read over the link {1e6 * b:.1f} us, {b / a:.2f}", flush=True)


def main():
    print(cp.cuda.runtime.getDeviceProperties(0)["name"].decode())
    for piece in (4 << 20, 16 << 20, 64 << 20):
        streamed(piece)
    for size in (4 << 10, 32 << 10, 256 << 10, 1 << 20):
        small(size, 1)
    for size in (4 << 10, 256 << 10):
        small(size, 8)


if __name__ == "__main__":
    main()
