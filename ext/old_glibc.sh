#!/bin/sh
# The C library of 2018 to link with, made from the one of this machine.
#
#     ext/old_glibc.sh FOLDER      CC=gcc
#
# A shared object asks, for each function, for the version that the library it was linked with had as its
# default: linked on a machine of today it does not load on one of yesterday.  glibc keeps the older versions
# of every function for objects that were linked long ago, and this script makes libraries without code
# (libc.so.6, libm.so.6, libpthread.so.0, libdl.so.2) whose symbols have, of the versions there are, the newest
# that is at most $OLDEST: `-L FOLDER` binds to these.  Functions that are younger are not there at all;
# core/base/old_glibc.c has those that gx uses.  docs/decisions/024-old-glibc.md says why.
#
# Where the C library is not glibc the folder stays empty, and the link is an ordinary one.
set -eu
OLDEST=2.28
to=$1
CC=${CC:-gcc}
mkdir -p "$to"
rm -f "$to"/lib*

file() { $CC -print-file-name="$1"; }
[ -e "$(file libc_nonshared.a)" ] || exit 0

stub() { # stub LIBRARY: its symbols and their old versions, as assembler and as a version script
    readelf -W --dyn-syms "$(file "$1")" | awk -v oldest="$OLDEST" -v map="$to/$1.map" '
        function number(v,   p) { split(v, p, "."); return p[1] * 1000000 + p[2] * 1000 + p[3] }
        $7 != "UND" && $4 != "TLS" && $8 ~ /@GLIBC_[0-9.]+$|@@GLIBC_[0-9.]+$/ {
            split($8, part, /@+/); name = part[1]; version = substr(part[2], 7)
            if (number(version) > number(oldest)) next
            if (!(name in best) || number(version) > number(best[name])) best[name] = version
            type[name] = $4 == "OBJECT" ? "@object" : "@function"
        }
        END {
            for (name in best) {
                own = "gx_stub_" name
                printf ".globl %s\n.type %s, %s\n%s:\n", own, own, type[name], own
                printf ".symver %s, %s@@GLIBC_%s\n.size %s, 8\n.quad 0\n", own, name, best[name], own
                seen[best[name]] = 1
            }
            for (version in seen) print "GLIBC_" version " { };" >map
            print "local { local: *; };" >map
        }' >"$to/$1.s"
    $CC -shared -nostdlib -Wl,-soname,"$1" -Wl,--version-script,"$to/$1.map" -o "$to/$1" "$to/$1.s"
    rm "$to/$1.s" "$to/$1.map"
}

stub libc.so.6
stub libm.so.6
# Parts of libc.so.6 since 2.34, where these two have nothing left: what they had, libc.so.6 has in its old versions.
for part in libpthread.so.0 libdl.so.2; do
    $CC -shared -nostdlib -Wl,-soname,$part -o "$to/$part" -x c /dev/null
done
ln -s libm.so.6 "$to/libm.so"
ln -s libpthread.so.0 "$to/libpthread.so"
ln -s libdl.so.2 "$to/libdl.so"
loader=$(readelf -d "$(file libc.so.6)" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' | head -n 1)
# What is linked in statically goes first: pthread_atfork(), which has to know the object that called it.
echo "GROUP ( $(file libc_nonshared.a) $to/libc.so.6 AS_NEEDED ( $(file "$loader") ) )" >"$to/libc.so"
