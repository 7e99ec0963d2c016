"""Which activations a client sends in A and B: all, those that changed, or their differences."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fltoolkit.channel import Channel
from fltoolkit.links import Link
from fltoolkit.shapes import Bool, Float, Int64
from fltoolkit.split.cache import ActivationCache


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

    >>> Upload(moved=-1)
    Traceback (most recent call last):
    ValueError: moved=-1: a relative distance, 0 or more
    """

    moved: float = 0.0  # larger = fewer bytes
    delta: bool = False

    def __post_init__(self) -> None:
        if not self.moved >= 0:
            raise ValueError(f"moved={self.moved}: a relative distance, 0 or more")


class CutMemory(NamedTuple):
    """What the two ends of one client's cut remember, and what she sends."""

    cache: ActivationCache  # at the label party, for all clients
    mirror: ActivationCache | None = None  # the client's copy of her part; see `Upload`
    first: int = 0  # the id of the client's sample 0 in both
    upload: Upload = Upload()


def memories_of(
    sizes: Sequence[int], upload: Upload, cache: ActivationCache | None
) -> list[CutMemory]:
    """A memory for each client, with so many samples, around one cache; raises if it cannot fit."""
    *firsts, total = accumulate(sizes, initial=0)
    cache = ActivationCache(total) if cache is None else cache  # an empty one is falsy
    if cache.num_samples != total:
        raise ValueError(f"the cache is for {cache.num_samples:,} samples, clients have {total:,}")
    mirrored = upload.delta or upload.moved > 0
    return [
        CutMemory(cache, ActivationCache(total) if mirrored else None, first, upload)
        for first in firsts
    ]


def send_up(
    link: Link,
    h: Float[Tensor, "batch ..."],
    keys: Int64[Tensor, " batch"],
    channel: Channel,
    memory: CutMemory,
) -> tuple[Float[Tensor, "batch ..."], Bool[Tensor, " batch"]]:
    """Send as `Upload` says; return the activations for Bob to use, and which rows were sent."""
    cache, mirror, _, upload = memory
    sent = came = torch.ones(len(keys), dtype=torch.bool)
    if mirror is None:
        return channel.send(*link, {"h": h})["h"], sent
    # Alice compares with the activations that Bob holds
    known, held = _held(mirror, keys, h)
    h = h.cpu()
    tree = {}
    if upload.moved > 0:
        far = (h - held).flatten(1).norm(dim=1) > upload.moved * held.flatten(1).norm(dim=1)
        sent = far | ~known
        tree["rows"] = torch.from_numpy(np.packbits(sent.numpy()))
    tree["h"] = (h - held if upload.delta else h)[sent]
    received = channel.send(*link, tree)
    # Bob combines what he received and what he holds
    _, held = _held(cache, keys, h)
    if "rows" in received:
        came = torch.from_numpy(np.unpackbits(received["rows"].numpy(), count=len(keys))).bool()
    fresh = held[came] + received["h"] if upload.delta else received["h"]
    h = held.index_put((came,), fresh)
    # Alice decodes her own message, too, so she knows what Bob holds
    mirror.write(keys[sent], h[sent], torch.zeros(int(sent.sum())))
    return h, came


def _held(cache: ActivationCache, keys: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """Which samples a cache holds, and their activations; zeros for the others."""
    known, held = cache.has(keys), torch.zeros_like(like, device="cpu")
    if bool(known.any()):
        held[known] = cache.read(keys[known])[0]
    return known, held


def place(g: Float[Tensor, "sent ..."], sent: Bool[Tensor, " batch"]) -> Tensor:
    """Put the sent rows at their places; rows that were not sent become zeros."""
    return g if bool(sent.all()) else g.new_zeros(len(sent), *g.shape[1:]).index_put((sent,), g)
