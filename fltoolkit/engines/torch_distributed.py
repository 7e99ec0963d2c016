"""Split learning with each party in a process of its own, on one machine or on several.

Here: a `Channel` over torch.distributed. Not here: the protocols, which need no change, and the
stand-ins for parties in other processes (remote.py). Notebook 10 runs this engine.

Every process runs the same function, e.g. `train_split`, with the same list of parties; a party
that lives in another process is a `RemoteParty`. `Channel.send` then does a different part in each
process: the sender's process encodes and transmits, the receiver's process receives and decodes,
and any other process does nothing. So the protocol remains one function, and each process computes
its own part on its own data.

An envelope (little-endian) precedes each message:

    4 bytes   b"FLT1"
    1 byte    what follows: 0 a message, 1 values as JSON, 2 the text of an error before the end
    3 bytes   zero
    4 bytes   the sender's step
    4 bytes   CRC-32 of "sender|receiver|kind", 0 if it is no message
    8 bytes   length of what follows
    4 bytes   CRC-32 of the bytes of the envelope before this
"""

import json
import math
import os
import shutil
import signal
import struct
import sys
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import product
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

import fltoolkit
from fltoolkit.channel import Channel, Delivery
from fltoolkit.checkpoint import load_run, save_run
from fltoolkit.codecs.base import Codec
from fltoolkit.engines.remote import RemoteParty
from fltoolkit.links import KINDS, Link, Once
from fltoolkit.party import Party
from fltoolkit.trees import Tree
from fltoolkit.wire import WireError

__all__ = ["DistributedChannel", "PeerError"]

MAGIC = b"FLT1"
MESSAGE, WORD, GOODBYE = range(3)
_ENVELOPE, _CRC = struct.Struct("<4sB3xIIQ"), struct.Struct("<I")
NBYTES_ENVELOPE = _ENVELOPE.size + _CRC.size
MAX_NBYTES = 2**30  # the most bytes of one message, so that a damaged length cannot use all memory
LAST_WORDS = 2.0  # seconds from torchrun's SIGTERM to the end


_Works = list[tuple[Any, Tensor]]  # transfers that have begun, and the memory they use


class PeerError(ConnectionError):
    """Another process has ended, has stopped answering, or has different settings.

    >>> try:
    ...     raise PeerError("step 3, waiting for activations: 'alice' (process 0) is gone")
    ... except ConnectionError as error:
    ...     print(error)
    step 3, waiting for activations: 'alice' (process 0) is gone
    """


# --------------------------------------------------------------------------------- the channel


class _Came(NamedTuple):
    """A message that has arrived."""

    step: int  # the sender's step
    tree: Tree
    message: bytes


