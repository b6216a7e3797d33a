# tests/bench/test_drivers.py - the real drivers: every operation of every variant gives right data, and blocking calls
# allocate nothing.
#
# SPDX-License-Identifier: BSD-3-Clause
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "bench", "peers"))

import plan
import server

BUILD = os.environ.get("KITH_BUILD_DIR")
server.ANSWER_SECONDS = 30
SIZES = (4, 20004, 300000)
OPS = plan.COLLECTIVES + plan.MESSAGES


@unittest.skipUnless(BUILD, "KITH_BUILD_DIR is not set")
class Drivers(unittest.TestCase):
    def setUp(self):
        self.tools = plan.Tools(BUILD)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def check(self, driver, expected_variants, sizes=SIZES):
        """Asks for every operation; returns how many rows came."""
        one = server.Server(driver.name, driver.command + ["--max", "512k"], self.folder.name, driver.env)
        one.start()
        self.addCleanup(one.stop)
        for variant in expected_variants:
            self.assertIn(variant, one.variants)
        rows = 0
        for mode in ("cold", "back_to_back"):
            for op in OPS:
                for nbytes in sizes if op != "barrier" else (0,):
                    for variant in one.variants:
                        row = one.ask({"op": op, "nbytes": nbytes, "mode": mode, "variant": variant, "round": 0, "budget_ms": 1,
                                       "min_iterations": 3, "max_iterations": 4})
                        if row is not None:
                            self.assertTrue(row["is_right"], f"{row}\n{one.last_words()}")
                            self.assertGreaterEqual(row["nbytes"], nbytes)
                            self.assertGreater(row["median_us"], 0)
                            rows += 1
        self.assertIsNone(one.ask({"op": "all_reduce", "nbytes": 1 << 20, "variant": one.variants[0]}))  # above --max
        self.assertIsNone(one.ask({"op": "no such operation", "variant": one.variants[0]}))
        one.stop()
        self.assertEqual(one.process.returncode, 0, one.last_words())
        return rows

    def test_floors_of_two_ranks(self):
        rows = self.check(self.tools.floors(2), ("cells", "staged-4", "halves-16", "direct", "whole", "flags"))
        self.assertGreater(rows, 100)

    def test_floors_of_three_ranks(self):
        rows = self.check(self.tools.floors(3), ("cells", "direct", "whole", "flags"))
        self.assertGreater(rows, 50)

    def test_kith_over_shm(self):
        for ranks in (2, 3):
            rows = self.check(self.tools.kith("shm", ranks), ("ordinary", "mapped"), (4, 20004))
            self.assertGreaterEqual(rows, 2 * 2 * 15)

    def test_raw_mpi(self):
        drivers = self.tools.peers(2)
        if not drivers:
            self.skipTest("no MPI is built in")
        for driver in drivers:
            if driver.name != "openmpi-ucx":
                self.assertEqual(self.check(driver, ("raw",)), 2 * (7 * len(SIZES) + 1))

    @unittest.skipUnless(BUILD, "KITH_BUILD_DIR is not set")
    def test_blocking_calls_allocate_nothing(self):
        path = os.path.join(self.folder.name, "overhead.json")
        # ranks do not wait for one another here: others come to rank 0's store while it still measures
        command = [self.tools.program("kith"), "run", "-n", "4", "--", self.tools.program("kith-bench"), "overhead", "--json", path]
        done = subprocess.run(command, env={**os.environ, "KITH_BACKEND_PATH": self.tools.modules}, capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        calls = {row["call"]: row["allocations"] for row in document["rows"] if "wait" not in row["call"]}
        self.assertGreaterEqual(len(calls), 9)
        self.assertEqual(calls, dict.fromkeys(calls, 0))


class Sweep(unittest.TestCase):
    @unittest.skipUnless(BUILD, "KITH_BUILD_DIR is not set")
    def test_a_sweep_writes_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.json")
            done = subprocess.run([plan.Tools(BUILD).program("bench-floors"), "-n", "2", "--op", "all_gather,barrier", "--variants",
                                   "direct,flags", "--min", "4", "--max", "1k", "--mode", "both", "--budget-ms", "1", "--json", path],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                rows = json.load(file)["rows"]
        # all_gather on two ranks starts at 8 bytes: 8, 16, 64, 256, 1024
        self.assertEqual([(r["op"], r["nbytes"]) for r in rows if r["mode"] == "cold"],
                         [("all_gather", n) for n in (8, 16, 64, 256, 1024)] + [("barrier", 0)])
        self.assertEqual(len(rows), 12)
        self.assertTrue(all(r["is_right"] for r in rows))


if __name__ == "__main__":
    unittest.main()
