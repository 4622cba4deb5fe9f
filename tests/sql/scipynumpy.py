"""numpy.linalg by gx, for scipykit.py."""
import warnings

import numpy as np

from conftest import from_numpy, to_numpy
from scipybridge import LinAlgError, flat, gx, number_type, originals, sql, stacked, taken


def np_solve(a, b):
    a, _ = taken(a)
    b, wrap = taken(b)
    dtype = number_type(a, b)
    is_vector = b.ndim == a.ndim - 1
    is_square = a.ndim >= 2 and a.shape[-1] == a.shape[-2]
    if is_square and b.ndim >= 1 and b.shape[-1 if is_vector else -2] != a.shape[-1]:
        raise ValueError("solve: mismatch in its core dimension")

    def one(x, y):
        y2 = y[:, None] if is_vector else y
        got = gx("solve(?1, ?2)", x.astype(dtype), y2.astype(dtype)) if x.size and y2.size else np.empty((x.shape[1], y2.shape[1]), dtype)
        return flat(got) if is_vector else got

    return wrap(stacked(one, a, b, vectors=(1,) if is_vector else ()).astype(dtype, copy=False))


def np_inv(a):
    a, wrap = taken(a)
    dtype = number_type(a)
    return wrap(stacked(lambda x: gx("inverse(?1)", x.astype(dtype)) if x.size else x.astype(dtype), a).astype(dtype, copy=False))


def finite(a):
    if not np.isfinite(a).all():
        raise LinAlgError("Array must not contain infs or NaNs")


def np_eigvals(a):
    a, _ = taken(a)
    dtype = number_type(a)
    finite(a)
    wide = np.result_type(dtype, np.complex64)
    w = stacked(lambda x: flat(gx("eigvals(?1)", x.astype(dtype))) if x.size else np.empty(0, wide), a)
    if dtype.kind != "c" and (w.imag == 0).all():
        return w.real.astype(dtype)
    return w.astype(wide)


def np_eig(a):
    a, wrap = taken(a)
    dtype = number_type(a)
    finite(a)
    wide = np.result_type(dtype, np.complex64)

    def one(x):
        if not x.size:
            return np.empty(0, wide), np.empty((0, 0), wide)
        w, v = gx("eig(?1)", x.astype(dtype), results=2)
        return flat(w), v

    w, v = stacked(one, a)
    if dtype.kind != "c" and (w.imag == 0).all():
        w, v = w.real, v.real
        wide = dtype
    return w.astype(wide), wrap(v.astype(wide))


def half(x, uplo):
    """The Hermitian matrix of which x has a triangle."""
    low = np.tril(x, -1) if uplo == "L" else np.triu(x, 1).conj().T
    return low + low.conj().T + np.diag(np.diag(x).real)


def uplo_of(text):
    if text.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return text.upper()


def np_eigh(a, UPLO="L"):
    uplo = uplo_of(UPLO)
    a, wrap = taken(a)
    dtype = number_type(a)

    def one(x):
        if not x.size:
            return np.empty(0, dtype), np.empty((0, 0), dtype)
        w, v = gx("eigh(?1)", half(x.astype(dtype), uplo), results=2)
        return flat(w), v

    w, v = stacked(one, a)
    return w.real.astype(dtype.char.lower()), wrap(v.astype(dtype, copy=False))


def np_eigvalsh(a, UPLO="L"):
    uplo = uplo_of(UPLO)
    a, _ = taken(a)
    dtype = number_type(a)
    w = stacked(lambda x: flat(gx("eigvalsh(?1)", half(x.astype(dtype), uplo))) if x.size else np.empty(0), a)
    return w.real.astype(dtype.char.lower())


def svd_of(x, full, dtype):
    m, n = x.shape
    k = min(m, n)
    real = dtype.char.lower()
    if k == 0:
        return np.eye(m, m if full else 0, dtype=dtype), np.empty(0, real), np.eye(n if full else 0, n, dtype=dtype)
    u, s, vt = gx("svd(?1)", x.astype(dtype), results=3)
    if full and m > k:
        u = completed(u)
    if full and n > k:
        vt = completed(vt.conj().T).conj().T
    return u.astype(dtype, copy=False), flat(s).real.astype(real, copy=False), vt.astype(dtype, copy=False)


def completed(u):
    """Orthonormal columns and, behind them, those of their complement."""
    rest = gx("svd(eye(rows(?1)) - ?1 @ ?1.H)", u, results=3)[0]
    return np.hstack([u, rest[:, :len(u) - u.shape[1]]])


