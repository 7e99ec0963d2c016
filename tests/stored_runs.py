"""The small runs and messages behind tests/stored: tools/make_stored.py wrote them down, and
tests/test_stored.py plays them again.

Where a call changes, change it here; the stored numbers must not change with it. Weights and values
come from whole-number formulas, so that no library's random numbers are in them, and no power or
logarithm, which processors round differently in the last bit.
"""

import copy
import dataclasses
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from experiments.replications.adaptive import ByteBudget
from experiments.replications.asynchronous import AsyncServer, fedbuff
from experiments.replications.deflate import Deflate
from experiments.replications.dgc import DGC
from experiments.replications.lowrank import PowerSGD
from experiments.replications.yogi import Yogi
from experiments.replications.zstandard import Zstd
from fltoolkit import codecs
from fltoolkit.channel import Channel
from fltoolkit.codecs import Codec, ErrorFeedback, Float8, Half, Only, Pipeline, Quantize, TopK
from fltoolkit.data import Batches, load
from fltoolkit.evaluation import evaluate
from fltoolkit.federated import (
    Arrivals,
    Backlog,
    Local,
    LogNormal,
    Polynomial,
    Scripted,
    Server,
    fedavg,
    interval_averaging,
    mean_of_senders,
)
from fltoolkit.party import SGD, Party
from fltoolkit.split import (
    Bookmark,
    BudgetGate,
    LossGate,
    Upload,
    train_async,
    train_async_relay,
    train_relay,
    train_split,
    train_splitfed,
    train_uploading,
    train_vertical,
)
from fltoolkit.trees import Tree
from fltoolkit_research import codecs as more_codecs
from fltoolkit_research.codecs import (
    QSGD,
    BFloat16,
    ContextEntropy,
    Difference,
    RandTopK,
    Rotate,
    SameMask,
    SameMaskChannel,
    Sign,
)
from fltoolkit_research.federated import GaussianDP
from fltoolkit_research.leakage import Noise, NoPeek

# ------------------------------------------------------------------------------------- messages
STORED = Path(__file__).parent / "stored"
ANSWERED, ANSWER = Pipeline(TopK(0.2)), Pipeline(SameMask(), Quantize(4))
KNOWN = {name: getattr(room, name) for room in (codecs, more_codecs) for name in room.__all__}
KNOWN |= {"Deflate": Deflate, "DGC": DGC, "Noise": Noise, "PowerSGD": PowerSGD, "Zstd": Zstd}
CODECS = [
    eval(text, KNOWN)
    for text in json.loads((STORED / "messages.json").read_text("utf-8"))
    if text not in ("made_with", repr(ANSWER))  # which needs a message to answer
]
"""Those whose messages are stored, read from their texts."""

INPUTS = json.loads((STORED / "inputs.json").read_text("utf-8"))
SALT = 1234567


def numbers(*shape: int, start: int = 0) -> np.ndarray:
    """Values from -1 to 1 that look random and are not, in float32."""
    i = np.arange(start, start + int(np.prod(shape)), dtype=np.int64)
    mixed = (i * i * 7 + i * 37 + 11) % 101 - 50
    return (mixed.astype(np.float32) / np.float32(50)).reshape(shape)


def messages_tree(number: int) -> Tree:
    """What message ``number`` of a link carries, 0 or 1: 36 values of three dtypes.

    The weight was ``numbers(4, 6, start=start) ** 3`` when the messages were stored. A processor
    with AVX-512 rounds this power otherwise than one without, so the values themselves are kept.
    """
    start = 17 * number
    return {
        **undumped(INPUTS[number]),
        "bias": torch.from_numpy(numbers(5, start=start + 50)),
        "narrow": torch.from_numpy(numbers(4, start=start + 90)).half(),
        "steps": torch.tensor([3 + number, -(2**40)]),
        "scale": torch.tensor(0.75 + number),
    }


def dumped(tree: Tree) -> dict[str, list[Any]]:
    """A tree as JSON: of each entry its dtype, its shape and its bytes."""
    return {
        name: [str(t.dtype)[6:], list(t.shape), t.contiguous().numpy().tobytes().hex()]
        for name, t in tree.items()
    }


def undumped(stored: dict[str, list[Any]]) -> Tree:
    """The reverse of `dumped`."""
    return {
        name: torch.frombuffer(bytearray.fromhex(raw), dtype=getattr(torch, dtype)).reshape(shape)
        for name, (dtype, shape, raw) in stored.items()
    }


