"""The tuning budget: the page shows what the stored trials say."""

from collections import Counter

from experiments import budget


def test_the_page_holds_the_table():
    text = budget.PAGE.read_text(encoding="utf-8")
    assert budget.table() in text
    assert text.count(budget.BEGIN) == text.count(budget.END) == 1


def test_unequal_numbers_of_trials_are_marked(monkeypatch):
    def made_up():
        yield budget.Trials("mine", Counter({"tuned": 7, "plain": 1}), "test")

    for part in ("one_axis", "averaged", "four_workers", "ten_million"):
        monkeypatch.setattr(budget, part, lambda: iter(()))
    monkeypatch.setattr(budget, "tuned_text", made_up)
    assert budget.table().splitlines()[2:] == [
        "| mine | tuned | 7 | test | **no** |",
        "| mine | plain | 1 | test | **no** |",
    ]
    monkeypatch.setattr(
        budget, "tuned_text", lambda: (t._replace(counts=Counter("ab")) for t in made_up())
    )
    assert budget.table().splitlines()[2:] == ["| mine | a; b | 1 | test | yes |"]
