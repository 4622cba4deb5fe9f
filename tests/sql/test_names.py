"""docs/names.md: what NumPy's and SciPy's names are in gx.

Plan:
- each public function and class of the modules, as installed, has a line; a name that only a newer or an older version has is in
  NEWER or OLDER, and everything else that has a line is there;
- SQL names cited are registered and have an entry on the page that the link leads to; each program and statement runs on the operands
  that the page's head names, so its functions exist, and gives what the module gives wherever PEERS has the call;
- lines are in order, none twice; the counts that the head states are those of the tables.
"""
import inspect
import re
import warnings

import numpy as np
import pytest
import scipy.fft
import scipy.linalg
import scipy.sparse.csgraph
import scipy.sparse.linalg
import scipy.spatial.distance
from conftest import from_numpy, q, to_numpy
from test_docs import REFERENCE, ROOT, registered

PAGE = ROOT / "docs" / "names.md"
MODULES = {"numpy": np, "numpy.linalg": np.linalg, "numpy.fft": np.fft, "scipy.linalg": scipy.linalg, "scipy.fft": scipy.fft,
           "scipy.sparse.linalg": scipy.sparse.linalg, "scipy.sparse.csgraph": scipy.sparse.csgraph,
           "scipy.spatial.distance": scipy.spatial.distance}

# In __all__ of versions up to NumPy 2.4 and SciPy 1.17 that a Debian need not have yet; and names that they have given up since NumPy 1.24, SciPy 1.10.
NEWER = {
    "numpy": "abs acos acosh asin asinh astype atan atan2 atanh bitwise_count bitwise_invert bitwise_left_shift bitwise_right_shift concat cumulative_prod cumulative_sum "
             "isdtype matrix_transpose matvec max min permute_dims pow round test trapezoid unique_all unique_counts unique_inverse unique_values unstack vecdot vecmat",
    "numpy.linalg": "cross diagonal matmul matrix_norm matrix_transpose outer svdvals tensordot trace vecdot vector_norm",
    "scipy.fft": "prev_fast_len",
    "scipy.sparse.linalg": "LaplacianNd funm_multiply_krylov is_sptriangular matrix_power spbandwidth",
    "scipy.sparse.csgraph": "yen",
}
OLDER = {
    "numpy": "add_docstring add_newdoc add_newdoc_ufunc alltrue asfarray byte_bounds compare_chararrays cumproduct deprecate deprecate_with_doc disp fastCopyAndTranspose "
             "find_common_type geterrobj get_array_wrap in1d issctype issubclass_ issubsctype lookfor mat maximum_sctype msort obj2sctype product recfromcsv recfromtxt round_ "
             "safe_eval sctype2char set_numeric_ops set_string_function seterrobj sometrue source trapz who",
    "scipy.linalg": "kron tri tril triu",
    "scipy.spatial.distance": "kulczynski1 kulsinski sokalmichener",
}

