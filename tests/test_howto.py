"""The code of docs/howto.md runs, and does what the page says."""

import re
from pathlib import Path

import pytest
import torch

from fltoolkit.pooled import lossless
from fltoolkit.research import read, run
from fltoolkit.research import text as spec

PAGE = (Path(__file__).parents[1] / "docs" / "howto.md").read_text(encoding="utf-8")
SUGGEST, TRAIN, GATE, EXPERIMENT, ALONE, PAPER = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.later
def test_the_row_that_sends_the_data(tmp_path):
    (row,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    plan = tmp_path / "plan.yaml"
    how = "{num_clients: 4, num_samples: 100, rounds: 1, lr: 0.1}"
    plan.write_text(f"defaults: {how}\nexperiments:\n- {{protocol: fedavg}}\n{row}")
    averaged, sent = read(plan)
    assert sent.codecs == {"samples": repr(lossless()), "labels": repr(lossless())}
    few = run(sent)[-1]
    assert few["nbytes"] == few["nbytes_samples_up"] + few["nbytes_labels_up"] < 4000
    assert run(averaged)[-1]["nbytes"] > 100 * few["nbytes"]


@pytest.mark.slow
def test_what_an_owner_reaches_alone(capsys):
    page: dict = {}
    exec(ALONE, page)
    found = page["found"]
    assert found.num == 3
    assert 0.1 < found.low < found.mean < found.high < 1
    assert capsys.readouterr().out.startswith(f"{found.mean:.1%} [")


@pytest.mark.slow
def test_settings_for_so_many_bytes(capsys):
    page: dict = {}
    exec(SUGGEST, page)
    assert 0 < page["history"][-1]["nbytes"] <= 300_000
    assert len(page["found"].tried) == 3
    assert "Experiment(" in capsys.readouterr().out


@pytest.mark.later
def test_stop_and_go_on(tmp_path):
    page: dict = {}
    exec(TRAIN, page)
    (tmp_path / "stopped" / "step-000010.tmp").mkdir(parents=True)  # killed during its first save
    page["train"](tmp_path / "stopped", 1)
    again, channel = page["train"](tmp_path / "stopped", 2)
    whole, through = page["train"](tmp_path / "whole", 2)
    for one, other in zip(again.parameters(), whole.parameters(), strict=True):
        assert torch.equal(one, other)
    assert channel.transfers == through.transfers


@pytest.mark.slow
def test_a_gate_of_ones_own(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(spec, "_NAMES", {**spec._NAMES})
    page: dict = {"__name__": "docs_howto"}
    exec("from fltoolkit.research import Experiment\n" + GATE, page)
    assert capsys.readouterr().out == "AAABC\n"
    exec(EXPERIMENT, page)
    last = page["last"]
    assert last["steps_a"] > 0 < last["steps_b"] + last["steps_c"]
    assert page["gated"].gate == "WhileItFalls(factor=0.9, every=5)"
    monkeypatch.chdir(tmp_path)
    exec(PAPER, page)
    assert b"/Type3" not in Path("front.pdf").read_bytes()
    assert r"\begin{tabular}" in capsys.readouterr().out
