# tests/bench/test_peers.py - bench/peers: classes, merging, ratios, verdicts, the report, the plan, restarting.
#
# SPDX-License-Identifier: BSD-3-Clause
import contextlib
import copy
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "bench", "peers"))

import baseline
import commands
import markdown
import plan
import regress
import samples
import server
import runner
import targets
from runner import Runner


def row(contender, us, op="all_reduce", nbytes=4096, section="2 ranks", mode="cold", flag=(57, 58), turn=0, is_right=True):
    driver, variant = contender.split("/")
    return {"driver": driver, "variant": variant, "op": op, "nbytes": nbytes, "section": section, "mode": mode, "round": turn,
            "median_us": us, "flag_before_ns": flag[0], "flag_after_ns": flag[1], "switches": 0, "ranks": 2, "is_right": is_right}


class Classes(unittest.TestCase):
    def test_latency_has_three_classes(self):
        self.assertEqual([samples.latency_class(ns) for ns in (22, 52, 57, 147, 200, 250)],
                         ["sibling", "near", "near", "near", "far", "far"])

    def test_a_row_during_a_move_has_no_class(self):
        self.assertEqual(samples.row_class(row("mpich/raw", 1, flag=(57, 60))), "near")
        self.assertIsNone(samples.row_class(row("mpich/raw", 1, flag=(57, 240))))

    def test_rows_merge_inside_their_class_only(self):
        rows = [row("mpich/raw", 1.0), row("mpich/raw", 3.0, turn=1), row("mpich/raw", 9.0, flag=(240, 250)),
                row("mpich/raw", 100.0, flag=(50, 250))]
        self.assertEqual(samples.merge(rows), {"near": {"mpich/raw": [1.0, 3.0]}, "far": {"mpich/raw": [9.0]}})
        self.assertEqual(samples.medians(samples.merge(rows), "near"), {"mpich/raw": 2.0})

    def test_wrong_data_do_not_count(self):
        self.assertEqual(samples.merge([row("mpich/raw", 1.0, is_right=False)]), {})

    def test_the_class_with_most_contenders_is_chosen(self):
        rows = [row("mpich/raw", 1), row("mpich/raw", 1), row("mpich/raw", 1), row("mpich/raw", 2, flag=(240, 240)),
                row("openmpi/raw", 2, flag=(240, 240))]
        self.assertEqual(samples.choose_class(samples.merge(rows), targets.PEERS), "far")
        self.assertEqual(samples.choose_class(samples.merge(rows[:4]), targets.PEERS), "near")
        self.assertIsNone(samples.choose_class({}, targets.PEERS))


class Figures(unittest.TestCase):
    def figure(self, rows):
        made = targets.figures(rows)
        self.assertEqual(len(made), 1)
        return made[0]

    def test_best_peer_and_floors_are_minima(self):
        f = self.figure([row("openmpi/raw", 4.0), row("mpich/raw", 3.0), row("kith-shm/ordinary", 2.0), row("kith-shm/mapped", 0.5),
                         row("floors/staged-4", 1.9), row("floors/halves-16", 1.6), row("floors/direct", 0.5),
                         row("floors/whole+stream", 0.4), row("kith-ucx/ordinary", 0.1)])
        self.assertEqual(f.best_peer, "mpich/raw")
        self.assertAlmostEqual(f.speedup(targets.ORDINARY), 1.5)
        self.assertAlmostEqual(f.speedup(targets.MAPPED), 6.0)
        self.assertEqual(f.floors, {"staged": (1.6, "halves-16"), "direct": (0.4, "whole+stream")})
        self.assertAlmostEqual(f.over_floor(targets.ORDINARY, "staged"), 1.25)
        self.assertAlmostEqual(f.over_floor(targets.MAPPED, "direct"), 1.25)

    def test_a_fast_peer_of_another_class_is_not_compared(self):
        f = self.figure([row("mpich/raw", 3.0), row("kith-shm/ordinary", 2.0), row("openmpi/raw", 0.1, flag=(24, 24))])
        self.assertEqual(f.best_peer, "mpich/raw")

    def test_what_is_missing_gives_no_ratio(self):
        f = self.figure([row("mpich/raw", 3.0)])
        self.assertIsNone(f.speedup(targets.ORDINARY))
        self.assertIsNone(f.over_floor(targets.ORDINARY, "staged"))

    def test_geometric_mean(self):
        self.assertAlmostEqual(targets.geometric_mean([1.0, 4.0, None]), 2.0)
        self.assertIsNone(targets.geometric_mean([]))


