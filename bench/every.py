#!/usr/bin/env python3
"""Every operation of programs and every SQL function beside its name in NumPy, SciPy and CuPy, worst first.

    bench/every.py [--backend auto|cpu|cuda] [--sizes small,middling,large] [--families cube,flat] [--only WORD ...]
                   [--skip a,b] [--rounds 3] [--limit 1200] [--alone] [--verbose]

The rows are made from core/program/ops.h, core/base/map.h, core/base/grids.h and the list of functions that gx registers; a test
(tests/sql/test_every.py) fails where one of them has neither a row nor a reason here.  gx reads its operands from a
database file in /dev/shm; the result is made as a value, and Python takes its length alone.  Peers have their operands in RAM as
columns (Fortran order where gx's are); CuPy's time has the copies of operands up and of the result down in it.  A function without
a peer is beside gx_norm of its first operand: the scan.  first: the first call on a connection that has done something else; later: the
median of the rounds after it; uploaded, downloaded: bytes copied to and from devices in a later call.

Families of sizes (f64 unless the row says otherwise), small / middling / large:

    flat    elements: 100 x 100, 4096 x 4096, 7680 x 7680 (complex: nearly what a value of SQLite may have)
    tall    rows: 1000 x 16, 10^6 x 64, 1 900 000 x 64
    cube    products, factorisations: 64, 1024, 4096
    heavy   spectra, functions of matrices: 64, 512, 2048
"""
import argparse
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "sql"))

FOLDER = "/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir()

SIZES = {
    "flat": {"small": (100, 100), "middling": (4096, 4096), "large": (7680, 7680)},
    "tall": {"small": (1000, 16), "middling": (10**6, 64), "large": (1_900_000, 64)},
    "cube": {"small": (64, 64), "middling": (1024, 1024), "large": (4096, 4096)},
    "heavy": {"small": (64, 64), "middling": (512, 512), "large": (2048, 2048)},
}

# Operands: A, B, C normal; P in (0.5, 1.5); M of 0 and 1; S symmetric and positive definite; G bytes 0 to 3; x, y columns of A's rows;
# Z complex; Q small whole numbers as f64.
# name: family, program, the same in Python (xp: numpy or cupy; sp: scipy or cupyx.scipy), or None: beside the scan.
PEERS = {  # of elementwise functions whose name is another
    "add": "A + B", "mul": "A * B", "div": "A / B", "scale": "A * 2.5", "arg": "xp.angle(Z)", "pow": "xp.power(P, B)", "mod": "xp.mod(A, B)",
    "asin": "xp.arcsin(M)", "acos": "xp.arccos(M)", "atan": "xp.arctan(A)", "atan2": "xp.arctan2(A, B)", "asinh": "xp.arcsinh(A)",
    "erf": "sp.special.erf(A)", "erfc": "sp.special.erfc(A)", "gamma": "sp.special.gamma(P)", "lgamma": "sp.special.gammaln(P)",
    "clip": "xp.clip(A, -1, 1)", "where": "xp.where(M, A, B)", "relu": "xp.maximum(A, 0)", "sigmoid": "sp.special.expit(A)",
    "softplus": "xp.logaddexp(A, 0)", "gelu": "A * sp.special.ndtr(A)", "ndtr": "sp.special.ndtr(A)", "ndtri": "sp.special.ndtri(P - 0.5)",
    "gammainc": "sp.special.gammainc(P, P)", "gammaincc": "sp.special.gammaincc(P, P)", "betainc": "sp.special.betainc(P, P, P - 0.5)",
    "round": "xp.round(A)", "conj": "xp.conj(Z)", "real": "Z.real.copy()", "imag": "Z.imag.copy()", "reciprocal": "1 / P",
}
PROGRAMS = {
    "add": "A + B", "mul": "A * B", "div": "A / B", "scale": "A * 2.5", "arg": "arg(Z)", "conj": "conj(Z)", "real": "real(Z)", "imag": "imag(Z)",
    "asin": "asin(M)", "acos": "acos(M)", "gamma": "gamma(P)", "lgamma": "lgamma(P)", "clip": "clip(A, -1, 1)", "where": "where(M, A, B)",
    "pow": "pow(P, B)", "ndtri": "ndtri(P - 0.5)", "gammainc": "gammainc(P, P)", "gammaincc": "gammaincc(P, P)", "reciprocal": "reciprocal(P)",
    "betainc": "betainc(P, P, P - 0.5)",
}
POSITIVE = {"sqrt", "log", "log2", "log10", "log1p", "gamma", "lgamma"}

