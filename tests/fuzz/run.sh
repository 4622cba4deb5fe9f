#!/usr/bin/env bash
# `make fuzz`: each libFuzzer program for SECONDS_EACH seconds, starting from its corpus.
#
#     tests/fuzz/run.sh [target...]      default: every program under $BUILD/tests/fuzz
#
# What libFuzzer finds interesting goes to $BUILD/corpus/<target>; a finding stays as $BUILD/<target>-crash-*
# and ends the run with status 1: put it into tests/fuzz/corpus/<target>/ with the fix.
set -u
cd "$(dirname "$0")/../.." || exit 1
failed=0
targets=${*:-$(ls "$BUILD"/tests/fuzz/fuzz_* | grep -v '\.' | sed 's,.*/fuzz_,,')}
for target in $targets; do
    mkdir -p "$BUILD/corpus/$target"
    log=$BUILD/$target.log
    printf '%-10s ' "$target"
    if ASAN_OPTIONS=allocator_may_return_null=1 "$BUILD/tests/fuzz/fuzz_$target" -max_total_time="${SECONDS_EACH:-300}" -timeout=20 \
        -rss_limit_mb=4096 -max_len=4096 -print_final_stats=1 -artifact_prefix="$BUILD/$target-" \
        "$BUILD/corpus/$target" $([ -d "tests/fuzz/corpus/$target" ] && echo "tests/fuzz/corpus/$target") >"$log" 2>&1; then
        sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tr '\n' ' '
        echo "inputs, no finding"
    else
        echo "FINDING:"
        grep -vE '^#[0-9]+' "$log" | tail -n 60
        failed=1
    fi
done
exit $failed
