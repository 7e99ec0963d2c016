from dataclasses import replace

import pytest
import torch

from experiments.language import data_parallel
from experiments.language.data_parallel import Setting, deal, run
from experiments.language.task import Cosine, Task, held_out, model_of, text_of
from fltoolkit_research.federated import AllGather

SMALL = Task("topics", context=16, layers=1, width=16, batch_size=2, workers=3, steps=6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", ["ddp", "diloco", "streaming", "demo", "noloco", "sparta", "dion", "ef21_muon"]
)
def test_a_small_run_of_each_method(method):
    optimizer = {"demo": "SGD", "dion": "Muon", "ef21_muon": "Muon"}.get(method, "AdamW")
    options = {"noloco": {"group": 3}, "dion": {"rank": 2}}.get(method, {})
    inner_steps = 3 if method in ("diloco", "streaming") else 1
    setting = Setting("s", method, optimizer, inner_steps, options=options)
    result = run(SMALL, setting, 0)
    assert result["curve"][-1][:2] == [6, result["nbytes"]]
    assert 1 < result["nats"] < 6
    assert (result["uplink"] > 0) == (method != "noloco"), "partners send weights, kind model"
    assert run(SMALL, setting, 0)["nats"] == result["nats"]
    if method in ("ddp", "noloco"):  # the same draws for all, and partners
        assert run(SMALL, setting, 1)["nats"] != result["nats"]


@pytest.mark.later
def test_one_worker_alone_has_its_own_quarter_and_sends_nothing():
    null = Setting("s", "ddp", workers=1, exchange=AllGather())
    alone = run(SMALL, null, 0)
    whole = run(SMALL, replace(null, steps=18, whole_text=True), 0)
    assert run(SMALL, replace(null, whole_text=True), 0)["nats"] != alone["nats"]
    assert alone["nbytes"] == whole["nbytes"] == 0
    assert whole["curve"][-1][0] == 18


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
    model = model_of(SMALL, 0)
    x, y = text_of("topics").windows(16, "test")
    with torch.no_grad():
        expected = torch.nn.functional.nll_loss(model(x[:500]), y[:500])
    assert held_out(model, SMALL) == pytest.approx(float(expected), abs=0.05)
