"""Numbers, pictures and pages from results, and the search for good settings."""

import base64
import importlib
import re
import sys
from pathlib import Path

import pytest

from fltoolkit import plots
from fltoolkit.cli import COMMANDS, main
from fltoolkit.commands import _nbytes
from fltoolkit.history import History
from fltoolkit.panels import TradeoffPanel
from fltoolkit.plots import html_report
from fltoolkit.plots.style import summary
from fltoolkit.research import (
    Experiment,
    Result,
    Store,
    accuracy_within,
    bytes_to_reach,
    c3_score,
    failures,
    front,
    front_within,
    groups,
    on_link,
    points,
    seconds_on,
    sizes_of,
    space,
    spend,
    suggest,
    table,
)
from fltoolkit.research import text as spec

suggest_module = importlib.import_module("fltoolkit.research.suggest")


def made_up(name, seed, *rows, rounds=5):
    """A result whose run measured (bytes, accuracy) in turn."""
    history = History(
        {
            **{"step": n, "round": n, "nbytes": nbytes, "accuracy": accuracy, "num_waits": 10 * n},
            **{"nbytes_update_up": nbytes, "nominal_update_up": 2 * nbytes, "entropy_update_up": 5},
        }
        for n, (nbytes, accuracy) in enumerate(rows, 1)
    )
    return Result(Experiment(name=name, seed=seed, rounds=rounds), history, "", 1.0)


CHEAP = [made_up("cheap", 0, (100, 0.5), (200, 0.8)), made_up("cheap", 1, (100, 0.7), (220, 0.6))]
DEAR = [
    made_up("dear", 0, (1000, 0.4), (2000, 0.9), rounds=6),
    made_up("dear", 1, (1000, 0.6), (2000, 0.96), rounds=6),
]
WORSE = [made_up("worse", seed, (3000, 0.9), rounds=7) for seed in (0, 1)]
FAILED = Result(Experiment(name="broken"), History(), "Traceback\n  ...\nValueError: no\n", 0.1)
ALL = [*CHEAP, *DEAR, *WORSE, FAILED]


def test_points_and_front():
    found = points(ALL)
    assert [(p.name, p.nbytes, p.num_seeds) for p in found] == [
        *(("cheap", 210, 2), ("dear", 2000, 2), ("worse", 3000, 2))
    ]
    assert found[0][-3:] == (pytest.approx(0.7), 0.6, 0.8)
    assert [p.name for p in front(found)] == ["cheap", "dear"]
    tie = [p._replace(nbytes=1.0, accuracy=0.5) for p in found]
    assert len(front(tie)) == 1
    other = made_up("cheap", 0, (1, 0.1), rounds=9)  # edited, and its name not
    assert {name: len(runs) for name, runs in groups([*CHEAP, other, *DEAR]).items()} == {
        **{"cheap, rounds=5": 2, "cheap, rounds=9": 1, "dear": 2}
    }
    assert "| cheap, rounds=9 |" in table([*CHEAP, other])
    broken = [r._replace(error="no", history=History()) for r in (CHEAP[0], other)]
    assert set(failures(broken)) == {"cheap, rounds=5, seed 0", "cheap, rounds=9, seed 0"}


def test_the_front_within_a_budget():
    rows = front_within(ALL, [2500, 50, 100, 210, 5000])
    assert [row[0] for row in rows] == [100, 210, 2500, 5000]  # 50 pays for nothing
    assert rows[0][1:] == (pytest.approx(0.6), 0.5, 0.7)
    # seed 1 had 0.7 for 100 bytes; that it was worse later takes nothing away
    assert rows[1][1:] == (pytest.approx(0.75), 0.7, 0.8)
    assert rows[3][1:] == (pytest.approx(0.93), 0.9, 0.96)