ROWS = {
    "matmul": ("cube", "A @ B", "A @ B"), "transpose": ("flat", "A.T", "A.T.copy()"), "adjoint": ("flat", "Z.H", "Z.conj().T.copy()"),
    "eye": ("flat", "eye(rows(A))", "xp.eye(len(A))"), "ones": ("flat", "ones(rows(A), cols(A))", "xp.ones(A.shape)"),
    "zeros": ("flat", "zeros(rows(A), cols(A))", "xp.zeros(A.shape) + 0"), "random": ("flat", "random(rows(A), cols(A))", "rng.random(A.shape)"),
    "randn": ("flat", "randn(rows(A), cols(A))", "rng.standard_normal(A.shape)"), "linspace": ("flat", "linspace(0, 1, size(A))", "xp.linspace(0, 1, A.size)"),
    "arange": ("flat", "arange(size(A))", "xp.arange(A.size, dtype=float)"),
    "sum": ("flat", "sum(A)", "A.sum()"), "mean": ("flat", "mean(A, 0)", "A.mean(0)"), "prod": ("flat", "prod(A, 1)", "A.prod(1)"),
    "min": ("flat", "min(A, 0)", "A.min(0)"), "max": ("flat", "max(A)", "A.max()"), "any": ("flat", "any(A, 0)", "A.any(0)"),
    "all": ("flat", "all(A, 1)", "A.all(1)"), "var": ("flat", "var(A, 0)", "A.var(0)"), "std": ("flat", "std(A, 1)", "A.std(1)"),
    "argmin": ("flat", "argmin(A, 1)", "A.argmin(1)"), "argmax": ("flat", "argmax(A, 0)", "A.argmax(0)"),
    "median": ("flat", "median(A, 0)", "xp.median(A, 0)"), "quantile": ("flat", "quantile(A, 0.9, 0)", "xp.quantile(A, 0.9, 0)"),
    "logsumexp": ("flat", "logsumexp(A, 1)", "sp.special.logsumexp(A, 1)"), "norm": ("flat", "norm(A)", "xp.linalg.norm(A)"),
    "trace": ("flat", "trace(A)", "xp.trace(A)"), "diag": ("flat", "diag(A)", "xp.diag(A).copy()"), "triu": ("flat", "triu(A)", "xp.triu(A)"),
    "tril": ("flat", "tril(A)", "xp.tril(A)"), "reshape": ("flat", "reshape(A, cols(A) / 2, rows(A) * 2)", "A.reshape(len(A) // 2, -1, order='C').copy()"),
    "flip": ("flat", "flip(A, 0)", "xp.flip(A, 0).copy()"), "roll": ("flat", "roll(A, 7, 1)", "xp.roll(A, 7, 1)"), "tile": ("flat", "tile(A, 1, 2)", "xp.tile(A, (1, 2))"),
    "repeat": ("flat", "repeat(A, 2, 0)", "xp.repeat(A, 2, 0)"), "block": ("flat", "block([[A, B], [B, A]])", "xp.block([[A, B], [B, A]])"),
    "einsum": ("cube", "einsum('ij,kj->ik', A, B)", "xp.einsum('ij,kj->ik', A, B, optimize=True)"),
    "take": ("tall", "take(A, I)", "A[I]"), "hstack": ("flat", "hstack(A, B)", "xp.hstack([A, B])"), "vstack": ("flat", "vstack(A, B)", "xp.vstack([A, B])"),
    "distance": ("tall", "distance(A64, A)", "spatial.cdist(A64, A)"), "kron": ("flat", "kron(A[0:64, 0:64], B[0:64, 0:64])", "xp.kron(A[:64, :64], B[:64, :64])"), "outer": ("flat", "outer(x, y)", "xp.outer(x, y)"),
    "inner": ("tall", "inner(x, y)", "xp.vdot(x, y)"), "polyval": ("flat", "polyval([1, 2, 3, 4], A)", "xp.polyval(xp.array([1., 2, 3, 4]), A)"),
    "vander": ("tall", "vander(x, 16)", "xp.vander(x[:, 0], 16)"), "toeplitz": ("flat", "toeplitz(x, y)", "sp.linalg.toeplitz(x[:, 0], y[:, 0])"),
    "cross": ("small", "cross([1, 2, 3], [4, 5, 6])", "xp.cross(xp.array([1., 2, 3]), xp.array([4., 5, 6]))"),
    "topk": ("tall", "v, p = topk(x, 100); v", "-xp.sort(xp.partition(-x[:, 0], 100)[:100])"), "unique_count": ("flat", "unique_count(Q)", "xp.unique(Q).size"),
    "cumsum": ("flat", "cumsum(A, 0)", "A.cumsum(0)"), "cumprod": ("flat", "cumprod(P, 1)", "P.cumprod(1)"), "diff": ("flat", "diff(A, 0)", "xp.diff(A, axis=0)"),
    "sort": ("flat", "sort(A, 0)", "xp.sort(A, 0)"), "argsort": ("flat", "argsort(A, 0)", "xp.argsort(A, 0)"), "softmax": ("flat", "softmax(A, 1)", "sp.special.softmax(A, 1)"),
    "solve": ("cube", "solve(A, B)", "xp.linalg.solve(A, B)"), "lstsq": ("tall", "lstsq(A, x)", "xp.linalg.lstsq(A, x, rcond=None)[0]"),
    "inverse": ("cube", "inverse(A)", "xp.linalg.inv(A)"), "pinv": ("heavy", "pinv(A)", "xp.linalg.pinv(A)"), "det": ("cube", "det(A)", "xp.linalg.det(A)"),
    "logdet": ("cube", "logdet(A)", "xp.linalg.slogdet(A)[1]"), "rank": ("heavy", "rank(A)", "xp.linalg.matrix_rank(A)"),
    "cond": ("heavy", "cond(A)", "xp.linalg.svd(A, compute_uv=False)"), "cholesky": ("cube", "cholesky(S)", "xp.linalg.cholesky(S)"),
    "lu": ("cube", "P, L, U = lu(A); U", "sp.linalg.lu(A, permute_l=True)[1]"), "qr": ("cube", "Q, R = qr(A); Q", "xp.linalg.qr(A)[0]"),
    "schur": ("heavy", "T, Z = schur(A); T", "sp.linalg.schur(A)[0]"), "hessenberg": ("heavy", "H, Q = hessenberg(A); Q", "sp.linalg.hessenberg(A, True)[1]"),
    "polar": ("heavy", "U, P = polar(A); U", "sp.linalg.polar(A)[0]"), "ldl": ("heavy", "L, D, p = ldl(S); L", "sp.linalg.ldl(S)[0]"),
    "sylvester": ("heavy", "sylvester(A, S, B)", "sp.linalg.solve_sylvester(A, S, B)"),
    "lyapunov": ("heavy", "lyapunov(A, S)", "sp.linalg.solve_continuous_lyapunov(A, S)"),
    "discrete_lyapunov": ("heavy", "discrete_lyapunov(A / (4 * sqrt(rows(A))), S)", "sp.linalg.solve_discrete_lyapunov(A / (4 * len(A)**.5), S, 'bilinear')"),
    "riccati": ("heavy", "riccati(A, B, S, S)", "sp.linalg.solve_continuous_are(A, B, S, S)"),
    "discrete_riccati": ("heavy", "discrete_riccati(A, B, S, S)", "sp.linalg.solve_discrete_are(A, B, S, S)"),
    "eig": ("heavy", "w, v = eig(A); v", "xp.linalg.eig(A)[1]"), "eigh": ("heavy", "w, v = eigh(S); v", "xp.linalg.eigh(S)[1]"),
    "eigvals": ("heavy", "eigvals(A)", "xp.linalg.eigvals(A)"), "eigvalsh": ("heavy", "eigvalsh(S)", "xp.linalg.eigvalsh(S)"),
    "svd": ("heavy", "U, s, V = svd(A); U", "xp.linalg.svd(A)[0]"), "svdvals": ("heavy", "svdvals(A)", "xp.linalg.svd(A, compute_uv=False)"),
    "expm": ("heavy", "expm(A / rows(A))", "sp.linalg.expm(A / len(A))"), "logm": ("heavy", "logm(S)", "sp.linalg.logm(S)"), "sqrtm": ("heavy", "sqrtm(S)", "sp.linalg.sqrtm(S)"),
    "powm": ("heavy", "powm(A, 5)", "xp.linalg.matrix_power(A, 5)"), "cov": ("tall", "cov(A)", "xp.cov(A.T)"), "corr": ("tall", "corr(A)", "xp.corrcoef(A.T)"),
    "fft": ("flat", "fft(Z)", "sp.fft.fft(Z, axis=0)"), "ifft": ("flat", "ifft(Z)", "sp.fft.ifft(Z, axis=0)"), "rfft": ("flat", "rfft(A)", "sp.fft.rfft(A, axis=0)"),
    "irfft": ("flat", "irfft(Z)", "sp.fft.irfft(Z, axis=0)"), "fft2": ("flat", "fft2(Z)", "sp.fft.fft2(Z)"), "ifft2": ("flat", "ifft2(Z)", "sp.fft.ifft2(Z)"),
    "dct": ("flat", "dct(A)", "sp.fft.dct(A, axis=0)"), "idct": ("flat", "idct(A)", "sp.fft.idct(A, axis=0)"), "dst": ("flat", "dst(A)", "sp.fft.dst(A, axis=0)"),
    "idst": ("flat", "idst(A)", "sp.fft.idst(A, axis=0)"), "convolve": ("tall", "convolve(x, y)", "sp.signal.fftconvolve(x[:, 0], y[:, 0])"),
    "correlate": ("tall", "correlate(x, y)", "sp.signal.correlate(x[:, 0], y[:, 0], method='fft')"), "fftshift": ("flat", "fftshift(A)", "xp.fft.fftshift(A)"),
    "ifftshift": ("flat", "ifftshift(A)", "xp.fft.ifftshift(A)"), "fftfreq": ("flat", "fftfreq(size(A))", "xp.fft.fftfreq(A.size)"),
    "rfftfreq": ("flat", "rfftfreq(size(A))", "xp.fft.rfftfreq(A.size)"),
    "hfft": ("flat", "hfft(Z)", "sp.fft.hfft(Z, axis=0)"), "ihfft": ("flat", "ihfft(A)", "sp.fft.ihfft(A, axis=0)"),
    "rfft2": ("flat", "rfft2(A)", "sp.fft.rfft2(A)"), "irfft2": ("flat", "irfft2(Z)", "sp.fft.irfft2(Z)"), "dctn": ("flat", "dctn(A)", "sp.fft.dctn(A)"),
    "idctn": ("flat", "idctn(A)", "sp.fft.idctn(A)"), "dstn": ("flat", "dstn(A)", "sp.fft.dstn(A)"), "idstn": ("flat", "idstn(A)", "sp.fft.idstn(A)"),
    "circulant": ("flat", "circulant(x)", "sp.linalg.circulant(x[:, 0])"), "hankel": ("flat", "hankel(x, y)", "sp.linalg.hankel(x[:, 0], y[:, 0])"),
    "companion": ("flat", "companion(x)", "sp.linalg.companion(x[:, 0])"), "fiedler": ("flat", "fiedler(x)", "sp.linalg.fiedler(x[:, 0])"),
    "fiedler_companion": ("flat", "fiedler_companion(x)", "sp.linalg.fiedler_companion(x[:, 0])"), "leslie": ("flat", "leslie(x, y[1:])", "sp.linalg.leslie(x[:, 0], y[1:, 0])"),
    "convolution_matrix": ("flat", "convolution_matrix(x, 100)", "sp.linalg.convolution_matrix(x[:, 0], 100)"), "dft": ("flat", "dft(rows(A))", "sp.linalg.dft(len(A))"),
    "hilbert": ("flat", "hilbert(rows(A))", "sp.linalg.hilbert(len(A))"), "helmert": ("flat", "helmert(rows(A))", "sp.linalg.helmert(len(A))"),
    "khatri_rao": ("flat", "khatri_rao(A[0:64, :], B[0:64, :])", "sp.linalg.khatri_rao(A[:64], B[:64])"),
    "block_diag": ("flat", "block_diag(A, B)", "sp.linalg.block_diag(A, B)"), "bands": ("flat", "bands(2, 1, A[0:4, :])", None),
    "require": ("flat", "require(A, size(A) > 0, 'no')", "A.copy()"), "signm": ("heavy", "signm(A)", "sp.linalg.signm(A)"),
    "cosm": ("heavy", "cosm(A / rows(A))", "sp.linalg.cosm(A / len(A))"), "sinm": ("heavy", "sinm(A / rows(A))", "sp.linalg.sinm(A / len(A))"),
    "tanm": ("heavy", "tanm(A / rows(A))", "sp.linalg.tanm(A / len(A))"), "coshm": ("heavy", "coshm(A / rows(A))", "sp.linalg.coshm(A / len(A))"),
    "sinhm": ("heavy", "sinhm(A / rows(A))", "sp.linalg.sinhm(A / len(A))"), "tanhm": ("heavy", "tanhm(A / rows(A))", "sp.linalg.tanhm(A / len(A))"),
    "expm_frechet": ("heavy", "expm_frechet(A / rows(A), B)", "sp.linalg.expm_frechet(A / len(A), B, compute_expm=False)"),
    "expm_cond": ("heavy", "expm_cond(A[0:12, 0:12])", "sp.linalg.expm_cond(A[:12, :12])"), "slogdet": ("cube", "s, l = slogdet(A); l", "xp.linalg.slogdet(A)[1]"),
    "solve_banded": ("flat", "solve_banded(2, 1, A[0:4, :], B.T[:, 0:1])", "sp.linalg.solve_banded((2, 1), A[:4], B[0])"),
    "solve_circulant": ("tall", "solve_circulant(x, y)", "sp.linalg.solve_circulant(x[:, 0], y[:, 0])"),
    "subspace_angles": ("heavy", "subspace_angles(A[:, 0:20], B[:, 0:30])", "sp.linalg.subspace_angles(A[:, :20], B[:, :30])"),
    "procrustes": ("heavy", "procrustes(A, B)", "sp.linalg.orthogonal_procrustes(A, B)[0]"), "rq": ("heavy", "R, Q = rq(A); Q", "sp.linalg.rq(A)[1]"),
    "qz": ("heavy", "S, T, Q, Z = qz(A, B); Z", "sp.linalg.qz(A, B)[3]"), "rsf2csf": ("heavy", "T, Z = schur(A); C, U = rsf2csf(T, Z); C", "sp.linalg.rsf2csf(*sp.linalg.schur(A))[0]"),
    "balance": ("heavy", "B, T = balance(A); B", "sp.linalg.matrix_balance(A)[0]"), "cossin": ("heavy", "Q, R = qr(A); U, C, V = cossin(Q, 20, 30); C", None),
    "loggamma": ("tall", "loggamma(x + 2i)", "sp.special.loggamma(x + 2j)"), "fht": ("tall", "fht(x, 0.001, 0.5)", "sp.fft.fht(x[:, 0], 0.001, 0.5)"),
    "ifht": ("tall", "ifht(x, 0.001, 0.5)", "sp.fft.ifht(x[:, 0], 0.001, 0.5)"),
    "cdf2rdf": ("heavy", "w, V = eig(A); D, X = cdf2rdf(w, V); X", "sp.linalg.cdf2rdf(*xp.linalg.eig(A))[1]"),
    "label": ("flat", "label(G)", "sp.ndimage.label(G)[0]"),
}

