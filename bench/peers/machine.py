# bench/peers/machine.py - what the numbers were measured on.
#
# SPDX-License-Identifier: BSD-3-Clause
import os
import platform
import re
import subprocess


def _first_line(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return next((line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()), None)


def _cpu_model():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        return platform.machine()
    return names[0] if names else platform.machine()


def _mpich_version(mpirun="mpirun.mpich"):
    try:
        text = subprocess.run([mpirun, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"Version:\s*(\S+)", text)
    return f"MPICH {found.group(1)}" if found else None


def _peer_versions(baseline):
    """Versions of what bench/baseline/install.sh fetched, as far as it is there."""
    found = []
    if baseline.has_openmpi5:
        found.append(_first_line([baseline.mpirun("openmpi5"), "--version"]))
    if baseline.has_mpich5:
        found.append(_mpich_version(baseline.mpirun("mpich5")))
    if baseline.python is not None:
        found.append("PyTorch " + (_first_line([baseline.python, "-c", "import torch; print(torch.__version__)"]) or "?"))
    return found


def describe(baseline):
    """{what: text}; what cannot be found out is left out."""
    facts = {"processor": f"{_cpu_model()}, {os.cpu_count()} CPUs",
             "system": f"{platform.system()} {platform.release()}",
             "peers": ", ".join(filter(None, [_first_line(["mpirun.openmpi", "--version"]), _mpich_version(),
                                              _first_line(["ucx_info", "-v"])] + _peer_versions(baseline))) or None}
    return {key: value for key, value in facts.items() if value}
