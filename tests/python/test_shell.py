"""python -m gx_sqlite: the shell.

Plan:
1. statements from a pipe: rows, several columns, errors and the exit status; matrix values by their shape; bytes that are
   no value, no text; files that read each other; the demo;
2. under a pseudo-terminal: prompt, completion by TAB, a statement of two lines, Control-C, Control-D, history from one
   session to the next, progress of a long call;
3. completion: names of functions, matrices, tables, columns, commands.
"""
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import time

import gx_sqlite as gx
import numpy as np
from conftest import ROOT
from gx_sqlite.shell import Completer

COMMAND = [sys.executable, "-m", "gx_sqlite"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "ext/python"), "TERM": "dumb"}


def piped(text, *arguments):
    return subprocess.run([*COMMAND, *arguments], input=text, env=ENVIRONMENT, capture_output=True, text=True, timeout=600)


def test_a_pipe():
    done = piped("SELECT 1+1; SELECT 'a', 2.5\n, NULL;\nSELECT gx_full(2, 2, 1);SELECT gx_zeros(30, 5);\nSELECT x'00ff';\n.tables")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.splitlines() == [
        "2", "'a'  2.5  NULL", "---  ---  ----", "a    2.5  NULL", "<2x2 f64>", "[[1. 1.]", " [1. 1.]]", "<30x5 f64>",
        "[[0. 0. 0. 0. 0.]", *[" [0. 0. 0. 0. 0.]"] * 28, " [0. 0. 0. 0. 0.]]", "<blob of 2 bytes>"]
    done = piped("SELECT gx_matmul('A', 'B');SELECT 3;")
    assert done.returncode == 1 and done.stdout == "Error: gx_matmul: no matrix named 'A'\n3\n"
    assert piped("", "/nowhere/my.db").returncode == 1 and piped("", "a", "b").returncode == 2