def test_targets_and_budgets():
    history = DEAR[0].history
    assert bytes_to_reach(history, 0.4) == 1000
    assert bytes_to_reach(history, 0.95) is None
    for wrong in (95, float("nan")):
        with pytest.raises(ValueError, match=r"write 95 % as 0\.95"):
            table(DEAR, target=wrong)
    assert accuracy_within(history, 1999) == 0.4
    assert accuracy_within(history, 2000) == 0.9
    assert accuracy_within(history, 999) is None
    assert accuracy_within(CHEAP[1].history, 1000) == 0.6  # the last, not the best
    assert c3_score(0.9, 0, max_nbytes=1) == 0.9
    assert c3_score(0.9, 1, 3, max_nbytes=1, max_flops=3, temperature=2) == pytest.approx(
        0.9 * 2.718281828**-1
    )
    with pytest.raises(ValueError, match="above 0"):
        c3_score(0.9, 1, max_nbytes=0)


def test_time_on_a_link():
    assert seconds_on({"nbytes": 1000, "num_waits": 4}, rate=500, latency=0.5) == 4.0
    assert on_link(CHEAP[0].history, rate=100).column("seconds") == [1, 2]
    with pytest.raises(ValueError, match="rate > 0"):
        seconds_on({"nbytes": 1, "num_waits": 1}, rate=0)


def test_the_table():
    lines = table(ALL, target=0.75, budget=250).splitlines()
    assert lines[0].count("|") == lines[2].count("|") == 8
    assert "70.00 [60.00, 80.00] | 210 B | 2 | 200 B (1 of 2 never) | 70.00" in lines[2]
    assert lines[2].endswith("| * |")
    assert "| 2.0 kB |  |" in lines[3]
    assert "never" in table(CHEAP, target=0.99)
    assert failures(ALL) == {"broken, seed 0": "ValueError: no"}


def test_pictures_say_their_numbers():
    ax = plots.pareto(ALL)
    assert "cheap: 70.00 % for 210 B (front)" in summary(ax)
    assert "worse: 90.00 % for 3.0 kB" in summary(ax)
    assert ax.get_xlabel() == "all bytes sent [kB], logarithmic"
    ax = plots.three_sizes(CHEAP[0].history[-1])
    assert "update up: nominal 400 B, real 200 B, entropy 5 B" in summary(ax)
    plots.three_sizes({"a": CHEAP[0].history[-1], "b": DEAR[0].history[-1]})
    ax = plots.heat_map({(2, 4): [0.5, 0.7], (8, 4): [0.9]})
    assert "2 x 4: 60.0 ±10.0; 8 x 4: 90.0" in summary(ax)
    ax = plots.over_seconds({"cheap": [r.history for r in CHEAP]}, rate=100, latency=0.1)
    assert ax.get_xlabel() == "seconds [s]"
    for wrong in (
        lambda: plots.pareto([FAILED]),
        lambda: plots.three_sizes({"step": 1}),
        lambda: plots.heat_map({}),
    ):
        with pytest.raises(ValueError, match=r"run a sweep|training\.run|no cells"):
            wrong()


def test_the_panel_points_and_tells():
    pytest.importorskip("ipywidgets", reason="the panel is for notebooks")
    panel = TradeoffPanel(ALL)
    assert panel.selected == "cheap"
    assert "Experiment(" in panel._words.value
    panel.select("dear")
    drawing = panel.draw()
    assert drawing.svg().count("<title>") == 1 + 3
    assert drawing.title.startswith("dear: 93.00 % for 2.0 kB, 2 seeds, on the front\n")
    assert re.search(r"update up +4\.0 kB +2\.0 kB +5 B", drawing.title)
    assert drawing.png()[0]["text/plain"] == drawing.html()[0]["text/plain"] == drawing.title
    with pytest.raises(KeyError, match="there are"):
        TradeoffPanel(ALL, name="none")
    with pytest.raises(ValueError, match="run a sweep first"):
        TradeoffPanel([FAILED])


def test_sizes_come_from_records():
    (size,) = sizes_of(CHEAP[0].history[-1])
    assert size == ("update", "up", 400, 200, 5)


