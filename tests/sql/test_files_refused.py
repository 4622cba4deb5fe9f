"""Files in and out: what gx_import and gx_export refuse, and their manners.

Plan:
- malformed files of every kind: the exact message, and the database as it was;
- options and arguments: each refused value with its text;
- manners: no overwriting, symlinks and modes, no temporary file left by any failure (folder missing, file too large,
  interrupt), an open transaction survives, files off, not usable from a view, interrupts, memory kept while gigabytes
  stream, other schemas, a host with a decimal comma.
"""
import gzip
import io
import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time

import pytest
from conftest import ROOT, SIZES, error, gx_connect, q, to_numpy
from filekit import BANNER as B
from filekit import any_db, leftovers, npy, plenty, put  # noqa: F401

# ---- malformed files -------------------------------------------------------------------------------------------------

HEAD = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }"
MALFORMED = [
    # .npy
    ("a.npy", b"", "is no .npy file: it has 0 bytes"),
    ("a.npy", b"\x93NUMPX\x01\x00\x00\x00", "is no .npy file: it does not start with \\x93NUMPY"),
    ("a.npy", b"PK\x03\x04\x00\x00\x00\x00\x00\x00\x00", "is a zip archive: unpack it first"),
    ("a.npz", b"\x93NUMPY\x01\x00\x00\x00", "is a NumPy array (.npy): '{\"format\":\"npy\"}' reads it"),
    ("a.npy", b"\x93NUMPY\x04\x00\x00\x00", "is of .npy version 4.0: 1.0, 2.0 and 3.0 are known"),
    ("a.npy", b"\x93NUMPY\x01\x01\x00\x00", "is of .npy version 1.1: 1.0, 2.0 and 3.0 are known"),
    ("a.npy", b"\x93NUMPY\x01\x00\x50\x00{}", "ends inside its header: 80 bytes announced, 2 there"),
    ("a.npy", b"\x93NUMPY\x02\x00\x50\x00", "ends inside its header"),
    ("a.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}", "ends inside its header: 4294967295 bytes announced, 2 there"),
    ("a.npy", b"\x93NUMPY\x02\x00\x70\x11\x01\x00" + bytes(70000), "has a header of 70000 bytes (limit 65536)"),
    ("a.npy", npy(HEAD, bytes(47)), "2x3 elements of <f8 are 48 bytes, but the file has 47"),
    ("a.npy", npy(HEAD, bytes(49)), "2x3 elements of <f8 are 48 bytes, but the file has 49"),
    ("a.npy", npy(HEAD.replace("(2, 3)", "(2, 3, 4)")), "has 3 dimensions: a matrix has 2"),
    ("a.npy", npy(HEAD.replace("(2, 3)", f"(0, {2**60})")), f"a shape of 0x{2**60}: " + SIZES),
    ("a.npy", npy(HEAD.replace("(2, 3)", f"({2**40 + 1}, 0)")), f"a shape of {2**40 + 1}x0: " + SIZES),
    ("a.npy", npy(HEAD.replace("(2, 3)", "(9223372036854775807, 3)")), "a shape of 9223372036854775807x3: " + SIZES),
    ("a.npy", npy(HEAD.replace("(2, 3)", "(9223372036854775808,)")),
     "header: expected a size below 2^63, found '9223372036854775808,), }'"),
    ("a.npy", npy(HEAD.replace("(2, 3)", "(-2, 3)")), "header: expected a size, found '-2, 3), }'"),
    ("a.npy", npy(HEAD.replace("(2, 3)", "(2 3)")), "header: expected ',' or ')', found '3), }'"),
    ("a.npy", npy(HEAD.replace("(2, 3)", "[2, 3]")), "header: expected a shape such as (3, 4), found '[2, 3], }'"),
    ("a.npy", npy(HEAD.replace("False", "0")), "header: expected True or False, found '0, 'shape': (2, 3), }'"),
    ("a.npy", npy(HEAD.replace("<f8", "|O")), "holds Python objects, not numbers"),
    ("a.npy", npy(HEAD.replace("'<f8'", "[('x', '<f8')]")), "holds structured elements, not numbers"),
    ("a.npy", npy(HEAD.replace("<f8", "<U5")), "dtype '<U5' is not supported (f2 f4 f8 c8 c16 i1..i8 u1..u8 b1 are)"),
    ("a.npy", npy(HEAD.replace("<f8", "<f16")), "dtype '<f16' is not supported (f2 f4 f8 c8 c16 i1..i8 u1..u8 b1 are)"),
    ("a.npy", npy(HEAD.replace("<f8", "")), "dtype '' is not supported (f2 f4 f8 c8 c16 i1..i8 u1..u8 b1 are)"),
    ("a.npy", npy(HEAD.replace("'descr': '<f8', ", "")), "header: key 'descr' is missing"),
    ("a.npy", npy("{'descr': '<f8', 'shape': ()}"), "header: key 'fortran_order' is missing"),
    ("a.npy", npy("{'descr': '<f8', 'fortran_order': True}"), "header: key 'shape' is missing"),
    ("a.npy", npy(HEAD.replace("descr", "dtype")), "header: key 'dtype' is none of descr, fortran_order, shape"),
    ("a.npy", npy(HEAD.replace("shape", "descr")), "header: key 'descr' is there twice"),
    ("a.npy", npy(HEAD + " import os"), "header: expected the end, found 'import os'"),
    ("a.npy", npy("[" + HEAD), "header: expected '{', found '[{'descr': '<f8', 'fortran_order...'"),
    ("a.npy", npy("{'descr' '<f8'}"), "header: expected ':', found ''<f8'}'"),
    ("a.npy", npy("{'descr': '<f8' 'shape'}"), "header: expected ',' or '}', found ''shape'}'"),
    ("a.npy", npy("{'desc"), "header: expected a quoted text, found ''desc'"),
    ("a.npy", npy("{\xff}"), "header: expected a quoted text, found 'ÿ}'"),
    # Matrix Market
    ("a.mtx", "", "is no Matrix Market file: it does not start with %%MatrixMarket"),
    ("a.mtx", "2 2 1\n1 1 1\n", "is no Matrix Market file: it does not start with %%MatrixMarket"),
    ("a.mtx", "%% MatrixMarket matrix array real general\n1 1\n1", "is no Matrix Market file: it does not start with %%MatrixMarket"),
    ("a.mtx", "%%MatrixMarket matrix array real\n",
     "line 1: expected 4 words behind %%MatrixMarket (matrix, format, field, symmetry), found 3"),
    ("a.mtx", "\n" + B + "array real general x\n",
     "line 2: expected 4 words behind %%MatrixMarket (matrix, format, field, symmetry), found more than 4"),
    ("a.mtx", "%%MatrixMarket vector array real general\n", "line 1: 'vector' is not an object that is known (matrix)"),
    ("a.mtx", B + "sparse real general\n", "line 1: 'sparse' is not a format (coordinate, array)"),
    ("a.mtx", B + "array float general\n", "line 1: 'float' is not a field (real, complex, integer, pattern)"),
    ("a.mtx", B + "array real lower\n",
     "line 1: 'lower' is not a symmetry (general, symmetric, skew-symmetric, hermitian)"),
    ("a.mtx", B + "array pattern general\n", "line 1: a pattern is for the coordinate format, not array"),
    ("a.mtx", B + "array real general\n% only\n\n", "ends before its size line"),
    ("a.mtx", B + "array real general\n2 2 4\n", "line 2: expected rows and columns, found 3 numbers"),
    ("a.mtx", B + "coordinate real general\n%\n5\n", "line 3: expected rows, columns and entries, found 1 number"),
    ("a.mtx", B + "coordinate real general\n2 -2 1\n", "line 2: '-2' is not a size"),
    ("a.mtx", B + "coordinate real general\n2 2.0 1\n", "line 2: '2.0' is not a size"),
    ("a.mtx", B + "coordinate real general\n999999999994 5 1\n1 1 2\n",
     "line 2: a sparse matrix from cells has at most 4294967295 rows, not 999999999994"),
    ("a.mtx", B + "coordinate real general\n2 99999999999999999999 1\n", "line 2: '99999999999999999999' is not a size"),
    ("a.mtx", B + "array real general\n4000000000 4000000000\n", "line 2: 4000000000x4000000000: " + SIZES),
    ("a.mtx", B + "coordinate real general\n4000000000 4000000000 0\n",
     "line 2: 4000000000x4000000000: " + SIZES),
    ("a.mtx", B + f"coordinate real general\n0 {2**62} 0\n", f"line 2: 0x{2**62}: " + SIZES),
    ("a.mtx", B + f"array real general\n{2**62} 0\n", f"line 2: {2**62}x0: " + SIZES),
    ("a.mtx", B + "coordinate real symmetric\n2 3 1\n1 1 1\n", "line 2: a symmetric matrix is square, not 2x3"),
    ("a.mtx", B + "coordinate real general\n2 2 2\n1 1 1\n", "ends after 1 of the 2 entries that line 2 announces"),
    ("a.mtx", B + "array real general\n2 2\n1\n2\n3\n", "ends after 3 of the 4 entries that line 2 announces"),
    ("a.mtx", B + "array real symmetric\n2 2\n1\n2\n3\n4\n", "line 6: more than the 3 entries that line 2 announces"),
    ("a.mtx", B + "coordinate real general\n2 2 1\n1 1 1\n\n2 2 2\n", "line 5: more than the 1 entry that line 2 announces"),
    ("a.mtx", B + "coordinate real general\n2 2 0\n1 1 1\n", "line 3: more than the 0 entries that line 2 announces"),
    ("a.mtx", B + "coordinate real general\n2 2 1\n3 1 1\n", "line 3: row 3 is outside 1..2"),
    ("a.mtx", B + "coordinate real general\n2 2 1\n1 0 1\n", "line 3: column 0 is outside 1..2"),
    ("a.mtx", B + "coordinate real general\n0 2 1\n1 1 1\n", "line 3: row 1 is outside 1..0"),
    ("a.mtx", B + "coordinate real general\n2 2 1\n1.0 1 1\n", "line 3: '1.0' is not an index"),
    ("a.mtx", B + "coordinate real general\n2 2 1\n1 1\n", "line 3: expected 3 numbers, found 2"),
    ("a.mtx", B + "coordinate real general\n2 2 1\n1 1 1 1\n", "line 3: expected 3 numbers, found 4 (complex values are \"complex\" in line 1)"),
    ("a.mtx", B + "coordinate pattern general\n2 2 1\n1 1 1 1\n",
     "line 3: expected 2 numbers, found 4 (complex values are \"complex\" in line 1)"),
    ("a.mtx", b"\x1f\x8b\x08\x00", "is compressed (gzip), and cut short or damaged"),
    ("a.mtx", B + "coordinate complex general\n2 2 1\n1 1 1\n", "line 3: expected 4 numbers, found 3"),
    ("a.mtx", B + "array real general\n2 2\n1 2 3 4\n", "line 3: expected 1 number, found 4 (an element a line)"),
    ("a.mtx", B + "array real general\n1 1\n1 2 3 4 5 6 7 8\n", "line 3: expected 1 number, found 6 or more (an element a line)"),
    ("a.mtx", B + "coordinate real general\n2 2 1\n1 1 1x\n", "line 3: '1x' is not a number"),
    ("a.mtx", B + "coordinate real general\n2 2 1\n1 1 1,5\n", "line 3: '1,5' is not a number (blanks stand between numbers, and '.' in them)"),
    ("a.mtx", B + "coordinate real general\n2 2 1\n1, 1, 1\n", "line 3: '1,' is not an index (blanks stand between numbers, and '.' in them)"),
    ("a.mtx", B + "coordinate integer general\n2 2 1\n1 1 1.5\n", "line 3: '1.5' is not an integer (\"real\" in line 1 is for those)"),
    ("a.mtx", B + "coordinate integer general\n2 2 1\n1 1 inf\n", "line 3: 'inf' is not an integer (\"real\" in line 1 is for those)"),
    ("a.mtx", B + "coordinate integer general\n2 2 1\n1 1 -\n", "line 3: '-' is not an integer"),
    ("a.mtx", B + "coordinate real symmetric\n3 3 5\n2 1 1\n1 1 7\n1 2 1\n1 3 5\n3 1 4\n",
     "line 5: the file of a symmetric matrix has one triangle, but this has both: say general in line 1"),
    ("a.mtx", B + "coordinate real skew-symmetric\n2 2 1\n2 2 1\n",
     "line 3: entry (2, 2) on the diagonal of a skew-symmetric matrix is not 0 (general in line 1 is for others)"),
    ("a.mtx", B + "array complex hermitian\n1 1\n1 2\n",
     "line 3: entry (1, 1) on the diagonal of a hermitian matrix has an imaginary part (general in line 1 is for others)"),
    # CSV
    ("a.csv", "", "has no rows"),
    ("a.csv", "\n\n# c\n", "has no rows"),
    ("a.csv", "a,b\n", "has no rows below its header"),
    ("a.csv", "1,2\n3\n", "line 2: 1 field, but line 1 has 2"),
    ("a.csv", "x,y\n\n1,2\n3,4,5\n", "line 4: 3 fields, but line 3 has 2"),
    ("a.csv", "1,2\n3,x\n", "line 2: column 1: 'x' is not a number"),
    ("a.csv", "1,x\n3,4\n", "line 1: column 1: 'x' is not a number ('{\"header\":true}' leaves this line out)"),
    ("a.csv", "a,b\n1,2\nx,3\n", "line 3: column 0: 'x' is not a number"),
    ("a.csv", "name,b\nx,2\n", "line 2: column 0: 'x' is not a number ('{\"columns\":[...]}' takes those that are numbers)"),
    ("a.csv", "1;2\n3,5;4\n", "line 2: column 0: '3,5' is not a number (the decimal mark is '.'; '{\"decimal\":\",\"}' makes it ',')"),
    ("a.csv", "1,2\n3,\"4\n", "line 2: a quote is never closed"),
    ("a.csv", "1,2\n3,\"4\"5\n", "line 2: text behind a closing quote"),
    ("a.csv", "1,2\n3,0x10\n", "line 2: column 1: '0x10' is not a number"),
    ("a.csv", "1,2\n3,1_0\n", "line 2: column 1: '1_0' is not a number"),
    ("a.csv", "1,2\n3,é\n", "line 2: column 1: 'é' is not a number"),
    ("a.csv", "1,2\n3,größer als das Maß der Länge ist\n", "line 2: column 1: 'größer als das Maß der Länge...' is not a number"),
    ("a.csv", b"1,2\n3,\xe9\x01\x7f\n", "line 2: column 1: '\\xe9\\x01\\x7f' is not a number"),
    ("a.csv", "1,2\n3,1 2\n", "line 2: column 1: '1 2' is not a number ('{\"delimiter\":\"space\"}' takes it apart)"),
    ("a.csv", "1,2\n3,1|2\n", "line 2: column 1: '1|2' is not a number ('{\"delimiter\":\"|\"}' takes it apart)"),
    ("a.csv", "1;2\n3,4\n5;6\n", "line 2: 2 fields, but line 1 has 1 ('{\"delimiter\":...}' says what stands between fields)"),
    ("a.csv", "1|2\n3,4\n", "line 2: 2 fields, but line 1 has 1 ('{\"delimiter\":...}' says what stands between fields)"),
    ("a.csv", b"1,2\n3,4\x00\n", "line 2: column 1: '4\\x00' is not a number"),
    # A line with numbers in it is no header: nothing is lost without a word.
    ("a.csv", "5 kg\n6\n", "line 1: column 0: '5 kg' is not a number ('{\"header\":true}' leaves this line out)"),
    ("a.csv", "5kg,red\n6,7\n", "line 1: column 0: '5kg' is not a number ('{\"header\":true}' leaves this line out)"),
    ("a.csv", "1,?,3\n", "line 1: column 1: '?' is not a number ('{\"na\":...}' lists what stands for missing values)"),
    ("a.csv", "?,?\n1,2\n", "line 1: column 0: '?' is not a number ('{\"na\":...}' lists what stands for missing values)"),
    ("a.csv", "1,?,3\n4,5\n", "line 2: 2 fields, but line 1 has 3 ('{\"header\":true}' leaves that line out)"),
    ("a.csv", "150,4,setosa\n1,2,3,4,5\n", "line 2: 5 fields, but line 1 has 3 ('{\"header\":true}' leaves that line out)"),
    ("a.csv", "name,1st,2nd\n1,2,3\n", "line 1: column 0: 'name' is not a number ('{\"header\":true}' leaves this line out)"),
    ("a.csv", "NA,x\n1,2\n", "line 1: column 1: 'x' is not a number ('{\"header\":true}' leaves this line out)"),
    ("a.csv", "1,#ff\n2,3\n", "line 1: column 1: '#ff' is not a number ('{\"header\":true}' leaves this line out)"),
]

