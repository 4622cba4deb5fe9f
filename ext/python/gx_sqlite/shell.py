"""A shell for SQL with gx loaded: python -m gx_sqlite [database].

Statements end with a semicolon.  Matrix values are shown by their shape (and, where they are small, by their elements)
instead of bytes; long calls show their progress; names of matrices, tables and functions complete with TAB; lines are
kept in ~/.gx_sqlite_history.  Control-C ends a statement, Control-D the shell.  `python -m gx_sqlite demo` shows a few calls.
"""
from __future__ import annotations

import contextlib
import csv
import difflib
import io
import json
import os
import signal
import sqlite3
import struct
import sys
import time
from typing import Any, Iterable, Optional, Sequence, TextIO

from . import _connect
from ._values import BY_NUMBER, HEADER
from ._version import __version__

PROMPT, MORE = "gx> ", "  > "
HISTORY = "~/.gx_sqlite_history"
_SHOWN, _SHOWN_ROWS = 100, 12  # a value of so many elements is shown with them beside others
_DEEPEST = 16  # .read in .read
HELP = """\
.help              this; .help all: every function of gx by its subject
.help WORD         gx's own: a function, or any word
.matrices          what is stored
.tables            the tables
.schema [TABLE]    the statements that made them
.read FILE         run the statements of a file
.import FILE TABLE rows of a CSV file into a table, which is made of its first line where there is none
.mode MODE         how rows are shown: table, list, csv, json or line
.headers on|off    names of columns above the rows of list and csv
.timer on|off      seconds of each statement
.quit              end"""
MODES = ("table", "list", "csv", "json", "line")
KEYWORDS = ("SELECT FROM WHERE GROUP BY ORDER LIMIT INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE VIEW VIRTUAL USING "
            "DROP BEGIN COMMIT ROLLBACK ATTACH DETACH PRAGMA WITH JOIN UNION ALL DISTINCT AS").split()
DEMO = """\
SELECT gx_randn(2000, 50, 'X');                           -- a matrix, stored: 2000 observations of 50 variables
SELECT gx_matmul('X', 'X', 'G', '{"transa":true}');       -- its Gram matrix X^T X
SELECT name, rows, cols, dtype, bytes FROM gx;            -- what there is
SELECT gx_slice('G', 0, 3, 0, 5);                         -- results without a name are values, shown as numbers
SELECT gx_norm(gx_eval('x = solve(G, ones(50, 1)); G @ x - 1'));          -- a program: how far G x is from ones
SELECT gx_heatmap('G', '{"width":40,"height":12}');
SELECT k, round(value, 1) AS eigenvalue FROM gx_eig('G') ORDER BY k DESC LIMIT 3;
SELECT component, round(ratio, 4) AS share FROM gx_pca('X', 3);"""


def connect(path: str) -> Any:
    """A connection with gx, by sqlite3 or, where that cannot load extensions, by apsw."""
    db: Any
    try:
        _connect.probe()  # before there is a file
        db = sqlite3.connect(path, isolation_level=None)
    except _connect.NoExtensions:
        try:
            import apsw
        except ImportError:
            raise
        db = apsw.Connection(path)
    _connect.load(db)
    return db


# Showing --------------------------------------------------------------------------------------------------------------

