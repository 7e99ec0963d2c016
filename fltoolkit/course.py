"""What the notebooks ask of their reader: guesses before a result, and checks of an answer.

Both only print and never raise for a wrong answer. The expected values stand in the notebooks'
own cells, nothing is hidden here.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

__all__ = ["check", "fingerprint", "predict"]

Hints = Mapping[Any, str] | Sequence[tuple[Callable[[Any], bool], str]]


def predict(question: str, guess: Any, measured: Any, unit: str = "") -> None:
    """Print the reader's guess beside the measured value, and in words how far off it was.

    With a guess of None (or ``...``) the measured value is not printed: first guess, then look.

    >>> predict("How many bytes go up?", 50_000, 163_854, "B")
    How many bytes go up?
      your guess: 50,000 B
      measured:   163,854 B
      Your guess is 3.3 times too small.
    """
    print(question)
    if guess is None or guess is ...:
        print("  No guess yet. Replace None by yours and run this cell again: a wrong guess")
        print("  costs nothing, and it makes the result stick.")
        return
    print(f"  your guess: {_say(guess)} {unit}".rstrip())
    print(f"  measured:   {_say(measured)} {unit}".rstrip())
    print(f"  {_distance(guess, measured)}")


def check(
    name: str,
    answer: Any,
    expected: Any,
    *,
    tolerance: float = 0.0,
    hints: Hints | None = None,
) -> bool:
    """Say whether ``answer`` is right and, if not, how far off it is; True if it is right.

    Args:
        name: what is checked, the first words of what is printed.
        answer: number, text, list or tensor; None or ``...`` stands for "not answered yet".
        expected: the right answer. A NaN in the answer is never right. ``[]``: the answer is a
            list of what is still missing, in words.
        tolerance: largest absolute difference that still counts as right.
        hints: {wrong answer: message}, or [(predicate of the answer, message), ...]; the first
            that fits is printed with a wrong answer.

    >>> check("bytes up", 64 * 640, 163_840, hints={40_960: "Each float32 takes 4 bytes."})
    bytes up: not yet. 40,960 is 4 times too small. Each float32 takes 4 bytes.
    False
    """
    if answer is None or answer is ...:
        print(f"{name}: not answered yet. Replace None by your answer and run this cell again.")
        return False
    right, message = _compare(answer, expected, tolerance)
    hint = "" if right else _hint(answer, hints, tolerance)
    print(f"{name}: {message} {hint}".rstrip())
    return right


def fingerprint(value: Any) -> str:
    """A value in one line that differs where the value does; what graded assignments print.

    Whole numbers, text and truth values stand as they are. Numbers have nine digits. A tensor
    becomes shape, mean, norm, first and last value and a mean weighted by position; one without
    dimensions, and NumPy's numbers, are numbers.

    >>> fingerprint([3, 0.5, "A"])
    '[3, 5.00000000e-01, A]'
    """
    if getattr(value, "ndim", None) == 0:
        value = value.item()
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


def _compare(answer: Any, expected: Any, tolerance: float) -> tuple[bool, str]:
    """Whether the answer is right, and the sentence about it."""
    if callable(answer) and not callable(expected):
        return False, "not yet. This is a function: call it and pass its result."
    a, e = _tensor(answer), _tensor(expected)
    if isinstance(expected, list) and not expected and _is_words(answer):
        return False, f"not yet. Still missing: {', '.join(answer)}."
    if e is None:
        right = a is None and _same(answer, expected)
        return right, "right." if right else f"not yet. {_say(answer)} is not it."
    if a is None:
        wanted = "a number" if e.ndim == 0 else f"numbers of shape {tuple(e.shape)}"
        return False, f"not yet. This is a {type(answer).__name__} where {wanted} should be."
    if a.shape != e.shape:
        return False, f"not yet. Its shape is {tuple(a.shape)}, it should be {tuple(e.shape)}."
    dtypes = [value.dtype for value in (answer, expected) if isinstance(value, torch.Tensor)]
    if len(set(dtypes)) == 2:
        return False, f"not yet. Its dtype is {dtypes[0]}, it should be {dtypes[1]}."
    num_nan = int(a.isnan().sum())
    if num_nan:
        where = "it is NaN" if a.ndim == 0 else f"{num_nan} of {a.numel()} values are NaN"
        return False, f"not yet. NaN is never right, and {where}."
    difference = torch.where(a == e, 0.0, (a - e).abs())  # inf - inf would be NaN
    largest = float(difference.max()) if a.numel() else 0.0
    if largest == 0:
        return True, "right, exactly."
    if largest <= tolerance:
        return True, f"right within {tolerance:g} (largest difference {largest:.2g})."
    if a.ndim == 0:
        return False, f"not yet. {_distance(answer, expected, _say(answer))}"
    wrong = int((~(difference <= tolerance)).sum())
    return False, f"not yet. {wrong} of {a.numel()} values differ, by up to {largest:.4g}."


def _distance(guess: Any, measured: Any, subject: str = "Your guess") -> str:
    """How far ``guess`` is from ``measured``, as a sentence."""
    try:
        g, m = float(guess), float(measured)
    except (TypeError, ValueError):
        return "Right." if _same(guess, measured) else f"{subject} is not what happened."
    if math.isnan(g) or math.isnan(m):
        return f"{subject} cannot be compared: one of the two is NaN."
    if g == m:
        return f"{subject} is exactly right."
    direction = "small" if g < m else "large"
    if not (0 < g < math.inf and 0 < m < math.inf):  # no ratio that would make sense
        return f"{subject} is {_say(abs(g - m))} too {direction}."
    ratio = max(g, m) / min(g, m)
    if ratio < 1.5:
        return f"{subject} is {100 * abs(g - m) / m:.2g} % too {direction}."
    return f"{subject} is {_say(float(f'{ratio:.2g}'))} times too {direction}."


def _hint(answer: Any, hints: Hints | None, tolerance: float) -> str:
    """The first hint that fits the answer; a predicate that fails on it does not fit."""
    if isinstance(hints, Mapping):
        for wrong, message in hints.items():
            if _compare(answer, wrong, tolerance)[0]:
                return message
    for fits, message in [] if hints is None or isinstance(hints, Mapping) else hints:
        try:
            if fits(answer):
                return message
        except Exception:  # the answer may be anything
            continue
    return ""


def _tensor(value: Any) -> torch.Tensor | None:
    """Real numbers as a float64 tensor of the same shape; None if ``value`` is something else."""
    try:
        tensor = torch.as_tensor(value).detach()
        return None if tensor.is_complex() else tensor.to("cpu", torch.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def _is_words(value: Any) -> bool:
    """Whether ``value`` is a list of texts, and not empty."""
    return isinstance(value, list) and {type(item) for item in value} == {str}


def _same(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except Exception:  # e.g. a dict of tensors: it has no truth value
        return False


def _say(value: Any) -> str:
    """A value as a reader writes it: 163,854 or 0.0312 or (the beginning of a) text."""
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float):
        whole = math.isfinite(value) and value.is_integer() and abs(value) < 1e15
        return f"{value:,.0f}" if whole else f"{value:.4g}"
    words = str(value)
    return words if len(words) <= 80 else f"{words[:77]}..."
