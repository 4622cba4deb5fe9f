"""gx_sqlite.dask on four worker processes beside dask.array with NumPy chunks, and a model of more machines.

    bench/cluster.py measure [n] [block] [rows]   times and bytes moved on this machine (needs Dask), beside the model's
    bench/cluster.py kill [n] [block] [rows]      the same calls, a worker killed in each, and their residuals
    bench/cluster.py model                        what 4 ... 1000 machines would take

n: order of the product (f32) and of the Cholesky solve (f64), in square blocks; rows: of the long matrices of 64 columns,
in 16 blocks.  The model is a roofline: a call takes the longest of what the workers compute, what their links carry, what
their disks read, and what Dask's one scheduler handles, and its longest chain of dependent tasks on top.  Its constants
are those of class Machine; `measure` takes them from this machine in the same run.
"""
import contextlib
import os
import signal
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


FAN = 8  # pairs of blocks in a task, blocks in a fold


def matmul(n, b, e=4):
    N = n // b
    return Work(2 * n ** 3, 2 * N * n * n * e * 0.4, 2 * n * n * e, N * N * np.ceil(N / FAN) + 2 * N * N, np.ceil(N / FAN))


def solve(n, b, e=8):
    """Cholesky and one right-hand side."""
    N = n // b
    sums = sum((i + 1) * np.ceil(i / FAN) for i in range(N))
    return Work(n ** 3 / 3, N * n * n * e / 3 * 0.7, n * n * e, sums + N * N, 5 * N)


def lstsq(m, n, p, e=8):
    return Work(2 * m * n * n, p * n * n * e, m * n * e, 3 * p, 2 + np.ceil(np.log(p) / np.log(FAN)))


def knn(q, m, n, p, k=10, e=4):
    return Work(2 * q * m * n, p * q * n * e, m * n * e, 3 * p, 2 + np.ceil(np.log(p) / np.log(FAN)))


CALLS = [("product 40000^2 f32, blocks of 2000", matmul(40000, 2000)),
         ("product 200000^2 f32, blocks of 5000", matmul(200000, 5000)),
         ("Cholesky solve 40000^2, blocks of 2000", solve(40000, 2000)),
         ("Cholesky solve 200000^2, blocks of 5000", solve(200000, 5000)),
         ("least squares 10^7 x 64, 100 blocks", lstsq(10 ** 7, 64, 100)),
         ("least squares 10^9 x 64, 1000 blocks", lstsq(10 ** 9, 64, 1000)),
         ("neighbours of 10^4 in 10^8 x 64, 1000 blocks", knn(10 ** 4, 10 ** 8, 64, 1000))]


def model():
    machine, counts = Machine(), (4, 16, 64, 256, 1000)
    print(f"seconds on machines of {machine}")
    print(f"{'':44}" + "".join(f"{count:>10}" for count in counts))
    for name, work in CALLS:
        print(f"{name:44}" + "".join(f"{work.seconds(count, machine):10.1f}" for count in counts))


def this_machine(client, b):
    """Rates of the processes of this machine at work at the same time: products, copies over a link, tasks."""
    def product(size):
        from gx_sqlite import dask as gxd
        a = np.ones((size, size), np.float32)
        times = []
        for _ in range(3):
            start = time.perf_counter()
            gxd._plus(None, [a], [a], "{}")
            times.append(time.perf_counter() - start)
        return min(times)

    workers = list(client.scheduler_info(n_workers=-1)["workers"])
    large, small = (max(client.gather([client.submit(product, size, pure=False, workers=[w]) for w in workers]))
                    for size in (b, 8))
    start = time.perf_counter()
    client.gather(client.map(lambda k: k, range(400), pure=False))
    task = (time.perf_counter() - start) / 400
    there = client.submit(np.ones, 25_000_000, workers=workers[:1], pure=False)
    distributed.wait(there)
    start = time.perf_counter()
    distributed.wait([client.submit(np.size, there, workers=[w], pure=False) for w in workers[1:]])
    link = 3 * 2e8 / (time.perf_counter() - start)
    return Machine(flops=2 * b ** 3 / max(large - small, 1e-9), link=link, disk=1e9, task=task, step=task + small)


