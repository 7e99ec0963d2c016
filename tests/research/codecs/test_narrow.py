"""Whole numbers in few bits: exact, and refused where bytes were forged."""

import pytest
import torch

from fltoolkit.codecs import Pipeline, Quantize
from fltoolkit.codecs.stage import side
from fltoolkit.testing import normal
from fltoolkit.wire import WireError, pack, unpack
from fltoolkit_research.codecs import ContextEntropy, Narrow


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
@pytest.mark.parametrize("low", [-100, 0, 20])
def test_whole_numbers_come_back_exactly(dtype, low):
    low = max(low, torch.iinfo(dtype).min)
    numbers = (low + torch.arange(90) % 65).to(dtype).reshape(9, 10)
    codec = Pipeline(Narrow())
    got = codec.decode(codec.encode({"y": numbers}))["y"]
    assert got.dtype == dtype
    assert torch.equal(got, numbers)


def test_characters_cost_seven_bits_and_fewer_with_entropy_coding():
    generator = torch.Generator().manual_seed(0)
    text = (torch.rand(8000, generator=generator) ** 4 * 65).long()
    text[:2] = torch.tensor([0, 64])
    plain, narrow, entropy = (
        len(Pipeline(*stages).encode({"y": text}))
        for stages in ((), (Narrow(),), (Narrow(), ContextEntropy()))
    )
    counts = text.bincount().double()
    bits = -(counts[counts > 0] / 8000 * (counts[counts > 0] / 8000).log2()).sum()
    assert plain > 64_000
    assert 7000 < narrow < 7040
    assert 1000 * bits < entropy < 1040 * bits


@pytest.mark.parametrize("ends", [(0, 2**16), (-(2**62), 2**62), (-(2**63), 2**63 - 1)])
def test_a_wide_range_is_sent_as_it_is(ends):
    tree = {"n": torch.tensor(ends), "f": normal(3), "b": torch.tensor([True, False])}
    message = Pipeline(Narrow()).encode(tree)
    assert message == Pipeline().encode(tree)
    edge = {"n": torch.tensor([2**63 - 1, 2**63 - 2, 2**63 - 65_536])}
    got = Pipeline(Narrow()).decode(Pipeline(Narrow()).encode(edge))["n"]
    assert torch.equal(got, edge["n"])


def test_floats_go_on_to_the_next_stage():
    tree = {"w": normal(40, 30), "y": torch.arange(1200) % 10}
    both = Pipeline(Narrow(), Quantize(4))
    assert len(both.encode(tree)) < 1300
    got, alone = both.decode(both.encode(tree)), Pipeline(Quantize(4))
    assert torch.equal(got["w"], alone.decode(alone.encode(tree))["w"])


def test_forged_numbers_are_refused():
    codec = Pipeline(Narrow())
    entries = unpack(codec.encode({"y": torch.tensor([1, 3, 2], dtype=torch.int8)}))
    lowest = side("y", "i")
    for forged in (
        torch.tensor(126, dtype=torch.int8),  # 126 + 2 does not fit
        torch.tensor(2**63 - 2),
        torch.tensor(0.0),
        torch.tensor([1, 2]),
    ):
        with pytest.raises(WireError, match="'y'"):
            codec.decode(pack({**entries, lowest: forged}))
