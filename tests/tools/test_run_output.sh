#!/usr/bin/env bash
# kith run --prefix: whole lines, nothing lost, nothing mixed.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"

succeeds "$kith" run -n 2 --prefix -- sh -c 'echo out $KITH_RANK; echo err $KITH_RANK >&2; printf "no newline"'
check "stdout has stdout's lines" same "$(sort "$work/out" | tr '\n' ,)" "[0] no newline,[0] out 0,[1] no newline,[1] out 1,"
check "stderr has stderr's" same "$(sort "$work/err" | tr '\n' ,)" "[0] err 0,[1] err 1,"

succeeds "$kith" run -n 11 --prefix -- sh -c 'echo x'
check "prefixes are aligned" same "$(sort "$work/out" | head -n 2 | tr '\n' ,)" "[ 0] x,[ 1] x,"
check "the last rank" out_has "[10] x"

succeeds "$kith" run -n 2 --prefix -- sh -c 'printf "a\n\n\nb\0c\n"'
check "empty lines stay" same "$(grep -ac '^\[[01]\] $' "$work/out")" 4
check "so do zero bytes" same "$(tr -dc '\0' <"$work/out" | wc -c)" 2

succeeds "$kith" run -n 2 -- sh -c 'echo plain'
check "without --prefix nothing is added" same "$(tr '\n' , <"$work/out")" "plain,plain,"

# is_whole FILE RANKS LINES NBYTES: that many lines of each rank, each of the rank's own letter alone
is_whole() {
    awk -v ranks="$2" -v lines="$3" -v nbytes="$4" '
        {
            begin = index($0, "] ")
            rank = substr($0, 2, begin - 2) + 0
            rest = substr($0, begin + 2)
            letter = substr("abcdefghijklmnopqrstuvwxyz", rank % 26 + 1, 1)
            if (substr($0, 1, 1) != "[" || begin < 3 || length(rest) != nbytes || gsub(letter, "", rest) != nbytes)
                bad = 1
            seen[rank]++
        }
        END {
            for (rank = 0; rank < ranks; rank++)
                if (seen[rank] != lines)
                    bad = 1
            exit bad || NR != ranks * lines
        }' "$1"
}

succeeds "$kith" run -n 64 --prefix -- "$ranks" lines 200 99
check "64 ranks: stdout" is_whole "$work/out" 64 100 99
check "64 ranks: stderr" is_whole "$work/err" 64 100 99

# Megabytes; one file for both streams; a reader that is slow.
"$kith" run -n 4 --prefix -- "$ranks" lines 1500 5000 >"$work/out" 2>&1 </dev/null
status=$?
check "30 MB" status_is 0
check "stdout and stderr in one file" is_whole "$work/out" 4 1500 5000
"$kith" run -n 3 --prefix -- "$ranks" lines 400 3000 2>&1 </dev/null | (sleep 1; cat) >"$work/out"
check "a slow reader gets everything" is_whole "$work/out" 3 400 3000

# A line that never ends is broken, not kept in memory; nothing is lost.
"$kith" run -n 1 --prefix -- head -c 5000000 /dev/zero >"$work/out" 2>"$work/err" </dev/null
check "5 MB without newline arrive" same "$(tr -dc '\0' <"$work/out" | wc -c)" 5000000

# A reader that leaves: the ranks end as they would without kith run.
"$kith" run -n 2 --prefix -- sh -c 'while echo line; do :; done' 2>"$work/err" </dev/null | head -n 1 >"$work/out"
status=${PIPESTATUS[0]}
check "the first line came" grep -qE '^\[[01]\] line$' "$work/out"
check "a reader that leaves ends the job" test "$status" -ne 0

# Output of a rank that dies, and of what it leaves behind.
run "$kith" run -n 2 --prefix -- sh -c 'printf "last words of $KITH_RANK"; if [ $KITH_RANK = 1 ]; then kill -9 $$; fi; exec sleep 300'
check "the status of the dead rank" status_is 137
check "its last words" out_has "[1] last words of 1"
check "the message is a line of its own" grep -qE '^kith run: rank 1 killed by signal 9 \(SIGKILL\)' "$work/err"
check "no private folder is left" no_folder_is_left
finish
