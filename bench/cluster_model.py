"""How long the block algorithms of gx_sqlite.dask take: their tasks, scheduled as Dask would, on machines described in figures.

    bench/cluster_model.py      what 4 ... 1000 machines would take

A call is a list of tasks, the same ones that gx_sqlite/dask.py makes, each with its kind, its flops, the bytes of its result
and the tasks whose results it needs.  simulate() gives each task, in the order in which they become ready, to the lane (a
thread of a worker process) that can begin it first: where the lane's process has not got what the task needs, the bytes come
over its link.  A task takes its flops at the rate of its kind and begins so much after the last of what it needs as messages
take; one scheduler looks at all of them, one after the other.  Where all processes share one machine, what runs at the same
time is bounded by its processors, and these carry what moves, too.  bench/cluster.py measures all these figures, and prints
seconds and bytes moved beside those of this model.
"""
import heapq
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Machine:
    rates: dict = field(default_factory=lambda: {  # flops/s of a lane, by kind of task
        "product": 1e12, "update": 1e12, "square": 7e11, "factor": 3e11, "triangle": 7e11, "vector": 1e10, "qr": 1e11,
        "search": 1e11, "read": 1e9})  # read: bytes/s from the folder that all share
    link: float = 1.25e9      # bytes/s into a worker: 10 Gbit/s
    disk: float = 1e9         # bytes/s from a worker's disk
    task: float = 5e-4        # seconds of the scheduler for each task
    hop: float = 5e-3         # seconds from a result to the beginning of what needed it
    start: float = 2e-2       # seconds of a call without tasks
    lanes: int = 1            # threads of a worker
    processors: int = 0       # that all workers share; 0: each has its own machine


HELD, READ = {}, {}  # blocks that the workers have, and such as are read from their disks


class Tasks:
    """A call's tasks; each is known by its number."""

    FAN = 8  # pairs of blocks in a task, triangles in a fold: FAN_IN of gx_sqlite/dask.py

    def __init__(self):
        self.work, self.bytes, self.needs = [], [], []

    def add(self, work, size, needs=()):
        """work: flops by kind; HELD and READ stand for blocks that lie somewhere."""
        self.work.append(work)
        self.bytes.append(size)
        self.needs.append(tuple(dict.fromkeys(needs)))
        return len(self.work) - 1

    def inputs(self, count, size, is_held):
        """Blocks that are read first, or lie on the workers already."""
        return [self.add(HELD if is_held else READ, size) for _ in range(count)]

    def sum(self, kind, total, left, right, flops, size, fan=FAN):
        for k in range(0, len(left), fan):
            pairs = left[k:k + fan] + right[k:k + fan]
            total = self.add({kind: flops * len(pairs) / 2}, size, pairs if total is None else [total, *pairs])
        return total

    def folded(self, parts, kind, flops, size):
        while len(parts) > 1:
            parts = [self.add({kind: flops * len(parts[p:p + self.FAN])}, size, parts[p:p + self.FAN])
                     for p in range(0, len(parts), self.FAN)]
        return parts[0]


