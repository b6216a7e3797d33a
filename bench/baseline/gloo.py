# bench/baseline/gloo.py - Gloo through torch.distributed, as a driver of the benchmark.
#
#     python3 bench/baseline/gloo.py --library BUILD/bench/libbench_embed.so -n 2 [options of the drivers]
#
# The engine is the C one of all drivers (embed.h): clock, buffers, checks, pinning, server. What is measured is what a
# PyTorch program calls. Operations that work in place (all_reduce, reduce, broadcast) get their input copied first, as a
# program that keeps its input does. The way through Python costs 2 to 5 us a call, a small part of Gloo's own time.
#
# SPDX-License-Identifier: BSD-3-Clause
import argparse
import ctypes
import os
import shutil
import signal
import sys
import tempfile

CALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
CAN_RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)
NAME_NBYTES = 64
PR_SET_PDEATHSIG = 1


class Operations:
    """The operations on tensors that share the engine's buffers."""

    def __init__(self, torch, rank, size, dtype):
        self.torch, self.dist = torch, torch.distributed
        self.rank, self.size, self.dtype = rank, size, dtype
        self.views = {}
        self.barrier_tensor = torch.zeros(1)

    def view(self, address, count):
        """count elements at an address, as a tensor; making one costs more than looking it up."""
        key = (address, count)
        if key not in self.views:
            nbytes = count * self.torch.empty(0, dtype=self.dtype).element_size()
            memory = (ctypes.c_char * nbytes).from_address(address)
            self.views[key] = self.torch.frombuffer(memory, dtype=self.dtype)
        return self.views[key]

    def partner(self, op):
        other = self.rank ^ 1
        return None if other >= self.size or (op == "ping_pong" and self.rank > 1) else other

    def all_reduce(self, send, recv, count, _):
        result = self.view(recv, count)
        result.copy_(self.view(send, count))
        self.dist.all_reduce(result)

    def reduce(self, send, recv, count, _):
        result = self.view(recv, count)  # Gloo writes there on every rank
        result.copy_(self.view(send, count))
        self.dist.reduce(result, 0)

    def broadcast(self, send, recv, count, _):
        self.dist.broadcast(self.view(send if self.rank == 0 else recv, count), 0)

    def reduce_scatter(self, send, recv, count, block):
        self.dist.reduce_scatter_tensor(self.view(recv, block), self.view(send, count))

    def all_gather(self, send, recv, count, block):
        self.dist.all_gather_into_tensor(self.view(recv, count), self.view(send, block))

    def all_to_all(self, send, recv, count, _):
        self.dist.all_to_all_single(self.view(recv, count), self.view(send, count))

    def barrier(self, *_):
        self.dist.barrier()

    def ping_pong(self, send, recv, count, _):
        other = self.partner("ping_pong")
        if other == 1:
            self.dist.send(self.view(send, count), other)
            self.dist.recv(self.view(recv, count), other)
        elif other == 0:
            self.dist.recv(self.view(recv, count), other)
            self.dist.send(self.view(send, count), other)

    def sendrecv(self, send, recv, count, _):
        other = self.partner("sendrecv")
        if other is not None:
            sending = self.dist.isend(self.view(send, count), other)
            self.dist.recv(self.view(recv, count), other)
            sending.wait()

    def available(self):
        """Names of the operations that this torch has on Gloo: each is tried once, on a few elements."""
        names = ("all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather", "all_to_all", "barrier", "ping_pong",
                 "sendrecv")
        send, recv = (self.torch.zeros(self.size, dtype=self.dtype) for _ in range(2))
        found = set()
        for name in names:
            try:
                getattr(self, name)(send.data_ptr(), recv.data_ptr(), self.size, 1)
                found.add(name)
            except (RuntimeError, NotImplementedError, AttributeError, ValueError) as error:
                if self.rank == 0:
                    print(f"gloo: no {name}: {str(error).splitlines()[0]}", file=sys.stderr)
        self.views.clear()
        return found


def start_ranks(size):
    """Forks; the rank that this process becomes, and a folder that all of them know."""
    folder = tempfile.mkdtemp(prefix="kith-bench-gloo-")
    for rank in range(1, size):
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            return rank, folder
    signal.signal(signal.SIGCHLD, on_child)
    return 0, folder


def on_child(*_):
    """Rank 0 would wait for a dead rank for ever."""
    try:
        while True:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                return
            if status != 0:
                os._exit(1)
    except ChildProcessError:
        pass


def load_engine(path):
    engine = ctypes.CDLL(path)
    engine.bench_embed_options.restype = ctypes.c_char_p
    engine.bench_embed_run.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, CALL, CAN_RUN]
    return engine


def meet(engine, store, rank, size):
    """The engine's segment, opened by all."""
    name = ctypes.create_string_buffer(NAME_NBYTES)
    if rank == 0:
        if engine.bench_embed_meet(0, name) != 0:
            sys.exit(1)
        store.set("segment", name.value)
    else:
        name.value = store.get("segment")
        if engine.bench_embed_meet(rank, name) != 0:
            sys.exit(1)
    if store.add("opened", 1) == size:
        store.set("all", b"1")
    store.wait(["all"])
    if rank == 0:
        engine.bench_embed_forget(name)


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--library", required=True)
    parser.add_argument("-n", type=int, default=2)
    arguments, rest = parser.parse_known_args()
    engine = load_engine(arguments.library)
    # Before the fork: once for all ranks, which more ranks than cores would take minutes for on a busy machine, and
    # their pages are shared. With one thread each for OpenMP and BLAS (peers/baseline.py) it leaves no thread behind;
    # those of Gloo come after pinning and stay on their rank's CPU.
    import torch
    import torch.distributed
    rank, folder = start_ranks(arguments.n)
    try:
        words = [b"gloo"] + [word.encode() for word in rest]
        dtype_name = engine.bench_embed_options(len(words), (ctypes.c_char_p * (len(words) + 1))(*words), rank).decode()
        dtype = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "int32": torch.int32}[dtype_name]
        torch.set_num_threads(1)
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        store = torch.distributed.FileStore(os.path.join(folder, "store"), arguments.n)
        torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=arguments.n)
        operations = Operations(torch, rank, arguments.n, dtype)
        available = operations.available()
        meet(engine, store, rank, arguments.n)

        def call(op, send, recv, count, block):
            try:
                getattr(operations, op.decode())(send, recv, count, block)
                return 0
            except Exception as error:  # a callback of C has nobody to raise to
                print(f"gloo: {op.decode()}: {error}", file=sys.stderr)
                return 1

        # The engine's barrier before the end keeps ranks together; leaving Gloo's threads to the system ends them.
        status = engine.bench_embed_run(b"gloo", rank, arguments.n, CALL(call), CAN_RUN(lambda op, _: op.decode() in available))
        sys.stderr.flush()
        return status
    finally:
        if rank == 0:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    os._exit(main())
