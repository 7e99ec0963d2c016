"""The tuning budget: the page shows what the stored trials say."""

from collections import Counter

from experiments import budget


def test_unequal_numbers_of_trials_are_marked(monkeypatch):
    def made_up():
        yield budget.Trials("mine", Counter({"tuned": 7, "plain": 1}), "test")

    monkeypatch.setattr(budget, "PARTS", [made_up])
    assert budget.table().splitlines()[2:] == [
        "| mine | tuned | 7 | test | **no** |",
        "| mine | plain | 1 | test | **no** |",
    ]
    even = [lambda: (t._replace(counts=Counter("ab")) for t in made_up())]
    monkeypatch.setattr(budget, "PARTS", even)
    assert budget.table().splitlines()[2:] == ["| mine | a; b | 1 | test | yes |"]


def test_what_is_not_stored_is_said(monkeypatch):
    monkeypatch.setattr(budget, "PARTS", [lambda: iter([budget.Trials("mine", Counter(a=0), "t")])])
    assert budget.table().splitlines()[2:] == ["| mine | a | not stored | t | not known |"]
