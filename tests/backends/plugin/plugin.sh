#!/bin/bash
# plugin.sh - builds examples/backend_plugin outside the tree, with kith's headers alone, and runs programs over it.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT

fail()
{
    echo "FAILED: $1"
    exit 1
}

cp -r "$KITH_SOURCE_DIR/examples/backend_plugin" "$folder/source" || exit 1
cmake -S "$folder/source" -B "$folder/build" -DKITH_INCLUDE_DIR="$KITH_SOURCE_DIR/include" -DCMAKE_BUILD_TYPE=Release \
    "-DCMAKE_C_FLAGS=-Wall -Wextra -Wconversion -Wshadow -Werror ${KITH_PLUGIN_FLAGS:-}" >"$folder/log" 2>&1 &&
    cmake --build "$folder/build" >>"$folder/log" 2>&1 || { cat "$folder/log"; fail "it does not build"; }
[ -e "$folder/build/libkith_socket.so" ] || fail "there is no libkith_socket.so"
nm -D --defined-only "$folder/build/libkith_socket.so" | awk '{ print $3 }' | grep -v '^kith_backend_v1$' &&
    fail "it exports more than kith_backend_v1"
readelf -d "$folder/build/libkith_socket.so" | grep NEEDED | grep -q kith && fail "it is linked to the library"

# found, asked, and shown
"$KITH_BIN" info | grep -q socket && fail "socket is there without KITH_BACKEND_PATH"
export KITH_BACKEND_PATH=$folder/build
"$KITH_BIN" info | grep -q 'socket.*UNIX sockets' || fail "kith info does not show it"

# by itself, then under the library
KITH_STUB_MODULES=$folder/build timeout 150 "$KITH_BUILD_DIR/bin/tests/test_plugin" || fail "its messages"
conformance=$KITH_BUILD_DIR/bin/tests/conformance
for suite in collectives groups messages async; do
    for ranks in 2 3; do
        timeout 100 "$conformance" --suite $suite --backend socket -n $ranks --argument brief --timeout 90 ||
            fail "suite $suite with $ranks ranks"
    done
done

# a file that is no backend, and one for another interface
cp "$folder/build/libkith_socket.so" "$folder/build/libkith_wrong.so"
echo "not a library" >"$folder/build/libkith_broken.so"
"$KITH_BIN" info | grep wrong | grep -q "calls itself 'socket'" || fail "a module with another name was not refused"
"$KITH_BIN" info | grep -q 'broken.*no' || fail "a broken file was not reported"
echo ok
