"""A run of a lab as code: what the lab executes, and what it writes down for a reader.

Not here: that code itself, which each lab gives in ``write_start`` and ``write_move``.
"""

import linecache
from collections.abc import Callable, Collection, Mapping
from itertools import count
from typing import Any

from fltoolkit.data.datasets import Dataset, load
from fltoolkit_course.labs.board import Board, Control, Run, Training

_numbers = count(1)  # of trainings, to tell their code apart in tracebacks


def flat_data(data: Dataset | str) -> tuple[Dataset, str]:
    """Data with flat samples, and the code that makes them; ``data`` may be a name for `load`."""
    if isinstance(data, str):
        return load(data).flat(), f'load("{data}").flat()'
    return data.flat(), "data  # the Dataset that was given to the lab: put it here"


def execute(code: str, names: dict[str, Any], title: str) -> None:
    """Execute ``code``, which reads and makes ``names``; tracebacks show its lines."""
    file = f"<{title}>"
    linecache.cache[file] = len(code), None, code.splitlines(keepends=True), file
    exec(compile(code, file, "exec"), names)


class ScriptedLab:
    """What defines a lab: its settings, what is drawn of it, and the code that it executes.

    A subclass gives ``title``, ``settings``, ``board``, ``imports``, ``given``, `write_start` and
    `write_move`; see `Steering` for an example.
    """

    title = ""
    settings: Mapping[str, Control] = {}
    board: Board
    clock = "step"  # the records' key that says when a move was made
    imports = ""  # the lines of code that import what the rest of the code needs
    given: Mapping[str, tuple[Any, str]] = {}  # names that the code reads: (value, how it is made)

    def constants(self) -> dict[str, Any]:
        """What the code depends on besides the settings, such as the number of rounds."""
        return {}

    def write_start(self, values: Mapping[str, Any], moved: Collection[str]) -> str:
        """Code that makes ``channel`` and ``records``.

        Args:
            values: the settings and the `constants`.
            moved: the settings that a move may change; what serves other moves can be left out.
        """
        raise NotImplementedError

    def write_move(self, key: str, values: Mapping[str, Any]) -> str:
        """A line of code that makes a change of ``key`` act, where ``values`` hold after it."""
        raise NotImplementedError

    def resets_residuals(self, key: str, values: Mapping[str, Any]) -> bool:
        """Whether a move of ``key`` makes error feedback forget; ``values`` are those before it."""
        return False

    def total(self, names: Mapping[str, Any]) -> int | None:
        """What the clock shows at the end of a run, from the names that its code has made."""
        return None

    def begin(self, values: Mapping[str, Any]) -> Training:
        """Begin a training: execute `write_start` in new names, and later a line for each move."""
        title, now = f"{self.title}, training {next(_numbers)}", dict(values)
        names = {name: value for name, (value, _) in self.given.items()}
        moved = [key for key, control in self.settings.items() if control.acts == "now"]
        execute(f"{self.imports}\n{self.write_start(values, moved)}", names, title)

        def apply(key: str, value: Any) -> None:
            now[key] = value
            execute(self.write_move(key, now), names, f"{title}, a move")

        return Training(names["records"], names["channel"], apply, self.total(names))


def begin_of(imports: str, given: Mapping[str, tuple[Any, str]], start: str) -> str:
    """The code before the loop: imports, what the lab was given, and how the training begins.

    >>> print(begin_of("import torch", {"data": (None, 'load("digits")')}, "x = data.x_test"))
    import torch
    <BLANKLINE>
    torch.set_num_threads(1)
    data = load("digits")
    x = data.x_test
    """
    lines = [f"{name} = {code}" for name, (_, code) in given.items()]
    return "\n".join([imports.strip(), "", "torch.set_num_threads(1)", *lines, start.strip()])


def loop_of(run: Run, board: Board, clock: str, write_move: Callable[..., str]) -> str:
    """The loop over the records of ``run`` with its moves, up to where it ended.

    Args:
        run: which run; it has a record.
        board: what records are called, and the key that says how good the run is at its end.
        clock: the records' key that says when a move was made.
        write_move: a line of code for a move, from its key and all settings after it.
    """
    last, now = int(run.history[-1][clock]), run.values
    events: dict[int, list[str]] = {}
    for move in run.moves:
        now[move.key] = move.value
        if move.step < last:  # later ones had no effect
            events.setdefault(move.step, []).append(write_move(move.key, now))
    if run.status != "finished":
        why = run.runner.message.splitlines()[0] if run.runner.error else run.status
        events.setdefault(last, []).append(f"break  # {why}")
    lines = ["history = History()", "for record in history.follow(records):"]
    for step, inside in sorted(events.items()):
        lines.append(f'    if record["{clock}"] == {step}:')
        lines += [f"        {line}" for line in inside]
    if not events:
        lines.append("    pass")
    what = board.record or "step"
    lines.append(f'print(f"{{len(history)}} {what}s, {{channel.nbytes():,}} bytes")')
    if len(run.history.having(result := board.result)):
        lines.append(f'tested = history.having("{result}")[-1]')
        words = result.replace("_", " ")
        lines.append(f"""print(f"{words} {{tested['{result}']:.4f}}")""")
    return "\n".join(lines)
