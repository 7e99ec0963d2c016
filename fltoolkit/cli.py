"""The command line: ``fltoolkit course``, ``run``, ``sweep`` and the other commands.

Here: a table of commands. A module is imported only when its command is used, so ``--help`` is
fast. To add a command, add a row to `COMMANDS`: a function that takes the arguments after the
command's name.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence

__all__ = ["COMMANDS", "main"]

COMMANDS: dict[str, tuple[str, str, str]] = {
    "course": ("fltoolkit.course.cli", "main", "copy the notebooks into a folder and open them"),
    "run": ("fltoolkit.commands", "run_command", "train one experiment and print its results"),
    "sweep": (
        "fltoolkit.commands",
        "sweep_command",
        "run many experiments and store their results",
    ),
    "compare": ("fltoolkit.commands", "compare_command", "print a table of the results in a store"),
    "assignment": ("fltoolkit.assignments.cli", "main", "release, check and grade assignments"),
    "cup": ("fltoolkit.cup.commands", "main", "a contest on bytes: verify an entry, make a board"),
    "audit": ("fltoolkit.commands", "audit_command", "published claims, measured here"),
    "report": (
        "fltoolkit.commands",
        "report_command",
        "one HTML file with plots and tables of a store",
    ),
}
"""Name: module, function(arguments) -> exit status, a description."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the first argument names; returns the exit status.

    >>> main(["run", "--print", "protocol=fedavg", "num_clients=10"])
    # key b270ea747b86df1c
    protocol: fedavg
    num_clients: 10
    0
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="fltoolkit",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="How much accuracy does a byte buy? Split and federated learning, measured.",
        epilog="commands:\n"
        + "\n".join(f"  {name:12s}{what}" for name, (_, _, what) in COMMANDS.items())
        + "\n\nfltoolkit COMMAND --help explains a command, with examples.",
    )
    parser.add_argument("command", metavar="COMMAND", choices=COMMANDS, help="one of those below")
    command = parser.parse_args(words[:1]).command
    module, function, _ = COMMANDS[command]
    try:
        return getattr(importlib.import_module(module), function)(words[1:]) or 0
    except (ImportError, OSError, TypeError, ValueError) as error:
        print(f"fltoolkit {command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"fltoolkit {command}: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
