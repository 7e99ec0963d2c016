import math

import numpy as np
import pytest

from fltoolkit.metrics import t_quantile
from fltoolkit_research.intervals import holm, interval, mean_ci


@pytest.mark.later
def test_the_interval_holds_the_true_mean_as_often_as_it_says():
    draws = np.random.default_rng(0).normal(5.0, 2.0, (4000, 3))
    found = [interval(row.tolist()) for row in draws]
    share = np.mean([each.low <= 5.0 <= each.high for each in found])
    assert 0.94 < share < 0.96
    least_to_most = np.mean([min(row) <= 5.0 <= max(row) for row in draws])
    assert least_to_most < 0.8, "the range of three seeds is no interval of 95 %"


def test_the_quantiles_are_those_of_printed_tables():
    printed = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 10: 2.262, 31: 2.042}
    assert {num: round(t_quantile(num), 3) for num in printed} == printed


def test_one_value_says_nothing_about_noise():
    alone = interval([0.9])
    assert (alone.low, alone.high, alone.known) == (-math.inf, math.inf, False)
    assert not alone.beyond_zero
    assert (mean_ci([0.9], ".1f"), mean_ci([])) == ("0.9", "")


@pytest.mark.parametrize("strange", [math.nan, math.inf])
def test_what_is_not_finite_has_no_interval(strange):
    with pytest.raises(ValueError, match="only finite numbers have an interval"):
        interval([1.0, strange])


@pytest.mark.later
def test_holm_keeps_its_promise_over_a_whole_table():
    """Of tables without any difference, 5 % say that there is one; without Holm, 40 % do."""
    draws = np.random.default_rng(0).normal(size=(400, 10, 5)).tolist()
    naive = np.mean([any(interval(row).beyond_zero for row in table) for table in draws])
    corrected = np.mean([any(holm(table)) for table in draws])
    assert 0.3 < naive < 0.5
    assert 0.02 < corrected < 0.08


def test_holm_gives_the_rest_what_is_decided():
    sure, less = [1.0, 1.001, 0.999], [0.5, 0.9, 0.7, 0.4]
    alone = holm([less])
    assert alone == [True]
    assert holm([less, *[[1.0, -1.0, 0.1]] * 30]) == [False] * 31
    assert holm([less, *[sure] * 30]) == [True] * 31
    assert holm([[1.0], []]) == [False, False]
    assert holm([]) == []
