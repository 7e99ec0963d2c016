"""Runs the master's cells between a student's cells, with a namespace of their own.

A student's ``sum = 0`` in one task must not cost points in the next one, and neither must a
``print`` that was left in a correct function. So the master's cells have a namespace of their own:
Python's built-in names, the names that the master's cells defined, and for all others the student's
names. The prints of a hidden check are written between two marks.

Hidden checks run after all other cells. So everything that the feedback shows was printed before
the first hidden check and the secret seed came into this process. Each hidden check sees the
student's names as they were at its place in the notebook.

This code runs in the student's process, and a student can change it. The only secrets in this
process are the inputs of the hidden checks.
"""

import builtins
import contextlib
import gc
import os
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["begin", "hidden", "keep", "open_check", "restore"]

_state: dict[str, Any] = {}


def begin(space: dict[str, Any], answered: Iterable[str]) -> None:
    """Prepare a run; ``answered`` are the names that the student's answers define.

    >>> space = {}  # the names of the notebook
    >>> begin(space, answered=["double"])
    >>> open_check("x = 2", "setup")
    >>> space
    {'x': 2}
    """
    _state.clear()
    pristine = dict(vars(builtins))
    names = {"__name__": "__main__", "__builtins__": pristine}
    _state.update(space=space, builtins=pristine, names=names, own=set(), kept={})
    _state.update(answered=set(answered), folder=os.getcwd())
    shell = space.get("get_ipython")
    _state.update(shell=shell() if shell is not None else None, out=sys.stdout)
    _state.update(filters=list(warnings.filters), deep=sys.getrecursionlimit())


def open_check(source: str, name: str) -> None:
    """Run a cell of the master that is no hidden check; the student can use what it defines.

    >>> begin({"sum": 0}, answered=[])  # a student has overwritten a built-in function
    >>> open_check("print(sum([1, 2]))", "check")  # the master's cells still have the real one
    3
    """
    space, names = _state["space"], _refresh()
    before = dict(names)
    try:
        exec(_compiled(source, name), names)
    finally:
        sys.stdout = _state["out"]
        for key, value in names.items():
            if key not in before or before[key] is not value:
                space[key] = value
                if key not in _state["answered"]:
                    _state["own"].add(key)


def keep(name: str) -> None:
    """Remember the student's names at the place of hidden check ``name``.

    >>> space = {"x": 1}
    >>> begin(space, answered=["x"])
    >>> keep("check")
    >>> space["x"] = 2  # a later cell of the notebook changes x
    >>> hidden("print(x)", "check", seed=0, mark="m")
    <m>1
    </m>
    """
    _state["kept"][name] = (dict(_state["space"]), dict(_refresh()))


def restore() -> None:
    """Restore the defaults of Python, numpy and torch, before the hidden checks run.

    >>> begin({}, answered=[])
    >>> sys.setrecursionlimit(5000)  # an answer has changed this
    >>> restore()
    >>> sys.getrecursionlimit() == 5000
    False
    """
    _defaults(0)


def hidden(source: str, name: str, seed: int, mark: str) -> None:
    """Run a hidden check. Its prints are written between marks; its own names are forgotten.

    >>> begin({"double": lambda x: 2 * x}, answered=["double"])
    >>> hidden("print(double(SEED))", "check", seed=21, mark="m")
    <m>42
    </m>
    """
    space = _state["space"]
    student, names = _state["kept"].get(name) or (None, _refresh())
    if student is not None:
        for key in [k for k in space if k not in student and not k.startswith("_")]:
            del space[key]
        space.update({k: v for k, v in student.items() if not k.startswith("_")})
    _defaults(seed)
    out = _state["out"]

    def say(*values: Any, sep: str = " ", end: str = "\n", file: Any = None, **_: Any) -> None:
        text = (" " if sep is None else sep).join(map(str, values)) + ("\n" if end is None else end)
        if file is None:
            out.write(f"<{mark}>{text}</{mark}>\n")
        else:
            file.write(text)

    own = {**names, "SEED": seed, "print": say}
    try:
        exec(_compiled(source, name), own)
    finally:
        sys.stdout = out
        out.flush()


def _refresh() -> dict[str, Any]:
    """The master's names, and the student's names that the master does not define."""
    names: dict[str, Any] = _state["names"]
    space, own, answered = _state["space"], _state["own"], _state["answered"]
    for key in [k for k in names if k not in own and k not in space and not k.startswith("__")]:
        del names[key]
    for key, value in space.items():
        shadows = key in _state["builtins"] and key not in answered
        if key not in own and not shadows and not key.startswith("__"):
            names[key] = value
    return names  # always the same dict, because functions of earlier cells look up names in it


def _compiled(source: str, name: str) -> Any:
    shell = _state["shell"]
    if shell is not None:
        source = shell.transform_cell(source)  # such as %pip
    else:
        source = re.sub(r"^([ \t]*)[%!].*", r"\1pass", source, flags=re.MULTILINE)
    return compile(source, f"<{name}>", "exec")


def _defaults(seed: int) -> None:
    """Restore the defaults of a process, so that one answer cannot spoil the next task."""
    for key, value in _state["builtins"].items():
        if getattr(builtins, key, None) is not value:
            setattr(builtins, key, value)
    sys.stdout = _state["out"]
    sys.setrecursionlimit(_state["deep"])
    warnings.filters[:] = _state["filters"]  # type: ignore[index]
    getattr(warnings, "_filters_mutated", lambda: None)()
    gc.enable()
    with contextlib.suppress(OSError):
        os.chdir(_state["folder"])
    random.seed(seed)
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None:
        _each(
            lambda: torch.set_default_dtype(torch.float32),
            lambda: torch.set_default_device(None),
            lambda: torch.set_grad_enabled(True),
            lambda: torch.set_num_threads(1),
            lambda: torch.autograd.set_detect_anomaly(False),
            lambda: torch.set_flush_denormal(False),
            lambda: torch.set_printoptions(profile="default"),
            lambda: torch.manual_seed(seed),
            # this one takes seconds: it imports a compiler
            lambda: (
                torch.are_deterministic_algorithms_enabled()
                and torch.use_deterministic_algorithms(False)
            ),
        )
    if numpy is not None:
        _each(
            lambda: numpy.seterr(divide="warn", over="warn", under="ignore", invalid="warn"),
            lambda: numpy.random.seed(seed % 2**32),
        )


def _each(*steps: Callable[[], Any]) -> None:
    for step in steps:
        with contextlib.suppress(Exception):  # an old torch, or one that an answer has changed
            step()
