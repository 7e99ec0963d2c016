"""Trees: flat dictionaries of tensors, as `state_dict` gives them, and their arithmetic."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["Tree", "dense_nbytes", "masked_mean", "weighted_mean"]

BLOCK = 1 << 14  # how many values are averaged at a time: they fit into the cache

Tree = dict[str, Tensor]
"""Names to tensors. Always flat: nesting is written into the name, as in ``"conv1.weight"``."""


def dense_nbytes(tree: Tree) -> int:
    """Bytes of the values alone, uncompressed and without any header.

    >>> dense_nbytes({"w": torch.zeros(64, 640), "y": torch.zeros(64, dtype=torch.int64)})
    164352
    """
    return sum([tensor.nbytes for tensor in tree.values()])


def as_vector(tree: Tree) -> Tensor:
    """All values of a tree as one vector, entry after entry; `from_vector` is the inverse."""
    return torch.cat([tensor.flatten() for tensor in tree.values()])


def from_vector(vector: Tensor, like: Tree) -> Tree:
    """The values of a vector in the shapes of a tree."""
    parts = vector.split([tensor.numel() for tensor in like.values()])
    return {n: part.view_as(t) for (n, t), part in zip(like.items(), parts, strict=True)}


def is_finite(values: Tensor) -> bool:
    """True if no value is NaN or infinite. The function tries the sum first, which is faster."""
    return math.isfinite(values.sum()) or bool(values.isfinite().all())


def check_finite(name: str, values: Tensor) -> None:
    """Raise ValueError if a value is NaN or infinite; the error names the entry."""
    if not is_finite(values):
        raise ValueError(
            f"entry {name!r} holds NaN or infinite values, which this codec cannot carry: has "
            "training diverged?"
        )


# in which a difference of whole numbers, or of a mask, has room
_WIDER = dict.fromkeys((torch.bool, torch.uint8, torch.int8), torch.int16)
_WIDER |= {torch.int16: torch.int32, torch.int32: torch.int64}


def difference(end: Tensor, start: Tensor) -> Tensor:
    """``end - start`` on the device of ``end``, in a dtype that holds it; masks are 0 and 1.

    >>> difference(torch.tensor([True, False]), torch.tensor([False, True]))
    tensor([ 1, -1], dtype=torch.int16)
    """
    wide = _WIDER.get(end.dtype, end.dtype)
    return end.to(wide) - start.to(end.device, wide)


def plus_difference(start: Tensor, delta: Tensor) -> Tensor:
    """``start`` plus a `difference`, or a mean of such, in the dtype of ``start``.

    >>> plus_difference(torch.tensor([True, False]), torch.tensor([-1, 0], dtype=torch.int16))
    tensor([False, False])
    """
    wide = _WIDER.get(start.dtype, start.dtype)
    return (start.to(wide) + delta.to(start.device, wide)).to(start.dtype)


def weighted_mean(trees: Sequence[Tree], weights: Sequence[float]) -> Tree:
    """``sum_k w_k tree_k / sum_k w_k``, entry by entry: the average of FedAvg.

    Source: McMahan et al. 2017, arXiv 1602.05629, algorithm 1, where w_k is the number of samples
    of client k. Sums are computed in float64 and in the given order. Integer entries, such as
    BatchNorm's ``num_batches_tracked``, are averaged and rounded.

    >>> weighted_mean([{"w": torch.tensor([0.0])}, {"w": torch.tensor([4.0])}], [3, 1])
    {'w': tensor([1.])}
    """
    if not trees or len(trees) != len(weights):
        raise ValueError(f"{len(trees)} trees and {len(weights)} weights: need one per tree")
    total = math.fsum(weights)
    if not total > 0 or min(weights) < 0 or not math.isfinite(total):
        raise ValueError(f"weights {list(weights)}: need finite weights >= 0, not all zero")
    for tree in trees[1:]:
        if tree.keys() != trees[0].keys():
            raise ValueError(f"the trees differ in names: {sorted(tree.keys() ^ trees[0].keys())}")
    return {name: _mean([t[name] for t in trees], weights, total) for name in trees[0]}


def masked_mean(trees: Sequence[Tree], masks: Sequence[Tree], weights: Sequence[float]) -> Tree:
    """The weighted mean of each coordinate over those who sent it; zero if nobody sent it.

    ``masks[k]`` says what sender k sent (see `Pipeline.masks`). Sums are computed in float64. A
    coordinate that only a few senders send changes as much as one that all of them send;
    `weighted_mean` counts a coordinate that was not sent as zero instead.

    >>> trees = [{"w": torch.tensor([4.0, 0.0])}, {"w": torch.tensor([0.0, 0.0])}]
    >>> masks = [{"w": torch.tensor([True, False])}, {"w": torch.tensor([False, False])}]
    >>> masked_mean(trees, masks, [1, 1])
    {'w': tensor([4., 0.])}
    """
    if len(masks) != len(trees):
        raise ValueError(f"{len(trees)} trees and {len(masks)} masks: need one each")
    mean = weighted_mean(trees, weights)
    for name in set().union(*masks):
        if name not in mean:
            raise ValueError(f"a mask for {name!r}, which is not in the trees: {sorted(mean)}")
        total = torch.zeros(mean[name].shape, dtype=torch.float64)
        weight = torch.zeros_like(total)
        for tree, mask, w in zip(trees, masks, weights, strict=True):
            sent = mask.get(name, torch.ones(total.shape, dtype=torch.bool))
            if sent.dtype != torch.bool or sent.shape != total.shape:
                raise ValueError(
                    f"the mask of {name!r} is {sent.dtype} {tuple(sent.shape)}: need "
                    f"torch.bool {tuple(total.shape)}"
                )
            total += (tree[name].double() * w).where(sent, 0)
            weight += sent * w
        mean[name] = (total / weight).where(weight > 0, 0).to(mean[name].dtype)
    return mean


def _mean(tensors: Sequence[Tensor], weights: Sequence[float], total: float) -> Tensor:
    """The weighted mean of one entry, block by block: large temporary tensors would take longer."""
    shape, dtype = tensors[0].shape, tensors[0].dtype
    for tensor in tensors:
        if tensor.shape != shape:
            raise ValueError(f"shapes {tuple(shape)} and {tuple(tensor.shape)} do not average")
    flat = [tensor.detach().cpu().reshape(-1) for tensor in tensors]
    mean = torch.empty(shape, dtype=dtype)
    out, memory = mean.view(-1), torch.empty(2, BLOCK, dtype=torch.float64)
    for start in range(0, len(out), BLOCK):
        here = out[start : start + BLOCK]
        block, wide = memory[0, : len(here)].zero_(), memory[1, : len(here)]
        for values, weight in zip(flat, weights, strict=True):
            block += wide.copy_(values[start : start + BLOCK]).mul_(weight / total)
        here.copy_(block if dtype.is_floating_point else block.round_())
    return mean.to(tensors[0].device)
