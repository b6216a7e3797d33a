#!/usr/bin/env bash
# docs/settings.md is what scripts/write-settings.sh writes. Where a backend module was not built, its section cannot be compared.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
page="$KITH_SOURCE_DIR/docs/settings.md"
written="$(bash "$KITH_SOURCE_DIR/scripts/write-settings.sh" "$KITH_BUILD_DIR")"
rows="$(grep -c '^| `KITH_' <<<"$written")"
[ "$rows" -ge 10 ] || { echo "FAILED: the script found $rows settings"; exit 1; }

# Sections of the page whose owner has no section in what was written now
compared="$(awk 'NR == FNR { if (/^## /) has[$2] = 1; next } /^## / { skip = !($2 in has) } !skip' <(printf '%s\n' "$written") "$page")"
difference="$(diff <(printf '%s\n' "$compared" | sed '/^$/d') <(printf '%s\n' "$written" | sed '/^$/d'))" || {
    echo "FAILED: docs/settings.md (<) is not what scripts/write-settings.sh writes (>):"
    echo "$difference"
    exit 1
}
echo "$rows settings compared"
