"""What the server does in a round, and how a mean update changes its model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fltoolkit.codecs.base import Codec
from fltoolkit.federated.client import check_function
from fltoolkit.federated.clock import Arrivals, Backlog
from fltoolkit.federated.means import Mean, mean_of_all
from fltoolkit.history import Record, naming_its_words
from fltoolkit.party import Party
from fltoolkit.trees import Tree, is_finite, plus_difference

SERVER = "server"  # its name in the ledger

Rule = Callable[[Record], Codec | None]
"""``rule(record)``: the codec of the updates after this record; None: as before.

A rule may remember values of the records, and nothing else. To go on with a saved run, call a new
rule with each record of the history, and build the channel with the last codec that it made (of
which `load_run` will warn).
"""


@naming_its_words
@dataclass(frozen=True, kw_only=True)
class Server:
    """Settings: what the server does in each round of `fedavg`; `Local` has those of a client.

    Args:
        mean: how the updates become one: `mean_of_all`, `mean_of_senders` for top-k codecs,
            `fltoolkit_research.federated.GaussianDP` for clipping and noise, a function of the
            received updates (see `Mean`), or a mean that sends the updates itself (see
            `Collecting`).
        optimizer: over ``model.parameters()``; by default the mean update is added.
        arrivals: when a round ends, and the weight of late updates; by default none is late.
        tune: is called before each round with the record of the round before, and returns the codec
            for the updates, whose name goes to the cohort in ``control`` messages; see `Rule`.
        backlog: the late updates of earlier rounds, for a run that goes on.
        name: the server's name in the ledger.

    >>> Server(arrivals=Arrivals(wait_for=5)).mean is mean_of_all
    True
    """

    mean: Mean = mean_of_all
    optimizer: torch.optim.Optimizer | None = None
    arrivals: Arrivals = Arrivals()
    tune: Rule | None = None
    backlog: Backlog | None = None
    name: str = SERVER

    def __post_init__(self) -> None:
        check_function("mean", self.mean)


@torch.no_grad()
def apply_update(model: nn.Module, delta: Tree, optimizer: torch.optim.Optimizer | None) -> None:
    """Change the model by a difference: add it, or give minus it to the optimizer as gradient.

    Raises FloatingPointError if the result would be NaN or infinite; then the model is not changed.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.ones_(model.weight)
    >>> apply_update(model, {"weight": torch.tensor([[0.5]])}, None)
    >>> sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> apply_update(model, {"weight": torch.tensor([[0.5]])}, sgd)
    >>> round(model.weight.item(), 2)
    1.55
    """
    own = model.state_dict()
    before = {name: tensor.clone() for name, tensor in own.items()}
    params = {} if optimizer is None else dict(model.named_parameters(remove_duplicate=False))
    if optimizer is not None:
        optimizer.zero_grad()
        for name, param in params.items():
            if name in delta and param.requires_grad:  # a tied weight has one entry
                param.grad = -delta[name].to(param)
        optimizer.step()
        optimizer.zero_grad()
    added = {n: plus_difference(own[n], d) for n, d in delta.items() if n not in params}
    model.load_state_dict(added, strict=False)
    torch.clear_autocast_cache()  # it may hold weights of before, in fewer bits
    if not all(map(is_finite, own.values())):
        model.load_state_dict(before)
        raise FloatingPointError(
            "the server's model would hold NaN or infinite values, though all updates were finite: "
            "lower the learning rate of its optimizer or of the clients. The model is as it was "
            "before this round, and all records so far are good."
        )


def check_optimizer(server: str, model: nn.Module, optimizer: Any) -> None:
    """Raise an error for a server optimizer whose parameters are not those of this model."""
    if optimizer is None:
        return
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(
            f"optimizer={optimizer!r}: give a made one, torch.optim.Adam(model.parameters(), "
            "lr=0.01); None adds the mean update, which is SGD with lr=1"
        )
    Party(server, model, optimizer)  # raises an error for an optimizer of another model
    moved = {id(param) for group in optimizer.param_groups for param in group["params"]}
    named = model.named_parameters()
    if left := [name for name, p in named if p.requires_grad and id(p) not in moved]:
        raise ValueError(
            f"the server's optimizer does not move {left}, which the clients train: make it from "
            "model.parameters(), or freeze these (requires_grad_(False))"
        )
