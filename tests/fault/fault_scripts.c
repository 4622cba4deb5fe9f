/*
** The scripts of the fault harness: one line for each family of functions.  A new function adds
** a line.
**
** Every script runs on a copy of one small database (fault_base) whose tiles are 16 x 16, so
** that a matrix of 40 x 24 has six of them with edges; prep runs undisturbed on the same
** connection, sql under failures.  A script is one statement where it can be, so that "old state
** or new" says something; one that begins a transaction also commits it.  sql NULL: opening the
** database and registering gx.
*/
#include "fault.h"

#include <stddef.h>

const char *const fault_base =
    "SELECT gx_config('tile_bytes', 2048), gx_config('threads', 2);"
    "SELECT gx_randn(40, 24, 'A', '{\"seed\":1}'), gx_randn(24, 40, 'B', '{\"seed\":2}');"
    "SELECT gx_randn(24, 24, 'S', '{\"seed\":3,\"dtype\":\"f32\"}');"
    "SELECT gx_randn(20, 24, 'Z', '{\"seed\":4,\"dtype\":\"c128\"}');"
    "SELECT gx_export('A', 'in.npy', '{\"overwrite\":true}');"
    "SELECT gx_export('S', 'in.mtx', '{\"overwrite\":true}');"
    "SELECT gx_export('B', 'in.csv', '{\"overwrite\":true}');"
    "CREATE TABLE plain(i, j, value);"
    "INSERT INTO plain SELECT i, j, value FROM gx_cells('S') WHERE i < 20 AND j < 3;"
    "CREATE VIRTUAL TABLE cells USING gx_cells('B');";

#define SMALL "SELECT gx_config('tile_bytes', 2048), gx_config('threads', 1);"
/* A database that has not had a matrix. */
#define EMPTY "DROP TABLE cells; DROP TABLE gx_meta; DROP TABLE gx_tile; DROP TABLE gx_state;"
/* Tiles so small that matrices of the base are large enough for volumes. */
#define VOLUMES(n)                                                                                 \
    "SELECT gx_config('tile_bytes', 1024), gx_config('threads', 1);"                               \
    "SELECT gx_volumes(" #n ");"
/* Matrices for lazy ones: Q is positive definite. */
#define LAZY                                                                                       \
    "SELECT gx_store('a', '[[1,2],[0,1],[3,1]]'), gx_store('v', '[4,5,6]'), "                      \
    "gx_store('Q', '[[4,1,0],[1,5,1],[0,1,6]]'), gx_store('u', '[1,2,0,1,1,2,0,1]'), "             \
    "gx_store('w', '[4,5,6,7,8,9,4,5]');"
/* m and t are of m31, w is of i64. */
#define EXACT                                                                                      \
    "SELECT gx_cast('[[1,2],[3,4]]', 'm31', 'm'), gx_cast('[[1,2],[2,4]]', 'm31', 't'), "          \
    "gx_cast('[[4000000000000000000,1],[3,5]]', 'i64', 'w');"
#define VECTORS                                                                                    \
    SMALL                                                                                          \
    "CREATE VIRTUAL TABLE v USING gx_vectors(x f32[4], b bit[8], tag TEXT);"                       \
    "INSERT INTO v(rowid, x, b, tag) SELECT i, row, x'0f', 'a' FROM gx_rows(gx_randn(40, 4));"     \
    "DELETE FROM v WHERE rowid = 4; SELECT gx_settle('v'); DELETE FROM v WHERE rowid = 7;"         \
    "INSERT INTO v(rowid, x, b) VALUES (50, '[1,1,1,1]', x'00');"
#define HELPERS                                                                                    \
    "SELECT gx_config('tile_bytes', 2048), gx_config('threads', 2), gx_config('readers', 2);"

