#!/usr/bin/env bash
# The style as a test: what docs/style.md asks for and a machine can see.
#
# Sizes (file 800 lines, function 70, line 100 columns), no tabs, names of files, forbidden includes and calls,
# headers that compile alone (C11, C++17), an essay at the top of each .c, banners, files that are named, no machine paths.
# Prints each finding as file:line: what; exit status 1 when there is one.
set -u
cd "$(dirname "$0")/.." || exit 1
CC=${CC:-gcc}
CXX=${CXX:-g++}
findings=0

complain() { # complain TEXT: lines of findings on stdin, each printed with TEXT
    while IFS= read -r line; do
        [ -n "$line" ] || continue
        echo "$line: $1"
        findings=$((findings + 1))
    done
}

c_files() { git ls-files --cached --others --exclude-standard "$@" | sort -u | while read -r f; do [ -f "$f" ] && echo "$f"; done; }

SOURCE=$(c_files 'ext/*.[ch]' 'core/**.[ch]' 'kernels/*.[ch]' 'kernels/*.cu')
TESTS=$(c_files 'tests/*.[ch]' 'bench/*.[ch]')
SCRIPTS=$(c_files '*.py' '*.sh' '.ci/*')
PRODUCT=$(echo "$SOURCE" | tr '\n' ' ')

# Sizes.
for f in $SOURCE $TESTS $SCRIPTS; do
    lines=$(wc -l <"$f")
    if [ "$lines" -gt 800 ]; then complain "has $lines lines (limit 800)" <<<"$f"; fi
done
complain "longer than 100 columns" < <(
    LC_ALL=C.UTF-8 awk 'length($0) > 100 { print FILENAME ":" FNR }' $SOURCE $TESTS)
complain "tab" < <(grep -nP '\t' $SOURCE $TESTS $(c_files '*.py') | cut -d: -f1,2)
complain "trailing blank" < <(grep -nP ' +$' $SOURCE $TESTS $SCRIPTS | cut -d: -f1,2)
if ctags --version 2>/dev/null | grep -q Universal; then
    complain "function longer than 70 lines" < <(
        echo "$SOURCE $TESTS" | tr ' ' '\n' | grep '\.c$' |
            ctags -x --_xformat='%{end} %n %F %N' --kinds-C=f -L - |
            awk '$1 - $2 + 1 > 70 { print $3 ":" $2 ": " $4 " (" $1 - $2 + 1 ")" }')
else
    echo "no Universal Ctags: the length of functions is not checked"
fi

# Names: each file can be named without its folder.
complain "file name used twice" < <(
    echo "$SOURCE $TESTS" | tr ' ' '\n' | sed 's,.*/,,' | sort | uniq -d)

# Forbidden: code without comments and strings (but those of #include), so that prose may say malloc.
strip() { # strip FILE...: their code alone, each line as file:line:code
    awk '{ line = $0; if (line !~ /^# *include/) gsub(/"([^"\\]|\\.)*"/, "\"\"", line); sub(/\/\/.*/, "", line); out = ""
           if (FNR == 1) in_comment = 0
           while (line != "") {
               if (in_comment) { p = index(line, "*/"); if (!p) { line = "" } else { line = substr(line, p + 2); in_comment = 0 } }
               else { p = index(line, "/*"); if (!p) { out = out line; line = "" }
                      else { out = out substr(line, 1, p - 1); line = substr(line, p + 2); in_comment = 1 } }
           }
           print FILENAME ":" FNR ":" out }' "$@"
}

CODE=$(mktemp)
trap 'rm -f "$CODE"' EXIT
strip $SOURCE >"$CODE"

forbid() { # forbid REGEX TEXT ALLOWED-GLOB...
    regex=$1
    text=$2
    shift 2
    while IFS= read -r place; do
        for allowed in "$@"; do
            # shellcheck disable=SC2053
            [[ ${place%:*} == $allowed ]] && continue 2
        done
        complain "$text" <<<"$place"
    done < <(grep -P "^[^:]*:\d+:.*?(?:$regex)" "$CODE" | cut -d: -f1,2)
}

forbid '\b(malloc|calloc|realloc|free|aligned_alloc|posix_memalign|strdup|strndup|asprintf)\s*\(' \
    'allocation outside core/base/mem*.c' 'core/base/mem*.c' 'kernels/cuda*'
