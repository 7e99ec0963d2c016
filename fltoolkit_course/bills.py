"""The bill of the course: what the trainings of each notebook sent, as one card that grows.

Each notebook ends with ``bill(...)``, a method of its `Notebook`. What a reader has measured is
kept beside the guesses (done.py). For an earlier notebook that was not run here, the card shows
what its saved copy measured: ``bill.json``, which tools/run_notebooks.py writes.
"""

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fltoolkit.data.datasets import Samples
from fltoolkit.units import amount
from fltoolkit_course.done import Item, Table
from fltoolkit_research.pooled.times import lossless_nbytes

SAVED = Path(__file__).with_name("bill.json")
LEGEND = (
    "Bars: bytes. Times the data: how often the training images or texts, compressed without "
    "loss, could have been sent for these bytes."
)


def item(what: str, record: Mapping[str, Any], data: Samples | int, why: str, measure: str) -> Item:
    """One line of the bill.

    Args:
        what: which training it was, in a few words.
        record: what it sent in bytes, as ``nbytes``, and how well it did, as ``measure``.
        data: the training samples that stayed with their owners. Of more than 5,000, a part is
            compressed, and the rest is estimated from it. Or their bytes without loss.
        why: what this line teaches or why it may not be lower, in one sentence; "" for none.
        measure: the key in ``record`` that says how well it did.

    Raises:
        ValueError: ``record`` lacks ``nbytes`` or ``measure``, or one of them is not finite.
    """
    for key in ("nbytes", measure):
        if not math.isfinite(record.get(key, math.nan)):
            raise ValueError(
                f"the bill of {what!r} needs a finite number {key!r}, and its record has "
                f"{record.get(key, 'none')}: give a record such as history.having({measure!r})[-1]"
            )
    score = amount(measure, float(record[measure]))
    score = score if measure == "accuracy" else f"{measure.replace('_', ' ')} {score}"
    nbytes = int(record["nbytes"])
    if not isinstance(data, int):
        data = lossless_nbytes(data.x_train, data.y_train, sample=5000)
    return Item(what, nbytes, score, float(f"{nbytes / data:.3g}"), why)


def saved() -> dict[str, list[Item]]:
    """What the saved copies of the notebooks measured, by the number of the notebook."""
    content = json.loads(SAVED.read_text(encoding="utf-8")) if SAVED.exists() else {}
    return {number: [Item(**item) for item in part] for number, part in content.items()}


class Bill:
    """The card: one line for each training, shown as HTML in a notebook and as text elsewhere."""

    def __init__(self, lines: Sequence[tuple[str, Item, bool]]):
        self.lines = lines  # notebook, item, and whether it was measured here or in the saved copy

    def __repr__(self) -> str:
        return repr(Table("The bill", [""] * 5, [_words(n, item) for n, item, _ in self.lines]))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        """HTML, text, and in the metadata what the newest notebook has added, for `saved`."""
        newest = self.lines[-1][0] if self.lines else ""
        mine = [vars(item) for number, item, _ in self.lines if number == newest]
        data = {"text/html": self._page(), "text/plain": repr(self)}
        return data, {"fltoolkit_bill": {newest: mine}}

    def _page(self) -> str:
        heads = ("", "what was trained", "bytes sent", "", "result", "times the data")
        head = "".join(f'<th style="text-align:left">{word}</th>' for word in heads)
        body = "".join(self._row(*line) for line in self.lines)
        here = all(own for _, _, own in self.lines)
        note = "" if here else " Grey lines were measured in the saved copy, not by you."
        return (
            '<div style="display:inline-block;max-width:60em;border:1px solid #888;'
            'border-radius:8px;padding:.6em 1em"><b>The bill</b>'
            f"<table><tr>{head}</tr>{body}</table>"
            f'<p style="opacity:.7;font-size:.85em;margin:.4em 0 0">{LEGEND}{note}</p></div>'
        )

    def _row(self, number: str, item: Item, own: bool) -> str:
        newest = number == self.lines[-1][0]
        style = "font-weight:bold" if newest else "" if own else "opacity:.6"
        longest = max(line[1].nbytes for line in self.lines)
        width = max(round(12 * item.nbytes / longest, 2), 0.1) if item.nbytes else 0  # a hair
        bar = (
            f'<div style="background:{"#D55E00" if newest else "#0072B2"};height:.7em;'
            f'width:{width}em"></div>'
        )
        number, what, sent, score, times = map(html.escape, _words(number, item))
        why = f'<br><span style="font-weight:normal;opacity:.8">{html.escape(item.why)}</span>'
        cells = (number, what + why * bool(item.why), sent, bar, score, times.split(" ")[0])
        row = ""
        for place, cell in enumerate(cells):
            space = "normal" if place == 1 else "nowrap"
            row += f'<td style="text-align:left;white-space:{space}">{cell}</td>'
        return f'<tr style="{style}">{row}</tr>'


def _words(number: str, item: Item) -> Sequence[str]:
    times = f"{item.times:,.12g} times the data"
    return number, item.what, amount("nbytes", item.nbytes), item.score, times


def lines_until(number: str, kept: Mapping[str, Iterable[Item]]) -> list[tuple[str, Item, bool]]:
    """The lines of the notebooks up to ``number``: the reader's own, else the saved copy's."""
    others = saved()
    found: list[tuple[str, Item, bool]] = []
    for each in sorted({*kept, *others}):
        own = list(kept.get(each, ()))
        if each <= number:
            found += [(each, item, bool(own)) for item in own or others.get(each, [])]
    return found
