"""Seconds of a FedAvg round in several frameworks; how many learn at once; memory over clients.

    python -m benchmarks.round_speed             # with the frameworks that are installed
    python -m benchmarks.round_speed --choice    # how many clients at once, by size of the model
    python -m benchmarks.round_speed --growth    # 10 to 10,000 clients, 100 of them in a round

A round: 10 clients of 100 samples, batch 20, one epoch, then the weighted mean; nothing is encoded.
All take turns in one run, in random order, one torch thread each. Wall time is the shortest (the
machine was never faster than this), CPU time the median, both of all processes involved.
"""

import argparse
import atexit
import copy
import json
import logging
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise, product
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fltoolkit.channel import Channel
from fltoolkit.federated import Local, fedavg, local_update, local_updates
from fltoolkit.models import mcmahan_2nn, mcmahan_cnn, seeded
from fltoolkit.trees import Tree, weighted_mean

NUM_CLIENTS, NUM_SAMPLES, LR = 10, 100, 0.1
HOW = Local(batch_size=20, lr=LR, epochs=1)
SHAPES: dict[str, tuple[int, ...]] = {"2NN": (784,), "CNN": (1, 28, 28)}
Seconds = tuple[float, float]  # wall, CPU
Rounds = Callable[[int], list[Seconds]]  # takes so many rounds, tells how long each took
Client = tuple[Tensor, Tensor]