def two_ranks(ordinary, mapped, peer=(1.0, 10.0), floor=(0.4, 4.0)):
    """Rows of all_reduce at 1 KiB and 64 KiB."""
    rows = []
    for i, nbytes in enumerate((1024, 65536)):
        rows += [row("openmpi/raw", peer[i], nbytes=nbytes), row("kith-shm/ordinary", ordinary[i], nbytes=nbytes),
                 row("kith-shm/mapped", mapped[i], nbytes=nbytes), row("floors/staged-4", floor[i], nbytes=nbytes),
                 row("floors/direct", floor[i] / 4, nbytes=nbytes)]
    return rows


class Verdicts(unittest.TestCase):
    def verdicts(self, rows, overhead=None, answers=None):
        made = targets.verdicts(rows, targets.figures(rows), overhead) + commands.verdicts(answers or {})
        return {v.text: v for v in made}

    def met(self, rows, beginning, overhead=None, answers=None):
        found = [v for text, v in self.verdicts(rows, overhead, answers).items() if text.startswith(beginning)]
        self.assertEqual(len(found), 1, beginning)
        return found[0].is_met

    def test_all_met(self):
        rows = two_ranks((0.5, 5.0), (0.5, 1.2))
        for text in ("shm, ordinary: as fast", "shm, ordinary: 1.5", "shm, ordinary: within", "shm, mapped: within", "shm, mapped: 3"):
            self.assertTrue(self.met(rows, text), text)

    def test_one_slow_size_is_seen(self):
        rows = two_ranks((1.01, 5.0), (0.5, 1.2))
        self.assertFalse(self.met(rows, "shm, ordinary: as fast"))
        self.assertFalse(self.met(rows, "shm, ordinary: 1.5"))
        self.assertFalse(self.met(rows, "shm, ordinary: within"))

    def test_mapped_counts_from_4_kib(self):
        self.assertTrue(self.met(two_ranks((0.5, 5.0), (99.0, 1.2)), "shm, mapped: within"))
        self.assertFalse(self.met(two_ranks((0.5, 5.0), (0.1, 1.4)), "shm, mapped: within"))
        self.assertFalse(self.met(two_ranks((0.5, 5.0), (0.1, 4.0)), "shm, mapped: 3"))

    def test_nothing_measured_is_neither_met_nor_missed(self):
        for verdict in self.verdicts([]).values():
            self.assertIsNone(verdict.is_met)

    def test_oversubscribed(self):
        rows = [row("openmpi/raw", 10, section="4 ranks", nbytes=8), row("kith-shm/ordinary", 9, section="4 ranks", nbytes=8)]
        self.assertTrue(self.met(rows, "shm, 4 ranks on"))
        self.assertTrue(self.met(rows, "shm, 4 ranks: all_reduce"))
        rows[1]["median_us"] = 51
        self.assertFalse(self.met(rows, "shm, 4 ranks on"))
        self.assertFalse(self.met(rows, "shm, 4 ranks: all_reduce"))

    def pair(self, raw, ordinary):
        rows = []
        for turn in range(3):
            # a drift that both see does not count
            rows += [row("pair-mpich/raw", raw + turn, section="mpi pair", turn=turn),
                     row("pair-mpich/ordinary", ordinary + turn, section="mpi pair", turn=turn)]
        return rows

    def test_mpi_is_judged_by_the_difference_inside_a_round(self):
        self.assertTrue(self.met(self.pair(1.0, 1.14), "mpi"))     # 140 ns
        self.assertTrue(self.met(self.pair(100.0, 102.9), "mpi"))  # 2.9 %
        self.assertFalse(self.met(self.pair(1.0, 1.2), "mpi"))
        self.assertFalse(self.met(self.pair(100.0, 104.0), "mpi"))

    def test_overhead(self):
        def overhead(ns, allocations):
            return {"rows": [{"call": "barrier", "min_ns": 1, "median_ns": ns, "allocations": allocations},
                             {"call": "all_reduce_start, wait", "min_ns": 1, "median_ns": 500, "allocations": 9}]}
        self.assertTrue(self.met([], "starting", overhead(99, 0)))
        self.assertFalse(self.met([], "starting", overhead(101, 0)))
        self.assertFalse(self.met([], "starting", overhead(50, 1)))

    def test_tcp(self):
        rows = [row("kith-ucx-tcp/ordinary", 20, section="tcp"), row("openmpi-tcp/raw", 25, section="tcp")]
        self.assertTrue(self.met(rows, "ucx over TCP"))
        rows[0]["median_us"] = 26
        self.assertFalse(self.met(rows, "ucx over TCP"))


    def test_ucx_inside_a_node_and_256_mib_are_judged_with_two_ranks(self):
        rows = two_ranks((0.5, 5.0), (0.5, 1.2)) + [row("kith-ucx/ordinary", 0.9, nbytes=1024)]
        self.assertTrue(self.met(rows, "ucx inside"))
        rows += [row("gloo/raw", 1.0, section="256 MiB", nbytes=256 << 20), row("kith-ucx/ordinary", 1.1, section="256 MiB", nbytes=256 << 20),
                 row("kith-shm/ordinary", 1.2, section="256 MiB", nbytes=256 << 20)]
        self.assertFalse(self.met(rows, "ucx inside"))
        self.assertFalse(self.met(rows, "shm, ordinary: as fast"))

    def bf16(self, f32_us, bf16_us, peer_us=99.0):
        return [row("kith-shm/ordinary", f32_us, section="bf16", nbytes=2 << 20),
                row("kith-shm-bf16/ordinary", bf16_us, section="bf16", nbytes=1 << 20),
                row("mpich5-bf16/raw", peer_us, section="bf16", nbytes=1 << 20)]

    def test_bf16_is_compared_by_elements(self):
        self.assertTrue(self.met(self.bf16(17, 10), "shm, bf16: all_reduce"))
        self.assertFalse(self.met(self.bf16(15, 10), "shm, bf16: all_reduce"))
        self.assertTrue(self.met(self.bf16(17, 10), "shm, bf16, ordinary"))
        self.assertFalse(self.met(self.bf16(17, 10, 9.0), "shm, bf16, ordinary"))
        apart = self.bf16(17, 10)
        apart[0]["flag_before_ns"] = apart[0]["flag_after_ns"] = 240  # measured on other cores: says nothing
        self.assertIsNone(self.met(apart, "shm, bf16: all_reduce"))

    def test_groups_at_once(self):
        answers = copy.deepcopy(ANSWERS)
        self.assertTrue(self.met([], "two groups at once", None, answers))
        answers["groups"]["rows"][1]["ratio"] = 1.11
        self.assertFalse(self.met([], "two groups at once", None, answers))

    def test_overlap_is_judged_by_processor_time_and_by_what_is_hidden(self):
        answers = copy.deepcopy(ANSWERS)
        self.assertTrue(self.met([], "16 MiB all_reduce beside a product on the same", None, answers))
        self.assertTrue(self.met([], "16 MiB all_reduce beside a product with a free", None, answers))
        answers["overlap"]["rows"][0]["both_cpu_us"] = 301
        answers["overlap"]["rows"][1]["hidden_percent"] = 89
        self.assertFalse(self.met([], "16 MiB all_reduce beside a product on the same", None, answers))
        self.assertFalse(self.met([], "16 MiB all_reduce beside a product with a free", None, answers))

    def test_memory_of_a_group_may_grow_with_its_peers(self):
        answers = copy.deepcopy(ANSWERS)
        self.assertTrue(self.met([], "shm, memory of one more group, heap", None, answers))
        self.assertTrue(self.met([], "shm, memory of one more group, pages", None, answers))
        self.assertIsNone(self.met([], "ucx, memory of one more group, heap", None, answers))
        answers["growth"]["rows"][0]["group_heap_nbytes"] = 65536 + 256 + 1
        self.assertFalse(self.met([], "shm, memory of one more group, heap", None, answers))
        self.assertTrue(self.met([], "shm, memory of one more group, pages", None, answers))


