# bench/peers/targets.py - from merged samples to figures, and from figures to verdicts.
#
# A figure is one point: the times of all contenders in one latency class, the best peer, the floors, the ratios. Ratios
# that say how much faster Kith is are peer / Kith; ratios to floors are Kith / floor.
#
# SPDX-License-Identifier: BSD-3-Clause
import math
import statistics
from dataclasses import dataclass, field

import samples

PEERS = ("openmpi/raw", "openmpi-ucx/raw", "mpich/raw", "openmpi5/raw", "openmpi5-ucx/raw", "openmpi5-sm/raw", "mpich5/raw",
         "mpich5-mpir/raw", "ucx/raw", "gloo/raw")
ORDINARY, MAPPED, UCX = "kith-shm/ordinary", "kith-shm/mapped", "kith-ucx/ordinary"
UCX_ALONE = "kith-ucx-alone/ordinary"  # ucx with the setting hier off: nothing goes through shared memory
BF16_KITH = ("kith-shm-bf16/ordinary", "kith-shm-bf16/mapped")
BF16_PEERS = ("mpich5-bf16/raw", "gloo-bf16/raw")
TWO_RANKS = ("2 ranks", "256 MiB")
TCP_KITH, TCP_PEER = "kith-ucx-tcp/ordinary", "openmpi-tcp/raw"
FLOOR_STAGED = ("cells", "staged", "halves", "flags")
FLOOR_DIRECT = ("direct", "whole")
JUDGED = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce", "barrier", "ping_pong")
FLOOR_FACTOR = 1.3
MAPPED_FROM = 4096
MPI_SHARE, MPI_US = 0.03, 0.150
SMALL_LIMIT_US = 50.0
START_LIMIT_NS = 100.0
BF16_FACTOR, BF16_FROM = 1.6, 1 << 20
HOPELESS_PEER = 5.0  # a peer this much behind the best one is not asked again at that point on cores of that class:
                     # in the oversubscribed sections, and Gloo, whose points take milliseconds
TIMEOUTS = 2         # so many in a section, and a driver is left out of the rest of it


@dataclass
class Figure:
    section: str
    op: str
    nbytes: int
    mode: str
    latency_class: str
    us: dict
    best_peer: str = None
    floors: dict = field(default_factory=dict)  # "staged", "direct" -> (us, variant)
    absent: list = field(default_factory=list)  # peers that have the operation and might have been the best one here
    timed_out: set = field(default_factory=set)  # contenders that did not answer in time here or at a smaller size

    def peer_us(self):
        return self.us.get(self.best_peer)

    def speedup(self, contender):
        """How many times faster than the best peer; None when one of them is missing, 0 when it did not answer in time."""
        peer, own = self.peer_us(), self.us.get(contender)
        if peer and contender in self.timed_out:
            return 0.0
        return peer / own if peer and own else None

    def tcp_speedup(self):
        peer, own = self.us.get(TCP_PEER), self.us.get(TCP_KITH)
        return peer / own if peer and own else None

    def over_floor(self, contender, kind):
        own = self.us.get(contender)
        return own / self.floors[kind][0] if own and kind in self.floors else None


def _best_floor(us, prefixes):
    found = [(time, name.split("/")[1]) for name, time in us.items()
             if name.startswith("floors/") and name.split("/")[1].startswith(prefixes)]
    return min(found, default=None)


def figure(key, rows):
    """The figure of one point, or None when no row counts."""
    merged = samples.merge(rows)
    chosen = samples.choose_class(merged, PEERS + BF16_PEERS + BF16_KITH + (ORDINARY, MAPPED, TCP_KITH, TCP_PEER))
    if chosen is None:
        return None
    us = samples.medians(merged, chosen)
    result = Figure(*key, chosen, us)
    result.best_peer = min((name for name in PEERS if name in us), key=us.get, default=None)
    for kind, prefixes in (("staged", FLOOR_STAGED), ("direct", FLOOR_DIRECT)):
        best = _best_floor(us, prefixes)
        if best is not None:
            result.floors[kind] = best
    return result


def timeout_covers(timeout, section, op, driver, variant, nbytes):
    """Does a time-out speak for this size: of the same contender and operation, at this size or a smaller one?"""
    return (timeout["section"], timeout["op"], timeout["driver"], timeout["variant"]) == (section, op, driver, variant) and \
        timeout["nbytes"] <= nbytes


def _is_far_behind(rows, peer):
    """In some class, a peer that is absent from another one has been hopeless."""
    for times in (samples.medians(samples.merge(rows), name) for name in samples.merge(rows)):
        best = min((us for name, us in times.items() if is_peer(name)), default=None)
        if peer in times and times[peer] > HOPELESS_PEER * best:
            return True
    return False


def is_peer(contender):
    return not contender.startswith(("kith-", "floors/", "pair-"))


def _out_of_time(timeouts, section, op, nbytes, contenders):
    """Those that timed out here or below, and those that were left out of the section for it."""
    drivers = [t["driver"] for t in timeouts if t["section"] == section]
    return {c for c in contenders if drivers.count(c.split("/")[0]) >= TIMEOUTS
            or any(timeout_covers(t, section, op, *c.split("/"), nbytes) for t in timeouts)}


