"""What epsilon promises, by hand."""

import math

import pytest

from fltoolkit.party import TrainingWarning
from fltoolkit_research.federated import GaussianDP
from fltoolkit_research.secrecy import Promise, promise


def test_the_bound_is_the_one_that_can_be_computed_by_hand():
    nothing = Promise(0.0, 0.0)
    assert nothing.hits(0.3) == pytest.approx(0.3)
    assert Promise(math.inf, 0.0).hits(0.0) == 1.0
    assert Promise(math.log(2), 0.0).hits(0.1) == pytest.approx(0.2)
    assert Promise(math.log(2), 0.0).hits(0.9) == pytest.approx(0.95)


@pytest.mark.later
def test_a_run_without_enough_noise_says_so():
    with pytest.warns(TrainingWarning, match="promises next to nothing. Use more noise"):
        assert promise(GaussianDP(1.0, 0.1), num_clients=10, cohort=10, rounds=5).epsilon > 10
    with pytest.warns(TrainingWarning, match="epsilon inf"):
        promise(GaussianDP(1.0, 0.0), num_clients=10, cohort=5, rounds=5)


@pytest.mark.parametrize(
    ("changed", "text"),
    [({"cohort": 11}, "cohort=11"), ({"rounds": 0}, "rounds=0"), ({"delta": 0.0}, r"delta=0\.0")],
)
def test_settings_out_of_range(changed, text):
    settings = {"num_clients": 10, "cohort": 5, "rounds": 5, "delta": 0.01, **changed}
    with pytest.raises(ValueError, match=text):
        promise(GaussianDP(1.0, 2.0), **settings)
