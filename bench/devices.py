#!/usr/bin/env python3
"""One statement on 1, 2, 4, ... devices, in one run: seconds, and ratios to one device and to cublasXt on as many.

    bench/devices.py [--n 32768] [--cholesky 65536] [--narrow 60000] [--dir /dev/shm] [--devices 1,2,4] [name...]

Names, all but `large` by default: small (products below the crossover with 'devices' = all), stream (one f64 matrix, once
through all devices, beside what links and readers allow), product (f64, the result dropped, beside cublasXt from page-locked
arrays), cholesky (beside cuSOLVERMg), krylov (a pass over a kept f32 matrix, symmetric and general; ten of its eigenvalues
and of its singular values, the whole statement), nearest (10 000 queries among kept rows), program (two halves that have nothing to do with each other), narrow (kept matrices, f32 and f64, times 1, 8
and 64 columns, plain and transposed, beside what the device's memory allows); large: an f32 matrix of known eigenvalues, many
times larger than the memory limits: its scan (gx_norm), its product with 64 columns, ten eigenvalues, by a process of their
own for each number of devices, the most first, which says what it had resident.  Product, stream and cholesky are parts of
tests/gpu/bench_core.c, made by `make test-gpu` or `make programs` into build/gpu; operands are in the page cache.  JSON lines
of the parts are printed as they come.
"""
import argparse
import json
import os
import pathlib
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SO = os.environ.get("GX_SO", str(ROOT / "gx.so"))


def file_of(args, n):
    """The folder of bench_core's file of that order, which stays for what comes next of the same order."""
    if args.file is None or args.file[0] != n:
        drop_file(args)
        args.file = n, tempfile.TemporaryDirectory(dir=args.dir)
    return args.file[1].name


def drop_file(args):
    if args.file is not None:
        args.file[1].cleanup()
    args.file = None


def parts(args, devices, n, *names):
    """{what: seconds} of bench_core's parts on so many devices, which are all used."""
    program = ROOT / "build" / "gpu" / "gpu_tests"
    listed = ",".join(str(d) for d in range(devices)) if devices > 1 else "1"
    env = os.environ | {"GX_DEVICES": listed, "GX_BACKEND": "cuda", "GX_BENCH_KEEP": "1"}
    out = {}
    done = subprocess.run([program, "bench_core", str(n), file_of(args, n), *names], env=env, stdout=subprocess.PIPE, text=True,
                          check=False)
    for line in done.stdout.splitlines():
        print(f"    [{devices}] {line}")
        if line.startswith("{"):
            row = json.loads(line)
            if "seconds" in row:
                out[row["what"]] = min(row["seconds"], out.get(row["what"], 1e99))
    if done.returncode != 0:
        print(f"    [{devices}] bench_core ended with {done.returncode}")
    return out


def show(what, seconds, beside=None, peer="cublasXt", digits=4):
    """Seconds by number of devices, how many times faster than one, and beside a peer."""
    one = seconds.get(1)
    for devices, value in seconds.items():
        text = f"{what:42s} {devices} devices {value:{digits + 5}.{digits}f} s"
        if one is not None and devices > 1:
            text += f"  {one / value:6.3f} x one"
        if beside and devices in beside:
            text += f"  {beside[devices] / value:6.3f} x {peer} ({beside[devices]:.3f} s)"
        print(text, flush=True)


def product(args):
    found = {d: parts(args, d, args.n, "product", "xt_pinned") for d in args.devices}
    peer = {d: f["cublasXtDgemm, pinned"] for d, f in found.items() if "cublasXtDgemm, pinned" in f}
    show(f"product f64 {args.n}, dropped", {d: f["product, result dropped"] for d, f in found.items()}, peer)


def stream(args):
    found = {d: parts(args, d, args.n, "links", "stream") for d in args.devices}
    show(f"stream f64 {args.n}, once", {d: f["stream one matrix"] for d, f in found.items()})
    for devices, f in found.items():
        rate = {what: 8e-9 * args.n**2 / f[name] for what, name in (
            ("links", "limit: all links at once"), ("reading", "limit: read into page-locked memory"),
            ("both", "limit: read and up"), ("stream", "stream one matrix"))}
        print(f"    {devices} devices: links {rate['links']:.1f} GB/s at once, reading {rate['reading']:.1f}, both as one "
              f"{rate['both']:.1f}; the stream {rate['stream']:.1f}, {rate['stream'] / rate['both']:.3f} of that", flush=True)


