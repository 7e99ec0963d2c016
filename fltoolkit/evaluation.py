"""How good the whole network is: the view of the experimenter; nothing is sent or counted."""

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from fltoolkit.arrays import as_tensor
from fltoolkit.codecs.base import Codec
from fltoolkit.history import Scores
from fltoolkit.metrics import ACCURACY, Metric
from fltoolkit.party import (
    IGNORED,
    LossFn,
    Party,
    check_one_number,
    check_targets,
    counted_targets,
    in_mode,
    is_of_torch,
    setting_of,
)
from fltoolkit.shapes import Float, Shaped
from fltoolkit.split.vertical import concatenate

__all__ = ["evaluate", "forward"]


@torch.no_grad()
def forward(
    parties: Sequence[Party | Sequence[Party]],
    x: Shaped[Tensor, "batch ..."] | Sequence[Shaped[Tensor, "batch ..."]],
    *,
    through: Codec | None = None,
) -> Float[Tensor, "batch ..."]:
    """The output of the whole network. All parts are in evaluation mode and then restored.

    If x is a sequence, the data are vertical: one block of columns for each party but the last,
    whose activations are put side by side for it. The last one may be a chain, ``[bob, tail]``.
    With ``through``, the activations go through a fresh copy of that codec at each cut, as they
    would in use. For a network that was trained with `RandTopK`, give
    ``Pipeline(RandTopK(fraction, training=False))``.

    >>> model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 2))
    >>> alice, bob = Party("alice", model[:1]), Party("bob", model[1:])
    >>> x = torch.ones(3, 1)
    >>> torch.equal(forward([alice, bob], x), model(x))
    True
    """
    crossing = copy.deepcopy(through)

    def cross(h: Tensor) -> Tensor:
        return h if crossing is None else crossing.decode(crossing.encode({"h": h}))["h"]

    features = [party for party in parties[:-1] if isinstance(party, Party)]
    rest = [parties[-1]] if isinstance(parties[-1], Party) else [*parties[-1]]
    with in_mode(False, *(party.module for party in (*features, *rest))):
        if isinstance(x, Tensor):
            h, rest = x, [*features, *rest]
        else:
            blocks = zip(features, x, strict=True)
            hs = [cross(party.module(block.to(party.device))) for party, block in blocks]
            h = concatenate([each.to(rest[0].device) for each in hs])
        for number, party in enumerate(rest):
            h = party.module((cross(h) if number else h).to(party.device))
        return h


Network = Sequence[Party | Sequence[Party]] | Party | nn.Module


