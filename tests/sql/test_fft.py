"""Fourier, cosine and sine transforms against SciPy's, which takes f32 as f32.

  1  all lengths from 1 to 200, primes, powers, and long ones, one column and several: complex, real, back, along rows
  2  n cut and padded, norms, dtypes, f32; SQL's arguments left out; destinations
  3  cosines and sines of every type, norm and parity, and their inverses
  4  both axes, shifts, frequencies, convolutions of every mode
  5  columns do not touch one another: NaN, and numbers of other sizes, stay in their column
  6  little memory: strips, to the same bits; what is refused, in words; programs; an interrupt
"""
import numpy as np
import pytest
from scipy import fft as sp

from conftest import error, from_numpy, q, to_numpy
from interruptkit import interrupt

LENGTHS = list(range(1, 201)) + [211, 256, 257, 509, 512, 719, 1000, 1009, 1024, 1025, 2048, 2310, 3721, 4096, 4099]
LONG = [10007, 16384, 16807, 20000, 65536, 65537, 131072, 2 * 65537, 3**11, 1 << 20]


def draw(shape, seed=0, is_complex=False, single=False):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(shape)
    a = a + 1j * rng.standard_normal(shape) if is_complex else a
    return a.astype(({0: "<f4", 1: "<c8"} if single else {0: "<f8", 1: "<c16"})[int(is_complex)])


def call(db, text, *matrices):
    result = q(db, f"SELECT {text}", *(from_numpy(np.asarray(a)) for a in matrices))
    return to_numpy(result) if isinstance(result, bytes) else np.array([[result]])  # a number


def check(got, want, tolerance=1e-15):
    want = np.asarray(want)
    assert got.shape == want.shape and (got.dtype == want.dtype or got.size == 1)
    single = want.dtype.name in ("float32", "complex64")
    scale = np.linalg.norm(want) / max(1, np.sqrt(want.size))
    tolerance *= (2**29 if single else 1) * (2 + np.log2(max(2, want.size)))
    assert np.abs(got - want).max(initial=0) <= 6 * tolerance * scale + 1e-300


# 1 ------------------------------------------------------------------------------------------------

def check_length(db, n, columns):
    a, c = draw((n, columns), n), draw((n, columns), n + 1, True)
    check(call(db, "gx_fft(?1)", c), sp.fft(c, axis=0))
    check(call(db, "gx_ifft(?1)", c), sp.ifft(c, axis=0))
    check(call(db, "gx_fft(?1)", a), sp.fft(a, axis=0))
    check(call(db, "gx_ifft(?1)", a), sp.ifft(a, axis=0))
    half = sp.rfft(a, axis=0)
    check(call(db, "gx_rfft(?1)", a), half)
    check(call(db, f"gx_irfft(?1, {n})", half), a)


def check_rows(db, n, rows):
    a, c = draw((rows, n), n), draw((rows, n), n + 1, True)
    check(call(db, "gx_fft(?1, NULL, 1)", c), sp.fft(c, axis=1))
    check(call(db, "gx_ifft(?1, NULL, 1)", a), sp.ifft(a, axis=1))
    half = sp.rfft(a, axis=1)
    check(call(db, "gx_rfft(?1, NULL, 1)", a), half)
    check(call(db, f"gx_irfft(?1, {n}, 1)", half), a)


@pytest.mark.parametrize("columns", [1, 2, 7])
def test_lengths(db, columns):
    for n in LENGTHS:
        check_length(db, n, columns)


@pytest.mark.parametrize("n", LONG)
def test_long(db, n):
    check_length(db, n, 1)
    if n < 100000:
        check_length(db, n, 5)


@pytest.mark.parametrize("rows", [1, 3, 4, 9])
def test_rows(db, rows):
    for n in LENGTHS[::3] + [10007, 16384, 20000]:
        check_rows(db, n, rows)


