"""Trains a GPT-2 with PyTorch on the CPU and prints tokens per second: what bench/train/compare.py holds `kith train` against.

    python3 torch_trainer.py --layers 6 --hidden 384 --heads 6 --vocabulary 256 --sequence 256 --batch 8 --steps 8
                             --threads 2 [--compile] [--replicas 2]

The model is written as such trainers are: fused q, k and v, scaled_dot_product_attention, tied head, AdamW in its fastest form for
CPUs, gradient clipping. f32. With --replicas it starts that many processes with DistributedDataParallel over Gloo, which
share the batch. Random tokens: nothing here depends on what they are. The first line on stdout is a JSON object.

SPDX-License-Identifier: BSD-3-Clause
"""

import argparse
import json
import os
import statistics
import time


def arguments():
    parser = argparse.ArgumentParser()
    for name in ("layers", "hidden", "heads", "vocabulary", "sequence", "batch", "steps", "threads"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--replicas", type=int, default=1)
    return parser.parse_args()


def make_model(args):
    import torch
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            hidden = args.hidden
            self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
            self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

        def forward(self, x):
            batch, sequence, hidden = x.shape
            parts = self.qkv(self.norm1(x)).split(hidden, dim=2)
            q, k, v = (part.view(batch, sequence, args.heads, -1).transpose(1, 2) for part in parts)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, sequence, hidden))
            return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(args.vocabulary, args.hidden)
            self.positions = nn.Embedding(args.sequence, args.hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(args.layers))
            self.norm = nn.LayerNorm(args.hidden)

        def forward(self, ids, targets):
            x = self.words(ids) + self.positions.weight[: ids.shape[1]]
            for block in self.blocks:
                x = block(x)
            logits = functional.linear(self.norm(x), self.words.weight)
            return functional.cross_entropy(logits.view(-1, args.vocabulary), targets.reshape(-1))

    torch.manual_seed(1)
    return Model()


def train(args, rank):
    import torch

    torch.set_num_threads(args.threads)
    model = make_model(args)
    trained = model
    if args.replicas > 1:
        torch.distributed.init_process_group("gloo", rank=rank, world_size=args.replicas)
        trained = torch.nn.parallel.DistributedDataParallel(model)
    if args.compile:
        trained = torch.compile(trained)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    batch = args.batch // args.replicas
    seconds = []
    for _ in range(args.steps + 2):  # the first two warm up: allocation, and compiling
        tokens = torch.randint(args.vocabulary, (batch, args.sequence + 1))
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = trained(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        seconds.append(time.perf_counter() - start)
    if args.replicas > 1:
        torch.distributed.destroy_process_group()
    rate = args.batch * args.sequence / statistics.median(seconds[2:])
    return {"tokens_per_s": rate, "torch": torch.__version__, "loss": loss.item()}


def replica(rank, args, queue):
    queue.put((rank, train(args, rank)))


def main():
    args = arguments()
    if args.batch % args.replicas:
        raise SystemExit("--replicas must divide --batch")
    if args.replicas == 1:
        print(json.dumps(train(args, 0)))
        return
    import torch.multiprocessing as processes

    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(20000 + os.getpid() % 20000))
    context = processes.get_context("spawn")
    queue = context.Queue()
    children = [context.Process(target=replica, args=(rank, args, queue)) for rank in range(args.replicas)]
    for child in children:
        child.start()
    results = dict(queue.get() for _ in children)
    for child in children:
        child.join()
    print(json.dumps(results[0]))


if __name__ == "__main__":
    main()
