#!/usr/bin/env python3
"""Makes the golden sums of files that Hugging Face transformers writes, and its config.json files.

    pip install torch transformers safetensors
    python3 make_golden.py            writes <family>.txt and <family>.json beside this file

The weights are those of ../../golden/make_golden.py: a formula of a parameter's name in Kith. A line of <family>.txt is
a tensor of the file: name, shape, CRC-32 of its bytes in f64. A file that Kith writes of the same model has the same
tensors with the same sums. The numbers are committed; CI compares with them and needs none of the packages.

SPDX-License-Identifier: BSD-3-Clause
"""
import importlib.util
import json
import os
import struct
import tempfile
import zlib

import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = importlib.util.spec_from_file_location("models", os.path.join(HERE, "..", "..", "golden", "make_golden.py"))
models = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(models)


def qwen2():
    """Biases of q, k and v, and a head that is the embedding."""
    blocks = 2
    config = transformers.Qwen2Config(vocab_size=models.VOCABULARY, hidden_size=24, intermediate_size=40,
                                      num_hidden_layers=blocks, num_attention_heads=4, num_key_value_heads=2,
                                      rms_norm_eps=1e-6, tie_word_embeddings=True, attn_implementation="eager")
    parts = models.llama_like(blocks)
    del parts.of["head.weight"]
    for i in range(blocks):
        for which in ("gate", "up", "down"):
            parts.add(f"blocks.{i}.mlp.{which}.weight", f"model.layers.{i}.mlp.{which}_proj.weight")
        for which in "qkv":
            parts.add(f"blocks.{i}.attention.{which}.bias", f"model.layers.{i}.self_attn.{which}_proj.bias")
    return transformers.Qwen2ForCausalLM(config), parts


def header_of(path):
    """Tensors of a safetensors file: (name, description, bytes), without the package."""
    with open(path, "rb") as file:
        text = file.read()
    (nbytes,) = struct.unpack("<Q", text[:8])
    for name, tensor in sorted(json.loads(text[8:8 + nbytes]).items()):
        if name != "__metadata__":
            begin, end = tensor["data_offsets"]
            yield name, tensor, text[8 + nbytes + begin:8 + nbytes + end]


def start(model, parts):
    """Gives the model its weights; it is in f64 then."""
    model = model.double()
    with torch.no_grad():
        tensors = dict(model.named_parameters())
        for kith_name in parts.of:
            piece = parts.piece(kith_name, tensors)
            piece.copy_(torch.from_numpy(models.start(kith_name, tuple(piece.shape))))
    return model


def write(name, folder):
    with open(os.path.join(HERE, name + ".txt"), "w", encoding="ascii") as out:
        print(f"# {name}: made by make_golden.py with torch {torch.__version__.split('+')[0]}, transformers "
              f"{transformers.__version__}, in f64", file=out)
        for key, tensor, data in header_of(os.path.join(folder, "model.safetensors")):
            shape = ",".join(str(size) for size in tensor["shape"])
            print(f"{key} [{shape}] {zlib.crc32(data):08x}", file=out)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as config:
        text = config.read()
    with open(os.path.join(HERE, name + ".json"), "w", encoding="utf-8") as out:
        out.write(text)


FAMILIES = (("gpt2", models.gpt2), ("llama", models.llama), ("mixtral", models.mixtral), ("qwen2", qwen2))


def main():
    with tempfile.TemporaryDirectory() as scratch:
        for name, make in FAMILIES:
            folder = os.path.join(scratch, name)
            start(*make()).save_pretrained(folder)
            write(name, folder)


if __name__ == "__main__":
    main()
