#!/usr/bin/env bash
# kith run: exit statuses, what is said about the rank that failed, wrong usage.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"

succeeds "$kith" run -n 1 -- true
check "a good run says nothing" err_is_empty
succeeds "$kith" run -n 3 true
succeeds "$kith" run --ranks=2 --bind none -- true

# The first failure decides.
fails 3 "rank 1 exited with status 3; ending the other 3 ranks" "$kith" run -n 4 -- "$ranks" exit 1 3
fails 255 "rank 0 exited with status 255" "$kith" run -n 2 -- "$ranks" exit 0 255
fails 137 "rank 2 killed by signal 9 (SIGKILL); ending the other 3 ranks" "$kith" run -n 4 -- "$ranks" die 2 9
fails 143 "rank 0 killed by signal 15 (SIGTERM)" "$kith" run -n 1 -- "$ranks" die 0 15
fails 139 "rank 1 killed by signal 11 (SIGSEGV)" "$kith" run -n 2 -- sh -c 'ulimit -c 0; exec "$0" die 1 11' "$ranks"
check "only the first failure is told" same "$(wc -l <"$work/err")" 1

# Ranks that do not listen to SIGTERM.
mkdir "$work/stubborn"
fails 7 "rank 1 exited with status 7" "$kith" run -n 3 --grace 0.3 -- "$ranks" stubborn 1 7 "$work/stubborn"
check "the ranks that had to be killed are named" err_has "ranks 0, 2 still ran 0.3 s after SIGTERM: killed"
for i in 0 2; do
    check "rank $i is dead" is_gone "$(cat "$work/stubborn/stubborn.$i")"
done

fails 124 "the job was not done after 0.3 s; still running: ranks 0, 1" "$kith" run -n 2 --timeout 0.3 -- "$ranks" sleep
succeeds "$kith" run -n 2 --timeout 50 -- true

# Programs that cannot be started.
fails 127 "there is no program '$work/nothing'" "$kith" run -n 2 -- "$work/nothing"
fails 127 "there is no program 'kith-no-such-program' in the folders of PATH" "$kith" run -n 2 -- kith-no-such-program
fails 127 "there is no program" "$kith" run -n 2 -- /dev/null/program
fails 126 "it is a folder" "$kith" run -n 2 -- "$work"
echo 'echo hello' >"$work/script"
fails 126 "'$work/script' cannot be executed: Permission denied" "$kith" run -n 2 -- "$work/script"
chmod +x "$work/script"
fails 126 "neither a program for this machine nor a script" "$kith" run -n 2 -- "$work/script"
printf '#!%s/no-interpreter\n' "$work" >"$work/script"
fails 126 "the interpreter that its first line" "$kith" run -n 2 -- "$work/script"
printf '#!/bin/sh\nexit 5\n' >"$work/script"
fails 5 "exited with status 5" "$kith" run -n 2 -- "$work/script"
(cd "$work" && PATH=$work:$PATH run "$kith" run -n 1 -- script; exit $status)
status=$?
check "a program is found through PATH" status_is 5

# Wrong usage.
fails 2 "-n N is missing: the number of ranks, 1 to 4096" "$kith" run
fails 2 "-n N is missing: the number of ranks" "$kith" run -- true
fails 2 "-n N is missing; the -n after 'true' belongs to the program" "$kith" run true -n 2
fails 2 "-n N is missing; the -n4 after 'true' belongs to the program" "$kith" run -- true -n4
fails 2 "option -n needs a value" "$kith" run -n
fails 2 "option --ranks needs a value" "$kith" run --ranks
fails 2 "not '--'" "$kith" run -n -- true
for n in 0 -1 4097 99999999999999999999 2x x 1.5 ""; do
    fails 2 "-n needs the number of ranks, 1 to 4096, not '$n'" "$kith" run -n "$n" -- true
done
fails 2 "no program to start was given" "$kith" run -n 2
fails 2 "no program to start was given" "$kith" run -n 2 --
fails 2 "the name of the program is empty" "$kith" run -n 2 -- ""
fails 2 "--bind needs compact, spread or none, not 'core'" "$kith" run -n 2 --bind core true
fails 2 "--env needs NAME=VALUE, not 'A'" "$kith" run -n 2 --env A true
fails 2 "--env needs NAME=VALUE, not '=1'" "$kith" run -n 2 --env =1 true
fails 2 "--env cannot set KITH_RANK" "$kith" run -n 2 --env KITH_RANK=1 true
fails 2 "--timeout needs a positive number of seconds, not '0'" "$kith" run -n 2 --timeout 0 true
fails 2 "--timeout needs a positive number of seconds, not 'soon'" "$kith" run -n 2 --timeout soon true
fails 2 "--grace needs a number of seconds, not '-1'" "$kith" run -n 2 --grace -1 true
fails 2 "--backend needs a name" "$kith" run -n 2 --backend "" true
fails 2 "unknown option --perfix; did you mean --prefix?" "$kith" run -n 2 --perfix true
fails 2 "unknown option -q" "$kith" run -q true
fails 2 "option --prefix takes no value" "$kith" run -n 2 --prefix=3 true
check "no private folder is left" no_folder_is_left
finish