def np_svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    a, wrap = taken(a)
    dtype = number_type(a)
    if not compute_uv:
        real = dtype.char.lower()
        return stacked(lambda x: flat(gx("svdvals(?1)", half(x.astype(dtype), "L") if hermitian else x.astype(dtype))).real.astype(real) if x.size else np.empty(0, real),
                       a, square=False)
    u, s, vt = stacked(lambda x: svd_of(half(x, "L") if hermitian else x, full_matrices, dtype), a, square=False)
    return wrap(u), s, wrap(vt)


def np_det(a):
    a, _ = taken(a)
    dtype = number_type(a)
    return stacked(lambda x: gx("det(?1)", x.astype(dtype))[0, 0] if x.size else 1.0, a).astype(dtype)[()]


def np_slogdet(a):
    a, _ = taken(a)
    dtype = number_type(a)

    def one(x):
        if not x.size:
            return np.asarray(1, dtype), np.asarray(0, dtype.char.lower())
        sign, log = gx("slogdet(?1)", x.astype(dtype), results=2)
        return np.asarray(sign[0, 0], dtype), np.asarray(log[0, 0].real, dtype.char.lower())

    sign, log = stacked(one, a)
    return sign.astype(dtype)[()], log.astype(dtype.char.lower())[()]


def pinv_of(x, rcond):
    return to_numpy(sql("SELECT gx_pinv(?, json_object('rcond', ?))", from_numpy(x), rcond))


def np_pinv(a, rcond=1e-15, hermitian=False):
    a, wrap = taken(a)
    dtype = number_type(a)
    rcond = np.broadcast_to(np.asarray(rcond), a.shape[:-2])

    def one(x, r):
        x = half(x, "L") if hermitian else x
        if not x.size:
            return np.empty(x.shape[::-1], dtype)
        return pinv_of(x.astype(dtype), float(np.squeeze(r)))

    return wrap(stacked(one, a, rcond[..., None, None], square=False).astype(dtype, copy=False))


def np_matrix_rank(A, tol=None, hermitian=False):
    A = np.asarray(A)
    if A.ndim < 2:
        return int(not (A == 0).all())
    s = np_svd(A, compute_uv=False, hermitian=hermitian)
    tol = s.max(axis=-1, keepdims=True) * max(A.shape[-2:]) * np.finfo(s.dtype).eps if tol is None else np.asarray(tol)[..., None]
    return np.count_nonzero(s > tol, axis=-1)


def np_cond(x, p=None):
    x = np.asarray(x)
    if 0 in x.shape[-2:] or x.size == 0 and x.ndim < 2:
        raise LinAlgError("cond is not defined on empty arrays")
    dtype = number_type(x)
    if p in (None, 2, -2):
        s = np_svd(x, compute_uv=False)
        with np.errstate(all="ignore"):
            r = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    else:
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise LinAlgError("Last 2 dimensions of the array must be square")

        def one(a):
            try:
                return np_norm(a, p) * np_norm(np_inv(a), p)
            except LinAlgError:
                return np.array(np.inf if np.isfinite(a).all() else np.nan)

        r = stacked(one, x.astype(dtype)).astype(dtype.char.lower())
    r = np.asarray(r)
    nans = np.isnan(r) & ~np.isnan(x).any(axis=(-2, -1))
    r = np.where(nans, np.inf, r).astype(dtype.char.lower())
    return r[()]


def np_lstsq(a, b, rcond="warn"):
    a, _ = taken(a)
    b, wrap = taken(b)
    is_vector = b.ndim == 1
    b2 = b[:, None] if is_vector else b
    if a.ndim != 2 or b2.ndim != 2:
        raise LinAlgError("2-dimensional array given. Array must be two-dimensional")
    m, n = a.shape
    if b2.shape[0] != m:
        raise LinAlgError("Incompatible dimensions")
    dtype = number_type(a, b)
    real = dtype.char.lower()
    if rcond == "warn":
        warnings.warn("`rcond` parameter will change", FutureWarning, stacklevel=2)
        rcond = -1
    eps = np.finfo(dtype).eps
    rcond = eps * max(m, n) if rcond is None else eps if rcond < 0 else rcond
    s = np_svd(a.astype(dtype), compute_uv=False)
    rank = int((s > rcond * s.max(initial=0)).sum())
    if m and n and b2.shape[1]:
        is_full = rank == n <= m
        x = gx("lstsq(?1, ?2)", a.astype(dtype), b2.astype(dtype)) if is_full else gx("?1 @ ?2", pinv_of(a.astype(dtype), float(rcond)), b2.astype(dtype))
    else:
        x = np.zeros((n, b2.shape[1]), dtype)
    if rank == n and m > n:
        e = b2 - a @ x
        resids = (np.abs(e) ** 2).sum(axis=0).astype(real)
    else:
        resids = np.empty(0, real)
    x = x.astype(dtype, copy=False)
    return wrap(x[:, 0] if is_vector else x), wrap(resids) if not is_vector else resids, rank, s


