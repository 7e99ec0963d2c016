"""The data files of docs/explore are what the stored runs say, small, and complete."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.language import data_parallel, finetune
from experiments.language import split as language_split
from experiments.language.task import Task
from experiments.pareto import report as pareto_report
from fltoolkit import Channel
from fltoolkit.split import Upload
from fltoolkit_research import Experiment
from fltoolkit_research.federated import AllGather, Ring
from fltoolkit_research.models import gpt

ROOT = Path(__file__).parents[2]
EXPLORE = ROOT / "docs" / "explore"
PAGES = sorted(EXPLORE.glob("*.html"))
URL = re.compile(r"""(?:src|href)="([^"]*)\"""")


def load(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


export = load(ROOT / "tools" / "export_explore.py", "export_explore")


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("pareto", export.the_one_plot),
        ("fedavg", export.rounds_of_averaging),
        ("language", export.language),
        ("silence", export.silence),
        ("leakage", export.what_leaks),
        ("digits", export.digits),
    ],
)
def test_the_data_are_those_of_the_stored_runs(name: str, make: Any, tmp_path: Path) -> None:
    export.write(name, make(), tmp_path)
    again = (tmp_path / f"{name}.js").read_text(encoding="utf-8")
    kept = (EXPLORE / "data" / f"{name}.js").read_text(encoding="utf-8")
    assert again == kept, "say: python tools/export_explore.py"


@pytest.mark.parametrize("path", sorted((EXPLORE / "images").glob("*.svg")), ids=lambda p: p.stem)
def test_no_words_of_a_saved_picture_lie_outside_of_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    width = float(re.findall(r'viewBox="0 0 ([\d.]+)', text)[0])
    pattern = r'<text x="([-\d.]+)"[^>]*text-anchor="(\w+)" font-size="([\d.]+)"[^>]*>([^<]+)'
    words = re.findall(pattern, text)
    assert len(words) > 10
    for x, anchor, size, each in words:
        wide = 0.5 * float(size) * len(each)
        left = float(x) - wide * {"start": 0, "middle": 0.5, "end": 1}[anchor]
        assert left >= 0, each
        assert left + wide <= width, each


@pytest.mark.slow
def test_the_whole_export_is_what_is_kept(tmp_path: Path) -> None:
    export.export(tmp_path)
    made = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert len(made) == 10
    for path in made:
        assert (tmp_path / path).read_bytes() == (EXPLORE / path).read_bytes(), path


def test_stops_of_the_codec_sliders() -> None:
    """Some are measured again; if all values are kept, the nominal bits are those of the slider."""
    tensors = {n: export.tensor_of(t) for n, t in export.read(export.TENSORS).items()}
    codec = export.read(EXPLORE / "data" / "codec.js")
    for name, tensor in tensors.items():
        stops = codec["stops"][name]
        assert len(stops) == len(codec["bits"]) * len(codec["fractions"])
        for fraction, bits in (1.0, 4), (0.1, 32), (0.01, 8):
            assert export.codec_stop(tensor, bits, fraction) == stops[f"{fraction:g}/{bits}"]
        nominal = [stops[f"1/{bits}"][1] for bits in codec["bits"]]
        assert [round(bits) for bits in nominal] == codec["bits"]


@pytest.mark.slow
def test_recording_again_gives_nearly_the_same_tensors() -> None:
    again, kept = export.record(), export.read(export.TENSORS)
    assert again.keys() == kept.keys()
    for name in kept:  # another processor may round sums otherwise
        a, b = export.tensor_of(again[name]), export.tensor_of(kept[name])
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


def test_each_code_is_an_experiment_of_the_store() -> None:
    kept = {
        (r.experiment.name, r.experiment.data): r.experiment
        for r in pareto_report.read_kept()
        if r.experiment.seed == 0
    }
    keys = {r.experiment.key for r in pareto_report.read_kept()}
    methods = [
        (f"{method['name']} ({task['partition']})", task["data"], method)
        for task in export.read(EXPLORE / "data" / "pareto.js")["tasks"]
        for method in task["methods"]
    ]
    assert sum(method["family"] != export.NULL_ROW for *_, method in methods) == 100
    for name, data, method in methods:
        code = method["code"]
        before, run, _ = code.partition("print(run(experiment)[-1])")
        assert run
        names: dict[str, Any] = {}
        exec(before, names)  # our own file, which a test above compares with the store
        assert isinstance(names["experiment"], Experiment)
        if method["family"] == export.NULL_ROW:  # owners together stand under the first one
            assert names["experiment"].key in keys, name
        else:
            assert names["experiment"].key == kept[name, data].key, name


def test_short_texts_lose_defaults_only() -> None:
    text = "Pipeline(Quantize(bits=3, stochastic=True, seed=0, per='tensor'), Entropy())"
    assert export.short(text) == "Pipeline(Quantize(bits=3, stochastic=True), Entropy())"


def test_accuracies_are_whole_numbers_of_samples() -> None:
    assert export.correct(0.9666666666666667, 360) == 348
    with pytest.raises(ValueError, match="no multiple of 1/360"):
        export.correct(0.9667, 360)


def test_a_file_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    value = {"a": [1, 2.5, None], "words": "Hönig; = \n"}
    export.write("x", value, tmp_path)
    assert export.read(tmp_path / "x.js") == json.loads(json.dumps(value))


def test_scripts_are_small() -> None:
    assert sum(path.stat().st_size for path in EXPLORE.glob("*.js")) <= 160_000


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_the_data_of_a_page_are_small(page: Path) -> None:
    names = re.findall(r'<script src="data/(\w+)\.js">', page.read_text(encoding="utf-8"))
    data = sum((EXPLORE / "data" / f"{name}.js").stat().st_size for name in names)
    assert data <= 480_000  # the largest: five seeds of 145 rows, 110 kB when compressed


# --------------------------------------------------------------------------------- language models


@pytest.fixture
def transfers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The messages of the last run of an experiment with language models."""
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
        (data_parallel.Setting("s", "ddp"), 3),
        (data_parallel.Setting("s", "ddp", steps=4, exchange=Ring()), 3),
        (data_parallel.Setting("s", "diloco", inner_steps=2), 3),
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


