#!/usr/bin/env bash
# kith tune, kith bench --links and --model-fit: fits of rows that are known, the files that come out of them, link
# classes that are there and that are not, tables that are loaded again, what is refused. Speeds are not looked at.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$KITH_SOURCE_DIR/tests/tools/lib.sh"
cd "$work" || exit 1
out_matches() { grep -qE -- "$1" "$work/out"; }
file_matches() { grep -qE -- "$1" "$2"; }
has_backend() { "$kith" info --json | tr '{' '\n' | grep -q "\"name\":\"$1\",\"available\":true"; }

if [ "$HAS_JANSSON" != 1 ]; then
    fails 2 "without jansson" "$kith" tune --fit rows.json
    finish
fi

# ---- fits ----
# all_reduce on 4 ranks as a ring of 3 us a step and 10 GB/s has it: 18 us + 0.15 ns a byte.
{
    printf '{"format": "kith-results-1", "meta": {"command": "kith bench all_reduce"}, "rows": ['
    comma=
    for nbytes in 8 64 512 4096 32768 262144 2097152 16777216; do
        printf '%s{"op": "all_reduce", "backend": "shm", "link": "auto", "dtype": "f32", "redop": "sum", "ranks": 4,' "$comma"
        printf ' "hosts": 1, "nbytes": %s, "time_us_median": %s}' "$nbytes" "$(awk "BEGIN { printf \"%.9g\", 18 + $nbytes * 1.5e-4 }")"
        comma=,
    done
    printf ', {"op": "all_reduce", "backend": "shm", "link": "auto", "dtype": "f32", "redop": "sum", "ranks": 4,'
    printf ' "hosts": 1, "nbytes": 1024, "time_us_median": null}]}\n'
} >rows.json
succeeds "$kith" tune --fit rows.json --constants shm=nvlink4 --output calibration.json --svg fit.svg
check "alpha" out_matches 'alpha 18 us \(18 to 18\)'
check "beta" out_matches '6\.667 GB/s'
check "predicted beside measured" out_matches '^ +16 MiB +2535 +2535 +[+-]0\.0 %$'
check "what was left out" out_has "1 size without a reliable median left out"
check "a picture" file_matches '</svg>' fit.svg
check "where the numbers are from" file_matches '"command": "kith bench all_reduce"' calibration.json

succeeds "$kith" topo --list-constants --constants calibration.json
check "the constants of a ring" out_matches '^nvlink4 .* 10 +3 +measured on .*all_reduce of 4 ranks on shm \(replaced\)'
machine="8 H100 on NVSwitch"
time_of() { tr ',' '\n' <"$work/out" | grep -m 1 -o '"placed_s": [0-9.e-]*' | cut -d ' ' -f 2; }
planned() { succeeds "$kith" plan --model gpt2 --tp 4 --dp 2 --input "$machine" --format json "$@"; }
planned
before=$(time_of)
planned --constants calibration.json
check "a plan takes longer on slower links" awk "BEGIN { r = $(time_of) / $before; exit !(r > 1 && r < 2.06) }"
echo '{"nvlink4": {"effective_gbps": 10.3, "latency_us": 6.8}}' >half.json
planned --constants half.json
check "half as fast, twice as long" awk "BEGIN { r = $(time_of) / $before; exit !(r > 1.999 && r < 2.001) }"
cost_of() { grep -m 1 -o '"cost": [0-9.e-]*' "$work/out" | cut -d ' ' -f 2; }
succeeds "$kith" topo --tp 4 --dp 2 --format json "$machine"
before=$(cost_of)
succeeds "$kith" topo --tp 4 --dp 2 --format json --constants half.json "$machine"
check "and for kith topo" awk "BEGIN { r = $(cost_of) / $before; exit !(r > 1.999 && r < 2.001) }"
fails 2 "--constants goes with --input" "$kith" plan --model gpt2 --constants half.json

