"""Calls of every function and table with matrices, numbers and options of extreme sizes: the child of test_bounds.py.

    python boundskit.py FOLDER PART PARTS

makes every PARTS-th call, from PART on, in a database in FOLDER.  Before a call its text is written to FOLDER/call.PART,
so that the parent can say which one ended the process.  A call that is interrupted because it takes longer than
PATIENCE, and a refusal that is no line of text, are printed, one a line; one that is deaf to the interrupt ends the
process.
"""
import os
import pathlib
import re
import sqlite3
import sys
import threading
import time

from conftest import HEADER, ROOT, gx_connect

K = 1000
SIDES = [0, 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32, 2**40, 2**40 + 1, 2**60 + K, 2**62, 2**63 - 1]
PATIENCE = 20.0  # seconds; what answers at all does within a few milliseconds
NOT_CALLED = {"gx_selftest", "gx_benchmark"}  # seconds of work that no argument changes


def value(rows, cols, dtype=0):
    """A matrix value that is its header: of an empty matrix, or forged."""
    return HEADER.pack(b"gxmv", 1, dtype, 0, rows, cols, 0)


def make_matrices(db):
    """SQL of matrices: small ones, values, and stored ones whose catalog rows claim a side."""
    matrices = ["'[[1,2],[3,4]]'", "'[]'", "'[[],[],[]]'", "'good'"]
    db.execute("SELECT gx_store('good', '[[4,1],[1,3]]')")
    for number, side in enumerate(SIDES):
        for rows, cols in {(0, side), (side, 0), (side, 1), (1, side), (side, side)}:
            blob = value(rows, cols, number % 4)
            matrices.append("x'" + blob.hex() + "'")
            if rows <= 2**40 and cols <= 2**40:
                name = f"s{rows}x{cols}"
                db.execute(f"SELECT gx_store('{name}', '[1]', '{{\"replace\":true}}')")
                tile_rows, tile_cols = max(1, min(rows, 2**20)), max(1, min(cols, 2**20 if rows < 2 else 8))
                # no shadow table is written in defensive mode, and the tests' connections are not in it
                db.execute("UPDATE gx_meta SET rows=?, cols=?, tile_rows=?, tile_cols=?, dtype=? WHERE name=?",
                           (rows, cols, tile_rows, tile_cols, number % 4, name))
                matrices.append(f"'{name}'")
    return matrices


def signatures():
    """(name, [parameter, ...]) of every entry of the reference."""
    for page in sorted((ROOT / "docs" / "reference").glob("*.md")):
        headings = "\n".join(re.findall(r"^## (.*)$", page.read_text(), re.M))  # several functions may share one
        for name, inside in re.findall(r"(gx_\w+)\(([^()]*)\)", headings):
            names = [word.strip() for word in re.sub(r"[\[\]]", "", inside).split(",") if word.strip() not in ("", "...")]
            yield name, names


def known_options(db, function, arguments):
    try:
        db.execute(f"SELECT {function}({', '.join(arguments + [chr(39) + '{}' + chr(39)])})".replace("{}", '{"?":1}'))
    except sqlite3.Error as refusal:
        return re.findall(r'"(\w+)"', str(refusal).partition("known ones are")[2])
    return []


FIXED = {"kind": "'fro'", "dtype": "'f64'", "part": "'L'", "properties": "'symmetric'", "destination": "NULL",
         "name": "'made'", "path": "'made.npy'", "power": "2", "key": "'threads'", "old": "'good'", "new": "'better'",
         "word": "'svd'", "row": "'[1,2]'", "expression": "'good @ good'", "bytes": "x'0000000000000000'",
         "values": "NULL", "vectors": "NULL", "s": "NULL", "u": "NULL", "vt": "NULL", "tol": "NULL", "tolerance": "NULL",
         "on": "1", "axis": "0", "alpha": "2", "force": "0"}


def is_matrix(parameter):
    return parameter[0].isupper() or parameter in ("model", "row", "name", "old", "kind")


SPECIAL = {"axis": ("0", "1"), "part": ("'L'", "'U'", "'P'", "'Q'", "'R'"),
           "kind": ("'1'", "'2'", "'inf'", "'max'", "'nuc'"), "power": ("0", "-1", "0.5", "9007199254740992")}
EXPRESSIONS = ("{0} @ {0}", "{0} @ {0}.T", "{0}.T @ {0}", "good @ {0}", "{0} + {0}", "{0} - {0}", "{0} * {0}", "{0}.T",
               "norm({0})", "sum({0})", "cholesky({0})", "lu({0})", "qr({0})", "solve({0}, {0})", "solve({0}, good)",
               "lstsq({0}, {0})", "lstsq({0}, good)", "inverse({0})", "det({0})", "svd({0})", "svd({0}, 3)", "eig({0})",
               "eig({0}, 3)")