def shown(db: Any, value: Any, is_alone: bool = False) -> str:
    """One value of a row; is_alone: it has lines of its own, so that a large matrix is shown with its corners."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return _blob(db, value, is_alone)
    return repr(value) if isinstance(value, float) else str(value)


def _blob(db: Any, value: bytes, is_alone: bool) -> str:
    if value[:4] != b"gxmv":
        return f"<blob of {len(value)} bytes>"
    try:
        _, _, number, _, m, n, _ = HEADER.unpack_from(value)
        shape = f"<{m}x{n} {BY_NUMBER[number]}>"
    except (struct.error, IndexError):
        return f"<blob of {len(value)} bytes>"
    if m * n > 0 and (is_alone or (m * n <= _SHOWN and m <= _SHOWN_ROWS)):
        try:
            shape += "\n" + str(_connect.value(db, "SELECT gx_show(?)", (value,)))
        except Exception as problem:  # a table holds what somebody put there
            return f"<blob of {len(value)} bytes, {problem}>"
    return shape


def table(names: Sequence[str], cells: Sequence[Sequence[str]]) -> Iterable[str]:
    """Rows as lines; a result of one column without a heading, and texts of several lines as they are."""
    if len(names) == 1:
        for row in cells:
            yield row[0]
        return
    flat = [[cell.replace("\n", " ") for cell in row] for row in cells]
    widths = [max(map(len, column)) for column in zip(names, *flat)]
    for row in [list(names), ["-" * width for width in widths], *flat]:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()


def rendered(mode: str, has_headers: bool, names: Sequence[str], cells: Sequence[Sequence[Any]]) -> Iterable[str]:
    """Rows as lines in one of MODES."""
    if mode == "table":
        yield from table(names, cells)
    elif mode == "json":
        lines = [json.dumps(dict(zip(names, row)), ensure_ascii=False) for row in cells]
        yield "[" + ",\n ".join(lines) + "]"
    elif mode == "line":
        width = max(map(len, names), default=0)
        for k, row in enumerate(cells):
            yield from [""] * (k > 0) + [f"{name:>{width}} = {cell}" for name, cell in zip(names, row)]
    else:
        rows = ([names] if has_headers else []) + list(cells)
        if mode == "list":
            yield from ("|".join(row) for row in rows)
        else:
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(rows)
            yield from text.getvalue().splitlines()


# Running --------------------------------------------------------------------------------------------------------------

def is_command(line: str) -> bool:
    """.quit and the like; also without the dot, as other shells have it."""
    return line.startswith(".") or line.strip().rstrip("; ").lower() in ("quit", "exit", "help")


class Shell:
    """One connection, and where its results go."""

    def __init__(self, db: Any, out: TextIO) -> None:
        self.db = db
        self.out = out
        self.failed = False
        self._depth = 0  # of files that read files
        self._mode, self._has_headers, self._has_timer = "table", False, False

    def statement(self, sql: str) -> None:
        """Run it, show its rows or its error.  Control-C ends it."""
        start = time.perf_counter()
        try:
            names, found = self._rows(sql)
            seconds = time.perf_counter() - start
            is_plain = self._mode == "json"  # numbers stay numbers
            cells = [[value if is_plain and not isinstance(value, bytes) else shown(self.db, value, len(row) == 1)
                      for value in row] for row in found]
            lines = list(rendered(self._mode, self._has_headers, names, cells)) if names else []
        except KeyboardInterrupt:
            self._error("interrupted")
            return
        except Exception as problem:
            self._error(f"{problem or type(problem).__name__}{self._meant(str(problem))}")
            return
        for line in lines:
            print(line, file=self.out)
        if self._has_timer:
            print(f"{seconds:.3f} s", file=self.out)
        self.out.flush()

    def _error(self, text: Any) -> None:
        self.failed = True
        print(f"Error: {text}", file=self.out)

    def _meant(self, problem: str) -> str:
        """The functions of gx whose names are nearest to one that there is not."""
        prefix, _, name = problem.partition("no such function: ")
        if prefix or not name.lower().startswith("gx"):
            return ""
        names = [row[0] for row in _connect.rows(self.db, "SELECT DISTINCT name FROM pragma_function_list WHERE name LIKE 'gx%'")]
        near = difflib.get_close_matches(name.lower(), names, 3)
        return f" (perhaps {' or '.join(near)}; .help all)" if near else ""

    def _rows(self, sql: str) -> tuple[list[str], list[Any]]:
        cursor = self.db.cursor()
        cursor.execute(sql)
        names: list[str] = []
        with contextlib.suppress(Exception):  # apsw: of a statement that has ended it does not tell
            names = [column[0] for column in (cursor.description or ())]
        found = cursor.fetchall()
        return names or [""] * len(found[0] if found else ()), found

    def dot(self, line: str) -> bool:
        """A command; False ends the shell."""
        word, _, rest = line.rstrip("; ").partition(" ")
        word, rest = "." + word.lstrip(".").lower(), rest.strip()
        if word in (".quit", ".exit", ".q"):
            return False
        if word == ".help" and rest == "all":
            self.statement("SELECT gx_help()")
        elif word == ".help" and rest:
            self.statement("SELECT gx_help(" + _literal(rest) + ")")
        elif word == ".matrices":
            self.statement("SELECT name, rows, cols, dtype, properties, bytes FROM gx ORDER BY name")
        elif word == ".tables":
            self.statement("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")
        elif word == ".schema":
            like = f"AND name LIKE {_literal(rest)} " if rest else ""
            self.statement(f"SELECT sql || ';' FROM sqlite_master WHERE sql IS NOT NULL {like}ORDER BY name")
        elif word == ".read" and rest:
            self._read(rest)
        elif word == ".import":
            self._import(rest)
        elif word in (".mode", ".headers", ".header", ".timer"):
            self._set(word, rest.lower())
        elif word == ".help":
            print(HELP, file=self.out)
        else:
            self._error(f"unknown command {word}; .help lists what there is" if word != ".read" else ".read FILE")
        return True

    def _set(self, word: str, rest: str) -> None:
        """.mode, .headers, .timer."""
        choices = MODES if word == ".mode" else ("on", "off")
        if rest not in choices:
            self._error(f"{word} {'|'.join(choices)}")
        elif word == ".mode":
            self._mode, self._has_headers = rest, self._has_headers or rest == "csv"
        elif word == ".timer":
            self._has_timer = rest == "on"
        else:
            self._has_headers = rest == "on"

    def _import(self, rest: str) -> None:
        """A CSV file's rows into a table; all of them or none."""
        path, _, name = rest.rpartition(" ")
        if not path or not name:
            self._error(".import FILE TABLE")
            return
        quoted = '"' + name.replace('"', '""') + '"'
        try:
            with open(path.strip().strip("'\""), newline="", encoding="utf-8") as file:
                rows = [row for row in csv.reader(file) if row]
            is_there = bool(_connect.rows(self.db, f"SELECT 1 FROM pragma_table_info({_literal(name)})"))
            columns = len(rows[0]) if rows else 0
            wrong = [k for k, row in enumerate(rows) if len(row) != columns]
            if wrong or not rows:
                self._error(f".import: line {wrong[0] + 1} has {len(rows[wrong[0]])} fields, the first one has {columns}" if wrong
                            else f".import: {path} is empty")
                return
            self.db.execute("SAVEPOINT gx_import")
            try:
                if not is_there:
                    heads = ", ".join('"' + head.replace('"', '""') + '" NUMERIC' for head in rows.pop(0))
                    self.db.execute(f"CREATE TABLE {quoted}({heads})")
                self.db.cursor().executemany(f"INSERT INTO {quoted} VALUES({','.join('?' * columns)})", rows)
            except BaseException:
                self.db.execute("ROLLBACK TO gx_import")
                raise
            finally:
                self.db.execute("RELEASE gx_import")
        except Exception as problem:  # of the file, of its text, of the table
            self._error(f".import: {problem}")

    def _read(self, path: str) -> None:
        if self._depth == _DEEPEST:
            self._error(f".read: {path} is read by {_DEEPEST} files that read each other")
            return
        self._depth += 1
        try:
            with open(path, encoding="utf-8") as file:
                self.run(file)
        except OSError as problem:
            self._error(problem)
        finally:
            self._depth -= 1

    def run(self, lines: Iterable[str], echo: bool = False) -> bool:
        """Statements and commands of these lines; False where one ended the shell."""
        pending = ""
        try:
            for line in lines:
                if echo:
                    print(PROMPT + line, file=self.out)
                if not pending and is_command(line):
                    if not self.dot(line.strip()):
                        return False
                    continue
                pending = self.statements(pending + line.rstrip("\n") + "\n")
        except UnicodeDecodeError as problem:
            self._error(f"the input is no UTF-8 text: {problem.reason}")
            return True
        if pending.strip():
            self.statement(pending)
        return True

    def statements(self, text: str) -> str:
        """Run the whole statements at the beginning of text; what is left of it."""
        end = text.find(";")
        while end >= 0:
            try:
                is_whole = sqlite3.complete_statement(text[:end + 1])
            except ValueError as problem:  # a null character, half of a pair
                self._error(problem)
                return ""
            if is_whole:
                self.statement(text[:end + 1])
                text, end = text[end + 1:], -1
            end = text.find(";", end + 1)
        return text if text.strip() else ""


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# Talking --------------------------------------------------------------------------------------------------------------