fails 2 "unable to open nowhere.json" "$kith" tune --fit nowhere.json
echo '{"rows": 3}' >other.json
fails 2 "these are no results of kith bench" "$kith" tune --fit other.json
echo '[{"op": "barrier", "backend": "shm", "ranks": 2}]' >damaged.json
fails 2 "row 1 has no valid 'nbytes'" "$kith" tune --fit damaged.json
echo '[]' >none.json
fails 1 "no curve has 3 sizes" "$kith" tune --fit none.json
fails 1 "no fit of the link 'ucx'" "$kith" tune --fit rows.json --constants ucx=pcie4 --output x.json
fails 2 "there is no constant 'pcie9'" "$kith" tune --fit rows.json --constants shm=pcie9 --output x.json
fails 2 "--constants needs --output" "$kith" tune --fit rows.json --constants shm=pcie4
fails 2 "--fit measures nothing" "$kith" tune --fit rows.json -n 2

# ---- kith bench --model-fit ----
succeeds "$kith" bench ping_pong -n 2 --backend shm --sizes 8,16,24,32,64,128,256,512 --budget 0.05 --model-fit model.json --json=model-rows.json
check "fits or says why not" out_matches 'ping_pong over shm, 2 ranks'
check "rows as well" file_matches '"op": "ping_pong"' model-rows.json
fails 2 "there is no operation" "$kith" bench nothing -n 2 --model-fit x.json
fails 2 "m.json would be written twice" "$kith" bench all_reduce -n 2 --save m.json --model-fit m.json
fails 2 "--constants goes with --model-fit" "$kith" bench all_reduce -n 2 --constants shm=pcie4

# ---- kith bench --links ----
succeeds "$kith" bench broadcast -n 2 --links --backend shm --sizes 8 --budget 0.01 --save links.json --csv=links.csv
check "a class" out_matches '^ +size +shm'
check "its name in the rows" file_matches '"link":"shm"' links.json
check "one line a row" file_matches '^broadcast,shm,shm,f32' links.csv
succeeds "$kith" bench broadcast -n 2 --links --backend shm --sizes 8 --budget 0.01 --quiet --json
check "rows alone on standard output" out_matches '^\[\{"op":"broadcast"'
if ! has_backend nccl; then
    run "$kith" bench all_reduce -n 2 --links --backend nccl --sizes 8
    check "nothing is measured without a GPU" status_is 2
    check "and why" err_has "absent: nccl-p2p ("
    check "in one sentence at the end" err_has "no link class of nccl could be measured"
fi
fails 2 "give -n N" "$kith" bench all_reduce --links
for words in 'all_reduce --sizes 0' 'bogus' 'all_reduce --dtype nope' 'all_reduce --json --csv' 'all_reduce --bogus'; do
    # shellcheck disable=SC2086 # several words
    run "$kith" bench $words -n 2 --links
    check "wrong usage, not a class that is absent: $words" status_is 2
    check "said once: $words" sh -c "! grep -q '^absent' err && [ \$(grep -c '^kith bench: ' err) -eq 1 ]"
done
mkdir mpirun
printf '#!/bin/sh\necho "$SAYS" >&2\nexit 1\n' >mpirun/mpirun
chmod +x mpirun/mpirun
if has_backend mpi; then
    says() { run env PATH="$PWD/mpirun:$PATH" SAYS="$1" "$kith" bench barrier -n 2 --links --backend mpi; }
    says "mpirun has detected an attempt to run as root."
    check "how root may run mpirun" err_has "as root. OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 allow it)"
    says "$(seq -s ' ' 1000 1100)"
    check "a long reason ends at a word" grep -qE '^absent: mpi \(1000 1001 .* 10[0-9]{2}\.\.\.\)$' err
    check "each way of MPI is a class" err_has "absent: mpi-blocking (1000 1001 "
    says "$(printf '%0600d' 0)"
    check "or where it has none, anywhere" grep -qE '^absent: mpi \(0{200,}\.\.\.\)$' err
    printf '#!/bin/sh\necho "native is $KITH_MPI_NATIVE" >&2\nexit 1\n' >mpirun/mpirun
    says ""
    check "the way that can be cancelled" err_has "absent: mpi (native is auto)"
    check "the way near the raw call" err_has "absent: mpi-blocking (native is blocking)"
