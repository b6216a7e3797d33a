#!/usr/bin/env bash
# Communication of a step as the papers count it, in the JSON log: Megatron's numbers of collectives and messages, and
# their bytes.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"
cat >"$work/two.json" <<'END'
{"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 256, "n_positions": 64,
 "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
 "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}
END

# counted WANTED RANKS AXIS OPTIONS...: an operation of an axis, as it stands in the log
counted() {
    local wanted=$1 ranks=$2
    shift 2
    train "$work/log" "$ranks" --model "$work/two.json" --steps 2 "$@"
    check "$* runs" status_is 0
    cp "$work/log" "$work/out" # what a failure shows
    check "$*: $wanted" grep -qF -- "$wanted" "$work/log"
}
one=(--batch 1 --microbatches 1)
four=(--batch 1 --microbatches 4)

# 2 blocks, tp 2: embedding, 4 in blocks, 2 in the loss; head, 4 in blocks. Bytes: 10 times 16 tokens of 32 numbers of 4;
# 16 maxima, 32 sums.
counted '"tp": {"all_reduce": {"forward": 7, "backward": 5, "step": 0, "bytes": 20672}}' 2 --tp 2 "${one[@]}"
counted '"tp": {"all_reduce": {"forward": 28, "backward": 20, "step": 0, "bytes": 82688}}' 2 --tp 2 "${four[@]}"
counted '"tp": {"all_reduce": {"forward": 7, "backward": 5,' 4 --tp 2 --pp 2 "${one[@]}"
counted '"tp": {}' 1 "${one[@]}"
# Full recomputation: the 4 sums of the blocks' forward pass once more.
counted '"tp": {"all_reduce": {"forward": 7, "backward": 9,' 2 --tp 2 --recompute full "${one[@]}"
counted '"tp": {"all_reduce": {"forward": 7, "backward": 5,' 2 --tp 2 --recompute selective "${one[@]}"
# Messages: 2 m (p - 1); with v chunks 2 m (p v - 1); in a V the turn is on one rank: 2 m (2 p - 2).
counted '"pp": {"send_recv": {"forward": 4, "backward": 4, "step": 0, "bytes": 16384},' 2 --pp 2 "${four[@]}"
# The first and the last stage sum the gradient of the weight that both have: once a step, 256 * 32 numbers of 4 bytes.
counted '"all_reduce": {"forward": 0, "backward": 0, "step": 1, "bytes": 32768}}, "dp": {}' 2 --pp 2 "${four[@]}"
counted '"pp": {}, "dp": {}' 2 --tp 2 "${four[@]}"
train "$work/log" 2 --model tiny-llama --pp 2 --schedule interleaved "${four[@]}" --steps 2
check "interleaved" grep -qF '"pp": {"send_recv": {"forward": 12, "backward": 12,' "$work/log"
train "$work/log" 2 --model tiny-llama --pp 2 --schedule zb-v "${four[@]}" --steps 2
check "zb-v" grep -qF '"pp": {"send_recv": {"forward": 8, "backward": 8,' "$work/log"
# Data parallel: each gradient once; sharded, in halves that are summed and gathered.
counted '"dp": {"all_reduce": {"forward": 0, "backward": 1, "step": 0, "bytes": ' 2 --dp 2 "${one[@]}"
counted '"dp": {"reduce_scatter": {"forward": 0, "backward": 1, "step": 0, "bytes": ' 2 --dp 2 --zero1 "${one[@]}"
counted '"all_gather": {"forward": 0, "backward": 0, "step": 1,' 2 --dp 2 --zero1 "${one[@]}"
# Experts of 2 blocks: counts, rows and rows back; rows, weights and the gradients of both back. Their balance is one sum
# over all ranks with other data for each block.
train "$work/log" 2 --model tiny-moe --ep 2 "${one[@]}" --steps 2
cp "$work/log" "$work/out"
check "all-to-alls of experts" grep -qF '"ep": {"all_to_all_v": {"forward": 6, "backward": 8, "step": 0,' "$work/log"
check "the balance of experts" grep -qF '"dp": {"all_reduce": {"forward": 2,' "$work/log"
check "nothing is sent over tp" grep -qF '"tp": {}' "$work/log"
finish
