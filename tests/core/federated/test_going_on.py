"""A saved run goes on as one that never stopped: protocols whose workers remember something."""

from functools import partial

import pytest
import torch
from core.federated.small import ADAM, FOUR, INNER, network, three_layers, weights

from experiments.replications.decoupled_momentum import demo, dion
from experiments.replications.drift import feddyn, scaffold
from experiments.replications.gossip import noloco, sparta
from experiments.replications.personal import ditto, fedper
from experiments.replications.zeroth_order import Directions, decomfl, fedkseed
from fltoolkit.channel import Channel
from fltoolkit.checkpoint import load_run, save_run
from fltoolkit.codecs import ErrorFeedback, Pipeline, Quantize, TopK
from fltoolkit.federated import Fleet, Local
from fltoolkit.party import Party
from fltoolkit_research.federated import Stream, ddp, des_loc, diloco, muon_for, streaming_diloco

STEP = {"local": Local(3, optimizer=ADAM, steps=1, clip_norm=0.5)}
PLAIN = {"local": Local(4, lr=0.05, steps=3), "cohort": 2}
MUON = Local(4, optimizer=muon_for(three_layers(), lr=0.05, momentum=None), steps=1)
SGD = partial(torch.optim.SGD, lr=0.03)
RUNS = {
    "ddp": partial(ddp, **STEP),
    "demo": partial(demo, local=Local(5, optimizer=SGD, steps=1), chunk=8),
    "dion": partial(dion, local=MUON, rank=2),
    "diloco": partial(diloco, local=INNER),
    "des_loc": partial(des_loc, local=INNER, moments={"exp_avg": 3}),
    "streaming_diloco": partial(streaming_diloco, local=INNER, stream=Stream(2)),
    "noloco": partial(noloco, local=INNER),
    "sparta": partial(sparta, local=INNER),
    "scaffold": partial(scaffold, **PLAIN),
    "feddyn": partial(feddyn, **PLAIN, alpha=0.5),
    "ditto": partial(ditto, **PLAIN, pull=0.1),
    "fedper": partial(fedper, **PLAIN, at_home=lambda name: name.startswith("2.")),
    "decomfl": partial(decomfl, **PLAIN),
    "fedkseed": partial(fedkseed, **PLAIN, along=Directions(40)),
}
FEW_BITS, FEW = ErrorFeedback(Pipeline(Quantize(2))), Pipeline(TopK(0.25))
CODECS = {"ddp": {"update": FEW_BITS, "model": FEW_BITS}, "demo": {"update": FEW}}


@pytest.mark.parametrize("name", RUNS)
def test_each_learns_and_a_saved_run_goes_on_as_one_that_never_stopped(name, tmp_path):
    """Weights, ledger, and what each worker keeps to itself."""
    make = three_layers if name == "dion" else network
    count = "steps" if name in ("ddp", "demo", "dion") else "rounds"

    def fresh(seed):
        return make(seed), Fleet(FOUR), Channel(CODECS.get(name))

    def go(run, rounds):
        return list(RUNS[name](*run, **{count: rounds}, seed=3))

    whole, first, second = fresh(0), fresh(0), fresh(5)
    records = go(whole, 5)
    if "loss" in records[0]:  # decomfl and fedkseed learn slowly, and say no loss
        assert records[-1]["loss"] < records[0]["loss"]
    go(first, 3)
    save_run(tmp_path, [Party("model", first[0]), first[1]], first[2])
    load_run(tmp_path, [Party("model", second[0]), second[1]], second[2])
    go(second, range(3, 5))
    assert torch.equal(weights(whole[0]), weights(second[0]))
    assert whole[2].transfers == second[2].transfers
    assert whole[1].weights.keys() == second[1].weights.keys()
    for worker, own in whole[1].weights.items():
        assert all(torch.equal(second[1].weights[worker][n], t) for n, t in own.items())
