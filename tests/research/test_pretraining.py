"""A pretrained model has learned its text, and is the same each time."""

import pytest
import torch
from torch import nn

from fltoolkit_research import pretrained
from fltoolkit_research.data import Text
from fltoolkit_research.models import gpt

TEXT = Text.of("the cat sat on the mat and the rat sat on the cat. " * 40, "cats")
SMALL = {"context": 16, "num_layers": 1, "width": 16, "num_heads": 2}


def loss(model):
    x, y = TEXT.windows(16, "test")
    with torch.no_grad():
        return float(nn.functional.nll_loss(model(x), y))


@pytest.mark.later
def test_it_learns_and_is_the_same_each_time():
    state = torch.get_rng_state()
    first, again = (pretrained(TEXT, num_steps=150, **SMALL) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    for name, tensor in first.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)
    untrained = gpt(len(TEXT.alphabet), **SMALL, seed=0)
    assert loss(first) < 0.5 * loss(untrained)
