"""Columns of lists, decimals and relations as data for gx.store; and no file where gx cannot be loaded.

Plan
 1. Lists of one length, as pandas, Polars, Arrow, NumPy and DuckDB keep them, in every kind of number; alone, in a frame of
    one column, and between columns of numbers; in tiles that cut them.
 2. Refused: unequal, missing, nested, of texts, of bytes: the column and the row are named.
 3. Decimals: refused by name, converted where dtype= says so.
 4. A connection, a shell, a sharded matrix where gx.so is not there: nothing is left.
"""
import decimal
import sqlite3

import numpy as np
import pytest
from conftest import gx, small_tiles

RNG = np.random.default_rng(5)
HOLDERS = ["pandas lists", "pandas arrays", "pandas tuples", "pandas arrow", "polars list", "polars array", "arrow list",
           "arrow large list", "arrow fixed", "arrow chunks", "numpy"]


def column(holder, rows):
    """The rows as a column of lists, as that library keeps it."""
    library = holder.split()[0]
    pytest.importorskip("pyarrow" if "arrow" in holder else library)
    if library == "pandas":
        import pandas
        if holder == "pandas arrow":
            import pyarrow
            return pandas.Series(pyarrow.array(list(rows)).to_pylist(), dtype=pandas.ArrowDtype(pyarrow.list_(pyarrow.from_numpy_dtype(rows.dtype))))
        return pandas.Series([{"lists": list, "arrays": np.asarray, "tuples": tuple}[holder.split()[1]](row) for row in rows])
    if library == "polars":
        import polars
        inner = polars.Series(rows[0]).dtype
        return polars.Series(rows.tolist(), dtype=polars.Array(inner, rows.shape[1]) if holder == "polars array" else polars.List(inner))
    if library == "numpy":
        made = np.empty(len(rows), object)
        made[:] = [row for row in rows]
        return made
    import pyarrow
    inner = pyarrow.from_numpy_dtype(rows.dtype)
    kind = {"list": pyarrow.list_(inner), "large list": pyarrow.large_list(inner), "fixed": pyarrow.list_(inner, rows.shape[1]),
            "chunks": pyarrow.list_(inner)}[holder.partition(" ")[2]]
    whole = pyarrow.array(rows.tolist(), kind)
    return pyarrow.chunked_array([whole[:7], whole[7:7], whole[7:]]) if holder == "arrow chunks" else whole


def frame(holder, **columns):
    """A frame of columns, of that column's library; the pandas one has an index that is not 0, 1, 2."""
    library = holder.split()[0]
    if library in ("pandas", "numpy"):
        pandas = pytest.importorskip("pandas")
        made = pandas.DataFrame(columns)
        made.index = range(100, 100 + len(made))
        return made
    if library == "polars":
        import polars
        return polars.DataFrame(columns)
    import pyarrow
    return pyarrow.table(columns)


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("kind", ["f8", "f4", "i4"])
def test_lists(db, holder, kind):
    small_tiles(db)
    rows = (RNG.standard_normal((40, 9)) * 100).astype(kind)
    lists, want = column(holder, rows), rows.astype("f4" if kind == "f4" else "f8")
    if kind == "f4" and holder in ("pandas lists", "pandas tuples"):
        lists = column("pandas arrays", rows)  # a list of NumPy's numbers is one of f4, too
    gx.store(db, "A", lists)
    assert np.array_equal(gx.fetch(db, "A"), rows) and gx.fetch(db, "A").dtype == want.dtype
    gx.store(db, "F", frame(holder, v=lists))
    assert np.array_equal(gx.fetch(db, "F"), rows) and gx.fetch(db, "F").dtype == want.dtype
    gx.store(db, "M", frame(holder, a=np.arange(40), v=lists, b=np.arange(40.0) / 2, w=lists))
    assert np.array_equal(gx.fetch(db, "M"), np.column_stack([np.arange(40), rows, np.arange(40) / 2, rows]))
    gx.store(db, "D", lists, dtype="f4")
    assert gx.fetch(db, "D").dtype == np.float32


def test_lists_of_lists(db):
    gx.store(db, "A", [np.array([1.0, 2]), [3, 4]])
    assert gx.fetch(db, "A").tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match="row 1 of the data has 1 elements, expected 2"):
        gx.store(db, "B", [[1, 2], [3]])


@pytest.mark.parametrize("holder", ["pandas", "polars", "arrow"])
@pytest.mark.parametrize("rows, text", [
    ([[1.0, 2.0], [3.0], [4.0, 5.0]], "row 1 of column 'v' has 1 elements, expected 2"),
    ([[1.0, 2.0], None], "row 1 of column 'v' is None|1 lists of column 'v' are null, the first in row 1"),
    ([[1.0, 2.0], [3.0, None]], "row 1 of column 'v' has elements that are no numbers|elements of column 'v' are null, the first in row 1"),
    ([["a"], ["b"]], "row 0 of column 'v' has elements that are no numbers|column 'v' is of type .*expected numbers or lists of numbers"),
    ([[[1.0]], [[2.0]]], "row 0 of column 'v' has lists in it|column 'v' is of type .*expected numbers or lists of numbers"),
])
def test_refused_lists(db, holder, rows, text):
    library = pytest.importorskip({"arrow": "pyarrow"}.get(holder, holder))
    made = (library.table if holder == "arrow" else library.DataFrame)({"n": list(range(len(rows))), "v": rows})
    with pytest.raises((ValueError, TypeError), match=text):
        gx.store(db, "A", made)
    assert db.execute("SELECT count(*) FROM gx").fetchone() == (0,)


