"""The bill of the course: one card that grows, of what was measured here or in the saved copies."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from fltoolkit.data.datasets import Samples
from fltoolkit_course import bills
from fltoolkit_course.bills import Bill, Item, item
from fltoolkit_course.done import FILE
from fltoolkit_course.notebook import Notebook
from fltoolkit_course.plots import watch
from fltoolkit_course.running import progress_bar
from fltoolkit_research.pooled.times import lossless_nbytes

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
X, Y = torch.arange(640.0).reshape(10, 64), torch.arange(10)
DATA = Samples(X, Y, X, Y, 10)


@pytest.fixture(autouse=True)
def saved_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The saved copies of 01 and 03 have one line each."""
    first, third = (vars(Item(what, 4_000_000, "90 %", 40.0)) for what in ("one", "three"))
    (tmp_path / "bill.json").write_text(json.dumps({"01": [first], "03": [third]}))
    monkeypatch.setattr(bills, "SAVED", tmp_path / "bill.json")


def names(bill: Bill) -> list[tuple[str, str, bool]]:
    return [(number, line.what, own) for number, line, own in bill.lines]


def test_the_bill_grows_and_lacks_what_comes_later(folder: Path) -> None:
    record = {"nbytes": 100_000, "accuracy": 0.5}
    second = Notebook("02", "Two", guesses={})
    second.bill("two", record, DATA)
    grown = second.bill("two again", record, DATA)
    assert names(grown) == [("01", "one", False), ("02", "two", True), ("02", "two again", True)]
    first = Notebook("01", "One", guesses={}).bill("mine", record, DATA)
    assert names(first) == [("01", "mine", True)]
    tomorrow = Notebook("02", "Two", guesses={}).bill("two", {"nbytes": 7, "accuracy": 1}, DATA)
    assert [line.nbytes for _, line, _ in tomorrow.lines] == [100_000, 7, 100_000]
    assert all(own for _, _, own in tomorrow.lines)
    assert "two again" in (folder / FILE).read_text()


@pytest.mark.parametrize("show", [watch, progress_bar])
def test_bill_and_card_name_what_was_stopped_early(show: Any, folder: Path) -> None:
    record, first = {"nbytes": 100_000, "accuracy": 0.5}, Notebook("01", "One", guesses={})

    def train(steps: int) -> None:
        records = ({"nbytes": 1, "loss": 1.0} for _ in range(2300))
        named = {"title": "a run"} if show is watch else {"doing": "a run"}
        shown = show(records, total=2300, **named)
        for _ in range(steps):
            next(shown, None)

    train(627 if show is progress_bar else 626)  # a bar counts an item when the next one is taken
    stopped = "Stopped early: a run, 626 of 2,300."
    bill = first.bill("mine", record, DATA, "Why.")
    assert bill.lines[0][1].why == f"Why. {stopped}"
    assert stopped in bill._repr_mimebundle_()[0]["text/html"]
    assert first.card().after[1] == stopped
    assert stopped in (folder / FILE).read_text()
    train(2301)
    assert first.bill("mine", record, DATA, "Why.").lines[0][1].why == "Why."
    assert len(first.card().after) == 1


def test_a_line_says_bytes_result_and_times_the_data() -> None:
    line = item("a run", {"nbytes": 123_456, "accuracy": 0.9712}, DATA, "", "accuracy")
    assert (line.nbytes, line.score) == (123_456, "97.1 %")
    assert math.isclose(line.times, 123_456 / lossless_nbytes(X, Y), rel_tol=0.006)
    of_text = item("words", {"nbytes": 3000, "test_loss": 1.5}, 1000, "", "test_loss")
    assert (of_text.score, of_text.times) == ("test loss 1.5", 3.0)


def test_a_saving_of_250_times_looks_like_one() -> None:
    lines = [("01", Item("a", nbytes, "90 %", 1.0), True) for nbytes in (10**9, 4 * 10**6, 0)]
    widths = re.findall(r"width:([\d.]+)em\"", Bill(lines)._page())
    assert [float(width) for width in widths] == [12, 0.1, 0]


def test_the_stored_bill_is_that_of_the_saved_notebooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bills, "SAVED", NOTEBOOKS.parent / "fltoolkit_course/bill.json")
    stored = json.loads(bills.SAVED.read_text())
    found = {}
    for path in NOTEBOOKS.glob("*.ipynb"):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for output in cell.get("outputs", []):
                mine = output.get("metadata", {}).get("fltoolkit_bill", {})
                found |= mine
                for number, lines in mine.items():
                    bill = Bill(bills.lines_until(number, {number: [Item(**it) for it in lines]}))
                    assert "".join(output["data"]["text/html"]) == bill._page(), path.name
    assert {number: lines for number, lines in stored.items() if lines} == found
