#!/usr/bin/env bash
# The demonstration: what this machine is, then the program of README.md on four local ranks over each backend that can be
# used here, and a short benchmark. A backend that is there and does not give the right sum fails the demonstration.
#
#     scripts/demo.sh [build folder]
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
cd "$(dirname "$0")/.." || exit 1
build="${1:-build/release}"
kith="$build/bin/kith"
hello="$build/bin/examples/hello"
bench="$build/bin/kith-bench"
failed=0
# Open MPI asks root twice, and counts cores before it starts more ranks than there are.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

say() {
    printf '\n== %s\n' "$*"
}

# is_available <backend>: as kith info says
is_available() {
    "$kith" info --json | tr -d '\n' | sed -e 's/"devices".*//' -e 's/{/\n/g' |
        grep -E "\"name\": *\"$1\"" | grep -qE '"available": *true'
}

# over <title> <launcher and its options>: the program, then the benchmark, on ranks that the launcher starts
over() {
    local title="$1" out status
    shift
    say "four ranks over $title: $* $hello"
    out="$(timeout 60 "$@" "$hello" 2>&1)"
    status=$?
    printf '%s\n' "$out"
    if [ $status -ne 0 ] || ! grep -qx 'ok: 10' <<<"$out"; then
        printf 'FAILED: exit status %d, wanted "ok: 10"\n' $status
        failed=1
    elif [ -x "$bench" ]; then
        timeout 120 "$@" "$bench" --op all_reduce,all_gather --buffers ordinary --min 16 --max 1M --factor 256 --budget-ms 40 ||
            { echo "FAILED: the benchmark over $title"; failed=1; }
    fi
}

over_everything() {
    local backend mpi
    for backend in shm ucx; do
        if is_available "$backend"; then
            over "$backend" "$kith" run -n 4 --backend "$backend" --
        else
            say "$backend cannot be used here; kith info says why"
        fi
    done
    for mpi in openmpi mpich; do
        if [ -e "$build/lib/kith/libkith_mpi_$mpi.so" ] && command -v "mpirun.$mpi" >/dev/null 2>&1; then
            over "mpi ($mpi)" "mpirun.$mpi" -n 4 env KITH_BACKEND=mpi
        else
            say "no $mpi here: libraries and launcher are both needed"
        fi
    done
}

# What the machine is and where ranks would go on a larger one.
show_topology() {
    say "this machine: kith topo"
    "$kith" topo || failed=1
    say "tensor-parallel pairs on eight V100: kith topo --tp 2 \"8 V100 in a cube mesh, 4 NICs\""
    "$kith" topo --tp 2 "8 V100 in a cube mesh, 4 NICs" | sed -n '/^placement/,$p'
    [ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
    say "a 70B model on NVLink, PCIe and InfiniBand: kith plan"
    "$kith" plan --model llama-2-70b --tp 8 --batch 4 --seq 4096 | sed -n '/^Tensor/,/^$/p'
    [ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
}

# How a pipeline of four ranks spends its time.
show_schedules() {
    say "1F1B against zero bubble: kith schedule --compare 1f1b,zb-v --ranks 4 --microbatches 8"
    "$kith" schedule --compare 1f1b,zb-v --ranks 4 --microbatches 8 || failed=1
}

say "what works here"
"$kith" info || failed=1
show_topology
show_schedules
over_everything
echo
[ $failed -eq 0 ] && echo "demo: all went well" || echo "demo: something FAILED, see above"
exit $failed
