#!/usr/bin/env python3
"""The n-th call of CUDA, cuBLAS, cuSOLVER or cuFFT fails, for every n: the right answer, and nothing left behind.

    cuda.py [--step 1] [--kind memory ...] [--script product ...] [--stand-ins build/mock]

Plan: gx_cuda.so as it is, on stand-ins for NVIDIA's libraries (tests/mockcuda).  Each script (a product, a Cholesky
factorisation, eigenvalues, systems, sparse products; with room for everything and in small blocks) runs on a connection of its own, which opens
the device, computes and is closed, with its n-th call failing for n = 1, 1 + step, 1 + 2 step, ... until none fails:

    memory   there is none, once                launch   refused, once
    status   an internal error, once            always   no memory from then on, for that function
    sticky   an illegal address: every later call fails
    later    what has been enqueued fails when its turn comes, and then everything
    lost     the device has gone

The last four have a process of their own for each n, for their traces stay.

Asked of each: the result is the CPU's; the database is sound; a device that was not used is explained in gx_stats and in gx_events; no last error
is left uncleared; nothing was used outside its buffer or after it was freed; device memory, page-locked memory, streams, events,
handles and gx's own count of host memory are back at zero when the connection is closed.  Where the context has ended: a few
calls at most are made in vain, none by another connection, which computes on the CPU and says why in gx_devices.
GX_SO names the extension; nothing but Python's own library is needed.
"""
import argparse
import ctypes
import json
import os
import pathlib
import sqlite3
import sys
import tempfile
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "mockcuda"))
from mock_counts import NAMES, Counts  # noqa: E402

ENDING = ("sticky", "later", "lost")
APART = ("always",) + ENDING
KINDS = ("memory", "launch", "status") + APART
ALIVE = ("device_buffers", "pinned_buffers", "queues", "marks", "device_bytes", "pinned_bytes", "handles")
CALL = os.environ.get("CALL", "*")  # one function alone: CALL=cudaMalloc
LOST = "off until the process ends"
ON_DEVICE = ("product", "cholesky", "lstsq", "eigen", "krylov", "basis", "loop", "transform", "grids", "sparse", "ranks", "shared")
REPLACE = "'{\"replace\":true}'"
SCRIPTS = {
    "product": f"SELECT gx_matmul('A', 'B', 'C', {REPLACE})",
    "shared": f"SELECT gx_matmul('A', 'B', 'C', {REPLACE})",  # another connection uses the device, too
    "cholesky": f"SELECT gx_cholesky('P', 'C', {REPLACE})",
    "eigen": f"SELECT gx_eigvals('S', 'C', {REPLACE})",
    "krylov": "SELECT gx_eigvals('S', 'C', '{\"k\":3,\"method\":\"krylov\",\"ncv\":24,\"block\":2,\"replace\":true}')",
    "basis": "SELECT gx_svd('L', 'C', '{\"k\":3,\"method\":\"krylov\",\"ncv\":40,\"replace\":true}')",  # long: in parts
    "solve": f"SELECT gx_solve('M', 'B', 'C', {REPLACE})",
    "lstsq": f"SELECT gx_lstsq('T', 'A', 'C', {REPLACE})",
    "neighbours": f"SELECT gx_dense(gx_knn_graph('A', 3, '{{\"metric\":\"l2\"}}'), 'C', {REPLACE})",
    "sparse": f"SELECT gx_matmul('G', 'V', 'C', {REPLACE})",
    "ranks": "SELECT gx_pagerank('W', 'C', '{\"tolerance\":0.01,\"replace\":true}')",
    "loop": f"SELECT gx_eval('x = B; repeat 21 {{ x = tanh(M @ x * 0.1) }} C := x', {REPLACE})",
    "grids": f"SELECT gx_eval('g = floor(abs(A) * 2); L = label(g, 8, ''colour'', 7); g = cover(g, sizes(L, t) < 3, t); C := flood(g, 0, 0, 9, 4, 7)', {REPLACE})",
    "transform": f"SELECT gx_eval('C := real(ifft(fft(A, 96))) @ M + sum(irfft(fft(A, 90, 1)))', {REPLACE})",
}
LARGE = ("basis", "grids")  # in no small memory
PREPARE = (
    "SELECT gx_randn(70, 60, 'A', '{\"seed\":1}')",
    "SELECT gx_randn(60, 50, 'B', '{\"seed\":2}')",
    "SELECT gx_randn(60, 60, 'M', '{\"seed\":3}')",
    "SELECT gx_matmul('M', 'M', 'MM', '{\"transb\":true}')",
    "SELECT gx_add('MM', gx_eye(60), 'P')",
    "SELECT gx_add('M', gx_transpose('M'), 'S')",
    "SELECT gx_set_property('S', 'symmetric')",
    "SELECT gx_randn(70, 40, 'T', '{\"seed\":4}')",
    "SELECT gx_random(300, 70, 'G', '{\"density\":0.2,\"seed\":5}')",
    "SELECT gx_randn(70, 4, 'V', '{\"seed\":7}')",
    "SELECT gx_randn(14000, 40, 'L', '{\"seed\":8}')",
    "SELECT gx_eval('t := hstack(arange(0, 70, 7), ones(10, 1) * 7, ones(10, 1) * 60)')",
    "SELECT gx_random(60, 60, 'W', '{\"density\":0.1,\"seed\":6}')",
)