def test_bytes_are_no_numbers(db):
    """A column of raw vectors does not say what they are."""
    pandas = pytest.importorskip("pandas")
    raw = [np.arange(4, dtype="f4").tobytes()] * 3
    with pytest.raises(TypeError, match="row 0 of column 'v' is 16 bytes, which do not say what their numbers are: numpy.frombuffer"):
        gx.store(db, "A", pandas.DataFrame({"v": raw}))
    gx.store(db, "A", [np.frombuffer(row, "<f4") for row in raw])
    assert gx.fetch(db, "A").tolist() == [[0, 1, 2, 3]] * 3


def test_frames_of_polars(db):
    polars = pytest.importorskip("polars")
    made = polars.DataFrame({"a": [1, None, 3], "b": [1.5, 2, 2.5], "c": [True, False, True]})
    gx.store(db, "A", made)
    assert np.array_equal(gx.fetch(db, "A"), [[1, 1.5, 1], [np.nan, 2, 0], [3, 2.5, 1]], equal_nan=True)
    with pytest.raises(TypeError, match="column 's' is String, not numbers"):
        gx.store(db, "B", made.with_columns(s=polars.lit("x")))
    with pytest.raises(TypeError, match="a LazyFrame has no rows yet"):
        gx.store(db, "B", made.lazy())


@pytest.mark.parametrize("with_arrow", [True, False])
def test_relations(db, monkeypatch, with_arrow):
    duckdb = pytest.importorskip("duckdb")
    if with_arrow:
        pytest.importorskip("pyarrow")
    else:
        monkeypatch.setattr(gx._sources, "has_arrow", lambda: False)
    source = duckdb.connect()
    gx.store(db, "A", source.sql("SELECT range AS i, range::float / 2 AS x FROM range(5) ORDER BY i DESC"))
    assert gx.fetch(db, "A").tolist() == [[i, i / 2] for i in (4, 3, 2, 1, 0)]
    gx.store(db, "V", source.sql("SELECT range AS i, [range::float, 1] AS v FROM range(3)"))
    assert gx.fetch(db, "V").tolist() == [[i, i, 1] for i in range(3)]
    with pytest.raises(TypeError, match="column 'd' is of decimals"):
        gx.store(db, "D", source.sql("SELECT 1 AS i, 0.10::decimal(10, 2) AS d"))
    gx.store(db, "D", source.sql("SELECT 1 AS i, 0.10::decimal(10, 2) AS d"), dtype="f64")
    assert gx.fetch(db, "D").tolist() == [[1, 0.1]]
    with pytest.raises((TypeError, ValueError), match="column 's' is"):
        gx.store(db, "S", source.sql("SELECT 'x' AS s"))


@pytest.mark.parametrize("holder", ["pandas", "polars", "arrow", "pandas lists", "polars lists", "arrow lists"])
def test_decimals(db, holder):
    library = pytest.importorskip({"arrow": "pyarrow"}.get(holder.split()[0], holder.split()[0]))
    values = [decimal.Decimal("0.1"), decimal.Decimal("12.5")]
    values = [[value, value] for value in values] if "lists" in holder else values
    made = (library.table if holder.startswith("arrow") else library.DataFrame)({"n": [1, 2], "price": values})
    with pytest.raises(TypeError, match="column 'price' is of decimals, which binary numbers do not hold: dtype='f64'"):
        gx.store(db, "A", made)
    gx.store(db, "A", made, dtype="f64")
    assert gx.fetch(db, "A").tolist() == ([[1, 0.1, 0.1], [2, 12.5, 12.5]] if "lists" in holder else [[1, 0.1], [2, 12.5]])


# ---- 4. no file ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("way", ["connect", "uri", "shell", "to_gx"])
def test_nothing_is_left_where_gx_is_not(tmp_path, monkeypatch, way, capsys):
    path = tmp_path / "new.db"
    monkeypatch.setenv("GX_SO", str(tmp_path / "nothing.so"))
    if way == "connect":
        with pytest.raises(FileNotFoundError, match="there is no .*nothing.so"):
            gx.connect(path)
    elif way == "uri":
        with pytest.raises(FileNotFoundError, match="there is no .*nothing.so"):
            gx.connect(f"file:{path}", uri=True)
    elif way == "shell":
        from gx_sqlite import shell
        assert shell.main([str(path)]) == 1 and "there is no" in capsys.readouterr().err
    else:
        array = pytest.importorskip("dask.array")
        gxd = pytest.importorskip("gx_sqlite.dask")
        with pytest.raises(FileNotFoundError, match="there is no .*nothing.so"):
            gxd.to_gx(str(tmp_path / "A.json"), "A", array.ones((4, 4), chunks=2)).compute(scheduler="sync")
    assert list(tmp_path.iterdir()) == []


def test_no_extensions_leave_nothing(tmp_path, monkeypatch):
    """What an interpreter without the loading of extensions says, before a file is made."""
    def cannot(_db):
        raise gx.NoExtensions("this Python cannot load extensions")
    monkeypatch.setattr(gx._connect, "load", cannot)
    with pytest.raises(sqlite3.NotSupportedError, match="cannot load extensions"):
        gx.connect(tmp_path / "new.db")
    gxd = pytest.importorskip("gx_sqlite.dask")
    with pytest.raises(sqlite3.NotSupportedError, match="cannot load extensions"):
        gxd._write(str(tmp_path / "new.db"), "A", np.ones((2, 2)))
    assert list(tmp_path.iterdir()) == []
