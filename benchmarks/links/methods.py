"""Six ways to train two parties, as functions of a channel: a record after each step or round.

The client has the images. The server has the labels in split learning, and the model in federated
averaging, where it has one client here: bytes and messages per client are what a link carries.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from torch import nn

from fltoolkit import SGD, Batches, Channel, Party, load, splitnn_mlp
from fltoolkit.codecs import Codec, ErrorFeedback, Pipeline, Quantize
from fltoolkit.federated import Local, local_update
from fltoolkit.history import Record
from fltoolkit.split import Periodic, train_async, train_split
from fltoolkit_engines.remote import RemoteGate, RemoteParty, absent
from fltoolkit_research.codecs import ContextEntropy, Difference

CLIENT, SERVER = "client", "server"
BATCH_SIZE, LR, SEED = 64, 0.05, 0
SILENT, PERIOD = 4, 4  # one period of four is in state A, one in B, two are silent; of 4 steps each
Train = Callable[[Channel, str, int], Iterator[Record]]


@dataclass(frozen=True)
class Method:
    """How to train, and in which codecs. A unit is a step of split learning or a round."""

    train: Train
    unit: str
    unit_nbytes: float  # about so many bytes per unit, to choose how many units are run
    codecs: Mapping[str, Codec] = field(default_factory=dict)


def split(channel: Channel, here: str, count: int, *, silent: bool = False) -> Iterator[Record]:
    """At least ``count`` steps of split learning, whole epochs; ``silent``: with states A, B, C."""
    data, model = load("digits_known_writers").flat(), splitnn_mlp(64, seed=SEED)
    bottom, top = model[:4], model[4:]
    alice: Party = RemoteParty(CLIENT)
    bob: Party = RemoteParty(SERVER)
    x, y = absent(len(data.y_train)), absent(len(data.y_train))
    if here == CLIENT:
        alice, x = Party(CLIENT, bottom, SGD(bottom.parameters(), lr=LR)), data.x_train
    else:
        bob = Party(SERVER, top, SGD(top.parameters(), lr=LR), nn.NLLLoss())
        y = data.y_train
    batches = Batches(x, y, BATCH_SIZE, seed=SEED)
    epochs = -(-count // len(batches))
    if not silent:
        yield from train_split([alice, bob], batches.epochs(epochs), channel)
        return
    gate = (
        Periodic(SILENT, every=PERIOD)
        if here == SERVER
        else RemoteGate(channel, SERVER, CLIENT, every=PERIOD)  # type: ignore[arg-type]
    )
    yield from train_async(alice, bob, batches, channel, gate=gate, num_epochs=epochs)


def averaging(channel: Channel, here: str, count: int) -> Iterator[Record]:
    """``count`` rounds of federated averaging: the model down, a local epoch, the update up."""
    data, model = load("digits_known_writers").flat(), splitnn_mlp(64, seed=SEED)
    local = Local(batch_size=BATCH_SIZE, lr=LR, epochs=1)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    nothing = {name: value.new_zeros(0) for name, value in weights.items()}
    for round_ in range(count):
        start = channel.send(SERVER, CLIENT, "model", weights if here == SERVER else nothing)
        update = nothing
        if here == CLIENT:
            update = local_update(
                model, start, data.x_train, data.y_train, local, seed=round_
            ).delta
        update = channel.send(CLIENT, SERVER, "update", update)
        if here == SERVER:
            weights = {name: value + update[name] for name, value in weights.items()}
        yield {"step": round_}


EIGHT = Pipeline(Quantize(8))
FOUR = Pipeline(Quantize(4, stochastic=True), ContextEntropy())
THREE = Pipeline(Quantize(3), ContextEntropy())
EIGHT_BITS = {"activations": EIGHT, "gradients": EIGHT}
FOUR_BITS = {"activations": FOUR, "gradients": FOUR}
THREE_BITS = {"update": ErrorFeedback(THREE), "model": Difference(THREE, first=EIGHT)}
METHODS = {
    "SplitNN, float32": Method(split, "step", 328_000),
    "SplitNN, 8 bits": Method(split, "step", 82_000, EIGHT_BITS),
    "SplitNN, 4 bits, coded": Method(split, "step", 32_000, FOUR_BITS),
    "silent states, 8 bits": Method(partial(split, silent=True), "step", 31_000, EIGHT_BITS),
    "FedAvg, float32": Method(averaging, "round", 778_000),
    "FedAvg, 3 bits both ways": Method(averaging, "round", 50_000, THREE_BITS),
}