def test_definition(db):
    a = np.array([[1], [2 - 1j], [-1j], [-1 + 2j]])
    got = call(db, "gx_fft(?1)", a)
    assert np.allclose(got.ravel(), [2, -2 - 2j, -2j, 4 + 4j], atol=1e-15)


def test_nothing(db):
    assert call(db, "gx_fft(?1)", np.zeros((5, 0))).shape == (5, 0)
    assert call(db, "gx_rfft(?1, 4)", np.zeros((0, 2))).tolist() == [[0, 0]] * 3
    assert "n must be from 1" in error(db, "SELECT gx_fft(gx_zeros(0, 3))")


# 2 ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_cut_padded_norm(db, name, norm):
    for is_complex in [False, True][: 1 if name == "rfft" else 2]:
        for single in (False, True):
            a = draw((12, 5), 3, is_complex, single)
            for n in (1, 2, 5, 6, 9, 12, 13, 21, 22, 40):
                for axis in (0, 1):
                    got = call(db, f"gx_{name}(?1, {n}, {axis}, '{{\"norm\":\"{norm}\"}}')", a)
                    check(got, getattr(sp, name)(a, n, axis=axis, norm=norm))
            check(call(db, f"gx_{name}(?1, '{{\"norm\":\"{norm}\"}}')", a), getattr(sp, name)(a, axis=0, norm=norm))


def test_dtypes(db):
    a = np.arange(24).reshape(6, 4)
    for dtype in ("<f2", "|u1", "<i4", "<i8", "|b1"):
        got = call(db, "gx_fft(?1)", a.astype(dtype))
        want = sp.fft(a.astype(dtype).astype("<f4" if got.dtype == np.complex64 else "<f8"), axis=0)
        check(got, want)
    for single in (False, True):
        for n in (1000, 1009, 4096, 5000):
            for is_complex in (False, True):
                a = draw((n, 9), n, is_complex, single)
                check(call(db, "gx_fft(?1)", a), sp.fft(a, axis=0))


def test_destinations(filedb):
    a = draw((300, 70), 5)
    q(filedb, "SELECT gx_store('A', ?)", from_numpy(a))
    assert q(filedb, "SELECT gx_fft('A', 'F')") == "F"
    check(call(filedb, "gx_copy('F')"), sp.fft(a, axis=0))
    assert q(filedb, "SELECT gx_ifft('F', NULL, 1, 'F', '{\"replace\":true,\"norm\":\"ortho\"}')") == "F"
    check(call(filedb, "gx_copy('F')"), sp.ifft(sp.fft(a, axis=0), axis=1, norm="ortho"))
    assert "exists" in error(filedb, "SELECT gx_rfft('A', 'F')")


# 3 ------------------------------------------------------------------------------------------------

def trigonometric(name, a, kind, norm):
    """SciPy's, but for orthonormal sines of types 2 and 3, which it had wrong before 1.12."""
    real = kind if name == "dst" or kind in (1, 4) else 5 - kind
    if norm != "ortho" or "s" not in name or real in (1, 4):
        return getattr(sp, name)(a, kind, axis=0, norm=norm)
    last, a = np.ones((len(a), 1)), a / np.sqrt(2 * len(a))
    last[-1] = np.sqrt(0.5 if real == 2 else 2)
    return sp.dst(a, 2, axis=0) * last if real == 2 else sp.dst(a * last, 3, axis=0)


@pytest.mark.parametrize("name", ["dct", "idct", "dst", "idst"])
@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_trigonometric(db, name, kind):
    for n in [2, 3, 4, 5, 7, 8, 15, 16, 31, 64, 97, 100, 1009, 3000]:
        for norm in ("backward", "ortho", "forward"):
            for single in (False, True):
                a = draw((n, 3), n, False, single)
                got = call(db, f"gx_{name}(?1, {kind}, '{{\"norm\":\"{norm}\"}}')", a)
                want = trigonometric(name, a.astype("f8"), kind, norm)
                check(got, want.astype(a.dtype))
    a = draw((5, 40), 1)
    check(call(db, f"gx_{name}(?1, {kind}, 33, 1)", a), getattr(sp, name)(a, kind, 33, axis=1))
    check(call(db, f"gx_{name}(?1, {kind}, 66)", a.T), getattr(sp, name)(a.T, kind, 66, axis=0))


