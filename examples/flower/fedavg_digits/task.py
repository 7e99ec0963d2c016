"""What server and clients agree on: the network, the codecs, and which client has which digits."""

from typing import Any

import torch
from torch import Tensor, nn

from fltoolkit import load
from fltoolkit.codecs import ErrorFeedback, Pipeline, Quantize, TopK
from fltoolkit.data import partition_dirichlet
from fltoolkit.federated import Local
from fltoolkit.models import seeded

torch.set_num_threads(1)


def network(seed: int) -> nn.Module:
    with seeded(seed):
        return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10), nn.LogSoftmax(dim=1))


def codecs(compressed: bool) -> dict[str, Any]:
    """8 bits down; up, a tenth of the values in 8 bits, with error feedback."""
    if not compressed:
        return {}
    up = ErrorFeedback(Pipeline(TopK(0.1), Quantize(8)))
    return {"model": Pipeline(Quantize(8)), "update": up}


def own_data(number: int, num_clients: int, seed: int) -> tuple[Tensor, Tensor]:
    """One client's digits, unequally divided; a real owner would read a file of its own."""
    digits = load("digits").flat()
    rows = partition_dirichlet(digits.y_train, num_clients, alpha=1.0, seed=seed)[number]
    return digits.x_train[rows], digits.y_train[rows]


def settings(config: Any) -> dict[str, Any]:
    """The settings of `fltoolkit.federated.fedavg`, here or in one process."""
    return {
        "rounds": int(config["rounds"]),
        "cohort": int(config["cohort-size"]),
        "seed": int(config["seed"]),
        "local": Local(batch_size=32, lr=0.1, epochs=1),
    }
