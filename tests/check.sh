#!/usr/bin/env bash
# `make check`: the tests under sanitizers and valgrind.
#
#     tests/check.sh [asan|tsan|valgrind]...      default: all three
#
# asan       the whole of tests/run.sh with gx.so and every program built with ASan and UBSan.  Programs stop at
#            any finding or leak.  Python itself keeps memory until it ends, so there leaks are read from the
#            reports: one counts when a function of gx is in its stack.
# tsan       the unit programs, which hold the tests of the team and the streamer, built with TSan.
# valgrind   every statement of sql/examples in the sqlite3 shell: no error, no block lost that gx.so asked for.
set -u
cd "$(dirname "$0")/.." || exit 1
failed=
LOGS=$PWD/$BUILD/log
mkdir -p "$LOGS"

asan() {
    export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:detect_stack_use_after_return=0
    export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
    local rc=0 units fuzzers
    units=$(echo "$UNITS" | sed "s,\(^\| \)$BUILD/,\1build/asan/,g")
    fuzzers=$(echo "$FUZZERS" | sed "s,\(^\| \)$BUILD/,\1build/asan/,g")
    BUILD=build/asan UNITS=$units FUZZERS=$fuzzers tests/run.sh unit embed fuzz fault || rc=1
    rm -f "$LOGS"/python.*
    export GX_MOCK=$PWD/build/asan/tests/mockcuda/gx_cuda.so GX_STAND_INS=$PWD/build/asan/mock
    BUILD=build/asan GX_SO=$PWD/build/asan/gx.so PRELOAD=$($CC -print-file-name=libasan.so) \
        PYTHONMALLOC=malloc GX_SLOW=1 \
        ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1:exitcode=0:log_path=$LOGS/python" \
        tests/run.sh sql || rc=1
    python_findings || rc=1
    return $rc
}

# Errors in any Python process, and leaks with gx.so in their stack.
python_findings() {
    local rc=0
    for report in "$LOGS"/python.*; do
        [ -e "$report" ] || continue
        if grep -q 'ERROR: AddressSanitizer\|runtime error' "$report"; then
            cat "$report"
            rc=1
        fi
        awk 'BEGIN { RS = ""; bad = 0 }
             /^(Direct|Indirect) leak/ && /(gx\.so| (ext|core|kernels)\/[a-z_]+\.c:)/ {
                 print; print ""; bad = 1
             }
             END { exit bad }' "$report" || rc=1
    done
    return $rc
}

tsan() {
    local units
    units=$(echo "$UNITS" | sed "s,\(^\| \)$BUILD/,\1build/tsan/,g")
    # Address randomisation of newer kernels does not leave TSan the space it wants.
    TSAN_OPTIONS="halt_on_error=0:exitcode=66:suppressions=$PWD/tests/tsan.supp" BUILD=build/tsan UNITS=$units \
        setarch "$(uname -m)" -R tests/run.sh unit
}

valgrind() {
    local folder script log rc=0
    folder=$(mktemp -d)
    for script in sql/examples/*.sql; do
        log=$LOGS/valgrind-$(basename "$script").log
        command valgrind --leak-check=full --show-leak-kinds=definite,possible --num-callers=40 \
            --fullpath-after="$PWD/" --log-file="$log" \
            sqlite3 -cmd ".load $GX_SO" "$folder/$(basename "$script").db" <"$script" >"$folder/out" 2>&1
        if grep -q 'Invalid \(read\|write\)\|uninitialised\|Mismatched\|unrecognised' "$log" ||
            ! awk 'BEGIN { RS = "==[0-9]+== \n"; bad = 0 }
                   /(definitely|possibly) lost in/ && / \((ext|core|kernels)\/[a-z_]+\.c:/ { print; bad = 1 }
                   END { exit bad }' "$log"; then
            cat "$log"
            rc=1
        fi
        echo "valgrind $(basename "$script"): $(sed -n 's/.*ERROR SUMMARY: //p' "$log")"
    done
    rm -rf "$folder"
    return $rc
}

for part in ${*:-asan tsan valgrind}; do
    echo "== $part"
    "$part" || failed="$failed $part"
done
if [ -n "$failed" ]; then
    echo "failed:$failed"
    exit 1
fi
echo "check passed"
