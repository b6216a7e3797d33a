# bench/peers/regress.py - is Kith slower than in a run that was kept? `make bench-check`.
#
#     python3 bench/peers/regress.py --baseline OLD.json [NEW.json] [--least PERCENT]
#
# OLD and NEW are peers.json of two runs (NEW: build/release/bench/peers.json). Both must be of the same kind of
# machine, which is not checked: what is compared is Kith against the others of its own run. At each point that both
# runs have, in the same latency class,
#
#     ratio = (Kith now / Kith then) / drift
#
# where drift is the median over the peers and floors of (now / then): a machine that is slower today is slower for all.
# The bound is what noise explains: 1 + max(PERCENT, 2 (s_now + s_then)), s being the relative spread of Kith's medians
# over rounds (half of their range, or 5 % where a run has one round). A point counts as a regression when its ratio is
# above its bound; improvements are told alike. So that one point in a hundred does not raise an alarm, an operation is
# only slower when its geometric mean is above 1 + PERCENT / 2 or when a fifth of its points are.
#
# Exit status: 0 nothing is slower, 1 something is, 2 the files cannot be compared.
#
# SPDX-License-Identifier: BSD-3-Clause
import argparse
import json
import math
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import samples

FORMAT = "kith-bench-peers-1"
LEAST_PERCENT = 8.0
ONE_ROUND_SPREAD = 0.05
POINTS_SHARE = 0.2


class Unusable(Exception):
    """A file that is no result of bench-peers."""


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError) as error:
        raise Unusable(f"{path}: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT or not document.get("rows"):
        raise Unusable(f"{path}: no results of bench-peers ({FORMAT})")
    return document["rows"]


def medians(rows):
    """{(section, op, nbytes, mode, class): {contender: [median of each round]}}"""
    found = {}
    for key, group in samples.by_point(rows).items():
        for name, contenders in samples.merge(group).items():
            found[(*key, name)] = contenders
    return found


def spread(values):
    """Relative: half the range over the median."""
    if len(values) < 2:
        return ONE_ROUND_SPREAD
    return (max(values) - min(values)) / 2 / statistics.median(values)


def is_own(contender):
    return contender.startswith("kith-")


def drift(now, then):
    """How much slower everybody else is now; 1 where nobody else was measured twice."""
    others = [statistics.median(now[c]) / statistics.median(then[c]) for c in now if c in then and not is_own(c)]
    return statistics.median(others) if others else 1.0


class Change:
    """One contender at one point."""

    def __init__(self, key, contender, ratio, bound):
        self.section, self.op, self.nbytes, self.mode, self.latency_class = key
        self.contender, self.ratio, self.bound = contender, ratio, bound

    def verdict(self):
        if self.ratio > self.bound:
            return "slower"
        return "faster" if self.ratio < 1 / self.bound else "~"


def compare(old_rows, new_rows, least_percent=LEAST_PERCENT):
    """All points that both have, as Changes."""
    old, new = medians(old_rows), medians(new_rows)
    changes = []
    for key in new:
        if key not in old:
            continue
        shift = drift(new[key], old[key])
        for contender in filter(is_own, new[key]):
            if contender in old[key]:
                now, then = new[key][contender], old[key][contender]
                ratio = statistics.median(now) / statistics.median(then) / shift
                bound = 1 + max(least_percent / 100, 2 * (spread(now) + spread(then)))
                changes.append(Change(key, contender, ratio, bound))
    return changes


def summaries(changes, least_percent=LEAST_PERCENT):
    """[(contender, section, op, points, geometric mean, slower points, is it slower?)]"""
    grouped = {}
    for change in changes:
        grouped.setdefault((change.contender, change.section, change.op), []).append(change)
    result = []
    for (contender, section, op), group in grouped.items():
        mean = math.exp(statistics.mean(math.log(c.ratio) for c in group))
        slower = sum(c.verdict() == "slower" for c in group)
        noise = statistics.median(c.bound for c in group) - 1
        is_slower = (mean > 1 + max(least_percent / 200, noise / math.sqrt(len(group)))) or slower >= max(2, POINTS_SHARE * len(group))
        is_slower = is_slower or (len(group) == 1 and slower == 1)
        result.append((contender, section, op, len(group), mean, slower, is_slower))
    return result


def report(changes, found):
    lines = [f"{'contender':<24} {'section':<18} {'operation':<16} {'points':>6} {'ratio':>7} {'slower':>6}"]
    for contender, section, op, count, mean, slower, is_slower in found:
        lines.append(f"{contender:<24} {section:<18} {op:<16} {count:>6} {mean:>7.3f} {slower:>6}{'  SLOWER' if is_slower else ''}")
    marked = [c for c in changes if c.verdict() != "~"]
    if marked:
        lines += ["", "Beyond noise (now / then, the others' drift taken out; bound):"]
        lines += [f"  {c.verdict()}: {c.contender}, {c.section}, {c.op} {c.nbytes:,} B, {c.mode}, {c.latency_class}: {c.ratio:.2f} "
                  f"({c.bound:.2f})" for c in sorted(marked, key=lambda c: -c.ratio)]
    return "\n".join(lines)


def check(old_path, new_path, least_percent=LEAST_PERCENT):
    try:
        changes = compare(load(old_path), load(new_path), least_percent)
    except Unusable as error:
        print(f"bench-check: {error}", file=sys.stderr)
        return 2
    if not changes:
        print(f"bench-check: {old_path} and {new_path} have no point in common", file=sys.stderr)
        return 2
    found = summaries(changes, least_percent)
    print(report(changes, found))
    return 1 if any(is_slower for *_, is_slower in found) else 0


def main():
    parser = argparse.ArgumentParser(prog="bench/peers/regress.py", description="Kith now against a run that was kept.")
    parser.add_argument("--baseline", required=True, help="peers.json of the earlier run")
    parser.add_argument("new", nargs="?", default="build/release/bench/peers.json", help="peers.json of the later one")
    parser.add_argument("--least", type=float, default=LEAST_PERCENT, help=f"smallest change that counts, percent (default {LEAST_PERCENT:g})")
    arguments = parser.parse_args()
    return check(arguments.baseline, arguments.new, arguments.least)


if __name__ == "__main__":
    sys.exit(main())
