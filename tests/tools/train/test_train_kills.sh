#!/usr/bin/env bash
# Runs that save every step are killed with SIGKILL at random moments - a rank, or whoever watches the ranks - and go on from what
# is there, again and again, to the weights of a run that nobody disturbed.
#
#     KITH_KILLS=100 KITH_SEED=7 test_train_kills.sh        more of it, with other moments
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"
kills=${KITH_KILLS:-8} steps=60
RANDOM=${KITH_SEED:-1}
job=(-n 2 --tp 2 --model tiny-gpt2 --global-batch 4 --steps $steps)

run "$kith" train "${tiny[@]}" "${job[@]}" --json-log "$work/whole.log"
check "an undisturbed run" status_is 0

# start: from the newest checkpoint, or from the beginning, in the background
start() {
    local resume=()
    compgen -G "$work/run/step-????????" >/dev/null && resume=(--resume "$work/run")
    "$kith" train "${tiny[@]}" "${job[@]}" "${resume[@]}" --timeout 20 --save "$work/run" --save-every 1 --keep 2 \
        --json-log "$work/log" >"$work/out" 2>"$work/err" &
    pid=$!
}

# Everyone below the job, from the launcher to the ranks.
family() {
    local child
    for child in $(ps -o pid= --ppid "$1"); do
        echo "$child"
        family "$child"
    done
}

done_kills=0 rounds=0
while [ $done_kills -lt "$kills" ] && [ $rounds -lt $((20 * kills)) ]; do
    rounds=$((rounds + 1))
    start
    sleep "0.$(printf '%03d' $((RANDOM % 500)))"
    mapfile -t members < <(family $pid)
    if kill -0 $pid 2>/dev/null && [ ${#members[@]} -gt 0 ]; then
        kill -KILL "${members[RANDOM % ${#members[@]}]}" 2>/dev/null && done_kills=$((done_kills + 1))
    fi
    wait $pid
    status=$?
    # Killed, or too late for that; a job that cannot read what the one before left ends with 1 or 2.
    if [ $status -ne 0 ] && [ $status -lt 125 ] && ! grep -q 'killed by signal 9\|died\|ended' "$work/err"; then
        check "kill $done_kills: the next job can go on (status $status: $(tail -n 3 "$work/err"))" false
    fi
    if [ $status -eq 0 ]; then # it came to its end
        check "the weights of the undisturbed run" same "$(hash_of "$work/log")" "$(hash_of "$work/whole.log")"
        rm -rf "$work/run"
    fi
done
check "$kills kills were made" same $done_kills "$kills"
while [ $rounds -gt 0 ]; do # to the end
    rounds=$((rounds - 1))
    start
    wait $pid && break
done
check "the last job ends with the weights of the undisturbed run" same "$(hash_of "$work/log")" "$(hash_of "$work/whole.log")"
finish
