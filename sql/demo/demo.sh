#!/bin/sh
# The main job, shown on real input: digits out of a table, then a product larger than its memory.
# Run by `make demo` from the repository's root; needs sqlite3, gx.so and build/bench/peer.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cpus=$(nproc)
n=4096 join=150

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
sql() { sqlite3 -batch -cmd '.load ./gx' "$folder/$1.db"; }
seconds() { date +%s.%N; }

say "1. Handwritten digits in SQLite (sql/examples/02_digits.sql)"
sql digits < sql/examples/02_digits.sql

say "1b. Their principal components (sql/examples/03_pca.sql)"
sql pca < sql/examples/03_pca.sql

say "2. Two stored $n x $n matrices, 128 MiB each, multiplied with 64 MiB of memory"
sql product <<SQL
PRAGMA page_size=65536;
SELECT gx_randn($n, $n, 'A', '{"seed":1}'), gx_randn($n, $n, 'B', '{"seed":2}');
SELECT gx_config('memory_limit', '64MiB'), gx_config('progress', 'on');
.headers on
.mode column
SELECT driver, block, calls, bytes_read / 1000000 AS read_mb, bytes_written / 1000000 AS written_mb FROM gx_plan('A @ B');
SQL
start=$(seconds)
sql product <<SQL
.output /dev/null
SELECT gx_config('memory_limit', '64MiB'), gx_config('progress', 'on');
SELECT gx_matmul('A', 'B', 'C');
SQL
gx_s=$(echo "$(seconds) $start" | awk '{print $1 - $2}')
sql product <<SQL
.headers on
.mode column
SELECT name, rows, cols, dtype, bytes / 1000000 AS mb FROM gx;
SELECT gx_heatmap('C', '{"width":48,"height":12}') AS 'C = A B';
SQL

say "3. The same work in other hands"
dgemm_s=$("$(dirname "$0")/../../${BUILD:-build}/bench/peer" dgemm $n "$cpus")
join_s=$(sqlite3 -batch "$folder/join.db" <<SQL
CREATE TABLE a(i, j, v, PRIMARY KEY(i, j)) WITHOUT ROWID;
CREATE TABLE b(i, j, v, PRIMARY KEY(i, j)) WITHOUT ROWID;
WITH RECURSIVE k(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM k WHERE x < $join * $join - 1)
INSERT INTO a SELECT x / $join, x % $join, abs(random()) % 1000 / 1000.0 FROM k;
INSERT INTO b SELECT i, j, v FROM a;
CREATE TEMP TABLE clock AS SELECT julianday('now') AS t;
CREATE TABLE c AS SELECT a.i, b.j, sum(a.v * b.v) AS v FROM a JOIN b ON a.j = b.i GROUP BY a.i, b.j;
SELECT (julianday('now') - t) * 86400 FROM clock;
SQL
)
awk -v n=$n -v m=$join -v gx="$gx_s" -v dgemm="$dgemm_s" -v join="$join_s" 'BEGIN {
    flops = 2 * n * n * n
    printf "  %-58s %8.2f s %12.0f MFLOP/s\n", "gx, stored to stored, 64 MiB, process start to commit", gx, flops / gx / 1e6
    printf "  %-58s %8.2f s %12.0f MFLOP/s\n", "OpenBLAS dgemm on arrays already in RAM", dgemm, flops / dgemm / 1e6
    printf "  %-58s %8.2f s %12.1f MFLOP/s\n", "plain SQL: JOIN and GROUP BY, n = " m, join, 2 * m * m * m / join / 1e6
}'
