"""What every method is compared with, as protocols of experiments: the null rows of a table.

    pooled    the owners send their samples to the server, and it trains on all of them
    solved    the owners send their samples, and the last layer is computed from them
    one_sum   each owner sends sums of fixed features, once; the last layer is computed from them
    alone     one owner trains on its own samples; nothing is sent
    nothing   nobody trains: the untrained network, or the commonest class

A factor against float32 says little if the data themselves, sent once, would have been shorter; and
an accuracy says little beside those of an owner who trains alone and of a guess.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from fltoolkit.channel import Channel
from fltoolkit.federated.means import Collecting
from fltoolkit.party import Party
from fltoolkit_research.federated import sums
from fltoolkit_research.pooled.protocol import at_random, by_class, pool
from fltoolkit_research.protocol import (
    COUNT,
    FLAG,
    Setting,
    Trained,
    as_protocol,
    batches_of_all,
    everybody,
    tested_once,
)
from fltoolkit_research.secrecy.four_rounds import ROUNDS
from fltoolkit_research.task import Task

__all__ = ["NULL_MODELS"]


def one_of_them(experiment: Any) -> None:
    """Raise ValueError for an owner that is not there."""
    owner = experiment.settings.get("owner", 1)
    if owner != "all" and owner > experiment.num_clients:
        raise ValueError(
            f"owner={owner}, num_clients={experiment.num_clients}: owners "
            f"are counted from 1 to {experiment.num_clients}"
        )
    tested_once(experiment)


def a_choice_of_some(experiment: Any) -> None:
    """Raise ValueError for a way to choose samples without a number of them."""
    if "choose" in experiment.settings and "num_kept" not in experiment.settings:
        raise ValueError(
            "settings hold choose: give the number of samples that are sent, num_kept, too"
        )
    tested_once(experiment)


def once(experiment: Any) -> None:
    """Raise ValueError for rounds after the first: there is only one sum."""
    if experiment.rounds != 1:
        raise ValueError(
            f"rounds={experiment.rounds}: {experiment.protocol} sends once, so give rounds=1"
        )


SUMMING = Setting(
    "a sum in which no term is seen, such as SecureSum(Pipeline(SharedRotation(), Grid(10, 4.0)))",
    lambda value: isinstance(value, Collecting),
)
CHOOSE = Setting(
    "'random', or a function of (x, y, count, seed) that returns fewer samples",
    lambda value: value == "random" or callable(value),
)
OWNER = Setting(
    "a whole number from 1 to num_clients (1 if left out), or 'all' for the mean of all owners",
    lambda value: value == "all" or COUNT.allowed(value),
)


@as_protocol(
    ("samples", "labels", "model"),
    settings={"num_kept": COUNT, "choose": CHOOSE, "decay": FLAG, "send_back": FLAG},
    check=a_choice_of_some,
    records_per_round=batches_of_all,
    together=everybody,
)
def pooled(task: Task, channel: Channel) -> Trained:
    """The owners send their samples, and the server trains; see `fltoolkit_research.pooled.pool`.

    A round has as many batches as a pass over all samples, whatever was sent of them. So the
    computing of as many rounds of federated averaging with one local pass is the same.
    """
    settings = task.settings
    owners = {name: share for name, share in task.clients.items() if len(share[1])}
    kept, choose = settings.get("num_kept"), settings.get("choose", "random")
    choose = at_random if choose == "random" else choose
    if kept is not None:  # each owner in proportion to what it has, at least one sample
        total = len(task.data.y_train)
        owners = {
            name: choose(x, y, max(round(kept * len(y) / total), 1), seed=task.seed)
            for name, (x, y) in owners.items()
        }
    server = task.party("server", task.model, has_loss=True)
    if settings.get("decay", False):
        server.optimizer = Falling(server.optimizer, task.rounds * batches_of_all(task))
    records = pool(
        owners,
        server,
        channel,
        rounds=task.rounds,
        batch_size=task.batch_size,
        seed=task.seed,
        steps_per_round=batches_of_all(task),
        send_back=settings.get("send_back", False),
    )
    for record in records:
        yield record, [server]


class Falling:
    """An optimizer whose learning rate falls in a straight line to 0, from step to step."""

    def __init__(self, optimizer: Any, num_steps: int):
        self.optimizer, self.param_groups = optimizer, optimizer.param_groups
        self.schedule = LambdaLR(optimizer, lambda step: 1 - step / num_steps)

    def step(self) -> None:
        """A step of the optimizer, then one of its learning rate."""
        self.optimizer.step()
        self.schedule.step()

    def state_dict(self) -> dict[str, Any]:
        """The states of the optimizer and of its schedule."""
        return {"optimizer": self.optimizer.state_dict(), "schedule": self.schedule.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved `state_dict`."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])


@as_protocol(
    ("update", "model", *ROUNDS),
    settings={"summing": SUMMING, "send_back": FLAG},
    check=once,
    together=everybody,
)
def one_sum(task: Task, channel: Channel) -> Trained:
    """Each owner sends one sum, and the server solves for the layer after the cut.

    The layers before the cut are not trained. See `fltoolkit_research.federated.one_sum`; a model
    for it is `fltoolkit_research.models.random_filters`, with ``cut=5``.
    """
    features, top = task.layers[: task.cut], task.layers[task.cut :]
    server = Party("server", top, loss_fn=task.loss_fn)
    owners = {name: share for name, share in task.clients.items() if len(share[1])}
    for record in sums.one_sum(owners, features, server, channel, **task.settings):
        yield record, [Party("owner", features), server]


@as_protocol(("samples", "labels"), check=once, together=everybody)
def solved(task: Task, channel: Channel) -> Trained:
    """The owners send their samples once, and the server solves for the layer after the cut.

    It is `one_sum` at a server that has all samples: what a receiver of them can do in one step.
    """
    features, top = task.layers[: task.cut], task.layers[task.cut :]
    server, totals = Party("server", top, loss_fn=task.loss_fn), channel.totals(task.names)
    received = []
    for name, (x, y) in task.clients.items():
        rows = by_class(y)  # a set of samples has no order
        x = channel.send(name, "server", "samples", {"x": x[rows]})["x"]
        received.append((x, channel.send(name, "server", "labels", {"y": y[rows]})["y"]))
    x, y = (torch.cat(parts) for parts in zip(*received, strict=True))
    list(sums.one_sum({"all": (x, y)}, features, server, Channel()))
    yield {"step": 1, **totals()}, [Party("server", features), server]


@as_protocol((), settings={"owner": OWNER}, check=one_of_them, records_per_round=batches_of_all)
def alone(task: Task, channel: Channel) -> Trained:
    """One owner trains on its own samples, one pass per round; nothing is sent.

    The setting ``owner`` says which, counted from 1. With "all", each owner trains a network of
    its own, from the same first weights, and each of them is tested.
    """
    owner, totals = task.settings.get("owner", 1), channel.totals(task.names)
    numbers = range(task.num_clients) if owner == "all" else [owner - 1]
    owners: list[Party] = []
    for number in numbers:
        model = copy.deepcopy(task.model) if owners else task.model
        owners.append(task.party(task.names[number], model, has_loss=True))
    for round_ in range(task.rounds):
        losses = []
        for number, party in zip(numbers, owners, strict=True):
            mine = [party.loss_and_grad(x, y)[0] for x, y in task.batches[number].epoch(round_)]
            losses.append(sum(mine) / len(mine))
        step = (round_ + 1) * batches_of_all(task)
        loss = sum(losses) / len(losses)
        yield {"step": step, "loss": loss, **totals()}, [[party] for party in owners]


@as_protocol((), settings={"commonest": FLAG}, check=tested_once, records_per_round=batches_of_all)
def nothing(task: Task, channel: Channel) -> Trained:
    """Nobody trains and nothing is sent: the network with its first weights.

    With the setting ``commonest`` a constant instead, which always says how frequent each class is
    among the training samples, and so always guesses the commonest class.
    """
    module: nn.Module = task.model
    if task.settings.get("commonest", False):
        module = Frequencies(task.data.y_train, task.data.num_classes)
    server = Party("server", module, loss_fn=task.loss_fn)
    for round_ in range(task.rounds):
        step = (round_ + 1) * batches_of_all(task)
        yield {"step": step, **channel.totals(task.names)()}, [server]


class Frequencies(nn.Module):
    """A network that gives the same log-probabilities for every input."""

    def __init__(self, y: Tensor, num_classes: int):
        super().__init__()
        if y.dim() != 1 or y.is_floating_point() or not num_classes:
            raise ValueError(f"targets {tuple(y.shape)}, {y.dtype}: the commonest needs classes")
        counts = torch.bincount(y, minlength=num_classes).float()
        self.register_buffer("logs", (counts + 1).log() - (counts + 1).sum().log())

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities of shape [samples, classes]."""
        return self.get_buffer("logs").expand(len(x), -1)


NULL_MODELS = {each.name: each for each in (pooled, solved, one_sum, alone, nothing)}
"""The protocols of the null rows, by name."""