def cusolver_mg(n, devices):
    """Seconds of cuSOLVERMg's factorisation, from page-locked memory and back; NaN where the library is not."""
    done = subprocess.run([sys.executable, ROOT / "bench" / "cusolver_mg.py", str(n), str(devices)], stdout=subprocess.PIPE,
                          text=True, check=False)
    print(f"    [{devices}] {done.stdout.strip()}")
    return json.loads(done.stdout)["with_copies"] if done.returncode == 0 else float("nan")


def cholesky(args):
    found = {d: parts(args, d, args.cholesky, "cholesky") for d in args.devices}
    show(f"cholesky f64 {args.cholesky}, dropped", {d: f["cholesky, result dropped"] for d, f in found.items()},
         {d: cusolver_mg(args.cholesky, d) for d in args.devices}, "cuSOLVERMg")


def connect(path):
    db = sqlite3.connect(path, isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(SO.removesuffix(".so"))
    db.execute("SELECT gx_config('backend', 'cuda')").fetchall()
    db.execute("SELECT gx_config('probe', 'off')").fetchall()
    return db


def times(db, sql, rounds=7):
    """The median of calls after two that are not counted."""
    taken = []
    for _ in range(rounds + 2):
        start = time.perf_counter()
        db.execute(sql).fetchall()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[2:])


def counters(db):
    names = ("device_hits", "uploaded", "peer_bytes", "tiles_read", "spread_calls", "device_fallbacks", "devices_lost")
    values = dict(db.execute("SELECT name, value FROM gx_stats WHERE name <> 'note'").fetchall())
    return {name: values[name] for name in names} | {
        "notes": [row[0] for row in db.execute("SELECT meaning FROM gx_stats WHERE name = 'note'")]
    }


def use(db, devices):
    """The setting 'devices': so many, which are all used, or a text."""
    listed = devices if isinstance(devices, str) else ",".join(str(d) for d in range(devices)) if devices > 1 else "1"
    db.execute("SELECT gx_config('devices', ?)", (listed,)).fetchall()


def counted(db):
    return dict(db.execute("SELECT name, value FROM gx_stats WHERE name <> 'note'").fetchall())


def copy_rate():
    """Bytes per second that the first device's memory copies, read and written ones counted; None without CuPy."""
    try:
        import cupy
    except ImportError:
        return None
    source = cupy.zeros(1 << 30, dtype=cupy.float32)
    target, rates = cupy.empty_like(source), []
    for _ in range(7):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        cupy.copyto(target, source)
        end.record()
        end.synchronize()
        rates.append(2e3 * source.nbytes / cupy.cuda.get_elapsed_time(begin, end))
    del source, target
    cupy.get_default_memory_pool().free_all_blocks()
    return statistics.median(rates)


