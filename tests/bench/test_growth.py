# tests/bench/test_growth.py - bench/simgrid/growth.py: constants out of the smallest groups, formulas, what is off.
#
# SPDX-License-Identifier: BSD-3-Clause
import contextlib
import io
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "bench", "simgrid"))

import cases
import growth

INSIDE, OUTSIDE = (2e-6, 1e-11), (20e-6, 5e-11)


def times(nodes_list=(1, 2, 4, 8)):
    """What a machine would take that is exactly as its formulas."""
    made = {}
    for nodes in nodes_list:
        for op, algorithm, nbytes in cases.GROWTH:
            if algorithm != "ring" or nodes > 1:
                name = f"{op}/{algorithm}/{nbytes}"
                made[nodes, name] = growth.formula(name, 8 * nodes, INSIDE, OUTSIDE)
    return made


class Growth(unittest.TestCase):
    def check(self, made):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out, \
                contextlib.redirect_stderr(io.StringIO()) as errors:
            path = os.path.join(folder, "times")
            with open(path, "w", encoding="ascii") as file:
                file.writelines(f"{nodes} {name} {seconds!r}\n" for (nodes, name), seconds in made.items())
            return growth.main(path), out.getvalue() + errors.getvalue()

    def test_constants_come_out_of_the_two_smallest_groups(self):
        for found, wanted in zip(growth.constants(times()), (INSIDE, OUTSIDE)):
            self.assertAlmostEqual(found[0] / wanted[0], 1)
            self.assertAlmostEqual(found[1] / wanted[1], 1)

    def test_rounds_count_what_is_sent_and_where(self):
        self.assertEqual(growth.rounds("all_reduce", "recursive_doubling", 16, 64), [(64, False)] * 3 + [(64, True)])
        self.assertEqual(growth.rounds("reduce_scatter", "recursive_halving", 16, 64), [(32, False), (16, False), (8, False), (4, True)])
        self.assertEqual(sum(size for size, _ in growth.rounds("all_gather", "recursive_doubling", 16, 64)), 60)
        self.assertEqual(sum(size for size, _ in growth.rounds("all_reduce", "rabenseifner", 16, 64)), 120)
        self.assertEqual(growth.rounds("all_reduce", "ring", 32, 64), [(16, True)] * 6)

    def test_growth_as_the_formula_says_is_all_right(self):
        status, text = self.check(times())
        self.assertEqual(status, 0, text)
        self.assertIn("Checked: growth of 21 times within 10%: all right.", text)

    def test_one_group_that_grows_more_is_found(self):
        made = times()
        made[8, "all_reduce/rabenseifner/1048576"] *= 1.11
        status, text = self.check(made)
        self.assertEqual(status, 1)
        self.assertIn("off: all_reduce/rabenseifner/1048576 on 64 ranks grows", text)
        self.assertIn("1 OFF", text)


if __name__ == "__main__":
    unittest.main()
