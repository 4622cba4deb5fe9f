"""Control-C in Python: a real SIGINT to a process whose main thread is in a statement.

Plan:
1. each kind of long call, on each kind of connection: KeyboardInterrupt, long before the statement would have ended; the
   connection answers and has what it had; the module's error is as it was;
2. what Control-C must not touch: a statement that begins after it; one of another thread; one where the application has a
   handler of its own, which runs after it, as do those of other signals; the application's wakeup fd;
3. an application's progress handler stays; handlers set again between statements; a fork; a source of rows that is
   interrupted; two connections, each with a SQLite of its own;
4. a notebook's kernel: interrupted in a cell, the next cell works.

Each runs in a process of its own, since a signal that comes late would end the tests.
"""
import os
import subprocess
import sys
import textwrap

import pytest
from conftest import ROOT

ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'ext/python'}:{ROOT / 'tests/python'}"}
PREPARED = """
import os, signal, sqlite3, sys, threading, time
import gx_sqlite as gx
import numpy as np
from conftest import open_apsw, open_pysqlite3, open_sqlalchemy, open_sqlite3

signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background may ignore it

FOREVER = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c"
EIG = "SELECT gx_eig('A', 'values', 'vectors')"

def press(seconds=0.5, number=signal.SIGINT):
    threading.Timer(seconds, os.kill, (os.getpid(), number)).start()

def interrupted(call, *arguments):
    "Seconds from Control-C to KeyboardInterrupt."
    pressed = []
    def kill():
        pressed.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Timer(0.5, kill).start()
    try:
        call(*arguments)
    except KeyboardInterrupt:
        return time.monotonic() - pressed[0]
    raise AssertionError("the call ended by itself")

def loaded(db):
    gx.load(db)
    return db

def with_a(db, order=3000):
    list(db.execute(f"SELECT gx_randn({order}, {order}, 'A')"))
    return db
"""
WAIT = 10  # seconds that an interrupt may take on a machine with much else to do; the statements take minutes


