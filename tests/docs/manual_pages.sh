#!/usr/bin/env bash
# Manual pages: mandoc finds nothing to complain about; every function a page names is declared in the headers, and every
# public function is named by some page.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
man="$KITH_SOURCE_DIR/docs/man"
failed=0

fail() {
    echo "FAILED: $*"
    failed=1
}

names_in_pages="$(sed -nE 's/^\.Fo (kith_[a-z0-9_]+)$/\1/p' "$man"/*.3 | sort -u)"
# What the headers declare: KITH_API, a type, the name, a parenthesis (on that line or the next).
declared="$(cat "$KITH_SOURCE_DIR"/include/kith/*.h | grep -E '^KITH_API' | grep -oE 'kith_[a-z0-9_]+\(' | tr -d '(' | sort -u)"
[ -n "$declared" ] || fail "found no declarations"
difference="$(diff <(printf '%s\n' "$declared") <(printf '%s\n' "$names_in_pages"))" ||
    fail "functions of the headers (<) and of the section 3 pages (>) differ:"$'\n'"$difference"

# References between pages lead somewhere: to a file, or to a function that a page of section 3 names.
while read -r name section; do
    [ -e "$man/$name.$section" ] || grep -qx ".Nm $name\( ,\)\?" "$man"/*."$section" || fail "a page refers to $name($section), which does not exist"
done < <(sed -nE 's/^\.Xr (kith[a-z0-9_-]*) ([0-9]).*/\1 \2/p' "$man"/*.[137] | sort -u)

if ! command -v mandoc >/dev/null 2>&1; then
    [ $failed -eq 0 ] || exit 1
    echo "skipped: mandoc is not installed (Debian package mandoc)"
    exit 77
fi
# STYLE messages about where the system keeps its other pages say nothing about ours.
complaints="$(mandoc -T lint -W warning "$man"/*.[137] 2>&1)" || fail "mandoc -T lint:"$'\n'"$complaints"

echo "$(ls "$man"/*.[137] | wc -l) pages, $(wc -l <<<"$declared") functions"
exit $failed
