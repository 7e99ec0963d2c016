"""Which activations a client sends in state A: all, those that changed, or their differences.

Not here: when a client sends at all (gates.py), who stores what came (cache.py).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64
from torch import Tensor

from fltoolkit.channel import Channel
from fltoolkit.party import Party
from fltoolkit.split.cache import ActivationCache

__all__ = ["Memory", "Upload"]


class Memory(NamedTuple):
    """What the two ends of one client's cut remember.

    >>> memory = Memory(ActivationCache(num_samples=8))
    >>> memory.cache.has(torch.tensor([3])), memory.mirror
    (tensor([False]), None)
    """

    cache: ActivationCache  # at the label party, for all clients
    mirror: ActivationCache | None = None  # the client's copy of her part; see `Upload`
    first: int = 0  # the id of the client's sample 0 in both


@dataclass(frozen=True)
class Upload:
    """Which activations of a batch are sent in the states A and B.

    - ``Upload()``: all rows, as in the paper.
    - ``Upload(moved=0.1)``: a row is sent only if it is new, or if it has changed by more than 10 %
      of its Euclidean length since it was last sent. One bit for each row says which rows are sent.
      The label party takes the other rows from its cache, and in state A only the gradient of the
      sent rows comes back. The idea is that of SplitCom 2026, arXiv 2602.10564.
    - ``Upload(delta=True)``: the difference to the activations that the label party holds already.
      Its numbers are smaller, so a codec loses less; without a codec this saves nothing.

    The last two need memory at the client: a copy of the label party's cache.

    >>> Upload(moved=0.1)
    Upload(moved=0.1, delta=False)
    >>> Upload(moved=-1)
    Traceback (most recent call last):
    ValueError: moved=-1: a relative distance, 0 or more
    """

    moved: float = 0.0  # larger = fewer bytes
    delta: bool = False

    def __post_init__(self) -> None:
        if not self.moved >= 0:
            raise ValueError(f"moved={self.moved}: a relative distance, 0 or more")


def send_up(
    alice: Party,
    bob: Party,
    h: Float32[Tensor, "batch ..."],
    keys: Int64[Tensor, " batch"],
    channel: Channel,
    memory: Memory,
    upload: Upload,
) -> tuple[Float32[Tensor, "batch ..."], Bool[Tensor, " batch"]]:
    """Send as `Upload` says; return the activations for Bob to use, and which rows were sent."""
    cache, mirror, _ = memory
    everything = torch.ones(len(keys), dtype=torch.bool)
    if mirror is None:
        return channel.send(alice.name, bob.name, "activations", {"h": h})["h"], everything
    # Alice compares with the activations that Bob holds
    known, held = mirror.has(keys), torch.zeros_like(h, device="cpu")
    held[known] = mirror.read(keys[known])[0] if bool(known.any()) else held[known]
    h = h.cpu()
    tree = {}
    sent = everything
    if upload.moved > 0:
        far = (h - held).flatten(1).norm(dim=1) > upload.moved * held.flatten(1).norm(dim=1)
        sent = far | ~known
        tree["rows"] = torch.from_numpy(np.packbits(sent.numpy()))
    tree["h"] = (h - held if upload.delta else h)[sent]
    received = channel.send(alice.name, bob.name, "activations", tree)
    # Bob combines what he received and what he holds
    held = torch.zeros_like(h)
    known = cache.has(keys)
    held[known] = cache.read(keys[known])[0] if bool(known.any()) else held[known]
    came = everything
    if "rows" in received:
        came = torch.from_numpy(np.unpackbits(received["rows"].numpy(), count=len(keys))).bool()
    fresh = held[came] + received["h"] if upload.delta else received["h"]
    h = held.index_put((came,), fresh)
    # Alice decodes her own message, too, so she knows what Bob holds
    mirror.write(keys[sent], h[sent], torch.zeros(int(sent.sum())))
    return h, came


def place(g: Float32[Tensor, "sent ..."], sent: Bool[Tensor, " batch"]) -> Tensor:
    """Put the sent rows at their places; rows that were not sent become zeros."""
    return g if bool(sent.all()) else g.new_zeros(len(sent), *g.shape[1:]).index_put((sent,), g)
