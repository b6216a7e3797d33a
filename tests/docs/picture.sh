#!/usr/bin/env bash
# The pictures of the documents are what the command draws.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
failed=0

# compare FILE COMMAND...
compare() {
    local file=$1
    shift
    [ "$("$KITH_BIN" "$@")" = "$(cat "$KITH_SOURCE_DIR/docs/$file")" ] && return
    echo "FAILED: docs/$file is not what kith $* draws"
    failed=1
}

compare topology.svg topo --tp 2 --format svg "8 V100 in a cube mesh, 4 NICs"
compare schedules.svg schedule --compare 1f1b,interleaved,zb-h1,zb-v --ranks 4 --microbatches 8 --format svg

# Of machines that do not exist, as tests/tools/compare makes them.
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
awk -f "$KITH_SOURCE_DIR/tests/tools/compare/results.awk" -v ops=all_reduce -v ranks=8 -v "series=nccl nvlink 6 320;nccl pcie 7 21;ucx tcp 20 1.3" \
    -v "unreliable=ucx 4096" >"$work/results.json"
if "$KITH_BIN" compare "$work/results.json" --svg "$work" >/dev/null 2>"$work/err"; then
    cmp -s "$work/all_reduce-f32-sum-8-ranks-busbw.svg" "$KITH_SOURCE_DIR/docs/compare.svg" || {
        echo "FAILED: docs/compare.svg is not what kith compare draws"
        failed=1
    }
elif ! grep -q "without jansson" "$work/err"; then
    cat "$work/err"
    failed=1
fi
exit $failed