def test_trigonometric_default(db):
    a = draw((30, 4), 1)
    check(call(db, "gx_dct(?1)", a), sp.dct(a, axis=0))
    check(call(db, "gx_idst(?1, NULL, NULL, 1)", a), sp.idst(a, axis=1))
    check(call(db, "gx_idct(gx_dct(?1, 4), 4)", a), a)
    assert "type must be" in error(db, "SELECT gx_dct(gx_ones(3, 1), 5)")
    assert "n must be from 2" in error(db, "SELECT gx_dct(gx_ones(1, 1), 1)")
    assert "real numbers" in error(db, "SELECT gx_dst(gx_fft(gx_ones(3, 1)))")


# 4 ------------------------------------------------------------------------------------------------

def test_both_axes(db):
    for shape in [(1, 1), (4, 6), (33, 20), (128, 64), (100, 257)]:
        for is_complex in (False, True):
            a = draw(shape, 1, is_complex)
            check(call(db, "gx_fft2(?1)", a), sp.fft2(a))
            check(call(db, "gx_ifft2(?1, '{\"norm\":\"ortho\"}')", a), sp.ifft2(a, norm="ortho"))
    check(call(db, "gx_fft2(?1, 50, 300)", a), sp.fft2(a, (50, 300)))


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_halves_of_both_axes(db, norm):
    option = f'{{"norm":"{norm}"}}'
    for shape in [(1, 2), (4, 6), (33, 21), (128, 64), (20, 257)]:
        for single in (False, True):
            a, z = draw(shape, 1, False, single), draw(shape, 2, True, single)
            half = sp.rfft2(a, norm=norm)
            check(call(db, f"gx_rfft2(?1, '{option}')", a), half)
            check(call(db, f"gx_irfft2(?1, NULL, {shape[1]}, '{option}')", half), a)
            check(call(db, f"gx_irfft2(?1, '{option}')", z), sp.irfft2(z, norm=norm))
            check(call(db, f"gx_irfft2(?1, 7, 10, '{option}')", z), sp.irfft2(z, (7, 10), norm=norm))
            for axis in (0, 1):
                check(call(db, f"gx_ihfft(?1, NULL, {axis}, '{option}')", a), sp.ihfft(a, axis=axis, norm=norm))
                if shape[axis] > 1:
                    check(call(db, f"gx_hfft(?1, NULL, {axis}, '{option}')", z), sp.hfft(z, axis=axis, norm=norm))
                check(call(db, f"gx_hfft(?1, 9, {axis}, '{option}')", z), sp.hfft(z, 9, axis=axis, norm=norm))
    assert "real numbers" in error(db, "SELECT gx_rfft2('[[\"1i\"]]')")
    assert "real numbers" in error(db, "SELECT gx_ihfft('[[\"1i\"]]')")


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_trigonometric_of_both_axes(db, kind):
    for norm in ("backward", "ortho", "forward"):
        for name in ("dct", "idct", "dst", "idst"):
            a = draw((33, 20), 1)
            down = trigonometric(name, a, kind, norm)
            want = trigonometric(name, np.ascontiguousarray(down.T), kind, norm).T
            check(call(db, f"gx_{name}n(?1, {kind}, '{{\"norm\":\"{norm}\"}}')", a), want)
    check(call(db, f"gx_dctn(?1, {kind}, 40, 9)", a), sp.dctn(a, kind, (40, 9)))
    check(call(db, f"gx_idstn(gx_dstn(?1, {kind}), {kind})", a), a)
    assert "type must be" in error(db, "SELECT gx_dctn(gx_ones(3, 3), 5)")


