#!/bin/bash
# A wheel for aarch64, made and tested on a Debian of another kind: Debian's cross compiler, its arm64 packages, qemu.
#
#     ext/arm64.sh FOLDER PACKAGES      FOLDER: what is built, and FOLDER/root, the packages; PACKAGES: where the wheel goes
#
# The packages of the Debian release that this machine runs are downloaded with all that they need and unpacked into
# FOLDER/root; nothing is installed.  Tests, in qemu-user: gx_selftest(), unit programs, and some of the SQL tests in the
# arm64 Python, with its NumPy.  CUDA is not in this wheel.
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1" "$2"
folder=$(cd "$1" && pwd)
packages=$(cd "$2" && pwd)
root=$folder/root
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
triplet=aarch64-linux-gnu
units="base/test_dtype base/test_decimal base/test_csr run/test_team kernels/test_kernels store/test_store"
sql="tests/sql/test_values.py tests/sql/test_matmul.py tests/sql/test_cholesky.py tests/sql/test_map.py tests/sql/test_dtypes.py"

packages_into_root() {
    apt=$folder/apt
    mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial"
    : >"$apt/state/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg arch=arm64] http://deb.debian.org/debian $suite main" >"$apt/sources.list"
    get="apt-get -qq -y -o Dir::Etc::sourcelist=$apt/sources.list -o Dir::Etc::sourceparts=/dev/null -o Dir::State=$apt/state
        -o Dir::State::status=$apt/state/status -o Dir::Cache=$apt/cache -o APT::Architecture=arm64 -o APT::Architectures=arm64
        -o APT::Install-Recommends=false -o Debug::NoLocking=1 -o APT::Sandbox::User=$(id -un)"
    $get update
    $get install --download-only libc6-dev libsqlite3-dev libcjson-dev liblapacke-dev libopenblas-pthread-dev libcmocka-dev \
        sqlite3 python3-numpy python3-scipy python3-pytest >/dev/null
    for deb in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$deb" "$root.new"; done
    rm -rf "$apt"
    mv "$root.new" "$root"
}

[ -e "$root" ] || packages_into_root

make=(make --no-print-directory NVCC= CROSS=$triplet- SYSROOT="$root")
echo "aarch64: compiling"
"${make[@]}" BUILD="$folder" SO="$folder/gx.so" "$folder/gx.so"
GX_BUILT=1 GX_MACHINE=aarch64 GX_OBJECTS=$folder STRIP=$triplet-strip ${PYTHON:-python3} ext/python/backend.py wheel "$packages"

# The tests' build has assertions on, as everywhere.
tests=$folder/test
"${make[@]}" NDEBUG= BUILD="$tests" SO="$tests/gx.so" "$tests/gx.so" $(for unit in $units; do echo "$tests/tests/unit/$unit"; done)

emulated() { # PROGRAM...: of the root, as if its folders were the machine's
    qemu-$(uname -m | sed s/.*/aarch64/)-static -L "$root" -E "LD_LIBRARY_PATH=$(blas)" -E "GX_SO=$tests/gx.so" "$@"
}
blas() { echo "$root/usr/lib/$triplet/openblas-pthread:$root/usr/lib/$triplet:$root/lib/$triplet"; }
python=$(ls "$root"/usr/bin/python3.[0-9]* | grep -v config | head -n 1)

echo "aarch64: $(emulated "$root/usr/bin/sqlite3" :memory: ".load $folder/gx.so" "SELECT 'gx ' || gx_version() || ', SQLite ' || sqlite_version() || ', selftest ' || gx_selftest()")"
for unit in $units; do
    emulated "$tests/tests/unit/$unit" 2>&1 | sed -n 's/.*PASSED.*\( [0-9]* test\)/aarch64: '"${unit//\//\\/}"'\1/p'
done
# Nobody emulates what a test starts itself.
emulated "$python" -m pytest -q -p no:cacheprovider -x -k "not by_tiles and not on_a_device" $sql
