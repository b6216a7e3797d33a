#!/usr/bin/env bash
# kith schedule from outside: names that scripts rely on, forms, refusals.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1
command -v python3 >/dev/null || { echo "SKIPPED: python3 is not installed"; exit 77; }

# json EXPRESSION WANTED: of the object d on standard output
json() {
    local got
    got=$(python3 -c "import json,sys; d=json.load(open('$work/out')); print(($1))" 2>&1)
    checks=$((checks + 1))
    [ "$got" = "$2" ] || {
        failures=$((failures + 1))
        echo "FAILED: $1: wanted $2, got $got"
    }
}

schedule() {
    succeeds "$kith" schedule "$@"
}

# ---- figures ----
schedule --kind 1f1b --ranks 4 --microbatches 8 --cost F=1,B=2 --format json
json "d['in_flight']" "[4, 3, 2, 1]"
json "d['bubble']['makespan'], d['makespan']" "(9, 33)"
json "len(d['bubble']['span'])" 4
json "d['actions'][3][:4]" "['3F0', '3B0', '3F1', '3B1']"
schedule --kind 1f1b --ranks 4 --microbatches 2 --format json
json "d['in_flight']" "[2, 2, 2, 1]"
schedule --kind gpipe --ranks 4 --microbatches 8 --cost F=1,B=2 --format json
json "d['in_flight'], d['bubble']['makespan']" "([8, 8, 8, 8], 9)"
json "d['actions'][0][-1], d['actions'][0][8]" "('0B0', '0B7')"
schedule --kind gpipe --fifo --ranks 4 --microbatches 8 --format json
json "d['actions'][0][-1], d['actions'][0][8]" "('0B7', '0B0')"
schedule --kind naive --ranks 4 --microbatches 8 --cost F=1,B=2 --format json
json "d['in_flight'], d['bubble']['makespan']" "([1, 1, 1, 1], 72)"
schedule --kind interleaved --ranks 4 --microbatches 8 --chunks 2 --cost F=1,B=2 --format json
json "d['in_flight'], d['bubble']['makespan']" "([11, 9, 7, 5], 9)"
schedule --kind zb-h1 --ranks 4 --microbatches 8 --costs F=10,I=12,W=8 --format json
json "d['bubble']['makespan']" 42
schedule --kind zb-h2 --ranks 4 --microbatches 12 --cost F=10,I=12,W=8 --format json
json "d['bubble']['span'][0], d['bubble']['makespan']" "(18, 30)"
schedule --kind zb-v --ranks 4 --microbatches 8 --format json
json "d['in_flight'], d['bubble']['span']" "([8, 8, 8, 8], [0, 0, 0, 0])"
schedule --kind dualpipe-v --ranks 4 --microbatches 10 --cost F=1,B=2,FB=3 --format json
json "d['bubble']['makespan'], max(d['in_flight'])" "(6, 9)"
for kind in $("$kith" schedule --list); do
    for format in text json csv csv-comms trace svg; do
        schedule --kind "$kind" --ranks 3 --microbatches 6 --check --format $format --output "$work/$kind.$format"
        check "$kind $format: something is written" test -s "$work/$kind.$format"
    done
    schedule --import "$work/$kind.csv" --check --format csv --output "$work/again.csv"
    check "$kind: the file comes back" cmp -s "$work/$kind.csv" "$work/again.csv"
    schedule --import "$work/$kind.csv-comms" --check --format csv-comms --output "$work/again.csv"
    check "$kind: the file with messages comes back" cmp -s "$work/$kind.csv-comms" "$work/again.csv"
    schedule --kind "$kind" --ranks 2 --microbatches 4 --forward-only --check
done
python3 - "$work" <<'END' >"$work/out" 2>"$work/err"
import glob, json, sys, xml.dom.minidom
for kind in ("json", "trace"):
    for name in glob.glob(sys.argv[1] + "/*." + kind):
        json.load(open(name))
for name in glob.glob(sys.argv[1] + "/*.svg"):
    xml.dom.minidom.parse(name)
END
check "JSON, traces and pictures are well-formed" test $? -eq 0

