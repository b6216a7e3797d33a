#!/usr/bin/env bash
# The tests that tests/topology/README.md names for each kind of trouble are there, and run.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
cd "$KITH_SOURCE_DIR/tests/topology" || exit 1
failed=0
count=0

# "`test_a.c`: `one`, `two`; `test_b.c`: `three`": a file stands before its tests. In brackets are fixtures.
while read -r word; do
    case "$word" in
    *.c) file="$word" ;;
    *)
        count=$((count + 1))
        grep -qE "(cmocka_unit_test[a-z_]*|IN_TREE)\($word[,)]" "$file" 2>/dev/null || {
            echo "FAILED: README.md names $word, which $file does not run"
            failed=1
        }
        ;;
    esac
done < <(sed -n '/^## What went wrong/,$p' README.md | grep -E '^\| [a-zA-Z]' | sed -E 's/.*\|([^|]*)\|$/\1/; s/\([^)]*\)//g' |
    grep -oE '`[a-z_0-9.]+`' | tr -d '`')
while read -r fixture; do
    [ -e "fixtures/matrix/$fixture.want" ] || {
        echo "FAILED: README.md names the fixture $fixture, which is not there"
        failed=1
    }
done < <(sed -n '/^## What went wrong/,$p' README.md | grep -oE '\(`[^)]*`\)' | grep -oE '`[a-z_0-9]+`' | tr -d '`')
[ "$count" -gt 40 ] || { echo "FAILED: found only $count tests"; failed=1; }
echo "$count tests"
exit $failed
