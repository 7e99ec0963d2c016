"""The experiment on language models: small runs, and the page beside the store."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from experiments.language import data_parallel
from experiments.language.__main__ import RESULTS
from experiments.language.data_parallel import Setting, deal, run
from experiments.language.report import tables, time_to_target, what_costs
from experiments.language.task import Cosine, Task, held_out, model_of, text_of
from experiments.runs import nats_above
from fltoolkit_research.federated import AllGather

SMALL = Task("topics", context=16, layers=1, width=16, batch_size=2, workers=3, steps=6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", ["ddp", "diloco", "streaming", "demo", "noloco", "sparta", "dion"]
)
def test_a_small_run_of_each_method(method):
    optimizer = {"demo": "SGD", "dion": "Muon"}.get(method, "AdamW")
    options = {"noloco": {"group": 3}, "dion": {"rank": 2}}.get(method, {})
    inner_steps = 3 if method in ("diloco", "streaming") else 1
    setting = Setting("s", method, optimizer, inner_steps, options=options)
    result = run(SMALL, setting, 0)
    assert result["curve"][-1][:2] == [6, result["nbytes"]]
    assert 1 < result["nats"] < 6
    assert (result["uplink"] > 0) == (method != "noloco"), "partners send weights, kind model"
    assert run(SMALL, setting, 0)["nats"] == result["nats"]
    assert run(SMALL, setting, 1)["nats"] != result["nats"]


@pytest.mark.later
def test_one_worker_alone_has_its_own_quarter_and_sends_nothing():
    null = Setting("s", "ddp", workers=1, exchange=AllGather())
    alone = run(SMALL, null, 0)
    whole = run(SMALL, replace(null, steps=18, whole_text=True), 0)
    assert run(SMALL, replace(null, whole_text=True), 0)["nats"] != alone["nats"]
    assert alone["nbytes"] == whole["nbytes"] == 0
    assert whole["curve"][-1][0] == 18


@pytest.mark.later
def test_the_topology_of_the_uplink():
    """All to all, a message goes to both others, and counts once where only the uplink counts."""
    gathered = run(SMALL, Setting("s", "ddp", exchange=AllGather()), 0)
    served = run(SMALL, Setting("s", "ddp"), 0)
    assert gathered["nbytes"] == 2 * gathered["uplink"]
    assert gathered["uplink"] == served["uplink"]
    assert served["nbytes"] == 2 * served["uplink"]


def test_whole_speakers_are_dealt_evenly(monkeypatch):
    lines = "\n\n".join(
        f"{name}:\n" + f"My name is {name} and so on. " * count
        for name, count in (("Ann", 30), ("Ben", 12), ("Cem", 10), ("Dan", 9), ("Eve", 40))
    )
    text = data_parallel.text_of("topics").of(lines, "play")
    monkeypatch.setattr(data_parallel, "text_of", lambda name: text)
    workers = deal(SMALL, 0, by_role=True)
    sizes = [len(x) for x, _ in workers.values()]
    assert max(sizes) < 2 * min(sizes)
    said = ["".join(text.decode(row) for row in x) for x, _ in workers.values()]
    for name in ("Ann", "Ben", "Cem", "Eve"):
        assert sum(name in words for words in said) == 1


def test_the_schedule_and_the_loss():
    cosine = Cosine(600)
    assert [round(cosine(k), 3) for k in (0, 19, 300, 600)] == [0.05, 0.998, 0.55, 0.1]
    assert Cosine(600, before=100)(50) == cosine(150)
    model = model_of(SMALL, 0)
    x, y = text_of("topics").windows(16, "test")
    with torch.no_grad():
        expected = torch.nn.functional.nll_loss(model(x[:500]), y[:500])
    assert held_out(model, SMALL) == pytest.approx(float(expected), abs=0.05)


def test_tables_by_hand():
    def result(nats, nbytes):
        return {"nats": nats, "nbytes": nbytes, "uplink": nbytes / 2, **vars(Task())}

    slow, fast = Setting("AdamW, every step, float32", "ddp"), Setting("few", inner_steps=10)
    rows = [(slow, {1: result(2.0, 8e6), 2: result(2.2, 8e6)}), (fast, {2: result(2.15, 1e5)})]
    assert nats_above(rows[1][1], rows[0][1]) == pytest.approx([-0.05])
    printed = tables({"data parallel": rows})
    assert "| few | 1 | 2.150 | -0.050 | -0.050 | 0.10 |  | 80.0 | 80.0 |  |" in printed
    assert "few: 80 times fewer, -0.050 and -0.050 nats on 1 seed: met in the mean alone" in printed
    assert "2.100 [0.829, 3.371]" in printed
    end = ", 1,800 steps"
    longer = [
        (Setting(slow.name + end, "ddp", steps=1800), {2: result(1.9, 24e6)}),
        (Setting("few" + end, inner_steps=10, steps=1800), {2: result(1.96, 1e5)}),
    ]
    printed = tables({"data parallel": [*rows, *longer]})
    goal = (
        f"- few{end}: 240 times fewer, +0.060 and +0.060 nats on 1 seed: missed in the mean alone"
    )
    assert printed.count(goal) == 2, "75 times at any length, and 150 times at 1,800 steps"
    assert Path(RESULTS).name == "language.jsonl"


def test_what_costs_what_by_hand():
    every, tens = "Muon, every step, float32", "Muon, H = 10, float32"
    rows = [
        (Setting(every), {1: {"nats": 1.8, "nbytes": 8e6}, 2: {"nats": 1.9, "nbytes": 8e6}}),
        (Setting(tens), {1: {"nats": 1.9, "nbytes": 1e6}, 2: {"nats": 2.1, "nbytes": 1e6}}),
    ]
    *_, last = what_costs(rows).splitlines()
    assert last == f"| {tens} | {every} | 2 | +0.150 [-0.485, +0.785] | 8.0 |"


def test_time_to_a_target_by_hand():
    """Steps at 10 per second, and MB one after the other; the text costs the steps of all."""

    def result(*curve):
        last = {"nats": 2.0, "nbytes": curve[-1][1], "uplink": 1e6}
        return {**last, **vars(Task()), "curve": [list(row) for row in curve]}

    fast, slow = result((50, 1e6, 2.5), (100, 2.5e6, 2.2)), result((50, 1e6, 2.5), (200, 5e6, 2.1))
    never, short = result((600, 9e6, 2.3)), Setting("short", steps=60)
    rows = [
        (Setting("few"), {1: fast, 2: slow, 3: never}),
        (Setting("text", group="send the text"), {1: {**fast, "nbytes": 1.25e6}}),
        (Setting("never"), {1: never}),
        (short, {1: fast}),
    ]
    *_, few, text = time_to_target(rows).splitlines()
    assert few == "| few | 2 of 3 | 150 | 3.8 | 15 | 15 | 18 |"
    assert text == "| text | 1 of 1 | 400 | 1.2 | 40 | 40 | 41 |"
