-- First steps: a matrix is a name, a literal or a value; results are stored when they get a name.
-- Run from the repository's root:  sqlite3 -cmd '.load ./gx' < sql/examples/01_first_steps.sql

SELECT gx_store('A', '[[4, 1, 0], [1, 3, 1], [0, 1, 2]]');
-- A
SELECT gx_show('A');
-- [[4. 1. 0.]
--  [1. 3. 1.]
--  [0. 1. 2.]]

-- A product of a stored matrix and a literal (a flat list is a column), printed as JSON.
SELECT gx_json(gx_matmul('A', '[1, 2, 3]'));
-- [[6.0],[10.0],[8.0]]

-- The same stored: any size, larger than memory too.
SELECT gx_matmul('A', 'A', 'A2');
-- A2
SELECT name, rows, cols, dtype, bytes FROM gx;
-- A|3|3|f64|72
-- A2|3|3|f64|72

-- Matrices are rows when SQL wants rows ...
SELECT i, j, value FROM gx_cells('A2') WHERE value > 4 ORDER BY value DESC;
-- 0|0|17.0
-- 1|1|11.0
-- 1|0|7.0
-- 0|1|7.0
-- 2|1|5.0
-- 1|2|5.0
-- 2|2|5.0

-- ... and rows become matrices.
CREATE TABLE edge(a INTEGER, b INTEGER, weight REAL);
INSERT INTO edge VALUES (0, 1, 0.5), (1, 2, 1.5), (2, 0, 1.0);
SELECT gx_store_cells('G', a, b, weight) FROM edge;
-- G
SELECT gx_show(gx_matmul('G', 'G'));
-- [[0.   0.   0.75]
--  [1.5  0.   0.  ]
--  [0.   0.5  0.  ]]

-- A value is a BLOB: it lives in any column.
CREATE TABLE sensor(name TEXT, reading BLOB);
INSERT INTO sensor SELECT 'left', gx_scale('A', 0.5);
SELECT name, gx_norm(reading) FROM sensor;
-- left|2.87228132326901
