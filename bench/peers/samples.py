# bench/peers/samples.py - rows on disk, and how they are put together.
#
# Rows are appended to a file as they come, one JSON object a line, so that a run that was stopped can go on. Each row
# knows the hand-over time of a flag before and after it. Hosts move virtual CPUs at run time: hyperthreads of one core
# take about 25 ns, two cores on one core complex 50 to 150, two complexes 200 and more, and times change with it. Rows
# are compared only within one class. The bounds lie where no machine has been seen: one inside a cluster of values sorts
# rows of the same cores into two classes.
#
# SPDX-License-Identifier: BSD-3-Clause
import json
import os
import statistics

CLASSES = (("sibling", 0, 40), ("near", 40, 170), ("far", 170, float("inf")))
PREFERENCE = ("near", "far", "sibling")


def latency_class(ns):
    return next(name for name, low, high in CLASSES if low <= ns < high)


def row_class(row):
    """Class of a row; None when it changed during the measurement."""
    before, after = latency_class(row["flag_before_ns"]), latency_class(row["flag_after_ns"])
    return before if before == after else None


class Store:
    """Rows and notes of a run in a file of JSON lines. A run that is not resumed replaces the file with its first result,
    so that one that comes to nothing takes nothing away."""

    def __init__(self, path, is_resumed):
        self.rows = []
        self.seconds = {}
        self.notes = []
        self.timeouts = []  # {"section", "op", "nbytes", "driver", "variant", "limit"}: nobody answered there
        self.extras = []  # anything else, newest first
        if is_resumed and os.path.exists(path):
            self._load(path)
        self.path = path
        self.file = open(path, "a", encoding="utf-8") if is_resumed else None
        self.waiting = []  # notes before the first result

    def _load(self, path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                try:
                    entry = json.loads(line)
                except ValueError:  # the last line of a run that was killed
                    continue
                self._take(entry)

    def _take(self, entry):
        if "op" in entry:
            self.rows.append(entry)
        elif "timeout" in entry:
            self.timeouts.append(entry["timeout"])
        elif "seconds" in entry:
            self.seconds[entry["section"]] = entry["seconds"]
        elif "note" in entry and entry["note"] not in self.notes:
            self.notes.append(entry["note"])
        elif "note" not in entry:
            self.extras.insert(0, entry)

    def add(self, entry):
        self._take(entry)
        if self.file is None and ("note" in entry or "seconds" in entry):
            self.waiting.append(entry)
            return
        if self.file is None:
            self.file = open(self.path, "w", encoding="utf-8")
        for line in [*self.waiting, entry]:
            self.file.write(json.dumps(line) + "\n")
        self.waiting = []
        self.file.flush()

    def close(self):
        if self.file is not None:
            self.file.close()

    def rounds(self, section):
        """Rounds that were begun: the next one has this number."""
        return max((row["round"] + 1 for row in self.rows if row["section"] == section), default=0)


def contender(row):
    return f"{row['driver']}/{row['variant']}"


def merge(rows):
    """{class: {contender: [median of each round]}} of the rows of one point; rows with wrong data count as none."""
    merged = {}
    for row in rows:
        name = row_class(row)
        if name is not None and row["is_right"]:
            merged.setdefault(name, {}).setdefault(contender(row), []).append(row["median_us"])
    return merged


def choose_class(merged, wanted):
    """The class to compare in: the one that has most of the wanted contenders, then most samples, then the usual one."""
    def quality(name):
        found = [merged[name][c] for c in wanted if c in merged[name]]
        return len(found), sum(len(samples) for samples in found), -PREFERENCE.index(name)
    return max(merged, key=quality, default=None)


def medians(merged, name):
    """{contender: median over rounds} in one class."""
    return {c: statistics.median(samples) for c, samples in merged.get(name, {}).items()}


def by_point(rows):
    """{(section, op, nbytes, mode): rows}, in the order of first appearance."""
    grouped = {}
    for row in rows:
        grouped.setdefault((row["section"], row["op"], row["nbytes"], row["mode"]), []).append(row)
    return grouped
