#!/usr/bin/env python3
"""Makes the golden numbers of whole models with PyTorch and Hugging Face transformers.

    pip install torch transformers
    python3 make_golden.py            writes gpt2.txt, llama.txt, mixtral.txt beside this file
    python3 make_golden.py --whole DIR   also every gradient, as f64 files, for a comparison by hand

The numbers are committed; CI compares with them and needs neither package. Weights are a formula of a parameter's name
in Kith and its index (layer_help.c has the same one), so no weights are stored. A gradient g is stored as its norm and
eight products <s_j, g> with pseudo-random signs s_j: for any other g', the mean of <s_j, g' - g>^2 is an unbiased
estimate of |g' - g|^2, which is what a relative Frobenius distance is made of.

SPDX-License-Identifier: BSD-3-Clause
"""
import os
import sys

import numpy
import torch
import transformers

PROJECTIONS = 8
SEQUENCE, BATCH, VOCABULARY = 12, 2, 53


def seed_of(name):
    seed = 5381
    for byte in name.encode():
        seed = (seed * 33 + byte) & 0xFFFFFFFF
    return seed & 0xFFFF


def scramble(seed, count):
    """splitmix64 of (seed, index), as in layer_help.c."""
    with numpy.errstate(over="ignore"):
        z = numpy.arange(count, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
        z = z + numpy.uint64((seed << 40) + 1)
        z = (z ^ z >> numpy.uint64(30)) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> numpy.uint64(27)) * numpy.uint64(0x94D049BB133111EB)
        return z ^ z >> numpy.uint64(31)


def fraction(seed, count):
    return (scramble(seed, count) >> numpy.uint64(11)).astype(numpy.float64) / float(1 << 52) - 1


def start(name, shape):
    """What tests start a parameter with: norms near 1, small biases, weights of 0.3."""
    values = fraction(seed_of(name), int(numpy.prod(shape))).reshape(shape)
    if len(shape) == 2:
        return 0.3 * values
    return 0.1 * values + (1.0 if "norm" in name and name.endswith("weight") else 0.0)


def signs(name, which, count):
    bits = scramble((seed_of(name) + 1000 * (which + 1)) & 0xFFFF, count) & numpy.uint64(1)
    return bits.astype(numpy.float64) * 2 - 1


def tokens(seed):
    """[sequence, batch], as Kith has them."""
    return (scramble(seed, SEQUENCE * BATCH) % numpy.uint64(VOCABULARY)).astype(numpy.int64).reshape(SEQUENCE, BATCH)


class Parts:
    """Kith's parameters as pieces of a state dict: name -> (key, rows of the key's tensor, is it transposed there)."""

    def __init__(self):
        self.of = {}

    def add(self, name, key, rows=None, is_transposed=False):
        self.of[name] = (key, rows, is_transposed)

    def piece(self, name, tensors):
        key, rows, is_transposed = self.of[name]
        whole = tensors[key]
        whole = whole.t() if is_transposed else whole
        return whole if rows is None else whole[rows[0]:rows[1]]


def gpt2():
    hidden, blocks = 24, 2
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=16, n_embd=hidden, n_layer=blocks, n_head=4,
                                     resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, attn_implementation="eager")
    parts = Parts()
    parts.add("embedding.weight", "transformer.wte.weight")
    parts.add("embedding.positions", "transformer.wpe.weight")
    for i in range(blocks):
        there, here = f"transformer.h.{i}", f"blocks.{i}"
        for number in (1, 2):
            for kind in ("weight", "bias"):
                parts.add(f"{here}.norm{number}.{kind}", f"{there}.ln_{number}.{kind}")
        for at, which in enumerate("qkv"):
            rows = (at * hidden, (at + 1) * hidden)
            parts.add(f"{here}.attention.{which}.weight", f"{there}.attn.c_attn.weight", rows, True)
            parts.add(f"{here}.attention.{which}.bias", f"{there}.attn.c_attn.bias", rows)
        for name, key in (("attention.out", "attn.c_proj"), ("mlp.up", "mlp.c_fc"), ("mlp.down", "mlp.c_proj")):
            parts.add(f"{here}.{name}.weight", f"{there}.{key}.weight", None, True)
            parts.add(f"{here}.{name}.bias", f"{there}.{key}.bias")
    for kind in ("weight", "bias"):
        parts.add(f"norm.{kind}", f"transformer.ln_f.{kind}")
    return transformers.GPT2LMHeadModel(config), parts


