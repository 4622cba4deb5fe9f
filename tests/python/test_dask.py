"""gx_sqlite.dask: matrices on the workers of a cluster.

Plan:
1. from_gx: a database, several, a manifest; chunks; to_gx there and back, also several blocks to a row; manifests with
   anything in them, files that are not there and are not made, matrices of another shape meanwhile, arrays that do not fit;
2. on this process's threads, against NumPy: products, also of stored matrices, read by their tasks, in shares, too, Cholesky, solve, least squares (also deficient), few singular
   values, components, nearest neighbours, over grids that divide evenly, do not, and leave one row, f64 and f32, by residual;
   other dtypes, matrices of no elements; what they are given stays as it was;
3. a matrix that is not positive definite is refused in gx's words, with its block; shapes that do not fit;
4. four worker processes, one of which dies in the middle (the first that has the results of so many tasks, as it has the
   next): the same, by residual, for each of them;
5. the model in bench/, which has to do without Dask, cuts products into tasks as the package does;
6. docs/dask.md's three nodes, each in a network namespace, one of which is cut off and killed; nothing is left of them, not when
   the program is killed either; where no namespaces may be made the program says so, with a status of its own.
"""
import collections
import concurrent.futures
import contextlib
import gc
import importlib.util
import json
import os
import pathlib
import pickle
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from unittest import mock

import gx_sqlite as gx
import numpy as np
import pytest
from conftest import ROOT
from gx_sqlite import _stored

dask, da = pytest.importorskip("dask"), pytest.importorskip("dask.array")
gxd = pytest.importorskip("gx_sqlite.dask")
try:
    import distributed
except ImportError:
    distributed = None

RNG = np.random.default_rng(7)


def random(shape, chunks, dtype="f8"):
    a = RNG.standard_normal(shape).astype(dtype)
    return a, da.from_array(a, chunks=chunks)


def definite(n, chunks, dtype="f8"):
    b = RNG.standard_normal((n, n)).astype(dtype)
    a = b @ b.T + n * np.eye(n, dtype=dtype)
    return a, da.from_array(a, chunks=chunks)


def close(got, want, dtype="f8"):
    return np.linalg.norm(got - want) <= 50 * np.finfo(dtype).eps * np.sqrt(want.size) * np.linalg.norm(want)


# ---- 1. stored matrices ----------------------------------------------------------------------------------------------

def test_from_gx(db, tmp_path):
    a = RNG.standard_normal((300, 200))
    gx.store(db, "A", a)
    path = str(tmp_path / "test.db")
    for chunks in (None, 64, (100, 200), ((50, 250), (199, 1))):
        assert np.array_equal(gxd.from_gx(path, "A", chunks).compute(scheduler="threads"), a)
    both = gxd.from_gx([path, path], "A")
    assert both.shape == (600, 200) and np.array_equal(both.compute(scheduler="threads"), np.vstack([a, a]))


@pytest.mark.parametrize("chunks", [(64, 50), (300, 200), (7, 200)], ids=str)
def test_to_gx_and_back(tmp_path, chunks):
    a, lazy = random((300, 200), chunks, "f4")
    path = str(tmp_path / "A.json")
    for _ in range(2):  # replaces
        assert gxd.to_gx(path, "A", lazy) == path
    back = gxd.from_gx(path, "A")
    assert back.chunks == lazy.chunks and back.dtype == np.float32
    assert np.array_equal(back.compute(scheduler="threads"), a)
    manifest = json.loads((tmp_path / "A.json").read_text())
    assert len(manifest["blocks"]) == lazy.npartitions and len(list(tmp_path.glob("*.db"))) == len(lazy.chunks[0])


def test_a_manifest_that_cannot_be_written(tmp_path):
    """A full disk: the old one stays, and nothing else."""
    path = tmp_path / "A.json"
    path.write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError):
            gxd._publish(str(path), "x" * 100000, [])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["A.json"]
    gxd._publish(str(path), "new", [])
    assert path.read_text() == "new" and os.listdir(tmp_path) == ["A.json"]


