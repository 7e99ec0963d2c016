"""Models as lists of layers, so that ``model[:cut], model[cut:]`` splits them.

All models return log-probabilities for ``nn.NLLLoss``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import nn

__all__ = ["mcmahan_2nn", "mcmahan_cnn", "seeded", "splitnn_mlp"]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside this context, weights are drawn from ``seed``; torch's global generator is restored.

    Layers draw their first weights from the global CPU generator, so a seed gives the same weights
    on every machine; move the model to another device afterwards with ``.to``. Under
    ``torch.device("meta")`` the model has shapes only and takes no memory.

    >>> with seeded(3):
    ...     round(nn.Linear(1, 1).weight.item(), 4)
    -0.9915
    """
    device = torch.device("meta" if torch.empty(0).is_meta else "cpu")
    with torch.random.fork_rng(devices=[]), device:
        # Not torch.manual_seed: it would also seed every GPU, and not restore it.
        torch.default_generator.manual_seed(seed)
        yield


def splitnn_mlp(num_features: int = 784, num_classes: int = 10, *, seed: int) -> nn.Sequential:
    """The network of the classic PySyft SplitNN tutorial: 784-128-640 at Alice, 640-10 at Bob.

    The tutorial cuts at 4: each sample of MNIST sends 640 activations. With a cut at 2, it sends
    128. Inputs are flat: ``"batch num_features"``.

    >>> model = splitnn_mlp(seed=0)
    >>> bottom, top = model[:4], model[4:]
    >>> sum(p.numel() for p in bottom.parameters()), sum(p.numel() for p in top.parameters())
    (183040, 6410)
    """
    with seeded(seed):
        return nn.Sequential(*_dense(num_features, 128, 640, num_classes))


def mcmahan_2nn(num_classes: int = 10, *, seed: int) -> nn.Sequential:
    """The "2NN" of the first federated averaging paper, 784-200-200-10: 199,210 parameters.

    McMahan et al. 2017, arXiv 1602.05629, section 3. Inputs are flat: ``"batch 784"``.

    >>> sum(p.numel() for p in mcmahan_2nn(seed=0).parameters())
    199210
    """
    with seeded(seed):
        return nn.Sequential(*_dense(784, 200, 200, num_classes))


def mcmahan_cnn(num_classes: int = 10, *, seed: int) -> nn.Sequential:
    """The CNN of the first federated averaging paper, for 1 x 28 x 28: 1,663,370 parameters.

    Two 5 x 5 convolutions of 32 and 64 channels with 2 x 2 pooling, then 512 units (McMahan et al.
    2017, arXiv 1602.05629, section 3). TensorFlow Federated's compression tutorial uses it too.

    >>> sum(p.numel() for p in mcmahan_cnn(seed=0).parameters())
    1663370
    """
    with seeded(seed):
        return nn.Sequential(
            nn.Conv2d(1, 32, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            *_dense(3136, 512, num_classes),
        )


def _dense(*widths: int) -> list[nn.Module]:
    """Linear layers with ReLU between them, then the log-probabilities of the classes."""
    layers: list[nn.Module] = []
    for width_in, width in pairwise(widths):
        layers += [nn.Linear(width_in, width), nn.ReLU()]
    return [*layers[:-1], nn.LogSoftmax(dim=1)]
