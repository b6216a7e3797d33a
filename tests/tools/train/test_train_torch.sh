#!/usr/bin/env bash
# Ten steps of AdamW with warm-up, cosine, decay and clipping equal PyTorch's (golden/make_golden.py): in f64 on one rank, in
# f32 on one and on four, split in every way.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
golden="$KITH_SOURCE_DIR/tests/tools/train/golden"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
failed=0

# compare <model> <relative tolerance> <flags of kith train...>
compare() {
    local model="$1" tolerance="$2"
    shift 2
    "$KITH_BIN" train --model "$golden/$model.json" --text "$golden/text.txt" --seed 3 --seq 16 --global-batch 4 --steps 10 \
        --validation-batches 1 --lr 3e-3 --warmup 3 --decay cosine --min-lr 3e-4 --weight-decay 0.1 --clip 0.5 \
        --json-log "$folder/log" "$@" >"$folder/out" 2>&1 || { echo "FAILED: $model $*"; cat "$folder/out"; failed=1; }
    sed -nE 's/^\{"step": ?([0-9]+), "loss": ?([^,]+), ("val_loss": ?[^,]+, )?"grad_norm": ?([^,]+),.*/\1 \2 \4/p' "$folder/log" >"$folder/got"
    grep "^$model " "$golden/golden.txt" | paste - "$folder/got" | LC_ALL=C awk -v tolerance="$tolerance" -v what="$model $*" '
        function far(a, b) { return (a > b ? a - b : b - a) > tolerance * a }
        $5 != $2 + 1 || far($3, $6) || far($4, $7) {
            printf "FAILED: %s: step %d: wanted loss %s, norm %s; got %s, %s\n", what, $2, $3, $4, $6, $7; wrong = 1 }
        END { exit wrong || NR != 10 }' || failed=1
}

for model in gpt2 llama; do
    rounding=1e-8 # PyTorch clips to bound / (norm + 1e-6); and transformers has llama's angles in f32
    [ $model = llama ] && rounding=1e-5
    compare $model $rounding --dtype f64
    compare $model 1e-4 --dtype f32
    compare $model $rounding --dtype f64 -n 4 --tp 2 --sp --pp 2 --microbatches 2
    compare $model 1e-4 --dtype f32 -n 4 --tp 2 --dp 2 --zero1 --recompute full
    compare $model 1e-4 --dtype f32 -n 2 --pp 2 --schedule zb-h1 --microbatches 4
done
exit $failed
