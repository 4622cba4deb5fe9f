-- Handwritten digits: from rows to a matrix, its covariance, and back to rows.
-- Run from the repository's root:  sqlite3 -cmd '.load ./gx' < sql/examples/02_digits.sql

-- 1797 lines of 64 pixels (0..16) and the digit they show.
CREATE TABLE line(text TEXT);
.separator "\t" "\n"
.import '|gzip -dc sql/data/digits.csv.gz' line
.separator "|" "\n"

-- Each line is a row of a matrix, by way of JSON.
SELECT gx_store_rows('digits', rowid - 1, '[' || text || ']') FROM line;
-- digits
SELECT gx_slice('digits', 0, 1797, 0, 64, 'X');
-- X
SELECT name, rows, cols, dtype, bytes FROM gx;
-- X|1797|64|f64|920064
-- digits|1797|65|f64|934440

-- The labels stay an ordinary table: they are the last column of the matrix.
CREATE TABLE label(i INTEGER PRIMARY KEY, digit INTEGER);
INSERT INTO label SELECT i, value FROM gx_cells('digits') WHERE j = 64;
SELECT digit, count(*) FROM label GROUP BY digit;
-- 0|178
-- 1|182
-- 2|177
-- 3|183
-- 4|181
-- 5|182
-- 6|181
-- 7|179
-- 8|174
-- 9|180

-- Covariance of the pixels, 64 x 64:  (X - mean)^T (X - mean) / (n - 1).
SELECT gx_sub('X', gx_mean('X', 0), 'centred');
-- centred
SELECT gx_scale(gx_matmul('centred', 'centred', '{"transa":true}'), 1.0 / 1796, 'covariance');
-- covariance
SELECT gx_info('covariance');
-- {"name":"covariance","schema":"main","rows":64,"cols":64,"dtype":"f64","bytes":32768,"properties":"","tile_rows":64,"tile_cols":64,"tiles":1,"generation":4}

-- The pixels that vary most, and how they differ between digits: SQL over the matrix's cells.
SELECT i AS pixel, round(value, 2) AS variance
  FROM gx_cells('covariance') WHERE i = j ORDER BY value DESC LIMIT 3;
-- 42|42.74
-- 43|41.49
-- 34|40.0
SELECT digit, round(avg(value), 1) AS mean_of_pixel_42
  FROM gx_cells('X') JOIN label USING (i) WHERE j = 42 GROUP BY digit;
-- 0|13.3
-- 1|5.2
-- 2|5.4
-- 3|1.4
-- 4|11.3
-- 5|1.3
-- 6|14.7
-- 7|5.4
-- 8|10.7
-- 9|0.5

-- A few digits, drawn: row i of X is an 8 x 8 picture.
SELECT 'a ' || digit || char(10) || gx_heatmap(gx_from_cells(j / 8, j % 8, value), '{"width":16,"height":8}')
  FROM gx_cells('X') JOIN label USING (i) WHERE i IN (0, 13, 1796) GROUP BY i;
-- a 0
-- ┌────────────────┐
-- │    ░░██▓▓      │
-- │    ████▓▓██░░  │
-- │  ░░██    ▓▓▒▒  │
-- │  ░░██    ▒▒▒▒  │
-- │  ░░▒▒    ▓▓▒▒  │
-- │  ░░▓▓    ██▒▒  │
-- │    ██░░▓▓██    │
-- │    ▒▒██▓▓      │
-- └────────────────┘
-- 8x8 f64, |a| from 0.0 ' ' to 15.0 '█'
-- a 3
-- ┌────────────────┐
-- │    ▒▒████▒▒    │
-- │  ░░██▒▒▒▒██▒▒  │
-- │      ░░████    │
-- │      ▓▓██      │
-- │        ██▓▓    │
-- │          ██░░  │
-- │    ░░░░████░░  │
-- │    ▓▓▓▓██▓▓    │
-- └────────────────┘
-- 8x8 f64, |a| from 0.0 ' ' to 16.0 '█'
-- a 8
-- ┌────────────────┐
-- │    ▓▓██▒▒      │
-- │    ████░░      │
-- │    ████▒▒██    │
-- │    ░░████▓▓    │
-- │    ▓▓████▓▓    │
-- │  ░░██░░░░██░░  │
-- │  ▒▒██▓▓▒▒██▒▒  │
-- │    ▒▒▓▓██▓▓    │
-- └────────────────┘
-- 8x8 f64, |a| from 0.0 ' ' to 16.0 '█'

-- What the digits of each class look like on average.
CREATE TABLE class_mean AS
  SELECT digit, j, avg(value) AS value FROM gx_cells('X') JOIN label USING (i) GROUP BY digit, j;
SELECT 'the mean ' || digit || char(10) || gx_heatmap(gx_from_cells(j / 8, j % 8, value), '{"width":16,"height":8}')
  FROM class_mean WHERE digit IN (0, 1, 4) GROUP BY digit;
-- the mean 0
-- ┌────────────────┐
-- │    ░░██▓▓░░    │
-- │    ██████▓▓    │
-- │  ░░██░░  ██░░  │
-- │  ░░██    ▓▓▒▒  │
-- │  ▒▒██    ▓▓▒▒  │
-- │  ░░██    ▓▓▒▒  │
-- │    ██▓▓▓▓██    │
-- │    ░░████░░    │
-- └────────────────┘
-- 8x8 f64, |a| from 0.0 ' ' to 14.2753 '█'
-- the mean 1
-- ┌────────────────┐
-- │      ▓▓▓▓▒▒    │
-- │    ░░████▒▒    │
-- │    ▒▒████▒▒    │
-- │    ▓▓████▒▒    │
-- │    ▒▒▓▓██░░    │
-- │    ░░▓▓██░░    │
-- │    ░░▓▓██▒▒    │
-- │      ▓▓██▒▒░░  │
-- └────────────────┘
-- 8x8 f64, |a| from 0.0 ' ' to 14.8571 '█'
-- the mean 4
-- ┌────────────────┐
-- │      ▒▒▓▓      │
-- │    ░░██▒▒      │
-- │    ▓▓▓▓░░░░░░  │
-- │  ░░██▒▒▒▒▓▓▒▒  │
-- │  ▒▒██▓▓████░░  │
-- │  ▒▒▓▓████▓▓    │
-- │      ▒▒██░░    │
-- │      ▒▒██      │
-- └────────────────┘
-- 8x8 f64, |a| from 0.0 ' ' to 14.6188 '█'
