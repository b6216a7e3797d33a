# tests/tools/train/lib.sh - what the scripts about training runs share. Sourced, not run.
#
# train LOG RANKS OPTIONS... runs `kith train` on a text of this tree and leaves its JSON log; losses LOG prints them,
# one a line, the validation loss last.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/../lib.sh"
text=$KITH_SOURCE_DIR/ARCHITECTURE.md
tiny=(--text "$text" --seq 16 --threads 1 --validation-batches 1)

train() {
    local log=$1 ranks=$2
    shift 2
    [ "$ranks" -gt 1 ] && set -- -n "$ranks" "$@"
    run "$kith" train "${tiny[@]}" --timeout 60 "$@" --json-log "$log"
}

losses() {
    sed -n 's/^{"step": [0-9]*, "loss": \([^,]*\),.*/\1/p' "$1"
    sed -n 's/.*"val_loss": \([^,}]*\).*/\1/p' "$1" | tail -n 1
}

hash_of() { sed -n 's/.*"hash": "\([0-9a-f]*\)".*/\1/p' "$1"; }

# agree WANTED GOT TOLERANCE: files of losses, as many, each within a relative tolerance. Says where they differ most.
agree() {
    awk -v tolerance="$3" -v name="$2" '
        NR == FNR { wanted[FNR] = $1; count = FNR; next }
        { difference = ($1 - wanted[FNR]) / wanted[FNR]
          if (difference < 0) difference = -difference
          if (!(difference <= worst)) { worst = difference; at = FNR; got = $1 }
          rows = FNR }
        END { if (rows == count && count > 0 && worst <= tolerance) exit 0
              printf "%s: %d losses, wanted %d; number %d is %.17g, wanted %.17g, off by %.2g\n",
                     name, rows, count, at, got, wanted[at], worst
              exit 1 }' "$1" "$2"
}
