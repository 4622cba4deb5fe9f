#!/usr/bin/env bash
# `make test`: the steps one after the other, one line each; the whole output of a step that fails.
#
#     tests/run.sh [step...]      default: all of $ALL below
#
# The Makefile sets BUILD, GX_SO, PYTHON, CC, UNITS and FUZZERS (programs).  PRELOAD, for `make check`: a
# library that the SQL tests' Python starts with.  Exit status 1 when a step failed.
set -u
cd "$(dirname "$0")/.." || exit 1
ALL="tidy exports unit cuda embed sql python fault fuzz"
LOGS=$PWD/$BUILD/log
mkdir -p "$LOGS"
failed=

# What `make` made: it exports what ext/gx.h declares, and needs the C library of 2018 and the cJSON beside it when it
# is loaded.
exports() {
    product=${GX_PRODUCT:-$GX_SO}
    found=$(nm -D --defined-only "$product" | awk '{print $3}' | tr '\n' ' ')
    [ "$found" = "gx_configure gx_lend gx_lend_end gx_on_signal sqlite3_gx_init sqlite3_gx_safe_init " ] || { echo "gx.so exports: $found"; return 1; }
    for object in "$product" "${product%/*}"/gx_cuda.so "${product%/*}"/libcjson.so.1; do
        [ -e "$object" ] || continue
        needed=$(readelf -d "$object" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' |
            grep -vE '^(libc|libm|libpthread|libdl|ld-linux.*|libcjson)\.so' | tr '\n' ' ')
        [ -z "$needed" ] || { echo "${object##*/} needs: $needed"; return 1; }
        newest=$(readelf -W -V "$object" | sed -n 's/.*Name: \(GLIBC_[A-Z0-9._]*\).*/\1/p' | sort -V | tail -n 1)
        [ "$(printf '%s\n' GLIBC_2.28 "$newest" | sort -V | tail -n 1)" = GLIBC_2.28 ] || {
            echo "${object##*/} asks for $newest: $(objdump -T "$object" | grep -wF "$newest" | awk '{print $NF}' | tr '\n' ' ')"
            return 1
        }
    done
    readelf -d "$product" | grep -q 'RUNPATH.*\[$ORIGIN\]' || { echo "gx.so does not look for libcjson.so.1 beside itself"; return 1; }
    # An application links it beside names of its own; _ZGV: a vector form of a function of ours.
    strange=$(nm -g --defined-only "${GX_PRODUCT_A:-/dev/null}" 2>/dev/null | awk 'NF == 3 && $2 != "W" { print $3 }' |
        grep -vE '^(gx_|sqlite3_gx_|_ZGV[a-zA-Z0-9]+_gx_)' | sort -u | tr '\n' ' ')
    [ -z "$strange" ] || { echo "libgx.a defines: $strange"; return 1; }
    # Assertions are off there (OpenBLAS has some of its own).
    if nm "${GX_PRODUCT_A:-/dev/null}" 2>/dev/null | grep -q __assert_fail; then echo "libgx.a has assertions"; return 1; fi
    echo "6 symbols, no library but cJSON and the C library, of glibc 2.28"
}

# Commands on stdin, each after a name: two at a time, each with a log; the logs of those that fail are shown.
two() {
    # shellcheck disable=SC2016
    xargs -P 2 -L 1 sh -c 'log=$0/$1.log; shift
        timeout 1200 "$@" >"$log" 2>&1 || { echo "$* failed ($?):"; grep -v "^\[ *\(RUN\|OK\)" "$log"; exit 1; }' "$LOGS"
}

passed() { cat "$@" | grep -c '^\[ *OK'; } # LOG...: how many tests of cmocka's

unit() {
    [ -n "${UNITS:-}" ] || { echo "0 programs"; return 0; }
    for program in $UNITS; do echo "unit_$(basename "$program") $program"; done | two || return 1
    echo "$(echo "$UNITS" | wc -w) programs, $(passed "$LOGS"/unit_*.log) tests"
}

# The host side of the CUDA backend, with stand-ins for NVIDIA's libraries.
cuda() {
    for name in test_kernels test_nearest test_fused test_solve test_device test_grid test_qr test_eigen; do
        echo "cuda_$name env GX_TEST_LARGEST=50 CUDA_PATH=$PWD/$BUILD/mock GX_CUDA_SO=$PWD/$BUILD/mock/gx_cuda.so" \
            "GX_COMPILE_AFTER=1000 $BUILD/gpu/gpu_tests $name"
    done | two || return 1
    echo "$(passed "$LOGS"/cuda_*.log) tests"
}

embed() {
    dir=$(mktemp -d)
    "$BUILD/tests/embed/embed" "$dir/embed.db"
    rc=$?
    rm -rf "$dir"
    return $rc
}

# In two processes, a file of tests in one of them; in one where the product's threads want both processors
# (PYTEST_ARGS="-n 0") or pytest-xdist is missing.
split_pytest() {
    "$PYTHON" -c 'import xdist' 2>/dev/null && split="-n 2 --dist loadfile"
    # shellcheck disable=SC2086
    "$PYTHON" -m pytest -q --maxfail=20 --tb=short --no-header -p no:cacheprovider -rs "$@" ${split:-} ${PYTEST_ARGS:-}
}

sql() { LD_PRELOAD=${PRELOAD:-} split_pytest tests/sql; }

# The Python package, from its sources.
python() { split_pytest tests/python; }

# A short version of `make fault`.
fault() {
    {
        for journal in delete wal; do
            echo "fault_$journal $BUILD/tests/fault/fault --points ${POINTS:-3} --journal $journal"
        done
        if [ -z "${PRELOAD:-}" ]; then
            echo "fault_cuda $PYTHON tests/fault/cuda.py --stand-ins ${GX_STAND_INS:-$BUILD/mock} --step 97"
            echo "fault_kill $PYTHON tests/fault/kill.py --times 8"
        fi
    } | two || return 1
    for log in delete wal cuda kill; do [ ! -e "$LOGS/fault_$log.log" ] || tail -n 1 "$LOGS/fault_$log.log"; done |
        paste -s -d ';' | sed 's/;/; /g'
}

# The fuzzers' corpora, once through.
fuzz() {
    for program in $FUZZERS; do
        name=$(basename "$program")
        corpus=tests/fuzz/corpus/${name#fuzz_}
        echo "$name $program$([ -d "$corpus" ] && echo " $corpus")"
    done | two || return 1
    echo "$(echo "$FUZZERS" | wc -w) fuzzers"
}

tidy() {
    tests/tidy.sh
}

for step in ${*:-$ALL}; do
    rm -f "$LOGS/$step.log" "$LOGS/${step}"_*.log
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