# ---- text ----
schedule --kind 1f1b --ranks 2 --microbatches 3 --ascii
check "plain where no terminal is" sh -c "! LC_ALL=C grep -q '[^ -~]' '$work/out'"
schedule --kind 1f1b --ranks 2 --microbatches 3 --color always
check "colours when asked for" grep -q "$(printf '\033')" "$work/out"
schedule --compare naive,gpipe,1f1b --ranks 4 --microbatches 8 --format json
json "[s['kind'] for s in d['schedules']]" "['naive', 'gpipe', '1f1b']"
schedule --kind 1f1b --ranks 2 --microbatches 2 --lowered --tied --recompute --format json
json "'0REDUCE_TIED' in d['actions'][0] and '0RECOMPUTE1' in d['actions'][0]" True
schedule --kind 1f1b --ranks 4 --microbatches 8 --format deepspeed
check "a listing of DeepSpeed" out_has "[RecvActivation(buffer_id=0), ForwardPass(buffer_id=0)]"
schedule --kind naive --ranks 4 --microbatches 8 --format shallowspeed
check "a listing of shallowspeed" out_has "BackwardGradAllReduce(buffer_id=0, mubatch_id=7)"
printf 'stage,F,I,W\n0,1,1,1\n1,2,2,2\n' >profile.csv
schedule --kind zb-h1 --ranks 2 --microbatches 4 --profile profile.csv --format json
json "d['busy']" "[12, 24]"
if [ "${HAS_CAIRO:-0}" = 1 ]; then
    schedule --kind 1f1b --ranks 2 --microbatches 2 --format png --output p.png
    check "a PNG" test "$(head -c 4 p.png | tail -c 3)" = PNG
    schedule --kind 1f1b --ranks 2 --microbatches 2 --format pdf --output p.pdf
    check "a PDF" test "$(head -c 5 p.pdf)" = %PDF-
fi

# ---- refusals ----
printf '0F1,0B0,0F2,0B1,0F3,0B2,0F4,0B3\n' >bad.csv
fails 1 "0F0 is missing" "$kith" schedule --import bad.csv
printf '0F0,0FOO\n' >bad.csv
fails 2 "bad.csv:1:6" "$kith" schedule --import bad.csv
fails 2 "No such file" "$kith" schedule --import nowhere.csv
fails 2 "valid are naive" "$kith" schedule --kind zbx --ranks 2 --microbatches 2
fails 2 "both are needed" "$kith" schedule --kind 1f1b --ranks 2
fails 2 "a pipeline of 0 ranks: valid are 1 to 4096" "$kith" schedule --kind 1f1b --ranks 0 --microbatches 2
fails 2 "valid are 1 to" "$kith" schedule --kind 1f1b --ranks 2 --microbatches -1
fails 2 "whole number" "$kith" schedule --kind 1f1b --ranks 2x --microbatches 2
fails 2 "of at least 1" "$kith" schedule --kind interleaved --ranks 2 --microbatches 2 --chunks 0
fails 2 "a pipeline of 2147483647 ranks" "$kith" schedule --kind 1f1b --ranks 99999999999 --microbatches 2
fails 2 "valid are 1 to" "$kith" schedule --kind 1f1b --ranks 100000 --microbatches 2
fails 2 "it has 1" "$kith" schedule --kind 1f1b --ranks 2 --microbatches 2 --chunks 2
fails 2 "group" "$kith" schedule --kind interleaved --ranks 4 --microbatches 8 --group-size 2
fails 2 "Q" "$kith" schedule --kind 1f1b --ranks 2 --microbatches 2 --cost Q=1
for words in "" , gpipe, ,gpipe gpipe,,1f1b; do
    fails 2 "--compare" "$kith" schedule --compare "$words" --ranks 2 --microbatches 2
done
fails 2 "there has to be the name of a kind before and after each comma" \
    "$kith" schedule --compare gpipe,,1f1b --ranks 2 --microbatches 2
for word in nan inf 0x10 1e999 1,5 "" " 4" -4 0; do
    fails 2 "--memory-bound $word: it must be a number above 0" \
        "$kith" schedule --kind auto --ranks 2 --microbatches 2 --memory-bound "$word"
