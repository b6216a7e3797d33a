# tests/tools/bench/test_bench_runs.py - whole runs of kith bench: every operation on every backend that is here, groups, forms,
# wrong results, refusals, ranks that die.
#
# SPDX-License-Identifier: BSD-3-Clause
import csv
import json
import os
import shutil
import signal
import subprocess
import time
import unittest

from kith_bench import BRIEF, BUILD, COLLECTIVES, KITH, NAMES, PATTERNS, PLACED, BenchCase

ALL = ",".join(COLLECTIVES + PATTERNS)


def is_available(backend):
    info = json.loads(subprocess.run([KITH, "info", "--json"], stdout=subprocess.PIPE, text=True, check=True).stdout)
    return any(one["name"] == backend and one["available"] for one in info["backends"])


class Operations(BenchCase):
    def count_rows(self, rows, sizes, ranks, places):
        """Each operation has a row for each size and place; all_pairs one for each pair."""
        for op in COLLECTIVES + PATTERNS:
            wanted = 1 if op == "barrier" else sizes
            wanted *= places if op in PLACED else 1
            wanted *= max(1, ranks * (ranks - 1) // 2) if op == "all_pairs" else 1
            self.assertEqual(sum(row["op"] == op for row in rows), wanted, op)

    def test_every_operation(self):
        for ranks in (1, 2, 3, 5):
            sizes, place = ("1,9k", "both") if ranks == 3 else ("9k", "out")
            rows = self.bench(ALL, "-n", str(ranks), "--sizes", sizes, "--place", place, "--root", str(ranks - 1))
            self.check_rows(rows)
            self.count_rows(rows, 2 if ranks == 3 else 1, ranks, 2 if ranks == 3 else 1)
            self.assertEqual({row["ranks"] for row in rows}, {ranks})

    def test_types_and_operators(self):
        rows = self.bench("all_reduce,reduce_scatter_v", "-n", "3", "--sizes", "3000", "--dtype", "int8,uint64,f16,bf16,f64,f8e4m3,f8e5m2",
                          "--redop", "sum,avg,prod,min,max")
        self.check_rows(rows)
        self.assertEqual(len(rows), 2 * 7 * 5)
        self.check_rows(self.bench("reduce", "-n", "2", "--sizes", "3000", "--dtype", "uint8,int32", "--redop", "band,bor,bxor"))

    def test_mapped_memory(self):
        rows = self.bench("all_reduce,all_gather,broadcast,ping_pong", "-n", "2", "--sizes", "64,300k", "--memory", "mapped,host",
                          "--place", "both")
        self.check_rows(rows)
        self.assertEqual({row["memory"] for row in rows}, {"mapped", "host"})

    def test_ucx(self):
        if not is_available("ucx"):
            self.skipTest("the ucx backend is not here")
        rows = self.bench(ALL, "-n", "2", "--sizes", "1000", "--backend", "ucx")
        self.check_rows(rows)
        self.assertEqual({row["backend"] for row in rows}, {"ucx"})

    def test_mpirun(self):
        mpirun = shutil.which("mpirun.openmpi")
        if mpirun is None or not is_available("mpi"):
            self.skipTest("mpirun.openmpi or the mpi backend is not here")
        run = self.run_command([mpirun, "-n", "2", KITH, "bench", "all_reduce,ring_exchange", "--sizes", "1000", "--backend", "mpi",
                                *BRIEF, "--json"])
        self.assertEqual(run.returncode, 0, run.stderr)
        rows = json.loads(run.stdout)
        self.check_rows(rows)
        self.assertEqual([(row["op"], row["backend"], row["ranks"]) for row in rows], [("all_reduce", "mpi", 2), ("ring_exchange", "mpi", 2)])


class Groups(BenchCase):
    def test_axes_of_a_mesh(self):
        rows = self.bench("all_reduce,many_to_one", "-n", "4", "--mesh", "tp=2,pp=1,dp=2", "--group", "world,each,all", "--sizes", "8k")
        self.check_rows(rows)
        found = [(row["group"], row["ranks"], row["group_count"], row["mode"]) for row in rows if row["op"] == "all_reduce"]
        self.assertEqual(found, [("world", 4, 1, "blocking"), ("tp", 2, 2, "blocking"), ("dp", 2, 2, "blocking"),
                                 ("all", 2, 4, "non_blocking")])

    def test_ways_of_calling(self):
        rows = self.bench("all_reduce,ring_exchange", "-n", "2", "--sizes", "8k", "--non-blocking", "--no-check")
        self.check_rows(rows, is_checked=False)
        self.assertEqual({row["mode"] for row in rows}, {"non_blocking"})

    def test_overlap(self):
        run = self.run_command([KITH, "bench", "all_reduce", "--sizes", "8k", "--overlap"], KITH_BLAS_LIBRARY="/nowhere/libblas.so")
        self.assertEqual(run.returncode, 2)
        self.assertIn("kith bench: --overlap: ", run.stderr)
        if "no BLAS" in self.run_command([KITH, "bench", "barrier", "--overlap", *BRIEF]).stderr:
            self.skipTest("there is no BLAS")
        rows = self.bench("all_reduce", "-n", "2", "--sizes", "8k", "--overlap")
        self.check_rows(rows)
        self.check_overlap(rows[0])


class Results(BenchCase):
    def test_wrong_results_are_counted(self):
        """The backend `null` moves nothing, so whatever a rank should get of 16 elements is wrong, in each of 2 checks. Ranks
        agree on what they measured over shared memory."""
        modules = os.path.join(BUILD, "bench", "modules")
        if not os.path.isdir(modules):
            self.skipTest("the benchmark was not built")
        rows = self.bench(ALL, "-n", "2", "--sizes", "64", "--backend", "null", status=1, KITH_BACKEND_PATH=modules)
        at_both = {"all_reduce", "all_gather", "all_gather_v", "all_to_all", "all_to_all_v", "ping_pong", "bidirectional",
                   "ring_exchange", "all_pairs"}  # the others: half each, or one rank alone
        for row in rows:
            wanted = -1 if row["op"] == "barrier" else 64 if row["op"] in at_both else 32
            self.assertEqual((row["op"], row["errors"]), (row["op"], wanted))
        run = self.run_command([KITH, "bench", "all_gather", "-n", "2", "--sizes", "64", "--backend", "null", *BRIEF],
                               KITH_BACKEND_PATH=modules)
        self.assertEqual(run.returncode, 1)
        self.assertIn("kith bench: some results are wrong", run.stderr)

    def test_files(self):
        words = ["all_reduce,barrier", "-n", "2", "--sizes", "8,1k", *BRIEF]
        run = self.run_command([KITH, "bench", *words, "--json=rows.json", "--csv=rows.csv", "--save", "saved.json", "--quiet"])
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "", ""))
        with open(os.path.join(self.folder, "rows.json")) as file:
            rows = json.load(file)
        with open(os.path.join(self.folder, "saved.json")) as file:
            saved = json.load(file)
        with open(os.path.join(self.folder, "rows.csv")) as file:
            cells = list(csv.DictReader(file))
        self.assertEqual(saved["format"], "kith-results-1")
        self.assertEqual(saved["rows"], rows)
        self.assertEqual(len(rows), 3)
        for row, line in zip(rows, cells):
            self.assertEqual(list(row), list(line))
            for name, value in row.items():
                if isinstance(value, bool) or value is None:
                    self.assertEqual(line[name], {True: "true", False: "false", None: ""}[value])
                elif isinstance(value, str):
                    self.assertEqual(line[name], value)
                else:
                    self.assertAlmostEqual(float(line[name]), value, delta=1e-9 * abs(value))
        meta = saved["meta"]
        self.assertRegex(meta["date"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual(meta["command"], "kith bench " + " ".join(words) + " --json=rows.json --csv=rows.csv --save saved.json --quiet")
        self.assertEqual(len(meta["hosts"]), 1)
        self.assertIn("shm", [backend["name"] for backend in meta["backends"]])
        for name in ("kith_version", "cpu", "cpus", "memory_bytes", "kernel", "gpus"):
            self.assertIn(name, meta)

    def test_table_and_matrices(self):
        run = self.run_command([KITH, "bench", "all_pairs,broadcast", "-n", "3", "--sizes", "8,4k", *BRIEF])
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("# all_pairs, f32 of 8 B, host memory: us one way\n", run.stdout)
        self.assertIn("# all_pairs, f32 of 4 KiB, host memory: GB/s one way\n", run.stdout)
        self.assertEqual(sum(line.startswith("  broadcast") for line in run.stdout.split("\n")), 2)
        pairs = [(row["src"], row["dst"]) for row in self.bench("all_pairs", "-n", "3")]
        self.assertEqual(pairs, [(0, 1), (0, 2), (1, 2)] * 2)

    def test_what_is_the_same_is_measured_once(self):
        rows = self.bench("all_gather,all_gather", "-n", "4", "--sizes", "8,16,20,33,16", "--dtype", "f32,f32")
        self.assertEqual([row["nbytes"] for row in rows], [16, 32])

    def test_a_run_can_be_repeated(self):
        name = "a 'b.json"
        run = self.run_command([KITH, "bench", "barrier", "-n", "2", "--save", name, "--quiet", *BRIEF], KITH_SPIN="7",
                               UCX_TLS="tcp,self")
        self.assertEqual(run.returncode, 0, run.stderr)
        with open(os.path.join(self.folder, name)) as file:
            meta = json.load(file)["meta"]
        self.assertIn("--save 'a '\\''b.json' --quiet", meta["command"])
        self.assertEqual({"KITH_SPIN": "7", "UCX_TLS": "tcp,self"},
                         {name: meta["settings"].get(name) for name in ("KITH_SPIN", "UCX_TLS")})
        self.assertNotIn("KITH_STORE", meta["settings"])
        self.assertNotIn("", [backend["version"] for backend in meta["backends"]])

    def test_one_file_that_fails_loses_no_other(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("there is no /dev/full")
        run = self.run_command([KITH, "bench", "barrier", "--json=/dev/full", "--save", "kept.json", *BRIEF])
        self.assertEqual(run.returncode, 2)
        with open(os.path.join(self.folder, "kept.json")) as file:
            self.assertEqual(len(json.load(file)["rows"]), 1)

    def test_full_disk(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("there is no /dev/full")
        run = self.run_command([KITH, "bench", "barrier", "--save", "/dev/full", *BRIEF])
        self.assertEqual(run.returncode, 2)
        self.assertIn("kith bench: cannot write /dev/full: No space left on device", run.stderr)
        with open("/dev/full", "w") as full:
            run = self.run_command([KITH, "bench", "barrier", "--json", *BRIEF], stdout=full)
        self.assertEqual(run.returncode, 2)
        self.assertIn("kith bench: cannot write standard output", run.stderr)


    def test_algorithms_are_named_by_the_bytes_of_all_parts(self):
        """Rules: up to 4096 bytes of all ranks together one algorithm, above that another."""
        if not is_available("ucx"):
            self.skipTest("the ucx backend is not here")
        small = {"reduce_scatter": "pairwise", "all_gather": "ring", "all_to_all": "pairwise", "gather": "binomial", "scatter": "binomial",
                 "reduce_scatter_v": "pairwise", "all_gather_v": "ring", "all_reduce": "rabenseifner", "broadcast": "binomial", "reduce": "binomial"}
        with open(os.path.join(self.folder, "table.json"), "w") as file:
            json.dump({"version": 1, "rules": [{"collective": op, "max_nbytes": 4096, "algorithm": name} for op, name in small.items()]}, file)
        rows = self.bench(",".join(small), "-n", "4", "--sizes", "4096,4100,4112", "--backend", "ucx",
                          KITH_ALGO_TABLE=os.path.join(self.folder, "table.json"))
        others = {row["op"]: row["algorithm"] for row in rows if row["nbytes"] > 4096}
        for row in rows:
            wanted = small[row["op"]] if row["nbytes"] <= 4096 else others[row["op"]]
            self.assertEqual((row["op"], row["nbytes"], row["algorithm"]), (row["op"], row["nbytes"], wanted))
            self.assertNotEqual(others[row["op"]], small[row["op"]])
        self.assertEqual([row["nbytes"] for row in rows if row["op"] == "all_gather_v"], [4096, 4100, 4112])

    def test_one_rank_gets_nothing_from_others(self):
        rows = self.bench("many_to_one", "-n", "1", "--sizes", "8")
        self.assertEqual([row["algbw_gbps"] or 0 for row in rows], [0])

    def test_where_the_cores_were(self):
        rows = self.bench("all_reduce,barrier", "-n", "3", "--sizes", "8,1k")
        for row in rows:
            self.assertIn(row["cores"], ("sibling", "near", "far", "moved"))
            before, after = row["cores_before_ns"], row["cores_after_ns"]
            self.assertGreater(min(before, after), 0)
            if row["cores"] == "moved":
                self.assertGreater(max(before, after), 1.5 * min(before, after))
            else:
                limits = {"sibling": (0, 40), "near": (40, 170), "far": (170, float("inf"))}[row["cores"]]
                self.assertTrue(limits[0] <= before < limits[1], row)
        for row in self.bench("all_reduce", "-n", "1", "--sizes", "8"):
            self.assertEqual((row["cores"], row["cores_before_ns"], row["cores_after_ns"]), ("", None, None))
        self.assertEqual([name for name in os.listdir("/dev/shm") if name.startswith("kith-bench-")], [])
        run = self.run_command([KITH, "bench", "barrier", "-n", "2", *BRIEF])
        self.assertRegex(run.stdout, r"wrong +cores\n  barrier .* (sibling|near|far|moved)\b")

    def test_pairs_are_noted_beside_what_is_expected(self):
        rows = self.bench("all_pairs", "-n", "4", "--sizes", "8,64k")
        for row in rows:
            self.assertEqual(row["pair_link"], "shared memory" if row["nbytes"] > 8 else "")
        large = [row for row in rows if row["nbytes"] > 8]
        known = [row for row in large if row["reliable"]]
        for row in large:
            self.assertEqual(row["expected_gbps"] is not None, len(known) >= 3)
            if row["reliable"] and row["expected_gbps"] is not None:
                self.assertEqual(row["below_expected"], row["algbw_gbps"] < 0.7 * row["expected_gbps"])


class CutOff(BenchCase):
    def start(self, *words):
        """A run that does not end by itself, once it has printed two lines of its table."""
        run = subprocess.Popen([KITH, "bench", "barrier,all_reduce,ping_pong", "-n", "2", "--sizes", "8,16", "--dtype", "f32,f64,int32",
                                "--save", "cut.json", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder)
        self.addCleanup(run.kill)
        return run

    def ranks_of(self, run):
        with open(f"/proc/{run.pid}/task/{run.pid}/children") as file:
            guard = file.read().split()
        found = list(guard)
        for pid in guard:
            try:
                with open(f"/proc/{pid}/task/{pid}/children") as file:
                    found += file.read().split()
            except FileNotFoundError:
                pass
        return found

    def test_rows_before_a_signal_are_kept(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(number):
                run = self.start("--budget", "3", "--csv=cut.csv")
                printed = ""
                while "barrier" not in printed:
                    printed = run.stdout.readline()
                    self.assertNotEqual(printed, "")
                pids = self.ranks_of(run)
                self.assertTrue(pids)
                run.send_signal(number)
                out, said = run.communicate(timeout=30)
                self.assertEqual(run.returncode, status, said)
                self.assertRegex(said, rf"kith bench: cut off by {number.name}: [1-4] of 13 points were measured\n")
                saved = self.read_cut_off("cut.json", "cut.csv", number)
                self.assertEqual(saved["rows"][0]["op"], "barrier")
                self.assertIn(f": {len(saved['rows'])} of 13 points", said)
                self.assertEqual([pid for pid in pids if os.path.exists(f"/proc/{pid}")], [])

    def read_cut_off(self, saved_name, table_name, number):
        """What --save wrote of a run that this signal ended; --csv wrote as many rows."""
        with open(os.path.join(self.folder, saved_name)) as file:
            saved = json.load(file)
        self.assertEqual(saved["cut_off"], number.name)
        with open(os.path.join(self.folder, table_name)) as file:
            self.assertEqual(len(list(csv.DictReader(file))), len(saved["rows"]))
        return saved

    def test_rows_of_link_classes_are_kept(self):
        words = [KITH, "bench", "all_reduce", "-n", "2", "--links", "--backend", "shm", "--sizes", "8,16,32,64,128,256,512,1k",
                 "--budget", "1", "--json=cut-links.json", "--csv=cut-links.csv", "--save", "cut-links.save"]
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(number):
                run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder)
                self.addCleanup(run.kill)
                time.sleep(4)  # some of the 8 points of a second each; nothing is printed before the end
                run.send_signal(number)
                out, said = run.communicate(timeout=30)
                if "without" in said and "jansson" in said:
                    self.skipTest("this kith was built without jansson")
                self.assertEqual(run.returncode, status, said)
                self.assertRegex(said, rf"kith bench: cut off by {number.name}: [1-9][0-9]* rows of [12] link classes were measured\n")
                self.assertRegex(out, r"(?m)^ +8 B ")
                saved = self.read_cut_off("cut-links.save", "cut-links.csv", number)
                self.assertEqual(saved["rows"][0]["link"], "shm")
                self.assertIn(f": {len(saved['rows'])} rows of ", said)
                self.assertNotIn("KITH_SHM_CMA", saved["meta"]["settings"])
                with open(os.path.join(self.folder, "cut-links.json")) as file:
                    self.assertEqual(json.load(file), saved["rows"])

    def test_json_of_a_run_that_is_cut_off(self):
        run = self.start("--budget", "1", "--json")
        time.sleep(2.5)  # some points of a second each; --json prints nothing before the end
        run.send_signal(signal.SIGINT)
        out, said = run.communicate(timeout=30)
        self.assertEqual(run.returncode, 130, said)
        self.assertIn("kith bench: cut off by SIGINT: ", said)
        json.loads(out)


class Refusals(BenchCase):
    CASES = [
        ([], "no operation is given"),
        (["all_reduc"], "there is no operation 'all_reduc'; did you mean all_reduce?"),
        (["all_reduce", "--json", "rows.json"], "a file is given as --json=FILE"),
        (["all_reduce", "--sizes", "0"], "--sizes: '0' is not a number of bytes"),
        (["all_reduce", "--sizes", "8,,16"], "--sizes: '' is not a number of bytes"),
        (["all_reduce", "--sizes", "17179869184G"], "--sizes: '17179869184G' is not a number of bytes"),
        (["all_reduce", "--sizes", "8", "--min", "4"], "exclude one another"),
        (["all_reduce", "--min", "1M", "--max", "1k"], "--min 1M is more than --max 1k"),
        (["all_reduce", "--factor", "1"], "--factor 1: it must be a whole number from 2 to 1024"),
        (["all_reduce", "--dtype", "f33"], "--dtype: "),
        (["all_reduce", "--redop", "plus"], "--redop: "),
        (["all_reduce", "--redop", "band"], "--redop band is not defined on f32"),
        (["all_reduce", "--place", "here"], "--place here is not one of in, out, both"),
        (["all_reduce", "--memory", "disk"], "--memory disk is not one of host, mapped, device"),
        (["all_reduce", "--group", "tp"], "--group tp is not one of world, each, all, or an axis of --mesh"),
        (["all_reduce", "--group", "each"], "--group each needs --mesh"),
        (["all_reduce", "--mesh", "tp"], "--mesh: 'tp' is not NAME=SIZE"),
        (["all_pairs", "--mesh", "tp=1", "--group", "tp"], "all_pairs is measured in the world alone"),
        (["ping_pong", "--mesh", "tp=1", "--group", "all"], "ping_pong has no form in which groups run at once"),
        (["ping_pong", "--overlap"], "ping_pong has a blocking form alone"),
        (["all_reduce", "--overlap", "--non-blocking"], "leave out --non-blocking"),
        (["all_reduce", "--json=twice.out", "--csv=./twice.out"], "./twice.out would be written twice"),
        (["all_reduce", "--json=twice.out", "--save", "twice.out"], "twice.out would be written twice"),
        (["all_reduce", "--json", "--csv"], "cannot both go to standard output"),
        (["all_reduce", "--budget", "0"], "--budget 0: it must be a number above 0"),
        (["all_reduce", "--op", "x"], "unknown option --op"),
        (["all_reduce", "--mesh", "tp=3"], "2 ranks do not make a mesh"),
        (["all_reduce", "--mesh", "tp=1,dp=2", "--group", "each", "--backend", "none"], "there is no backend 'none'"),
        (["reduce", "--root", "2"], "--root 2: group world has ranks 0 to 1"),
        (["gather", "--sizes", "17179869183G"], "does not fit an address"),
        (["all_reduce", "--sizes", "100000G"], "of memory on each of 2 ranks of this host, which has"),
        (["all_reduce", "--save", "/nowhere/file"], "cannot write /nowhere/file"),
        (["all_reduce", "--json=/"], "cannot write /: Is a directory"),
    ]

    def test_each_is_one_sentence(self):
        for words, sentence in self.CASES:
            with self.subTest(words):
                run = self.run_command([KITH, "bench", "-n", "2", *words])
                self.assertEqual((run.returncode, run.stdout), (2, ""), run.stderr)
                said = [line for line in run.stderr.split("\n") if line.startswith("kith bench: ") and "exited" not in line]
                self.assertEqual(len(said), 1, run.stderr)
                self.assertIn(sentence, said[0])

    def test_without_words_it_explains(self):
        run = self.run_command([KITH, "bench"])
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertEqual(run.stdout, self.run_command([KITH, "help", "bench"]).stdout)

    def test_rank_0_speaks_for_all(self):
        run = self.run_command([KITH, "run", "-n", "3", "--", KITH, "bench", "all_reduce", "--sizes", "x"])
        self.assertEqual(run.returncode, 2)
        self.assertEqual(run.stderr.count("kith bench: --sizes: 'x'"), 1, run.stderr)

    def test_a_rank_that_dies(self):
        """Without a launcher that would end the other: it finds out by itself."""
        store = f"file://{self.folder}/store"
        ranks = [subprocess.Popen([KITH, "bench", "all_reduce", "--sizes", "1k", "--budget", "30", "--timeout", "2"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, "KITH_RANK": str(rank), "KITH_SIZE": "2", "KITH_STORE": store}) for rank in (0, 1)]
        time.sleep(0.5)  # they are measuring by then, or still joining: either must end
        ranks[1].send_signal(signal.SIGKILL)
        _, said = ranks[0].communicate(timeout=50)
        ranks[1].communicate()
        self.assertIn(ranks[0].returncode, (1, 2), said)
        self.assertEqual(len([line for line in said.split("\n") if line.startswith("kith bench: ")]), 1, said)


if __name__ == "__main__":
    unittest.main()
