#!/usr/bin/env bash
# Runs the examples of README.md, ARCHITECTURE.md, CONTRIBUTING.md and docs/*.md. A fenced block runs when the line before
# it is a marker:
#
#     <!-- example: c ranks=4 prints=ok: 10 -->       compiled against this build, started on 4 ranks; stdout must be the text
#     <!-- example: sh -->                             run by bash in an empty folder, kith in PATH; must end with status 0
#
# Blocks without a marker are for reading. The first program of README.md must also be the one of examples/hello.c and of
# the head of kith/kith.h.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
if [ -n "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ]; then
    echo "skipped: the examples are compiled without the sanitizer that this library needs"
    exit 77
fi
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export PATH="$KITH_BUILD_DIR/bin:$KITH_BUILD_DIR/bin/examples:$PATH"
ran=0 failed=0

fail() {
    echo "FAILED: $*"
    failed=$((failed + 1))
}

# Writes each marked block of a file to <n>.block and its marker to <n>.marker.
extract() {
    awk -v out="$work/block" '
        /^<!-- example: .* -->$/ { marker = $0; next }
        /^```/ && open { close(name); open = 0; marker = ""; next }
        /^```/ && marker != "" {
            name = sprintf("%s.%03d", out, ++count)
            print marker > (name ".marker"); close(name ".marker")
            printf "" > name
            open = 1; next
        }
        open { print > name }
        !open { marker = "" }
    ' "$1"
}

run_c() {
    local block="$1" marker="$2" ranks wanted got
    ranks="$(sed -nE 's/.* ranks=([0-9]+).*/\1/p' <<<"$marker")"
    wanted="$(sed -nE 's/.* prints=(.*) -->$/\1/p' <<<"$marker")"
    "$CC" -std=c11 -Wall -Wextra -Werror -I "$KITH_SOURCE_DIR/include" -x c "$block" -o program \
        -L "$KITH_BUILD_DIR/lib" -lkith -Wl,-rpath,"$KITH_BUILD_DIR/lib" || return 1
    got="$(timeout 60 kith run -n "${ranks:-1}" -- ./program)" || { echo "exit status $?"; return 1; }
    [ "$got" = "$wanted" ] || { echo "printed '$got', the text says '$wanted'"; return 1; }
}

run_block() {
    local block="$1" marker
    marker="$(cat "$block.marker")"
    case "$marker" in
    '<!-- example: c '*) run_c "$block" "$marker" ;;
    '<!-- example: sh '*) timeout 100 bash -eu "$block" ;;
    *) echo "unknown marker $marker"; return 1 ;;
    esac
}

for file in "$KITH_SOURCE_DIR"/*.md "$KITH_SOURCE_DIR"/docs/*.md; do
    rm -f block.*
    extract "$file"
    for marker in block.*.marker; do
        [ -e "$marker" ] || continue
        run_block "${marker%.marker}" || fail "${file#"$KITH_SOURCE_DIR"/}, $marker: $(head -n 3 "${marker%.marker}")"
        ran=$((ran + 1))
    done
    if [ "$(basename "$file")" = README.md ] && [ -e block.001 ]; then cp block.001 readme.c; fi
done

# One program in three places.
sed -n '/^#include/,$p' "$KITH_SOURCE_DIR/examples/hello.c" >hello.c
sed -nE '/^ \*     #include/,/^ \*     \}/s/^ \*( {5})?//p' "$KITH_SOURCE_DIR/include/kith/kith.h" >header.c
diff readme.c hello.c || fail "README.md and examples/hello.c differ"
diff header.c hello.c || fail "kith/kith.h and examples/hello.c differ"

echo "$ran examples ran, $failed failures"
[ "$ran" -ge 2 ] && [ "$failed" -eq 0 ]