class Completer:
    """What may stand at the cursor: names of matrices, tables, columns and functions, and SQL's words."""

    def __init__(self, db: Any) -> None:
        self._db = db
        self._found: list[str] = []

    def candidates(self, text: str) -> list[str]:
        """All that begin with text."""
        names = set(KEYWORDS)
        for sql in ("SELECT DISTINCT name || '(' FROM pragma_function_list", "SELECT name FROM gx",
                    "SELECT name FROM pragma_module_list WHERE name LIKE 'gx%'",
                    "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')",
                    "SELECT c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'"):
            with contextlib.suppress(Exception):  # an old SQLite has not all of them
                names.update(str(row[0]) for row in _connect.rows(self._db, sql))
        if text.startswith("."):
            names = {line.split()[0] for line in HELP.splitlines()}
        exact = sorted(name for name in names if name.startswith(text))
        return exact or sorted(name for name in names if name.lower().startswith(text.lower()))

    def __call__(self, text: str, state: int) -> Optional[str]:
        if state == 0:
            self._found = self.candidates(text)
        return self._found[state] if state < len(self._found) else None


@contextlib.contextmanager
def _line_editing(db: Any) -> Any:
    try:
        import readline
    except ImportError:
        yield
        return
    path = os.path.expanduser(os.environ.get("GX_SQLITE_HISTORY", HISTORY))
    readline.set_completer(Completer(db))
    readline.set_completer_delims(" \t\n,;()'\"[]{}+-*/<>=|")
    readline.parse_and_bind("tab: complete")
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    try:
        yield
    finally:
        readline.set_history_length(10000)
        with contextlib.suppress(OSError):
            readline.write_history_file(path)


