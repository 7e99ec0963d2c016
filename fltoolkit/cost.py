"""The cost of a method before it is run: client FLOPs and payload bytes, by formulas.

What a run really sends is counted by channel.py; a test holds that it is the payload of these
formulas plus headers. We derived the formulas ourselves; compare Singh et al. 2019 (arXiv
1909.09145).

Each method has an opponent that does not train together at all: the owners send their samples, once
and compressed, to one place. Training together sends fewer bytes than the data only if::

    rounds x (bytes of a round's messages)  <  samples x (compressed bytes of a sample)

See docs/send_the_data.md.
"""

import copy
import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from fltoolkit.trees import dense_nbytes

__all__ = [
    "Advice",
    "ModelCost",
    "advise",
    "federated_nbytes",
    "measure",
    "split_nbytes",
]


@dataclass(frozen=True)
class ModelCost:
    """A model and its cut in numbers, from `measure`, or written by hand.

    >>> mlp = ModelCost(189_450, 183_040, 757_800, 732_160, 640, 377_344, 364_544)
    >>> mlp.cut_width, round(mlp.num_parameters_client / mlp.num_parameters, 2)
    (640, 0.97)
    """

    num_parameters: int  # N
    num_parameters_client: int  # before the cut
    nbytes_model: int  # of its state_dict, which federated learning sends
    nbytes_bottom: int  # the same before the cut: what the clients of a relay pass on
    cut_width: int  # q: values that a sample sends; its gradient has as many
    flops_forward: int  # per sample; 2 FLOPs per multiply-accumulate
    flops_forward_client: int  # before the cut


@dataclass(frozen=True)
class MethodCost:
    """The cost of one method over a whole run, without the compute of the server."""

    name: str
    num_clients: int
    flops_per_client: float
    nbytes: int  # all clients, both directions

    @property
    def nbytes_per_client(self) -> float:
        """The total divided by the number of clients. A message between two clients counts once."""
        return self.nbytes / self.num_clients


@dataclass(frozen=True, repr=False)
class Advice:
    """Three methods side by side, from `advise`; a notebook shows this object as its `table`."""

    large_batch_sgd: MethodCost
    federated: MethodCost
    split: MethodCost
    crossover_clients: int | None  # split sends fewer bytes than federated from here on
    data: MethodCost | None = None  # of sending the samples; None without ``nbytes_per_sample``

    @property
    def methods(self) -> tuple[MethodCost, MethodCost, MethodCost]:
        """The three costs, in the order of the table."""
        return self.large_batch_sgd, self.federated, self.split

    @property
    def fewest_bytes(self) -> MethodCost:
        """The method that sends the fewest bytes; if two are equal, the first in the table."""
        return min(self.methods, key=lambda method: method.nbytes)

    def times_the_data(self, method: MethodCost) -> float | None:
        """The bytes of a method over those of all samples; None without ``nbytes_per_sample``."""
        return None if self.data is None else method.nbytes / self.data.nbytes

    @property
    def warning(self) -> str | None:
        """Which methods send more than the data, in words; None if none does, or it is unknown."""
        dearer = [m for m in self.methods if (self.times_the_data(m) or 0) > 1]
        if self.data is None or not dearer:
            return None
        factors = [f"{m.name} {_factor(m.nbytes / self.data.nbytes)} times" for m in dearer]
        return (
            f"Warning: sending the data costs {_si(self.data.nbytes, 'B')}. More than that sends "
            f"{', '.join(factors)}. What these bytes buy is that the samples stay at home; "
            "docs/send_the_data.md says how much of them does."
        )

    def table(self) -> str:
        """A text table: client compute, bytes per client, bytes in total, and the crossover.

        With ``nbytes_per_sample`` the data are a row, each method has a column "times the data",
        and a `warning` is the last line.
        """
        row = "{:<20}{:>16}{:>18}{:>14}{}  {}"
        head = "  times the data" if self.data else ""
        rows = [*self.methods, self.data] if self.data else [*self.methods]
        lines = [
            row.format("method", "client compute", "bytes per client", "bytes total", head, "")
        ]
        for method in rows:
            flops = _si(method.flops_per_client, "FLOP")
            nbytes = _si(method.nbytes_per_client, "B"), _si(method.nbytes, "B")
            mark = "fewest" if method is self.fewest_bytes else ""
            times = self.times_the_data(method)
            column = "" if times is None else f"{_factor(times):>16}"
            lines.append(row.format(method.name, flops, *nbytes, column, mark))
        start = self.crossover_clients
        when = "for no number of clients" if start is None else f"from {start:,} clients on"
        lines.append(f"Split sends fewer bytes than federated {when}.")
        lines += [self.warning] if self.warning else []
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = table


