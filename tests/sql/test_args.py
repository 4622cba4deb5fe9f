"""Arguments: the forms of a matrix, literals, numbers, names, destinations, options; loading.

Plan:
1. literals: every accepted spelling with its elements, every refusal with its exact text and place, a literal against
   NumPy for random matrices, sizes and memory, deep and long garbage;
2. numbers, NULL, text in each position where another type is wanted: the exact text once for each type of argument;
3. counts of arguments: one too few and one too many, exact texts for each kind of range;
4. messages are UTF-8; names and destinations: NUL inside, empty, not text; a failed call leaves the database as it was;
5. options: each type right and wrong, unknown, twice, null, bad JSON, blanks, NULs;
6. loading: twice, from SQL, on two connections, while statements run; the context is one;
7. errors that say what to do: the call, the order of arguments, the option that makes shapes fit.
"""
import json
import random
import sqlite3
import threading

import numpy as np
import pytest
from conftest import error, from_numpy, gx_connect, gx_path, q, to_numpy

SEED = 7


def matrix(db, literal):
    return to_numpy(q(db, "SELECT gx_slice(?, NULL, NULL, NULL, NULL)", literal))


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b, equal_nan=True)


INF, NAN = np.inf, np.nan

LITERALS = {
    "[]": np.zeros((0, 0)),
    "[[]]": np.zeros((1, 0)),
    "[[],[]]": np.zeros((2, 0)),
    "[ ]": np.zeros((0, 0)),
    "[1]": [[1]],
    "[1,2,3]": [[1], [2], [3]],
    "[[1,2,3]]": [[1, 2, 3]],
    "[[1,2],[3,4]]": [[1, 2], [3, 4]],
    " \n\t[ [ 1 , 2 ] , \r\n [3,4] ] \n": [[1, 2], [3, 4]],
    "[-1,+1,0.5,.5,5.,1e3,1E-2,-0]": [[-1], [1], [0.5], [0.5], [5], [1000], [0.01], [-0.0]],
    "[null,NaN,nan]": [[NAN], [NAN], [NAN]],
    "[Infinity,-Infinity,inf,-inf,9e999,-9e999]": [[INF], [-INF], [INF], [-INF], [INF], [-INF]],
    '["1","-2.5e1"," nan ","-Inf"]': [[1], [-25], [NAN], [-INF]],
    "[1e400,1e-400]": [[INF], [0]],
    "[0.1000000000000000055511151231257827021181583404541015625]": [[0.1]],
    "[" + "1" * 100 + "]": [[float("1" * 100)]],
    "[0007]": [[7]],
}

COMPLEX = {
    '["1+2i"]': [[1 + 2j]],
    '["1+2j",3]': [[1 + 2j], [3]],
    '["(1-2.5e3j)","-3i","i","-J","+2I"]': [[1 - 2500j], [-3j], [1j], [-1j], [2j]],
    '[" 1 + 2i "]': [[1 + 2j]],
    '["nan+infi","Inf - 3i","infi","nani"]': [
        [complex(NAN, INF)], [complex(INF, -3)], [complex(0, INF)], [complex(0, NAN)]],
    '[{"re":1,"im":-2},{"im":3,"re":null}, 4]': [[1 - 2j], [complex(NAN, 3)], [4]],
    '[[1,{"re":0,"im":1}],["2",3]]': [[1, 1j], [2, 3]],
}


@pytest.mark.parametrize("literal", LITERALS)
def test_literal(db, literal):
    expected = np.array(LITERALS[literal], dtype="<f8")
    got = matrix(db, literal)
    assert same(got, expected)
    assert np.array_equal(np.signbit(got), np.signbit(expected)) or np.isnan(expected).any()


@pytest.mark.parametrize("literal", COMPLEX)
def test_complex_literal(db, literal):
    assert same(matrix(db, literal), np.array(COMPLEX[literal], dtype="<c16"))


