-- The tables of gx in one database schema.  docs/format.md is the contract; the build embeds this
-- file (main stands for any schema), and gx runs it when the first matrix is stored there.  The
-- comments inside the parentheses travel with the database: `.schema` shows them without gx.

CREATE TABLE main.gx_meta(
  id INTEGER PRIMARY KEY, -- 1 to 2^31-1, never used twice in one file
  name TEXT UNIQUE,       -- NULL while the matrix is being written
  rows INTEGER,
  cols INTEGER,
  dtype INTEGER,          -- 0 f64, 1 f32, 2 c128, 3 c64
  tile_rows INTEGER,      -- rows of a full tile; the last ones hold what is left
  tile_cols INTEGER,
  properties INTEGER,     -- 1 symmetric, 2 hermitian, 4 positive definite, 8 lower triangular,
                          -- 16 upper triangular, 32 unit diagonal, 64 orthogonal; added up;
                          -- 128 these are the elements of an LU, 256 of a QR factorisation,
                          -- 131072 sparse: a tile is a panel of rows
  generation INTEGER,     -- new with every write, never used twice in one file
  aux BLOB                -- of a factorisation: its pivots or the scalars of its reflectors; of a
                          -- sparse matrix: rows and entries of its panels; else NULL
);

CREATE TABLE main.gx_tile(
  id INTEGER PRIMARY KEY, -- gx_meta.id << 32 | tile; tile = tile column * tile rows in all + tile row
  data BLOB               -- the tile's elements, column after column, little-endian
);

CREATE TABLE main.gx_state(
  key TEXT PRIMARY KEY,   -- format (of these tables), next_id, next_generation
  value INTEGER
) WITHOUT ROWID;

INSERT INTO main.gx_state VALUES('format', 1), ('next_id', 1), ('next_generation', 1);
