"""Federated averaging on MNIST: rounds to a goal, and accuracy against real bytes both ways.

    python -m experiments.fedavg_results                  # all settings; goes on where it was
    python -m experiments.fedavg_results --only IID       # settings whose table or name holds this
    python -m experiments.fedavg_results --report         # the tables from what is there
    python -m experiments.fedavg_results --write          # the same into docs/fedavg_results.md

Each finished run is one line of JSON in ``--out`` and is not run again; Ctrl-C loses only the
runs in progress. What came out: docs/fedavg_results.md.
"""

from experiments.fedavg_results.report import PAGE, report
from experiments.fedavg_results.run import run
from experiments.fedavg_results.settings import Task, settings
from experiments.runs import STORED, command

RESULTS = STORED / "fedavg.jsonl"

if __name__ == "__main__":
    command(__doc__, RESULTS, PAGE, settings(), run, report, Task())
