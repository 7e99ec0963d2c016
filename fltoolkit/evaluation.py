"""How good the whole network is: the experimenter's view, in which nothing is sent or counted.

Not here: training (the rooms split and federated), the pictures of results (plots).
"""

import copy
import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from fltoolkit.codecs.base import Codec
from fltoolkit.history import Record
from fltoolkit.party import Party
from fltoolkit.split.vertical import Merge, concatenate

__all__ = ["evaluate", "predict"]


@torch.no_grad()
def predict(
    parties: Sequence[Party],
    x: Shaped[Tensor, "batch ..."] | Sequence[Shaped[Tensor, "batch ..."]],
    *,
    merge: Merge = concatenate,
    through: Codec | None = None,
) -> Float[Tensor, "batch ..."]:
    """The whole network's output, all parts in evaluation mode and then back in their own.

    The experimenter's view and no protocol: nothing is sent, nothing counted, nothing learned.
    A sequence of x is vertical data: one block for each party but the last. With ``through``,
    activations pass a fresh copy of that codec at each cut, as they would in use: for a network
    trained with `RandTopK` that is ``Pipeline(RandTopK(fraction, training=False))``.
    """
    crossing = copy.deepcopy(through)

    def cross(h: Tensor) -> Tensor:
        return h if crossing is None else crossing.decode(crossing.encode({"h": h}))["h"]

    modules = [m for party in parties for m in party.module.modules()]
    modes = [module.training for module in modules]
    try:
        for party in parties:
            party.module.eval()
        if isinstance(x, Tensor):
            h = x
            for number, party in enumerate(parties):
                h = party.module((cross(h) if number else h).to(party.device))
            return h
        features = zip(parties[:-1], x, strict=True)
        hs = [cross(party.module(block.to(party.device))) for party, block in features]
        output: Tensor = parties[-1].module(merge([h.to(parties[-1].device) for h in hs]))
        return output
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


def evaluate(
    parties: Sequence[Party],
    x: Shaped[Tensor, "samples ..."] | Sequence[Shaped[Tensor, "samples ..."]],
    y: Int[Tensor, " samples"],
    *,
    merge: Merge = concatenate,
    through: Codec | None = None,
    batch_size: int = 1000,
) -> Record:
    """``{"test_loss": ..., "accuracy": fraction right}`` on data not trained on; see `predict`.

    Both are means over samples; ``batch_size`` only bounds the memory this takes. Raises
    FloatingPointError if the loss is NaN or infinite.
    """
    if (loss_fn := parties[-1].loss_fn) is None:
        raise ValueError(f"party {parties[-1].name!r} comes last and has no loss_fn: give it one")
    if not len(y):
        raise ValueError("no samples to evaluate: y is empty")
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size}: evaluate 1 sample or more at a time")
    for features in [x] if isinstance(x, Tensor) else x:
        if len(features) != len(y):
            raise ValueError(f"{len(features)} samples and {len(y)} labels: need one each")
    loss = right = 0.0
    for start in range(0, len(y), batch_size):
        rows = slice(start, start + batch_size)
        block = x[rows] if isinstance(x, Tensor) else [part[rows] for part in x]
        output = predict(parties, block, merge=merge, through=through)
        labels = y[rows].to(output.device)
        loss += float(loss_fn(output, labels)) * len(labels)
        right += float((output.argmax(dim=1) == labels).sum())
    if not math.isfinite(loss):
        raise FloatingPointError(
            f"the test loss is {loss}: the model has diverged, or the test data hold NaN"
        )
    return {"test_loss": loss / len(y), "accuracy": right / len(y)}
