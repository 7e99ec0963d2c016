import csv
import io

import pytest
from made_up import ALL, CHEAP, DEAR, made_up

from fltoolkit.history import History
from fltoolkit_research import (
    Experiment,
    Point,
    Result,
    by_task,
    bytes_to_reach,
    failures,
    front,
    groups,
    metric_of,
    points,
    table,
    value_within,
)
from fltoolkit_research.metrics import MEAN_SQUARED_ERROR


def test_points_and_front():
    found = points(ALL)
    assert [(p.name, p.nbytes, p.num_seeds) for p in found] == [
        ("cheap", 210, 2),
        ("dear", 2000, 2),
        ("worse", 3000, 2),
    ]
    assert found[0].values == {0: 0.8, 1: 0.6}
    assert found[0].value == pytest.approx(0.7)
    assert found[0].high - found[0].value == pytest.approx(12.706 * 0.1, rel=1e-4)
    assert [p.name for p in front(found)] == ["cheap"], "0.1 and 0.36 more: two seeds cannot tell"
    tie = [p._replace(nbytes=1.0, values={0: 0.5}) for p in found]
    assert len(front(tie)) == 1
    other = made_up("cheap", 0, (1, 0.1), rounds=9)  # edited, and its name not
    sizes = {name: len(runs) for name, runs in groups([*CHEAP, other, *DEAR]).items()}
    assert sizes == {"cheap, rounds=5": 2, "cheap, rounds=9": 1, "dear": 2}
    assert "| cheap, rounds=9 |" in table([*CHEAP, other])
    broken = [r._replace(error="no", history=History()) for r in (CHEAP[0], other)]
    assert set(failures(broken)) == {"cheap, rounds=5, seed 0", "cheap, rounds=9, seed 0"}


def of_seeds(name, nbytes, *values, first=0):
    """A point with a value for each seed from ``first`` on."""
    experiment = Experiment(name=name, rounds=nbytes)
    return Point(name, experiment, nbytes, dict(enumerate(values, first)))


def test_the_front_knows_noise():
    base = of_seeds("base", 1, 0.80, 0.85, 0.90)
    for gain, starred in ((0.00007, False), (0.001, False), (0.02, True)):
        noisy = [0.80 + gain + 0.001, 0.85 + gain, 0.90 + gain - 0.001]
        names = [p.name for p in front([base, of_seeds("more", 2, *noisy)])]
        assert ("more" in names) == starred, gain
    shifted = of_seeds("shifted", 2, 0.801, 0.851, 0.901)
    assert len(front([base, shifted])) == 2, "seeds differ by far more, but their pairs do not"
    unsure = of_seeds("unsure", 2, 0.99, 0.70, 0.95)
    behind = of_seeds("behind", 3, 0.82, 0.87, 0.92)
    assert [p.name for p in front([base, unsure, behind])] == ["base"], "unsure has a better mean"
    others = of_seeds("others", 2, 0.86, 0.87, first=7)
    assert [p.name for p in front([base, others])] == ["base", "others"], "no pair: the means"
    once, last = of_seeds("once", 2, 0.99), of_seeds("last", 3, 0.84, 0.89, 0.94)
    starred = front([base, once, last])
    assert [p.name for p in starred] == ["base", "once", "last"], "one seed shuts nobody out"


def test_stars_are_those_of_the_whole_table():
    """A gain that a test alone would call clear is noise as one of many that are not."""
    base, gains = of_seeds("base", 1, 0.80, 0.85, 0.90), (0.006, 0.010, 0.014)
    better = of_seeds("better", 2, *(v + g for v, g in zip((0.80, 0.85, 0.90), gains, strict=True)))
    assert [p.name for p in front([base, better])] == ["base", "better"], "+1.0 [+0.01, +1.99]"
    unclear = [of_seeds(f"unclear {k}", 3 + k, 0.79, 0.86, 0.90) for k in range(8)]
    assert [p.name for p in front([base, better, *unclear])] == ["base"], "naively it has a star"
    clear = [of_seeds(f"worse {k}", 3 + k, 0.60, 0.65, 0.70) for k in range(8)]
    clear = [p._replace(values={s: v - 0.001 * s for s, v in p.values.items()}) for p in clear]
    names = [p.name for p in front([base, better, *clear])]
    assert names == ["base", "better"], "rows that are clearly worse make nothing less sure"


def test_seeds_that_are_not_shared_are_said():
    runs = [made_up("a", seed, (100, 0.5)) for seed in (0, 1)]
    more = [made_up("b", seed, (200, 0.9), rounds=6) for seed in (2, 3)]
    assert "| no seed in common |" in table([*runs, *more])
    assert table([*runs, *more]).endswith("| (*) |")
    assert "no seed in common,(" not in table([*runs, *more], form="csv")
    assert (
        list(csv.DictReader(io.StringIO(table([*runs, *more], form="csv"))))[1]["shared_seeds"]
        == "0"
    )
    half = [made_up("b", seed, (200, 0.9), rounds=6) for seed in (1, 2)]
    assert "| +40.00 (1 seed) |" in table([*runs, *half])
    assert "| -40.00 (1 seed) |" in table([*runs, *half], against="b")
    with pytest.raises(ValueError, match="against='c': choose one of a, b"):
        table([*runs, *half], against="c")


