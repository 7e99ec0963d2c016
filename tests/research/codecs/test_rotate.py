"""Random rotations: through the conformance suite, as matrices, and what the papers say of them."""

import copy
import math

import numpy as np
import pytest
import torch
from every_codec import ROTATING, for_conformance
from trees import there_and_back

from fltoolkit.codecs import Pipeline
from fltoolkit.codecs.quantize import CHUNK
from fltoolkit.codecs.stage import side
from fltoolkit.models import mcmahan_cnn
from fltoolkit.testing import Conformance, normal
from fltoolkit.wire import WireError
from fltoolkit_research.codecs import DRIVE, EDEN, Rotate
from fltoolkit_research.codecs.rotate import SEED, gaussian_levels, hadamard, hadamard_plain

CODED = [
    DRIVE(),
    DRIVE(unbiased=False),
    *(EDEN(bits, unbiased=unbiased) for bits in (1, 2, 4, 8) for unbiased in (True, False)),
]
SIZES = [1, 2, 3, 5, 8, 13, 64, 100]


@pytest.mark.parametrize("codec", for_conformance(ROTATING))
class TestRotatingCodecs(Conformance):
    @pytest.mark.later
    def test_hostile_content_ends_in_a_wire_error_or_a_tree(self, codec):
        super().test_hostile_content_ends_in_a_wire_error_or_a_tree(codec)


def rotated(stage, tensor):
    return stage.apply({"w": tensor})["w"]


