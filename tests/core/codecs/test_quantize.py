import copy
import itertools
import math

import numpy as np
import pytest
import torch

from fltoolkit.codecs import (
    QSGD,
    BFloat16,
    Float8,
    Half,
    LloydMax,
    PlainQuantize,
    Quantiles,
    Quantize,
    Sign,
    Ternary,
    codebooks,
)
from fltoolkit.codecs.codebooks import MANY
from fltoolkit.codecs.quantize import CHUNK, chunks
from fltoolkit.codecs.stage import Symbols, side
from fltoolkit.testing import normal
from fltoolkit.wire import WireError

MAX = torch.finfo(torch.float32).max
TINY = 2.0**-149  # the least denormal
STAGES = [
    Quantize(8),
    Quantize(1),
    Quantize(16, stochastic=True, seed=3),
    Quantize(4, per="channel"),
    Quantize(8, stochastic=True, per=16),
    QSGD(4, bucket=32),
    QSGD(300),
    Ternary(),
    Sign(),
    Quantiles(3),
    LloydMax(3),
    Float8(),
    Float8(2, 5, bias=1),
    Half(),
    BFloat16(),
]
RANDOM = [
    Quantize(3, stochastic=True),
    Quantize(12, stochastic=True, per=8),
    QSGD(2, bucket=8),
    QSGD(500),
    Ternary(),
]
NUM_DRAWS = 800  # messages; tolerances follow from it


def there_and_back(stage, tensor):
    tree = stage.undo(stage.apply({"w": tensor}))
    assert list(tree) == ["w"]
    assert tree["w"].dtype == torch.float32
    assert tree["w"].shape == tensor.shape
    return tree["w"]


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