def test_next_fast_len(db):
    for n in [1, 2, 7, 11, 97, 1009, 1025, 65537, 10**6 + 3]:
        assert q(db, f"SELECT gx_eval('next_fast_len({n})')") == sp.next_fast_len(n, real=True)


def test_shifts(db):
    for shape in [(1, 1), (4, 6), (5, 7), (1, 8), (9, 1)]:
        a = draw(shape, 2)
        for name in ("fftshift", "ifftshift"):
            assert (call(db, f"gx_{name}(?1)", a) == getattr(sp, name)(a)).all()
            for axis in (0, 1):
                assert (call(db, f"gx_{name}(?1, {axis})", a) == getattr(sp, name)(a, axis)).all()
    for n in (2, 3, 8, 9):
        assert (call(db, f"gx_fftfreq({n}, 0.1)").ravel() == np.fft.fftfreq(n, 0.1)).all()
        assert (call(db, f"gx_rfftfreq({n})").ravel() == np.fft.rfftfreq(n)).all()


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_convolutions(db, name, mode):
    for m, n in [(1, 1), (5, 3), (3, 5), (4, 4), (8, 3), (3, 8), (7, 2), (2, 7), (100, 31), (1000, 1000)]:
        for is_complex in (False, True):
            a, b = draw((m, 1), m, is_complex), draw((n, 1), n + 9, is_complex)
            got = call(db, f"gx_{name}(?1, ?2, '{{\"mode\":\"{mode}\"}}')", a, b)
            if got.shape == (1, 1) or not is_complex:
                assert np.allclose(np.ravel(got), getattr(np, name)(a.ravel(), b.ravel(), mode), atol=1e-11)
            else:
                assert np.allclose(got.ravel(), getattr(np, name)(a.ravel(), b.ravel(), mode), atol=1e-11)


def test_convolution_of_columns(db):
    a, b = draw((40, 3), 1), draw((6, 3), 2)
    want = np.stack([np.convolve(a[:, k], b[:, k]) for k in range(3)], 1)
    assert np.allclose(call(db, "gx_convolve(?1, ?2)", a, b), want)
    assert np.allclose(call(db, "gx_convolve(?1, ?2)", b[:, :1], a), np.stack([np.convolve(a[:, k], b[:, 0]) for k in range(3)], 1))
    assert "one, and are not empty" in error(db, "SELECT gx_convolve(gx_ones(3, 2), gx_ones(3, 3))")


# 5 ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("n", [96, 97, 1009, 5000])
def test_columns_alone(db, n):
    a = draw((n, 6), n)
    a[:, 1] *= 1e18
    a[3, 4] = np.nan
    for name in ("fft", "rfft", "dct"):
        got = call(db, f"gx_{name}(?1)", a)
        for k in (0, 1, 2, 3, 5):
            check(got[:, k], getattr(sp, name)(a[:, k]))
        assert np.isnan(got[:, 4]).all()


# 6 ------------------------------------------------------------------------------------------------

def limit(db, bytes):
    q(db, "SELECT gx_config('memory_limit', ?)", bytes)


@pytest.mark.parametrize("n,columns", [(3000, 60), (1009, 200)])
@pytest.mark.parametrize("axis", [0, 1])
def test_strips(filedb, n, columns, axis):
    q(filedb, "SELECT gx_config('tile_bytes', 65536)")
    a = draw((n, columns) if axis == 0 else (columns, n), 4)
    q(filedb, "SELECT gx_store('A', ?)", from_numpy(a))
    for name, text in [("fft", "gx_fft('A', NULL, {}, 'F')"), ("rfft", "gx_rfft('A', NULL, {}, 'F')"), ("dct", "gx_dct('A', 2, NULL, {}, 'F')")]:
        text = text.format(axis)
        whole = call(filedb, text.replace(", 'F'", ""))
        check(whole, getattr(sp, name)(a, axis=axis))
        for bytes in (1800000, 3000000):
            limit(filedb, bytes)
            q(filedb, f"SELECT {text}")
            limit(filedb, 1 << 30)
            assert (call(filedb, "gx_copy('F')") == whole).all()
            q(filedb, "SELECT gx_drop('F')")