@overload
def evaluate(
    parties: Network, x: Any, y: Any = None, *, through: Codec | None = None, batch_size: int = 1000
) -> Scores: ...
@overload
def evaluate(
    parties: Network,
    x: Any,
    y: Any = None,
    *,
    metric: Metric,
    through: Codec | None = None,
    batch_size: int = 1000,
) -> dict[str, float]: ...
def evaluate(
    parties: Network,
    x: Any,
    y: Any = None,
    *,
    metric: Metric = ACCURACY,
    through: Codec | None = None,
    batch_size: int = 1000,
) -> Scores | dict[str, float]:
    """``{"test_loss": ..., "accuracy": ...}`` on data that were not used for training.

    The second entry has the name of ``metric``. Both are over all predictions, however the samples
    are cut into batches: one prediction for each sample or, with targets [samples, ...], one for
    each target. Class numbers that the loss ignores (by default -100) are not counted, in neither.

    Args:
        parties: the chain, whose last party has the ``loss_fn``. Of a plain module only the metric
            is measured.
        x: inputs [samples, ...] of any type and shape, or one block for each party but the last:
            tensors, arrays or tables. Or, without ``y``, a torch `Dataset` or batches ``(x, y)``,
            such as a `DataLoader`.
        y: targets [samples, ...], as ``loss_fn`` takes them.
        metric: what to measure besides the loss.
        through: a codec at each cut; see `forward`.
        batch_size: how many samples go through the network at once, which limits the memory. A loss
            that is not one of torch's own gets the outputs of all samples at once.

    Raises ValueError if outputs and targets do not fit the metric or each other, and
    FloatingPointError if the loss or the metric is NaN or infinite.

    >>> bob = Party("bob", nn.LogSoftmax(dim=1), loss_fn=nn.NLLLoss())
    >>> x = torch.tensor([[5.0, 0.0], [5.0, 0.0], [0.0, 5.0], [0.0, 5.0]])
    >>> evaluate([bob], x, torch.tensor([0, 0, 1, 0]))["accuracy"]
    0.75
    """
    if isinstance(parties, nn.Module):
        parties, loss_fn = [Party("model", parties)], None
    else:
        parties = [parties] if isinstance(parties, Party) else parties
        last = parties[-1] if isinstance(parties[-1], Party) else parties[-1][-1]
        if (loss_fn := last.loss_fn) is None:
            raise ValueError(f"party {last.name!r} is last and has no loss_fn: give it one")
    loss = weight = total = 0.0
    count = 0
    kept: list[tuple[Tensor, Tensor]] = []  # for what needs all outputs at once
    at_once = loss_fn is not None and not is_of_torch(loss_fn)
    for block, targets in _batches(x, y, batch_size):
        output = forward(parties, block, through=through)
        targets = targets.to(output.device)
        check_targets(output, targets)
        counted = counted_targets(loss_fn, targets)
        if not bool(counted.any()):
            continue
        if loss_fn is not None and not at_once:
            value = loss_fn(output, targets)
            check_one_number(loss_fn, value)
            here = _weight_of(loss_fn, targets, counted)
            loss += float(value) * (1.0 if setting_of(loss_fn, "reduction") == "sum" else here)
            weight += here
        if at_once or metric.of_all is not None:
            kept.append((output, targets))
        if metric.measure is not None:
            named = targets if bool(counted.all()) else torch.where(counted, targets, IGNORED)
            of_batch, predictions = metric.measure(output, named)
            total, count = total + of_batch, count + predictions
    if not (count if metric.measure is not None else weight or kept):
        raise ValueError("nothing to evaluate: no samples, or only targets that are ignored")
    record: dict[str, float] = {}
    if kept:
        outputs, everything = map(torch.cat, zip(*kept, strict=True))
    if at_once and loss_fn is not None:
        check_one_number(loss_fn, value := loss_fn(outputs, everything))
        record["test_loss"] = float(value)
    elif loss_fn is not None:
        record["test_loss"] = loss / weight
    if metric.measure is not None:
        record[metric.name] = metric.of_mean(total / count)
    if metric.of_all is not None:
        counted = counted_targets(loss_fn, everything)
        if not bool(counted.all()):  # as [predictions, classes], without those that do not count
            outputs, everything = outputs.movedim(1, -1)[counted], everything[counted]
        classes = getattr(metric.of_all, "num_classes", None)
        if classes is not None and outputs.shape[1:2] != (classes,):  # it would count nonsense
            raise ValueError(
                f"metric {metric.name!r} is for {classes} classes, and the network's outputs are "
                f"{list(outputs.shape)}: one logit for two classes needs a binary metric"
            )
        record[metric.name] = float(metric.of_all(outputs.float().cpu(), everything.cpu()))
    for name, number in record.items():
        if not math.isfinite(float(number)):
            raise FloatingPointError(
                f"the {name.replace('_', ' ')} is {number}: the model has diverged, or the test "
                "data hold NaN"
            )
    return record


def _batches(x: Any, y: Any, batch_size: int) -> Iterator[tuple[Any, Tensor]]:
    """Inputs and targets of the batches, as tensors."""
    if y is None:
        if isinstance(x, Dataset):
            x = DataLoader(x, batch_size)
        if isinstance(x, Tensor) or not isinstance(x, Iterable):
            raise ValueError("y is missing: give the targets, or batches (x, y) such as a loader")
        for features, labels in x:
            yield features, as_tensor("y", labels)
        return
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size}: evaluate 1 sample or more at a time")
    vertical = isinstance(x, list | tuple)
    blocks = [as_tensor("x", part) for part in (x if vertical else [x])]
    y = as_tensor("y", y)
    for features in blocks:
        if len(features) != len(y):
            raise ValueError(f"{len(features)} samples and {len(y)} labels: need one each")
    for start in range(0, len(y), batch_size):
        rows = slice(start, start + batch_size)
        parts = [part[rows] for part in blocks]
        yield parts if vertical else parts[0], y[rows]


def _weight_of(loss_fn: LossFn, y: Tensor, counted: Tensor) -> float:
    """What the loss of a batch was divided by: its samples, its targets, or their class weights."""
    weights = setting_of(loss_fn, "weight")
    if y.is_floating_point() or y.dtype == torch.bool:
        return float(len(y))
    if isinstance(weights, Tensor) and setting_of(loss_fn, "reduction") != "sum":
        return float(weights.to(y.device)[y[counted]].double().sum())
    return float(counted.sum())
