"""The sign of eigenvectors and singular vectors where several components are the largest: docs/reference/spectrum.md.

Plan:
  1  Matrices whose vectors have many components of one magnitude, [[2,1],[1,2]], circulants, Hadamard: the first one is
     real and positive, and the vectors are the closed form's, whatever the dtype, the method, the backend.
  2  A tall Hadamard matrix, whose vectors are streamed in pieces: the first of the first piece decides.
"""
import json

import numpy as np
import pytest
import scipy.linalg

from conftest import from_numpy, q, to_numpy

NUMPY = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}
CLOSE = {"f64": 1e-12, "c128": 1e-12, "f32": 1e-4, "c64": 1e-4}

HADAMARD = scipy.linalg.hadamard(8) / np.sqrt(8)
SHIFT = np.roll(np.eye(6), 1, axis=0)
SYMMETRIC = {  # with simple eigenvalues
    "2x2": np.array([[2.0, 1.0], [1.0, 2.0]]),
    "negative": np.array([[-2.0, 1.0], [1.0, -2.0]]),
    "hadamard": HADAMARD @ np.diag([9.0, 7, 5, 3, -2, -4, -6, -8]) @ HADAMARD,
}


def first_is_positive(x):
    """A column's first of those of almost the largest magnitude, made positive."""
    size = np.abs(x)
    first = x[np.flatnonzero(size >= size.max() * (1 - 2.0**-10))[0]]
    return x * (first.conj() / abs(first))


@pytest.fixture(params=["cpu", "reference"])
def either(db, request):
    q(db, "SELECT gx_config('backend', ?)", request.param)
    return db


def vectors(db, sql, a, options):
    return [np.hstack([to_numpy(x) for x in column])
            for column in zip(*db.execute(sql, (from_numpy(a), json.dumps(options))).fetchall())]


@pytest.mark.parametrize("method", ["dense", "krylov"])
@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric(either, name, dtype, method):
    a = SYMMETRIC[name]
    values, z = np.linalg.eigh(a)
    order = np.argsort(-np.abs(values))
    k = len(a) if len(a) == 2 else 4
    want = np.stack([first_is_positive(np.round(z[:, j], 12)) for j in order[:k]], axis=1)
    assert (want[0] > 0).all()
    options = {"method": method, "k": k, "which": "LM"}
    got, = vectors(either, "SELECT vector FROM gx_eig(?, ?)", a.astype(NUMPY[dtype]), options)
    assert np.allclose(got, want, atol=CLOSE[dtype])
    u, v = vectors(either, "SELECT u, v FROM gx_svd(?, ?)", a.astype(NUMPY[dtype]), {"method": method, "k": k})
    assert np.allclose(u, want, atol=CLOSE[dtype])
    assert np.allclose(v, want * np.sign(values[order[:k]]), atol=CLOSE[dtype])


@pytest.mark.parametrize("method", ["dense", "krylov"])
@pytest.mark.parametrize("dtype", NUMPY)
def test_circulant(either, dtype, method):
    """Eigenvectors of any circulant are the columns of the Fourier matrix: all components tie."""
    a = sum(c * np.linalg.matrix_power(SHIFT, p) for p, c in enumerate([4.0, 2.0, 1.0, 0.5, 0.25, 0.125]))
    fourier = np.fft.fft(np.eye(6)) / np.sqrt(6)  # first row 1 / sqrt(6): positive
    options = {"method": method, "k": 3, "which": "LM"}
    sql = "SELECT value, imag, vector FROM gx_eig(?, ?)"
    rows = either.execute(sql, (from_numpy(a.astype(NUMPY[dtype])), json.dumps(options))).fetchall()
    assert len(rows) == 3
    for re, im, x in rows:
        x = to_numpy(x)[:, 0]
        j = np.argmax(np.abs(fourier.conj().T @ x))
        assert np.allclose(a @ x, (re + 1j * im) * x, atol=20 * CLOSE[dtype])
        assert np.allclose(x, fourier[:, j], atol=CLOSE[dtype])


@pytest.mark.parametrize("dtype", NUMPY)
def test_streamed(filedb, dtype):
    m, n = 16384, 16
    rows = np.arange(m)[:, None]
    parity = sum((rows >> bit & np.arange(n) >> bit & 1) for bit in range(4)) % 2
    u = (1.0 - 2 * parity) / np.sqrt(m)
    u = np.where(rows < 1, u, u * (1 + 1e-6))  # the first is not quite the largest
    sigma = np.arange(2.0 * n, n, -1)
    filedb.execute("PRAGMA synchronous=off")
    q(filedb, "SELECT gx_config('tile_bytes', 32768)")
    q(filedb, "SELECT gx_store('A', ?)", from_numpy((-u * sigma).astype(NUMPY[dtype])))
    q(filedb, "SELECT gx_config('memory_limit', '1MiB')")
    q(filedb, "SELECT gx_svd('A', 's', 'U', 'Vt')")
    q(filedb, "SELECT gx_config('memory_limit', '64MiB')")
    got = to_numpy(q(filedb, "SELECT gx_copy('U')"))
    assert (got[0].real > 0).all()
    near = max(CLOSE[dtype], 1e-5)  # u's columns are orthogonal to 1e-6
    assert np.allclose(got, u, atol=near / np.sqrt(m))
    vt = to_numpy(q(filedb, "SELECT gx_copy('Vt')"))
    assert np.allclose(vt, -np.eye(n), atol=near)
