"""Simulated times of growing groups beside the alpha-beta formulas of their algorithms; status 1 when one is off.

    python3 growth.py TIMES      lines "NODES OP/ALGORITHM/NBYTES SECONDS", nodes of 8 GPUs with a NIC each

A round costs alpha + bytes * beta, with one pair of constants inside a node and one between nodes. The constants come
from the smallest groups alone: those inside from recursive doubling on one node (1 KiB and 1 MiB), those between from
what the second node adds to it. Everything larger is predicted, and must be within 10 %.

SPDX-License-Identifier: BSD-3-Clause
"""

import math
import sys

MOST_OFF = 0.10
PER_NODE = 8
SMALL, LARGE = 1024, 1 << 20
DOUBLING = "all_reduce/recursive_doubling"


def read(path):
    """{(nodes, name): seconds}"""
    with open(path, encoding="ascii") as file:
        return {(int(nodes), name): float(seconds) for nodes, name, seconds in (line.split() for line in file)}


def line(small_s, large_s):
    """alpha and beta of times at SMALL and LARGE bytes."""
    beta = (large_s - small_s) / (LARGE - SMALL)
    return small_s - SMALL * beta, beta


def constants(times):
    """((alpha, beta) of a round inside a node, the same between nodes)"""
    one = [times[1, f"{DOUBLING}/{nbytes}"] for nbytes in (SMALL, LARGE)]
    two = [times[2, f"{DOUBLING}/{nbytes}"] for nbytes in (SMALL, LARGE)]
    inside = line(*(seconds / math.log2(PER_NODE) for seconds in one))
    return inside, line(*(b - a for a, b in zip(one, two)))


def rounds(op, algorithm, ranks, nbytes):
    """[(bytes of a round, is it between nodes?)]. Distances grow from 1, so the first three rounds stay in a node."""
    steps = range(int(math.log2(ranks)))
    between = [2**k >= PER_NODE for k in steps]
    if algorithm == "ring":  # one GPU of each node
        members = ranks // PER_NODE
        return [(nbytes / members, True)] * (2 * (members - 1))
    if op == "all_gather":  # what a rank holds doubles
        return [(nbytes / ranks * 2**k, between[k]) for k in steps]
    halves = [(nbytes / 2 ** (k + 1), between[k]) for k in steps]
    return {"recursive_doubling": [(nbytes, b) for b in between], "recursive_halving": halves, "rabenseifner": halves + halves}[algorithm]


def formula(name, ranks, inside, outside):
    op, algorithm, nbytes = name.split("/")
    return sum((outside if is_between else inside)[0] + size * (outside if is_between else inside)[1]
               for size, is_between in rounds(op, algorithm, ranks, int(nbytes)))


def main(path):
    times = read(path)
    inside, outside = constants(times)
    print(f"\n**growth**: inside a node {1e6 * inside[0]:.2f} us and {1e-9 / inside[1]:.1f} GB/s, between nodes {1e6 * outside[0]:.2f} us and "
          f"{1e-9 / outside[1]:.1f} GB/s a round\n\n| collective | ranks | simulated us | formula us | ratio | growth from 16 | formula's |\n"
          "|---|---:|---:|---:|---:|---:|---:|")
    off, count = [], 0
    for name in dict.fromkeys(name for _, name in times):
        base = times[2, name], formula(name, 2 * PER_NODE, inside, outside)
        for nodes in sorted(n for n, other in times if other == name and n >= 2):
            ranks = PER_NODE * nodes
            simulated, expected = times[nodes, name], formula(name, ranks, inside, outside)
            grown = simulated / base[0], expected / base[1]
            print(f"| {name} | {ranks} | {1e6 * simulated:.1f} | {1e6 * expected:.1f} | {simulated / expected:.3f} | {grown[0]:.2f} | {grown[1]:.2f} |")
            count += 1
            if abs(grown[0] / grown[1] - 1) > MOST_OFF:
                off.append(f"{name} on {ranks} ranks grows {grown[0]:.2f} times, and {grown[1]:.2f} by its formula")
    for text in off:
        print(f"off: {text}", file=sys.stderr)
    print(f"\nChecked: growth of {count} times within {MOST_OFF:.0%}: {f'{len(off)} OFF' if off else 'all right'}.")
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
