"""Loading gx, and threads, where the system gives no more of them.

Test plan, each in a process of its own with a pthread_create() that fails from the n-th call on (LD_PRELOAD):

1. No thread at all, and fewer than are asked for: loading raises no signal and prints nothing; products and
   singular values, which take OpenBLAS's threads, are right.
2. After a fork(), which ends OpenBLAS's threads: both sides compute, also where no new thread is to be had.
3. In an address space of every size from too little to load gx up to plenty: loading, products and singular values end,
   with the right answer or with an error that speaks of memory.

And in this process:

4. Into a connection of a shared cache, where another one changes the schema: loading waits for it, or says so; a second
   load, too.
"""
import ctypes
import os
import subprocess
import sys
import threading

import pytest
from conftest import gx_path

PRELOAD = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
    static atomic_int calls;
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
    if (atomic_fetch_add(&calls, 1) >= atoi(getenv("THREADS_LEFT"))) {
        return EAGAIN;
    }
    return real(thread, attr, start, arg);
}
"""

PROGRAM = """
import os, signal, sqlite3, sys

def connect():
    db = sqlite3.connect(":memory:")
    db.enable_load_extension(True)
    db.load_extension(sys.argv[1])
    db.execute("SELECT gx_config('threads', '4')")
    return db

def compute(db):
    A = "gx_random(600, 600)"  # past the order from which singular values take several threads
    norm, = db.execute(f"SELECT gx_norm({A})").fetchone()
    sigmas, = db.execute(f"SELECT sqrt(sum(sigma * sigma)) FROM gx_svd({A})").fetchone()
    assert abs(norm - sigmas) < 1e-12 * norm, (norm, sigmas)
    zero, = db.execute(f"SELECT gx_norm(gx_sub(gx_matmul({A}, gx_eye(600)), {A}))").fetchone()
    assert zero == 0

compute(connect())
if sys.argv[2] == "fork":
    child = os.fork()
    compute(connect())
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print("computed")
"""


@pytest.fixture(scope="module")
def preload(tmp_path_factory):
    folder = tmp_path_factory.mktemp("preload")
    (folder / "few.c").write_text(PRELOAD)
    subprocess.run([os.environ.get("CC", "gcc"), "-shared", "-fPIC", "-o", folder / "few.so", folder / "few.c", "-ldl"], check=True)
    return folder / "few.so"


@pytest.mark.skipif(bool(os.environ.get("LD_PRELOAD")), reason="something else is preloaded: a sanitizer")
@pytest.mark.parametrize("how", ["once", "fork"])
@pytest.mark.parametrize("threads", [0, 1, 2, 4, 7, 1000])
def test_few_threads(preload, threads, how):
    done = subprocess.run([sys.executable, "-c", PROGRAM, gx_path(), how], capture_output=True, text=True, timeout=120,
                          env=os.environ | {"LD_PRELOAD": str(preload), "THREADS_LEFT": str(threads)})
    assert (done.returncode, done.stdout, done.stderr) == (0, "computed\n", "")


SHORT = """
import resource, sqlite3, sys
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + (int(sys.argv[2]) << 20)
resource.setrlimit(resource.RLIMIT_AS, (size, size))
db = sqlite3.connect(":memory:")
db.enable_load_extension(True)
try:
    db.load_extension(sys.argv[1])
    db.execute("SELECT gx_config('threads', '4')")
    A = "gx_random(600, 600)"
    assert db.execute(f"SELECT gx_norm(gx_sub(gx_matmul({A}, gx_eye(600)), {A}))").fetchone() == (0,)
    norm, sigmas = db.execute(f"SELECT gx_norm({A}), (SELECT sqrt(sum(sigma * sigma)) FROM gx_svd({A}))").fetchone()
    assert abs(norm - sigmas) < 1e-12 * norm
    print("computed")
except (MemoryError, sqlite3.Error) as problem:
    print("error: memory" if isinstance(problem, MemoryError) else "error", problem)
"""


@pytest.mark.skipif(bool(os.environ.get("LD_PRELOAD")), reason="a sanitizer needs its address space")
def test_short_address_space():
    said = {}
    for mib in [10, 40, 60, 80, 120, 160, 200, 240, 280, 320, 400, 500, 700, 1000, 4000]:
        done = subprocess.run([sys.executable, "-c", SHORT, gx_path(), str(mib)], capture_output=True, text=True, timeout=100)
        assert (done.returncode, done.stderr) == (0, ""), (mib, done)
        said[mib] = done.stdout.strip()
        words = ["memory", "shared object"]  # SQLite has loaded under neither of two names
        assert said[mib] == "computed" or any(word in said[mib] for word in words), said
    assert said[10].startswith("error") and said[4000] == "computed", said


def sqlite():
    """The system's SQLite by ctypes: sqlite3_load_extension() lets other threads run, which Python's method does not."""
    c = ctypes.CDLL("libsqlite3.so.0")
    c.sqlite3_free.argtypes = [ctypes.c_void_p]
    return c


def connect(c, path):
    db = ctypes.c_void_p()
    assert c.sqlite3_open_v2(f"file:{path}?cache=shared".encode(), ctypes.byref(db), 2 | 4 | 0x40, None) == 0
    assert c.sqlite3_enable_load_extension(db, 1) == 0
    return db


def load(c, db):
    """What SQLite says of it; None where gx is loaded."""
    message = ctypes.c_void_p()
    rc = c.sqlite3_load_extension(db, gx_path().encode(), None, ctypes.byref(message))
    said = ctypes.string_at(message.value).decode() if message.value else None
    c.sqlite3_free(message)
    assert (rc == 0) == (said is None)
    return said


@pytest.mark.parametrize("loaded", [False, True])
def test_shared_cache(tmp_path, loaded):
    c = sqlite()
    other, db = connect(c, tmp_path / "shared.db"), connect(c, tmp_path / "shared.db")
    assert not loaded or load(c, db) is None
    assert c.sqlite3_exec(other, b"BEGIN; CREATE TABLE t(a)", None, None, None) == 0
    assert "another connection of the shared cache is changing the schema" in load(c, db)
    timer = threading.Timer(0.1, c.sqlite3_exec, [other, b"COMMIT", None, None, None])
    timer.start()
    assert load(c, db) is None
    timer.join()
    assert c.sqlite3_exec(db, b"SELECT gx_store('A', '[[1,2]]'); SELECT * FROM gx", None, None, None) == 0
    assert c.sqlite3_close(db) == 0 and c.sqlite3_close(other) == 0