done
fails 2 "their product is at most 4194304" "$kith" schedule --kind 1f1b --ranks 4096 --microbatches 1048576
fails 2 "a trace of 2100000 actions" "$kith" schedule --kind zb-h1 --ranks 1 --microbatches 700000 --format trace
fails 2 "for one plan" "$kith" schedule --compare 1f1b,gpipe --ranks 2 --microbatches 2 --tied
fails 2 "--fifo is for" "$kith" schedule --kind 1f1b --ranks 2 --microbatches 2 --fifo
fails 2 "--group-size is for" "$kith" schedule --kind 1f1b --ranks 2 --microbatches 2 --group-size 2
fails 2 "--warmup-factor is for" "$kith" schedule --kind interleaved-zb --ranks 2 --microbatches 2 --warmup-factor 2
# options of some kinds beside --compare: for those that know them, and there has to be one
compared() {
    local wanted=$1 kinds=$2
    shift 2
    fails 2 "$wanted" "$kith" schedule --compare "$kinds" --ranks 2 --microbatches 4 "$@"
}
compared "1f1b with 2 chunks a rank: it has 1" 1f1b,gpipe --chunks 2
compared "zb-v with 3 chunks a rank: it has 2" zb-v,1f1b --chunks 3
compared "1f1b with 2 chunks a rank: it has 1" zb-v,1f1b --chunks 2
compared "valid are" interleaved,1f1b --chunks 70000
compared "--group-size is for" 1f1b,gpipe --group-size 4
compared "interleaved" interleaved,1f1b --group-size 1
compared "--warmup-factor is for" interleaved-zb,1f1b --warmup-factor 1
compared "--fifo is for" zb-h1,1f1b --fifo
compared "--memory-bound is for" zb-h1,1f1b --memory-bound 4
schedule --compare interleaved,1f1b --ranks 2 --microbatches 4 --chunks 4 --format json
json "[s['chunks'] for s in d['schedules']]" "[4, 1]"
schedule --compare zb-v,dualpipe-v --ranks 2 --microbatches 4 --chunks 2
schedule --compare 1f1b,interleaved --ranks 2 --microbatches 4 --group-size 2 --warmup-factor 1
schedule --compare auto,1f1b --ranks 2 --microbatches 4 --memory-bound 2

# one of each
schedule --kind 1f1b --ranks 1 --microbatches 1
check "one stage, one microbatch" out_has "1 stage, 1 microbatch"
for format in trace svg html deepspeed; do
    schedule --kind 1f1b --ranks 1 --microbatches 1 --format $format
    check "$format: one of something is not many" \
        sh -c "! grep -qE '(^|[^0-9])1 (ranks|stages|microbatches|buffers|steps)' '$work/out'"
done
printf 'stage,F\n0,1\n1,2\n2,3\n' >three.csv
fails 2 "costs of 3 stages for a plan of 2: it takes the cost of each stage" \
    "$kith" schedule --kind 1f1b --ranks 2 --microbatches 2 --profile three.csv
fails 2 "no place beside it" "$kith" schedule --import bad.csv --chunks 2
fails 2 "from 40 to 4096" "$kith" schedule --kind 1f1b --ranks 2 --microbatches 2 --width 20
KITH_FAULT=alloc:40 fails 2 "no memory" "$kith" schedule --kind 1f1b --ranks 3 --microbatches 4 --check
fails 2 "one of them" "$kith" schedule --kind 1f1b --compare gpipe --ranks 2 --microbatches 2
fails 2 "not one of" "$kith" schedule --kind 1f1b --ranks 2 --microbatches 2 --format bmp
fails 2 "no backward in two parts" "$kith" schedule --kind zb-h1 --ranks 2 --microbatches 2 --format deepspeed
fails 2 "cannot write" "$kith" schedule --kind 1f1b --ranks 2 --microbatches 2 --output /nonexistent/x
[ -e /dev/full ] && fails 2 "cannot write" "$kith" schedule --kind 1f1b --ranks 2 --microbatches 2 --output /dev/full
finish
