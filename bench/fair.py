#!/usr/bin/env python3
"""Many connections of one process on one device, or on the CPU: operations a second, who gets what, who waits how long.

    bench/fair.py [--seconds 10] [--cpu] [--n 16384] [--threads 16] [--every 0.02] [--only mixed equal beside]

Each part prints a line a figure, with its bound beside it where there is one:

- mixed: 16 connections in threads, half on the device and half where gx sees fit, with small products, nearest rows and solves by
  turns: operations a second in all, how even, errors, p99 of a call, and what memory does after a third of the time;
- equal: two connections with the same product, as long each as a large one: how far apart their work is;
- beside: one connection multiplies n x n, over and over; another one has 0.4 ms of device work --every so many seconds (0: at once
  again): what that waits (median, p99, most), and what the large one loses by it, beside its rate alone.  Where nvidia-smi
  is there, how busy the device was.

Operands are stored in a database in --dir (a temporary one) and stay in the device's memory after the first calls.  --cpu: all
parts on the host alone, with n = 1024 where --n is not given.
"""
import argparse
import os
import pathlib
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SO = os.environ.get("GX_SO", str(ROOT / "gx.so"))


class Connection:
    def __init__(self, path, backend):
        self.db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=60)
        self.db.enable_load_extension(True)
        self.db.load_extension(SO)
        self.value("SELECT gx_config('backend', ?)", backend)

    def value(self, sql, *params):
        return self.db.execute(sql, params).fetchall()[0][0]

    def device_calls(self):
        return self.value("SELECT value FROM gx_stats WHERE name = 'device_calls'")

    def waited_s(self):
        return self.value("SELECT value FROM gx_stats WHERE name = 'turn_ns'") * 1e-9


def line(what, value, unit="", bound=None):
    """bound: '>= 5', '<= 1.2' or nothing."""
    said = ""
    if bound is not None:
        sign, limit = bound.split()
        good = value >= float(limit) if sign == ">=" else value <= float(limit)
        said = f"{bound:>12s}  {'ok' if good else 'MISSED'}"
    print(f"{what:52s} {value:12.4g} {unit:6s}{said}", flush=True)


def quantile(times, share):
    return sorted(times)[min(len(times) - 1, int(share * len(times)))] if times else float("nan")


def during(seconds, *works, look=lambda: None):
    """Each work() again and again in a thread of its own, for so long: for each how long its calls took, and its error; what
    look() said after a third of it."""
    begin, stop = threading.Barrier(len(works) + 1), threading.Event()
    calls, errors = [[] for _ in works], [None] * len(works)

    def go(k):
        begin.wait()
        try:
            while not stop.is_set():
                start = time.perf_counter()
                works[k]()
                calls[k].append(time.perf_counter() - start)
        except Exception as problem:  # pylint: disable=broad-except
            errors[k] = str(problem)

    threads = [threading.Thread(target=go, args=(k,)) for k in range(len(works))]
    for thread in threads:
        thread.start()
    begin.wait()
    start = time.perf_counter()
    time.sleep(seconds / 3)
    middle = look()
    time.sleep(max(0, start + seconds - time.perf_counter()))
    stop.set()
    for thread in threads:
        thread.join()
    return calls, errors, time.perf_counter() - start, middle