def exchanged(codec: Codec) -> list[dict[str, Any]]:
    """Two messages of one link, and what arrives."""
    sender, receiver = begun(codec), begun(codec)
    rows = []
    for number in range(2):
        message = sender.encode(messages_tree(number))
        rows.append({"message": message.hex(), "decoded": dumped(receiver.decode(message))})
    return rows


def begun(codec: Codec) -> Any:
    """A codec at one end of a link."""
    codec = copy.deepcopy(codec)
    codec.start_link(SALT)
    return codec


def answered() -> list[dict[str, Any]]:
    """A sparse message, and the one that answers it at the same places."""
    asking, answering = begun(ANSWERED), begun(ANSWERED)
    message = asking.encode(messages_tree(0))
    places = [*answering.masks(message).values()]
    first = {"message": message.hex(), "decoded": dumped(answering.decode(message))}
    answer = introduced(places).encode(messages_tree(1))
    second = {"message": answer.hex(), "decoded": dumped(introduced(places).decode(answer))}
    return [first, second]


def introduced(places: list[torch.Tensor]) -> Pipeline:
    """`ANSWER` at the end of a link where these places were sent."""
    codec = begun(ANSWER)
    codec.stages[0].places = places
    return codec


# ------------------------------------------------------------------------ data, networks, parties
DATA = load("digits_known_writers").flat()
X, Y = DATA.x_train[:240], DATA.y_train[:240]
SIZES = {"ann": 50, "ben": 30, "cleo": 40, "dan": 20, "eve": 60, "finn": 40}


@dataclass
class Run:
    """What a run leaves behind."""

    records: list[dict[str, Any]]
    channel: Channel
    modules: dict[str, nn.Module]


def filled(module: nn.Module, start: int = 0) -> Any:
    """The module with weights by formula, about as large as torch would make them."""
    with torch.no_grad():
        for number, param in enumerate(module.parameters()):
            values = torch.from_numpy(numbers(*param.shape, start=start + 29 * number))
            scale = 1.5 / param.shape[-1] ** 0.5 if param.dim() > 1 else 0.1
            param.copy_(values * scale)
    return module


def network() -> nn.Sequential:
    layers = [nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 10)]
    return filled(nn.Sequential(*layers, nn.LogSoftmax(dim=1)))


def party(name: str, module: nn.Module, loss: bool = False, lr: float = 0.4) -> Party:
    return Party(name, module, SGD(module.parameters(), lr), nn.NLLLoss() if loss else None)


def chain(*parts: tuple[str, int, int]) -> list[Party]:
    """The network cut into these parts, of which the last one has the loss."""
    model = network()
    return [party(name, model[a:b], loss=b == len(model)) for name, a, b in parts]


def pair() -> list[Party]:
    return chain(("alice", 0, 4), ("bob", 4, 6))


def batches(size: int = 30, num: int = 120) -> Batches:
    return Batches(X[:num], Y[:num], size, seed=3)


def shares() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    ends = np.cumsum([*SIZES.values()]).tolist()
    return {
        name: (X[end - size : end], Y[end - size : end])
        for (name, size), end in zip(SIZES.items(), ends, strict=True)
    }


def finished(records: Iterator[Any], channel: Channel, parties: Sequence[Party]) -> Run:
    names = [f"{k} {each.name}" for k, each in enumerate(parties)]
    modules = dict(zip(names, (each.module for each in parties), strict=True))
    return Run([dict(record) for record in records], channel, modules)


def unchecked(codecs: dict[str, Codec]) -> Channel:
    """A channel with error feedback of gradients, which version 0.1.0 took, and none does now."""
    channel = Channel()
    channel.codecs.update(codecs)
    return channel


# ------------------------------------------------------------------------------- split learning
def split(parties: list[Party], channel: Channel, epochs: int = 1, **how: Any) -> Run:
    records = train_split(parties, batches().epochs(epochs), channel, **how)
    return finished(records, channel, parties)


def split_vanilla() -> Run:
    run = split(parties := pair(), Channel(), epochs=2)
    through = Pipeline(TopK(0.5))
    run.records.append(dict(evaluate(parties, DATA.x_test, DATA.y_test)))
    run.records.append(dict(evaluate(parties, DATA.x_test, DATA.y_test, through=through)))
    return run


def split_with_codecs() -> Run:
    codecs = {
        "activations": Pipeline(Quantize(4, stochastic=True)),
        "gradients": ErrorFeedback(Pipeline(TopK(0.3, scope="tensor"), BFloat16())),
    }
    return split(pair(), unchecked(codecs), epochs=2)


