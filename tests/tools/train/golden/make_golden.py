#!/usr/bin/env python3
"""Ten steps of tiny models in PyTorch, for tests/tools/train/test_train_torch.sh: losses and gradient norms.

    python3 make_golden.py BUILD/bin/kith > golden.txt

Needs torch and transformers (PyPI). `kith train --steps 0 --save` writes the start as safetensors and config.json; transformers loads
them, the steps are torch.optim.AdamW's, gradients are clipped by torch.nn.utils.clip_grad_norm_(), and the samples are chosen as
tools/train/data.c describes it, written a second time here. So the two have the files in common and nothing else. Everything is
in f64 but for the rotary angles, which transformers computes in f32.

SPDX-License-Identifier: BSD-3-Clause
"""

import os
import subprocess
import sys
import tempfile

import torch
import transformers

MASK = (1 << 64) - 1
HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, SEED, SEQUENCE, BATCH = 10, 3, 16, 4
PEAK, WARMUP, MINIMUM, DECAY, CLIP = 3e-3, 3, 3e-4, 0.1, 0.5


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


def permute(key, index, count):
    half = 1
    while half < 31 and count > 1 << (2 * half):
        half += 1
    low = (1 << half) - 1
    while True:
        left, right = index >> half, index & low
        for number in range(6):
            left, right = right, left ^ (mix(mix((key + number) & MASK) ^ right) & low)
        index = left << half | right
        if index < count:
            return index


def samples(text, step):
    """[BATCH, SEQUENCE + 1] bytes of the first nine tenths."""
    training = len(text) - len(text) // 10
    places = training - SEQUENCE
    steps = places // BATCH
    key = mix(mix(SEED) ^ step // steps)
    first = [permute(key, step % steps * BATCH + sample, places) for sample in range(BATCH)]
    return torch.tensor([list(text[place : place + SEQUENCE + 1]) for place in first])


def rate(step):
    if step < WARMUP:
        return PEAK * (step + 1) / WARMUP
    share = min(1.0, (step - WARMUP) / (STEPS - WARMUP))
    return MINIMUM + (PEAK - MINIMUM) / 2 * (1 + torch.cos(torch.tensor(torch.pi * share, dtype=torch.float64)).item())


def train(folder, text):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float64)
    model.train()
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}])
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        tokens = samples(text, step)
        logits = model(tokens[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        yield step, loss.item(), norm.item()


def main():
    kith = sys.argv[1]
    text_path = os.path.join(HERE, "text.txt")
    text = open(text_path, "rb").read()
    print("# model step loss grad_norm; made by make_golden.py with torch", torch.__version__, "and transformers",
          transformers.__version__)
    for name in ("gpt2", "llama"):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([kith, "train", "--model", os.path.join(HERE, name + ".json"), "--text", text_path,
                            "--dtype", "f64", "--seed", str(SEED), "--seq", str(SEQUENCE), "--global-batch", str(BATCH),
                            "--steps", "0", "--validation-batches", "0", "--save", folder], check=True,
                           stdout=subprocess.DEVNULL)
            for step, loss, norm in train(os.path.join(folder, "step-00000000"), text):
                print(f"{name} {step} {loss:.12g} {norm:.12g}")


if __name__ == "__main__":
    main()
