# bench/peers/plan.py - what is measured: sections, their drivers, their points.
#
# A section is a set of drivers that live together and a list of points. Drivers are given as commands here and nowhere
# else.
#
# SPDX-License-Identifier: BSD-3-Clause
import functools
import os
import shutil
from dataclasses import dataclass, field

import baseline

KIB = 1024
MIB = 1024 * KIB
SIZES = [4 * 4**i for i in range(13)]  # 4 B to 64 MiB
QUICK_SIZES = [4, KIB, 16 * KIB, 256 * KIB, 4 * MIB]
BLOCKWISE = ("reduce_scatter", "all_gather", "all_to_all")
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce", "barrier")
MESSAGES = ("ping_pong", "sendrecv")
BACK_TO_BACK_UP_TO = MIB

OPENMPI = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
MPICH = ["mpirun.mpich", "-bind-to", "none"]
QUIET = baseline.QUIET
HUGE = 256 * MIB  # every driver has its own two buffers on each rank: a section of few drivers
BF16_SIZES = [MIB // 2 * 2**i for i in range(8)]  # 512 KiB to 64 MiB: n bytes of bf16 are as many elements as 2 n of f32
BF16_OTHERS = [4 * KIB, 256 * KIB, 4 * MIB]


@dataclass(frozen=True)
class Point:
    op: str
    nbytes: int
    mode: str = "cold"


@dataclass
class Driver:
    name: str
    command: list
    variants: tuple = ("raw",)  # () means all that the driver has
    env: dict = field(default_factory=dict)


@dataclass
class Section:
    name: str
    ranks: int
    drivers: list
    points: list
    share: float  # of the time of the whole run: with the default, about twice what the first round takes
    min_iterations: int = 7
    budget_ms: float = 60


def points(ops, ranks, sizes, modes):
    """All points, each once: sizes of blockwise operations start at one element for each rank."""
    result = []
    for op in ops:
        seen = set()
        for nbytes in [0] if op == "barrier" else sizes:
            rounded = -(-nbytes // (4 * ranks)) * 4 * ranks if op in BLOCKWISE else nbytes
            if rounded in seen:
                continue
            seen.add(rounded)
            result += [Point(op, rounded, mode) for mode in modes if mode == "cold" or rounded <= BACK_TO_BACK_UP_TO]
    return result


class Tools:
    """Where the programs of a build are; what is missing is left out."""

    def __init__(self, build, folder=None):
        self.build = build
        self.folder = folder or os.path.join(build, "bench", "baseline")
        self.bin = os.path.join(build, "bin")
        self.modules = os.path.join(build, "bench", "modules")

    @functools.cached_property
    def baseline(self):
        """Looked for when asked: whether an interpreter has torch takes seconds."""
        return baseline.Baseline(self.build, self.folder)

    def program(self, name):
        return os.path.join(self.bin, name)

    def has(self, *names):
        return all(shutil.which(name) or os.access(self.program(name), os.X_OK) for name in names)

    def kith(self, backend, ranks, variants=("ordinary",)):
        command = [self.program("kith"), "run", "-n", str(ranks), "--bind", "none", "--", self.program("kith-bench"),
                   "--backend", backend]
        return Driver(f"kith-{backend}", command, tuple(variants), dict(QUIET))

    def ucx_alone(self, ranks):
        """ucx as between hosts: without the shared memory that a group inside one host may go through."""
        kith = self.kith("ucx", ranks)
        return Driver("kith-ucx-alone", kith.command, kith.variants, dict(kith.env, KITH_HIER="off"))

    def kith_mpi(self, ranks):
        command = OPENMPI + ["-n", str(ranks), self.program("kith-bench"), "--backend", "mpi"]
        return Driver("kith-mpi", command, ("ordinary",), dict(QUIET, KITH_MPI_NATIVE="blocking"))

    def openmpi(self, ranks, pml=None):
        # Open MPI takes its ucx layer only on networks it knows, unless told that any will do.
        extra = ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"] if pml == "ucx" else []
        command = OPENMPI + extra + ["-n", str(ranks), self.program("bench-openmpi")]
        return Driver(f"openmpi-{pml}" if pml else "openmpi", command, ("raw",), dict(QUIET))

    def mpich(self, ranks):
        return Driver("mpich", MPICH + ["-n", str(ranks), self.program("bench-mpich")], ("raw",), dict(QUIET))

    def floors(self, ranks):
        return Driver("floors", [self.program("bench-floors"), "-n", str(ranks)], ())

    def pair(self, mpi, ranks):
        launcher = OPENMPI if mpi == "openmpi" else MPICH
        return Driver(f"pair-{mpi}", launcher + ["-n", str(ranks), self.program(f"bench-pair-{mpi}")], ("raw", "ordinary"),
                      dict(QUIET, KITH_MPI_NATIVE="blocking"))

    def peers(self, ranks, is_whole=True):
        """Everybody else who is there."""
        drivers = []
        if self.has("mpirun.openmpi", "bench-openmpi"):
            drivers += [self.openmpi(ranks), self.openmpi(ranks, "ucx")]
        if self.has("mpirun.mpich", "bench-mpich"):
            drivers.append(self.mpich(ranks))
        return drivers + [Driver(c.name, c.command, ("raw",), c.env) for c in self.baseline.commands(ranks, is_whole)]

    def bf16(self, ranks):
        """Those that have bf16: of the MPIs only MPICH 5."""
        kith = self.kith("shm", ranks, ("ordinary", "mapped"))
        drivers = [Driver("kith-shm-bf16", kith.command, kith.variants, kith.env)]
        if self.baseline.has_mpich5:
            drivers.append(self.baseline.mpich5("mpich5", ranks))
        if self.baseline.python is not None:
            drivers.append(self.baseline.gloo(ranks))
        return [Driver(d.name if d.name.endswith("bf16") else f"{d.name}-bf16", d.command + ["--dtype", "bf16"],
                       getattr(d, "variants", ("raw",)), d.env) for d in drivers]


def two_ranks(tools, is_quick):
    drivers = [tools.kith("shm", 2, ("ordinary", "mapped"))] + tools.peers(2)
    if tools.has("mpirun.openmpi", "kith-bench"):
        drivers.append(tools.kith_mpi(2))
    drivers += [tools.kith("ucx", 2), tools.ucx_alone(2), tools.floors(2)]
    sizes = QUICK_SIZES if is_quick else SIZES
    modes = ("cold",) if is_quick else ("cold", "back_to_back")
    ops = COLLECTIVES + MESSAGES[:1] if is_quick else COLLECTIVES + MESSAGES
    return Section("2 ranks", 2, drivers, points(ops, 2, sizes, modes), 0.35, budget_ms=10 if is_quick else 60)


def oversubscribed(tools, ranks, is_quick):
    drivers = [tools.kith("shm", ranks, ("ordinary", "mapped"))] + tools.peers(ranks, False)
    ops = ("all_reduce", "barrier") if is_quick else COLLECTIVES
    some = points(ops, ranks, QUICK_SIZES if is_quick else SIZES, ("cold",))
    return Section(f"{ranks} ranks", ranks, drivers, [Point("all_reduce", 8)] + some, 0.13 if ranks <= 4 else 0.19, 5,
                   budget_ms=20 if is_quick else 60)


def pairs(tools, is_quick):
    drivers = [tools.pair(mpi, 2) for mpi in ("openmpi", "mpich")
               if tools.has(f"mpirun.{mpi}", f"bench-pair-{mpi}")]
    sizes = [4, KIB, 64 * KIB, MIB] if not is_quick else [4, 64 * KIB]
    ops = COLLECTIVES + ("ping_pong",) if not is_quick else ("all_reduce", "ping_pong")
    return Section("mpi pair", 2, drivers, points(ops, 2, sizes, ("cold", "back_to_back")), 0.03, 11, 20)


def huge(tools):
    """One size beyond the others. Gloo's minutes would not change a figure: it is far behind from 64 KiB on."""
    drivers = [tools.kith("shm", 2, ("ordinary", "mapped"))]
    drivers += [peer for peer in tools.peers(2, False) if peer.name in ("openmpi", "mpich", "openmpi5", "mpich5")]
    for driver in drivers:
        driver.command = driver.command + ["--max", "256M"]
    ops = [op for op in COLLECTIVES if op != "barrier"] + ["ping_pong"]
    return Section("256 MiB", 2, drivers, points(ops, 2, [HUGE], ("cold",)), 0.10, 3, 10)


def bf16(tools, is_quick):
    drivers = [tools.kith("shm", 2, ("ordinary", "mapped"))] + tools.bf16(2)
    sizes = BF16_SIZES[:3] if is_quick else BF16_SIZES
    others = [] if is_quick else [op for op in COLLECTIVES if op not in ("all_reduce", "barrier")] + ["ping_pong"]
    some = points(("all_reduce",), 2, sizes, ("cold",)) + points(others, 2, BF16_OTHERS, ("cold",))
    return Section("bf16", 2, drivers, some, 0.06, budget_ms=10 if is_quick else 40)


def sections(tools, is_quick):
    some = [two_ranks(tools, is_quick), oversubscribed(tools, 4, is_quick), oversubscribed(tools, 8, is_quick), bf16(tools, is_quick)]
    return some + ([] if is_quick else [huge(tools)]) + [pairs(tools, is_quick)]
