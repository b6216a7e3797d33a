#!/usr/bin/env bash
# Leaves out one wait for an event in a training step of two ranks, one after another in several runs, and each time the
# detector of races must say so. A wait whose absence it does not find is one that nobody needs, or a hole in the
# detector.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
text="$(mktemp)"
said="$(mktemp)"
trap 'rm -f "$text" "$said"' EXIT
seq 1 2000 >"$text"
failed=0

train() {
    "$KITH_BIN" train -n 2 --tp 2 --sp --device cuda --text "$text" --model tiny-llama --steps 2 --seq 16 \
        --global-batch 2 >"$said" 2>&1
}

if ! train || grep -q simgpu "$said"; then
    echo "FAILED: with all waits in place:"
    cat "$said"
    exit 1
fi
for number in "$@"; do
    if KITH_SIMGPU_FAULT="forget_wait:$number" train; then
        echo "FAILED: wait number $number was left out, and the run ended well"
        failed=1
    elif grep -m 1 "simgpu: race: " "$said"; then
        :
    else
        echo "FAILED: wait number $number was left out; wanted a race, got:"
        tail -n 20 "$said"
        failed=1
    fi
done
exit $failed
