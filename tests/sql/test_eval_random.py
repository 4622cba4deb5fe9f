"""Random programs: gx_eval against NumPy.

Plan:
- programs of some 10 to 30 steps (evalkit.py): broadcasting, dtypes, loops, slices, reductions; the value, its shape and its
  dtype are NumPy's, with all passes and with none, on the CPU and by the reference;
- larger matrices with so little memory that most have to be streamed or spilled: NumPy's answer, or a refusal that says so;
- GX_PROGRAMS=20000 runs as many, here and on the stand-in device (test_eval_device.py).
"""
import json
import os
import sqlite3

import numpy as np
import pytest

from conftest import from_numpy, gx_connect, q, to_numpy
from evalkit import Generator, larger

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


@pytest.mark.parametrize("limit", ["300KB", "600KB"])
def test_little_memory(tmp_path, limit):
    db = gx_connect(str(tmp_path / "a.db"))
    q(db, "SELECT gx_config('tile_bytes', 65536)")
    right = 0
    for seed in range(10000, 10000 + max(20, PROGRAMS // 8)):
        generator = larger(seed, 150)
        made = generator.program(4)
        if made is None:
            continue
        text, want, tolerance = made
        q(db, "SELECT gx_config('memory_limit', '1GB')")
        for name, matrix in generator.stored.items():
            q(db, "SELECT gx_store(?, ?, '{\"replace\":true}')", name, from_numpy(matrix))
        q(db, "SELECT gx_config('memory_limit', ?)", limit)
        try:
            got = result(db, "unused = ?1 * ?2; " + text, generator.env["?1"], generator.env["?2"], {})
        except sqlite3.Error as refusal:
            assert "memory_limit" in str(refusal) or "fit in memory" in str(refusal), (seed, text)
            continue
        got = got if isinstance(got, np.ndarray) else np.array([[np.nan if got is None else got]])
        assert got.shape == want.shape and np.allclose(got, want, rtol=0, atol=tolerance), (seed, text)
        right += 1
    assert right > 0
    db.close()
