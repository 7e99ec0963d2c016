import math

import pytest
import torch

from experiments.language import split
from experiments.language.split import Cosine, Setting, Task
from experiments.replications.lowrank import Subspace
from fltoolkit.codecs import Pipeline
from fltoolkit.split import Upload
from fltoolkit_research.codecs import EDEN, ContextEntropy, RandTopK
from fltoolkit_research.data import load_text

SMALL = Task("small", "topics", 32, 2, 16, 6e-3, 16)


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
