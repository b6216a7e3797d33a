# bench/peers/markdown.py - the report: verdicts, tables, how and where they were measured.
#
# SPDX-License-Identifier: BSD-3-Clause
import statistics

import commands
import samples
import targets

BEGIN, END = "<!-- bench-peers begins -->", "<!-- bench-peers ends -->"
# A library with several settings has one column, the best of them at each size.
COLUMNS = (("Kith shm", (targets.ORDINARY,)), ("Kith shm, mapped", (targets.MAPPED,)), ("Kith mpi", ("kith-mpi/ordinary",)),
           ("Kith ucx", (targets.UCX,)), ("Kith ucx, messages alone", (targets.UCX_ALONE,)),
           ("Kith shm, bf16", targets.BF16_KITH[:1]), ("Kith shm, bf16, mapped", targets.BF16_KITH[1:]),
           ("Open MPI", ("openmpi/raw", "openmpi-ucx/raw")), ("Open MPI 5", ("openmpi5/raw", "openmpi5-ucx/raw", "openmpi5-sm/raw")),
           ("MPICH", ("mpich/raw",)), ("MPICH 5", ("mpich5/raw", "mpich5-mpir/raw")), ("UCX", ("ucx/raw",)), ("Gloo", ("gloo/raw",)),
           ("MPICH 5, bf16", targets.BF16_PEERS[:1]), ("Gloo, bf16", targets.BF16_PEERS[1:]), ("Kith ucx, TCP", (targets.TCP_KITH,)),
           ("Open MPI, TCP", (targets.TCP_PEER,)))
RATIOS = (("Kith shm", targets.ORDINARY), ("Kith shm, mapped", targets.MAPPED), ("Kith ucx", targets.UCX),
          ("Kith ucx, messages alone", targets.UCX_ALONE))
MODES = {"cold": "each operation alone, buffers just written", "back_to_back": "operations without a pause"}


def number(value):
    """Microseconds with three digits that count."""
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def ratio(value):
    return "-" if value is None else f"{value:.2f}"


