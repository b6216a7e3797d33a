# tests/tools/bench/test_bench_device.py - kith bench on memory of simulated GPUs: over NCCL, and through the host where two ranks
# share a GPU.
#
# SPDX-License-Identifier: BSD-3-Clause
import unittest

from kith_bench import COLLECTIVES, PATTERNS, BRIEF, KITH, BenchCase

ALL = ",".join(COLLECTIVES + PATTERNS)


class Devices(BenchCase):
    def test_over_nccl(self):
        rows = self.bench(ALL, "-n", "3", "--memory", "device", "--sizes", "64,30000", "--place", "both", KITH_SIMGPU_DEVICES="3")
        self.check_rows(rows)
        self.assertEqual({row["backend"] for row in rows if row["op"] != "barrier"}, {"nccl"})
        self.assertEqual({row["memory"] for row in rows}, {"device"})

    def test_through_the_host(self):
        rows = self.bench(ALL, "-n", "2", "--memory", "device,host", "--sizes", "64", KITH_SIMGPU_DEVICES="1")
        self.check_rows(rows)
        self.assertEqual({row["backend"] for row in rows if row["op"] == "all_reduce"}, {"staged", "shm"})

    def test_overlap(self):
        rows = self.bench("all_reduce", "-n", "2", "--memory", "device", "--sizes", "8k", "--overlap", KITH_SIMGPU_DEVICES="2")
        self.check_rows(rows)
        self.check_overlap(rows[0])

    def test_more_than_a_device_has(self):
        run = self.run_command([KITH, "bench", "all_reduce", "-n", "2", "--memory", "device", "--sizes", "700M", *BRIEF],
                               KITH_SIMGPU_DEVICES="2")
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn("of memory of the device, which has", run.stderr)

    def test_no_device(self):
        run = self.run_command([KITH, "bench", "all_reduce", "--memory", "device", *BRIEF], KITH_SIMGPU_DEVICES="0")
        self.assertEqual(run.returncode, 2)
        self.assertIn("kith bench: ", run.stderr)


if __name__ == "__main__":
    unittest.main()
