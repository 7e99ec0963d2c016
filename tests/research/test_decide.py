import csv
import re

import numpy as np
import pytest
import torch

from fltoolkit_research import decide as deciding
from fltoolkit_research.commands import decide_command as main
from fltoolkit_research.decide import (
    ALONE,
    AVERAGE,
    FEW,
    LABELS,
    SAME,
    SEND,
    SPLIT,
    SUM,
    decide,
    split_of,
)
from fltoolkit_research.decide_table import read_table


def written(path, rows, delimiter=","):
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


@pytest.fixture
def fewer_rounds(monkeypatch):
    """A quarter of them, in longer steps: what a way sends is proportional to the rounds."""
    monkeypatch.setattr(deciding, "ROUNDS", 5)
    monkeypatch.setattr(deciding, "LR", 0.4)


def made(count=240, owners=8, columns=4, noise=False):
    """Rows whose label is the side of a plane, or a coin."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(count, columns, generator=draw)
    y = torch.randint(2, (count,), generator=draw) if noise else (x.sum(1) > 0).long()
    names = [*"abcdefghijklmnop"[:columns], "who", "sick"]
    rows = zip(x.tolist(), y.tolist(), strict=True)
    return [names, *([*each, k % owners, sick] for k, (each, sick) in enumerate(rows))]


def test_columns_of_every_kind_are_read(tmp_path):
    rows = [["age", "sex", "name", "who", "sick"]]
    rows += [[20 + k, "mf"[k % 2], f"n{k}", f"c{k % 3}", "yn"[k % 2]] for k in range(30)]
    rows[3][0] = "NA"
    for delimiter in ",;\t":
        table = read_table(written(tmp_path / "t.csv", rows, delimiter), "who", "sick")
        assert table.x.shape == (30, 4)  # age, a mark where it is empty, and two sexes
        assert table.x[2, 0].isnan()
        assert table.x[2, 1] == 1
        assert table.classes == ["n", "y"]
        assert table.owners[:3] == ["c0", "c1", "c2"]
        assert "'age' is empty in 1 rows" in " ".join(table.notes)
        assert "'name' holds 30 different texts: it is left out" in " ".join(table.notes)
    assert len(table.notes) == 3
    rows = [[*row, str(1000 + k)] for k, row in enumerate(rows)]
    rows[0][-1], rows[4][1], rows[5][2] = "id", "?", ""
    notes = " ".join(read_table(written(tmp_path / "t.csv", rows), "who", "sick").notes)
    assert "'sex' is empty in 1 rows: a mark stands there" in notes
    assert "'name' is empty" not in notes  # it is left out
    assert "'id' has another whole number in each row: is it only a name?" in notes


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows[0].__setitem__(4, "whose"), "no column 'who'; the columns are a, b"),
        (lambda rows: rows[5].__setitem__(4, " "), "line 6: 'who' or 'sick' is empty: fill it"),
        (lambda rows: rows[5].__setitem__(5, "NA"), "line 6: 'who' or 'sick' is empty"),
        (lambda rows: [r.__setitem__(4, "x") for r in rows[1:]], "'who' has one value, 'x'"),
        (lambda rows: [r.__setitem__(5, 1) for r in rows[1:]], "'sick' has 1 different values"),
        (lambda rows: [r.__setitem__(5, f"{r[0]} kg") for r in rows[1:]], "or numbers only"),
        (lambda rows: rows[2].__setitem__(0, "inf"), "'a' holds an infinite number"),
        (lambda rows: rows.clear(), "no column 'who'"),
        (lambda rows: rows[0].__setitem__(1, "a"), "each needs a name of its own"),
        (lambda rows: rows[3].append(7), "no line may have more cells"),
    ],
)
def test_what_cannot_be_read_says_what_to_do(tmp_path, change, words):
    rows = made()
    change(rows)
    path = written(tmp_path / "t.csv", rows)
    with pytest.raises(ValueError, match=words):
        read_table(path, "who", "sick")


def test_arrays_are_read_as_a_table_is(tmp_path):
    head, *rows = made(40)
    cells, path = np.array(rows), tmp_path / "t.npz"
    np.savez(
        path, ab=cells[:, :2].reshape(40, 1, 2), cd=cells[:, 2:4], who=cells[:, 4], y=cells[:, 5]
    )
    table = read_table(path, "who", "y")
    same = read_table(written(tmp_path / "t.csv", [head, *rows]), "who", "sick")
    assert torch.allclose(table.x, same.x)
    assert table.y.equal(same.y)
    assert [float(name) for name in table.owners] == [float(name) for name in same.owners]
    named = read_table(path, "", "y", {"ann": ["ab1"], "ben": ["cd0", "cd1"]})
    assert torch.equal(named.x, table.x[:, 1:])
    np.savez(path, x=cells, who=cells[1:, 4])
    with pytest.raises(ValueError, match=r"\{'x': 40, 'who': 39\}; they must be equal"):
        read_table(path, "who", "x0")


def test_a_file_in_another_encoding_says_so(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("größe,who,sick\n1,a,0\n".encode("latin-1"))
    with pytest.raises(ValueError, match="CSV UTF-8"):
        read_table(path, "who", "sick")


def test_the_test_is_on_owners_nobody_trained_on(tmp_path):
    table = read_table(written(tmp_path / "t.csv", made()), "who", "sick")
    split = split_of(table, seed=0)
    assert len(split.owners) == 6
    assert len(split.y_test) == 60
    trained = torch.cat([x for x, _ in split.owners.values()])
    assert torch.allclose(trained.mean(0), torch.zeros(4), atol=1e-5)
    few = read_table(written(tmp_path / "t.csv", made(owners=3)), "who", "sick")
    assert len(split_of(few, seed=0).owners) == 3


def scores(**means):
    return {name: {s: value + s / 1000 for s in range(4)} for name, value in means.items()}


@pytest.mark.parametrize(
    ("same", "sums", "averaged", "answer"),
    [
        (0.5, 0.61, 0.60, "don't"),
        (0.5, 0.9, 0.9, "sum"),
        (0.5, 0.7, 0.9, "average"),
        (0.5, 0.61, 0.9, "average"),
        (0.9, 0.7, 0.9, "don't"),  # the commonest class is as good
    ],
)
def test_the_answer_follows_from_scores_and_bytes(same, sums, averaged, answer):
    found = {SAME: same, ALONE: 0.62, SEND: 0.9, SUM: sums, AVERAGE: averaged}
    nbytes = {SAME: 1.0, ALONE: 0.0, SEND: 10.0, SUM: 30.0, AVERAGE: 90.0}
    word, words = deciding._answer(scores(**found), nbytes)
    assert word == answer
    assert ("one sum is shorter from 3.0 times these rows on" in words) == (answer == "sum")
    assert ("with ten times the parameters, 90.0 times" in words) == (answer == "average")


@pytest.mark.later
@pytest.mark.usefixtures("fewer_rounds")
def test_a_table_with_nothing_in_it_and_one_with_a_plane(tmp_path, capsys):
    table = read_table(written(tmp_path / "t.csv", made(noise=True)), "who", "sick")
    assert decide(table, seeds=range(3)).answer == "don't"
    path = written(tmp_path / "t.csv", made(224, owners=16, columns=14))
    assert main([str(path), "--owner", "who", "--label", "sick", "--seeds", "2"]) == 0
    said = capsys.readouterr().out
    assert "16 owners, 2 classes. Tested on owners nobody trained on" in said
    assert re.search(r"If the data must stay with their owners: (sum|average)\.", said)
    assert "who is in an owner's sum" in said
    with pytest.raises(ValueError, match="0 minutes"):
        deciding.tell(table, 2, minutes=0)
    with pytest.raises(ValueError, match="1 seeds"):
        main([str(path), "--owner", "who", "--label", "sick", "--seeds", "1"])


def test_a_test_with_one_class_is_left_out_and_said(tmp_path):
    rows = made(120, owners=6)
    for row in rows[1:]:  # one owner has the sick ones, so most draws have none in their test
        row[5] = int(row[4] == 0)
    path = written(tmp_path / "t.csv", rows)
    table = read_table(path, "who", "sick")
    tests = [split_of(table, seed).y_test.unique() for seed in range(2)]
    assert all(len(classes) == 1 for classes in tests)
    with pytest.raises(ValueError, match="0 of 2 have both classes in their test"):
        decide(table, seeds=range(2))


@pytest.mark.later
def test_numbers_are_predicted_and_scored_by_r2(tmp_path):
    rows = made(160, owners=4)
    for row in rows[1:]:
        row[5] = 100 + 7 * sum(row[:4])
    table = read_table(written(tmp_path / "t.csv", rows), "who", "sick")
    assert table.classes == []
    found = decide(table, seeds=range(2))
    mean = {name: sum(each.values()) / 2 for name, each in found.scores.items()}
    assert -0.2 < mean[SAME] <= 0  # the mean of other rows explains nothing
    assert min(mean[way] for way in (SEND, FEW, SUM, AVERAGE)) > 0.7
    split = split_of(table, seed=0)
    assert split.score(split.y_test) == 1
    assert split.score(split.y_test.mean().expand(40, 1)) == pytest.approx(0, abs=1e-6)
    assert found.nbytes[FEW] < found.nbytes[SEND] / 2


@pytest.mark.later
@pytest.mark.usefixtures("fewer_rounds")
def test_columns_at_different_owners(tmp_path, capsys, monkeypatch):
    told = []
    monkeypatch.setattr(deciding, "decide", lambda *a, **k: told.append(decide(*a, **k)) or told[0])
    path = written(tmp_path / "t.csv", made(200))
    arguments = [str(path), "--columns", "ann=a", "ben=d", "--label", "sick", "--seeds", "2"]
    assert main(arguments) == 0
    assert "2 owners, 2 classes" in (said := capsys.readouterr().out)
    assert "which people both have" in said
    (found,) = told  # what was printed
    table = read_table(path, "", "sick", {"ann": ["a"], "ben": ["d"]})
    mean = {name: sum(each.values()) / 2 for name, each in found.scores.items()}
    assert mean[LABELS] < mean[SEND] - 0.05
    assert mean[LABELS] < mean[SPLIT] - 0.05
    assert found.nbytes[LABELS] == 0
    assert 150 * (8 + 4) < found.nbytes[SEND] < 150 * (8 + 4) + 300  # a key of 64 bits, one float
    alone = deciding._split(split_of(table, 0), {})[1]
    values = deciding.ROUNDS * 150 * deciding.WIDTH * 4 * 2  # of one owner, there and back
    assert values < alone < 1.4 * values
    for columns, words in (
        ({"ann": ["a"]}, "has 1 owners"),
        ({"ann": ["a"], "ben": ["a"]}, r"twice: \['a'\]"),
        ({"ann": ["a"], "ben": ["sick"]}, r"twice: \['sick'\]"),
        ({"ann": ["a"], "ben": ["z"]}, "no column 'z'"),
    ):
        with pytest.raises(ValueError, match=words):
            read_table(path, "", "sick", columns)
    with pytest.raises(SystemExit):
        main([str(path), "--columns", "ann", "--label", "sick"])


@pytest.mark.later
def test_the_owner_of_the_labels_may_have_no_columns(tmp_path, capsys):
    path = written(tmp_path / "t.csv", made(200))
    table = read_table(path, "", "sick", {"clinic": [], "ann": ["a", "b"], "ben": ["d"]})
    split = split_of(table, 0)
    assert deciding._own_columns(split) == (0.5, 0)
    score, nbytes = deciding.column_owner_alone(split, "ann")
    assert score > 0.5
    assert 150 * 8 < nbytes < 150 * 9 + 200  # a key of 64 bits for each row, and few bits a label
    other, sent = deciding.column_owner_alone(split, "ben")
    assert other != score
    assert deciding._each_with_its_columns(split) == ((score + other) / 2, nbytes + sent)
    assert deciding._split(split, {})[0] > 0.5
    with pytest.raises(ValueError, match="no column is left at 'ben'"):
        read_table(path, "", "sick", {"ann": ["a"], "ben": []})
    with pytest.raises(SystemExit):
        main([str(path), "--columns", "ann=a", "ben=", "--label", "sick"])
    assert "the first one" in " ".join(capsys.readouterr().err.split())


@pytest.mark.later
def test_no_draw_begins_that_would_end_too_late(tmp_path, monkeypatch):
    table = read_table(written(tmp_path / "t.csv", made(60, owners=3)), "who", "sick")
    now = iter(range(0, 10_000, 60))  # each look at the clock is a minute later
    monkeypatch.setattr(deciding.time, "monotonic", lambda: next(now))
    ways = {name: deciding.WAYS[name] for name in (SAME, ALONE, SEND, SUM)}
    quick = {name: way._replace(run=lambda split: (0.5, 1)) for name, way in ways.items()}
    monkeypatch.setattr(deciding, "WAYS", quick)
    assert len(decide(table, seeds=range(9), minutes=4).scores[SAME]) == 2
    with pytest.raises(ValueError, match=r"1 of 9 are done: one took 2.0 minutes. Give 4 or more"):
        decide(table, seeds=range(9), minutes=3)


@pytest.mark.parametrize("way", [ALONE, SEND, AVERAGE])
def test_a_training_ends_with_the_limit_of_time(tmp_path, monkeypatch, way):
    table = read_table(written(tmp_path / "t.csv", made(60, owners=6)), "who", "sick")
    monkeypatch.setattr(deciding, "WAYS", {SAME: deciding.WAYS[SAME], way: deciding.WAYS[way]})
    with pytest.raises(ValueError, match=f"0 of 9 are done after 1e-05 minutes, in '{way}'"):
        decide(table, seeds=range(9), minutes=1e-5)
