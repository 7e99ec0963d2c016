"""All rows that wait for a graphics card, the most telling first: ``make gpu``.

    python -m experiments.gpu          # what there is, and how long each took
    python -m experiments.gpu --run    # run it; Ctrl-C loses only the runs in progress

Every command below goes on where it was stopped. Minutes were measured on an NVIDIA H100 with 16
processor cores, or are marked as an estimate; with fewer cores they take longer, because messages
are made on the processor.
"""

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Rows:
    """Rows of a table, the command that runs them, and about how long it takes."""

    what: str
    module: str
    arguments: str
    takes: str


def rows(jobs: int) -> list[Rows]:
    """In the order of value."""
    large, both = "experiments.language.tuned", f"--device cuda --jobs {jobs}"
    return [
        Rows(
            "ten million parameters, Python's library: learning rates",
            large,
            f"--choose --study python {both}",
            "3.5 minutes",
        ),
        Rows(
            "the same: the rows of the table",
            large,
            f"--study python {both}",
            "14 minutes (estimate)",
        ),
        Rows(
            "ten million parameters, Shakespeare: learning rates",
            large,
            f"--choose --study shakespeare {both}",
            "15 minutes (estimate)",
        ),
        Rows(
            "the same: the rows of the table",
            large,
            f"--study shakespeare {both}",
            "20 minutes (estimate)",
        ),
        Rows(
            "VGG-11 in full width on CIFAR-10, vanilla and the loss threshold",
            "experiments.async_states",
            f"--data cifar10 --device cuda --workers {jobs}",
            "never run there; a vanilla run takes about 1.5 hours of one processor core",
        ),
    ]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m experiments.gpu")
    parser.add_argument("--run", action="store_true", help="run it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes side by side")
    args = parser.parse_args()
    listed = rows(args.jobs)
    for number, each in enumerate(listed, 1):
        print(f"{number}. {each.what}: {each.takes}")
        print(f"   python -m {each.module} {each.arguments}")
    if not args.run:
        return
    if not torch.cuda.is_available():
        raise SystemExit("torch sees no graphics card here, so nothing was run")
    for each in listed:
        print(f"\n{each.what}", flush=True)
        subprocess.run([sys.executable, "-m", each.module, *each.arguments.split()], check=True)


if __name__ == "__main__":
    main()
