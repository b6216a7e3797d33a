#!/bin/bash
# run.sh - the mpi backend under a launcher: run.sh <openmpi|mpich> <ranks> <part> (see mpi_ranks.c)
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
variant=$1 ranks=$2 part=$3
program=$KITH_BUILD_DIR/bin/tests/mpi_ranks
module=libkith_mpi_$variant.so
command -v mpirun.$variant >/dev/null || { echo "SKIPPED: mpirun.$variant is not there"; exit 77; }
KITH_STUB_FILE=$(mktemp) || exit 1
export KITH_STUB_FILE
trap 'rm -f "$KITH_STUB_FILE"' EXIT
# what MPI keeps for itself, and what a cancelled collective leaves with it on purpose
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
case $variant in
openmpi) mpirun.openmpi --allow-run-as-root --oversubscribe -n "$ranks" "$program" "$module" "$part" ;;
*) mpirun.$variant -n "$ranks" "$program" "$module" "$part" ;;
esac
