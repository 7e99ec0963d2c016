"""The null rows: every task has them, a report says which are missing, and data have their size."""

from dataclasses import replace

import pytest

from experiments.null_rows import ONE_BIT, REQUIRED, SEND, data_nbytes, times
from experiments.pareto import report as pareto_report
from experiments.pareto.settings import experiments
from fltoolkit import History, load
from fltoolkit_research import Result
from fltoolkit_research.pooled import lossless_nbytes


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
    data = load("digits_known_writers")
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
