-- Linear regression: which measurements of a tumour tell benign from malignant.
-- Run from the repository's root:  sqlite3 -cmd '.load ./gx' < sql/examples/04_regression.sql

-- 569 tumours, 30 measurements each; the last column is 1 for benign, 0 for malignant.
SELECT gx_import('cancer', 'sql/data/breast_cancer.csv', '{"skip":1}');
-- cancer
SELECT rows, cols FROM gx WHERE name = 'cancer';
-- 569|31

-- Least squares, class = b0 + b1 radius + b2 texture + ..., in one statement: a column of ones beside
-- the measurements, the last column as what is to be explained, the coefficients as rows.
SELECT i AS measurement, round(value, 3) AS coefficient
  FROM gx_cells(gx_lstsq(gx_hstack(gx_ones(569, 1), gx_slice('cancer', 0, 569, 0, 30)),
                         gx_slice('cancer', 0, 569, 30, 31)))
 WHERE i > 0 ORDER BY abs(value) DESC LIMIT 4;
-- 15|-15.854
-- 18|-10.568
-- 20|7.146
-- 30|-4.303

-- The same in steps, to look at the fit: how much of the variance it explains, and the share of
-- tumours that it classifies rightly when cut at 1/2.
SELECT gx_hstack(gx_ones(569, 1), gx_slice('cancer', 0, 569, 0, 30), '{"destination":"X"}');
-- X
SELECT gx_slice('cancer', 0, 569, 30, 31, 'y');
-- y
SELECT gx_matmul('X', gx_lstsq('X', 'y'), 'fit');
-- fit
SELECT round(1 - sum((y.value - f.value) * (y.value - f.value))
                 / (sum(y.value * y.value) - 569 * avg(y.value) * avg(y.value)), 3) AS r2,
       round(avg((f.value > 0.5) = (y.value > 0.5)), 3) AS rightly
  FROM gx_cells('y') y JOIN gx_cells('fit') f USING (i);
-- 0.774|0.965

-- The textbook's way, b = (X^T X)^-1 X^T y, squares the condition number, and with it the digits that
-- are lost.  That is why gx_lstsq goes by QR.
SELECT gx_matmul('X', 'X', 'XtX', '{"transa":true}');
-- XtX
SELECT properties FROM gx WHERE name = 'XtX';
-- symmetric,hermitian
SELECT round(log10(gx_cond('X', 2))) AS digits_lost_by_qr,
       round(log10(gx_cond('XtX', 2))) AS digits_lost_by_normal_equations;
-- 6.0|12.0

-- With a little ridge the normal equations do well: (X^T X + I) b = X^T y.  The sum is positive
-- definite, so gx_solve takes Cholesky.
SELECT gx_add('XtX', gx_eye(31), 'S');
-- S
SELECT gx_set_property('S', 'positive', '{"check":true}');
-- symmetric,hermitian,positive
SELECT i AS measurement, round(value, 3) AS coefficient
  FROM gx_cells(gx_solve('S', gx_matmul('X', 'y', '{"transa":true}')))
 WHERE i > 0 ORDER BY abs(value) DESC LIMIT 4;
-- 28|-0.585
-- 1|0.416
-- 8|-0.331
-- 27|-0.32
