#!/usr/bin/env bash
# kith run: no process is left, whoever dies in whatever way.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"

pids_of() { cat "$work/pids"/*.* 2>/dev/null; }

# start KIND [COMMAND...]: a job of 3 ranks with a grandchild each; sets $guard and $all
start() {
    rm -rf "$work/pids"
    mkdir "$work/pids"
    "$kith" run -n 3 --grace 0.2 -- "$ranks" family "$1" "$work/pids" >"$work/out" 2>"$work/err" </dev/null &
    guard=$!
    check "3 grandchildren ($1)" wait_until files_are_there "$work/pids" 'grandchild.*' 3
    launcher=$(tr ' ' '\n' <"/proc/$guard/task/$guard/children" | head -n 1)
    rank_pids=$(cat "/proc/$launcher/task/$launcher/children")
    all="$(pids_of) $launcher $rank_pids"
}

for kind in plain session double; do
    start $kind
    kill -9 "$guard"
    wait "$guard" 2>/dev/null
    check "kill -9 of kith run, grandchildren: $kind" wait_until all_are_gone $all
    check "the private folder is gone too" wait_until no_folder_is_left

    start $kind
    kill -9 "$launcher"
    wait "$guard"
    status=$?
    check "the launcher's death is a failure of kith run ($kind)" status_is 125
    check "which is said" err_has "its launcher process was killed by signal 9 (SIGKILL); all ranks were killed"
    check "kill -9 of the launcher, grandchildren: $kind" wait_until all_are_gone $all

    start $kind
    kill -9 "${rank_pids%% *}"
    wait "$guard"
    status=$?
    check "death of a rank ($kind)" status_is 137
    check "death of a rank, grandchildren: $kind" all_are_gone $all

    start $kind
    kill -TERM "$guard"
    wait "$guard"
    status=$?
    check "TERM ($kind)" status_is 143
    check "TERM, grandchildren: $kind" all_are_gone $all
done

# Both at once: the ranks have asked to die with the launcher.
start plain
kill -9 "$guard" "$launcher"
wait "$guard" 2>/dev/null
check "kill -9 of both" wait_until all_are_gone $rank_pids
kill -9 $(pids_of) 2>/dev/null
rm -rf "${TMPDIR:?}"/*

# Ranks that are fine and leave something behind.
mkdir "$work/left"
run "$kith" run -n 2 --grace 0.2 -- "$ranks" leave "$work/left"
check "leaving something behind is no failure" status_is 0
check "it is said" err_has "2 processes that the ranks left running are ended"
check "and it is gone" all_are_gone $(cat "$work/left"/*.?)

# Nested jobs: the outer one is killed.
rm -rf "$work/pids"
mkdir "$work/pids"
"$kith" run -n 2 --grace 0.2 -- "$kith" run -n 2 -- "$ranks" family double "$work/pids" >"$work/out" 2>"$work/err" &
guard=$!
check "grandchildren of inner ranks" wait_until files_are_there "$work/pids" 'grandchild.*' 2
sleep 0.5
kill -9 "$guard"
wait "$guard" 2>/dev/null
check "kill -9 of the outer job" wait_until all_are_gone $(pids_of)
check "both private folders are gone" wait_until no_folder_is_left
finish
