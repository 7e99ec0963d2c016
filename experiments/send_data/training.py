"""A small network, and steps of SGD on one or many copies of it, on a CPU or a GPU.

On a GPU a step of all copies is captured once as a CUDA graph and replayed, since the kernels of a
network this small take less time than launching them. What the graph computes is compared with
plain steps before it is used.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

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
        return [
            nn.Conv2d(before, after, 3, padding=1),
            nn.GroupNorm(4, after),
            nn.ReLU(),
        ]

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


class Replicas:
    """Copies of one network, each with weights and a momentum of its own, that step together.

    Args:
        model: the network; its weights are the start of all copies.
        number: how many copies.
        batch_size: samples of a copy's step.
        momentum: of Nesterov's SGD; 0 is plain SGD.
        decay: weight decay.
    """

    def __init__(
        self,
        model: nn.Module,
        number: int,
        batch_size: int,
        device: torch.device,
        *,
        momentum: float = 0.0,
        decay: float = 0.0,
    ):
        self.models = [copy.deepcopy(model).to(device).train() for _ in range(number)]
        self.params: list[list[Tensor]] = [[*m.parameters()] for m in self.models]
        self.speeds = [[torch.zeros_like(p) for p in params] for params in self.params]
        self.momentum, self.decay, self.device = momentum, decay, device
        self.x = torch.zeros(number, batch_size, 3, 32, 32, device=device)
        self.y = torch.zeros(number, batch_size, dtype=torch.long, device=device)
        self.lr = torch.zeros((), device=device)
        self.loss = torch.zeros(number, device=device)
        self._replay = self._captured() if device.type == "cuda" else None

    def step(self, x: Tensor, y: Tensor, lr: float) -> None:
        """One step of each copy: x [copies, batch, 3, 32, 32]; ``loss`` adds up the losses."""
        self.x.copy_(x)
        self.y.copy_(y)
        self.lr.fill_(lr)
        if self._replay is not None:
            self._replay()
        else:
            self._plain()

    def load(self, weights: Sequence[Tensor]) -> None:
        """Give each copy its weights, as one vector; momentum and losses begin at zero."""
        with torch.no_grad():
            for params, speeds, vector in zip(self.params, self.speeds, weights, strict=True):
                place = 0
                for param, speed in zip(params, speeds, strict=True):
                    some = vector[place : place + param.numel()]
                    param.copy_(some.view_as(param))
                    speed.zero_()
                    place += param.numel()
            self.loss.zero_()

    def weights(self) -> list[Tensor]:
        """Each copy's weights as one vector on the CPU."""
        return [parameters_to_vector(params).detach().cpu() for params in self.params]

    def _plain(self) -> None:
        for k in range(len(self.models)):
            self._one(k)

    def _one(self, k: int) -> None:
        params, speeds = self.params[k], self.speeds[k]
        loss = nn.functional.nll_loss(self.models[k](self.x[k]), self.y[k])
        grads = list(torch.autograd.grad(loss, params))
        with torch.no_grad():
            self.loss[k] += loss
            if self.decay:
                torch._foreach_add_(grads, params, alpha=self.decay)
            if self.momentum:
                torch._foreach_mul_(speeds, self.momentum)
                torch._foreach_add_(speeds, grads)
                torch._foreach_add_(grads, speeds, alpha=self.momentum)
            torch._foreach_sub_(params, torch._foreach_mul(grads, self.lr))

    def _captured(self) -> Any:
        """A function that replays the steps of all copies side by side; None if that fails."""
        first = parameters_to_vector(self.params[0]).detach().clone()
        starts = [first] * len(self.models)
        self.x.normal_()
        self.y.random_(10)
        self.lr.fill_(0.01)
        try:
            aside = torch.cuda.Stream()
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):
                for _ in range(3):
                    self._plain()
            torch.cuda.current_stream().wait_stream(aside)
            graph, streams = torch.cuda.CUDAGraph(), [torch.cuda.Stream() for _ in self.models]
            with torch.cuda.graph(graph):
                main = torch.cuda.current_stream()
                for k, stream in enumerate(streams):
                    stream.wait_stream(main)
                    with torch.cuda.stream(stream):
                        self._one(k)
                for stream in streams:
                    main.wait_stream(stream)
            ends = []
            for steps in (self._plain, graph.replay):
                self.load(starts)
                for _ in range(3):
                    steps()
                torch.cuda.synchronize()
                ends.append(torch.stack(self.weights()))
            error = float((ends[0] - ends[1]).abs().max())
            if not error < 1e-4:
                raise RuntimeError(f"its weights differ by {error:.2g} from those of plain steps")
        except RuntimeError as why:
            print(f"no CUDA graph, steps one after the other: {why}", flush=True)
            graph = None
        self.load(starts)
        return None if graph is None else graph.replay


