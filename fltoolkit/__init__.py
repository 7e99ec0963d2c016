"""Split learning and communication-efficient federated learning, measured in bytes really sent.

How much accuracy does a byte buy? Read the package in this order: the core in an afternoon, then
each room in an hour. A room is a package; its own docstring names its files in reading order.

    arrays      numpy arrays and pandas tables become tensors
    trees       arithmetic on dict[str, Tensor]
    wire        a tree becomes bytes and back: the documented frame
    codecs      a room: how a message becomes shorter
    links       a copy of a codec for each end of each link
    channel     the only way from one party to another, and the ledger of bytes
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
    secrecy     a room: sums whose terms stay secret, and what they cost
    units       amounts and byte units, for axes and prose
    fence       runs a program that nobody trusts
    plots       a room: pictures that stay, pictures that move
    cup         a room: a contest on bytes, and its verifier
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
from typing import Any

import lazy_loader as lazy

__version__ = "0.2.0"

_name, __dir__, __all__ = lazy.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """A name of ``__init__.pyi``, or a file or room of the package: imported now, and kept."""
    if name in __all__:
        return _name(name)
    if not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
