#!/usr/bin/env bash
# The conformance suites of device memory on one device that several ranks share; prints a row of the report
# (bench/gpu/gpu.h).
#
#     suites.sh BUILD BACKEND RANKS DEVICE
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
program="$1/bin/tests/conformance" backend="$2" ranks="$3" start=$SECONDS failed=""
export KITH_TEST_DEVICE="$4"
if [ ! -x "$program" ]; then
    echo "the conformance suites were not built"
    exit 77
fi
for suite in "collectives brief" "messages all" "groups all" "async 50" "determinism any"; do
    read -r name argument <<<"$suite"
    "$program" --suite "$name" --argument "$argument" --backend "$backend" -n "$ranks" --timeout 30 || failed+=" $name"
done
printf 'tests\tsuites over %s, %d ranks on %s\t5 run\t%d s\t%s\n' "$backend" "$ranks" "$KITH_TEST_DEVICE" \
    $((SECONDS - start)) "$([ -z "$failed" ] && echo right || echo "FAILED:$failed")"
[ -z "$failed" ]
