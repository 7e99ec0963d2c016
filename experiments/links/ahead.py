"""Split learning that sends while it computes: the next batch leaves before the last answer comes.

With ``ahead=1`` the client sends the activations of batch k + 1 before the gradients of batch k are
there, so both directions of a link carry something at the same time. Its part of the network is
then one step older when a batch passes through it forward than when it learns from that batch.
Going back, the client computes the batch once more, with the weights that it has then.

Here: the loop of each side, and what being ahead costs in accuracy. Not here: the other methods
(methods.py).
"""

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice

from torch import Tensor, nn

from fltoolkit import SGD, Batches, Channel, Party, evaluate, load, splitnn_mlp
from fltoolkit.codecs import Codec
from fltoolkit.history import Record

CLIENT, SERVER = "client", "server"
BATCH_SIZE, LR = 64, 0.05
EPOCHS = 15


class Both:
    """Both parts of the network and how each learns; a process uses its own part only."""

    def __init__(self, seed: int):
        self.data, self.model = load("digits").flat(), splitnn_mlp(64, seed=seed)
        self.bottom, self.top = self.model[:4], self.model[4:]
        self.loss_fn = nn.NLLLoss()
        self.optimizers = [SGD(part.parameters(), lr=LR) for part in (self.bottom, self.top)]
        self.batches = Batches(self.data.x_train, self.data.y_train, BATCH_SIZE, seed=seed)

    def activations(self, x: Tensor) -> Tensor:
        """What the client sends."""
        return self.bottom(x).detach()

    def answer(self, activations: Tensor, y: Tensor) -> Tensor:
        """The server learns; the gradients that it sends back."""
        activations = activations.clone().requires_grad_()
        self._learn(self.top, 1, self.loss_fn(self.top(activations), y), None)
        assert activations.grad is not None
        return activations.grad

    def learn(self, x: Tensor, gradients: Tensor) -> None:
        """The client learns."""
        self._learn(self.bottom, 0, self.bottom(x), gradients)

    def _learn(
        self, part: nn.Module, number: int, output: Tensor, gradients: Tensor | None
    ) -> None:
        part.zero_grad()
        output.backward(gradients)
        self.optimizers[number].step()


def split_ahead(channel: Channel, here: str, count: int, *, ahead: int = 1) -> Iterator[Record]:
    """``count`` steps in two processes, a record after each."""
    both = Both(seed=0)
    epochs = -(-count // len(both.batches))
    waiting: deque[Tensor] = deque()

    def learn() -> Record:
        x = waiting.popleft()
        like = {"a": both.activations(x)}
        both.learn(x, channel.send(SERVER, CLIENT, "gradients", like)["a"])
        return {"step": 0}

    for x, y in islice(both.batches.epochs(epochs), count):
        came = channel.send(CLIENT, SERVER, "activations", {"a": both.activations(x)})["a"]
        if here == SERVER:
            channel.send(SERVER, CLIENT, "gradients", {"a": both.answer(came, y)})
            yield {"step": 0}
        else:
            waiting.append(x)
            if len(waiting) > ahead:
                yield learn()
    while waiting:
        yield learn()


def accuracy(codecs: Mapping[str, Codec], ahead: int | bool, seed: int) -> float:
    """On the test set after `EPOCHS` passes, in one process, batches so far ahead."""
    both, channel = Both(seed), Channel(codecs)
    waiting: deque[tuple[Tensor, Tensor, Tensor]] = deque()
    for x, y in both.batches.epochs(EPOCHS):
        came = channel.send(CLIENT, SERVER, "activations", {"a": both.activations(x)})["a"]
        waiting.append((x, y, came))
        if len(waiting) > ahead:
            x, y, came = waiting.popleft()
            back = channel.send(SERVER, CLIENT, "gradients", {"a": both.answer(came, y)})["a"]
            both.learn(x, back)
    whole = Party("both", both.model, loss_fn=both.loss_fn)
    return float(evaluate([whole], both.data.x_test, both.data.y_test)["accuracy"])
