#!/usr/bin/env bash
# The picture of the documents is what the command draws.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
drawn="$("$KITH_BIN" topo --tp 2 --format svg "8 V100 in a cube mesh, 4 NICs")" || exit 1
if [ "$drawn" != "$(cat "$KITH_SOURCE_DIR/docs/topology.svg")" ]; then
    echo "FAILED: docs/topology.svg is not what kith topo --tp 2 --format svg \"8 V100 in a cube mesh, 4 NICs\" draws"
    exit 1
fi
