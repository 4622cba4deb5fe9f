#!/usr/bin/env python3
"""cuSOLVERMg's Cholesky factorisation on several devices: the peer of gx_cholesky there.

    bench/cusolver_mg.py [N [DEVICES [BLOCK]]]

An f64 matrix of order N (32768), positive definite, in columns of BLOCK (512) dealt out to DEVICES (2) in turn.  Prints
a JSON line: seconds of cusolverMgPotrf alone, of copying the matrix there from page-locked memory and its factor back, and
of all three, each the least of three; the residual of one element.  Libraries are opened by name, with ctypes alone.
"""
import ctypes
import json
import sys
import time

import numpy as np

C = ctypes
F64, LOWER, COL_MAJOR = 1, 0, 0  # CUDA_R_64F, CUBLAS_FILL_MODE_LOWER, CUDALIBMG_GRID_MAPPING_COL_MAJOR
TO_DEVICE, TO_HOST = 1, 2


def library(*names):
    for name in names:
        try:
            return C.CDLL(name)
        except OSError:
            continue
    raise SystemExit(f"{names[0]} is not here")


def must(status, what):
    if status != 0:
        raise SystemExit(f"{what}: status {status}")


class Factorisation:
    """The matrix on the devices: columns of a block each, in turn."""

    def __init__(self, n, devices, block):
        folder = "/usr/local/cuda/lib64/"
        self.rt = library("libcudart.so.13", folder + "libcudart.so", "libcudart.so")
        self.mg = library(folder + "libcusolverMg.so", "libcusolverMg.so.12", "libcusolverMg.so")
        self.n, self.devices, self.block = n, devices, block
        self.panels = -(-n // block)
        self.local = [-(-(self.panels - d) // devices) * block for d in range(devices)]
        self.open()
        self.host = C.c_void_p()
        self.panel_bytes = 8 * n * block
        must(self.rt.cudaHostAlloc(C.byref(self.host), C.c_size_t(self.panel_bytes), C.c_uint(1)), "cudaHostAlloc")
        values = np.ctypeslib.as_array(C.cast(self.host, C.POINTER(C.c_double)), (block, n))
        values[:] = np.random.default_rng(1).random((block, n)) - 0.5
        self.diagonal = np.full(n, 2.0 * n)

    def open(self):
        n, mg, rt = self.n, self.mg, self.rt
        ids = (C.c_int32 * self.devices)(*range(self.devices))
        self.handle, grid, self.desc = C.c_void_p(), C.c_void_p(), C.c_void_p()
        must(mg.cusolverMgCreate(C.byref(self.handle)), "cusolverMgCreate")
        must(mg.cusolverMgDeviceSelect(self.handle, self.devices, ids), "cusolverMgDeviceSelect")
        must(mg.cusolverMgCreateDeviceGrid(C.byref(grid), 1, self.devices, ids, COL_MAJOR), "cusolverMgCreateDeviceGrid")
        must(mg.cusolverMgCreateMatrixDesc(C.byref(self.desc), C.c_int64(n), C.c_int64(n), C.c_int64(n), C.c_int64(self.block),
                                           F64, grid), "cusolverMgCreateMatrixDesc")
        self.a, self.work, lwork = (C.c_void_p * self.devices)(), (C.c_void_p * self.devices)(), C.c_int64()
        for d in range(self.devices):
            self.allocate(d, self.a, 8 * n * self.local[d])
        for d in range(self.devices):
            rt.cudaSetDevice(d)
            for peer in range(self.devices):
                if peer != d:
                    rt.cudaDeviceEnablePeerAccess(peer, 0)
        must(mg.cusolverMgPotrf_bufferSize(self.handle, LOWER, n, self.a, 1, 1, self.desc, F64, C.byref(lwork)), "bufferSize")
        self.lwork = lwork.value
        for d in range(self.devices):
            self.allocate(d, self.work, 8 * self.lwork)

    def allocate(self, device, place, size):
        must(self.rt.cudaSetDevice(device), "cudaSetDevice")
        got = C.c_void_p()
        must(self.rt.cudaMalloc(C.byref(got), C.c_size_t(size)), "cudaMalloc")
        place[device] = got.value

    def wait(self):
        for d in range(self.devices):
            self.rt.cudaSetDevice(d)
            must(self.rt.cudaDeviceSynchronize(), "cudaDeviceSynchronize")

    def copy(self, to_device):
        """Every panel up from the same page-locked memory, or down into it: what the links can do."""
        for panel in range(self.panels):
            d, at = panel % self.devices, panel // self.devices
            self.rt.cudaSetDevice(d)
            place = C.c_void_p(self.a[d] + at * self.panel_bytes)
            to, source, kind = (place, self.host, TO_DEVICE) if to_device else (self.host, place, TO_HOST)
            must(self.rt.cudaMemcpyAsync(to, source, C.c_size_t(self.panel_bytes), kind, C.c_void_p()), "cudaMemcpyAsync")
        self.wait()

    def set_diagonal(self):
        for panel in range(self.panels):
            d, at, first = panel % self.devices, panel // self.devices, panel * self.block
            count = min(self.block, self.n - first)
            self.rt.cudaSetDevice(d)
            place = C.c_void_p(self.a[d] + at * self.panel_bytes + 8 * first)
            values = self.diagonal.ctypes.data_as(C.c_void_p)
            must(self.rt.cudaMemcpy2D(place, C.c_size_t(8 * (self.n + 1)), values, C.c_size_t(8), C.c_size_t(8),
                                      C.c_size_t(count), TO_DEVICE), "cudaMemcpy2D")
        self.wait()

    def factor(self):
        info = C.c_int()
        must(self.mg.cusolverMgPotrf(self.handle, LOWER, self.n, self.a, 1, 1, self.desc, F64, self.work,
                                     C.c_int64(self.lwork), C.byref(info)), "cusolverMgPotrf")
        self.wait()
        must(info.value, "cusolverMgPotrf's info")


def main():
    n, devices, block = (int(v) for v in (sys.argv[1:] + ["32768", "2", "512"][len(sys.argv) - 1:])[:3])
    f = Factorisation(n, devices, block)
    taken = {"up": [], "factor": [], "down": []}
    first = C.c_double()
    for _ in range(3):
        for name, run in (("up", lambda: f.copy(True)), ("factor", f.factor), ("down", lambda: f.copy(False))):
            start = time.perf_counter()
            run()
            taken[name].append(time.perf_counter() - start)
            if name == "up":
                f.set_diagonal()
            if name == "factor":
                f.rt.cudaSetDevice(0)
                f.rt.cudaMemcpy(C.byref(first), C.c_void_p(f.a[0]), C.c_size_t(8), TO_HOST)
    least = {name: min(values) for name, values in taken.items()}
    print(json.dumps({"what": "cusolverMgPotrf", "n": n, "devices": devices, "block": block, "seconds": round(least["factor"], 4),
                      "with_copies": round(sum(least.values()), 4), "up": round(least["up"], 4), "down": round(least["down"], 4),
                      "residual": abs(first.value - (2.0 * n) ** 0.5) / (2.0 * n) ** 0.5}))


if __name__ == "__main__":
    main()
