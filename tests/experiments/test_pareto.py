import os
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.pareto import report as pareto_report
from experiments.pareto import settings
from experiments.pareto.settings import TASKS, experiments, methods
from fltoolkit_research import Result, num_steps, run

UNEQUAL = ("mnist", "dirichlet(0.3)")


@pytest.fixture(scope="module")
def kept():
    return pareto_report.read_kept()


def test_steps_are_counted_without_the_data():
    base = next(methods(TASKS["digits"], "iid"))
    assert settings._num_steps(base) == num_steps(base)


@pytest.mark.slow
def test_kept_runs_are_of_todays_list(kept):
    files = Path(os.environ.get("FLTOOLKIT_DATA", "nowhere")) / "mnist"
    if not files.exists():  # steps of unequal shares are counted on the data
        kept = [r for r in kept if (r.experiment.data, r.experiment.partition) != UNEQUAL]
    assert pareto_report.current(kept) == kept
    sending = [r for r in kept if r.experiment.protocol.name not in ("alone", "nothing")]
    assert all(r.history[-1]["nbytes_up"] for r in sending)
    assert all(r.seconds >= 0 for r in kept)


def test_keeping_and_reading(tmp_path):
    e = experiments("digits", range(1))[0]
    short = replace(e, rounds=1, num_samples=200)
    history = run(short)
    pareto_report.keep([Result(short, history, "", 1.25)], tmp_path / "kept.jsonl")
    (back,) = pareto_report.read_kept(tmp_path / "kept.jsonl")
    assert (back.experiment, back.seconds) == (short, 1.2)
    assert back.history[-1] == history[-1]
    assert back.history.column("nbytes") == history.column("nbytes")


@pytest.mark.later
def test_means_are_over_the_same_seeds():
    def made_up(name, seed):
        return Result(replace(experiments("digits", range(1))[0], name=name, seed=seed), [], "", 0)

    found = [made_up(name, seed) for seed in (0, 1) for name in ("a (IID)", "b (IID)")]
    parts = pareto_report.parts_of([*found, made_up("a (IID)", 2)])
    (shown,) = parts.values()
    assert [(r.experiment.name, r.experiment.seed) for r in shown] == [
        *(("a", 0), ("b", 0), ("a", 1), ("b", 1))
    ]