const fault_script fault_scripts[] = {
    {"open", NULL, NULL},

    // Storing: a name of one's own, an old one, the first one, in a transaction, inside INSERT.
    {"store", SMALL, "SELECT gx_store('N', 'A')"},
    {"store-json", SMALL, "SELECT gx_store('N', '[[1,2],[3,4]]')"},
    {"store-replace", SMALL, "SELECT gx_store('A', 'B', '{\"replace\":true}')"},
    {"store-over", "PRAGMA secure_delete=ON;" SMALL "SELECT gx_copy('A', 'N');",
     "SELECT gx_scale('A', 3, 'N', '{\"replace\":true}')"},
    {"store-first", SMALL EMPTY, "SELECT gx_randn(30, 30, 'N')"},
    {"store-in-insert", SMALL, "INSERT INTO plain SELECT gx_store('N', 'A'), 0, 0"},
    {"store-in-transaction", SMALL,
     "BEGIN; SELECT gx_store('N', 'A'); SELECT gx_matmul('A', 'B', 'P'); COMMIT"},
    {"store-large", // a tile of more pages than SQLite's cache has
     "PRAGMA cache_size=8; SELECT gx_config('tile_bytes', 2097152), gx_config('threads', 1);",
     "SELECT gx_randn(400, 400, 'N', '{\"seed\":7}')"},
    {"kept", // what is read first is found in memory afterwards
     "SELECT gx_config('tile_bytes', 262144), gx_config('threads', 1);"
     "SELECT gx_randn(400, 400, 'N', '{\"seed\":7}');",
     "SELECT gx_norm('N'), gx_eval('sum(N)'), gx_norm('N', '1'), gx_slice('N', 3, 9, 390, 400)"},
    // What the process has counted, and what went wrong: of this script, too.
    {"metrics", SMALL,
     "SELECT gx_matmul('A', 'B', 'P'); SELECT length(gx_metrics()) > 1000, "
     "length(gx_metrics('connection')) > 1000; SELECT count(*) >= 0 FROM gx_events"},
    // Rows and columns: appended, in number order and against it, of itself; set, deleted; names.
    {"append", SMALL, "SELECT gx_append('A', gx_cast(gx_ones(40, 9), 'f32'), '{\"axis\":1}')"},
    {"append-rows", SMALL, "SELECT gx_append('A', gx_ones(30, 24))"},
    {"append-moved", SMALL "SELECT gx_append('A', gx_ones(30, 24));",
     "SELECT gx_append('A', gx_ones(70, 20), '{\"axis\":1}')"},
    {"append-itself", SMALL, "SELECT gx_append('A', 'A')"},
    {"append-in-insert", SMALL, "INSERT INTO plain SELECT gx_append('A', gx_ones(3, 24)), 0, 0"},
    {"append-in-transaction", SMALL,
     "BEGIN; SELECT gx_append('A', gx_ones(9, 24)); SAVEPOINT s; SELECT gx_delete_rows('A', '[3]');"
     "ROLLBACK TO s; SELECT gx_set_rows('A', '[4,47]', gx_ones(2, 24)); COMMIT"},
    {"append-volumes", VOLUMES(2) "SELECT gx_copy('A', 'V');",
     "SELECT gx_append('V', gx_ones(20, 24))"},
    {"append-sparse", SMALL "SELECT gx_sparse('A', 'P');",
     "BEGIN; SELECT gx_append('P', gx_sparse('A')), gx_append('P', gx_ones(2, 24)); SELECT "
     "gx_append('P', 'P'); COMMIT"},
    {"set-rows", SMALL, "SELECT gx_set_rows('A', '[30,-1,2]', gx_ones(3, 24))"},
    {"delete-rows",
     SMALL "SELECT gx_append('A', gx_ones(30, 24));"
           "SELECT gx_set_labels('A', 0, (SELECT json_group_array('r' || i) FROM "
           "gx_rows('A')));",
     "SELECT gx_delete_rows('A', '[69,1,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54]')"},
    {"delete-columns", SMALL, "SELECT gx_delete_rows('A', '[0,20]', '{\"axis\":1}')"},
    {"labels", SMALL,
     "SELECT gx_set_labels('S', 1, gx_labels('S', 1)), gx_set_labels('Z', 0, "
     "'[\"a\",\"b\",null,\"d\",\"e\",\"f\",\"g\",\"h\",\"i\",\"j\",\"k\",\"l\","
     "\"m\",\"n\",\"o\",\"p\",\"q\",\"r\",\"s\",\"t\"]'), gx_labels('Z', 0)"},
    {"labels-csv",
     SMALL "SELECT gx_set_labels('S', 1, (SELECT json_group_array('c' || i) FROM "
           "gx_rows('S')));",
     "SELECT gx_export('S', 'out.csv', '{\"overwrite\":true}'), gx_import('N', 'out.csv'), "
     "gx_labels('N', 1), gx_show('N'), (SELECT count(label) FROM gx_rows('N'))"},
    // Volumes: made, written, read, changed in place, used again, given up, copied.
    {"volumes", SMALL, "SELECT gx_volumes(2)"},
    {"volumes-store", VOLUMES(2), "SELECT gx_store('N', 'A')"},
    {"volumes-value", VOLUMES(2), "SELECT gx_store('N', gx_copy('A'))"},
    {"volumes-turned", VOLUMES(2), "SELECT gx_transpose(gx_copy('A'), 'N')"},
    {"volumes-replace", VOLUMES(2) "SELECT gx_copy('A', 'V');",
     "SELECT gx_scale('V', 2, 'V', '{\"replace\":true}')"},
    {"volumes-in-transaction", VOLUMES(2) "SELECT gx_copy('A', 'V');",
     "BEGIN; SELECT gx_drop('V'); SAVEPOINT s; SELECT gx_copy('A', 'N'); ROLLBACK TO s;"
     "SELECT gx_copy('B', 'V'); COMMIT"},
    {"volumes-read", VOLUMES(3) HELPERS "SELECT gx_copy('A', 'V');",
     "SELECT gx_sum('V'), gx_check('V')"},
    {"volumes-set", VOLUMES(2) "SELECT gx_copy('A', 'V');", "SELECT gx_set('V', 3, 4, 7)"},
    {"volumes-table", VOLUMES(2) "SELECT gx_copy('A', 'V');", "SELECT id, tiles FROM gx_volume"},
    {"volumes-vacuum",
     VOLUMES(2) "SELECT gx_copy('A', 'U'), gx_copy('B', 'V'); SELECT gx_drop('U');",
     "SELECT gx_vacuum()"},
    {"volumes-home", VOLUMES(2) "SELECT gx_copy('A', 'V');", "SELECT gx_volumes(0)"},
    {"volumes-backup", VOLUMES(2) "SELECT gx_copy('A', 'V');", "SELECT gx_backup('out.npy')"},

    // Sparse matrices: made, copied, read, checked, from cells (spilled), from and to files.
    {"sparse", SMALL, "SELECT gx_sparse('A', 1, 'N')"},
    {"sparse-value", SMALL, "SELECT gx_json(gx_dense(gx_sparse('A', 1)))"},
    {"sparse-copy", SMALL "SELECT gx_volumes(2); SELECT gx_sparse('A', 'V');",
     "SELECT gx_cast('V', 'f32', 'N'), gx_check('V')"},
    {"sparse-cells-out", SMALL "SELECT gx_sparse('A', 'V');",
     "SELECT sum(value) FROM gx_cells('V') WHERE j > 3 ORDER BY j, i"},
    {"sparse-cells-in", SMALL "SELECT gx_config('memory_limit', 90000);",
     "SELECT gx_store_cells('N', j, i, value, '{\"sparse\":true}') FROM gx_cells('A')"},
    {"sparse-product", HELPERS "SELECT gx_sparse('A', 'V');", "SELECT gx_matmul('V', 'B', 'N')"},
    {"sparse-program", HELPERS "SELECT gx_sparse('A', 'V');",
     "SELECT gx_eval('N := V.T @ (V @ B) * 2 + sum(V)')"},
    {"sparse-product-turned", HELPERS "SELECT gx_sparse('A', 'V');",
     "SELECT gx_matmul('V', 'A', 'N', '{\"transa\":true}')"},
    {"sparse-results", SMALL "SELECT gx_sparse('A', 'V'), gx_sparse('B', 'W');",
     "SELECT gx_matmul('V', 'W', 'N'), gx_norm('N'), gx_sum('V', 0), length(gx_transpose('V')), "
     "length(gx_add('V', 'V')), length(gx_abs('V')), length(gx_slice('V', 1, 9, 2, 20))"},
    {"sparse-transpose", SMALL "SELECT gx_sparse('A', 'V');", "SELECT gx_transpose('V', 'T')"},
    {"sparse-add", SMALL "SELECT gx_sparse('A', 'V');", "SELECT gx_add('V', 'V', 'U')"},
    {"sparse-map", SMALL "SELECT gx_sparse('A', 'V');", "SELECT gx_abs('V', 'R')"},
    {"sparse-slice", SMALL "SELECT gx_sparse('A', 'V');", "SELECT gx_slice('V', 1, 9, 2, 20, 'R')"},
    {"sparse-take", SMALL "SELECT gx_sparse('A', 'V');",
     "SELECT gx_take('V', '[3,1,1]', 'R'), gx_nnz(gx_take('V', '[2,0]', 1))"},
    {"sparse-kept",
     SMALL "SELECT gx_config('tile_bytes', 262144), "
           "gx_matrix_gallery('poisson', 16900, 'V', '{\"sparse\":true}');",
     "SELECT gx_norm(gx_matmul('V', gx_ones(16900, 1))), gx_norm(gx_matmul('V', gx_ones(16900, "
     "1)))"},
    {"sparse-plan", SMALL "SELECT gx_sparse('A', 'V');", "SELECT detail FROM gx_plan('V @ B')"},
    {"graph", SMALL "SELECT gx_sparse(gx_abs(gx_matmul('A', 'A', '{\"transb\":true}')), 3, 'G');",
     "SELECT gx_pagerank('G', 'R'), gx_components('G'), gx_triangles('G'), "
     "(SELECT sum(activation) FROM gx_spread('G', '[1,2]')), "
     "(SELECT node FROM gx_spread('G', '[1,2]') ORDER BY activation DESC)"},
    {"graph-paths",
     SMALL "SELECT gx_sparse(gx_abs(gx_matmul('A', 'A', '{\"transb\":true}')), 3, 'G');",
     "SELECT gx_shortest_paths('G', 'R'), gx_json(gx_k_paths('G', 0, 5, 3)), "
     "gx_json(gx_breadth_first('G', 0)), "
     "gx_json(gx_depth_first('G', 0, '{\"directed\":false}')), gx_nnz(gx_spanning_tree('G')), "
     "gx_nnz(gx_laplacian('G')), gx_json(gx_cuthill_mckee('G')), "
     "gx_json(gx_components('G', '{\"connection\":\"strong\"}'))"},
    {"graph-match",
     SMALL "SELECT gx_sparse(gx_abs(gx_matmul('A', 'A', '{\"transb\":true}')), 3, 'G');",
     "SELECT gx_max_flow('G', 0, 5, 'F'), gx_json(gx_matching('G')), "
     "gx_json(gx_matching('S', '{\"weights\":\"max\"}'))"},
    {"sparse-random", SMALL, "SELECT gx_random(90, 40, 'N', '{\"density\":0.3}')"},
    {"sparse-files", SMALL "SELECT gx_sparse('S', 'V');",
     "SELECT gx_import('N', gx_export('V', 'out.mtx', '{\"overwrite\":true}'), "
     "'{\"sparse\":true}')"},

    {"sparse-archive", SMALL "SELECT gx_sparse('S', 'V');",
     "SELECT gx_import('N', gx_export('V', 'out.npz', '{\"overwrite\":true}'))"},

    {"store-temp", SMALL, "SELECT gx_store('temp.N', 'A'), gx_sum('temp.N')"},
    {"store-attached", SMALL "ATTACH 'aux.db' AS aux;",
     "SELECT gx_store('aux.N', 'A'), gx_sum('aux.N')"},
    {"catalog-insert", SMALL, "INSERT INTO gx(name, value) VALUES ('N', '[[1,2],[3,4]]')"},
    {"catalog-select", SMALL,
     "SELECT name, rows, cols, dtype, properties, tile_rows, bytes FROM gx"},
    {"catalog-rename", SMALL, "UPDATE gx SET name = 'R' WHERE name = 'A'"},
    {"catalog-delete", SMALL, "DELETE FROM gx WHERE name IN ('A', 'S')"},
    {"catalog-replace", SMALL, "INSERT OR REPLACE INTO gx(name, value) VALUES('A', 'B')"},
    {"catalog-first", SMALL EMPTY, "INSERT INTO gx(name, value) VALUES('N', '[[1,2],[3,4]]')"},
    {"catalog-value", SMALL, "SELECT name, length(value) FROM gx"},
    {"catalog-drop", SMALL "CREATE VIRTUAL TABLE gx USING gx_catalog;", "DROP TABLE gx"},
    {"store-in-create", SMALL EMPTY,
     "CREATE TABLE made AS SELECT gx_store('N', '[[1,2],[3,4]]') AS name"},
    {"store-first-union", SMALL EMPTY,
     "SELECT gx_store('N', '[[1,2]]') UNION ALL SELECT i FROM plain"},
    {"store-attached-in-insert", SMALL "ATTACH 'aux.db' AS aux; SELECT gx_store('aux.M', 'A');",
     "INSERT INTO plain SELECT gx_store('aux.N', 'A'), 0, 0"},
    {"cells-made-and-written", SMALL "DROP TABLE cells;",
     "BEGIN; CREATE VIRTUAL TABLE cells USING gx_cells('B'); UPDATE cells SET value = 1; COMMIT"},
    {"store-in-savepoint", SMALL,
     "BEGIN; SAVEPOINT s; SELECT gx_copy('A', 'N'); ROLLBACK TO s; SELECT gx_copy('S', 'N'); "
     "COMMIT"},
    {"drop", SMALL, "SELECT gx_drop('A')"},
    {"rename", SMALL, "SELECT gx_rename('A', 'R'), gx_exists('R')"},
    {"composite", SMALL, "SELECT gx_block('M', '[[\"A\",\"-A\"],[0,\"2*A\"]]')"},
    {"composite-replaced", SMALL,
     "SELECT gx_block('B', '[[\"A\"],[\"A\"]]', '{\"replace\":true}')"},
    {"composite-read", SMALL "SELECT gx_block('M', '[[\"A\"],[\"-A\"]]');",
     "SELECT gx_norm('M'), gx_sum(gx_matmul('M', gx_transpose('M'))), gx_eval('sum(M + M)'), "
     "gx_check('M'), (SELECT sum(value) FROM gx_cells('M')), gx_block('M')"},
    {"quantize", HELPERS, "SELECT gx_quantize('A', 'i4', 'N')"},
    {"quantize-replace", SMALL "SELECT gx_quantize('A', 'i8', 'Q');",
     "SELECT gx_quantize('A', 'bit', 'Q', '{\"replace\":true}')"},
    {"quantized", HELPERS "SELECT gx_quantize('A', 'i8', 'Q');",
     "SELECT gx_norm('Q'), gx_info('Q'), gx_check('Q'), gx_dequantize('Q', 'N')"},
    {"quantized-search",
     HELPERS "SELECT gx_quantize('A', 'i8', 'Q'), gx_quantize('A', 'bit', 'R');",
     "SELECT sum(id) FROM gx_knn('A', 'A', 3, '{\"filter\":\"Q\"}') UNION ALL "
     "SELECT sum(id) FROM gx_knn('A', 'A', 2, '{\"filter\":\"R\",\"rescore\":4}')"},
    {"lazy", SMALL LAZY,
     "SELECT gx_lazy('M', 'kron(a, a.T) + block([[diag(v), 0], [0, toeplitz(v) @ Q]])')"},
    {"lazy-products",
     SMALL LAZY "SELECT gx_lazy('M', 'kron(a, a.T) + 2 * eye(6)'), gx_lazy('N', 'A @ B');",
     "SELECT gx_matmul('M', gx_ones(6, 2)), gx_eval('sum(N.T @ N)'), gx_trace('M'), gx_json('M'), "
     "gx_norm('N'), gx_lazy('M')"},
    {"lazy-systems",
     SMALL LAZY "SELECT gx_lazy('W', 'u @ u.T + diag(w)'), gx_lazy('K', 'kron(Q, Q) + eye(9)'), "
                "gx_lazy('T', 'block([[Q, 0], [a.T, 3]])'), "
                "gx_lazy('H', 'block([[diag(v), a], [a.T, 0]])');",
     "SELECT gx_set_property('K', 'symmetric'), (SELECT properties FROM gx WHERE name = 'K'), "
     "gx_solve('W', gx_ones(8, 1)), gx_solve('K', gx_ones(9, 2)), "
     "gx_solve('T', gx_ones(5, 1)), gx_solve('H', gx_ones(5, 1)), gx_det('W'), gx_logdet('K'), "
     "gx_solve('W', gx_ones(8, 1), '{\"method\":\"cg\"}'), "
     "gx_solve('T', gx_ones(5, 1), '{\"method\":\"lsqr\",\"tol\":0.01}'), "
     "gx_inverse('T')"},
    {"exact", SMALL EXACT,
     "SELECT gx_det('m'), gx_rank('m'), gx_inverse('m'), gx_solve('m', '[1,2]'), "
     "gx_nullspace('t'), "
     "gx_eval('m @ m - 3 * m + m / 2'), gx_sum('m', 0), gx_det('w', '{\"exact\":true}'), "
     "gx_solve('w', '[1,2]', '{\"exact\":true}'), gx_rank('w', '{\"exact\":true}'), "
     "gx_inverse('w', '{\"mod\":7}'), gx_recur('[[1,1],[1,0]]', '[1,1]', 5, '{\"exact\":true}'), "
     "gx_phi_pow('[[0,1]]', 60), gx_phi_mul('[[1,2]]', '[[3,4]]'), gx_phi_floor('w')"},
    {"exact-product", SMALL EXACT, "SELECT gx_matmul('w', gx_eye(2), 'P', '{\"exact\":true}')"},
    {"exact-small", HELPERS,
     "SELECT gx_matmul('[[1,2],[3,-4]]', '[[500],[6]]', 'P', '{\"exact\":true}')"},
    {"exact-blocks",
     SMALL "SELECT gx_cast(gx_eval('floor(random(50, 50, 1) * 2000000000)'), 'm31', 'V');",
     "SELECT gx_matmul('V', 'V', 'P')"},
    {"circle",
     SMALL "SELECT gx_cast(gx_eval('floor(random(4096, 2, 1) * 2000000000)'), 'm31', 'V');",
     "SELECT gx_circle_fft('V', 0, 'P', '{\"order\":\"coset\"}')"},
    {"fourier", SMALL "SELECT gx_store('V', gx_eval('random(1500, 3, 1)'));",
     "SELECT length(gx_fft2('V', 1009, 3)), length(gx_idct('V', 3)), "
     "length(gx_rfft('V', 9000, 1)), length(gx_convolve('V', '[1,2]')), gx_fft('V', 'V1')"},
    {"fourier-spilled",
     HELPERS "SELECT gx_randn(160, 160, 'V', '{\"seed\":1}'), gx_config('memory_limit', 260000);",
     "SELECT gx_eval('norm(fft2(V))'), gx_eval('F := rfft2(V)')"},
    {"strips",
     HELPERS "SELECT gx_randn(160, 160, 'V', '{\"seed\":1}'), gx_config('memory_limit', 380000);",
     "SELECT gx_eval('V1 := sort(V, 1); V2 := roll(V, 3, 1); V3 := reshape(V, 80, 320); "
     "V4 := abs(fft(V))'), gx_eval('sum(median(V, 0)) + sum(diag(V))')"},
    {"constraints",
     HELPERS "SELECT gx_cast(gx_eval('floor(random(3000, 8, 1) * 2000000000)'), 'm31', 'V');",
     "SELECT gx_constraints('V', 'a = row[0] * next[1]; a ** 3 - row[2]; next[7]', '[1,2]', 'P'), "
     "gx_m31_inverse(gx_m31_mul('[[1,2]]', '[[3,4]]'))"},
    {"distributions", SMALL,
     "SELECT gx_cdf('t', 2.5, 12), gx_isf('f', '[[0.1,0.2]]', 3, 4), gx_betainc(2, 3, '[0.5]')"},
    {"vec-sums", SMALL "CREATE TABLE v AS SELECT row AS x FROM gx_rows('A');",
     "SELECT gx_vec_mean(x), gx_vec_sum('[1,2]') FROM v"},
    {"lattice", HELPERS "SELECT gx_randn(3000, 8, 'V');",
     "SELECT gx_lattice_nearest('V', 'e8', 'P')"},
    {"label",
     HELPERS "SELECT gx_config('tile_bytes', 65536), "
             "gx_eval('G := floor(random(300, 300, 1) * 3)'), gx_cast('G', 'u8', 'U');",
     "SELECT gx_label('U', 'L', '{\"by\":\"colour_not_background\",\"neighbours\":8}')"},
    {"lm",
     SMALL
     "CREATE TABLE t(y, x, c, w); INSERT INTO t SELECT i, i * i % 7, char(97 + i % 5), i "
     "% 3 FROM (WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 300) "
     "SELECT i FROM r);",
     "SELECT count(*), sum(estimate) FROM (SELECT gx_lm(y, x, c, w, "
     "'{\"names\":[\"x\",\"c\",\"w\"],\"weights\":\"w\",\"robust\":\"HC3\"}') AS m FROM t), "
     "gx_lm_terms(m)"},
    {"glm", SMALL,
     "SELECT gx_predict(gx_glm(value > 0, i, j, '{\"names\":[\"i\",\"j\"]}'), 1, 2), "
     "gx_coef(gx_glm(i, j, '{\"family\":\"poisson\"}')), "
     "gx_coef(gx_glm_fit('[[1],[2],[3],[4]]', '[1,0,1,0]'), 'x1') FROM plain"},
    {"multivariate", SMALL,
     "SELECT count(*), gx_mahalanobis('A', 'A', 'D') FROM gx_cca('A', gx_transpose(gx_slice('B', "
     "0, 2, 0, 40)))"},
    {"factor", SMALL, "SELECT count(*) FROM gx_factor(gx_slice('A', 0, 40, 0, 6), 1)"},
    {"lda", SMALL,
     "SELECT (SELECT count(*) FROM gx_lda_axes(m)), (SELECT count(*) FROM gx_lda_groups(m)), "
     "gx_predict(m, 1) FROM (SELECT gx_lda(j, value) AS m FROM plain)"},
    {"lm-fit", SMALL,
     "SELECT r2, note FROM gx_lm_model(gx_lm_fit('A', gx_slice('A', 0, 40, 3, 4), "
     "'{\"robust\":\"HC1\"}'))"},
    {"grids",
     SMALL "SELECT gx_eval('G := floor(random(60, 9, 1) * 3)'), "
           "gx_store('T', '[[0,9,9],[10,20,4],[31,1,1]]');",
     "BEGIN; SELECT gx_label('G', 'L', '{\"grid_rows\":6}'), length(gx_label('G')), "
     "gx_grid_box('G', 'M', '{\"grids\":\"T\"}'), gx_json(gx_grid_most_colour('G', "
     "'{\"grid_rows\":6}')), gx_grid_subgrid('G', 'G', 'N'), length(gx_grid_compress('G')), "
     "gx_json(gx_grid_occurrences('[[1,2]]', '[[2]]')), gx_show('T', '{\"colours\":true}'); "
     "COMMIT"},
    {"grid-large",
     SMALL "SELECT gx_config('tile_bytes', 65536), gx_eval('G := floor(random(300, 300, 1) * 3)');",
     "SELECT length(gx_grid_underfill('G', 'G', 9)), gx_grid_partition('G', 'N'), "
     "gx_grid_most_colour('G')"},
    {"grid-objects",
     SMALL "SELECT gx_config('tile_bytes', 65536), gx_eval('G := floor(random(300, 300, 1) * 3)');",
     "SELECT sum(cells) FROM gx_objects('G'); "
     "SELECT count(*) FROM gx_objects('G', '{\"grid_rows\":30}')"},
    {"grid-program", SMALL "SELECT gx_eval('G := floor(random(60, 9, 1) * 3)');",
     "SELECT gx_eval('L := label(G, 8, ''colour'', 6); M := cover(G, sizes(L, 6) == 2, 6); "
     "sum(manhattan(L, M, 20))')"},
    {"composite-rename", SMALL "SELECT gx_block('M', '[[\"A\"],[\"-A\"]]');",
     "SELECT gx_rename('A', 'R'), gx_norm('M')"},
    {"check-all", SMALL, "SELECT gx_check()"},
    {"copy-dtype", SMALL, "SELECT gx_store('N', 'S', '{\"dtype\":\"c64\"}')"},

    // Generators.
    {"generators", SMALL,
     "BEGIN; SELECT gx_zeros(20, 20, 'O'), gx_ones(20, 3, 'U'), gx_eye(33, 33, 'I'); COMMIT"},
    {"random", SMALL,
     "BEGIN; SELECT gx_randn(40, 24, 'N', '{\"seed\":9}'), gx_random(24, 5, 'M', '{\"seed\":9}'); "
     "COMMIT"},
    {"gallery", SMALL,
     "SELECT gx_matrix_gallery('minij', 30, 'N'), gx_json(gx_matrix_gallery('hilb', 3))"},

    // Spectra: one destination, several, tables, a matrix too long for one panel of memory.
    {"eig", SMALL, "SELECT gx_json(gx_eig('S'))"},
    {"eig-stored", HELPERS, "SELECT gx_eig('S', 'w', 'V', '{\"left\":\"L\"}')"},
    {"eig-symmetric", SMALL, "SELECT gx_eig('S', 'w', 'V', '{\"symmetric\":true,\"k\":3}')"},
    {"eig-generalised", SMALL "SELECT gx_eye(24, 24, 'I');",
     "SELECT gx_eig('S', 'w', 'V', '{\"b\":\"I\"}')"},
    {"eig-in-insert", SMALL, "INSERT INTO plain SELECT gx_eig('S', 'w', 'V'), 0, 0"},
    {"eig-table", SMALL,
     "SELECT k, value, imag, residual, length(vector), length(left_vector) FROM "
     "gx_eig('S', '{\"left\":true,\"k\":4}')"},
    {"svd", HELPERS, "SELECT gx_svd('A', 's', 'U', 'V', '{\"mode\":\"full\"}')"},
    {"svd-attached", SMALL "ATTACH 'aux.db' AS aux;", "SELECT gx_svd('Z', 'aux.s', 'U')"},
    {"svd-values", SMALL "SELECT gx_randn(90, 7, 'T');", "SELECT gx_json(gx_svd('T'))"},
    {"svd-table", SMALL, "SELECT k, sigma, length(u), length(v) FROM gx_svd('Z', '{\"k\":3}')"},
    {"nullspace", SMALL, "SELECT gx_nullspace('B', 'N')"},
    {"funm", HELPERS, "SELECT gx_expm('S', 'E'), gx_json(gx_powm('S', -3))"},
    {"funm-schur", SMALL,
     "BEGIN; SELECT gx_sqrtm('S', 'R'), gx_logm('S', 'L'), gx_powm('S', 1.5, 'P'); COMMIT"},
    {"funm-symmetric", SMALL,
     "SELECT gx_sqrtm('[[2,1],[1,-2]]', 'R'), gx_json(gx_logm('[[2,1],[1,2]]'))"},

    // Decompositions in memory.
    {"decompositions", HELPERS,
     "BEGIN; SELECT gx_schur('S', '{\"t\":\"T\",\"z\":\"W\",\"sort\":\"lhp\"}'), "
     "gx_hessenberg('S', '{\"h\":\"H\"}'), gx_polar('A', '{\"u\":\"U\",\"p\":\"P\"}'), "
     "gx_qr('A', '{\"pivot\":true,\"q\":\"Q\",\"r\":\"R\",\"p\":\"o\"}'); "
     "COMMIT"},
    {"decompositions-tables", SMALL,
     "SELECT part, length(value) FROM gx_schur('S', '{\"output\":\"complex\"}') UNION ALL SELECT "
     "part, length(value) FROM gx_ldl('[[0,1,2],[1,0,3],[2,3,4]]') UNION ALL SELECT part, "
     "length(value) FROM gx_qr('B', '{\"pivot\":true}')"},
    {"decompositions-eval", SMALL,
     "SELECT gx_json(gx_orth('B')), gx_eval('T, Z = schur(S); U, P = polar(T); R := U @ P')"},

    {"decompositions-pairs", SMALL,
     "SELECT gx_qz('S', gx_eye(24, 24), '{\"s\":\"T\",\"z\":\"W\"}'), "
     "gx_json(gx_eval('Q, R = qr(S); U, C, V = cossin(Q, 5, 7); B, T = balance(S); U + C + V + B + "
     "T'))"},
    {"defined", SMALL,
     "SELECT gx_eval('X := signm(S) + cosm(S) + tanhm(S / 99); Y := solve_banded(1, 1, B[0:3, "
     "0:9], ones(9, 1))'), gx_json(gx_circulant('[1,2,3]')), gx_eval('fht(S[:, 0], 0.1, 0) + "
     "real(loggamma(S[:, 1] + 1i))') IS NULL"},

    {"equations", SMALL,
     "SELECT gx_sylvester('S', gx_eye(24, 24), 'S', 'X'), gx_json(gx_lyapunov('[[0.5,2],[0,0.3]]', "
     "gx_eye(2, 2), '{\"discrete\":true}')), gx_json(gx_lyapunov('[[1,2],[0,3]]', gx_eye(2, 2)))"},
    {"equations-riccati", SMALL,
     "SELECT gx_riccati('[[0,1],[0,0]]', '[[0],[1]]', gx_eye(2, 2), '[[1]]', 'X'), "
     "gx_json(gx_eval('discrete_riccati([[1,1],[0,1]], [[0],[1]], eye(2), eye(1))'))"},

    // Few singular values.
    {"svd-krylov", HELPERS,
     "SELECT k, sigma, length(u), residual FROM gx_svd('A', '{\"k\":2,\"method\":\"krylov\"}')"},
    {"svd-krylov-stored", SMALL,
     "SELECT gx_svd('Z', 's', 'U', 'V', '{\"k\":2,\"method\":\"krylov\",\"block\":1}')"},
    {"svd-randomized", HELPERS,
     "SELECT gx_svd('A', 's', 'U', 'V', '{\"k\":2,\"method\":\"randomized\"}')"},
    {"svd-smallest", SMALL, "SELECT sigma, v FROM gx_svd('Z', '{\"k\":2,\"which\":\"smallest\"}')"},
    {"svd-inverse", HELPERS,
     "SELECT sigma, length(u), residual FROM gx_svd('S', "
     "'{\"k\":2,\"which\":\"smallest\",\"method\":\"krylov\"}')"},
    {"svd-long",
     SMALL "SELECT gx_randn(900, 6, 'L', '{\"seed\":6}'), gx_config('deterministic', 'on');",
     "SELECT gx_svd('L', 's', 'U', 'Vt')"},
    {"svd-long-in-temp",
     SMALL "SELECT gx_randn(8, 3000, 'L', '{\"seed\":6}'), gx_config('memory_limit', '300KiB');",
     "SELECT gx_svd('L', 's', 'U', 'Vt')"},
    // Few eigenvalues.
    {"eig-krylov", HELPERS "SELECT gx_matmul('A', 'A', 'G', '{\"transb\":true}');",
     "SELECT k, value, residual, length(vector) FROM gx_eig('G', "
     "'{\"k\":2,\"method\":\"krylov\"}')"},
    {"eig-krylov-general", SMALL,
     "SELECT gx_eig('S', 'w', 'V', '{\"k\":2,\"method\":\"krylov\",\"symmetric\":false}')"},
    {"eig-krylov-left", SMALL,
     "SELECT value, length(vector), length(left_vector) FROM gx_eig('S', "
     "'{\"k\":2,\"method\":\"krylov\",\"symmetric\":false,\"left\":true}')"},
    {"eig-krylov-many", SMALL "SELECT gx_matrix_gallery('tridiag', 60, 'T');",
     "SELECT gx_eig('T', 'w', 'V', "
     "'{\"k\":6,\"method\":\"krylov\",\"block\":2,\"ncv\":24}')"},
    {"eig-krylov-inverse", SMALL,
     "SELECT value FROM gx_eig('S', '{\"k\":2,\"method\":\"krylov\",\"sigma\":0.1}')"},
    {"eig-krylov-factors",
     SMALL "SELECT gx_config('deterministic', 'on'), gx_matmul('B', 'B', 'G', "
           "'{\"transb\":true}'), gx_add('G', gx_eye(24, 24), 'H');",
     "SELECT gx_eig('G', 'w', 'V', '{\"k\":2,\"ncv\":8,\"block\":2,\"method\":\"krylov\","
     "\"sigma\":0.1,\"b\":\"H\"}')"},
    {"eig-krylov-in-temp",
     SMALL "SELECT gx_randn(180, 180, 'G', '{\"seed\":5}'), gx_config('memory_limit', '400KiB');",
     "SELECT value FROM gx_eig('G', '{\"k\":1,\"ncv\":12,\"block\":2,\"method\":\"krylov\","
     "\"sigma\":30,\"symmetric\":true}')"},

    // Statistics of columns.
    {"cov", HELPERS, "SELECT gx_cov('A', 'N')"},
    {"corr-wide", SMALL, "SELECT gx_corr('B', 'N')"},
    {"pca", HELPERS, "SELECT gx_pca('A', 3, 'N')"},
    {"pca-wide", SMALL, "SELECT component, variance, length(vector) FROM gx_pca('B', 2)"},
    {"pca-krylov", HELPERS,
     "SELECT gx_pca('A', 2, 'N', '{\"method\":\"krylov\",\"standardize\":true}')"},
    {"pca-randomized", SMALL,
     "SELECT component, variance, length(vector) FROM gx_pca('B', 2, "
     "'{\"method\":\"randomized\"}')"},
    {"pca-project", SMALL "SELECT gx_pca('A', 3, 'M');", "SELECT gx_pca_project('A', 'M', 'N')"},

    // Products.
    {"matmul-value", SMALL, "SELECT gx_json(gx_matmul('[[1,2],[3,4]]', '[[5,6],[7,8]]'))"},
    {"matmul", SMALL, "SELECT gx_matmul('A', 'B', 'P')"},
    {"matmul-tiles",
     SMALL
     "SELECT gx_config('tile_bytes', 1000000), gx_randn(260, 260, 'V', '{\"dtype\":\"f32\"}');",
     "SELECT gx_matmul('V', 'V', 'P')"},
    {"matmul-helpers", HELPERS, "SELECT gx_matmul('A', 'B', 'P')"},
    {"read-straight", // tiles that helpers read past SQLite's pages
     "PRAGMA page_size=32768; VACUUM;"
     "SELECT gx_config('tile_bytes', 524288), gx_config('threads', 2);"
     "SELECT gx_randn(600, 400, 'V', '{\"seed\":1}');",
     "SELECT length(gx_copy('V')), gx_norm('V')"},
    {"matmul-tight", HELPERS "SELECT gx_config('memory_limit', 100000);",
     "SELECT gx_matmul('A', 'B', 'P')"},
    {"matmul-syrk", HELPERS, "SELECT gx_matmul('A', 'A', 'P', '{\"transb\":true}')"},
    {"narrow", HELPERS "SELECT gx_random(9000, 16, 'T'), gx_random(16, 3, 'X');",
     "SELECT gx_matmul('T', 'X', 'P')"},
    {"narrow-transposed", SMALL "SELECT gx_random(4000, 16, 'T'), gx_random(4000, 4, 'X');",
     "SELECT gx_matmul('X', 'T', 'P', '{\"transa\":true}')"},
    {"stack", HELPERS "SELECT gx_random(9000, 16, 'T'), gx_random(9000, 1, 'b', '{\"seed\":2}');",
     "SELECT gx_lstsq('T', 'b', 'P')"},
    {"matmul-dtypes", HELPERS, "SELECT gx_matmul('S', 'Z', 'P', '{\"conjb\":true}')"},

    // Triangles and Cholesky.
    {"syrk", HELPERS, "SELECT gx_syrk('A', 'P', '{\"trans\":true}')"},
    {"cholesky", HELPERS "SELECT gx_matrix_gallery('minij', 40, 'D');",
     "SELECT gx_cholesky('D', 'L')"},
    {"cholesky-tight",
     HELPERS "SELECT gx_matrix_gallery('minij', 60, 'D'), gx_config('memory_limit', 100000);",
     "SELECT gx_cholesky('D', 'L', '{\"upper\":true}')"},
    {"cholesky-replace", SMALL "SELECT gx_matrix_gallery('moler', 40, 'D');",
     "SELECT gx_cholesky('D', 'D', '{\"check\":true,\"replace\":true}')"},
    {"cholesky-value", SMALL, "SELECT gx_json(gx_cholesky('[[4,2],[2,5]]'))"},
    {"trsm", HELPERS "SELECT gx_matrix_gallery('minij', 40, 'D');",
     "SELECT gx_trsm('D', 'A', 'X', '{\"uplo\":\"lower\"}')"},
    {"trsm-tight",
     HELPERS "SELECT gx_matrix_gallery('minij', 40, 'D'), gx_config('memory_limit', 90000);",
     "SELECT gx_trsm('D', 'B', 'X', '{\"uplo\":\"upper\",\"side\":\"right\",\"trans\":true}')"},
    {"trmm", HELPERS "SELECT gx_matrix_gallery('minij', 40, 'D');",
     "SELECT gx_trmm('D', 'A', 'A', '{\"uplo\":\"upper\",\"replace\":true}')"},

    // LU and what takes it in the place of a matrix.
    {"lu", HELPERS, "SELECT gx_lu('A', 'F')"},
    {"lu-tight",
     HELPERS "SELECT gx_randn(60, 60, 'D', '{\"seed\":5}'), gx_config('memory_limit', 100000);",
     "SELECT gx_lu('D', 'D', '{\"replace\":true}')"},
    {"lu-parts", SMALL "ATTACH 'aux.db' AS aux;",
     "SELECT gx_lu('Z', 'F', '{\"l\":\"L\",\"u\":\"aux.U\",\"p\":\"P\"}')"},
    {"lu-scratch", SMALL, "SELECT gx_lu('S', '{\"l\":\"L\",\"permutation\":\"vector\"}')"},
    {"lu-table", SMALL, "SELECT part, length(value) FROM gx_lu('S')"},
    {"lu-in-insert", SMALL, "INSERT INTO plain SELECT gx_lu('S', 'F'), 0, 0"},
    {"lu-copy", SMALL "SELECT gx_lu('A', 'F');", "SELECT gx_copy('F', 'G'), gx_check('F')"},
    {"lu-old-file",
     SMALL "CREATE TABLE m(id INTEGER PRIMARY KEY, name TEXT UNIQUE, rows, cols, dtype, tile_rows, "
           "tile_cols, properties, generation); INSERT INTO m SELECT id, name, rows, cols, dtype, "
           "tile_rows, tile_cols, properties, generation FROM gx_meta; DROP TABLE gx_meta; "
           "ALTER TABLE m RENAME TO gx_meta;",
     "SELECT gx_lu('S', 'F')"},
    {"part", HELPERS "SELECT gx_lu('A', 'F');", "SELECT gx_part('F', 'L', 'L')"},
    {"part-value", SMALL "SELECT gx_lu('A', 'F');", "SELECT gx_json(gx_part('F', 'p'))"},
    {"lu-written", SMALL "SELECT gx_lu('A', 'F');", "SELECT gx_set('F', 1, 2, 3)"},
    {"det", HELPERS, "SELECT gx_det('S'), gx_logdet('S')"},
    {"logdet-table", SMALL "SELECT gx_lu('S', 'F');", "SELECT sign, imag, log FROM gx_logdet('F')"},
    {"inverse", HELPERS, "SELECT gx_inverse('S', 'X')"},
    {"inverse-tight",
     SMALL "SELECT gx_randn(60, 60, 'D', '{\"seed\":5}'), gx_config('memory_limit', 180000);",
     "SELECT gx_inverse('D', 'X')"},
    {"inverse-factored", SMALL "SELECT gx_lu('S', 'F');", "SELECT gx_json(gx_inverse('F'))"},

    // Systems: resident, beyond memory, refined, mixed; conditions; properties.
    {"solve", SMALL, "SELECT gx_json(gx_solve('[[4,1],[1,3]]', '[1,2]'))"},
    {"solve-stored", HELPERS, "SELECT gx_solve('S', 'B', 'X', '{\"trans\":\"T\"}')"},
    {"solve-tight",
     SMALL "SELECT gx_randn(60, 60, 'D', '{\"seed\":5}'), gx_config('memory_limit', 180000);",
     "SELECT gx_solve('D', 'D', 'X')"},
    {"solve-positive-tight",
     SMALL "SELECT gx_matrix_gallery('minij', 90, 'D'), gx_config('memory_limit', 120000);",
     "SELECT gx_solve('D', 'D', 'X', '{\"refine\":1}')"},
    {"solve-mixed", SMALL "SELECT gx_matrix_gallery('minij', 40, 'D');",
     "SELECT gx_solve('D', 'A', 'X', '{\"precision\":\"mixed\"}')"},
    {"solve-sparse-direct",
     SMALL "SELECT gx_matrix_gallery('poisson', 100, 'V', '{\"sparse\":true}'),"
           "gx_randn(100, 2, 'b');",
     "SELECT round(gx_norm(gx_solve('V', 'b')), 6)"}, // CHOLMOD may order otherwise when short
    {"solve-sparse-general", SMALL "SELECT gx_sparse('S', 1, 'V');",
     "SELECT gx_solve('V', 'B', 'X', '{\"trans\":\"T\"}')"},
    {"solve-sparse-cg",
     SMALL "SELECT gx_matrix_gallery('poisson', 100, 'V', '{\"sparse\":true}'),"
           "gx_randn(100, 2, 'b');",
     "SELECT gx_solve('V', 'b', 'X', '{\"method\":\"cg\",\"precond\":\"ic0\",\"x0\":\"b\"}')"},
    {"solve-sparse-gmres",
     SMALL "SELECT gx_matrix_gallery('poisson', 100, 'V', '{\"sparse\":true}'),"
           "gx_randn(100, 1, 'b');",
     "SELECT gx_solve('V', 'b', 'X', '{\"method\":\"gmres\"}')"},
    {"solve-sparse-lsqr", SMALL "SELECT gx_sparse('A', 1, 'V');",
     "SELECT gx_solve('V', 'A', 'X', '{\"method\":\"lsqr\",\"precond\":\"jacobi\"}')"},
    {"eig-sparse", SMALL "SELECT gx_matrix_gallery('poisson', 100, 'V', '{\"sparse\":true}');",
     "SELECT gx_eig('V', 'w', 'x', '{\"k\":2}')"},
    {"eig-sparse-sigma",
     SMALL "SELECT gx_matrix_gallery('poisson', 100, 'V', '{\"sparse\":true}');",
     "SELECT round(gx_sum(gx_eigvals('V', '{\"k\":2,\"sigma\":0}')), 6)"},
    {"svd-sparse", SMALL "SELECT gx_sparse('A', 1, 'V');",
     "SELECT gx_svd('V', 's', 'u', 'v', '{\"k\":2}')"},
    {"solve-in-insert", SMALL, "INSERT INTO plain SELECT gx_solve('S', 'B', 'X'), 0, 0"},
    {"solve-factor", SMALL "SELECT gx_lu('S', 'F'), gx_qr('S', 'Q');",
     "SELECT gx_json(gx_solve('F', 'B')), gx_json(gx_solve('Q', 'B'))"},
    {"solve-probed", SMALL "SELECT gx_config('probe', 'on');",
     "BEGIN; SELECT gx_solve('S', 'B', 'X'); SELECT gx_matmul('A', 'B', 'P'); COMMIT"},
    {"cond", SMALL, "SELECT gx_cond('S'), gx_rcond('S', 'inf'), gx_cond('A', 2)"},
    {"set-property", SMALL, "SELECT gx_set_property('S', 'lower')"},
    {"check-property", SMALL,
     "SELECT gx_check_property('A', 'orthogonal'), gx_is_symmetric('S'), "
     "gx_check_property('[[2,1],[1,2]]', 'positive')"},
    {"plan-systems", SMALL,
     "SELECT count(*) FROM gx_plan('solve(S, B)') UNION ALL SELECT count(*) FROM gx_plan('qr(A)')"},
    {"plan-columns", SMALL,
     "SELECT count(*) FROM gx_plan('cov(A)') UNION ALL SELECT count(*) FROM gx_plan('pca(A, 2)')"},
    {"plan-passes", SMALL,
     "SELECT count(*) FROM gx_plan('eig(S, 2)', '{\"method\":\"krylov\"}') UNION ALL "
     "SELECT count(*) FROM gx_plan('svd(A, 2)', '{\"method\":\"krylov\"}')"},

    // Elementwise and reductions.
    {"elementwise", SMALL,
     "BEGIN; SELECT gx_add('A', 'A', 'N'), gx_sub('A', 'A', 'M'), gx_scale('A', 2, 'K'); COMMIT"},
    {"fills", SMALL,
     "SELECT gx_json(gx_add(gx_transpose(gx_transpose('A')), gx_slice('A', 0, NULL, 0, NULL))), "
     "gx_json(gx_sum('A', 1))"},
    {"recycled", SMALL,
     "SELECT length(gx_add(gx_ones(400, 400), gx_eye(400))), gx_sum(gx_copy(gx_ones(400, 400)))"},
    {"fused", HELPERS,
     "SELECT gx_where('A', 'A', 1, 'N'), gx_json(gx_clip('A', -1, 1)), gx_sum(gx_abs('Z'))"},
    {"maps", SMALL, "SELECT gx_neg('A', 'N'), gx_json(gx_neg('[[1,-2]]'))"},
    {"transpose", HELPERS, "SELECT gx_transpose('A', 'T')"},
    {"norms", HELPERS,
     "SELECT gx_norm('A'), gx_norm('A', '1'), gx_norm('Z', 'inf'), gx_norm('A', 'max')"},
    {"reductions", HELPERS, "SELECT gx_sum('A'), gx_sum('Z') IS NOT NULL, gx_trace('S')"},

    // QR and least squares.
    {"lstsq-tall", HELPERS, "SELECT gx_lstsq('A', 'A', 'X')"},
    {"lstsq-wide", HELPERS, "SELECT gx_lstsq('B', 'B', 'X')"},
    {"lstsq-deficient", SMALL, "SELECT gx_json(gx_lstsq('[[1,2],[2,4],[3,6]]', '[1,2,3]'))"},
    {"qr", HELPERS, "SELECT gx_qr('A', 'F')"},
    {"qr-parts", HELPERS, "SELECT gx_qr('B', '{\"q\":\"Q\",\"r\":\"R\"}')"},
    {"qr-table", SMALL, "SELECT part, gx_json(value) FROM gx_qr('S')"},
    {"lstsq-table", SMALL, "SELECT gx_json(x), rank, residual, rcond FROM gx_lstsq('A', 'A')"},
    {"lstsq-factored", SMALL "SELECT gx_qr('A', 'F');", "SELECT gx_lstsq('F', 'A', 'X')"},
    {"rank", HELPERS, "SELECT gx_rank('A'), gx_rank('Z')"},
    {"pinv", HELPERS, "SELECT gx_pinv('A', 'P')"},
    {"pinv-tight", HELPERS "SELECT gx_config('memory_limit', 100000);", "SELECT gx_pinv('B', 'P')"},

    // Rows in, rows out.
    {"from-cells", SMALL, "SELECT gx_json(gx_from_cells(i, j, value)) FROM plain"},
    {"store-cells", SMALL, "SELECT gx_store_cells('N', i, j, value) FROM plain"},
    {"from-rows", SMALL,
     "SELECT gx_json(gx_from_rows(i, json_array(i, j, value))) FROM plain WHERE j = 0"},
    {"store-rows", SMALL,
     "SELECT gx_store_rows('N', i, json_array(i, j, value)) FROM plain WHERE j = 1"},
    {"store-cells-spill", SMALL "SELECT gx_config('memory_limit', 75000);",
     "SELECT gx_store_cells('N', a.j + 24 * b.j, a.i, value) FROM gx_cells('A') AS a, "
     "(SELECT DISTINCT j FROM plain) AS b"},
    {"store-rows-spill", SMALL "SELECT gx_config('memory_limit', 75000);",
     "SELECT gx_store_rows('N', 119 - a.i - 40 * b.j, row) FROM gx_rows('A') AS a, "
     "(SELECT DISTINCT j FROM plain) AS b"},
    {"hypotheses", SMALL, // of groups and of moments, sorted, exact; a result as a row
     "SELECT gx_t_test(value, 'g' || (i % 2)), gx_chi2_test('a' || i, 'b' || j), "
     "gx_anova(value, i), gx_levene(value, i % 3), "
     "gx_corr_test(value, i, '{\"method\":\"kendall\"}'), gx_mann_whitney(value, i < 5), "
     "gx_wilcoxon(value), gx_kruskal(value, j), gx_ks_test(value, i % 2), "
     "gx_ks_test(value, 'normal', 0, 1), gx_shapiro(value), "
     "gx_chi2_gof(abs(value)) FROM plain"},
    {"hypotheses-table", SMALL,
     "SELECT t.* FROM (SELECT gx_jarque_bera(value) AS r FROM plain GROUP BY j), gx_test(r) AS t"},
    {"from-table", SMALL, "SELECT gx_from_table('plain', 'N', '{\"dtype\":\"f32\"}')"},
    {"from-table-columns", SMALL "SELECT gx_config('memory_limit', 75000);",
     "SELECT gx_json(gx_from_table('plain', '[\"i\",\"value\"]'))"},
    {"store-rows-numbered", SMALL "SELECT gx_config('memory_limit', 75000);",
     "SELECT gx_store_rows('N', 7 * (119 - a.i - 40 * b.j), row, "
     "'{\"number\":true,\"ids\":\"I\"}') FROM gx_rows('A') AS a, "
     "(SELECT DISTINCT j FROM plain) AS b"},
    {"store-value", SMALL, "SELECT gx_store('N', gx_random(60, 40))"},
    {"transpose-value", SMALL, "SELECT gx_transpose(gx_random(60, 40), 'M')"},
    {"from-function", SMALL,
     "SELECT gx_from_function('gx_hstack', 1, 4, 'N'), gx_from_function('gx_vstack', 4, 1)"},
    {"cells", SMALL, "SELECT sum(value), count(*) FROM gx_cells('A')"},
    {"cells-range", SMALL,
     "SELECT i, j, value FROM gx_cells('A') WHERE i = 20 AND j BETWEEN 3 AND 18"},
    {"cells-ordered", SMALL, "SELECT i, sum(value) FROM gx_cells('A') GROUP BY i"},
    {"cells-join", SMALL,
     "SELECT sum(c.value) FROM plain p CROSS JOIN gx_cells('A') c ON c.i = p.i AND c.j = p.j"},
    {"rows", SMALL, "SELECT i, length(row) FROM gx_rows('A') WHERE i < 3"},
    {"cells-table", SMALL, "CREATE VIRTUAL TABLE fresh USING gx_cells('A')"},
    {"cells-update", SMALL, "UPDATE cells SET value = 2 * value WHERE j = 3"},
    {"cells-insert", SMALL,
     "INSERT OR REPLACE INTO cells(i, j, value) VALUES (1, 1, 7), (20, 30, 8)"},
    {"cells-delete", SMALL, "DELETE FROM cells WHERE i = 2"},
    {"cells-move", SMALL "DELETE FROM cells WHERE i > 1;",
     "UPDATE cells SET i = i + 2 WHERE i < 2 AND j > 30"},
    {"cells-transaction", SMALL,
     "BEGIN; UPDATE cells SET value = 1 WHERE i = 3; SAVEPOINT s; DELETE FROM cells WHERE j = 5;"
     " ROLLBACK TO s; INSERT INTO cells(i, j, value) SELECT i, j, value FROM plain; COMMIT"},
    {"cells-temp", SMALL "CREATE VIRTUAL TABLE temp.t USING gx_cells('main.A');",
     "UPDATE t SET value = -value WHERE j < 4"},
    {"rows-update", SMALL "CREATE VIRTUAL TABLE r USING gx_rows('Z');",
     "UPDATE r SET row = gx_scale(row, 2) WHERE i < 3"},
    {"rows-insert", SMALL "CREATE VIRTUAL TABLE r USING gx_rows('S');",
     "INSERT INTO r SELECT i, row FROM gx_rows('A') WHERE i < 5"},
    {"set", SMALL, "SELECT gx_set('A', 20, 20, 5)"},
    {"set-in-transaction", SMALL,
     "BEGIN; SELECT gx_set('A', 20, 20, 5); SELECT gx_set_property('S', 'lower'); COMMIT"},
    {"rename-in-transaction", SMALL,
     "BEGIN; SELECT gx_rename('A', 'R'); SELECT gx_drop('B', '{\"if_exists\":true}'); COMMIT"},

    // Files.
    {"import-npy", SMALL, "SELECT gx_import('N', 'in.npy')"},
    {"import-npy-team",
     "SELECT gx_config('tile_bytes', 262144), gx_config('threads', 2);"
     "SELECT gx_export(gx_randn(380, 400), 'in.npy', '{\"overwrite\":true}');",
     "SELECT gx_import('N', 'in.npy')"},
    {"import-mtx", SMALL, "SELECT gx_import('N', 'in.mtx')"},
    {"import-csv", SMALL, "SELECT gx_import('N', 'in.csv')"},
    {"export", SMALL,
     "SELECT gx_export('A', 'out.npy'), gx_export('A', 'out.mtx'), gx_export('A', 'out.csv')"},

    // Looking.
    {"look", SMALL, "SELECT length(gx_json('A')), gx_show('A'), gx_heatmap('A')"},
    {"get-slice", SMALL,
     "SELECT gx_get('A', 20, 20), gx_slice('A', 3, 20, 1, 18, 'N'), gx_info('A')"},
    {"topk", SMALL, "SELECT sum(value) FROM gx_topk('A', 3, '{\"axis\":0}')"},
    {"knn", SMALL, "SELECT sum(id), sum(score) FROM gx_knn('A', 'A', 3, '{\"metric\":\"l2\"}')"},
    {"knn, one query", HELPERS, "SELECT sum(score) FROM gx_knn(gx_row('A', 3), 'A', 3)"},
    {"knn, candidates", SMALL,
     "SELECT sum(score) FROM gx_knn(gx_row('A', 3), 'A', 3,"
     " '{\"candidates\":\"[1,30]\"}')"},
    {"knn, graph", SMALL,
     "SELECT gx_knn_graph('A', 2, 'G', '{\"symmetric\":\"union\",\"replace\":true}')"},
    {"vectors-write", VECTORS,
     "BEGIN; INSERT INTO v(rowid, x, b, tag) SELECT 100 + i, row, x'81', 'new' FROM"
     " gx_rows(gx_ones(21, 4));"
     "INSERT OR REPLACE INTO v(rowid, x, b) VALUES (3, '[1,2,3,4]', '[1,0,1,0,0,0,0,1]');"
     "UPDATE v SET x = '[4,3,2,1]', rowid = 70 WHERE rowid = 5; UPDATE v SET tag = 'b';"
     "DELETE FROM v WHERE rowid BETWEEN 8 AND 20; SELECT gx_settle('v');"
     "COMMIT; SELECT sum(rowid), max(hex(x)) FROM v"},
    {"vectors-search", VECTORS,
     "SELECT sum(rowid), sum(distance), max(hex(x)) FROM v WHERE x MATCH '[1,2,3,4]' AND k = 5 AND"
     " tag IN ('a', 'c') AND rowid < 30;"
     "SELECT rowid FROM v WHERE b MATCH x'0e' AND (tag = 'a' OR tag = 'b') LIMIT 2;"
     "SELECT sum(id) FROM gx_knn('[1,2,3,4]', 'v.x', 3)"},
    {"vectors-join",
     VECTORS "CREATE TABLE q AS SELECT i, gx_to_bytes(row, 'f32') AS e"
             " FROM gx_rows(gx_ones(9, 4));",
     "SELECT sum(q.i * v.rowid), sum(v.distance) FROM q CROSS JOIN v ON v.x MATCH q.e AND v.k = 2"},
    {"vectors-join-filtered",
     VECTORS "CREATE TABLE q AS SELECT i, gx_to_bytes(row, 'f32') AS e, char(97 + i % 4) AS tag"
             " FROM gx_rows(gx_ones(9, 4));",
     "SELECT sum(q.i * v.rowid), sum(v.distance) FROM q CROSS JOIN v ON v.x MATCH q.e AND v.k = 2"
     " AND v.tag = q.tag AND v.tag <> 'z';"
     "SELECT count(gx_plan) FROM q CROSS JOIN v ON v.x MATCH q.e AND v.k = 2 AND v.tag = q.tag"},
    {"vectors-index", VECTORS,
     "BEGIN; SELECT gx_index('v.x', '{\"lists\":4,\"probe\":2}');"
     "SELECT sum(rowid), sum(distance) FROM v WHERE x MATCH '[1,2,3,4]' AND k = 3 AND tag = 'a';"
     "COMMIT; SELECT count(*) FROM v WHERE x MATCH '[1,0,0,1]' AND k = 4 AND probe = 3"},
    {"vectors-enter", VECTORS "SELECT gx_index('v.x', '{\"lists\":4,\"probe\":4}');",
     "INSERT INTO v(rowid, x, b) SELECT 100 + i, row, x'81' FROM gx_rows(gx_ones(140, 4));"
     "UPDATE v SET x = '[4,3,2,1]' WHERE rowid = 105; DELETE FROM v WHERE rowid = 106;"
     "SELECT count(*) FROM v WHERE x MATCH '[1,1,1,1]' AND k = 4"},
    {"vectors-indexed", VECTORS "SELECT gx_index('v.x', '{\"lists\":4,\"probe\":4}');",
     "BEGIN; INSERT INTO v(rowid, x, b) SELECT 100 + i, row, x'81' FROM gx_rows(gx_ones(9, 4));"
     "UPDATE v SET x = '[4,3,2,1]', rowid = 70 WHERE rowid = 5; UPDATE v SET rowid = 71 WHERE rowid"
     " = 6; DELETE FROM v WHERE rowid BETWEEN 8 AND 12; SELECT gx_settle('v'); COMMIT;"
     "SELECT count(*) FROM v WHERE x MATCH '[1,1,1,1]' AND k = 4"},
    {"vectors-make", SMALL,
     "BEGIN; CREATE VIRTUAL TABLE w USING gx_vectors(id TEXT PRIMARY KEY, x f16[3], n INTEGER);"
     "INSERT INTO w(id, x) VALUES ('a', '[1,2,3]'); SELECT gx_settle('w'), gx_norm('w');"
     "SELECT id FROM w; DROP TABLE w; COMMIT"},
    {"distance", HELPERS, "SELECT gx_distance('A', 'A', 'D')"},
    {"cosine", SMALL, "SELECT gx_cosine('A', 'A', 'D')"},
    {"normalize", SMALL, "SELECT gx_normalize('A', 0, 'l1', 'D')"},
    {"kmeans", SMALL, "SELECT gx_kmeans('A', 3, 'D', '{\"iterations\":2}')"},
    {"histogram", SMALL, "SELECT sum(count) FROM gx_histogram('A', 7)"},
    {"bytes", SMALL, "SELECT gx_from_bytes(gx_to_bytes('A', 'f32'), 'f32', 24, 'N')"},
    {"check", SMALL, "SELECT gx_check('A'), gx_shape('B')"},
    {"control", NULL,
     "SELECT count(*) FROM gx_settings; SELECT count(*) > 0 FROM gx_devices;"
     "SELECT length(gx_help('eig')), count(*) FROM gx_help('inv'); SELECT length(gx_help());"
     "SELECT gx_config('threads', 2), gx_version()"},

    // Programs: parsed, checked, shared, fused; loops, several results, stores together.
    {"eval-number", SMALL, "SELECT gx_eval('def f(x) { x * 2 } [[1, 2i]]; norm(f(A @ B) + 1)')"},
    {"eval-value", SMALL,
     "SELECT gx_json(gx_eval('exp(?1 @ ?1.T) + S[0:2, 0:2]', '[[1,2],[3,4]]'))"},
    {"eval-loop", HELPERS,
     "SELECT gx_eval('x = ones(24, 1); k = 0; while k < 3 { x = B @ (A @ x); x = x / norm(x); "
     "k = k + 1 } if sum(x) > 0 { y = x } else { y = -x } sum(y)')"},
    {"eval-store", HELPERS,
     "SELECT gx_eval('N := A @ B + 1; M := tanh(A) * 2 - B.T; A := A + 1', '{\"replace\":true}')"},
    {"reduce-strips",
     SMALL "SELECT gx_randn(90, 90, 'D', '{\"seed\":5}'), gx_config('memory_limit', 90000);",
     "SELECT gx_argmin('D'), gx_json(gx_std('D', 0)), gx_json(gx_any('D', 1))"},
    {"eval-tight",
     HELPERS "SELECT gx_randn(140, 99, 'D', '{\"seed\":5}'), gx_config('memory_limit', 200000);",
     "SELECT gx_eval('N := (D @ D.T - 1) * 2')"},
    {"eval-parts", SMALL,
     "SELECT gx_eval('Q, R = qr(A); P, L, U = lu(S); N := Q @ R; norm(P @ L @ U - S)')"},
    {"eval-lines", SMALL,
     "SELECT gx_eval('sum(sort(A, 1)) + median(cumsum(B)) + sum(take(kron(S, [1, 2]), [3, 5]))'), "
     "gx_eval('trace(einsum(''ij,jk,kl->il'', S, S, S))')"},
    {"lines-by-number", HELPERS "SELECT gx_randn(2100, 3, 'D', '{\"seed\":5}');",
     "SELECT gx_json(gx_take('D', '[7,2000]')), gx_json(gx_max('A', 0)), gx_json(gx_min('D', 0)), "
     "gx_where('A', gx_cast('A', 'f32'), 1, 'N'), length(gx_sort('D', 0))"},

    {NULL, NULL, NULL},
};
