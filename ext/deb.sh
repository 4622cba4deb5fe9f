#!/bin/sh
# The Debian package libsqlite3-gx out of a build with the distribution's own libraries: `make deb`.
#
#     ext/deb.sh BUILD FOLDER VERSION     CC=gcc
#
# The extension lies where the architecture's libraries are, in a folder of its own, since programs load it by
# name and none links with it; beside it what an application needs that links gx in (header, static library,
# pkg-config), and the documentation.
set -eu
build=$1
to=$2
version=$3-1
CC=${CC:-gcc}
cd "$(dirname "$0")/.."
triplet=$($CC -print-multiarch)
root=$build/package
lib=$root/usr/lib/$triplet
doc=$root/usr/share/doc/libsqlite3-gx
umask 022
rm -rf "$root"
mkdir -p "$root/DEBIAN" "$lib/sqlite3-gx" "$lib/pkgconfig" "$root/usr/include" "$doc" "$to"

strip --strip-unneeded -o "$lib/sqlite3-gx/gx.so" "$build/gx.so"
strip --strip-debug --remove-section=.comment --remove-section=.note -o "$lib/libgx.a" "$build/libgx.a"
chmod 644 "$lib/sqlite3-gx/gx.so" "$lib/libgx.a"
install -m 644 ext/gx.h "$root/usr/include/gx.h"
sed "s,^libdir=.*,libdir=\${prefix}/lib/$triplet," "$build/gx.pc" >"$lib/pkgconfig/gx.pc"
for page in README.md docs/*.md docs/*/*.md; do
    install -D -m 644 "$page" "$doc/$page"
done
find "$doc" -name '*.md' -size +4k -exec gzip -9n {} +

# What .load asks for without a path: the loader finds libraries in the architecture's folder.
ln -s "sqlite3-gx/gx.so" "$lib/gx.so"

day=$(LC_ALL=C date -R -d "$(sed -n 's/^## .*(\([0-9-]*\))$/\1/p' CHANGELOG.md | head -n 1)")
{
    printf 'libsqlite3-gx (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n' "$version"
    printf ' -- gx developers <gx@example.org>  %s\n' "$day"
} | gzip -9n >"$doc/changelog.Debian.gz"
gzip -9nc CHANGELOG.md >"$doc/changelog.gz"
{
    echo 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/'
    echo 'Upstream-Name: gx'
    echo
    echo 'Files: *'
    sed -n 's/^Copyright/Copyright:/p' LICENSE
    echo 'License: Expat'
    sed '1,/^Copyright/d; /^$/d' LICENSE | sed 's/^/ /'
} >"$doc/copyright"

# The packages of the libraries gx.so is linked with.
mkdir -p "$build/debian"
printf 'Source: gx\n\nPackage: libsqlite3-gx\nArchitecture: any\n' >"$build/debian/control"
depends=$(cd "$build" && dpkg-shlibdeps -O "package/usr/lib/$triplet/sqlite3-gx/gx.so" | sed 's/^shlibs:Depends=//')
cat >"$root/DEBIAN/control" <<CONTROL
Package: libsqlite3-gx
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: gx developers <gx@example.org>
Installed-Size: $(du -k -s "$root" | cut -f 1)
Depends: $depends
Suggests: sqlite3
Section: libs
Priority: optional
Description: linear algebra on matrices stored in SQLite
 A loadable extension for SQLite that keeps matrices in an ordinary database,
 as tiles in a table, and computes with them from SQL: products, linear
 systems, least squares, factorisations, eigenvalues, singular values and
 principal components, of matrices that may be larger than memory.
 .
 In the sqlite3 shell it is loaded by ".load gx".
CONTROL
(cd "$root" && find usr -type f -exec md5sum {} +) >"$root/DEBIAN/md5sums"
package=$to/libsqlite3-gx_${version}_$(dpkg --print-architecture).deb
dpkg-deb --root-owner-group --build "$root" "$package" >/dev/null
echo "$package"
