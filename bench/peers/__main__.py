# bench/peers - measures Kith, its peers and the machine's floors in one interleaved run. `make bench-peers`.
#
#     python3 bench/peers --build BUILD                        about 15 minutes; --minutes N for more or less
#     python3 bench/peers --build BUILD --quick                under 2 minutes: fewer sizes, one round
#     python3 bench/peers --build BUILD --resume               goes on with a run that was stopped
#     python3 bench/peers --build BUILD --report               no measurement: the tables of what was measured
#     python3 bench/peers --build BUILD --docs docs/performance.md      writes the tables between the marks there
#
# Results: BUILD/bench/peers.jsonl (rows as they come), peers.json (everything), peers.md (tables). Exit status: 0 when
# measured and no data were wrong, whatever the targets say; 1 otherwise.
#
# SPDX-License-Identifier: BSD-3-Clause
import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import machine
import markdown
import plan
import samples
import targets
import tcp
from runner import Runner


def parse_arguments():
    parser = argparse.ArgumentParser(prog="bench/peers", description="Kith, its peers and the floors, side by side.")
    parser.add_argument("--build", required=True, help="build folder")
    parser.add_argument("--minutes", type=float, default=15, help="time for the whole run (default 15)")
    parser.add_argument("--quick", action="store_true", help="fewer points and one round, under 2 minutes")
    parser.add_argument("--resume", action="store_true", help="go on with the rows that are there")
    parser.add_argument("--report", action="store_true", help="measure nothing, write the tables")
    parser.add_argument("--sections", help="comma-separated: 2 ranks, 4 ranks, 8 ranks, mpi pair, tcp, overhead")
    parser.add_argument("--docs", help="document that gets the tables")
    return parser.parse_args()


def measure_overhead(tools, folder):
    """The answer of `kith-bench overhead`, or None after a note."""
    if not tools.has("kith", "kith-bench"):
        return None
    path = os.path.join(folder, "overhead.json")
    command = [tools.program("kith"), "run", "-n", "2", "--bind", "none", "--", tools.program("kith-bench"), "overhead", "--json", path]
    done = subprocess.run(command, env={**os.environ, "KITH_BACKEND_PATH": tools.modules}, capture_output=True, text=True,
                          timeout=120, check=False)
    if done.returncode != 0:
        print(f"note: kith-bench overhead: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def measure(arguments, tools, store):
    """All sections; returns the overhead."""
    minutes = 1.6 if arguments.quick else arguments.minutes
    wanted = arguments.sections.split(",") if arguments.sections else None
    overhead = None
    with tempfile.TemporaryDirectory(prefix="kith-bench-") as folder:
        runner = Runner(store, folder)
        sections = plan.sections(tools, arguments.quick)
        for section in sections:
            if wanted is None or section.name in wanted:
                runner.run(section, section.share * minutes * 60)
        if wanted is None or "tcp" in wanted:
            tcp.measure(runner, tools, 0.06 * minutes * 60, arguments.quick)
        if wanted is None or "overhead" in wanted:
            overhead = measure_overhead(tools, folder)
    return overhead


def write_results(arguments, store, overhead, folder, seconds):
    all_figures = targets.figures(store.rows)
    verdicts = targets.verdicts(store.rows, all_figures, overhead)
    run = {"command": "make bench-peers", "date": datetime.date.today().isoformat(),
           "minutes": seconds / 60, "machine": machine.describe(), "rows": store.rows, "notes": store.notes, "overhead": overhead}
    text = markdown.report(run, all_figures, verdicts)
    document = {"format": "kith-bench-peers-1", **run, "figures": [f.__dict__ for f in all_figures],
                "verdicts": [v.__dict__ for v in verdicts]}
    with open(os.path.join(folder, "peers.json"), "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
    with open(os.path.join(folder, "peers.md"), "w", encoding="utf-8") as file:
        file.write(text)
    if arguments.docs:
        markdown.put_into(arguments.docs, text)
    print("\n".join(markdown.verdict_table(verdicts)))
    print(f"\ntables: {os.path.join(folder, 'peers.md')}")


def main():
    arguments = parse_arguments()
    folder = os.path.join(arguments.build, "bench")
    os.makedirs(folder, exist_ok=True)
    tools = plan.Tools(os.path.abspath(arguments.build))
    store = samples.Store(os.path.join(folder, "peers.jsonl"), arguments.resume or arguments.report)
    started = time.monotonic()
    overhead = next((row["overhead"] for row in store.extras if "overhead" in row), None)
    if not arguments.report:
        fresh = measure(arguments, tools, store)
        if fresh is not None:
            store.add({"overhead": fresh})
            overhead = fresh
        store.add({"section": "run", "seconds": store.seconds.get("run", 0) + time.monotonic() - started})
    write_results(arguments, store, overhead, folder, store.seconds.get("run", 0))
    return 0 if store.rows and all(row["is_right"] for row in store.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
