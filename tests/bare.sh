#!/bin/bash
# gx.so and the libcjson.so.1 beside it in bare systems, and the Debian package in one: before a release, as root, with the mirrors in reach.
#
#     tests/bare.sh FOLDER [SYSTEM...]     gx.so and build/packages/*.deb are there; FOLDER: where the systems go
#
# A system is bootstrapped with its own sqlite3, the two files copied into it and nothing else; it is loaded there and runs
# gx_selftest().  The package (make deb, built on the system that it is for: Debian 12) is installed by apt, loaded by
# its name, and removed, after which nothing of it is left.  One line a system; exit status 1 where one failed.
set -u
cd "$(dirname "$0")/.."
folder=$1
shift
debian=http://deb.debian.org/debian
ubuntu=http://archive.ubuntu.com/ubuntu
systems=("$@")
[ ${#systems[@]} -gt 0 ] || systems=(buster bullseye bookworm focal jammy noble package)
PATH=$PATH:/usr/sbin:/sbin
failed=0

# NAME MIRROR ROOT
bootstrap() {
    rm -rf "$3"
    debootstrap --variant=minbase --include=sqlite3 ${4:+--components=$4} "$1" "$3" "$2" ${4:+gutsy} >"$3.log" 2>&1 ||
        { echo "$1 from $2: it cannot be made here: $(tail -n 1 "$3.log")"; return 1; }
}

# NAME MIRROR ROOT: no system, only the packages that sqlite3 needs there, for suites that this debootstrap does not know.
unpack() {
    rm -rf "$3" "$3.apt"
    mkdir -p "$3" "$3.apt/state/lists/partial" "$3.apt/cache/archives/partial"
    touch "$3.apt/state/status"
    echo "deb [trusted=yes arch=amd64] $2 $1 main" >"$3.apt/sources.list"
    (
        cd "$3.apt" || exit 1
        apt() { apt-get -qq -o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State="$PWD/state" \
            -o Dir::State::status="$PWD/state/status" -o Dir::Cache="$PWD/cache" -o APT::Architecture=amd64 "$@"; }
        apt update; apt download sqlite3 libsqlite3-0 libc6 libreadline8t64 libtinfo6 zlib1g
        for deb in *.deb; do dpkg-deb -x "$deb" "$3" || exit 1; done
        [ -e "$3/lib" ] || ln -s usr/lib "$3/lib"
        [ -e "$3/lib64" ] || ln -s usr/lib64 "$3/lib64"
    ) >"$3.log" 2>&1 || { echo "$1 from $2: it cannot be unpacked here: $(tail -n 1 "$3.log")"; return 1; }
    rm -rf "$3.apt"
}

inside() {
    env -i HOME=/ PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 chroot "$@"
}

alone() {
    cp gx.so libcjson.so.1 "$2/"
    answer=$(inside "$2" sqlite3 :memory: '.load /gx.so' \
        "SELECT 'gx ' || gx_version() || ', SQLite ' || sqlite_version(); SELECT 'selftest ' || gx_selftest()" 2>&1)
    [[ $answer == *"selftest ok"* ]] || failed=1
    library=$({ inside "$2" ldd --version || inside "$2" /lib/x86_64-linux-gnu/libc.so.6; } 2>/dev/null | head -n 1)
    echo "$1: $library: ${answer//$'\n'/, }"
}

package() {
    for file in /etc/resolv.conf /etc/hosts; do
        cp "$file" "$1/etc/"
    done
    cp /etc/apt/apt.conf.d/*proxy* "$1/etc/apt/apt.conf.d/" 2>/dev/null
    cp build/packages/libsqlite3-gx_*.deb "$1/tmp/"
    inside "$1" sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends /tmp/libsqlite3-gx_*.deb' >"$1.log" 2>&1
    answer=$(inside "$1" sqlite3 :memory: '.load gx' "SELECT 'selftest ' || gx_selftest()" 2>&1)
    inside "$1" apt-get purge -y -qq libsqlite3-gx >>"$1.log" 2>&1
    left=$(find "$1/usr" -path '*sqlite3-gx*' -o -name 'gx.so' -o -name 'libgx.a' | wc -l)
    [[ $answer == *"selftest ok"* && $left == 0 ]] || failed=1
    echo "package: installed, loaded: $answer; removed, files left: $left"
}

for system in "${systems[@]}"; do
    root=$folder/$system
    mkdir -p "$folder"
    case $system in
    buster) bootstrap buster http://archive.debian.org/debian "$root" && alone buster "$root" ;;
    bullseye | bookworm) bootstrap "$system" $debian "$root" && alone "$system" "$root" ;;
    noble) unpack noble $ubuntu "$root" && alone noble "$root" ;;
    package) bootstrap bookworm $debian "$root" && package "$root" ;;
    *) bootstrap "$system" $ubuntu "$root" main,universe && alone "$system" "$root" ;;
    esac || failed=1
    rm -rf "$root"
done
exit $failed
