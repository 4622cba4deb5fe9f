#!/usr/bin/env python3
"""Products of matrices stored in f16, bf16 and i8, and searches among such rows, beside torch: `bench/halves.py [--backend cuda|cpu] [--order N]`.

gx's operands are stored (on a device: kept there by an earlier call), torch's are in its memory; what a product comes to is dropped but for
its norm.  On the CPU torch's products are oneDNN's, with as many threads.  Milliseconds: the median, and the least and the most.
"""
import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "sql"))
from conftest import gx_connect, q  # noqa: E402

try:
    import torch
except ImportError:
    torch = None


def timed(call, rounds=11):
    for _ in range(3):
        call()
    took = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        took.append((time.perf_counter() - start) * 1e3)
    return f"{statistics.median(took):9.2f} ({min(took):.2f} - {max(took):.2f})"


def peers(device, n, rows, cols, queries):
    def whole(call):
        def run():
            call()
            if device == "cuda":
                torch.cuda.synchronize()
        return run

    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        a, b = torch.randn(n, n, device=device).to(dtype), torch.randn(n, n, device=device).to(dtype)
        print(f"torch {dtype} product {timed(whole(lambda a=a, b=b: a @ b))}", flush=True)
    a = torch.randint(-100, 100, (n, n), device=device, dtype=torch.int8)
    b = torch.randint(-100, 100, (n, n), device=device, dtype=torch.int8).t()
    print(f"torch int8 product {timed(whole(lambda: torch._int_mm(a, b)))}", flush=True)
    for dtype in (torch.float32, torch.float16) if device == "cuda" else ():
        e, x = torch.randn(rows, cols, device=device, dtype=dtype), torch.randn(queries, cols, device=device, dtype=dtype)
        print(f"torch {dtype} product and topk of {queries} queries {timed(whole(lambda e=e, x=x: torch.topk(x @ e.t(), 10)))}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--order", type=int, default=8192)
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--cols", type=int, default=384)
    parser.add_argument("--queries", type=int, default=1000)
    args = parser.parse_args()
    n = args.order
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        path = str(pathlib.Path(folder) / "h.db")
        with gx_connect(path) as db:
            for name, rows, cols in (("A", n, n), ("E", args.rows, args.cols), ("Q", args.queries, args.cols), ("one", 1, args.cols)):
                q(db, "SELECT gx_randn(?, ?, 'normal')", rows, cols)
                q(db, "SELECT gx_eval('wide := normal * 20')")
                for dtype in ("f32", "f16", "bf16", "i8"):
                    wide = dtype == "i8"
                    q(db, "SELECT gx_cast(?, ?, ?, ?)", "wide" if wide else "normal", dtype, f"{name}_{dtype}", '{"round":true}' if wide else "{}")
                q(db, "SELECT gx_drop('normal')")
                q(db, "SELECT gx_drop('wide')")
        with gx_connect(path) as db:
            q(db, "SELECT gx_config('backend', ?)", args.backend)
            for dtype in ("f32", "f16", "bf16", "i8"):
                product = timed(lambda dtype=dtype: q(db, f"SELECT gx_eval('norm(A_{dtype} @ A_{dtype})')"))
                print(f"gx {dtype} product of order {n} {product}", flush=True)
                for name in ("Q", "one"):
                    sql = f"SELECT count(*) FROM gx_knn('{name}_{dtype}', 'E_{dtype}', 10, '{{\"metric\":\"dot\"}}')"
                    print(f"gx {dtype} {name} among {args.rows} x {args.cols} {timed(lambda sql=sql: q(db, sql))}", flush=True)
    if torch is not None:
        peers("cuda" if args.backend == "cuda" else "cpu", n, args.rows, args.cols, args.queries)


if __name__ == "__main__":
    main()
