#!/usr/bin/env bash
# What the shared objects show to the world: libkith.so exactly the functions that the headers declare, a module exactly one
# function; the soname; and that the library itself needs no MPI, UCX or CUDA.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
library="$KITH_BUILD_DIR/lib/libkith.so"
failed=0

fail() {
    echo "FAILED: $*"
    failed=1
}

exported() {
    nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort
}

# Functions with KITH_API: under KITH_BUILD the macro is an attribute that nothing else in the headers has.
declared() {
    printf '#include <kith/kith.h>\n#include <kith/backend.h>\n' |
        "$CC" -E -P -DKITH_BUILD -I "$KITH_SOURCE_DIR/include" -x c - | tr '\n' ' ' |
        grep -oE 'visibility\("default"\)\)\) [^;(]*\(' | sed -E 's/ *\($//; s/.*[ *]//' | sort
}

declared="$(declared)"
[ "$(wc -l <<<"$declared")" -gt 50 ] || fail "found only $(wc -l <<<"$declared") declarations in the headers"
difference="$(diff <(printf '%s\n' "$declared") <(exported "$library"))" ||
    fail "libkith.so and the headers differ (< only declared, > only exported):"$'\n'"$difference"

soname="$(readelf -d "$library" | sed -nE 's/.*SONAME.*\[(.*)\]/\1/p')"
[ "$soname" = "libkith.so.$KITH_SOVERSION" ] || fail "soname is '$soname', wanted libkith.so.$KITH_SOVERSION"

heavy="$(readelf -d "$library" | grep NEEDED | grep -E 'mpi|mpich|libuc[pst]|cuda|nccl')"
[ -z "$heavy" ] || fail "libkith.so needs a library that only modules may need: $heavy"

modules=0
for module in "$KITH_BUILD_DIR"/lib/kith/libkith_*.so; do
    [ -e "$module" ] || continue
    modules=$((modules + 1))
    wanted=kith_backend_v1
    [ "$(basename "$module")" = libkith_cuda.so ] && wanted=kith_device_v1
    [ "$(exported "$module")" = "$wanted" ] || fail "$(basename "$module") exports: $(exported "$module" | tr '\n' ' ')"
    if readelf -d "$module" | grep NEEDED | grep -q 'libkith'; then
        fail "$(basename "$module") links to libkith"
    fi
done

echo "$(wc -l <<<"$declared") public functions, $modules modules"
exit $failed
