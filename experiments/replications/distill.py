"""Fewer samples: means of clusters, and made-up samples that a kernel learns nearly as much from.

Here: `prototypes` and `distilled`, each a value for the setting ``choose`` of the protocol pooled.
"""

import math
import warnings

import numpy as np
import torch
from torch import Tensor

from fltoolkit.codecs.stage import check_number
from fltoolkit_research.pooled.protocol import Samples

STEPS, LR, BATCH, RIDGE, LAYERS = 200, 0.02, 500, 1e-3, 2


def prototypes(x: Tensor, y: Tensor, count: int, *, seed: int) -> Samples:
    """About ``count`` means of clusters, found by k-means within each class: (x, y).

    A class gets prototypes in proportion to its samples, at least one. This is the simplest
    coreset: a prototype stands for the samples that are nearest to it (k-means: Lloyd 1982, "Least
    squares quantization in PCM"; by scikit-learn, one start). The values of a mean are new, so
    `Distinct` does not make them shorter: quantize them.

    ``x`` are samples [samples, ...], ``y`` their class numbers, ``seed`` is of the first centres.

    >>> x = torch.tensor([[0.0], [2.0], [10.0], [12.0]])
    >>> prototypes(x, torch.tensor([0, 0, 1, 1]), 2, seed=0)
    (tensor([[ 1.],
            [11.]]), tensor([0, 1]))
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    check_number("count", count, 1)
    found: list[Tensor] = []
    labels: list[Tensor] = []
    for label in y.unique():
        own = x[y == label].flatten(1)
        number = min(max(round(count * len(own) / len(y)), 1), len(own))
        if number == len(own):
            centres = own
        else:
            with warnings.catch_warnings():  # equal samples make fewer clusters; that does no harm
                warnings.simplefilter("ignore", ConvergenceWarning)
                means = KMeans(number, n_init=1, max_iter=20, random_state=seed).fit(own.numpy())
            centres = torch.from_numpy(means.cluster_centers_).to(x.dtype)
        found.append(centres.reshape(-1, *x.shape[1:]))
        labels.append(label.expand(number))
    return torch.cat(found), torch.cat(labels)


def distilled(
    x: Tensor, y: Tensor, count: int, *, seed: int, steps: int = STEPS
) -> tuple[Tensor, Tensor]:
    """About ``count`` made-up samples that stand for all of these: (x, y), with their classes.

    The samples are what is trained. Kernel ridge regression on them must predict the classes of
    the owner's real samples: the loss is ``|y - K_xs (K_ss + ridge)^-1 y_s|^2``, and the kernel is
    the neural tangent kernel of a network with two hidden layers of infinite width and ReLU. So
    no network is trained here, and none is sent. They begin as `prototypes`.

    This is a small version of FedD3, in which every owner distils its data once and sends them in
    one round (Song et al. 2022, arXiv 2208.11311), by kernel inducing points (Nguyen et al. 2021,
    arXiv 2011.00050, equation 1); labels stay classes, and images are not augmented. The kernel is
    that of Jacot et al. 2018 (arXiv 1806.07572) with the arc-cosine kernels of Cho and Saul 2009.

    It needs owners with many samples: with 144 images and fewer, the made-up samples fit these
    images too closely, and a network learns less from them than from prototypes (docs/results.md).

    Arguments are those of `prototypes`; ``steps`` is how often the samples are changed. Raises
    FloatingPointError if the loss is not finite.

    >>> x = torch.cat([torch.randn(50, 4) + 2, torch.randn(50, 4) - 2])
    >>> made_up, classes = distilled(x, torch.arange(2).repeat_interleave(50), 2, seed=0, steps=5)
    >>> made_up.shape, classes
    (torch.Size([2, 4]), tensor([0, 1]))
    """
    start, classes = prototypes(x, y, count, seed=seed)
    labels, codes = torch.unique(torch.cat([classes, y]), return_inverse=True)
    one_hot = torch.eye(len(labels))[codes] - 1 / len(labels)
    goal, support = one_hot[len(classes) :], one_hot[: len(classes)]
    real, made_up = x.flatten(1), start.flatten(1).clone().requires_grad_()
    optimizer = torch.optim.Adam([made_up], lr=LR)
    random = np.random.default_rng(seed)
    for _ in range(steps):
        rows = torch.from_numpy(random.permutation(len(y))[:BATCH])
        inner = kernel(made_up, made_up)
        inner = inner + RIDGE * inner.diagonal().mean() * torch.eye(len(inner))
        guess = kernel(real[rows], made_up) @ torch.linalg.solve(inner, support)
        loss = (guess - goal[rows]).square().sum(dim=1).mean()
        if not math.isfinite(value := loss.item()):
            raise FloatingPointError(f"distilling: the loss is {value}; give more samples")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return made_up.detach().reshape(start.shape), classes


def kernel(a: Tensor, b: Tensor) -> Tensor:
    """The neural tangent kernel of `LAYERS` hidden layers of ReLU, without biases: [a, b]."""
    scale = a.square().mean(dim=1).add(1e-6).sqrt()[:, None] * (
        b.square().mean(dim=1).add(1e-6).sqrt()
    )
    cosine = (a @ b.T / a.shape[1] / scale).clamp(-1 + 1e-4, 1 - 1e-4)
    tangent = cosine
    for _ in range(LAYERS):
        angle = cosine.arccos()
        slope = 1 - angle / math.pi
        cosine = (angle.sin() / math.pi + slope * cosine).clamp(-1 + 1e-4, 1 - 1e-4)
        tangent = cosine + slope * tangent
    return scale * tangent
