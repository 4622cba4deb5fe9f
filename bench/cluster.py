"""gx_sqlite.dask on worker processes of this machine beside dask.array with NumPy chunks on the same processes.

    bench/cluster.py measure [CALL ...]   times, bytes moved and residuals, beside what bench/cluster_model.py says
    bench/cluster.py kill [CALL ...]      the same calls, a worker killed in each, and their residuals
    bench/cluster.py example              docs/dask.md's example, then a product from files to files that no worker has the
                                          memory for; a worker is killed in its middle; its blocks beside NumPy's

--nodes N: the workers are N nodes with addresses of their own (bench/nodes.py); killed is a node.  Where namespaces cannot be made
this ends with status 77.

CALL: product (f32, order n), solve (f64, Cholesky, order n), least-squares, neighbours, components (rows x 64).  Matrices are
stored as sharded ones in --dir and read from there first, into the workers' memory, where dask.array has them; gx reads a
product's factors and a solve's matrix from the files again, which its seconds include.  --head M: of the product only the first
M rows; --alone: without dask.array; --backend cpu auto: gx without its device, then with it.  Each worker has --threads threads,
which compute with one thread each (Dask's own choice); or with --inner of them.  Ratios are medians over rounds in turn, every
other one of which begins with dask.array.  The limit is what the steps' arithmetic takes on all processors and nothing else
does.  The model's figures, but for the bytes that are moved, come from this machine: each kind of step is timed while all lanes
are at it, from the same moment on, and alone, before and after each round, since others use the processors too; --window 0:
without all that.  # lines say what lanes did, and when they ended.
"""
import argparse
import contextlib
import functools
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[0] = str(ROOT / "ext/python")  # not this folder: its sparse.py is not the package that Dask looks for
os.environ["PYTHONPATH"] = os.pathsep.join([sys.path[0], *filter(None, [os.environ.get("PYTHONPATH")])])  # the workers'
os.environ.setdefault("GX_SO", str(ROOT / "gx.so"))
QUERIES, NEAREST = 1000, 10


def beside(name):
    """A module of this folder."""
    spec = importlib.util.spec_from_file_location(name, HERE / (name + ".py"))
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cluster_model, nodes = beside("cluster_model"), beside("nodes")


def processors():
    return len(os.sched_getaffinity(0))


# The steps' rates -----------------------------------------------------------------------------------------------------

def timed_step(kind, size, folder, lanes, seconds):
    """On a worker, while others of so many lanes do the same: flops/s of that kind of step, on blocks of that size."""
    step, flops = step_of(kind, size, folder)
    step()
    wait_for_all(folder, kind, lanes)
    taken, end = [], time.perf_counter() + seconds
    while not taken or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        taken.append(time.perf_counter() - start)
    return flops / statistics.mean(taken)


def wait_for_all(folder, kind, lanes):
    """Until so many lanes are here, whose files say so: what they measure they measure of a machine that is busy."""
    mine = os.path.join(folder, f"{kind}-{lanes}.at")
    os.makedirs(mine, exist_ok=True)
    pathlib.Path(mine, f"{os.getpid()}-{threading.get_ident()}").touch()
    end = time.perf_counter() + 60
    while len(os.listdir(mine)) < lanes and time.perf_counter() < end:
        time.sleep(0.001)


