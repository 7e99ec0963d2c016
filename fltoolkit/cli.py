"""The command line: ``fltoolkit sweep``, ``fltoolkit course`` and the other commands.

Here: finding the command and its errors. Not here: the commands. Each package beside the core
offers its own as entry points of the group `GROUP` (pyproject.toml); so may any other package. A
command is a function of the words after its name that returns an exit status, or None for 0.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points

__all__ = ["commands", "main"]

GROUP = "fltoolkit_commands"


def commands() -> dict[str, EntryPoint]:
    """All commands of the installed packages, by name.

    >>> "sweep" in commands()
    True
    """
    return {command.name: command for command in entry_points(group=GROUP)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the first argument names; returns the exit status.

    >>> main(["compare", "nowhere.jsonl"])  # and a line of stderr says what is wrong
    2
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    found = commands()
    parser = argparse.ArgumentParser(
        prog="fltoolkit",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="How much accuracy does a byte buy? Split and federated learning, measured.",
        epilog="fltoolkit COMMAND --help explains a command, with examples.",
    )
    parser.add_argument("command", choices=sorted(found), help="what to do")
    command = parser.parse_args(words[:1]).command
    try:
        return found[command].load()(words[1:]) or 0
    except (ImportError, OSError, TypeError, ValueError) as error:
        print(f"fltoolkit {command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"fltoolkit {command}: interrupted", file=sys.stderr)
        return 130
