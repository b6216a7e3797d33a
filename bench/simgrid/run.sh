#!/usr/bin/env bash
# Compares what topology/cost.c predicts with what SimGrid simulates, and writes the tables as Markdown.
#
#     bench/simgrid/run.sh --build DIR            everything (about 5 minutes), tables on standard output
#     bench/simgrid/run.sh --build DIR --short    2 nodes and the placements, seconds; status 1 when something is off
#     bench/simgrid/run.sh --build DIR --only 8   one part: 2, 8, 64, steps, steps-leaf
#
# DIR is a build without sanitizers in which kith_internal was built. Status 77: smpicc or smpirun is missing (Debian:
# libsimgrid-dev). Off: a prediction of a collective that is not within 15 %, or placements that rank differently.
#
# The simulation has the links of Kith's model and nothing else: no protocol corrections, no cost of computing, full
# duplex, every message with rendezvous (as RDMA transports do from some 10 KiB on).
#
# SPDX-License-Identifier: BSD-3-Clause
set -euo pipefail

root="$(cd "$(dirname "$0")/../.." && pwd)"
build="" parts="2 8 64 steps steps-leaf" short=""
while [ $# -gt 0 ]; do
    case "$1" in
    --build) build="$2"; shift 2 ;;
    --only) parts="$2"; shift 2 ;;
    --short) short="--short"; parts="2 steps steps-leaf"; shift ;;
    *) echo "run.sh: unknown argument '$1'" >&2; exit 2 ;;
    esac
done
for program in smpicc smpirun python3; do
    command -v "$program" >/dev/null || { echo "skipped: $program is missing"; exit 77; }
done
library="$build/lib/libkith_internal.a"
[ -f "$library" ] || { echo "run.sh: $library is missing: cmake --build $build --target kith_internal" >&2; exit 2; }
if nm "$library" 2>/dev/null | grep -c "__[atu]*san_" >/dev/null; then # -c reads to the end, so nm is not cut off
    echo "skipped: SimGrid cannot run code that was built with sanitizers"
    exit 77
fi

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
programs="$root/tests/topology/simgrid" # they look inside the library
sources=("$programs/cases.c" "$root/tests/topology/machine.c")
flags=(-O2 -std=gnu11 "-I$root" "-I$root/include")
libraries=("$library" -lm -ldl -lpthread)
grep -q hwloc <(nm -u "$library" 2>/dev/null) && libraries+=(-lhwloc)
"${CC:-cc}" "${flags[@]}" "$programs/predict.c" "${sources[@]}" "${libraries[@]}" -o "$work/predict"
smpicc "${flags[@]}" "$programs/ranks.c" "${sources[@]}" "${libraries[@]}" -o "$work/ranks"

settings=(--cfg=network/model:CM02 --cfg=network/TCP-gamma:1e18 --cfg=network/crosstraffic:0
    --cfg=network/latency-factor:1 --cfg=network/bandwidth-factor:1 --cfg=smpi/bw-factor:0:1 --cfg=smpi/lat-factor:0:1
    --cfg=smpi/simulate-computation:no --cfg=smpi/wtime:0 --cfg=smpi/send-is-detached-thresh:0
    --cfg=smpi/async-small-thresh:0 --cfg=surf/precision:1e-9 --log=root.threshold:warning)

simulate() { # CASES: NAME SECONDS of each
    "$work/predict" platform "$1" >"$work/platform.xml"
    "$work/predict" hosts "$1" >"$work/hosts"
    smpirun -no-privatize -np "$(wc -l <"$work/hosts")" -platform "$work/platform.xml" -hostfile "$work/hosts" \
        "${settings[@]}" "$work/ranks" "$1" 2>"$work/log" || { cat "$work/log" >&2; return 1; }
}

status=0
for part in $parts; do
    python3 "$root/bench/simgrid/cases.py" "$part" $short >"$work/cases"
    "$work/predict" times "$work/cases" >"$work/predicted"
    simulate "$work/cases" >"$work/simulated"
    python3 "$root/bench/simgrid/table.py" "$part" "$work/predicted" "$work/simulated" || status=1
done
exit $status
