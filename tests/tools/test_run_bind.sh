#!/usr/bin/env bash
# kith run --bind: shares of the usable processors, on this machine and on drawn ones.
#
# Drawn machines: hwloc reads HWLOC_SYNTHETIC instead of the machine; binding is then only reported (-v), because the
# processors are not really there and binding to them would fail.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"

if [ "$HAS_HWLOC" = 0 ]; then
    fails 125 "built without hwloc: only --bind none" "$kith" run -n 1 --bind compact -- true
    succeeds "$kith" run -n 1 --bind none -- true
    succeeds "$kith" run -n 1 -- true
    finish
fi

mine=$("$ranks" processors | cut -d: -f2)
count=$(wc -w <<<"$mine")
all_of() { cut -d: -f2 "$work/out" | tr ' ' '\n' | grep . | sort -n | uniq -c | awk '{ print $1 "x" $2 }' | tr '\n' ' '; }
processors_of() { grep "^rank $1:" "$work/out" | cut -d: -f2; }

succeeds "$kith" run -n 1 --bind none -- "$ranks" processors
check "none: everything" same "$(processors_of 0)" "$mine"
succeeds "$kith" run -n 1 --bind compact -- "$ranks" processors
check "one rank has everything" same "$(processors_of 0)" "$mine"

for how in compact spread; do
    succeeds "$kith" run -n "$count" --bind $how -- "$ranks" processors
    check "$how: as many ranks as processors: one each, all different" \
        same "$(all_of)" "$(tr ' ' '\n' <<<"$mine" | grep . | sed 's/^/1x/' | tr '\n' ' ')"
done
succeeds "$kith" run -n "$count" -- "$ranks" processors
check "compact is the default when there are enough" same "$(all_of | grep -o 2x | wc -l)" 0
succeeds "$kith" run -n $((count + 1)) -- "$ranks" processors
check "none is the default when there are too few" same "$(processors_of "$count")" "$mine"
succeeds "$kith" run -n $((2 * count)) --bind compact -- "$ranks" processors
check "asked for, ranks share processors evenly" same "$(all_of | grep -o 2x | wc -l)" "$count"

# An affinity that stands already is not left.
first=$(awk '{ print $1 }' <<<"$mine")
succeeds taskset -c "$first" "$kith" run -n 1 --bind compact -- "$ranks" processors
check "the caller's affinity is kept" same "$(processors_of 0)" " $first"
succeeds taskset -c "$first" "$kith" run -n 2 -- "$ranks" processors
check "two ranks on one processor" same "$(processors_of 1)" " $first"
succeeds "$kith" run -n "$count" -- "$kith" run -n 1 --bind compact -- "$ranks" processors
check "nested: the inner job has the outer rank's share" same "$(grep -c "^rank 0: [0-9]*$" "$work/out")" "$count"

succeeds "$kith" run -n 1 -v --bind compact -- true
check "-v tells" grep -qE "^kith run: rank 0 is process [0-9]+, processors $first" "$work/err"
succeeds "$kith" run -n 1 -v --bind none -- true
check "-v tells of none" grep -qE "rank 0 is process [0-9]+, not bound" "$work/err"

# Drawn machines. shares MACHINE N HOW: what -v tells, "rank=processors" in order
shares() {
    HWLOC_SYNTHETIC=$1 HWLOC_THISSYSTEM=0 timeout 60 "$kith" run -n "$2" -v --bind "$3" -- true 2>"$work/err" >/dev/null </dev/null
    sed -n 's/^kith run: rank \([0-9]*\) is process [0-9]*, processors \(.*\)/\1=\2/p' "$work/err" | sort -n | tr '\n' ' '
}
two="package:2 core:4 pu:2" # 16 processors: core 0 has 0,1; the second package begins at 8
check "2 ranks: a package each" same "$(shares "$two" 2 compact)" "0=0,1,2,3,4,5,6,7 1=8,9,10,11,12,13,14,15 "
check "4 compact ranks" same "$(shares "$two" 4 compact)" "0=0,1,2,3 1=4,5,6,7 2=8,9,10,11 3=12,13,14,15 "
check "4 spread ranks take turns" same "$(shares "$two" 4 spread)" "0=0,1,2,3 1=8,9,10,11 2=4,5,6,7 3=12,13,14,15 "
check "8 spread ranks: a core each" same "$(shares "$two" 8 spread)" "0=0,1 1=8,9 2=2,3 3=10,11 4=4,5 5=12,13 6=6,7 7=14,15 "
check "3 ranks on 2 packages stay equal" same "$(shares "$two" 3 compact)" "0=0,1,2,3 1=4,5,6,7 2=10,11,12,13 "
check "16 compact ranks: a thread each" \
    same "$(shares "$two" 16 compact)" "0=0 1=1 2=2 3=3 4=4 5=5 6=6 7=7 8=8 9=9 10=10 11=11 12=12 13=13 14=14 15=15 "
check "16 spread ranks: siblings last" \
    same "$(shares "$two" 16 spread)" "0=0 1=8 2=2 3=10 4=4 5=12 6=6 7=14 8=1 9=9 10=3 11=11 12=5 13=13 14=7 15=15 "
check "more ranks than threads share" same "$(shares "core:2 pu:1" 4 compact)" "0=0 1=0 2=1 3=1 "
finish
