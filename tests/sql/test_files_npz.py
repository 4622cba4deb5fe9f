"""SciPy's archives of sparse matrices, in and out.

Plan:
- csr, csc, coo that scipy.sparse.save_npz wrote, compressed and not, every type of values and indexes, unsorted, repeated,
  empty: the matrix as SciPy has it; large enough for several blocks of codes;
- what gx writes, scipy.sparse.load_npz reads: the same bits; there and back; empty rows, no rows, complex, f32, a dtype;
- what is refused: other formats, archives of arrays, dense matrices, options of others, what does not go together, with words;
- every byte of a small archive changed, every length cut: an answer or a refusal, and memory as before.
"""
import io
import json
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import error, q, to_numpy


def random(rng, shape, density=0.1, dtype=float):
    S = sp.random(*shape, density, "csr", random_state=rng, dtype=np.float64)
    S.data = (S.data * 200 - 100).astype(dtype)
    return S


def dense(db, name):
    return to_numpy(q(db, "SELECT gx_dense(?)", name))


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_in(db, tmp_path, form, compressed):
    rng, path = np.random.default_rng(1), str(tmp_path / "s.npz")
    for dtype in ("f8", "f4", "c16", "c8", "i1", "u2", "i4", "i8", ">f8", ">i4", ">c8", "?", ">u2"):
        if form == "coo" and dtype[0] == ">":
            continue  # SciPy 1.15 refuses to make one
        S = random(rng, (70, 50), dtype=dtype).asformat(form)
        sp.save_npz(path, S, compressed)
        assert q(db, "SELECT gx_import('S', ?, '{\"replace\":true}')", path) == "S"
        got = dense(db, "S")
        assert np.array_equal(got, S.toarray()) and q(db, "SELECT gx_nnz('S')") == S.nnz
        own = np.dtype(dtype).newbyteorder("<")
        assert got.dtype == ("f8" if own == "u8" else own)  # as it is stored; gx has no unsigned 64 bits
    for S in (sp.csr_matrix((3, 4)), sp.csr_matrix((0, 5)), sp.csr_matrix((5, 0)), random(rng, (1, 2000)), random(rng, (2000, 1))):
        sp.save_npz(path, S.asformat(form), compressed)
        q(db, "SELECT gx_import('S', ?, '{\"replace\":true}')", path)
        assert np.array_equal(dense(db, "S"), S.toarray())


def test_in_large_unsorted_and_repeated(db, tmp_path):
    rng, path = np.random.default_rng(2), str(tmp_path / "s.npz")
    n, count = 3000, 120000
    rows, cols, values = rng.integers(0, n, count), rng.integers(0, n, count), rng.integers(-9, 9, count).astype(float)
    S = sp.coo_matrix((values, (rows, cols)), shape=(n, n))
    for matrix in (S, sp.csr_matrix((values, cols, np.linspace(0, count, n + 1).astype(np.int64)), shape=(n, n))):
        for compressed in (True, False):
            sp.save_npz(path, matrix, compressed)
            q(db, "SELECT gx_import('S', ?, '{\"replace\":true,\"dtype\":\"f32\"}')", path)
            got = dense(db, "S")
            assert got.dtype == np.float32 and np.array_equal(got, matrix.toarray())
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "t.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new:
        new.comment = b"a comment" * 100
        for name in reversed(old.namelist()):
            new.writestr(name, old.read(name))
    q(db, "SELECT gx_import('T', ?)", str(tmp_path / "t.npz"))
    assert np.array_equal(dense(db, "T"), got)


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "c8"])
def test_out(db, tmp_path, dtype):
    rng, path = np.random.default_rng(3), str(tmp_path / "s.npz")
    q(db, "SELECT gx_config('tile_bytes', 8192)")
    for S in (random(rng, (500, 300), 0.05, dtype), sp.csr_matrix((7, 9), dtype=dtype), sp.csr_matrix((0, 3), dtype=dtype)):
        if dtype[0] == "c":
            S.data = (S.data * (1 + 2j)).astype(dtype)
        sp.save_npz(path, S)
        q(db, "SELECT gx_import('S', ?, '{\"replace\":true}')", path)
        assert q(db, "SELECT gx_export('S', ?, '{\"overwrite\":true}')", path) == path
        got = sp.load_npz(path)
        assert got.format == "csr" and got.dtype == np.dtype(dtype) and got.shape == S.shape
        assert got.indices.dtype == np.int32 and np.array_equal(got.toarray(), S.toarray()) and got.has_canonical_format
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
        q(db, "SELECT gx_import('T', ?, '{\"replace\":true}')", path)
        assert np.array_equal(dense(db, "T"), S.toarray())
    if dtype == "f8":
        q(db, "SELECT gx_export(gx_sparse('[[0.1,0],[0,3]]'), ?, '{\"overwrite\":true,\"dtype\":\"f32\"}')", path)
        assert sp.load_npz(path).data.tolist() == [np.float32(0.1), 3]


