-- A structure under several loads: one factorisation, many solves.
-- Run from the repository's root:  sqlite3 -cmd '.load ./gx' < sql/examples/05_loads.sql

-- bcsstk13 is the stiffness matrix of a fluid-flow problem: K u = f gives the displacements u of
-- 2003 degrees of freedom under a load f.  Stiffness matrices are symmetric positive definite; the
-- file says symmetric, and we know the rest.
SELECT gx_import('K', 'tests/data/bcsstk13.mtx');
-- K
SELECT gx_set_property('K', 'positive');
-- symmetric,hermitian,positive

-- How far can the displacements be trusted?  About 16 digits less the logarithm of this.
SELECT round(log10(gx_cond('K')), 1) AS digits_lost;
-- 10.7

-- Four loads, as rows of an ordinary table: unit forces at single degrees of freedom.
CREATE TABLE load(number INTEGER, dof INTEGER, force REAL);
INSERT INTO load VALUES (0, 10, 1.0), (1, 500, 1.0), (2, 1000, 1.0), (2, 1001, -1.0), (3, 2002, 5.0);
SELECT gx_store_cells('f', dof, number, force, '{"rows":2003,"cols":4}') FROM load;
-- f

-- All of them at once: K is factored (Cholesky, because it is said to be positive definite), and
-- the four columns are solved in one pass over the factor.
SELECT gx_solve('K', 'f', 'u');
-- u
SELECT number, printf('%.4e', max(abs(u.value))) AS largest_displacement
  FROM (SELECT DISTINCT number FROM load) JOIN gx_cells('u') u ON u.j = number GROUP BY number;
-- 0|8.1283e-10
-- 1|3.5838e-09
-- 2|3.3172e-07
-- 3|5.4148e-06

-- Did it work?  The residual relative to what went in.
SELECT gx_norm(gx_sub('f', gx_matmul('K', 'u')), '1')
       < 1e-14 * gx_norm('K', '1') * gx_norm('u', '1') AS is_solved;
-- 1

-- More loads tomorrow: keep the factor.  A Cholesky factor is an ordinary lower triangular matrix;
-- gx_solve takes it in place of K when it is told so, and only substitutes.
SELECT gx_cholesky('K', 'L');
-- L
SELECT gx_solve('L', gx_slice('f', 0, 2003, 3, 4), 'u3', '{"factor":"cholesky"}');
-- u3
SELECT gx_norm(gx_sub('u3', gx_slice('u', 0, 2003, 3, 4))) < 1e-6 * gx_norm('u3') AS is_the_same;
-- 1