def np_cholesky(a):
    a, wrap = taken(a)
    dtype = number_type(a)
    return wrap(stacked(lambda x: gx("cholesky(?1)", half(x.astype(dtype), "L")) if x.size else x.astype(dtype), a).astype(dtype, copy=False))


def qr_of(x, full, dtype):
    m, n = x.shape
    k = m if full else min(m, n)
    if 0 in x.shape:
        return np.eye(m, k, dtype=dtype), np.zeros((k, n), dtype)
    if full and m > n:
        q, r = gx("qr(hstack(?1, eye(rows(?1))))", x.astype(dtype), results=2)
        return q[:, :m], np.vstack([r[:n, :n], np.zeros((m - n, n), dtype)])
    return tuple(gx("qr(?1)", x.astype(dtype), results=2))


def np_qr(a, mode="reduced"):
    if mode not in ("reduced", "complete", "r"):
        return originals["numpy.linalg", "qr"](a, mode)
    a, wrap = taken(a)
    dtype = number_type(a)
    if mode == "r":
        return wrap(stacked(lambda x: qr_of(x, False, dtype)[1], a, square=False))
    q, r = stacked(lambda x: qr_of(x, mode == "complete", dtype), a, square=False)
    return wrap(q.astype(dtype, copy=False)), wrap(r.astype(dtype, copy=False))


def np_matrix_power(a, n):
    a = np.asanyarray(a)
    if a.dtype == object or a.dtype.kind in "biu" and n >= 0:
        return originals["numpy.linalg", "matrix_power"](a, n)  # whole numbers and objects stay what they are
    plain, wrap = taken(a)
    if not isinstance(n, (int, np.integer)):
        raise TypeError("exponent must be an integer")
    dtype = number_type(plain)
    return wrap(stacked(lambda x: gx("powm(?1, ?2)", x.astype(dtype), int(n)) if x.size else x, plain).astype(dtype, copy=False))


def np_norm(x, ord=None, axis=None, keepdims=False):
    x = np.asarray(x)
    if x.dtype.char not in "fdFD" and x.dtype.kind not in "biu":
        return originals["numpy.linalg", "norm"](x, ord, axis, keepdims)
    kinds = {None: "'fro'", "fro": "'fro'", 1: "1", 2: "2", np.inf: "inf", "nuc": "'nuc'"}
    is_matrix = x.ndim == 2 and axis is None and not keepdims and (ord in kinds if not isinstance(ord, float) or ord == np.inf else False)
    is_vector = axis is None and not keepdims and x.ndim >= 1 and (ord is None or x.ndim == 1 and ord == 2)
    if not x.size or not (is_matrix or is_vector) or isinstance(ord, str) and x.ndim != 2:
        return originals["numpy.linalg", "norm"](x, ord, axis, keepdims)  # a sum of powers along an axis
    dtype = number_type(x)
    value = gx(f"norm(?1, {kinds[ord] if is_matrix else chr(39) + 'fro' + chr(39)})", (x if is_matrix else x.reshape(-1, 1)).astype(dtype))[0, 0]
    return np.asarray(value.real, dtype.char.lower())[()]


def np_multi_dot(arrays, *, out=None):
    n = len(arrays)
    if n < 2 or any(np.ndim(a) not in (1, 2) for a in arrays) or any(np.ndim(a) == 1 for a in arrays[1:-1]):
        return originals["numpy.linalg", "multi_dot"](arrays, out=out)
    shapes = [np.ndim(arrays[0]) == 1, np.ndim(arrays[-1]) == 1]
    all2 = [np.atleast_2d(a) for a in arrays[:-1]] + [np.asarray(arrays[-1]).reshape(-1, 1) if shapes[1] else np.asarray(arrays[-1])]
    got = gx(" @ ".join(f"?{k + 1}" for k in range(n)), *all2)
    got = got[0] if shapes[0] else got
    got = got[..., 0] if shapes[1] else got
    if out is not None:
        out[...] = got
        return out
    return got[()] if got.ndim == 0 else got


NUMPY_LINALG = {"solve": np_solve, "inv": np_inv, "eig": np_eig, "eigvals": np_eigvals, "eigh": np_eigh, "eigvalsh": np_eigvalsh, "svd": np_svd, "det": np_det,
                "slogdet": np_slogdet, "pinv": np_pinv, "matrix_rank": np_matrix_rank, "cond": np_cond, "lstsq": np_lstsq, "cholesky": np_cholesky, "qr": np_qr,
                "matrix_power": np_matrix_power, "norm": np_norm, "multi_dot": np_multi_dot}