GRIDS = {  # arguments after the grid, and a peer where SciPy has one
    "colour_count": ("G, 2", "(G == 2).sum()"), "flood": ("G, 3, 3, 2, 4", None), "cover": ("G, M", "xp.where(M != 0, 1, G)"), "underfill": ("G, M, 2", None),
    "shift": ("G, 2, 3, 0", "sp.ndimage.shift(G, (2, 3), order=0)"), "turn": ("G, 180", "xp.rot90(G, 2).copy()"), "mirror": ("G, 0", "xp.flip(G, 0).copy()"),
    "connect": ("G, 0, 0, 50, 50", None), "shoot": ("G, 5, 5, 1, 1", None), "gravitate": ("N, K", None),
    "beside": ("N, 4", "sp.ndimage.binary_dilation(N) & (N == 0)"), "occurrences": ("G, [[1, 2], [2, 1]]", None), "manhattan": ("N, K", None),
}

SQL = {  # family, statement (a row, whose columns are taken), peer
    "gx_syrk": ("cube", "gx_syrk('A')", "A @ A.T"), "gx_trsm": ("cube", "gx_trsm('L', 'B', '{\"uplo\":\"lower\"}')", "sp.linalg.solve_triangular(L, B, lower=True)"),
    "gx_trmm": ("cube", "gx_trmm('L', 'B', '{\"uplo\":\"lower\"}')", "L @ B"), "gx_kmeans": ("tall", "gx_kmeans('A', 16, '{\"iterations\":10,\"tolerance\":0,\"seed\":1}')", None),
    "gx_pca": ("tall", "gx_pca('A', 4)", "xp.linalg.eigh(xp.cov(A.T))[1]"),
    "gx_cosine": ("tall", "gx_cosine('A64', 'A')", "(A64 / xp.linalg.norm(A64, axis=1)[:, None]) @ (A / xp.linalg.norm(A, axis=1)[:, None]).T"),
    "gx_knn": ("tall", "(SELECT sum(id) FROM gx_knn('A64', 'A', 10))", "xp.argpartition(A64 @ A.T, -10, axis=1)[:, -10:]"),
    "gx_normalize": ("tall", "gx_normalize('A')", "A / xp.linalg.norm(A, axis=1)[:, None]"), "gx_histogram": ("flat", "(SELECT count(*) FROM gx_histogram('A', 100))", "xp.histogram(A, 100)[0]"),
    "gx_cells": ("small", "(SELECT sum(value) FROM gx_cells('A'))", None),
    "gx_to_bytes": ("flat", "gx_to_bytes('A')", "A.tobytes()"), "gx_copy": ("flat", "gx_copy('A')", "A.copy()"), "gx_cast": ("flat", "gx_cast('A', 'f32')", "A.astype('f')"),
    "gx_slice": ("flat", "gx_slice('A', 1, 2, 50, 60)", "A[1:51, 2:62].copy()"), "gx_row": ("tall", "gx_row('A', 5)", "A[5].copy()"), "gx_col": ("tall", "gx_col('A', 5)", "A[:, 5].copy()"),
    "gx_sparse": ("flat", "gx_sparse('M')", None), "gx_quantize": ("tall", "gx_quantize('A', 'i8', 'A8', '{\"replace\":true}')", None), "gx_rcond": ("cube", "gx_rcond('A')", None),
    "gx_nullspace": ("heavy", "gx_nullspace('A')", "sp.linalg.null_space(A)"), "gx_orth": ("heavy", "gx_orth('A')", "sp.linalg.orth(A)"),
    "gx_neg": ("flat", "gx_neg('A')", "-A"), "gx_sub": ("flat", "gx_sub('A', 'B')", "A - B"), "gx_is_symmetric": ("flat", "gx_is_symmetric('S')", None),
    "gx_check": ("flat", "gx_check('A')", None), "gx_mahalanobis": ("tall", "gx_mahalanobis('A', 'A64')", None),
}