def split_with_same_mask() -> Run:
    codecs = {"activations": Pipeline(RandTopK(0.4)), "gradients": Pipeline(SameMask())}
    return split(pair(), SameMaskChannel(codecs))


def split_with_changed_codec() -> Run:
    parties, channel = pair(), Channel({"activations": Pipeline(Quantize(8))})

    def records() -> Iterator[Any]:
        for record in train_split(parties, batches().epochs(1), channel):
            yield record
            channel.change_codec("activations", Pipeline(Quantize(2, stochastic=True)))

    return finished(records(), channel, parties)


def split_frozen_bottom_and_adam() -> Run:
    model = network()
    top = Party("bob", model[4:], torch.optim.Adam(model[4:].parameters(), 0.01), nn.NLLLoss())
    return split([Party("alice", model[:4]), top], Channel())


def split_nopeek() -> Run:
    bottom = network()[:4]
    alice = NoPeek("alice", bottom, SGD(bottom.parameters(), 0.1), weight=0.5)
    return split([alice, pair()[1]], Channel())


def vertical() -> Run:
    """Each of two parties has half of the pixels."""
    left, right = (filled(nn.Linear(32, 6), start) for start in (0, 40))
    top = filled(nn.Sequential(nn.ReLU(), nn.Linear(12, 10), nn.LogSoftmax(dim=1)))
    parties = [party("left", left), party("right", right), party("bob", top, loss=True)]
    batches = Batches((X[:120, :32], X[:120, 32:]), Y[:120], 30, seed=3).epochs(2)
    channel = Channel({"activations": Pipeline(Half())})
    records = train_vertical(parties[:2], parties[2], batches, channel)
    return finished(records, channel, parties)


def of_clients(train: Any, codecs: dict[str, Codec], num_rounds: int, **how: Any) -> Run:
    """Three clients and a label party."""
    bob, channel, of = pair()[1], Channel(codecs), dict(islice(shares().items(), 3))
    clients = [party(name, network()[:4]) for name in of]
    data = [Batches(x, y, 20, seed=k) for k, (x, y) in enumerate(of.values())]
    records = train(clients, bob, data, channel, num_rounds=num_rounds, **how)
    return finished(records, channel, [*clients, bob])


# ------------------------------------------------------------------------------ states A, B and C
def split_async() -> Run:
    parties, channel = pair(), Channel({"activations": Pipeline(Quantize(8))})
    gate = LossGate(0.2, every=2)
    records = train_async(*parties, batches(), channel, gate=gate, num_epochs=5)
    run = finished(records, channel, parties)
    assert {record["state"] for record in run.records} == {"A", "B", "C"}
    return run


def split_async_moved_and_delta() -> Run:
    codecs = {"activations": Pipeline(Quantize(4)), "gradients": Pipeline(Sign())}
    parties, channel = pair(), Channel(codecs)
    gate, upload = BudgetGate(nbytes=2_500, num_steps=16), Upload(moved=0.1, delta=True)
    records = train_async(*parties, batches(), channel, gate=gate, num_epochs=4, upload=upload)
    return finished(records, channel, parties)


def split_async_relay() -> Run:
    gate, codecs = LossGate(0.3, every=3), {"model": Pipeline(Half())}
    run = of_clients(train_async_relay, codecs, 4, gate=gate)
    assert {record["state"] for record in run.records} == {"A", "B", "C"}
    return run


def uploading() -> Run:
    parties, channel = pair(), Channel()
    gate = LossGate(0.15, every=1)
    records = train_uploading(*parties, batches().epochs(3), channel, gate=gate, max_local_steps=2)
    return finished(records, channel, parties)


# --------------------------------------------------------------------------- federated averaging
LOCAL = Local(batch_size=10, lr=0.1, epochs=1)


def averaged(
    protocol: Any, codecs: dict[str, Any] | None = None, model: nn.Module | None = None, **how: Any
) -> Run:
    """A protocol of averaging on all shares."""
    model, channel = network() if model is None else model, Channel(codecs)
    how = {"local": LOCAL, "seed": 2, **how}
    return Run([*map(dict, protocol(model, shares(), channel, **how))], channel, {"server": model})


def federated(codecs: dict[str, Any] | None = None, **how: Any) -> Run:
    """`fedavg` with what most of the runs below have in common."""
    return averaged(fedavg, codecs, **{"rounds": 4, "cohort": 3, **how})