def batches(
    rows: Sequence[Tensor], batch_size: int, seeds: Sequence[int], epoch: int
) -> Iterator[tuple[Tensor, Tensor, tuple[int, int]]]:
    """A pass over the samples of several copies: rows and flips [copies, batch], and a shift.

    Each copy's order comes from its own seed. Samples that do not fill a batch wait for another
    pass.
    """
    draws = [np.random.default_rng([seed, epoch]) for seed in seeds]
    num_steps = min(map(len, rows)) // batch_size
    orders = [
        draw.permutation(len(r))[: num_steps * batch_size]
        for draw, r in zip(draws, rows, strict=True)
    ]
    chosen = torch.stack([r[o] for r, o in zip(rows, orders, strict=True)])
    flips = np.stack([draw.random(num_steps * batch_size) < 0.5 for draw in draws])
    shifts = draws[0].integers(0, 5, size=(num_steps, 2))
    each = zip(
        chosen.split(batch_size, dim=1),
        torch.from_numpy(flips).split(batch_size, dim=1),
        map(tuple, shifts.tolist()),
        strict=True,
    )
    yield from each


def augmented(x: Tensor, rows: Tensor, flips: Tensor, shift: tuple[int, int]) -> Tensor:
    """The samples of these rows, half of them mirrored, all moved by up to two pixels.

    ``x`` has a border of two pixels on every side.
    """
    down, right = shift
    some = x.index_select(0, rows.flatten())[:, :, down : down + 32, right : right + 32]
    some = torch.where(flips.flatten()[:, None, None, None], some.flip(3), some)
    return some.unflatten(0, rows.shape)


class Pixels:
    """Training pictures on a device, with a border, and their labels."""

    def __init__(self, x: Tensor, y: Tensor, device: torch.device):
        self.x = nn.functional.pad(standardized(x, device), (2, 2, 2, 2))
        self.y, self.device = y.to(device), device

    def step_all(
        self, replicas: Replicas, some: tuple[Tensor, Tensor, tuple[int, int]], lr: float
    ) -> None:
        """A step of each copy on its batch."""
        rows, flips = (t.to(self.device, non_blocking=True) for t in some[:2])
        x = augmented(self.x, rows, flips, some[2])
        replicas.step(x, self.y.index_select(0, rows.flatten()).view_as(rows), lr)


@torch.no_grad()
def accuracy(model: nn.Module, weights: Tensor, x: Tensor, y: Tensor) -> float:
    """Share of right answers of the network with these weights."""
    vector_to_parameters(weights.to(x.device), model.parameters())
    model.eval()
    right = sum(
        (model(some).argmax(1) == labels).sum()
        for some, labels in zip(x.split(CHUNK), y.split(CHUNK), strict=True)
    )
    return float(right) / len(y)


class Owners:
    """How all owners of a round learn: the ``train`` of a `Fleet`.

    What travels is the change since a first model that everybody makes from a seed, as one vector.
    The learning rate of round r is ``local.lr / sqrt(1 + r / slow)``.
    """

    def __init__(self, first: nn.Module, pixels: Pixels, number: int, local: Local, slow: float):
        self.start = parameters_to_vector(first.parameters()).detach()
        self.pixels, self.slow, self.round = pixels, slow, 0
        self.replicas = Replicas(first, number, local.batch_size or 0, pixels.device)

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
        before = [self.start + start["change"] for start in starts]
        self.replicas.load(before)
        rows, num_steps = [rows for rows, _ in data], 0
        for epoch in range(local.epochs or 1):
            for some in batches(rows, local.batch_size or 0, seeds, epoch):
                self.pixels.step_all(self.replicas, some, lr)
                num_steps += 1
        losses = (self.replicas.loss / num_steps).tolist()
        after = self.replicas.weights()
        return [
            LocalUpdate({"change": b - a}, loss, len(r), num_steps)
            for a, b, loss, r in zip(before, after, losses, rows, strict=True)
        ]
