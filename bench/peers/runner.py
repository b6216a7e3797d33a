# bench/peers/runner.py - goes through a section: rounds over points, every driver at each point.
#
# Order: round, point, driver. The drivers take turns at one point within about a second, in an order that rotates from
# round to round. When the class of flag latency changed meanwhile, the point is measured once more at once. A round is
# not begun after the section's time; one that runs then is cut off, the first one only after twice the time.
#
# SPDX-License-Identifier: BSD-3-Clause
import sys
import time

import samples
import targets
from server import Server, ServerError

LARGE = 16 << 20      # from here on every second round is enough: these points take most of the time
FIRST_ROUND_SECONDS = 20
HOPELESS_FLOOR = 1.6  # a floor's variant this much above the best one is not asked again
HOPELESS_PEER = 5.0   # nor a peer, in the oversubscribed sections; nor Gloo, whose points take milliseconds


class Runner:
    def __init__(self, store, folder, is_verbose=True):
        self.store = store
        self.folder = folder
        self.is_verbose = is_verbose
        self.hopeless = set()  # (point, contender)

    def note(self, text):
        self.store.add({"note": text})
        print(f"note: {text}", file=sys.stderr, flush=True)

    def start(self, section):
        servers = []
        for driver in section.drivers:
            server = Server(driver.name, driver.command, self.folder, driver.env)
            try:
                server.start()
                server.wanted = [v for v in server.variants if not driver.variants or v in driver.variants]
                servers.append(server)
            except ServerError as error:
                self.note(f"{section.name}: left out: {error}")
        return servers

    def run(self, section, seconds):
        """Measures until the section's time is used up; the first round may take twice as long."""
        spent = self.store.seconds.get(section.name, 0)
        first = self.store.rounds(section.name)
        if spent >= seconds and first > 0:
            return
        servers = self.start(section)
        begin = time.monotonic() - spent  # starting a dozen programs does not count: it takes as long in a short run
        try:
            turn = first
            while servers and (turn == 0 or time.monotonic() - begin < seconds):
                is_whole = self._round(section, servers, turn, begin, seconds)
                if self.is_verbose:
                    print(f"{section.name}: round {turn}{'' if is_whole else ' (cut off)'}, "
                          f"{time.monotonic() - begin:.0f} s of {seconds:.0f}", file=sys.stderr, flush=True)
                turn += 1
        finally:
            for server in servers:
                server.stop()

    def _round(self, section, servers, turn, begin, seconds):
        for point in section.points:
            if time.monotonic() - begin > (seconds if turn > 0 else max(2 * seconds, FIRST_ROUND_SECONDS)):
                if turn == 0:
                    self.note(f"{section.name}: out of time before {point.op} of {point.nbytes} B")
                return False
            if point.nbytes >= LARGE and turn % 2 == 1:
                continue
            rows = self._point(section, servers, point, turn)
            if len({samples.row_class(row) for row in rows}) > 1:
                rows += self._point(section, servers, point, turn)
            self._mark_hopeless(section, point, rows)
            self.store.add({"section": section.name, "seconds": time.monotonic() - begin})
        return True

    def _point(self, section, servers, point, turn):
        rows = []
        shift = turn % max(len(servers), 1)
        for server in servers[shift:] + servers[:shift]:
            for variant in server.wanted:
                if (point, f"{server.name}/{variant}") in self.hopeless:
                    continue
                row = self._ask(section, servers, server, variant, point, turn)
                if row is not None:
                    row["section"] = section.name
                    row["driver"] = server.name
                    self.store.add(row)
                    rows.append(row)
        return rows

    def _ask(self, section, servers, server, variant, point, turn):
        if server.line is None:
            return None
        try:
            return server.ask({"op": point.op, "nbytes": point.nbytes, "mode": point.mode, "variant": variant, "round": turn,
                               "budget_ms": section.budget_ms, "min_iterations": section.min_iterations})
        except ServerError as error:
            self.note(f"{section.name}, {point.op} {point.nbytes} B, {variant}: {error}")
            self._restart(section, servers, server)
            return None

    def _restart(self, section, servers, server):
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
        self._mark(point, raw, HOPELESS_PEER, lambda row: section.ranks > 2 or row["driver"].startswith("gloo"))

    def _mark(self, point, rows, factor, may=lambda row: True):
        for name in {samples.row_class(row) for row in rows} - {None}:
            alike = [row for row in rows if samples.row_class(row) == name]
            best = min(row["median_us"] for row in alike)
            self.hopeless |= {(point, samples.contender(row)) for row in alike
                              if row["median_us"] > factor * best and may(row)}
