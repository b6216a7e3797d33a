#!/usr/bin/env bash
# The flags of kith train and kith generate: every wrong value is refused with what is right; -n starts ranks.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"
text=$work/text
for i in $(seq 200); do echo "line $i of a text to train on"; done >"$text"

refused() { # SENTENCE OPTIONS...: kith train with a text
    local sentence=$1
    shift
    fails 2 "$sentence" "$kith" train --text "$text" "$@"
}

# ---- help ----
for name in train generate; do
    succeeds "$kith" "$name" --help
    cp "$work/out" "$work/help"
    check "$name --help has its usage" out_has "Usage: kith $name"
    succeeds "$kith" help "$name"
    check "kith help $name is the same" cmp -s "$work/out" "$work/help"
    check "help of $name fits 120 columns" same "$(awk 'length > 120' "$work/help")" ""
done
fails 2 "did you mean --microbatches" "$kith" train --microbatchs 2
fails 2 "unknown option -x" "$kith" train -x
fails 2 "there is nothing to do with 'file'" "$kith" train --text "$text" file
fails 2 "option --lr needs a value" "$kith" train --lr
fails 2 "option --sp takes no value" "$kith" train --sp=1

# ---- every number has a range ----
for axis in tp pp dp ep; do
    for wrong in 0 -1 1.5 two 99999999999999999999; do
        refused "--$axis $wrong: it must be a whole number from 1 to 1048576" --$axis $wrong
    done
done
refused "--ranks 0: it must be a whole number from 1 to 4096" -n 0
refused "--ranks 4097: it must be a whole number from 1 to 4096" -n4097
refused "--ranks x: it must be a whole number from 1 to 4096" --ranks=x
while read -r option value range; do
    refused "--$option $value: it must be $range" "--$option" "$value"
done <<'END'
chunks 0 a whole number from 1 to 64
chunks 65 a whole number from 1 to 64
batch 0 a whole number from 1 to 1048576
microbatches 1048577 a whole number from 1 to 1048576
global-batch -4 a whole number from 1 to 1073741824
seq 0 a whole number from 1 to 16777216
steps -1 a whole number from 0 to 1000000000
seed -1 a whole number from 0 to 18446744073709551615
seed 18446744073709551616 a whole number from 0 to 18446744073709551615
seed 1e3 a whole number from 0 to 18446744073709551615
lr 0 a number above 0, at most 100
lr nan a number above 0, at most 100
lr 1e3 a number above 0, at most 100
warmup -1 a whole number from 0 to 1000000000
min-lr -0.1 a number from 0 to 100
weight-decay -1 a number from 0 to 100
beta1 1 a number from 0 to below 1
beta2 1.5 a number from 0 to below 1
eps 0 a number above 0, at most 1
momentum 1 a number from 0 to below 1
clip -1 a number from 0 to 1e+12
dropout 1 a number from 0 to below 1
loss-scale 0 dynamic, or a number above 0, at most 1e12
loss-scale big dynamic, or a number above 0, at most 1e12
bucket-mb 0 a number from 0.001 to 4096
save-every x a whole number from 0 to 1000000000
keep -1 a whole number from 0 to 1000000
validate-every -2 a whole number from 0 to 1000000000
validation-batches 0x10 a whole number from 0 to 1000000
threads 1025 a whole number from 0 to 1024
timeout -1 a number from 0 to 31622400
END

# ---- every word has its list ----
refused "--schedule fast is not one of naive, gpipe, 1f1b" --schedule fast
refused "--schedule custom is not one of naive, gpipe, 1f1b" --schedule custom
refused "--recompute some is not one of none, selective, full" --recompute some
refused "--optimizer adam is not one of adamw, sgd" --optimizer adam
refused "--dtype f8e4m3 is not one of f32, f64, bf16, f16" --dtype f8e4m3
refused "--decay step is not one of constant, linear, cosine" --decay step
fails 2 "--token-type u8 is not one of u16, u32" "$kith" train --tokens "$text" --token-type u8
for wrong in , tp= =shm tp=shm,tp=ucx shm,ucx cp=shm tp=SHM tp=shm, "tp shm"; do
    refused "--backend $wrong: it must be the name of a backend, or one for each axis of tp, pp, dp, ep" --backend "$wrong"
done
fails 2 "--text needs a value that is not empty" "$kith" train --text ''

# ---- what belongs together ----
fails 2 "what to train on is missing" "$kith" train
refused "give either --text FILE or --tokens FILE, not both" --tokens "$text"
refused "--token-type goes with --tokens" --token-type u16
refused "--auto chooses tp, pp, dp and ep" --auto --tp 2
refused "not from both" --weights a.safetensors --resume run
refused "--save-every goes with --save DIR" --save-every 5
refused "--keep goes with --save DIR" --keep 5
refused "--momentum goes with --optimizer sgd" --momentum 0.9
refused "--beta2 goes with --optimizer adamw" --optimizer sgd --beta2 0.9
refused "--min-lr goes with --decay linear or cosine" --min-lr 0.0001
refused "--min-lr 0.1 is above --lr 0.01" --decay cosine --min-lr 0.1 --lr 0.01
refused "--warmup 11: there are only 10 steps" --warmup 11 --steps 10
refused "--validation FILE has no use with --validation-batches 0" --validation "$text" --validation-batches 0
refused "$text would be written over" --json-log "$text"
refused "log would be written over" --json-log log --trace log
check "the text is still there" grep -q "line 200" "$text"

# ---- sizes that do not multiply ----
refused "and there are 4: start a multiple of 3 with -n, or give sizes whose product is one of 1, 2, 4" -n 4 --tp 3
refused "are 8 ranks, and there are 4: start as many with -n, or give --dp 1" -n 4 --tp 2 --pp 2 --dp 2
refused "--global-batch 10 cannot be dealt to dp 4: valid are multiples of 4" -n 4 --global-batch 10
refused "are 24 samples; leave one of them out" -n 2 --batch 4 --microbatches 3 --global-batch 10

# ---- kith generate ----
fails 2 "give either --checkpoint DIR or --model DIR" "$kith" generate
fails 2 "give either --checkpoint DIR or --model DIR" "$kith" generate --checkpoint a --model b
fails 2 "give one of --prompt, --prompt-file and --prompt-tokens" "$kith" generate --model a --prompt b --prompt-file c
fails 2 "--tp 2 and -n 4 differ" "$kith" generate --model a -n 4 --tp 2
fails 2 "--temperature -1: it must be a number from 0 to 100" "$kith" generate --model a --temperature -1
fails 2 "--tokens 0: it must be a whole number from 1 to 1000000" "$kith" generate --model a --tokens 0
fails 2 "--top-k -1: it must be a whole number from 0 to" "$kith" generate --model a --top-k -1
fails 1 "absent/config.json: cannot be opened" "$kith" generate --model "$work/absent"
fails 1 "absent" "$kith" generate -n 2 --checkpoint "$work/absent"
check "no private folder is left" no_folder_is_left
finish
