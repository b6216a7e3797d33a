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

"$script" --simulated --seconds soon >"$folder/said" 2>&1
expect "a time that is no number" 2 $?
has '--seconds takes 1 to 99999, not soon' "$folder/said"

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

# The clock: a step that takes too long is ended, and what comes after it is left out.
mkdir -p "$folder/slow/bin"
printf '#!/bin/sh\ncase "$*" in *kernels*) exec sleep 60 ;; esac\n' >"$folder/slow/bin/kith_gpu_bench"
chmod +x "$folder/slow/bin/kith_gpu_bench"
before=$SECONDS
"$script" --simulated --no-build --build "$folder/slow" --steps '^(kernels|products)' --seconds 5 >"$folder/said" 2>&1
expect "a step that does not end" 1 $?
has '| kernels bf16 | FAILED | | ended after [2-5] s | |' "$folder/slow/gpu.md"
has '| products bf16 | not run | | | no time was left |' "$folder/slow/gpu.md"
[ $((SECONDS - before)) -lt 30 ] || { echo "FAILED: it took $((SECONDS - before)) s instead of 5"; failed=1; }

# Between ranks, with an NCCL that takes two on a card: who is started how, and a backend that cannot be used.
mkdir -p "$folder/ranks/bin/tests"
cat >"$folder/ranks/bin/kith" <<'END'
#!/bin/sh
if [ "$1" = info ]; then
    echo "  shm               yes     always"
    echo "  ucx               no      not here"
    exit
fi
ranks=$3
[ "$4" != --backend ] || export KITH_BACKEND=$5
while [ "$1" != -- ]; do shift; done
shift
RANKS=$ranks exec "$@"
END
cat >"$folder/ranks/bin/kith_gpu_bench" <<'END'
#!/bin/sh
case "$*" in
*card*) printf 'card\tA card\t1 of it, sm_90\tNCCL 2.30.7\t\n' ;;
*) printf 'ranks\t%s\t%s\t%s\t\n' "$RANKS over ${KITH_BACKEND:-auto}" "$*" "${NCCL_MULTI_RANK_GPU_ENABLE:-no}" ;;
esac
END
cat >"$folder/ranks/bin/tests/conformance" <<'END'
#!/bin/sh
[ "$NCCL_MULTI_RANK_GPU_ENABLE" = 1 ] && [ "$KITH_TEST_DEVICE" = cuda:0 ] && [ "$2" != async ]
END
chmod +x "$folder/ranks/bin/"kith* "$folder/ranks/bin/tests/conformance"
KITH_SIMGPU_DEVICES=1 "$script" --simulated --no-build --build "$folder/ranks" --steps '^(card|nccl|shm|ucx|mpi)' \
    >"$folder/said" 2>&1
expect "ranks, of which one suite fails" 1 $?
has '| ranks | 1 over auto | --quick nccl | no | |' "$folder/ranks/gpu.md"
has '| nccl, several GPUs | left out | | | this machine has one |' "$folder/ranks/gpu.md"
has '| ranks | 2 over auto | --quick --device cuda:0 nccl | 1 | |' "$folder/ranks/gpu.md"
has '| tests | suites over nccl, 2 ranks on cuda:0 | 5 run | .* | FAILED: async |' "$folder/ranks/gpu.md"
has '| ranks | 2 over shm | --quick --device cuda:0 passing | no | |' "$folder/ranks/gpu.md"
has '| ucx, 2 ranks a GPU | left out | | | the backend cannot be used here |' "$folder/ranks/gpu.md"
has '| mpi, 2 ranks a GPU | left out | | | the backend cannot be used here, or its mpirun is missing |' "$folder/ranks/gpu.md"

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
# A program that the clock of all of them ends is left out; one that outlives its own time has failed.
for name in late stuck; do
    seconds=30
    [ $name != stuck ] || seconds=1
    printf 'add_test([=[test_%s]=] "/bin/sleep" "20")\n' $name
    printf 'set_tests_properties([=[test_%s]=] PROPERTIES ENVIRONMENT "%s" LABELS "gpu" TIMEOUT "%s")\n' $name \
        "KITH_CUDART_LIBRARY=x" $seconds
done >"$folder/slow/CTestTestfile.cmake"
python3 "$KITH_SOURCE_DIR/tests/gpu/programs.py" --build "$folder/slow" --seconds 2 --tests late >"$folder/late"
expect "a program that is ended for time, and no other" 1 $?
has '^skipped  test_late: ended after 2 s, as no more time was left' "$folder/late"
has '0 passed.1 skipped, 2 s.none passed' "$folder/late"
python3 "$KITH_SOURCE_DIR/tests/gpu/programs.py" --build "$folder/slow" --seconds 9 --tests stuck >"$folder/late"
expect "a program that outlives its own time" 1 $?
has '^(ended after 1 s)' "$folder/late"
has '0 passed.0 skipped, 1 s.1 FAILED: test_stuck' "$folder/late"
grep -q faults "$folder/said" && { echo "FAILED: a test of injected failures ran"; failed=1; }
exit $failed
