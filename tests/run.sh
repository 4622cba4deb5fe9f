#!/usr/bin/env bash
# `make test`: the steps one after the other, one line each; the whole output of a step that fails.
#
#     tests/run.sh [step...]      default: all of $ALL below
#
# The Makefile sets BUILD, GX_SO, PYTHON, CC, UNITS and FUZZERS (programs).  PRELOAD, for `make check`: a
# library that the SQL tests' Python starts with.  Exit status 1 when a step failed.
set -u
cd "$(dirname "$0")/.." || exit 1
ALL="tidy exports unit cuda embed sql fault fuzz"
LOGS=$PWD/$BUILD/log
mkdir -p "$LOGS"
failed=

# What `make` made: it exports one symbol, and needs the C library of 2018 alone when it is loaded.
exports() {
    product=${GX_PRODUCT:-$GX_SO}
    found=$(nm -D --defined-only "$product" | awk '{print $3}' | tr '\n' ' ')
    [ "$found" = "sqlite3_gx_init " ] || { echo "gx.so exports: $found"; return 1; }
    for object in "$product" "${product%/*}"/gx_cuda.so; do
        [ -e "$object" ] || continue
        needed=$(readelf -d "$object" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' |
            grep -vE '^(libc|libm|libpthread|libdl|ld-linux.*)\.so' | tr '\n' ' ')
        [ -z "$needed" ] || { echo "${object##*/} needs: $needed"; return 1; }
        newest=$(readelf -W -V "$object" | sed -n 's/.*Name: \(GLIBC_[A-Z0-9._]*\).*/\1/p' | sort -V | tail -n 1)
        [ "$(printf '%s\n' GLIBC_2.28 "$newest" | sort -V | tail -n 1)" = GLIBC_2.28 ] || {
            echo "${object##*/} asks for $newest: $(objdump -T "$object" | grep -wF "$newest" | awk '{print $NF}' | tr '\n' ' ')"
            return 1
        }
    done
    # Ours are off there (OpenBLAS has some of its own).
    if nm "${GX_PRODUCT_A:-/dev/null}" 2>/dev/null | grep -q __assert_fail; then echo "libgx.a has assertions"; return 1; fi
    echo "1 symbol, no library but the C library, of glibc 2.28"
}

# Every unit program, two at a time.
unit() {
    [ -n "${UNITS:-}" ] || { echo "0 programs"; return 0; }
    # shellcheck disable=SC2016,SC2086
    printf '%s\n' $UNITS | xargs -P 2 -I{} sh -c '
        log='"$LOGS"'/$(basename {}).log
        timeout 300 {} >"$log" 2>&1 || { echo "{} failed:"; grep -v "^\[ *\(RUN\|OK\)" "$log"; exit 1; }' || return 1
    tests=$(cat "$LOGS"/test_*.log | grep -c '^\[ *OK')
    echo "$(echo "$UNITS" | wc -w) programs, $tests tests"
}

# The host side of the CUDA backend, with stand-ins for NVIDIA's libraries.
cuda() {
    for name in test_kernels test_device test_solve test_qr test_eigen; do
        GX_TEST_LARGEST=50 CUDA_PATH=$PWD/$BUILD/mock GX_CUDA_SO=$PWD/$BUILD/mock/gx_cuda.so timeout 300 \
            "$BUILD/gpu/gpu_tests" $name >"$LOGS/cuda_$name.log" 2>&1 || {
            grep -v '^\[ *\(RUN\|OK\)' "$LOGS/cuda_$name.log"
            return 1
        }
    done
    echo "$(cat "$LOGS"/cuda_test_*.log | grep -c '^\[ *OK') tests"
}

embed() {
    dir=$(mktemp -d)
    "$BUILD/tests/embed/embed" "$dir/embed.db"
    rc=$?
    rm -rf "$dir"
    return $rc
}

sql() {
    LD_PRELOAD=${PRELOAD:-} "$PYTHON" -m pytest -q --maxfail=20 --tb=short --no-header -p no:cacheprovider -rs tests/sql ${PYTEST_ARGS:-}
}

# A short version of `make fault`.
fault() {
    "$BUILD/tests/fault/fault" --points "${POINTS:-3}" || return 1
    [ -n "${PRELOAD:-}" ] || "$PYTHON" tests/fault/cuda.py --stand-ins "${GX_STAND_INS:-$BUILD/mock}" --step 97 || return 1
    [ -n "${PRELOAD:-}" ] || "$PYTHON" tests/fault/kill.py --times 8
}

# The fuzzers' corpora, once through.
fuzz() {
    for program in $FUZZERS; do
        name=$(basename "$program")
        corpus=tests/fuzz/corpus/${name#fuzz_}
        "$program" $([ -d "$corpus" ] && echo "$corpus") || { echo "$program failed"; return 1; }
    done
    echo "$(echo "$FUZZERS" | wc -w) fuzzers"
}

tidy() {
    tests/tidy.sh
}

for step in ${*:-$ALL}; do
    start=$(date +%s.%N)
    if "$step" >"$LOGS/$step.log" 2>&1; then
        state=ok
    else
        state=FAILED
        failed="$failed $step"
    fi
    seconds=$(echo "$(date +%s.%N) $start" | awk '{printf "%.1f", $1 - $2}')
    printf '%-8s %-7s %6s s  %s\n' "$step" "$state" "$seconds" "$(tail -n 1 "$LOGS/$step.log")"
    if [ $state = FAILED ]; then cat "$LOGS/$step.log"; fi
    grep '^SKIPPED' "$LOGS/$step.log"
done
if [ -n "$failed" ]; then
    echo "failed:$failed"
    exit 1
fi
echo "all tests passed"
