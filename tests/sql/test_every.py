"""bench/every.py has a row, or a reason for none, for every operation of programs and every SQL function."""
import subprocess
import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench"))


def functions(db):
    names = "SELECT name FROM pragma_function_list WHERE name LIKE 'gx%' UNION SELECT name FROM pragma_module_list WHERE name LIKE 'gx%'"
    return [row[0] for row in db.execute(names)]


def test_no_operation_is_left_out(db):
    import every

    none, stale = every.missing(functions(db))
    assert (none, stale) == ([], [])
    assert "gx_new" in every.missing([*functions(db), "gx_new"])[0]


def test_rows_run():
    """Each row's program or statement with small operands: none is refused, and the table has a line for each."""
    import every

    done = subprocess.run([sys.executable, str(ROOT / "bench" / "every.py"), "--sizes", "small", "--rounds", "1", "--alone"],
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    head, table = done.stdout.split("  ratio  name", 1)
    assert head == "" and {line.split()[1] for line in table.splitlines()[1:]} == set(every.table())
