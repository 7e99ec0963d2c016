"""Settings as text: a codec or a gate written as its ``repr``, and read back without ``eval``.

Here: `build`, which reads calls of known names and plain values and nothing else, so that a file
from somebody else can be opened.
"""

import ast
from typing import Any

from fltoolkit import codecs
from fltoolkit.split import gates

__all__ = ["allow", "build"]

MAX_CHARACTERS = 10_000

_NAMES: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        *(codecs.Identity, codecs.Pipeline, codecs.ErrorFeedback, codecs.Only),
        codecs.Difference,
        *(codecs.Quantize, codecs.QSGD, codecs.Ternary, codecs.Sign),
        *(codecs.Quantiles, codecs.LloydMax, codecs.Float8, codecs.Half, codecs.BFloat16),
        *(codecs.TopK, codecs.RandomK, codecs.RandTopK, codecs.SameMask, codecs.STC, codecs.DGC),
        *(codecs.Rotate, codecs.DRIVE, codecs.EDEN, codecs.PowerSGD),
        *(codecs.BitPack, codecs.Entropy, codecs.Deflate, codecs.Zstd),
        *(gates.AlwaysA, gates.LossGate, gates.Periodic, gates.FreezeAfter, gates.LogSpaced),
        *(gates.BudgetGate, gates.BangBang, gates.Decay),
    )
}


def allow(*classes: type) -> None:
    """Let texts name classes of your own, e.g. a stage that you wrote: ``allow(PowersOfTwo)``.

    Say it at the top level of your script, so that the worker processes of a sweep hear it too; or
    of a module that is named there, ``sweep(..., imports=["my_codecs"])``.
    """
    for cls in classes:
        if not isinstance(cls, type):
            raise TypeError(f"allow({cls!r}): pass the class itself, not one of its objects")
        if _NAMES.setdefault(cls.__name__, cls) is not cls:
            raise ValueError(f"{cls.__name__} is the name of another class here: rename yours")


def build(text: str) -> Any:
    """The codec or gate that ``text`` describes.

    Allowed are calls of the package's codecs, stages and gates (and what `allow` added), numbers,
    texts, True, False, None, lists and tuples. Anything else raises ValueError, and nothing of it
    is executed.

    >>> build("Pipeline(TopK(0.01), Quantize(bits=8))")
    Pipeline(TopK(fraction=0.01, scope='model'), Quantize(bits=8, stochastic=False, seed=0, per='tensor'))
    >>> build("__import__('os').getcwd()")
    Traceback (most recent call last):
    ...
    ValueError: "__import__('os').getcwd()": "__import__('os').getcwd" is not allowed ...
    """  # noqa: E501  a repr is as long as it is
    if not isinstance(text, str):
        raise TypeError(f"{text!r}: expected a text such as 'Pipeline(Quantize(8))'")
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"{text[:40]!r}...: {len(text):,} characters, at most {MAX_CHARACTERS:,}")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError) as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        why += ": are numbers without quotes?" * ("not supported between" in why)
        raise ValueError(f"{text!r}: {why}") from error


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str | None):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _value(node.operand)
        if isinstance(number, int | float):
            return -number
    if isinstance(node, ast.Tuple):
        return tuple(map(_value, node.elts))
    if isinstance(node, ast.List):
        return list(map(_value, node.elts))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _NAMES:
        keywords = {each.arg: _value(each.value) for each in node.keywords if each.arg}
        if len(keywords) == len(node.keywords):  # no **something
            return _NAMES[node.func.id](*map(_value, node.args), **keywords)
    what = ast.unparse(node.func if isinstance(node, ast.Call) else node)
    raise ValueError(
        f"{what[:60]!r} is not allowed here. Known names: {', '.join(sorted(_NAMES))}. "
        "A class of your own becomes known by fltoolkit.research.allow(YourClass). "
        "Say it in a module, "
        "for the command line, and there --import MODULE"
    )
