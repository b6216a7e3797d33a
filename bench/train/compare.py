#!/usr/bin/env python3
"""Tokens per second of `kith train` and of PyTorch on the same cores, in turns: GPT-2 of 6 x 384 and of 12 x 768.

    python3 bench/train/compare.py --kith build/release/bin/kith [--torch PYTHON] [--rounds 5] [--steps 8] [--shape small|gpt2]
                                   [--only TEXT]

Each round runs every variant once, in an order that turns with the rounds; a variant's figure is the median over its rounds of the
medians over steps, the first two steps of each run left out. All train the same shape in f32 with AdamW and clipping, and the same
number of samples a step: one process with two threads, and two ranks with a thread each (Kith: tp 2, and dp 2 with and without
sharded optimizer; PyTorch: DistributedDataParallel over Gloo). PYTHON is an interpreter that has torch (PyPI); without one Kith is
measured alone. --only keeps the variants with that text in their names, as "x 2 threads". Prints a table in Markdown, and the share
of a dp 2 step that waits for sums.

SPDX-License-Identifier: BSD-3-Clause
"""

import argparse
import json
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile

SHAPES = {
    # as character-level trainers have it, and GPT-2 124M
    "small": dict(layers=6, hidden=384, heads=6, vocabulary=256, sequence=256, batch=8),
    "gpt2": dict(layers=12, hidden=768, heads=12, vocabulary=50257, sequence=256, batch=2),
}


def write_inputs(folder, shape):
    """A config.json of the shape, and a file of random tokens."""
    config = {
        "model_type": "gpt2", "n_embd": shape["hidden"], "n_layer": shape["layers"], "n_head": shape["heads"],
        "vocab_size": shape["vocabulary"], "n_positions": shape["sequence"], "n_ctx": shape["sequence"],
        "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True,
        "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
    }
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)
    numbers = random.Random(1)
    tokens = [numbers.randrange(shape["vocabulary"]) for _ in range(200_000)]
    with open(os.path.join(folder, "tokens.u16"), "wb") as file:
        file.write(struct.pack(f"<{len(tokens)}H", *tokens))


def run(command, environment=None):
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def kith(args, folder, shape, extra, ranks, threads, micro_batch):
    log = os.path.join(folder, "log.jsonl")
    run([args.kith, "train", "-n", str(ranks), "--threads", str(threads), "--model", os.path.join(folder, "config.json"),
         "--tokens", os.path.join(folder, "tokens.u16"), "--seq", str(shape["sequence"]), "--batch", str(micro_batch),
         "--microbatches", "1", "--steps", str(args.steps + 2), "--lr", "1e-4", "--json-log", log] + extra)
    rows = [row for row in map(json.loads, open(log)) if "step" in row and "event" not in row][2:]
    waited = statistics.median(row["time_ms"]["dp"] / (1e3 * row["tokens"] / row["tokens_per_s"]) for row in rows)
    return statistics.median(row["tokens_per_s"] for row in rows), waited


def torch(args, shape, extra, threads):
    command = [args.torch, os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_trainer.py")]
    for name, value in shape.items():
        command += ["--" + name, str(value)]
    command += ["--steps", str(args.steps), "--threads", str(threads)] + extra
    return json.loads(run(command, {"OMP_NUM_THREADS": str(threads)}).splitlines()[-1])["tokens_per_s"], 0.0


def variants(args, folder, shape):
    batch = shape["batch"]
    rows = {
        "kith, 1 rank x 2 threads": lambda: kith(args, folder, shape, [], 1, 2, batch),
        "kith, 2 ranks x 1 thread, tp": lambda: kith(args, folder, shape, ["--tp", "2"], 2, 1, batch),
        "kith, 2 ranks x 1 thread, dp": lambda: kith(args, folder, shape, ["--dp", "2"], 2, 1, batch // 2),
        "kith, 2 ranks x 1 thread, dp --zero1":
            lambda: kith(args, folder, shape, ["--dp", "2", "--zero1"], 2, 1, batch // 2),
    }
    if args.torch:
        rows["torch eager, 1 process x 2 threads"] = lambda: torch(args, shape, [], 2)
        rows["torch compiled, 1 process x 2 threads"] = lambda: torch(args, shape, ["--compile"], 2)
        rows["torch eager, 2 processes x 1 thread, ddp"] = lambda: torch(args, shape, ["--replicas", "2"], 1)
        rows["torch compiled, 2 processes x 1 thread, ddp"] = \
            lambda: torch(args, shape, ["--replicas", "2", "--compile"], 1)
    return rows


def measure(args, name, shape):
    folder = tempfile.mkdtemp(prefix="kith-bench-train-")
    try:
        write_inputs(folder, shape)
        rows = {key: run_one for key, run_one in variants(args, folder, shape).items() if args.only in key}
        rates, waits = {key: [] for key in rows}, {key: [] for key in rows}
        names = list(rows)
        for number in range(args.rounds):
            for key in names[number % len(names):] + names[:number % len(names)]:
                rate, wait = rows[key]()
                rates[key].append(rate)
                waits[key].append(wait)
    finally:
        shutil.rmtree(folder)
    print_table(name, shape, rates, waits)


def print_table(name, shape, rates, waits):
    best = {"1": 0.0, "2": 0.0}
    for key, values in rates.items():
        if key.startswith("torch"):
            ranks = key.split(", ")[1][0]
            best[ranks] = max(best[ranks], statistics.median(values))
    print(f"\n{name}: " + ", ".join(f"{key} {value}" for key, value in shape.items()) + "\n")
    print("| variant | tokens/s | lowest | highest | of the best of torch | waiting for sums |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for key, values in rates.items():
        middle, peer = statistics.median(values), best[key.split(", ")[1][0]]
        ratio = f"{middle / peer:.2f}" if peer and key.startswith("kith") else ""
        wait = f"{100 * statistics.median(waits[key]):.1f} %" if " dp" in key else ""
        print(f"| {key} | {middle:.0f} | {min(values):.0f} | {max(values):.0f} | {ratio} | {wait} |")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kith", required=True)
    parser.add_argument("--torch", help="a Python that has torch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--only", default="", help="a part of the names of variants")
    parser.add_argument("--shape", choices=list(SHAPES), action="append")
    args = parser.parse_args()
    for name in args.shape or SHAPES:
        measure(args, name, SHAPES[name])


if __name__ == "__main__":
    main()
