#!/usr/bin/env bash
# kith run --placement: variables, binding, and what is refused.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1

if [ "$HAS_JANSSON" = 0 ]; then
    echo '{}' >p.json
    fails 2 "built without jansson" "$kith" run --placement p.json -- true
    finish
fi

host=$(uname -n)
mine=$("$ranks" processors | cut -d: -f2)
first=$(awk '{ print $1 }' <<<"$mine")
list=$(tr ' ' '\n' <<<"$mine" | grep . | paste -sd,)

# rank RANK HOST CPUS VARIABLES...: one entry
rank() {
    local number=$1 on=$2 cpus=$3 comma=""
    shift 3
    printf '{"rank": %s, "host": "%s", "gpu": %s, "cpus": %s, "environment": {' "$number" "$on" "$number" "$cpus"
    for variable in "$@"; do
        printf '%s"%s": "%s"' "$comma" "${variable%%=*}" "${variable#*=}"
        comma=", "
    done
    printf '}}'
}
# placement ENTRIES...
placement() {
    local IFS=,
    printf '{"kith_placement": 1, "ranks": [%s]}\n' "$*" >p.json
}
processors_of() { grep "^rank $1:" "$work/out" | cut -d: -f2; }
# shellcheck disable=SC2016 # for the ranks' shell
say='echo "$KITH_RANK of $KITH_SIZE: $CUDA_VISIBLE_DEVICES $EXTRA"'

# The ranks may stand in any order.
placement "$(rank 1 "$host" "\"$list\"" CUDA_VISIBLE_DEVICES=1)" \
    "$(rank 0 "$host" "\"$first\"" CUDA_VISIBLE_DEVICES=3 EXTRA=a=b)"
succeeds "$kith" run --placement p.json -- sh -c "$say"
check "variables of the ranks" same "$(sort "$work/out")" "$(printf '0 of 2: 3 a=b\n1 of 2: 1 ')"
check "nothing else is said" err_is_empty
succeeds "$kith" run -n 2 --placement p.json -- "$ranks" processors
check "rank 0 is bound" same "$(processors_of 0)" " $first"
check "rank 1 has them all" same "$(processors_of 1)" "$mine"
succeeds "$kith" run --placement p.json --bind none -- "$ranks" processors
check "--bind none leaves out the binding" same "$(processors_of 0)" "$mine"
succeeds "$kith" run --placement p.json --env EXTRA=mine -- sh -c "$say"
check "--env comes last" grep -q '^0 of 2: 3 mine$' "$work/out"

# Processors that are not here: unbound, with one sentence.
placement "$(rank 0 "$host" '"0-4000"')" "$(rank 1 "$host" "\"$first\"")"
succeeds "$kith" run --placement p.json -- "$ranks" processors
check "the rank runs unbound" same "$(processors_of 0)" "$mine"
check "the other one is bound" same "$(processors_of 1)" " $first"
check "a sentence says it" err_has "rank 0 is not bound: not all of its processors (0-4000) can be used here"
placement "$(rank 0 "$host" '"60000-60001"')" "$(rank 1 "$host" '"60002"')"
succeeds "$kith" run --placement p.json -- true
check "one sentence for all" err_has "rank 0 and 1 more are not bound"
placement "$(rank 0 "$host" null)" "$(rank 1 "$host" '""')"
succeeds "$kith" run --placement p.json -- "$ranks" processors
check "no processors, no binding" same "$(processors_of 0)$(processors_of 1)" "$mine$mine"
check "and no sentence" err_is_empty
if [ "$(wc -w <<<"$mine")" -gt 1 ]; then
    placement "$(rank 0 "$host" "\"$list\"")"
    succeeds taskset -c "$first" "$kith" run --placement p.json -- "$ranks" processors
    check "what is not allowed is not used" same "$(processors_of 0)" " $first"
    check "it is said" err_has "rank 0 is not bound"
fi

# Hosts.
placement "$(rank 0 elsewhere null)"
succeeds "$kith" run --placement p.json -- true
check "another host's name" err_has "the placement was made for elsewhere"
placement "$(rank 0 localhost null)"
succeeds "$kith" run --placement p.json -- true
check "localhost is this host" err_is_empty
placement "$(rank 0 node0 null)" "$(rank 1 node1 null)"
fails 2 "rank 0 is on node0 and rank 1 on node1" "$kith" run --placement p.json -- true

# Numbers of ranks and options.
placement "$(rank 0 "$host" null)" "$(rank 1 "$host" null)"
fails 2 "-n says 3 ranks, but p.json has 2" "$kith" run -n 3 --placement p.json -- true
fails 2 "only --bind none goes with it" "$kith" run --bind spread --placement p.json -- true
fails 2 "no program to start" "$kith" run --placement p.json

# Files that cannot be used.
fails 2 "nowhere: cannot be opened: No such file" "$kith" run --placement nowhere -- true
fails 2 "is a folder" "$kith" run --placement . -- true
refused() {
    echo "$2" >p.json
    fails 2 "p.json: $1" "$kith" run --placement p.json -- true
}
refused "line 1: " 'garbage'
refused "this is not a placement" '{"ranks": []}'
refused "this is not a placement" '[1]'
refused "this is not a placement" '{"kith_placement": 2, "ranks": []}'
refused '"ranks" is not a list' '{"kith_placement": 1, "ranks": []}'
refused '"ranks" is not a list' '{"kith_placement": 1, "ranks": {}}'
refused 'entry 0 of "ranks" has no "rank"' '{"kith_placement": 1, "ranks": [7]}'
refused 'entry 0 of "ranks" has no "rank" from 0 to 0' "{\"kith_placement\": 1, \"ranks\": [$(rank 1 a null)]}"
refused "rank 0 is there twice" "{\"kith_placement\": 1, \"ranks\": [$(rank 0 a null), $(rank 0 a null)]}"
refused 'rank 0 has no "host"' '{"kith_placement": 1, "ranks": [{"rank": 0}]}'
for cpus in '"1-"' '"3-1"' '"a"' '"1,,2"' '"1,"' '"-1"' '"99999"' '"1 2"' 7 '"99999999999999999999"'; do
    refused 'rank 0: "cpus" is not a list' "{\"kith_placement\": 1, \"ranks\": [$(rank 0 a "$cpus")]}"
done
refused "rank 0: 'A B' is not the name" "{\"kith_placement\": 1, \"ranks\": [$(rank 0 a null 'A B=1')]}"
refused "rank 0: '' is not the name" "{\"kith_placement\": 1, \"ranks\": [$(rank 0 a null '=1')]}"
refused "rank 0: KITH_RANK cannot be set" "{\"kith_placement\": 1, \"ranks\": [$(rank 0 a null KITH_RANK=1)]}"
refused "rank 0: the value of A is not a text" \
    '{"kith_placement": 1, "ranks": [{"rank": 0, "host": "a", "environment": {"A": 1}}]}'
refused 'rank 0: "environment" is not an object' \
    '{"kith_placement": 1, "ranks": [{"rank": 0, "host": "a", "environment": [1]}]}'

# From kith topo to kith run.
if "$kith" topo --tp 2 --export kith "$here/fixtures/topo/bridges.json" >p.json 2>err; then
    succeeds "$kith" run --placement p.json --prefix -- sh -c 'echo "gpu $CUDA_VISIBLE_DEVICES"'
    check "four ranks, four GPUs" same "$(sed 's/.*gpu //' out | sort | paste -sd' ')" "0 1 2 3"
else
    check "kith topo wrote a placement" false
fi
finish