# What has no time of its own, and why.
REASONS = {
    "answers from the catalogue or the connection": "gx gx_catalog gx_cols_count gx_config gx_debug gx_devices gx_dtype gx_exists gx_guard gx_help gx_info gx_part gx_plan gx_predictions gx_rows_count "
    "gx_set_property gx_labels gx_set_labels gx_settings gx_shape gx_stats gx_stats_reset gx_events gx_metrics gx_version gx_volume gx_volumes gx_nnz gx_context gx_rename gx_drop gx_selftest gx_benchmark gx_vacuum rows cols size next_fast_len fhtoffset gx_check_property",
    "stores or reads as the machine's disk does: bench/volumes.py, arrays.py": "gx_backup gx_export gx_import gx_store gx_from_bytes gx_from_memory gx_to_memory gx_from_cells gx_from_rows gx_from_table gx_from_function "
    "gx_store_cells gx_store_rows gx_append gx_set_rows gx_delete_rows gx_vectors gx_settle gx_set gx_get gx_rows gx_full gx_matrix_gallery gx_json gx_show gx_heatmap",
    "exact arithmetic: bench/exact.py": "gx_circle_fft gx_constraints gx_lattice_nearest gx_e8 gx_phi_floor gx_phi_mul gx_phi_pow gx_recur gx_m31_inverse gx_m31_mul",
    "statistics: bench/regressions.py": "gx_lm gx_lm_fit gx_lm_model gx_lm_terms gx_lm_anova gx_glm gx_glm_fit gx_coef gx_predict gx_lda gx_lda_axes gx_lda_groups gx_cca gx_factor gx_cdf gx_sf gx_ppf gx_isf gx_pdf gx_test "
    "gx_anova gx_chi2_gof gx_chi2_test gx_corr_test gx_jarque_bera gx_kruskal gx_ks_test gx_levene gx_mann_whitney gx_shapiro gx_t_test gx_wilcoxon gx_vec_sum gx_vec_mean",
    "sparse matrices and graphs: bench/sparse.py": "gx_components gx_shortest_paths gx_k_paths gx_breadth_first gx_depth_first gx_cuthill_mckee gx_spanning_tree gx_laplacian gx_max_flow gx_matching gx_pagerank gx_triangles gx_dense gx_spread gx_knn_graph",
    "composites: bench/structured.py": "gx_block gx_lazy", "quantised: bench/quantize.py": "gx_dequantize gx_pca_project", "an index of vectors: bench/ivf.py": "gx_index",
    "grids: bench/grids.py": "gx_objects gx_grid_compress gx_grid_subgrid", "programs: every row of this table": "gx_eval",
}


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def operations():
    """Names of the operations of programs: those of ops.h, of elements, of grids."""
    ops = re.findall(r'(?:OP|SAFE)\((\w+),\s+"(\w+)"', read("core/program/ops.h"))
    maps = re.findall(r"MAP\((\w+), +(\w+), +(\d), (\d), ", read("core/base/map.h"))
    grids = re.findall(r'ROW\(X, \w+, "(\w+)"', read("core/base/grids.h"))
    return [name for _, name in ops], {name: int(count) for _, name, count, _ in maps}, grids


