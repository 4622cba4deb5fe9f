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
import functools
import heapq
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class Machine:
    rates: dict = field(default_factory=lambda: {  # flops/s of a lane, by kind of task
        "product": 1e12, "update": 1e12, "square": 7e11, "factor": 3e11, "triangle": 7e11, "vector": 1e10, "qr": 1e11,
        "search": 1e11, "total": 2e9, "read": 1e9})  # read: bytes/s from the folder that all share
    alone: dict = field(default_factory=dict)  # of a lane while the others of its machine have nothing to do
    link: float = 1.25e9      # bytes/s into a worker: 10 Gbit/s
    disk: float = 1e9         # bytes/s from a worker's disk
    task: float = 5e-4        # seconds of the scheduler for each task
    hop: float = 5e-3         # seconds from a result to the beginning of what needed it
    start: float = 2e-2       # seconds of a call without tasks
    lanes: int = 1            # threads of a worker
    processors: int = 0       # that all workers share; 0: each has its own machine

    def seconds(self, kind, flops, busy):
        """Of a step while so many lanes are busy: a lane is as fast as alone until all have what they can have together."""
        rate = self.rates[kind]
        if self.processors and kind in self.alone:
            rate = max(rate, min(self.alone[kind], rate * self.processors / busy))
        return flops / rate


HELD, READ = {}, {}  # blocks that the workers have, and such as are read from their disks


class Block(NamedTuple):
    """A stored block, which a worker reads once."""

    name: tuple
    bytes: int


class Tasks:
    """A call's tasks; each is known by its number."""

    FAN = 8  # pairs of blocks in a task, triangles in a fold: FAN_IN of gx_sqlite/dask.py

    def __init__(self):
        self.work, self.bytes, self.needs, self.reads = [], [], [], []

    def add(self, work, size, needs=()):
        """work: flops by kind; HELD and READ stand for blocks that lie somewhere.  needs: tasks, or stored blocks."""
        self.work.append(work)
        self.bytes.append(size)
        self.needs.append(tuple(dict.fromkeys(need for need in needs if not isinstance(need, Block))))
        self.reads.append({need for need in needs if isinstance(need, Block)})
        return len(self.work) - 1

    def inputs(self, count, size, is_held):
        """Blocks that are read first, or lie on the workers already."""
        return [self.add(HELD if is_held else READ, size) for _ in range(count)]

    def sum(self, kind, total, left, right, flops, size, fan=FAN):
        for k in range(0, len(left), fan):
            pairs = left[k:k + fan] + right[k:k + fan]
            total = self.add({kind: flops * len(pairs) / 2}, size, pairs if total is None else [total, *pairs])
        return total

    def parts(self, whole, count, size):
        """Blocks of a result of several."""
        for _ in range(count):
            self.add({}, size, [whole])

    def folded(self, parts, kind, flops, size):
        while len(parts) > 1:
            parts = [self.add({kind: flops * len(parts[p:p + self.FAN])}, size, parts[p:p + self.FAN])
                     for p in range(0, len(parts), self.FAN)]
        return parts[0]


