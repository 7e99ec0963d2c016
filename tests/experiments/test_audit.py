import json
from collections import Counter
from dataclasses import replace

import pytest

from experiments.audit import opponent, page, rule
from experiments.audit.__main__ import main
from experiments.audit.claim import Finding, Runs, Verdict, judged, times
from experiments.audit.run import audit, find, finding, key, missing, quick
from experiments.runs import read

ALL = find()

MADE_UP = """
from experiments.audit.claim import Claim, Finding, Verdict


def measure(seed, quick):
    return {"twice": 2.0 * seed}


def judge(runs):
    total = sum(runs.all("doubling", "twice"))
    return Finding(Verdict.AGREES, f"The sum is {total:g}.", "3.0", "1.5")


CLAIM = Claim(
    title="Twice as much",
    group="codecs",
    says="Everything doubles.",
    source="Nobody 2026, page 1",
    known="quoted",
    ours="Whole numbers.",
    judge=judge,
    measures={"doubling": measure},
)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "made_up_2026.py").write_text(MADE_UP)
    return tmp_path / "claims"


@pytest.mark.parametrize(
    ("answers", "how", "expected"),
    [
        ((False, True), {"lacks": "Its chunks."}, Verdict.UNTESTED),
        ((False, True), {"own_task": True}, Verdict.DISAGREES),
        ((False, None), {}, Verdict.DISAGREES),
        ((None, True), {"lacks": "Its chunks."}, Verdict.NOT_SHOWN),
        ((True, True), {"lacks": "Its chunks."}, Verdict.AGREES),
        ((True, True), {"own_task": True}, Verdict.REPRODUCED),
    ],
)
def test_the_verdict_from_answers_task_and_what_is_missing(folder, answers, how, expected):
    claim = replace(find(folder)["made-up-2026"], measures={}, **how)
    claim = replace(claim, judge=lambda runs: Finding(judged(*answers), "Words."))
    found = finding("made-up-2026", claim)
    assert found == Finding(expected, "Words.")
    printed = page.section("made-up-2026", claim, found)
    assert any("Missing here" in line for line in printed) == ("lacks" in how)


def test_an_answer_is_that_of_the_whole_interval():
    values = [0.01, 0.02, 0.03]  # 0.02 +- 0.0248
    assert rule.at_least(values, -0.005) is True
    assert rule.at_least(values, 0.0) is None  # the mean alone would say yes
    assert rule.at_least(values, 0.05) is False
    assert rule.at_most(values, 0.05) is True
    assert rule.at_most(values, -0.005) is False
    assert rule.within(values, 0.05) is True
    assert rule.within(values, 0.03) is None
    assert rule.within([1.0, 1.1, 1.2], 0.5) is False
    assert rule.at_least([5.0, 6.0], 0.0) is None  # two seeds answer no question


def test_factors_are_compared_as_logarithms():
    """By hand: the logarithms of 1, 10 and 100 have the mean log(10), +- 2.48 log(10)."""
    factors = [1.0, 10.0, 100.0]
    assert rule.saves(factors, 1, share=0.03) is True
    assert rule.saves(factors, 1, share=0.04) is None
    assert rule.saves([12.0, 12.0, 12.0], 13) is True  # nine tenths of 13 are 11.7
    assert rule.saves([12.0, 12.0, 12.0], 14) is False
    assert times(factors) == "10.0 [0.0, 3048.9]"


def test_only_seeds_that_both_have_are_compared():
    runs = Runs({"a": {0: {"x": 1.0}, 1: {"x": 2.0}}, "b": {1: {"x": 1.0}}})
    assert runs.fewer("b", "a", "x") == [2.0]
    assert runs.all("a", "x") == [1.0, 2.0]
    nats = {"a": {1: {"nats": 2.0}, 2: {"nats": 2.1}}, "b": {1: {"nats": 2.3}, 3: {"nats": 9.0}}}
    assert Runs(nats).nats("b", "a") == pytest.approx([0.3])


def test_a_claim_in_a_new_file_appears_on_the_page(folder, tmp_path, capsys):
    results, sheet, picture = (tmp_path / n for n in ("audit.jsonl", "audit.md", "audit.svg"))
    sheet.write_text(f"Before.\n{page.BEGIN}\n{page.END}\nAfter.\n")
    assert main(["--all", "--claims", str(folder), "--out", str(results)]) == 0
    claims = find(folder)
    found = {name: (claim, finding(name, claim, results)) for name, claim in claims.items()}
    page.write(found, sheet, picture)
    text = sheet.read_text()
    assert "[Twice as much](#made-up-2026)" in text
    assert "The sum is 6." in text
    assert "(quoted by others: the paper itself was not at hand)" in text
    assert text.startswith("Before.\n")
    assert text.endswith("After.\n")
    assert "1 agrees on ours" in picture.read_text()
    assert "made-up-2026" in capsys.readouterr().out


def test_what_is_measured_is_not_measured_again(folder, tmp_path):
    results, claims = tmp_path / "audit.jsonl", find(folder)
    assert finding("made-up-2026", claims["made-up-2026"], results) is None
    first = audit(claims, results)
    assert "seed 0" in next(first)
    first.close()  # as after Ctrl-C
    assert [seed for _, _, seed in missing(claims, results)] == [1, 2]
    assert len(list(audit(claims, results))) == 2
    assert list(audit(claims, results)) == []


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("name", ALL)
def test_the_quick_edition_of_each_claim(name):
    assert isinstance(quick(ALL[name]), Finding)


# ------------------------------------------------------------------------- what is stored
@pytest.fixture(scope="module")
def found():
    return {name: (claim, finding(name, claim)) for name, claim in ALL.items()}


def test_every_claim_is_measured(found):
    assert missing(ALL) == []
    assert all(each is not None for _, each in found.values())


def test_what_was_read_in_a_source_code_alone_is_never_disagreed_with(found):
    no = {name for name, (_, each) in found.items() if each.verdict is Verdict.DISAGREES}
    assert not [name for name in no if ALL[name].known == "code"]
    assert opponent.OPPONENTS.keys() <= ALL.keys()


def test_the_page_shows_what_is_stored(found):
    assert page.report(found) in page.PAGE.read_text(encoding="utf-8")
    assert page.PICTURE.read_text(encoding="utf-8") == page.badge(found)
    counts = Counter(each.verdict for _, each in found.values())
    assert sum(counts.values()) == len(ALL)
    assert page.counted(found) == counts


def test_nothing_is_stored_that_no_claim_measures():
    wanted = {
        key(name, claim, measured, seed)
        for name, claim in ALL.items()
        for measured in claim.measures
        for seed in claim.seeds
    }
    from experiments.audit.run import RESULTS

    assert set(read(RESULTS)) == wanted
    json.dumps(list(read(RESULTS).values()), allow_nan=False)


def test_seeds_of_ones_own_need_a_file_of_their_own(folder, tmp_path, capsys):
    words = ["made-up-2026", "--claims", str(folder), "--seeds", "41", "42"]
    with pytest.raises(ValueError, match="name a file with --out"):
        main(words)
    assert main([*words, "--out", str(tmp_path / "mine.jsonl")]) == 0
    assert "The sum is 166." in capsys.readouterr().out
