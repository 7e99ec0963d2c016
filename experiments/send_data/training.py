"""A small network, its batches of moved and mirrored pictures, and how owners learn."""

from collections.abc import Iterator, Sequence
from statistics import mean

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from fltoolkit.data.datasets import PIXEL_STATISTICS
from fltoolkit.federated.client import Local, LocalUpdate
from fltoolkit.models import seeded
from fltoolkit.trees import Tree

CHUNK = 2000  # samples in a pass that only reads


def network(widths: tuple[int, int, int], seed: int) -> nn.Sequential:
    """Three convolutions with GroupNorm and one linear layer: log-probabilities of ten classes."""

    def block(before: int, after: int) -> list[nn.Module]:
        return [nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(4, after), nn.ReLU()]

    a, b, c = widths
    with seeded(seed):
        return nn.Sequential(
            *block(3, a),
            nn.MaxPool2d(2),
            *block(a, b),
            nn.MaxPool2d(2),
            *block(b, c),
            nn.AvgPool2d(4),
            nn.Flatten(),
            nn.Linear(4 * c, 10),
            nn.LogSoftmax(dim=1),
        )


def standardized(x: Tensor, device: torch.device) -> Tensor:
    """Pixels as float32 on the device, mean 0 and deviation 1 over CIFAR-10."""
    mean, deviation = torch.tensor(PIXEL_STATISTICS["cifar10"], device=device)[..., None, None]
    return x.to(device).float().div_(255).sub_(mean).div_(deviation)


class Pixels:
    """Training pictures on a device, with a border of two pixels, and their labels."""

    def __init__(self, x: Tensor, y: Tensor, device: torch.device):
        self.x = nn.functional.pad(standardized(x, device), (2, 2, 2, 2))
        self.y, self.device = y.to(device), device

    def batches(
        self, rows: Tensor, batch_size: int, seed: int, epoch: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """A pass over these samples: half are mirrored, a batch is moved by up to two pixels.

        Samples that do not fill a batch wait for another pass.
        """
        draw = np.random.default_rng([seed, epoch])
        num_steps = len(rows) // batch_size
        order = draw.permutation(len(rows))[: num_steps * batch_size]
        flips = torch.from_numpy(draw.random(len(order)) < 0.5).to(self.device)
        shifts = draw.integers(0, 5, size=(num_steps, 2)).tolist()
        chosen = rows[order].to(self.device)
        each = zip(chosen.split(batch_size), flips.split(batch_size), shifts, strict=True)
        for some, flip, (down, right) in each:
            x = self.x[some][:, :, down : down + 32, right : right + 32]
            yield torch.where(flip[:, None, None, None], x.flip(3), x), self.y[some]


def learn(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> float:
    """One step; the loss before it."""
    optimizer.zero_grad()
    loss = nn.functional.nll_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Share of right answers."""
    right = sum(
        (model(some).argmax(1) == labels).sum()
        for some, labels in zip(x.split(CHUNK), y.split(CHUNK), strict=True)
    )
    return float(right) / len(y)


class Owners:
    """How the owners of a round learn, one after the other: the ``train`` of a `Fleet`.

    What travels is the change since a first model that everybody makes from a seed, as one vector.
    The learning rate of round r is ``local.lr / sqrt(1 + r / slow)``.
    """

    def __init__(self, model: nn.Module, pixels: Pixels, slow: float):
        self.start = parameters_to_vector(model.parameters()).detach()
        self.model, self.pixels, self.slow, self.round = model, pixels, slow, 0

    def put(self, change: Tensor) -> Tensor:
        """The weights with this change since the first model; the model has them, too."""
        weights = self.start + change.detach().to(self.start.device)
        vector_to_parameters(weights.clone(), self.model.parameters())  # which it will change
        return weights

    def __call__(
        self,
        _model: nn.Module,
        starts: Sequence[Tree],
        data: Sequence[tuple[Tensor, Tensor]],
        local: Local,
        *,
        seeds: Sequence[int],
    ) -> list[LocalUpdate]:
        """Updates of the owners, whose samples are given by their rows."""
        lr = (local.lr or 0.0) / (1 + self.round / self.slow) ** 0.5
        self.round += 1
        found = []
        for start, (rows, _), seed in zip(starts, data, seeds, strict=True):
            before = self.put(start["change"])
            sgd, losses = torch.optim.SGD(self.model.parameters(), lr=lr), []
            for epoch in range(local.epochs or 1):
                for x, y in self.pixels.batches(rows, local.batch_size or 0, seed, epoch):
                    losses.append(learn(self.model, sgd, x, y))
            after = parameters_to_vector(self.model.parameters()).detach()
            change = (after - before).cpu()
            found.append(LocalUpdate({"change": change}, mean(losses), len(rows), len(losses)))
        return found
