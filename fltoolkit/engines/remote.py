"""What stands in a process for that which lives in another: parties, data, a gate.

Here: stand-ins that compute nothing, so that every process can run the same protocol function with
the same list of parties. Not here: how messages get from one process to another.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from fltoolkit.history import Record
from fltoolkit.party import SGD, Party
from fltoolkit.split.gates import Progress, State
from fltoolkit.trees import Tree

__all__ = ["RemoteGate", "RemoteParty", "absent", "known"]


class LooksAhead(Protocol):
    """A channel that can receive a message before the protocol asks for it."""

    def look_ahead(self, sender: str, receiver: str, kind: str) -> Tree: ...


def absent(num_samples: int) -> Float[Tensor, "num_samples 0"]:
    """Stands for features or labels that another process has: as many rows, nothing in them.

    How many samples there are, everybody knows; from a seed, everybody also knows their order.

    >>> absent(3)
    tensor([], size=(3, 0))
    """
    return torch.zeros(num_samples, 0)


class RemoteParty(Party):
    """Stands for a party that lives in another process: it computes nothing and learns nothing.

    Args:
        name: the party's.
        module: needed only where models are handed on (`train_relay`, `train_splitfed`): one like
            the party's own, with the weights that all clients start from. It never moves.
        learns: whether the party has an optimizer; it decides where gradients travel.
    """

    def __init__(self, name: str, module: nn.Module | None = None, *, learns: bool = True):
        super().__init__(name, nn.Module(), SGD([], lr=1.0) if learns else None)
        self._like = module
        self._asks = False

    def forward(self, x: Shaped[Tensor, "batch ..."]) -> Float[Tensor, "batch 0"]:
        """Nothing, for each sample."""
        self._asks = x.requires_grad
        return absent(len(x))

    def backward(self, g: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch 0"] | None:
        """Nothing, for each sample; None where the party itself would return None."""
        return absent(len(g)) if self._asks else None

    def loss_and_grad(
        self, h: Float[Tensor, "batch ..."], y: Shaped[Tensor, "batch ..."]
    ) -> tuple[float, Float[Tensor, "batch ..."] | None]:
        """NaN, for a loss that is not known here; see `known`."""
        return math.nan, torch.zeros_like(h) if h.requires_grad else None

    def weights(self) -> Tree:
        """Those that all clients start from: who receives them elsewhere needs names and shapes."""
        return {} if self._like is None else self._like.state_dict()

    def load_weights(self, weights: Tree) -> None:
        """Nothing to do: they are loaded where the party lives."""

    def state_dict(self) -> dict[str, Any]:
        """Raises ValueError: each process saves what is its own."""
        raise ValueError(f"party {self.name!r} lives in another process, which saves it")

    def __repr__(self) -> str:
        return f"<RemoteParty {self.name!r}>"


class RemoteGate:
    """Stands for the gate of a label party elsewhere: `train_async` in the client's process.

    The state of a period is what the label party announces at its beginning, in a ``control``
    message that is counted as ever. Nothing else tells the client; in state C she hears nothing
    until the period ends, so the channel's timeout must be longer than a silent period takes.

    Args:
        channel: that of this process.
        label_party: who announces.
        client: who is told.
        every: length of a period in steps, as the real gate's; None: an epoch.
    """

    def __init__(
        self, channel: LooksAhead, label_party: str, client: str, every: int | None = None
    ):
        self.every = every
        self._channel, self._link = channel, (label_party, client, "control")
        self._state: State | None = None

    @property
    def state(self) -> State:
        """That of the current period; at its beginning, wait to be told."""
        if self._state is None:
            self._state = list(State)[int(self._channel.look_ahead(*self._link)["state"])]
        return self._state

    def check(self, progress: Progress) -> None:
        """The period is over. Its successor's state is known, and read, when it begins."""
        self._state = None

    def state_dict(self) -> dict[str, Any]:
        """Nothing: the gate lives elsewhere."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Nothing to do."""


def known(records: Iterable[Record]) -> Iterator[Record]:
    """The records without what this process cannot know: the loss lives where the labels are.

    >>> list(known([{"step": 1, "loss": math.nan, "nbytes": 7}]))
    [{'step': 1, 'nbytes': 7}]
    """
    for record in records:
        yield {key: value for key, value in record.items() if value == value}
