#!/usr/bin/env bash
# Compiles each header of include/kith alone, with all warnings as errors.
#
#     headers.sh c | c++
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
include="$KITH_SOURCE_DIR/include"

case "$1" in
c) compile=("$CC" -x c -std=c11 -pedantic-errors -Wstrict-prototypes) ;;
c++)
    if ! command -v "${CXX:-}" >/dev/null 2>&1; then
        echo "skipped: no C++ compiler (Debian package g++)"
        exit 77
    fi
    compile=("$CXX" -x c++ -std=c++11 -pedantic-errors)
    ;;
*) echo "usage: headers.sh c | c++"; exit 2 ;;
esac
compile+=(-Wall -Wextra -Wconversion -Wshadow -Wundef -Werror -fsyntax-only -I "$include")

checked=0 failed=0
while IFS= read -r header; do
    name="${header#"$include"/}"
    # Twice: the include guard holds. The type at the end keeps the unit from being empty.
    if ! printf '#include <%s>\n#include <%s>\ntypedef int unit_is_not_empty;\n' "$name" "$name" | "${compile[@]}" -; then
        echo "FAILED: <$name> does not compile alone"
        failed=$((failed + 1))
    fi
    checked=$((checked + 1))
done < <(find "$include/kith" -name '*.h' | sort)

echo "$checked headers compiled alone as $1, $failed failed"
[ "$checked" -ge 12 ] && [ "$failed" -eq 0 ]
