#!/usr/bin/env bash
# tests/gpu/run.sh on the simulated GPU, all of it with tiny sizes: each part has its rows in the table, or one that says
# why it has none.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
folder="$(mktemp -d)" || exit 1
trap 'rm -rf "$folder"' EXIT
table="$folder/gpu.md" failed=0
"$KITH_SOURCE_DIR/tests/gpu/run.sh" --simulated --no-build --build "$KITH_BUILD_DIR" --tests '^layer_linear_cuda_1$' \
    --out "$table" >"$folder/said" 2>&1
status=$?
[ $status -eq 0 ] || { echo "FAILED: exit status $status"; cat "$folder/said"; failed=1; }

# An empty column is two spaces here, as in the patterns.
sed -e 's/| |/|  |/g' -e 's/| |/|  |/g' "$table" >"$folder/rows"

# rows <least number> <part> <what> <measured> <beside> <share>: patterns of the five columns
rows() {
    local least="$1" found
    found=$(grep -cE "^\| $2 \| ($3) \| ($4) \| ($5) \| ($6) \|$" "$folder/rows")
    [ "$found" -ge "$least" ] || { echo "FAILED: $found rows instead of $least for: $*"; failed=1; }
}

# rows_or_reason <backend> <part> <what> <measured> <beside> <share>
rows_or_reason() {
    local step="$1, 2 ranks a GPU"
    shift
    grep -qE "^\| $step \| left out \|  \|  \| [^|]{10,} \|$" "$folder/rows" || rows 3 "$@"
}

head -n 1 "$table" | grep -qE '^simulated, times mean nothing, on [0-9]{4}-[0-9]{2}-[0-9]{2}, ' ||
    { echo "FAILED: the first line is: $(head -n 1 "$table")"; failed=1; }
rows 1 card 'Simulated GPU' '2 of it, sm_90, .*' 'driver for CUDA .*, runtime .*, NCCL .*' ''
rows 1 card 'copies on the card' '[0-9]+ GB/s' '.*' ''
rows 1 tests 'programs of the label gpu' '1 passed' '.*' right
time='[0-9.]+ [mu]?s' size='all_reduce, f32, [0-9]+ [KM]?i?B' gbps='[0-9]+ GB/s' share='[0-9.]+ %' rate='[0-9.]+ TFLOP/s'
for dtype in f32 bf16; do
    rows 1 "device = host, $dtype" '3[0-9] functions' 'equal bits in .*' '.*' right
    rows 1 'kith train' "model tiny-llama .* dtype $dtype" 'loss .* tokens/s' 'host, f32: loss .* tokens/s' right
    rows 30 "kernels, $dtype" '[a-z_]+' "$gbps" "copy $gbps" "$share"
    rows 4 "products, $dtype" '\[.*\] x \[.*' "$rate" "cuBLAS $rate" "$share"
    rows 2 "products, $dtype" 'attention, .*|its gradients' "$rate" "$time" ''
done
rows 4 'products, tf32' '\[.*\] x \[.*' "$rate" "cuBLAS $rate" "$share"
rows 1 'kith train' 'model tiny-llama .* ranks 2 tp 2 dtype f32' 'loss .*' 'host, f32: loss .*' right
rows 1 'kith train' 'model tiny-gpt2 .* dtype bf16' 'loss .*' 'first loss .*' right
more='[-+][0-9.]+ us( \(over 1 us\))?, [-+][0-9.]+ %( \(over 1 %\))?'
rows 3 'nccl, 1 rank on 1 GPU' "$size" "host $time, total $time" "NCCL $time, $time" "$more"
rows 3 'nccl, 2 ranks on 2 GPUs' "$size" "host $time, total $time" "NCCL $time, $time" "$more"
rows 1 'nccl, 2 ranks a GPU' 'left out' '' '' 'NCCL 2\.[0-9]+: 2\.30 and later can'
for backend in shm ucx mpi; do
    rows_or_reason $backend "$backend, staged, 2 ranks" "$size" "$time, [0-9.]+ GB/s" "host memory $time" '[0-9.]+ x'
done
if grep -E '\| (FAILED|not run) \|' "$table"; then
    failed=1
fi
[ $failed -eq 0 ] || cat "$table"
exit $failed
