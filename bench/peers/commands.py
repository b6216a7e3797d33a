# bench/peers/commands.py - what kith-bench measures beside its sweep: two groups at once, an all_reduce beside a matrix
# product, growth with the number of ranks. Running it, judging it, tables.
#
# SPDX-License-Identifier: BSD-3-Clause
import json
import os
import subprocess
import sys

from targets import Verdict

GROUPS_FACTOR = 1.1
HIDDEN_PERCENT = 90.0
HEAP_NBYTES, HEAP_NBYTES_PER_PEER = 64 << 10, 256
GROWTH = (*(("shm", ranks) for ranks in (2, 4, 8, 16, 32, 64)), ("ucx", 2), ("ucx", 4), ("ucx", 8), ("ucx", 16))
QUICK_GROWTH = (("shm", 2), ("shm", 4), ("ucx", 2))
SECONDS = 120


def _run(tools, folder, name, ranks, backend=None):
    """The answer of `kith-bench NAME` on some ranks, or None after a note."""
    path = os.path.join(folder, f"{name}-{ranks}.json")
    command = [tools.program("kith"), "run", "-n", str(ranks), "--bind", "none", "--", tools.program("kith-bench"), name, "--json", path]
    command += ["--backend", backend] if backend else []
    try:
        done = subprocess.run(command, env={**os.environ, "KITH_BACKEND_PATH": tools.modules}, capture_output=True, text=True,
                              timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        print(f"note: kith-bench {name} on {ranks} ranks: not done in {SECONDS} s", file=sys.stderr)
        return None
    if done.returncode != 0:
        print(f"note: kith-bench {name} on {ranks} ranks: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


NAMES = ("overhead", "groups", "overlap", "growth")  # sections that are commands of kith-bench


def measure(tools, folder, wanted, is_quick):
    """{name: answer}. wanted: names of sections, None for all."""
    found = {}
    if not tools.has("kith", "kith-bench"):
        return found
    for name, ranks in (("overhead", 2), ("groups", 4), ("overlap", 2)):
        if wanted is None or name in wanted:
            found[name] = _run(tools, folder, name, ranks)
    if wanted is None or "growth" in wanted:
        answers = [_run(tools, folder, "growth", ranks, backend) for backend, ranks in (QUICK_GROWTH if is_quick else GROWTH)]
        found["growth"] = {"rows": [dict(row, backend=answer["backend"]) for answer in answers if answer for row in answer["rows"]]}
    return {name: answer for name, answer in found.items() if answer and answer["rows"]}


def groups_verdict(groups):
    text = "two groups at once (tp and dp of 2 x 2): at most 1.1 times the slower one alone"
    if not groups:
        return Verdict(text, None, "not measured")
    failing = [row for row in groups["rows"] if row["ratio"] > GROUPS_FACTOR]
    worst = max(groups["rows"], key=lambda row: row["ratio"])
    count = len(groups["rows"])
    return Verdict(text, not failing, f"{count - len(failing)} of {count} sizes; worst {worst['ratio']:.2f} ({worst['nbytes']:,} B)")


def overlap_verdicts(overlap):
    rows = {row["arrangement"]: row for row in overlap["rows"]} if overlap else {}
    same, free = rows.get("same cores"), rows.get("free core")
    cost = same["both_cpu_us"] / (same["compute_cpu_us"] + same["comm_cpu_us"]) if same else None
    return [Verdict("16 MiB all_reduce beside a product on the same cores: no more than the sum of their CPU times",
                    cost <= 1 if same else None, f"{cost:.2f} times the sum" if same else "not measured"),
            Verdict("16 MiB all_reduce beside a product with a free core: at least 90 % hidden",
                    free["hidden_percent"] >= HIDDEN_PERCENT if free else None,
                    f"{free['hidden_percent']:.0f} %" if free else "not measured")]


def growth_verdicts(growth):
    """Of each transport, what one more group holds: on the heap, and in pages that were touched."""
    verdicts = []
    for backend in ("shm", "ucx"):
        rows = [row for row in growth["rows"] if row["backend"] == backend] if growth else []
        for key, place in (("group_heap_nbytes", "heap"), ("group_resident_nbytes", "pages")):
            text = f"{backend}, memory of one more group, {place}: at most 64 KiB and 256 B for each peer"
            if not rows:
                verdicts.append(Verdict(text, None, "not measured"))
                continue
            failing = [row for row in rows if row[key] > HEAP_NBYTES + HEAP_NBYTES_PER_PEER * (row["ranks"] - 1)]
            most = max(rows, key=lambda row, key=key: row[key])
            verdicts.append(Verdict(text, not failing, f"{len(rows) - len(failing)} of {len(rows)} sizes; most {most[key] / 1024:,.0f} KiB "
                                    f"({most['ranks']} ranks)"))
    return verdicts


def verdicts(answers):
    return [groups_verdict(answers.get("groups"))] + overlap_verdicts(answers.get("overlap")) + growth_verdicts(answers.get("growth"))


def groups_rows(groups):
    return [["bytes", "tp alone, us", "dp alone, us", "both, us", "both / slower"]] + [
        [f"{row['nbytes']:,}", f"{row['tp_us']:.1f}", f"{row['dp_us']:.1f}", f"{row['both_us']:.1f}", f"{row['ratio']:.2f}"]
        for row in groups["rows"]]


def overlap_rows(overlap):
    return [["", "product, us", "all_reduce, us", "both, us", "hidden", "CPU: product, us", "all_reduce, us", "both, us"]] + [
        [row["arrangement"], f"{row['compute_us']:,.0f}", f"{row['comm_us']:,.0f}", f"{row['both_us']:,.0f}", f"{row['hidden_percent']:.0f} %",
         f"{row['compute_cpu_us']:,.0f}", f"{row['comm_cpu_us']:,.0f}", f"{row['both_cpu_us']:,.0f}"] for row in overlap["rows"]]


def growth_rows(growth):
    def kib(nbytes):
        return f"{nbytes / 1024:,.0f}"
    return [["backend", "ranks", "join, ms", "all_reduce of 8 B, us", "barrier, us", "a group, us", "its heap, KiB", "its pages, KiB",
             "its part of shared pages, KiB", "its shared mapping, KiB", "all heap, KiB", "all pages, KiB"]] + [
        [row["backend"], str(row["ranks"]), f"{row['join_ms']:.0f}", f"{row['all_reduce_us']:.2f}", f"{row['barrier_us']:.2f}",
         f"{row['group_us']:,.0f}", kib(row["group_heap_nbytes"]), kib(row["group_resident_nbytes"]), kib(row.get("group_shared_nbytes", 0)),
         kib(row["group_mapped_nbytes"]), kib(row["heap_nbytes"]), kib(row["resident_nbytes"])] for row in growth["rows"]]


TABLES = (("groups", "Two groups at once, all_reduce in each, 4 ranks", groups_rows),
          ("overlap", "A 16 MiB all_reduce beside a matrix product, 2 ranks", overlap_rows),
          ("growth", "Growth with the number of ranks", growth_rows))