def test_bad_manifests(tmp_path):
    path = tmp_path / "A.json"
    path.write_text("[]")
    with pytest.raises(ValueError, match="no manifest of a sharded matrix of version 1"):
        gxd.from_gx(str(path), "A")
    path.write_text('{"gx_sharded":1,')
    with pytest.raises(ValueError, match="A.json is no manifest: "):
        gxd.from_gx(str(path), "A")
    gxd.to_gx(str(path), "A", da.ones((3, 2), chunks=(2, 2)))
    good = json.loads(path.read_text())
    sizes, block = "rows and cols are the heights", "a block has a path and a name"
    for key, value, text in (("rows", None, sizes), ("rows", [], sizes), ("rows", [2, "1"], sizes), ("rows", [2.0, 1], sizes),
                             ("cols", [-2], sizes), ("cols", [1 << 60], sizes), ("cols", 2, sizes), ("cols", [True], sizes),
                             ("blocks", [], "lists 0 blocks for a grid of 2x1"), ("blocks", None, "lists 0 blocks"),
                             ("blocks", ["a", "b"], block), ("blocks", [{"path": 1, "name": "A"}] * 2, block),
                             ("dtype", "f18", "dtype 'f18' is not known"), ("dtype", [], "is not known"),
                             ("name", "B", "is of a matrix 'B', not 'A'")):
        path.write_text(json.dumps({**good, key: value}))
        with pytest.raises(LookupError if key == "name" else ValueError, match=text):
            gxd.from_gx(str(path), "A")
    for key, value, text in (("rows", [2, 2], "is 1x2 f64, but the manifest says 2x2 f64"),
                             ("cols", [1], "x2 f64, but the manifest says .x1 f64"),
                             ("dtype", "f32", "x2 f64, but the manifest says .x2 f32")):
        path.write_text(json.dumps({**good, key: value}))
        with pytest.raises(ValueError, match=text):
            gxd.from_gx(str(path), "A").compute(scheduler="sync")
    path.write_text(json.dumps(good))
    (tmp_path / "A.1.db").unlink()
    with pytest.raises(FileNotFoundError, match="A.1.db"):
        gxd.from_gx(str(path), "A").compute(scheduler="sync")
    assert not (tmp_path / "A.1.db").exists()


def test_databases_and_arrays_that_do_not_fit(db, tmp_path):
    with pytest.raises(FileNotFoundError, match="none.db"):
        gxd.from_gx(str(tmp_path / "none.db"), "A")
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(ValueError, match="no database is named"):
        gxd.from_gx([], "A")
    gx.store(db, "A", np.ones((4, 3)))
    lazy = gxd.from_gx(str(tmp_path / "test.db"), "A", 2)
    gx.store(db, "A", np.ones((3, 3)), replace=True)
    with pytest.raises(ValueError, match="is 3x3 and has no rows 2 to 4, columns . to ."):
        lazy.compute(scheduler="sync")
    with pytest.raises(ValueError, match="ends in .json"):
        gxd.to_gx("A.db", "A", da.ones((2, 2)))
    rows = da.ones((6, 2), chunks=2)
    for wrong, error, text in ((da.ones((2, 2, 2)), ValueError, "3 dimensions"), (da.ones(()), ValueError, "0 dimensions"),
                               (rows[rows[:, 0] > 0], ValueError, r"compute_chunk_sizes\(\)"),
                               (np.array([["a"]]), TypeError, "are not numbers that gx keeps")):
        for call in (lambda: gxd.to_gx(str(tmp_path / "W.json"), "W", da.asarray(wrong)), lambda: gxd.matmul(wrong, wrong)):
            with pytest.raises(error, match=text):
                call()
    assert not list(tmp_path.glob("W*"))


# ---- 2. and 4. algorithms --------------------------------------------------------------------------------------------

def check_matmul(n, chunk, dtype):
    a, A = random((n, n + 3), chunk, dtype)
    b, B = random((n + 3, n - 5), chunk + 1, dtype)
    assert close(gxd.matmul(A, B).compute(), a @ b, dtype)


