"""SQL with its expected output beside it: the reader behind test_docs.py.

A script is SQL statements, each directly followed by what it prints, as `-- ` comment lines, in the sqlite3
shell's list mode (columns joined by `|`, NULL empty):

    SELECT gx_json('[[1,2],[3,4]]'), 7;
    -- [[1.0,2.0],[3.0,4.0]]|7

An error is `-- Error: text`.  A line `-- ...` stands for any number of lines.  A value of several lines takes
several comment lines.  Comments before the first statement or after an empty line are prose, and so are
`/* */`.  Lines that start with a dot (`.load ./gx`) are for the shell and are passed over.
"""
import re
import sqlite3


class Step:
    """One statement, the line it starts on, and the output it promises."""

    def __init__(self, line, sql):
        self.line, self.sql, self.expected = line, sql, []


def parse(text, first_line=1):
    """The steps of a script."""
    steps, pending, start, takes_output = [], [], None, False
    for number, line in enumerate(text.splitlines(), first_line):
        if not pending and line.startswith("--") and takes_output:
            steps[-1].expected.append(line[3:])
            continue
        if not pending and (not line.strip() or line.startswith(("--", "."))):
            takes_output = False
            continue
        start = number if not pending else start
        pending.append(line)
        if sqlite3.complete_statement("\n".join(pending)):
            if has_sql("\n".join(pending)):
                steps.append(Step(start, "\n".join(pending)))
                takes_output = True
            pending = []
    if has_sql("\n".join(pending)):
        raise ValueError(f"line {start}: the statement has no end: {pending[0]}")
    return steps


def has_sql(text):
    return bool(re.sub(r"/\*.*?\*/|--[^\n]*|;", "", text, flags=re.S).strip())


def show(db, value):
    """A value as the shell's list mode prints it."""
    if value is None:
        return ""
    if isinstance(value, float):
        return db.execute("SELECT CAST(? AS TEXT)", (value,)).fetchone()[0]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


def output(db, sql):
    """What a statement prints, as a list of lines."""
    try:
        rows = db.execute(sql).fetchall()
    except sqlite3.Error as problem:
        return [f"Error: {problem}"]
    return "\n".join("|".join(show(db, value) for value in row) for row in rows).splitlines() if rows else []


def matches(expected, got):
    """Whether the lines fit; '...' stands for any lines."""
    pattern = "".join("(?:.*\n)*" if line == "..." else re.escape(line.rstrip()) + "\n" for line in expected)
    return re.fullmatch(pattern, "".join(line.rstrip() + "\n" for line in got)) is not None


def run(db, name, text, first_line=1):
    """Run a script; AssertionError shows the first statement whose output differs."""
    for step in parse(text, first_line):
        got = output(db, step.sql)
        assert matches(step.expected, got), "\n".join(
            [f"{name}:{step.line}: {step.sql}", "expected:", *step.expected, "got:", *got])
