"""The data files of docs/explore are what the stored runs say, small, and complete."""

import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from explore.conftest import EXPLORE

from experiments.language import data_parallel, finetune
from experiments.language import split as language_split
from experiments.language.task import Task
from experiments.pareto import report as pareto_report
from fltoolkit import Channel
from fltoolkit.split import Upload
from fltoolkit_research.federated import AllGather, Ring
from fltoolkit_research.models import gpt


def load(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


export = load(EXPLORE.parents[1] / "tools" / "export_explore.py", "export_explore")


@pytest.mark.parametrize("name", [*export.EXPORTS, "pictures"])
def test_the_data_are_those_of_the_stored_runs(name: str) -> None:
    if name == "pictures":
        made = {f"images/{each}.svg": text + "\n" for each, text in export.pictures().items()}
    else:
        made = {f"data/{name}.js": export.line(name, export.EXPORTS[name]())}
    for path, text in made.items():
        kept = (EXPLORE / path).read_text(encoding="utf-8")
        assert text == kept, f"{path}: say: python tools/export_explore.py"


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


def test_short_texts_lose_defaults_only() -> None:
    text = "Pipeline(Quantize(bits=3, stochastic=True, seed=0, per='tensor'), ContextEntropy())"
    assert export.short(text) == "Pipeline(Quantize(bits=3, stochastic=True), ContextEntropy())"


def test_scripts_and_the_data_of_a_page_are_small() -> None:
    assert sum(path.stat().st_size for path in EXPLORE.glob("*.js")) <= 160_000
    for page in EXPLORE.glob("*.html"):
        names = re.findall(r'<script src="(data/\w+\.js)">', page.read_text(encoding="utf-8"))
        assert sum((EXPLORE / name).stat().st_size for name in names) <= 480_000, page


# ------------------------------------------------- waits, which the store of a run does not hold


@pytest.fixture
def transfers(monkeypatch: pytest.MonkeyPatch) -> Sequence[Any]:
    """The channel of the last run of an experiment with language models, in a list."""
    found: list[Any] = []

    class Recording(Channel):
        def __init__(self, *args: Any, **kwargs: Any):
            super().__init__(*args, **kwargs)
            found[:] = [self]

    for module in (data_parallel, language_split, finetune):
        monkeypatch.setattr(module, "Channel", Recording)
    return found


WORKERS = Task("topics", context=16, layers=1, width=16, batch_size=2, workers=3, steps=6)


@pytest.mark.later
@pytest.mark.parametrize(
    ("setting", "side_by_side"),
    [
        (data_parallel.Setting("s", "ddp", steps=4, exchange=Ring()), 3),
        (data_parallel.Setting("s", "diloco", inner_steps=2, warm=2), 3),
        (data_parallel.Setting("s", "streaming", inner_steps=3, exchange=AllGather()), 6),
        (data_parallel.Setting("s", "demo", "SGD", exchange=AllGather()), 6),
        (data_parallel.Setting("s", "ddp", workers=1, exchange=AllGather()), 1),
    ],
)
def test_waits_of_workers_are_counted(
    setting: data_parallel.Setting, side_by_side: int, transfers: list[Any]
) -> None:
    data_parallel.run(WORKERS, setting, 0)
    count = len(transfers[0].transfers)
    assert export.worker_waits(setting, WORKERS) * side_by_side == count


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    [
        language_split.Setting("p", "s", upload=Upload(delta=True)),
        language_split.Setting("p", "s", upload=Upload(), period=3),
        language_split.Setting("p", "s", shape="U-shaped"),
    ],
)
def test_waits_of_a_split_transformer_are_counted(
    setting: language_split.Setting, transfers: list[Any]
) -> None:
    task = language_split.Task("t", "topics", 102, 3, 2, 1e-3, 4)
    language_split.run(task, setting, 0)
    assert export.split_waits(setting, task) == len(transfers[0].transfers)


@pytest.mark.later
def test_bytes_and_waits_of_fine_tuning(
    monkeypatch: pytest.MonkeyPatch, transfers: list[Any]
) -> None:
    """Bytes after each round are those of the messages, but for the first download."""
    small = lambda text, **_: gpt(len(text.alphabet), context=64, width=16, num_heads=1, seed=0)  # noqa: E731
    monkeypatch.setattr(finetune, "pretrained", small)
    task = finetune.Task("t", "topics", "topics", False, False, 1, 2, 3, 1, 2, 4)
    run = finetune.run(task, finetune.Setting("p", "s", "full", 1e-3), 0)
    told, channel = export.one_tuning(task, run), transfers[0]
    free = sum(t.nbytes for t in channel.transfers if t.step == 1 and t.kind == "model")
    by_round = [
        sum(t.nbytes for t in channel.transfers if t.step <= step) - free for step in (1, 2, 3)
    ]
    assert [nbytes for nbytes, _ in told["curve"]] == by_round
    assert told["waits"] == len(channel.transfers) / 2 - 1
    assert told["up"] == sum(t.nbytes for t in channel.transfers if t.kind == "update")