REFUSED = {
    "[": "ends at element 0 where a number is expected",
    "[[": "ends at row 0, column 0 where a number is expected",
    "[1": "ends at element 0 where ',' or ']' is expected",
    "[1,": "ends at element 1 where a number is expected",
    "[[1,2],[3,4]": "ends at row 2, column 0 where ',' or ']' is expected",
    "[[1,2],": "ends at row 1, column 0 where a row '[...]' is expected",
    "[1,2] x": "goes on after its last bracket with 'x'",
    "[1]]": "goes on after its last bracket with ']'",
    "[1,2][3]": "goes on after its last bracket with '[3]'",
    "[,1]": "has ',1]' at element 0 where a number is expected",
    "[1,,2]": "has ',2]' at element 1 where a number is expected",
    "[1,]": "has ']' at element 1 where a number is expected",
    "[[1,],[2]]": "has '],[2]]' at row 0, column 1 where a number is expected",
    "[[1],]": "has ']' at row 1, column 0 where a row '[...]' is expected",
    "[1 2]": "has '2]' at element 0 where ',' or ']' is expected",
    "[[1] [2]]": "has '[2]]' at row 1, column 0 where ',' or ']' is expected",
    "[1,[2]]": "has '1,[2]]' at row 0, column 0 where a row '[...]' is expected",
    "[[1],2]": "has '2]' at row 1, column 0 where a row '[...]' is expected",
    "[[[1]]]": "has '[1]]]' at row 0, column 0 where a number is expected",
    "[[1,[2]],[3]]": "has '[2]],[3]]' at row 0, column 1 where a number is expected",
    "[[1,2],[3]]": "is ragged: row 0 has 2 elements, row 1 has 1",
    "[[1],[2,3]]": "is ragged: row 0 has 1 element, row 1 has 2",
    "[[],[1]]": "is ragged: row 0 has 0 elements, row 1 has 1",
    "[[1],[]]": "is ragged: row 0 has 1 element, row 1 has 0",
    '[[],["1"]]': "is ragged: row 0 has 0 elements, row 1 has 1",
    "[true]": "has 'true]' at element 0 where a number is expected",
    "[[1,x]]": "has 'x]]' at row 0, column 1 where a number is expected",
    "[--1]": "has '--1]' at element 0 where a number is expected",
    "[-]": "has '-]' at element 0 where a number is expected",
    "[.]": "has '.]' at element 0 where a number is expected",
    "[1e]": "has 'e]' at element 0 where ',' or ']' is expected",
    "[1.2.3]": "has '.3]' at element 0 where ',' or ']' is expected",
    "[0x10]": "has 'x10]' at element 0 where ',' or ']' is expected",
    "[1;2]": "has ';2]' at element 0 where ',' or ']' is expected",
    "['1']": "has ''1']' at element 0 where a number is expected",
    '["abc"]': 'has \'"abc"]\' at element 0 where a number such as "1+2i" or "nan" is expected',
    '["1+2"]': 'has \'"1+2"]\' at element 0 where a number such as "1+2i" or "nan" is expected',
    '["1+2i3"]': 'has \'"1+2i3"]\' at element 0 where a number such as "1+2i" or "nan" is expected',
    '["2i+1"]': 'has \'"2i+1"]\' at element 0 where a number such as "1+2i" or "nan" is expected',
    '[""]': 'has \'""]\' at element 0 where a number such as "1+2i" or "nan" is expected',
    '["1+2i]': 'has \'"1+2i]\' at element 0 where a number such as "1+2i" or "nan" is expected',
    '["\\u0031"]': 'has \'"\\u0031"]\' at element 0 where a number such as "1+2i" or "nan" is expected',
    '[{}]': "has '{}]' at element 0 where {\"re\":x,\"im\":y} is expected",
    '[{"re":1}]': "has '{\"re\":1}]' at element 0 where {\"re\":x,\"im\":y} is expected",
    '[{"re":1,"re":2}]': "has '{\"re\":1,\"re\":2}]' at element 0 where {\"re\":x,\"im\":y} is expected",
    '[[0],[{"re":1,"im":"2"}]]': "has '{\"re\":1,\"im\":\"2\"}]]' at row 1, column 0 where {\"re\":x,\"im\":y} is expected",
    "[1\0]": "has '\\x00]' at element 0 where ',' or ']' is expected",
    "[[1,2],[3,öäüöäüöäüöäüöäü]]": "has 'öäüöäüöäüöäü...' at row 1, column 1 where a number is expected",
}


