#!/usr/bin/env python3
"""Exact arithmetic beside python-flint and gx's own products of doubles: `bench/exact.py [--order 4096] [--threads 2]`.

Each line has gx's median and, as ratios, the product of doubles of the same order, FLINT with as many threads where
python-flint is installed, and the scan of what is read.  --device: products on the GPU, too (GX_BACKEND is not looked at).
"""
import argparse
import json
import pathlib
import random
import sys
import tempfile

from timing import median, report

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "sql"))
from conftest import gx_connect, q  # noqa: E402

P = 2**31 - 1


def flint_of(threads):
    try:
        import flint
    except ImportError:
        return None
    flint.ctx.threads = threads
    return flint


def field(db, name, m, n, seed=1):
    q(db, f"SELECT gx_cast(gx_eval('floor(random({m}, {n}, {seed}) * {P})'), 'm31', '{name}')")


def products(db, flint, order, rounds):
    field(db, "M", order, order)
    q(db, f"SELECT gx_randn({order}, {order}, 'F')")
    doubles = median(lambda: q(db, "SELECT length(gx_matmul('F', 'F'))"), rounds)
    beside = {"doubles": doubles}
    if flint:
        a = flint.nmod_mat(order, order, [random.randrange(P) for _ in range(order * order)], P)
        beside["FLINT"] = median(lambda: a * a, 1)
    report(f"m31 product, {order}", median(lambda: q(db, "SELECT length(gx_matmul('M', 'M'))"), rounds), **beside)
    n = min(order, 2048)
    field(db, "S", n, n, 2)
    beside = {}
    if flint:
        s = flint.nmod_mat(n, n, [random.randrange(P) for _ in range(n * n)], P)
        beside["FLINT"] = median(s.det, 1)
    report(f"m31 determinant, {n}", median(lambda: q(db, "SELECT gx_det('S')"), rounds), **beside)
    if flint:
        beside["FLINT"] = median(s.inv, 1)
    report(f"m31 inverse, {n}", median(lambda: q(db, "SELECT length(gx_inverse('S'))"), rounds), **beside)


def whole_numbers(db, flint):
    def numbers(m, n):
        return [[random.randrange(-2**63, 2**63) for _ in range(n)] for _ in range(m)]

    for what, sql, n, peer in (("determinant of i64, 200", "gx_det(?1, '{\"exact\":true}')", 200, lambda f, a, b: f.fmpz_mat(a).det()),
                               ("system of i64, 100", "gx_solve(?1, ?2, '{\"exact\":true}')", 100,
                                lambda f, a, b: f.fmpq_mat(f.fmpz_mat(a)).solve(f.fmpq_mat(f.fmpz_mat(b))))):
        a, b = numbers(n, n), numbers(n, 1)
        given = [json.dumps(a), json.dumps(b)][:sql.count("?")]
        beside = {"FLINT": median(lambda a=a, b=b, peer=peer: peer(flint, a, b), 2)} if flint else {}
        report(what, median(lambda sql=sql, given=given: q(db, "SELECT length(" + sql + ")", *given), 2), **beside)


def transforms(db, rounds):
    for log in (16, 20, 24):
        field(db, f"V{log}", 2**log, 1)
        scan = median(lambda log=log: q(db, f"SELECT gx_sum('V{log}')"), rounds)
        report(f"circle transform, 2^{log}", median(lambda log=log: q(db, f"SELECT length(gx_circle_fft('V{log}'))"), rounds), scan=scan)
        report("  and back", median(lambda log=log: q(db, f"SELECT length(gx_circle_fft('V{log}', 1))"), rounds), scan=scan)


def lattices(db, rounds):
    q(db, "SELECT gx_scale(gx_randn(10000000, 8), 3, 'E')")
    scan = median(lambda: q(db, "SELECT gx_norm('E')"), rounds)
    report("nearest points of E8, 10^7 rows", median(lambda: q(db, "SELECT length(gx_lattice_nearest('E', 'e8'))"), rounds), scan=scan)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--order", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=0, help="0: all")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--device", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, gx_connect(pathlib.Path(folder) / "exact.db") as db:
        if options.threads:
            q(db, "SELECT gx_config('threads', ?)", options.threads)
        threads = int(q(db, "SELECT gx_config('threads')"))
        q(db, "SELECT gx_config('backend', 'cpu')")
        print(q(db, "SELECT gx_version()"), threads, "threads", flush=True)
        flint = flint_of(threads)
        products(db, flint, options.order, options.rounds)
        whole_numbers(db, flint)
        transforms(db, options.rounds)
        lattices(db, options.rounds)
        if options.device:
            q(db, "SELECT gx_config('backend', 'cuda')")
            report(f"m31 product on a GPU, {options.order}", median(lambda: q(db, "SELECT length(gx_matmul('M', 'M'))"), 6))


if __name__ == "__main__":
    main()
