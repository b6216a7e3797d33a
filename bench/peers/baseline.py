# bench/peers/baseline.py - the peers that bench/baseline/install.sh fetches: Open MPI 5, MPICH 5, Gloo; and bare UCX.
#
# What is not there is told with the reason, and the run goes on without it.
#
# SPDX-License-Identifier: BSD-3-Clause
import functools
import os
import subprocess
import sys
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))
ADAPTER = os.path.join(HERE, "..", "baseline", "gloo.py")
INSTALL = "bench/baseline/install.sh"
QUIET = {"UCX_LOG_LEVEL": "error", "OMPI_MCA_btl_base_warn_component_unused": "0"}

# The best settings for shared memory are not one set: each wins somewhere, so each runs.
OPENMPI5 = {"openmpi5": [],
            # Open MPI takes its ucx layer only on networks it knows, unless told that any will do.
            "openmpi5-ucx": ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"],
            "openmpi5-sm": ["--mca", "coll_sm_priority", "100"]}  # collectives in a shared segment, off by default
# By default MPICH's collectives pass through a shared buffer (release_gather); "mpir" makes them from messages.
MPICH5 = {"mpich5": {},
          "mpich5-mpir": {f"MPIR_CVAR_{op}_POSIX_INTRA_ALGORITHM": "mpir" for op in ("ALLREDUCE", "BCAST", "BARRIER", "REDUCE")}}
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
FEW = ("openmpi5", "openmpi5-ucx", "mpich5")  # where memory and time allow no more


@dataclass
class Command:
    """A driver's command, as plan.Driver has it."""
    name: str
    command: list
    env: dict = field(default_factory=dict)


@functools.lru_cache
def python_with_torch(folder):
    """(interpreter, None), or (None, why there is none)."""
    candidates = [os.environ.get("KITH_BENCH_PYTHON"), os.path.join(folder, "gloo", "bin", "python"), sys.executable]
    reason = "torch is not installed"
    for python in filter(None, candidates):
        if not os.access(python, os.X_OK):
            continue
        try:
            done = subprocess.run([python, "-c", "import torch.distributed as d; assert d.is_gloo_available(), 'torch has no Gloo'"],
                                  capture_output=True, text=True, timeout=120, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = str(error)
            continue
        if done.returncode == 0:
            return python, None
        reason = (done.stderr.strip().splitlines() or [reason])[-1]
    return None, reason


class Baseline:
    """build: the build folder; folder: where install.sh put things."""

    def __init__(self, build, folder):
        self.build = build
        self.folder = folder
        self.library = os.path.join(build, "bench", "libbench_embed.so")
        self.missing = []  # sentences
        self.has_openmpi5 = self._has("openmpi5", "Open MPI 5")
        self.has_mpich5 = self._has("mpich5", "MPICH 5")
        self.ucx = os.path.join(build, "bin", "bench-ucx")
        if not os.access(self.ucx, os.X_OK):
            self.missing.append("UCX: not there: bench-ucx was not built (Debian: libucx-dev)")
        self.python, reason = python_with_torch(folder)
        if self.python is not None and not os.path.exists(self.library):
            self.python, reason = None, "libbench_embed.so was not built"
        if self.python is None:
            self.missing.append(f"Gloo: not there: {reason} ({INSTALL} gets it, KITH_BENCH_PYTHON names an interpreter that has it)")

    def _driver(self, name):
        return os.path.join(self.folder, "bin", f"bench-{name}")

    def mpirun(self, name):
        return os.path.join(self.folder, name, "bin", "mpirun")

    def _has(self, name, title):
        absent = [path for path in (self._driver(name), self.mpirun(name)) if not os.access(path, os.X_OK)]
        if absent:
            self.missing.append(f"{title}: not there: no {os.path.relpath(absent[0], self.folder)} in {self.folder} ({INSTALL} makes it)")
        return not absent

    def openmpi5(self, name, ranks):
        command = [self.mpirun("openmpi5"), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
        return Command(name, command + OPENMPI5[name] + ["-n", str(ranks), self._driver("openmpi5")], dict(QUIET))

    def mpich5(self, name, ranks):
        command = [self.mpirun("mpich5"), "-bind-to", "none", "-n", str(ranks), self._driver("mpich5")]
        return Command(name, command, dict(QUIET, **MPICH5[name]))

    def gloo(self, ranks, name="gloo"):
        return Command(name, [self.python, ADAPTER, "--library", self.library, "-n", str(ranks)], dict(ONE_THREAD))

    def commands(self, ranks, is_whole=True):
        """All peers that are there; few of the settings unless is_whole."""
        found = []
        if self.has_openmpi5:
            found += [self.openmpi5(name, ranks) for name in OPENMPI5 if is_whole or name in FEW]
        if self.has_mpich5:
            found += [self.mpich5(name, ranks) for name in MPICH5 if is_whole or name in FEW]
        if ranks == 2 and os.access(self.ucx, os.X_OK):
            found.append(Command("ucx", [self.ucx, "-n", "2"], dict(QUIET)))
        if self.python is not None:
            found.append(self.gloo(ranks))
        return found
