# tests/tools/bench/kith_bench.py - what the tests of kith bench share: running it, and looking at its rows.
#
# SPDX-License-Identifier: BSD-3-Clause
import json
import os
import subprocess
import tempfile
import unittest

KITH = os.environ["KITH_BIN"]
BUILD = os.environ["KITH_BUILD_DIR"]
COLLECTIVES = ["all_reduce", "reduce_scatter", "reduce_scatter_v", "all_gather", "all_gather_v", "broadcast", "reduce", "gather",
               "scatter", "gather_v", "scatter_v", "all_to_all", "all_to_all_v", "barrier"]
PATTERNS = ["ping_pong", "bidirectional", "many_to_one", "ring_exchange", "all_pairs"]
PLACED = set(COLLECTIVES) - {"broadcast", "all_to_all_v", "barrier"}
NAMES = ["op", "backend", "link", "dtype", "redop", "ranks", "nbytes", "time_us_median", "time_us_min", "time_us_p99", "algbw_gbps",
         "busbw_gbps", "errors"]
BRIEF = ["--budget", "0.0005"]  # 11 samples, whatever they say


def factor(op, n):
    if op == "all_reduce":
        return 2 * (n - 1) / n
    if op in ("broadcast", "reduce", "ping_pong", "bidirectional", "ring_exchange", "all_pairs"):
        return 1
    return {"barrier": 0, "many_to_one": n - 1}.get(op, (n - 1) / n)


def moved_nbytes(row):
    """Nothing comes in when a root has no other rank."""
    return 0 if row["op"] == "many_to_one" and row["ranks"] == 1 else row["nbytes"]


class BenchCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_command(self, command, stdout=subprocess.PIPE, **environment):
        keep = {name: value for name, value in os.environ.items() if name not in ("KITH_RANK", "KITH_SIZE", "KITH_BACKEND")}
        return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, timeout=100,
                              env={**keep, **environment}, cwd=self.folder)

    def bench(self, *words, status=0, **environment):
        """The rows that kith bench prints."""
        run = self.run_command([KITH, "bench", *words, *BRIEF, "--json"], **environment)
        self.assertEqual(run.returncode, status, run.stderr)
        return json.loads(run.stdout)

    def check_rows(self, rows, is_checked=True):
        for row in rows:
            self.assertEqual(list(row)[:len(NAMES)], NAMES)
            wanted = 0 if is_checked and row["op"] != "barrier" else -1
            self.assertEqual(row["errors"], wanted, row)
            self.assertGreaterEqual(row["samples"], 11)
            self.assertLessEqual(row["time_us_min"], row["time_us_p25"])
            self.assertLessEqual(row["time_us_p25"], row["time_us_p75"])
            self.assertLessEqual(row["time_us_p99"], row["time_us_max"])
            self.assertEqual(row["time_us_median"] is None, not row["reliable"])
            self.assertEqual(row["algbw_gbps"] is None, not row["reliable"])
            if row["reliable"]:
                self.assertAlmostEqual(row["algbw_gbps"] * row["time_us_median"] * 1e3, moved_nbytes(row), delta=1e-6 * row["nbytes"])
                self.assertAlmostEqual(row["busbw_gbps"], row["algbw_gbps"] * factor(row["op"], row["ranks"]), places=9)

    def check_overlap(self, row):
        """What is hidden is there when all three times are known."""
        self.assertEqual(row["mode"], "overlap")
        alone, compute, together = row["alone_us"], row["compute_us"], row["time_us_median"]
        if None in (alone, compute, together):
            self.assertIsNone(row["hidden_percent"])
        else:
            hidden = 100 * (alone + compute - together) / alone
            self.assertAlmostEqual(row["hidden_percent"], min(100, hidden), delta=1e-6 * abs(hidden))
