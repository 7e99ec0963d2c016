"""Runs the master's cells between a student's cells, with a namespace of their own.

A student's ``sum = 0`` in one task must not cost points in the next one, and neither must a
``print`` that was left in a correct function, nor a helper function that has the name of one of the
master's variables. So the master's cells have a namespace of their own. It holds only what these
cells defined. Python looks up all other names among the built-in names, and the built-in names of
this namespace are Python's own and the student's names. In the student's namespace a name of the
master never replaces one that the student has defined.

The prints of a hidden check are written between two marks. Hidden checks run after all other cells.
So everything that the feedback shows was printed before the first hidden check and its secret seed
came into this process. Each hidden check sees the student's names as they were at its place in the
notebook.

This code runs in the student's process, and a student can change it. The only secrets in this
process are the inputs of the hidden checks.
"""

import ast
import builtins
import contextlib
import dis
import gc
import os
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from fltoolkit_grading.reading import without_magic

STEP = re.compile(r"^### ([\d.]+) points?: (.+)$", re.MULTILINE)
"""The line before a step of a hidden check that has points of its own."""
NOT_RUN = re.compile(r"line \d{1,6} was not run: .{0,60}")  # what `define` prints
_state: dict[str, Any] = {}


def begin(space: dict[str, Any], answered: Iterable[str]) -> None:
    """Prepare a run; ``answered`` are the names that the student's answers define."""
    _state.clear()
    known: dict[str, Any] = {}  # Python's built-in names and the student's, for the master's cells
    names = {"__name__": "__main__", "__builtins__": known}
    _state.update(space=space, builtins=dict(vars(builtins)), known=known, names=names, kept={})
    _state.update(answered=set(answered), folder=os.getcwd())
    shell = space.get("get_ipython")
    _state.update(shell=shell() if shell is not None else None, out=sys.stdout)
    _state.update(filters=list(warnings.filters), deep=sys.getrecursionlimit())


def define(source: str) -> None:
    """Run what a cell of the student's own defines: imports, functions, classes, constants.

    Names of the answers are left out, and so are constants with the name of a master's. Of what is
    not run, a line is printed if it would define something, or is a command of IPython's.

    >>> space = {}
    >>> begin(space, answered=["double"])
    >>> define("import math\\nhalf = lambda x: int(x / 2)\\ndouble = half\\nBITS = 2**8\\nprint(1)")
    line 3 was not run: double = half
    >>> sorted(name for name in space if name[0] != "_")
    ['BITS', 'half', 'math']
    """
    lines = source.lstrip().split("\n")
    for line in ast.parse(_plain(source)).body:
        constant = isinstance(line, ast.Assign | ast.AnnAssign)
        value = getattr(line, "value", None) if constant else None
        looked_at = [] if value is None or isinstance(value, ast.Lambda) else [*ast.walk(value)]
        calls = any(isinstance(part, ast.Call) for part in looked_at)
        text = lines[line.lineno - 1].strip()
        try:
            code = compile(ast.Module([line], []), "<a cell of your own>", "exec")
            stored = {step.argval for step in dis.get_instructions(code) if "STORE" in step.opname}
            taken = stored & (_state["answered"] | (_state["names"].keys() if constant else set()))
            if (constant or isinstance(line, _DEFINES)) and not calls and not taken:
                exec(code, _state["space"])
            elif stored or text.startswith(("%", "!")):
                print(f"line {line.lineno} was not run: {text:.60}")
        except Exception as error:  # the other names are still defined
            print(f"line {line.lineno} stopped with {type(error).__name__}: {error}")


_DEFINES = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def open_check(source: str, name: str) -> None:
    """Run a cell of the master that is no hidden check; the student can use what it defines.

    >>> space = {"sum": 0, "x": "a student's"}
    >>> begin(space, answered=[])
    >>> open_check("x = sum([1, 2]); y = x; print(x)", "check")  # Python's sum, the master's x
    3
    >>> space
    {'sum': 0, 'x': "a student's", 'y': 3}
    """
    space, names = _state["space"], _names()
    before = dict(names)
    try:
        exec(_compiled(source, name), names)
    finally:
        sys.stdout = _state["out"]
        for key, value in names.items():
            ours = key not in space or (key in before and space[key] is before[key])
            if ours and before.get(key, space) is not value:
                space[key] = value


def keep(name: str) -> None:
    """Remember the student's names at the place of hidden check ``name``."""
    _state["kept"][name] = (dict(_state["space"]), dict(_state["names"]))


def hidden(source: str, name: str, seed: int, mark: str) -> None:
    """Run a hidden check. Its prints are written between marks; its own names are forgotten.

    A step that fails does not stop the next one; a form feed is between their prints.

    >>> begin({"double": lambda x: 2 * x}, answered=["double"])
    >>> hidden("print(double(SEED))", "check", seed=21, mark="m")
    <m>42
    </m>
    """
    space = _state["space"]
    student, names = _state["kept"].get(name) or (None, _state["names"])
    if student is not None:
        for key in [k for k in space if k not in student and not k.startswith("_")]:
            del space[key]
        space.update({k: v for k, v in student.items() if not k.startswith("_")})
    _names()
    _defaults(seed)
    out = _state["out"]

    def say(*values: Any, sep: str = " ", end: str = "\n", file: Any = None, **_: Any) -> None:
        text = (" " if sep is None else sep).join(map(str, values)) + ("\n" if end is None else end)
        if file is None:
            out.write(f"<{mark}>{text}</{mark}>\n")
        else:
            file.write(text)

    own = {**names, "SEED": seed, "print": say}
    errors = []
    try:
        for number, step in enumerate(STEP.split(source)[::3]):
            if number:
                say("\f", end="")
            try:
                exec(_compiled(step, name), own)
            except Exception as error:
                errors.append(error)
    finally:
        sys.stdout = out
        out.flush()
    if errors:
        raise errors[0]


def _names() -> dict[str, Any]:
    """The master's namespace; what lies behind it becomes what the student has now.

    Python's own built-in names come before a student's, unless an answer is to define that name.
    """
    space, answered, known = _state["space"], _state["answered"], _state["known"]
    known.clear()  # always the same dict, because functions of earlier cells look up names in it
    known.update(space)
    known.update({k: v for k, v in _state["builtins"].items() if k not in answered & space.keys()})
    names: dict[str, Any] = _state["names"]
    return names


def _compiled(source: str, name: str) -> Any:
    return compile(_plain(source), f"<{name}>", "exec")


def _plain(source: str) -> str:
    """A cell as plain Python, without IPython's commands such as %pip."""
    if _state["shell"] is not None:
        return str(_state["shell"].transform_cell(source))
    return without_magic(source)


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