def table():
    """name: (family, program or statement, peer), and the names without a row."""
    ops, maps, grids = operations()
    rows = {name: ROWS[name] for name in ops if name in ROWS}
    for name, count in maps.items():
        letters = "P" if name in POSITIVE else ", ".join("ABC"[:count])
        peer = PEERS.get(name, f"xp.{name}({letters})")
        rows[name] = ("flat", PROGRAMS.get(name, f"{name}({letters})"), peer)
    for name in grids:
        arguments, peer = GRIDS.get(name, ("N" if name in ("box", "inbox", "outbox", "corners", "backdrop", "delta", "bordering") else "G", None))
        rows[name] = ("flat", f"{name}({arguments})", peer)
    rows.update({name: row for name, row in SQL.items() if row[1] is not None})
    return rows


def reasons():
    return {name: why for why, names in REASONS.items() for name in names.split()}


def missing(functions):
    """Operations and SQL functions that have neither a row nor a reason; reasons and rows of nothing."""
    ops, maps, grids = operations()
    rows, why = table(), reasons()
    names = set(ops) | set(maps) | set(grids)
    known = {name for name in set(rows) | set(why)}
    covered = known | {f"gx_{name}" for name in names} | {f"gx_grid_{name}" for name in grids}
    none = sorted((names | set(functions)) - covered)
    stale = sorted(name for name in known if name not in names and name not in functions)
    return none, stale


