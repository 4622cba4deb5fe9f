"""Benchmarks of eigenvalues, singular values and principal components: part of bench.py.

    syev      all values and vectors of a symmetric n = 4096, stored, beside LAPACK's syevd in RAM and a raw INSERT
    eigs      the 10 largest of a dense symmetric n = 8192 beside SciPy's eigsh in RAM; then in a quarter of its size
    big_eigs  the 5 largest of a stored 20 000 x 20 000 f32 matrix in 256 MiB, checked tile by tile with NumPy
    pca       1 000 000 x 64 stored: one pass over the rows, beside NumPy's SVD

--order N scales all of them down to N rows (pca: N * N / 64 rows), to try them.
"""
import statistics
import time

import numpy as np

median = statistics.median


def timed(function, *args):
    start = time.perf_counter()
    function(*args)
    return time.perf_counter() - start


def counters(db):
    return {name: value for name, value in db.execute("SELECT name, value FROM gx_stats")
            if isinstance(value, (int, float))}


def settle(path):
    with open(path, "rb") as file:
        while file.read(1 << 24):
            pass


class Spectra:
    """Methods of bench.Bench, which has path(), report(), connect(), peer(), rounds and order."""

    def symmetric(self, name, n):
        """A database with A = X + X', X standard normal; f64."""
        path = self.path(name)
        db = self.connect(path, tile_bytes=max(1 << 16, min(8 << 20, 8 * n * n // 64)))
        if not db.execute("SELECT count(*) FROM gx").fetchone()[0]:
            db.execute(f"SELECT gx_randn({n}, {n}, 'X', '{{\"seed\":1}}'), gx_add('X', gx_transpose('X'), 'A'), "
                       "gx_drop('X'), gx_set_property('A', 'symmetric')")
        settle(path)
        return path, db

    def array(self, db, name, rows, cols):
        """A NumPy array (column-major) of a stored f64 matrix, through a file."""
        path = self.path(name + ".npy")
        db.execute("SELECT gx_export(?, ?, '{\"overwrite\":true}')", (name, path))
        x = np.load(path)
        assert x.shape == (rows, cols)
        return x

    def syev(self):
        import scipy.linalg
        n = min(self.order, 4096)
        path, db = self.symmetric("syev.db", n)
        a = np.asfortranarray(self.array(db, "A", n, n))
        db.execute("SELECT gx_config('memory_limit', '16GiB')")
        rows = []
        for _ in range(self.rounds):
            lapack_s = timed(lambda: scipy.linalg.eigh(a, driver="evd", check_finite=False))
            insert_s = self.peer("insert", self.path("insert.db"), n * n * 8 + n * 8, 8 << 20, 65536)
            gx_s = timed(lambda: db.execute("SELECT gx_eig('A', 'w', 'V', '{\"replace\":true}')").fetchone())
            rows.append((gx_s, lapack_s, insert_s))
        w, v = self.array(db, "w", n, 1)[:, 0], self.array(db, "V", n, n)
        norm = np.abs(w).max()
        self.report(f"syev {n} stored / (syevd + insert)", median([g / (p + i) for g, p, i in rows]), "ratio",
                    "<= 1.15", gx_s=median([r[0] for r in rows]), syevd_s=median([r[1] for r in rows]),
                    insert_s=median([r[2] for r in rows]))
        self.report("  residual and orthogonality, in n eps",
                    max(np.abs(a @ v - v * w).max() / norm, np.abs(v.T @ v - np.eye(n)).max()) / (n * 2.0**-52),
                    "", "<= 1")
        db.close()

    def eigs(self):
        import scipy.sparse.linalg
        n, k = self.order, 10
        path, db = self.symmetric("eigs.db", n)
        a = self.array(db, "A", n, n)
        call = f"SELECT value FROM gx_eig('A', '{{\"k\":{k},\"which\":\"LA\",\"method\":\"krylov\"}}')"
        rows, worst = [], 0
        for _ in range(self.rounds):
            db.execute("SELECT gx_config('memory_limit', '16GiB')")
            values = []
            scipy_s = timed(lambda: values.append(scipy.sparse.linalg.eigsh(a, k, which="LA")[0]))
            mine = []
            ample_s = timed(lambda: mine.append([x for x, in db.execute(call)]))
            worst = max(worst, np.abs(np.sort(values[0])[::-1] - mine[0]).max() / np.abs(values[0]).max())
            db.execute("SELECT gx_config('memory_limit', ?)", (max(8 * n * n // 4, 6 << 20),))
            scan_s = median([timed(lambda: db.execute("SELECT gx_norm('A')").fetchone()) for _ in range(3)])
            foretold = self.foretold(path, f"eig(A, {k})", '{"which":"LA","method":"krylov"}', max(8 * n * n // 4, 6 << 20))
            before = counters(db)
            tight_s = timed(lambda: db.execute(call).fetchall())
            rows.append((scipy_s, ample_s, tight_s, scan_s,
                         {name: value - before[name] for name, value in counters(db).items() if name in before}, foretold))
        each = [r[4] for r in rows]
        scan = [8 * n * n / r[3] for r in rows]
        seconds = [self.seconds_of_passes(d) for d in each]
        self.report(f"eigs {n}: {k} largest / scipy eigsh", median([r[1] / r[0] for r in rows]), "ratio", "<= 1",
                    scipy_s=median([r[0] for r in rows]), gx_s=median([r[1] for r in rows]), difference=float(worst))
        self.report(f"eigs {n} in a quarter: a scan of A / a pass over A", median([r[3] * d["passes"] / s
                                                             for r, d, s in zip(rows, each, seconds)]), "ratio", ">= 0.85",
                    gx_s=median([r[2] for r in rows]), passes=each[0]["passes"])
        self.report("  passes made / foretold by gx_plan, which has not seen A", each[0]["passes"] / rows[0][5]["calls"], "ratio",
                    "0.8 .. 1.25", foretold=rows[0][5]["calls"], made=each[0]["passes"])
        self.report("  bytes read / foretold by gx_plan", max(d["bytes_read"] / r[5]["bytes_read"] for d, r in zip(each, rows)),
                    "ratio", "<= 1.25")
        self.report("  seconds / foretold by gx_plan", median([r[2] / r[5]["seconds"] for r in rows]), "ratio", "")
        self.report("  bytes streamed/s / scan",
                    median([d["bytes_read"] / s / rate for d, s, rate in zip(each, seconds, scan)]), "of scan",
                    "", pass_ms=1e3 * median([s / d["passes"] for d, s in zip(each, seconds)]),
                    streamed_gb_s=median([d["bytes_read"] / s / 1e9 for d, s in zip(each, seconds)]),
                    scan_gb_s=median(scan) / 1e9)
        self.report("  bytes of A multiplied/s, with those in memory, / scan",
                    median([d["pass_bytes"] / s / rate for d, s, rate in zip(each, seconds, scan)]), "of scan")
        self.report("  bytes read / (pass_bytes: all of the triangle in each)",
                    max(d["bytes_read"] / d["pass_bytes"] for d in each), "ratio", "<= 1")
        db.close()

    def foretold(self, path, expression, options, memory_limit):
        """The row of gx_plan, by a connection that has made no call."""
        db = self.connect(path, tile_bytes=1 << 16)
        db.execute("SELECT gx_config('memory_limit', ?)", (memory_limit,))
        cursor = db.execute("SELECT * FROM gx_plan(?, ?)", (expression, options))
        row = dict(zip((name for name, *_ in cursor.description), cursor.fetchone()))
        db.close()
        return row

    @staticmethod
    def seconds_of_passes(counted):
        return counted["pass_ns"] / 1e9 if "pass_ns" in counted else counted["pass_seconds"]

    def big_eigs(self):
        """
        A(i, j) = min(i, j) / max(i, j) (lehmer), f32: positive definite, values that fall off slowly.  The residuals
        are computed from the tiles, in doubles, without gx.
        """
        n, k = (20000 if self.order >= 8192 else self.order), 5
        path = self.path("big.db")
        db = self.connect(path)
        if not db.execute("SELECT count(*) FROM gx").fetchone()[0]:
            db.execute(f"SELECT gx_matrix_gallery('lehmer', {n}, 'A', '{{\"dtype\":\"f32\"}}'), "
                       "gx_set_property('A', 'symmetric')")
        settle(path)
        limit = (256 << 20) if n == 20000 else max(4 * n * n // 6, 40 << 20)
        db.execute("SELECT gx_config('memory_limit', ?)", (limit,))
        scan_s = median([timed(lambda: db.execute("SELECT gx_norm('A')").fetchone()) for _ in range(3)])
        db.execute("SELECT gx_stats_reset()")  # the peak of making A
        before, found = counters(db), []
        seconds = timed(lambda: found.extend(db.execute(
            f"SELECT value, vector FROM gx_eig('A', '{{\"k\":{k},\"which\":\"LA\",\"method\":\"krylov\"}}')")))
        counted = {name: value - before[name] for name, value in counters(db).items() if name in before}
        peak = counters(db)["memory_peak"]
        w = np.array([value for value, _ in found])
        v = np.stack([np.frombuffer(vector, "<f4", offset=32) for _, vector in found], axis=1).astype(float)
        y = self.product_from_tiles(db, "A", v)
        residual = np.linalg.norm(y - v * w, axis=0).max() / w.max()
        self.report(f"big_eigs {n} f32: {k} largest, residual / ||A||", float(residual), "", "< 1e-5", gx_s=seconds,
                    passes=counted["passes"], memory_peak_mib=peak / 2**20, limit_mib=limit / 2**20)
        rate = counted["bytes_read"] / self.seconds_of_passes(counted)
        self.report("  a scan of A / a pass over A", scan_s * counted["passes"] / self.seconds_of_passes(counted), "ratio",
                    ">= 0.85")
        self.report("  bytes streamed/s in the passes / scan", rate / (4 * n * n / scan_s), "of scan", "",
                    streamed_gb_s=rate / 1e9)
        db.close()

    @staticmethod
    def product_from_tiles(db, name, v):
        """A v of a stored f32 matrix, from its tiles (docs/format.md)."""
        ident, rows, cols, height, width = db.execute(
            "SELECT id, rows, cols, tile_rows, tile_cols FROM gx_meta WHERE name = ?", (name,)).fetchone()
        down = -(-rows // height)
        y = np.zeros((rows, v.shape[1]))
        for key, data in db.execute("SELECT id & 0xffffffff, data FROM gx_tile WHERE id >> 32 = ?", (ident,)):
            i, j = key % down * height, key // down * width
            m = min(height, rows - i)
            tile = np.frombuffer(data, "<f4").reshape(-1, m).T.astype(float)
            y[i:i + m] += tile @ v[j:j + tile.shape[1]]
        return y

    def pca(self):
        m, n, k = (1_000_000 if self.order >= 8192 else self.order * self.order // 64), 64, 10
        path = self.path("pca.db")
        db = self.connect(path)
        if not db.execute("SELECT count(*) FROM gx").fetchone()[0]:
            db.execute(f"SELECT gx_randn({m}, {n}, 'X', '{{\"seed\":1}}'), "
                       f"gx_matmul('X', gx_add(gx_randn({n}, {n}, NULL, '{{\"seed\":2}}'), 1), 'A'), gx_drop('X')")
        settle(path)
        a = self.array(db, "A", m, n)
        call = f"SELECT variance, vector FROM gx_pca('A', {k})"
        rows, worst = [], 0
        for _ in range(self.rounds):
            before, mine, theirs = counters(db)["bytes_read"], [], []
            gx_s = timed(lambda: mine.extend(db.execute(call)))
            read = counters(db)["bytes_read"] - before
            numpy_s = timed(lambda: theirs.extend(np.linalg.svd(a - a.mean(axis=0), full_matrices=False)[1:]))
            variance = theirs[0][:k]**2 / (m - 1)
            worst = max(worst, np.abs(variance - [x for x, _ in mine]).max() / variance[0])
            for j in range(k):
                x = np.frombuffer(mine[j][1], "<f8", offset=32)
                worst = max(worst, 1 - abs(x @ theirs[1][j]))
            rows.append((gx_s, numpy_s, read / (8 * m * n)))
        self.report(f"pca {m} x {n}: bytes read / bytes of A", max(r[2] for r in rows), "ratio", "<= 1.01")
        self.report("  difference from numpy's svd", float(worst), "", "<= 1e-10")
        self.report("  seconds / numpy's", median([g / p for g, p, _ in rows]), "ratio",
                    gx_s=median([r[0] for r in rows]), numpy_s=median([r[1] for r in rows]))
        db.close()