def step_of(kind, size, folder):
    """A step of that kind, and its flops, or bytes.  Blocks are as many as a task has: one alone would stay in the cache."""
    from gx_sqlite import dask as gxd
    random = np.random.default_rng(0)
    if kind == "read":
        size, dtype = size
        path = os.path.join(folder, f"step-{threading.get_ident()}-{os.getpid()}.db")
        block = random.random((size, size), dtype).T
        gxd._write(path, "A", block)
        return lambda: gxd.read_block(path, "A", 0, size, 0, size), block.nbytes
    if kind == "total":
        shares = [np.ones((size, size), np.float32) for _ in range(4)]
        return lambda: gxd._total(shares), 4 * size ** 2
    if kind in ("qr", "ones", "search"):  # blocks come by columns, as from_gx reads them
        e = random.random((65 if kind == "qr" else 64, size), np.float32 if kind == "search" else np.float64).T
        q = np.asfortranarray(e[:QUERIES])
        return {"qr": (lambda: gxd._triangle_beside(e[:, :64], e[:, 64]), 2 * size * 65 ** 2),
                "ones": (lambda: gxd._triangle_with_ones(e), 2 * size * 65 ** 2),
                "search": (lambda: gxd._nearest(q, e, NEAREST, '{"metric":"l2"}', 0), 2 * QUERIES * size * 64)}[kind]
    if kind == "product":
        size, height, width, count = size
        block = random.random((size, size), np.float32).T
        left, right = ([[block.copy("F") for _ in range(count)] for _ in range(side)] for side in (height, width))
        return lambda: gxd._products(None, left, right, "f4"), 2 * count * height * width * size ** 3
    size, fan = size
    a, *left = (random.random((size, size)).T for _ in range(fan + 1))
    right = [block.copy("F") for block in left]
    s, x = a + a.T + 2 * size * np.eye(size), a[:, :1].copy()
    factor = gxd._cholesky_block(s, [], 0) if kind == "triangle" else None
    return {"update": (lambda: gxd._plus(s, left, right, '{"transb":true,"alpha":-1}'), 2 * fan * size ** 3),
            "square": (lambda: gxd._less_squares(s, left), fan * size ** 3),
            "factor": (lambda: gxd._cholesky_block(s, [], 0), size ** 3 / 3),
            "triangle": (lambda: gxd._trsm(factor, s, '{"uplo":"lower","side":"right","trans":true}'), size ** 3),
            "vector": (lambda: gxd._plus(None, [a], [x], "{}"), 2 * size ** 2)}[kind]


