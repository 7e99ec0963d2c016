"""The code of docs/howto.md and docs/for_researchers.md runs, and does what the pages say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from fltoolkit import Party
from fltoolkit.cli import main
from fltoolkit_research import read, run
from fltoolkit_research.pooled import lossless

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "howto.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
AVERAGE, DEVICES, TRAIN, GATE, EXPERIMENT, PAPER = PYTHON

SUITE = """
import pytest
from mine import OneBit

from fltoolkit.codecs import BitPack, Pipeline
from fltoolkit.testing import Conformance


@pytest.mark.parametrize("codec", [Pipeline(OneBit(), BitPack())], ids=repr)
class TestOneBit(Conformance):
    pass
"""


@pytest.mark.later
def test_the_row_that_sends_the_data(tmp_path):
    (rows,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    plan = tmp_path / "plan.json"
    how = '{"num_clients": 4, "num_samples": 100, "rounds": 1, "lr": 0.1}'
    first = '{"protocol": "fedavg"}'
    plan.write_text(f'{{"defaults": {how}, "experiments": [{first}, {rows}]}}')
    averaged, sent, alone = read(plan)
    assert sent.codecs == {"samples": lossless(), "labels": lossless()}
    few = run(sent)[-1]
    assert few["nbytes"] == few["nbytes_samples_up"] + few["nbytes_labels_up"] < 4000
    assert run(alone)[-1]["nbytes"] == 0
    assert run(averaged)[-1]["nbytes"] > 100 * few["nbytes"]


@pytest.mark.slow
def test_all_of_it_in_two_files(tmp_path, monkeypatch, capsys):
    """As docs/for_researchers.md has them: a stage that passes the suite, a plan and a picture."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    page = (ROOT / "docs" / "for_researchers.md").read_text(encoding="utf-8")
    (mine,), (plan,) = (
        re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("python", "json")
    )
    Path("mine.py").write_text(mine)
    Path("plan.json").write_text(plan.replace('"rounds": 40', '"rounds": 2'))
    Path("test_mine.py").write_text(SUITE)
    passed = subprocess.run([sys.executable, "-m", "pytest", "-q", "test_mine.py"], check=False)
    assert passed.returncode == 0
    assert main(["sweep", "plan.json", "--import", "mine"]) == 0
    out = capsys.readouterr().out
    rows = {line.split(" | ")[0].lstrip("| "): line for line in out.splitlines() if line[:1] == "|"}
    for name in ("float32", "mine", "top-k", "send the data", "each owner alone, mean"):
        assert " | 3 | " in rows[name]
    assert "times the data" in rows["setting"]
    *_, told = out.strip().splitlines()
    assert main(told.partition("fltoolkit ")[2].split()) == 0, "the command that it names"
    assert Path("plan.png").stat().st_size > 10_000


@pytest.mark.later
def test_federated_averaging_without_an_experiment(capsys):
    page: dict = {}
    exec(AVERAGE, page)
    exec(DEVICES, page | {"Party": Party, "nn": nn, "torch": torch})
    assert page["score"]["accuracy"] > 0.5
    assert page["record"]["nbytes_up"] < page["record"]["nbytes_down"] / 3
    assert len(capsys.readouterr().out.splitlines()) == 3


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
    page: dict = {"__name__": "docs_howto"}
    exec("from fltoolkit_research import Experiment\n" + GATE, page)
    assert capsys.readouterr().out == "AAABC\n"
    exec(EXPERIMENT, page)
    last = page["last"]
    assert last["steps_a"] > 0 < last["steps_b"] + last["steps_c"]
    assert repr(page["gated"].gate) == "WhileItFalls(factor=0.9, every=5)"
    monkeypatch.chdir(tmp_path)
    exec(PAPER, page)
    assert Path("front.pdf").read_bytes().startswith(b"%PDF")
    assert "setting,accuracy,low,high,nbytes" in capsys.readouterr().out