def measure(
    model: nn.Sequential,
    input_shape: tuple[int, ...],
    cut: int,
    *,
    input_dtype: torch.dtype | None = None,
) -> ModelCost:
    """Count parameters, bytes and FLOPs of ``model`` before and after ``cut``.

    ``input_shape`` is the shape of one sample, without the batch. ``input_dtype`` is by default the
    dtype of the parameters (give ``torch.int64`` for a model that begins with an embedding). FLOPs
    are those that torch's ``FlopCounterMode`` counts: 2 for each multiply-accumulate of linear
    layers (without bias), of convolutions (with zero padding) and of attention. All other
    operations, also BatchNorm, count as 0. The FLOPs are counted on a copy without memory, in
    evaluation mode: the model may be on any device and does not change.

    Raises TypeError for a model that is not an ``nn.Sequential``, and ValueError if a side of the
    cut is empty or if the input does not fit.

    >>> cost = measure(nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)), (784,), 2)
    >>> cost.num_parameters_client, cost.cut_width, cost.flops_forward_client
    (100480, 128, 200704)
    """
    from torch.utils.flop_counter import FlopCounterMode

    if not isinstance(model, nn.Sequential):
        raise TypeError(
            f"model is a {type(model).__name__}: only an nn.Sequential can be cut between two "
            "items. Wrap its layers in nn.Sequential, as models.py does."
        )
    if not 0 < cut < len(model):
        raise ValueError(
            f"cut={cut}: this model has {len(model)} items, so a cut is 1 to {len(model) - 1}; "
            "client and server need at least one each"
        )
    shapes_only = copy.deepcopy(model).to("meta").eval()
    bottom, top = shapes_only[:cut], shapes_only[cut:]
    dtype = input_dtype or next((p.dtype for p in model.parameters()), torch.float32)
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as below:
            h = bottom(torch.empty(1, *input_shape, dtype=dtype, device="meta"))
        with torch.no_grad(), FlopCounterMode(display=False) as above:
            top(h)
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"input_shape={tuple(input_shape)} does not fit this model ({error}). "
            "Give the shape of one sample without the batch, such as (784,) or (3, 32, 32)."
        ) from error
    return ModelCost(
        num_parameters=sum(p.numel() for p in model.parameters()),
        num_parameters_client=sum(p.numel() for p in model[:cut].parameters()),
        nbytes_model=dense_nbytes(model.state_dict()),
        nbytes_bottom=dense_nbytes(model[:cut].state_dict()),
        cut_width=h.numel(),
        flops_forward=below.get_total_flops() + above.get_total_flops(),
        flops_forward_client=below.get_total_flops(),
    )


def split_nbytes(
    model: ModelCost, *, num_samples: int, num_clients: int, epochs: int, label_nbytes: int = 0
) -> int:
    """Total payload of split learning as a relay, exactly: 8 p q E + p l E + (K E - 1) B.

    In each of E epochs, each of p samples sends q activations of 4 bytes and l bytes of label, and
    gets q gradients of 4 bytes. K clients take turns. Each turn except the first begins with the
    bottom of the client before, which has B bytes. A single client passes no bottom on.

    >>> mlp = ModelCost(189_450, 183_040, 757_800, 732_160, 640, 377_344, 364_544)
    >>> split_nbytes(mlp, num_samples=60_000, num_clients=1, epochs=1)
    307200000
    """
    _check(num_samples=num_samples, num_clients=num_clients, epochs=epochs)
    if label_nbytes < 0:
        raise ValueError(f"label_nbytes={label_nbytes}: 8 for an int64 label, 0 if none is sent")
    per_sample = 2 * 4 * model.cut_width + label_nbytes
    num_handovers = num_clients * epochs - 1 if num_clients > 1 else 0
    return num_samples * per_sample * epochs + num_handovers * model.nbytes_bottom


def federated_nbytes(model: ModelCost, *, num_clients: int, rounds: int) -> int:
    """Total payload of federated averaging: each client gets and sends the model in every round.

    >>> mlp = ModelCost(189_450, 183_040, 757_800, 732_160, 640, 377_344, 364_544)
    >>> federated_nbytes(mlp, num_clients=10, rounds=20)
    303120000
    """
    _check(num_clients=num_clients, rounds=rounds)
    return 2 * model.nbytes_model * num_clients * rounds


