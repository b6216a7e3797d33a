# tests/tools/lib.sh - what the scripts of this folder share. Sourced, not run.
#
# run COMMAND... sets $status, and the files $work/out and $work/err. check DESCRIPTION COMMAND... counts failures and
# shows what was printed. finish returns the result.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
: "${KITH_BIN:?}" "${KITH_BUILD_DIR:?}" "${KITH_SOURCE_DIR:?}"
kith=$KITH_BIN
ranks=$KITH_BUILD_DIR/bin/tests/rank_program
here=$KITH_SOURCE_DIR/tests/tools
work=$(mktemp -d) || exit 1
export TMPDIR=$work/tmp # so that a folder left behind by the command can be seen
mkdir "$TMPDIR"
trap 'rm -rf "$work"' EXIT
failures=0
checks=0
unset KITH_RANK KITH_SIZE KITH_LOCAL_RANK KITH_LOCAL_SIZE KITH_STORE KITH_SECRET KITH_BACKEND OMP_NUM_THREADS

run() {
    timeout -k 5 60 "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
}

check() {
    local description=$1
    shift
    checks=$((checks + 1))
    if ! "$@"; then
        failures=$((failures + 1))
        echo "FAILED: $description ($*); status ${status:-none}"
        head -n 20 "$work/out" 2>/dev/null | cut -c 1-300 | sed 's/^/  out: /'
        head -n 20 "$work/err" 2>/dev/null | cut -c 1-300 | sed 's/^/  err: /'
    fi
}

status_is() { [ "$status" -eq "$1" ]; }
err_has() { grep -qF -- "$1" "$work/err"; }
out_has() { grep -qF -- "$1" "$work/out"; }
err_is_empty() { [ ! -s "$work/err" ]; }
out_is_empty() { [ ! -s "$work/out" ]; }
out_is() { [ "$(cat "$work/out")" = "$1" ]; }
same() { [ "$1" = "$2" ]; }

# fails STATUS SENTENCE COMMAND...
fails() {
    local wanted=$1 sentence=$2
    shift 2
    run "$@"
    check "$* ends with $wanted" status_is "$wanted"
    check "$* says why" err_has "$sentence"
}

# succeeds COMMAND...
succeeds() {
    run "$@"
    check "$* succeeds" status_is 0
}

# wait_until COMMAND...: up to 20 s
wait_until() {
    local i
    for i in $(seq 400); do
        "$@" && return 0
        sleep 0.05
    done
    return 1
}

files_are_there() { [ "$(find "$1" -name "$2" ! -name '*~' | wc -l)" -eq "$3" ]; }

# Gone, or dead and not yet reaped by a process that is not ours.
is_gone() {
    local state
    state=$(sed 's/^.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null) || return 0
    [ -z "$state" ] || [ "$state" = Z ] || [ "$state" = X ]
}

all_are_gone() {
    local pid
    for pid in "$@"; do
        is_gone "$pid" || return 1
    done
}

no_folder_is_left() { [ -z "$(ls -A "$TMPDIR")" ]; }

finish() {
    echo "$checks checks, $failures failed"
    [ "$checks" -gt 0 ] && [ "$failures" -eq 0 ]
    exit $?
}
