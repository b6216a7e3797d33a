#!/usr/bin/env bash
# What a run that is resumed takes from its checkpoint, what of it may change, and what is refused.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"
data=$work/book.txt
head -c 6000 "$text" >"$data"
# train_on RANKS OPTIONS...: the JSON log is $work/log
train_on() {
    local ranks=$1
    shift
    [ "$ranks" -gt 1 ] && set -- -n "$ranks" "$@"
    run "$kith" train --threads 1 --timeout 60 --json-log "$work/log" "$@"
}
number_of() { sed -n 's/^{.*"'"$1"'": \([^,}]*\)[,}].*/\1/p' "$work/log" | head -n 1; }

# ---- nothing said: all as it was ----
said=(--model tiny-llama --seq 24 --global-batch 6 --seed 18446744073709551615 --lr 0.004 --warmup 2 --decay cosine
    --min-lr 0.001 --weight-decay 0.1 --beta2 0.95 --clip 0.5 --dropout 0.1 --validation-batches 1 --dtype f64)
train_on 1 --text "$data" "${said[@]}" --steps 9
check "an unbroken run" status_is 0
check "all bits of the seed are in the log" same "$(number_of seed)" 18446744073709551615
losses "$work/log" | tail -n 5 >"$work/wanted"
wanted_hash=$(hash_of "$work/log")
train_on 1 --text "$data" "${said[@]}" --steps 9 --save "$work/run" --save-every 5 --keep 2
check "one that saves" status_is 0
rm -r "$work/run/step-00000009"
cp -r "$work/run" "$work/first"
train_on 1 --text "$data" --resume "$work/run" --save "$work/run"
check "going on with the data alone" status_is 0
check "nothing is said" err_is_empty
losses "$work/log" >"$work/got"
check "losses go on to the bit" cmp "$work/wanted" "$work/got"
check "weights end as the same bits" same "$(hash_of "$work/log")" "$wanted_hash"
train_on 1 --text "$data" --resume "$work/run"
check "the steps are those of the run" out_has "nothing left to do: step 9 of 9"
train_on 2 --dp 2 --text "$data" --resume "$work/first"
check "going on with two ranks" status_is 0
losses "$work/log" >"$work/got"
check "they have the losses of one" agree "$work/wanted" "$work/got" 1e-10

# ---- how a step was cut up is as it was, too ----
cut=(--model tiny-moe --seq 24 --batch 6 --microbatches 1 --lr 0.01)
train_on 1 --text "$data" "${cut[@]}" --steps 6
wanted_hash=$(hash_of "$work/log")
train_on 1 --text "$data" "${cut[@]}" --steps 6 --save "$work/cut" --save-every 3 --keep 2
rm -r "$work/cut/step-00000006"
cp -r "$work/cut" "$work/cut-too"
train_on 1 --text "$data" --resume "$work/cut"
check "microbatches of six samples go on" same "$(hash_of "$work/log")" "$wanted_hash"
train_on 2 --pp 2 --text "$data" --resume "$work/cut-too"
check "on two stages as well, with more of them" status_is 0

# ---- what was changed on purpose is told ----
train_on 1 --text "$data" --resume "$work/first" --lr 0.002 --clip 0 --global-batch 4 --dtype f32 --steps 12 \
    --save "$work/changed"
check "a run that is changed goes on" status_is 0
check "all of it is told at once" err_has "not as before in $work/first/step-00000005: --clip 0 (was 0.5), \
--lr 0.002 (was 0.004), --steps 12 (was 9), --global-batch 4 (was 6), --dtype f32 (was f64)"
check "in one line" same "$(wc -l <"$work/err")" 1
train_on 1 --text "$data" --resume "$work/changed" --steps 13 --decay constant
check "with another decay" err_has "--decay constant (was cosine)"
fails 2 "--min-lr goes with --decay linear or cosine" \
    "$kith" train --text "$data" --resume "$work/first" --decay constant --min-lr 0.001
fails 2 "--momentum goes with --optimizer sgd" "$kith" train --text "$data" --resume "$work/first" --momentum 0.9
fails 2 "--warmup 2: there are only 1 steps" "$kith" train --text "$data" --resume "$work/first" --steps 1

# ---- what would be another run ----
resume=(train --threads 1 --resume "$work/first")
from=$work/first/step-00000005
fails 2 "$from was trained with --seq 24, and this run has 32: leave it out" "$kith" "${resume[@]}" --text "$data" --seq 32
fails 2 "$from was trained with --seed 18446744073709551615, and this run has 7" \
    "$kith" "${resume[@]}" --text "$data" --seed 7
fails 2 "$from was trained with --optimizer adamw, and this run has sgd" \
    "$kith" "${resume[@]}" --text "$data" --optimizer sgd
head -c 5999 "$text" >"$work/shorter"
fails 2 "on a file of 6000 bytes, and $work/shorter has 5999" "$kith" "${resume[@]}" --text "$work/shorter"
tr e f <"$data" >"$work/other"
fails 2 "the same size as $work/other with other tokens" "$kith" "${resume[@]}" --text "$work/other"
fails 2 "on 5400 tokens of its file, and this run would be on 6000: give --validation" \
    "$kith" "${resume[@]}" --text "$data" --validation-batches 0
mkdir "$work/0" "$work/1"
cp "$work/shorter" "$work/0/text"
cp "$data" "$work/1/text"
fails 2 "rank 1: text is another file here than the one that rank 0 reads (6000 bytes, there 5999)" \
    "$kith" run -n 2 bash -c 'cd "$1/$KITH_RANK" && exec "$2" train --threads 1 --text text' bash "$work" "$kith"

# ---- a checkpoint of before these were kept ----
cp -r "$work/first" "$work/old"
sed -i -E '/^"(sequence|optimizer|beta1|beta2|epsilon|momentum|weight_decay|clip|rate|warmup|decay|min_rate|steps|global_batch|dtype|dropout|loss_scaling|validation_batches|micro_batch|stages|data_[a-z]*)": \{"value"/d
    s/^("seed_high".*\}),$/\1},/' \
    "$work/old/step-00000005/kith.json"
tail -n +2 "$work/old/step-00000005/kith.json" >"$work/body"
crc=$(gzip -c "$work/body" | tail -c 8 | od -A n -N 4 -t x4 | tr -d ' ')
{ echo "{\"crc32\": \"$crc\","; cat "$work/body"; } >"$work/old/step-00000005/kith.json"
check "it has few numbers" same "$(grep -c '"value"' "$work/old/step-00000005/kith.json")" 6
train_on 1 --text "$data" --resume "$work/old" "${said[@]}" --steps 9
check "an old one loads" status_is 0
check "nothing is said of what it lacks" err_is_empty
losses "$work/log" >"$work/got"
check "its losses go on to the bit" cmp "$work/wanted" "$work/got"
train_on 1 --text "$data" --resume "$work/old" --seq 8 --global-batch 4 --steps 6
check "it has no options that could be refused" status_is 0
check "its batch is known from its samples" err_has "the checkpoint's steps had 6 samples, this run's have 4"
finish
