#!/usr/bin/env bash
# A rank's threads: the same training with one, two and three of them; to the bit where OpenBLAS's loops are those that
# were found to give parts of rows the bits of the whole (docs/layers.md).
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"

while read -r model ranks options; do
    for threads in 1 2 3; do
        # shellcheck disable=SC2086
        train "$work/$threads.log" "$ranks" --model "$model" --seq 64 --global-batch 8 --steps 4 \
            --threads "$threads" $options
        check "$model on $ranks ranks with $threads threads" status_is 0
        losses "$work/$threads.log" >"$work/$threads.losses"
        check "its losses with $threads threads" agree "$work/1.losses" "$work/$threads.losses" 1e-5
        if "$kith" info | grep -qiE 'openblas.*(haswell|zen)'; then
            check "its weights with $threads threads" same "$(hash_of "$work/$threads.log")" "$(hash_of "$work/1.log")"
        fi
    done
done <<'EOF'
tiny-gpt2 1
tiny-llama 1
tiny-llama 2 --tp 2
tiny-llama 4 --dp 2 --tp 2
EOF

finish