def test_waits_of_an_unknown_method_are_not_guessed() -> None:
    assert export.worker_waits(data_parallel.Setting("s", "gossip"), WORKERS) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    [
        language_split.Setting("p", "s"),
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


def test_each_command_runs_its_setting() -> None:
    """``--only`` holds the name of a setting, and ``--task`` one of its tasks."""
    for task in export.language()["tasks"]:
        for method in task["methods"]:
            assert method["code"].endswith(f'--only "{method["name"]}"')
            assert '"' not in method["name"]
    settings = [f"{s.part}: {s.name}" for s in export.fedavg.settings()]
    for task in export.rounds_of_averaging()["tasks"]:
        for method in task["methods"]:
            only = method["code"].partition("--only ")[2].strip('"')
            assert any(only in name for name in settings)


def test_runs_that_diverged_are_left_out() -> None:
    rows = [("a", {1: {"nats": 2.0}, 2: {"diverged": 7}}), ("b", {1: {"diverged": 3}})]
    assert export.finished(rows) == [("a", {1: {"nats": 2.0}})]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_page_loads_nothing_from_elsewhere_and_its_links_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for url in URL.findall(text):
        if url.startswith("https:"):
            assert f'<a href="{url}"' in text, f"{url} would be loaded"
        elif not url.startswith(("#", "data:")):
            assert (page.parent / url.partition("#")[0]).exists(), url
    assert 'type="module"' not in text  # file:// has no modules
    scripts = "".join(p.read_text(encoding="utf-8") for p in EXPLORE.glob("*.js"))
    assert not re.search(r"\bfetch\(|XMLHttpRequest|import\s*\(", scripts)
    assert not re.search(r'(?<!<a href=")https?:', scripts)  # links only


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_page_asks_a_question_says_what_to_conclude_and_works_without_scripts(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.search(r"<h1>[^<]+\?</h1>", text)
    assert "<b>What to see:</b>" in text
    assert "<b>Conclude:</b>" in text
    assert re.search(r"<noscript>.*<img [^>]*alt=\"[^\"]{20,}\"></noscript>", text)
    assert re.search(r'href="\.\./\.\./notebooks/\w+\.ipynb"', text)
