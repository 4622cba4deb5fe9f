"""gx_sqlite.dask on four worker processes beside dask.array with NumPy chunks, and a model of more machines.

    bench/cluster.py measure [n] [block]     times and bytes moved on this machine (needs Dask), beside the model's
    bench/cluster.py model                   what 4 ... 1000 machines would take

The model is a roofline: a call takes the longest of what the workers compute, what their links carry, what their disks
read, and what Dask's one scheduler handles, and its longest chain of dependent tasks on top.  Its constants are those of
class Machine; `measure` takes flops, scheduling and copying from this machine in the same run.
"""
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Machine:
    flops: float = 1e12       # a worker, f64 products in blocks
    link: float = 1.25e9      # bytes/s in and out of a worker: 10 Gbit/s
    disk: float = 1e9         # bytes/s from a worker's disk
    task: float = 5e-4        # seconds of the scheduler for each task
    step: float = 5e-3        # seconds of a worker around a task: copies of blocks as values, a message


@dataclass(frozen=True)
class Work:
    """What a call has in all."""

    flops: float
    moved: float   # bytes between workers
    read: float    # bytes from disks
    tasks: float
    chain: float   # tasks that wait for each other

    def seconds(self, workers, machine):
        compute = self.flops / machine.flops / workers + self.tasks / workers * machine.step
        return max(compute, self.moved / machine.link / workers, self.read / machine.disk / workers,
                   self.tasks * machine.task) + self.chain * (machine.step + self.flops / self.tasks / machine.flops)


def matmul(n, b, e=8):
    N = n // b
    return Work(2 * n ** 3, 2 * N ** 3 * b * b * e * 0.4, 2 * n * n * e, N ** 3 + 2 * N * N, N)


def cholesky(n, b, e=8):
    N = n // b
    return Work(n ** 3 / 3, N ** 3 / 3 * b * b * e * 0.7, n * n * e, N ** 3 / 6 + N * N, 3 * N)


def lstsq(m, n, b, e=8):
    p = m // b
    return Work(2 * m * n * n, p * n * n * e, m * n * e, 3 * p, 3 + np.ceil(np.log(max(p, 2)) / np.log(8)))


CALLS = [("product 40000^2, blocks of 2000", matmul(40000, 2000)),
         ("product 200000^2, blocks of 5000", matmul(200000, 5000)),
         ("Cholesky 40000^2, blocks of 2000", cholesky(40000, 2000)),
         ("Cholesky 200000^2, blocks of 5000", cholesky(200000, 5000)),
         ("least squares 10^7 x 64, blocks of 10^5", lstsq(10 ** 7, 64, 10 ** 5)),
         ("least squares 10^9 x 64, blocks of 10^6", lstsq(10 ** 9, 64, 10 ** 6))]


def model():
    machine, counts = Machine(), (4, 16, 64, 256, 1000)
    print(f"seconds on machines of {machine}")
    print(f"{'':44}" + "".join(f"{count:>10}" for count in counts))
    for name, work in CALLS:
        print(f"{name:44}" + "".join(f"{work.seconds(count, machine):10.1f}" for count in counts))


def this_machine(client, n, b):
    """Rates of four processes of this machine at work at the same time."""
    def product(size):
        from gx_sqlite import dask as gxd
        a = np.ones((size, size))
        times = []
        for _ in range(3):
            start = time.perf_counter()
            gxd._plus(None, [a], [a], "{}")
            times.append(time.perf_counter() - start)
        return min(times)

    workers = list(client.scheduler_info()["workers"])
    large, small = (max(client.gather([client.submit(product, size, pure=False, workers=[w]) for w in workers]))
                    for size in (b, 8))
    start = time.perf_counter()
    client.gather(client.map(lambda k: k, range(400), pure=False))
    task = (time.perf_counter() - start) / 400
    return Machine(flops=2 * b ** 3 / max(large - small, 1e-9), link=5e8, disk=1e9, task=task, step=task + small)


def measure(n, b):
    os.environ.setdefault("GX_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import dask.array as da
    import distributed
    from gx_sqlite import dask as gxd
    with distributed.LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=":0", memory_limit=0) as cluster, \
            distributed.Client(cluster) as client, tempfile.TemporaryDirectory() as folder:
        machine = this_machine(client, n, b)
        print(machine)
        A, S, T = (os.path.join(folder, name) for name in ("A.json", "S.json", "T.json"))
        random = da.random.default_rng(0)
        gxd.to_gx(A, "A", random.standard_normal((n, n), chunks=b))
        gxd.to_gx(T, "T", random.standard_normal((n * n // 65, 65), chunks=(n * b // 65, 65)))
        A, T = gxd.from_gx(A, "A").persist(), gxd.from_gx(T, "T").persist()
        gxd.to_gx(S, "S", gxd.matmul(A, A.T) + n * da.eye(n, chunks=b))
        S = gxd.from_gx(S, "S").persist()
        distributed.wait([A, S, T])
        rows = [("product", lambda: gxd.matmul(A, A), lambda: A @ A, matmul(n, b)),
                ("Cholesky", lambda: gxd.cholesky(S), lambda: da.linalg.cholesky(S, lower=True), cholesky(n, b)),
                ("least squares", lambda: gxd.lstsq(T[:, :64], T[:, 64]), lambda: da.linalg.lstsq(T[:, :64], T[:, 64])[0],
                 lstsq(n * n // 65, 64, n * b // 65))]
        print(f"{'':16}{'gx s':>10}{'dask.array s':>14}{'ratio':>8}{'model s':>10}{'MB moved':>10}{'model MB':>10}")
        for name, ours, theirs, work in rows:
            times = {"gx": [], "dask": []}
            for _ in range(3):
                for key, make in (("gx", ours), ("dask", theirs)):
                    before = sum(client.run(_moved).values())
                    start = time.perf_counter()
                    distributed.wait(make().persist())
                    times[key].append(time.perf_counter() - start)
                    moved = sum(client.run(_moved).values()) - before if key == "gx" else moved
            gx, dask = statistics.median(times["gx"]), statistics.median(times["dask"])
            in_memory = replace(work, read=0)
            print(f"{name:16}{gx:10.2f}{dask:14.2f}{gx / dask:8.2f}{in_memory.seconds(4, machine):10.2f}"
                  f"{moved / 1e6:10.1f}{work.moved / 1e6:10.1f}", flush=True)


def _moved(dask_worker):
    return dask_worker.transfer_outgoing_bytes_total


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["measure"]:
        measure(*(int(word) for word in (words[1:] + ["4000", "500"][len(words) - 1:])))
    else:
        model()
