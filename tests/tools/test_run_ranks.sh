#!/usr/bin/env bash
# kith run with programs that use the library; their flight records.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"
trainer=$KITH_BUILD_DIR/bin/tests/rank_trainer

for n in 1 2 5 16; do
    succeeds "$kith" run -n $n --timeout 50 -- "$trainer" sum
    check "$n ranks have the sum" same "$(sort -V "$work/out")" \
        "$(for ((i = 0; i < n; i++)); do echo "rank $i of $n: $((n * (n + 1) / 2))"; done)"
done
succeeds "$kith" run -n 2 --timeout 50 --backend shm --prefix -- "$trainer" sum
check "with --backend and --prefix" same "$(sort "$work/out" | tail -n 1)" "[1] rank 1 of 2: 3"
fails 1 "bogus" "$kith" run -n 2 --timeout 50 --backend bogus -- "$trainer" sum
succeeds "$kith" run -n 2 --timeout 50 -- "$kith" run -n 2 -- "$trainer" sum
check "nested jobs do not meet" same "$(grep -c 'of 2: 3$' "$work/out")" 4
succeeds "$kith" run -n 2 --timeout 50 -- sh -c 'exec "$0" sum' "$trainer"

# A job with as many ranks as fit in a small machine's memory many times over.
succeeds "$kith" run -n 64 --timeout 100 -- "$trainer" sum
check "64 ranks" same "$(grep -c 'of 64: 2080$' "$work/out")" 64

if [ "$HAS_JANSSON" = 1 ]; then
    mkdir "$work/records"
    succeeds "$kith" run -n 4 --timeout 50 -- "$trainer" behind "$work/records"
    run "$kith" flight "$work/records"
    check "records of a job that hung" status_is 1
    check "the rank that is behind" grep -qE 'rank 2 never called seq [0-9]+ \(all_gather, group ' "$work/out"
    check "the timeout on the others" grep -qE 'all_gather, group .*failed on ranks 0, 1, 3: timeout' "$work/out"
fi
check "no private folder is left" no_folder_is_left
finish
