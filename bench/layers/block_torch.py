#!/usr/bin/env python3
"""A block of GPT-2 in Kith and in PyTorch, one thread each, forward and backward, in turns on the same core.

    python3 block_torch.py BUILD/bench/bench-layers-block [--hidden 768] [--heads 12] [--sequence 512] [--rounds 15]

Needs torch (PyPI). Prints the medians in milliseconds and their ratio.

SPDX-License-Identifier: BSD-3-Clause
"""
import argparse
import os
import statistics
import subprocess
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
import torch  # noqa: E402


class Block(torch.nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(hidden), torch.nn.LayerNorm(hidden)
        self.qkv, self.out = torch.nn.Linear(hidden, 3 * hidden), torch.nn.Linear(hidden, hidden)
        self.up, self.down = torch.nn.Linear(hidden, 4 * hidden), torch.nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, sequence, hidden = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, sequence, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        core = torch.nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(core.transpose(1, 2).reshape(batch, sequence, hidden))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    for name, value in (("hidden", 768), ("heads", 12), ("sequence", 512), ("batch", 1), ("rounds", 15)):
        parser.add_argument("--" + name, type=int, default=value)
    given = parser.parse_args()
    sizes = []
    for name in ("hidden", "heads", "sequence", "batch"):
        sizes += ["--" + name, str(getattr(given, name))]
    core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    block = Block(given.hidden, given.heads)
    x = torch.randn(given.batch, given.sequence, given.hidden, requires_grad=True)
    dy = torch.randn(given.batch, given.sequence, given.hidden)

    def torch_ms():
        start = time.perf_counter()
        block(x).backward(dy)
        return 1e3 * (time.perf_counter() - start)

    kith = subprocess.Popen([given.program, "--line"] + sizes, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def kith_ms():
        kith.stdin.write("again\n")
        kith.stdin.flush()
        return float(kith.stdout.readline())

    for warm in (torch_ms, kith_ms, torch_ms, kith_ms):
        warm()
    pairs = [(kith_ms(), torch_ms()) for _ in range(given.rounds)]
    mine, theirs = (statistics.median(column) for column in zip(*pairs))
    print(f"hidden {given.hidden}, {given.heads} heads, {given.sequence} x {given.batch} tokens, f32, one thread: "
          f"kith {mine:.2f} ms, torch {torch.__version__} {theirs:.2f} ms, ratio {theirs / mine:.3f}")
    kith.stdin.close()
    kith.wait()


if __name__ == "__main__":
    main()
