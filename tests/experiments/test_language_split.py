"""The split experiment: what its settings are, a small run of each kind, and its tables."""

import math
from dataclasses import replace

import pytest
import torch

from experiments.language import split
from experiments.language.split import Cosine, Setting, Task
from fltoolkit.codecs import Pipeline
from fltoolkit.split import Upload
from fltoolkit_research.codecs import EDEN, ContextEntropy, RandTopK, Subspace
from fltoolkit_research.data import load_text

SMALL = Task("small", "topics", 32, 2, 16, 6e-3, 16)


def test_the_key_depends_on_all_that_a_run_depends_on():
    setting = Setting("a", "b")
    assert setting.key(SMALL, 0) == replace(setting, part="c", name="d", seeds=()).key(SMALL, 0)
    changes = [{"up": Pipeline(EDEN(2))}, {"down": Pipeline(EDEN(2))}, {"period": 3}]
    changes += [{"upload": Upload(moved=0.1)}, {"shape": "U-shaped"}]
    others = [replace(setting, **change).key(SMALL, 0) for change in changes]
    others += [setting.key(SMALL, 1), setting.key(replace(SMALL, lr=1e-3), 0)]
    assert len({setting.key(SMALL, 0), *others}) == 1 + len(others)


@pytest.mark.later
@pytest.mark.parametrize(
    "setting",
    [
        Setting("p", "float32"),
        Setting("p", "4 bits", *[Pipeline(Subspace(16), EDEN(4), ContextEntropy())] * 2),
        Setting("p", "differences", *[Pipeline(EDEN(2))] * 2, upload=Upload(delta=True)),
        Setting("p", "silence", upload=Upload(), period=2),
        Setting("p", "float32 (U)", shape="U-shaped"),
    ],
    ids=lambda setting: setting.name,
)
def test_a_run_says_what_the_tables_need(setting):
    result = split.run(SMALL, setting, 0)
    chance = math.log(len(load_text("topics").alphabet))  # 103 with Python 3.11, 140 with 3.14
    assert result["nats"] < chance + 0.07
    assert result["nats_coded"] > 0
    assert result["nbytes"] == result["nbytes_up"] + result["nbytes_down"] > 0
    assert split.summary(result).endswith("MB")
    if setting.name == "float32":
        values = 2 * 2 * 32 * 64 * 64  # both ways, epochs, windows, places, width
        assert 4 * values < result["nbytes"] < 4 * values + 500
        assert result["nats"] == result["nats_coded"]
        assert split.run(SMALL, setting, 0)["nats"] == result["nats"]


def test_only_the_structure_of_a_codec_stays_in_the_test():
    codec = Pipeline(Subspace(16), EDEN(4), ContextEntropy())
    assert split.structure(codec) == Pipeline(Subspace(16))
    assert split.structure(Pipeline(RandTopK(0.1))) == Pipeline(RandTopK(0.1, training=False))
    assert split.structure(Pipeline(EDEN(4))) is split.structure(None) is None


def test_the_learning_rate_rises_and_falls():
    param = torch.nn.Parameter(torch.zeros(1))
    optimizer, rates = Cosine([param], 0.1, num_steps=100, warm_up=10), []
    for _ in range(100):
        param.grad = torch.ones(1)
        optimizer.step()
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates[0] == pytest.approx(0.01)
    assert max(rates) == pytest.approx(0.1, rel=0.03) == rates[9]
    assert rates[-1] < 1e-4


def test_the_table_pairs_seeds_and_counts_times():
    def run(seed, nats, nbytes):
        return {"seed": seed, "nats": nats, "nats_coded": nats, "nbytes": nbytes, "seconds": 60}

    rows = [
        (Setting("p", "float32"), {1: run(1, 2.0, 8e6), 2: run(2, 3.0, 8e6)}),
        (Setting("p", "few bits"), {1: run(1, 2.1, 1e6)}),
    ]
    lines = split.table(rows, "none").splitlines()
    assert lines[2].startswith("| float32 | 2 | 2.500 [-3.853, 8.853] | +0.000 [+0.000, +0.000]")
    cells = "few bits | 1 | 2.100 | +0.100 | 2.100 | +0.100 | 1.0 | not measured | 8.0"
    assert lines[3] == f"| {cells} |"
    assert "no runs yet" in split.report({})
