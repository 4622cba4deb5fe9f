"""gx.plot: pictures, by what is drawn; without matplotlib, what is said.

Plan:
1. each kind draws what the matrix is: a small one element by element, a large one by means, signs by a centred scale,
   complex ones by absolute values; singular values and components against NumPy's; the picture as a file;
2. an unknown kind, an empty matrix, no matplotlib.
"""
import sys

import gx_sqlite as gx
import numpy as np
import pytest

RNG = np.random.default_rng(6)


def drawn(axes):
    return np.asarray(axes.get_images()[0].get_array())


def test_heat_and_spy(db):
    pytest.importorskip("matplotlib")
    a = RNG.random((40, 30)) + 1
    a[a > 1.8] = 0
    gx.store(db, "A", a)
    gx.store(db, "Z", a * (1 + 1j))
    gx.store(db, "S", a - 1)
    axes = gx.plot(db, "A")
    assert np.allclose(drawn(axes), a) and axes.get_title() == "A, 40x30"
    assert np.array_equal(drawn(gx.plot(db, "A", "spy")), a != 0)
    assert np.allclose(drawn(gx.plot(db, "Z")), np.abs(a * (1 + 1j)))
    assert gx.plot(db, "S").get_images()[0].norm.vmin == -gx.plot(db, "S").get_images()[0].norm.vmax
    big = RNG.random((2048, 1024))
    gx.store(db, "B", big)
    assert np.allclose(drawn(gx.plot(db, "B")), big.reshape(512, 4, 512, 2).mean((1, 3)))


def test_scree_pca_and_files(db, tmp_path):
    pytest.importorskip("matplotlib")
    a = RNG.standard_normal((200, 8)) * np.arange(1, 9)
    gx.store(db, "A", a)
    axes = gx.plot(db, "A", "scree", k=5, path=str(tmp_path / "scree.png"))
    assert np.allclose(axes.get_lines()[0].get_ydata(), np.linalg.svd(a, compute_uv=False)[:5])
    assert (tmp_path / "scree.png").read_bytes()[:4] == b"\x89PNG"
    points = np.asarray(gx.plot(db, "A", "pca").collections[0].get_offsets())
    centred = a - a.mean(0)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    assert np.allclose(np.abs(points), np.abs(u[:, :2] * s[:2]))


def test_refusals(db, monkeypatch):
    gx.store(db, "A", np.zeros((0, 3)))
    with pytest.raises(ValueError, match=r"kind 'pie' is not known \(heat, spy, scree, pca\)"):
        gx.plot(db, "A", "pie")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="matplotlib is not installed"):
        gx.plot(db, "A")
    monkeypatch.undo()
    pytest.importorskip("matplotlib")
    with pytest.raises(ValueError, match="A is 0x3: there is nothing to draw"):
        gx.plot(db, "A")
