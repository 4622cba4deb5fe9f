#!/usr/bin/env bash
# The GPU's tests and benchmark: what `make test-gpu` and `make bench-gpu` run.
#
#     tests/gpu/run.sh FOLDER test|sanitize|bench [name...]
#
# FOLDER holds gpu_tests, gx_cuda.so and libcmocka (build/gpu as `make gpu` leaves it), and can be carried
# to another machine.  test: every program, then, where compute-sanitizer is, our own kernels under memcheck
# and racecheck.  A machine without a device is a skip, said aloud.  Exit status 1 when a test failed.
set -u
folder=$(cd "$1" && pwd) || exit 1
what=$2
shift 2
export GX_CUDA_SO=${GX_CUDA_SO:-$folder/gx_cuda.so}
status=0

one() { # one NAME: its output when it fails, a line when it passes
    name=$1
    start=$(date +%s)
    timeout "${SECONDS_EACH:-500}" "$folder/gpu_tests" "$name" >"/tmp/$name.$$" 2>&1
    rc=$?
    if [ $rc = 77 ]; then
        grep '^SKIPPED' "/tmp/$name.$$"
    elif [ $rc = 0 ]; then
        echo "$name: $(grep -c '^\[ *OK' "/tmp/$name.$$") tests passed, $(($(date +%s) - start)) s"
    else
        status=1
        echo "$name: status $rc, $(($(date +%s) - start)) s"
        grep -v '^\[ *\(RUN\|OK\)' "/tmp/$name.$$" | cut -c1-300 | head -n 40
    fi
    rm -f "/tmp/$name.$$"
}

under() { # under WHAT PROGRAM SETTING: $tool's verdict, and its output when it complains
    log=/tmp/sanitize.$$
    env "$3" timeout "${SECONDS_EACH:-500}" compute-sanitizer --tool "$tool" --error-exitcode 9 \
        "$folder/gpu_tests" "$2" >$log 2>&1
    rc=$?
    echo "$tool$1: status $rc: $(grep '=' $log | tail -n 1)"
    if [ $rc != 0 ] && [ $rc != 77 ]; then
        status=1
        head -n 60 $log
    fi
    rm -f $log
}

sanitize() { # our own kernels: elementwise, transposes, reductions, rows, neighbours, products
    if ! command -v compute-sanitizer >/dev/null 2>&1; then
        echo "SKIPPED: no compute-sanitizer here"
        return
    fi
    for tool in memcheck racecheck; do
        under " of neighbours" test_nearest GX_TEST_ONLY=halves
        under " of sparse products" test_sparse_kernel GX_TEST_ONLY=long_rows
        # A warp's lanes read, meet, and one of them arrives at the barrier that the next bulk copy waits for: racecheck
        # does not follow that, and takes the copy for a race with the lanes' reads.
        [ $tool = racecheck ] || under " of split products" test_device GX_TEST_ONLY=split_errors
        # Blocks of threads shorten the ways to roots while others walk them: racecheck takes that for a race.
        [ $tool = racecheck ] || under " of grids" test_grid GX_TEST_ONLY=refusals
        under "" test_device GX_TEST_SMALL=1
    done
}

case $what in
test)
    for name in ${*:-$("$folder/gpu_tests" | grep ^test_)}; do one "$name"; done
    [ $# != 0 ] || sanitize
    ;;
sanitize) sanitize ;;
bench) "$folder/gpu_tests" bench_device || status=1 ;;
*) echo "usage: tests/gpu/run.sh FOLDER test|sanitize|bench [name...]" && status=1 ;;
esac
exit $status
