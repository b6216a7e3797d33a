#!/usr/bin/env bash
# kith train -n: ranks like those of kith run; signals; a rank that is killed; other launchers.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"
text=$work/text
for i in $(seq 300); do echo "line $i of a text to train on"; done >"$text"
train=("$kith" train --model tiny-llama --text "$text" --seq 32 --validation-batches 0)

losses() { grep '"grad_norm"' "$1" | grep -oE '"loss": ?[0-9.e+-]+'; }

# In the background; $job is the process that the user sees. Without env a shell's background job ignores SIGINT.
start() {
    env --default-signal=INT "$@" >"$work/out" 2>"$work/err" </dev/null &
    job=$!
}
finish_job() {
    wait $job
    status=$?
}
children() { tr ' ' '\n' <"/proc/$1/task/$1/children" 2>/dev/null | grep .; }
ranks_of() { # the guard's child is the launcher, whose children are the ranks
    local launcher
    launcher=$(children "$1") && children "$launcher"
}
ranks_are() { [ "$(ranks_of "$1" | wc -l)" -eq "$2" ]; }
has_steps() { [ -e "$1" ] && [ "$(grep -c '"grad_norm"' "$1")" -ge "$2" ]; }
has_checkpoint() { [ -n "$(find "$1" -maxdepth 1 -name 'step-????????' 2>/dev/null)" ]; }

# ---- the words of -n in every form, and kith run ----
succeeds "$kith" run -n 2 -- "${train[@]}" --steps 2 --tp 2 --json-log "$work/run.json"
for form in "-n 2" "-n2" "--ranks=2" "--ranks 2" "--rank 2"; do
    succeeds "${train[@]}" $form --steps 2 --tp 2 --json-log "$work/log.json"
    check "$form has the losses of kith run -n 2" same "$(losses "$work/log.json")" "$(losses "$work/run.json")"
done
check "there are two losses" same "$(losses "$work/run.json" | wc -l)" 2
succeeds "$kith" run -n 2 -- "${train[@]}" -n 2 --steps 1
succeeds "${train[@]}" -n 1 --steps 1

# ---- what another launcher sets: torchrun, for two ranks ----
port=$((20000 + $$ % 12000)) # below those that the system hands out
for rank in 0 1; do
    env RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
        timeout 50 "${train[@]}" --tp 2 --steps 2 --json-log "$work/torchrun.json" >"$work/out$rank" 2>"$work/err$rank" &
done
for rank in 0 1; do
    wait -n
    status=$?
    check "a rank in torchrun's environment ends well" status_is 0
done
check "their losses are those of kith run" same "$(losses "$work/torchrun.json")" "$(losses "$work/run.json")"
fails 2 "and there are 3: start as many with -n" "$kith" run -n 3 -- "${train[@]}" --dp 2

# ---- a backend that is not there is a sentence, and all ranks end ----
for names in bogus tp=bogus; do
    run "${train[@]}" -n 2 --tp 2 --steps 1 --backend $names
    check "--backend $names fails" test "$status" -ne 0
    check "--backend $names is named" err_has bogus
done
succeeds "${train[@]}" -n 2 --tp 2 --steps 2 --backend tp=shm --json-log "$work/log.json"
check "--backend tp=shm has the same losses" same "$(losses "$work/log.json")" "$(losses "$work/run.json")"

# ---- signals: the step is finished and saved ----
for signal in INT TERM; do
    for n in 0 2; do
        rm -rf "$work/saved" "$work/log.json"
        [ $n -gt 0 ] && form=(-n $n --dp $n) || form=()
        start "${train[@]}" "${form[@]}" --steps 100000 --save "$work/saved" --json-log "$work/log.json"
        check "it trains" wait_until has_steps "$work/log.json" 3
        kill -s $signal $job
        finish_job
        check "SIG$signal with -n $n ends with 0" status_is 0
        check "SIG$signal with -n $n saves" has_checkpoint "$work/saved"
    done
done

# ---- a rank that is killed ends the others, and the checkpoint stays ----
for victim in 0 1; do
    rm -rf "$work/saved"
    start "${train[@]}" -n 2 --dp 2 --steps 100000 --save "$work/saved" --save-every 2 --keep 2
    check "two ranks run" wait_until ranks_are $job 2
    check "a checkpoint is written" wait_until has_checkpoint "$work/saved"
    mapfile -t ranks < <(ranks_of $job)
    kill -KILL "${ranks[victim]}"
    finish_job
    check "the job has the status of the rank that was killed" status_is 137
    check "it is said" err_has "kith train: rank $victim killed by signal 9 (SIGKILL)"
    check "both ranks are gone" all_are_gone "${ranks[@]}"
    check "the checkpoint is there" has_checkpoint "$work/saved"
    succeeds "$kith" generate --checkpoint "$work/saved" --tokens 1
done

# ---- the guard is killed: nothing is left ----
start "${train[@]}" -n 2 --dp 2 --steps 100000
check "two ranks run" wait_until ranks_are $job 2
mapfile -t ranks < <(ranks_of $job)
kill -KILL $job
finish_job 2>/dev/null
check "its ranks are gone, too" wait_until all_are_gone "${ranks[@]}"
finish
