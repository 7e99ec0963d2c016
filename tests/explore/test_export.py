"""The data files of docs/explore are what the stored runs say, small, and complete."""

import re
from typing import Any

import pytest
import torch
from explore.conftest import EXPLORE
from pages import load

from experiments.language import data_parallel
from experiments.language import split as language_split
from experiments.language.task import Task
from experiments.pareto import report as pareto_report
from fltoolkit import Channel
from fltoolkit.split import Upload
from fltoolkit_research.federated import AllGather, Ring

export = load(EXPLORE.parents[1] / "tools" / "export_explore.py")


@pytest.mark.later
@pytest.mark.parametrize("name", export.EXPORTS)
def test_the_data_are_those_of_the_stored_runs(name: str) -> None:
    kept = (EXPLORE / "data" / f"{name}.js").read_text(encoding="utf-8")
    made = export.line(name, export.EXPORTS[name]())
    assert made == kept, "say: python tools/export_explore.py"


@pytest.mark.slow
def test_recording_again_gives_nearly_the_same_tensors() -> None:
    again, kept = export.record(), export.recorded()
    assert again.keys() == kept.keys()
    for name, tensor in kept.items():  # another processor may round sums otherwise
        torch.testing.assert_close(export.tensor_of(again[name]), tensor, rtol=1e-3, atol=1e-5)


def test_each_code_is_an_experiment_of_the_store() -> None:
    stored = {r.experiment.key for r in pareto_report.read_kept()}
    tasks = export.the_one_plot()["tasks"]
    methods = [method for task in tasks for method in task["methods"]]
    assert sum(method["family"] != export.NULL_ROW for method in methods) == 100
    for method in methods:
        before, run, _ = method["code"].partition("print(run(experiment)[-1])")
        assert run
        names: dict[str, Any] = {}
        exec(before, names)  # the page's own text: this is what a reader pastes
        assert names["experiment"].key in stored, method["name"]


def test_each_command_runs_its_setting() -> None:
    """``--only`` holds the name of a setting."""
    averaging = [f"{s.part}: {s.name}" for s in export.fedavg.settings()]
    for task in (*export.language()["tasks"], *export.rounds_of_averaging()["tasks"]):
        names = averaging if task.get("data") else [m["name"] for m in task["methods"]]
        for method in task["methods"]:
            if method["family"] != export.NULL_ROW:
                assert method["code"].partition("--only ")[2].strip('"') in names


def test_scripts_and_the_data_of_a_page_are_small() -> None:
    assert sum(path.stat().st_size for path in EXPLORE.glob("*.js")) <= 160_000
    for page in EXPLORE.glob("*.html"):
        names = re.findall(r'<script src="(data/\w+\.js)">', page.read_text(encoding="utf-8"))
        assert sum((EXPLORE / name).stat().st_size for name in names) <= 520_000, page


WORKERS = Task("topics", context=16, layers=1, width=16, batch_size=2, workers=3, steps=6)
CUT = language_split.Task("t", "topics", 102, 3, 2, 1e-3, 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "side_by_side"),
    [
        (data_parallel.Setting("s", "ddp", steps=4, exchange=Ring()), 3),
        (data_parallel.Setting("s", "diloco", inner_steps=2), 3),
        (data_parallel.Setting("s", "streaming", inner_steps=3, exchange=AllGather()), 6),
        (data_parallel.Setting("s", "demo", "SGD", exchange=AllGather()), 6),
        (data_parallel.Setting("s", "ddp", workers=1, exchange=AllGather()), 1),
        (language_split.Setting("p", "s", upload=Upload(delta=True)), 1),
        (language_split.Setting("p", "s", upload=Upload(), period=3), 1),
        (language_split.Setting("p", "s", shape="U-shaped"), 1),
    ],
)
def test_waits_are_counted(
    setting: Any, side_by_side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as messages, of which some go side by side."""
    channels, begin = [], Channel.begin

    def seen(channel: Channel, *args: Any, **kwargs: Any) -> Any:
        channels.append(channel)
        return begin(channel, *args, **kwargs)

    monkeypatch.setattr(Channel, "begin", seen)
    whole = isinstance(setting, data_parallel.Setting)
    module, task = (data_parallel, WORKERS) if whole else (language_split, CUT)
    module.run(task, setting, 0)
    waits = (export.worker_waits if whole else export.split_waits)(setting, task)
    assert waits * side_by_side == len(channels[-1].transfers)