class DistributedChannel(Channel):
    """A `Channel` between processes: the same messages, codecs and ledger.

    `torchrun` starts all processes, and each makes this channel at the same time. The processes
    then compare versions, parties, codecs and settings. A process's ledger holds the messages that
    it sent or received; together, the ledgers of all processes are the ledger of the same run in
    one process. Use it in a ``with`` statement: then an error in this process is reported to the
    others, which stop at once and show its text::

        with DistributedChannel({"alice": 0, "bob": 1}, timeout=30) as channel:
            for record in known(train_split([alice, RemoteParty("bob")], batches, channel)):

    Messages are bytes in main memory, so the backend is gloo, even if parties compute on GPUs.
    NCCL would carry the messages through the GPU, and its timeout ends the process instead of
    raising an error. gloo does not encrypt, and it does not check who connects: read
    docs/engines.md before you use an open network.

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
        nbytes_moved: the bytes that this process gave torch.distributed to send: messages,
            envelopes and the comparison of settings. What gloo and TCP add is not included.
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
        if not 0 < timeout < math.inf:
            raise ValueError(f"timeout={timeout}: give seconds, above 0 and finite")
        self.ranks, self.timeout = dict(ranks), timeout
        self.nbytes_moved = 0
        self._ahead: dict[Link, _Came] = {}
        self._under_way: dict[int, _Works] = {}  # the last message to each process
        self._room_there: dict[int, int] = {}  # the payload that fits into each process's buffer
        self._coming: dict[int, tuple[Any, Tensor]] = {}  # asked for, from each process
        self._room_here: dict[int, int] = {}  # and into ours, from each process; both ends agree
        self._before: Any = None  # what SIGTERM did before
        self._group = _group(timedelta(seconds=timeout))
        self.rank = dist.get_rank()
        if set(self.ranks.values()) != set(range(dist.get_world_size())):
            raise ValueError(
                f"ranks={self.ranks}: there are {dist.get_world_size()} processes, and each needs "
                "a party. With torchrun, --nproc-per-node times --nnodes is their number"
            )
        self.here = {name for name, rank in self.ranks.items() if rank == self.rank}
        self._greet(settings or {})

    # ---- what protocols see

    def look_ahead(self, sender: str, receiver: str, kind: str) -> Tree:
        """Receive the next message of a link now; `send` will return it, and count it, later."""
        link = Link(sender, receiver, kind)
        if link not in self._ahead:
            self._ahead[link] = self._fetch(link)
        return self._ahead[link].tree

    def is_here(self, name: str) -> bool:
        """Whether this party lives in this process."""
        return name in self.here

    def cross(self, link: Link, tree: Tree, once: Once | None = None) -> Delivery:
        """Carry a message as `Channel` does, with each process doing its own part."""
        sender, receiver, _ = link
        for name in (sender, receiver):
            if name not in self.ranks:
                raise ValueError(
                    f"{name!r} lives in no process: add it to ranks, which has only "
                    f"{sorted(self.ranks)}"
                )
        if {sender, receiver} <= self.here:
            return super().cross(link, tree, once)
        nothing = {name: _emptied(tensor) for name, tensor in tree.items()}
        if sender in self.here:
            try:
                message = self.links.open(link, once).sending.encode(tree)
            except (TypeError, ValueError) as error:
                raise type(error)(f"step {self.step}, {_arrow(link)}: {error}") from error
            self._finish_sending(rank := self.ranks[receiver])
            self._under_way[rank] = self._post(rank, MESSAGE, message, _mark(link))
            self.count(link, message, tree, once)
            return Delivery(nothing, b"")
        if receiver in self.here:
            came = self._ahead.pop(link, None) or self._fetch(link, once)
            if came.step != self.step:
                raise PeerError(
                    f"step {self.step}, {_arrow(link)}: {sender!r} is at step {came.step}. Both "
                    "must train with the same batches, in the same order"
                )
            self.count(link, came.message, came.tree, once)
            return Delivery(came.tree, came.message)
        return Delivery(nothing, b"")

    def _fetch(self, link: Link, once: Once | None = None) -> _Came:
        """Wait for a message of a link, and decode it."""
        kind, step, mark, message = self._get(self.ranks[link[0]], f"{link[2]} from {link[0]!r}")
        if kind != MESSAGE or mark != _mark(link):
            came = next(
                (
                    each
                    for names in product(self.ranks, self.ranks, KINDS)
                    if _mark(each := Link(*names)) == mark
                ),
                None,
            )
            raise PeerError(
                f"step {self.step}: while waiting for {_arrow(link)}, this process received "
                f"{'something else' if came is None else _arrow(came)} of step {step}. All "
                "processes must call the same function with the same settings"
            )
        try:
            return _Came(step, self.decode(link, message, once), message)
        except ValueError as error:
            raise WireError(f"step {step}, {_arrow(link)}: {error}") from error

    # ---- saving and going on

    def save(self, folder: str | Path, parties: Sequence[Party]) -> None:
        """Save this process's parties, as `save_run` does; all call it after the same record.

        The processes first wait for each other, and the previous save is kept. So even if a process
        dies at any moment, there is a step of which all processes have a complete save.
        """
        self._exchange({"saving step": self.step}, "to save")
        folder = Path(folder)
        save_run(folder / f"{self.step:09d}", self._own(parties), self)
        for step in _saves(folder)[:-2]:
            shutil.rmtree(folder / f"{step:09d}")

    def resume(self, folder: str | Path, parties: Sequence[Party]) -> int:
        """Go back to the newest step that all processes have saved; returns it, or 0 if none.

        Continue with the batches after that step:
        ``itertools.islice(batches.epochs(15), step, None)``.
        """
        folder = Path(folder)
        everybody = self._exchange({"saves": _saves(folder)}, "to resume")
        saves = {self._names(rank): word["saves"] for rank, word in everybody.items()}
        common = set.intersection(*map(set, saves.values()))
        if not common and any(saves.values()):
            raise PeerError(
                f"no step was saved by all processes; the saved steps are {saves}. Is a folder "
                "missing?"
            )
        step = max(common, default=0)
        for later in (s for s in _saves(folder) if s > step):
            shutil.rmtree(folder / f"{later:09d}")
        return load_run(folder / f"{step:09d}", self._own(parties), self) if step else 0

    def _own(self, parties: Sequence[Party]) -> list[Party]:
        return [p for p in parties if p.name in self.here and not isinstance(p, RemoteParty)]

    # ---- beginning and end

    def __enter__(self) -> "DistributedChannel":
        """From here on, a SIGTERM of torchrun leaves time to say who is gone; see `_end_soon`."""
        in_main = threading.current_thread() is threading.main_thread()
        if "TORCHELASTIC_RUN_ID" in os.environ and in_main:
            self._before = signal.signal(signal.SIGTERM, self._end_soon)
        return self

    def _end_soon(self, *_: Any) -> None:
        """End in `LAST_WORDS` seconds.

        When a process has died, torchrun sends SIGTERM to the others within a tenth of a second,
        and kills them 30 seconds later. One that waits for the dead one raises `PeerError` now,
        and has the time to write it; any other one says what it was told, and ends.
        """

        def end() -> None:
            mine = self._names(self.rank)
            print(
                f"step {self.step}: {mine} was told to end (SIGTERM)", file=sys.stderr, flush=True
            )
            os._exit(128 + signal.SIGTERM)

        timer = threading.Timer(LAST_WORDS, end)
        timer.daemon = True  # else an error that ends this process would wait for it
        timer.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Report an error to the other processes, and leave the group.

        The text of an error that torch raised, such as one about shapes, then begins with the step
        and the party.
        """
        mine = self._names(self.rank)
        if error is None:
            for rank in [*self._under_way]:
                self._finish_sending(rank)
            if self._before is not None:  # after an error it stays, until that is written
                signal.signal(signal.SIGTERM, self._before)
        else:
            why = str(error) or type(error).__name__
            self._say_goodbye(f"{mine} stopped at step {self.step}: {why}"[:2000])
        dist.destroy_process_group(self._group)
        of_module = type(error) is ValueError and isinstance(error.__cause__, RuntimeError)
        if error is not None and (type(error) is RuntimeError or of_module):
            raise type(error)(
                f"step {self.step}, at {mine}: {error}. If shapes do not fit, the parties were "
                "built for different cut layers"
            ) from error

    def _say_goodbye(self, text: str) -> None:
        patience = timedelta(seconds=min(self.timeout, 2.0))
        sends: _Works = []
        for rank in set(self.ranks.values()) - {self.rank}:
            with suppress(PeerError):  # it may be gone already
                sends += self._post(rank, GOODBYE, text.encode())
        for work, _ in sends:
            with suppress(RuntimeError):
                work.wait(patience)

    def _greet(self, settings: Mapping[str, float | str]) -> None:
        """Compare versions, parties, codecs and settings with all other processes."""
        mine = {"fltoolkit": fltoolkit.__version__, "ranks": self.ranks}
        mine |= {"codecs": {kind: repr(codec) for kind, codec in self.codecs.items()}}
        mine = json.loads(json.dumps(mine | {"settings": dict(settings)}))
        for rank, theirs in self._exchange(mine, "a greeting").items():
            for what in mine:
                if theirs.get(what) != mine[what]:
                    raise PeerError(
                        f"step 0: {self._names(rank)} (process {rank}) has {what} "
                        f"{theirs.get(what)!r}, {self._names(self.rank)} (process {self.rank}) has "
                        f"{mine[what]!r}. Both must be the same"
                    )

    def _exchange(self, word: dict[str, Any], what: str) -> dict[int, dict[str, Any]]:
        """Send values to every process and receive theirs; returns {process number: values}."""
        others = [rank for rank in range(dist.get_world_size()) if rank != self.rank]
        payload = json.dumps(word).encode()
        sends = {rank: self._post(rank, WORD, payload) for rank in others}
        words = {self.rank: word}
        for rank in others:
            came, step, _, heard = self._get(rank, what)
            if came != WORD or step != self.step:
                raise PeerError(
                    f"step {self.step}, waiting for {what}: {self._names(rank)} is at step {step} "
                    "and does something else. All processes must do this after the same record"
                )
            words[rank] = json.loads(heard)
        for rank, works in sends.items():
            self._finish(works, rank, what)
        return words

    # ---- bytes to and from another process

    def _post(self, rank: int, what: int, payload: bytes, mark: int = 0) -> _Works:
        """Begin to send an envelope and its payload.

        Both go together if they fit into the receiver's buffer, which is a quarter longer than the
        longest message so far; else the receiver first asks for the payload, which takes another
        way there and back. gloo needs a buffer that is large enough, and may fill a part of it.
        """
        if len(payload) > MAX_NBYTES:
            raise ValueError(
                f"a message of {len(payload):,} bytes is too long: at most {MAX_NBYTES:,} are "
                "allowed"
            )
        envelope = _ENVELOPE.pack(MAGIC, what, self.step, mark, len(payload))
        envelope += _CRC.pack(zlib.crc32(envelope))
        room = self._room_there.get(rank, 0)
        self._room_there[rank] = max(room, _room_for(len(payload)))
        parts = [envelope + payload] if len(payload) <= room else [envelope, payload]
        self.nbytes_moved += sum(map(len, parts))
        return [self._start(dist.isend, _tensor(part), rank) for part in parts]

    def _get(self, rank: int, what: str) -> tuple[int, int, int, bytes]:
        """Wait for an envelope; returns what it holds, its step, its mark and its payload.

        The next message is asked for at once, before anything is computed or sent: else the asking
        would wait behind the bytes of our answer, and a link would carry one direction at a time.
        """
        room = self._room_here.get(rank, 0)
        coming = self._coming.pop(rank, None) or self._ask(rank, NBYTES_ENVELOPE + room)
        first = self._arrived(coming, rank, what)
        head = bytes(first[:NBYTES_ENVELOPE])
        envelope, (crc,) = head[: _ENVELOPE.size], _CRC.unpack(head[_ENVELOPE.size :])
        magic, came, step, mark, nbytes = _ENVELOPE.unpack(envelope)
        if magic != MAGIC or crc != zlib.crc32(envelope) or nbytes > MAX_NBYTES:
            raise PeerError(
                f"step {self.step}, waiting for {what}: process {rank} sent an envelope that is "
                f"damaged or of another version ({head.hex(' ', 4)})"
            )
        rest = first[NBYTES_ENVELOPE:]
        if nbytes > room:
            rest = self._arrived(self._ask(rank, nbytes), rank, what)
        self._room_here[rank] = max(room, _room_for(nbytes))
        with suppress(PeerError):  # this may have been its last message; else the next call raises
            self._coming[rank] = self._ask(rank, NBYTES_ENVELOPE + self._room_here[rank])
        payload = bytes(rest[:nbytes])
        if came == GOODBYE:
            raise PeerError(f"step {self.step}, waiting for {what}: {payload.decode()}")
        return came, step, mark, payload

    def _ask(self, rank: int, nbytes: int) -> tuple[Any, Tensor]:
        """Begin to receive at most ``nbytes`` bytes."""
        return self._start(dist.irecv, torch.empty(nbytes, dtype=torch.uint8), rank)

    def _arrived(self, coming: tuple[Any, Tensor], rank: int, what: str) -> Any:
        """Wait for what was asked for; the bytes, as an array."""
        self._finish([coming], rank, what)
        return coming[1].numpy()

    def _start(self, begin: Callable[..., Any], tensor: Tensor, rank: int) -> tuple[Any, Tensor]:
        """Begin to send or to receive; the tensor is returned too, since it must stay in memory."""
        try:
            return begin(tensor, rank, group=self._group), tensor
        except RuntimeError as error:
            raise self._lost(rank, "to reach it", error) from error

    def _finish(self, works: _Works, rank: int, what: str) -> None:
        try:
            for work, _ in works:
                work.wait(timedelta(seconds=self.timeout))
        except RuntimeError as error:
            raise self._lost(rank, what, error) from error

    def _finish_sending(self, rank: int) -> None:
        """Wait until the last message to a process was received.

        A sender need not wait for this before it continues; only its next message waits. So it soon
        receives again, and learns why the other process did not take the message.
        """
        self._finish(self._under_way.pop(rank, []), rank, "the last message to be taken")

    def _lost(self, rank: int, what: str, error: RuntimeError) -> PeerError:
        where = f"step {self.step}, waiting for {what}: {self._names(rank)} (process {rank})"
        if "imed out" in str(error) or "timeout" in str(error):
            return PeerError(
                f"{where} did not answer within {self.timeout:g} s: it has stopped, or the "
                "connection has. If it was only slow, give a longer timeout"
            )
        return PeerError(f"{where} is gone: it has ended, or the connection broke ({error})")

    def _names(self, rank: int) -> str:
        """The names of the parties in a process."""
        return " and ".join(repr(name) for name, r in self.ranks.items() if r == rank)


