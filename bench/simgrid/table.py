"""Writes one table of predicted and simulated times; status 1 when something is off.

    python3 table.py TITLE PREDICTED SIMULATED

Collectives (names OP/ALGORITHM/SIZE) must be within 15 %; of the others (NAME/ORDER), all orders of one name must rank
as simulated. Times that are within 1 % of each other on one side are a tie, which may fall either way.

SPDX-License-Identifier: BSD-3-Clause
"""

import sys

MOST_OFF = 0.15
TIE = 0.01


def read(path):
    with open(path, encoding="ascii") as file:
        return {name: float(seconds) for name, seconds in (line.split() for line in file)}


def differs(a, b, predicted, simulated):
    """Is a faster than b on one side, and clearly slower on the other?"""
    here, there = predicted[a] / predicted[b], simulated[a] / simulated[b]
    return (here < 1 - TIE and there > 1 + TIE) or (here > 1 + TIE and there < 1 - TIE)


def summary(predicted, simulated, groups, is_collective, off_count):
    result = f"{off_count} OFF" if off_count else "all right"
    if not is_collective:
        return f"Checked: rankings of {', '.join(groups)}, {len(predicted)} times: {result}."
    ratios = [predicted[name] / simulated[name] for name in predicted]
    return (f"Checked: {len(ratios)} predictions within {MOST_OFF:.0%}: {result}; "
            f"ratios {min(ratios):.3f} to {max(ratios):.3f}.")


def main(title, predicted_path, simulated_path):
    predicted, simulated = read(predicted_path), read(simulated_path)
    if not predicted or predicted.keys() != simulated.keys():
        print("the simulation has not all cases", file=sys.stderr)
        return 1
    is_collective = next(iter(predicted)).count("/") == 2
    off = []
    print(f"\n**{title}**\n\n| case | predicted us | simulated us | ratio |\n|---|---:|---:|---:|")
    for name, seconds in predicted.items():
        ratio = seconds / simulated[name]
        print(f"| {name} | {seconds * 1e6:.1f} | {simulated[name] * 1e6:.1f} | {ratio:.3f} |")
        if is_collective and abs(ratio - 1) > MOST_OFF:
            off.append(f"{name}: {ratio:.3f}")
    groups = {}
    for name in predicted:
        groups.setdefault(name.split("/")[0], []).append(name)
    for names in groups.values() if not is_collective else ():
        pairs = [(a, b) for a in names for b in names if a < b]
        off += [f"{a} and {b} rank differently" for a, b in pairs if differs(a, b, predicted, simulated)]
        print(f"\nOrder of {names[0].split('/')[0]}: " + " < ".join(
            name.split("/")[1] for name in sorted(names, key=lambda name: simulated[name])))
    for line in off:
        print(f"off: {line}", file=sys.stderr)
    print("\n" + summary(predicted, simulated, groups, is_collective, len(off)))
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