def plain_dither(key, n):
    """Of each chunk the first half from 16 raw bits each, the second what they lack of 1."""
    bits, u = np.random.SFC64(key), []
    for size in [CHUNK] * (n // CHUNK) + [n % CHUNK]:
        half = (size + 1) // 2
        first = bits.random_raw((half + 3) // 4).view(np.uint16)[:half] / 65536
        u += [first, 65535 / 65536 - first[: size - half]]
    return np.concatenate(u)


@pytest.mark.parametrize("bits", [1, 4, 8, 11, 16])
@pytest.mark.parametrize("n", [3, 4096, CHUNK + 7])
def test_dither_is_plain(bits, n):
    """floor(position + u) with the raw numbers of the documented generator, in float64."""
    x = normal(n, seed=n)
    stage = Quantize(bits, stochastic=True, seed=5)
    stage.start_link(9)
    symbols = symbols_of(stage, x)
    u = torch.from_numpy(plain_dither(np.random.SeedSequence([5, 9, 0]), n))
    wanted = ((x.double() - x.min()) / step_of(x, bits) + u).floor()
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


def test_the_bound_is_not_generous():
    assert largest_error(Quantize(4), normal(5000)) > 0.49 * step_of(normal(5000), 4)
    assert largest_error(Quantize(4, True), normal(5000)) > 0.9 * step_of(normal(5000), 4)


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


@pytest.mark.parametrize("width", [1, 3, 1000, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
@pytest.mark.parametrize("n", [1, 1000, CHUNK, 2 * CHUNK + 1, 3 * CHUNK + 17])
def test_chunks_cover_each_value_once(n, width):
    end = 0
    for rows, places in chunks(n, width):
        size = places.stop - places.start
        assert places.start == end
        assert 0 < size <= CHUNK
        assert rows.start == places.start // width
        assert rows.stop == (places.stop - 1) // width + 1
        assert size % (rows.stop - rows.start) == 0
        end = places.stop
    assert end == n


# ------------------------------------------------------------------------------------- theory


def moments(stage, x, num_draws=NUM_DRAWS):
    """The mean of many messages of one link, and their mean squared error."""
    draws = torch.stack([there_and_back(stage, x) for _ in range(num_draws)]).double()
    return draws.mean(0), float(((draws - x) ** 2).sum(dim=tuple(range(1, draws.dim()))).mean())


def tolerance(stage, x, num_draws=NUM_DRAWS):
    """4 sigma of the mean if it is x, for values rounded to one of two neighbouring levels."""
    parts = copy.deepcopy(stage).apply({"w": x})
    symbols, num_levels = parts["w"]
    low, next_lowest = (
        stage.undo({**parts, "w": Symbols(torch.full_like(symbols, q), num_levels)})["w"].double()
        for q in (0, 1)
    )
    step = next_lowest - low
    part = ((x - low) / step) % 1
    sigma = step * (part * (1 - part) / num_draws).sqrt()
    # events too rare for the normal law; the grid of the dither; rounding to float32
    return 4 * sigma + 5 * step / num_draws + step * 2**-16 + x.abs().max() * 2**-22


@pytest.mark.slow
@pytest.mark.parametrize("stage", RANDOM, ids=repr)
@pytest.mark.parametrize(
    "x",
    [normal(40), normal(40) ** 5, 100 + normal(40).abs(), torch.tensor([3.0, 1e-3, 0, -1e-3])],
    ids=["normal", "heavy tails", "far from zero", "sparse"],
)
def test_random_rounding_is_unbiased_and_omega_holds(stage, x):
    mean, squared = moments(copy.deepcopy(stage), x)
    assert ((mean - x).abs() <= tolerance(stage, x)).all()
    assert squared <= stage.omega(x.numel()) * float((x.double() ** 2).sum()) * 1.001
    assert squared > 0


def test_nearest_rounding_is_biased():
    """The test above would notice."""
    x = normal(40)
    mean, _ = moments(Quantize(3), x)
    assert ((mean - x).abs() > tolerance(Quantize(3), x)).sum() > 30


@pytest.mark.later
def test_omega_is_nearly_reached_by_adversaries():
    d = 101
    worst = torch.full((d,), 1 / (d**0.5 + 1))  # see Ternary.omega
    worst[0] = 1
    for stage, x, share in [
        (Ternary(), worst, 0.95),
        (QSGD(1, bucket=d), torch.full((d,), 1.0), 0.85),  # sqrt(d) - 1 of sqrt(d)
        (Quantize(2, stochastic=True), torch.tensor([1.0, -1.0] + [1 / 3 - 1 / 3] * 99), 0.95),
    ]:
        squared = moments(stage, x)[1] / float((x.double() ** 2).sum())
        assert share * stage.omega(d) <= squared <= 1.02 * stage.omega(d), stage


def test_alpha_of_nearest_rounding():
    for bits, per, n in itertools.product([2, 4, 8], ["tensor", 16], [2, 10, 100]):
        stage = Quantize(bits, per=per)
        for x in (normal(n), normal(n) ** 9, torch.cat([torch.ones(n - 1), -torch.ones(1)]) * 9):
            if alpha := stage.contraction(n):
                squared = ((there_and_back(stage, x) - x).double() ** 2).sum()
                assert squared <= (1 - alpha + 1e-9) * (x.double() ** 2).sum()
    assert Quantize(1).contraction(1000) is None
    assert Quantize(8, stochastic=True).contraction(10) is None
    assert Quantize(8).omega(10) is None


def worst_for_splitting(n):
    """All that a split at the mean can do is halve the rest: two outliers, and a little noise."""
    return torch.cat([torch.ones(1), normal(n - 2).sign() * 1e-6, -torch.ones(1)])


def worst_for_float8(stage, n):
    """A largest value just above half the top level, and all others half of the finest step."""
    levels = torch.tensor(values_of(stage.exponent, stage.mantissa, 64)).double()
    top, step = levels.max(), levels[levels > 0].min()
    others = torch.full((n - 1,), float(step / 2 * 0.999))
    return torch.cat([torch.full((1,), float(top / 2 * 1.001)), others])


def share_lost(stage, x):
    """|C(x)-x|^2 / |x|^2."""
    out, x = there_and_back(stage, x).double(), x.double()
    return float((out - x).square().sum() / x.square().sum())


CONTRACTING = [
    LloydMax(1),
    LloydMax(3),
    LloydMax(2, iterations=0),
    Float8(),
    Float8(2, 5),
    Float8(1, 6),
    Float8(3, 0),
    BFloat16(),
]


@pytest.mark.parametrize("stage", CONTRACTING, ids=repr)
@pytest.mark.parametrize("n", [2, 3, 10, 100, 3000])
def test_alpha_of_uneven_levels(stage, n):
    kinds = [normal(n), normal(n) ** 9, 100 + normal(n), normal(n).sign() * 9, normal(n) * 1e30]
    kinds += [torch.cat([torch.ones(n - 1), -torch.ones(1)]), worst_for_splitting(n)]
    kinds += [torch.full((n,), 1 + 2.0**-significant) for significant in range(1, 10)]
    if isinstance(stage, Float8):
        kinds.append(worst_for_float8(stage, n))
    bound = 1 - (stage.contraction(n) or 0)
    for x in kinds:
        assert share_lost(stage, x) <= bound + 1e-9 or stage.contraction(n) is None
    assert stage.omega(n) is None


def test_alpha_of_uneven_levels_is_nearly_reached():
    for n in (10, 100, 1000):
        lost = share_lost(LloydMax(1, iterations=0), worst_for_splitting(n))
        assert lost > 0.95 * (1 - LloydMax(1).contraction(n))
    for stage, significant in ((BFloat16(), 8), (Float8(4, 3), 4), (Float8(5, 2), 3)):
        middle = torch.full((9,), 1 + 2.0**-significant)  # of the first two levels of a binade
        assert share_lost(stage, middle) > 0.75 * (1 - stage.contraction(9))
    assert Float8(2, 5).contraction(100_000) is None
    assert Float8(4, 3).contraction(1_000_000) > 0.99
    assert LloydMax(4).contraction(16) == 1
    assert LloydMax(4).contraction(17) < 1


def test_where_nothing_is_guaranteed_alpha_is_none():
    """Inputs of which hardly anything arrives, or less than nothing."""

    few = torch.cat([torch.linspace(-1.001, -1, 78), torch.linspace(2, 2.001, 22)])
    assert share_lost(Quantiles(1), few) > 1
    for stage, x in [
        (Half(), torch.full((9,), 1e-8)),
        (Half(), torch.full((9,), 1e30)),
        (Float8(4, 3, bias=7), torch.full((9,), 1e-4)),
        (Float8(4, 3, bias=7), torch.full((9,), 1e30)),
        (Quantize(1), torch.tensor([-1.0, 1.0] + [0.1] * 98)),
    ]:
        assert share_lost(stage, x) > 0.999
        assert stage.contraction(len(x)) is None
    assert Quantiles(1).contraction(100) is None
    x = torch.tensor([2.0**-14, 65504, 0.1, 3.3, 1e4])  # between, as its docstring says
    assert ((there_and_back(Half(), x) - x).abs() <= 2**-11 * x).all()
    for stage in STAGES:
        bounds = stage.contraction(100), stage.omega(100)
        assert None in bounds  # right on average, or a contraction: none of them is both


def test_sign_contracts_exactly_as_stated():
    one = torch.zeros(50)
    one[3] = -2
    for x in (normal(1000), normal(64) ** 7, one, torch.ones(5), normal(1000) * 1e37):
        n, exact = x.numel(), x.double()
        squared = ((there_and_back(Sign(), x).double() - exact) ** 2).sum()
        alpha = exact.abs().sum() ** 2 / (n * (exact**2).sum())
        torch.testing.assert_close(squared, (1 - alpha) * (exact**2).sum(), rtol=1e-6, atol=1e-9)
        assert alpha >= Sign().contraction(n) * (1 - 1e-12)
    assert there_and_back(Sign(), torch.tensor([0.0, -1.0, 2.0])).tolist() == [1.0, -1.0, 1.0]
    assert not there_and_back(Sign(), torch.zeros(9)).any()


def test_qsgd_of_a_norm_beyond_float32_is_unbiased():
    x = torch.full((512,), MAX)
    x[::2] = -MAX / 2
    out = torch.stack([there_and_back(stage, x) for stage in [QSGD(1)] for _ in range(300)])
    assert out.isfinite().all()
    torch.testing.assert_close(out.double().mean(0)[1::2], x[1::2].double(), rtol=1e-6, atol=0)
    assert abs(float(out[:, ::2].double().mean()) / (-MAX / 2) - 1) < 0.02


# ------------------------------------------------------------------------------------ codebooks


@pytest.mark.parametrize("stage", [Quantiles(4), LloydMax(4), LloydMax(8), Quantiles(8)], ids=repr)
def test_codebooks(stage):
    x = normal(CHUNK + 100) ** 3
    parts = stage.apply({"w": x})
    codebook, symbols = parts[side("w", "c")], parts["w"].values
    assert len(codebook) == 2**stage.bits
    assert (codebook.diff() > 0).all()
    nearest = (x[:3000, None].double() - codebook.double()).abs().min(1).values
    got = (x[:3000].double() - codebook[symbols[:3000].long()].double()).abs()
    assert torch.equal(got, nearest)


@pytest.mark.parametrize("stage", [Quantiles(2), LloydMax(2)], ids=repr)
def test_few_different_values_are_exact(stage):
    up = np.nextafter(np.float32(1), np.float32(2))
    x = torch.tensor([1.0, float(up), -MAX, TINY, 1.0, TINY])
    assert torch.equal(there_and_back(stage, x), x)
    neighbours = x[1] + torch.arange(4) * 2**-23  # what lies between them is no float32
    assert torch.equal(there_and_back(stage, neighbours), neighbours)
    assert len(stage.apply({"w": torch.full((9,), 3.0)})[side("w", "c")]) == 1


def test_quantiles_are_equally_frequent():
    counts = symbols_of(Quantiles(3), normal(8000)).bincount()
    assert counts.min() > 850
    assert counts.max() < 1150


def squared_error(stage, x):
    return float(((there_and_back(stage, x) - x).double() ** 2).mean())


@pytest.mark.later
def test_lloyd_max_is_near_the_known_optimum():
    """Max 1960, table I, for N(0, 1): 0.1175 with 4 levels, 0.03454 with 8, 0.009497 with 16."""
    x = normal(300_000)
    for bits, optimum in [(2, 0.1175), (3, 0.03454), (4, 0.009497)]:
        assert squared_error(LloydMax(bits, iterations=100), x) == pytest.approx(optimum, rel=0.02)
        assert squared_error(LloydMax(bits), x) < 1.05 * optimum
    for heavy in (x, x**3, torch.cat([x, torch.tensor([1e6])])):
        errors = [squared_error(stage(4), heavy) for stage in (LloydMax, Quantiles, Quantize)]
        assert errors[0] < 0.9 * min(errors[1:])
    outliers = torch.cat([x[:100_000], torch.tensor([1e6, -1e5, 1e4])])  # cost three levels
    assert squared_error(LloydMax(8), outliers) < 1.1 * squared_error(LloydMax(8), x[:100_000])
    uniform = torch.rand(2, 1000, generator=torch.Generator().manual_seed(0))
    halves = torch.cat([uniform[0], 10 + uniform[1]])  # each half becomes its mean
    assert squared_error(LloydMax(1), halves) == pytest.approx(
        float(uniform.var(1, correction=0).mean()), rel=1e-3
    )


# ---------------------------------------------------------------------------------- small floats

FORMATS = [(e, m) for e in range(1, 8) for m in range(8 - e)]


def values_of(e, m, bias):
    """All values, straight from the definition."""
    magnitudes = [
        math.ldexp(M, 1 - bias - m) if E == 0 else math.ldexp(2**m + M, E - bias - m)
        for E in range(2**e)
        for M in range(2**m)
    ]
    return [*magnitudes, *(-v for v in magnitudes)]


@pytest.mark.parametrize(("e", "m"), FORMATS)
def test_float8_rounds_to_the_nearest_of_all_codes(e, m):
    bias = 2 ** (e - 1) - 1 + (e == 7)
    stage, all_values = Float8(e, m, bias=bias), torch.tensor(values_of(e, m, bias)).double()
    assert stage.num_levels == len(all_values)
    x = normal(500, seed=e) * 4
    out = there_and_back(stage, x).double()
    nearest = (x[:, None].double() - all_values).abs().min(1).values
    assert torch.equal((out - x.double()).abs(), nearest)
    # each code means what it should, comes back as itself, and what lies beyond saturates
    assert torch.equal(there_and_back(stage, all_values.float()).double(), all_values)
    assert symbols_of(stage, all_values.float()).tolist() == list(range(len(all_values)))
    top = float(all_values.max())
    assert there_and_back(stage, torch.tensor([MAX, -MAX])).tolist() == [top, -top]


def test_float8_against_torch():
    """float8_e4m3fn has a NaN for our top value and ties to even; else it is the same format."""
    stage, x = Float8(4, 3, bias=7), normal(200_000) * 30
    assert torch.equal(there_and_back(stage, x), x.to(torch.float8_e4m3fn).float())
    codes = torch.arange(256).byte()
    wanted = codes.view(torch.float8_e4m3fn).float()
    got = stage.undo({"w": Symbols(codes, 256), side("w", "b"): torch.tensor(7).to(torch.int8)})[
        "w"
    ]
    number = ~wanted.isnan()
    assert number.sum() == 254
    assert torch.equal(got[number], wanted[number])
    assert got[~number].tolist() == [480.0, -480.0]


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
    monkeypatch.setattr(codebooks, "MANY", len(x))
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
                table, _ = codebooks._float_tables(exponent, mantissa, bias)
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
