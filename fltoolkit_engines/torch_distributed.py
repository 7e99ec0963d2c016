"""Parties in processes of their own, on one machine or on several.

Here: a `Channel` over torch.distributed. Notebook 10 runs this engine.

Every process runs the same function, e.g. `train_split`, with the same list of parties; a party
of another process is a `RemoteParty`. In `Channel.send` the sender's process encodes and transmits,
the receiver's process receives and decodes, and any other process does nothing. Averaging such as
`fedavg` runs in the same way: `Workers` trains the clients of its process. The file _peers.py
describes the format between processes.
"""

import json
import shutil
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import fltoolkit
from fltoolkit.channel import Channel, Delivery
from fltoolkit.checkpoint import load_run, save_run
from fltoolkit.codecs.base import Codec
from fltoolkit.links import Link
from fltoolkit.party import Party
from fltoolkit.trees import Tree
from fltoolkit.wire import WireError
from fltoolkit_engines._peers import MESSAGE, PeerError, Peers
from fltoolkit_engines.remote import RemoteParty

__all__ = ["DistributedChannel", "PeerError"]


class DistributedChannel(Channel):
    """A `Channel` between processes: the same messages, codecs and ledger.

    `torchrun` starts all processes, and each makes this channel at the same time. The processes
    then compare versions, parties, codecs and settings. A process's ledger holds the messages that
    it sent or received. Use the channel in a ``with`` statement: then an error in this process is
    reported to the others, which stop at once and show its text::

        with DistributedChannel({"alice": 0, "bob": 1}, timeout=30) as channel:
            for record in without_nan(train_split([alice, RemoteParty("bob")], batches, channel)):

    The backend is gloo, also on GPUs: a timeout of NCCL ends the process instead of raising an
    error. gloo does not encrypt, and it does not check who connects: read docs/engines.md before
    you use an open network.

    Args:
        ranks: the process number of each party; several parties may share one process.
        codecs: as in `Channel`; they must be the same in all processes.
        timeout: seconds, for every single wait.
        settings: other values that must be equal in all processes, e.g. ``{"lr": 0.03, "seed":
            0}``; they are compared at the beginning.

    Raises:
        PeerError: a process is missing, or it differs in version, parties, codecs or settings.

    Attributes:
        here: the parties of this process.
    """

    def __init__(
        self,
        ranks: Mapping[str, int],
        codecs: Mapping[str, Codec] | None = None,
        *,
        timeout: float = 60.0,
        settings: Mapping[str, float | str] | None = None,
    ):
        super().__init__(codecs)
        self._ahead: dict[Link, tuple[int, Delivery]] = {}  # fetched early: sender's step, message
        self.peers = Peers(ranks, timeout, lambda: self.step)
        self.ranks = self.peers.ranks
        self.here = {name for name, rank in self.ranks.items() if rank == self.peers.rank}
        self._greet(settings or {})

    # ---- what protocols see

    @property
    def nbytes_moved(self) -> int:
        """Bytes of messages, envelopes and compared settings that this process has sent."""
        return self.peers.nbytes_moved

    def look_ahead(self, sender: str, receiver: str, kind: str) -> Tree:
        """Receive the next message of a link now; `send` will return it, and count it, later."""
        link = Link(sender, receiver, kind)
        if link not in self._ahead:
            self._ahead[link] = self._fetch(link)
        return self._ahead[link][1].tree

    def is_here(self, name: str) -> bool:
        """Whether this party lives in this process."""
        return name in self.here

    def cross(self, link: Link, tree: Tree) -> Delivery:
        """Carry a message as `Channel` does, with each process doing its own part."""
        sender, receiver, _ = link
        for name in (sender, receiver):
            if name not in self.ranks:
                raise ValueError(
                    f"{name!r} lives in no process: add it to ranks, which has only "
                    f"{sorted(self.ranks)}"
                )
        if {sender, receiver} <= self.here:
            return super().cross(link, tree)
        # as many rows, no columns: the values are in another process
        nothing = {name: t.new_empty((*t.shape[:1], 0)) for name, t in tree.items()}
        if sender in self.here:
            try:
                message = self.links.codecs_of(link).sending.encode(tree)
            except (TypeError, ValueError) as error:
                raise type(error)(f"step {self.step}, {link}: {error}") from error
            self.peers.send(self.ranks[receiver], message, _mark(link))
            self.count(link, message, tree)
            return Delivery(nothing, b"")
        if receiver in self.here:
            step, delivery = self._ahead.pop(link) if link in self._ahead else self._fetch(link)
            if step != self.step:
                raise PeerError(
                    f"step {self.step}, {link}: {sender!r} is at step {step}. Both "
                    "must train with the same batches, in the same order"
                )
            self.count(link, delivery.message, delivery.tree)
            return delivery
        return Delivery(nothing, b"")

    def _fetch(self, link: Link) -> tuple[int, Delivery]:
        """Wait for a message of a link, and decode it; returns the sender's step with it."""
        rank, what = self.ranks[link.sender], f"{link.kind} from {link.sender!r}"
        kind, step, mark, message = self.peers.get(rank, what)
        if kind != MESSAGE or mark != _mark(link):
            raise PeerError(
                f"step {self.step}: process {rank} sent another message than {link}, at its step "
                f"{step}. All processes must call the same function with the same settings"
            )
        try:
            return step, Delivery(self.decode(link, message), message)
        except ValueError as error:
            raise WireError(f"step {step}, {link}: {error}") from error

    # ---- saving and going on

    def save(self, folder: str | Path, parties: Sequence[Party]) -> None:
        """Save this process's parties, as `save_run` does; all call it after the same record.

        The processes first wait for each other, and the previous save is kept. So there always is a
        step of which all processes have a complete save, even if one of them dies.
        """
        self.peers.exchange({"saving step": self.step}, "to save")
        folder = Path(folder)
        save_run(folder / f"{self.step:09d}", self._own(parties), self)
        for step in _saves(folder)[:-2]:
            shutil.rmtree(folder / f"{step:09d}")

    def resume(self, folder: str | Path, parties: Sequence[Party]) -> int:
        """Go back to the newest step that all processes have saved; returns it, or 0 if none.

        Continue with the batches after it: ``itertools.islice(batches.epochs(15), step, None)``.
        """
        folder = Path(folder)
        everybody = self.peers.exchange({"saves": _saves(folder)}, "to resume")
        saves = {self.peers.names(rank): word["saves"] for rank, word in everybody.items()}
        common = set.intersection(*map(set, saves.values()))
        if not common and any(saves.values()):
            raise PeerError(
                f"no step was saved by all processes; the saved steps are {saves}. Check that no "
                "folder is missing"
            )
        step = max(common, default=0)
        for later in (s for s in _saves(folder) if s > step):
            shutil.rmtree(folder / f"{later:09d}")
        return load_run(folder / f"{step:09d}", self._own(parties), self) if step else 0

    def _own(self, parties: Sequence[Party]) -> list[Party]:
        return [p for p in parties if p.name in self.here and not isinstance(p, RemoteParty)]

    # ---- beginning and end

    def __enter__(self) -> "DistributedChannel":
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Report an error to the other processes, and leave the group."""
        if error is None:
            self.peers.close(None)
        else:
            mine, why = self.peers.names(self.peers.rank), str(error) or type(error).__name__
            self.peers.close(f"{mine} stopped at step {self.step}: {why}"[:2000])

    def _greet(self, settings: Mapping[str, float | str]) -> None:
        """Compare versions, parties, codecs and settings with all other processes."""
        mine = {"fltoolkit": fltoolkit.__version__, "ranks": self.ranks}
        mine |= {"codecs": {kind: repr(codec) for kind, codec in self.codecs.items()}}
        mine = json.loads(json.dumps(mine | {"settings": dict(settings)}))
        here = self.peers.names(self.peers.rank)
        for rank, theirs in self.peers.exchange(mine, "a greeting").items():
            for what in mine:
                if theirs.get(what) != mine[what]:
                    raise PeerError(
                        f"step 0: {self.peers.names(rank)} (process {rank}) has {what} "
                        f"{theirs.get(what)!r}, {here} has {mine[what]!r}. Both must be the same"
                    )


def _mark(link: Link) -> int:
    return zlib.crc32("|".join(link).encode())


def _saves(folder: Path) -> list[int]:
    """The steps of the complete saves in a folder, oldest first."""
    return sorted(int(path.parent.name) for path in folder.glob("*/step-*") if path.suffix == "")
