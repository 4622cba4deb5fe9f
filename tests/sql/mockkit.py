"""A process of its own with the mock device: gx.so beside the stand-in for gx_cuda.so (tests/mockcuda).

A test hands child() a function's source as text; it runs in a fresh Python with what is defined below, and what it
returns comes back through JSON.  The device is set by the environment (MOCK_..., tests/mockcuda/mock_machine.h).
"""
import ctypes
import json
import os
import pathlib
import subprocess
import sys

import pytest

from conftest import ROOT, gx_connect, gx_path

sys.path.insert(0, str(ROOT / "tests" / "mockcuda"))
from mock_counts import NAMES, Counts  # noqa: E402

STAND_INS = pathlib.Path(os.environ.get("GX_STAND_INS") or ROOT / "build" / "mock")
MOCK = pathlib.Path(os.environ.get("GX_MOCK") or ROOT / "build" / "tests" / "mockcuda" / "gx_cuda.so")

PRELUDE = """
import ctypes, json, os, sqlite3, sys
sys.path.insert(0, {tests!r})
import numpy as np
from conftest import error, from_numpy, gx_connect, q, to_numpy
from mockkit import Mock, both_knn, connect, each_device_fails, know_devices, knn, matrices, notes, since, stats
mock = Mock()
"""


class Mock:
    """The machine behind the stand-in, in this process."""

    def __init__(self):
        cudart = os.environ.get("MOCK_CUDART")  # NVIDIA's stand-ins
        self.library = ctypes.CDLL(cudart or str(pathlib.Path(gx_path()).with_name("gx_cuda.so")))

    def counts(self):
        counts = Counts()
        self.library.mock_read(ctypes.byref(counts))
        return {name: getattr(counts, name) for name in NAMES}

    def order(self, failure=""):
        self.library.mock_order(failure.encode())

    def calm(self):
        self.library.mock_calm()

    def share(self, others=""):
        self.library.mock_share(others.encode())

    def alive(self):
        """What has not been given back."""
        counts = self.counts()
        return {name: counts[name] for name in (*NAMES[:7], "handles") if counts[name] != 0}


def matrices(db, m=150, k=130, n=170, dtype="f64", tile=64):
    """Stored A, B, and their product C0 as the CPU has it; tiles of tile x tile."""
    bytes_of = {"f64": 8, "f32": 4, "c128": 16, "c64": 8}[dtype]
    db.execute("SELECT gx_config('profile', 'off')")
    db.execute("SELECT gx_config('tile_bytes', ?)", (bytes_of * tile * tile,)).fetchall()
    for name, rows, cols, seed in (("A", m, k, 1), ("B", k, n, 2)):
        db.execute(
            f"SELECT gx_randn({rows}, {cols}, '{name}', '{{\"seed\":{seed},\"dtype\":\"{dtype}\",\"replace\":true}}')"
        ).fetchall()
    backend = db.execute("SELECT gx_config('backend')").fetchone()[0]
    db.execute("SELECT gx_config('backend', 'cpu')").fetchall()
    db.execute("SELECT gx_matmul('A', 'B', 'C0', '{\"replace\":true}')").fetchall()
    db.execute("SELECT gx_config('backend', ?)", (backend,)).fetchall()


def stats(db):
    return dict(db.execute("SELECT name, value FROM gx_stats WHERE name <> 'note'").fetchall())


def since(db, before):
    """What the counters have gone up by."""
    return {name: value - before[name] for name, value in stats(db).items()}


def connect(backend, tile_bytes):
    """To the child's one database; several connections, on the host and on the device, see the same matrices."""
    db = gx_connect(os.path.join(os.environ["TMP_PATH"], "d.db"))
    db.execute("SELECT gx_config('backend', ?), gx_config('tile_bytes', ?)", (backend, tile_bytes)).fetchall()
    return db


def knn(db, Q, E, k, **options):
    return db.execute("SELECT query, id, score FROM gx_knn(?, ?, ?, ?)", (Q, E, k, json.dumps(options))).fetchall()


def both_knn(host, db, *args, **options):
    """The device's nearest rows are the host's, to the bit; what its counters say."""
    want, before = knn(host, *args, **options), stats(db)
    assert knn(db, *args, **options) == want, (args[2:], options)
    return since(db, before)


def know_devices(launch_s=1e-5, flops_per_s=1e9):
    """What was measured of the stand-in's devices becomes figures that no other work on this machine changes, for
    connections that open a device from now on."""
    path = pathlib.Path(os.environ["XDG_CACHE_HOME"], "gx", "hardware.json")
    about = json.loads(path.read_text())
    assert about["devices"]
    for device in about["devices"].values():
        device["launch_s"] = device["wait_s"] = launch_s
        for rates in (device["gemm_flops_per_s"], device["f64_flops_per_s"]):
            rates |= {name: [flops_per_s] * len(of_sizes) for name, of_sizes in rates.items()}
    path.write_text(json.dumps(about))


