#!/bin/bash
# test_hosts.sh BUILD - bench/hosts: refused arguments, what a command finds on shaped hosts, nothing left behind, and that both
# layouts of placement.sh run with right data on the positions they should have. Times are not looked at.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u

build=$1
root="$(cd "$(dirname "$0")/../.." && pwd)"
shaped="$root/bench/hosts/shaped.sh"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
failed=0

fail() { echo "FAILED: $1" >&2; failed=1; }

refused() # WHAT ARGUMENT...
{
    local what=$1
    shift
    bash "$shaped" "$@" >"$work/out" 2>&1
    [ $? -eq 2 ] || fail "$what is not refused with status 2: $(cat "$work/out")"
}
refused "no command" --build "$build" -n 2
refused "five hosts" --build "$build" -n 5 -f 1 -- true
refused "a factor that is no number" --build "$build" -f 1 -x ten -- true
refused "a rate of zero" --build "$build" -f 0 -- true
bash "$root/bench/hosts/placement.sh" --build "$work" >"$work/out" 2>&1
[ $? -eq 2 ] && grep -q "bench-placement is missing" "$work/out" || fail "a build without bench-placement is not told"

before="$(ip netns list 2>/dev/null | wc -l)"
bash "$shaped" --build "$build" -n 3 -r 1 -f 2 -x 10 -- sh -c 'echo "$(hostname) $KITH_HOSTS_INSIDE_GBPS $KITH_HOSTS_LINK_GBPS"' >"$work/out" 2>&1
status=$?
if [ $status -eq 77 ]; then # namespaces need root, and a kernel that allows them
    cat "$work/out"
    [ $failed -eq 0 ] || exit 1
    exit 77
fi
[ $status -eq 0 ] || fail "a command on three hosts ended with $status"
printf '%s\n' "kith0 2 0.191281" "kith1 2 0.191281" "kith2 2 0.191281" | diff - <(sort "$work/out") >&2 || fail "what three hosts say"

bash "$shaped" --build "$build" -n 2 -r 2 -f 20 -- "$build/bin/bench-placement" --link 1.9 --rounds 3 >"$work/out" 2>&1
status=$?
[ $status -le 1 ] || fail "bench-placement ended with $status: $(cat "$work/out")"
grep -Eq "^aware +0 1 2 3 " "$work/out" || fail "the aware layout is not 0 1 2 3: $(cat "$work/out")"
grep -Eq "^naive +0 2 1 3 " "$work/out" || fail "the naive layout is not 0 2 1 3: $(cat "$work/out")"
grep -Eq "^naive / aware: predicted [0-9.]+, measured [0-9.]+ " "$work/out" || fail "no factors: $(cat "$work/out")"

[ "$(ip netns list 2>/dev/null | wc -l)" -eq "$before" ] || fail "namespaces are left: $(ip netns list)"
exit $failed