# What other programs write, under the name of something else: it is said what it is.
OTHERS = [
    (b"\xff\xfe1\x00,\x002\x00", "is UTF-16: save it as UTF-8"), ("1,2\n".encode("utf-16-be"), "is UTF-16: save it as UTF-8"),
    ("1,2\n".encode("utf-16-le"), "is UTF-16: save it as UTF-8"), (b"\xfe\xff\x001", "is UTF-16: save it as UTF-8"),
    (b"PK\3\4" + bytes(26) + b"[Content_Types].xml", "is an Office document (.xlsx, .docx): save the sheet as CSV"),
    (b"PK\3\4" + bytes(26) + b"mimetypeapplication/vnd.oasis", "is an OpenDocument (.ods, .odt): save the sheet as CSV"),
    (b"PK\3\4" + bytes(26) + b"a.npy", "is an archive of NumPy arrays (.npz): '{\"format\":\"npz\"}' reads it"),
    (b"PK\3\4" + bytes(26) + b"data.csv", "is a zip archive: unpack it first"),
    (b"PAR1\x15\x04", "is a Parquet file: read it with pandas or DuckDB, or save it as CSV or .npy"),
    (b"ARROW1\0\0", "is an Arrow file: read it with pandas or pyarrow, or save it as CSV"),
    (b"\x89HDF\r\n\x1a\n", "is an HDF5 file (.h5, .mat of MATLAB 7.3): save its array as .npy or CSV"),
    (b"MATLAB 5.0 MAT-file", "is a MATLAB file (.mat): save its matrix as .npy, .mtx or CSV"),
    (b"SQLite format 3\0", "is an SQLite database: ATTACH it"), (b"BZh91AY", "is compressed (bzip2): bunzip2 it first"),
    (b"\xfd7zXZ\0", "is compressed (xz): unxz it first"), (b"\x28\xb5\x2f\xfd", "is compressed (Zstandard): unzstd it first"),
    (b"\xd0\xcf\x11\xe0", "is an Office document (.xls, .doc): save the sheet as CSV"), (b"%PDF-1.7", "is a PDF document, not text"),
    (b"%%MatrixMarket matrix", "is a Matrix Market file: '{\"format\":\"mtx\"}' reads it"),
    (gzip.compress(gzip.compress(b"1")), "is compressed twice (gzip): gunzip it"),
]


