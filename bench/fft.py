#!/usr/bin/env python3
"""Fourier transforms beside scipy.fft with one and two workers: `bench/fft.py [--threads 2] [--rounds 5]`.

Each line has gx's median and, as ratios, those of the peers, taken by turns: one column of 2^24 complex numbers, 4096 columns
of 4096 and the transform along both axes, 1000 columns of 1009 and 100 of 10007, primes; real columns, cosines.  Matrices are
bound as values, which Python copies: `copy` is gx_copy(?), what that and a result of the size take without a transform.
"""
import argparse
import os
import pathlib
import sys
import time

import numpy as np
from scipy import fft

from timing import report

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "sql"))
from conftest import from_numpy, gx_connect, q, to_numpy  # noqa: E402


def by_turns(calls, rounds):
    """The median seconds of each."""
    taken = [[] for _ in calls]
    for _ in range(rounds + 1):  # the first is for memory to be there
        for call, seconds in zip(calls, taken):
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
    return [sorted(seconds[1:])[rounds // 2] for seconds in taken]


def case(db, rounds, name, a, function, peer):
    value = from_numpy(a)
    got, want = to_numpy(q(db, f"SELECT gx_{function}(?)", value)), peer(1)
    same = "equal" if np.linalg.norm(got - want) <= 1e-14 * np.linalg.norm(want) else "DIFFERENT"
    del got, want
    gx, one, two, copy = by_turns([lambda: q(db, f"SELECT length(gx_{function}(?))", value), lambda: peer(1), lambda: peer(2),
                                   lambda: q(db, "SELECT length(gx_copy(?))", value)], rounds)
    report(f"{name}: {same}", gx, scipy=one, scipy_2=two, copy=copy)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    db, rng = gx_connect(threads=args.threads), np.random.default_rng(1)

    def draw(*shape):
        return np.asfortranarray(rng.standard_normal(shape) + 1j * rng.standard_normal(shape))

    for rows, columns in ((1 << 24, 1), (4096, 4096), (1009, 1000), (10007, 100)):
        a = draw(rows, columns)
        case(db, args.rounds, f"fft {rows} x {columns}", a, "fft", lambda w: fft.fft(a, axis=0, workers=w))
        if rows == columns:
            case(db, args.rounds, f"fft2 {rows} x {columns}", a, "fft2", lambda w: fft.fft2(a, workers=w))
    a = np.asfortranarray(rng.standard_normal((4096, 2000)))
    case(db, args.rounds, "rfft 4096 x 2000", a, "rfft", lambda w: fft.rfft(a, axis=0, workers=w))
    case(db, args.rounds, "dct 4096 x 2000", a, "dct", lambda w: fft.dct(a, axis=0, workers=w))


if __name__ == "__main__":
    main()
