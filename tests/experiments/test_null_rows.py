"""Every table that compares methods shows the null rows, and each row its "times the data"."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from experiments import null_rows
from experiments.language import null_results as language_null
from experiments.language import report as language_report
from experiments.null_rows import (
    ONE_BIT,
    REQUIRED,
    SEND,
    data_nbytes,
    missing,
    times,
)
from experiments.pareto import report as pareto_report
from experiments.pareto.settings import experiments
from fltoolkit import History, load
from fltoolkit_research import Result
from fltoolkit_research.pooled import lossless_nbytes

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("results.md", "async_states.md", "fedavg_results.md")
Table = tuple[list[str], list[list[str]], str]  # the head, the rows, what stands below


def tables(text: str) -> list[Table]:
    """All tables of a page."""
    found = []
    for match in re.finditer(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        head, _, *rows = ([c.strip() for c in line.strip("|").split("|")] for line in
                          match[0].splitlines())  # fmt: skip
        below = text[match.end() :].lstrip("\n").partition("\n\n")[0]
        found.append((head, rows, below))
    return found


def lacking(table: Table) -> set[str]:
    """What a table of methods must show and does not, unless it says why."""
    head, rows, below = table
    if not any(cell.startswith("accuracy") for cell in head):
        return set()
    lacks = set() if "times the data" in head else {"the column"}
    names = {re.sub(r"\*\*|, as IID| \(.*\)", "", row[0]) for row in rows}
    if "No null rows:" in below:
        return lacks
    announced = {n for n in null_rows.WITHOUT_OWNERS if "Not measured yet:" in below and n in below}
    one_owner = "each owner alone" not in " ".join(names)
    return lacks | (missing(names, one_owner=one_owner) - announced)


@pytest.mark.parametrize("page", PAGES)
def test_no_table_is_without_the_null_rows(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    compared = [t for t in tables(text) if any(c.startswith("accuracy") for c in t[0])]
    assert len(compared) >= 4
    for table in compared:
        assert not lacking(table), table[1][0]


def compares(head: list[str]) -> bool:
    return any(re.match(r"(test )?accuracy|nats|validation half", cell) for cell in head)


@pytest.mark.parametrize("part", ["split", "finetune"])
def test_a_table_of_text_shows_the_null_rows(part: str) -> None:
    text = (DOCS / "language_results.md").read_text("utf-8")
    begin = f"<!-- begin: python -m experiments.language.{part} --write -->"
    found = tables(text[text.index(begin) : text.index(f"<!-- end: {part} -->")])
    assert len(found) >= 2
    for head, rows, _ in found:
        assert "times the data" in head
        names = {row[0].strip("*") for row in rows}
        assert not set(language_null.REQUIRED[part]) - names, rows[0]


def test_the_tables_of_workers_show_the_null_rows() -> None:
    text = (DOCS / "language_results.md").read_text("utf-8")
    _, begin, end = language_report.PAGE
    found = tables(text[text.index(begin) : text.index(end)])
    found = [table for table in found if compares(table[0])]
    assert all("times the data" in head for head, _, _ in found)
    names = {row[0].strip("*") for _, rows, _ in found for row in rows}
    assert {"text to one worker, then Muon", "text to all workers, then AdamW"} <= names
    owners = {language_null.MEAN, language_null.WORST}
    alone = {f"{optimizer}, {name}" for optimizer in ("AdamW", "Muon") for name in owners}
    assert alone | {*language_null.NOTHING} <= names


def test_a_table_with_a_method_alone_is_found() -> None:
    page = "| method | accuracy [%] |\n|---|---|\n| mine | 99 |\n\nText.\n"
    (table,) = tables(page)
    assert lacking(table) == {"the column"} | (REQUIRED - null_rows.WITHOUT_OWNERS)
    assert lacking((table[0], table[1], "No null rows: one seed.")) == {"the column"}


def test_a_report_says_what_was_not_measured() -> None:
    """A new method on a new task: the report itself prints that the rows are missing."""
    e = replace(experiments("digits", range(1))[0], name="mine")
    record = {"step": 1, "nbytes": 3 * data_nbytes("digits"), "accuracy": 0.9}
    history = History([{**record, "nbytes_up": 1, "nbytes_down": 0}])
    printed = pareto_report.main_table([Result(e, history, "", 1.0)], 0.94, "digits")
    assert "| mine | 90.00 |  |  | 0.087 | 3.0 |" in printed
    assert "Not measured yet: " in printed
    assert all(name in printed for name in REQUIRED)


def test_every_task_has_its_null_rows_in_the_list() -> None:
    for data in ("digits", "mnist"):
        names = {e.name.removesuffix(" (IID)") for e in experiments(data, range(1), ["IID"])}
        assert {SEND, ONE_BIT} <= names
        assert {"nothing: untrained network", "nothing: commonest class"} <= names
        assert sum(name.startswith("each owner alone") for name in names) == 10


def test_the_sizes_of_the_data_are_those_of_today() -> None:
    data = load("digits")
    assert lossless_nbytes(data.x_train.flatten(1), data.y_train) == pytest.approx(
        data_nbytes("digits"),
        rel=1e-3,  # compressors differ a little between versions
    )
    assert times(data_nbytes("digits") / 4, "digits") == "0.25"
    assert times(1200 * data_nbytes("digits"), "digits") == "1,200"
    with pytest.raises(KeyError, match="does not know 'faces'"):
        data_nbytes("faces")


def test_owners_together_are_their_mean_and_the_worst() -> None:
    alone = [e for e in experiments("digits", range(1), ["IID"]) if e.protocol.name == "alone"]
    found = [
        Result(e, History([{"round": 1, "nbytes": 0, "accuracy": 0.5 + k / 100}]), "", 1.0)
        for k, e in enumerate(alone)
    ]
    mean, worst = pareto_report.all_owners(found, 10)
    assert mean.history[-1]["accuracy"] == pytest.approx(0.545)
    assert (worst.history[-1]["accuracy"], mean.seconds) == (0.5, 10)
    assert pareto_report.all_owners(found[:9], 10) == []  # a mean of some is another number
