"""Fewer samples: random ones, or the centres of clusters that k-means finds.

Not here: samples that are made by training (distill).
"""

import warnings

import numpy as np
import torch
from torch import Tensor

from fltoolkit.codecs.stage import check_number

Samples = tuple[Tensor, Tensor]


def at_random(x: Tensor, y: Tensor, count: int, *, seed: int) -> Samples:
    """``count`` of the samples, drawn without repetition: (x, y). All of them if there are fewer.

    >>> x, y = at_random(torch.arange(100.0)[:, None], torch.arange(100), 3, seed=0)
    >>> x.shape, torch.equal(x[:, 0].long(), y)
    (torch.Size([3, 1]), True)
    """
    check_number("count", count, 1)
    rows = np.random.default_rng(seed).permutation(len(y))[:count]
    return x[torch.from_numpy(rows)], y[torch.from_numpy(rows)]


def prototypes(x: Tensor, y: Tensor, count: int, *, seed: int) -> Samples:
    """About ``count`` means of clusters, found by k-means within each class: (x, y).

    A class gets prototypes in proportion to its samples, at least one. This is the simplest
    coreset: a prototype stands for the samples that are nearest to it (k-means: Lloyd 1982, "Least
    squares quantization in PCM"; by scikit-learn, one start). The values of a mean are new, so
    `Distinct` does not make them shorter: quantize them.

    Args:
        x: samples [samples, ...], floating-point.
        y: class numbers [samples].
        count: of the prototypes of all classes; with as many as there are samples, these.
        seed: of the first centres.

    Raises ValueError if ``count`` is below 1 or y holds no class numbers.

    >>> x = torch.tensor([[0.0], [2.0], [10.0], [12.0]])
    >>> prototypes(x, torch.tensor([0, 0, 1, 1]), 2, seed=0)
    (tensor([[ 1.],
            [11.]]), tensor([0, 1]))
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    check_number("count", count, 1)
    if y.dim() != 1 or y.is_floating_point():
        raise ValueError(f"y has shape {tuple(y.shape)}, {y.dtype}: give class numbers [samples]")
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