class Calls:
    """Each call of ours, the same in dask.array alone, what the model makes of it, and the residual of an answer."""

    def __init__(self, folder, n, b, rows):
        from gx_sqlite import dask as gxd
        self.n, random = n, da.random.default_rng(0)
        parts = {"A": random.standard_normal((n, n), chunks=b, dtype=np.float32),
                 "T": random.standard_normal((rows, 65), chunks=(rows // 16, 65)),
                 "E": random.standard_normal((rows, 64), chunks=(rows // 16, 64), dtype=np.float32)}
        for name, array in parts.items():
            self.keep(folder, name, array)
        A = self.A.astype(np.float64)
        self.keep(folder, "S", gxd.matmul(A, A.T) + n * da.eye(n, chunks=b))
        self.Q, self.q = self.E[:1000].rechunk({0: 1000}), 1000
        self.b = da.from_array(np.arange(n, dtype=float), chunks=b)
        x, y = self.T[:, :64], self.T[:, 64]
        self.rows = [
            ("product", lambda: gxd.matmul(self.A, self.A), lambda: self.A @ self.A, matmul(n, b), self.of_product),
            ("solve", lambda: gxd.solve(self.S, self.b), lambda: da.linalg.solve(self.S, self.b, assume_a="pos"), solve(n, b),
             lambda x: self.relative(self.S @ x[:, 0], self.b)),
            ("least squares", lambda: gxd.lstsq(x, y), lambda: da.linalg.lstsq(x, y)[0], lstsq(rows, 64, 16),
             lambda found: self.relative(x.T @ (x @ found[:, 0]), x.T @ y)),
            ("neighbours", lambda: gxd.knn(self.Q, self.E, 10, "l2")[0], self.plain_knn, knn(1000, rows, 64, 16),
             lambda ids: float((ids[:, 0] != np.arange(1000)).mean().compute())),
            ("components", lambda: gxd.pca(self.T, 3).components, lambda: da.linalg.svd(self.T - self.T.mean(axis=0))[2][:3],
             lstsq(rows, 65, 16), lambda v: float(abs(v @ v.T - np.eye(3)).max().compute()))]

    def keep(self, folder, name, array):
        from gx_sqlite import dask as gxd
        path = os.path.join(folder, name + ".json")
        gxd.to_gx(path, name, array)
        setattr(self, name, gxd.from_gx(path, name).persist())
        distributed.wait(getattr(self, name))

    def plain_knn(self):
        def nearest(e, q):
            d = (q ** 2).sum(1)[:, None] - 2 * q @ e.T + (e ** 2).sum(1)
            ids = np.argpartition(d, 10, axis=1)[:, :10]
            return np.hstack([ids, np.take_along_axis(d, ids, 1)])
        found = [dask.delayed(nearest)(e, self.Q.to_delayed()[0, 0]) for e in self.E.to_delayed()[:, 0]]
        return dask.delayed(lambda parts: np.sort(np.hstack([part[:, 10:] for part in parts]), axis=1)[:, :10])(found)

    def of_product(self, C):
        x = da.ones(self.n, chunks=C.chunks[1], dtype=np.float32)
        return self.relative(C @ x, self.A @ (self.A @ x))

    @staticmethod
    def relative(got, want):
        return float((da.linalg.norm(got - want) / da.linalg.norm(want)).compute())


@contextlib.contextmanager
def at_work(n, b, rows):
    os.environ.setdefault("GX_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with distributed.LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=":0", memory_limit=0) as cluster, \
            distributed.Client(cluster) as client, tempfile.TemporaryDirectory() as folder:
        yield client, Calls(folder, n, b, rows)


def measure(n, b, rows):
    with at_work(n, b, rows) as (client, calls):
        machine = this_machine(client, b)
        print(machine)
        print(f"{'':16}{'gx s':>10}{'dask.array s':>14}{'ratio':>8}{'model s':>10}{'MB moved':>10}{'at most':>10}{'residual':>10}")
        for name, ours, theirs, work, residual in calls.rows:
            times = {"gx": [], "dask": []}
            for _ in range(3):
                for key, make in (("gx", ours), ("dask", theirs)):
                    before = sum(client.run(_moved).values())
                    start = time.perf_counter()
                    answer = client.persist(make())
                    distributed.wait(answer)
                    times[key].append(time.perf_counter() - start)
                    if key == "gx":
                        moved, left = sum(client.run(_moved).values()) - before, residual(answer)
                    del answer
            gx, plain = statistics.median(times["gx"]), statistics.median(times["dask"])
            in_memory = replace(work, read=0)
            print(f"{name:16}{gx:10.2f}{plain:14.2f}{gx / plain:8.2f}{in_memory.seconds(4, machine):10.2f}"
                  f"{moved / 1e6:10.1f}{work.moved / 1e6:10.1f}{left:10.1e}", flush=True)


def kill(n, b, rows):
    with at_work(n, b, rows) as (client, calls):
        for name, ours, _, _, residual in calls.rows:
            client.wait_for_workers(4)
            answer = client.persist(ours())
            time.sleep(0.3)
            killed, pid = next(iter(client.run(os.getpid).items()))
            os.kill(pid, signal.SIGKILL)
            distributed.wait(answer)
            print(f"{name:16} worker {killed} killed, residual {residual(answer):.1e}", flush=True)
            del answer


def _moved(dask_worker):
    return dask_worker.transfer_outgoing_bytes_total


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] in (["measure"], ["kill"]):
        import dask
        import dask.array as da
        import distributed
        sizes = [int(word) for word in words[1:] + ["4000", "1000", "1000000"][len(words) - 1:]]
        {"measure": measure, "kill": kill}[words[0]](*sizes)
    else:
        model()
