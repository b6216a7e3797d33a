#!/usr/bin/env bash
# Prints docs/settings.md out of what the library itself says about its settings.
#
#     scripts/write-settings.sh [build folder] > docs/settings.md
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
kith="${1:-build/release}/bin/kith"

# owner <tab> name <tab> variable <tab> default <tab> help, in the order of the library. KITH_ variables of the caller would be taken
# for values, so none is passed on.
settings() {
    env -i PATH="$PATH" "$kith" info --json | tr -d '\n' | sed -e 's/.*"config": *\[//' -e 's/\], *"algorithms".*//' -e 's/},{/}\n{/g' |
        sed -nE 's/.*"name":"([^"]*)","env":"([^"]*)".*"default":"(([^"\\]|\\.)*)".*"help":"(([^"\\]|\\.)*)","owner":"([^"]*)".*/\7\t\1\t\2\t\3\t\5/p' |
        sed -E 's/\\(["\\])/\1/g'
}

cat <<'HEAD'
# Settings

Written by `scripts/write-settings.sh`; `kith info --config` prints the same with the values that hold now and who set them.

A setting `name` comes from `kith_init_options.settings`, else from the environment variable `KITH_NAME`, else it is the
default. A variable that begins with `KITH_` and is not in the table is warned about in the log, with the nearest name.
HEAD
settings | awk -F'\t' '
    function cell(text) { gsub(/\|/, "\\|", text); return text }
    $1 != owner {
        owner = $1
        printf "\n## %s\n\n| variable | default | meaning |\n| --- | --- | --- |\n", owner
    }
    { printf "| `%s` | %s | %s |\n", $3, ($4 == "" ? "" : "`" cell($4) "`"), cell($5) }
'
