"""Every table that compares methods shows the null rows, and each row its "times the data"."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import same_color

from experiments import null_rows
from experiments.async_states import __main__ as silence
from experiments.async_states import report as silence_report
from experiments.async_states import settings as silence_settings
from experiments.fedavg_results import __main__ as averaging
from experiments.fedavg_results import report as averaging_report
from experiments.fedavg_results import settings as averaging_settings
from experiments.language import null_results as language_null
from experiments.language import report as language_report
from experiments.null_rows import (
    COMMONEST,
    ONE_BIT,
    REQUIRED,
    SEND,
    UNTRAINED,
    data_nbytes,
    missing,
    times,
)
from experiments.pareto import report as pareto_report
from experiments.pareto.settings import experiments
from experiments.runs import read, rows_of
from fltoolkit import History, load
from fltoolkit.plots import accuracy_over_bytes, new_figure
from fltoolkit_research import Result
from fltoolkit_research.pooled import lossless_nbytes

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("results.md", "async_states.md", "fedavg_results.md")
ELSEWHERE = {  # pages with tables of accuracy or nats, and what holds their null rows
    "language_results.md": "the tests below",
    "send_the_data.md": "the page is about nothing else",
    "leakage.md": "the page says so",
    "newer_methods.md": "a test below",
    "secrecy.md": "one training in all rows: they compare what hiding its updates costs",
    "performance.md": "one training in all rows: they compare machines and transports",
}
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


def test_every_page_that_compares_methods_is_known_here() -> None:
    """A page with a new table of methods fails here until it is added above, with its rows."""
    pages = [*DOCS.glob("*.md"), DOCS.parent / "README.md"]
    found = {p.name for p in pages if any(compares(t[0]) for t in tables(p.read_text("utf-8")))}
    assert found == {*PAGES, *ELSEWHERE, "README.md"}


def test_each_claim_of_the_audit_has_its_times_the_data() -> None:
    heads = [head for head, _, _ in tables((DOCS / "audit.md").read_text("utf-8"))]
    claims = [head for head in heads if head[0] == "claim"]
    assert len(claims) >= 5
    assert all("times the data, by its own numbers" in head for head in claims)


def test_readme_says_beside_its_table_what_the_data_take() -> None:
    text = (DOCS.parent / "README.md").read_text("utf-8")
    ((_, _, below),) = (t for t in tables(text) if compares(t[0]))
    assert "times the data" in below
    assert "one bit per pixel" in below


def test_each_table_of_newer_methods_shows_the_null_rows() -> None:
    found = [t for t in tables((DOCS / "newer_methods.md").read_text("utf-8")) if compares(t[0])]
    assert len(found) >= 2
    for head, rows, _ in found:
        assert "times the data" in head
        assert {SEND, ONE_BIT, UNTRAINED, COMMONEST} <= {row[0].strip("*") for row in rows}
        assert any(row[0].startswith("**each owner alone") for row in rows)


def test_leakage_says_where_its_null_rows_are() -> None:
    assert "**No null rows in these tables:**" in (DOCS / "leakage.md").read_text("utf-8")


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


def test_each_table_of_a_page_of_text_is_in_one_of_these_tests() -> None:
    """The large models have a worker alone and the text on one worker; trials choose a rate."""
    text = (DOCS / "language_results.md").read_text("utf-8")
    begin_of = "<!-- begin: python -m experiments.language."
    studies = [f"tuned --study {study}" for study in ("small", "python", "shakespeare")]
    parts = {part: f"<!-- end: {part} -->" for part in ("split", "finetune", *studies)}
    known = {f"{begin_of}{part} --write -->": end for part, end in parts.items()}
    rest = text
    for begin, end in [language_report.PAGE[1:], *known.items()]:
        before, _, after = rest.partition(begin)
        rest = before + after.partition(end)[2]
    assert not [head for head, _, _ in tables(rest) if compares(head)]
    wanted = {"python": {"Muon, one worker alone", "Muon, all text on one worker"}}
    wanted["small"] = {"Muon, one worker alone", "AdamW, one worker alone"}
    for study, nulls in wanted.items():
        _, _, part = text.partition(f"{begin_of}tuned --study {study} --write -->")
        methods, *trials = (t for t in tables(part.partition("<!-- end")[0]) if compares(t[0]))
        assert "times the text" in methods[0]
        assert nulls <= {row[0] for row in methods[1]}
        assert trials
        assert all("validation half" in head for head, _, _ in trials)
    assert '"AdamW, one worker alone" is missing' in text


def test_the_explorable_figures_have_the_null_rows() -> None:
    for name, wanted in (("pareto", REQUIRED), ("fedavg", REQUIRED)):
        for task in explored(name)["tasks"]:
            names = {method["name"].removesuffix(", as IID") for method in task["methods"]}
            assert wanted - {UNTRAINED, COMMONEST} <= names, (name, task["partition"])
            assert task["data_nbytes"]
    null = {row["name"] for row in explored("silence")["null"]}
    assert null == REQUIRED - null_rows.WITHOUT_OWNERS
    workers = next(t for t in explored("language")["tasks"] if t["key"] == "workers")
    assert any(method["family"] == "null model" for method in workers["methods"])


def explored(name: str) -> dict[str, Any]:
    text = (DOCS / "explore" / "data" / f"{name}.js").read_text("utf-8")
    return json.loads(text.partition(" = ")[2].rstrip(";\n"))


def test_the_intervals_of_null_rows_are_black_like_their_stars() -> None:
    ax = new_figure().subplots()
    lines = {
        name: [History([{"nbytes": 1e6, "accuracy": a}]) for a in (0.9, 0.8)]
        for name in (SEND, "mine")
    }
    accuracy_over_bytes(lines, ax)
    null_rows.mark_null_rows(ax, [])
    intervals = {c.get_label(): c for c in ax.collections if isinstance(c, LineCollection)}
    colors = {label: same_color(c.get_color(), "black") for label, c in intervals.items()}
    assert colors == {f"_{SEND}": True, "_mine": False}


@pytest.mark.slow
@pytest.mark.parametrize("report", [silence_report, averaging_report])
def test_a_figure_shows_the_null_rows(
    report: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    drawn: dict[str, Any] = {}
    draw = report.plots.accuracy_over_bytes
    monkeypatch.setattr(
        report.plots,
        "accuracy_over_bytes",
        lambda lines, ax: drawn.update(lines) or draw(lines, ax),
    )
    if report is silence_report:
        task = silence_settings.Task()
        rows = rows_of(task, silence_settings.settings(task), read(silence.RESULTS))
    else:
        rows = rows_of(
            averaging_settings.Task(), averaging_settings.settings(), read(averaging.RESULTS)
        )
    report.draw(rows, tmp_path / "figure.png")
    assert {SEND, ONE_BIT} <= drawn.keys()
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.parametrize("notebook", ["01_vanilla", "04_fedavg", "07_the_trade"])
def test_the_bills_of_notebooks_have_a_line_for_the_data(notebook: str) -> None:
    (path,) = (DOCS.parent / "notebooks").glob(f"{notebook}*.ipynb")
    text = path.read_text("utf-8")
    assert "times the data" in text or "beside_the_data" in text


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
    alone = [e for e in experiments("digits", range(1), ["IID"]) if e.protocol == "alone"]
    found = [
        Result(e, History([{"round": 1, "nbytes": 0, "accuracy": 0.5 + k / 100}]), "", 1.0)
        for k, e in enumerate(alone)
    ]
    mean, worst = pareto_report.all_owners(found, 10)
    assert mean.history[-1]["accuracy"] == pytest.approx(0.545)
    assert (worst.history[-1]["accuracy"], mean.seconds) == (0.5, 10)
    assert pareto_report.all_owners(found[:9], 10) == []  # a mean of some is another number
