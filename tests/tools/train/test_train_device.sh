#!/usr/bin/env bash
# `kith train --device cuda` on simulated GPUs gives the losses of the host, in ten layouts: by NCCL and through the host,
# with operations that come late, several ranks on one device. What a user sees of the device, and what refuses it.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"
export KITH_SIMGPU_DEVICES=2
export KITH_SIMGPU_QUEUES=32 # that the command asks CUDA for before it starts
unset KITH_DEVICE CUDA_DEVICE_MAX_CONNECTIONS
short=(--steps 2 --global-batch 8)
four=(--steps 3 --global-batch 8)
cases=0

# reference NAME OPTIONS...: one rank, on the host
reference() {
    local name=$1
    shift
    train "$work/$name.log" 1 "${short[@]}" "$@"
    check "$name runs on the host" status_is 0
    losses "$work/$name.log" >"$work/$name"
}

# same_as NAME TOLERANCE RANKS OPTIONS...
same_as() {
    local name=$1 tolerance=$2 ranks=$3
    shift 3
    cases=$((cases + 1))
    train "$work/log" "$ranks" "${short[@]}" --device cuda "$@"
    check "$ranks ranks, $*" status_is 0
    losses "$work/log" >"$work/losses"
    check "$ranks ranks, $*: losses of the host" agree "$work/$name" "$work/losses" "$tolerance"
}

llama=(--model tiny-llama)
reference llama "${llama[@]}"
same_as llama 2e-5 1 "${llama[@]}"
check "the log names the device" grep -q '"device": "cuda:0, ' "$work/log"
same_as llama 2e-5 2 "${llama[@]}" --tp 2
check "NCCL carries it" grep -q '"device_backend": "nccl"' "$work/log"
same_as llama 2e-5 2 "${llama[@]}" --tp 2 --sp --recompute full
same_as llama 2e-5 2 "${llama[@]}" --pp 2 --debug
same_as llama 2e-5 2 "${llama[@]}" --pp 2 --schedule zb-h1 --microbatches 4
same_as llama 2e-5 2 "${llama[@]}" --dp 2
same_as llama 2e-5 2 "${llama[@]}" --dp 2 --zero1 --backend shm
check "it is staged where the backend is" grep -q '"device_backend": "staged"' "$work/log"
check "the table says so, and why" grep -q '^device memory between ranks: staged over shm: backend shm was asked for' "$work/out"
KITH_SIMGPU_DELAY=7:100 same_as llama 2e-5 4 "${llama[@]}" --tp 2 --pp 2 --recompute selective

bf16=(--model tiny-llama --dtype bf16)
reference bf16 "${bf16[@]}"
same_as bf16 2e-3 2 "${bf16[@]}" --tp 2 --sp

moe=(--model tiny-moe --microbatches 2)
reference moe "${moe[@]}" --batch 4
same_as moe 2e-5 2 "${moe[@]}" --batch 2 --ep 2

# ---- checkpoints know nothing of devices ----
train "$work/log" 2 "${short[@]}" "${llama[@]}" --device cuda --tp 2 --save "$work/run"
check "a run on devices saves" status_is 0
train "$work/log" 1 "${four[@]}" "${llama[@]}" --resume "$work/run"
losses "$work/log" >"$work/resumed"
train "$work/log" 1 "${four[@]}" "${llama[@]}"
losses "$work/log" | tail -n 2 >"$work/whole"
check "the host goes on from it" agree "$work/whole" "$work/resumed" 2e-5
run "$kith" generate --checkpoint "$work/run" --device cuda --greedy --tokens 8 --prompt 'The ' --threads 1
check "generate on a device" status_is 0
cp "$work/out" "$work/story"
run "$kith" generate --checkpoint "$work/run" --greedy --tokens 8 --prompt 'The ' --threads 1
check "generates what the host does" cmp "$work/out" "$work/story"

# ---- a rank fails in the middle of a step ----
# Rank 1 fails where it first reads back. Rank 0 is ahead and its buffers grow, behind a collective that nobody will join: the
# host must not wait there. Which buffer it is depends on the order of things, so there are a few rounds.
one_fails=(bash -c '[ "$KITH_RANK" = 1 ] && export KITH_SIMGPU_FAULT=host_alloc:1; exec "$@"' one_fails)
for pools in 1 1 1 0; do
    KITH_SIMGPU_POOLS=$pools KITH_SIMGPU_DELAY=7:300 run "$kith" run -n 2 --grace 3 -- "${one_fails[@]}" \
        "$kith" train "${tiny[@]}" "${llama[@]}" --seq 128 --device cuda --tp 2 --steps 1
    check "a rank fails, pools $pools: the job fails" status_is 1
    check "a rank fails, pools $pools: the other says so" grep -q 'step 1 failed: world rank 0' "$work/err"
    check "a rank fails, pools $pools: the other ends by itself" same "$(grep -c 'still ran' "$work/err")" 0
done

# ---- what is told ----
run "$kith" train "${tiny[@]}" "${llama[@]}" --device cuda --describe
check "--describe names the device" grep -q '^device .*cuda' "$work/out"
run "$kith" train "${tiny[@]}" "${llama[@]}" --device cuda --ranks 2 --tp 2 --describe
check "--describe says what may carry its memory" grep -q '^ *between ranks: nccl where each' "$work/out"
run "$kith" train "${tiny[@]}" "${llama[@]}" --device tpu --describe
check "another device is wrong usage" status_is 2
KITH_DEVICE=cuda:locl run "$kith" train "${tiny[@]}" "${llama[@]}" --describe
check "so it is in KITH_DEVICE" status_is 2
check "which is named" grep -q 'KITH_DEVICE=cuda:locl' "$work/err"
KITH_NCCL_SPLIT=1 run "$kith" train "${tiny[@]}" "${llama[@]}" --device cuda --ranks 2 --dp 2 --steps 1
check "a wrong setting of a backend that nobody named" status_is 2
check "is told" grep -q 'nccl_split=1: on or off is needed' "$work/err"
run "$kith" train "${tiny[@]}" "${llama[@]}" --device cuda:7 --steps 1
check "a device that is not there" status_is 2
CUDA_DEVICE_MAX_CONNECTIONS=8 KITH_SIMGPU_LEAKS=0 run "$kith" train "${tiny[@]}" "${llama[@]}" --device cuda --steps 1
check "queues that the user set are not changed" grep -q 'CUDA_DEVICE_MAX_CONNECTIONS=8, and is to have 32' "$work/err"
KITH_SIMGPU_MEMORY=1048576 run "$kith" train "${tiny[@]}" "${llama[@]}" --device cuda --steps 1
check "a device without room" status_is 1
check "says what it had no room for" grep -q 'no memory for' "$work/err"
echo "$cases layouts"
finish
