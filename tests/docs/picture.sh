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
exit $failed
