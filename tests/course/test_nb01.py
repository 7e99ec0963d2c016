import pytest
import torch
from core.split.networks import party
from course.answers import Case
from torch import nn

import fltoolkit as flt
from fltoolkit_course.nb01 import epoch_nbytes

DIGITS = 1427  # 22 batches of 64 and one of 19
VALUES = 2 * 128 * 4 * DIGITS
SAVED = 17 * 24 / (2 * 640 * 4 * DIGITS + 23 * 24)

CASES = {
    "length of the float16 message": Case(
        right=[81_932], wrong=[81_920, 81_926, 81_931, 163_852, "81,931"]
    ),
    "bytes of one epoch with cut=2": Case(
        facts={"num_samples": DIGITS, "batch_size": 64},
        right=[VALUES + 2 * 12 * 23],
        wrong=[
            VALUES,
            2 * 22 * (64 * 128 * 4 + 12),
            2 * 23 * (64 * 128 * 4 + 12),
            (VALUES + 552) // 2,
            2 * 640 * 4 * DIGITS + 2 * 12 * 23,
        ],
    ),
    "fraction saved": Case(
        facts={"num_samples": DIGITS}, right=[SAVED], wrong=[0.75, 75, 0.0055, 0.0038]
    ),
}


@pytest.mark.parametrize(("batch_size", "cut", "width"), [(64, 2, 128), (64, 4, 640), (30, 4, 640)])
def test_the_formula_is_what_a_run_sends(batch_size: int, cut: int, width: int) -> None:
    x, y = torch.zeros(150, 64), torch.zeros(150, dtype=torch.long)
    model, channel = flt.splitnn_mlp(64, seed=0), flt.Channel()
    alice, bob = party("alice", model[:cut]), party("bob", model[cut:], nn.NLLLoss())
    batches = flt.Batches(x, y, batch_size, seed=0)
    list(flt.train_split([alice, bob], batches.epoch(0), channel))
    assert channel.nbytes() == epoch_nbytes(150, batch_size, width)
