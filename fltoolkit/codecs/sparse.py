"""Sparsification: send few of the values and say which: top-k.

Here: `TopK`, and what all sparse stages share.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fltoolkit.arrays import Array
from fltoolkit.codecs.places import Shape, densify, largest, put_back, received_places, sparsify
from fltoolkit.codecs.stage import Parts, Stage
from fltoolkit.trees import Tree


def num_kept(fraction: float, n: int) -> int:
    """k: how many of n values are kept; at least one.

    >>> num_kept(0.01, 1000), num_kept(0.01, 5)
    (10, 1)
    """
    return max(1, round(fraction * n))


class Sparse(Stage):
    """The common part of sparse stages: decoding, and the masks of what was sent."""

    fraction: float
    scope = "model"

    def __post_init__(self) -> None:
        if isinstance(self.fraction, int):
            raise ValueError(
                f"fraction={self.fraction!r} is a whole number: write 0.01 to keep one per cent, "
                "or 1.0 to keep all"
            )
        if not 0 < self.fraction <= 1:
            raise ValueError(f"fraction={self.fraction}: the share to keep, above 0 and at most 1")
        if self.scope not in ("model", "tensor"):
            raise ValueError(f"scope={self.scope!r}: 'model' (all together) or 'tensor' (each)")

    @property
    def leaves_out(self) -> bool:  # type: ignore[override]
        """Whether values that are not sent arrive as zeros: not if all are kept."""
        return self.fraction < 1

    def undo(self, parts: Parts) -> Parts:
        """Tensors of zeros, with the values that were sent at their places."""
        return densify(self._restore(parts), self.scope, self._allowed)

    def masks(self, parts: Parts, later: Tree) -> Tree:
        """Which coordinates were sent; see `Pipeline.masks`."""
        masks: Tree = {}
        received = received_places(self._restore(parts), self.scope, self._allowed)
        for name, (shapes, places) in received.items():
            kept = later[name].numpy() if name in later else np.ones(len(places), bool)
            masks.update(put_back(kept, places, shapes))
        return masks

    def _restore(self, parts: Parts) -> Parts:
        """Restore values, places and layout. A stage that sends something else overrides this."""
        return parts

    def _allowed(self, shapes: Sequence[Shape]) -> set[int]:
        """How many values may have been kept of tensors with these shapes."""
        return {num_kept(self.fraction, sum(map(math.prod, shapes)))}


@dataclass
class TopK(Sparse):
    """Keep the values of largest magnitude, with their sign; the others arrive as zeros.

    Of n values, k = round(fraction * n) are kept, and at least 1. With scope "model", n counts the
    values of all tensors together; with scope "tensor", each tensor is treated alone. Of values
    with equal magnitude, those that come first are kept. To send later what is lost now, wrap the
    pipeline in `ErrorFeedback`.

    Source: Aji and Heafield 2017, arXiv 1704.05021; Stich et al. 2018, arXiv 1809.07599.

    >>> TopK(0.5).apply({"w": torch.tensor([[1.0, -3.0], [0.0, 2.0]])})["*"]
    tensor([-3.,  2.])
    """

    fraction: float  # larger = less compression
    scope: str = "model"

    def apply(self, parts: Parts) -> Parts:
        """Return values, places and layout."""

        def choose(tensors: list[Tensor], n: int) -> tuple[Array, Array]:
            return largest(tensors, num_kept(self.fraction, n))

        return sparsify(parts, self.scope, choose)


@dataclass
class PlainTopK(TopK):
    """`TopK` as its formula: it sorts all values, and sends the same bytes.

    >>> PlainTopK(0.5).apply({"w": torch.tensor([[1.0, -3.0], [0.0, 2.0]])})["*"]
    tensor([-3.,  2.])
    """

    def apply(self, parts: Parts) -> Parts:
        """Return values, places and layout."""

        def choose(tensors: list[Tensor], n: int) -> tuple[Array, Array]:
            x = torch.cat([tensor.detach().flatten() for tensor in tensors])
            order = x.abs().argsort(descending=True, stable=True)  # of equal values the first
            places = order[: num_kept(self.fraction, n)].sort().values
            return places.numpy(), x[places].numpy()

        return sparsify(parts, self.scope, choose)
