import copy
import itertools
import math

import numpy as np
import pytest
import torch
from core.codecs.test_every_stage import DRAWING
from core.codecs.test_every_stage import STAGES as EVERY
from trees import there_and_back

from fltoolkit.codecs import Float8, Half, PlainQuantize, Quantize
from fltoolkit.codecs.quantize import CHUNK
from fltoolkit.codecs.stage import Symbols, side
from fltoolkit.testing import normal
from fltoolkit.wire import WireError
from fltoolkit_research.codecs import QSGD, STC, BFloat16, LloydMax, Quantiles, Sign, Ternary

MAX = torch.finfo(torch.float32).max
TINY = 2.0**-149  # the least denormal
KINDS = (Quantize, QSGD, Ternary, Sign, Quantiles, LloydMax, Float8, Half, BFloat16)
STAGES = [stage for stage in EVERY.values() if isinstance(stage, KINDS)]
RANDOM = [stage for stage in DRAWING if isinstance(stage, KINDS)]
NUM_DRAWS = 800  # messages; tolerances follow from it


def symbols_of(stage, tensor):
    return stage.apply({"w": tensor})["w"].values


def largest_error(stage, tensor):
    return float((there_and_back(stage, tensor).double() - tensor.double()).abs().max())


def step_of(tensor, bits):
    return float(tensor.max().double() - tensor.min().double()) / (2**bits - 1)


# ------------------------------------------------------------------------ laws of every stage
@pytest.mark.parametrize("stage", STAGES, ids=repr)
def test_constant_tensors(stage):
    """Exact, but for floats too small for the value; QSGD is right on average only."""
    for value in (0.0, -0.0, 1.5, -2.0, 0.1, 100.0):
        out = there_and_back(stage, torch.full((33, 2), value))
        largest = float((out - value).abs().max())
        if isinstance(stage, QSGD) and value:
            assert out.abs().max() <= abs(value) * 66**0.5 * 1.001
        elif stage == Float8(2, 5, bias=1):
            assert largest <= (max(abs(value), 1) * 2**-6 if abs(value) < 7 else 93)
        elif isinstance(stage, (Float8, Half, BFloat16)):
            assert largest <= abs(value) * 2**-4
        else:
            assert (out == value).all()


