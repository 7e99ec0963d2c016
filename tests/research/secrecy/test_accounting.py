"""What epsilon promises, checked by an attack that must get less."""

import math

import numpy as np
import pytest
import torch

from fltoolkit.party import TrainingWarning
from fltoolkit_research.federated import GaussianDP
from fltoolkit_research.secrecy import Promise, promise


@pytest.mark.slow
@pytest.mark.parametrize("noise", [2.0, 5.0])  # with less, the bound plus chance exceeds 1
def test_a_membership_attack_gets_less_than_the_bound(noise):
    """Did Ann take part? The best test looks along her own update, which the attacker knows.

    One round, everybody takes part: the mean of ten clients with and without Ann's (then it is
    divided by the public number ten all the same), 4,000 draws of the noise each.
    """
    ann = {"w": torch.tensor([3.0, 4.0])}
    others = [{"w": torch.zeros(2)}] * 9
    bound = promise(GaussianDP(1.0, noise), num_clients=10, cohort=10, rounds=1, delta=1e-3)
    scores = {}
    for there in (True, False):
        updates = [ann if there else {"w": torch.zeros(2)}, *others]
        means = (
            GaussianDP(1.0, noise, seed=k + 10_000 * there).mean(updates, 0) for k in range(4000)
        )
        scores[there] = np.array([10 * float(m["w"] @ torch.tensor([0.6, 0.8])) for m in means])
    best = 0.0
    for threshold in np.linspace(-1, 2, 25):
        false_alarms = float((scores[False] > threshold).mean())
        hits = float((scores[True] > threshold).mean())
        chance = 4 * math.sqrt(0.25 / 4000)  # both shares are those of 4,000 draws
        assert hits <= bound.hits(min(1.0, false_alarms + chance)) + chance
        best = max(best, hits - false_alarms)
    assert best > 0.05, "an attack that finds nothing shows nothing"
    # the exact answer for one Gaussian: 2 Phi(1 / (2 noise)) - 1
    assert best == pytest.approx(math.erf(1 / (2 * noise) / math.sqrt(2)), abs=0.05)


def test_the_bound_is_the_one_that_can_be_computed_by_hand():
    nothing = Promise(0.0, 0.0)
    assert nothing.hits(0.3) == pytest.approx(0.3)
    assert Promise(math.inf, 0.0).hits(0.0) == 1.0
    assert Promise(math.log(2), 0.0).hits(0.1) == pytest.approx(0.2)
    assert Promise(math.log(2), 0.0).hits(0.9) == pytest.approx(0.95)


@pytest.mark.later
def test_more_rounds_promise_less_and_more_noise_more():
    run = {"num_clients": 1000, "cohort": 50}
    one, ten = (promise(GaussianDP(1.0, 1.0), rounds=r, **run).epsilon for r in (10, 100))
    assert one < ten
    assert promise(GaussianDP(1.0, 2.0), rounds=100, **run).epsilon < ten


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