def this_machine(client, args, sizes, folder):
    """What the model wants to know of the processes at work; sizes: of the blocks, by kind of step."""
    workers = sorted(client.nthreads())
    at_once = max(1, min(processors() // args.inner, len(workers) * args.threads))
    there = [workers[k % len(workers)] for k in range(at_once)]

    def rate(kind, size, lanes, seconds):
        with tempfile.TemporaryDirectory(dir=folder) as own:
            found = [client.submit(timed_step, kind, size, own, lanes, seconds, pure=False, workers=[w]) for w in there[:lanes]]
            return statistics.harmonic_mean(client.gather(found))  # each has its share, fast or slow

    rates = {kind: rate(kind, size, at_once, args.window) for kind, size in sizes.items()}
    alone = {kind: rate(kind, size, 1, args.window / 4) for kind, size in sizes.items()}
    start = time.perf_counter()
    client.gather(client.map(lambda k: k, range(400), pure=False))
    task = (time.perf_counter() - start) / 400
    blocks = [[client.submit(np.ones, 2_000_000, workers=[w], pure=False) for _ in range(3)] for w in workers]
    distributed.wait(blocks)
    start = time.perf_counter()
    moved = [client.submit(_sizes, *blocks[k - 1], workers=[w], pure=False) for k, w in enumerate(workers)]
    distributed.wait(moved)
    # the processors' time for the bytes, which all the workers moved in that time
    link = 4.8e7 * len(workers) / (time.perf_counter() - start) / min(processors(), len(workers))
    machine = cluster_model.Machine(rates=rates, alone=alone, link=link, task=task, **waits(client, workers), lanes=args.threads,
                                    processors=processors() // args.inner)
    print("# GFLOP/s (or GB/s) of a step, all lanes at work, and alone: " + ", ".join(
        f"{kind} {rates[kind] / 1e9:.3g} {alone[kind] / 1e9:.3g}" for kind in rates) +
        f"; link {machine.link / 1e9:.3g} GB/s, task {1e3 * machine.task:.2g} ms, hop {1e3 * machine.hop:.2g} ms, "
        f"start {1e3 * machine.start:.2g} ms", flush=True)
    return machine


def waits(client, workers):
    """From a result to what needs it, and of a call that does nothing."""
    start, last = time.perf_counter(), None
    for k in range(40):
        last = client.submit(_sizes, last, workers=[workers[k % len(workers)]], pure=False)
    distributed.wait(last)
    middle = time.perf_counter()
    for _ in range(3):
        timed(client, lambda: da.ones(1))
    return {"hop": (middle - start) / 40, "start": (time.perf_counter() - middle) / 3}


def _sizes(*blocks):
    return sum(block.nbytes for block in blocks if isinstance(block, np.ndarray))


# The calls ------------------------------------------------------------------------------------------------------------

class Calls:
    """Each call: its matrices, ours, dask.array's, the residual of an answer, and the model's tasks with
    the sizes of blocks, by kind of step."""

    def __init__(self, args, folder, cluster):
        self.args, self.folder, self.cluster = args, folder, cluster
        self.shape = (args.rows, 64)

    def stored(self, name, array):
        """Stored as a sharded matrix, read back into the workers; its files go."""
        held = self.path_of(name, array)[1]
        if self.args.what == "measure":  # a killed worker's are read again
            self.clear()
        return held

    def path_of(self, name, array):
        from gx_sqlite import dask as gxd
        path, start = os.path.join(self.folder, name + ".json"), time.perf_counter()
        gxd.to_gx(path, name, array)
        wrote = time.perf_counter()
        held = gxd.from_gx(path, name).persist()
        distributed.wait(held)
        print(f"# {name}: {array.shape[0]} x {array.shape[1]} {array.dtype}, {array.nbytes / 1e9:.2f} GB made and stored in "
              f"{wrote - start:.1f} s, read in {time.perf_counter() - wrote:.1f} s", flush=True)
        return path, held

    def clear(self):
        for path in pathlib.Path(self.folder).iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def long(self, name, columns, dtype):
        rows = self.args.rows
        chunks = (-(-rows // self.args.parts), columns)
        return self.stored(name, da.random.default_rng(0).standard_normal((rows, columns), chunks=chunks, dtype=dtype))

    def product(self):
        from gx_sqlite import dask as gxd
        n, b, m = self.args.n, self.args.block, self.args.head or self.args.n
        path, A = self.path_of("A", da.random.default_rng(0).standard_normal((n, n), chunks=b, dtype=np.float32))
        x = da.ones(n, chunks=b, dtype=np.float32)
        ours, head = gxd.from_gx(path, "A"), gxd.from_gx(head_of(path, -(-m // b)), "A")
        def expected():
            is_device = gxd._has_device()
            sides = cluster_model.rectangle(m // b, n // b, 64 if is_device else 256)
            count = min(n // b, max(4, gxd._STRIP // (4 * b ** 2)) if is_device else 4)  # that go to a device at once
            return cluster_model.matmul_of_stored(n, b, m, is_device), {"product": (b, *sides, count), "read": (b, "f4"), "total": b}
        return lambda: gxd.matmul(head, ours, read=True), lambda: A[:m] @ A, lambda C: relative(C @ x, A[:m] @ (A @ x)), expected

    def solve(self):
        from gx_sqlite import dask as gxd
        n, b = self.args.n, self.args.block
        i = da.arange(n, chunks=b, dtype=float)
        path, S = self.path_of("S", 1 / (1 + abs(i[:, None] - i[None, :])) + 20 * da.eye(n, chunks=b))
        y, ours = da.cos(i).persist(), gxd.from_gx(path, "S")
        return (lambda: gxd.solve(ours, y), lambda: da.linalg.solve(S, y, assume_a="pos"),
                lambda x: relative(S @ x.reshape(-1), y), lambda: (cluster_model.solve(n, b), {"read": (b, "f8"), **dict.fromkeys(
                    ("update", "square", "factor", "triangle", "vector"), (b, cluster_model.products_in_a_task(b, n // b)))}))

    def least_squares(self):
        from gx_sqlite import dask as gxd
        T, args = self.long("T", 65, np.float64), self.args
        x, y = T[:, :64], T[:, 64]
        return (lambda: gxd.lstsq(x, y), lambda: da.linalg.lstsq(x, y)[0],
                lambda found: relative(x.T @ (x @ found.reshape(-1)), x.T @ y),
                lambda: (cluster_model.lstsq(args.rows, 65, args.parts, is_held=True), {"qr": -(-args.rows // args.parts)}))

    def components(self):
        from gx_sqlite import dask as gxd
        T, args = self.long("P", 64, np.float64), self.args
        return (lambda: gxd.pca(T, 3).components, lambda: da.linalg.svd(T - T.mean(axis=0))[2][:3],
                lambda v: float(abs(v @ v.T - np.eye(3)).max().compute()),
                lambda: (cluster_model.lstsq(args.rows, 65, args.parts, is_held=True, kind="ones"),
                         {"ones": -(-args.rows // args.parts)}))

    def neighbours(self):
        from gx_sqlite import dask as gxd
        E, args = self.long("E", 64, np.float32), self.args
        Q = E[:QUERIES].rechunk({0: QUERIES}).persist()
        return (lambda: gxd.knn(Q, E, NEAREST, "l2")[0], lambda: plain_neighbours(Q, E),
                lambda ids: float((ids[:, 0] != np.arange(QUERIES)).mean().compute()),
                lambda: (cluster_model.knn(QUERIES, args.rows, 64, args.parts, NEAREST, is_held=True),
                         {"search": -(-args.rows // args.parts)}))


def head_of(path, lines):
    """A manifest of the first lines of blocks."""
    whole = json.loads(pathlib.Path(path).read_text())
    part = {**whole, "rows": whole["rows"][:lines], "blocks": whole["blocks"][:lines * len(whole["cols"])]}
    head = pathlib.Path(path).with_suffix(".head.json")
    head.write_text(json.dumps(part))
    return str(head)


def plain_neighbours(Q, E):
    """As one would in NumPy: squares of distances by a product, the least of each block, then of these."""
    def nearest(e, q, first):
        d = (q ** 2).sum(1)[:, None] - 2 * q @ e.T + (e ** 2).sum(1)
        ids = np.argpartition(d, NEAREST, axis=1)[:, :NEAREST]
        return ids + first, np.take_along_axis(d, ids, 1)

    def best(parts):
        ids, d = (np.hstack([part[n] for part in parts]) for n in (0, 1))
        order = np.argsort(d, axis=1)[:, :NEAREST]
        return np.take_along_axis(ids, order, 1)

    first = np.cumsum((0, *E.chunks[0])).tolist()
    found = [dask.delayed(nearest)(e, Q.to_delayed()[0, 0], first[k]) for k, e in enumerate(E.to_delayed()[:, 0])]
    return dask.delayed(best)(found)


def relative(got, want):
    return float((da.linalg.norm(got - want) / da.linalg.norm(want)).compute())


NAMES = {"product": Calls.product, "solve": Calls.solve, "least-squares": Calls.least_squares,
         "neighbours": Calls.neighbours, "components": Calls.components}


# Measuring ------------------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def at_work(args):
    for name in ("GX_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = str(args.inner)
    if args.memory:
        os.environ.setdefault("GX_MEMORY_LIMIT", str(args.memory // 4))
    dask.config.set({"distributed.nanny.pre-spawn-environ": {name: args.inner for name in
                                                             ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}})
    dask.config.set({"distributed.scheduler.work-stealing-interval": args.steal})
    cluster = nodes.Nodes(args.nodes, args.threads, args.memory) if args.nodes else distributed.LocalCluster(
        n_workers=args.workers, threads_per_worker=args.threads, dashboard_address=None, memory_limit=args.memory,
        local_directory=args.dir)
    with cluster, distributed.Client(cluster.scheduler_address) as client, tempfile.TemporaryDirectory(dir=args.dir) as folder:
        client.wait_for_workers(args.workers, timeout=60)
        client.get_task_stream()  # it is kept from the first call on
        yield client, Calls(args, folder, cluster)


def timed(client, make):
    """Seconds, the workers' processor seconds, bytes that moved between them; the answer."""
    def counters():
        return np.array([time.perf_counter(), sum(client.run(time.process_time).values()), sum(client.run(_moved).values())])
    before, start = counters(), time.time()
    answer = client.persist(make())
    distributed.wait(answer)
    return counters() - before, answer, start


def tell(client, name, side, counts, start):
    """What a call took, and what lanes did since: of each kind of task how many, and their seconds; when lanes ended."""
    print(f"# {name}: {side} {counts[0]:.2f} s, {counts[1]:.2f} s of processors, {counts[2] / 1e6:.1f} MB moved", flush=True)
    kinds, last = {}, {}
    for task in client.get_task_stream(start=start, stop=start + counts[0]):
        for part in task["startstops"]:
            name = part["action"] if part["action"] != "compute" else str(task["key"]).lstrip("('").split("-")[0]
            kinds.setdefault(name, []).append(part["stop"] - part["start"])
            lane = task["worker"], task["thread"]
            last[lane] = max(last.get(lane, 0), part["stop"])
    ends = sorted(max(last.values()) - end for end in last.values()) or [0]
    print("#     " + ", ".join(f"{name} {len(taken)} x {1e3 * statistics.median(taken):.1f} ms = {sum(taken):.2f} s"
                               for name, taken in sorted(kinds.items(), key=lambda kind: -sum(kind[1]))[:6])
          + f", of {len(last)} lanes; the first lane ends {ends[-1]:.2f} s before the last, half of them "
          f"{statistics.median(ends):.2f} s", flush=True)


def _moved(dask_worker):
    return dask_worker.transfer_outgoing_bytes_total


def measure_call(client, calls, name, args):
    ours, theirs, residual, tasks_and_sizes = NAMES[name](calls)

    def expected():
        if not args.window:
            return [np.nan] * 3
        tasks, sizes = tasks_and_sizes()
        machine = this_machine(client, args, sizes, calls.folder)
        seconds, moved = cluster_model.simulate(tasks, args.workers, machine)
        print(f"# {name}: the model says {seconds:.2f} s, {moved / 1e6:.1f} MB moved", flush=True)
        return seconds, moved, cluster_model.arithmetic(tasks, args.workers, machine)

    gx, model, left = ({backend: [] for backend in args.backend} for _ in range(3))
    plain = []

    def one_of_ours(backend):
        client.run(compute_on, backend)
        compute_on(backend)
        before = expected()
        counts, answer, start = timed(client, ours)
        gx[backend].append(counts)
        tell(client, name, f"gx, {backend}", counts, start)
        model[backend].append(np.mean([before, expected()], axis=0))
        left[backend].append(residual(answer))

    def one_of_theirs():
        counts, answer, start = timed(client, theirs)
        plain.append(counts)
        tell(client, name, "dask.array", counts, start)
        del answer

    for k in range(args.rounds):
        turns = [functools.partial(one_of_ours, backend) for backend in args.backend]
        turns += [] if args.alone else [one_of_theirs]
        for turn in turns if k % 2 == 0 else turns[::-1]:
            turn()
        if plain:
            print(f"# {name}: round {k + 1}: " + ", ".join(
                f"{backend} {gx[backend][k][0]:.2f} / {plain[k][0]:.2f} s = {gx[backend][k][0] / plain[k][0]:.3f}, residual "
                f"{left[backend][k]:.1e}" for backend in args.backend), flush=True)
    for backend in args.backend:
        report(f"{name} {backend}", *map(np.array, (gx[backend], plain, model[backend])), max(left[backend]))


def compute_on(backend):
    """gx in this process from now on."""
    from gx_sqlite import dask as gxd
    os.environ["GX_BACKEND"] = backend
    gxd._of_thread = threading.local()
    gxd._has_device.cache_clear()


def report(name, gx, plain, model, left):
    plain = plain if plain.size else np.full_like(gx, np.nan)
    ratio, factor = np.median(gx / plain, axis=0), np.median(gx[:, 0] / model[:, 0])
    print(f"{name:19}{np.median(gx[:, 0]):8.2f}{np.median(plain[:, 0]):14.2f}{ratio[0]:7.2f}{ratio[1]:15.2f}"
          f"{np.median(model[:, 2]):9.2f}{np.median(model[:, 0]):9.2f}{factor:10.2f}{gx[:, 2].max() / 1e6:10.1f}{plain[:, 2].max() / 1e6:12.1f}"
          f"{np.median(model[:, 1]) / 1e6:10.1f}{left:10.1e}", flush=True)


def measure(client, calls, args):
    print(f"{'':19}{'gx s':>8}{'dask.array s':>14}{'ratio':>7}{'of processors':>15}{'limit s':>9}{'model s':>9}{'gx/model':>10}"
          f"{'MB moved':>10}{'dask moved':>12}{'model MB':>10}{'residual':>10}", flush=True)
    for name in args.call:
        measure_call(client, calls, name, args)
        calls.clear()


def kill(client, calls, args):
    for name in args.call:
        if args.nodes:
            calls.cluster.fill()
        client.wait_for_workers(args.workers, timeout=60)
        ours, _, residual, _ = NAMES[name](calls)
        answer = client.persist(ours())
        time.sleep(args.after)
        was_done = all(future.done() for future in distributed.futures_of(answer))
        killed = kill_one(client, calls)
        distributed.wait(answer)
        print(f"{name:16} {killed} killed {'after the end' if was_done else 'in the middle'}, "
              f"residual {residual(answer):.1e}", flush=True)
        del answer


def kill_one(client, calls):
    """A worker, with --nodes all of a node; which one."""
    if calls.args.nodes:
        return "node " + calls.cluster.kill()
    killed, pid = next(iter(client.run(os.getpid).items()))
    os.kill(pid, signal.SIGKILL)
    return "worker " + killed


def example(client, calls, args):
    from gx_sqlite import dask as gxd
    os.chdir(calls.folder)
    print(f"{'workers there':22}{time.perf_counter() - args.start:7.2f} s  {', '.join(sorted(client.nthreads()))}", flush=True)
    page = re.search(r"^```python\n(.*?)^```", (ROOT / "docs/dask.md").read_text(), re.M | re.S)[1]
    with phase("the page's example") as told:
        exec(compile(page, "docs/dask.md", "exec"), {"__name__": "page"})
        told.append("its assertions hold")
    with phase("A and B stored") as told:
        for seed, name in enumerate("AB"):
            gxd.to_gx(name + ".json", name, da.random.default_rng(seed).standard_normal((args.n, args.n), chunks=args.block))
        told.append(f"{args.n} x {args.n} f64, {3 * 8e-6 * args.n ** 2:.0f} MB with C; a worker may use "
                    f"{f'{args.memory / 1e6:.0f} MB' if args.memory else 'all memory'}, gx in it {gx_memory() / 1e6:.0f} MB")
    with phase("C = A B stored") as told:
        C = gxd.matmul(gxd.from_gx("A.json", "A"), gxd.from_gx("B.json", "B"), read=True)
        answer, count = client.compute(gxd.to_gx("C.json", "C", C, compute=False)), len(C.chunks[0])
        with phase("  until one is killed") as killed:
            while len(there := list(pathlib.Path().glob("C.*.db"))) < -(-count // 3) and not answer.done():
                time.sleep(0.01)
            who = kill_one(client, calls)
            killed.append(f"{who}, when {len(there)} of C's {count} databases had been begun")
        if answer.done():
            sys.exit("C was there before a worker had been killed: take a larger --n")
        with phase("  until Dask noticed") as noticed:
            while any(who.split()[1] in address for address in client.nthreads()) and not answer.done():
                time.sleep(0.05)
            noticed.append("the others work on meanwhile")
        answer.result()
        most = max(client.run(peak).values())
        told.append(f"on {len(client.nthreads())} workers; the most memory that one had: {most / 1e6:.0f} MB")
    with phase("A B by NumPy") as told:
        A, B, C = (gxd.from_gx(name + ".json", name).compute(scheduler="sync") for name in "ABC")
        start = time.perf_counter()
        want = A @ B
        taken = time.perf_counter() - start
        difference = np.linalg.norm(C - want) / np.linalg.norm(want)
        told.append(f"relative difference {difference:.1e}; {taken:.2f} s of it are NumPy's product, the rest is reading")
    if not difference <= 1e-13:
        sys.exit("C is not what NumPy makes of it")
    if 0 < args.memory < most:
        sys.exit(f"a worker had {most} bytes and may use {args.memory}")


@contextlib.contextmanager
def phase(name):
    """Prints a line: its seconds, and what it told."""
    told, start = [], time.perf_counter()
    yield told
    print(f"{name:22}{time.perf_counter() - start:7.2f} s  {', '.join(told)}", flush=True)


def gx_memory():
    """What gx_config('memory_limit') says, here and in the workers."""
    from gx_sqlite import _connect, _stored
    with contextlib.closing(_stored.database(":memory:")) as db:
        return _connect.value(db, "SELECT gx_config('memory_limit')")


def peak():
    """Bytes of memory that this process had at most."""
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path("/proc/self/status").read_text())[1])


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["measure", "kill", "example"])
    parser.add_argument("call", nargs="*", metavar="CALL", default=[])
    parser.add_argument("--n", type=int, default=4000)
    parser.add_argument("--block", type=int, default=1000)
    parser.add_argument("--head", type=int, default=0)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--parts", type=int, default=16)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--nodes", type=int, default=0, help="workers in network namespaces of their own")
    parser.add_argument("--memory", type=float, default=0, help="MB that Dask lets a worker use; 0: any number")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--inner", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--window", type=float, default=1.0, help="seconds for which a kind of step is measured; 0: without the model")
    parser.add_argument("--backend", nargs="+", default=[os.environ.get("GX_BACKEND", "auto")], help="of gx: cpu, auto ...")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--steal", default="1s", help="how often Dask looks for tasks that idle workers could take over")
    parser.add_argument("--after", type=float, default=0.3, help="seconds after which a worker is killed")
    parser.add_argument("--dir", default=None)
    args = parser.parse_intermixed_args()
    args.start = time.perf_counter()
    args.call = args.call or list(NAMES)
    if not set(args.call) <= set(NAMES):
        parser.error("the calls are " + ", ".join(NAMES))
    args.memory = round(1e6 * args.memory)
    if args.nodes:
        if not 2 <= args.nodes <= nodes.MOST:
            parser.error(f"--nodes is between 2 and {nodes.MOST}: one is killed")
        args.workers, args.dir = args.nodes, nodes.FOLDER
    return args


def main(args):
    with at_work(args) as (client, calls):
        {"measure": measure, "kill": kill, "example": example}[args.what](client, calls, args)


if __name__ == "__main__":
    asked = arguments()
    if asked.nodes:
        nodes.enter()
    import dask
    import dask.array as da
    import distributed
    main(asked)