# The call whose result a line's first program or statement gives: xp is NumPy; x, y, p, q and k have one dimension.
PEERS = {
    "numpy": {
        "allclose": 'np.allclose(A, B)',
        "append": 'np.append(A, B, 0)',
        "array_equal": 'np.array_equal(A, B)',
        "array_equiv": 'np.array_equiv(A, x)',
        "array_split": 'np.array_split(A, [2])[0]',
        "average": 'np.average(A, weights=B)',
        "bartlett": 'np.bartlett(5)',
        "bincount": 'np.bincount(k, minlength=4)',
        "blackman": 'np.blackman(5)',
        "broadcast_arrays": 'np.broadcast_arrays(A, x[:, None])[0] + x[:, None]',
        "broadcast_to": 'np.broadcast_to(x, (5, 5))',
        "choose": 'np.choose(np.minimum(k, 1)[:, None], [A, B])',
        "compress": 'np.compress(x > 0, A, 0)',
        "copysign": 'np.copysign(A, B)',
        "copyto": 'np.where(A > 0, A, B)',
        "count_nonzero": 'np.count_nonzero(A)',
        "deg2rad": 'np.deg2rad(A)',
        "degrees": 'np.degrees(A)',
        "delete": 'np.delete(A, 2, 0)',
        "digitize": 'np.digitize(y, np.sort(x))',
        "divmod": 'np.divmod(A, B)[0]',
        "einsum": "np.einsum('ij,kj->ik', A, B)",
        "empty_like": 'np.zeros_like(A)',
        "exp2": 'np.exp2(A)',
        "extract": 'np.extract(A > 0, A)',
        "fill_diagonal": 'A - np.diag(np.diag(A)) + 3 * np.eye(5)',
        "flatnonzero": 'np.flatnonzero(A)',
        "fliplr": 'np.fliplr(A)',
        "flipud": 'np.flipud(A)',
        "floor_divide": 'np.floor_divide(A, B)',
        "fmax": 'np.fmax(A, B)',
        "fmin": 'np.fmin(A, B)',
        "fmod": 'np.fmod(A, B)',
        "frexp": 'np.frexp(A)[0]',
        "full_like": 'np.full_like(A, 7)',
        "geomspace": 'np.geomspace(1, 1000, 4)',
        "gradient": 'np.gradient(x)',
        "hamming": 'np.hamming(5)',
        "hanning": 'np.hanning(5)',
        "heaviside": 'np.heaviside(A, B)',
        "hsplit": 'np.hsplit(A, [2])[0]',
        "in1d": 'np.isin(x, y)',
        "indices": 'np.indices((5, 5))[0]',
        "inner": 'np.inner(A, B)',
        "insert": 'np.insert(A, 2, y, 0)',
        "interp": 'np.interp(y, np.sort(x), p)',
        "intersect1d": 'np.intersect1d(x, y)',
        "isclose": 'np.isclose(A, B)',
        "iscomplex": 'np.iscomplex(Z)',
        "isin": 'np.isin(x, y)',
        "isneginf": 'np.isneginf(A)',
        "isposinf": 'np.isposinf(A)',
        "isreal": 'np.isreal(Z)',
        "ix_": 'A[np.ix_([0, 2], [1, 3])]',
        "ldexp": 'A * 2.0 ** B',
        "lexsort": 'np.lexsort((x, k))',
        "logaddexp": 'np.logaddexp(A, B)',
        "logaddexp2": 'np.logaddexp2(A, B)',
        "logspace": 'np.logspace(0, 2, 5)',
        "meshgrid": 'np.meshgrid(x, y)[0]',
        "modf": 'np.modf(A)[0]',
        "nan_to_num": 'np.nan_to_num(N)',
        "nanargmax": 'np.nanargmax(N, 0)',
        "nanargmin": 'np.nanargmin(N, 0)',
        "nancumprod": 'np.nancumprod(N, 0)',
        "nancumsum": 'np.nancumsum(N, 0)',
        "nanmax": 'np.nanmax(N, 0)',
        "nanmean": 'np.nanmean(N, 0)',
        "nanmedian": 'np.nanmedian(N)',
        "nanmin": 'np.nanmin(N, 0)',
        "nanpercentile": 'np.nanpercentile(N, 30)',
        "nanprod": 'np.nanprod(N, 0)',
        "nanquantile": 'np.nanquantile(N, 0.3)',
        "nanstd": 'np.nanstd(N, 0)',
        "nansum": 'np.nansum(N, 0)',
        "nanvar": 'np.nanvar(N, 0)',
        "ones_like": 'np.ones_like(A)',
        "pad": 'np.pad(A, ((1, 1), (2, 2)))',
        "percentile": 'np.percentile(A, 30)',
        "piecewise": 'np.piecewise(A, [A < 0, A > 1], [lambda v: -v, 1, lambda v: v])',
        "place": 'np.where(A > 0, 7, A)',
        "poly": 'np.poly(x)',
        "polyadd": 'np.polyadd(x, np.r_[x, y][:7])',
        "polyder": 'np.polyder(x)',
        "polydiv": 'np.polydiv(np.r_[x, y][:7], x)[0]',
        "polyfit": 'np.polyfit(x, y, 2)',
        "polyint": 'np.polyint(x)',
        "polysub": 'np.polysub(x, np.r_[x, y][:7])',
        "positive": '+A',
        "ptp": 'np.ptp(A, 0)',
        "putmask": 'np.where(A > 0, B, A)',
        "rad2deg": 'np.rad2deg(A)',
        "radians": 'np.radians(A)',
        "ravel_multi_index": 'np.ravel_multi_index((k, np.full(5, 2)), (4, 5))',
        "resize": 'np.resize(A, (6, 5))',
        "roots": 'np.sort_complex(np.roots(x))',
        "rot90": 'np.rot90(A)',
        "searchsorted": 'np.searchsorted(np.sort(x), y)',
        "select": 'np.select([A < 0, A > 1], [B, np.ones((5, 5))])',
        "setdiff1d": 'np.setdiff1d(x, y)',
        "setxor1d": 'np.setxor1d(x, y)',
        "signbit": 'np.signbit(A)',
        "sinc": 'np.sinc(A)',
        "size": 'np.size(A)',
        "split": 'np.split(A, [2])[0]',
        "take_along_axis": 'np.take_along_axis(A, np.argsort(A, 0), 0)',
        "tensordot": 'np.tensordot(A, B, 2)',
        "trapz": 'np.sum(np.diff(x) * (y[1:] + y[:-1])) / 2',
        "tri": 'np.tri(5)',
        "trim_zeros": 'np.trim_zeros(x)',
        "union1d": 'np.union1d(x, y)',
        "unique_values": 'np.unique(k)',
        "unravel_index": 'np.unravel_index(k, (2, 2))[0]',
        "unstack": 'A[0:1]',
        "unwrap": 'np.unwrap(3 * x)',
        "vdot": 'np.vdot(A, B)',
        "vecdot": 'np.sum(A * B, 1)',
        "vsplit": 'np.vsplit(A, [2])[0]',
        "zeros_like": 'np.zeros_like(A)',
    },
    "numpy.linalg": {
        "eigh": 'np.linalg.eigh(S)[0]',
        "eigvalsh": 'np.linalg.eigvalsh(S)',
        "multi_dot": 'np.linalg.multi_dot([A, B, S, x])',
        "slogdet": 'np.linalg.slogdet(A)[1]',
        "svdvals": 'np.linalg.svd(A, compute_uv=False)',
        "tensordot": 'np.tensordot(A, B, 1)',
        "vecdot": 'np.sum(A * B, 1)',
    },
    "scipy.linalg": {
        "bandwidth": '[sl.bandwidth(A)]',
        "block_diag": 'sl.block_diag(A, B)',
        "cdf2rdf": 'A',
        "cho_solve": 'sl.cho_solve(sl.cho_factor(S), x)',
        "cho_solve_banded": 'sl.solve(S, x)',
        "cholesky_banded": 'np.linalg.cholesky(4 * np.eye(5) + np.diag(p[:4], -1) / 9 * 1 + 0 * S)',
        "convolution_matrix": 'sl.convolution_matrix(x, 3)',
        "cossin": 'sl.qr(A)[0]',
        "dft": 'sl.dft(5)',
        "diagsvd": 'sl.diagsvd(x, 7, 5)',
        "eig_banded": 'np.sort(p)',
        "eigh_tridiagonal": 'sl.eigh_tridiagonal(p, x[1:])[0]',
        "eigvals_banded": 'sl.eigvals_banded([np.r_[0, x[1:]], p])',
        "eigvalsh": 'sl.eigvalsh(S)',
        "eigvalsh_tridiagonal": 'sl.eigvalsh_tridiagonal(p, x[1:])',
        "fiedler": 'sl.fiedler(x)',
        "fiedler_companion": 'sl.fiedler_companion(x)',
        "funm": 'sl.expm(A)',
        "helmert": 'sl.helmert(5)',
        "hilbert": 'sl.hilbert(5)',
        "invpascal": 'sl.invpascal(5)',
        "leslie": 'sl.leslie(p, p[1:])',
        "lu_solve": 'sl.lu_solve(sl.lu_factor(A), x)',
        "matmul_toeplitz": 'sl.matmul_toeplitz((x, y), p)',
        "matrix_balance": 'sl.matrix_balance(A)[0]',
        "orthogonal_procrustes": 'sl.orthogonal_procrustes(A, B)[0]',
        "qr_insert": 'abs(sl.qr(np.vstack([A, y]), mode="economic")[1])',
        "qr_update": 'A + np.outer(x, y)',
        "rq": 'A',
        "rsf2csf": 'A',
        "solve_toeplitz": 'sl.solve(sl.toeplitz(p, y), x)',
        "solveh_banded": 'sl.solveh_banded([np.r_[0, x[1:]], p + 9], y)',
        "svdvals": 'sl.svdvals(A)',
        "tri": 'np.tri(5)',
    },
    "scipy.fft": {
        "fht": 'sf.fht(x, 0.1, 0.5)',
        "fhtoffset": 'sf.fhtoffset(0.1, 0.5)',
        "hfft2": 'sf.hfft2(Z)',
        "hfftn": 'sf.hfftn(Z)',
        "ifht": 'sf.ifht(x, 0.1, 0.5)',
        "ihfft2": 'sf.ihfft2(A)',
        "ihfftn": 'sf.ihfftn(A)',
        "next_fast_len": 'sf.next_fast_len(1009, real=True)',
    },
    "scipy.sparse.linalg": {
        "expm_multiply": 'sl.expm(A) @ x',
        "funm_multiply_krylov": 'sl.expm(A) @ x',
    },
    "scipy.spatial.distance": {
        "braycurtis": 'sd.braycurtis(x, y)',
        "canberra": 'sd.canberra(x, y)',
        "chebyshev": 'sd.chebyshev(x, y)',
        "cityblock": 'sd.cityblock(x, y)',
        "correlation": 'sd.correlation(x, y)',
        "dice": 'sd.dice(x > 0, y > 0)',
        "directed_hausdorff": 'sd.directed_hausdorff(A, B)[0]',
        "euclidean": 'sd.euclidean(x, y)',
        "hamming": 'sd.hamming(k, p)',
        "jaccard": 'sd.jaccard(x > 0, y > 0)',
        "jensenshannon": 'sd.jensenshannon(p, q)',
        "kulczynski1": 'np.sum((x > 0) & (y > 0)) / np.sum((x > 0) != (y > 0))',
        "minkowski": 'sd.minkowski(x, y, 3)',
        "rogerstanimoto": 'sd.rogerstanimoto(x > 0, y > 0)',
        "russellrao": 'sd.russellrao(x > 0, y > 0)',
        "seuclidean": 'sd.seuclidean(x, y, p)',
        "sokalmichener": 'sd.rogerstanimoto(x > 0, y > 0)',
        "sokalsneath": 'sd.sokalsneath(x > 0, y > 0)',
        "sqeuclidean": 'sd.sqeuclidean(x, y)',
        "yule": 'sd.yule(x > 0, y > 0)',
    },
}


