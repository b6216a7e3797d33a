#!/usr/bin/env bash
# tests/layers/cuda_kernels.sh - looks at what nvcc made of the kernels: no spills, no memory of a thread's own, and
# accesses of 16 bytes in those that memory bounds.
#
# usage: cuda_kernels.sh <folder of the layers' *.ptxas and *.ptx> <folder of those of reductions>
#
# SPDX-License-Identifier: BSD-3-Clause
set -euo pipefail
folder="$1"
failed=0

complain() {
    echo "$1" >&2
    failed=1
}

# ---- ptxas -v: for each kernel a line with its stack frame and spills ----

kernels=0
reports=()
for part in "$@"; do
    reports+=("$part"/*.ptxas)
done
for report in "${reports[@]}"; do
    [ -e "$report" ] || { echo "there is no $report" >&2; exit 1; }
    while read -r line; do
        kernels=$((kernels + 1))
        case "$line" in
            *" 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"*) ;;
            *) complain "$(basename "$report" .ptxas).cu: wanted no stack frame and no spills, got:$line" ;;
        esac
    done < <(awk '/Compiling entry function/ { name = $0 } /bytes stack frame/ { print name " -", " " $0 }' "$report" |
             sed 's/.*entry function .\([a-z0-9_]*\). for .\(sm_[0-9a-z]*\). - / \1 \2:/')
done
[ "$kernels" -ge 100 ] || complain "wanted a report on every kernel, got $kernels"

# ---- PTX: loads and stores of global memory in 16 bytes ----

# body <file> <kernel>
body() {
    awk -v name="$2(" 'index($0, ".entry " name) { inside = 1 } inside { print } inside && /^}/ { exit }' \
        "$folder/$1.ptx"
}

# wide <file> <kernel> <load|store>...
wide() {
    local file="$1" kernel="$2" what pattern text
    text="$(body "$file" "$kernel")"
    [ -n "$text" ] || { complain "$file.ptx: wanted kernel $kernel, got none"; return; }
    shift 2
    for what in "$@"; do
        pattern='st\.global\.(v4\.(b|u|f)32|v2\.(b|u|f)64)'
        [ "$what" = load ] && pattern='ld\.global(\.nc)?\.(v4\.(b|u|f)32|v2\.(b|u|f)64)'
        grep -qE "$pattern" <<< "$text" || complain "$file.cu: wanted a 16-byte $what in $kernel, got none"
    done
    ! grep -qE '(ld|st)\.local|\.local ' <<< "$text" || complain "$file.cu: $kernel uses local memory"
}

for type in f32 f64 bf16 f16; do
    wide elements "ki_fill_$type" store
    for kernel in scale bias_add group_sums; do
        wide elements "ki_${kernel}_$type" load store
    done
    for kernel in activation activation_grad gated gated_grad dropout; do
        wide activation "ki_${kernel}_$type" load store
    done
    for kernel in norm norm_grad norm_sums; do
        wide norm "ki_${kernel}_$type" load store
    done
    for kernel in loss_grad softmax softmax_grad; do
        wide loss "ki_${kernel}_$type" load store
    done
    wide loss "ki_loss_sums_$type" load
    wide loss "ki_row_max_$type" load
    wide rows "ki_pick_$type" load store
    wide rows "ki_row_dots_$type" load
    wide parameters "ki_adamw_$type" load store
    wide parameters "ki_sgd_$type" load store
    wide parameters "ki_sum_$type" load
    wide parameters "ki_normal_$type" store
    for kernel in attend attend_grad rotary; do
        wide attention "ki_${kernel}_$type" load store
    done
done
for pair in f32_f32 f64_f64 bf16_bf16 f16_f16 bf16_f32 f32_bf16 f16_f32 f32_f16; do
    wide elements "ki_add_$pair" load store
    wide elements "ki_copy_$pair" load store
    wide rows "ki_add_rows_$pair" load store
done

folder="$2"
for type in int8 uint8 int16 uint16 int32 uint32 int64 uint64 f16 bf16 f32 f64 f8e4m3 f8e5m2; do
    wide reduce "ki_reduce_$type" load store
done

[ "$failed" = 0 ] && echo "$kernels kernels: no spills, no stack; accesses are wide"
exit "$failed"