def table(heading, rows):
    lines = ["| " + " | ".join(heading) + " |", "|" + "---|" * len(heading)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def op_table(figures):
    """One line for each size; columns that nobody filled are left out."""
    columns = [(title, names) for title, names in COLUMNS if any(name in f.us for f in figures for name in names)]
    has = {kind: any(kind in f.floors for f in figures) for kind in ("staged", "direct")}
    has_shm, has_mapped, has_tcp = (any(c in f.us for f in figures) for c in (targets.ORDINARY, targets.MAPPED, targets.TCP_KITH))
    heading = ["bytes", "cores"] + [title for title, _ in columns]
    heading += ["floor staged"] * has["staged"] + ["floor direct"] * has["direct"]
    heading += ["peer / shm"] * has_shm + ["shm / staged"] * (has_shm and has["staged"])
    heading += ["peer / mapped"] * has_mapped + ["mapped / direct"] * (has_mapped and has["direct"])
    heading += ["Open MPI / Kith"] * has_tcp
    rows = []
    for f in sorted(figures, key=lambda f: f.nbytes):
        row = [f"{f.nbytes:,}", f.latency_class] + [number(_best(f, names)) for _, names in columns]
        row += [_floor(f, "staged")] * has["staged"] + [_floor(f, "direct")] * has["direct"]
        row += [ratio(f.speedup(targets.ORDINARY))] * has_shm
        row += [ratio(f.over_floor(targets.ORDINARY, "staged"))] * (has_shm and has["staged"])
        row += [ratio(f.speedup(targets.MAPPED))] * has_mapped
        row += [ratio(f.over_floor(targets.MAPPED, "direct"))] * (has_mapped and has["direct"])
        row += [ratio(f.tcp_speedup())] * has_tcp
        rows.append(row)
    return table(heading, rows)


def _best(figure, names):
    return min((figure.us[name] for name in names if name in figure.us), default=None)


def _floor(figure, kind):
    if kind not in figure.floors:
        return "-"
    time, variant = figure.floors[kind]
    return f"{number(time)} ({variant})"


def section_tables(all_figures, section, mode):
    chosen = [f for f in all_figures if f.section == section and f.mode == mode]
    lines = []
    for op in dict.fromkeys(f.op for f in chosen):
        lines += ["", f"#### {op}, {section}, {mode.replace('_', ' ')}, median us", ""]
        lines += op_table([f for f in chosen if f.op == op])
    return lines


def verdict_table(verdicts):
    words = {True: "met", False: "**not met**", None: "not measured"}
    return table(["target", "", "measured"], [[v.text, words[v.is_met], v.detail] for v in verdicts])


def means_table(all_figures):
    """Geometric means of peer / Kith over sizes."""
    rows = []
    for section in dict.fromkeys(f.section for f in all_figures):
        for mode in MODES:
            chosen = [f for f in all_figures if f.section == section and f.mode == mode]
            for op in dict.fromkeys(f.op for f in chosen):
                some = [f for f in chosen if f.op == op]
                means = [targets.mean_speedup(some, c) for c in (targets.ORDINARY, targets.MAPPED)]
                large = targets.mean_speedup([f for f in some if f.nbytes >= targets.MAPPED_FROM], targets.MAPPED)
                if any(mean is not None for mean in means):
                    rows.append([op, section, mode.replace("_", " ")] + [ratio(m) for m in means + [large]])
    return table(["operation", "ranks", "mode", "ordinary", "mapped", "mapped, 4 KiB up"], rows)


def short_nbytes(nbytes):
    for shift, suffix in ((20, "M"), (10, "k")):
        if nbytes >= 1 << shift and nbytes % (1 << shift) == 0:
            return f"{nbytes >> shift}{suffix}"
    return str(nbytes)


def ratio_table(all_figures, contender):
    """One line for each operation and number of ranks, one column for each size: best peer / contender, cold."""
    chosen = [f for f in all_figures if f.mode == "cold" and f.speedup(contender) is not None]
    sizes = sorted({f.nbytes for f in chosen})
    found = {(f.op, f.section, f.nbytes): ratio(f.speedup(contender)) for f in chosen}
    lines = dict.fromkeys((f.op, f.section) for f in chosen)
    return table(["operation", "ranks"] + [short_nbytes(n) for n in sizes],
                 [[op, section] + [found.get((op, section, n), "") for n in sizes] for op, section in lines])


def latency_table(rows):
    found = {}
    for row in rows:
        for ns in (row["flag_before_ns"], row["flag_after_ns"]):
            if ns > 0:
                found.setdefault(samples.latency_class(ns), []).append(ns)
    total = sum(len(values) for values in found.values())
    lines = []
    for name, low, high in samples.CLASSES:
        values = sorted(found.get(name, []))
        if values:
            span = f"{low} to {high} ns" if high != float("inf") else f"{low} ns and more"
            lines.append([name, span, f"{100 * len(values) / total:.0f} %", f"{statistics.median(values):.0f} ns"])
    return table(["cores", "flag hand-over", "share of probes", "median"], lines)


def pair_table(rows):
    lines = [[label, number(raw), f"{difference * 1000:+.0f} ns", f"{share * 100:+.1f} %"]
             for label, difference, share, raw in targets.pair_excess(rows)]
    return table(["point", "raw, us", "Kith more", ""], lines)


def overhead_table(overhead):
    lines = [[row["call"], f"{row['min_ns']:.0f}", f"{row['median_ns']:.0f}", str(row["allocations"])] for row in overhead["rows"]]
    return table(["call", "min ns", "median ns", "allocations"], lines)


def absent_notes(all_figures):
    """Where a peer has an operation and no figure on these cores; the means leave those points out."""
    return [f"{f.section}, {f.op} {f.nbytes:,} B, {f.mode.replace('_', ' ')}: not measured on {f.latency_class} cores: {', '.join(f.absent)}"
            for f in all_figures if f.absent]


def report(run, all_figures, verdicts):
    """run: what __main__ collected: command, machine, rows, notes, answers (of kith-bench's commands, by name)."""
    rows = run["rows"]
    lines = [f"Command: `{run['command']}` on {run['date']}, {run['minutes']:.0f} minutes.", ""]
    lines += [f"- {key}: {value}" for key, value in run["machine"].items()]
    wrong = sum(not row["is_right"] for row in rows)
    lines += [f"- measurements: {len(rows):,} rows, {wrong} with wrong data",
              f"- involuntary context switches during measurements: {sum(row['switches'] for row in rows if row['ranks'] <= 2):,} (2 ranks)"]
    lines += ["", "### Targets", ""] + verdict_table(verdicts)
    lines += ["", "### How many times faster than the best peer (geometric mean over sizes)", ""] + means_table(all_figures)
    for title, contender in RATIOS:
        lines += ["", f"### Best peer / {title}, by size (1 and more: Kith is faster)", ""] + ratio_table(all_figures, contender)
    lines += ["", "### Where the two cores were", ""] + latency_table(rows)
    for section in dict.fromkeys(f.section for f in all_figures):
        if section == "mpi pair":
            continue
        lines += ["", f"### {section}"]
        for mode in MODES:
            lines += section_tables(all_figures, section, mode)
    if any(row["section"] == "mpi pair" for row in rows):
        lines += ["", "### The mpi backend over the raw call, in one process", ""] + pair_table(rows)
    for name, title, rows_of in commands.TABLES:
        if run["answers"].get(name):
            heading, *body = rows_of(run["answers"][name])
            lines += ["", f"### {title}", ""] + table(heading, body)
    overhead = run["answers"].get("overhead")
    if overhead:
        lines += ["", "### Starting an operation above a backend that does nothing", ""] + overhead_table(overhead)
    notes = run["notes"] + absent_notes(all_figures)
    if notes:
        lines += ["", "### Notes of the run", ""] + [f"- {note}" for note in notes]
    return "\n".join(lines) + "\n"


def put_into(path, text):
    """Replaces what stands between the two marks of a document."""
    with open(path, encoding="utf-8") as file:
        document = file.read()
    if BEGIN not in document or END not in document:
        raise ValueError(f"{path} does not have the marks {BEGIN} and {END}")
    head, rest = document.split(BEGIN, 1)
    tail = rest.split(END, 1)[1]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{head}{BEGIN}\n{text}{END}{tail}")