def public(name):
    """Functions, ufuncs and classes that a module offers; of numpy the functions alone: its classes are dtypes and arrays."""
    module = MODULES[name]
    words = getattr(module, "__all__", None) or dir(module)
    found = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names that are to go
        for word in words:
            thing = getattr(module, word, None)
            if callable(thing) and not word.startswith("_") and not (name == "numpy" and inspect.isclass(thing)):
                found.add(word)
    return found


def lines():
    """module: [(name, cell)], in the page's order."""
    found = {}
    for part in re.split(r"^(?=## )", PAGE.read_text(), flags=re.M)[1:]:
        heading, _, body = part.partition("\n")
        rows = re.findall(r"^\| (\S+) \| (.*) \|$", body, re.M)[1:]
        found[heading[3:]] = [(name, cell) for name, cell in rows]
    return found


def is_there(cell):
    return not cell.startswith(("no: ", "not there: "))


def programs():
    """(module, name, text) of every program and statement."""
    return [(module, name, text.replace("\\|", "|")) for module, rows in lines().items() for name, cell in rows
            for text in re.findall(r"`([^`]+)`", cell)]


def test_every_name_has_a_line():
    page = lines()
    assert set(page) == set(MODULES)
    for module, rows in page.items():
        names = [name for name, _ in rows]
        assert names == sorted(names, key=str.lower) and len(names) == len(set(names)), module
        there = public(module)
        assert there - set(names) == set(), f"{module}: no line in docs/names.md"
        others = set((NEWER.get(module, "") + " " + OLDER.get(module, "")).split())
        assert set(names) - there - others == set(), f"{module}: no version has these"
        assert others - set(names) == set()


