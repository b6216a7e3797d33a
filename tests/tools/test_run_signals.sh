#!/usr/bin/env bash
# kith run: signals reach the ranks; the second and third request to end; stop and continue.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"

# start COMMAND...: in the background, with the signals that a shell ignores for background jobs back at their defaults
start() {
    timeout -k 5 --foreground 100 env --default-signal=INT,QUIT "$@" >"$work/out" 2>"$work/err" </dev/null &
    job=$!
    wait_until has_child "$job" || echo "FAILED: $* did not start"
    launcher=$(cat "/proc/$job/task/$job/children")
    launcher=${launcher%% *}
}
has_child() { [ -n "$(cat "/proc/$1/task/$1/children" 2>/dev/null)" ]; }
finish_job() {
    wait "$job"
    status=$?
}

for name in INT TERM HUP QUIT USR1 USR2; do
    rm -rf "$work/ready"
    mkdir "$work/ready"
    start "$kith" run -n 3 -- "$ranks" catch "$(kill -l $name)" "$work/ready"
    check "the ranks wait for $name" wait_until files_are_there "$work/ready" 'ready.*' 3
    kill -s $name "$launcher"
    finish_job
    check "$name ends well when the ranks handle it" status_is 0
    check "$name reached all ranks" same "$(grep -c "^caught $(kill -l $name)$" "$work/out")" 3
done

# A signal that the ranks do not handle kills them.
rm -rf "$work/ready"
mkdir "$work/ready"
start "$kith" run -n 2 -- "$ranks" catch "$(kill -l USR1)" "$work/ready"
check "the ranks wait" wait_until files_are_there "$work/ready" 'ready.*' 2
kill -s TERM "$launcher"
finish_job
check "killed by the forwarded signal" status_is 143
check "which is said" err_has "killed by signal 15 (SIGTERM)"

# Ranks that ignore SIGTERM: once is the ranks' business, twice starts the grace time.
mkdir "$work/stubborn"
start "$kith" run -n 2 --grace 0.2 -- "$ranks" stubborn 5 0 "$work/stubborn"
check "the ranks ignore TERM" wait_until files_are_there "$work/stubborn" 'stubborn.*' 2
kill -s TERM "$launcher"
sleep 1
check "one TERM does not kill" kill -0 "$(cat "$work/stubborn/stubborn.0")"
kill -s TERM "$launcher"
finish_job
check "two do" status_is 137
check "which is said" err_has "still ran 0.2 s after SIGTERM: killed"

rm -rf "$work/stubborn"
mkdir "$work/stubborn"
start "$kith" run -n 2 --grace 1000 -- "$ranks" stubborn 5 0 "$work/stubborn"
check "the ranks ignore TERM" wait_until files_are_there "$work/stubborn" 'stubborn.*' 2
for i in 1 2 3; do
    kill -s TERM "$launcher"
    sleep 0.5
done
finish_job
check "three do not wait for the grace time" status_is 137
check "which is said" err_has "ranks 0, 1 killed at the third request"

# Stop and continue: the ranks stop with the command.
state_of() { sed 's/^.*) //; s/ .*//' "/proc/$1/stat"; }
state_is() { [ "$(state_of "$2")" = "$1" ]; }
runs() { [ "$(state_of "$1")" != T ]; }
rm -rf "$work/ready"
mkdir "$work/ready"
start "$kith" run -n 2 -- "$ranks" catch "$(kill -l USR1)" "$work/ready"
check "the ranks wait" wait_until files_are_there "$work/ready" 'ready.*' 2
kill -s TSTP "$launcher"
for i in 0 1; do
    check "rank $i stops" wait_until state_is T "$(cat "$work/ready/ready.$i")"
done
kill -s CONT "$launcher"
for i in 0 1; do
    check "rank $i goes on" wait_until runs "$(cat "$work/ready/ready.$i")"
done
kill -s USR1 "$launcher"
finish_job
check "and ends well" status_is 0

# nohup: an ignored HUP stays ignored.
rm -rf "$work/ready"
mkdir "$work/ready"
start sh -c 'trap "" HUP; exec "$@"' sh "$kith" run -n 1 -- "$ranks" catch "$(kill -l USR1)" "$work/ready"
check "the rank waits" wait_until files_are_there "$work/ready" 'ready.*' 1
kill -s HUP "$launcher"
kill -s USR1 "$launcher"
finish_job
check "an ignored HUP is not passed on" status_is 0
check "no private folder is left" no_folder_is_left
finish
