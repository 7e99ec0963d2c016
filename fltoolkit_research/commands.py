"""The subcommands for experiments: sweep and compare; and decide.

Here: their arguments and what they print. Not here: the table of commands (cli). Each
command is a few lines around functions that scripts can call, too.
"""

import argparse
import importlib
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

__all__ = ["compare_command", "decide_command", "sweep_command"]

_SWEEPS = """
  fltoolkit sweep methods.json                    into methods.jsonl beside it
  fltoolkit sweep methods.json --workers 4        four processes

A file with three experiments of two seeds each:

  {"defaults": {"data": "digits", "num_clients": 10, "rounds": 5, "seeds": [0, 1]},
   "experiments": [
     {"name": "SplitNN", "protocol": "relay"},
     {"name": "4 bits", "protocol": "relay",
      "codecs": {"activations": "Pipeline(Quantize(4), Entropy())"}},
     {"name": "FedAvg", "protocol": "fedavg", "rounds": 20, "lr": 0.1}]}
"""
_COMPARISONS = """
  fltoolkit compare methods.jsonl
  fltoolkit compare methods.jsonl --target 0.95      and the bytes sent until this accuracy
  fltoolkit compare methods.jsonl --budget 1MB       and the accuracy within a megabyte
  fltoolkit compare methods.jsonl --against FedAvg   differences to this setting
  fltoolkit compare methods.jsonl --csv > methods.csv
  fltoolkit compare methods.jsonl --figure front.pdf
"""
_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9}


