#!/usr/bin/env bash
# A run from its beginning to its end: learning, saving, going on to the bit, going on in another layout, files that
# cannot be written, signals, a rank that dies.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"
model=(--model tiny-llama --global-batch 8)
layout=(--tp 2 --pp 2 --schedule zb-h1)

# ---- one batch, by heart ----
head -c 17 "$text" >"$work/short"
run "$kith" train -n 2 --dp 2 --text "$work/short" --validation "$work/short" --seq 16 --model tiny-llama \
    --global-batch 2 --steps 300 --lr 0.01 --json-log "$work/log"
check "one batch is learned by heart" status_is 0
check "its loss is below 0.05" awk 'END { exit !($1 < 0.05) }' <(losses "$work/log")

# ---- going on ----
train "$work/whole.log" 4 "${model[@]}" "${layout[@]}" --steps 12
check "an unbroken run" status_is 0
train "$work/half.log" 4 "${model[@]}" "${layout[@]}" --steps 7 --save "$work/run" --save-every 3 --keep 2
check "half of it" status_is 0
check "the last two checkpoints are kept" same "$(ls "$work/run" | tr '\n' ' ')" "step-00000006 step-00000007 "
train "$work/rest.log" 4 "${model[@]}" "${layout[@]}" --steps 12 --resume "$work/run"
check "the other half" status_is 0
losses "$work/whole.log" | tail -n 6 >"$work/wanted"
losses "$work/rest.log" >"$work/got"
check "losses go on to the bit" cmp "$work/wanted" "$work/got"
check "weights end as the same bits" same "$(hash_of "$work/rest.log")" "$(hash_of "$work/whole.log")"
while read -r ranks options; do
    # shellcheck disable=SC2086
    train "$work/rest.log" "$ranks" "${model[@]}" $options --steps 12 --resume "$work/run"
    check "going on as $options" status_is 0
    losses "$work/rest.log" >"$work/got"
    check "losses of the unbroken run as $options" agree "$work/wanted" "$work/got" 2e-5
done <<'END'
1
4 --tp 4
2 --dp 2 --zero1
2 --pp 2 --schedule interleaved
END
fails 2 "was trained with --seed 0" "$kith" train "${tiny[@]}" "${model[@]}" --seed 5 --steps 12 --resume "$work/run"
fails 2 "no checkpoint" "$kith" train "${tiny[@]}" "${model[@]}" --steps 12 --resume "$work"

# ---- which checkpoint ----
one=(--text "$text" --seq 16 --threads 1 --validation-batches 1 --model tiny-llama --global-batch 8)
run "$kith" train "${one[@]}" --steps 12 --save "$work/some" --save-every 3
check "a run that saves four times" same "$status:$(ls "$work/some" | wc -l)" 0:4
cp -r "$work/some" "$work/damaged"
run "$kith" train "${one[@]}" --steps 4 --resume "$work/some/step-00000003" --save "$work/some" --keep 2
check "what was just saved is kept below higher steps" same "$status:$(ls "$work/some" | tr '\n' ' ')" \
    "0:step-00000004 step-00000012 "
run "$kith" train "${one[@]}" --steps 4 --resume "$work/some/step-00000004" --save "$work/other" \
    --json-log "$work/log" --trace "$work/trace" --timeline "$work/timeline"
check "nothing left to do" status_is 0
check "that is said" out_has "nothing left to do: step 4 of 4"
check "it is saved where it was not" same "$(ls "$work/other")" step-00000004
check "no loss is made up" grep -q '"event": "end", "why": "done", "step": 4, "loss": null' "$work/log"
check "why there is no trace is said" err_has "no --trace $work/trace: no step was made"
check "why there is no timeline is said" err_has "no --timeline $work/timeline: no step was made"
truncate -s 100 "$work/damaged/step-00000012/model.safetensors"
mkdir "$work/damaged/step-00000020.1-0.part"
run "$kith" train -n 2 --dp 2 "${one[@]}" --steps 10 --resume "$work/damaged" --save "$work/damaged"
check "it goes on from the one before a damaged one" same "$status:$(head -n 1 "$work/out")" \
    "0:going on from step 9 of $work/damaged/step-00000009"
check "the damaged one is named" err_has "step-00000012/model.safetensors: damaged: has 100 bytes"
check "what a killed job left is removed" test ! -e "$work/damaged/step-00000020.1-0.part"

