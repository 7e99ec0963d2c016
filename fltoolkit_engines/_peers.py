"""The processes of a run over torch.distributed, and the envelopes between them.

Here: bytes to and from another process, and the errors when one has ended.

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
import struct
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

MAGIC = b"FLT1"
MESSAGE, WORD, GOODBYE = range(3)
_ENVELOPE = struct.Struct("<4sB3xIIQ")
NBYTES_ENVELOPE = _ENVELOPE.size + 4
MAX_NBYTES = 2**30  # of one message, so that another process cannot make this one use all memory

_Works = list[tuple[Any, Tensor]]  # transfers that have begun, and the memory they use


class PeerError(ConnectionError):
    """Another process has ended, has stopped answering, or has different settings."""


class Peers:
    """The processes of a run, and this process's envelopes to and from the others.

    Args:
        ranks: the process number of each party; several parties may share one process.
        timeout: seconds, for every single wait.
        step: returns the current step, which is in each envelope and each error.

    Raises:
        ValueError: this process was not started with torchrun, or a process has no party.
        torch.distributed.DistError: the other processes do not connect.

    Attributes:
        rank: the number of this process.
        nbytes_moved: the bytes that this process gave torch.distributed to send.
    """

    def __init__(self, ranks: Mapping[str, int], timeout: float, step: Callable[[], int]):
        self.ranks, self.timeout, self._step = dict(ranks), timeout, step
        self.nbytes_moved = 0
        self._under_way: dict[int, _Works] = {}  # the last message to each process
        self._room_there: dict[int, int] = {}  # the payload that fits into each process's buffer
        self._coming: dict[int, tuple[Any, Tensor]] = {}  # asked for, from each process
        self._room_here: dict[int, int] = {}  # and into ours, from each process; both ends agree
        self._group: Any = None  # the script's own group, if it has made one, is not disturbed
        if dist.is_initialized():
            self._group = dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout))
        else:
            dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))
        self.rank = dist.get_rank()
        if set(self.ranks.values()) != set(range(dist.get_world_size())):
            raise ValueError(
                f"ranks={self.ranks}: there are {dist.get_world_size()} processes, and each needs "
                "a party. With torchrun, --nproc-per-node times --nnodes is their number"
            )

    def send(self, rank: int, message: bytes, mark: int) -> None:
        """Begin to send a message, as soon as the last one to this process was received."""
        self._finish_sending(rank)
        self._under_way[rank] = self._post(rank, MESSAGE, message, mark)

    def get(self, rank: int, what: str) -> tuple[int, int, int, bytes]:
        """Wait for an envelope; returns what it holds, its step, its mark and its payload.

        Receiving the next message begins at once. Otherwise its request would wait behind the bytes
        of this process's answer, and a link would carry one direction at a time.
        """
        room = self._room_here.get(rank, 0)
        coming = self._coming.pop(rank, None) or self._ask(rank, NBYTES_ENVELOPE + room)
        first = self._arrived(coming, rank, what)
        head = bytes(first[:NBYTES_ENVELOPE])
        magic, came, step, mark, nbytes = _ENVELOPE.unpack(head[:-4])
        if magic != MAGIC or head[-4:] != _checksum(head[:-4]) or nbytes > MAX_NBYTES:
            raise PeerError(
                f"step {self._step()}, waiting for {what}: process {rank} sent an envelope that is "
                f"damaged or of another version ({head.hex(' ', 4)})"
            )
        rest = first[NBYTES_ENVELOPE:]
        if nbytes > room:
            rest = self._arrived(self._ask(rank, nbytes), rank, what)
        self._room_here[rank] = max(room, _room_for(nbytes))
        with suppress(PeerError):  # after its last message; otherwise the next call raises
            self._coming[rank] = self._ask(rank, NBYTES_ENVELOPE + self._room_here[rank])
        payload = bytes(rest[:nbytes])
        if came == GOODBYE:
            words = payload[:2000].decode(errors="replace")
            raise PeerError(f"step {self._step()}, waiting for {what}: {words}")
        return came, step, mark, payload

    def exchange(self, word: dict[str, Any], what: str) -> dict[int, dict[str, Any]]:
        """Send values to every process and receive theirs; returns {process number: values}."""
        others = [rank for rank in range(dist.get_world_size()) if rank != self.rank]
        payload = json.dumps(word).encode()
        sends = {rank: self._post(rank, WORD, payload) for rank in others}
        words = {self.rank: word}
        for rank in others:
            came, step, _, values = self.get(rank, what)
            if came != WORD or step != self._step():
                raise PeerError(
                    f"step {self._step()}, waiting for {what}: {self.names(rank)} is at step "
                    f"{step} and does something else. All processes must do this after the same "
                    "record"
                )
            try:
                words[rank] = {**json.loads(values)}
            except (ValueError, TypeError, RecursionError) as error:
                raise PeerError(
                    f"step {self._step()}, waiting for {what}: {self.names(rank)} (process {rank}) "
                    f"sent values that cannot be read: {error}"
                ) from error
        for rank, works in sends.items():
            self._finish(works, rank, what)
        return words

    def close(self, last_words: str | None) -> None:
        """Leave the group when all is received, or after an error, whose text the others get."""
        if last_words is None:
            for rank in [*self._under_way]:
                self._finish_sending(rank)
        else:
            sends: _Works = []
            for rank in set(self.ranks.values()) - {self.rank}:
                with suppress(PeerError):  # it may be gone already
                    sends += self._post(rank, GOODBYE, last_words.encode())
            for work, _ in sends:
                with suppress(RuntimeError):
                    work.wait(timedelta(seconds=min(self.timeout, 2.0)))
        dist.destroy_process_group(self._group)

    def names(self, rank: int) -> str:
        """The names of the parties in a process."""
        return " and ".join(repr(name) for name, r in self.ranks.items() if r == rank)

    def _post(self, rank: int, what: int, payload: bytes, mark: int = 0) -> _Works:
        """Begin to send an envelope and its payload.

        Both go together if they fit into the receiver's buffer, which is a quarter longer than the
        longest message so far. Otherwise the receiver first requests the payload, which takes
        another round trip: gloo needs a buffer that is large enough.
        """
        envelope = _ENVELOPE.pack(MAGIC, what, self._step(), mark, len(payload))
        envelope += _checksum(envelope)
        room = self._room_there.get(rank, 0)
        self._room_there[rank] = max(room, _room_for(len(payload)))
        parts = [envelope + payload] if len(payload) <= room else [envelope, payload]
        self.nbytes_moved += sum(map(len, parts))
        copies = [torch.frombuffer(bytearray(part), dtype=torch.uint8) for part in parts]
        return [self._start(dist.isend, copy, rank) for copy in copies]

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
        """Wait until the last message to a process was received, before the next is sent."""
        self._finish(self._under_way.pop(rank, []), rank, "the last message to be taken")

    def _lost(self, rank: int, what: str, error: RuntimeError) -> PeerError:
        where = f"step {self._step()}, waiting for {what}: {self.names(rank)} (process {rank})"
        if "imed out" in str(error) or "timeout" in str(error):
            return PeerError(
                f"{where} did not answer within {self.timeout:g} s: it has stopped, or the "
                "connection has. If it was only slow, give a longer timeout"
            )
        return PeerError(f"{where} is gone: it has ended, or the connection broke ({error})")


def _checksum(envelope: bytes) -> bytes:
    return zlib.crc32(envelope).to_bytes(4, "little")


def _room_for(nbytes: int) -> int:
    """A buffer for this payload and a little longer ones: coded messages differ in length."""
    return nbytes + nbytes // 4