def calls_of(name, parameters, matrices, options):
    """Each argument in turn is each matrix or number, the others small ones; then all of a kind at once."""
    numbers = [str(side) for side in SIDES] + [str(-side) for side in SIDES[1:]]
    positional = [p for p in parameters if p != "options"]
    plain = [FIXED.get(p, "'good'" if is_matrix(p) else "1") for p in positional]
    for i, parameter in enumerate(positional):
        for value in matrices if is_matrix(parameter) else numbers:
            arguments = plain.copy()
            arguments[i] = value
            yield f"{name}({', '.join(arguments)})"
            for other in ("'[]'", value):  # the other matrices as strange as this one
                again = [other if is_matrix(p) and j != i and p[0].isupper() else a
                         for j, (p, a) in enumerate(zip(arguments, positional))]
                if again != arguments:
                    yield f"{name}({', '.join(again)})"
        if not is_matrix(parameter):  # all numbers at once
            for value in numbers:
                again = [a if p in FIXED or is_matrix(p) else value for p, a in zip(positional, plain)]
                yield f"{name}({', '.join(again)})"
    for word in set(positional[1:]) & set(SPECIAL):
        for value in matrices:
            for special in SPECIAL[word]:
                yield f"{name}({value}, {special})"
    for option in options:
        for value in numbers + ["true", '"full"', '"nan"']:
            json = '{"%s":%s}' % (option, value)
            for matrix in ("'good'", "x'" + HEADER.pack(b"gxmv", 1, 0, 0, 0, 2**40, 0).hex() + "'", "'s1099511627776x0'"):
                arguments = [matrix if p[0].isupper() else a for p, a in zip(positional, plain)]
                yield f"{name}({', '.join(arguments)}, '{json}')"
                if matrix == "'good'" and not any(p[0].isupper() for p in positional):
                    break


def all_calls(db):
    matrices = make_matrices(db)
    tables = {row[0] for row in db.execute("SELECT name FROM pragma_module_list WHERE name LIKE 'gx%'")}
    functions = {row[0] for row in db.execute("SELECT name FROM pragma_function_list WHERE name LIKE 'gx%'")}
    known = dict(signatures())
    missing = (functions | tables) - set(known) - {"gx", "gx_catalog", "gx_settings", "gx_stats", "gx_events", "gx_guard", "gx_predictions", "gx_devices",
                                               "gx_context"}
    assert not missing, missing
    for name, parameters in sorted(known.items()):
        if name in NOT_CALLED:
            continue
        least = [FIXED.get(p, "'good'" if is_matrix(p) else "1") for p in parameters if p != "options"]
        options = known_options(db, name, least) if "options" in parameters and name in functions else []
        for call in calls_of(name, parameters, matrices, options):
            if name in functions:
                yield f"SELECT {call}"
            if name in tables:
                yield f"SELECT * FROM {call} LIMIT 3"
    for stored in (m for m in matrices if m.startswith("'s")):
        n = stored.strip("'")
        for expression in EXPRESSIONS:
            yield f"SELECT * FROM gx_plan('{expression.format(n)}')"
        yield f"SELECT * FROM gx WHERE name = {stored}"


class Watch(threading.Thread):
    """Interrupts the connection when a call has taken too long; one that does not end then ends the process."""

    def __init__(self, db):
        super().__init__(daemon=True)
        self.db, self.begun, self.is_late = db, None, False
        self.start()

    def run(self):
        while True:
            time.sleep(PATIENCE / 10)
            begun = self.begun
            if begun is None:
                continue
            took = time.monotonic() - begun
            if took > PATIENCE and not self.is_late:
                self.is_late = True
                self.db.interrupt()
            if took > 4 * PATIENCE:
                print("deaf to interrupts", flush=True)
                os._exit(3)

    def __enter__(self):
        self.is_late, self.begun = False, time.monotonic()

    def __exit__(self, *unused):
        self.begun = None


def main(folder, part, parts):
    note = open(folder / f"call.{part}", "wb", buffering=0)
    path = folder / f"test.{part}.db"
    path.unlink(missing_ok=True)
    db = gx_connect(str(path))
    db.execute("SELECT gx_config('memory_limit', '48MB')").fetchall()
    db.execute("SELECT gx_config('files', 0)").fetchall()
    watch = Watch(db)
    count = 0
    for number, sql in enumerate(all_calls(db)):
        if number % parts != part:
            continue
        note.seek(0)
        note.truncate()
        note.write(sql.encode())
        db.execute("PRAGMA max_page_count=3000")
        db.execute("BEGIN")
        with watch:
            try:
                db.execute(sql).fetchmany(3)
            except (sqlite3.Error, OverflowError) as refusal:
                text = str(refusal)
                if text == "" or "\n" in text:
                    print(f"no line: {sql[:300]}: {text!r}", flush=True)
        if watch.is_late:
            print(f"slow: {sql[:300]}", flush=True)
        if db.in_transaction:
            db.execute("ROLLBACK")
        count += 1
    print(f"made {count}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