# ---- what cannot be written ----
for option in json-log trace timeline; do
    run "$kith" train -n 2 --pp 2 "${one[@]}" --steps 2 --timeline "$work/timeline" \
        --save "$work/full-$option" "--$option" /dev/full
    check "--$option on a full disk ends with 1" status_is 1
    check "it is said once" same "$(grep -c "^kith train: --$option /dev/full cannot be written: " "$work/err")" 1
    check "the table is printed" out_has "tokens/s"
    check "the model is saved" same "$(ls "$work/full-$option")" step-00000002
done
for option in save trace timeline; do
    fails 2 "--$option $text/x cannot be " "$kith" train "${one[@]}" --steps 2 "--$option" "$text/x"
done
run bash -c '"$@" | head -n 1; exit "${PIPESTATUS[0]}"' bash "$kith" train "${one[@]}" --steps 60 --save "$work/piped"
check "a reader that goes away ends nothing" same "$status:$(ls "$work/piped")" 0:step-00000060

# ---- memory that is short on one rank ----
# Which allocation a number is changes; all that a run has while it is set up, in steps that meet its phases. Joining
# and making groups, which come first, have tests of their own.
for number in 50 65 72 79 86 93 109 116 137 153 171; do
    export KITH_FAULT=alloc:$number@1
    run timeout -k 2 20 "$kith" train -n 4 --tp 2 --pp 2 --text "$text" --seq 16 --model tiny-gpt2 --threads 1 --steps 1
    check "$KITH_FAULT makes nobody wait" test "$status" -le 1
done
unset KITH_FAULT

# And where the command itself asks for it, on one rank of two: ids of a microbatch of 2.6 GB, of which none is touched.
cat >"$work/short_rank" <<'END'
[ "$KITH_RANK" = 1 ] && ulimit -v 2500000
exec "$@"
END
run timeout -k 2 20 "$kith" run -n 2 bash "$work/short_rank" "$kith" train --dp 2 --text "$text" --seq 5000 \
    --batch 131072 --threads 1 --model tiny-llama --steps 1 --validation-batches 0
check "memory that is short is a failure, not wrong usage" status_is 1
check "the rank says so" grep -q "^kith train: rank 1: no memory for " "$work/err"

# ---- told to end ----
logged_steps() { [ -e "$1" ] && [ "$(grep -c '^{"step"' "$1")" -ge "$2" ]; }

# start OPTIONS...: on 4 ranks in the background, without end. Background jobs of a script have SIGINT ignored.
start() {
    rm -rf "$work/run" "$work/log"
    timeout -k 5 --foreground 60 env --default-signal=INT,QUIT,HUP "$kith" train -n 4 "${tiny[@]}" "${model[@]}" \
        "${layout[@]}" --steps 100000 --save "$work/run" --json-log "$work/log" "$@" >"$work/out" 2>"$work/err" &
    pid=$!
}

child_of() { ps -o pid= --ppid "$1" | tail -n 1 | tr -d ' '; }
for signal in TERM INT HUP; do
    start
    check "steps are made" wait_until logged_steps "$work/log" 3
    kill -$signal $pid
    wait $pid
    status=$?
    check "SIG$signal ends it cleanly" status_is 0
    check "the log says so" grep -q '"event": "end", "why": "stopped by a signal"' "$work/log"
    check "nothing was said on stderr" err_is_empty
    made=$(grep -c '^{"step"' "$work/log")
    check "the last step is saved" same "$(ls "$work/run")" "$(printf 'step-%08d' "$made")"
done

# ---- a rank dies ----
start --save-every 2 --keep 2 --timeout 20
check "steps are made" wait_until logged_steps "$work/log" 5
kill -KILL "$(child_of "$(child_of "$(child_of $pid)")")" # timeout, guard, launcher, rank 3
wait $pid
status=$?
check "the job fails" status_is 137
check "the launcher names the rank" err_has "rank 3 killed by signal 9"
check "a rank says which step failed" grep -Eq 'kith train: .*step [0-9]+( failed)?: ' "$work/err"
train "$work/log" 4 "${model[@]}" "${layout[@]}" --resume "$work/run" \
    --steps "$(($(ls -d "$work"/run/step-???????? | tail -n 1 | sed 's/.*-0*//') + 2))"
check "the last checkpoint is whole" status_is 0
check "two steps are made from it" logged_steps "$work/log" 2
finish