class Bench:
    def __init__(self, args):
        from conftest import gx_connect

        self.args, self.path = args, f"{FOLDER}/gx_every_{os.getpid()}.db"
        self.connect = lambda: gx_connect(self.path, backend=args.backend)
        self.db = self.connect()
        self.have, self.arrays = None, {}
        self.modules = {"numpy": self.module(np, "scipy")}
        try:
            import cupy

            cupy.zeros(1)
            self.modules["cupy"] = self.module(cupy, "cupyx.scipy")
        except Exception:  # not there, or no device
            pass

    @staticmethod
    def module(xp, scipy):
        import importlib

        class Lazy:
            def __getattr__(self, name):
                return importlib.import_module(f"{scipy}.{name}")

        return {"xp": xp, "sp": Lazy(), "rng": xp.random.default_rng(1), "spatial": importlib.import_module("scipy.spatial.distance")}

    def one(self, sql):
        return self.db.execute(sql).fetchone()[0]

    def operands(self, family, size):
        """Stores the operands of a family and a size, and has them as arrays in Fortran order."""
        if self.have == (family, size):
            return
        from conftest import to_numpy

        m, n = SIZES[family][size]
        make = {"A": f"randn({m}, {n}, 1)", "B": f"randn({m}, {n}, 2)", "x": f"randn({m}, 1, 3)", "y": f"randn({m}, 1, 4)"}
        if family == "flat":
            make.update(C=f"randn({m}, {n}, 5)", P=f"random({m}, {n}, 6) * 0.999 + 0.5", M=f"random({m}, {n}, 7) > 0.5",
                        Q=f"floor(random({m}, {n}, 8) * 10000)", Z=f"randn({m}, {n}, 9) + 1i * randn({m}, {n}, 10)")
        if family in ("cube", "heavy"):
            make.update(S=f"A @ A.T / {m} + eye({m})", L=f"tril(A) + {m} * eye({m})")
        if family == "flat":
            make["S"] = "A + A.T"
        for name in [row[0] for row in self.db.execute("SELECT name FROM gx")]:
            self.one(f"SELECT gx_drop('{name}')")
        for name, program in make.items():
            self.one(f"SELECT gx_eval('{name} := {program}')")
        if family == "flat":
            self.one("SELECT gx_cast(gx_eval('floor(P * 4 - 2)'), 'u8', 'G')")
            self.one(f"SELECT gx_cast(gx_eval('zeros({m}, {n})'), 'u8', 'N')")
            self.one("SELECT gx_copy('N', 'K')")
            for k in range(40):
                self.db.execute("SELECT gx_set('N', ?, ?, 1)", (k % m, (k * 7) % n)).fetchone()
            self.db.execute("SELECT gx_set('K', ?, ?, 1)", (m - 1, n // 2)).fetchone()
        if family == "tall":
            self.one("SELECT gx_eval('A64 := A[0:64, :]')")
            self.one(f"SELECT gx_eval('I := floor(random({min(m, 100000)}, 1, 11) * {m})')")
        names = [row[0] for row in self.db.execute("SELECT name FROM gx")]
        self.arrays = {name: np.asfortranarray(to_numpy(self.one(f"SELECT gx_copy('{name}')"))) for name in names}
        if "I" in self.arrays:
            self.arrays["I"] = self.arrays["I"][:, 0].astype(np.int64)
        self.have = (family, size)

    def time(self, call):
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    def peer(self, which, expression):
        """Seconds of a peer; None where it cannot.  CuPy's operands go up, its result comes down."""
        module = self.modules[which]
        names = set(re.findall(r"\b[A-Z]\w*\b|\b[xy]\b", expression)) & set(self.arrays)
        code = compile(expression, "peer", "eval")

        def run():
            if which == "numpy":
                return eval(code, {**module, **self.arrays})  # the table above, not input
            up = {name: module["xp"].asarray(self.arrays[name]) for name in names}
            got = eval(code, {**module, **up})
            got = got.get() if hasattr(got, "get") else got
            module["xp"].cuda.Device().synchronize()
            return got

        try:
            once = self.time(run)
            if once > 2:
                return once
            return statistics.median(self.time(run) for _ in range(self.args.rounds))
        except Exception as error:  # no such name there, no memory
            if self.args.verbose:
                print(f"    {which}: {expression}: {type(error).__name__}: {str(error)[:120]}")
            return None

    def row(self, name, family, text, peer, size):
        self.operands(family, size)
        quoted = text.replace("'", "''")
        sql = f"SELECT {text}" if name.startswith("gx_") else f"SELECT length(gx_eval('{quoted}'))"
        if name.startswith("gx_") and not text.startswith("("):
            sql = f"SELECT length({text})"
        copied = "SELECT name, value FROM gx_stats WHERE name IN ('uploaded', 'downloaded')"
        try:
            first = self.time(lambda: self.one(sql))
            rounds = self.args.rounds if first < 2 else 1
            if rounds > 1:
                self.one(sql)
            before = dict(self.db.execute(copied))
            later = [self.time(lambda: self.one(sql)) for _ in range(rounds)]
        except Exception as error:
            print(f"{name:18s} {size:9s} refused: {str(error)[:140]}", flush=True)
            return None
        after = dict(self.db.execute(copied))
        moved = {key: (after[key] - before[key]) // rounds for key in after}
        scan = statistics.median(self.time(lambda: self.one("SELECT gx_norm('A')")) for _ in range(3))
        took = {which: self.peer(which, peer) for which in self.modules if which in self.args.peers.split(",")} if peer and not self.args.alone else {}
        took = {which: seconds for which, seconds in took.items() if seconds}
        best, seconds = min(took.items(), key=lambda item: item[1]) if took else ("scan", scan)
        return [statistics.median(later) / seconds, name, size, first, statistics.median(later), best, seconds, took, moved]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--sizes", default="small,middling")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--families", default="cube,heavy,tall,flat,small")
    parser.add_argument("--skip", default="", help="names that take too long today")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds after which no further row is begun")
    parser.add_argument("--peers", default="numpy,cupy")
    parser.add_argument("--alone", action="store_true", help="no peer but the scan")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    bench, lines, start = Bench(args), [], time.perf_counter()
    rows = table()
    try:
        for size in args.sizes.split(","):
            for family in args.families.split(","):
                for name, (kind, text, peer) in rows.items():
                    if kind != family or name in args.skip.split(",") or (args.only and name not in args.only) or (family == "small" and size != "small"):
                        continue
                    if time.perf_counter() - start > args.limit:
                        print(f"no time for {name} {size}")
                        continue
                    line = bench.row(name, "flat" if family == "small" else family, text, peer, size)
                    if line:
                        lines.append(line)
    finally:
        bench.db.close()
        for end in ("", "-wal", "-shm", "-journal"):
            pathlib.Path(bench.path + end).unlink(missing_ok=True)
    print(f"{'ratio':>7s}  {'name':18s} {'size':9s} {'first':>10s} {'later':>10s}  beside")
    for ratio, name, size, first, later, best, seconds, took, moved in sorted(lines, key=lambda line: -line[0]):
        others = " ".join(f"{which} {t * 1e3:.2f}" for which, t in took.items() if which != best)
        copies = " ".join(f"{key} {value / 1e6:.0f} MB" for key, value in moved.items() if value)
        print(f"{ratio:7.2f}  {name:18s} {size:9s} {first * 1e3:10.2f} {later * 1e3:10.2f}  {best} {seconds * 1e3:.2f} {others} {copies}")


if __name__ == "__main__":
    main()
