#!/bin/bash
# Runs a command on 2 to 4 "hosts" of this machine, with a fast class of links inside and a slow one between them.
#
#     bench/hosts/shaped.sh --build BUILD [-n HOSTS] [-r RANKS] [-f GB/S] [-x FACTOR] [-s] [-1] -- COMMAND...
#
# Hosts (default 2) are network namespaces with a name, processes and memory of their own; RANKS (default 2) of the command
# run on each, on all of them at once (tests/netns/hosts.sh, whose -s and -1 these are: -1 starts COMMAND once, for mpirun).
# Inside, ranks share memory. Each host sends at most at the rate of the inside divided by FACTOR (default 10). The inside's is
# -f, or measured first, with all ranks at work (bench-placement, which needs 2 hosts of 2).
#
# COMMAND finds KITH_HOSTS_INSIDE_GBPS and KITH_HOSTS_LINK_GBPS in its environment: GB/s of payload, the link's less the
# headers of TCP in packets of 1500 bytes. Exit status: the command's; 77 where hosts cannot be made. What was made is removed.
#
# SPDX-License-Identifier: BSD-3-Clause
set -u

root="$(cd "$(dirname "$0")/../.." && pwd)"
usage() { sed -n '4s/^# *//p' "$0" >&2; exit 2; }

build="" hosts=2 ranks=2 inside="" factor=10 pass=()
while [ $# -gt 0 ]; do
    case "$1" in
    --build) build="${2:-}"; shift; shift || usage ;;
    -n) hosts="${2:-}"; shift; shift || usage ;;
    -r) ranks="${2:-}"; shift; shift || usage ;;
    -f) inside="${2:-}"; shift; shift || usage ;;
    -x) factor="${2:-}"; shift; shift || usage ;;
    -s | -1) pass+=("$1"); shift ;;
    --) shift; break ;;
    *) usage ;;
    esac
done
[ $# -gt 0 ] && [ -n "$build" ] || usage
[[ $hosts =~ ^[2-4]$ && $ranks =~ ^[1-9][0-9]?$ ]] || { echo "shaped.sh: there can be 2 to 4 hosts, and 1 to 99 ranks on each" >&2; exit 2; }
[[ ${inside:-1} =~ ^[0-9]*\.?[0-9]+$ && $factor =~ ^[0-9]*\.?[0-9]+$ ]] ||
    { echo "shaped.sh: -f and -x are positive numbers" >&2; exit 2; }

hosts_sh="$root/tests/netns/hosts.sh"
if [ -z "$inside" ]; then
    said="$(bash "$hosts_sh" -n 2 -r 2 -- "$build/bin/bench-placement" 2>&1)"
    status=$?
    inside="$(sed -n 's/^inside a host: \([0-9.]*\) GB\/s$/\1/p' <<<"$said")"
    [ $status -eq 0 ] && [ -n "$inside" ] || { echo "$said" >&2; exit $((status == 0 ? 1 : status)); }
fi
# Kilobits of packets a second; 1448 of 1514 bytes of a packet are payload.
rate="$(awk -v inside="$inside" -v factor="$factor" 'BEGIN { printf "%d", inside / factor * 8e6 }')"
[ "$rate" -gt 0 ] || { echo "shaped.sh: $inside GB/s / $factor is no rate" >&2; exit 2; }
export KITH_HOSTS_INSIDE_GBPS="$inside"
KITH_HOSTS_LINK_GBPS="$(awk -v rate="$rate" 'BEGIN { printf "%.6f", rate / 8e6 * 1448 / 1514 }')"
export KITH_HOSTS_LINK_GBPS

# hosts.sh's bucket of 256 kB loses tokens where timers come late, on a machine that is busy with others: one of 25 ms
# loses none, and lets no more than 25 ms of the link through at once after a pause. TCP keeps less on the way than the queue holds.
burst="$(awk -v rate="$rate" 'BEGIN { burst = rate / 8 * 25; printf "%d", (burst > 262144 ? burst : 262144) }')"
export UCX_TCP_SNDBUF="${UCX_TCP_SNDBUF:-512k}" UCX_TCP_RCVBUF="${UCX_TCP_RCVBUF:-512k}"
bucket=(bash -c 'tc qdisc replace dev kith root tbf rate "$0" burst "$1" latency 50ms && shift && exec "$@"' "${rate}kbit" "$burst")
[[ " ${pass[*]} " != *" -1 "* ]] || bucket=() # the command is a launcher, on the first host alone
exec bash "$hosts_sh" -n "$hosts" -r "$ranks" -b "${rate}kbit" "${pass[@]}" -- "${bucket[@]}" "$@"