def narrow(args):
    rate = copy_rate()
    if rate is not None:
        print(f"    the device's memory copies {rate / 1e12:.2f} TB/s")
    for dtype, n, size in (("f32", args.narrow, 4), ("f64", args.narrow * 2 // 3, 8)):
        limit = None if rate is None else 1.2 * size * n * n / rate + 2e-4
        narrow_kept(args, dtype, n, limit)


def narrow_kept(args, dtype, n, limit):
    """Times 1, 8 and 64 columns, plain and transposed; one device beside 1.2 x its memory's time + 0.2 ms."""
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        db = connect(os.path.join(folder, "a.db"))
        db.execute("PRAGMA journal_mode = OFF")
        db.execute(f"SELECT gx_randn({n}, {n}, 'A', '{{\"dtype\":\"{dtype}\"}}')").fetchall()
        for cols in (1, 8, 64):
            db.execute(f"SELECT gx_randn({n}, {cols}, 'x{cols}', '{{\"dtype\":\"{dtype}\"}}')").fetchall()
        for cols in (1, 8, 64):
            for options in ("", ", '{\"transa\":true}'"):
                seconds = {}
                for devices in args.devices:
                    use(db, devices)
                    db.execute("SELECT gx_stats_reset()").fetchall()
                    seconds[devices] = times(db, f"SELECT length(gx_matmul('A', 'x{cols}'{options}))")
                    print(f"    [{devices}] {json.dumps(counters(db))}")
                show(f"kept {dtype} {n} times {cols} columns{', transposed' if options else ''}", seconds, digits=6)
                if limit is not None and 1 in seconds:
                    print(f"    {seconds[1] / limit:.3f} of {1e3 * limit:.2f} ms")
        print("    links: " + str(db.execute("SELECT device, links, upload FROM gx_devices").fetchall()))
        db.close()


def connect_each(path, settings, backend):
    """{setting of 'devices': a connection of its own}, so that none opens devices anew while times are taken."""
    found = {}
    for value in settings:
        found[value] = connect(path)
        found[value].execute("SELECT gx_config('backend', ?)", (backend,)).fetchall()
        use(found[value], value)
    return found


def take_turns(connections, work, rounds, warm):
    """{setting: the median of what work(connection) says}, one after the other in each round; some are not counted."""
    found = {value: [] for value in connections}
    for _ in range(warm + rounds):
        for value, db in connections.items():
            found[value].append(work(db))
    return {value: statistics.median(taken[warm:]) for value, taken in found.items()}


def seconds_of(db, sql):
    start = time.perf_counter()
    db.execute(sql).fetchall()
    return time.perf_counter() - start


def small(args):
    connections = connect_each(":memory:", (1, "all"), "auto")
    for n in (256, 512, 1024, 2048):
        for db in connections.values():
            db.execute(f"SELECT gx_randn({n}, {n}, 'S{n}')").fetchall()
        before = {value: counted(db) for value, db in connections.items()}
        seconds = take_turns(connections, lambda db: seconds_of(db, f"SELECT length(gx_matmul('S{n}', 'S{n}'))"), 60, 60)
        calls = {value: counted(db)["device_calls"] - before[value]["device_calls"] for value, db in connections.items()}
        print(f"{f'product f64 {n}':42s} all / one device {seconds['all'] / seconds[1]:6.3f}  ({seconds[1]:.5f} s; of 120 calls "
              f"{calls[1]} and {calls['all']} on a device)", flush=True)
    for db in connections.values():
        db.close()


def pass_seconds(db, sql, counter="pass_ns"):
    """Of one pass, or of what the host does beside each."""
    before = counted(db)
    db.execute(sql).fetchall()
    after = counted(db)
    return (after[counter] - before[counter]) / 1e9 / max(1, after["passes"] - before["passes"])


def krylov(args):
    n, few = args.krylov, '"method":"krylov","maxiter":2,"partial":true'
    blocks = {"as many vectors as it takes": '"k":10'} | {f"{b} vectors": f'"k":1,"block":{b},"ncv":{4 * b + 4}' for b in (1, 8, 32)}
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        path = os.path.join(folder, "a.db")
        db = connect(path)
        db.execute("PRAGMA journal_mode = OFF")
        db.execute(f"SELECT gx_random({n}, {n}, 'A', '{{\"dtype\":\"f32\"}}')").fetchall()
        db.close()
        connections = connect_each(path, args.devices, "cuda")
        for name, call in (("symmetric", "count(value) FROM gx_eig('A', '{\"symmetric\":true,"),
                           ("general", "count(sigma) FROM gx_svd('A', '{")):
            for block, options in blocks.items():
                for db in connections.values():
                    db.execute("SELECT gx_stats_reset()").fetchall()
                sql = f"SELECT {call}{options},{few}}}')"
                seconds = take_turns(connections, lambda db: pass_seconds(db, sql), 7, 2)
                for devices, db in connections.items():
                    print(f"    [{devices}] {json.dumps(counters(db))}")
                show(f"pass over kept f32 {n}, {name}, {block}", seconds, digits=6)
            for block in (8, 32):
                sql = f'SELECT {call}"k":10,"method":"krylov","block":{block}}}\')'
                show(f"ten values of it, {name}, {block} vectors", take_turns(connections, lambda db: seconds_of(db, sql), 3, 1))
                show("  of which the basis, after each pass", take_turns(connections, lambda db: pass_seconds(db, sql, "ortho_ns"), 1, 0), digits=6)
        for db in connections.values():
            db.close()


def nearest(args):
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        path = os.path.join(folder, "a.db")
        db = connect(path)
        db.execute("PRAGMA journal_mode = OFF")
        for name, rows in (("E", args.rows), ("Q", 10000)):
            db.execute(f"SELECT gx_randn({rows}, 768, '{name}', '{{\"dtype\":\"f32\",\"seed\":{rows}}}')").fetchall()
        db.close()
        connections = connect_each(path, args.devices, "cuda")
        for metric in ("cosine", "l2"):
            sql = f"SELECT count(*), sum(id), sum(score) FROM gx_knn('Q', 'E', 10, '{{\"metric\":\"{metric}\"}}')"
            for db in connections.values():
                db.execute("SELECT gx_stats_reset()").fetchall()
            seconds = take_turns(connections, lambda db: seconds_of(db, sql), 11, 2)
            answers = {db.execute(sql).fetchone() for db in connections.values()}
            for devices, db in connections.items():
                print(f"    [{devices}] {json.dumps(counters(db))}")
            show(f"10000 queries of {args.rows} x 768 kept, {metric}", seconds)
            print(f"    answers {'agree' if len(answers) == 1 else 'DIFFER'}")
        for db in connections.values():
            db.close()


def program(args):
    half = "{0} = {1}; repeat 20 {{ {0} = ({1} @ {0}) * 0.01 }} "
    text = half.format("x", "A") + half.format("y", "B") + "sum(x) + sum(y)"
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        db = connect(os.path.join(folder, "a.db"))
        for name in "AB":
            db.execute(f"SELECT gx_randn({args.side}, {args.side}, '{name}', '{{\"seed\":{ord(name)}}}')").fetchall()
        seconds, answers = {}, set()
        for devices in args.devices:
            use(db, devices)
            db.execute("SELECT gx_stats_reset()").fetchall()
            seconds[devices] = times(db, f"SELECT gx_eval('{text}')", 5)
            answers.add(db.execute("SELECT gx_eval(?)", (text,)).fetchone())
            print(f"    [{devices}] {json.dumps(counters(db))}")
        show(f"program of two halves, f64 {args.side}", seconds)
        print(f"    answers {'agree' if len(answers) == 1 else 'DIFFER'}")
        db.close()


# Of the large matrix: ten apart from each other and from the many small ones that follow.
LARGEST = [100.0 - 5 * k for k in range(10)]
SMALLER = [20 * 0.9**k for k in range(38)]


def make_large(args, folder):
    """A = X X', X = Q sqrt(D): Q's columns are orthonormal, D holds the eigenvalues that are not zero."""
    db = connect(os.path.join(folder, "a.db"))
    db.execute("PRAGMA journal_mode = OFF")
    db.execute("SELECT gx_config('backend', 'cpu'), gx_config('memory_limit', '32GiB'), gx_volumes(8)").fetchall()
    roots = json.dumps([[value**0.5 for value in LARGEST + SMALLER]])
    start = time.perf_counter()
    db.execute(f"SELECT gx_randn({args.large}, {len(LARGEST + SMALLER)}, 'G', '{{\"dtype\":\"f32\"}}')").fetchall()
    db.execute("SELECT gx_qr('G', '{\"q\":\"Q\",\"r\":\"R\"}')").fetchall()
    db.execute("SELECT gx_eval('X := Q * ?1', gx_cast(?, 'f32'))", (roots,)).fetchall()
    db.execute("SELECT gx_matmul('X', 'X', 'A', '{\"transb\":true}')").fetchall()
    db.execute("SELECT gx_set_property('A', 'symmetric'), gx_randn(?, 64, 'x64', '{\"dtype\":\"f32\"}')", (args.large,)).fetchall()
    seconds = time.perf_counter() - start
    print(f"    made in {seconds:.1f} s: {4e-9 * args.large**2:.1f} GB, {db.execute('SELECT dtype FROM gx WHERE name = ?', ('A',)).fetchone()}")
    db.close()


def measure_large(args, folder, devices):
    """In a process of its own: the scan, the product, the passes."""
    db = connect(os.path.join(folder, "a.db"))
    db.execute("SELECT gx_config('memory_limit', ?), gx_config('device_memory_limit', ?)", (args.host, args.device)).fetchall()
    bytes_of = 4.0 * args.large**2

    def once(what, sql):
        db.execute("SELECT gx_stats_reset()").fetchall()
        start = time.perf_counter()
        answer = db.execute(sql).fetchone()
        seconds = time.perf_counter() - start
        c = counted(db)
        print(f"    [{devices}] {what}: {seconds:.2f} s; " + json.dumps(
            {name: c[name] for name in ("bytes_read", "uploaded", "peer_bytes", "memory_peak", "device_memory_peak") if name in c}
            | counters(db)), flush=True)
        return seconds, answer, c

    db.execute("SELECT gx_config('backend', 'cpu')").fetchall()
    scan = bytes_of / min(once("scan", "SELECT gx_norm('A', 'max')")[0] for _ in range(2))
    db.execute("SELECT gx_config('backend', 'cuda')").fetchall()
    use(db, devices)
    taken = min(once("product", "SELECT length(gx_matmul('A', 'x64'))")[0] for _ in range(2))
    print(f"large f32 {args.large}, {devices} devices: scan {scan / 1e9:.1f} GB/s; times 64 columns {taken:.2f} s, "
          f"{bytes_of / taken / 1e9:.1f} GB/s = {bytes_of / taken / scan:.3f} of the scan's")
    taken, answer, c = once("eigenvalues", "SELECT json_group_array(value) FROM gx_eig('A', '{\"k\":10,\"which\":\"LA\",\"method\":\"krylov\"}')")
    values, seconds = json.loads(answer[0]), c["pass_ns"] / 1e9
    worst = max(abs(a - b) / b for a, b in zip(values, LARGEST))
    print(f"large f32 {args.large}, {devices} devices: ten eigenvalues {taken:.2f} s, {c['passes']} passes of {seconds / max(1, c['passes']):.3f} s; "
          f"each goes through the triangle, {c['pass_bytes'] / seconds / 1e9:.1f} GB/s = {c['pass_bytes'] / seconds / scan:.3f} of the scan's; "
          f"relative error {worst:.1e}")
    with open("/proc/self/status") as status:
        peak = int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 2**20
    print(f"large f32 {args.large}, {devices} devices: at most {peak:.2f} GiB resident (memory_limit {args.host})", flush=True)
    db.close()


def large(args):
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        make_large(args, folder)
        for devices in sorted(args.devices, reverse=True):
            subprocess.run([sys.executable, __file__, "--large", str(args.large), "--host", args.host, "--device", args.device,
                            "--measure", folder, str(devices)], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=32768)
    parser.add_argument("--cholesky", type=int, default=65536)
    parser.add_argument("--narrow", type=int, default=60000)
    parser.add_argument("--krylov", type=int, default=65536)
    parser.add_argument("--rows", type=int, default=2000000)
    parser.add_argument("--side", type=int, default=8192, help="of the program's matrices")
    parser.add_argument("--large", type=int, default=160000)
    parser.add_argument("--host", default="16GiB", help="memory_limit of the large matrix")
    parser.add_argument("--device", default="8GiB", help="device_memory_limit of the large matrix")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--dir", default="/dev/shm")
    parser.add_argument("--devices", type=lambda text: [int(d) for d in text.split(",")], default=[1, 2, 4])
    parser.add_argument("name", nargs="*")
    args = parser.parse_args()
    args.file = None
    if args.measure:
        measure_large(args, args.measure[0], int(args.measure[1]))
        return
    for part in (small, stream, product, cholesky, krylov, nearest, program, narrow, large):
        if part.__name__ in args.name or (not args.name and part is not large):
            if part not in (stream, product, cholesky):
                drop_file(args)
            start = time.perf_counter()
            try:
                part(args)
            except (KeyError, sqlite3.Error, subprocess.SubprocessError) as failure:
                print(f"{part.__name__}: {failure!r}", flush=True)
            print(f"--- {part.__name__}: {time.perf_counter() - start:.0f} s", flush=True)
    drop_file(args)


if __name__ == "__main__":
    main()
