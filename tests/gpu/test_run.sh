#!/usr/bin/env bash
# tests/gpu/run.sh with a build that has a stand-in for its programs: what fails is told, the rest goes on, the exit
# status says it.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
script="$KITH_SOURCE_DIR/tests/gpu/run.sh"
folder="$(mktemp -d)" || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0

# expect <what> <wanted status> <status>
expect() {
    [ "$2" = "$3" ] || { echo "FAILED: $1: wanted exit status $2, got $3"; failed=1; }
}

# has <pattern> <file>
has() {
    grep -q -- "$1" "$2" || { echo "FAILED: no line '$1' in:"; cat "$2"; failed=1; }
}

"$script" --no-such-flag >"$folder/said" 2>&1
expect "an unknown flag" 2 $?
has '--simulated' "$folder/said"

"$script" --simulated --no-build --build "$folder/empty" --steps '^kith_gpu_bench$' >"$folder/said" 2>&1
expect "a build without programs" 1 $?
has '| kith_gpu_bench | not run |' "$folder/empty/gpu.md"

# Kernels fail in bf16, products lack a library, kernels in f32 have a row.
mkdir -p "$folder/build/bin"
cat >"$folder/build/bin/kith_gpu_bench" <<'END'
#!/bin/sh
case "$*" in
*card*) printf 'card\tA card\t1 of it, sm_90\t\t\n' ;;
*kernels*bf16*) echo "a sentence that says why" >&2; exit 1 ;;
*kernels*) printf 'kernels, f32\tcopy\t1 GB/s\tcopy 1 GB/s\t100 %%\n' ;;
*products*) echo "libnothing is not here"; exit 77 ;;
esac
END
chmod +x "$folder/build/bin/kith_gpu_bench"
"$script" --simulated --no-build --build "$folder/build" --steps '^(card|kernels|products)' --out "$folder/table.md" \
    >"$folder/said" 2>&1
expect "a build whose programs fail" 1 $?
has '| kernels bf16 | FAILED | | exit status 1 | a sentence that says why |' "$folder/table.md"
has '| kernels, f32 | copy | 1 GB/s | copy 1 GB/s | 100 % |' "$folder/table.md"
has '| products tf32 | not run | | | libnothing is not here |' "$folder/table.md"
has 'kernels bf16 .*FAILED' "$folder/said"

# Programs of tests in a build that was made elsewhere: one passes without the simulation's environment, one fails, one
# needs more cards, one wants injected failures.
mkdir -p "$folder/build/bin/tests" "$folder/build/tests/part"
cat >"$folder/build/bin/tests/program" <<'END'
#!/bin/sh
[ -z "$KITH_CUDART_LIBRARY$KITH_SIMGPU_DEVICES" ] && [ "$1" = right ] && [ "$KITH_BIN" != /elsewhere/build/bin/kith ]
END
chmod +x "$folder/build/bin/tests/program"
for name in right wrong cards faults; do
    devices=1 fault=""
    [ $name != cards ] || devices=2
    [ $name != faults ] || fault=";KITH_SIMGPU_FAULT=malloc:1"
    printf 'add_test([=[test_%s]=] "/elsewhere/build/bin/tests/program" "%s")\n' $name $name
    printf 'set_tests_properties([=[test_%s]=] PROPERTIES  ENVIRONMENT "%s" LABELS "layers;gpu" TIMEOUT "9")\n' $name \
        "KITH_BUILD_DIR=/elsewhere/build;KITH_BIN=/elsewhere/build/bin/kith;KITH_CUDART_LIBRARY=x;KITH_SIMGPU_DEVICES=$devices$fault;"
done >"$folder/build/tests/part/CTestTestfile.cmake"
python3 "$KITH_SOURCE_DIR/tests/gpu/programs.py" --build "$folder/build" --devices 1 >"$folder/said" 2>&1
expect "tests of a build from elsewhere" 1 $?
has '^passed   test_right' "$folder/said"
has '^FAILED   test_wrong' "$folder/said"
has '^skipped  test_cards: needs 2 cards' "$folder/said"
has '1 passed.1 skipped, 0 s.1 FAILED: test_wrong' "$folder/said"
grep -q faults "$folder/said" && { echo "FAILED: a test of injected failures ran"; failed=1; }
exit $failed
