"""Answers of notebook 02, against a real relay."""

import torch
from core.split.networks import party
from course.answers import Case
from torch import nn

import fltoolkit as flt
from fltoolkit_course.nb02 import notebook

CASES = {
    "number of hand-overs": Case(
        facts={"num_rounds": 20, "num_clients": 3},
        right=[59],
        wrong=[60, 40, 2],
    ),
    "weight of alice_2 in the mean": Case(
        facts={"counts": [304, 638, 495]},
        right=[638 / 1437],
        wrong=[1 / 3, 638, 44.4, 304 / 1437, 0.5],
    ),
}


def test_a_real_relay_has_as_many_hand_overs() -> None:
    bottoms = [party(f"alice_{number}", flt.splitnn_mlp(4, seed=0)[:4]) for number in range(3)]
    bob = party("bob", flt.splitnn_mlp(4, seed=0)[4:], nn.NLLLoss())
    x, y = torch.zeros(4, 4), torch.zeros(4, dtype=torch.long)
    batches, channel = [flt.Batches(x, y, 4, seed=0)] * 3, flt.Channel()
    list(flt.train_relay(bottoms, bob, batches, channel, num_rounds=2))
    handed_on = sum(transfer.kind == "model" for transfer in channel.transfers)
    assert notebook.check("number of hand-overs", handed_on, num_rounds=2, num_clients=3)
