#!/usr/bin/env bash
# Relative links in the Markdown files lead to files that exist, and every folder of the tree has its README.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
cd "$KITH_SOURCE_DIR" || exit 1
failed=0 links=0

while IFS= read -r file; do
    while IFS= read -r target; do
        target="${target%%#*}"
        case "$target" in '' | http://* | https://* | mailto:*) continue ;; esac
        links=$((links + 1))
        [ -e "$(dirname "$file")/$target" ] || { echo "FAILED: $file links to $target, which does not exist"; failed=1; }
    done < <(sed '/^```/,/^```/d' "$file" | grep -oE '\]\([^) ]+\)|src(set)?="[^"]+"' | sed -E 's/^\]\(|\)$|^src(set)?="|"$//g')
done < <(find . -name '*.md' -not -path './build*' -not -path './.git/*')

# Paths of this tree that ARCHITECTURE.md names in backquotes
while IFS= read -r path; do
    [ -e "$path" ] || { echo "FAILED: ARCHITECTURE.md names $path, which does not exist"; failed=1; }
done < <(grep -oE '`(core|backends|tests|tools|bench|examples|cmake|include)/[A-Za-z0-9_./-]+`' ARCHITECTURE.md | tr -d '`' | sort -u)

for folder in include core backends topology layers schedules tools bench examples tests; do
    [ -e "$folder/README.md" ] || { echo "FAILED: $folder/README.md is missing"; failed=1; }
done

echo "$links links checked"
[ "$links" -gt 10 ] && [ $failed -eq 0 ]