def growth_row(ranks, heap):
    return {"backend": "shm", "ranks": ranks, "all_reduce_us": 1.0, "barrier_us": 1.0, "join_ms": 9.0, "group_us": 100.0, "heap_nbytes": heap,
            "group_heap_nbytes": heap, "resident_nbytes": 1e5, "group_resident_nbytes": 1e4, "group_shared_nbytes": 2e4,
            "group_mapped_nbytes": 1e6}


ANSWERS = {
    "groups": {"rows": [{"nbytes": 1024, "tp_us": 9.0, "dp_us": 10.0, "both_us": 9.9, "ratio": 0.99},
                        {"nbytes": 4096, "tp_us": 9.0, "dp_us": 10.0, "both_us": 11.0, "ratio": 1.1}]},
    "overlap": {"rows": [{"arrangement": name, "nbytes": 16 << 20, "compute_us": 100, "comm_us": 70, "both_us": 107, "hidden_percent": 90,
                          "compute_cpu_us": 200, "comm_cpu_us": 100, "both_cpu_us": 300} for name in ("same cores", "free core")]},
    "growth": {"rows": [growth_row(2, 65536 + 256), growth_row(64, 65536 + 63 * 256)]},
    "overhead": {"rows": [{"call": "barrier", "min_ns": 1, "median_ns": 50.0, "allocations": 0}]},
}