def value(db, sql, *params):
    return db.execute(sql, params).fetchone()[0]


def connect(path, backend):
    db = sqlite3.connect(path, isolation_level=None)
    db.enable_load_extension(True)
    os.environ["GX_BACKEND"] = backend  # gx_config() would refuse what cannot be had
    db.load_extension(os.environ["GX_SO"])
    value(db, "SELECT gx_config('tile_bytes', 8192)")
    return db


class Machine:
    """The stand-ins' machine in this process."""

    def __init__(self):
        self.library = ctypes.CDLL(os.path.join(os.environ["CUDA_PATH"], "lib", "libcudart.so.13"))

    def counts(self):
        counts = Counts()
        self.library.mock_read(ctypes.byref(counts))
        return {name: getattr(counts, name) for name in NAMES}

    def order(self, failure=""):
        self.library.mock_order(failure.encode())


def stats(db):
    return dict(db.execute("SELECT name, value FROM gx_stats WHERE name <> 'note'").fetchall())


def notes(db):
    return [row[0] for row in db.execute("SELECT meaning FROM gx_stats WHERE name = 'note'")]


def anomalies(db):
    own = value(db, "SELECT json_extract(gx_debug(), '$.connection')")
    return db.execute("SELECT event, reason FROM gx_events WHERE level <> 'info' AND connection = ?", (own,)).fetchall()


def is_right(checker, script):
    difference = value(checker, f"SELECT gx_norm(gx_sub('C', 'C_{script}'))")
    return difference is not None and difference <= 1e-9 * value(checker, f"SELECT gx_norm('C_{script}')")


def compute(db, path, script, is_small):
    if is_small:
        value(db, "SELECT gx_config('device_memory_limit', 50000)")
        value(db, "SELECT gx_config('memory_limit', 400000)")
    other = connect(path, os.environ["GX_BACKEND"]) if script == "shared" else None
    for _ in range(1 if other is None else 2):
        db.execute(SCRIPTS[script]).fetchall()
        if other is not None and not value(other, "SELECT gx_norm(gx_sub(gx_matmul('A', 'B'), 'C'))") < 1e-9:
            raise sqlite3.Error("the other connection's product is wrong")
    if other is not None:
        other.close()


def is_lost(path):
    db = connect(path, "cuda")
    reason = value(db, "SELECT reason FROM gx_devices WHERE backend = 'cuda'")
    db.close()
    return LOST in reason


def after_the_end(path, machine):
    """What another connection of the process finds; complaints."""
    before = machine.counts()["vain"]
    db = connect(path, "cuda")
    value(db, "SELECT gx_matmul('A', 'B', 'C', '{\"replace\":true}')")
    reason = value(db, "SELECT reason FROM gx_devices WHERE backend = 'cuda'")
    found = []
    if stats(db)["device_calls"] or LOST not in reason:
        found.append(f"another connection: {stats(db)['device_calls']} calls on the device, {reason!r}")
    if not any(LOST in note for note in notes(db)):
        found.append(f"another connection is not told: {notes(db)}")
    db.close()
    if machine.counts()["vain"] != before:
        found.append("another connection called the device")
    return found


