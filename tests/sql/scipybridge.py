"""What NumPy's and SciPy's functions by gx share (scipykit.py): matrices there and back, stacks, the libraries' own functions."""
import functools
import itertools
import json
import sqlite3

import numpy as np

from conftest import from_numpy, gx_connect, to_numpy

originals = {}  # (module, name): the library's own function
LinAlgError = np.linalg.LinAlgError
calls = [0]  # of gx


@functools.cache
def database():
    return gx_connect()


# ---- matrices there and back -----------------------------------------------------------------------------------------

def number_type(*arrays):
    """What the libraries compute in: float32 and complex64 stay, whole numbers and halves become doubles."""
    dtype = np.result_type(*(np.asarray(a).dtype for a in arrays))
    if dtype.kind in "biu":
        return np.dtype("f8")
    if dtype.char not in "fdFD":
        raise TypeError(f"array type {dtype.name} is unsupported in linalg")
    return dtype.newbyteorder("=")


def gx(program, *arrays, results=1):
    """The results of a program, arrays of two dimensions; numbers as 1 x 1.  What is complex of a real matrix is asked for as such."""
    try:
        return gx_once(program, *arrays, results=results)
    except sqlite3.OperationalError as problem:
        if "of this real matrix is complex" not in str(problem):
            raise
        return gx_once(program, *(np.asarray(a) + 0j if np.ndim(a) else a for a in arrays), results=results)


def gx_once(program, *arrays, results=1):
    calls[0] += 1
    db = database()
    values = [a if isinstance(a, (int, float)) else from_numpy(np.asarray(a)) for a in arrays]
    marks = ", ?" * len(values)
    try:
        if results == 1:
            value = db.execute(f"SELECT gx_eval(?{marks})", (program, *values)).fetchone()[0]
            return to_numpy(value) if isinstance(value, bytes) else np.array([[value]])
        stores = "; ".join(f"r{k} := v{k}" for k in range(results))
        names = ", ".join(f"v{k}" for k in range(results))
        db.execute(f"SELECT gx_eval(?{marks}, '{{\"replace\":true}}')", (f"{names} = {program}; {stores}", *values)).fetchone()
        return [to_numpy(db.execute("SELECT gx_copy(?)", (f"r{k}",)).fetchone()[0]) for k in range(results)]
    except Exception as problem:
        if any(word in str(problem) for word in ("singular", "positive definite", "converge", "NaN", "Inf", "dependent", "no inverse")):
            raise LinAlgError(str(problem)) from problem
        raise


def parts(function, *arrays, **options):
    """{part: matrix} of a function that is a table of them."""
    calls[0] += 1
    marks = "?, " * len(arrays)
    rows = database().execute(f"SELECT part, value FROM {function}({marks}?)", (*map(from_numpy, arrays), json.dumps(options)))
    return {part: to_numpy(value) for part, value in rows}


def sql(statement, *arguments):
    calls[0] += 1
    try:
        return database().execute(statement, arguments).fetchone()[0]
    except Exception as problem:
        if any(word in str(problem) for word in ("singular", "positive definite", "converge")):
            raise LinAlgError(str(problem)) from problem
        raise


def checked(a, square=False, finite=True):
    """A matrix of two dimensions for scipy.linalg."""
    a = np.asarray_chkfinite(a) if finite else np.asarray(a)
    if a.ndim != 2 or (square and a.shape[0] != a.shape[1]):
        raise ValueError("expected square matrix" if square else "expected matrix")
    return a


def taken(a):
    """An array for numpy.linalg, and what puts a result into its class."""
    wrap = getattr(a, "__array_wrap__", None) if not isinstance(a, np.ndarray) or type(a) is not np.ndarray else None
    wrap = wrap or (lambda x: x)
    return np.asarray(a), wrap


def stacked(of, *arrays, square=True, vectors=()):
    """of() of each matrix of a stack, results put together."""
    matrices = [np.asarray(a) for a in arrays]
    cores = [1 if k in vectors else 2 for k in range(len(matrices))]
    for a, core in zip(matrices, cores):
        if a.ndim < core:
            raise LinAlgError(f"{a.ndim}-dimensional array given. Array must be at least two-dimensional")
        if square and core == 2 and a is matrices[0] and a.shape[-1] != a.shape[-2]:
            raise LinAlgError("Last 2 dimensions of the array must be square")
    shape = np.broadcast_shapes(*(a.shape[:a.ndim - core] for a, core in zip(matrices, cores)))
    whole = [np.broadcast_to(a, shape + a.shape[a.ndim - core:]) for a, core in zip(matrices, cores)]
    if 0 in shape:  # what one would have been like
        one = of(*(np.ones(a.shape[len(shape):], a.dtype) if a.shape[-1:] != (0,) else np.ones(a.shape[len(shape):], a.dtype) for a in whole))
        empty = [np.empty(shape + np.shape(x), np.asarray(x).dtype) for x in (one if isinstance(one, tuple) else (one,))]
        return tuple(empty) if isinstance(one, tuple) else empty[0]
    got = [of(*(a[index] for a in whole)) for index in itertools.product(*map(range, shape))]
    if isinstance(got[0], tuple):
        return tuple(np.array([g[k] for g in got]).reshape(shape + np.shape(got[0][k])) for k in range(len(got[0])))
    return np.array(got).reshape(shape + np.shape(got[0]))


def flat(column):
    return column[:, 0]
