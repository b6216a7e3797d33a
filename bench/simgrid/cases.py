"""Writes the case files of the comparison (their form: tests/topology/simgrid/cases.h).

    python3 cases.py 2|8|64|steps|steps-leaf|growth-NODES [--short]

The algorithms are those that core/algo/select_rules.h takes for 1 MiB and more, and their alternatives; the ones with a
message for every pair of ranks stop at 64 ranks (the rules stop at 32).

SPDX-License-Identifier: BSD-3-Clause
"""

import sys

MIB = 1 << 20
ALGORITHMS = {
    "all_reduce": ["ring", "segmented_ring", "multi_ring", "rabenseifner", "recursive_doubling", "reduce_broadcast", "linear"],
    "reduce_scatter": ["ring", "multi_ring", "recursive_halving", "pairwise", "linear"],
    "all_gather": ["ring", "multi_ring", "recursive_doubling", "neighbor_exchange", "bruck", "linear"],
}
TOO_MANY = {"pairwise", "linear", "segmented_ring", "multi_ring"}  # messages to simulate on 512 ranks in minutes
ORDERS = ["identity", "halves", "pairs", "across", "shuffled"]


def collectives(nodes, sizes):
    print(f"machine {nodes} 8 0 0")
    for op, names in ALGORITHMS.items():
        for name in names:
            if nodes > 8 and name in TOO_MANY:
                continue
            for size in sizes:
                print(f"case {op}/{name}/{size}MiB")
                print(f"phase 1 {op} {name} {size * MIB} {8 * nodes} 1 1 0 identity")


def steps(machine, calls):
    """A step of TP 8 times DP 8: several all_reduces of 64 MiB in each TP group, then one of 256 MiB in each DP group."""
    print(f"machine 8 {machine}")
    for order in ORDERS:
        print(f"case tp8_dp8/{order}")
        print(f"phase {calls} all_reduce ring {64 * MIB} 8 8 1 8 {order}")
        print(f"phase 1 all_reduce ring {256 * MIB} 8 8 8 1 {order}")
    for order in ORDERS:
        print(f"case tp8_dp8_logarithmic/{order}")
        print(f"phase {calls} all_reduce rabenseifner {64 * MIB} 8 8 1 8 {order}")
        print(f"phase 1 all_reduce rabenseifner {256 * MIB} 8 8 8 1 {order}")
    for order in ORDERS:  # the hierarchical formula: reduce-scatter inside, all_reduce between, all-gather inside
        print(f"case levels/{order}")
        print(f"phase 1 reduce_scatter recursive_halving {256 * MIB} 8 8 1 8 {order}")
        print(f"phase 1 all_reduce ring {32 * MIB} 8 8 8 1 {order}")
        print(f"phase 1 all_gather recursive_doubling {256 * MIB} 8 8 1 8 {order}")


GROWTH = [("all_reduce", "recursive_doubling", 1024), ("all_reduce", "recursive_doubling", MIB), ("all_reduce", "rabenseifner", MIB),
          ("all_reduce", "rabenseifner", 64 * MIB), ("all_gather", "recursive_doubling", MIB), ("reduce_scatter", "recursive_halving", MIB),
          ("all_reduce", "ring", 64 * MIB)]


def growth(nodes):
    """All GPUs of so many nodes, each with a NIC of its own, in one group; as a ring one GPU of every
    node. A ring over hops of two kinds overlaps the rounds of one with those of the other, and has no short formula."""
    print(f"machine {nodes} 8 0 0")
    for op, name, nbytes in GROWTH:
        if name == "ring" and nodes == 1:
            continue
        group = f"{nodes} 1 8 0" if name == "ring" else f"{8 * nodes} 1 1 0"
        print(f"case {op}/{name}/{nbytes}")
        print(f"phase 1 {op} {name} {nbytes} {group} identity")


def main(what, is_short):
    if what == "steps":
        steps("8 0 0", 4 if is_short else 40)
    elif what == "steps-leaf":
        steps("4 2 2", 4 if is_short else 40)
    elif what.startswith("growth-"):
        growth(int(what.removeprefix("growth-")))
    elif what == "64":
        collectives(64, [1, 256])
    else:
        collectives(int(what), [1, 256] if is_short else [1, 4, 16, 64, 256])


if __name__ == "__main__":
    main(sys.argv[1], "--short" in sys.argv)