def test_the_test_sees_what_is_missing(monkeypatch):
    monkeypatch.setattr(np.fft, "__all__", [*np.fft.__all__, "new"], raising=False)
    monkeypatch.setattr(np.fft, "new", lambda: 0, raising=False)
    with pytest.raises(AssertionError, match="no line"):
        test_every_name_has_a_line()


def test_counts():
    text = PAGE.read_text()
    every = [cell for rows in lines().values() for _, cell in rows]
    stated = re.search(r"Of (\d+) names (\d+) have one here", text)
    assert [int(word) for word in stated.groups()] == [len(every), sum(map(is_there, every))]
    for module, rows in lines().items():
        row = re.search(rf"^\| \[{re.escape(module)}\]\(#{module.replace('.', '')}\) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.M)
        assert [int(word) for word in row.groups()] == [
            len(rows), sum(is_there(cell) for _, cell in rows), sum(cell.startswith("not there: ") for _, cell in rows)], module


def test_cells(db):
    """A link to a registered name's own entry, a program, or why not, and nothing else."""
    known = registered(db)
    entries = {page.name: set(re.findall(r"\bgx(?:_\w+)?\b", " ".join(re.findall(r"^## (.*)", page.read_text(), re.M)))) for page in REFERENCE}
    for module, rows in lines().items():
        for name, cell in rows:
            links = re.findall(r"\[(gx_\w+)\]\(reference/([\w-]+\.md)\)", cell)
            assert all(link in known and link in entries[page] for link, page in links), (module, name)
            assert bool(links or "`" in cell) or not is_there(cell), (module, name)
            assert "gx_" not in re.sub(r"`[^`]+`|\[gx_\w+\]\([^)]+\)", "", cell), (module, name)


@pytest.fixture(scope="module")
def operands():
    rng = np.random.default_rng(5)
    A, B = rng.standard_normal((2, 5, 5))
    N = np.where(rng.random((5, 5)) < 0.2, np.nan, A)
    N[0] = A[0]
    Z = A + 1j * B
    x, y, p, other = rng.standard_normal(5), rng.standard_normal(5), rng.random(5) + 0.5, rng.random(5) + 0.5
    x[0], x[1], y[:2] = abs(x[0]), -abs(x[1]), 0.7
    return {"A": A, "B": B, "N": N, "Z": Z, "S": A @ A.T + 5 * np.eye(5), "x": x, "y": y, "p": p, "q": other, "k": np.array([1, 0, 2, 1, 3])}


@pytest.fixture
def stored(db, operands):
    for name, value in operands.items():
        column = value if value.ndim == 2 else value[:, None]
        q(db, f"SELECT gx_store('{name}', ?)", from_numpy(column if np.iscomplexobj(column) else column.astype(float)))
    db.execute("SELECT gx_sparse('A', 'sp'), gx_eigvals('A', 'w')").fetchall()
    return db


def value_of(db, text):
    """A program's value, or what a statement's rows have first, as an array."""
    if not text.startswith("SELECT"):
        value = q(db, "SELECT gx_eval(?)", text)
        return to_numpy(value) if isinstance(value, bytes) else np.asarray(value)
    rows = db.execute(text).fetchall()
    if len(rows) == 1 and isinstance(rows[0][0], bytes):
        return to_numpy(q(db, "SELECT gx_dense(?)", rows[0][0]))
    return np.array([row[0] for row in rows])


def test_programs(stored, operands):
    """Each runs; the first of a line that has a peer gives its result."""
    seen = set()
    space = {"np": np, "sl": scipy.linalg, "sf": scipy.fft, "sd": scipy.spatial.distance, **operands}
    for module, name, text in programs():
        if text == "[[1, 2], [3, 4]]":
            continue
        got = value_of(stored, text)
        call = PEERS.get(module, {}).get(name)
        if call is None or (module, name) in seen:
            continue
        seen.add((module, name))
        want = np.asarray(eval(call, space))  # the table above, not input
        if name == "roots":
            got = np.sort_complex(got[:, 0])
        if got.ndim == 2 and 1 in got.shape or want.ndim < 2:
            got, want = got.ravel(), want.ravel()
        assert got.shape == want.shape, (module, name, got.shape, want.shape)
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10, err_msg=f"{module}.{name}: {text}")
    assert seen == {(module, name) for module, calls in PEERS.items() for name in calls}
