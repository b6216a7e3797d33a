#!/usr/bin/env python3
"""Runs the tests of simulated GPUs on real ones: the same programs, without the environment of the simulation.

    programs.py --build DIR --seconds 120 [--simulated] [--tests REGEX]

Which tests there are, how they are started and what they need is read where ctest reads it (CTestTestfile.cmake of each
folder; ctest itself does not tell of programs that lie elsewhere now). Taken are those with the label gpu whose
environment names the simulated libraries, but for those that ask it for failures, which a card does not give, and those
that say that they count on it (KITH_SIMGPU_ONLY). A test
needs as many cards as its environment has simulated ones (KITH_SIMGPU_DEVICES), but no more than it starts ranks (-n);
where there are fewer, it is skipped. A build that was moved here from another place is taken as it lies: the folders in
commands and environments are replaced.

Prints a line for each test; the last one is a row of the report (bench/gpu/gpu.h). Exit status: 0, 1 when a test failed
or none ran, 77 when there is none.

SPDX-License-Identifier: BSD-3-Clause
"""
import argparse
import os
import re
import subprocess
import sys
import time

SIMULATED = ("KITH_SIMGPU_", "KITH_CUDART_LIBRARY=", "KITH_CUBLAS_LIBRARY=", "KITH_NCCL_LIBRARY=")
ONLY_SIMULATED = ("KITH_SIMGPU_FAULT=", "KITH_SIMGPU_KEEP_GOING=", "KITH_SIMGPU_ONLY=")
SKIPPED = 77


# A word of CMake: [=[in brackets]=], "in quotes", or bare.
WORD = re.compile(r'\[(=*)\[(.*?)\]\1\]|"((?:[^"\\]|\\.)*)"|([^\s()"\[]+)', re.DOTALL)
CALL = re.compile(r'^(add_test|set_tests_properties)\((.*?)\)$', re.DOTALL | re.MULTILINE)


def words_of(text):
    return [m[2] if m[2] is not None else m[4] if m[4] is not None else re.sub(r"\\(.)", r"\1", m[3])
            for m in WORD.finditer(text)]


class Test:
    def __init__(self, name, command):
        self.name = name
        self.command = command
        self.labels = []
        self.environment = []
        self.seconds = 60
        self.folder = None

    def set(self, properties):
        """Names and values in turns."""
        for name, value in zip(properties[::2], properties[1::2]):
            if name == "LABELS":
                self.labels = value.split(";")
            elif name == "ENVIRONMENT":
                self.environment = [line for line in value.split(";") if "=" in line]
            elif name == "TIMEOUT":
                self.seconds = float(value)
            elif name == "WORKING_DIRECTORY":
                self.folder = value

    def value(self, name, otherwise):
        for line in self.environment:
            if line.startswith(name + "="):
                return line[len(name) + 1:]
        return otherwise

    def is_of_a_card(self):
        is_simulated = any(line.startswith("KITH_CUDART_LIBRARY=") for line in self.environment)
        return is_simulated and not any(line.startswith(ONLY_SIMULATED) for line in self.environment)

    def devices(self):
        ranks = [int(number) for flag, number in zip(self.command, self.command[1:]) if flag == "-n"]
        return min([int(self.value("KITH_SIMGPU_DEVICES", "1"))] + ranks)

    def move(self, build, source):
        """From where it was built to where it lies."""
        places = [(self.value("KITH_BUILD_DIR", build), build), (self.value("KITH_SOURCE_DIR", source), source)]

        def moved(text):
            for was, now in places:
                text = text.replace(was, now)
            return text

        self.command = [moved(word) for word in self.command]
        self.environment = [moved(line) for line in self.environment]
        self.folder = moved(self.folder) if self.folder else None


def tests_of(build, source):
    tests = {}
    for folder, _, files in os.walk(build):
        if "CTestTestfile.cmake" not in files:
            continue
        with open(os.path.join(folder, "CTestTestfile.cmake"), encoding="utf-8") as file:
            for function, text in CALL.findall(file.read()):
                name, *rest = words_of(text)
                if function == "add_test":
                    tests[name] = Test(name, rest)
                    tests[name].folder = folder
                else:
                    tests[name].set(rest[1:])
    for test in tests.values():
        test.move(build, source)
    return [test for test in tests.values() if "gpu" in test.labels and test.is_of_a_card() and
            os.access(test.command[0], os.X_OK)]


def environment_of(test, is_simulated):
    environment = dict(os.environ)
    for line in test.environment:
        if is_simulated or not line.startswith(SIMULATED):
            name, value = line.split("=", 1)
            environment[name] = value
    return environment


def run(test, is_simulated, left):
    """"passed", "skipped" or "FAILED", and what the program wrote. A test has its own seconds; one that is ended
    before, since all of them together have no more time, has shown nothing."""
    seconds = min(left, test.seconds)
    try:
        done = subprocess.run(test.command, env=environment_of(test, is_simulated), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=test.folder, timeout=seconds)
    except subprocess.TimeoutExpired as late:
        if left < test.seconds:
            return "skipped", b"ended after %.0f s, as no more time was left" % seconds
        return "FAILED", (late.stdout or b"") + b"\n(ended after %.0f s)" % seconds
    except OSError as error:
        return "FAILED", str(error).encode()
    return {0: "passed", SKIPPED: "skipped"}.get(done.returncode, "FAILED"), done.stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--devices", type=int, default=1, help="cards of this machine")
    parser.add_argument("--seconds", type=float, default=120, help="for all tests together")
    parser.add_argument("--simulated", action="store_true", help="on the simulated GPU after all")
    parser.add_argument("--tests", default="", help="only those whose names match")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    tests = [t for t in tests_of(build, source) if re.search(options.tests, t.name)]
    if not tests:
        print("no test is built")
        return SKIPPED
    end = time.monotonic() + options.seconds
    counts = {"passed": 0, "skipped": 0, "FAILED": 0}
    failed, started = [], time.monotonic()
    for test in sorted(tests, key=lambda t: t.devices()):
        left = end - time.monotonic()
        if not options.simulated and test.devices() > options.devices:
            result, said = "skipped", b"needs %d cards" % test.devices()
        elif left < 1:
            result, said = "skipped", b"no time was left"
        else:
            result, said = run(test, options.simulated, left)
        counts[result] += 1
        lines = said.decode(errors="replace").strip().splitlines()
        if result == "FAILED":
            failed.append(test.name)
            print("\n".join(lines[-40:]))
        print("%-8s %s%s" % (result, test.name, ": " + lines[-1] if result == "skipped" and lines else ""), flush=True)
    whole = "right" if counts["passed"] else "none passed"
    names = ": " + ", ".join(failed[:4]) + (" and more" if len(failed) > 4 else "") if failed else ""
    print("\t".join(("tests", "programs of the label gpu", "%d passed" % counts["passed"],
                     "%d skipped, %.0f s" % (counts["skipped"], time.monotonic() - started),
                     "%d FAILED%s" % (counts["FAILED"], names) if failed else whole)))
    return 1 if failed or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
