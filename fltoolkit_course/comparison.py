"""The check of an answer: right or not, and how far off it is, in words.

A wrong answer gets a sentence and raises no error. The expected value is an argument of `check`: it
is not hidden. Not here: how a typed answer is read (_reading.py).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from fltoolkit_course._reading import number, read_answer, tensor, without_marks

Hint = tuple[Any, str]  # a wrong answer, or a function that is true for such, and what is said
Hints = Mapping[Any, str] | Sequence[Hint]


def near(value: float, by: float) -> Callable[[float], bool]:
    """For a hint: whether an answer is less than ``by`` away from this value."""
    return lambda answer: abs(answer - value) < by


def check(
    name: str, answer: Any, expected: Any, *, tolerance: float = 0.0, hints: Hints = ()
) -> bool:
    """Say whether ``answer`` is right and, if not, how far off it is; True if it is right.

    Args:
        name: what is checked; the printed line begins with it.
        answer: number, text, list or tensor; None or ``...`` means "not answered yet". Lists,
            tuples and arrays with the values of a tensor are as good as the tensor. Of a text like
            "28 bits" the number is read if a number is expected.
        expected: the right answer. A NaN in the answer is never right. If it is ``[]``, the
            answer is a list of what is still missing, in words.
        tolerance: largest absolute difference that still counts as right.
        hints: pairs ``(wrong answer, message)`` or ``(function, message)``, where the function of
            the answer says whether the message fits, or ``{wrong answer: message}``. The first
            message that fits is printed.

    >>> check("bytes up", 64 * 640, 163_840, hints=[(40_960, "Each float32 takes 4 bytes.")])
    bytes up: not yet. 40,960 is 4 times too small. Each float32 takes 4 bytes.
    False
    """
    if answer is None or answer is ...:
        print(f"{name}: not answered yet. Replace None by your answer and run this cell again.")
        return False
    try:
        answer = _alike(read_answer(answer, expected), expected)
        right, message = _compare(answer, expected, tolerance)
    except ValueError as error:
        right, message = False, f"not yet. {error}"
    hint = "" if right else _hint(answer, hints, tolerance)
    print(f"{name}: {message} {hint}".rstrip())
    return right


def _alike(answer: Any, expected: Any) -> Any:
    """The answer as hints get it: a tensor if one is expected, and lists in place of tuples."""
    if isinstance(expected, torch.Tensor) and (numbers := tensor(answer)) is not None:
        return numbers.to(expected.dtype) if expected.is_floating_point() else numbers
    if isinstance(expected, list) and isinstance(answer, list | tuple):
        if len(answer) != len(expected):
            return [*answer]
        return [_alike(one, other) for one, other in zip(answer, expected, strict=True)]
    return answer


def _compare(answer: Any, expected: Any, tolerance: float) -> tuple[bool, str]:
    """Whether the answer is right, and a sentence that says so or says what is wrong."""
    missing = isinstance(expected, list) and not expected and isinstance(answer, list)
    if missing and {type(item) for item in answer} == {str}:
        return False, f"not yet. Still missing: {', '.join(answer)}."
    a, e = tensor(answer), tensor(expected)
    if e is None:
        right = a is None and same(answer, expected)
        return right, "right." if right else f"not yet. {say(answer)} is not the right answer."
    if a is None:
        wanted = "a number" if e.ndim == 0 else f"numbers of shape {tuple(e.shape)}"
        return False, f"not yet. This is a {type(answer).__name__} where {wanted} should be."
    if a.shape != e.shape:
        return False, f"not yet. Its shape is {tuple(a.shape)}, it should be {tuple(e.shape)}."
    right, message = _compare_numbers(a, e, tolerance)
    return right, message or f"not yet. {distance(answer, expected, say(answer))}"


def _compare_numbers(a: torch.Tensor, e: torch.Tensor, tolerance: float) -> tuple[bool, str]:
    """Whether numbers of one shape are right, and a sentence; none for one number that is wrong."""
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
        return False, ""
    wrong = int((~(difference <= tolerance)).sum())
    return False, f"not yet. {wrong} of {a.numel()} values differ, by up to {largest:.4g}."


def _hint(answer: Any, hints: Hints, tolerance: float) -> str:
    """The first hint that fits the answer; if its function raises an error, it does not fit."""
    for wrong, message in hints.items() if isinstance(hints, Mapping) else hints:
        try:
            if wrong(answer) if callable(wrong) else _compare(answer, wrong, tolerance)[0]:
                return message
        except Exception:  # the answer may be anything
            continue
    return ""


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


def distance(guess: Any, measured: Any, subject: str = "Your guess", unit: str = "") -> str:
    """How far ``guess`` is from ``measured``, as a sentence.

    By a factor or in per cent; but a difference if the ``unit`` is "points" or such as "of 100".
    """
    g, m = number(guess), number(measured)
    if g is None or m is None:
        return "Right." if same(guess, measured) else f"{subject} is not what happened."
    if math.isnan(g) or math.isnan(m):
        return f"{subject} cannot be compared: one of the two is NaN."
    if g == m:
        return f"{subject} is exactly right."
    direction = "small" if g < m else "large"
    if math.isinf(g) or math.isinf(m):
        return f"{subject} is too {direction}."
    if g * m < 0:
        return f"{subject} has the wrong sign."
    if g * m == 0 or unit == "points" or unit.startswith("of "):
        by = f"{say(abs(g - m))} {unit}".rstrip()
        return f"{subject} is {'1 point' if by == '1 points' else by} too {direction}."
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
