"""A short text that stands for a value, so that an expected answer need not be printed."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def fingerprint(value: Any) -> str:
    """A line of text for a value, which differs for different values; assignments print it.

    Whole numbers, text and truth values are written as they are, other numbers with nine digits. Of
    a tensor or an array the line has the shape, the mean, the norm, the first and the last value
    and a mean weighted by position. Without dimensions it counts as a number.

    >>> fingerprint([3, 0.5, "A"])
    '[3, 5.00000000e-01, A]'
    """
    if getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value)
    if isinstance(value, torch.Tensor):
        flat = value.detach().double().flatten()
        if not len(flat):
            return f"{tuple(value.shape)} empty"
        place = torch.arange(1, len(flat) + 1) / len(flat)
        numbers = [flat.mean(), flat.norm(), flat[0], flat[-1], (flat * place).mean()]
        return f"{tuple(value.shape)} " + " ".join(f"{x.item():.8e}" for x in numbers)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {fingerprint(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(fingerprint, value)) + "]"
    return f"{value:.8e}" if isinstance(value, float) else str(value)
