"""Settings as text and back: names of Python, read from given modules, and never ``eval``.

Here: `text_of`, which writes a codec, a gate or a call as text, and `build`, which reads calls of
known names with plain values and nothing else, so that a file from somebody else can be opened
safely. A name is looked up in the package's modules for such things (`HOMES`), and in modules of
your own, which you pass as ``modules``.
"""

import ast
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any

from torch import optim

MAX_CHARACTERS = 10_000

HOMES = (
    *("fltoolkit.codecs", "fltoolkit_research.codecs", "fltoolkit_research.pooled"),
    *("fltoolkit.split.gates", "fltoolkit.federated.clock", "fltoolkit.federated.server"),
    "fltoolkit_research.federated.privacy",
    *("fltoolkit_research.data", "fltoolkit_research.models", "fltoolkit_research.secrecy"),
    *("fltoolkit.data.datasets", "fltoolkit.models", "torch.nn.modules.loss", "torch.optim"),
)
"""Where the names in a text are looked up, in this order."""
_CLASSES = {home for home in HOMES if not home.endswith((".datasets", "models"))}  # no functions


def call_of(value: Any) -> partial[Any]:
    """A function or a class as a call that is not made yet; TypeError for anything else."""
    if not callable(value):
        raise TypeError(f"{value!r}: give a function, a class, or functools.partial of one")
    return value if isinstance(value, partial) else partial(value)


def text_of(value: Any) -> Any:
    """The value as JSON can write it: numbers as they are, a call or an object as its text.

    >>> from fltoolkit.codecs import Pipeline, Quantize
    >>> text_of(partial(optim.Adam, lr=0.01)), text_of({"clip": 1.0})
    ('Adam(lr=0.01)', {'clip': 1.0})
    >>> build(text_of(Pipeline(Quantize(8))))
    Pipeline(Quantize(bits=8, stochastic=False, seed=0, per='tensor'))
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {name: text_of(each) for name, each in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [text_of(each) for each in value]
    if isinstance(value, partial):
        words = [repr(each) for each in value.args]
        words += [f"{name}={each!r}" for name, each in value.keywords.items()]
        return f"{text_of(value.func)}({', '.join(words)})"
    has_name = isinstance(value, type) or inspect.isroutine(value)
    text = str(getattr(value, "__name__", "")) if has_name else repr(value)
    if " at 0x" in text:
        raise ValueError(
            f"{text}: this class needs a repr that says how to make it again: write it as a "
            "dataclass, or define __repr__"
        )
    return text


def named(kind: type, name: str, modules: Iterable[ModuleType]) -> Any:
    """The value of this kind, such as a `Metric`, that has this ``name`` in one of the modules."""
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, kind) and getattr(value, "name", None) == name:
                return value
    return None


def known(name: str, modules: Sequence[ModuleType] = ()) -> Any:
    """The class or function with this name in your own modules or in `HOMES`; None if none has it.

    Only what a module exports counts, not what it imports for itself; and of the package only
    classes, and functions that load data or make models.
    """
    homes: tuple[Any, ...] = (*modules, *HOMES)
    for home in homes if not name.startswith("_") else ():
        module = importlib.import_module(home) if isinstance(home, str) else home
        value: Any = getattr(module, name, None)
        counts = isinstance(value, type) or (inspect.isroutine(value) and home not in _CLASSES)
        if counts and (
            name in getattr(module, "__all__", ())
            or value.__module__ == getattr(module, "__name__", "")
        ):
            return value
    return None


def build(text: str, modules: Sequence[ModuleType] = ()) -> Any:
    """The codec, gate, clock or other value that ``text`` describes.

    A text may hold calls of classes and functions that `known` finds, numbers, strings, True,
    False, None, lists and tuples. An optimizer becomes a `functools.partial`, because its
    parameters are not known yet. Anything else raises ValueError, and no part of it is executed.

    >>> build("Pipeline(TopK(0.01), Quantize(bits=8))")
    Pipeline(TopK(fraction=0.01, scope='model'), Quantize(bits=8, stochastic=False, seed=0, per='tensor'))
    >>> build("__import__('os').getcwd()")
    Traceback (most recent call last):
    ...
    ValueError: "__import__('os').getcwd()": "__import__('os').getcwd" is not allowed ...
    """  # noqa: E501  a repr is as long as it is
    return _read(text, lambda node: _value(node, modules))


def read_call(text: str, modules: Sequence[ModuleType] = ()) -> partial[Any]:
    """The call that ``text`` describes, without making it: ``"my_data(num_samples=100)"``."""

    def outermost(node: ast.expr) -> partial[Any]:
        if isinstance(node, ast.Call):
            return _call(node, modules)
        raise ValueError(_refused(node))

    return _read(text, outermost)


def _read(text: str, value: Callable[[ast.expr], Any]) -> Any:
    if not isinstance(text, str):
        raise TypeError(f"{text!r}: expected a text such as 'Pipeline(Quantize(8))'")
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"{text[:40]!r}...: {len(text):,} characters, at most {MAX_CHARACTERS:,}")
    try:
        return value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        why += ": write numbers without quotes" * ("not supported between" in why)
        raise ValueError(f"{text!r}: {why}") from error


def _value(node: ast.expr, modules: Sequence[ModuleType]) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str | None):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _value(node.operand, modules)
        if isinstance(number, int | float):
            return -number
    if isinstance(node, ast.Tuple | ast.List):
        values = [_value(each, modules) for each in node.elts]
        return values if isinstance(node, ast.List) else tuple(values)
    if isinstance(node, ast.Call):
        call = _call(node, modules)
        waits = isinstance(call.func, type) and issubclass(call.func, optim.Optimizer)
        return call if waits else call()
    raise ValueError(_refused(node))


def _call(node: ast.Call, modules: Sequence[ModuleType]) -> partial[Any]:
    """The call of a known name, its arguments built."""
    function = known(node.func.id, modules) if isinstance(node.func, ast.Name) else None
    if function is None or not all(each.arg for each in node.keywords):  # None: **something
        raise ValueError(_refused(node))
    keywords = {str(each.arg): _value(each.value, modules) for each in node.keywords}
    return partial(function, *(_value(each, modules) for each in node.args), **keywords)


def _refused(node: ast.expr) -> str:
    what = ast.unparse(node.func if isinstance(node, ast.Call) else node)
    return (
        f"{what[:60]!r} is not allowed here. A text may hold calls of the package's codecs, gates, "
        "clocks and models and of torch's losses and optimizers, with plain values. For a class or "
        "function of your own pass the object itself, or its module as modules=[...]; on the "
        "command line add --import MODULE"
    )
