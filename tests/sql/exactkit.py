"""What the tests of exact arithmetic share: whole numbers as values, and edges of the field of 2^31 - 1."""
import json

import numpy as np

from conftest import q


P = 2**31 - 1
PRIMES = [2, 3, 5, 7, 101, 65521, 1000003, 998244353, 2147483629, P]
EDGES = [0, 1, 2, P - 1, P - 2, 2**30, 2**30 - 1, 2**16, 2**15 + 1]


def matrix(db, a, dtype="i64"):
    """A value of whole numbers."""
    a = np.atleast_2d(np.asarray(a))
    if dtype == "m31":
        return q(db, "SELECT gx_cast(?, 'm31')", matrix(db, a))
    return q(db, "SELECT gx_from_bytes(?, 'i64', ?)", a.astype("<i8").tobytes(), max(1, a.shape[1])) if a.size \
        else q(db, "SELECT gx_cast(gx_zeros(?, ?), 'i64')", *a.shape)


def ints(db, sql, *params):
    """The result as an array of Python's integers."""
    return np.array(json.loads(q(db, f"SELECT gx_json(gx_cast({sql}, 'i64'))", *params)), dtype=object)


def edged(rng, m, n):
    a = rng.integers(0, P, (m, n)).astype(object)
    places = rng.random((m, n)) < 0.3
    a[places] = rng.choice(EDGES, places.sum())
    return a


def put(db, name, a):
    q(db, "SELECT gx_cast(?, 'm31', ?, '{\"replace\":true}')", matrix(db, a), name)