def products_in_a_task(block, count):
    """_fan() of gx_sqlite/dask.py."""
    return min(Tasks.FAN, max(1, int(4e9 // (2 * block ** 3)), -(-count // 32)))


def rectangle(rows, columns, least):
    """Of a product's blocks that a task makes, of tasks that are a group: _rectangle() of gx_sqlite/dask.py."""
    height, width = 1, 1
    while True:
        taller = (2 * height, width) if height <= width else (height, 2 * width)
        if -(-rows // taller[0]) * -(-columns // taller[1]) < least:
            return height, width
        height, width = taller


def group(down, across):
    """Tasks that a worker shares what it reads for: _group() of gx_sqlite/dask.py."""
    if min(down, across) <= 4 and max(down, across) >= 16:
        return (down, across // 16) if down < across else (down // 16, across)
    return rectangle(down, across, 16)


def matmul(n, b, m=None, e=4, is_held=False):
    """m rows of A (by default all) times A."""
    t, N, M = Tasks(), n // b, (m or n) // b
    a = t.inputs(N * N, b * b * e, is_held)
    for i in range(M):
        for j in range(N):
            t.sum("product", None, a[i * N:(i + 1) * N], a[j::N], 2 * b ** 3, b * b * e)
    return t


def matmul_of_stored(n, b, m=None, is_device=False, e=4):
    """The same where a worker reads the blocks it needs, and keeps them for the tasks of a group; the last ones are cut in
    shares, which go to whoever has nothing to do."""
    t, N, M = Tasks(), n // b, (m or n) // b
    height, width = rectangle(M, N, 64 if is_device else 256)
    down, across = -(-M // height), -(-N // width)
    tall, wide = group(down, across)
    groups = [[(p, q) for p in range(top, min(top + tall, down)) for q in range(left, min(left + wide, across))]
              for top in range(0, down, tall) for left in range(0, across, wide)]
    early = len(groups) if is_device else len(groups) * 3 // 4 if down * across >= 64 else 0
    late = [place for places in groups[early:] for place in places]

    def add(p, q, shelf, parts):
        rows, columns = range(p * height, min((p + 1) * height, M)), range(q * width, min((q + 1) * width, N))
        blocks, shares = len(rows) * len(columns), []
        for part in range(parts):
            inner = range(N * part // parts, N * (part + 1) // parts)
            needs = [Block((name, line, (k + p + q) % N), b * b * e) for name, lines in (("A", rows), ("B", columns))
                     for line in lines for k in inner]
            shares.append(t.add({"product": 2 * b ** 3 * len(inner) * blocks}, b * b * e * blocks, [shelf, *needs]))
        whole = shares[0] if parts == 1 else t.add({"total": parts * blocks * b * b}, b * b * e * blocks, shares)
        t.parts(whole, blocks if blocks > 1 else 0, b * b * e)

    shelves = []
    for places in groups[:early]:
        shelves.append(t.add({}, 0))
        for place in places:
            add(*place, shelves[-1], 1)
    few = [t.add({}, 0, shelves) for _ in groups[early:][:4]]
    count = max(1, min(8, N, -(-256 // max(1, len(late))), int(2 * b ** 3 * N * height * width // 1.6e10)))
    for n, place in enumerate(late):
        add(*place, few[n * len(few) // len(late)], count)
    return t


def solve(n, b, e=8):
    """Cholesky of a stored matrix and one right-hand side."""
    t, N = Tasks(), n // b
    a, L, fan = [Block((p,), b * b * e) for p in range(N * N)], {}, products_in_a_task(b, N)
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
    kept = [set() for _ in range(workers)]  # blocks that a worker has read
    waits, users = [len(needs) for needs in tasks.needs], [[] for _ in tasks.work]
    for k, needs in enumerate(tasks.needs):
        for need in needs:
            users[need].append(k)
    ready = [(0.0, k) for k, left in enumerate(waits) if left == 0]
    while ready:
        at, k = heapq.heappop(ready)
        if tasks.work[k] is HELD:
            where[k].add(k % workers)
        elif not tasks.work[k] and tasks.needs[k]:  # a part of a result, where that is
            scheduler = done[k] = max(scheduler, at) + machine.task
            where[k] |= where[tasks.needs[k][0]]
        else:
            scheduler = max(scheduler, at) + machine.task
            idle = min(range(count), key=lambda lane: (free[lane], lane % machine.lanes))
            begins = max(scheduler, free[idle])
            busy = min(max(1, len(processors)), 1 + sum(end > begins for end in free) + sum(when <= begins for when, _ in ready)
                       ) if processors else 1
            reading = functools.partial(_reading, tasks.reads[k], kept, machine, busy)
            lane, start, missing = _place(tasks, k, where, idle, machine,
                                          lambda w: max(scheduler, free[w]), link if not processors else None, reading)
            worker = lane // machine.lanes
            takes = reading(worker) + sum(machine.seconds(kind, flops, busy) for kind, flops in tasks.work[k].items())
            takes += tasks.bytes[k] / machine.disk if tasks.work[k] is READ else 0
            kept[worker].update(tasks.reads[k])
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


def arithmetic(tasks, workers, machine):
    """Seconds that the calls' arithmetic takes where every processor does its share of it and nothing else."""
    lanes = min(workers * machine.lanes, machine.processors or workers * machine.lanes)
    return sum(flops / machine.rates[kind] for work in tasks.work for kind, flops in work.items() if kind != "total") / lanes


def _reading(blocks, kept, machine, busy, worker):
    """Seconds for what a worker has not read yet."""
    return machine.seconds("read", sum(block.bytes for block in blocks - kept[worker]), busy) if blocks else 0


def _place(tasks, k, where, idle, machine, is_free, link, reading):
    """The lane that begins task k first, of those whose worker has some of what it needs and of the idlest, its reading
    done: the lane, when, and the bytes to be moved.  link: when each worker's is free; None: moving is part of the task."""
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
            ready = begins + reading(worker)
            if best is None or ready < best[0]:
                best = ready, lane, start if link is None else begins, missing
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
