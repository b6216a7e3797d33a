#!/usr/bin/env bash
# Training in bf16 and f16: losses follow f32's, layouts agree, a loss scale that is too large is found and left, a run that is
# resumed goes on to the bit.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"
model=(--model tiny-llama --global-batch 8)
scales() { sed -n 's/^{"step".*"loss_scale": \([^,]*\),.*/\1/p' "$1" | tr '\n' ' '; }
skipped() { grep -c '^{"step".*"skipped": true' "$1"; }

train "$work/f32.log" 1 "${model[@]}" --steps 20
check "a run in f32" status_is 0
losses "$work/f32.log" >"$work/wanted"
for dtype in bf16 f16; do
    # A scale of its own keeps f16 from skipping a step, after which losses are those of fewer steps.
    tolerance=1e-3 scaled=()
    [ $dtype = f16 ] && tolerance=1e-4 scaled=(--loss-scale 1024)
    while read -r ranks options; do
        # shellcheck disable=SC2086
        train "$work/log" "$ranks" "${model[@]}" --steps 20 --dtype $dtype "${scaled[@]}" $options
        check "$dtype $options" status_is 0
        losses "$work/log" >"$work/got"
        check "$dtype $options has the losses of f32" agree "$work/wanted" "$work/got" "$tolerance"
        check "$dtype $options skips nothing" same "$(skipped "$work/log")" 0
    done <<'END'
1
4 --tp 2 --sp --pp 2 --schedule zb-h1 --recompute full
2 --dp 2 --zero1
END
done
train "$work/log" 1 "${model[@]}" --steps 2 --dtype f16
check "f16 scales its loss" same "$(scales "$work/log")" "65536 65536 "
train "$work/log" 1 "${model[@]}" --steps 2 --dtype bf16
check "bf16 does not" same "$(scales "$work/log")" ""

# ---- a scale that is too large ----
train "$work/log" 2 "${model[@]}" --dp 2 --steps 2 --dtype f16 --loss-scale 1e12
check "a scale that stays too large changes nothing" same "$status:$(skipped "$work/log")" 0:2
check "the line says why" out_has "skipped: the gradient is not finite"
check "the table counts them" out_has "the gradient was not finite in 2 of 2 steps"

# A checkpoint whose dynamic scale is 2^30: it is halved until gradients are finite, and training goes on.
train "$work/log" 1 "${model[@]}" --steps 1 --dtype f16 --save "$work/run"
folder=$work/run/step-00000001
bits=$(printf '%016x' $(((1023 + 30) << 52)))
sed -i -E 's/^"loss_scale": .*/"loss_scale": {"value": 1073741824, "bits": "'"$bits"'"},/' "$folder/kith.json"
tail -n +2 "$folder/kith.json" >"$work/body"
crc=$(gzip -c "$work/body" | tail -c 8 | od -A n -N 4 -t x4 | tr -d ' ')
{ echo "{\"crc32\": \"$crc\","; cat "$work/body"; } >"$folder/kith.json"
train "$work/log" 2 "${model[@]}" --dp 2 --steps 40 --resume "$work/run"
check "a run whose scale is too large" status_is 0
lost=$(skipped "$work/log")
check "it skips steps ($lost)" test "$lost" -ge 2 -a "$lost" -le 20
check "each halves the scale" same "$(scales "$work/log" | tr ' ' '\n' | sed '/^$/d' | tail -n 1)" $((1 << (30 - lost)))
check "the line has the new scale" out_has "skipped: the gradient is not finite; the loss scale is 536870912 now"
check "the first of them, too" grep -q '^{"step": 2, .*"skipped": true' "$work/log"
first=$(losses "$work/log" | head -n 1) last=$(losses "$work/log" | tail -n 1)
check "then it learns ($first, $last)" awk "BEGIN { exit !($last < $first - 0.5) }"

# ---- going on to the bit ----
train "$work/whole.log" 1 "${model[@]}" --steps 12 --dtype f16
train "$work/half.log" 1 "${model[@]}" --steps 12 --dtype f16 --save "$work/two" --save-every 6
rm -r "$work/two/step-00000012"
train "$work/rest.log" 1 --model tiny-llama --resume "$work/two"
check "the other half" status_is 0
check "weights end as the same bits" same "$(hash_of "$work/rest.log")" "$(hash_of "$work/whole.log")"
check "the file has f16" grep -aq '"dtype":"F16"' "$work/two/step-00000006/model.safetensors"
run "$kith" generate --checkpoint "$work/two" --dtype f16 --tokens 8 --greedy
check "kith generate reads it" status_is 0
cp "$work/out" "$work/as_f16"
run "$kith" generate --checkpoint "$work/two" --tokens 8 --greedy
check "f16 writes what f32 does" cmp "$work/out" "$work/as_f16"
finish