def fedavg_compressed_both_ways() -> Run:
    codecs = {
        "model": Difference(Pipeline(Quantize(4)), first=Pipeline(Quantize(8))),
        "update": ErrorFeedback(Pipeline(TopK(0.1), Quantize(8, stochastic=True))),
    }
    return federated(codecs, server=Server(mean=mean_of_senders), rounds=6, cohort=4)


def fedavg_entropy_coded() -> Run:
    codecs = {
        "model": Only(Pipeline(Quantize(8), ContextEntropy()), min_size=90),
        "update": Pipeline(QSGD(4), ContextEntropy()),
    }
    return federated(codecs)


def fedavg_stragglers() -> Run:
    clock = LogNormal(1.0, dropout=0.1, seed=4)
    arrivals = Arrivals(wait_for=2, timeout=4.0, staleness=Polynomial(0.5), clock=clock)
    run = federated(rounds=7, cohort=4, server=Server(arrivals=arrivals))
    assert sum(record["num_stale"] for record in run.records) > 1
    return run


def fedadam() -> Run:
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, betas=(0.9, 0.99), eps=1e-3)
    return federated(model=model, server=Server(optimizer=optimizer))


def fedyogi() -> Run:
    model = network()
    return federated(model=model, server=Server(optimizer=Yogi(model.parameters(), lr=0.02)))


def fedavg_byte_budget() -> Run:
    def make(fraction: float) -> ErrorFeedback:
        return ErrorFeedback(Pipeline(TopK(fraction), Half()))

    tune = ByteBudget(make, nbytes=70_000, rounds=5, fraction=0.05)
    return federated({"update": make(0.05)}, server=Server(tune=tune), rounds=5)


def fedavg_with_buffers() -> Run:
    layers = [nn.Linear(64, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 10)]
    return federated(model=filled(nn.Sequential(*layers, nn.LogSoftmax(dim=1))))


def intervals() -> Run:
    server = Server(arrivals=Arrivals(wait_for=4, clock=LogNormal(0.5, seed=1)))
    local = Local(batch_size=10, lr=0.1, steps=4)
    return averaged(interval_averaging, num_averages=3, local=local, server=server)


def fedbuff_with_momentum() -> Run:
    model, codecs = network(), {"update": Pipeline(Rotate(), Quantize(4))}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    server = AsyncServer(concurrency=4, clock=LogNormal(1.0, seed=1), optimizer=optimizer)
    how = {"rounds": 4, "buffer_size": 3, "local": Local(batch_size=10, lr=0.1, steps=3)}
    return averaged(fedbuff, codecs, model, server=server, **how)


SMALL_FLOATS = {"gradients": Pipeline(Float8())}
NOISE = GaussianDP(clip=0.3, noise_multiplier=0.2, seed=6)
RUNS: dict[str, Callable[[], Run]] = {
    "split_vanilla": split_vanilla,
    "split_with_codecs": split_with_codecs,
    "split_with_same_mask": split_with_same_mask,
    "split_with_changed_codec": split_with_changed_codec,
    "split_multi_hop": lambda: split(
        chain(("ann", 0, 2), ("ben", 2, 4), ("bob", 4, 6)), Channel(), labels_from="ann"
    ),
    "split_u_shaped": lambda: split(chain(("ann", 0, 2), ("bob", 2, 4), ("ann", 4, 6)), Channel()),
    "split_frozen_bottom_and_adam": split_frozen_bottom_and_adam,
    "split_nopeek": split_nopeek,
    "vertical": vertical,
    "relay": lambda: of_clients(train_relay, {"model": Difference(Pipeline(Quantize(8)))}, 2),
    "splitfed_1": lambda: of_clients(train_splitfed, SMALL_FLOATS, 2, version=1, seed=5),
    "splitfed_2": lambda: of_clients(train_splitfed, SMALL_FLOATS, 2, version=2, seed=5),
    "split_async": split_async,
    "split_async_moved_and_delta": split_async_moved_and_delta,
    "split_async_relay": split_async_relay,
    "uploading": uploading,
    "fedavg_plain": federated,
    "fedsgd": lambda: federated(cohort=6, local=Local(batch_size=None, lr=0.5, steps=1)),
    "fedavg_compressed_both_ways": fedavg_compressed_both_ways,
    "fedavg_entropy_coded": fedavg_entropy_coded,
    "fedavg_stragglers": fedavg_stragglers,
    "fedadam": fedadam,
    "fedyogi": fedyogi,
    "fedprox": lambda: federated(cohort=5, local=dataclasses.replace(LOCAL, epochs=2, prox=0.5)),
    "fedavg_private": lambda: federated(server=Server(mean=NOISE)),
    "fedavg_byte_budget": fedavg_byte_budget,
    "fedavg_with_buffers": fedavg_with_buffers,
    "intervals": intervals,
    "fedbuff_with_momentum": fedbuff_with_momentum,
}


