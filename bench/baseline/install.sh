#!/usr/bin/env bash
# Fetches the peers that Debian does not have, from PyPI, and builds their drivers: Open MPI 5, MPICH 5, PyTorch (Gloo).
#
#     bench/baseline/install.sh --build BUILD [--to DIR] [openmpi5] [mpich5] [gloo]       default: all three
#
# DIR (default BUILD/bench/baseline) gets a virtual environment for each: both MPIs ship a bin/mpirun. The MPIs' drivers,
# DIR/bin/bench-openmpi5 and DIR/bin/bench-mpich5, are the one source of bench/drivers/mpi.c under their own mpicc.
# PyTorch's package for Linux brings CUDA with it, about 3 GB; an interpreter that has torch already can be named instead:
# KITH_BENCH_PYTHON=/path/python. What is there already is left as it is. Exit status: 0 when all that was wanted is there.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u

root="$(cd "$(dirname "$0")/../.." && pwd)"
build="" to="" wanted=()
while [ $# -gt 0 ]; do
    case "$1" in
    --build) build="${2:-}"; shift; shift || true ;;
    --to) to="${2:-}"; shift; shift || true ;;
    openmpi5 | mpich5 | gloo) wanted+=("$1"); shift ;;
    *) echo "install.sh: unknown argument '$1'; peers are openmpi5, mpich5, gloo" >&2; exit 2 ;;
    esac
done
[ -n "$build$to" ] || { sed -n '4p' "$0" | sed 's/^# *//' >&2; exit 2; }
to="${to:-$build/bench/baseline}"
[ ${#wanted[@]} -gt 0 ] || wanted=(openmpi5 mpich5 gloo)
mkdir -p "$to/bin" || exit 1
to="$(cd "$to" && pwd)"

environment() # NAME PACKAGE...: a virtual environment with these packages
{
    local name=$1
    shift
    [ -x "$to/$name/bin/python" ] || python3 -m venv "$to/$name" || return 1
    "$to/$name/bin/python" -m pip install --quiet "$@"
}

driver() # NAME: the MPI driver with the mpicc of the environment
{
    local sources=("$root"/bench/cases/cases.c "$root"/bench/engine/*.c
        "$root"/bench/drivers/{mpi,mpi_calls,ordinary}.c) flags
    flags="$(pkg-config --cflags --libs jansson)" || { echo "install.sh: jansson is missing (Debian: libjansson-dev)" >&2; return 1; }
    # shellcheck disable=SC2086
    PATH="$to/$1/bin:$PATH" "$to/$1/bin/mpicc" -O2 -std=gnu11 -D_GNU_SOURCE "-DBENCH_MPI_NAME=\"$1\"" "${sources[@]}" $flags -lpthread -lm \
        -o "$to/bin/bench-$1"
}

status=0
for peer in "${wanted[@]}"; do
    case "$peer" in
    openmpi5) environment openmpi5 'openmpi>=5,<6' && driver openmpi5 ;;
    mpich5) environment mpich5 'mpich>=5,<6' && driver mpich5 ;;
    gloo)
        if [ -n "${KITH_BENCH_PYTHON:-}" ] && "$KITH_BENCH_PYTHON" -c 'import torch' 2>/dev/null; then
            echo "gloo: torch is in $KITH_BENCH_PYTHON"
            continue
        fi
        environment gloo torch numpy
        ;;
    esac && echo "$peer: in $to" || { echo "install.sh: $peer could not be installed" >&2; status=1; }
done
exit $status
