"""gx.plot: pictures, by what is drawn; without matplotlib, what is said.

Plan:
1. each kind draws what the matrix is: a small one element by element, a large one by means, signs by a centred scale,
   complex ones by absolute values; sparse ones as dense ones; NaN and infinity; singular values and components against NumPy's; the picture as a file;
2. the pictures themselves against stored ones, pictures/*.png, by structure: the correlation of mean colours on a coarse
   grid, so that another matplotlib's fonts and line widths do not matter, but what is drawn, where, and its colours do;
   a picture of something else, or turned over, is not taken for it;
3. an unknown kind, an empty matrix, no matplotlib.
"""
import sys

import gx_sqlite as gx
import numpy as np
import pytest

from conftest import ROOT

RNG = np.random.default_rng(6)


@pytest.fixture(autouse=True)
def no_figures_are_left():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


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


@pytest.mark.parametrize("shape", [(1, 7), (60, 45), (1300, 700)])
def test_sparse(db, shape):
    """As the dense matrix, without making one."""
    pytest.importorskip("matplotlib")
    sparse = pytest.importorskip("scipy.sparse")
    a = sparse.random(*shape, 0.02, "csr", random_state=5)
    a.data -= 0.3
    given = (("A", a), ("Z", a * (1 - 2j)), ("N", a * 0), ("E", sparse.csr_matrix(shape)))
    for name, data in given if shape[0] < 1000 else given[:1]:
        gx.store(db, name, data)
        gx.store(db, "D", data.toarray(), replace=True)
        for kind in ("heat", "spy"):
            assert np.allclose(drawn(gx.plot(db, name, kind)), drawn(gx.plot(db, "D", kind)))


def test_what_is_no_number(db):
    """It does not choose the colours of the others."""
    pytest.importorskip("matplotlib")
    gx.store(db, "A", [[1, -3, np.nan], [np.inf, 2, -np.inf]])
    norm = gx.plot(db, "A").get_images()[0].norm
    assert (norm.vmin, norm.vmax) == (-3, 3)
    gx.store(db, "A", [[np.nan]], replace=True)
    assert np.isnan(drawn(gx.plot(db, "A"))).all()
    gx.store(db, "A", np.eye(3) * 1j, replace=True)
    with pytest.raises(ValueError, match="A is complex: its components are no places in a plane"):
        gx.plot(db, "A", "pca")


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


# The stored pictures are made by picture() of these.

def stored_matrices(db):
    """The same numbers for every NumPy: waves, a band of zeros and ones, decaying columns."""
    i, j = np.mgrid[0:60, 0:40]
    gx.store(db, "heat", np.sin(i / 7) * np.cos(j / 5) * (1 + i / 60))
    gx.store(db, "spy", ((i + 2 * j) % 7 == 0) & (abs(i - j) < 15))
    gx.store(db, "scree", np.cos(np.outer(np.arange(60), np.arange(12)) * 0.7) * 0.6 ** np.arange(12))
    t = np.linspace(0, 6, 300)
    gx.store(db, "pca", np.stack([5 * np.cos(t), 2 * np.sin(2 * t), 0.1 * np.cos(5 * t)], 1))


def picture(db, kind, path):
    axes = gx.plot(db, kind, kind)
    axes.figure.savefig(path, dpi=50)


def squares(path):
    """The picture's mean colours on a grid of 50 x 60 squares."""
    from matplotlib import image
    pixels = image.imread(path)[:, :, :3]
    m, n = 50, 60
    rows, columns = (np.linspace(0, size, count + 1).astype(int) for size, count in zip(pixels.shape, (m, n)))
    sums = np.add.reduceat(np.add.reduceat(pixels.astype(float), rows[:-1], 0), columns[:-1], 1)
    return sums / (np.diff(rows)[:, None, None] * np.diff(columns)[None, :, None])


def difference(a, b):
    """1 minus the correlation of the two, all colours together; shifts of a square to any side are forgiven."""
    def correlation(x, y):
        x, y = x - x.mean(), y - y.mean()
        return (x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum())
    inner = b[1:-1, 1:-1]
    return 1 - max(correlation(a[1 + p:a.shape[0] - 1 + p, 1 + q:a.shape[1] - 1 + q], inner)
                   for p in (-1, 0, 1) for q in (-1, 0, 1))


def test_pictures(db, tmp_path):
    pytest.importorskip("matplotlib")
    stored_matrices(db)
    drawn_now, kept = {}, {}
    for kind in gx._plot.KINDS:
        picture(db, kind, str(tmp_path / "now.png"))
        drawn_now[kind] = squares(str(tmp_path / "now.png"))
        kept[kind] = squares(str(ROOT / f"tests/python/pictures/{kind}.png"))
    for kind, grid in drawn_now.items():
        assert difference(grid, kept[kind]) < 0.1, kind
        others = [difference(grid, other) for name, other in kept.items() if name != kind]
        assert min(others) > 0.2, kind
    assert difference(drawn_now["heat"][::-1], kept["heat"]) > 0.2 and difference(drawn_now["pca"][:, ::-1], kept["pca"]) > 0.2


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
