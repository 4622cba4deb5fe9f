-- Handwritten digits: from rows to a matrix, its covariance, and back to rows.
-- Run from the repository's root:  sqlite3 -cmd '.load ./gx' < sql/examples/02_digits.sql

-- 1797 lines of 64 pixels (0..16) and the digit they show.
CREATE TABLE line(text TEXT);
.separator "\t" "\n"
.import '|gzip -dc sql/data/digits.csv.gz' line

-- Each line is a row of a matrix, by way of JSON.
SELECT gx_store_rows('digits', rowid - 1, '[' || text || ']') FROM line;
SELECT gx_slice('digits', 0, 1797, 0, 64, 'X');
SELECT name, rows, cols, dtype, bytes FROM gx;

-- The labels stay an ordinary table: they are the last column of the matrix.
CREATE TABLE label(i INTEGER PRIMARY KEY, digit INTEGER);
INSERT INTO label SELECT i, value FROM gx_cells('digits') WHERE j = 64;
SELECT digit, count(*) FROM label GROUP BY digit;

-- Covariance of the pixels, 64 x 64:  (X - mean)^T (X - mean) / (n - 1).
SELECT gx_sub('X', gx_mean('X', 0), 'centred');
SELECT gx_scale(gx_matmul('centred', 'centred', '{"transa":true}'), 1.0 / 1796, 'covariance');
SELECT gx_info('covariance');

-- The pixels that vary most, and how they differ between digits: SQL over the matrix's cells.
SELECT i AS pixel, round(value, 2) AS variance
  FROM gx_cells('covariance') WHERE i = j ORDER BY value DESC LIMIT 3;
SELECT digit, round(avg(value), 1) AS mean_of_pixel_42
  FROM gx_cells('X') JOIN label USING (i) WHERE j = 42 GROUP BY digit;

-- A few digits, drawn: row i of X is an 8 x 8 picture.
SELECT 'a ' || digit || char(10) || gx_heatmap(gx_from_cells(j / 8, j % 8, value), '{"width":16,"height":8}')
  FROM gx_cells('X') JOIN label USING (i) WHERE i IN (0, 13, 1796) GROUP BY i;

-- What the digits of each class look like on average.
CREATE TABLE class_mean AS
  SELECT digit, j, avg(value) AS value FROM gx_cells('X') JOIN label USING (i) GROUP BY digit, j;
SELECT 'the mean ' || digit || char(10) || gx_heatmap(gx_from_cells(j / 8, j % 8, value), '{"width":16,"height":8}')
  FROM class_mean WHERE digit IN (0, 1, 4) GROUP BY digit;