@pytest.mark.parametrize("literal", REFUSED)
def test_refused_literal(db, literal):
    assert error(db, "SELECT gx_shape(?)", literal) == "gx_shape: A " + REFUSED[literal]


def test_literal_places_name_the_argument(db):
    assert error(db, "SELECT gx_matmul('[1]', '[1,]')") == (
        "gx_matmul: B has ']' at element 1 where a number is expected")


def test_literals_of_random_matrices(db):
    rng = np.random.default_rng(SEED)
    print("seed", SEED)
    for _ in range(300):
        m, n = rng.integers(1, 9, 2)
        a = rng.standard_normal((m, n)) * 10.0 ** rng.integers(-300, 300, (m, n))
        if rng.random() < 0.3:
            a[rng.random((m, n)) < 0.3] = rng.choice([np.nan, np.inf, -np.inf])
        assert same(matrix(db, json.dumps(a.tolist(), indent=int(rng.integers(0, 3)) or None)), a)
        z = a + 1j * rng.standard_normal((m, n))
        text = json.dumps([[str(x) for x in row] for row in z])  # Python's spelling: (1+2j)
        assert np.array_equal(matrix(db, text), z, equal_nan=True)


def test_garbage(db):
    """Random bytes of the literal's alphabet never do more than fail."""
    rng = random.Random(SEED)
    print("seed", SEED)
    accepted = 0
    for _ in range(5000):
        text = "[" + "".join(rng.choice('[[],,{}:" 0123.e+-ijnullreimna') for _ in range(rng.randrange(25)))
        try:
            q(db, "SELECT gx_json(?)", text)
            accepted += 1
        except sqlite3.OperationalError as problem:
            assert str(problem).startswith("gx_json: A "), (text, problem)
    assert accepted < 2500


def test_large_literals(db):
    a = np.arange(200000.0).reshape(400, 500)
    assert same(matrix(db, json.dumps(a.tolist())), a)
    assert error(db, "SELECT gx_shape(?)", "[" * 1000000) == (
        "gx_shape: A has '[[[[[[[[[[[[[[[[[[[[[[[[...' at row 0, column 0 where a number is expected")
    # A first row of 100000 and 100000 rows: refused as ragged, not for 80 GB.
    ragged = "[[" + "0," * 99999 + "0]" + ",[0]" * 99999 + "]"
    assert error(db, "SELECT gx_shape(?)", ragged) == (
        "gx_shape: A is ragged: row 0 has 100000 elements, row 1 has 1")


def test_a_long_literal_is_interrupted(db):
    text = "[" + "0.123456789," * 4000000 + "0]"
    done = threading.Event()

    def interrupt():  # again and again: one that comes before the statement steps is lost
        while not done.wait(0.01):
            db.interrupt()
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        message = error(db, "SELECT gx_shape(?)", text)
    finally:
        done.set()
        thread.join()
    assert message in ("gx_shape: interrupted", "interrupted")
    assert q(db, "SELECT gx_shape('[1]')") == "[1,1]"


def test_literal_memory_is_counted(db):
    q(db, "SELECT gx_config('tile_bytes', '64KiB')")
    q(db, "SELECT gx_config('memory_limit', '1MiB')")
    text = json.dumps(np.zeros((500, 500)).tolist())
    message = error(db, "SELECT gx_shape(?)", text)
    assert message.startswith("gx_shape: JSON literal needs 2000064 bytes but memory_limit leaves "), message
    assert q(db, "SELECT gx_shape('[1]')") == "[1,1]"


# ---- types ----------------------------------------------------------------------------------------