class Report(unittest.TestCase):
    def setUp(self):
        self.rows = two_ranks((0.5, 5.0), (0.5, 1.2))
        self.figures = targets.figures(self.rows)
        run = {"command": "make bench-peers", "date": "2000-01-01", "minutes": 3, "machine": {"processor": "one"}, "rows": self.rows,
               "notes": ["a note"], "answers": ANSWERS}
        self.text = markdown.report(run, self.figures, targets.verdicts(self.rows, self.figures, ANSWERS["overhead"]))

    def test_every_table_is_rectangular(self):
        lines = self.text.splitlines()
        for above, below in zip(lines, lines[1:]):
            if above.startswith("|") and below.startswith("|"):
                self.assertEqual(above.count("|"), below.count("|"), f"{above}\n{below}")

    def test_numbers_are_in_the_table(self):
        line = next(line for line in self.text.splitlines() if line.startswith("| 65,536 |"))
        self.assertEqual([cell.strip() for cell in line.strip("|").split("|")],
                         ["65,536", "near", "5", "1.2", "10", "4 (staged-4)", "1 (direct)", "2.00", "1.25", "8.33", "1.20"])
        self.assertIn("a note", self.text)
        self.assertIn("near", self.text)

    def test_it_goes_between_the_marks(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "page.md")
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"before\n{markdown.BEGIN}\nold\n{markdown.END}\nafter\n")
            markdown.put_into(path, "new\n")
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), f"before\n{markdown.BEGIN}\nnew\n{markdown.END}\nafter\n")
            with open(path, "w", encoding="utf-8") as file:
                file.write("no marks")
            with self.assertRaises(ValueError):
                markdown.put_into(path, "new\n")


    def test_a_library_with_several_settings_has_one_column(self):
        rows = self.rows + [row("openmpi5/raw", 7.0, nbytes=65536), row("openmpi5-sm/raw", 6.0, nbytes=65536), row("gloo/raw", 900.0, nbytes=65536)]
        line = next(line for line in markdown.op_table(targets.figures(rows)) if line.startswith("| 65,536 |"))
        self.assertEqual([cell.strip() for cell in line.strip("|").split("|")][2:7], ["5", "1.2", "10", "6", "900"])
        self.assertEqual(targets.figures(rows)[1].best_peer, "openmpi5-sm/raw")

    def test_ratios_have_a_line_for_an_operation_and_a_column_for_a_size(self):
        rows = self.rows + [row("openmpi/raw", 3.0, section="4 ranks", nbytes=64), row("kith-shm/ordinary", 4.0, section="4 ranks", nbytes=64)]
        lines = markdown.ratio_table(targets.figures(rows), targets.ORDINARY)
        self.assertEqual(lines[0], "| operation | ranks | 64 | 1k | 64k |")
        self.assertEqual(lines[2:], ["| all_reduce | 2 ranks |  | 2.00 | 2.00 |", "| all_reduce | 4 ranks | 0.75 |  |  |"])

    def test_the_commands_have_tables(self):
        self.assertIn("| 4,096 | 9.0 | 10.0 | 11.0 | 1.10 |", self.text)
        self.assertIn("| free core | 100 | 70 | 107 | 90 % | 200 | 100 | 300 |", self.text)
        self.assertIn("| shm | 64 | 9 | 1.00 | 1.00 | 100 | 80 |", self.text)


