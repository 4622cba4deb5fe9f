-- A curve through noisy points, with its uncertainty: Gaussian-process regression in SQL.
-- Run from the repository's root:  sqlite3 -cmd '.load ./gx' < sql/examples/06_gaussian_process.sql

-- Some measurements y at times x, of a signal that we know only to be smooth.
CREATE TABLE seen(i INTEGER PRIMARY KEY, x REAL, y REAL);
WITH RECURSIVE t(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM t WHERE i < 39)
INSERT INTO seen SELECT i, 0.2 * i, round(sin(0.2 * i) + 0.05 * ((i * 7919) % 13 - 6) / 6.0, 6) FROM t;

-- The places where we want to know the curve.
CREATE TABLE wanted(i INTEGER PRIMARY KEY, x REAL);
INSERT INTO wanted VALUES (0, 0.5), (1, 3.3), (2, 5.05), (3, 12.0);

-- Smooth means: values at nearby times are correlated, by exp(-(distance / 1.5)^2 / 2).  The
-- covariance of the measurements, noise on the diagonal, is a query; so is that with what is wanted.
SELECT gx_store_cells('K', a.i, b.i, exp(-(a.x - b.x) * (a.x - b.x) / 4.5) + (a.i = b.i) * 0.0025)
  FROM seen a, seen b;
-- K
SELECT gx_store_cells('Ks', a.i, b.i, exp(-(a.x - b.x) * (a.x - b.x) / 4.5))
  FROM seen a, wanted b;
-- Ks
SELECT gx_store_cells('y', i, 0, y) FROM seen;
-- y

-- A covariance is symmetric positive definite.  Let gx look instead of taking our word.
SELECT gx_set_property('K', 'positive', '{"check":true}');
-- symmetric,hermitian,positive

-- The curve: mean = Ks^T K^-1 y.  Factor K once, use the factor twice.
SELECT gx_cholesky('K', 'L');
-- L
SELECT gx_matmul('Ks', gx_solve('L', 'y', '{"factor":"cholesky"}'), 'mean', '{"transa":true}');
-- mean

-- Its uncertainty: variance = 1 - the squared lengths of the columns of L^-1 Ks, which is a solve
-- with L itself, a triangle.
SELECT gx_solve('L', 'Ks', 'V');
-- V
SELECT w.x, round(m.value, 2) AS curve, round(sqrt(1 - v.explained), 2) AS uncertainty
  FROM wanted w JOIN gx_cells('mean') m ON m.i = w.i
  JOIN (SELECT j, sum(value * value) AS explained FROM gx_cells('V') GROUP BY j) v ON v.j = w.i;
-- 0.5|0.47|0.02
-- 3.3|-0.15|0.02
-- 5.05|-0.95|0.02
-- 12.0|-0.03|1.0

-- How likely is such data under this covariance?  log p = -(y^T K^-1 y + log det K + n log 2 pi) / 2.
-- log det K is twice the sum of the logarithms of L's diagonal.
SELECT round(-0.5 * (gx_trace(gx_matmul('y', gx_solve('K', 'y'), '{"transa":true}'))
                     + 2 * (SELECT sum(ln(value)) FROM gx_cells('L') WHERE i = j)
                     + 40 * ln(2 * pi())), 2) AS log_likelihood;
-- 47.84