def figures(rows, timeouts=()):
    """One for each point. timeouts: those of the run (samples.Store)."""
    contenders = {}
    for row in rows:
        contenders.setdefault((row["section"], row["op"]), set()).add(samples.contender(row))
    made = []
    for key, group in samples.by_point(rows).items():
        f = figure(key, group)
        if f is None:
            continue
        here = contenders[f.section, f.op]
        f.timed_out = _out_of_time(timeouts, f.section, f.op, f.nbytes, here) - set(f.us)
        f.absent = sorted(c for c in here - set(f.us) - f.timed_out if is_peer(c) and not _is_far_behind(group, c))
        made.append(f)
    return made


def geometric_mean(values):
    values = [v for v in values if v is not None]
    if 0 in values:
        return 0.0
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else None


@dataclass
class Verdict:
    text: str
    is_met: bool   # None: not measured
    detail: str


def _worst(pairs, limit, is_upper):
    """(is every value on the right side of limit?, text about those that are not). pairs: (label, value)."""
    pairs = [(label, value) for label, value in pairs if value is not None]
    if not pairs:
        return None, "not measured"
    failing = [(label, value) for label, value in pairs if (value > limit if is_upper else value < limit)]
    extreme = (max if is_upper else min)(pairs, key=lambda pair: pair[1])
    text = f"{len(pairs) - len(failing)} of {len(pairs)} points; worst {extreme[1]:.2f} ({extreme[0]})"
    return not failing, text


def _label(f):
    return f"{f.op} {f.nbytes:,} B, {f.latency_class}"


def mean_speedup(chosen, contender):
    """Geometric mean over the points at which no peer is missing."""
    return geometric_mean(f.speedup(contender) for f in chosen if not f.absent)


def _means(chosen, contender):
    """{op: geometric mean of the speedup over sizes}."""
    ops = sorted({f.op for f in chosen})
    means = {op: mean_speedup([f for f in chosen if f.op == op], contender) for op in ops}
    return {op: mean for op, mean in means.items() if mean is not None}


def _without(skipped):
    return f"; without {skipped} where a peer is missing" if skipped else ""


def _no_slower(text, chosen, speedup):
    """As fast as the best peer at every point. Where a peer is missing, being slower counts and being faster says nothing."""
    found = [(f, speedup(f)) for f in chosen]
    found = [(f, value) for f, value in found if value is not None]
    counted = [(_label(f), value) for f, value in found if not f.absent or value < 1]
    is_met, detail = _worst(counted, 1.0, False)
    return Verdict(text, is_met, detail + _without(len(found) - len(counted)))


def _mean_verdict(text, chosen, contender, limit):
    means = _means(chosen, contender)
    if not means:
        return Verdict(text, None, "not measured")
    detail = ", ".join(f"{op} {mean:.2f}" for op, mean in means.items())
    detail += _without(sum(bool(f.absent) and f.speedup(contender) is not None for f in chosen))
    return Verdict(text, all(mean >= limit for mean in means.values()), detail)


def two_rank_verdicts(all_figures, mode="cold"):
    chosen = [f for f in all_figures if f.section in TWO_RANKS and f.mode == mode and f.op in JUDGED]
    large = [f for f in chosen if f.nbytes >= MAPPED_FROM]
    return [
        _no_slower("shm, ordinary: as fast as the best peer at every size", chosen, lambda f: f.speedup(ORDINARY)),
        _mean_verdict("shm, ordinary: 1.5 times the best peer, geometric mean over sizes", chosen, ORDINARY, 1.5),
        Verdict("shm, ordinary: within 1.3 times of the staged floor",
                *_worst([(_label(f), f.over_floor(ORDINARY, "staged")) for f in chosen], FLOOR_FACTOR, True)),
        Verdict("shm, mapped: within 1.3 times of the direct floor from 4 KiB up",
                *_worst([(_label(f), f.over_floor(MAPPED, "direct")) for f in large], FLOOR_FACTOR, True)),
        _mean_verdict("shm, mapped: 3 times the best peer, geometric mean from 4 KiB up", large, MAPPED, 3.0),
        _no_slower("ucx inside a node, ordinary: as fast as the best peer at every size", chosen, lambda f: f.speedup(UCX)),
    ]


def oversubscribed_verdicts(all_figures):
    verdicts = []
    for section in ("4 ranks", "8 ranks"):
        chosen = [f for f in all_figures if f.section == section and f.mode == "cold"]
        verdicts.append(_no_slower(f"shm, {section} on fewer cores: no slower than the best peer at any size", chosen,
                                   lambda f: f.speedup(ORDINARY)))
        large = [f for f in chosen if f.nbytes >= MAPPED_FROM]
        verdicts += [_mean_verdict(f"shm, {section}, ordinary: 1.5 times the best peer, geometric mean", chosen, ORDINARY, 1.5),
                     _mean_verdict(f"shm, {section}, mapped: 3 times the best peer, geometric mean from 4 KiB up", large, MAPPED, 3.0)]
    small = [f.us[ORDINARY] for f in all_figures
             if (f.section, f.op, f.nbytes) == ("4 ranks", "all_reduce", 8) and ORDINARY in f.us]
    verdicts.append(Verdict("shm, 4 ranks: all_reduce of 8 bytes in at most 50 us", small[0] <= SMALL_LIMIT_US if small else None,
                            f"{small[0]:.1f} us" if small else "not measured"))
    return verdicts


