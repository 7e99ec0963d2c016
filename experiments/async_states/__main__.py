"""Accuracy against real bytes when the client may fall silent: which gate, at which price?

    python -m experiments.async_states                 # MNIST, all settings; goes on where it was
    python -m experiments.async_states --only freeze   # settings whose name or part holds this
    python -m experiments.async_states --report        # the tables from what is there
    python -m experiments.async_states --write         # the same into docs/async_states.md

Each finished run is one line of JSON in ``--out`` and is not run again; Ctrl-C loses only the
runs in progress. What came out: docs/async_states.md.
"""

from experiments.async_states.report import PAGE, report
from experiments.async_states.run import run
from experiments.async_states.settings import Task, settings
from experiments.runs import STORED, command

RESULTS = STORED / "async_states.jsonl"

if __name__ == "__main__":
    command(__doc__, RESULTS, PAGE, settings(Task()), run, report, Task())