def check_stored(n, chunk, dtype):
    """A product whose factors lie in files: no task reads a block for others."""
    a, A = random((n, n + 3), (chunk, 3 * chunk // 2), dtype)
    b, B = random((n + 3, n - 5), (3 * chunk // 2, chunk), dtype)
    with tempfile.TemporaryDirectory() as folder:
        for name, array in (("A", A), ("B", B)):
            gxd.to_gx(os.path.join(folder, name + ".json"), name, array)
        C = gxd.matmul(*(gxd.from_gx(os.path.join(folder, name + ".json"), name) for name in "AB"), read=True)
        assert not [key for key in needed(C) if key[0].startswith("read_block")]
        c = C.compute()
        assert close(c, a @ b, dtype) and np.array_equal(c, C.compute())


def check_shares(n, chunk, dtype):
    """The same, the last tasks in shares, of one block and of several, whose totals have the same bits each time."""
    for tasks in (4, 256):
        with mock.patch.multiple(gxd, _TASK=1, _TASKS=4, _SMALL_TASKS=tasks):
            check_stored(n, chunk, dtype)


def check_cholesky(n, chunk, dtype):
    a, A = definite(n, chunk, dtype)
    L = gxd.cholesky(A).compute()
    assert np.array_equal(L, np.tril(L)) and close(L @ L.T, a, dtype)


def check_stored_solve(n, chunk, dtype):
    """A matrix that lies in files, whose blocks go to nobody but the tasks that read them."""
    a, A = definite(n, chunk, dtype)
    b, B = random((n, 3), (chunk, 2), dtype)
    with tempfile.TemporaryDirectory() as folder:
        path = gxd.to_gx(os.path.join(folder, "A.json"), "A", A)
        X = gxd.solve(gxd.from_gx(path, "A"), B)
        assert not [key for key in needed(X) if key[0].startswith("read_block")]
        assert close(a @ X.compute(), b, dtype)


def needed(lazy):
    """The tasks that are run."""
    return dask.optimization.cull(dict(lazy.dask), lazy.__dask_keys__())[0]


def check_solve(n, chunk, dtype):
    a, A = definite(n, chunk, dtype)
    b, B = random((n, 3), (chunk, 2), dtype)
    assert close(a @ gxd.solve(A, B).compute(), b, dtype)


def check_lstsq(n, chunk, dtype):
    a, A = random((10 * n, 12), (chunk, 7), dtype)
    b, B = random((10 * n,), chunk + 3, dtype)
    x = gxd.lstsq(A, B).compute()[:, 0]
    assert close(x, np.linalg.lstsq(a, b, rcond=None)[0], dtype)


def check_svd(n, chunk, dtype):
    u, v = np.linalg.qr(RNG.standard_normal((n, 20)))[0], np.linalg.qr(RNG.standard_normal((n // 2, 20)))[0]
    a = ((u * 0.5 ** np.arange(20)) @ v.T).astype(dtype)
    U, s, Vt = map(np.asarray, da.compute(*gxd.svd(da.from_array(a, chunks=chunk), 5)))
    assert np.allclose(s, 0.5 ** np.arange(5), rtol=1e3 * np.finfo(dtype).eps)
    assert close(a @ Vt.T, U * s, dtype) and close(U.T @ U, np.eye(5, dtype=dtype), dtype)


def check_pca(n, chunk, dtype):
    a, A = random((5 * n, 9), chunk, dtype)
    a = a * np.arange(1, 10).astype(dtype) + dtype_of(dtype)(100)
    found = gxd.pca(da.from_array(a, chunks=chunk), 4)
    mean, variance, ratio, vectors = (np.asarray(x) for x in da.compute(*found))
    centred = a.astype("f8") - a.mean(0, dtype="f8")
    s, vt = np.linalg.svd(centred, full_matrices=False)[1:]
    loose = 1e4 * np.finfo(dtype).eps
    assert np.allclose(mean, a.mean(0, dtype="f8"), rtol=loose)
    assert np.allclose(variance, s[:4] ** 2 / (len(a) - 1), rtol=loose)
    assert np.allclose(ratio, s[:4] ** 2 / (s ** 2).sum(), rtol=loose)
    assert np.allclose(np.abs(np.sum(vectors * vt[:4], 1)), 1, atol=loose)


def check_knn(n, chunk, dtype):
    """Also ties, whose order is that of the numbers: rows that are there twice, in other blocks."""
    e, q = RNG.standard_normal((2 * n, 9)).astype(dtype), RNG.standard_normal((n, 9)).astype(dtype)
    e[n:n + 20] = e[:20]
    q[:20] = e[:20]
    e8, q8 = e.astype("f8"), q.astype("f8")
    scores = {"cosine": -(q8 @ e8.T) / np.linalg.norm(q8, axis=1)[:, None] / np.linalg.norm(e8, axis=1),
              "l2": np.sqrt(((q8[:, None] - e8[None]) ** 2).sum(2))}
    for metric, all_scores in scores.items():
        ids, found = map(np.asarray, da.compute(*gxd.knn(da.from_array(q, chunks=(chunk, 4)), da.from_array(e, chunks=chunk),
                                                         7, metric)))
        best = np.sort(all_scores, axis=1)[:, :7]
        assert np.allclose(np.take_along_axis(all_scores, ids, 1), best, atol=1e-12)
        assert np.allclose(np.abs(found), np.abs(best), atol=1e-7 if metric == "l2" else 1e-12)
        assert np.array_equal(ids[:20, :2], np.stack([np.arange(20), np.arange(n, n + 20)], 1))


def dtype_of(name):
    return np.dtype(name).type


CHECKS = [check_matmul, check_stored, check_shares, check_cholesky, check_solve, check_stored_solve, check_lstsq, check_svd,
          check_pca, check_knn]


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda f: f.__name__[6:])
@pytest.mark.parametrize("n, chunk", [(60, 20), (61, 17), (61, 20), (50, 100)])
def test_on_threads(check, n, chunk, dtype):
    with dask_threads():
        check(n, chunk, dtype)


@pytest.mark.parametrize("dtype", ["?", "u1", "i8", "f2", ">f8", "f4"])
def test_kinds_of_numbers(dtype):
    """Arrays have the dtypes they say, in tiny blocks too; what they were made from is as it was."""
    a = RNG.integers(0, 2, (8, 5)).astype(dtype)
    s = (np.eye(8) * 3).astype(dtype)
    A, S = da.from_array(a, chunks=((3, 1, 1, 3), (1, 4))), da.from_array(s, chunks=((3, 1, 1, 3), 4))
    kept = np.dtype("f4") if dtype in ("?", "i1", "i2", "u1", "u2", "f2", "f4") else np.dtype("f8")
    a8, s8 = a.astype("f8"), s.astype("f8")
    with dask_threads():
        for got, want in ((gxd.matmul(S, A), s8 @ a8), (gxd.matmul(A.T, A), a8.T @ a8), (gxd.cholesky(S), np.linalg.cholesky(s8)),
                          (gxd.solve(S, A), a8 / s8[0, 0]), (gxd.lstsq(S, A), a8 / s8[0, 0]),
                          (gxd.svd(A, 2)[1], np.linalg.svd(a8)[1][:2]), (gxd.pca(A, 2).mean, a8.mean(0))):
            found = got.compute()
            assert found.dtype == got.dtype == kept and found.shape == got.shape == want.shape
            assert np.allclose(found, want, atol=100 * np.finfo(kept).eps)
        assert np.array_equal(A.compute(), a) and np.array_equal(S.compute(), s)


def test_nothing_in_them():
    with dask_threads():
        for m, k, n in ((0, 3, 2), (3, 0, 2), (3, 2, 0)):
            assert np.array_equal(gxd.matmul(da.zeros((m, k), chunks=2), da.zeros((k, n), chunks=2)).compute(), np.zeros((m, n)))
        none = da.zeros((0, 0), chunks=2)
        assert gxd.cholesky(none).compute().shape == (0, 0)
        assert gxd.solve(none, da.zeros((0, 2), chunks=2)).compute().shape == (0, 2)
        assert np.array_equal(gxd.lstsq(da.zeros((0, 3), chunks=2), da.zeros((0, 1), chunks=2)).compute(), np.zeros((3, 1)))


def dask_threads():
    return dask.config.set(scheduler="threads", num_workers=2)


def test_tasks_of_several_blocks(db, tmp_path):
    """Of matrices of one database, whose blocks are parts of them; where the last rectangle is smaller."""
    assert gxd._rectangle(19, 17, 64) == (2, 2) and gxd._rectangle(3, 500, 64) == (8, 4) and gxd._rectangle(1, 1, 64) == (1, 1)
    a = RNG.standard_normal((95, 10))
    gx.store(db, "A", a)
    gx.store(db, "B", a.T)
    path = str(tmp_path / "test.db")
    with dask_threads():
        C = gxd.matmul(gxd.from_gx(path, "A", 5), gxd.from_gx(path, "B", 5), read=True)
        assert close(C.compute(), a @ a.T) and C.chunks == ((5,) * 19, (5,) * 19)


class Source(gxd.Stored):
    """A block that counts how often it is read; of a name that says so, not at the first time."""

    reads = []

    def read(self):
        Source.reads.append(self.name)
        time.sleep(0.01)  # others come meanwhile
        if self.name == "broken" and Source.reads.count("broken") == 1:
            raise OSError("not yet")
        return np.full(self.shape, float(self.i0))


def test_a_shelf(monkeypatch):
    """Whoever wants a block at the same time, it is read once; what there is no room for, again; what failed, too."""
    monkeypatch.setattr(Source, "reads", [])
    monkeypatch.setattr(_stored, "_room", lambda: 2.0 * 800)
    shelf = gxd.shelf_of("a call")
    assert pickle.loads(pickle.dumps(shelf)) is shelf is gxd.shelf_of("a call") is not gxd.shelf_of("another")
    a, b, c = (Source("", name, i, i + 10, 0, 10) for i, name in enumerate("abc"))
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert all(block[0, 0] == 0 for block in threads.map(shelf.block, [a] * 8))
    assert Source.reads == ["a"]
    for block in (b, a, c, a, b):  # c takes the place of b, and b that of c
        assert shelf.block(block)[0, 0] == block.i0
    assert Source.reads == ["a", "b", "c", "b"]
    broken = Source("", "broken", 0, 10, 0, 10)
    with pytest.raises(OSError, match="not yet"):
        shelf.block(broken)
    assert shelf.block(broken).shape == (10, 10)
    del shelf
    gc.collect()
    assert not any(call == "a call" for call in gxd.Shelf._all)  # nor is what it held


def test_products_read_once(db, tmp_path, monkeypatch):
    """On processors, what tasks of several groups want; the shelf is gone at the end."""
    reads, read = [], _stored.read_block
    monkeypatch.setattr(gxd, "_has_device", lambda: False)
    monkeypatch.setattr(_stored, "read_block", lambda *block: reads.append(block[1:]) or read(*block))
    a = RNG.standard_normal((60, 50))
    gx.store(db, "A", a)
    gx.store(db, "B", a.T)
    path = str(tmp_path / "test.db")
    for task, least in ((gxd._TASK, 64), (10, 64), (10, 36)):  # long ones are cut in shares, many in early and late ones
        monkeypatch.setattr(gxd, "_TASK", task)
        monkeypatch.setattr(gxd, "_TASKS", least)
        reads.clear()
        C = gxd.matmul(gxd.from_gx(path, "A", 10), gxd.from_gx(path, "B", 10), read=True)
        made = collections.Counter(key[0].split("-")[0] for key in C.dask)
        late = {64: 36, 36: 10}[least]  # five of eighteen groups
        assert made["late_products"] == late * (5 if task == 10 else 1) and made["_products"] == 36 - late
        assert made["_total"] == (late if task == 10 else 0)
        assert made["late_shelf"] <= 4  # all that Dask has them need: more, and it does not deal them out
        shelf = gxd.shelf_of(C.name.split("-")[1])  # as long as tasks are to come a worker has it
        with dask_threads():
            assert close(C.compute(), a @ a.T)
        assert len(reads) == 60 and len(set(reads)) == 60
        del shelf
        gc.collect()
        assert not gxd.Shelf._all


def test_products_of_a_device(monkeypatch):
    """Which are added here; the processor stands in for it."""
    monkeypatch.setattr(gxd, "_has_device", lambda: True)
    monkeypatch.setattr(gxd, "_STRIP", 4096)  # some blocks of the inner side at a time
    with dask_threads():
        check_matmul(61, 17, "f4")
        check_stored(61, 17, "f4")
        check_solve(61, 17, "f8")


def test_deficient_least_squares():
    a = RNG.standard_normal((400, 3)) @ RNG.standard_normal((3, 8))
    b = RNG.standard_normal(400)
    with dask_threads():
        x = gxd.lstsq(da.from_array(a, chunks=50), da.from_array(b, chunks=50)).compute()[:, 0]
    assert np.allclose(x, np.linalg.lstsq(a, b, rcond=None)[0])


# ---- 3. refusals -----------------------------------------------------------------------------------------------------

def test_refusals():
    a, _ = definite(40, 10)
    a[33, 33] = -1
    with dask_threads(), pytest.raises(Exception, match="A is not positive definite .*, in the block of rows from 30 on"):
        gxd.cholesky(da.from_array(a, chunks=10)).compute()
    _, A = random((6, 4), 2)
    for wrong, text in ((lambda: gxd.matmul(A, A), "A is 6x4 but B is 6x4"), (lambda: gxd.cholesky(A), "6x4, not square"),
                        (lambda: gxd.lstsq(A, A[:4]), "A has 6 rows but B 4"),
                        (lambda: gxd.solve(A[:4], A), "solve: A has 4 rows but B 6"), (lambda: gxd.svd(A, 5), "between 1 and 4"),
                        (lambda: gxd.pca(A, 0), "between 1 and 4"), (lambda: gxd.knn(A, A, 7), "between 1 and 6"),
                        (lambda: gxd.knn(A, A[:, :2], 1), "Q is 6x4 but E is 6x2"),
                        (lambda: gxd.knn(A, A, 1, "near"), "metric 'near' is not known")):
        with pytest.raises(ValueError, match=text):
            wrong()
    with pytest.raises(TypeError, match="integer"):
        gxd.svd(A, 2.5)
    with pytest.raises(TypeError, match="complex"):
        gxd.cholesky(da.ones((4, 4), dtype="c16"))


# ---- 4. processes ----------------------------------------------------------------------------------------------------

class Workers:
    """Processes of one thread each, which nobody but us begins again."""

    def __init__(self, address, folder):
        self.command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1",
                        "--no-dashboard", "--memory-limit", "0", "--local-directory", str(folder)]
        paths = [str(ROOT / "ext/python"), str(ROOT / "tests/python")]
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths),
                            "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "10s"}  # to the dead one: 30 otherwise
        self.processes = []

    def fill(self, count):
        self.processes = [process for process in self.processes if process.poll() is None]
        while len(self.processes) < count:
            self.processes.append(subprocess.Popen(self.command, env=self.environment, stderr=subprocess.DEVNULL))

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=0, processes=False, protocol="tcp", dashboard_address=":0") as scheduler, \
            distributed.Client(scheduler) as client:
        client.workers = Workers(scheduler.scheduler_address, tmp_path_factory.mktemp("workers"))
        try:
            yield client
        finally:
            client.workers.close()


class Death(distributed.WorkerPlugin if distributed else object):
    """Of the first worker that has the results of `count` tasks."""

    name = "death"

    def __init__(self, mark, count):
        self.mark, self.left = mark, count

    def transition(self, key, start, finish, **_):
        self.left -= start == "executing" and finish == "memory"
        if self.left == 0:
            try:
                os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("check", CHECKS, ids=lambda f: f.__name__[6:])
def test_a_worker_dies(cluster, check, tmp_path):
    """Others need results that die with it."""
    cluster.workers.fill(4)
    cluster.wait_for_workers(4, timeout=300)
    cluster.register_plugin(Death(str(tmp_path / "dead"), 4))  # of 16 tasks or more: one worker has four of them
    try:
        check(700, 100, "f8")
    finally:
        cluster.unregister_worker_plugin("death")
    assert (tmp_path / "dead").exists()


# ---- 5. the model ----------------------------------------------------------------------------------------------------

def test_model_cuts_the_same(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("cluster_model", ROOT / "bench/cluster_model.py")
    model = sys.modules["cluster_model"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(model)
    for rows in (1, 4, 7, 16, 40, 200):
        for columns in (1, 3, 16, 64, 500):
            for least in (16, 64, 256):
                assert model.rectangle(rows, columns, least) == gxd._rectangle(rows, columns, least)
            assert model.group(rows, columns) == gxd._group(rows, columns)
    for block in (100, 500, 1000, 2000, 5000):
        for count in (1, 20, 64, 300):
            assert model.products_in_a_task(block, count) == gxd._fan(block, count)
    for is_device in (True, False):
        monkeypatch.setattr(gxd, "_has_device", lambda: is_device)
        for b, rows, columns in ((10, 4, 16), (10, 20, 40), (2500, 4, 16), (2500, 16, 16), (1000, 3, 3), (2000, 20, 20)):
            A, B = manifest(tmp_path, b, rows, columns), manifest(tmp_path, b, columns, columns)
            made = [key for key in gxd.matmul(A, B, read=True).dask if not key[0].startswith(("gx_", "read_block-"))]
            is_read = not [key for key in needed(gxd.matmul(A, B)) if key[0].startswith("read_block")]
            assert is_read == (is_device or b >= 2000)  # by default
            assert len(made) == len(model.matmul_of_stored(b * columns, b, b * rows, is_device).work)
    for b, n in ((500, 20), (1000, 16), (2000, 12), (2000, 1)):
        graph = gxd.solve(manifest(tmp_path, b, n, n), da.ones(b * n, chunks=b)).dask
        made = [key for key in graph if key[0].startswith("_")]
        assert len(made) == len(model.solve(b * n, b).work) - n  # whose right-hand side is there


def manifest(folder, block, rows, columns):
    """A matrix that nobody reads."""
    path = folder / f"{block}-{rows}x{columns}.json"
    path.write_text(json.dumps({"gx_sharded": 1, "name": "A", "dtype": "f32", "rows": [block] * rows, "cols": [block] * columns,
                                "blocks": [{"path": "none.db", "name": f"A[{k}]"} for k in range(rows * columns)]}))
    return gxd.from_gx(str(path), "A")


# ---- 6. nodes --------------------------------------------------------------------------------------------------------

NODES = [sys.executable, str(ROOT / "bench/cluster.py"), "example", "--nodes", "3", "--n", "600", "--block", "100", "--memory", "400"]


def left(program):
    """What there is of it: processes with its mark, and links and namespaces that this machine should never see."""
    mark, found = f"OF_TEST={program.mark}\0".encode(), []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found += [folder.name] if mark in (folder / "environ").read_bytes() else []
    there = [name for name in ("bridge", "port1") if name in os.listdir("/sys/class/net")]
    return found + there + (["node1"] if os.path.exists("/run/netns/node1") else [])


def start_nodes(**environment):
    pytest.importorskip("distributed")
    mark = uuid.uuid4().hex
    program = subprocess.Popen(NODES, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, **environment, "OF_TEST": mark})
    program.mark = mark
    return program


def skip_if_refused(program, problems):
    if program.returncode == 77:
        pytest.skip(problems.strip())


def test_three_nodes_one_killed():
    program = start_nodes()
    printed, problems = program.communicate(timeout=120)
    skip_if_refused(program, problems)
    assert program.returncode == 0, printed + problems
    assert [len(re.findall(f"10.0.0.{k}", line)) for line in printed.splitlines()[:1] for k in (1, 2, 3)] == [1, 1, 1]
    assert re.search(r"^  until one is killed +[\d.]+ s  node 10.0.0.3, when [2-5] of C's 6 databases", printed, re.M), printed
    assert re.search(r"^C = A B stored +[\d.]+ s  on 2 workers", printed, re.M), printed
    assert float(re.search(r"relative difference ([^;]*);", printed)[1]) < 1e-14
    assert not left(program)


def test_nodes_end_with_the_program():
    program = start_nodes()
    line = program.stdout.readline()
    if not line:
        skip_if_refused(program, program.communicate(timeout=60)[1])
    is_there = line and len(left(program)) >= 6  # two programs, a scheduler, three workers
    program.kill()
    end = time.monotonic() + 5  # by itself it would go on for twelve seconds
    while left(program) and time.monotonic() < end:
        time.sleep(0.05)
    still = left(program)
    problems = program.communicate(timeout=60)[1]
    assert is_there and not still, problems


def test_nodes_that_cannot_be_made(tmp_path):
    (tmp_path / "setpriv").symlink_to("/bin/false")  # as where users may make no namespaces
    for path, text in ((str(tmp_path), "ip, mount, unshare not found"), (f"{tmp_path}:{os.environ['PATH']}", "no reason given")):
        program = start_nodes(PATH=path)
        printed, problems = program.communicate(timeout=60)
        assert (program.returncode, printed) == (77, "") and problems.startswith("--nodes: network namespaces cannot be made here")
        assert text in problems
