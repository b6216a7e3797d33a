#!/usr/bin/env bash
# The page of kith schedule in a browser: one plan, several side by side, a name out of a file that tries to be markup.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"
. "$here/browser.sh"

succeeds "$kith" schedule --kind 1f1b --ranks 4 --microbatches 8 --cost F=1,B=2 --format html --output "$work/page.html"
check_page 1f1b
succeeds "$kith" schedule --compare gpipe,1f1b,interleaved,zb-h1,zb-v,dualpipe-v --ranks 4 --microbatches 10 \
    --format html --output "$work/page.html"
check_page comparison
for kind in gpipe 1f1b interleaved zb-h1 zb-v dualpipe-v; do
    check "comparison: has $kind" grep -q ">$kind<" "$work/page.html"
done
file="$work/<img src=x onerror=owned()>.csv"
printf '0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n' >"$file"
succeeds "$kith" schedule --import "$file" --format html --output "$work/page.html"
check_page hostile
finish