def notes(db):
    return [row[0] for row in db.execute("SELECT meaning FROM gx_stats WHERE name = 'note'")]


def each_device_fails(db, mock, devices, points, open_all, is_right, mode="", is_told=True, may_fall_back=False):
    """Each device's n-th call fails, for n in points while there are as many: open_all() opens the devices, is_right() computes
    and looks.  What there is to complain of; db is closed.  is_told: gx_stats has to count each failure; may_fall_back: the
    host may have the last word."""

    def told():
        s = stats(db)
        remarks = db.execute("SELECT total(value) FROM gx_stats WHERE name = 'note'").fetchone()[0]
        return s["devices_lost"] + s["pinned_denied"] + s["device_faults"] + remarks, s["device_fallbacks"]

    result = {"points": 0, "wrong": [], "uncounted": [], "fallbacks": 0}
    for device in range(devices):
        for n in points:
            db.execute("SELECT gx_config('device', 0)").fetchall()
            open_all()
            before, back = told()
            mock.order(f"*@{device}:{n}{mode}")
            was_right = is_right()
            has_failed = mock.counts()["failures"] > 0
            mock.order()
            after, fallbacks = told()
            if not has_failed:
                break
            result["points"] += 1
            result["fallbacks"] += 0 if may_fall_back else fallbacks - back
            if not was_right:
                result["wrong"].append([device, n])
            if is_told and after == before:
                result["uncounted"].append([device, n])
            if n % 4 == 0 and not is_right():
                result["wrong"].append([device, n, "afterwards"])
    result["violations"] = mock.counts()["violations"]
    db.close()
    return result | {"alive": mock.alive()}


ALL_WELL = {"wrong": [], "uncounted": [], "fallbacks": 0, "violations": 0, "alive": {}}


def child(tmp_path, body, timeout=120, with_mock=True, mock=MOCK, **env):
    """Run body (which sets result) in a process of its own; the result comes back."""
    if with_mock and not mock.exists():
        pytest.skip(f"{mock} is not built: make programs")
    here = tmp_path / "gx"
    here.mkdir(exist_ok=True)
    for name, target in (("gx.so", gx_path() if gx_path().endswith(".so") else gx_path() + ".so"), ("gx_cuda.so", mock)):
        if not (here / name).exists() and (with_mock or name == "gx.so"):
            (here / name).symlink_to(target)
    code = PRELUDE.format(tests=str(ROOT / "tests" / "sql")) + body + "\nprint(json.dumps(result))\n"
    if not with_mock:
        code = code.replace("mock = Mock()\n", "", 1)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("GX_", "MOCK_", "CUDA_"))}
    environment |= {"GX_SO": str(here / "gx.so"), "XDG_CACHE_HOME": str(tmp_path / "cache"), "TMP_PATH": str(tmp_path)}
    environment["MOCK_MEMORY"] = str(64 << 20)
    environment |= {key: str(value) for key, value in env.items()}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stdout[-500:]} {done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])


def child_on_stand_ins(tmp_path, body, only=False, without="", with_machine=True, **env):
    """As child(), with gx_cuda.so itself on stand-ins for NVIDIA's libraries.  only: this machine's own are not looked at
    where those do not serve; without: all but this library."""
    if not STAND_INS.exists():
        pytest.skip(f"{STAND_INS} is not built: make programs")
    here, libraries = tmp_path / "gx", tmp_path / "cuda" / "lib"
    for folder in (here, libraries):
        folder.mkdir(parents=True, exist_ok=True)
    if not (here / "gx_cuda.so").exists():
        (here / "gx_cuda.so").symlink_to(STAND_INS / "gx_cuda.so")
    names = [path.name for path in (STAND_INS / "lib").iterdir() if path.name != without]
    if only:  # CUDA 12's names, too, so that nothing else is found
        names += ["libcudart.so.12", "libcublas.so.12", "libcusolver.so.11"]
    for name in names:
        if not (libraries / name).is_symlink():
            (libraries / name).symlink_to(STAND_INS / "lib" / "libcudart.so.13")
    env = {"CUDA_PATH": tmp_path / "cuda", "MOCK_CUDART": STAND_INS / "lib" / "libcudart.so.13", "CUDA_HOME": ""} | env
    return child(tmp_path, body, with_mock=with_machine, mock=STAND_INS / "gx_cuda.so", **env)
