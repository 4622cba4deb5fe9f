"""bench/every.py has a row, or a reason for none, for every operation of programs and every SQL function."""
import sys

import pytest

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


@pytest.mark.parametrize("name", ["sum", "expm", "label", "gx_kmeans"])
def test_rows_run(db, name):
    import every

    family, text, peer = every.table()[name]
    assert family in ("flat", "tall", "cube", "heavy", "small") and name.removeprefix("gx_") in text and (peer is None or "(" in peer)