def test_the_page_is_whole_and_safe():
    evil = made_up("<script>alert(1)</script>", 0, (5, 0.3), rounds=8)
    page = html_report([*ALL, evil], title="a & b", target=0.5)
    assert "<script>" not in page
    assert "a &amp; b" in page
    sources = re.findall(r"(?:src|href)=(.{23})", page)
    assert set(sources) == {'"data:image/png;base64,'}
    pictures = re.findall(r"base64,([^\"]+)", page)
    assert len(pictures) == 5
    assert all(base64.b64decode(p).startswith(b"\x89PNG") for p in pictures)
    assert "ValueError: no" in page
    with pytest.raises(ValueError, match="none of the 1 experiments"):
        html_report([FAILED])


# ------------------------------------------------------------------------------------ suggestions

TASK = Experiment("relay", num_clients=3, num_samples=300, rounds=2, lr=0.1, batch_size=16)


def test_the_space_is_drawn_from_the_seed():
    one = space(TASK, 10, seed=1)
    assert one == space(TASK, 10, seed=1)
    assert one != space(TASK, 10, seed=2)
    assert len({e.key for e in one}) == 10
    assert {e.protocol for e in one} > {"fedavg"}
    alone = space(Experiment("split"), 10, seed=1)
    assert {e.protocol for e in alone} <= {"split", "split_async"}


@pytest.mark.slow
def test_suggest_keeps_to_the_budget_and_finds_the_same_again():
    budget = 300_000
    found = suggest(TASK, budget, num_candidates=3, seed=3)
    again = suggest(TASK, budget, num_candidates=3, seed=3)
    assert (found.best, found.accuracy, found.nbytes) == (again.best, again.accuracy, again.nbytes)
    assert found.best.validation == 0
    assert len(found.tried) == 3
    assert found.tried[0][0] == found.best.title
    assert found.nbytes == sum(nbytes for _, nbytes, _ in found.tried)
    spent = spend(found.best, budget)
    assert 0 < spent[-1]["nbytes"] <= budget
    with pytest.raises(ValueError, match="pay for no evaluation"):
        suggest(TASK, 10, num_candidates=2)
    with pytest.raises(ValueError, match="no candidates"):
        suggest(TASK, 10, candidates=[])


def test_halving_by_hand(monkeypatch):
    """Four candidates: the two better at a quarter go on, the better at a half to the end."""
    curves = {
        0: [(20, 0.1), (50, 0.9), (100, 0.9)],  # late: dropped at a quarter
        1: [(25, 0.5), (50, 0.6), (100, 0.7)],
        2: [(25, 0.4), (50, 0.8), (90, 0.85), (120, 0.99)],  # the last is not in the budget
        3: [(30, 0.9)],  # nothing within a quarter
    }
    monkeypatch.setattr(
        suggest_module,
        "records",
        lambda e: iter([{"nbytes": b, "accuracy": a} for b, a in curves[e.seed]]),
    )
    found = suggest(TASK, 100, candidates=[Experiment(seed=seed) for seed in curves])
    assert (found.best.seed, found.accuracy) == (2, 0.85)
    assert [nbytes for _, nbytes, _ in found.tried] == [120, 100, 50, 30]


def test_one_that_diverges_is_out(monkeypatch):
    def records(experiment):
        yield {"nbytes": 10, "accuracy": 0.5}
        if experiment.seed:
            raise (FloatingPointError, ValueError)[experiment.seed - 1]("holds NaN")
        yield {"nbytes": 20, "accuracy": 0.4}

    monkeypatch.setattr(suggest_module, "records", records)
    found = suggest(TASK, 20, candidates=[Experiment(seed=seed) for seed in (1, 0, 2)])
    assert (found.best.seed, found.accuracy, found.nbytes) == (0, 0.4, 40)
    assert [accuracy for *_, accuracy in found.tried] == [0.4, -1, -1]
    with pytest.raises(ValueError, match=r"pay for no evaluation.*split: holds NaN"):
        suggest(TASK, 20, candidates=[Experiment(seed=1)])
    with pytest.raises(ValueError, match="nbytes=nan: a budget above 0"):
        spend(Experiment(), float("nan"))


