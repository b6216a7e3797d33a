#!/usr/bin/env bash
# kith generate: the same text on any number of ranks, from checkpoints and from folders of Hugging Face's form; what is
# refused.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"
text=$work/text
for i in $(seq 300); do echo "line $i of a text to train on"; done >"$text"

succeeds "$kith" train --model tiny-llama --text "$text" --steps 12 --lr 0.02 --save "$work/run" --save-every 6
check "there are two checkpoints" same "$(ls "$work/run" | tr '\n' ' ')" "step-00000006 step-00000012 "
folder=$work/run/step-00000012

# ---- the same text ----
generate() { # FILE OPTIONS...
    local file=$1
    shift
    succeeds "$kith" generate --tokens 40 "$@"
    cp "$work/out" "$work/$file"
}
generate one --checkpoint "$work/run" --prompt "line 7" --seed 5
check "it begins with the prompt" grep -q "^line 7" "$work/one"
check "it has prompt, 40 bytes and the end of a line" same "$(wc -c <"$work/one")" $((6 + 40 + 1))
for n in 1 2 4; do
    generate "ranks$n" -n $n --tp $n --checkpoint "$work/run" --prompt "line 7" --seed 5
    check "$n ranks write the same" cmp "$work/one" "$work/ranks$n"
done
generate again --checkpoint "$folder" --prompt "line 7" --seed 5
check "the checkpoint itself has the same" cmp "$work/one" "$work/again"
generate other --checkpoint "$work/run" --prompt "line 7" --seed 6
check "another seed writes something else" same "$(cmp -s "$work/one" "$work/other"; echo $?)" 1
generate older --checkpoint "$work/run/step-00000006" --prompt "line 7" --seed 5
check "an older checkpoint writes something else" same "$(cmp -s "$work/one" "$work/older"; echo $?)" 1
generate plain --model "$folder" --prompt "line 7" --seed 5
check "the folder as a model has the same" cmp "$work/one" "$work/plain"
printf 'line 7' >"$work/prompt"
generate file --checkpoint "$work/run" --prompt-file "$work/prompt" --seed 5
check "a prompt in a file is the same" cmp "$work/one" "$work/file"
generate list --checkpoint "$work/run" --prompt-tokens 108,105,110,101,32,55 --seed 5
check "a prompt of tokens is the same" cmp "$work/one" "$work/list"
generate greedy --checkpoint "$work/run" --greedy
generate zero --checkpoint "$work/run" --temperature 0 --seed 9
generate best -n 2 --checkpoint "$work/run" --top-k 1 --temperature 3
check "temperature 0 is greedy" cmp "$work/greedy" "$work/zero"
check "the best of one is greedy" cmp "$work/greedy" "$work/best"
generate short --checkpoint "$work/run" --prompt "line 7" --seq 1 --greedy
follows() { # bytes that are followed by different ones, in what came behind the prompt
    tail -c +6 "$1" | head -c -1 | od -An -v -tu1 -w1 | awk 'NR > 1 && next_of[last] != "" && next_of[last] != $1 { wrong++ }
        NR > 1 { next_of[last] = $1 } { last = $1 } END { print wrong + 0 }'
}
check "with a window of one token a byte is always followed by the same" same "$(follows "$work/short")" 0
generate long --checkpoint "$work/run" --tokens 300 --dtype f64
check "more tokens than the window has" same "$(wc -c <"$work/long")" 302

# ---- what is refused ----
fails 2 "'256' is no token; the model has 0 to 255" "$kith" generate --model "$folder" --prompt-tokens 1,256
fails 2 "'' is no token" "$kith" generate --model "$folder" --prompt-tokens 1,,2
fails 2 "'x' is no token" "$kith" generate --model "$folder" --prompt-tokens x
fails 2 "cannot read $work/absent" "$kith" generate --model "$folder" --prompt-file "$work/absent"
: >"$work/empty"
fails 2 "a prompt has 1 to" "$kith" generate --model "$folder" --prompt-file "$work/empty"
fails 2 "cannot read" "$kith" generate --model "$folder" --prompt-file "$work"
fails 2 "--tp 2 needs as many ranks, and there is 1" "$kith" generate --tp 2 --model "$folder"
fails 1 "cannot be dealt to 3" "$kith" generate -n 3 --model "$folder"
fails 1 "$work" "$kith" generate --checkpoint "$work"
cp -r "$folder" "$work/damaged"
printf x | dd of="$work/damaged/model.safetensors" bs=1 seek=$(($(stat -c %s "$folder/model.safetensors") - 9)) conv=notrunc 2>/dev/null
for n in 1 2; do
    fails 1 "damaged/model.safetensors" "$kith" generate -n $n --checkpoint "$work/damaged"
done
mkdir "$work/two"
cp -r "$work/run/step-00000006" "$work/damaged" "$work/two"
mv "$work/two/damaged" "$work/two/step-00000012"
truncate -s 100 "$work/two/step-00000012/model.safetensors"
for n in 1 2; do
    succeeds "$kith" generate -n $n --checkpoint "$work/two" --tokens 40 --prompt "line 7" --seed 5
    check "$n ranks take the one before a damaged one" cmp "$work/out" "$work/older"
    check "that is said once" same "$(cat "$work/err")" "kith generate: checkpoint $work/two/step-00000012 is passed over: \
$work/two/step-00000012/model.safetensors: damaged: has 100 bytes, was written with $(stat -c %s "$folder/model.safetensors")"
done
rm "$work/damaged/model.safetensors"
fails 1 "model.safetensors" "$kith" generate --model "$work/damaged"
run sh -c '"$0" generate --model "$1" --tokens 20 >/dev/full' "$kith" "$folder"
check "a full disk is a failure" status_is 2

check "no private folder is left" no_folder_is_left
finish
