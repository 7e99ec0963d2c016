"""What a reader has typed becomes a value: one way for guesses, checks and the quiz.

The course writes 1,104 for a thousand and more, and 3.75 with a point. A text is read like that,
too: '1,104' is 1104 and '1.104' is a little more than one. A comma that cannot separate thousands
is a decimal comma: '3,75 %' and '0,125'. Not here: comparing (comparison.py) and how
values are written (_words.py).
"""

import math
import re
from typing import Any

import torch

_BITS = {"bit": 1, "b": 8, "byte": 8}
_PREFIXES = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "kilo": 1e3, "mega": 1e6, "giga": 1e9}
_PREFIXES |= {"ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30}
_UNITS: dict[str, dict[str, float]] = {  # each kind, and its units by size; "b" is a byte
    "data": {p + u: n * size for p, n in _PREFIXES.items() for u, size in _BITS.items()},
    "share": {"%": 1, "percent": 1, "point": 1, "pp": 1},
    "time": {"ms": 0.001, "s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "hour": 3600},
}
_MULTIPLES = {"k": 1e3, "thousand": 1e3, "M": 1e6, "million": 1e6, "billion": 1e9}
_BLANK = " '_\u00a0\u2009\u202f"  # between groups of three digits
_NUMBER = re.compile(
    rf"(?<![\w.,])[-+\u2212]?(?:(?:\d{{1,3}}(?:[{_BLANK}]\d{{3}})+(?!\d)|\d+(?:[.,]\d+)*)[.,]?|[.,]\d+)"
    r"(?:[eE][-+]?\d+)?"
)
_AMBIGUOUS = re.compile(r"[-+]?[1-9]\d{0,2}[.,]\d{3}")
_ARTICLES = {"the", "a", "an"}
_YES_OR_NO = {
    "ye": True,
    "true": True,
    "no": False,
    "false": False,
}  # as `without_marks` leaves them


def read_answer(answer: Any, like: Any, unit: str = "") -> Any:
    """``answer`` as a value of the same kind as ``like``: a number, numbers, yes or no, or text.

    A number is read out of a text, and changed into ``unit`` if the text names another unit of the
    same kind. Without a ``unit``, '15 %' and '2 kB' are read as 15 and 2 or as 0.15 and 2000,
    whichever is nearer to ``like``. What needs no reading is returned as it is.

    Raises:
        ValueError: ``like`` is one number, and ``answer`` holds none, or several.

    >>> read_answer("about 1,104 bytes", 1104), read_answer("3,75 %", 3.8, "%")
    (1104.0, 3.75)
    >>> read_answer("0.3 GB", 330.0, "MB"), read_answer("[1, 2.5]", [1.0, 2.0])
    (300.0, [1.0, 2.5])
    >>> read_answer("yes", True), read_answer(["the gradients"], "gradients")
    (True, 'the gradients')
    """
    if isinstance(like, str):
        alone = isinstance(answer, list | tuple) and len(answer) == 1
        return answer[0] if alone and isinstance(answer[0], str) else answer
    if isinstance(like, bool):
        return _YES_OR_NO.get(without_marks(answer), answer) if isinstance(answer, str) else answer
    if number(like) is not None:
        return _one_number(answer, like, unit)
    numbers = tensor(like)
    if numbers is not None and numbers.ndim == 1:
        return _several_numbers(answer, numbers.tolist(), unit)
    return answer


def number(value: Any) -> int | float | None:
    """A real number of Python, numpy or torch as one of Python's; None if it is something else.

    Numbers beyond all floats become infinite.
    """
    if isinstance(value, str | bytes | list | tuple | dict | complex) or value is None:
        return None
    try:
        value = value.item() if getattr(value, "shape", None) == () else value
        if isinstance(value, bool | complex) or callable(value) or getattr(value, "shape", None):
            return None
        return value if isinstance(value, int) and abs(value) < 2**1023 else float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except Exception:  # the answer may be anything
        return None


def _one_number(answer: Any, like: Any, unit: str) -> Any:
    if isinstance(answer, list | tuple) and len(answer) == 1:
        answer = answer[0]
    if isinstance(answer, str):
        return _from_text(answer, float(number(like) or 0), unit)
    if isinstance(answer, tuple) and [type(item) for item in answer] == [int, int]:
        typed = ",".join(map(str, answer))
        raise ValueError(f"Python reads {typed} as two numbers. Write a point, or '{typed}'.")
    if isinstance(answer, bool | complex) or tensor(answer) is None:
        if (found := number(answer)) is not None:
            return found
        if callable(answer):
            raise ValueError("This is a function: call it and pass its result.")
        raise ValueError(f"This is a {type(answer).__name__} where a number should be.")
    return answer if (found := number(answer)) is None else found


def _from_text(text: str, like: float, unit: str) -> float:
    """The only number of a text, in ``unit``."""
    try:
        return float(text.strip())  # also "nan", "inf" and "1_104"
    except ValueError:
        found = list(_NUMBER.finditer(text))
    if len(found) != 1:
        what = f"{len(found)} numbers" if found else f"a {type(text).__name__}"
        raise ValueError(f"This is {what} where a number should be.")
    value, words = _decimal(found[0][0]), re.findall(r"%|[^\W\d_]+", text[found[0].end() :])
    if words and words[0] in _MULTIPLES:
        value *= _MULTIPLES[words.pop(0)]
    named = words[0] if words else ""
    named = {"per": "percent", "percentage": "point"}.get(named, named)
    (kind, size), (wanted_kind, wanted) = _unit(named), _unit(unit)
    if not kind or named == unit:
        return value
    if wanted_kind == kind:
        return value * size / wanted
    if unit:
        raise ValueError(f"This is a number of {words[0]} where one of {unit} should be.")
    base = (
        100.0
        if kind == "share"
        else 8.0
        if kind == "data" and "bit" not in named.casefold()
        else 1.0
    )
    return min(value, value * size / base, key=lambda one: abs(one - like))


def _unit(word: str) -> tuple[str, float]:
    """The kind of a unit, and its size in the smallest unit of its kind; ("", 1) if unknown."""
    for name in (word.casefold(), word.casefold().removesuffix("s")):
        for kind, units in _UNITS.items():
            if name in units:
                return kind, units[name]
    return "", 1.0


def _decimal(digits: str) -> float:
    """The digits of one number; the file's first lines say what a comma and a point are."""
    kept = re.sub(f"[{_BLANK}]", "", digits).replace("\u2212", "-").rstrip(".,")
    if "," in kept and "." in kept:
        kept = kept.replace(min(",.", key=kept.rindex), "")
    else:
        sign = "," if "," in kept else "."
        groups = re.fullmatch(rf"[-+]?[1-9]\d{{0,2}}(\{sign}\d{{3}})+", kept)
        if groups and (sign == "," or kept.count(".") > 1):
            kept = kept.replace(sign, "")
    try:
        return float(kept.replace(",", "."))
    except ValueError:
        raise ValueError(f"{digits!r} cannot be read as a number.") from None


def _several_numbers(answer: Any, like: list[float], unit: str) -> Any:
    """Texts as a list of numbers; what cannot be read is returned as it is."""
    parts = answer
    if isinstance(answer, str):
        inside = answer.strip(" []()")
        parts = re.split(r"\s*;\s*|,\s+|\s+and\s+|\s+", inside)
        parts = parts if len(parts) > 1 else inside.split(",")
    if isinstance(parts, list | tuple) and any(isinstance(part, str) for part in parts):
        try:
            return [_one_number(a, b, unit) for a, b in zip(parts, like, strict=True)]
        except ValueError:
            return answer
    return answer


def note(answer: Any, like: Any) -> str:
    """How a text like '1.104' was read, if the other way to read it is nearer to ``like``."""
    wanted = number(like)
    found = _NUMBER.search(answer) if isinstance(answer, str) else None
    if wanted is None or found is None or not _AMBIGUOUS.fullmatch(found[0]):
        return ""
    value = _decimal(found[0])
    other = value / 1000 if "," in found[0] else value * 1000
    if abs(other - wanted) >= abs(value - wanted):
        return ""
    sign = "comma separates thousands" if "," in found[0] else "point is a decimal point"
    return f"'{found[0]}' is read as {value:.7g}: the {sign}."


def without_marks(text: Any) -> str:
    """A text without what makes no difference: capitals, articles, marks, an s at a word's end."""
    words = re.sub(r"[-_/\s]+", " ", str(text).casefold()).split()
    bare = [word.strip(".,;:!?'\"`()[]\u2018\u2019\u201c\u201d") for word in words]
    kept = [word for word in bare if word not in _ARTICLES] or bare
    return " ".join(word.removesuffix("s") if len(word) > 1 else word for word in kept if word)


def letter(answer: Any, letters: str) -> str:
    """One of ``letters``, as in "b", " B) " or "answer b".

    Raises ValueError if it is none of them.
    """
    if isinstance(answer, list | tuple | set) and len(answer) == 1:
        (answer,) = answer
    words = str(answer).casefold().split()
    if len(words) == 2 and words[0] in {"answer", "option", "letter"}:
        del words[0]
    found = "".join(words).strip("().:;,!'\"`")
    if len(found) != 1 or found not in letters:
        raise ValueError(f"Write one letter of {', '.join(letters)}.")
    return found


def tensor(value: Any) -> torch.Tensor | None:
    """Real numbers as a float64 tensor of the same shape; None if ``value`` is something else."""
    try:
        tensor = torch.as_tensor(value).detach()
        return None if tensor.is_complex() else tensor.to("cpu", torch.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