def llama_like(blocks):
    parts = Parts()
    parts.add("embedding.weight", "model.embed_tokens.weight")
    parts.add("norm.weight", "model.norm.weight")
    parts.add("head.weight", "lm_head.weight")
    for i in range(blocks):
        there, here = f"model.layers.{i}", f"blocks.{i}"
        parts.add(f"{here}.norm1.weight", f"{there}.input_layernorm.weight")
        parts.add(f"{here}.norm2.weight", f"{there}.post_attention_layernorm.weight")
        for which in "qkv":
            parts.add(f"{here}.attention.{which}.weight", f"{there}.self_attn.{which}_proj.weight")
        parts.add(f"{here}.attention.out.weight", f"{there}.self_attn.o_proj.weight")
    return parts


def llama():
    blocks = 3
    config = transformers.LlamaConfig(vocab_size=VOCABULARY, hidden_size=24, intermediate_size=40,
                                      num_hidden_layers=blocks, num_attention_heads=4,
                                      num_key_value_heads=2, rms_norm_eps=1e-5, rope_theta=10000.0,
                                      attention_dropout=0.0, attn_implementation="eager")
    parts = llama_like(blocks)
    for i in range(blocks):
        for which in ("gate", "up", "down"):
            parts.add(f"blocks.{i}.mlp.{which}.weight", f"model.layers.{i}.mlp.{which}_proj.weight")
    return transformers.LlamaForCausalLM(config), parts


def mixtral():
    blocks, experts = 2, 4
    config = transformers.MixtralConfig(vocab_size=VOCABULARY, hidden_size=24, intermediate_size=20,
                                        num_hidden_layers=blocks, num_attention_heads=4, num_key_value_heads=2,
                                        num_local_experts=experts, num_experts_per_tok=2, rms_norm_eps=1e-5,
                                        rope_theta=10000.0, attention_dropout=0.0, router_aux_loss_coef=0.0,
                                        sliding_window=None, attn_implementation="eager")
    parts = llama_like(blocks)
    for i in range(blocks):
        there, here = f"model.layers.{i}.block_sparse_moe", f"blocks.{i}.moe"
        parts.add(f"{here}.router.weight", f"{there}.gate.weight")
        for e in range(experts):
            for which, key in (("gate", "w1"), ("up", "w3"), ("down", "w2")):
                parts.add(f"{here}.experts.{e}.{which}.weight", f"{there}.experts.{e}.{key}.weight")
    return transformers.MixtralForCausalLM(config), parts


def write(name, model, parts, whole):
    model = model.double().train()
    with torch.no_grad():
        tensors = dict(model.named_parameters())
        for kith_name in parts.of:
            piece = parts.piece(kith_name, tensors)
            piece.copy_(torch.from_numpy(start(kith_name, tuple(piece.shape))))
    ids, targets = tokens(1), tokens(2)
    logits = model(input_ids=torch.from_numpy(ids.T.copy()), use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY).double(),
                                             torch.from_numpy(targets.T.copy()).reshape(-1))
    loss.backward()
    grads = {key: tensor.grad for key, tensor in model.named_parameters()}
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, name + ".txt"), "w", encoding="ascii") as out:
        print(f"# {name}: made by make_golden.py with torch {torch.__version__.split('+')[0]}, transformers "
              f"{transformers.__version__}, in f64", file=out)
        print(f"loss {loss.item():.17g}", file=out)
        for kith_name in sorted(parts.of):
            grad = parts.piece(kith_name, grads).contiguous().numpy().reshape(-1)
            dots = [float(numpy.dot(signs(kith_name, j, grad.size), grad)) for j in range(PROJECTIONS)]
            numbers = " ".join(f"{number:.12g}" for number in [float(numpy.linalg.norm(grad))] + dots)
            print(f"{kith_name} {grad.size} {numbers}", file=out)
            if whole:
                grad.tofile(os.path.join(whole, f"{name}.{kith_name}.f64"))


def main():
    whole = sys.argv[2] if len(sys.argv) == 3 and sys.argv[1] == "--whole" else None
    for name, make in (("gpt2", gpt2), ("llama", llama), ("mixtral", mixtral)):
        model, parts = make()
        write(name, model, parts, whole)


if __name__ == "__main__":
    main()
