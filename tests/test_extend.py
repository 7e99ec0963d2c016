"""The code of docs/extend.md runs, and does what the page says.

The blocks of the page up to the protocol are the file my_module.py; what follows uses it.
"""

import importlib
import re
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from torch import nn

from fltoolkit.cli import main
from fltoolkit.codecs import Pipeline
from fltoolkit.plots.style import summary
from fltoolkit.testing import Conformance
from fltoolkit_research import Experiment, front, metric_of, points, protocols, read, run

PAGE = (Path(__file__).parents[1] / "docs" / "extend.md").read_text(encoding="utf-8")
*MODULE, EXPERIMENT, SWEEP, PLOT, CLINICS, HUB, LOGGED = re.findall(
    r"```python\n(.*?)```", PAGE, re.DOTALL
)
(KAPPA,) = re.findall(r"```text\n(import torchmetrics.*?)```", PAGE, re.DOTALL)
(PLAN,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
SAID, COMPARED, DRAWN = re.findall(r"^fltoolkit (.*)$", PAGE, re.MULTILINE)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with my_module.py and plan.json in it, where we are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_module", raising=False)
    (tmp_path / "my_module.py").write_text("\n".join(MODULE))
    (tmp_path / "plan.json").write_text(PLAN)
    yield tmp_path
    sys.modules.pop("my_module", None)


def words(line):
    """What a shell makes of a line of the page."""
    return [word.strip("'") for word in line.split(" ")]


@pytest.mark.later
def test_a_stage_that_makes_more_values_needs_the_check(folder):
    page = importlib.import_module("my_module")
    suite = Conformance()
    for test in (
        suite.test_names_shapes_and_dtypes_come_back,
        suite.test_hostile_content_ends_in_a_wire_error_or_a_tree,
        suite.test_more_values_than_a_receiver_allows_are_refused,
    ):
        test(Pipeline(page.EveryOther()))
    page.check_num_values = lambda number: None  # a stage that forgot it
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        suite.test_more_values_than_a_receiver_allows_are_refused(Pipeline(page.EveryOther()))


@pytest.mark.slow
def test_the_experiment_of_the_page_runs(folder):
    page = {}
    exec(EXPERIMENT, page)
    last = page["last"]
    assert 0 <= last["surprises"] < 0.9
    assert last["nbytes"] == last["nbytes_model_across"] > 0
    assert "accuracy" not in last
    assert run(page["experiment"])[-1] == last
    exec(SWEEP, page)
    assert [r.error for r in page["results"]] == [""] * 3
    in_file = {e.key for e in read("plan.json", [sys.modules["my_module"]])}
    assert {r.experiment.key for r in page["results"]} == in_file


def test_a_codec_for_a_kind_that_gossip_never_sends_is_an_error(folder):
    gossip = importlib.import_module("my_module").gossip
    own = {"protocol": gossip, "num_clients": 2}
    with pytest.raises(ValueError, match=r"gossip sends model, and never 'update'"):
        Experiment(**own, codecs={"update": "Pipeline(Quantize(8))"})
    with pytest.raises(ValueError, match=r"settings\['meetings'\] = 0: give a whole number"):
        Experiment(**own, settings={"meetings": 0})
    with pytest.raises(ValueError, match="gossip needs at least 2"):
        Experiment(gossip)
    with pytest.raises(ValueError, match=r"the settings of gossip are meetings"):
        Experiment(**own, settings={"neighbours": 2})


@pytest.mark.later
def test_a_protocol_with_a_server_learns_as_fedavg_does(folder):
    quiet, how = importlib.import_module("my_module").quiet, {"num_clients": 3, "rounds": 2}
    codecs = {"update": "Pipeline(Quantize(8))"}
    ours, theirs = (run(Experiment(p, codecs=codecs, **how))[-1] for p in (quiet, "fedavg"))
    for key in ("test_loss", "accuracy", "nbytes_up", "nbytes_down", "num_waits"):
        assert ours[key] == theirs[key], key
    with pytest.raises(ValueError, match="or let at least one client send it"):
        run(Experiment(quiet, codecs=codecs, settings={"threshold": 1e6}, **how))


def test_the_page_lists_all_settings_and_protocols():
    rows = dict(re.findall(r"^\| `(\w+)` \| `(.*?)` \| [\w`\"]", PAGE, re.M))
    defaults = {f.name: f.default for f in fields(Experiment)} | {"settings": {}, "codecs": {}}
    assert {n: rows.get(n) for n in defaults} == {
        n: repr(value).replace("'", '"') for n, value in defaults.items()
    }
    table = re.findall(
        r"^\| `(\w+)` \| (`?\w+.*?) \| (.*) \|$", PAGE.split("its settings |")[1], re.M
    )
    names = {*protocols.__all__}
    for name, sends, settings in table[: len(names)]:
        known = getattr(protocols, name)
        names.remove(name)
        assert re.findall(r"`(\w+)`", sends) == list(known.sends)
        assert re.findall(r"`(\w+)`", settings) == list(known.settings)
    assert not names


def test_without_the_module_the_error_says_how_to_name_it(folder, capsys):
    (folder / "my.json").write_text('{"protocol": "gossip"}')
    assert main(["sweep", "my.json"]) == 2
    assert "protocol='gossip': choose one of alone" in (err := capsys.readouterr().err)
    assert "--import MODULE" in err
    (folder / "my.json").write_text('{"protocol": "gosip"}')
    assert main(["sweep", "my.json", "--import", "my_module"]) == 2
    err = capsys.readouterr().err
    assert "protocol='gosip': choose one of gossip, quiet, alone" in err
    assert "--import" not in err


@pytest.mark.slow
def test_from_the_plan_to_the_plot(folder, capsys):
    line = words(SAID)
    assert main(line[: line.index("--workers")]) == 0
    table = capsys.readouterr().out
    assert "text(length=2000), my_model(width=32), 4 clients, iid, CrossEntropyLoss(), " in table
    assert re.search(r"\| setting \| surprises \[%\] \| minus .* \| sent \|", table), table
    assert main(words(COMPARED)) == 0
    assert "setting,surprises,low,high,nbytes" in (text := capsys.readouterr().out), text
    assert main(words(DRAWN)) == 0
    assert Path("plan.png").exists()
    page = {}
    exec(PLOT, page)
    found = points(page["results"])
    assert [p.name for p in found] == ["gossip, 8 bits", "gossip", "FedAvg"]
    best = min(found, key=lambda p: p.value)
    assert not metric_of(p.experiment for p in found).higher_is_better
    assert front(found)[-1] == best  # lower is better
    assert page["ax"].get_ylabel() == "surprises [%]"
    assert "gossip, 8 bits: " in summary(page["ax"])
    assert Path("gossip.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.later
def test_clinics_are_clients(folder):
    page = {}
    exec("import torch\nfrom fltoolkit.data import Samples", page)
    exec(CLINICS, page)
    rows = [f"{['north', 'south', 'west'][k % 3]},{k % 2},{k},{-k}" for k in range(60)]
    Path("clinics.csv").write_text("\n".join(["clinic,ill,age,weight", *rows]))
    own = {"data": page["my_clinics"], "loss": nn.CrossEntropyLoss, "rounds": 1}
    experiment = Experiment("fedavg", num_clients=3, partition="owners", **own)
    assert run(experiment)[-1]["nbytes"] > 0


@pytest.mark.later
def test_the_loop_for_tensorboard_and_a_metric_of_torchmetrics(folder):
    pytest.importorskip("tensorboard", reason="needs pip install tensorboard")
    from tensorboard.backend.event_processing import event_file_loader
    from tensorboard.util import tensor_util

    pytest.importorskip("torchmetrics", reason="needs pip install torchmetrics")
    importlib.import_module("my_module")
    page = {}
    exec(EXPERIMENT, page)
    exec(LOGGED, page)
    (events,) = Path("runs/gossip").glob("events*")
    loader = event_file_loader.EventFileLoader(str(events))
    logged = {(v.tag, event.step): v for event in loader.Load() for v in event.summary.value}
    value = tensor_util.make_ndarray(logged["nbytes_here", page["record"]["step"]].tensor)
    assert float(value) == pytest.approx(page["record"]["nbytes"] / 2)  # of two equal rounds
    states = {"state": "C", "step": 4, "loss": 0.5, "nbytes_up": 30}
    assert page["numbers"](states, {"state": "A", "nbytes_up": 20}) == {
        **{"step": 4, "loss": 0.5, "nbytes_up": 30},
        "nbytes_up_here": 10,
    }
    exec("from fltoolkit.metrics import Metric", page)
    exec(KAPPA, page)
    assert page["KAPPA"].better(1.0, 0.5)