@pytest.mark.parametrize("content, message", OTHERS, ids=range(len(OTHERS)))
def test_named_what_they_are(db, tmp_path, content, message):
    path = put(tmp_path / "a.csv", content)
    assert error(db, "SELECT gx_import(NULL, ?)", str(path)) == "gx_import: a.csv: " + message
    if "Matrix Market" not in message:
        path = put(tmp_path / "a.mtx", content)
        assert error(db, "SELECT gx_import(NULL, ?)", str(path)) == "gx_import: a.mtx: " + message


def test_skip_ends_at_the_end(db, tmp_path):
    """However many lines are to be left out, a file has only so many."""
    for content, lines in [("1,2\n3,4\n", "2 lines"), ("1", "1 line"), ("", "0 lines"), ("1\r2\r3\r", "3 lines")]:
        path = put(tmp_path / "a.csv", content)
        assert error(db, "SELECT gx_import(NULL, ?, '{\"skip\":1000000000000}')", str(path)) == (
            f'gx_import: a.csv: has {lines}, of which "skip" leaves out the first 1000000000000')
    assert error(db, "SELECT gx_import(NULL, ?, '{\"skip\":3}')", str(path)) == "gx_import: a.csv: has no rows"


@pytest.mark.parametrize("name, content, message", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed(any_db, tmp_path, name, content, message):
    path = put(tmp_path / name, content)
    assert error(any_db, "SELECT gx_import('M', ?)", str(path)) == f"gx_import: {name}: {message}"
    assert q(any_db, "SELECT count(*) FROM sqlite_master") == 0 and not any_db.in_transaction


def test_longest_numbers(db, tmp_path):
    """A number is looked for in a mebibyte; where memory does not hold that, memory is what is missing."""
    mtx = put(tmp_path / "a.mtx", B + "array real general\n1 1\n" + "1" * 2**20 + "\n")
    csv = put(tmp_path / "a.csv", "1,2\n3," + "9" * 2**20 + "\n")
    assert error(db, "SELECT gx_import('M', ?)", str(mtx)) == "gx_import: a.mtx: line 3: longer than 1048576 bytes"
    assert error(db, "SELECT gx_import('M', ?)", str(csv)) == (
        "gx_import: a.csv: line 2: column 1: more than 1048576 bytes are no number")
    q(db, "SELECT gx_config('tile_bytes', '512')")
    for limit in ("1MiB", "67072"):
        q(db, "SELECT gx_config('memory_limit', ?)", limit)
        for path in (mtx, csv):
            assert "memory_limit" in error(db, "SELECT gx_import('M', ?)", str(path))


def test_replaced_only_when_whole(any_db, tmp_path):
    """A bad file leaves what it should have replaced."""
    plenty(any_db, "SELECT gx_store('M', '[[1,2]]')")
    path = put(tmp_path / "a.mtx", B + "array real general\n2 2\n1\n2\n3\nx\n")
    assert "'x' is not a number" in error(any_db, "SELECT gx_import('M', ?, '{\"replace\":true}')", str(path))
    assert q(any_db, "SELECT gx_json('M')") == "[[1.0,2.0]]"
    assert q(any_db, "SELECT count(*) FROM gx_tile") == 1


# ---- options and arguments -------------------------------------------------------------------------------------------

IMPORT_ERRORS = [
    (("A",), "takes 2 to 3 arguments, not 1: gx_import(name, path[, options])"),
    (("A", "x.csv", "B"), "options must be a JSON object '{...}', not 'B'"),
    (("A", '{"skip":1}'), "takes a name, a path and options"),
    (("A", 5), "path must be a text, not 5"),
    (("A", None), "path must be a text, not NULL"),
    (("A", ""), "path must not be empty"),
    (("A", "/nowhere/x.csv"), "cannot open '/nowhere/x.csv': No such file or directory"),
    (("A", "/tmp", '{"format":"npy"}'), "'/tmp' is a folder, not a regular file"),
    (("A", "/dev/null", '{"format":"npy"}'), "'/dev/null' is a device, not a regular file"),
    (("A", "y.mtx.gz"), "cannot open 'y.mtx.gz': No such file or directory"),
    (("A", "x.dat"),
     "the ending of 'x.dat' is none of npy, npz, mtx, csv, tsv, txt: say which it is with '{\"format\":...}'"),
    (("A", "/a.csv/x"),
     "the ending of '/a.csv/x' is none of npy, npz, mtx, csv, tsv, txt: say which it is with '{\"format\":...}'"),
    (("A", "x.csv", '{"format":"xls"}'), "unknown format 'xls' (npy, npz, mtx, csv, tsv, txt)"),
    (("A", "x.npy", '{"header":true}'), 'option "header" is for csv, tsv and txt'),
    (("A", "x.npy", '{"delimiter":","}'), 'option "delimiter" is for csv, tsv and txt'),
    (("A", "x.mtx", '{"skip":1}'), 'option "skip" is for csv, tsv and txt'),
    (("A", "x.mtx", '{"columns":[1]}'), 'option "columns" is for csv, tsv and txt'),
    (("A", "x.csv", '{"skip":-1}'), 'option "skip" must be at least 0, not -1'),
    (("A", "x.csv", '{"delimiter":"ab"}'),
     'option "delimiter" must be one of , ; | : / ! & @ ^ _ ~ or comma, semicolon, tab, space, pipe, not "ab"'),
    (("A", "x.csv", '{"columns":true}'), 'option "columns" must be a list of whole numbers, not true'),
    (("A", "x.csv", '{"columns":[1,2.5]}'), 'option "columns" must be a list of whole numbers, not a list'),
    (("A", "x.csv", '{"overwrite":true}'),
     'unknown option "overwrite": the known ones are "format", "dtype", "saturate", "replace", "header", "delimiter", "skip", "columns", "na", "decimal", "member", "sparse" and "dense"'),
    (("A", "x.csv", '{"na":true}'), 'option "na" must be a text or a list of texts, not true'),
    (("A", "x.mtx", '{"na":"-"}'), 'option "na" is for csv, tsv and txt'),
    (("A", "x.csv", '{"decimal":";"}'), 'option "decimal" must be one of ., ,, not ";"'),
    (("A", "x.npy", '{"decimal":","}'), 'option "decimal" is for csv, tsv and txt'),
    (("A", "x.csv", '{"decimal":",","delimiter":"comma"}'), 'options "delimiter" and "decimal" are both ","'),
    (("A", "x.csv", '{"member":"a"}'), 'option "member" is for npz'),
    (("A", "x.gz"), "the ending of 'x.gz' is none of npy, npz, mtx, csv, tsv, txt: say which it is with '{\"format\":...}'"),
    (("[x", "x.csv"), None),
]


@pytest.mark.parametrize("arguments, message", IMPORT_ERRORS, ids=str)
def test_import_arguments(db, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "x.csv", "x.npy", "x.mtx":
        (tmp_path / name).write_text("1,2\n")
    text = error(db, f"SELECT gx_import({', '.join('?' * len(arguments))})", *arguments)
    assert text.startswith("gx_import: ") and (message is None or text == "gx_import: " + message)


COLUMN_ERRORS = [
    ("5", "a.csv: line 1: column 5 is wanted, but the columns are 0..2"),
    ("1:9", "a.csv: line 1: column 8 is wanted, but the columns are 0..2"),
    ("0,1,0", "column 0 is wanted twice"),
    ("0:2,1:", "column 1 is wanted twice"),
    ("", "columns '' is not a list such as '0,2,5:9'"),
    ("1,", "columns '1,' is not a list such as '0,2,5:9'"),
    ("a", "a.csv: line 1: no column is named 'a'"),
    ("0,a", "a.csv: line 1: no column is named 'a'"),
    ("a,", "columns 'a,' is not a list such as '0,2,5:9'"),
    ("2:1", "columns '2:1' is not a list such as '0,2,5:9'"),
    ("-1", "columns '-1' is not a list such as '0,2,5:9'"),
    ("9223372036854775807", "columns '9223372036854775807' is not a list such as '0,2,5:9'"),
]


@pytest.mark.parametrize("columns, message", COLUMN_ERRORS)
def test_columns_refused(db, tmp_path, columns, message):
    path = put(tmp_path / "a.csv", "1,2,3\n4,5,6\n")
    assert error(db, "SELECT gx_import(NULL, ?, ?)", str(path), f'{{"columns":"{columns}"}}') == "gx_import: " + message


def test_named_columns_refused(db, tmp_path):
    path = str(put(tmp_path / "a.csv", "id,area,price\nA,5,6\n"))
    for options, message in [
        ('{"columns":["area","prize"]}', "a.csv: line 1: no column is named 'prize'"),
        ('{"columns":["Area"]}', "a.csv: line 1: no column is named 'Area'"),
        ('{"columns":["area","area"]}', "column 1 is wanted twice"),
        ('{"columns":["area",1]}', "column 1 is wanted twice"),
        ('{"columns":["area"],"header":false}', 'columns are wanted by name, but "header" is false'),
        ('{"columns":["area"],"skip":1}', "a.csv: line 2: no column is named 'area'"),
        ('{"columns":["id"]}', "a.csv: line 2: column 0: 'A' is not a number ('{\"columns\":[...]}' takes those that are numbers)"),
    ]:
        assert error(db, "SELECT gx_import('A', ?, ?)", path, options) == "gx_import: " + message, options
    assert q(db, "SELECT count(*) FROM gx") == 0


EXPORT_ERRORS = [
    (("A",), "takes 2 to 3 arguments, not 1: gx_export(A, path[, options])"),
    (("A", "x.csv", "y"), "options must be a JSON object '{...}', not 'y'"),
    (("A", '{"overwrite":true}'), "takes a matrix, a path and options"),
    (("B", "x.csv"), "no matrix named 'B'"),
    (("A", ""), "path must not be empty"),
    (("A", "x.npy", '{"precision":5}'), 'option "precision" is for mtx, csv, tsv and txt'),
    (("A", "x.csv", '{"precision":18}'), 'option "precision" must be 1 to 17, not 18'),
    (("A", "x.csv", '{"precision":0}'), 'option "precision" must be 1 to 17, not 0'),
    (("A", "x.mtx", '{"delimiter":","}'), 'option "delimiter" is for csv, tsv and txt'),
    (("A", "x.csv", '{"symmetry":"general"}'), 'option "symmetry" is for mtx'),
    (("A", "x.mtx", '{"symmetry":"skew"}'), 'option "symmetry" must be one of auto, general, not "skew"'),
    (("A", "x.csv", '{"replace":true}'),
     'unknown option "replace": the known ones are "format", "overwrite", "dtype", "precision", "delimiter", "header" and "symmetry"'),
    (("A", "x.csv.gz"), "'x.csv.gz' would be compressed: gx writes plain files"),
    (("A", "/nowhere/x.csv"), "cannot write '/nowhere/x.csv': No such file or directory"),
    (("A", "/dev/full", '{"format":"csv","overwrite":true}'), "'/dev/full' is a device, not a regular file"),
    (("A", "/tmp", '{"format":"csv","overwrite":true}'), "'/tmp' is a folder, not a regular file"),
    (("A", "/tmp", '{"format":"csv"}'), "'/tmp' already exists (use '{\"overwrite\":true}')"),
]


@pytest.mark.parametrize("arguments, message", EXPORT_ERRORS, ids=str)
def test_export_arguments(db, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    q(db, "SELECT gx_store('A', '[[1,2]]')")
    text = error(db, f"SELECT gx_export({', '.join('?' * len(arguments))})", *arguments)
    assert text == "gx_export: " + message
    assert list(tmp_path.iterdir()) == []


# ---- manners ---------------------------------------------------------------------------------------------------------


def test_no_overwriting(db, tmp_path):
    path = put(tmp_path / "a.csv", "precious")
    for target in [path, tmp_path / "link.csv", tmp_path / "dangling.csv"]:
        if target != path:
            target.symlink_to(path if target.name == "link.csv" else tmp_path / "gone")
        text = error(db, "SELECT gx_export('[[1]]', ?)", str(target))
        assert text == f"gx_export: '{target}' already exists (use '{{\"overwrite\":true}}')"
    assert path.read_text() == "precious" and leftovers(tmp_path) == []

    # Overwriting through a link writes the file it leads to, and keeps that one's mode.
    path.chmod(0o640)
    q(db, "SELECT gx_export('[[1]]', ?, '{\"overwrite\":true}')", str(tmp_path / "link.csv"))
    assert path.read_text() == "1\n" and (tmp_path / "link.csv").is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640 and leftovers(tmp_path) == []


def test_no_database_is_overwritten(filedb, tmp_path):
    q(filedb, "SELECT gx_store('A', '[[1]]')")
    path = str(tmp_path / "test.db")
    for ending in ["npy", "csv"]:
        text = error(filedb, "SELECT gx_export('A', ?, ?)", path, f'{{"format":"{ending}","overwrite":true}}')
        assert text == f"gx_export: '{path}' is an SQLite database"
    assert q(filedb, "PRAGMA integrity_check") == "ok" and q(filedb, "SELECT gx_sum('A')") == 1


CHILD = """
import resource, signal, sqlite3, sys
sys.path.insert(0, sys.argv[1])
from conftest import gx_connect, q, error
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
db = gx_connect()
q(db, "SELECT gx_store('A', gx_ones(300, 300))")
resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
for ending in ["npy", "mtx", "csv"]:
    print(error(db, "SELECT gx_export('A', ?, '{\\"overwrite\\":true,\\"dtype\\":\\"c128\\"}')", "a." + ending))
"""


def test_no_room(tmp_path):
    """A file-size limit stands for a full disk: the old file stays, nothing half-written does."""
    for ending in ["npy", "mtx", "csv"]:
        put(tmp_path / f"a.{ending}", "precious")
    child = subprocess.run([sys.executable, "-c", CHILD, str(ROOT / "tests" / "sql")], cwd=tmp_path, text=True,
                           capture_output=True, timeout=60)
    lines = child.stdout.splitlines()
    assert child.returncode == 0 and len(lines) == 3, child.stderr
    where = tmp_path.resolve()
    assert lines[0] == f"gx_export: cannot write the 1440128 bytes of '{where}/a.npy': File too large"
    assert lines[1] == f"gx_export: cannot write '{where}/a.mtx': File too large (after 100000 bytes)"
    assert lines[2] == f"gx_export: cannot write '{where}/a.csv': File too large (after 100000 bytes)"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "a.mtx", "a.npy"]
    assert (tmp_path / "a.mtx").read_text() == "precious"


def test_transaction_survives(filedb, tmp_path):
    """A failing file is no reason for SQLite to roll back the caller's transaction."""
    filedb.execute("CREATE TABLE t(x)")
    filedb.execute("BEGIN")
    filedb.execute("INSERT INTO t VALUES (1)")
    bad = put(tmp_path / "a.csv", "1,2\n3\n")
    error(filedb, "SELECT gx_import('A', ?)", str(bad))
    error(filedb, "SELECT gx_export('[[1]]', '/nowhere/a.csv')")
    error(filedb, "SELECT gx_import('A', '/nowhere/a.csv')")
    error(filedb, "SELECT gx_import('A', ?) FROM t", str(bad))  # SQLite is stricter where a table is read
    error(filedb, "SELECT gx_export('[[1]]', '/nowhere/a.csv') FROM t")
    assert filedb.in_transaction
    good = put(tmp_path / "b.csv", "1,2\n3,4\n")
    q(filedb, "SELECT gx_import('A', ?)", str(good))
    filedb.execute("COMMIT")
    assert q(filedb, "SELECT count(*) FROM t") == 1 and q(filedb, "SELECT gx_sum('A')") == 10
    filedb.execute("BEGIN")
    q(filedb, "SELECT gx_import('C', ?)", str(good))
    filedb.execute("ROLLBACK")
    assert q(filedb, "SELECT count(*) FROM gx") == 1


def test_files_off(db, tmp_path, monkeypatch):
    q(db, "SELECT gx_config('files', 'off')")
    path = put(tmp_path / "a.csv", "1\n")
    for call in ["gx_import('A', ?)", "gx_export('[[1]]', ?)"]:
        assert error(db, f"SELECT {call}", str(path)) == f"{call[:9]}: files are switched off in this connection"
    monkeypatch.setenv("GX_FILES", "off")
    other = gx_connect()
    assert error(other, "SELECT gx_import('A', ?)", str(path)) == "gx_import: files are switched off in this connection"
    other.close()


def test_not_from_a_view(db, tmp_path):
    """A database from elsewhere must not read or write files through its schema."""
    path = put(tmp_path / "a.csv", "1\n")
    db.execute(f"CREATE VIEW v AS SELECT gx_import('A', '{path}')")
    db.execute(f"CREATE VIEW w AS SELECT gx_export('[[1]]', '{tmp_path}/b.csv')")
    assert error(db, "SELECT * FROM v") == "unsafe use of gx_import()"
    assert error(db, "SELECT * FROM w") == "unsafe use of gx_export()"


def sparse_npy(path, rows, cols, order="False"):
    """A file of zeros that takes no space on the disk."""
    head = npy(f"{{'descr': '<f8', 'fortran_order': {order}, 'shape': ({rows}, {cols}), }}")
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(len(head) + 8 * rows * cols)
    return path


@pytest.mark.parametrize("order", ["False", "True"])
def test_interrupted_import(filedb, tmp_path, order):
    path = sparse_npy(tmp_path / "a.npy", 16384, 65536, order)  # 8 GiB: not done in the time given
    timer = threading.Timer(0.15, filedb.interrupt)
    timer.start()
    assert error(filedb, "SELECT gx_import('A', ?)", str(path)) in ("gx_import: interrupted", "interrupted")
    assert q(filedb, "SELECT count(*) FROM sqlite_master") == 0


@pytest.mark.parametrize("ending", ["csv", "mtx"])
def test_interrupted_export(db, tmp_path, ending):
    """Through the progress function, which sees the call and stops it."""
    calls = []
    db.create_function("stop", 3, lambda *a: calls.append(a) or 1)
    q(db, "SELECT gx_random(4000, 4000, 'A')")  # seconds of printing: progress is due
    q(db, "SELECT gx_config('progress', 'stop')")
    path = tmp_path / f"a.{ending}"
    text = error(db, "SELECT gx_export('A', ?)", str(path))
    assert text == "gx_export: interrupted by progress function stop"
    assert list(tmp_path.iterdir()) == [] and calls[0][0] == "gx_export" and 0 <= calls[0][1] <= 1


@pytest.mark.parametrize("ending", ["csv", "mtx"])
def test_export_stops_within_a_band(db, tmp_path, ending):
    """A matrix of one band: the writer looks for interrupts while it prints, not only behind it."""
    path, written = tmp_path / f"a.{ending}", []
    q(db, "SELECT gx_random(2000, 2000, 'A')")
    q(db, "SELECT gx_export('A', ?)", str(path))
    whole = path.stat().st_size

    def stop(*_):
        written.extend(p.stat().st_size for p in tmp_path.iterdir() if p.name.startswith(".gx-"))
        return 1

    db.create_function("stop", 3, stop)
    q(db, "SELECT gx_config('progress', 'stop')")
    text = error(db, "SELECT gx_export('A', ?, '{\"overwrite\":true}')", str(path))
    assert text == "gx_export: interrupted by progress function stop"
    assert len(written) == 1 and written[0] < 0.9 * whole, (written, whole)


def test_memory_is_kept(tmp_path):
    """1 GiB of .npy under 64 MiB, in a process whose peak resident set is looked at."""
    path = sparse_npy(tmp_path / "a.npy", 4096, 16384)
    code = f"""
import resource, sys
sys.path.insert(0, {str(ROOT / "tests" / "sql")!r})
from conftest import gx_connect, q
db = gx_connect({str(tmp_path / "a.db")!r}, page_size=65536, synchronous=0)
q(db, "SELECT gx_config('memory_limit', '64MiB')")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
q(db, "SELECT gx_import('A', ?)", {str(path)!r})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, q(db, "SELECT rows * cols FROM gx"))
"""
    child = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=120)
    assert child.returncode == 0, child.stderr
    kib, elements = map(int, child.stdout.split())
    assert kib < (64 + 32) * 1024 and elements == 4096 * 16384


def test_value_beyond_the_limit(db, tmp_path):
    path = sparse_npy(tmp_path / "a.npy", 16384, 16384)
    text = error(db, "SELECT gx_import(NULL, ?)", str(path))
    assert text.startswith("gx_import: ") and "2147483680" in text
    assert error(db, "SELECT gx_import('A', ?, '{\"format\":\"csv\"}')", str(put(tmp_path / "b.dat", "x"))) == (
        "gx_import: b.dat: has no rows below its header"
    )


def test_damaged_gzip(db, tmp_path):
    """Every length, every byte changed: what it held, or words; the memory is given back."""
    path, seen = tmp_path / "a.csv.gz", set()
    stream = io.BytesIO()
    with gzip.GzipFile("a name", "wb", fileobj=stream) as packed:
        packed.write(b"1,2\n3,4\n" * 20)
    whole = stream.getvalue()
    before = q(db, "SELECT value FROM gx_stats WHERE name = 'memory_used'")
    files = [whole[:k] for k in range(2, len(whole))]
    files += [whole[:k] + bytes([whole[k] ^ bit]) + whole[k + 1:] for k in range(2, len(whole)) for bit in (1, 16, 255)]
    for content in files:
        put(path, content)
        try:
            seen.add("".join("{:.0f},{:.0f};{:.0f},{:.0f}".format(*four) for four in to_numpy(q(db, "SELECT gx_import(NULL, ?)", str(path))).reshape(-1, 4)))
        except sqlite3.Error as problem:
            assert str(problem).startswith("gx_import: a.csv.gz: "), problem
            seen.add("refused")
    assert seen == {"refused", "1,2;3,4" * 20}
    assert q(db, "SELECT value FROM gx_stats WHERE name = 'memory_used'") == before
    for more, message in [(b"x", "has other bytes behind what is compressed (gzip)"), (whole[:-1], "is compressed (gzip), and cut short or damaged")]:
        put(path, whole + more)
        assert error(db, "SELECT gx_import(NULL, ?)", str(path)) == "gx_import: a.csv.gz: " + message
    q(db, "SELECT gx_config('tile_bytes', '512')")
    q(db, "SELECT gx_config('memory_limit', '1MiB')")
    put(path, gzip.compress(b"1,2\n" * 2**20))
    assert "memory_limit" in error(db, "SELECT gx_import('A', ?)", str(path))


def test_schemas(filedb, tmp_path):
    path = put(tmp_path / "a.csv", "1,2\n")
    filedb.execute("ATTACH ? AS aux", (str(tmp_path / "aux.db"),))
    for name in ["temp.T", "aux.U"]:
        assert q(filedb, "SELECT gx_import(?, ?)", name, str(path)) == name
        assert q(filedb, "SELECT gx_export(?, ?, '{\"overwrite\":true}')", name, str(tmp_path / "o.csv"))
        assert (tmp_path / "o.csv").read_text() == "1,2\n"


def test_locale(tmp_path):
    """A host process with a decimal comma, where such a locale can be made."""
    locales = tmp_path / "locales"
    locales.mkdir()
    made = subprocess.run(["sh", "-c", f"localedef -i de_DE -f UTF-8 {locales}/de_DE.UTF-8"], capture_output=True)
    if made.returncode not in (0, 1) or not (locales / "de_DE.UTF-8").exists():
        pytest.skip("no locale with a decimal comma can be made here")
    code = f"""
import locale, sys
sys.path.insert(0, {str(ROOT / "tests" / "sql")!r})
from conftest import gx_connect, q
try:
    locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
except locale.Error:  # localedef without its character maps makes an empty one
    sys.exit(77)
assert locale.localeconv()["decimal_point"] == ","
db = gx_connect()
open("a.csv", "w").write("1.5,2.25\\n3,1234567890.12345678901234567890\\n")
q(db, "SELECT gx_import('A', 'a.csv')")
for ending in ["csv", "mtx"]:
    q(db, "SELECT gx_export('A', 'b." + ending + "')")
    print(open("b." + ending).read().split())
"""
    child = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=60, cwd=tmp_path,
                           env={**os.environ, "LOCPATH": str(locales)})
    if child.returncode == 77:
        pytest.skip("no locale with a decimal comma can be made here")
    assert child.returncode == 0, child.stderr
    assert child.stdout.splitlines()[0] == "['1.5,2.25', '3,1234567890.1234567']"