# ----------------------------------------------------------------------------------- command line


def test_from_a_file_to_a_page(tmp_path, capsys):
    file = tmp_path / "plan.yaml"
    file.write_text(
        "defaults: {num_samples: 64, rounds: 1}\n"
        "experiments:\n- {name: plain}\n- {name: diverges, lr: 1.0e+30}\n"
    )
    assert main(["sweep", str(file)]) == 1
    out, err = capsys.readouterr()
    assert "| plain |" in out
    assert "failed: diverges, seed 0: FloatingPointError" in err
    store = tmp_path / "plan.db"
    assert len(Store(store)) == 2
    assert main(["compare", str(store), "--target", "0.01", "--budget", "1MB"]) == 0
    assert "accuracy within 1.0 MB" in capsys.readouterr().out
    assert main(["report", str(store)]) == 0
    assert "</html>" in (tmp_path / "plan.html").read_text()


CODEC = """
from fltoolkit.codecs import Stage
from fltoolkit.research import allow

class Nothing(Stage):
    def apply(self, parts):
        return parts

    undo = apply

    def __repr__(self):
        return "Nothing()"

allow(Nothing)
"""


def test_a_codec_of_ones_own(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(spec, "_NAMES", {**spec._NAMES})
    Path("own_codec.py").write_text(CODEC)
    plan = ["- {num_samples: 64, rounds: 1}"]
    plan += ["- {num_samples: 64, rounds: 1, codecs: {gradients: Pipeline(Nothing())}}"]
    Path("plan.yaml").write_text("\n".join(plan))
    assert main(["sweep", "plan.yaml"]) == 2
    assert "--import MODULE" in capsys.readouterr().err
    assert main(["sweep", "plan.yaml", "--import", "own_codec"]) == 0
    assert "Pipeline(Nothing())" in capsys.readouterr().out
    del spec._NAMES["Nothing"]  # as in a new process
    assert main(["compare", "plan.db"]) == 0
    out, err = capsys.readouterr()
    assert "| split |" in out
    assert "plan.db: 1 of 2 experiments are left out" in err


def test_budgets_are_numbers_with_a_unit(capsys):
    assert _nbytes(".5 kB") == 500
    with pytest.raises(SystemExit):
        main(["compare", "x.db", "--budget", "1.2.3MB"])
    assert "'1.2.3MB': write a number with B" in capsys.readouterr().err


def test_run_says_what_it_does(capsys):
    words = ["protocol=fedavg", "num_samples=64", "rounds=1", "lr=0.1", "settings.local_steps=1"]
    assert main(["run", *words, "codecs.update=Pipeline(Quantize(4))"]) == 0
    assert re.search(r"round +1\.00 +accuracy", capsys.readouterr().out)
    assert main(["run", *words, "--print"]) == 0
    assert "local_steps: 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "protocol=fedavgg"], "choose one of split"),
        (["run", "nothing.yaml"], "nothing.yaml"),
        (["compare", "nothing.db"], "fltoolkit sweep makes one"),
        (["run", "lr=fast"], "lr='fast' is a str"),
        (["run", "protocol=fedavg", "settings.masked=no"], "['masked'] = 'no': give True or False"),
        (["run", "--import", "not_there"], "No module named 'not_there'"),
    ],
)
def test_mistakes_are_told_in_a_line(words, message, capsys):
    assert main(words) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.startswith(f"fltoolkit {words[0]}: ")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_teaches(command, capsys):
    with pytest.raises(SystemExit) as left:
        main([*filter(None, [command]), "--help"])
    assert left.value.code == 0
    out = capsys.readouterr().out
    assert "examples:" in out or "commands:" in out