def mlp(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    with seeded(0):
        for width_in, width_out in pairwise(widths):
            layers += [nn.Linear(width_in, width_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1], nn.LogSoftmax(dim=1))


def network(name: str) -> nn.Sequential:
    return mcmahan_2nn(seed=0) if name == "2NN" else mcmahan_cnn(seed=0)


def client_data(shape: tuple[int, ...], client: int, num_samples: int = NUM_SAMPLES) -> Client:
    generator = torch.Generator().manual_seed(client)
    x = torch.randn(num_samples, *shape, generator=generator)
    return x, torch.randint(10, (num_samples,), generator=generator)


def timed(one_round: Callable[[], object]) -> Rounds:
    def rounds(number: int) -> list[Seconds]:
        seconds = []
        for _ in range(number):
            wall, cpu = time.perf_counter(), time.process_time()
            one_round()
            seconds.append((time.perf_counter() - wall, time.process_time() - cpu))
        return seconds

    return rounds


def between(stamps: list[Seconds]) -> list[Seconds]:
    """The seconds of each round, by when they began, without the first, which starts processes."""
    walls, cpus = (np.diff(column)[1:].tolist() for column in zip(*stamps, strict=True))
    return list(zip(walls, cpus, strict=True))


# ---- Who is compared ----------------------------------------------------------------------------


def plain_loop(name: str) -> Rounds:
    """The simplest code: a copy of the model and an optimizer for each client."""
    server, data = network(name), [client_data(SHAPES[name], k) for k in range(NUM_CLIENTS)]

    def one_round() -> None:
        states = []
        for x, y in data:
            model = copy.deepcopy(server)
            optimizer = torch.optim.SGD(model.parameters(), lr=LR)
            for rows in torch.randperm(len(y)).split(20):
                optimizer.zero_grad()
                loss = nn.functional.nll_loss(model(x[rows]), y[rows])
                loss.backward()
                optimizer.step()
            states.append(model.state_dict())
        share = 1 / len(states)
        server.load_state_dict({n: sum(s[n] for s in states) * share for n in states[0]})

    return timed(one_round)


def ours(name: str, train: Callable, device: str, *, last: bool = False, bf16: bool = False):
    """Our local training, the weighted mean of the updates, and the server's new model."""
    server = network(name).to(device)
    if last:
        server.to(memory_format=torch.channels_last)
    clients = [client_data(SHAPES[name], k) for k in range(NUM_CLIENTS)]
    data = [(x.to(device), y.to(device)) for x, y in clients]

    def one_round() -> None:
        start = server.state_dict()
        with torch.autocast(device, torch.bfloat16) if bf16 else nullcontext():
            updates = train(server, [start] * len(data), data, HOW, seeds=range(len(data)))
        mean = weighted_mean([u.delta for u in updates], [u.num_samples for u in updates])
        server.load_state_dict({entry: start[entry] + mean[entry] for entry in start})

    return timed(one_round)


def in_turn(
    train: Callable,
    module: nn.Module,
    starts: list[Tree],
    data: list[Client],
    local: Local,
    *,
    seeds,
):
    each = zip(starts, data, seeds, strict=True)
    return [train(module, start, x, y, local, seed=seed) for start, (x, y), seed in each]


def fedlab(name: str) -> Rounds:
    from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer
    from fedlab.contrib.algorithm.basic_server import SyncServerHandler
    from fedlab.core.standalone import StandalonePipeline
    from torch.utils.data import DataLoader, TensorDataset

    sets = [TensorDataset(*client_data(SHAPES[name], k)) for k in range(NUM_CLIENTS)]

    class Clients:
        def get_dataloader(self, client: int, batch_size: int) -> DataLoader:
            return DataLoader(sets[client], batch_size=batch_size, shuffle=True)

    class Pipeline(StandalonePipeline):
        def evaluate(self) -> None:
            pass

    logging.disable()
    handler = SyncServerHandler(network(name), global_round=0, sample_ratio=1.0)
    trainer = SGDSerialClientTrainer(network(name), NUM_CLIENTS)
    trainer.setup_dataset(Clients())
    trainer.setup_optim(epochs=1, batch_size=20, lr=LR)
    trainer.criterion = nn.functional.nll_loss
    pipeline = Pipeline(handler, trainer)

    def one_round() -> None:
        handler.global_round = handler.round + 1
        pipeline.main()

    return timed(one_round)


def pfl(name: str) -> Rounds:
    os.environ["PFL_PYTORCH_DEVICE"] = "cpu"
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam.base import NNTrainHyperParams
    from pfl.internal.ops import pytorch_ops
    from pfl.internal.ops.selector import set_framework_module
    from pfl.model.pytorch import PyTorchModel

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network(name)

        def loss(self, x: Tensor, y: Tensor) -> Tensor:
            return nn.functional.nll_loss(self.net(x), y)

        def metrics(self, x: Tensor, y: Tensor) -> dict:
            return {}

    set_framework_module(pytorch_ops)
    logging.disable()
    clients = {k: client_data(SHAPES[name], k) for k in range(NUM_CLIENTS)}
    data = FederatedDataset(
        lambda k: Dataset(clients[k], user_id=str(k)),
        get_user_sampler("minimize_reuse", list(clients)),
    )
    backend, net = SimulatedBackend(training_data=data, val_data=None), Network()
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
    local = NNTrainHyperParams(local_batch_size=20, local_num_epochs=1, local_learning_rate=LR)

    stamps: list[Seconds] = []

    class Timed(FederatedAveraging):
        def get_next_central_contexts(self, *args, **kwargs):
            stamps.append((time.perf_counter(), time.process_time()))
            return super().get_next_central_contexts(*args, **kwargs)

    def rounds(number: int) -> list[Seconds]:
        stamps.clear()
        params = NNAlgorithmParams(
            central_num_iterations=number + 1,
            evaluation_frequency=number + 1,  # in the first iteration only, which does not count
            train_cohort_size=NUM_CLIENTS,
            val_cohort_size=None,
        )
        Timed().run(params, backend, model, local, send_metrics_to_platform=False)
        return between(stamps)

    return rounds


@cache
def _kept(name: str, client: int) -> Client:
    return client_data(SHAPES[name], client)


def flower(name: str, tuned: bool) -> Rounds:
    """Flower's simulation engine; a round is from one call of its strategy to the next.

    By default a client asks for two cores and torch chooses its threads; tuned, one of each.
    """
    os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
    os.environ["PYTHONPATH"] = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    import psutil
    import ray  # noqa: F401
    from flwr.app import ArrayRecord, MetricRecord, RecordDict
    from flwr.app import Message as FlowerMessage
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    def cpu_of_all() -> float:
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        return sum(sum(p.cpu_times()[:2]) for p in processes if p.is_running())

    client_app, server_app = ClientApp(), ServerApp()
    stamps: list[Seconds] = []

    @client_app.train()
    def train(message, context):
        from benchmarks.round_speed import _kept  # so that the data stay in the worker

        if tuned:
            torch.set_num_threads(1)
        x, y = _kept(name, int(context.node_config["partition-id"]))
        model = network(name)
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        optimizer = torch.optim.SGD(model.parameters(), lr=LR)
        for rows in torch.randperm(len(y)).split(20):
            optimizer.zero_grad()
            nn.functional.nll_loss(model(x[rows]), y[rows]).backward()
            optimizer.step()
        metrics = MetricRecord({"num-examples": len(y)})
        content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
        return FlowerMessage(content=content, reply_to=message)

    class Timed(FedAvg):
        def configure_train(self, *args, **kwargs):
            stamps.append((time.perf_counter(), cpu_of_all()))
            return super().configure_train(*args, **kwargs)

    def rounds(number: int) -> list[Seconds]:
        stamps.clear()

        @server_app.main()
        def main(grid, context):
            strategy = Timed(fraction_evaluate=0.0, min_available_nodes=NUM_CLIENTS)
            arrays = ArrayRecord(network(name).state_dict())
            # the first round starts the workers, the last has no next one to be timed by
            strategy.start(grid=grid, initial_arrays=arrays, num_rounds=number + 2)

        resources = {"num_cpus": 1.0, "num_gpus": 0.0}
        config = {"client_resources": resources} if tuned else None
        threads = os.environ.pop("OMP_NUM_THREADS", None)
        try:
            # deprecated in 1.42; but `flwr run` starts processes whose CPU time is not ours
            run_simulation(server_app, client_app, NUM_CLIENTS, backend_config=config)
        finally:
            if threads:
                os.environ["OMP_NUM_THREADS"] = threads
        return between(stamps)

    return rounds


def fedjax(name: str) -> Rounds:
    """FedJAX in a process of its own: its environment has jax and no torch (``make peers``)."""
    python = Path(".venv-fedjax/bin/python")
    if not python.exists():
        raise ImportError(f"no {python}")
    command = [str(python), "-m", "benchmarks.fedjax_peer", name]
    peer = subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, text=True)
    atexit.register(peer.kill)

    def answer() -> Any:
        assert peer.stdout
        line = peer.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(command)} ended: start it yourself to see why")
        return json.loads(line)

    print("FedJAX:", ", ".join(f"{part} {version}" for part, version in answer().items()))

    def rounds(number: int) -> list[Seconds]:
        assert peer.stdin
        print(number, file=peer.stdin, flush=True)
        return [(wall, cpu) for wall, cpu in answer()]

    return rounds


