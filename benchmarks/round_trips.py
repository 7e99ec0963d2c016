"""Round trips per second of a 64 x 640 float32 activation, and samples per second of a model.

    python -m benchmarks.round_trips

In one process, over torch.distributed (gloo, two processes) and over gRPC (two processes; skipped
if grpcio is missing: pip install grpcio). A round trip is what a step sends: activations one way,
gradients of the same size back, encoded and decoded at either end. Echoes are timed in short turns;
printed are the median and the quartiles of all of them. Both processes share this machine's cores.
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from fltoolkit import SGD, Batches, Channel, Party, pack, splitnn_mlp, train_split, unpack
from fltoolkit_engines.remote import RemoteParty, absent
from fltoolkit_engines.torch_distributed import DistributedChannel

BATCH, CUT = 64, 640
H = {"h": torch.randn(BATCH, CUT, generator=torch.Generator().manual_seed(0))}
Trip = Callable[[], Any]


def report(what: str, trip: Trip, repeats: int) -> None:
    for _ in range(20):
        trip()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        trip()
        seconds.append(time.perf_counter() - start)
    low, median, high = statistics.quantiles(seconds, n=4)
    print(
        f"{what:34s}{1 / median:9,.0f} round trips/s   ({median * 1e6:,.0f} us, quartiles "
        f"{low * 1e6:,.0f} to {high * 1e6:,.0f}, fastest {min(seconds) * 1e6:,.0f})",
        flush=True,
    )


def echo(channel: Channel) -> Trip:
    def trip() -> None:
        channel.step += 1
        h = channel.send("alice", "bob", "activations", H)
        channel.send("bob", "alice", "gradients", h)

    return trip


def seed_model(channel: Channel, here: set[str]) -> Iterator[Any]:
    """The course's network for MNIST on random images, two epochs of 100 batches."""
    model, num = splitnn_mlp(seed=0), 100 * BATCH
    generator = torch.Generator().manual_seed(0)
    x, y = absent(num), absent(num)
    parties: list[Party] = [RemoteParty("alice"), RemoteParty("bob")]
    if "alice" in here:
        parties[0] = Party("alice", model[:4], SGD(model[:4].parameters(), lr=0.03))
        x = torch.randn(num, 784, generator=generator)
    if "bob" in here:
        parties[1] = Party("bob", model[4:], SGD(model[4:].parameters(), lr=0.03), nn.NLLLoss())
        y = torch.randint(10, (num,), generator=generator)
    return train_split(parties, Batches(x, y, BATCH, seed=0).epochs(2), channel)


def samples(what: str, records: Iterator[Any]) -> None:
    """The median over the second epoch's steps."""
    seconds, start = [], time.perf_counter()
    for _ in records:
        now = time.perf_counter()
        seconds.append(now - start)
        start = now
    low, median, high = (BATCH / q for q in statistics.quantiles(seconds[100:], n=4))
    print(f"{what:34s}{median:9,.0f} samples/s       (quartiles {high:,.0f} to {low:,.0f})")


def gloo(rank: int, repeats: int) -> None:
    with DistributedChannel({"alice": 0, "bob": 1}, timeout=60) as channel:
        trip = echo(channel)
        if rank == 0:
            report("torch.distributed, gloo", trip, repeats)
            samples("  seed model", seed_model(channel, channel.here))
        else:
            for _ in range(20 + repeats):
                trip()
            for _ in seed_model(channel, channel.here):
                pass


def grpc_server() -> None:
    import grpc

    def answer(request: bytes, context: Any) -> bytes:
        return pack(unpack(request))

    from concurrent.futures import ThreadPoolExecutor

    handler = grpc.method_handlers_generic_handler(
        "fltoolkit.Echo", {"Trip": grpc.unary_unary_rpc_method_handler(answer)}
    )
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((handler,))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    sys.stdin.read()  # until the other end is closed
    server.stop(0)


def grpc_client(repeats: int) -> None:
    try:
        import grpc
    except ImportError:
        print(f"{'gRPC, unary':34s}  skipped: grpcio is missing (pip install grpcio)")
        return
    command = [sys.executable, "-m", "benchmarks.round_trips", "--role", "grpc"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as server:  # type: ignore[call-overload]
        port = int(server.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as line:
            call = line.unary_unary("/fltoolkit.Echo/Trip")
            report("gRPC, unary", lambda: unpack(call(pack(H), timeout=60)), repeats)
        server.stdin.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--role", choices=["gloo", "grpc"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.role == "grpc":
        return grpc_server()
    if args.role == "gloo":
        return gloo(int(os.environ["RANK"]), args.repeats)
    report("in one process", echo(Channel()), args.repeats)
    samples("  seed model", seed_model(Channel(), {"alice", "bob"}))
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    command = [sys.executable, "-m", "benchmarks.round_trips", "--role", "gloo"]
    command += ["--repeats", str(args.repeats)]
    shared = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    processes = [subprocess.Popen(command, env=shared | {"RANK": str(rank)}) for rank in (0, 1)]
    codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit("the two processes did not come through")
    grpc_client(args.repeats)


if __name__ == "__main__":
    main()