def advise(
    model: ModelCost,
    *,
    num_samples: int,
    num_clients: int,
    epochs: int,
    rounds: int,
    batch_size: int = 64,
    label_nbytes: int = 0,
    nbytes_per_sample: float | None = None,
) -> Advice:
    """Compare large-batch SGD, federated averaging and split learning before any of them is run.

    A training step counts as three forward passes, since the backward pass takes about as long as
    two, or as one if a client has only the first layer (published tables ignore this, too). In a
    step of large-batch SGD each client gets the model, computes with ``batch_size`` samples, and
    sends a gradient of the model's size.

    The crossover is the smallest number of clients, at least 2, from which on split learning sends
    fewer bytes than federated averaging. It is None if split learning sends more bytes even with
    one sample for each client. Both totals are linear in K. For one epoch and one round they are
    equal near K = 2pq / (N (2 - eta)), where eta is the client's share of the N parameters.

    Args:
        model: the result of `measure`.
        num_samples: p, the samples of all clients together; each client has the same number.
        num_clients: K, at most ``num_samples``.
        epochs: E, passes over the data in the whole run, for all methods.
        rounds: how often federated averaging communicates during these epochs.
        batch_size: samples for each client and step of large-batch SGD.
        label_nbytes: bytes for each sample and epoch if clients send labels: 8 for int64.
        nbytes_per_sample: b, what a sample and its label take when they are compressed without loss
            (`fltoolkit_research.pooled.lossless_nbytes` measures it; MNIST: 136). Then the advice
            also says how many times the data each method sends, and warns where that is more than
            once.

    >>> mlp = ModelCost(189_450, 183_040, 757_800, 732_160, 640, 377_344, 364_544)
    >>> advise(mlp, num_samples=60_000, num_clients=500, epochs=1, rounds=1)
    method                client compute  bytes per client   bytes total
    large-batch SGD            136 MFLOP           3.03 MB       1.52 GB
    federated averaging        136 MFLOP           1.52 MB        758 MB
    split learning             131 MFLOP           1.35 MB        673 MB  fewest
    Split sends fewer bytes than federated from 392 clients on.
    >>> advice = advise(
    ...     mlp, num_samples=60_000, num_clients=10, epochs=1, rounds=1, nbytes_per_sample=136
    ... )
    >>> advice.data.nbytes, round(advice.times_the_data(advice.split), 1)
    (8160000, 38.5)
    """
    _check(num_samples=num_samples, num_clients=num_clients, epochs=epochs)
    _check(rounds=rounds, batch_size=batch_size)

    def split(clients: int) -> int:
        how = {"num_samples": num_samples, "epochs": epochs, "label_nbytes": label_nbytes}
        return split_nbytes(model, num_clients=clients, **how)

    def federated(clients: int) -> int:
        return federated_nbytes(model, num_clients=clients, rounds=rounds)

    steps = epochs * math.ceil(num_samples / (num_clients * batch_size))
    passes = 3 * epochs * num_samples / num_clients  # forward passes of one sample
    whole, bottom = passes * model.flops_forward, passes * model.flops_forward_client
    data = None
    if nbytes_per_sample is not None:
        if not 0 < nbytes_per_sample < math.inf:
            raise ValueError(f"nbytes_per_sample={nbytes_per_sample!r}: must be above 0 and finite")
        total = math.ceil(num_samples * nbytes_per_sample)
        data = MethodCost("send the data", num_clients, 0.0, total)  # the receiver computes
    large_batch = federated_nbytes(model, num_clients=num_clients, rounds=steps)
    return Advice(
        MethodCost("large-batch SGD", num_clients, whole, large_batch),
        MethodCost("federated averaging", num_clients, whole, federated(num_clients)),
        MethodCost("split learning", num_clients, bottom, split(num_clients)),
        _crossover(lambda clients: split(clients) - federated(clients), num_samples),
        data,
    )


def _crossover(excess: Callable[[int], int], num_samples: int) -> int | None:
    """The first k >= 2 from which on ``excess`` stays negative; it is linear from 2 on."""
    if num_samples < 2 or excess(num_samples) >= 0:
        return None
    return 2 + bisect_left(range(2, num_samples + 1), True, key=lambda k: excess(k) < 0)


def _factor(value: float) -> str:
    """Three digits: ``0.0421``, ``4.21``, ``421``, ``42,100``."""
    return f"{float(f'{value:.3g}'):,g}"


def _check(**counts: int) -> None:
    """Each count is an int, 1 or more, and every client has a sample."""
    for name, value in counts.items():
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}={value!r}: give a whole number (int), 1 or more")
    clients, samples = counts.get("num_clients", 1), counts.get("num_samples", math.inf)
    if clients > samples:
        raise ValueError(
            f"num_clients={clients} for num_samples={samples}: each client needs a sample of its "
            f"own; lower num_clients to {samples} or fewer"
        )


def _si(value: float, unit: str) -> str:
    """Three digits with a prefix: ``_si(1515600, "B") == "1.52 MB"``."""
    power = min(max(int(f"{value:.2e}"[5:]), 0) // 3, 5)  # the exponent after rounding
    return f"{value / 1000**power:.3g} {['', 'k', 'M', 'G', 'T', 'P'][power]}{unit}"
