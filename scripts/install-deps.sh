#!/usr/bin/env bash
# Installs the Debian packages that building and testing Kith needs and that are missing.
#
#     scripts/install-deps.sh            install what is missing (as root, or through sudo without a password)
#     scripts/install-deps.sh --check    only say what is missing
#     scripts/install-deps.sh --list     print the table
#
# Every line of the table: need | package | how to tell that it is there | what it is for. Without apt or without the right to
# use it, missing optional parts are named and the build goes on without them; missing required ones end it here.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u

table='
required | gcc            | command -v cc                  | compiles the library
required | libc6-dev      | test -e /usr/include/stdlib.h  | the C library headers
required | make           | command -v make                | the front: make demo, make check
required | cmake          | command -v cmake               | configures the build (3.25 or newer)
required | ninja-build    | command -v ninja               | runs the build
required | pkg-config     | command -v pkg-config          | finds the libraries below
optional | libjansson-dev | pkg-config --exists jansson    | kith info lays out its report, kith flight, benchmark reports
optional | libcmocka-dev  | pkg-config --exists cmocka     | the unit tests
optional | libhwloc-dev   | pkg-config --exists hwloc      | kith topo looks at machines with it, kith run binds ranks
optional | libxml2-dev    | pkg-config --exists libxml-2.0 | kith topo reads NCCL topology files
optional | libyaml-dev    | pkg-config --exists yaml-0.1   | kith topo reads topology.yaml
optional | libcairo2-dev  | pkg-config --exists cairo      | kith topo draws pictures
optional | libopenblas0-pthread | compgen -G '/usr/lib/*/libopenblas.so.0' | layers multiply matrices with it, or with another CBLAS, opened at run time
optional | librandom123-dev | test -e /usr/include/Random123/philox.h | a test of the generator of dropout against Random123
optional | libucx-dev     | pkg-config --exists ucx        | the ucx backend
optional | libopenmpi-dev | command -v mpicc.openmpi       | the mpi backend on Open MPI
optional | openmpi-bin    | command -v mpirun.openmpi      | starts ranks under Open MPI (demo, tests)
optional | libmpich-dev   | command -v mpicc.mpich         | the mpi backend on MPICH
optional | mpich          | command -v mpirun.mpich        | starts ranks under MPICH (demo, tests)
optional | g++            | command -v c++                 | the tests that include the headers from C++
optional | clang          | command -v clang               | the second compiler of the full check
optional | libclang-rt-14-dev | compgen -G '/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer*' | the fuzz targets
optional | libsimgrid-dev | command -v smpicc                | the test of the cost model against a simulator
optional | mandoc         | command -v mandoc              | the test that reads the manual pages
optional | iproute2       | command -v ip                  | the tests with two hosts made of network namespaces
optional | python3        | command -v python3             | make bench-peers, and tests that read JSON reports
optional | chromium       | command -v chromium            | the test that opens the page of kith topo in a browser
optional | procps         | command -v pgrep               | the tests that look for processes left behind
'

rows() {
    printf '%s\n' "$table" | sed -e '/^$/d' -e 's/ *| */|/g'
}

say() {
    printf 'install-deps: %s\n' "$*"
}

# missing <need>: package names, one a line
missing() {
    rows | while IFS='|' read -r need package probe _reason; do
        [ "$need" = "$1" ] || continue
        PATH="$PATH:/usr/sbin:/sbin" bash -c "$probe" >/dev/null 2>&1 || printf '%s\n' "$package"
    done
}

reason_of() {
    rows | awk -F'|' -v package="$1" '$2 == package { print $4 }'
}

apt() {
    if [ "$(id -u)" -eq 0 ]; then
        DEBIAN_FRONTEND=noninteractive apt-get -o Dpkg::Use-Pty=0 "$@"
    else
        sudo -n env DEBIAN_FRONTEND=noninteractive apt-get -o Dpkg::Use-Pty=0 "$@"
    fi
}

can_apt() {
    command -v apt-get >/dev/null 2>&1 || return 1
    [ "$(id -u)" -eq 0 ] || sudo -n true >/dev/null 2>&1
}

# One transaction when it works; else one by one, so that one bad name does not take the others along.
install() {
    apt update -qq || say "apt-get update failed; trying with the lists that are there"
    apt install -y -qq --no-install-recommends "$@" >/dev/null && return
    for package in "$@"; do
        apt install -y -qq --no-install-recommends "$package" >/dev/null || say "could not install $package"
    done
}

main() {
    case "${1:-}" in
    --list) rows | column -t -s'|' 2>/dev/null || rows; return 0 ;;
    --check | "") ;;
    *) say "unknown argument '$1' (--check, --list, or none)"; return 2 ;;
    esac

    # pkg-config is both a package of the table and the probe of others, so look again after installing.
    local wanted
    wanted="$(missing required; missing optional)"
    if [ -n "$wanted" ] && [ "${1:-}" != "--check" ]; then
        if can_apt; then
            say "installing:" $wanted
            # shellcheck disable=SC2086 # a list of names
            install $wanted
        else
            say "cannot use apt-get here (no apt-get, or neither root nor sudo without a password)"
        fi
    fi

    for package in $(missing optional); do
        say "optional, missing: $package - $(reason_of "$package")"
    done
    local broken=0
    for package in $(missing required); do
        say "required, missing: $package - $(reason_of "$package")"
        broken=1
    done
    return $broken
}

main "$@"
