"""Stand-ins for parties, data and gates that live in another process.

They compute nothing. With them every process can run the same protocol function with the same list
of parties. Not here: how messages get from one process to another.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from fltoolkit.history import Record
from fltoolkit.party import SGD, Party, uncompiled
from fltoolkit.shapes import Float, Shaped
from fltoolkit.split.gates import Progress, State
from fltoolkit.trees import Tree

__all__ = ["RemoteGate", "RemoteParty", "absent", "without_nan"]


def absent(num_samples: int) -> Float[Tensor, "num_samples 0"]:
    """A stand-in for features or labels that another process has: as many rows, but no columns.

    Every process knows the number of samples, and from the seed it also knows their order.

    >>> absent(3)
    tensor([], size=(3, 0))
    """
    return torch.zeros(num_samples, 0)


class RemoteParty(Party):
    """A stand-in for a party that lives in another process: it computes nothing, learns nothing.

    Args:
        name: the name of the party.
        module: for `train_relay` and `train_splitfed`, a module like the party's own, with the
            weights that all clients start from. It never changes.
        learns: True if the party has an optimizer; gradients are sent only to parties that learn.

    >>> bob = RemoteParty("bob")
    >>> bob.forward(torch.ones(3, 8)).shape  # three samples without values
    torch.Size([3, 0])
    """

    def __init__(self, name: str, module: nn.Module | None = None, *, learns: bool = True):
        super().__init__(name, nn.Module(), SGD([], lr=1.0) if learns else None)
        self._like = module
        self._asks = False

    def forward(self, x: Shaped[Tensor, "batch ..."]) -> Float[Tensor, "batch 0"]:
        """A tensor with one row for each sample and no columns."""
        self._asks = x.requires_grad
        return absent(len(x))

    def backward(self, g: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch 0"] | None:
        """As `forward`; None if the real party would return None."""
        return absent(len(g)) if self._asks else None

    def loss_and_grad(
        self, h: Float[Tensor, "batch ..."], y: Shaped[Tensor, "batch ..."]
    ) -> tuple[float, Float[Tensor, "batch ..."] | None]:
        """NaN: this process does not know the loss. `without_nan` removes it from records."""
        return math.nan, torch.zeros_like(h) if h.requires_grad else None

    def weights(self) -> Tree:
        """The weights that all clients start from; their names and shapes are needed here."""
        return {} if self._like is None else uncompiled(self._like).state_dict()

    def load_weights(self, weights: Tree) -> None:
        """Does nothing, because the party's own process loads the weights."""


class RemoteGate:
    """A stand-in for the label party's gate, for `train_async` in the client's process.

    The label party announces the state of a period in a ``control`` message. In state C the client
    receives nothing until the period ends: the channel's timeout must be longer than a period.

    Args:
        channel: the channel of this process, with ``look_ahead`` as `DistributedChannel` has it.
        label_party: the party that announces the state.
        client: the party that receives the announcement.
        every: length of a period in steps, equal to that of the real gate; None: an epoch.
    """

    def __init__(self, channel: Any, label_party: str, client: str, every: int | None = None):
        self.every = every
        self._channel, self._link = channel, (label_party, client, "control")
        self._state: State | None = None

    @property
    def state(self) -> State:
        """The state of the current period. At its beginning, this waits for the announcement."""
        if self._state is None:
            self._state = list(State)[int(self._channel.look_ahead(*self._link)["state"])]
        return self._state

    def check(self, progress: Progress) -> None:
        """End the period. The state of the next one is read when that begins."""
        self._state = None

    def state_dict(self) -> dict[str, Any]:
        """An empty dict, because the gate lives in another process."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Does nothing, because the gate lives in another process."""


def without_nan(records: Iterable[Record]) -> Iterator[Record]:
    """The records without NaN: the loss is known only to the process that has the labels.

    >>> list(without_nan([{"step": 1, "loss": math.nan, "nbytes": 7}]))
    [{'step': 1, 'nbytes': 7}]
    """
    for record in records:
        yield {key: value for key, value in record.items() if value == value}
