# bench/peers/runner.py - goes through a section: rounds over points, every driver at each point.
#
# Order: round, point, driver. The drivers take turns at one point within about a second, in an order that rotates from
# round to round. When the class of flag latency changed meanwhile, those that were measured in another class are asked
# once more at once. A round is not begun after the section's time; one that runs then is cut off, the first one only
# after twice the time.
#
# Whoever needs PATIENCE times what the quickest needed for its answer at a point, and some seconds, has no time there:
# it is left out of that operation's larger sizes, and after the second time of the section. What was waited for it,
# its new start, and what a slow one needs beyond HOPELESS_PEER times the quickest and a second, are not of the section's
# time, so that the others' rounds get no shorter.
#
# SPDX-License-Identifier: BSD-3-Clause
import sys
import time

import samples
import targets
from server import NoAnswer, Server, ServerError

LARGE = 16 << 20      # from here on every second round is enough: these points take most of the time
FIRST_ROUND_SECONDS = 20
HOPELESS_FLOOR = 1.6  # a floor's variant this much above the best one is not asked again on cores of that class
PATIENCE = 20
SLACK_SECONDS = 5
FIRST_ANSWER_SECONDS = 60  # for whoever is asked first, at a size that is the first of its operation


class Runner:
    def __init__(self, store, folder, is_verbose=True):
        self.store = store
        self.folder = folder
        self.is_verbose = is_verbose
        self.hopeless = set()  # (point, contender, class)
        self.latest_class = None
        self.quickest = {}     # (section, op, mode): {nbytes: seconds of the quickest answer}
        self.lost = 0.0        # seconds of this section that count for nobody

    def note(self, text):
        self.store.add({"note": text})
        print(f"note: {text}", file=sys.stderr, flush=True)

    def _start(self, section, servers):
        """Starts the section's drivers. Each is in servers before it runs, so that an interrupt leaves none behind."""
        for driver in section.drivers:
            if self._timeouts(section, driver.name) >= targets.TIMEOUTS:
                continue
            server = Server(driver.name, driver.command, self.folder, driver.env, section.ranks)
            servers.append(server)
            try:
                server.start()
                server.wanted = [v for v in server.variants if not driver.variants or v in driver.variants]
            except ServerError as error:
                self.note(f"{section.name}: left out: {error}")
                servers.remove(server)

    def run(self, section, seconds):
        """Measures until the section's time is used up; the first round may take twice as long."""
        spent = self.store.seconds.get(section.name, 0)
        first = self.store.rounds(section.name)
        if spent >= seconds and first > 0:
            return
        servers = []
        self.lost = 0.0
        try:
            self._start(section, servers)
            begin = time.monotonic() - spent  # starting a dozen programs does not count: it takes as long in a short run
            turn = first
            while servers and (turn == 0 or self._elapsed(begin) < seconds):
                is_whole = self._round(section, servers, turn, begin, seconds)
                if self.is_verbose:
                    print(f"{section.name}: round {turn}{'' if is_whole else ' (cut off)'}, "
                          f"{self._elapsed(begin):.0f} s of {seconds:.0f}" + f", {self.lost:.0f} s lost" * (self.lost > 0),
                          file=sys.stderr, flush=True)
                turn += 1
        finally:
            for server in servers:
                server.stop()

    def _elapsed(self, begin):
        return time.monotonic() - begin - self.lost

    def _round(self, section, servers, turn, begin, seconds):
        # Large points last: when the time is too short, those of all operations are missing rather than whole operations.
        for point in sorted(section.points, key=lambda p: p.nbytes >= LARGE):
            if self._elapsed(begin) > (seconds if turn > 0 else max(2 * seconds, FIRST_ROUND_SECONDS)):
                if turn == 0:
                    self.note(f"{section.name}: out of time before {point.op} of {point.nbytes} B")
                return False
            if point.nbytes >= LARGE and turn % 2 == 1:
                continue
            rows = self._point(section, servers, point, turn)
            elsewhere = {samples.contender(row) for row in rows} - {samples.contender(row) for row in rows
                                                                    if samples.row_class(row) == self.latest_class}
            if elsewhere and self.latest_class is not None:
                rows += self._point(section, servers, point, turn, elsewhere)
            self._mark_hopeless(section, point, rows)
            self.store.add({"section": section.name, "seconds": self._elapsed(begin)})
        return True

    def _point(self, section, servers, point, turn, only=None):
        """The rows of all contenders, or of those in `only`."""
        rows = []
        shift = turn % max(len(servers), 1)
        for server in servers[shift:] + servers[:shift]:
            for variant in server.wanted:
                name = f"{server.name}/{variant}"
                if (only is not None and name not in only) or (point, name, self.latest_class) in self.hopeless:
                    continue
                row = self._ask(section, server, variant, point, turn)
                if row is not None:
                    row["section"] = section.name
                    row["driver"] = server.name
                    self.latest_class = samples.row_class(row) or self.latest_class
                    self.store.add(row)
                    rows.append(row)
        return rows

    def _timeouts(self, section, driver):
        return sum((t["section"], t["driver"]) == (section.name, driver) for t in self.store.timeouts)

    def _limit(self, section, point):
        """Seconds to wait for an answer: by what the quickest needed here, or would need, coming from the next smaller size."""
        known = self.quickest.get((section.name, point.op, point.mode), {})
        sizes = [nbytes for nbytes in known if nbytes <= point.nbytes]
        if not sizes:
            return FIRST_ANSWER_SECONDS
        nearest = max(sizes)
        return PATIENCE * known[nearest] * (point.nbytes / max(nearest, 1) if point.nbytes > nearest else 1) + SLACK_SECONDS

    def _ask(self, section, server, variant, point, turn):
        contender = (section.name, point.op, server.name, variant)
        if server.line is None or any(targets.timeout_covers(t, *contender, point.nbytes) for t in self.store.timeouts):
            return None
        limit = self._limit(section, point)
        begin = time.monotonic()
        try:
            row = server.ask({"op": point.op, "nbytes": point.nbytes, "mode": point.mode, "variant": variant, "round": turn,
                              "budget_ms": section.budget_ms, "min_iterations": section.min_iterations}, limit)
        except ServerError as error:
            self.note(f"{section.name}, {point.op} {point.nbytes} B, {variant}: {error}")
            if isinstance(error, NoAnswer):
                self.store.add({"timeout": {"section": section.name, "op": point.op, "nbytes": point.nbytes, "driver": server.name,
                                            "variant": variant, "limit": limit}})
            self._restart(section, server)
            self.lost += time.monotonic() - begin
            return None
        needed = time.monotonic() - begin
        if row is not None:
            known = self.quickest.setdefault((section.name, point.op, point.mode), {})
            known[point.nbytes] = min(needed, known.get(point.nbytes, needed))
            self.lost += max(0.0, needed - targets.HOPELESS_PEER * known[point.nbytes] - 1)  # a crawl is nobody's time either
        return row

    def _restart(self, section, server):
        if self._timeouts(section, server.name) >= targets.TIMEOUTS:
            self.note(f"{section.name}: {server.name} did not answer in time twice and is left out from here on")
            return
        server.failures = getattr(server, "failures", 0) + 1
        if server.failures >= 5:
            self.note(f"{section.name}: {server.name} failed {server.failures} times and is left out from here on")
            return
        try:
            server.start()
        except ServerError as error:
            self.note(f"{section.name}: left out from here on: {error}")

    def _mark_hopeless(self, section, point, rows):
        floors = [row for row in rows if row["driver"] == "floors"]
        for names in (targets.FLOOR_STAGED, targets.FLOOR_DIRECT):
            self._mark(point, [row for row in floors if row["variant"].startswith(names)], HOPELESS_FLOOR)
        raw = [row for row in rows if row["variant"] == "raw"]
        self._mark(point, raw, targets.HOPELESS_PEER, lambda row: section.ranks > 2 or row["driver"].startswith("gloo"))

    def _mark(self, point, rows, factor, may=lambda row: True):
        for name in {samples.row_class(row) for row in rows} - {None}:
            alike = [row for row in rows if samples.row_class(row) == name]
            best = min(row["median_us"] for row in alike)
            self.hopeless |= {(point, samples.contender(row), name) for row in alike
                              if row["median_us"] > factor * best and may(row)}