def one(path, machine, kind, script, is_small, n):
    """(whether a call failed, complaints)"""
    found = []
    machine.order(f"{CALL}:{n}:{kind}")
    db = connect(path, "cuda")
    try:
        compute(db, path, script, is_small)
    except sqlite3.Error as problem:
        found.append(f"error: {problem}")
    is_hit = machine.counts()["failures"] > 0
    used, told, events = stats(db), notes(db), anomalies(db)
    db.close()
    counts = machine.counts()
    has_failed = counts["failures"] > 0  # perhaps only while it was closed
    has_ended = kind in ENDING and has_failed
    if kind == "always" and has_failed:  # a stream that cannot be waited for is the end, too
        machine.order()
        has_ended = is_lost(path)
    if not has_failed and used["device_calls"] == 0 and not told and script in ON_DEVICE:
        found.append("not computed on the device")
    if is_hit and used["device_calls"] == 0 and not told and script in ON_DEVICE:
        found.append("the CPU took over, and gx_stats does not say why")
    if is_hit and used["device_calls"] == 0 and not events and script in ON_DEVICE:
        found.append("the CPU took over, and there is no event")
    if any("\n" in note for note in told):
        found.append(f"more than a line: {told}")
    alive = {name: counts[name] for name in ALIVE if counts[name]}
    if alive and not has_ended:
        found.append(f"left behind: {alive}")
    if counts["violations"] or (counts["uncleared"] and not has_ended):
        found.append(f"{counts['violations']} violations, {counts['uncleared']} errors not cleared")
    if has_ended and counts["vain"] > 12:
        found.append(f"{counts['vain']} calls after the end")
    if not has_ended:
        machine.order()
    checker = connect(path, "cpu")
    if not is_right(checker, script):
        found.append("the result is wrong")
    if value(checker, "PRAGMA integrity_check") != "ok" or value(checker, "SELECT gx_check('C')") != "ok":
        found.append("the database is damaged")
    checker.close()
    if kind in ENDING and has_failed and n > 1 and not found:  # the first call only looks for devices
        found += after_the_end(path, machine)
    return has_failed, found


def apart(work):
    """work() in a process of its own; what it returns, through JSON."""
    there, here = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(here, json.dumps(work()).encode())
            status = 0
        except Exception:  # pylint: disable=broad-except
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(here)
    with os.fdopen(there, "rb") as end:
        text = end.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if status == 0 else [True, [f"the process ended with status {status}"]]


def rounds(path, kind, script, is_small, step):
    """Every n of one kind and script; (how many failed, complaints)."""

    def until_none():
        machine, count, found = Machine(), 0, []
        for n in range(1, 100000, step):
            has_failed, complaints = one(path, machine, kind, script, is_small, n)
            found += [f"{kind}/{script}/{'small' if is_small else 'large'}/{n}: {text}" for text in complaints]
            if not has_failed or len(found) > 5:
                break
            count += 1
        return [count, found]

    if kind not in APART:
        return apart(until_none)
    count, found = 0, []
    for n in range(1, 100000, step):
        has_failed, complaints = apart(lambda n=n: one(path, Machine(), kind, script, is_small, n))
        found += [f"{kind}/{script}/{'small' if is_small else 'large'}/{n}: {text}" for text in complaints]
        if not has_failed or len(found) > 5:
            break
        count += 1
    return count, found


def prepare(path):
    db = connect(path, "cpu")
    for statement in PREPARE:
        db.execute(statement).fetchall()
    for script in SCRIPTS:
        compute(db, path, script, False)
        value(db, f"SELECT gx_copy('C', 'C_{script}')")
    db.close()
    return 0


def folder_of(stand_ins, extension, at):
    """gx.so beside the gx_cuda.so that has no kernels."""
    at.mkdir()
    (at / "gx.so").symlink_to(pathlib.Path(extension).resolve())
    (at / "gx_cuda.so").symlink_to((stand_ins / "gx_cuda.so").resolve())
    return str(at / "gx.so")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--kind", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--script", nargs="*", default=list(SCRIPTS), choices=list(SCRIPTS))
    parser.add_argument("--stand-ins", type=pathlib.Path, default=ROOT / "build" / "mock")
    args = parser.parse_args()
    total, complaints = 0, []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name in [name for name in os.environ if name.startswith(("MOCK_", "CUDA_")) or
                     (name.startswith("GX_") and name != "GX_SO")]:
            del os.environ[name]
        os.environ["GX_SO"] = folder_of(args.stand_ins, os.environ.get("GX_SO", ROOT / "gx.so"), folder / "gx")
        os.environ |= {"CUDA_PATH": str(args.stand_ins.resolve()), "MOCK_MEMORY": str(96 << 20),
                       "XDG_CACHE_HOME": str(folder / "cache")}
        path = str(folder / "fault.db")
        apart(lambda: prepare(path))
        for script in args.script:
            for is_small in (False,) if script in LARGE else (False, True):
                apart(lambda s=script: [one(path, Machine(), "memory", s, False, 10**9)])  # saves the profile
                for kind in args.kind:
                    count, found = rounds(path, kind, script, is_small, args.step)
                    total += count
                    complaints += found
                    print(f"{script}{' in small blocks' if is_small else ''}, {kind}: {count} failures", flush=True)
    for text in complaints:
        print(text)
    print(f"{total} failures of CUDA, {len(complaints)} complaints")
    return 1 if complaints or total == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