class Baseline(unittest.TestCase):
    def test_what_is_not_there_is_told_with_the_way_to_get_it(self):
        python, os.environ["KITH_BENCH_PYTHON"] = os.environ.get("KITH_BENCH_PYTHON"), "/nowhere/python"
        self.addCleanup(lambda: os.environ.update(KITH_BENCH_PYTHON=python) if python else os.environ.pop("KITH_BENCH_PYTHON"))
        with tempfile.TemporaryDirectory() as empty:
            found = baseline.Baseline(empty, empty)
            self.assertEqual(found.commands(2) if found.python is None else [], [])
        text = "\n".join(found.missing)
        for name in ("Open MPI 5: not there: no bin/bench-openmpi5", "MPICH 5: not there", "UCX: not there", "Gloo: not there"):
            self.assertIn(name, text)
        self.assertIn(baseline.INSTALL, text)

    def test_peers_that_are_there_are_commands(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in ("bin/bench-openmpi5", "openmpi5/bin/mpirun", "bin/bench-ucx"):
                os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
                with open(os.path.join(folder, path), "w", encoding="utf-8"):
                    os.chmod(os.path.join(folder, path), 0o755)
            found = baseline.Baseline(folder, folder)
            found.python = None
            self.assertEqual([c.name for c in found.commands(2)], ["openmpi5", "openmpi5-ucx", "openmpi5-sm", "ucx"])
            self.assertEqual([c.name for c in found.commands(4, False)], ["openmpi5", "openmpi5-ucx"])
            self.assertEqual(found.commands(4)[0].command[-3:-1], ["-n", "4"])


class Regressions(unittest.TestCase):
    """Two runs of three rounds at eight sizes, with one percent of noise."""

    def rows(self, kith=1.0, machine=1.0, slow_sizes=()):
        made = []
        for size in range(8):
            for turn, noise in enumerate((0.99, 1.0, 1.01)):
                own = kith if size in slow_sizes or not slow_sizes else 1.0
                made += [row("kith-shm/ordinary", (size + 1) * machine * own * noise, nbytes=4 << size, turn=turn),
                         row("openmpi/raw", 2 * (size + 1) * machine * noise, nbytes=4 << size, turn=turn),
                         row("floors/direct", 0.5 * (size + 1) * machine * noise, nbytes=4 << size, turn=turn)]
        return made

    def is_slower(self, old, new):
        return any(found[-1] for found in regress.summaries(regress.compare(old, new)))

    def test_a_slower_library_is_found(self):
        self.assertFalse(self.is_slower(self.rows(), self.rows()))
        self.assertTrue(self.is_slower(self.rows(), self.rows(kith=1.2)))
        self.assertTrue(self.is_slower(self.rows(), self.rows(kith=1.3, slow_sizes=(2, 3))))

    def test_a_slower_machine_is_none_of_its_business(self):
        self.assertFalse(self.is_slower(self.rows(), self.rows(machine=1.5)))
        self.assertTrue(self.is_slower(self.rows(), self.rows(kith=1.2, machine=0.8)))

    def test_what_noise_explains_is_no_regression(self):
        self.assertFalse(self.is_slower(self.rows(), self.rows(kith=1.03)))
        self.assertFalse(self.is_slower(self.rows(), self.rows(kith=1.3, slow_sizes=(2,))))
        noisy = self.rows()
        for entry in noisy:
            entry["median_us"] *= (0.7, 1.0, 1.3)[entry["round"]]
        self.assertFalse(self.is_slower(noisy, self.rows(kith=1.2)))

    def test_a_faster_library_is_told(self):
        changes = regress.compare(self.rows(), self.rows(kith=0.7))
        self.assertEqual({c.verdict() for c in changes}, {"faster"})
        self.assertAlmostEqual(changes[0].ratio, 0.7)

    def test_other_cores_are_another_point(self):
        far = self.rows(kith=5.0)
        for entry in far:
            entry["flag_before_ns"] = entry["flag_after_ns"] = 240
        self.assertEqual(regress.compare(self.rows(), far), [])

    def check(self, old, new):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out, \
                contextlib.redirect_stderr(io.StringIO()) as errors:
            paths = [os.path.join(folder, name) for name in ("old.json", "new.json")]
            for path, rows in zip(paths, (old, new)):
                with open(path, "w", encoding="utf-8") as file:
                    json.dump({"format": regress.FORMAT, "rows": rows}, file)
            return regress.check(*paths), out.getvalue() + errors.getvalue()

    def test_exit_statuses(self):
        self.assertEqual(self.check(self.rows(), self.rows())[0], 0)
        status, text = self.check(self.rows(), self.rows(kith=1.2))
        self.assertEqual(status, 1)
        self.assertRegex(text, r"kith-shm/ordinary +2 ranks +all_reduce +8 +1.200 +8  SLOWER")
        self.assertIn("slower: kith-shm/ordinary, 2 ranks, all_reduce 4 B, cold, near: 1.20", text)
        status, text = self.check(self.rows(), [])
        self.assertEqual(status, 2)
        self.assertIn("no results of bench-peers", text)
        other = [dict(entry, op="barrier") for entry in self.rows()]
        self.assertEqual(self.check(self.rows(), other)[0], 2)


class Plan(unittest.TestCase):
    def test_points_are_unique_and_blocks_whole(self):
        for ranks in (2, 4, 8):
            points = plan.points(plan.COLLECTIVES, ranks, plan.SIZES, ("cold", "back_to_back"))
            self.assertEqual(len(points), len(set(points)))
            for point in points:
                if point.op in plan.BLOCKWISE:
                    self.assertEqual(point.nbytes % (4 * ranks), 0)
            self.assertEqual(sum(p.op == "barrier" for p in points), 2)

    def test_two_ranks_have_all_sizes(self):
        points = plan.points(("all_reduce",), 2, plan.SIZES, ("cold",))
        self.assertEqual([p.nbytes for p in points][:3], [4, 16, 64])
        self.assertEqual(points[-1].nbytes, 64 << 20)

    def test_bf16_has_a_partner_with_as_many_elements_for_every_size_of_f32_from_1_mib(self):
        self.assertTrue(all(n // 2 in plan.BF16_SIZES for n in plan.BF16_SIZES if n >= targets.BF16_FROM))


FAKE_SERVER = """
import json, os, socket, sys, time
line = socket.socket(socket.AF_UNIX)
line.connect(sys.argv[sys.argv.index("--serve") + 1])
stream = line.makefile("rw")
def say(what):
    stream.write(json.dumps(what) + "\\n"); stream.flush()
say({"driver": "fake", "ranks": 2, "variants": ["a", "b"]})
for question in stream:
    q = json.loads(question)
    if q["op"] == "die":
        sys.exit("a reason to die")
    if q["nbytes"] >= float(os.environ.get("FAKE_SLOW_FROM", "inf")):
        time.sleep(60)  # no answer, for longer than any limit here; the runner kills it
    if q["variant"] == "b" and q["nbytes"] > 100:
        say({"error": "not available"})
        continue
    say({"driver": "fake", "variant": q["variant"], "op": q["op"], "nbytes": q["nbytes"], "mode": q["mode"], "round": q["round"],
         "median_us": 1.0, "flag_before_ns": 50, "flag_after_ns": 50, "switches": 0, "ranks": 2, "is_right": True})
"""


class Running(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.program = os.path.join(self.folder.name, "fake.py")
        with open(self.program, "w", encoding="utf-8") as file:
            file.write(FAKE_SERVER)
        self.rows = os.path.join(self.folder.name, "rows.jsonl")

    def section(self, points, seconds_share=1.0):
        driver = plan.Driver("fake", [sys.executable, self.program], ())
        missing = plan.Driver("missing", [os.path.join(self.folder.name, "no-such-program")], ())
        return plan.Section("test", 2, [driver, missing], points, seconds_share)

    def run_section(self, section, seconds, is_resumed=False):
        store = samples.Store(self.rows, is_resumed)
        Runner(store, self.folder.name, False).run(section, seconds)
        store.close()
        return store

    def test_every_variant_is_asked_at_every_point_that_it_has(self):
        store = self.run_section(self.section([plan.Point("all_reduce", 64), plan.Point("all_reduce", 1024)]), 0)
        self.assertEqual([(r["variant"], r["nbytes"]) for r in store.rows], [("a", 64), ("b", 64), ("a", 1024)])
        self.assertTrue(any("missing" in note for note in store.notes))

    def test_a_driver_that_dies_is_started_again_and_noted(self):
        points = [plan.Point("die", 4), plan.Point("all_reduce", 4)]
        store = self.run_section(self.section(points), 0)
        self.assertEqual([r["op"] for r in store.rows], ["all_reduce", "all_reduce"])
        self.assertTrue(any("a reason to die" in note for note in store.notes))

    def test_a_driver_without_an_answer_is_left_out_of_what_is_larger_and_then_of_all(self):
        self.addCleanup(setattr, runner, "SLACK_SECONDS", runner.SLACK_SECONDS)
        runner.SLACK_SECONDS = 0.3
        quick = plan.Driver("quick", [sys.executable, self.program], ("a",))
        slow = plan.Driver("slow", [sys.executable, self.program], ("a",), {"FAKE_SLOW_FROM": "64"})
        some = [plan.Point(op, nbytes) for op in ("reduce", "broadcast", "all_gather") for nbytes in (4, 64, 80)]
        store = self.run_section(plan.Section("test", 2, [quick, slow], some, 1.0), 0)
        answered = {name: [(r["op"], r["nbytes"]) for r in store.rows if r["driver"] == name] for name in ("quick", "slow")}
        self.assertEqual(answered["quick"], [(p.op, p.nbytes) for p in some])
        self.assertEqual(answered["slow"], [("reduce", 4), ("broadcast", 4)])
        self.assertEqual([(t["op"], t["nbytes"]) for t in store.timeouts], [("reduce", 64), ("broadcast", 64)])
        self.assertTrue(any("did not answer in time twice" in note for note in store.notes), store.notes)
        self.assertLess(store.seconds["test"], 0.6)  # what was waited is nobody's time
        self.assertEqual(samples.Store(self.rows, True).timeouts, store.timeouts)

    def test_large_points_come_last(self):
        some = [plan.Point(op, nbytes) for op in ("reduce", "broadcast") for nbytes in (4, runner.LARGE)]
        driver = plan.Driver("quick", [sys.executable, self.program], ("a",))
        store = self.run_section(plan.Section("test", 2, [driver], some, 1.0), 0)
        self.assertEqual([(r["op"], r["nbytes"]) for r in store.rows],
                         [("reduce", 4), ("broadcast", 4), ("reduce", runner.LARGE), ("broadcast", runner.LARGE)])

    def test_whoever_is_left_out_for_time_was_slower_and_who_was_not_measured_is_missing(self):
        rows = [row(f"{name}/{kind}", us, nbytes=nbytes) for nbytes in (4, 64) for name, kind, us in
                (("openmpi", "raw", 2.0), ("mpich", "raw", 1.0), ("kith-shm", "ordinary", 0.9))]
        rows.remove(next(r for r in rows if r["driver"] == "mpich" and r["nbytes"] == 64))
        small, large = targets.figures(rows)
        self.assertEqual((small.absent, large.absent), ([], ["mpich/raw"]))
        self.assertAlmostEqual(targets.mean_speedup([small, large], targets.ORDINARY), 1 / 0.9)
        text = targets.two_rank_verdicts([small, large])[0].detail
        self.assertTrue(text.startswith("1 of 1 points") and text.endswith("without 1 where a peer is missing"), text)
        timeout = {"section": "2 ranks", "op": "all_reduce", "nbytes": 16, "driver": "mpich", "variant": "raw", "limit": 5}
        large = targets.figures(rows, [timeout])[1]
        self.assertEqual((large.absent, large.timed_out), ([], {"mpich/raw"}))
        self.assertAlmostEqual(targets.mean_speedup([small, large], targets.ORDINARY), (1 / 0.9 * 2 / 0.9) ** 0.5)

    def test_a_peer_that_was_hopeless_on_other_cores_is_not_missing(self):
        rows = [row("openmpi/raw", 1.0), row("kith-shm/ordinary", 0.9), row("openmpi/raw", 1.0, flag=(240, 240)),
                row("gloo/raw", 5.1, flag=(240, 240)), row("kith-shm/ordinary", 0.9, turn=1)]
        self.assertEqual(targets.figures(rows)[0].absent, [])
        rows[3]["median_us"] = 4.9
        self.assertEqual(targets.figures(rows)[0].absent, ["gloo/raw"])

    def test_kith_without_an_answer_misses_its_targets(self):
        rows = [row("openmpi/raw", 1.0), row("kith-shm/ordinary", 0.5), row("openmpi/raw", 9.0, nbytes=65536)]
        timeout = {"section": "2 ranks", "op": "all_reduce", "nbytes": 65536, "driver": "kith-shm", "variant": "ordinary", "limit": 5}
        verdicts = targets.two_rank_verdicts(targets.figures(rows, [timeout]))
        self.assertEqual([v.is_met for v in verdicts[:2]], [False, False])

    def test_a_run_goes_on_where_it_stopped(self):
        section = self.section([plan.Point("all_reduce", 64)])
        self.run_section(section, 0)
        with open(self.rows, "a", encoding="utf-8") as file:
            file.write('{"op": "cut')  # killed while it wrote
        again = samples.Store(self.rows, True)
        self.assertEqual(again.rounds("test"), 1)
        self.assertEqual(len(again.rows), 2)
        again.close()
        self.run_section(section, 0, True)  # no time left: nothing is measured
        last = samples.Store(self.rows, True)
        self.assertEqual(len(last.rows), 2)
        last.close()

    def test_a_driver_that_says_nothing_is_told_with_its_last_words(self):
        silent = server.Server("silent", [sys.executable, "-c", "raise SystemExit('no network here')"], self.folder.name)
        with self.assertRaisesRegex(server.ServerError, "no network here"):
            silent.start()

    def test_only_what_is_slow_in_its_own_class_is_given_up(self):
        store = samples.Store(self.rows, False)
        self.addCleanup(store.close)
        runner = Runner(store, self.folder.name, False)
        point = plan.Point("all_reduce", 4096)
        rows = [row("floors/staged-4", 1.0), row("floors/staged-16", 1.5), row("floors/halves-4", 1.7),
                row("floors/halves-16", 4.0, flag=(240, 240)), row("floors/direct", 9.0), row("mpich/raw", 99.0)]
        runner._mark_hopeless(self.section([point]), point, rows)
        self.assertEqual(runner.hopeless, {(point, "floors/halves-4", "near")})
        runner._mark_hopeless(self.section([point]), point, [row("openmpi/raw", 1.0), row("gloo/raw", 900.0)])
        self.assertEqual(runner.hopeless, {(point, "floors/halves-4", "near"), (point, "gloo/raw", "near")})

    def test_a_run_without_a_result_takes_nothing_away(self):
        self.run_section(self.section([plan.Point("all_reduce", 64)]), 0)
        with open(self.rows, encoding="utf-8") as file:
            before = file.read()
        store = samples.Store(self.rows, False)
        store.add({"note": "a peer is missing"})
        store.add({"section": "run", "seconds": 1})
        with open(self.rows, encoding="utf-8") as file:
            self.assertEqual(file.read(), before)
        store.add({"answers": {}})
        self.addCleanup(store.close)
        with open(self.rows, encoding="utf-8") as file:
            self.assertEqual(len(file.readlines()), 3)

    def test_what_cannot_be_done_is_refused_before_anything_is_measured(self):
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "peers")
        for options, text in ((["--sections", "nope"], "no section 'nope'"), (["--baseline", "/no/such"], "--baseline: /no/such")):
            done = subprocess.run([sys.executable, "-B", program, "--build", self.folder.name, *options], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(text, done.stderr)
            self.assertFalse(os.path.exists(os.path.join(self.folder.name, "bench")))

    def test_rows_are_json_lines(self):
        self.run_section(self.section([plan.Point("all_reduce", 64)]), 0)
        with open(self.rows, encoding="utf-8") as file:
            for line in file:
                self.assertIsInstance(json.loads(line), dict)


if __name__ == "__main__":
    unittest.main()