def with_spikes(n, seed=0):
    """A few large values among many small ones."""
    x = 0.01 * normal(n, seed=seed)
    x[torch.randperm(n, generator=torch.Generator().manual_seed(seed))[: n // 500]] = 1.0
    return x


def error(stage, tensor, num_messages=3):
    """The mean of |C(x)-x|^2 / |x|^2 over messages."""
    stage, exact = copy.deepcopy(stage), tensor.double()
    codec = stage if isinstance(stage, Pipeline) else Pipeline(stage)
    wrong = [codec.decode(codec.encode({"w": tensor}))["w"] - exact for _ in range(num_messages)]
    return float(sum((w * w).sum() for w in wrong) / num_messages / (exact * exact).sum())


# ------------------------------------------------------------------------- the Hadamard transform
@pytest.mark.parametrize("n", [2**k for k in range(14)])
def test_fast_is_plain(n):
    x = normal(n)
    before = x.clone()
    torch.testing.assert_close(hadamard(x), hadamard_plain(x), rtol=0, atol=1e-5)
    torch.testing.assert_close(hadamard(x.double()), hadamard_plain(x.double()), rtol=0, atol=1e-13)
    assert torch.equal(x, before)
    strided = normal(2 * n)[::2]
    torch.testing.assert_close(hadamard(strided), hadamard(strided.clone()), rtol=0, atol=1e-5)


# ----------------------------------------------------------------------------------- the rotation
@pytest.mark.parametrize("n", [*SIZES, 4096, 5000, CHUNK + 1])
def test_the_way_back_and_the_norm(n):
    x = normal(n)
    y = rotated(Rotate(), x)
    assert abs(float(y.double().norm() / x.double().norm()) - 1) < 1e-6
    torch.testing.assert_close(there_and_back(Rotate(), x), x, rtol=0, atol=4e-6)
    if n > 3:
        assert (y - x).abs().max() > 0.1  # something was done


def test_nothing_is_padded_and_a_message_costs_one_seed():
    """Eight bytes more than the values: the seed, and its name and dtype."""
    trees = [
        {name: normal(*w.shape) for name, w in mcmahan_cnn(seed=0).state_dict().items()},
        {"a": normal(1), "b": normal(1023), "c": normal(1025), "d": normal(33, 31)},
    ]
    for tree in trees:
        plain = len(Pipeline().encode(tree))
        assert len(Pipeline(Rotate()).encode(tree)) == plain + 8
    sizes = [w.numel() for w in trees[0].values()]
    assert sum(sizes) == 1_663_370
    assert sum(1 << (n - 1).bit_length() for n in sizes) == 2_172_528  # what padding would send


@pytest.mark.parametrize("n", [1000, 1024, 1025, 2047, 50_000])
def test_values_are_spread(n):
    """No rotated value is much larger than |x| / sqrt(m): Hoeffding's inequality."""
    for x in (torch.eye(n, 1)[:, 0], torch.eye(n, 1).flip(0)[:, 0], with_spikes(n), torch.ones(n)):
        for seed in range(5):
            y = rotated(Rotate(seed), x)
            m = 1 << (n.bit_length() - 1)
            bound = math.sqrt(2 * math.log(2 * n * 1e4) / m)  # holds but for one in 10,000
            assert y.abs().max() <= bound * x.norm()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("stage", [Rotate(), *CODED], ids=repr)
def test_extremes(stage):
    large = torch.finfo(torch.float32).max
    for n in (1, 2, 3, 5, 1000):
        assert not there_and_back(stage, torch.zeros(n)).any()
        for value in (large, -large, 1e38, 1e-30, 2.0**-149, 1e-40):
            x = torch.full((n,), value)
            assert there_and_back(stage, x).isfinite().all()
            x[::2] *= -1
            assert there_and_back(stage, x).isfinite().all()
    mixed = torch.tensor([large, -large, 1e-30, 1.0, 0.0])
    assert there_and_back(stage, mixed).isfinite().all()


def test_what_is_far_from_one_comes_back():
    for scale in (1e-36, 1e30, 1e36):
        x = normal(3000) * scale
        torch.testing.assert_close(there_and_back(Rotate(), x), x, rtol=0, atol=4e-6 * scale)
    x = torch.full((3000,), 3e37)  # its sum overflows
    x[0] = -3e37
    torch.testing.assert_close(there_and_back(Rotate(), x), x, rtol=1e-5, atol=0)
    spike = torch.zeros(1000)
    spike[3] = torch.finfo(torch.float32).max
    torch.testing.assert_close(there_and_back(Rotate(), spike)[3], spike[3], rtol=1e-5, atol=0)


# ----------------------------------------------------------------------------------------- seeds
def test_the_receiver_needs_bytes_and_configuration_only():
    """Its own seed and history do not matter: the message's seed does."""
    sender = Rotate(seed=5)
    sender.start_link(77)
    sender.apply({"w": normal(10)})
    parts = sender.apply({"w": normal(500), "v": normal(70)})
    assert parts[SEED].dtype == torch.int32
    assert parts[SEED].nbytes == 4
    reordered = {name: parts[name] for name in reversed(list(parts))}
    for received in (parts, reordered):
        torch.testing.assert_close(Rotate().undo(received)["w"], normal(500), rtol=0, atol=4e-6)
    wrong = Rotate().undo({**parts, SEED: parts[SEED] + 1})["w"]
    assert (wrong - normal(500)).norm() > normal(500).norm()


def moments(stage, x, num_messages):
    """The mean of what many messages bring, its distance from x, and what of that is chance."""
    codec = Pipeline(*copy.deepcopy(stage))
    draws = [codec.decode(codec.encode({"w": x}))["w"].double() for _ in range(num_messages)]
    mean = torch.stack(draws).mean(0)
    variance = sum(float(((draw - x) ** 2).sum()) for draw in draws) / num_messages
    return mean, float(((mean - x) ** 2).sum()), variance / num_messages


# --------------------------------------------------------------------------------- DRIVE and EDEN
def distortion(levels):
    """E (z - c)^2 of z from N(0, 1) and the nearest level c, by adding up over a fine grid."""
    z = np.linspace(-9, 9, 600_001)
    levels = np.array(levels)
    c = levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, z)]
    weight = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    return float((weight * (z - c) ** 2).sum()), c, z, weight


