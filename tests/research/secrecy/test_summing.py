"""Codecs whose messages can be added: conformance, laws, and which of the package's own can."""

from typing import ClassVar

import pytest
import torch

from experiments.replications.shared_places import SharedMask
from fltoolkit import Channel, codecs
from fltoolkit.codecs import BitPack, ErrorFeedback, Identity, Pipeline, Quantize, TopK
from fltoolkit.codecs.stage import Stage
from fltoolkit.testing import TREES, Conformance, normal
from fltoolkit_research import codecs as more_codecs
from fltoolkit_research.codecs import ContextEntropy
from fltoolkit_research.secrecy import Grid, SecureSum, SharedRotation, bits_of_sum
from fltoolkit_research.secrecy.summing import Summed, check_can_sum

SUMMING = [
    Pipeline(Grid(1, top=1.0, stochastic=False)),
    Pipeline(Grid(2, top=3.0)),
    Pipeline(Grid(8, top=3.0)),
    Pipeline(Grid(16, top=3.0)),
    Pipeline(SharedRotation(), Grid(4, top=3.0)),
    Pipeline(SharedMask(0.3), Grid(4, top=3.0)),
    Pipeline(SharedMask(0.3), SharedRotation(seed=1), Grid(4, top=3.0)),
]


@pytest.mark.parametrize("codec", SUMMING, ids=repr)
class TestSumming(Conformance):
    # 2^bits levels have none at zero, so zeros come back as small numbers
    trees: ClassVar = {case: tree for case, tree in TREES.items() if case != "all zero"}

    @pytest.mark.later
    def test_hostile_content_ends_in_a_wire_error_or_a_tree(self, codec):
        super().test_hostile_content_ends_in_a_wire_error_or_a_tree(codec)

    def test_it_says_that_it_sums(self, codec):
        check_can_sum(codec)


@pytest.mark.parametrize(
    "codec",
    [
        Identity(),
        Pipeline(),
        Pipeline(Quantize(8)),
        Pipeline(TopK(0.1)),
        Pipeline(TopK(0.1), Grid(4, top=1.0)),
        Pipeline(Grid(4, top=1.0), ContextEntropy()),
        Pipeline(Grid(4, top=1.0), BitPack()),
        ErrorFeedback(Pipeline(Grid(4, top=1.0))),
    ],
    ids=repr,
)
def test_what_cannot_be_summed_is_refused_by_name(codec):
    with pytest.raises(ValueError, match="cannot be summed under a mask, because of"):
        SecureSum(codec)


def test_none_of_the_other_stages_claims_to_sum():
    """Each of them sends a range, a norm, a seed, places or a code of one sender's own."""
    every = (getattr(room, name) for room in (codecs, more_codecs) for name in room.__all__)
    stages = [each for each in every if isinstance(each, type) and issubclass(each, Stage)]
    assert len(stages) > 20
    assert [stage.__name__ for stage in stages if hasattr(stage, "sums")] == []


@pytest.mark.later
def test_stochastic_rounding_is_right_on_average():
    x = torch.tensor([-0.9, -0.5, 0.0, 0.123, 0.7])
    summed = Summed(Pipeline(Grid(2, top=1.0)), num_values=5, round_=0)
    mean = summed.mean(sum(summed.numbers(x, salt=k) for k in range(4000)), count=4000)
    # a value's variance is at most (step / 2)^2 = 1/9; five standard errors of 4,000 draws
    assert (mean - x).abs().max() < 5 * (1 / 9 / 4000) ** 0.5


def test_values_beyond_the_top_are_cut_off():
    codec = Pipeline(Grid(8, top=1.0))
    out = codec.decode(codec.encode({"w": torch.tensor([-7.0, 7.0])}))["w"]
    assert out.tolist() == [-1.0, 1.0]


@pytest.mark.parametrize("codec", SUMMING, ids=repr)
def test_the_mean_of_sums_is_the_mean_of_what_each_sent(codec):
    summed = Summed(codec, num_values=50, round_=3)
    vectors = [normal(50, seed=k) for k in range(7)]
    numbers = [summed.numbers(v, salt=k) for k, v in enumerate(vectors)]
    each = torch.stack([summed.mean(n, count=1) for n in numbers]).mean(0)
    torch.testing.assert_close(summed.mean(sum(numbers), count=7), each, rtol=1e-4, atol=1e-4)
    top = 7 * (summed.num_levels - 1)
    assert top < 2 ** bits_of_sum(7, summed.num_levels) <= 2 * top


def test_a_round_has_its_own_places_and_signs():
    x = normal(64)
    for stage in (SharedRotation(), SharedMask(0.25)):
        codec = Pipeline(stage, Grid(8, top=9.0))
        zero, one, again = (
            torch.from_numpy(Summed(codec, 64, round_).numbers(x, salt=0).astype("i8"))
            for round_ in (0, 1, 0)
        )
        assert torch.equal(zero, again)
        assert not torch.equal(zero, one)


def test_a_vector_of_nan_is_an_error():
    with pytest.raises(ValueError, match="NaN"):
        Summed(Pipeline(Grid(8, top=1.0)), 2, 0).numbers(torch.tensor([1.0, torch.nan]), salt=0)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Grid(0, top=1.0), "bits=0: must be 1 to 24"),
        (lambda: Grid(25, top=1.0), "bits=25"),
        (lambda: Grid(4, top=0.0), "top=0.0"),
        (lambda: SharedMask(0.0), "fraction=0.0"),
    ],
)
def test_settings_out_of_range(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_a_secure_sum_does_not_depend_on_the_default_dtype():
    trees = {name: {"w": torch.tensor([k], dtype=torch.float32)} for k, name in enumerate("abc")}
    exchange = SecureSum(Pipeline(Grid(16, top=4.0)))
    expected = exchange(Channel(), trees)["w"]
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(exchange(Channel(), trees)["w"], expected)
    finally:
        torch.set_default_dtype(torch.float32)