def summary(run: Run) -> dict[str, Any]:
    """All of a run that is stored, as JSON."""
    kinds: Counter[str] = Counter()
    for transfer in run.channel.transfers:
        kinds[transfer.kind] += transfer.nbytes
    ledger = "\n".join(" ".join(map(str, transfer)) for transfer in run.channel.transfers)
    return {
        "records": run.records,
        "nbytes": dict(sorted(kinds.items())),
        "num_transfers": len(run.channel.transfers),
        "ledger_crc32": zlib.crc32(ledger.encode()),
        "weights": {name: weights(module) for name, module in run.modules.items()},
    }


def weights(module: nn.Module) -> dict[str, list[float]]:
    """Of each tensor: sum, sum of squares, first value, last value."""
    flat = {name: t.detach().double().reshape(-1) for name, t in module.state_dict().items()}
    return {n: [*map(float, (t.sum(), t.square().sum(), t[0], t[-1]))] for n, t in flat.items()}


# ------------------------------------------------------------------ runs that stop, and go on later
@dataclass
class Resumable:
    """A run, and how it begins or goes on after so many steps or rounds."""

    saved: list[Any]  # what `save_run` gets
    parties: list[Party]  # whose weights are compared
    channel: Channel
    train: Callable[[int], Iterator[Any]]
    stop: int  # where the stored run was saved


def resumable_split() -> Resumable:
    codecs = {
        "activations": Difference(Pipeline(TopK(0.5, scope="tensor"), Half())),
        "gradients": ErrorFeedback(Pipeline(Quantize(2, stochastic=True), ContextEntropy())),
    }
    model, channel = network(), unchecked(codecs)
    top = torch.optim.Adam(model[4:].parameters(), 0.01)
    parties = [party("alice", model[:4]), Party("bob", model[4:], top, nn.NLLLoss())]

    def train(step: int) -> Iterator[Any]:
        return train_split(parties, islice(batches().epochs(3), step, None), channel)

    return Resumable(parties, parties, channel, train, stop=5)


def resumable_fedavg() -> Resumable:
    codecs = {
        "model": Difference(Pipeline(Quantize(8))),
        "update": ErrorFeedback(Pipeline(TopK(0.2), Quantize(4, stochastic=True))),
    }
    layers = nn.Linear(64, 4), nn.ReLU(), nn.Linear(4, 10), nn.LogSoftmax(dim=1)
    model, channel, backlog = filled(nn.Sequential(*layers)), Channel(codecs), Backlog()
    server = Party("server", model, Yogi(model.parameters(), lr=0.02))
    times = {name: [1.0 + 0.2 * k] for k, name in enumerate(SIZES)}
    clock = Scripted(times | {"dan": [3.5], "eve": [2.5, 4.0]})
    arrivals = Arrivals(wait_for=2, staleness=Polynomial(0.5), clock=clock)
    asks = Server(arrivals=arrivals, optimizer=server.optimizer, backlog=backlog)
    how = {"cohort": 4, "local": LOCAL, "server": asks, "seed": 2}

    def train(step: int) -> Iterator[Any]:
        return fedavg(model, shares(), channel, rounds=range(step, 7), **how)

    return Resumable([server, backlog], [server], channel, train, stop=3)


def resumable_async() -> Resumable:
    codecs = {"activations": Pipeline(Quantize(4, stochastic=True))}
    parties, channel, bookmark = pair(), Channel(codecs), Bookmark()
    gate, upload = LossGate(0.2, every=2), Upload(delta=True)
    how = {"gate": gate, "num_epochs": 5, "upload": upload, "bookmark": bookmark}

    def train(step: int) -> Iterator[Any]:
        return train_async(*parties, batches(), channel, **how)

    return Resumable([*parties, bookmark], parties, channel, train, stop=9)


RESUMABLE: dict[str, Callable[[], Resumable]] = {
    "split": resumable_split,
    "fedavg": resumable_fedavg,
    "split_async": resumable_async,
}
