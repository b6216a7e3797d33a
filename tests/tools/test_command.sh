#!/usr/bin/env bash
# kith itself: help, version, wrong words.
#
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/lib.sh"

succeeds "$kith" --help
for name in run info flight bench help; do
    check "the overview lists $name" grep -qE "^  $name +[A-Z]" "$work/out"
done
for name in run info flight bench; do
    succeeds "$kith" help $name
    check "help $name begins with its usage" grep -qE "^Usage: kith $name" "$work/out"
    cp "$work/out" "$work/help"
    succeeds "$kith" $name --help
    check "$name --help is the same text" cmp -s "$work/out" "$work/help"
    check "help $name is at most 120 columns wide" sh -c "! grep -qE '^.{121}' '$work/help'"
done
succeeds "$kith" run -n 2 --help
check "--help works after other options" out_has "Usage: kith run"
version=$(sed -n 's/^#define KITH_VERSION_STRING "\(.*\)"/\1/p' "$KITH_SOURCE_DIR/include/kith/version.h")
succeeds "$kith" --version
check "the version is that of the header" out_is "kith $version"

fails 2 "Usage: kith SUBCOMMAND" "$kith"
fails 2 "there is no subcommand 'rum'; did you mean 'run'?" "$kith" rum
fails 2 "did you mean 'flight'?" "$kith" flihgt
fails 2 "'kith --help' lists them" "$kith" something
fails 2 "did you mean 'info'?" "$kith" help imfo
check "nothing is printed to stdout on wrong usage" out_is_empty

# words...: what they print cannot be written
full() {
    "$kith" "$@" >/dev/full 2>"$work/err" </dev/null
    status=$?
    check "kith $* to a full device ends with 2" status_is 2
    check "kith $* to a full device says so" err_has "cannot write standard output"
}
if [ -e /dev/full ]; then
    full --help
    full --version
    full help run
    for name in run info flight bench plan schedule topo train generate; do
        full $name --help
    done
    full info
    full plan --list
    full plan --model llama-2-7b
    full schedule --list
    full schedule --kind 1f1b --ranks 2 --microbatches 2
    full topo --list-constants
fi
finish
