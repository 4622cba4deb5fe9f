"""gx_sqlite.dask on four worker processes beside dask.array with NumPy chunks, and a model of more machines.

    bench/cluster.py measure [n] [block] [rows]   times and bytes moved on this machine (needs Dask), beside the model's
    bench/cluster.py kill [n] [block] [rows]      the same calls, a worker killed in each, and their residuals
    bench/cluster.py model                        what 4 ... 1000 machines would take

n: order of the product (f32) and of the Cholesky solve (f64), in square blocks; rows: of the long matrices of 64 columns,
in 16 blocks.  The model is a roofline: a call takes the longest of what the workers compute, what their links carry, what
their disks read, and what Dask's one scheduler handles (their sum where all of them are processes on the same
processors), and its longest chain of dependent tasks on top.  Its constants
are those of class Machine; `measure` takes them from this machine, before each call anew, since others use it too: the
factor between the call's time and the model's is the median over the rounds.
"""
import contextlib
import os
import pathlib
import signal
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, replace

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT / "ext/python")  # not this folder: its sparse.py is not the package that Dask looks for
os.environ["PYTHONPATH"] = sys.path[0]  # of the workers
os.environ.setdefault("GX_SO", str(ROOT / "gx.so"))


@dataclass(frozen=True)
class Machine:
    flops: float = 1e12       # a worker, f64 products in blocks
    qr: float = 0.1           # the part of that which QR of a long block reaches,
    search: float = 0.1       # and looking for neighbours
    link: float = 1.25e9      # bytes/s in and out of a worker: 10 Gbit/s
    disk: float = 1e9         # bytes/s from a worker's disk
    task: float = 5e-4        # seconds of the scheduler for each task
    step: float = 5e-3        # seconds of a worker around a task: copies of blocks as values, a message
    is_one: bool = False      # workers, links and the scheduler take the same processors


@dataclass(frozen=True)
class Work:
    """What a call has in all."""

    flops: float
    moved: float   # bytes between workers
    read: float    # bytes from disks
    tasks: float
    chain: float   # tasks that wait for each other
    bound: float   # bytes between workers, as docs/dask.md has it
    rate: str = ""  # "": products; else whose part of the rate

    def seconds(self, workers, machine):
        flops = machine.flops * (getattr(machine, self.rate) if self.rate else 1)
        compute = self.flops / flops / workers + self.tasks / workers * machine.step
        parts = (compute, self.moved / machine.link / workers, self.read / machine.disk / workers, self.tasks * machine.task)
        in_turn = self.chain * (machine.step + self.flops / self.tasks / flops)
        return (sum if machine.is_one else max)(parts) + in_turn


FAN = 8  # pairs of blocks in a task, blocks in a fold


def matmul(n, b, e=4):
    N, bound = n // b, 2 * (n // b) * n * n * e
    return Work(2 * n ** 3, bound * 0.4, 2 * n * n * e, N * N * np.ceil(N / FAN) + 2 * N * N, np.ceil(N / FAN), bound)


def solve(n, b, e=8):
    """Cholesky and one right-hand side."""
    N = n // b
    sums = sum((i + 1) * np.ceil(i / FAN) for i in range(N))
    bound = N * n * n * e / 3 + 2 * N * n * e
    return Work(n ** 3 / 3, bound * 0.6, n * n * e, sums + N * N / 2 + N * N, 5 * N, bound)


def lstsq(m, n, p, e=8):
    chain = 2 + np.ceil(np.log(p) / np.log(FAN))
    return Work(2 * m * n * n, p * n * n * e, m * n * e, 3 * p, chain, p * n * n * e, "qr")


def knn(q, m, n, p, k=10, e=4):
    chain, bound = 2 + np.ceil(np.log(p) / np.log(FAN)), p * q * (n * e + 16 * k)
    return Work(2 * q * m * n, bound, m * n * e, 3 * p, chain, bound, "search")


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


def this_machine(client, b, rows, rate):
    """Rates of the processes of this machine at work at the same time: products, the call's own step, copies, tasks."""
    def usual(kind, size):
        from gx_sqlite import dask as gxd
        if kind == "product":
            a = np.ones((size, size), np.float32)
            work, flops = (lambda: gxd._plus(None, [a], [a], "{}")), 2 * size ** 3
        elif kind == "qr":
            a = np.random.default_rng(0).random((size, 65))
            work, flops = (lambda: gxd._triangle([a])), 2 * size * 65 ** 2
        else:
            e = np.random.default_rng(0).random((size, 64), np.float32)
            work, flops = (lambda: gxd._nearest(e[:1000], e, 10, '{"metric":"l2"}', 0)), 2 * 1000 * size * 64
        work()
        start = time.perf_counter()
        for _ in range(3):
            work()
        return (time.perf_counter() - start) / 3, flops

    def at_once(kind, size):
        found = client.gather([client.submit(usual, kind, size, pure=False, workers=[w]) for w in workers])
        return statistics.mean(seconds for seconds, _ in found), found[0][1]

    workers = list(client.scheduler_info(n_workers=-1)["workers"])
    (large, flops), (small, _) = at_once("product", b), at_once("product", 8)
    flops /= max(large - small, 1e-9)
    share = {}
    if rate:
        seconds, count = at_once(rate, rows // 16)
        share[rate] = count / seconds / flops
    start = time.perf_counter()
    client.gather(client.map(lambda k: k, range(400), pure=False))
    task = (time.perf_counter() - start) / 400
    there = [client.submit(np.ones, 4_000_000, workers=[w], pure=False) for w in workers]
    distributed.wait(there)
    start = time.perf_counter()
    distributed.wait([client.submit(np.size, there[k - 1], workers=[w], pure=False) for k, w in enumerate(workers)])
    link = 3.2e7 / (time.perf_counter() - start)
    return Machine(flops=flops, link=link, disk=1e9, task=task, step=task + small, is_one=True, **share)


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


def timed(client, make):
    """Seconds, the workers' processor seconds, bytes that moved between them; the answer."""
    def counters():
        return np.array([time.perf_counter(), sum(client.run(time.process_time).values()), sum(client.run(_moved).values())])
    before = counters()
    answer = client.persist(make())
    distributed.wait(answer)
    return counters() - before, answer


def measure(n, b, rows):
    with at_work(n, b, rows) as (client, calls):
        print(f"{'':16}{'gx s':>8}{'dask.array s':>14}{'ratio':>7}{'of processors':>15}{'model s':>9}{'gx/model':>10}"
              f"{'MB moved':>10}{'dask moved':>12}{'page: at most':>15}{'residual':>10}")
        for name, ours, theirs, work, residual in calls.rows:
            gx, plain, model = [], [], []
            for _ in range(3):
                machine = this_machine(client, b, rows, work.rate)
                model.append(replace(work, read=0).seconds(4, machine))
                counts, answer = timed(client, ours)
                gx.append(counts)
                left = residual(answer)
                counts, answer = timed(client, theirs)
                plain.append(counts)
                del answer
            gx, plain, model = np.array(gx), np.array(plain), np.array(model)
            ratio, factor = np.median(gx / plain, axis=0), np.median(gx[:, 0] / model)
            print(f"{name:16}{np.median(gx[:, 0]):8.2f}{np.median(plain[:, 0]):14.2f}{ratio[0]:7.2f}{ratio[1]:15.2f}"
                  f"{np.median(model):9.2f}{factor:10.2f}{gx[:, 2].max() / 1e6:10.1f}{plain[:, 2].max() / 1e6:12.1f}"
                  f"{work.bound / 1e6:15.1f}{left:10.1e}", flush=True)


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
