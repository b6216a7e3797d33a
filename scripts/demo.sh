#!/usr/bin/env bash
# The demonstration. The main job first: a small LLaMA-style model of bytes is trained on real text, on one rank and then
# on four (tp 2 x pp 2), whose losses must agree; with the report of placement, the schedule as planned and as it ran, and
# a line of text from the checkpoint. Then what this machine is, schedules, and the program of README.md over each backend
# that can be used here with a short benchmark. Whatever gives a wrong number fails the demonstration.
#
#     scripts/demo.sh [build folder]
#
#     TEXT=file       trains on this file instead of the licence texts of the system
#     DEMO_STEPS=n    how long: 150 steps are about a minute on two cores
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

out="$build/demo"
steps="${DEMO_STEPS:-150}"

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

# The text to train on: the licences that come with every Debian, each once, or what there is of this project.
choose_text() {
    text="${TEXT:-}"
    [ -n "$text" ] && return
    text="$out/text.txt"
    find /usr/share/common-licenses -type f -exec cat {} + >"$text" 2>/dev/null
    [ "$(stat -c %s "$text")" -ge 100000 ] || find docs include -type f -exec cat {} + >"$text"
}

# losses <log>: step and loss of each step
losses() {
    sed -nE 's/^\{"step": ?([0-9]+),.*"loss": ?([-+.e0-9]+).*/\1 \2/p' "$1"
}

# The two logs side by side at some steps. They differ by the order of sums alone, which training makes larger with time.
compare_losses() {
    paste <(losses "$out/one.jsonl") <(losses "$out/four.jsonl") | awk -v steps="$steps" '
        { far = ($2 - $4) / $2; far = far < 0 ? -far : far }
        NR == 1 { print "  step   one rank   four ranks   difference" }
        NR == 1 || NR == steps || NR % 25 == 0 { printf "  %4d %10.5f %12.5f %12.1e\n", $1, $2, $4, far }
        $1 != $3 || far > (NR <= 20 ? 2e-5 : 1e-2) { wrong = 1 }
        END { exit wrong || NR != steps }'
}

train_model() {
    mkdir -p "$out" && rm -rf "$out/run"
    choose_text
    local model=(--text "$text" --steps "$steps" --lr 2e-3 --warmup 40 --batch 4 --microbatches 4)
    say "a LLaMA-style model of bytes on one rank: kith train ${model[*]}"
    "$kith" train "${model[@]}" --json-log "$out/one.jsonl" || failed=1
    say "the same model and samples on four ranks: kith train -n 4 --tp 2 --pp 2 ..."
    "$kith" train -n 4 --tp 2 --pp 2 "${model[@]}" --json-log "$out/four.jsonl" --timeline "$out/timeline.svg" \
        --trace "$out/trace.json" --save "$out/run" || failed=1
    say "their losses"
    compare_losses || { echo "FAILED: the losses differ"; failed=1; }
    say "a line from the checkpoint: kith generate --checkpoint $out/run"
    "$kith" generate --checkpoint "$out/run" --prompt "The license " --tokens 120 --temperature 0.7 --seed 1 || failed=1
    "$kith" topo --format html --output "$out/topology.html" && "$kith" topo || failed=1
    printf '\npictures: %s\n' "$out/timeline.svg (the schedule as it ran, beside the plan)" \
        "$out/trace.json (for ui.perfetto.dev or chrome://tracing)" "$out/topology.html (this machine)"
}

# What the machine is and where ranks would go on a larger one.
show_topology() {
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
train_model
show_topology
show_schedules
over_everything
echo
[ $failed -eq 0 ] && echo "demo: all went well" || echo "demo: something FAILED, see above"
exit $failed
