# bench/peers/tcp.py - ucx against Open MPI's TCP, one rank in each of two network namespaces.
#
# SPDX-License-Identifier: BSD-3-Clause
import os
import shlex
import stat

import plan
from netns import Hosts, HostsError

PORT = 24931


def kith_driver(tools, hosts):
    """Two processes, started by hand as on two hosts; what is appended to the command reaches both."""
    parts = []
    for rank in range(2):
        env = [f"KITH_RANK={rank}", "KITH_SIZE=2", f"KITH_STORE=tcp://{hosts.addresses[0]}:{PORT}", f"KITH_HOSTID={hosts.names[rank]}",
               "UCX_TLS=tcp,self", "BENCH_PIN_VARIABLE=KITH_RANK"]
        parts.append(shlex.join(hosts.inside(rank) + ["env"] + env) + ' "$@"')
    script = f"{parts[1]} & {parts[0]}; status=$?; wait; exit $status"
    return plan.Driver("kith-ucx-tcp", ["sh", "-c", script, "sh", tools.program("kith-bench"), "--backend", "ucx"], ("ordinary",),
                       dict(plan.QUIET))


def write_agent(path, hosts):
    """What mpirun calls instead of ssh: the first argument is the host, which is the second namespace."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\nshift\nexec {shlex.join(hosts.inside(1))} sh -c \"$*\"\n")
    os.chmod(path, stat.S_IRWXU)


def openmpi_driver(tools, hosts, agent):
    parameters = {"plm_rsh_agent": agent, "pml": "ob1", "btl": "tcp,self", "btl_tcp_if_include": hosts.subnet,
                  "oob_tcp_if_include": hosts.subnet}
    command = hosts.inside(0) + ["mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none"]
    for name, value in parameters.items():
        command += ["--mca", name, value]
    command += ["-x", "BENCH_PIN_VARIABLE=OMPI_COMM_WORLD_RANK", "-H", ",".join(hosts.addresses), "-n", "2"]
    return plan.Driver("openmpi-tcp", command + [tools.program("bench-openmpi")], ("raw",), dict(plan.QUIET))


def measure(runner, tools, seconds, is_quick):
    """The section `tcp`; a note where it cannot be."""
    if not tools.has("kith-bench", "mpirun.openmpi", "bench-openmpi"):
        runner.note("tcp: left out: needs kith-bench and Open MPI")
        return
    try:
        with Hosts() as hosts:
            agent = os.path.join(runner.folder, "agent.sh")
            write_agent(agent, hosts)
            sizes = [4, 64 * plan.KIB] if is_quick else plan.SIZES[::2]
            ops = ("all_reduce", "ping_pong") if is_quick else ("all_reduce", "all_gather", "broadcast", "barrier", "ping_pong")
            points = plan.points(ops, 2, sizes, ("cold",))
            drivers = [kith_driver(tools, hosts), openmpi_driver(tools, hosts, agent)]
            runner.run(plan.Section("tcp", 2, drivers, points, 0, budget_ms=40), seconds)
    except HostsError as error:
        runner.note(f"tcp: left out: {error}")