def child(program, *arguments):
    done = subprocess.run([sys.executable, "-c", PREPARED + textwrap.dedent(program), *map(str, arguments)], env=ENVIRONMENT,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout.split()


CALLS = {
    "svd": "lambda: db.execute(\"SELECT gx_svd('A', 's', 'u', 'vt')\")",
    "eig": "lambda: db.execute(EIG)",
    "matmul": "lambda: [db.execute(\"SELECT gx_matmul('A', 'A', 'B', '{\\\"replace\\\":true}')\") for _ in range(1000)]",
    "table function": "lambda: db.execute(\"SELECT sigma FROM gx_svd('A')\").fetchall()",
    "expression": "lambda: ((A @ A @ A).inverse() @ A.inverse() @ A.inverse() @ A.inverse() @ A).fetch()",
    "stored expression": "lambda: (A.inverse() @ A.inverse() @ A.inverse() @ A.inverse() @ A.inverse()).store('B')",
    "fetch": "lambda: [gx.fetch(db, 'A') for _ in range(10000)]",
    "plain SQL": "lambda: db.execute(FOREVER)",
    "many": "lambda: db.executemany('INSERT INTO plain SELECT ? + (' + FOREVER + ')', [(1,), (2,)])",
    "script": "lambda: db.executescript(FOREVER)",
}


@pytest.mark.parametrize("name", list(CALLS))
def test_calls(name):
    printed = child(f"""
        db = with_a(gx.connect(":memory:", isolation_level=None), 4000 if {name!r} == "svd" else 3000)
        db.execute("CREATE TABLE plain(x)")
        A = gx.matrix(db, "A")
        waits = [interrupted({CALLS[name]}) for _ in range(2)]
        assert [name for name, in db.execute("SELECT name FROM gx") if name != "B"] == ["A"]
        assert {name!r} == "matmul" or len(list(db.execute("SELECT name FROM gx"))) == 1
        assert A[0, 0] == A[0, 0] and db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        try:
            db.execute("SELECT nope()")
        except sqlite3.OperationalError as problem:
            assert "no such function" in str(problem) and "__init__" not in sqlite3.OperationalError.__dict__
        assert threading.active_count() == 1
        print(max(waits))
    """)
    assert float(printed[0]) < WAIT


@pytest.mark.parametrize("kind", ["sqlite3", "pysqlite3", "apsw", "sqlalchemy"])
def test_connections(kind, tmp_path):
    if kind != "sqlite3":
        pytest.importorskip(kind)
    printed = child(f"""
        db = open_{kind}(sys.argv[1])
        if {kind!r} == "sqlalchemy":
            import sqlalchemy
            def run(sql): return list(db.execute(sqlalchemy.text(sql)))
        else:
            def run(sql): return list(db.execute(sql))
            gx.load(db)
        run("SELECT gx_randn(3000, 3000, 'A')")
        if {kind!r} == "sqlalchemy":
            db.commit()
        waits = [interrupted(run, EIG)]
        if {kind!r} == "sqlalchemy":
            db.rollback()
        if {kind!r} != "pysqlite3":  # it does not say whether a connection has a progress handler
            waits.append(interrupted(run, FOREVER))
        if {kind!r} == "sqlalchemy":
            db.rollback()
        assert list(map(tuple, run("SELECT name FROM gx"))) == [("A",)]
        print(max(waits))
    """, tmp_path / "a.db")
    assert float(printed[0]) < WAIT


def test_what_begins_after_it():
    """A Control-C that Python has handled ends nothing."""
    child("""
        db = with_a(gx.connect(":memory:", isolation_level=None), 300)
        for _ in range(10):
            try:
                press(0.02)
                while True:
                    pass
            except KeyboardInterrupt:
                pass
            db.execute("SELECT gx_eig('A', 'values', 'vectors', '{\\"replace\\":true}')")
            try:
                press(0.02)
                while True:
                    pass
            except KeyboardInterrupt:
                assert db.execute(FOREVER.replace("FROM c)", "FROM c WHERE x < 300000)")).fetchone() == (300000,)
    """)


def test_what_was_open():
    """A cursor in the middle of its rows goes on, other statements work, and so does the transaction."""
    child("""
        db = with_a(gx.connect(":memory:", isolation_level=None))
        db.execute("CREATE TABLE t(x)")
        db.execute("BEGIN")
        db.execute("INSERT INTO t VALUES (1), (2), (3)")
        rows, cells = db.execute("SELECT x FROM t"), db.execute("SELECT value FROM gx_cells('A')")
        assert rows.fetchone() == (1,) and cells.fetchone() is not None
        for sql in (EIG, FOREVER, "SELECT gx_randn(3000, 3000, 'B'), gx_inverse('A', 'C'), gx_eig('A', 'values', 'vectors')"):
            assert interrupted(db.execute, sql) < 10
            assert db.in_transaction and db.execute("SELECT gx_sum('[[1,2]]')").fetchone() == (3,)
        gx.store(db, "D", np.eye(2000))
        assert rows.fetchall() == [(2,), (3,)] and cells.fetchone() is not None
        db.execute("COMMIT")
        assert "D" in [name for name, in db.execute("SELECT name FROM gx")] and db.execute("SELECT gx_check()").fetchone() == ("ok",)
    """)


def test_other_threads():
    """The statement of another thread goes on; the main thread's own wait ends."""
    child("""
        db = with_a(gx.connect(":memory:", isolation_level=None, check_same_thread=False), 500)
        found = []
        def work():
            found.append(db.execute(FOREVER.replace("FROM c)", "FROM c WHERE x < 2000000)")).fetchone())
            found.append(db.execute(EIG).fetchone())
        thread = threading.Thread(target=work)
        press(0.2)
        thread.start()
        try:
            while thread.is_alive():
                time.sleep(0.01)
            raise AssertionError("no Control-C")
        except KeyboardInterrupt:
            pass
        thread.join()
        assert len(found) == 2, found
    """)


def test_handlers_of_the_application():
    """They run when the statement has ended, those of other signals too; a wakeup fd hears of each signal."""
    child("""
        import asyncio
        db = with_a(gx.connect(":memory:", isolation_level=None), 500)
        heard, ended = [], []
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: heard.append((number, len(ended))))
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        for number in (signal.SIGINT, signal.SIGTERM):
            for sql in (FOREVER.replace("FROM c)", "FROM c WHERE x < 1500000)"), EIG.replace("')", "', '{\\"replace\\":true}')")):
                press(0.05, number)
                db.execute(sql).fetchone()
                ended.append(sql)
                time.sleep(0.2)
        assert signal.set_wakeup_fd(-1) == writer and len(os.read(reader, 100)) == 4
        assert [number for number, _ in heard] == [2, 2, 15, 15], heard
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        press(0.05)
        db.execute(EIG.replace("')", "', '{\\"replace\\":true}')")).fetchone()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        assert interrupted(db.execute, FOREVER) < 10

        async def inside():  # asyncio's own handler cancels the task when the statement has ended
            press(0.05)
            db.execute(EIG.replace("')", "', '{\\"replace\\":true}')")).fetchone()
            ended.append("asyncio")
            await asyncio.sleep(1)
        try:
            asyncio.run(inside())
        except KeyboardInterrupt:
            pass
        assert sys.version_info < (3, 11) or ended[-1] == "asyncio"
        assert interrupted(db.execute, FOREVER) < 10
    """)


def test_progress_handlers_of_the_application():
    """One that is there when gx is loaded stays, and one that comes later takes the place of gx's; gx's calls end in either case."""
    child("""
        asked = []
        for is_first in (True, False):
            db = sqlite3.connect(":memory:", isolation_level=None)
            if is_first:
                db.set_progress_handler(lambda: len(asked) > 3 or asked.append(1), 1000)
            gx.load(db)
            if not is_first:
                db.set_progress_handler(lambda: len(asked) > 3 or asked.append(1), 1000)
            try:
                db.execute(FOREVER)
            except sqlite3.OperationalError as problem:
                assert str(problem) == "interrupted"
            assert len(asked) == 4
            db.set_progress_handler(None, 0)
            assert interrupted(with_a(db).execute, EIG) < 10
            asked.clear()
    """)


def test_a_child():
    """A fork is interrupted as its parent is."""
    child("""
        db = gx.connect(":memory:", isolation_level=None)
        interrupted(with_a(db).execute, EIG)
        pid = os.fork()
        if pid == 0:
            other = gx.connect(":memory:", isolation_level=None)
            interrupted(other.execute, FOREVER)
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    """)


def test_rows_that_are_interrupted():
    """KeyboardInterrupt in an iterator of blocks arrives as it is, and nothing is stored."""
    child("""
        db = gx.connect(":memory:", isolation_level=None)
        def blocks():
            while True:
                time.sleep(0.01)
                yield np.ones((1000, 500))
        assert interrupted(gx.store, db, "A", blocks()) < 10
        def endless():
            for _ in range(10 ** 6):
                time.sleep(0.01)
                yield np.ones((100, 500))
        def store(): gx.store(db, "A", endless(), rows=10 ** 8)
        assert interrupted(store) < 10
        assert list(db.execute("SELECT name FROM gx")) == []
        import _thread
        from gx_sqlite import _connect
        db.create_function("press", 0, _thread.interrupt_main)  # the next Python function begins with the signal's handler
        for handler, raises in ((signal.default_int_handler, KeyboardInterrupt), (lambda *_: 1 / 0, sqlite3.OperationalError)):
            signal.signal(signal.SIGINT, handler)
            try:
                with _connect.function(db, lambda x: x, 1) as one:
                    db.execute(f"SELECT press(), {one}(1)").fetchall()
                raise AssertionError("no Control-C")
            except raises:
                pass
    """)


def test_the_bar_of_a_notebook():
    """Control-C while the function runs that draws it."""
    child("""
        from gx_sqlite import _notebook
        def draws(label, fraction, seconds):
            if is_ready:
                drawn.append(label)
            if len(drawn) == 3:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(10)
        drawn, is_ready = [], []
        _notebook.kernel, _notebook.Bars = lambda: True, lambda: draws
        db = with_a(gx.connect(":memory:", isolation_level=None))
        db.execute("SELECT gx_config('threads', 1)")
        A = gx.matrix(db, "A")
        is_ready.append(True)
        for _ in range(2):
            drawn.clear()
            try:
                (A @ A @ A @ A).fetch()
                raise AssertionError("no Control-C")
            except KeyboardInterrupt:
                assert len(drawn) == 3 and db.execute("SELECT gx_sum('[[1,2]]')").fetchone() == (3,)
        gx.progress(db, False)
        assert interrupted(db.execute, EIG) < 10 and len(drawn) == 3
    """)


def test_two_libraries(tmp_path):
    pytest.importorskip("apsw")
    child("""
        first, second = loaded(open_sqlite3(":memory:")), loaded(open_apsw(":memory:"))
        for _ in range(2):
            for db in (first, second):
                assert interrupted(db.execute, FOREVER) < 10
                assert interrupted(db.execute, "SELECT gx_det(gx_randn(8000, 8000))") < 10
                signal.signal(signal.SIGINT, signal.default_int_handler)  # Python's handler is put in front again
    """)


def test_a_notebook(tmp_path):
    """Jupyter's kernel.interrupt is SIGINT to the kernel."""
    pytest.importorskip("ipykernel")
    manager = pytest.importorskip("jupyter_client").KernelManager(kernel_name="python3")
    manager.start_kernel(env=ENVIRONMENT, cwd=str(tmp_path))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=120)

        def cell(code, seconds=None):
            # Just after an error the kernel drops every request that would stop at one.
            asked = client.execute(code, stop_on_error=False)
            if seconds is not None:
                while client.get_iopub_msg(timeout=60)["content"].get("text") != "begun\n":
                    pass
                manager.interrupt_kernel()
            while True:
                answer = client.get_shell_msg(timeout=60)
                if answer["parent_header"].get("msg_id") == asked:
                    return answer["content"]

        assert cell(PREPARED + "\ndb = with_a(gx.connect(':memory:', isolation_level=None))")["status"] == "ok"
        for call in ("db.execute(EIG)", "gx.matrix(db, 'A').inverse().store('B', replace=True); db.execute(FOREVER)"):
            assert cell(f"print('begun', flush=True)\n{call}", 1)["ename"] == "KeyboardInterrupt"
            assert cell("assert len(list(db.execute('SELECT name FROM gx'))) <= 2")["status"] == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