def test_refused(db, tmp_path):
    path = str(tmp_path / "s.npz")

    def archive(**members):
        with zipfile.ZipFile(path, "w") as file:
            for name, array in members.items():
                stream = io.BytesIO()
                np.save(stream, array)
                file.writestr(name + ".npy", stream.getvalue())

    good = {"format": np.array(b"csr"), "shape": np.array([2, 3]), "data": np.array([1.0, 2.0]), "indices": np.array([0, 2]),
            "indptr": np.array([0, 1, 2])}

    def refusal(options="{}", **changed):
        archive(**{name: value for name, value in (good | changed).items() if value is not None})
        return error(db, "SELECT gx_import('N', ?, ?)", path, options)

    for text, found in [
        ("format 'bsr'", refusal(format=np.array(b"bsr"))), ("has 4 arrays", refusal(format=None)), ("has no indices.npy", refusal(indices=None)),
        ("no shape", refusal(shape=np.array([2, 3, 4]))), ("no shape", refusal(shape=np.array([-2, 3]))), ("at most 2^40", refusal(shape=np.array([2, 2**41]))),
        ("indptr.npy does not go", refusal(indptr=np.array([0, 2, 1]))), ("indptr.npy does not go", refusal(indptr=np.array([0, 1]))),
        ("indptr.npy does not go", refusal(indptr=np.array([0, 1, 9]))), ("indptr.npy does not go", refusal(indptr=np.array([1, 1, 2]))),
        ("at (1, 3) of 2x3", refusal(indices=np.array([0, 3]))), ("at (0, -1)", refusal(indices=np.array([-5, 0]))),
        ("no whole numbers", refusal(indices=np.array([0.0, 1.0]))), ("no list", refusal(data=np.ones((2, 1)))),
        ("no whole numbers", refusal(indices=np.array([False, True]))), ("for npz", error(db, "SELECT gx_import('N', 'x.npy', '{\"member\":\"a\"}')")),
        ("holds 0 to 1", refusal('{"dtype":"bool"}')), ("holds complex numbers", refusal('{"dtype":"f64"}', data=np.ones(2, complex))), ("gx_dense", refusal('{"dense":true}')),
        ("for csv", refusal('{"skip":1}')), ("row.npy or col.npy", refusal(format=np.array(b"coo"), row=np.array([0]), col=np.array([0, 1]))),
    ]:
        assert text in found, (text, found)
    archive(format=np.array("csr"), **{name: value for name, value in good.items() if name != "format"})  # a text of Python 3
    assert q(db, "SELECT gx_json(gx_dense(gx_import('N', ?)))", path) == "[[1.0,0.0,0.0],[0.0,0.0,2.0]]"
    for kind, stored in (("<f2", "f16"), (">f2", "f16"), ("|u1", "u8"), (">u2", "u16")):
        archive(**(good | {"data": np.array([1, 2]).astype(kind)}))
        assert q(db, "SELECT gx_json(gx_cast(gx_dense(gx_import(NULL, ?)), 'f64'))", path) == "[[1.0,0.0,0.0],[0.0,0.0,2.0]]"
        assert q(db, "SELECT gx_dtype(gx_import(NULL, ?))", path) == stored
    assert "is dense: .npy" in error(db, "SELECT gx_export('[[1]]', ?)", str(tmp_path / "d.npz"))
    (tmp_path / "e.npz").write_bytes(b"PK\3\4" + bytes(100))
    assert "no directory" in error(db, "SELECT gx_import('M', ?)", str(tmp_path / "e.npz"))
    assert not (tmp_path / "d.npz").exists()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays(db, tmp_path, save):
    """numpy.savez: the only array, or the one that is named."""
    path, rng = str(tmp_path / "a.npz"), np.random.default_rng(5)
    arrays = {"a": rng.standard_normal((40, 30)), "größe": rng.standard_normal((30, 40)).T, "b.d": np.arange(5, dtype="f4"),
              "flags": rng.random((9, 70)) < 0.5, "z": np.array([[1 + 2j]]), "half": np.arange(6, dtype="f2").reshape(2, 3)}
    for name, array in arrays.items():
        save(path, **{name: array})
        wanted = array.reshape(len(array), -1)
        for options in ("{}", json.dumps({"member": name}), json.dumps({"member": name + ".npy"})):
            got = to_numpy(q(db, "SELECT gx_import(NULL, ?, ?)", path, options))
            assert np.array_equal(got, wanted) and got.dtype == wanted.dtype
    save(path, **arrays)
    for name, array in arrays.items():
        q(db, "SELECT gx_import('A', ?, ?)", path, json.dumps({"member": name, "replace": True, "dtype": "c128"}))
        assert np.array_equal(to_numpy(q(db, "SELECT gx_copy('A')")), array.reshape(len(array), -1))
    for options, message in [
        ("{}", """a.npz: has 6 arrays: '{"member":"..."}' says which: a, größe, b.d, flags, z, half"""),
        ('{"member":"A"}', "a.npz: has no array 'A', but a, größe, b.d, flags, z, half"),
        ('{"member":"a","sparse":true}', "a.npz: a.npy is dense: gx_sparse makes it sparse"),
        ('{"member":"z","dtype":"f64"}', "a.npz: z.npy: holds complex numbers, but dtype f64 is real"),
        ('{"member":5}', 'option "member" must be a name, not 5'),
    ]:
        assert error(db, "SELECT gx_import(NULL, ?, ?)", path, options) == "gx_import: " + message
    save(path, np.zeros((2, 2, 2)))
    assert error(db, "SELECT gx_import(NULL, ?)", path) == "gx_import: a.npz: arr_0.npy: has 3 dimensions: a matrix has 2"
    save(path)
    assert error(db, "SELECT gx_import(NULL, ?)", path) == "gx_import: a.npz: has no array in it"
    sp.save_npz(path, sp.eye(3, format="csr"))
    assert q(db, "SELECT gx_json(gx_import(NULL, ?, '{\"member\":\"data\"}'))", path) == "[[1.0],[1.0],[1.0]]"


