"""Split learning and communication-efficient federated learning, measured in bytes really sent.

How much accuracy does a byte buy? Read the package in this order: the core in an afternoon, then
each room in an hour. A room is a package; its own docstring names its files in reading order.

    arrays      numpy arrays and pandas tables become tensors
    trees       arithmetic on dict[str, Tensor]
    wire        a tree becomes bytes and back: the documented frame
    codecs      a room: how a message becomes shorter
    links       a copy of a codec for each end of each link
    channel     the one door between parties, and the ledger beside it
    party       one owner with a part of the network
    history     records of a run, and where they are kept
    models      the networks of the course
    finetuning  a frozen model and the small changes that are learned and sent
    data        a room: data sets, who has what, batches
    split       a room: SplitNN in all its shapes, and states A, B and C
    metrics     what a test measures, and which direction is better
    evaluation  how good the whole network is, as the experimenter sees it
    federated   a room: federated averaging, and what a client does alone
    pooled      a room: the samples themselves are sent, and one party trains
    cost        what a method will cost, before it runs
    checkpoint  save a run and go on later
    testing     the tests that every codec inherits
    leakage     a room: what others learn from what crossed, and what helps
    research    a room: runs as values, sweeps, fronts, suggestions
    units       amounts and byte units, for axes and prose
    fence       runs a program that nobody trusts
    plots       a room: pictures that stay, pictures that move
    labs        a room: steer a training while it runs
    panels      a room: sliders for the notebooks
    course      a room: guesses and self-checks
    assignments a room: course work: release, grading, feedback
    commands    what ``fltoolkit run``, ``sweep``, ``compare`` and ``report`` do
    cli         the command line that finds them
    engines     a room: the same parties over torch.distributed, Flower and PySyft
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what a type checker and an editor read; the table below does the same later
    from fltoolkit.channel import Channel, Transfer
    from fltoolkit.checkpoint import has_run, load_run, save_run
    from fltoolkit.cost import advise
    from fltoolkit.data.batches import Batches
    from fltoolkit.data.datasets import load
    from fltoolkit.evaluation import evaluate, predict
    from fltoolkit.federated.fedasync import fedasync, fedbuff
    from fltoolkit.federated.fedavg import fedavg
    from fltoolkit.history import History, evaluated
    from fltoolkit.models import splitnn_mlp
    from fltoolkit.party import SGD, Party
    from fltoolkit.split.asynchronous import train_async, train_async_relay
    from fltoolkit.split.chain import split_step, train_split
    from fltoolkit.split.clients import train_relay, train_splitfed
    from fltoolkit.split.gates import LossGate
    from fltoolkit.split.vertical import train_vertical, vertical_step
    from fltoolkit.wire import WireError, pack, unpack

__version__ = "0.2.0"

__all__ = [
    "SGD",
    "Batches",
    "Channel",
    "History",
    "LossGate",
    "Party",
    "Transfer",
    "WireError",
    "advise",
    "evaluate",
    "evaluated",
    "fedasync",
    "fedavg",
    "fedbuff",
    "has_run",
    "load",
    "load_run",
    "pack",
    "predict",
    "save_run",
    "split_step",
    "splitnn_mlp",
    "train_async",
    "train_async_relay",
    "train_relay",
    "train_split",
    "train_splitfed",
    "train_vertical",
    "unpack",
    "vertical_step",
]

_FILES = {  # where each name comes from: its file is imported when the name is first asked for
    "Batches": "data.batches",
    "Channel": "channel",
    "History": "history",
    "LossGate": "split.gates",
    "Party": "party",
    "SGD": "party",
    "Transfer": "channel",
    "WireError": "wire",
    "advise": "cost",
    "evaluate": "evaluation",
    "evaluated": "history",
    "fedasync": "federated.fedasync",
    "fedavg": "federated.fedavg",
    "fedbuff": "federated.fedasync",
    "has_run": "checkpoint",
    "load": "data.datasets",
    "load_run": "checkpoint",
    "pack": "wire",
    "predict": "evaluation",
    "save_run": "checkpoint",
    "split_step": "split.chain",
    "splitnn_mlp": "models",
    "train_async": "split.asynchronous",
    "train_async_relay": "split.asynchronous",
    "train_relay": "split.clients",
    "train_split": "split.chain",
    "train_splitfed": "split.clients",
    "train_vertical": "split.vertical",
    "unpack": "wire",
    "vertical_step": "split.vertical",
}


def __getattr__(name: str) -> Any:
    """A name of the door, or a file or room of the package: imported now, and kept.

    So ``import fltoolkit`` takes next to no time, and a program imports only what it uses.
    """
    if name in _FILES:
        value = getattr(import_module(f"{__name__}.{_FILES[name]}"), name)
    elif not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
