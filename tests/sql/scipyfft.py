"""scipy.fft by gx, for scipykit.py."""
import numpy as np

from scipybridge import gx, originals


def single(got, a):
    """Of single precision, as a is: a matrix of one number comes as a number of SQL."""
    return got.astype(got.dtype.kind + str({"f": 4, "c": 8}[got.dtype.kind]), copy=False) if a.dtype.char in "fF" else got


def transform(name, takes_real=False):
    """Along one axis: the lines lie beside each other as columns."""
    def call(x, n=None, axis=-1, norm=None, overwrite_x=False, workers=None, *, plan=None):
        a = np.asarray(x)
        if plan is not None:
            raise NotImplementedError("Passing a precomputed plan is not yet supported by scipy.fft functions")
        a = a.astype("f8") if a.dtype.kind in "biu" else a
        if a.dtype.char not in "fdFD" or norm not in (None, "backward", "ortho", "forward") or a.ndim == 0:
            return originals["scipy.fft", name](x, n, axis, norm, overwrite_x, workers, plan=plan)
        if takes_real and a.dtype.kind == "c":
            raise TypeError("x must be a real sequence")
        lines = np.moveaxis(a, axis, 0)
        columns = lines.reshape(lines.shape[0], -1)
        n = {"irfft": 2 * (a.shape[axis] - 1), "hfft": 2 * (a.shape[axis] - 1)}.get(name, a.shape[axis]) if n is None else n
        if int(n) < 1:
            raise ValueError(f"Invalid number of data points ({n}) specified")
        if not columns.size:
            return originals["scipy.fft", name](x, n, axis, norm)
        got = gx(f"{name}(?1, {int(n)}, 0, '{norm or 'backward'}')", columns)
        return np.moveaxis(single(got, a).reshape(got.shape[:1] + lines.shape[1:]), 0, axis)
    call.__name__ = name
    return call


def cosines(name):
    def call(x, type=2, n=None, axis=-1, norm=None, overwrite_x=False, workers=None, orthogonalize=None):
        a = np.asarray(x)
        is_halved = orthogonalize is not None and bool(orthogonalize) != (norm == "ortho")
        if a.dtype.char not in "fd" or norm not in (None, "backward", "ortho", "forward") or is_halved or type not in (1, 2, 3, 4) or not a.size or a.ndim == 0:
            return originals["scipy.fft", name](x, type, n, axis, norm, overwrite_x, workers, orthogonalize)
        lines = np.moveaxis(a, axis, 0)
        columns = lines.reshape(lines.shape[0], -1)
        n = a.shape[axis] if n is None else int(n)
        if n < 1 or type == 1 and name in ("dct", "idct") and n < 2:
            return originals["scipy.fft", name](x, type, n, axis, norm)
        got = gx(f"{name}(?1, {type}, {n}, 0, '{norm or 'backward'}')", columns)
        return np.moveaxis(single(got, a).reshape(got.shape[:1] + lines.shape[1:]), 0, axis)
    call.__name__ = name
    return call


def several(name, one, first=None, last=None):
    """Along several axes, one by one; the last of rfftn is rfft, the last of irfftn irfft."""
    def call(x, s=None, axes=None if name.endswith("n") else (-2, -1), norm=None, overwrite_x=False, workers=None, *, plan=None):
        a = np.asarray(x)
        if plan is not None or norm not in (None, "backward", "ortho", "forward") or a.dtype.char in "gGO" or not a.size:
            return originals["scipy.fft", name](x, s, axes, norm, overwrite_x, workers, plan=plan)
        try:
            many = list(range(a.ndim)) if axes is None and s is None else list(range(-len(np.atleast_1d(s)), 0)) if axes is None else [int(k) for k in np.atleast_1d(axes)]
            sizes = [None] * len(many) if s is None else [int(k) for k in np.atleast_1d(s)]
            good = len(sizes) == len(many) and len({k % a.ndim for k in many}) == len(many) and all(-a.ndim <= k < a.ndim for k in many)
        except (TypeError, ValueError, ZeroDivisionError):
            good = False
        if not good or not many or any(k is not None and k < 1 for k in sizes):
            return originals["scipy.fft", name](x, s, axes, norm)
        if first is not None:
            a = first(a, sizes[-1], many[-1], norm)
            many, sizes = many[:-1], sizes[:-1]
        for axis, size in reversed(list(zip(many, sizes))[:None if last is None else -1]):
            a = one(a, size, axis, norm)
        return last(a, sizes[-1], many[-1], norm) if last is not None else a
    call.__name__ = name
    return call


def cosines_of_several(name):
    one = cosines(name.replace("n", ""))

    def call(x, type=2, s=None, axes=None, norm=None, overwrite_x=False, workers=None, *, orthogonalize=None):
        a = np.asarray(x)
        is_plain = s is None and orthogonalize is None and a.dtype.char in "fd" and norm in (None, "backward", "ortho", "forward")
        many = range(a.ndim) if axes is None else np.atleast_1d(axes)
        if not is_plain or not all(-a.ndim <= k < a.ndim for k in many) or len({int(k) % a.ndim for k in many}) < len(many):
            return originals["scipy.fft", name](x, type, s, axes, norm, overwrite_x, workers, orthogonalize=orthogonalize)
        for axis in many:
            a = one(a, type, None, int(axis), norm)
        return a
    call.__name__ = name
    return call


ONE = {name: transform(name, name in ("rfft", "ihfft")) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")}
SCIPY_FFT = {**ONE, **{name: cosines(name) for name in ("dct", "idct", "dst", "idst")},
             **{name: cosines_of_several(name) for name in ("dctn", "idctn", "dstn", "idstn")},
             **{name + kind: several(name + kind, ONE[name]) for name in ("fft", "ifft") for kind in ("2", "n")},
             **{"rfft" + kind: several("rfft" + kind, ONE["fft"], first=ONE["rfft"]) for kind in ("2", "n")},
             **{"irfft" + kind: several("irfft" + kind, ONE["ifft"], last=ONE["irfft"]) for kind in ("2", "n")}}
