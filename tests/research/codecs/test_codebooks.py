"""Levels that follow the data, against their definitions and the known optimum; signs and QSGD."""

import numpy as np
import pytest
import torch
from trees import squared_error, there_and_back

from fltoolkit.codecs import Quantize
from fltoolkit.codecs.quantize import CHUNK
from fltoolkit.codecs.stage import side
from fltoolkit.testing import normal
from fltoolkit_research.codecs import QSGD, LloydMax, Quantiles, Sign
from fltoolkit_research.codecs.codebooks import count_reached

MAX = torch.finfo(torch.float32).max
TINY = 2.0**-149  # the least denormal


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


BOUNDS = {
    "few": normal(7).numpy(),
    "many": normal(255, seed=1).numpy(),
    "of all sizes": np.float32(10.0) ** np.linspace(-44, 38, 127, dtype=np.float32),
    "repeated": normal(60, seed=2).numpy().repeat(4),
    "beside one another": np.float32(1) + np.arange(255, dtype=np.float32) * np.float32(2**-20),
    "zeros": np.zeros(255, np.float32),
    "infinite": np.float32([-MAX, -TINY, 0, TINY, MAX, np.inf]).repeat(20),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_a_table_counts_as_comparing_does(name):
    bounds = np.sort(BOUNDS[name])
    edges = np.concatenate([np.nextafter(bounds, np.float32(end)) for end in (-MAX, MAX)])
    extremes = np.float32([0.0, -0.0, TINY, -TINY, MAX, -MAX, 1.0])
    values = np.concatenate([normal(300_000).numpy() ** 3, bounds, edges, extremes])
    values = values[np.isfinite(values)]
    wanted = sum((values >= bound).astype(np.int64) for bound in bounds)
    assert np.array_equal(count_reached(values, bounds), wanted)


@pytest.mark.parametrize("stage", [Quantiles(2), LloydMax(2)], ids=repr)
def test_few_different_values_are_exact(stage):
    up = np.nextafter(np.float32(1), np.float32(2))
    x = torch.tensor([1.0, float(up), -MAX, TINY, 1.0, TINY])
    assert torch.equal(there_and_back(stage, x), x)
    neighbours = x[1] + torch.arange(4) * 2**-23  # what lies between them is no float32
    assert torch.equal(there_and_back(stage, neighbours), neighbours)
    assert len(stage.apply({"w": torch.full((9,), 3.0)})[side("w", "c")]) == 1


def test_quantiles_are_equally_frequent():
    counts = Quantiles(3).apply({"w": normal(8000)})["w"].values.bincount()
    assert counts.min() > 850
    assert counts.max() < 1150


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


def test_sign_contracts_exactly_as_stated():
    one = torch.zeros(50)
    one[3] = -2
    for x in (normal(1000), normal(64) ** 7, one, torch.ones(5), normal(1000) * 1e37):
        n, exact = x.numel(), x.double()
        squared = ((there_and_back(Sign(), x).double() - exact) ** 2).sum()
        alpha = exact.abs().sum() ** 2 / (n * (exact**2).sum())
        torch.testing.assert_close(squared, (1 - alpha) * (exact**2).sum(), rtol=1e-6, atol=1e-9)
    assert there_and_back(Sign(), torch.tensor([0.0, -1.0, 2.0])).tolist() == [1.0, -1.0, 1.0]
    assert not there_and_back(Sign(), torch.zeros(9)).any()


def test_qsgd_of_a_norm_beyond_float32_is_unbiased():
    x = torch.full((512,), MAX)
    x[::2] = -MAX / 2
    out = torch.stack([there_and_back(stage, x) for stage in [QSGD(1)] for _ in range(300)])
    assert out.isfinite().all()
    torch.testing.assert_close(out.double().mean(0)[1::2], x[1::2].double(), rtol=1e-6, atol=0)
    assert abs(float(out[:, ::2].double().mean()) / (-MAX / 2) - 1) < 0.02
