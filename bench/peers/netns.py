# bench/peers/netns.py - two "hosts" on one machine: network namespaces joined by a virtual cable.
#
# SPDX-License-Identifier: BSD-3-Clause
import os
import shutil
import subprocess
import time

PREFIX = "10.77.0"


class HostsError(Exception):
    """This machine does not let us have namespaces."""


def _ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HostsError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def _await_up(name):
    """UCX leaves out an interface that does not run yet; the kernel takes up to a second after the cable is in."""
    for _ in range(50):
        shown = subprocess.run(["ip", "-n", name, "-o", "link", "show", f"{name}0"], capture_output=True, text=True, check=False)
        if "state UP" in shown.stdout:
            return
        time.sleep(0.1)
    raise HostsError(f"the interface of {name} did not come up in 5 s")


class Hosts:
    """Context manager: names[i] is a namespace, addresses[i] its address."""

    def __enter__(self):
        if os.geteuid() != 0 or shutil.which("ip") is None:
            raise HostsError("namespaces need root and the command ip")
        self.names = [f"kb{os.getpid() % 10000}{letter}" for letter in "ab"]
        self.addresses = [f"{PREFIX}.{i + 1}" for i in range(2)]
        self.subnet = f"{PREFIX}.0/24"
        self.made = []
        try:
            self._make()
        except HostsError:
            self.__exit__()
            raise
        return self

    def _make(self):
        for name in self.names:
            _ip("netns", "add", name)
            self.made.append(name)
        first, second = self.names
        _ip("link", "add", f"{first}0", "netns", first, "type", "veth", "peer", "name", f"{second}0", "netns", second)
        for name, address in zip(self.names, self.addresses):
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", f"{name}0")
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "set", f"{name}0", "up")
        for name in self.names:
            _await_up(name)

    def __exit__(self, *_):
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def inside(self, index):
        """Beginning of a command that runs on host `index`, under a host name of its own."""
        return ["ip", "netns", "exec", self.names[index], "unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', self.names[index]]
