#!/usr/bin/env bash
# For each subcommand: the long options in its help text, in its manual page and in the shell completions are the same.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
failed=0

fail() {
    echo "FAILED: $*"
    failed=1
}

long_options() {
    grep -oE -- '(^|[^[:alnum:]-])--[a-z][a-z0-9-]+' | grep -oE -- '--[a-z0-9-]+' | sort -u
}

# Options of a manual page are the .It Fl lines: ".It Fl n , Fl Fl ranks Ar N".
page_options() {
    grep -E '^\.It Fl' "$1" | grep -oE 'Fl (Fl |-)[a-z][a-z0-9-]+' | sed -E 's/^Fl (Fl |-)/--/' | sort -u
}

subcommands="$("$KITH_BIN" --help | sed -n '/^Subcommands:/,/^$/p' | awk '/^  [a-z]/ && $1 != "help" { print $1 }')"
[ -n "$subcommands" ] || fail "kith --help lists no subcommands"

for name in $subcommands; do
    page="$KITH_SOURCE_DIR/docs/man/kith-$name.1"
    [ -e "$page" ] || { fail "no manual page for kith $name"; continue; }
    options="$("$KITH_BIN" help "$name" 2>&1 | sed '/^Example:/,$d' | long_options | grep -vxE -- '--(help|usage|version)')"
    difference="$(diff <(printf '%s\n' "$options") <(page_options "$page" | grep -vx -- --help))" ||
        fail "kith $name: help (<) and manual page (>) differ:"$'\n'"$difference"
    for completion in kith.bash _kith; do
        text="$KITH_SOURCE_DIR/docs/completion/$completion"
        grep -qw -- "$name" "$text" || fail "$completion does not know $name"
        for option in $options; do
            grep -qE -- "$option([^a-z0-9-]|\$)" "$text" || fail "$completion does not know kith $name $option"
        done
    done
    grep -q "kith-$name 1" "$KITH_SOURCE_DIR/docs/man/kith.1" || fail "kith.1 does not refer to kith-$name(1)"
done

echo "compared: $(echo $subcommands)"
exit $failed
