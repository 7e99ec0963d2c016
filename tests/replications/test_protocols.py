"""The protocols that replications make for experiments are the functions, called directly."""

import numpy as np
import pytest
import torch

from experiments.replications.decoupled_momentum import DEMO, DION, demo, dion
from experiments.replications.gossip import NOLOCO, SPARTA, noloco, sparta
from experiments.replications.zeroth_order import DECOMFL, FEDKSEED, Directions, decomfl, fedkseed
from fltoolkit.channel import Channel
from fltoolkit.codecs import Entropy, Pipeline, Quantize
from fltoolkit.data import load, partition_iid
from fltoolkit.federated import Local
from fltoolkit.models import splitnn_mlp
from fltoolkit_research import Experiment, run
from fltoolkit_research.federated import muon_for

HOW = {"num_samples": 192, "num_clients": 4, "rounds": 2, "batch_size": 32, "lr": 0.05, "seed": 3}
ONE, TWO = Local(32, lr=0.05, steps=1), Local(32, lr=0.05, steps=2)


def muon(model):
    optimizer = muon_for(model, momentum=None, lr=0.05, adamw_lr=0.002)
    return Local(32, optimizer=optimizer, steps=1)


LOW_RANK = {"count": 2, "rank": 1, "mu": 0.01}
CASES = {  # settings of the experiment, and of the call that is the same
    NOLOCO: (
        {"local_steps": 2, "group": 2, "lr": 0.5, "momentum": 0.25},
        (noloco, {"rounds": 2, "local": TWO, "group": 2, "outer": (0.5, 0.25)}),
    ),
    SPARTA: ({"fraction": 0.25}, (sparta, {"rounds": 2, "local": ONE, "fraction": 0.25})),
    DEMO: (
        {"decay": 0.9, "chunk": 16},
        (demo, {"steps": 4, "local": ONE, "decay": 0.9, "chunk": 16}),
    ),
    DION: ({"rank": 2, "adamw_lr": 0.002}, (dion, {"steps": 4, "local": muon, "rank": 2})),
    DECOMFL: (
        {"local_steps": 2, "cohort_size": 2, **LOW_RANK},
        (decomfl, {"rounds": 2, "local": TWO, "along": Directions(**LOW_RANK), "cohort": 2}),
    ),
    FEDKSEED: (
        {"local_steps": 2, "count": 16},
        (fedkseed, {"rounds": 2, "local": TWO, "along": Directions(16), "cohort": 4}),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", CASES, ids=str)
def test_an_experiment_is_the_function_called_directly(protocol):
    settings, (train, how) = CASES[protocol]
    kind = "model" if protocol is NOLOCO else "update"
    codecs = {} if protocol is DECOMFL else {kind: Pipeline(Quantize(8), Entropy())}
    history = run(Experiment(protocol, settings=settings, codecs=codecs, **HOW))

    model, data = splitnn_mlp(64, 10, seed=3), load("digits").flat()
    first = {n: t.clone() for n, t in model.state_dict().items()}
    local = how["local"](model) if protocol is DION else how["local"]
    rows = np.random.default_rng(0).permutation(len(data.y_train))[:192]
    x, y = data.x_train[rows], data.y_train[rows]
    parts = partition_iid(y, 4, seed=3)
    shares = {f"client_{k}": (x[part], y[part]) for k, part in enumerate(parts)}
    channel = Channel(codecs)
    list(train(model, shares, channel, seed=3, **how | {"local": local}))
    assert any(not torch.equal(model.state_dict()[n], t) for n, t in first.items())
    assert history[-1]["nbytes"] == channel.nbytes() > 0
    right = (model.eval()(data.x_test).argmax(1) == data.y_test).float().mean().item()
    assert history[-1]["accuracy"] == pytest.approx(right)
    assert history.column("round") == [1, 2]