EXTREMES = {
    "largest": torch.tensor([MAX, -MAX, 0.0, 1.0, MAX / 2]),
    "largest, of one sign": torch.tensor([MAX, MAX / 3, MAX]),
    "denormal": torch.tensor([TINY, 0.0, -3 * TINY, 7 * TINY]),
    "both": torch.tensor([MAX, TINY, -TINY, 0.0]),
    "neighbours": torch.tensor([100.0, np.nextafter(np.float32(100), np.float32(101))]),
    "neighbours of the largest": torch.tensor([MAX, np.nextafter(np.float32(MAX), np.float32(0))]),
    "far from zero": torch.linspace(100, 101, 1000),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("stage", STAGES, ids=repr)
def test_extremes_stay_finite_and_within_bounds(stage):
    for name, tensor in EXTREMES.items():
        out = there_and_back(stage, tensor)
        assert out.isfinite().all(), name
        if isinstance(stage, (Quantize, Quantiles, LloydMax)):
            error, span = (out.double() - tensor.double()).abs().max(), tensor.max().double()
            assert error <= (span - tensor.min().double()) * (1 + 1e-6), name
        assert out.abs().double().max() <= tensor.abs().double().max() * 2**0.5 * 1000**0.5, name


# ------------------------------------------------------------------------ uniform quantization
@pytest.mark.parametrize("bits", range(1, 17))
@pytest.mark.parametrize("n", [2, 1000, 2 * CHUNK + 5])
def test_fast_is_plain(bits, n):
    x = normal(n, seed=bits)
    plain = PlainQuantize(bits)
    parts, plain_parts = Quantize(bits).apply({"w": x}), plain.apply({"w": x})
    differ = (parts["w"].values.int() - plain_parts["w"].values.int()).abs()
    assert differ.max() <= 1
    position = (x.double() - x.min()) / step_of(x, bits)
    # float32 arithmetic may decide otherwise only where it is a tie but for rounding
    tie = ((position - position.floor()) - 0.5).abs()
    assert not (differ.bool() & (tie > 2**-14)).any()
    if bits > 8:
        assert not differ.any()
    close = {"rtol": 0, "atol": 2**-22 * float(x.abs().max())}
    for sent in (parts, plain_parts):  # each decodes what the other sends
        torch.testing.assert_close(Quantize(bits).undo(sent)["w"], plain.undo(sent)["w"], **close)


@pytest.mark.parametrize("bits", [1, 4, 8, 11, 16])
@pytest.mark.parametrize("n", [3, 4096, CHUNK + 7])
def test_dither_is_plain(bits, n):
    """floor(position + u) with the raw numbers of the documented generator, in float64.

    Of each chunk the first half is from 16 raw bits each, the second what they lack of 1.
    """
    x = normal(n, seed=n)
    stage = Quantize(bits, stochastic=True, seed=5)
    stage.start_link(9)
    symbols = symbols_of(stage, x)
    raw, u = np.random.SFC64(np.random.SeedSequence([5, 9, 0])), []
    for size in [CHUNK] * (n // CHUNK) + [n % CHUNK]:
        half = (size + 1) // 2
        first = raw.random_raw((half + 3) // 4).view(np.uint16)[:half] / 65536
        u += [first, 65535 / 65536 - first[: size - half]]
    position = (x.double() - x.min()) / step_of(x, bits)
    wanted = (position + torch.from_numpy(np.concatenate(u))).floor()
    assert (symbols - wanted).abs().max() <= 1
    assert (symbols != wanted).double().mean() <= (0 if bits > 8 else 4 / n + 2**-13)


@pytest.mark.parametrize(
    "x",
    [
        normal(5000),
        100 + torch.rand(5000, generator=torch.Generator().manual_seed(1)),  # [100, 101]
        normal(5000).relu(),
        normal(5000) * 1e-42,
        normal(5000) * 1e37,
        torch.tensor([-MAX, MAX, 1e38, -3e38, 0.0]),
    ],
    ids=["normal", "[100, 101]", "relu", "denormal", "huge", "all finite numbers"],
)
def test_error_bound(x):
    rounding = 2**-22 * float(x.abs().max()) + TINY
    for bits, stochastic in itertools.product(range(1, 17), (False, True)):
        bound = step_of(x, bits) * (1 if stochastic else 0.5)
        error = largest_error(Quantize(bits, stochastic), x)
        assert error <= bound * (1 + 1e-4) + rounding, (bits, stochastic)


@pytest.mark.parametrize("bits", [1, 3, 8, 16])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 0.1, 3.0, 1e30, 1e-40])
def test_the_top_does_not_wrap(bits, scale):
    """255.5 as uint8 is 0 or 255 as the compiler likes: the top must stay the top."""
    n = 3 * 65536  # each dither value is met by the top about once
    x = torch.full((n,), 0.7 * scale)
    x[0] = -0.3 * scale
    top = 2**bits - 1
    for stage in (Quantize(bits), Quantize(bits, stochastic=True, seed=1)):
        symbols = symbols_of(stage, x)
        assert symbols[0] == 0
        assert (symbols[1:] >= top - 1).all()
        assert (symbols[1:] == top).double().mean() > 1 - 1e-4
    for stage in (Ternary(), QSGD(1, bucket=1), QSGD(127, bucket=1)):
        out = there_and_back(stage, x)
        assert (out[1:] >= 0).all()
        assert out[0] <= 0


def test_rounding_above_the_top_does_not_wrap():
    """In float32 the top may come out a hair above 255, and then dither is added."""
    x = torch.rand(1_000_000, 2, generator=torch.Generator().manual_seed(0)).sort(1).values
    symbols = symbols_of(Quantize(8, stochastic=True, per=2), x)
    assert not symbols[:, 0].any()
    assert symbols[:, 1].min() >= 254


def test_levels_themselves_are_exact():
    x = torch.arange(256.0).flip(0)
    for stage in (Quantize(8), Quantize(8, stochastic=True)):
        assert torch.equal(there_and_back(stage, x), x)
    assert torch.equal(there_and_back(QSGD(5, bucket=1), x), x)


def test_zeros_of_sparse_tensors_stay_zeros():
    x = normal(300_000).relu() * 3
    for stage in (Quantize(8), Quantize(8, True), QSGD(3), QSGD(127), Ternary()):
        out = there_and_back(stage, x)
        assert (out[x == 0] == 0).all()
        assert (out >= 0).all()
    few = torch.zeros(100).index_fill(0, torch.tensor([3, 50]), 1.0)
    assert torch.equal(there_and_back(STC(0.1), few) != 0, few != 0)


def test_channels_and_blocks_are_independent():
    x = normal(6, 50)
    x[2] *= 1e4
    x[4] = 7.0
    for per in ("channel", 50):
        together = there_and_back(Quantize(5, per=per), x)
        for row in range(6):
            assert torch.equal(together[row], there_and_back(Quantize(5), x[row]))
    # one huge value spoils its own block only
    assert largest_error(Quantize(5, per=50), x[[0, 1, 3, 5]]) < step_of(x[[0, 1, 3, 5]], 5)
    assert Quantize(5, per="channel").apply({"w": x})[side("w", "r")].shape == (6, 2)
    assert Quantize(5, per=64).apply({"w": x})[side("w", "r")].shape == (5, 2)
    assert Quantize(5, per="channel").apply({"w": x[0]})[side("w", "r")].shape == (1, 2)


@pytest.mark.parametrize("width", [2, 5, 64, 65, 4096, CHUNK, CHUNK + 3])
def test_blocks_of_any_width_are_plain(width):
    x = normal(2 * CHUNK + 77)
    out = there_and_back(Quantize(12, per=width), x)
    for i, block in enumerate(x.split(width)):
        if i % 997 == 0 or i * width > len(x) - 3 * width:
            wanted = there_and_back(Quantize(12), block)
            assert torch.equal(out[i * width : i * width + width], wanted)


# ------------------------------------------------------------------------------------- theory
def tolerance(stage, x):
    """4 sigma of the mean if it is x, for values rounded to one of two neighbouring levels."""
    parts = copy.deepcopy(stage).apply({"w": x})
    symbols, num_levels = parts["w"]
    low, next_lowest = (
        stage.undo({**parts, "w": Symbols(torch.full_like(symbols, q), num_levels)})["w"].double()
        for q in (0, 1)
    )
    step = next_lowest - low
    part = ((x - low) / step) % 1
    sigma = step * (part * (1 - part) / NUM_DRAWS).sqrt()
    # events too rare for the normal law; the grid of the dither; rounding to float32
    return 4 * sigma + 5 * step / NUM_DRAWS + step * 2**-16 + x.abs().max() * 2**-22


@pytest.mark.slow
@pytest.mark.parametrize("stage", RANDOM, ids=repr)
@pytest.mark.parametrize(
    "x",
    [normal(40), normal(40) ** 5, 100 + normal(40).abs(), torch.tensor([3.0, 1e-3, 0, -1e-3])],
    ids=["normal", "heavy tails", "far from zero", "sparse"],
)
def test_random_rounding_is_unbiased(stage, x):
    link = copy.deepcopy(stage)
    mean = torch.stack([there_and_back(link, x) for _ in range(NUM_DRAWS)]).double().mean(0)
    assert ((mean - x).abs() <= tolerance(stage, x)).all()
    assert not torch.equal(there_and_back(stage, x), x)


# ------------------------------------------------------------------------------- hostile parts
CODED = [stage for stage in STAGES if not isinstance(stage, (Half, BFloat16))]


@pytest.mark.parametrize("stage", CODED, ids=repr)
@pytest.mark.filterwarnings("error")
def test_hostile_parts_are_wire_errors(stage):
    parts = stage.apply({"w": normal(8, 8)})
    main, (name, info) = parts["w"], next((k, v) for k, v in parts.items() if k != "w")
    few = Symbols(main.values[:0], main.num_levels)
    bad = [
        {**parts, "w": normal(8, 8)},
        {**parts, "w": few},
        {**parts, "w": Symbols(main.values, main.num_levels + 1)},
        {**parts, "w": Symbols(main.values.int() - main.num_levels, main.num_levels)},
        {**parts, "w": Symbols(main.values.int() + main.num_levels, main.num_levels)},
        {**parts, name: Symbols(main.values, 2)},
        {**parts, name: info.double()},
        {**parts, name: info.bfloat16()},
        {**parts, name: info[None]},
        {**parts, name: info.reshape(-1)[:0]},
        {**parts, name: torch.zeros(3, 5, dtype=info.dtype)},
    ]
    if info.is_floating_point():
        bad += [{**parts, name: torch.full_like(info, v)} for v in (math.nan, math.inf)]
    if isinstance(stage, (QSGD, Ternary, Sign)):
        bad += [{**parts, name: -info}]
    if isinstance(stage, Quantize):
        bad += [{**parts, name: info.flip(1)}]
    if isinstance(stage, Float8):
        bad += [{**parts, name: torch.tensor(-128).to(torch.int8)}]
    for case in bad:
        with pytest.raises(WireError, match="entry 'w': "):
            stage.undo(case)


@pytest.mark.parametrize("stage", CODED, ids=repr)
def test_symbols_of_others_are_left_alone(stage):
    """So that two quantizers in one pipeline work; the pipeline complains about leftovers."""
    parts = {"w": Symbols(torch.zeros(3, dtype=torch.uint8), 7), side("w", "?"): torch.ones(1)}
    assert stage.undo(parts) == parts
    for first in CODED:
        if first.what != stage.what:
            sent = copy.deepcopy(stage).apply(copy.deepcopy(first).apply({"w": normal(9)}))
            assert first.undo(stage.undo(sent))["w"].dtype == torch.float32