WRONG = {
    "SELECT gx_shape(NULL)": "gx_shape: A is NULL",
    "SELECT gx_matmul('[1]', NULL)": "gx_matmul: B is NULL",
    "SELECT gx_shape('')": "gx_shape: A is an empty text, not a matrix",
    "SELECT gx_shape('nowhere')": "gx_shape: no matrix named 'nowhere'",
    "SELECT gx_shape('main.nowhere')": "gx_shape: no matrix named 'main.nowhere'",
    "SELECT gx_shape('A' || char(0) || 'B')": "gx_shape: A is a name with a NUL character in it",
    "SELECT gx_shape('{}')": "gx_shape: A is missing",
    "SELECT gx_matmul('{}', '[1]')": "gx_matmul: A must be a matrix, not an options object",
    "SELECT gx_get('[1]', 0.5, 0)": "gx_get: i must be an integer, not 0.5",
    "SELECT gx_get('[1]', NULL, 0)": "gx_get: i must be an integer, not NULL",
    "SELECT gx_get('[1]', 0, 'x')": "gx_get: j must be an integer, not 'x'",
    "SELECT gx_get('[1]', 0, x'00')": "gx_get: j must be an integer, not a blob of 1 bytes",
    "SELECT gx_get('[1]', 9e999, 0)": "gx_get: i must be an integer, not inf",
    "SELECT gx_get('[1]', 1e300, 0)": "gx_get: i must be an integer, not 1e+300",
    "SELECT gx_scale('[1]', 'x')": "gx_scale: alpha must be a number, '[re,im]' or '1+2i', not 'x'",
    "SELECT gx_scale('[1]', NULL)": "gx_scale: alpha must be a number, '[re,im]' or '1+2i', not NULL",
    "SELECT gx_scale('[1]', '[1]')": "gx_scale: alpha must be a number, '[re,im]' or '1+2i', not '[1]'",
    "SELECT gx_scale('[1]', gx_zeros(2, 1))": "gx_scale: alpha must be a number, not a 2x1 matrix",
    "SELECT gx_neg('[1]', 3)": "gx_neg: destination must be a text, not 3",
    "SELECT gx_neg('[1]', x'41')": "gx_neg: destination must be a text, not a blob of 1 bytes",
    "SELECT gx_neg('[1]', 'a' || char(0))": "gx_neg: destination has a NUL character in it",
    "SELECT gx_neg('[1]', '')": None,
    "SELECT gx_neg('[1]', '[1]')": None,
}


@pytest.mark.parametrize("sql", WRONG)
def test_wrong_type(db, sql):
    message = error(db, sql)
    function = sql.split()[1].split("(")[0]
    assert message.startswith(function + ": ") and "\n" not in message
    assert WRONG[sql] is None or message == WRONG[sql]
    assert q(db, "SELECT count(*) FROM gx") == 0


def test_numbers_are_matrices(db):
    assert matrix(db, 3).tolist() == [[3.0]]
    assert matrix(db, -2.5).tolist() == [[-2.5]]
    assert matrix(db, 2**62).tolist() == [[2.0**62]]
    assert q(db, "SELECT gx_get('[[1,2]]', 0, 1.0)") == 2.0  # an integer, exactly


def test_scalars(db):
    for text, expected in {"2": 2, "[1,-2]": 1 - 2j, "1+2i": 1 + 2j, "-j": -1j}.items():
        got = to_numpy(q(db, "SELECT gx_scale(?, ?)", from_numpy([[1 + 0j]]), text))
        assert got.tolist() == [[expected]]
    blob = from_numpy([[3 - 1j]])
    assert to_numpy(q(db, "SELECT gx_scale(?, ?)", from_numpy([[2 + 0j]]), blob)).tolist() == [[6 - 2j]]


COUNTS = {
    "SELECT gx_matmul('[1]')": "gx_matmul: takes 2 to 4 arguments, not 1: gx_matmul(A, B[, destination][, options])",
    "SELECT gx_matmul(1, 2, 3, 4, 5)": "gx_matmul: takes 2 to 4 arguments, not 5: gx_matmul(A, B[, destination][, options])",
    "SELECT gx_shape()": "gx_shape: takes 1 argument, not 0: gx_shape(A)",
    "SELECT gx_shape(1, 2)": "gx_shape: takes 1 argument, not 2: gx_shape(A)",
    "SELECT gx_get(1, 2)": "gx_get: takes 3 arguments, not 2: gx_get(A, i, j)",
    "SELECT gx_version(1)": "gx_version: takes no arguments, but 1 argument came",
    "SELECT gx_version(1, 2)": "gx_version: takes no arguments, but 2 arguments came",
    "SELECT gx_hstack()": "gx_hstack: takes 1 or more arguments, not 0: gx_hstack(A, B, ...[, options])",
}


