#!/usr/bin/env bash
# Rules for text that need no compiler: no tabs, no spaces at the ends of lines, a licence line in each source, no paths of
# one machine, no wide lines, public functions with the public prefix only in public headers.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
cd "$KITH_SOURCE_DIR" || exit 1
failed=0

# report <rule> <lines>
report() {
    [ -z "$2" ] && return
    echo "FAILED: $1"
    head -n 20 <<<"$2"
    failed=1
}

if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    mapfile -t files < <(git ls-files --cached --others --exclude-standard | while read -r f; do [ -f "$f" ] && echo "$f"; done)
else
    mapfile -t files < <(find . -type f -not -path './build*' -not -path './.git/*' | sed 's|^\./||')
fi
mapfile -t sources < <(printf '%s\n' "${files[@]}" | grep -E '\.(c|h|cpp|sh|cmake)$|(^|/)CMakeLists\.txt$')
mapfile -t c_files < <(printf '%s\n' "${files[@]}" | grep -E '\.(c|h|cpp)$')
mapfile -t texts < <(printf '%s\n' "${files[@]}" | grep -vE '\.(svg|png)$|(^|/)Makefile$')
[ "${#c_files[@]}" -gt 20 ] || report "found the sources" "only ${#c_files[@]} C files"

report "no tabs" "$(grep -nP '\t' "${texts[@]}")"
report "no spaces at the end of a line" "$(grep -nE ' +$' "${texts[@]}")"
report "a licence line in each C source and script" \
    "$(printf '%s\n' "${sources[@]}" | grep -E '\.(c|h|cpp|sh)$' | xargs grep -L 'SPDX-License-Identifier: BSD-3-Clause')"
# Written in two parts so that this file does not match itself.
report "no paths of one machine" "$(grep -nE "(^|[ \"'=(:])/""(home|work|Users|root)/" "${texts[@]}")"
report "lines of at most 120 columns in C" "$(awk 'length($0) > 120 { print FILENAME ":" FNR ": " length($0) }' "${c_files[@]}")"
report "backends include only public headers" \
    "$(grep -nE '^#include "(\.\./)+(core|tools|bench)/' $(printf '%s\n' "${c_files[@]}" | grep '^backends/'))"
# bench/gpu calls CUDA itself, and shares how libraries are opened and which device is current.
report "tools, bench and examples include only public headers" \
    "$(grep -nE '^#include "(\.\./)*(core|backends)/' $(printf '%s\n' "${c_files[@]}" | grep -E '^(tools|bench|examples)/') |
       grep -vE '^bench/gpu/libraries\.[ch]:[0-9]+:#include "core/(base/library|device/cuda/runtime)\.h"$')"

echo "${#files[@]} files looked at"
exit $failed
