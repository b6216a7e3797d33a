#!/usr/bin/env bash
# A short training on the host and on the card, from the same seed; prints a row of the report (bench/gpu/gpu.h).
#
#     train.sh KITH LOG ALLOWED FLAGS... -- FLAGS OF THE CARD...
#
# The host trains in f32. ALLOWED is how far the last losses may lie apart, as a share. "alone": the card trains without
# the host, on the one sample that its text holds: losses of different samples tell nothing of the steps between them,
# that of the same one must fall.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
kith="$1" log="$2" allowed="$3"
shift 3
flags=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    flags+=("$1")
    shift
done
shift

text=ARCHITECTURE.md
if [ "$allowed" = alone ]; then
    seq="$(grep -oE -- '--seq [0-9]+' <<<"${flags[*]}" | grep -oE '[0-9]+$')" || { echo "no --seq is given"; exit 1; }
    head -c $((seq + 1)) "$text" >"$log.txt" || exit 1 # a token is a byte, and what follows the last one is its target
    text="$log.txt"
fi

run() { "$kith" train --text "$text" --validation-batches 0 --seed 1 "${flags[@]}" "$@" >/dev/null; }

# number <log> <key> <head or tail>: of the first or the last step
number() { grep '"step"' "$1" | grep -oE "\"$2\": *[-+0-9.eE]+" | "$3" -n 1 | sed 's/.*: *//'; }

# tell <measured> <beside> <verdict>
tell() {
    printf 'kith train\t%s\t%s\t%s\t%s\n' "$(sed 's/--//g' <<<"${flags[*]} $card_flags")" "$1" "$2" "$3"
    [ "$3" = right ]
}

card_flags="$*"
rm -f "$log.host" "$log.card"
run --device cuda "$@" --json-log "$log.card" || exit 1
card="$(number "$log.card" loss tail)" first="$(number "$log.card" loss head)"
[ -n "$card" ] || { echo "no loss in $log.card"; exit 1; }
card_words="$(printf 'loss %.5f, %.0f tokens/s' "$card" "$(number "$log.card" tokens_per_s tail)")"
if [ "$allowed" = alone ]; then
    tell "$card_words" "$(printf 'first loss %.5f' "$first")" \
        "$(awk -v f="$first" -v c="$card" 'BEGIN { print c < f ? "right" : "WRONG" }')"
    exit
fi
(unset KITH_DEVICE && run --dtype f32 --json-log "$log.host") || exit 1
host="$(number "$log.host" loss tail)"
[ -n "$host" ] || { echo "no loss in $log.host"; exit 1; }
tell "$card_words" "$(printf 'host, f32: loss %.5f, %.0f tokens/s' "$host" "$(number "$log.host" tokens_per_s tail)")" \
    "$(awk -v h="$host" -v c="$card" -v a="$allowed" 'BEGIN { d = (c - h) / h; print (d < 0 ? -d : d) <= a ? "right" : "WRONG" }')"
