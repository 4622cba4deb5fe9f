"""Shared by the tests of Krylov methods: matrices in, eigenpairs out."""
import json

import numpy as np

from conftest import from_numpy, to_numpy

NUMPY = {"f64": np.float64, "f32": np.float32, "c128": np.complex128, "c64": np.complex64}


def configure(db, **settings):
    for key, value in settings.items():
        db.execute("SELECT gx_config(?, ?)", (key, value))


def store(db, name, x):
    db.execute("SELECT gx_store(?, ?, '{\"replace\":true}')", (name, from_numpy(x)))


def eig(db, name="A", **options):
    """Values, residuals, vectors as columns."""
    options = {"method": "krylov", **options}
    rows = db.execute("SELECT value, imag, residual, vector FROM gx_eig(?, ?)", (name, json.dumps(options))).fetchall()
    values = np.array([r[0] + 1j * r[1] for r in rows])
    vectors = np.hstack([to_numpy(r[3]) for r in rows]) if rows else None
    return values, np.array([r[2] for r in rows]), vectors


def matrix(rng, n, dtype, is_hermitian):
    x = rng.standard_normal((n, n))
    if dtype.startswith("c"):
        x = x + 1j * rng.standard_normal((n, n))
    return ((x + x.conj().T) / 2 if is_hermitian else x).astype(NUMPY[dtype])


def nearest_distances(values, want):
    """Of each value to what it stands for, one to one, in the order given."""
    left = list(want)
    return np.array([abs(left.pop(int(np.argmin([abs(v - w) for w in left]))) - v) for v in values])
