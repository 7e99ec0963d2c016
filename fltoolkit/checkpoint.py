"""Saving a run and going on with it later: the state of each party in a file of its own.

A file is one frame (wire.py) with the tensors and, as JSON, what stands around them. Reading one
runs no code and takes about as much memory as the file is long. Not here: the records of the run. A
`History` with a path keeps them by itself.
"""

import copy
import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from fltoolkit.channel import Channel
from fltoolkit.trees import Tree
from fltoolkit.wire import pack, unpack

__all__ = ["has_run", "load_run", "save_run"]


class Saveable(Protocol):
    """A `Party`, or another object with a state, such as fedavg's `Backlog` or a `Bookmark`."""

    name: str

    def state_dict(self) -> Mapping[str, Any]:
        """All that is needed to go on: plain values and tensors."""

    def load_state_dict(self, state: Mapping[str, Any], /) -> object:
        """Go on from a saved `state_dict`."""


def save_run(folder: str | os.PathLike[str], parties: Sequence[Saveable], channel: Channel) -> Path:
    """Save all parties and the channel's ledger as they are after ``channel.step`` steps.

    Writes ``folder/step-000938/``, whose path is returned, with one ``.state`` file for each party,
    so that each owner can keep its own; ``channel.state``, with the ledger and the state of the
    codecs; and ``SHA256SUMS``. The folder gets its name only when it is complete, and then older
    saves are deleted: if the program is killed while it saves, or the disk is full (OSError), the
    save before is still there.

    Dropout masks come from torch's global generator. To resume such a run bit by bit, save
    ``torch.get_rng_state()`` as well.

    >>> import tempfile
    >>> from torch import nn
    >>> from fltoolkit import Party
    >>> alice, channel = Party("alice", nn.Linear(2, 2)), Channel()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     channel.step = 938
    ...     saved = save_run(folder, [alice], channel)
    ...     print(saved.name, sorted(path.name for path in saved.iterdir()))
    step-000938 ['0-alice.state', 'SHA256SUMS', 'channel.state']
    """
    folder = Path(folder)
    done = folder / f"step-{channel.step:06d}"
    new = folder / f"{done.name}.tmp"
    shutil.rmtree(new, ignore_errors=True)
    states = [*(party.state_dict() for party in parties), channel.state_dict()]
    sums = ""
    try:
        new.mkdir(parents=True)
        for file, state in zip([*_files(parties), "channel.state"], states, strict=True):
            (new / file).write_bytes(content := written(state))
            sums += _line_of_sums(content, file)
        (new / "SHA256SUMS").write_text(sums)
    except OSError as error:
        shutil.rmtree(new, ignore_errors=True)  # a part of a save is of no use, and takes room
        raise OSError(
            f"{folder}: step {channel.step} could not be saved: {error}. What was written of it is "
            "deleted, and an earlier save there is still complete. Make room on this disk or save "
            "in another folder, then call save_run again: the run itself is as it was"
        ) from error
    older = [path for path in _saved(folder) if path != done]
    if older and _step(older[-1]) > channel.step:
        shutil.rmtree(new)
        raise ValueError(
            f"{folder} holds a later save, {older[-1].name}, than this one of step {channel.step}: "
            "go on from it with load_run, delete it, or save elsewhere"
        )
    if done.exists():
        older.append(done.rename(folder / f"{done.name}.old"))
    new.rename(done)
    for path in older:
        shutil.rmtree(path)
    return done


def has_run(folder: str | os.PathLike[str]) -> bool:
    """Whether ``folder`` holds a complete save for `load_run`; the folder need not exist.

        step = load_run(folder, parties, channel) if has_run(folder) else 0

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(has_run(folder), save_run(folder, [], Channel()).name, has_run(folder))
    False step-000000 True
    """
    return bool(_saved(Path(folder)))