PEERS: dict[str, tuple[Callable[[str], Rounds], str]] = {
    "FedJAX": (fedjax, "make peers"),
    "FedLab": (fedlab, "pip install torch==2.13.0 && pip install fedlab"),
    "pfl-research": (pfl, "pip install torch==2.13.0 && pip install pfl"),
    "Flower, one core a client": (
        partial(flower, tuned=True),
        'pip install torch==2.13.0 && pip install "flwr[simulation]" psutil',
    ),
    "Flower as it comes": (
        partial(flower, tuned=False),
        'pip install torch==2.13.0 && pip install "flwr[simulation]" psutil',
    ),
}


# ---- The tables ---------------------------------------------------------------------------------


def round_table(name: str, passes: int, num_rounds: int, device: str, peers: Sequence[str]) -> None:
    one = partial(in_turn, local_update)
    works: dict[str, Rounds] = {
        "plain PyTorch loop": plain_loop(name),
        "local_update": ours(name, one, device),
        "local_updates": ours(name, local_updates, device),
    }
    if name == "CNN":
        works["channels_last (*)"] = ours(name, one, device, last=True)
        works["channels_last, bf16 (*)"] = ours(name, one, device, last=True, bf16=True)
    for peer in peers:
        make, pip = PEERS[peer]
        try:
            works[peer] = make(name)
        except (ImportError, RuntimeError) as error:  # RuntimeError: of another torch
            print(f"{peer} is not here ({error}). Install it with: {pip}")
    seconds = taking_turns(works, passes, num_rounds)
    first = [statistics.median(cpu for _, cpu in part) for part in next(iter(seconds.values()))]
    print(f"\nA round of {name}, {passes} x {num_rounds} rounds; ratio of CPU time to the first")
    print(f"{'':32s}{'wall s':>9s}{'CPU s':>9s}   ratio [least, most of the {passes}]")
    for work, parts in seconds.items():
        wall = min(wall for part in parts for wall, _ in part)
        cpus = [statistics.median(cpu for _, cpu in part) for part in parts]
        ratios = [cpu / base for cpu, base in zip(cpus, first, strict=False)]
        spread = f"[{min(ratios):.2f}, {max(ratios):.2f}]"
        cpu, ratio = statistics.median(cpus), statistics.median(ratios)
        print(f"{work:32s}{wall:9.3f}{cpu:9.3f}   {ratio:.2f} {spread}")


def taking_turns(
    works: dict[str, Rounds], passes: int, num_rounds: int
) -> dict[str, list[list[Seconds]]]:
    rng, order = random.Random(0), list(works)
    seconds: dict[str, list[list[Seconds]]] = {work: [] for work in works}

    def turn(work: str, number: int) -> list[Seconds]:
        try:
            return works[work](number)
        except Exception as error:  # a framework that fails is no reason to lose the others
            if work not in PEERS:
                raise
            print(f"{work} failed: {str(error).strip().splitlines()[0]}", flush=True)
            order.remove(work)
            return []

    for work in tuple(order):
        turn(work, 1)
    for _ in range(passes):
        rng.shuffle(order)
        for work in tuple(order):
            if taken := turn(work, num_rounds):
                seconds[work].append(taken)
    return {work: parts for work, parts in seconds.items() if parts}


