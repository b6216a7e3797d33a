#!/usr/bin/env bash
# kith_gpu_bench on a simulated GPU that fails: a sentence and exit status 1, and no row that is not so.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
bench="$KITH_BUILD_DIR/bin/kith_gpu_bench"
failed=0

# expect <wanted status> <words> <environment and command...>
expect() {
    local wanted="$1" words="$2" said status
    shift 2
    said="$(env "$@" 2>&1)"
    status=$?
    if [ $status -ne "$wanted" ] || ! grep -q -- "$words" <<<"$said"; then
        printf 'FAILED: %s: wanted status %d with "%s", got %d and:\n%s\n' "$*" "$wanted" "$words" $status "$said"
        failed=1
    fi
}

expect 0 $'^card\tcopies on the card\t' "$bench" --quick card
expect 0 $'^card\tcopies on the card\t' PATH="$KITH_BUILD_DIR/bin:$PATH" kith_gpu_bench --quick card
expect 1 'kith_gpu_bench: memory of the card: ' KITH_SIMGPU_FAULT=malloc:1 "$bench" --quick card
expect 1 'kith_gpu_bench: ' KITH_SIMGPU_FAULT=launch:40 "$bench" --quick kernels
expect 1 'kith_gpu_bench: ' KITH_CUBLAS_LIBRARY=/nowhere/libcublas.so "$bench" --quick products
expect 1 'kith_gpu_bench: the card: ' KITH_CUDART_LIBRARY=/nowhere/libcudart.so "$bench" --quick card
expect 77 'kith_gpu_bench: the host cannot compute: ' KITH_BLAS_LIBRARY=/nowhere/libblas.so "$bench" --quick check
expect 2 'usage: ' "$bench" --quick nothing
exit $failed
