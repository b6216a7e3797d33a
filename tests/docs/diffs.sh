#!/usr/bin/env bash
# Fenced blocks after a line <!-- diff: A B --> are what `diff -U2 A B` says of two files of the tree, without its first two
# lines and without spaces at the end of a line.
#
#     diffs.sh            compares
#     diffs.sh --write    puts the differences of today into the pages
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
cd "$KITH_SOURCE_DIR" || exit 1
failed=0 blocks=0

# page <file>: the page with today's differences in its blocks
page() {
    local line old new is_inside=0
    while IFS= read -r line; do
        if [[ $line =~ ^'<!-- diff: '([^ ]+)' '([^ ]+)' -->'$ ]]; then
            old="${BASH_REMATCH[1]}" new="${BASH_REMATCH[2]}"
            printf '%s\n```diff\n' "$line"
            diff -U2 "$old" "$new" | tail -n +3 | sed 's/ *$//'
            printf '```\n'
            is_inside=1
        elif [ $is_inside -eq 1 ]; then
            [[ $line == '```' ]] && is_inside=0
        else
            printf '%s\n' "$line"
        fi
    done <"$1"
}

while IFS= read -r file; do
    blocks=$((blocks + $(grep -c '^<!-- diff: ' "$file")))
    if [ "${1:-}" = --write ]; then
        page "$file" >"$file.new" && mv "$file.new" "$file"
    elif ! page "$file" | cmp -s - "$file"; then
        echo "FAILED: $file shows another difference than there is; tests/docs/diffs.sh --write mends it:"
        page "$file" | diff "$file" - | head -n 20
        failed=1
    fi
done < <(grep -rlE '^<!-- diff: ' docs --include='*.md')

echo "$blocks differences checked"
[ "$blocks" -gt 0 ] && [ $failed -eq 0 ]