def _group(timeout: timedelta) -> Any:
    """A gloo group of all processes; a group that the script has made before is not disturbed."""
    try:
        if dist.is_initialized():
            return dist.new_group(backend="gloo", timeout=timeout)
        dist.init_process_group("gloo", timeout=timeout)
    except ValueError as error:  # no RANK, WORLD_SIZE, MASTER_ADDR or MASTER_PORT
        raise ValueError(
            f"{error}. Start all processes with torchrun, e.g. "
            "torchrun --nproc-per-node 2 examples/torchrun_split.py"
        ) from error
    except (RuntimeError, dist.DistError) as error:
        raise PeerError(
            f"step 0: the other processes did not come within {timeout.total_seconds():g} s: "
            f"{error}"
        ) from error
    return None


def _room_for(nbytes: int) -> int:
    """A buffer for this payload and a little longer ones: coded messages differ in length."""
    return nbytes + nbytes // 4


def _tensor(message: bytes) -> Tensor:
    """The bytes, copied into writable memory."""
    return torch.frombuffer(bytearray(message), dtype=torch.uint8)


def _emptied(tensor: Tensor) -> Tensor:
    """A stand-in for a tensor whose values are in another process: as many rows, no columns."""
    return tensor.new_empty((*tensor.shape[:1], 0))


def _arrow(link: Link) -> str:
    return f"{link[0]} -> {link[1]}, {link[2]}"


def _mark(link: Link) -> int:
    return zlib.crc32("|".join(link).encode())


def _saves(folder: Path) -> list[int]:
    """The steps of the complete saves in a folder, oldest first."""
    return sorted(int(path.parent.name) for path in folder.glob("*/step-*") if path.suffix == "")