@pytest.mark.parametrize("n, bytes", [(1000, 2000000), (700, 1000000), (1500, 4500000)])
def test_both_axes_under_a_quarter(filedb, n, bytes):
    """Strips along either axis hold whole tiles: what is read, of the operand's size, is the operand, twice as much complex, and that copied."""
    q(filedb, "SELECT gx_config('tile_bytes', 65536)")
    a = draw((n, n), 5)
    q(filedb, "SELECT gx_store('A', ?)", from_numpy(a))
    limit(filedb, bytes)
    before = q(filedb, "SELECT value FROM gx_stats WHERE name = 'bytes_read'")
    q(filedb, "SELECT gx_fft2('A', 'F')")
    read = q(filedb, "SELECT value FROM gx_stats WHERE name = 'bytes_read'") - before
    limit(filedb, 1 << 30)
    check(call(filedb, "gx_copy('F')"), sp.fft2(a))
    assert read < 9 * 8 * n * n


def counters(db, *names):
    return [q(db, "SELECT value FROM gx_stats WHERE name = ?", name) for name in names]


@pytest.mark.parametrize("m, n, bytes", [(1000, 1000, 2000000), (701, 900, 1500000), (1200, 333, 1500000)])
@pytest.mark.parametrize("dtype", ["f64", "f32", "c128"])
def test_reduced_as_it_is_made(filedb, m, n, bytes, dtype):
    """What a reduction alone wants of a transform is not stored, and of real columns one half is: with any threads and memory."""
    q(filedb, "SELECT gx_config('tile_bytes', 65536)")
    a = draw((m, n), 6, dtype == "c128", dtype == "f32")
    q(filedb, "SELECT gx_store('A', ?)", from_numpy(a))
    wide = sp.fft2(a.astype("c16" if dtype == "c128" else "f8"))
    norms = [("'fro'", np.linalg.norm(wide)), ("1", np.abs(wide).sum(0).max()), ("inf", np.abs(wide).sum(1).max()),
             ("'max'", np.abs(wide).max())]
    limit(filedb, bytes if dtype == "f64" else bytes * 2 if dtype == "c128" else bytes // 2)
    for threads in (1, 2, 3):
        q(filedb, "SELECT gx_config('threads', ?)", threads)
        for kind, want in norms:
            before = counters(filedb, "bytes_written", "spills")
            got = q(filedb, "SELECT gx_eval(?)", f"norm(fft2(A), {kind})")
            written, spills = (now - then for now, then in zip(counters(filedb, "bytes_written", "spills"), before))
            assert abs(got - want) <= 1e-13 * (1 if dtype != "f32" else 1e8) * want
            if threads > 1 and kind == "'fro'":
                half = 1 if dtype == "c128" else (m // 2 + 1) / m
                assert spills == 1 and written == int(round(2 * 8 * m * n * half)) // (2 if dtype == "f32" else 1)
        sums = to_numpy(q(filedb, "SELECT gx_eval('sum(fft2(A), 0)')"))
        check(sums.astype("c16").ravel(), wide.sum(0), 1e-15 if dtype != "f32" else 1e-8)
        if dtype != "c128":
            want = np.linalg.norm(sp.rfft2(a.astype("f8")))
            assert abs(q(filedb, "SELECT gx_eval('norm(rfft2(A))')") - want) <= (1e-13 if dtype == "f64" else 1e-6) * want


def test_reduced_to_the_same_bits(filedb):
    """Under `deterministic` the memory limit and the threads decide nothing."""
    q(filedb, "SELECT gx_config('tile_bytes', 65536)")
    q(filedb, "SELECT gx_config('deterministic', 1)")
    q(filedb, "SELECT gx_store('A', ?)", from_numpy(draw((600, 600), 7)))
    seen = set()
    for bytes, threads in ((1000000, 1), (1000000, 2), (1500000, 2), (2900000, 3)):
        limit(filedb, bytes)
        q(filedb, "SELECT gx_config('threads', ?)", threads)
        q(filedb, "SELECT gx_eval('F := fft2(A)')")
        limit(filedb, 1 << 30)
        seen.add(q(filedb, "SELECT gx_copy('F')"))
        q(filedb, "SELECT gx_drop('F')")
    assert len(seen) == 1


def test_temporary_data_in_memory(filedb):
    """Where temporary data are to stay in memory no file is made; the numbers are the same."""
    q(filedb, "SELECT gx_config('tile_bytes', 65536)")
    q(filedb, "SELECT gx_store('A', ?)", from_numpy(draw((700, 700), 9)))
    limit(filedb, 1000000)
    want = q(filedb, "SELECT gx_eval('norm(fft2(A))')")
    filedb.execute("PRAGMA temp_store = MEMORY")
    assert abs(q(filedb, "SELECT gx_eval('norm(fft2(A))')") - want) <= 1e-13 * want


def test_interrupted_between_strips(filedb):
    q(filedb, "SELECT gx_random(2500, 2500, 'A')")
    limit(filedb, 26000000)
    text, end, _ = interrupt(filedb, "SELECT gx_eval('norm(fft2(A))')", 0.02)
    assert text is None or "interrupt" in text
    assert end < 2
    assert q(filedb, "SELECT gx_eval('norm(fft2(A))')") > 0


def test_too_long(filedb):
    q(filedb, "SELECT gx_config('tile_bytes', 65536)")
    q(filedb, "SELECT gx_random(300000, 1, 'A')")
    limit(filedb, 3000000)
    message = error(filedb, "SELECT gx_fft('A', 'F')")
    assert "length 300000 needs" in message and "memory_limit" in message
    limit(filedb, 1 << 30)
    check(call(filedb, "gx_fft('A')"), sp.fft(call(filedb, "gx_copy('A')"), axis=0))


def test_refused(db):
    assert "n must be at least 1, not 0" in error(db, "SELECT gx_fft(gx_ones(3, 1), 0)")
    assert "n must be from 1" in error(db, "SELECT gx_irfft(gx_ones(1, 1))")
    assert "real numbers" in error(db, "SELECT gx_rfft(gx_fft(gx_ones(3, 1)))")
    assert "sparse" in error(db, "SELECT gx_fft(gx_sparse(gx_eye(3)))")
    assert "m31" in error(db, "SELECT gx_fft(gx_cast(gx_ones(4, 1), 'm31'))")
    assert "axis" in error(db, "SELECT gx_fft(gx_ones(3, 1), 3, 2)")
    assert "norm" in error(db, "SELECT gx_fft(gx_ones(3, 1), '{\"norm\":\"both\"}')")
    assert "norm" in error(db, "SELECT gx_eval('fft(ones(3), 3, 0, ''both'')')")


def test_programs(db):
    a = draw((64, 3), 8)
    got = call(db, "gx_eval('irfft(rfft(?1) * 2, 64)', ?1)", a)
    check(got, 2 * a)
    check(call(db, "gx_eval('fft(?1, ''all'', 1, ''ortho'')', ?1)", a), sp.fft(a, axis=1, norm="ortho"))
    check(call(db, "gx_eval('dct(?1, 3, 20)', ?1)", a), sp.dct(a, 3, 20, axis=0))
    check(call(db, "gx_eval('real(ifft2(fft2(?1)))', ?1)", a), a)


def test_interrupt(filedb):
    q(filedb, "SELECT gx_random(1048583, 8, 'A')")  # a prime
    text, end, _ = interrupt(filedb, "SELECT length(gx_fft('A'))", 0.05)
    assert text is None or "interrupt" in text
    assert end < 2