@pytest.mark.parametrize("sql", COUNTS)
def test_count(db, sql):
    assert error(db, sql) == COUNTS[sql]


def test_many_operands(db):
    n = 100
    marks = ",".join("?" * n)
    got = to_numpy(q(db, f"SELECT gx_hstack({marks})", *[f"[[{k}]]" for k in range(n)]))
    assert got.tolist() == [[float(k) for k in range(n)]]
    assert error(db, f"SELECT gx_hstack({marks})", *(["[1]"] * (n - 1) + ["[x]"])) == (
        "gx_hstack: argument 100 has 'x]' at element 0 where a number is expected")


def test_utf16_database():
    db = gx_connect(encoding="'UTF-16le'")
    db.execute("CREATE TABLE t(x TEXT)")
    db.execute("INSERT INTO t VALUES('[[1,2],[3,4]]'), ('µ')")
    assert q(db, "SELECT gx_json(x) FROM t WHERE rowid = 1") == "[[1.0,2.0],[3.0,4.0]]"
    assert q(db, "SELECT gx_store(x, '[1]', '{\"replace\":true}') FROM t WHERE rowid = 2") == "µ"
    assert q(db, "SELECT gx_shape('µ')") == "[1,1]"
    db.close()


TEXT_ARGUMENTS = [
    "gx_neg('[1]', 'x', ?)", "gx_norm('[1]', ?)", "gx_cast('[1]', ?)", "gx_cond('[1]', ?)", "gx_part('[1]', ?)",
    "gx_matrix_gallery(?, 3)", "gx_from_cells(0, 0, 1, 0, ?)", "gx_store_cells(?, -1, 0, 1)", "gx_config('progress', ?)",
    "gx_config('backend', ?)", "(SELECT detail FROM gx_plan('eval', ?))", "(SELECT driver FROM gx_plan(?))",
]


@pytest.mark.parametrize("call", TEXT_ARGUMENTS)
def test_messages_are_utf8(db, call):
    """Neither a text that is cut nor one that is not UTF-8 gets into a message as it is: Python cannot read that."""
    q(db, "SELECT gx_store(?, '[1]')", "é" * 120)
    for pattern in ("{0}", '{{"{0}":1}}', '"{0}" + "{0}" * 2 - "{0}"'):
        for text in (pattern.format(lead + ch * n) for lead in ("", "a", "ab", "abc") for ch in "é☃😀"
                     for n in (10, 11, 12, 20, 21, 120, 250, 300)):
            try:
                db.execute(f"SELECT {call}", (text,)).fetchall()
            except sqlite3.Error as problem:
                assert "gx_" in str(problem)
    for broken in ("x'64ff88'", "x'7b2264ff88223a317d'"):  # d.. and {"d..":1}
        assert "gx_" in error(db, f"SELECT {call}".replace("?", f"CAST({broken} AS TEXT)"))


def test_messages_are_utf8_of_tables(db):
    for n in range(50, 62):
        with pytest.raises(sqlite3.OperationalError, match="is not the name of a stored matrix"):
            db.execute(f"CREATE VIRTUAL TABLE t USING gx_cells('[{'a' * n}é')")


BRACES = [("SELECT gx_shape(?)", "the last argument", "{0.1,0.2}"), ("SELECT gx_add(?, 1)", "A", "{{1,2},{3,4}}"), ("SELECT gx_add(?, 1)", "A", " { -1}"),
          ("SELECT gx_from_rows(0, ?)", "the last argument", "{0.1,NULL}"), ("SELECT gx_from_rows(0, ?, '{\"dtype\":\"f32\"}')", "row 0", "{NULL,1}"),
          ("SELECT gx_store('T', ?)", "the last argument", "{nan}"), ("SELECT gx_matmul(?, '[1]')", "A", "{1}"),
          ("SELECT gx_store_rows('T', 0, ?, '{\"replace\":true}')", "row 0", "{1,2}"), ("SELECT * FROM gx_knn(?, 'M', 1)", "Q", "{1,2}")]


