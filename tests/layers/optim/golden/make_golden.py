#!/usr/bin/env python3
"""Makes the golden numbers of optimizers with PyTorch: ten steps of AdamW and of SGD.

    pip install torch numpy
    python3 make_golden.py            writes optim.txt beside this file

The numbers are committed; CI compares with them and needs no PyTorch. Values and gradients are formulas of a
parameter's name, the step and the index (layer_help.c has the same), so only results are stored: the norm of each
step's gradient before clipping, and all values after ten steps, in f64.

SPDX-License-Identifier: BSD-3-Clause
"""
import os

import numpy
import torch

STEPS = 10
SHAPES = {"linear.weight": (7, 5), "linear.bias": (7,)}


def seed_of(name):
    seed = 5381
    for byte in name.encode():
        seed = (seed * 33 + byte) & 0xFFFFFFFF
    return seed & 0xFFFF


def fraction(seed, count):
    """splitmix64 of (seed, index) in [-1, 1), as in layer_help.c."""
    with numpy.errstate(over="ignore"):
        z = numpy.arange(count, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
        z = z + numpy.uint64((seed << 40) + 1)
        z = (z ^ z >> numpy.uint64(30)) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> numpy.uint64(27)) * numpy.uint64(0x94D049BB133111EB)
        z = z ^ z >> numpy.uint64(31)
    return (z >> numpy.uint64(11)).astype(numpy.float64) / float(1 << 52) - 1


def values_of(name, step):
    """Step -1: what a parameter starts with; else its gradient."""
    shape = SHAPES[name]
    numbers = fraction(seed_of(name) + 1 + step, int(numpy.prod(shape)))
    return torch.from_numpy(numbers.reshape(shape).copy())


def rate_at(step):
    return 0.01 * (step + 1)


CASES = {
    "adamw": dict(kind="adamw", decay=0.1, clip=0, decays_all=False),
    "adamw_clipped": dict(kind="adamw", decay=0.1, clip=0.5, decays_all=False),
    "adamw_all": dict(kind="adamw", decay=0.3, clip=0, decays_all=True),
    "sgd": dict(kind="sgd", decay=0, clip=0, decays_all=False, momentum=0),
    "sgd_momentum": dict(kind="sgd", decay=0.1, clip=0, decays_all=False, momentum=0.9),
    "sgd_clipped": dict(kind="sgd", decay=0.1, clip=0.5, decays_all=False, momentum=0.9),
}


def run(case):
    params = {name: torch.nn.Parameter(values_of(name, -1)) for name in SHAPES}
    groups = [
        {"params": [params["linear.weight"]], "weight_decay": case["decay"]},
        {"params": [params["linear.bias"]], "weight_decay": case["decay"] if case["decays_all"] else 0},
    ]
    if case["kind"] == "adamw":
        optimizer = torch.optim.AdamW(groups, lr=1, betas=(0.9, 0.95), eps=1e-8)
    else:
        optimizer = torch.optim.SGD(groups, lr=1, momentum=case["momentum"])
    norms = []
    for step in range(STEPS):
        for name, param in params.items():
            param.grad = values_of(name, step)
        limit = case["clip"] if case["clip"] > 0 else float("inf")
        norms.append(torch.nn.utils.clip_grad_norm_(params.values(), limit).item())
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step)
        optimizer.step()
    return norms, params


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "optim.txt")
    with open(path, "w") as out:
        out.write(f"# made by make_golden.py with torch {torch.__version__}\n")
        for name, case in CASES.items():
            norms, params = run(case)
            out.write(f"case {name}\n")
            for norm in norms:
                out.write(f"{norm:.17g}\n")
            for param in params.values():
                for value in param.detach().reshape(-1).tolist():
                    out.write(f"{value:.17g}\n")


main()
