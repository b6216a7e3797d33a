#!/usr/bin/env bash
# Every layout trains the same model: 20 losses and the validation loss, beside one rank. f32 within 2e-5, f64 within
# 1e-10; schedules that share an order of sums, to the bit. More ranks than cores.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"
cases=0

# reference NAME OPTIONS...: one rank
reference() {
    local name=$1
    shift
    train "$work/$name.log" 1 --steps 20 "$@"
    check "$name runs on one rank" status_is 0
    losses "$work/$name.log" >"$work/$name"
}

# same_as NAME TOLERANCE RANKS OPTIONS...
same_as() {
    local name=$1 tolerance=$2 ranks=$3
    shift 3
    cases=$((cases + 1))
    train "$work/log" "$ranks" --steps 20 "$@"
    check "$ranks ranks, $*" status_is 0
    losses "$work/log" >"$work/losses"
    check "$ranks ranks, $*: losses of one rank" agree "$work/$name" "$work/losses" "$tolerance"
}

# ---- LLaMA's form, f32 ----
f32=(--model tiny-llama --global-batch 8)
reference llama "${f32[@]}"
check "it learns" awk 'NR == 1 { first = $1 } NR == 20 { exit !($1 < first - 0.3) }' "$work/llama"
while read -r ranks options; do
    # shellcheck disable=SC2086
    same_as llama 2e-5 "$ranks" "${f32[@]}" $options
done <<'END'
2 --tp 2
4 --tp 4
2 --tp 2 --sp
4 --tp 4 --sp --recompute full
2 --pp 2
4 --pp 4
2 --dp 2
4 --dp 4
2 --dp 2 --zero1
3 --dp 1 --pp 3
4 --dp 4 --zero1 --bucket-mb 0.01
1 --recompute selective
2 --pp 2 --recompute full
4 --tp 2 --pp 2
4 --tp 2 --sp --dp 2 --zero1
4 --pp 2 --dp 2
8 --tp 2 --sp --pp 2 --dp 2 --zero1 --recompute selective
4 --pp 2 --dp 2 --schedule zb-v
4 --tp 2 --pp 2 --schedule interleaved
2 --auto
2 --tp 2 --sp --debug
END

# ---- all schedules, one order of sums ----
plan=(--model tiny-llama --pp 2 --batch 2 --microbatches 4 --clip 0)
train "$work/log" 2 --steps 20 "${plan[@]}" --schedule 1f1b
losses "$work/log" >"$work/1f1b"
check "1f1b gives the losses of one rank" agree "$work/llama" "$work/1f1b" 0.1
for kind in naive gpipe interleaved zb-h1 zb-h2 zb-v looped-bfs interleaved-zb dualpipe-v auto; do
    cases=$((cases + 1))
    train "$work/log" 2 --steps 20 "${plan[@]}" --schedule $kind
    losses "$work/log" >"$work/losses"
    check "$kind gives the bits of 1f1b" cmp "$work/1f1b" "$work/losses"
done

# ---- a weight of two stages: a V has both on one rank, and adds in another order than the other schedules ----
plan=(--model tiny-gpt2 --pp 2 --batch 2 --microbatches 4 --dropout 0)
for kind in 1f1b zb-v naive interleaved zb-h1 dualpipe-v; do
    cases=$((cases + 1))
    like=1f1b
    case $kind in zb-v | dualpipe-v) like=zb-v ;; esac
    train "$work/log" 2 --steps 20 "${plan[@]}" --clip 0 --schedule $kind
    losses "$work/log" >"$work/tied-$kind"
    check "$kind gives the bits of $like with a tied weight" cmp "$work/tied-$like" "$work/tied-$kind"
done
check "both orders give one loss but for rounding" agree "$work/tied-1f1b" "$work/tied-zb-v" 2e-5

# ---- GPT-2's form: tied weights, learned positions, dropout that does not depend on the layout ----
gpt2=(--model tiny-gpt2 --global-batch 8 --dropout 0.1)
reference gpt2 "${gpt2[@]}"
while read -r ranks options; do
    # shellcheck disable=SC2086
    same_as gpt2 2e-5 "$ranks" "${gpt2[@]}" $options
done <<'END'
2 --tp 2
2 --pp 2
2 --pp 2 --schedule zb-v
2 --pp 2 --schedule interleaved
4 --tp 2 --sp --pp 2
4 --pp 2 --dp 2 --zero1
END

# ---- experts: the same tokens in each microbatch, as their balance is a matter of a microbatch ----
moe=(--model tiny-moe --microbatches 2 --optimizer sgd --momentum 0.9 --lr 0.05)
reference moe "${moe[@]}" --batch 4
same_as moe 2e-5 2 "${moe[@]}" --batch 4 --tp 2
same_as moe 2e-5 2 "${moe[@]}" --batch 2 --ep 2
same_as moe 2e-5 2 "${moe[@]}" --batch 4 --pp 2
same_as moe 2e-5 4 "${moe[@]}" --batch 2 --tp 2 --ep 2 --sp
same_as moe 2e-5 4 "${moe[@]}" --batch 1 --dp 2 --ep 2 --zero1

# ---- f64 ----
f64=(--model tiny-llama --global-batch 8 --dtype f64)
reference f64 "${f64[@]}"
same_as f64 1e-10 2 "${f64[@]}" --tp 2 --sp
same_as f64 1e-10 2 "${f64[@]}" --dp 2 --zero1
same_as f64 1e-10 2 "${f64[@]}" --pp 2 --schedule zb-h1
same_as f64 1e-10 4 "${f64[@]}" --tp 2 --pp 2 --recompute full

# ---- a backend for each axis, where there are several ----
if "$kith" info --json | grep -q '"name":"ucx","available":true'; then
    same_as llama 2e-5 4 "${f32[@]}" --tp 2 --pp 2 --backend tp=shm,pp=ucx
    same_as llama 2e-5 4 "${f32[@]}" --pp 2 --dp 2 --zero1 --backend pp=shm,dp=ucx
else
    echo "without a backend mix: ucx is not there"
fi
echo "$cases layouts"
finish