@pytest.mark.parametrize("sql, label, text", BRACES, ids=str)
def test_braces_are_named(db, sql, label, text):
    """PostgreSQL's arrays are refused as what they are, wherever a matrix or a row may come."""
    q(db, "SELECT gx_store('M', '[[1,2],[3,4]]')")
    message = error(db, sql, text)
    assert (f"{label} is '{text.lstrip()}', an array in braces as PostgreSQL writes it: a list is '[0.1,0.2]' "
            "(replace(replace(x,'{','['),'}',']') makes it one)") in message
    assert "braces" not in error(db, sql, '{"no":1}')


@pytest.mark.parametrize("text", ["größe", "面积", "😀", "naïve café"])
def test_messages_keep_text_as_it_is(db, text):
    for sql in ["SELECT gx_shape(?)", "SELECT gx_part('M', ?)", "SELECT gx_config('threads', ?)", "SELECT gx_config(?, 1)", "SELECT gx_eval(?)", "SELECT gx_random(?, 1)",
                "SELECT gx_zeros(1, 1, 'Z', json_object(?, 1))", "SELECT gx_zeros(1, 1, 'Z', json_object('dtype', ?))", "SELECT gx_json('[' || ? || ']')",
                "SELECT gx_import('X', ? || '.csv')", "SELECT gx_norm('[1]', ?)"]:
        message = error(db, sql, text)
        assert text in message or (sql.startswith("SELECT gx_part") and "'M'" in message), (sql, message)


# ---- options --------------------------------------------------------------------------------------

OPTIONS = {
    '{"replace":3}': 'option "replace" must be true or false, not 3',
    '{"replace":"yes"}': 'option "replace" must be true or false, not "yes"',
    '{"replace":[true]}': 'option "replace" must be true or false, not a list',
    '{"replace":{}}': 'option "replace" must be true or false, not an object',
    '{"alpha":true}': 'option "alpha" must be a number, [re,im] or "1+2i", not true',
    '{"alpha":[1]}': 'option "alpha" must be a number, [re,im] or "1+2i", not a list',
    '{"alpha":[1,2,3]}': 'option "alpha" must be a number, [re,im] or "1+2i", not a list',
    '{"alpha":"two"}': 'option "alpha" must be a number, [re,im] or "1+2i", not "two"',
    '{"replace":true,"replace":true}': 'option "replace" is given twice',
    '{"Replace":true}': None,
    '{"no":1}': None,
    '{"":1}': None,
    '{"replace":true': "options are not valid JSON near 'ace\":true'",
    '{"replace":true} x': "options are not valid JSON near '\":true} x'",
    "{'replace':1}": "options are not valid JSON near '{'replace':1}'",
    "{": "options are not valid JSON near '{'",
    '{"rep\0lace":1}': "options have a NUL character in them",
    '{"replace\\u0000":1}': "options have a NUL character in them",
}


@pytest.mark.parametrize("options", OPTIONS)
def test_wrong_options(db, options):
    message = error(db, "SELECT gx_matmul('[[1]]', '[[1]]', 'C', ?)", options)
    assert message.startswith("gx_matmul: ")
    if OPTIONS[options] is not None:
        assert message == "gx_matmul: " + OPTIONS[options]
    else:
        key = options.split('"')[1]
        assert message.startswith(f'gx_matmul: unknown option "{key}": the known ones are "')
    assert q(db, "SELECT count(*) FROM gx") == 0


INTEGERS = {
    '{"edgeitems":1.5}': 'option "edgeitems" must be an integer, not 1.5',
    '{"edgeitems":"3"}': 'option "edgeitems" must be an integer, not "3"',
    '{"edgeitems":1e300}': 'option "edgeitems" must be an integer, not 1e+300',
    '{"edgeitems":-1}': 'option "edgeitems" must be 1 to 1000000, not -1',
    '{"dtype":"f32"}': 'unknown option "dtype": the known ones are "edgeitems", "precision", "threshold", "linewidth" and "colours"',
}


