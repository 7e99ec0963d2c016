import torch
from core.split.networks import party
from course.answers import Case
from torch import nn

import fltoolkit as flt
from fltoolkit.channel import Transfer
from fltoolkit.split import FreezeAfter, train_async_relay


def relay() -> list[Transfer]:
    """Two rounds in A, one in B, three in C, with ten clients."""
    alices = [party(f"alice_{number}", flt.splitnn_mlp(4, seed=0)[:4]) for number in range(10)]
    bob = party("bob", flt.splitnn_mlp(4, seed=0)[4:], nn.NLLLoss())
    x, y = torch.zeros(2, 4), torch.zeros(2, dtype=torch.long)
    batches, channel = [flt.Batches(x, y, 2, seed=0)] * 10, flt.Channel()
    gate = FreezeAfter(2)
    list(train_async_relay(alices, bob, batches, channel, gate=gate, num_rounds=6))
    return list(channel.transfers)


CASES = {
    "percentage of the transfers": Case(right=[3.75], wrong=[0.937, 0.0375, 26.7, 106.7]),
    "hand-overs": Case(facts={"transfers": relay()}, right=[28], wrong=[60, 30, 19, 29]),
}
