#!/usr/bin/env bash
# Runs a fuzz target for a number of executions, from a corpus of the project's own fixtures and, where there is one, of
# the folder with recorded machines. No crash, no leak, no input above 20 s, at most 2 GiB.
#
#     fuzz.sh TARGET EXECUTIONS FIXTURES...
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
target="$1" executions="$2"
shift 2
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
mkdir "$work/corpus"
n=0
add() {
    local file
    while IFS= read -r -d '' file; do
        n=$((n + 1))
        cp "$file" "$work/corpus/$n"
    done < <(find "$1" -type f -size -64k -not -name '*.bz2' -print0)
}
for fixtures in "$@"; do [ -d "$fixtures" ] && add "$fixtures"; done
[ -n "${KITH_SHARED_DIR:-}" ] && [ -d "$KITH_SHARED_DIR/topologies" ] && add "$KITH_SHARED_DIR/topologies"
words='4 nodes of 8 H100 on NVSwitch, 8 NICs'
printf '%s' "$words" >"$work/corpus/words"
# Two descriptions together are separated by a form feed, nodes that are chosen follow a second one.
printf 'SwitchName=s Nodes=n[1-3]\n\f%s\fn[1-2]' "$words" >"$work/corpus/tree"
printf '50000000-0000-0000-0000-000000000001, 1\n\f%s' "$words" >"$work/corpus/fabric"
printf '%s\f{"kith_topology": 1, "override": true, "gpus": [{"index": 1, "numa": 1}]}' "$words" >"$work/corpus/override"
# Headers, indices and manifests of checkpoints, by their first byte.
printf '0{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"BF16","shape":[2],"data_offsets":[24,28]}}' \
    >"$work/corpus/header"
printf '1{"metadata":{"total_size":1},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}' >"$work/corpus/index"
printf '2"format": 1,\n"step": 1,\n"optimizer_steps": -1,\n"numbers": {\n"a": {"value": 1, "bits": "3ff0000000000000"}},\n"files": [\n{"name": "x", "nbytes": 1, "crc32": "00000000", "tensors": {\n"a": "00000001"}}\n]}' \
    >"$work/corpus/manifest"
[ "$n" -gt 5 ] || { echo "FAILED: only $n fixtures found"; exit 1; }
cd "$work" || exit 1
"$target" -runs="$executions" -max_len=65536 -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 -seed="${FUZZ_SEED:-1}" \
    corpus >log 2>&1
status=$?
grep -E 'stat::number_of_executed_units|stat::peak_rss_mb|stat::slowest_unit' log
if [ $status -ne 0 ]; then
    tail -n 60 log
    for crash in crash-* leak-* timeout-* oom-*; do
        [ -e "$crash" ] && { echo "input $crash:"; head -c 2000 "$crash" | od -c | head -n 60; cp "$crash" "${TMPDIR:-/tmp}/"; }
    done
    exit 1
fi
echo "$executions executions from $n files"
