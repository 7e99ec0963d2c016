"""Split learning and communication-efficient federated learning, measured in bytes really sent.

How much accuracy does a byte buy? Read the package in this order, about an afternoon:

    trees       arithmetic on dict[str, Tensor]
    wire        a tree becomes bytes and back: the documented frame
    parts       what travels between the stages of a codec
    quantize, levels, sparse, rotate, lowrank    the stages: fewer bits a value, fewer values
    entropy     symbols become bytes (prediction, contexts and places are engine rooms)
    codecs, difference    stages in a row, error feedback; what changed since the last message
    channel     the one door between parties, and the ledger beside it
    history     records of a run, and where they are kept
    data        digits offline, MNIST and friends; who has what; batches
    models      the networks of the course
    party       one owner with a part of the network
    split       SplitNN: vanilla, multi-hop, U-shaped, vertical, relay, SplitFed
    gates, cache, split_async    states A, B and C: a client that falls silent when it may
    split_variants    two relatives, for comparison
    local_sgd   what a federated client does alone
    clock, privacy, adaptive    stragglers, noise, compression that follows the run
    server_step, fedavg, fedasync    how a server moves, rounds, and servers that wait for none
    cost        what a method will cost, before it runs
    checkpoint  save a run and go on later
    dependence, leakage, defence    what others learn from what crossed, and what helps
    spec, experiment, training    a run as one value, and as text
    store, sweep    many runs, each once, none lost
    sizes, analysis, suggest    fronts, bytes to a target, the best for so many bytes
    plots, live, codec_report, course, widgets    for people: figures, progress, portraits of
                codecs, self-checks, sliders
    runner, lab, traces, dashboard, panel    steer a training while it runs
    threshold_lab, fedavg_lab, leakage_panel, tradeoff, tradeoff_panel    what notebooks show
    cli, commands, report    the same from a terminal
    assignment, sandbox, grading, gradebook    course work: released, graded, told
    engines     the same parties over torch.distributed, Flower and PySyft

Codec stages and the last lines' modules are imported by their own names.
"""

from fltoolkit.channel import Channel, Transfer
from fltoolkit.checkpoint import load_run, save_run
from fltoolkit.codecs import Codec, ErrorFeedback, Identity, Only, Pipeline
from fltoolkit.cost import advise
from fltoolkit.data import Batches, load
from fltoolkit.fedasync import fedasync, fedbuff
from fltoolkit.fedavg import fedavg
from fltoolkit.gates import LossGate
from fltoolkit.history import History, evaluated
from fltoolkit.models import splitnn_mlp
from fltoolkit.party import SGD, Party
from fltoolkit.split import (
    evaluate,
    predict,
    split_step,
    train_relay,
    train_split,
    train_splitfed,
    train_vertical,
    vertical_step,
)
from fltoolkit.split_async import train_async, train_async_relay
from fltoolkit.wire import WireError, pack, unpack

__version__ = "0.1.0"

__all__ = [
    "SGD",
    "Batches",
    "Channel",
    "Codec",
    "ErrorFeedback",
    "History",
    "Identity",
    "LossGate",
    "Only",
    "Party",
    "Pipeline",
    "Transfer",
    "WireError",
    "advise",
    "evaluate",
    "evaluated",
    "fedasync",
    "fedavg",
    "fedbuff",
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
