# bench/peers - measures Kith, its peers and the machine's floors in one interleaved run. `make bench-peers`.
#
#     python3 bench/peers --build BUILD                        under half an hour; --minutes N for more or less
#     python3 bench/peers --build BUILD --quick                under 2 minutes: fewer sizes, one round
#     python3 bench/peers --build BUILD --resume               goes on with a run that was stopped
#     python3 bench/peers --build BUILD --report               no measurement: the tables of what was measured
#     python3 bench/peers --build BUILD --docs docs/performance.md      writes the tables between the marks there
#     python3 bench/peers --build BUILD --baseline OLD/peers.json       compares with an earlier run afterwards (regress.py)
#
# Results: BUILD/bench/peers.jsonl (rows as they come), peers.json (everything), peers.md (tables). Ctrl-C: what was measured
# until then. Exit status: 0 when measured and no data were wrong, whatever the targets say; 1 otherwise, and when
# --baseline shows that something is slower; 2 for what cannot be done; 130 after Ctrl-C.
#
# SPDX-License-Identifier: BSD-3-Clause
import argparse
import datetime
import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import commands
import machine
import markdown
import plan
import regress
import samples
import targets
import tcp
from runner import Runner


def parse_arguments():
    parser = argparse.ArgumentParser(prog="bench/peers", description="Kith, its peers and the floors, side by side.")
    parser.add_argument("--build", required=True, help="build folder")
    parser.add_argument("--minutes", type=float, default=25, help="time for measuring, without starting programs (default 25)")
    parser.add_argument("--quick", action="store_true", help="fewer points and one round, under 2 minutes")
    parser.add_argument("--resume", action="store_true", help="go on with the rows that are there")
    parser.add_argument("--report", action="store_true", help="measure nothing, write the tables")
    parser.add_argument("--sections", help="comma-separated: 2 ranks, 4 ranks, 8 ranks, bf16, mpi pair, tcp, overhead, groups, overlap, growth, "
                        "256 MiB")
    parser.add_argument("--docs", help="document that gets the tables")
    parser.add_argument("--peers", help="folder of bench/baseline/install.sh (default BUILD/bench/baseline)")
    parser.add_argument("--baseline", help="peers.json of an earlier run to compare with")
    return parser, parser.parse_args()


def choose_sections(parser, arguments, tools):
    """The names that are wanted; None for all."""
    if not arguments.sections:
        return None
    known = [section.name for section in plan.sections(tools, arguments.quick)] + ["tcp", *commands.NAMES]
    wanted = [name.strip() for name in arguments.sections.split(",")]
    for name in wanted:
        if name not in known:
            parser.error(f"there is no section '{name}'; there are {', '.join(known)}")
    return wanted


def measure(arguments, tools, store, wanted):
    """All sections; returns the answers of kith-bench's commands by name."""
    minutes = 1.6 if arguments.quick else arguments.minutes
    for sentence in tools.baseline.missing:
        store.add({"note": sentence})
        print(f"note: {sentence}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="kith-bench-") as folder:
        runner = Runner(store, folder)
        sections = plan.sections(tools, arguments.quick)
        for section in sections:
            if wanted is None or section.name in wanted:
                runner.run(section, section.share * minutes * 60)
        if wanted is None or "tcp" in wanted:
            tcp.measure(runner, tools, 0.03 * minutes * 60, arguments.quick)
        return commands.measure(tools, folder, wanted, arguments.quick)


def write_results(arguments, tools, store, answers, folder, seconds):
    all_figures = targets.figures(store.rows, store.timeouts)
    verdicts = targets.verdicts(store.rows, all_figures, answers.get("overhead")) + commands.verdicts(answers)
    run = {"command": "make bench-peers", "date": datetime.date.today().isoformat(),
           "minutes": seconds / 60, "machine": machine.describe(tools.baseline), "rows": store.rows, "notes": store.notes, "answers": answers}
    text = markdown.report(run, all_figures, verdicts)
    document = {"format": "kith-bench-peers-1", **run, "timeouts": store.timeouts,
                "figures": [dict(f.__dict__, timed_out=sorted(f.timed_out)) for f in all_figures],
                "verdicts": [v.__dict__ for v in verdicts]}
    with open(os.path.join(folder, "peers.json"), "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
    with open(os.path.join(folder, "peers.md"), "w", encoding="utf-8") as file:
        file.write(text)
    if arguments.docs:
        markdown.put_into(arguments.docs, text)
    print("\n".join(markdown.verdict_table(verdicts)))
    for title, contender in markdown.RATIOS:
        print(f"\nbest peer / {title}:\n" + "\n".join(markdown.ratio_table(all_figures, contender)))
    print(f"\ntables: {os.path.join(folder, 'peers.md')}")


def check_baseline(parser, path):
    """Before anything is measured, and replaced."""
    try:
        regress.load(path)
    except regress.Unusable as error:
        parser.error(f"--baseline: {error}")


def main():
    parser, arguments = parse_arguments()
    folder = os.path.join(arguments.build, "bench")
    tools = plan.Tools(os.path.abspath(arguments.build), arguments.peers and os.path.abspath(arguments.peers))
    wanted = choose_sections(parser, arguments, tools)
    if arguments.baseline:
        check_baseline(parser, arguments.baseline)
    os.makedirs(folder, exist_ok=True)
    store = samples.Store(os.path.join(folder, "peers.jsonl"), arguments.resume or arguments.report)
    started = time.monotonic()
    answers = {}
    for entry in reversed(store.extras):  # newest first there, so the newest wins
        answers.update(entry.get("answers", {}))
    is_cut_off = False
    if not arguments.report:
        try:
            fresh = measure(arguments, tools, store, wanted)
        except KeyboardInterrupt:
            fresh, is_cut_off = {}, True
            store.add({"note": "the run was cut off"})
            print("\nbench/peers: cut off; --resume goes on", file=sys.stderr)
        if fresh:
            store.add({"answers": fresh})
            answers.update(fresh)
        store.add({"section": "run", "seconds": store.seconds.get("run", 0) + time.monotonic() - started})
    if not store.rows and not answers:
        print("bench/peers: nothing was measured, no file was changed", file=sys.stderr)
        return 130 if is_cut_off else 1
    write_results(arguments, tools, store, answers, folder, store.seconds.get("run", 0))
    if is_cut_off:
        return 130
    is_right = all(row["is_right"] for row in store.rows)
    is_slower = arguments.baseline is not None and regress.check(arguments.baseline, os.path.join(folder, "peers.json")) != 0
    return 0 if is_right and not is_slower else 1


if __name__ == "__main__":
    sys.exit(main())