def choice_table(repeats: int, device: str) -> None:
    """CPU time of local training (wall time on a GPU), `local_update` in turn being 1."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    models = {
        "64-10": (64, 10),
        "64-32-10": (64, 32, 10),
        "784-50-10": (784, 50, 10),
        "784-100-10": (784, 100, 10),
        "784-200-200-10": (784, 200, 200, 10),
        "784-500-500-10": (784, 500, 500, 10),
    }
    chunks = (1, 4, 16, 64, None)
    print("\nLocal training: time relative to local_update, one client after the other;")
    print("unlike: 51 to 150 samples a client, three epochs. Columns: how many learn at once")
    head = "".join(f"{chunk or 'default':>9}" for chunk in chunks)
    print(f"{'':16s}{'kB':>8s}{'clients':>9s}{'':>8s}{head}")
    for name, widths in models.items():
        module = mlp(*widths).to(device)
        start = module.state_dict()
        for num_clients, unlike in product((4, 10, 100), (False, True)):
            sizes = [51 + 37 * k % 100 if unlike else NUM_SAMPLES for k in range(num_clients)]
            data = [
                tuple(t.to(device) for t in client_data(widths[:1], k, size))
                for k, size in enumerate(sizes)
            ]
            how = replace(HOW, epochs=3 if unlike else 1)
            args = (module, [start] * num_clients, data, how)
            ways: dict[Any, Callable] = {"plain": partial(in_turn, local_update, *args)}
            ways |= {chunk: partial(local_updates, *args, chunk=chunk) for chunk in chunks}
            taken: dict[Any, list[float]] = {way: [] for way in ways}
            for turn in range(repeats + 1):
                for way in random.Random(turn).sample(list(ways), len(ways)):
                    began = clock()
                    ways[way](seeds=range(num_clients))
                    if turn:  # the first only warms up
                        taken[way].append(clock() - began)
            plain, *others = (statistics.median(values) for values in taken.values())
            kb = sum(tensor.nbytes for tensor in start.values()) / 1000
            kind = "unlike" if unlike else "alike"
            row = "".join(f"{other / plain:9.2f}" for other in others)
            print(f"{name:16s}{kb:8.1f}{num_clients:9d}{kind:>8s}{row}")


def growth(num_clients: int) -> None:
    """One line of the growth table, in a process of its own: memory is counted from its start."""
    torch.set_num_threads(1)
    model, cohort = mlp(784, 200, 10), min(100, num_clients)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    clients = {f"client {k}": client_data((784,), k, num_samples=20) for k in range(num_clients)}
    samples = sum(x.nbytes + y.nbytes for x, y in clients.values())
    run = fedavg(model, clients, Channel(), rounds=6, cohort=cohort, local=HOW)
    seconds = timed(lambda: next(run))(6)[1:]
    wall, cpu = min(w for w, _ in seconds), statistics.median(c for _, c in seconds)
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 - samples
    print(
        f"{num_clients:8,d}{cohort:8d}{1e3 * wall / cohort:16.2f}{1e3 * cpu / cohort:16.2f}"
        f"{samples / 1e6:13.1f}{more / 1e6:13.1f}"
    )


def growth_table() -> None:
    head = f"{'clients':>8s}{'cohort':>8s}{'wall ms/client':>16s}{'CPU ms/client':>16s}"
    code = "import sys; from benchmarks.round_speed import growth; growth(int(sys.argv[1]))"
    print("\nWhole rounds of fedavg, 784-200-10, one step of 20 samples")
    print(f"{head}{'samples MB':>13s}{'the rest MB':>13s}", flush=True)
    for number in (10, 100, 1_000, 10_000):
        subprocess.run([sys.executable, "-c", code, str(number)], check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--choice", action="store_true", help="how many clients at once")
    parser.add_argument("--growth", action="store_true", help="10 to 10,000 clients")
    parser.add_argument("--models", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--passes", type=int, default=5, help="turns each one takes")
    parser.add_argument("--rounds", type=int, default=5, help="rounds in a turn")
    parser.add_argument("--device", default="cpu", help="for our own rows")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, one thread, {args.device}", flush=True)
    if args.choice:
        choice_table(args.passes, args.device)
    elif args.growth:
        growth_table()
    else:
        for name in args.models:
            round_table(name, args.passes, args.rounds, args.device, args.peers)
        print("(*) computes other numbers than the rest")
