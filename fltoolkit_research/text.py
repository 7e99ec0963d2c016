"""Settings as text: a codec, a gate, a data set or an optimizer, read back without ``eval``.

Here: `build`, which reads calls of known names and plain values and nothing else, so that a file
from somebody else can be opened safely; and `allow`, which makes your own names known.
"""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn, optim

from fltoolkit import codecs, models
from fltoolkit.codecs.base import Codec
from fltoolkit.codecs.stage import Stage
from fltoolkit.federated import clock, server
from fltoolkit.metrics import ACCURACY, Metric
from fltoolkit.split import gates
from fltoolkit_research import codecs as more_codecs
from fltoolkit_research import metrics
from fltoolkit_research.data import archives
from fltoolkit_research.federated import exchange, local_steps, privacy
from fltoolkit_research.pooled import compressors, jpeg, shrink

MAX_CHARACTERS = 10_000

_OTHERS = {  # each module, and those of its names that a text may hold
    gates: "AlwaysA LossGate Periodic FreezeAfter BudgetGate Decay",
    clock: "Even LogNormal Drop Constant Polynomial Hinge",
    privacy: "GaussianDP",
    models: "splitnn_mlp mcmahan_2nn mcmahan_cnn",
    nn: "NLLLoss CrossEntropyLoss BCELoss BCEWithLogitsLoss MSELoss L1Loss SmoothL1Loss HuberLoss "
    "PoissonNLLLoss",
    optim: "SGD Adam AdamW Adamax NAdam RAdam Adagrad Adadelta RMSprop",
    server: "Yogi",
    exchange: "ThroughServer AllGather Ring",
    local_steps: "Stream",
    compressors: "Distinct Smallest",
    archives: "load_cifar10",
    jpeg: "Jpeg",
    shrink: "Shrink",
}


def _own_names() -> dict[str, Any]:
    """All codecs and stages of the package, its metrics, and `_OTHERS`, by name."""
    found = {name: getattr(module, name) for module in _OTHERS for name in _OTHERS[module].split()}
    both = {name: room for room in (codecs, more_codecs) for name in room.__all__}
    for name in both.keys() - {"Codec"}:  # which does nothing by itself
        thing = getattr(both[name], name)
        if isinstance(thing, type) and issubclass(thing, Codec | Stage):
            found[name] = thing
    values = [ACCURACY, *(getattr(metrics, name) for name in metrics.__all__)]
    return found | {each.name: each for each in values}


_NAMES = _own_names()


@dataclass(frozen=True)
class Call:
    """A call that was read from text but not yet made; arguments can be added when it is made."""

    name: str
    args: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)

    @property
    def target(self) -> Callable[..., Any]:
        """The class or function that is called."""
        return _NAMES[self.name]

    def __call__(self, *first: Any, **more: Any) -> Any:
        """Make the call; ``first`` come before its own arguments, ``more`` are more keywords."""
        return self.target(*first, *self.args, **self.keywords, **more)

    def __repr__(self) -> str:
        words = [*map(repr, self.args), *(f"{k}={v!r}" for k, v in self.keywords.items())]
        return f"{self.name}({', '.join(words)})"


def allow(*things: Any) -> None:
    """Make your own classes and functions known: ``allow(PowersOfTwo, my_data, my_model, GOSSIP)``.

    Texts can then name them. Classes (codecs, stages, gates, losses, optimizers) and functions
    (that make a data set, a model or a loss) are known by their name in Python. A
    `fltoolkit.metrics.Metric` and a `fltoolkit_research.Protocol` are known by their ``name``.

    Call ``allow`` at the top level of your script, so that the worker processes of a sweep call it,
    too. Or call it in a module and pass the module's name to the sweep:
    ``sweep(..., imports=["my_codecs"])``.

    >>> class TimesTwo(nn.Module):
    ...     def forward(self, x):
    ...         return 2 * x
    >>> allow(TimesTwo)
    >>> build("TimesTwo()")
    TimesTwo()
    """
    for thing in things:
        name = _name_of(thing)
        known = _NAMES.setdefault(name, thing)
        if known is not thing:
            if _home(known) != _home(thing):
                raise ValueError(f"{name} is already the name of another class: rename yours")
            _NAMES[name] = thing  # redefined, as when a cell of a notebook is run twice