def load_run(folder: str | os.PathLike[str], parties: Sequence[Saveable], channel: Channel) -> int:
    """Restore parties and channel from the newest save in ``folder``; returns its step.

    ``parties`` are built as for a new run, in the same order. Go on with the batches after that
    step: ``itertools.islice(batches.epochs(15), step, None)``. Relay and SplitFed can go on after
    whole rounds (see `train_relay`), asynchronous states after any step, if a `Bookmark` is among
    the parties. ``history.rewind(step)`` removes later records from a history in a file.

    Raises FileNotFoundError if nothing was saved there, and ValueError for a file that is damaged
    or does not fit, and for a channel whose codecs differ from the saved ones. Parties and channel
    are then as they were.

    >>> import tempfile
    >>> channel, again = Channel(), Channel()
    >>> _ = channel.send("alice", "bob", "activations", {"h": torch.zeros(10)})
    >>> channel.step = 1
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = save_run(folder, [], channel)
    ...     print(load_run(folder, [], again), again.nbytes())
    1 50
    """
    saved = _saved(Path(folder))
    if not saved:
        raise FileNotFoundError(f"{folder} holds no saved run: save_run makes one, has_run asks")
    files = _files(parties)
    found = sorted(path.name for path in saved[-1].glob("*-*.state"))
    if found != sorted(files):
        raise ValueError(f"{saved[-1]} holds the parties {found}, this run has {sorted(files)}")
    files = ["channel.state", *files]
    states = [_read(saved[-1] / file) for file in files]
    owners: list[Any] = [channel, *parties]
    before = [copy.deepcopy(owner.state_dict()) for owner in owners]
    try:
        for file, owner, state in zip(files, owners, states, strict=True):  # noqa: B007
            owner.load_state_dict(state)
    except Exception as error:
        for owner, state in zip(owners, before, strict=True):
            owner.load_state_dict(state)
        raise ValueError(
            f"{saved[-1] / file} does not fit this run: {error}. Parties and channel are as before"
        ) from error
    return channel.step


def _read(path: Path) -> Any:
    """The content of a saved file. Raises ValueError if it has changed since it was saved."""
    sums = path.with_name("SHA256SUMS")
    listed = sums.read_text().splitlines(keepends=True) if sums.exists() else []
    try:
        content = path.read_bytes()
        if _line_of_sums(content, path.name) not in listed:
            raise ValueError(f"its SHA-256 is not in {sums.name}")
        return state_of(content)
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} cannot be read as it was saved: {error}. Bring back a copy of {path.parent}, "
            "or delete it and begin anew"
        ) from error


def written(state: Any) -> bytes:
    """A state as one frame. Raises TypeError for what is no tensor, number, text, list or dict.

    >>> state = {"lr": 0.5, "state": {0: (torch.ones(2), None)}}
    >>> state_of(written(state))
    {'lr': 0.5, 'state': {0: (tensor([1., 1.]), None)}}
    """
    tensors: Tree = {}

    def plain(value: Any) -> Any:
        if isinstance(value, Tensor):
            tensors[str(len(tensors))] = value
            return {"tensor": str(len(tensors) - 1)}
        if isinstance(value, list):
            return [*map(plain, value)]
        if isinstance(value, tuple):
            return {"tuple": [*map(plain, value)]}
        if isinstance(value, Mapping):
            return {"dict": [[plain(key), plain(each)] for key, each in value.items()]}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise TypeError(
            f"{value!r} is a {type(value).__name__}, and a state that is saved holds tensors, "
            "numbers, texts, lists, tuples and dicts"
        )

    text = json.dumps(plain(state)).encode()
    return pack({"": torch.frombuffer(bytearray(text), dtype=torch.uint8), **tensors})


def state_of(content: bytes) -> Any:
    """The reverse of `written`. Raises ValueError for bytes that are no such state."""
    tensors = unpack(content)

    def made(value: Any) -> Any:
        if isinstance(value, list):
            return [*map(made, value)]
        if not isinstance(value, dict):
            return value
        ((kind, inside),) = value.items()
        if kind == "tensor":
            return tensors[inside]
        if kind == "tuple":
            return tuple(map(made, inside))
        return {made(key): made(each) for key, each in inside}

    try:
        return made(json.loads(tensors.pop("").numpy().tobytes()))
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"it holds no state of a run: {error}") from error


def _line_of_sums(content: bytes | memoryview, name: str) -> str:
    """As ``sha256sum`` writes it."""
    return f"{hashlib.sha256(content).hexdigest()}  {name}\n"


def _files(parties: Sequence[Saveable]) -> list[str]:
    """File names with each party's place and name: in a U-shape one owner has two parts."""
    return [
        f"{i}-{re.sub(r'[^A-Za-z0-9]', '_', party.name)}.state" for i, party in enumerate(parties)
    ]


def _saved(folder: Path) -> list[Path]:
    """Complete saves, oldest first."""
    found = [path for path in folder.glob("step-*") if _step(path) >= 0]
    return sorted(found, key=lambda path: (_step(path), path.suffix != ".old"))


def _step(path: Path) -> int:
    """The step in the folder's name; -1 if it is not a save.

    A name that ends in ``.old`` counts, too: a new save of the same step was interrupted after it
    had renamed the older one.
    """
    found = re.fullmatch(r"step-(\d+)(\.old)?", path.name)
    return int(found[1]) if found else -1
