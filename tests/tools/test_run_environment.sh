#!/usr/bin/env bash
# kith run: what a rank finds: variables, standard input, limits, dispositions of signals.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"

# value NAME RANK
value() { grep "^KITH_RANK=$2 " "$work/out" | grep -o " $1=[^ ]*" | cut -d= -f2-; }

succeeds "$kith" run -n 5 --backend shm --env EXTRA=a=b -- "$ranks" environment
check "each rank speaks once" same "$(wc -l <"$work/out")" 5
for i in 0 1 2 3 4; do
    check "size of rank $i" same "$(value KITH_SIZE $i)" 5
    check "local rank of rank $i" same "$(value KITH_LOCAL_RANK $i)" $i
    check "local size of rank $i" same "$(value KITH_LOCAL_SIZE $i)" 5
    check "backend of rank $i" same "$(value KITH_BACKEND $i)" shm
    check "extra variable of rank $i" same "$(value EXTRA $i)" a=b
    check "threads of rank $i" grep -qE '^[1-9][0-9]*$' <<<"$(value OMP_NUM_THREADS $i)"
done
check "the store is one for all" same "$(grep -o ' KITH_STORE=[^ ]*' "$work/out" | sort -u | wc -l)" 1
check "the store is TCP on this host" grep -qE '^tcp://127\.0\.0\.1:0\?file=/.*/port$' <<<"$(value KITH_STORE 0)"
check "the secret is one for all" same "$(grep -o ' KITH_SECRET=[^ ]*' "$work/out" | sort -u | wc -l)" 1
secret=$(value KITH_SECRET 0)
check "the secret is long" grep -qE '^[0-9a-f]{32}$' <<<"$secret"
succeeds "$kith" run -n 1 -- "$ranks" environment
check "another job has another secret" test "$secret" != "$(value KITH_SECRET 0)"
check "KITH_BACKEND is not made up" same "$(value KITH_BACKEND 0)" "(unset)"

OMP_NUM_THREADS=7 run "$kith" run -n 2 -- "$ranks" environment
check "OMP_NUM_THREADS of the user stays" same "$(value OMP_NUM_THREADS 1)" 7
succeeds "$kith" run -n 2 --env OMP_NUM_THREADS=3 --env KITH_SECRET=mine -- "$ranks" environment
check "--env sets OMP_NUM_THREADS" same "$(value OMP_NUM_THREADS 1)" 3
check "--env sets the secret" same "$(value KITH_SECRET 1)" mine
succeeds "$kith" run -n 1 --env EXTRA=1 --env EXTRA=2 -- "$ranks" environment
check "the last --env wins" same "$(value EXTRA 0)" 2

# Nested: the inner ranks have the inner job's variables.
succeeds "$kith" run -n 2 --env EXTRA=outer -- "$kith" run -n 3 -- "$ranks" environment
check "two jobs of three ranks" same "$(grep -c 'KITH_SIZE=3 .*EXTRA=outer' "$work/out")" 6
check "with a store each" same "$(grep -o ' KITH_STORE=[^ ]*' "$work/out" | sort -u | wc -l)" 2

# Standard input.
head -c 300000 /dev/zero >"$work/input"
timeout 60 "$kith" run -n 3 -- "$ranks" input <"$work/input" >"$work/out" 2>"$work/err"
status=$?
check "a file as input" same "$(sort "$work/out" | tr '\n' ,)" "rank 0 read 300000,rank 1 read 0,rank 2 read 0,"
head -c 300000 /dev/zero | timeout 60 "$kith" run -n 3 --prefix -- "$ranks" input >"$work/out" 2>"$work/err"
check "a pipe as input" grep -q "rank 0 read 300000" "$work/out"
timeout 60 "$kith" run -n 2 -- "$ranks" input <&- >"$work/out" 2>"$work/err"
status=$?
check "closed input is empty input" same "$(sort "$work/out" | tr '\n' ,)" "rank 0 read 0,rank 1 read 0,"
if command -v script >/dev/null; then
    printf 'hello\n\004' | timeout 60 script -qec "$kith run -n 2 -- $ranks input" /dev/null >"$work/out" 2>"$work/err"
    check "a terminal as input" grep -q "rank 0 read 6" "$work/out"
    check "the terminal is rank 0's alone" grep -q "rank 1 read 0" "$work/out"
fi

# What the launcher changes for itself does not reach the ranks.
run "$kith" run -n 1 --prefix -- sh -c 'ulimit -Sn; grep -E "Sig(Blk|Ign)" /proc/self/status'
cp "$work/out" "$work/under"
sh -c 'ulimit -Sn; grep -E "Sig(Blk|Ign)" /proc/self/status' | sed 's/^/[0] /' >"$work/plain"
check "limits and signals are those of the caller" cmp -s "$work/under" "$work/plain"
check "ranks lead their own process group" "$kith" run -n 1 -- sh -c '[ "$(cut -d" " -f5 /proc/$$/stat)" = $$ ]'
check "no private folder is left" no_folder_is_left
finish
