"""The search for good settings."""

import pytest

from fltoolkit_research import Experiment, search, space, spend, suggest

TASK = Experiment("relay", num_clients=3, num_samples=300, rounds=2, lr=0.1, batch_size=16)


def test_the_space_is_drawn_from_the_seed():
    one = space(TASK, 10, seed=1)
    assert one == space(TASK, 10, seed=1)
    assert one != space(TASK, 10, seed=2)
    assert len({e.key for e in one}) == 10
    assert {e.protocol.name for e in one} > {"fedavg"}
    alone = space(Experiment("split"), 10, seed=1)
    assert {e.protocol.name for e in alone} <= {"split", "split_async"}


@pytest.mark.slow
def test_suggest_keeps_to_the_budget_and_finds_the_same_again():
    budget = 300_000
    found = suggest(TASK, budget, num_candidates=3, seed=3)
    again = suggest(TASK, budget, num_candidates=3, seed=3)
    assert found == again
    assert found.best.validation == 0
    assert len(found.tried) == 3
    assert found.tried[0][0] == found.best.title
    assert found.spent == sum(tried.spent for tried in found.tried)
    assert 0 < found.nbytes <= budget
    spent = spend(found.best, budget)
    assert 0 < spent[-1]["nbytes"] <= budget
    with pytest.raises(ValueError, match="pay for no evaluation"):
        suggest(TASK, 10, num_candidates=2)
    with pytest.raises(ValueError, match="no candidates"):
        suggest(TASK, 10, candidates=[])


def played(monkeypatch, curves, key="accuracy"):
    """Let each seed's run measure these (bytes, value) in turn."""
    monkeypatch.setattr(
        search,
        "records",
        lambda e: iter([{"nbytes": nbytes, key: value} for nbytes, value in curves[e.seed]]),
    )


def test_halving_by_hand(monkeypatch):
    """Four candidates: the two better at a quarter go on, the better at a half to the end."""
    curves = {
        0: [(20, 0.1), (50, 0.9), (100, 0.9)],  # late: dropped at a quarter
        1: [(25, 0.5), (50, 0.6), (100, 0.7)],
        2: [(25, 0.4), (50, 0.9), (90, 0.85), (120, 0.99)],  # the last is not in the budget
        3: [(30, 0.9)],  # nothing within a quarter
    }
    played(monkeypatch, curves)
    found = suggest(TASK, 100, candidates=[Experiment(seed=seed) for seed in curves])
    assert (found.best.seed, found.value, found.nbytes) == (2, 0.85, 90)
    assert [tried.spent for tried in found.tried] == [120, 100, 50, 30]
    assert [tried.nbytes for tried in found.tried] == [90, 50, 20, 0]
    assert [tried.value for tried in found.tried] == [0.85, 0.55, 0.1, None]


def test_progress_goes_through_each_heat(monkeypatch):
    """What tqdm would be given: four candidates, the better two, the best."""
    curves = {seed: [(20, 0.1), (50, 0.5), (100, 0.9)] for seed in range(4)}
    played(monkeypatch, curves)
    heats = []

    def shown(runs):
        heats.append(len(runs))
        return runs

    candidates = [Experiment(seed=seed) for seed in curves]
    found = suggest(TASK, 100, candidates=candidates, progress=shown)
    assert heats == [4, 2, 1]
    assert found == suggest(TASK, 100, candidates=candidates)


def test_one_lucky_evaluation_promises_nothing(monkeypatch):
    """The first run swings between 10 and 90 % and ends on a good moment; the other is steady."""
    swings = [(n, 0.9 if n % 3 == 1 else 0.1) for n in range(1, 101)]
    steady = [(n, 0.6) for n in range(1, 101)]
    assert swings[-1][1] == 0.9
    played(monkeypatch, {0: swings, 1: steady})
    found = suggest(TASK, 100, candidates=[Experiment(seed=seed) for seed in (0, 1)])
    assert (found.best.seed, found.value, found.nbytes) == (1, 0.6, 100)
    assert found.tried[1].value == 0.1


def test_where_less_is_better_the_least_wins(monkeypatch):
    played(monkeypatch, {0: [(10, 3.0)], 1: [(10, 1.0)]}, key="test_loss")
    candidates = [Experiment(seed=seed, metric="test_loss") for seed in (0, 1)]
    found = suggest(TASK, 40, candidates=candidates)
    assert (found.best.seed, found.value) == (1, 1.0)
    with pytest.raises(ValueError, match="test_loss and accuracy"):
        suggest(TASK, 10, candidates=[candidates[0], Experiment()])


def test_one_that_diverges_is_out(monkeypatch):
    def records(experiment):
        yield {"nbytes": 10, "accuracy": 0.5}
        if experiment.seed:
            raise (FloatingPointError, ValueError)[experiment.seed - 1]("holds NaN")
        yield {"nbytes": 20, "accuracy": 0.4}

    monkeypatch.setattr(search, "records", records)
    found = suggest(TASK, 20, candidates=[Experiment(seed=seed) for seed in (1, 0, 2)])
    assert (found.best.seed, found.value, found.spent) == (0, 0.45, 40)
    assert [tried.value for tried in found.tried] == [0.45, None, None]
    with pytest.raises(ValueError, match=r"pay for no evaluation.*split: holds NaN"):
        suggest(TASK, 20, candidates=[Experiment(seed=1)])
    with pytest.raises(ValueError, match="nbytes=nan: the budget must be above 0"):
        spend(Experiment(), float("nan"))
