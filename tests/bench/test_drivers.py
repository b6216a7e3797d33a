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
            if driver.name in ("openmpi", "mpich", "openmpi5", "mpich5"):
                self.assertEqual(self.check(driver, ("raw",)), 2 * (8 * len(SIZES) + 1))

    def test_raw_ucx(self):
        drivers = [driver for driver in self.tools.peers(2) if driver.name == "ucx"]
        if not drivers:
            self.skipTest("UCX is not built in")
        self.assertEqual(self.check(drivers[0], ("raw",)), 2 * 2 * len(SIZES))

    def test_raw_nccl_on_simulated_gpus(self):
        libraries = {name: os.path.join(BUILD, "lib", "simgpu", f"libsim{library}.so") for name, library in
                     (("KITH_CUDART_LIBRARY", "cudart"), ("KITH_NCCL_LIBRARY", "nccl"))}
        if not all(os.path.exists(path) for path in libraries.values()) or not self.tools.has("bench-nccl"):
            self.skipTest("no headers of NCCL, or no simulated GPUs in this build")
        driver = plan.Driver("nccl", [self.tools.program("bench-nccl"), "-n", "2"], ("device",), dict(libraries, KITH_SIMGPU_DEVICES="2"))
        self.assertEqual(self.check(driver, ("device",), (4, 20004)), 2 * 8 * 2)

    def test_gloo(self):
        drivers = [driver for driver in self.tools.peers(2) if driver.name == "gloo"]
        if not drivers:
            self.skipTest("; ".join(self.tools.baseline.missing))  # torch is not among what tests install: 3 GB
        with open(self.tools.baseline.library, "rb") as file:
            library = file.read()
        if b"__asan_init" in library or b"__tsan_init" in library:
            self.skipTest("an interpreter cannot load a library that was built with sanitizers")
        self.assertGreaterEqual(self.check(drivers[0], ("raw",), (20004,)), 2 * 7)

    def command(self, name, ranks, *arguments):
        """Rows of one of kith-bench's commands."""
        path = os.path.join(self.folder.name, f"{name}.json")
        command = [self.tools.program("kith"), "run", "-n", str(ranks), "--bind", "none", "--", self.tools.program("kith-bench"), name,
                   "--backend", "shm", "--json", path, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        self.assertEqual((document["format"], document["ranks"]), (f"kith-bench-{name}-1", ranks))
        return document["rows"]

    def test_two_groups_at_once(self):
        rows = self.command("groups", 4, "--max", "64k", "--max-iterations", "3")
        self.assertEqual([row["nbytes"] for row in rows], [1024, 65536])
        for row in rows:
            self.assertAlmostEqual(row["ratio"], row["both_us"] / max(row["tp_us"], row["dp_us"]), delta=0.01)

    def test_overlap_with_a_product(self):
        rows = self.command("overlap", 2, "--max", "256k", "--max-iterations", "3")
        self.assertEqual([row["arrangement"] for row in rows], ["same cores", "free core"][:len(os.sched_getaffinity(0))])
        for row in rows:
            self.assertGreater(min(row["compute_us"], row["comm_us"], row["both_us"], row["both_cpu_us"]), 0)

    def test_growth_counts_what_a_group_holds(self):
        row, = self.command("growth", 3, "--max-iterations", "3")
        self.assertEqual(row["ranks"], 3)
        self.assertGreater(row["heap_nbytes"], row["group_heap_nbytes"] / 2)
        self.assertGreater(row["group_heap_nbytes"], 1000)
        self.assertGreater(row["group_shared_nbytes"], 1000)
        self.assertGreater(row["group_us"], 0)

    def test_a_mesh_of_four_needs_four_ranks(self):
        done = subprocess.run([self.tools.program("kith"), "run", "-n", "2", "--", self.tools.program("kith-bench"), "groups"],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("there are 2 ranks; a mesh of 2 x 2 needs 4", done.stderr)

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
