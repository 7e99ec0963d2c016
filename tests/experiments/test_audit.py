"""The audit: its claims, its verdicts, and that the page shows what is stored."""

import json
import runpy
from collections import Counter
from dataclasses import replace

import pytest

from experiments.audit import measures, opponent, page, quotes, rule, stored
from experiments.audit.__main__ import main
from experiments.audit.claim import (
    Claim,
    Finding,
    Runs,
    Verdict,
    judge_saving,
    judged,
    spread,
    times,
)
from experiments.audit.run import CLAIMS, audit, checked, find, finding, key, missing, quick
from experiments.language import data_parallel, split
from experiments.language.task import Task as LanguageTask
from experiments.runs import read

ALL = find()

MADE_UP = """
from experiments.audit.claim import Claim, Finding, Verdict


def measure(seed, quick):
    return {"twice": 2.0 * seed}


def judge(runs):
    total = sum(runs.all("doubling", "twice"))
    return Finding(Verdict.REPRODUCED, f"The sum is {total:g}.", "3.0", "1.5")


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


def runs_of(up, total, accuracy, seeds):
    """A method beside its reference of 1,000 bytes each way and 90 %."""
    reference = {"nbytes_up": 1000.0, "nbytes": 2000.0, "accuracy": 0.9}
    method = {"nbytes_up": 1000 / up, "nbytes": 2000 / total, "accuracy": accuracy}
    there = range(seeds)
    return Runs(
        {"reference": dict.fromkeys(there, reference), "method": dict.fromkeys(there, method)}
    )


def test_only_what_is_printed_is_refuted_and_each_quote_belongs_to_a_claim():
    assert quotes.QUOTES.keys() <= ALL.keys()
    for quote in quotes.QUOTES.values():
        assert len(quote.words.split()) > 8, quote
        assert "[...]" not in quote.words or quote.where.startswith("a maintainer"), quote
        assert quote.where, quote
    found = {name: finding(name, claim) for name, claim in ALL.items()}
    refuted = {n for n, each in found.items() if each and each.verdict is Verdict.REFUTED}
    assert refuted <= quotes.QUOTES.keys()
    for name, claim in ALL.items():
        if claim.known == "code" and name not in quotes.QUOTES:
            assert found[name].verdict in (Verdict.SHOWN, Verdict.UNTESTED), name
        assert name in quotes.QUOTES or claim.known in quotes.WHY_NOT, name


@pytest.mark.parametrize(
    ("verdict", "lacks", "expected"),
    [
        (Verdict.ELSEWHERE, "Its chunks.", Verdict.UNTESTED),
        (Verdict.REFUTED, "Its chunks.", Verdict.UNTESTED),
        (Verdict.ELSEWHERE, "", Verdict.ELSEWHERE),
        (Verdict.REPRODUCED, "Its chunks.", Verdict.REPRODUCED),
        (Verdict.UNDECIDED, "Its chunks.", Verdict.UNDECIDED),
    ],
)
def test_a_no_says_nothing_where_a_part_of_the_method_is_missing(folder, verdict, lacks, expected):
    claim = find(folder)["made-up-2026"]
    claim = replace(claim, measures={}, lacks=lacks, judge=lambda runs: Finding(verdict, "Words."))
    found = finding("made-up-2026", claim)
    assert found == Finding(expected, "Words.")
    printed = page.section("made-up-2026", claim, found)
    assert [line for line in printed if "Missing here" in line] == (
        [f"- **Missing here.** {lacks}"] if lacks else []
    )


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


def test_all_and_any_of_three_answers():
    assert rule.every(True, True) is True
    assert rule.every(True, None) is None
    assert rule.every(None, False) is False
    assert rule.either(False, False) is False
    assert rule.either(None, False) is None
    assert rule.either(None, True) is True


@pytest.mark.parametrize(
    ("score", "total", "up", "verdict"),
    [
        (True, True, True, Verdict.REPRODUCED),
        (True, False, True, Verdict.UPLINK_ONLY),
        (True, False, False, Verdict.ELSEWHERE),
        (False, True, True, Verdict.ELSEWHERE),
        (False, None, None, Verdict.ELSEWHERE),
        (None, True, True, Verdict.UNDECIDED),
        (None, False, False, Verdict.ELSEWHERE),
        (True, None, True, Verdict.UNDECIDED),
        (True, False, None, Verdict.UNDECIDED),
    ],
)
def test_the_verdict_of_the_answers(score, total, up, verdict):
    assert judged(score, total, up) is verdict


def test_the_page_prints_the_rule_that_the_judges_use():
    text = page.PAGE.read_text(encoding="utf-8")
    assert rule.RULE in text
    for number in (f"{rule.POINTS:g} points", f"{rule.NATS:g} nats"):
        assert number in rule.RULE
    assert (rule.SHARE, rule.FEWEST) == (0.9, 3)  # "nine tenths" and "three" in its words


def test_there_are_enough_claims_and_each_says_where_it_stands():
    assert len(ALL) >= 24
    assert sum(bool(claim.measures) and len(claim.seeds) >= 3 for claim in ALL.values()) >= 16
    for name, claim in ALL.items():
        assert all((claim.title, claim.says, claim.source, claim.ours)), name
        words = claim.title + claim.says + claim.source + claim.ours
        assert "  " not in words, name
        assert bool(claim.measures) != bool(claim.no_command), name


@pytest.mark.parametrize(
    ("up", "total", "accuracy", "seeds", "verdict"),
    [
        (100, 95, 0.9, 3, Verdict.REPRODUCED),
        (100, 95, 0.9, 2, Verdict.UNDECIDED),  # two seeds are too few
        (100, 2, 0.9, 3, Verdict.UPLINK_ONLY),
        (3, 2, 0.9, 3, Verdict.ELSEWHERE),
        (100, 95, 0.89, 3, Verdict.ELSEWHERE),
    ],
)
def test_the_usual_verdict(up, total, accuracy, seeds, verdict):
    runs = runs_of(up, total, accuracy, seeds)
    found = judge_saving(runs, "method", "reference", claimed=100, points=0.5)
    assert found.verdict is verdict
    assert "of which 0.5 may be lost" in found.words
    assert found.up == times([up])
    assert found.total == times([total])


def test_spreads():
    assert spread([1.0, 2.0, 3.0]) == "2.00 [-0.48, 4.48]"
    assert spread([2.001, 2.002]) == "2.00"
    assert times([1557.4]) == "1,557"


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
    assert "1 reproduced" in picture.read_text()
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
    with results.open("a") as file:
        file.write('{"key": "cut off in wri')
    assert len(read(results)) == 3


def test_a_claim_takes_the_seeds_that_are_stored(tmp_path, monkeypatch):
    """Of three settings, two have two seeds in common; a setting nobody knows has none."""
    task, names = LanguageTask(), ("AdamW, every step, float32", "DeMo, 1 of 32 cosines")
    settings = {s.name: s for s in data_parallel.settings(task) if s.name in names}
    seeds = {names[0]: (10, 11, 12), names[1]: (12, 10)}
    there = {settings[n].key(task, seed): {} for n in names for seed in seeds[n]}
    monkeypatch.setattr(stored, "kept", lambda name: there)
    assert stored.language_seeds(*names) == (10, 12)
    assert stored.language_seeds(names[0]) == (10, 11, 12)
    assert stored.language_seeds(names[0], "MuLoCo, H = 10, 2 bits") == ()
    assert stored.language_seeds(names[0], "a setting nobody knows") == ()
    assert measures.language(*names)["seeds"] == (10, 12)
    assert list(measures.language(*names)["measures"]) == list(names)
    assert measures.language("a setting nobody knows")["measures"] == {}


@pytest.mark.parametrize(
    ("module", "nats", "up", "total", "verdict"),
    [
        ("demo_2024", 2.01, 200, 150, Verdict.REPRODUCED),
        ("demo_2024", 2.01, 200, 50, Verdict.UPLINK_ONLY),
        ("demo_2024", 2.01, 50, 50, Verdict.ELSEWHERE),
        ("demo_2024", 2.03, 200, 150, Verdict.ELSEWHERE),
        ("muloco_2025", 1.99, 9, 8, Verdict.REPRODUCED),
        ("muloco_2025", 1.99, 9, 5, Verdict.UPLINK_ONLY),
        ("muloco_2025", 2.05, 9, 8, Verdict.ELSEWHERE),
    ],
)
def test_the_verdicts_on_methods_that_are_not_measured_yet(module, nats, up, total, verdict):
    namespace = runpy.run_path(str(CLAIMS / f"{module}.py"))
    luck = {10: 0.0, 11: 0.02, 12: 0.01}  # what the seeds differ by, in the reference as well
    reference = {"nbytes_up": 1000.0, "nbytes": 2000.0}
    method = {"nbytes_up": 1000 / up, "nbytes": 2000 / total}
    known = [namespace[n] for n in ("EVERY", "DILOCO", "ALONE") if n in namespace]
    name = namespace.get("DEMO") or namespace["MULOCO"]
    seeds = {
        each: {s: {**reference, "nats": 2.0 + more} for s, more in luck.items()} for each in known
    }
    seeds[name] = {s: {**method, "nats": nats + more} for s, more in luck.items()}
    runs = Runs(seeds)
    assert namespace["judge"](runs).verdict is verdict


def test_a_system_that_is_not_installed():
    measure = measures.of_system("no_such_module", "nothing==1.0", ["bits"], dict)
    assert measure(0, True) == {"bits": 1.0}
    with pytest.raises(ModuleNotFoundError, match="pip install nothing=="):
        measure(0, False)
    assert measures.of_system("json", "", ["bits"], lambda: {"bits": 8.0})(0, False) == {"bits": 8}


def test_only_finite_numbers_count():
    with pytest.raises(ValueError, match="gave accuracy=nan"):
        checked("x", "y", {"accuracy": float("nan")})


def test_a_file_without_a_claim_and_a_claim_without_a_group(tmp_path):
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(ValueError, match="defines CLAIM"):
        find(tmp_path)
    with pytest.raises(ValueError, match="choose one of split learning"):
        Claim("t", "gossip", "s", "s", "read", "o", lambda runs: Finding(Verdict.REFUTED, ""))


@pytest.mark.later
def test_the_command_judges_a_claim(capsys):
    assert main(["vepakomma-2018"]) == 0
    assert "reproduced" in capsys.readouterr().out
    with pytest.raises(ValueError, match="'nobody' is no claim"):
        main(["nobody"])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, claim in ALL.items() if claim.measures])
def test_the_quick_edition_of_each_claim(name):
    assert isinstance(quick(ALL[name]), Finding)


# ------------------------------------------------------------------------- what is stored


@pytest.fixture(scope="module")
def found():
    return {name: (claim, finding(name, claim)) for name, claim in ALL.items()}


def test_every_claim_is_measured(found):
    assert missing(ALL) == []
    assert all(each is not None for _, each in found.values())


def test_the_page_shows_what_is_stored(found):
    assert page.report(found) in page.PAGE.read_text(encoding="utf-8")
    assert page.PICTURE.read_text(encoding="utf-8") == page.badge(found)
    counts = Counter(each.verdict for _, each in found.values())
    assert sum(counts.values()) == len(ALL) == len(list(CLAIMS.glob("[!_]*.py")))
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


def about_language(name):
    """Whether a claim reads the runs of docs/language_results.md."""
    text = (CLAIMS / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")
    return "measures import language" in text or "measures import split_language" in text


@pytest.mark.parametrize("name", [name for name in ALL if about_language(name)])
def test_the_quick_edition_of_a_claim_on_language_models_trains_nothing(name, monkeypatch):
    def trains(*args):
        raise AssertionError("this takes minutes")

    monkeypatch.setattr(data_parallel, "run", trains)
    monkeypatch.setattr(split, "run", trains)
    assert ALL[name].measures
    assert isinstance(quick(ALL[name]), Finding)


def test_each_opponent_belongs_to_a_claim_and_says_where_its_numbers_come_from():
    assert opponent.OPPONENTS.keys() <= ALL.keys()
    for name, each in opponent.OPPONENTS.items():
        assert each.sent > 0 < each.data, name
        assert len(each.words) > 40, name


def test_times_the_data_by_hand():
    paper = opponent.OPPONENTS["mcmahan-2017-iid"]
    assert paper.times == pytest.approx(87 * 10 * 2 * 199_210 * 4 / 7_930_947)
    assert opponent.times_of("mcmahan-2017-iid") == "170"
    coded = opponent.OPPONENTS["fedpaq-coded-2021"]
    assert coded.times == pytest.approx(132.1e9 / 2809 / (805_263 * 136))
    assert opponent.times_of("fedpaq-coded-2021") == "0.43 (up alone)"
    assert not coded.dearer  # by the source's own numbers; what is assumed beside it is marked
    assert "Assumed: 136 B per image" in opponent.line_of("fedpaq-coded-2021")[0]


def test_what_is_dearer_than_the_data_is_said_beside_the_verdict():
    claim, found = ALL["mcmahan-2017-iid"], Finding(Verdict.REPRODUCED, "Words.")
    text = page.report({"mcmahan-2017-iid": (claim, found), "dgc-2018": (ALL["dgc-2018"], found)})
    assert "| 170 | *reproduced*, but *dearer than the data* |" in text
    assert "|  | *reproduced* |" in text  # nothing is said where the source says too little
    assert "| *dearer than the data* | 1 of 1 |" in text
    assert "- **Times the data: 170.** 87 rounds" in text


def test_seeds_of_ones_own_need_a_file_of_their_own(folder, tmp_path, capsys):
    words = ["made-up-2026", "--claims", str(folder), "--seeds", "41", "42"]
    with pytest.raises(ValueError, match="name a file with --out"):
        main(words)
    assert main([*words, "--out", str(tmp_path / "mine.jsonl")]) == 0
    assert "The sum is 166." in capsys.readouterr().out
