# tests/tools/compare/lib.sh - made-up result files for the tests of kith compare. Sourced after ../lib.sh, not run.
#
# SPDX-License-Identifier: BSD-3-Clause
if [ "${HAS_JANSSON:-1}" != 1 ]; then
    fails 2 "this kith was built without jansson" "$kith" compare x.json
    echo "SKIPPED: jansson is missing"
    [ "$failures" -eq 0 ] && exit 77
    finish
fi

# results FILE NAME=VALUE...: see results.awk
results() {
    local file=$1 assignment settings=()
    shift
    for assignment in "$@"; do
        settings+=(-v "$assignment")
    done
    awk -f "$here/compare/results.awk" "${settings[@]}" >"$file"
}

# node, later, gpu: a machine, the same another day and 8 % slower, one with GPUs
node_series="shm auto 0.4 11;ucx tcp 14 1.1;ucx cma 1.2 6"
make_machines() {
    results node.json "series=$node_series" ops=all_reduce,all_gather,barrier "unreliable=ucx 4096" pairs=1048576 ranks=2,8
    results later.json "series=$node_series" ops=all_reduce,all_gather,barrier slower=1.08 seed=99 version=0.2.0 \
        date=2026-12-04T08:00:00Z ranks=2,8
    results gpu.json "series=shm auto 0.5 10;nccl nvlink 6 320;nccl pcie 7 21" ops=all_reduce,broadcast \
        "machine=Xeon 8480+" 'gpus="H100 SXM", "H100 SXM"' seed=7 sizes=8,512,4096,1048576,16777216 pairs=1048576 ranks=2,8
}
