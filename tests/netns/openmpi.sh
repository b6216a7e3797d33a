#!/bin/bash
# openmpi.sh - mpirun of Open MPI over the hosts of hosts.sh -1.
#
# SPDX-License-Identifier: BSD-3-Clause
exec mpirun.openmpi --allow-run-as-root --oversubscribe --mca plm_rsh_agent "$(cd "$(dirname "$0")" && pwd)/agent.sh" \
    --mca btl_tcp_if_include kith --mca oob_tcp_if_include kith --host "$KITH_NETNS_LIST" "$@"
