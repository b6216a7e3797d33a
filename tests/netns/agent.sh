#!/bin/bash
# agent.sh - runs a command on a host of hosts.sh: what ssh is for real ones.
#
#     agent.sh -e <host> command...     with the caller's environment
#     agent.sh <host> command...        as ssh: the words are one shell line. For Open MPI:
#                                       mpirun.openmpi --mca plm_rsh_agent .../agent.sh --host $KITH_NETNS_LIST ...
#
# <host> is a name (kith0) or an address (10.77.0.1).
#
# SPDX-License-Identifier: BSD-3-Clause
set -u
keep=""
if [ "$1" = -e ]; then
    keep=1
    shift
fi
host=$1
shift
init=$(cat "${KITH_NETNS_STATE:?only inside hosts.sh}/$host" 2>/dev/null) || { echo "agent.sh: no host $host" >&2; exit 255; }
read -r -a enter <"$KITH_NETNS_STATE/enter"
folder=$PWD
if [ -n "$keep" ]; then
    exec nsenter -t "$init" "${enter[@]}" -- bash -c 'cd "$1" && shift && exec "$@"' bash "$folder" "$@"
fi
exec nsenter -t "$init" "${enter[@]}" -- bash -c "cd '$folder' && $*"
