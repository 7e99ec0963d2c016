"""Fewer samples: random ones.

Not here: means of clusters and made-up samples (experiments/replications/distill.py).
"""

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