fi
check "no temporary file is left" no_folder_is_left

succeeds "$kith" bench all_pairs -n 2 --backend shm --sizes 8 --budget 0.01
check "what is expected of pairs" out_matches '^# shared memory: 1 pair, (median .*; no expectation|none with a reliable median)'

# ---- kith tune ----
fails 2 "give --output FILE" "$kith" tune -n 2
fails 2 "there is no collective 'sum'" "$kith" tune -n 2 --ops sum --output x.json
fails 2 "cannot tell sizes of gather_v apart" "$kith" tune -n 2 --ops gather_v --output x.json
fails 2 "is not the next of at most" "$kith" tune -n 2 --sizes 64,8 --output x.json
fails 1 "shm has collectives of its own" "$kith" tune -n 2 --backend shm --output x.json
fails 1 "one rank has nothing to choose" "$kith" tune --backend shm --output x.json
fails 2 "there is no backend 'nope'" "$kith" tune -n 2 --backend nope --output x.json
check "said once" sh -c "[ \$(grep -c 'no backend' err) -eq 1 ]"
if has_backend ucx; then
    fails 2 "cannot write /dev/full" "$kith" tune -n 2 --backend ucx --ops barrier --budget 0.01 --output /dev/full
    succeeds env -u KITH_HIER "$kith" bench barrier,all_reduce -n 2 --backend ucx --sizes 8 --budget 0.01
    check "shared memory beside it, said once" \
        sh -c "[ \$(grep -c '^# collectives of this group go through shared memory beside ucx; KITH_HIER=off' out) -eq 1 ]"
    succeeds env KITH_HIER=off "$kith" bench all_reduce -n 2 --backend ucx --sizes 8 --budget 0.01
    check "not where it is off" sh -c "! grep -q 'beside ucx' out"
    succeeds "$kith" tune -n 2 --backend ucx --ops barrier,broadcast --sizes 8,4k --budget 0.01 --output table.json
    check "each size" out_matches '^ +4 KiB '
    check "what it promises, or where not" out_matches '(at most 5 % off the best at every size, |% off .*, with a spread of)'
    KITH_ALGO_TABLE=table.json run "$kith" info --json
    check "the library takes the table" out_has '"collective":"broadcast","min_ranks":2,"max_ranks":2'
    check "with the rules that held before behind it" out_has '"collective":"broadcast","min_ranks":0,"max_ranks":8'
fi

# ---- tables out of prices ----
cluster="2 nodes of 4 H100 on NVSwitch, 4 NICs of NDR"
succeeds "$kith" tune -n 8 --predict "$cluster" --ops all_reduce,all_gather --output predicted.json
check "nothing is measured" out_has "Nothing was measured"
KITH_ALGO_TABLE=predicted.json run "$kith" info --json
check "rules for so many ranks over hosts" out_matches '"collective":"all_reduce","min_ranks":8,"max_ranks":8,.*"hosts":"many"'
echo '{"ndr": {"latency_us": 2000}}' >slow.json
succeeds "$kith" tune -n 8 --predict "$cluster" --calibration slow.json --ops all_reduce,all_gather --output slower.json
check "other constants make other rules" test "$(cat predicted.json)" != "$(cat slower.json)"
fails 1 "fewer than 16 ranks" "$kith" tune -n 16 --predict "$cluster" --output x.json
fails 2 "there are no prices of barrier" "$kith" tune -n 8 --predict "$cluster" --ops barrier --output x.json
fails 2 "--predict needs -n N" "$kith" tune --predict "$cluster" --output x.json
fails 2 "--calibration goes with --predict" "$kith" tune -n 2 --calibration slow.json --output x.json
finish