def memory(watcher):
    """Bytes of the process, and of devices, now."""
    lines = watcher.value("SELECT gx_metrics()").splitlines()
    device = sum(float(l.split()[-1]) for l in lines if l.startswith("gx_device_memory_bytes") and 'kind="kept"' in l)
    return int(pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize(), device


class Busy:
    """Per cent of the time in which kernels ran, by nvidia-smi; None where it is not there."""

    def __init__(self, is_wanted):
        self.process = None
        if is_wanted:
            try:
                self.process = subprocess.Popen(
                    ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "200", "-i", "0"],
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            except OSError:
                pass

    def end(self):
        if self.process is None:
            return None
        self.process.terminate()
        found = [float(x) for x in self.process.communicate()[0].split() if x.replace(".", "").isdigit()]
        return statistics.mean(found) if found else None


def prepare(path, n, small):
    db = Connection(path, "cpu")
    for statement in (
        "SELECT gx_randn(64, 64, 'A64')", "SELECT gx_randn(128, 128, 'A128')", "SELECT gx_randn(256, 256, 'A256')",
        "SELECT gx_add(gx_matmul('A128', 'A128', '{\"transb\":true}'), gx_eye(128), 'P')", "SELECT gx_randn(128, 4, 'b')",
        "SELECT gx_randn(20000, 64, 'E', '{\"dtype\":\"f32\"}')", "SELECT gx_randn(1, 64, 'Q', '{\"dtype\":\"f32\"}')",
        f"SELECT gx_randn({n}, {n}, 'L')", f"SELECT gx_randn({small}, {small}, 'S')",
    ):
        db.value(statement)
    db.db.close()


SMALL = (
    "SELECT gx_norm(gx_matmul('A64', 'A64'))",
    "SELECT gx_norm(gx_matmul('A128', 'A128'))",
    "SELECT sum(score) FROM gx_knn('Q', 'E', 10)",
    "SELECT gx_norm(gx_solve('P', 'b'))",
    "SELECT gx_norm(gx_matmul('A256', 'A256'))",
)


def mixed(args, path):
    backends = ["cpu" if args.cpu else "cuda" if k < args.on_device else "auto" for k in range(args.threads)]
    watcher = Connection(path, "cpu")
    users = [Connection(path, backend) for backend in backends]
    turn = [0] * len(users)

    def work(k):
        def call():
            turn[k] += 1
            users[k].value(SMALL[turn[k] % len(SMALL)])
        return call

    works = [work(k) for k in range(len(users))]
    for call in works:
        for _ in SMALL:
            call()
    calls, errors, seconds, middle = during(args.seconds, *works, look=lambda: memory(watcher))
    end = memory(watcher)
    all_s = [s for own in calls for s in own]
    counts = [len(own) for own in calls]
    line("mixed: operations a second", len(all_s) / seconds, "1/s", None if args.cpu else ">= 10000")
    line("mixed: errors", sum(e is not None for e in errors), "", "<= 0")
    line("mixed: median of a call", 1e3 * statistics.median(all_s), "ms")
    line("mixed: p99 of a call", 1e3 * quantile(all_s, 0.99), "ms")
    line("mixed: fewest calls of a connection / most", min(counts) / max(counts))
    line("mixed: memory of the process, end / after a third", end[0] / middle[0], "", "<= 1.2")  # what stands by levels off after 40 s
    line("mixed: memory of devices, end / after a third", end[1] / max(1, middle[1]), "", "<= 1.05")
    line("mixed: calls on the device", sum(user.device_calls() for user in users))
    for error in filter(None, errors):
        print("   ", error)
    for user in users + [watcher]:
        user.db.close()


def equal(args, path):
    users = [Connection(path, args.backend) for _ in range(2)]
    works = [lambda user=user: user.value(args.product) for user in users]
    for call in works:
        call(), call()
    busy = Busy(not args.cpu)
    calls, errors, _, _ = during(args.seconds, *works)
    share = busy.end()
    work = [sum(own) / max(1, len(own)) for own in calls]  # seconds a call
    line("equal: slower tenant's seconds a call / faster's", max(work) / max(1e-9, min(work)), "", "<= 1.2")
    line("equal: calls of the one", len(calls[0]))
    line("equal: calls of the other", len(calls[1]))
    line("equal: errors", sum(e is not None for e in errors), "", "<= 0")
    line("equal: seconds that kernels waited for their turn", sum(user.waited_s() for user in users), "s")
    if share is not None:
        line("equal: device busy", share, "%", ">= 70")
    for error in filter(None, errors):
        print("   ", error)
    for user in users:
        user.db.close()


def beside(args, path):
    large, small = Connection(path, args.backend), Connection(path, args.backend)
    small_sql = "SELECT gx_eval('max(S @ S)')"

    def little():
        start = time.perf_counter()
        small.value(small_sql)
        waits.append(time.perf_counter() - start)
        time.sleep(args.every)

    waits = []
    for _ in range(3):
        large.value(args.product), small.value(small_sql)
    alone_s = []
    for _ in range(20):
        start = time.perf_counter()
        small.value(small_sql)
        alone_s.append(time.perf_counter() - start)
    time.sleep(1.1)  # nobody has used the device lately
    calls, _, seconds, _ = during(args.seconds, lambda: large.value(args.product))
    alone = len(calls[0]) / calls_s(calls[0])
    busy = Busy(not args.cpu)
    calls, errors, seconds, _ = during(args.seconds, lambda: large.value(args.product), little)
    share = busy.end()
    rate = len(calls[0]) / calls_s(calls[0])
    line("beside: a small call alone, median", 1e3 * statistics.median(alone_s), "ms")
    line("beside: a small call, median", 1e3 * statistics.median(waits), "ms", "<= 15")
    line("beside: a small call, p99", 1e3 * quantile(waits, 0.99), "ms", "<= 50")
    line("beside: a small call, most", 1e3 * max(waits), "ms")
    line("beside: small calls", len(waits))
    line("beside: a large call alone", 1 / alone, "s")
    line("beside: the large one loses", 100 * (1 - rate / alone), "%", "<= 10")
    line("beside: errors", sum(e is not None for e in errors), "", "<= 0")
    line("beside: the small one's kernels waited for their turn", small.waited_s(), "s")
    line("beside: the large one's", large.waited_s(), "s")
    if share is not None:
        line("beside: device busy", share, "%", ">= 70")
    for error in filter(None, errors):
        print("   ", error)
    for user in large, small:
        user.db.close()


def calls_s(calls):
    """Seconds in these calls, which follow each other."""
    return sum(calls) or 1e-9


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--n", type=int)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--every", type=float, default=0.02, help="seconds between the small one's calls")
    parser.add_argument("--small", type=int, help="n of its products (2304: 0.4 ms of an H200; 256 with --cpu)")
    parser.add_argument("--on-device", type=int, default=8, help="connections of `mixed` that use nothing else")
    parser.add_argument("--dir", default=None)
    parser.add_argument("--only", nargs="*", default=["mixed", "equal", "beside"], choices=["mixed", "equal", "beside"])
    args = parser.parse_args()
    args.n = args.n or (1024 if args.cpu else 16384)
    args.backend = "cpu" if args.cpu else "cuda"
    args.small = args.small or (256 if args.cpu else 2304)
    args.product = "SELECT gx_eval('max(L @ L)')"  # which stays there
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        path = os.path.join(folder, "fair.db")
        prepare(path, args.n, args.small)
        for name in args.only:
            {"mixed": mixed, "equal": equal, "beside": beside}[name](args, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