def _median_excess(rows):
    """(excess us, raw us) of one driver at one point: the median over rounds of the difference within a round, or None."""
    turns = {}
    for row in rows:
        if row["is_right"] and samples.row_class(row) is not None:
            turn = turns.setdefault((row["round"], samples.row_class(row)), {})
            turn[row["variant"]] = min(row["median_us"], turn.get(row["variant"], math.inf))
    pairs = [(turn["ordinary"] - turn["raw"], turn["raw"]) for turn in turns.values() if len(turn) == 2]
    if not pairs:
        return None
    return statistics.median(d for d, _ in pairs), statistics.median(raw for _, raw in pairs)


def pair_excess(rows):
    """[(label, excess us, share, raw us)]: what Kith's mpi backend takes more than the raw call."""
    excess = []
    for (section, op, nbytes, mode), group in samples.by_point(rows).items():
        for driver in sorted({row["driver"] for row in group if section == "mpi pair"}):
            found = _median_excess([row for row in group if row["driver"] == driver])
            if found is not None:
                label = f"{driver.removeprefix('pair-')}, {op} {nbytes:,} B, {mode.replace('_', ' ')}"
                excess.append((label, found[0], found[0] / found[1], found[1]))
    return excess


def pair_verdict(rows):
    excess = pair_excess(rows)
    failing = [entry for entry in excess if entry[1] > MPI_US and entry[2] > MPI_SHARE]
    text = "mpi: at most 3 % or 150 ns over the raw call"
    if not excess:
        return Verdict(text, None, "not measured")
    label, difference, share, _ = max(excess, key=lambda entry: min(entry[1] / MPI_US, entry[2] / MPI_SHARE))
    return Verdict(text, not failing, f"{len(excess) - len(failing)} of {len(excess)} points; worst {difference * 1000:.0f} ns, "
                   f"{share * 100:.1f} % ({label})")


def tcp_verdict(all_figures):
    return _no_slower("ucx over TCP between two namespaces: no slower than Open MPI's TCP",
                      [f for f in all_figures if f.section == "tcp"], Figure.tcp_speedup)


def bf16_ratios(all_figures):
    """[(label, how many times faster an element of bf16 is)]: all_reduces of as many elements, from 1 MiB of f32."""
    us = {(f.nbytes, name): time for f in all_figures if (f.section, f.op) == ("bf16", "all_reduce") for name, time in f.us.items()}
    classes = {f.nbytes: f.latency_class for f in all_figures if (f.section, f.op) == ("bf16", "all_reduce")}
    ratios = []
    for (nbytes, name), time in sorted(us.items()):
        half = (nbytes // 2, name.replace("kith-shm/", "kith-shm-bf16/"))
        if name in (ORDINARY, MAPPED) and nbytes >= BF16_FROM and half in us and classes[nbytes] == classes[nbytes // 2]:
            ratios.append((f"{name.split('/')[1]}, {nbytes // 4:,} elements, {classes[nbytes]}", time / us[half]))
    return ratios


def bf16_speedup(f):
    """Kith's ordinary bf16 against the best peer that has the type."""
    peer, own = min((f.us[name] for name in BF16_PEERS if name in f.us), default=None), f.us.get(BF16_KITH[0])
    return peer / own if peer and own else None


def bf16_verdicts(all_figures):
    chosen = [f for f in all_figures if f.section == "bf16"]
    return [Verdict("shm, bf16: all_reduce 1.6 times as fast for an element as f32, from 1 MiB of f32 up",
                    *_worst(bf16_ratios(all_figures), BF16_FACTOR, False)),
            _no_slower("shm, bf16, ordinary: as fast as the best peer that has bf16", chosen, bf16_speedup)]


def overhead_verdict(overhead):
    text = "starting a blocking operation: under 100 ns above the backend, no allocation"
    if not overhead:
        return Verdict(text, None, "not measured")
    blocking = [row for row in overhead["rows"] if "wait" not in row["call"]]
    slowest = max(blocking, key=lambda row: row["median_ns"])
    allocations = sum(row["allocations"] for row in blocking)
    return Verdict(text, slowest["median_ns"] < START_LIMIT_NS and allocations == 0,
                   f"slowest {slowest['median_ns']:.0f} ns ({slowest['call']}); {allocations} allocations")


def verdicts(rows, all_figures, overhead):
    return (two_rank_verdicts(all_figures) + oversubscribed_verdicts(all_figures)
            + bf16_verdicts(all_figures) + [pair_verdict(rows), tcp_verdict(all_figures), overhead_verdict(overhead)])
