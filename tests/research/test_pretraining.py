"""A pretrained model is trained once, kept in a file, and the same each time."""

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
def test_it_learns_once_and_is_then_read(tmp_path):
    state = torch.get_rng_state()
    first = pretrained(TEXT, num_steps=150, **SMALL, folder=tmp_path)
    assert torch.equal(torch.get_rng_state(), state)
    (path,) = tmp_path.iterdir()
    written = path.stat().st_mtime_ns
    again = pretrained(TEXT, num_steps=150, **SMALL, folder=tmp_path)
    assert path.stat().st_mtime_ns == written
    for name, tensor in first.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)
    untrained = gpt(len(TEXT.alphabet), **SMALL, seed=0)
    assert loss(first) < 0.5 * loss(untrained)


def test_other_arguments_are_other_files(tmp_path):
    for change in ({}, {"seed": 1}, {"num_steps": 3}, {"width": 8}):
        pretrained(TEXT, **{"num_steps": 2, **SMALL, **change}, folder=tmp_path)
    other = Text.of("another text, " * 40, "cats")
    pretrained(other, num_steps=2, **SMALL, folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 5


def test_a_damaged_file_is_trained_again(tmp_path):
    good = pretrained(TEXT, num_steps=5, **SMALL, folder=tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    again = pretrained(TEXT, num_steps=5, **SMALL, folder=tmp_path)
    assert path.read_bytes() == whole
    assert torch.equal(again[0].what.weight, good[0].what.weight)