@pytest.mark.later
@pytest.mark.parametrize("bits", range(1, 9))
def test_levels_are_means_of_what_is_nearest(bits):
    levels = np.array(gaussian_levels(bits))
    assert len(levels) == 2**bits
    assert (np.diff(levels) > 0).all()
    np.testing.assert_allclose(levels, -levels[::-1], rtol=0, atol=1e-9)
    _, c, z, weight = distortion(levels)
    means = [(weight * z)[c == level].sum() / weight[c == level].sum() for level in levels]
    np.testing.assert_allclose(levels, means, rtol=0, atol=1e-4)


@pytest.mark.later
@pytest.mark.parametrize("x", [normal(100_000), with_spikes(100_000)], ids=["normal", "spiky"])
def test_errors_are_those_of_the_papers(x):
    """pi/2 - 1 and 1 - 2/pi for one bit; D / (1 - D) and D in general, whatever the values are."""
    assert abs(error(DRIVE(), x) / (math.pi / 2 - 1) - 1) < 0.02
    assert abs(error(DRIVE(unbiased=False), x) / (1 - 2 / math.pi) - 1) < 0.02
    for bits in (1, 2, 3, 4, 8):
        d = distortion(gaussian_levels(bits))[0]
        tolerance = 0.02 if bits < 8 else 0.05
        assert abs(error(EDEN(bits), x) / (d / (1 - d)) - 1) < tolerance
        assert abs(error(EDEN(bits, unbiased=False), x) / d - 1) < tolerance


@pytest.mark.parametrize("stage", CODED, ids=repr)
@pytest.mark.parametrize("n", [3, 100, 4096, CHUNK + 300])
def test_the_scales_do_what_they_are_for(stage, n):
    """<C(x), x> = |x|^2 in each message if unbiased; else no other scale has less error."""
    for x in (normal(n), with_spikes(n) + 0.1, normal(n) ** 5):
        stage, x = copy.deepcopy(stage), x.double()
        parts = stage.apply({"w": x.float()})
        out = stage.undo(parts)["w"].double()
        if stage.unbiased:
            torch.testing.assert_close(out @ x, x @ x, rtol=1e-5, atol=0)
        else:
            least = (out - x).norm()
            for factor in (0.999, 1.001):
                other = {**parts, side("w", "g"): parts[side("w", "g")] * factor}
                assert (stage.undo(other)["w"].double() - x).norm() >= least * (1 - 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("stage", [DRIVE(), EDEN(2), EDEN(4)], ids=repr)
def test_nearly_unbiased_for_large_tensors_even_sparse_ones(stage):
    two = torch.zeros(1024)
    two[3], two[700] = 1.0, 0.5  # after one step alone, DRIVE would never send the second
    for x in (normal(1024), with_spikes(1024), two):
        mean, off, chance = moments([stage], x, 120)
        assert off < 2 * chance
        assert abs(float(mean @ x.double() / (x.double() @ x.double())) - 1) < 1e-5
    _, off, chance = moments([DRIVE(unbiased=False)], two, 60)
    assert off > 5 * chance  # this scale shrinks everything


# ------------------------------------------------------------------------------------ what is wrong
def test_once_is_enough():
    with pytest.raises(ValueError, match="rotated already: one such stage is enough"):
        Pipeline(Rotate(), DRIVE()).encode({"w": normal(5)})


def test_hostile_parts():
    parts = Rotate().apply({"w": normal(5)})
    for seed in (None, torch.tensor(1.0), torch.zeros(2, dtype=torch.int32)):
        changed = {name: part for name, part in parts.items() if name != SEED}
        with pytest.raises(WireError, match="expected side information 'h', int32"):
            Rotate().undo(changed if seed is None else {**changed, SEED: seed})
    parts = EDEN(2).apply({"w": normal(5)})
    for scales in ([1.0], [1.0, -1.0], [1.0, math.inf], [1.0, 1.0, 1.0]):
        with pytest.raises(WireError, match="'w': expected"):
            EDEN(2).undo({**parts, side("w", "g"): torch.tensor(scales)})
    with pytest.raises(WireError, match="expected symbols of 8 levels"):
        EDEN(3).undo(parts)
