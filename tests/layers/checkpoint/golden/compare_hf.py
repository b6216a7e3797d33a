#!/usr/bin/env python3
"""Compares Kith and Hugging Face transformers through files, both ways, by the logits of one batch.

    pip install torch transformers safetensors
    python3 compare_hf.py BUILD/bin/tests/ckpt_tool

Not part of CI, which has golden sums instead (make_golden.py).

SPDX-License-Identifier: BSD-3-Clause
"""
import importlib
import os
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers

import make_golden
from make_golden import models

TOLERANCE = {"f64": 1e-10, "f32": 1e-5}


class Doubles:
    """torch for the modules of models in f64, which compute norms, softmax and rotary angles in f32 by themselves."""

    float = float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def exact_angles(self, x, position_ids=None, seq_len=None):
    count = self.inv_freq.shape[0]
    frequencies = 10000.0 ** -(torch.arange(count, dtype=torch.float64) / count)
    positions = torch.arange(seq_len)[None] if position_ids is None else position_ids
    angles = positions[:, :, None].double() * frequencies
    angles = torch.cat((angles, angles), dim=-1)
    angles = angles[0] if position_ids is None else angles
    return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def be_exact(dtype):
    for family, name in (("llama", "Llama"), ("mixtral", "Mixtral"), ("qwen2", "Qwen2")):
        module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
        module.torch = Doubles() if dtype == "f64" else torch
        getattr(module, name + "RotaryEmbedding").forward = exact_angles


def logits_of(model):
    ids = torch.from_numpy(models.tokens(1).T.copy())
    with torch.no_grad():
        return model.eval()(input_ids=ids, use_cache=False).logits.double().numpy().transpose(1, 0, 2)


def load(folder, dtype):
    """The model and what from_pretrained() had to say about the tensors."""
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, torch_dtype=torch.float64 if dtype == "f64" else torch.float32, attn_implementation="eager",
        output_loading_info=True)


def kith_logits(tool, config, weights, dtype, scratch):
    out = os.path.join(scratch, "logits")
    subprocess.run([tool, "logits", config, weights, dtype, out], check=True)
    return numpy.fromfile(out).reshape(models.SEQUENCE, models.BATCH, models.VOCABULARY)


def distance(a, b):
    return float(numpy.abs(a - b).max() / numpy.abs(b).max())


def compare(what, got, wanted, tolerance):
    far = distance(got, wanted)
    print(f"{what}: {far:.2e} apart, {'ok' if far <= tolerance else 'TOO FAR'} (at most {tolerance:g})")
    return far <= tolerance


def kith_to_hf(tool, family, dtype, tolerance, scratch):
    folder = os.path.join(scratch, f"kith-{family}-{dtype}")
    subprocess.run([tool, "save", family, dtype, folder], check=True)
    folder = os.path.join(folder, "step-00000001")
    model, info = load(folder, dtype)
    if info["missing_keys"] or info["unexpected_keys"] or info["mismatched_keys"]:
        print(f"{family} {dtype}: {info}")
        return False
    mine = kith_logits(tool, os.path.join(folder, "config.json"), folder, dtype, scratch)
    return compare(f"{family} {dtype}, written by Kith", logits_of(model), mine, tolerance)


def hf_to_kith(tool, family, dtype, tolerance, scratch, **how):
    source = os.path.join(scratch, "hf", family)
    model, _ = load(source, dtype)
    folder = os.path.join(scratch, f"hf-{family}-{dtype}-{len(how)}")
    model.save_pretrained(folder, **how)
    mine = kith_logits(tool, os.path.join(folder, "config.json"), folder, dtype, scratch)
    what = f"{family} {dtype}, written by transformers{' in several files' if how else ''}"
    return compare(what, mine, logits_of(model), tolerance)


def main():
    tool = os.path.abspath(sys.argv[1])
    is_good = True
    with tempfile.TemporaryDirectory() as scratch:
        for family, make in make_golden.FAMILIES:
            make_golden.start(*make()).save_pretrained(os.path.join(scratch, "hf", family))
            for dtype in ("f64", "f32"):
                tolerance = TOLERANCE[dtype]
                be_exact(dtype)
                is_good &= kith_to_hf(tool, family, dtype, tolerance, scratch)
                is_good &= hf_to_kith(tool, family, dtype, tolerance, scratch)
                is_good &= hf_to_kith(tool, family, dtype, tolerance, scratch, max_shard_size="20KB")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