@pytest.mark.parametrize("options", INTEGERS)
def test_wrong_integer_options(db, options):
    assert error(db, "SELECT gx_show('[1]', ?)", options) == "gx_show: " + INTEGERS[options]


def test_no_options_known(db):
    assert error(db, "SELECT gx_row('[1]', 0, '{\"x\":1}')") == (
        'gx_row: unknown option "x": the known ones are "dtype", "saturate" and "replace"')
    assert error(db, "SELECT gx_norm('[1]', '{\"x\":1}')") == 'gx_norm: unknown option "x": there are none'


def test_good_options(db):
    assert q(db, "SELECT gx_json(gx_matmul(2, 3, ' {\"alpha\" : [0, 1] } '))") == '[["0.0+6.0i"]]'
    assert q(db, "SELECT gx_json(gx_matmul(2, 3, '{\"alpha\":\"1+2i\"}'))") == '[["6.0+12.0i"]]'
    assert q(db, "SELECT gx_json(gx_matmul(2, 3, '{\"alpha\":null}'))") == "[[6.0]]"
    assert q(db, "SELECT gx_json(gx_matmul(2, 3, '{}'))") == "[[6.0]]"
    assert q(db, "SELECT gx_dtype(gx_zeros(1, 1, '{\"dtype\":\"float32\"}'))") == "f32"
    assert q(db, "SELECT gx_matmul(2, 3, NULL, '{\"replace\":false}')") == from_numpy([[6.0]])
    q(db, "SELECT gx_store('C', '[1]')")
    assert q(db, "SELECT gx_matmul(2, 3, 'C', json_object('replace', 1))") == "C"
    assert q(db, "SELECT gx_get('C', 0, 0)") == 6.0


# ---- loading --------------------------------------------------------------------------------------

def test_load_twice():
    db = gx_connect()
    q(db, "SELECT gx_config('threads', 1)")
    db.execute("SELECT gx_store('A', '[1,2]')")
    db.enable_load_extension(True)
    db.load_extension(gx_path())
    db.execute("SELECT load_extension(?)", (gx_path(),)).fetchall()  # while a statement runs
    assert str(q(db, "SELECT gx_config('threads')")) == "1"
    assert q(db, "SELECT gx_shape('A')") == "[2,1]"
    db.close()


def test_load_while_a_table_is_read():
    db = gx_connect()
    db.enable_load_extension(True)
    rows = db.execute("SELECT i, value FROM gx_cells('[1,2,3]')")
    assert next(rows) == (0, 1.0)
    db.load_extension(gx_path())
    assert rows.fetchall() == [(1, 2.0), (2, 3.0)]
    db.close()


def test_context_is_not_for_sql(db):
    assert q(db, "SELECT gx_context(NULL)") is None
    assert q(db, "SELECT gx_context(12345678)") is None
    assert q(db, "SELECT gx_context(x'0102')") is None


def test_functions_are_direct_only(db):
    """What reads tables or settings cannot hide in a view of somebody's database."""
    db.execute("CREATE TEMP TABLE t(x)")
    db.execute("CREATE VIEW v AS SELECT gx_config('threads', 7)")
    assert "unsafe use of gx_config()" in error(db, "SELECT * FROM v")
    db.execute("CREATE VIEW w AS SELECT gx_version()")
    assert q(db, "SELECT * FROM w") == q(db, "SELECT gx_version()")


def test_replaced_function(db):
    """An application may take one of gx's names; the others go on, and closing frees what is left."""
    db.create_function("gx_shape", -1, lambda *args: "mine")
    assert q(db, "SELECT gx_shape('[1]')") == "mine"
    assert q(db, "SELECT gx_rows_count('[1]')") == 1


def test_each_table_says_so(db):
    """SELECT gx_NAME(...) of a table with that name says how its rows are asked for, unless it is a function as well."""
    tables = {row[0] for row in db.execute("SELECT name FROM pragma_module_list WHERE name GLOB 'gx_*'")}
    assert len(tables) > 15
    for table in tables - {"gx_catalog", "gx_guard", "gx_help", "gx_vectors"}:
        said = error(db, f"SELECT {table}()")
        assert said.startswith(f"{table}: takes ") or f": is a table, not a function: its rows come FROM {table}" in said, said


