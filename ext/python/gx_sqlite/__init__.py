"""gx from Python: matrices stored in SQLite, as NumPy arrays and as operands.

    import gx_sqlite as gx, numpy as np
    db = gx.connect("my.db")
    gx.store(db, "A", np.random.rand(1000, 50))
    gram = gx.fetch(db, db.execute("SELECT gx_matmul('A', 'A', '{\\"transa\\":true}')").fetchone()[0])
    A = gx.matrix(db, "A")
    A.shape, A[0:3, :], np.asarray(A.T @ A)

connect is sqlite3's with gx in it; every function takes a connection of sqlite3, apsw, pysqlite3 or SQLAlchemy.  Errors are those of that module, with gx's
texts.
"""
from ._arrays import fetch, store
from ._connect import NoExtensions, connect, library, load, progress
from ._matrix import Expression, Matrix, matrix
from ._plot import plot
from ._values import pack as value
from ._version import __version__

__all__ = ["Expression", "Matrix", "NoExtensions", "__version__", "connect", "fetch", "library", "load", "matrix", "plot",
           "progress", "store", "value"]