def _talk(shell: Shell) -> None:
    print(f"gx {__version__}, SQLite {_connect.value(shell.db, 'SELECT sqlite_version()')}; statements end with a semicolon; .help, .quit",
          file=shell.out)
    pending = ""
    while True:
        try:
            line = input(MORE if pending else PROMPT)
        except KeyboardInterrupt:
            print(file=shell.out)
            pending = ""
            continue
        except EOFError:
            print(file=shell.out)
            return
        try:
            if not pending and is_command(line):
                if not shell.dot(line.strip()):
                    return
                continue
            pending = shell.statements(pending + line + "\n")
        except KeyboardInterrupt:  # before a statement, or as its rows are shown
            print("Error: interrupted", file=shell.out)
            pending = ""


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The command: an exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] in (["-h"], ["--help"]) or len(words) > 1:
        print("python -m gx_sqlite [database]      a shell, or the statements of the standard input\n"
              "python -m gx_sqlite demo            a few calls, shown")
        return 0 if len(words) == 1 else 2
    is_demo = words == ["demo"]
    try:
        db = connect(":memory:" if is_demo or not words else words[0])
    except Exception as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 1
    if isinstance(sys.stdin, io.TextIOWrapper) and not sys.stdin.isatty():
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    shell = Shell(db, sys.stdout)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return _serve(shell, is_demo)
    except BrokenPipeError:  # who reads has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _serve(shell: Shell, is_demo: bool) -> int:
    if is_demo:
        shell.run(DEMO.splitlines(), echo=True)
    elif sys.stdin.isatty():
        _connect.value(shell.db, "SELECT gx_config('progress', 'on')")
        with _line_editing(shell.db):
            _talk(shell)
        return 0
    else:
        shell.run(sys.stdin)
    return 1 if shell.failed else 0
