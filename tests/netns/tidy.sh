#!/bin/bash
# tidy.sh - hosts.sh passes failures on, and leaves nothing behind, also when it is killed in the middle.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
hosts="$(cd "$(dirname "$0")" && pwd)/hosts.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail()
{
    echo "FAILED: $1"
    exit 1
}

# nothing of the hosts.sh with this process id is left
check_clean()
{
    ip netns list | grep -q "kithns$1-" && fail "namespaces are left ($2)"
    ls /etc/netns 2>/dev/null | grep -q "kithns$1-" && fail "/etc/netns is left ($2)"
    ls "$folder" | grep -q "kithns$1\." && fail "the state folder is left ($2)"
}

export TMPDIR=$folder
bash "$hosts" -n 2 -r 2 -- bash -c '[ "$(hostname)" = kith$((RANK / 2)) ] && echo $RANK' >"$folder/out" &
process=$!
wait $process
status=$?
[ $status -eq 77 ] && { cat "$folder/out"; exit 77; }
[ $status -eq 0 ] || fail "status $status"
[ "$(grep -x '[0-3]' "$folder/out" | sort | tr -d '\n')" = 0123 ] || fail "the ranks were not 0 1 2 3: $(cat "$folder/out")"
check_clean $process "after success"

bash "$hosts" -n 2 -- bash -c '[ $RANK = 0 ] && exit 9; sleep 60' &
process=$!
wait $process
[ $? -eq 9 ] || fail "the status of the rank that failed was not passed on"
check_clean $process "after a failure"

bash "$hosts" -n 2 -- sleep 61 &
process=$!
for ((i = 0; i < 100; i++)); do
    [ "$(pgrep -c -f -x 'sleep 61')" -ge 2 ] && break
    sleep 0.1
done
kill -TERM $process
wait $process
[ $? -eq 143 ] || fail "a killed hosts.sh did not end with 143"
check_clean $process "after a kill"
pgrep -f -x 'sleep 61' >/dev/null && fail "commands are left after a kill"
echo ok
