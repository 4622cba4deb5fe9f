"""Documentation that runs.

Plan:
- the ```sql blocks of README.md and docs/**/*.md run in order, one fresh in-memory connection a file, in an empty
  folder, and print what stands under them (sqlscript.py has the format);
- sql/examples/*.sql run in the sqlite3 shell, each on a database file of its own, and print what they say;
- every function and table that gx registers has a heading `## gx_name(...)` in docs/reference/ with an example under it,
  and every heading there is one that gx registers;
- links between the pages lead somewhere, and docs/README.md leads to every page.
"""
import pathlib
import re
import subprocess

import pytest
import sqlscript
from conftest import gx_connect, gx_path

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "sql" / "examples").glob("*.sql"))
REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))


def blocks(page):
    """(first line, text) of each ```sql block."""
    text = page.read_text()
    for match in re.finditer(r"^```sql\n(.*?)^```", text, re.M | re.S):
        yield text.count("\n", 0, match.start()) + 2, match.group(1)


def name(path):
    return str(path.relative_to(ROOT))


def entries():
    """Reference entries: name -> the text under its heading."""
    found = {}
    for page in REFERENCE:
        for part in re.split(r"^(?=## )", page.read_text(), flags=re.M)[1:]:
            heading, _, body = part.partition("\n")
            for entry in re.findall(r"\bgx(?:_\w+)?\b", heading):
                found[entry] = found.get(entry, "") + body
    return found


def registered(db):
    functions = db.execute("SELECT DISTINCT name FROM pragma_function_list WHERE name GLOB 'gx_*'")
    tables = db.execute("SELECT name FROM pragma_module_list WHERE name GLOB 'gx' OR name GLOB 'gx_*'")
    return {row[0] for row in [*functions, *tables]} - {"gx_context", "gx_guard"}  # gx's own


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    db = gx_connect()
    for line, text in blocks(page):
        sqlscript.run(db, name(page), text, line)
    db.close()


@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_example(example, tmp_path):
    """In the sqlite3 shell, as their first lines say, dot commands and all."""
    text = example.read_text()
    expected = [line for step in sqlscript.parse(text) for line in step.expected]
    assert expected, "an example shows its output"
    run = subprocess.run(["sqlite3", "-batch", "-cmd", f".load {gx_path()}", str(tmp_path / "example.db")], input=text,
                         capture_output=True, text=True, cwd=ROOT)
    assert not run.stderr
    assert [line.rstrip() for line in run.stdout.splitlines()] == [line.rstrip() for line in expected]


def test_reference_is_complete(db):
    missing = registered(db) - set(entries())
    assert not missing, f"no entry in docs/reference/: {sorted(missing)}"


def test_reference_has_no_ghosts(db):
    ghosts = set(entries()) - registered(db)
    assert not ghosts, f"docs/reference/ describes what gx does not register: {sorted(ghosts)}"


@pytest.mark.parametrize("entry", sorted(entries()))
def test_entry_has_example(entry):
    assert re.search(r"^```sql\n.*\b" + entry + r"\b", entries()[entry], re.M | re.S), f"{entry} has no example"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links(page):
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if not re.match(r"[a-z]+:", link):
            assert (page.parent / link).exists(), f"{name(page)} links to {link}, which is not there"


def test_index_is_complete():
    index = (ROOT / "docs" / "README.md").read_text()
    for page in PAGES[1:]:
        link = str(page.relative_to(ROOT / "docs"))
        folder = link.rpartition("/")[0]
        assert link == "README.md" or f"({link})" in index or (folder and f"({folder}/)" in index), (
            f"docs/README.md does not lead to {link}")


def test_runner_can_fail(db):
    """The runner itself: a wrong output, a missing error and a statement without its output are seen."""
    sqlscript.run(db, "good", "-- prose\nSELECT 1, NULL, 0.5;\n-- 1||0.5\nSELECT 'a' || char(10) || 'b';\n-- a\n-- b\n")
    sqlscript.run(db, "wild", "SELECT 1 UNION ALL SELECT 2;\n-- ...\n\n-- prose\nSELECT nope();\n-- Error: no such function: nope\n")
    for bad in ("SELECT 1;\n-- 2\n", "SELECT 1;\n", "SELECT 1;\n-- Error: x\n", "SELECT nope();\n", "SELECT 1"):
        with pytest.raises((AssertionError, ValueError)):
            sqlscript.run(db, "bad", bad)


def test_rows_of_facts():
    """The destination in a function's row (gx_function in ext/gx_ext.h) is where its heading has it."""
    rows = {}
    for path in (ROOT / "ext").glob("*.c"):
        text = path.read_text()
        rows |= {row: None for row in re.findall(r'\{"(gx_\w+)", \d+, -?\d+, [^}]*\}', text)}
        rows |= {row: int(k) for row, k in re.findall(r'\{"(gx_\w+)", \d+, -?\d+, GX_(?:MADE|DEST)\((\d)\)', text)}
        rows |= {row: int(most) - 2 for row, most in re.findall(r'PROGRAM\("(gx_\w+)", \d, (\d), \d\)', text)}
    assert len(rows) > 100 and rows["gx_matmul"] == 2 and rows["gx_store"] == 0 and rows["gx_roll"] == 3
    for page in REFERENCE:
        for heading in re.findall(r"^## (gx_.*)", page.read_text(), re.M):
            for call in re.split(r", (?=gx_)", heading):
                before = re.match(r"(gx_\w+)\((.*?destination|(?=name, ))", call)
                if before and before[1] in rows:
                    assert rows[before[1]] == before[2].count(","), call
                elif call.split("(")[0] in rows:
                    assert rows[call.split("(")[0]] is None, call
