"""The threshold lab: codecs by bits, and what if the threshold were another."""

import pytest
import torch
from course.labs.few_digits import small, states

from fltoolkit.codecs import Identity
from fltoolkit_course.labs.train_threshold import codec


def test_codecs_by_bits() -> None:
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    sizes = {bits: len(codec(bits).encode({"h": values})) for bits in (32, 16, 8, 6, 4, 2)}
    assert codec(32) == Identity()
    for bits, nbytes in sizes.items():
        assert 0 <= nbytes - 1000 * bits / 8 < 60


@pytest.mark.slow
def test_what_if_with_the_threshold_that_was_is_what_was() -> None:
    lab = small(30, threshold=0.15)
    run = lab.run(220)  # the last period is not over
    guess = lab.what_if(0.15)
    assert states(guess.segments) == "".join(run.history.column("state"))
    assert guess.nbytes == pytest.approx(run.history[-1]["nbytes"])
    assert {"A", "B", "C"} == set(run.history.column("state"))
    assert all(a[1] + 1 == b[0] for a, b in zip(guess.segments, guess.segments[1:], strict=False))
    assert all(a[2] != b[2] for a, b in zip(guess.segments, guess.segments[1:], strict=False))


@pytest.mark.slow
def test_what_if_orders_thresholds_by_bytes_prices_states_and_says_that_it_guesses() -> None:
    lab = small(30, threshold=0.0)
    run = lab.run()
    costs = [lab.what_if(threshold).nbytes for threshold in (0.0, 0.05, 0.3, 1.0)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] == lab.current.history[-1]["nbytes"]
    assert costs[-1] < costs[0] / 4
    sentence = lab.what_if(1.0).sentence
    assert "estimate" in sentence
    assert "instead of" in sentence
    guess = states(lab.what_if(0.3).segments)  # B and C were never seen
    up, both = (run.history[-1][key] / len(run.history) for key in ("nbytes_up", "nbytes"))
    assert costs[2] == pytest.approx(guess.count("A") * both + guess.count("B") * up)


def test_what_if_needs_a_run() -> None:
    with pytest.raises(ValueError, match="nothing was run yet"):
        small().what_if(0.1)
    lab = small()
    lab._going()
    assert lab.what_if(0.1).segments == []
    assert lab.strips()[0].note == lab.what_if(0.3).sentence
    lab.run(1)
    assert lab.what_if(0.1).segments == [(1, 1, "A")]