def test_many_names_and_large_archives(db, tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, **{f"array_{k}": np.eye(2) for k in range(300)})
    message = error(db, "SELECT gx_import(NULL, ?)", str(path))
    assert message.startswith("gx_import: a.npz: has 300 arrays: ") and "array_0, array_1, array_2, " in message and message.endswith("...")
    assert q(db, "SELECT gx_sum(gx_import(NULL, ?, '{\"member\":\"array_299\"}'))", str(path)) == 2
    np.savez(path, a=np.eye(2))
    whole, end = path.read_bytes(), b"\xff" * 4
    entry = whole.index(b"PK\1\2")
    for at, what in [(len(whole) - 6, "is an archive"), (entry + 20, "has an array"), (entry + 24, "has an array"), (entry + 42, "has an array")]:
        path.write_bytes(whole[:at] + end + whole[at + 4:])
        assert error(db, "SELECT gx_import(NULL, ?)", str(path)) == (
            f"gx_import: a.npz: {what} of 2 GiB or more: numpy.save() writes an array to a .npy file")


def test_half_precision(db, tmp_path):
    path = str(tmp_path / "s.npz")
    np.savez(path, format=b"csr", shape=[1, 3], data=np.array([0.5, -2], "f2"), indices=[0, 2], indptr=[0, 2])
    assert q(db, "SELECT gx_json(gx_dense(gx_import(NULL, ?)))", path) == "[[0.5,0.0,-2.0]]"


def test_damage(db, tmp_path):
    path = tmp_path / "s.npz"
    rng, seen = np.random.default_rng(4), set()

    def used():
        return q(db, "SELECT value FROM gx_stats WHERE name = 'memory_used'")

    sp.save_npz(path, random(rng, (9, 7), 0.4))
    q(db, "SELECT gx_import('S', ?)", str(path))
    before = used()
    for compressed in (True, False):
        sp.save_npz(path, random(rng, (9, 7), 0.4), compressed)
        whole = path.read_bytes()
        files = [whole[:k] for k in range(0, len(whole), 7)]
        for k in range(0, len(whole), 2):
            files.append(whole[:k] + bytes([whole[k] ^ (1 << int(rng.integers(0, 8)))]) + whole[k + 1:])
        for data in files:
            path.write_bytes(data)
            try:
                seen.add(q(db, "SELECT gx_import('S', ?, '{\"replace\":true}')", str(path)))
            except Exception as problem:
                assert str(problem).startswith("gx_import: s.npz"), problem
                seen.add("refused")
    assert seen == {"S", "refused"}
    assert used() == before
