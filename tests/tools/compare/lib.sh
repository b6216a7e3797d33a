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

# peers FILE: a run of the harness with peers. At 8 B the cores moved; at 1 MiB bf16 stands beside its own peer alone.
make_peers() {
    cat >"$1" <<'JSON'
{"format": "kith-bench-peers-1", "machine": {"processor": "EPYC 9354, 32 CPUs"}, "rows": [
 {"driver": "kith-shm", "variant": "ordinary", "op": "all_reduce", "dtype": "f32", "ranks": 2, "nbytes": 8, "mode": "cold", "round": 0,
  "iterations": 100, "p10_us": 1, "median_us": 1, "p90_us": 1, "flag_before_ns": 90, "flag_after_ns": 95, "is_right": true},
 {"driver": "openmpi", "variant": "raw", "op": "all_reduce", "dtype": "f32", "ranks": 2, "nbytes": 8, "mode": "cold", "round": 0,
  "iterations": 100, "p10_us": 2, "median_us": 2, "p90_us": 2, "flag_before_ns": 90, "flag_after_ns": 300, "is_right": true},
 {"driver": "mpich", "variant": "raw", "op": "all_reduce", "dtype": "f32", "ranks": 2, "nbytes": 8, "mode": "cold", "round": 0,
  "iterations": 100, "p10_us": 4, "median_us": 4, "p90_us": 4, "flag_before_ns": 90, "flag_after_ns": 95, "is_right": true}],
 "figures": [
 {"section": "2 ranks", "op": "all_reduce", "nbytes": 1048576, "mode": "cold", "latency_class": "near",
  "us": {"kith-shm/ordinary": 100, "kith-shm-bf16/ordinary": 80, "openmpi/raw": 400, "mpich/raw": 900, "mpich5-bf16/raw": 20}},
 {"section": "2 ranks", "op": "all_reduce", "nbytes": 8, "mode": "cold", "latency_class": "far",
  "us": {"kith-shm/ordinary": 1, "openmpi/raw": 9, "mpich/raw": 4, "floors/flags": 0.25}},
 {"section": "mpi pair", "op": "all_reduce", "nbytes": 8, "mode": "cold", "latency_class": "far",
  "us": {"pair-openmpi/raw": 1, "pair-openmpi/ordinary": 2}}]}
JSON
}
