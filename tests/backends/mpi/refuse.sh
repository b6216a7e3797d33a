#!/bin/bash
# refuse.sh - when a module must say no: the other MPI's launcher, no launcher, threads as ranks.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
program=$KITH_BUILD_DIR/bin/tests/mpi_ranks
failures=0

# expect <name> <status> <text> command...
expect()
{
    local name=$1 status=$2 text=$3 out code
    shift 3
    out=$(KITH_STUB_FILE=$(mktemp -u) timeout 50 "$@" 2>&1)
    code=$?
    if [ $code -ne "$status" ] || ! grep -q -- "$text" <<<"$out"; then
        echo "FAILED: $name: status $code (wanted $status), text: $out"
        failures=$((failures + 1))
    fi
}

for variant in openmpi mpich; do
    module=libkith_mpi_$variant.so
    [ -e "$KITH_BUILD_DIR/lib/kith/$module" ] || { echo "SKIPPED: $module was not built"; exit 77; }
    case $variant in
    openmpi) other=mpich name=MPICH options="" ;;
    *) other=openmpi name="Open MPI" options="--allow-run-as-root --oversubscribe" ;;
    esac
    # shellcheck disable=SC2086
    expect "$variant under the launcher of $name" 77 "started by the launcher of $name" \
        mpirun.$other $options -n 1 "$program" $module colls
    expect "$variant without a launcher" 1 "launch(1, &rank, &size) == KITH_OK" "$program" $module colls
    expect "$variant when $name is initialised" 77 "this process runs $name" \
        "$program" $module after:libkith_mpi_$other.so
    expect "$variant after its end" 0 "cannot be started a second time" "$program" $module twice
done
exit $((failures > 0))
