"""Random programs: gx_eval against NumPy.

Plan:
- programs of some 10 to 30 steps (evalkit.py): broadcasting, dtypes, loops, slices, reductions; the value, its shape and its
  dtype are NumPy's, with all passes and with none, on the CPU and by the reference;
- GX_PROGRAMS=20000 runs as many.
"""
import json
import os

import numpy as np
import pytest

from conftest import from_numpy, gx_connect, q, to_numpy
from evalkit import Generator

PROGRAMS = int(os.environ.get("GX_PROGRAMS", "240"))
PIECES = 8


def result(db, text, argument, number, options):
    value = q(db, "SELECT gx_eval(?, ?, ?, ?)", text, from_numpy(argument), number, json.dumps(options))
    return to_numpy(value) if isinstance(value, bytes) else value


def check(db, seed, options):
    generator = Generator(seed)
    made = generator.program(6)
    if made is None:
        return 0
    text, want, tolerance = made
    text = "unused = ?1 * ?2; " + text  # arguments have to be named
    for name, matrix in generator.stored.items():
        q(db, "SELECT gx_store(?, ?, '{\"replace\":true}')", name, from_numpy(matrix))
    got = result(db, text, generator.env["?1"], generator.env["?2"], options)
    if not isinstance(got, np.ndarray):
        got = np.array([[np.nan if got is None else got]])
    assert got.shape == want.shape, (seed, text)
    assert np.allclose(got, want, rtol=0, atol=tolerance), (seed, text, np.max(np.abs(got - want)), tolerance)
    return 1


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("piece", range(PIECES))
def test_programs(piece, backend):
    db = gx_connect()
    q(db, "SELECT gx_config('backend', ?)", backend)
    count = 0
    for seed in range(piece, PROGRAMS, PIECES):
        for options in ({}, {"optimize": False}):
            count += check(db, seed, options)
    assert count > PROGRAMS // PIECES
    db.close()
