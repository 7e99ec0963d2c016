"""A table of several owners, read from a file for `fltoolkit_research.decide`.

Here: which columns and labels are understood, and what is said of the others. Not here: what is
learned from them (decide.py).
"""

import csv
import io
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fltoolkit.data.partitions import generator

MOST_ROWS, MOST_KINDS, MOST_NUMBERS = 20_000, 20, 10_000_000


class Table(NamedTuple):
    """What was read of a file: numbers, labels, owners, and what should be known about them."""

    x: Tensor  # float32 [rows, columns]; NaN where a cell is empty
    y: Tensor  # class numbers, int64 [rows]; or the numbers to predict, float32 [rows]
    owners: list[str]  # of each row; none if columns are with owners
    classes: list[str]  # none if numbers are to be predicted
    notes: list[str]
    blocks: dict[str, list[int]]  # which columns of x an owner has; the first has the labels


def read_table(
    path: str | Path, owner: str, label: str, columns: Mapping[str, Sequence[str]] | None = None
) -> Table:
    """Read a file of comma, semicolon or tab separated values with a line of names.

    Or an ``.npz`` of arrays with equally many rows; ``x`` of three columns becomes x0, x1 and x2.
    A column of numbers is taken as it is. A column of at most 20 different texts becomes a column
    of 0 and 1 for each text; one of more texts is left out, and the notes say so. A label of more
    than 20 different numbers is regression. ``columns`` names the columns of each owner, in place
    of ``owner``, the column that says whose a row is; the first of these owners has the labels, and
    may have no columns.

    Raises ValueError if a column is missing or with two owners, if an owner or a label is empty, or
    if there are fewer than two owners or classes.
    """
    names, rows = (_arrays if Path(path).suffix == ".npz" else _lines)(path)
    if len(set(names)) < len(names) or any(None in row for row in rows):
        raise ValueError(
            f"{path}: its columns are {names}; each needs a name of its own, and no line may have "
            "more cells"
        )
    columns = columns or {}
    owned = [name for mine in columns.values() for name in mine]
    keys = [label] if columns else [owner, label]
    for name in (*keys, *owned):
        if name not in names:
            raise ValueError(f"{path}: no column {name!r}; the columns are {', '.join(names)}")
    twice = [name for name, number in Counter([*owned, label]).items() if number > 1]
    if columns and (twice or len(columns) < 2):
        raise ValueError(
            f"--columns has {len(columns)} owners, and twice: {twice}. Give two owners or more, "
            "each column to one of them, and the label to none: the first owner has it"
        )
    inputs = owned or [name for name in names if name not in keys]
    notes = [f"{len(rows):,} rows, {len(inputs)} columns beside {' and '.join(map(repr, keys))}"]
    for number, row in enumerate(rows, 2):
        if any(_empty(row[key]) for key in keys):
            raise ValueError(
                f"{path}, line {number}: {' or '.join(map(repr, keys))} is empty: fill it, or "
                "leave the row out"
            )
    if len(rows) > MOST_ROWS:
        chosen = generator(0).choice(len(rows), MOST_ROWS, replace=False)
        rows = [rows[k] for k in sorted(chosen)]
        notes.append(f"{MOST_ROWS:,} rows were drawn at random, to be done in minutes")
    y, classes = _labels(label, [row[label].strip() for row in rows])
    parts: list[Tensor] = []
    blocks: dict[str, list[int]] = {each: [] for each in columns}
    whose = {name: each for each, mine in columns.items() for name in mine}
    for name in inputs:
        read = _columns(name, [(row[name] or "").strip() for row in rows], notes)
        blocks.setdefault(whose.get(name, ""), []).extend(range(len(parts), len(parts) + len(read)))
        parts += read
    for each, mine in blocks.items():
        only_labels = each == next(iter(columns), None) and not columns[each]
        if not mine and not only_labels:
            raise ValueError(f"{path}: no column is left at {each!r} that can be learned from")
    if columns:
        return Table(torch.stack(parts, 1), y, [], classes, notes, blocks)
    if not parts:
        raise ValueError(f"{path}: no column is left beside {owner!r} and {label!r}")
    of = [row[owner].strip() for row in rows]
    sizes = Counter(of)
    if len(sizes) < 2:
        raise ValueError(f"{owner!r} has one value, {of[0]!r}: give a column of several owners")
    few = [name for name, count in sizes.items() if count < 10]
    if few:
        notes.append(f"{len(few)} of {len(sizes)} owners have fewer than ten rows")
    return Table(torch.stack(parts, 1), y, of, classes, notes, {})


