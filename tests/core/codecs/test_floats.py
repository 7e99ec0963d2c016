import math

import numpy as np
import pytest
import torch
from trees import squared_error, there_and_back

from fltoolkit.codecs import Float8, Half, floats
from fltoolkit.codecs.floats import MANY
from fltoolkit.testing import normal
from fltoolkit_research.codecs import BFloat16

MAX = torch.finfo(torch.float32).max


@pytest.mark.parametrize(("e", "m"), [(e, m) for e in range(1, 8) for m in range(8 - e)])
def test_float8_rounds_to_the_nearest_of_all_codes(e, m):
    bias = 2 ** (e - 1) - 1 + (e == 7)
    magnitudes = [  # straight from the definition
        math.ldexp(M, 1 - bias - m) if E == 0 else math.ldexp(2**m + M, E - bias - m)
        for E in range(2**e)
        for M in range(2**m)
    ]
    all_values = torch.tensor([*magnitudes, *(-v for v in magnitudes)]).double()
    stage = Float8(e, m, bias=bias)
    assert stage.num_levels == len(all_values)
    x = normal(500, seed=e) * 4
    out = there_and_back(stage, x).double()
    nearest = (x[:, None].double() - all_values).abs().min(1).values
    assert torch.equal((out - x.double()).abs(), nearest)
    # each code means what it should, comes back as itself, and what lies beyond saturates
    assert torch.equal(there_and_back(stage, all_values.float()).double(), all_values)
    assert stage.apply({"w": all_values.float()})["w"].values.tolist() == list(
        range(len(all_values))
    )
    top = float(all_values.max())
    assert there_and_back(stage, torch.tensor([MAX, -MAX])).tolist() == [top, -top]


def test_float8_ties_go_away_from_zero():
    stage = Float8(4, 3, bias=7)  # near 1: steps of 1/8
    x = torch.tensor([1 + 1 / 16, 1 + 3 / 16, -1 - 1 / 16, 1 + 1 / 16 - 2**-20])
    assert there_and_back(stage, x).tolist() == [1.125, 1.25, -1.125, 1.0]


@pytest.mark.slow
@pytest.mark.parametrize(("e", "m"), [(1, 6), (2, 1), (3, 4), (4, 3), (5, 0), (5, 2), (7, 0)])
@pytest.mark.parametrize(
    "x",
    [
        normal(300),
        normal(300) * 1e4,
        torch.cat([normal(300) * 1e-3, torch.tensor([1.0])]),  # sacrificing the outlier may pay
        torch.tensor([1.0, 2.0, 4.0]),
        normal(50) * 1e37,
        normal(50) * 1e-39,
    ],
    ids=["normal", "large", "outlier", "powers", "huge", "denormal"],
)
def test_the_search_finds_the_best_bias(e, m, x):
    best = min(squared_error(Float8(e, m, bias=bias), x) for bias in range(2**e - 128, 128))
    assert squared_error(Float8(e, m), x) <= best * (1 + 1e-9)


@pytest.mark.parametrize(("e", "m"), [(1, 6), (3, 4), (4, 3), (5, 2)])
@pytest.mark.parametrize("power", [1, 5], ids=["normal", "heavy tails"])
def test_the_search_among_many_values_is_as_good(e, m, power, monkeypatch):
    """It looks at classes of values; the plain search looks at each."""
    x = normal(MANY + 70_000).abs().pow(power) * normal(MANY + 70_000, seed=1).sign()
    found = Float8(e, m).apply({"w": x})
    monkeypatch.setattr(floats, "MANY", len(x))
    plain = Float8(e, m).apply({"w": x})
    errors = [(Float8(e, m).undo(parts)["w"] - x).square().sum() for parts in (found, plain)]
    assert errors[0] <= 1.001 * errors[1]


@pytest.mark.later
def test_codes_of_small_floats_are_those_of_their_table():
    """The table looks each code up; `Float8` shifts bits instead, in all its formats."""
    upper = np.arange(1 << 16, dtype=np.uint32)
    upper = upper[upper & 0x7FFF < 0x7F80]  # the others are infinite or NaN
    for exponent in range(1, 8):
        for mantissa in range(8 - exponent):
            stage, lowest = Float8(exponent, mantissa), (1 << exponent) - 128
            for bias in {*range(lowest, 128, 17), lowest + 1, 126, 127}:
                table, _ = floats._float_tables(exponent, mantissa, bias)
                for lower in (0, 0xFFFF):
                    codes = stage._codes((upper << 16 | lower).view(np.float32), bias)
                    assert (codes == table[upper]).all(), (stage, bias, lower)


@pytest.mark.parametrize(
    ("stage", "dtype"), [(Half(), torch.float16), (BFloat16(), torch.bfloat16)]
)
def test_narrow_floats_saturate(stage, dtype):
    top = torch.finfo(dtype).max
    x = torch.tensor([1.0, MAX, -MAX, 0.1, top * 1.0001])
    sent = stage.apply({"w": x})["w"]
    assert sent.dtype == dtype
    back = stage.undo({"w": sent})["w"]
    assert back.dtype == torch.float32
    assert back.tolist() == [1.0, top, -top, torch.tensor(0.1, dtype=dtype).item(), top]
    x = normal(1000)
    assert torch.equal(there_and_back(stage, x), x.to(dtype).float())
