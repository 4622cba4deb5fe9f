"""An interrupt ends a statement of each family, and leaves nothing behind.

Plan:
1. Statements that run long, one of each family (interruptkit.py), by either backend where the loops are another's: interrupted from a
   thread at random moments until two have hit.  The statement ends with "interrupted"; matrices, tables and memory are what they were.
2. bench/interrupts.py measures how soon, which no test can on a busy machine; here it is only not deaf: the shorter of two waits is less
   than 2 s.
"""
import gc
import os
import random

import interruptkit as kit
import pytest
from conftest import gx_connect

DEAF_S = 2


@pytest.fixture(scope="module")
def matrices(tmp_path_factory):
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("interrupts"))
    db = gx_connect("test.db", synchronous="off")
    kit.prepare(db)
    yield db
    db.close()
    os.chdir(before)


@pytest.mark.parametrize("name", kit.FAMILIES)
def test_interrupted(matrices, name):
    db = matrices
    sql, before, after = kit.parts(name)
    chance, waits, most = random.Random(name), [], 0.4
    if before:
        db.execute(before).fetchall()
    try:
        known = kit.state(db)
        for _ in range(40):
            problem, wait, _ = kit.interrupt(db, sql, chance.uniform(0, most))
            gc.collect()
            if problem is None:
                most *= 0.8  # too late
                continue
            assert "interrupted" in problem
            assert kit.state(db) == known
            waits.append(wait)
            if len(waits) == 2:
                break
    finally:
        if after:
            db.execute(after).fetchall()
    assert waits and min(waits) < DEAF_S
