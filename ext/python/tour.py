"""A tour in cells, for an editor that runs them one by one (# %%), or as a program: handwritten digits.

    python ext/python/tour.py [folder]      pictures go to the folder, where matplotlib is installed
"""
# %% A database with gx, and 1797 pictures of 8 x 8 points as a matrix
import pathlib
import sqlite3
import sys

import gx_sqlite as gx
import numpy as np

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
data = pathlib.Path(__file__).resolve().parents[2] / "sql/data/digits.csv.gz"
digits = np.loadtxt(data, delimiter=",")
db = sqlite3.connect(":memory:", isolation_level=None)
gx.load(db)
gx.store(db, "digits", digits[:, :64])
X = gx.matrix(db, "digits")
print(X)
print(X[0].reshape(8, 8).astype(int))

# %% Ten principal components: how much of the variance they hold
for component, ratio in db.execute("SELECT component, round(ratio, 3) FROM gx_pca('digits', 10)"):
    print(component, "#" * round(100 * ratio), ratio)

# %% Each picture by those ten numbers; each digit's mean; the nearest mean says which digit it is
db.execute("SELECT gx_pca('digits', 10, 'model'), gx_pca_project('digits', 'model', 'scores')").fetchall()
scores, truth = gx.fetch(db, "scores"), digits[:, 64].astype(int)
means = np.stack([scores[truth == digit].mean(axis=0) for digit in range(10)])
S = gx.matrix(db, "scores")
distance = (S * S) @ np.ones((10, 1)) - 2 * (S @ means.T) + (means ** 2).sum(axis=1)[None, :]
print("right:", (np.asarray(distance).argmin(axis=1) == truth).mean().round(3))

# %% The covariance as a product of expressions, beside gx's own
mean = np.asarray(X).mean(axis=0)[None, :]
C = ((X - mean).T @ (X - mean) / (len(X) - 1)).store("covariance")
print("difference:", (C - gx.fetch(db, db.execute("SELECT gx_cov('digits')").fetchone()[0])).norm())

# %% Pictures
try:
    for kind, name in (("heat", "covariance"), ("scree", "digits"), ("pca", "digits")):
        gx.plot(db, name, kind, path=str(folder / f"{name}_{kind}.png"))
except ImportError as problem:
    print(problem)
