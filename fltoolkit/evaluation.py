"""How good the whole network is: the view of the experimenter; nothing is sent or counted.

Not here: training (the rooms split and federated), the pictures of results (plots).
"""

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fltoolkit.codecs.base import Codec
from fltoolkit.history import Record
from fltoolkit.metrics import ACCURACY, Metric
from fltoolkit.party import LossFn, Party, check_one_number, check_targets, in_mode
from fltoolkit.shapes import Float, Shaped
from fltoolkit.split.vertical import concatenate

__all__ = ["evaluate", "forward"]


@torch.no_grad()
def forward(
    parties: Sequence[Party],
    x: Shaped[Tensor, "batch ..."] | Sequence[Shaped[Tensor, "batch ..."]],
    *,
    through: Codec | None = None,
) -> Float[Tensor, "batch ..."]:
    """The output of the whole network. All parts are in evaluation mode and then restored.

    If x is a sequence, the data are vertical: one block of columns for each party but the last,
    whose activations are put side by side.
    With ``through``, the activations go through a fresh copy of that codec at each cut, as they
    would in use. For a network that was trained with `RandTopK`, give
    ``Pipeline(RandTopK(fraction, training=False))``.

    >>> from torch import nn
    >>> model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 2))
    >>> alice, bob = Party("alice", model[:1]), Party("bob", model[1:])
    >>> x = torch.ones(3, 1)
    >>> torch.equal(forward([alice, bob], x), model(x))
    True
    """
    crossing = copy.deepcopy(through)

    def cross(h: Tensor) -> Tensor:
        return h if crossing is None else crossing.decode(crossing.encode({"h": h}))["h"]

    with in_mode(False, *(party.module for party in parties)):
        if isinstance(x, Tensor):
            h = x
            for number, party in enumerate(parties):
                h = party.module((cross(h) if number else h).to(party.device))
            return h
        features = zip(parties[:-1], x, strict=True)
        hs = [cross(party.module(block.to(party.device))) for party, block in features]
        output: Tensor = parties[-1].module(concatenate([h.to(parties[-1].device) for h in hs]))
        return output


def evaluate(
    parties: Sequence[Party],
    x: Shaped[Tensor, "samples ..."] | Sequence[Shaped[Tensor, "samples ..."]],
    y: Shaped[Tensor, "samples ..."],
    *,
    metric: Metric = ACCURACY,
    through: Codec | None = None,
    batch_size: int = 1000,
) -> Record:
    """``{"test_loss": ..., "accuracy": ...}`` on data that were not used for training.

    The second entry has the name of ``metric``. Both are means over all predictions: one prediction
    for each sample or, with targets [samples, ...], one for each target. Class numbers that the
    loss ignores (by default -100) are not counted.

    Args:
        parties: the chain; the last one has the ``loss_fn``.
        x: inputs of any type and shape, or one block for each party but the last.
        y: targets, as ``loss_fn`` takes them.
        metric: what to measure besides the loss.
        through: a codec at each cut; see `forward`.
        batch_size: how many samples go through the network at once, which limits the memory.

    Raises ValueError if outputs and targets do not fit the metric or each other, and
    FloatingPointError if the loss or the metric is NaN or infinite.

    >>> from torch import nn
    >>> bob = Party("bob", nn.LogSoftmax(dim=1), loss_fn=nn.NLLLoss())
    >>> x = torch.tensor([[5.0, 0.0], [5.0, 0.0], [0.0, 5.0], [0.0, 5.0]])
    >>> evaluate([bob], x, torch.tensor([0, 0, 1, 0]))["accuracy"]
    0.75
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
    loss = total = 0.0
    num_targets = count = 0
    everything: list[tuple[Tensor, Tensor]] = []
    for start in range(0, len(y), batch_size):
        rows = slice(start, start + batch_size)
        block = x[rows] if isinstance(x, Tensor) else [part[rows] for part in x]
        output = forward(parties, block, through=through)
        targets = y[rows].to(output.device)
        check_targets(output, targets)
        if not (here := _num_targets(loss_fn, targets)):
            continue
        mean = loss_fn(output, targets)
        check_one_number(loss_fn, mean)
        loss += float(mean) * here
        num_targets += here
        if metric.of_all is not None:
            everything.append((output.cpu(), targets.cpu()))
        if metric.measure is not None:
            of_batch, number = metric.measure(output, targets)
            total, count = total + of_batch, count + number
    if not num_targets or (metric.measure is not None and not count):
        raise ValueError("nothing to evaluate: all targets are among those that are ignored")
    record: Record = {"test_loss": loss / num_targets}
    if metric.measure is not None:
        record[metric.name] = metric.of_mean(total / count)
    if metric.of_all is not None:
        outputs, all_targets = map(torch.cat, zip(*everything, strict=True))
        record[metric.name] = float(metric.of_all(outputs.float(), all_targets))
    for name, value in record.items():
        if not math.isfinite(float(value)):
            raise FloatingPointError(
                f"the {name.replace('_', ' ')} is {value}: the model has diverged, or the test "
                "data hold NaN"
            )
    return record


def _num_targets(loss_fn: LossFn, y: Tensor) -> int:
    """The number of samples, or of class numbers that the loss does not ignore."""
    if y.is_floating_point() or y.dtype == torch.bool:
        return len(y)
    return int((y != getattr(loss_fn, "ignore_index", -100)).sum())