def _lines(path: str | Path) -> tuple[list[str], list[dict[str, str]]]:
    """The names and rows of a file of text."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8; in Excel save it as 'CSV UTF-8'") from error
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    return list(reader.fieldnames or []), list(reader)


def _arrays(path: str | Path) -> tuple[list[str], list[dict[str, str]]]:
    """The same of a file of arrays."""
    names: list[str] = []
    columns: list[list[str]] = []
    with np.load(path) as held:
        try:
            arrays = {name: np.atleast_1d(held[name]) for name in held.files}
        except ValueError as error:
            raise ValueError(f"{path}: {error}; save numbers or texts, no objects") from error
    sizes = {name: len(array) for name, array in arrays.items()}
    if len({*sizes.values()}) > 1 or sum(array.size for array in arrays.values()) > MOST_NUMBERS:
        raise ValueError(
            f"{path}: its arrays have these numbers of rows: {sizes}; they must be equal, and all "
            f"together at most {MOST_NUMBERS:,} numbers: take a part of the rows"
        )
    for name, array in arrays.items():
        flat = array.reshape(len(array), -1).T if len(array) else array[:0].reshape(0, 0)
        names += [name] if array.ndim == 1 else [f"{name}{k}" for k in range(len(flat))]
        columns += flat.astype(str).tolist()
    return names, [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _empty(cell: str | None) -> bool:
    return (cell or "").strip().lower() in ("", "na", "nan", "null", "?")


def _labels(label: str, cells: Sequence[str]) -> tuple[Tensor, list[str]]:
    """Class numbers and the names of the classes, or numbers and no names."""
    kinds = sorted(set(cells))
    if 2 <= len(kinds) <= MOST_KINDS:
        return torch.tensor([kinds.index(cell) for cell in cells]), kinds
    try:
        numbers = torch.tensor([float(cell) for cell in cells])
    except ValueError:
        numbers = torch.tensor(math.nan)
    if len(kinds) < 2 or not bool(numbers.isfinite().all()):
        raise ValueError(
            f"{label!r} has {len(kinds)} different values: 2 to {MOST_KINDS} classes are allowed, "
            "or numbers only"
        )
    return numbers, []


def _columns(name: str, cells: Sequence[str], notes: list[str]) -> list[Tensor]:
    """The tensors of one column of the file."""
    empty = [*map(_empty, cells)]
    marks = [torch.tensor(empty).float()] if any(empty) else []
    try:
        numbers = [math.nan if gap else float(c) for c, gap in zip(cells, empty, strict=True)]
    except ValueError:
        numbers = []
    kinds = sorted({cell for cell, gap in zip(cells, empty, strict=True) if not gap})
    if any(math.isinf(number) for number in numbers):
        raise ValueError(f"{name!r} holds an infinite number: leave the cell empty, or correct it")
    if not numbers and len(kinds) > MOST_KINDS:
        notes.append(f"{name!r} holds {len(kinds):,} different texts: it is left out")
        return []
    if marks:
        stands = "the mean stands there, and a mark" if numbers else "a mark stands there"
        notes.append(f"{name!r} is empty in {sum(empty):,} rows: {stands}")
    if numbers:
        if len(kinds) == len(cells) > MOST_KINDS and all(cell.isdecimal() for cell in cells):
            notes.append(f"{name!r} has another whole number in each row: is it only a name?")
        return [torch.tensor(numbers), *marks]
    return [torch.tensor([float(cell == kind) for cell in cells]) for kind in kinds] + marks
