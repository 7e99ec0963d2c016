"""What a reader has typed becomes a value: one way for guesses, checks and the quiz.

The course writes 1,104 for a thousand and more, and 3.75 with a point. A text is read like that,
too: '1,104' is 1104 and '1.104' is a little more than one. A comma that cannot separate thousands
is a decimal comma: '3,75 %' and '0,125'.
"""

import math
import re
from typing import Any

import torch

from fltoolkit.codecs.base import Codec

_BLANK = " '_\u00a0\u2009\u202f"  # between groups of three digits
_NUMBER = re.compile(
    rf"(?<![\w.,])[-+\u2212]?(?:(?:\d{{1,3}}(?:[{_BLANK}]\d{{3}})+(?!\d)|\d+(?:[.,]\d+)*)[.,]?|[.,]\d+)"
    r"(?:[eE][-+]?\d+)?"
)
_MULTIPLES = {"k": 1e3, "thousand": 1e3, "M": 1e6, "million": 1e6, "billion": 1e9}
_BYTES = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "ki": 2**10, "mi": 2**20}
_UNITS: dict[str, tuple[str, float]] = {  # a unit's kind and size
    **{prefix + "b": ("data", size) for prefix, size in _BYTES.items()},
    **{prefix + "bit": ("data", size / 8) for prefix, size in _BYTES.items()},
    **{"byte": ("data", 1), "%": ("share", 0.01), "percent": ("share", 0.01)},
    **{"ms": ("time", 0.001), "s": ("time", 1), "second": ("time", 1)},
    **{"min": ("time", 60), "minute": ("time", 60)},
}


def read_answer(answer: Any, like: Any, unit: str = "") -> Any:
    """The number of a text, if ``like`` is a number; anything else is returned as it is.

    The number is changed into ``unit`` if the text names another unit of the same kind. Without a
    ``unit``, '15 %' and '2 kB' are read as 15 and 2 or as 0.15 and 2000, whichever is nearer to
    ``like``.

    Raises:
        ValueError: ``like`` is one number, and ``answer`` holds none, or several.

    >>> read_answer("about 1,104 bytes", 1104), read_answer("3,75 %", 3.8, "%")
    (1104.0, 3.75)
    """
    wanted = number(like)
    if wanted is None:
        return answer
    if isinstance(answer, str):
        return _from_text(answer, wanted, unit)
    if isinstance(answer, tuple) and [type(item) for item in answer] == [int, int]:
        typed = ",".join(map(str, answer))
        raise ValueError(f"Python reads {typed} as two numbers. Write a point, or '{typed}'.")
    found, several = number(answer), tensor(answer)
    if found is None and (several is None or not several.ndim):
        call = ": call it and pass its result" if callable(answer) else ""
        raise ValueError(f"This is a {type(answer).__name__} where a number should be{call}.")
    return answer if found is None else found


def read_codec(answer: Any) -> Codec:
    """The answer, if it is a codec. Raises ValueError if it is something else, e.g. a text."""
    if not isinstance(answer, Codec):
        raise ValueError(f"{answer!r} is no codec: try Pipeline(Quantize(2), Entropy()).")
    return answer


def number(value: Any) -> int | float | None:
    """A real number of Python, numpy or torch as one of Python's; None if it is something else.

    Numbers beyond all floats become infinite.
    """
    if isinstance(value, str | bytes) or getattr(value, "shape", ()) != ():
        return None
    try:
        value = value.item() if hasattr(value, "item") else value
        if isinstance(value, bool):
            return None
        return value if isinstance(value, int) and abs(value) < 2**1023 else float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except Exception:  # the answer may be anything
        return None


def tensor(value: Any) -> torch.Tensor | None:
    """Real numbers as a float64 tensor of the same shape; None if ``value`` is something else."""
    try:
        tensor = torch.as_tensor(value).detach()
        return None if tensor.is_complex() else tensor.to("cpu", torch.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def _from_text(text: str, like: float, unit: str) -> float:
    """The only number of a text, in ``unit``."""
    try:
        return float(text.strip())  # also "nan", "inf" and "1_104"
    except ValueError:
        found = list(_NUMBER.finditer(text))
    if len(found) != 1:
        what = f"{len(found)} numbers" if found else "a str"
        raise ValueError(f"This is {what} where a number should be.")
    value, words = _decimal(found[0][0]), re.findall(r"%|[^\W\d_]+", text[found[0].end() :])
    if words and words[0] in _MULTIPLES:
        value *= _MULTIPLES[words.pop(0)]
    (kind, size), (wanted, step) = _unit("".join(words[:1])), _unit(unit)
    if kind and kind == wanted:
        return value * size / step
    if kind and unit:
        raise ValueError(f"This is a number of {words[0]} where one of {unit} should be.")
    return min(value, value * size, key=lambda one: abs(one - like))


def _unit(word: str) -> tuple[str, float]:
    """The kind of a unit and its size; ("", 1) if unknown."""
    word = word.casefold()
    return _UNITS.get(word) or _UNITS.get(word.removesuffix("s")) or ("", 1.0)


def _decimal(digits: str) -> float:
    """The digits of one number; the file's first lines say what a comma and a point are."""
    kept = re.sub(f"[{_BLANK}]", "", digits).replace("\u2212", "-").rstrip(".,")
    if re.fullmatch(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?", kept):
        kept = kept.replace(",", "")
    elif "," in kept:
        kept = kept.replace(".", "").replace(",", ".")
    try:
        return float(kept)
    except ValueError:
        raise ValueError(f"{digits!r} cannot be read as a number.") from None


def without_marks(text: Any) -> str:
    """A text without what makes no difference: capitals, articles, marks, an s at a word's end."""
    words = re.sub(r"[-_/\s]+", " ", str(text).casefold()).split()
    bare = [word.strip(".,;:!?'\"`()[]\u2018\u2019\u201c\u201d") for word in words]
    kept = [word for word in bare if word not in {"the", "a", "an"}] or bare
    return " ".join(word.removesuffix("s") if len(word) > 1 else word for word in kept if word)


def letter(answer: Any, letters: str) -> str:
    """One of ``letters``, as in "b", " B) " or "answer b".

    Raises ValueError if it is none of them.
    """
    found = re.fullmatch(r"(?:answer )?\W*(\w)\W*", str(answer).casefold().strip())
    if found is None or found[1] not in letters:
        raise ValueError(f"Write one letter of {', '.join(letters)}.")
    return found[1]
