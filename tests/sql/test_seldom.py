"""What is seldom asked: refusals and spellings that no other test comes by.

Test plan:

1. gx_lstsq and gx_qr, functions and tables: an "rcond" or "mode" that is none, an LU factorisation for A.
2. The number of a row (rowid) of tables that are functions and of those that tell about gx.
3. gx_plan: names in quotation marks, transposed, unfinished.
4. CREATE VIRTUAL TABLE ... USING gx_cells: a name in each kind of quotation marks.
5. Elements that are stored as zeros stay out of coordinate files, in each dtype.
6. What a function with no argument at all says.
"""
import pytest
from conftest import error, q

LU = "is a stored LU factorisation: gx_part('L', 'L') gives its factor"


@pytest.fixture
def stored(db):
    q(db, "SELECT gx_store('T', '[[2,1],[1,3],[0,1]]')")
    q(db, "SELECT gx_store('my matrix', '[[1,2],[3,4]]')")
    q(db, "SELECT gx_lu('[[2,1],[1,3]]', 'L')")
    return db


@pytest.mark.parametrize("rcond", ["1.5", "-0.5", "1"])
@pytest.mark.parametrize("sql", ["SELECT rank FROM gx_lstsq('T', '[1,2,3]', '{\"rcond\":%s}')",
                                 "SELECT gx_lstsq('T', '[1,2,3]', '{\"rcond\":%s}')"])
def test_rcond(stored, sql, rcond):
    assert error(stored, sql % rcond) == f'gx_lstsq: option "rcond" must be at least 0 and below 1, not {rcond}'


def test_mode(stored):
    expected = 'gx_qr: option "mode" must be one of economy, full, not "thin"'
    assert error(stored, "SELECT * FROM gx_qr('T', '{\"mode\":\"thin\"}')") == expected


@pytest.mark.parametrize("sql", ["SELECT gx_lstsq('L', '[1,2]')", "SELECT rank FROM gx_lstsq('L', '[1,2]')",
                                 "SELECT part FROM gx_qr('L')"])
def test_factorisation_of_another_kind(stored, sql):
    assert error(stored, sql) == f"{'gx_qr' if 'gx_qr' in sql else 'gx_lstsq'}: L {LU}"


@pytest.mark.parametrize("table", ["gx_eig('[[2,1],[1,3]]')", "gx_settings", "gx_stats"])
def test_numbers_of_rows(stored, table):
    rows = [row[0] for row in stored.execute(f"SELECT rowid FROM {table}")]
    assert len(rows) > 1 and rows == list(range(rows[0], rows[0] + len(rows)))


def test_quoted_names_in_a_plan(stored):
    for expression in ('"my matrix" @ "my matrix"', '"my matrix".T @ "my matrix"', '"my matrix" @ "main.my matrix".H'):
        assert q(stored, "SELECT DISTINCT device FROM gx_plan(?) WHERE chosen", expression) == "cpu"
    assert error(stored, "SELECT * FROM gx_plan('T @ \"my matrix')").startswith("gx_plan: line 1, column 5: ")
    assert error(stored, "SELECT * FROM gx_plan('\"\" @ T')") == \
        'gx_plan: line 1, column 1: there is nothing between the quotes\n  "" @ T\n  ^'


@pytest.mark.parametrize("name", ["T", "'T'", '"T"', "`T`", "'main.T'"])
def test_quotation_marks_around_a_table(stored, name):
    stored.execute(f"CREATE VIRTUAL TABLE a USING gx_cells({name})")
    assert q(stored, "SELECT count(*) FROM a") == 6


def test_a_quotation_mark_within_a_name(stored):
    q(stored, "SELECT gx_store('it''s', '[[7]]')")
    stored.execute("CREATE VIRTUAL TABLE a USING gx_cells('it''s')")
    assert q(stored, "SELECT value FROM a") == 7


@pytest.mark.parametrize("dtype, last", [("f64", "1 2 1"), ("f32", "1 2 1"), ("c128", "1 2 1 0"), ("c64", "1 2 1 0")])
def test_zeros_stay_out_of_files(db, tmp_path, dtype, last):
    path = tmp_path / "a.mtx"
    q(db, f"SELECT gx_export(gx_cast('[[0,1],[0,0]]', '{dtype}'), ?, '{{\"format\":\"coordinate\"}}')", str(path))
    assert path.read_text().splitlines()[-2:] == ["2 2 1", last]


@pytest.mark.parametrize("call, expected", [
    ("gx_heatmap()", "gx_heatmap: takes 1 to 2 arguments, not 0: gx_heatmap(A[, options])"),
    ("gx_hstack()", "gx_hstack: takes 1 or more arguments, not 0: gx_hstack(A, B, ...[, options])"),
])
def test_no_argument(db, call, expected):
    assert error(db, f"SELECT {call}") == expected