def _name_of(thing: Any) -> str:
    if callable(thing):
        if name := getattr(thing, "__name__", ""):
            return name
    elif isinstance(name := getattr(thing, "name", None), str):
        return name
    raise TypeError(
        f"allow({thing!r}): pass a class or a function (not an object that it makes), a Metric or "
        "a Protocol"
    )


def _home(thing: Any) -> tuple[str, str]:
    """The module and name of ``thing``; for a metric or protocol, those of its function."""
    if not callable(thing):
        thing = (thing.measure or thing.of_all) if isinstance(thing, Metric) else thing.train
    return getattr(thing, "__module__", ""), getattr(thing, "__qualname__", "")


def names_of(kind: type) -> list[str]:
    """The names that stand for values of this kind, e.g. of metrics."""
    return [name for name, thing in _NAMES.items() if isinstance(thing, kind)]


def home_of(text: str) -> set[str]:
    """The modules, outside of this package and torch, whose names occur in a text."""
    names = {
        node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)
    }
    modules = {_home(_NAMES[name])[0] for name in names if name in _NAMES}
    return {
        each
        for each in modules
        if each.split(".")[0] not in ("fltoolkit", "fltoolkit_research", "torch", "")
    }


def build(text: str) -> Any:
    """The codec, gate, metric or other value that ``text`` describes.

    A text may hold calls of the package's codecs, stages and gates (and of names that `allow`
    added), numbers, strings, True, False, None, lists and tuples. An optimizer is read as a `Call`,
    because its parameters are not known yet. Anything else raises ValueError, and no part of it is
    executed.

    >>> build("Pipeline(TopK(0.01), Quantize(bits=8))")
    Pipeline(TopK(fraction=0.01, scope='model'), Quantize(bits=8, stochastic=False, seed=0, per='tensor'))
    >>> build("__import__('os').getcwd()")
    Traceback (most recent call last):
    ...
    ValueError: "__import__('os').getcwd()": "__import__('os').getcwd" is not allowed ...
    """  # noqa: E501  a repr is as long as it is
    return _read(text, _value)


def read_call(text: str) -> Call:
    """The call that ``text`` describes, without making it: ``"my_data(num_samples=100)"``.

    Raises ValueError for a text that is no call of a known name with plain values.

    >>> call = read_call("Adam( lr = 0.01 )")
    >>> call, call.keywords
    (Adam(lr=0.01), {'lr': 0.01})
    """

    def outermost(node: ast.expr) -> Call:
        if isinstance(node, ast.Call) and (call := _call(node)):
            return call
        raise ValueError(_refused(node))

    return _read(text, outermost)


def may_be_called(name: str) -> bool:
    """Whether this is the name of something allowed that a text can call."""
    return callable(_NAMES.get(name))


def _read(text: str, value: Callable[[ast.expr], Any]) -> Any:
    if not isinstance(text, str):
        raise TypeError(f"{text!r}: expected a text such as 'Pipeline(Quantize(8))'")
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"{text[:40]!r}...: {len(text):,} characters, at most {MAX_CHARACTERS:,}")
    try:
        return value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError) as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        why += ": write numbers without quotes" * ("not supported between" in why)
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
    if isinstance(node, ast.Name) and node.id in _NAMES and not callable(_NAMES[node.id]):
        return _NAMES[node.id]  # a metric or a protocol
    if isinstance(node, ast.Call) and (call := _call(node)):
        waits = isinstance(call.target, type) and issubclass(call.target, optim.Optimizer)
        return call if waits else call()
    raise ValueError(_refused(node))


def _call(node: ast.Call) -> Call | None:
    """The call of a known name, its arguments built; None for anything else."""
    if not isinstance(node.func, ast.Name) or not callable(_NAMES.get(node.func.id)):
        return None
    keywords = {each.arg: _value(each.value) for each in node.keywords if each.arg}
    if len(keywords) != len(node.keywords):  # **something
        return None
    return Call(node.func.id, tuple(map(_value, node.args)), keywords)


def _refused(node: ast.expr) -> str:
    what = ast.unparse(node.func if isinstance(node, ast.Call) else node)
    if isinstance(node, ast.Name) and may_be_called(what):
        return f"{what} is called, so write {what}()"
    return (
        f"{what[:60]!r} is not allowed here. To use a class of your own, call "
        "fltoolkit_research.allow(YourClass). For the command line, call it in a module and add "
        f"--import MODULE. Known names: {', '.join(sorted(_NAMES))}"
    )