@pytest.mark.parametrize("sql, text", [
    ("SELECT gx_random(3)", "gx_random: takes 2 to 4 arguments, not 1: gx_random(m, n[, destination][, options])"),
    ("SELECT gx_store_rows('A', 1)", "gx_store_rows: takes 3 arguments before the options, not 2: "
     "gx_store_rows(name, i, row[, options]) (input row 1)"),
    ("SELECT * FROM gx_eig()", "gx_eig: takes 1 to 2 arguments, not 0: gx_eig(A[, values[, vectors]][, options])"),
    ("SELECT gx_add(gx_eye(2), '1')", "gx_add: no matrix named '1'; a number stands without quotes"),
    ("SELECT * FROM gx_eig(gx_eye(2), 1)", "gx_eig: options must be a JSON object, '{\"k\":1}', not 1"),
    ("SELECT gx_store_rows('X', 0, 1.5, 2)",
     "gx_store_rows: a row is one argument: json_array(a, b, ...) makes it of several (input row 1)"),
    ("SELECT gx_from_rows(0, 1.5, 2, '{}')",
     "gx_from_rows: a row is one argument: json_array(a, b, ...) makes it of several (input row 1)"),
    ("SELECT gx_store('[[1,2]]', 'A')", "gx_store: '[[1,2]]' is a matrix, but the name comes first: gx_store(name, A)"),
    ("SELECT gx_store(gx_eye(1), 'A')",
     "gx_store: a blob of 40 bytes is a matrix, but the name comes first: gx_store(name, A)"),
    ("SELECT gx_import('x.csv', 'X')",
     "gx_import: 'x.csv' looks like the path, but the name comes first: gx_import(name, path)"),
    ("SELECT gx_matmul(gx_ones(5, 3), gx_ones(1, 3))", "gx_matmul: A is 5x3 but B is 1x3: the inner sides 3 and 1 differ; '{\"transb\":true}' takes B transposed"),
    ("SELECT gx_matmul(gx_ones(5, 3), gx_ones(5, 2))", "gx_matmul: A is 5x3 but B is 5x2: the inner sides 3 and 5 differ; '{\"transa\":true}' takes A transposed"),
    ("SELECT gx_matmul(gx_ones(5, 3), 2)", "gx_matmul: A is 5x3 but B is 1x1: the inner sides 3 and 1 differ; gx_scale multiplies by a number"),
    ("SELECT gx_matmul(2, gx_ones(5, 3))", "gx_matmul: A is 1x1 but B is 5x3: the inner sides 1 and 5 differ; gx_scale multiplies by a number"),
    ("SELECT gx_matmul(gx_ones(5, 3), gx_ones(2, 7))", "gx_matmul: A is 5x3 but B is 2x7: the inner sides 3 and 2 differ"),
    ("SELECT gx_sum(gx_eye(2), 'rows')", "gx_sum: axis must be 0 (down the columns) or 1 (along the rows), not 'rows'"),
    ("SELECT gx_mean(gx_eye(2), 2)", "gx_mean: axis must be 0 (down the columns) or 1 (along the rows), not 2"),
    ("SELECT gx_knn('[1,2]', '[[1,2]]', 1)", "gx_knn: is a table, not a function: its rows come FROM gx_knn(Q, E, k[, options])"),
    ("SELECT gx_cells(NULL)", "gx_cells: is a table, not a function: its rows come FROM gx_cells(A)"),
    ("SELECT gx_stats()", "gx_stats: is a table, not a function: its rows come FROM gx_stats"),
    ("SELECT gx_eval('2', 3)", "gx_eval: 1 argument came after the text, which names no ?1"),
    ("SELECT gx_eval('?1', 3, 4)", "gx_eval: 2 arguments came after the text, which names ?1 at most"),
    ("SELECT gx_help('a', 'b')", "gx_help: takes 0 to 1 arguments, not 2: gx_help([word])"),
])
def test_what_to_do(db, sql, text):
    assert error(db, sql) == text
