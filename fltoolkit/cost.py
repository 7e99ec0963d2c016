"""The cost of a method before it is run: client FLOPs and payload bytes, by formulas.

What a run really sends (channel.py) is the payload of these formulas plus headers. We derived the
formulas ourselves; compare Singh et al. 2019 (arXiv 1909.09145).

Each method has an opponent that does not train together at all: the owners send their samples, once
and compressed, to one place. Training together sends fewer bytes than the data only if::

    rounds x (bytes of a round's messages)  <  samples x (compressed bytes of a sample)

See docs/send_the_data.md.
"""

import copy
import math
from bisect import bisect_left
from dataclasses import dataclass

import torch
from torch import nn

from fltoolkit.trees import dense_nbytes

__all__ = ["ModelCost", "crossover_clients", "federated_nbytes", "measure", "split_nbytes"]


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
    operations, also BatchNorm, count as 0. They are counted on a copy without memory, in evaluation
    mode. Raises TypeError for a model that is not an ``nn.Sequential``, and ValueError if a side of
    the cut is empty or if the input does not fit.

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


def crossover_clients(
    model: ModelCost, *, num_samples: int, epochs: int, rounds: int, label_nbytes: int = 0
) -> int | None:
    """The number of clients from which on `split_nbytes` is less than `federated_nbytes`.

    It is at least 2 and at most ``num_samples``; None if split learning sends more bytes even with
    one sample for each client. Both totals are linear in the number K of clients. For one epoch and
    one round they are equal near K = 2pq / (N (2 - eta)), where eta is the client's share of the N
    parameters.

    >>> mlp = ModelCost(189_450, 183_040, 757_800, 732_160, 640, 377_344, 364_544)
    >>> crossover_clients(mlp, num_samples=60_000, epochs=1, rounds=1)
    392
    """
    how = {"num_samples": num_samples, "epochs": epochs, "label_nbytes": label_nbytes}

    def pays(clients: int) -> bool:
        split = split_nbytes(model, num_clients=clients, **how)
        return split < federated_nbytes(model, num_clients=clients, rounds=rounds)

    if num_samples < 2 or not pays(num_samples):
        return None
    return 2 + bisect_left(range(2, num_samples + 1), True, key=pays)


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