def products_in_a_task(block, count):
    """_fan() of gx_sqlite/dask.py."""
    return min(Tasks.FAN, max(1, int(4e9 // (2 * block ** 3)), -(-count // 32)))


def rectangle(rows, columns, least=64):
    """Blocks of the product that a task makes: _rectangle() of gx_sqlite/dask.py."""
    height, width = 1, 1
    while True:
        taller = (2 * height, width) if height <= width else (height, 2 * width)
        if -(-rows // taller[0]) * -(-columns // taller[1]) < least:
            return height, width
        height, width = taller


def matmul(n, b, m=None, e=4, is_held=False):
    """m rows of A (by default all) times A."""
    t, N, M = Tasks(), n // b, (m or n) // b
    a = t.inputs(N * N, b * b * e, is_held)
    for i in range(M):
        for j in range(N):
            t.sum("product", None, a[i * N:(i + 1) * N], a[j::N], 2 * b ** 3, b * b * e)
    return t


def matmul_of_stored(n, b, m=None, e=4):
    """The same where whoever needs a block reads it."""
    t, N, M = Tasks(), n // b, (m or n) // b
    height, width = rectangle(M, N)
    for p in range(0, M, height):
        for q in range(0, N, width):
            rows, columns = min(height, M - p), min(width, N - q)
            whole = t.add({"product": 2 * b ** 3 * N * rows * columns, "read": (rows + columns) * N * b * b * e},
                          rows * columns * b * b * e)
            for _ in range(rows * columns):
                t.add({}, b * b * e, [whole])
    return t


def solve(n, b, e=8, is_held=False):
    """Cholesky and one right-hand side."""
    t, N = Tasks(), n // b
    a, L, fan = t.inputs(N * N, b * b * e, is_held), {}, products_in_a_task(b, N)
    for j in range(N):
        done, last = a[j * N + j], max(0, j - 1) // fan * fan
        row = [L[j, k] for k in range(j)]
        for k in range(0, last, fan):
            done = t.add({"square": b ** 3 * fan}, b * b * e, [done, *row[k:k + fan]])
        L[j, j] = t.add({"factor": b ** 3 / 3, "square": b ** 3 * (j - last)}, b * b * e, [done, *row[last:]])
        for i in range(j + 1, N):
            total = t.sum("update", a[i * N + j], [L[i, k] for k in range(j)], row, 2 * b ** 3, b * b * e, fan)
            L[i, j] = t.add({"triangle": b ** 3}, b * b * e, [L[j, j], total])
    x = t.inputs(N, b * e, True)
    for i in range(N):
        parts = [t.add({"vector": 2 * b * b}, b * e, [L[i, k], x[k]]) for k in range(i)]
        x[i] = t.add({"vector": b * b}, b * e, [L[i, i], x[i], *parts])
    for i in reversed(range(N)):
        parts = [t.add({"vector": 2 * b * b}, b * e, [L[k, i], x[k]]) for k in range(i + 1, N)]
        x[i] = t.add({"vector": b * b}, b * e, [L[i, i], x[i], *parts])
    return t


def lstsq(m, n, p, e=8, is_held=False, kind="qr"):
    t = Tasks()
    triangles = [t.add({kind: 2 * (m // p) * n * n}, n * n * e, [block]) for block in t.inputs(p, m // p * n * e, is_held)]
    t.folded(triangles, kind, 2 * n ** 3, n * n * e)
    return t


def knn(q, m, n, p, k=10, e=4, is_held=False):
    t = Tasks()
    blocks = t.inputs(p, m // p * n * e, is_held)
    queries = t.add(HELD, q * n * e)
    t.folded([t.add({"search": 2 * q * (m // p) * n}, 16 * q * k, [queries, block]) for block in blocks],
             "search", 0, 16 * q * k)
    return t


def simulate(tasks, workers, machine):
    """Seconds until all is done, and bytes moved."""
    count = workers * machine.lanes
    free, link, scheduler, moved = [0.0] * count, [0.0] * workers, 0.0, 0
    processors = [0.0] * min(machine.processors, count)
    where, done = [set() for _ in tasks.work], [0.0] * len(tasks.work)
    waits, users = [len(needs) for needs in tasks.needs], [[] for _ in tasks.work]
    for k, needs in enumerate(tasks.needs):
        for need in needs:
            users[need].append(k)
    ready = [(0.0, k) for k, left in enumerate(waits) if left == 0]
    while ready:
        at, k = heapq.heappop(ready)
        if tasks.work[k] is HELD:
            where[k].add(k % workers)
        else:
            scheduler = max(scheduler, at) + machine.task
            idle = min(range(count), key=free.__getitem__)
            lane, start, missing = _place(tasks, k, where, idle, machine,
                                          lambda w: max(scheduler, free[w]), link if not processors else None)
            takes = sum(flops / machine.rates[kind] for kind, flops in tasks.work[k].items())
            takes += tasks.bytes[k] / machine.disk if tasks.work[k] is READ else 0
            worker = lane // machine.lanes
            if processors:  # what is moved and the scheduler take the same ones
                start, takes = max(start, heapq.heappop(processors)), takes + missing / machine.link + machine.task
                heapq.heappush(processors, start + takes)
            elif missing > 0:
                link[worker] = max(scheduler, link[worker]) + missing / machine.link
            free[lane] = done[k] = start + takes
            moved += missing
            for held in (k, *tasks.needs[k]):
                where[held].add(worker)
        for user in users[k]:
            waits[user] -= 1
            if waits[user] == 0:
                heapq.heappush(ready, (max(done[need] for need in tasks.needs[user]) + machine.hop, user))
    return max(done) + machine.start, moved


def _place(tasks, k, where, idle, machine, is_free, link):
    """The lane that begins task k first, of those whose worker has some of what it needs and of the idlest: the lane,
    when, and the bytes to be moved.  link: when each worker's is free; None: moving is part of the task."""
    needed, there = sum(tasks.bytes[need] for need in tasks.needs[k]), {idle // machine.lanes: 0}
    for need in tasks.needs[k]:
        for worker in where[need]:
            there[worker] = there.get(worker, 0) + tasks.bytes[need]
    best = None
    for worker, has in there.items():
        for lane in range(worker * machine.lanes, (worker + 1) * machine.lanes):
            start, missing = is_free(lane), needed - has
            comes = (start if link is None else link[worker]) + missing / machine.link
            begins = max(start, comes) if missing > 0 else start
            if best is None or begins < best[0]:
                best = begins, lane, start if link is None else begins, missing
    return best[1:]


CALLS = [("product 40000^2 f32, blocks of 2000", lambda: matmul(40000, 2000)),
         ("product 200000^2 f32, blocks of 5000", lambda: matmul(200000, 5000)),
         ("Cholesky solve 40000^2, blocks of 2000", lambda: solve(40000, 2000)),
         ("Cholesky solve 200000^2, blocks of 5000", lambda: solve(200000, 5000)),
         ("least squares 10^7 x 64, 100 blocks", lambda: lstsq(10 ** 7, 64, 100)),
         ("least squares 10^9 x 64, 1000 blocks", lambda: lstsq(10 ** 9, 64, 1000)),
         ("neighbours of 10^4 in 10^8 x 64, 1000 blocks", lambda: knn(10 ** 4, 10 ** 8, 64, 1000))]


def main():
    machine, counts = Machine(), (4, 16, 64, 256, 1000)
    print(f"seconds on machines of {machine}")
    print(f"{'':44}" + "".join(f"{count:>10}" for count in counts))
    for name, make in CALLS:
        tasks = make()
        print(f"{name:44}" + "".join(f"{simulate(tasks, count, machine)[0]:10.1f}" for count in counts), flush=True)


if __name__ == "__main__":
    main()
