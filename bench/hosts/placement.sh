#!/bin/bash
# A layout that knows the machine against one that does not, on two hosts with a slow link between them: the measured factor
# beside the one that the cost model predicts.
#
#     bench/hosts/placement.sh --build BUILD [-x FACTOR] [--rounds N]
#
# Exit status: 0 within 20 % of the prediction, 1 not, 77 where hosts cannot be made. What is measured: placement.c.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u

folder="$(cd "$(dirname "$0")" && pwd)"
build="" factor=10 rounds=()
while [ $# -gt 0 ]; do
    case "$1" in
    --build) build="${2:-}"; shift; shift || true ;;
    -x) factor="${2:-}"; shift; shift || true ;;
    --rounds) rounds=(--rounds "${2:-}"); shift; shift || true ;;
    *) sed -n '5s/^# *//p' "$0" >&2; exit 2 ;;
    esac
done
[ -x "$build/bin/bench-placement" ] || { echo "placement.sh: $build/bin/bench-placement is missing: cmake --build $build --target bench-placement" >&2; exit 2; }
build="$(cd "$build" && pwd)"
exec bash "$folder/shaped.sh" --build "$build" -x "$factor" -- \
    bash -c 'exec "$0" --link "$KITH_HOSTS_LINK_GBPS" "$@"' "$build/bin/bench-placement" "${rounds[@]}"
