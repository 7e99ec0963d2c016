"""How the course writes values in words, and compares them. How it reads them: _reading.py."""

import math
from typing import Any

import torch

from fltoolkit_course._reading import number, tensor, without_marks


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal: as texts ("The gradient " is "gradients"), or as they are."""
    if isinstance(a, str) and isinstance(b, str):
        return without_marks(a) == without_marks(b)
    one, other = tensor(a), tensor(b)
    if one is not None and other is not None:
        return torch.equal(one, other)
    try:
        return bool(a == b)
    except Exception:  # e.g. a dict of tensors: it has no truth value
        return False


def say(value: Any) -> str:
    """A value as a reader writes it: 163,854 or 0.0312 or (the beginning of a) text."""
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if abs(value) < 2**1023 else say(number(value))
    if isinstance(value, float):
        whole = math.isfinite(value) and value.is_integer() and abs(value) < 1e15
        return f"{value:,.0f}" if whole else f"{value:.4g}"
    words = str(value)
    return words if len(words) <= 80 else f"{words[:77]}..."


def distance(guess: Any, measured: Any, subject: str = "Your guess") -> str:
    """How far ``guess`` is from ``measured``, as a sentence."""
    g, m = number(guess), number(measured)
    if g is None or m is None:
        return "Right." if same(guess, measured) else f"{subject} is not what happened."
    if math.isnan(g) or math.isnan(m):
        return f"{subject} cannot be compared: one of the two is NaN."
    if g == m:
        return f"{subject} is exactly right."
    direction = "small" if g < m else "large"
    if g * m == 0 or math.isinf(g) or math.isinf(m):
        return f"{subject} is too {direction}."
    if g * m < 0:
        return f"{subject} has the wrong sign."
    if m < 0:
        direction = "close to 0" if g > m else "far from 0"
    ratio = max(g / m, m / g)
    if ratio < 1.5:
        return f"{subject} is {100 * abs((g - m) / m):.2g} % too {direction}."
    return f"{subject} is {say(float(f'{ratio:.2g}'))} times too {direction}."


def factor(guess: Any, measured: Any) -> float | None:
    """By which factor, at least 1, a guess is off; None if there is no such factor."""
    g, m = number(guess), number(measured)
    if g is None or not m:
        return None
    ratio = g / m
    return max(ratio, 1 / ratio) if 0 < ratio < math.inf else None
