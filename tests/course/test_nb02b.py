"""Answers of notebook 02b, against a real U-shape."""

import torch
from core.split.networks import party
from course.answers import Case
from torch import nn

import fltoolkit as flt
from fltoolkit_course.nb02b import notebook

CASES = {
    "crossover with the cut at 2": Case(
        facts={"num_features": 64, "num_samples": 1437, "num_rounds": 20},
        right=[2],
        wrong=[18, 4, 3],
    ),
    "bytes of a step with the thin tail": Case(
        right=[70_702],
        wrong=[70_656, 35_328, 35_351, 393_264, "70,701"],
    ),
}


def test_a_real_step_sends_as_much() -> None:
    model, channel = flt.splitnn_mlp(64, seed=0), flt.Channel()
    chain = [party("alice", model[:2]), party("bob", model[2:5])]
    chain.append(party("alice", model[5:], nn.NLLLoss()))
    flt.split_step(chain, torch.zeros(64, 64), torch.zeros(64, dtype=torch.long), channel)
    assert notebook.check("bytes of a step with the thin tail", channel.nbytes())
