"""Split learning and communication-efficient federated learning, measured in bytes really sent.

How much accuracy does a byte buy? This is the small package on which the others stand. Read it in
this order; a room is a folder whose own docstring names its files:

    shapes      shapes in annotations; can be skipped at first
    arrays      numpy arrays and pandas tables become tensors; can be skipped at first
    trees       arithmetic on dict[str, Tensor]
    wire        a tree becomes bytes and back: the documented frame
    compiled    loops in C, for those who ask for them; can be skipped
    codecs      a room: how a message becomes shorter
    links       a copy of a codec for each end of each link
    channel     the only way from one party to another, and the ledger of bytes
    party       one owner with a part of the network
    history     records of a run, and where they are kept
    models      the networks of the course
    data        a room: data sets, who has what, batches
    split       a room: SplitNN in all its shapes, and states A, B and C
    metrics     what a test measures, and which direction is better
    evaluation  how good the whole network is, as the experimenter sees it
    federated   a room: federated averaging, and what a client does alone
    cost        what a method will cost, before it runs
    checkpoint  save a run and go on later
    testing     the tests that every codec inherits
    units       amounts and byte units, for axes and prose
    plots       a room: figures of histories, channels and partitions
    cli         finds the commands that the packages offer to ``fltoolkit``

docs/architecture.md walks along a step and a round; docs/glossary.md has the words of the course.
Beside it, in the same wheel: `fltoolkit_research` (experiments, more codecs and protocols),
`fltoolkit_engines` (other systems), `fltoolkit_grading` (assignments), `fltoolkit_contest` (the
megabyte cup) and `fltoolkit_course` (questions, labs and panels of the notebooks).
"""

import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lazy_loader as lazy

__version__ = "0.3.0"

_name, __dir__, __all__ = lazy.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """A name of ``__init__.pyi``, or a file or room of the package: imported now, and kept."""
    if name in __all__:
        return _name(name)
    words = f"module {__name__!r} has no attribute {name!r}"
    try:
        if not name.startswith("_"):
            return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name:  # of what a file imports; `_elsewhere` gives none
            raise
        words += f": {error}"
    raise AttributeError(words, name=name)


def _elsewhere(name: str, path: object = None, target: object = None) -> None:
    """Raise an error that says where a name is that is not in this package, or not in its room."""
    package, *old = name.split(".")
    here = Path(__file__).parent
    if package != __name__ or not old or old[-1].startswith("_") or _exists(here.joinpath(*old)):
        return
    for beside in sorted(here.parent.glob(f"{__name__}_*")):
        called = {"grading": "assignments", "contest": "cup"}.get(kind := beside.name[10:], kind)
        new = old[1:] if old[0] == called else old
        if _exists(beside.joinpath(*new)):
            place = ".".join([beside.name, *new])
            raise ModuleNotFoundError(f"{name} is {place} now. docs/moved.md lists what moved")
    for door in sorted(here.parent.glob(f"{__name__}*/**/__init__.pyi")):
        if f" as {old[-1]}\n" in door.read_text(encoding="utf-8"):
            room = ".".join(door.parent.relative_to(here.parent).parts)
            raise ModuleNotFoundError(f"{name} is in another room: from {room} import {old[-1]}")
    words = "docs/coming_from.md has the words of PyTorch, TFF, SecretFlow, coMind, PySyft, Flower"
    raise ModuleNotFoundError(f"there is no {name}. {words}")


def _exists(file: Path) -> bool:
    return file.with_suffix(".py").exists() or file.is_dir()


sys.meta_path.append(SimpleNamespace(find_spec=_elsewhere))  # asked when nobody else finds a module
