#!/usr/bin/env bash
# Compares what topology/cost.c predicts with what SimGrid simulates, and writes the tables as Markdown.
#
#     bench/simgrid/run.sh --build DIR            everything, tables on standard output
#     bench/simgrid/run.sh --build DIR --short    2 nodes, two sizes, and shorter steps: what ctest runs (test_simgrid)
#     bench/simgrid/run.sh --build DIR --only 8   some parts: 2, 8, 64, steps, steps-leaf (in quotes for several)
#     bench/simgrid/run.sh --build DIR --growth   8 to 1,024 ranks instead: time beside what alpha and beta say (minutes)
#
# DIR is a build without sanitizers in which kith_internal was built.
#
# What is checked, each part's result being its last line:
#     2, 8, 64             every prediction of a collective is within 15 % of the simulation
#     steps, steps-leaf    five placements of a TP x DP step rank alike (times within 1 % of each other are a tie)
#     growth               times grow within 10 % of the formulas of growth.py, whose constants come from 8 and 16 ranks
# Status 0: all of it holds. 1: something is off (lines "off: ...") or could not be simulated. 2: wrong usage.
# 77: smpicc, smpirun or python3 is missing (Debian: libsimgrid-dev), or the build has sanitizers.
#
# Simulated ranks run the plans of core/algo with core's executor over backends/mpi, whose sources are compiled against
# SimGrid's MPI. The links are those of Kith's model and nothing else: no protocol corrections, no cost of computing,
# full duplex. Large messages move when both ends are ready; packets, and nothing longer, travel without that.
#
# SPDX-License-Identifier: BSD-3-Clause
set -euo pipefail

root="$(cd "$(dirname "$0")/../.." && pwd)"
build="" parts="2 8 64 steps steps-leaf" short="" growth=""
while [ $# -gt 0 ]; do
    case "$1" in
    --build) build="${2:-}"; shift; shift || true ;;
    --only) parts="${2:-}"; shift; shift || true ;;
    --growth) growth=yes parts="growth-1 growth-2 growth-4 growth-8 growth-16 growth-32 growth-64 growth-128"; shift ;;
    --short) short="--short"; parts="2 steps steps-leaf"; shift ;;
    *) echo "run.sh: unknown argument '$1'" >&2; exit 2 ;;
    esac
done
for part in ${parts:-none}; do
    case "$part" in
    2 | 8 | 64 | steps | steps-leaf | growth-*) ;;
    *) echo "run.sh: no part '$part': 2, 8, 64, steps or steps-leaf" >&2; exit 2 ;;
    esac
done
for program in smpicc smpirun python3; do
    command -v "$program" >/dev/null || { echo "skipped: $program is missing"; exit 77; }
done
library="$build/lib/libkith_internal.a"
[ -f "$library" ] || { echo "run.sh: $library is missing: cmake --build $build --target kith_internal" >&2; exit 2; }
library="$(realpath "$library")"
if nm "$library" 2>/dev/null | grep -c "__[atu]*san_" >/dev/null; then # -c reads to the end, so nm is not cut off
    echo "skipped: SimGrid cannot run code that was built with sanitizers"
    exit 77
fi

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
programs="$root/tests/topology/simgrid" # they look inside the library
flags=(-O2 -std=gnu11 "-I$root" "-I$root/include")
libraries=("$library" -lm -ldl -lpthread)
grep -q hwloc <(nm -u "$library" 2>/dev/null) && libraries+=(-lhwloc)

build_programs() {
    local common=("$programs/cases.c" "$root/tests/topology/machine.c") wraps
    "${CC:-cc}" "${flags[@]}" "$programs/predict.c" "${common[@]}" "${libraries[@]}" -o "$work/predict"
    # SMPI replaces malloc, free and others by macros, which kith_be_host's functions of these names are no match for.
    mkdir "$work/backend"
    (cd "$work/backend" &&
        smpicc "${flags[@]}" -DSMPI_HELPERS_H -c "$root"/backends/mpi/*.c "$root"/backends/message/*.c)
    wraps=MPI_Isend,--wrap=MPI_Irecv,--wrap=MPI_Test,--wrap=MPI_Cancel,--wrap=MPI_Is_thread_main # waits.h
    smpicc "${flags[@]}" "$programs"/{ranks,plans,wires,waits}.c "${common[@]}" "$work"/backend/*.o \
        "-Wl,--wrap=$wraps" "${libraries[@]}" -o "$work/ranks"
}

# The thresholds are just above a packet (48 bytes). SMPI's usual all-gather, which makes groups, takes minutes on 512
# ranks; it is not part of what is measured.
settings=(--cfg=network/model:CM02 --cfg=network/TCP-gamma:1e18 --cfg=network/crosstraffic:0
    --cfg=network/latency-factor:1 --cfg=network/bandwidth-factor:1 --cfg=smpi/bw-factor:0:1 --cfg=smpi/lat-factor:0:1
    --cfg=smpi/simulate-computation:no --cfg=smpi/wtime:0 --cfg=smpi/send-is-detached-thresh:64
    --cfg=smpi/async-small-thresh:64 --cfg=smpi/allgather:bruck --cfg=surf/precision:1e-9
    --log=root.threshold:warning)

simulate() { # CASES: NAME SECONDS of each
    "$work/predict" platform "$1" >"$work/platform.xml"
    "$work/predict" hosts "$1" >"$work/hosts"
    smpirun -no-privatize -np "$(wc -l <"$work/hosts")" -platform "$work/platform.xml" -hostfile "$work/hosts" \
        "${settings[@]}" "$work/ranks" "$1" 2>"$work/log" || { cat "$work/log" >&2; return 1; }
}

build_programs
status=0
for part in $parts; do
    start=$SECONDS
    python3 "$root/bench/simgrid/cases.py" "$part" $short >"$work/cases"
    "$work/predict" times "$work/cases" >"$work/predicted"
    if simulate "$work/cases" >"$work/simulated"; then
        if [ -n "$growth" ]; then
            sed "s/^/${part#growth-} /" "$work/simulated" >>"$work/growth"
            echo "$part: simulated"
            continue
        fi
        python3 "$root/bench/simgrid/table.py" "$part" "$work/predicted" "$work/simulated" || status=1
    else
        echo "off: part $part could not be simulated" >&2
        status=1
    fi
    echo "($((SECONDS - start)) s)"
done
[ -z "$growth" ] || python3 "$root/bench/simgrid/growth.py" "$work/growth" || status=1
exit $status