def test_what_a_stranger_types():
    """Names that are nearly right, and commands without their dot; within a statement they are SQL's."""
    done = piped("SELECT gx_mat_mul(1, 2); SELECT nope(1);\nselect\nquit\nfrom (select 7 as quit);\nhelp\nEXIT;\nSELECT 3;")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Error: no such function: gx_mat_mul (perhaps gx_matmul or ")
    assert lines[1:3] == ["Error: no such function: nope", "7"] and lines[3].startswith(".help ") and lines[-1].startswith(".quit")
    assert "Algebra" in piped(".help all").stdout


def test_commands_of_other_shells(tmp_path):
    """Ways of showing rows, times, a table out of a CSV file; what is unknown is said, and nothing is half done."""
    (tmp_path / "t.csv").write_text('a,b\n1,"x, y"\n\n2,é\n')
    (tmp_path / "bad.csv").write_text("1,2\n3\n")
    done = piped(f".import {tmp_path}/t.csv T\n.mode csv\nSELECT * FROM T;\n.mode json\nSELECT * FROM T;\n.mode line\nSELECT * FROM T WHERE a = 1;\n"
                 f".mode list\n.headers off\nSELECT * FROM T;\n.schema T\n.import {tmp_path}/bad.csv T\nSELECT count(*) FROM T;\n.import {tmp_path}/t.csv T\n"
                 "SELECT count(*) FROM T;\n.mode nice\n.nope\n.import x\n.import /nowhere/a.csv T\n.timer on\nCREATE TABLE U(x);\n.read\n")
    lines = done.stdout.splitlines()
    assert lines[:9] == ["a,b", '1,"x, y"', "2,é", '[{"a": 1, "b": "x, y"},', ' {"a": 2, "b": "é"}]', "a = 1", "b = x, y", "1|x, y", "2|é"]
    assert lines[9] == 'CREATE TABLE "T"("a" NUMERIC, "b" NUMERIC);' and lines[10] == "Error: .import: line 2 has 1 fields, the first one has 2"
    assert lines[11:13] == ["2", "5"]  # a table that is there takes the first line, too
    assert lines[13:16] == ["Error: .mode table|list|csv|json|line", "Error: unknown command .nope; .help lists what there is", "Error: .import FILE TABLE"]
    assert "No such file" in lines[16] and re.fullmatch(r"[0-9.]+ s", lines[17]) and lines[18] == "Error: .read FILE" and done.returncode == 1


def test_anything_on_the_input(tmp_path):
    """Values that are none, bytes that are no text, files that read themselves: what follows is run."""
    damaged = b"gxmv" + bytes([1, 0, 0, 0]) + (1).to_bytes(8, "little") * 2 + bytes(8)
    (tmp_path / "bytes.sql").write_bytes(b"SELECT 1;\nSELECT '\xff';\n")
    (tmp_path / "self.sql").write_text(f".read {tmp_path}/self.sql\nSELECT 5;\n")
    given = [f"SELECT x'{damaged.hex()}', x'{damaged[:20].hex()}';", f".read {tmp_path}/bytes.sql", f".read {tmp_path}/self.sql",
             "SELECT '\0';", "SELECT 'é', CAST(x'ff' AS TEXT);", "SELECT 'é';"]
    done = subprocess.run(COMMAND, input="\n".join(given).encode(), env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"},
                          capture_output=True, timeout=600)
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 1 and done.stderr == b""
    assert lines[2] == ("<blob of 32 bytes, gx_show: A is a matrix value of 1x1 f64 with 32 bytes instead of 40>  "
                        "<blob of 20 bytes>")
    assert lines[3] == "Error: the input is no UTF-8 text: invalid start byte"
    assert "self.sql is read by 16 files that read each other" in lines[4] and lines[5:21] == ["5"] * 16
    assert lines[21].startswith("Error: ") and lines[22].startswith("Error: Could not decode") and lines[23] == "\\xe9"


def test_the_demo():
    done = piped("", "demo")
    assert done.returncode == 0 and "Error" not in done.stdout and "gx> SELECT gx_slice" in done.stdout
    assert "<3x5 f64>" in done.stdout


class Terminal:
    """The shell under a pseudo-terminal."""

    def __init__(self, folder):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            environment = {**ENVIRONMENT, "GX_SQLITE_HISTORY": str(folder / "history")}
            os.execve(sys.executable, [*COMMAND, str(folder / "my.db")], environment)
        self.seen = ""

    def _read(self, pattern, seconds):
        end = time.monotonic() + seconds
        while not re.search(pattern, self.seen):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                return None
            self.seen += os.read(self.fd, 65536).decode()
        found, self.seen = self.seen, ""
        return found

    def until(self, pattern, seconds=120):
        found = self._read(pattern, seconds)
        assert found is not None, f"no {pattern!r} in {self.seen!r}"
        return found

    def interrupt(self):
        """Control-C until the prompt is there: one between the prompt and the wait for a key is noticed at the next key."""
        for _ in range(100):
            self.type("\x03")
            found = self._read(r"gx> *$", 1)
            if found is not None:
                return found
            self.type(" ")
        raise AssertionError(f"no prompt in {self.seen!r}")

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        self.type("\x04")
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return status


def test_a_terminal(tmp_path):
    shell = Terminal(tmp_path)
    assert "gx 0." in shell.until("gx> $")
    shell.type("SELECT gx_random(3, 3,\n")
    shell.until("  > $")
    shell.type("'Randoms');\n")
    shell.until(r"Randoms\r\n.*gx> $")
    shell.type("SELECT gx_show(gx_shape\t'Rand\t));\n")  # readline closes the quote
    assert "gx_shape('Randoms'" in shell.until(r"gx> $")
    for doubled in range(10):  # Control-C may come before the statement has begun
        shell.type("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c;\n")
        shell.until(r"FROM c;.*\r\n")  # read: a terminal forgets at Control-C what has not been
        time.sleep(0.02 * 2**doubled)
        if "Error: interrupted\r\n" in shell.interrupt():
            break
    else:
        raise AssertionError("no statement was interrupted")
    shell.type("SELECT 40 +\n")
    shell.until("  > $")
    shell.interrupt()
    assert shell.end() == 0
    assert "Randoms" in (tmp_path / "history").read_text()
    shell = Terminal(tmp_path)
    shell.until("gx> $")
    shell.type("SELECT 6 * 7;\n")
    shell.until("42\r\n.*gx> $")
    shell.type("\x1b[A\x1b[A\x1b[A\x1b[A\n")
    shell.until("gx> $|  > $")
    os.kill(shell.pid, signal.SIGKILL)
    os.waitpid(shell.pid, 0)
    os.close(shell.fd)


def test_progress(tmp_path):
    shell = Terminal(tmp_path)
    shell.until("gx> $")
    shell.type("SELECT gx_config('threads', 1);\n")
    shell.until("gx> $")
    for doubled in range(4):  # a line appears half a second into a call, however fast the machine is
        order = 1250 << doubled
        shell.type(f"SELECT gx_norm(gx_matmul(gx_randn({order}, 1250), gx_randn(1250, {order}))) > 0;\n")
        if re.search(r"(?s)\rgx_\w+ .*\d s", shell.until(r"(?s)(\n1|Error).*gx> $", 120)):
            break
    else:
        raise AssertionError("no progress was seen")
    assert shell.end() == 0


def test_completion(db):
    gx.store(db, "Customers", np.eye(2))
    db.execute("CREATE TABLE Orders(customer_number, x)")
    complete = Completer(db)
    assert "gx_matmul(" in complete.candidates("gx_mat") and complete.candidates("CUSTO") == [
        "Customers", "customer_number"]
    assert complete.candidates("Ord") == ["Orders"] and complete.candidates(".ma") == [".matrices"]
    assert complete("gx_chole", 0) == "gx_cholesky(" and complete("gx_chole", 1) is None
    assert pathlib.Path(ROOT / "ext/python/gx_sqlite/py.typed").exists()