def sweep_command(arguments: Sequence[str]) -> int:
    """Run the experiments of files and store their results."""
    parser = _parser(
        "sweep",
        "Run all experiments of JSON files. A result is in the store as soon as its run\n"
        "ends, and is not run again: press Ctrl-C, and run the same command later to continue.",
        _SWEEPS,
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JSON")
    parser.add_argument("--store", type=Path, help="default: the first file with the ending .jsonl")
    parser.add_argument("--workers", type=int, default=1, help="runs at a time (default: 1)")
    parser.add_argument("--retry", action="store_true", help="run the failed experiments again")
    words = "run each experiment with these seeds, in place of those in the files"
    parser.add_argument("--seeds", type=int, nargs="+", metavar="SEED", help=words)
    args = _parse(parser, arguments)
    from fltoolkit_research.experiment import read
    from fltoolkit_research.store import Store
    from fltoolkit_research.sweeps import sweep

    experiments = [each for path in args.files for each in read(path, args.modules)]
    if args.seeds:  # each experiment once with each of these
        bare = {replace(each, seed=0).key: each for each in experiments}
        experiments = [replace(each, seed=seed) for each in bare.values() for seed in args.seeds]
    place = args.store or args.files[0].with_suffix(".jsonl")
    found = sweep(experiments, store=Store(place), workers=args.workers, retry=args.retry)
    broken = _print_tables(found)
    modules = "".join(f" --import {module.__name__}" for module in args.modules)
    figure = f"--figure {place.with_suffix('.png')}"
    print(f"results are in {place}: fltoolkit compare {place} {figure}{modules}")
    return 1 if broken else 0


def compare_command(arguments: Sequence[str]) -> int:
    """Print a table of the results in a store, or draw them."""
    parser = _parser(
        "compare",
        "Print a table of a store: the metric, what it is above a setting with fewer bytes, bytes\n"
        "sent, how many times the training samples (compressed without loss) that is, and a star\n"
        "for each setting on the Pareto front: better than all with fewer bytes, by more than\n"
        "noise. In brackets stand 95 % confidence intervals over the seeds, by Student's t;\n"
        "differences are paired by seed. (*) needs a second seed to tell.",
        _COMPARISONS,
    )
    parser.add_argument("store", type=Path, metavar="STORE", help="made by fltoolkit sweep")
    words = "only settings whose name contains TEXT"
    parser.add_argument("--only", default="", metavar="TEXT", help=words)
    parser.add_argument("--target", type=float, help="a value of the metric, e.g. 0.95")
    words = "bytes, such as 500kB or 1MB; a cell is empty if the first record is already above"
    parser.add_argument("--budget", type=_nbytes, help=words)
    parser.add_argument(
        "--against", metavar="NAME", help="compare with this setting, not the cheaper front point"
    )
    parser.add_argument("--csv", action="store_true", help="the table as CSV with plain numbers")
    words = "draw a point for each setting into this file, of each task into one of its own"
    parser.add_argument("--figure", type=Path, metavar="FILE", help=words)
    args = _parse(parser, arguments)
    if args.figure:
        return int(_draw(_results(args), args.figure))
    how = {"target": args.target, "budget": args.budget, "against": args.against}
    _print_tables(_results(args), "csv" if args.csv else "markdown", **how)
    return 0


def decide_command(arguments: Sequence[str]) -> int:
    """Measure on a table of one's own whether its owners should train together."""
    parser = _parser(
        "decide",
        "Should the owners of a table train together? The same answer for all, each owner alone,\n"
        "the data sent, one sum and averaging (or split learning, if columns are with owners) are\n"
        "measured on it. docs/decide.md explains the answer.",
        "\n  fltoolkit decide patients.csv --owner clinic --label outcome\n"
        "  fltoolkit decide patients.csv --columns clinic=age laboratory=iron --label outcome\n",
    )
    words = "comma separated values with a line of names; or arrays (.npz)"
    parser.add_argument("table", type=Path, help=words)
    whose = parser.add_mutually_exclusive_group(required=True)
    whose.add_argument("--owner", default="", help="the column that says whose a row is")
    whose.add_argument(
        "--columns",
        nargs="+",
        default=[],
        metavar="OWNER=A,B",
        help="who has which columns; the first owner has the labels, and may have none (NAME=)",
    )
    parser.add_argument("--label", required=True, help="the column that is to be predicted")
    parser.add_argument("--seeds", type=int, default=5, help="draws of the test (default: 5)")
    parser.add_argument("--minutes", type=float, default=10, help="the limit of time (default: 10)")
    args = parser.parse_args(arguments)
    from fltoolkit_research.decide import tell
    from fltoolkit_research.decide_table import read_table

    columns: dict[str, list[str]] = {}
    for text in args.columns:
        name, equals, mine = text.partition("=")
        if not (name and equals) or name in columns or (columns and not mine):
            parser.error(
                f"--columns {text!r}: write each owner once, as owner=column,column; only the "
                "first one, who has the labels, may have no columns: owner="
            )
        columns[name] = mine.split(",") if mine else []
    tell(read_table(args.table, args.owner, args.label, columns), args.seeds, args.minutes)
    return 0


# ------------------------------------------------------------------------------------- arguments


def _parser(name: str, description: str, examples: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"fltoolkit {name}",
        description=description,
        epilog="examples:" + examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _parse(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    words = (
        "look up names in this module, too, also from the current folder: your own codecs, "
        "protocols, data, models and metrics"
    )
    parser.add_argument(
        "--import", dest="modules", action="append", default=[], metavar="MODULE", help=words
    )
    args = parser.parse_args(arguments)
    if args.modules:
        sys.path.insert(0, os.getcwd())  # as `python -m` does
    names, args.modules = args.modules, []
    for module in names:
        if module.endswith(".py"):
            raise ImportError(
                f"--import {module}: in its folder, give {os.path.basename(module)[:-3]} alone"
            )
        try:
            args.modules.append(importlib.import_module(module))
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            raise ImportError(
                f"--import {module}: no such module in {os.getcwd()} or where Python looks. "
                f"Go to the folder of {module}.py, or set PYTHONPATH to it"
            ) from error
    return args


def _results(args: argparse.Namespace) -> list[Any]:
    from fltoolkit_research.store import Store

    if not args.store.exists():
        raise FileNotFoundError(f"{args.store}: no such store. Make one with fltoolkit sweep")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        stored = Store(args.store, args.modules).results()
    found = [result for result in stored if args.only in result.experiment.title]
    for each in warned:
        print(each.message, file=sys.stderr)
    if not found:
        named = f" whose name contains {args.only!r}" * bool(args.only)
        raise ValueError(f"{args.store} holds no experiment{named} that can be read")
    return found


def _print_tables(found: Sequence[Any], form: Any = "markdown", **how: Any) -> bool:
    """A table for each task, in "markdown" or "csv"; then what failed, if anything."""
    from fltoolkit_research.analysis import by_task
    from fltoolkit_research.tables import data_nbytes, table

    tasks = by_task(found)
    for task, mine in tasks.items():
        if len(tasks) > 1 or form == "markdown":
            print("# " * (form == "csv") + task)  # in CSV as a comment
        print(table(mine, **how, data_nbytes=data_nbytes, form=form).rstrip("\n"))
        if form == "markdown":
            print(_directions(mine) + _unknown_data(mine))
        elif len(tasks) > 1:
            print()
    return _say_failures(found)


def _draw(found: Sequence[Any], out: Path) -> bool:
    """A Pareto plot for each task, as a file; then what failed, if anything."""
    from fltoolkit_research.analysis import by_task
    from fltoolkit_research.plots.fronts import pareto

    tasks = by_task(result for result in found if not result.error)
    for number, (task, mine) in enumerate(tasks.items(), 1):
        place = out.with_stem(f"{out.stem}-{number}") if len(tasks) > 1 else out
        pareto(mine).figure.canvas.figure.savefig(place, dpi=200)
        print(f"{place}: {task}")
    return _say_failures(found)


def _directions(results: Sequence[Any]) -> str:
    """A line that says which share of the bytes went where: a codec up saves nothing down."""
    from fltoolkit_research.analysis import groups

    shares = []
    for name, runs in groups(results).items():
        last = [run.history[-1] for run in runs]
        if not all({"nbytes_up", "nbytes_down"} <= each.keys() for each in last):
            continue
        sent, up, down = (
            sum(int(each[which]) for each in last)
            for which in ("nbytes", "nbytes_up", "nbytes_down")
        )
        if sent:
            across = f", {(sent - up - down) / sent:.0%} between clients" * (sent > up + down)
            shares.append(f"{name} {up / sent:.0%} up, {down / sent:.0%} down{across}")
    return f"\nof all bytes: {'; '.join(shares)}\n" * bool(shares)


def _unknown_data(results: Sequence[Any]) -> str:
    """A line for each data set whose size is not known, with the reason for the "-"."""
    from fltoolkit_research.tables import data_nbytes
    from fltoolkit_research.text import text_of

    reasons = {}
    for result in results:
        try:
            data_nbytes(result.experiment)
        except ValueError as error:
            reasons[text_of(result.experiment.data)] = error
    return "".join(f"\ntimes the data: - for {name}: {why}\n" for name, why in reasons.items())


def _say_failures(results: Sequence[Any]) -> bool:
    """A line for each failure, and one if several versions of the code made the results."""
    from fltoolkit_research.analysis import failures

    broken = failures(results)
    for title, error in broken.items():
        print(f"failed: {title}: {error}", file=sys.stderr)
    counts = Counter(result.code for result in results)
    if len(counts) > 1:
        words = ", ".join(f"{code} ({number} runs)" for code, number in sorted(counts.items()))
        print(f"several versions of fltoolkit made these results: {words}", file=sys.stderr)
    return bool(broken)


def _nbytes(text: str) -> float:
    """The number of bytes in a text with a unit; kB is 1,000 bytes."""
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*([a-z]*)", text.strip().lower())
    if not found or found[2] not in _UNITS:
        raise argparse.ArgumentTypeError(f"{text!r}: write a number with B, kB, MB or GB")
    return float(found[1]) * _UNITS[found[2]]
