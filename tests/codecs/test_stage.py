"""What stages share: the side information of a stranger is checked on the way in."""

import math

import pytest
import torch

from fltoolkit.codecs import Symbols, side, take_side, take_symbols, with_side
from fltoolkit.wire import WireError

SCALE = side("w", "scale")


def test_side_information_is_taken_out():
    parts = {"w": torch.zeros(3), SCALE: torch.tensor(2.0), side("v", "scale"): torch.tensor(1.0)}
    assert with_side(parts, "scale") == ["w"]
    assert take_side(parts, "w", "scale") == 2
    assert SCALE not in parts
    codes = {SCALE: torch.tensor([[1, 2]], dtype=torch.uint8)}
    assert take_side(codes, "w", "scale", torch.uint8, None).shape == (1, 2)


@pytest.mark.parametrize(
    ("info", "match"),
    [
        (None, "'w': expected side information 'scale', float32 of shape .*none came"),
        (Symbols(torch.zeros(1), 2), "none came"),
        (torch.tensor(1.0).double(), "found float64 of shape"),
        (torch.zeros(1), r"found float32 of shape \(1,\)"),
        (torch.tensor(math.nan), "'w': expected finite side information 'scale'"),
        (torch.tensor(-math.inf), "expected finite"),
    ],
)
def test_side_information_that_no_stage_sent(info, match):
    with pytest.raises(WireError, match=match):
        take_side({} if info is None else {SCALE: info}, "w", "scale")


@pytest.mark.parametrize(
    "part",
    [
        None,
        torch.zeros(3),
        Symbols(torch.zeros(3).byte(), 5),
        Symbols(torch.zeros(0).byte(), 4),
        Symbols(torch.tensor([0, 4]).byte(), 4),
        Symbols(torch.tensor([-1, 0]).int(), 4),
    ],
)
def test_symbols_that_no_stage_sent(part):
    with pytest.raises(WireError, match="'w': expected symbols"):
        take_symbols({} if part is None else {"w": part}, "w", 4)


def test_symbols_stay_where_they_are():
    parts = {"w": Symbols(torch.tensor([0, 3]).byte(), 4)}
    assert take_symbols(parts, "w", 4).tolist() == [0, 3]
    assert "w" in parts