def test_nan_is_a_failure_and_no_number():
    runs = [*CHEAP, made_up("gone", 0, (50, 0.5), (60, float("nan")), rounds=9)]
    assert [p.name for p in points(runs)] == ["cheap"]
    assert failures(runs) == {"gone, seed 0": "accuracy is nan at the end: training diverged"}


def test_targets_and_budgets():
    history = DEAR[0].history
    assert bytes_to_reach(history, 0.4) == 1000
    assert bytes_to_reach(history, 0.95) is None
    for wrong in (95, float("nan")):
        with pytest.raises(ValueError, match=r"write 95 % as 0\.95"):
            table(DEAR, target=wrong)
    falling = History([{"mean_squared_error": e, "nbytes": n} for e, n in ((3.0, 10), (1.0, 20))])
    assert bytes_to_reach(falling, 1.5, MEAN_SQUARED_ERROR) == 20
    assert bytes_to_reach(falling, 0.5, MEAN_SQUARED_ERROR) is None
    assert value_within(falling, 15, MEAN_SQUARED_ERROR) == 3.0
    assert value_within(history, 1999) == 0.4
    assert value_within(history, 2000) == 0.9
    assert value_within(history, 999) is None
    assert value_within(CHEAP[1].history, 1000) == 0.6  # the last, not the best


def test_the_table():
    lines = table(ALL, target=0.75, budget=250).splitlines()
    assert lines[0].count("|") == lines[2].count("|") == 9
    assert lines[0].startswith(
        "| setting | accuracy [%] | minus the cheaper front point [points] |"
    )
    assert "70.00 [0.00, 100.00] |  | 210 B | 2 | 200 B (1 of 2 never) | 70.00" in lines[2]
    assert "| +23.00 [-142.18, +188.18] |" in lines[3]
    assert lines[2].endswith("| * |")
    assert "| 2.0 kB |  |" in lines[3]
    assert "never" in table(CHEAP, target=0.99)
    assert failures(ALL) == {"broken, seed 0": "ValueError: no"}


def falling(name, nbytes, error):
    """A run whose metric is better when it is less."""
    history = History([{"step": 1, "nbytes": nbytes, "mean_squared_error": error}])
    experiment = Experiment(name=name, metric="mean_squared_error", loss="MSELoss()", rounds=nbytes)
    return Result(experiment, history, "", 1.0)


LESS_IS_BETTER = [falling("short", 10, 3.0), falling("bad", 20, 4.0), falling("long", 30, 1.0)]


def test_where_less_is_better_the_front_goes_down():
    assert [p.name for p in front(points(LESS_IS_BETTER))] == ["short", "long"]
    lines = table(LESS_IS_BETTER, target=2.0, budget=20).splitlines()
    heads = "| setting | mean squared error | minus the cheaper front point | sent | seeds | bytes "
    assert lines[0].startswith(heads)
    assert [line.rpartition("front")[2].split("|")[-2].strip() for line in lines[2:]] == [
        "*",
        "",
        "(*)",
    ]
    assert [line.split("|")[3].strip() for line in lines[2:]] == ["", "+1", "-2"]
    assert "| never |" in lines[2]
    assert "| 30 B |" in lines[4]


def test_what_is_tested_by_several_metrics_cannot_be_compared():
    both = [*LESS_IS_BETTER, *CHEAP]
    with pytest.raises(ValueError, match=r"mean_squared_error and accuracy.*by_task"):
        front(points(both))
    names = ["digits, mlp, 1 client, MSELoss(), mean_squared_error", "digits, mlp, 1 client"]
    assert [*by_task(both)] == names
    assert metric_of(r.experiment for r in CHEAP).name == "accuracy"


def test_csv_has_plain_numbers():
    rows = list(csv.DictReader(io.StringIO(table(ALL, target=0.75, budget=250, form="csv"))))
    assert [row["setting"] for row in rows] == ["cheap", "dear", "worse"]
    cheap = rows[0]
    assert [float(cheap[name]) for name in ("low", "accuracy", "high")] == pytest.approx(
        [-0.57062, 0.7, 1.97062], abs=1e-4
    )
    assert (cheap["nbytes"], cheap["nbytes_to_target"]) == ("210.0", "")  # one seed never did
    assert [row["front"] for row in rows] == ["1", "0", "0"]
    assert (rows[1]["against"], rows[1]["shared_seeds"]) == ("cheap", "2")
    assert float(rows[1]["difference"]) == pytest.approx(0.23)
    assert float(cheap["within_budget"]) == pytest.approx(0.7)
    assert rows[1]["within_budget"] == ""
