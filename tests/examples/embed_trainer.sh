#!/usr/bin/env bash
# The trainer of examples/embed_trainer prints the same losses in plain C and split over ranks, and learns.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
cd "$KITH_SOURCE_DIR" || exit 1
programs="$KITH_BUILD_DIR/bin/examples"
text=ARCHITECTURE.md
failed=0

wanted="$("$programs/embed_plain" "$text")" || exit 1
awk '{ loss = $4 } NR == 1 { first = loss } END { exit !(NR == 7 && loss > 0 && loss < 0.7 * first) }' <<<"$wanted" ||
    { printf 'FAILED: embed_plain has learned little:\n%s\n' "$wanted"; failed=1; }

# The losses of a rank count, which differ by the rounding of sums only.
compare() {
    local program="$1" ranks="$2" got
    got="$("$KITH_BIN" run -n "$ranks" -- "$programs/embed_$program" "$text")" || failed=1
    paste <(echo "$wanted") <(echo "$got") | awk '
        $1 != $5 || $2 != $6 || $8 - $4 > 1e-3 || $4 - $8 > 1e-3 { wrong = 1 }
        END { exit wrong || NR != 7 }' ||
        { printf 'FAILED: embed_%s on %d ranks; wanted\n%s\ngot\n%s\n' "$program" "$ranks" "$wanted" "$got"; failed=1; }
}

for ranks in 1 3 4; do
    compare dp "$ranks"
    compare tp "$ranks"
done
for ranks in 1 2 3 8; do
    compare pp "$ranks"
done
"$programs/embed_plain" /nowhere 2>&1 | grep -q '/nowhere: cannot be read' || { echo "FAILED: no word about a missing text"; failed=1; }
exit $failed
