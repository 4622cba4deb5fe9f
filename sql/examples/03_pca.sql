-- Handwritten digits by their principal components: pictures, shares of variance, a map, a classifier.
-- Run from the repository's root:  sqlite3 -cmd '.load ./gx' < sql/examples/03_pca.sql

CREATE TABLE line(text TEXT);
.separator "\t" "\n"
.import '|gzip -dc sql/data/digits.csv.gz' line
.separator "|" "\n"
SELECT gx_store_rows('digits', rowid - 1, '[' || text || ']') FROM line;
-- digits
SELECT gx_slice('digits', 0, 1797, 0, 64, 'X');
-- X
CREATE TABLE label(i INTEGER PRIMARY KEY, digit INTEGER);
INSERT INTO label SELECT i, value FROM gx_cells('digits') WHERE j = 64;

-- How much of the variance the first ten of 64 directions hold.
SELECT component, round(variance, 2), round(ratio, 4), round(sum(ratio) OVER (ORDER BY component), 4) AS so_far
  FROM gx_pca('X', 10);
-- 0|179.01|0.1489|0.1489
-- 1|163.72|0.1362|0.2851
-- 2|141.79|0.1179|0.403
-- 3|101.1|0.0841|0.4871
-- 4|69.51|0.0578|0.545
-- 5|59.11|0.0492|0.5941
-- 6|51.88|0.0432|0.6373
-- 7|44.02|0.0366|0.6739
-- 8|40.31|0.0335|0.7074
-- 9|37.01|0.0308|0.7382

-- The first components as pictures of 8 x 8 pixels (magnitudes).
SELECT 'component ' || component || char(10) ||
       (SELECT gx_heatmap(gx_from_cells(i / 8, i % 8, value), '{"width":16,"height":8}') FROM gx_cells(vector))
  FROM gx_pca('X', 3);
-- component 0
-- ┌────────────────┐
-- │    ▓▓░░  ░░    │
-- │  ░░▓▓▒▒  ▒▒    │
-- │  ░░░░▒▒▒▒▒▒    │
-- │    ▓▓  ▒▒      │
-- │  ▒▒██▒▒░░      │
-- │  ░░██▓▓▒▒      │
-- │      ░░░░░░    │
-- │    ▓▓░░  ░░    │
-- └────────────────┘
-- 8x8 f64, |a| from 0.0 ' ' to 0.368691 '█'
-- component 1
-- ┌────────────────┐
-- │          ░░░░  │
-- │    ░░  ░░      │
-- │    ▓▓  ▓▓      │
-- │  ░░▓▓▒▒██  ░░  │
-- │  ░░░░████▒▒▒▒  │
-- │    ▒▒████▓▓▓▓  │
-- │    ▒▒░░░░██▒▒  │
-- │    ░░  ▓▓▒▒    │
-- └────────────────┘
-- 8x8 f64, |a| from 0.0 ' ' to 0.301576 '█'
-- component 2
-- ┌────────────────┐
-- │    ░░░░░░▓▓░░  │
-- │  ░░░░    ▓▓▒▒  │
-- │      ░░░░██▒▒  │
-- │    ░░░░  ██▒▒  │
-- │      ▒▒  ▓▓░░  │
-- │    ░░▒▒░░▒▒    │
-- │    ▓▓▒▒  ░░▓▓  │
-- │    ░░░░░░▓▓▒▒  │
-- └────────────────┘
-- 8x8 f64, |a| from 0.0 ' ' to 0.353008 '█'

-- The model, and every digit as ten numbers instead of 64.
SELECT gx_pca('X', 10, 'model');
-- model
SELECT gx_pca_project('X', 'model', 'scores');
-- scores
CREATE TABLE score(i INTEGER, j INTEGER, value REAL, PRIMARY KEY(i, j)) WITHOUT ROWID;
INSERT INTO score SELECT i, j, value FROM gx_cells('scores');

-- A map: the first component to the right, the second upward; a character shows the digit met most often there.
WITH RECURSIVE
  place AS (SELECT digit, CAST((x.value + 32) / 64 * 60 AS INTEGER) AS column, CAST((y.value + 28) / 56 * 20 AS INTEGER) AS line
              FROM label JOIN score AS x USING (i) JOIN score AS y USING (i) WHERE x.j = 0 AND y.j = 1),
  often AS (SELECT line, column, digit, row_number() OVER (PARTITION BY line, column ORDER BY count(*) DESC, digit) AS rank
              FROM place GROUP BY line, column, digit),
  lines(line) AS (SELECT 20 UNION ALL SELECT line - 1 FROM lines WHERE line > 0),
  columns(column) AS (SELECT 0 UNION ALL SELECT column + 1 FROM columns WHERE column < 60)
SELECT rtrim(group_concat(mark, '')) FROM
  (SELECT line, column, coalesce(digit, ' ') AS mark FROM lines JOIN columns LEFT JOIN often USING (line, column)
    WHERE coalesce(rank, 1) = 1 ORDER BY line DESC, column)
 GROUP BY line ORDER BY line DESC;
--
--               3  3 3          1 11 11111
--                 3      7   7 717 111 1111  1
--                   3   7777377711 777111111   1
--                 3 7 777777777777777 11111111 1  1
--           3    3  28853877875777771111 17 111 14  4
--         3  22222222 22222287789557772118111 141444 4 44
--        333 3222222222222285521888157111711 444 4 444   4
--        33 332232 222222222815151881285 884 14444444  4
--       3 3 3333222222222222228128181511 1 114444444444444 4
--       3333333233292332828821118875557519 1  44644444444444
--  3  3333333 39 23 2 288858815895585  95 56 4444444644444 4 4
--   333333333333933258 5181288188558     9  64664504644 4444
-- 3 3333 3 333933339395851555052899 8   556 466466666 4   444
--      339999999 299939 115158 5       506666066666666 44444
--    3 39 9999999995555955 50  00505 65 0006666666666  44 4
--         9 9 999555 5551  15  50    0  0606666666  4
--                55 55 0 0  000000000000 066666666 4
--                   0    0 0000000000000600 66
--                     0  00000000000000006
--                        00000 000000 0

-- Nearest class mean in the ten components: means from even rows, tried on odd ones.
CREATE TABLE centre AS SELECT digit, j, avg(value) AS value FROM score JOIN label USING (i) WHERE i % 2 = 0 GROUP BY digit, j;
WITH distance AS (SELECT i, centre.digit, sum((score.value - centre.value) * (score.value - centre.value)) AS d
                    FROM score JOIN centre USING (j) WHERE i % 2 = 1 GROUP BY i, centre.digit),
     nearest AS (SELECT i, digit, min(d) FROM distance GROUP BY i)
SELECT 'nearest class mean is right for ' || round(100.0 * avg(nearest.digit = label.digit), 1) || ' % of ' || count(*) || ' digits'
  FROM nearest JOIN label USING (i);
-- nearest class mean is right for 87.9 % of 898 digits
