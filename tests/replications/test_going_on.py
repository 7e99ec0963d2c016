"""A saved run goes on as one that never stopped: protocols whose workers remember something."""

from functools import partial

import pytest
import torch
from core.federated.small import ADAM, FOUR, INNER, network, same, three_layers, weights

from experiments.replications.decoupled_momentum import Momenta, demo, dion
from experiments.replications.drift import Corrections, scaffold
from experiments.replications.ef21_muon import Estimates, ef21_muon
from experiments.replications.gossip import Apart, noloco, sparta
from experiments.replications.moments import des_loc
from experiments.replications.personal import AtHome, ditto, fedper
from experiments.replications.streaming import Underway, streaming_diloco
from experiments.replications.zeroth_order import Directions, Followed, Sums, decomfl, fedkseed
from fltoolkit.channel import Channel
from fltoolkit.checkpoint import load_run, save_run
from fltoolkit.codecs import ErrorFeedback, Pipeline, Quantize, TopK
from fltoolkit.federated import Fleet, Local
from fltoolkit.party import Party
from fltoolkit_research.federated import ddp, diloco, muon_for

STEP = {"local": Local(3, optimizer=ADAM, steps=1, clip_norm=0.5)}
PLAIN = {"local": Local(4, lr=0.05, steps=3), "cohort": 2}
MUON = Local(4, optimizer=muon_for(three_layers(), lr=0.05, momentum=None), steps=1)
SGD = partial(torch.optim.SGD, lr=0.03)
RUNS = {  # each with what keeps its memory, beside the fleet
    "ddp": (partial(ddp, **STEP), None),
    "demo": (partial(demo, local=Local(5, optimizer=SGD, steps=1), chunk=8), Momenta),
    "dion": (partial(dion, local=MUON, rank=2), Momenta),
    "ef21_muon": (partial(ef21_muon, local=MUON), Estimates),
    "diloco": (partial(diloco, local=INNER), None),
    "des_loc": (partial(des_loc, local=INNER, moments={"exp_avg": 3}), None),
    "streaming_diloco": (partial(streaming_diloco, local=INNER), Underway),
    "noloco": (partial(noloco, local=INNER), Apart),
    "sparta": (partial(sparta, local=INNER), Apart),
    "scaffold": (partial(scaffold, **PLAIN), Corrections),
    "ditto": (partial(ditto, **PLAIN, pull=0.1), AtHome),
    "fedper": (partial(fedper, **PLAIN, at_home=lambda name: name.startswith("2.")), AtHome),
    "decomfl": (partial(decomfl, **PLAIN), Followed),
    "fedkseed": (partial(fedkseed, **PLAIN, along=Directions(40)), Sums),
}
FEW_BITS, FEW = ErrorFeedback(Pipeline(Quantize(2))), Pipeline(TopK(0.25))
CODECS = {"ddp": {"update": FEW_BITS, "model": FEW_BITS}, "demo": {"update": FEW}}


@pytest.mark.later
@pytest.mark.parametrize("name", RUNS)
def test_each_learns_and_a_saved_run_goes_on_as_one_that_never_stopped(name, tmp_path):
    """Weights, ledger, and what each worker keeps to itself."""
    make = three_layers if name in ("dion", "ef21_muon") else network
    count = "steps" if name in ("ddp", "demo", "dion", "ef21_muon") else "rounds"
    protocol, memory = RUNS[name]

    def fresh(seed):
        kept = [Fleet(FOUR), *([memory()] if memory else [])]
        return make(seed), Channel(CODECS.get(name)), kept

    def go(run, rounds):
        model, channel, (fleet, *own) = run
        how = {count: rounds, "seed": 3, **({"memory": own[0]} if own else {})}
        return list(protocol(model, fleet, channel, **how))

    whole, first, second = fresh(0), fresh(0), fresh(5)
    records = go(whole, 5)
    if "loss" in records[0]:  # decomfl and fedkseed learn slowly, and say no loss
        assert records[-1]["loss"] < records[0]["loss"]
    go(first, 3)
    save_run(tmp_path, [Party("model", first[0]), *first[2]], first[1])
    load_run(tmp_path, [Party("model", second[0]), *second[2]], second[1])
    go(second, range(3, 5))
    assert torch.equal(weights(whole[0]), weights(second[0]))
    assert whole[1].transfers == second[1].transfers
    for one, other in zip(whole[2], second[2], strict=True):
        assert same(one.state_dict(), other.state_dict())