forbid '\bpthread_create\s*\(' 'a thread that takes signals of the host: gx_thread_start()' 'core/base/thread.c' 'kernels/cpu_threads.c'
forbid '(?<!->)(?<!\.)\b(abort|exit|_exit|quick_exit|raise)\s*\(' 'ends the process'
forbid '\b(printf|puts|putchar|perror)\s*\(' 'prints'
forbid '\b(fprintf|fputs|fputc)\s*\(' 'prints' core/run/run.c
forbid '\b(gets|strcpy|strcat|sprintf|vsprintf|strtok|rand|srand|system|popen|alloca)\s*\(' 'unsafe call'
forbid '#\s*include\s*<sqlite3' 'sqlite3 header outside ext/ and core/store/' 'ext/*' 'core/store/*.c'
forbid '#\s*include\s*[<"](cuda|cublas|cusolver)' 'CUDA header outside kernels/cuda*' 'kernels/cuda*'
forbid '#\s*include\s*"(\.\./)*ext/|#\s*include\s*"gx_ext.h"' 'core and kernels know nothing of ext' 'ext/*'
forbid '#\s*include\s*"[^"]*\.c"' '.c included'
forbid '(?<!_Static_)\bassert\s*\(' 'assertion in a kernel (the tests run the kernels that the product has)' 'core/*' 'ext/*'
forbid '\(gx_dtype\)' 'a number is no dtype: the ways across are in core/base/dtype.h' 'core/base/dtype.*' 'core/base/value.c' 'core/store/store_meta.c'
forbid '\bcase GX_(F64|F32|C128|C64):' 'not for all numbers: gx_number_get(), gx_number_put(), dtype.h' 'kernels/*' 'core/base/types.h' \
    'core/alg/dense.c' 'ext/heatmap.c'
forbid '\b(_Thread_local|__thread|thread_local)\b' 'thread-local'
complain "SQL text outside core/store/" < <(
    echo "$SOURCE" | grep -v '^core/store/' | xargs \
        grep -nE '"[^"]*\b(SELECT .* FROM|INSERT (OR [A-Z]+ )?INTO|DELETE FROM|UPDATE .* SET|CREATE (TEMP |VIRTUAL )?TABLE|DROP TABLE|SAVEPOINT |RELEASE |PRAGMA )' |
        grep -v 'CREATE TABLE x(' | # the shape of a virtual table, for sqlite3_declare_vtab()
        cut -d: -f1,2)
complain "TODO left" < <(grep -nE '\b(TODO|FIXME|XXX)\b' $SOURCE $TESTS $(c_files '*.py' '*.md' | grep -v '^tests/tidy') | cut -d: -f1,2)
complain "machine path" < <(git grep -nE '/(work|farm|home|root)/' -- . ':!tests/tidy.sh' | cut -d: -f1,2)

# The order of the rooms: no include or call upward, private headers stay at home, no circle of files.
if ctags --version 2>/dev/null | grep -q Universal; then
    python3 tests/rooms.py >/dev/null || complain "(tests/rooms.py)" < <(python3 tests/rooms.py)
fi

# The size of each room.
complain "(tests/budget.py)" < <(python3 tests/budget.py)

# Banners of one style, as docs/style.md has it.
complain "a banner is // Name, then - to column 100" < <(
    awk '/^(\/\*|\/\/) *[-=*][-=*][-=*]/ || (/^\/\/ .* ---+$/ && length($0) != 100) { print FILENAME ":" FNR }' $SOURCE $TESTS)

# Files that are named are there.
complain "no such file (tests/cited.py)" < <(python3 tests/cited.py)

# An essay at the top of each .c, a plan at the top of each test.
for f in $(echo "$SOURCE $TESTS" | tr ' ' '\n' | grep '\.c$'); do
    if [ "$(head -c 2 "$f")" != '/*' ]; then complain "no essay at the top" <<<"$f"; fi
done
for f in $(c_files 'tests/*.py'); do
    if ! head -n 3 "$f" | grep -qE '^(r?"""|#!)'; then complain "no plan at the top" <<<"$f"; fi
done

# Headers compile alone; the public one and the backend's as C++ too.
blas=$(ls -d /usr/include/*-linux-gnu/openblas-pthread 2>/dev/null | head -n 1)
for f in $(echo "$SOURCE" | tr ' ' '\n' | grep '\.h$'); do
    $CC -std=c11 -D_GNU_SOURCE -fsyntax-only ${blas:+-I$blas} -x c "$f" -Wno-pragma-once-outside-header \
        2>/dev/null || complain "does not compile alone as C11" <<<"$f"
    case $f in
    ext/gx.h | core/base/backend.h)
        $CXX -std=c++17 -fsyntax-only -x c++ "$f" 2>/dev/null || complain "does not compile alone as C++17" <<<"$f" ;;
    esac
done

if [ $findings -gt 0 ]; then
    echo "$findings findings"
    exit 1
fi
echo "$(echo "$PRODUCT" | wc -w) source files"
