#!/usr/bin/env bash
# Installs into a fresh prefix, moves the prefix, and builds and runs programs against it that know nothing of this tree: through
# find_package(kith) and through pkg-config, in C and in C++, alone and on two ranks.
#
# SPDX-License-Identifier: BSD-3-Clause
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
unset LD_LIBRARY_PATH KITH_BACKEND_PATH CFLAGS CXXFLAGS LDFLAGS 2>/dev/null || true

fail() {
    echo "FAILED: $*"
    exit 1
}

"$CMAKE" --install "$KITH_BUILD_DIR" --prefix "$work/first" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
mv "$work/first" "$work/moved prefix" # nothing in it may know its place
prefix="$work/moved prefix"

pc="$(find "$prefix" -name kith.pc)"
[ -n "$pc" ] || fail "no kith.pc was installed"
library_dir="$(dirname "$(dirname "$pc")")"
kith="$prefix/bin/kith"

for path in "$prefix/include/kith/kith.h" "$library_dir/libkith.so" "$kith" "$prefix/share/man/man1/kith.1" \
    "$prefix/share/man/man3/kith_init.3" "$prefix/share/man/man7/kith.7" \
    "$prefix/share/bash-completion/completions/kith"; do
    [ -e "$path" ] || fail "not installed: ${path#"$prefix"/}"
done
[ -z "$(find "$prefix" -name 'libkith_internal*')" ] || fail "the internal library was installed"

# Every module of the build is there, and the moved library finds each of them.
for module in "$KITH_BUILD_DIR"/lib/kith/libkith_*.so; do
    [ -e "$module" ] || continue
    [ -e "$library_dir/kith/$(basename "$module")" ] || fail "module not installed: $(basename "$module")"
done
backends() {
    "$1" info --json | tr -d ' \n' | sed -e 's/"devices".*//' | grep -oE '"name":"[a-z0-9_]+"' | sort -u
}
[ "$(backends "$kith")" = "$(backends "$KITH_BIN")" ] ||
    fail "the moved prefix lists other backends: $(backends "$kith" | tr '\n' ' ') instead of $(backends "$KITH_BIN" | tr '\n' ' ')"

# check <program>: right result alone and on two ranks
check() {
    local program="$1" out
    out="$(timeout 60 "$program")" || fail "$(basename "$program") alone: exit $?"
    [ "$out" = "sum 1 of 1" ] || fail "$(basename "$program") alone printed '$out'"
    out="$(timeout 60 "$kith" run -n 2 -- "$program")" || fail "$(basename "$program") on two ranks: exit $?"
    [ "$out" = "sum 3 of 2" ] || fail "$(basename "$program") on two ranks printed '$out'"
    echo "ran $(basename "$program")"
}

echo "find_package"
"$CMAKE" -S "$here/project" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$CC" >"$work/log" 2>&1 &&
    "$CMAKE" --build "$work/build" >>"$work/log" 2>&1 || { cat "$work/log"; fail "the project does not build"; }
check "$work/build/consumer_c"
[ -x "$work/build/consumer_cxx" ] && check "$work/build/consumer_cxx"

echo "pkg-config"
export PKG_CONFIG_PATH="$(dirname "$pc")"
[ -n "$(pkg-config --modversion kith)" ] || fail "pkg-config does not know kith"
eval "cflags=($(pkg-config --cflags kith))"
eval "libs=($(pkg-config --libs kith))"
"$CC" -std=c11 "${cflags[@]}" "$here/project/consumer.c" "${libs[@]}" -Wl,-rpath,"$library_dir" -o "$work/by_pkgconfig_c"
check "$work/by_pkgconfig_c"
if command -v "${CXX:-}" >/dev/null 2>&1; then
    "$CXX" -std=c++11 "${cflags[@]}" "$here/project/consumer.cpp" "${libs[@]}" -Wl,-rpath,"$library_dir" \
        -o "$work/by_pkgconfig_cxx"
    check "$work/by_pkgconfig_cxx"
else
    echo "no C++ compiler: only the C programs were built"
fi
