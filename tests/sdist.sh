#!/bin/bash
# The source distribution alone makes a wheel that works: before a release.
#
#     make sdist && tests/sdist.sh FOLDER [PYTHON]     FOLDER: a new one, which is removed; PYTHON: by default python3
#
# In a new virtual environment pip builds a wheel out of build/packages/gx_sqlite-*.tar.gz, with nothing of this folder in
# reach, and installs it; a program stores, multiplies and fetches.  NumPy comes from the package index.  Exit status 1
# where one of these failed; what pip said stands then in FOLDER.log.
set -u
cd "$(dirname "$0")/.." || exit 1
folder=$1
python=${2:-python3}
source=$(ls "$PWD"/build/packages/gx_sqlite-*.tar.gz) || exit 1
program='
import sqlite3, numpy as np, gx_sqlite as gx
db = sqlite3.connect(":memory:"); gx.load(db)
a = np.arange(12.0).reshape(3, 4)
gx.store(db, "A", a)
assert np.array_equal(gx.fetch(db, "A"), a) and np.allclose(np.asarray(gx.matrix(db, "A") @ a.T), a @ a.T)
print("gx", gx.__version__, "of", gx.library(), "selftest", db.execute("SELECT gx_selftest()").fetchone()[0])'

[ -e "$folder" ] && { echo "$folder is there already"; exit 1; }
mkdir -p "$folder" && cp "$source" "$folder/" && cd "$folder" || exit 1
unset GX_SO PYTHONPATH
"$python" -m venv new && new/bin/pip wheel --no-deps -w wheels ./gx_sqlite-*.tar.gz >"$folder.log" 2>&1 &&
    new/bin/pip install wheels/*.whl >>"$folder.log" 2>&1 && (cd / && "$folder/new/bin/python" -c "$program")
status=$?
cd / && rm -rf "$folder"
[ $status = 0 ] && rm -f "$folder.log"
exit $((status != 0))
